"""What pytest is told about docstrings."""

import shutil
from pathlib import Path

pytest_plugins = ["pytester"]


def test_a_module_that_its_package_imports_is_executed_once(pytester):
    shutil.copy(Path(__file__).parents[1] / "src" / "conftest.py", pytester.path)
    once = '"""\n>>> import package\n>>> package.A is A\nTrue\n"""\n'
    texts = {"__init__": "from package.a import A", "a": "class A: pass"}
    texts["b"] = f"{once}from package.a import A"
    pytester.makepyfile(**{f"package/{name}": text for name, text in texts.items()})
    pytester.syspathinsert()
    words = ("--doctest-modules", "--import-mode=importlib")
    result = pytester.runpytest_inprocess(*words, "package/a.py", "package/b.py")
    result.assert_outcomes(passed=1)

"""The layers of the package: imports go down, and never in a circle; and what files of tests are called."""

import ast
import graphlib
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from sweeps import lines, over

ROOT = Path(__file__).resolve().parents[1]


@cache
def tree_of(path):
    return ast.parse(path.read_bytes())


def tree_of_imports(path):
    """Parse a module up to its first function or class, or all of it where an import may stand below."""
    source = path.read_text(encoding="utf-8")
    head, *below = re.split(
        r"^(?=def |async def |class |@)", source, maxsplit=1, flags=re.MULTILINE
    )
    statement = r"^(?:from|import|if|elif|else|try|except|finally|with|for|while|match)\b"
    in_a_class = r"^class [^\n]*(?:\n(?: [^\n]*)?)*?\n {4}(?:from|import|if|try|with) "
    late = below and re.search(f"{statement}|{in_a_class}", below[0], re.MULTILINE)
    return tree_of(path) if late else ast.parse(head)


def imports(package):
    """Return the modules that each module of a package imports when it is loaded or for its types."""
    paths = {}
    for path in package.rglob("*.py"):
        name = ".".join([package.name, *path.relative_to(package).with_suffix("").parts])
        paths[name.removesuffix(".__init__")] = path
    found = {}
    for name, path in paths.items():
        waiting = [tree_of_imports(path)]
        nodes = []
        while waiting:  # imports inside functions are not those of the module
            children = [
                node
                for node in ast.iter_child_nodes(waiting.pop())
                if not isinstance(node, ast.FunctionDef)
            ]
            nodes += [node for node in children if isinstance(node, ast.ImportFrom)]
            waiting += [node for node in children if isinstance(node, ast.stmt)]
        targets = {(node.module, alias.name) for node in nodes for alias in node.names}
        modules = {
            f"{module}.{alias}" if f"{module}.{alias}" in paths else module
            for module, alias in targets
        }
        found[name] = (modules & set(paths)) - {name}
    return found


def test_no_modules_import_each_other():
    found = imports(ROOT / "src" / "dyadlearn")
    assert len(found) > 100
    graphlib.TopologicalSorter(found).prepare()


LATE = "def f():\n    from round.c import z\n"


@over(
    lines(
        "source",
        "if TYPE_CHECKING:\n    from round.a import y\n",
        LATE + "if TYPE_CHECKING:\n    from round.a import y\n",
        LATE + "from round.a import y\n",
        LATE + "class A:\n    x: int\n\n    from round.a import y\n",
    )
)
def test_a_circle_would_be_seen(tmp_path, source):
    package = tmp_path / "round"
    package.mkdir()
    (package / "a.py").write_text("from round.b import x\n")
    (package / "b.py").write_text(source)
    (package / "c.py").touch()
    found = imports(package)
    assert found["round.b"] == {"round.a"}
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter(found).prepare()


def lint_imports(folder, *path):
    """Run import-linter with the contracts of `folder`, looking for the package in `path` first."""
    script = (
        f"import sys; sys.path[:0] = {[str(entry) for entry in path]!r}\n"
        "from importlinter.cli import lint_imports\n"
        "sys.exit(lint_imports(no_cache=True))"
    )
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=False
    )


def test_modules_import_only_from_layers_below():
    pytest.importorskip(
        "importlinter", reason="import-linter is not installed: the layers are not checked"
    )
    done = lint_imports(ROOT, ROOT / "src")
    assert done.returncode == 0, done.stdout + done.stderr


# --- public names ----------------------------------------------------------------------------------

EXTENSIONS = (
    ("diagnostics", "views", "report", "plots", "cli", "datasets", "store", "_files"),
    ("distributed", "streams"),
)


def private_names(path):
    """Return the private attributes that a module reads of objects whose class it does not define."""
    nodes = list(ast.walk(tree_of(path)))
    own = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    own |= {
        node.target.id
        for node in nodes
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    found = []
    for node in nodes:
        name = None
        of = None
        if isinstance(node, ast.Attribute):
            name = node.attr
            of = node.value
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "id", "") == "getattr"
            and len(node.args) > 1
        ):
            name = getattr(node.args[1], "value", None)
        if not isinstance(name, str) or not name.startswith("_") or name.startswith("__"):
            continue
        if isinstance(of, ast.Name) and of.id in ("self", "cls"):
            own.add(name)
        else:
            found.append((name, node.lineno))
    return [f"{path.name}:{line} reads {name}" for name, line in found if name not in own]


def test_extensions_read_public_names_alone():
    package = ROOT / "src" / "dyadlearn"
    paths = [path for folder in EXTENSIONS[0] for path in (package / folder).rglob("*.py")]
    paths += [package / f"{module}.py" for module in EXTENSIONS[1]]
    assert len(paths) > 40
    assert [each for path in paths for each in private_names(path)] == []


def test_a_private_name_would_be_seen(tmp_path):
    path = tmp_path / "module.py"
    read = "self._x, b._own, b._y, getattr(b, '_z')"
    lines = ("class A:", "    _own: int", "    def f(self, b):", f"        return {read}")
    path.write_text("\n".join(lines))
    assert private_names(path) == ["module.py:4 reads _y", "module.py:4 reads _z"]


#: Modules below all layers, which are no part of the theory: arrays, tables, text, checks, files.
TOOLS = "_"


def core_names(package):
    """Return the names of the core that extensions import, with the module that each is imported from."""
    found = set()
    for path in (path for folder in EXTENSIONS[0] for path in (package / folder).rglob("*.py")):
        found |= imported_names(path)
    for module in EXTENSIONS[1]:
        found |= imported_names(package / f"{module}.py")
    extensions = {each for some in EXTENSIONS for each in some}
    parts = {each: each[0].split(".") for each in found}
    return {
        each
        for each, (_, *rest) in parts.items()
        if rest and rest[0] not in extensions and not rest[0].startswith(TOOLS)
    }


def imported_names(path):
    """Return the names that a module imports from the package, anywhere in it."""
    nodes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ImportFrom)]
    return {
        (node.module, alias.name)
        for node in nodes
        if node.module and node.module.startswith("dyadlearn")
        for alias in node.names
    }


def is_documented(module, name):
    """Return whether a name has a docstring, or, being a constant or an alias, a comment ``#:`` above it."""
    home = importlib.import_module(module)
    value = getattr(home, name)
    home = importlib.import_module(getattr(value, "__module__", None) or module)
    lines = inspect.getsource(
        home if home.__name__.startswith("dyadlearn") else importlib.import_module(module)
    )
    if re.search(rf"^#: [^\n]*\n(?:#[^\n]*\n)*{name}\b[^\n]* = ", lines, re.MULTILINE):
        return True
    return (inspect.isclass(value) or callable(value)) and bool((value.__doc__ or "").strip())


def test_extensions_use_few_names_of_the_core_all_public_and_documented():
    found = core_names(ROOT / "src" / "dyadlearn")
    # The same name of a package and of a module in it is one.
    names = {
        (getattr(getattr(importlib.import_module(module), name), "__module__", module), name)
        for module, name in found
    }
    assert 60 < len(names) <= 135
    assert [
        each
        for each in found
        if any(part.startswith("_") for part in (*each[0].split("."), each[1]))
    ] == []
    assert [each for each in sorted(found) if not is_documented(*each)] == []


def test_a_name_without_a_docstring_would_be_seen(tmp_path):
    assert not is_documented("dyadlearn.metrics.scorers", "_LABELS")
    path = tmp_path / "module.py"
    path.write_text("def f():\n    from dyadlearn.models._hidden import g\n    return g\n")
    assert imported_names(path) == {("dyadlearn.models._hidden", "g")}


# --- names of test files ---------------------------------------------------------------------------

#: Test files that are named after nothing in the repository, with the reason.
NAMED_OTHERWISE = {
    "test_architecture.py": "the rules of docs/architecture.md and of CONTRIBUTING.md"
}


def subjects(folder):
    """Return the names that test files of ``tests/FOLDER`` (or of ``tests``) may begin with."""
    package = ROOT / "src" / "dyadlearn"
    if folder:
        places = (package / folder, package / f"_{folder}", ROOT / folder)
        places = [place for place in places if place.is_dir()]
    else:
        places = [ROOT, ROOT / "src", package, ROOT / "tests"]
    found = {path.stem.lower() for place in places for path in place.iterdir()}
    found = {name.removeprefix("_") for name in found if not name.startswith(("__", "test_"))}
    return found | {folder} if places and folder else found


def is_named_after(path, names):
    """Return whether a test file is called ``test_NAME.py`` or ``test_NAME_SUBJECT.py``."""
    name = path.stem.removeprefix("test_")
    return any(f"{name}_".startswith(f"{begin}_") for begin in names)


def test_files_of_tests_are_named_after_what_they_test():
    tests = ROOT / "tests"
    paths = [path.relative_to(tests) for path in tests.rglob("test_*.py")]
    assert len(paths) > 250
    names = {folder: subjects(folder) for folder in {str(path.parent) for path in paths} - {"."}}
    names["."] = subjects("")
    others = {str(path) for path in paths if not is_named_after(path, names[str(path.parent)])}
    assert others == NAMED_OTHERWISE.keys()


@over(
    lines(
        "file is_right",
        ("kernels/test_vectors.py", True),
        ("kernels/test_vectors_vanraden.py", True),
        ("kernels/test_kernels_memory.py", True),
        ("kernels/test_strings.py", True),
        ("kernels/test_vectorsofrows.py", False),
        ("kernels/test_splitters.py", False),
        ("files/test_files_hostile.py", True),
        ("experiments/test_lshtc.py", True),
        ("nowhere/test_nowhere.py", False),
    )
)
def test_a_test_file_that_is_named_otherwise_would_be_seen(file, is_right):
    path = Path(file)
    assert is_named_after(path, subjects(str(path.parent))) == is_right

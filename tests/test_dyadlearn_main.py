"""The command is quiet from its first moment on."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dyadlearn

START = "import sys; sys.argv = ['dyadlearn', 'inspect', 'gone']; from _dyadlearn_main import main; main()"
INTERRUPT = """
import os, signal, sys
class Interrupt:
    is_loading = False
    def find_spec(self, name, path=None, target=None):
        if name == "{}" or self.is_loading and "{}" == "anything":
            os.kill(os.getpid(), signal.SIGINT)
        self.is_loading |= name == "_dyadlearn_main"
sys.meta_path.insert(0, Interrupt())
# As where a shell did not start the tests in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


QUIET = (130, "", "dyadlearn: interrupted.\n")
GONE = (2, "", "dyadlearn: gone: No such file or directory.\n")
VERSION = (0, f"dyadlearn {dyadlearn.__version__}\n", "")


def run(*words: str, **given: Any) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False, **given)
    return done.returncode, done.stdout, done.stderr


def interrupt(name: str) -> str:
    """Return a script that interrupts its process when a module is looked for."""
    return INTERRUPT.format(name, name)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself elsewhere")
def test_an_interrupt_while_it_is_loaded_is_one_line():
    for name in ("anything", "scipy"):
        assert run("-c", interrupt(name) + START) == QUIET
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN);"
    after = "; assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    script = interrupt("scipy") + ignored + START.replace("main()", "") + "\ntry: main()\nexcept SystemExit: pass\n"
    assert run("-c", script + after[2:]) == (0, *GONE[1:])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself elsewhere")
def test_an_interrupt_while_the_package_is_loaded_as_a_command_is_one_line(tmp_path):
    """Python loads a package before anything in it runs as a command."""
    places = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    for module in ("dyadlearn", "dyadlearn.cli"):
        (tmp_path / "sitecustomize.py").write_text(interrupt("scipy"), encoding="utf-8")
        assert run("-m", module, "inspect", "gone", env={**os.environ, "PYTHONPATH": places}) == QUIET
    script = (
        interrupt("scipy") + "\ntry:\n    import dyadlearn.models\nexcept KeyboardInterrupt:\n    print('raised')\n"
    )
    assert run("-c", script) == (0, "raised\n", "")


def test_it_is_what_is_installed():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"dyadlearn": "_dyadlearn_main:main"}
    assert "src/_dyadlearn_main.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_the_package_is_the_command():
    assert run("-m", "dyadlearn", "--version") == VERSION


def test_help_and_wrong_options_load_neither_numpy_nor_the_library():
    script = """
import sys
from _dyadlearn_main import main
for words in (["tune", "--help"], ["evaluate", "--nonsense"], ["tune"]):
    sys.argv = ["dyadlearn", *words]
    try:
        main()
    except SystemExit as stop:
        print("ended with", stop.code, "numpy" in sys.modules, "dyadlearn.models" in sys.modules)
"""
    ends = [line for line in run("-c", script)[1].splitlines() if line.startswith("ended with")]
    assert ends == [f"ended with {code} False False" for code in (0, 2, 2)]

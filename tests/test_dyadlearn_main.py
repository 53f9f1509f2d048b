"""The command is quiet from its first moment on."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dyadlearn

START = "import sys; sys.argv = ['dyadlearn', '--version']; from _dyadlearn_main import main; main()"
INTERRUPT = """
import os, signal, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "scipy":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupt())
# As where a shell did not start the tests in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


def run(script: str) -> tuple[int, str, str]:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself elsewhere")
def test_an_interrupt_while_it_is_loaded_is_one_line():
    assert run(INTERRUPT + START) == (130, "", "dyadlearn: interrupted; no output was written.\n")
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN);"
    after = "; assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    script = INTERRUPT + ignored + START.replace("main()", "") + "\ntry: main()\nexcept SystemExit: pass\n" + after[2:]
    assert run(script) == (0, f"dyadlearn {dyadlearn.__version__}\n", "")


def test_it_is_what_is_installed():
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"dyadlearn": "_dyadlearn_main:main"}
    assert "src/_dyadlearn_main.py" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]


def test_the_package_is_the_command():
    words = [sys.executable, "-m", "dyadlearn", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"dyadlearn {dyadlearn.__version__}\n", "")

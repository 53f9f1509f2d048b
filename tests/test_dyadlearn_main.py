"""The command is quiet from its first moment on."""

import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dyadlearn

START = "import sys; sys.argv = ['dyadlearn', 'inspect', 'gone']; from _dyadlearn_main import main; main()"
INTERRUPT = """
import os, signal, sys
class Interrupt:
    is_loading = False
    def find_spec(self, name, path=None, target=None):
        if name == "{name}" or self.is_loading and "{name}" == "anything":
            os.kill(os.getpid(), signal.{signal})
        self.is_loading |= name == "_dyadlearn_main"
sys.meta_path.insert(0, Interrupt())
# As where a shell did not start the tests in its background.
signal.signal(signal.SIGINT, signal.default_int_handler)
"""


QUIET = (130, "", "dyadlearn: interrupted.\n")
TERMINATED = (143, "", "dyadlearn: terminated.\n")
GONE = (2, "", "dyadlearn: gone: No such file or directory.\n")
VERSION = (0, f"dyadlearn {dyadlearn.__version__}\n", "")


def run(*words, **given):
    done = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, check=False, **given
    )
    return done.returncode, done.stdout, done.stderr


def interrupt(name, signal="SIGINT"):
    """Return a script that interrupts its process when a module is looked for."""
    return INTERRUPT.format(name=name, signal=signal)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself elsewhere")
def test_an_interrupt_while_it_is_loaded_is_one_line():
    for name in ("anything", "scipy"):
        assert run("-c", interrupt(name) + START) == QUIET
    assert run("-c", interrupt("scipy", "SIGTERM") + START) == TERMINATED
    ignored = "signal.signal(signal.SIGINT, signal.SIG_IGN);"
    after = "; assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    script = (
        interrupt("scipy")
        + ignored
        + START.replace("main()", "")
        + "\ntry: main()\nexcept SystemExit: pass\n"
    )
    assert run("-c", script + after[2:]) == (0, *GONE[1:])


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself elsewhere")
def test_an_interrupt_while_the_package_is_loaded_as_a_command_is_one_line(tmp_path):
    """Python loads a package before anything in it runs as a command."""
    places = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    for module in ("dyadlearn", "dyadlearn.cli"):
        (tmp_path / "sitecustomize.py").write_text(interrupt("scipy"), encoding="utf-8")
        assert (
            run("-m", module, "inspect", "gone", env={**os.environ, "PYTHONPATH": places}) == QUIET
        )
    script = (
        interrupt("scipy")
        + "\ntry:\n    import dyadlearn.models\nexcept KeyboardInterrupt:\n    print('raised')\n"
    )
    assert run("-c", script) == (0, "raised\n", "")


LAST = """
import atexit, os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
class Late:
    def __del__(self):
        os.kill(os.getpid(), {number})
atexit.register(os.kill, os.getpid(), {number})
late = Late()
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself elsewhere")
def test_a_signal_that_comes_too_late_changes_nothing():
    for number in (signal.SIGINT, signal.SIGTERM):
        script = LAST.format(number=int(number)) + START
        assert run("-c", script) == GONE
        assert run("-c", script.replace("'inspect', 'gone'", "'--version'")) == VERSION


SLOW = """
import sys, time
import dyadlearn._progress, dyadlearn.models.decomposing
import dyadlearn.selection.searching as searching
import dyadlearn.cli.models as models, dyadlearn.cli.tune as tune
dyadlearn._progress._LOGGED = (0.2, 0.2)
def slow(owner, name):
    own = getattr(owner, name)
    def slowly(*given, **more):
        time.sleep(0.5)
        return own(*given, **more)
    setattr(owner, name, slowly)
slow(dyadlearn.models.decomposing, "fit_side")
slow(searching, "_solved")
slow(searching, "_validated")
slow(tune, "read_dyads")
slow(models, "write_model")
slow(tune, "_params")
sys.argv = "dyadlearn tune y.csv --instances x.csv --tasks t.csv --alphas 1,10 -o m.dyad".split()
from _dyadlearn_main import main
main()
"""
PHASES = (
    "Working",
    "Reading",
    "Decomposing 6 instances",
    "Decomposing 4 tasks",
    "Final fit",
    "Hold-out",
    "Writing",
)


@pytest.mark.slow
def test_every_phase_of_tune_is_told(tmp_path):
    for name, shape in (("x", (6, 2)), ("t", (4, 2)), ("y", (6, 4))):
        rows = [
            "," + ",".join(f"{'t' if name == 'y' else 'f'}{column}" for column in range(shape[1]))
        ]
        for row in range(shape[0]):
            values = [f"{(row * 7 + column * 3) % 5}" for column in range(shape[1])]
            rows.append(",".join([f"{'t' if name == 't' else 'x'}{row}", *values]))
        (tmp_path / f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    code, _, told = run(
        "-c", SLOW, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
    assert code == 0, told
    titles = list(
        dict.fromkeys(
            line.split(":")[0] for line in told.splitlines() if not line.startswith("note")
        )
    )
    assert [title for title in titles if title in PHASES] == list(PHASES), told


def test_it_is_what_is_installed():
    project = tomllib.loads(
        (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    )
    assert project["project"]["scripts"] == {"dyadlearn": "_dyadlearn_main:main"}
    assert (
        "src/_dyadlearn_main.py"
        in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    )


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

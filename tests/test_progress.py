"""The progress line: on a terminal, below a notebook's cell, and in a log."""

from __future__ import annotations

import io
import sys
import types

import pytest

from dyadlearn import _progress
from dyadlearn._progress import Progress
from sweeps import lines, over


class Terminal(io.StringIO):
    """Standard error that somebody watches."""

    def isatty(self):
        return True


class Notebook(io.StringIO):
    """Standard error of a notebook's kernel, and a clock that moves by a second at each look."""

    def __init__(self, monkeypatch, kernel=True, step=1.0):
        super().__init__()
        self.now, self.step = 0.0, step
        shell = types.SimpleNamespace(kernel=object()) if kernel else types.SimpleNamespace()
        package = types.ModuleType("IPython")
        package.get_ipython = lambda: shell
        monkeypatch.setitem(sys.modules, "IPython", package)
        monkeypatch.setattr(_progress, "monotonic", self.clock)
        monkeypatch.setattr(sys, "stderr", self)

    def clock(self):
        self.now += self.step
        return self.now

    @property
    def shown(self):
        """Return the lines that were shown, one over the other."""
        return [line.strip() for line in self.getvalue().split("\r") if line.strip()]


def counted(total, title="Folds", show=None, steps=3):
    with Progress(total, title, show) as bar:
        for _ in range(steps):
            bar.advance()


@pytest.fixture
def nobody(monkeypatch):
    """Let nobody watch: no terminal, and no IPython in memory."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())


def test_nobody_watches_and_nothing_is_shown(nobody, capsys):
    counted(3)
    assert sys.stderr.getvalue() == ""
    assert capsys.readouterr().out == ""
    counted(3, show=True)  # but to those who ask for it
    assert sys.stderr.getvalue() == "Folds: 3 of 3, 0:00, about 0:00 left\n"


def test_a_log_has_a_line_from_time_to_time(nobody, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clock = iter(range(1000))
    monkeypatch.setattr(_progress, "monotonic", lambda: float(next(clock)))
    counted(100, steps=50)
    *shown, last = sys.stderr.getvalue().splitlines()
    assert len(shown) == 5
    assert shown[0].startswith("Folds: 10 of 100, 0:1")
    assert last.startswith("Folds: 50 of 100, ")
    counted(100, steps=50, show=False)
    assert last == sys.stderr.getvalue().splitlines()[-1]


def test_more_steps_than_expected(nobody, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    counted(2, show=True)
    assert sys.stderr.getvalue().startswith("Folds: 3, 0:00")


def test_a_terminal_has_a_line_that_goes(nobody, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    clock = iter(range(1000))
    monkeypatch.setattr(_progress, "monotonic", lambda: float(next(clock)))
    counted(3)
    first, *_, last = sys.stderr.getvalue().split("\r")
    assert "Folds: 3 of 3, " in sys.stderr.getvalue()
    assert (first, last) == ("", "")
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(None, "Fetching", None):  # work without steps
        _progress._display().beat()
    assert sys.stderr.getvalue().startswith("\rFetching: 0:01\r ")
    monkeypatch.setattr(sys, "stderr", Terminal())
    counted(3, show=False)
    assert sys.stderr.getvalue() == ""


def test_a_notebook_has_a_line_that_goes(nobody, monkeypatch):
    notebook = Notebook(monkeypatch)
    counted(4, steps=4)
    assert notebook.shown == [
        "Folds: 1 of 4, 0:01, about 0:03 left",
        "Folds: 2 of 4, 0:02, about 0:02 left",
        "Folds: 3 of 4, 0:03, about 0:01 left",
        "Folds: 4 of 4, 0:04, about 0:00 left",
    ]
    assert notebook.getvalue().endswith(" \r")


@over(lines("step total words", (1.0, None, "Folds: 1, 0:01"), (61.0, 0, "Folds: 1, 1:01")))
def test_steps_that_nobody_knows(step, total, words):
    with pytest.MonkeyPatch.context() as monkeypatch:
        notebook = Notebook(monkeypatch, step=step)
        counted(total)
        assert words in notebook.shown


def test_what_takes_no_time_shows_nothing(nobody, monkeypatch):
    notebook = Notebook(monkeypatch, step=0.01)
    counted(9, steps=9)
    assert notebook.shown == []
    notebook.step = 0.1  # and what goes on quickly is not shown at each step
    counted(99, steps=99)
    assert 20 < len(notebook.shown) < 40


def test_it_goes_when_something_fails(nobody, monkeypatch):
    notebook = Notebook(monkeypatch)

    def stopped():
        with Progress(5, "Folds", None) as bar:
            bar.advance(title="Other")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert notebook.shown[0].startswith("Other: 1 of 5")
    assert notebook.getvalue().endswith(" \r")


def test_ipython_without_a_kernel_is_no_notebook(nobody, monkeypatch):
    notebook = Notebook(monkeypatch, kernel=False)
    counted(3)
    assert notebook.shown == []


def test_false_is_no(nobody, monkeypatch):
    notebook = Notebook(monkeypatch)
    counted(3, show=False)
    assert notebook.shown == []

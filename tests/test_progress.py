"""The progress line: on a terminal, below a notebook's cell, and in a log."""

import io
import sys
import threading
import time
import types

import pytest

from dyadlearn import _progress
from dyadlearn._progress import Phase, Progress


class Terminal(io.StringIO):
    """Standard error that somebody watches."""

    def isatty(self):
        return True


class Notebook(io.StringIO):
    """Standard error of a notebook's kernel, and a clock that moves by a second at each look."""

    def __init__(self, monkeypatch, kernel=True, step=1.0):
        super().__init__()
        self.now = 0.0
        self.step = step
        if kernel:
            shell = types.SimpleNamespace(kernel=object())
        else:
            shell = types.SimpleNamespace()
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


def counted(total, show=None, steps=3):
    with Progress(total, "Folds", show) as bar:
        for _ in range(steps):
            bar.advance()


@pytest.fixture(autouse=True)
def nobody(monkeypatch):
    """Let nobody watch: no terminal, and no IPython in memory."""
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    monkeypatch.setattr(sys, "stderr", io.StringIO())


def test_nobody_watches_and_nothing_is_shown(capsys):
    counted(3)
    assert sys.stderr.getvalue() == ""
    assert capsys.readouterr().out == ""
    counted(3, show=True)  # but to those who ask for it
    assert sys.stderr.getvalue() == "Folds: 3 of 3, 0:00, about 0:00 left\n"


def test_a_log_has_a_line_from_time_to_time(monkeypatch):
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


def test_a_terminal_has_a_line_that_goes(monkeypatch):
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


def test_a_notebook_has_a_line_that_goes(monkeypatch):
    notebook = Notebook(monkeypatch)
    counted(4, steps=4)
    assert notebook.shown == [
        "Folds: 1 of 4, 0:01, about 0:03 left",
        "Folds: 2 of 4, 0:02, about 0:02 left",
        "Folds: 3 of 4, 0:03, about 0:01 left",
        "Folds: 4 of 4, 0:04, about 0:00 left",
    ]
    assert notebook.getvalue().endswith(" \r")


def test_it_goes_when_something_fails(monkeypatch):
    notebook = Notebook(monkeypatch)

    def stopped():
        with Progress(5, "Folds", None) as bar:
            bar.advance(title="Other")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert notebook.shown[0].startswith("Other: 1 of 5")
    assert notebook.getvalue().endswith(" \r")


# Lines within lines, and steps that take long ------------------------------------------------------


class Log:
    """Standard error as a log, and a clock that moves when it is told to."""

    def __init__(self, monkeypatch):
        self.now, self.file = 0.0, io.StringIO()
        monkeypatch.setattr(_progress, "monotonic", lambda: self.now)
        monkeypatch.setattr(_progress, "_PULSE", 1000.0)  # `wait` does what the thread would
        monkeypatch.setattr(sys, "stderr", self.file)

    def wait(self, seconds):
        """Let time pass, in which a thread would look at the clock four times a second."""
        for _ in range(4 * seconds):
            self.now += 0.25
            _progress._display().beat()

    @property
    def lines(self):
        return self.file.getvalue().splitlines()


def test_a_step_that_takes_long_is_told_every_ten_seconds(monkeypatch):
    log = Log(monkeypatch)
    with Progress(None, "Decomposing 5,000 instances", None):
        log.wait(35)
    assert log.lines[:3] == [
        f"Decomposing 5,000 instances: 0:{seconds}" for seconds in (10, 20, 30)
    ]


def test_all_phases_are_told_and_counted_in_what_is_left(monkeypatch):
    """A search of four points and a final fit that takes as long as two of them."""
    log = Log(monkeypatch)
    with Progress(None, "Working", None):
        with Phase("Reading"):
            log.wait(10)
        with Progress(6, "Search B", None):
            with Progress(4, "Search B", None, of=4) as search:
                for _ in range(4):
                    log.wait(10)
                    search.advance()
            with Phase("Final fit", of=2):
                log.wait(20)
        log.wait(10)
    told = [line for line in log.lines if "Reading" not in line]
    assert told[0] == "Search B: 0 of 4, 0:10"
    assert "Search B: 1 of 4, 0:20, about 0:40 left" in told
    assert "Search B: 3 of 4, 0:40, about 0:20 left" in told
    assert "Final fit: 0:50, about 0:10 left" in told
    assert told[-1] == "Working: 1:20"
    assert log.lines[0] == "Reading: 0:10"


def test_a_silent_line_silences_those_inside(monkeypatch):
    log = Log(monkeypatch)
    with Progress(3, "Folds", False), Progress(3, "Inner", True) as bar, Phase("Phase"):
        bar.advance()
        log.wait(30)
    with Phase("Alone"):  # nothing around it is shown
        log.wait(30)
    assert log.lines == []


def threads():
    return [thread for thread in threading.enumerate() if thread.name == "progress"]


def test_the_thread_is_one_and_ends_with_the_outermost_line():
    with Progress(3, "Outer", None):
        with Progress(3, "Inner", None):
            assert len(threads()) == 1
        assert len(threads()) == 1
    assert threads() == []
    with Progress(3, "Silent", False):
        assert threads() == []
    with Progress(3, "Outer", None):
        Progress(3, "Left open by an interrupt", None).__enter__()
    assert threads() == []
    assert _progress._display().bars == []


def test_the_thread_repeats_the_line(monkeypatch):
    monkeypatch.setattr(_progress, "_PULSE", 0.005)
    monkeypatch.setattr(_progress, "_LOGGED", (0.0, 0.0))
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with Progress(None, "Waiting", None):
        end = time.monotonic() + 10
        while sys.stderr.getvalue().count("Waiting: 0:0") < 3:
            assert time.monotonic() < end
            time.sleep(0.005)


def test_nothing_is_shown_in_place_while_a_table_is_printed(monkeypatch):
    notebook = Notebook(monkeypatch)
    with Progress(4, "Folds", None) as bar:
        bar.advance()
        beat = threading.Thread(target=_progress._display().beat)
        with _progress.cleared():
            before = notebook.getvalue()
            beat.start()
            beat.join(0.05)
            assert notebook.getvalue() == before
        beat.join()
        assert notebook.getvalue().startswith(f"{before}\rFolds: 1 of 4")
    assert before.endswith(" \r")

"""One line of progress: on a terminal, below a notebook's cell, or in a log.

Lines may be nested: a command shows a line, the search in it another one, and its final fit a
third. The innermost one is shown, with the time that is left of the outermost one with a known
number of steps. A thread repeats the line while a step takes long; it ends with the outermost line.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any, Self

# Seconds until the first line and between two lines: on a terminal or in a notebook, and in a log.
_WATCHED = (0.5, 0.25)
_LOGGED = (10.0, 10.0)
# Seconds between two looks at the clock while a step takes long.
_PULSE = 0.25


class _Display:
    """The line of one thread, and the progress that it shows."""

    def __init__(self) -> None:
        # Open lines, the outermost first; those that show nothing are in the list too.
        self.bars: list[Progress] = []
        self.lock = threading.RLock()
        self.is_log = True
        self.shown = ""
        self._next = 0.0
        self._between = 0.0
        self._ended: threading.Event | None = None
        self._thread: threading.Thread | None = None

    def open(self, bar: Progress, now: float) -> None:
        with self.lock:
            is_first = not any(other.is_shown for other in self.bars)
            bar.depth = len(self.bars)
            self.bars.append(bar)
            if is_first and bar.is_shown:
                self._begin(now)

    def _begin(self, now: float) -> None:
        self.is_log = not sys.stderr.isatty() and not _in_notebook()
        first, self._between = _LOGGED if self.is_log else _WATCHED
        self._next = now + first
        self.shown = ""
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, args=(self._ended,), name="progress", daemon=True
        )
        with suppress(RuntimeError):  # a system without threads, or a process that ends
            self._thread.start()

    def close(self, bar: Progress) -> None:
        """Remove a line, and those inside it that an interrupt left open."""
        with self.lock:
            del self.bars[bar.depth :]
            is_last = not any(other.is_shown for other in self.bars)
        if is_last and self._ended is not None and self._thread is not None:
            self._ended.set()
            if self._thread.ident is not None:
                self._thread.join()
            self._ended = self._thread = None

    def _watch(self, ended: threading.Event) -> None:
        """Repeat the line until the end: the body of the thread."""
        while not ended.wait(_PULSE):
            with suppress(OSError, ValueError):  # standard error may be closed
                self.beat(ended)

    def beat(self, ended: threading.Event | None = None) -> None:
        """Show the line again if it is time."""
        with self.lock:
            if ended is None or not ended.is_set():
                self.refresh(monotonic())

    def refresh(self, now: float) -> None:
        """Show the innermost line if it is time."""
        with self.lock:
            shown = [bar for bar in self.bars if bar.is_shown]
            if shown and now >= self._next:
                self._next = now + self._between
                self.write(shown[-1].words(now))
                shown[-1].was_shown = True

    def write(self, words: str) -> None:
        with self.lock:
            if self.is_log:
                if words:
                    print(words, file=sys.stderr, flush=True)
            elif words or self.shown:
                # The old line is overwritten by blanks where the new one is shorter.
                end = "\r" if not words else ""
                print(f"\r{words:<{len(self.shown)}}", end=end, file=sys.stderr, flush=True)
            self.shown = words


_local = threading.local()


def _display() -> _Display:
    if not hasattr(_local, "display"):
        _local.display = _Display()
    display: _Display = _local.display
    return display


class Progress:
    """Counts finished steps and shows one line of them, such as ``Search D: 12 of 25, 0:41, about 0:44 left``.

    A terminal and a notebook update the line in place and clear it in the end. Any other standard
    error, such as the file of a log, gets another line from time to time: nothing for work of a few
    seconds, unless `show` is True. The line is repeated while a step takes long.

    Parameters
    ----------
    total : float or None
        Expected number of steps; None if unknown. It is no longer shown where there turn out to be
        more.
    title : str
    show : bool or None
        False shows nothing, also of the lines inside. None shows the line, but nothing in a log for
        work of a few seconds.
    of : float, default=0
        Number of steps of the enclosing line that this work takes. They are finished when this work
        is.
    """

    def __init__(self, total: float | None, title: str, show: bool | None, of: float = 0.0) -> None:
        self.total = total
        self.title = title
        self.show = show
        self.of = of
        self.is_shown = False
        self.was_shown = False
        self.depth = 0
        self._done = 0.0

    def __enter__(self) -> Self:
        self._display = _display()
        outer = self._display.bars
        self.is_shown = self.show is not False and (not outer or outer[-1].is_shown)
        # When the last step was finished.
        self._start = self._last = monotonic() if self.is_shown else 0.0
        self._display.open(self, self._start)
        return self

    def __exit__(self, kind: Any, *error: Any) -> None:
        display = self._display
        try:
            if kind is None and self.depth:
                self._add_to(display.bars[self.depth - 1])
            if self.is_shown and display.is_log:
                if (self.show or self.was_shown) and display.shown != (
                    last := self.words(monotonic())
                ):
                    display.write(last)
            elif self.is_shown:
                display.write("")
        finally:
            display.close(self)

    def advance(self, steps: float = 1, title: str | None = None) -> None:
        """Count finished steps, and change the title."""
        self._done += steps
        self.title = self.title if title is None else title
        if self.is_shown:
            now = monotonic()
            for bar in self._display.bars:
                bar._last = now
            self._display.refresh(now)

    def _add_to(self, outer: Progress) -> None:
        """Count this work in the enclosing line; steps that turned out not to be needed are left out there too."""
        if outer.total is not None and self.of:
            # Work whose steps were not counted is finished as a whole.
            share = min(self._share() or 1.0, 1.0)
            outer.total -= self.of * (1 - share)
            outer.advance(self.of * share)

    def expect(self, steps: float) -> None:
        """Say that so many steps are left, more or fewer than there were expected to be."""
        self.total = self._done + steps

    def words(self, now: float) -> str:
        """Return the number of finished steps, the time used, and an estimate of the remaining time."""
        outer = self._display.bars[: self.depth]
        counted = next((bar for bar in outer if bar.is_shown and bar.total), self)
        seconds = now - counted._start
        if self.total == 1 or not (self.total or self._done):
            count = ""  # it says nothing
        elif self.total is None or self._done > self.total:
            count = f"{self._done:,.0f}, "
        else:
            count = f"{self._done:,.0f} of {self.total:,.0f}, "
        return f"{self.title}: {count}{_clock(seconds)}{counted._left(now)}"

    def _left(self, now: float) -> str:
        """Return the remaining time in words; nothing before the first step, or if it takes longer than expected."""
        share = self._share()
        if share is None or not 0 < share <= 1:
            return ""
        left = (self._last - self._start) * (1 / share - 1)
        since = now - self._last
        if since and since >= left > 0:
            return ""
        return f", about {_clock(max(left - since, 0.0))} left"

    def _share(self) -> float | None:
        """Return the share of this work that is finished, with the finished steps of the lines inside."""
        if not self.total:
            return None
        inside = self._display.bars[self.depth + 1 : self.depth + 2]
        parts = [bar.of * (bar._share() or 0.0) for bar in inside]
        return (self._done + sum(parts)) / self.total


class Phase(Progress):
    """A line inside another one, such as that of a command; without one around it, it shows nothing.

    Parameters
    ----------
    title : str
    total : float or None, default=None
    of : float, default=0
        As in `Progress`.
    """

    def __init__(self, title: str, total: float | None = None, of: float = 0.0) -> None:
        super().__init__(total, title, None if _display().bars else False, of)


@contextmanager
def cleared() -> Iterator[None]:
    """Clear a line that is updated in place while something else is printed; it comes back if the work goes on."""
    display = _display()
    if not display.bars or display.is_log:
        yield
        return
    with display.lock:
        display.write("")
        yield


def aside(line: str) -> None:
    """Print a line to standard error, beside the progress that is shown there in place."""
    with cleared():
        print(line, file=sys.stderr, flush=True)


def announce(line: str, seconds: float) -> None:
    """Print what a long computation does, before it starts; nothing where no progress is shown, or for short work.

    Parameters
    ----------
    line : str
    seconds : float
        Estimated time of the computation.
    """
    bars = _display().bars
    if bars and bars[-1].is_shown and seconds >= _LOGGED[0]:
        aside(line)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _in_notebook() -> bool:
    """Return whether the shell is that of a notebook's kernel; IPython is not imported for this."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return find is not None and getattr(find(), "kernel", None) is not None

"""One line of progress: on a terminal, below a notebook's cell, or in a log."""

from __future__ import annotations

import sys
from time import monotonic
from typing import Any, Self

# Seconds until the first line and between two lines: on a terminal or in a notebook, and in a log.
_WATCHED, _LOGGED = (0.5, 0.25), (10.0, 30.0)


class Progress:
    """Counts finished steps and shows one line of them, such as ``Search D: 12 of 25, 0:41, about 0:44 left``.

    A terminal and a notebook update the line in place and clear it in the end. Any other standard error, such as the
    file of a log, gets another line from time to time: nothing for work of a few seconds, unless `show` is True.

    Parameters
    ----------
    total : float or None
        Expected number of steps; None if unknown. It is no longer shown where there turn out to be more.
    title : str
    show : bool or None
        False shows nothing. None shows the line, but nothing in a log for work of a few seconds.
    """

    def __init__(self, total: float | None, title: str, show: bool | None) -> None:
        self.total, self.title, self.show = total, title, show
        self._done = 0.0
        self._shown = ""

    def __enter__(self) -> Self:
        self._is_log = not sys.stderr.isatty() and not _in_notebook()
        self._start = monotonic()
        first, self._between = _LOGGED if self._is_log else _WATCHED
        self._next = self._start + first
        if self.total is None and self.show is not False and not self._is_log:
            self._write(f"{self.title} …")  # `advance` may never be called
        return self

    def __exit__(self, *error: Any) -> None:
        if self.show is False:
            return
        if self._is_log:
            if (self.show or self._shown) and self._shown != (last := self._words(monotonic())):
                self._write(last)
        elif self._shown:
            self._write("")

    def advance(self, steps: float = 1, title: str | None = None) -> None:
        """Count finished steps, and change the title."""
        self._done += steps
        self.title = self.title if title is None else title
        now = monotonic()
        if self.show is not False and now >= self._next:
            self._next = now + self._between
            self._write(self._words(now))

    def _write(self, words: str) -> None:
        if self._is_log:
            print(words, file=sys.stderr, flush=True)
        else:
            # The old line is overwritten by blanks where the new one is shorter.
            print(f"\r{words:<{len(self._shown)}}", end="\r" if not words else "", file=sys.stderr, flush=True)
        self._shown = words

    def _words(self, now: float) -> str:
        """Return the number of finished steps, the time used, and an estimate of the remaining time."""
        seconds = now - self._start
        if self.total is None or self._done > self.total:
            return f"{self.title}: {self._done:,.0f}, {_clock(seconds)}"
        left = f", about {_clock(seconds * (self.total / self._done - 1))} left" if self._done else ""
        return f"{self.title}: {self._done:,.0f} of {self.total:,.0f}, {_clock(seconds)}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _in_notebook() -> bool:
    """Return whether the shell is that of a notebook's kernel; IPython is not imported for this."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return find is not None and getattr(find(), "kernel", None) is not None

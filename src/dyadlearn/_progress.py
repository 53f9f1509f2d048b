"""The progress bar, which appears where somebody watches only: on a terminal, or in a notebook."""

from __future__ import annotations

import sys
from html import escape
from time import monotonic
from typing import Any, Protocol, Self

__all__ = ["Progress"]

# Seconds before a notebook shows a bar at all, and between two pictures of it.
_FIRST, _BETWEEN = 0.5, 0.25


class Progress:
    """Counts finished steps, and shows them where somebody watches: on standard error, or below a notebook's cell.

    Parameters
    ----------
    total : float or None
        Number of steps; None where nobody knows.
    title : str
    show : bool or None
        None shows the bar in a notebook, and elsewhere if standard error is a terminal.
    """

    def __init__(self, total: float | None, title: str, show: bool | None) -> None:
        self.total, self.title, self.show = total, title, show
        self._bar: _Bar | None = None

    def __enter__(self) -> Self:
        if self.show is not False and _in_notebook():
            self._bar = _NotebookBar(self.total, self.title)
        elif self.show or (self.show is None and sys.stderr.isatty()):
            self._bar = _TerminalBar(self.total, self.title)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: float = 1, title: str | None = None) -> None:
        """Count finished steps, and say something new about them."""
        if self._bar is not None:
            self._bar.advance(steps, title)


class _Bar(Protocol):
    def advance(self, steps: float, title: str | None) -> None: ...

    def stop(self) -> None: ...


class _TerminalBar:
    """A bar of rich, which is loaded by those who watch only."""

    def __init__(self, total: float | None, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        console = Console(stderr=True)
        # There is no share of an unknown number, and no time that is left.
        columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) if total is None else ()
        # On a terminal the bar goes when it is done; in a file only its last state is written.
        self._bar = Bar(*columns, console=console, transient=console.is_terminal)
        self._bar.start()
        self._task = self._bar.add_task(title, total=total)

    def advance(self, steps: float, title: str | None) -> None:
        self._bar.update(self._task, advance=steps, description=title)

    def stop(self) -> None:
        self._bar.stop()


class _NotebookBar:
    """A bar of markup below a cell, which goes when it is done.

    That of rich would need widgets there. This one needs IPython alone, which is loaded where there is a notebook.
    """

    def __init__(self, total: float | None, title: str) -> None:
        self._total, self._title, self._done = total, title, 0.0
        self._start = monotonic()
        # What takes no time shows nothing.
        self._next = self._start + _FIRST
        self._handle: Any = None

    def advance(self, steps: float, title: str | None) -> None:
        self._done += steps
        self._title = self._title if title is None else title
        now = monotonic()
        if now < self._next:
            return
        self._next = now + _BETWEEN
        self._show(self._markup(now - self._start), self._words(now - self._start))

    def stop(self) -> None:
        if self._handle is not None:
            self._show("", "")

    def _show(self, markup: str, words: str) -> None:
        from IPython.display import display

        bundle = {"text/html": markup, "text/plain": words}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _words(self, seconds: float) -> str:
        """Return how far it is, and how long it may take yet if it goes on as it did."""
        if self._total is None:
            return f"{self._title}: {self._done:,.0f}, {_clock(seconds)}"
        share = min(1.0, self._done / self._total) if self._total else 1.0
        left = f", about {_clock(seconds * (1 - share) / share)} left" if share else ""
        return f"{self._title}: {100 * share:.0f} %, {_clock(seconds)}{left}"

    def _markup(self, seconds: float) -> str:
        share = "" if self._total is None else f' value="{min(self._done, self._total):g}" max="{self._total:g}"'
        return f'<progress style="width:20em"{share}></progress> <span>{escape(self._words(seconds))}</span>'


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02}"


def _in_notebook() -> bool:
    """Tell whether the shell is that of a notebook's kernel. Nothing is loaded: without IPython in memory it is not."""
    find = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return find is not None and getattr(find(), "kernel", None) is not None

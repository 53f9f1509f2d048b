"""The progress bar, which appears where somebody watches only."""

from __future__ import annotations

import sys
from typing import Any, Self

__all__ = ["Progress"]


class Progress:
    """Counts finished steps, and shows them on standard error where somebody watches.

    Parameters
    ----------
    total : float or None
        Number of steps; None where nobody knows.
    title : str
    show : bool or None
        None shows the bar if standard error is a terminal.
    """

    def __init__(self, total: float | None, title: str, show: bool | None) -> None:
        self.total, self.title = total, title
        self.show = sys.stderr.isatty() if show is None else show
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        if self.show:
            # rich is loaded by those who watch only.
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
            from rich.progress import Progress as Bar

            console = Console(stderr=True)
            # There is no share of an unknown number, and no time that is left.
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()) if self.total is None else ()
            # On a terminal the bar goes when it is done; in a file only its last state is written.
            self._bar = Bar(*columns, console=console, transient=console.is_terminal)
            self._bar.start()
            self._task = self._bar.add_task(self.title, total=self.total)
        return self

    def __exit__(self, *error: Any) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, steps: float = 1, title: str | None = None) -> None:
        """Count finished steps, and say something new about them."""
        if self._bar is not None:
            self._bar.update(self._task, advance=steps, description=title)

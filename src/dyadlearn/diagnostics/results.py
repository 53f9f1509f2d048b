"""What results that are rows of named columns share: a data frame, and a table in notebooks."""

from __future__ import annotations

from html import escape
from itertools import islice
from typing import Any

from dyadlearn._printing import html_table, number, printable
from dyadlearn._tables import write_rows

__all__ = ["Tabled"]

# Rows that a notebook shows of a long result.
_SHOWN = 20


class Tabled:
    """Base class of results that are rows of named columns."""

    def columns(self) -> dict[str, list[Any]]:
        """Return the result as named columns, for a data frame or a file."""
        raise NotImplementedError

    def frame(self) -> Any:
        """Return `columns` as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)

    def _repr_html_(self) -> str:
        columns = self.columns()
        n_rows = len(next(iter(columns.values())))
        rows = [[number(value) for value in row] for row in islice(zip(*columns.values(), strict=True), _SHOWN)]
        more = f"<p>{n_rows - _SHOWN:,} more rows: see frame().</p>" if n_rows > _SHOWN else ""
        figures = [any(isinstance(value, float) for value in column) for column in columns.values()]
        left = figures.index(True) if True in figures else len(figures)
        return f"<p>{escape(printable(str(self)))}</p>{html_table(list(columns), rows, left)}{more}"

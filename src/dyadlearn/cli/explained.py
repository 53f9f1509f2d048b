"""Lists of contributions to a prediction, for JSON and for people."""

from __future__ import annotations

from typing import Any

from dyadlearn._text import number
from dyadlearn.cli.terminal import Figures, as_rows, column_table

# Figures of the prediction for a pair, and of that for a cell.
_FIGURES = ("setting", "prediction", "label", "mean", "share_of_mean", "share_of_deviations")


def figures_of(explanation: Any, *ids: str) -> Figures:
    """Return what an explanation tells of a prediction, for JSON; `ids` are the names of its ids."""
    return {name: getattr(explanation, name) for name in (*ids, *_FIGURES)}


def figures_by(explanation: Any, kind: str) -> Figures:
    """Return the list of an explanation by what `kind` names, for JSON."""
    listed = explanation.by(kind)
    rest = {"count": listed.n_rest, "weight": listed.rest_weight, "contribution": listed.rest}
    return {"listed": as_rows(explanation.columns(kind)), "rest": rest}


def table_by(explanation: Any, kind: str) -> Any:
    """Return the list of an explanation by what `kind` names, for people."""
    listed = explanation.by(kind)
    columns = explanation.columns(kind)
    n_names = len(columns) - 3
    headings = [name.replace("_", " ") for name in columns]
    if not listed.n_rest:
        return column_table(columns, n_names, headings)
    blanks = [""] * (n_names - 1)
    weight = number(listed.rest_weight)
    others = [f"{listed.n_rest} others", *blanks, weight, "", number(listed.rest)]
    return column_table(columns, n_names, headings, [others])

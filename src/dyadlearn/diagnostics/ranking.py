r"""The best columns for many rows to predict for, without the grid of their predictions.

Predictions are :math:`\boldsymbol\Phi_*\,\mathbf{W}\,\boldsymbol\Psi_*^\top` for a rows and n columns, far more of them
than anybody wants to see. The coefficients :math:`\mathbf{W}` (r × s) are multiplied by the side that makes this
cheaper: by the rows, which leaves a·s·n products for the predictions, or once and for all by the columns, which leaves
a·r·n. Then blocks of predictions are formed one after the other, and of each the best are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._array import Array, itemsize, matmul, row_blocks, take_rows, with_value
from dyadlearn.diagnostics.best import merged
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.vectrick import left_first

__all__ = ["best_columns"]

# Bytes of one block of predictions, and of what the columns of many blocks come to, which is computed once.
_BLOCK, _PANEL = 2**25, 2**27
# A block has at least so many rows where the columns are many: products of fewer are slow.
_ROWS = 256


@dataclass(frozen=True, eq=False)
class _Panel:
    """Columns whose part of the predictions is at hand.

    Attributes
    ----------
    columns : list of slice
        Those of each block.
    row_bytes : int
        What a row of a block takes.
    begun : callable
        Returns what some rows come to before they meet columns.
    ended : callable
        Returns the predictions of that for the columns of a block.
    """

    columns: list[slice]
    row_bytes: int
    begun: Callable[[slice], Array]
    ended: Callable[[Array, slice], Array]


def best_columns(
    made: Expansion, rows: NewRows, others: NewRows | None, k: int, known: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the k best of the columns stand for each row, best first, and their predictions.

    Parameters
    ----------
    made : Expansion
    rows : NewRows
        The a rows to find the best for.
    others : NewRows or None
        The n columns; None stands for those of training.
    k : int
    known : sparse array of shape (a, n) or None
        Pairs that are not to be named.

    Returns
    -------
    (integer array, array) of shape (a, min(k, n)) each
        NaN where there are fewer that may be named, at the end of a row.
    """
    found: list[tuple[np.ndarray, np.ndarray] | None] = []
    for panel in _panels(made, rows, others):
        blocks = list(row_blocks(rows.size, panel.row_bytes, _BLOCK))
        found = found or [None] * len(blocks)
        for number, here in enumerate(blocks):
            begun = panel.begun(here)
            for there in panel.columns:
                scores = panel.ended(begun, there)
                if known is not None:  # less than anything, which costs less than to look for NaN
                    held = known[here, there].tocoo()
                    scores = with_value(scores, held.row * held.shape[1] + held.col, -float("inf"))
                found[number] = merged(found[number], scores, there.start, k)
    pieces = [each for each in found if each is not None]
    places, scores = (np.concatenate(each) for each in zip(*pieces, strict=True))
    scores[scores == -np.inf] = np.nan
    return places, scores


def _panels(made: Expansion, rows: NewRows, others: NewRows | None) -> Iterator[_Panel]:
    """Return the columns in parts; all have rows of one size, and so the same blocks of rows."""
    size, n = itemsize(made.values), made.n_tasks if others is None else others.size
    if rows.places is not None or (others is not None and others.places is not None):
        # Of training, and known by more than their kernel: there is a grid of them.
        grid = made.grid(rows if rows.places is None else None, others)
        places = np.arange(rows.size) if rows.places is None else rows.places
        yield _Panel([slice(0, n)], n * size, lambda here: take_rows(grid, places[here]), lambda begun, there: begun)
        return
    if others is None:
        yield _of_training(made, rows)
        return
    made = made.shared
    left, right, middle = rows.before(made.instances), others.before(made.tasks), made.values
    by_rows = left_first(rows.size, n, *middle.shape)
    # What the columns come to, and what is there while they come to it.
    most = max(1, _PANEL // (size * (right.width + (middle.shape[1] if by_rows else max(middle.shape)))))
    step = min(most, max(1, _BLOCK // (size * _ROWS)))
    step = -(-n // -(-n // step))  # blocks of one width
    row_bytes = size * (step + max(left.width, *middle.shape) // 4)
    for panel in row_blocks(n, 1, max(step, most // step * step)):
        after = right.at(panel) if by_rows else matmul(right.at(panel), middle.T)

        def begun(here: slice) -> Array:
            return matmul(left.at(here), middle) if by_rows else left.at(here)

        def ended(half: Array, there: slice, after: Array = after, first: int = panel.start) -> Array:
            return matmul(half, after[there.start - first : there.stop - first, :].T)

        starts = range(panel.start, panel.stop, step)
        columns = [slice(start, min(start + step, panel.stop)) for start in starts]
        yield _Panel(columns, row_bytes, begun, ended)


def _of_training(made: Expansion, rows: NewRows) -> _Panel:
    """Return the columns of training, which are as many as the coefficients bear."""
    left, size, n = rows.before(made.instances), itemsize(made.values), made.n_tasks
    r, s = made.values.shape
    right = None
    if size * r * n <= _PANEL and not left_first(rows.size, n, r, s):
        right = made.to_training
    begun = (lambda here: made.grid(rows.take(here), None)) if right is None else left.at
    ended = (lambda half, _: half) if right is None else (lambda half, _: matmul(half, right))
    width = n + max(left.width, rows.values.shape[1]) // 4
    return _Panel([slice(0, n)], width * size, begun, ended)

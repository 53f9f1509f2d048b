"""The best columns of each row, without sorting the row.

The columns of a row are divided into many more groups than are wanted. The k-th largest of the
maxima of the groups is a bound that at least k numbers reach, and mostly few more; only these are
sorted. Ties are resolved by the order of columns, as in a stable sort. NaN marks cells that must not
be listed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace, order_statistic, to_numpy, with_value
from dyadlearn.pairing.expansion import Expansion, NewRows

# Number of groups of columns for each wanted number.
_GROUPS = 8


def best_in_rows(scores: Array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of the k largest numbers of each row, largest first, and these numbers.

    Parameters
    ----------
    scores : array of shape (a, n)
        Array of any library; NaN comes last. Equal numbers are sorted by column.
    k : int

    Returns
    -------
    (integer array, array) of numpy of shape (a, min(k, n)) each

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.best import best_in_rows
    >>> best_in_rows(np.array([[1.0, 3.0, 2.0, 3.0], [np.nan, 0.0, 0.0, 0.0]]), 2)[0]
    array([[1, 3],
           [1, 2]])
    """
    xp = namespace(scores)
    a, n = scores.shape
    k = min(k, n)
    groups = min(n, _GROUPS * k)
    depth = n // groups
    keys = scores
    maxima = xp.max(xp.reshape(keys[:, : depth * groups], (a, depth, groups)), axis=1)
    if bool(xp.any(xp.isnan(maxima))):
        keys = xp.where(xp.isnan(scores), -float("inf"), scores)
        maxima = xp.max(xp.reshape(keys[:, : depth * groups], (a, depth, groups)), axis=1)
    bound = xp.reshape(order_statistic(maxima, groups - k), (a, 1))
    reaching = xp.nonzero(xp.reshape(keys >= bound, (-1,)))[0]
    values = to_numpy(xp.take(xp.reshape(scores, (-1,)), reaching, axis=0))
    rows, columns = np.divmod(to_numpy(reaching), n)
    order = np.lexsort((columns, -np.where(np.isnan(values), -np.inf, values), rows))
    counts = np.bincount(rows, minlength=a)
    chosen = order[(np.cumsum(counts) - counts)[:, None] + np.arange(k)]
    return columns[chosen], values[chosen]


def merged(
    best: tuple[np.ndarray, np.ndarray] | None, scores: Array, first: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of the earlier columns and of a new block of columns.

    Parameters
    ----------
    best : (integer array, array) of shape (a, l) each, or None
        Columns and scores of the best so far, best first.
    scores : array of shape (a, n)
        Scores of the new block; array of any library.
    first : int
        Position of its first column.
    k : int

    Returns
    -------
    (integer array, array) of numpy of shape (a, min(k, l + n)) each
    """
    places, values = best_in_rows(scores, k)
    places = places + first
    if best is None:
        return places, values
    places = np.concatenate([best[0], places], axis=1)
    values = np.concatenate([best[1], values], axis=1)
    order, values = best_in_rows(values, k)
    return np.take_along_axis(places, order, axis=1), values


def best_columns(
    expansion: Expansion, rows: NewRows, others: NewRows | None, k: int, known: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best columns of each row, best first, and their predictions.

    Parameters
    ----------
    expansion : Expansion
    rows : NewRows
        The a rows.
    others : NewRows or None
        The n columns; None means those of training.
    k : int
    known : sparse array of shape (a, n) or None
        Pairs that are not listed.

    Returns
    -------
    (integer array, array) of shape (a, min(k, n)) each
        Rows with fewer unknown pairs end with NaN.
    """
    best: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for here, there, scores in expansion.blocks(rows, others):
        if known is not None:  # -inf is faster than NaN, which has to be looked for
            pairs = known[here, there].tocoo()
            scores = with_value(scores, pairs.row * pairs.shape[1] + pairs.col, -float("inf"))
        best[here.start] = merged(best.get(here.start), scores, there.start, k)
    places = np.concatenate([places for places, _ in best.values()])
    scores = np.concatenate([scores for _, scores in best.values()])
    scores[scores == -np.inf] = np.nan
    return places, scores

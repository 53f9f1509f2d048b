"""The best of many numbers, block by block: few of each block are sorted, and what is kept is merged.

Of equal numbers the first is best, as in a stable sort of all of them; NaN stands for what is not to be named.

Numbers are dealt to many more groups than are wanted. The k-th of the groups' maxima is a bound that at least k numbers
reach, and hardly more do: one pass for the maxima, one to compare, and what reaches the bound is sorted. Where equals
make it many, and where there are not k numbers at all, a partition of the whole row finds them.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dyadlearn._array import Array, namespace, order_statistic, take_rows, to_numpy

__all__ = ["best_cells", "best_in_rows", "merged"]

# Groups for each number that is wanted; groups of fewer than this do not pay; more numbers that reach the bound than
# this times those wanted are too many.
_GROUPS, _LEAST, _MOST = 8, 4, 4


def best_in_rows(scores: Array, k: int) -> np.ndarray:
    """Return where the k best of each row stand, best first.

    Parameters
    ----------
    scores : array of shape (a, n)
        NaN comes last.
    k : int

    Returns
    -------
    integer array of numpy of shape (a, min(k, n))

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.best import best_in_rows
    >>> best_in_rows(np.array([[1.0, 3.0, 2.0, 3.0], [np.nan, 0.0, 0.0, 0.0]]), 2)
    array([[1, 3],
           [1, 2]])
    """
    return _best(scores, k)[0]


def merged(
    kept: tuple[np.ndarray, np.ndarray] | None, scores: Array, first: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of what was kept of earlier columns and of some more.

    Parameters
    ----------
    kept : (integer array, array) of shape (a, l) each, or None
        Where the best of the columns before stand, and their scores, best first.
    scores : array of shape (a, n)
        Of the columns that follow; of any library.
    first : int
        Where the first of these stands.
    k : int

    Returns
    -------
    (integer array, array) of numpy of shape (a, min(k, l + n)) each
    """
    places, values = _best(scores, k)
    places = places + first
    if kept is None:
        return places, values
    places, values = np.concatenate([kept[0], places], axis=1), np.concatenate([kept[1], values], axis=1)
    best = _partitioned(values, k)
    return np.take_along_axis(places, best, axis=1), np.take_along_axis(values, best, axis=1)


def _best(scores: Array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the k best of each row stand, and what they are: arrays of numpy."""
    a, n = scores.shape
    if not a or n < _LEAST * _GROUPS * k:
        host = to_numpy(scores)
        places = _partitioned(host, k)
        return places, np.take_along_axis(host, places, axis=1)
    rows, columns, values = _reaching(scores, k)
    counts = np.bincount(rows, minlength=a)
    easy = (counts >= k) & (counts <= _MOST * k)
    # What reaches the bound, in the order of the columns and padded to one length.
    few = easy[rows]
    width = int(counts[easy].max(initial=k))
    slots = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
    padded = np.full((a, width), -np.inf, dtype=values.dtype)
    where = np.zeros((a, width), dtype=np.intp)
    padded[rows[few], slots[few]], where[rows[few], slots[few]] = values[few], columns[few]
    order = np.argsort(-padded, axis=1, kind="stable")[:, :k]
    places, values = np.take_along_axis(where, order, axis=1), np.take_along_axis(padded, order, axis=1)
    hard = np.flatnonzero(~easy)
    if hard.size:
        host = to_numpy(take_rows(scores, hard))
        places[hard] = _partitioned(host, k)
        values[hard] = np.take_along_axis(host, places[hard], axis=1)
    return places, values


def _reaching(scores: Array, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values, in the order of the rows, of what may be among the k best of its row.

    Of rows in which fewer than k groups hold any number nothing is returned.
    """
    xp = namespace(scores)
    a, n = scores.shape
    groups = _GROUPS * k
    depth = n // groups
    maxima = xp.max(xp.reshape(scores[:, : depth * groups], (a, depth, groups)), axis=1)
    if bool(xp.any(xp.isnan(maxima))):
        scores = xp.where(xp.isnan(scores), xp.full_like(scores, -float("inf")), scores)
        maxima = xp.max(xp.reshape(scores[:, : depth * groups], (a, depth, groups)), axis=1)
    bound = xp.reshape(order_statistic(maxima, groups - k), (a, 1))
    bound = xp.where(bound > -float("inf"), bound, xp.full_like(bound, float("inf")))
    flat = xp.nonzero(xp.reshape(scores >= bound, (-1,)))[0]
    values = to_numpy(xp.take(xp.reshape(scores, (-1,)), flat, axis=0))
    rows, columns = np.divmod(to_numpy(flat), n)
    return rows, columns, values


def _partitioned(scores: np.ndarray, k: int) -> np.ndarray:
    """Return where the k best of each row stand, best first, by a partition of whole rows."""
    a, n = scores.shape
    keys = np.where(np.isnan(scores), -np.inf, scores)
    places = np.broadcast_to(np.arange(n), (a, n))
    if k < n:
        edge = np.partition(keys, n - k, axis=1)[:, n - k, None]
        chosen, level = keys > edge, keys == edge
        room = k - chosen.sum(axis=1, keepdims=True)
        if (level.sum(axis=1, keepdims=True) > room).any():  # equals on the edge: the first of them
            level &= np.cumsum(level, axis=1) <= room
        places = np.nonzero(chosen | level)[1].reshape(a, k)
    order = np.argsort(-np.take_along_axis(keys, places, axis=1), axis=1, kind="stable")
    return np.take_along_axis(places, order, axis=1)


def best_cells(blocks: Iterable[tuple[int, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best cells of a grid that comes in blocks of rows, from the first to the last.

    Parameters
    ----------
    blocks : iterable of (int, array of shape (l, q))
        The place of each block's first row, and its scores; cells of NaN are not named.
    k : int

    Returns
    -------
    rows, columns : integer arrays of shape (n,)
        At most k cells, best first; of equal ones the first in the order of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.best import best_cells
    >>> best_cells([(0, np.array([[1.0, np.nan]])), (1, np.array([[0.5, 4.0], [1.0, 2.0]]))], 3)
    (array([1, 2, 0]), array([1, 1, 0]))
    """
    rows, columns, scores = np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp), None
    for first, block in blocks:
        # A later cell must be better than the last that is kept: equal ones stay behind.
        wanted = ~np.isnan(block) if scores is None or len(scores) < k else block > scores[-1]
        own, across = np.nonzero(wanted)
        values = block[own, across]
        best = best_in_rows(values[None, :], k)[0]
        rows = np.concatenate([rows, own[best] + first])
        columns = np.concatenate([columns, across[best]])
        scores = values[best] if scores is None else np.concatenate([scores, values[best]])
        order = np.argsort(-scores, kind="stable")[:k]
        rows, columns, scores = rows[order], columns[order], scores[order]
    return rows, columns

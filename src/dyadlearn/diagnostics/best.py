"""The best of many numbers, block by block: a part of each block is sorted, and what is kept is merged.

Of equal numbers the first is best, as in a stable sort of all of them; NaN stands for what is not to be named.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

__all__ = ["best_cells", "best_in_rows", "merged"]


def best_in_rows(scores: np.ndarray, k: int) -> np.ndarray:
    """Return where the k best of each row stand, best first.

    Parameters
    ----------
    scores : array of shape (a, n)
        NaN comes last.
    k : int

    Returns
    -------
    integer array of shape (a, min(k, n))

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.best import best_in_rows
    >>> best_in_rows(np.array([[1.0, 3.0, 2.0, 3.0], [np.nan, 0.0, 0.0, 0.0]]), 2)
    array([[1, 3],
           [1, 2]])
    """
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


def merged(
    kept: tuple[np.ndarray, np.ndarray] | None, scores: np.ndarray, first: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of what was kept of earlier columns and of some more.

    Parameters
    ----------
    kept : (integer array, array) of shape (a, l) each, or None
        Where the best of the columns before stand, and their scores, best first.
    scores : array of shape (a, n)
        Of the columns that follow.
    first : int
        Where the first of these stands.
    k : int

    Returns
    -------
    (integer array, array) of shape (a, min(k, l + n)) each
    """
    places = np.broadcast_to(np.arange(first, first + scores.shape[1]), scores.shape)
    if kept is not None:
        places, scores = np.concatenate([kept[0], places], axis=1), np.concatenate([kept[1], scores], axis=1)
    best = best_in_rows(scores, k)
    return np.take_along_axis(places, best, axis=1), np.take_along_axis(scores, best, axis=1)


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

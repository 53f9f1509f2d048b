r"""The concordance index: how many pairs of cells are in the right order.

With the ranks of the labels written in the order of the predictions, the pairs in the right order are the pairs that
increase. Two ranks compare as their highest differing bit does, so these are counted bit by bit: among those that agree
in all higher bits, and stand together, each one wins over the zeros before it. The places of the ones add up to their
wins, the ones before each, and all that stand before their prefix. The latter two are the same whatever the predictions
are, so the sum for the descending order, which has no pair that increases, is exactly this excess.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.labels import is_binary
from dyadlearn.metrics.cells import Cells, Metric, Ranking
from dyadlearn.metrics.ranks import RocAuc

__all__ = ["ConcordanceIndex", "LabelOrder", "concordance_index", "take_along_rows", "twice_increasing"]

# Whole numbers up to this are sorted fast.
_LARGEST_KEY = 2**31


class LabelOrder:
    """The order of rows of labels, and what is known of their pairs before there are predictions.

    Parameters
    ----------
    labels : array of shape (R, n)
        NaN where not observed.
    width : float, default=0.0
        Neighbours in the order that differ by no more than this are equal.

    Attributes
    ----------
    ranks : int array of shape (R, n)
        The lowest, 0, where not observed; predictions there have to come last, and then they increase nothing.
    highest : int
    pairs : int array of shape (R,)
        How many pairs of observed labels differ.
    """

    def __init__(self, labels: np.ndarray, width: float = 0.0) -> None:
        order = np.argsort(labels, axis=1)
        ascending = np.take_along_axis(labels, order, axis=1)
        observed = ~np.isnan(ascending)
        begins = np.zeros(labels.shape, dtype=bool)
        np.greater(ascending[:, 1:] - ascending[:, :-1], width, out=begins[:, 1:])
        kind = np.int16 if labels.shape[1] < 2**15 else np.int64
        ranks = np.cumsum(begins, axis=1, dtype=kind)
        ranks[~observed] = 0
        self.ranks = np.empty_like(ranks)
        np.put_along_axis(self.ranks, order, ranks, axis=1)
        self.highest = int(ranks.max(initial=0))
        below = np.maximum.accumulate(np.where(begins, np.arange(labels.shape[1], dtype=kind), 0), axis=1)
        self.pairs = below.sum(axis=1, where=observed, dtype=np.int64)

    @cached_property
    def excess(self) -> np.ndarray:
        """Half of what `twice_increasing` counts too much in each row (R,): all of the descending order."""
        return np.asarray(_increasing(-np.sort(-self.ranks, axis=1), self.highest))


def twice_increasing(ranks: Array, tied: Array, highest: int) -> Array:
    """Count the pairs of each row that increase, twice, and pairs of ties that differ once.

    Parameters
    ----------
    ranks : int array of shape (s, R, n)
        Of the labels, in the order of the predictions.
    tied : bool array of shape (s, R, n − 1)
        Whether a prediction ties with the one before.
    highest : int
        The highest rank.

    Returns
    -------
    int array of shape (s, R)
        With twice the excess of each row.
    """
    xp = namespace(ranks)
    if not bool(xp.any(tied)):
        return 2 * _increasing(ranks, highest)
    # Half of a tied pair is right: count it as right, then as wrong.
    runs = xp.cumulative_sum(xp.astype(~tied, xp.int64), axis=-1, include_initial=True) * (highest + 1)
    right = xp.sort(runs + ranks, axis=-1, stable=False) - runs
    wrong = highest - (xp.sort(runs + (highest - ranks), axis=-1, stable=False) - runs)
    return _increasing(right, highest) + _increasing(wrong, highest)


def _increasing(ranks: Array, highest: int) -> Array:
    """Return for ranks (…, n) the number of increasing pairs of each row (…), plus its excess."""
    xp, n = namespace(ranks), ranks.shape[-1]
    places = as_array_of(np.arange(n), ranks)
    # Sums of whole numbers below 2⁵³ are exact, and a product is faster than a sum.
    weights = xp.astype(places, xp.float64)
    total = xp.zeros_like(ranks[..., 0], dtype=xp.float64)
    # Prefix, place and bit in one number: short ones are sorted many at a time.
    packs = 2 * (highest + 1) * n < _LARGEST_KEY
    ranks, twice_places = xp.astype(ranks, xp.int32), xp.astype(2 * places, xp.int32)
    for bit in reversed(range(highest.bit_length())):
        ones = (ranks >> bit) & 1
        if packs:
            keys = (ranks >> (bit + 1)) * (2 * n)
            keys += twice_places
            keys += ones
            ones = xp.sort(keys, axis=-1, stable=False) & 1
        total += xp.astype(ones, xp.float64) @ weights
        if bit and not packs:
            # Zeros go before ones, which brings those of equal prefixes together.
            ranks = take_along_rows(ranks, xp.argsort(xp.astype(ones, xp.uint8), axis=-1, stable=True))
    return xp.astype(total, xp.int64)


class ConcordanceIndex(Metric):
    """The concordance index; see `concordance_index`."""

    title = "The concordance index"
    scoring = "concordance_index"
    needs = "two observed labels that differ"

    def __init__(self, Y: Any, **options: Any) -> None:
        super().__init__(Y, **options)
        # With two labels it is the area under the ROC curve, which needs no sorting by index.
        self._binary = RocAuc(Y, **options) if is_binary(self._cells.grid.values) else None

    def _defined(self, cells: Cells) -> np.ndarray:
        return cells.vary

    def _prepare(self) -> None:
        order, place = LabelOrder(self._cells.labels), self._cells.place
        self._ranks, self._highest = place(order.ranks), order.highest
        self._excess, self._pairs = place(order.excess), place(order.pairs)

    def _score(self, F: Array) -> Array:
        if self._binary is not None:
            return self._binary._score(F)
        xp = namespace(F)
        rows = self._cells.arrange(F)
        order = xp.argsort(rows, axis=-1, stable=False)
        rows = take_along_rows(rows, order)
        self._cells.check_last(rows)
        ranks = take_along_rows(xp.broadcast_to(self._ranks, rows.shape), order)
        tied = self._cells.tied(rows, self._tie_tolerance)
        won = twice_increasing(ranks, tied, self._highest) - 2 * self._excess
        return xp.astype(won, xp.float64) / xp.astype(2 * self._pairs, xp.float64)


def concordance_index(Y: Any, F: Any, **options: Unpack[Ranking]) -> Any:
    r"""Return the concordance index: how often, of two cells, the one with the greater label is ranked above the other.

    Pairs of equal labels do not count, and a tie of the predictions is half right. With two labels
    it is the area under the ROC curve.

    .. math:: \frac{1}{\#\{(i, j) : y_i > y_j\}} \sum_{y_i > y_j} [f_i > f_j] + \tfrac12 [f_i = f_j]

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all pairs of cells; over pairs in the same row, then the mean over the rows; over pairs
        in the same column, then the mean over the columns. Those of equal labels only are left out.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import concordance_index
    >>> Y = np.array([[5.0, 6.5, 8.0, 5.0]])
    >>> concordance_index(Y, np.array([[0.1, 0.4, 0.3, 0.3]]))
    0.7
    """
    return ConcordanceIndex.of(Y, F, **options)


def take_along_rows(rows: Array, order: Array) -> Array:
    """Reorder each row of (…, n) by its own order."""
    xp, n = namespace(rows), rows.shape[-1]
    start = as_array_of(np.arange(math.prod(rows.shape[:-1])).reshape(*rows.shape[:-1], 1) * n, rows)
    return xp.reshape(xp.take(xp.reshape(rows, (-1,)), xp.reshape(order + start, (-1,))), rows.shape)

r"""Metrics of the order of the predictions, exact with ties.

All come from two counts for every chosen cell, such as the positives: how many predictions of its row are smaller, and
how many are not greater. The rows are sorted as plain numbers, which processors do many at
a time, and the few chosen values are found in them by bisection, all at once: nothing is ever sorted by index.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from dyadlearn._array import Array, is_foreign, namespace
from dyadlearn.labels import distinct_labels
from dyadlearn.metrics.cells import Cells, Metric, Ranking

__all__ = [
    "AveragePrecision",
    "OfPositives",
    "Ranked",
    "RocAuc",
    "average_precision",
    "positives",
    "roc_auc",
]


def count_below(rows: Array, start: Array, values: Array, *, or_equal: bool = False) -> Array:
    """Count the numbers of a sorted row that are smaller than a value, for many values at once.

    Parameters
    ----------
    rows : array of shape (…, n)
        Ascending along the last axis, NaN last.
    start : int array of shape (p,)
        Where the row of each value begins in the raveled `rows`.
    values : array of shape (p,)
    or_equal : bool
        Count those that are equal too.

    Returns
    -------
    int array of shape (p,)
    """
    xp = namespace(values)
    flat = xp.reshape(rows, (-1,))

    def is_below(position: Array) -> Array:
        found = xp.take(flat, position)
        return xp.astype(found <= values if or_equal else found < values, xp.int64)

    at, length = start, rows.shape[-1]
    while length > 1:
        half = length // 2
        at = at + half * is_below(at + (half - 1))
        length -= half
    return at + is_below(at) - start


class Ranked(Metric):
    """What metrics have in common that are sums over chosen cells of where these stand in the order of their row."""

    def _choose(self, chosen: np.ndarray) -> None:
        """Set the cells (R, n) whose place is looked for."""
        place, cells = self._cells.place, self._cells
        row, _ = np.nonzero(chosen)
        counts = chosen.sum(axis=1, dtype=np.int64)
        # The p chosen cells are kept row after row; `_ragged` lists those of each row, p standing for none.
        ragged = np.full((counts.size, max(1, int(counts.max()))), row.size)
        ragged[row, np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)] = np.arange(row.size)
        self._positions = place(cells.at(chosen))
        self._row = row
        self._row_place = place(row)
        self._cells_in_row = place(cells.counts[row])
        self._start = place(row * cells.width)
        self._ragged = place(ragged)

    def _values(self, F: Array) -> Array:
        """Return the predictions (s, p) of the chosen cells."""
        xp = namespace(F)
        return xp.take(xp.reshape(F, (F.shape[0], -1)), self._positions, axis=1)

    def _starts(self, start: Array, stack: Array) -> Array:
        """Return where the rows of (s, p) values begin in a raveled stack (s, …), given that in one slice."""
        xp = namespace(stack)
        size = int(np.prod(stack.shape[1:]))
        slices = self._cells.place(np.arange(stack.shape[0]) * size)
        return xp.reshape(slices[:, None] + start[None, :], (-1,))

    def _ties(self, F: Array) -> tuple[Array, Array, Array]:
        """Return the sorted rows (s, R, n), and from where to where (s, p) they tie with each chosen value."""
        values, rows = self._values(F), self._cells.sort(F)
        if self._tie_tolerance == 0:
            return rows, values, values
        width = self._cells.tie_width(rows, self._tie_tolerance)
        width = namespace(F).take(width, self._row_place, axis=1)
        return rows, values - width, values + width

    def _below(self, rows: Array, values: Array) -> Array:
        """Return how many of its sorted row (s, R, n) are below each of the values (s, p)."""
        xp = namespace(values)
        below = count_below(rows, self._starts(self._start, rows), xp.reshape(values, (-1,)))
        return xp.reshape(below, values.shape)

    def _bounds(self, F: Array) -> tuple[Array, Array]:
        """Return how many predictions of its row are smaller, and not greater, than each chosen one, both (s, p)."""
        xp = namespace(F)
        rows, lowest, highest = self._ties(F)
        if is_foreign(rows) and rows.shape[0] == rows.shape[1] == 1:
            # One long row has a search of the library's own; on an accelerator it takes less than looking for ties.
            flat, ends = rows[0, 0, :], ((lowest, "left"), (highest, "right"))
            found = [xp.reshape(xp.searchsorted(flat, value[0, :], side=side), (1, -1)) for value, side in ends]
            return found[0], found[1]
        below = self._below(rows, lowest)
        flat, n = xp.reshape(rows, (-1,)), rows.shape[-1]
        start, value = self._starts(self._start, rows), xp.reshape(highest, (-1,))
        # A value without a tie is followed by a greater one: only ties are bisected again.
        after = xp.reshape(below, (-1,)) + 1
        inside = after < n
        following = xp.take(flat, start + xp.where(inside, after, after - 1))
        tied = inside & (following <= value)
        if bool(xp.any(tied)):
            after[tied] = count_below(rows, start[tied], value[tied], or_equal=True)
        return below, xp.reshape(after, below.shape)

    def _by_row(self, values: Array, none: float = 0) -> Array:
        """Return what belongs to the chosen cells (s, p) row by row (s, R, k), filled up with `none`."""
        xp = namespace(values)
        padding = xp.full_like(values[:, :1], none)
        taken = xp.take(xp.concat([values, padding], axis=1), xp.reshape(self._ragged, (-1,)), axis=1)
        return xp.reshape(taken, (values.shape[0], *self._ragged.shape))

    def _row_sums(self, values: Array) -> Array:
        """Add what belongs to the chosen cells (s, p) over each row (s, R)."""
        xp = namespace(values)
        return xp.sum(self._by_row(values), axis=-1)


def positives(cells: Cells, title: str) -> np.ndarray:
    """Tell which cells (R, n) are of the larger of two labels, refusing for a metric of this title any others."""
    distinct = distinct_labels(cells.labels)
    if distinct.size != 2:
        raise ValueError(
            f"{title} needs labels of exactly two values, the larger being the positive class; found "
            f"{distinct.size} in Y. For real labels use the concordance index, or compare Y with a threshold."
        )
    return np.asarray(cells.labels == distinct[1])


class OfPositives(Ranked):
    """What metrics have in common whose labels are of two values, the larger being the positive class."""

    needs = "a positive label"

    def _defined(self, cells: Cells) -> np.ndarray:
        self._positive = positives(cells, self.title)
        self._n_positive = np.asarray(self._positive.sum(axis=1, dtype=np.int64))
        return np.asarray(self._n_positive > 0)


class RocAuc(OfPositives):
    """The area under the ROC curve; see `roc_auc`."""

    title = "The area under the ROC curve"
    scoring = "roc_auc"
    needs = "a positive and a negative label"

    def _defined(self, cells: Cells) -> np.ndarray:
        return np.asarray(super()._defined(cells) & (self._n_positive < cells.counts))

    def _prepare(self) -> None:
        cells, chosen, count = self._cells, self._positive[self.rows], self._n_positive[self.rows]
        # Look for the rarer class only.
        self._counts_negatives = 2 * int(count.sum()) > int(cells.counts.sum())
        if self._counts_negatives:
            chosen, count = cells.observed & ~chosen, cells.counts - count
        self._choose(chosen)
        self._within = cells.place(count**2)
        self._twice_pairs = cells.place(2 * count * (cells.counts - count))

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        below, up_to = self._bounds(F)
        # Twice the pairs won, a tie being half a win. Those among the chosen cells themselves, each with itself
        # included, are half of their square whatever the predictions.
        won = self._row_sums(below + up_to) - self._within
        if self._counts_negatives:
            won = self._twice_pairs - won
        return xp.astype(won, xp.float64) / xp.astype(self._twice_pairs, xp.float64)


def roc_auc(Y: Any, F: Any, **options: Unpack[Ranking]) -> Any:
    r"""Return the area under the ROC curve: how often a positive is ranked above a negative.

    With P positives and N negatives, and a tie counted as half,

    .. math:: \frac{1}{PN} \sum_{i \in +} \sum_{j \in -} [f_i > f_j] + \tfrac12 [f_i = f_j] .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together; the mean over the rows; the mean over the columns. Rows or columns
        without a positive or without a negative are left out.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import roc_auc
    >>> Y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    >>> F = np.array([[0.9, 0.1, 0.2], [0.5, 0.5, 0.1], [0.3, 0.2, 0.1]])
    >>> round(roc_auc(Y, F), 4)
    0.6944
    >>> roc_auc(Y, F, setting="B", return_undefined=True)
    (0.625, 1)
    >>> roc_auc(Y, np.stack([F, -F]), setting="B")
    array([0.625, 0.375])
    """
    return RocAuc.of(Y, F, **options)


class AveragePrecision(OfPositives):
    """The average precision; see `average_precision`."""

    title = "The average precision"
    scoring = "average_precision"

    def _prepare(self) -> None:
        self._choose(self._positive[self.rows])
        count = self._n_positive[self.rows]
        self._count = self._cells.place(count.astype(np.float64))
        self._positives_in_row = self._cells.place(count[self._row])
        self._positive_start = self._cells.place(self._row * self._ragged.shape[1])

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        rows, lowest, _ = self._ties(F)
        below = self._below(rows, lowest)
        ranked = xp.sort(self._by_row(self._values(F), float("nan")), axis=-1)
        below_positives = count_below(ranked, self._starts(self._positive_start, ranked), xp.reshape(lowest, (-1,)))
        hits = xp.astype(self._positives_in_row - xp.reshape(below_positives, lowest.shape), xp.float64)
        return self._row_sums(hits / xp.astype(self._cells_in_row - below, xp.float64)) / self._count


def average_precision(Y: Any, F: Any, **options: Unpack[Ranking]) -> Any:
    r"""Return the average precision: the precision at the place of each positive, averaged over them.

    .. math:: \frac1P \sum_{i \in +} \frac{\#\{j \in + : f_j \ge f_i\}}{\#\{j : f_j \ge f_i\}}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together; the mean over the rows; the mean over the columns. Rows or columns
        without a positive are left out.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import average_precision
    >>> Y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    >>> F = np.array([[0.9, 0.1, 0.2], [0.4, 0.5, 0.1], [0.3, 0.2, 0.1]])
    >>> round(average_precision(Y, F, average="instance"), 4)
    0.9167
    """
    return AveragePrecision.of(Y, F, **options)

r"""Rank metrics and correlations, exact with ties.

**Area under the ROC curve and average precision** need two counts for every chosen cell, such as a
positive: how many predictions of its row are smaller, and how many are not greater. Rows are sorted
as plain numbers, which is faster than a sort by index, and the chosen values are found in them by
bisection, all at once.

**The concordance index** counts pairs of cells in the right order. If the ranks of the labels are
written in the order of the predictions, these are the pairs that increase. The highest differing
bit decides which rank is larger, so pairs are counted bit by bit. Ranks with the same higher bits
(the same prefix) are brought together, in their order. In such a group, a rank with bit 1 exceeds
all ranks with bit 0 before it. The sum of the positions of the ranks with bit 1 is the number of
such pairs, plus the ranks with bit 1 before each of them, plus the ranks in earlier groups. The
last two numbers do not depend on the order, and in descending order no pair increases: so the sum
for the descending order is the *excess* to subtract.

**Pearson and Spearman correlations** compare centred rows, independent of level and scale.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, as_array_of, is_foreign, namespace, running_sum
from dyadlearn.labels import distinct_labels
from dyadlearn.metrics.cells import Cells, Metric, function_of, refuse_nan

__all__ = ["average_precision", "concordance_index", "pearson", "roc_auc", "spearman"]


def count_below(rows: Array, start: Array, values: Array, *, or_equal: bool = False) -> Array:
    """Return how many numbers of a sorted row are smaller than a value, for many values at once.

    Parameters
    ----------
    rows : array of shape (…, n)
        Ascending along the last axis, NaN last.
    start : int array of shape (p,)
        Position of the row of each value in the raveled `rows`.
    values : array of shape (p,)
    or_equal : bool
        Whether to count equal numbers too.

    Returns
    -------
    int array of shape (p,)
    """
    xp = namespace(values)
    flat = xp.reshape(rows, (-1,))

    def is_below(position: Array) -> Array:
        numbers = xp.take(flat, position)
        return xp.astype(numbers <= values if or_equal else numbers < values, xp.int64)

    at = start
    length = rows.shape[-1]
    while length > 1:
        half = length // 2
        at = at + half * is_below(at + (half - 1))
        length -= half
    return at + is_below(at) - start


class Ranked(Metric):
    """Base class of metrics that are sums over chosen cells of a function of their rank in the row."""

    compares = True
    # Whether chosen cells differ in more than their rank, so that their order is kept.
    _keeps_order = True

    def _choose(self, chosen: np.ndarray) -> None:
        """Set the cells (R, n) whose ranks are needed."""
        place = self._cells.place
        cells = self._cells
        row, _ = np.nonzero(chosen)
        counts = chosen.sum(axis=1, dtype=np.int64)
        # The p chosen cells are stored row after row; `_ragged` has the positions of those of each
        # row, padded with p.
        ragged = np.full((counts.size, max(1, int(counts.max()))), row.size)
        ragged[row, np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts)] = (
            np.arange(row.size)
        )
        self._places = place(np.flatnonzero(chosen))
        self._row = row
        self._row_place = place(row)
        self._cells_in_row = place(cells.counts[row])
        self._start = place(row * cells.width)
        self._ragged = place(ragged)

    def _starts(self, start: Array, stack: Array) -> Array:
        """Return where the rows of (s, p) values begin in a raveled stack (s, …), given the positions in one slice."""
        xp = namespace(stack)
        size = int(np.prod(stack.shape[1:]))
        slices = self._cells.place(np.arange(stack.shape[0]) * size)
        return xp.reshape(slices[:, None] + start[None, :], (-1,))

    def _ties(self, F: Array) -> tuple[Array, Array, Array, Array]:
        """Return sorted rows (s, R, n), the chosen values (s, p), and the ends of the values that tie with them.

        Values are sorted if `_sorts` them.
        """
        xp = namespace(F)
        rows = self._cells.arrange(F)
        # One copy in C order: sorting along a stride takes twice the time.
        if not is_foreign(rows):
            rows = np.array(rows, order="C")
        values = xp.take(xp.reshape(rows, (rows.shape[0], -1)), self._places, axis=1)
        if is_foreign(rows):
            rows = xp.sort(rows, axis=-1)
        else:
            rows.sort(axis=-1)  # in place
        if self._sorts(rows):
            values.sort(axis=-1)
        self._cells.check_last(rows)
        if self._tie_tolerance == 0:
            return rows, values, values, values
        width = xp.take(self._cells.tie_width(rows, self._tie_share(F)), self._row_place, axis=1)
        return rows, values, values - width, values + width

    def _sorts(self, rows: Array) -> bool:
        """Return whether chosen values are sorted: those of a single row, which are then found several times faster."""
        return not self._keeps_order and rows.shape[1] == 1 and not is_foreign(rows)

    def _below(self, rows: Array, values: Array) -> Array:
        """Return how many predictions of its sorted row (s, R, n) are below each value (s, p)."""
        if self._sorts(rows):
            known = rows[:, 0, : int(self._cells.counts[0])]
            pairs = zip(known, values, strict=True)
            return np.stack([np.searchsorted(row, value) for row, value in pairs])
        xp = namespace(values)
        below = count_below(rows, self._starts(self._start, rows), xp.reshape(values, (-1,)))
        return xp.reshape(below, values.shape)

    def _bounds(self, F: Array) -> tuple[Array, Array]:
        """Return how many predictions of its row are smaller, and not greater, than each chosen one, both (s, p)."""
        xp = namespace(F)
        rows, _, lowest, highest = self._ties(F)
        if is_foreign(rows) and rows.shape[0] == rows.shape[1] == 1:
            # For one long row on an accelerator, the library's search is faster than looking for
            # ties. What fills up a row comes last, and is no number.
            flat = rows[0, 0, : int(self._cells.counts[0])]
            below = xp.searchsorted(flat, lowest[0, :], side="left")
            not_above = xp.searchsorted(flat, highest[0, :], side="right")
            return xp.reshape(below, (1, -1)), xp.reshape(not_above, (1, -1))
        below = self._below(rows, lowest)
        flat = xp.reshape(rows, (-1,))
        n = rows.shape[-1]
        start = self._starts(self._start, rows)
        value = xp.reshape(highest, (-1,))
        # Only ties are bisected again: a value without a tie is followed by a greater one.
        after = xp.reshape(below, (-1,)) + 1
        inside = after < n
        following = xp.take(flat, start + xp.where(inside, after, after - 1))
        tied = inside & (following <= value)
        if bool(xp.any(tied)):
            after[tied] = count_below(rows, start[tied], value[tied], or_equal=True)
        return below, xp.reshape(after, below.shape)

    def _by_row(self, values: Array, none: float = 0) -> Array:
        """Return values of the chosen cells (s, p) row by row (s, R, k), padded with `none`."""
        xp = namespace(values)
        padding = xp.full_like(values[:, :1], none)
        taken = xp.take(
            xp.concat([values, padding], axis=1), xp.reshape(self._ragged, (-1,)), axis=1
        )
        return xp.reshape(taken, (values.shape[0], *self._ragged.shape))

    def _row_sums(self, values: Array) -> Array:
        """Return the sums over each row (s, R) of values of the chosen cells (s, p)."""
        xp = namespace(values)
        return xp.sum(self._by_row(values), axis=-1)


class OfPositives(Ranked):
    """Base class of metrics for labels of two values; the larger value is the positive class."""

    _keeps_order = False

    needs = "a positive label"

    def _defined(self, cells: Cells) -> np.ndarray:
        distinct = distinct_labels(cells.labels)
        if distinct.size != 2:
            remedy = "For real labels use the concordance index, or compare Y with a threshold"
            if distinct.size == 1:
                remedy = "Give labels of both values, or use a metric of errors such as 'neg_mean_squared_error'"
            raise ValueError(
                f"{self.title} needs labels of exactly two values, found {distinct.size} in Y. "
                f"{remedy}."
            )
        self._positive = np.asarray(cells.labels == distinct[1])
        self._n_positive = np.asarray(self._positive.sum(axis=1, dtype=np.int64))
        return np.asarray(self._n_positive > 0)


class OfBothClasses(OfPositives):
    """Base class of metrics for rows with a positive and a negative label."""

    needs = "a positive and a negative label"

    def _defined(self, cells: Cells) -> np.ndarray:
        return np.asarray(super()._defined(cells) & (self._n_positive < cells.counts))


class RocAuc(OfBothClasses):
    r"""The area under the ROC curve: the fraction of positive-negative pairs in which the positive is ranked higher.

    With P positives and N negatives, where a tie counts half,

    .. math:: \frac{1}{PN} \sum_{i \in +} \sum_{j \in -} [f_i > f_j] + \tfrac12 [f_i = f_j] .

    Rows or columns without a positive or without a negative label are excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN means "not observed".

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

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

    title = "The area under the ROC curve"
    scoring = "roc_auc"
    counts_pairs = True

    def _prepare(self) -> None:
        cells = self._cells
        chosen = self._positive[self.rows]
        count = self._n_positive[self.rows]
        # Only the rarer class is counted.
        self._counts_negatives = 2 * int(count.sum()) > int(cells.counts.sum())
        if self._counts_negatives:
            chosen = cells.observed & ~chosen
            count = cells.counts - count
        self._choose(chosen)
        self._within = cells.place(count**2)
        self._twice_pairs = cells.place(2 * count * (cells.counts - count))

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        below, up_to = self._bounds(F)
        # Twice the number of pairs in the right order; a tie counts half. Pairs of two chosen cells
        # (each with itself included) add the square of their number, for any predictions.
        won = self._row_sums(below + up_to) - self._within
        if self._counts_negatives:
            won = self._twice_pairs - won
        return xp.astype(won, xp.float64) / xp.astype(self._twice_pairs, xp.float64)


roc_auc = function_of(RocAuc)


class AveragePrecision(OfBothClasses):
    r"""The average precision: the mean over all positives of the precision at their rank.

    .. math:: \frac1P \sum_{i \in +} \frac{\#\{j \in + : f_j \ge f_i\}}{\#\{j : f_j \ge f_i\}}

    Rows or columns without a positive or without a negative label are excluded: without a negative
    one the average precision is 1, whatever is predicted.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN means "not observed".

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import average_precision
    >>> Y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]])
    >>> F = np.array([[0.9, 0.1, 0.2], [0.4, 0.5, 0.1], [0.3, 0.2, 0.1]])
    >>> round(average_precision(Y, F, average="instance"), 4)
    0.9167
    """

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
        rows, values, lowest, _ = self._ties(F)
        below = self._below(rows, lowest)
        ranked = xp.sort(self._by_row(values, float("nan")), axis=-1)
        below_positives = count_below(
            ranked, self._starts(self._positive_start, ranked), xp.reshape(lowest, (-1,))
        )
        hits = xp.astype(
            self._positives_in_row - xp.reshape(below_positives, lowest.shape), xp.float64
        )
        return (
            self._row_sums(hits / xp.astype(self._cells_in_row - below, xp.float64)) / self._count
        )


average_precision = function_of(AveragePrecision)


# Whole numbers up to this are sorted fast.
_LARGEST_KEY = 2**31


class LabelOrder:
    """Order of rows of labels, and the number of their pairs.

    Parameters
    ----------
    labels : array of shape (R, n)
        NaN means "not observed".
    width : float, default=0.0
        Largest difference of neighbours in the order that count as equal.

    Attributes
    ----------
    ranks : int array of shape (R, n)
        Ranks; 0, the lowest, if not observed. Cells that are not observed come last, so that no
        pair with them increases.
    highest : int
        The highest rank.
    pairs : int array of shape (R,)
        Number of pairs of observed labels that differ.
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
        below = np.maximum.accumulate(
            np.where(begins, np.arange(labels.shape[1], dtype=kind), 0), axis=1
        )
        self.pairs = below.sum(axis=1, where=observed, dtype=np.int64)

    @cached_property
    def excess(self) -> np.ndarray:
        """Excess of each row (R,): half of the number to subtract from `twice_increasing`."""
        return np.asarray(_increasing(-np.sort(-self.ranks, axis=1), self.highest))


def twice_increasing(ranks: Array, tied: Array, highest: int) -> Array:
    """Return twice the number of increasing pairs of each row, plus the number of tied pairs with different ranks.

    Parameters
    ----------
    ranks : int array of shape (s, R, n)
        Ranks of the labels, in the order of the predictions.
    tied : bool array of shape (s, R, n − 1)
        Whether a prediction ties with the one before.
    highest : int
        The highest rank.

    Returns
    -------
    int array of shape (s, R)
        The numbers, plus twice the excess of each row.
    """
    xp = namespace(ranks)
    if not bool(xp.any(tied)):
        return 2 * _increasing(ranks, highest)
    # A tied pair counts half: count it once as increasing and once as decreasing.
    begins = xp.concat([xp.zeros_like(tied[..., :1]), ~tied], axis=-1)
    runs = running_sum(xp.astype(begins, xp.int64)) * (highest + 1)
    right = xp.sort(runs + ranks, axis=-1, stable=False) - runs
    wrong = highest - (xp.sort(runs + (highest - ranks), axis=-1, stable=False) - runs)
    return _increasing(right, highest) + _increasing(wrong, highest)


def _increasing(ranks: Array, highest: int) -> Array:
    """Return for ranks (…, n) the number of increasing pairs of each row (…), plus its excess."""
    xp = namespace(ranks)
    n = ranks.shape[-1]
    places = as_array_of(np.arange(n), ranks)
    # Sums of whole numbers below 2⁵³ are exact, and a matrix product is faster than a sum.
    weights = xp.astype(places, xp.float64)
    total = xp.zeros_like(ranks[..., 0], dtype=xp.float64)
    # Prefix, position and bit in one number; numbers of 32 bits are sorted faster.
    kind = xp.int32 if 2 * (highest + 1) * n < _LARGEST_KEY else xp.int64
    ranks = xp.astype(ranks, kind)
    twice_places = xp.astype(2 * places, kind)
    for bit in reversed(range(highest.bit_length())):
        keys = (ranks >> (bit + 1)) * (2 * n)
        keys += twice_places
        keys += (ranks >> bit) & 1
        total += xp.astype(xp.sort(keys, axis=-1, stable=False) & 1, xp.float64) @ weights
    return xp.astype(total, xp.int64)


def take_along_rows(rows: Array, order: Array) -> Array:
    """Return each row of (…, n) in the order of the positions in the same row of `order`."""
    xp = namespace(rows)
    n = rows.shape[-1]
    start = as_array_of(
        np.arange(math.prod(rows.shape[:-1])).reshape(*rows.shape[:-1], 1) * n, rows
    )
    return xp.reshape(
        xp.take(xp.reshape(rows, (-1,)), xp.reshape(order + start, (-1,))), rows.shape
    )


class Ordered(Metric):
    """Base class of metrics that use the labels in the order of the predictions."""

    compares = True
    needs = "two observed labels that differ"

    def _defined(self, cells: Cells) -> np.ndarray:
        return cells.vary

    def _ranked(self, F: Array, values: Array) -> tuple[Array, Array]:
        """Return values (R, n) in the order of the predictions, and whether each prediction ties with the one before.

        Parameters
        ----------
        F : array of shape (s, m, q)
        values : array of shape (R, n)

        Returns
        -------
        ordered : array of shape (s, R, n)
        tied : bool array of shape (s, R, n − 1)
        """
        xp = namespace(F)
        rows = self._cells.arrange(F)
        order = xp.argsort(rows, axis=-1, stable=False)
        rows = take_along_rows(rows, order)
        self._cells.check_last(rows)
        if self._tie_tolerance == 0:
            tied = rows[..., 1:] == rows[..., :-1]
        else:
            tied = (
                rows[..., 1:] - rows[..., :-1]
                <= self._cells.tie_width(rows, self._tie_share(F))[..., None]
            )
        return take_along_rows(xp.broadcast_to(values, rows.shape), order), tied


class ConcordanceIndex(Ordered):
    r"""The concordance index: the fraction of pairs of cells that are ranked in the order of their labels.

    Pairs of equal labels are excluded, and tied predictions count half. For labels of two values it
    equals the area under the ROC curve.

    .. math:: \frac{1}{\#\{(i, j) : y_i > y_j\}} \sum_{y_i > y_j} [f_i > f_j] + \tfrac12 [f_i = f_j]

    Rows or columns whose labels are all equal are excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN means "not observed".

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import concordance_index
    >>> Y = np.array([[5.0, 6.5, 8.0, 5.0]])
    >>> concordance_index(Y, np.array([[0.1, 0.4, 0.3, 0.3]]))
    0.7
    """

    title = "The concordance index"
    scoring = "concordance_index"
    counts_pairs = True

    def _prepare(self) -> None:
        order = LabelOrder(self._cells.labels)
        place = self._cells.place
        self._ranks = place(order.ranks)
        self._highest = order.highest
        self._excess = place(order.excess)
        self._pairs = place(order.pairs)

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        ranks, tied = self._ranked(F, self._ranks)
        won = twice_increasing(ranks, tied, self._highest) - 2 * self._excess
        return xp.astype(won, xp.float64) / xp.astype(2 * self._pairs, xp.float64)


concordance_index = function_of(ConcordanceIndex)


class Correlation(Ordered):
    """Base class of correlations: products of centred rows of length 1."""

    correlates = True

    @abstractmethod
    def _measured(self, cells: Cells) -> np.ndarray:
        """Return the values of the labels (R, n) to correlate; those of cells that are not observed are ignored."""

    def _prepare(self) -> None:
        cells = self._cells
        values = np.where(cells.observed, self._measured(cells), 0)
        values = np.where(
            cells.observed, values - values.sum(axis=1, keepdims=True) / cells.counts[:, None], 0
        )
        self._directions = cells.place(values / np.sqrt((values**2).sum(axis=1, keepdims=True)))
        self._counts = cells.place(cells.counts.astype(np.float64))

    def _correlate(self, centred: Array, directions: Array) -> Array:
        """Return the correlation (s, R) of centred rows (s, R, n) with those of the labels; 0 for rows of zeros."""
        xp = namespace(centred)
        length = xp.sqrt(xp.sum(centred * centred, axis=-1))
        product = xp.sum(centred * directions, axis=-1)
        correlations = product / xp.where(length > 0, length, 1.0)
        # Rounding may exceed ±1 slightly.
        return xp.clip(correlations, -1.0, 1.0)


class Pearson(Correlation):
    r"""The Pearson correlation of labels and predictions, from −1 to 1.

    .. math::

        \frac{\sum_i (y_i - \bar y)(f_i - \bar f)}{\sqrt{\sum_i (y_i - \bar y)^2 \sum_i (f_i - \bar
        f)^2}}

    Equal predictions have a correlation of 0. Rows or columns whose labels are all equal are
    excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN means "not observed".
    tie_tolerance : float or None, default=0.0
        The predictions of a row count as equal if they differ by at most this fraction of the
        largest absolute prediction of the row. 0 compares exactly. None means the tolerance for
        held-out predictions: 1.8e-12 in float64, 6.4e-6 in float32.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import pearson
    >>> Y = np.array([[1.0, 2.0, 3.0], [5.0, 5.0, 5.0]])
    >>> F = np.array([[0.1, 0.3, 0.2], [0.1, 0.2, 0.3]])
    >>> round(pearson(Y, F, setting="B"), 4), pearson(Y, F, setting="B", return_undefined=True)[1]
    (0.5, 1)
    """

    title = "The Pearson correlation"
    scoring = "pearson"

    def _measured(self, cells: Cells) -> np.ndarray:
        # Scaled, so that no square is out of range.
        return np.asarray(cells.filled / np.abs(cells.filled).max(axis=1, keepdims=True))

    def _prepare(self) -> None:
        super()._prepare()
        observed = self._cells.observed
        self._first = self._cells.place(
            np.argmax(observed, axis=1) + np.arange(len(observed)) * observed.shape[1]
        )

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        cells = self._cells
        rows = cells.masked(xp.astype(cells.arrange(F), xp.float64), 0.0)
        largest = xp.max(xp.abs(rows), axis=-1)
        if bool(xp.any(xp.isnan(largest))):
            refuse_nan()
        if bool(xp.any(xp.isinf(largest))):
            raise ValueError(
                "F contains infinity where Y is observed: Pearson correlation needs finite "
                "predictions."
            )
        rows = rows / xp.where(largest > 0, largest, 1.0)[..., None]
        # Differences from the first prediction are exactly 0 if all predictions are equal.
        first = xp.take(xp.reshape(rows, (rows.shape[0], -1)), self._first, axis=1)
        rows = cells.masked(rows - first[..., None], 0.0)
        varies = xp.max(rows, axis=-1) - xp.min(rows, axis=-1) > self._tie_share(F)
        rows = cells.masked(rows - (xp.sum(rows, axis=-1) / self._counts)[..., None], 0.0)
        return self._correlate(xp.where(varies[..., None], rows, 0.0), self._directions)


pearson = function_of(Pearson)


class Spearman(Correlation):
    r"""The Spearman correlation: the Pearson correlation of the ranks of labels and predictions.

    Equal labels and tied predictions get the mean of their ranks r and s:

    .. math::

        \frac{\sum_i (r_i - \bar r)(s_i - \bar s)}{\sqrt{\sum_i (r_i - \bar r)^2 \sum_i (s_i - \bar
        s)^2}}

    Equal predictions have a correlation of 0. Rows or columns whose labels are all equal are
    excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN means "not observed".

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import spearman
    >>> round(spearman(np.array([[1.0, 2.0, 8.0, 9.0]]), np.array([[0.1, 0.3, 0.3, 5.0]])), 4)
    0.9487
    """

    title = "The Spearman correlation"
    scoring = "spearman"

    def _measured(self, cells: Cells) -> np.ndarray:
        from scipy.stats import rankdata

        # Cells that are not observed come last, so that they do not affect the ranks of the others.
        return np.asarray(rankdata(np.where(cells.observed, cells.labels, np.inf), axis=1))

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        cells = self._cells
        directions, tied = self._ranked(F, self._directions)
        place = cells.place(np.arange(float(cells.width)))
        middle = (self._counts[:, None] - 1) / 2
        ranks = xp.broadcast_to(place - middle, directions.shape)
        if bool(xp.any(tied)):
            ranks = _mean_places(tied) - middle
        if not cells.are_complete:
            ranks = xp.where(place < self._counts[:, None], ranks, 0.0)
        return self._correlate(ranks, directions)


spearman = function_of(Spearman)


def _mean_places(tied: Array) -> Array:
    """Return the mean position (s, R, n) of the tied cells of each sorted cell, given which tie with the one before."""
    xp = namespace(tied)
    s = tied.shape[0]
    R = tied.shape[1]
    n = tied.shape[2] + 1
    begins = xp.reshape(xp.concat([xp.ones_like(tied[..., :1]), ~tied], axis=-1), (-1,))
    (starts,) = xp.nonzero(begins)
    lengths = xp.concat([starts[1:], xp.full_like(starts[:1], s * R * n)]) - starts
    middles = xp.astype(starts % n, xp.float64) + xp.astype(lengths - 1, xp.float64) / 2
    run = running_sum(xp.astype(begins, xp.int64)) - 1
    return xp.reshape(xp.take(middles, run), (s, R, n))

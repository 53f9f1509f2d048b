r"""Metrics of the best ranked cells of a row, and the interaction concordance index.

Metrics of the best ranked cells are sums over the positive cells of a weight that depends on the
rank. Tied predictions have the mean weight of their ranks, which is the expectation over a random
order. Let :math:`w(c)` be the sum of the weights of the first c ranks. A cell with a greater
predictions in its row, and b predictions that are not smaller (itself included), has the weight

.. math:: \frac{w(b) - w(a)}{b - a} .

Two rows i, k and two columns j, l have the interaction :math:`y_{ij} + y_{kl} - y_{il} - y_{kj}`.
With the differences
:math:`d_j = y_{ij} - y_{kj}` of two rows it is :math:`d_j - d_l`. So the interactions of two rows are the pairs of
entries of one vector, and their signs are determined by its order: each pair of rows needs one
sort. Rows and columns can be exchanged, so pairs are formed on the smaller side.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dyadlearn._array import Array, epsilon, namespace, row_blocks, to_numpy
from dyadlearn._checks import check_alpha, check_whole
from dyadlearn.metrics.cells import CELL_VALUES, Cells, Metric, function_of, refuse_nan
from dyadlearn.metrics.ranks import (
    LabelOrder,
    OfPositives,
    Ranked,
    take_along_rows,
    twice_increasing,
)

__all__ = ["enrichment_factor", "ic_index", "ndcg_at_k", "precision_at_k", "recall_at_k"]


class Top(Ranked):
    """Base class of metrics of the best ranked cells."""

    @abstractmethod
    def _worth(self, count: Array) -> Array:
        """Return the sum of the weights of the first ranks, given how many (s, p) for each chosen cell."""

    def _mean_worth(self, F: Array) -> Array:
        """Return the weight of each chosen cell, (s, p)."""
        xp = namespace(F)
        below, up_to = self._bounds(F)
        worth = self._worth(self._cells_in_row - below) - self._worth(self._cells_in_row - up_to)
        return worth / xp.astype(up_to - below, xp.float64)


class Hits(OfPositives, Top):
    """Base class of metrics that count the positives among the best ranked cells of each row."""

    @abstractmethod
    def _best(self, counts: np.ndarray) -> np.ndarray:
        """Return the number of best ranked cells (R,), given the number of cells in each row (R,)."""

    @abstractmethod
    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """Return the divisor of the hits of each row, given its numbers of best cells and positives, all (R,)."""

    def _prepare(self) -> None:
        self._choose(self._positive[self.rows])
        best = self._best(self._cells.counts)
        self._best_in_row = self._cells.place(best[self._row])
        self._divided_by = self._cells.place(
            self._divisor(best, self._n_positive[self.rows]).astype(np.float64)
        )

    def _worth(self, count: Array) -> Array:
        xp = namespace(count)
        return xp.astype(xp.where(count < self._best_in_row, count, self._best_in_row), xp.float64)

    def _score(self, F: Array) -> Array:
        return self._row_sums(self._mean_worth(F)) / self._divided_by


class HitsAtK(Hits):
    """Base class of precision and recall at k."""

    def __init__(self, Y: Any, *, k: int, **options: Any) -> None:
        self._k = check_whole(k, "k")
        super().__init__(Y, **options)

    def _best(self, counts: np.ndarray) -> np.ndarray:
        return np.asarray(np.minimum(self._k, counts))


class PrecisionAtK(HitsAtK):
    r"""The precision at k: the fraction of positives among the k best ranked cells.

    Cells that tie for the last ranks count by their probability of being among the k best. With
    :math:`r_i` the rank of cell i, with ties in random order,

    .. math:: \frac1k \sum_{i \in +} \mathrm{P}(r_i \le k) .

    Without a positive label the precision is 0. Rows or columns without an observed label are
    excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN means "not observed".
    k : int
        Number of best ranked cells. A row with fewer observed cells uses all of them.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import precision_at_k
    >>> precision_at_k(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.5, 0.1]]), k=2)
    0.75
    """

    title = "The precision at k"
    scoring = "precision_at_k"
    needs = "an observed label"

    def _defined(self, cells: Cells) -> np.ndarray:
        super()._defined(cells)
        # Without a positive the precision is 0, which is a valid score.
        return np.asarray(cells.counts > 0)

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return best


precision_at_k = function_of(PrecisionAtK)


class RecallAtK(HitsAtK):
    r"""The recall at k: the fraction of all positives that are among the k best ranked cells.

    Cells that tie for the last ranks count by their probability of being among the k best. With
    :math:`r_i` the rank of cell i, with ties in random order,

    .. math:: \frac1P \sum_{i \in +} \mathrm{P}(r_i \le k) .

    Rows or columns without a positive label are excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN means "not observed".
    k : int
        Number of best ranked cells. A row with fewer observed cells uses all of them.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import recall_at_k
    >>> recall_at_k(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), k=2)
    0.5
    """

    title = "The recall at k"
    scoring = "recall_at_k"

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return positive


recall_at_k = function_of(RecallAtK)


class EnrichmentFactor(Hits):
    r"""The enrichment factor: the rate of positives among the best ranked cells, divided by their rate among all cells.

    With n cells, P of them positive, and k the given fraction of n, rounded up,

    .. math:: \frac{\text{positives among the best } k}{k} \Big/ \frac{P}{n} .

    Rows or columns without a positive label are excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN means "not observed".
    fraction : float in (0, 1], default=0.01
        Fraction of cells that count as best ranked. Ties are treated as in `precision_at_k`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import enrichment_factor
    >>> enrichment_factor(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), fraction=0.25)
    2.0
    """

    title = "The enrichment factor"
    scoring = "enrichment_factor"

    def __init__(self, Y: Any, *, fraction: float = 0.01, **options: Any) -> None:
        self._fraction = check_alpha(fraction, "fraction")
        if not 0 < self._fraction <= 1:
            raise ValueError(f"fraction must be in (0, 1], found {fraction}.")
        super().__init__(Y, **options)

    def _best(self, counts: np.ndarray) -> np.ndarray:
        # Rounded first: 0.07 of 100 cells are 7, but the product of floats is slightly larger.
        return np.asarray(
            [math.ceil(round(self._fraction * int(count), 9)) for count in counts]
        ).clip(1)

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return np.asarray(best * positive / self._cells.counts)


enrichment_factor = function_of(EnrichmentFactor)


class NdcgAtK(Top):
    r"""The normalised discounted cumulative gain (NDCG) of the k best ranked cells.

    The labels are the gains. With :math:`r_i` the rank of cell i, where ties get the mean of their
    discounts, the sum is divided by its largest possible value:

    .. math:: \frac{1}{D_{\max}} \sum_{r_i \le k} \frac{y_i}{\log_2(1 + r_i)}

    Rows or columns without a label above 0 are excluded.

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of at least 0; NaN means "not observed".
    k : int, default=None
        Number of best ranked cells; None means all cells.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import ndcg_at_k
    >>> round(ndcg_at_k(np.array([[3, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), k=3), 4)
    0.9639
    """

    title = "NDCG"
    scoring = "ndcg_at_k"
    needs = "a label above 0"

    def __init__(self, Y: Any, *, k: int | None = None, **options: Any) -> None:
        self._k = None if k is None else check_whole(k, "k")
        super().__init__(Y, **options)

    def _defined(self, cells: Cells) -> np.ndarray:
        lowest = cells.labels[cells.observed].min(initial=0)
        if lowest < 0:
            raise ValueError(
                f"NDCG needs labels of at least 0, found {lowest} in Y: use Y - Y.min(), for "
                f"example."
            )
        return np.asarray((cells.filled > 0).any(axis=1))

    def _prepare(self) -> None:
        gains = self._cells.filled
        chosen = gains > 0
        self._choose(chosen)
        self._gains = self._cells.place(gains[chosen])
        discount = 1 / np.log2(np.arange(gains.shape[1]) + 2)
        if self._k is not None:
            discount[self._k :] = 0
        self._worths = self._cells.place(np.concatenate([[0.0], np.cumsum(discount)]))
        self._ideal = self._cells.place(-np.sort(-gains, axis=1) @ discount)

    def _worth(self, count: Array) -> Array:
        xp = namespace(count)
        return xp.reshape(xp.take(self._worths, xp.reshape(count, (-1,))), count.shape)

    def _score(self, F: Array) -> Array:
        return self._row_sums(self._gains * self._mean_worth(F)) / self._ideal


ndcg_at_k = function_of(NdcgAtK)


#: Default for the maximum number of differences of two rows that are sorted; they take half an
#: hour.
MAX_COMPARISONS = 1e10

# Memory in bytes for the order of the labels; if it needs more, it is computed again for every
# stack.
_KEPT_BYTES = 2**26

# Sums of four numbers differ by rounding by at most this multiple of ε, relative to the largest
# number.
_ROUNDING = 4

_Ordered = tuple[np.ndarray, np.ndarray, LabelOrder]


class IcIndex(Metric):
    r"""The interaction concordance index: the fraction of interactions whose direction is predicted correctly.

    Main effects make an instance high in all tasks, or a task high for all instances. An
    interaction means that an instance is higher in one task than in another *more than other
    instances are*. Of all pairs of rows (i, k) and of columns (j, l) with an interaction
    :math:`\delta y = y_{ij} + y_{kl} - y_{il} - y_{kj}` other than 0, the index is the fraction
    where that of the predictions has the same sign, half where it is 0:

    .. math:: \frac{1}{\#\{\delta y \ne 0\}} \sum_{\delta y \ne 0}
        [\delta y \, \delta f > 0] + \tfrac12 [\delta f = 0]

    Predictions that are a sum of an effect of the row and one of the column, such as means, have an
    index of 0.5, however accurate they are.

    All averages give the same value, because four cells belong to two rows and two columns.

    Parameters
    ----------
    Y : array of shape (m, q)
        Real labels; NaN means "not observed". Pairs with one of their four labels missing do not
        count.
    tie_tolerance : float or None, default=0.0
        The interaction of four predictions counts as 0 if its absolute value is at most this
        fraction of the largest absolute prediction. The smallest tolerance is 9e-16 in float64,
        which also applies to interactions of labels, because sums of two effects are rounded. None
        means the tolerance for held-out predictions: 1.8e-12 in float64, 6.4e-6 in float32.
    max_comparisons : float or None, default=1e10
        Maximum number of differences between pairs of rows, m²q/2 where m is the smaller side; a
        larger grid raises an error at once. 1e10 differences take about half an hour. None means no
        limit.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    References
    ----------
    Pahikkala, Numminen, Movahedi, Karmitsa and Airola, "Interaction Concordance Index: Performance
    Evaluation for Interaction Prediction Methods", arXiv:2510.14419, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import ic_index
    >>> Y = np.array([[5.0, 6.0, 8.0], [2.0, 1.0, 7.0]])
    >>> ic_index(Y, Y), ic_index(Y, -Y), ic_index(Y, Y.mean(axis=0) + Y.mean(axis=1, keepdims=True))
    (1.0, 0.0, 0.5)
    """

    title = "The IC-index"
    scoring = "ic_index"
    needs = "two rows and two columns whose four labels interact"
    is_of_rows = False  # four cells belong to two rows and two columns

    def __init__(
        self, Y: Any, *, max_comparisons: float | None = MAX_COMPARISONS, **options: Any
    ) -> None:
        self._most = max_comparisons
        super().__init__(Y, **options)

    def _defined(self, cells: Cells) -> np.ndarray:
        labels = to_numpy(cells.grid.values).astype(np.float64)
        self._mask = cells.place(~np.isnan(labels))
        self._is_turned = labels.shape[0] > labels.shape[1]
        self._labels = labels.T if self._is_turned else labels
        n_rows, n_columns = self._labels.shape
        count = n_rows * (n_rows - 1) / 2 * n_columns
        if self._most is not None and count > self._most:
            sides = "columns" if self._is_turned else "rows"
            need = f"needs {count:.1e} differences between pairs of {sides}, more than max_comparisons={self._most:g}"
            raise ValueError(
                f"The IC-index of {labels.shape[0]} × {labels.shape[1]} labels {need} (1e10 take "
                f"half an hour for "
                'each grid): score fewer rows and columns, or use scorer("ic_index", '
                "max_comparisons=1e12)."
            )
        self._width = (
            _ROUNDING * epsilon(cells.grid.values) * float(np.abs(cells.labels).max(initial=0))
        )
        self._orders: list[_Ordered] = []
        self._n_pairs = 0
        keeps = 2 * count <= _KEPT_BYTES
        for ordered in self._ordered_pairs():
            self._n_pairs += int(ordered[2].pairs.sum())
            if keeps:
                self._orders.append(ordered)
        return np.asarray([self._n_pairs > 0])

    def _blocks(self, stack: Array) -> Iterable[slice]:
        # All at once, so that the labels of a pair of rows are sorted once for all predictions.
        return [slice(0, stack.shape[0])] if stack.shape[0] else []

    def _ordered_pairs(self) -> Iterator[_Ordered]:
        """Yield first and second rows (P,) of some pairs, and the order of the differences of their labels."""
        m, q = self._labels.shape
        rows = np.triu_indices(m, 1)
        for here in row_blocks(rows[0].size, (CELL_VALUES, q)):
            first, second = (ends[here] for ends in rows)
            yield first, second, LabelOrder(self._labels[first] - self._labels[second], self._width)

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        place = self._cells.place
        share = max(self._tie_share(F), _ROUNDING * epsilon(F))
        F = xp.astype(F, xp.float64)
        widths = [share * _largest(F[index, ...], self._mask) for index in range(F.shape[0])]
        F = xp.where(self._mask, F, float("nan"))
        if self._is_turned:
            F = xp.permute_dims(F, (0, 2, 1))
        twice = [0] * F.shape[0]
        for first, second, order in self._orders or self._ordered_pairs():
            one = place(first)
            other = place(second)
            ranks = place(order.ranks)[None, ...]
            for index, width in enumerate(widths):
                left = xp.take(F[index, ...], one, axis=0)
                right = xp.take(F[index, ...], other, axis=0)
                rows = (left - right)[None, ...]
                places = xp.argsort(rows, axis=-1, stable=False)
                rows = xp.sort(rows, axis=-1, stable=False)
                tied = rows[..., 1:] - rows[..., :-1] <= width
                concordant = twice_increasing(take_along_rows(ranks, places), tied, order.highest)
                twice[index] += int(xp.sum(concordant)) - 2 * int(order.excess.sum())
        return place(np.asarray(twice, dtype=np.float64)[:, None] / (2 * self._n_pairs))


ic_index = function_of(IcIndex)


def _largest(F: Array, mask: Array) -> float:
    """Return the largest absolute prediction (m, q) of an observed cell; raise if it is NaN or infinite."""
    xp = namespace(F)
    largest = float(xp.max(xp.where(mask, xp.abs(F), 0.0)))
    if np.isnan(largest):
        refuse_nan()
    if largest > float(xp.finfo(F.dtype).max) / 4:
        raise ValueError(
            "F contains infinity or nearly so where Y is observed: the IC-index needs finite "
            "predictions."
        )
    return largest

r"""Metrics of the best ranked cells of a row.

All are sums over the positive cells of what their place is worth. Predictions that tie share their places: each is
worth the mean of them, the expectation over a random order. With :math:`w(c)` the worth of the first c places
together, a cell with a greater predictions before it and b that are not smaller, itself included, is worth

.. math:: \frac{w(b) - w(a)}{b - a} .
"""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Real
from typing import Any, Unpack

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn._checks import check_count
from dyadlearn.metrics.cells import Cells, Ranking
from dyadlearn.metrics.ranks import OfPositives, Ranked

__all__ = [
    "EnrichmentFactor",
    "NdcgAtK",
    "PrecisionAtK",
    "RecallAtK",
    "enrichment_factor",
    "ndcg_at_k",
    "precision_at_k",
    "recall_at_k",
]


class Top(Ranked):
    """What metrics of the best places have in common."""

    @abstractmethod
    def _worth(self, count: Array) -> Array:
        """Return what the first places together are worth, given how many (s, p) for each chosen cell."""

    def _mean_worth(self, F: Array) -> Array:
        """Return what the place of each chosen cell (s, p) is worth."""
        xp = namespace(F)
        below, up_to = self._bounds(F)
        worth = self._worth(self._cells_in_row - below) - self._worth(self._cells_in_row - up_to)
        return worth / xp.astype(up_to - below, xp.float64)


class Hits(OfPositives, Top):
    """What metrics have in common that count the positives among the best of each row."""

    @abstractmethod
    def _best(self, counts: np.ndarray) -> np.ndarray:
        """Return how many cells are the best ones, given the number in each row (R,)."""

    @abstractmethod
    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """Return what the hits of each row are divided by, given its best places and positives, all (R,)."""

    def _prepare(self) -> None:
        self._choose(self._positive[self.rows])
        best = self._best(self._cells.counts)
        self._best_in_row = self._cells.place(best[self._row])
        self._divided_by = self._cells.place(self._divisor(best, self._n_positive[self.rows]).astype(np.float64))

    def _worth(self, count: Array) -> Array:
        xp = namespace(count)
        return xp.astype(xp.where(count < self._best_in_row, count, self._best_in_row), xp.float64)

    def _score(self, F: Array) -> Array:
        return self._row_sums(self._mean_worth(F)) / self._divided_by


class HitsAtK(Hits):
    """What precision and recall at k have in common."""

    def __init__(self, Y: Any, *, k: int, **options: Any) -> None:
        self._k = check_count(k, "k")
        super().__init__(Y, **options)

    def _best(self, counts: np.ndarray) -> np.ndarray:
        return np.asarray(np.minimum(self._k, counts))


class PrecisionAtK(HitsAtK):
    """The precision of the best k; see `precision_at_k`."""

    title = "The precision at k"
    scoring = "precision_at_k"
    needs = "an observed label"

    def _defined(self, cells: Cells) -> np.ndarray:
        super()._defined(cells)
        # Without a positive the precision is 0, and that is a score like any other.
        return np.asarray(cells.counts > 0)

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return best


def precision_at_k(Y: Any, F: Any, k: int, **options: Unpack[Ranking]) -> Any:
    r"""Return the share of positives among the k best ranked cells.

    Cells that tie for the last places share them: each counts by its chance to be among the k. With
    :math:`r_i` the place of cell i in a random order of ties,

    .. math:: \frac1k \sum_{i \in +} \mathrm{P}(r_i \le k) .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    k : int
        Of a row with fewer observed cells all are taken.
    average : {"micro", "instance", "task"}, default="micro"
        The best k of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without an observed label are left out; without a positive the
        precision is 0.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import precision_at_k
    >>> precision_at_k(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.5, 0.1]]), k=2)
    0.75
    """
    return PrecisionAtK.of(Y, F, k=k, **options)


class RecallAtK(HitsAtK):
    """The recall of the best k; see `recall_at_k`."""

    title = "The recall at k"
    scoring = "recall_at_k"

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return positive


def recall_at_k(Y: Any, F: Any, k: int, **options: Unpack[Ranking]) -> Any:
    r"""Return the share of the positives that are among the k best ranked cells.

    Cells that tie for the last places share them: each counts by its chance to be among the k. With
    :math:`r_i` the place of cell i in a random order of ties,

    .. math:: \frac1P \sum_{i \in +} \mathrm{P}(r_i \le k) .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    k : int
    average : {"micro", "instance", "task"}, default="micro"
        The best k of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without a positive are left out.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import recall_at_k
    >>> recall_at_k(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), k=2)
    0.5
    """
    return RecallAtK.of(Y, F, k=k, **options)


class EnrichmentFactor(Hits):
    """The enrichment factor; see `enrichment_factor`."""

    title = "The enrichment factor"
    scoring = "enrichment_factor"

    def __init__(self, Y: Any, *, fraction: float = 0.01, **options: Any) -> None:
        if isinstance(fraction, bool) or not isinstance(fraction, Real):
            raise TypeError(f"fraction must be a number in (0, 1], found {fraction!r}.")
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction must be in (0, 1], found {fraction}.")
        self._fraction: float = float(fraction)
        super().__init__(Y, **options)

    def _best(self, counts: np.ndarray) -> np.ndarray:
        # 0.07 of 100 cells are 7, though the product of floats is a little more.
        return np.asarray([math.ceil(round(self._fraction * int(count), 9)) for count in counts]).clip(1)

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return np.asarray(best * positive / self._cells.counts)


def enrichment_factor(Y: Any, F: Any, fraction: float = 0.01, **options: Unpack[Ranking]) -> Any:
    r"""Return how many times more frequent positives are among the best ranked cells than among all.

    With n cells, P of them positive, and k the given fraction of n, rounded up,

    .. math:: \frac{\text{positives among the best } k}{k} \Big/ \frac{P}{n} .

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two values, the larger being the positive class; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    fraction : float in (0, 1], default=0.01
        Cells that tie for the last places share them, as in `precision_at_k`.
    average : {"micro", "instance", "task"}, default="micro"
        The best of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without a positive are left out.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import enrichment_factor
    >>> enrichment_factor(np.array([[1, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), fraction=0.25)
    2.0
    """
    return EnrichmentFactor.of(Y, F, fraction=fraction, **options)


class NdcgAtK(Top):
    """The normalised discounted cumulative gain; see `ndcg_at_k`."""

    title = "NDCG"
    scoring = "ndcg_at_k"
    needs = "a label above 0"

    def __init__(self, Y: Any, *, k: int | None = None, **options: Any) -> None:
        self._k = None if k is None else check_count(k, "k")
        super().__init__(Y, **options)

    def _defined(self, cells: Cells) -> np.ndarray:
        lowest = cells.labels[cells.observed].min(initial=0)
        if lowest < 0:
            raise ValueError(
                f"NDCG takes labels as gains of at least 0, found {lowest} in Y: relabel them, as by Y - Y.min()."
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


def ndcg_at_k(Y: Any, F: Any, k: int | None = None, **options: Unpack[Ranking]) -> Any:
    r"""Return the normalised discounted cumulative gain of the k best ranked cells.

    The labels are the gains. With :math:`r_i` the place of cell i, ties sharing the mean of their
    discounts, the sum is divided by the largest it could be:

    .. math:: \frac{1}{D_{\max}} \sum_{r_i \le k} \frac{y_i}{\log_2(1 + r_i)}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of at least 0; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    k : int, default=None
        All cells where not given.
    average : {"micro", "instance", "task"}, default="micro"
        The best k of all cells; of each row, then the mean over the rows; of each column, then the
        mean over the columns. Those without a label above 0 are left out.
    **options
        ``setting``, ``tie_tolerance`` and ``return_undefined``: see `dyadlearn.metrics.cells.Ranking`.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import ndcg_at_k
    >>> round(ndcg_at_k(np.array([[3, 0, 1, 0]]), np.array([[0.9, 0.5, 0.4, 0.1]]), k=3), 4)
    0.9639
    """
    return NdcgAtK.of(Y, F, k=k, **options)

r"""Metrics of the best ranked cells of a row.

All are sums over the positive cells of what their place is worth. Predictions that tie share their places: each is
worth the mean of them, the expectation over a random order. With :math:`w(c)` the worth of the first c places
together, a cell with a greater predictions before it and b that are not smaller, itself included, is worth

.. math:: \frac{w(b) - w(a)}{b - a} .
"""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.metrics.cells import Cells
from dyadlearn.metrics.ranks import Ranked, positives

__all__ = ["EnrichmentFactor", "NdcgAtK", "PrecisionAtK", "RecallAtK"]


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


class Hits(Top):
    """What metrics have in common that count the positives among the best of each row."""

    needs = "a positive label"

    def _defined(self, cells: Cells) -> np.ndarray:
        self._positive = positives(cells, self.title)
        return np.asarray(self._positive.any(axis=1))

    @abstractmethod
    def _best(self, counts: np.ndarray) -> np.ndarray:
        """Return how many cells are the best ones, given the number in each row (R,)."""

    @abstractmethod
    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        """Return what the hits of each row are divided by, given its best places and positives, all (R,)."""

    def _prepare(self) -> None:
        positive, counts = self._positive[self.rows], self._cells.counts
        self._choose(positive)
        best = self._best(counts)
        self._best_in_row = self._cells.place(best[self._row])
        self._divided_by = self._cells.place(self._divisor(best, positive.sum(axis=1)).astype(np.float64))

    def _worth(self, count: Array) -> Array:
        xp = namespace(count)
        return xp.astype(xp.where(count < self._best_in_row, count, self._best_in_row), xp.float64)

    def _score(self, F: Array) -> Array:
        return self._row_sums(self._mean_worth(F)) / self._divided_by


def check_k(k: Any) -> int:
    """Return a number of places, refusing what is not a positive integer."""
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise TypeError(f"k must be an integer of at least 1, found {k!r}.")
    if k < 1:
        raise ValueError(f"k must be at least 1, found {k}.")
    return int(k)


class HitsAtK(Hits):
    """What precision and recall at k have in common."""

    def __init__(self, Y: Any, *, k: int, **options: Any) -> None:
        self._k = check_k(k)
        super().__init__(Y, **options)

    def _best(self, counts: np.ndarray) -> np.ndarray:
        return np.asarray(np.minimum(self._k, counts))


class PrecisionAtK(HitsAtK):
    """The precision of the best k; see `precision_at_k`."""

    title = "The precision at k"
    needs = "an observed label"

    def _defined(self, cells: Cells) -> np.ndarray:
        super()._defined(cells)
        # Without a positive the precision is 0, and that is a score like any other.
        return np.asarray(cells.counts > 0)

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return best


class RecallAtK(HitsAtK):
    """The recall of the best k; see `recall_at_k`."""

    title = "The recall at k"

    def _divisor(self, best: np.ndarray, positive: np.ndarray) -> np.ndarray:
        return positive


class EnrichmentFactor(Hits):
    """The enrichment factor; see `enrichment_factor`."""

    title = "The enrichment factor"

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


class NdcgAtK(Top):
    """The normalised discounted cumulative gain; see `ndcg_at_k`."""

    title = "NDCG"
    needs = "a label above 0"

    def __init__(self, Y: Any, *, k: int | None = None, **options: Any) -> None:
        self._k = None if k is None else check_k(k)
        super().__init__(Y, **options)

    def _defined(self, cells: Cells) -> np.ndarray:
        lowest = cells.labels[cells.observed].min(initial=0)
        if lowest < 0:
            raise ValueError(
                f"NDCG takes labels as gains of at least 0, found {lowest} in Y: relabel them, as by Y - Y.min()."
            )
        return np.asarray((np.where(cells.observed, cells.labels, 0) > 0).any(axis=1))

    def _prepare(self) -> None:
        gains = np.where(self._cells.observed, self._cells.labels, 0)
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

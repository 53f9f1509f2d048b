"""Metrics of the distance between labels and predictions."""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.metrics.cells import Cells, Metric, refuse_nan

__all__ = ["R2", "NegSquaredLoss", "SquaredLoss"]


class SquaredLoss(Metric):
    """The mean squared error; see `mean_squared_error`."""

    title = "The mean squared error"

    def _defined(self, cells: Cells) -> np.ndarray:
        return np.asarray(cells.counts > 0)

    def _prepare(self) -> None:
        cells = self._cells
        self._labels = cells.place(np.where(cells.observed, cells.labels, 0))
        self._observed = None if cells.observed.all() else cells.place(cells.observed)
        self._divisor = cells.place(cells.counts.astype(np.float64))

    def _score(self, F: Array) -> Array:
        xp = namespace(F)
        gap = self._cells.arrange(F) - self._labels
        if self._observed is not None:
            gap = xp.where(self._observed, gap, xp.zeros_like(gap))
        score = xp.sum(gap * gap, axis=-1) / self._divisor
        if bool(xp.any(xp.isnan(score))):
            refuse_nan()
        return score


class NegSquaredLoss(SquaredLoss):
    """Minus the mean squared error, so that greater is better."""

    def _score(self, F: Array) -> Array:
        return -super()._score(F)


class R2(SquaredLoss):
    """The coefficient of determination; see `r2`."""

    title = "R²"
    needs = "two observed labels that differ"

    def _defined(self, cells: Cells) -> np.ndarray:
        return cells.vary

    def _prepare(self) -> None:
        super()._prepare()
        cells = self._cells
        mean = np.where(cells.observed, cells.labels, 0).sum(axis=1) / cells.counts
        spread = np.where(cells.observed, cells.labels - mean[:, None], 0)
        self._divisor = cells.place((spread**2).sum(axis=1))

    def _score(self, F: Array) -> Array:
        return 1 - super()._score(F)

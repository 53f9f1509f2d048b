"""Metrics of the distance between labels and predictions."""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.metrics.cells import Cells, Metric, refuse_nan

__all__ = ["R2", "NegSquaredLoss", "SquaredLoss"]


def _check_squares(labels: np.ndarray, values: Array) -> None:
    """Refuse labels whose squares are out of the range of the numbers that hold them."""
    largest, numbers = float(np.abs(labels).max()), namespace(values).finfo(values.dtype)
    # An error may be twice as large as the labels, and as many are added up.
    most = float(numbers.max) / (4 * labels.size)
    if largest > most**0.5 or 0 < largest < float(numbers.smallest_normal / numbers.eps) ** 0.5:
        raise ValueError(
            f"The largest label of Y is {largest:.3g}, the square of which is out of the range of {values.dtype}: "
            f"divide Y by a constant, such as 1e{int(np.floor(np.log10(largest)))}."
        )


class SquaredLoss(Metric):
    """The mean squared error; see `mean_squared_error`."""

    title = "The mean squared error"

    def _defined(self, cells: Cells) -> np.ndarray:
        return np.asarray(cells.counts > 0)

    def _prepare(self) -> None:
        cells = self._cells
        labels = np.where(cells.observed, cells.labels, 0)
        _check_squares(labels, cells.grid.values)
        self._labels = cells.place(labels)
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

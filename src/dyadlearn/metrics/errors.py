"""Metrics of the distance between labels and predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.metrics.cells import Cells, Metric, refuse_nan
from dyadlearn.settings import Setting

__all__ = ["R2", "NegSquaredLoss", "SquaredLoss", "mean_squared_error", "r2"]


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
        _check_squares(cells.filled, cells.grid.values)
        self._labels = cells.place(cells.filled)
        self._observed = None if cells.are_complete else cells.place(cells.observed)
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

    scoring = "neg_mean_squared_error"

    def _score(self, F: Array) -> Array:
        return -super()._score(F)


def mean_squared_error(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    return_undefined: bool = False,
) -> Any:
    r"""Return the mean squared error over the observed cells.

    .. math:: \frac1n \sum_i (y_i - f_i)^2

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells; the mean over the rows; the mean over the columns. They differ only where
        labels are missing. Rows or columns without an observed label are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import mean_squared_error
    >>> Y, F = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[1.0, 4.0], [2.0, 9.0]])
    >>> mean_squared_error(Y, F, average="instance")
    1.5
    """
    return SquaredLoss(Y, average=average, setting=setting)(F, return_undefined)


class R2(SquaredLoss):
    """The coefficient of determination; see `r2`."""

    title = "R²"
    scoring = "r2"
    needs = "two observed labels that differ"

    def _defined(self, cells: Cells) -> np.ndarray:
        return cells.vary

    def _prepare(self) -> None:
        super()._prepare()
        cells = self._cells
        mean = cells.filled.sum(axis=1) / cells.counts
        spread = np.where(cells.observed, cells.labels - mean[:, None], 0)
        self._divisor = cells.place((spread**2).sum(axis=1))

    def _score(self, F: Array) -> Array:
        return 1 - super()._score(F)


def r2(
    Y: Any,
    F: Any,
    *,
    average: str | None = None,
    setting: str | Setting | None = None,
    return_undefined: bool = False,
) -> Any:
    r"""Return the coefficient of determination, 1 for perfect predictions and 0 for the mean of the labels.

    .. math:: 1 - \frac{\sum_i (y_i - f_i)^2}{\sum_i (y_i - \bar y)^2}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels; NaN where not observed.
    F : array of shape (…, m, q)
        Predictions, a grid or a stack of grids, of the library of `Y`.
    average : {"micro", "instance", "task"}, default="micro"
        Over all cells together, with their common mean; the mean over the rows; the mean over the
        columns. Rows or columns of equal labels are left out.
    setting : str or Setting, default=None
        Chooses the average instead: micro in A and D, instance in B, task in C.
    return_undefined : bool, default=False
        Also return the number of rows or columns that were left out.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and an int.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import r2
    >>> r2(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 3.0]]))
    0.8
    """
    return R2(Y, average=average, setting=setting)(F, return_undefined)

"""Metrics of the distance between labels and predictions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.metrics.cells import Cells, Metric, function_of, refuse_nan

__all__ = ["mean_absolute_error", "mean_squared_error", "r2", "root_mean_squared_error"]


class Loss(Metric):
    """Base class of metrics that are minus the mean loss over the cells of a row.

    The loss of held-out predictions (``tie_tolerance=None``) is zero if it is not larger than that
    of rounding errors, which are up to 1.8e-12 of the largest label in float64 and 6.4e-6 in
    float32. Such losses are equal, although their digits differ.
    """

    can_tie = False

    # Computed on first use: squared errors are often known without predictions.

    @cached_property
    def _labels(self) -> Array:
        return self._cells.place(self._cells.filled)

    @cached_property
    def _divisor(self) -> Array:
        return self._cells.place(self._cells.counts.astype(np.float64))

    @cached_property
    def _rounding(self) -> Array | None:
        """Mean loss (R,) of predictions that differ from the labels by rounding; None if these count as they are."""
        if self._tie_tolerance is not None:
            return None
        filled = self._cells.filled
        largest = np.maximum(filled.max(axis=1), -filled.min(axis=1)).astype(np.float64)
        gap = self._cells.place(self._tie_share(self._cells.grid.values) * largest)
        return (
            self._losses(gap)
            * self._cells.place(self._cells.counts.astype(np.float64))
            / self._divisor
        )

    @abstractmethod
    def _losses(self, gap: Array) -> Array:
        """Return the loss of a cell, given its error."""

    def _score(self, F: Array) -> Array:
        return 0.0 - self._mean_loss(F)  # 0, not −0, for perfect predictions

    def _mean_loss(self, F: Array) -> Array:
        """Return the mean loss (s, R) of predictions (s, m, q)."""
        xp = namespace(F)
        gap = self._cells.masked(self._cells.arrange(F) - self._labels, 0.0)
        score = xp.sum(self._losses(gap), axis=-1) / self._divisor
        if bool(xp.any(xp.isnan(score))):
            refuse_nan()
        if self._rounding is None:
            return score
        return xp.where(score <= self._rounding, 0.0, score)


class AbsoluteLoss(Loss):
    r"""The mean absolute error over the observed cells.

    .. math:: \frac1n \sum_i |y_i - f_i|

    Averages differ only if labels are missing. Rows or columns without an observed label are
    excluded.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import mean_absolute_error
    >>> Y, F = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[1.0, 4.0], [1.0, 9.0]])
    >>> mean_absolute_error(Y, F, average="instance")
    1.5
    """

    title = "The mean absolute error"
    scoring = "neg_mean_absolute_error"

    def _losses(self, gap: Array) -> Array:
        return namespace(gap).abs(gap)


mean_absolute_error = function_of(AbsoluteLoss)


class SquaredLoss(Loss):
    r"""The mean squared error over the observed cells.

    .. math:: \frac1n \sum_i (y_i - f_i)^2

    Averages differ only if labels are missing. Rows or columns without an observed label are
    excluded.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import mean_squared_error
    >>> Y, F = np.array([[1.0, 2.0], [3.0, np.nan]]), np.array([[1.0, 4.0], [2.0, 9.0]])
    >>> mean_squared_error(Y, F, average="instance")
    1.5
    """

    title = "The mean squared error"
    scoring = "neg_mean_squared_error"

    def _prepare(self) -> None:
        # Raise if the squares of labels are out of the range of their dtype.
        cells = self._cells
        dtype = self._cells.grid.values.dtype
        values = cells.grid.values if cells.is_whole else cells.filled
        xp = namespace(values)
        numbers = namespace(cells.grid.values).finfo(dtype)
        largest = max(float(xp.max(values)), -float(xp.min(values)))
        # An error may be twice as large as the labels, and the squares of all cells are summed.
        most = float(numbers.max) / (4 * cells.rows.size * cells.width)
        if largest > most**0.5 or 0 < largest < float(numbers.smallest_normal / numbers.eps) ** 0.5:
            fault = f"The square of the largest label of Y, {largest:.3g}, is out of the range of {dtype}"
            raise ValueError(
                f"{fault}: divide Y by a constant, such as 1e{int(np.floor(np.log10(largest)))}."
            )
        self._largest = largest

    def _losses(self, gap: Array) -> Array:
        return gap * gap

    @property
    def of_squared_errors(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """Minus the errors, which are the same in every average of a complete grid."""
        return lambda errors: 0.0 - self._settled(errors)

    def _settled(self, errors: np.ndarray) -> np.ndarray:
        """Return mean squared errors of a complete grid, 0 where they are rounding."""
        share = self._tie_share(self._cells.grid.values)
        return np.where(errors <= (share * self._largest) ** 2, 0.0, errors)


mean_squared_error = function_of(SquaredLoss)


class RootSquaredLoss(SquaredLoss):
    r"""The root mean squared error, in the unit of the labels.

    It is the root of `mean_squared_error` with the same average, not a mean of roots. So both
    metrics choose the same regularisation.

    .. math:: \sqrt{\frac1n \sum_i (y_i - f_i)^2}

    Averages differ only if labels are missing. Rows or columns without an observed label are
    excluded.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import root_mean_squared_error
    >>> root_mean_squared_error(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 2.0]]))
    1.0
    """

    title = "The root mean squared error"
    scoring = "neg_root_mean_squared_error"

    def _mean_loss(self, F: Array) -> Array:
        return super()._mean_loss(F) ** 0.5

    def combined(self, scores: Array) -> Array:
        """Return minus the root of the mean square."""
        return 0.0 - namespace(scores).mean(scores * scores, axis=-1) ** 0.5

    @property
    def of_squared_errors(self) -> Callable[[np.ndarray], np.ndarray]:
        """Minus the roots of the errors, which are the same in every average of a complete grid."""
        return lambda errors: 0.0 - np.sqrt(self._settled(errors))


root_mean_squared_error = function_of(RootSquaredLoss)


class R2(SquaredLoss):
    r"""The coefficient of determination R²: 1 for perfect predictions, 0 for the mean of the labels.

    .. math:: 1 - \frac{\sum_i (y_i - f_i)^2}{\sum_i (y_i - \bar y)^2}

    Rows or columns whose labels are all equal are excluded.

    Returns
    -------
    float, or array of shape (…) for a stack
        With `return_undefined`, a pair of this and the number of excluded rows or columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.metrics import r2
    >>> r2(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, 3.0]]))
    0.8
    """

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
        self._spread = (spread**2).sum(axis=1)
        self._divisor = cells.place(self._spread)

    def _score(self, F: Array) -> Array:
        return 1 - self._mean_loss(F)

    @property
    def of_squared_errors(self) -> Callable[[np.ndarray], np.ndarray] | None:
        """R² of all cells together; that of each row would need the errors of each."""
        if self._cells.average != "pooled":
            return None
        per_error = float(self._cells.counts[0] / self._spread[0])
        return lambda errors: 1 - per_error * self._settled(errors)


r2 = function_of(R2)

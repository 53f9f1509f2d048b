"""Labels and kernels in the units that kernels are learned in."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dyadlearn._array import Array, Shape, array_bytes, as_array_of, double, namespace, to_numpy
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._tables import Table
from dyadlearn.kernels.learned import LearnedKernel
from dyadlearn.labels import Labels
from dyadlearn.learning.error import Targets, weight_unit
from dyadlearn.learning.mixture import PROFILES, Mixture, Sides, single
from dyadlearn.models.reading import Training
from dyadlearn.solve.cells import CellSet

# Number of multiplications per product up to which kernels are learned on the processor, whatever
# the device.
_FOR_PROCESSORS = 3e7


def check_learning_memory(
    Y: Array, kernels: Sequence[LearnedKernel], n_folds: int, profiled: tuple[bool, bool]
) -> None:
    """Raise if the kernels to learn from, and their parts in each fold, do not fit in memory."""
    m, q = Y.shape
    counts = [len(kernel.members) for kernel in kernels]
    # Grids and preconditioners of all folds; kernels of each side, their logarithms and powers, and
    # profiles of all folds.
    held: list[Shape] = [(4 * n_folds + 16, m, q), (3 * n_folds, m + q, m + q)]
    for n, count, has_profiles in zip((m, q), counts, profiled, strict=False):
        held += [(3 * count + 5, n, n), ((4 * n_folds + 12) * has_profiles, n, n)]
    purpose = f"Learning {sum(counts)} kernels of a grid of {m} × {q}"
    remedy = Message("use fewer rows or fewer descriptions")
    if any(profiled):
        remedy = Message("{remedy}, or <stages=1>", remedy=remedy)
    check_memory(array_bytes(Y, *held), Y, purpose, remedy)


class Standardised(NamedTuple):
    """Labels to learn from, in units that do not depend on those of the labels and of the weights.

    Attributes
    ----------
    labels : Targets
        Labels with mean zero, for a model with an intercept, and deviation one.
    centre, size : float
        Mean and deviation of the given labels.
    unit : float
        Unit of the given weights; 1 without weights.
    """

    labels: Targets
    centre: float
    size: float
    unit: float

    @property
    def variance(self) -> float:
        """Variance of the given labels."""
        return self.size * self.size

    def restored(self, predictions: Array, like: Array) -> Array:
        """Return predictions in the units of the given labels `like`, in double precision."""
        values = as_array_of(to_numpy(predictions), like, double(like).dtype)
        return values * self.size + self.centre


def standardised(data: Training, fit_intercept: bool, unit: float | None = None) -> Standardised:
    """Return the observed labels in units of their deviation, and their weights in a common unit.

    Parameters
    ----------
    data : Training
    fit_intercept : bool
        Whether the labels are centred.
    unit : float, optional
        Unit of the weights; by default `weight_unit` of the observed labels.
    """
    if fit_intercept:
        constant = "grand" if data.has_tasks else "task"
    else:
        constant = None
    Y = data.labels.values
    weights = data.labels.weights
    xp = namespace(data.labels.values)
    present = ~xp.isnan(Y)
    weights, unit = _in_units(weights, data.labels.observed, unit)
    if weights is None:
        share = xp.astype(present, Y.dtype)
    else:
        share = xp.where(present, weights, 0.0)
    share = share / xp.sum(share)
    Y = xp.where(present, Y, 0.0)
    # A power of two changes no digit, and squares of labels neither overflow nor underflow.
    scale = 2.0 ** (math.frexp(float(xp.max(xp.abs(Y))))[1] - 1)
    Y = Y / scale
    first = float(xp.max(xp.where(present, Y, -math.inf)))
    are_equal = first == float(xp.min(xp.where(present, Y, math.inf)))
    centre = 0.0
    if constant is not None:
        centre = first if are_equal else float(xp.sum(share * Y))
    size = float(xp.sum(share * (Y - centre) ** 2)) ** 0.5 or 1.0
    cells = CellSet.of(data.labels.observed, Y)
    values, observed = (
        cells.take(grid[None, ...])[0, ...]
        for grid in ((Y - centre) / size, xp.astype(present, Y.dtype))
    )
    if weights is not None:
        # Missing labels have any weight that is not zero.
        weights = cells.take(xp.where(present, weights, 1.0)[None, ...])[0, ...]
    labels = Targets(values * observed, observed, weights, constant, cells)
    return Standardised(labels, centre * scale, size * scale, unit)


def _in_units(
    weights: Array | None, observed: np.ndarray, unit: float | None
) -> tuple[Array | None, float]:
    """Return weights (m, q) divided by their unit, and the unit; None if all observed labels have the same weight."""
    if weights is None:
        return None, 1.0
    known = to_numpy(weights)[observed]
    if unit is None:
        unit = weight_unit(known)
    return (None if (known == unit).all() else weights / unit), unit


def side_weights(labels: Labels, axis: int) -> Array | None:
    """Return the weight of each instance (axis 0) or task: the mean weight of its labels, in a common unit.

    An entity without labels has the mean of the weights that were given for its cells.
    """
    if labels.weights is None:
        return None
    weights = to_numpy(labels.weights)
    observed = labels.observed
    if axis == 1:
        weights = weights.T
        observed = observed.T
    has_labels = np.any(observed, axis=1)
    counted = observed | ~has_labels[:, None]
    means = np.sum(weights * counted, axis=1) / np.sum(counted, axis=1)
    return as_array_of(means / weight_unit(means[has_labels]), labels.values)


def economical(labels: Targets, sides: Sides) -> tuple[Targets, Sides]:
    """Return labels and kernels in the precision, and on the device, that learning takes least time with."""
    m, q = labels.cells.shape
    if not labels.cells.is_dense:
        # With few labels of a large grid, the learned λ is large enough for single precision.
        return labels.converted(single), [side.converted(single) for side in sides]
    if m * q * (m + q) <= _FOR_PROCESSORS:
        return labels.converted(to_numpy), [side.converted(to_numpy) for side in sides]
    return labels, sides


def final_kernel(
    kernel: LearnedKernel,
    table: Table,
    logits: np.ndarray,
    log_exponents: np.ndarray,
    profiles: Sequence[Array],
    constant: bool,
) -> tuple[LearnedKernel, Table, float]:
    """Return the kernel with its learned parameters, the table for it, and the weight of the constant.

    If there is a constant, all weights are divided by its weight.
    """
    if profiles:
        arrays = [as_array_of(to_numpy(profile), table.values) for profile in profiles]
        kernel, table = kernel.joined(PROFILES, arrays, table)
    weights = Mixture.weights(logits)
    unit = float(weights[-1]) if constant else 1.0
    powers = iter(np.exp(log_exponents))
    exponents = [float(next(powers)) if member.has_exponent else 1.0 for member in kernel.members]
    return (
        kernel.with_parameters(list(weights[: len(kernel.members)] / unit), exponents),
        table,
        unit,
    )

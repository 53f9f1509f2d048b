r"""Hold-out of complete labels by pair kernels, and what follows from it: squared errors and jackknife models.

The formulas of settings A, B and C are in `dyadlearn.pairing.pair_kernel`, those of D in
`dyadlearn.pairing.new_both`. C is B of the transposed model. In B, the tasks are rotated, so that
the columns are independent ridge problems, see `dyadlearn.solve.leaving`. An unpenalised mean is
added as `dyadlearn.pairing.constant` says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    largest,
    namespace,
    row_major,
    take_rows,
)
from dyadlearn._rounding import rounding_level, settle, settled_difference
from dyadlearn.exceptions import LeverageError
from dyadlearn.leverage import check_cells
from dyadlearn.pairing import full, incomplete
from dyadlearn.pairing.certainty import Jackknife
from dyadlearn.pairing.constant import ConstantColumns, MeanOfOthers, rounding_of_centred
from dyadlearn.pairing.expansion import Asked, NewRows
from dyadlearn.pairing.full import Stack, Sweep
from dyadlearn.pairing.new_both import column_floor, new_both
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import Members, column_weights, leave_out_columns
from dyadlearn.solve.operators import without
from dyadlearn.spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels of a grid and their rotations, which are computed when needed.

    Attributes
    ----------
    spectra : (Spectrum, Spectrum)
    Y : array of shape (m, q)
        Labels minus the offset.
    offset : float
        Average of the labels if the model has an unpenalised mean, else 0.
    """

    spectra: tuple[Spectrum, Spectrum]
    Y: Array
    offset: float

    @classmethod
    def of(cls, model: PairKernel, Y: Array) -> _Labels:
        """Return the labels for a model."""
        offset = float(namespace(Y).mean(Y)) if model.free_mean else 0.0
        return cls(model.grid_spectra, Y - offset if offset else Y, offset)

    @cached_property
    def columns(self) -> Array:
        """Labels with the tasks rotated, shape (m, l)."""
        return self.spectra[1].rotate(self.Y.T).T

    @cached_property
    def both(self) -> Array:
        """Labels with both sides rotated, shape (k, l)."""
        return self.spectra[0].rotate(self.columns)

    @cached_property
    def outside(self) -> float:
        """Squared norm of the labels outside of the span of a truncated spectrum of the tasks."""
        if not self.spectra[1].is_truncated:
            return 0.0
        rest = self.Y - self.columns @ self.spectra[1].vectors.T
        return float(namespace(rest).sum(rest * rest))

    @cached_property
    def transposed(self) -> _Labels:
        """Transposed labels."""
        # Operations on grids with the same memory order are several times faster.
        return _Labels(self.spectra[::-1], row_major(self.Y.T), self.offset)


# --- settings A, B and C ------------------------------------------------------------------------------


def _held_out(model: PairKernel, labels: _Labels, setting: Setting, *groups: Members) -> Array:
    """Return the predictions (m, q) of setting A, B or C; `groups` are those of instances and tasks."""
    _check_mean(model)
    members, task_members = groups or (None, None)
    if setting is Setting.A:
        held_out = _pairs(replace(model), labels)
    elif setting is Setting.B:
        held_out = _new_rows(model, labels, members)
    else:
        held_out = _new_rows(model.transposed, labels.transposed, task_members).T
    if model.free_mean:
        held_out += labels.offset
        settle(held_out, rounding_of_centred(labels.Y))
    return held_out


def _check_mean(model: PairKernel) -> None:
    """Raise if the labels may not determine the unpenalised mean."""
    if model.free_mean and replace(model).mean_is_undetermined:
        raise LeverageError(
            "With alpha = 0 and kernels without a constant, the training labels may not "
            "determine the unpenalised "
            "mean: use a larger alpha, or add a constant to both kernels."
        )


def _pairs(model: PairKernel, labels: _Labels) -> Array:
    """Return setting A, a division by the diagonal of the residual operator."""
    Y = labels.Y
    is_hat = not model.prefers_residual
    weights, _ = model.weights_of(hat=is_hat)
    diagonal = model.weighted_diagonal(weights)
    if not is_hat:
        slack = diagonal
    elif model.is_truncated or largest(diagonal) <= 0.9:  # the difference loses at most one digit
        slack = 1.0 - diagonal
    else:
        slack = model.weighted_diagonal(model.remainder)
    check_cells(slack, model.floor)
    product = model.on_grid(labels.both * weights)
    # Rounding error of differences, one value for the whole grid.
    level = rounding_level(namespace(Y).reshape(Y, (-1, 1)), largest(weights), n_terms=sum(Y.shape))
    sign = -1 if is_hat else 1
    held_out = settled_difference(Y, diagonal, product, level, slack, sign=sign)
    if model.free_mean:
        left = model.mean.grid * (model.mean.factor / slack)
        left *= model.mean.of_other_cells(Y, held_out, left)
        held_out += left
    return held_out


def _new_rows(model: PairKernel, labels: _Labels, members: Members) -> Array:
    """Return setting B."""
    return _rotated_rows(model, labels, members)[0] @ model.task_spectrum.vectors.T


def _rotated_rows(
    model: PairKernel, labels: _Labels, members: Members
) -> tuple[Array, Array | None]:
    """Return hold-out predictions of rows for rotated tasks (m, l), and the mean of the other rows (m, 1)."""
    product, per_task, per_instance = model.shares
    spectrum = model.spectrum
    s = model.task_spectrum.values
    values = product * s + per_task
    ridges = (per_instance * s + model.alpha)[None, :]
    floor = column_floor(spectrum, model.alpha, values, ridges)
    weights, direct = column_weights(spectrum, values, ridges)
    constant = None
    if model.free_mean:
        constant = ConstantColumns.of(spectrum, model.ones[0], values, ridges, direct)
    held_out, left = leave_out_columns(
        spectrum,
        weights,
        direct,
        labels.columns,
        labels.both,
        members,
        floor,
        residuals=None if constant is None else constant.residuals,
    )
    if constant is None or left is None:
        return held_out, None
    others = MeanOfOthers.start(1, labels.Y, members)
    left = others.add(slice(0, 1), constant, model.ones[1], labels.columns, held_out, left)
    mean = others.value(labels.Y, "rows").T
    held_out += left * mean
    return held_out, mean


# --- all settings -------------------------------------------------------------------------------------


@full.holdout_grids.register(PairKernel)
def _holdout_grids(model: PairKernel) -> tuple[float, float]:
    return 8.5 if model.free_mean else 4.5, 6.5


@full.hold_out_stack.register(PairKernel)
def _hold_out_stack(model: PairKernel, stack: Array, setting: Setting, *groups: Members) -> Array:
    """Return hold-out predictions; in setting D all grids share the decompositions of a side."""
    if setting is not Setting.D:
        return full.each_grid(
            lambda Y: _held_out(model, _Labels.of(model, Y), setting, *groups), stack
        )
    _check_mean(model)
    return new_both(model, stack, [model.alpha], *groups)[:, 0, ...]


@full.closed_weights.register(PairKernel)
def _closed_weights(model: PairKernel, row: Asked, column: Asked) -> Array:
    """Return the weights of labels, shape (m, q); separate functions only contribute for training rows."""
    operators = replace(model)
    rotated = operators.rotated_kernel_of(row, column) * operators.phi
    weights = model.on_grid(rotated)
    if model.free_mean:
        mean = operators.mean
        weights += mean.grid * ((1.0 - float(namespace(weights).sum(weights))) / mean.total)
    return weights


@dataclass(frozen=True, eq=False)
class _PairKernelSweep(Sweep):
    """Sweep of a pair kernel: labels are rotated once, and setting D is computed for many regularisations together.

    For each regularisation, A takes four products of the size of the grid, B and C three. An
    unpenalised mean takes two more in A, and one more in B and C. The squared errors of B and C are
    computed for the rotated tasks.
    """

    model: PairKernel

    @cached_property
    def _labels(self) -> _Labels:
        return _Labels.of(self.model, self.Y)

    def squared_errors(
        self, settings: Sequence[Setting], per_stack: int
    ) -> dict[Setting, np.ndarray]:
        models = [self.model.at(alpha) for alpha in self.alphas]
        sums: dict[Setting, list[float]] = {}
        if Setting.B in settings:
            sums[Setting.B] = [
                _squared_error(model, self._labels, self.members) for model in models
            ]
        if Setting.C in settings:
            labels = self._labels.transposed
            sums[Setting.C] = [
                _squared_error(model.transposed, labels, self.task_members) for model in models
            ]
        n_cells = math.prod(self.Y.shape)
        return {setting: np.array(errors)[:, None] / n_cells for setting, errors in sums.items()}

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        for setting in settings:
            if setting is Setting.D:
                continue
            for row, alpha in enumerate(self.alphas):
                held_out = _held_out(
                    self.model.at(alpha), self._labels, setting, *self._groups(setting)
                )
                yield slice(row, row + 1), 0, setting, held_out[None, ...]
        if Setting.D in settings:
            yield from self._walk_new_both(per_stack)

    def _walk_new_both(self, per_stack: int) -> Iterator[Stack]:
        """Yield the predictions of setting D."""
        for start in range(0, len(self.alphas), per_stack):
            rows = slice(start, min(start + per_stack, len(self.alphas)))
            full.check_memory(self.model, self.Y, Setting.D, n_stacked=rows.stop - start)
            held_out = new_both(
                self.model, self.Y[None, ...], self.alphas[rows], self.members, self.task_members
            )
            yield rows, 0, Setting.D, held_out[0, ...]


full.sweep.register(PairKernel, _PairKernelSweep)


def _squared_error(model: PairKernel, labels: _Labels, members: Members) -> float:
    """Return the sum of squared errors of setting B, in the rotated tasks."""
    _check_mean(model)
    error = _rotated_rows(model, labels, members)[0]
    error -= labels.columns
    flat = namespace(error).reshape(error, (-1,))
    return float(flat @ flat) + labels.outside


# --- jackknife models ---------------------------------------------------------------------------------


@full.jackknife.register(PairKernel)
def _jackknife(model: PairKernel, Y: Array, members: Members = None) -> Jackknife:
    """Return the jackknife models of complete labels, in which each rotated task is an independent problem.

    A rotated label has the weight (a s + b)/(S + λ) for a new row.
    """
    held_out = full.hold_out(model, Y, Setting.B, members, None)
    operators = replace(model)
    product, per_task, _ = model.shares
    spectrum, tasks = model.grid_spectra
    weights = operators.phi * (product * tasks.values + per_task)[None, :]
    residuals = tasks.rotate((Y - held_out).T).T
    expansion = model.expansion(model.coefficients(Y))
    add_mean = _mean_left_out(operators, Y - held_out, weights, members)

    def predict(rows: NewRows) -> Array:
        """Return the predictions f minus the contribution of each unit, for the original tasks, shape (a, q, u)."""
        along = spectrum.project(rows.block(rows.values))
        products = _contributions(along, spectrum.vectors, weights, residuals, members)
        # Units are the last axis: the bounds of each task are order statistics over units.
        changes = -tasks.vectors @ namespace(along).permute_dims(products, (0, 2, 1))
        if add_mean is not None:
            changes -= add_mean(along)
        changes += expansion.grid(rows, None)[:, :, None]
        return changes

    k, n_rotated = weights.shape
    return Jackknife(held_out, members, int(Y.shape[0] * (k + 2 * n_rotated)), predict)


def _mean_left_out(
    model: PairKernel, residuals: Array, weights: Array, members: Members
) -> Callable[[Array], Array] | None:
    """Return what residuals (m, q) of units add to predictions by the mean, given projected rows; None without one."""
    if not model.free_mean:
        return None
    xp = namespace(residuals)
    sums = xp.sum(model.mean.grid * residuals, axis=1) / model.mean.total
    if members is not None:
        sums = xp.stack([xp.sum(take_rows(sums, rows)) for rows in members])
    ones = weights * model.ones[0][:, None] * model.ones[1][None, :]
    of_tasks = ones @ model.task_spectrum.vectors.T
    # The kernel predicts a part of a constant, the mean the rest.
    return lambda along: sums[None, None, :] * (1.0 - along @ of_tasks)[:, :, None]


def _contributions(
    along: Array, vectors: Array, weights: Array, residuals: Array, members: Members
) -> Array:
    """Return the contribution of each unit to predictions of rotated tasks, shape (a, u, l).

    Parameters
    ----------
    along : array of shape (a, k)
        Projected new rows.
    vectors : array of shape (m, k)
    weights : array of shape (k, l)
        Weight of a rotated label for a new row.
    residuals : array of shape (m, l)
        Held-out residuals of the rows, for the rotated tasks.
    members : list of integer arrays, or None
        Rows of each unit.
    """
    xp = namespace(along)
    a, k = along.shape
    m, n_rotated = residuals.shape
    pairs = along[:, None, :] * vectors[None, :, :]
    products = xp.reshape(xp.reshape(pairs, (a * m, k)) @ weights, (a, m, n_rotated))
    products = products * residuals[None, :, :]
    if members is None:
        return products
    sums = []
    for rows in members:
        sums.append(xp.sum(xp.take(products, as_array_of(rows, products), axis=1), axis=1))
    return xp.stack(sums, axis=1)


# --- rows and columns without labels ------------------------------------------------------------------


@incomplete.hold_out_unlabelled.register(PairKernel)
def _hold_out_unlabelled(
    model: PairKernel,
    whole: PairKernel,
    Y: Array,
    setting: Setting,
    rows: np.ndarray,
    columns: np.ndarray,
) -> list[tuple[Array, np.ndarray, np.ndarray]]:
    """Return predictions for held-out rows in columns without labels, and for held-out columns in rows without."""
    pieces = []
    if 0 in setting.new and (others := without(columns, whole.task_spectrum.n_rows)).size:
        pieces.append((_elsewhere(model, whole.task_spectrum, columns, Y), rows, others))
    if 1 in setting.new and (others := without(rows, whole.spectrum.n_rows)).size:
        held_out = _elsewhere(model.transposed, whole.spectrum, rows, Y.T).T
        pieces.append((held_out, others, columns))
    return pieces


def _elsewhere(model: PairKernel, all_tasks: Spectrum, columns: np.ndarray, Y: Array) -> Array:
    """Return hold-out predictions of each row in unlabelled columns."""
    product, per_task, _ = model.shares
    tasks = model.task_spectrum
    xp = namespace(Y)
    others = without(columns, all_tasks.n_rows)
    cross = tasks.vectors.T @ all_tasks.block(all_tasks.values, columns, others)
    # Null directions and separate functions of tasks do not contribute to predictions for other
    # tasks.
    shared = product * tasks.values
    scale = xp.where(shared > 0, shared + per_task, 1.0)
    ending = xp.where(shared > 0, product / scale, 0.0)[:, None] * cross
    labels = _Labels.of(model, Y)
    held_out, mean = _rotated_rows(model, labels, None)
    held_out = held_out @ ending
    if mean is not None:
        held_out += mean * (1.0 - model.ones[1] @ ending) + labels.offset
    return held_out

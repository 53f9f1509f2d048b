r"""Hold-out errors of a pair kernel model, with their gradients.

`FoldError` is the error of folds; its gradient needs one more solve. With the training cells o of a fold, weights w and
the kernel P between pairs, the model of the fold is

.. math:: (\mathbf{P}_{oo} + \lambda\,\mathrm{diag}(1/w))\,\mathbf{x} + \mathbf{1}\mu = \mathbf{y}_o, \qquad
          \mathbf{1}^\top\mathbf{x} = 0, \qquad \mathbf{F} = P(\mathbf{x}) + \mu ,

without :math:`\mu` and its condition if there is no constant. Let :math:`\mathbf{D}` be the derivatives of the error
with respect to **F**. With the solution **u** of the same system for the right-hand side :math:`P(\mathbf{D})_o`, whose
entries sum to those of **D**, the derivative of the error along any change of the kernel and of λ is

.. math:: \langle\mathbf{D} - \mathbf{u},\, dP(\mathbf{x})\rangle - \langle\mathbf{u}, \mathbf{x}/w\rangle\,d\lambda .

`ExactError` is the exact leave-one-out error of a complete grid, with its gradient in closed form. With
:math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}` between all pairs, :math:`\mathbf{N} = \mathbf{C}^{-1}` or, with
a free mean, :math:`\mathbf{N} = \mathbf{C}^{-1} - \mathbf{C}^{-1}\mathbf{11}^\top\mathbf{C}^{-1} /
\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}`, the error of a block i of cells that are left out together is
:math:`\mathbf{r}_i = \mathbf{N}_{ii}^{-1}(\mathbf{Ny})_i`. As :math:`d\mathbf{N} =
-\mathbf{N}\,d\mathbf{P}\,\mathbf{N}` either way,

.. math:: d\sum_i\|\mathbf{r}_i\|^2 = -\langle\mathbf{Nz},\, d\mathbf{P}\,\mathbf{Ny}\rangle
          + \sum_i \langle\mathbf{Nz}^i,\, d\mathbf{P}\,\mathbf{Nr}^i\rangle, \qquad
          \mathbf{z}_i = 2\mathbf{N}_{ii}^{-1}\mathbf{r}_i,

where :math:`\mathbf{z}^i` is **z** in block i and zero elsewhere. In the eigenvectors of both sides everything is a
matrix product. Cells (A) and rows (B) differ in :math:`\mathbf{N}_{ii}`. Columns (C) are the rows of the transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import Array, as_array_of, eigh, namespace, solver, to_numpy
from dyadlearn.learning.mixture import DIVISIBLE, Parameters, Sides, profile_kernels
from dyadlearn.learning.operator import Cells, PairOperator, Slopes
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import conjugate_gradients, inner


class Tolerances(NamedTuple):
    """Relative residuals at which solvers stop.

    Attributes
    ----------
    learning : float
        Relative residual of models and gradients during learning.
    comparing : float
        Relative residual of errors that are compared.
    """

    learning: float
    comparing: float


#: Default tolerances. Ten times smaller ones took twice the iterations on the Davis and ion channel data, and led to
#: the same errors in three digits.
ROUGH = Tolerances(1e-2, 1e-3)
#: Tolerances for small grids.
FINE = Tolerances(1e-10, 1e-10)

_MAX_ITER = 600
# Minimum of λ for folds: smaller values need more iterations and have not lowered an error.
_LEAST_ALPHA = 4e-3


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels to learn from.

    Attributes
    ----------
    values : array of shape (n,)
        Labels of the cells, scaled to a standard deviation of about one; zero if missing.
    observed : array of shape (n,)
        One for observed labels, zero for missing labels.
    weights : array of shape (n,) or None
        Positive weights of the cells.
    constant : {"grand", "task"} or None
        Type of the constant that is not regularised: one for all cells, or one per task.
    cells : Cells
    """

    values: Array
    observed: Array
    weights: Array | None
    constant: str | None
    cells: Cells

    @property
    def sizes(self) -> tuple[float, float, float]:
        """Effective numbers of instances and tasks with labels, and of labels; weights multiply these counts."""
        observed = to_numpy(self.observed) > 0
        rows, columns = self.cells.rows[observed], self.cells.columns[observed]
        counts = np.bincount(rows)
        sums = counts if self.weights is None else np.bincount(rows, to_numpy(self.weights)[observed])
        return float(np.sum(sums / np.maximum(counts, 1))), float(len(np.unique(columns))), float(np.sum(sums))

    def converted(self, convert: Callable[[Array], Array]) -> Targets:
        """Return the labels with other arrays, in single precision or on another device."""
        arrays = {name: convert(getattr(self, name)) for name in ("values", "observed")}
        weights = None if self.weights is None else convert(self.weights)
        return replace(self, **arrays, weights=weights, cells=replace(self.cells, like=arrays["values"]))

    @property
    def grid(self) -> Array:
        """Labels as a grid (m, q), zero if missing."""
        return self.cells.grid(self.values[None, :])[0, ...]


@dataclass(frozen=True, eq=False)
class _System:
    """Linear systems of folds.

    Attributes
    ----------
    operator : PairOperator
    labels : Targets
    train : array of shape (f, n)
        One for training cells, zero for all others.
    ends : dict
        Last solutions by their names, where the next ones start, and the preconditioner ``"inverse"``.
    """

    operator: PairOperator
    labels: Targets
    train: Array
    ends: dict[str, Any]

    def apply(self, X: Array) -> Array:
        return self.centred(self.operator(X) * self.train + self._ridge(X))

    def _ridge(self, X: Array) -> Array:
        return self.over_weights(self.operator.parameters.lam * X)

    def over_weights(self, X: Array) -> Array:
        return X if self.labels.weights is None else X / self.labels.weights

    def _means(self, X: Array) -> Array:
        """Return the sum of all values, or of each task, divided by the number of training cells: (f, 1) or (f, q)."""
        xp, cells = namespace(X), self.labels.cells
        parts = (X, self.train) if self.labels.constant == "grand" else (cells.grid(X), cells.grid(self.train))
        sums, counts = (xp.sum(part, axis=1, keepdims=part.ndim == 2) for part in parts)
        # A task without training cells has a mean of zero.
        return sums / xp.where(counts > 0, counts, 1.0)

    def _means_at_cells(self, X: Array) -> Array:
        """Return the means of `_means` at all cells, of shape (f, 1) or (f, n)."""
        means = self._means(X)
        if self.labels.constant == "grand":
            return means
        return namespace(X).take(means, as_array_of(self.labels.cells.columns, X), axis=1)

    def centred(self, X: Array) -> Array:
        return X if self.labels.constant is None else X - self._means_at_cells(X) * self.train

    def solve(self, name: str, right: Array, tol: float) -> Array:
        start, inverse = self.ends.get(name), self.ends.get("inverse") or self._inverse
        solution = conjugate_gradients(
            self.apply,
            right,
            precondition=None if inverse is None else lambda X: self.centred(inverse(X)),
            start=None if start is None else self.centred(start * self.train),
            tol=tol,
            max_iter=_MAX_ITER,
            dot=_dots,
        )
        self.ends[name] = solution.values
        # The next parameters use the same preconditioner unless the iterations cost more than a new one.
        cells = self.labels.cells
        few = sum(cells.shape) ** 2 / (3.0 * cells.n_multiplied)
        self.ends["inverse"] = inverse if solution.n_iter <= few else None
        return solution.values

    @cached_property
    def _inverse(self) -> Callable[[Array], Array] | None:
        """Approximate inverse of the system; None without tasks.

        The function must not refer to the system, which would then be freed late.
        """
        return None if len(self.operator.sides) < 2 else self._main_effects()

    def _main_effects(self) -> Callable[[Array], Array]:
        """Return the inverse of the system with main effects of both sides in place of the kernel.

        The largest eigenvalues are those of products with the first eigenvector of a side, u of K or v of G. On the
        cells of a row or a column they are W C Wᵀ, with the kernels (as + b)K + csI and (aσ + c)G + bσI of the effects
        in C, and v and u at the training cells in W. All other eigenvalues are replaced by their mean.
        """
        cells, train, xp = self.labels.cells, self.train, namespace(self.train)
        (a, b, c), (K, G) = self.operator.parameters.pair_shares, (side.kernel for side in self.operator.sides)
        (sigma, u), (s, v) = _leading(K), _leading(G)
        rows = (a * s + b) * K + c * s * xp.eye(K.shape[-1], dtype=K.dtype, device=K.device)
        columns = (a * sigma + c) * G + b * sigma * xp.eye(G.shape[-1], dtype=G.dtype, device=G.device)
        at_rows, at_columns = (as_array_of(places, train) for places in (cells.rows, cells.columns))
        u_there, v_there = xp.take(u[..., 0], at_rows, axis=-1), xp.take(v[..., 0], at_columns, axis=-1)
        crossed = train * u_there * v_there
        upper = xp.concat([cells.times(train, v * v) * rows, cells.times(crossed, columns)], axis=-1)
        lower = [cells.transposed_times(crossed, rows), cells.transposed_times(train, u * u) * columns]
        system = xp.concat([upper, xp.concat(lower, axis=-1)], axis=-2)
        k, g, r, t = (xp.mean(xp.linalg.diagonal(each), axis=-1)[..., None] for each in (K, G, rows, columns))
        diagonal = a * k * g + b * k + c * g
        others = diagonal - r / G.shape[-1] - t / K.shape[-1]
        rest = self.operator.parameters.lam + xp.where(others > 1e-2 * diagonal, others, 1e-2 * diagonal)
        system = system + rest[..., None] * xp.eye(system.shape[-1], dtype=K.dtype, device=K.device)
        solvers = [solver(system[fold, ...]) for fold in range(system.shape[0])]

        def solve(X: Array) -> Array:
            sums = xp.concat([cells.times(X, v), cells.transposed_times(X, u)], axis=-2)
            effects = xp.stack([each(sums[fold, ...]) for fold, each in enumerate(solvers)])
            of_rows, of_columns = rows @ effects[:, : K.shape[-1], :], columns @ effects[:, K.shape[-1] :, :]
            part = xp.take(of_rows[..., 0], at_rows, axis=-1) * v_there
            part = part + xp.take(of_columns[..., 0], at_columns, axis=-1) * u_there
            return (X - part * train) / rest

        return solve

    def model(self, tol: float) -> tuple[Array, Array, Array]:
        """Return dual coefficients, predictions and residuals of the systems, all of shape (f, n)."""
        y = self.labels.values * self.train
        X = self.solve("model", self.centred(y), tol)
        predictions = self.operator(X)
        rest = y - (predictions * self.train + self._ridge(X))
        if self.labels.constant is not None:
            predictions = predictions + self._means_at_cells(rest)
        return X, predictions, self.centred(rest)

    def complete(self, X: Array) -> Array:
        """Return the predictions (f, m, q) of dual coefficients for all cells."""
        grids = self.operator.on_grid(X)
        if self.labels.constant is None:
            return grids
        rest = (self.labels.values - self.labels.cells.take(grids)) * self.train - self._ridge(X)
        return grids + self._means(rest)[:, None, :]

    def adjoint(self, slope: Array, tol: float) -> Array:
        """Return the solution for the derivatives of an error with respect to all predictions."""
        if self.labels.constant is None:
            return self.solve("adjoint", self.operator(slope) * self.train, tol)
        # The solution is a part with the sum of the slope, plus a part that sums to zero.
        mean_part = self._means_at_cells(slope) * self.train
        right = self.operator(slope - mean_part) * self.train - self._ridge(mean_part)
        return mean_part + self.solve("adjoint", self.centred(right), tol)


def _leading(kernels: Array) -> tuple[Array, Array]:
    """Return the largest eigenvalue (f, 1, 1) and eigenvector (f, n, 1) of kernels, roughly."""
    xp = namespace(kernels)
    vector = xp.sum(kernels, axis=-1, keepdims=True)
    for _ in range(5):
        vector = vector / xp.sqrt(xp.sum(vector * vector, axis=-2, keepdims=True))
        image = kernels @ vector
        value, vector = xp.sum(vector * image, axis=-2, keepdims=True), image
    return value, vector / xp.sqrt(xp.sum(vector * vector, axis=-2, keepdims=True))


def _dots(left: Array, right: Array) -> Array:
    return namespace(left).sum(left * right, axis=1, keepdims=True)


@dataclass(frozen=True, eq=False)
class FoldError:
    """Mean squared error of held-out folds, with its gradient.

    Parameters
    ----------
    labels : Targets
    train, test : arrays of shape (f, n)
        One for the observed cells to learn from and to predict in each fold, zero for all others.
    sides : sequence of Mixture
        Kernels, the same for all folds or one per fold.
    whole : sequence of Mixture
        Kernels of all training labels.
    tolerances : Tolerances
    """

    labels: Targets
    train: Array
    test: Array
    sides: Sides
    whole: Sides
    tolerances: Tolerances = ROUGH
    # Solutions of the last two solves, for warm starts.
    _ends: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        labels: Targets,
        sides: Sides,
        masks: Iterable[tuple[np.ndarray, np.ndarray]],
        tolerances: Tolerances = ROUGH,
    ) -> FoldError:
        """Return the error of folds, given as masks (m, q) of the cells to learn from and of those to predict."""
        cells, observed = labels.cells, to_numpy(labels.observed) > 0
        at_cells = [[mask[cells.rows, cells.columns] & observed for mask in fold] for fold in masks]
        folds = [fold for fold in at_cells if all(mask.any() for mask in fold)]
        if not folds:
            raise ValueError("No fold has labels both to learn from and to predict: use fewer folds, or other groups.")
        Y = labels.values
        train, test = (as_array_of(np.stack(sets), Y, Y.dtype) for sets in zip(*folds, strict=True))
        return cls(labels, train, test, sides, sides, tolerances)

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the parameters."""
        return Parameters.limits(self.whole, _LEAST_ALPHA)

    def first(self, n_labels: int) -> FoldError:
        """Return the error of the first folds, with at least some number of labels to predict if there are so many."""
        totals = np.cumsum(to_numpy(self.test).sum(axis=1))
        n_folds = min(int(np.searchsorted(totals, n_labels)) + 1, len(totals))
        sides = [side.of_folds(slice(n_folds)) for side in self.sides]
        return replace(self, train=self.train[:n_folds, :], test=self.test[:n_folds, :], sides=sides, _ends={})

    def _system(self, parameters: Parameters) -> _System:
        operator = PairOperator.at(self.sides, parameters, self.labels.cells)
        return _System(operator, self.labels, self.train, self._ends)

    def _loss(self, predicted: Array) -> tuple[float, Array]:
        """Return the error, and its derivatives (f, n) with respect to the predictions."""
        weights = self.test if self.labels.weights is None else self.test * self.labels.weights
        total = float(namespace(weights).sum(weights))
        error = predicted - self.labels.values
        return inner(weights * error, error) / total, weights * error * (2.0 / total)

    def slope(self, parameters: Parameters) -> tuple[float, np.ndarray]:
        """Return the error and its derivatives."""
        system, tol = self._system(parameters), self.tolerances.learning
        X, predicted, rest = system.model(tol)
        error, D = self._loss(predicted)
        U = system.adjoint(D, tol)
        slopes = system.operator.slopes(D - U, X, -inner(U, system.over_weights(X)))
        # To first order, ⟨U, rest⟩ is what the error changes when the systems are solved exactly.
        return error + inner(U, rest), system.operator.gradient(slopes)

    def evaluate(self, parameters: Parameters) -> tuple[float, Array]:
        """Return the error, and the predictions (f, n) of each fold at the observed cells."""
        _, predicted, _ = self._system(parameters).model(self.tolerances.comparing)
        return self._loss(predicted)[0], predicted

    def completed(self, parameters: Parameters, tol: float | None = None) -> Array:
        """Return the predictions (f, m, q) of the models of the folds for all cells."""
        system = self._system(parameters)
        return system.complete(system.model(self.tolerances.comparing if tol is None else tol)[0])

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters whose powers of kernels are positive semi-definite, in all folds and in the whole data."""
        # Only the profiles differ between folds.
        return parameters.accepted(self.whole).accepted(self.sides, self.whole)

    def assembled(self, predicted: Array) -> Array:
        """Return the predictions of each fold for its test cells as one grid; NaN for cells in no fold."""
        xp, grid = namespace(predicted), self.labels.cells.grid
        held_out = xp.zeros_like(predicted[:1, :])
        for fold in range(predicted.shape[0]):
            held_out = xp.where(self.test[fold, :] > 0, predicted[fold, :], held_out)
        is_tested = grid(xp.max(self.test, axis=0, keepdims=True))[0, ...] > 0
        return xp.where(is_tested, grid(held_out)[0, ...], float("nan"))

    @property
    def of_all(self) -> FoldError:
        """The same model of all training labels, as one fold."""
        observed = self.labels.observed[None, :]
        return replace(self, train=observed, test=observed, sides=self.whole, _ends={})

    def with_profiles(self, parameters: Parameters, given: Sides, profiled: tuple[bool, bool]) -> FoldError:
        """Return the error with the given kernels and the profiles of what each fold, and all labels, predict."""
        sides, whole = (profiled_sides(error.completed(parameters), given, profiled) for error in (self, self.of_all))
        return replace(self, sides=sides, whole=[side.of_folds(0) for side in whole], _ends={})


def profiled_sides(completed: Array, given: Sides, profiled: tuple[bool, bool]) -> Sides:
    """Return the given kernels and the profiles of grids (f, m, q) that were completed from training cells."""
    xp, sides = namespace(completed), []
    for side, grids, is_known in zip(given, (completed, xp.matrix_transpose(completed)), profiled, strict=False):
        each = [profile_kernels(grids[fold, ...]) for fold in range(grids.shape[0] if is_known else 0)]
        sides.append(side.joined([xp.stack(kernels) for kernels in zip(*each, strict=True)], DIVISIBLE))
    return sides


# Maximum size of a side: for larger sides a step of m³q + mq³ multiplications takes longer than one with folds.
_LONGEST_SIDE = 400
# Minimum of λ: smaller values lose digits of the inverse.
_LEAST_ALPHA_EXACT = 1e-6


def has_exact_error(labels: Targets, setting: Setting) -> bool:
    """Return whether the leave-one-out error has a closed form that costs no more than folds."""
    m, q = labels.cells.shape
    complete = labels.weights is None and bool(to_numpy(labels.observed).all()) and labels.cells.is_complete
    return complete and setting is not Setting.D and m * m + q * q <= _LONGEST_SIDE * (m + q)


@dataclass(frozen=True, eq=False)
class ExactError:
    """Mean squared error of exact leave-one-out, with its gradient.

    Parameters
    ----------
    labels : Targets
        Complete labels without weights.
    sides : sequence of Mixture
    setting : Setting
        Setting A, B or C; without tasks A and B are the same.
    """

    labels: Targets
    sides: Sides
    setting: Setting

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the parameters."""
        return Parameters.limits(self.sides, _LEAST_ALPHA_EXACT)

    def first(self, n_labels: int) -> ExactError:
        """Return the error itself, which has no folds."""
        return self

    def slope(self, parameters: Parameters) -> tuple[float, np.ndarray]:
        """Return the error and its derivatives."""
        solved = self._solved(parameters)
        slopes = solved.slopes((2.0 / math.prod(solved.residuals.shape)) * solved.residuals)
        return _mean_square(solved.residuals), solved.operator.gradient(slopes)

    def evaluate(self, parameters: Parameters) -> tuple[float, Array]:
        """Return the error and the predictions (m, q)."""
        residuals = self._solved(parameters).residuals
        residuals = residuals.T if self.setting is Setting.C else residuals
        return _mean_square(residuals), self.labels.grid - residuals

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters whose powers of kernels are positive semi-definite."""
        return parameters.accepted(self.sides)

    def assembled(self, predicted: Array) -> Array:
        """Return the predictions."""
        return predicted

    def _solved(self, parameters: Parameters) -> _Grid | _Tasks:
        kind = _Grid if len(self.sides) > 1 else _Tasks
        return kind(PairOperator.at(self.sides, parameters, self.labels.cells), self.labels, self.setting)


def _mean_square(residuals: Array) -> float:
    return float(inner(residuals, residuals) / math.prod(residuals.shape))


class _Grid:
    """Leave-one-out residuals of the cells or rows of a complete grid; in setting C rows are tasks.

    Attributes
    ----------
    operator : PairOperator
    residuals : array of shape (m, q), or (q, m) in setting C
    """

    def __init__(self, operator: PairOperator, labels: Targets, setting: Setting) -> None:
        self.operator, self.setting = operator, setting
        (rows, columns), Y = operator.sides, labels.grid
        a, b, c = operator.parameters.pair_shares
        if setting is Setting.C:
            Y, rows, columns, b, c = Y.T, columns, rows, c, b
        (self.sigma, self.U), (self.s, self.V) = eigh(rows.kernel), eigh(columns.kernel)
        self.factors, self.task_factors = a * self.s + b, a * self.sigma + c
        self.phi = 1.0 / (self.sigma[:, None] * self.factors[None, :] + c * self.s[None, :] + operator.parameters.lam)
        self.ones, self.total = None, 1.0
        if labels.constant is not None:
            self.ones = self._inverse(namespace(Y).ones_like(Y))
            self.total = float(namespace(Y).sum(self.ones))
        self.squares = self.U * self.U
        self.blocks = self.squares @ self.phi
        if setting is Setting.A:
            self.blocks = self.blocks @ (self.V * self.V).T
            if self.ones is not None:
                self.blocks = self.blocks - self.ones * self.ones / self.total
        self.duals = self._apply(Y)
        self.residuals = self._over_blocks(self.duals)

    def _inverse(self, Y: Array) -> Array:
        """Return C⁻¹ Y."""
        return self.U @ (self.phi * (self.U.T @ Y @ self.V)) @ self.V.T

    def _apply(self, Y: Array) -> Array:
        """Return N Y."""
        solved = self._inverse(Y)
        return solved if self.ones is None else solved - self.ones * (float(namespace(Y).sum(solved)) / self.total)

    def _within(self, X: Array, Y: Array) -> Array:
        """Return inner products within each cell, or each row."""
        return X * Y if self.setting is Setting.A else namespace(X).sum(X * Y, axis=1)[:, None]

    def _over_blocks(self, X: Array) -> Array:
        """Return the inverse of the block of N of each cell, or each row, times that cell or row of X."""
        if self.setting is Setting.A:
            return X / self.blocks
        solved = ((X @ self.V) / self.blocks) @ self.V.T
        if self.ones is None:
            return solved
        border = ((self.ones @ self.V) / self.blocks) @ self.V.T
        return solved + border * (self._within(self.ones, solved) / (self.total - self._within(self.ones, border)))

    def slopes(self, slope: Array) -> Slopes:
        """Return the derivatives of an error, from its derivatives with respect to the residuals."""
        r, z, ones, total = self.residuals, self._over_blocks(slope), self.ones, self.total
        slopes = self._of_blocks(z)
        pairs = [(-self._apply(z), self.duals)]
        if ones is not None:
            of_z, of_r = self._within(ones, z), self._within(ones, r)
            pairs += [(-ones / total, self._inverse(of_z * r)), (-self._inverse(of_r * z) / total, ones)]
            pairs.append(((inner(of_z, of_r) / total**2) * ones, ones))
        for left, right in pairs:
            if self.setting is Setting.C:
                left, right = left.T, right.T
            first, second = (namespace(each).reshape(each, (1, -1)) for each in (left, right))
            more = self.operator.slopes(first, second, inner(left, right))
            kernels = [one + other for one, other in zip(slopes.kernels, more.kernels, strict=True)]
            slopes = Slopes(kernels, slopes.shares + more.shares, slopes.lam + more.lam)
        return slopes

    def _of_blocks(self, z: Array) -> Slopes:
        """Return the derivatives of the sum over blocks of ⟨C⁻¹ z, dP C⁻¹ r⟩, computed in eigenvectors."""
        U, V, phi, xp = self.U, self.V, self.phi, namespace(self.U)
        if self.setting is Setting.A:
            weights = z * self.residuals
            rows, across = weights @ (V * V), self.squares.T @ weights
        else:
            zV, rV = z @ V, self.residuals @ V
            rows = zV * rV
        by_row, by_column = xp.zeros_like(U), xp.zeros_like(V)
        for column, factor in enumerate(self.factors):
            part = U.T @ (rows[:, column][:, None] * U)
            by_row += factor * part * phi[:, column][:, None] * phi[:, column][None, :]
        for row, factor in enumerate(self.task_factors):
            if self.setting is Setting.A:
                part = V.T @ (across[row, :][:, None] * V)
            else:
                part = (zV * self.squares[:, row][:, None]).T @ rV
            by_column += factor * part * phi[row, :][:, None] * phi[row, :][None, :]
        # Shares and λ are diagonal in the eigenvectors of both sides.
        diagonal = phi * phi * (self.squares.T @ rows)
        parts = (self.sigma[:, None] * self.s[None, :], self.sigma[:, None], self.s[None, :])
        shares = np.array([inner(diagonal, xp.zeros_like(phi) + part) for part in parts])
        kernels = [U @ by_row @ U.T, V @ by_column @ V.T]
        if self.setting is Setting.C:
            kernels, shares = kernels[::-1], shares[[0, 2, 1]]
        return Slopes(kernels, shares, float(xp.sum(diagonal)))


class _Tasks:
    """Leave-one-out residuals of independent tasks, each with its constant; attributes as in `_Grid`."""

    def __init__(self, operator: PairOperator, labels: Targets, setting: Setting) -> None:
        sigma, U = eigh(operator.sides[0].kernel)
        xp = namespace(U)
        inverse = (U / (sigma + operator.parameters.lam)[None, :]) @ U.T
        if labels.constant is not None:
            ones = xp.sum(inverse, axis=1)
            inverse = inverse - ones[:, None] * ones[None, :] / xp.sum(ones)
        self.operator, self.inverse, self.duals = operator, inverse, inverse @ labels.grid
        self.diagonal = xp.linalg.diagonal(inverse)[:, None]
        self.residuals = self.duals / self.diagonal

    def slopes(self, slope: Array) -> Slopes:
        """Return the derivatives of an error, from its derivatives with respect to the residuals."""
        N, xp, z = self.inverse, namespace(self.inverse), slope / self.diagonal
        weights = xp.sum(z * self.residuals, axis=1)
        kernel = (N * weights[None, :]) @ N - N @ z @ self.duals.T
        return Slopes([kernel], np.zeros(0), float(xp.linalg.trace(kernel)))

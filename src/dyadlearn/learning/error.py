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
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import Array, as_array_of, eigh, namespace
from dyadlearn.learning.mixture import DIVISIBLE, PairOperator, Parameters, Sides, Slopes, profile_kernels
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import conjugate_gradients, inner


class Tolerances(NamedTuple):
    """Relative residuals at which solvers stop.

    Attributes
    ----------
    learning : float
        Relative residual of models and gradients during gradient descent.
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
    values : array of shape (m, q)
        Labels, scaled to a standard deviation of about one; zero if missing.
    observed : array of shape (m, q)
        One for observed labels, zero for missing labels.
    weights : array of shape (m, q) or None
        Weights, positive for observed labels.
    constant : {"grand", "task"} or None
        Type of the constant that is not regularised: one for all cells, or one per task.
    """

    values: Array
    observed: Array
    weights: Array | None
    constant: str | None

    @property
    def sizes(self) -> tuple[float, float]:
        """Effective numbers of instances and tasks with labels; weights multiply these counts."""
        xp = namespace(self.values)
        counts, task_counts = (xp.sum(self.observed, axis=axis) for axis in (1, 0))
        weights = counts if self.weights is None else xp.sum(self.observed * self.weights, axis=1)
        weights = weights / xp.where(counts > 0, counts, xp.ones_like(counts))
        return float(xp.sum(weights)), float(xp.sum(xp.astype(task_counts > 0, self.values.dtype)))


@dataclass(frozen=True, eq=False)
class Fold:
    """Cells to learn from and cells to predict, with the kernels that may be used.

    Attributes
    ----------
    train, test : arrays of shape (m, q)
        One for the cells of the set, zero for all others; missing labels are in neither set.
    sides : sequence of Mixture
    """

    train: Array
    test: Array
    sides: Sides
    # Solutions of the last two solves, for warm starts.
    ends: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _System:
    """Linear system of a fold."""

    operator: PairOperator
    labels: Targets
    fold: Fold

    @property
    def cells(self) -> Array:
        return self.fold.train

    def apply(self, X: Array) -> Array:
        product = self.operator(X)
        product *= self.cells
        product += self._ridge(X)
        return self.centred(product)

    def _ridge(self, X: Array) -> Array:
        return self.over_weights(self.operator.parameters.lam * X)

    def over_weights(self, X: Array) -> Array:
        weights = self.labels.weights
        if weights is None:
            return X
        xp = namespace(X)
        return X / xp.where(weights > 0, weights, xp.ones_like(weights))

    def _means(self, X: Array) -> Any:
        """Return the sum of all values, or of each column, divided by the number of training cells."""
        xp = namespace(X)
        if self.labels.constant == "grand":
            return xp.sum(X) / xp.sum(self.cells)
        counts = xp.sum(self.cells, axis=0)
        return xp.sum(X, axis=0) / xp.where(counts > 0, counts, xp.ones_like(counts))

    def centred(self, X: Array) -> Array:
        return X if self.labels.constant is None else X - self._means(X) * self.cells

    def solve(self, right: Array, start: Array | None, tol: float) -> Array:
        return conjugate_gradients(self.apply, right, start=start, tol=tol, max_iter=_MAX_ITER).values

    def model(self, tol: float) -> tuple[Array, Array]:
        """Return dual coefficients and predictions, both of shape (m, q)."""
        y, start = self.labels.values * self.cells, self.fold.ends.get("model")
        X = self.solve(self.centred(y), None if start is None else self.centred(start * self.cells), tol)
        self.fold.ends["model"] = X
        predictions = self.operator(X)
        if self.labels.constant is None:
            return X, predictions
        return X, predictions + self._means(y - (predictions * self.cells + self._ridge(X)))

    def adjoint(self, slope: Array, tol: float) -> Array:
        """Return the solution for the derivatives of an error with respect to all predictions."""
        right, mean_part = self.operator(slope) * self.cells, 0.0
        if self.labels.constant is not None:
            # The solution is a part with the sum of the slope, plus a part that sums to zero.
            mean_part = self._means(slope) * self.cells
            right = self.centred(right - (self.operator(mean_part) * self.cells + self._ridge(mean_part)))
        adjoint = mean_part + self.solve(right, self.fold.ends.get("adjoint"), tol)
        self.fold.ends["adjoint"] = self.centred(adjoint)
        return adjoint


@dataclass(frozen=True, eq=False)
class FoldError:
    """Mean squared error of held-out folds, with its gradient.

    Parameters
    ----------
    labels : Targets
    folds : sequence of Fold
    whole : Fold
        All training labels, with their kernels.
    tolerances : Tolerances
    """

    labels: Targets
    folds: Sequence[Fold]
    whole: Fold
    tolerances: Tolerances = ROUGH

    @classmethod
    def of(
        cls,
        labels: Targets,
        sides: Sides,
        masks: Iterable[tuple[np.ndarray, np.ndarray]],
        tolerances: Tolerances = ROUGH,
    ) -> FoldError:
        """Return the error of folds, given as masks (m, q) of the cells to learn from and of those to predict."""
        Y, xp, folds = labels.values, namespace(labels.values), []
        for each in masks:
            train, test = (as_array_of(mask, Y, Y.dtype) * labels.observed for mask in each)
            if float(xp.sum(train)) > 0 and float(xp.sum(test)) > 0:
                folds.append(Fold(train, test, sides))
        if not folds:
            raise ValueError("No fold has labels both to learn from and to predict: use fewer folds, or other groups.")
        return cls(labels, folds, Fold(labels.observed, labels.observed, sides), tolerances)

    @property
    def sides(self) -> Sides:
        """Kernels of all training labels."""
        return self.whole.sides

    @property
    def n_parts(self) -> int:
        """Number of parts whose mean is the error."""
        return len(self.folds)

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the parameters."""
        return Parameters.limits(self.whole.sides, _LEAST_ALPHA)

    def _loss(self, fold: Fold, predicted: Array) -> tuple[float, float, Array]:
        """Return the sum of squares, the sum of weights and the weighted errors (m, q)."""
        weights = fold.test if self.labels.weights is None else fold.test * self.labels.weights
        error = predicted - self.labels.values
        return inner(weights * error, error), float(namespace(error).sum(weights)), weights * error

    def slope(self, parameters: Parameters, part: int) -> tuple[float, np.ndarray]:
        """Return the error of one fold and its derivatives."""
        fold = self.folds[part]
        operator = PairOperator.at(fold.sides, parameters)
        system = _System(operator, self.labels, fold)
        X, predicted = system.model(self.tolerances.learning)
        squares, count, error = self._loss(fold, predicted)
        D = error * (2.0 / count)
        U = system.adjoint(D, self.tolerances.learning)
        slopes = operator.slopes(D - U, X, -inner(U, system.over_weights(X)))
        return squares / count, operator.gradient(slopes)

    def loss(self, parameters: Parameters, part: int) -> float:
        """Return the error of one fold."""
        fold = self.folds[part]
        squares, count, _ = self._loss(fold, self.completed(parameters, fold, self.tolerances.learning))
        return squares / count

    def completed(self, parameters: Parameters, fold: Fold, tol: float | None = None) -> Array:
        """Return the predictions of the model of a fold for all cells."""
        tol = self.tolerances.comparing if tol is None else tol
        return _System(PairOperator.at(fold.sides, parameters), self.labels, fold).model(tol)[1]

    def evaluate(self, parameters: Parameters) -> tuple[float, list[Array]]:
        """Return the error over all folds, and the predictions (m, q) of each."""
        predictions = [self.completed(parameters, fold) for fold in self.folds]
        sums = [self._loss(fold, predicted)[:2] for fold, predicted in zip(self.folds, predictions, strict=True)]
        return sum(squares for squares, _ in sums) / sum(count for _, count in sums), predictions

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters whose powers of kernels are positive semi-definite, in all folds and in the whole data."""
        parameters = parameters.accepted(self.sides)
        for fold in self.folds:
            # Only the profiles differ between folds.
            parameters = parameters.accepted(fold.sides, self.sides)
        return parameters

    def assembled(self, predicted: Sequence[Array]) -> Array:
        """Return the predictions of each fold for its test cells as one grid; NaN for cells in no fold."""
        xp = namespace(self.labels.values)
        held_out = xp.full_like(self.labels.values, float("nan"))
        for fold, each in zip(self.folds, predicted, strict=True):
            held_out = xp.where(fold.test > 0, each, held_out)
        return held_out

    def with_profiles(self, completed: Sequence[Array], given: Sides, profiled: tuple[bool, bool]) -> FoldError:
        """Return the error with the given kernels and the profiles of the grids of each fold and of all labels."""
        folds = zip([*self.folds, self.whole], completed, strict=True)
        *parts, whole = (profiled_fold(fold, each, given, profiled) for fold, each in folds)
        return replace(self, folds=parts, whole=whole)


def profiled_fold(fold: Fold, completed: Array, given: Sides, profiled: tuple[bool, bool]) -> Fold:
    """Return a fold with the given kernels and the profiles of a grid that was completed from its training cells."""
    grids = zip(given, (completed, completed.T), profiled, strict=False)
    sides = [side.joined(profile_kernels(grid) if is_known else [], DIVISIBLE) for side, grid, is_known in grids]
    return replace(fold, sides=sides, ends={})


# Maximum size of a side: for larger sides a step of m³q + mq³ multiplications takes longer than one with folds.
_LONGEST_SIDE = 400
# Minimum of λ: smaller values lose digits of the inverse.
_LEAST_ALPHA_EXACT = 1e-6


def has_exact_error(labels: Targets, setting: Setting) -> bool:
    """Return whether the leave-one-out error has a closed form that costs no more than folds."""
    m, q = labels.values.shape
    complete = labels.weights is None and bool(namespace(labels.values).all(labels.observed > 0))
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

    n_parts = 1

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the parameters."""
        return Parameters.limits(self.sides, _LEAST_ALPHA_EXACT)

    def slope(self, parameters: Parameters, part: int) -> tuple[float, np.ndarray]:
        """Return the error and its derivatives."""
        solved = self._solved(parameters)
        slopes = solved.slopes((2.0 / math.prod(solved.residuals.shape)) * solved.residuals)
        return _mean_square(solved.residuals), solved.operator.gradient(slopes)

    def loss(self, parameters: Parameters, part: int) -> float:
        """Return the error."""
        return self.evaluate(parameters)[0]

    def evaluate(self, parameters: Parameters) -> tuple[float, list[Array]]:
        """Return the error and the predictions."""
        residuals = self._solved(parameters).residuals
        residuals = residuals.T if self.setting is Setting.C else residuals
        return _mean_square(residuals), [self.labels.values - residuals]

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters whose powers of kernels are positive semi-definite."""
        return parameters.accepted(self.sides)

    def assembled(self, predicted: Sequence[Array]) -> Array:
        """Return the predictions."""
        return predicted[0]

    def _solved(self, parameters: Parameters) -> _Grid | _Tasks:
        kind = _Grid if len(self.sides) > 1 else _Tasks
        return kind(PairOperator.at(self.sides, parameters), self.labels, self.setting)


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
        (rows, columns), Y = operator.sides, labels.values
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
            more = self.operator.slopes(left, right, inner(left, right))
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
        self.operator, self.inverse, self.duals = operator, inverse, inverse @ labels.values
        self.diagonal = xp.linalg.diagonal(inverse)[:, None]
        self.residuals = self.duals / self.diagonal

    def slopes(self, slope: Array) -> Slopes:
        """Return the derivatives of an error, from its derivatives with respect to the residuals."""
        N, xp, z = self.inverse, namespace(self.inverse), slope / self.diagonal
        weights = xp.sum(z * self.residuals, axis=1)
        kernel = (N * weights[None, :]) @ N - N @ z @ self.duals.T
        return Slopes([kernel], np.zeros(0), float(xp.linalg.trace(kernel)))

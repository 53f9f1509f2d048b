r"""The hold-out error of folds, and its gradient by one more solve.

With the training cells o of a fold, weights w and the kernel P between pairs, the model of the fold is

.. math:: (\mathbf{P}_{oo} + \lambda\,\mathrm{diag}(1/w))\,\mathbf{x} + \mathbf{1}\mu = \mathbf{y}_o, \qquad
          \mathbf{1}^\top\mathbf{x} = 0, \qquad \mathbf{F} = P(\mathbf{x}) + \mu ,

without :math:`\mu` and its condition where there is no constant. Let :math:`\mathbf{D}` be the derivatives of the error
with respect to **F**. With the solution **u** of the same system for the right-hand side :math:`P(\mathbf{D})_o`, whose
entries sum to those of **D**, the derivative of the error along any change of the kernel and of λ is

.. math:: \langle\mathbf{D} - \mathbf{u},\, dP(\mathbf{x})\rangle - \langle\mathbf{u}, \mathbf{x}/w\rangle\,d\lambda .

The exact leave-one-out error of a complete grid, and its gradient in closed form.

With :math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}` between all pairs, :math:`\mathbf{N} = \mathbf{C}^{-1}` or,
with a free mean, :math:`\mathbf{N} = \mathbf{C}^{-1} - \mathbf{C}^{-1}\mathbf{11}^\top\mathbf{C}^{-1} /
\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}`, the error of what is left out together, a block i of cells, is
:math:`\mathbf{r}_i = \mathbf{N}_{ii}^{-1}(\mathbf{Ny})_i`. As :math:`d\mathbf{N} =
-\mathbf{N}\,d\mathbf{P}\,\mathbf{N}` either way,

.. math:: d\sum_i\|\mathbf{r}_i\|^2 = -\langle\mathbf{Nz},\, d\mathbf{P}\,\mathbf{Ny}\rangle
          + \sum_i \langle\mathbf{Nz}^i,\, d\mathbf{P}\,\mathbf{Nr}^i\rangle, \qquad
          \mathbf{z}_i = 2\mathbf{N}_{ii}^{-1}\mathbf{r}_i,

where :math:`\mathbf{z}^i` has its block i alone. In the eigenvectors of both sides all of it is made of products: cells
(A) and rows (B) differ in what :math:`\mathbf{N}_{ii}` is. Columns (C) are the rows of the transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dyadlearn._array import Array, eigh, namespace
from dyadlearn.learning.mixture import Limits, Mixture, PairOperator, Parameters, Slopes
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import conjugate_gradients, inner


@dataclass(frozen=True)
class Tolerances:
    """Relative residuals at which solvers stop.

    Attributes
    ----------
    learning, adjoint : float
        For models on the way, and for their gradients.
    comparing : float
        For errors that are compared.
    """

    learning: float
    adjoint: float
    comparing: float


#: A rough direction is enough to learn. Ten times less took twice the iterations on Davis and on ion channels, and led
#: to the same errors in three digits.
ROUGH = Tolerances(1e-2, 1e-2, 1e-3)
#: Where a grid is so small that it costs nothing, and in double precision.
FINE = Tolerances(1e-10, 1e-10, 1e-10)

_MAX_ITER = 600
# Less noise than this costs iterations, in single precision, and gains nothing that was measured.
_LEAST_ALPHA = 4e-3


@dataclass(frozen=True, eq=False)
class Targets:
    """Labels to learn from.

    Attributes
    ----------
    values : array of shape (m, q)
        Zero where not observed; on a scale on which they deviate by about one.
    observed : array of shape (m, q)
        One where they are, else zero.
    weights : array of shape (m, q) or None
        Positive where they are.
    constant : {"grand", "task"} or None
        What is not regularised: one number, or one for each task.
    """

    values: Array
    observed: Array
    weights: Array | None
    constant: str | None

    @property
    def sizes(self) -> tuple[float, float]:
        """How many instances and tasks have labels; an instance that weighs twice as much counts twice."""
        xp = namespace(self.values)
        labelled = xp.any(self.observed > 0, axis=1), xp.any(self.observed > 0, axis=0)
        tasks = float(xp.sum(xp.astype(labelled[1], self.values.dtype)))
        if self.weights is None:
            return float(xp.sum(xp.astype(labelled[0], self.values.dtype))), tasks
        counts = xp.sum(self.observed, axis=1)
        weights = xp.sum(self.observed * self.weights, axis=1) / xp.where(counts > 0, counts, xp.ones_like(counts))
        return float(xp.sum(weights)), tasks


@dataclass(frozen=True, eq=False)
class Fold:
    """Cells to learn from and cells to predict, with the kernels that may be used.

    Attributes
    ----------
    train, test : arrays of shape (m, q)
        One where a cell is, else zero; only observed cells are.
    mixture, tasks : Mixture, the latter or None
    """

    train: Array
    test: Array
    mixture: Mixture
    tasks: Mixture | None
    # Where the last two solves ended.
    ends: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _System:
    """The linear system of a fold."""

    operator: PairOperator
    labels: Targets
    cells: Array

    def apply(self, X: Array) -> Array:
        found = self.operator(X)
        found *= self.cells
        found += self._ridge(X)
        return self.centred(found)

    def _ridge(self, X: Array) -> Array:
        return self.over_weights(self.operator.parameters.lam * X)

    def over_weights(self, X: Array) -> Array:
        weights = self.labels.weights
        if weights is None:
            return X
        xp = namespace(X)
        return X / xp.where(weights > 0, weights, xp.ones_like(weights))

    def _means(self, X: Array) -> Any:
        """Return sums, of all values or of each column, over the number of cells that are learnt from."""
        xp = namespace(X)
        if self.labels.constant == "grand":
            return xp.sum(X) / xp.sum(self.cells)
        counts = xp.sum(self.cells, axis=0)
        return xp.sum(X, axis=0) / xp.where(counts > 0, counts, xp.ones_like(counts))

    def centred(self, X: Array) -> Array:
        return X if self.labels.constant is None else X - self._means(X) * self.cells

    def solve(self, right: Array, start: Array | None, tol: float) -> Array:
        return conjugate_gradients(self.apply, right, start=start, tol=tol, max_iter=_MAX_ITER).values

    def model(self, start: Array | None, tol: float) -> tuple[Array, Array]:
        """Return dual parameters and predictions, all (m, q)."""
        y = self.labels.values * self.cells
        X = self.solve(self.centred(y), None if start is None else self.centred(start * self.cells), tol)
        found = self.operator(X)
        if self.labels.constant is None:
            return X, found
        return X, found + self._means(y - (found * self.cells + self._ridge(X)))

    def adjoint(self, slope: Array, start: Array | None, tol: float) -> Array:
        """Return the solution for the derivatives of an error with respect to all predictions."""
        right = self.operator(slope) * self.cells
        if self.labels.constant is None:
            return self.solve(right, start, tol)
        # A part whose sum is that of the slope, and the rest, which sums to zero.
        beside = self._means(slope) * self.cells
        right = self.centred(right - (self.operator(beside) * self.cells + self._ridge(beside)))
        return beside + self.solve(right, start, tol)


@dataclass(frozen=True, eq=False)
class ErrorOfLabels:
    """What errors of some labels have in common.

    Parameters
    ----------
    labels : Targets
    """

    labels: Targets

    @property
    def shape(self) -> tuple[int, int]:
        """How many instances and tasks there are."""
        m, q = self.labels.values.shape
        return int(m), int(q)

    @property
    def sizes(self) -> tuple[float, float]:
        """How many instances and tasks have a say; one that weighs twice as much counts twice."""
        return self.labels.sizes


@dataclass(frozen=True, eq=False)
class FoldError(ErrorOfLabels):
    """The mean squared error of folds that are left out, as something to descend on.

    Parameters
    ----------
    labels : Targets
    folds : sequence of Fold
    whole : Fold
        All labels of training, with kernels of theirs.
    tolerances : Tolerances
    """

    folds: Sequence[Fold]
    whole: Fold
    tolerances: Tolerances = ROUGH

    @property
    def n_parts(self) -> int:
        """Of how many parts the error is the mean."""
        return len(self.folds)

    @property
    def limits(self) -> Limits:
        """What parameters may be."""
        return Limits.of(self.folds[0].mixture, self.folds[0].tasks, _LEAST_ALPHA)

    def _loss(self, fold: Fold, predicted: Array) -> tuple[float, float, Array]:
        """Return the sum of squares, the sum of weights and the weighted errors (m, q)."""
        weights = fold.test if self.labels.weights is None else fold.test * self.labels.weights
        error = weights * (predicted - self.labels.values)
        return inner(error, predicted - self.labels.values), float(namespace(error).sum(weights)), error

    def slope(self, parameters: Parameters, part: int) -> tuple[float, np.ndarray]:
        """Return the error of one fold and its derivatives."""
        fold = self.folds[part]
        operator = PairOperator.at(fold.mixture, fold.tasks, parameters)
        system = _System(operator, self.labels, fold.train)
        X, predicted = system.model(fold.ends.get("model"), self.tolerances.learning)
        squares, count, error = self._loss(fold, predicted)
        D = error * (2.0 / count)
        U = system.adjoint(D, fold.ends.get("adjoint"), self.tolerances.adjoint)
        fold.ends.update(model=X, adjoint=system.centred(U))
        slopes = operator.slopes(D - U, X, -inner(U, system.over_weights(X)))
        return squares / count, operator.gradient(slopes)

    def loss(self, parameters: Parameters, part: int) -> float:
        """Return the error of one fold."""
        fold = self.folds[part]
        squares, count, _ = self._loss(fold, self.completed(parameters, fold, self.tolerances.learning))
        return squares / count

    def completed(self, parameters: Parameters, fold: Fold, tol: float | None = None) -> Array:
        """Return what the model of a fold predicts, for all cells."""
        tol = self.tolerances.comparing if tol is None else tol
        operator = PairOperator.at(fold.mixture, fold.tasks, parameters)
        X, predicted = _System(operator, self.labels, fold.train).model(fold.ends.get("model"), tol)
        fold.ends["model"] = X
        return predicted

    def evaluate(self, parameters: Parameters) -> tuple[float, list[Array]]:
        """Return the error over all folds, and the predictions (m, q) of each."""
        found = [self.completed(parameters, fold) for fold in self.folds]
        sums = [self._loss(fold, predicted)[:2] for fold, predicted in zip(self.folds, found, strict=True)]
        return sum(squares for squares, _ in sums) / sum(count for _, count in sums), found

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters with powers that are kernels, in all folds and in the whole."""
        whole = (self.whole.mixture, self.whole.tasks)
        parameters = parameters.accepted(whole)
        for fold in self.folds:
            # All but their profiles are the same.
            parameters = parameters.accepted((fold.mixture, fold.tasks), whole)
        return parameters


# Beyond this a step takes longer than by folds: m³q + mq³ multiplications against some hundred products of a grid.
_LONGEST_SIDE = 400
# Less noise than this loses digits of the inverse.
_LEAST_ALPHA_EXACT = 1e-6


def has_exact_error(labels: Targets, setting: Setting) -> bool:
    """Tell whether the leave-one-out error is to be had in closed form, and at no more than the cost of folds."""
    m, q = labels.values.shape
    complete = labels.weights is None and bool(namespace(labels.values).all(labels.observed > 0))
    return complete and setting is not Setting.D and m * m + q * q <= _LONGEST_SIDE * (m + q)


@dataclass(frozen=True, eq=False)
class ExactError(ErrorOfLabels):
    """The mean squared error of exact leave-one-out, as something to descend on.

    Parameters
    ----------
    labels : Targets
        Complete, without weights.
    mixture, tasks : Mixture, the latter or None
    setting : Setting
        A, B or C; without tasks A and B are the same.
    """

    mixture: Mixture
    tasks: Mixture | None
    setting: Setting

    n_parts = 1

    @property
    def limits(self) -> Limits:
        """What parameters may be."""
        return Limits.of(self.mixture, self.tasks, _LEAST_ALPHA_EXACT)

    def slope(self, parameters: Parameters, part: int) -> tuple[float, np.ndarray]:
        """Return the error and its derivatives."""
        found = self._solved(parameters)
        return found.error, found.operator.gradient(found.slopes())

    def loss(self, parameters: Parameters, part: int) -> float:
        """Return the error."""
        return self._solved(parameters).error

    def evaluate(self, parameters: Parameters) -> tuple[float, list[Array]]:
        """Return the error, and what is predicted."""
        found = self._solved(parameters)
        return found.error, [self.labels.values - found.residuals]

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters with powers that are kernels."""
        return parameters.accepted((self.mixture, self.tasks))

    def _solved(self, parameters: Parameters) -> _Rows | _Cells | _Tasks:
        operator, Y = PairOperator.at(self.mixture, self.tasks, parameters), self.labels.values
        if self.tasks is None:
            return _Tasks.of(operator, Y, self.labels.constant is not None)
        kind = _Cells if self.setting is Setting.A else _Rows
        turned = self.setting is Setting.C
        return kind.of(_Grid.of(operator, self.labels.constant is not None, turned), Y.T if turned else Y)


@dataclass(frozen=True, eq=False)
class _Grid:
    """The inverse of a pair kernel on a complete grid; `turned` if rows are tasks."""

    operator: PairOperator
    turned: bool
    shares: tuple[float, float, float]
    U: Array
    V: Array
    sigma: Array
    s: Array
    phi: Array
    ones: Array | None = None
    total: float = 1.0

    @classmethod
    def of(cls, operator: PairOperator, free_mean: bool, turned: bool) -> _Grid:
        rows, columns = operator.sides
        assert columns is not None
        a, b, c = operator.parameters.pair_shares
        if turned:
            rows, columns, b, c = columns, rows, c, b
        (sigma, U), (s, V) = eigh(rows.kernel), eigh(columns.kernel)
        phi = 1.0 / (sigma[:, None] * (a * s + b)[None, :] + c * s[None, :] + operator.parameters.lam)
        grid = cls(operator, turned, (a, b, c), U, V, sigma, s, phi)
        if not free_mean:
            return grid
        ones = grid.inverse(namespace(phi).ones_like(phi))
        return replace(grid, ones=ones, total=float(namespace(phi).sum(ones)))

    def inverse(self, Y: Array) -> Array:
        """Return C⁻¹ Y."""
        return self.U @ (self.phi * (self.U.T @ Y @ self.V)) @ self.V.T

    def apply(self, Y: Array) -> Array:
        """Return N Y."""
        found = self.inverse(Y)
        return found if self.ones is None else found - self.ones * (float(namespace(Y).sum(found)) / self.total)

    def slopes(self, pairs: list[tuple[Array, Array]], rows: Array, columns: Callable[[int], Array]) -> Slopes:
        """Return slopes of all ⟨left, dP right⟩ and of a sum over what is left out, in eigenvectors.

        Parameters
        ----------
        pairs : list of (left, right)
        rows : array of shape (m, q)
            Of rows and eigenvectors of the columns: what is contracted for the kernel of the rows.
        columns : callable
            Returns the (q, q) that belongs to an eigenvector of the rows.
        """
        a, b, c = self.shares
        U, V, phi, xp = self.U, self.V, self.phi, namespace(self.U)
        by_row, by_column = xp.zeros_like(U), xp.zeros_like(V)
        for column, factor in enumerate(a * self.s + b):
            part = U.T @ (rows[:, column][:, None] * U)
            by_row += factor * part * phi[:, column][:, None] * phi[:, column][None, :]
        for row, factor in enumerate(a * self.sigma + c):
            by_column += factor * columns(row) * phi[row, :][:, None] * phi[row, :][None, :]
        # What is diagonal in both eigenvectors: shares and λ.
        diagonal = phi * phi * ((U * U).T @ rows)
        by_share = [inner(diagonal, self.sigma[:, None] * self.s[None, :])]
        by_share += [inner(diagonal, xp.zeros_like(phi) + part) for part in (self.sigma[:, None], self.s[None, :])]
        by_row, by_column, lam = U @ by_row @ U.T, V @ by_column @ V.T, float(xp.sum(diagonal))
        if self.turned:
            by_row, by_column, by_share = by_column, by_row, [by_share[0], by_share[2], by_share[1]]
        shares = np.array(by_share)
        for left, right in pairs:
            left, right = (left.T, right.T) if self.turned else (left, right)
            more = self.operator.slopes(left, right, inner(left, right))
            by_row, by_column = by_row + more.kernel, by_column + more.task_kernel
            shares, lam = shares + more.shares, lam + more.lam
        return Slopes(by_row, by_column, shares, lam)


class _Solved:
    """Held-out residuals and their mean square, which is the error."""

    found: Array

    @property
    def residuals(self) -> Array:
        return self.found

    @property
    def error(self) -> float:
        return float(inner(self.found, self.found) / math.prod(self.found.shape))

    @property
    def slope(self) -> Array:
        """The slope of the error by the residuals."""
        return (2.0 / math.prod(self.found.shape)) * self.found


@dataclass(frozen=True, eq=False)
class _Cells(_Solved):
    """Single cells that leave."""

    grid: _Grid
    duals: Array
    diagonal: Array
    found: Array

    @classmethod
    def of(cls, grid: _Grid, Y: Array) -> _Cells:
        duals, U, V = grid.apply(Y), grid.U, grid.V
        diagonal = (U * U) @ grid.phi @ (V * V).T
        if grid.ones is not None:
            diagonal = diagonal - grid.ones * grid.ones / grid.total
        return cls(grid, duals, diagonal, duals / diagonal)

    @property
    def operator(self) -> PairOperator:
        return self.grid.operator

    def slopes(self) -> Slopes:
        grid, V = self.grid, self.grid.V
        z = self.slope / self.diagonal
        weights = z * self.found
        pairs = [(-grid.apply(z), self.duals)]
        if grid.ones is not None:
            ones, total = grid.ones, grid.total
            beside = grid.inverse(weights * ones)
            pairs += [(-beside / total, ones), (-ones / total, beside)]
            pairs.append(((inner(weights * ones, ones) / total**2) * ones, ones))
        across = (grid.U * grid.U).T @ weights
        return grid.slopes(pairs, weights @ (V * V), lambda row: V.T @ (across[row, :][:, None] * V))


@dataclass(frozen=True, eq=False)
class _Rows(_Solved):
    """Whole rows that leave."""

    grid: _Grid
    duals: Array
    blocks: Array
    borders: Array | None
    found: Array

    @classmethod
    def of(cls, grid: _Grid, Y: Array) -> _Rows:
        duals = grid.apply(Y)
        blocks = (grid.U * grid.U) @ grid.phi
        borders = None if grid.ones is None else ((grid.ones @ grid.V) / blocks) @ grid.V.T
        rows = cls(grid, duals, blocks, borders, duals)
        return cls(grid, duals, blocks, borders, rows._solve(duals))

    def _solve(self, X: Array) -> Array:
        """Return what the block of N of each row gives, inverted, for that row."""
        grid, xp = self.grid, namespace(X)
        found = ((X @ grid.V) / self.blocks) @ grid.V.T
        if grid.ones is None or self.borders is None:
            return found
        over = grid.total - xp.sum(grid.ones * self.borders, axis=1)
        return found + self.borders * (xp.sum(grid.ones * found, axis=1) / over)[:, None]

    @property
    def operator(self) -> PairOperator:
        return self.grid.operator

    @property
    def residuals(self) -> Array:
        return self.found.T if self.grid.turned else self.found

    def slopes(self) -> Slopes:
        grid, xp = self.grid, namespace(self.found)
        z, r = self._solve(self.slope), self.found
        pairs = [(-grid.apply(z), self.duals)]
        if grid.ones is not None:
            ones, total = grid.ones, grid.total
            of_z, of_r = xp.sum(ones * z, axis=1)[:, None], xp.sum(ones * r, axis=1)[:, None]
            pairs += [(-ones / total, grid.inverse(of_z * r)), (-grid.inverse(of_r * z) / total, ones)]
            pairs.append(((inner(of_z, of_r) / total**2) * ones, ones))
        turned_z, turned_r, squares = z @ grid.V, r @ grid.V, grid.U * grid.U
        return grid.slopes(pairs, turned_z * turned_r, lambda row: (turned_z * squares[:, row][:, None]).T @ turned_r)


@dataclass(frozen=True, eq=False)
class _Tasks(_Solved):
    """Single cells that leave where tasks have nothing in common, each with its constant."""

    operator: PairOperator
    inverse: Array
    duals: Array
    found: Array

    @classmethod
    def of(cls, operator: PairOperator, Y: Array, free_mean: bool) -> _Tasks:
        sigma, U = eigh(operator.sides[0].kernel)
        xp = namespace(U)
        inverse = (U / (sigma + operator.parameters.lam)[None, :]) @ U.T
        if free_mean:
            ones = xp.sum(inverse, axis=1)
            inverse = inverse - ones[:, None] * ones[None, :] / xp.sum(ones)
        duals = inverse @ Y
        return cls(operator, inverse, duals, duals / xp.linalg.diagonal(inverse)[:, None])

    def slopes(self) -> Slopes:
        N, xp = self.inverse, namespace(self.inverse)
        z = self.slope / xp.linalg.diagonal(N)[:, None]
        weights = xp.sum(z * self.found, axis=1)
        left = N @ z
        kernel = (N * weights[None, :]) @ N - left @ self.duals.T
        return Slopes(kernel, None, np.zeros(0), float(xp.linalg.trace(kernel)))

r"""Hold-out errors of a pair kernel model, with their gradients.

`FoldError` is the error of folds, with the models of `dyadlearn.solve.cells`; its gradient needs
one more solve. Let
:math:`\mathbf{D}` be the derivatives of the error with respect to the predictions **F** of a fold, and **x** the dual
coefficients. With the solution **u** of the system of the model for the right-hand side
:math:`P(\mathbf{D})_o`, whose entries sum to those of **D**, the derivative of the error along any
change of the kernel and of λ is

.. math:: \langle\mathbf{D} - \mathbf{u},\, dP(\mathbf{x})\rangle - \langle\mathbf{u}, \mathbf{x}/w\rangle\,d\lambda .

`ExactError` is the exact leave-one-out error of a complete grid, with its gradient in closed form.
With
:math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}` between all pairs, :math:`\mathbf{N} = \mathbf{C}^{-1}` or, with
a free mean, :math:`\mathbf{N} = \mathbf{C}^{-1} - \mathbf{C}^{-1}\mathbf{11}^\top\mathbf{C}^{-1} /
\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}`, the error of a block i of cells that are left out
together is
:math:`\mathbf{r}_i = \mathbf{N}_{ii}^{-1}(\mathbf{Ny})_i`. As :math:`d\mathbf{N} =
-\mathbf{N}\,d\mathbf{P}\,\mathbf{N}` either way,

.. math:: d\sum_i\|\mathbf{r}_i\|^2 = -\langle\mathbf{Nz},\, d\mathbf{P}\,\mathbf{Ny}\rangle
          + \sum_i \langle\mathbf{Nz}^i,\, d\mathbf{P}\,\mathbf{Nr}^i\rangle, \qquad
          \mathbf{z}_i = 2\mathbf{N}_{ii}^{-1}\mathbf{r}_i,

where :math:`\mathbf{z}^i` is **z** in block i and zero elsewhere. In the eigenvectors of both sides
everything is a matrix product. Cells (A) and rows (B) differ in :math:`\mathbf{N}_{ii}`. Columns
(C) are the rows of the transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import Array, as_array_of, eigh, namespace, to_numpy
from dyadlearn.learning.mixture import DIVISIBLE, Parameters, Sides, profile_kernels
from dyadlearn.learning.operator import PairOperator, Slopes
from dyadlearn.settings import Setting
from dyadlearn.solve.cells import CellSet, CellSystem
from dyadlearn.solve.conjugate_gradients import inner


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


#: Default tolerances. Ten times smaller ones took twice the iterations on the Davis and ion channel
#: data, and led to the same errors in three digits.
ROUGH = Tolerances(1e-2, 1e-3)
#: Tolerances for small grids.
FINE = Tolerances(1e-10, 1e-10)

# Largest change of a parameter after which a preconditioner is still used.
_NEAR = 0.1
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
        Positive weights of the cells, in units of `weight_unit`: the bounds and the start of λ
        belong to weights of about one.
    constant : {"grand", "task"} or None
        Type of the constant that is not regularised: one for all cells, or one per task.
    cells : CellSet
    """

    values: Array
    observed: Array
    weights: Array | None
    constant: str | None
    cells: CellSet

    @property
    def sizes(self) -> tuple[float, float, float]:
        """Effective numbers of instances and tasks with labels, and of labels: a weight of two counts as two."""
        observed = to_numpy(self.observed) > 0
        if self.weights is None:
            weights = np.ones(observed.sum())
        else:
            weights = to_numpy(self.weights)[observed]
        counts = []
        for places in (self.cells.rows[observed], self.cells.columns[observed]):
            n_labels = np.bincount(places)
            means = np.bincount(places, weights)[n_labels > 0] / n_labels[n_labels > 0]
            counts.append(float(np.sum(means / weight_unit(means))))
        return counts[0], counts[1], float(np.sum(weights))

    def converted(self, convert: Callable[[Array], Array]) -> Targets:
        """Return the labels with other arrays, in single precision or on another device."""
        arrays = {name: convert(getattr(self, name)) for name in ("values", "observed")}
        weights = None if self.weights is None else convert(self.weights)
        return replace(
            self, **arrays, weights=weights, cells=replace(self.cells, like=arrays["values"])
        )

    @property
    def grid(self) -> Array:
        """Labels as a grid (m, q), zero if missing."""
        return self.cells.grid(self.values[None, :])[0, ...]


def weight_unit(weights: np.ndarray) -> float:
    """Return the weighted median of weights: half of their sum belongs to labels of at most this weight.

    Weights in this unit do not depend on a common factor, and whole weights stay as they are if
    most labels, counted with their weights, have weight one. Unlike by the mean, these then equal
    repeated labels. A few labels with huge weights do not change the unit; if most of the sum
    belongs to them, it is theirs.

    Examples
    --------
    >>> import numpy as np
    >>> weight_unit(np.array([1.0, 1.0, 1.0, 1.0, 3.0])), weight_unit(np.array([0.1, 0.1, 1e8, 2e8, 2e8]))
    (1.0, 200000000.0)
    """
    ordered = np.sort(weights)
    sums = np.cumsum(ordered / ordered[-1])
    # A sum of one half is found whatever the rounding.
    return float(ordered[np.searchsorted(sums, 0.5 * sums[-1] * (1.0 - 1e-9))])


def n_first(sizes: Sequence[float] | np.ndarray, n_labels: int) -> int:
    """Return how many folds of these sizes have at least some number of labels together; all if there are fewer."""
    return min(int(np.searchsorted(np.cumsum(sizes), n_labels)) + 1, len(sizes))


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
        cells = labels.cells
        observed = to_numpy(labels.observed) > 0
        folds = []
        for train_mask, test_mask in masks:
            fold_train = train_mask[cells.rows, cells.columns] & observed
            fold_test = test_mask[cells.rows, cells.columns] & observed
            if fold_train.any() and fold_test.any():
                folds.append((fold_train, fold_test))
        if not folds:
            raise ValueError(
                "No fold has labels both to learn from and to predict: use fewer folds, or other "
                "groups."
            )
        Y = labels.values
        train, test = (as_array_of(np.stack(sets), Y, Y.dtype) for sets in zip(*folds, strict=True))
        return cls(labels, train, test, sides, sides, tolerances)

    @property
    def limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the parameters."""
        return Parameters.limits(self.whole, _LEAST_ALPHA)

    def first(self, n_labels: int) -> FoldError:
        """Return the error of the first folds, with at least some number of labels to predict if there are so many."""
        n_folds = n_first(to_numpy(self.test).sum(axis=1), n_labels)
        if n_folds == len(self.test):
            return self
        sides = [side.of_folds(slice(n_folds)) for side in self.sides]
        return replace(
            self, train=self.train[:n_folds, :], test=self.test[:n_folds, :], sides=sides, _ends={}
        )

    def _operator(self, parameters: Parameters) -> PairOperator:
        return PairOperator.of(self.sides, parameters, self.labels.cells)

    def _system(self, operator: PairOperator) -> CellSystem:
        labels = self.labels
        at = operator.parameters.vector
        if "at" not in self._ends or np.max(np.abs(at - self._ends["at"])) > _NEAR:
            self._ends.update(at=at, inverse=None)
        return CellSystem(
            operator,
            operator.parameters.lam,
            labels.values,
            self.train,
            labels.weights,
            labels.constant,
            self._ends,
        )

    def _loss(self, predicted: Array) -> tuple[float, Array]:
        """Return the error, and its derivatives (f, n) with respect to the predictions."""
        if self.labels.weights is None:
            weights = self.test
        else:
            weights = self.test * self.labels.weights
        total = float(namespace(weights).sum(weights))
        error = predicted - self.labels.values
        return inner(weights * error, error) / total, weights * error * (2.0 / total)

    def slope(self, parameters: Parameters) -> tuple[float, np.ndarray]:
        """Return the error and its derivatives."""
        operator = self._operator(parameters)
        tol = self.tolerances.learning
        system = self._system(operator)
        X, predicted, rest = system.model(tol)
        error, D = self._loss(predicted)
        U = system.adjoint(D, tol)
        slopes = operator.slopes(D - U, X, -inner(U, system.over_weights(X)))
        # To first order, ⟨U, rest⟩ is what the error changes when the systems are solved exactly.
        return error + inner(U, rest), operator.gradient(slopes)

    def evaluate(self, parameters: Parameters) -> tuple[float, Array]:
        """Return the error, and the predictions (f, n) of each fold at the observed cells."""
        _, predicted, _ = self._system(self._operator(parameters)).model(self.tolerances.comparing)
        return self._loss(predicted)[0], predicted

    def completed(self, parameters: Parameters, tol: float | None = None) -> Array:
        """Return the predictions (f, m, q) of the models of the folds for all cells."""
        if tol is None:
            tol = self.tolerances.comparing
        system = self._system(self._operator(parameters))
        return system.complete(system.model(tol)[0])

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters whose powers of kernels are positive semi-definite, in all folds and in the whole data."""
        # Only the profiles differ between folds.
        return parameters.accepted(self.whole).accepted(self.sides, self.whole)

    def assembled(self, predicted: Array) -> Array:
        """Return the predictions of each fold for its test cells as one grid; NaN for cells in no fold."""
        xp = namespace(predicted)
        grid = self.labels.cells.grid
        held_out = xp.zeros_like(predicted[:1, :])
        for fold in range(predicted.shape[0]):
            held_out = xp.where(self.test[fold, :] > 0, predicted[fold, :], held_out)
        is_tested = grid(xp.max(self.test, axis=0, keepdims=True))[0, ...] > 0
        return xp.where(is_tested, grid(held_out)[0, ...], float("nan"))

    @property
    def of_all(self) -> FoldError:
        """The error of one fold, in which all training labels are learned from."""
        observed = self.labels.observed[None, :]
        return replace(self, train=observed, test=observed, sides=self.whole, _ends={})

    def with_profiles(
        self,
        parameters: Parameters,
        plain: Sides,
        profiled: tuple[bool, bool],
        whole: Sides | None = None,
    ) -> FoldError:
        """Return the error with the given kernels and the profiles of what each fold, and all labels, predict.

        `whole` are the kernels and profiles of all labels, if they are known.
        """
        sides = profiled_sides(self.completed(parameters), plain, profiled)
        if whole is None:
            whole = [
                side.of_folds(0)
                for side in profiled_sides(self.of_all.completed(parameters), plain, profiled)
            ]
        return replace(self, sides=sides, whole=whole, _ends={})


def profiled_sides(completed: Array, plain: Sides, profiled: tuple[bool, bool]) -> Sides:
    """Return the given kernels and the profiles of grids (f, m, q) that were completed from training cells."""
    xp = namespace(completed)
    sides = []
    for side, grids, is_known in zip(
        plain, (completed, xp.matrix_transpose(completed)), profiled, strict=False
    ):
        profiles = []
        if is_known:
            profiles = [profile_kernels(grids[fold, ...]) for fold in range(grids.shape[0])]
        stacks = [xp.stack(kernels) for kernels in zip(*profiles, strict=True)]
        sides.append(side.joined(stacks, DIVISIBLE))
    return sides


# Maximum size of a side: for larger sides a step of m³q + mq³ multiplications takes longer than one
# with folds.
_LONGEST_SIDE = 400
# Minimum of λ: smaller values lose digits of the inverse.
_LEAST_ALPHA_EXACT = 1e-6


def has_exact_error(labels: Targets, setting: Setting) -> bool:
    """Return whether the leave-one-out error has a closed form that costs no more than folds."""
    m, q = labels.cells.shape
    complete = (
        labels.weights is None
        and bool(to_numpy(labels.observed).all())
        and labels.cells.is_complete
    )
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
        if self.setting is Setting.C:
            residuals = residuals.T
        return _mean_square(residuals), self.labels.grid - residuals

    def accepted(self, parameters: Parameters) -> Parameters:
        """Return parameters whose powers of kernels are positive semi-definite."""
        return parameters.accepted(self.sides)

    def assembled(self, predicted: Array) -> Array:
        """Return the predictions."""
        return predicted

    def _solved(self, parameters: Parameters) -> _CompleteGrid | _Tasks:
        kind = _CompleteGrid if len(self.sides) > 1 else _Tasks
        return kind(
            PairOperator.of(self.sides, parameters, self.labels.cells), self.labels, self.setting
        )


def _mean_square(residuals: Array) -> float:
    return float(inner(residuals, residuals) / math.prod(residuals.shape))


class _CompleteGrid:
    """Leave-one-out residuals of the cells or rows of a complete grid; in setting C rows are tasks.

    Attributes
    ----------
    operator : PairOperator
    residuals : array of shape (m, q), or (q, m) in setting C
    """

    def __init__(self, operator: PairOperator, labels: Targets, setting: Setting) -> None:
        self.operator = operator
        self.setting = setting
        rows, columns = operator.sides
        Y = labels.grid
        a, b, c = operator.parameters.pair_shares
        if setting is Setting.C:
            Y, rows, columns, b, c = Y.T, columns, rows, c, b
        (self.sigma, self.U), (self.s, self.V) = eigh(rows.kernel), eigh(columns.kernel)
        self.factors, self.task_factors = a * self.s + b, a * self.sigma + c
        self.phi = 1.0 / (
            self.sigma[:, None] * self.factors[None, :]
            + c * self.s[None, :]
            + operator.parameters.lam
        )
        self.ones = None
        self.total = 1.0
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
        if self.ones is None:
            return solved
        return solved - self.ones * (float(namespace(Y).sum(solved)) / self.total)

    def _within(self, X: Array, Y: Array) -> Array:
        """Return inner products within each cell, or each row."""
        if self.setting is Setting.A:
            return X * Y
        return namespace(X).sum(X * Y, axis=1)[:, None]

    def _over_blocks(self, X: Array) -> Array:
        """Return the inverse of the block of N of each cell, or each row, times that cell or row of X."""
        if self.setting is Setting.A:
            return X / self.blocks
        solved = ((X @ self.V) / self.blocks) @ self.V.T
        if self.ones is None:
            return solved
        border = ((self.ones @ self.V) / self.blocks) @ self.V.T
        return solved + border * (
            self._within(self.ones, solved) / (self.total - self._within(self.ones, border))
        )

    def slopes(self, slope: Array) -> Slopes:
        """Return the derivatives of an error, from its derivatives with respect to the residuals."""
        r = self.residuals
        z = self._over_blocks(slope)
        ones = self.ones
        total = self.total
        slopes = self._of_blocks(z)
        pairs = [(-self._apply(z), self.duals)]
        if ones is not None:
            of_z = self._within(ones, z)
            of_r = self._within(ones, r)
            pairs += [
                (-ones / total, self._inverse(of_z * r)),
                (-self._inverse(of_r * z) / total, ones),
            ]
            pairs.append(((inner(of_z, of_r) / total**2) * ones, ones))
        for left, right in pairs:
            if self.setting is Setting.C:
                left = left.T
                right = right.T
            first, second = (namespace(part).reshape(part, (1, -1)) for part in (left, right))
            more = self.operator.slopes(first, second, inner(left, right))
            kernels = [one + other for one, other in zip(slopes.kernels, more.kernels, strict=True)]
            slopes = Slopes(kernels, slopes.shares + more.shares, slopes.lam + more.lam)
        return slopes

    def _of_blocks(self, z: Array) -> Slopes:
        """Return the derivatives of the sum over blocks of ⟨C⁻¹ z, dP C⁻¹ r⟩, computed in eigenvectors."""
        U = self.U
        V = self.V
        phi = self.phi
        xp = namespace(self.U)
        if self.setting is Setting.A:
            weights = z * self.residuals
            rows = weights @ (V * V)
            across = self.squares.T @ weights
        else:
            zV = z @ V
            rV = self.residuals @ V
            rows = zV * rV
        by_row = xp.zeros_like(U)
        by_column = xp.zeros_like(V)
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
            kernels = kernels[::-1]
            shares = shares[[0, 2, 1]]
        return Slopes(kernels, shares, float(xp.sum(diagonal)))


class _Tasks:
    """Leave-one-out residuals of independent tasks, each with its constant; attributes as in `_CompleteGrid`."""

    def __init__(self, operator: PairOperator, labels: Targets, setting: Setting) -> None:
        sigma, U = eigh(operator.sides[0].kernel)
        xp = namespace(U)
        inverse = (U / (sigma + operator.parameters.lam)[None, :]) @ U.T
        if labels.constant is not None:
            ones = xp.sum(inverse, axis=1)
            inverse = inverse - ones[:, None] * ones[None, :] / xp.sum(ones)
        self.operator = operator
        self.inverse = inverse
        self.duals = inverse @ labels.grid
        self.diagonal = xp.linalg.diagonal(inverse)[:, None]
        self.residuals = self.duals / self.diagonal

    def slopes(self, slope: Array) -> Slopes:
        """Return the derivatives of an error, from its derivatives with respect to the residuals."""
        N = self.inverse
        xp = namespace(self.inverse)
        z = slope / self.diagonal
        weights = xp.sum(z * self.residuals, axis=1)
        kernel = (N * weights[None, :]) @ N - N @ z @ self.duals.T
        return Slopes([kernel], np.zeros(0), float(xp.linalg.trace(kernel)))

r"""The exact leave-one-out error of a complete grid, and its gradient in closed form.

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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array, eigh, namespace
from dyadlearn.holes.conjugate_gradients import inner
from dyadlearn.learning.folds import ErrorOfLabels, Labels
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.pair_operator import PairOperator, Slopes
from dyadlearn.learning.parameters import Limits, Parameters
from dyadlearn.settings import Setting

__all__ = ["ExactError", "has_exact_error"]

# Beyond this a step takes longer than by folds: m³q + mq³ multiplications against some hundred products of a grid.
_LONGEST_SIDE = 400
# Less noise than this loses digits of the inverse.
_LEAST_ALPHA = 1e-6


def has_exact_error(labels: Labels, setting: Setting) -> bool:
    """Tell whether the leave-one-out error is to be had in closed form, and at no more than the cost of folds."""
    m, q = labels.values.shape
    complete = labels.weights is None and bool(namespace(labels.values).all(labels.observed > 0))
    return complete and setting is not Setting.D and m * m + q * q <= _LONGEST_SIDE * (m + q)


@dataclass(frozen=True, eq=False)
class ExactError(ErrorOfLabels):
    """The mean squared error of exact leave-one-out, as something to descend on.

    Parameters
    ----------
    labels : Labels
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
        return Limits.of(self.mixture, self.tasks, _LEAST_ALPHA)

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
    ones: Array | None
    total: float

    @classmethod
    def of(cls, operator: PairOperator, free_mean: bool, turned: bool) -> _Grid:
        rows, columns = operator.sides
        assert columns is not None
        a, b, c = operator.parameters.pair_shares
        if turned:
            rows, columns, b, c = columns, rows, c, b
        (sigma, U), (s, V) = eigh(rows.kernel), eigh(columns.kernel)
        phi = 1.0 / (sigma[:, None] * (a * s + b)[None, :] + c * s[None, :] + operator.parameters.lam)
        grid = cls(operator, turned, (a, b, c), U, V, sigma, s, phi, None, 1.0)
        if not free_mean:
            return grid
        xp = namespace(U)
        ones = grid.inverse(xp.ones((U.shape[0], V.shape[0]), dtype=U.dtype, device=U.device))
        return cls(operator, turned, (a, b, c), U, V, sigma, s, phi, ones, float(xp.sum(ones)))

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


@dataclass(frozen=True, eq=False)
class _Cells:
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

    @property
    def residuals(self) -> Array:
        return self.found

    @property
    def error(self) -> float:
        return inner(self.found, self.found) / _size(self.found)

    def slopes(self) -> Slopes:
        grid, V = self.grid, self.grid.V
        z = (2.0 / _size(self.found)) * self.found / self.diagonal
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
class _Rows:
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

    @property
    def error(self) -> float:
        return inner(self.found, self.found) / _size(self.found)

    def slopes(self) -> Slopes:
        grid, xp = self.grid, namespace(self.found)
        z, r = (2.0 / _size(self.found)) * self._solve(self.found), self.found
        pairs = [(-grid.apply(z), self.duals)]
        if grid.ones is not None:
            ones, total = grid.ones, grid.total
            of_z, of_r = xp.sum(ones * z, axis=1)[:, None], xp.sum(ones * r, axis=1)[:, None]
            pairs += [(-ones / total, grid.inverse(of_z * r)), (-grid.inverse(of_r * z) / total, ones)]
            pairs.append(((inner(of_z, of_r) / total**2) * ones, ones))
        turned_z, turned_r, squares = z @ grid.V, r @ grid.V, grid.U * grid.U
        return grid.slopes(pairs, turned_z * turned_r, lambda row: (turned_z * squares[:, row][:, None]).T @ turned_r)


@dataclass(frozen=True, eq=False)
class _Tasks:
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

    @property
    def residuals(self) -> Array:
        return self.found

    @property
    def error(self) -> float:
        return inner(self.found, self.found) / _size(self.found)

    def slopes(self) -> Slopes:
        N, xp = self.inverse, namespace(self.inverse)
        z = (2.0 / _size(self.found)) * self.found / xp.linalg.diagonal(N)[:, None]
        weights = xp.sum(z * self.found, axis=1)
        left = N @ z
        kernel = (N * weights[None, :]) @ N - left @ self.duals.T
        return Slopes(kernel, None, np.zeros(0), float(xp.linalg.trace(kernel)))


def _size(grid: Array) -> int:
    return int(grid.shape[0] * grid.shape[1])

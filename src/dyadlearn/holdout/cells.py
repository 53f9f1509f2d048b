r"""Leave-cells-out in setting A, for any set of cells.

With :math:`\mathbf{H}` the hat matrix of the pairs and :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, the cells S of a
fold solve

.. math:: \mathbf{R}_{SS}\,\mathbf{f}_S = (\mathbf{H}\mathbf{y}_{\setminus S})_S
          = -(\mathbf{R}\mathbf{y}_{\setminus S})_S,

where the labels outside the fold stand in a grid that is zero inside it. A small fold is solved
directly, a large one by conjugate gradients whose products are a few matrix products of the
size of the grid.
"""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, epsilon, namespace, take_rows, to_numpy
from dyadlearn.holdout.kronecker import interpolation_floor, vanishing_residual
from dyadlearn.holdout.problem import Problem
from dyadlearn.holdout.two_step import common_floor
from dyadlearn.solvers.iterative import conjugate_gradients
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error
from dyadlearn.vectrick import sandwich

__all__ = ["cells_holdout"]

# A dense system of this many cells takes 128 MiB and about the time of a hundred iterations.
_DIRECT_CELLS = 4096


def cells_holdout(problem: Problem, cells: Any) -> Array:
    """Return, for each cell, what a model that saw no cell of its fold predicts.

    Parameters
    ----------
    problem : Problem
    cells : array-like of shape (m, q)
        Fold labels.

    Returns
    -------
    array of shape (m, q)
    """
    labels = to_numpy(cells)
    if labels.shape != tuple(problem.Y.shape):
        raise ValueError(
            f"cells must give a fold for each cell of the {problem.Y.shape[0]} × {problem.Y.shape[1]} grid, found "
            f"shape {labels.shape}."
        )
    operators = _pair_operators(problem)
    xp = namespace(problem.Y)
    held_out = xp.zeros_like(problem.Y)
    _, codes = np.unique(labels, return_inverse=True)
    codes = codes.reshape(labels.shape)
    for fold in range(int(codes.max()) + 1):
        inside = as_array_of(codes == fold, problem.Y)
        held_out = xp.where(inside, _leave_fold_out(operators, problem.Y, inside, codes == fold), held_out)
    return held_out


def _leave_fold_out(operators: PairOperators, Y: Array, inside: Array, mask: np.ndarray) -> Array:
    xp = namespace(Y)
    nothing = xp.zeros_like(Y)
    outside = xp.where(inside, nothing, Y)
    right = -operators.residual(outside) if operators.prefers_residual else operators.hat(outside)
    right = xp.where(inside, right, nothing)
    positions = np.nonzero(mask)
    if positions[0].size <= _DIRECT_CELLS:
        system = operators.residual_block(*positions)
        if operators.floor and float(xp.min(xp.linalg.eigvalsh(system))) <= operators.floor:
            raise leverage_error(np.flatnonzero(mask), mask.size, "cells form a fold that")
        flat = positions[0] * Y.shape[1] + positions[1]
        solved = xp.linalg.solve(system, take_rows(xp.reshape(right, (-1,)), flat)[:, None])
        order = np.zeros(mask.size, dtype=np.intp)
        order[flat] = np.arange(flat.size)
        return xp.reshape(take_rows(solved[:, 0], order), Y.shape)
    solution = conjugate_gradients(
        lambda grid: xp.where(inside, operators.residual(grid), nothing), right, tol=100 * epsilon(Y)
    )
    if not solution.converged:
        warnings.warn(
            f"Leaving out {positions[0].size} cells: conjugate gradients stopped after {solution.n_iter} iterations at "
            f"a relative residual of {solution.residual:.1e}. Use smaller folds or a larger alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return solution.values


class PairOperators(Protocol):
    """Hat and residual operator of the pairs, on grids of shape (m, q)."""

    prefers_residual: bool
    floor: float

    def hat(self, grid: Array) -> Array: ...
    def residual(self, grid: Array) -> Array: ...
    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array: ...


def _pair_operators(problem: Problem) -> PairOperators:
    rows = problem.spectrum.smoother(problem.filter, problem.alpha)
    if problem.task_spectrum is None:
        return _TwoStepOperators(rows, None)
    if problem.method == "kronecker":
        return _KroneckerOperators(problem.spectrum, problem.task_spectrum, problem.alpha)
    return _TwoStepOperators(rows, problem.task_spectrum.smoother(problem.task_filter, problem.task_alpha))


class _TwoStepOperators:
    """H = H_g ⊗ H_k, and R = R_k ⊗ I + H_k ⊗ R_g; without tasks H_g is the identity."""

    def __init__(self, rows: Smoother, columns: Smoother | None) -> None:
        # At λ = 0 on every side the hats are identities and only residuals, up to scale, are left.
        self.vanishing = rows.contrast is not None and (columns is None or columns.contrast is not None)
        if self.vanishing:
            rows, columns = rows.scaled(), None if columns is None else columns.scaled()
        self.rows, self.columns = rows, columns
        self.prefers_residual = rows.prefers_residual and (columns is None or columns.prefers_residual)
        self.floor = common_floor(rows) if columns is None else common_floor(rows, columns)

    def hat(self, grid: Array) -> Array:
        return self.rows.smooth(grid if self.columns is None else self.columns.smooth(grid.T).T)

    def residual(self, grid: Array) -> Array:
        if self.columns is None:
            return _both(self.rows, grid)[1]
        smoothed, rest = (part.T for part in _both(self.columns, grid.T))
        return _both(self.rows, grid if self.vanishing else smoothed)[1] + rest

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        residual = _block(self.rows.residual(), rows)
        same_task = as_array_of(columns[:, None] == columns[None, :], residual, residual.dtype)
        if self.columns is None:
            return residual * same_task
        if self.vanishing:
            kept = as_array_of(rows[:, None] == rows[None, :], residual, residual.dtype)
        else:
            kept = _block(self.rows.hat(), rows)
        return residual * same_task + kept * _block(self.columns.residual(), columns)


def _both(side: Smoother, labels: Array) -> tuple[Array, Array]:
    """Return HY and RY, the smaller one computed and the larger one by difference."""
    product = side.product(labels)
    return (labels - product, product) if side.prefers_residual else (product, labels - product)


def _block(matrix: Array, index: np.ndarray) -> Array:
    return take_rows(take_rows(matrix, index).T, index).T


class _KroneckerOperators:
    """H and R are diagonal in the rotated labels."""

    def __init__(self, spectrum: Spectrum, task_spectrum: Spectrum, alpha: float) -> None:
        self.spectrum, self.task_spectrum = spectrum, task_spectrum
        products = spectrum.values[:, None] * task_spectrum.values[None, :]
        xp = namespace(products)
        if alpha > 0:
            self.shrinkage, self.remainder = products / (products + alpha), alpha / (products + alpha)
        else:
            self.shrinkage, self.remainder = xp.astype(products > 0, products.dtype), vanishing_residual(products)
        self.truncated = spectrum.is_truncated or task_spectrum.is_truncated
        self.floor = interpolation_floor(alpha, spectrum, task_spectrum)
        kept = int(xp.sum(xp.astype(self.shrinkage > 0.5, xp.int64)))
        self.prefers_residual = not self.truncated and 2 * kept > spectrum.n_rows * task_spectrum.n_rows

    def _filtered(self, grid: Array, weights: Array) -> Array:
        rotated = self.task_spectrum.rotate(self.spectrum.rotate(grid).T).T
        return sandwich(self.spectrum.vectors, weights * rotated, self.task_spectrum.vectors)

    def hat(self, grid: Array) -> Array:
        return self._filtered(grid, self.shrinkage)

    def residual(self, grid: Array) -> Array:
        return grid - self.hat(grid) if self.truncated else self._filtered(grid, self.remainder)

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        weights = -self.shrinkage if self.truncated else self.remainder
        xp = namespace(weights)
        right = take_rows(self.task_spectrum.vectors, columns)
        pieces, members = [], []
        for row in np.unique(rows):
            here = np.flatnonzero(rows == row)
            # Row of the operator for instance `row`, tasks still rotated: (m, l).
            turned = (self.spectrum.vectors * self.spectrum.vectors[int(row), :]) @ weights
            pieces.append(take_rows(right, here) @ (take_rows(turned, rows) * right).T)
            members.append(here)
        block = take_rows(xp.concat(pieces, axis=0), np.argsort(np.concatenate(members)))
        return block + xp.eye(block.shape[0], dtype=block.dtype, device=block.device) if self.truncated else block

r"""Solve pair kernel ridge at observed pairs for any right-hand side, if both sides have few features.

With features :math:`\boldsymbol\phi_i` of the instances and :math:`\boldsymbol\psi_j` of the tasks,
the pair kernel
:math:`a\,\mathbf{K}\otimes\mathbf{G} + b\,\mathbf{K}\otimes\mathbf{I} + c\,\mathbf{I}\otimes\mathbf{G}` is that of the
functions

.. math:: f_{ij} = \boldsymbol\phi_i^\top(\sqrt a\,\mathbf{W}\boldsymbol\psi_j + \sqrt b\,\mathbf{u}_j)
          + \sqrt c\,\mathbf{v}_i^\top\boldsymbol\psi_j + \mu .

The normal equations of one task contain only its own :math:`\mathbf{u}_j`, so that these unknowns
are eliminated by a small inverse for each task. Conjugate gradients solve for :math:`\mathbf{W}`,
:math:`\mu` and :math:`\mathbf{v}`. Their preconditioner is exact for :math:`\mathbf{W}` and
:math:`\mu`. It has one small block for each instance. Without
:math:`\mathbf{v}` it is exact. If only instances have functions, both sides are exchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    Scatter,
    array_bytes,
    as_array_of,
    epsilon,
    largest,
    namespace,
    positive_solver,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._means import with_ones
from dyadlearn._memory import fits_in_memory
from dyadlearn._work import FACTORED, products
from dyadlearn.labels import Labels
from dyadlearn.solve.conjugate_gradients import Solution, conjugate_gradients, inner, inner_there
from dyadlearn.solve.missing import ITERATIONS
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Spectrum

# Number of iterations with an exact preconditioner, for estimates of their work.
_EXACT_ITERATIONS = 2
# Smaller grids are solved for their missing cells.
_LEAST_CELLS = 2**16
# The matrix for W has at most this many rows (32 MiB).
_MOST_SHARED = 2048
# With a smaller ridge, relative to the largest eigenvalue of the pair kernel, normal equations lose
# too many digits.
_LEAST_RIDGE = 1e-8


class CrossedSystem:
    r"""The normal equations of a pair kernel at observed pairs, with the functions of single tasks eliminated.

    Parameters
    ----------
    operators : GridOperators
        Operators of the pair kernel, for its spectra, ridge and free mean.
    labels : Labels
        A list, of which the positions and weights are used.
    """

    def __init__(self, operators: GridOperators, labels: Labels) -> None:
        assert operators.shares is not None
        product, per_task, per_instance = operators.shares
        # If tasks have no functions, those of the instances are eliminated: both sides are exchanged.
        self._is_turned = per_task == 0
        sides = list(operators.grid_spectra)
        if self._is_turned:
            sides.reverse()
            per_task, per_instance = per_instance, per_task
        (self.left, self.right), self._of_rows = zip(*map(_features, sides), strict=True)
        self.labels = labels
        (m, r), (q, s) = (self.left.shape, self.right.shape)
        xp = namespace(self.left)
        like = self.left
        self._ridge = operators.ridge
        if labels.weights is None:
            self.weights = xp.ones_like(labels.values)
        else:
            self.weights = labels.weights
        self._scatter = Scatter(*labels.places, labels.shape, like)
        self._cells = as_array_of(np.ravel_multi_index(labels.places, labels.shape), like)
        # The last feature of each side is a one, which only the mean uses.
        inside, task_inside = (as_array_of(np.arange(n) < n - 1, like, like.dtype) for n in (r, s))
        self._task_scale = per_task**0.5 * inside
        self._instance_scale = per_instance**0.5 * task_inside
        self._scale = product**0.5 * inside[:, None] * task_inside[None, :]
        # The unknowns are an array (m + r, s): v above W, with the mean as the last entry.
        self._penalty = self._ridge + zeros((m + r, s), like)
        if operators.free_mean:
            self._scale[-1, -1], self._penalty[-1, -1] = 1.0, 0.0
        gram = xp.reshape(self._to_tasks(self.weights, _squares(self.left)), (q, r, r))
        eye, task_eye = (self._ridge * as_array_of(np.eye(n), like, like.dtype) for n in (r, s))
        coupling = gram * self._task_scale
        self._task_inverse = xp.linalg.inv(coupling * self._task_scale[:, None] + eye)
        rest = xp.reshape(
            gram - coupling @ self._task_inverse @ xp.matrix_transpose(coupling), (q, r * r)
        )
        shared = xp.permute_dims(
            xp.reshape(rest.T @ _squares(self.right), (r, r, s, s)), (0, 2, 1, 3)
        )
        shared = xp.reshape(shared * self._scale[:, :, None, None] * self._scale, (r * s, r * s))
        penalty = np.diag(to_numpy(self._penalty[m:, :]).reshape(-1))
        self._solve_shared = positive_solver(shared + as_array_of(penalty, like, like.dtype))
        gram = xp.reshape(self._to_instances(self.weights, _squares(self.right)), (m, s, s))
        scales = self._instance_scale * self._instance_scale[:, None]
        self._instance_inverse = xp.linalg.inv(gram * scales + task_eye)

    def label_weights(self, rotated: Any, tol: float, max_iter: int) -> tuple[Array, Solution]:
        """Return the weight of each label (n,) in one prediction, and the outcome of conjugate gradients.

        Parameters
        ----------
        rotated : two pairs of arrays of shape (k,) and of shape (l,)
            Rotated kernel row and rotated unit vector of the instance and of the task. The unit
            vector of a new row is zero, because it has no function of its own.
        tol, max_iter : float and int
        """
        if self._is_turned:
            rotated = rotated[::-1]
        of_row, of_column = self._of_rows
        row, unit = of_row(*rotated[0])
        column, task_unit = of_column(*rotated[1])
        separate = unit[:, None] * (self._instance_scale * column)
        shared = self._scale * row[:, None] * column
        first = self._at_pairs(
            self.left, self._of_tasks(task_unit[:, None] * (self._task_scale * row))
        )
        right = namespace(row).concat([separate, shared]) - self._gathered(first)
        solution = conjugate_gradients(
            self._product, right, precondition=self._improve, tol=tol, max_iter=max_iter
        )
        return self.weights * (first + self._values(solution.values)), solution

    def dual(
        self, values: Array, tol: float, max_iter: int, start: Array | None = None
    ) -> Solution:
        r"""Return the dual coefficients (n,) of labels, and the outcome of conjugate gradients.

        The residual is that of the system of the dual coefficients. With the residual
        :math:`\mathbf{g}` of the normal equations it is :math:`\|\sqrt w\,f(\mathbf{g})\|/\lambda`.

        Parameters
        ----------
        values : array of shape (n,)
            Labels, centred if the mean is free.
        tol, max_iter : float and int
        start : array of shape (n,), default=None
            Dual coefficients of a similar problem.
        """
        first = self._projected(values)
        right = self._gathered(first)
        size = math.sqrt(inner(values, self.weights * values))
        norm = math.sqrt(float(self._square(right)))
        if not norm:
            return Solution(namespace(values).zeros_like(values), 0, 0.0, True)
        # Few digits of a large function are needed, and all digits of a small one.
        scale = min(size, norm) / norm
        solution = conjugate_gradients(
            self._product,
            right,
            precondition=self._improve,
            start=None if start is None else self._gathered(start / self.weights),
            tol=max(tol, 50 * epsilon(values)) * scale,
            max_iter=max_iter,
            square=self._square,
        )
        dual = self.weights * (first - self._values(solution.values)) / self._ridge
        return replace(solution, values=dual, residual=solution.residual / scale)

    def _square(self, rest: Array) -> Array:
        """Return the squared norm of a residual of the normal equations in the system of the dual coefficients."""
        values = self._shared_values(rest)
        return inner_there(values, self.weights * values) / self._ridge**2

    def _to_tasks(self, values: Array, features: Array) -> Array:
        """Return the sums of features of the instances of each task, times values at the pairs."""
        return self._scatter.times(values, features, transposed=not self._is_turned)

    def _to_instances(self, values: Array, features: Array) -> Array:
        return self._scatter.times(values, features, transposed=self._is_turned)

    def _at_pairs(self, left: Array, right: Array) -> Array:
        # One product of the whole grid is faster than gathered rows for each pair.
        grid = right @ left.T if self._is_turned else left @ right.T
        return take_rows(namespace(left).reshape(grid, (-1,)), self._cells)

    def _of_tasks(self, right: Array) -> Array:
        """Return the functions of tasks, as coefficients of features (q, r), for right-hand sides (q, r)."""
        return self._task_scale * (self._task_inverse @ right[:, :, None])[:, :, 0]

    def _projected(self, values: Array) -> Array:
        """Return values at the pairs, less what the functions of tasks fit of them."""
        right = self._task_scale * self._to_tasks(self.weights * values, self.left)
        return values - self._at_pairs(self.left, self._of_tasks(right))

    def _shared_values(self, unknowns: Array) -> Array:
        """Return the function of W, v and the mean at the pairs."""
        m = self.left.shape[0]
        half = self._instance_scale * unknowns[:m, :] + self.left @ (self._scale * unknowns[m:, :])
        return self._at_pairs(half, self.right)

    def _values(self, unknowns: Array) -> Array:
        """Return the function of W, v and the mean at the pairs, less what the functions of tasks fit of it."""
        return self._projected(self._shared_values(unknowns))

    def _gathered(self, values: Array) -> Array:
        sums = self._to_instances(self.weights * values, self.right)
        return namespace(values).concat(
            [self._instance_scale * sums, self._scale * (self.left.T @ sums)]
        )

    def _product(self, unknowns: Array) -> Array:
        return self._gathered(self._values(unknowns)) + self._penalty * unknowns

    def _improve(self, rest: Array) -> Array:
        xp = namespace(rest)
        m = self.left.shape[0]
        separate = (self._instance_inverse @ rest[:m, :, None])[:, :, 0]
        return xp.concat(
            [
                separate,
                xp.reshape(self._solve_shared(xp.reshape(rest[m:, :], (-1,))), (-1, rest.shape[1])),
            ]
        )


def crossed_work(
    operators: GridOperators, shape: tuple[int, int], n_labels: int, n_solutions: int = 1
) -> float:
    """Return the number of multiplications of solutions by `CrossedSystem`; infinite where it is not suited.

    Parameters
    ----------
    operators : GridOperators
    shape : (int, int)
        Shape of the grid.
    n_labels : int
    n_solutions : int, default=1
    """
    m, q = shape
    is_small = m * q < _LEAST_CELLS or n_labels == 0
    if operators.shares is None or operators.interpolates or is_small:
        return math.inf
    separate = operators.shares[1:]
    if not any(separate):
        return math.inf
    if operators.ridge <= _LEAST_RIDGE * largest(operators.kernel_values):
        return math.inf
    r, s = (int(np.count_nonzero(to_numpy(side.values))) + 1 for side in operators.grid_spectra)
    like = operators.kernel_values
    t = max(r, s)
    held = array_bytes(
        like, (4, q, r, r), (4, m, s, s), (4, r * s, r * s), (4, m, q), (n_labels, t, t)
    )
    if r * s > _MOST_SHARED or not fits_in_memory(held, like):
        return math.inf
    summing = products((n_labels, r, r), (n_labels, s, s))
    eliminating = products((q, r, r, r), (m, s, s, s), (q, r * s, r * s))
    solving = products((FACTORED, r * s, r * s, r * s))
    is_exact = min(separate) == 0
    n_iter = n_solutions * (_EXACT_ITERATIONS if is_exact else ITERATIONS)
    return summing + eliminating + solving + products((n_iter, 4, m, q, r + s))


def _features(side: Spectrum) -> tuple[Array, Callable[[Array, Array], tuple[Array, Array]]]:
    """Return features (n, k) of a kernel and a one, and a function of a rotated kernel row and a rotated unit vector.

    The function returns the features of the row, and the unit vector (n,).
    """
    kept = np.flatnonzero(to_numpy(side.values) > 0)
    roots = take_rows(side.values, kept) ** 0.5
    features = with_ones(take_rows(side.vectors.T, kept).T * roots)
    return features, lambda row, unit: (
        with_ones((take_rows(row, kept) / roots)[None, :])[0, :],
        side.vectors @ unit,
    )


def _squares(features: Array) -> Array:
    """Return all products of two features of each row, shape (n, k²)."""
    return namespace(features).reshape(
        features[:, :, None] * features[:, None, :], (features.shape[0], -1)
    )

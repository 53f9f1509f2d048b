r"""Pair kernel ridge at the cells of a grid of which few may be observed, for several folds.

.. math:: P(\mathbf{X}) = a\,\mathbf{KXG} + b\,\mathbf{KX} + c\,\mathbf{XG}

The grid **X** is zero outside the observed cells, and only the values of the product at these cells
are needed. If few cells are observed, a product takes n(m + q) multiplications instead of mq(m +
q).

With the training cells o of a fold and weights w, the model of the fold is

.. math:: (\mathbf{P}_{oo} + \lambda\,\mathrm{diag}(1/w))\,\mathbf{x} + \mathbf{1}\mu = \mathbf{y}_o, \qquad
          \mathbf{1}^\top\mathbf{x} = 0, \qquad \mathbf{F} = P(\mathbf{x}) + \mu ,

without :math:`\mu` and its condition if there is no constant. Conjugate gradients solve it,
preconditioned by main effects of both sides. The diagonal of a weighted system varies as much as
the weights, so the preconditioner **M** has the same diagonal, and its solutions satisfy the
condition: :math:`\mathbf{M}^{-1}\mathbf{r} -
\mathbf{M}^{-1}\mathbf{1}\,\mathbf{1}^\top\mathbf{M}^{-1}\mathbf{r} /
\mathbf{1}^\top\mathbf{M}^{-1}\mathbf{1}`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    Scatter,
    as_array_of,
    is_foreign,
    namespace,
    positive_inverse,
    positive_solver,
    row_major,
    slices,
    with_diagonal,
    zeros,
)
from dyadlearn._threads import for_each
from dyadlearn._work import products
from dyadlearn.solve.blocks import identity
from dyadlearn.solve.conjugate_gradients import Solution, conjugate_gradients
from dyadlearn.vectrick import dots_at, few_dots

# Maximum number of iterations of conjugate gradients by default.
_MAX_ITER = 600
# Share of observed cells from which on all cells of a grid are used: gathering takes longer than
# multiplying zeros.
_DENSE = 0.3
# Multiplications of a product with the whole grid up to which it costs less than handling sparse
# grids.
_CHEAP = 1e9


@dataclass(frozen=True, eq=False)
class CellSet:
    """Cells of a grid, among them all observed ones, with products of grids that are zero elsewhere.

    A stack of f grids is an array (f, n) of their values at the cells. Matrices are the same for
    all grids, or stacks of one per grid.

    Parameters
    ----------
    rows, columns : integer arrays of shape (n,), of numpy
        Cells, all different, in ascending order of rows and then of columns.
    shape : (int, int)
        Shape (m, q) of the grid.
    like : array
        Array of the library and on the device of the values.
    """

    rows: np.ndarray
    columns: np.ndarray
    shape: tuple[int, int]
    like: Array

    @classmethod
    def of(cls, observed: np.ndarray, like: Array) -> CellSet:
        """Return the cells of a mask (m, q), or all cells if most of them are observed."""
        return cls.only(observed if observed.mean() < _DENSE else np.ones_like(observed), like)

    @classmethod
    def only(cls, mask: np.ndarray, like: Array) -> CellSet:
        """Return the cells of a mask (m, q)."""
        rows, columns = np.nonzero(mask)
        return cls(rows, columns, (mask.shape[0], mask.shape[1]), like)

    @cached_property
    def is_complete(self) -> bool:
        """Whether these are all cells of the grid."""
        return len(self.rows) == self.shape[0] * self.shape[1]

    @cached_property
    def is_dense(self) -> bool:
        """Whether products with the whole grid cost less."""
        return not are_few(len(self.rows), self.shape, self.like)

    @cached_property
    def _scatter(self) -> Scatter:
        return Scatter(self.rows, self.columns, self.shape, self.like)

    @cached_property
    def places(self) -> tuple[Array, Array]:
        """Rows and columns of the cells."""
        return as_array_of(self.rows, self.like), as_array_of(self.columns, self.like)

    @cached_property
    def _positions(self) -> Array:
        """Position of each cell in the raveled grid."""
        return as_array_of(self.rows * self.shape[1] + self.columns, self.like)

    @cached_property
    def _numbers(self) -> Array:
        """Number of the cell at each position of the raveled grid; n if there is none."""
        numbers = np.full(self.shape, len(self.rows))
        numbers[self.rows, self.columns] = np.arange(len(self.rows))
        return as_array_of(numbers.reshape(-1), self.like)

    def grid(self, values: Array) -> Array:
        """Return the grids (f, m, q) with these values (f, n)."""
        xp = namespace(values)
        n_grids = values.shape[0]
        if not self.is_complete and not is_foreign(values):
            grids = np.zeros((n_grids, self.shape[0] * self.shape[1]), dtype=values.dtype)
            grids[:, self._positions] = values
            values = grids
        elif not self.is_complete:
            # Not all libraries assign to positions; the other positions take the zero at the end.
            padded = xp.concat([values, zeros((n_grids, 1), values)], axis=1)
            values = xp.take(padded, self._numbers, axis=1)
        return xp.reshape(values, (n_grids, *self.shape))

    def take(self, grids: Array) -> Array:
        """Return the values (f, n) of grids (f, m, q) at the cells."""
        xp = namespace(grids)
        flat = xp.reshape(grids, (grids.shape[0], -1))
        if self.is_complete:
            return flat
        return xp.take(flat, self._positions, axis=1)

    def times(self, values: Array, matrix: Array) -> Array:
        """Return the grids with these values times a matrix (q, p), of shape (f, m, p)."""
        if self.is_dense:
            return self.grid(values) @ matrix
        return _for_each(self._scatter.times, values, matrix)

    def transposed_times(self, values: Array, matrix: Array) -> Array:
        """Return the transposed grids with these values times a matrix (m, p), of shape (f, q, p)."""
        if self.is_dense:
            return _transposed(self.grid(values)) @ matrix
        return _for_each(partial(self._scatter.times, transposed=True), values, matrix)

    def product(self, left: Array, right: Array) -> Array:
        """Return the values (f, n) of the products of a matrix (m, p) and matrices (f, p, q) at the cells."""
        if self.is_dense:
            return self.take(left @ right)

        def dots(right: Array, left: Array) -> Array:
            return dots_at(left, row_major_transpose(right), *self.places)

        return _for_each(dots, right, left)


def are_few(n_cells: int, shape: tuple[int, int], like: Array) -> bool:
    """Return whether products at cells cost less than with the whole grid."""
    m, q = shape
    is_large = products((m, q, m), (m, q, q)) > _CHEAP
    return is_large and few_dots(n_cells, shape, like) < m * q


def _for_each(product: Callable[[Array, Array], Array], stacked: Array, matrix: Array) -> Array:
    """Return the products of each part of a stack with a matrix, or with the same part of a stack of matrices."""
    grids = range(stacked.shape[0])
    products = [
        product(stacked[i, ...], matrix if matrix.ndim == 2 else matrix[i, ...]) for i in grids
    ]
    # A stack would be another copy.
    if len(products) == 1:
        return products[0][None, ...]
    return namespace(matrix).stack(products)


def _each(work: Callable[[Array], Array], matrices: Array) -> Array:
    """Return a stack of the results of a function of a matrix, or of each matrix of a stack."""
    if matrices.ndim == 2:
        return work(matrices)[None, ...]
    return namespace(matrices).stack([work(matrices[i, ...]) for i in range(matrices.shape[0])])


def _transposed(array: Array) -> Array:
    return namespace(array).matrix_transpose(array)


def plus_identity(kernel: Array, factor: Any) -> Array:
    """Return a matrix, or each matrix of a stack, plus a multiple of the identity."""
    return kernel + factor * identity(kernel)


def row_major_transpose(array: Array) -> Array:
    """Return the transpose in row-major order; numpy copies strips of rows several times faster than all at once."""
    if is_foreign(array):
        return row_major(_transposed(array))
    transpose = np.empty_like(_transposed(array), order="C")

    def copy(rows: slice) -> None:
        transpose[..., rows] = _transposed(array[..., rows, :])

    for_each(copy, list(slices(array.shape[-2], 128)), array, n_operations=10.0 * array.size)
    return transpose


@dataclass(frozen=True, eq=False)
class CellOperator:
    """Kernel between pairs as an operator on values at cells.

    Parameters
    ----------
    kernels : list of arrays of shape (m, m) and (q, q), or stacks of them
        Kernel of the instances and, unless tasks are independent, that of the tasks; the same for
        all grids or one per grid.
    shares : (float, float, float)
        Shares a > 0, b and c of the kernel between pairs.
    cells : CellSet
    """

    kernels: list[Array]
    shares: tuple[float, float, float]
    cells: CellSet

    def __call__(self, values: Array) -> Array:
        """Apply the kernel to values (f, n) at the cells."""
        K, *tasks = self.kernels
        cells = self.cells
        if not tasks:
            return cells.take(_transposed(cells.transposed_times(values, K)))
        a, b, c = self.shares
        XH = cells.times(values, self.task_kernel)
        return a * cells.product(K, XH) + c * (cells.take(XH) - (b / a) * values)

    @cached_property
    def task_kernel(self) -> Array:
        """The kernel of the tasks plus b/a times the identity, so that a·KXH is both terms with K."""
        return plus_identity(self.kernels[1], self.shares[1] / self.shares[0])

    def on_grid(self, values: Array) -> Array:
        """Apply the kernel to values (f, n) at the cells, and return the product at all cells, of shape (f, m, q)."""
        K, *tasks = self.kernels
        if not tasks:
            return _transposed(self.cells.transposed_times(values, K))
        a, _, c = self.shares
        return a * (K @ self.cells.times(values, self.task_kernel)) + c * self.cells.times(
            values, tasks[0]
        )


@dataclass(frozen=True, eq=False)
class CellSystem:
    """Ridge regression on training cells, for several folds.

    Attributes
    ----------
    operator : CellOperator
    lam : float
    values : array of shape (n,)
        Labels of the cells; zero if missing.
    train : array of shape (f, n)
        One for training cells, zero for all others.
    weights : array of shape (n,) or None
        Positive weights of the cells.
    constant : {"grand", "task"} or None
        Type of the constant that is not regularised: one for all cells, or one per task.
    ends : dict
        Last solutions by their names, where the next ones start, and the preconditioner
        ``"inverse"``.
    """

    operator: CellOperator
    lam: float
    values: Array
    train: Array
    weights: Array | None
    constant: str | None
    ends: dict[str, Any] = field(default_factory=dict)

    def apply(self, X: Array) -> Array:
        """Return the product with the system, for coefficients that sum to zero if there is a constant.

        The product has values at all cells: by how much the coefficients lower the residuals there.
        """
        return self.centred(self.operator(X) + self._ridge(X))

    def _ridge(self, X: Array) -> Array:
        return self.over_weights(self.lam * X)

    def over_weights(self, X: Array) -> Array:
        """Return values divided by the weights of their cells."""
        return X if self.weights is None else X / self.weights

    def _means(self, X: Array) -> Array:
        """Return the sum of all values, or of each task, divided by the number of training cells: (f, 1) or (f, q)."""
        return self._sums(X) / self._counts

    def _sums(self, X: Array) -> Array:
        """Return the sum of all values (f, 1), or of each task (f, q)."""
        if self.constant != "grand":
            X = self.operator.cells.grid(X)
        return namespace(X).sum(X, axis=1, keepdims=X.ndim == 2)

    @cached_property
    def _counts(self) -> Array:
        """Number of training cells, of all tasks or of each; 1 for a task without any, which has a mean of zero."""
        counts = self._sums(self.train)
        return namespace(counts).where(counts > 0, counts, 1.0)

    def _means_at_cells(self, X: Array) -> Array:
        """Return the means of `_means` at all cells, of shape (f, 1) or (f, n)."""
        means = self._means(X)
        if self.constant == "grand":
            return means
        return namespace(X).take(means, self.operator.cells.places[1], axis=1)

    def centred(self, X: Array) -> Array:
        """Return values minus the mean of the training cells, of all tasks or of each, if there is a constant."""
        if self.constant is None:
            return X
        return X - self._means_at_cells(X * self.train)

    def _trained(self, X: Array) -> Array:
        """Return values at training cells, which sum to zero if there is a constant, and zeros elsewhere."""
        if self.weights is None:
            return self.centred(X) * self.train
        return self._with_sum_zero(X * self.train, self.weights * self.train)

    def _with_sum_zero(self, X: Array, part: Array) -> Array:
        """Return values minus a multiple of `part`, so that they sum to zero if there is a constant."""
        if self.constant is None:
            return X
        return X - self._proportional(X, part)

    def _proportional(self, X: Array, part: Array) -> Array:
        """Return the multiple of `part`, of all tasks or of each, that has the same sum as X."""
        sums = self._means_at_cells(part)
        return part * (self._means_at_cells(X) / namespace(X).where(sums > 0, sums, 1.0))

    def solve(
        self,
        name: str,
        right: Array,
        tol: float,
        max_iter: int = _MAX_ITER,
        rounding: float = 0.0,
        rest: Array | None = None,
    ) -> Solution:
        """Solve the system; the solution is the start of the next one with the same name.

        Only training cells count. The residuals of all cells are written to `rest`, if it is given.
        """
        start = self.ends.get(name)
        inverse = self.ends.get("inverse") or self._inverse
        train = self.train
        solution = conjugate_gradients(
            self.apply,
            right,
            precondition=self._preconditioner(inverse),
            start=None if start is None else self._trained(start),
            tol=tol,
            max_iter=max_iter,
            rounding=rounding,
            square=lambda X: _dots(X * train, X),
            dot=_dots,
            rest=rest,
        )
        self.ends[name], self.ends["inverse"] = solution.values, inverse
        return solution

    def _preconditioner(self, inverse: Callable[[Array], Array] | None) -> Callable[[Array], Array]:
        """Return the preconditioner, whose results sum to zero if there is a constant; None means a diagonal one."""
        train = self.train
        if self.weights is None:
            if inverse is None:
                return self._trained
            return lambda X: self._trained(inverse(X * train))
        if inverse is None:
            a, b, c = self.operator.shares
            size, *sizes = (_mean_diagonal(kernel) for kernel in self.operator.kernels)
            others = size
            if sizes:
                others = a * size * sizes[0] + b * size + c * sizes[0]
            diagonal = self.over_weights(self.lam + namespace(train).zeros_like(train)) + others

        def solve(X: Array) -> Array:
            if inverse is None:
                return X * train / diagonal
            return inverse(X * train)

        ones = solve(namespace(train).ones_like(train))
        return lambda X: self._with_sum_zero(solve(X), ones)

    @cached_property
    def _inverse(self) -> Callable[[Array], Array] | None:
        """Approximate inverse of the system; None without tasks, and for kernels that are not positive semi-definite.

        The function must not refer to the system, which would then be freed late.
        """
        if len(self.operator.kernels) < 2:
            return None
        try:
            return self._main_effects()
        except np.linalg.LinAlgError:
            return None

    def _main_effects(self) -> Callable[[Array], Array]:
        """Return the inverse of the system with main effects of both sides in place of the kernel.

        The largest eigenvalues are those of products with the first eigenvector of a side, u of K
        or v of G. On the cells of a row or a column they are W C Wᵀ, with the kernels (as + b)K +
        csI and (aσ + c)G + bσI of the effects in C, and v and u at the training cells in W. All
        other eigenvalues are replaced by their mean ρ. The inverse is (I − W(ρC⁻¹ + WᵀW)⁻¹Wᵀ)/ρ,
        and the effects of the rows are eliminated from ρC⁻¹ + WᵀW. With weights, the diagonal ρ
        varies between cells.
        """
        cells, train, xp = self.operator.cells, self.train, namespace(self.train)
        a, b, c = self.operator.shares
        K, G = self.operator.kernels
        (sigma, u), (s, v) = _leading(K), _leading(G)
        rows = plus_identity((a * s + b) * K, c * s)
        columns = plus_identity((a * sigma + c) * G, b * sigma)
        at_rows, at_columns = (as_array_of(places, train) for places in (cells.rows, cells.columns))
        u_there, v_there = (
            xp.take(u[..., 0], at_rows, axis=-1),
            xp.take(v[..., 0], at_columns, axis=-1),
        )
        k, g, r, t = (_mean_diagonal(kernel) for kernel in (K, G, rows, columns))
        diagonal = a * k * g + b * k + c * g
        others = diagonal - r / G.shape[-1] - t / K.shape[-1]
        others = xp.where(others > 1e-2 * diagonal, others, 1e-2 * diagonal)
        rest = xp.broadcast_to(self.lam + others, (train.shape[0], 1))
        levels = None
        if self.weights is not None:
            # In units of ρ, the diagonal at a cell is 1 / level.
            levels = rest / (self.lam / self.weights + others)
            train = train * levels
        crossed = train * u_there * v_there
        inverses = _inverses(rows, cells.times(train, v * v), rest)
        # The product of u and v is an effect of both sides, with by far the largest eigenvalue. It
        # is left to the rows, because the difference below would lose all digits.
        columns = plus_identity(_with_eigenvalue(columns, v, t[..., None]), 1e-5 * t[..., None])
        system = rest[..., None] * _each(positive_inverse, columns)
        halves = row_major_transpose(cells.transposed_times(crossed, inverses))
        system = system - cells.transposed_times(crossed, halves)
        on_diagonal = xp.linalg.diagonal(system) + cells.transposed_times(train, u * u)[..., 0]
        folds = range(train.shape[0])
        solvers = [
            positive_solver(with_diagonal(system[fold, ...], on_diagonal[fold, :]))
            for fold in folds
        ]

        def solve(X: Array) -> Array:
            if levels is not None:
                X = X * levels
            sums = cells.times(X, v)
            right = cells.transposed_times(X, u) - cells.transposed_times(crossed, inverses @ sums)
            of_columns = xp.stack([solvers[fold](right[fold, ...]) for fold in folds])
            of_rows = inverses @ (sums - cells.times(crossed, of_columns))
            part = xp.take(of_rows[..., 0], at_rows, axis=-1) * v_there
            part = part + xp.take(of_columns[..., 0], at_columns, axis=-1) * u_there
            return (X - part * train) / rest

        return solve

    def model(self, tol: float) -> tuple[Array, Array, Array]:
        """Return dual coefficients, predictions and residuals of the systems, all of shape (f, n)."""
        rest = namespace(self.train).zeros_like(self.train)
        X = self.solve("model", self.centred(self.values + rest), tol, rest=rest).values
        return X, self.values - rest - self._ridge(X), rest * self.train

    def complete(self, X: Array) -> Array:
        """Return the predictions (f, m, q) of dual coefficients for all cells."""
        grids = self.operator.on_grid(X)
        if self.constant is None:
            return grids
        rest = (self.values - self.operator.cells.take(grids)) * self.train - self._ridge(X)
        return grids + self._means(rest)[:, None, :]

    def adjoint(self, slope: Array, tol: float) -> Array:
        """Return the solution for the derivatives of an error with respect to all predictions."""
        if self.constant is None:
            return self.solve("adjoint", self.operator(slope), tol).values
        # The solution is a part with the sum of the slope, plus a part that sums to zero.
        mean_part = self._proportional(
            slope, self.train if self.weights is None else self.weights * self.train
        )
        # The ridge of the first part is a constant at training cells, which is centred away.
        right = self.operator(slope - mean_part)
        return mean_part + self.solve("adjoint", self.centred(right), tol).values


def _inverses(kernel: Array, levels: Array, rest: Array) -> Array:
    """Return (ρR⁻¹ + D)⁻¹ of each fold, for the kernel R of effects and the levels (f, n, 1) on the diagonal of D.

    They are computed as D^(-1/2) (I − ρ(ρI + D^(1/2) R D^(1/2))⁻¹) D^(-1/2). An effect with a level
    of zero has no cells, and its row and column are zero.
    """
    xp = namespace(levels)
    root = xp.sqrt(levels)
    inverse_root = xp.where(levels > 0, 1.0 / xp.where(levels > 0, root, 1.0), 0.0)
    scaled = plus_identity(kernel * root * _transposed(root), rest[..., None])
    inverses = plus_identity(-rest[..., None] * _each(positive_inverse, scaled), 1.0)
    inverses *= inverse_root
    inverses *= _transposed(inverse_root)
    return inverses


def _with_eigenvalue(kernel: Array, vector: Array, value: Array) -> Array:
    """Return a kernel, or a stack, with another eigenvalue of an eigenvector (n, 1) of unit length.

    The other eigenvalues are those of the kernel projected on vectors orthogonal to this one. So
    none becomes negative even if the vector is not exactly an eigenvector.
    """
    image = kernel @ vector
    part = image - 0.5 * (_transposed(vector) @ image + value) * vector
    return kernel - part * _transposed(vector) - vector * _transposed(part)


def _leading(kernels: Array) -> tuple[Array, Array]:
    """Return the largest eigenvalue (f, 1, 1) and eigenvector (f, n, 1) of kernels, roughly."""
    xp = namespace(kernels)

    def unit(vector: Array) -> Array:
        length = xp.sqrt(xp.sum(vector * vector, axis=-2, keepdims=True))
        return vector / xp.where(length > 0, length, 1.0)

    # The rows of a centred kernel sum to zero.
    vector = unit(xp.sum(kernels, axis=-1, keepdims=True) + xp.linalg.diagonal(kernels)[..., None])
    for _ in range(5):
        image = kernels @ vector
        value = xp.sum(vector * image, axis=-2, keepdims=True)
        vector = unit(image)
    return value, vector


def _mean_diagonal(kernels: Array) -> Array:
    """Return the mean of the diagonal (1,) of a kernel, or those (f, 1) of a stack."""
    xp = namespace(kernels)
    return xp.mean(xp.linalg.diagonal(kernels), axis=-1)[..., None]


def _dots(left: Array, right: Array) -> Array:
    return namespace(left).sum(left * right, axis=1, keepdims=True)

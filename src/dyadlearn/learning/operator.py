r"""The kernel between pairs as an operator on the observed cells of a grid, for several folds, with derivatives.

.. math:: P(\mathbf{X}) = a\,\mathbf{KXG} + b\,\mathbf{KX} + c\,\mathbf{XG}

The grid **X** is zero outside the observed cells, and only the values of the product at these cells are needed. If few
cells are observed, a product takes n(m + q) multiplications instead of mq(m + q).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from dyadlearn._array import Array, Scatter, as_array_of, is_foreign, namespace, row_blocks, row_major, zeros
from dyadlearn._threads import for_each
from dyadlearn.learning.mixture import Mixed, Parameters, Sides
from dyadlearn.solve.conjugate_gradients import inner
from dyadlearn.vectrick import dots_at, gather_cost

# Share of observed cells from which on all cells of a grid are used: gathering takes longer than multiplying zeros.
_DENSE = 0.3
# Multiplications of a product with the whole grid up to which it costs less than handling sparse grids.
_CHEAP = 1e9


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of a grid, among them all observed ones, with products of grids that are zero elsewhere.

    A stack of f grids is an array (f, n) of their values at the cells. Matrices are the same for all grids, or stacks
    of one per grid.

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
    def of(cls, observed: np.ndarray, like: Array) -> Cells:
        """Return the cells of a mask (m, q), or all cells if most of them are observed."""
        rows, columns = np.nonzero(observed if observed.mean() < _DENSE else np.ones_like(observed))
        return cls(rows, columns, (observed.shape[0], observed.shape[1]), like)

    @cached_property
    def is_complete(self) -> bool:
        """Whether these are all cells of the grid."""
        return len(self.rows) == self.shape[0] * self.shape[1]

    @cached_property
    def is_dense(self) -> bool:
        """Whether products with the whole grid cost less."""
        m, q = self.shape
        return m * q == self.n_multiplied or m * q * (m + q) <= _CHEAP

    @cached_property
    def n_multiplied(self) -> int:
        """Cost of a product with both kernels, in multiplications per row and column."""
        return min(self.shape[0] * self.shape[1], gather_cost(self.like) * len(self.rows))

    @cached_property
    def _scatter(self) -> Scatter:
        return Scatter(self.rows, self.columns, self.shape, self.like)

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        return as_array_of(self.rows, self.like), as_array_of(self.columns, self.like)

    @cached_property
    def _positions(self) -> tuple[Array, Array]:
        """Position of each cell in the raveled grid, and number of the cell at each position, n if there is none."""
        positions = self.rows * self.shape[1] + self.columns
        numbers = np.full(self.shape[0] * self.shape[1], len(positions))
        numbers[positions] = np.arange(len(positions))
        return as_array_of(positions, self.like), as_array_of(numbers, self.like)

    def grid(self, values: Array) -> Array:
        """Return the grids (f, m, q) with these values (f, n)."""
        xp, n_grids = namespace(values), values.shape[0]
        if not self.is_complete:
            padded = xp.concat([values, zeros((n_grids, 1), values)], axis=1)
            values = xp.take(padded, self._positions[1], axis=1)
        return xp.reshape(values, (n_grids, *self.shape))

    def take(self, grids: Array) -> Array:
        """Return the values (f, n) of grids (f, m, q) at the cells."""
        xp = namespace(grids)
        flat = xp.reshape(grids, (grids.shape[0], -1))
        return flat if self.is_complete else xp.take(flat, self._positions[0], axis=1)

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
            return dots_at(left, _row_major_transpose(right), *self._places)

        return _for_each(dots, right, left)


def _for_each(product: Callable[[Array, Array], Array], stacked: Array, matrix: Array) -> Array:
    """Return the products of each part of a stack with a matrix, or with the same part of a stack of matrices."""
    each = range(stacked.shape[0])
    return namespace(matrix).stack(
        [product(stacked[i, ...], matrix if matrix.ndim == 2 else matrix[i, ...]) for i in each]
    )


def _transposed(array: Array) -> Array:
    return namespace(array).matrix_transpose(array)


def _plus_identity(kernel: Array, factor: float) -> Array:
    return kernel + factor * namespace(kernel).eye(kernel.shape[-1], dtype=kernel.dtype, device=kernel.device)


def _row_major_transpose(array: Array) -> Array:
    """Return the transpose in row-major order; numpy copies strips of rows several times faster than all at once."""
    if is_foreign(array):
        return row_major(_transposed(array))
    transpose = np.empty_like(_transposed(array), order="C")

    def copy(rows: slice) -> None:
        transpose[..., rows] = _transposed(array[..., rows, :])

    for_each(copy, list(row_blocks(array.shape[-2], 1, 128)), array, n_operations=10.0 * array.size)
    return transpose


class Slopes(NamedTuple):
    """Derivatives of an error with respect to the kernel of each side, the shares and λ.

    Attributes
    ----------
    kernels : list of arrays of shape (m, m) and (q, q), or stacks of them
    shares : array of shape (3,)
    lam : float
    """

    kernels: list[Array]
    shares: np.ndarray
    lam: float


@dataclass(frozen=True, eq=False)
class PairOperator:
    """Kernel between pairs for given parameters.

    Parameters
    ----------
    parameters : Parameters
    sides : list of Mixed
        Kernel of each side, the same for all folds or one per fold.
    cells : Cells
    """

    parameters: Parameters
    sides: list[Mixed]
    cells: Cells

    @classmethod
    def at(cls, sides: Sides, parameters: Parameters, cells: Cells) -> PairOperator:
        """Return the operator of some parameters."""
        given = zip(sides, parameters.weights, parameters.exponents, strict=True)
        return cls(parameters, [side.mixed(*values) for side, *values in given], cells)

    def __call__(self, values: Array) -> Array:
        """Apply the kernel to values (f, n) at the cells."""
        K, *tasks = (side.kernel for side in self.sides)
        cells = self.cells
        if not tasks:
            return cells.take(_transposed(cells.transposed_times(values, K)))
        a, b, c = self.parameters.pair_shares
        XH = cells.times(values, self._task_kernel)
        return a * cells.product(K, XH) + c * (cells.take(XH) - (b / a) * values)

    @cached_property
    def _task_kernel(self) -> Array:
        """The kernel of the tasks plus b/a times the identity, so that a·KXH is both terms with K."""
        a, b, _ = self.parameters.pair_shares
        return _plus_identity(self.sides[1].kernel, b / a)

    def on_grid(self, values: Array) -> Array:
        """Apply the kernel to values (f, n) at the cells, and return the product at all cells, of shape (f, m, q)."""
        K, *tasks = (side.kernel for side in self.sides)
        if not tasks:
            return _transposed(self.cells.transposed_times(values, K))
        a, _, c = self.parameters.pair_shares
        return a * (K @ self.cells.times(values, self._task_kernel)) + c * self.cells.times(values, tasks[0])

    def slopes(self, left: Array, right: Array, lam: float) -> Slopes:
        """Return the derivatives of ⟨left, P right⟩ with respect to kernels and shares, and the given one of λ."""
        K, *tasks = (side.kernel for side in self.sides)
        cells = self.cells
        if not tasks:
            return Slopes([cells.times(left, _transposed(cells.grid(right)))], np.zeros(0), lam)
        a, b, c = self.parameters.pair_shares
        XH = cells.times(right, self._task_kernel)
        KX = _row_major_transpose(cells.transposed_times(right, _plus_identity(K, c / a)))
        per_task = inner(left, cells.take(KX) - (c / a) * right)
        per_instance = inner(left, cells.take(XH) - (b / a) * right)
        kernels = [cells.times(a * left, _row_major_transpose(XH)), cells.transposed_times(a * left, KX)]
        # ⟨left, a·KXG + b·KX⟩ is the inner product of K with its own derivative.
        of_K = kernels[0] if K.ndim == 3 else namespace(K).sum(kernels[0], axis=0)
        product = (inner(of_K, K) - b * per_task) / a
        return Slopes(kernels, np.array([product, per_task, per_instance]), lam)

    def gradient(self, slopes: Slopes) -> np.ndarray:
        """Return the derivatives with respect to all parameters, as a vector."""
        parts = [part for side, slope in zip(self.sides, slopes.kernels, strict=True) for part in side.gradient(slope)]
        if len(self.sides) > 1:
            shares = np.array(self.parameters.pair_shares)
            parts.append(shares * (slopes.shares - float(shares @ slopes.shares)))
        return np.concatenate([*parts, [self.parameters.lam * slopes.lam]])

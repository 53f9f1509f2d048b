r"""What a model does to grids of pairs: its hat, its residual and its pairwise kernel.

With :math:`\mathbf{F} = \mathbf{H}[\mathbf{Y}]` the fitted grid, each model has a hat :math:`\mathbf{H}` and a residual
operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, diagonal in the rotated labels with entries
:math:`1-\rho` and :math:`\rho`, and a pairwise kernel :math:`\mathbf{P}` with a ridge :math:`c` such that
:math:`\mathbf{H} = \mathbf{P}(\mathbf{P}+c\mathbf{I})^{-1}`:

=========  =====================================================  ===========================================  =========
model      :math:`\rho_{ij}`                                      kernel                                       ridge
=========  =====================================================  ===========================================  =========
two-step   :math:`\rho_i + f_i\rho'_j`                            :math:`(1-\rho)/\rho` in the rotated labels  1
Kronecker  :math:`\lambda/(\sigma_i s_j+\lambda)`                 :math:`\mathbf{G}\otimes\mathbf{K}`          λ
=========  =====================================================  ===========================================  =========

The separable one of residual and kernel costs two matrix products of the size of the grid, the other four.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, partial
from typing import Protocol

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_rows, to_numpy
from dyadlearn._rounding import is_graded
from dyadlearn.spectrum import Smoother, Spectrum, slack_floor
from dyadlearn.vectrick import sandwich

__all__ = [
    "KroneckerPairs",
    "PairOperators",
    "TwoStepPairs",
    "common_floor",
    "interpolation_floor",
    "vanishing_residual",
]


class PairOperators(Protocol):
    """The operators of a model on grids of shape (m, q).

    Attributes
    ----------
    ridge : float
    vanishing : bool
        Whether λ = 0 at full rank, where hats are identities and residuals are known up to scale.
    prefers_residual : bool
        Whether most of the spectrum is kept, so that the residual is the small part and carries the digits.
    floor : float
        What slacks must exceed; 0 if nothing is ever interpolated.
    kernel_cost, residual_cost : int
        Multiplications in one product.
    """

    spectrum: Spectrum
    ridge: float
    vanishing: bool
    floor: float
    kernel_cost: int
    residual_cost: int

    @property
    def prefers_residual(self) -> bool:
        """See above."""

    @property
    def task_spectrum(self) -> Spectrum:
        """Spectrum of the tasks."""

    @property
    def remainder(self) -> Array:
        """The residual in the rotated labels, shape (k, l)."""

    @property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""

    @property
    def kernel_values(self) -> Array:
        """The pairwise kernel in the rotated labels, shape (k, l)."""

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid."""

    def kernel(self, grid: Array) -> Array:
        """Return the pairwise kernel times a grid."""

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""


class SideProduct:
    r"""Multiplies many grids by :math:`\mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top`, in the cheaper of two forms."""

    def __init__(self, spectrum: Spectrum, weights: Array) -> None:
        n, k = spectrum.vectors.shape
        self.vectors, self.weights = spectrum.vectors, weights
        self.matrix = None if 2 * k < n else spectrum.matrix(weights)
        self.row_cost = 2 * n * k if self.matrix is None else n * n

    def left(self, grid: Array) -> Array:
        """Return the product with a grid of shape (n, p)."""
        if self.matrix is not None:
            return self.matrix @ grid
        return self.vectors @ (self.weights[:, None] * (self.vectors.T @ grid))

    def right(self, grid: Array) -> Array:
        """Return a grid of shape (p, n) times the product."""
        if self.matrix is not None:
            return grid @ self.matrix
        return ((grid @ self.vectors) * self.weights) @ self.vectors.T


def _rotated_product(spectrum: Spectrum, task_spectrum: Spectrum, weights: Array, grid: Array) -> Array:
    """Return U (w ∘ Uᵀ grid V) Vᵀ."""
    rotated = task_spectrum.rotate(spectrum.rotate(grid).T).T
    return sandwich(spectrum.vectors, weights * rotated, task_spectrum.vectors)


def _rotation_cost(spectrum: Spectrum, task_spectrum: Spectrum) -> int:
    (m, k), (q, r) = spectrum.vectors.shape, task_spectrum.vectors.shape
    return int(2 * (k * m * q + k * q * r))


class TwoStepPairs:
    """H = H_g ⊗ H_k, and R = R_k ⊗ I + H_k ⊗ R_g."""

    def __init__(self, rows: Smoother, columns: Smoother) -> None:
        # At λ = 0 on both sides the hats are identities and only residuals, up to scale, are left.
        self.vanishing = rows.contrast is not None and columns.contrast is not None
        self.ridge = 0.0 if self.vanishing else 1.0
        if self.vanishing:
            rows, columns = rows.scaled(), columns.scaled()
        self.rows, self.columns = rows, columns
        self.spectrum = rows.spectrum
        self.prefers_residual = rows.prefers_residual and columns.prefers_residual
        self.floor = common_floor(rows, columns)
        (m, k), (q, r) = rows.spectrum.vectors.shape, columns.spectrum.vectors.shape
        self.residual_cost = (min(m, 2 * k) + min(q, 2 * r)) * m * q
        self.kernel_cost = _rotation_cost(rows.spectrum, columns.spectrum)

    @property
    def task_spectrum(self) -> Spectrum:
        """Spectrum of the tasks."""
        return self.columns.spectrum

    @cached_property
    def remainder(self) -> Array:
        r"""The residual in the rotated labels, :math:`\rho_i + f_i\rho'_j`, shape (k, l)."""
        kept = 1.0 if self.vanishing else self.rows.shrinkage[:, None]
        return self.rows.remainder[:, None] + kept * self.columns.remainder[None, :]

    @cached_property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""
        return _is_graded(self)

    @cached_property
    def kernel_values(self) -> Array:
        r"""The pairwise kernel in the rotated labels, :math:`ff'/\rho`, shape (k, l)."""
        return self.rows.shrinkage[:, None] * self.columns.shrinkage[None, :] / self.remainder

    @cached_property
    def _row_product(self) -> SideProduct:
        return _smaller_part(self.rows)

    @cached_property
    def _column_product(self) -> SideProduct:
        return _smaller_part(self.columns)

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        if self.vanishing:
            return grid
        return self.rows.smooth(self.columns.smooth(grid.T).T)

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid, without the digits that this difference would lose."""
        product = self._column_product.right(grid)
        difference = grid - product
        rest, kept = (product, difference) if self.columns.prefers_residual else (difference, product)
        kept = grid if self.vanishing else kept
        image = self._row_product.left(kept)
        if not self.rows.prefers_residual:
            image *= -1.0
            image += kept
        image += rest
        return image

    def kernel(self, grid: Array) -> Array:
        """Return the pairwise kernel times a grid."""
        return _rotated_product(self.rows.spectrum, self.columns.spectrum, self.kernel_values, grid)

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        residual = _between(self.rows.residual_block, rows)
        same_task = as_array_of(columns[:, None] == columns[None, :], residual, residual.dtype)
        if self.vanishing:
            kept = as_array_of(rows[:, None] == rows[None, :], residual, residual.dtype)
        else:
            kept = _between(self.rows.hat_block, rows)
        return residual * same_task + kept * _between(self.columns.residual_block, columns)

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        return _rotated_block(self.rows.spectrum, self.columns.spectrum, self.kernel_values, rows, columns)


def _smaller_part(side: Smoother) -> SideProduct:
    return SideProduct(side.spectrum, side.remainder if side.prefers_residual else side.shrinkage)


def _between(block: Callable[[np.ndarray], Array], index: np.ndarray) -> Array:
    """Return an operator of one side between rows that repeat; it is formed between distinct ones."""
    distinct, place = np.unique(index, return_inverse=True)
    return take_rows(take_rows(block(distinct), place).T, place).T


class KroneckerPairs:
    """H and R are diagonal in the rotated labels; the kernel is that of both sides."""

    def __init__(self, spectrum: Spectrum, task_spectrum: Spectrum, alpha: float) -> None:
        self.spectrum, self._tasks, self.ridge = spectrum, task_spectrum, alpha
        self.truncated = spectrum.is_truncated or task_spectrum.is_truncated
        self.vanishing = alpha == 0 and not (spectrum.is_singular or task_spectrum.is_singular)
        self.floor = interpolation_floor(alpha, spectrum, task_spectrum)
        self.residual_cost = _rotation_cost(spectrum, task_spectrum)
        (m, k), (q, r) = spectrum.vectors.shape, task_spectrum.vectors.shape
        self.kernel_cost = int((min(m, 2 * k) + min(q, 2 * r)) * m * q)

    @property
    def task_spectrum(self) -> Spectrum:
        """Spectrum of the tasks."""
        return self._tasks

    @cached_property
    def kernel_values(self) -> Array:
        r"""Eigenvalues :math:`\sigma_i s_j`, shape (k, l)."""
        return self.spectrum.values[:, None] * self.task_spectrum.values[None, :]

    @cached_property
    def shrinkage(self) -> Array:
        """The hat in the rotated labels, shape (k, l)."""
        products = self.kernel_values
        if self.ridge > 0:
            return products / (products + self.ridge)
        return namespace(products).astype(products > 0, products.dtype)

    @cached_property
    def remainder(self) -> Array:
        """The residual in the rotated labels, shape (k, l); at λ = 0 and full rank up to its scale."""
        products = self.kernel_values
        if self.ridge > 0:
            return self.ridge / (products + self.ridge)
        # What a truncated spectrum leaves out is null space too: then nothing remains of what is kept.
        return vanishing_residual(products) if self.vanishing else 1.0 - self.shrinkage

    @cached_property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""
        return _is_graded(self)

    @cached_property
    def prefers_residual(self) -> bool:
        """Whether most of the spectrum is kept."""
        xp = namespace(self.shrinkage)
        kept = int(xp.sum(xp.astype(self.shrinkage > 0.5, xp.int64)))
        return not self.truncated and 2 * kept > self.spectrum.n_rows * self.task_spectrum.n_rows

    @cached_property
    def _grams(self) -> tuple[SideProduct, SideProduct]:
        return SideProduct(self.spectrum, self.spectrum.values), SideProduct(
            self.task_spectrum, self.task_spectrum.values
        )

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        return _rotated_product(self.spectrum, self.task_spectrum, self.shrinkage, grid)

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid."""
        if self.truncated:
            return grid - self.hat(grid)
        return _rotated_product(self.spectrum, self.task_spectrum, self.remainder, grid)

    def kernel(self, grid: Array) -> Array:
        """Return K grid G."""
        rows, columns = self._grams
        return columns.right(rows.left(grid))

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        weights = -self.shrinkage if self.truncated else self.remainder
        block = _rotated_block(self.spectrum, self.task_spectrum, weights, rows, columns)
        xp = namespace(block)
        return block + xp.eye(block.shape[0], dtype=block.dtype, device=block.device) if self.truncated else block

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        sides = ((self.spectrum, rows), (self.task_spectrum, columns))
        left, right = (_between(partial(side.block, side.values), index) for side, index in sides)
        return left * right


def _rotated_block(
    spectrum: Spectrum, task_spectrum: Spectrum, weights: Array, rows: np.ndarray, columns: np.ndarray
) -> Array:
    """Return the rows and columns of U ⊗ V diag(w) Uᵀ ⊗ Vᵀ that belong to some cells, shape (n, n)."""
    right = take_rows(task_spectrum.vectors, columns)
    pieces, members = [], []
    for row in np.unique(rows):
        here = np.flatnonzero(rows == row)
        # Row of the operator for instance `row`, tasks still rotated: (m, l).
        turned = (spectrum.vectors * spectrum.vectors[int(row), :]) @ weights
        pieces.append(take_rows(right, here) @ (take_rows(turned, rows) * right).T)
        members.append(here)
    return take_rows(namespace(weights).concat(pieces, axis=0), np.argsort(np.concatenate(members)))


def _is_graded(operators: PairOperators) -> bool:
    sides = (operators.spectrum, operators.task_spectrum)
    remainders = namespace(operators.remainder).reshape(operators.remainder, (-1, 1))
    return is_graded(remainders, sum(side.n_rows for side in sides), any(side.is_truncated for side in sides))


def common_floor(*sides: Smoother) -> float:
    """Return what slacks of pairs must exceed: they vanish only if those of every side do."""
    floors = [side.slack_floor for side in sides]
    return max(floors) if all(floors) else 0.0


def interpolation_floor(alpha: float, *spectra: Spectrum) -> float:
    """Return what slacks must exceed: 0 unless directions are kept whole, at λ = 0 with a null space."""
    if alpha > 0:
        return 0.0
    # Only a side that has a null space can mix it with what is kept.
    floors = [slack_floor(spectrum, _condition(spectrum)) for spectrum in spectra if spectrum.is_singular]
    return max(floors, default=0.0)


def _condition(spectrum: Spectrum) -> float:
    positive = to_numpy(spectrum.values)
    positive = positive[positive > 0]
    return float(positive.max() / positive.min()) if positive.size else 1.0


def vanishing_residual(products: Array) -> Array:
    """Return the residual filter at λ = 0, up to scale: 1/(σs) at full rank, else the null space."""
    xp = namespace(products)
    if bool(xp.all(products > 0)):
        return 1.0 / products
    return xp.astype(products == 0, products.dtype)

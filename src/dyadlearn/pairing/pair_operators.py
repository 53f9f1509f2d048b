"""The operators of pair kernels on grids, with a free mean; `dyadlearn.pairing.pair_kernel` has what comes of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, NamedTuple, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, epsilon, largest, namespace, to_numpy
from dyadlearn.pairing.base import Coupled, side_scales
from dyadlearn.pairing.constant import ones_of
from dyadlearn.solve.operators import SideProduct, between, interpolation_floor
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich


class _Constant(NamedTuple):
    """A grid of ones under the inverse of the pairwise kernel with its ridge, C⁻¹.

    Attributes
    ----------
    grid : array of shape (m, q)
        E, what it comes to.
    total : float
        Its sum.
    hat, residual : float
        What EEᵀ is multiplied by, over the total, where it is added to the hat and taken from the residual operator.
    """

    grid: Array
    total: float
    hat: float
    residual: float


@dataclass(frozen=True, eq=False)
class PairOperators(Coupled):
    r"""Two spectra, the shares of three kernels, and one regularisation of the pairs.

    Attributes
    ----------
    spectrum, task_spectrum : Spectrum
        Complete where c or b is above zero: what one leaves out is then no null space of the pairs.
    alpha : float
    shares : (float, float, float)
        a, b and c: of the product of both kernels, of a function of the instances for each task, and of one of the
        tasks for each instance.
    free_mean : bool
    """

    constant: ClassVar[str] = "feature"

    spectrum: Spectrum
    task_spectrum: Spectrum
    alpha: float
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0)
    free_mean: bool = False

    def __post_init__(self) -> None:
        _, per_task, per_instance = self.shares
        if not all(math.isfinite(share) and share >= 0 for share in self.shares) or not any(self.shares):
            raise ValueError(
                f"The shares of a pair kernel are numbers of at least 0, one of them above, found {self.shares}."
            )
        for share, spectrum, side in (
            (per_task, self.task_spectrum, "tasks"),
            (per_instance, self.spectrum, "instances"),
        ):
            if share and spectrum.is_truncated:
                raise ValueError(
                    f"A function of its own for each of the {side} needs all directions of the {side}, found "
                    f"{spectrum.values.shape[0]} of {spectrum.n_rows}: decompose their kernel in the dual."
                )
        for name, ridge in zip(("spectrum", "task_spectrum"), self._ridges, strict=True):
            object.__setattr__(self, name, getattr(self, name).resolved(ridge))

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Spectra of instances and tasks."""
        return self.spectrum, self.task_spectrum

    @property
    def alphas(self) -> dict[str, float]:
        """The one regularisation."""
        return {"alpha": self.alpha}

    def with_shares(self, shares: tuple[float, float, float]) -> Self:
        """Return the same sides under another kernel."""
        return replace(self, shares=shares)

    @property
    def transposed(self) -> Self:
        """The same with tasks for instances."""
        product, per_task, per_instance = self.shares
        shares = (product, per_instance, per_task)
        return replace(self, spectrum=self.task_spectrum, task_spectrum=self.spectrum, shares=shares)

    @property
    def scales(self) -> tuple[float, float]:
        """What eigenvalues of each side are multiplied by at most in those of the pair kernel."""
        (product, per_task, per_instance), (row, column) = self.shares, map(_top, (self.spectrum, self.task_spectrum))
        return product * column + per_task, product * row + per_instance

    @property
    def _ridges(self) -> tuple[float, float]:
        """The regularisation as it stands beside eigenvalues of each side."""
        row, column = (self.alpha / scale if scale > 0 else math.inf for scale in self.scales)
        return row, column

    @property
    def floors(self) -> tuple[float, float]:
        """Eigenvalues of each side up to this size count as zero."""
        row, column = (side.floor(ridge) for side, ridge in zip(self.spectra, self._ridges, strict=True))
        return row, column

    @property
    def is_zero(self) -> bool:
        """Whether a side is all zeros and has no direction to learn in, so that everything is predicted to be zero."""
        return not self.free_mean and any(spectrum.values.shape[0] == 0 for spectrum in self.grid_spectra)

    # --- operators ----------------------------------------------------------------------------------

    @property
    def is_product(self) -> bool:
        """Whether the pairwise kernel is the product of both sides' kernels."""
        return self.shares == (1.0, 0.0, 0.0)

    @property
    def ridge(self) -> float:
        """The regularisation."""
        return self.alpha

    @cached_property
    def vanishing(self) -> bool:
        """Whether λ = 0 at full rank."""
        if self.alpha > 0 or self.is_truncated:
            return False
        rows, columns = (float(namespace(side.values).min(side.values)) for side in self.grid_spectra)
        return self._value(rows, columns) > 0

    def _value(self, row: float, column: float) -> float:
        """Return the eigenvalue of the pair kernel that belongs to one of each side."""
        product, per_task, per_instance = self.shares
        return product * row * column + per_task * row + per_instance * column

    @cached_property
    def floor(self) -> float:
        """What slacks must exceed."""
        return 0.0 if self.vanishing else interpolation_floor(self.alpha, *self.grid_spectra)

    @property
    def kernel_cost(self) -> int:
        """One product on each side."""
        return SideProduct.cost(*self.grid_spectra)

    @cached_property
    def kernel_values(self) -> Array:
        r"""Eigenvalues :math:`S_{ij}`, shape (k, l)."""
        product, per_task, per_instance = self.shares
        rows, columns = self.spectrum.values[:, None], self.task_spectrum.values[None, :]
        if product == 0:
            return per_task * rows + per_instance * columns
        values = rows * columns
        if product != 1:
            values *= product
        for share, side in ((per_task, rows), (per_instance, columns)):
            if share:
                values += share * side
        return values

    @cached_property
    def shrinkage(self) -> Array:
        """The hat in the rotated labels, shape (k, l), but for a free mean."""
        values = self.kernel_values
        if self.alpha > 0:
            return values / (values + self.alpha)
        return namespace(values).astype(values > 0, values.dtype)

    @cached_property
    def remainder(self) -> Array:
        """The residual in the rotated labels, shape (k, l), but for a free mean; up to its scale where it vanishes."""
        values = self.kernel_values
        if self.alpha > 0:
            return self.alpha / (values + self.alpha)
        # What a truncated spectrum leaves out is null space too: then nothing remains of what is kept.
        return 1.0 / values if self.vanishing else 1.0 - self.shrinkage

    @cached_property
    def prefers_residual(self) -> bool:
        """Whether most of the spectrum is kept."""
        m, q = (spectrum.n_rows for spectrum in self.grid_spectra)
        return not self.is_truncated and 2 * self._count_above() > m * q

    def _count_above(self) -> int:
        """Return how many eigenvalues exceed λ, without forming them."""
        product, per_task, per_instance = self.shares
        values, s = to_numpy(self.spectrum.values), np.sort(to_numpy(self.task_spectrum.values))
        slope, level = product * values + per_instance, self.alpha - per_task * values
        rising = slope > 0
        flat = s.size * np.count_nonzero(level[~rising] < 0)
        return int(flat + np.sum(s.size - np.searchsorted(s, level[rising] / slope[rising], side="right")))

    @cached_property
    def _grams(self) -> tuple[SideProduct, SideProduct]:
        rows, columns = (SideProduct(side, side.values) for side in self.grid_spectra)
        return rows, columns

    def kernel(self, grid: Array) -> Array:
        """Return a K grid G + b K grid + c grid G."""
        (product, per_task, per_instance), (rows, columns) = self.shares, self._grams
        left = rows.left(grid)
        middle = left if product == 1 else product * left
        image = columns.right(middle + per_instance * grid if per_instance else middle)
        if per_task:
            image += per_task * left
        return image

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        product, per_task, per_instance = self.shares
        left, right = (
            between(partial(side.block, side.values), index)
            for side, index in zip(self.grid_spectra, (rows, columns), strict=True)
        )
        block = left * right
        if product != 1:
            block *= product
        for share, own, index in ((per_task, left, columns), (per_instance, right, rows)):
            if share:
                block += share * own * as_array_of(index[:, None] == index[None, :], block, block.dtype)
        return block

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        fitted = super().hat(grid)
        if self.free_mean and self._constant.hat:
            fitted += self._constant.grid * (self._constant.hat * self._mean_of(grid))
        return fitted

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid."""
        residual = super().residual(grid)
        if self.free_mean and self._constant.residual and not self.is_truncated:
            residual -= self._constant.grid * (self._constant.residual * self._mean_of(grid))
        return residual

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        block = super().residual_block(rows, columns)
        if self.free_mean and self._constant.residual:
            grid = self._constant.grid
            at = as_array_of(rows * grid.shape[1] + columns, grid)
            own = namespace(grid).take(namespace(grid).reshape(grid, (-1,)), at, axis=0)
            block -= own[:, None] * (own[None, :] * (self._constant.residual / self._constant.total))
        return block

    @property
    def phi(self) -> Array:
        """1/(S+λ) of shape (k, l); at λ = 0 the pseudo-inverse."""
        values = self.kernel_values
        if self.alpha > 0:
            return 1.0 / (values + self.alpha)
        xp = namespace(values)
        inverse = 1.0 / xp.where(values > 0, values, xp.ones_like(values))
        return xp.where(values > 0, inverse, xp.zeros_like(values))

    # --- the mean -------------------------------------------------------------------------------------

    @cached_property
    def ones(self) -> tuple[Array, Array]:
        """Ones in the directions of both sides."""
        rows, columns = (ones_of(spectrum) for spectrum in self.grid_spectra)
        return rows, columns

    @cached_property
    def _mean_is_null(self) -> bool:
        """Whether λ = 0 and the kernel has nothing constant, so that the mean is all that it cannot reach."""
        if self.alpha > 0 or self.vanishing:
            return False
        squares = self._squared_ones()
        outside = float(namespace(squares).sum(squares * (1.0 - self.shrinkage)))
        m, q = (spectrum.n_rows for spectrum in self.grid_spectra)
        return outside > max(self.floor, epsilon(squares)) * m * q

    def _squared_ones(self) -> Array:
        rows, columns = self.ones
        return (rows**2)[:, None] * (columns**2)[None, :]

    @cached_property
    def _constant(self) -> _Constant:
        rows, columns = self.ones
        grid = rows[:, None] * columns[None, :]
        grid *= self._mean_weights
        grid = sandwich(self.spectrum.vectors, grid, self.task_spectrum.vectors)
        residual = self.alpha or float(self.vanishing or self._mean_is_null)
        return _Constant(grid, self._mean_total, 0.0 if self.vanishing else residual, residual)

    @property
    def _mean_weights(self) -> Array:
        """The inverse of C in the rotated labels, (k, l); up to its scale where λ = 0."""
        return 1.0 - self.shrinkage if self._mean_is_null else self.phi

    @cached_property
    def _mean_total(self) -> float:
        weights = self._mean_weights
        return float(namespace(weights).sum(weights * self._squared_ones()))

    def _mean_of(self, grid: Array, rotated: Array | None = None) -> float:
        """Return the free mean of labels (m, q); `rotated` may be known already."""
        if rotated is None:
            return float(namespace(grid).sum(grid * self._constant.grid)) / self._constant.total
        rows, columns = self.ones
        return float(rows @ ((self._mean_weights * rotated) @ columns)) / self._mean_total


@side_scales.register(PairOperators)
def _side_scales(model: PairOperators) -> tuple[float, float]:
    return model.scales


def _top(spectrum: Spectrum) -> float:
    return largest(spectrum.values)

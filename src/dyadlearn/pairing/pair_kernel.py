r"""Ridge regression on pairs with kernels that the eigenvectors of both sides diagonalise.

The kernel between the pairs (d, t) and (d', t') has three shares,

.. math:: a\,k(d,d')\,g(t,t') + b\,k(d,d')\,[t=t'] + c\,[d=d']\,g(t,t'), \qquad
          \mathbf{S} = a\,\boldsymbol\sigma\mathbf{s}^\top + b\,\boldsymbol\sigma\mathbf{1}^\top
          + c\,\mathbf{1}\mathbf{s}^\top ,

with the eigenvalues :math:`\mathbf{S}`. The terms are a function that all pairs share (a; without
the others it is Kronecker ridge regression), a function of the instances for each task (b) and a
function of the tasks for each instance (c). The term b does not contribute to predictions for a new
task, c not to those for a new instance. Only a contributes to a pair that is new on both sides.
:math:`(\mathbf{K}+\delta\mathbf{I})\otimes(\mathbf{G}+\varepsilon \mathbf{I})` is the member
:math:`a = 1, b = \varepsilon, c = \delta` with the ridge :math:`\lambda+\delta\varepsilon`.

With :math:`\rho_{ij} = \lambda/(S_{ij} + \lambda)`, the residual operator is diagonal in the
rotated labels, which gives A. For B the tasks are rotated, :math:`\tilde{\mathbf{Y}} =
\mathbf{YV}`: column j is then an independent ridge problem with kernel :math:`(as_j+b)\mathbf{K}`
and ridge :math:`cs_j+\lambda`, whose leave-one-out is a division,

.. math:: F_B = \left[\tilde{\mathbf{Y}} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\tilde{\mathbf{Y}})}
                {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right]\mathbf{V}^\top.

C is its mirror image, and D is in `dyadlearn.pairing.new_both`. Columns with little shrinkage are
computed from
:math:`\rho`, columns with strong shrinkage from :math:`f = S/(S + \lambda)`, so that results are accurate for small and
for large regularisation. `dyadlearn.pairing.constant` has the formulas of an unpenalised grand
mean. Kernels without a constant have no main effects; with the mean, use
:math:`\mathbf{K}+\mathbf{11}^\top` and
:math:`\mathbf{G}+\mathbf{11}^\top`.

Unlabelled rows and columns do not influence the model, and a grid that only lacks whole rows and
columns has the formulas of a complete one. Hold-out applies to the cells of unlabelled columns too:
in an unlabelled column t, an instance is predicted by the model without it. The leave-one-out
predictions of the rotated columns are multiplied by the kernel row of t instead of being rotated
back to the labelled tasks,

.. math:: F_B[:, t] = \left[\tilde{\mathbf{Y}} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top
          \tilde{\mathbf{Y}})}{(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right]\mathrm{diag}
          \frac{a}{a\mathbf{s}+b}\,\mathbf{V}^\top\mathbf{g}_t .
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    epsilon,
    largest,
    namespace,
    row_blocks,
    take_block,
    take_rows,
    zeros,
)
from dyadlearn._rounding import ratio
from dyadlearn.labels import Places
from dyadlearn.pairing import dense, incomplete
from dyadlearn.pairing.base import (
    Coupled,
    Pairing,
    absorbs_weights,
    knows_new_pairs,
    mean_eigenvalues,
    side_ridges,
    side_scales,
)
from dyadlearn.pairing.constant import GrandMean, ones_of
from dyadlearn.pairing.expansion import Asked, Expansion, NewRows, PairExpansion, Part, rotated_row
from dyadlearn.solve.operators import SideProduct, interpolation_floor
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich


class Terms(NamedTuple):
    """Terms of a pair kernel: the factors a, b and c of the product of both kernels and of the separate functions."""

    product: float = 1.0
    per_task: float = 0.0
    per_instance: float = 0.0

    def eigenvalues(self, row: Any, column: Any) -> Any:
        """Return the eigenvalues of the pair kernel for eigenvalues of both sides, which are broadcast."""
        return self.product * (row * column) + self.per_task * row + self.per_instance * column

    def kernels(
        self, left: Array, right: Array, first: Places, second: Places
    ) -> list[Array | None]:
        """Return the kernels of the three shares between cells, without the shares; None for a share of zero.

        Parameters
        ----------
        left, right : arrays of shape (s, n)
            Kernels of the instances and of the tasks of the cells.
        first, second : Places
            The s cells and the n others.
        """
        kernels: list[Array | None] = [None, None, None]
        if self.product:
            kernels[0] = left * right
        if self.per_task:
            kernels[1] = left * as_array_of(first[1][:, None] == second[1], left, left.dtype)
        if self.per_instance:
            kernels[2] = right * as_array_of(first[0][:, None] == second[0], right, right.dtype)
        return kernels

    def total(self, kernels: list[Array | None]) -> Array:
        """Return the sum of the kernels of the three shares, each times its share."""
        parts = [
            share * kernel
            for share, kernel in zip(self, kernels, strict=True)
            if kernel is not None
        ]
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total


@dataclass(frozen=True, eq=False)
class PairKernel(Coupled):
    r"""Ridge regression with a pair kernel: two spectra, the shares of three kernels, and one regularisation.

    Attributes
    ----------
    spectrum, task_spectrum : Spectrum
        Spectra of instances and tasks; they must not be truncated where c or b is positive.
    alpha : float
    shares : (float, float, float)
        Factors a, b and c of the product of both kernels, of the function of the instances for each
        task, and of the function of the tasks for each instance.
    free_mean : bool
    """

    words: ClassVar[str] = "pair kernel ridge regression"
    constant: ClassVar[str] = "feature"

    spectrum: Spectrum
    task_spectrum: Spectrum
    alpha: float
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0)
    free_mean: bool = False

    def __post_init__(self) -> None:
        self._check_shares()
        for name, ridge in zip(("spectrum", "task_spectrum"), self._ridges, strict=True):
            object.__setattr__(self, name, getattr(self, name).resolved(ridge))

    def _check_shares(self) -> None:
        """Raise if a share is negative, all are zero, or a share needs directions that a spectrum leaves out."""
        are_valid = all(math.isfinite(share) and share >= 0 for share in self.shares)
        if not are_valid or not any(self.shares):
            raise ValueError(
                f"The shares of a pair kernel must be at least 0, and one of them positive, found "
                f"{self.shares}."
            )
        sides = (
            (self.terms.per_task, self.task_spectrum, "tasks"),
            (self.terms.per_instance, self.spectrum, "instances"),
        )
        for share, spectrum, side in sides:
            if share and spectrum.is_truncated:
                raise ValueError(
                    f"A separate function for each of the {side} needs all directions of the "
                    f"{side}, found "
                    f"{spectrum.values.shape[0]} of {spectrum.n_rows}: decompose their kernel in "
                    f"the dual."
                )

    # --- sides and regularisation ---------------------------------------------------------------------

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Spectra of instances and tasks."""
        return self.spectrum, self.task_spectrum

    @property
    def alphas(self) -> dict[str, float]:
        """The one regularisation."""
        return {"alpha": self.alpha}

    @property
    def transposed(self) -> Self:
        """Model of the transposed labels, in which tasks are the instances."""
        product, per_task, per_instance = self.shares
        shares = (product, per_instance, per_task)
        return replace(
            self, spectrum=self.task_spectrum, task_spectrum=self.spectrum, shares=shares
        )

    @property
    def _ridges(self) -> tuple[float, ...]:
        """Regularisation relative to the eigenvalues of each side."""
        return tuple(self.alpha / scale if scale > 0 else math.inf for scale in side_scales(self))

    @property
    def floors(self) -> tuple[float, ...]:
        """Eigenvalues of each side up to this size count as zero."""
        return tuple(
            side.floor(ridge) for side, ridge in zip(self.spectra, self._ridges, strict=True)
        )

    @property
    def terms(self) -> Terms:
        """The three terms of the kernel."""
        return Terms(*self.shares)

    # --- operators ----------------------------------------------------------------------------------

    @property
    def is_product(self) -> bool:
        """Whether the pairwise kernel is the product of both sides' kernels."""
        return self.shares == (1.0, 0.0, 0.0)

    @cached_property
    def hat_is_identity(self) -> bool:
        """Whether λ = 0 at full rank."""
        if self.alpha > 0 or self.is_truncated:
            return False
        rows, columns = (
            float(namespace(side.values).min(side.values)) for side in self.grid_spectra
        )
        return bool(self.terms.eigenvalues(rows, columns) > 0)

    @cached_property
    def floor(self) -> float:
        """Lower bound of slacks; 0 if all directions are penalised."""
        if self.hat_is_identity:
            return 0.0
        return interpolation_floor(self.alpha, *self.grid_spectra)

    @property
    def kernel_cost(self) -> float:
        """Multiplications in one product on each side."""
        return SideProduct.cost(*self.grid_spectra)

    @cached_property
    def kernel_values(self) -> Array:
        r"""Eigenvalues :math:`S_{ij}`, shape (k, l)."""
        return self.terms.eigenvalues(
            self.spectrum.values[:, None], self.task_spectrum.values[None, :]
        )

    @cached_property
    def shrinkage(self) -> Array:
        """The hat in the rotated labels, shape (k, l), without a free mean."""
        values = self.kernel_values
        if self.alpha > 0:
            return values / (values + self.alpha)
        return namespace(values).astype(values > 0, values.dtype)

    @cached_property
    def remainder(self) -> Array:
        """The residual in the rotated labels, shape (k, l), without a free mean; scaled if `hat_is_identity`."""
        values = self.kernel_values
        if self.alpha > 0:
            return self.alpha / (values + self.alpha)
        # With a null space, as a truncated spectrum has, the residual of all other directions is
        # zero.
        if self.hat_is_identity:
            return 1.0 / values
        return 1.0 - self.shrinkage

    @cached_property
    def prefers_residual(self) -> bool:
        """Whether most eigenvalues exceed λ, so that the residual operator is smaller than the hat matrix."""
        xp = namespace(self.kernel_values)
        n_above = int(xp.sum(xp.astype(self.kernel_values > self.alpha, xp.int64)))
        return not self.is_truncated and 2 * n_above > self.n_cells

    @cached_property
    def _grams(self) -> tuple[SideProduct, ...]:
        return tuple(SideProduct(side, side.values) for side in self.grid_spectra)

    def kernel(self, grid: Array) -> Array:
        """Return a K grid G + b K grid + c grid G."""
        product, per_task, per_instance = self.shares
        rows, columns = self._grams
        left = rows.left(grid)
        middle = left if product == 1 else product * left
        image = columns.right(middle + per_instance * grid if per_instance else middle)
        if per_task:
            image += per_task * left
        return image

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n), filled in blocks of rows."""
        n = int(rows.size)
        block = zeros((n, n), self.spectrum.values)
        for here, terms in self.term_blocks(rows, columns):
            block[here, :] = self.terms.total(terms)
        return block

    def term_blocks(
        self, rows: np.ndarray, columns: np.ndarray
    ) -> Iterator[tuple[slice, list[Array | None]]]:
        """Yield the three kernels between some cells without their shares, in blocks of rows.

        Yields
        ------
        here : slice
            The s cells of the block.
        terms : list of three arrays of shape (s, n) or None
            Kernels of the shares a, b and c between these cells and all; None for a share of zero.
        """
        left, at = _among(self.spectrum, rows)
        right, task_at = _among(self.task_spectrum, columns)
        n = int(rows.size)
        for here in row_blocks(n, (6, n)):
            grams = (take_block(left, at[here], at), take_block(right, task_at[here], task_at))
            yield here, self.terms.kernels(*grams, (rows[here], columns[here]), (rows, columns))

    def part(self, kept: np.ndarray, axis: int) -> PairKernel:
        """Return the model of some rows (axis 0) or columns (1)."""
        if axis:
            return replace(self, task_spectrum=self.task_spectrum.part(kept))
        return replace(self, spectrum=self.spectrum.part(kept))

    def kernel_between(self, first: Places, second: Places) -> Array:
        """Return the pairwise kernel between some cells and others, shape (s, n)."""
        grams = []
        for spectrum, rows, others in zip(self.grid_spectra, first, second, strict=True):
            distinct, at = np.unique(rows, return_inverse=True)
            other_distinct, other_at = np.unique(others, return_inverse=True)
            block = spectrum.block(spectrum.values, distinct, other_distinct)
            grams.append(take_block(block, at, other_at))
        left, right = grams
        return self.terms.total(self.terms.kernels(left, right, first, second))

    def kernel_of(self, row: Asked, column: Asked, cells: Places) -> Array:
        """Return the pairwise kernel between one pair and some cells, shape (n,).

        New rows have no functions of their own, so that these contribute nothing.
        """
        product, per_task, per_instance = self.shares
        sides = []
        for spectrum, asked, at in zip(self.grid_spectra, (row, column), cells, strict=True):
            along, _ = rotated_row(spectrum, asked)
            kernel = take_rows(spectrum.vectors @ along, at)
            if isinstance(asked, NewRows):
                is_same = np.zeros(at.size, dtype=bool)
            else:
                is_same = at == asked
            sides.append((kernel, as_array_of(is_same, kernel, kernel.dtype)))
        (left, same), (right, same_task) = sides
        return left * (product * right + per_task * same_task) + per_instance * same * right

    def rotated_kernel_of(self, row: Asked, column: Asked) -> Array:
        """Return the pairwise kernel between one pair and all training pairs in the rotated labels, shape (k, l)."""
        product, per_task, per_instance = self.shares
        (along, unit), (task_along, task_unit) = map(rotated_row, self.grid_spectra, (row, column))
        rotated = along[:, None] * (product * task_along + per_task * task_unit)[None, :]
        rotated += (per_instance * unit)[:, None] * task_along[None, :]
        return rotated

    @property
    def mean_part(self) -> tuple[Array, float] | None:  # type: ignore[override]
        """Grid E and factor of the part of the hat that belongs to the mean."""
        if not self.free_mean:
            return None
        return self.mean.grid, self.mean.factor / self.mean.total

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        fitted = super().hat(grid)
        if self.free_mean and not self.hat_is_identity:
            fitted += self.mean.grid * (self.mean.factor * self.mean.of(grid))
        return fitted

    def residual(self, grid: Array) -> Array:
        """Return the grid minus the fitted grid."""
        residual = super().residual(grid)
        if self.free_mean and not self.is_truncated:
            residual -= self.mean.grid * (self.mean.factor * self.mean.of(grid))
        return residual

    @property
    def phi(self) -> Array:
        """1/(S+λ) of shape (k, l); the pseudo-inverse for λ = 0."""
        values = self.kernel_values
        if self.alpha > 0:
            return 1.0 / (values + self.alpha)
        return ratio(1.0, values)

    @property
    def shares_product(self) -> bool:
        """Whether there is a direction in which all pairs share a function."""
        return self.terms.product > 0 and 0 not in self.ranks

    # --- the mean -------------------------------------------------------------------------------------

    @cached_property
    def ones(self) -> tuple[Array, ...]:
        """Projections of ones on the eigenvectors of both sides."""
        return tuple(map(ones_of, self.grid_spectra))

    @cached_property
    def mean_is_undetermined(self) -> bool:
        """Whether λ = 0 and the range of the kernel does not contain constants."""
        if self.alpha > 0 or self.hat_is_identity:
            return False
        rows, columns = self.ones
        outside = float(rows**2 @ ((1.0 - self.shrinkage) @ columns**2))
        return outside > max(self.floor, epsilon(rows)) * self.n_cells

    @cached_property
    def mean(self) -> GrandMean:
        """The unpenalised mean of labels."""
        rows, columns = self.ones
        if self.mean_is_undetermined:
            weights = 1.0 - self.shrinkage
        else:
            weights = self.phi
        weights *= rows[:, None]
        weights *= columns[None, :]
        total = float(rows @ (weights @ columns))
        factor = self.alpha or float(self.hat_is_identity or self.mean_is_undetermined)
        return GrandMean(self.grid_spectra, weights, total, factor)

    # --- complete labels ----------------------------------------------------------------------------

    def centred(self, Y: Array) -> tuple[Array, float]:
        """Return rotated labels minus their unpenalised mean, and the mean; zero if the model has none."""
        if not self.free_mean:
            return self.rotated(Y), 0.0
        offset = float(namespace(Y).mean(Y))
        rotated = self.rotated(Y - offset if offset else Y)
        rows, columns = self.ones
        mean = self.mean.of_rotated(rotated)
        rotated -= mean * rows[:, None] * columns[None, :]
        return rotated, mean + offset

    def coefficients(self, Y: Array) -> Array:
        r"""Return the coefficients of the shared function; ``alpha=0`` is ordinary least squares.

        .. math:: a\,\mathbf{B}_k\left[\frac{\mathbf{U}^\top(\mathbf{Y}-\mu)\mathbf{V}}
                  {\mathbf{S}+\lambda}\right]\mathbf{B}_g^\top

        If both sides have a constant feature, the unpenalised mean is added to the last entry.
        Without a shared function (a = 0), the factor a is omitted.
        """
        copy = replace(self)
        rotated, mean = copy.centred(Y)
        rotated *= copy.phi
        return self._of_dual(rotated, mean)

    def coefficients_of(self, spectral: Array, mean: float) -> Array:
        """Return the coefficients of a function from its values along pairs of directions, see `Coupled`."""
        return self._of_dual(ratio(spectral, replace(self).kernel_values ** 0.5), mean)

    def _of_dual(self, rotated: Array, mean: float) -> Array:
        """Return coefficients from rotated dual coefficients, which may be overwritten, and the unpenalised mean."""
        product = self.shares[0]
        if product not in (0.0, 1.0):
            rotated *= product
        # Along directions in which the pair kernel is zero, kernel rows are only rounding, which
        # 1/λ would amplify.
        if self.spectrum.is_singular or self.task_spectrum.is_singular:
            values = self.terms.eigenvalues(
                self.spectrum.values[:, None], self.task_spectrum.values[None, :]
            )
            rotated *= namespace(rotated).astype(values > 0, rotated.dtype)
        if not self._has_corner:
            return sandwich(self.spectrum.basis, rotated, self.task_spectrum.basis)
        coefficients = self.task_spectrum.lift(self.spectrum.lift(rotated).T).T
        # With a free mean, dual coefficients sum to zero.
        mean = mean / self._corner
        if product:
            coefficients[-1, -1] = coefficients[-1, -1] + mean
        else:
            coefficients[-1, -1] = mean
        return coefficients

    @property
    def _corner(self) -> float:
        """Product of the last entries of rows of both sides, which the last entry of the coefficients multiplies."""
        return math.prod(spectrum.last_entry for spectrum in self.spectra)

    @property
    def _has_corner(self) -> bool:
        """Whether the coefficients have an entry for the constants of both sides, and thus for the mean."""
        return all(spectrum.constant is not None for spectrum in self.spectra)

    def expansion(self, coefficients: Array) -> Expansion:
        """Return predictions for new rows from coefficients."""
        if self.is_product:
            return super().expansion(coefficients)
        product, per_task, per_instance = self.shares
        shares = (per_task / (product or 1.0), per_instance / (product or 1.0))
        rows, columns = map(Part, self.spectra)
        return PairExpansion(coefficients, rows, columns, product > 0, *shares, self._has_corner)

    def dual(self, Y: Array) -> Array:
        r"""Return the dual coefficients :math:`\mathbf{A}`, shape (m, q); the mean :math:`\mu` is free or zero.

        .. math:: a\,\mathbf{K A G} + b\,\mathbf{K A} + c\,\mathbf{A G} + \lambda\mathbf{A} + \mu = \mathbf{Y}
        """
        copy = replace(self)
        rotated, mean = copy.centred(Y)
        dual = self.on_grid(copy.phi * rotated)
        if self.alpha > 0 and self.is_truncated:
            outside = (Y - mean if self.free_mean else Y) - self.on_grid(rotated)
            dual += outside / self.alpha
        return dual


@dataclass(frozen=True, eq=False)
class Kronecker(PairKernel):
    """Kronecker ridge regression: the pair kernel is the product of both kernels."""

    words: ClassVar[str] = "Kronecker ridge regression"
    takes_pairs: ClassVar[bool] = True


def knows_rows(model: Pairing) -> bool:
    """Return whether training rows have functions of their own, in addition to the shared function."""
    if isinstance(model, PairKernel):
        return any(model.shares[1:])
    return any(spectrum.identity for spectrum in model.spectra)


@mean_eigenvalues.register(PairKernel)
def _mean_eigenvalues(model: PairKernel) -> dict[str, float]:
    """Return the mean eigenvalue of the pairwise kernel; of the centred one if the grand mean is unpenalised.

    A constant that is added to the kernel does not change a model with an unpenalised mean, so it
    is not counted.
    """
    mean = model.terms.eigenvalues(model.spectrum.mean, model.task_spectrum.mean)
    if model.free_mean:
        # The quadratic forms 1ᵀK1/m and 1ᵀG1/q.
        sides = zip(model.grid_spectra, model.ones, strict=True)
        row, column = (float(side.values @ ones**2) / side.n_rows for side, ones in sides)
        mean -= model.terms.eigenvalues(row, column) / model.n_cells
    return {"alpha": mean}


@absorbs_weights.register(PairKernel)
def _absorbs_weights(model: PairKernel) -> bool:
    return True


@knows_new_pairs.register(PairKernel)
def _knows_new_pairs(model: PairKernel) -> bool:
    return model.free_mean or model.shares_product


@side_scales.register(PairKernel)
def _side_scales(model: PairKernel) -> tuple[float, ...]:
    product, per_task, per_instance = model.shares
    row, column = (largest(spectrum.values) for spectrum in model.spectra)
    return product * column + per_task, product * row + per_instance


@side_ridges.register(PairKernel)
def _side_ridges(model: PairKernel) -> tuple[float, ...]:
    """Return the ridge that is added to the kernel of each side, for a typical row of the other side."""
    product, per_task, per_instance = model.shares
    spectra = model.grid_spectra
    ridges = []
    for other, separate, across in (
        (spectra[1], per_task, per_instance),
        (spectra[0], per_instance, per_task),
    ):
        value = float(namespace(other.values).sum(other.values)) / other.n_rows
        scale = product * value + separate
        ridges.append((across * value + model.alpha) / scale if scale > 0 else float("inf"))
    return tuple(ridges)


@incomplete.without_unlabelled.register(PairKernel)
def _without_unlabelled(model: PairKernel, rows: np.ndarray, columns: np.ndarray) -> PairKernel:
    """Return the model of labelled rows and columns, which unlabelled ones do not influence."""
    return replace(
        model, spectrum=model.spectrum.part(rows), task_spectrum=model.task_spectrum.part(columns)
    )


@dense.refit_block.register(PairKernel)
def _refit_block(
    model: PairKernel, sides: dense.Sides, Y: np.ndarray, kept: dense.Masks, asked: dense.Masks
) -> np.ndarray:
    product, per_task, per_instance = model.shares
    K, G = (side.kernel for side in sides)
    grams = (K[np.ix_(kept[0], kept[0])], G[np.ix_(kept[1], kept[1])])
    dual, mean = dense.fit_pairs(
        *grams, Y[np.ix_(*kept)], model.alpha, model.shares, model.free_mean
    )
    left = K[np.ix_(asked[0], kept[0])]
    right = G[np.ix_(kept[1], asked[1])]
    same = np.eye(len(K))[np.ix_(asked[0], kept[0])]
    task_same = np.eye(len(G))[np.ix_(kept[1], asked[1])]
    shared = product * left @ dual @ right
    return np.asarray(
        shared + per_task * left @ dual @ task_same + per_instance * same @ dual @ right + mean
    )


@dense.refit_cells.register(PairKernel)
def _refit_cells(model: PairKernel, sides: dense.Sides, Y: np.ndarray) -> dense.OfHidden:
    (values, U), (task_values, V) = (side.eigh for side in sides)
    kernel = model.terms.eigenvalues(values[:, None], task_values[None, :])
    return dense.fitted_without((U, V), kernel, model.alpha, Y, model.free_mean)


def _among(spectrum: Spectrum, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Return the kernel (d, d) between the distinct rows of a list, and the position (n,) of each row among them."""
    distinct, place = np.unique(rows, return_inverse=True)
    half = take_rows(spectrum.vectors, distinct) * spectrum.values**0.5
    return half @ half.T, place  # numpy computes half of such a product

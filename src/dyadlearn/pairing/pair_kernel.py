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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    epsilon,
    itemsize,
    largest,
    namespace,
    row_blocks,
    row_major,
    take_block,
    take_rows,
    zeros,
)
from dyadlearn._rounding import ratio, rounding_level, settle, settled_difference
from dyadlearn.exceptions import LeverageError
from dyadlearn.pairing import dense, full, incomplete
from dyadlearn.pairing.base import (
    Coupled,
    Pairing,
    absorbs_weights,
    mean_eigenvalues,
    side_ridges,
    side_scales,
)
from dyadlearn.pairing.certainty import Jackknife
from dyadlearn.pairing.constant import ConstantColumns, MeanOfOthers, mean_of_others, ones_of
from dyadlearn.pairing.expansion import Asked, Expansion, NewRows, PairExpansion, Part, rotated_row
from dyadlearn.pairing.full import Stack, Sweep
from dyadlearn.pairing.new_both import column_floor, new_both
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import Members, column_weights, leave_out_columns
from dyadlearn.solve.operators import Places, SideProduct, interpolation_floor, without
from dyadlearn.spectrum import Spectrum, check_cells
from dyadlearn.vectrick import sandwich


@dataclass(frozen=True, eq=False)
class _PairKernelSweep(Sweep):
    """Sweep of a pair kernel: labels are rotated once, and setting D is computed for many regularisations together.

    For each regularisation, A takes four products of the size of the grid, B and C three. An
    unpenalised mean takes two more in A, and one more in B and C. The squared errors of B and C are
    computed for the rotated tasks.
    """

    model: PairKernel

    @cached_property
    def _labels(self) -> _Labels:
        return self.model._labels(self.Y)

    def squared_errors(
        self, settings: Sequence[Setting], per_stack: int
    ) -> dict[Setting, np.ndarray]:
        models = [self.model.at(alpha) for alpha in self.alphas]
        sums: dict[Setting, list[float]] = {}
        if Setting.B in settings:
            sums[Setting.B] = [model._squared_error(self._labels, self.members) for model in models]
        if Setting.C in settings:
            labels = self._labels.transposed
            sums[Setting.C] = [
                model.transposed._squared_error(labels, self.task_members) for model in models
            ]
        return {
            setting: np.array(errors)[:, None] / math.prod(self.Y.shape)
            for setting, errors in sums.items()
        }

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        for setting in [setting for setting in settings if setting is not Setting.D]:
            for row, alpha in enumerate(self.alphas):
                held_out = self.model.at(alpha)._held_out(
                    self._labels, setting, *self._groups(setting)
                )
                yield slice(row, row + 1), 0, setting, held_out[None, ...]
        if Setting.D not in settings:
            return
        for start in range(0, len(self.alphas), per_stack):
            rows = slice(start, min(start + per_stack, len(self.alphas)))
            full.check_memory(self.model, self.Y, Setting.D, n_stacked=rows.stop - start)
            given = (self.Y[None, ...], self.alphas[rows], self.members, self.task_members)
            yield rows, 0, Setting.D, self.model.new_both(*given)[0, ...]


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels of a grid and their rotations, which are computed when needed.

    Attributes
    ----------
    spectra : (Spectrum, Spectrum)
    Y : array of shape (m, q)
        Labels minus the offset.
    offset : float
        Average of the labels if the model has an unpenalised mean, else 0.
    """

    spectra: tuple[Spectrum, Spectrum]
    Y: Array
    offset: float

    @cached_property
    def columns(self) -> Array:
        """Labels with the tasks rotated, shape (m, l)."""
        return self.spectra[1].rotate(self.Y.T).T

    @cached_property
    def both(self) -> Array:
        """Labels with both sides rotated, shape (k, l)."""
        return self.spectra[0].rotate(self.columns)

    @cached_property
    def outside(self) -> float:
        """Squared norm of the labels outside of the span of a truncated spectrum of the tasks."""
        if not self.spectra[1].is_truncated:
            return 0.0
        rest = self.Y - self.columns @ self.spectra[1].vectors.T
        return float(namespace(rest).sum(rest * rest))

    @cached_property
    def transposed(self) -> _Labels:
        """Transposed labels."""
        # Operations on grids with the same memory order are several times faster.
        return _Labels(self.spectra[::-1], row_major(self.Y.T), self.offset)


class _Constant(NamedTuple):
    """Solution E = C⁻¹1 for a grid of ones, with the pairwise kernel and its ridge C.

    Attributes
    ----------
    grid : array of shape (m, q)
        The grid E.
    total : float
        Sum of E.
    factor : float
        Factor of EEᵀ/total that is subtracted from the residual operator, and added to the hat
        matrix unless λ = 0 at full rank.
    """

    grid: Array
    total: float
    factor: float


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
        _, per_task, per_instance = self.shares
        if not all(math.isfinite(share) and share >= 0 for share in self.shares) or not any(
            self.shares
        ):
            raise ValueError(
                f"The shares of a pair kernel must be at least 0, and one of them positive, found "
                f"{self.shares}."
            )
        sides = (
            (per_task, self.task_spectrum, "tasks"),
            (per_instance, self.spectrum, "instances"),
        )
        for share, spectrum, side in sides:
            if share and spectrum.is_truncated:
                raise ValueError(
                    f"A separate function for each of the {side} needs all directions of the "
                    f"{side}, found "
                    f"{spectrum.values.shape[0]} of {spectrum.n_rows}: decompose their kernel in "
                    f"the dual."
                )
        for name, ridge in zip(("spectrum", "task_spectrum"), self._ridges, strict=True):
            object.__setattr__(self, name, getattr(self, name).resolved(ridge))

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
        return bool(self._value(rows, columns) > 0)

    def _value(self, row: Any, column: Any) -> Any:
        """Return the eigenvalues of the pair kernel for eigenvalues of both sides, which are broadcast."""
        product, per_task, per_instance = self.shares
        return product * (row * column) + per_task * row + per_instance * column

    @cached_property
    def floor(self) -> float:
        """Lower bound of slacks; 0 if all directions are penalised."""
        if self.hat_is_identity:
            return 0.0
        return interpolation_floor(self.alpha, *self.grid_spectra)

    @property
    def kernel_cost(self) -> int:
        """Multiplications in one product on each side."""
        return SideProduct.cost(*self.grid_spectra)

    @cached_property
    def kernel_values(self) -> Array:
        r"""Eigenvalues :math:`S_{ij}`, shape (k, l)."""
        return self._value(self.spectrum.values[:, None], self.task_spectrum.values[None, :])

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
        return 1.0 / values if self.hat_is_identity else 1.0 - self.shrinkage

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
            block[here, :] = self._summed(terms)
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
        for here in row_blocks(n, 6 * n * itemsize(left)):
            grams = (take_block(left, at[here], at), take_block(right, task_at[here], task_at))
            yield here, self._terms(*grams, (rows[here], columns[here]), (rows, columns))

    def part(self, kept: np.ndarray, axis: int) -> PairKernel:
        """Return the model of some rows (axis 0) or columns (1)."""
        if axis:
            return replace(self, task_spectrum=self.task_spectrum.part(kept))
        return replace(self, spectrum=self.spectrum.part(kept))

    def kernel_between(self, first: Places, second: Places) -> Array:
        """Return the pairwise kernel between some cells and others, shape (s, n)."""
        grams = []
        for spectrum, rows, others in zip(self.grid_spectra, first, second, strict=True):
            (distinct, at), (other_distinct, other_at) = (
                np.unique(each, return_inverse=True) for each in (rows, others)
            )
            block = spectrum.block(spectrum.values, distinct, other_distinct)
            grams.append(take_block(block, at, other_at))
        left, right = grams
        return self._summed(self._terms(left, right, first, second))

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

    def _terms(
        self, left: Array, right: Array, first: Places, second: Places
    ) -> list[Array | None]:
        """Return the kernels of the three shares between cells from the kernels of both sides, (s, n) each.

        A share of zero has None.
        """
        product, per_task, per_instance = self.shares
        terms: list[Array | None] = [None, None, None]
        if product:
            terms[0] = left * right
        if per_task:
            terms[1] = left * as_array_of(first[1][:, None] == second[1], left, left.dtype)
        if per_instance:
            terms[2] = right * as_array_of(first[0][:, None] == second[0], right, right.dtype)
        return terms

    def _summed(self, terms: list[Array | None]) -> Array:
        """Return the sum of kernels of the three shares, each times its share."""
        parts = [
            share * term for share, term in zip(self.shares, terms, strict=True) if term is not None
        ]
        total = parts[0]
        for part in parts[1:]:
            total += part
        return total

    @property
    def mean_part(self) -> tuple[Array, float] | None:  # type: ignore[override]
        """Grid E and factor of the part of the hat that belongs to the mean."""
        if not self.free_mean:
            return None
        grid, total, factor = self._constant
        return grid, factor / total

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        fitted = super().hat(grid)
        if self.free_mean and not self.hat_is_identity:
            fitted += self._constant.grid * (self._constant.factor * self._mean_of(grid))
        return fitted

    def residual(self, grid: Array) -> Array:
        """Return the grid minus the fitted grid."""
        residual = super().residual(grid)
        if self.free_mean and not self.is_truncated:
            residual -= self._constant.grid * (self._constant.factor * self._mean_of(grid))
        return residual

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        block = super().residual_block(rows, columns)
        if self.mean_part is not None:
            grid, factor = self.mean_part
            cells = take_rows(namespace(grid).reshape(grid, (-1,)), rows * grid.shape[1] + columns)
            block -= cells[:, None] * (cells[None, :] * factor)
        return block

    @property
    def phi(self) -> Array:
        """1/(S+λ) of shape (k, l); the pseudo-inverse for λ = 0."""
        values = self.kernel_values
        if self.alpha > 0:
            return 1.0 / (values + self.alpha)
        return ratio(1.0, values)

    # --- the mean -------------------------------------------------------------------------------------

    @cached_property
    def ones(self) -> tuple[Array, ...]:
        """Projections of ones on the eigenvectors of both sides."""
        return tuple(map(ones_of, self.grid_spectra))

    @cached_property
    def _mean_is_null(self) -> bool:
        """Whether λ = 0 and the range of the kernel does not contain constants."""
        if self.alpha > 0 or self.hat_is_identity:
            return False
        rows, columns = self.ones
        outside = float(rows**2 @ ((1.0 - self.shrinkage) @ columns**2))
        return outside > max(self.floor, epsilon(rows)) * self.n_cells

    @cached_property
    def _rotated_constant(self) -> tuple[Array, float]:
        """C⁻¹1 in the rotated labels (k, l), up to its scale where λ = 0, and 1ᵀC⁻¹1, the precision of the mean."""
        rows, columns = self.ones
        weights = 1.0 - self.shrinkage if self._mean_is_null else self.phi
        weights *= rows[:, None]
        weights *= columns[None, :]
        return weights, float(rows @ (weights @ columns))

    @cached_property
    def _constant(self) -> _Constant:
        weights, total = self._rotated_constant
        grid = sandwich(self.spectrum.vectors, weights, self.task_spectrum.vectors)
        return _Constant(
            grid, total, self.alpha or float(self.hat_is_identity or self._mean_is_null)
        )

    def _mean_of(self, grid: Array) -> float:
        """Return the unpenalised mean of labels (m, q)."""
        return float(namespace(grid).sum(grid * self._constant.grid)) / self._constant.total

    # --- complete labels ----------------------------------------------------------------------------

    def _labels(self, Y: Array) -> _Labels:
        """Return labels to hold out, minus their average if there is an unpenalised mean."""
        offset = float(namespace(Y).mean(Y)) if self.free_mean else 0.0
        return _Labels(self.grid_spectra, Y - offset if offset else Y, offset)

    def _centred(self, Y: Array) -> tuple[Array, float]:
        """Return rotated labels minus their unpenalised mean, and the mean; zero if the model has none."""
        if not self.free_mean:
            return self.rotated(Y), 0.0
        labels = self._labels(Y)
        rotated = self.rotated(labels.Y)
        rows, columns = self.ones
        weights, total = self._rotated_constant
        mean = float(namespace(Y).sum(weights * rotated)) / total
        rotated -= mean * rows[:, None] * columns[None, :]
        return rotated, mean + labels.offset

    def coefficients(self, Y: Array) -> Array:
        r"""Return the coefficients of the shared function; ``alpha=0`` is ordinary least squares.

        .. math:: a\,\mathbf{B}_k\left[\frac{\mathbf{U}^\top(\mathbf{Y}-\mu)\mathbf{V}}
                  {\mathbf{S}+\lambda}\right]\mathbf{B}_g^\top

        If both sides have a constant feature, the unpenalised mean is added to the last entry.
        Without a shared function (a = 0), the factor a is omitted.
        """
        copy = replace(self)
        rotated, mean = copy._centred(Y)
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
            values = self._value(self.spectrum.values[:, None], self.task_spectrum.values[None, :])
            rotated *= namespace(rotated).astype(values > 0, rotated.dtype)
        if not self._has_corner:
            return sandwich(self.spectrum.basis, rotated, self.task_spectrum.basis)
        coefficients = self.task_spectrum.lift(self.spectrum.lift(rotated).T).T
        # With a free mean, dual coefficients sum to zero.
        mean = mean / self._corner
        coefficients[-1, -1] = coefficients[-1, -1] + mean if product else mean
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
        U, V = (spectrum.vectors for spectrum in self.grid_spectra)
        rotated, mean = copy._centred(Y)
        dual = sandwich(U, copy.phi * rotated, V)
        if self.alpha > 0 and self.is_truncated:
            outside = (Y - mean if self.free_mean else Y) - sandwich(U, rotated, V)
            dual += outside / self.alpha
        return dual

    def _held_out(
        self,
        labels: _Labels,
        setting: Setting,
        members: Members = None,
        task_members: Members = None,
    ) -> Array:
        """Return settings A, B and C."""
        if not self.free_mean and 0 in self.ranks:  # a kernel of zeros has no direction to learn in
            return zeros(tuple(labels.Y.shape), labels.Y)
        self._check_mean()
        if setting is Setting.A:
            held_out = replace(self)._divided_pairs(labels)
        elif setting is Setting.B:
            held_out = self._new_rows(labels, members)
        else:
            held_out = self.transposed._new_rows(labels.transposed, task_members).T
        if self.free_mean:
            held_out += labels.offset
            settle(held_out, _mean_level(labels.Y))
        return held_out

    def _divided_pairs(self, labels: _Labels) -> Array:
        """Return setting A, a division by the diagonal of the residual operator."""
        Y = labels.Y
        weights, diagonal, slack = self._diagonals()
        check_cells(slack, self.floor)
        product = sandwich(self.spectrum.vectors, labels.both * weights, self.task_spectrum.vectors)
        # Rounding error of differences, one value for the whole grid.
        level = rounding_level(
            namespace(Y).reshape(Y, (-1, 1)), largest(weights), n_terms=sum(Y.shape)
        )
        held_out = settled_difference(
            Y, diagonal, product, level, slack, sign=1 if self.prefers_residual else -1
        )
        return self._with_mean(Y, held_out, slack)

    def _diagonals(self) -> tuple[Array, Array, Array]:
        """Return the smaller of hat and residual in the rotated labels (k, l), its diagonal, and the slack (m, q)."""
        weights = self.remainder if self.prefers_residual else self.shrinkage
        diagonal = self._diagonal(weights)
        if self.prefers_residual:
            return weights, diagonal, diagonal
        if self.is_truncated or largest(diagonal) <= 0.9:  # the difference loses at most one digit
            return weights, diagonal, 1.0 - diagonal
        return weights, diagonal, self._diagonal(self.remainder)

    def _diagonal(self, weights: Array) -> Array:
        """Return (U∘U) w (V∘V)ᵀ of shape (m, q)."""
        return self.task_spectrum.diagonal(self.spectrum.diagonal(weights).T).T

    def _with_mean(self, Y: Array, held_out: Array, slack: Array) -> Array:
        """Return setting A with a free mean, from the predictions without it and the slack (m, q)."""
        if not self.free_mean:
            return held_out
        grid, total, factor = self._constant
        whole = self._mean_of(Y) * total
        left = grid * (factor / slack)
        left *= mean_of_others(
            whole - grid * (Y - held_out), total - grid * left, total, Y, "cells"
        )
        held_out += left
        return held_out

    def _check_mean(self) -> None:
        if self.free_mean and replace(self)._mean_is_null:
            raise LeverageError(
                "With alpha = 0 and kernels without a constant, the training labels may not "
                "determine the unpenalised "
                "mean: use a larger alpha, or add a constant to both kernels."
            )

    def new_both(
        self,
        stack: Array,
        alphas: Sequence[float],
        members: Members = None,
        task_members: Members = None,
    ) -> Array:
        """Return setting D of each grid of a stack (p, m, q) under each of n regularisations, shape (p, n, m, q)."""
        parts = []
        for floors, part in groupby(alphas, lambda alpha: self.at(alpha).floors):
            some = list(part)
            given = (*self.at(some[0]).grid_spectra, stack, some, members, task_members)
            parts.append(
                new_both(*given, shares=self.shares, free_mean=self.free_mean, floors=floors)
            )
        if len(parts) == 1:
            held_out = parts[0]
        else:
            held_out = namespace(stack).concat(parts, axis=1)
        for place in range(stack.shape[0] if self.free_mean else 0):
            level = _mean_level(stack[place, ...])
            for each in range(len(alphas)):
                settle(held_out[place, each, ...], level)
        return held_out

    def _new_rows(self, labels: _Labels, members: Members) -> Array:
        """Return setting B."""
        return self._left_out(labels, members)[0] @ self.task_spectrum.vectors.T

    def _left_out(self, labels: _Labels, members: Members) -> tuple[Array, Array | None]:
        """Return hold-out predictions of rows for rotated tasks (m, l), and the mean of the other rows (m, 1)."""
        product, per_task, per_instance = self.shares
        spectrum = self.spectrum
        s = self.task_spectrum.values
        values = product * s + per_task
        ridges = (per_instance * s + self.alpha)[None, :]
        floor = column_floor(spectrum, self.alpha, values, ridges)
        filters = column_weights(spectrum, values, ridges)
        given = (spectrum, *filters, labels.columns, labels.both, members, floor)
        if not self.free_mean:
            return leave_out_columns(*given)
        rows, columns = self.ones
        constant = ConstantColumns.of(spectrum, rows, values, ridges, filters[1])
        held_out, left = leave_out_columns(*given, residuals=constant.residuals)
        others = MeanOfOthers.start(1, labels.Y, members)
        left = others.add(slice(0, 1), constant, columns, labels.columns, held_out, left)
        mean = others.value(labels.Y, "rows").T
        held_out += left * mean
        return held_out, mean

    def _squared_error(self, labels: _Labels, members: Members) -> float:
        """Return the sum of squared errors of setting B, in the rotated tasks."""
        self._check_mean()
        error = self._left_out(labels, members)[0]
        error -= labels.columns
        flat = namespace(error).reshape(error, (-1,))
        return float(flat @ flat) + labels.outside

    def _elsewhere(self, all_tasks: Spectrum, columns: np.ndarray, Y: Array) -> Array:
        """Return hold-out predictions of each row in unlabelled columns."""
        product, per_task, _ = self.shares
        tasks = self.task_spectrum
        xp = namespace(Y)
        others = without(columns, all_tasks.n_rows)
        cross = tasks.vectors.T @ all_tasks.block(all_tasks.values, columns, others)
        # Null directions and separate functions of tasks do not contribute to predictions for other
        # tasks.
        shared = product * tasks.values
        scale = xp.where(shared > 0, shared + per_task, 1.0)
        ending = xp.where(shared > 0, product / scale, 0.0)[:, None] * cross
        labels = self._labels(Y)
        held_out, mean = self._left_out(labels, None)
        held_out = held_out @ ending
        if mean is not None:
            held_out += mean * (1.0 - self.ones[1] @ ending) + labels.offset
        return held_out


@dataclass(frozen=True, eq=False)
class Kronecker(PairKernel):
    """Kronecker ridge regression: the pair kernel is the product of both kernels."""

    words: ClassVar[str] = "Kronecker ridge regression"
    takes_pairs: ClassVar[bool] = True


def knows_rows(model: Pairing) -> bool:
    """Return whether training rows have functions of their own, in addition to the shared function."""
    shares = (
        model.shares[1:]
        if isinstance(model, PairKernel)
        else [spectrum.identity for spectrum in model.spectra]
    )
    return any(shares)


@full.holdout_grids.register(PairKernel)
def _holdout_grids(model: PairKernel) -> tuple[float, float]:
    return 8.5 if model.free_mean else 4.5, 6.5


full.sweep.register(PairKernel, _PairKernelSweep)


@full.hold_out_stack.register(PairKernel)
def _hold_out_stack(model: PairKernel, stack: Array, setting: Setting, *groups: Members) -> Array:
    """Return hold-out predictions; in setting D all grids share the decompositions of a side."""
    if setting is not Setting.D:
        return full.each_grid(lambda Y: model._held_out(model._labels(Y), setting, *groups), stack)
    model._check_mean()
    return model.new_both(stack, [model.alpha], *groups)[:, 0, ...]


@full.jackknife.register(PairKernel)
def _jackknife(model: PairKernel, Y: Array, members: Members = None) -> Jackknife:
    """Return the jackknife models of complete labels, in which each rotated task is an independent problem."""
    held_out = full.hold_out(model, Y, Setting.B, members, None)
    operators = replace(model)
    product, per_task, _ = model.shares
    spectrum, tasks = model.grid_spectra
    # Weight of a rotated label for a new row, (a s + b)/(S + λ).
    weights = operators.phi * (product * tasks.values + per_task)[None, :]
    (k, n_rotated), m, V, xp = weights.shape, Y.shape[0], tasks.vectors, namespace(Y)
    residuals = Y - held_out
    expansion = model.expansion(model.coefficients(Y))
    rotated = tasks.rotate(residuals.T).T
    means, ones = zeros((m,), Y), zeros((k, n_rotated), Y)
    if model.free_mean:
        # Contribution of the residuals of each row to the mean, and weights of rotated labels that
        # are all ones.
        means = xp.sum(operators._constant.grid * residuals, axis=1) / operators._constant.total
        ones = weights * model.ones[0][:, None] * model.ones[1][None, :]
    del operators  # arrays of all pairs

    def predict(rows: NewRows) -> Array:
        """Return the predictions f minus the contribution of each unit, for the original tasks."""
        along = spectrum.project(rows.block(rows.values))
        a = along.shape[0]
        products = (
            xp.reshape(along[:, None, :] * spectrum.vectors[None, :, :], (a * m, k)) @ weights
        )
        products = xp.reshape(products, (a, m, n_rotated)) * rotated[None, :, :]
        if members is not None:
            pieces = [
                xp.sum(xp.take(products, as_array_of(each, V), axis=1), axis=1) for each in members
            ]
            products = xp.stack(pieces, axis=1)
        # Units are the last axis: the bounds of each task are order statistics over units.
        changes = -V @ xp.permute_dims(products, (0, 2, 1))
        if model.free_mean:
            if members is None:
                sums = means
            else:
                sums = xp.stack([xp.sum(take_rows(means, each)) for each in members])
            # The kernel predicts a part of a constant, the mean the rest.
            rest = 1.0 - along @ ones @ V.T
            changes -= sums[None, None, :] * rest[:, :, None]
        changes += expansion.grid(rows, None)[:, :, None]
        return changes

    return Jackknife(held_out, members, int(m * (k + 2 * n_rotated)), predict)


@mean_eigenvalues.register(PairKernel)
def _mean_eigenvalues(model: PairKernel) -> dict[str, float]:
    """Return the mean eigenvalue of the pairwise kernel; of the centred one if the grand mean is unpenalised.

    A constant that is added to the kernel does not change a model with an unpenalised mean, so it
    is not counted.
    """
    mean = model._value(model.spectrum.mean, model.task_spectrum.mean)
    if model.free_mean:
        # The quadratic forms 1ᵀK1/m and 1ᵀG1/q.
        sides = zip(model.grid_spectra, model.ones, strict=True)
        row, column = (float(side.values @ ones**2) / side.n_rows for side, ones in sides)
        mean -= model._value(row, column) / model.n_cells
    return {"alpha": mean}


@absorbs_weights.register(PairKernel)
def _absorbs_weights(model: PairKernel) -> bool:
    return True


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


@full.cell_slack.register(PairKernel)
def _cell_slack(model: PairKernel) -> Array:
    """Return the diagonal of the residual operator, less the part of a free mean, shape (m, q)."""
    operators = replace(model)
    slack = operators._diagonals()[2]
    if model.free_mean:
        grid, total, factor = operators._constant
        slack = slack - grid * grid * (factor / total)
    return slack


@full.closed_weights.register(PairKernel)
def _closed_weights(model: PairKernel, row: Asked, column: Asked) -> Array:
    """Return the weights of labels, shape (m, q); separate functions only contribute for training rows."""
    operators = replace(model)
    rotated = operators.rotated_kernel_of(row, column) * operators.phi
    weights = sandwich(model.spectrum.vectors, rotated, model.task_spectrum.vectors)
    if model.free_mean:
        constant = operators._constant
        weights += constant.grid * ((1.0 - float(namespace(weights).sum(weights))) / constant.total)
    return weights


@incomplete.without_unlabelled.register(PairKernel)
def _without_unlabelled(model: PairKernel, rows: np.ndarray, columns: np.ndarray) -> PairKernel:
    """Return the model of labelled rows and columns, which unlabelled ones do not influence."""
    return replace(
        model, spectrum=model.spectrum.part(rows), task_spectrum=model.task_spectrum.part(columns)
    )


@incomplete.hold_out_unlabelled.register(PairKernel)
def _hold_out_unlabelled(
    model: PairKernel,
    whole: PairKernel,
    Y: Array,
    setting: Setting,
    rows: np.ndarray,
    columns: np.ndarray,
) -> list[tuple[Array, np.ndarray, np.ndarray]]:
    """Return predictions for held-out rows in columns without labels, and for held-out columns in rows without."""
    pieces = []
    if 0 in setting.new and (others := without(columns, whole.task_spectrum.n_rows)).size:
        pieces.append((model._elsewhere(whole.task_spectrum, columns, Y), rows, others))
    if 1 in setting.new and (others := without(rows, whole.spectrum.n_rows)).size:
        pieces.append((model.transposed._elsewhere(whole.spectrum, rows, Y.T).T, others, columns))
    return pieces


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
    kernel = model._value(values[:, None], task_values[None, :])
    return dense.fitted_without((U, V), kernel, model.alpha, Y, model.free_mean)


def _among(spectrum: Spectrum, rows: np.ndarray) -> tuple[Array, np.ndarray]:
    """Return the kernel (d, d) between the distinct rows of a list, and the position (n,) of each row among them."""
    distinct, place = np.unique(rows, return_inverse=True)
    half = take_rows(spectrum.vectors, distinct) * spectrum.values**0.5
    return half @ half.T, place  # numpy computes half of such a product


def _mean_level(Y: Array) -> Array:
    """Return the rounding error of predictions that are zero, for labels from which a mean was subtracted and added.

    Predictions from training labels that are all zero must be exactly zero, so that they tie.
    """
    return rounding_level(namespace(Y).reshape(Y, (-1, 1)), 1.0, n_terms=sum(Y.shape))

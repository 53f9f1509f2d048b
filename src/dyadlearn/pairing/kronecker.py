r"""Kronecker ridge regression: one regression over all pairs, with the product of both kernels.

With :math:`\rho_{ij} = \lambda/(\sigma_i s_j + \lambda)`, the residual operator is diagonal in the
rotated labels, which gives A. For B the tasks are rotated, :math:`\tilde{\mathbf{Y}} = \mathbf{YV}`:
column j is then an independent ridge problem with kernel :math:`s_j\mathbf{K}`, whose leave-one-out is a
division,

.. math:: F_B = \left[\tilde{\mathbf{Y}} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\tilde{\mathbf{Y}})}
                {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right]\mathbf{V}^\top.

C is its mirror image. For D, and for each task j, the tasks without j are decomposed,
:math:`\mathbf{G}_{-j} = \mathbf{W}\,\mathrm{diag}(\mathbf{t})\mathbf{W}^\top`, and the labels rotated,
:math:`\mathbf{Z} = \mathbf{Y}_{-j}\mathbf{W}`. As for a new instance, every column is then an independent ridge problem
whose leave-one-out is a division, and a prediction for j comes last:

.. math:: F_D[:, j] = \left[\left(\mathbf{Z} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\mathbf{Z})}
          {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right)\mathrm{diag}(1/\mathbf{t})\right]
          \mathbf{W}^\top\mathbf{G}_{-j,j}, \qquad \rho_{ic} = \frac{\lambda}{\sigma_i t_c + \lambda}.

The loop is over whichever side has fewer rows (or groups), one thread to a task.

Columns that are mostly kept are computed from :math:`\rho`, columns that are mostly shrunk from
:math:`f = \sigma s/(\sigma s + \lambda)`, so that neither end of the regularisation loses digits.

Rows and columns without any label take no part in it, and a grid that is complete but for those has the shortcuts of a
complete one. What is left out must be gone for *every* cell, though, those without a label too: in a column t that has
none, a new instance is predicted by the model of the other instances. What is left of column c after the leave-one-out
goes on to t instead of back to the labelled tasks,

.. math:: F_B[:, t] = \left[\tilde{\mathbf{Y}} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top
          \tilde{\mathbf{Y}})}{(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right]\mathrm{diag}(1/\mathbf{s})\,
          \mathbf{V}^\top\mathbf{g}_t .
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, Self

import numpy as np

from dyadlearn._array import Array, eigh, largest, namespace, svd, take_rows, to_numpy, zeros
from dyadlearn._estimates import SideSize, gathered_numbers, small_system, squares_numbers
from dyadlearn._threads import for_each, n_workers
from dyadlearn.filters import Tikhonov
from dyadlearn.holes.operators import SideProduct, between, interpolation_floor
from dyadlearn.holes.reduced import without
from dyadlearn.kernels.repair import rank_threshold
from dyadlearn.pairing.base import Coupled
from dyadlearn.pairing.dense import DenseSide, fit_pairs, fitted_without
from dyadlearn.pairing.leaving import (
    Members,
    column_weights,
    gather_groups,
    leave_out_columns,
    leave_out_rows,
    refuse,
)
from dyadlearn.pairing.sweep import Stack, Sweep
from dyadlearn.pairing.two_step import TwoStep
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich

__all__ = ["Kronecker", "new_both"]

# Columns and regularisations are worked on in arrays of about this many numbers: small enough to stay in the
# cache and to bound memory, large enough to keep the loop out of Python.
_BLOCK_NUMBERS = 2**16


@dataclass(frozen=True, eq=False)
class _KroneckerSweep(Sweep):
    """Setting D for many regularisations together, the others one after the other."""

    pairing: Kronecker

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        yield from super().walk([setting for setting in settings if setting is not Setting.D], per_stack)
        if Setting.D not in settings:
            return
        for start in range(0, len(self.alphas), per_stack):
            rows = slice(start, min(start + per_stack, len(self.alphas)))
            refuse(new_both_numbers(self.Y, self.pairing.sizes, rows.stop - start), self.Y, Setting.D)
            groups = (self.members, self.task_members)
            yield rows, 0, Setting.D, new_both(*self.pairing.spectra, self.Y, self.alphas[rows], *groups)


@dataclass(frozen=True, eq=False)
class Kronecker(Coupled):
    """Two spectra, and one regularisation of the pairs."""

    words: ClassVar[str] = "Kronecker ridge regression"
    is_product: ClassVar[bool] = True
    sweep_type: ClassVar[type[Sweep]] = _KroneckerSweep

    spectrum: Spectrum
    task_spectrum: Spectrum
    alpha: float

    # --- what it is ---------------------------------------------------------------------------------

    @property
    def spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectra of instances and tasks."""
        return self.spectrum, self.task_spectrum

    @property
    def alphas(self) -> dict[str, float]:
        """The one regularisation."""
        return {"alpha": self.alpha}

    def at(self, alpha: float, task_alpha: float | None = None) -> Self:
        """Return the same model under another regularisation."""
        return replace(self, alpha=alpha)

    def _regularised(self) -> Iterator[tuple[str, str, float, float, Spectrum]]:
        size = largest(self.spectrum.values) * largest(self.task_spectrum.values)
        for word, spectrum in zip(("instance", "task"), self.spectra, strict=True):
            yield word, "alpha", self.alpha, size, spectrum

    @property
    def is_zero(self) -> bool:
        """Whether a side is all zeros and has no direction to learn in, so that everything is predicted to be zero."""
        return any(spectrum.values.shape[0] == 0 for spectrum in self.spectra)

    # --- operators ----------------------------------------------------------------------------------

    @property
    def ridge(self) -> float:
        """The regularisation."""
        return self.alpha

    @cached_property
    def vanishing(self) -> bool:
        """Whether λ = 0 at full rank."""
        return self.alpha == 0 and not any(spectrum.is_singular for spectrum in self.spectra)

    @cached_property
    def floor(self) -> float:
        """What slacks must exceed."""
        return interpolation_floor(self.alpha, *self.spectra)

    @property
    def kernel_cost(self) -> int:
        """One product on each side."""
        return SideProduct.cost(*self.grid_spectra)

    @cached_property
    def kernel_values(self) -> Array:
        r"""Eigenvalues :math:`\sigma_i s_j`, shape (k, l)."""
        return self.spectrum.values[:, None] * self.task_spectrum.values[None, :]

    @cached_property
    def shrinkage(self) -> Array:
        """The hat in the rotated labels, shape (k, l)."""
        products = self.kernel_values
        if self.alpha > 0:
            return products / (products + self.alpha)
        return namespace(products).astype(products > 0, products.dtype)

    @cached_property
    def remainder(self) -> Array:
        """The residual in the rotated labels, shape (k, l); at λ = 0 and full rank up to its scale."""
        products = self.kernel_values
        if self.alpha > 0:
            return self.alpha / (products + self.alpha)
        # What a truncated spectrum leaves out is null space too: then nothing remains of what is kept.
        return 1.0 / products if self.vanishing else 1.0 - self.shrinkage

    @cached_property
    def prefers_residual(self) -> bool:
        """Whether most of the spectrum is kept."""
        m, q = (spectrum.n_rows for spectrum in self.spectra)
        return not self.is_truncated and 2 * _count_above(self.spectrum, self.task_spectrum, self.alpha) > m * q

    @cached_property
    def _grams(self) -> tuple[SideProduct, SideProduct]:
        rows, columns = (SideProduct(side, side.values) for side in self.spectra)
        return rows, columns

    def kernel(self, grid: Array) -> Array:
        """Return K grid G."""
        rows, columns = self._grams
        return columns.right(rows.left(grid))

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        left, right = (
            between(partial(side.block, side.values), index)
            for side, index in zip(self.spectra, (rows, columns), strict=True)
        )
        return left * right

    # --- complete labels ----------------------------------------------------------------------------

    def _rotated(self, Y: Array) -> Array:
        return self.task_spectrum.rotate(self.spectrum.rotate(Y).T).T

    @property
    def _phi(self) -> Array:
        """1/(σsᵀ+λ) of shape (k, l); at λ = 0 the pseudo-inverse."""
        products = self.kernel_values
        if self.alpha > 0:
            return 1.0 / (products + self.alpha)
        xp = namespace(products)
        inverse = 1.0 / xp.where(products > 0, products, xp.ones_like(products))
        return xp.where(products > 0, inverse, xp.zeros_like(products))

    def coefficients(self, Y: Array) -> Array:
        r"""Return the coefficients; ``alpha=0`` is ordinary least squares.

        .. math:: \mathbf{B}_k\left[\frac{\mathbf{U}^\top\mathbf{Y}\mathbf{V}}
                  {\boldsymbol\sigma\mathbf{s}^\top+\lambda}\right]\mathbf{B}_g^\top
        """
        rotated = self._rotated(Y)
        rotated *= self._phi
        if any(spectrum.is_singular for spectrum in self.spectra):
            xp = namespace(rotated)
            rotated *= xp.astype(self.spectrum.values > 0, rotated.dtype)[:, None]
            rotated *= xp.astype(self.task_spectrum.values > 0, rotated.dtype)[None, :]
        return sandwich(self.spectrum.basis, rotated, self.task_spectrum.basis)

    def dual(self, Y: Array) -> Array:
        r"""Return :math:`\mathbf{A}` with :math:`\mathbf{K A G}+\lambda\mathbf{A}=\mathbf{Y}`, shape (m, q)."""
        rotated, (U, V) = self._rotated(Y), (spectrum.vectors for spectrum in self.spectra)
        dual = sandwich(U, self._phi * rotated, V)
        if self.alpha > 0 and self.is_truncated:
            dual += (Y - sandwich(U, rotated, V)) / self.alpha
        return dual

    def holdout(self, Y: Array, setting: Setting, members: Members = None, task_members: Members = None) -> Array:
        """Return held-out predictions, shape (m, q)."""
        if self.is_zero:
            return zeros(tuple(Y.shape), Y)
        if setting is Setting.A:
            return self._new_pairs(Y)
        if setting is Setting.B:
            return self._new_rows(*self.spectra, Y, members)
        if setting is Setting.C:
            return self._new_rows(*self.spectra[::-1], Y.T, task_members).T
        return new_both(*self.spectra, Y, [self.alpha], members, task_members)[0, ...]

    def _new_rows(self, spectrum: Spectrum, task_spectrum: Spectrum, Y: Array, members: Members) -> Array:
        filters = column_weights(spectrum, task_spectrum.values, [self.alpha])
        return leave_out_rows(spectrum, task_spectrum, filters, Y, members, interpolation_floor(self.alpha, spectrum))

    # --- missing or weighted labels -----------------------------------------------------------------

    def without_unlabelled(self, rows: np.ndarray, columns: np.ndarray) -> Self | None:
        """Return the model of labelled rows and columns: the others say nothing."""
        return replace(self, spectrum=self.spectrum.part(rows), task_spectrum=self.task_spectrum.part(columns))

    def beside_labelled(
        self, Y: Array, setting: Setting, whole: Self, rows: np.ndarray, columns: np.ndarray
    ) -> list[tuple[Array, np.ndarray, np.ndarray]]:
        """Return what held-out rows get in columns without labels, and held-out columns in rows without."""
        found, sides = [], (self.spectrum, self.task_spectrum)
        if setting.new_instance and (others := without(columns, whole.task_spectrum.n_rows)).size:
            found.append((self._elsewhere(*sides, whole.task_spectrum, columns, Y), rows, others))
        if setting.new_task and (others := without(rows, whole.spectrum.n_rows)).size:
            found.append((self._elsewhere(*sides[::-1], whole.spectrum, rows, Y.T).T, others, columns))
        return found

    def _elsewhere(
        self, spectrum: Spectrum, tasks: Spectrum, all_tasks: Spectrum, columns: np.ndarray, Y: Array
    ) -> Array:
        """Return what a model without a row predicts for it in columns that have no label, for each row in turn."""
        others = without(columns, all_tasks.n_rows)
        cross = tasks.vectors.T @ all_tasks.block(all_tasks.values, columns, others)
        # Null directions are dropped: the kernel of any task with them is zero.
        kept = np.flatnonzero(to_numpy(tasks.values) > 0)
        values, ending = take_rows(tasks.values, kept), take_rows(cross, kept)
        rotated = take_rows(tasks.rotate(Y.T), kept).T
        weights, direct = column_weights(spectrum, values, [self.alpha])
        floor = interpolation_floor(self.alpha, spectrum)
        held_out = leave_out_columns(spectrum, weights, direct, rotated, spectrum.rotate(rotated), None, floor)
        return held_out @ (ending / namespace(Y).reshape(values, (-1, 1)))

    # --- refit --------------------------------------------------------------------------------------

    def dense_sides(self, fixed_penalty: bool) -> list[DenseSide]:
        """Return the sides of the slow twin."""
        return [DenseSide.of(spectrum, Tikhonov(), self.alpha, fixed_penalty) for spectrum in self.spectra]

    def refit_block(
        self, sides: Sequence[DenseSide], Y: np.ndarray, kept: Sequence[np.ndarray], asked: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the slow twin's predictions for a block."""
        K, G = (side.kernel for side in sides)
        grams = (K[np.ix_(kept[0], kept[0])], G[np.ix_(kept[1], kept[1])])
        dual = fit_pairs(*grams, Y[np.ix_(*kept)], self.alpha)
        return np.asarray(K[np.ix_(asked[0], kept[0])] @ dual @ G[np.ix_(kept[1], asked[1])])

    def refit_cells(self, sides: Sequence[DenseSide], Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the slow twin's predictions for hidden cells."""
        (values, _), (task_values, _) = (side.eigh for side in sides)
        return fitted_without((sides[0], sides[1]), np.outer(values, task_values), self.alpha, Y)

    # --- memory -------------------------------------------------------------------------------------

    @classmethod
    def closed_numbers(cls, shape: tuple[int, int], sides: Sequence[SideSize]) -> float:
        """Return the peak of the closed form: 1/(σs + λ) and what it is made of, or turning both sides."""
        side, tasks = sides
        rotated, rows, columns = side.rank * tasks.rank, side.coefficients, tasks.coefficients
        turning = rotated + max(rows * tasks.rank, side.rank * columns) + rows * columns
        return side.basis + tasks.basis + max(side.rank * shape[1] + rotated, 4 * rotated, turning)

    @classmethod
    def completion_numbers(
        cls, shape: tuple[int, int], sides: Sequence[SideSize], observed: float, weighted: bool
    ) -> float:
        """Return the peak of conjugate gradients; a deflation is there where it pays."""
        grid, rotated = shape[0] * shape[1], sides[0].rank * sides[1].rank
        vectors, operators = (sum(getattr(side, name) for side in sides) for name in ("vectors", "operator"))
        eigenvectors = sum(side.n_rows * side.rank for side in sides)
        deflation = small_system(4.0, grid, rotated) + 0.5 * eigenvectors + observed * grid
        share = 0.5 * rotated / grid
        return float(vectors + operators + (1.2 + 6.3 * observed) * grid + 4.5 * rotated + share * deflation)

    def cells_numbers(self, shape: tuple[int, int], observed: float) -> float:
        """Return the peak of solving for the cells that are left out."""
        # The system of the missing cells is solved, as that of two-step ridge regression is.
        return TwoStep.completion_numbers(shape, self.sizes, observed, False)

    def holdout_numbers(self, Y: Array, setting: Setting, largest_group: int = 1) -> float:
        """Return the peak of hold-out predictions."""
        if setting is Setting.D:
            return new_both_numbers(Y, self.sizes, 1)
        (m, q), sides = Y.shape, self.sizes
        rotated, mixed = sides[0].rank * sides[1].rank, max(sides[0].rank * q, sides[1].rank * m)
        formed = max(2.0 * m * q + 2.0 * rotated + 3.0 * mixed, m * q + mixed + squares_numbers(sides))
        # One small system for each column, some of them at a time.
        gathered = gathered_numbers(m * q, sides, largest_group) + (2**19 if largest_group > 1 else 0)
        return float(sum(side.vectors for side in sides) + formed + gathered)


def _count_above(spectrum: Spectrum, task_spectrum: Spectrum, alpha: float) -> int:
    """Return how many products σs exceed λ, without forming them."""
    s = np.sort(to_numpy(task_spectrum.values))
    positive = to_numpy(spectrum.values)
    positive = positive[positive > 0]
    return int(np.sum(s.size - np.searchsorted(s, alpha / positive, side="right")))


def new_both(
    spectrum: Spectrum,
    task_spectrum: Spectrum,
    Y: Array,
    alphas: Sequence[float],
    members: Members = None,
    task_members: Members = None,
) -> Array:
    r"""Return the predictions for pairs whose instance and task were both left out.

    Everything but :math:`\boldsymbol\rho` is shared by all regularisations. Beside the result the
    work takes about seven arrays of the size of `Y`, however many regularisations there are.

    Parameters
    ----------
    spectrum, task_spectrum : Spectrum
    Y : array of shape (m, q)
    alphas : sequence of n floats
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks.

    Returns
    -------
    array of shape (n, m, q)
    """
    groups = gather_groups(members, spectrum.n_rows)
    task_groups = gather_groups(task_members, task_spectrum.n_rows)
    xp = namespace(Y)
    if not (spectrum.values.shape[0] and task_spectrum.values.shape[0]):  # nothing to learn in
        return zeros((len(alphas), *Y.shape), Y)
    if len(groups) < len(task_groups):
        swapped = new_both(task_spectrum, spectrum, Y.T, alphas, task_members, members)
        return xp.permute_dims(swapped, (0, 2, 1))
    (m, q), n = Y.shape, len(alphas)
    gram = None if task_spectrum.is_truncated else task_spectrum.matrix(task_spectrum.values)
    rotated = spectrum.rotate(Y)
    held_out = zeros((q, n, m), Y)
    blocks = _alpha_blocks(alphas, max(1, _BLOCK_NUMBERS // (m * q)))
    floors = [interpolation_floor(alphas[block[0]], spectrum) for block in blocks]
    width = max(192, _BLOCK_NUMBERS // m)
    squares = spectrum.vectors**2

    def leave_out(group: np.ndarray) -> None:
        kept = np.delete(np.arange(q), group)
        if not kept.size:
            return
        values, vectors, cross = _without(task_spectrum, gram, group, kept)
        # With rows of zeros for the tasks that are out, the labels need not be copied without them.
        where = np.full(q, kept.size)
        where[kept] = np.arange(kept.size)
        vectors = take_rows(xp.concat([vectors, zeros((1, vectors.shape[1]), vectors)], axis=0), where)
        predicted = zeros((n, m, group.size), Y)
        for start in range(0, values.shape[0], width):
            chunk = slice(start, min(start + width, values.shape[0]))
            columns, turned = Y @ vectors[:, chunk], rotated @ vectors[:, chunk]
            ending = cross[chunk, :] / values[chunk, None]
            for block, floor in zip(blocks, floors, strict=True):
                weights, direct = column_weights(spectrum, values[chunk], [alphas[index] for index in block])
                part = leave_out_columns(spectrum, weights, direct, columns, turned, members, floor, squares)
                part = xp.reshape(xp.reshape(part, (m * len(block), columns.shape[1])) @ ending, (m, len(block), -1))
                predicted[block[0] : block[-1] + 1, ...] += xp.permute_dims(part, (1, 0, 2))
        for place, task in enumerate(group):
            held_out[int(task), ...] = predicted[:, :, place]

    for_each(leave_out, task_groups, Y, n_operations=4.0 * m * m * q * len(task_groups) * n)
    return xp.permute_dims(held_out, (1, 2, 0))


def _alpha_blocks(alphas: Sequence[float], size: int) -> list[list[int]]:
    """Cut positions of alphas into consecutive blocks; a zero stands alone, having a rule of its own."""
    blocks: list[list[int]] = []
    for index, alpha in enumerate(alphas):
        if blocks and len(blocks[-1]) < size and alpha != 0 and alphas[blocks[-1][0]] != 0:
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


def _without(
    spectrum: Spectrum, gram: Array | None, left_out: np.ndarray, kept: np.ndarray
) -> tuple[Array, Array, Array]:
    """Decompose a side without some rows: eigenvalues (c,), eigenvectors (kept, c), WᵀG (c, left out).

    Null directions are dropped: the kernel of any row with them is zero.
    """
    if gram is None:
        factor = spectrum.vectors * spectrum.values**0.5
        vectors, roots, right = svd(take_rows(factor, kept))
        values = roots**2
        cross = (roots[:, None] * right) @ take_rows(factor, left_out).T
    else:
        rows = take_rows(gram, kept)
        values, vectors = eigh(take_rows(rows.T, kept))
        cross = vectors.T @ take_rows(rows.T, left_out).T
    positive = np.flatnonzero(to_numpy(values > rank_threshold(values, spectrum.n_rows)))
    if positive.size == values.shape[0]:
        return values, vectors, cross
    return take_rows(values, positive), take_rows(vectors.T, positive).T, take_rows(cross, positive)


def new_both_numbers(Y: Array, sides: Sequence[SideSize], n_alphas: int) -> float:
    """Return the peak of `new_both` for some regularisations."""
    (m, q), (few, many) = Y.shape, sorted(sides, key=lambda side: side.n_rows)
    n_threads = n_workers(Y, 4.0 * m * q * max(m, q) * min(m, q) * n_alphas)
    # In each thread the smaller side without one of its rows is decomposed, and some columns are worked on.
    thread = 7 * few.n_rows**2 + 8 * many.n_rows * max(192, 2**16 // many.n_rows)
    return float(m * q * (n_alphas + 1) + many.n_rows * many.rank + few.n_rows**2 + n_threads * thread)

r"""What a model of pairs does to grids, as the solvers of this room see it.

With :math:`\mathbf{F} = \mathbf{H}[\mathbf{Y}]` the fitted grid, a model has a hat :math:`\mathbf{H}` and a residual
operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, diagonal in the rotated labels with entries
:math:`1-\rho` and :math:`\rho`, and a pairwise kernel :math:`\mathbf{P}` with a ridge :math:`c` such that
:math:`\mathbf{H} = \mathbf{P}(\mathbf{P}+c\mathbf{I})^{-1}`. Which they are, each model says for itself in
`dyadlearn.pairing`.

A model may have a grand mean that no penalty holds, `free_mean`. Its hat and residual are those of the model with that
mean, :math:`\mathbf{R} = c\,(\mathbf{C}^{-1} - \mathbf{EE}^\top/\mathbf{1}^\top\mathbf{E})` with
:math:`\mathbf{C} = \mathbf{P} + c\mathbf{I}` and :math:`\mathbf{E} = \mathbf{C}^{-1}\mathbf{1}`, so that
:math:`\mathbf{H1} = \mathbf{1}`; the pairwise kernel, its ridge and what stands in the rotated labels (`kernel_values`,
`remainder`) are those of :math:`\mathbf{P}` alone. Missing cells hold what the model puts there, as ever; the system
of the observed cells has a border, :math:`\mathbf{P}_{oo}\mathbf{a} + c\mathbf{a} + \mu\mathbf{1} = \mathbf{y}_o` and
:math:`\mathbf{1}^\top\mathbf{a} = 0`. Where ones are an eigenvector of both sides, as a free constant of each makes
them, the mean is one direction of the rotated labels, with a kernel value and a remainder of zero.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Protocol

import numpy as np

from dyadlearn._array import Array, namespace, take_block, take_rows, to_numpy, with_diagonal
from dyadlearn.spectrum import Smoother, Spectrum, slack_floor
from dyadlearn.vectrick import sandwich

__all__ = [
    "GridOperators",
    "SideProduct",
    "between",
    "common_floor",
    "interpolation_floor",
    "inverse_with_border",
    "rotated_block",
    "rotated_product",
    "rotation_cost",
]


class GridOperators(Protocol):
    """The operators of a model on grids of shape (m, q)."""

    @property
    def grid_spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectra of the rows and of the columns."""

    @property
    def ridge(self) -> float:
        """The ridge that goes with the pairwise kernel."""

    @property
    def vanishing(self) -> bool:
        """Whether λ = 0 at full rank, where hats are identities and residuals are known up to scale."""

    @property
    def floor(self) -> float:
        """What slacks must exceed; 0 if nothing is ever interpolated."""

    @property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""

    @property
    def prefers_residual(self) -> bool:
        """Whether most of the spectrum is kept, so that the residual is the small part and carries the digits."""

    @property
    def residual_cost(self) -> int:
        """Multiplications in one product with the residual operator."""

    @property
    def kernel_cost(self) -> int:
        """Multiplications in one product with the pairwise kernel."""

    @property
    def remainder(self) -> Array:
        """The residual in the rotated labels, shape (k, l)."""

    @property
    def kernel_values(self) -> Array:
        """The pairwise kernel in the rotated labels, shape (k, l)."""

    @property
    def free_mean(self) -> bool:
        """Whether a grand mean that no penalty holds is part of hat and residual."""

    @property
    def is_product(self) -> bool:
        """Whether the pairwise kernel is the product of both sides' kernels."""

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

    def split_kernel(self, rows: np.ndarray, columns: np.ndarray) -> tuple[Array, Array | None, Array | None]:
        """Return a part of the kernel between some cells (n, n), and a border of it, see `inverse_with_border`."""


class SideProduct:
    r"""Multiplies many grids by :math:`\mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top`, in the cheaper of two forms."""

    def __init__(self, spectrum: Spectrum, weights: Array) -> None:
        self.spectrum, self.vectors, self.weights = spectrum, spectrum.vectors, weights

    @cached_property
    def matrix(self) -> Array | None:
        """The product itself (n, n), made when it is first wanted; None where two thin ones are cheaper."""
        n, k = self.vectors.shape
        return None if 2 * k < n else self.spectrum.matrix(self.weights)

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

    @staticmethod
    def cost(*spectra: Spectrum) -> int:
        """Return the multiplications in one product with each of two sides of a grid."""
        (m, k), (q, r) = (spectrum.vectors.shape for spectrum in spectra)
        return int((min(m, 2 * k) + min(q, 2 * r)) * m * q)


def rotated_product(spectrum: Spectrum, task_spectrum: Spectrum, weights: Array, grid: Array) -> Array:
    """Return U (w ∘ Uᵀ grid V) Vᵀ."""
    rotated = task_spectrum.rotate(spectrum.rotate(grid).T).T
    return sandwich(spectrum.vectors, weights * rotated, task_spectrum.vectors)


def rotation_cost(spectrum: Spectrum, task_spectrum: Spectrum) -> int:
    """Return the multiplications in `rotated_product`."""
    (m, k), (q, r) = spectrum.vectors.shape, task_spectrum.vectors.shape
    return int(2 * (k * m * q + k * q * r))


def rotated_block(
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


def between(block: Callable[[np.ndarray], Array], index: np.ndarray) -> Array:
    """Return an operator of one side between rows that repeat; it is formed between distinct ones."""
    distinct, place = np.unique(index, return_inverse=True)
    return take_block(block(distinct), place, place)


def inverse_with_border(inverse: Array, border: Array | None = None, penalties: Array | None = None) -> Array:
    r"""Return the inverse (n, n) of a system with a border, but for that, given the inverse without it.

    .. math:: \mathbf{Q} - \mathbf{Q}\boldsymbol\Phi\left(\mathrm{diag}(\mathbf{d}) +
              \boldsymbol\Phi^\top\mathbf{Q}\boldsymbol\Phi\right)^{-1}\boldsymbol\Phi^\top\mathbf{Q}

    Parameters
    ----------
    inverse : array of shape (n, n)
        Q.
    border : array of shape (n, r), default=None
        Directions Φ that are no part of the system; None is ones.
    penalties : array of shape (r,), default=None
        d, what holds each of them; None is nothing.
    """
    xp = namespace(inverse)
    border = xp.ones_like(inverse[:, :1]) if border is None else border
    along = inverse @ border
    system = border.T @ along
    if penalties is not None:
        system = with_diagonal(system, xp.linalg.diagonal(system) + penalties)
    return inverse - along @ xp.linalg.solve(system, along.T)


def common_floor(*sides: Smoother) -> float:
    """Return what slacks of pairs must exceed: they vanish only if those of every side do.

    What a side keeps whole it keeps beside a constant of the other side too. A free mean alone is no such thing: any
    cell that stays determines it.
    """
    floors = [side.slack_floor for side in sides]
    return max(floors) if all(side.slack_floor or side.spectrum.has_free_constant for side in sides) else 0.0


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

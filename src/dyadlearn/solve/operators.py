r"""Operators of a model of pairs on grids: hat matrix, residual operator and pairwise kernel.

With :math:`\mathbf{F} = \mathbf{H}[\mathbf{Y}]` the fitted grid, a model has a hat :math:`\mathbf{H}` and a residual
operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, diagonal in the rotated labels with entries
:math:`1-\rho` and :math:`\rho`, and a pairwise kernel :math:`\mathbf{P}` with a ridge :math:`c` such that
:math:`\mathbf{H} = \mathbf{P}(\mathbf{P}+c\mathbf{I})^{-1}`. Each model defines them in
`dyadlearn.pairing`.

A model may have an unpenalised grand mean, `free_mean`. Its hat and residual are those of the model with that
mean, :math:`\mathbf{R} = c\,(\mathbf{C}^{-1} - \mathbf{EE}^\top/\mathbf{1}^\top\mathbf{E})` with
:math:`\mathbf{C} = \mathbf{P} + c\mathbf{I}` and :math:`\mathbf{E} = \mathbf{C}^{-1}\mathbf{1}`, so that
:math:`\mathbf{H1} = \mathbf{1}`; the pairwise kernel, its ridge and what stands in the rotated labels (`kernel_values`,
`remainder`) are those of :math:`\mathbf{P}` alone. Missing cells hold what the model puts there, as ever; the system
of the observed cells has a border, :math:`\mathbf{P}_{oo}\mathbf{a} + c\mathbf{a} + \mu\mathbf{1} = \mathbf{y}_o` and
:math:`\mathbf{1}^\top\mathbf{a} = 0`. Where ones are an eigenvector of both sides, as a free constant of each makes
them, the mean is one direction of the rotated labels, with a kernel value and a remainder of zero.

`reduced` returns the operators of a side without the labels of some rows, with the penalty of all rows.

Let a side have the hat :math:`\mathbf{H}` and the residual operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`. When
the rows I leave and the rows O stay, what the fit itself puts in the place of the left-out ones is

.. math:: \mathbf{f}_I = -\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}\,\mathbf{y}_O = \mathbf{R}_{II}^{-1}\mathbf{H}_{IO}\,
          \mathbf{y}_O ,

and the residual operator of the rows that stay is the Schur complement

.. math:: \bar{\mathbf{R}} = \mathbf{R}_{OO} - \mathbf{R}_{OI}\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}
          = (\mathbf{I} + \boldsymbol\Xi_{OO})^{-1}, \qquad
          \boldsymbol\Xi = \mathbf{U}\,\tfrac{f}{1-f}\,\mathbf{U}^\top .

So a side under any filter is ridge regression with the kernel :math:`\boldsymbol\Xi` and a ridge of one. For Tikhonov's
filter :math:`\boldsymbol\Xi = \mathbf{K}/\lambda`, and a reduced side is one that is fitted again. Directions that the
filter keeps whole, :math:`1-f = 0`, have no value in this kernel: they carry no penalty, and the others are taken
orthogonal to them. A free constant is one of these, and stays what it is. With weights w of the rows that stay, the
same holds of :math:`\sqrt{w}\,\boldsymbol\Xi_{OO}\sqrt{w}` and of labels multiplied by :math:`\sqrt{w}`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import ClassVar

import numpy as np

from dyadlearn._array import Array, epsilon, largest, namespace, svd, take_block, take_rows, to_numpy, zeros
from dyadlearn._rounding import is_graded, ratio
from dyadlearn.filters import Tabulated
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error, slack_floor
from dyadlearn.vectrick import sandwich


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


class GridOperators(ABC):
    r"""The operators of a model on grids of shape (m, q), from the spectra of its sides and the `remainder`.

    By default it is ridge regression on pairs with the kernel :math:`(1-\rho)/\rho` in the rotated labels, where
    :math:`\rho` is the remainder, and a ridge of one.
    """

    #: Whether it can be solved for observed pairs alone, see `dyadlearn.solve.observed`.
    takes_pairs: ClassVar[bool] = False

    @property
    def ridge(self) -> float:
        """The ridge that goes with the pairwise kernel."""
        return 1.0

    @property
    def free_mean(self) -> bool:
        """Whether the grand mean carries no penalty, so that the dual parameters sum to zero."""
        return False

    @property
    def is_product(self) -> bool:
        """Whether the pairwise kernel is the product of both sides' kernels."""
        return False

    @property
    def vanishing(self) -> bool:
        """Whether λ = 0 at full rank, where hats are identities and residuals are known up to scale."""
        return False

    @property
    def floor(self) -> float:
        """What slacks must exceed; 0 if nothing is ever interpolated."""
        whole = self.remainder <= 0
        return slack_floor(self.grid_spectra[0], math.inf) if bool(namespace(whole).any(whole)) else 0.0

    @property
    def prefers_residual(self) -> bool:
        """Whether most of the spectrum is kept, so that the residual is the small part and carries the digits."""
        xp, kept = namespace(self.remainder), self.remainder < 0.5
        n_cells = math.prod(side.n_rows for side in self.grid_spectra)
        return not self.is_truncated and 2 * int(xp.sum(xp.astype(kept, xp.int64))) > n_cells

    @property
    def residual_cost(self) -> int:
        """Multiplications in one product with the residual operator."""
        return rotation_cost(*self.grid_spectra)

    @property
    def kernel_cost(self) -> int:
        """Multiplications in one product with the pairwise kernel."""
        return rotation_cost(*self.grid_spectra)

    @property
    @abstractmethod
    def grid_spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectra of the rows and of the columns."""

    @property
    def shrinkage(self) -> Array:
        """The hat f in the rotated labels, shape (k, l)."""
        return 1.0 - self.remainder

    @property
    @abstractmethod
    def remainder(self) -> Array:
        """The residual 1 − f in the rotated labels, shape (k, l); up to its scale where it vanishes."""

    @property
    def kernel_values(self) -> Array:
        """The pairwise kernel in the rotated labels, shape (k, l); zero where nothing is penalised."""
        return ratio(self.shrinkage, self.remainder)

    @property
    def is_truncated(self) -> bool:
        """Whether a null space is left out of a spectrum."""
        return any(spectrum.is_truncated for spectrum in self.grid_spectra)

    @cached_property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""
        return self._is_graded(namespace(self.remainder).reshape(self.remainder, (-1, 1)))

    def _is_graded(self, remainders: Array) -> bool:
        return is_graded(remainders, sum(side.n_rows for side in self.grid_spectra), self.is_truncated)

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        return rotated_product(*self.grid_spectra, self.shrinkage, grid)

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid."""
        if self.is_truncated:
            return grid - self.hat(grid)
        return rotated_product(*self.grid_spectra, self.remainder, grid)

    def kernel(self, grid: Array) -> Array:
        """Return the pairwise kernel times a grid."""
        return rotated_product(*self.grid_spectra, self.kernel_values, grid)

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        if not self.is_truncated:
            return rotated_block(*self.grid_spectra, self.remainder, rows, columns)
        block = rotated_block(*self.grid_spectra, -self.shrinkage, rows, columns)
        return block + namespace(block).eye(block.shape[0], dtype=block.dtype, device=block.device)

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        return rotated_block(*self.grid_spectra, self.kernel_values, rows, columns)

    def split_kernel(self, rows: np.ndarray, columns: np.ndarray) -> tuple[Array, Array | None, Array | None]:
        """Return a part of the kernel between some cells (n, n), and a border of it: ones without a penalty."""
        return self.kernel_block(rows, columns), None, None


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


def reduced(side: Smoother, rows: np.ndarray, weights: Array | None = None) -> Smoother:
    r"""Return the operators of a side for labels of some rows only, with the penalty of all rows.

    Neither Ξ nor the Schur complement is formed: the singular values of its factor
    :math:`\mathbf{U}_O\sqrt{f/(1-f)}` span half as many orders of magnitude.

    Parameters
    ----------
    side : Smoother
        Of n rows.
    rows : integer array of shape (p,)
        Those that stay.
    weights : array of shape (p, 1), default=None
        Of their squared loss.

    Returns
    -------
    Smoother
        Of p rows; with weights, of labels that were multiplied by their roots, and so was a free constant. Of its
        eigenvalues only the gap between directions that are kept whole and others is that of the side.

    Raises
    ------
    LeverageError
        If the labels that stay do not determine what is kept whole.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.solve.operators import reduced
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> reduced(side, np.array([0])).hat().round(6)  # a kernel of 2, a ridge of 1
    array([[0.666667]])
    """
    if weights is None and rows.size == side.spectrum.n_rows:
        return side
    xp, vanishing = namespace(side.shrinkage), side.contrast is not None
    side = side.scaled()
    check_hidden(side, without(rows, side.spectrum.n_rows))
    is_whole, constant = _whole(side), side.spectrum.constant if side.spectrum.has_free_constant else None
    # A free constant, the last direction, comes first: what else is kept whole is taken orthogonal to it.
    whole, others = np.flatnonzero(is_whole)[::-1], np.flatnonzero(~is_whole)
    # From the largest to the smallest: in the other order small singular values drown in the rounding of large ones.
    others = others[np.argsort(to_numpy(side.remainder)[others])]
    own = take_rows(side.spectrum.vectors, rows)
    own = own if weights is None else own * weights**0.5
    shares = take_rows(side.shrinkage, others) / take_rows(side.remainder, others)
    factor = xp.concat([take_rows(own.T, whole).T, take_rows(own.T, others).T * shares**0.5], axis=1)
    orthogonal, triangle = xp.linalg.qr(factor, mode="reduced")
    r, first = whole.size, int(constant is not None)
    turned, roots, _ = svd(triangle[r:, r:])
    vectors = xp.concat([orthogonal[:, first:r], orthogonal[:, r:] @ turned, orthogonal[:, :first]], axis=1)
    squares, last = roots**2, xp.zeros_like(vectors[0, :first])
    free = xp.ones_like(vectors[0, first:r])
    if vanishing:
        spectrum = Spectrum(xp.concat([squares, last]), rows.size, None, vectors, None, constant)
        return spectrum.smoother(Tabulated(xp.ones_like(squares), xp.zeros_like(squares), 1.0 / squares), 0.0)
    values = xp.concat([free, (1.0 - _gap(side, is_whole)) * xp.ones_like(squares)]) if free.shape[0] else squares
    filter = Tabulated(xp.concat([free, squares / (1.0 + squares)]), xp.concat([0.0 * free, 1.0 / (1.0 + squares)]))
    spectrum = Spectrum(xp.concat([values, last]), rows.size, None, vectors, None, constant)
    return spectrum.smoother(filter, side.alpha)


def predict_others(side: Smoother, rows: np.ndarray, labels: Array) -> Array:
    r"""Return predictions for rows from labels of the others, :math:`-\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}\mathbf{Y}_O`.

    Parameters
    ----------
    side : Smoother
        Of n rows.
    rows : integer array of shape (p,)
        Those that have labels.
    labels : array of shape (p, c)

    Returns
    -------
    array of shape (n - p, c)
        For the other rows, in ascending order.

    Raises
    ------
    LeverageError
        If the side fits any labels of the others exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.solve.operators import predict_others
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> predict_others(side, np.array([0]), np.array([[3.0]]))
    array([[1.]])
    """
    side, xp = side.scaled(), namespace(labels)
    hidden = without(rows, side.spectrum.n_rows)
    if not rows.size and not side.spectrum.has_free_constant:
        return zeros((hidden.size, labels.shape[1]), labels)
    check_hidden(side, hidden)
    weights = -side.remainder if side.prefers_residual else side.shrinkage
    right = take_rows(side.spectrum.vectors, hidden) @ (
        weights[:, None] * (take_rows(side.spectrum.vectors, rows).T @ labels)
    )
    return xp.linalg.solve(side.residual_block(hidden), right)


def check_hidden(side: Smoother, hidden: np.ndarray) -> None:
    """Raise `LeverageError` if hidden rows of a side have leverage 1.

    Then the other rows do not determine all the directions that are kept whole. That is told from singular
    values: an eigenvalue of the residual operator is wrong by ε, the square of a singular value by that of ε.
    """
    whole = np.flatnonzero(_whole(side))
    if whole.size and hidden.size:
        seen = take_rows(side.spectrum.vectors, without(hidden, side.spectrum.n_rows))
        n_seen, roots = int(seen.shape[0]), svd(take_rows(seen.T, whole).T)[1]
        if n_seen < whole.size or float(namespace(roots).min(roots)) ** 2 <= side.slack_floor:
            raise leverage_error(hidden, side.spectrum.n_rows, "rows are missing and")


def without(rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the positions from 0 to `n_rows` - 1 that are not among `rows`, in ascending order."""
    return np.delete(np.arange(n_rows), rows)


def embedded(grid: Array, values: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return a grid (m, q) with a block of values put where it belongs."""
    xp = namespace(grid)
    places = np.arange(math.prod(grid.shape)).reshape(grid.shape) + math.prod(values.shape)
    places[np.ix_(rows, columns)] = np.arange(math.prod(values.shape)).reshape(values.shape)
    together = xp.concat([xp.reshape(values, (-1,)), xp.reshape(grid, (-1,))])
    return xp.reshape(take_rows(together, places.reshape(-1)), grid.shape)


def _whole(side: Smoother) -> np.ndarray:
    """Return which directions are kept whole, or cannot be told from those in the precision at hand."""
    scale = 1.0 if side.spectrum.is_truncated else largest(side.remainder)
    return np.asarray(to_numpy(side.remainder) <= scale * epsilon(side.remainder) ** 2)


def _gap(side: Smoother, is_whole: np.ndarray) -> float:
    """Return the gap between eigenvalues that are kept whole and the others, over the largest."""
    values, is_whole = to_numpy(side.spectrum.penalised), is_whole[: side.spectrum.penalised.shape[0]]
    below = values[~is_whole].max() if not is_whole.all() else 0.0
    return float((values[is_whole].min() - below) / values.max())

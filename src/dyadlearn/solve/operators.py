r"""Operators of a model of pairs on grids: hat matrix, residual operator and pairwise kernel.

With :math:`\mathbf{F} = \mathbf{H}[\mathbf{Y}]` the fitted grid, a model has a hat
:math:`\mathbf{H}` and a residual operator :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, diagonal in
the rotated labels with entries
:math:`1-\rho` and :math:`\rho`, and a pairwise kernel :math:`\mathbf{P}` with a ridge :math:`c` such that
:math:`\mathbf{H} = \mathbf{P}(\mathbf{P}+c\mathbf{I})^{-1}`. Each model defines them in
`dyadlearn.pairing`.

A model may have an unpenalised grand mean, `free_mean`. Its hat and residual are those of the model
with that mean, :math:`\mathbf{R} = c\,(\mathbf{C}^{-1} -
\mathbf{EE}^\top/\mathbf{1}^\top\mathbf{E})` with
:math:`\mathbf{C} = \mathbf{P} + c\mathbf{I}` and :math:`\mathbf{E} = \mathbf{C}^{-1}\mathbf{1}`, so that
:math:`\mathbf{H1} = \mathbf{1}`. The pairwise kernel, its ridge, `kernel_values` and `remainder` are those of
:math:`\mathbf{P}` alone. The system of the observed cells has a border, :math:`\mathbf{P}_{oo}\mathbf{a} +
c\mathbf{a} + \mu\mathbf{1} = \mathbf{y}_o` and :math:`\mathbf{1}^\top\mathbf{a} = 0`. If both sides
have a free constant, ones are eigenvectors of both, and the mean is one direction of the rotated
labels, with a kernel value and a remainder of zero.

`reduced` returns the operators of a side without the labels of some rows, with the penalty of all
rows.

Let a side have the hat :math:`\mathbf{H}` and the residual operator :math:`\mathbf{R} = \mathbf{I}
- \mathbf{H}`. If the rows I are left out and the rows O stay, the predictions for the left-out rows
are

.. math:: \mathbf{f}_I = -\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}\,\mathbf{y}_O = \mathbf{R}_{II}^{-1}\mathbf{H}_{IO}\,
          \mathbf{y}_O ,

and the residual operator of the rows that stay is the Schur complement

.. math:: \bar{\mathbf{R}} = \mathbf{R}_{OO} - \mathbf{R}_{OI}\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}
          = (\mathbf{I} + \boldsymbol\Xi_{OO})^{-1}, \qquad
          \boldsymbol\Xi = \mathbf{U}\,\tfrac{f}{1-f}\,\mathbf{U}^\top .

With any filter, a side is thus ridge regression with the kernel :math:`\boldsymbol\Xi` and a ridge
of one. For Tikhonov's filter :math:`\boldsymbol\Xi = \mathbf{K}/\lambda`, and a reduced side equals
a refit. Directions with
:math:`1-f = 0` are unpenalised and have no value in this kernel; the others are made orthogonal to them. A free
constant is one of them. With weights w of the rows that stay, the same holds for
:math:`\sqrt{w}\,\boldsymbol\Xi_{OO}\sqrt{w}` and for labels multiplied by :math:`\sqrt{w}`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from typing import ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    epsilon,
    largest,
    namespace,
    row_blocks,
    sorted_least_squares,
    svd,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._rounding import is_graded, ratio, warn_of_rounding
from dyadlearn._work import products
from dyadlearn.filters import Tabulated
from dyadlearn.labels import Places
from dyadlearn.leverage import leverage_error
from dyadlearn.solve.blocks import identity
from dyadlearn.solve.fixed import FixedPart, mean_of
from dyadlearn.solve.leaving import in_order
from dyadlearn.spectrum import Smoother, Spectrum, slack_floor
from dyadlearn.vectrick import entries_at, sandwich

# Smallest ratio of two remainders of a side for which a system of the residual operator is solved
# as it is.
_LEAST_REMAINDER = 1e-4


class SideProduct:
    r"""Multiplies many grids by :math:`\mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top`, in the cheaper of two forms."""

    def __init__(self, spectrum: Spectrum, weights: Array) -> None:
        self.spectrum = spectrum
        self.vectors = spectrum.vectors
        self.weights = weights

    @cached_property
    def matrix(self) -> Array | None:
        """The matrix (n, n), computed on first use; None if two products with the eigenvectors are cheaper."""
        n, k = self.vectors.shape
        if 2 * k < n:
            return None
        return self.spectrum.matrix(self.weights)

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
    def cost(*spectra: Spectrum) -> float:
        """Return the multiplications in one product with each of two sides of a grid."""
        (m, k), (q, r) = (spectrum.vectors.shape for spectrum in spectra)
        return products((min(m, 2 * k), m, q), (min(q, 2 * r), m, q))


class GridOperators(ABC):
    r"""The operators of a model on grids of shape (m, q), from the spectra of its sides and the `remainder`.

    By default it is ridge regression on pairs with the kernel :math:`\lambda(1-\rho)/\rho` in the
    rotated labels, where
    :math:`\rho` is the remainder and :math:`\lambda` the `ridge`, or 1 if the ridge is 0.
    """

    #: Whether the model can be solved for observed pairs without a grid, see
    #: `dyadlearn.solve.observed`.
    takes_pairs: ClassVar[bool] = False
    #: Shares a, b and c of a pair kernel a·K⊗G + b·K⊗I + c·I⊗G; None for other models.
    shares: tuple[float, float, float] | None = None

    @property
    @abstractmethod
    def ridge(self) -> float:
        """The ridge that is added to the pairwise kernel."""

    @property
    def free_mean(self) -> bool:
        """Whether the grand mean is unpenalised; by default, whether both sides have a free constant."""
        return self._has_constants

    def fixed_part(self, n_pairs: int, like: Array) -> FixedPart:
        """Return the columns without penalty of some pairs: a constant if there is a free mean."""
        if self.free_mean:
            return FixedPart.constant(n_pairs, like)
        return FixedPart.none(n_pairs, like)

    @property
    def n_fixed(self) -> int:
        """Number of columns without penalty."""
        return int(self.free_mean)

    def shift_of(self, values: Array, weights: Array | None = None) -> float:
        """Return the number that is subtracted from labels for accuracy: their mean if it is free, else 0."""
        return mean_of(values, weights) if self.free_mean else 0.0

    @property
    def is_product(self) -> bool:
        """Whether the pairwise kernel is the product of both sides' kernels."""
        return False

    @property
    def hat_is_identity(self) -> bool:
        """Whether λ = 0 at full rank: hat matrices are identities, and residuals are defined up to scale."""
        return False

    @property
    def floor(self) -> float:
        """Lower bound of slacks; 0 if all directions but a free mean are penalised."""
        whole = self._penalised_remainder <= 0
        if bool(namespace(whole).any(whole)):
            return slack_floor(self.grid_spectra[0], math.inf)
        return 0.0

    @property
    def interpolates(self) -> bool:
        """Whether the model fits some labels exactly, so that it has no regularised solution for observed labels."""
        return self.ridge <= 0 or self.floor > 0

    @property
    def prefers_residual(self) -> bool:
        """Whether shrinkage is mostly weak, so that the residual operator is smaller and more accurate than the hat."""
        xp = namespace(self.remainder)
        kept = self.remainder < 0.5
        return not self.is_truncated and 2 * int(xp.sum(xp.astype(kept, xp.int64))) > self.n_cells

    @property
    def prefers_hat(self) -> bool:
        """Whether the hat is smaller than the residual operator, and defined."""
        return not self.prefers_residual and not self.hat_is_identity

    @property
    def residual_cost(self) -> float:
        """Multiplications in one product with the residual operator, by default one rotation and the reverse."""
        m, q = self.shape
        k, r = self.n_directions
        return products((2, k, m, q), (2, k, q, r))

    #: Multiplications in one product with the pairwise kernel, by default as many.
    kernel_cost = residual_cost

    @property
    @abstractmethod
    def grid_spectra(self) -> tuple[Spectrum, Spectrum]:
        """Spectra of the rows and of the columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers m and q of rows and columns."""
        rows, columns = self.grid_spectra
        return rows.n_rows, columns.n_rows

    @property
    def vectors(self) -> tuple[Array, Array]:
        """Eigenvectors (m, k) of the rows and (q, l) of the columns."""
        rows, columns = self.grid_spectra
        return rows.vectors, columns.vectors

    @property
    def n_directions(self) -> tuple[int, int]:
        """Numbers k and l of eigenvectors."""
        rows, columns = self.grid_spectra
        return int(rows.values.shape[0]), int(columns.values.shape[0])

    @property
    def n_cells(self) -> int:
        """Number of cells of the grid."""
        return math.prod(self.shape)

    @cached_property
    def shrinkage(self) -> Array:
        """The hat f in the rotated labels, shape (k, l)."""
        return 1.0 - self.remainder

    @property
    @abstractmethod
    def remainder(self) -> Array:
        """The residual 1 − f in the rotated labels, shape (k, l); up to its scale if `hat_is_identity`."""

    @cached_property
    def kernel_values(self) -> Array:
        """The pairwise kernel in the rotated labels, shape (k, l); zero for unpenalised directions."""
        return ratio((self.ridge or 1.0) * self.shrinkage, self.remainder)

    @property
    def is_truncated(self) -> bool:
        """Whether a null space is left out of a spectrum."""
        return any(spectrum.is_truncated for spectrum in self.grid_spectra)

    @cached_property
    def is_graded(self) -> bool:
        """Whether blocks of the residual operator and of the kernel may be singular to all digits."""
        return is_graded(
            self._penalised_remainder,
            sum(self.shape),
            self.is_truncated,
        )

    @property
    def _has_constants(self) -> bool:
        """Whether both sides have a free constant as their last direction."""
        return all(side.has_free_constant for side in self.grid_spectra)

    @property
    def _penalised_remainder(self) -> Array:
        """Remainders (n, 1) of all directions but the last if it is the grand mean, which any label determines."""
        remainders = namespace(self.remainder).reshape(self.remainder, (-1, 1))
        if self._has_constants:
            return remainders[:-1, :]
        return remainders

    def rotated(self, grid: Array) -> Array:
        """Return UᵀYV of shape (k, l) for labels Y of shape (m, q)."""
        rows, columns = self.grid_spectra
        return columns.rotate(rows.rotate(grid).T).T

    def on_grid(self, rotated: Array) -> Array:
        """Return UXVᵀ of shape (m, q) for rotated values X of shape (k, l)."""
        left, right = self.vectors
        return sandwich(left, rotated, right)

    def _product(self, weights: Array, grid: Array) -> Array:
        """Return U (w ∘ Uᵀ grid V) Vᵀ for weights (k, l) of the rotated labels."""
        return self.on_grid(weights * self.rotated(grid))

    def block(self, weights: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the operator with these weights (k, l) in the rotated labels between some cells, shape (n, n)."""
        return self._between(weights, (rows, columns), (rows, columns))

    def _between(self, weights: Array, first: Places, second: Places) -> Array:
        """Return the operator with weights (k, l) between some cells and others, shape (s, n)."""
        left, right = self.vectors
        if 2 * second[0].size > self.n_cells:
            return self._between_grid(weights, first, second)
        # The loop runs over the cells, and the side, with the fewest distinct rows.
        n_first, n_second = (min(np.unique(at).size for at in cells) for cells in (first, second))
        if 0 < n_second < n_first:
            return self._between(weights, second, first).T
        if np.unique(first[1]).size < np.unique(first[0]).size:
            left, right, weights = right, left, weights.T
            first = first[::-1]
            second = second[::-1]
        first_right = take_rows(right, first[1])
        second_right = take_rows(right, second[1])
        distinct, place = np.unique(second[0], return_inverse=True)
        distinct_left = take_rows(left, distinct)
        pieces = []
        members = []
        for row in np.unique(first[0]):
            here = np.flatnonzero(first[0] == row)
            # Row of the operator for this row, with the other side rotated.
            rotated = (distinct_left * left[int(row), :]) @ weights
            pieces.append(
                take_rows(first_right, here) @ (take_rows(rotated, place) * second_right).T
            )
            members.append(here)
        return in_order(pieces, members)

    def _between_grid(self, weights: Array, first: Places, second: Places) -> Array:
        """Return the same where the other cells are most of the grid, by an image of the grid for each cell."""
        left, right = self.vectors
        xp = namespace(left)
        m, k = left.shape
        q, r = right.shape
        places = second[0] * q + second[1]
        pieces = []
        for here in row_blocks(first[0].size, (2, k, r), (2, k, q), (2, m, q)):
            spread = (
                take_rows(left, first[0][here])[:, :, None]
                * take_rows(right, first[1][here])[:, None, :]
            )
            number = spread.shape[
                0
            ]  # a side without directions leaves the other lengths to no inference
            spread = xp.reshape(spread * weights, (number * k, r)) @ right.T
            images = left @ xp.reshape(spread, (number, k, q))
            flat = xp.reshape(images, (number, m * q))
            pieces.append(xp.take(flat, as_array_of(places, flat), axis=1))
        return xp.concat(pieces, axis=0)

    #: Grid E and factor c of the rank-one part c EEᵀ of the hat that belongs to a free mean; None
    #: without one.
    mean_part: tuple[Array, float] | None = None

    def between(self, first: Places, second: Places, *, hat: bool) -> Array:
        """Return the hat, or the residual operator, between some cells and others, shape (s, n).

        The residual operator of a truncated spectrum must not be asked for: the hat is smaller.
        """
        weights, sign = self.weights_of(hat=hat)
        block = self._between(weights, first, second)
        if self.mean_part is not None:
            grid, factor = self.mean_part
            at, others = (entries_at(grid, *cells) for cells in (first, second))
            block += at[:, None] * (others[None, :] * (sign * factor))
        return block

    def weights_of(self, *, hat: bool) -> tuple[Array, float]:
        """Return the weights (k, l) of the hat or of the residual operator, and the sign in it of `mean_part`."""
        return (self.shrinkage, 1.0) if hat else (self.remainder, -1.0)

    def weighted_diagonal(self, weights: Array) -> Array:
        """Return (U∘U) w (V∘V)ᵀ of shape (m, q), the diagonal of the operator with weights (k, l)."""
        rows, columns = self.grid_spectra
        return columns.diagonal(rows.diagonal(weights).T).T

    def part_diagonal(self, *, hat: bool) -> Array:
        """Return the diagonal of the hat, or of the residual operator, shape (m, q)."""
        weights, sign = self.weights_of(hat=hat)
        diagonal = self.weighted_diagonal(weights)
        if self.mean_part is not None:
            grid, factor = self.mean_part
            diagonal = diagonal + sign * factor * grid * grid
        return diagonal

    def hat(self, grid: Array) -> Array:
        """Return the fitted grid."""
        return self._product(self.shrinkage, grid)

    def residual(self, grid: Array) -> Array:
        """Return the grid less the fitted grid."""
        if self.is_truncated:
            return grid - self.hat(grid)
        return self._product(self.remainder, grid)

    def kernel(self, grid: Array) -> Array:
        """Return the pairwise kernel times a grid."""
        return self._product(self.kernel_values, grid)

    def residual_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the residual operator between some cells, shape (n, n)."""
        cells = (rows, columns)
        if not self.is_truncated:
            return self.between(cells, cells, hat=False)
        block = self.between(cells, cells, hat=True)
        return identity(block) - block

    def kernel_block(self, rows: np.ndarray, columns: np.ndarray) -> Array:
        """Return the pairwise kernel between some cells, shape (n, n)."""
        return self.block(self.kernel_values, rows, columns)

    def kernel_between(self, first: Places, second: Places) -> Array:
        """Return the pairwise kernel between some cells and others, shape (s, n)."""
        return self._between(self.kernel_values, first, second)

    def part(self, kept: np.ndarray, axis: int) -> GridOperators:
        """Return the operators of some rows (axis 0) or columns (1) only, of models with `shares`."""
        raise NotImplementedError

    def split_kernel(
        self, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[Array, Array | None, Array | None]:
        """Return a part of the kernel between some cells (n, n), and the rest as a border with its penalties.

        By default the part is the kernel, and the border None: ones without a penalty.
        """
        return self.kernel_block(rows, columns), None, None


def common_floor(*sides: Smoother) -> float:
    """Return the lower bound of slacks of pairs, which vanish only if those of both sides do.

    An unpenalised direction of one side is also unpenalised together with a free constant of the
    other. Two free constants alone do not count: any label determines a mean.
    """
    if not any(side.slack_floor for side in sides):
        return 0.0
    if not all(side.slack_floor or side.spectrum.has_free_constant for side in sides):
        return 0.0
    # The slack of a free constant is rounding, too, which is larger for a truncated spectrum.
    return max(side.slack_floor or slack_floor(side.spectrum, 1.0) for side in sides)


def interpolation_floor(alpha: float, *spectra: Spectrum) -> float:
    """Return the lower bound of slacks: 0 unless λ = 0 and a kernel has a null space."""
    if alpha > 0:
        return 0.0
    # Rounding can mix the null space with other directions only where there is one.
    floors = [
        slack_floor(spectrum, _condition(spectrum)) for spectrum in spectra if spectrum.is_singular
    ]
    return max(floors, default=0.0)


def _condition(spectrum: Spectrum) -> float:
    positive = to_numpy(spectrum.values)
    positive = positive[positive > 0]
    if positive.size:
        return float(positive.max() / positive.min())
    return 1.0


def reduced(side: Smoother, rows: np.ndarray, weights: Array | None = None) -> Smoother:
    r"""Return the operators of a side for labels of some rows only, with the penalty of all rows.

    Neither Ξ nor the Schur complement is formed: the singular values of its factor
    :math:`\mathbf{U}_O\sqrt{f/(1-f)}` span half as many orders of magnitude.

    Parameters
    ----------
    side : Smoother
        Smoother of n rows.
    rows : integer array of shape (p,)
        Rows that stay.
    weights : array of shape (p, 1), default=None
        Weights of these rows in the squared loss.

    Returns
    -------
    Smoother
        Smoother of p rows. With weights, it applies to labels multiplied by the roots of the
        weights, and so does its free constant. Its eigenvalues are only meaningful for the gap
        between unpenalised and other directions.

    Raises
    ------
    LeverageError
        If the labels that stay do not determine the unpenalised directions.

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
    xp = namespace(side.shrinkage)
    hat_is_identity = side.remainder_limit is not None
    side = side.scaled()
    check_hidden(side, without(rows, side.spectrum.n_rows))
    is_whole = _whole(side)
    constant = None
    if side.spectrum.has_free_constant:
        constant = side.spectrum.constant
    # A free constant, the last direction, comes first: other unpenalised directions are made
    # orthogonal to it.
    whole = np.flatnonzero(is_whole)[::-1]
    others = np.flatnonzero(~is_whole)
    # In descending order of the singular values: in ascending order, small ones would be lost in
    # rounding.
    others = others[np.argsort(to_numpy(side.remainder)[others])]
    vectors = take_rows(side.spectrum.vectors, rows)
    vectors = (vectors if weights is None else vectors * weights**0.5).T
    shares = take_rows(side.shrinkage, others) / take_rows(side.remainder, others)
    factor = xp.concat(
        [take_rows(vectors, whole).T, take_rows(vectors, others).T * shares**0.5], axis=1
    )
    orthogonal, triangle = xp.linalg.qr(factor, mode="reduced")
    r = whole.size
    first = int(constant is not None)
    left, roots, _ = svd(triangle[r:, r:])
    vectors = xp.concat(
        [orthogonal[:, first:r], orthogonal[:, r:] @ left, orthogonal[:, :first]], axis=1
    )
    values = roots**2
    last = xp.zeros_like(vectors[0, :first])
    free = xp.ones_like(vectors[0, first:r])
    if hat_is_identity:
        filter = Tabulated(xp.ones_like(values), xp.zeros_like(values), 1.0 / values)
    else:
        shrinkage = values / (1.0 + values)
        remainder = 1.0 / (1.0 + values)
        filter = Tabulated(xp.concat([free, shrinkage]), xp.concat([0.0 * free, remainder]))
        if free.shape[0]:
            values = xp.concat([free, (1.0 - _gap(side, is_whole)) * xp.ones_like(values)])
    spectrum = Spectrum(xp.concat([values, last]), rows.size, None, vectors, None, constant)
    return spectrum.smoother(filter, side.alpha)


def predict_others(side: Smoother, rows: np.ndarray, labels: Array) -> Array:
    r"""Return predictions for rows from labels of the others, :math:`-\mathbf{R}_{II}^{-1}\mathbf{R}_{IO}\mathbf{Y}_O`.

    Parameters
    ----------
    side : Smoother
        Smoother of n rows.
    rows : integer array of shape (p,)
        Rows that have labels.
    labels : array of shape (p, c)

    Returns
    -------
    array of shape (n - p, c)
        Predictions for the other rows, in ascending order.

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
    side = side.scaled()
    xp = namespace(labels)
    hidden = without(rows, side.spectrum.n_rows)
    if not rows.size and not side.spectrum.has_free_constant:
        return zeros((hidden.size, labels.shape[1]), labels)
    check_hidden(side, hidden)
    if _loses_digits(side):
        return _least_penalty(side, rows, hidden, labels)
    vectors = side.spectrum.vectors
    weights = side.off_diagonal_weights
    right = take_rows(vectors, hidden) @ (weights[:, None] * (take_rows(vectors, rows).T @ labels))
    return xp.linalg.solve(side.residual_block(hidden), right)


def _loses_digits(side: Smoother) -> bool:
    """Return whether systems of the residual operator may lose more than four digits."""
    remainders = to_numpy(side.remainder)
    positive = remainders[remainders > 0]
    if side.spectrum.is_truncated:
        top = 1.0
    else:
        top = positive.max(initial=0.0)
    return bool(positive.min(initial=top) < _LEAST_REMAINDER * top)


def _least_penalty(side: Smoother, rows: np.ndarray, hidden: np.ndarray, labels: Array) -> Array:
    r"""Return the labels of hidden rows with the least penalty :math:`\|\sqrt{1-f}\,\mathbf{U}^\top\mathbf{y}\|^2`.

    They solve the system of `predict_others`. In the entries of its matrix, directions with a small
    remainder are lost; in a factorisation with sorted rows, each direction keeps its digits.
    """
    xp = namespace(labels)
    spectrum = side.spectrum
    remainder = side.remainder
    if (
        spectrum.is_truncated
    ):  # the null space has a remainder of one, and its own orthonormal directions
        n_penalised = remainder.shape[0] - spectrum.has_free_constant
        null = zeros((spectrum.n_rows - remainder.shape[0],), remainder) + 1.0
        remainder = xp.concat([remainder[:n_penalised], null, remainder[n_penalised:]])
        spectrum = spectrum.completed()
    root = remainder[:, None] ** 0.5
    matrix = root * take_rows(spectrum.vectors, hidden).T
    right = -root * (take_rows(spectrum.vectors, rows).T @ labels)
    solution, error = sorted_least_squares(matrix, right)
    size = largest(xp.abs(labels))
    if not math.isfinite(error):
        raise leverage_error(hidden, side.spectrum.n_rows, "rows are missing and")
    warn_of_rounding(error / size if size else 0.0)
    return solution


def check_hidden(side: Smoother, hidden: np.ndarray) -> None:
    """Raise `LeverageError` if hidden rows of a side have leverage 1.

    Then the other rows do not determine all unpenalised directions. The check uses singular values,
    whose squares have an error of ε², where eigenvalues of the residual operator have an error of
    ε.
    """
    whole = np.flatnonzero(_whole(side))
    if whole.size and hidden.size:
        seen = take_rows(side.spectrum.vectors, without(hidden, side.spectrum.n_rows))
        n_seen = int(seen.shape[0])
        roots = svd(take_rows(seen.T, whole).T)[1]
        if n_seen < whole.size or float(namespace(roots).min(roots)) ** 2 <= side.slack_floor:
            raise leverage_error(hidden, side.spectrum.n_rows, "rows are missing and")


def without(rows: np.ndarray, n_rows: int) -> np.ndarray:
    """Return the positions from 0 to `n_rows` - 1 that are not among `rows`, in ascending order."""
    return np.delete(np.arange(n_rows), rows)


def embedded(grid: Array, values: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return a grid (m, q) in which some rows and columns are replaced by a block of values."""
    xp = namespace(grid)
    places = np.arange(math.prod(grid.shape)).reshape(grid.shape) + math.prod(values.shape)
    places[np.ix_(rows, columns)] = np.arange(math.prod(values.shape)).reshape(values.shape)
    together = xp.concat([xp.reshape(values, (-1,)), xp.reshape(grid, (-1,))])
    return xp.reshape(take_rows(together, places.reshape(-1)), grid.shape)


def _whole(side: Smoother) -> np.ndarray:
    """Return a mask (k,) of the directions that are unpenalised up to the precision."""
    if side.spectrum.is_truncated:
        scale = 1.0
    else:
        scale = largest(side.remainder)
    if scale < np.finfo(np.float64).tiny:
        scale = 1.0  # all remainders have underflowed
    return np.asarray(to_numpy(side.remainder) <= scale * epsilon(side.remainder) ** 2)


def _gap(side: Smoother, is_whole: np.ndarray) -> float:
    """Return the gap between the eigenvalues of unpenalised and other directions, relative to the largest."""
    values = to_numpy(side.spectrum.penalised)
    is_whole = is_whole[: side.spectrum.penalised.shape[0]]
    below = values[~is_whole].max() if not is_whole.all() else 0.0
    return float((values[is_whole].min() - below) / values.max())

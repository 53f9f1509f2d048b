r"""Weighted least squares with a ridge of any size, for rows of features and for observed cells.

With features :math:`\mathbf{Z}` (n, p), weights :math:`w` and a ridge :math:`c`, `LeastSquares`
minimises

.. math:: \left\|\sqrt w\,(\mathbf{Zx} + \mu - \mathbf{y})\right\|^2 + c\,\|\mathbf{x}\|^2 .

The system of the dual coefficients, :math:`\mathbf{ZZ}^\top + c\,\mathrm{diag}(1/w)`, and the
normal equations lose as many digits as c/w is smaller than the kernel if the kernel is singular, or
if weights differ by many orders of magnitude. An orthogonal factorisation of :math:`\sqrt
w\,\mathbf{Z}` loses none of them. Its rows are sorted by their size and its columns are pivoted, so
that errors are relative to each row (Cox and Higham 1998); columns that are rounding are left out.
The mean is removed by a reflection that maps :math:`\sqrt w` to the first row. Without the mean,
:math:`\sqrt w\,\mathbf{Z} = \mathbf{QT}`. A second factorisation of this kind has the ridge as additional rows,

.. math:: \begin{bmatrix}\mathbf{T} \\ \sqrt c\,\mathbf{I}\end{bmatrix}\mathbf{X}
          = \begin{bmatrix}\mathbf{O} \\ \mathbf{O}'\end{bmatrix}, \qquad
          \mathbf{L} = \mathbf{QO}, \qquad \mathbf{x} = \mathbf{XL}^\top\sqrt w\,\mathbf{y},

with orthonormal columns on the right, so that the hat matrix is :math:`\mathbf{LL}^\top`. A
singular value decomposition of T would have an error of :math:`\varepsilon` times its largest
singular value in all others.

`CellsFit` is the same for observed cells of a grid. With the eigenvectors :math:`\boldsymbol\Phi`
of all pairs at these cells and the eigenvalues :math:`S` of the pairwise kernel (see
`dyadlearn.solve.missing`), the features of the cells are :math:`\mathbf{Z} = \boldsymbol\Phi\sqrt
S`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from dyadlearn._array import (
    Array,
    epsilon,
    largest,
    namespace,
    pivoted_qr,
    placed,
    sorted_qr,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._rounding import warn_of_rounding
from dyadlearn.labels import Labels
from dyadlearn.solve.operators import GridOperators, without

#: Ratio of the largest eigenvalue of the weighted kernel to the ridge above which the kernel of the
#: cells loses digits.
STIFF = 1e9
# Maximum number of directions, and of numbers in the matrix of cells and directions.
_MOST_DIRECTIONS = 512
_MOST_NUMBERS = 2**20
# Largest rounding error of a feature without its mean, in units of the precision, for each row.
_ROUNDING = 4.0
# Up to this leverage h, the difference 1 − h loses at most one digit.
_FAR_FROM_ONE = 0.9


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Ridge regression of weighted rows, by orthogonal factorisations.

    Attributes
    ----------
    features : array of shape (n, p)
    root : array of shape (n,)
        Roots of the weights.
    ridge : float
    has_mean : bool
        Whether there is an unpenalised mean.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.solve.directions import LeastSquares
    >>> system = LeastSquares(np.array([[1.0], [2.0]]), np.array([1.0, 1e9]), 1e-30, has_mean=False)
    >>> coefficients, mean = system.solve(np.array([[5.0], [6.0]]))  # the second row has nearly all the weight
    >>> coefficients.round(6)
    array([[3.]])
    """

    features: Array
    root: Array
    ridge: float
    has_mean: bool

    @cached_property
    def _order(self) -> np.ndarray:
        """Rows in descending order of their size."""
        xp = namespace(self.root)
        sizes = self.root * xp.max(xp.abs(self.features), axis=1)
        return np.argsort(-to_numpy(sizes), kind="stable")

    @cached_property
    def _reflection(self) -> Array | None:
        """Unit vector (n, 1) of the reflection that maps the roots of the weights to the first row."""
        if not self.has_mean:
            return None
        xp = namespace(self.root)
        root = take_rows(self.root, self._order)
        vector = root / xp.linalg.vector_norm(root)
        vector = xp.concat([vector[:1] + 1.0, vector[1:]])
        return (vector / xp.linalg.vector_norm(vector))[:, None]

    def _reflected(self, values: Array) -> Array:
        """Return ordered values (n, c) without their part along the roots of the weights, shape (n − 1, c)."""
        if self._reflection is None:
            return values
        return (values - 2.0 * self._reflection @ (self._reflection.T @ values))[1:, :]

    @cached_property
    def _factors(self) -> tuple[Array, Array]:
        """Matrices Q (n, k) and T (k, p). The rows of Q are reflected, and in the order of their sizes.

        Entries that are rounding are set to zero. Where a large feature is a combination of others
        or of the mean, the rounding would be a small feature, and the ridge would hardly shrink its
        coefficient.
        """
        xp = namespace(self.root)
        ordered = take_rows(self.root[:, None] * self.features, self._order)
        # The error of an entry is relative to the size of its feature, and to that of its row.
        columns, rows = (xp.max(xp.abs(ordered), axis=axis) for axis in (0, 1))
        error = max(ordered.shape) * epsilon(ordered) * xp.minimum(rows[:, None], columns[None, :])
        reflected = self._reflected(ordered)
        if self._reflection is not None:
            error = error[1:, :]
            reflected = _without_rounding(reflected, error)
            reflected = xp.where(self._is_constant(reflected)[None, :], 0.0, reflected)
        orthogonal, rest = pivoted_qr(reflected)
        return orthogonal, _without_rounding(rest, error[: rest.shape[0], :])

    def _is_constant(self, reflected: Array) -> Array:
        """Return which features (p,) no row tells from the mean: rounding is all that the mean leaves of them."""
        xp = namespace(reflected)
        sizes = xp.max(xp.abs(self.features), axis=0)
        roots = take_rows(self.root, self._order[1:])
        level = (
            _ROUNDING * self.root.shape[0] * epsilon(reflected) * roots[:, None] * sizes[None, :]
        )
        return xp.all(xp.abs(reflected) <= level, axis=0)

    @cached_property
    def _decomposition(self) -> tuple[Array, Array]:
        """Matrices L (n, p), with rows in the original order, and X (p, p)."""
        xp = namespace(self.root)
        orthogonal, rest = self._factors
        n_kept, n_features = rest.shape
        penalty = math.sqrt(self.ridge) * xp.eye(n_features, dtype=rest.dtype, device=rest.device)
        inner, solver = sorted_qr(xp.concat([rest, penalty], axis=0))
        left = orthogonal @ inner[:n_kept, :]
        if self._reflection is not None:
            left = xp.concat([zeros((1, left.shape[1]), left), left])
            left = left - 2.0 * self._reflection @ (self._reflection.T @ left)
        # A feature of which nothing is left has no coefficient.
        solver = xp.where(xp.any(rest != 0, axis=0)[:, None], solver, 0.0)
        return take_rows(left, np.argsort(self._order)), solver

    @cached_property
    def _shares(self) -> Array:
        """Share of the weight of each row, shape (n,); zeros without a mean."""
        xp = namespace(self.root)
        weights = self.root**2
        if self.has_mean:
            return weights / xp.sum(weights)
        return xp.zeros_like(weights)

    def solve(self, labels: Array, asked: Array | None = None) -> tuple[Array, Array]:
        """Return the coefficients x (p, c) and the means (c,) for labels (n, c).

        Rounding is judged by the fitted values, and by the predictions for other rows of features
        `asked`.
        """
        left, solver = self._decomposition
        coefficients = solver @ (left.T @ (self.root[:, None] * labels))
        means = self._shares @ (labels - self.features @ coefficients)
        self._check_precision(labels, self.features @ coefficients + means, asked)
        return coefficients, means

    def _check_precision(self, labels: Array, fitted: Array, asked: Array | None) -> None:
        """Warn if rounding of the features changes predictions noticeably.

        The residuals of heavy rows, times the rounding of their features, move directions that
        light rows determine.
        """
        xp = namespace(labels)
        left, solver = self._decomposition
        size = largest(xp.abs(labels))
        if not solver.shape[0] or not size:
            return
        # The rounding error of a feature is relative to its size in all rows, and counts as the
        # row's weight does. Directions that only the penalty determines have no part in the rows,
        # and are not moved.
        rest = largest(xp.sum((self.root**2)[:, None] * xp.abs(labels - fitted), axis=0))
        sizes = xp.max(xp.abs(self.features), axis=0)
        moved = xp.linalg.vector_norm(sizes[:, None] * solver, axis=0) * xp.linalg.vector_norm(
            left, axis=0
        )
        if asked is None:
            rows = self.features
        else:
            rows = xp.concat([self.features, asked])
        reach = xp.max(xp.abs(rows @ solver), axis=0)
        warn_of_rounding(largest(reach * moved) * epsilon(solver) * rest / size)

    def label_weights(self, asked: Array) -> Array:
        """Return the weight (n, c) of each label in the predictions for other rows of features (c, p)."""
        left, solver = self._decomposition
        centred = asked - self._shares @ self.features
        return self._shares[:, None] + self.root[:, None] * (left @ (solver.T @ centred.T))

    @cached_property
    def leverage(self) -> Array:
        """Weight (n,) of each label in its own fitted value."""
        left, _ = self._decomposition
        return self._shares + namespace(left).sum(left**2, axis=1)

    def leave_one_out(self, labels: Array) -> Array:
        """Return the predictions (n, c) of labels (n, c) by the fit without each row."""
        xp = namespace(labels)
        coefficients, means = self.solve(labels)
        leverage = self.leverage[:, None]
        is_high = leverage > _FAR_FROM_ONE
        fitted = self.features @ coefficients + means
        held_out = (fitted - leverage * labels) / xp.where(is_high, 1.0, 1.0 - leverage)
        # The difference 1 − h has no digits for leverages near one, of which there are about as
        # many as directions.
        for place in np.flatnonzero(to_numpy(is_high)).tolist():
            others = without(np.asarray([place]), labels.shape[0])
            rest = replace(
                self, features=take_rows(self.features, others), root=take_rows(self.root, others)
            )
            asked = self.features[place : place + 1, :]
            coefficients, means = rest.solve(take_rows(labels, others), asked)
            held_out[place, :] = asked[0, :] @ coefficients + means
        return held_out


def _without_rounding(values: Array, error: Array) -> Array:
    """Return values with zeros in place of those that do not exceed their error."""
    xp = namespace(values)
    return xp.where(xp.abs(values) <= error, 0.0, values)


def suit_directions(operators: GridOperators, n_cells: int, largest_weight: float = 1.0) -> bool:
    """Return whether a singular kernel of some cells would lose digits, and the directions are affordable."""
    if operators.interpolates:
        return False
    if operators.shares is not None and operators.shares[0] > 0:
        n_least = math.prod(
            int(np.count_nonzero(to_numpy(side.values))) for side in operators.grid_spectra
        )
        if n_least > _MOST_DIRECTIONS:  # without the eigenvalues of all pairs
            return False
    with np.errstate(
        over="ignore"
    ):  # filters may leave less of a direction than a number can be divided by
        values = to_numpy(operators.kernel_values)
    if not np.isfinite(values).all():
        return False
    n_directions = int(np.count_nonzero(values))
    is_affordable = n_directions <= _MOST_DIRECTIONS and n_directions * n_cells <= _MOST_NUMBERS
    is_stiff = values.max(initial=0.0) * largest_weight > STIFF * operators.ridge
    return is_affordable and is_stiff and n_directions > 0


@dataclass(frozen=True, eq=False)
class CellsFit:
    """Weighted least squares fit of labels at some cells.

    Attributes
    ----------
    operators : GridOperators
        Operators of a model that `suit_directions` accepts.
    rows, columns : integer arrays of shape (n,)
        The cells.
    labels : array of shape (n,)
        Labels; centred, if the model has a free mean.
    root : array of shape (n,)
        Roots of the weights.
    """

    operators: GridOperators
    rows: np.ndarray
    columns: np.ndarray
    labels: Array
    root: Array

    @classmethod
    def of(cls, operators: GridOperators, known: Labels, labels: Array) -> Self:
        """Return the fit of labels (n,) at the pairs, and with the weights, of known ones."""
        return cls(operators, *known.places, labels, known.loss_weights**0.5)

    @cached_property
    def _kept(self) -> np.ndarray:
        """Positions of the directions with a positive eigenvalue."""
        return np.flatnonzero(to_numpy(self.operators.kernel_values))

    @cached_property
    def _scale(self) -> Array:
        """Roots of these eigenvalues, shape (p,)."""
        values = self.operators.kernel_values
        return take_rows(namespace(values).reshape(values, (-1,)), self._kept) ** 0.5

    @cached_property
    def _vectors(self) -> Array:
        """Eigenvectors of the pairs at the cells, shape (n, p)."""
        left, right = self.operators.vectors
        products = (
            take_rows(left, self.rows)[:, :, None] * take_rows(right, self.columns)[:, None, :]
        )
        products = namespace(left).reshape(products, (self.rows.size, -1))
        return take_rows(products.T, self._kept).T

    @cached_property
    def system(self) -> LeastSquares:
        """The regression of the cells on their directions."""
        return LeastSquares(
            self._vectors * self._scale, self.root, self.operators.ridge, self.operators.free_mean
        )

    @cached_property
    def _solution(self) -> tuple[Array, Array]:
        """Coefficients x (p,) and the mean, of shape ()."""
        coefficients, means = self.system.solve(self.labels[:, None])
        return coefficients[:, 0], means[0]

    def spectral(self) -> tuple[Array, float]:
        """Return the coefficients (k, l) of all directions, zero where the eigenvalue is not positive, and the mean."""
        coefficients, mean = self._solution
        shape = self.operators.kernel_values.shape
        spectral = placed([coefficients], [self._kept], math.prod(shape), 0.0)
        return namespace(spectral).reshape(spectral, shape), float(mean)

    def grid(self) -> Array:
        """Return the fitted grid (m, q)."""
        spectral, mean = self.spectral()
        return self.operators.on_grid(self.operators.kernel_values**0.5 * spectral) + mean

    def excess(self) -> Array:
        """Return the ridge times dual coefficients (n,), up to a part that the kernel maps to zero."""
        coefficients, mean = self._solution
        if largest(self.root) <= 1.0:
            return self.root**2 * (self.labels - (self.system.features @ coefficients + mean))
        # A large weight would multiply the rounding error of the difference.
        xp = namespace(self.root)
        vectors = self._vectors
        wanted = self.operators.ridge * coefficients / self._scale
        if self.operators.free_mean:  # dual coefficients sum to zero
            vectors = xp.concat([vectors, xp.ones_like(vectors[:, :1])], axis=1)
            wanted = xp.concat([wanted, xp.zeros_like(wanted[:1])])
        return xp.linalg.pinv(vectors.T) @ wanted

    def label_weights(self, rotated: Array) -> Array:
        """Return the weights (n,) of the labels in a prediction, from those (k, l) of the completed, rotated labels."""
        ridge = self.operators.ridge
        along = take_rows(namespace(rotated).reshape(rotated, (-1,)), self._kept)
        asked = along * (self._scale**2 + ridge) / self._scale
        return self.system.label_weights(asked[None, :])[:, 0]

    def leave_one_out(self) -> Array:
        """Return the prediction (n,) of each label by the model without it."""
        return self.system.leave_one_out(self.labels[:, None])[:, 0]

r"""The fixed part of a model of observed pairs: columns without penalty beside the kernel, such as that of a free mean.

With the columns :math:`\mathbf{F}` (n × r) of the labels and the inverse :math:`\mathbf{Q}` of the
kernel with its ridges, the coefficients of generalised least squares and the inverse with the fixed
part projected out are

.. math:: \boldsymbol\beta = \mathbf{S}^{-1}\mathbf{F}^\top\mathbf{Q}\,\mathbf{y}, \qquad
          \mathbf{N} = \mathbf{Q} - \mathbf{QF}\,\mathbf{S}^{-1}\mathbf{F}^\top\mathbf{Q}, \qquad
          \mathbf{S} = \mathbf{F}^\top\mathbf{QF} + \mathrm{diag}(\mathbf{d}) ,

with penalties :math:`\mathbf{d}` that are zero unless columns are almost unpenalised main effects.
A pair with the columns :math:`\boldsymbol\phi` and the kernel :math:`\mathbf{c}` to the labels has
the prediction
:math:`\mathbf{c}^\top\mathbf{Ny} + \boldsymbol\phi^\top\boldsymbol\beta`, and its variance has the additional term
:math:`\boldsymbol\delta^\top\mathbf{S}^{-1}\boldsymbol\delta`, with :math:`\boldsymbol\delta = \boldsymbol\phi -
\mathbf{F}^\top\mathbf{Qc}`. Hold-out by **N** estimates :math:`\boldsymbol\beta` without the labels
that are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from dyadlearn._array import Array, namespace, row_blocks, solve, take_rows, zeros
from dyadlearn.solve.blocks import identity


@dataclass(frozen=True, eq=False)
class FixedPart:
    """Columns beside the kernel of some pairs.

    Attributes
    ----------
    columns : array of shape (n, r)
        The columns F; without a fixed part, r is 0.
    penalties : array of shape (r,) or None
        Penalty of each column; None means unpenalised.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.solve.fixed import FixedPart
    >>> kernel = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> fit = FixedPart.constant(2, kernel).solved(lambda columns: np.linalg.solve(kernel, columns))
    >>> fit.coefficients(np.array([3.0, 5.0]))
    array([4.])
    """

    columns: Array
    penalties: Array | None = None

    @classmethod
    def constant(cls, n_pairs: int, like: Array, beside: Array | None = None) -> Self:
        """Return a constant of some pairs, labelled or new, before other columns.

        Parameters
        ----------
        n_pairs : int
        like : array
            An array of the library and type of the columns.
        beside : array of shape (n_pairs, r - 1), default=None
            Columns that follow the constant.
        """
        ones = zeros((n_pairs, 1), like) + 1.0
        return cls(ones if beside is None else namespace(ones).concat([ones, beside], axis=1))

    @classmethod
    def none(cls, n_pairs: int, like: Array) -> Self:
        """Return the fixed part of a model that has none."""
        return cls(zeros((n_pairs, 0), like))

    def new(self, n_pairs: int, beside: Array | None = None) -> FixedPart:
        """Return the same fixed part of other pairs: a constant before the columns `beside` (n_pairs, r - 1)."""
        if self.n_columns:
            kind = self.constant(n_pairs, self.columns, beside)
        else:
            kind = self.none(n_pairs, self.columns)
        if kind.n_columns != self.n_columns:
            raise ValueError(
                f"The fixed part has {self.n_columns} columns, found {kind.n_columns} for new "
                f"pairs."
            )
        return kind

    @property
    def n_columns(self) -> int:
        """Number r of columns."""
        return int(self.columns.shape[1])

    def take(self, at: np.ndarray) -> FixedPart:
        """Return the fixed part of some of the pairs."""
        return FixedPart(take_rows(self.columns, at), self.penalties)

    def solved(self, solver: Callable[[Array], Array]) -> FixedFit:
        """Return generalised least squares, from a function that multiplies columns (n, r) by the inverse Q."""
        return FixedFit(self, solver(self.columns) if self.n_columns else self.columns)

    def nearest(self, values: Array) -> Array:
        """Return the coefficients (r, p) of least squares for values (n, p) of the pairs."""
        return self.solved(lambda columns: columns).coefficients(values)


@dataclass(frozen=True, eq=False)
class FixedFit:
    """Generalised least squares of the fixed part.

    Attributes
    ----------
    part : FixedPart
    along : array of shape (n, r)
        The columns multiplied by the inverse, QF.
    """

    part: FixedPart
    along: Array

    @cached_property
    def precision(self) -> Array:
        """The matrix S (r, r): precision of the coefficients, in units of the residual variance."""
        system = self.part.columns.T @ self.along
        penalties = self.part.penalties
        if penalties is None:
            return system
        return system + penalties * identity(system)

    @cached_property
    def of_labels(self) -> Array:
        """Weight (r, n) of each label in the coefficients."""
        if self.part.n_columns:
            return solve(self.precision, self.along.T)
        return self.along.T

    def coefficients(self, labels: Array) -> Array:
        """Return the coefficients (r,) or (r, p) of labels (n,) or (n, p)."""
        return self.of_labels @ labels

    def projected(self, solved: Array) -> Array:
        """Return Ny for Qy, of shape (n,) or (n, p)."""
        if not self.part.n_columns:
            return solved
        return solved - self.of_labels.T @ (self.part.columns.T @ solved)

    def project_in_place(self, inverse: Array) -> Array:
        """Return the inverse N (n, n) for Q, which is overwritten."""
        n = int(inverse.shape[0])
        for here in row_blocks(n if self.part.n_columns else 0, n):
            inverse[here, :] -= self.along[here, :] @ self.of_labels
        return inverse

    def label_weights(self, weights: Array, columns: Array | None = None) -> Array:
        """Return the weight (n,) of each label in the prediction for a pair.

        Parameters
        ----------
        weights : array of shape (n,)
            Qc, with the kernel c between the pair and the labels.
        columns : array of shape (r,), default=None
            Columns of the pair; None means ones, for a constant.
        """
        if columns is None:
            columns = zeros((self.part.n_columns,), weights) + 1.0
        return self.projected(weights) + self.of_labels.T @ columns

    def gap(self, weights: Array, columns: Array) -> Array:
        """Return the columns (r, a) of pairs that Qc (n, a) does not fit."""
        return columns - self.part.columns.T @ weights

    def variance(self, gap: Array) -> Array:
        """Return the variance (a,) that uncertain coefficients add, for `gap` (r, a) of pairs."""
        xp = namespace(gap)
        return xp.sum(gap * self.covariance(gap), axis=0)

    def covariance(self, gap: Array) -> Array:
        """Return the product of the covariance of the coefficients with `gap`, shape (r, a)."""
        if self.part.n_columns:
            return solve(self.precision, gap)
        return gap

    @cached_property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the precision, for restricted likelihoods; 0 without a fixed part."""
        if not self.part.n_columns:
            return 0.0
        xp = namespace(self.precision)
        return float(xp.linalg.slogdet(self.precision)[1])


def mean_of(values: Array, weights: Array | None) -> float:
    """Return the weighted mean of values."""
    xp = namespace(values)
    if weights is None:
        return float(xp.mean(values))
    return float(xp.sum(weights * values)) / float(xp.sum(weights))

r"""Hold-out of observed labels, for any sets of labels, from one inverse.

Let :math:`\mathbf{N}` be the inverse of the system of the n observed labels, with the unpenalised
part projected out. Its scale does not matter. The predictions for the labels S by the model that
was fitted without them are

.. math:: \hat{\mathbf{y}}_S = \mathbf{y}_S - \mathbf{N}_{SS}^{-1}(\mathbf{N}\mathbf{y})_S
          = -\mathbf{N}_{SS}^{-1}\,\mathbf{N}_{S\bar S}\,\mathbf{y}_{\bar S} .

The second form keeps its digits where the regularisation is large. All settings differ in S only:
one pair (A), the labels of an instance (B), of a task (C), or of both (D); groups and folds are
unions of these.

=================  ======================================  ==========================================
inverse            module                                  content
=================  ======================================  ==========================================
`CellsInverse`     this one                                the matrix
                                                           :math:`(\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))^{-1}`
                                                           of the observed cells o
`FactorInverse`    `dyadlearn.solve.factor_inverse`        :math:`\mathbf{V}\,\mathrm{diag}(\rho)\,\mathbf{V}^\top`
                                                           with the eigenvectors of
                                                           :math:`\mathbf{P}_{oo}`, for many c and for
                                                           c = 0
`FeatureInverse`   `dyadlearn.solve.factor_inverse`        :math:`\mathbf{I} - \mathbf{FF}^\top` for few
                                                           features F of the pairs
`MissingInverse`   `dyadlearn.solve.missing_inverse`       the residual operator of the complete grid
                                                           without the missing cells
=================  ======================================  ==========================================

Where an inverse is known as a residual operator, :math:`\mathbf{N} = \mathbf{I} - \mathbf{H}`, the
smaller of :math:`\mathbf{N}` and :math:`\mathbf{H}` is computed, as in `dyadlearn.solve.leaving`.
Setting D is in `dyadlearn.solve.crossing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    inverse_and_log_determinant,
    largest,
    namespace,
    row_blocks,
    take_block,
    take_rows,
    with_diagonal,
)
from dyadlearn._rounding import rounding_level, solve_block
from dyadlearn.leverage import nothing_left
from dyadlearn.solve.blocks import Blocks, singular_set
from dyadlearn.solve.crossing import leave_crossed_out
from dyadlearn.solve.fixed import FixedFit, FixedPart
from dyadlearn.solve.leaving import in_order, members_of_one_size


class Singles(NamedTuple):
    """Every label left out by itself.

    Attributes
    ----------
    labels : array of shape (n,)
        Labels, times the root of their weights.
    sums : array of shape (n,)
        Each row of N without its diagonal, times the labels.
    diagonal : array of shape (n,)
        Diagonal of N.
    predictions : array of shape (n,)
        Prediction of each label by the model without it.
    level : array without axes
        Rounding error of a sum that is zero.
    """

    labels: Array
    sums: Array
    diagonal: Array
    predictions: Array
    level: Array


class Inverse(Blocks):
    """Inverse N of the system of n observed labels, with one leave-out for any sets of labels."""

    #: Factor (n,) of the labels for which N is the inverse; None is one.
    root: Array | None = None
    #: Estimated error of predictions by rounding, relative to the largest label.
    rounding: float = 0.0

    def leave_out(self, labels: Array, units: np.ndarray | None = None) -> Array:
        """Return the prediction of each label by the model that was fitted without its unit.

        Parameters
        ----------
        labels : array of shape (n, p)
        units : integer array of shape (n,), default=None
            Unit of each label; None means leave-one-out.

        Returns
        -------
        array of shape (n, p)

        Raises
        ------
        LeverageError
            If the model fits the labels of a unit exactly, whatever they are.
        """
        if units is None:
            units = np.arange(self.n_labels)
        if self.n_labels > 1 and (units == units[0]).all():
            raise nothing_left()
        scaled = self._scaled(labels)
        image = self.times(scaled)
        pieces = []
        places = []
        for members in members_of_one_size(units):
            size = members.shape[1]
            per_unit = ((3, size, size), (2, size, self.width))
            for some in row_blocks(members.shape[0], *per_unit):
                here = members[some]
                pieces.append(self._left_out(here, units, scaled, image))
                places.append(here.reshape(-1))
        return self._unscaled(in_order(pieces, places))

    def leave_set_out(self, labels: Array, at: np.ndarray) -> Array:
        """Return the predictions (s, p) of the labels of one set, by the model that was fitted without them."""
        units = np.zeros(self.n_labels, dtype=np.intp)
        units[at] = 1
        if at.size == self.n_labels:
            raise nothing_left()
        scaled = self._scaled(labels)
        held_out = self._left_out(at[None, :], units, scaled, self.times(scaled))
        if self.root is None:
            return held_out
        return held_out / take_rows(self.root, at)[:, None]

    def leave_singles_out(self, labels: Array) -> Singles:
        """Leave out each label (n,) by itself, and return what pairs of labels need besides."""
        members = np.arange(self.n_labels)[:, None]
        scaled = self._scaled(labels[:, None])
        sums, blocks, solved = self._solved_sets(members, members[:, 0], scaled, self.times(scaled))
        return Singles(
            labels=scaled[:, 0],
            sums=sums[:, 0, 0],
            diagonal=blocks[:, 0, 0],
            predictions=self._unscaled(-solved[:, 0, :])[:, 0],
            level=self.level(scaled)[0],
        )

    def singles_of(self, labels: Array, predictions: Array) -> Singles:
        """Return what `leave_singles_out` does, from labels (n,) without weights and known predictions (n,)."""
        diagonal = self.blocks(self.parts(np.arange(self.n_labels)[:, None]))[:, 0, 0]
        level = self.level(labels[:, None])[0]
        return Singles(labels, -diagonal * predictions, diagonal, predictions, level)

    def solved(self, labels: Array, ridge: float) -> Array:
        """Return the dual coefficients (n, p) of labels, for a model with this ridge."""
        scaled = self._scaled(labels)
        image = self.times(scaled)
        residual = scaled - image if self.is_hat else image
        return self._scaled(residual) / ridge

    def filled(self, labels: Array) -> Array | None:
        """Return the predictions (u, p) of the missing cells of the grid; None if the inverse does not know them."""
        return None

    def duals_without(
        self, labels: Array, held_out: Array, units: np.ndarray, n_units: int, ridge: float
    ) -> Array:
        r"""Return the dual coefficients of the models without each unit, shape (n, u).

        A model does not change if held-out predictions replace the labels of its unit S. With
        :math:`\mathbf{e}_S = \mathbf{y}_S - \hat{\mathbf{y}}_S`, the coefficients are
        :math:`\mathbf{N}\mathbf{y} - \mathbf{N}_{\cdot S}\mathbf{e}_S`, up to a factor. Those of the labels of the unit
        are zero if there is a ridge.

        Parameters
        ----------
        labels, held_out : arrays of shape (n,)
            Labels, and the result of `leave_out` for the units.
        units : integer array of shape (n,)
            Unit of each label, from 0 to u - 1. A unit may have no labels.
        n_units : int
            Number u of units.
        ridge : float
            Ridge of the model.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.solve.inverse import CellsInverse
        >>> inverse = CellsInverse.of(np.array([[2.0, 1.0], [1.0, 2.0]]), np.ones(2))
        >>> labels, each = np.array([3.0, 6.0]), np.arange(2)
        >>> inverse.duals_without(labels, inverse.leave_out(labels[:, None])[:, 0], each, 2, 1.0).round(6) + 0.0
        array([[0., 1.],
               [2., 0.]])
        """
        xp = namespace(labels)
        pieces = []
        for here in row_blocks(n_units, (4, self.n_labels)):
            is_own = as_array_of(units[:, None] == np.arange(n_units)[None, here], labels)
            changed = xp.where(is_own, held_out[:, None], labels[:, None])
            pieces.append(self.solved(changed, ridge))
        return xp.concat(pieces, axis=1)

    @property
    def width(self) -> int:
        """Number of values of the row of a label that leaving it out takes, beside those of its unit."""
        return 0

    def _left_out(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array
    ) -> Array:
        """Return predictions (number · size, p) of sets, given as their members (number, size)."""
        solved = self._solved_sets(members, units, labels, image)[2]
        return namespace(solved).reshape(-solved, (members.size, labels.shape[1]))

    def _solved_sets(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array
    ) -> tuple[Array, Array, Array]:
        """Return the `sums` of sets, their blocks of N, and the solutions of these for those."""
        parts = self.parts(members)
        sums = self.sums(members, units, labels, image, parts)
        blocks = self.blocks(parts)
        refusal = partial(singular_set, blocks, members, self.n_labels)
        solved = solve_block(blocks, sums, self.floor, self.is_graded, refusal, error=self.error)
        return sums, blocks, solved

    def leave_crossed_out(self, labels: Array, *units: np.ndarray) -> Array:
        """Return the prediction of each label by the model without its instances and without its tasks (setting D).

        Parameters
        ----------
        labels : array of shape (n, p)
        *units : two integer arrays of shape (n,)
            Unit of the instance and of the task of each label.

        Returns
        -------
        array of shape (n, p)
        """
        held_out = leave_crossed_out(self, self._scaled(labels), *units)
        return self._unscaled(held_out)

    def _scaled(self, labels: Array) -> Array:
        if self.root is None:
            return labels
        return labels * self.root[:, None]

    def _unscaled(self, labels: Array) -> Array:
        if self.root is None:
            return labels
        return labels / self.root[:, None]


@dataclass(frozen=True, eq=False)
class CellsInverse(Inverse):
    """The inverse as a matrix over the observed cells.

    Attributes
    ----------
    matrix : array of shape (n, n)
    log_determinant : float
        Logarithm of the determinant of the kernel with its ridges, without a border; NaN if it is
        not known.
    floor, is_graded : as in `Inverse`
        For a residual operator.
    fixed : FixedFit or None
        Generalised least squares of the fixed part, which is projected out; None without one.
    rounding : float
        As in `Inverse`.
    """

    matrix: Array
    log_determinant: float = math.nan
    floor: float = 0.0
    is_graded: bool = False
    fixed: FixedFit | None = None
    rounding: float = 0.0

    @classmethod
    def of(
        cls,
        kernel: Array,
        ridges: Array,
        fixed: FixedPart | None = None,
        refusal: Callable[[], Exception] = np.linalg.LinAlgError,
    ) -> Self:
        r"""Return the inverse of a kernel with ridges on its diagonal, and a fixed part projected out.

        It is **N** of `dyadlearn.solve.fixed` with :math:`\mathbf{Q} = (\mathbf{P} +
        \mathrm{diag}(\mathbf{c}))^{-1}`.

        Parameters
        ----------
        kernel : array of shape (n, n)
            The kernel P, which may be overwritten.
        ridges : array of shape (n,)
            The ridge c of each cell.
        fixed : FixedPart, default=None
            Columns that are projected out; None is no column.
        refusal : callable
            Function that returns the error to raise if the kernel with its ridge is singular.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.solve.inverse import CellsInverse
        >>> inverse = CellsInverse.of(np.array([[2.0, 1.0], [1.0, 2.0]]), np.ones(2))
        >>> inverse.leave_out(np.array([[3.0], [6.0]]))
        array([[2.],
               [1.]])
        """
        xp = namespace(kernel)
        diagonal = xp.linalg.diagonal(kernel) + ridges
        try:
            matrix, log_determinant = inverse_and_log_determinant(with_diagonal(kernel, diagonal))
        except np.linalg.LinAlgError:
            raise refusal() from None
        if fixed is None or not fixed.n_columns:
            return cls(matrix, log_determinant)
        fit = fixed.solved(lambda columns: matrix @ columns)
        return cls(fit.project_in_place(matrix), log_determinant, fixed=fit)

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.matrix.shape[0])

    def whole(self) -> Array:
        """Return the matrix (n, n)."""
        return self.matrix

    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) between the members (number, size) of sets."""
        xp = namespace(self.matrix)
        number, size = members.shape
        if number == 1:
            return take_block(self.matrix, members[0], members[0])[None, ...]
        cells = members[:, :, None] * self.n_labels + members[:, None, :]
        flat = xp.reshape(self.matrix, (-1,))
        return xp.reshape(take_rows(flat, cells.reshape(-1)), (number, size, size))

    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n)."""
        return take_rows(self.matrix, at)

    def label_weights(self, kernel: Array, columns: Array | None = None) -> Array:
        """Return the weight (n,) of each label in the prediction for a pair.

        Parameters
        ----------
        kernel : array of shape (n,)
            The kernel c between the pair and the labels.
        columns : array of shape (r,), default=None
            Columns of the fixed part for the pair; None means ones, for a free mean.
        """
        weights = self.matrix @ kernel
        if self.fixed is None:
            return weights
        return self.fixed.label_weights(weights, columns)

    def times(self, labels: Array) -> Array:
        """Return N times labels (n, p)."""
        return self.matrix @ labels

    def solved(self, labels: Array, ridge: float) -> Array:
        """Return the dual coefficients (n, p) of labels; the ridge is part of the matrix."""
        return self.matrix @ labels

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        return rounding_level(labels, largest(namespace(self.matrix).abs(self.matrix)))

    def prediction_level(self, labels: Array) -> Array:
        """Return the rounding error of a prediction that is zero, for each column of labels, shape (p,)."""
        xp = namespace(self.matrix)
        n = self.n_labels
        beside = 0.0
        for here in row_blocks(n, (2, n)):
            rows = xp.abs(self.matrix[here, :])
            places = as_array_of(np.arange(n), rows)
            is_own = places[here][:, None] == places[None, :]
            beside = max(beside, largest(xp.where(is_own, 0.0, rows)))
        least = float(xp.min(xp.linalg.diagonal(self.matrix)))
        return rounding_level(labels, min(1.0, beside / least) if least > 0 else 1.0)

    @property
    def width(self) -> int:
        """Number n of labels: the length of the row of a label."""
        return self.n_labels

    def sums(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array, parts: Array
    ) -> Array:
        """Return the sums over labels of other units (number, size, p), computed directly, so that no digit is lost."""
        flat = members.reshape(-1)
        rows = take_rows(self.matrix, flat)
        xp = namespace(rows)
        # On a GPU, the comparison would take longer on the processor than all products.
        codes = as_array_of(units, rows)
        is_own = take_rows(codes, flat)[:, None] == codes[None, :]
        sums = xp.where(is_own, 0.0, rows) @ labels
        return xp.reshape(sums, (*members.shape, labels.shape[1]))

r"""Hold-out of observed labels, for any sets of labels, from one inverse.

Let :math:`\mathbf{N}` be the inverse of the system of the n observed labels, with the unpenalised
part projected out. Its scale does not matter. The predictions for the labels S by the model that
was fitted without them are

.. math:: \hat{\mathbf{y}}_S = \mathbf{y}_S - \mathbf{N}_{SS}^{-1}(\mathbf{N}\mathbf{y})_S
          = -\mathbf{N}_{SS}^{-1}\,\mathbf{N}_{S\bar S}\,\mathbf{y}_{\bar S} .

The second form keeps its digits where the regularisation is large. All settings differ in S only:
one pair (A), the labels of an instance (B), of a task (C), or of both (D); groups and folds are
unions of these.

=================  =================================================================================================
inverse            content
=================  =================================================================================================
`CellsInverse`     the matrix :math:`(\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))^{-1}` of the observed
cells o `FactorInverse`    :math:`\mathbf{V}\,\mathrm{diag}(\rho)\,\mathbf{V}^\top` with the
eigenvectors of
                   :math:`\mathbf{P}_{oo}`, for many c and for c = 0
`FeatureInverse`   :math:`\mathbf{I} - \mathbf{FF}^\top` for few features F of the pairs
`MissingInverse`   the residual operator of the complete grid without the missing cells u,
                   :math:`\mathbf{R}_{oo} - \mathbf{R}_{ou}\mathbf{R}_{uu}^{-1}\mathbf{R}_{uo}`; single rows,
                   columns or both have a closed form in `dyadlearn.solve.nearly_complete`
=================  =================================================================================================

Where an inverse is known as a residual operator, :math:`\mathbf{N} = \mathbf{I} - \mathbf{H}`, the
smaller of
:math:`\mathbf{N}` and :math:`\mathbf{H}` is computed, as in `dyadlearn.solve.leaving`.

In setting D the set of a pair is the union of the labels C of its task and of the other labels R of
its instance. One Cholesky factor :math:`\mathbf{L}` of :math:`\mathbf{N}_{CC}` serves all pairs of
the task. With
:math:`\mathbf{Z} = \mathbf{L}^{-1}\mathbf{N}_{C\cdot}`, each pair takes the Schur complement
:math:`\mathbf{N}_{RR} - \mathbf{Z}_R^\top\mathbf{Z}_R` of the order of R. Tasks and instances are exchanged if
instances have more labels. Sets of at most 64 labels are gathered and solved together, many of one
size at a time.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, Self

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    cholesky,
    epsilon,
    inverse_and_log_determinant,
    itemsize,
    largest,
    namespace,
    placed,
    row_blocks,
    solve,
    solve_lower,
    take_block,
    take_rows,
    to_numpy,
    with_diagonal,
    zeros,
)
from dyadlearn._codes import pair_numbers, unit_sizes
from dyadlearn._rounding import rounding_level, settle, solve_block
from dyadlearn.solve.fixed import FixedFit, FixedPart
from dyadlearn.solve.leaving import in_order, members_of, members_of_one_size
from dyadlearn.solve.nearly_complete import (
    NearlyComplete,
    blocks_work,
    leave_crosses_out,
    lines_left_out,
    lines_work,
)
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Smoother, leverage_error, nothing_left

# Most labels of a set that is gathered and solved as a whole, beside others of its size, in setting
# D.
_SMALL_SET = 64
# Largest slack that counts as rounding of a difference.
_LARGEST_ERROR = 1e-6
# Most labels for which an inverse of another form is written as a matrix for this.
_MOST_ROWS = 1024


class Inverse(ABC):
    """Inverse N of the system of n observed labels, with one leave-out for any sets of labels."""

    #: Whether `parts` and `part_rows` are those of the hat H = I − N, and not those of N.
    is_hat: bool = False
    #: Lower bound of the slack, and whether a block may be singular, see
    #: `dyadlearn._rounding.solve_block`.
    floor: float = 0.0
    is_graded: bool = False
    #: Absolute error of the eigenvalues of a block of N.
    error: float = 0.0
    #: Factor (n,) of the labels for which N is the inverse; None is one.
    root: Array | None = None
    #: Estimated error of predictions by rounding, relative to the largest label.
    rounding: float = 0.0

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of labels."""

    @abstractmethod
    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) of N, or of the hat, between the members (number, size) of sets."""

    @abstractmethod
    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of N, or of the hat."""

    @abstractmethod
    def times(self, labels: Array) -> Array:
        """Return N, or the hat, times labels (n, p)."""

    @abstractmethod
    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""

    def prediction_level(self, labels: Array) -> Array:
        """Return the rounding error of a prediction that is zero, for each column of labels, shape (p,)."""
        return self.level(labels) if self.is_hat else rounding_level(labels, 1.0)

    def sums(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array, parts: Array
    ) -> Array:
        r"""Return :math:`\mathbf{N}_{S\bar S}\,\mathbf{y}_{\bar S}` for some sets, shape (number, size, p).

        Parameters
        ----------
        members : integer array of shape (number, size)
            Labels of each set.
        units : integer array of shape (n,)
            Set of each label.
        labels, image : arrays of shape (n, p)
            Labels, and `times` these.
        parts : array of shape (number, size, size)
            Blocks of the sets.
        """
        others = _gathered(image, members) - parts @ _gathered(labels, members)
        others = settle(others, self.level(labels))
        return -others if self.is_hat else others

    def blocks(self, parts: Array) -> Array:
        """Return blocks (…, size, size) of N from those of `parts`."""
        if not self.is_hat:
            return parts
        return _identity(parts) - parts

    def rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of N."""
        rows = self.part_rows(at)
        if self.is_hat:
            rows = -rows
            xp = namespace(rows)
            own = as_array_of(at[:, None] == np.arange(self.n_labels)[None, :], rows)
            rows = xp.where(own, 1.0 + rows, rows)
        return rows

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
        units = np.arange(self.n_labels) if units is None else units
        if self.n_labels > 1 and (units == units[0]).all():
            raise nothing_left()
        scaled = self._scaled(labels)
        image = self.times(scaled)
        pieces = []
        places = []
        for members in members_of_one_size(units):
            size = members.shape[1]
            for some in row_blocks(
                members.shape[0], itemsize(scaled) * size * self.n_values_of(size)
            ):
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
        for here in row_blocks(n_units, 4 * self.n_labels * itemsize(labels)):
            is_own = as_array_of(units[:, None] == np.arange(n_units)[None, here], labels)
            changed = xp.where(is_own, held_out[:, None], labels[:, None])
            pieces.append(self.solved(changed, ridge))
        return xp.concat(pieces, axis=1)

    def n_values_of(self, size: int) -> int:
        """Return the number of values in memory for each label of a set of some size."""
        return 3 * size

    def _left_out(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array
    ) -> Array:
        """Return predictions (number · size, p) of sets, given as their members (number, size)."""
        parts = self.parts(members)
        right = self.sums(members, units, labels, image, parts)
        blocks = self.blocks(parts)
        refusal = partial(_singular_set, blocks, members, self.n_labels)
        solved = solve_block(blocks, right, self.floor, self.is_graded, refusal, error=self.error)
        return namespace(solved).reshape(-solved, (members.size, labels.shape[1]))

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
        of_instances, of_tasks = units
        if _n_within(of_tasks) >= _n_within(of_instances):
            first, second = (of_tasks, of_instances)
        else:
            first, second = (of_instances, of_tasks)
        if any((codes == codes[0]).all() for codes in (first, second)):
            raise nothing_left()
        scaled = self._scaled(labels)
        pieces = []
        places = []
        is_small = np.zeros(self.n_labels, dtype=bool)
        matrix = self.whole()
        if matrix is not None:
            for predictions, at in _small_sets_out(self, matrix, scaled, first, second):
                pieces.append(predictions)
                places.append(at)
                is_small[at] = True
        if not is_small.all():
            crossing = _Crossing(self, scaled, first, second)
            for members in members_of(first):
                if not is_small[members].all():
                    for predictions, at in crossing.left_out(
                        crossing.factorised(members), is_small
                    ):
                        pieces.append(predictions)
                        places.append(at)
        # Predictions that are only rounding are exactly zero, so that they tie.
        held_out = settle(in_order(pieces, places), self.prediction_level(scaled))
        return self._unscaled(held_out)

    def whole(self) -> Array | None:
        """Return N as a matrix (n, n), or None if it takes much memory or time."""
        if self.n_labels <= _MOST_ROWS:
            return self.rows(np.arange(self.n_labels))
        return None

    def _scaled(self, labels: Array) -> Array:
        return labels if self.root is None else labels * self.root[:, None]

    def _unscaled(self, labels: Array) -> Array:
        return labels if self.root is None else labels / self.root[:, None]


def _small_sets_out(
    inverse: Inverse, matrix: Array, labels: Array, first: np.ndarray, second: np.ndarray
) -> Iterator[tuple[Array, np.ndarray]]:
    """Yield predictions and positions of the labels whose units of both sides have few labels together.

    Parameters
    ----------
    inverse : Inverse
    matrix : array of shape (n, n)
        The inverse N.
    labels : array of shape (n, p)
    first, second : integer arrays of shape (n,)
        Units of both sides.

    Yields
    ------
    predictions : array of shape (s, p)
    at : integer array of shape (s,)
    """
    sets = _small_sets(first, second)
    if not sets:
        return
    xp = namespace(matrix)
    outside = [_sums_of_others(matrix, labels, units) for units in (first, second)]
    flat = xp.reshape(matrix, (-1,))
    for (n_asked, size), alike in sets.items():
        members = np.stack(alike)
        for here in row_blocks(members.shape[0], itemsize(matrix) * size * (5 * size + 4)):
            at = members[here]
            cells = at[:, :, None] * inverse.n_labels + at[:, None, :]
            blocks = xp.reshape(take_rows(flat, cells.reshape(-1)), cells.shape)
            of_first = first[at] == first[at[:, :1]]
            of_second = second[at] == second[at[:, :1]]
            # The sums over labels outside of both units: from those outside of one, subtract the
            # labels of the other.
            in_other = np.where(of_first[:, :, None], ~of_first[:, None, :], ~of_second[:, None, :])
            sums = xp.where(
                as_array_of(of_first[:, :, None], flat), *(_gathered(each, at) for each in outside)
            )
            right = sums - xp.where(as_array_of(in_other, flat), blocks, 0.0) @ _gathered(
                labels, at
            )
            refusal = partial(_singular_set, blocks, at, inverse.n_labels)
            solved = solve_block(blocks, right, inverse.floor, inverse.is_graded, refusal)
            asked = at[:, :n_asked]
            yield (
                xp.reshape(-solved[:, :n_asked, :], (asked.size, labels.shape[1])),
                asked.reshape(-1),
            )


def _small_sets(first: np.ndarray, second: np.ndarray) -> dict[tuple[int, int], list[np.ndarray]]:
    """Return the labels of each small union of two units, by the numbers of labels of both and of the union.

    The labels that both units share are the first.
    """
    members, task_members = (
        {int(units[at[0]]): at for at in members_of(units)} for units in (first, second)
    )
    sets: dict[tuple[int, int], list[np.ndarray]] = {}
    for shared in members_of(pair_numbers(first, second, int(second.max()) + 1)):
        unit = first[shared[0]]
        task_unit = second[shared[0]]
        at = members[int(unit)]
        task_at = task_members[int(task_unit)]
        size = at.size + task_at.size - shared.size
        if size <= _SMALL_SET:
            union = np.concatenate(
                [shared, at[second[at] != task_unit], task_at[first[task_at] != unit]]
            )
            sets.setdefault((shared.size, size), []).append(union)
    return sets


def _sums_of_others(matrix: Array, labels: Array, units: np.ndarray) -> Array:
    """Return the product of a matrix (n, n) and labels (n, p) in which each row omits the labels of its own unit."""
    xp = namespace(matrix)
    pieces = []
    for here in row_blocks(units.size, 3 * units.size * itemsize(matrix)):
        is_own = as_array_of(units[here, None] == units[None, :], matrix)
        pieces.append(xp.where(is_own, 0.0, matrix[here, :]) @ labels)
    return xp.concat(pieces, axis=0)


class _Factorised(NamedTuple):
    """Labels C of a unit of the first side, with the Cholesky factor L of their block of N.

    Attributes
    ----------
    members : integer array of shape (c,)
        The labels C.
    lower : array of shape (c, c)
        Inverse of L.
    rows : array of shape (n, c)
        Transposed rows of N.
    along : array of shape (n, c)
        The transpose of Z, the inverse of L times the rows of N.
    right : array of shape (c, p)
        The inverse of L times the sums over all labels outside of C.
    """

    members: np.ndarray
    lower: Array
    rows: Array
    along: Array
    right: Array


class _Crossing:
    """Setting D of one inverse: the labels C of a unit of the first side, and R of one of the second side.

    Parameters
    ----------
    inverse : Inverse
    labels : array of shape (n, p)
    first, second : integer arrays of shape (n,)
        Units of both sides; those of the first side have more labels.
    """

    def __init__(
        self, inverse: Inverse, labels: Array, first: np.ndarray, second: np.ndarray
    ) -> None:
        self.inverse = inverse
        self.labels = labels
        self.first = first
        self.second = second
        self.image = inverse.times(labels)
        self.members = {int(second[at[0]]): at for at in members_of(second)}
        # Blocks of N, and sums over all labels outside, of each unit of the second side.
        self.blocks: dict[int, Array] = {}
        self.sums: dict[int, Array] = {}
        for unit, at in self.members.items():
            self.blocks[unit], self.sums[unit] = self._block(at, second)

    def _block(self, members: np.ndarray, units: np.ndarray) -> tuple[Array, Array]:
        """Return the block of N of a set (s, s), and the sums (s, p) over all labels of other units."""
        parts = self.inverse.parts(members[None, :])
        sums = self.inverse.sums(members[None, :], units, self.labels, self.image, parts)
        return self.inverse.blocks(parts)[0, ...], sums[0, ...]

    def factorised(self, members: np.ndarray) -> _Factorised:
        """Return the factorised block of the labels of one unit of the first side."""
        inverse = self.inverse
        block, outside = self._block(members, self.first)
        refusal = partial(_singular_set, block[None, ...], members[None, :], inverse.n_labels)
        if inverse.is_graded:  # the result is not used: only the check is
            solve_block(block, outside, inverse.floor, True, refusal, error=inverse.error)
        try:
            lower = solve_lower(cholesky(block), _identity(block))
        except np.linalg.LinAlgError:
            raise refusal() from None
        rows = inverse.rows(members).T
        return _Factorised(members, lower, rows, rows @ lower.T, lower @ outside)

    def left_out(
        self, first: _Factorised, is_done: np.ndarray
    ) -> Iterator[tuple[Array, np.ndarray]]:
        """Yield predictions (a, p) and positions (a,) of the labels C, for several units of the second side at a time.

        Labels in the mask `is_done` (n,) are omitted. Units with equal numbers of labels in C and
        outside of it are solved together.
        """
        unit_of = self.second[first.members]
        alike: dict[tuple[int, int], list[tuple[int, np.ndarray, np.ndarray]]] = {}
        for asked in members_of(unit_of):
            if is_done[first.members[asked[0]]]:
                continue
            unit = int(unit_of[asked[0]])
            kept = np.flatnonzero(self.first[self.members[unit]] != self.first[first.members[0]])
            alike.setdefault((asked.size, kept.size), []).append((unit, asked, kept))
        c = int(first.members.size)
        for (n_asked, n_kept), crossed in alike.items():
            n_values = n_kept * (3 * c + 3 * n_kept) + n_asked * c
            for here in row_blocks(len(crossed), itemsize(self.labels) * n_values):
                some = crossed[here]
                asked = np.stack([each[1] for each in some])
                predictions = self._crossed(
                    first, [each[0] for each in some], asked, [each[2] for each in some]
                )
                shape = (asked.size, self.labels.shape[1])
                yield (
                    namespace(predictions).reshape(predictions, shape),
                    first.members[asked].reshape(-1),
                )

    def _crossed(
        self, first: _Factorised, units: list[int], asked: np.ndarray, kept: list[np.ndarray]
    ) -> Array:
        r"""Return predictions (b, a, p) of the labels that C shares with each of b units of the second side.

        With :math:`\mathbf{b}` the sums over the labels outside of C and R, the system of both is
        solved for C by

        .. math:: (\mathbf{N}_{RR} - \mathbf{Z}_R^\top\mathbf{Z}_R)\,\mathbf{x}_R
                  = \mathbf{b}_R - \mathbf{Z}_R^\top\mathbf{L}^{-1}\mathbf{b}_C, \qquad
                  \mathbf{x}_C = \mathbf{L}^{-\top}(\mathbf{L}^{-1}\mathbf{b}_C -
                  \mathbf{Z}_R\mathbf{x}_R) .

        Parameters
        ----------
        first : _Factorised
        units : list of int
            The b units.
        asked : integer array of shape (b, a)
            Positions in C of the labels that each unit shares with it.
        kept : list of integer arrays of shape (r,)
            Positions in each unit of its labels R outside of C.
        """
        xp = namespace(self.labels)
        from_lower = _gathered(first.lower.T, asked)
        if not kept[0].size:
            return -(from_lower @ first.right)
        rest = np.stack([self.members[unit][at] for unit, at in zip(units, kept, strict=True)])
        along = _gathered(first.along, rest)
        # The sums over labels outside of both units: from those outside of one, subtract the labels
        # of the other.
        of_first = first.right - xp.matrix_transpose(along) @ _gathered(self.labels, rest)
        of_second = xp.stack(
            [take_rows(self.sums[unit], at) for unit, at in zip(units, kept, strict=True)]
        )
        rows = _gathered(first.rows, rest)
        labels = take_rows(self.labels, first.members)
        shared = xp.stack([take_rows(rows[place, ...].T, at).T for place, at in enumerate(asked)])
        of_second = of_second - (rows @ labels - shared @ _gathered(labels, asked))
        blocks = xp.stack(
            [take_block(self.blocks[unit], at, at) for unit, at in zip(units, kept, strict=True)]
        )
        blocks = blocks - along @ xp.matrix_transpose(along)
        together = np.concatenate([np.tile(first.members, (rest.shape[0], 1)), rest], axis=1)
        refusal = partial(_singular_set, blocks, together, self.inverse.n_labels)
        right = of_second - along @ of_first
        inverse = self.inverse
        solved = solve_block(
            blocks, right, inverse.floor, inverse.is_graded, refusal, error=inverse.error
        )
        return -(from_lower @ (of_first - xp.matrix_transpose(along) @ solved))


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

    def duals_without(
        self, labels: Array, held_out: Array, units: np.ndarray, n_units: int, ridge: float
    ) -> Array:
        """Return the dual coefficients (n, u) of the models without each unit, by one product of each row."""
        columns = [self.matrix @ labels] * n_units
        for members in members_of(units):
            residuals = take_rows(labels - held_out, members)
            unit = int(units[members[0]])
            columns[unit] = columns[unit] - take_rows(self.matrix, members).T @ residuals
        return namespace(labels).stack(columns, axis=1)

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        return rounding_level(labels, largest(namespace(self.matrix).abs(self.matrix)))

    def prediction_level(self, labels: Array) -> Array:
        """Return the rounding error of a prediction that is zero, for each column of labels, shape (p,)."""
        xp = namespace(self.matrix)
        n = self.n_labels
        beside = 0.0
        for here in row_blocks(n, 2 * n * itemsize(self.matrix)):
            rows = xp.abs(self.matrix[here, :])
            places = as_array_of(np.arange(n), rows)
            is_own = places[here][:, None] == places[None, :]
            beside = max(beside, largest(xp.where(is_own, 0.0, rows)))
        least = float(xp.min(xp.linalg.diagonal(self.matrix)))
        return rounding_level(labels, min(1.0, beside / least) if least > 0 else 1.0)

    def n_values_of(self, size: int) -> int:
        """Return the number of values in memory for each label of a set of some size."""
        return 3 * size + 2 * self.n_labels

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


@dataclass(frozen=True, eq=False)
class FactorInverse(Inverse):
    r"""The inverse from a factor: :math:`\mathbf{B} = \mathbf{V}\,\mathrm{diag}(b)\,\mathbf{V}^\top` is N or the hat.

    Attributes
    ----------
    vectors : array of shape (n, k)
        The factor V.
    weights : array of shape (k,)
        The weights b.
    is_hat : bool
        Whether B is the hat.
    floor, is_graded, root, error : as in `Inverse`
    dual_weights : array of shape (k,) or None
        Weights of the vectors in the dual coefficients; None if these are residuals divided by the
        ridge.
    """

    vectors: Array
    weights: Array
    is_hat: bool = True
    floor: float = 0.0
    is_graded: bool = False
    root: Array | None = None
    error: float = 0.0
    dual_weights: Array | None = None
    # The last labels, and their product with the factor.
    _latest: list[tuple[Array, Array]] = field(default_factory=list, init=False, repr=False)

    @classmethod
    def of_spectrum(cls, side: Smoother) -> Self:
        """Return the inverse of a kernel between the observed cells, from its decomposition.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.filters import Tikhonov
        >>> from dyadlearn.solve.inverse import FactorInverse
        >>> from dyadlearn.spectrum import Spectrum
        >>> cells = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
        >>> FactorInverse.of_spectrum(cells).leave_out(np.array([[3.0], [6.0]])).round(6)
        array([[2.],
               [1.]])
        """
        known = side.scaled()
        is_hat = not known.prefers_residual
        weights = known.shrinkage if is_hat else known.remainder
        floors = (known.slack_floor, known.is_graded)
        dual_weights = None
        if side.alpha == 0:  # a free constant is no part of the kernel
            dual_weights = namespace(weights).where(side.spectrum.values > 0, side.phi, 0.0)
        if is_hat and known.slack_floor:
            error = _error_of_difference(weights, side.spectrum.n_rows)
        else:
            error = 0.0
        return cls(
            side.spectrum.vectors, weights, is_hat, *floors, error=error, dual_weights=dual_weights
        )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.vectors.shape[0])

    def solved(self, labels: Array, ridge: float) -> Array:
        """Return the dual coefficients (n, p) of labels, also for a ridge of zero if `dual_weights` are known."""
        if self.dual_weights is None:
            return super().solved(labels, ridge)
        return self.vectors @ (self.dual_weights[:, None] * self.gathered(labels))

    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) of B between the members (number, size) of sets."""
        rows = self.take(members.reshape(-1))
        xp = namespace(rows)
        rows = xp.reshape(rows, (*members.shape, rows.shape[1]))
        return (rows * self.weights) @ xp.matrix_transpose(rows)

    def take(self, at: np.ndarray) -> Array:
        """Return rows (s, k) of the factor."""
        return take_rows(self.vectors, at)

    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of B."""
        rows = self.take(at) * self.weights
        pieces = [rows @ self.take(here).T for here in self._everybody()]
        return namespace(rows).concat(pieces, axis=1)

    def times(self, labels: Array) -> Array:
        """Return B times labels (n, p)."""
        along = self.weights[:, None] * self._along(labels)
        return namespace(along).concat(
            [self.spread(here, along) for here in self._everybody()], axis=0
        )

    def spread(self, at: np.ndarray, along: Array) -> Array:
        """Return rows of the factor times coefficients (k, p), shape (s, p)."""
        return self.take(at) @ along

    def _along(self, labels: Array) -> Array:
        """Return the result of `gathered`, computed once for all sets of the same labels."""
        latest = self._latest[-1] if self._latest else None
        if latest is None or latest[0] is not labels:
            latest = (labels, self.gathered(labels))
            self._latest[:] = [latest]
        return latest[1]

    def gathered(self, labels: Array) -> Array:
        """Return the transposed factor times labels (n, p), shape (k, p)."""
        total = zeros((int(self.weights.shape[0]), int(labels.shape[1])), labels)
        for here in self._everybody():
            total = total + self.take(here).T @ take_rows(labels, here)
        return total

    def _everybody(self) -> list[np.ndarray]:
        """Return the positions of all labels, in blocks of rows of the factor of bounded memory."""
        positions = np.arange(self.n_labels)
        return [
            positions[here] for here in row_blocks(self.n_labels, 8 * int(self.weights.shape[0]))
        ]

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        return rounding_level(labels, largest(self.weights))

    def n_values_of(self, size: int) -> int:
        """Return the number of values in memory for each label of a set of some size."""
        return 3 * size + 2 * int(self.weights.shape[0])

    def _left_out(
        self, members: np.ndarray, units: np.ndarray, labels: Array, image: Array
    ) -> Array:
        if not self.is_hat or members.shape[1] <= self.weights.shape[0]:
            return super()._left_out(members, units, labels, image)
        pieces = [self._left_out_of_many(each, labels) for each in members]
        return namespace(labels).concat(pieces, axis=0)

    def _left_out_of_many(self, at: np.ndarray, labels: Array) -> Array:
        r"""Return predictions (s, p) of a set with more labels than directions.

        .. math:: \hat{\mathbf{y}}_S = \mathbf{F}_S(\mathbf{I} - \mathbf{F}_S^\top\mathbf{F}_S)^{-1}
                  \mathbf{F}_{\bar S}^\top\mathbf{y}_{\bar S}, \qquad \mathbf{F} = \mathbf{V}\sqrt b
        """
        roots = self.weights**0.5
        blocks = [at[here] for here in row_blocks(at.size, 8 * int(self.weights.shape[0]))]
        system = _identity(roots[:, None] * roots)
        right = roots[:, None] * self._along(labels)
        for here in blocks:
            rows = self.take(here) * roots
            system = system - rows.T @ rows
            right = right - rows.T @ take_rows(labels, here)
        refusal = partial(leverage_error, at, self.n_labels, "cells form a set that")
        solved = solve_block(system, right, self.floor, self.is_graded, refusal, error=self.error)
        solved = roots[:, None] * solved
        return namespace(solved).concat([self.spread(here, solved) for here in blocks], axis=0)


@dataclass(frozen=True, eq=False)
class FeatureInverse(FactorInverse):
    r"""The inverse of ridge regression on few features of many pairs, whose factor is computed when it is used.

    .. math:: \mathbf{F} = \sqrt{w}\,\mathbf{Z}\,\mathbf{L}^{-\top}, \qquad
              \mathbf{LL}^\top = \mathbf{Z}^\top\mathrm{diag}(w)\mathbf{Z} +
              \mathrm{diag}(\mathbf{d})

    Attributes
    ----------
    features : callable
        Function that returns the features of some pairs, multiplied by the roots of their weights,
        shape (s, k).
    lower : array of shape (k, k)
        The inverse of L.
    n_pairs : int
    norm : float
        Upper bound of the norm of the hat.
    error : float
        Absolute error of the eigenvalues of a block of N, which is the difference of an identity
        and the hat.
    """

    features: Callable[[np.ndarray], Array] = field(kw_only=True)
    lower: Array = field(kw_only=True)
    n_pairs: int = field(kw_only=True)
    norm: float = field(kw_only=True)
    error: float = field(kw_only=True)

    @classmethod
    def of(
        cls,
        features: Callable[[np.ndarray], Array],
        n_pairs: int,
        penalties: Array,
        root: Array | None,
        refusal: Callable[[], Exception],
    ) -> Self:
        """Return the inverse from the normal equations.

        Parameters
        ----------
        features, n_pairs : as attributes
        penalties : array of shape (k,)
            Penalty d of each feature; 0 for a constant feature whose coefficient is free.
        root : array of shape (n,) or None
            Roots of the weights w of the pairs in the squared loss.
        refusal : callable
            Function that returns the error to raise if the normal equations are singular.
        """
        k = int(penalties.shape[0])
        xp = namespace(penalties)
        gram = zeros((k, k), penalties)
        for here in row_blocks(n_pairs, 8 * k):
            rows = features(np.arange(n_pairs)[here])
            gram = gram + rows.T @ rows
        try:
            lower = solve_lower(cholesky(gram + penalties * _identity(gram)), _identity(gram))
        except np.linalg.LinAlgError:
            raise refusal() from None
        # The largest sum of a row bounds the norm, which is that of the hat; it is small for a
        # large regularisation.
        norm = min(1.0, largest(xp.sum(xp.abs(lower @ gram @ lower.T), axis=1)))
        return cls(
            lower,
            xp.ones_like(penalties),
            is_graded=True,
            root=root,
            features=features,
            lower=lower,
            n_pairs=n_pairs,
            norm=norm,
            error=epsilon(gram) * n_pairs,
        )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return self.n_pairs

    def take(self, at: np.ndarray) -> Array:
        """Return rows (s, k) of the factor."""
        return self.features(at) @ self.lower.T

    def spread(self, at: np.ndarray, along: Array) -> Array:
        """Return rows of the factor times coefficients (k, p), shape (s, p), without the factor."""
        return self.features(at) @ (self.lower.T @ along)

    def gathered(self, labels: Array) -> Array:
        """Return the transposed factor times labels (n, p), shape (k, p), without the factor."""
        total = zeros((int(self.weights.shape[0]), int(labels.shape[1])), labels)
        for here in self._everybody():
            total = total + self.features(here).T @ take_rows(labels, here)
        return self.lower @ total

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        return rounding_level(labels, self.norm)

    def label_weights(self, asked: Array) -> Array:
        r"""Return the weight (n,) of each label in the prediction for a pair with some features (k,).

        .. math:: \sqrt w\,\mathbf{F}\,\mathbf{L}^{-1}\mathbf{z}
        """
        along = self.lower @ asked
        pieces = [self.take(here) @ along for here in self._everybody()]
        return self._scaled(namespace(along).concat(pieces)[:, None])[:, 0]

    def coefficients_without(
        self, labels: Array, held_out: Array, units: np.ndarray, n_units: int
    ) -> Array:
        r"""Return the coefficients of the features in the models without each unit, shape (k, u).

        They are :math:`\boldsymbol\theta -
        (\mathbf{LL}^\top)^{-1}\mathbf{Z}_S^\top\mathrm{diag}(w_S)\,\mathbf{e}_S`. Arguments are
        those of `duals_without`.
        """
        xp = namespace(labels)
        residuals = labels - held_out
        if self.root is not None:
            labels = labels * self.root
            residuals = residuals * self.root
        total = xp.zeros_like(self.lower[:, 0])
        for here in row_blocks(self.n_labels, 8 * int(self.lower.shape[0])):
            at = np.arange(self.n_labels)[here]
            total = total + self.features(at).T @ labels[here]
        columns = [total] * n_units
        for members in members_of(units):
            unit = int(units[members[0]])
            columns[unit] = total - self.features(members).T @ take_rows(residuals, members)
        return self.lower.T @ (self.lower @ xp.stack(columns, axis=1))


@dataclass(frozen=True, eq=False)
class MissingInverse(Inverse):
    """The inverse from the operators of the complete grid, where few labels are missing.

    Attributes
    ----------
    operators : GridOperators
        Operators of the model on the complete grid.
    observed, missing : (integer array, integer array)
        Rows and columns of the observed cells (n,), and of the missing ones (u,).
    """

    operators: GridOperators
    observed: tuple[np.ndarray, np.ndarray]
    missing: tuple[np.ndarray, np.ndarray]

    @property
    def is_hat(self) -> bool:  # type: ignore[override]
        """Whether the hat is smaller than the residual operator."""
        return self.operators.prefers_hat

    @property
    def floor(self) -> float:  # type: ignore[override]
        """Lower bound of the slack."""
        return self.operators.floor

    @property
    def is_graded(self) -> bool:  # type: ignore[override]
        """Whether a block may be singular."""
        return self.operators.is_graded

    @cached_property
    def error(self) -> float:  # type: ignore[override]
        """Absolute error of the eigenvalues of a block of N, if some directions are unpenalised.

        The blocks are differences, and missing cells that are nearly undetermined magnify their
        rounding.
        """
        if not self.floor:
            return 0.0
        error = _error_of_difference(self.operators.remainder, self.n_labels)
        if self.missing[0].size:
            least = largest(-namespace(self.factor).linalg.diagonal(self.factor)) ** 2
            error = min(error * (1.0 + 1.0 / least), _LARGEST_ERROR)
        return error

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.observed[0].size)

    def grid_left_out(self, labels: Array, *units: np.ndarray) -> Array | None:
        """Return predictions of all cells (m, q, p) by the models without their row, column or both.

        Returns None for other units, where blocks of the labels are cheaper, or where they must be
        checked one by one. Arguments are those of `leave_out` and `leave_crossed_out`.
        """
        operators = self.operators
        axes = lines_left_out(operators, self.observed, units)
        if axes is None or (len(axes) == 2 and self._leaves_nothing):
            return None
        ranks = [int(side.values.shape[0]) for side in operators.grid_spectra]
        given = (self._shape, ranks, self.missing[0].size)
        if lines_work(*given, axes) > blocks_work(*given, [unit_sizes(codes) for codes in units]):
            return None
        grid = self._grid(labels)
        if len(axes) == 2:
            left_out = leave_crosses_out(operators, self.missing, grid)
            # Predictions that are only rounding are exactly zero, so that they tie.
            return settle(left_out, self.prediction_level(labels))
        complete = NearlyComplete.of(operators, self.missing, axes[0])
        if axes == (0,):
            return complete.leave_rows_out(grid)[0]
        xp = namespace(grid)
        return xp.permute_dims(
            complete.leave_rows_out(xp.permute_dims(grid, (1, 0, 2)))[0], (1, 0, 2)
        )

    @property
    def _leaves_nothing(self) -> bool:
        """Whether all labels are in the row or the column of one cell."""
        counts = [
            np.bincount(side, minlength=n)
            for side, n in zip(self.observed, self._shape, strict=True)
        ]
        crossed = counts[0][:, None] + counts[1]
        np.subtract.at(crossed, self.observed, 1)
        return bool((crossed == self.n_labels).any())

    def leave_out(self, labels: Array, units: np.ndarray | None = None) -> Array:
        """Return the prediction of each label by the model without its unit, as `Inverse.leave_out` does."""
        grid = None if units is None else self.grid_left_out(labels, units)
        if grid is None:
            return super().leave_out(labels, units)
        return self.at_labels(grid)

    def leave_crossed_out(self, labels: Array, *units: np.ndarray) -> Array:
        """Return the prediction of each label by the model without both of its units, as `Inverse` does."""
        grid = self.grid_left_out(labels, *units)
        if grid is None:
            return super().leave_crossed_out(labels, *units)
        return self.at_labels(grid)

    @property
    def _shape(self) -> tuple[int, ...]:
        """Shape (m, q) of the grid."""
        return tuple(side.n_rows for side in self.operators.grid_spectra)

    def _grid(self, labels: Array) -> Array:
        """Return labels (n, p) as a grid (m, q, p) with zeros for the missing ones."""
        shape = self._shape
        flat = self.observed[0] * shape[1] + self.observed[1]
        missing = self.missing[0] * shape[1] + self.missing[1]
        empty = zeros((missing.size, int(labels.shape[1])), labels)
        return namespace(labels).reshape(in_order([labels, empty], [flat, missing]), (*shape, -1))

    def at_labels(self, grid: Array) -> Array:
        """Return the values (n, p) of a grid (m, q, p) at the labels."""
        flat = namespace(grid).reshape(grid, (-1, grid.shape[2]))
        return take_rows(flat, self.observed[0] * grid.shape[1] + self.observed[1])

    @cached_property
    def factor(self) -> Array:
        """The Cholesky factor L (u, u) of the residual operator between missing cells."""
        operators = self.operators
        block = operators.residual_block(*self.missing)
        size = block.shape[0]
        refusal = partial(
            leverage_error, np.arange(size), operators.n_cells, "missing cells form a set that"
        )
        if self.is_graded:  # the result is not used: only the check is
            solve_block(block, block[:, :1], self.floor, True, refusal)
        try:
            return cholesky(block)
        except np.linalg.LinAlgError:
            raise refusal() from None

    @cached_property
    def half(self) -> Array:
        r"""The matrix :math:`\mathbf{L}^{-1}\mathbf{R}_{uo}` (u, n), or that of the hat."""
        if not self.missing[0].size:
            return zeros((0, self.n_labels), self.operators.remainder)
        factor = self.factor
        return solve_lower(
            factor, self.operators.between(self.missing, self.observed, hat=self.is_hat)
        )

    def filled(self, labels: Array) -> Array:
        r"""Return the predictions of the missing cells (u, p).

        .. math:: -\mathbf{R}_{uu}^{-1}\,\mathbf{R}_{uo}\,\mathbf{y}
        """
        half = self.half @ labels
        # The hat between missing and observed cells is minus the residual operator.
        return self._sign * solve(self.factor.T, half)

    def label_weights(self, completed: Array, missing: Array) -> Array:
        r"""Return the weight (n,) of each label in a prediction, from those of the complete grid.

        .. math:: \tilde{\mathbf{w}}_o - \mathbf{R}_{ou}\mathbf{R}_{uu}^{-1}\tilde{\mathbf{w}}_u

        Parameters
        ----------
        completed, missing : arrays of shape (n,) and (u,)
            Weights of the observed and of the missing cells of a complete grid.
        """
        if not self.missing[0].size:
            return completed
        along = solve_lower(self.factor, missing[:, None])
        return completed + self._sign * (self.half.T @ along)[:, 0]

    def completed_without(
        self, labels: Array, held_out: Array, units: np.ndarray, n_units: int
    ) -> Iterator[Array]:
        r"""Yield the completed grid (m, q) of the model without each unit.

        The missing cells contain :math:`-\mathbf{R}_{uu}^{-1}\mathbf{R}_{uo}\,\mathbf{y}'`, with
        the labels
        :math:`\mathbf{y}'` in which held-out predictions replace those of the unit. Arguments are those of
        `duals_without`.
        """
        xp = namespace(labels)
        residuals = labels - held_out
        shape = tuple(side.n_rows for side in self.operators.grid_spectra)
        members = {int(units[at[0]]): at for at in members_of(units)}
        observed, missing = (
            rows * shape[1] + columns for rows, columns in (self.observed, self.missing)
        )
        images = [self.half @ labels] * n_units
        for unit, at in members.items():
            images[unit] = images[unit] - take_rows(self.half.T, at).T @ take_rows(residuals, at)
        filled = xp.stack(images, axis=1)
        if missing.size:
            lower = solve_lower(self.factor, _identity(self.factor))
            filled = self._sign * (lower.T @ filled)
        for unit in range(n_units):
            own = members.get(unit, observed[:0])
            kept = np.delete(np.arange(observed.size), own)
            pieces = [take_rows(held_out, own), take_rows(labels, kept), filled[:, unit]]
            places = [observed[own], observed[kept], missing]
            yield xp.reshape(placed(pieces, places, math.prod(shape)), shape)

    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) of the residual operator, or of the hat."""
        xp = namespace(self.half)
        if members.shape[1] == 1:
            return self.diagonal(members[:, 0])[:, None, None]
        blocks = []
        for at in members:
            rows, columns = (side[at] for side in self.observed)
            blocks.append(self.operators.between((rows, columns), (rows, columns), hat=self.is_hat))
        along = xp.matrix_transpose(_gathered(self.half.T, members))
        return xp.stack(blocks) + self._sign * (xp.matrix_transpose(along) @ along)

    @property
    def _sign(self) -> float:
        """Sign of the contribution of the missing cells: they enlarge the hat and reduce the residual operator."""
        return 1.0 if self.is_hat else -1.0

    @cached_property
    def _diagonal(self) -> Array:
        """Diagonal (n,) of the residual operator, or of the hat."""
        rows, columns = self.observed
        grid = self.operators.part_diagonal(hat=self.is_hat)
        xp = namespace(grid)
        whole = take_rows(xp.reshape(grid, (-1,)), rows * grid.shape[1] + columns)
        return whole + self._sign * xp.sum(self.half**2, axis=0)

    def diagonal(self, at: np.ndarray) -> Array:
        """Return the diagonal at some labels (s,)."""
        return take_rows(self._diagonal, at)

    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of the residual operator, or of the hat."""
        asked = tuple(side[at] for side in self.observed)
        whole = self.operators.between(asked, self.observed, hat=self.is_hat)
        return whole + self._sign * (take_rows(self.half.T, at) @ self.half)

    def times(self, labels: Array) -> Array:
        """Return the residual operator, or the hat, times labels (n, p)."""
        xp = namespace(labels)
        shape = tuple(side.n_rows for side in self.operators.grid_spectra)
        flat = self.observed[0] * shape[1] + self.observed[1]
        columns = []
        for column in range(labels.shape[1]):
            grid = placed([labels[:, column]], [flat], shape[0] * shape[1])
            grid = xp.reshape(xp.where(xp.isnan(grid), 0.0, grid), shape)
            if self.is_hat:
                image = self.operators.hat(grid)
            else:
                image = self.operators.residual(grid)
            columns.append(take_rows(xp.reshape(image, (-1,)), flat))
        return xp.stack(columns, axis=1) + self._sign * (self.half.T @ (self.half @ labels))

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        operators = self.operators
        return rounding_level(
            labels, largest(operators.shrinkage if self.is_hat else operators.remainder)
        )


def _gathered(values: Array, members: np.ndarray) -> Array:
    """Return rows of values (n, p) for members (number, size) of sets, shape (number, size, p)."""
    xp = namespace(values)
    return xp.reshape(take_rows(values, members.reshape(-1)), (*members.shape, values.shape[1]))


def _error_of_difference(like: Array, n_terms: int) -> float:
    """Return the least eigenvalue of the difference of an identity and a hat matrix that has six accurate digits."""
    return min(1e6 * n_terms * epsilon(like), _LARGEST_ERROR)


def _identity(like: Array) -> Array:
    """Return an identity matrix of the order of `like` (…, n, n)."""
    return namespace(like).eye(like.shape[-1], dtype=like.dtype, device=like.device)


def _n_within(units: np.ndarray) -> int:
    """Return the number of pairs of labels with the same unit."""
    counts = np.unique(units, return_counts=True)[1]
    return int(np.sum(counts.astype(np.int64) ** 2))


def _singular_set(blocks: Array, members: np.ndarray, n_labels: int) -> Exception:
    """Return the error for the set, of members (number, size), whose block has the smallest eigenvalue."""
    least = to_numpy(namespace(blocks).linalg.eigvalsh(blocks))[:, 0]
    return leverage_error(members[least.argmin()], n_labels, "cells form a set that")

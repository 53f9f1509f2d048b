r"""Predict each label by the model without the labels of its instance and of its task (setting D).

In setting D the set of a pair is the union of the labels C of its task and of the other labels R of
its instance. One Cholesky factor :math:`\mathbf{L}` of :math:`\mathbf{N}_{CC}` serves all pairs of
the task. With
:math:`\mathbf{Z} = \mathbf{L}^{-1}\mathbf{N}_{C\cdot}`, each pair takes the Schur complement
:math:`\mathbf{N}_{RR} - \mathbf{Z}_R^\top\mathbf{Z}_R` of the order of R. Tasks and instances are exchanged if
instances have more labels. Sets of at most 64 labels are gathered and solved together, many of one
size at a time.

`leave_unions_out` leaves out unions of any number of sets, for cells of several sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    cholesky,
    namespace,
    row_blocks,
    solve_lower,
    take_block,
    take_rows,
)
from dyadlearn._codes import pair_numbers
from dyadlearn._rounding import settle, solve_block
from dyadlearn.leverage import leverage_error, nothing_left
from dyadlearn.solve.blocks import Blocks, gathered, identity, singular_set
from dyadlearn.solve.leaving import in_order, members_of

# Most labels of a set that is gathered and solved as a whole, beside others of its size.
_SMALL_SET = 64


def leave_crossed_out(inverse: Blocks, labels: Array, *units: np.ndarray) -> Array:
    """Return the prediction of each label by the model without its instances and without its tasks.

    Parameters
    ----------
    inverse : Blocks
    labels : array of shape (n, p)
        Labels for which N is the inverse.
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
    pieces = []
    places = []
    is_small = np.zeros(inverse.n_labels, dtype=bool)
    matrix = inverse.whole()
    if matrix is not None:
        for predictions, at in _small_sets_out(inverse, matrix, labels, first, second):
            pieces.append(predictions)
            places.append(at)
            is_small[at] = True
    if not is_small.all():
        crossing = _Crossing(inverse, labels, first, second)
        for members in members_of(first):
            if is_small[members].all():
                continue
            for predictions, at in crossing.left_out(crossing.factorised(members), is_small):
                pieces.append(predictions)
                places.append(at)
    # Predictions that are only rounding are exactly zero, so that they tie.
    return settle(in_order(pieces, places), inverse.prediction_level(labels))


def crosses_all(of_instances: np.ndarray, of_tasks: np.ndarray) -> bool:
    """Return whether all labels are in the instance unit or in the task unit of one label."""
    of_both = pair_numbers(of_instances, of_tasks, int(of_tasks.max()) + 1)
    n_left = _sizes(of_instances) + _sizes(of_tasks) - _sizes(of_both)
    return bool((n_left == n_left.size).any())


def _sizes(units: np.ndarray) -> np.ndarray:
    """Return the number of labels in the unit of each label."""
    _, places, counts = np.unique(units, return_inverse=True, return_counts=True)
    sizes: np.ndarray = counts[places]
    return sizes


def _n_within(units: np.ndarray) -> int:
    """Return the number of pairs of labels with the same unit."""
    counts = np.unique(units, return_counts=True)[1]
    return int(np.sum(counts.astype(np.int64) ** 2))


def _small_sets_out(
    inverse: Blocks, matrix: Array, labels: Array, first: np.ndarray, second: np.ndarray
) -> Iterator[tuple[Array, np.ndarray]]:
    """Yield predictions and positions of the labels whose units of both sides have few labels together.

    Parameters
    ----------
    inverse : Blocks
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
        for here in row_blocks(len(members), (5, size, size)):
            at = members[here]
            cells = at[:, :, None] * inverse.n_labels + at[:, None, :]
            blocks = xp.reshape(take_rows(flat, cells.reshape(-1)), cells.shape)
            right = _sums_outside(blocks, labels, outside, at, (first, second))
            refusal = partial(singular_set, blocks, at, inverse.n_labels)
            solved = solve_block(blocks, right, inverse.floor, inverse.is_graded, refusal)
            asked = at[:, :n_asked]
            predictions = xp.reshape(-solved[:, :n_asked, :], (asked.size, labels.shape[1]))
            yield predictions, asked.reshape(-1)


def _sums_outside(
    blocks: Array,
    labels: Array,
    outside: list[Array],
    at: np.ndarray,
    units: tuple[np.ndarray, np.ndarray],
) -> Array:
    """Return the sums over the labels outside of unions of two units, shape (number, size, p).

    From the sums over those outside of one unit, the labels of the other unit are subtracted.

    Parameters
    ----------
    blocks : array of shape (number, size, size)
        Blocks of N between the members of each union.
    labels : array of shape (n, p)
    outside : list of two arrays of shape (n, p)
        Sums over the labels outside of the unit of each side.
    at : integer array of shape (number, size)
        Members of each union.
    units : two integer arrays of shape (n,)
        Units of both sides.
    """
    xp = namespace(blocks)
    first, second = units
    of_first = first[at] == first[at[:, :1]]
    of_second = second[at] == second[at[:, :1]]
    in_other = np.where(of_first[:, :, None], ~of_first[:, None, :], ~of_second[:, None, :])
    outside_first, outside_second = (gathered(sums, at) for sums in outside)
    sums = xp.where(as_array_of(of_first[:, :, None], blocks), outside_first, outside_second)
    of_other = xp.where(as_array_of(in_other, blocks), blocks, 0.0)
    return sums - of_other @ gathered(labels, at)


def _small_sets(first: np.ndarray, second: np.ndarray) -> dict[tuple[int, int], list[np.ndarray]]:
    """Return the labels of each small union of two units, by the numbers of labels of both and of the union.

    The labels that both units share are the first.
    """
    members = {int(first[at[0]]): at for at in members_of(first)}
    task_members = {int(second[at[0]]): at for at in members_of(second)}
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
    for here in row_blocks(units.size, (3, units.size)):
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


class _Crossed(NamedTuple):
    """One unit of the second side that shares labels with the labels C of a unit of the first side.

    Attributes
    ----------
    unit : int
    asked : integer array of shape (a,)
        Positions in C of the labels that both share.
    kept : integer array of shape (r,)
        Positions in the unit of its labels R outside of C.
    """

    unit: int
    asked: np.ndarray
    kept: np.ndarray


class _Crossing:
    """Setting D of one inverse: the labels C of a unit of the first side, and R of one of the second side.

    Parameters
    ----------
    inverse : Blocks
    labels : array of shape (n, p)
    first, second : integer arrays of shape (n,)
        Units of both sides; those of the first side have more labels.
    """

    def __init__(
        self, inverse: Blocks, labels: Array, first: np.ndarray, second: np.ndarray
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
        refusal = partial(singular_set, block[None, ...], members[None, :], inverse.n_labels)
        if inverse.is_graded:  # the result is not used: only the check is
            solve_block(block, outside, inverse.floor, True, refusal, error=inverse.error)
        try:
            lower = solve_lower(cholesky(block), identity(block))
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
        alike: dict[tuple[int, int], list[_Crossed]] = {}
        for crossed in self._crossed_units(first, is_done):
            alike.setdefault((crossed.asked.size, crossed.kept.size), []).append(crossed)
        c = int(first.members.size)
        xp = namespace(self.labels)
        for (n_asked, n_kept), group in alike.items():
            per_unit = ((3, n_kept, c), (3, n_kept, n_kept), (n_asked, c))
            for here in row_blocks(len(group), *per_unit):
                some = group[here]
                asked = np.stack([crossed.asked for crossed in some])
                predictions = self._predict(first, some, asked)
                shape = (asked.size, self.labels.shape[1])
                yield xp.reshape(predictions, shape), first.members[asked].reshape(-1)

    def _crossed_units(self, first: _Factorised, is_done: np.ndarray) -> Iterator[_Crossed]:
        """Yield the units of the second side that share labels with C, without those that are done."""
        unit_of = self.second[first.members]
        for asked in members_of(unit_of):
            if is_done[first.members[asked[0]]]:
                continue
            unit = int(unit_of[asked[0]])
            is_outside = self.first[self.members[unit]] != self.first[first.members[0]]
            yield _Crossed(unit, asked, np.flatnonzero(is_outside))

    def _predict(self, first: _Factorised, crossed: list[_Crossed], asked: np.ndarray) -> Array:
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
        crossed : list of _Crossed
            The b units, with equal numbers of labels.
        asked : integer array of shape (b, a)
            Their `asked` as one array.
        """
        xp = namespace(self.labels)
        from_lower = gathered(first.lower.T, asked)
        if not crossed[0].kept.size:
            return -(from_lower @ first.right)
        rest = np.stack([self.members[pair.unit][pair.kept] for pair in crossed])
        along = gathered(first.along, rest)
        # The sums over labels outside of both units: from those outside of one, subtract the labels
        # of the other.
        of_first = first.right - xp.matrix_transpose(along) @ gathered(self.labels, rest)
        of_second = xp.stack([take_rows(self.sums[pair.unit], pair.kept) for pair in crossed])
        rows = gathered(first.rows, rest)
        labels = take_rows(self.labels, first.members)
        shared = xp.stack([take_rows(rows[place, ...].T, at).T for place, at in enumerate(asked)])
        of_second = of_second - (rows @ labels - shared @ gathered(labels, asked))
        blocks = xp.stack(
            [take_block(self.blocks[pair.unit], pair.kept, pair.kept) for pair in crossed]
        )
        blocks = blocks - along @ xp.matrix_transpose(along)
        together = np.concatenate([np.tile(first.members, (rest.shape[0], 1)), rest], axis=1)
        refusal = partial(singular_set, blocks, together, self.inverse.n_labels)
        right = of_second - along @ of_first
        inverse = self.inverse
        solved = solve_block(
            blocks, right, inverse.floor, inverse.is_graded, refusal, error=inverse.error
        )
        return -(from_lower @ (of_first - xp.matrix_transpose(along) @ solved))


#: A condition by which labels are left out: the code that each label asks for, and the codes by
#: which labels hold it, arrays (n,); alike sides have two of the latter.
Condition = tuple[np.ndarray, tuple[np.ndarray, ...]]


def leave_unions_out(inverse: Blocks, labels: Array, conditions: Sequence[Condition]) -> Array:
    r"""Return the prediction of each label by the model without the labels that meet any of its conditions.

    The labels that meet the first condition are eliminated from **N** and from the residuals
    :math:`\mathbf{r} = \mathbf{Ny}`, which leaves those of the others,

    .. math:: \mathbf{N}' = \mathbf{N}_{RR} - \mathbf{N}_{RC}\mathbf{N}_{CC}^{-1}\mathbf{N}_{CR}, \qquad
              \mathbf{r}' = \mathbf{r}_R - \mathbf{N}_{RC}\mathbf{N}_{CC}^{-1}\mathbf{r}_C ,

    once for all labels with the same first code, and so on with the next condition.

    Parameters
    ----------
    inverse : Blocks
    labels : array of shape (n,)
    conditions : sequence of Condition

    Returns
    -------
    array of shape (n,)
    """
    ordered = sorted(conditions, key=lambda condition: np.unique(condition[0]).size)
    everything = np.arange(inverse.n_labels)
    column = labels[:, None]
    left = _Left(inverse.rows(everything), inverse.times(column), everything, everything)
    pieces: list[tuple[Array, np.ndarray]] = []
    _eliminate(left, everything, ordered, [], pieces)
    errors, places = zip(*pieces, strict=True)
    predictions = column - in_order(errors, places)
    return settle(predictions, inverse.prediction_level(column))[:, 0]


class _Eliminated(NamedTuple):
    """Labels C that were eliminated.

    Attributes
    ----------
    members : integer array of shape (c,)
        The labels, in ascending order.
    lower : array of shape (c, c)
        Inverse of the Cholesky factor of their block of N.
    along : array of shape (c, k)
        Z, the inverse factor times their rows of N, for the k labels `known`.
    right : array of shape (c, 1)
        The inverse factor times their residuals.
    known : integer array of shape (k,)
    """

    members: np.ndarray
    lower: Array
    along: Array
    right: Array
    known: np.ndarray

    def errors(self, later: Array, members: np.ndarray) -> Array:
        """Return the held-out errors (c, 1) of C, given those of the labels that were eliminated later."""
        places = np.searchsorted(self.known, members)
        return self.lower.T @ (self.right - take_rows(self.along.T, places).T @ later)


class _Left(NamedTuple):
    """N and the residuals of the labels that are not eliminated.

    Attributes
    ----------
    matrix, residuals : arrays of shape (k, k) and (k, 1)
        Those of the k labels `known`, before `last` was eliminated.
    known : integer array of shape (k,)
    rest : integer array
        Positions among these of the labels that are not eliminated.
    last : _Eliminated or None
        Labels whose elimination is applied to the blocks that are read.
    """

    matrix: Array
    residuals: Array
    known: np.ndarray
    rest: np.ndarray
    last: _Eliminated | None = None

    def block(self, at: np.ndarray, others: np.ndarray) -> Array:
        """Return the block of N between labels at some positions."""
        block = take_block(self.matrix, at, others)
        if self.last is None:
            return block
        return block - take_rows(self.last.along.T, at) @ take_rows(self.last.along.T, others).T

    def residuals_at(self, at: np.ndarray) -> Array:
        """Return the residuals of labels at some positions."""
        residuals = take_rows(self.residuals, at)
        if self.last is None:
            return residuals
        return residuals - take_rows(self.last.along.T, at) @ self.last.right

    def without(self, at: np.ndarray, is_last: bool) -> _Eliminated:
        """Return the elimination of labels at some positions; the last one does not need its rows of N."""
        try:
            block = self.block(at, at)
            lower = block
            if at.size:
                lower = solve_lower(cholesky(block), identity(block))
        except np.linalg.LinAlgError:
            n_labels = int(self.known[-1]) + 1
            raise leverage_error(self.known[at], n_labels, "labels form a set that") from None
        others = at[:0] if is_last else np.arange(len(self.known))
        along = lower @ self.block(at, others)
        right = lower @ self.residuals_at(at)
        return _Eliminated(self.known[at], lower, along, right, self.known[others])


def _eliminate(
    left: _Left,
    asked: np.ndarray,
    conditions: Sequence[Condition],
    before: list[_Eliminated],
    pieces: list[tuple[Array, np.ndarray]],
) -> None:
    """Add the held-out errors of some labels to `pieces`.

    Parameters
    ----------
    left : _Left
    asked : integer array
        Labels to predict.
    conditions : sequence of Condition
        Those that are not used yet.
    before : list of _Eliminated
    pieces : list of (errors, positions)
    """
    (codes, holders), *others = conditions
    labels = left.known[left.rest]
    for here in members_of(codes[asked]):
        some = asked[here]
        code = codes[some[0]]
        is_left_out = np.logical_or.reduce([held[labels] == code for held in holders])
        stays = left.rest[~is_left_out]
        if not stays.size:
            raise nothing_left()
        done = left.without(left.rest[is_left_out], not others)
        eliminated = [*before, done]
        if not others:
            pieces.append((_errors_of(some, eliminated), some))
        elif len(others) == 1:
            _eliminate(left._replace(rest=stays, last=done), some, others, eliminated, pieces)
        else:
            along = take_rows(done.along.T, stays)
            matrix = left.block(stays, stays) - along @ along.T
            residuals = left.residuals_at(stays) - along @ done.right
            known = left.known[stays]
            reduced = _Left(matrix, residuals, known, np.arange(len(known)))
            _eliminate(reduced, some, others, eliminated, pieces)


def _errors_of(asked: np.ndarray, eliminated: list[_Eliminated]) -> Array:
    """Return the held-out errors of some labels of the first set that was eliminated."""
    errors = eliminated[-1].right[:0, :]
    members = eliminated[-1].members[:0]
    for done in reversed(eliminated):
        errors = namespace(errors).concat([done.errors(errors, members), errors])
        members = np.concatenate([done.members, members])
    return take_rows(errors, np.searchsorted(eliminated[0].members, asked))

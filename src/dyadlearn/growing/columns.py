r"""Statistics of labels with holes: those of the instances that each task is observed for.

Where :math:`o_j` are the instances whose label for task j is observed, the first step of the model needs

.. math:: \boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}, \qquad \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j}

of every task, with a constant about the means over :math:`o_j`, of its features and of its labels. That is a Gram
matrix for each task instead of one for all, q·d² numbers at worst. Tasks that were observed for the same instances
share theirs: they form a *group*, whose statistics are complete and are those of `dyadlearn.growing.statistics`.

Every batch is such statistics by itself. Two of them are joined group by group: tasks that are in one group of the
first and in one of the second are in one group of both. So groups only ever split, a batch costs nothing for tasks
that it has no label of, and whatever was joined can be taken away again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import Array, copied, double, is_sparse, namespace, row_major, take_rows, to_numpy, zeros
from dyadlearn._means import moments, no_mean
from dyadlearn._memory import check_memory
from dyadlearn._state import Stored, misfit
from dyadlearn.growing.statistics import (
    OfTasks,
    Statistics,
    collect,
    combined,
    digits_lost,
    has_holes,
    merge,
    nothing,
    taken_away,
)

__all__ = ["Columns", "as_columns", "check_told_apart", "gather", "join", "join_tasks", "seen_in", "seen_together"]


@dataclass(frozen=True, eq=False)
class Columns(OfTasks):
    """What two-step ridge regression knows of data whose labels have holes.

    Attributes
    ----------
    instances : Statistics
        Of all instances that came, whatever was observed of them, for no task: shapes (d, d) and (d, 0).
    groups : tuple of Statistics
        Of tasks that were observed for the same instances, told apart and in their order; of these instances.
    group_of : integer array of shape (q,)
        The group of each task.
    tasks : array of shape (q, r) or None
        Features of the tasks; None for tasks without any.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.columns import gather
    >>> X, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0, 5.0, 1.0], [2.0, np.nan, 0.0], [3.0, 6.0, 1.0]])
    >>> seen = gather(X, Y)
    >>> seen.counts, [group.gram.tolist() for group in seen.groups]
    (array([3, 2, 3]), [[[14.0]], [[10.0]]])
    """

    instances: Statistics
    groups: tuple[Statistics, ...]
    group_of: np.ndarray
    tasks: Array | None = None

    #: The tasks are told apart: what holes cannot do without.
    per_task: ClassVar[bool] = True

    def state(self) -> dict[str, Any]:
        """Return the groups one upon the other, so that a file has few arrays however many they are."""
        xp, order = namespace(self.gram), np.argsort(np.concatenate(self.members), kind="stable")
        none = xp.full_like(self.gram[0, :], float("nan"))
        packed = PackedColumns(
            self.instances,
            self.group_of,
            np.array([group.n_rows for group in self.groups]),
            xp.stack([group.gram for group in self.groups]),
            take_rows(xp.concat([group.cross.T for group in self.groups]), order),
            xp.stack([none if group.rounding is None else group.rounding for group in self.groups]),
            None if self.mean is None else xp.stack([group.mean for group in self.groups]),
            None if self.mean is None else take_rows(xp.concat([each.label_mean for each in self.groups]), order),
            self.tasks,
        )
        return {"packed": packed}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Columns:
        """Return what a state describes."""
        packed = state.get("packed")
        if not isinstance(packed, PackedColumns) or len(state) > 1:
            raise misfit(where)
        return packed.unpacked()

    # What it has in common with `Statistics` ------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number m of instances."""
        return self.instances.n_rows

    @property
    def n_tasks(self) -> int:
        """Number q of tasks."""
        return int(self.group_of.size)

    @property
    def gram(self) -> Array:
        """Gram matrix (d, d) of all instances."""
        return self.instances.gram

    @property
    def mean(self) -> Array | None:
        """Mean (2, d) of all instances, which predictions are about; None without a constant."""
        return self.instances.mean

    # Who was observed for whom --------------------------------------------------------------------

    @cached_property
    def members(self) -> tuple[np.ndarray, ...]:
        """The tasks of each group, ascending: whose the columns of its statistics are."""
        return _members(self.group_of, len(self.groups))

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of observed labels of each task, shape (q,)."""
        counts: np.ndarray = np.array([group.n_rows for group in self.groups])[self.group_of]
        return counts

    @cached_property
    def labelled(self) -> np.ndarray:
        """The tasks that have a label, ascending."""
        return np.flatnonzero(self.counts)

    # The tasks that the second step goes over -------------------------------------------------------

    @cached_property
    def _task_moments(self) -> tuple[Array | None, Array | None]:
        """Mean (2, r) and Gram matrix (r, r) of the tasks that have a label."""
        if self.tasks is None:
            return None, None
        tasks = take_rows(self.tasks, self.labelled)
        if not self.has_constant:
            return None, tasks.T @ tasks
        if self.labelled.size == 0:
            width = int(self.tasks.shape[1])
            return no_mean(width, self.tasks), zeros((width, width), self.tasks)
        return moments(tasks)

    @property
    def task_mean(self) -> Array | None:
        """Mean (2, r) of the features of the tasks that have a label; None without a constant or features."""
        return self._task_moments[0]

    @property
    def task_gram(self) -> Array | None:
        """Gram matrix (r, r) of the tasks that have a label, with a constant about their mean; None without any."""
        return self._task_moments[1]

    # Parts ------------------------------------------------------------------------------------------

    def part(self, group: int, tasks: np.ndarray) -> Statistics:
        """Return the statistics of some tasks of a group."""
        own = self.members[group]
        if len(own) == len(tasks):
            return self.groups[group]
        return _taken(self.groups[group], np.searchsorted(own, tasks))

    def without_tasks(self, positions: np.ndarray) -> Columns:
        """Return the statistics without some tasks."""
        kept = np.delete(np.arange(self.n_tasks), positions)
        found, group_of = np.unique(self.group_of[kept], return_inverse=True)
        group_of = group_of.reshape(-1)
        groups = tuple(
            self.part(int(group), kept[tasks])
            for group, tasks in zip(found, _members(group_of, len(found)), strict=True)
        )
        return replace(
            self,
            groups=groups,
            group_of=group_of,
            tasks=None if self.tasks is None else take_rows(self.tasks, kept),
        )

    def digits_lost(self, after: Columns, alpha: float) -> float:
        """Return how much of what is left, once instances were forgotten, is rounding: the worst of the groups."""
        if after.n_tasks != self.n_tasks:  # tasks that are told apart leave nothing behind
            return 0.0
        worst = 0.0
        for own, left in zip(after.members, after.groups, strict=True):
            number = int(self.group_of[own[0]])
            if self.groups[number].gram is not left.gram:
                worst = max(worst, digits_lost(self.part(number, own), left, alpha))
        return worst


@dataclass(frozen=True, eq=False)
class PackedColumns(Stored):
    """`Columns` as they lie in a file: p groups one upon the other.

    Attributes
    ----------
    instances : Statistics
    group_of, counts : integer arrays of shape (q,) and (p,)
    grams, cross : arrays of shape (p, d, d) and (q, d)
    roundings : array of shape (p, d)
        NaN where a group has None.
    means, label_mean : arrays of shape (p, 2, d) and (q,), or None
    tasks : array of shape (q, r) or None
    """

    instances: Statistics
    group_of: np.ndarray
    counts: np.ndarray
    grams: Array
    cross: Array
    roundings: Array
    means: Array | None = None
    label_mean: Array | None = None
    tasks: Array | None = None

    _shapes: ClassVar[Mapping[str, str]] = {
        "instances.gram": "d d",
        "roundings": "p d",
        "grams": "p d d",
        "cross": "q d",
        "means": "p t d",
        "label_mean": "q",
        "tasks": "q r",
    }

    def _fits(self) -> bool:
        p, q = self.grams.shape[0], self.cross.shape[0]
        return (
            self.instances.cross.shape[1] == 0
            and self.instances.tasks is None
            and all(whole.dtype.kind == "i" for whole in (self.group_of, self.counts))
            and (self.group_of.shape, self.counts.shape) == ((q,), (p,))
            and np.array_equal(np.unique(self.group_of), np.arange(p))
            and 0 <= self.counts.min() <= self.counts.max() <= self.instances.n_rows
            and {self.means is None, self.label_mean is None} == {self.instances.mean is None}
            and (self.means is None or self.means.shape[1] == 2)
        )

    def unpacked(self) -> Columns:
        """Return the statistics, every group in memory of its own."""
        members = _members(self.group_of, len(self.counts))
        groups = tuple(
            Statistics(
                int(self.counts[group]),
                copied(self.grams[group, :, :]),
                take_rows(self.cross, own).T,
                mean=None if self.means is None else copied(self.means[group, :, :]),
                label_mean=None if self.label_mean is None else take_rows(self.label_mean, own),
                rounding=None if np.isnan(self.roundings[group, 0]) else copied(self.roundings[group, :]),
            )
            for group, own in enumerate(members)
        )
        return Columns(self.instances, groups, self.group_of, self.tasks)


def gather(Phi: Array, Y: Array, tasks: Array | None = None, *, constant: bool = False) -> Columns:
    """Return the statistics of a block of rows whose labels may have holes.

    Parameters
    ----------
    Phi : array or sparse matrix of shape (l, d)
    Y : array of shape (l, q)
        NaN where not observed. A sparse matrix is complete, and its zeros are labels.
    tasks : array of shape (q, r), default=None
        Features of the tasks. They are kept, not copied.
    constant : bool, default=False
        Whether there is an unpenalised constant.

    Returns
    -------
    Columns
    """
    if is_sparse(Y):
        return as_columns(collect(Phi, Y, tasks, per_task=True, constant=constant))
    observed = ~np.isnan(to_numpy(Y))
    group_of, n_groups = _codes(observed)
    members = _members(group_of, n_groups)
    d = int(Phi.shape[1])
    _check_room(n_groups, d, Y)
    # The Gram matrix of all instances, which those of tasks that have every label share.
    whole = collect(Phi, Y[:, :0], constant=constant)
    groups = []
    columns, seen = row_major(Y.T), np.ascontiguousarray(observed.T)
    for own in members:
        rows = np.flatnonzero(seen[own[0]])
        if rows.size == 0:
            groups.append(nothing(d, own.size, whole.gram, constant))
            continue
        is_whole = rows.size == len(observed)
        part = Phi if is_whole else take_rows(Phi, rows)
        found = collect(part, take_rows(take_rows(columns, own).T, rows), constant=constant)
        groups.append(replace(found, gram=whole.gram, mean=whole.mean) if is_whole else found)
    return Columns(whole, tuple(groups), group_of, None if tasks is None else double(tasks))


def as_columns(seen: Statistics | Columns) -> Columns:
    """Return complete statistics that tell their tasks apart as a single group; those with holes are what they are."""
    if not isinstance(seen, Statistics):
        return seen
    group = replace(seen, tasks=None, task_gram=None, task_mean=None)
    return Columns(_taken(group, np.arange(0)), (group,), np.zeros(seen.n_tasks, dtype=np.intp), seen.tasks)


def check_told_apart(seen: Statistics | Columns) -> None:
    """Refuse labels with holes where what is known of the tasks is mixed."""
    if not seen.per_task:
        raise ValueError(
            "Y contains NaN, labels that are not observed, and this model keeps what it knows of its tasks mixed by "
            "their features, which takes every label: fit it anew with keep_tasks=True, or with a first batch that has "
            "such holes too. Nothing was learnt."
        )


def join(first: Columns, second: Columns, sign: int, *, instances: bool = True) -> Columns:
    """Return the statistics of the rows of both, or with the sign −1 of the first without those of the second.

    Parameters
    ----------
    first, second : Columns
        Of the same tasks.
    sign : int
    instances : bool, default=True
        Whether the instances of the second come and go too, not their labels alone.

    Returns
    -------
    Columns

    Raises
    ------
    ValueError
        If the second cannot have been joined, so that it cannot be taken away.
    """
    change = combined if sign > 0 else _less
    whole = change(first.instances, second.instances, sign) if instances else first.instances
    groups, group_of = list(first.groups), first.group_of.copy()
    touched = second.counts > 0
    _check_room(len(np.unique(second.group_of[touched])), int(first.gram.shape[0]), first.gram)
    # Groups of which no task is touched stay as they are.
    for number in np.unique(first.group_of[touched]):
        own = first.members[number]
        parts = [own[second.group_of[own] == other] for other in np.unique(second.group_of[own])]
        for place, tasks in enumerate(parts):
            known, other = first.part(int(number), tasks), int(second.group_of[tasks[0]])
            if second.groups[other].n_rows:
                known = change(known, second.part(other, tasks), sign)
            if place == 0:
                groups[number] = known
            else:
                group_of[tasks] = len(groups)
                groups.append(known)
    return replace(first, instances=whole, groups=tuple(groups), group_of=group_of)


def _less(known: Statistics, gone: Statistics, _: int) -> Statistics:
    if gone.n_rows > known.n_rows:
        what = "instances" if known.n_tasks == 0 else "labels of a task"
        raise ValueError(f"There are {gone.n_rows} {what} to forget, but only {known.n_rows} were learnt.")
    return taken_away(known, gone)


def join_tasks(first: Columns, second: Columns) -> Columns:
    """Return the statistics with more tasks, of the same instances."""
    tasks = first.tasks
    if tasks is not None:
        tasks = namespace(tasks).concat([tasks, second.tasks], axis=0)
    group_of = np.concatenate([first.group_of, len(first.groups) + second.group_of])
    return replace(first, groups=(*first.groups, *second.groups), group_of=group_of, tasks=tasks)


def seen_in(Phi: Array, Y: Array, tasks: Array | None, *, per_task: bool, constant: bool) -> Statistics | Columns:
    """Return the statistics of a block of rows, complete where its labels are; arguments as in `collect`."""
    if has_holes(Y):
        return gather(Phi, Y, tasks, constant=constant)
    return collect(Phi, Y, tasks, per_task=per_task, constant=constant)


def seen_together(first: Statistics | Columns, second: Statistics | Columns) -> Statistics | Columns:
    """Return the statistics of the rows of both, which are of the same tasks."""
    if isinstance(first, Statistics) and isinstance(second, Statistics):
        return merge(first, second)
    return join(as_columns(first), as_columns(second), 1)


def _taken(group: Statistics, columns: np.ndarray) -> Statistics:
    """Return the statistics of some tasks, by their columns; the Gram matrix is the same one."""
    label_mean = None if group.label_mean is None else take_rows(group.label_mean, columns)
    return replace(group, cross=take_rows(group.cross.T, columns).T, label_mean=label_mean)


def _codes(observed: np.ndarray) -> tuple[np.ndarray, int]:
    """Return a number for each column of truth values (l, q), the same for the same ones, and how many there are."""
    if observed.all():
        return np.zeros(observed.shape[1], dtype=np.intp), 1
    found: dict[bytes, int] = {}
    codes = [found.setdefault(column.tobytes(), len(found)) for column in np.packbits(observed, axis=0).T]
    return np.array(codes, dtype=np.intp), len(found)


def _members(group_of: np.ndarray, n_groups: int) -> tuple[np.ndarray, ...]:
    """Return the positions of each group, ascending."""
    order, ends = np.argsort(group_of, kind="stable"), np.cumsum(np.bincount(group_of, minlength=n_groups)).tolist()
    return tuple(order[start:end] for start, end in zip([0, *ends], ends, strict=False))


def _check_room(n_groups: int, d: int, like: Array) -> None:
    """Refuse Gram matrices that cannot fit in memory: before and after an update, and those it adds."""
    purpose = f"Keeping the statistics of {d} features for {n_groups} tasks that are observed for different instances"
    mend = "compress the features with a feature_map such as Landmarks"
    check_memory(8.0 * 3 * n_groups * d**2, like, purpose, mend)

r"""Statistics of labels with holes: those of the instances that each task is observed for.

Where :math:`o_j` are the instances whose label for task j is observed, the first step of the model needs

.. math:: \boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}, \qquad \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j}

of every task, with a constant about the means over :math:`o_j`, of its features and of its labels. That is a Gram
matrix for each task instead of one for all, q·d² numbers at worst. Tasks that were observed for the same instances
share theirs: they form a *group*, whose statistics are complete and are those of `dyadlearn.growing.statistics`.

Every batch is such statistics by itself. Two of them are joined group by group: tasks that are in one group of the
first and in one of the second are in one group of both. So groups only ever split, a batch costs nothing for tasks
that it has no label of, and whatever was joined can be taken away again.

Two-step ridge regression that follows data whose labels have holes.

The first step learns every task from the instances that it is observed for, :math:`o_j`, and from nothing else:

.. math:: \mathbf{w}_j = (\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j},

with a constant about the means over :math:`o_j`, of the features and of the labels, so that a task has a constant of
its own, :math:`\bar y_{o_j}` at :math:`\bar{\boldsymbol\phi}_{o_j}`. The second step goes over the tasks that have a
label, with what the first one says of an instance for each of them, observed or not:

.. math:: \mathbf{W} = [\mathbf{w}_1, \ldots, \mathbf{w}_q]\,\boldsymbol\Psi\,
          (\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1} .

No label is made up. With complete labels all :math:`o_j` are the same and this is the model of
`dyadlearn.growing.two_step`. With holes it is not the one that the paper completes its labels for, in which tasks lend
each other labels through the second step before the first; it is two ridge regressions in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    copied,
    double,
    is_sparse,
    namespace,
    row_major,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._means import moments, no_mean
from dyadlearn._memory import check_memory
from dyadlearn._state import Stored, misfit
from dyadlearn.growing.inverse import RidgeInverse
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
from dyadlearn.growing.two_step import OnlineRidge, TwoSteps


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


@dataclass(frozen=True, eq=False)
class ColumnRidge(TwoSteps):
    r"""Statistics of each task, what the first step found in them, and the inverse of the tasks.

    Attributes
    ----------
    statistics : Columns
    alpha : float
        :math:`\lambda_d`.
    solver : {"auto", "woodbury", "cholesky"}
        For the tasks; every task is solved by a factorisation of its own.
    task_inverse : RidgeInverse or None
        Of the tasks that have a label; None where they have no features.
    solved : array of shape (d, q) or None
        What the first step found before the last changes.
    stale : truth values of shape (q,) or None
        The tasks that have changed since.
    is_told : bool
        Whether the user has been warned that the regularisation of the first step is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.columns import ColumnRidge
    >>> from dyadlearn.growing.columns import gather
    >>> X, Y = np.array([[1.0], [2.0]]), np.array([[2.0, np.nan], [4.0, 5.0]])
    >>> ColumnRidge.start(gather(X, Y), alpha=0.0).coefficients
    array([[2. , 2.5]])
    """

    statistics: Columns
    alpha: float
    solver: str = "auto"
    task_inverse: RidgeInverse | None = None
    solved: Array | None = None
    stale: np.ndarray | None = None
    is_told: bool = False

    takes_holes: ClassVar[bool] = True
    _kept: ClassVar[tuple[str, ...]] = ("weights", "coefficients")
    _shapes: ClassVar[Mapping[str, str]] = {
        "statistics.gram": "d d",
        "solved": "d q",
        "weights": "d q",
        "task_inverse.gram": "r r",
        "statistics.task_gram": "r r",
        "coefficients": "n_coefficients statistics.width",
    }

    def _fits(self) -> bool:
        q, known = self.statistics.n_tasks, self.statistics
        wide = all(found is None or found.shape[1] == q for found in (self.solved, vars(self).get("weights")))
        return (
            wide
            and (self.task_inverse is None) == (known.tasks is None)
            and (self.solved is None) == (self.stale is None)
            and (self.stale is None or (self.stale.dtype == bool and self.stale.shape == (q,)))
        )

    @classmethod
    def start(cls, statistics: Columns, alpha: float, task_alpha: float = 1.0, *, solver: str = "auto") -> ColumnRidge:
        r"""Return the model of given statistics; arguments as in `OnlineRidge.start`."""
        return cls(statistics, alpha, solver, _task_inverse(statistics, task_alpha, solver))

    @cached_property
    def weights(self) -> Array:
        """What the first step finds for each task, shape (d, q); zero for a task without a label."""
        known, pieces, told = self.statistics, [], self.is_told
        changed = np.full(known.n_tasks, True) if self.stale is None else self.stale
        for group, own in zip(known.groups, known.members, strict=True):
            if changed[own[0]]:
                inverse = RidgeInverse(group.gram, group.n_rows, self.alpha, "cholesky")
                inverse = replace(inverse, rounding=group.rounding, is_told=told)
                pieces.append((own, inverse.solve(group.cross).T))
                told = inverse.has_told
        vars(self)["_has_told"] = told
        return in_places(pieces, None if self.solved is None else self.solved.T).T

    @property
    def levels(self) -> Array | None:
        """What the first step says of each task at the mean of all instances (q,); NaN without a label.

        None without a constant.
        """
        known = self.statistics
        if known.mean is None:
            return None
        xp = namespace(known.gram)
        means = in_places([(own, group.label_mean) for group, own in zip(known.groups, known.members, strict=True)])
        centres = xp.stack([group.mean for group in known.groups])
        steps = (known.mean[0, :] - centres[:, 0, :]) + (known.mean[1, :] - centres[:, 1, :])
        levels = means + xp.sum(take_rows(steps, known.group_of) * self.weights.T, axis=1)
        return xp.where(as_array_of(known.counts > 0, levels), levels, xp.full_like(levels, float("nan")))

    @cached_property
    def coefficients(self) -> Array:
        """W, as `TwoSteps` says; NaN where there is no label to take a constant from."""
        known, levels, half = self.statistics, self.levels, self.weights
        if known.tasks is None:
            return self._finished(half, levels, known.n_tasks)
        half, rows = take_rows(half.T, known.labelled).T, take_rows(known.task_rows, known.labelled)
        if levels is not None:
            levels = take_rows(levels, known.labelled) @ rows
            if not known.labelled.size:
                levels = levels + float("nan")
        return self._finished(half @ rows, levels, max(int(known.labelled.size), 1))

    @property
    def unpredicted(self) -> np.ndarray:
        """Which tasks (q,) nothing is predicted for: those that would take their own constant from a label."""
        known = self.statistics
        return known.counts == 0 if known.tasks is None and known.has_constant else super().unpredicted

    def digits_lost(self, after: Any) -> float:
        """Return how much of this model, once it has forgotten, is rounding."""
        return self.statistics.digits_lost(after.statistics, self.alpha)

    def with_rows(self, Phi: Array, Y: Array) -> ColumnRidge:
        """Return the model with instances (l, d) and their labels (l, q) learnt."""
        return self._joined(self._seen(Phi, Y), 1)

    def without_rows(self, Phi: Array, Y: Array) -> ColumnRidge:
        """Return the model with instances (l, d) and their labels (l, q) forgotten."""
        return self._joined(self._seen(Phi, Y), -1)

    def with_labels(self, Phi: Array, Y: Array, sign: int = 1) -> ColumnRidge:
        """Return the model with labels (l, q) of known instances (l, d) learnt, or with the sign −1 forgotten."""
        return self._joined(self._seen(Phi, Y), sign, instances=False)

    def with_tasks(self, found: Columns) -> ColumnRidge:
        """Return the model with tasks learnt, by their statistics."""
        known = join_tasks(self.statistics, found)
        old, new = self._so_far, np.full(found.n_tasks, True)
        if old is not None:
            more = zeros((int(known.gram.shape[0]), found.n_tasks), known.gram)
            old = (namespace(more).concat([old[0], more], axis=1), np.concatenate([old[1], new]))
        return self._changed(known, old)

    def without_tasks(self, positions: np.ndarray) -> ColumnRidge:
        """Return the model with tasks forgotten."""
        kept, old = np.delete(np.arange(self.statistics.n_tasks), positions), self._so_far
        if old is not None:
            old = (take_rows(old[0].T, kept).T, old[1][kept])
        return self._changed(self.statistics.without_tasks(positions), old)

    def with_alphas(self, alpha: float, task_alpha: float) -> ColumnRidge:
        """Return the model under other regularisations."""
        inverse = self.task_inverse
        if inverse is not None and task_alpha != inverse.alpha:
            inverse = inverse.with_alpha(task_alpha)
        if alpha != self.alpha:
            return ColumnRidge(self.statistics, alpha, self.solver, inverse)
        if inverse is self.task_inverse:
            return self  # with whatever it has computed
        return self._changed(self.statistics, self._so_far, inverse)

    def _seen(self, Phi: Array, Y: Array) -> Columns:
        return gather(Phi, Y, constant=self.statistics.has_constant)

    def _joined(self, seen: Columns, sign: int, *, instances: bool = True) -> ColumnRidge:
        old = self._so_far
        if old is not None:
            old = (old[0], old[1] | (seen.counts > 0))
        return self._changed(join(self.statistics, seen, sign, instances=instances), old)

    @property
    def _so_far(self) -> tuple[Array, np.ndarray] | None:
        """What the first step has found, and for which tasks it does not hold any more."""
        if "weights" in vars(self):
            return self.weights, np.full(self.statistics.n_tasks, False)
        return None if self.solved is None or self.stale is None else (self.solved, self.stale)

    def _changed(
        self, known: Columns, old: tuple[Array, np.ndarray] | None, inverse: RidgeInverse | None = None
    ) -> ColumnRidge:
        before, inverse = self.statistics, inverse or self.task_inverse
        same = known.tasks is before.tasks and np.array_equal(known.labelled, before.labelled)
        if inverse is not None and not same:
            inverse = _task_inverse(known, inverse.alpha, self.solver, inverse.has_told)
        told, (solved, stale) = vars(self).get("_has_told", self.is_told), old or (None, None)
        return ColumnRidge(known, self.alpha, self.solver, inverse, solved, stale, told)


def _task_inverse(known: Columns, task_alpha: float, solver: str, told: bool = False) -> RidgeInverse | None:
    """Return the inverse of the tasks that have a label."""
    if known.tasks is None:
        return None
    count = int(known.labelled.size)
    return RidgeInverse(known.task_gram, count, task_alpha, solver, n_new=count, is_told=told)


def in_places(pieces: Sequence[tuple[np.ndarray, Array]], old: Array | None = None) -> Array:
    """Return rows put in their places; those that no piece has are as they were in `old`, None if there are none."""
    if not pieces:
        assert old is not None
        return old
    places, parts = np.concatenate([own for own, _ in pieces]), [part for _, part in pieces]
    start = 0 if old is None else int(old.shape[0])
    order = np.arange(max(start, places.size))
    order[places] = start + np.arange(places.size)
    return take_rows(namespace(parts[0]).concat(parts if old is None else [old, *parts], axis=0), order)


def by_columns(model: Any) -> ColumnRidge:
    """Return a model that takes labels with holes; refuse where what is known of the tasks is mixed."""
    if isinstance(model, ColumnRidge):
        return model
    check_told_apart(model.statistics)
    task_alpha = 1.0 if model.task_inverse is None else model.task_inverse.alpha
    return ColumnRidge.start(as_columns(model.statistics), model.inverse.alpha, task_alpha, solver=model.inverse.solver)


def started(seen: Statistics | Columns, alpha: float, task_alpha: float, solver: str) -> OnlineRidge | ColumnRidge:
    """Return the model of given statistics, complete or with holes."""
    if isinstance(seen, Statistics):
        return OnlineRidge.start(seen, alpha, task_alpha, solver=solver)
    return ColumnRidge.start(seen, alpha, task_alpha, solver=solver)


def with_rows(model: OnlineRidge | ColumnRidge, Phi: Array, Y: Array) -> OnlineRidge | ColumnRidge:
    """Return a model with instances (l, d) and their labels (l, q) learnt, which from the first hole on takes holes."""
    return (by_columns(model) if has_holes(Y) else model).with_rows(Phi, Y)


def with_tasks(model: Any, found: Statistics | Columns) -> OnlineRidge | ColumnRidge:
    """Return a model with tasks learnt by their statistics, which from the first hole on takes holes."""
    if isinstance(model, OnlineRidge) and isinstance(found, Statistics):
        return model.with_tasks(found.tasks, found.cross, found.label_mean)
    return by_columns(model).with_tasks(as_columns(found))

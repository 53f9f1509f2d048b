"""What an online model remembers: nothing here changes, every step makes a new one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, dense, is_sparse, namespace, take_rows
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, shown
from dyadlearn.exceptions import IdError
from dyadlearn.growing.column_ridge import ColumnRidge, with_rows, with_tasks
from dyadlearn.growing.columns import Columns, check_told_apart, seen_in, seen_together
from dyadlearn.growing.kept import Batch, Kept, row_keys, stacked, without_columns
from dyadlearn.growing.statistics import Statistics, has_holes, same_rows
from dyadlearn.growing.two_step import OnlineRidge

__all__ = ["KNOWN", "Knowledge", "Lesson", "Pending", "Reservoir"]

#: What becomes of instances whose ids are known.
KNOWN = ("error", "replace")


@dataclass(frozen=True, eq=False)
class Lesson:
    """Instances to learn or to forget, with their labels.

    Attributes
    ----------
    rows, Phi : arrays or sparse matrices of shape (l, p) and (l, d)
        As they came, and as the feature map makes them.
    labels : array or sparse matrix of shape (l, q)
        NaN where not observed.
    ids : Ids or None
    """

    rows: Array
    Phi: Array
    labels: Array
    ids: Ids | None = None

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def take(self, places: np.ndarray) -> Lesson:
        """Return some of the instances."""
        rows, Phi, labels = (take_rows(part, places) for part in (self.rows, self.Phi, self.labels))
        return Lesson(rows, Phi, labels, None if self.ids is None else self.ids.take(places.tolist()))


@dataclass(frozen=True, eq=False)
class Pending(Stored):
    """Tasks whose labels have come for some of the instances only.

    Attributes
    ----------
    statistics : Statistics
        Of the instances whose labels have come, for these tasks alone.
    ids : Ids or None
    positions : integer array of shape (l,) or None
        Which known tasks they are, if they are to be forgotten; None for new ones.
    """

    statistics: Statistics | Columns
    ids: Ids | None = None
    positions: np.ndarray | None = None

    _shapes: ClassVar[Mapping[str, str]] = {"ids": "statistics.n_tasks"}

    def _fits(self) -> bool:
        places = self.positions
        return places is None or (places.dtype.kind == "i" and places.shape == (self.statistics.n_tasks,))

    def is_complete(self, seen: Statistics | Columns) -> bool:
        """Tell whether the labels of all instances have come; refuse instances that are others."""
        n, wanted = self.statistics.n_rows, seen.n_rows
        if n < wanted:
            return False
        if n > wanted or not same_rows(_of_instances(self.statistics), _of_instances(seen)):
            raise ValueError(
                f"The chunks bring labels for {n} instances, but these are not the {wanted} that were learnt: their "
                "Gram matrix differs. Give every learnt instance once, with the features it was learnt with. This "
                "chunk was not taken in; abandon_tasks() gives the others up too."
            )
        return True


@dataclass(frozen=True, eq=False)
class Reservoir(Stored):
    """A uniform sample of the rows that were learnt, of bounded size.

    Attributes
    ----------
    size, seed : int
    n_offered : int
        Number of rows it is a sample of.
    rows, labels : arrays or sparse matrices of shape (c, p) and (c, q), or None
        At most `size` rows as they came, with their labels.
    """

    size: int
    seed: int
    n_offered: int = 0
    rows: Array | None = None
    labels: Array | None = None

    _shapes: ClassVar[Mapping[str, str]] = {"rows": "sparse c p", "labels": "sparse c q"}

    def _fits(self) -> bool:
        return (self.rows is None) == (self.labels is None)

    def __len__(self) -> int:
        return 0 if self.rows is None else int(self.rows.shape[0])

    def offered(self, rows: Array, labels: Array) -> Reservoir:
        """Return the sample after rows (l, p) with labels (l, q) went by."""
        # Seeded by what went by before, so that the same stream leaves the same sample however it is interrupted.
        rng = np.random.default_rng([self.seed, self.n_offered])
        place = self.n_offered + np.arange(rows.shape[0])
        slots = np.where(place < self.size, place, rng.integers(0, place + 1))
        content = {slot: slot for slot in range(len(self))}
        for new in np.flatnonzero(slots < self.size):
            # A slot that rows were forgotten from may lie beyond the end: then the sample grows again.
            content[min(int(slots[new]), len(content))] = len(self) + int(new)
        order = np.array([content[slot] for slot in range(len(content))], dtype=np.intp)
        return replace(
            self,
            n_offered=self.n_offered + int(rows.shape[0]),
            rows=_picked(self.rows, rows, order),
            labels=_picked(self.labels, labels, order),
        )

    def without(self, rows: Array, labels: Array) -> Reservoir:
        """Return the sample after rows (l, p) with labels (l, q) were forgotten."""
        left = replace(self, n_offered=max(self.n_offered - int(rows.shape[0]), 0))
        if self.rows is None:
            return left
        gone = set(zip(row_keys(rows), row_keys(labels), strict=True))
        known = zip(row_keys(self.rows), row_keys(self.labels), strict=True)
        kept = np.flatnonzero([key not in gone for key in known])
        if not len(kept):
            return Reservoir(self.size, self.seed)
        return replace(left, rows=take_rows(self.rows, kept), labels=take_rows(self.labels, kept))

    def without_tasks(self, positions: np.ndarray) -> Reservoir:
        """Return the sample with the labels of some tasks forgotten."""
        return replace(self, labels=without_columns(self.labels, positions))

    def exchanged(self, old: tuple[Array, Array], new: tuple[Array, Array]) -> Reservoir:
        """Return the sample with rows (l, p) and labels (l, q) that are in it exchanged for others."""
        if self.rows is None:
            return self
        place = {key: row for row, key in enumerate(zip(*map(row_keys, old), strict=True))}
        # Most rows are none of them, whatever their labels.
        wanted = {rows for rows, _ in place}
        order, found = np.arange(len(self)), row_keys(self.rows)
        some = np.array([row for row, key in enumerate(found) if key in wanted], dtype=np.intp)
        if not some.size:
            return self
        for row, labels in zip(some, row_keys(take_rows(self.labels, some)), strict=True):
            order[row] = len(self) + place[found[row], labels] if (found[row], labels) in place else row
        return replace(self, rows=_picked(self.rows, new[0], order), labels=_picked(self.labels, new[1], order))


@dataclass(frozen=True, eq=False)
class Knowledge(Stored):
    """Everything that changes when a model learns, swapped in one assignment.

    Attributes
    ----------
    model : OnlineRidge or ColumnRidge
        The latter from the first label on that is not observed.
    dtype : dtype
        Of the data, and of what is predicted.
    is_vector : bool
        Whether labels came with one dimension.
    task_ids, task_names : Ids or None
        Of the tasks, and of their features.
    n_task_features : int
        Number of columns of the tasks as they came.
    pending : Pending or None
    kept : Kept
        The instances, as far as the model keeps them.
    keeps_instances, keeps_labels : bool
        Whether it keeps every instance as it came, and the labels of each.
    reservoir : Reservoir or None
    squared_error : float
        Of predictions made just before learning, summed over `n_scored` labels.
    """

    model: OnlineRidge | ColumnRidge
    dtype: Any
    is_vector: bool = False
    task_ids: Ids | None = None
    task_names: Ids | None = None
    n_task_features: int = 0
    pending: Pending | None = None
    kept: Kept = field(default_factory=Kept)
    keeps_instances: bool = False
    keeps_labels: bool = False
    reservoir: Reservoir | None = None
    squared_error: float = 0.0
    n_scored: int = 0

    _shapes: ClassVar[Mapping[str, str]] = {"task_ids": "model.statistics.n_tasks", "task_names": "n_task_features"}

    def state(self) -> dict[str, Any]:
        """Return the fields, the dtype by its name."""
        return super().state() | {"dtype": f"float{namespace(self.model.statistics.gram).finfo(self.dtype).bits}"}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Knowledge:
        """Return what a state describes, with a dtype of numpy."""
        found = {**state, "dtype": {"float32": np.float32, "float64": np.float64}[state["dtype"]]}
        if "instances" in found:  # as files had it when a model kept no ids and no labels
            rows = found.pop("instances")
            kept = Kept()
            for batch in rows or ():
                kept = kept.with_batch(Batch(int(batch.shape[0]), rows=batch))
            found |= {"kept": kept, "keeps_instances": rows is not None, "keeps_labels": False}
        return super().from_state(found, where)

    def _fits(self) -> bool:
        batches, known = self.kept.batches, self.model.statistics
        return (
            len(self.kept) <= known.n_rows
            and (not self.keeps_instances or len(self.kept) == known.n_rows)
            and all((batch.rows is not None) == self.keeps_instances for batch in batches)
            and all((batch.labels is not None) == self.keeps_labels for batch in batches)
            and all(batch.labels is None or batch.labels.shape[1] == known.n_tasks for batch in batches)
        )

    def check_settled(self, verb: str) -> None:
        """Refuse to change the instances while the labels of tasks are incomplete."""
        if self.pending is None:
            return
        count, have = self.pending.statistics.n_tasks, self.pending.statistics.n_rows
        raise ValueError(
            f"Cannot {verb} while {count} task(s) are pending, labelled for {have} of {self.model.statistics.n_rows} "
            "instances: give the labels of the others, or give the tasks up with abandon_tasks()."
        )

    def new_ids(self, new: Ids | None) -> Ids | None:
        """Return the ids of new tasks, refusing those that are known already."""
        known = self.task_ids
        if known is None:
            return None
        if new is None:
            raise IdError("The known tasks have ids: give the new ones ids too, as a frame of labels or of tasks.")
        repeated = [label for label in new.labels if label in set(known.labels)]
        if repeated:
            shown = ", ".join(map(repr, repeated[:5]))
            raise IdError(f"Tasks {shown} are known already: give new tasks ids of their own, or forget the old ones.")
        return new

    def scored(self, lesson: Lesson) -> Knowledge:
        """Return what is known with the squared error of predictions of labels added, before these are learnt."""
        labels = lesson.labels
        places = self._known_places(lesson.ids)
        if any(place is not None for place in places):
            # A label that is replaced was known, and is no prediction.
            old = self._old_labels(places)
            xp = namespace(old)
            labels = xp.where(xp.isnan(old), dense(labels), xp.full_like(old, float("nan")))
        error, count = self.model.scored(lesson.Phi, labels)
        return replace(self, squared_error=self.squared_error + error, n_scored=self.n_scored + count)

    def with_rows(self, lesson: Lesson) -> Knowledge:
        """Return what is known after new instances."""
        reservoir = None if self.reservoir is None else self.reservoir.offered(lesson.rows, lesson.labels)
        model = with_rows(self.model, lesson.Phi, lesson.labels)
        return replace(self.keeping(lesson), model=model, reservoir=reservoir)

    def keeping(self, lesson: Lesson) -> Knowledge:
        """Return what is known with what is to be kept of instances, which is learnt elsewhere."""
        rows, labels = lesson.rows if self.keeps_instances else None, lesson.labels if self.keeps_labels else None
        return replace(self, kept=self.kept.with_batch(Batch.of(lesson.ids, rows, labels, len(lesson))))

    def without_rows(self, lesson: Lesson) -> Knowledge:
        """Return what is known without instances that it knew."""
        places = self._places_to_forget(lesson)
        reservoir = None if self.reservoir is None else self.reservoir.without(lesson.rows, lesson.labels)
        model = self.model.without_rows(lesson.Phi, lesson.labels)
        return replace(self, model=model, kept=self.kept.without(places), reservoir=reservoir)

    def _places_to_forget(self, lesson: Lesson) -> list[tuple[int, int]]:
        """Return where instances that are to be forgotten are kept; refuse what was not learnt so."""
        n, kept = len(lesson), self.kept
        if lesson.ids is not None and kept.n_named:
            found = kept.places(lesson.ids.labels)
            unknown = [label for label, place in zip(lesson.ids.labels, found, strict=True) if place is None]
            if unknown:
                raise IdError(f"Instances {shown(unknown)} are not known, so that they cannot be forgotten.")
            places = [place for place in found if place is not None]
        elif self.keeps_instances:
            places = kept.equal_rows(lesson.rows)
        elif kept.n_named and self.model.statistics.n_rows - kept.n_named < n:
            raise IdError(
                f"The model knows {kept.n_named} of its {self.model.statistics.n_rows} instances by their ids: give "
                "those that are to be forgotten with their ids, as a frame."
            )
        else:
            places = []
        if self.keeps_labels:
            rows, labels = kept.taken(places)
            if row_keys(rows) != row_keys(lesson.rows) or row_keys(labels) != row_keys(lesson.labels):
                raise ValueError(
                    "X or Y are not what the model has learnt of the instances to forget: give them with the features "
                    "and the labels that they were learnt with. Nothing was forgotten."
                )
        return places

    # Instances that are known already -----------------------------------------------------------------

    def _known_places(self, ids: Ids | None) -> list[tuple[int, int] | None]:
        return [] if ids is None else self.kept.places(ids.labels)

    def known_among(self, ids: Ids | None) -> np.ndarray:
        """Return the positions of those ids that are known."""
        return np.array(
            [position for position, place in enumerate(self._known_places(ids)) if place is not None], dtype=np.intp
        )

    def _old_labels(self, places: Sequence[tuple[int, int] | None]) -> Array:
        """Return the labels (l, q) that instances were learnt with, NaN for what is not known."""
        known = [position for position, place in enumerate(places) if place is not None]
        _, labels = self.kept.taken([place for place in places if place is not None])
        labels = dense(labels)
        nothing = namespace(labels).full_like(labels[:1, :], float("nan"))
        order = np.full(len(places), len(known))
        order[known] = np.arange(len(known))
        return take_rows(namespace(labels).concat([labels, nothing], axis=0), order)

    def replacing(self, lesson: Lesson, mapped: Callable[[Array], Array]) -> tuple[Knowledge, float]:
        """Return what is known with known instances learnt anew, and how much of it is rounding.

        Labels that the lesson does not observe stay as they are.

        Parameters
        ----------
        lesson : Lesson
            All its ids are known, with rows and labels.
        mapped : callable
            Takes instances as they came to their features.
        """
        places = [place for place in self._known_places(lesson.ids) if place is not None]
        rows, old = self.kept.taken(places)
        old, given = dense(old), dense(lesson.labels)
        xp = namespace(old)
        new = xp.where(xp.isnan(given), old, xp.astype(given, old.dtype))
        model: Any = self.model
        if row_keys(rows) == row_keys(lesson.rows) and model.takes_holes:
            # Only cells that change are touched, so that tasks which nobody speaks of stay as they are.
            hole = xp.full_like(old, float("nan"))
            changed = ~xp.isnan(new) & (new != old)
            gone, come = xp.where(changed, old, hole), xp.where(changed, new, hole)
            left = model.without_labels(lesson.Phi, gone)
            after = left.with_labels(lesson.Phi, come)
        else:
            left = model.without_rows(mapped(rows), old)
            after = with_rows(left, lesson.Phi, new)
        merged = replace(lesson, labels=new)
        reservoir = self.reservoir
        if reservoir is not None:
            reservoir = reservoir.exchanged((rows, old), (lesson.rows, new))
        learnt = replace(self, kept=self.kept.without(places)).keeping(merged)
        return replace(learnt, model=after, reservoir=reservoir), model.digits_lost(after)

    def with_labels(
        self,
        chunks: Sequence[tuple[Array, Array]],
        Psi: Array | None,
        ids: Ids | None,
        positions: np.ndarray | None = None,
    ) -> Knowledge:
        """Return what is known with labels of more instances for some tasks, which join or leave when they are all.

        Parameters
        ----------
        chunks : sequence of (array of shape (n, d), array of shape (n, l))
            Features of instances, and their labels for these tasks.
        Psi : array of shape (l, r) or None
            Features of the tasks.
        ids, positions : as in `Pending`
        """
        known = self.model.statistics
        seen = [] if self.pending is None else [self.pending.statistics]
        for Phi, labels in chunks:
            if has_holes(labels):
                check_told_apart(known)
            seen.append(seen_in(Phi, labels, Psi, per_task=known.per_task, constant=known.has_constant))
        pending = Pending(seen_together(seen), ids, positions)
        if not pending.is_complete(self.model.statistics):
            return replace(self, pending=pending)
        found = pending.statistics
        if positions is not None:
            assert isinstance(found, Statistics)  # tasks that holes keep apart are forgotten without labels
            return self.without_tasks(positions, found.cross, found.label_mean)
        ids = self.task_ids
        if ids is not None and pending.ids is not None:
            ids = Ids((*ids.labels, *pending.ids.labels), ids.name)
        # The rows in the reservoir have no labels for the new tasks.
        reservoir = None if self.reservoir is None else Reservoir(self.reservoir.size, self.reservoir.seed)
        kept = self.kept.with_tasks(stacked([labels for _, labels in chunks])) if self.keeps_labels else self.kept
        model = with_tasks(self.model, found)
        return replace(self, model=model, pending=None, task_ids=ids, kept=kept, reservoir=reservoir, is_vector=False)

    def without_tasks(
        self, positions: np.ndarray, cross: Array | None = None, label_mean: Array | None = None
    ) -> Knowledge:
        """Return what is known without some tasks: see `dyadlearn.growing.statistics.remove_tasks`."""
        ids = self.task_ids
        if ids is not None:
            ids = ids.take(np.delete(np.arange(len(ids)), positions))
        reservoir = None if self.reservoir is None else self.reservoir.without_tasks(positions)
        # Where tasks are told apart nothing but their positions is needed.
        model = self.model.without_tasks(positions, *(() if cross is None else (cross, label_mean)))
        kept = self.kept.without_tasks(positions)
        return replace(self, model=model, pending=None, task_ids=ids, kept=kept, reservoir=reservoir)


def _of_instances(seen: Statistics | Columns) -> Statistics:
    """Return statistics of all instances, whatever their tasks are."""
    return seen.instances if isinstance(seen, Columns) else seen


def _picked(old: Array | None, new: Array, order: np.ndarray) -> Array:
    """Return rows of `old` and `new`, one below the other, by position in both together."""
    if old is None:
        return take_rows(new, order)
    # Only what is taken over is copied: `new` may be much longer than the sample.
    n_old = int(old.shape[0])
    fresh = np.flatnonzero(order >= n_old)
    taken = take_rows(new, order[fresh] - n_old)
    place = order.copy()
    place[fresh] = n_old + np.arange(len(fresh))
    if is_sparse(old) or is_sparse(new):
        return sparse.vstack([sparse.csr_array(old), sparse.csr_array(taken)], format="csr")[place]
    return take_rows(namespace(old).concat([old, taken], axis=0), place)

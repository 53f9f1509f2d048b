"""What an online model remembers: nothing here changes, every step makes a new one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import Array, dense, namespace, take_rows
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, shown
from dyadlearn.exceptions import IdError
from dyadlearn.growing.column_ridge import ColumnRidge, with_rows, with_tasks
from dyadlearn.growing.columns import Columns, check_told_apart, seen_in, seen_together
from dyadlearn.growing.kept import Batch, Kept, row_keys
from dyadlearn.growing.statistics import Statistics, has_holes, same_rows
from dyadlearn.growing.two_step import OnlineRidge

__all__ = ["KNOWN", "Knowledge", "Lesson"]

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
    kept : Kept
        The instances, as far as the model keeps them.
    keeps_instances, keeps_labels : bool
        Whether it keeps every instance as it came, and the labels of each.
    """

    model: OnlineRidge | ColumnRidge
    dtype: Any
    is_vector: bool = False
    task_ids: Ids | None = None
    task_names: Ids | None = None
    n_task_features: int = 0
    kept: Kept = field(default_factory=Kept)
    keeps_instances: bool = False
    keeps_labels: bool = False

    _shapes: ClassVar[Mapping[str, str]] = {"task_ids": "model.statistics.n_tasks", "task_names": "n_task_features"}

    def state(self) -> dict[str, Any]:
        """Return the fields, the dtype by its name."""
        return super().state() | {"dtype": f"float{namespace(self.model.statistics.gram).finfo(self.dtype).bits}"}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], where: str) -> Knowledge:
        """Return what a state describes, with a dtype of numpy."""
        found = {**state, "dtype": {"float32": np.float32, "float64": np.float64}[state["dtype"]]}
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

    def with_rows(self, lesson: Lesson) -> Knowledge:
        """Return what is known after new instances."""
        return replace(self.keeping(lesson), model=with_rows(self.model, lesson.Phi, lesson.labels))

    def keeping(self, lesson: Lesson) -> Knowledge:
        """Return what is known with what is to be kept of instances, which is learnt elsewhere."""
        rows, labels = lesson.rows if self.keeps_instances else None, lesson.labels if self.keeps_labels else None
        return replace(self, kept=self.kept.with_batch(Batch.of(lesson.ids, rows, labels, len(lesson))))

    def without_rows(self, lesson: Lesson) -> Knowledge:
        """Return what is known without instances that it knew."""
        places = self._places_to_forget(lesson)
        model = self.model.without_rows(lesson.Phi, lesson.labels)
        return replace(self, model=model, kept=self.kept.without(places))

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

    def known_among(self, ids: Ids | None) -> np.ndarray:
        """Return the positions of those ids that are known."""
        found = [] if ids is None else self.kept.places(ids.labels)
        return np.array([position for position, place in enumerate(found) if place is not None], dtype=np.intp)

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
        ids = () if lesson.ids is None else lesson.ids.labels
        places = [place for place in self.kept.places(ids) if place is not None]
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
            after = model.with_labels(lesson.Phi, gone, -1).with_labels(lesson.Phi, come)
        else:
            after = with_rows(model.without_rows(mapped(rows), old), lesson.Phi, new)
        merged = replace(lesson, labels=new)
        learnt = replace(self, kept=self.kept.without(places)).keeping(merged)
        return replace(learnt, model=after), model.digits_lost(after)

    def seen_of_tasks(self, parts: Iterable[tuple[Array, Array]], Psi: Array | None) -> Statistics | Columns:
        """Return the statistics of some tasks, of all instances that were learnt.

        Parameters
        ----------
        parts : iterable of (array of shape (n, d), array of shape (n, l))
            Features of instances, and their labels for these tasks. One part is in memory at a time.
        Psi : array of shape (l, r) or None
            Features of the tasks.

        Raises
        ------
        ValueError
            If the instances of all parts are not those that were learnt.
        """
        known = self.model.statistics

        def seen_of(part: tuple[Array, Array]) -> Statistics | Columns:
            Phi, labels = part
            if has_holes(labels):
                check_told_apart(known)
            return seen_in(Phi, labels, Psi, per_task=known.per_task, constant=known.has_constant)

        seen = reduce(seen_together, map(seen_of, parts))
        if seen.n_rows != known.n_rows or not same_rows(_of_instances(seen), _of_instances(known)):
            raise ValueError(
                f"Y has labels for {seen.n_rows} instances, but these are not the {known.n_rows} that were learnt: "
                "their Gram matrix differs. Give every learnt instance once in the same call, with the features it was "
                "learnt with; chunks= takes them in pieces. Nothing was changed."
            )
        return seen

    def with_tasks(self, found: Statistics | Columns, ids: Ids | None, labels: Array | None) -> Knowledge:
        """Return what is known with new tasks, by their statistics.

        `labels` (m, l) are in the order of the instances, and are needed where the model keeps labels.
        """
        if self.task_ids is not None and ids is not None:
            ids = Ids((*self.task_ids.labels, *ids.labels), self.task_ids.name)
        kept = self.kept if labels is None else self.kept.with_tasks(labels)
        return replace(self, model=with_tasks(self.model, found), task_ids=ids, kept=kept, is_vector=False)

    def without_tasks(self, positions: np.ndarray, found: Statistics | None = None) -> Knowledge:
        """Return what is known without some tasks, whose statistics are needed where they are not told apart."""
        ids = self.task_ids
        if ids is not None:
            ids = ids.take(np.delete(np.arange(len(ids)), positions))
        model = self.model.without_tasks(positions, *(() if found is None else (found.cross, found.label_mean)))
        return replace(self, model=model, task_ids=ids, kept=self.kept.without_tasks(positions))


def _of_instances(seen: Statistics | Columns) -> Statistics:
    """Return statistics of all instances, whatever their tasks are."""
    return seen.instances if isinstance(seen, Columns) else seen

"""What an online model remembers: nothing here changes, every step makes a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, copied, is_sparse, namespace, take_rows, to_numpy
from dyadlearn._state import Stored, is_shaped
from dyadlearn._tables import Ids
from dyadlearn.exceptions import IdError
from dyadlearn.growing.statistics import Statistics, alike, collect, merge, same_rows
from dyadlearn.growing.two_step import OnlineRidge

__all__ = ["Knowledge", "Pending", "Reservoir", "without_rows"]


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

    statistics: Statistics
    ids: Ids | None = None
    positions: np.ndarray | None = None

    _shapes: ClassVar[Mapping[str, str]] = {"ids": "statistics.n_tasks"}

    def _fits(self) -> bool:
        places = self.positions
        return places is None or (places.dtype.kind == "i" and places.shape == (self.statistics.n_tasks,))

    def is_complete(self, seen: Statistics) -> bool:
        """Tell whether the labels of all instances have come; refuse instances that are others."""
        n, wanted = self.statistics.n_rows, seen.n_rows
        if n < wanted:
            return False
        if n > wanted or not same_rows(self.statistics, seen):
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
        gone = set(zip(_keys(rows), _keys(labels), strict=True))
        known = zip(_keys(self.rows), _keys(self.labels), strict=True)
        kept = np.flatnonzero([key not in gone for key in known])
        if not len(kept):
            return Reservoir(self.size, self.seed)
        return replace(left, rows=take_rows(self.rows, kept), labels=take_rows(self.labels, kept))

    def without_tasks(self, positions: np.ndarray) -> Reservoir:
        """Return the sample with the labels of some tasks forgotten."""
        if self.labels is None:
            return self
        kept = np.delete(np.arange(self.labels.shape[1]), positions)
        labels = self.labels[:, kept] if is_sparse(self.labels) else take_rows(self.labels.T, kept).T
        return replace(self, labels=labels)


@dataclass(frozen=True, eq=False)
class Knowledge(Stored):
    """Everything that changes when a model learns, swapped in one assignment.

    Attributes
    ----------
    model : OnlineRidge
    dtype : dtype
        Of the data, and of what is predicted.
    is_vector : bool
        Whether labels came with one dimension.
    task_ids, task_names : Ids or None
        Of the tasks, and of their features.
    n_task_features : int
        Number of columns of the tasks as they came.
    pending : Pending or None
    instances : tuple of arrays or None
        Every instance as it came, batch by batch, if the model keeps them.
    reservoir : Reservoir or None
    squared_error : float
        Of predictions made just before learning, summed over `n_scored` labels.
    """

    model: OnlineRidge
    dtype: Any
    is_vector: bool = False
    task_ids: Ids | None = None
    task_names: Ids | None = None
    n_task_features: int = 0
    pending: Pending | None = None
    instances: tuple[Array, ...] | None = None
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
        dtype = {"float32": np.float32, "float64": np.float64}[state["dtype"]]
        return super().from_state({**state, "dtype": dtype}, where)

    def _fits(self) -> bool:
        batches = self.instances
        return batches is None or (
            all(is_shaped(batch, None, None, sparse=True) for batch in batches)
            and sum(batch.shape[0] for batch in batches) == self.model.statistics.n_rows
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

    def scored(self, squared_error: float, labels: Array) -> Knowledge:
        """Return what is known with the squared error of predictions of labels (l, q) added."""
        n_scored = self.n_scored + int(labels.shape[0] * labels.shape[1])
        return replace(self, squared_error=self.squared_error + squared_error, n_scored=n_scored)

    def with_rows(self, rows: Array, Phi: Array, labels: Array) -> Knowledge:
        """Return what is known after instances, as they came (l, p) and mapped (l, d), with labels (l, q)."""
        instances = None if self.instances is None else (*self.instances, copied(rows))
        reservoir = None if self.reservoir is None else self.reservoir.offered(rows, labels)
        return replace(self, model=self.model.with_rows(Phi, labels), instances=instances, reservoir=reservoir)

    def without_rows(self, rows: Array, Phi: Array, labels: Array) -> Knowledge:
        """Return what is known without instances, as they came (l, p) and mapped (l, d), with labels (l, q)."""
        instances = None if self.instances is None else without_rows(self.instances, rows)
        reservoir = None if self.reservoir is None else self.reservoir.without(rows, labels)
        return replace(self, model=self.model.without_rows(Phi, labels), instances=instances, reservoir=reservoir)

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
        options = {"per_task": known.per_task, "constant": known.has_constant}
        seen = [] if self.pending is None else [self.pending.statistics]
        for Phi, labels in chunks:
            seen.append(alike(seen[0], Phi, labels) if seen else collect(Phi, labels, Psi, **options))
        pending = Pending(reduce(merge, seen), ids, positions)
        if not pending.is_complete(self.model.statistics):
            return replace(self, pending=pending)
        found = pending.statistics
        if positions is not None:
            return self.without_tasks(positions, found.cross, found.label_mean)
        ids = self.task_ids
        if ids is not None and pending.ids is not None:
            ids = Ids((*ids.labels, *pending.ids.labels), ids.name)
        # The rows in the reservoir have no labels for the new tasks.
        reservoir = None if self.reservoir is None else Reservoir(self.reservoir.size, self.reservoir.seed)
        model = self.model.with_tasks(found.tasks, found.cross, found.label_mean)
        return replace(self, model=model, pending=None, task_ids=ids, reservoir=reservoir, is_vector=False)

    def without_tasks(
        self, positions: np.ndarray, cross: Array | None = None, label_mean: Array | None = None
    ) -> Knowledge:
        """Return what is known without some tasks: see `dyadlearn.growing.statistics.remove_tasks`."""
        ids = self.task_ids
        if ids is not None:
            ids = ids.take(np.delete(np.arange(len(ids)), positions))
        reservoir = None if self.reservoir is None else self.reservoir.without_tasks(positions)
        model = self.model.without_tasks(positions, cross, label_mean)
        return replace(self, model=model, pending=None, task_ids=ids, reservoir=reservoir)


def without_rows(batches: Sequence[Array], gone: Array) -> tuple[Array, ...]:
    """Return batches of rows without one copy of each of some rows, every one of which must be there."""
    wanted: dict[bytes, list[int]] = {}
    for position, key in enumerate(_keys(gone)):
        wanted.setdefault(key, []).append(position)
    left = []
    for batch in batches:
        kept = []
        for position, key in enumerate(_keys(batch)):
            if wanted.get(key):
                wanted[key].pop()
            else:
                kept.append(position)
        if kept:
            left.append(batch if len(kept) == batch.shape[0] else take_rows(batch, np.array(kept, dtype=np.intp)))
    missing = sorted(position for positions in wanted.values() for position in positions)
    if missing:
        raise ValueError(
            f"X holds {len(missing)} instance(s) that were not learnt, among them row {missing[0]}: nothing was "
            "forgotten."
        )
    return tuple(left)


def _keys(rows: Array) -> list[bytes]:
    """Return for each row what it is found again by: where it is not zero, and what it is there."""
    matrix = sparse.csr_array(rows if is_sparse(rows) else to_numpy(rows), dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    bounds = list(zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True))
    places = matrix.indices.astype(np.int64)
    return [places[start:stop].tobytes() + matrix.data[start:stop].tobytes() for start, stop in bounds]


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

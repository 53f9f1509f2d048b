"""State of an online model: statistics, and the ids, features and labels of training instances that it stores.

All objects are immutable: every update returns a new one.

Statistics do not contain ids. To recognise a known instance, the model stores its id. To replace
its labels, the model also stores its features and its labels. Instances are stored in batches of at
most a few thousand, in the order of training. New instances are appended to the last batch, so that
there are few batches.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from dyadlearn._array import (
    Array,
    as_array_of,
    copied,
    dense,
    is_foreign,
    is_sparse,
    namespace,
    take_rows,
    to_numpy,
)
from dyadlearn._codes import row_keys
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, shown
from dyadlearn.exceptions import IdError
from dyadlearn.growing.statistics import Statistics, collect, has_holes, merge
from dyadlearn.growing.two_step import OnlineRidge

#: Maximum number of rows of a batch; a change of an instance copies its batch.
_ROWS = 2**13


@dataclass(frozen=True, eq=False)
class Batch(Stored):
    """Batch of instances.

    Attributes
    ----------
    n_rows : int
        Number of instances.
    ids : Ids or None
        Ids of the instances.
    rows : array or sparse matrix of shape (l, p) or None
        Features before a feature map.
    labels : array or sparse matrix of shape (l, q) or None
        Labels. If `is_thin`, a sparse matrix of the observed labels, including zeros; otherwise the
        entries that a sparse matrix does not store are labels of zero.
    is_thin : bool
        Whether entries that `labels` does not store are missing labels.
    """

    n_rows: int
    ids: Ids | None = None
    rows: Array | None = None
    labels: Array | None = None
    is_thin: bool = False

    _shapes: ClassVar[Mapping[str, str]] = {
        "ids": "n_rows",
        "rows": "sparse l p",
        "labels": "sparse l q",
    }

    def _fits(self) -> bool:
        parts = (self.rows, self.labels)
        return all(part is None or part.shape[0] == self.n_rows for part in parts) and (
            not self.is_thin or (self.labels is not None and is_sparse(self.labels))
        )

    def copied(self) -> Batch:
        """Return a copy; if labels are missing, only the observed ones are stored."""
        labels = copied(self.labels)
        is_thin = has_holes(self.labels) and not is_foreign(self.labels)
        return replace(
            self,
            rows=copied(self.rows),
            labels=_thin(labels) if is_thin else labels,
            is_thin=is_thin,
        )

    @cached_property
    def place_of(self) -> dict[Hashable, int]:
        """Position of each id."""
        if self.ids is None:
            return {}
        return {label: place for place, label in enumerate(self.ids.labels)}

    @property
    def all_labels(self) -> Array:
        """Labels; a dense array with NaN if labels are missing."""
        return _filled(self.labels) if self.is_thin else self.labels

    def take(self, places: np.ndarray) -> Batch:
        """Return some of the instances."""
        ids = None if self.ids is None else self.ids.take(places.tolist())
        rows, labels = (
            None if part is None else take_rows(part, places) for part in (self.rows, self.labels)
        )
        return Batch(len(places), ids, rows, labels, self.is_thin)

    @property
    def kind(self) -> tuple[Any, ...]:
        """Types of the stored arrays; two batches can be joined if it is the same."""
        return self.ids is None, self.is_thin, is_sparse(self.rows), is_sparse(self.labels)

    def joined(self, other: Batch) -> Batch:
        """Return the instances of both, which are of the same kind."""
        pairs = ((self.rows, other.rows), (self.labels, other.labels))
        rows, labels = (None if part is None else stacked([part, more]) for part, more in pairs)
        return Batch(
            self.n_rows + other.n_rows, joined_ids(self.ids, other.ids), rows, labels, self.is_thin
        )


@dataclass(frozen=True, eq=False)
class Kept(Stored):
    """Stored instances, in the order of training.

    Attributes
    ----------
    batches : tuple of Batch
    """

    batches: tuple[Batch, ...] = ()

    def __len__(self) -> int:
        return sum(batch.n_rows for batch in self.batches)

    @property
    def n_named(self) -> int:
        """Number of instances that have an id."""
        return sum(batch.n_rows for batch in self.batches if batch.ids is not None)

    @property
    def ids(self) -> Ids | None:
        """Ids of all instances in order; None if one has none."""
        parts = [batch.ids for batch in self.batches]
        if not parts or any(part is None for part in parts):
            return None
        return Ids(tuple(label for part in parts if part is not None for label in part.labels))

    def _spans(self) -> list[tuple[Batch, int, int]]:
        """Return each batch with the position of its first instance and the position after its last one."""
        ends = np.cumsum([batch.n_rows for batch in self.batches]).tolist()
        return list(zip(self.batches, [0, *ends], ends, strict=False))

    def places(self, ids: Sequence[Hashable]) -> list[int | None]:
        """Return the position of each id; None for an unknown id. If no instance has an id, ids are positions."""
        if not self.n_named:
            return [at if isinstance(at, int) and 0 <= at < len(self) else None for at in ids]
        place_of: dict[Hashable, int] = {}
        for batch, start, _ in self._spans():
            place_of |= {
                label: start + batch.place_of[label] for label in ids if label in batch.place_of
            }
        return [place_of.get(label) for label in ids]

    def equal_rows(self, rows: Array) -> list[int | None]:
        """Return the positions of instances with the same features, each used once, in the order of training."""
        places: dict[bytes, list[int]] = {}
        for place, key in enumerate(key for batch in self.batches for key in row_keys(batch.rows)):
            places.setdefault(key, []).append(place)
        return [places[key].pop(0) if places.get(key) else None for key in row_keys(rows)]

    def taken(self, places: Sequence[int | None]) -> tuple[Array, Array]:
        """Return instances (n, p) and labels (n, q) at positions; labels are dense with NaN if some are missing."""
        return self.part_of(places, "rows"), self.part_of(places, "all_labels")

    def part_of(self, places: Sequence[int | None], name: str) -> Array:
        """Return the instances ("rows") or their labels ("all_labels") at positions, as `taken` does."""
        at = np.array(places, dtype=np.intp)
        parts = []
        order = []
        for batch, start, end in self._spans():
            here = np.flatnonzero((start <= at) & (at < end))
            if here.size:
                parts.append(getattr(batch.take(at[here] - start), name))
                order.append(here)
        return take_rows(stacked(parts), np.argsort(np.concatenate(order)))

    def without(self, places: Sequence[int | None]) -> Kept:
        """Return the stored instances without those at some positions."""
        at = np.array(places, dtype=np.intp)
        batches = []
        for batch, start, end in self._spans():
            gone = at[(start <= at) & (at < end)] - start
            batches.append(
                batch.take(np.delete(np.arange(batch.n_rows), gone)) if gone.size else batch
            )
        return Kept(tuple(batch for batch in batches if batch.n_rows))

    def with_batch(self, batch: Batch) -> Kept:
        """Return the stored instances with an additional batch."""
        batches = list(self.batches)
        for start in range(0, batch.n_rows, _ROWS):
            if batch.n_rows <= _ROWS:
                part = batch
            else:
                part = batch.take(np.arange(start, min(start + _ROWS, batch.n_rows)))
            if (
                batches
                and batches[-1].kind == part.kind
                and batches[-1].n_rows + part.n_rows <= _ROWS
            ):
                part = batches.pop().joined(part)
            batches.append(part)
        return Kept(tuple(batches))

    def split(self, labels: Array) -> list[Array]:
        """Return labels (m, l) of all instances in their order, batch by batch."""
        return [labels[start:end, :] for _, start, end in self._spans()]

    def with_tasks(self, labels: Array) -> Kept:
        """Return the stored instances with labels (m, l) of additional tasks, in the order of the instances."""
        pairs = zip(self.batches, self.split(labels), strict=True)
        return Kept(
            tuple(
                replace(batch, labels=_beside(batch.all_labels, new)).copied()
                for batch, new in pairs
            )
        )

    def of_tasks(self, places: np.ndarray) -> Kept:
        """Return the stored instances with the labels of some tasks only."""
        labels: list[Any] = [batch.labels for batch in self.batches]
        pairs = zip(self.batches, labels, strict=True)
        return Kept(
            tuple(replace(batch, labels=take_rows(grid.T, places).T) for batch, grid in pairs)
        )


def joined_ids(first: Ids | None, second: Ids | None) -> Ids | None:
    """Return the ids of the first and then of the second, where both have some."""
    if first is None or second is None:
        return second
    return Ids((*first.labels, *second.labels), first.name)


def stacked(parts: Sequence[Array]) -> Array:
    """Return matrices one below the other, sparse if one is."""
    if len(parts) == 1:
        return parts[0]
    if any(is_sparse(part) for part in parts):
        return sparse.vstack([sparse.csr_array(part) for part in parts], format="csr")
    return namespace(parts[0]).concat(list(parts), axis=0)


def _beside(first: Array, second: Array) -> Array:
    """Return labels of the same instances side by side."""
    if is_sparse(first) and is_sparse(second):
        return sparse.hstack([first, second], format="csr")
    return namespace(first).concat([dense(first), dense(second)], axis=1)


def _thin(labels: np.ndarray) -> sparse.csr_array:
    """Return labels (l, q) as a sparse matrix of those that are observed."""
    places = np.nonzero(~np.isnan(labels))
    return sparse.csr_array((labels[places], places), shape=labels.shape)


def _filled(labels: Any) -> np.ndarray:
    """Return the dense labels of a matrix of `_thin`, with NaN for missing labels."""
    filled = np.full(labels.shape, np.nan, dtype=labels.dtype)
    stored = labels.tocoo()
    filled[stored.row, stored.col] = stored.data
    return filled


#: Treatment of instances whose ids are known.
KNOWN = ("error", "replace")


@dataclass(frozen=True, eq=False)
class Knowledge(Stored):
    """Complete state of a model, which an update replaces in one assignment.

    Attributes
    ----------
    model : OnlineRidge
    precision : {"float32", "float64"}
        Precision of the data and of the predictions.
    is_vector : bool
        Whether the labels have one dimension.
    task_ids, task_names : Ids or None
        Ids of the tasks, and names of their features.
    n_task_features : int
        Number of task features before a feature map.
    kept : Kept
        Stored instances.
    keeps_labels : bool
        Whether features and labels of every instance are stored; else only ids are.
    """

    model: OnlineRidge
    precision: str
    is_vector: bool = False
    task_ids: Ids | None = None
    task_names: Ids | None = None
    n_task_features: int = 0
    kept: Kept = field(default_factory=Kept)
    keeps_labels: bool = False

    _shapes: ClassVar[Mapping[str, str]] = {
        "task_ids": "model.statistics.n_tasks",
        "task_names": "n_task_features",
    }

    def _fits(self) -> bool:
        batches = self.kept.batches
        known = self.model.statistics
        return (
            self.precision in ("float32", "float64")
            and len(self.kept) <= known.n_rows
            and (not self.keeps_labels or len(self.kept) == known.n_rows)
            and all(
                (part is not None) == self.keeps_labels
                for batch in batches
                for part in (batch.rows, batch.labels)
            )
            and all(
                batch.labels is None or batch.labels.shape[1] == known.n_tasks for batch in batches
            )
        )

    def new_ids(self, new: Ids | None) -> Ids | None:
        """Return the ids of new tasks; raise if one of them is already known."""
        known = self.task_ids
        if known is None:
            return None
        if new is None:
            raise IdError(
                "The known tasks have ids: give the new ones ids too, as a frame of labels or of "
                "tasks."
            )
        repeated = [label for label in new.labels if label in set(known.labels)]
        if repeated:
            raise IdError(
                Message(
                    "Tasks {repeated} are known already: give new tasks ids of their own[, or "
                    "forget the old ones|].",
                    repeated=shown(repeated),
                )
            )
        return new

    def with_rows(self, batch: Batch, Phi: Array) -> Knowledge:
        """Return the state after learning new instances with features Φ (l, d)."""
        return replace(self.keeping(batch), model=self.model.with_rows(Phi, batch.labels))

    def keeping(self, batch: Batch) -> Knowledge:
        """Return the state with instances added to the stored ones, without learning them."""
        if self.keeps_labels:
            return replace(self, kept=self.kept.with_batch(batch.copied()))
        if batch.ids is None:
            return self
        return replace(self, kept=self.kept.with_batch(Batch(batch.n_rows, batch.ids)))

    def without_rows(self, batch: Batch, Phi: Array) -> Knowledge:
        """Return the state after forgetting instances with features Φ (l, d)."""
        places = self._places_to_forget(batch)
        model = self.model.with_rows(Phi, batch.labels, -1)
        return replace(self, model=model, kept=self.kept.without(places))

    def _places_to_forget(self, batch: Batch) -> list[int | None]:
        """Return the positions of instances to forget; raise if they differ from the training instances."""
        kept = self.kept
        n_rows = self.model.statistics.n_rows
        if batch.ids is not None and kept.n_named:
            places = kept.places(batch.ids.labels)
            unknown = [
                label
                for label, place in zip(batch.ids.labels, places, strict=True)
                if place is None
            ]
            if unknown:
                raise IdError(
                    f"Instances {shown(unknown)} are not known, so that they cannot be forgotten."
                )
        elif self.keeps_labels:
            places = kept.equal_rows(batch.rows)
            if None in places:
                raise ValueError(
                    f"X holds {places.count(None)} instance(s) that were not learned, among them "
                    f"row "
                    f"{places.index(None)}: nothing was forgotten."
                )
        elif kept.n_named and n_rows - kept.n_named < batch.n_rows:
            raise IdError(
                f"The model knows {kept.n_named} of its {n_rows} instances by their ids: give "
                f"those that are to be "
                "forgotten with their ids, as a frame."
            )
        else:
            return []
        if self.keeps_labels:
            rows, labels = kept.taken(places)
            if row_keys(rows) != row_keys(batch.rows) or row_keys(labels) != row_keys(batch.labels):
                raise ValueError(
                    "X or Y are not what the model has learned of the instances to forget: give "
                    "them with the features "
                    "and the labels that they were learned with. Nothing was forgotten."
                )
        return places

    def labels_at(self, places: Sequence[int | None]) -> Array:
        """Return the labels (n, q) of stored instances at positions; NaN for None, which is an unknown instance."""
        labels = np.full((len(places), self.model.statistics.n_tasks), np.nan)
        known = [row for row, place in enumerate(places) if place is not None]
        if known:
            labels[known] = to_numpy(
                dense(self.kept.part_of([places[row] for row in known], "all_labels"))
            )
        return as_array_of(labels, self.model.statistics.gram)

    # Instances that are known already -----------------------------------------------------------------

    def known_among(self, ids: Ids | None) -> np.ndarray:
        """Return the positions of the known ones among some ids."""
        places = [] if ids is None else self.kept.places(ids.labels)
        return np.array(
            [position for position, place in enumerate(places) if place is not None], dtype=np.intp
        )

    def replacing(self, batch: Batch, mapped: Callable[[Array], Array]) -> tuple[Knowledge, float]:
        """Return the state after replacing known instances, and the relative rounding error of the replacement.

        Labels that are missing in the batch are not changed.

        Parameters
        ----------
        batch : Batch
            Instances with known ids, with rows and labels.
        mapped : callable
            Feature map of the instances.
        """
        places = []
        if batch.ids is not None:
            places = self.kept.places(batch.ids.labels)
        rows, old = self.kept.taken(places)
        old = dense(old)
        labels = dense(batch.labels)
        xp = namespace(old)
        Phi = mapped(batch.rows)
        new = xp.where(xp.isnan(labels), old, xp.astype(labels, old.dtype))
        model = self.model
        if row_keys(rows) == row_keys(batch.rows) and not model.statistics.is_complete:
            # Only the labels that differ are updated, so that the other tasks do not change.
            hole = xp.full_like(old, float("nan"))
            changed = ~xp.isnan(new) & (new != old)
            gone = xp.where(changed, old, hole)
            come = xp.where(changed, new, hole)
            after = model.with_rows(Phi, gone, -1, instances=False).with_rows(
                Phi, come, instances=False
            )
        else:
            after = model.with_rows(mapped(rows), old, -1).with_rows(Phi, new)
        learnt = replace(self, kept=self.kept.without(places)).keeping(replace(batch, labels=new))
        return replace(learnt, model=after), model.digits_lost(after)

    def seen_of_tasks(self, parts: Iterable[tuple[Array, Array]], Psi: Array | None) -> Statistics:
        """Return the statistics of new tasks for all training instances.

        Parameters
        ----------
        parts : iterable of (array of shape (n, d), array of shape (n, l))
            Features of instances, and their labels for these tasks. One part is in memory at a
            time.
        Psi : array of shape (l, r) or None
            Features of the tasks.

        Raises
        ------
        ValueError
            If the instances of all parts together are not the training instances.
        """
        known = self.model.statistics
        seen = reduce(merge, (collect(*part, Psi, constant=known.has_constant) for part in parts))
        if not seen.everyone.has_rows_of(known.everyone):
            raise ValueError(
                Message(
                    "<Y> has labels for {n_rows} instances, but these are not the {n_learned} "
                    "that were learned: their Gram matrix differs. Give every learned instance "
                    "once in the same call, with the features it was learned with[; chunks= takes "
                    "them in pieces|]. Nothing was changed.",
                    n_rows=seen.n_rows,
                    n_learned=known.n_rows,
                )
            )
        return seen

    def with_tasks(self, new: Statistics, ids: Ids | None, labels: Array | None) -> Knowledge:
        """Return the state with new tasks, given by their statistics.

        `labels` (m, l) are in the order of the instances, and are needed if the model stores
        labels.
        """
        kept = self.kept if labels is None else self.kept.with_tasks(labels)
        model = self.model.of(self.model.statistics.with_tasks(new))
        return replace(
            self, model=model, task_ids=joined_ids(self.task_ids, ids), kept=kept, is_vector=False
        )

    def without_tasks(self, positions: np.ndarray) -> Knowledge:
        """Return the state without some tasks."""
        known = self.model.statistics
        staying = np.delete(np.arange(known.n_tasks), positions)
        ids = None if self.task_ids is None else self.task_ids.take(staying)
        if self.keeps_labels:
            kept = self.kept.of_tasks(staying)
        else:
            kept = self.kept
        return replace(
            self, model=self.model.of(known.without_tasks(positions)), task_ids=ids, kept=kept
        )

"""How what users hand to an online model becomes rows, features and labels."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import assert_all_finite, check_array, check_is_fitted, validate_data

from dyadlearn._array import Array, available_memory, is_foreign, is_sparse, namespace
from dyadlearn._checks import check_matrix, check_same_library, reading_numbers
from dyadlearn._state import StoredEstimator
from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.exceptions import IdError, NotEnoughMemoryError
from dyadlearn.labels import read_labels
from dyadlearn.models._inputs import align_side, check_names, check_orientation, check_sizes
from dyadlearn.models._online_state import Learnt, copied
from dyadlearn.models._side import KernelSpec
from dyadlearn.models._tasks import unwrap_tasks
from dyadlearn.solvers.statistics import double

__all__ = ["OnlineInputs", "all_or_nothing", "check_state_memory", "equal_features"]

# The sides are linear in their features.
_LINEAR = KernelSpec("linear", None, "error")


def check_state_memory(n_features: int, width: int, like: Array) -> None:
    """Refuse statistics of d features, and d × `width` for the labels, that cannot fit in memory."""
    # Statistics before and after an update, what it adds, an inverse and what is solved with.
    need, free = 8 * (5 * n_features**2 + 4 * n_features * width), available_memory(like)
    if free is not None and need > free:
        raise NotEnoughMemoryError(
            f"The statistics of {n_features} features need about {need / 2**30:.2f} GiB of memory, but only "
            f"{free / 2**30:.2f} GiB are free: compress the features with a feature_map such as CanonicalProjection."
        )


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Whatever goes wrong within, the estimator is what it was: its attributes are swapped, never changed."""
    before = dict(estimator.__dict__)
    try:
        yield
    except BaseException:
        estimator.__dict__.clear()
        estimator.__dict__.update(before)
        raise


class OnlineInputs(StoredEstimator, MultiOutputMixin, RegressorMixin, BaseEstimator, stored=False):  # type: ignore[misc]
    """Reading of instances, tasks and labels, and the feature maps of both sides."""

    feature_map: Any
    task_feature_map: Any
    feature_map_: Any
    task_feature_map_: Any
    _learnt: Learnt
    landscape_: np.ndarray

    def _read_instances(self, X: Any, *, reset: bool) -> tuple[Table, Array]:
        """Return instances as a table with their ids, and as a checked matrix (l, p), sparse or not."""
        table = read_table(X, "X")
        return table, self._checked_instances(table.values, reset=reset)

    def _checked_instances(self, values: Any, *, reset: bool) -> Array:
        if not is_foreign(values):
            with reading_numbers(values, "X"):
                return validate_data(self, values, reset=reset, accept_sparse="csr", dtype=[np.float64, np.float32])
        rows = check_matrix(values, "X")
        if reset:
            self.n_features_in_ = int(rows.shape[1])
        elif rows.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting {self.n_features_in_} "
                "features as input."
            )
        return rows

    def _read_rows(self, X: Any, y: Any, known: Ids | None, *, reset: bool) -> tuple[Array, Table]:
        """Return instances (l, p) and their labels (l, q), matched by id where both have ids."""
        grid, table = self._read_labels(y, known), read_table(X, "X")
        check_orientation(grid, table, None)
        table, _ = align_side(table, grid.row_ids, _LINEAR, "X", "the rows of Y")
        rows = self._checked_instances(table.values, reset=reset)
        check_sizes(rows, grid.values, None)
        return rows, grid

    def _read_labels(self, y: Any, known: Ids | None) -> Table:
        """Return complete labels, dense or CSR, with columns in the order of the `known` ids where both have ids."""
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None: give a grid of labels."
            )
        if is_sparse(y):
            values = check_array(y, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="Y")
            if not values.has_canonical_format:
                values = values.copy()
                values.sum_duplicates()
            return Table(values)
        grid = read_labels(y)
        if is_foreign(grid.values):
            if not bool(namespace(grid.values).all(namespace(grid.values).isfinite(grid.values))):
                raise ValueError("Input Y contains NaN or infinity: online learning needs every label of a row.")
        else:
            assert_all_finite(grid.values, input_name="Y")
        return grid.columns_as(known, "the columns of Y", "the tasks")

    def _read_tasks(
        self, tasks: Any, target: Ids | None, names: Ids | None = None, width: int | None = None
    ) -> tuple[Table, Array]:
        """Return tasks as a table, in the order of the `target` ids where both have ids, and as a matrix (q, p)."""
        table = read_table(unwrap_tasks(tasks), "tasks")
        table, ids = align_side(table, target, _LINEAR, "tasks", "the columns of Y")
        rows = check_matrix(table.values, "tasks", accept_sparse=True)
        check_names(names, table.column_ids, "tasks")
        if width is not None and rows.shape[1] != width:
            raise ValueError(f"tasks has {rows.shape[1]} columns, expected {width} features.")
        return Table(rows, ids, table.column_ids, table.kind), rows

    def _new_ids(self, known: Ids | None, new: Ids | None) -> Ids | None:
        """Return the ids of new tasks, refusing those that are known already."""
        if known is None:
            return None
        if new is None:
            raise IdError("The known tasks have ids: give the new ones ids too, as a frame of labels or of tasks.")
        repeated = [label for label in new.labels if label in set(known.labels)]
        if repeated:
            shown = ", ".join(map(repr, repeated[:5]))
            raise IdError(f"Tasks {shown} are known already: give new tasks ids of their own, or forget the old ones.")
        return new

    def _mapped(self, rows: Array) -> Array:
        """Return the features Φ of instances."""
        return rows if self.feature_map is None else _transformed(self.feature_map_, rows, "feature_map")

    def _mapped_tasks(self, rows: Array) -> Array:
        """Return the features Ψ of tasks, dense."""
        if self.task_feature_map is not None:
            rows = _transformed(self.task_feature_map_, rows, "task_feature_map")
        return rows.toarray() if is_sparse(rows) else rows

    def _fit_maps(self, rows: Array, labels: Array, task_rows: Array | None) -> None:
        """Fit the feature maps that are not fitted yet."""
        if self.feature_map is not None:
            self.feature_map_ = _fitted(self.feature_map, rows, labels)
        if self.task_feature_map is not None:
            if task_rows is None:
                raise ValueError("task_feature_map needs the features of the tasks: fit with tasks=.")
            self.task_feature_map_ = _fitted(self.task_feature_map, task_rows)

    def _known_rows(self, X: Any, y: Any) -> tuple[Array, Table, Array]:
        """Return instances (l, p), their labels for the known tasks, and their features (l, d)."""
        known = self._learnt.model.statistics
        rows, grid = self._read_rows(X, y, self._learnt.task_ids, reset=False)
        if grid.values.shape[1] != known.n_tasks:
            raise ValueError(
                f"Y has {grid.values.shape[1]} columns, but {known.n_tasks} tasks are known: give one label per task, "
                "and new tasks to partial_fit_tasks."
            )
        check_same_library({"X": rows, "Y": grid.values, "the model": known.gram})
        return rows, grid, self._mapped(rows)

    def _check_same_tasks(self, tasks: Any) -> None:
        """Refuse tasks beside a later batch unless they are the known ones."""
        if tasks is None:
            return
        Psi = self._new_tasks(tasks, self._learnt.task_ids, new=False)[0]
        if not equal_features(Psi, self._learnt.model.statistics.tasks):
            raise ValueError("tasks are not those the model knows: give new tasks to partial_fit_tasks.")

    def _new_tasks(self, tasks: Any, ids: Ids | None, *, new: bool = True) -> tuple[Array | None, Ids | None]:
        """Return features Ψ (l, r) of tasks and, for new ones, their ids."""
        learnt = self._learnt
        if learnt.model.task_side is None:
            if tasks is not None:
                raise ValueError("This model was fitted without features of the tasks: leave tasks out.")
            return None, self._new_ids(learnt.task_ids, ids)
        if tasks is None:
            raise ValueError("tasks is None, but there are none pending: give the features of the new tasks.")
        table, rows = self._read_tasks(tasks, ids, learnt.task_names, learnt.n_task_features)
        return double(copied(self._mapped_tasks(rows))), self._new_ids(learnt.task_ids, table.row_ids) if new else None

    def _chunks(self, X: Any, y: Any, ids: Ids | None) -> tuple[Table, list[tuple[Array, Array]]]:
        """Return labels of some tasks, and with the features of the instances batch by batch."""
        if X is not None:
            rows, grid = self._read_rows(X, y, ids, reset=False)
            return grid, [(self._mapped(rows), grid.values)]
        grid, instances = self._read_labels(y, ids), self._learnt.instances
        if instances is None:
            raise ValueError("X is missing: give the instances that y labels, or let the model keep_instances=True.")
        known = self._learnt.model.statistics
        if grid.values.shape[0] != known.n_rows:
            raise ValueError(f"Y has {grid.values.shape[0]} rows, expected one for each of {known.n_rows} instances.")
        ends = np.cumsum([batch.shape[0] for batch in instances])
        parts = [grid.values[end - batch.shape[0] : end, :] for batch, end in zip(instances, ends, strict=True)]
        return grid, [(self._mapped(batch), part) for batch, part in zip(instances, parts, strict=True)]


def equal_features(first: Array | None, second: Array | None) -> bool:
    """Tell whether two feature matrices, either of which may be None, are the same."""
    if first is None or second is None:
        return first is second
    return first.shape == second.shape and bool(namespace(first, second).all(first == second))


def _fitted(transformer: Any, *data: Any) -> Any:
    """Return a transformer that is fitted as it is, or a clone fitted on `data`."""
    try:
        check_is_fitted(transformer)
    except NotFittedError:
        return clone(transformer).fit(*data)
    return transformer


def _transformed(transformer: Any, rows: Array, name: str) -> Array:
    return check_matrix(transformer.transform(rows), f"What {name} returns", accept_sparse=True)

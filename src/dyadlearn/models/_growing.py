"""How a model that learns batch by batch reads what it is given, and what multiplies its coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_array, check_is_fitted

from dyadlearn._array import Array, copied, dense, double, is_sparse, namespace
from dyadlearn._checks import check_matrix, check_no_infinity, check_same_library
from dyadlearn._tables import Ids, Table, read_table
from dyadlearn.growing.columns import Columns
from dyadlearn.growing.knowledge import Knowledge, Lesson
from dyadlearn.growing.statistics import Statistics
from dyadlearn.labels import read_labels
from dyadlearn.models._inputs import (
    align_side,
    check_labels_given,
    check_orientation,
    check_sizes,
    checked_tasks,
    is_fitted,
    mapped,
    unwrap_tasks,
)
from dyadlearn.models._model import PairModel
from dyadlearn.models._side import KernelSpec
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.settings import Setting

__all__ = ["LINEAR", "GrowingModel"]

#: The sides are linear in their features.
LINEAR = KernelSpec("linear", None, "error")


class GrowingModel(PairModel, stored=False):
    """Base of models that keep statistics of features: reading batches, feature maps, rows to predict for."""

    grows = True

    feature_map: Any
    task_feature_map: Any

    _learnt: Knowledge
    feature_map_: Any
    task_feature_map_: Any

    @property
    def _ids(self) -> tuple[Ids | None, Ids | None]:
        return None, self._learnt.task_ids

    @property
    def _columns(self) -> list[tuple[KernelSpec, Ids | None]]:
        return [(LINEAR, None)] * (1 + self._knows_tasks)

    @property
    def _descriptions(self) -> list[dict[str, Any]]:
        return [{"": spec} for spec, _ in self._columns]

    @property
    def _is_vector(self) -> bool:
        return self._learnt.is_vector

    @property
    def _knows_tasks(self) -> bool:
        return self._learnt.model.task_inverse is not None

    @property
    def statistics_(self) -> Statistics | Columns:
        """What is known of the data."""
        check_is_fitted(self)
        return self._learnt.model.statistics

    @property
    def n_seen_(self) -> int:
        """Number of instances that are learnt and not forgotten."""
        return self.statistics_.n_rows

    @property
    def n_tasks_(self) -> int:
        """Number of tasks that are learnt and not forgotten."""
        return self.statistics_.n_tasks

    # Predicting ----------------------------------------------------------------------------------

    def _expansion(self) -> Expansion:
        return Expansion(self._learnt.model.coefficients)

    @property
    def _precision(self) -> str:
        return f"float{namespace(self._learnt.model.statistics.gram).finfo(self._learnt.dtype).bits}"

    def predict_interval(
        self, X: Any = None, tasks: Any = None, *, coverage: float = 0.9, setting: str | Setting | None = None
    ) -> NoReturn:
        """Refuse: intervals are made of the residuals of held-out labels, and this model keeps none."""
        raise ValueError(
            f"{type(self).__name__} keeps statistics only, and intervals need the labels: fit TwoStepRidge on rows "
            "that are at hand, or see by holdout how far off those are."
        )

    def _instance_rows(self, X: Any) -> tuple[Table, NewRows | None]:
        if X is None:
            raise ValueError(f"{type(self).__name__} keeps no instances to predict for: give X.")
        table = read_table(X, "X")
        rows = self._validated_instances(table, LINEAR, reset=False)
        self._check_library(X=rows)
        return table, self._rows_of(rows)

    def _rows_of(self, rows: Array) -> NewRows:
        """Return instances (a, p) that are checked already as rows to predict for."""
        # A feature map may make many features of few, and with a constant or in single precision they are copied.
        model = self._learnt.model
        is_copied = model.statistics.has_constant or rows.dtype != model.statistics.gram.dtype
        width = model.n_coefficients if is_copied or self.feature_map is not None else 0
        return NewRows(rows, lambda part: model.rows(self._mapped(part)), width)

    def _task_rows(self, tasks: Any) -> tuple[Table | None, NewRows | None]:
        table, known = None, self._learnt.model.statistics
        Psi = known.tasks
        if tasks is not None:
            if Psi is None:
                self._refuse_tasks()
            table, Psi = self._known_tasks(tasks, None)
            self._check_library(tasks=Psi)
        rows = None if Psi is None else known.rows_of_tasks(double(Psi))
        return table, None if rows is None else NewRows(rows, lambda part: part, 0)

    # What users hand in --------------------------------------------------------------------------

    def _check_library(self, **given: Array) -> None:
        check_same_library({**given, "the model": self._learnt.model.statistics.gram})

    def _read_rows(self, X: Any, y: Any, known: Ids | None, *, reset: bool) -> tuple[Array, Table, Ids | None]:
        """Return instances (l, p), their labels (l, q), matched by id where both have ids, and the ids."""
        grid, table = self._read_labels(y, known), read_table(X, "X")
        check_orientation(grid, table, None)
        has_ids = _own_ids(table.row_ids, X) is not None or _own_ids(grid.row_ids, y) is not None
        table = align_side(table, grid.row_ids, LINEAR, "X", "the rows of Y")
        rows = self._validated_instances(table, LINEAR, reset=reset)
        check_sizes(rows, grid.values, None)
        return rows, grid, table.row_ids if has_ids else None

    def _read_labels(self, y: Any, known: Ids | None) -> Table:
        """Return labels, NaN where not observed, or CSR, with columns in the order of `known` ids if both have ids."""
        check_labels_given(y, self)
        if is_sparse(y):
            values = check_array(y, accept_sparse="csr", dtype=[np.float64, np.float32], input_name="Y")
            if not values.has_canonical_format:
                values = values.copy()
                values.sum_duplicates()
            return Table(values)
        grid = read_labels(y)
        check_no_infinity(grid.values)
        return grid.columns_as(known, "the columns of Y", "the tasks")

    def _read_tasks(self, tasks: Any, target: Ids | None) -> Table:
        """Return tasks as they came, in the order of the `target` ids where both have ids."""
        table = read_table(unwrap_tasks(tasks), "tasks")
        return align_side(table, target, LINEAR, "tasks", "the columns of Y")

    def _known_tasks(self, tasks: Any, target: Ids | None) -> tuple[Table, Array]:
        """Return what `_read_tasks` does, and features Ψ, of tasks that are described as those of training were."""
        table = self._read_tasks(tasks, target)
        rows = checked_tasks(table, LINEAR, self._learnt.task_names, self._learnt.n_task_features)
        return table, self._mapped_tasks(rows)

    def _task_features(self, tasks: Any, ids: Ids | None) -> tuple[Array | None, Ids | None]:
        """Return features Ψ (l, r) of tasks, None for a model that knows none, and their ids."""
        if not self._knows_tasks:
            if tasks is not None:
                raise ValueError("This model was fitted without features of the tasks: leave tasks out.")
            return None, ids
        if tasks is None:
            raise ValueError("tasks is None, but this model has features of its tasks: give those of the new tasks.")
        table, Psi = self._known_tasks(tasks, ids)
        return double(copied(Psi)), table.row_ids

    def _known_rows(self, X: Any, y: Any) -> tuple[Lesson, Table]:
        """Return instances with their features and ids, and the labels they have for the known tasks."""
        rows, grid, ids = self._read_rows(X, y, self._learnt.task_ids, reset=False)
        if grid.values.shape[1] != self.n_tasks_:
            raise ValueError(
                f"Y has {grid.values.shape[1]} columns, but {self.n_tasks_} tasks are known: give one label per task, "
                "and new tasks to partial_fit_tasks."
            )
        self._check_library(X=rows, Y=grid.values)
        return Lesson(rows, self._mapped(rows), grid.values, ids), grid

    def _task_parts(
        self, pieces: Iterable[tuple[Any, Any]], n_tasks: int, ids: Ids | None
    ) -> Iterator[tuple[Array, Array]]:
        """Yield features of instances and their labels for some tasks, which have these ids, part by part."""
        for X, y in pieces:
            grid, features = self._task_labels(X, y, ids)
            if grid.values.shape[1] != n_tasks:
                raise ValueError(f"Y has {grid.values.shape[1]} columns, expected the labels of {n_tasks} task(s).")
            start = 0
            for Phi in features:
                end = start + int(Phi.shape[0])
                yield Phi, grid.values[start:end, :]
                start = end

    def _task_labels(self, X: Any, y: Any, ids: Ids | None) -> tuple[Table, Iterable[Array]]:
        """Return labels of some tasks, and the features of the instances, of those that are kept batch by batch."""
        learnt = self._learnt
        if X is not None:
            rows, grid, row_ids = self._read_rows(X, y, ids, reset=False)
            if not learnt.keeps_labels:
                return grid, [self._mapped(rows)]
            if row_ids is None or learnt.kept.ids is None:
                raise ValueError(
                    "This model keeps all instances with their labels: give the labels of new tasks for all of them at "
                    "once and leave X out, in the order that they were learnt, or with their ids."
                )
            grid = replace(grid, row_ids=row_ids)
        else:
            grid = self._read_labels(y, ids)
            grid = replace(grid, row_ids=_own_ids(grid.row_ids, y))
        if not learnt.keeps_instances:
            raise ValueError("X is missing: give the instances that y labels, or let the model keep_instances=True.")
        if grid.values.shape[0] != self.n_seen_:
            raise ValueError(f"Y has {grid.values.shape[0]} rows, expected one for each of {self.n_seen_} instances.")
        grid = grid.rows_as(learnt.kept.ids, "the rows of Y", "the known instances")
        return grid, map(self._mapped, learnt.kept.instances)

    # Feature maps --------------------------------------------------------------------------------

    def _fit_maps(self, rows: Array, labels: Array, task_rows: Array | None) -> None:
        """Fit the feature maps that are not fitted yet."""
        if self.feature_map is not None:
            self.feature_map_ = _fitted(self.feature_map, "feature_map", rows, labels)
        if self.task_feature_map is not None:
            if task_rows is None:
                raise ValueError("task_feature_map needs the features of the tasks: fit with tasks=.")
            self.task_feature_map_ = _fitted(self.task_feature_map, "task_feature_map", task_rows)

    def _mapped(self, rows: Array) -> Array:
        """Return the features Φ of instances."""
        return rows if self.feature_map is None else mapped(rows, self.feature_map_, "feature_map")

    def _mapped_tasks(self, rows: Array) -> Array:
        """Return the features Ψ of tasks, dense."""
        if self.task_feature_map is not None:
            rows = mapped(rows, self.task_feature_map_, "task_feature_map")
        return dense(rows)


def _own_ids(ids: Ids | None, given: Any) -> Ids | None:
    """Return ids of rows as they came, but for the numbers that pandas gives to rows by itself: those are no ids."""
    index: Any = getattr(given, "index", None)
    return None if type(index).__name__ == "RangeIndex" and index.name is None else ids


def _fitted(transformer: Any, name: str, *data: Any) -> Any:
    """Return a transformer that is fitted as it is, or a clone fitted on `data`; a linear map as a checked array."""
    if not hasattr(transformer, "transform"):
        return check_matrix(transformer, name)
    return transformer if is_fitted(transformer) else clone(transformer).fit(*data)

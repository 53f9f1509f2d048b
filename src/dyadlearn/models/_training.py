"""What a model is fitted on: read, checked and brought into one order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dyadlearn._array import Array, as_array_of, copied, double, namespace
from dyadlearn._checks import check_labels, check_same_library
from dyadlearn._tables import Table, read_table
from dyadlearn.labels import read_labels
from dyadlearn.models._inputs import (
    align_side,
    cell_weights,
    check_fit_memory,
    check_labels_given,
    check_orientation,
    check_sizes,
    moved,
    result_dtype,
    unwrap_tasks,
)
from dyadlearn.models._observed import (
    as_grids,
    check_pairs_memory,
    is_listed,
    listed_labels,
    listed_weights,
    prefers_pairs,
    without_weightless,
)
from dyadlearn.models._side import check_rows, side_size

if TYPE_CHECKING:
    from dyadlearn.models._base import PairwiseRidge

__all__ = ["Training", "read_training"]


@dataclass(frozen=True, eq=False)
class Training:
    """What a model of a grid is fitted on, checked and in one order.

    Attributes
    ----------
    instances, tasks : Table of shape (m, d) and (q, r), the latter or None
        Features, which may be sparse, or kernels, in the precision they came in.
    grid : Table
        The labels (m, q), with the ids of both sides, in double precision.
    weights : array of shape (m, q) or None
    precision : {"float32", "float64"}
        What the user receives: "float32" if features and labels all came in it.
    """

    instances: Table
    tasks: Table | None
    grid: Table
    weights: Array | None
    precision: str = "float64"


def read_training(model: PairwiseRidge, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Training:
    """Check the parameters of a model and its data, and bring the data into one order.

    Parameters
    ----------
    model : PairwiseRidge
    X, y, tasks, sample_weight : as in `PairwiseRidge.fit`
    """
    model._check_params()
    if model.symmetry is not None and sample_weight is not None:
        raise ValueError("A network weighs all its edges alike: leave sample_weight out.")
    check_labels_given(y, model)
    spec, task_spec = model._spec(), model._task_spec()
    listed = is_listed(y)
    labels = listed_labels(y) if listed else read_labels(y)
    grid, instances = model._checked_grid(labels, tasks) if not listed else labels, read_table(X, "X")
    task_table = None if tasks is None else read_table(unwrap_tasks(tasks), "tasks")
    check_orientation(grid, instances, task_table)
    instances = align_side(instances, grid.row_ids, spec, "X", "the rows of Y")
    rows, task_rows = model._validated_instances(instances, spec, reset=True), None
    grid = replace(grid, row_ids=instances.row_ids)
    if task_table is not None:
        task_table = align_side(task_table, grid.column_ids, task_spec, "tasks", "the columns of Y")
        task_rows = check_rows(task_table.values, task_spec, "tasks")
        grid = replace(grid, column_ids=task_table.row_ids)
    given = {"X": rows, "Y": None if listed else grid.values, "tasks": task_rows}
    check_same_library(given)
    rows, values, task_rows = moved(given, model.device)
    grid = grid if listed else replace(grid, values=values)
    check_sizes(rows, grid.values, task_rows)
    own = as_array_of(np.empty(0, dtype=grid.values.dtype), rows) if listed else grid.values
    dtype = result_dtype((rows, X), (task_rows, tasks), (own, y))
    precision = f"float{namespace(rows).finfo(dtype).bits}"
    sides = [side_size(rows, spec)]
    if task_rows is not None and model._learns_from_tasks:
        sides.append(side_size(task_rows, task_spec))
    kind = model._pairing_type(len(sides) > 1)
    instances = replace(instances, values=rows)
    task_table = None if task_table is None else replace(task_table, values=task_rows)
    if listed:
        weights = listed_weights(sample_weight, grid)
        weighted = weights is not None
        if model._takes_pairs and prefers_pairs(kind, grid.values, sides, rows, weighted=weighted):
            check_pairs_memory(grid.values, sides, rows)
            grid = replace(grid, values=double(grid.values))
            return Training(instances, task_table, *without_weightless(grid, weights), precision)
        values, sample_weight = as_grids(grid.values, weights, rows)
        grid = model._checked_grid(replace(grid, values=values), tasks)
    check_fit_memory(kind, grid.values, sides, weighted=sample_weight is not None)
    # The labels are kept and solved for again: they must not change when the caller's array does.
    labels = double(grid.values)
    labels = copied(labels) if labels is grid.values else labels
    check_labels(labels)
    weights = cell_weights(sample_weight, replace(grid, values=labels))
    if weights is not None:
        xp = namespace(labels)
        labels = xp.where(weights > 0, labels, xp.full_like(labels, float("nan")))
        if bool(xp.all(xp.isnan(labels))):
            raise ValueError("sample_weight is zero wherever Y is observed: give some cells a positive weight.")
    return Training(instances, task_table, replace(grid, values=labels), weights, precision)

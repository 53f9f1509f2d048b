"""Models that are fitted on the observed pairs alone, where a grid would not fit or would cost more.

What a model is fitted on: read, checked and brought into one order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, copied, double, is_sparse, namespace, to_numpy
from dyadlearn._checks import check_labels, check_same_library
from dyadlearn._codes import pair_numbers
from dyadlearn._memory import SideSize, check_memory, fits_in_memory
from dyadlearn._tables import Table, in_order, read_table
from dyadlearn.labels import Labels, read_labels
from dyadlearn.models._inputs import (
    align_side,
    cell_weights,
    check_fit_memory,
    check_labels_given,
    check_orientation,
    check_sizes,
    check_weights,
    fit_numbers,
    in_range,
    moved,
    read_weights,
    result_dtype,
    unwrap_tasks,
)
from dyadlearn.models._side import check_rows, side_size
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.expansion import SMALL_GRID
from dyadlearn.solve.observed import product_cost
from dyadlearn.vectrick import gather_cost


def is_large(shape: tuple[int, int]) -> bool:
    """Tell whether a grid is so large that it is formed only where that is cheaper.

    A small one has formulas that pairs alone have not.
    """
    return math.prod(shape) > SMALL_GRID


def is_listed(y: Any) -> bool:
    """Tell whether labels come as those of some pairs: in a sparse matrix, in a table of one, or as `Labels`."""
    return is_sparse(y.values if isinstance(y, Table) else y) or isinstance(y, Labels)


def listed_labels(y: Any) -> Table:
    """Return labels of some pairs as a table whose values are a sparse matrix, NaN left out."""
    if isinstance(y, Labels):
        return Table(y.to_sparse())
    if isinstance(y, Table):  # of a reader of long tables, which has left out what is none
        return replace(y, values=Labels.from_sparse(y.values).to_sparse())
    labels = Labels.from_sparse(y)
    if labels.values.dtype.kind not in "fiub":
        raise TypeError(f"Y must hold real numbers, found {labels.values.dtype}.")
    values = labels.values.astype(np.float32 if labels.values.dtype == np.float32 else np.float64)
    labels = replace(labels, values=values).take(~np.isnan(values))
    if not labels.size:
        raise ValueError("Y stores no label: nothing is observed, so there is nothing to learn from.")
    if np.isinf(labels.values).any():
        raise ValueError(f"Input Y contains infinity or a value too large for {values.dtype!r}.")
    if labels.size > 1 and labels.size < math.prod(labels.shape) and (labels.values == labels.values[0]).all():
        raise ValueError(
            f"All {labels.size} labels that Y stores are {labels.values[0]:g}, and in a sparse matrix what is not "
            "stored is not observed, so that there is nothing to tell apart: where its zeros are labels too, give it "
            "dense, as Y.toarray()."
        )
    return Table(labels.to_sparse())


def listed_weights(sample_weight: Any, grid: Table) -> Any:
    """Return weights of listed labels as a sparse matrix with the same places, or None where all weigh the same."""
    if sample_weight is None:
        return None
    labels = labels_of(grid, None)
    if is_sparse(sample_weight):
        values = _at_places(sample_weight, labels, "sample_weight", "a weight").astype(np.float64)
        check_weights(values)
    else:
        values = read_weights(sample_weight, grid)
        if values.ndim == 2 and values.shape[1] > 1:
            values = values[labels.places]
        else:
            values = np.broadcast_to(values.reshape(-1), labels.shape[:1])[labels.places[0]]
    return None if (values == 1).all() else labels.to_sparse(values)


def _at_places(given: Any, labels: Labels, name: str, what: str) -> np.ndarray:
    """Return what a sparse matrix stores where labels are; it may store more, but no less."""
    found, (m, q) = Labels.from_sparse(given, name), labels.shape
    if found.shape != labels.shape:
        raise ValueError(f"{name} is sparse and of shape {found.shape}, but Y is of shape {(m, q)}.")
    known, wanted = (pair_numbers(*each.places, q) for each in (found, labels))
    at = np.minimum(np.searchsorted(known, wanted), found.size - 1)
    absent = np.flatnonzero(known[at] != wanted) if found.size else np.arange(labels.size)
    if absent.size:
        first = absent[0]
        raise ValueError(
            f"{name} is sparse, and must store {what} wherever Y stores a label: it stores none for {absent.size} of "
            f"{labels.size}, first that of row {labels.places[0][first]} and column {labels.places[1][first]}."
        )
    return np.asarray(found.values[at])


def as_grids(listed: Any, weights: Any, like: Array) -> tuple[Array, Array | None]:
    """Return listed labels as a grid with NaN where there is none, and their weights, where the arrays of X are."""
    labels = Labels.from_sparse(listed)
    check_memory(2 * 8 * math.prod(labels.shape), labels.values, f"A grid of {labels.shape[0]} × {labels.shape[1]}")
    grid = np.full(labels.shape, np.nan)
    grid[labels.places] = labels.values
    return as_array_of(grid, like), None if weights is None else as_array_of(weights.toarray(), like)


def without_weightless(grid: Table, weights: Any) -> tuple[Table, Any]:
    """Return listed labels and weights without those that weigh nothing."""
    if weights is None or (weights.data > 0).all():
        return grid, weights
    labels, kept = labels_of(grid, weights), weights.data > 0
    if not kept.any():
        raise ValueError("sample_weight is zero wherever Y is observed: give some cells a positive weight.")
    labels = labels.take(kept)
    return replace(grid, values=labels.to_sparse()), labels.to_sparse(labels.weights)


def labels_of(grid: Table, weights: Any, like: Array | None = None) -> Labels:
    """Return the labels that a model keeps: a grid, or the list of those that a sparse matrix stores.

    Parameters
    ----------
    grid : Table
    weights : array or sparse matrix of the same places, or None
    like : array, default=None
        Where a list is put, and in which precision.
    """
    if not is_sparse(grid.values):
        return Labels.of_grid(grid.values, weights)
    found = Labels.from_sparse(grid.values)
    own = None if weights is None else weights.data
    if like is None:
        return replace(found, weights=own)
    own = None if own is None else as_array_of(own, like, like.dtype)
    return replace(found, values=as_array_of(found.values, like, like.dtype), weights=own)


def prefers_pairs(
    pairing: type[Pairing], labels: Any, sides: Sequence[SideSize], like: Array, *, weighted: bool
) -> bool:
    """Tell whether observed pairs alone are solved for: where the grid would not fit, or its products cost more.

    Parameters
    ----------
    pairing : type of Pairing
        What will be fitted.
    labels : sparse matrix of shape (m, q)
    sides : sequence of SideSize
    like : array
        Where it will be computed.
    weighted : bool
    """
    if not pairing.takes_pairs or len(sides) < 2:
        return False
    (m, q), n = labels.shape, labels.nnz
    if not is_large((m, q)):
        return False
    need = fit_numbers(pairing, (m, q), sides, complete=False, weighted=weighted)
    if not fits_in_memory(8 * max(need.values()), like):
        return True
    k, r = (side.rank for side in sides)
    grid = (min(m, 2 * k) + min(q, 2 * r)) * m * q
    return bool(2 * product_cost((m, q), n, (k, r), gather_cost(like))[0] < grid)


def check_pairs_memory(labels: Any, sides: Sequence[SideSize], like: Array) -> None:
    """Refuse a fit on pairs that does not fit in memory: vectors of both sides, rotated beside them, and the pairs."""
    numbers = sum(2 * side.n_rows * side.rank + 5 * side.rank**2 for side in sides)
    numbers += 8 * math.prod(side.rank for side in sides) + 12 * labels.nnz
    purpose = f"Fitting {labels.nnz} pairs of {labels.shape[0]} × {labels.shape[1]}"
    mend = "describe both sides by fewer features, say by Landmarks"
    check_memory(8 * numbers, like, purpose, mend)


def listed_determination(labels: Labels, predicted: np.ndarray) -> float:
    """Return the coefficient of determination R² of predictions (n,), averaged over tasks whose labels differ."""
    at, q = labels.places[1], labels.shape[1]
    y, predicted = in_range(to_numpy(labels.values).astype(np.float64), predicted)
    count = np.maximum(np.bincount(at, minlength=q), 1)
    first = np.zeros(q)
    first[at] = y
    differs = np.bincount(at, y != first[at], minlength=q) > 0
    if not differs.any():
        raise ValueError("R² is undefined here: it needs two observed labels that differ, and no column of Y has that.")
    spread = np.bincount(at, (y - (np.bincount(at, y, minlength=q) / count)[at]) ** 2, minlength=q)
    errors = np.bincount(at, (y - predicted) ** 2, minlength=q)
    return float(np.mean(1.0 - errors[differs] / spread[differs]))


def cells_of(labels: Labels, grid: Table, cells: Any) -> Any:
    """Return the folds of labels, given as a grid or beside a list as a sparse matrix, in the order of the labels."""
    if labels.grid is not None:
        return in_order(cells, grid.row_ids, grid.column_ids, "cells")
    if is_sparse(cells):
        return _at_places(cells, labels, "cells", "a fold")
    if getattr(cells, "ndim", 1) == 2 and tuple(cells.shape) == labels.shape:
        return to_numpy(cells)[labels.places]
    return cells


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
    are_kernels : (bool, bool)
        Whether the table of each side is a kernel, with a column for each of its rows.
    """

    instances: Table
    tasks: Table | None
    grid: Table
    weights: Array | None
    precision: str = "float64"
    are_kernels: tuple[bool, bool] = (False, False)

    @property
    def labels(self) -> Labels:
        """The labels with their weights."""
        return labels_of(self.grid, self.weights)

    def part(self, rows: np.ndarray, columns: np.ndarray) -> Training:
        """Return the data of some instances and tasks."""
        labels = self.labels.part(rows, columns)
        grid = replace(self.grid.take(rows, columns), values=labels.values, is_vector=False)
        tables = [self.rows(axis, kept, kept) for axis, kept in enumerate((rows, columns))]
        return replace(self, instances=tables[0], tasks=tables[1], grid=grid, weights=labels.weights)

    def hide(self, left: np.ndarray) -> Training:
        """Return the data without the labels in a mask; instances and tasks stay."""
        return replace(self, grid=replace(self.grid, values=self.labels.hide(left).values))

    def rows(self, axis: int, asked: np.ndarray, training: np.ndarray) -> Any:
        """Return the table of some instances (axis 0) or tasks; of a kernel its values with those of training."""
        table = (self.instances, self.tasks)[axis]
        if table is None:
            return None
        return table.take(asked, training if self.are_kernels[axis] else None)


def read_training(model: Any, X: Any, y: Any, tasks: Any, sample_weight: Any) -> Training:
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
    are_kernels = (spec.is_precomputed, task_spec.is_precomputed)
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
            return Training(instances, task_table, *without_weightless(grid, weights), precision, are_kernels)
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
    return Training(instances, task_table, replace(grid, values=labels), weights, precision, are_kernels)

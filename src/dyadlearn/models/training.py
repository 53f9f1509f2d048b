"""What a model is fitted on: labels and both sides, read, checked and brought into one order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, copied, is_sparse, namespace, take_rows, to_numpy
from dyadlearn._checks import check_labels, check_same_library
from dyadlearn._codes import pair_numbers
from dyadlearn._memory import SideSize, check_memory, fits_in_memory
from dyadlearn._tables import Table, in_order, read_table
from dyadlearn.holdout.folds import Fold
from dyadlearn.labels import Labels, read_labels, symmetric_labels
from dyadlearn.models._inputs import (
    align_side,
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
from dyadlearn.models._side import KernelSpec, check_rows, side_size
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.expansion import SMALL_GRID
from dyadlearn.settings import Setting
from dyadlearn.solve.observed import product_cost
from dyadlearn.vectrick import gather_cost


def is_large(shape: tuple[int, int]) -> bool:
    """Tell whether a grid is so large that it is formed only where that is cheaper.

    A small one has formulas that pairs alone have not.
    """
    return math.prod(shape) > SMALL_GRID


def read_given_labels(y: Any) -> tuple[Labels, Table]:
    """Return labels in whatever form they came, and a table without values that has their ids and their form.

    Parameters
    ----------
    y : array, frame, series, sparse matrix, Table or Labels
        In a sparse matrix, what is not stored is not observed.
    """
    if isinstance(y, Labels):
        return y, Table(None)
    if is_sparse(y.values if isinstance(y, Table) else y):
        form = y if isinstance(y, Table) else Table(None)
        return _read_list(y), replace(form, values=None)
    grid = read_labels(y)
    return Labels.of_grid(grid.values), replace(grid, values=None)


def _read_list(y: Any) -> Labels:
    """Return the labels that a sparse matrix stores, without NaN."""
    if isinstance(y, Table):  # of a reader of long tables, which has checked them
        return Labels.from_sparse(y.values)
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
    return labels


def with_weights(labels: Labels, sample_weight: Any, form: Table) -> Labels:
    """Return labels with their weights, without those of weight zero.

    Parameters
    ----------
    labels : Labels
    sample_weight : array-like, series or frame of shape (m,) or (m, q), or None
        Beside a list of labels also a sparse matrix, with a weight for each label.
    form : Table
        The ids of the labels.
    """
    if sample_weight is None:
        return labels
    if labels.grid is None and is_sparse(sample_weight):
        values = _at_places(sample_weight, labels, "sample_weight", "a weight").astype(np.float64)
        check_weights(values)
    else:
        values = read_weights(sample_weight, labels.shape, form)
        if values.ndim < 2 or values.shape[1] < labels.shape[1]:
            values = labels.at(np.broadcast_to(values.reshape(-1), labels.shape[:1]), 0)
        else:
            values = labels.of(values)
    if (values == 1).all():
        return labels
    kept = values > 0
    if not (kept & labels.observed).any():
        raise ValueError("sample_weight is zero wherever Y is observed: give some cells a positive weight.")
    labels = replace(labels, weights=as_array_of(values.copy(), labels.values))
    return labels if kept.all() else labels.hide(~kept)


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


def prefers_pairs(
    pairing: type[Pairing], labels: Labels, sides: Sequence[SideSize], like: Array, *, weighted: bool
) -> bool:
    """Tell whether observed pairs alone are solved for: where the grid would not fit, or its products cost more.

    Parameters
    ----------
    pairing : type of Pairing
        What will be fitted.
    labels : Labels
    sides : sequence of SideSize
    like : array
        Where it will be computed.
    weighted : bool
    """
    if not pairing.takes_pairs or len(sides) < 2:
        return False
    (m, q), n = labels.shape, labels.size
    if not is_large((m, q)):
        return False
    need = fit_numbers(pairing, (m, q), sides, complete=False, weighted=weighted)
    if not fits_in_memory(8 * max(need.values()), like):
        return True
    k, r = (side.rank for side in sides)
    grid = (min(m, 2 * k) + min(q, 2 * r)) * m * q
    return bool(2 * product_cost((m, q), n, (k, r), gather_cost(like))[0] < grid)


def check_pairs_memory(labels: Labels, sides: Sequence[SideSize], like: Array) -> None:
    """Refuse a fit on pairs that does not fit in memory: vectors of both sides, rotated beside them, and the pairs."""
    numbers = sum(2 * side.n_rows * side.rank + 5 * side.rank**2 for side in sides)
    numbers += 8 * math.prod(side.rank for side in sides) + 12 * labels.size
    purpose = f"Fitting {labels.size} pairs of {labels.shape[0]} × {labels.shape[1]}"
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


def cells_of(labels: Labels, form: Table, cells: Any) -> Any:
    """Return the folds of labels, given as a grid or beside a list as a sparse matrix, in the order of the labels."""
    if labels.grid is None and is_sparse(cells):
        return _at_places(cells, labels, "cells", "a fold")
    cells = in_order(cells, form.row_ids, form.column_ids, "cells")
    is_grid = getattr(cells, "ndim", 1) == 2 and tuple(cells.shape) == labels.shape
    return labels.of(to_numpy(cells)) if is_grid else cells


@dataclass(frozen=True, eq=False)
class Training:
    """What a model of pairs is fitted on, checked and in one order.

    Attributes
    ----------
    instances, tasks : Table of shape (m, d) and (q, r), the latter or None
        Features, which may be sparse, or kernels, in the precision they came in.
    labels : Labels
        With their weights, in double precision.
    form : Table
        Without values: the ids of both sides and the form in which predictions are returned.
    precision : {"float32", "float64"}
        What the user receives: "float32" if features and labels all came in it.
    are_kernels : (bool, bool)
        Whether the table of each side is a kernel, with a column for each of its rows.
    """

    instances: Table
    tasks: Table | None
    labels: Labels
    form: Table
    precision: str = "float64"
    are_kernels: tuple[bool, bool] = (False, False)

    def part(self, rows: np.ndarray, columns: np.ndarray) -> Training:
        """Return the data of some instances and tasks."""
        form = replace(self.form.take(rows, columns), is_vector=False)
        tables = [self.rows(axis, kept, kept) for axis, kept in enumerate((rows, columns))]
        return replace(self, instances=tables[0], tasks=tables[1], labels=self.labels.part(rows, columns), form=form)

    def hide(self, left: np.ndarray) -> Training:
        """Return the data without the labels in a mask; instances and tasks stay."""
        return replace(self, labels=self.labels.hide(left))

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
    labels, form = read_given_labels(y)
    if model.symmetry is not None:
        if tasks is not None:
            raise ValueError("A network has one node set: describe it by X, and leave tasks out.")
        labels, form = symmetric_labels(labels.dense(), form, model._sign)
    instances, task_table, form = read_sides(model, X, tasks, form, (spec, task_spec))
    # A list of labels goes where X is; a grid must be there.
    given = {"X": instances.values, "Y": labels.grid, "tasks": None if task_table is None else task_table.values}
    check_same_library(given)
    rows, values, task_rows = moved(given, model.device)
    labels = replace(labels, values=as_array_of(labels.values, rows) if values is None else values)
    check_sizes(rows, labels, task_rows)
    dtype = result_dtype((rows, X), (task_rows, tasks), (labels.values, y))
    sides = [side_size(rows, spec)]
    if task_rows is not None and model._coupled.knows_tasks:
        sides.append(side_size(task_rows, task_spec))
    if labels.grid is None:
        labels, sample_weight = with_weights(labels, sample_weight, form), None
    labels = _in_cheaper_form(model, labels, sides, rows, weighted=sample_weight is not None)
    check_labels(labels.values)
    # The labels are kept and solved for again: they must not change when the caller's array does.
    kept = labels.in_double()
    labels = replace(kept, values=copied(kept.values)) if kept is labels and labels.grid is not None else kept
    return Training(
        replace(instances, values=rows),
        None if task_table is None else replace(task_table, values=task_rows),
        with_weights(labels, sample_weight, form),
        form,
        f"float{namespace(rows).finfo(dtype).bits}",
        (spec.is_precomputed, task_spec.is_precomputed),
    )


def read_sides(
    model: Any, X: Any, tasks: Any, form: Table, specs: tuple[KernelSpec, KernelSpec]
) -> tuple[Table, Table | None, Table]:
    """Return the tables of both sides, checked and in the order of the labels, and the form of these with all ids.

    Parameters
    ----------
    model : Predictor
    X, tasks : as in `PairwiseRidge.fit`
    form : Table
        The ids that the labels came with.
    specs : (KernelSpec, KernelSpec)
        The kernel of each side.
    """
    instances, table = read_table(X, "X"), None if tasks is None else read_table(unwrap_tasks(tasks), "tasks")
    check_orientation(form, instances, table)
    instances = align_side(instances, form.row_ids, specs[0], "X", "the rows of Y")
    form = replace(form, row_ids=instances.row_ids)
    if table is not None:
        table = align_side(table, form.column_ids, specs[1], "tasks", "the columns of Y")
        form = replace(form, column_ids=table.row_ids)
    instances = replace(instances, values=model._validated_instances(instances, specs[0], reset=True))
    if table is not None:
        rows = check_rows(table.values, specs[1], "tasks", allow_nan=model.allows_nan)
        table = replace(table, values=rows)
    return instances, table, form


def _in_cheaper_form(model: Any, labels: Labels, sides: Sequence[SideSize], like: Array, *, weighted: bool) -> Labels:
    """Return labels as a grid, or as the list that they are where that costs less; raise if neither fits."""
    pairing, weighted = model._pairing_type(len(sides) > 1), weighted or labels.weights is not None
    if labels.grid is None:
        if model._takes_pairs and prefers_pairs(pairing, labels, sides, like, weighted=weighted):
            check_pairs_memory(labels, sides, like)
            return labels
        labels = labels.dense()
    check_fit_memory(pairing, labels.values, sides, weighted=weighted)
    return labels


def without_fold(data: Training, setting: Setting, fold: Fold) -> tuple[Training, list[Any]]:
    """Return the data that are left without a fold, and the rows of each side that a model of these is asked for.

    Parameters
    ----------
    data : Training
    setting : Setting
        In A labels are hidden, and all rows stay; in the others rows of a side leave.
    fold : Fold

    Returns
    -------
    data : Training
    asked : list of two arrays or None
        Features, or kernel values with the rows that are left; None stands for those that the model is fitted on.
    """
    if setting is Setting.A:  # an instance or task that loses all its labels is still there by its features
        return data.hide(fold.left), [None, None]
    asked = [
        data.rows(axis, fold.leaving[axis], fold.staying[axis]).values if leaves else None
        for axis, leaves in enumerate((setting.new_instance, setting.new_task))
    ]
    return data.part(*fold.staying), asked


def fold_predictions(predicted: Array, fold: Fold) -> Array:
    """Return the predictions of the labels of a fold, from those of its block or of the whole grid."""
    flat = namespace(predicted).reshape(predicted, (-1,))
    # The labels to test are a block in all settings but A.
    return flat if flat.shape[0] == fold.test.size else take_rows(flat, fold.test)

"""How what users hand in becomes what a model works on: order by ids, sizes, dtypes, positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn._array import Array, is_foreign, is_sparse, namespace, to_numpy
from dyadlearn._frames import Ids, Table, read_table
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.models._side import KernelSpec, Side

__all__ = [
    "align_side",
    "cast",
    "check_sizes",
    "checked_filter",
    "in_training_order",
    "pair_columns",
    "positions",
]


def align_side(
    table: Table, target: Ids | None, spec: KernelSpec, name: str, target_name: str
) -> tuple[Table, Ids | None]:
    """Bring a side's table into the order of the labels; return it with its ids."""
    if spec.is_precomputed and table.column_ids is not None:
        row_ids = table.row_ids or table.column_ids
        if len(row_ids) == len(table.column_ids):
            order = table.column_ids.order_as(row_ids, f"the columns of {name}", f"the rows of {name}")
            table = Table(table.values, row_ids, table.column_ids, table.kind).take(None, order)
    if table.row_ids is None or target is None:
        return table, target or table.row_ids
    if len(table.row_ids) == len(target):
        order = table.row_ids.order_as(target, name, target_name)
        table = table.take(order, order if spec.is_precomputed else None)
    return table, target


def in_training_order(table: Table, side: Side, name: str) -> Table:
    """Bring the columns of a precomputed kernel block into the order of the training ids."""
    if not side.spec.is_precomputed or table.column_ids is None or side.ids is None:
        return table
    order = table.column_ids.order_as(side.ids, f"the columns of {name}", "the training data")
    return table.take(None, order)


def check_sizes(rows: Array, labels: Array, task_rows: Array | None) -> None:
    if rows.shape[0] != labels.shape[0]:
        raise ValueError(
            f"X has {rows.shape[0]} instances, but Y has {labels.shape[0]} rows: give one row of labels per instance."
        )
    if task_rows is not None and task_rows.shape[0] != labels.shape[1]:
        raise ValueError(
            f"tasks has {task_rows.shape[0]} rows, but Y has {labels.shape[1]} columns: give one row per task. If "
            "scikit-learn cut the tasks because they are as many as the instances, hand them in a Tasks holder."
        )


def checked_filter(filter: SpectralFilter | None, name: str) -> SpectralFilter:
    """Return a filter, Tikhonov's where none is given."""
    if filter is None:
        return Tikhonov()
    if not isinstance(filter, SpectralFilter):
        raise TypeError(f"{name} must be a spectral filter such as Tikhonov(), found {filter!r}.")
    return filter


def cast(array: Array, dtype: Any) -> Array:
    if array.dtype == dtype:
        return array
    return array.astype(dtype) if is_sparse(array) else namespace(array).astype(array, dtype)


def pair_columns(pairs: Any) -> tuple[list[Any], list[Any]]:
    """Return the two columns of a table of pairs."""
    table = read_table(pairs, "pairs") if not hasattr(pairs, "columns") else None
    values = pairs.to_numpy() if table is None else table.values
    values = to_numpy(values) if is_foreign(values) else np.array(values, dtype=object)
    if values.size == 0:
        return [], []
    if values.ndim != 2 or values.shape[1] != 2:
        raise ValueError(f"pairs must have two columns (instance, task), found shape {values.shape}.")
    return values[:, 0].tolist(), values[:, 1].tolist()


def positions(wanted: list[Any], ids: Ids | None, n_rows: int, name: str) -> np.ndarray:
    """Return row positions from ids, or check positions that were given."""
    if ids is not None:
        return ids.positions(wanted, name)
    if not all(isinstance(position, int | np.integer) for position in wanted):
        raise TypeError(f"{name} has no ids, so pairs must give whole row positions into it.")
    found = np.asarray(wanted, dtype=np.intp)
    if found.size and (found.min() < 0 or found.max() >= n_rows):
        raise ValueError(f"pairs points outside {name}: positions {found.min()} to {found.max()} in {n_rows} rows.")
    return found

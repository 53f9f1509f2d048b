"""Long tables with named columns of ids: frames, mappings and arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dyadlearn._array import is_foreign, to_numpy
from dyadlearn._codes import Column, frame_columns, lacks_id
from dyadlearn._tables import in_rows_of, shown


def read_columns(table: Any, names: Sequence[str] | None = None) -> dict[str, Column]:
    """Return the columns of a long table by their names.

    Parameters
    ----------
    table : frame, mapping of names to columns, or array of shape (n, c)
        The columns of an array are called x0, x1 and so on.
    names : sequence of str, default=None
        Columns to return; None means all.
    """
    if isinstance(table, Mapping):
        columns = {}
        for name, values in table.items():
            columns[name] = _column(in_rows_of(values, table, repr(name), "the first column"))
    elif isinstance(table, np.ndarray | list | tuple) or is_foreign(table):
        if not isinstance(table, list | tuple):
            rows = to_numpy(table)
        else:
            rows = _matrix_of(table)
        if rows.ndim != 2:
            raise ValueError(
                f"The table must have a row for each label and a column for each side, found "
                f"{rows.ndim} dimension(s). Reshape your data: use table.reshape(-1, 1) for one "
                f"column."
            )
        columns = {f"x{place}": rows[:, place] for place in range(rows.shape[1])}
    else:
        columns = frame_columns(table, "The table", "a dict of columns, an array")
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"The columns of the table have different lengths: {lengths}.")
    if not any(lengths.values()):
        raise ValueError("The table has no rows.")
    return columns if names is None else chosen(columns, names)


def chosen(columns: Mapping[str, Column], names: Sequence[str]) -> dict[str, Column]:
    """Return some columns of a table; raise if one is missing."""
    absent = [name for name in names if name not in columns]
    if absent:
        raise ValueError(
            f"The table has no column {shown(absent)}: its columns are {shown(list(columns), 20)}."
        )
    return {name: columns[name] for name in names}


def _column(values: Any) -> Column:
    """Return a column of a mapping as an array of numbers, or as a list of other values."""
    if hasattr(values, "__dataframe_namespace__") or hasattr(values, "__narwhals_series__"):
        return list(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "UO":
        return list(values.tolist())
    array = np.asarray(values)
    if array.dtype.kind in "iufb" and array.ndim == 1:
        return array
    return list(values)


def _matrix_of(rows: Sequence[Any]) -> np.ndarray:
    """Return rows of ids as a matrix in which ids keep their types."""
    lengths = {len(row) for row in rows}
    if len(lengths) != 1:
        raise ValueError(f"The rows of the table must be equally long, found lengths {lengths}.")
    matrix = np.empty((len(rows), lengths.pop()), dtype=object)
    for place, row in enumerate(rows):
        matrix[place, :] = list(row)
    return matrix


def ids_of(column: Column, name: str) -> Column:
    """Return a column of ids; raise if one is missing."""
    absent = lacks_id(column)
    if absent.any():
        raise ValueError(
            f"The column {name!r} has no id in row {int(np.argmax(absent))} ({int(absent.sum())} "
            f"in all): leave these rows out."
        )
    return column

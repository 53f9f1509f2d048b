"""Columns of long tables, groups and folds, and integer codes of their values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, is_foreign, is_missing, is_sparse, to_numpy, without_mask

# Ids or labels, one per row: an array, or a list of hashable values.
Column = np.ndarray | list[Any]

# Kernel rows that differ by less than this, relative to the largest, differ by rounding.
_ROUNDING = 1e-10

_FORMS = {
    2: "two columns (instance, task)",
    3: "three columns (instance, task, value), or two with y beside them",
}


def id_columns(pairs: Any, name: str) -> tuple[Column, Column]:
    """Return the two columns of a table of pairs.

    Parameters
    ----------
    pairs : array, list of rows or frame, of shape (n, 2)
    name : str
        Name of the table in messages.
    """
    first, second = table_columns(pairs, name, 2)
    return first, second


def table_columns(table: Any, name: str, n_columns: int) -> list[Column]:
    """Return the columns of a long table.

    Parameters
    ----------
    table : array, list of rows or frame, of shape (n, n_columns)
        Missing values of a frame and masked values become NaN among floats, else None.
    name : str
        Name of the table in messages.
    n_columns : {2, 3}
        Expected number of columns.
    """
    columns: list[Column]
    if isinstance(table, list | tuple):
        if not all(_is_row(row, n_columns) for row in table):
            raise ValueError(f"{name} must have {_FORMS[n_columns]}, found rows of another form.")
        # numpy would convert the 1 in (1, "a") to text, and ids that are tuples to matrices.
        columns = [[row[position] for row in table] for position in range(n_columns)]
    elif isinstance(table, np.ndarray) or is_foreign(table):
        columns = []
        if table.ndim == 2:
            columns = list(to_numpy(without_mask(table)).T)
    else:
        columns = list(frame_columns(table, name, "an array, a list of rows").values())
    if len(columns) != n_columns:
        raise ValueError(f"{name} must have {_FORMS[n_columns]}, found shape {tuple(table.shape)}.")
    if len(columns[0]) == 0:
        raise ValueError(f"{name} is empty.")
    return columns


def frame_columns(table: Any, name: str, others: str) -> dict[str, Column]:
    """Return the columns of a frame by their names; raise if `table` is none, with the `others` that are allowed."""
    import narwhals as nw

    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(f"{name} must be {others} or a data frame, found {type(table).__name__}.")
    return {series.name: series_column(series) for series in frame.iter_columns()}


def _is_row(row: Any, n_columns: int) -> bool:
    return (
        isinstance(row, Sequence | np.ndarray)
        and not isinstance(row, str)
        and len(row) == n_columns
    )


def series_column(series: Any) -> Column:
    """Return the values of a narwhals series; missing values become NaN among floats, else None."""
    absent = series.is_null().to_numpy()
    if series.dtype.is_float() or (series.dtype.is_integer() and not absent.any()):
        return np.asarray(series.to_numpy())
    values: list[Any] = series.to_list()
    for row in np.flatnonzero(absent):
        values[row] = None  # libraries have different missing values
    return values


def label_array(labels: Any) -> np.ndarray:
    """Return groups or folds as an array; text, categories, dates and other values of a frame or series stay objects.

    Parameters
    ----------
    labels : array, series or frame
    """
    if isinstance(labels, np.ndarray) or is_foreign(labels):
        return to_numpy(without_mask(labels))
    import narwhals as nw

    table = nw.from_native(labels, eager_only=True, allow_series=True, pass_through=True)
    if isinstance(table, nw.Series):
        column = series_column(table)
        if isinstance(column, np.ndarray):
            return column
        return np.fromiter(column, object, len(column))
    if not isinstance(table, nw.DataFrame):
        return to_numpy(labels)
    values = np.empty(table.shape, dtype=object)
    for position, series in enumerate(table.iter_columns()):
        values[:, position] = series_column(series)
    return values


def factorize(columns: Sequence[Column], name: str) -> list[np.ndarray]:
    """Return integer codes of the values of some columns, counted from 0 in the order of first appearance.

    Equal values have equal codes, also in different columns.

    Parameters
    ----------
    columns : sequence of columns
    name : str
        Name of the table in messages.

    Returns
    -------
    list of integer arrays, one for each column
    """
    values: Column
    kinds = {column.dtype.kind if isinstance(column, np.ndarray) else "O" for column in columns}
    if len(kinds) == 1 and kinds <= set("iubf"):
        values, first, codes = np.unique(
            np.concatenate(columns), return_index=True, return_inverse=True
        )
        codes = np.argsort(np.argsort(first))[codes]
    else:
        rows = [value for column in columns for value in list_of(column)]
        try:
            values = list(dict.fromkeys(rows))
        except TypeError as error:
            raise TypeError(
                f"{name} holds a value that cannot be an id or label ({error})."
            ) from error
        number = {value: code for code, value in enumerate(values)}
        codes = np.fromiter(map(number.__getitem__, rows), dtype=np.intp, count=len(rows))
    if missing(values).any():
        row = next(int(np.argmax(absent)) for absent in map(missing, columns) if absent.any())
        raise ValueError(f"{name} has a missing value in row {row}: drop the row, or fill it in.")
    return np.split(codes, np.cumsum([len(column) for column in columns[:-1]]))


def group_codes(labels: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return an integer code for each label. Equal labels have equal codes; 1 and "1" are different.

    Parameters
    ----------
    labels : array, series, frame or list of hashable values
        Labels, none of them missing. Labels of rows may be a frame with one column.
    shape : tuple of int
        Expected shape: (n,) for labels of rows, (m, q) for labels of cells.
    name : str
        Name of the labels in messages.

    Returns
    -------
    integer array of this shape
    """
    if isinstance(labels, list | tuple):
        # numpy would convert the 1 in [1, "1"] to text, and labels that are tuples to matrices.
        if len(shape) == 1:
            column = np.fromiter(labels, object, len(labels))
        else:
            column = np.array(labels, dtype=object)
    else:
        column = label_array(labels)
        if not isinstance(labels, np.ndarray) and column.shape == (
            *shape,
            1,
        ):  # a frame with one column
            column = column[:, 0]
    units = "rows" if len(shape) == 1 else "cells"
    if column.shape != shape:
        size = " × ".join(map(str, shape))
        raise ValueError(
            f"{name} must have one value for each of {size} {units}, found shape {column.shape}."
        )
    column = column.reshape(-1)
    absent = missing(column)
    if absent.any():
        place = np.unravel_index(int(np.argmax(absent)), shape)
        where = ", ".join(
            f"{axis} {position}" for axis, position in zip(("row", "column"), place, strict=False)
        )
        count = f"(None or NaN; {absent.sum()} in all)"
        raise ValueError(
            f"{name} has a missing value in {where} {count}: give each of the {units} a label."
        )
    return factorize([column], name)[0].reshape(shape)


def distinct(column: Column, name: str) -> tuple[np.ndarray, list[Any]]:
    """Return the code of each value, as `factorize` does, and the distinct values in the order of their codes."""
    (codes,) = factorize([column], name)
    rows = np.empty(int(codes.max()) + 1, dtype=np.intp)
    rows[codes] = np.arange(len(codes))
    if isinstance(column, list):
        return codes, [column[row] for row in rows]
    return codes, column[rows].tolist()


def list_of(column: Column) -> list[Any]:
    """Return the values of a column as Python objects."""
    return column if isinstance(column, list) else column.tolist()


def missing(column: Column) -> np.ndarray:
    """Return a mask of the missing values of a column: None, NaN, or the missing value of another library."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        # Integers, booleans and text have no missing value.
        return np.asarray(column != column)
    with suppress(TypeError):  # `factorize` raises for values without a hash
        if not any(map(is_missing, set(column))):  # few distinct values
            return np.zeros(len(column), dtype=bool)
    return np.fromiter(map(is_missing, column), dtype=bool, count=len(column))


def lacks_id(column: Column) -> np.ndarray:
    """Return a mask of the missing ids of a column: missing values and blank text."""
    absent = missing(column)
    blank: set[str] = set()
    if isinstance(column, list) or column.dtype.kind in "OUST":
        with suppress(TypeError):  # `factorize` raises for values without a hash
            blank = {label for label in set(column) if isinstance(label, str) and not label.strip()}
    if blank:
        absent |= np.array([label in blank for label in column], dtype=bool)
    return absent


def row_keys(rows: Array) -> list[bytes]:
    """Return a key for each row of a matrix, which may be sparse; equal rows have equal keys."""
    matrix = sparse.csr_array(
        rows if is_sparse(rows) else to_numpy(rows), dtype=np.float64, copy=True
    )
    matrix.sum_duplicates()  # also sorts the indices
    matrix.eliminate_zeros()
    matrix.data[np.isnan(matrix.data)] = np.nan  # NaN has several binary forms
    columns = matrix.indices.astype(np.int64)
    ends = zip(matrix.indptr, matrix.indptr[1:], strict=False)
    return [
        columns[start:stop].tobytes() + matrix.data[start:stop].tobytes() for start, stop in ends
    ]


def identical_rows(rows: Array) -> np.ndarray:
    """Return a code for each row of a matrix, which may be sparse; equal rows have equal codes."""
    return factorize([row_keys(rows)], "a table")[0]


def pattern_codes(observed: np.ndarray) -> np.ndarray:
    """Return a number for each column of a mask (l, q), counted from 0, the same for equal columns."""
    return factorize([[column.tobytes() for column in np.packbits(observed, axis=0).T]], "Y")[0]


def nearly_identical_rows(matrix: Array, scale: Array | float = 1.0) -> np.ndarray:
    """Return a code for each row of a dense matrix times `scale`, as a kernel; rows equal up to rounding share codes.

    Rows are compared with their neighbours in the order of a random projection.
    """
    values = to_numpy(matrix)
    scale = to_numpy(scale) * np.ones(matrix.shape[1])
    along = values @ (scale * np.random.default_rng(0).normal(size=len(scale)))
    order = np.argsort(along)
    rounding = _ROUNDING * np.abs(along).max(initial=0.0)
    near = np.flatnonzero(np.diff(along[order]) <= rounding)
    gaps = np.abs((values[order[near]] - values[order[near + 1]]) * scale).max(axis=1, initial=0.0)
    is_first = np.ones(len(order), dtype=bool)
    codes = np.empty(len(order), dtype=np.intp)
    is_first[near[gaps <= rounding] + 1] = False
    codes[order] = np.cumsum(is_first) - 1
    return codes


def ends_in_order(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of codes with the smaller one first, so that both directions of an edge are equal."""
    return np.minimum(rows, columns), np.maximum(rows, columns)


def unit_sizes(codes: np.ndarray) -> np.ndarray:
    """Return the number of members of each unit, given as integer codes (n,), in ascending order of the codes."""
    if codes.size and _are_small(codes):
        counts = np.bincount(codes)
        return counts[counts > 0]
    return np.unique(codes, return_counts=True)[1]


def is_same_partition(codes: np.ndarray, others: np.ndarray) -> bool:
    """Return whether two integer codes (n,) group the same positions together.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn._codes import is_same_partition
    >>> is_same_partition(np.array([7, 7, 8]), np.array([1, 1, 0]))
    True
    """
    for first, second in ((others, codes), (codes, others)):
        if _are_small(first):
            numbers = first
        else:
            numbers = np.unique(first, return_inverse=True)[1]
        value_of = np.zeros(int(numbers.max(initial=0)) + 1, dtype=second.dtype)
        value_of[numbers] = second
        if not (value_of[numbers] == second).all():
            return False
    return True


def _are_small(codes: np.ndarray) -> bool:
    """Return whether an array for all codes from 0 to the largest is not much larger than the codes."""
    return bool(codes.min(initial=0) >= 0 and codes.max(initial=0) < 4 * codes.size + 1024)


def pair_numbers(rows: np.ndarray, columns: np.ndarray, n_columns: int) -> np.ndarray:
    """Return one code for each pair of codes; equal pairs have equal codes."""
    return np.asarray(rows.astype(np.int64) * n_columns + columns)

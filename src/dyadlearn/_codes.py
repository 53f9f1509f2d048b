"""Columns of ids and labels, one value per row, and the numbers that stand for them: long tables, groups, folds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyadlearn._array import is_foreign, is_missing, to_numpy, without_mask

# Ids or labels, one per row: an array where they came in one, else a list of any hashable values.
Column = np.ndarray | list[Any]

_FORMS = {2: "two columns (instance, task)", 3: "three columns (instance, task, value), or two with y beside them"}


def id_columns(pairs: Any, name: str) -> tuple[Column, Column]:
    """Return the two columns of a table of pairs.

    Parameters
    ----------
    pairs : array, list of rows or frame, of shape (n, 2)
    name : str
        How messages call it.
    """
    first, second = table_columns(pairs, name, 2)
    return first, second


def table_columns(table: Any, name: str, n_columns: int) -> list[Column]:
    """Return the columns of a long table.

    Parameters
    ----------
    table : array, list of rows or frame, of shape (n, n_columns)
        What is missing in a frame, or hidden by a masked array, becomes None, or NaN among floats.
    name : str
        How messages call it.
    n_columns : {2, 3}
        How many columns it must have.
    """
    columns: list[Column]
    if isinstance(table, list | tuple):
        if not all(_is_row(row, n_columns) for row in table):
            raise ValueError(f"{name} must have {_FORMS[n_columns]}, found rows of another form.")
        # Not through numpy, which would make text of the 1 in (1, "a") and matrices of ids that are tuples.
        columns = [[row[position] for row in table] for position in range(n_columns)]
    elif isinstance(table, np.ndarray) or is_foreign(table):
        columns = list(to_numpy(without_mask(table)).T) if table.ndim == 2 else []
    else:
        columns = _frame_columns(table, name)
    if len(columns) != n_columns:
        raise ValueError(f"{name} must have {_FORMS[n_columns]}, found shape {tuple(table.shape)}.")
    if len(columns[0]) == 0:
        raise ValueError(f"{name} is empty.")
    return columns


def _is_row(row: Any, n_columns: int) -> bool:
    return isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) and len(row) == n_columns


def _frame_columns(frame: Any, name: str) -> list[Column]:
    """Return the columns of a data frame."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        raise TypeError(f"{name} must be an array, a list of rows or a data frame, found {type(frame).__name__}.")
    return [series_column(series) for series in table.iter_columns()]


def series_column(series: Any) -> Column:
    """Return the values of a narwhals series; what is missing becomes NaN among floats, else None."""
    absent = series.is_null().to_numpy()
    if series.dtype.is_float() or (series.dtype.is_integer() and not absent.any()):
        return np.asarray(series.to_numpy())
    values: list[Any] = series.to_list()
    for row in np.flatnonzero(absent):
        values[row] = None  # every library has a missing value of its own
    return values


def factorize(columns: Sequence[Column], name: str) -> list[np.ndarray]:
    """Give equal values of some columns equal numbers, counted from 0 in the order they first appear.

    Parameters
    ----------
    columns : sequence of columns
        What has the same meaning and is to be numbered alike.
    name : str
        How messages call the table they are from.

    Returns
    -------
    list of integer arrays, one for each column
    """
    values: Column
    kinds = {column.dtype.kind if isinstance(column, np.ndarray) else "O" for column in columns}
    if len(kinds) == 1 and kinds <= set("iubf"):
        values, first, codes = np.unique(np.concatenate(columns), return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first))[codes]
    else:
        rows = [value for column in columns for value in (column if isinstance(column, list) else column.tolist())]
        try:
            values = list(dict.fromkeys(rows))
        except TypeError as error:
            raise TypeError(f"{name} holds something that cannot serve as an id or label ({error}).") from error
        number = {value: code for code, value in enumerate(values)}
        codes = np.fromiter(map(number.__getitem__, rows), dtype=np.intp, count=len(rows))
    if missing(values).any():
        row = next(int(np.argmax(absent)) for absent in map(missing, columns) if absent.any())
        raise ValueError(f"{name} has a missing value in row {row}: drop the row, or fill it in.")
    return np.split(codes, np.cumsum([len(column) for column in columns[:-1]]))


def group_codes(labels: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return a number for each label, equal where labels are equal; 1 and "1" are not.

    Parameters
    ----------
    labels : array, series or list of that shape
        Of any hashable values, none of them missing.
    shape : tuple of int
        (n,) for labels of rows, (m, q) for labels of cells.
    name : str
        How messages call them.

    Returns
    -------
    integer array of that shape
    """
    column: Column
    if isinstance(labels, list | tuple):
        # Not through numpy alone, which would make text of the 1 in [1, "1"] and matrices of labels that are tuples.
        column = list(labels) if len(shape) == 1 else np.array(labels, dtype=object)
    else:
        column = to_numpy(without_mask(labels))
    found = (len(column),) if isinstance(column, list) else column.shape
    each = "rows" if len(shape) == 1 else "cells"
    if found != shape:
        size = " × ".join(map(str, shape))
        raise ValueError(f"{name} must give one label for each of {size} {each}, found shape {found}.")
    column = column if isinstance(column, list) else column.reshape(-1)
    absent = missing(column)
    if absent.any():
        place = np.unravel_index(int(np.argmax(absent)), shape)
        where = ", ".join(f"{axis} {position}" for axis, position in zip(("row", "column"), place, strict=False))
        count = f"(None or NaN; {absent.sum()} in all)"
        raise ValueError(f"{name} has a missing value in {where} {count}: give each of the {each} a label.")
    return factorize([column], name)[0].reshape(shape)


def distinct(column: Column, name: str) -> tuple[np.ndarray, list[Any]]:
    """Return the number of each row's value, as `factorize` does, and the values in the order of their numbers."""
    (codes,) = factorize([column], name)
    found = np.empty(int(codes.max()) + 1, dtype=np.intp)
    found[codes] = np.arange(len(codes))
    return codes, [column[row] for row in found] if isinstance(column, list) else column[found].tolist()


def missing(column: Column) -> np.ndarray:
    """Return which values of a column are missing: None, NaN, or what another library has for them."""
    if isinstance(column, np.ndarray) and column.dtype.kind != "O":
        # Whole numbers, booleans and text have no missing value.
        return np.asarray(column != column)
    try:
        if not any(map(is_missing, set(column))):  # far fewer than there are rows
            return np.zeros(len(column), dtype=bool)
    except TypeError:
        pass  # what has no hash is refused where values are numbered
    return np.fromiter(map(is_missing, column), dtype=bool, count=len(column))


def lacks_id(column: Column) -> np.ndarray:
    """Return which rows of a column of ids have none: what is missing, or text without a letter."""
    absent = missing(column)
    if isinstance(column, np.ndarray) and column.dtype.kind not in "OUST":
        return absent
    try:
        blank = {label for label in set(column) if isinstance(label, str) and not label.strip()}
    except TypeError:
        return absent  # what has no hash is refused where values are numbered
    return absent | np.array([label in blank for label in column], dtype=bool) if blank else absent


def ends_in_order(rows: np.ndarray, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return pairs of numbers with the smaller one first, so that both directions of an edge are the same."""
    return np.minimum(rows, columns), np.maximum(rows, columns)


def pair_numbers(rows: np.ndarray, columns: np.ndarray, n_columns: int) -> np.ndarray:
    """Return one number for each pair of numbers, equal where the pairs are equal."""
    return np.asarray(rows.astype(np.int64) * n_columns + columns)

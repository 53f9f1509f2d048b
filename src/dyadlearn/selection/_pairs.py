"""Tables of pairs: an instance id and a task id in each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyadlearn._array import is_foreign, to_numpy

__all__ = ["Column", "factorize", "id_columns", "pair_numbers"]

# Ids or labels, one per row: an array where they came in one, else a list of any hashable values.
Column = np.ndarray | list[Any]


def id_columns(pairs: Any, name: str) -> tuple[Column, Column]:
    """Return the two columns of a table of pairs.

    Parameters
    ----------
    pairs : array, list of rows or frame, of shape (n, 2)
    name : str
        How messages call it.
    """
    columns: list[Column]
    if isinstance(pairs, list | tuple):
        if not all(map(_is_pair, pairs)):
            raise ValueError(f"{name} must have two columns (instance, task), found rows of another form.")
        # Not through numpy, which would make text of the 1 in (1, "a") and matrices of ids that are tuples.
        columns = [[row[0] for row in pairs], [row[1] for row in pairs]]
    elif isinstance(pairs, np.ndarray) or is_foreign(pairs):
        columns = list(to_numpy(pairs).T) if pairs.ndim == 2 else []
    else:
        columns = _frame_columns(pairs, name)
    if len(columns) != 2:
        raise ValueError(f"{name} must have two columns (instance, task), found shape {tuple(pairs.shape)}.")
    if len(columns[0]) == 0:
        raise ValueError(f"{name} is empty.")
    return columns[0], columns[1]


def _is_pair(row: Any) -> bool:
    return isinstance(row, Sequence | np.ndarray) and not isinstance(row, str) and len(row) == 2


def _frame_columns(frame: Any, name: str) -> list[Column]:
    """Return the columns of a data frame, refusing missing ids."""
    import narwhals as nw

    table = nw.from_native(frame, eager_only=True, pass_through=True)
    if not isinstance(table, nw.DataFrame):
        raise TypeError(f"{name} must be an array, a list of rows or a data frame, found {type(frame).__name__}.")
    columns: list[Column] = []
    for series in table.iter_columns():
        missing = series.is_null().to_numpy()
        if missing.any():
            _refuse_missing(int(np.argmax(missing)), name)
        columns.append(series.to_numpy() if series.dtype.is_integer() else series.to_list())
    return columns


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
    kinds = {column.dtype.kind if isinstance(column, np.ndarray) else "O" for column in columns}
    if len(kinds) == 1 and kinds <= set("iub"):
        _, first, codes = np.unique(np.concatenate(columns), return_index=True, return_inverse=True)
        codes = np.argsort(np.argsort(first))[codes]
    else:
        number: dict[Any, int] = {}
        values = [value for column in columns for value in (column if isinstance(column, list) else column.tolist())]
        try:
            codes = np.array([number.setdefault(value, len(number)) for value in values], dtype=np.intp)
        except TypeError as error:
            raise TypeError(f"{name} holds something that cannot serve as an id or label ({error}).") from error
        for value, code in number.items():
            if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
                row = int(np.argmax(codes == code))
                _refuse_missing(next(row - start for start in _starts(columns)[::-1] if start <= row), name)
    return np.split(codes, _starts(columns)[1:])


def _starts(columns: Sequence[Column]) -> np.ndarray:
    """Return where each column starts when they are strung together."""
    return np.cumsum([0, *(len(column) for column in columns[:-1])])


def _refuse_missing(row: int, name: str) -> None:
    raise ValueError(f"{name} has a missing value in row {row}: drop the row, or fill it in.")


def pair_numbers(rows: np.ndarray, columns: np.ndarray, n_columns: int) -> np.ndarray:
    """Return one number for each pair of numbers, equal where the pairs are equal."""
    return np.asarray(rows.astype(np.int64) * n_columns + columns)

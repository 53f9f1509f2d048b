"""Tables in files: csv and tsv (plain or gzipped), parquet, npy and npz."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, is_sparse
from dyadlearn._frames import Ids, make_ids

__all__ = ["Cells", "Sheet", "read_cells", "read_sheet", "shown", "suffix_of"]

#: How a missing value may be spelled, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})

#: Endings of files that hold arrays.
ARRAYS = (".npy", ".npz")


@dataclass(frozen=True)
class Sheet:
    """Numbers with the names of their rows and columns, and the file they came from.

    Attributes
    ----------
    values : array or sparse matrix of shape (n, p)
        NaN where a cell is missing.
    rows, columns : Ids or None
    path : Path
    """

    values: Array
    rows: Ids | None
    columns: Ids | None
    path: Path

    def take(self, rows: np.ndarray | None, columns: np.ndarray | None = None) -> Sheet:
        """Return the sheet with some of its rows and columns, in this order."""
        values = self.values if rows is None else self.values[rows]
        values = values if columns is None else values[:, columns]
        return replace(self, values=values, rows=_taken(self.rows, rows), columns=_taken(self.columns, columns))

    def transposed(self) -> Sheet:
        """Return the sheet with rows and columns exchanged."""
        return replace(self, values=self.values.T, rows=self.columns, columns=self.rows)

    @property
    def is_square(self) -> bool:
        """Whether rows and columns have the same ids, in any order."""
        return self.rows is not None and self.columns is not None and set(self.rows.labels) == set(self.columns.labels)


def _taken(ids: Ids | None, places: np.ndarray | None) -> Ids | None:
    return ids if ids is None or places is None else Ids(tuple(ids.labels[place] for place in places), ids.name)


@dataclass(frozen=True)
class Cells:
    """A table as it stands in a file: a line of headings and lines of cells, text or not.

    Attributes
    ----------
    path : Path
    headings : list of str
    lines : list of sequences
        All as long as the headings.
    numbers : list of int
        Where each line stands in the file, for messages.
    id_place : int
        Which column holds ids, if the table is a grid.
    """

    path: Path
    headings: list[str]
    lines: list[Sequence[Any]]
    numbers: list[int]
    id_place: int = 0

    def place(self, name: str) -> int:
        """Return which column has a heading."""
        if name not in self.headings:
            raise ValueError(f"{self.path} has no column {name!r}: its columns are {shown(self.headings)}.")
        return self.headings.index(name)

    def column(self, name: str) -> list[Any]:
        """Return the cells under a heading."""
        place = self.place(name)
        return [line[place] for line in self.lines]

    def ids(self) -> Ids:
        """Return the ids of the rows."""
        labels = [_text(line[self.id_place]) for line in self.lines]
        return make_ids(labels, self.headings[self.id_place] or None, str(self.path))

    def sheet(self) -> Sheet:
        """Return the table as numbers, with the ids of its rows and columns."""
        places = [place for place in range(len(self.headings)) if place != self.id_place]
        columns = make_ids([self.headings[place] for place in places], None, f"The first line of {self.path}")
        return Sheet(self.as_numbers(places), self.ids(), columns, self.path)

    def as_numbers(self, places: Sequence[int]) -> np.ndarray:
        """Return some columns as numbers, NaN where a cell is missing; a cell that is no number is named."""
        values = np.empty((len(self.lines), len(places)))
        for row, line in enumerate(self.lines):
            cells = [line[place] for place in places]
            try:
                values[row] = cells
            except (ValueError, TypeError):
                values[row] = [self._number(cell, row, place) for cell, place in zip(cells, places, strict=True)]
        if np.isinf(values).any():
            row, column = np.argwhere(np.isinf(values))[0]
            raise ValueError(f"{self._where(row, places[column])}: infinity is no value.")
        return values

    def _number(self, cell: Any, row: int, place: int) -> float:
        if cell is None or _text(cell).lower() in MISSING:
            return float("nan")
        try:
            return float(cell)
        except (ValueError, TypeError):
            hint = " Write decimals with a point." if re.fullmatch(r"-?\d+,\d+", str(cell)) else ""
            raise ValueError(f"{self._where(row, place)}: {cell!r} is not a number.{hint}") from None

    def _where(self, row: int, place: int) -> str:
        return f"{self.path}, line {self.numbers[row]}, column {self.headings[place]!r}"


def suffix_of(path: Path) -> str:
    """Return the ending of a name in lower case, without that of compression."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def shown(names: Sequence[Hashable], limit: int = 5) -> str:
    """Return the first few names, quoted."""
    return ", ".join(map(repr, names[:limit])) + (", …" if len(names) > limit else "")


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def read_sheet(path: Path) -> Sheet:
    """Read a table of numbers: ids in the first line and column, or an array, which has none."""
    return _read_array(path) if suffix_of(path) in ARRAYS else read_cells(path).sheet()


def read_cells(path: Path) -> Cells:
    """Read a table of text or parquet as it stands in its file."""
    if suffix_of(path) == ".parquet":
        return _read_parquet(path)
    return _read_text(path)


def _read_text(path: Path) -> Cells:
    data = path.read_bytes()
    try:
        text = (gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data).decode("utf-8-sig")
        if "\x00" in text:
            raise ValueError("it is not text")
        first = next((line for line in text.splitlines() if line.strip()), "")
        delimiter = max(",\t;", key=first.count)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        lines, numbers = [], []
        for line in reader:
            if any(cell.strip() for cell in line):
                lines.append(line)
                numbers.append(reader.line_num)
    except (EOFError, OSError, ValueError, zlib.error, csv.Error) as error:
        raise ValueError(f"{path} cannot be read as a table: {error}.") from error
    if len(lines) < 2:
        raise ValueError(f"{path} holds no table: expected a line of headings and lines of values below it.")
    headings = [cell.strip() for cell in lines[0]]
    if len(lines[1]) == len(headings) + 1:
        # R leaves out the corner above the ids.
        headings = ["", *headings]
    for line, place in zip(lines[1:], numbers[1:], strict=True):
        if len(line) != len(headings):
            raise ValueError(
                f"{path}, line {place}: expected {len(headings)} cells, as in the first line, found {len(line)}."
            )
    return Cells(path, headings, list(lines[1:]), numbers[1:])


def _read_parquet(path: Path) -> Cells:
    columns = _parquet_columns(path)
    if not columns or not next(iter(columns.values())):
        raise ValueError(f"{path} holds no table.")
    # pandas writes its index last; ids are text, and the other columns of a grid are not.
    is_text = [any(isinstance(cell, str) for cell in cells) for cells in columns.values()]
    lines: list[Sequence[Any]] = list(zip(*columns.values(), strict=True))
    id_place = is_text.index(True) if any(is_text) else 0
    return Cells(path, list(columns), lines, list(range(1, len(lines) + 1)), id_place)


def _parquet_columns(path: Path) -> dict[str, list[Any]]:
    import narwhals as nw

    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist.")
    backends: tuple[Any, ...] = ("pyarrow", "polars", "pandas")
    for backend in backends:
        try:
            frame = nw.read_parquet(str(path), backend=backend)
        except ImportError:
            continue
        except Exception as error:  # every library has its own
            raise ValueError(f"{path} cannot be read as parquet: {error}") from error
        return {str(name): frame.get_column(name).to_list() for name in frame.columns}
    raise ImportError("Reading parquet needs polars or pyarrow: install one of them, or write the table as csv.")


def _read_array(path: Path) -> Sheet:
    """Read an array, with the names of its rows and columns where the archive has them."""
    data = path.read_bytes()
    try:
        stored = np.load(io.BytesIO(data), allow_pickle=False)
        arrays = dict(stored) if hasattr(stored, "files") else {"values": stored}
        if {"indptr", "indices", "format"} <= set(arrays):
            arrays = {"values": sparse.csr_array(sparse.load_npz(io.BytesIO(data)))}
    except (ValueError, OSError, EOFError, BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as an array: {error}.") from error
    names = {
        axis: next((arrays[key] for key in keys if key in arrays), None)
        for axis, keys in {"rows": ("rows", "ids", "index"), "columns": ("columns",)}.items()
    }
    tables = [array for array in arrays.values() if array.ndim == 2 and array.dtype.kind in "biuf"]
    if len(tables) != 1:
        raise ValueError(
            f"{path} must hold one matrix of numbers, and if need be the names of its rows and columns as 'rows' and "
            f"'columns'; found {shown([f'{key} {array.shape}' for key, array in arrays.items()])}."
        )
    values = tables[0] if is_sparse(tables[0]) else np.asarray(tables[0], dtype=np.float64)
    ids = [
        None if found is None else make_ids([_text(label) for label in found.tolist()], None, f"{axis} of {path}")
        for axis, found in names.items()
    ]
    for found, length, axis in zip(ids, values.shape, names, strict=True):
        if found is not None and len(found) != length:
            raise ValueError(f"{path} names {len(found)} {axis}, but its matrix has {length}.")
    return Sheet(values, ids[0], ids[1], path)

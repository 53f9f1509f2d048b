"""Parquet files, whose metadata tells how much memory a part takes before it is read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.packed import check_decoded, check_file, imported, reading
from dyadlearn._tables import shown
from dyadlearn.exceptions import DataFileError

__all__ = ["Parquet", "index_with_ids", "open_parquet", "write_parquet"]

# The bytes of a value of each physical type. A text is a number beside a dictionary.
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "BYTE_ARRAY": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12}
# The bytes of a value as an object of Python, in a list of columns and in a list of lines.
_OBJECT = 100
# The types of text in arrow.
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
_NEEDED = "parquet", "pyarrow", ", or write the table as csv"


@contextmanager
def open_parquet(path: Path) -> Iterator[Parquet]:
    """Open a parquet file; nothing but its metadata is read."""
    check_file(path)
    pq = imported("pyarrow.parquet", f"Reading {_NEEDED[0]}", *_NEEDED[1:])
    with reading(path, "parquet file"):
        about = pq.read_metadata(path)
        columns = [about.schema.column(place) for place in range(about.num_columns)]
        # A text that repeats is stored once, and stays so.
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(path, metadata=about, read_dictionary=texts) as file:
            yield Parquet(path, file)


class Parquet:
    """An open parquet file.

    Parameters
    ----------
    path : Path
    file : pyarrow.parquet.ParquetFile

    Attributes
    ----------
    n : int
        The number of rows.
    starts : integer array
        The first row of each row group.
    names : list of str
        Of the columns.
    index : list of str
        The columns in which pandas keeps its index.
    """

    def __init__(self, path: Path, file: Any) -> None:
        self._path, self._file, self._about = path, file, file.metadata
        sizes = [self._about.row_group(place).num_rows for place in range(self._about.num_row_groups)]
        self.n = sum(sizes)
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.names: list[str] = file.schema_arrow.names
        self.index = _index_columns((file.schema_arrow.metadata or {}).get(b"pandas"))
        if len(set(self.names)) < len(self.names):
            raise ValueError("two of its columns have the same name")

    @property
    def kinds(self) -> dict[str, str]:
        """What each column holds: "whole", "number", "vectors", "text" or "other"."""
        return {field.name: _kind(field.type) for field in self._file.schema_arrow}

    def width(self, name: str) -> int:
        """Return the number of values in a row of a column, by the first row group."""
        group = self._group(0)
        return self._count(group, [name])[0] // int(self._about.row_group(group).num_rows)

    def group_bytes(self, names: Sequence[str], row: int) -> int:
        """Return the bytes that some columns of the row group take that holds a row."""
        return self._count(self._group(row), names)[1]

    def _group(self, row: int) -> int:
        return int(np.searchsorted(self.starts, row, side="right")) - 1

    def _count(self, group: int, names: Sequence[str]) -> tuple[int, int]:
        """Return how many values some columns of a row group have, and how many bytes these take in memory."""
        count, size = 0, 0
        part = self._about.row_group(group)
        for place in range(part.num_columns):
            column = part.column(place)
            if column.path_in_schema.split(".")[0] in names:
                kind = self._about.schema.column(place)
                count += column.num_values
                size += column.num_values * _WIDTHS.get(kind.physical_type, kind.length)
                size += column.total_uncompressed_size if column.physical_type == "BYTE_ARRAY" else 0
        return count, size

    def lists(self, names: Sequence[str] | None = None) -> dict[str, list[Any]]:
        """Return columns as lists of Python; None for all of them."""
        names = self.names if names is None else names
        counts = [self._count(group, names) for group in range(self._about.num_row_groups)]
        need = sum(_OBJECT * count + size for count, size in counts)
        check_decoded(self._path, need, f"Reading {len(names)} columns of {self._path}")
        table = self._file.read(list(names))
        return {name: [cell for chunk in table[name].chunks for cell in _cells(chunk)] for name in names}

    def numbers(self, names: list[str], first: int, end: int) -> np.ndarray:
        """Return some rows of some columns, which lie in one row group."""
        import pyarrow as pa

        columns = self._span(names, first, end).columns
        # Of others than floats an array of objects would be made where one is missing.
        floats = [each if pa.types.is_floating(each.type) else each.cast(pa.float64()) for each in columns]
        return np.column_stack([each.to_numpy() for each in floats])

    def vectors(self, name: str, first: int, end: int) -> np.ndarray:
        """Return some rows of a column of lists, which lie in one row group."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._span([name], first, end)[name].combine_chunks()
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        if not (lengths == lengths[0]).all() or not lengths[0] > 0:
            raise ValueError(f"its vectors have the lengths {shown(np.unique(lengths).tolist())}, and must have one")
        values: np.ndarray = column.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(lengths), int(lengths[0]))

    def _span(self, names: list[str], first: int, end: int) -> Any:
        group = self._group(first)
        table = self._file.read_row_group(group, columns=names)
        return table.slice(first - self.starts[group], end - first)

    def batches(self, names: Sequence[str], n_rows: int) -> Iterator[dict[str, np.ndarray]]:
        """Yield some columns by their names, `n_rows` rows at a time."""
        row = max((self._count(place, names)[1] / size for place, size in self._sizes()), default=0.0)
        check_decoded(self._path, int(row * min(n_rows, self.n)), f"Reading {n_rows} rows of {self._path}")
        for part in self._file.iter_batches(n_rows, columns=list(names)):
            yield {name: part.column(name).to_numpy(zero_copy_only=False) for name in names}

    def _sizes(self) -> Iterator[tuple[int, int]]:
        """Yield the row groups that hold rows, each with their number."""
        for place in range(self._about.num_row_groups):
            if size := self._about.row_group(place).num_rows:
                yield place, size


def _cells(chunk: Any) -> list[Any]:
    """Return the values of an array of arrow; a text that repeats is one object."""
    if not hasattr(chunk, "dictionary"):
        cells: list[Any] = chunk.to_pylist()
        return cells
    texts = chunk.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in chunk.indices.to_pylist()]


def _kind(kind: Any) -> str:
    import pyarrow as pa

    of = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if of.is_dictionary(kind):
        kind = kind.value_type
    if of.is_integer(kind):
        return "whole"
    if of.is_floating(kind) or of.is_boolean(kind) or of.is_decimal(kind):
        return "number"
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        return "vectors" if _kind(kind.value_type) in ("whole", "number") else "other"
    # Older versions do not know the views that polars writes.
    texts = (getattr(of, f"is_{name}", None) for name in _TEXTS)
    return "text" if any(test(kind) for test in texts if test is not None) else "other"


def _index_columns(about: bytes | None) -> list[str]:
    """Return the columns of an index, out of what pandas says about a frame in its file."""
    # An index that only counts the rows is no column.
    found = [] if about is None else json.loads(about).get("index_columns", [])
    return [name for name in found if isinstance(name, str)]


def index_with_ids(index: Sequence[str], texts: Sequence[str], path: Path) -> str | None:
    """Return the column of the index of pandas, if it has ids.

    It has none where it was never given a name and holds no text beside columns that do: these are numbers of rows,
    left over where some were taken out.

    Parameters
    ----------
    index : sequence of str
        The columns of the index.
    texts : sequence of str
        The columns of text.
    path : Path
        For messages.
    """
    if len(index) > 1:
        raise DataFileError(
            f"{path} has an index of {len(index)} levels, {shown(index)}: ids are an index of one level, such as by "
            "reset_index() and set_index(…) in pandas."
        )
    is_left_over = bool(index and texts) and index[0].startswith("__index_level_") and index[0] not in texts
    return index[0] if index and not is_left_over else None


def write_parquet(file: Any, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table of named columns to an open file."""
    pq = imported("pyarrow.parquet", f"Writing {_NEEDED[0]}", *_NEEDED[1:])
    import pyarrow as pa

    pq.write_table(pa.table({name: list(cells) for name, cells in columns.items()}), file)

"""Tables of columns: parquet and arrow, of which the ids are read first and then the blocks that hold what is wanted.

Features stand in columns of numbers, or as vectors in a column of lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.embeddings.opened import FeatureFile, blocks_of, gather, ids_beside, ids_of
from dyadlearn._files.packed import reading
from dyadlearn._files.tables import columns_library, index_columns, index_with_ids, load_table, parquet_index
from dyadlearn._tables import make_ids, shown
from dyadlearn.exceptions import DataFileError

__all__ = ["FRAMES", "open_frame"]

#: What such a file is called, by its ending.
FRAMES = {".parquet": "parquet file", ".arrow": "arrow file", ".feather": "arrow file"}

# The column that pandas writes an index without a name into.
_PANDAS = "__index_level_0__"
# With what an arrow file begins that knows where its blocks are; others are streams, without a list of these.
_ARROW = b"ARROW1"
# What arrow calls the types of text.
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
# How many rows polars is asked for at once: it does not tell where the blocks of a file are.
_ROWS = 2**13


def open_frame(path: Path, ending: str, key: str | None, row_ids: Any) -> FeatureFile:
    """Open a table of columns.

    Parameters
    ----------
    path : Path
    ending : str
        One of `FRAMES`.
    key : str or None
        The column of vectors; None looks for it, and takes all numbers where there is none.
    row_ids : str, path, sequence of ids or None
        The column of the ids, or what `ids_beside` takes; None takes the index that pandas wrote, or else the first
        column of text, or else of whole numbers if it is the first of all.
    """
    what = FRAMES[ending]
    own, labels = None, None
    with reading(path, what), _opened(path, ending) as frame:
        n, kinds = frame.n, frame.kinds
        if not n:
            raise DataFileError(f"{path} holds no rows.")
        if row_ids is None or (isinstance(row_ids, str) and row_ids in kinds):
            own = row_ids or _id_column(kinds, frame.index, path)
            labels = frame.labels(own)
        # An index that is nobody's ids, such as numbers of rows, is no feature either.
        kinds = {name: kind for name, kind in kinds.items() if name == own or name not in frame.index}
        names = _feature_columns(kinds, key, own, path)
        if names is None and ending == ".parquet" and row_ids is None:
            return FeatureFile.of_table(path, load_table(path))
        odd = [name for name in names or kinds if name != own and kinds[name] not in ("number", "whole", "vectors")]
        if names is None or odd:
            raise DataFileError(f"{path} has the columns {shown(odd)}, which are no numbers: expected features.")
    is_vectors = kinds[names[0]] == "vectors"
    ids = (
        ids_beside(path, row_ids, n)
        if labels is None
        else ids_of(labels, n, str(path), None if own == _PANDAS else own)
    )
    columns = None if is_vectors else make_ids(names, None, f"The columns of {path}")
    return FeatureFile(path, n, ids, columns, partial(_rows, path, ending, names, is_vectors))


def _id_column(kinds: dict[str, str], index: list[str], path: Path) -> str:
    texts = [name for name, kind in kinds.items() if kind == "text"]
    whole = [name for place, name in enumerate(kinds) if kinds[name] == "whole" and (name == _PANDAS or place == 0)]
    found = index_with_ids(index, texts, path) or next(iter([*texts, *whole[::-1]]), None)
    if found is None:
        raise DataFileError(
            f"{path} has no column of ids: expected text, or whole numbers in the first column; found "
            f"{shown([*kinds])}."
        )
    return found


def _feature_columns(kinds: dict[str, str], key: str | None, own: str | None, path: Path) -> list[str] | None:
    """Return which columns are the features; None where some of them are neither numbers nor vectors."""
    if key is not None:
        if key not in kinds:
            raise DataFileError(f"{path} has no column {key!r}: its columns are {shown([*kinds])}.")
        return [key]
    vectors = [name for name, kind in kinds.items() if kind == "vectors"]
    if len(vectors) > 1:
        raise DataFileError(
            f"{path} has vectors in {len(vectors)} columns, {shown(vectors)}: say by key= (on the command line "
            f"{path.name}::{vectors[0]}) which are the features."
        )
    if vectors:
        return vectors
    names = [name for name in kinds if name != own]
    if not names:
        raise DataFileError(f"{path} has ids and no features.")
    return names if {kinds[name] for name in names} <= {"number", "whole"} else None


def _rows(path: Path, ending: str, names: list[str], is_vectors: bool, places: np.ndarray) -> np.ndarray:
    with reading(path, FRAMES[ending]), _opened(path, ending) as frame:

        def read(first: int, end: int) -> np.ndarray:
            return frame.vectors(names[0], first, end) if is_vectors else frame.numbers(names, first, end)

        return gather(read, places, frame.starts, path)


@contextmanager
def _opened(path: Path, ending: str) -> Iterator[_Pyarrow | _Polars]:
    if columns_library(FRAMES[ending].split()[0]) == "polars":
        yield _Polars(_scanned(path, ending), parquet_index(path) if ending == ".parquet" else [])
        return
    import pyarrow as pa

    if ending == ".parquet":
        import pyarrow.parquet

        with pa.parquet.ParquetFile(path) as file:
            groups = [file.metadata.row_group(place).num_rows for place in range(file.metadata.num_row_groups)]
            yield _Pyarrow(file.schema_arrow, groups, lambda place, names: file.read_row_group(place, columns=names))
        return
    with pa.memory_map(str(path)) as file:
        if file.read(len(_ARROW)) != _ARROW:
            file.seek(0)
            table = pa.ipc.open_stream(file).read_all()  # mapped, so that no more is read than is looked at
            yield _Pyarrow(table.schema, [table.num_rows], lambda _, names: table.select(names))
            return
        schema = pa.ipc.open_file(file).schema

        def block(place: int, names: Sequence[str]) -> Any:
            options = pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(name) for name in names])
            batch = pa.ipc.open_file(file, options=options).get_batch(place)
            return pa.Table.from_batches([batch]).select(list(names))

        count = pa.ipc.open_file(file).num_record_batches
        sizes = [block(place, schema.names[:1]).num_rows for place in range(count)] if schema.names else []
        yield _Pyarrow(schema, sizes, block)


class _Pyarrow:
    """A table whose blocks pyarrow reads.

    Parameters
    ----------
    schema : pyarrow.Schema
    sizes : list of int
        How many rows each block has.
    block : callable
        Takes the number of a block and names of columns, and returns these as a table.
    """

    def __init__(self, schema: Any, sizes: list[int], block: Callable[[int, list[str]], Any]) -> None:
        self._sizes, self._block = sizes, block
        self.n = sum(sizes)
        self.starts = np.cumsum([0, *sizes[:-1]])
        self.kinds = {field.name: _arrow_kind(field.type) for field in schema}
        self.index = index_columns((schema.metadata or {}).get(b"pandas"))
        if len(self.kinds) < len(schema):
            raise ValueError("two of its columns have the same name")

    def labels(self, name: str) -> list[Any]:
        """Return the cells of one column."""
        return [label for place in range(len(self._sizes)) for label in self._block(place, [name])[name].to_pylist()]

    def _span(self, names: list[str], first: int, end: int) -> Any:
        place = int(np.searchsorted(self.starts, first, side="right")) - 1
        return self._block(place, names).slice(first - self.starts[place], end - first)

    def numbers(self, names: list[str], first: int, end: int) -> np.ndarray:
        """Return some rows of some columns, which lie in one block."""
        import pyarrow as pa

        columns = self._span(names, first, end).columns
        # Of others than floats an array of objects would be made where one is missing.
        floats = [each if pa.types.is_floating(each.type) else each.cast(pa.float64()) for each in columns]
        return np.column_stack([each.to_numpy() for each in floats])

    def vectors(self, name: str, first: int, end: int) -> np.ndarray:
        """Return some rows of a column of lists, which lie in one block."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self._span([name], first, end)[name].combine_chunks()
        if isinstance(column.type, pa.BaseExtensionType):
            column = column.storage
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        return _matrix(column.flatten().to_numpy(zero_copy_only=False), lengths)


def _arrow_kind(kind: Any) -> str:
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
        return "vectors" if _arrow_kind(kind.value_type) in ("whole", "number") else "other"
    # Older versions do not know the views that polars writes.
    texts = (getattr(of, f"is_{name}", None) for name in _TEXTS)
    return "text" if any(test(kind) for test in texts if test is not None) else "other"


def _scanned(path: Path, ending: str) -> Any:
    import polars

    if ending == ".parquet":
        return polars.scan_parquet(path)
    with open(path, "rb") as file:
        is_stream = file.read(len(_ARROW)) != _ARROW
    return polars.read_ipc_stream(path).lazy() if is_stream else polars.scan_ipc(path)


class _Polars:
    """The same of a table that polars reads, `_ROWS` rows at a time."""

    def __init__(self, lazy: Any, index: list[str]) -> None:
        import polars

        self._lazy, self.index = lazy, index
        self.n = int(lazy.select(polars.len()).collect().item())
        self.starts = blocks_of(self.n, _ROWS, 1)
        self.kinds = {name: _polars_kind(dtype) for name, dtype in lazy.collect_schema().items()}

    def labels(self, name: str) -> list[Any]:
        """Return the cells of one column."""
        labels: list[Any] = self._lazy.select(name).collect()[name].to_list()
        return labels

    def _span(self, names: list[str], first: int, end: int) -> Any:
        return self._lazy.select(names).slice(first, end - first).collect()

    def numbers(self, names: list[str], first: int, end: int) -> np.ndarray:
        """Return some rows of some columns."""
        import polars

        frame = self._span(names, first, end)
        floats = [each if each.dtype.is_float() else each.cast(polars.Float64) for each in frame.get_columns()]
        return np.column_stack([each.to_numpy() for each in floats])

    def vectors(self, name: str, first: int, end: int) -> np.ndarray:
        """Return some rows of a column of lists."""
        import polars

        column = self._span([name], first, end)[name]
        lists = column.arr.to_list() if isinstance(column.dtype, polars.Array) else column
        return _matrix(lists.explode().to_numpy(), lists.list.len().to_numpy())


def _polars_kind(dtype: Any) -> str:
    import polars

    if dtype.is_integer():
        return "whole"
    if dtype.is_numeric() or dtype == polars.Boolean:
        return "number"
    if isinstance(dtype, polars.List | polars.Array):
        return "vectors" if _polars_kind(dtype.inner) in ("whole", "number") else "other"
    return "text" if isinstance(dtype, polars.String | polars.Categorical | polars.Enum | polars.Binary) else "other"


def _matrix(values: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return vectors that stand one after the other as a matrix; they must be of one length."""
    d = lengths[0]
    if not (lengths == d).all() or not d > 0:
        raise ValueError(f"its vectors have the lengths {shown(np.unique(lengths).tolist())}, and must have one")
    return values.reshape(len(lengths), int(d))

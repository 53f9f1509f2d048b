"""Files of features: ids are read when a file is opened, rows when they are requested.

npy files are memory-mapped. Archives (npz and HDF5) have either one matrix of all features, with
the ids in another array, or one array for each id; names and the shapes of a few arrays decide
which. Links of an HDF5 file to other files are never followed. A parquet file has columns of
numbers, or a column of vectors. Its ids are read first, then only the row groups with requested
rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files import packed
from dyadlearn._files.atomic import ids_file
from dyadlearn._files.hdf5_texts import bytes_to_read, read_texts
from dyadlearn._files.tables import PANDAS, check_whole, open_parquet, read_cells, suffix_of
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._tables import Ids, Table, id_text, make_ids, not_found, shown, text_ids
from dyadlearn._text import quoted
from dyadlearn.exceptions import DataFileError, IdError

# Number of bytes that are read at once if a file has no blocks.
_SPAN = 2**22


@dataclass(frozen=True)
class FeatureFile:
    """Opened file of features.

    Attributes
    ----------
    path : Path
    n : int
        Number of rows.
    ids : Ids or None
        Ids of the rows; None if the file has no ids.
    columns : Ids or None
        Names of the features.
    rows : callable
        Takes an integer array of shape (k,) and returns these rows (k, d), in this order; no other
        rows are read.
    is_whole : bool, default=False
        Whether the file was read completely when it was opened.
    """

    path: Path
    n: int
    ids: Ids | None
    columns: Ids | None
    rows: Callable[[np.ndarray], Any]
    is_whole: bool = False

    @classmethod
    def of_table(cls, path: Path, table: Table) -> FeatureFile:
        """Return a file that was read completely."""
        n = int(table.values.shape[0])
        return cls(
            path,
            n,
            table.row_ids,
            table.column_ids,
            lambda places: table.take(places).values,
            is_whole=True,
        )

    def places(self, wanted: Sequence[Hashable], of: str) -> np.ndarray:
        """Return the positions of ids, compared as text; raise if some are unknown.

        Parameters
        ----------
        wanted : sequence of ids
        of : str
            Name of the rows in messages.
        """
        if self.ids is None:
            raise self.without_ids
        where = {id_text(label): place for place, label in enumerate(self.ids.labels)}
        lacking = [label for label in wanted if id_text(label) not in where]
        if lacking:
            raise not_found(
                lacking, len(wanted), f"requested {of}", str(self.path), self.ids.labels
            )
        return np.array([where[id_text(label)] for label in wanted], dtype=np.intp)

    @property
    def without_ids(self) -> IdError:
        """Error for a file that must have ids and has none."""
        return IdError(
            Message(
                "{path} has no ids: write them into {beside} beside it, one a line in the order "
                "of its rows, or name them [by row_ids=|as {file}::row_ids=FILE].",
                path=self.path,
                beside=ids_file(self.path).name,
                file=self.path.name,
            )
        )

    def only(self, wanted: Sequence[Hashable], of: str) -> FeatureFile:
        """Return the file limited to the rows of some ids, in this order; `of` is as in `places`."""
        chosen = self.places(wanted_ids(wanted, None, f"The list of {of}").labels, of)
        ids = None if self.ids is None else self.ids.take(chosen)
        return replace(self, n=len(chosen), ids=ids, rows=lambda places: self.rows(chosen[places]))

    def take(self, places: np.ndarray | None = None) -> Table:
        """Return some rows with their ids, in this order; None means all. Values are not checked."""
        values = self.rows(np.arange(self.n) if places is None else places)
        ids = None if self.ids is None else self.ids.take(places)
        return Table(values, ids, self.columns)

    def read(self, places: np.ndarray | None = None) -> Table:
        """Return some rows with their ids, in this order; None means all. Raise if values are missing or infinite."""
        table = self.take(places)
        check_whole(table, self.path)
        return table


def kept_dtype(dtype: Any) -> np.dtype[Any]:
    """Return the dtype in which values are stored: single precision for floats of at most 32 bits, else double."""
    dtype = np.dtype(dtype)
    is_short = dtype.kind == "f" and dtype.itemsize <= 4
    return np.dtype(np.float32 if is_short else np.float64)


def check_numbers(dtype: np.dtype[Any], whose: str) -> None:
    """Raise if values are not numbers; Python objects are never unpickled."""
    if dtype.hasobject:
        raise DataFileError(
            f"{whose} holds Python objects, which are not read: store numbers, or text as numpy's "
            f"str."
        )
    if dtype.kind not in "biuf":
        raise DataFileError(f"{whose} holds values of type {dtype}: expected numbers.")


@dataclass(frozen=True)
class Blocks:
    """A file of features that is read block by block.

    Attributes
    ----------
    read : callable
        Takes the first row and the one after the last, which are in one block, and returns those
        rows.
    path : Path
        Path of the file, for messages.
    d : int
        Number of features.
    n_bytes : int
        Bytes of a block while it is read.
    itemsize : int, default=8
        Bytes of a feature.
    """

    read: Callable[[int, int], np.ndarray]
    path: Path
    d: int
    n_bytes: int
    itemsize: int = 8

    def gather(self, places: np.ndarray, blocks: np.ndarray) -> np.ndarray:
        """Return some rows (k, d), after checking that there is memory for them.

        Parameters
        ----------
        places : integer array of shape (k,)
            Which rows, in this order.
        blocks : integer array of shape (k,)
            Block of each row. A block is read at most once, and only if a row of it is wanted.
        """
        order = np.argsort(blocks, kind="stable")
        parts = np.split(order, np.flatnonzero(np.diff(blocks[order])) + 1)
        longest = max(len(part) for part in parts)
        # The result, the rows of a part in their order, and the block of the file.
        need = self.itemsize * (len(places) + longest) * self.d + self.n_bytes
        purpose = f"Reading {len(places)} × {self.d} features of {self.path}"
        packed.check_decoded(self.path, need, purpose)
        values = np.empty((0, self.d))
        for part in parts:
            positions = places[part]
            first = int(positions.min())
            rows = self.read(first, int(positions.max()) + 1)
            if not values.size:
                values = np.empty((len(places), self.d), dtype=kept_dtype(rows.dtype))
            if rows.shape[1] != self.d:
                raise DataFileError(
                    f"{self.path} has rows of {self.d} and of {rows.shape[1]} features."
                )
            values[part] = rows[positions - first]
        return values


# Ids -----------------------------------------------------------------------------------------------


def listed(ids: Any, name: str) -> list[Any]:
    """Return the ids of a list, an array, an index or a series as a list; messages call them `name`."""
    has_columns = hasattr(ids, "columns") or getattr(ids, "ndim", 1) != 1
    is_one = isinstance(ids, str | bytes | Mapping)
    # Numbers of other libraries are converted to Python numbers.
    methods = [method for method in ("tolist", "to_list", "to_pylist") if hasattr(ids, method)]
    if has_columns or is_one or not (methods or isinstance(ids, Iterable)):
        raise TypeError(
            f"{name} must be a list of ids, such as labels.index, found {type(ids).__name__}."
        )
    if methods:
        labels = list(getattr(ids, methods[0])())
    else:
        labels = list(ids)
    for label in labels:
        if not isinstance(label, Hashable):
            raise TypeError(
                f"{name} must be a list of texts or whole numbers, found {quoted(label)} in it."
            )
    return labels


def wanted_ids(labels: Sequence[Any], name: str | None, owner: str) -> Ids:
    """Return requested ids after checking that none is repeated; 7 and "7" count as the same.

    Parameters
    ----------
    labels : sequence of ids
    name : str or None
        Heading of the ids.
    owner : str
        Name of the list in messages.
    """
    wanted = make_ids(labels, name, owner)
    text_ids(wanted, owner)
    return wanted


def ids_of(labels: Sequence[Any], n: int, owner: str, name: str | None = None) -> Ids:
    """Return the ids of n rows after checking that there is one for each, and that each is a text or a whole number.

    Parameters
    ----------
    labels : sequence of text, bytes or numbers
    n : int
    owner : str
        Source of the ids, for messages.
    name : str or None
        Heading of the ids.
    """
    if len(labels) != n:
        raise DataFileError(
            f"{owner} has {len(labels)} ids, but there are {n} rows of features: give each row one."
        )
    with packed.reading(owner, "list of ids"):
        texts = [label if isinstance(label, int) else id_text(label) for label in labels]
    if any(isinstance(label, float) and label == label for label in labels):
        raise DataFileError(
            f"{owner} has numbers with a point for ids: ids are text or whole numbers."
        )
    ids = make_ids(texts, name, owner)
    text_ids(ids, f"The rows of {owner}")  # raises if both 1 and "1" are ids
    return ids


def read_ids(path: Path) -> list[str]:
    """Read a file of ids, one in each line."""
    return packed.read_text(path, "list of ids").rstrip().splitlines()


def ids_beside(path: Path, row_ids: Any, n: int) -> Ids | None:
    """Return ids for a file of n rows without ids: those given, or those of a named or neighbouring file.

    Parameters
    ----------
    path : Path
    row_ids : list of ids, path or None
        A path is relative to the current folder, else to the folder of the file. None means the
        default name.
    n : int
    """
    if isinstance(row_ids, list):
        return ids_of(row_ids, n, "row_ids=")
    if row_ids is None:
        named = [ids_file(path)]
    else:
        named = [Path(row_ids), path.parent / row_ids]
    for file in named:
        # What is there and cannot be read, such as a pipe or a broken link, is an error and no
        # missing file.
        if os.path.lexists(file) and not file.is_dir():
            return ids_of(read_ids(file), n, str(file))
    if row_ids is not None:
        raise DataFileError(
            f"{named[0]} is neither a file of ids, one a line, nor a part of {path}."
        )
    return None


def open_npy(path: Path, row_ids: Any) -> FeatureFile:
    """Open an array (n, d), which is memory-mapped; its ids are in another file of the folder, if anywhere."""
    with packed.reading(path, "array of numpy"), open(path, "rb") as file:
        shape, by_columns, dtype = packed.read_header(file, path.stat().st_size)
        _check_shape(shape, dtype, str(path))
        mapped = np.memmap(path, dtype, "r", file.tell(), shape, "F" if by_columns else "C")
    ids = ids_beside(path, row_ids, shape[0])
    return FeatureFile(path, shape[0], ids, None, partial(_matrix_rows, mapped, path))


def _matrix_rows(array: Any, path: Path, places: np.ndarray) -> np.ndarray:
    """Return some rows of an array (n, d) that is in a file, reading the chunks that hold them."""
    n, d = array.shape
    n_bytes = d * np.dtype(array.dtype).itemsize  # of a row
    chunks = getattr(array, "chunks", None)
    step = chunks[0] if chunks else max(1, _SPAN // n_bytes)
    blocks = Blocks(
        lambda first, end: array[first:end],
        path,
        d,
        n_bytes * min(n, step),
        kept_dtype(array.dtype).itemsize,
    )
    return blocks.gather(places, places // step)


@contextmanager
def open_hdf5(path: Path) -> Iterator[Group]:
    """Open an HDF5 file for reading."""
    with packed.imported("h5py", "Reading HDF5 files", "h5py").File(path, "r") as file:
        yield Group(file, path)


class Group(Mapping[str, Any]):
    """A group of an HDF5 file that follows no links, since those of h5py may lead to other files.

    Parameters
    ----------
    group : h5py.Group
    path : Path
        Path of the file, for messages.
    """

    def __init__(self, group: Any, path: Path) -> None:
        self._group = group
        self._path = path

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __len__(self) -> int:
        return len(self._group)

    def __getitem__(self, name: str) -> Any:
        """Return a group, or a data set of h5py with its values in this file."""
        from h5py import h5l

        encoded = name.encode("utf-8", "surrogateescape")
        # h5py would follow links on a longer path.
        if "/" in name or not self._group.id.links.exists(encoded):
            raise KeyError(name)
        fault = "is a link to another place or file"
        if self._group.id.links.get_info(encoded).type == h5l.TYPE_HARD:
            item = self._group[name]
            if hasattr(item, "keys"):
                return Group(item, self._path)
            if not hasattr(item, "shape") or not (item.external or item.is_virtual):
                return item
            fault = "has its values in other files or data sets"
        raise DataFileError(
            f"{self._path}: {quoted(name)} {fault}, which is never followed: copy the values into "
            f"this file."
        )


#: Possible names of the array of ids, and the name of the array of column names.
IDS = ("ids", "rows", "index")
COLUMNS = "columns"

# Attribute in which bio_embeddings stores the id of an array whose name is a number.
_OWN_ID = "original_id"

# Among more arrays than this, no single matrix is looked for.
_FEW = 20


#: Names of archives in messages, and the functions that open them, by file name extension.
CONTAINERS: dict[str, tuple[str, Callable[[Path], AbstractContextManager[Any]]]] = {
    ".npz": ("npz archive", packed.open_archive),
    ".h5": ("HDF5 file", open_hdf5),
    ".hdf5": ("HDF5 file", open_hdf5),
}


@contextmanager
def _opened(path: Path, place: Iterable[str] = ()) -> Iterator[Any]:
    """Open an archive, and return its parts by their names."""
    what, opening = CONTAINERS[suffix_of(path)]
    with packed.reading(path, what), opening(path) as node:
        for name in place:
            node = node[name]
        yield node


def open_container(path: Path, key: str | None, row_ids: Any, pool: str | None) -> FeatureFile:
    """Open an archive of arrays: a matrix of features, or a group of one array for each id.

    Parameters
    ----------
    path : Path
    key : str or None
        Name of the array or group with the features, such as ``group/data``; None looks for it.
    row_ids : str, path, sequence of ids or None
        Name of the array of ids, or as in `ids_beside`.
    pool : {"mean"} or None
        Pooling of arrays with several rows for one id.
    """
    with _opened(path) as root:
        place, group, node = _named(root, key, path)
        while not _is_array(node):
            beside = {name for name in (row_ids, *IDS) if isinstance(name, str) and name in node}
            names = [name for name in sorted(node) if name not in (*beside, COLUMNS)]
            if not names:
                raise DataFileError(f"{path} holds no features.")
            chosen = _chosen(node, names, bool(beside), pool)
            if chosen is None:
                if beside or not _is_array(node[names[0]]):
                    raise DataFileError(
                        Message(
                            "{path} holds {n_names} arrays or groups, {choice}.",
                            path=path,
                            n_names=len(names),
                            choice=_choose(path, names),
                        )
                    )
                return _one_each(path, place, node, names, row_ids, pool)
            place = (*place, chosen)
            group = node
            node = node[chosen]
        return _one_matrix(path, place, node, group, row_ids, pool)


def _choose(path: Path, names: Sequence[str]) -> Message:
    """Return a hint for a message about a file with several parts."""
    return Message(
        "{names}: say [by key= (on the command line {part})|as {part}] which has the features",
        names=shown(names),
        part=f"{path.name}::{names[0]}",
    )


def _named(root: Any, key: str | None, path: Path) -> tuple[tuple[str, ...], Any, Any]:
    """Return the names on the path of a key, its group, and the part itself."""
    names = tuple(part for part in (key or "").split("/") if part)
    if names and names[0] not in root and key in root:  # names in numpy's archives may have a slash
        names = (str(key),)
    group = root
    node = root
    for place, name in enumerate(names):
        group = node
        if _is_array(group) or name not in group:
            has = "" if _is_array(group) else f": it has {shown(sorted(group))}"
            raise DataFileError(f"{path} has no {quoted('/'.join(names[: place + 1]))}{has}.")
        node = group[name]
    return names, group, node


def _chosen(group: Any, names: list[str], has_ids: bool, pool: str | None) -> str | None:
    """Return the name of the matrix or group of all features; None if there is one array for each id."""
    if len(names) == 1 and (has_ids or not _is_array(group[names[0]])):
        return names[0]
    # Very many arrays, or arrays to pool, are one for each id; they are not opened.
    if pool is not None or (len(names) > _FEW and not has_ids):
        return None
    matrices = []
    for name in names:
        item = group[name]
        if not _is_array(item):
            continue
        shape = _shape(item)
        if len(shape) == 2 and (shape[0] > 1 or len(names) == 1):
            matrices.append(name)
    return matrices[0] if len(matrices) == 1 else None


def _one_matrix(
    path: Path, place: tuple[str, ...], array: Any, group: Any, row_ids: Any, pool: str | None
) -> FeatureFile:
    """Return a matrix with the ids and the column names in its group."""
    where = f"{path}: {quoted('/'.join(place))}"
    shape = _shape(array)
    _check_shape(shape, np.dtype(array.dtype), where)
    if pool is not None:
        raise DataFileError(
            Message(
                "{where} has one row for each id: [pool=|::pool=mean] is for files with several.",
                where=where,
            )
        )
    names = []
    for name in IDS if row_ids is None else (row_ids,):
        if isinstance(name, str | os.PathLike) and str(name) in group:
            names.append(str(name))
    if names and names[0] != place[-1]:
        ids: Ids | None = ids_of(_texts(group, names[0], path), shape[0], str(path))
    else:
        ids = ids_beside(path, row_ids, shape[0])
    columns = None
    if COLUMNS in group and place[-1] != COLUMNS:
        texts = [id_text(label) for label in _texts(group, COLUMNS, path)]
        if len(texts) != shape[1]:
            raise DataFileError(
                f"{path} names {len(texts)} columns, but its matrix has {shape[1]}."
            )
        columns = make_ids(texts, None, f"columns of {path}")

    def rows(places: np.ndarray) -> np.ndarray:
        with _opened(path, place) as array:
            return _matrix_rows(array, path, places)

    return FeatureFile(path, shape[0], ids, columns, rows)


def _texts(group: Any, name: str, path: Path) -> list[Any]:
    """Return the names in an array of a group."""
    array = group[name]
    if not _is_array(array) or len(_shape(array)) != 1:
        raise DataFileError(f"{path}: {quoted(name)} must be a list of names.")
    dtype = np.dtype(array.dtype)
    if dtype.kind not in "OSUTiu":
        raise DataFileError(
            f"{path}: {quoted(name)} holds values of type {array.dtype}, which are no names."
        )
    if not dtype.hasobject:
        n_bytes = array.shape[0] * dtype.itemsize
        packed.check_decoded(path, n_bytes, f"Reading {quoted(name)} of {path}")
        return list(array[:].tolist())
    if not _has_any_length(dtype):
        check_numbers(dtype, f"{path}: {quoted(name)}")
    return _texts_of_any_length([array], path, count=array.shape[0])


def _has_any_length(dtype: Any) -> bool:
    """Return whether values of HDF5 are texts of variable length."""
    return (dtype.metadata or {}).get("vlen") in (str, bytes)


def _texts_of_any_length(
    items: Sequence[Any], path: Path, attribute: str | None = None, count: int = 1
) -> list[bytes]:
    """Return the texts of data sets, `count` in each, or of an attribute of the items of an HDF5 file."""
    need = bytes_to_read(path, count * len(items))
    check_memory(need, np.empty(0), f"Reading the ids of {path}", "give a file with fewer ids")
    return read_texts(path, [item.name for item in items], attribute, count)


def _one_each(
    path: Path, place: tuple[str, ...], group: Any, names: list[str], row_ids: Any, pool: str | None
) -> FeatureFile:
    """Return a file with one array for each id; only requested arrays are opened."""
    if row_ids is not None:
        raise DataFileError(
            Message(
                "{path} has an array for each id, which it is named by: leave "
                "[row_ids|::row_ids=] out.",
                path=path,
            )
        )
    is_numbered = _OWN_ID in getattr(group[names[0]], "attrs", ())
    labels = names
    if is_numbered:
        labels = _own_ids([group[name] for name in names], path)
    ids = ids_of(labels, len(names), str(path))

    def rows(places: np.ndarray) -> np.ndarray:
        vectors: list[np.ndarray] = []
        with _opened(path, place) as group:
            for position in places:
                whose = f"{path}: {quoted(ids.labels[position])}"
                vector = _vector(group[names[position]], whose, path, pool)
                if not vectors:  # memory for all vectors and for the result
                    purpose = f"Reading {len(places)} × {len(vector)} features of {path}"
                    packed.check_decoded(path, 2 * len(places) * vector.nbytes, purpose)
                elif len(vector) != len(vectors[0]):
                    first = f"{quoted(ids.labels[places[0]])} has {len(vectors[0])}"
                    raise DataFileError(
                        f"{whose} has {len(vector)} features, but {first}: all must have as many."
                    )
                vectors.append(vector)
        return np.stack(vectors)

    return FeatureFile(path, len(names), ids, None, rows)


def _own_ids(items: Sequence[Any], path: Path) -> list[Any]:
    """Return the ids in an attribute of each item of an HDF5 file."""
    if any(_has_any_length(item.attrs.get_id(_OWN_ID).dtype) for item in items):
        return list(_texts_of_any_length(items, path, _OWN_ID))
    return [item.attrs[_OWN_ID] for item in items]


def _vector(array: Any, whose: str, path: Path, pool: str | None) -> np.ndarray:
    """Return the features of one id; raise if there are several rows and they are not pooled."""
    if not _is_array(array):
        raise DataFileError(f"{whose} is a group and no array.")
    shape = _shape(array)
    _check_shape(shape, np.dtype(array.dtype), whose, of_one=True)
    if len(shape) == 2 and shape[0] > 1 and pool is None:
        raise DataFileError(
            Message(
                "{whose} has an array of shape {shape}, several rows for one id: "
                '[pool="mean" (on the command line FILE::pool=mean)|FILE::pool=mean] takes their '
                "mean.",
                whose=whose,
                shape=shape,
            )
        )
    n_bytes = math.prod(shape) * np.dtype(array.dtype).itemsize
    packed.check_decoded(path, n_bytes, f"Reading {whose}")
    rows = np.asarray(array[:])
    if rows.ndim == 1:
        vector = rows
    else:
        vector = rows.mean(axis=0, dtype=np.float64)
    return np.asarray(vector, dtype=kept_dtype(rows.dtype))


def _is_array(node: Any) -> bool:
    """Return whether a part of an archive is an array, not a group."""
    return hasattr(node, "shape")


def _shape(array: Any) -> tuple[int, ...]:
    """Return the shape of an array; () for an empty array of HDF5."""
    return tuple(map(int, array.shape or ()))


def _check_shape(
    shape: tuple[int, ...], dtype: np.dtype[Any], whose: str, *, of_one: bool = False
) -> None:
    """Raise if an array is empty, or is no matrix of numbers; with `of_one`, a vector is allowed too."""
    check_numbers(dtype, whose)
    dimensions: tuple[int, ...] = (2,)
    expected = "a row of features for each id"
    if of_one:
        dimensions = (1, 2)
        expected = "a vector of features"
    if len(shape) not in dimensions or 0 in shape:
        raise DataFileError(f"{whose} has an array of shape {shape}: expected {expected}.")


def open_frame(path: Path, key: str | None, row_ids: Any) -> FeatureFile:
    """Open a parquet file of features.

    Parameters
    ----------
    path : Path
    key : str or None
        The column of vectors; None looks for it, and takes all columns of numbers if there is none.
    row_ids : str, path, sequence of ids or None
        The column of ids, or as in `ids_beside`; None takes the index that pandas wrote, else the
        first column of text, else the first column if it has whole numbers.
    """
    id_column = None
    labels = None
    with open_parquet(path) as file:
        n = file.n
        kinds = file.kinds
        index = file.index
        if not n:
            raise DataFileError(f"{path} holds no rows.")
        if row_ids is None or (isinstance(row_ids, str) and row_ids in kinds):
            id_column = row_ids or file.id_column
            if id_column is None:
                raise DataFileError(
                    f"{path} has no ids, expected in a column of text or the first column; found "
                    f"{shown([*kinds])}."
                )
            labels = file.lists([id_column])[id_column]
    # An index that is not used for ids, such as row numbers, is no feature.
    kinds = {name: kind for name, kind in kinds.items() if name not in (id_column, *index)}
    names = _feature_columns(kinds, key, path)
    odd = [name for name in names if kinds[name] not in ("number", "whole", "vectors")]
    if odd and row_ids is None and key is None:
        return FeatureFile.of_table(path, read_cells(path).table())
    if odd:
        raise DataFileError(
            f"{path} has the columns {shown(odd)}, which are no numbers: expected features."
        )
    title = None if id_column == PANDAS else id_column
    if labels is None:
        ids = ids_beside(path, row_ids, n)
    else:
        ids = ids_of(labels, n, str(path), title)
    columns = None
    if kinds[names[0]] != "vectors":
        columns = make_ids(names, None, f"The columns of {path}")
    return FeatureFile(path, n, ids, columns, partial(_rows, path, names))


def _feature_columns(kinds: dict[str, str], key: str | None, path: Path) -> list[str]:
    """Return the columns of features: the requested column, the column of vectors, or all."""
    if key is not None:
        if key not in kinds:
            raise DataFileError(f"{path} has no column {key!r}: its columns are {shown([*kinds])}.")
        return [key]
    vectors = [name for name, kind in kinds.items() if kind == "vectors"]
    if len(vectors) > 1:
        raise DataFileError(
            Message(
                "{path} has vectors in {n_vectors} columns, {choice}.",
                path=path,
                n_vectors=len(vectors),
                choice=_choose(path, vectors),
            )
        )
    if not kinds:
        raise DataFileError(f"{path} has ids and no features.")
    return vectors or [*kinds]


def _rows(path: Path, names: list[str], places: np.ndarray) -> np.ndarray:
    """Return some rows of a parquet file, reading the row groups that hold them."""
    with open_parquet(path) as file:
        sizes = file.sizes(names)
        d = sum(count for count, _ in sizes) // file.n
        # A row group is in memory as arrow and as numpy arrays.
        n_bytes = 2 * max(size for _, size in sizes)
        blocks = Blocks(lambda first, end: file.rows(names, first, end), path, d, n_bytes)
        return blocks.gather(places, np.searchsorted(file.starts, places, side="right"))


#: Endings of files that features are read from, by their ids.
ENDINGS = (".csv", ".tsv", ".txt", ".npy", *CONTAINERS, ".parquet")

# Arrays of a sparse matrix that scipy wrote.
_SPARSE = {"data", "shape", "format"}


def open_features(
    path: Path, key: str | None = None, row_ids: Any = None, pool: str | None = None
) -> FeatureFile:
    """Open a file of features; a file with an unknown ending is read as text.

    Parameters
    ----------
    path : Path
    key : str or None
        Part of the file: a data set or group, an array, a column of vectors.
    row_ids : str, path, sequence of ids or None
        Ids, or their place, if it is not the default.
    pool : {"mean"} or None
        Pooling of several rows for one id.
    """
    packed.check_file(path)
    ending = suffix_of(path)
    if row_ids is not None and not isinstance(row_ids, str | os.PathLike):
        row_ids = listed(row_ids, "row_ids")
    if pool is not None and (pool != "mean" or ending not in CONTAINERS):
        raise ValueError(
            f"pool must be 'mean', and is for files with one array for each id "
            f"({', '.join(CONTAINERS)}); found {pool!r} for {path}."
        )
    matrix = _sparse_matrix(path) if ending == ".npz" else None
    if matrix is not None:
        ids = ids_beside(path, row_ids, matrix.shape[0])
        return FeatureFile.of_table(path, Table(matrix, ids))
    if ending in CONTAINERS:
        return open_container(path, key, row_ids, pool)
    if ending == ".parquet":
        return open_frame(path, key, row_ids)
    if key is not None:
        raise ValueError(
            Message("{path} holds one table: leave [key={key!r}|::{key}] out.", path=path, key=key)
        )
    if ending == ".npy":
        return open_npy(path, row_ids)
    if row_ids is not None:
        raise ValueError(
            Message(
                "{path} has its ids in its first column: leave [row_ids|::row_ids=] out.", path=path
            )
        )
    return FeatureFile.of_table(path, read_cells(path).table())


def _sparse_matrix(path: Path) -> Any:
    """Return the sparse matrix in a numpy archive; None if it holds none."""
    with packed.reading(path, "npz archive"), packed.open_archive(path) as members:
        if not set(members) >= _SPARSE:
            return None
    arrays = packed.read_arrays(path)
    with packed.reading(path, "sparse matrix"):
        m, p = (int(length) for length in arrays["shape"])
        return packed.make_sparse(arrays, (m, p), id_text(arrays["format"].item()))

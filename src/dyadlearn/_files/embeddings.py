"""Files of features: their ids are read when they are opened, their rows when they are asked for.

npy files are mapped into memory. Archives (npz and HDF5) are read alike: either one matrix has all features, with its
ids in an array beside it, or every id has an array of its own. Names and the shapes of a few arrays decide which of the
two it is. Nothing is read of an HDF5 file that does not lie in the file itself. Of a parquet file, the ids are read
first and then the row groups that hold what is wanted; features stand in columns of numbers, or as vectors in a
column of lists.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from dyadlearn._files.packed import (
    UNPACKED_LIMIT,
    check_decoded,
    check_file,
    check_unpacked,
    imported,
    is_gzipped,
    read_arrays,
    read_header,
    read_member,
    read_text,
    reading,
)
from dyadlearn._files.tables import (
    ARRAYS,
    PANDAS,
    check_whole,
    load_table,
    open_parquet,
    read_cells,
    suffix_of,
)
from dyadlearn._tables import Ids, Table, id_text, make_ids, shown, text_ids
from dyadlearn.exceptions import DataFileError, IdError

#: What stands, after the name of a file of features, in that of a file with its ids.
BESIDE = (".ids.txt", ".ids.csv", ".ids.tsv")

# How many bytes are read at once where a file has no blocks of its own.
_SPAN = 2**22


@dataclass(frozen=True)
class FeatureFile:
    """A file of features that was opened.

    Attributes
    ----------
    path : Path
    n : int
        The number of its rows.
    ids : Ids or None
        Of the rows; None where it has none.
    columns : Ids or None
        What the features are called.
    rows : callable
        Takes an integer array of shape (k,) and returns those rows (k, d), in this order, reading no others.
    is_whole : bool, default=False
        Whether the file had to be read as a whole anyway.
    """

    path: Path
    n: int
    ids: Ids | None
    columns: Ids | None
    rows: Callable[[np.ndarray], Any]
    is_whole: bool = False

    @classmethod
    def of_table(cls, path: Path, table: Table) -> FeatureFile:
        """Return a file that had to be read as a whole."""
        n = int(table.values.shape[0])
        return cls(path, n, table.row_ids, table.column_ids, lambda places: table.take(places).values, is_whole=True)

    def places(self, wanted: Sequence[Hashable], of: str) -> np.ndarray:
        """Return where some ids stand, compared as text; those that do not are counted, and a few of them named.

        Parameters
        ----------
        wanted : sequence of ids
        of : str
            What they are the ids of, for messages.
        """
        if self.ids is None:
            raise self.without_ids
        where = {id_text(label): place for place, label in enumerate(self.ids.labels)}
        lacking = [label for label in wanted if id_text(label) not in where]
        if lacking:
            raise IdError(
                f"{len(lacking)} of the {len(wanted)} {of} that are asked for are not in {self.path}, whose ids are "
                f"such as {shown(self.ids.labels[:3])}: {shown(lacking)}."
            )
        return np.array([where[id_text(label)] for label in wanted], dtype=np.intp)

    @property
    def without_ids(self) -> IdError:
        """The error of a file that must have ids and has none."""
        return IdError(
            f"{self.path} has no ids: write them into {_beside(self.path, BESIDE[0]).name} beside it, one a line in "
            "the order of its rows, or name them by row_ids=."
        )

    def only(self, wanted: Sequence[Hashable], of: str) -> FeatureFile:
        """Return the file as if it had no rows but those of some ids, in this order; `of` is as in `places`."""
        own = self.places(wanted_ids(wanted, None, f"The list of {of}").labels, of)
        assert self.ids is not None
        return replace(self, n=len(own), ids=self.ids.take(own), rows=lambda places: self.rows(own[places]))

    def take(self, places: np.ndarray | None = None) -> Table:
        """Return some rows with their ids, in this order, as they are; None for all."""
        values = self.rows(np.arange(self.n) if places is None else places)
        ids = self.ids if self.ids is None or places is None else self.ids.take(places)
        return Table(values, ids, self.columns)

    def read(self, places: np.ndarray | None = None) -> Table:
        """Return some rows with their ids, in this order; None for all. Missing and infinite values are refused."""
        table = self.take(places)
        check_whole(table, self.path)
        return table


def kept_dtype(*dtypes: Any) -> Any:
    """Return the precision that values of some types are kept in: single where they have no more, else double."""
    few = all(np.dtype(each).kind == "f" and np.dtype(each).itemsize <= 4 for each in dtypes)
    return np.float32 if few else np.float64


def check_numbers(dtype: np.dtype[Any], whose: str) -> None:
    """Refuse values that are no numbers, Python objects above all: those are never unpickled."""
    if dtype.hasobject:
        raise DataFileError(
            f"{whose} holds objects of Python or arrays of different lengths, which are not read: write numbers of one "
            "type, or text as numpy's str."
        )
    if dtype.kind not in "biuf":
        raise DataFileError(f"{whose} holds values of type {dtype}: expected numbers.")


def gather(
    read: Callable[[int, int], np.ndarray],
    places: np.ndarray,
    starts: np.ndarray,
    path: Path,
    d: int,
    *,
    itemsize: int = 8,
    held: Callable[[int, int], int] = lambda first, end: 0,
) -> np.ndarray:
    """Return some rows (k, d) of a file that is read in spans of rows, after checking that there is memory for them.

    Parameters
    ----------
    read : callable
        Takes the first row and the one after the last, and returns those rows.
    places : integer array of shape (k,)
        Which rows, in this order.
    starts : integer array
        Where the blocks of the file begin. No span leaves its block, and none is touched twice, or at all where no row
        of it is wanted.
    path : Path
        For messages.
    d : int
        How many features a row has.
    itemsize : int, default=8
        The bytes of a feature.
    held : callable
        Takes what `read` takes, and returns the bytes that this takes while it is read.
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    cuts = np.flatnonzero(np.diff(np.searchsorted(starts, ordered, side="right"))) + 1
    parts = np.split(np.arange(len(places)), cuts)
    spans = [(int(ordered[part[0]]), int(ordered[part[-1]]) + 1) for part in parts]
    # The result, the rows of a part in their order, and what is held of the file meanwhile.
    need = itemsize * (len(places) + max(map(len, parts))) * d + max(held(*span) for span in spans)
    check_decoded(path, need, f"Reading {len(places)} × {d} features of {path}")
    values = np.empty((0, d))
    for part, (first, end) in zip(parts, spans, strict=True):
        rows = read(first, end)
        if not values.size:
            values = np.empty((len(places), d), dtype=kept_dtype(rows.dtype))
        if rows.shape[1] != d:
            raise DataFileError(f"{path} has rows of {d} and of {rows.shape[1]} features.")
        values[order[part]] = rows[ordered[part] - first]
    return values


# Ids -----------------------------------------------------------------------------------------------


def listed(ids: Any, name: str) -> list[Any]:
    """Return ids that came in a list, an array, an index or a series; `name` is how messages call them."""
    # Every library has numbers of its own, and those of Python are what ids are.
    plain = next((getattr(ids, verb) for verb in ("tolist", "to_list", "to_pylist") if hasattr(ids, verb)), None)
    is_table = isinstance(ids, str | bytes | Mapping) or hasattr(ids, "columns") or getattr(ids, "ndim", 1) != 1
    if is_table or (plain is None and not isinstance(ids, Iterable)):
        raise TypeError(f"{name} must be a list of ids, such as labels.index, found {type(ids).__name__}.")
    labels = list(ids) if plain is None else list(plain())
    for label in labels:
        if not isinstance(label, Hashable):
            raise TypeError(f"{name} must be a list of texts or whole numbers, found {label!r} in it.")
    return labels


def wanted_ids(labels: Sequence[Any], name: str | None, owner: str) -> Ids:
    """Return ids that are asked for, after checking that none repeats, as 7 and "7" do.

    Parameters
    ----------
    labels : sequence of ids
    name : str or None
        The heading that they have.
    owner : str
        How messages call their list.
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
        Where they come from, for messages.
    name : str or None
        The heading that they have.
    """
    if len(labels) != n:
        raise DataFileError(f"{owner} has {len(labels)} ids, but there are {n} rows of features: give each row one.")
    with reading(owner, "list of ids"):
        texts = [label if isinstance(label, int) else id_text(label) for label in labels]
    if any(isinstance(label, float) and label == label for label in labels):
        raise DataFileError(f"{owner} has numbers with a point for ids: ids are text or whole numbers.")
    found = make_ids(texts, name, owner)
    text_ids(found, f"The rows of {owner}")  # refuses 1 and "1", between which nobody could choose
    return found


def read_ids(path: Path) -> list[Any]:
    """Read a file of ids: one a line, or the first column of a table with headings, or an array of text."""
    if suffix_of(path) in ARRAYS:
        found = read_arrays(path, "array of ids")
        if len(found) != 1 or next(iter(found.values())).ndim != 1:
            raise DataFileError(f"{path} must hold one list of ids.")
        return list(next(iter(found.values())).tolist())
    if suffix_of(path) in (".csv", ".tsv", ".parquet"):
        cells = read_cells(path)
        return cells.labels(cells.id_place)
    return list(read_text(path, "list of ids").rstrip().splitlines())


def ids_beside(path: Path, row_ids: Any, n: int) -> Ids | None:
    """Return the ids of a file of n rows that holds none: those given, those of a file that is named or lies beside it.

    Parameters
    ----------
    path : Path
    row_ids : sequence of ids, path or None
        A path is looked for where it says, then beside the file. None looks for the file that by custom has them.
    n : int
    """
    if row_ids is not None and not isinstance(row_ids, str | os.PathLike):
        return ids_of(listed(row_ids, "row_ids"), n, "row_ids=")
    named = [_beside(path, end) for end in BESIDE] if row_ids is None else [Path(row_ids), path.parent / row_ids]
    found = next((each for each in named if each.is_file()), None)
    if found is None and row_ids is not None:
        raise DataFileError(f"{named[0]} is neither a file of ids, one a line, nor a part of {path}.")
    return None if found is None else ids_of(read_ids(found), n, str(found))


def _beside(path: Path, ending: str) -> Path:
    """Return the file that by custom has the ids of another, with one of the endings of those."""
    bare = Path(path.name.removesuffix(".gz"))
    return path.with_name(bare.stem + ending)


def open_npy(path: Path, row_ids: Any) -> FeatureFile:
    """Open an array (n, d); its ids are in a file beside it, if anywhere."""
    with reading(path, "array of numpy"), open(path, "rb") as file:
        mapped = _mapped(path, file, path.stat().st_size)
    if mapped.ndim != 2 or not mapped.size:
        raise DataFileError(f"{path} has an array of shape {mapped.shape}: expected a row of features for each id.")
    ids = ids_beside(path, row_ids, mapped.shape[0])
    return FeatureFile(path, mapped.shape[0], ids, None, partial(_matrix_rows, mapped, path))


def _matrix_rows(array: Any, path: Path, places: np.ndarray) -> np.ndarray:
    """Return some rows of an array (n, d) that is in a file, reading the chunks that hold them."""
    n, d = array.shape
    row, chunks = d * np.dtype(array.dtype).itemsize, getattr(array, "chunks", None)
    return gather(
        lambda first, end: array[first:end],
        places,
        np.arange(0, n, chunks[0] if chunks else max(1, _SPAN // row)),
        path,
        d,
        itemsize=np.dtype(kept_dtype(array.dtype)).itemsize,
        held=lambda first, end: row * (end - first),
    )


def _mapped(path: Path, file: IO[bytes], length: int) -> np.ndarray:
    """Return the array that begins where a file stands, mapped into memory: what is not looked at is not read."""
    shape, by_columns, dtype = read_header(file, length)
    check_numbers(dtype, str(path))
    if 0 in shape or not shape:
        return np.empty(shape, dtype=dtype)
    mapped: np.ndarray = np.memmap(path, dtype, "r", file.tell(), shape, "F" if by_columns else "C")
    return mapped


@contextmanager
def open_archive(path: Path) -> Iterator[dict[str, Member]]:
    """Open an npz archive; of its arrays no more than the list is read."""
    with ZipFile(path) as archive:
        yield {each.filename.removesuffix(".npy"): Member(path, archive, each) for each in archive.infolist()}


class Member:
    """An array in an archive: its header is read at first, its values when they are asked for."""

    def __init__(self, path: Path, archive: ZipFile, info: ZipInfo) -> None:
        self._path, self._archive, self._info = path, archive, info

    @cached_property
    def _header(self) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        with self._archive.open(self._info) as content:
            return read_header(content, self._info.file_size)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self._header[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of its values."""
        return self._header[2]

    @property
    def _is_mapped(self) -> bool:
        return self._info.compress_type == ZIP_STORED and self.dtype.kind in "biuf"

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """The shape of what is read at once; None where any rows can be."""
        return None if self._is_mapped else self.shape

    def __getitem__(self, rows: slice) -> np.ndarray:
        if not self._is_mapped:
            check_unpacked(self._path, self._info.file_size)
            return np.asarray(read_member(self._archive, self._info)[rows])
        with open(self._path, "rb") as file:
            # The name and the extra field before the content need not be as long as in the list at the end.
            file.seek(self._info.header_offset + 26)
            skipped = struct.unpack("<HH", file.read(4))
            file.seek(sum(skipped), 1)
            return np.asarray(_mapped(self._path, file, self._info.file_size)[rows])


@contextmanager
def open_hdf5(path: Path) -> Iterator[Group]:
    """Open an HDF5 file for reading."""
    with imported("h5py", "Reading HDF5 files", "h5py").File(path, "r") as file:
        yield Group(file, path)


class Group:
    """A group of an HDF5 file that follows no links, since those of h5py may lead to other files.

    Parameters
    ----------
    group : h5py.Group
    path : Path
        Of the file, for messages.
    """

    def __init__(self, group: Any, path: Path) -> None:
        self._group, self._path = group, path

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __contains__(self, name: str) -> bool:
        try:
            self[name]
        except KeyError:
            return False
        return True

    def __getitem__(self, name: str) -> Any:
        """Return a group, or a data set of h5py, which has its values in the file."""
        from h5py import h5l

        item, fault = self._group.file["/"] if name.startswith("/") else self._group, ""
        for part in filter(None, name.split("/")):
            encoded = part.encode("utf-8", "surrogateescape")
            if not hasattr(item, "keys") or not item.id.links.exists(encoded):
                raise KeyError(name)
            if item.id.links.get_info(encoded).type != h5l.TYPE_HARD:
                fault = "is a link to another place or file"
                break
            item = item[part]
        if hasattr(item, "shape") and (item.external or item.is_virtual):
            fault = "has its values in other files or data sets"
        if fault:
            raise DataFileError(
                f"{self._path}: {name!r} {fault}, which is never followed: copy the values into this file."
            )
        return Group(item, self._path) if hasattr(item, "keys") else item


#: What the array of ids beside a matrix may be called, and that of the names of its columns.
IDS, COLUMNS = ("ids", "rows", "index"), "columns"

# Where bio_embeddings keeps the id of an array whose own name is a number.
_OWN_ID = "original_id"

# Among more arrays than these none is looked for that is the only matrix.
_FEW = 20


#: What such a file is called, and how it is opened, by its ending.
CONTAINERS: dict[str, tuple[str, Callable[[Path], AbstractContextManager[Any]]]] = {
    ".npz": ("npz archive", open_archive),
    ".h5": ("HDF5 file", open_hdf5),
    ".hdf5": ("HDF5 file", open_hdf5),
}


class Container:
    """An archive of arrays: a matrix of features, or a group of one array for each id.

    Parameters
    ----------
    path : Path
    row_ids : str, path, sequence of ids or None
        The array of the ids by its name, or what `ids_beside` takes.
    pool : {"mean"} or None
        What becomes of arrays with several rows for one id.
    """

    def __init__(self, path: Path, row_ids: Any, pool: str | None) -> None:
        self._path, self._row_ids, self._pool = path, row_ids, pool
        # Where the features are: the names that lead to the matrix or the group, and those of the arrays in the group.
        self._place: tuple[str, ...] = ()
        self._names: list[str] = []
        self._labels: list[Any] | None = None
        self._columns: list[Any] | None = None

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        what, opening = CONTAINERS[suffix_of(self._path)]
        with reading(self._path, what), opening(self._path) as node:
            for name in self._place:
                node = node[name]
            yield node

    def open(self, key: str | None) -> FeatureFile:
        """Find the features, in what a key such as ``group/data`` names or, for None, wherever they are."""
        path, row_ids, columns = self._path, self._row_ids, None
        with self._opened() as root:
            shape = self._find(root, key)
        n = shape[0]
        if self._names and row_ids is not None:
            raise ValueError(f"{path} has an array for each id, which it is named by: leave row_ids out.")
        if self._columns is not None:
            if len(self._columns) != shape[1]:
                raise DataFileError(f"{path} names {len(self._columns)} columns, but its matrix has {shape[1]}.")
            columns = make_ids([id_text(label) for label in self._columns], None, f"columns of {path}")
        ids = ids_beside(path, row_ids, n) if self._labels is None else ids_of(self._labels, n, str(path))
        return FeatureFile(path, n, ids, columns, self._read_one_each if self._names else self._read_matrix)

    # Looking for the features

    def _find(self, root: Any, key: str | None) -> tuple[int, ...]:
        """Look for the features and return their shape, or the number of arrays."""
        names = tuple(part for part in (key or "").split("/") if part)
        if names and names[0] not in root and key in root:  # names in numpy's archives may have a slash
            names = (str(key),)
        within = node = root
        for place, name in enumerate(names):
            within, node = node, node[name] if not _is_array(node) and name in node else None
            if node is None:
                has = "" if _is_array(within) else f": it has {shown(sorted(within))}"
                raise DataFileError(f"{self._path} has no {'/'.join(names[: place + 1])!r}{has}.")
        return self._find_matrix(node, names, within) if _is_array(node) else self._find_in_group(node, names)

    def _find_in_group(self, group: Any, place: tuple[str, ...]) -> tuple[int, ...]:
        names = sorted(group)
        beside = [name for name in (self._row_ids, *IDS) if isinstance(name, str) and name in names]
        others = [name for name in names if name not in (*beside, COLUMNS)]
        if not others:
            raise DataFileError(f"{self._path} holds no features.")
        first = group[others[0]]
        if len(others) == 1 and not _is_array(first):
            return self._find_in_group(first, (*place, others[0]))
        if matrix := self._matrix_among(group, others, bool(beside)):
            return self._find_matrix(group[matrix], (*place, matrix), group)
        if beside or not _is_array(first):
            raise DataFileError(
                f"{self._path} holds {len(others)} arrays or groups, {shown(others)}: say by key= (on the command line "
                f"{self._path.name}::{others[0]}) which has the features."
            )
        self._place, self._names, self._labels = place, others, list(others)
        if _OWN_ID in getattr(first, "attrs", ()):
            self._labels = [group[name].attrs[_OWN_ID] for name in others]
        return (len(others),)

    def _matrix_among(self, group: Any, names: list[str], has_ids: bool) -> str | None:
        """Return which of the arrays holds all features; None where each is one of many."""
        if has_ids and len(names) == 1:
            return names[0]
        # Very many are one for each id, and are not opened to see that; so are all of which the rows are to be pooled.
        if self._pool is not None or (len(names) > _FEW and not has_ids):
            return None
        shapes = {name: _shape(item) for name in names if _is_array(item := group[name])}
        matrices = [name for name, shape in shapes.items() if len(shape) == 2 and (shape[0] > 1 or len(names) == 1)]
        return matrices[0] if len(matrices) == 1 else None

    def _find_matrix(self, array: Any, place: tuple[str, ...], group: Any) -> tuple[int, ...]:
        where = f"{self._path}: {'/'.join(place)!r}"
        shape = _check_array(array, where)
        if len(shape) != 2:
            raise DataFileError(f"{where} has an array of shape {shape}: expected a row of features for each id.")
        if self._pool is not None:
            raise DataFileError(f"{where} has one row for each id: pool= is for files with several.")
        names = IDS if self._row_ids is None else (self._row_ids,)
        ids = next((str(name) for name in names if isinstance(name, str | os.PathLike) and str(name) in group), None)
        self._place = place
        self._labels = self._texts(group, ids) if ids is not None and ids != place[-1] else None
        self._columns = self._texts(group, COLUMNS) if COLUMNS in group and place[-1] != COLUMNS else None
        return shape

    def _texts(self, group: Any, name: str) -> list[Any]:
        array = group[name]
        if not _is_array(array) or len(_shape(array)) != 1:
            raise DataFileError(f"{self._path}: {name!r} must be a list of names.")
        dtype = np.dtype(array.dtype)
        if dtype.kind not in "OSUTiu":
            raise DataFileError(f"{self._path}: {name!r} holds values of type {array.dtype}, which are no names.")
        if not dtype.hasobject:
            check_decoded(self._path, array.shape[0] * dtype.itemsize, f"Reading {name!r} of {self._path}")
            return list(array[:].tolist())
        if (dtype.metadata or {}).get("vlen") not in (str, bytes):
            check_numbers(dtype, f"{self._path}: {name!r}")
        # In HDF5, text of any length, of which many may be the same one in the file. A few take no more than many times
        # the file.
        step = max(256, UNPACKED_LIMIT // max(1, check_file(self._path)))
        texts: list[Any] = []
        size = 0
        for first in range(0, array.shape[0], step):
            texts.extend(array[first : first + step].tolist())
            size += sum(map(len, texts[first:]))
            check_unpacked(self._path, size)
        return texts

    # Reading them

    def _read_matrix(self, places: np.ndarray) -> np.ndarray:
        with self._opened() as array:
            return _matrix_rows(array, self._path, places)

    def _read_one_each(self, places: np.ndarray) -> np.ndarray:
        """Return the vectors of some ids, each from an array of its own; the other arrays are not opened."""
        vectors: list[np.ndarray] = []
        assert self._labels is not None
        with self._opened() as group:
            for at in places:
                whose = f"{self._path}: {self._labels[at]!r}"
                vector = self._vector(group[self._names[at]], whose)
                if not vectors:  # all of them, and what is made of them
                    purpose = f"Reading {len(places)} × {len(vector)} features of {self._path}"
                    check_decoded(self._path, 2 * len(places) * vector.nbytes, purpose)
                elif len(vector) != len(vectors[0]):
                    raise DataFileError(
                        f"{whose} has {len(vector)} features, but {self._labels[places[0]]!r} has {len(vectors[0])}: "
                        "all must have as many."
                    )
                vectors.append(vector)
        return np.stack(vectors)

    def _vector(self, array: Any, whose: str) -> np.ndarray:
        if not _is_array(array):
            raise DataFileError(f"{whose} is a group and no array.")
        shape = _check_array(array, whose)
        if len(shape) not in (1, 2):
            raise DataFileError(f"{whose} has an array of shape {shape}: expected a vector of features.")
        if len(shape) == 2 and shape[0] > 1 and self._pool is None:
            raise DataFileError(
                f"{whose} has an array of shape {shape}, several rows for one id, such as one for each residue: "
                'pool="mean" (on the command line FILE::pool=mean) takes their mean.'
            )
        check_decoded(self._path, math.prod(shape) * np.dtype(array.dtype).itemsize, f"Reading {whose}")
        rows = np.asarray(array[:])
        vector = rows if rows.ndim == 1 else rows.mean(axis=0, dtype=np.float64)
        return np.asarray(vector, dtype=kept_dtype(rows.dtype))


def _is_array(node: Any) -> bool:
    return hasattr(node, "shape")


def _shape(array: Any) -> tuple[int, ...]:
    """Return the shape of an array; those of HDF5 that hold nothing have none."""
    return tuple(map(int, array.shape or ()))


def _check_array(array: Any, whose: str) -> tuple[int, ...]:
    """Return the shape of an array after checking that it holds numbers; () where it holds nothing."""
    check_numbers(np.dtype(array.dtype), whose)
    shape = _shape(array)
    if 0 in shape:
        raise DataFileError(f"{whose} has an array of shape {shape}: expected a row of features for each id.")
    return shape


def open_frame(path: Path, key: str | None, row_ids: Any) -> FeatureFile:
    """Open a parquet file of features.

    Parameters
    ----------
    path : Path
    key : str or None
        The column of vectors; None looks for it, and takes all numbers where there is none.
    row_ids : str, path, sequence of ids or None
        The column of the ids, or what `ids_beside` takes; None takes the index that pandas wrote, or else the first
        column of text, or else of whole numbers if it is the first of all.
    """
    own, labels = None, None
    with open_parquet(path) as file:
        n, kinds, index = file.n, file.kinds, file.index
        if not n:
            raise DataFileError(f"{path} holds no rows.")
        if row_ids is None or (isinstance(row_ids, str) and row_ids in kinds):
            own = row_ids or file.id_column
            if own is None:
                raise DataFileError(
                    f"{path} has no column of ids: expected text, or whole numbers in the first column; found "
                    f"{shown([*kinds])}."
                )
            labels = file.lists([own])[own]
    # An index that is nobody's ids, such as numbers of rows, is no feature either.
    kinds = {name: kind for name, kind in kinds.items() if name not in (own, *index)}
    names = _feature_columns(kinds, key, path)
    odd = [name for name in names if kinds[name] not in ("number", "whole", "vectors")]
    if odd and row_ids is None and key is None:
        return FeatureFile.of_table(path, load_table(path))
    if odd:
        raise DataFileError(f"{path} has the columns {shown(odd)}, which are no numbers: expected features.")
    title = None if own == PANDAS else own
    ids = ids_beside(path, row_ids, n) if labels is None else ids_of(labels, n, str(path), title)
    is_vectors = kinds[names[0]] == "vectors"
    columns = None if is_vectors else make_ids(names, None, f"The columns of {path}")
    return FeatureFile(path, n, ids, columns, partial(_rows, path, names))


def _feature_columns(kinds: dict[str, str], key: str | None, path: Path) -> list[str]:
    """Return which columns are the features: the one that is asked for or has vectors, else all."""
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
    if not kinds:
        raise DataFileError(f"{path} has ids and no features.")
    return vectors or [*kinds]


def _rows(path: Path, names: list[str], places: np.ndarray) -> np.ndarray:
    with open_parquet(path) as file:
        # A row group is there as arrow and as numpy has it.
        return gather(
            lambda first, end: file.rows(names, first, end),
            places,
            file.starts,
            path,
            file.width(names),
            held=lambda first, end: 2 * file.group_bytes(names, first),
        )


#: Endings of files that features are read from, by their ids.
ENDINGS = (".csv", ".tsv", ".txt", ".npy", *CONTAINERS, ".parquet")

#: What can become of several rows for one id.
POOLS = ("mean",)

# Of scipy's sparse matrices in an archive.
_SPARSE = {"data", "shape", "format"}


def open_features(path: Path, key: str | None = None, row_ids: Any = None, pool: str | None = None) -> FeatureFile:
    """Open a file of features; what has none of the known endings is read as a text.

    Parameters
    ----------
    path : Path
    key : str or None
        Which part of the file: a data set or group, an array, a column of vectors.
    row_ids : str, path, sequence of ids or None
        Where the ids are, if not where they usually are.
    pool : {"mean"} or None
        What becomes of several rows for one id.
    """
    check_file(path)
    ending = suffix_of(path)
    if pool is not None and (pool not in POOLS or ending not in CONTAINERS):
        raise ValueError(
            f"pool must be {POOLS[0]!r}, and is for files with one array for each id ({', '.join(CONTAINERS)}); found "
            f"{pool!r} for {path}."
        )
    if ending in CONTAINERS and not _is_whole(path, ending):
        return Container(path, row_ids, pool).open(key)
    if ending == ".parquet":
        return open_frame(path, key, row_ids)
    if key is not None:
        raise ValueError(f"{path} holds one table: leave key={key!r} out.")
    if ending == ".npy" and not is_gzipped(path):
        return open_npy(path, row_ids)
    table = load_table(path)
    if row_ids is not None and ending not in ARRAYS:
        raise ValueError(f"{path} has its ids in its first column: leave row_ids out.")
    found = FeatureFile.of_table(path, table)
    return found if found.ids is not None else replace(found, ids=ids_beside(path, row_ids, found.n))


def _is_whole(path: Path, ending: str) -> bool:
    """Tell whether an archive of numpy can only be read whole: it is gzipped, or a sparse matrix."""
    if ending != ".npz":
        return False
    if is_gzipped(path):
        return True
    with reading(path, "npz archive"), open_archive(path) as members:
        return set(members) >= _SPARSE

"""What a file of features is once it was opened: its ids are known, its rows are read when they are asked for.

Files of numpy: an array that is mapped into memory, and archives of which single arrays are read.

HDF5 files, of which nothing is read that does not lie in the file itself.

Archives of many arrays: npz and HDF5, which are looked into alike.

Either one matrix has all features, with its ids in an array beside it, or every id has an array of its own. Which of
the two it is shows from the names, and from the shapes of a few arrays: no values are read before they are asked for.

Features in parquet files, of which the ids are read first and then the row groups that hold what is wanted.

Features stand in columns of numbers, or as vectors in a column of lists.

Which reader a file of features has: its ending tells.
"""

from __future__ import annotations

import math
import os
import struct
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile, ZipInfo

import numpy as np

from dyadlearn._array import is_sparse
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
    check_whole,
    id_text,
    index_with_ids,
    load_table,
    open_parquet,
    read_cells,
    suffix_of,
    text_ids,
)
from dyadlearn._memory import check_memory
from dyadlearn._tables import Ids, Table, make_ids, shown
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
        check_features(table, self.path)
        return table


def check_features(table: Table, path: Path) -> None:
    """Refuse features that are missing or infinite, naming the first row that has one."""
    check_whole(table, path)
    if is_sparse(table.values) or np.isfinite(table.values).all():
        return
    row, ids = int(np.argwhere(np.isinf(table.values))[0][0]), table.row_ids
    raise DataFileError(f"{path}, row {row + 1 if ids is None else repr(ids.labels[row])}: infinity is no value.")


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


def blocks_of(n: int, step: int | None, row_bytes: int) -> np.ndarray:
    """Return where the blocks of n rows begin: every `step` rows, or as many as make a few megabytes."""
    return np.arange(0, n, step or max(1, _SPAN // max(row_bytes, 1)))


def gather(
    read: Callable[[int, int], np.ndarray],
    places: np.ndarray,
    starts: np.ndarray,
    path: Path,
    d: int,
    *,
    itemsize: int = 8,
    held: Callable[[int, int], int] | None = None,
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
        How many features a row has, as far as is known without reading one.
    itemsize : int, default=8
        The bytes of a feature.
    held : callable, default=None
        Takes what `read` takes, and returns the bytes that this takes while it is read; None where it takes none.
    """
    order = np.argsort(places, kind="stable")
    ordered = places[order]
    cuts = np.flatnonzero(np.diff(np.searchsorted(starts, ordered, side="right"))) + 1
    parts = np.split(np.arange(len(places)), cuts)
    spans = [(int(ordered[part[0]]), int(ordered[part[-1]]) + 1) for part in parts]
    # The result, the rows of a part in their order, and what is held of the file meanwhile.
    need = itemsize * (len(places) + max(map(len, parts))) * d
    need += 0 if held is None else max(held(*span) for span in spans)
    check_decoded(path, need, f"Reading {len(places)} × {d} features of {path}")
    values: np.ndarray | None = None
    for part, (first, end) in zip(parts, spans, strict=True):
        rows = read(first, end)
        if values is None:
            values = allocated((len(places), rows.shape[1]), kept_dtype(rows.dtype), path)
        if rows.shape[1] != values.shape[1]:
            raise DataFileError(f"{path} has rows of {values.shape[1]} and of {rows.shape[1]} features.")
        values[order[part]] = rows[ordered[part] - first]
    assert values is not None  # somebody is asked for
    return values


def allocated(shape: tuple[int, int], dtype: Any, path: Path) -> np.ndarray:
    """Return an array to read features into, after looking whether there is room for it."""
    check_memory(
        np.dtype(dtype).itemsize * shape[0] * shape[1],
        np.empty(0),
        f"Reading {shape[0]} × {shape[1]} features of {path}",
        "ask for fewer of its rows, by their ids",
    )
    return np.empty(shape, dtype=dtype)


# Ids -----------------------------------------------------------------------------------------------


def listed(ids: Any, name: str) -> list[Any]:
    """Return ids that came in a list, an array, an index or a series; `name` is how messages call them."""
    if isinstance(ids, str | bytes | Mapping) or hasattr(ids, "columns") or getattr(ids, "ndim", 1) != 1:
        raise TypeError(f"{name} must be a list of ids, such as labels.index, found {type(ids).__name__}.")
    # Every library has numbers of its own, and those of Python are what ids are.
    plain = next((getattr(ids, verb) for verb in ("tolist", "to_list", "to_pylist") if hasattr(ids, verb)), None)
    if plain is None and not isinstance(ids, Iterable):
        raise TypeError(f"{name} must be a list of ids, such as labels.index, found {type(ids).__name__}.")
    labels = list(ids) if plain is None else list(plain())
    for label in labels:
        if not isinstance(label, Hashable):
            raise TypeError(f"{name} must be a list of texts or whole numbers, found {label!r} in it.")
    return labels


def wanted_ids(labels: Sequence[Any], name: str | None, owner: str) -> Ids:
    """Return ids that are asked for, after checking that nobody is asked for twice, as by 7 and "7".

    Parameters
    ----------
    labels : sequence of ids
    name : str or None
        The heading that they have.
    owner : str
        How messages call their list.
    """
    texts = list(map(_as_text, labels))
    if len(set(texts)) < len(texts):
        counted = Counter(texts)
        repeated = list({text: label for text, label in zip(texts, labels, strict=True) if counted[text] > 1}.values())
        raise IdError(
            f"{owner} names {shown(repeated)} more than once ({len(repeated)} of {len(counted)} ids): name everybody "
            "once, such as by pandas.unique."
        )
    return make_ids(labels, name, owner)


def _as_text(label: Any) -> str:
    try:
        return id_text(label)
    except UnicodeDecodeError:
        raise IdError(f"The id {label!r} is no text in UTF-8: decode it first.") from None


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
    lines = read_text(path, "list of ids").splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


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
    if row_ids is None:
        found = next((each for end in BESIDE if (each := _beside(path, end)).is_file()), None)
        return None if found is None else ids_of(read_ids(found), n, str(found))
    named = Path(row_ids)
    found = next((each for each in (named, path.parent / named) if each.is_file()), None)
    if found is None:
        raise DataFileError(f"{named} is neither a file of ids, one a line, nor a part of {path}.")
    return ids_of(read_ids(found), n, str(found))


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
    n, d = mapped.shape
    starts = blocks_of(n, None, d * mapped.itemsize)
    ids = ids_beside(path, row_ids, n)
    size = np.dtype(kept_dtype(mapped.dtype)).itemsize

    def rows(places: np.ndarray) -> np.ndarray:
        return gather(lambda first, end: mapped[first:end], places, starts, path, d, itemsize=size)

    return FeatureFile(path, n, ids, None, rows)


def _mapped(path: Path, file: IO[bytes], length: int) -> np.ndarray:
    """Return the array that begins where a file stands, mapped into memory: what is not looked at is not read."""
    shape, by_columns, dtype = read_header(file, length)
    check_numbers(dtype, str(path))
    if 0 in shape or not shape:
        return np.empty(shape, dtype=dtype)
    mapped: np.ndarray = np.memmap(path, dtype, "r", file.tell(), shape, "F" if by_columns else "C")
    return mapped


@contextmanager
def open_archive(path: Path) -> Iterator[Archive]:
    """Open an npz archive; of its arrays no more than the list is read."""
    with ZipFile(path) as archive:
        yield Archive(path, archive)


class Archive(Mapping[str, "Member"]):
    """The arrays of an archive by their names; whoever asks for one has it, and lets it go."""

    def __init__(self, path: Path, archive: ZipFile) -> None:
        self._path, self._archive = path, archive
        self._infos = {each.filename.removesuffix(".npy"): each for each in archive.infolist()}

    def __getitem__(self, name: str) -> Member:
        return Member(self._path, self._archive, self._infos[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)


class Member:
    """An array in an archive, of which its header is read at first and its values when they are asked for."""

    #: It is not read in parts, unless it can be mapped.
    chunks = None

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

    @cached_property
    def _values(self) -> np.ndarray:
        if self._info.compress_type != ZIP_STORED or self.dtype.kind not in "biuf":
            check_unpacked(self._path, self._info.file_size)
            return read_member(self._archive, self._info)
        with open(self._path, "rb") as file:
            # The name and the extra field before the content need not be as long as in the list at the end.
            file.seek(self._info.header_offset + 26)
            skipped = struct.unpack("<HH", file.read(4))
            file.seek(sum(skipped), 1)
            return _mapped(self._path, file, self._info.file_size)

    def __getitem__(self, rows: Any) -> np.ndarray:
        return np.asarray(self._values[rows])


# As many soft links as HDF5 itself follows before it takes them for a circle.
_MOST_LINKS = 16


@contextmanager
def open_hdf5(path: Path) -> Iterator[Group]:
    """Open an HDF5 file for reading."""
    with imported("h5py", "Reading HDF5 files", "h5py").File(path, "r") as file:
        yield Group(file, path)


class Group:
    """A group of an HDF5 file, whose links are followed here, since those of h5py may lead to other files.

    Parameters
    ----------
    group : h5py.Group
    path : Path
        Of the file, for messages.
    """

    def __init__(self, group: Any, path: Path) -> None:
        self._group, self._path = group, path

    def keys(self) -> list[str]:
        """Return the names of what is in the group."""
        return list(self._group)

    def __contains__(self, name: str) -> bool:
        try:
            self[name]
        except KeyError:
            return False
        return True

    def __getitem__(self, name: str) -> Any:
        """Return a group, or a data set of h5py, which has its values in the file."""
        item = self._found(self._group, name, _MOST_LINKS)
        if hasattr(item, "keys"):
            return Group(item, self._path)
        if hasattr(item, "shape") and (item.external or item.is_virtual):
            raise self._foreign(name, "has its values in other files or data sets")
        return item

    def _found(self, group: Any, name: str, n_links: int) -> Any:
        from h5py import h5l

        if not n_links:
            raise DataFileError(f"{self._path}: {name!r} is a link that leads to itself: write the data in its place.")
        item = group.file["/"] if name.startswith("/") else group
        for part in name.split("/"):
            if part in ("", "."):
                continue
            within, encoded = item, part.encode("utf-8", "surrogateescape")
            if not hasattr(within, "keys") or not within.id.links.exists(encoded):
                raise KeyError(name)
            kind = within.id.links.get_info(encoded).type
            if kind not in (h5l.TYPE_HARD, h5l.TYPE_SOFT):
                raise self._foreign(name, "is a link to another file")
            if kind == h5l.TYPE_SOFT:
                target = within.id.links.get_val(encoded).decode("utf-8", "surrogateescape")
                item = self._found(within, target, n_links - 1)
            else:
                item = within[part]
        return item

    def _foreign(self, name: str, what: str) -> DataFileError:
        return DataFileError(f"{self._path}: {name!r} {what}, which is never followed: copy the values into this file.")


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


@dataclass(frozen=True)
class _Found:
    """Where the features in a file are.

    Attributes
    ----------
    place : tuple of str
        The names that lead to the matrix, or to the group of one array each.
    names : list of str or None
        Of the arrays, where there is one for each id.
    labels : list or None
        The ids, where the file has them.
    columns : list or None
        What the features are called.
    shape : tuple of int
        Of the matrix.
    """

    place: tuple[str, ...]
    names: list[str] | None
    labels: list[Any] | None
    columns: list[Any] | None = None
    shape: tuple[int, ...] = ()


def open_container(path: Path, ending: str, key: str | None, row_ids: Any, pool: str | None) -> FeatureFile:
    """Open an archive of arrays.

    Parameters
    ----------
    path : Path
    ending : str
        One of `CONTAINERS`.
    key : str or None
        The matrix or the group that holds the features, as ``group/data``; None looks for it.
    row_ids : str, path, sequence of ids or None
        The array of the ids by its name, or what `ids_beside` takes.
    pool : {"mean"} or None
        What becomes of arrays with several rows for one id.
    """
    what, opening = CONTAINERS[ending]
    opened = partial(opening, path)
    with reading(path, what), opened() as root:
        found = _Search(path, row_ids, pool).of(root, key)
    if found.names is not None:
        if row_ids is not None:
            raise ValueError(f"{path} has an array for each id, which it is named by: leave row_ids out.")
        assert found.labels is not None
        return FeatureFile(
            path,
            len(found.names),
            ids_of(found.labels, len(found.names), str(path)),
            None,
            partial(_read_one_each, path, what, opened, found, pool),
        )
    n, d = found.shape
    ids = ids_beside(path, row_ids, n) if found.labels is None else ids_of(found.labels, n, str(path))
    columns = None if found.columns is None else _column_ids(found.columns, d, path)
    return FeatureFile(path, n, ids, columns, partial(_read_matrix, path, what, opened, found.place))


def _column_ids(labels: list[Any], d: int, path: Path) -> Ids:
    if len(labels) != d:
        raise DataFileError(f"{path} names {len(labels)} columns, but its matrix has {d}.")
    return make_ids([id_text(label) for label in labels], None, f"columns of {path}")


def _is_array(node: Any) -> bool:
    return hasattr(node, "shape")


def _shape(array: Any) -> tuple[int, ...]:
    """Return the shape of an array; those of HDF5 that hold nothing have none."""
    return tuple(map(int, array.shape or ()))


def _at(root: Any, place: tuple[str, ...]) -> Any:
    for name in place:
        root = root[name]
    return root


@dataclass(frozen=True)
class _Search:
    """How the features in an archive are found."""

    path: Path
    row_ids: Any
    pool: str | None

    def of(self, root: Any, key: str | None) -> _Found:
        """Return where the features are that a key names, or all there are."""
        names = tuple(part for part in (key or "").split("/") if part)
        if names and names[0] not in root and key in root:  # names in numpy's archives may have a slash
            names = (str(key),)
        node = root
        for place, name in enumerate(names):
            within, node = node, node[name] if not _is_array(node) and name in node else None
            if node is None:
                has = "" if _is_array(within) else f": it has {shown(sorted(within.keys()))}"
                raise DataFileError(f"{self.path} has no {'/'.join(names[: place + 1])!r}{has}.")
        if _is_array(node):
            return self._of_matrix(node, names, _at(root, names[:-1]))
        return self._of_group(node, names)

    def _of_group(self, group: Any, place: tuple[str, ...]) -> _Found:
        names = sorted(group.keys())
        beside = [name for name in (self.row_ids, *IDS) if isinstance(name, str) and name in names]
        others = [name for name in names if name not in (*beside, COLUMNS)]
        if not others:
            raise DataFileError(f"{self.path} holds no features.")
        first = group[others[0]]
        if len(others) == 1 and not _is_array(first):
            return self._of_group(first, (*place, others[0]))
        if matrix := self._matrix_among(group, others, bool(beside)):
            return self._of_matrix(group[matrix], (*place, matrix), group)
        if beside or not _is_array(first):
            raise DataFileError(
                f"{self.path} holds {len(others)} arrays or groups, {shown(others)}: say by key= (on the command line "
                f"{self.path.name}::{others[0]}) which has the features."
            )
        labels: list[Any] = others
        if _OWN_ID in getattr(first, "attrs", ()):
            labels = [group[name].attrs[_OWN_ID] for name in others]
        return _Found(place, others, labels)

    def _matrix_among(self, group: Any, names: list[str], has_ids: bool) -> str | None:
        """Return which of the arrays holds all features; None where each is one of many."""
        if has_ids and len(names) == 1:
            return names[0]
        # Very many are one for each id, and are not opened to see that; so are all of which the rows are to be pooled.
        if self.pool is not None or (len(names) > _FEW and not has_ids):
            return None
        items = {name: group[name] for name in names}
        shapes = {name: _shape(item) for name, item in items.items() if _is_array(item)}
        matrices = [name for name, shape in shapes.items() if len(shape) == 2 and (shape[0] > 1 or len(names) == 1)]
        return matrices[0] if len(matrices) == 1 else None

    def _of_matrix(self, array: Any, place: tuple[str, ...], group: Any) -> _Found:
        where = f"{self.path}: {'/'.join(place)!r}"
        check_numbers(np.dtype(array.dtype), where)
        shape = _shape(array)
        if len(shape) != 2 or 0 in shape:
            raise DataFileError(f"{where} has an array of shape {shape}: expected a row of features for each id.")
        if self.pool is not None:
            raise DataFileError(f"{where} has one row for each id: pool= is for files with several.")
        own = (self.row_ids,) if self.row_ids is not None else IDS
        found = [name for name in own if isinstance(name, str | os.PathLike) and str(name) in group]
        labels = self._texts(group, str(found[0])) if found and str(found[0]) != place[-1] else None
        columns = self._texts(group, COLUMNS) if COLUMNS in group and place[-1] != COLUMNS else None
        return _Found(place, None, labels, columns, shape)

    def _texts(self, group: Any, name: str) -> list[Any]:
        array = group[name]
        if not _is_array(array) or len(_shape(array)) != 1:
            raise DataFileError(f"{self.path}: {name!r} must be a list of names.")
        if np.dtype(array.dtype).kind not in "OSUTiu":
            raise DataFileError(f"{self.path}: {name!r} holds values of type {array.dtype}, which are no names.")
        if not np.dtype(array.dtype).hasobject:
            check_decoded(self.path, array.shape[0] * array.dtype.itemsize, f"Reading {name!r} of {self.path}")
            values: list[Any] = array[:].tolist()
            return values
        # In HDF5, text of any length.
        if (array.dtype.metadata or {}).get("vlen") not in (str, bytes):
            check_numbers(np.dtype(object), f"{self.path}: {name!r}")
        return self._long_texts(array)

    def _long_texts(self, array: Any) -> list[Any]:
        """Return texts of any length, of which many may be the same one in the file."""
        # However long they are, a few take no more than many times the file.
        step = max(256, UNPACKED_LIMIT // max(1, check_file(self.path)))
        texts, size = [], 0
        for first in range(0, array.shape[0], step):
            texts.extend(array[first : first + step].tolist())
            size += sum(map(len, texts[first:]))
            check_unpacked(self.path, size)
        return texts


def _read_matrix(
    path: Path,
    what: str,
    opened: Callable[[], AbstractContextManager[Any]],
    place: tuple[str, ...],
    places: np.ndarray,
) -> np.ndarray:
    with reading(path, what), opened() as root:
        array = _at(root, place)
        n, d = array.shape
        row = d * np.dtype(array.dtype).itemsize
        starts = blocks_of(n, None if array.chunks is None else array.chunks[0], row)
        return gather(
            lambda first, end: array[first:end],
            places,
            starts,
            path,
            d,
            itemsize=np.dtype(kept_dtype(array.dtype)).itemsize,
            held=lambda first, end: row * (end - first),
        )


def _read_one_each(
    path: Path,
    what: str,
    opened: Callable[[], AbstractContextManager[Any]],
    found: _Found,
    pool: str | None,
    places: np.ndarray,
) -> np.ndarray:
    """Return the vectors of some ids, each from an array of its own; the other arrays are not opened."""
    assert found.names is not None
    assert found.labels is not None
    values: np.ndarray | None = None
    with reading(path, what), opened() as root:
        group = _at(root, found.place)
        for row, at in enumerate(places):
            whose = f"{path}: {found.labels[at]!r}"
            vector = _vector(group[found.names[at]], pool, path, whose)
            kept = kept_dtype(vector.dtype)
            if values is None:
                values = allocated((len(places), len(vector)), kept, path)
            if len(vector) != values.shape[1]:
                raise DataFileError(
                    f"{whose} has {len(vector)} features, but {found.labels[places[0]]!r} has {values.shape[1]}: all "
                    "must have as many."
                )
            if np.promote_types(values.dtype, kept) != values.dtype:
                values = values.astype(kept)  # the first to have more digits than those before it
            values[row] = vector
    assert values is not None  # somebody is asked for
    return values


def _vector(array: Any, pool: str | None, path: Path, whose: str) -> np.ndarray:
    if not _is_array(array):
        raise DataFileError(f"{whose} is a group and no array.")
    check_numbers(np.dtype(array.dtype), whose)
    shape = _shape(array)
    if len(shape) not in (1, 2) or 0 in shape:
        raise DataFileError(f"{whose} has an array of shape {shape}: expected a vector of features.")
    if len(shape) == 2 and shape[0] > 1 and pool is None:
        raise DataFileError(
            f"{whose} has an array of shape {shape}, several rows for one id, such as one for each residue: "
            'pool="mean" (on the command line FILE::pool=mean) takes their mean.'
        )
    check_decoded(path, math.prod(shape) * np.dtype(array.dtype).itemsize, f"Reading {whose}")
    rows = np.asarray(array[:])
    if rows.ndim == 1:
        return rows
    return np.asarray(rows.mean(axis=0, dtype=np.float64), dtype=kept_dtype(rows.dtype))


# The column that pandas writes an index without a name into.
_PANDAS = "__index_level_0__"


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
            own = row_ids or _id_column(kinds, index, path)
            labels = file.lists([own])[own]
    # An index that is nobody's ids, such as numbers of rows, is no feature either.
    kinds = {name: kind for name, kind in kinds.items() if name == own or name not in index}
    names = _feature_columns(kinds, key, own, path)
    if names is None and row_ids is None:
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
    return FeatureFile(path, n, ids, columns, partial(_rows, path, names, is_vectors))


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


def _rows(path: Path, names: list[str], is_vectors: bool, places: np.ndarray) -> np.ndarray:
    with open_parquet(path) as file:

        def read(first: int, end: int) -> np.ndarray:
            return file.vectors(names[0], first, end) if is_vectors else file.numbers(names, first, end)

        width = file.width(names[0]) if is_vectors else len(names)
        # A row group is there as arrow and as numpy has it.
        return gather(read, places, file.starts, path, width, held=lambda first, _: 2 * file.group_bytes(names, first))


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
        return open_container(path, ending, key, row_ids, pool)
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

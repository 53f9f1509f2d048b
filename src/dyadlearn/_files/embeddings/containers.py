"""Archives of many arrays: npz and HDF5, which are looked into alike.

Either one matrix has all features, with its ids in an array beside it, or every id has an array of its own. Which of
the two it is shows from the names, and from the shapes of a few arrays: no values are read before they are asked for.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.embeddings.arrays import open_archive
from dyadlearn._files.embeddings.hdf5 import open_hdf5
from dyadlearn._files.embeddings.opened import (
    FeatureFile,
    allocated,
    blocks_of,
    check_numbers,
    gather,
    ids_beside,
    ids_of,
    kept_dtype,
)
from dyadlearn._files.packed import UNPACKED_LIMIT, check_decoded, check_file, check_unpacked, reading
from dyadlearn._files.tables import id_text
from dyadlearn._tables import Ids, make_ids, shown
from dyadlearn.exceptions import DataFileError

__all__ = ["CONTAINERS", "open_container"]

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

"""What a file of features is once it was opened: its ids are known, its rows are read when they are asked for."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._array import is_sparse
from dyadlearn._files.packed import check_decoded, read_arrays, read_text, reading
from dyadlearn._files.tables import ARRAYS, check_whole, id_text, read_cells, suffix_of, text_ids
from dyadlearn._memory import check_memory
from dyadlearn._tables import Ids, Table, make_ids, shown
from dyadlearn.exceptions import DataFileError, IdError

__all__ = [
    "BESIDE",
    "FeatureFile",
    "allocated",
    "blocks_of",
    "check_features",
    "check_numbers",
    "gather",
    "ids_beside",
    "ids_of",
    "kept_dtype",
    "listed",
    "read_ids",
    "wanted_ids",
]

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

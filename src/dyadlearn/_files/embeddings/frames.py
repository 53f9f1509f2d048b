"""Features in parquet files, of which the ids are read first and then the row groups that hold what is wanted.

Features stand in columns of numbers, or as vectors in a column of lists.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.embeddings.opened import FeatureFile, gather, ids_beside, ids_of
from dyadlearn._files.parquet import index_with_ids, open_parquet
from dyadlearn._files.tables import load_table
from dyadlearn._tables import make_ids, shown
from dyadlearn.exceptions import DataFileError

__all__ = ["open_frame"]

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

"""Which reader a file of features has: its ending tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from dyadlearn._files.embeddings.arrays import open_archive, open_npy
from dyadlearn._files.embeddings.containers import CONTAINERS, open_container
from dyadlearn._files.embeddings.frames import open_frame
from dyadlearn._files.embeddings.opened import FeatureFile, ids_beside
from dyadlearn._files.packed import check_file, is_gzipped, reading
from dyadlearn._files.tables import ARRAYS, load_table, suffix_of

__all__ = ["ENDINGS", "POOLS", "open_features"]

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

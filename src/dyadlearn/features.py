"""Features by id, from the files that embeddings come in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from dyadlearn._files.embeddings import ENDINGS, listed, open_features, wanted_ids
from dyadlearn._files.tables import suffix_of
from dyadlearn._tables import Table, library_of
from dyadlearn.exceptions import DataFileError

__all__ = ["Table", "read_features"]


def read_features(
    path: str | PathLike[str],
    ids: Iterable[Any] | None = None,
    *,
    key: str | None = None,
    row_ids: Any = None,
    pool: str | None = None,
    of: str | None = None,
) -> Table:
    """Read features by id from a file; with `ids`, only the requested rows are read.

    The format is determined by the file name extension:

    ========================= ===========================================================================
    ``.npy``                  a matrix; its ids are in a file of the same folder, ``x.ids.txt`` for ``x.npy``
    ``.npz``, ``.h5``,        a matrix, with ids in another array called ``ids``, ``rows`` or ``index``; or an
    ``.hdf5``                 array for each id, with the id as its name
    ``.parquet``              a column of ids, and either columns of numbers or one column of vectors
    ``.csv``, ``.tsv``,       ids in the first column, numbers in the others; text files, which may be
    ``.txt``                  gzipped, are always read completely
    ========================= ===========================================================================

    Half and single precision become single precision, all other numbers double precision. Files are
    never unpickled, only this file and the file of its ids are read, and sizes are checked before
    reading.

    Parameters
    ----------
    path : path
        File to read.
    ids : sequence of ids, index or series, default=None
        Ids of the rows to return, in this order, such as ``labels.index``; None returns all rows.
        Ids are compared as text, so that 7 matches "7". Only the blocks with these rows, or the
        arrays with these names, are read. With ids from a data frame, predictions for the table are
        frames of the same library.
    key : str, default=None
        Name of the part of the file with the features, if there are several: a data set, group or
        array such as
        ``group/data``, or a column of vectors.
    row_ids : sequence of ids, or str, default=None
        Ids of all rows in their order, if the file does not contain them; or the name of their
        array or column in the file, or of another file with one id per line.
    pool : {"mean"}, default=None
        Pooling of an array with several rows for one id, such as one row for each residue of a
        protein; None raises an error for such arrays.
    of : str, default=None
        Name of the rows in messages, such as "proteins".

    Returns
    -------
    Table
        Table with ``values`` (n, d) and ``ids``. All functions that accept a data frame accept it;
        ``to_frame()`` converts it to a data frame, for scikit-learn.

    Raises
    ------
    DataFileError
        If the file is damaged, has the wrong content, is a device or a pipe, refers to another
        file, or exceeds the size limit when unpacked; or if features are missing, infinite or of
        different lengths.
    NotEnoughMemoryError
        If the requested features need more memory than is free.
    IdError
        If ids are not in the file, or are repeated in it or in `ids`.
    ImportError
        If the library of a format is not installed: ``pip install dyadlearn[embeddings]``.

    Examples
    --------
    Read two of the three proteins of a file:

    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from dyadlearn import read_features
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = Path(folder.name, "proteins.npz")
    >>> rng = np.random.default_rng(0)
    >>> np.savez(path, **{name: rng.normal(size=4).astype(np.float16) for name in ("P1", "P2", "P3")})
    >>> X = read_features(path, ["P3", "P1"])
    >>> X
    Table of 2 rows × 4 columns (float32), ids 'P3', 'P1'

    A model accepts the table directly, and matches its rows with the labels by their ids:

    >>> from dyadlearn import IndependentTaskRidge
    >>> import pandas as pd
    >>> labels = pd.DataFrame({"binds": [1.0, 0.0]}, index=["P1", "P3"])
    >>> model = IndependentTaskRidge().fit(X, labels)
    >>> model.predict(read_features(path, pd.Index(["P2"]))).index.tolist()
    ['P2']
    >>> folder.cleanup()
    """
    place = Path(path)
    if suffix_of(place) not in ENDINGS:
        ending = place.suffix or "nothing"
        raise DataFileError(
            f"{place} ends in {ending!r}: features are read from {', '.join(ENDINGS)} files."
        )
    if not isinstance(key, str | None):
        raise TypeError(f"key must be the name of a part of the file, found {key!r}.")
    file = open_features(place, key, row_ids, pool)
    if file.ids is None:
        raise file.without_ids
    if ids is None:
        return file.read()
    labels = listed(ids, "ids")
    name = getattr(ids, "name", None)
    if not labels:
        raise ValueError("ids is empty: name whose features are wanted, or leave it out for all.")
    wanted = wanted_ids(labels, name if isinstance(name, str) else None, "ids")
    return replace(
        file.read(file.places(wanted.labels, of or "ids")), row_ids=wanted, kind=library_of(ids)
    )

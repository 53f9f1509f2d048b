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
    """Read features by id, and of a large file only those that are asked for.

    The ending tells the format:

    ========================= ===========================================================================
    ``.npy``                  a matrix; its ids are in a file beside it, ``x.ids.txt`` for ``x.npy``
    ``.npz``, ``.h5``,        a matrix with its ids in an array called ``ids``, ``rows`` or ``index`` beside
    ``.hdf5``                 it; or an array for each id, which has the id for its name
    ``.parquet``              a column of ids, and either columns of numbers or one column of vectors
    ``.csv``, ``.tsv``,       ids in the first column, numbers in the others; a text, which may be gzipped,
    ``.txt``                  is read whole
    ========================= ===========================================================================

    Half and single precision become single precision, all other numbers double precision. Nothing is ever unpickled,
    no other file is read than this one and that of its ids, and sizes are checked before anything is read.

    Parameters
    ----------
    path : path
    ids : sequence of ids, index or series, default=None
        Whose features are wanted, in this order, such as ``labels.index``. They are compared as text, so that 7 finds
        "7". No more of the file is read than the blocks that hold these rows, or the arrays that have these names. None
        reads all. Where they come from a data frame, predictions for them are frames of the same library.
    key : str, default=None
        Which part of the file has the features, where it has several: a data set, group or array as ``group/data``, or
        a column of vectors.
    row_ids : sequence of ids, or str, default=None
        The ids of all rows in their order, where the file does not hold them; or the name of what does: an array or a
        column of the file, or another file with one id a line.
    pool : {"mean"}, default=None
        What becomes of an array with several rows for one id, such as one for each residue of a protein: their mean.
        None refuses it.
    of : str, default=None
        What the ids are ids of, such as "proteins", for messages.

    Returns
    -------
    Table
        ``values`` (n, d) and ``ids``, which whatever takes a data frame takes; ``to_frame()`` makes one of it, for
        scikit-learn's own tools.

    Raises
    ------
    DataFileError
        If the file is damaged, not what it should be, or a device or a pipe; if it refers to another file, or unpacks
        to more than a packed file may; if features are missing, infinite or of different lengths.
    NotEnoughMemoryError
        If the features that are asked for take more memory than is free.
    IdError
        If ids are not in the file, or stand twice in it or in `ids`.
    ImportError
        If the library of a format is not there: ``pip install dyadlearn[embeddings]``.

    Examples
    --------
    Of three proteins in a file those of two are read:

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

    They go into a model as they are, and are put in the order of the labels by their ids:

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
        raise DataFileError(f"{place} ends in {ending!r}: features are read from {', '.join(ENDINGS)} files.")
    if not isinstance(key, str | None):
        raise TypeError(f"key must be the name of a part of the file, found {key!r}.")
    file = open_features(place, key, row_ids, pool)
    if file.ids is None:
        raise file.without_ids
    if ids is None:
        return file.read()
    labels, name = listed(ids, "ids"), getattr(ids, "name", None)
    if not labels:
        raise ValueError("ids is empty: name whose features are wanted, or leave it out for all.")
    wanted = wanted_ids(labels, name if isinstance(name, str) else None, "ids")
    return replace(file.read(file.places(wanted.labels, of or "ids")), row_ids=wanted, kind=library_of(ids))

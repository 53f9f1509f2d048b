"""Web pages in a large hierarchy of categories: the dry run of the first challenge LSHTC.

In task 2 the documents for training and validation are short descriptions of web pages, while those
for testing are the pages as crawled: a shift of domain.

I. Partalas and others: LSHTC: a benchmark for large-scale text classification. arXiv:1503.08581
(2015).
"""

from __future__ import annotations

import os

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from dyadlearn._files.packed import make_sparse
from dyadlearn.datasets._home import NUMBERS, WHOLE, DataFolder, load_npz, read_lines, resolve_home
from dyadlearn.exceptions import DataFileError

__all__ = ["load_lshtc"]

_SPLITS = ("train", "validation", "test")
_KINDS = {"y": WHOLE, "data": NUMBERS, "indices": WHOLE, "indptr": WHOLE}


def load_lshtc(data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load task 2 of the dry run.

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that holds ``task2.npz`` and ``edges.tsv``, itself or in a folder ``lshtc1_dryrun``.
        By default the one that the environment variable ``DYADLEARN_DATA`` names, else one in the
        user's cache. Nothing is downloaded.

    Returns
    -------
    data : Bunch
        With the keys

        X : sparse array of shape (8181, 27129)
            Counts of terms in documents, all parts below one another.
        Y : sparse array of shape (8181, 1139)
            1.0 where the document is in the category, once in every row, else 0.0.
        splits : dict of str to ndarray
            The rows of ``"train"`` (4,463), ``"validation"`` (1,860) and ``"test"`` (1,858).
        label_ids : ndarray of shape (1139,)
            The category of each column of `Y`: the leaves that occur.
        edges : ndarray of shape (2377, 2)
            The (parent, child) pairs of the hierarchy.
    """
    folder = DataFolder("'lshtc'", "lshtc1_dryrun", resolve_home(data_home))
    source = "the arrays of the dry run, laid out as load_lshtc in experiments/lshtc.py reads them"
    archive, hierarchy = folder.find_all(["task2.npz", "edges.tsv"], source)
    wanted = {f"{name}_{key}": (1, kind) for name in _SPLITS for key, kind in _KINDS.items()}
    stored = load_npz(archive, {"feature_ids": (1, WHOLE), **wanted})
    parts = []
    for name in _SPLITS:
        shape = len(stored[f"{name}_y"]), len(stored["feature_ids"])
        try:
            counts = make_sparse(
                {key: stored[f"{name}_{key}"] for key in ("data", "indices", "indptr")}, shape
            )
        except ValueError as error:
            raise DataFileError(
                f"{archive}: the part {name!r} is no sparse matrix of shape {shape} ({error})."
            ) from error
        parts.append(counts.astype(np.float64))
    target = np.concatenate([stored[f"{name}_y"] for name in _SPLITS])
    label_ids, columns = np.unique(target, return_inverse=True)
    # The first line is a header.
    edges = np.array(
        [line.split() for line in read_lines(hierarchy)[1:] if line], dtype=np.int64
    ).reshape(-1, 2)
    unknown = np.setdiff1d(label_ids, edges)
    if unknown.size:
        raise DataFileError(
            f"{archive}: {unknown.size} categories are not in {hierarchy.name}, such as "
            f"{unknown[0]}."
        )
    rows = np.arange(len(target))
    ends = np.cumsum([part.shape[0] for part in parts])[:-1]
    return Bunch(
        X=sparse.vstack(parts, format="csr"),
        Y=sparse.csr_array(
            (np.ones(len(target)), (rows, columns)), shape=(len(target), len(label_ids))
        ),
        splits=dict(zip(_SPLITS, np.split(rows, ends), strict=True)),
        label_ids=label_ids,
        edges=edges,
    )

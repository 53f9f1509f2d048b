"""Users, movies and their ratings, with friends and similar movies as graphs, in published splits.

F. Monti, M. M. Bronstein, X. Bresson: Geometric matrix completion with recurrent multi-graph neural
networks. Advances in Neural Information Processing Systems 30 (2017), 3697-3707.
"""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from dyadlearn.datasets._home import NUMBERS, WHOLE, DataFolder, load_npz, resolve_home
from dyadlearn.exceptions import DataFileError

__all__ = ["load_ratings"]

_PARTS = ("train", "test")
_COLUMNS = {"user": (1, WHOLE), "item": (1, WHOLE), "rating": (1, NUMBERS)}


def load_ratings(name: str, *, data_home: str | os.PathLike[str] | None = None) -> Bunch:
    """Load ratings of movies by users, split into training and test as they were published.

    ============  =====  ======  ========  ======  ================  =================
    name          users  movies  training  test    edges of users    edges of movies
    ============  =====  ======  ========  ======  ================  =================
    ``douban``    3,000  3,000   123,202   13,689  1,344             none
    ``flixster``  3,000  3,000   23,556    2,617   29,677            25,459
    ============  =====  ======  ========  ======  ================  =================

    Parameters
    ----------
    name : {"douban", "flixster"}
    data_home : path or None, default=None
        Folder that holds ``douban.npz`` or ``flixster.npz``, itself or in a folder ``monti``. By
        default the one that the environment variable ``DYADLEARN_DATA`` names, else one in the
        user's cache. Nothing is downloaded. The arrays are ``train_user``, ``train_item``,
        ``train_rating`` and the same of ``test``, one entry for each rating, and ``users_edges``,
        ``movies_edges`` of shape (n_edges, 2), either of which may be missing; users and movies are
        numbered from 0.

    Returns
    -------
    data : Bunch
        With the keys

        Y, Y_test : ndarrays of shape (m, q)
            The ratings to learn from and to test on, NaN elsewhere; no cell has one in both.
        instance_edges, task_edges : ndarray of shape (n_edges, 2) or None
            The graphs of the users and of the movies: pairs of rows and of columns of `Y`, without
            direction.
    """
    folder = DataFolder(repr(name), "monti", resolve_home(data_home))
    source = (
        "the arrays of the published split, laid out as load_ratings in experiments/ratings.py says"
    )
    [path] = folder.find_all([f"{name}.npz"], source)
    stored = load_npz(
        path, {f"{part}_{key}": kind for part in _PARTS for key, kind in _COLUMNS.items()}
    )
    graphs = [stored.get("users_edges"), stored.get("movies_edges")]
    cells = {
        part: np.stack([stored[f"{part}_user"], stored[f"{part}_item"]]).astype(np.int64)
        for part in _PARTS
    }
    shape = [
        1
        + max(
            int(values.max())
            for values in (*(cells[part][side] for part in _PARTS), graphs[side])
            if values is not None
        )
        for side in range(2)
    ]
    grids = {}
    for part in _PARTS:
        grids[part] = np.full(shape, np.nan)
        grids[part][tuple(cells[part])] = stored[f"{part}_rating"]
    both = np.argwhere(np.isfinite(grids["train"]) & np.isfinite(grids["test"]))
    if both.size:
        raise DataFileError(
            f"{path}: {len(both)} cells are in both parts, such as user {both[0, 0]} and movie "
            f"{both[0, 1]}: expected "
            "each rating in one of them."
        )
    edges = [None if graph is None else graph.astype(np.int64) for graph in graphs]
    return Bunch(
        Y=grids["train"], Y_test=grids["test"], instance_edges=edges[0], task_edges=edges[1]
    )

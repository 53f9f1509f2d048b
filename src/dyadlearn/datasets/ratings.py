"""Users, movies and their ratings, with friends and like movies as graphs: the splits of Monti and others (2017)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn.datasets._home import DataFolder, resolve_home
from dyadlearn.datasets._read import NUMBERS, WHOLE, check_arrays, describe, load_npz
from dyadlearn.exceptions import DataFileError

__all__ = ["load_ratings"]

FOLDER = "monti"

_TITLES = {"douban": "Douban", "flixster": "Flixster"}
_PARTS = ("train", "test")
_COLUMNS = {"user": (1, WHOLE), "item": (1, WHOLE), "rating": (1, NUMBERS)}
# How the archive calls the graph of each side.
_GRAPHS = {"users": "users_edges", "movies": "movies_edges"}


def load_ratings(name: str, *, data_home: str | os.PathLike[str] | None = None, instances: str = "users") -> Bunch:
    """Load ratings of movies by users, split into training and test as Monti and others (2017) published them.

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
        Folder that holds ``douban.npz`` or ``flixster.npz``, itself or in a folder ``monti``. By default the one that
        the environment variable ``DYADLEARN_DATA`` names, else one in the user's cache. Nothing is downloaded. The
        arrays are ``train_user``, ``train_item``, ``train_rating`` and the same of ``test``, one entry for each rating,
        and ``users_edges``, ``movies_edges`` of shape (n_edges, 2), either of which may lack; users and movies are
        numbered from 0.
    instances : {"users", "movies"}, default="users"
        What the rows of the grid are; the others are the tasks.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray of shape (m, q)
            The ratings to learn from, NaN elsewhere.
        Y_test : ndarray of shape (m, q)
            The ratings to test on, NaN elsewhere; no cell has one in both.
        instance_edges : ndarray of shape (n_edges, 2) or None
            The graph of the instances: pairs of rows of `Y`, without direction; None where none was published.
        task_edges : ndarray of shape (n_edges, 2) or None
            The same for the tasks: pairs of columns.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The numbers of users and movies.
        DESCR : str
            What the data are and where they come from.

    See Also
    --------
    dyadlearn.kernels.diffusion_kernel : makes kernels of the graphs.
    dyadlearn.metrics.root_mean_squared_error : what is reported on the test part.

    Examples
    --------
    An archive of three ratings, two of them to learn from, and two users who are friends:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from dyadlearn.datasets import load_ratings
    >>> arrays = {
    ...     "train_user": [0, 1], "train_item": [2, 0], "train_rating": [4.0, 1.5],
    ...     "test_user": [1], "test_item": [1], "test_rating": [5.0],
    ...     "users_edges": [[0, 1]],
    ... }
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "douban.npz"), **arrays)
    ...     data = load_ratings("douban", data_home=folder)
    >>> data.Y
    array([[nan, nan, 4. ],
           [1.5, nan, nan]])
    >>> data.Y_test
    array([[nan, nan, nan],
           [nan,  5., nan]])
    >>> data.instance_edges, data.task_edges
    (array([[0, 1]]), None)
    """
    check_choice(name, "name", tuple(_TITLES))
    check_choice(instances, "instances", ("users", "movies"))
    folder = DataFolder(repr(name), FOLDER, resolve_home(data_home))
    source = "the arrays of the published split, laid out as the documentation of load_ratings says"
    [path] = folder.find_all([(f"{name}.npz",)], source)
    stored = load_npz(path, {f"{part}_{key}": kind for part in _PARTS for key, kind in _COLUMNS.items()})
    edges = {side: _edges(stored, key, path) for side, key in _GRAPHS.items()}
    parts = {part: _part(stored, part, path) for part in _PARTS}
    users, movies = (
        1 + max(int(array.max(initial=-1)) for array in (*(cells[place] for cells, _ in parts.values()), graph))
        for place, graph in enumerate(np.empty(0) if graph is None else graph for graph in edges.values())
    )
    grids = {part: _grid(*parts[part], (users, movies), f"{path}: {part}") for part in _PARTS}
    both = np.argwhere(np.isfinite(grids["train"]) & np.isfinite(grids["test"]))
    if both.size:
        raise DataFileError(
            f"{path}: {len(both)} cells are in both parts, such as user {both[0, 0]} and movie {both[0, 1]}: expected "
            "each rating in one of them."
        )
    sides = ("users", "movies") if instances == "users" else ("movies", "users")
    sizes = {"users": users, "movies": movies}
    Y, Y_test = (grid if instances == "users" else np.ascontiguousarray(grid.T) for grid in grids.values())
    return Bunch(
        Y=Y,
        Y_test=Y_test,
        instance_edges=edges[sides[0]],
        task_edges=edges[sides[1]],
        instance_names=np.arange(sizes[sides[0]]),
        task_names=np.arange(sizes[sides[1]]),
        DESCR=_description(name, grids, edges),
    )


def _edges(stored: Mapping[str, np.ndarray], key: str, path: Path) -> np.ndarray | None:
    """Return the graph of one side (n_edges, 2), or None where there is none."""
    if key not in stored:
        return None
    check_arrays(stored, {key: (2, WHOLE)}, path)
    edges = stored[key].astype(np.int64)
    if edges.shape[1] != 2 or edges.min(initial=0) < 0:
        raise DataFileError(f"{path}: {key} must be pairs of numbers from 0 on, found shape {edges.shape}.")
    return edges


def _part(stored: Mapping[str, np.ndarray], part: str, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the cells (2, n), users above movies, and the ratings (n,) of a part."""
    columns = {key: stored[f"{part}_{key}"] for key in _COLUMNS}
    lengths = {len(column) for column in columns.values()}
    if len(lengths) > 1 or not min(lengths):
        found = ", ".join(f"{len(column):,} of {part}_{key}" for key, column in columns.items())
        raise DataFileError(f"{path}: expected as many users as movies and ratings, and at least one, found {found}.")
    cells = np.stack([columns["user"], columns["item"]]).astype(np.int64)
    values = columns["rating"].astype(np.float64)
    if cells.min() < 0 or not np.isfinite(values).all():
        raise DataFileError(f"{path}: {part} must have users and movies numbered from 0 and finite ratings.")
    return cells, values


def _grid(cells: np.ndarray, values: np.ndarray, shape: tuple[int, int], name: str) -> np.ndarray:
    """Return ratings (n,) in a grid, NaN where there is none."""
    if np.unique(np.ravel_multi_index((cells[0], cells[1]), shape)).size < values.size:
        raise DataFileError(f"{name} has more than one rating for some user and movie.")
    grid = np.full(shape, np.nan)
    grid[cells[0], cells[1]] = values
    return grid


def _description(name: str, grids: Mapping[str, np.ndarray], edges: Mapping[str, np.ndarray | None]) -> str:
    """Return what the data are."""
    observed = np.concatenate([grid[np.isfinite(grid)] for grid in grids.values()])
    users, movies = grids["train"].shape
    return describe(
        "ratings",
        title=_TITLES[name],
        users=f"{users:,}",
        movies=f"{movies:,}",
        train=f"{int(np.isfinite(grids['train']).sum()):,}",
        test=f"{int(np.isfinite(grids['test']).sum()):,}",
        least=observed.min(),
        most=observed.max(),
        **{
            f"{side[:-1]}_graph": "none" if graph is None else f"{len(graph):,} edges between {np.unique(graph).size:,}"
            for side, graph in edges.items()
        },
    )

"""Hummingbirds and the plants they visit: a small network with traits and phylogenies."""

from __future__ import annotations

import os

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._checks import check_choice
from dyadlearn._tables import make_ids
from dyadlearn.datasets._home import NAMES, NUMBERS, DataFolder, check_shape, describe, load_npz, resolve_home

FOLDER = "hummingbird_plant"

_ARCHIVE = "tinoco.npz"
_SITES = ("forest", "shrubs", "cattle")
# How the archive calls the sides: in the networks, and in traits and trees.
_WORDS = {"plants": "plant", "birds": "humm"}


def load_hummingbird(
    data_home: str | os.PathLike[str] | None = None, *, site: str = "forest", instances: str = "plants"
) -> Bunch:
    """Load visits of hummingbirds to plants at one of three sites.

    ==========  ======  =====
    site        plants  birds
    ==========  ======  =====
    ``forest``  20      8
    ``shrubs``  19      12
    ``cattle``  19      9
    ==========  ======  =====

    Parameters
    ----------
    data_home : path or None, default=None
        Folder that holds ``tinoco.npz``, itself or in a folder ``hummingbird_plant``. By default the one that the
        environment variable ``DYADLEARN_DATA`` names, else one in the user's cache. Nothing is downloaded.
    site : {"forest", "shrubs", "cattle"}, default="forest"
        Where the visits were counted. Species occur at several sites.
    instances : {"plants", "birds"}, default="plants"
        What the rows of the grid are; the others are the tasks.

    Returns
    -------
    data : Bunch
        With the keys

        Y : ndarray of shape (m, q)
            How many visits were seen.
        K : ndarray of shape (m, m)
            The phylogenetic covariance of the instances, in the order of `Y`; its diagonal is not 1.
        G : ndarray of shape (q, q)
            The same for the tasks.
        instance_traits, task_traits : ndarray of shape (m, 1), (q, 1)
            Length of the corolla (plants) or of the bill (birds), in mm.
        instance_names, task_names : ndarray of shape (m,), (q,)
            The species.
        DESCR : str
            What the data are and where they come from.

    See Also
    --------
    dyadlearn.kernels.normalize : makes the diagonal of a kernel 1.

    Examples
    --------
    An archive of one plant and two birds:

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> from dyadlearn.datasets import load_hummingbird
    >>> arrays = {
    ...     "net_forest_counts": [[13, 0]], "net_forest_plants": ["Fuchsia"], "net_forest_birds": ["Lesbia", "Colibri"],
    ...     "plant_tree_tips": ["Fuchsia"], "plant_phylo_vcv": [[7.0]],
    ...     "plant_trait_ids": ["Fuchsia"], "plant_trait": [21.7],
    ...     "humm_tree_tips": ["Colibri", "Lesbia"], "humm_phylo_vcv": [[2.0, 1.0], [1.0, 3.0]],
    ...     "humm_trait_ids": ["Colibri", "Lesbia"], "humm_trait": [24.3, 16.9],
    ... }
    >>> with TemporaryDirectory() as folder:
    ...     np.savez(Path(folder, "tinoco.npz"), **arrays)
    ...     data = load_hummingbird(folder)
    >>> data.Y, data.G
    (array([[13.,  0.]]), array([[3., 1.],
                                 [1., 2.]]))
    """
    check_choice(site, "site", _SITES)
    check_choice(instances, "instances", ("plants", "birds"))
    folder = DataFolder("'hummingbird'", FOLDER, resolve_home(data_home))
    [path] = folder.find_all([(_ARCHIVE,)], "the arrays of the published tables")
    kinds = {"tree_tips": (1, NAMES), "phylo_vcv": (2, NUMBERS), "trait_ids": (1, NAMES), "trait": (1, NUMBERS)}
    own = {f"{word}_{key}": kind for word in _WORDS.values() for key, kind in kinds.items()}
    names = {f"net_{site}_{side}": (1, NAMES) for side in _WORDS}
    stored = load_npz(path, {f"net_{site}_counts": (2, NUMBERS), **names, **own})
    Y = stored[f"net_{site}_counts"].astype(np.float64)
    shape = tuple(len(stored[f"net_{site}_{side}"]) for side in _WORDS)
    check_shape(Y, shape, f"{path}: net_{site}_counts", "plants and birds")
    tasks = "birds" if instances == "plants" else "plants"
    K, instance_traits, instance_names = _side(stored, site, instances, str(path))
    G, task_traits, task_names = _side(stored, site, tasks, str(path))
    return Bunch(
        Y=Y if instances == "plants" else np.ascontiguousarray(Y.T),
        K=K,
        G=G,
        instance_traits=instance_traits,
        task_traits=task_traits,
        instance_names=instance_names,
        task_names=task_names,
        DESCR=describe(
            "hummingbird",
            site=site,
            plants=shape[0],
            birds=shape[1],
            visits=int(Y.sum()),
            pairs=int(np.count_nonzero(Y)),
        ),
    )


def _side(stored: dict[str, np.ndarray], site: str, side: str, path: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the covariance (n, n), the trait (n, 1) and the names (n,) of the species of one side at a site."""
    word, names = _WORDS[side], stored[f"net_{site}_{side}"]
    found = {}
    for key, ids, ndim in (("phylo_vcv", "tree_tips", 2), ("trait", "trait_ids", 1)):
        table, labels, owner = stored[f"{word}_{key}"], stored[f"{word}_{ids}"].tolist(), f"{word}_{ids} of {path}"
        check_shape(table, ndim * (len(labels),), f"{path}: {word}_{key}", f"{word}_{ids}")
        places = make_ids(labels, None, owner).positions(names.tolist(), owner)
        found[key] = table[np.ix_(*ndim * [places])]
    return found["phylo_vcv"], found["trait"][:, None], names

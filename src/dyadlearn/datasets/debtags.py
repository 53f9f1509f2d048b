"""Debian packages and their tags: the data set that comes with the library."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import Bunch

from dyadlearn._tables import Ids, Table
from dyadlearn.datasets._home import as_given, describe


def load_debtags(*, as_frame: bool = False) -> Bunch:
    """Load the embedded sample of Debian packages (instances) and their tags (tasks).

    Parameters
    ----------
    as_frame : bool, default=False
        Whether `Y` is a pandas DataFrame whose index and columns are the ids. Needs pandas.

    Returns
    -------
    data : Bunch
        With the keys

        X : sparse array of shape (1500, 4679)
            Counts of each word of `words` in the description of each package.
        tasks : sparse array of shape (151, 482)
            Counts of each word of `task_words` in the name and text of each tag. The two word lists
            are separate.
        Y : ndarray or DataFrame of shape (1500, 151)
            1.0 if the package has the tag, else 0.0.
        instance_names, task_names : ndarray of shape (1500,), (151,)
            Ids: names of packages and of tags.
        words, task_words : ndarray of shape (4679,), (482,)
            Words of the columns of `X` and of `tasks`.
        facets : ndarray of shape (151,)
            The facet of each tag, the first part of its name.
        edges : list of tuple
            The (parent, child) pairs of the tree ROOT → facet → tag → subtag.
        DESCR : str
            Description of the data: their source and how they were prepared.

    See Also
    --------
    debtags_kernels : kernels for both sides.

    Examples
    --------
    >>> from dyadlearn.datasets import load_debtags
    >>> data = load_debtags()
    >>> data.X.shape, data.tasks.shape, data.Y.shape
    ((1500, 4679), (151, 482), (1500, 151))
    >>> package = list(data.instance_names).index("qgis")
    >>> [str(tag) for tag in data.task_names[data.Y[package] == 1]][:2]
    ['implemented-in::c++', 'interface::graphical']
    """
    source = files("dyadlearn.datasets").joinpath("data", "debtags.npz")
    with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        stored = dict(archive)
    parts = bytes(stored["names"]).decode("utf-8").split("\n\n")
    instance_names, task_names, words, task_words, edges = (part.split("\n") for part in parts)
    labels = np.unpackbits(stored["Y"], axis=1, count=len(task_names)).astype(np.float64)
    grid = Table(labels, Ids(tuple(instance_names)), Ids(tuple(task_names)))
    return Bunch(
        X=_counts(stored, "X", len(words)),
        tasks=_counts(stored, "tasks", len(task_words)),
        Y=as_given(grid, as_frame, "load_debtags"),
        instance_names=np.array(instance_names),
        task_names=np.array(task_names),
        words=np.array(words),
        task_words=np.array(task_words),
        facets=np.array([name.partition("::")[0] for name in task_names]),
        edges=[tuple(edge.split("\t")) for edge in edges],
        DESCR=describe("debtags"),
    )


def debtags_kernels(data: Bunch) -> tuple[np.ndarray, np.ndarray]:
    r"""Compute a kernel for the packages and one for the tags of `load_debtags`.

    Both are cosines of TF-IDF weighted word counts; 0.3 is added for tags of the same facet:

    .. math:: K = \mathrm{cos}(X), \qquad G = \mathrm{cos}(T) + 0.3\,[\text{facet}_j = \text{facet}_l].

    The weights depend on the frequency of words in all packages. Call this function once, on all
    packages, and select training and test rows from the result.

    Parameters
    ----------
    data : Bunch
        Result of `load_debtags`.

    Returns
    -------
    K : ndarray of shape (1500, 1500)
        The kernel of the packages.
    G : ndarray of shape (151, 151)
        The kernel of the tags.

    Examples
    --------
    >>> from dyadlearn.datasets import debtags_kernels, load_debtags
    >>> K, G = debtags_kernels(load_debtags())
    >>> K.shape, G.shape
    ((1500, 1500), (151, 151))
    """
    same_facet = data.facets[:, None] == data.facets[None, :]
    return _tfidf_cosine(data.X), _tfidf_cosine(data.tasks) + 0.3 * same_facet


def _tfidf_cosine(counts: Any) -> np.ndarray:
    """Return the cosines (n, n) between the TF-IDF weighted rows of `counts` (n, words)."""
    from sklearn.feature_extraction.text import TfidfTransformer

    weighted = TfidfTransformer().fit_transform(counts)
    return np.asarray((weighted @ weighted.T).toarray())


def _counts(stored: Mapping[str, np.ndarray], side: str, n_words: int) -> sparse.csr_array:
    """Return the counts (rows, n_words) of one side; the file stores differences between column positions."""
    lengths = stored[f"{side}_lengths"].astype(np.int32)
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    walked = np.concatenate([[0], np.cumsum(stored[f"{side}_steps"], dtype=np.int64)])
    # Every row starts again from column 0, so the sum of previous rows is subtracted.
    columns = walked[1:] - np.repeat(walked[starts[:-1]], lengths)
    counts = stored[f"{side}_counts"].astype(np.float64)
    shape = (len(lengths), n_words)
    return sparse.csr_array((counts, columns.astype(np.int32), starts), shape=shape)

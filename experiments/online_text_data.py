"""The data of `online_text.py`: documents as features that no label has touched, and labels in a hierarchy."""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from canonical_projection import CanonicalProjection
from drug_target import find_data
from lshtc import load_lshtc
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from dyadlearn.datasets import load_debtags
from dyadlearn.datasets._home import resolve_home
from dyadlearn.kernels import graph_distance_kernel

SETS = {"lshtc": "LSHTC-1 web pages", "debtags": "Debian packages"}
FIRST = {"lshtc": 300, "debtags": 500}
COMPRESSIONS = ("svd", "canonical", "canonical-first")
WORD = r"[a-z0-9][a-z0-9+#]*"


@dataclass(frozen=True)
class Data:
    """What is learnt from.

    Attributes
    ----------
    name : str
        Of `SETS`.
    X, X_test : arrays of shape (m, d), (t, d)
        Documents for learning and for testing; the last feature is constant, an intercept that is
        regularised.
    Y, Y_test : sparse arrays of shape (m, q), (t, q)
        Their labels, 0 or 1.
    tasks : array of shape (q, r)
        Features of the labels, whose inner products are the kernel of the hierarchy.
    first : int
        Documents in the first batch, and in each that follows.
    starts_alike : bool
        Whether the first documents come first in every repetition, because the features know their
        labels.
    """

    name: str
    X: np.ndarray
    Y: Any
    X_test: np.ndarray
    Y_test: Any
    tasks: np.ndarray
    first: int
    starts_alike: bool = False

    @property
    def sizes(self) -> list[int]:
        """Numbers of documents after which the model is looked at: doubling, then all."""
        m = len(self.X)
        sizes = [self.first]
        while 2 * sizes[-1] < m / 1.5:
            sizes.append(2 * sizes[-1])
        return [*sizes, m]

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Return a random order of the documents for learning."""
        order = rng.permutation(len(self.X))
        if self.starts_alike:
            return order[np.argsort(order >= self.first, kind="stable")]
        return order


def task_features(edges: Any, labels: Sequence[Any], scale: float = 10.0) -> np.ndarray:
    r"""Return features (q, r) of labels whose inner products are their kernel over the hierarchy.

    .. math:: \boldsymbol\Psi = \mathbf{V}\,\mathrm{diag}(\sqrt{\mathbf{s}}), \qquad
              \mathbf{V}\,\mathrm{diag}(\mathbf{s})\,\mathbf{V}^\top =
              \bigl[e^{-d_{ij}/10}\bigr]_{ij}
    """
    values, vectors = np.linalg.eigh(graph_distance_kernel(edges, labels, scale))
    kept = values > 1e-10 * values[-1]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def document_features(
    counts: Any, test_counts: Any, labels: Any, n_components: int, compression: str, first: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return features of documents for learning and for testing, from counts of terms.

    TF-IDF with sublinear counts, then at most `n_components` directions, then a constant. Weights
    and directions are those of the documents for learning.

    Parameters
    ----------
    counts, test_counts : sparse arrays of shape (m, p), (t, p)
    labels : sparse array of shape (m, q)
        Not looked at by "svd".
    n_components : int
    compression : {"svd", "canonical", "canonical-first"}
        Directions in which the texts vary most; those that vary most with the labels of all
        documents, which an online learner cannot know; the same with the labels of the first ones
        only.
    first : int
        How many the first ones are.
    """
    tfidf = TfidfTransformer(sublinear_tf=True).fit(counts)
    X = tfidf.transform(counts)
    X_test = tfidf.transform(test_counts)
    width = min(n_components, min(X.shape) - 1)
    if compression == "svd":
        directions = TruncatedSVD(width, n_iter=2, random_state=0).fit(X)
    else:
        known = slice(first if compression == "canonical-first" else None)
        directions = CanonicalProjection(width, random_state=0).fit(X[known], labels[known])
    return with_constant(directions.transform(X)), with_constant(directions.transform(X_test))


def with_constant(X: np.ndarray) -> np.ndarray:
    """Return features (n, d) with a last one that is 1."""
    return np.hstack([X, np.ones((len(X), 1))])


def load_data(
    name: str, data_home: str | None, *, n_components: int = 1000, compression: str = "svd"
) -> Data:
    """Return one of `SETS`; without its tables, of the Debian packages the sample that comes with the library."""
    home = find_data(data_home)
    first = FIRST[name]
    if name == "lshtc":
        data = load_lshtc(home)
        counts = data.X
        labels = data.Y
        edges = data.edges
        names = data.label_ids
        # The test part is of another kind than what is learnt from.
        train = data.splits["train"]
        test = data.splits["validation"]
    else:
        folder = resolve_home(home) / "debtags"
        if folder.is_dir():
            counts, labels, edges, names = read_packages(folder)
        else:
            sample = load_debtags()
            first = 100
            counts = sample.X
            labels = sparse.csr_array(sample.Y)
            edges = sample.edges
            names = sample.task_names
        train, test = split(counts.shape[0])
    # In random order, so that first ones are any ones.
    train = np.random.default_rng(0).permutation(train)
    X, X_test = document_features(
        counts[train], counts[test], labels[train], n_components, compression, first
    )
    tasks = task_features(edges, names)
    alike = compression == "canonical-first"
    return Data(name, X, labels[train], X_test, labels[test], tasks, first, alike)


def split(m: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a random four fifths of `m` rows, and the others."""
    order = np.random.default_rng(0).permutation(m)
    return order[m // 5 :], order[: m // 5]


def read_packages(folder: Path) -> tuple[Any, sparse.csr_array, list[tuple[str, ...]], list[str]]:
    """Return word counts (m, p) of packages, their tags (m, q), the edges of the tree and the names of the tags."""
    with lzma.open(folder / "debtags_one_per_source.tsv.xz", "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t") for line in lines][1:]
    tags = [row[3].split(",") for row in rows]
    names = sorted({tag for of_package in tags for tag in of_package})
    counts = CountVectorizer(token_pattern=WORD, min_df=2).fit_transform(row[4] for row in rows)
    lines = (folder / "edges.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return counts, indicator(tags, names), [tuple(line.split("\t")) for line in lines], names


def indicator(tags: Iterable[Sequence[str]], names: Sequence[str]) -> sparse.csr_array:
    """Return a matrix (m, q) with 1 where a row has a tag."""
    place = {name: column for column, name in enumerate(names)}
    cells = [(row, place[tag]) for row, of_row in enumerate(tags) for tag in set(of_row)]
    rows, columns = np.array(cells).T
    return sparse.csr_array(
        (np.ones(len(cells)), (rows, columns)), shape=(rows.max() + 1, len(names))
    )

"""Learn at the scale of the paper's text experiment, streamed from disk: speed, and memory that stays below 8 GB.

    python benchmarks/scale.py [--documents 380000] [--terms 833482] [--labels 12633] [--components 1000]
                               [--first 5000] [--batch 1000] [--test 10000] [--folder FOLDER]

Synthetic documents of the shape of the LSHTC Wikipedia set: sparse, each with one label, the labels
in a directed acyclic graph that has cycles if directions are forgotten. They are written to disk;
one pass over them finds the components of `CanonicalProjection` (in experiments/), another teaches
a model: labels learnt independently, or two-step ridge regression with Nyström features of the
kernel exp(−d/10) of distances in the graph. Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from measuring import THREADS, versions
from scipy import sparse
from scipy.sparse.csgraph import dijkstra
from threadpoolctl import threadpool_limits

from dyadlearn import OnlineTwoStepRidge
from dyadlearn.streams import fit_stream

sys.path.append(str(Path(__file__).parents[1] / "experiments"))
from canonical_projection import CanonicalProjection

TARGET_GIGABYTES = 8.0
OWN = 20
SHARED = 10
BACKGROUND = 20
SCALE = 10.0


class Hierarchy:
    """Labels below inner nodes of a random directed acyclic graph.

    Attributes
    ----------
    n_labels : int
        The first nodes are the labels, the others are inner ones.
    parent : array of shape (n_nodes,)
        One parent of each node; the root is its own.
    graph : sparse array of shape (n_nodes, n_nodes)
        All edges; one node in ten has a second parent.
    """

    def __init__(self, n_labels: int, rng: np.random.Generator) -> None:
        n_inner = max(n_labels // 3, 2)
        inner = n_labels + np.arange(n_inner)
        self.n_labels = n_labels
        # The parent of an inner node has a smaller number, so that there is no way back.
        above = n_labels + (np.arange(n_inner) * rng.random(n_inner)).astype(int)
        self.parent = np.concatenate([rng.choice(inner, n_labels), above])
        more = np.flatnonzero(rng.random(n_labels) < 0.1)
        child = np.concatenate([np.arange(n_labels + n_inner), more])
        ends = np.concatenate([self.parent, rng.choice(inner, len(more))])
        real = child != ends
        pairs = np.unique(np.stack([child[real], ends[real]]), axis=1)
        shape = (n_labels + n_inner,) * 2
        self.graph = sparse.csr_array((np.ones(pairs.shape[1]), tuple(pairs)), shape=shape)

    def features(self, width: int, rng: np.random.Generator) -> np.ndarray:
        r"""Return Nyström features (q, r ≤ width) of the kernel exp(−d/10), from twice as many landmarks.

        .. math:: \boldsymbol\Psi = \mathbf{K}_{qL}\,\mathbf{V}\,\mathrm{diag}(1/\sqrt{\mathbf{s}}), \qquad
                  \mathbf{K}_{LL} \approx \mathbf{V}\,\mathrm{diag}(\mathbf{s})\,\mathbf{V}^\top
        """
        landmarks = np.sort(rng.choice(self.n_labels, min(2 * width, self.n_labels), replace=False))
        K = np.empty((len(landmarks), self.n_labels))
        for start in range(0, len(landmarks), 100):
            rows = slice(start, start + 100)
            distances = dijkstra(
                self.graph, directed=False, unweighted=True, indices=landmarks[rows]
            )
            K[rows] = np.exp(-distances[:, : self.n_labels] / SCALE)
        values, vectors = np.linalg.eigh(K[:, landmarks])
        # On a graph with cycles some eigenvalues may be negative.
        kept = np.flatnonzero(values > 1e-8 * values[-1])[-width:]
        return np.asarray(K.T @ (vectors[:, kept] / np.sqrt(values[kept])))


def make_documents(
    n: int, n_terms: int, hierarchy: Hierarchy, rng: np.random.Generator
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Return documents (n, n_terms) of unit length in single precision, and one label of each (n, q).

    A document has words of its label, words of the label's parent, and words that say nothing,
    frequent and rare ones.
    """
    q = hierarchy.n_labels
    labels = (q * rng.random(n) ** 2).astype(int)
    topics = np.repeat(np.stack([labels, hierarchy.parent[labels]]), [OWN, SHARED], axis=0).T
    # Fifty words of a topic, scattered over the vocabulary by a multiplication.
    words = (topics * 50 + rng.integers(50, size=topics.shape)) * 2_654_435_761 % n_terms
    common = (n_terms * rng.random((n, BACKGROUND)) ** 4).astype(int)
    terms = np.hstack([words, common])
    rows = np.repeat(np.arange(n), terms.shape[1])
    counts = sparse.csr_array(
        (np.ones(terms.size, dtype=np.float32), (rows, terms.ravel())), shape=(n, n_terms)
    )
    counts.sum_duplicates()
    weights = sparse.csr_array(
        (1 + np.log(counts.data), counts.indices, counts.indptr), shape=counts.shape
    )
    lengths = np.sqrt(np.bincount(rows_of(weights), weights.data**2, n)).astype(np.float32)
    weights.data /= lengths[rows_of(weights)]
    Y = sparse.csr_array((np.ones(n, dtype=np.float32), labels, np.arange(n + 1)), shape=(n, q))
    return weights, Y


def rows_of(matrix: sparse.csr_array) -> np.ndarray:
    """Return the row of each stored number."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def write_stream(
    folder: Path, n: int, batch: int, n_terms: int, hierarchy: Hierarchy, rng: np.random.Generator
) -> list[Path]:
    """Write `n` documents to files of `batch` each, and return these."""
    folder.mkdir()
    paths = []
    for start in range(0, n, batch):
        paths.append(folder / f"{start:09d}.npz")
        X, Y = make_documents(min(batch, n - start), n_terms, hierarchy, rng)
        sparse.save_npz(paths[-1], X, compressed=False)
        sparse.save_npz(paths[-1].with_suffix(".labels.npz"), Y, compressed=False)
    return paths


def read_batches(paths: Sequence[Path]) -> Iterator[tuple[sparse.csr_array, sparse.csr_array]]:
    """Yield documents and labels, one file at a time."""
    for path in paths:
        yield sparse.load_npz(path), sparse.load_npz(path.with_suffix(".labels.npz"))


def batches(
    paths: Sequence[Path], n_first: int
) -> Iterator[tuple[sparse.csr_array, sparse.csr_array]]:
    """Yield the first files as one batch, then one file at a time."""
    first = list(read_batches(paths[:n_first]))
    yield sparse.vstack([X for X, _ in first], "csr"), sparse.vstack([Y for _, Y in first], "csr")
    if paths[n_first:]:
        yield from read_batches(paths[n_first:])


def measure_predictions(model: OnlineTwoStepRidge, paths: Sequence[Path]) -> tuple[float, float]:
    """Return the seconds that predicting all labels of all documents took, and their instance-wise AUC."""
    passed = 0.0
    better = 0.0
    n = 0
    for X, Y in read_batches(paths):
        begin = time.perf_counter()
        F = model.predict(X)
        passed += time.perf_counter() - begin
        of_label = F[np.arange(len(F)), Y.indices][:, None]
        better += float(
            ((of_label > F).sum() + ((of_label == F).sum() - len(F)) / 2) / (F.shape[1] - 1)
        )
        n += len(F)
    return passed, better / n


def peak_gigabytes() -> float:
    """Return the largest resident memory of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e9 if sys.platform == "darwin" else 1e6 / 1.024)


def tell(what: str, seconds: float, n: int | None = None, more: str = "") -> None:
    """Print one line: what was done, how long it took, how many documents that is in a second, the peak of memory."""
    speed = f"{n / seconds:12,.0f} documents/s" if n else " " * 24
    print(
        f"  {what:<44} {seconds:8.1f} s {speed}   peak {peak_gigabytes():.2f} GB{more}", flush=True
    )


def measure(options: argparse.Namespace, folder: Path) -> None:
    """Write the stream, find the components, learn and predict with both models."""
    rng = np.random.default_rng(0)
    begin = time.perf_counter()
    hierarchy = Hierarchy(options.labels, rng)
    sizes = (options.batch, options.terms, hierarchy, rng)
    paths = write_stream(folder / "train", options.documents, *sizes)
    test = write_stream(folder / "test", options.test, *sizes)
    tell("write the stream to disk", time.perf_counter() - begin, options.documents + options.test)

    begin = time.perf_counter()
    projection = fit_stream(
        CanonicalProjection(options.components, random_state=0), read_batches(paths)
    )
    tell("projection: one pass over the documents", time.perf_counter() - begin, options.documents)
    begin = time.perf_counter()
    n_components = len(projection.singular_values_)
    tell(f"projection: {n_components} components", time.perf_counter() - begin)

    begin = time.perf_counter()
    tasks = hierarchy.features(options.components, rng)
    tell(f"kernel of the labels: {tasks.shape[1]} features", time.perf_counter() - begin)

    n_first = max(1, options.first // options.batch)
    n_new = options.documents - min(n_first * options.batch, options.documents)
    for name, features in (("independent", None), ("two-step", tasks)):
        stream = batches(paths, n_first)
        model = OnlineTwoStepRidge(feature_map=projection)
        begin = time.perf_counter()
        X, Y = next(stream)
        model.fit(X, Y, tasks=features)
        tell(f"{name}: first {X.shape[0]} documents", time.perf_counter() - begin, X.shape[0])
        begin = time.perf_counter()
        fit_stream(model, stream)
        if n_new:
            tell(f"{name}: updates by {options.batch}", time.perf_counter() - begin, n_new)
        begin = time.perf_counter()
        assert model.coef_.shape[0] == n_components
        tell(f"{name}: coefficients", time.perf_counter() - begin)
        seconds, auc = measure_predictions(model, test)
        tell(f"{name}: predictions", seconds, options.test, f", instance-wise AUC {auc:.3f}")
        del model


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and return 1 where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--documents", type=int, default=380_000, help="to learn (default: 380000)")
    parser.add_argument(
        "--terms", type=int, default=833_482, help="of all documents (default: 833482)"
    )
    parser.add_argument("--labels", type=int, default=12_633, help="in the graph (default: 12633)")
    parser.add_argument(
        "--components", type=int, default=1000, help="of documents, of labels (default: 1000)"
    )
    parser.add_argument(
        "--first", type=int, default=5000, help="documents in the first batch (default: 5000)"
    )
    parser.add_argument(
        "--batch", type=int, default=1000, help="documents in the others (default: 1000)"
    )
    parser.add_argument(
        "--test", type=int, default=10_000, help="documents to predict (default: 10000)"
    )
    parser.add_argument(
        "--folder",
        type=Path,
        help="where to put the stream for the time (default: a temporary one)",
    )
    options = parser.parse_args(arguments)
    numbers = {name: value for name, value in vars(options).items() if name != "folder"}
    if min(numbers.values()) < 1:
        parser.error("all numbers must be at least 1")

    print(", ".join(f"{value:,} {name}" for name, value in numbers.items()))
    with threadpool_limits(THREADS), tempfile.TemporaryDirectory(dir=options.folder) as folder:
        measure(options, Path(folder))
    peak = peak_gigabytes()
    print(f"  peak of resident memory {peak:.2f} GB, at most {TARGET_GIGABYTES:.0f} wanted")
    print(versions())
    return int(peak > TARGET_GIGABYTES)


if __name__ == "__main__":
    sys.exit(main())

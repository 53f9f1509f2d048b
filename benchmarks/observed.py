"""What observed pairs cost that are solved for without their grid.

    python benchmarks/observed.py [--case molecules] [--device cuda] [--pairs 236530] [--dtype float64]

``molecules``: 143,255 × 2,069 entities, 236,530 pairs, 1,000 landmarks of an RBF kernel on each side, one ridge of 1
and a residual of 1e-6. ``ratings``: 10⁶ × 10⁵ entities with 256 features each and any number of
pairs. Tasks are popular by a power law. Printed are seconds, iterations, the peak of memory of the
whole process, and the time of the iterations over that of their matrix products and of their
gathered rows alone, measured in the same run.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
from measuring import versions
from scipy import sparse

from dyadlearn import KroneckerRidge
from dyadlearn._array import as_array_of
from dyadlearn.solve.observed import PairProducts

CASES = {
    "molecules": (143_255, 2_069, 236_530, 1_000, 1_000),
    "ratings": (1_000_000, 100_000, 10_000_000, 256, 256),
    "small": (14_000, 1_000, 24_000, 150, 150),
}


def landmark_features(
    n: int, rank: int, rng: np.random.Generator, dtype: Any, width: int = 20
) -> np.ndarray:
    """Return features of an RBF kernel of standard normal descriptions by landmarks drawn at random."""
    marks = rng.standard_normal((rank, width)).astype(dtype)
    gamma = 1.0 / (2.0 * width)

    def kernel(rows: np.ndarray) -> np.ndarray:
        squares = (
            (rows**2).sum(axis=1)[:, None] + (marks**2).sum(axis=1)[None, :] - 2.0 * rows @ marks.T
        )
        return np.exp(-gamma * np.maximum(squares, 0.0)).astype(dtype)

    values, vectors = np.linalg.eigh(kernel(marks).astype(np.float64))
    root = (vectors / np.sqrt(np.maximum(values, 1e-10))).astype(dtype)
    features = np.empty((n, rank), dtype=dtype)
    for start in range(0, n, 20_000):
        block = rng.standard_normal((min(20_000, n - start), width)).astype(dtype)
        features[start : start + len(block)] = kernel(block) @ root
    return features


def problem(case: str, n_pairs: int | None, dtype: Any) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return features of both sides and sparse labels."""
    m, q, n, r, s = CASES[case]
    n = n_pairs or n
    rng = np.random.default_rng(0)
    features, task_features = (
        landmark_features(size, rank, rng, dtype) for size, rank in ((m, r), (q, s))
    )
    popular = 1.0 / np.arange(1.0, q + 1.0)
    cells = np.empty(0, dtype=np.int64)
    while cells.size < n:
        columns = rng.choice(q, 2 * (n - cells.size) + 1000, p=popular / popular.sum())
        rows = rng.integers(0, m, columns.size)
        cells = np.unique(np.concatenate([cells, rows * q + columns]))
    cells = np.sort(rng.choice(cells, n, replace=False))
    rows = cells // q
    columns = cells % q
    signal = np.zeros(n, dtype=dtype)
    for _ in range(4):
        left = rng.standard_normal(r).astype(dtype)
        right = rng.standard_normal(s).astype(dtype)
        signal += (features @ left)[rows] * (task_features @ right)[columns]
    values = (signal + rng.standard_normal(n)).astype(dtype)
    return features, task_features, sparse.csr_array((values, (rows, columns)), shape=(m, q))


def clock(work: Any, wait: Any) -> float:
    """Return the seconds that some work takes."""
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", default="molecules", choices=CASES)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--pairs", type=int, default=None)
    parser.add_argument("--dtype", default="float64")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--repeats", type=int, default=1)
    arguments = parser.parse_args()
    X, T, Y = problem(arguments.case, arguments.pairs, np.dtype(arguments.dtype))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20

    def wait() -> None:
        """Nothing is to be waited for."""

    if arguments.device != "cpu":
        import torch

        X, T = (torch.asarray(array, device=arguments.device) for array in (X, T))
        wait = torch.cuda.synchronize
        torch.cuda.reset_peak_memory_stats()
    model = KroneckerRidge(1.0, tol=arguments.tol)
    times = [clock(lambda: model.fit(X, Y, tasks=T), wait) for _ in range(arguments.repeats)]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    m, r = X.shape
    q, s = T.shape
    n = Y.nnz
    print(
        f"{arguments.case}: {m} × {q}, {n} pairs, {r} × {s} features, {arguments.dtype}, "
        f"{arguments.device}"
    )
    print(
        f"  fit {', '.join(f'{seconds:.2f}' for seconds in times)} s, {model.n_iter_} iterations, "
        f"residual",
        end=" ",
    )
    print(
        f"{model.residual_:.1e}; pairs alone: {model.fitted_.training_problem.labels.grid is None}"
    )
    if arguments.device == "cpu":
        print(f"  peak of the process {peak:.2f} GiB, of which data {before:.2f} GiB")
    else:
        print(f"  peak on the card {torch.cuda.max_memory_allocated() / 2**30:.2f} GiB")
    products = PairProducts(X, T, model.fitted_.training_problem.labels)
    function = X[:r, :].T @ X[:r, :s]
    values = as_array_of(np.ones(n), X, X.dtype)
    products.values(function), products.gathered(values)
    parts = [
        clock(lambda: products.values(function), wait),
        clock(lambda: products.gathered(values), wait),
    ]
    gemm = clock(lambda: T @ function.T, wait) + clock(lambda: T.T @ T[:, :r], wait)
    iterations = model.n_iter_ * sum(parts)
    print(
        f"  a product with the features at the pairs {parts[0]:.3f} s, back {parts[1]:.3f} s, of "
        f"which GEMM {gemm:.3f}"
    )
    print(
        f"  {model.n_iter_} such products {iterations:.2f} s, {iterations / min(times):.2f} of the "
        f"fit"
    )
    gram = 2 * clock(lambda: X.T @ X, wait) + 2 * clock(lambda: X @ (X[:r, :].T @ X[:r, :]), wait)
    print(f"  two Gram matrices and two rotations of the instances {gram:.2f} s")
    print(versions())


if __name__ == "__main__":
    main()

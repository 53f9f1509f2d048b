"""What fitting `TwoStepRidge` costs beside the linear algebra it cannot do without.

Two symmetric eigendecompositions and four matrix products are the least that a fit from precomputed
kernels needs. Both are timed in turns in the same run, so that the state of the machine touches them
alike, and the median of the ratios is printed beside its target; so is the peak of memory, counted in
arrays of the size of the grid.

    python benchmarks/fit.py [--size 2000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import datetime
import platform
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_limits

import dyadlearn
from dyadlearn import TwoStepRidge

TARGET_RATIO = 1.3
TARGET_ARRAYS = 6.0
THREADS = 2


def make_kernel(size: int, rng: np.random.Generator) -> np.ndarray:
    """Return a random positive definite kernel (size, size)."""
    features = rng.standard_normal((size, size))
    return features @ features.T / size


def least_work(K: np.ndarray, G: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Compute the dual coefficients (m, q) with two `eigh` and four products, and nothing around them."""
    sigma, U = np.linalg.eigh(K)
    s, V = np.linalg.eigh(G)
    rotated = U.T @ Y @ V
    rotated /= sigma[:, None] + 1.0
    rotated /= s + 1.0
    return U @ rotated @ V.T


def fit(K: np.ndarray, G: np.ndarray, Y: np.ndarray) -> TwoStepRidge:
    """Fit with the library: validation and everything that a user gets."""
    return TwoStepRidge(kernel="precomputed", task_kernel="precomputed").fit(K, Y, tasks=G)


def seconds(work: Callable[[], object]) -> float:
    """Return how long `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def peak_arrays(work: Callable[[], object], grid_bytes: int, eigenvector_bytes: int) -> float:
    """Return the peak memory of `work` beyond the eigenvectors, in arrays of the size of the grid.

    The kernels are there before the counting starts and the workspace of LAPACK is not traced, so neither
    counts; a copy of a kernel does.
    """
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (peak - eigenvector_bytes) / grid_bytes


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=2000, help="instances and tasks (default: 2000)")
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats (default: 5)")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    K, G = make_kernel(arguments.size, rng), make_kernel(arguments.size, rng)
    Y = rng.standard_normal((arguments.size, arguments.size))
    with threadpool_limits(THREADS):
        np.testing.assert_allclose(fit(K, G, Y).dual_coef_, least_work(K, G, Y), rtol=1e-6, atol=1e-9)
        pairs = [
            (seconds(lambda: fit(K, G, Y)), seconds(lambda: least_work(K, G, Y))) for _ in range(arguments.repeats)
        ]
        arrays = peak_arrays(lambda: fit(K, G, Y), Y.nbytes, K.nbytes + G.nbytes)

    ratio = statistics.median(ours / least for ours, least in pairs)
    ours, least = (statistics.median(times) for times in zip(*pairs, strict=True))
    print(f"TwoStepRidge.fit, precomputed kernels, m = q = {arguments.size}, {THREADS} threads")
    print(f"  fit                      {ours:8.3f} s")
    print(f"  2 eigh + 4 products      {least:8.3f} s")
    print(f"  ratio                    {ratio:8.2f}     target <= {TARGET_RATIO}")
    print(f"  peak, arrays of m x q    {arrays:8.2f}     target <= {TARGET_ARRAYS:g}")
    print(
        f"  {datetime.date.today()}, Python {platform.python_version()}, numpy {np.__version__}, "
        f"scipy {scipy.__version__}, scikit-learn {sklearn.__version__}, dyadlearn {dyadlearn.__version__}"
    )
    return int(ratio > TARGET_RATIO or arrays > TARGET_ARRAYS)


if __name__ == "__main__":
    sys.exit(main())

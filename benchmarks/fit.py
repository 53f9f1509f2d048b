"""What fitting `TwoStepRidge` costs beside the linear algebra it cannot do without.

Two symmetric eigendecompositions and four matrix products are the least that a fit from precomputed
kernels needs. Both are timed in turns in the same run, so that the state of the machine touches
them alike, and the ratio of the medians is printed beside its target; so is the peak of memory,
counted in arrays of the size of the grid.

    python benchmarks/fit.py [--size 2000] [--repeats 5]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from measuring import THREADS, in_turns, peak_bytes, row, versions
from threadpoolctl import threadpool_limits

from dyadlearn import TwoStepRidge

TARGET_RATIO = 1.3
TARGET_ARRAYS = 6.0


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
    return TwoStepRidge(kernel="precomputed", task_kernel="precomputed", fit_intercept=False).fit(
        K, Y, tasks=G
    )


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--size", type=int, default=2000, help="instances and tasks (default: 2000)"
    )
    parser.add_argument("--repeats", type=int, default=5, help="interleaved repeats (default: 5)")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    K, G = make_kernel(arguments.size, rng), make_kernel(arguments.size, rng)
    Y = rng.standard_normal((arguments.size, arguments.size))
    with threadpool_limits(THREADS):
        np.testing.assert_allclose(
            fit(K, G, Y).dual_coef_, least_work(K, G, Y), rtol=1e-6, atol=1e-9
        )
        ours, least = in_turns(
            lambda: fit(K, G, Y), lambda: least_work(K, G, Y), repeats=arguments.repeats
        )
        # Kernels are there before; eigenvectors must be; the workspace of LAPACK is not traced.
        arrays = (peak_bytes(lambda: fit(K, G, Y)) - K.nbytes - G.nbytes) / Y.nbytes
    ratio = ours / least
    print(f"TwoStepRidge.fit, precomputed kernels, m = q = {arguments.size}")
    print(row("time over two eigh and four products", ratio, f"target <= {TARGET_RATIO}"))
    print(
        row(
            "peak memory beside the eigenvectors, in arrays of m × q",
            arrays,
            f"target <= {TARGET_ARRAYS:g}",
        )
    )
    print(versions())
    return int(ratio > TARGET_RATIO or arrays > TARGET_ARRAYS)


if __name__ == "__main__":
    sys.exit(main())

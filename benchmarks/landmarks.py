"""What landmarks cost, and what they leave of the kernel.

Choosing landmarks and making the features of all rows against what no choice can do without, the
kernel of all rows with r of them, and one product of n × r by r × r; features of new rows against
the same; all of these against the product alone; the peak of memory, counted in arrays of n × r;
and the relative trace error of randomly pivoted Cholesky, of uniform landmarks and of
scikit-learn's `Nystroem` at the same number of landmarks, for rows of several kinds: a cloud
without structure, clusters of which a few are rare, fingerprints in families under the Tanimoto
kernel, and the packages of the embedded data.

    python benchmarks/landmarks.py [--rows 20000] [--components 500] [--repeats 3]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import numpy as np
from measuring import THREADS, in_turns, peak_bytes, row, versions
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics.pairwise import KERNEL_PARAMS
from threadpoolctl import threadpool_limits

from dyadlearn import Landmarks
from dyadlearn.datasets import load_debtags
from dyadlearn.kernels import gram, gram_diagonal

TARGET_FIT = 1.5
TARGET_TRANSFORM = 1.2
TARGET_ARRAYS = 3.0
TARGET_WORST = 1.15
TARGET_RARE = 0.75
SEEDS = 5


def cloud(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return points of ten independent normal features."""
    return rng.standard_normal((n, 10))


def rare_clusters(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return points in 200 clusters, of which a cluster has a fraction of what the one before it has."""
    sizes = 0.95 ** np.arange(200)
    centres = 10 * rng.standard_normal((200, 10))
    return centres[rng.choice(200, size=n, p=sizes / sizes.sum())] + 0.3 * rng.standard_normal(
        (n, 10)
    )


def fingerprints(n: int, rng: np.random.Generator) -> np.ndarray:
    """Return random fingerprints in families."""
    families = rng.random((max(2, n // 20), 256)) < 0.1
    return (families[rng.integers(len(families), size=n)] ^ (rng.random((n, 256)) < 0.02)).astype(
        float
    )


def kinds(rng: np.random.Generator) -> Iterator[tuple[str, np.ndarray, str, dict[str, float]]]:
    """Yield rows of each kind with their kernel and its parameters."""
    yield "a cloud, rbf", cloud(3000, rng), "rbf", {"gamma": 0.05}
    yield "rare clusters, rbf", rare_clusters(3000, rng), "rbf", {"gamma": 0.05}
    yield "fingerprints, tanimoto", fingerprints(2000, rng), "tanimoto", {}
    yield "packages, cosine", np.asarray(load_debtags().X.toarray(), dtype=float), "cosine", {}


def nystroem_error(
    X: np.ndarray, kernel: str, params: dict[str, float], r: int, seed: int
) -> float:
    """Return the relative trace error of scikit-learn's features."""
    diagonal = gram_diagonal(X, kernel=kernel, kernel_params=params)
    if kernel not in KERNEL_PARAMS:
        return float("nan")  # one that scikit-learn does not have
    made = Nystroem(kernel=kernel, gamma=params.get("gamma"), n_components=r, random_state=seed)
    features = made.fit_transform(X)
    return float((diagonal - np.sum(features**2, axis=1)).sum() / diagonal.sum())


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=20_000, help="rows n (default: 20000)")
    parser.add_argument("--components", type=int, default=500, help="landmarks r (default: 500)")
    parser.add_argument("--repeats", type=int, default=3, help="interleaved repeats (default: 3)")
    arguments = parser.parse_args()
    n = arguments.rows
    r = arguments.components

    rng = np.random.default_rng(0)
    failed = False
    with threadpool_limits(THREADS):
        X = cloud(n, rng)
        params = {"gamma": 0.05}
        tall, square = rng.standard_normal((n, r)), rng.standard_normal((r, r))
        print(
            f"{n} rows, {r} landmarks: over the kernel with r rows and a product of n × r by r × "
            f"r; over this alone"
        )
        made = {
            method: Landmarks(r, kernel_params=params, method=method)
            for method in ("rpcholesky", "uniform")
        }
        fitted = made["rpcholesky"].fit(X)
        peer = Nystroem(gamma=0.05, n_components=r)
        product, kernel_time, *times = in_turns(
            lambda: tall @ square,
            lambda: gram(X, X[:r], kernel="rbf", kernel_params=params),
            lambda: made["rpcholesky"].fit_transform(X),
            lambda: made["uniform"].fit_transform(X),
            lambda: peer.fit_transform(X),
            lambda: fitted.transform(X),
            repeats=arguments.repeats,
        )
        names = (
            "choosing by pivots, and all features",
            "uniformly",
            "Nystroem of scikit-learn",
            "features of new rows",
        )
        targets = (TARGET_FIT, TARGET_FIT, None, TARGET_TRANSFORM)
        for name, time, target in zip(names, times, targets, strict=True):
            ratio = time / (product + kernel_time)
            print(
                row(
                    name,
                    ratio,
                    f"({time / product:.2f})"
                    + ("" if target is None else f"   target <= {target}"),
                )
            )
            failed |= target is not None and ratio > target
        arrays = peak_bytes(lambda: made["rpcholesky"].fit_transform(X)) / tall.nbytes
        print(row("peak memory, in arrays of n × r", arrays, f"target <= {TARGET_ARRAYS:g}"))
        failed |= arrays > TARGET_ARRAYS

        print(
            f"  relative trace error, mean of {SEEDS} seeds            pivots   uniform  Nystroem  "
            f" pivots / uniform"
        )
        for name, X, kernel, params in kinds(rng):
            for r in (50, 200):
                ours = [
                    np.mean(
                        [
                            Landmarks(
                                r,
                                kernel=kernel,
                                kernel_params=params,
                                method=method,
                                random_state=seed,
                            )
                            .fit(X)
                            .error_
                            for seed in range(SEEDS)
                        ]
                    )
                    for method in made
                ]
                theirs = np.mean(
                    [nystroem_error(X, kernel, params, r, seed) for seed in range(SEEDS)]
                )
                if name.startswith("rare") and r == 200:
                    target = TARGET_RARE
                else:
                    target = TARGET_WORST
                ratio = ours[0] / ours[1]
                label = f"{name}, {r} of {len(X)}"
                figures = f"{ours[0]:9.4f} {ours[1]:9.4f} {theirs:9.4f} {ratio:18.3f}"
                print(f"  {label:<45} {figures}   target <= {target}", flush=True)
                failed |= ratio > target
    print(versions())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

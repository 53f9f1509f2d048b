"""Time of a search of missing labels, on a grid of the shape of the Metz kinase data: 1,421 × 156, 58 % missing.

The default search of two-step ridge regression in setting D, which goes from coarse to fine, is
timed on two threads. On a smaller grid all points are evaluated as well: the share of the best
score that the search loses is printed for smooth and rough kernels.

    python benchmarks/budget.py [--rows 1421] [--columns 156] [--missing 0.58]
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings

import numpy as np
from incomplete import rbf_side, rough_side
from measuring import THREADS, row, versions
from threadpoolctl import threadpool_limits

from dyadlearn import TwoStepRidgeCV

TARGET_SECONDS = 60.0
TARGET_LOSS = 0.005


def holed(
    kind: str, shape: tuple[int, int], missing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return two kernels and labels that are drawn from them, with noise and holes."""
    rng = np.random.default_rng(0)
    K, G = ((rough_side if kind == "rough" else rbf_side)(size, rng) for size in shape)
    left, right = (_root(kernel) for kernel in (K, G))
    Y = left @ rng.standard_normal(shape) @ right.T
    Y = 5.0 + Y / Y.std() + 0.7 * rng.standard_normal(shape)
    Y[rng.random(shape) < missing] = np.nan
    return K, G, Y


def _root(kernel: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(kernel)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def search(
    K: np.ndarray, G: np.ndarray, Y: np.ndarray, **options: object
) -> tuple[TwoStepRidgeCV, float, float]:
    """Return a fitted search with its wall time and processor time."""
    model = TwoStepRidgeCV(
        kernel="precomputed", task_kernel="precomputed", setting="D", progress=False, **options
    )
    wall = time.perf_counter()
    processor = time.process_time()
    model.fit(K, Y, tasks=G)
    return model, time.perf_counter() - wall, time.process_time() - processor


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1421, help="instances (default: 1421)")
    parser.add_argument("--columns", type=int, default=156, help="tasks (default: 156)")
    parser.add_argument(
        "--missing", type=float, default=0.58, help="share of missing cells (default: 0.58)"
    )
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed = False
    shape = (arguments.rows, arguments.columns)
    with threadpool_limits(THREADS):
        K, G, Y = holed("rough", shape, arguments.missing)
        print(
            f"Grid of {shape[0]} × {shape[1]}, {np.mean(np.isnan(Y)):.0%} missing, setting D, 25 "
            f"folds, 196 points"
        )
        fitted, wall, processor = search(K, G, Y)
        print(row("seconds, wall time", wall, f"target <= {TARGET_SECONDS:g} on two idle cores"))
        print(row("seconds, processor time", processor, ""))
        print(row("points evaluated", float(fitted.n_evaluated_), ""))
        small = (shape[0] // 4, shape[1] // 3)
        print(f"Grid of {small[0]} × {small[1]}")
        for kind in ("rough", "rbf"):
            data = holed(kind, small, arguments.missing)
            full, _, all_of_it = search(*data, exhaustive=True)
            fitted, _, processor = search(*data)
            alpha_at = int(np.flatnonzero(fitted.alphas_ == fitted.alpha_)[0])
            task_alpha_at = int(np.flatnonzero(fitted.task_alphas_ == fitted.task_alpha_)[0])
            place = (alpha_at, task_alpha_at)
            loss = (full.best_score_ - full.landscape_[place]) / abs(full.best_score_)
            print(
                row(
                    f"{kind}: share of the best score that is lost",
                    loss,
                    f"target <= {TARGET_LOSS:g}",
                )
            )
            print(
                row(
                    f"{kind}: processor time over that of the full search",
                    processor / all_of_it,
                    "",
                ),
                flush=True,
            )
            failed |= loss > TARGET_LOSS
    print(versions())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

"""What a search of labels with holes costs, on a grid of the shape of the Metz kinase data: 1,421 × 156, 58 % missing.

The default search of two-step ridge regression in setting D, which goes from coarse to fine, against the full one:
what it takes in seconds of processor time and in wall time on two threads, over what all of the grid would take (a few
of its points are solved as the full search does, in one run with the other, and counted up), and what was expected
before. On a smaller grid the full search is done, and what the other loses against its best score is told, for smooth
and rough kernels.

    python benchmarks/budget.py [--rows 1421] [--columns 156] [--missing 0.58] [--points 4]
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
TARGET_SHARE = 1 / 10


def holed(kind: str, shape: tuple[int, int], missing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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


def search(K: np.ndarray, G: np.ndarray, Y: np.ndarray, **options: object) -> tuple[TwoStepRidgeCV, float, float]:
    """Return a fitted search with its wall time and processor time."""
    model = TwoStepRidgeCV(kernel="precomputed", task_kernel="precomputed", setting="D", progress=False, **options)
    wall, processor = time.perf_counter(), time.process_time()
    model.fit(K, Y, tasks=G)
    return model, time.perf_counter() - wall, time.process_time() - processor


def main() -> int:
    """Measure, print, and return 1 where a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1421, help="instances (default: 1421)")
    parser.add_argument("--columns", type=int, default=156, help="tasks (default: 156)")
    parser.add_argument("--missing", type=float, default=0.58, help="share of missing cells (default: 0.58)")
    parser.add_argument("--points", type=int, default=4, help="points of the full search that are solved (default: 4)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    failed, shape = False, (arguments.rows, arguments.columns)
    with threadpool_limits(THREADS):
        K, G, Y = holed("rough", shape, arguments.missing)
        print(f"Grid of {shape[0]} × {shape[1]}, {np.mean(np.isnan(Y)):.0%} missing, setting D, 25 folds, 196 points")
        told = TwoStepRidgeCV(kernel="precomputed", task_kernel="precomputed", setting="D").expected_time(K, Y, G)
        print(f"  {told.in_words}")
        found, wall, processor = search(K, G, Y)
        print(row("seconds, wall time", wall, f"target <= {TARGET_SECONDS:g} on two idle cores"))
        print(row("seconds, processor time", processor, ""))
        print(row("expected over wall time", told.seconds / wall, ""))
        print(row("points in all folds", float(found.looked_at_.sum()), ""))
        powers = np.random.default_rng(1).uniform(-4, 4, size=arguments.points)
        _, _, some = search(K, G, Y, exhaustive=True, alphas=10.0**powers, task_alphas=[1e-1])
        _, _, one = search(K, G, Y, exhaustive=True, alphas=[1.0], task_alphas=[1e-1])
        each = (some - one) / (arguments.points - 1)
        share = processor / (one + 195 * each)
        print(row("processor time over that of the full search", share, f"target <= {TARGET_SHARE:g}"))
        failed |= share > TARGET_SHARE
        small = (shape[0] // 4, shape[1] // 3)
        print(f"Grid of {small[0]} × {small[1]}")
        for kind in ("rough", "rbf"):
            data = holed(kind, small, arguments.missing)
            full, _, all_of_it = search(*data, exhaustive=True)
            found, _, processor = search(*data)
            alphas, task_alphas = found._grids()
            place = alphas.index(found.alpha_), (task_alphas or []).index(found.task_alpha_)
            loss = (full.best_score_ - full.landscape_[place]) / abs(full.best_score_)
            print(row(f"{kind}: share of the best score that is lost", loss, f"target <= {TARGET_LOSS:g}"))
            print(row(f"{kind}: processor time over that of the full search", processor / all_of_it, ""), flush=True)
            failed |= loss > TARGET_LOSS
    print(versions())
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

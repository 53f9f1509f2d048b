"""The ten best of 20,000 items for each of 100,000 users: time over the bare products and partitions, and memory.

python benchmarks/recommending.py [--users 100000] [--items 20000] [--repeats 1]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from measuring import THREADS, in_turns, peak_bytes, row, seconds, versions
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from dyadlearn import KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge, recommend

FEATURES, K, BLOCK = 64, 10, 2**25
# Labels to learn from: what is fitted has no part in the figures.
LEARNT = 300


def bare(users: np.ndarray, middle: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of the same blocks of products by a partition, with no care for ties or for what is known."""
    places, scores, step = [], [], max(1, BLOCK // (8 * len(items)))
    half = users @ middle
    for start in range(0, len(users), step):
        F = half[start : start + step] @ items.T
        best = np.argpartition(F, -K, axis=1)[:, -K:]
        values = np.take_along_axis(F, best, axis=1)
        order = np.argsort(-values, axis=1)
        places.append(np.take_along_axis(best, order, axis=1))
        scores.append(np.take_along_axis(values, order, axis=1))
    return np.concatenate(places), np.concatenate(scores)


def works(
    model: Any, users: np.ndarray, middle: np.ndarray, items: np.ndarray, known: csr_array
) -> list[Callable[[], object]]:
    """Return what is timed: bare products and partitions, recommending, and the same without what is known."""
    return [
        lambda: bare(users, middle, items),
        lambda: recommend(model, X=users, n=K),
        lambda: recommend(model, X=users, n=K, known=known),
    ]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=100_000)
    parser.add_argument("--items", type=int, default=20_000)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    users, items = (rng.normal(size=(n, FEATURES)) for n in (args.users, args.items))
    middle = rng.normal(size=(FEATURES, FEATURES))
    labels = users[:LEARNT] @ middle @ items.T
    seen = rng.integers(args.items, size=(args.users, 50)).ravel()
    known = csr_array((np.ones(len(seen)), seen, np.arange(0, len(seen) + 1, 50)), shape=(args.users, args.items))
    models = {
        "OnlineTwoStepRidge": OnlineTwoStepRidge(),
        "TwoStepRidge": TwoStepRidge(),
        "KroneckerRidge": KroneckerRidge(),
    }
    print(f"The {K} best of {args.items:,} items for {args.users:,} users, {FEATURES} features each side")
    with threadpool_limits(THREADS):
        for name, model in models.items():
            model.fit(users[:LEARNT], labels, tasks=items)
            few = slice(0, args.users // 10)
            products, plain, without = in_turns(*works(model, users[few], middle, items, known[few]), repeats=3)
            print(row(f"{name}, a tenth of the users, over products and partitions", plain / products, "≤ 2"))
            print(row(f"{name}, 50 known pairs of each left out", without / products, "≤ 2"))
        model = models["OnlineTwoStepRidge"]
        products, plain, without = (seconds(work) for work in works(model, users, middle, items, known))
        print(row(f"all users, over products and partitions ({products:.0f} s)", plain / products, "≤ 2"))
        print(row("all users, 50 known pairs of each left out", without / products, "≤ 2"))
        peak = peak_bytes(lambda: recommend(model, X=users, n=K, known=known))
        print(row("peak memory, in GiB", peak / 2**30, ""))
        print(row("the same over the grid of predictions", peak / (8 * args.users * args.items), "≤ 0.03"))
    print(versions())


if __name__ == "__main__":
    main()

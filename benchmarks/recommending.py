"""The ten best of 20,000 items for each of 100,000 users: time over the bare products and partitions, and memory.

python benchmarks/recommending.py [--users 100000] [--items 20000] [--repeats 1]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from measuring import THREADS, in_turns, peak_bytes, row, seconds, versions
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from dyadlearn import KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge, recommend

FEATURES = 64
K = 10
BLOCK = 2**25
# Labels to learn from: what is fitted has no part in the figures.
LEARNT = 300


def bare(users: np.ndarray, middle: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the best of the same blocks of products by a partition, with no care for ties or for what is known."""
    places = []
    scores = []
    step = max(1, BLOCK // (8 * len(items)))
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


def rating_and_list(
    rng: np.random.Generator, indicators: bool, m: int = 943, q: int = 1682
) -> float:
    """Return the median processor time, in ms, of one rating of a known user and then a list for that user.

    With `indicators`, each item has a feature of its own in addition to 19 others.
    """
    users = [f"u{i}" for i in range(m)]
    items = [f"i{j}" for j in range(q)]
    X = pd.DataFrame(rng.random((m, 24)) < 0.2, users).astype(float)
    tasks = np.hstack([rng.random((q, 19)) < 0.2, np.eye(q) if indicators else np.zeros((q, 0))])
    # Each item has a label, so that the second step goes over the same items before and after a
    # rating.
    share = np.maximum(0.05 * rng.random(q) ** 3 / 0.2, 0.01)
    Y = np.where(rng.random((m, q)) < share, rng.integers(1, 6, size=(m, q)), np.nan)
    Y[rng.integers(m, size=q), np.arange(q)] = 3.0
    model = OnlineTwoStepRidge(keep_labels=True, row_alpha=5.0)
    model.fit(X, pd.DataFrame(Y, users, items), tasks=pd.DataFrame(tasks, items))
    times = []
    for place in range(15):
        rating = pd.DataFrame(np.nan, [users[place]], items)
        rating.iloc[0, 7 * place] = 3.0
        start = time.process_time()
        model.partial_fit(X[place : place + 1], rating, known="replace")
        recommend(model, instance=users[place], n=K)
        times.append(time.process_time() - start)
    return 1000 * float(np.median(times))


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
    known = csr_array(
        (np.ones(len(seen)), seen, np.arange(0, len(seen) + 1, 50)), shape=(args.users, args.items)
    )
    models = {
        "OnlineTwoStepRidge": OnlineTwoStepRidge(),
        "TwoStepRidge": TwoStepRidge(),
        "KroneckerRidge": KroneckerRidge(),
    }
    print(
        f"The {K} best of {args.items:,} items for {args.users:,} users, {FEATURES} features each "
        f"side"
    )
    with threadpool_limits(THREADS):
        for name, model in models.items():
            model.fit(users[:LEARNT], labels, tasks=items)
            few = slice(0, args.users // 10)
            products, plain, without = in_turns(
                *works(model, users[few], middle, items, known[few]), repeats=3
            )
            print(
                row(
                    f"{name}, a tenth of the users, over products and partitions",
                    plain / products,
                    "≤ 2",
                )
            )
            print(row(f"{name}, 50 known pairs of each left out", without / products, "≤ 2"))
        model = models["OnlineTwoStepRidge"]
        products, plain, without = (
            seconds(work) for work in works(model, users, middle, items, known)
        )
        print(
            row(
                f"all users, over products and partitions ({products:.0f} s)",
                plain / products,
                "≤ 2",
            )
        )
        print(row("all users, 50 known pairs of each left out", without / products, "≤ 2"))
        peak = peak_bytes(lambda: recommend(model, X=users, n=K, known=known))
        print(row("peak memory, in GiB", peak / 2**30, ""))
        print(
            row(
                "the same over the grid of predictions",
                peak / (8 * args.users * args.items),
                "≤ 0.03",
            )
        )
    with threadpool_limits(1):
        print(row("a rating and then a list, 943 × 1,682, ms", rating_and_list(rng, False), "≤ 50"))
        print(row("the same with an indicator of each item, ms", rating_and_list(rng, True), ""))
    print(versions())


if __name__ == "__main__":
    main()

"""Lists from likes that features explain little: features alone, popularity, and known users and items.

    python experiments/likes.py [--seeds 5] [--users 150] [--items 80]

A quarter of the likes is hidden, and NDCG@10 measures how well the lists of the other items find
them. Confidences of 41 and 1 are those of implicit feedback (Hu, Koren and Volinsky, 2008) with one
play per like.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from dyadlearn import KroneckerRidge, LearnedKernelRidge, PairKernelRidgeCV


def simulated(seed: int, m: int, q: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return features of users and items, likes to learn from, and hidden likes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(m, 2))
    T = rng.normal(size=(q, 3))
    described = 0.15 * X @ rng.normal(size=(2, 3)) @ T.T
    factors = np.hstack(
        [T[:, :1], rng.normal(size=(q, 3))]
    )  # only one property of an item is among its features
    score = 1.2 * rng.normal(size=q) + 0.7 * rng.normal(size=(m, 4)) @ factors.T + described - 3.0
    likes = rng.random((m, q)) < 1 / (1 + np.exp(-score))
    hidden = likes & (rng.random((m, q)) < 0.25)
    return X, T, likes & ~hidden, hidden


def ndcg(predictions: np.ndarray, known: np.ndarray, hidden: np.ndarray, n: int = 10) -> float:
    """Return the mean NDCG of the n best items that are not known, over users with hidden likes."""
    discounts = 1 / np.log2(np.arange(2, n + 2))
    order = np.argsort(-np.where(known, -np.inf, predictions), axis=1, kind="stable")[:, :n]
    gains = np.take_along_axis(hidden, order, axis=1) @ discounts
    users = hidden.any(axis=1)
    best = np.array([discounts[: min(n, n_hidden)].sum() for n_hidden in hidden[users].sum(axis=1)])
    return float((gains[users] / best).mean())


def scores(seed: int, m: int, q: int) -> dict[str, float]:
    """Return NDCG@10 of each way to make lists."""
    X, T, known, hidden = simulated(seed, m, q)
    labels = known.astype(float)
    confidence = np.where(known, 41.0, 1.0)
    predictions = {"popularity": np.broadcast_to(labels.sum(axis=0), labels.shape)}
    for alpha in (1.0, 10.0, 100.0):
        model = KroneckerRidge(alpha).fit(X, labels, tasks=T, sample_weight=confidence)
        predictions[f"KroneckerRidge({alpha:g}), confidences"] = model.predict()
    search = PairKernelRidgeCV(setting="A", progress=False).fit(X, labels, tasks=T)
    predictions["PairKernelRidgeCV, setting A"] = search.holdout_
    learned = LearnedKernelRidge(setting="A", stages=1, random_state=0, progress=False).fit(
        X, labels, tasks=T
    )
    predictions["LearnedKernelRidge, setting A, one stage"] = learned.holdout("A")
    return {
        name: ndcg(np.asarray(predicted), known, hidden) for name, predicted in predictions.items()
    }


def main() -> None:
    """Print the mean of each score and its standard error over seeds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option, default in (("--seeds", 5), ("--users", 150), ("--items", 80)):
        parser.add_argument(option, type=int, default=default)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = [scores(seed, options.users, options.items) for seed in range(options.seeds)]
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        print(f"{name}: {values.mean():.3f} ± {values.std(ddof=1) / len(values) ** 0.5:.3f}")


if __name__ == "__main__":
    main()

"""The same ratings for this library and for those of implicit, LightFM and Surprise that are installed.

    python experiments/recommenders.py [--users 2000] [--items 300]

Ratings are drawn from a function of features of users and items, so that whoever is told the
features has an advantage: this says what features are worth where they matter, and nothing of data
without any. A fifth of the users is new. Errors are those of held-out ratings; precision is the
share of ten recommended items that the user truly likes, of the tenth of all pairs that are liked
most, what was rated left out. Of each of the others the best of a few settings is shown, chosen by
these very figures; of this library one setting.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from collections.abc import Callable
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import coo_array, csr_matrix, eye, hstack
from threadpoolctl import threadpool_limits

from dyadlearn import KroneckerRidge, PairRegressor, recommend
from dyadlearn.datasets import make_dyads

FACTORS = 16
K = 10


class Ratings:
    """Ratings of known users to learn from, and others of known and of new users to ask for."""

    def __init__(self, n_users: int, n_items: int) -> None:
        kinds = {
            "n_features": 16,
            "n_task_features": 10,
            "kernel": "linear",
            "task_kernel": "linear",
            "rank": 4,
        }
        data = make_dyads(
            n_users,
            n_items,
            **kinds,
            mean=3.5,
            main_effects=0.5,
            noise=0.8,
            missing=0.9,
            random_state=0,
        )
        self.users = data.X
        self.items = data.tasks
        self.truth = data.truth
        self.user, self.item = np.nonzero(~np.isnan(data.Y))
        self.rating = data.Y[self.user, self.item]
        rng = np.random.default_rng(0)
        self.is_new = np.arange(n_users) >= 0.8 * n_users
        self.learnt = ~self.is_new[self.user] & (rng.random(len(self.user)) < 0.9)
        self.asked = {
            "known users": ~self.is_new[self.user] & ~self.learnt,
            "new users": self.is_new[self.user],
        }
        self.liked = self.truth > np.quantile(self.truth, 0.9)

    def matrix(self, values: np.ndarray | None = None) -> csr_matrix:
        """Return what was learnt from as a sparse matrix of the ratings, or of some other values."""
        values = self.rating[self.learnt] if values is None else values
        cells = (self.user[self.learnt], self.item[self.learnt])
        return csr_matrix(coo_array((values, cells), shape=self.truth.shape))

    @property
    def positive(self) -> csr_matrix:
        """What was learnt from as those see it who know of likes only: ratings above the mean."""
        values = self.rating[self.learnt]
        liked = self.matrix((values > values.mean()).astype(np.float32))
        liked.eliminate_zeros()
        return liked

    def errors(self, predicted: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> str:
        """Return the root mean squared errors of predictions for held-out ratings."""
        errors = [
            np.sqrt(np.mean((self.rating[part] - predicted(self.user[part], self.item[part])) ** 2))
            for part in self.asked.values()
        ]
        return "  ".join(f"{error:12.3f}" for error in errors)

    def precision(self, lists: np.ndarray, new: bool) -> float:
        """Return how many of the recommended items are liked, for known users or for new ones."""
        users = np.flatnonzero(self.is_new == new)
        return float(np.mean(self.liked[users[:, None], lists]))

    def best(self, scores: np.ndarray, new: bool) -> np.ndarray:
        """Return the best items by scores (n_users, n_items), what was rated left out."""
        scores = np.where(self.matrix().toarray() != 0, -np.inf, scores)[self.is_new == new]
        return np.argsort(-scores, axis=1)[:, :K]


def say(name: str, errors: str, precisions: list[float], seconds: float) -> None:
    """Print one line of the table."""
    print(
        f"  {name:<34} {errors or ' ' * 26}  {'  '.join(f'{precision:9.0%}' for precision in precisions)} "
        f"{seconds:8.1f} s"
    )


def item_means(data: Ratings) -> None:
    """Recommend to all what is liked most on average."""
    ratings = data.rating[data.learnt]
    items = data.item[data.learnt]
    mean, n_items = ratings.mean(), len(data.items)
    effect = np.bincount(items, ratings - mean, minlength=n_items) / (
        np.bincount(items, minlength=n_items) + 5
    )
    scores = np.broadcast_to(mean + effect, data.truth.shape)
    say(
        "item means",
        data.errors(lambda user, item: mean + effect[item]),
        [data.precision(data.best(scores, new), new) for new in (False, True)],
        0.0,
    )


def ours(data: Ratings) -> None:
    """Kronecker ridge regression on the features, with its own lists."""
    users = pd.DataFrame(data.users)
    items = pd.DataFrame(data.items)
    pairs = np.stack([data.user, data.item], axis=1)
    start = time.perf_counter()
    model = PairRegressor(KroneckerRidge(10.0), instances=users, tasks=items)
    model.fit(pairs[data.learnt], data.rating[data.learnt])
    seconds = time.perf_counter() - start
    precisions = []
    for new in (False, True):
        recommended = recommend(model, X=users[data.is_new == new], known=pairs[data.learnt], n=K)
        precisions.append(data.precision(np.array(recommended.ids), new))
    errors = data.errors(lambda user, item: model.predict(np.stack([user, item], axis=1)))
    say("dyadlearn, KroneckerRidge(10)", errors, precisions, seconds)


def _error(model: Any, data: Ratings) -> float:
    part = data.asked["known users"]
    asked = zip(data.user[part], data.item[part], data.rating[part], strict=True)
    return float(
        np.mean([(model.predict(user, item).est - rating) ** 2 for user, item, rating in asked])
    )


def surprise_of(data: Ratings) -> None:
    """Biases, and biases with factors; new users get the biases of the items."""
    from surprise import SVD, BaselineOnly, Dataset, Reader

    frame = pd.DataFrame({"user": data.user, "item": data.item, "rating": data.rating})[data.learnt]
    scale = (float(data.rating.min()), float(data.rating.max()))
    train = Dataset.load_from_df(frame, Reader(rating_scale=scale)).build_full_trainset()
    penalties = (0.02, 0.05, 0.1, 0.2)
    models = [
        SVD(n_factors=FACTORS, n_epochs=50, reg_all=penalty, random_state=0)
        for penalty in penalties
    ]
    best = min(models, key=lambda model: _error(model.fit(train), data))
    for model in (BaselineOnly(verbose=False), best):
        start = time.perf_counter()
        model.fit(train)
        seconds = time.perf_counter() - start

        def predicted(user: np.ndarray, item: np.ndarray, model=model) -> np.ndarray:
            return np.array(
                [
                    model.predict(user_id, other).est
                    for user_id, other in zip(user, item, strict=True)
                ]
            )

        n_users, n_items = data.truth.shape
        scores = predicted(
            np.repeat(np.arange(n_users), n_items), np.tile(np.arange(n_items), n_users)
        )
        scores = scores.reshape(n_users, n_items)
        precisions = [data.precision(data.best(scores, new), new) for new in (False, True)]
        say(f"Surprise, {type(model).__name__}", data.errors(predicted), precisions, seconds)


def implicit_of(data: Ratings) -> None:
    """Factors of likes, which new users have none of."""
    from implicit.als import AlternatingLeastSquares

    users = np.flatnonzero(~data.is_new)
    liked = data.positive
    rated = data.matrix()
    tried = []
    for alpha, regularization in itertools.product((1.0, 10.0, 40.0), (0.01, 1.0, 10.0, 100.0)):
        model = AlternatingLeastSquares(
            FACTORS, regularization, alpha, random_state=0, num_threads=1
        )
        start = time.perf_counter()
        model.fit(liked, show_progress=False)
        seconds = time.perf_counter() - start
        lists, _ = model.recommend(users, rated[users], N=K)
        tried.append((data.precision(lists, False), seconds))
    precision, seconds = max(tried)
    say("implicit, AlternatingLeastSquares", "", [precision], seconds)


def lightfm_of(data: Ratings) -> None:
    """Factors of features, and of users and items themselves."""
    from lightfm import LightFM

    n_users, n_items = data.truth.shape
    pairs = (np.repeat(np.arange(n_users), n_items), np.tile(np.arange(n_items), n_users))
    tried = []
    for has_identity, epochs in itertools.product((False, True), (5, 20, 60)):
        sides = [csr_matrix(side, dtype=np.float32) for side in (data.users, data.items)]
        if has_identity:
            sides = [
                csr_matrix(hstack([eye(side.shape[0]), side]), dtype=np.float32) for side in sides
            ]
        features = dict(zip(("user_features", "item_features"), sides, strict=True))
        model = LightFM(no_components=FACTORS, loss="warp", random_state=0)
        start = time.perf_counter()
        model.fit(data.positive.tocoo(), **features, epochs=epochs)
        seconds = time.perf_counter() - start
        scores = model.predict(*pairs, **features).reshape(n_users, n_items)
        tried.append(
            ([data.precision(data.best(scores, new), new) for new in (False, True)], seconds)
        )
    precisions, seconds = max(tried)
    say("LightFM, warp", "", precisions, seconds)


OTHERS = {
    "surprise": ("scikit-surprise", surprise_of),
    "implicit": ("implicit", implicit_of),
    "lightfm": ("lightfm", lightfm_of),
}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--items", type=int, default=300)
    args = parser.parse_args()
    data = Ratings(args.users, args.items)
    print(f"{data.learnt.sum():,} ratings of {(~data.is_new).sum():,} users and {args.items} items")
    print(f"  {'':<34} {'error: known':>12}  {'new':>12}  {'precision':>9}  {'new':>9} {'fit':>9}")
    there = {name: find_spec(name) is not None for name in OTHERS}
    with threadpool_limits(1):
        item_means(data)
        ours(data)
        for name, (_, work) in OTHERS.items():
            if there[name]:
                work(data)
    told = [f"{package} {version(package)}" for name, (package, _) in OTHERS.items() if there[name]]
    absent = [package for name, (package, _) in OTHERS.items() if not there[name]]
    print(
        f"  {date.today()}, {platform.machine()}, "
        f"{', '.join(['dyadlearn ' + version('dyadlearn'), *told])}"
    )
    print(f"  not installed: {', '.join(absent) or 'none'}")


if __name__ == "__main__":
    main()

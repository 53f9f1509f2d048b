"""The estimators of pair kernels: the tests of every model of pairs, shares that are chosen, rows that are known."""

from __future__ import annotations

import numpy as np

from dyadlearn import (
    PairKernelRidge,
)
from pairing_case import NEW, PairingCase
from sweeps import covering, over

PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed", "tol": 1e-12}


def named(shares):
    return dict(zip(("product", "per_task", "per_instance"), shares, strict=True))


class PairKernelCase(PairingCase):
    """Shares, with or without a free mean beside kernels with a constant."""

    shares = (1.0, 0.0, 0.0)
    fit_intercept = False

    def estimator(self, alpha, task_alpha):
        return PairKernelRidge(alpha, **named(self.shares), fit_intercept=self.fit_intercept, **PRECOMPUTED)

    def pairs(self, K, G, alpha, task_alpha):
        a, b, c = self.shares
        K, G = K + self.fit_intercept, G + self.fit_intercept
        return a * np.kron(K, G) + b * np.kron(K, np.eye(len(G))) + c * np.kron(np.eye(len(K)), G), alpha

    def fitted(self, K, G, Y, alphas, weights, seen, known):
        if not self.fit_intercept:
            return super().fitted(K, G, Y, alphas, weights, seen, known)
        P, ridge = self.pairs(K, G, *alphas)
        at = np.flatnonzero(~np.isnan(np.where(np.outer(seen, known), Y, np.nan)))
        inverse = 1.0 if weights is None else 1.0 / weights.ravel()[at]
        system = np.ones((at.size + 1, at.size + 1))
        system[:-1, :-1] = P[np.ix_(at, at)] + ridge * inverse * np.eye(at.size)
        system[-1, -1] = 0.0
        found = np.linalg.solve(system, np.append(Y.ravel()[at], 0.0))
        return (P[:, at] @ found[:-1] + found[-1]).reshape(Y.shape)

    def labels(self, rng, m, q):
        return rng.normal(size=(m, q)) + 3.0

    def of_training(self, model, K):
        return model.predict(None)

    @over(
        covering(
            shape={"tall": (6, 4), "wide": (4, 6)},
            kinds=[("full", "full"), ("singular", "full"), ("primal", "singular")],
            alphas=[(0.5, 0.2), (1e-3, 10.0), (1e3, 1e-2)],
        )
    )
    def test_predictions(self, shape, kinds, alphas):
        """Of rows of training None asks; new ones are cells of a larger grid without labels."""
        K, G, Y = self.sides(shape, kinds)
        (m, q), model = Y.shape, self.fit(K, G, Y, alphas)
        larger = np.full((m + NEW, q + NEW), np.nan)
        larger[:m, :q] = Y
        expected = self.fitted(K, G, larger, alphas, None, np.arange(m + NEW) < m, np.arange(q + NEW) < q)
        new_rows, new_tasks = K[m:, :m], G[q:, :q]
        for rows, tasks, block in (
            (None, None, expected[:m, :q]),
            (new_rows, None, expected[m:, :q]),
            (None, new_tasks, expected[:m, q:]),
            (new_rows, new_tasks, expected[m:, q:]),
        ):
            self.check(model.predict(rows, tasks=tasks), block, 1e-9)
            pairs = np.argwhere(np.ones(block.shape))[::-2]
            self.check(model.predict_pairs(rows, tasks, pairs), block[tuple(pairs.T)], 1e-9)


class TestProduct(PairKernelCase):
    fit_intercept = True
    takes_weights = False


class TestFunctionOfEachTask(PairKernelCase):
    shares = (0.7, 0.4, 0.0)


class TestAllThree(PairKernelCase):
    shares = (0.6, 0.3, 0.2)
    fit_intercept = True
    takes_weights = False


class TestCartesian(PairKernelCase):
    shares = (0.0, 1.0, 0.5)
    fit_intercept = True
    takes_weights = False

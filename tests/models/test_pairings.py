"""Every model of pairs through the same tests: what it is stands in a few lines."""

from __future__ import annotations

import numpy as np

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from pairing_case import PairingCase
from problems import residual_of

PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed", "tol": 1e-12}


class TestKroneckerRidge(PairingCase):
    def estimator(self, alpha, task_alpha):
        return KroneckerRidge(alpha, **PRECOMPUTED)

    def pairs(self, K, G, alpha, task_alpha):
        return np.kron(K, G), alpha


class TestIndependentTaskRidge(PairingCase):
    settings = settings_with_holes = "AB"
    knows_tasks = False

    def estimator(self, alpha, task_alpha):
        return IndependentTaskRidge(alpha, kernel="precomputed")

    def pairs(self, K, G, alpha, task_alpha):
        return np.kron(K, np.eye(len(G))), alpha


class TestTwoStepRidge(PairingCase):
    def estimator(self, alpha, task_alpha):
        return TwoStepRidge(alpha, task_alpha, **PRECOMPUTED)

    def pairs(self, K, G, alpha, task_alpha):
        R, task_R = residual_of(K, alpha), residual_of(G, task_alpha)
        H, task_H = K @ R / alpha, G @ task_R / task_alpha
        return np.kron(H, task_H) @ np.linalg.inv(np.kron(R, np.eye(len(G))) + np.kron(H, task_R)), 1.0

    def fitted(self, K, G, Y, alphas, weights, seen, known):
        """Fit the rows and columns that stay, complete their grid, and predict all others from that."""
        own, task_own = K[np.ix_(seen, seen)], G[np.ix_(known, known)]
        labels = Y[np.ix_(seen, known)]
        P, _ = self.pairs(own, task_own, *alphas)
        at = np.flatnonzero(~np.isnan(labels))
        inverse = 1.0 if weights is None else 1.0 / weights[np.ix_(seen, known)].ravel()[at]
        dual = np.zeros(labels.size)
        dual[at] = np.linalg.solve(P[np.ix_(at, at)] + inverse * np.eye(at.size), labels.ravel()[at])
        completed = (P @ dual + dual).reshape(labels.shape)
        left = K[:, seen] @ np.linalg.inv(own + alphas[0] * np.eye(len(own)))
        right = G[:, known] @ np.linalg.inv(task_own + alphas[1] * np.eye(len(task_own)))
        return left @ completed @ right.T


class TestNetwork(TestTwoStepRidge):
    """One set of nodes on both sides: an edge leaves with its transpose, a vertex on both sides."""

    settings_with_holes = "A"
    takes_groups = takes_weights = knows_tasks = False

    def estimator(self, alpha, task_alpha):
        return TwoStepRidge(alpha, alpha, kernel="precomputed", symmetry="symmetric", tol=1e-12)

    def shape(self, shape):
        return shape[0], shape[0]

    def labels(self, rng, m, q):
        Y = rng.normal(size=(m, m))
        return Y + Y.T

    def sides(self, shape, kinds, seed=0):
        K, _, Y = super().sides(shape, kinds, seed)
        return K, K, Y

    def with_holes(self, Y, missing=True):
        Y = super().with_holes(Y, missing)
        return Y + 0 * Y.T

    def fit(self, K, G, Y, alphas, weights=None):
        given = {} if weights is None else {"sample_weight": weights}
        return self.estimator(*alphas).fit(K[: len(Y), : len(Y)], Y, **given)

    def fitted(self, K, G, Y, alphas, weights, seen, known):
        return super().fitted(K, K, Y, (alphas[0], alphas[0]), weights, seen, known)

    def leaves(self, letter, rows, columns):
        hidden = np.zeros((rows.size, rows.size), dtype=bool)
        if letter == "A":
            return np.outer(rows, columns) | np.outer(columns, rows), rows | True, rows | True
        stay = ~{"B": rows, "C": columns, "D": rows | columns}[letter]
        return hidden, stay, stay

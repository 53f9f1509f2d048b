"""Every model of pairs through the same tests: what it is stands in a few lines."""

from __future__ import annotations

import numpy as np

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from pairing_case import KnownRowsCase, PairingCase, remembered
from problems import bordered, predictor, two_step_pairs

# Parts of the twin that many folds share.
predictor_of = remembered(predictor)
two_step_pairs_of = remembered(two_step_pairs)
PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed", "tol": 1e-12}


class TestKroneckerRidge(PairingCase):
    def estimator(self, alpha, task_alpha):
        return KroneckerRidge(alpha, fit_intercept=self.constant, **PRECOMPUTED)

    def pairs(self, K, G, alpha, task_alpha):
        return np.kron(K + self.constant, G + self.constant), alpha


class TestKroneckerRidgeWithConstants(TestKroneckerRidge):
    constant = True


class TestKroneckerRidgeWithWeightsOfMainEffects(PairingCase):
    """Kernels K + a and G + b, with other constants than 1."""

    constant = True
    levels = (0.3, 4.0)

    def estimator(self, alpha, task_alpha):
        return KroneckerRidge(alpha, constants=self.levels, **PRECOMPUTED)

    def pairs(self, K, G, alpha, task_alpha):
        return np.kron(K + self.levels[0], G + self.levels[1]), alpha

    def exchanged(self):
        case = type(self)()
        case.levels = self.levels[::-1]
        return case


class TestKroneckerRidgeWithoutEffectsOfTasks(TestKroneckerRidgeWithWeightsOfMainEffects):
    levels = (0.0, 2.0)


class TestIndependentTaskRidge(PairingCase):
    settings = settings_with_holes = "AB"
    knows_tasks = False

    def estimator(self, alpha, task_alpha):
        return IndependentTaskRidge(alpha, fit_intercept=self.constant, kernel="precomputed")

    def pairs(self, K, G, alpha, task_alpha):
        return np.kron(K, np.eye(len(G))), alpha


class TestIndependentTaskRidgeWithConstants(TestIndependentTaskRidge):
    constant = True

    def dual(self, K, G, Y, alphas):
        return self.dual_of_tasks(K, Y, alphas[0])

    def fitted(self, K, G, Y, alphas, weights, seen, known):
        """Every task has a system with a border, and a constant, of its own."""
        result = np.full(Y.shape, np.nan)
        for task, labels in enumerate(np.where(seen[:, None], Y, np.nan).T):
            o = ~np.isnan(labels)
            if o.any():
                inverse = 1.0 if weights is None else 1.0 / weights[o, task]
                dual, mean = bordered(
                    K[np.ix_(o, o)] + alphas[0] * inverse * np.eye(o.sum()), labels[o]
                )
                result[:, task] = K[:, o] @ dual + mean
        return result


class TestTwoStepRidge(PairingCase):
    has_one_alpha = False

    def estimator(self, alpha, task_alpha):
        return TwoStepRidge(alpha, task_alpha, fit_intercept=self.constant, **PRECOMPUTED)

    def dual(self, K, G, Y, alphas):
        return self.dual_of_tasks(G, self.dual_of_tasks(K, Y, alphas[0]).T, alphas[1]).T

    def fitted(self, K, G, Y, alphas, weights, seen, known):
        """Fit the rows and columns that stay, complete their grid, and predict all others from that."""
        labels = Y[np.ix_(seen, known)]
        P = two_step_pairs_of(
            K[np.ix_(seen, seen)], G[np.ix_(known, known)], *alphas, self.constant
        )
        at = np.flatnonzero(~np.isnan(labels))
        if weights is None:
            inverse = 1.0
        else:
            inverse = 1.0 / weights[np.ix_(seen, known)].ravel()[at]
        dual = np.zeros(labels.size)
        dual[at], mean = self.solved(
            P[np.ix_(at, at)] + inverse * np.eye(at.size), labels.ravel()[at]
        )
        completed = (P @ dual + dual + mean).reshape(labels.shape)
        left = predictor_of(K, seen, alphas[0], self.constant)
        right = predictor_of(G, known, alphas[1], self.constant)
        return left @ completed @ right.T


class TestTwoStepRidgeWithConstants(TestTwoStepRidge):
    constant = True


class TestNetwork(TestTwoStepRidge):
    """One set of nodes on both sides: an edge leaves with its transpose, a vertex on both sides."""

    settings_with_holes = "A"
    takes_groups = takes_weights = knows_tasks = False

    def estimator(self, alpha, task_alpha):
        options = {"kernel": "precomputed", "symmetry": "symmetric", "tol": 1e-12}
        return TwoStepRidge(alpha, alpha, fit_intercept=self.constant, **options)

    def shape(self, shape):
        return shape[0], shape[0]

    def labels(self, rng, m, q):
        Y = super().labels(rng, m, m)
        return Y + Y.T

    def unit(self, shape, row, column):
        unit = super().unit(shape, row, column)
        return (unit + unit.T) / 2

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

    def dual(self, K, G, Y, alphas):
        return super().dual(K, K, Y, (alphas[0], alphas[0]))

    def leaves(self, letter, rows, columns):
        hidden = np.zeros((rows.size, rows.size), dtype=bool)
        if letter == "A":
            return np.outer(rows, columns) | np.outer(columns, rows), rows | True, rows | True
        stay = ~{"B": rows, "C": columns, "D": rows | columns}[letter]
        return hidden, stay, stay


class TestNetworkWithConstants(TestNetwork):
    constant = True


class TestTwoStepRidgeWithIdentity(KnownRowsCase, TestTwoStepRidge):
    """The kernels K + δI and G + εI are written out in the reference."""

    constant = True
    identity = (0.7, 0.3)

    def estimator(self, alpha, task_alpha):
        return super().estimator(alpha, task_alpha).set_params(identity=self.identity)

    def kernels(self, K, G):
        return tuple(
            each + share * np.eye(len(each))
            for each, share in zip((K, G), self.identity, strict=True)
        )

    def fitted(self, K, G, *given):
        return super().fitted(*self.kernels(K, G), *given)

    def dual(self, K, G, *given):
        return super().dual(*self.kernels(K, G), *given)

    def exchanged(self):
        case = type(self)()
        case.identity = self.identity[::-1]
        return case


class TestTwoStepRidgeWithIdentityOfTasks(TestTwoStepRidgeWithIdentity):
    constant = False
    identity = (0.0, 0.5)


class TestNetworkWithIdentity(TestTwoStepRidgeWithIdentity, TestNetwork):
    identity = (0.4, 0.4)

    def test_predictions(self):
        """Nodes are on both sides, of which None means the same."""
        K, G, Y = self.sides((6, 6), ("full", "full"))
        everything = np.ones(len(Y), dtype=bool)
        expected = self.fitted(K[:6, :6], K[:6, :6], Y, (0.5, 0.5), None, everything, everything)
        self.check(self.fit(K, G, Y, (0.5, 0.5)).predict(), expected, 1e-9)

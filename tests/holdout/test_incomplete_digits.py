"""How many digits are right where labels are missing or weighted: a reference in 50-digit arithmetic."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import coo_array, issparse

from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge, evaluate
from dyadlearn.holdout import holdout
from dyadlearn.spectrum import Spectrum
from problems import posed
from sweeps import every, lines, over

ALPHAS = [1e-10, 1.0, 1e10]
M = 4
Q = 3
HOLES = {"a block": [(0, 0)], "scattered": [(0, 0), (1, 2), (3, 0)]}
CELLS = [(0, 1), (2, 0), (3, 2)]


pytestmark = pytest.mark.usefixtures("fifty_digits")


@pytest.fixture(scope="module")
def data(cases):
    """Give two well-conditioned kernels, labels, and weights."""
    rng = np.random.default_rng(5)
    K = cases.gram(M, M, rng)
    G = cases.gram(Q, Q, rng)
    Y = rng.normal(size=(M, Q))
    return K, G, Y, rng.uniform(0.3, 3.0, size=(M, Q))


def with_holes(Y, name):
    labels = Y.copy()
    labels[tuple(zip(*HOLES[name], strict=True))] = np.nan
    return labels


def pairwise(kernel, ridge, labels, weights, cell):
    """Return what ridge regression on the observed pairs but one predicts for it; `kernel` takes two pairs."""
    pairs = [pair for pair in zip(*np.nonzero(~np.isnan(labels)), strict=True) if pair != cell]
    system = mpmath.matrix([[kernel(a, b) for b in pairs] for a in pairs])
    for s, pair in enumerate(pairs):
        system[s, s] += mpmath.mpf(ridge) / (1 if weights is None else mpmath.mpf(weights[pair]))
    dual = mpmath.cholesky_solve(system, mpmath.matrix([labels[pair] for pair in pairs]))
    return mpmath.fsum(kernel(cell, pair) * dual[s] for s, pair in enumerate(pairs))


def of_one_task(labels, task):
    """Return the labels of one task alone, for tasks of which none says anything of another."""
    return np.where(np.arange(labels.shape[1]) == task, labels, np.nan)


def own_kernel(K, G, alpha, task_alpha):
    """Return the kernel Ξ of two-step on the pairs, from its definition."""
    K = mpmath.matrix(K.tolist())
    G = mpmath.matrix(G.tolist())
    k, U = mpmath.eigsy(K)
    g, V = mpmath.eigsy(G)
    alpha = mpmath.mpf(alpha)
    task_alpha = mpmath.mpf(task_alpha)
    values = mpmath.matrix(M, Q)
    for i in range(M):
        for j in range(Q):
            values[i, j] = k[i] * g[j] / (alpha * task_alpha + task_alpha * k[i] + alpha * g[j])

    basis = mpmath.matrix(
        [
            [U[i, a] * V[j, b] for a in range(M) for b in range(Q)]
            for i in range(M)
            for j in range(Q)
        ]
    )
    dense = basis * mpmath.diag(list(values)) * basis.T
    return lambda a, b: dense[int(a[0]) * Q + int(a[1]), int(b[0]) * Q + int(b[1])]


def worst_error(found, expected):
    largest = max(abs(value) for value in expected.values())
    return float(
        max(abs(mpmath.mpf(float(found[cell])) - value) for cell, value in expected.items())
        / largest
    )


@over(every(alpha=ALPHAS, weighted={"": False, "weighted": True}))
def test_single_cells_of_kronecker_and_of_independent_tasks(data, alpha, weighted):
    K, G, Y, weights = data
    labels = with_holes(Y, "scattered")
    weights = weights if weighted else None
    spectra = Spectrum.from_gram(K), Spectrum.from_gram(G)
    exact = mpmath.matrix(K.tolist()), mpmath.matrix(G.tolist())

    def kronecker(a, b):
        return exact[0][int(a[0]), int(b[0])] * exact[1][int(a[1]), int(b[1])]

    def independent(a, b):
        return exact[0][int(a[0]), int(b[0])]

    problem = posed("kronecker", labels, spectra[0], alpha, spectra[1], weights=weights)
    expected = {cell: pairwise(kronecker, alpha, labels, weights, cell) for cell in CELLS}
    assert worst_error(holdout(problem, "A"), expected) < 1e-12
    problem = posed("independent", labels, spectra[0], alpha, weights=weights)
    expected = {
        cell: pairwise(independent, alpha, of_one_task(labels, cell[1]), weights, cell)
        for cell in CELLS
    }
    assert worst_error(holdout(problem, "A"), expected) < 1e-12


@over(lines("alpha task_alpha", (1e-10, 1e-10), (1.0, 1.0), (1e12, 1e12), (1e-10, 1e10)))
def test_single_cells_of_two_step(data, alpha, task_alpha):
    K, G, Y, _ = data
    kernel = own_kernel(K, G, alpha, task_alpha)
    for name in HOLES:
        labels = with_holes(Y, name)
        problem = posed(
            "two_step", labels, Spectrum.from_gram(K), alpha, Spectrum.from_gram(G), task_alpha
        )
        expected = {cell: pairwise(kernel, 1.0, labels, None, cell) for cell in CELLS}
        assert worst_error(holdout(problem, "A"), expected) < 1e-12, name


@over(every(alpha=[1e-12, 1e-9, 1e-6, 1.0, 1e9], weighted={"": False, "weighted": True}))
def test_rows_of_high_leverage_in_the_primal(alpha, weighted):
    """One word occurs in one text only: the smaller alpha, the nearer its leverage is to 1, and it is left out."""
    rng = np.random.default_rng(3)
    features = rng.poisson(0.6, size=(12, 4)).astype(float)
    features[:, 2] = 0.0
    features[4, 2] = 3.0
    labels = rng.normal(size=(12, 2))
    labels[1, 0] = labels[7, 1] = np.nan
    weights = rng.uniform(0.3, 3.0, size=(12, 2)) if weighted else None
    exact = mpmath.matrix(features.tolist()) * mpmath.matrix(features.T.tolist())

    def kernel(a, b):
        return exact[int(a[0]), int(b[0])]

    cells = [(4, 0), (4, 1), (0, 0), (9, 1)]
    expected = {
        cell: pairwise(kernel, alpha, of_one_task(labels, cell[1]), weights, cell) for cell in cells
    }
    problem = posed("independent", labels, Spectrum.from_features(features), alpha, weights=weights)
    for setting in "AB":
        found = holdout(problem, setting)
        assert np.isfinite(found).all()
        # As on complete labels: nothing is lost but what the eigenvalues themselves are uncertain
        # by.
        limit = max(1e-12, 10 * np.finfo(float).eps * np.linalg.norm(features, 2) ** 2 / alpha)
        assert worst_error(found, expected) < limit


@over(every(task_alpha=[1e3, 1e9, 1e15]))
def test_cells_beside_a_block_keep_their_digits_where_the_tasks_say_little(task_alpha):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(6, 4))
    task_features = rng.normal(size=(3, 5))
    K = features @ features.T
    G = task_features @ task_features.T
    Y = rng.normal(size=(6, 3))
    Y[1:3, :2] = np.nan
    problem = posed("two_step", Y, Spectrum.from_gram(K), 1e-3, Spectrum.from_gram(G), task_alpha)
    H = np.linalg.solve(K + 1e-3 * np.eye(6), K)
    task_H = np.linalg.solve(G + task_alpha * np.eye(3), G)
    hat = np.kron(H, task_H)
    found = holdout(problem, "A").ravel()
    for cell in np.flatnonzero(~np.isnan(Y.ravel())):
        hidden = np.isnan(Y.ravel())
        hidden[cell] = True
        gap = np.eye(hidden.sum()) - hat[np.ix_(hidden, hidden)]
        expected = np.linalg.solve(gap, hat[np.ix_(hidden, ~hidden)] @ Y.ravel()[~hidden])
        assert_allclose(found[cell], expected[np.flatnonzero(hidden) == cell][0], rtol=1e-10)
    empty = Spectrum.from_gram(np.zeros((3, 3)))
    assert_allclose(
        holdout(posed("two_step", Y, Spectrum.from_gram(K), 1e-3, empty, task_alpha), "A"),
        0.0,
        atol=0,
    )


def test_predictions_without_any_kernel_to_the_other_labels_are_exactly_zero():
    """In D only the product predicts. With a product of zero all predictions are zero, and none ranks above another."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(10, 3))
    T = rng.normal(size=(8, 2))
    Y = (rng.random((10, 8)) < 0.4) * 1.0
    Y[rng.random(Y.shape) < 0.15] = np.nan
    model = PairKernelRidge(product=0.0, per_task=1.0, per_instance=1.0, fit_intercept=False)
    model.fit(X, Y, tasks=T)
    assert_array_equal(model.holdout("D")[~np.isnan(Y)], 0.0)
    assert evaluate(model, "D", scoring="roc_auc")["roc_auc"] == [0.5]


class Blocked:
    """Labels of 10 × 8 of which the tasks 0 to 3 have a positive each, and share no function with the others."""

    def __init__(self, share_missing, kind, seed):
        rng = np.random.default_rng(seed)
        self.kind = kind
        self.X = rng.normal(size=(10, 3))
        self.Y = rng.normal(size=(10, 8))
        self.Y[:, :4] = 0.0
        self.Y[rng.integers(10, size=4), np.arange(4)] = 1.0
        self.Y[rng.random(self.Y.shape) < share_missing] = np.nan
        self.observed = np.isfinite(self.Y)
        self.weights = rng.uniform(0.5, 2.0, self.Y.shape) if kind == "weights" else None
        self.features = rng.normal(size=(8, 3))
        self.features[:4, 2] = 0.0
        self.features[4:, :2] = 0.0

    def held_out(self, model, setting):
        """Return held-out predictions; NaN at pairs that have none."""
        labels = self.Y
        if self.kind == "list":
            labels = coo_array(
                (self.Y[self.observed], np.nonzero(self.observed)), shape=self.Y.shape
            )
        model.fit(self.X, labels, tasks=self.features, sample_weight=self.weights)
        held_out = model.holdout(setting)
        if issparse(held_out):
            return np.where(self.observed, held_out.toarray(), np.nan)
        return held_out

    def without_positive(self, setting):
        """Return the pairs whose model has no positive label of the tasks 0 to 3."""
        is_zero = np.zeros(self.Y.shape, dtype=bool)
        is_positive = self.Y == 1.0
        for i, j in np.ndindex(10, 4):
            left = np.zeros(self.Y.shape, dtype=bool)
            if setting == "A":
                left[i, j] = True
            if setting in "BD":
                left[i] = True
            if setting in "CD":
                left[:, j] = True
            is_zero[i, j] = not (is_positive & ~left).any()
        return is_zero


ZEROS = every(
    missing=[0.0, 0.02, 0.15, 0.5, 0.8], kind=["grid", "list", "weights"], kernel=["linear", "rbf"]
)


@over(ZEROS)
@pytest.mark.parametrize("alpha", [1e-6, 1.0, 1e8])
def test_predictions_that_are_zero_in_a_refit_are_exactly_zero(alpha, missing, kind, kernel):
    """So they tie, with any regularisation: pairs without a label too."""
    for seed in range(2):
        case = Blocked(missing, kind, seed)
        model = PairKernelRidge(
            alpha, product=0.0, per_task=1.0, per_instance=1.0, fit_intercept=False, kernel=kernel
        )
        held_out = case.held_out(model, "D")
        assert not np.nan_to_num(held_out).any()
        for setting in "ABCD":
            models = [KroneckerRidge(alpha, fit_intercept=False, kernel=kernel)]
            if setting == "A":
                models.append(TwoStepRidge(alpha, 0.1, fit_intercept=False, kernel=kernel))
            for model in models:
                held_out = case.held_out(model, setting)
                asked = held_out[case.without_positive(setting)]
                assert not np.nan_to_num(asked).any()

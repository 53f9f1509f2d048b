"""How many digits of held-out predictions are right, by references in extended precision."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy.sparse import coo_array, issparse

import fifty_digits
import problems
from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import PairKernel
from dyadlearn.spectrum import Spectrum
from problems import posed
from references import left_out, reference
from sweeps import covering, every, over

M = 4
Q = 3


@pytest.fixture(scope="module")
def data():
    """Give two well-conditioned kernels, eigenvalues from 0.3 to 3, labels and weights."""
    rng = default_rng(11)
    K, G = (problems.gram(n, n, rng) for n in (M, Q))
    return K, G, rng.normal(size=(M, Q)), rng.uniform(0.3, 3.0, size=(M, Q))


def made(method, data, alphas, Y=None, weights=None, sign=1):
    """Return a problem and its reference."""
    K, G = data[:2]
    Y = data[2] if Y is None else Y
    sides = Spectrum.from_gram(K), Spectrum.from_gram(G)
    if method == "network":
        alphas = (alphas[0], alphas[0])
    problem = problems.posed(
        method, Y, sides[0], alphas[0], sides[1], alphas[1], sign=sign, weights=weights
    )
    return problem, reference(method, (K, G), alphas, Y, weights, sign=sign)


def largest_error(found, expected, where=None):
    """Return the largest error over the largest value."""
    where = np.ones(expected.shape, dtype=bool) if where is None else where
    return np.abs(found - expected)[where].max() / np.abs(expected)[where].max()


ALPHAS = [(1e-10, 1e-10), (1.0, 1.0), (1e12, 1e12), (1e-10, 1e10)]


@over(every(method=["independent", "two_step", "kronecker"], alphas=ALPHAS))
def test_complete_labels(data, method, alphas):
    problem, model = made(method, data, alphas)
    for setting in "AB" if method == "independent" else "ABCD":
        assert largest_error(holdout(problem, setting), left_out(model, setting)) < 1e-12, setting


@over(every(sign=[1, -1], alpha=[1e-10, 1.0, 1e10]))
def test_networks(data, alpha, sign):
    upper = default_rng(3).normal(size=(M, M))
    problem, model = made("network", data, (alpha, alpha), upper + sign * upper.T, sign=sign)
    for setting in "ABCD":
        assert largest_error(holdout(problem, setting), left_out(model, setting)) < 1e-12, setting


HOLES = {"a block": [(0, 0)], "scattered": [(0, 0), (1, 2), (3, 0)]}


@over(
    covering(
        method=["independent", "two_step", "kronecker"],
        alphas=ALPHAS,
        holes=HOLES,
        weighted=[False, True],
        # Two-step models with weights iterate, or solve for a dense kernel of the pairs.
        where=lambda method, weighted, **_: not weighted or method != "two_step",
    )
)
def test_missing_and_weighted_labels(data, method, alphas, holes, weighted):
    Y = data[2].copy()
    Y[tuple(zip(*holes, strict=True))] = np.nan
    problem, model = made(method, data, alphas, Y, data[3] if weighted else None)
    observed = ~np.isnan(Y)
    expected = left_out(model, "A", where=observed)
    assert largest_error(holdout(problem, "A"), expected, observed) < 1e-12


# (aK + cI) ⊗ (G + bI/a) has the terms aK ⊗ G, bK ⊗ I and cI ⊗ G, and bc/a of the ridge.
@over(
    covering(
        alpha=[1e-10, 1.0, 1e10],
        setting="ABCD",
        shares=[(1.0, 0.0, 0.0), (0.5, 0.0, 0.2), (1.0, 0.4, 0.0), (0.6, 0.3, 0.2)],
        free=[True, False],
        where=lambda alpha, shares, **_: alpha > shares[1] * shares[2] / shares[0],
    )
)
def test_pair_kernels(data, setting, alpha, shares, free):
    K, G, Y, _ = data
    a, b, c = shares
    # The constant makes these kernels ten times worse conditioned.
    spectra = [Spectrum.from_gram(kernel + 1.0) for kernel in (K, G)]
    problem = Problem.of(PairKernel(*spectra, alpha, shares, free), Y)
    kernels = a * (K + 1.0) + c * np.eye(M), G + 1.0 + b / a * np.eye(Q)
    if free:  # the reference adds ones to both kernels
        kernels = tuple(kernel - 1.0 for kernel in kernels)
    model = reference("kronecker", kernels, (alpha - b * c / a, 0.0), Y, constant=free)
    assert largest_error(holdout(problem, setting), left_out(model, setting)) < 1e-12


# --- hard cases with missing labels --------------------------------------------------------------


@over(every(alpha=[1e-12, 1e-6, 1e9], weighted={"": False, "weighted": True}))
def test_rows_of_high_leverage_in_the_primal(alpha, weighted):
    """One word occurs in one text only: the smaller alpha, the nearer its leverage is to 1, and it is left out."""
    rng = default_rng(3)
    features = rng.poisson(0.6, size=(12, 4)).astype(float)
    features[:, 2] = 0.0
    features[4, 2] = 3.0
    labels = rng.normal(size=(12, 2))
    labels[1, 0] = labels[7, 1] = np.nan
    weights = rng.uniform(0.3, 3.0, size=(12, 2)) if weighted else None
    problem = posed("independent", labels, Spectrum.from_features(features), alpha, weights=weights)
    for setting in "AB":
        found = holdout(problem, setting)
        assert np.isfinite(found).all()
        # As on complete labels: nothing is lost but what the eigenvalues themselves are uncertain
        # by.
        limit = max(1e-12, 10 * np.finfo(float).eps * np.linalg.norm(features, 2) ** 2 / alpha)
        for i, j in [(4, 0), (4, 1), (0, 0), (9, 1)]:
            kept = np.delete(np.arange(12), i)
            own = None if weights is None else weights[kept, j : j + 1]
            own = np.ones((11, 1)) if own is None else own
            given = (features[kept], labels[kept, j : j + 1], own, alpha, features[[i]], False)
            assert_allclose(found[i, j], fifty_digits.independent(*given)[0, 0], rtol=0, atol=limit)


class Blocked:
    """Labels of 10 × 8 of which the tasks 0 to 3 have a positive each, and share no function with the others."""

    def __init__(self, share_missing, kind, seed):
        rng = default_rng(seed)
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
        model.fit(self.X, labels, self.features, self.weights)
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


@over(
    covering(
        alpha=[1e-6, 1e8],
        missing=[0.0, 0.02, 0.15, 0.8],
        kind=["grid", "list", "weights"],
        kernel=["linear", "rbf"],
        seed=[0],
    )
)
def test_predictions_that_are_zero_in_a_refit_are_exactly_zero(alpha, missing, kind, kernel, seed):
    """So they tie, with any regularisation: pairs without a label too."""
    case = Blocked(missing, kind, seed)
    model = PairKernelRidge(
        alpha, product=0.0, per_task=1.0, per_instance=1.0, fit_intercept=False, kernel=kernel
    )
    held_out = case.held_out(model, "D")
    assert not np.nan_to_num(held_out).any()
    kronecker = KroneckerRidge(alpha, fit_intercept=False, kernel=kernel)
    two_step = TwoStepRidge(alpha, 0.1, fit_intercept=False, kernel=kernel)
    for model, setting in (*((kronecker, letter) for letter in "ABCD"), (two_step, "A")):
        held_out = case.held_out(model, setting)
        asked = held_out[case.without_positive(setting)]
        assert not np.nan_to_num(asked).any()

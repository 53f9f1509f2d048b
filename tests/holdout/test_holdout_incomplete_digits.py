"""How many digits of held-out predictions are right in hard cases with missing labels."""

import numpy as np
from numpy.testing import assert_allclose
from scipy.sparse import coo_array, issparse

import fifty_digits
from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn.holdout import holdout
from dyadlearn.spectrum import Spectrum
from problems import posed
from sweeps import covering, every, over


@over(every(alpha=[1e-12, 1e-6, 1e9], weighted={"": False, "weighted": True}))
def test_rows_of_high_leverage_in_the_primal(alpha, weighted):
    """One word occurs in one text only: the smaller alpha, the nearer its leverage is to 1, and it is left out."""
    rng = np.random.default_rng(3)
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

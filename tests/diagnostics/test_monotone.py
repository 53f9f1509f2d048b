"""Maps from scores to probabilities, against scikit-learn and a general optimiser."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from dyadlearn.diagnostics.monotone import MAPS, sigmoid
from sweeps import covering, every, over


def drawn(n, share, *, scale=1.0, offset=0.0, seed=0):
    rng = np.random.default_rng(seed)
    positive = rng.random(n) < share
    positive[:2] = [True, False]
    return offset + scale * (rng.normal(size=n) + 1.3 * positive), positive


def platt_loss(slope, intercept, scores, positive):
    """The negative log-likelihood of Platt's targets."""
    targets = np.where(
        positive, (positive.sum() + 1) / (positive.sum() + 2), 1 / ((~positive).sum() + 2)
    )
    p = 1 / (1 + np.exp(-(slope * scores + intercept)))
    return -np.sum(targets * np.log(p) + (1 - targets) * np.log(1 - p))


@over(
    covering(
        n=[30, 400],
        share=[0.03, 0.5, 0.9],
        scale=[1.0, 1e-6, 1e5],
        offset=[0.0, 3.0],
        seed=[0, 1],
        strength=1,
    )
)
def test_the_sigmoid_has_the_largest_likelihood(n, share, scale, offset, seed):
    scores, positive = drawn(n, share, scale=scale, offset=offset, seed=seed)
    found = sigmoid(scores, positive)
    # An optimiser that knows nothing of sigmoids, on scores of ordinary size.
    z = (scores - offset) / scale
    best = minimize(
        lambda point: platt_loss(*point, z, positive), [0.5, 0.0], method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000, "maxfev": 4000},
    )  # fmt: skip
    assert found.slope > 0
    assert_allclose(
        [found.slope * scale, found.intercept + found.slope * offset], best.x, rtol=2e-5, atol=2e-5
    )


class Score(ClassifierMixin, BaseEstimator):
    """A classifier whose decision is its only feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]

    def predict(self, X):
        return self.classes_[(X[:, 0] > 0).astype(int)]


@over(every(method=list(MAPS), share=[0.05, 0.4]))
def test_as_scikit_learn_has_them(method, share):
    scores, positive = drawn(300, share)
    frozen = FrozenEstimator(Score().fit(scores[:, None], positive))
    theirs = CalibratedClassifierCV(frozen, method=method).fit(scores[:, None], positive)
    at = np.linspace(-5, 6, 57)
    assert_allclose(
        MAPS[method](scores, positive)(at),
        theirs.predict_proba(at[:, None])[:, 1],
        rtol=1e-4,
        atol=1e-6,
    )


@over(every(method=list(MAPS), share=[0.02, 0.5]))
def test_maps_never_fall_and_keep_nan(method, share):
    scores, positive = drawn(200, share, seed=3)
    found = MAPS[method](scores, positive)
    at = found(np.linspace(-30, 30, 999))
    assert (np.diff(at) >= 0).all()
    assert ((at >= 0) & (at <= 1)).all()
    assert_array_equal(np.isnan(found(np.array([np.nan, 0.0]))), [True, False])


@over(every(method=list(MAPS)))
def test_scores_that_run_against_the_labels_say_nothing(method):
    scores, positive = drawn(200, 0.3, scale=-1.0)
    at = MAPS[method](scores, positive)(np.linspace(scores.min(), scores.max(), 50))
    assert_allclose(at, positive.mean(), atol=0.02)


@over(every(method=list(MAPS), positives=[0, 1, 2, 5], equal=[False, True]))
def test_few_positives(method, positives, equal):
    scores = np.random.default_rng(0).normal(size=60)
    positive = np.arange(60) < positives
    scores = np.full(60, 0.1) if equal else scores
    at = MAPS[method](scores, positive)(np.array([-1.0, 0.0, 5.0]))
    assert (np.diff(at) >= 0).all()
    assert np.isfinite(at).all()
    if method == "sigmoid":
        assert ((at > 0) & (at < 1)).all()
        if equal or not positives:
            targets = np.where(
                positive, (positives + 1) / (positives + 2), 1 / (60 - positives + 2)
            )
            assert_allclose(at, targets.mean())

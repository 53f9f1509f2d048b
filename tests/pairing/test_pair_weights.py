"""Weights of labels in a prediction."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import KroneckerRidge, explain


def test_missing_labels_have_no_weight_in_a_prediction():
    rng = np.random.default_rng(0)
    X, T, Y = rng.normal(size=(6, 3)), rng.normal(size=(5, 2)), rng.normal(size=(6, 5))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    model = KroneckerRidge(0.5, fit_intercept=False).fit(X, Y, tasks=T)
    found = explain(model, 1, 2)
    missing = np.isnan(Y)
    assert_array_equal(found.weights[missing], 0.0)
    weighted = np.sum(found.weights[~missing] * Y[~missing])
    assert_allclose(weighted, model.predict()[1, 2], rtol=1e-7)

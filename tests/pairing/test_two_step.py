"""Main effects of two-step ridge regression."""

from __future__ import annotations

import numpy as np

from dyadlearn import TwoStepRidge
from dyadlearn.pairing.base import operators_of


def test_one_feature_with_moderate_regularisation_has_penalised_main_effects():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(6, 1)), rng.normal(size=(5, 1))
    fitted = TwoStepRidge(0.7, 0.3).fit(X, rng.normal(size=(6, 5)), tasks=T).fitted_
    rows, columns = np.arange(6), np.arange(6) % 5
    _, border, _ = operators_of(fitted.problem.pairing).split_kernel(rows, columns)
    assert border.shape == (6, 1)  # the grand mean

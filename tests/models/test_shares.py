"""Shares of the kernels of a pair kernel."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from dyadlearn import PairKernelRidge, PairRegressor
from sweeps import lines, over

NAMES = ("product", "per_task", "per_instance")


@over(lines("shares", (1.0, 0.0, 0.0), (1.0, 0.3, 0.2)))
def test_doubling_all_shares_and_alpha_changes_no_prediction(shares):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(7, 3)), rng.normal(size=(5, 2))
    Y = rng.normal(size=(7, 5))
    X_new = rng.normal(size=(4, 3))
    kernels = {"kernel": "rbf", "task_kernel": "rbf"}
    single = PairKernelRidge(0.5, **dict(zip(NAMES, shares, strict=True)), **kernels).fit(
        X, Y, tasks=T
    )
    doubled = [2 * share for share in shares]
    double = PairKernelRidge(1.0, **dict(zip(NAMES, doubled, strict=True)), **kernels).fit(
        X, Y, tasks=T
    )
    assert_allclose(double.predict(X_new), single.predict(X_new), rtol=1e-10)
    assert_allclose(double.holdout("D"), single.holdout("D"), rtol=1e-10)


def test_pairs_of_known_and_new_entities_are_predicted_one_by_one_as_together():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    known = np.argwhere(np.ones((3, 2)))
    shares = dict(zip(NAMES, (1.0, 0.5, 0.5), strict=True))
    model = PairRegressor(PairKernelRidge(0.5, **shares), instances=X, tasks=T)
    model.fit(known, rng.normal(size=6))
    asked = np.argwhere(np.ones((4, 3)))
    together = model.predict(asked)
    alone = [model.predict(pair[None, :])[0] for pair in asked]
    assert_allclose(alone, together, rtol=1e-10)
    grid = model.model_.predict()
    assert_allclose(together.reshape(4, 3)[:3, :2], grid, rtol=1e-8)

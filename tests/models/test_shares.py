"""Shares of the kernels of a pair kernel."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

from dyadlearn import PairKernelRidge
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

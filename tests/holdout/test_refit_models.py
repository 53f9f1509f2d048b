"""Hold-out predictions of fitted estimators, and the check that users run on their own data."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, verify_holdout
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.holdout.refit import refit
from dyadlearn.models.fitted import FittedRidge
from sweeps import every, lines, over

M = 6
Q = 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(M, 4)), rng.normal(size=(Q, 3)), rng.normal(size=(M, Q))


MODELS = {
    "independent": IndependentTaskRidge(alpha=0.7),
    "two-step": TwoStepRidge(alpha=0.7, task_alpha=0.3),
    "two-step iterated": TwoStepRidge(
        alpha=0.7, task_alpha=0.3, filter=IteratedTikhonov(2), task_filter=IteratedTikhonov(3)
    ),
    "kronecker rbf": KroneckerRidge(alpha=0.7, kernel="rbf", task_kernel="rbf"),
    "symmetric": TwoStepRidge(alpha=0.7, task_alpha=0.7, kernel="rbf", symmetry="symmetric"),
}
LEGAL = [
    (name, setting) for name in MODELS for setting in ("AB" if name.startswith("ind") else "ABCD")
]


def fitted(name, data):
    X, tasks, Y = data
    model = clone(MODELS[name])
    if name == "independent":
        return model.fit(X, Y)
    if name == "symmetric":
        square = np.hstack([Y, Y[:, : M - Q]])
        return model.fit(X, square + square.T)
    return model.fit(X, Y, tasks=tasks)


# ---- frames


# ---- the check


LABELS = {
    "A": {"cells": np.arange(M * Q).reshape(M, Q) % 5},
    "B": {"groups": np.arange(M) // 3},
    "C": {"task_groups": list("aabbc")},
    "D": {"groups": np.arange(M) // 3, "task_groups": list("aabbc")},
}


@over(every(setting="ABCD", name=["two-step", "two-step iterated", "kronecker rbf"]))
def test_verify_holdout_with_groups(data, name, setting):
    model = fitted(name, data)
    assert verify_holdout(model, setting, random_state=0, **LABELS[setting]) < 1e-10
    # Other groups are other predictions, so it can tell.
    assert np.abs(model.holdout(setting, **LABELS[setting]) - model.holdout(setting)).max() > 1e-3


@over(lines("name setting", *LEGAL[::2]))
def test_verify_holdout_sees_a_wrong_shortcut(data, name, setting, monkeypatch):
    model = fitted(name, data)
    right = model.holdout(setting)
    monkeypatch.setattr(FittedRidge, "holdout", lambda *_, **__: right + 0.5)
    assert_allclose(verify_holdout(model, setting, n=3), 0.5, rtol=1e-9)


def test_verification_compares_as_many_pairs_as_asked_for_or_all(data, monkeypatch):
    masks = []

    def watched(*arguments, where, **options):
        masks.append(where)
        return refit(*arguments, where=where, **options)

    monkeypatch.setattr("dyadlearn.holdout.refit.refit", watched)
    model = fitted("two-step", data)
    for n, compared in ((7, 7), (7, 7), (M * Q, M * Q), (50, M * Q)):
        assert verify_holdout(model, "D", n=n, random_state=0) < 1e-12
        assert np.count_nonzero(masks[-1]) == compared
    assert_array_equal(masks[0], masks[1])
    verify_holdout(model, "D", n=7, random_state=1)
    assert (masks[-1] != masks[0]).any()

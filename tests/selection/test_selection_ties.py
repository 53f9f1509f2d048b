"""Scores of hold-out predictions where refitting gives ties: rounding is no order."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, evaluate, landscape
from dyadlearn.holdout.refit import refit
from dyadlearn.metrics import roc_auc
from sweeps import lines, over

ALPHAS = [1e-3, 1e6]


def sparse_labels(rng, m, q):
    """Return labels of which many columns and rows have a single one, and some none."""
    Y = np.zeros((m, q))
    Y[rng.integers(m, size=q - 2), np.arange(q - 2)] = 1.0
    return Y


def gram(rng, n, twins):
    X = rng.normal(size=(n, 3))
    if twins:
        X[n // 2 :] = X[: n - n // 2]
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(-1))


def refitted(model, setting):
    """Return what models fitted again predict, of which differences below 1e-11 of the largest are rounding."""
    found = refit(model.fitted_.training_problem, setting)
    order = np.argsort(found, axis=None)
    in_order = found.ravel()[order] / np.abs(found).max()
    # Decimals would not do: two values that are one may lie on both sides of where they are
    # rounded.
    starts = np.diff(in_order, prepend=-np.inf) > 1e-11
    merged = np.empty(found.size)
    merged[order] = in_order[starts][np.cumsum(starts) - 1]
    return merged.reshape(found.shape)


@over(
    lines(
        "model settings twins",
        # With an intercept, A and D compare other predictions, and refits have a digit less.
        (IndependentTaskRidge(kernel="precomputed", fit_intercept=False), "AB", False),
        (
            TwoStepRidge(kernel="precomputed", task_kernel="precomputed", fit_intercept=False),
            "ABCD",
            True,
        ),
        (
            KroneckerRidge(kernel="precomputed", task_kernel="precomputed", fit_intercept=False),
            "ABCD",
            True,
        ),
    )
)
def test_areas_are_those_of_models_fitted_again(model, settings, twins):
    rng = default_rng(3)
    K = gram(rng, 5, twins)
    G = gram(rng, 6, twins)
    Y = sparse_labels(rng, 5, 6)
    tasks = None if settings == "AB" else G
    model.fit(K, Y, tasks)
    found = {key: np.empty(len(ALPHAS)) for key in settings}
    for index, alpha in enumerate(ALPHAS):
        model.set_alpha(alpha, alpha) if isinstance(model, TwoStepRidge) else model.set_alpha(alpha)
        for setting in settings:
            expected = roc_auc(Y, refitted(model, setting), setting=setting)
            found[setting][index] = expected
            assert_allclose(
                roc_auc(Y, model.holdout(setting), setting=setting, tie_tolerance=None), expected
            )
        assert_allclose(
            evaluate(model, settings, scoring="roc_auc")["roc_auc"],
            [found[setting][index] for setting in settings],
        )
    for wanted in (settings, settings[-1]):
        scores = landscape(
            model, alphas=ALPHAS, task_alphas=ALPHAS, setting=wanted, scoring="roc_auc"
        )
        for setting in wanted:
            if scores[setting].ndim == 2:
                along = np.diagonal(scores[setting])
            else:
                along = scores[setting]
            assert_allclose(along, found[setting], err_msg=setting)


def test_what_is_zero_when_fitted_again_is_zero():
    """The only one of its task, left out, leaves zeros; a row that is like no other is predicted to be zero."""
    rng = default_rng(0)
    K = gram(rng, 12, False)
    Y = sparse_labels(rng, 12, 20)
    kernels = {"kernel": "precomputed", "fit_intercept": False}
    alone = (Y == 1) & (Y.sum(axis=0) == 1)
    held_out = IndependentTaskRidge(1e-10, **kernels).fit(K, Y).holdout("B")
    assert (held_out[alone] == 0).all()
    assert (held_out[~alone & (Y.sum(axis=0) > 0)] != 0).all()
    K[3, :] = K[:, 3] = 0.0
    G = gram(rng, 20, False)
    single = np.zeros((12, 20))
    single[5, 7] = 1.0
    groups = {"groups": np.arange(12) // 3, "task_groups": np.arange(20) // 4}
    for model in (KroneckerRidge(0.5), TwoStepRidge(0.5, 0.5)):
        model.set_params(**kernels, task_kernel="precomputed")
        assert (model.fit(K, rng.normal(size=(12, 20)), G).holdout("B")[3] == 0).all(), model
        model.fit(K, single, G)
        assert [model.holdout(setting)[5, 7] for setting in "ABCD"] == [0] * 4
        assert (model.holdout("D", **groups)[3:6, 4:8] == 0).all(), model


def test_a_tolerance_is_a_share():
    Y = np.array([[1.0, 0.0]])
    F = np.array([[1.0, 2.0]])
    assert roc_auc(Y, F, tie_tolerance=0.6) == 0.5
    assert roc_auc(Y, np.array([[1.0, np.inf]]), tie_tolerance=None) == 0.0
    with pytest.raises(ValueError, match=r"in \[0, 1\)"):
        roc_auc(Y, F, tie_tolerance=1.5)
    with pytest.raises(TypeError, match="tie_tolerance must be a number"):
        roc_auc(Y, F, tie_tolerance="1")

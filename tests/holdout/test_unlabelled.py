"""Held-out predictions of pairs without a label, against models that are fitted without the unit of each pair."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import problems
from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn.exceptions import NothingLeftError
from dyadlearn.filters import Landweber, SpectralCutoff
from dyadlearn.holdout import unlabelled
from dyadlearn.settings import Setting
from sweeps import covering, every, over

X, Y, T = problems.data(7, 5, 3, 2, missing=0.25, seed=3)
WEIGHTS = default_rng(1).uniform(0.3, 2.0, size=Y.shape)
CELLS = default_rng(2).integers(0, 3, size=Y.shape)
MODELS = {
    "kronecker": KroneckerRidge(0.7),
    "no intercept": KroneckerRidge(0.7, fit_intercept=False),
    "constants": KroneckerRidge(0.7, constants=(0.5, 3.0)),
    "pairs": PairKernelRidge(0.7, product=0.5, per_task=0.25, per_instance=0.25),
    "two-step": TwoStepRidge(0.5, 2.0),
}


def without_unit(model, setting, weights):
    """Return the prediction of each missing pair by a model that is fitted without the unit of the pair."""
    predictions = np.full(Y.shape, np.nan)
    for i, j in np.argwhere(np.isnan(Y)):
        left = np.zeros(Y.shape, dtype=bool)
        if setting is Setting.A:
            left = CELLS[i, j] == CELLS
        if 0 in setting.new:
            left[i] = True
        if 1 in setting.new:
            left[:, j] = True
        other = clone(model).fit(X, np.where(left, np.nan, Y), T, weights)
        predictions[i, j] = other.completed_[i, j]
    return predictions


@over(
    covering(
        name=list(MODELS),
        setting="ABCD",
        weighted=[False, True],
        entry={"kernel between pairs": 0.0, "product with a grid": 1e12},
        strength=1,
        also=every(name=["pairs"], setting="ABCD", weighted=[True], entry=[0.0]),
        where=lambda name, setting, weighted, entry: name != "two-step" or setting == "A",
    )
)
def test_missing_pairs_are_predicted_without_their_unit(name, setting, weighted, entry):
    model = clone(MODELS[name]).set_params(tol=1e-12)
    setting = Setting(setting)
    weights = WEIGHTS if weighted else None
    model.fit(X, Y, T, weights)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unlabelled, "_ENTRY", entry)
        held_out = model.holdout(setting, cells=CELLS if setting is Setting.A else None)
    missing = np.isnan(Y)
    assert_allclose(held_out[missing], without_unit(model, setting, weights)[missing], atol=1e-8)


HARD = {
    "interpolated": KroneckerRidge(0.0, kernel="rbf", task_kernel="rbf"),
    "interpolated, no intercept": KroneckerRidge(
        0.0, kernel="rbf", task_kernel="rbf", fit_intercept=False
    ),
    "singular": KroneckerRidge(0.0),
    "interpolated rows": TwoStepRidge(0.0, 2.0),
    "cut off": TwoStepRidge(1.0, 2.0, filter=SpectralCutoff()),
    "iterated": TwoStepRidge(1.0, 2.0, filter=Landweber(n_iter=20)),
}


@over(every(name=HARD))
def test_missing_pairs_of_models_without_a_penalty_in_some_directions(name):
    """Some eigenvalues of the pairwise kernel are infinite, or the regularisation is zero."""
    model = clone(name).set_params(tol=1e-12).fit(X, Y, T)
    held_out = model.holdout("A", cells=CELLS)
    missing = np.isnan(Y)
    expected = without_unit(model, Setting.A, None)
    assert_allclose(held_out[missing], expected[missing], rtol=1e-6, atol=1e-7)


CROSSED = np.array([[np.nan, np.nan, np.nan, 1.0], [2.0, 5.0, 3.0, 4.0]])


@over(
    every(
        model=[KroneckerRidge(), PairKernelRidge(per_task=1.0), TwoStepRidge()],
        weighted=[False, True],
    )
)
def test_nothing_is_left_beside_an_instance_and_a_task_with_all_labels(model, weighted):
    """A label there is refused, and a pair without a label has no prediction."""
    weights = np.arange(1.0, 9.0).reshape(2, 4) if weighted else None
    fit = partial(clone(model).fit, X[:2], tasks=T[:4], sample_weight=weights)
    with pytest.raises(NothingLeftError):
        fit(CROSSED).holdout("D")
    held_out = fit(np.where(CROSSED == 4.0, np.nan, CROSSED)).holdout("D")
    lone = np.full((2, 4), False)
    lone[1, 3] = True
    assert_array_equal(np.isnan(held_out), lone)
    assert_allclose(held_out[1, :3], 1.0)
    if isinstance(model, KroneckerRidge):
        model = clone(model).set_params(fit_intercept=False)
        held_out = model.fit(X[:2], CROSSED, T[:4], weights).holdout("D")
        assert_allclose(held_out[1, 3], 0.0, atol=1e-12)

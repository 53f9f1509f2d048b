"""Held-out predictions of models that describe instances and tasks by their labels: no label tells of itself."""

import functools
import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import LearnedKernelRidge, evaluate, landscape
from dyadlearn.holdout import holdout
from dyadlearn.settings import Setting
from learning_case import dense_stages
from sweeps import lines, over

M = 10
Q = 7


def _data(setting="A"):
    """Return instances, tasks and labels, of which a side that is known is told by its labels rather than features."""
    rng = np.random.default_rng(0)
    U, V, noise, others = (rng.normal(size=(n, 2)) for n in (M, Q, M, Q))
    Y = np.sin(U) @ V.T + 3
    X = noise if setting == "C" else U
    T = V if setting == "C" else others
    return X, T, np.where(rng.random(Y.shape) < 0.15, np.nan, Y)


def _model(**given):
    return LearnedKernelRidge(**{"setting": "A", "n_steps": 2, "cv": 2, "stages": 2, **given})


def _profiled(setting="A"):
    """Return a model with profiles, and its data."""
    X, T, Y = _data(setting)
    return pickle.loads(_stored(setting)), X, T, Y


@functools.cache
def _stored(setting):
    """Return a model with profiles, pickled, so that each test has one of its own."""
    X, T, Y = _data(setting)
    model = _model(setting=setting).fit(X, Y, T)
    assert model.n_stages_ == 2
    return pickle.dumps(model)


@over(lines("own", "A", "B", "C"))
def test_folds_go_through_all_stages_with_their_own_labels(own):
    model, _, _, Y = _profiled(own)
    rows, columns = np.indices(Y.shape)
    cells = np.arange(M * Q).reshape(M, Q)
    codes = {"A": cells, "B": rows, "C": columns}[own] % 3
    given = {
        "A": {"cells": codes},
        "B": {"groups": codes[:, 0]},
        "C": {"task_groups": codes[0]},
    }[own]
    found = model.holdout(own, **given)
    for fold in range(3):
        here = codes == fold
        wanted = dense_stages(model, Y, ~np.isnan(Y) & ~here, (own != "B", own != "C"))
        # In single precision, to a residual of 10⁻⁵ in each stage.
        assert_allclose(found[here], wanted[here], atol=5e-4)
    assert Setting(own) in model.fitted_.settings


@over(lines("own", "A", "B"))
def test_what_was_learned_with_is_what_is_held_out(own):
    model, _, _, Y = _profiled(own)
    found = model.holdout(own)
    observed = ~np.isnan(Y)
    assert_allclose(
        found[observed], model.holdout_[observed], atol=5e-3
    )  # which was solved for to 10⁻³
    assert not np.isnan(found).any()
    if own == "A":
        assert_array_equal(found[observed], model.holdout_[observed])
        assert_allclose(found[~observed], model.predict()[~observed], rtol=1e-6)


@over(lines("own refused", ("A", "BCD"), ("B", "CD"), ("C", "BD")))
def test_settings_in_which_a_profiled_side_is_new_are_refused(own, refused):
    model, *_ = _profiled(own)
    for asked in refused:
        for ask in (model.holdout, partial(evaluate, model)):
            with pytest.raises(
                ValueError, match=f"Setting {asked} leaves out .* profiles of their"
            ):
                ask(asked)
    assert own in list(evaluate(model, nested=False)["setting"])


def test_formulas_that_would_leak_are_refused():
    model, *_ = _profiled()
    with pytest.raises(ValueError, match="profiles of the labels as features"):
        holdout(model.fitted_.problem, "A")
    with pytest.raises(ValueError, match="profiles of the labels as features"):
        landscape(model, setting="A")
    with pytest.raises(
        ValueError, match="with profiles of labels has no deviations and no likelihood"
    ):
        model.predict(return_std=True)
    assert np.isnan(evaluate(model, "A", nested=False)["null"]).all()


def test_intervals_come_from_residuals_that_were_held_out():
    model, _, _, Y = _profiled()
    lower, upper = model.predict_interval(coverage=0.8)
    observed = ~np.isnan(Y)
    assert_allclose(((lower + upper) / 2)[observed], model.holdout_[observed])
    assert 0.75 < ((lower <= Y) & (upper >= Y))[observed].mean() < 0.85
    model, X, _, _ = _profiled("B")
    lower, upper = model.predict_interval(X + 0.1, coverage=0.5)
    assert_allclose((lower + upper) / 2, model.predict(X + 0.1))
    model, _, T, _ = _profiled("C")
    lower, upper = model.predict_interval(tasks=T + 0.1, coverage=0.5)
    assert_allclose((lower + upper) / 2, model.predict(tasks=T + 0.1))


def test_rows_of_training_are_known_by_their_ids():
    X, T, Y = _data()
    rows = [f"i{i}" for i in range(M)]
    columns = [f"t{j}" for j in range(Q)]
    X = pd.DataFrame(X, index=rows)
    T = pd.DataFrame(T, index=columns)
    model = _model().fit(X, pd.DataFrame(Y, index=rows, columns=columns), T)
    assert model.n_stages_ == 2
    assert min(model.shares_) > 0  # what an instance has of its own would be lost
    whole = model.predict()
    some = X.iloc[[5, 2, 7]]
    few = T.iloc[[6, 1]]
    assert_allclose(model.predict(some), whole.loc[some.index])
    assert_allclose(model.predict(tasks=few), whole[few.index])
    assert_allclose(model.predict(some, few), whole.loc[some.index, few.index])
    pairs = [("i2", "t1"), ("i7", "t6"), ("i2", "t6")]
    wanted = [whole.loc[pair] for pair in pairs]
    for given in ((some, few), (some, None), (None, few), (None, None)):
        assert_allclose(model.predict_pairs(*given, pairs), wanted)
    with pytest.raises(ValueError, match=r"1 of 2 are new"):
        model.predict(pd.DataFrame(X.to_numpy()[:2], index=["i0", "other"]))
    with pytest.raises(ValueError, match="identified by ids: leave X out"):
        model.predict(pd.DataFrame(X.to_numpy()))  # numbers that are nobody's

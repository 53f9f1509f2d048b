"""What is asked of any fitted model, of models that learn their kernels: answered without a leak, or refused."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    LearnedKernelRidge,
    TwoStepRidge,
    calibrate,
    compare,
    explain,
    landscape,
    permutation_test,
    recommend,
    screen,
    top_pairs,
    verify_holdout,
)
from dyadlearn.settings import Setting
from dyadlearn.views.landscape import landscape_of_search
from sweeps import lines, over

M = 12
Q = 8
ROWS = [f"i{i}" for i in range(M)]
COLUMNS = [f"t{j}" for j in range(Q)]


def _data(binary=False, holes=True):
    rng = np.random.default_rng(0)
    U = rng.normal(size=(M, 2))
    V = rng.normal(size=(Q, 2))
    others = rng.normal(size=(Q, 2))
    Y = np.sin(U) @ V.T
    Y = np.where(np.median(Y) < Y, 1.0, 0.0) if binary else Y
    if holes:
        Y = np.where(rng.random(Y.shape) < 0.15, np.nan, Y)
    frame = pd.DataFrame(Y, index=ROWS, columns=COLUMNS)
    return pd.DataFrame(U, index=ROWS), pd.DataFrame(others, index=COLUMNS), frame


@cache
def _fitted(kind, **data):
    X, T, Y = _data(**data)
    model = LearnedKernelRidge(
        setting="A", n_steps=2, cv=2, stages=2 if kind.startswith("profiled") else 1
    )
    if kind == "no tasks":
        return model.set_params(setting="B").fit(X, Y)
    if kind == "described":
        return model.fit({"x": X, "y": 2 * X}, Y, T)
    return model.set_params(setting=kind[-1] if kind.startswith("profiled") else "A").fit(X, Y, T)


KINDS = lines("kind", "plain", "described", "profiled A", "profiled B", "no tasks")


@over(lines("kind", "plain", "profiled B", "no tasks"))
def test_rows_are_recommended_for_in_blocks(kind, monkeypatch):
    model = _fitted(kind)
    X, _, _ = _data()
    monkeypatch.setattr("dyadlearn._array.BLOCK", 25)
    F = model.predict(X).to_numpy()
    found = recommend(model, X=X, n=3)
    best = np.argsort(-F, axis=1, kind="stable")[:, :3]
    assert found.ids == tuple(tuple(COLUMNS[j] for j in own) for own in best)
    assert_allclose(found.scores, np.take_along_axis(F, best, axis=1))


@over(KINDS)
def test_every_question_has_an_answer(kind):
    model = _fitted(kind)
    own = model.holdout_setting_
    assert model.n_stages_ == 1 + kind.startswith("profiled")
    assert screen(model, own).setting == own
    assert len(recommend(model, instance="i1")) > 0
    assert len(top_pairs(model)) > 0
    found = explain(model, "i1", "t2")
    assert "other kernels might be learned" in found.notes[0]
    assert_allclose(found.prediction, model.predict().loc["i1", "t2"], rtol=1e-4, atol=1e-5)
    lower, upper = model.predict_interval(coverage=0.5)
    assert (lower.to_numpy() <= upper.to_numpy()).all()
    assert set(model.baselines_) >= {"grand_mean"}
    with pytest.raises(
        TypeError, match="has learned its regularisation with its kernels: use LandscapeDisplay"
    ):
        landscape_of_search(model)


@over(lines("kind", "described", "profiled A"))
def test_probabilities_know_rows_by_their_ids(kind):
    found = calibrate(_fitted(kind, binary=True), "A", cv=2)
    whole = found.predict()
    X, _, _ = _data()
    some = X.iloc[[4, 1]]
    given = {"x": some, "y": 2 * some} if kind == "described" else some
    assert_allclose(found.predict(given), whole.loc[some.index])


def test_rows_of_several_descriptions_are_explained():
    X, _, _ = _data()
    new = pd.DataFrame(X.to_numpy()[:1] + 0.1, index=["new"])
    model = _fitted("described")
    found = explain(model, {"x": new, "y": 2 * new}, "t2")
    assert found.instance == "new"
    assert_allclose(
        found.prediction, model.predict({"x": new, "y": 2 * new}).loc["new", "t2"], rtol=1e-4
    )
    found = explain(_fitted("profiled A"), X.iloc[[3]], "t2")
    assert (found.instance, found.setting) == ("i3", "A")


@over(lines("kind asked", ("profiled A", "A"), ("no tasks", "B")))
def test_kernels_are_learned_again_for_every_permutation(kind, asked):
    model = _fitted(kind)
    again = model.fitted_.refitter(Setting(asked))(model.fitted_.labels)
    assert_allclose(again.held_out, model.holdout_.to_numpy(), atol=1e-4)
    assert_allclose(again.alphas["alpha"], model.alpha_, rtol=1e-3)
    found = permutation_test(model, asked, n_permutations=1)
    assert found.method.endswith("learned again")
    assert found.score > found.null.max()


def test_a_permutation_is_asked_in_a_setting_that_profiles_would_not_answer():
    X, T, Y = _data()
    model = LearnedKernelRidge(setting="A", n_steps=2, cv=2, stages=1).fit(X, Y, T)
    # As if the second stage had not been better.
    learning = replace(model.fitted_.learning, stages=2)
    fitted = replace(model.fitted_, learning=learning)
    assert len(fitted.refitter(Setting.B)(fitted.labels).learned.path) == 1


def test_comparisons_say_that_kernels_were_learned():
    X, T, _ = _data()
    model = _fitted("profiled A")
    found = compare(
        {"learned": model, "fixed": TwoStepRidge().fit(X, _data()[2], T)},
        "A",
        n_resamples=100,
    )
    assert any("learned learned the kernels with the labels" in note for note in found.notes)
    assert found.methods["learned"] == "2 folds, not nested"


def test_what_would_leak_is_refused():
    model = _fitted("profiled A", holes=False)
    for leak in (
        lambda: verify_holdout(model, "A"),
        lambda: landscape(model, setting="A"),
    ):
        with pytest.raises(ValueError, match="profiles of the labels as features"):
            leak()
    assert set(landscape(_fitted("plain"), alphas=[0.1, 1.0], setting="A")) == {"A"}
    assert verify_holdout(_fitted("plain", holes=False), "B") < 1e-8
    assert_array_equal(model.holdout("A"), model.holdout_)

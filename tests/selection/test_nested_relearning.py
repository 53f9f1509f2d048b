"""Nested predictions of models that learn their kernels: equal to really learning again on what a fold leaves."""

import pickle

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import LearnedKernelRidge, SettingKFold, evaluate, load, nested_score, save
from dyadlearn.kernels import Descriptions
from dyadlearn.learning.error import ExactError, FoldError
from dyadlearn.selection import learning_kernels
from dyadlearn.settings import Setting
from fair import fitted_in_folds
from sweeps import lines, over

M = 8
Q = 6


def _data():
    rng = default_rng(0)
    X = rng.normal(size=(M, 2))
    N = rng.normal(size=(M, 3))
    T = rng.normal(size=(Q, 2))
    Y = np.sin(2 * X) @ np.cos(T).T + 0.1 * rng.normal(size=(M, Q))
    return X, N, T, Y


def _holes(Y):
    return problems.with_holes(Y, 0.15)


# A bandwidth that is given does not depend on which rows there are.
RBF = ("rbf", {"gamma": 0.5})


def _model(**given):
    return LearnedKernelRidge(
        **{"setting": "A", "kernel": RBF, "task_kernel": RBF, "n_steps": 1, **given}
    )


def _sides(name):
    """Return instances and tasks in some form, how rows are taken from them, and the kernels that they want."""
    X, N, T, _ = _data()
    if name == "plain":
        return X, T, {}
    K = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1))
    return (
        Descriptions({"noise": N, "near": K}),
        T,
        {"kernel": {"noise": RBF, "near": "precomputed"}},
    )


@over(
    lines(
        "form own stages asked labels",
        ("plain", "B", 1, "B", "complete"),
        ("plain", "B", 2, "B", "holes"),
        ("described", "C", 1, "C", "weighted"),
        ("described", "D", 1, "A", "holes"),
        ("described", "B", 1, "B", "grouped"),
        ("no tasks", "B", 1, "B", "complete"),
    )
)
def test_nested_predictions_are_those_of_models_that_are_fitted_again(
    form, own, stages, asked, labels
):
    X, T, kernels = _sides("plain" if form == "no tasks" else form)
    T = None if form == "no tasks" else T
    Y = _data()[3] if labels in ("complete", "grouped") else _holes(_data()[3])
    if labels == "weighted":
        weights = default_rng(2).uniform(0.5, 2, size=Y.shape)
    else:
        weights = None
    groups = np.arange(M) // 2 if labels == "grouped" else None
    model = _model(setting=own, stages=stages, cv=2, **kernels)
    model.fit(X, Y, T, weights, groups=groups)
    found, method, units, *_ = model.fitted_.relearned_holdout(Setting(asked), cv=2)
    wanted = fitted_in_folds(model, (X, Y, T), asked, 1, weights, groups=groups)[0]
    # Folds are learned from in single precision, to a residual of 10⁻³: where rounding differs,
    # that may show.
    is_exact = labels == "complete" and stages == 1
    assert_allclose(found, wanted, rtol=1e-6, atol=1e-8 if is_exact else 2e-4)
    merged = "4 groups in " if groups is not None else ""
    assert method == merged + ("2×2" if asked == "D" else "2") + " folds, kernels learned again"
    assert not np.isnan(found).any()
    if groups is not None:
        assert_array_equal(units.sides[0][::2], units.sides[0][1::2])


def test_evaluate_learns_again_and_keeps_what_it_found(monkeypatch):
    X, _, T, Y = _data()
    model = _model(setting="B").fit(X, Y, T)
    table = evaluate(model, "BC")
    assert list(table["method"]) == ["5 folds, kernels learned again"] * 2
    assert np.isnan(table["null"]).all()
    quick = evaluate(model, "B", nested=False, n_permutations=1)
    assert list(quick["method"]) == ["exact leave-one-out"]
    assert not np.isnan(quick["null"]).any()
    score = "neg_mean_squared_error"
    F = model.fitted_.relearned_holdout(Setting.B)[0]
    assert_allclose(table[score][0], -np.mean((F - Y) ** 2))
    monkeypatch.setattr(learning_kernels, "learn_ridge", None)
    assert_array_equal(evaluate(model, "BC")[score], table[score])
    assert pickle.loads(pickle.dumps(model)).fitted_._computed == {}


def test_folds_and_groups_that_are_given_are_learned_without():
    X, _, T, Y = _data()
    model = _model(setting="B", cv=2).fit(X, Y, T)
    usual = evaluate(model, "B", cv=2).results[0]
    splitter = SettingKFold("B", 2, random_state=1)
    rows = [
        tuple(np.flatnonzero(part.any(axis=1)) for part in fold)
        for fold in splitter.split_grid(M, Q)
    ]
    for cv in (splitter, rows):
        found = evaluate(model, "B", cv=cv).results[0]
        assert_allclose(found.predictions, usual.predictions, atol=1e-8)
        assert found.method == "2 folds, kernels learned again"
    groups = np.arange(M) // 2
    found = evaluate(model, "B", cv=2, groups=groups).results[0]
    wanted = fitted_in_folds(model, (X, Y, T), "B", 1, groups=groups)[0]
    assert_allclose(found.predictions, wanted, rtol=1e-6, atol=1e-8)
    assert np.abs(found.predictions - usual.predictions).max() > 1e-3
    grouped = _model(setting="B", cv=2).fit(X, Y, T, groups=groups)
    assert_allclose(
        evaluate(grouped, "B", cv=2).results[0].predictions, wanted, rtol=1e-6, atol=1e-8
    )


def test_what_was_learned_again_is_forgotten_by_another_fit_and_not_stored(tmp_path):
    X, _, T, Y = _data()
    model = _model(setting="B", cv=2).fit(X, Y, T, groups=np.arange(M) // 2)
    first = model.fitted_.relearned_holdout(Setting.B, cv=2)[0]
    save(model, tmp_path / "model.dyad")
    read = load(tmp_path / "model.dyad")
    assert not any(isinstance(key, tuple) for key in read.fitted_._computed)
    assert_array_equal(
        read.fitted_.relearned_holdout(Setting.B, cv=2)[0], first
    )  # in the same groups
    model.fit(X, 2 * Y, T)
    assert np.abs(model.fitted_.relearned_holdout(Setting.B, cv=2)[0] - first).max() > 0.1


@over(lines("kind", "splitter", "rows"))
def test_fewer_rows_have_fewer_folds(kind):
    X, _, T, Y = _data()
    rows = [(np.delete(np.arange(M), fold), fold) for fold in np.array_split(np.arange(M), 4)]
    cv = {"splitter": SettingKFold("B", 4, random_state=3), "rows": rows}[kind]
    groups = None if kind == "rows" else np.arange(M) % 4
    model = _model(setting="B", stages=1, n_steps=1, cv=cv).fit(X, _holes(Y), T, groups=groups)
    assert not np.isnan(model.fitted_.relearned_holdout(Setting.B)[0]).any()


def test_an_interrupt_ends_it_all(monkeypatch):
    X, _, T, Y = _data()
    model = _model(setting="B").fit(X, Y, T)

    def stopped(self, parameters):
        raise KeyboardInterrupt

    monkeypatch.setattr(ExactError, "slope", stopped)
    monkeypatch.setattr(FoldError, "slope", stopped)
    with pytest.raises(KeyboardInterrupt):
        evaluate(model, "B")
    assert not any(isinstance(key, tuple) for key in model.fitted_._computed)


def test_nested_score_is_that_of_the_same_folds():
    X, T, kernels = _sides("described")
    Y = _holes(_data()[3])
    model = _model(setting="A", stages=2, cv=2, **kernels)
    found = nested_score(model, X, Y, T, cv=2, random_state=1)
    assert_allclose(found.predictions, fitted_in_folds(model, (X, Y, T), "A", 1)[0], atol=2e-4)
    assert_allclose(found.score, -np.nanmean((found.predictions - Y) ** 2))
    assert found.alphas.shape == found.fold_scores.shape == (2,)
    assert found.task_alphas is None
    assert not hasattr(model, "alpha_")
    evaluated = evaluate(model.fit(X, Y, T), "A", cv=2)
    assert_allclose(evaluated["neg_mean_squared_error"][0], found.score, rtol=1e-3)
    assert_allclose(evaluated["task_means"][0], found.baselines["task_means"])

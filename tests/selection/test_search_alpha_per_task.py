"""A regularisation for each task: given as an array, or chosen by the score of each column."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import Ridge, RidgeCV

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    TwoStepRidge,
    evaluate,
    explain,
    landscape,
    load,
    save,
)
from dyadlearn.exceptions import GridEdgeWarning, UndefinedScoreWarning
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.metrics import roc_auc, scorer
from dyadlearn.pairing.full import hold_out, hold_out_stack, jackknife
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import group_members
from dyadlearn.views.summary import summary_of
from fair import score_in_folds
from sweeps import covering, every, lines, over

# Some tasks are noise alone, and their best value is on the edge.
pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

M = 20
Q = 6
ALPHAS = [1e-3, 1.0, 10.0, 1e3]
EACH = np.array([1e-3, 1.0, 10.0, 1.0, 0.0, 1e3])
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 4))
NEW = RNG.normal(size=(3, 4))
Y = X @ RNG.normal(size=(4, Q)) + RNG.normal(size=(M, Q)) * np.array(
    [0.1, 1.0, 3.0, 5.0, 0.3, 50.0]
)
HOLES = problems.with_holes(Y, 0.2)
WEIGHTS = RNG.uniform(0.5, 2.0, size=Y.shape)
GROUPS = np.arange(M) % 7
FOLDS = RNG.integers(0, 2, size=Y.shape)
# A task without labels is predicted zero, not NaN.
PAPER = {"fit_intercept": False}

LEFT_OUT = (("A", {}), ("B", {}), ("B", {"groups": GROUPS % 3}), ("A", {"cells": FOLDS}))
FORMS = {
    "full": (Y, None),
    "missing": (HOLES, None),
    "weights": (Y, WEIGHTS),
    "both": (HOLES, WEIGHTS),
}


def columns(model, labels, weights, alphas, **given):
    """Yield a model of each task alone, with its position."""
    for task, alpha in enumerate(alphas):
        own = None if weights is None else weights[:, task]
        yield (
            task,
            clone(model)
            .set_params(alpha=float(alpha))
            .fit(X, labels[:, task], sample_weight=own, **given),
        )


# --- an array of values ------------------------------------------------------------------------------


@over(
    covering(
        form=FORMS,
        kernel=["linear", "rbf"],
        intercept=[True, False],
        filter=[None, IteratedTikhonov(2)],
        strength=1,
    )
)
def test_every_task_is_a_model_of_its_own(form, kernel, intercept, filter):
    labels, weights = form
    options = {"kernel": kernel, "fit_intercept": intercept, "filter": filter}
    model = IndependentTaskRidge(EACH, **options)
    close = {"rtol": 1e-7, "atol": 1e-8}
    predicted = model.fit(X, labels, sample_weight=weights).predict(NEW)
    fitted = model.predict()
    held_out = [model.holdout(letter, **left_out) for letter, left_out in LEFT_OUT]
    for task, alone in columns(IndependentTaskRidge(**options), labels, weights, EACH):
        assert_allclose(predicted[:, task], alone.predict(NEW), **close)
        assert_allclose(fitted[:, task], alone.predict(), **close)
        assert_allclose(model.completed_[:, task], alone.completed_, **close)
        if kernel == "linear":
            assert_allclose(model.coef_[:, task], alone.coef_, **close)
            assert_allclose(np.broadcast_to(model.intercept_, Q)[task], alone.intercept_, **close)
        if EACH[task] > 0:  # a kernel without a ridge has dual parameters of any size
            assert_allclose(model.dual_coef_[:, task], alone.dual_coef_, **close)
        # Of the tasks that are left out: the first, one that shares its value with another, and one
        # without a ridge.
        if task not in (0, 3, 4) or (kernel == "rbf" and EACH[task] == 0):
            continue
        for (letter, left_out), found in zip(LEFT_OUT, held_out, strict=True):
            if "cells" in left_out:
                own = {"cells": FOLDS[:, task : task + 1]}
            else:
                own = left_out
            assert_allclose(found[:, task], np.ravel(alone.holdout(letter, **own)), **close)


def test_it_equals_scikit_learn():
    model = IndependentTaskRidge(EACH).fit(X, Y)
    theirs = Ridge(EACH).fit(X, Y)
    assert_allclose(model.predict(NEW), theirs.predict(NEW))
    search = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True).fit(X, Y)
    theirs = RidgeCV(ALPHAS, alpha_per_target=True).fit(X, Y)
    assert_array_equal(search.alpha_, theirs.alpha_)
    assert_allclose(search.predict(NEW), theirs.predict(NEW))
    assert_allclose(search.landscape_.max(axis=0), theirs.best_score_)


def test_values_are_changed_and_checked():
    model = IndependentTaskRidge(EACH.tolist()).fit(X, Y)
    for alpha in (2 * EACH, 3.0):
        expected = IndependentTaskRidge(alpha).fit(X, Y).predict(NEW)
        assert_allclose(model.set_alpha(alpha).predict(NEW), expected)
    before = model.predict(NEW)
    for wrong, error, message in (
        (EACH[:4], ValueError, "alpha has 4 values, but Y has 6 tasks: give one, or one per task"),
        ([], ValueError, "alpha is empty"),
        (-EACH, ValueError, "at least 0"),
        (EACH[None, :], TypeError, "alpha must be a number"),
        ("abcdef", TypeError, "alpha must be a number"),
    ):
        with pytest.raises(error, match=message):
            model.set_alpha(wrong)
        with pytest.raises(error, match=message):
            IndependentTaskRidge(wrong).fit(X, Y)
    assert_array_equal(model.predict(NEW), before)
    with pytest.raises(TypeError, match="alpha must be a number"):
        TwoStepRidge(EACH).fit(X, Y)
    given = EACH.copy()
    kept = IndependentTaskRidge(given).fit(X, Y)
    before = kept.holdout("B")
    given[:] = 7.0
    assert_array_equal(kept.holdout("B"), before)


@over(lines("letter groups", ("A", None), ("B", None), ("B", GROUPS)))
def test_values_stay_with_their_tasks_where_a_task_and_rows_have_no_labels(letter, groups):
    labels = Y.copy()
    labels[:, 1], labels[[2, 5]] = np.nan, np.nan
    model = IndependentTaskRidge(EACH + 0.1, **PAPER).fit(X, labels)
    given = {} if groups is None else {"groups": groups}
    held_out = model.holdout(letter, **given)
    for task in (0, 2, 3, 4, 5):
        alone = (
            IndependentTaskRidge(float(EACH[task] + 0.1), **PAPER)
            .fit(X, labels[:, task])
            .holdout(letter, **given)
        )
        seen = ~np.isnan(labels[:, task])
        assert_allclose(held_out[seen, task], alone[seen], rtol=1e-9, atol=1e-12)


def test_every_value_is_checked_beside_the_kernel():
    alphas = np.full(Q, 1e3)
    alphas[2] = 1e-300
    with pytest.raises(ValueError, match="alpha = 1e-300"):
        IndependentTaskRidge(alphas).fit(X, Y)


@over(every(groups=[None, GROUPS]))
def test_models_without_a_row_are_those_of_each_task(groups):
    members = group_members(groups, M, "groups")
    fitted = IndependentTaskRidge(EACH).fit(X, Y).fitted_
    rows = fitted.rows(NEW)[1]
    found = jackknife(fitted.pairing, Y, members)
    for task, alone in columns(IndependentTaskRidge(), Y, None, EACH):
        wanted = jackknife(alone.fitted_.pairing, Y[:, task : task + 1], members)
        assert_allclose(found.held_out[:, task], wanted.held_out[:, 0])
        assert_allclose(found.predictions(rows)[:, task], wanted.predictions(rows)[:, 0])


# --- values that are chosen --------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.MergedGroupsWarning")
@over(
    covering(
        form=FORMS,
        scoring=["neg_mean_squared_error", "concordance_index"],
        groups=[None, GROUPS],
        strength=1,
    )
)
def test_each_task_has_the_value_that_is_best_for_it(form, scoring, groups):
    labels, weights = form
    given = {"sample_weight": weights, "groups": groups}
    search = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True, scoring=scoring, cv=None).fit(
        X, labels, **given
    )
    # Where labels are missing, five folds of groups are left out.
    left_out = search.fitted_.validation.units.sides[0]
    models = [IndependentTaskRidge(alpha).fit(X, labels, sample_weight=weights) for alpha in ALPHAS]
    held_out = np.stack([model.holdout("B", groups=left_out) for model in models])
    judge = scorer(scoring)
    if scoring == "concordance_index":  # compared within folds
        scores = [
            [
                score_in_folds(labels[:, [j]], F[:, [j]], left_out[:, None], scoring, "pooled")[0]
                for j in range(Q)
            ]
            for F in held_out
        ]
    else:
        scores = [
            [judge(labels[:, j], F[:, j], tie_tolerance=None) for j in range(Q)] for F in held_out
        ]
    assert_allclose(search.landscape_, scores, rtol=1e-8)
    best = np.argmax(np.round(scores, 10)[::-1], axis=0)  # of equals the largest
    assert_array_equal(search.alpha_, np.array(ALPHAS)[::-1][best])
    assert len(set(search.alpha_)) > 1
    assert_allclose(search.best_score_, np.max(scores, axis=0).mean())
    assert_allclose(search.holdout_, held_out[::-1][best, :, np.arange(Q)].T, rtol=1e-8)
    fixed = IndependentTaskRidge(search.alpha_).fit(X, labels, sample_weight=weights)
    assert_allclose(search.predict(NEW), fixed.predict(NEW))
    assert_array_equal(search.n_evaluated_, search.landscape_.size)


def test_what_does_not_go_with_it():
    for options, error, message in (
        (
            {"kernel_grid": [{}]},
            ValueError,
            "alpha_per_task=True searches alphas only: leave kernel_grid out",
        ),
        ({"setting": "D"}, ValueError, "any but IndependentTaskRidge"),
        ({"alpha_per_task": 2}, TypeError, "alpha_per_task must be True or False"),
        (
            {"scoring": "ic_index"},
            ValueError,
            "ic_index compares tasks with each other and has no score of one task",
        ),
    ):
        with pytest.raises(error, match=message):
            IndependentTaskRidgeCV(**{"alpha_per_task": True, **options}).fit(X, Y)
    for labels, groups, message in (
        (Y[:1], None, "only 1 sample with labels"),
        (Y, np.zeros(M), "only 1 group of instances"),
    ):
        with pytest.raises(ValueError, match=message):
            IndependentTaskRidgeCV(alpha_per_task=True).fit(X[: len(labels)], labels, groups=groups)


def of_a_function(Y, F):
    if np.unique(Y[~np.isnan(Y)]).size < 2:
        raise ValueError("one class")
    return roc_auc(Y, F)


EMPTY = np.where(np.arange(Q) == 1, np.nan, Y)
ONE_CLASS = np.where(np.arange(Q) == 1, 0.0, Y > 0)


@over(
    lines(
        "labels scoring",
        (EMPTY, "neg_mean_squared_error"),
        (ONE_CLASS, "roc_auc"),
        (ONE_CLASS, of_a_function),
    )
)
def test_a_task_without_a_score_has_what_is_best_for_the_others(labels, scoring):
    search = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True, scoring=scoring, **PAPER)
    with pytest.warns(UndefinedScoreWarning, match=r"is undefined for 1 of 6 tasks \(1\)") as seen:
        search.fit(X, labels)
    assert {warning.filename for warning in seen} == {__file__}
    assert {warning.category for warning in seen} <= {UndefinedScoreWarning, GridEdgeWarning}
    others = [0, 2, 3, 4, 5]
    rest = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True, scoring=scoring, **PAPER).fit(
        X, labels[:, others]
    )
    shared = max((rest.landscape_[place].mean(), alpha) for place, alpha in enumerate(ALPHAS))[1]
    assert f"they get alpha {shared:g}" in str(seen[0].message)
    assert_allclose(search.landscape_[:, others], rest.landscape_, rtol=1e-12)
    assert np.isnan(search.landscape_[:, 1]).all()
    assert_array_equal(search.alpha_[others], rest.alpha_)
    assert search.alpha_[1] == shared
    assert_allclose(search.best_score_, rest.best_score_)


@over(every(scoring=["roc_auc", of_a_function, lambda Y, F: float("nan")]))
def test_no_task_has_a_score(scoring):
    with pytest.raises(
        ValueError, match="is undefined for every task|needs labels of exactly two values"
    ):
        IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True, scoring=scoring).fit(
            X, np.zeros((M, Q))
        )


# --- what else is asked of them ----------------------------------------------------------------------


def fitted(labels=Y, **options):
    return IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True, **options).fit(X, labels)


def test_evaluate_and_baselines():
    search = fitted(Y, scoring="r2")
    found = evaluate(search, "A", scoring="neg_mean_squared_error")
    expected = -np.mean((search.holdout("B") - Y) ** 2)
    assert_allclose(found["neg_mean_squared_error"], [expected], rtol=1e-12)
    means = (Y.sum(axis=0) - Y) / (M - 1)
    scores = [scorer("r2")(Y[:, j], means[:, j]) for j in range(Q)]
    assert_allclose(search.baselines_["task_means"], np.mean(scores))
    stack = np.stack([np.roll(Y, shift, axis=0) for shift in range(3)])
    pairing = search.fitted_.pairing
    together = hold_out_stack(pairing, stack, Setting.B)
    assert_allclose(together, [hold_out(pairing, each, Setting.B) for each in stack])


def test_explanations_are_those_of_the_task():
    search = fitted(HOLES)
    for task in (0, 5):
        assert_allclose(explain(search, 5, task).prediction, search.predict()[5, task])
        found = explain(search, NEW[:1], task).prediction
        assert_allclose(found, search.predict(NEW[:1])[0, task])


def test_landscapes_and_pictures():
    search = fitted()
    assert_array_equal(landscape(search, alphas=ALPHAS, setting="B")["B"].shape, (len(ALPHAS),))
    report = summary_of(search)
    assert np.isnan(report.sides["instances"].effective_dimension)
    assert dict(report.facts)["Regularisation"] == "λ from 0.001 to 1000, one for each task"
    assert_allclose(report.landscapes[1].scores, search.landscape_.mean(axis=1))


def test_files(tmp_path):
    labels, weights = FORMS["both"]
    search = IndependentTaskRidgeCV(ALPHAS, alpha_per_task=True).fit(
        X, labels, sample_weight=weights
    )
    for model in (search, IndependentTaskRidge(EACH).fit(X, labels, sample_weight=weights)):
        save(model, tmp_path / "model.dyad")
        again = load(tmp_path / "model.dyad")
        assert_array_equal(again.predict(NEW), model.predict(NEW))
        assert_array_equal(again.holdout("B"), model.holdout("B"))
    assert_array_equal(
        load(tmp_path / "model.dyad").set_alpha(1.0).predict(NEW), model.set_alpha(1.0).predict(NEW)
    )

"""Labels that are the only ones of their task: not predicted once they are left out, not scored, and said once."""

import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    TwoStepRidge,
    evaluate,
    landscape,
    recommend,
    screen,
)
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.metrics import mean_squared_error
from sweeps import every, lines, over

M = 12
Q = 6
X, FULL, T = problems.data(M, Q)
ALPHAS = [0.1, 10.0]
# Task 1 has one label, task 4 none; those of task 3 all lie in one group.
Y = np.where(default_rng(1).random((M, Q)) < 0.3, np.nan, FULL + 50.0)
Y[:, 1], Y[:, 4], Y[:, 3] = np.nan, np.nan, np.nan
Y[5, 1], Y[[0, 1, 2], 3] = 52.0, [49.0, 48.0, 51.0]
GROUPS = np.repeat(np.arange(4), 3)
ONE = (5, 1)


def quietly(function, *args, **options):
    """Return what a function does, and what it says of labels."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = function(*args, **options)
    return found, [
        str(each.message) for each in caught if issubclass(each.category, NoLabelWarning)
    ]


def fitted(labels=Y, Model=IndependentTaskRidge, **options):
    options = {"kernel": "rbf", **options}
    return quietly(Model(**options).fit, X, labels)[0]


def refitted(alpha, groups):
    """Return what models say that were fitted without each group; NaN where a task has lost all its labels."""
    held_out = np.full((M, Q), np.nan)
    for group in np.unique(groups):
        own = fitted(np.where((groups == group)[:, None], np.nan, Y), alpha=alpha)
        held_out[groups == group] = own.predict(X)[groups == group]
    return held_out


def mean_error(F, letter="B"):
    """Return minus the mean squared error of what is observed and predicted; in setting B the mean over instances."""
    squares = (Y - F) ** 2
    if letter == "A":
        return -float(np.nanmean(squares))
    return -float(
        np.mean([row[~np.isnan(row)].mean() for row in squares if not np.isnan(row).all()])
    )


N = int(np.count_nonzero(~np.isnan(Y)))


# --- fit and hold-out -----------------------------------------------------------------------------------


def test_a_task_without_labels_is_not_predicted_and_that_is_said_once():
    model, said = quietly(IndependentTaskRidge(kernel="rbf").fit, X, Y)
    assert len(said) == 1
    assert said[0].startswith(
        "1 of 6 tasks (positions 4) have no label to estimate an intercept from: their predictions"
    )
    predicted = model.predict(X)
    assert np.isnan(predicted[:, 4]).all()
    assert np.isfinite(np.delete(predicted, 4, axis=1)).all()
    assert_allclose(predicted[:, 1], 52.0, rtol=1e-14)
    assert_array_equal(np.isnan(model.completed_), np.isnan(predicted))
    assert quietly(IndependentTaskRidge(kernel="rbf", fit_intercept=False).fit, X, Y)[1] == []
    assert quietly(TwoStepRidge().fit, X, Y, tasks=T)[1] == []


@over(every(weighted=[False, True], letter="AB"))
def test_what_is_held_out_is_what_refits_say(weighted, letter):
    if weighted:
        weights = default_rng(0).uniform(0.5, 2.0, size=(M, Q))
    else:
        weights = None
    model = quietly(IndependentTaskRidge(kernel="rbf").fit, X, Y, sample_weight=weights)[0]
    held_out, said = quietly(model.holdout, letter)
    assert len(said) == 1
    assert said[0].startswith(
        f"In setting {letter}, 1 of {N} labels are the only ones of their task (positions 1)"
    )
    assert "their predictions are NaN" in said[0]
    lone = np.isnan(held_out) & ~np.isnan(Y)
    assert_array_equal(np.argwhere(lone), [ONE])
    if not weighted:
        expected = refitted(1.0, np.arange(M))
        assert_allclose(held_out[~np.isnan(Y)], expected[~np.isnan(Y)], rtol=1e-9)


# --- scores ------------------------------------------------------------------------------------------------


def my_error(Y, F):
    assert np.isfinite(F[~np.isnan(Y)]).all()
    return -mean_squared_error(Y, F)


@over(lines("scoring cv", ("neg_mean_squared_error", None), (my_error, 4)))
def test_landscapes_and_searches_score_what_is_predicted(scoring, cv):
    folds = [(np.flatnonzero(each != GROUPS), np.flatnonzero(each == GROUPS)) for each in range(4)]
    groups, cv = (np.arange(M), None) if cv is None else (GROUPS, folds)
    # A function sees the grids and averages as it likes.
    expected = [
        mean_error(refitted(alpha, groups), "A" if scoring is my_error else "B") for alpha in ALPHAS
    ]
    count, tasks = (1, "1") if cv is None else (4, "1, 3")
    found, said = quietly(landscape, fitted(), "B", alphas=ALPHAS, scoring=scoring, cv=cv)
    assert_allclose(found["B"], expected, rtol=1e-8)
    search, more = quietly(
        IndependentTaskRidgeCV(ALPHAS, setting="B", scoring=scoring, kernel="rbf", cv=cv).fit, X, Y
    )
    assert_allclose(search.landscape_, expected, rtol=1e-8)
    assert search.alpha_ == ALPHAS[int(np.argmax(expected))]
    assert len(said) == 1
    assert len(more) == 2  # of the fit, and of the search
    for message in (said[0], more[1]):
        assert message.startswith(
            f"In setting B, {count} of {N} labels are the only ones of their task"
        )
        assert f"(positions {tasks})" in message
    assert_allclose(evaluated(search, scoring), max(expected), rtol=1e-8)


def evaluated(model, scoring=None):
    table = quietly(evaluate, model, "B", scoring=scoring)[0]
    return float(table[table.scoring][0])


def test_nothing_to_score_is_an_error():
    lone = np.full((M, Q), np.nan)
    lone[np.arange(Q), np.arange(Q)] = 1.0 + np.arange(Q)
    model = fitted(lone)
    for ask in (
        lambda: evaluate(model, "B"),
        lambda: landscape(model, alphas=ALPHAS, setting="B"),
        lambda: IndependentTaskRidgeCV(ALPHAS, kernel="rbf").fit(X, lone),
    ):
        with pytest.raises(ValueError, match=r"^Setting B leaves out the only label of every task"):
            ask()
    assert np.isnan(quietly(model.holdout, "B")[0][~np.isnan(lone)]).all()


# --- views ------------------------------------------------------------------------------------------------------


def test_advice_is_given_of_what_is_predicted():
    model = fitted()
    found = quietly(screen, model, setting="B", n=1000)[0]
    assert len(found) == N - 1
    assert ONE not in set(zip(found.instances, found.tasks, strict=True))
    tasks = quietly(recommend, model, instance=7, n=Q)[0].ids
    assert 4 not in tasks
    with pytest.raises(
        ValueError,
        match=r"^Nothing is predicted for 4: the tasks have no labels to estimate an intercept from",
    ):
        recommend(model, task=4)


def test_scores_of_new_labels_leave_tasks_out_that_have_no_prediction():
    model = fitted()
    new = default_rng(4).normal(size=(M, X.shape[1]))
    labels = default_rng(5).normal(size=(M, Q)) + 50.0
    others = np.delete(np.arange(Q), 4)
    again = fitted(Y[:, others])
    assert_allclose(model.score(new, labels), again.score(new, labels[:, others]), rtol=1e-12)

"""Terms of single rows in an online model, against refits written as their definition reads."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from dyadlearn import OnlineTwoStepRidge, load, save
from dyadlearn.settings import Setting
from sweeps import covering, lines, over
from two_ridges import kept_beside, labels_with_holes, two_ridges

ALPHA = 0.3
TASK_ALPHA = 0.7
ROW_ALPHA = 1.3
# Instances, features, tasks, features: more tasks than features, and fewer labels per row than
# features.
SHAPES = [(9, 3, 7, 2), (8, 4, 6, 8)]
# For refits of every cell.
SMALL = [(7, 2, 6, 2), (6, 3, 5, 6)]
settings = {"shape": SHAPES, "constant": [True, False], "holes": [0.4, 0.0]}


def problem(shape, holes=0.4, seed=0):
    X, Y, T = labels_with_holes(
        shape, max(holes, 0.1), seed
    )  # the last task has no label, the last but one has one
    if not holes:
        Y = default_rng(seed).normal(size=Y.shape)
    X[1] = X[0]  # two users with equal features
    return X, Y, T


def framed(X, Y, T):
    users = [f"u{i}" for i in range(len(X))]
    items = [f"i{j}" for j in range(len(T))]
    return pd.DataFrame(X, users), pd.DataFrame(Y, users, items), pd.DataFrame(T, items)


def with_terms(F, labels, T, row_alpha, constant, new_tasks=None):
    """Add to predictions (l, q) of rows with labels (l, q) a ridge regression of the residuals of each row."""
    new_tasks = T if new_tasks is None else new_tasks
    mean = T.mean(axis=0) if constant else 0.0
    length = np.sqrt(np.mean(np.sum((T - mean) ** 2, axis=1)))
    P, new = ((each - mean) / (length or 1.0) for each in (T, new_tasks))
    if constant:
        P, new = (np.column_stack([each, np.ones(len(each))]) for each in (P, new))
    found = []
    for predicted, own in zip(F, labels, strict=True):
        seen = ~np.isnan(own)
        penalised = np.vstack([P[seen], row_alpha**0.5 * np.eye(P.shape[1])])
        gaps = np.append(own[seen] - predicted[: len(T)][seen], np.zeros(P.shape[1]))
        found.append(new @ np.linalg.lstsq(penalised, gaps, rcond=None)[0])
    return np.array(found)


def refit(
    X, Y, T, new, labels, new_tasks=None, constant=True, alphas=(ALPHA, TASK_ALPHA, ROW_ALPHA)
):
    """Predict for instances with labels, NaN where there are none, by two ridges and a term of each row."""
    new_tasks = T if new_tasks is None else new_tasks
    F = two_ridges(X, Y, T, new, np.vstack([T, new_tasks]), *alphas[:2], constant)
    return F[:, len(T) :] + with_terms(F, labels, T, alphas[2], constant, new_tasks)


def online(constant=True, row_alpha=ROW_ALPHA, **options):
    return OnlineTwoStepRidge(
        ALPHA, TASK_ALPHA, fit_intercept=constant, keep_labels=True, row_alpha=row_alpha, **options
    )


@over(covering(**settings, row_alpha=[1e-4, 1e6]))
def test_predictions_equal_two_ridges_and_a_ridge_of_each_row(shape, constant, holes, row_alpha):
    X, Y, T = problem(shape, holes)
    X_, Y_, T_ = framed(X, Y, T)
    model = online(constant, row_alpha).fit(X_[:5], Y_[:5], T_).partial_fit(X_[5:], Y_[5:])
    wanted = refit(X, Y, T, X, Y, constant=constant, alphas=(ALPHA, TASK_ALPHA, row_alpha))
    assert_allclose(model.predict(X_), wanted, rtol=1e-8, atol=1e-9)
    assert np.abs(wanted[0] - wanted[1]).max() > (1e-2 if row_alpha < 10 else 1e-8)
    new_tasks = default_rng(1).normal(size=(3, T.shape[1]))
    wanted = refit(X, Y, T, X, Y, new_tasks, constant, (ALPHA, TASK_ALPHA, row_alpha))
    assert_allclose(model.predict(X_, new_tasks), wanted, rtol=1e-8, atol=1e-9)
    found = model.predict_pairs(X_, new_tasks, [("u4", 2), ("u0", 1)])
    assert_allclose(found, wanted[[4, 0], [2, 1]], rtol=1e-8, atol=1e-9)
    # Rows without ids, and other ids, are new: they have no term.
    plain = online(constant, None).fit(X_, Y_, T_)
    mixed = X_[:3].set_axis(["u2", "new", "u0"])
    labels = np.stack([Y[2], np.full(len(T), np.nan), Y[0]])
    wanted = refit(X, Y, T, X[:3], labels, constant=constant, alphas=(ALPHA, TASK_ALPHA, row_alpha))
    assert_allclose(model.predict(mixed), wanted, rtol=1e-8, atol=1e-9)
    assert_allclose(model.predict(sparse.csr_array(X)), plain.predict(X), rtol=1e-9, atol=1e-10)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-8, atol=1e-10)


@over(covering(**settings))
def test_updates_equal_a_fit_on_the_final_labels(shape, constant, holes, tmp_path):
    X, Y, T = problem(shape, holes)
    X_, Y_, T_ = framed(X, Y, T)
    model = online(constant).fit(X_[:6], Y_.iloc[:6, :4], T_[:4])
    model.predict(X_)
    model.partial_fit(X_[6:], Y_.iloc[6:, :4])
    model.partial_fit_tasks(T_[4:], Y_.iloc[:, 4:])

    def check(rows, columns, Y):
        wanted = refit(
            X[rows],
            Y[np.ix_(rows, columns)],
            T[columns],
            X[rows],
            Y[np.ix_(rows, columns)],
            None,
            constant,
        )
        assert_allclose(model.predict(X_.iloc[rows]), wanted, rtol=1e-8, atol=1e-9)

    every_row = np.arange(len(X))
    every_task = np.arange(len(T))
    check(every_row, every_task, Y)
    # One rating of a known user: the other labels stay.
    rating = pd.DataFrame(np.nan, ["u2"], Y_.columns)
    rating.loc["u2", "i3"] = 4.0
    model.partial_fit(X_.loc[["u2"]], rating, known="replace")
    later = Y.copy()
    later[2, 3] = 4.0
    check(every_row, every_task, later)
    save(model, tmp_path / "model.dyad")
    model = load(tmp_path / "model.dyad")
    assert model.row_alpha == ROW_ALPHA
    check(every_row, every_task, later)
    # The term of an instance is forgotten with it: its id is new.
    model.forget(X_[3:4], Y_[3:4])
    rest = np.delete(every_row, 3)
    check(rest, every_task, later)
    gone = refit(X[rest], later[rest], T, X[3:4], np.full((1, len(T)), np.nan), None, constant)
    assert_allclose(model.predict(X_[3:4]), gone, rtol=1e-8, atol=1e-9)
    model.forget_tasks(["i1"])
    check(rest, np.delete(every_task, 1), later)


def left_out(X, Y, T, setting, constant, alphas=(ALPHA, TASK_ALPHA, ROW_ALPHA)):
    """Return hold-out predictions of every second cell, by refitting; infinity elsewhere."""
    found = np.full(Y.shape, np.inf)
    for i, j in np.argwhere(np.add.outer(np.arange(len(X)), np.arange(len(T))) % 2 == 0):
        rows, columns = kept_beside(setting, Y.shape, (i, j))
        labels = Y.copy()
        labels[i, j] = np.nan
        own = np.full(len(T), np.nan) if 0 in setting.new else labels[i]
        block = labels[np.ix_(rows, columns)]
        found[i, j] = refit(
            X[rows], block, T[columns], X[[i]], own[None, columns], T[[j]], constant, alphas
        )[0, 0]
    return found


@over(covering(shape=SMALL, constant=[True, False], setting=list(Setting), row_alpha=[1e-6, 1e5]))
def test_holdout_equals_refits(shape, constant, setting, row_alpha):
    X, Y, T = problem(shape)
    model = online(constant, row_alpha).fit(X, Y, T)
    wanted = left_out(X, Y, T, setting, constant, (ALPHA, TASK_ALPHA, row_alpha))
    known = ~np.isinf(wanted)
    some = [3, 1]
    assert_allclose(model.holdout(X, Y, setting)[known], wanted[known], rtol=1e-6, atol=1e-7)
    found = model.holdout(X[some], Y[some], setting)
    assert_allclose(found[known[some]], wanted[some][known[some]], rtol=1e-6, atol=1e-7)


@over(covering(shape=SMALL, constant=[True, False], setting=[Setting.A, Setting.C]))
def test_holdout_of_complete_labels(shape, constant, setting):
    X, Y, T = problem(shape, holes=0)
    found = online(constant).fit(X, Y, T).holdout(X, Y, setting)
    if setting is Setting.C:
        wanted = left_out(X, Y, T, setting, constant)
        known = ~np.isinf(wanted)
        assert_allclose(found[known], wanted[known], atol=1e-8)
        return
    # Both steps complete the pair that is left out, until its label equals its prediction; then the
    # term is added.
    for i, j in ((0, 0), (3, 2), (5, len(T) - 1)):
        labels = Y.copy()
        predicted = []
        for labels[i, j] in (0.0, 1.0):  # the two-step prediction is linear in the label
            predicted.append(two_ridges(X, labels, T, X[[i]], T, ALPHA, TASK_ALPHA, constant)[0])
        at_zero = predicted[0]
        slope = predicted[1] - predicted[0]
        F = at_zero + slope * at_zero[j] / (1 - slope[j])
        assert_allclose(F[j], at_zero[j] / (1 - slope[j]))
        own = Y[[i]].copy()
        own[0, j] = np.nan
        assert_allclose(found[i, j], F[j] + with_terms(F[None], own, T, ROW_ALPHA, constant)[0, j])


def test_landscape_scores_the_held_out_predictions():
    X, Y, T = problem((7, 2, 6, 2))
    model = online().fit(X, Y, T)
    found = model.landscape(X, Y, [0.1, 1.0], [0.5], setting="A")
    for alpha, score in zip([0.1, 1.0], found[:, 0], strict=True):
        held_out = model.set_alpha(alpha, 0.5).holdout(X, Y, "A")
        assert_allclose(score, -np.nanmean((held_out - Y) ** 2), rtol=1e-9)


@over(
    lines(
        "change error words",
        ({"keep_labels": False}, ValueError, "row_alpha needs labels and features of tasks"),
        ({"row_alpha": 0}, ValueError, "row_alpha must be above 0, found 0"),
        ({"row_alpha": -1.0}, ValueError, "row_alpha must be a finite number of at least 0"),
        ({"row_alpha": "auto"}, TypeError, "row_alpha must be a number"),
    )
)
def test_what_is_refused(change, error, words):
    X, Y, T = problem((12, 3, 7, 2))
    with pytest.raises(error, match=words):
        clone(online()).set_params(**change).fit(X, Y, T)


def test_terms_need_tasks_and_stored_labels():
    X, Y, T = problem((12, 3, 7, 2))
    model = online()
    with pytest.raises(ValueError, match="fit with keep_labels=True and tasks="):
        model.fit(X, Y[:, :4])
    assert not hasattr(model, "_learnt")
    model = OnlineTwoStepRidge().fit(X, Y, T).set_params(keep_labels=True, row_alpha=1.0)
    with pytest.raises(ValueError, match="fit with keep_labels=True and tasks="):
        model.predict(X)


def test_two_step_ridge_has_no_terms_and_says_so():
    X, _, T = problem((12, 3, 7, 2))
    model = online().fit(X, default_rng(3).normal(size=(12, 7)), T)
    with pytest.warns(
        UserWarning, match="Terms of rows are left out, so this result is that of TwoStepRidge"
    ):
        assert_allclose(model.to_two_step().predict(X), model.predict(X), rtol=1e-8)

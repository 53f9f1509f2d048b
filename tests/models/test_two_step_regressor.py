"""Any two regressors in two steps: kernel ridges are `TwoStepRidge`, others what two loops over fits say."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestRegressor,
)
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor

from dyadlearn import SettingKFold, Tasks, TwoStepRegressor, TwoStepRidge
from dyadlearn.exceptions import IdError, NoLabelWarning
from sweeps import covering, every, lines, over


@pytest.fixture(autouse=True)
def quick_estimators():
    """Let scikit-learn's estimators, which are fitted thousands of times, skip the checks of their own parameters."""
    with config_context(skip_parameter_validation=True):
        yield


M = 9
Q = 6
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 4))
T = RNG.normal(size=(Q, 3))
X_NEW = RNG.normal(size=(5, 4))
T_NEW = RNG.normal(size=(2, 3))
Y = 3 + X @ RNG.normal(size=(4, 3)) @ T.T + RNG.normal(size=(M, Q))
GROUPS = np.arange(M) % 3
CELLS = RNG.integers(0, 3, size=(M, Q))
ORDERS = ["instances", "tasks"]

HOLES = np.zeros((M, Q), dtype=bool)
HOLES.flat[[1, 8, 17, 20, 33, 40]] = True


def tree(**params):
    """Return a learner that is not linear in its targets."""
    return DecisionTreeRegressor(max_depth=2, random_state=0, **params)


class Quick(RegressorMixin, BaseEstimator):
    """A regressor of many targets without scikit-learn's checks of its input, most of the time of a small fit."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


class QuickRidge(Quick):
    """Ridge regression with an intercept."""

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def fit(self, X, y):
        self.means_ = X.mean(axis=0), y.mean(axis=0)
        rows = X - self.means_[0]
        self.coef_ = np.linalg.solve(
            rows.T @ rows + self.alpha * np.eye(rows.shape[1]), rows.T @ (y - self.means_[1])
        )
        return self

    def predict(self, X):
        return (X - self.means_[0]) @ self.coef_ + self.means_[1]


# --- two ridges are two-step ridge regression ----------------------------------------------------


@over(covering(first=ORDERS, alphas=[(0.3, 0.7), (1e3, 1e-2), (1e-1, 1e4)]))
def test_two_ridges_are_two_step_ridge(first, alphas):
    model = TwoStepRegressor(*map(Ridge, alphas), first_step=first).fit(X, Y, tasks=T)
    ridge = TwoStepRidge(*alphas).fit(X, Y, T)
    for given, task_given in product((None, X_NEW), (None, T_NEW)):
        found = model.predict(given, task_given)
        assert_allclose(found, ridge.predict(given, task_given), rtol=1e-8, atol=1e-9)


# --- others are what two fits in a row say -------------------------------------------------------------------


def by_hand(first, labels, given, new, estimators):
    """Return predictions for new rows, one target after the other, each learnt from its observed labels."""
    if first == "tasks":
        return by_hand("instances", labels.T, given[::-1], new[::-1], estimators[::-1]).T
    rows, tasks = given
    new_rows, new_tasks = new
    step = np.empty((len(new_rows), labels.shape[1]))
    for j in range(labels.shape[1]):
        seen = ~np.isnan(labels[:, j])
        step[:, j] = clone(estimators[0]).fit(rows[seen], labels[seen, j]).predict(new_rows)
    found = np.empty((len(new_rows), len(new_tasks)))
    for i in range(len(new_rows)):
        found[i] = clone(estimators[1]).fit(tasks, step[i]).predict(new_tasks)
    return found


LEARNERS = {
    "boosting and trees": (
        GradientBoostingRegressor(n_estimators=2, random_state=0),
        MultiOutputRegressor(tree()),
    ),
    "trees and ridge": (MultiOutputRegressor(tree()), Ridge(0.5)),
    "neighbours and boosting": (
        KNeighborsRegressor(2),
        GradientBoostingRegressor(n_estimators=2, random_state=0),
    ),
}


def single(estimator):
    if isinstance(estimator, MultiOutputRegressor):
        return estimator.estimator
    return estimator


@over(covering(learners=LEARNERS, first=ORDERS, holes=[False, True], strength=1))
def test_any_learners_are_two_fits_in_a_row(learners, first, holes):
    m = 6
    q = 5
    new = X_NEW[:2]
    labels = (np.where(HOLES, np.nan, Y) if holes else Y)[:m, :q]
    known = (X[:m], T[:q])
    model = TwoStepRegressor(*learners, first_step=first).fit(known[0], labels, known[1])
    estimators = tuple(map(single, learners))
    expected = by_hand(
        first, labels, known, (np.vstack([X[:m], new]), np.vstack([T[:q], T_NEW])), estimators
    )
    for given, rows in ((None, slice(m)), (new, slice(m, None))):
        for task_given, columns in ((None, slice(q)), (T_NEW, slice(q, None))):
            assert_allclose(model.predict(given, task_given), expected[rows, columns], rtol=1e-12)


# --- labels that are not there -------------------------------------------------------------------------------


# --- what comes in and goes out ------------------------------------------------------------------------------


def test_without_tasks_there_is_one_step():
    model = TwoStepRegressor(tree(), Ridge(), first_step="tasks").fit(X, Y)
    assert_array_equal(model.predict(X_NEW), tree().fit(X, Y).predict(X_NEW))
    # A forest warns of a single target that comes as a column.
    assert TwoStepRegressor(RandomForestRegressor(2), Ridge()).fit(
        X, Y[:, :1], tasks=T[:1]
    ).predict().shape == (M, 1)
    with pytest.raises(ValueError, match="Setting D predicts new tasks"):
        model.holdout("D")


def test_a_task_without_labels_and_features_is_told():
    labels = Y.copy()
    labels[:, 2], labels[1:, 4] = np.nan, np.nan
    with pytest.warns(
        NoLabelWarning, match=r"1 of 6 tasks \(positions 2\) have no label to learn from"
    ):
        model = TwoStepRegressor(QuickRidge()).fit(X, labels)
    assert_array_equal(np.isnan(model.predict(X_NEW)).all(axis=0), np.arange(Q) == 2)
    with pytest.warns(
        NoLabelWarning, match=r"1 of 6 tasks \(positions 4\) are left without a label"
    ):
        found = model.holdout("A", cells=CELLS)
    assert np.isnan(found[0, 4])


INSTANCES = [f"i{i}" for i in range(M)]


def test_missing_features_are_up_to_the_estimator():
    rows = X.copy()
    tasks = T.copy()
    rows[0, 0] = tasks[1, 1] = np.nan
    imputing = make_pipeline(SimpleImputer(), Ridge())
    boosted = HistGradientBoostingRegressor(max_iter=2, min_samples_leaf=2)
    assert np.isfinite(
        TwoStepRegressor(boosted, imputing).fit(rows, Y, tasks).holdout("D", cv=2)
    ).all()
    with pytest.raises(ValueError, match="NaN") as raised:
        TwoStepRegressor(boosted, Ridge()).fit(rows, Y, tasks=tasks)
    assert raised.value.__notes__ == ["It was raised by task_estimator, whose rows are the tasks."]


# --- among scikit-learn's tools ------------------------------------------------------------------------------


def test_tasks_are_routed_and_nested_parameters_searched():
    square = Y[
        :Q
    ]  # as many tasks as instances: where scikit-learn would cut the tasks with the rows
    model = TwoStepRegressor(Ridge(), Ridge(0.1))
    with config_context(enable_metadata_routing=True):
        model.set_fit_request(tasks=True).set_score_request(tasks=False)
        found = cross_validate(model, X[:Q], square, cv=KFold(3), params={"tasks": Tasks(T)})[
            "test_score"
        ]
        expected = [
            clone(model).fit(X[train], square[train], tasks=T).score(X[test], square[test])
            for train, test in KFold(3).split(X[:Q])
        ]
        assert_allclose(found, expected)
        search = GridSearchCV(model, {"instance_estimator__alpha": [1e-2, 1e6]}, cv=KFold(3))
        assert search.fit(X, Y, tasks=Tasks(T)).best_params_ == {"instance_estimator__alpha": 1e-2}
    assert model.get_params()["task_estimator__alpha"] == 0.1


REFUSED = lines(
    "params given error match",
    (
        {"instance_estimator": Ridge},
        {},
        TypeError,
        "instance_estimator must be a scikit-learn regressor",
    ),
    (
        {"task_estimator": LogisticRegression()},
        {},
        TypeError,
        "task_estimator must be a scikit-learn regressor",
    ),
    ({"first_step": "rows"}, {}, ValueError, "first_step must be one of 'instances', 'tasks'"),
    ({}, {"tasks": T[:4]}, ValueError, "tasks has 4 rows, but Y has 6 columns"),
    ({}, {"tasks": np.full_like(T, np.inf)}, ValueError, "Input tasks contains infinity"),
    (
        {},
        {"y": pd.DataFrame(Y, INSTANCES), "X": pd.DataFrame(X, range(M))},
        IdError,
        "do not match",
    ),
)


@over(REFUSED)
def test_bad_input_is_refused_in_a_sentence(params, given, error, match):
    model = TwoStepRegressor(**params)
    with pytest.raises(error, match=match):
        model.fit(**{"X": X, "y": Y, "tasks": T, **given})
    with pytest.raises(NotFittedError):
        model.predict(X)


@over(
    lines(
        "setting given match",
        ("C", {"groups": GROUPS}, "groups of left-out instances, and setting C"),
        ("A", {"cells": CELLS, "cv": 3}, "give only one of them"),
        ("B", {"groups": np.zeros(M)}, "No label remains to learn from"),
        ("C", {"cv": 7}, "7 folds need at least as many tasks"),
        ("B", {"cv": SettingKFold("D")}, "cv makes folds for setting D"),
    )
)
def test_hold_out_that_makes_no_sense_is_refused(setting, given, match):
    model = TwoStepRegressor().fit(X, Y, T)
    with pytest.raises(ValueError, match=match):
        model.holdout(setting, **given)


def test_new_rows_must_be_described_as_those_of_training():
    model = TwoStepRegressor().fit(X, Y, T)
    with pytest.raises(ValueError, match="tasks has 4 columns, expected 3 features"):
        model.predict(X_NEW, X_NEW)
    model.fit(X, Y, tasks=pd.DataFrame(T, columns=list("uvw")))
    with pytest.raises(ValueError, match="feature names of tasks should match"):
        model.predict(X_NEW, pd.DataFrame(T_NEW, columns=list("vuw")))


def test_arrays_of_other_libraries_are_refused():
    xp = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match="X is an array of array_api_strict"):
        TwoStepRegressor().fit(xp.asarray(X), Y)
    model = TwoStepRegressor().fit(X, Y, T)
    with pytest.raises(TypeError, match="tasks is an array of array_api_strict"):
        model.predict(X, xp.asarray(T))


@over(every(setting=["A", "D"]))
def test_intervals_have_the_width_of_held_out_residuals(setting):
    model = TwoStepRegressor(QuickRidge(0.5), QuickRidge(0.1)).fit(X, Y, tasks=T)
    rows = X_NEW if setting in "BD" else None
    columns = T_NEW if setting in "CD" else None
    lower, upper = model.predict_interval(rows, columns, coverage=0.8)
    errors = np.sort(np.abs(Y - model.holdout(setting)).ravel())
    width = errors[int(np.ceil((errors.size + 1) * 0.8)) - 1]
    # The held-out prediction of an observed pair has not used its label.
    centre = model.holdout("A") if setting == "A" else model.predict(rows, columns)
    assert_allclose(lower, centre - width)
    assert_allclose(upper, centre + width)

"""Searches, scores and simple means on observed pairs alone, against the same on a grid with holes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_predict

import dyadlearn
from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    PairRegressor,
    SettingKFold,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn.holdout import plan, planning
from dyadlearn.holdout.baselines import BASELINES, baselines
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.metrics import scorer_names
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.settings import Setting
from dyadlearn.solve import observed
from listed import (
    COLUMNS,
    ROWS,
    SPARSE,
    SPARSE_WEIGHTS,
    VALUES,
    WEIGHTS,
    M,
    Q,
    T,
    X,
    Y,
    listed,
)
from problems import grid_baselines
from sweeps import covering, every, lines, over

__all__ = ["listed"]

GROUPS = np.arange(M) % 7
TASK_GROUPS = np.arange(Q) % 6
ALPHAS = [0.3, 10.0]
SEARCHES = {
    "kronecker": (KroneckerRidge(tol=1e-12), {}),
    "kronecker, no intercept": (KroneckerRidge(tol=1e-12, fit_intercept=False), {}),
    "two-step": (TwoStepRidge(tol=1e-12), {"task_alphas": [10.0]}),
    "two-step, kernel": (
        TwoStepRidge(tol=1e-12, kernel="rbf", task_kernel="rbf"),
        {"task_alphas": [0.1]},
    ),
}


def searched(model, given, **options):
    """Return the search of a model, with its parameters, fitted on the pairs."""
    kind = KroneckerRidgeCV if type(model) is KroneckerRidge else TwoStepRidgeCV
    own = {
        name: value
        for name, value in model.get_params().items()
        if name not in ("alpha", "task_alpha")
    }
    fitting = {
        name: options.pop(name)
        for name in ("groups", "task_groups", "sample_weight")
        if name in options
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dyadlearn.exceptions.GridEdgeWarning)
        search = kind(ALPHAS, **own, **given, **options).fit(X, SPARSE, tasks=T, **fitting)
    assert search.fitted_.training_problem.labels.grid is None
    return search


def left_out(search, model, setting, weighted):
    """Return what the same folds give on the grid with holes, at the pairs: by refits."""
    fitted = clone(model).fit(X, Y, tasks=T, sample_weight=WEIGHTS if weighted else None)
    units = search.fitted_.validation.units
    given = {"groups": units.sides[0], "task_groups": units.sides[1]}
    if setting == "A":
        cells = np.zeros((M, Q), dtype=int)
        cells[ROWS, COLUMNS] = units.cells
        given = {"cells": cells}
    return refitted(fitted, setting, **given)[ROWS, COLUMNS]


def refitted(fitted, setting, **units):
    """Return held-out predictions of a model that is solved again without each unit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_MOST_WORK", 0.0)
        return fitted.holdout(setting, **units)


def squared_errors(F, setting):
    """Return the mean squared error of predictions (n,) as scores of a setting average it."""
    errors = (F - VALUES) ** 2
    at = {"B": ROWS, "C": COLUMNS}.get(setting)
    if at is None:
        return np.mean(errors)
    return np.mean([errors[at == each].mean() for each in np.unique(at)])


@over(
    lines(
        "name setting weighted grouped",
        ("kronecker", "A", True, False),
        ("two-step", "A", False, False),
        ("two-step, kernel", "B", True, True),
        ("kronecker, no intercept", "B", False, False),
        ("kronecker", "C", False, True),
        ("two-step", "C", True, False),
        ("two-step", "D", False, True),
        ("kronecker, no intercept", "D", True, False),
    )
)
def test_a_search_scores_the_folds_of_a_grid_with_holes(listed, name, setting, weighted, grouped):
    model, given = SEARCHES[name]
    options = {"sample_weight": SPARSE_WEIGHTS} if weighted else {}
    if grouped and setting in "BD":
        options["groups"] = GROUPS
    if grouped and setting in "CD":
        options["task_groups"] = TASK_GROUPS
    found = searched(model, given, setting=setting, cv=2, **options)
    expected = np.empty(found.landscape_.shape)
    for place in np.ndindex(*expected.shape):
        at = {"alpha": ALPHAS[place[0]]}
        at |= {"task_alpha": given["task_alphas"][place[1]]} if len(place) > 1 else {}
        F = left_out(found, clone(model).set_params(**at), setting, weighted)
        expected[place] = -squared_errors(F, setting)
        if place == np.unravel_index(np.argmax(found.landscape_), expected.shape):
            assert found.fitted_.alphas == at
            assert_allclose(found.holdout_.data, F, rtol=1e-6, atol=1e-6)
    assert_allclose(found.landscape_, expected, rtol=1e-4)
    assert found.best_score_ == found.landscape_.max()
    assert found.holdout_.shape == (M, Q)
    assert_array_equal(found.holdout_.indices, SPARSE.indices)
    n_groups = len(set(GROUPS))
    n_task_groups = len(set(TASK_GROUPS))
    words = {"B": f"{n_groups} ", "C": f"{n_task_groups} ", "D": f"{n_groups}×{n_task_groups} "}
    folds = "2×2 folds" if setting == "D" else "2 folds"
    is_exact = setting == "A" or type(model) is KroneckerRidge
    method = "exact leave-fold-out" if is_exact else f"{folds}, refitted"
    if grouped and setting != "A":
        method = f"{words[setting]}groups in {folds}, " + ("exact" if is_exact else "refitted")
    assert found.holdout_method_ == method
    for side, groups in (
        (found.fitted_.validation.units.sides[0], GROUPS),
        (found.fitted_.validation.units.sides[1], TASK_GROUPS),
    ):
        if grouped and side is not None:
            assert all(len(set(side[groups == group])) == 1 for group in set(groups))


# --- scores --------------------------------------------------------------------------------------


@over(
    covering(
        setting="ABCD", name=[name.replace("_at_k", "_at_2") for name in scorer_names()], strength=2
    )
)
def test_scores_are_those_of_the_grid(setting, name):
    setting = Setting(setting)
    whole = np.round(np.where(np.isnan(Y), np.nan, (Y > 5.0) * 1.0))
    F = RNG.normal(size=(M, Q))
    lists = Labels.of_grid(whole).listed()
    grid = Labels.of_grid(whole)
    expected = prepared_score(grid, name, setting)
    found = prepared_score(lists, name, setting)
    assert_allclose(found(F[ROWS, COLUMNS]), expected(F), rtol=1e-12)
    assert found.n_undefined == expected.n_undefined


@over(every(name=["average_precision", "recall_at_2", "enrichment_factor"], setting="BC"))
def test_rows_with_labels_of_one_value_are_scored(name, setting):
    """Rows with a single positive label have a score, also if no row of their length has both labels."""
    grid = np.array([[1, np.nan, np.nan, np.nan, np.nan], [1, 0, 1, 0, np.nan], [0, 1, 1, 0, 1.0]])
    labels = Labels.of_grid(grid if setting == "B" else grid.T)
    F = np.random.default_rng(0).normal(size=labels.shape)
    expected = prepared_score(labels, name, Setting(setting))
    found = prepared_score(labels.listed(), name, Setting(setting))
    assert_allclose(found(F[labels.places]), expected(F), rtol=1e-12)
    assert found.n_undefined == expected.n_undefined


def test_a_function_of_grids_scores_a_list():
    def share(labels, predictions):
        return float(np.nanmean((labels > 5.0) == (predictions > 5.0)))

    F = RNG.normal(size=(M, Q)) + 5.0
    found = prepared_score(Labels.of_grid(Y).listed(), share, Setting.B)(F[ROWS, COLUMNS])
    # A comparison with NaN is false on both sides only where predictions say so too.
    assert_allclose(found, share(Y, np.where(np.isnan(Y), 0.0, F)))


def test_an_undefined_score_of_a_list_is_refused():
    lists = Labels.of_grid(np.where(np.isnan(Y), np.nan, 1.0)).listed()
    # Each instance has labels of two values here, but not the same two.
    several = Labels.of_grid(np.array([[0.0, 1.0, np.nan], [np.nan, 1.0, 2.0]])).listed()
    with pytest.raises(ValueError, match="needs labels of exactly two values"):
        prepared_score(several, "roc_auc", Setting.B)
    for setting in "ABCD":
        with pytest.raises(ValueError, match="needs labels of exactly two values"):
            prepared_score(lists, "roc_auc", Setting(setting))


# --- simple means --------------------------------------------------------------------------------

RNG = np.random.default_rng(8)
FOLDS = RNG.integers(0, 3, M), RNG.integers(0, 3, Q), RNG.integers(0, 4, (M, Q))
# Two parts that no label connects, so that effects are not told apart between them.
APART = np.where(np.add.outer(np.arange(M) < 9, np.arange(Q) < 6) % 2 == 1, np.nan, Y)
WIDE = np.where(RNG.random((M, Q)) < 0.2, 1e-10, 1.0)


@over(
    covering(
        setting="ABCD",
        labels={"some": Y, "apart": APART, "turned": Y[:9]},
        weights={"none": None, "some": WEIGHTS, "wide": WIDE},
        strength=3,
    )
)
def test_means_are_those_of_the_grid(setting, labels, weights):
    m, q = labels.shape
    setting = Setting(setting)
    weights = None if weights is None else weights[:m]
    rows, columns = np.nonzero(~np.isnan(labels))
    pairs = Labels(
        (rows, columns),
        labels[rows, columns],
        (m, q),
        None if weights is None else weights[rows, columns],
    )
    codes = FOLDS[0][:m], FOLDS[1], FOLDS[2][:m]
    sides = tuple(codes[axis] if axis in setting.new else None for axis in (0, 1))
    is_cells = setting is Setting.A
    found = baselines(pairs, setting, Units(sides, codes[2][rows, columns] if is_cells else None))
    expected = grid_baselines(
        labels, setting, Units(sides, codes[2] if is_cells else None), weights=weights
    )
    for name in BASELINES:
        assert_allclose(found[name], expected[name][rows, columns], rtol=1e-8, err_msg=name)


# --- evaluate ------------------------------------------------------------------------------------


# --- scikit-learn --------------------------------------------------------------------------------


def test_nothing_grows_with_the_grid():
    import tracemalloc

    rng = np.random.default_rng(0)
    m = 20_000
    q = 15_000
    n = 1_100
    X = rng.normal(size=(m, 3))
    T = rng.normal(size=(q, 3))
    pairs = np.unique(np.stack([rng.integers(0, m, n), rng.integers(0, q, n)], axis=1), axis=0)
    y = np.sum(X[pairs[:, 0]] * T[pairs[:, 1]], axis=1) + rng.normal(size=len(pairs))
    model = PairRegressor(KroneckerRidgeCV([30.0, 1e3], setting="D", cv=2), instances=X, tasks=T)
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dyadlearn.exceptions.GridEdgeWarning)
        model.fit(pairs, y)
    table = evaluate(model, "A", cv=2)
    F = cross_val_predict(
        PairRegressor(KroneckerRidge(30.0), instances=X, tasks=T), pairs, y, cv=SettingKFold("C", 2)
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.model_.fitted_.training_problem.labels.grid is None
    assert peak < 4 * m * q / 20  # bytes: a twentieth of the grid in single precision
    assert max(table["neg_mean_squared_error"]) > max(table["additive"])
    assert np.corrcoef(F, y)[0, 1] > 0.5


# --- likes without dislikes ----------------------------------------------------------------------


def test_folds_that_stop_short_are_told(listed, monkeypatch):
    problem = KroneckerRidge(1e-3).fit(X, SPARSE, tasks=T).fitted_.training_problem
    # As for many labels, no system of all labels is solved directly.
    monkeypatch.setattr(observed, "suits_direct", lambda *given: False)
    with pytest.warns(ConvergenceWarning, match="stopped in 3 of 3 folds after 1 iter"):
        plan(replace(problem, max_iter=1), Setting.B, cv=3, method="folds").held_out()


def test_folds_on_the_diagonal_scout(listed):
    problem = KroneckerRidge().fit(X, SPARSE, tasks=T).fitted_.training_problem
    how = plan(problem, Setting.D, cv=3, method="folds")
    scouts = how.folds.diagonal
    tested = [how.folds.folds[number].test for number in scouts]
    for unit, at in ((how.units.sides[0], ROWS), (how.units.sides[1], COLUMNS)):
        assert sorted({int(code) for test in tested for code in unit[at[test]]}) == [0, 1, 2]
        assert all(len(set(unit[at[test]])) == 1 for test in tested)
    some = how.folds.held_out(numbers=scouts)
    assert_array_equal(np.flatnonzero(~np.isnan(some)), np.sort(np.concatenate(tested)))
    assert how.folds.n_tested(scouts) == np.count_nonzero(~np.isnan(some))
    assert_allclose(some[tested[1]], how.held_out()[tested[1]], rtol=1e-6, atol=1e-7)
    assert_allclose(plan(problem, Setting.D, cv=3).held_out(), how.held_out(), rtol=1e-6, atol=1e-7)
    assert plan(problem, Setting.B, cv=3, method="folds").folds.diagonal == [0, 1, 2]

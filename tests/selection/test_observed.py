"""Searches, scores and simple means on observed pairs alone, against the same on a grid with holes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict

import dyadlearn
from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    PairRegressor,
    SettingKFold,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
    landscape,
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
    BINARY,
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


@pytest.fixture
def folds_only(monkeypatch):
    """Let no formula be affordable, as for many labels, so that all models are refitted for each fold."""
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)


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


@over(lines("cv setting", (None, "B"), (2, "C"), (SettingKFold("D", 2, random_state=3), "D")))
def test_folds_are_those_that_a_search_cuts_on_a_grid(listed, cv, setting):
    pairs = KroneckerRidgeCV([0.5], setting=setting, cv=cv, tol=1e-12).fit(X, SPARSE, tasks=T)
    grid = KroneckerRidgeCV([0.5], setting=setting, cv=cv, tol=1e-12).fit(X, Y, tasks=T)
    assert_allclose(pairs.holdout_.data, grid.holdout_[ROWS, COLUMNS], rtol=1e-7, atol=1e-8)
    assert_allclose(pairs.best_score_, grid.best_score_, rtol=1e-7)
    assert pairs.holdout_method_ == grid.holdout_method_


def test_given_folds_of_instances_are_left_out(listed):
    cv = list(KFold(3, shuffle=True, random_state=0).split(X))
    search = searched(KroneckerRidge(tol=1e-12), {}, setting="B", cv=cv)
    fold = np.zeros(M, dtype=int)
    for number, (_, test) in enumerate(cv):
        fold[test] = number
    assert_array_equal(search.fitted_.validation.units.sides[0], fold)
    with pytest.raises(ValueError, match="in one fold, and train on it in all others"):
        searched(KroneckerRidge(), {}, setting="B", cv=cv[:2])


def test_kernels_are_searched_too(listed):
    given = {"kernel_grid": [{"gamma": 1e-3}, {"gamma": 0.3}], "setting": "A", "cv": 2}
    search = searched(KroneckerRidge(kernel="rbf", tol=1e-10), {}, **given)
    alone = searched(
        KroneckerRidge(kernel="rbf", kernel_params={"gamma": 0.3}, tol=1e-10), {}, setting="A", cv=2
    )
    assert search.landscape_.shape == (2, 1, 2)
    assert_allclose(search.landscape_[1, 0], alone.landscape_, rtol=1e-4)
    assert search.kernel_params_ == {
        "gamma": [1e-3, 0.3][int(np.argmax(search.landscape_.max(axis=(1, 2))))]
    }


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


def test_evaluate_scores_folds_beside_means(listed):
    for model, cv in (
        (KroneckerRidge(0.5, tol=1e-10), None),
        (TwoStepRidge(0.5, 2.0, tol=1e-10), 2),
    ):
        fitted = clone(model).fit(X, SPARSE, tasks=T)
        grid = clone(model).fit(X, Y, tasks=T)
        table = evaluate(fitted, cv=cv)
        assert list(table["setting"]) == list("ABCD")
        # Pairs, instances and tasks are left out one at a time, as those of the grid.
        methods = ["exact leave-one-out"] * 4
        if cv is not None:
            methods = [
                "exact leave-fold-out",
                "2 folds, refitted",
                "2 folds, refitted",
                "2×2 folds, refitted",
            ]
        assert list(table["method"]) == methods
        if cv is None:
            assert_allclose(
                table["neg_mean_squared_error"], evaluate(grid)["neg_mean_squared_error"]
            )
        assert np.isnan(table["null"]).all()
        for place, setting in enumerate("BCD", start=1):
            units = Units()
            if cv is not None:
                units = SettingKFold(setting, cv, random_state=0).units(Labels.from_sparse(SPARSE))
            F = refitted(grid, setting, groups=units.sides[0], task_groups=units.sides[1])[
                ROWS, COLUMNS
            ]
            assert_allclose(
                table["neg_mean_squared_error"][place], -squared_errors(F, setting), rtol=1e-7
            )
            means = grid_baselines(Y, setting, units)
            for name in BASELINES:
                assert_allclose(
                    table[name][place],
                    -squared_errors(means[name][ROWS, COLUMNS], setting),
                    rtol=1e-7,
                )
        assert np.greater(table["neg_mean_squared_error"], table["additive"]).all()


def test_evaluate_takes_what_a_search_holds(listed):
    search = searched(TwoStepRidge(), {"task_alphas": [1.0, 2.0]}, setting="D", cv=2)
    table = evaluate(search, "D")
    assert_allclose(
        table["neg_mean_squared_error"][0], -np.mean((search.holdout_.data - VALUES) ** 2)
    )
    assert table["method"][0] == "2×2 folds, refitted"
    assert_allclose(
        [table[name][0] for name in BASELINES], [search.baselines_[name] for name in BASELINES]
    )
    assert evaluate(search, "D", cv=3)["method"][0] == "3×3 folds, refitted"


def test_two_values_are_scored_by_their_ranks(listed):
    model = KroneckerRidge(0.5).fit(X, BINARY, tasks=T)
    table = evaluate(model, "AB")
    F = refitted(KroneckerRidge(0.5).fit(X, np.where(np.isnan(Y), np.nan, Y > 5.0), tasks=T), "B")[
        ROWS, COLUMNS
    ]
    each = [(BINARY.data[row == ROWS], F[row == ROWS]) for row in np.unique(ROWS)]
    each = [roc_auc_score(*both) for both in each if np.ptp(both[0]) > 0]
    assert_allclose(table["roc_auc"][1], np.mean(each))
    assert_allclose(table["grand_mean"][0], 0.5, atol=0.5)


def test_a_landscape_is_that_of_the_search(listed):
    search = searched(KroneckerRidge(), {}, setting="D", cv=2)
    plain = KroneckerRidge().fit(X, SPARSE, tasks=T)
    assert_allclose(
        landscape(plain, alphas=ALPHAS, setting="D", cv=2)["D"], search.landscape_, rtol=1e-6
    )


# --- scikit-learn --------------------------------------------------------------------------------

PAIRS = np.stack([ROWS, COLUMNS], axis=1)


def test_scikit_learn_cuts_pairs_without_a_grid(listed):
    model = PairRegressor(KroneckerRidge(0.5, tol=1e-11), instances=X, tasks=T)
    for setting in "ABCD":
        cv = SettingKFold(setting, 2, random_state=1)
        F = cross_val_predict(model, PAIRS, VALUES, cv=cv)
        expected = np.empty_like(F)
        for train, test in cv.split(PAIRS):
            # Only entities of the training pairs are in the model, so that grids are of those.
            rows = np.unique(ROWS[train])
            columns = np.unique(COLUMNS[train])
            hidden = np.full((M, Q), np.nan)
            hidden[ROWS[train], COLUMNS[train]] = VALUES[train]
            fitted = KroneckerRidge(0.5, tol=1e-11).fit(
                X[rows], hidden[np.ix_(rows, columns)], tasks=T[columns]
            )
            expected[test] = fitted.predict(X, T)[ROWS[test], COLUMNS[test]]
        assert_allclose(F, expected, rtol=1e-6, atol=1e-7)


def test_a_search_of_scikit_learn_agrees_with_ours(listed):
    cv = SettingKFold("B", 3, random_state=1)
    model = PairRegressor(KroneckerRidge(tol=1e-10), instances=X, tasks=T)
    theirs = GridSearchCV(
        model, {"model__alpha": ALPHAS}, cv=cv, scoring="neg_mean_squared_error"
    ).fit(PAIRS, VALUES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dyadlearn.exceptions.GridEdgeWarning)
        ours = PairRegressor(
            KroneckerRidgeCV(ALPHAS, setting="B", cv=cv), instances=X, tasks=T
        ).fit(PAIRS, VALUES)
    assert ours.model_.fitted_.training_problem.labels.grid is None
    assert ours.model_.landscape_.shape == (2,)
    # Theirs is the mean of the means of folds: that of all pairs differs, but not the order of
    # these values.
    assert_array_equal(
        np.argsort(ours.model_.landscape_), np.argsort(theirs.cv_results_["mean_test_score"])
    )


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


def test_drawn_zeros_stand_for_all_of_them(listed):
    """With every zero drawn the model is that of the grid, and with more of them it comes nearer."""
    rng = np.random.default_rng(5)
    counts = rng.poisson(np.exp(X[:, :1] @ T[:, :1].T - 1.5))
    taken, others = np.flatnonzero(counts), np.flatnonzero(counts.ravel() == 0)
    exact = KroneckerRidge(3.0, tol=1e-11).fit(
        X,
        (counts > 0).astype(float),
        tasks=T,
        sample_weight=np.where(counts > 0, 1 + 2 * counts, 0.5),
    )

    def distance(n_zeros):
        at = np.concatenate([taken, rng.choice(others, n_zeros, replace=False)])
        rows, columns = np.divmod(at, Q)
        labels = np.repeat([1.0, 0.0], [taken.size, n_zeros])
        weights = np.where(labels == 1, 1 + 2 * counts.ravel()[at], 0.5 * others.size / n_zeros)
        given = [
            sparse.csr_array((each, (rows, columns)), shape=(M, Q)) for each in (labels, weights)
        ]
        found = KroneckerRidge(3.0, tol=1e-11).fit(X, given[0], tasks=T, sample_weight=given[1])
        assert found.fitted_.training_problem.labels.grid is None
        return float(np.sqrt(np.mean((found.predict() - exact.predict()) ** 2)))

    assert distance(others.size) < 1e-7
    few, more = (np.mean([distance(n_zeros) for _ in range(6)]) for n_zeros in (20, 120))
    assert 0 < more < 0.6 * few
    with pytest.raises(ValueError, match="nothing to learn: if its zeros"):
        KroneckerRidge().fit(X, sparse.csr_array((counts > 0).astype(float)), tasks=T)


def test_arrays_of_another_library_stay_in_it(listed):
    xp = pytest.importorskip(
        "array_api_strict", reason="array-api-strict is not installed: its arrays are not tested"
    )
    given = {"sample_weight": SPARSE_WEIGHTS}
    # Few iterations, which are slow in this library: both stop after the same.
    for kind, more in (
        (KroneckerRidgeCV, {"setting": "B"}),
        (TwoStepRidgeCV, {"task_alphas": [9.0], "setting": "D"}),
    ):
        search = kind([30.0], cv=2, tol=1e-3, **more).fit(
            xp.asarray(X), SPARSE, tasks=xp.asarray(T), **given
        )
        twin = kind([30.0], cv=2, tol=1e-3, **more).fit(X, SPARSE, tasks=T, **given)
        assert_allclose(search.holdout_.data, twin.holdout_.data, rtol=1e-7)
        if kind is KroneckerRidgeCV:
            assert_allclose(evaluate(search, "B")["additive"], evaluate(twin, "B")["additive"])
        assert isinstance(search.predict(xp.asarray(X)), type(xp.asarray(X)))


def test_many_values_are_searched_from_coarse_to_fine(listed, folds_only):
    alphas = np.logspace(-2, 4, 13)
    for setting in "B":
        found = KroneckerRidgeCV(alphas, setting=setting, cv=2, tol=1e-10).fit(X, SPARSE, tasks=T)
        every = KroneckerRidgeCV(alphas, setting=setting, cv=2, tol=1e-10, exhaustive=True).fit(
            X, SPARSE, tasks=T
        )
        assert found.n_evaluated_ < 13
        assert every.n_evaluated_ == 13
        assert found.alpha_ == every.alpha_
        assert_allclose(found.best_score_, every.best_score_, rtol=1e-4)
        assert_allclose(found.holdout_.data, every.holdout_.data, rtol=1e-6, atol=1e-6)


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

"""Searches, scores and simple means on observed pairs alone, against the same on a grid with holes."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from dyadlearn import KroneckerRidge, KroneckerRidgeCV, TwoStepRidgeCV
from dyadlearn.holdout import plan
from dyadlearn.labels import Labels
from dyadlearn.metrics import scorer_names
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.settings import Setting
from dyadlearn.solve import observed
from listed import COLUMNS, ROWS, SPARSE, SPARSE_WEIGHTS, VALUES, WEIGHTS, M, Q, T, X, Y, listed
from sweeps import covering, every, lines, over

__all__ = ["listed"]

RNG = default_rng(8)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@over(
    lines(
        "search setting weighted groups",
        (TwoStepRidgeCV(task_alphas=0.1, kernel="rbf", task_kernel="rbf"), "B", True, ["groups"]),
        (KroneckerRidgeCV(fit_intercept=False), "B", False, []),
        (TwoStepRidgeCV(task_alphas=10.0), "C", False, []),
        (KroneckerRidgeCV(), "D", False, ["groups", "task_groups"]),
    )
)
def test_a_search_scores_the_folds_of_a_grid_with_holes(listed, search, setting, weighted, groups):
    search = clone(search).set_params(alphas=[0.3, 10.0], setting=setting, cv=2, tol=1e-12)
    codes = {"groups": np.arange(M) % 7, "task_groups": np.arange(Q) % 6}
    given = {name: codes[name] for name in groups}
    weights = (SPARSE_WEIGHTS, WEIGHTS) if weighted else (None, None)
    found = clone(search).fit(X, SPARSE, T, weights[0], **given)
    on_grid = clone(search).fit(X, Y, T, weights[1], **given)
    assert found.fitted_.training_problem.labels.grid is None
    assert found.holdout_method_ == on_grid.holdout_method_
    assert_array_equal(found.holdout_.indices, SPARSE.indices)
    assert_allclose(found.landscape_, on_grid.landscape_, rtol=1e-4)
    assert_allclose(found.holdout_.data, on_grid.holdout_[ROWS, COLUMNS], rtol=1e-6, atol=1e-6)
    sides = (each.fitted_.validation.units.sides for each in (found, on_grid))
    for own, theirs in zip(*sides, strict=True):
        assert_array_equal(own, theirs)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_list_has_folds_of_pairs_of_its_own(listed):
    search = KroneckerRidgeCV([0.3, 10.0], setting="A", cv=2, tol=1e-12)
    found = search.fit(X, SPARSE, T, SPARSE_WEIGHTS)
    cells = np.zeros((M, Q), dtype=int)
    cells[ROWS, COLUMNS] = found.fitted_.validation.units.cells
    model = KroneckerRidge(found.alpha_, tol=1e-12).fit(X, Y, T, WEIGHTS)
    held_out = model.holdout("A", cells=cells)[ROWS, COLUMNS]
    assert_allclose(found.holdout_.data, held_out, rtol=1e-6, atol=1e-6)
    assert_allclose(found.best_score_, -np.mean((held_out - VALUES) ** 2), rtol=1e-4)


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
    expected = prepared_score(Labels.of_grid(whole), name, setting)
    found = prepared_score(lists, name, setting)
    assert_allclose(found(F[ROWS, COLUMNS]), expected(F), rtol=1e-12)
    assert found.n_undefined == expected.n_undefined


@over(every(name=["average_precision", "recall_at_2", "enrichment_factor"], setting="BC"))
def test_rows_with_labels_of_one_value_are_scored(name, setting):
    """Rows with a single positive label have a score, also if no row of their length has both labels."""
    grid = np.array([[1, np.nan, np.nan, np.nan, np.nan], [1, 0, 1, 0, np.nan], [0, 1, 1, 0, 1.0]])
    labels = Labels.of_grid(grid if setting == "B" else grid.T)
    F = default_rng(0).normal(size=labels.shape)
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


def test_folds_that_stop_short_are_told(listed, monkeypatch):
    problem = KroneckerRidge(1e-3).fit(X, SPARSE, T).fitted_.training_problem
    # As for many labels, no system of all labels is solved directly.
    monkeypatch.setattr(observed, "suits_direct", lambda *given: False)
    with pytest.warns(ConvergenceWarning, match="stopped in 3 of 3 folds after 1 iter"):
        plan(replace(problem, max_iter=1), Setting.B, cv=3, method="folds").held_out()


def test_folds_on_the_diagonal_scout(listed):
    problem = KroneckerRidge().fit(X, SPARSE, T).fitted_.training_problem
    how = plan(problem, Setting.D, cv=3, method="folds")
    scouts = how.folds.diagonal
    tested = [how.folds.folds[number].test for number in scouts]
    for unit, at in zip(how.units.sides, (ROWS, COLUMNS), strict=True):
        codes = [set(unit[at[test]].tolist()) for test in tested]
        assert sorted(map(len, codes)) == [1, 1, 1]
        assert set().union(*codes) == {0, 1, 2}
    some = how.folds.held_out(numbers=scouts)
    assert_array_equal(np.flatnonzero(~np.isnan(some)), np.sort(np.concatenate(tested)))
    assert how.folds.n_tested(scouts) == np.count_nonzero(~np.isnan(some))
    whole = how.held_out()
    assert_allclose(some[tested[1]], whole[tested[1]], rtol=1e-6, atol=1e-7)
    assert_allclose(plan(problem, Setting.D, cv=3).held_out(), whole, rtol=1e-6, atol=1e-7)
    assert plan(problem, Setting.B, cv=3, method="folds").folds.diagonal == [0, 1, 2]

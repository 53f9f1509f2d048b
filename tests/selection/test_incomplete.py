"""Searches on grids with holes, against slow loops over folds with fresh models."""

from __future__ import annotations

import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    SettingKFold,
    TwoStepRidge,
    TwoStepRidgeCV,
    landscape,
)
from dyadlearn.holdout import planning
from dyadlearn.holdout.folds import Folds
from dyadlearn.metrics import scorer
from sweeps import covering, every, lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

ALPHAS = [0.03, 3.0]
TASK_ALPHAS = [0.1, 3.0]
PLAIN = {
    TwoStepRidgeCV: TwoStepRidge,
    KroneckerRidgeCV: KroneckerRidge,
    IndependentTaskRidgeCV: IndependentTaskRidge,
}
every_search = {"Search": list(PLAIN)}
pair_searches = {"Search": [TwoStepRidgeCV, KroneckerRidgeCV]}
every_setting = {"letter": "ABCD"}


@pytest.fixture
def folds_only(monkeypatch):
    """Let no formula be affordable, as for many labels, so that all models are refitted for each fold."""
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)


def make_data(m=12, q=9, share=0.3, seed=0):
    return problems.data(m, q, 5, 4, noise=0.5, scale=2.0, missing=share, seed=seed)


def kernels(cls, kernel="rbf"):
    alone = cls in (IndependentTaskRidge, IndependentTaskRidgeCV)
    return {"kernel": kernel} if alone else {"kernel": kernel, "task_kernel": kernel}


def make_search(Search, letter="B", kernel="rbf", **options):
    grids = {"task_alphas": TASK_ALPHAS} if Search is TwoStepRidgeCV else {}
    return Search(ALPHAS, **grids, setting=letter, **kernels(Search, kernel), **options)


def points(Search):
    """Yield the place of each regularisation in the landscape, and the parameters of a model."""
    for row, alpha in enumerate(ALPHAS):
        if Search is TwoStepRidgeCV:
            for column, task_alpha in enumerate(TASK_ALPHAS):
                yield (row, column), {"alpha": alpha, "task_alpha": task_alpha}
        else:
            yield (row,), {"alpha": alpha}


def in_folds(Search, params, data, splits, kernel="rbf"):
    """Return predictions of fresh models: cells of a fold are NaN, rows and columns that are not used are cut."""
    X, Y, T = data
    Model = PLAIN[Search]
    F = np.full(Y.shape, np.nan)
    stopping = {} if Model is IndependentTaskRidge else {"tol": 1e-10}
    for train, test in splits:
        seen = train.any(axis=1)
        known = train.any(axis=0)
        model = Model(**params, **kernels(Model, kernel), **stopping)
        model.fit(X[seen], np.where(train, Y, np.nan)[np.ix_(seen, known)], tasks=T[known])
        F[test] = model.predict(X, **({} if Model is IndependentTaskRidge else {"tasks": T}))[test]
    assert not np.isnan(F).any()
    return F


def assert_equals_loop(
    search, data, splits, scoring="neg_mean_squared_error", rtol=1e-6, kernel="rbf"
):
    """Compare the landscape, and what was chosen from it, with that of fresh models."""
    splits = list(splits)
    Y = data[1]
    expected = np.empty_like(search.landscape_)
    held_out = {}
    for place, params in points(type(search)):
        held_out[place] = in_folds(type(search), params, data, splits, kernel)
        expected[place] = scorer(scoring)(Y, held_out[place], setting=search.setting)
    assert_allclose(search.landscape_, expected, rtol=rtol)
    best = tuple(int(index) for index in np.unravel_index(expected.argmax(), expected.shape))
    chosen = dict(points(type(search)))[best]
    F = held_out[best]
    assert search.alpha_ == chosen["alpha"]
    assert getattr(search, "task_alpha_", None) == chosen.get("task_alpha")
    assert search.best_score_ == search.landscape_[best]
    assert_allclose(search.holdout_, F, rtol=0, atol=rtol * np.abs(F).max())


# --- folds that are solved again -----------------------------------------------------------------


@over(
    lines(
        "Search letter kernel",
        (TwoStepRidgeCV, "A", "linear"),
        (KroneckerRidgeCV, "B", "rbf"),
        (KroneckerRidgeCV, "C", "linear"),
        (TwoStepRidgeCV, "D", "rbf"),
    )
)
def test_five_folds_where_no_formula_is_affordable(Search, letter, kernel):
    data = make_data()
    # By default five; two folds of cells would hide all of a row, which the loop cuts.
    cv = {"A": 3, "B": None}.get(letter, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_MOST_WORK", 0.0)
        patch.setattr(planning, "_MOST_REFITS", 0.0)
        search = make_search(Search, letter, kernel, cv=cv).fit(data[0], data[1], tasks=data[2])
    splits = SettingKFold(letter, cv or 5, random_state=0).split_grid(12, 9)
    assert_equals_loop(search, data, splits, kernel=kernel)
    assert (
        search.holdout_method_
        == {"A": "3", "B": "5", "C": "2", "D": "2×2"}[letter] + " folds, refitted"
    )
    # What is affordable gives the same scores of the same folds, and leaves out one unit at a time
    # by default.
    again = make_search(Search, letter, kernel, cv=cv or 5).fit(data[0], data[1], tasks=data[2])
    assert_equals_loop(
        again, data, SettingKFold(letter, cv or 5, random_state=0).split_grid(12, 9), kernel=kernel
    )
    is_exact = letter == "A" or Search is KroneckerRidgeCV
    assert (again.holdout_method_ == "exact leave-fold-out") == is_exact


@over(
    lines(
        "Search letter",
        (TwoStepRidgeCV, "B"),
        (KroneckerRidgeCV, "C"),
        (TwoStepRidgeCV, "D"),
        (KroneckerRidgeCV, "D"),
    )
)
def test_groups_stay_together(Search, letter):
    data = make_data()
    groups = np.arange(12) // 2 if letter in "BD" else None
    task_groups = list("aabbccdde") if letter in "CD" else None
    given = {"groups": groups, "task_groups": task_groups}
    search = make_search(Search, letter, cv=2).fit(data[0], data[1], tasks=data[2], **given)
    splits = list(SettingKFold(letter, 2, random_state=0).split_grid(12, 9, **given))
    for _, test in splits:
        assert groups is None or all(
            len(set(test.any(axis=1)[groups == group])) == 1 for group in range(6)
        )
    assert_equals_loop(search, data, splits)
    words = {"B": "6 groups in 2 folds", "C": "5 groups in 2 folds", "D": "6×5 groups in 2×2 folds"}
    assert search.holdout_method_ == words[letter] + (
        ", exact" if Search is KroneckerRidgeCV else ", refitted"
    )


@over(every(**pair_searches))
def test_iterations_that_stop_early_choose_the_same(Search, folds_only):
    """More cells than are solved for directly: 1e-5 in the search, compared with 1e-10."""
    data = make_data(72, 40, 0.78)
    search = make_search(Search, "B", cv=2).fit(data[0], data[1], tasks=data[2])
    assert search.n_iter_ > 1
    assert search.residual_ <= 1e-8
    assert_equals_loop(
        search, data, SettingKFold("B", 2, random_state=0).split_grid(72, 40), rtol=1e-4
    )


# --- exact where a shortcut exists ---------------------------------------------------------------


def assert_equals_holdout(search, data, where=None):
    """Compare the landscape with scores of exact hold-out predictions of fresh models."""
    X, Y, T = data
    held_out = {}
    for place, params in points(type(search)):
        model = PLAIN[type(search)](**params, **kernels(type(search))).fit(X, Y, tasks=T)
        F = held_out[place] = model.holdout(search.setting)
        assert_allclose(
            search.landscape_[place],
            scorer(search.scoring)(Y, F, setting=search.setting),
            rtol=1e-7,
        )
    assert search.best_score_ == search.landscape_.max()
    best = np.unravel_index(search.landscape_.argmax(), search.landscape_.shape)
    assert_allclose(search.holdout_, held_out[tuple(map(int, best))], rtol=1e-7, atol=1e-9)
    assert search.holdout_method_ == "exact leave-one-out"


@pytest.fixture
def nothing_is_solved_again(monkeypatch):
    def refuse(*args):
        raise AssertionError("solved again")

    monkeypatch.setattr(Folds, "held_out", refuse)


@pytest.mark.usefixtures("nothing_is_solved_again")
@pytest.mark.parametrize("scoring", ["neg_mean_squared_error", "concordance_index"])
class TestShortcuts:
    def test_pairs_beside_a_block(self, scoring):
        """A task with few labels beside others that have all: both regularisations by leave-one-out."""
        X, Y, T = make_data(40, 30, 0.0)
        Y[6:, 4] = np.nan
        search = make_search(TwoStepRidgeCV, "A", scoring=scoring).fit(X, Y, tasks=T)
        assert_equals_holdout(search, (X, Y, T))

    @over(every(**every_setting))
    def test_rows_and_columns_without_labels(self, letter, scoring):
        if (letter in "AD") == (scoring == "concordance_index"):
            return  # each setting with one of the scores
        X, Y, T = make_data(share=0.0)
        Y[[1, 7]], Y[:, 3] = np.nan, np.nan
        search = make_search(KroneckerRidgeCV, letter, scoring=scoring).fit(X, Y, tasks=T)
        assert_equals_holdout(search, (X, Y, T))
        rows = np.delete(np.arange(12), [1, 7])
        columns = np.delete(np.arange(9), 3)
        rest = make_search(KroneckerRidgeCV, letter, scoring=scoring)
        rest.fit(X[rows], Y[np.ix_(rows, columns)], tasks=T[columns])
        assert_allclose(search.landscape_, rest.landscape_, rtol=1e-7)
        assert_allclose(search.holdout_[np.ix_(rows, columns)], rest.holdout_, rtol=1e-7, atol=1e-9)

    def test_groups_of_instances_do_not_matter_to_pairs(self, scoring):
        data = make_data(8, 6)
        search = make_search(IndependentTaskRidgeCV, "A", scoring=scoring)
        search.fit(data[0], data[1], groups=np.arange(8) // 2)
        assert_equals_holdout(search, data)


# --- folds on complete labels --------------------------------------------------------------------


@over(
    covering(
        **pair_searches,
        **every_setting,
        where=lambda Search, letter: (
            (Search is TwoStepRidgeCV) == (letter in "BC") or letter == "D"
        ),
    )
)
def test_folds_of_complete_labels_are_exact(Search, letter):
    data = make_data(share=0.0)
    # two folds of cells would hide all of a row, which the loop cuts
    if letter == "A":
        cv = 3
    else:
        cv = 2
    search = make_search(Search, letter, cv=cv).fit(data[0], data[1], tasks=data[2])
    splits = list(SettingKFold(letter, cv, random_state=0).split_grid(12, 9))
    assert_equals_loop(search, data, splits)
    assert search.holdout_method_ == "exact leave-fold-out"
    if letter == "A":
        return
    given = {}
    if letter in "BD":
        given["groups"] = np.array(
            [next(n for n, (_, test) in enumerate(splits) if test[i].any()) for i in range(12)]
        )
    if letter in "CD":
        given["task_groups"] = np.array(
            [next(n for n, (_, test) in enumerate(splits) if test[:, j].any()) for j in range(9)]
        )
    grouped = make_search(Search, letter).fit(data[0], data[1], tasks=data[2], **given)
    assert grouped.holdout_method_ == "exact leave-group-out"
    assert_allclose(grouped.landscape_, search.landscape_)
    assert_allclose(grouped.holdout_, search.holdout_)


# --- landscapes ----------------------------------------------------------------------------------


# --- forms and libraries -------------------------------------------------------------------------


# --- bad input -----------------------------------------------------------------------------------


@over(
    lines(
        "cv error message",
        (SettingKFold("D"), ValueError, r"^cv makes folds for setting D, but the setting is B\.$"),
        (True, TypeError, r"^cv must be a number of folds or a SettingKFold, found True\.$"),
        ("5", TypeError, r"^cv must be a number of folds or a SettingKFold, found '5'\.$"),
        (2.5, TypeError, r"^cv must be a number of folds or a SettingKFold, found 2\.5\.$"),
        (1, ValueError, r"^cv must be a whole number of at least 2, found 1\.$"),
        (13, ValueError, r"13 folds need at least as many instances .* found 12: use fewer folds"),
    )
)
@over(every(**every_search, holes={"complete": 0.0, "holes": 0.3}))
def test_wrong_folds(Search, holes, cv, error, message):
    X, Y, T = make_data(share=holes)
    search = make_search(Search, cv=cv)
    with pytest.raises(error, match=message):
        search.fit(X, Y, tasks=T)
    with pytest.raises(NotFittedError):
        search.predict(X)


@over(every(**pair_searches))
def test_folds_without_a_label_to_learn_from(Search):
    X, Y, T = make_data()
    Y[1:] = np.nan
    with pytest.raises(ValueError, match="^No label remains to learn from"):
        make_search(Search, cv=3).fit(X, Y + 0.0, tasks=T)


@over(every(**pair_searches))
def test_iterations_that_do_not_converge_are_told(Search, folds_only):
    X, Y, T = make_data(72, 40, 0.78)
    search = make_search(Search, cv=2, max_iter=1)
    with pytest.warns(ConvergenceWarning) as told:
        search.fit(X, Y, tasks=T)
    messages = [str(warning.message) for warning in told if warning.category is ConvergenceWarning]
    n_points = search.landscape_.size
    assert re.match(
        rf"For \d+ of {n_points} regularisations 1 conjugate-gradient iterations did not reach a "
        rf"relative residual of "
        r"1e-05: their scores are approximate\. Raise max_iter, or leave out the smallest "
        r"regularisations\.$",
        messages[0],
    )
    # The chosen model, and its two folds, each say so themselves.
    assert len(messages) <= 1 + 1 + 2
    with pytest.warns(ConvergenceWarning, match=r"^For 1 of 1 regularisations") as told:
        landscape(search, alphas=[0.01], task_alphas=[0.01], setting="B", cv=2)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_a_word_of_one_text_only_does_not_stop_the_default_search():
    """Its leverage is as good as 1 at the small end of the grid, where nothing is interpolated all the same."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(0.3, size=(40, 12)).astype(float)
    counts[:, 7] = 0.0
    counts[5, 7] = 3.0
    labels = np.where(rng.random((40, 3)) < 0.1, np.nan, rng.normal(size=(40, 3)))
    search = IndependentTaskRidgeCV().fit(counts, labels)
    assert np.isfinite(search.landscape_).all()
    least = IndependentTaskRidge(1e-7).fit(counts, labels).holdout("B")
    others = np.arange(40) != 5
    again = IndependentTaskRidge(1e-7).fit(counts[others], labels[others]).predict(counts[[5]])[0]
    # Rounding of the largest eigenvalue, about 10², over the regularisation.
    assert_allclose(least[5], again, rtol=1e-6)

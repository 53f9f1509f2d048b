"""The searching estimators against brute force: every value fitted on its own."""

import itertools
import warnings

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import KFold

import dyadlearn
import problems
from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
    nested_score,
)
from dyadlearn.exceptions import BaselineWarning, GridEdgeWarning
from dyadlearn.filters import Landweber
from sweeps import every, lines, over

GRID = [0.03, 1.0, 30.0]
quiet = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
MODELS = {
    "two_step": (TwoStepRidgeCV, TwoStepRidge),
    "kronecker": (KroneckerRidgeCV, KroneckerRidge),
}


def make_data(m=14, q=11):
    """Return features and labels that want some, not all, regularisation on both sides."""
    return problems.data(m, q, 20, 15, scale=None)


def search_for(name, **options):
    if name == "two_step":
        grids = {"alphas": GRID, "task_alphas": GRID}
    else:
        grids = {"alphas": GRID}
    return MODELS[name][0](**(grids | options))


@quiet
@over(every(name=list(MODELS)))
def test_a_side_is_decomposed_once_for_each_kernel(name, monkeypatch):
    X, Y, T = make_data()
    calls = []
    original = np.linalg.eigh
    monkeypatch.setattr(
        "dyadlearn.decomposing.eigh", lambda matrix: calls.append(matrix.shape) or original(matrix)
    )
    kernels = {"kernel": "rbf", "task_kernel": "rbf", "fit_intercept": False}
    search_for(name, setting="B", **kernels).fit(X, Y, T)
    assert sorted(calls) == [(11, 11), (14, 14)]
    calls.clear()
    gammas = [{"gamma": gamma} for gamma in (0.1, 1.0, 3.0)]
    grids = {"kernel_grid": gammas, "task_kernel_grid": gammas[:2]}
    search_for(name, setting="B", **kernels, **grids).fit(X, Y, T)
    assert sorted(calls) == [(11, 11)] * 2 + [(14, 14)] * 3


@quiet
@over(lines("letter name", ("C", "kronecker"), ("D", "two_step")))
def test_kernel_parameters_join_the_search(name, letter):
    X, Y, T = make_data(9, 7)
    gammas = [{"gamma": value} for value in (1e-3, 0.5)]
    task_gammas = [{"gamma": value} for value in (1e-2, 5.0)]
    given = {"setting": letter, "kernel": "rbf", "task_kernel": "rbf"}
    grids = {"kernel_grid": gammas, "task_kernel_grid": task_gammas}
    search = search_for(name, **given, **grids).fit(X, Y, T)
    found = []
    for (i, params), (j, task_params) in itertools.product(
        enumerate(gammas), enumerate(task_gammas)
    ):
        own = {"kernel_params": params, "task_kernel_params": task_params}
        found.append(search_for(name, **given, **own).fit(X, Y, T))
        assert_allclose(search.landscape_[i, j], found[-1].landscape_)
    winner = max(found, key=lambda each: each.best_score_)
    assert_allclose(search.best_score_, winner.best_score_)
    assert search.kernel_params_ == winner.kernel_params
    assert search.task_kernel_params_ == winner.task_kernel_params
    assert (search.alpha_, search.task_alpha_) == (winner.alpha_, winner.task_alpha_)
    assert_allclose(search.predict(X[:3] + 0.1, T[:2]), winner.predict(X[:3] + 0.1, T[:2]))
    assert_allclose(search.holdout_, winner.holdout_)


def test_the_edge_of_the_grid():
    X, Y, T = make_data()
    with pytest.warns(
        GridEdgeWarning, match=r"best alpha, 0.001, is on the edge of the grid \(0.0001 … 0.001\)"
    ) as seen:
        TwoStepRidgeCV([1e-4, 1e-3], [0.1, 0.3, 1, 3, 10], setting="D").fit(X, Y, T)
    assert {warning.filename for warning in seen} == {__file__}
    with pytest.warns(GridEdgeWarning, match=r"best task_alpha, 1e\+08, is on the edge"):
        TwoStepRidgeCV([1.0], [1e8, 1e9], setting="D").fit(X, Y, T)
    with pytest.warns(
        GridEdgeWarning, match="best alpha"
    ) as seen:  # whatever the order of the values
        IndependentTaskRidgeCV([1e-3, 1e-5, 1e-4]).fit(X, Y)
    assert {warning.filename for warning in seen} == {__file__}


def test_no_warning_inside_the_grid():
    X, Y, T = make_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = TwoStepRidgeCV([1e-9, 0.1, 1, 3, 1e9], [1e9, 1e-9, 0.1, 1], setting="D").fit(
            X, Y, T
        )
        assert 1e-9 < found.alpha_ < 1e9
        assert 1e-9 < found.task_alpha_ < 1e9
        # A single value is no grid with edges.
        TwoStepRidgeCV([1e-9], [1e9], setting="D").fit(X, Y, T)


@over(
    lines(
        "search message",
        (TwoStepRidgeCV(setting="E"), "Unknown setting 'E'"),
        (TwoStepRidgeCV(scoring="acuracy"), "Unknown scoring 'acuracy'"),
        (TwoStepRidgeCV(task_alphas=[]), "task_alphas is empty"),
        (TwoStepRidgeCV([-1.0]), "alphas must be a finite number of at least 0"),
        (
            TwoStepRidgeCV(repair="mend"),
            "repair must be one of 'clip', 'shift', 'error', found 'mend'",
        ),
        (TwoStepRidgeCV(filter=Landweber(3)), r"Landweber\(n_iter=3\) does not depend on alpha"),
        (TwoStepRidgeCV(kernel_grid=[]), "grid of instance kernel parameters is empty"),
        (KroneckerRidgeCV(kernel="rbf", kernel_grid=[{"gama": 1.0}]), "gama"),
        (
            IndependentTaskRidgeCV(setting="D"),
            "Setting D leaves out tasks, but this model knows nothing of tasks",
        ),
    )
)
def test_bad_input_leaves_the_estimator_as_it_was(search, message):
    X, Y, T = make_data()
    params = search.get_params()
    with pytest.raises(ValueError, match=message):
        search.fit(X, Y, T)
    assert vars(search) == vars(type(search)(**params))
    with pytest.raises(NotFittedError):
        search.predict(X)


@quiet
@over(every(cls=[TwoStepRidgeCV, KroneckerRidgeCV, IndependentTaskRidgeCV]))
def test_a_failed_fit_leaves_what_was_fitted(cls):
    X, Y, T = make_data()
    search = cls(GRID).fit(X, Y, T)
    before = dict(vars(search))
    predicted = search.predict(X)
    with pytest.raises(ValueError, match="groups"):
        search.fit(X, Y, T, groups=[1, 2])
    assert vars(search) == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(GridEdgeWarning):
            search.set_params(alphas=[1e-5, 1e-4]).fit(X, Y, T)
    assert_array_equal(search.predict(X), predicted)
    assert not clone(search).__sklearn_is_fitted__()


# --- scores that are equal -----------------------------------------------------------------------

FLAT = [0.1, 1.0, 100.0, 10.0]


@over(every(scoring=["neg_mean_squared_error", "concordance_index"]))
def test_the_most_regularised_of_equals_is_chosen(scoring):
    """With kernels that tell nothing of one row to another, every regularisation predicts alike."""
    Y = default_rng(0).normal(size=(8, 5))
    alike = {"kernel": "precomputed", "scoring": scoring}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BaselineWarning)
        warnings.simplefilter(
            "error", GridEdgeWarning
        )  # where other values are as good, the edge of the grid says nothing
        independent = IndependentTaskRidgeCV(FLAT, **alike).fit(np.eye(8), Y)
        per_task = IndependentTaskRidgeCV(FLAT, alpha_per_task=True, **alike).fit(np.eye(8), Y)
        both = {"task_kernel": "precomputed", "setting": "D", **alike}
        kronecker = KroneckerRidgeCV(FLAT, **both).fit(np.eye(8), Y, np.eye(5))
        two_step = TwoStepRidgeCV(FLAT, FLAT, **both).fit(np.eye(8), Y, np.eye(5))
        rows = TwoStepRidgeCV(FLAT, [1.0], **both).fit(np.eye(8), Y, np.eye(5))
    assert np.ptp(two_step.landscape_) <= 1e-14 * abs(two_step.best_score_)
    assert_array_equal(per_task.alpha_, 100.0)
    assert (independent.alpha_, kronecker.alpha_, rows.alpha_) == (100.0, 100.0, 100.0)
    assert (two_step.alpha_, two_step.task_alpha_) == (100.0, 100.0)


# --- values to try -------------------------------------------------------------------------------


def test_a_number_is_a_grid_of_one():
    X, Y, T = make_data()
    for alphas in (3, np.array(3.0)):
        search = TwoStepRidgeCV(alphas, 2.0, setting="D").fit(X, Y, T)
        assert search.landscape_.shape == (1, 1)
        assert (search.alpha_, search.task_alpha_) == (3.0, 2.0)


def test_what_can_be_read_but_once_is_refused():
    X, Y, T = make_data()
    for search, message in (
        (KroneckerRidgeCV(map(float, GRID)), r"^alphas is an iterator.*only once.*list\(alphas\)"),
        (TwoStepRidgeCV(GRID, iter(GRID)), "^task_alphas is an iterator"),
        (KroneckerRidgeCV("auto"), "^alphas must be a number or a sequence of numbers, found"),
    ):
        with pytest.raises(TypeError, match=message):
            search.fit(X, Y, T)


def test_a_search_that_loses_to_its_baselines_warns():
    rng = default_rng(0)
    X = rng.normal(size=(12, 3))
    Y = 9 + 5 * rng.normal(size=6) + 0.1 * rng.normal(size=(12, 6))
    with pytest.warns(
        BaselineWarning, match="In setting B the model reaches .* worse than the best baseline"
    ) as seen:
        search = IndependentTaskRidgeCV([1.0], fit_intercept=False).fit(X, Y)
    assert {warning.filename for warning in seen} == {__file__}
    assert search.best_score_ < max(search.baselines_.values())


@quiet
def test_without_tasks_all_are_the_same():
    X, Y, _ = make_data()
    independent = IndependentTaskRidgeCV(GRID).fit(X, Y)
    for search in (TwoStepRidgeCV(GRID), KroneckerRidgeCV(GRID)):
        search.fit(X, Y)
        assert_array_equal(search.landscape_, independent.landscape_)
        assert search.alpha_ == independent.alpha_
        assert search.task_alpha_ is None
        assert search.task_kernel_params_ is None
        assert_array_equal(search.holdout_, independent.holdout_)


# --- networks, parameters and folds -------------------------------------------------------------


@quiet
def test_what_a_network_has_not():
    X, Y, _ = make_data(9, 9)
    Y = Y + Y.T
    holes = np.where(np.eye(9) > 0, np.nan, Y)
    for options, given, message in (
        ({"task_alphas": [1.0]}, {}, "one regularisation for both sides: leave task_alphas out"),
        ({"symmetry": "square"}, {}, "symmetry must be"),
        ({}, {"y": holes}, "Setting B of a network with missing labels is not supported"),
        ({}, {"tasks": X}, "leave tasks out"),
        ({}, {"sample_weight": np.full(9, 2.0)}, "leave sample_weight out"),
        ({"cv": 3}, {}, "one edge or vertex at a time"),
    ):
        search = TwoStepRidgeCV(GRID, **{"symmetry": "symmetric"} | options)
        with pytest.raises(ValueError, match=message):
            search.fit(X, **{"y": Y} | given)
    with pytest.raises(ValueError, match="nested_score is for grids"):
        nested_score(TwoStepRidgeCV(GRID, symmetry="symmetric"), X, Y)


@quiet
@over(every(Search=[TwoStepRidgeCV, KroneckerRidgeCV, IndependentTaskRidgeCV]))
def test_a_search_has_the_parameters_of_its_model(Search):
    model = getattr(dyadlearn, Search.__name__.removesuffix("CV"))
    own = set(model().get_params()) - {"alpha", "task_alpha"}
    assert own <= set(Search().get_params())
    X, Y, T = make_data(9, 7)
    search = Search(GRID).fit(X, Y, T)
    with pytest.raises(
        TypeError, match=f"is given, found {Search.__name__}, which .*: fit {model.__name__} with"
    ):
        search.set_alpha(1.0)


@quiet
@over(every(Search=[TwoStepRidgeCV, IndependentTaskRidgeCV]))
def test_folds_as_scikit_learn_cuts_them(Search):
    X, Y, T = make_data(9, 7)
    splits = list(KFold(4, shuffle=True, random_state=0).split(X))
    groups = np.zeros(9, int)
    for number, (_, test) in enumerate(splits):
        groups[test] = number
    found = Search(GRID, cv=splits).fit(X, Y, T)
    wanted = Search(GRID).fit(X, Y, T, groups=groups)
    assert_allclose(found.landscape_, wanted.landscape_, rtol=1e-12)
    assert_allclose(found.holdout_, wanted.holdout_, rtol=1e-12)
    short = [(train[1:], test) for train, test in splits]
    for cv, error, options, given, message in (
        ([1, 2], TypeError, {}, {}, "cv must be a number of folds, a SettingKFold or a list of "),
        (splits[1:], ValueError, {}, {}, "cv must test each of the 9 instances in one fold"),
        (short, ValueError, {}, {}, "train on it in all others"),
        (splits, ValueError, {"setting": "A"}, {}, "only supported in setting B, found setting A"),
        (splits, ValueError, {}, {"groups": groups}, "cannot be combined with a list of folds"),
    ):
        with pytest.raises(error, match=message):
            Search(GRID, cv=cv, **options).fit(X, Y, T, **given)

"""A search has all that its model has, weights and networks too: against a loop over models with given values."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
    nested_score,
)
from dyadlearn.metrics import scorer
from sweeps import lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

M = 9
Q = 7
ALPHAS = [0.03, 1.0, 30.0]
TWINS = {
    TwoStepRidgeCV: TwoStepRidge,
    KroneckerRidgeCV: KroneckerRidge,
    IndependentTaskRidgeCV: IndependentTaskRidge,
}


def make_data(holes: bool = False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(M, 5)) / 2
    T = rng.normal(size=(Q, 4)) / 2
    Y = X @ rng.normal(size=(5, 4)) @ T.T + 0.5 * rng.normal(size=(M, Q))
    Y[rng.random((M, Q)) < 0.2 * holes] = np.nan
    weights = rng.uniform(0.2, 5.0, size=(M, Q))
    weights[rng.random((M, Q)) < 0.1] = 0.0
    return X, Y, T, weights


# --- networks ------------------------------------------------------------------------------------


def make_network(symmetry: str, holes: bool = False):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(M, 4))
    sign = 1 if symmetry == "symmetric" else -1
    half = X @ rng.normal(size=(4, 4)) @ X.T + 3 * rng.normal(size=(M, M))
    Y = half + sign * half.T
    if holes:
        missing = rng.random((M, M)) < 0.1
        Y[missing | missing.T] = np.nan
    return X, Y


@over(
    lines(
        "symmetry scoring",
        ("symmetric", "neg_mean_squared_error"),
        ("antisymmetric", "concordance_index"),
    )
)
def test_a_network_chooses_one_regularisation(symmetry, scoring):
    X, Y = make_network(symmetry)
    models = [
        TwoStepRidge(alpha, alpha, kernel="rbf", symmetry=symmetry).fit(X, Y) for alpha in ALPHAS
    ]
    for letter in "ABCD":
        search = TwoStepRidgeCV(
            ALPHAS, setting=letter, scoring=scoring, kernel="rbf", symmetry=symmetry
        ).fit(X, Y)
        scores = [scorer(scoring)(Y, model.holdout(letter), setting=letter) for model in models]
        assert_allclose(search.landscape_, scores, rtol=1e-9)
        best = models[int(np.argmax(scores))]
        assert (search.alpha_, search.task_alpha_) == (best.alpha, None)
        assert search.best_score_ == search.landscape_.max()
        assert_allclose(search.holdout_, best.holdout(letter), rtol=1e-10)
        assert_allclose(
            search.predict(X + 0.1, X - 0.1), best.predict(X + 0.1, X - 0.1), rtol=1e-10
        )
        assert_allclose(search.dual_coef_, best.dual_coef_, rtol=1e-10)
        for other in "ABCD":
            assert_allclose(search.holdout(other), best.holdout(other), rtol=1e-10)


@pytest.mark.parametrize("symmetry", ["symmetric", "antisymmetric"])
def test_a_network_with_missing_edges(symmetry):
    X, Y = make_network(symmetry, holes=True)
    search = TwoStepRidgeCV(ALPHAS, setting="A", symmetry=symmetry).fit(X, Y)
    models = [TwoStepRidge(alpha, alpha, symmetry=symmetry).fit(X, Y) for alpha in ALPHAS]
    scores = [-np.nanmean((model.holdout("A") - Y) ** 2) for model in models]
    assert_allclose(search.landscape_, scores, rtol=1e-9)
    best = models[int(np.argmax(scores))]
    assert search.alpha_ == best.alpha
    assert_allclose(search.holdout_, best.holdout("A"), rtol=1e-9)
    assert_allclose(search.completed_, best.completed_, rtol=1e-9)
    with pytest.raises(
        ValueError, match="Setting B of a network with missing labels is not supported"
    ):
        TwoStepRidgeCV(ALPHAS, symmetry=symmetry).fit(X, Y)


def test_what_a_network_has_not():
    X, Y = make_network("symmetric")
    for options, given, message in (
        ({"task_alphas": [1.0]}, {}, "one regularisation for both sides: leave task_alphas out"),
        (
            {"task_kernel_grid": [{}]},
            {},
            "one regularisation for both sides: leave task_kernel_grid out",
        ),
        ({"symmetry": "square"}, {}, "symmetry must be"),
        ({}, {"tasks": X}, "leave tasks out"),
        ({}, {"sample_weight": np.full(M, 2.0)}, "leave sample_weight out"),
        ({}, {"groups": np.arange(M) // 2}, "one edge or vertex at a time"),
        ({"cv": 3}, {}, "one edge or vertex at a time"),
    ):
        with pytest.raises(ValueError, match=message):
            TwoStepRidgeCV(ALPHAS, **{"symmetry": "symmetric"} | options).fit(X, Y, **given)
    with pytest.raises(ValueError, match="nested_score is for grids"):
        nested_score(TwoStepRidgeCV(ALPHAS, symmetry="symmetric"), X, Y)


# --- what comes with the model -------------------------------------------------------------------


@over(lines("Search", *TWINS))
def test_a_search_has_the_parameters_of_its_model(Search):
    own = set(TWINS[Search]().get_params()) - {"alpha", "task_alpha"}
    assert own <= set(Search().get_params())
    X, Y, T, _ = make_data()
    search = Search(ALPHAS).fit(X, Y, tasks=T)
    with pytest.raises(TypeError, match=f"^{Search.__name__} has chosen its regularisation"):
        search.set_alpha(1.0)


@over(lines("Search", *TWINS))
def test_folds_as_scikit_learn_cuts_them(Search):
    X, Y, T, _ = make_data()
    splits = list(KFold(4, shuffle=True, random_state=0).split(X))
    groups = np.zeros(M, int)
    for number, (_, test) in enumerate(splits):
        groups[test] = number
    found = Search(ALPHAS, cv=splits).fit(X, Y, tasks=T)
    wanted = Search(ALPHAS).fit(X, Y, tasks=T, groups=groups)
    assert_allclose(found.landscape_, wanted.landscape_, rtol=1e-12)
    assert_allclose(found.holdout_, wanted.holdout_, rtol=1e-12)
    for cv, error, message in (
        ([1, 2], TypeError, "cv must be a number of folds, a SettingKFold or a list of "),
        ([], ValueError, "cv must test each of the 9 instances in one fold"),
        (splits[1:], ValueError, "cv must test each of the 9 instances in one fold"),
        ([(train[1:], test) for train, test in splits], ValueError, "train on it in all others"),
    ):
        with pytest.raises(error, match=message):
            Search(ALPHAS, cv=cv).fit(X, Y, tasks=T)
    with pytest.raises(ValueError, match="only supported in setting B, found setting A"):
        Search(ALPHAS, setting="A", cv=splits).fit(X, Y, tasks=T)
    with pytest.raises(ValueError, match="groups cannot be combined with a list of folds"):
        Search(ALPHAS, cv=splits).fit(X, Y, tasks=T, groups=groups)

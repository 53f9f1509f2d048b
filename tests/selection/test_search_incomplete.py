"""Searches on grids with holes, against slow loops over folds with fresh models."""

import re

import numpy as np
import pytest
from numpy.random import default_rng
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
from dyadlearn.metrics import scorer
from sweeps import covering, every, lines, over

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

ALPHAS = [0.03, 3.0]
TASK_ALPHAS = [0.1, 3.0]
RBF = {"kernel": "rbf", "task_kernel": "rbf"}
PLAIN = {TwoStepRidgeCV: TwoStepRidge, KroneckerRidgeCV: KroneckerRidge}
pair_searches = {"Search": list(PLAIN)}
every_search = {"Search": [*PLAIN, IndependentTaskRidgeCV]}


@pytest.fixture
def folds_only(monkeypatch):
    """Let no formula be affordable, as for many labels, so that all models are refitted for each fold."""
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)


def make_data(m=12, q=9, share=0.3):
    return problems.data(m, q, 5, 4, noise=0.5, scale=2.0, missing=share)


def make_search(Search, **options):
    grids = {"task_alphas": TASK_ALPHAS} if Search is TwoStepRidgeCV else {}
    kernels = RBF if Search in PLAIN else {"kernel": "rbf"}
    return Search(ALPHAS, **grids, **kernels, **options)


@over(every(**pair_searches))
def test_iterations_that_stop_early_choose_the_same(Search, folds_only):
    """More cells than are solved for directly: 1e-5 in the search, compared with 1e-10."""
    X, Y, T = make_data(72, 40, 0.78)
    search = make_search(Search, cv=2).fit(X, Y, T)
    assert search.n_iter_ > 1
    assert search.residual_ <= 1e-8
    groups = search.fitted_.validation.units.sides[0]
    judge = scorer("neg_mean_squared_error")
    held_out = {}
    for place in np.ndindex(*search.landscape_.shape):
        alphas = {"alpha": ALPHAS[place[0]]}
        alphas |= {"task_alpha": TASK_ALPHAS[place[1]]} if len(place) > 1 else {}
        model = PLAIN[Search](**alphas, **RBF, tol=1e-10).fit(X, Y, T)
        held_out[place] = model.holdout("B", groups=groups)
        score = judge(Y, held_out[place], setting="B")
        assert_allclose(search.landscape_[place], score, rtol=1e-4)
    best = held_out[np.unravel_index(search.landscape_.argmax(), search.landscape_.shape)]
    assert_allclose(search.holdout_, best, rtol=0, atol=1e-4 * np.abs(best).max())


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
@over(covering(**every_search, holes={"complete": 0.0, "holes": 0.3}, strength=1))
def test_wrong_folds(Search, holes, cv, error, message):
    X, Y, T = make_data(share=holes)
    search = make_search(Search, cv=cv)
    with pytest.raises(error, match=message):
        search.fit(X, Y, T)
    with pytest.raises(NotFittedError):
        search.predict(X)


@over(every(**pair_searches))
def test_iterations_that_do_not_converge_are_told(Search, folds_only):
    X, Y, T = make_data(72, 40, 0.78)
    search = make_search(Search, cv=2, max_iter=1)
    with pytest.warns(ConvergenceWarning) as told:
        search.fit(X, Y, T)
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
    rng = default_rng(0)
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


@over(lines("weighted setting", (True, "A"), (False, "B")))
def test_many_regularisations_have_the_scores_of_few(weighted, setting):
    """One decomposition serves many regularisations, an inverse each of a few."""
    X, Y, T = make_data(share=0.6)
    weights = default_rng(1).uniform(0.1, 10.0, Y.shape) if weighted else None
    many = np.logspace(-3, 3, 13)
    few = many[[1, 6, 10]]
    scores = [
        KroneckerRidgeCV(alphas, setting=setting, scoring="neg_mean_squared_error", **RBF)
        .fit(X, Y, T, weights)
        .landscape_
        for alphas in (many, few)
    ]
    assert_allclose(scores[0][[1, 6, 10]], scores[1], rtol=1e-8)

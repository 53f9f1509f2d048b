"""Searches of labels with holes: from coarse to fine, with a budget, and what they keep."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

import dyadlearn as dl
from dyadlearn.datasets import make_dyads
from dyadlearn.exceptions import SearchStoppedWarning
from dyadlearn.holdout import plan
from dyadlearn.holdout.folds import Folds
from dyadlearn.report.page import render
from dyadlearn.selection import coarse
from dyadlearn.selection.evaluate import model_holdout
from dyadlearn.settings import Setting
from dyadlearn.views.curves import holdout_of_model
from dyadlearn.views.evaluation import Evaluation
from dyadlearn.views.landscape import landscape_of_search
from dyadlearn.views.summary import summary_of

POWERS = 10.0 ** np.arange(-5, 5)


def holed(m=18, q=12, missing=0.5, seed=0, **options):
    """Return features, labels with holes and features of the tasks."""
    data = make_dyads(m, q, noise=0.5, missing=missing, random_state=seed, **options)
    return data.X, data.Y, data.tasks


def two_step(**options):
    given = {"alphas": POWERS, "kernel": "rbf", "task_kernel": "rbf", "cv": 2, "setting": "B", **options}
    return dl.TwoStepRidgeCV(task_alphas=given.pop("task_alphas", given["alphas"]), **given)


def kronecker(**options):
    return dl.KroneckerRidgeCV(**{"kernel": "rbf", "task_kernel": "rbf", "cv": 2, "setting": "B", **options})


def weights_of(Y, weighted):
    return np.random.default_rng(1).uniform(0.2, 2.0, size=Y.shape) if weighted else None


CHOICES = [
    (two_step, {"setting": "A", "alphas": POWERS[1:8]}, False),
    (two_step, {"setting": "B", "alphas": POWERS[1:8]}, True),
    (two_step, {"setting": "C", "alphas": POWERS[1:8]}, False),
    (two_step, {"setting": "D", "alphas": POWERS[1:8]}, True),
    (two_step, {"setting": "B", "alphas": POWERS[1:8], "scoring": "concordance_index"}, False),
    (kronecker, {"setting": "A"}, True),
    (kronecker, {"setting": "B"}, False),
    (kronecker, {"setting": "C"}, True),
    (kronecker, {"setting": "D"}, False),
]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_search_from_coarse_to_fine_loses_little_against_all_of_the_grid():
    """No more than half a percent of the best score, wherever the full search looks."""
    for number, (make, options, weighted) in enumerate(CHOICES):
        X, Y, T = holed(seed=number)
        weights = weights_of(Y, weighted)
        full = make(exhaustive=True, **options).fit(X, Y, T, weights)
        found = make(**options).fit(X, Y, T, weights)
        assert full.looked_at_.all()
        assert found.looked_at_.sum() < full.looked_at_.sum()
        assert_array_equal(np.isnan(found.landscape_), ~found.looked_at_)
        # The score that the full search has where the other has chosen.
        place = tuple(
            list(grid).index(getattr(found, name))
            for name, grid in zip(("alpha_", "task_alpha_"), found._grids(), strict=True)
            if grid is not None
        )
        assert found.looked_at_[place]
        assert full.best_score_ - full.landscape_[place] <= 0.005 * abs(full.best_score_), (number, options)
        assert_allclose(found.best_score_, full.landscape_[place], rtol=1e-4)
        assert_allclose(found.best_score_, np.nanmax(found.landscape_))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_rough_solutions_of_some_folds_choose_as_well(monkeypatch):
    """So many cells are missing that folds are solved by conjugate gradients, and so many known that two will do."""
    monkeypatch.setattr(coarse, "_ENOUGH_LABELS", 400)
    looked = []
    at = coarse.Scores.at
    monkeypatch.setattr(coarse.Scores, "at", lambda *given, **folds: looked.append(folds) or at(*given, **folds))
    for make, options in ((two_step, {"task_alphas": POWERS[4:6]}), (kronecker, {})):
        X, Y, T = holed(80, 44, 0.75, seed=3)
        rows, columns = list(POWERS[2:9]), list(options.get("task_alphas", [None]))
        full, found = (
            make(exhaustive=each, setting="D", alphas=rows, **options).fit(X, Y, T) for each in (True, False)
        )
        assert [0, 3] in [folds.get("numbers") for folds in looked]
        place = (rows.index(found.alpha_), columns.index(found.task_alpha_))[: full.landscape_.ndim]
        assert full.best_score_ - full.landscape_[place] <= 0.005 * abs(full.best_score_)
        assert_allclose(found.landscape_[found.looked_at_], full.landscape_[found.looked_at_], rtol=0.02)
        assert_allclose(found.best_score_, full.landscape_[place], rtol=1e-4)


def test_of_equals_the_most_regularised_is_chosen():
    """Where kernels tell nothing all regularisations are alike, and climbing ends at the strongest."""
    rng = np.random.default_rng(0)
    Y = np.where(rng.random((20, 12)) < 0.4, np.nan, rng.normal(size=(20, 12)))
    nothing = {"kernel": "precomputed", "task_kernel": "precomputed", "fit_intercept": False}
    given = (np.zeros((20, 20)), Y, np.zeros((12, 12)))
    found = two_step(task_alphas=POWERS[3:6], **nothing).fit(*given)
    assert (found.alpha_, found.task_alpha_) == (POWERS.max(), POWERS[5])


def ticking(monkeypatch, n_checks):
    """Let the time of a search be up after so many looks at the clock."""
    count = iter(range(10**9))
    monkeypatch.setattr(coarse.Clock, "check", lambda clock: _late() if next(count) >= n_checks else None)


def _late():
    raise coarse.OutOfTimeError


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_the_best_by_the_end_of_the_budget_is_chosen(monkeypatch):
    X, Y, T = holed()
    for options in ({}, {"exhaustive": True}, {"setting": "D"}):
        search = two_step(budget=0.0, **options)
        with pytest.warns(SearchStoppedWarning, match=r"budget of 0 s: 1 of 100 regularisations"):
            search.fit(X, Y, T)
        assert (search.stopped_, search.looked_at_.sum()) == ("budget", 1)
        assert np.isfinite(search.best_score_)
        assert np.isfinite(search.predict(X)).all()
    monkeypatch.setattr(coarse, "_ENOUGH_LABELS", 0)
    for n_checks in (3, 40, 90):
        with monkeypatch.context() as patch:
            ticking(patch, n_checks)
            with pytest.warns(SearchStoppedWarning, match="of 100 regularisations were looked at"):
                some = two_step(setting="D", budget=1e6).fit(X, Y, T)
        assert 1 <= some.looked_at_.sum() < 100
        assert_allclose(some.best_score_, np.nanmax(some.landscape_))


def test_a_budget_says_nothing_of_what_is_not_solved_again():
    X, _, T = holed()
    Y = make_dyads(18, 12, random_state=0).Y
    first, second = (two_step(cv=None, budget=budget).fit(X, Y, T) for budget in (None, 0.0))
    assert_array_equal(first.landscape_, second.landscape_)
    assert second.stopped_ is None
    assert second.looked_at_.all()


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_an_interrupt_keeps_what_was_best(monkeypatch):
    X, Y, T = holed()
    at = coarse.Scores.at
    for options, last in (({}, 5), ({"exhaustive": True}, 5), ({}, 0)):
        count = iter(range(10**9))

        def interrupted(self, *given, count=count, last=last, **folds):
            if next(count) == last:
                raise KeyboardInterrupt
            return at(self, *given, **folds)

        monkeypatch.setattr(coarse.Scores, "at", interrupted)
        search = two_step(**options)
        if last == 0:
            with pytest.raises(KeyboardInterrupt):
                search.fit(X, Y, T)
            with pytest.raises(NotFittedError):
                search.predict(X)
            continue
        with pytest.warns(SearchStoppedWarning, match="was interrupted: 5 of 100"):
            search.fit(X, Y, T)
        assert search.stopped_ == "interrupt"
        assert_allclose(search.best_score_, np.nanmax(search.landscape_))


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_time_that_is_up_leaves_other_kernels_alone():
    X, Y, T = holed()
    grid = [{"gamma": 0.1}, {"gamma": 1.0}]
    with pytest.warns(SearchStoppedWarning, match="1 of 200"):
        search = two_step(budget=0.0, kernel_grid=grid).fit(X, Y, T)
    assert search.kernel_params_ == grid[0]
    assert not search.looked_at_[1].any()


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_what_is_kept_is_what_would_be_solved_anew_and_nobody_does(monkeypatch, tmp_path):
    X, Y, T = holed(40, 30, 0.6)
    for make, setting in ((two_step, "B"), (kronecker, "D")):
        search = make(setting=setting, alphas=POWERS[2:9]).fit(X, Y, T)
        anew = plan(search._problem(), Setting(setting), cv=2).held_out()
        assert_allclose(search.holdout_, anew, rtol=1e-5, atol=1e-6)
        path = tmp_path / "model.dyad"
        dl.save(search, path)
        again = dl.load(path)
        assert_array_equal(again.looked_at_, search.looked_at_)
        with monkeypatch.context() as patch:
            patch.setattr(Folds, "held_out", lambda *given, **options: pytest.fail("solved again"))
            for model in (search, again):
                assert_array_equal(model_holdout(model, Setting(setting)).predictions, search.holdout_)
                (curve,) = holdout_of_model(model, setting, kind="scatter").curves.values()
                observed = ~np.isnan(Y)
                assert_allclose(np.sort(curve.y), np.sort(search.holdout_[observed]))
                table = dl.evaluate(model, setting, n_permutations=0)
                assert_allclose(table["neg_mean_squared_error"][0], search.best_score_, rtol=1e-4)
                result = Evaluation(model, wanted=setting)
                assert_allclose(result.results()[0].held_out, search.holdout_)
                views, said = result.landscapes([Setting(setting)])
                assert_array_equal(views[0].scores, search.landscape_)
                assert not said


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_points_that_were_not_looked_at_are_drawn_as_such():
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from dyadlearn.plots import LandscapeDisplay

    X, Y, T = holed()
    for make in (two_step, kronecker):
        search = make().fit(X, Y, T)
        seen, size = int(search.looked_at_.sum()), search.landscape_.size
        assert landscape_of_search(search).looked_at == f"{seen} of {size} points scored"
        display = LandscapeDisplay.from_estimator(search, ax=Figure().subplots())
        assert f"{seen} of {size} points scored" in display.ax_.get_title()
        drawn = display.lines_[0].get_xdata().size if make is kronecker else display.map_.get_array().count()
        assert drawn == seen
    full = kronecker(exhaustive=True).fit(X, Y, T)
    assert landscape_of_search(full).looked_at == ""


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_the_report_says_what_was_looked_at():
    X, Y, T = holed()
    search = two_step(setting="B").fit(X, Y, T)
    seen = int(search.looked_at_.sum())
    page = render(summary_of(search, wanted="B"))
    assert f"The search did not score every regularisation ({seen} of 100 points scored)" in page
    full = render(summary_of(two_step(setting="B", exhaustive=True).fit(X, Y, T), wanted="B"))
    assert "did not score every" not in full


def test_the_time_is_told_before_the_work():
    X, Y, T = holed()
    search = two_step(setting="D")
    time = search.expected_time(X, Y, T)
    assert time.seconds > 0
    assert (time.n_grid, time.n_folds) == (100, 4)
    assert 0 < time.n_points < 100
    assert "of 100 regularisations, in 4 folds" in time.in_words
    with pytest.raises(NotFittedError):
        search.predict(X)
    full = two_step(setting="D", exhaustive=True, kernel_grid=[{"gamma": 0.1}, {"gamma": 1.0}])
    assert full.expected_time(X, Y, T).n_points == 200
    complete = two_step(cv=None).expected_time(X, np.nan_to_num(Y), T)
    assert (complete.seconds, complete.n_folds) == (0.0, 0)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_the_count_of_points_is_about_what_is_looked_at(monkeypatch):
    looked = []
    at = coarse.Scores.at
    monkeypatch.setattr(coarse.Scores, "at", lambda *given, **folds: looked.append(1) or at(*given, **folds))
    for seed in range(4):
        X, Y, T = holed(seed=seed)
        looked.clear()
        search = two_step(alphas=None).fit(X, Y, T)
        expected = search.expected_time(X, Y, T).n_points
        assert 0.5 * expected <= len(looked) <= 2 * expected


def test_bad_parameters_get_one_sentence():
    X, Y, T = holed()
    for options, error, words in (
        ({"budget": -1.0}, ValueError, "budget must be a finite number"),
        ({"budget": "1h"}, TypeError, "budget must be a number"),
        ({"exhaustive": 1}, TypeError, "exhaustive must be True or False"),
    ):
        with pytest.raises(error, match=words):
            two_step(**options).fit(X, Y, T)

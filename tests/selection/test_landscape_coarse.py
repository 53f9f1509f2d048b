"""Searches of missing labels: from coarse to fine, what an interrupt keeps, and what a search shows of itself."""

import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dyadlearn as dl
from dyadlearn.datasets import make_dyads
from dyadlearn.holdout import Formula, plan, planning
from dyadlearn.holdout.folds import Folds
from dyadlearn.metrics.cells import best_point
from dyadlearn.report.page import render
from dyadlearn.selection.landscape import coarse_to_fine
from dyadlearn.settings import Setting
from dyadlearn.views.grid import holdout_of_model
from dyadlearn.views.landscape import landscape_of_search
from dyadlearn.views.summary import SummaryOptions, summary_of

coarse = sys.modules[coarse_to_fine.__module__]  # the name of the module is that of a function too

POWERS = 10.0 ** np.arange(-5, 5)
SMALL = {"alphas": POWERS[1:8], "task_alphas": POWERS[3:7]}


def holed(m=18, q=12, missing=0.5, seed=0, **options):
    """Return features, labels with holes and features of the tasks."""
    data = make_dyads(m, q, noise=0.5, missing=missing, random_state=seed, **options)
    return data.X, data.Y, data.tasks


def two_step(**options):
    given = {
        "alphas": POWERS,
        "kernel": "rbf",
        "task_kernel": "rbf",
        "cv": 2,
        "setting": "B",
        **options,
    }
    return dl.TwoStepRidgeCV(task_alphas=given.pop("task_alphas", given["alphas"]), **given)


def kronecker(**options):
    return dl.KroneckerRidgeCV(
        **{"kernel": "rbf", "task_kernel": "rbf", "cv": 2, "setting": "B", **options}
    )


@pytest.fixture
def folds_only(monkeypatch):
    """Let no formula be affordable, as for many labels, so that all models are refitted for each fold."""
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)


# --- the points that are evaluated ----------------------------------------------------------------


def walked(landscape, alphas, task_alphas, **options):
    """Return the scores that a search finds in a landscape, and the points in the order of their evaluation."""
    scores = np.full(landscape.shape, np.nan)
    points = []
    for point in coarse_to_fine(scores, alphas, task_alphas, **options):
        scores[point] = landscape[point]
        points.append(point)
    return scores, points


def around(point, shape):
    """Return a point and its neighbours, along the axes and across."""
    rows, columns = (
        [at + move for move in (-1, 0, 1) if 0 <= at + move < size]
        for at, size in zip(point, shape, strict=True)
    )
    return [(row, column) for row in rows for column in columns]


def test_a_single_optimum_is_found_with_few_points():
    rng = np.random.default_rng(0)
    for _ in range(300):
        shape = int(rng.integers(1, 20)), int(rng.integers(1, 20))
        axes = [rng.permutation(10.0 ** np.arange(size)) for size in shape]
        # A cone around a random top, steeper on one axis than on the other, bent by an increasing
        # function.
        logs = [np.log10(axis) - rng.uniform(-0.5, axis.size - 0.5) for axis in axes]
        slopes = rng.uniform(0.2, 1.0, size=2)
        distance = np.hypot(slopes[0] * logs[0][:, None], slopes[1] * logs[1])
        landscape = -(distance ** rng.uniform(0.5, 3.0))
        scores, points = walked(landscape, *axes)
        assert np.nanmax(scores) == landscape.max(), shape
        assert len(points) == len(set(points))
        first = np.prod([max(1, -(-size // 4)) for size in shape])
        # In each of the two rounds the best point moves a few times at most.
        assert len(points) <= first + 40


def test_all_neighbours_of_the_best_point_are_evaluated():
    rng = np.random.default_rng(1)
    for shape in ((14, 14), (9, 1), (1, 7), (14, 2), (3, 11)):
        for _ in range(20):
            landscape = rng.normal(size=shape)
            axes = [10.0 ** np.arange(size) for size in shape]
            scores, _ = walked(landscape, *axes)
            best = best_point(scores, *axes)
            assert all(np.isfinite(scores[point]) for point in around(best, shape))


def test_a_search_goes_on_from_a_point_along_the_axes():
    axes = [10.0 ** np.arange(9), 10.0 ** np.arange(8)]
    landscape = -np.add.outer((np.arange(9) - 5) ** 2, (np.arange(8) - 3) ** 2).astype(float)
    scores, points = walked(landscape, *axes, start=(3, 3))
    assert points[0] == (3, 3)
    assert best_point(scores, *axes) == (5, 3)
    assert np.isfinite([scores[at] for at in ((4, 3), (6, 3), (5, 2), (5, 4))]).all()
    assert len(points) < 15


def test_of_equal_points_the_most_regularised_is_found():
    axes = [10.0 ** np.arange(14)] * 2
    scores, _ = walked(np.zeros((14, 14)), *axes)
    assert best_point(scores, *axes) == (13, 13)
    # A plateau that ends within the grid.
    plateau = np.add.outer(np.arange(14), np.arange(14)) <= 16
    scores, _ = walked(plateau.astype(float), *axes)
    assert sum(best_point(scores, *axes)) == 16


def test_points_without_a_score_are_passed_over():
    axes = [10.0 ** np.arange(14), np.ones(1)]
    landscape = np.full((14, 1), np.nan)
    scores, points = walked(landscape, *axes)
    assert len(points) == 14
    landscape[12] = 1.0  # which is none of the first points
    scores, points = walked(landscape, *axes)
    assert best_point(scores, *axes) == (12, 0)
    landscape[6:12, 0] = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    scores, points = walked(landscape, *axes)
    assert best_point(scores, *axes) == (12, 0)
    assert len(points) < 10


# --- searches ---------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_rough_solutions_of_some_folds_choose_as_well(folds_only, monkeypatch):
    """Where there are many labels, the folds on the diagonal tell enough of each point."""
    monkeypatch.setattr(coarse, "_ENOUGH_LABELS", 20)
    numbers = []
    held_out = Folds.held_out

    def watched(folds, *given, **options):
        numbers.append(options.get("numbers"))
        return held_out(folds, *given, **options)

    monkeypatch.setattr(Folds, "held_out", watched)
    X, Y, T = holed(20, 14, seed=3)
    rows = list(POWERS[2:9])
    full, found = (
        kronecker(exhaustive=each, setting="D", alphas=rows).fit(X, Y, T) for each in (True, False)
    )
    assert [0, 3] in numbers
    assert numbers[-1] != [0, 3]
    place = rows.index(found.alpha_)
    assert full.best_score_ - full.landscape_[place] <= 0.005 * abs(full.best_score_)
    assert_allclose(found.best_score_, full.landscape_[place], rtol=1e-4)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_formula_evaluates_all_points():
    X, Y, T = holed()
    for setting in "AD":
        search = kronecker(setting=setting).fit(X, Y, T)
        assert search.holdout_method_ == "exact leave-fold-out"
        assert search.n_evaluated_ == search.landscape_.size == 14
        assert landscape_of_search(search).evaluated == ""


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_what_is_kept_is_what_would_be_solved_anew_and_nobody_does(monkeypatch, tmp_path):
    X, Y, T = holed(16, 12, 0.4)
    for search in (two_step(**SMALL), kronecker(setting="D", alphas=POWERS[2:9])):
        setting = Setting(search.fit(X, Y, T).setting)
        anew = plan(search.fitted_.training_problem, setting, cv=2).held_out(everywhere=True)
        assert_allclose(search.holdout_, anew, rtol=1e-5, atol=1e-6)
        dl.save(search, tmp_path / "model.dyad")
        again = dl.load(tmp_path / "model.dyad")
        assert again.n_evaluated_ == search.n_evaluated_
        with monkeypatch.context() as patch:
            for kind in (Folds, Formula):
                patch.setattr(kind, "held_out", lambda *_, **__: pytest.fail("held out again"))
            for model in (search, again):
                assert_array_equal(model.fitted_.hold_out(setting).predictions, search.holdout_)
                (curve,) = holdout_of_model(model, setting.value, kind="scatter").curves.values()
                kept = search.holdout_[~np.isnan(Y)]
                assert_allclose(np.sort(curve.y), np.sort(kept))
                table = dl.evaluate(model, setting, n_permutations=0)
                assert_allclose(table["neg_mean_squared_error"][0], search.best_score_, rtol=1e-4)
            # Correlations by task have folds of their own.
            patch.setattr("dyadlearn.views.summary._by_task", lambda *_: (None, []))
            report = summary_of(again, SummaryOptions(setting=setting.value))
            seen = search.n_evaluated_
            size = search.landscape_.size
            told = f"The search went from coarse to fine ({seen} of {size} points evaluated)"
            assert (told in render(report)) == (seen < size)
            assert_allclose(report.results[0].predictions, search.holdout_)
            assert_array_equal(report.landscapes[0].scores, search.landscape_)
            assert not any("no landscape" in note for note in report.notes)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_points_that_were_not_evaluated_are_drawn_as_such(folds_only):
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    from dyadlearn.plots import LandscapeDisplay

    X, Y, T = holed()
    for search in (two_step(**SMALL), kronecker()):
        search.fit(X, Y, T)
        seen = search.n_evaluated_
        size = search.landscape_.size
        assert seen < size
        assert landscape_of_search(search).evaluated == f"{seen} of {size} points evaluated"
        display = LandscapeDisplay.from_estimator(search, ax=Figure().subplots())
        assert f"{seen} of {size} points evaluated" in display.ax_.get_title()
        if search.landscape_.ndim == 1:
            drawn = display.lines_[0].get_xdata().size
        else:
            drawn = display.map_.get_array().count()
        assert drawn == seen
    assert landscape_of_search(kronecker(exhaustive=True).fit(X, Y, T)).evaluated == ""

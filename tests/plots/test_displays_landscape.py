"""The map of a landscape holds its scores, and its star stands where the model does."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    TwoStepRidgeCV,
    landscape,
)
from dyadlearn.plots import LandscapeDisplay

GRID = [0.01, 1.0, 100.0]
TASK_GRID = [0.1, 10.0, 1.0, 1000.0]
pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def star(display):
    return [10.0 ** float(np.ravel(values)[0]) for values in display.best_.get_data()]


@pytest.mark.parametrize("letter", "ABCD")
def test_the_star_is_the_model(real, ax, letter):
    X, Y, T = real
    search = TwoStepRidgeCV(GRID, TASK_GRID, setting=letter).fit(X, Y, tasks=T)
    display = LandscapeDisplay.from_estimator(search, ax=ax)
    assert_allclose(star(display), [search.task_alpha_, search.alpha_])
    assert_array_equal(display.scores, search.landscape_)
    assert display.best_score == search.best_score_
    assert f"{letter}: " in ax.get_title()
    assert "neg_mean_squared_error" in ax.get_title()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("task_alpha", "alpha")


def test_the_map_is_of_the_loss_over_powers_of_ten_in_ascending_order(ax):
    scores = np.array([[0.5, 0.7, 0.6], [0.9, 0.8, np.nan]])
    display = LandscapeDisplay.from_landscape(scores, [10, 1], [0.1, 100, 1], ax=ax)
    corners = display.map_.get_coordinates()
    assert_allclose(corners[0, :, 0], [-1.5, -0.5, 1, 3])
    assert_allclose(corners[:, 0, 1], [-0.5, 0.5, 1.5])
    assert_allclose(display.map_.get_array().filled(-1), [[0, -1, 0.1], [0.4, 0.3, 0.2]])
    levels = display.map_.norm.boundaries
    assert levels[0] == 0
    assert levels[-1] >= 0.4
    assert_allclose(star(display), [0.1, 1.0])
    assert (display.alpha, display.task_alpha, display.best_score) == (1.0, 0.1, 0.9)


@pytest.mark.parametrize("model", [KroneckerRidgeCV, IndependentTaskRidgeCV])
def test_one_regularisation_is_a_line(real, ax, model):
    X, Y, T = real
    search = model([100.0, 0.01, 1.0], setting="B").fit(X, Y, tasks=T)
    display = LandscapeDisplay.from_estimator(search, ax=ax)
    (line,) = display.lines_
    assert display.map_ is None
    assert display.colorbar_ is None
    assert_allclose(line.get_xdata(), [-2, 0, 2])
    assert_array_equal(line.get_ydata(), search.landscape_[[1, 2, 0]])
    assert_allclose(star(display)[0], search.alpha_)
    assert_array_equal(display.best_.get_ydata(), [search.best_score_])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("alpha", "neg_mean_squared_error")


def test_zero_is_left_out_and_said(ridge, ax):
    scores = landscape(
        ridge,
        alphas=[0, 1, 10],
        task_alphas=[0.1, 1],
        setting="D",
        progress=False,
    )["D"]
    display = LandscapeDisplay.from_landscape(scores, [0, 1, 10], [0.1, 1], ax=ax)
    assert "(alpha 0 not drawn)" in ax.get_title()
    assert_allclose(ax.get_ylim(), [-0.5, 1.5])
    assert_array_equal(display.scores, scores)


def test_bad_input_is_said_in_a_sentence(ax, each):
    shapes = r"shape \(2, 3\) for these alphas and task_alphas, found shape \(3, 2\)"
    cases = [
        (({"A": [1], "D": [2]},), TypeError, "one setting, found a dict: take one of its .*, A, D"),
        ((np.ones((3, 2)), [1, 2], [1, 2, 3]), ValueError, shapes),
        (([np.nan, np.nan], [1, 2]), ValueError, "all NaN"),
        (([1.0, 2.0], [0, 1]), ValueError, "at least two regularisations above 0"),
    ]
    for given, error, message in each(cases):
        names = ("scores", "alphas", "task_alphas", "setting")
        with pytest.raises(error, match=message):
            LandscapeDisplay.from_landscape(**dict(zip(names, given, strict=False)), ax=ax)

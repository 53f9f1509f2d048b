"""What all Displays have in common."""

import copy
import sys

import matplotlib.pyplot as plt
import pytest
from sklearn.exceptions import NotFittedError

from dyadlearn import OnlineTwoStepRidge, TwoStepRidge, TwoStepRidgeCV
from dyadlearn.plots import HoldoutDisplay, LandscapeDisplay
from dyadlearn.views.landscape import landscape_of_scores
from sweeps import lines, over

DRAW = {
    "roc": lambda **at: HoldoutDisplay.from_predictions(
        [[1, 0], [1, 0]], [[0.9, 0.1], [0.2, 0.4]], **at
    ),
    "scatter": lambda **at: HoldoutDisplay.from_predictions(
        [[1, 2], [3, 4]], [[0.9, 0.1], [0.2, 0.4]], **at
    ),
    "map": lambda **at: LandscapeDisplay.from_landscape([[1, 2], [3, 5]], [0.1, 1], [0.1, 1], **at),
    "line": lambda **at: LandscapeDisplay.from_landscape([1, 2, 0], [0.1, 1, 10], **at),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_they_draw_on_given_axes_or_open_one_figure_and_can_be_drawn_again(draw, ax):
    display = draw(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert plt.get_fignums() == []
    ax.figure.canvas.draw()
    display = draw()
    assert len(plt.get_fignums()) == 1
    assert display.figure_ is plt.gcf()
    display.figure_.canvas.draw()
    assert display.ax_ is not ax
    assert display.plot(ax) is display
    assert display.ax_ is ax


@over(lines("draw", *DRAW.values()))
def test_what_is_no_axes_is_refused(draw):
    with pytest.raises(TypeError, match="ax must be the axes of a matplotlib figure, found dict"):
        draw(ax={})
    assert plt.get_fignums() == []


@over(lines("draw", *DRAW.values()))
def test_without_matplotlib_it_is_said_how_to_get_it(draw, monkeypatch):
    for module in ("matplotlib", "matplotlib.pyplot", "matplotlib.axes", "matplotlib.ticker"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'dyadlearn\[plots\]'"):
        draw()


def test_the_numbers_of_a_view_are_those_of_its_display(ax):
    view = landscape_of_scores([0.5, 0.7, 0.6], [0.1, 1, 10])
    display = LandscapeDisplay(view)
    with pytest.raises(AttributeError, match=r"LandscapeDisplay has no ax_: call plot\(\) first"):
        display.ax_  # noqa: B018
    for one in (display, copy.deepcopy(display)):
        assert one.best_score == 0.7
        assert one.plot(ax).scores is one.view.scores
        with pytest.raises(AttributeError, match="nonesuch"):
            one.nonesuch  # noqa: B018


def test_what_cannot_be_looked_at_is_refused(real, each):
    X, Y, T = real
    online = OnlineTwoStepRidge().fit(X, Y, tasks=T)
    words = "OnlineTwoStepRidge keeps statistics only, not the labels: .*from_predictions"
    cases = [
        (HoldoutDisplay, "a model", TypeError, "model must be a .* found str.*from_predictions"),
        (LandscapeDisplay, "a model", TypeError, "model must be a .* found str.*from_landscape"),
        (HoldoutDisplay, online, ValueError, words),
        (HoldoutDisplay, TwoStepRidge(), NotFittedError, "not fitted"),
        (LandscapeDisplay, TwoStepRidgeCV(), NotFittedError, "not fitted"),
    ]
    for Display, model, error, message in each(cases):
        with pytest.raises(error, match=message):
            Display.from_estimator(model)
        assert plt.get_fignums() == []

"""What all Displays have in common."""

from __future__ import annotations

import copy
import sys

import matplotlib.pyplot as plt
import pytest

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
def test_they_draw_on_given_axes_and_open_no_figure(draw, ax):
    display = draw(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert plt.get_fignums() == []
    ax.figure.canvas.draw()


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_they_open_one_figure_of_their_own(draw):
    display = draw()
    assert len(plt.get_fignums()) == 1
    assert display.figure_ is plt.gcf()
    display.figure_.canvas.draw()


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_they_can_be_drawn_again_elsewhere(draw, ax):
    display = draw()
    first = display.ax_
    assert display.plot(ax) is display
    assert display.ax_ is ax
    assert first is not ax


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


LOOK = {
    "holdout": (HoldoutDisplay.from_estimator, "from_predictions"),
    "landscape": (LandscapeDisplay.from_estimator, "from_landscape"),
}


@pytest.mark.parametrize(("draw", "instead"), LOOK.values(), ids=LOOK)
def test_models_that_cannot_be_looked_at_are_refused(draw, instead):
    with pytest.raises(TypeError, match=rf"model must be a .* found str.*{instead}"):
        draw("a model")
    assert plt.get_fignums() == []


@pytest.mark.parametrize(("draw", "instead"), list(LOOK.values())[:1], ids=list(LOOK)[:1])
def test_online_models_keep_no_labels(draw, instead, real):
    X, Y, T = real
    with pytest.raises(
        ValueError, match=f"OnlineTwoStepRidge keeps statistics only, not the labels: .*{instead}"
    ):
        draw(OnlineTwoStepRidge().fit(X, Y, tasks=T))


@pytest.mark.parametrize(("draw", "_"), LOOK.values(), ids=LOOK)
def test_unfitted_models_are_refused(draw, _):
    with pytest.raises(Exception, match="not fitted"):
        draw(TwoStepRidgeCV() if draw.__self__ is LandscapeDisplay else TwoStepRidge())

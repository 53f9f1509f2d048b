"""Bars of contributions: the numbers of an explanation, the rest in grey, ids as they are."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import TwoStepRidge, explain
from dyadlearn.plots import ExplanationDisplay
from problems import data


@pytest.fixture
def axes():
    from matplotlib.figure import Figure

    return Figure(layout="constrained").subplots(1, 3)


def test_bars_are_the_contributions_and_the_rest(axes):
    X, Y, T = data(9, 6)
    model = TwoStepRidge().fit(X, Y, tasks=T)
    found = explain(model, 3, T[:1], top=4, sides=("host", "parasite"))
    display = ExplanationDisplay.from_result(found, ax=axes)
    for bars, listed in zip(display.bars_, (found.pairs, found.instances, found.tasks), strict=True):
        widths = [bar.get_width() for bar in bars]
        assert_allclose(widths, [listed.rest, *listed.contributions[::-1]])
        assert_allclose(sum(widths), found.prediction)
    texts = [label.get_text() for label in axes[1].get_yticklabels()]
    assert texts == ["5 others", *map(str, found.instances.ids[::-1])]
    assert [panel.get_title(loc="left").splitlines()[-1] for panel in axes] == ["by pair", "by host", "by parasite"]
    assert f"{found.prediction:.4g} for host 3 and a new parasite" in axes[0].get_title(loc="left")
    assert display.prediction == found.prediction
    with pytest.raises(ValueError, match="3 axes"):
        display.plot(axes[0])


def test_everything_listed_and_a_figure_of_its_own():
    X, Y, T = data(4, 3)
    display = ExplanationDisplay.from_estimator(TwoStepRidge().fit(X, Y, tasks=T), 0, 0, top=100)
    assert [len(bars) for bars in display.bars_] == [12, 4, 3]
    assert display.figure_ is display.ax_[0].figure


def test_a_network_has_one_panel_of_nodes():
    X, Y, _ = data(5, 5)
    display = ExplanationDisplay.from_estimator(TwoStepRidge(symmetry="symmetric").fit(X, Y + Y.T), 0, 1)
    assert len(display.ax_) == 2
    assert display.ax_[1].get_title(loc="left") == "by node"


def test_hostile_ids(axes):
    pd = pytest.importorskip("pandas")
    X, Y, T = data(4, 3)
    ids = ["$x^{2", "a\nb", "_" * 300, "<b>"]
    model = TwoStepRidge().fit(X, pd.DataFrame(Y, index=ids, columns=["%s", "\\frac$", "ü"]), tasks=T)
    display = ExplanationDisplay.from_estimator(model, "$x^{2", "\\frac$", ax=axes)
    display.figure_.canvas.draw()
    texts = [label.get_text() for label in axes[1].get_yticklabels()]
    assert set(texts) == {"$x^{2", "a b", "_" * 23 + "…", "<b>"}
    assert max(map(len, texts)) <= 24
    assert np.isfinite(display.prediction)

"""Models beside each other, as a picture."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, TwoStepRidge, compare
from dyadlearn.plots import ComparisonDisplay


def models(names=("two-step", "$Kronecker$", "stiff")):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(20, 3)), rng.normal(size=(15, 2))
    Y = X @ rng.normal(size=(3, 2)) @ T.T + 0.5 * rng.normal(size=(20, 15))
    made = (TwoStepRidge(0.5, 0.5), KroneckerRidge(1.0), TwoStepRidge(1e3, 1e3))
    return {name: model.fit(X, Y, tasks=T) for name, model in zip(names, made, strict=True)}


def test_dots_and_intervals_are_those_that_were_found(ax):
    found = compare(models(), "B", n_resamples=50, random_state=0, sides=("host", "parasite"))
    display = ComparisonDisplay.from_result(found, ax=ax)
    assert list(display.dots_) == list(found.scores) == list(display.scores)
    assert display.dots_[found.best].get_xdata() == [0.0]
    for place, line in enumerate(found.to_best, 1):
        assert_allclose(display.dots_[line.other].get_xydata(), [[-line.difference, place]])
        assert_allclose(display.intervals_[line.other].get_xdata(), [-line.high, -line.low])
    assert ax.get_title() == "Setting B, 95 % intervals over hosts and parasites"
    assert ax.get_xlabel() == "neg_mean_squared_error behind the best"
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels == [f"{name}\n{score:.4g}" for name, score in found.scores.items()]
    assert not any(text.get_parse_math() for text in ax.get_yticklabels())
    display.figure_.canvas.draw()


def test_what_cannot_be_told_apart_is_hollow(ax):
    same = models()["two-step"]
    display = ComparisonDisplay.from_estimators({"a": same, "b": same}, "D", n_resamples=10, ax=ax)
    assert display.dots_["b"].get_markerfacecolor() == "white"
    assert display.dots_["a"].get_markerfacecolor() != "white"


def test_what_is_no_comparison(ax):
    with pytest.raises(TypeError, match=r"what dyadlearn.compare returns, found dict"):
        ComparisonDisplay.from_result({}, ax=ax)
    with pytest.raises(AttributeError, match="comes with plot"):
        _ = ComparisonDisplay(None).dots_

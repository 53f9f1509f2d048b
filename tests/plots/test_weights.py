"""Bars of learned weights."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

from dyadlearn import LearnedKernelRidge, PairRegressor, TwoStepRidge
from dyadlearn.plots import WeightsDisplay


@pytest.fixture(scope="module")
def learned(real):
    X, Y, T = real
    return LearnedKernelRidge(setting="B", n_steps=5).fit({"$x": X[:, :3], "rest": X[:, 3:]}, Y, tasks=T)


def test_a_bar_for_each_weight(learned, ax):
    display = WeightsDisplay.from_estimator(learned, ax=ax)
    assert display.ax_ is ax
    for side, weights in learned.weights_.items():
        lengths = [bar.get_width() for bar in display.bars_[side]]
        assert_allclose(lengths, [weights[name] for name in display.sides[side].weights])
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [name for side in display.sides.values() for name in side.weights]
    said = [text.get_text() for text in ax.texts]
    assert said == [words for side in display.sides.values() for *_, words in side.lines]
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["instances", "tasks"]
    assert (display.n_stages, display.stage_errors) == (1, learned.stage_errors_)
    ax.figure.canvas.draw()
    # The widest words end on the picture.
    box = ax.figure.bbox
    assert all(text.get_window_extent().x1 <= box.x1 for text in ax.texts)


def test_constants_are_pale(learned, ax):
    display = WeightsDisplay.from_estimator(learned, ax=ax)
    *described, constant = display.bars_["instances"]
    assert constant.get_alpha() == 0.45
    assert all(bar.get_alpha() is None for bar in described)


def test_sides_are_called_what_they_are(learned, ax):
    WeightsDisplay.from_estimator(learned, sides=("drug", "protein"), ax=ax)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["drugs", "proteins"]


def test_a_new_figure_and_no_tasks(real):
    X, Y, _ = real
    model = LearnedKernelRidge(setting="B", n_steps=2).fit({"a": X, "b": X[:, :2]}, Y)
    display = WeightsDisplay.from_estimator(model)
    assert list(display.bars_) == ["instances"]
    assert display.plot().figure_ is not None


def test_a_model_of_long_tables(real, ax):
    X, Y, T = real
    pairs = np.argwhere(np.ones(Y.shape))
    model = PairRegressor(LearnedKernelRidge(setting="B", n_steps=2), instances=X, tasks=T).fit(pairs, Y.ravel())
    display = WeightsDisplay.from_estimator(model, ax=ax)
    assert display.sides["tasks"].weights == model.model_.weights_["tasks"]


def test_models_that_have_learned_nothing(real, ax):
    X, Y, T = real
    with pytest.raises(NotFittedError):
        WeightsDisplay.from_estimator(LearnedKernelRidge(), ax=ax)
    with pytest.raises(TypeError, match="model must have learned its kernels.*found TwoStepRidge"):
        WeightsDisplay.from_estimator(TwoStepRidge().fit(X, Y, tasks=T), ax=ax)
    with pytest.raises(TypeError, match="ax must be the axes"):
        WeightsDisplay.from_estimator(LearnedKernelRidge(setting="B", n_steps=1).fit(X, Y), ax=3)

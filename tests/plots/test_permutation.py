"""Permutation tests as pictures: the numbers of the test, and no others."""

from __future__ import annotations

import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import TwoStepRidge, permutation_test
from dyadlearn.plots import PermutationDisplay


@pytest.fixture(scope="module")
def model():
    X, Y, T = problems.data(9, 6)
    return TwoStepRidge().fit(X, Y, tasks=T)


def test_a_histogram_and_a_line(model, ax):
    test = permutation_test(model, "B", n_permutations=60, random_state=0)
    display = PermutationDisplay.from_result(test, ax=ax)
    assert sum(bar.get_height() for bar in display.bars_) == 60
    edges = [bar.get_x() for bar in display.bars_]
    assert_allclose(min(edges), test.null.min())
    assert_allclose(display.line_.get_xdata(), test.score)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "instances permuted",
        f"neg_mean_squared_error {test.score:.4g}, p = {test.p_value:.3g}",
    ]
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("neg_mean_squared_error", "Permutations")
    assert ax.get_title() == "B: new instance"
    assert (display.p_value, display.ax_) == (test.p_value, ax)


def test_of_a_model(model):
    display = PermutationDisplay.from_estimator(
        model, "D", permute="tasks", n_permutations=5, scoring="r2", random_state=1
    )
    expected = permutation_test(model, "D", permute="tasks", n_permutations=5, scoring="r2", random_state=1)
    assert_allclose(display.null, expected.null)
    assert display.figure_ is display.ax_.figure
    with pytest.raises(
        TypeError, match="test must be a PermutationTest; for a model use from_estimator, found TwoStep"
    ):
        PermutationDisplay.from_result(model)

"""Landscapes as numbers: the best point, what can be drawn of them, and steps of what is lost."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.views.landscape import landscape_of_scores, loss_levels
from sweeps import lines, over


def test_the_best_point_of_a_map():
    scores = np.array([[0.1, np.nan, 0.4], [0.3, 0.9, 0.2]])
    found = landscape_of_scores(scores, [0.1, 1.0], [1.0, 2.0, 3.0])
    assert found.best == (found.best_score, found.alpha, found.task_alpha) == (0.9, 1.0, 2.0)


def test_what_is_drawn_ascends_and_has_a_logarithm():
    scores = np.array([[0.5, 0.7, 0.6], [0.9, 0.8, np.nan], [1.0, 0.0, 0.0]])
    found = landscape_of_scores(scores, [10, 1, 0], [0.1, 100, 1])
    assert found.zeros == ["alpha"]
    assert found.drawn.names == ("alpha", "task_alpha")
    assert_allclose(found.drawn.powers[0], [0, 1])
    assert_allclose(found.drawn.powers[1], [-1, 0, 2])
    assert_allclose(found.drawn.scores, [[0.9, np.nan, 0.8], [0.5, 0.6, 0.7]])
    assert_allclose(
        found.drawn.loss, [[0.1, np.nan, 0.2], [0.5, 0.4, 0.3]]
    )  # against the best of all


def test_a_cell_ends_half_way_to_the_next():
    drawn = landscape_of_scores(np.ones((2, 3)), [1, 10], [0.1, 1, 100]).drawn
    assert_allclose(drawn.edges[0], [-0.5, 0.5, 1.5])
    assert_allclose(drawn.edges[1], [-1.5, -0.5, 1, 3])


@over(
    lines("alphas names", ([[1.0], [1, 2, 3]], ("task_alpha",)), ([[1, 2, 3], [1.0]], ("alpha",)))
)
def test_one_value_of_one_regularisation_leaves_a_line_over_the_other(alphas, names):
    scores = np.arange(3.0)
    found = landscape_of_scores(scores.reshape([len(each) for each in alphas]), *alphas).drawn
    assert found.names == names
    assert_array_equal(found.scores, scores)


@over(lines("alphas", ([1.0], [1.0]), ([0.0], [1.0, 2.0]), ([0.0, 1.0], [1.0])))
def test_less_than_a_line_is_not_drawn(alphas):
    assert landscape_of_scores(np.ones([len(each) for each in alphas]), *alphas).drawn is None


def test_levels_are_few_round_and_ascending():
    losses = default_rng(0).lognormal(-5, 3, size=500)
    losses[0] = np.nan
    first, *inside, last = loss_levels(losses)
    assert first == 0
    assert 4 <= len(inside) <= 9
    assert inside == sorted(inside)
    assert all(f"{level:e}"[0] in "125" for level in [*inside, last])
    assert inside[-1] < np.nanmax(losses) <= last


def test_levels_of_a_flat_map():
    assert loss_levels(np.zeros((3, 3))) == [0.0, 1.0]
    assert loss_levels(np.array([0.0, 0.3, 0.3])) == [0.0, 0.2, 0.5]  # the best one is told apart
    assert loss_levels(np.array([0.0, 0.5])) == [0.0, 0.2, 0.5]


@over(lines("scale", 1e-9, 1.0, 1e12))
def test_one_wild_loss_does_not_hide_the_others(scale):
    loss = scale * 10 ** default_rng(0).uniform(-6, 0, size=200)
    loss[0] = 1e6 * scale
    levels = loss_levels(loss)
    assert loss.max() <= levels[-1] < 11 * loss.max()
    assert 4 <= len(levels) - 2 <= 9
    assert levels[1] <= np.median(loss) / 10

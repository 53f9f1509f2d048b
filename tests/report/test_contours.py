"""Regions above a level, against counting on a fine raster."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.report.contours import loss_levels, refined, rings


def area(ring):
    """The shoelace formula."""
    x, y = ring.T
    return 0.5 * float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def hills(x, y):
    return np.sin(2 * x)[None, :] * np.cos(3 * y)[:, None] + 0.3 * x[None, :]


@pytest.mark.parametrize("level", [-0.9, -0.3, 0.0, 0.4, 0.8])
def test_the_enclosed_area_is_the_share_above_the_level(level):
    x, y = np.linspace(0, 3, 121), np.linspace(-1, 1.5, 91)
    found = rings(hills(x, y), x, y, level)
    inside = np.mean(hills(np.linspace(0, 3, 1501), np.linspace(-1, 1.5, 1501)) >= level)
    # All rings turn the same way round what is above, so holes count against it.
    assert_allclose(abs(sum(area(ring) for ring in found)), 3 * 2.5 * inside, rtol=3e-3)


def test_everything_and_nothing():
    x, y = np.arange(4.0), np.array([0.0, 2.0, 5.0])
    flat = np.ones((3, 4))
    (whole,) = rings(flat, x, y, 0.5)
    assert_allclose(abs(area(whole)), 15.0)
    assert rings(flat, x, y, 1.5) == []


def test_a_point_without_a_score_is_below_every_level():
    x = np.arange(3.0)
    values = np.ones((3, 3))
    values[1, 1] = np.nan
    found = rings(values, x, x, 0.5)
    assert len(found) == 2
    assert_allclose(abs(sum(area(ring) for ring in found)), 2.0)  # the hole reaches to its neighbours
    values[0, 0] = np.nan
    assert all(np.isfinite(ring).all() for ring in rings(values, x, x, 0.5))


@pytest.mark.parametrize(("level", "n_rings"), [(0.4, 1), (0.6, 2)])
def test_a_saddle_is_joined_where_its_middle_is_above(level, n_rings):
    values = np.array([[1.0, 0.0], [0.0, 1.0]])
    assert len(rings(values, np.arange(2.0), np.arange(2.0), level)) == n_rings


def test_a_finer_map_keeps_its_points_and_makes_no_hills():
    rng = np.random.default_rng(0)
    values, x, y = rng.random((5, 6)), np.sort(rng.random(6)), np.sort(rng.random(5))
    finer, across, up = refined(values, x, y, 4)
    assert finer.shape == (17, 21)
    assert_allclose(finer[::4, ::4], values)
    assert_allclose(across[::4], x)
    assert_allclose(up[::4], y)
    assert finer.max() <= values.max() + 1e-12
    assert finer.min() >= values.min() - 1e-12


def test_a_map_with_gaps_is_not_made_finer():
    values = np.array([[1.0, np.nan], [2.0, 3.0]])
    finer, across, _ = refined(values, np.arange(2.0), np.arange(2.0), 4)
    assert_array_equal(finer, values)
    assert across.size == 2


def test_levels_are_few_round_and_ascending():
    losses = np.random.default_rng(0).lognormal(-5, 3, size=500)
    losses[0] = np.nan
    found = loss_levels(losses)
    assert 4 <= len(found) <= 9
    assert found == sorted(found)
    assert all(f"{level:e}"[0] in "125" for level in found)
    assert found[-1] < np.nanmax(losses)


def test_levels_of_a_flat_map():
    assert loss_levels(np.zeros((3, 3))) == []
    assert loss_levels(np.array([0.0, 0.3, 0.3])) == [0.3]

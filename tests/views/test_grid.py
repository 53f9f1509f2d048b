"""The grid of labels as numbers: what is counted, and means of blocks."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.views.grid import grid_of_labels
from sweeps import lines, over


def grid_of(values, **more):
    return grid_of_labels(np.asarray(values, dtype=float), **more)


@over(
    lines(
        "values rows columns",
        ([[1, 0, 1], [np.nan, 0, 1]], [2, 1], [1, 0, 2]),
        ([[1, 0, 3], [np.nan, 0, 1]], [3, 2], [1, 2, 2]),
    )
)
def test_degrees_count_positive_labels_of_two_values_and_observed_ones_of_many(
    values, rows, columns
):
    for found, expected in zip(grid_of(values).degrees(), (rows, columns), strict=True):
        assert_array_equal(found, expected)


def test_the_larger_of_two_values_is_positive():
    labels = grid_of([[-1, 4, -1, np.nan]])
    found = [grid_of(each).is_binary for each in ([[1.0, 1.0]], [[0.0, 1.0, 2.0]])]
    assert (labels.is_binary, *found) == (True, False, False)
    assert labels.n_missing
    assert labels.n_observed == 3
    assert_allclose(labels.share_positive, 1 / 3)


def test_share_of_degrees_is_counted_from_above():
    Y = (np.random.default_rng(0).random((50, 9)) < 0.4).astype(float)
    curves = grid_of(Y).degree_curves()
    for (x, y), counts in zip(curves.values(), (Y.sum(axis=1), Y.sum(axis=0)), strict=True):
        assert_array_equal(x, [0, *np.unique(counts), counts.max()])
        assert_allclose(y[1:-1], [np.mean(counts >= level) for level in np.unique(counts)])
        assert (y[0], y[-1]) == (1, 0)
    assert (
        next(iter(curves))
        == f"50 instances: median {np.median(Y.sum(axis=1)):g}, most {int(Y.sum(axis=1).max())}"
    )


def test_the_nodes_of_a_network_have_one_distribution():
    Y = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    assert list(grid_of(Y, network=True).degree_curves()) == ["3 nodes: median 1, most 2"]


@over(lines("most", 100, 4, 3, 1))
def test_means_of_blocks(most):
    values = np.random.default_rng(0).normal(size=(9, 8))
    values[2:5, 3:] = np.nan
    found = grid_of(values).pixels(most)
    height, width = found.block
    assert (height, width) == (-(-9 // most), -(-8 // most))
    for i in range(found.values.shape[0]):
        for j in range(found.values.shape[1]):
            cells = values[i * height : (i + 1) * height, j * width : (j + 1) * width]
            cells = cells[~np.isnan(cells)]
            assert_allclose(found.values[i, j], cells.mean() if cells.size else np.nan)
    assert_allclose(found.ends, np.nanquantile(values, [0.01, 0.99]))


def test_pixels_of_two_values_are_shares_of_the_larger():
    found = grid_of([[-1.0, 4.0], [4.0, 4.0], [np.nan, -1.0], [-1.0, -1.0]]).pixels(2)
    assert_allclose(found.values, [[0.5, 1.0], [0.0, 0.0]])
    assert found.ends == (0.0, 1.0)


def test_the_highest_degrees_first():
    Y = np.array([[0, 0, 1], [1, 1, 1], [0, np.nan, 0], [0, 1, 1.0]])
    found = grid_of(Y).by_degree
    assert_array_equal(found.values, Y[[1, 3, 0, 2]][:, [2, 1, 0]])
    assert [values.tolist() for values in found.degrees()] == [[3, 2, 1, 0], [3, 2, 1]]
    # Of equal ones the larger labels first.
    found = grid_of([[1.0, np.nan, np.nan], [2.0, 3.0, np.nan], [5.0, np.nan, np.nan]]).by_degree
    assert [values.tolist() for values in found.degrees()] == [[2, 1, 1], [3, 1, 0]]
    assert_array_equal(found.values[:, 0], [2, 5, 1])


def test_labels_of_one_value_or_none():
    assert_array_equal(grid_of(np.ones((3, 2))).pixels(9).values, np.ones((3, 2)))
    assert np.isnan(grid_of(np.full((3, 2), np.nan)).pixels(9).values).all()

"""The grid of labels as numbers, means of its blocks, and curves of held-out predictions."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from dyadlearn.metrics import scorer
from dyadlearn.settings import Setting
from dyadlearn.views.grid import grid_of_labels, points_of, some_of
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
    Y = (default_rng(0).random((50, 9)) < 0.4).astype(float)
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
    values = default_rng(0).normal(size=(9, 8))
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


# --- curves: their area is the score, their mean that of single rows -----------------------------


def cells(shape, seed=0, missing=0.2):
    rng = default_rng(seed)
    Y = (rng.random(shape) < 0.4).astype(float)
    F = Y + rng.normal(size=shape)
    Y[rng.random(shape) < missing] = np.nan
    return Y, F


def area_of_steps(x, y):
    """Integrate a curve in which each value holds up to its place."""
    return float(np.sum(np.diff(x) * y[1:]))


@over(lines("setting", *list(Setting)))
def test_the_area_is_the_score_of_the_setting(setting):
    Y, F = cells((12, 5))
    for kind, name in (("roc", "roc_auc"), ("precision_recall", "average_precision")):
        assert_allclose(points_of(kind, Y, F, setting).score, scorer(name)(Y, F, setting=setting))


@over(lines("setting", Setting.A, Setting.D))
def test_the_drawn_curve_of_all_cells_has_that_area(setting):
    Y, F = cells((9, 11))
    observed = ~np.isnan(Y)
    found = points_of("roc", Y, F, setting)
    assert_allclose(np.trapezoid(found.y, found.x), roc_auc_score(Y[observed], F[observed]))
    found = points_of("precision_recall", Y, F, setting)
    assert_allclose(
        area_of_steps(found.x, found.y), average_precision_score(Y[observed], F[observed])
    )


def test_a_thinned_curve_keeps_its_area_and_its_ends():
    Y, F = cells((80, 70))
    for kind in ("roc", "precision_recall"):
        found = points_of(kind, Y, F, Setting.A)
        x, y = found.thinned()
        assert x.size <= 202 < found.x.size
        assert (np.diff(x) >= 0).all()
        drawn = np.trapezoid(y, x) if kind == "roc" else area_of_steps(x, y)
        assert_allclose(drawn, found.score, atol=5e-3)
        assert_array_equal(x[[0, -1]], [0, 1])


@over(lines("setting average", (Setting.B, "instance"), (Setting.C, "task")))
def test_curves_of_rows_are_averaged(setting, average):
    Y, F = cells((7, 9), missing=0.0)
    F = F.round(1)  # ties
    found = points_of("roc", Y, F, setting)
    assert found.average == average
    if setting is Setting.B:
        rows = zip(Y, F, strict=True)
    else:
        rows = zip(Y.T, F.T, strict=True)
    at = np.linspace(0, 1, 41)[1:-1]
    mean = np.mean([np.interp(at, *roc_curve(truth, given)[:2]) for truth, given in rows], axis=0)
    assert_allclose(np.interp(at, found.x, found.y), mean, atol=1e-12)
    found = points_of("precision_recall", Y, F, setting)
    rows = list(zip(Y, F, strict=True) if setting is Setting.B else zip(Y.T, F.T, strict=True))
    curves = [precision_recall_curve(truth, given)[:2] for truth, given in rows]
    # Of all thresholds that reach a recall the first one counts, which scikit-learn lists last.
    expected = [
        np.mean([precision[:-1][recall[:-1] >= max(at, 1e-9)][-1] for precision, recall in curves])
        for at in found.x
    ]
    assert_allclose(found.y, expected)


def test_rows_of_one_label_do_not_count():
    Y, F = cells((6, 9), missing=0.0)
    Y[2] = 0
    kept = np.delete(np.arange(6), 2)
    assert_allclose(
        points_of("roc", Y, F, Setting.B).y, points_of("roc", Y[kept], F[kept], Setting.B).y
    )


def test_points_are_thinned_out_always_alike():
    assert_array_equal(some_of(10, 10), np.arange(10))
    found = some_of(1000, 50)
    assert found.size == 50
    assert (np.diff(found) > 0).all()
    assert_array_equal(found, some_of(1000, 50))

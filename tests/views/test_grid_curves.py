"""Curves of held-out predictions: their area is the score, their mean that of single rows."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import (
    average_precision_score,
    precision_recall_curve,
    roc_auc_score,
    roc_curve,
)

from dyadlearn.metrics import scorer
from dyadlearn.settings import Setting
from dyadlearn.views.grid import points_of, some_of
from sweeps import lines, over


def cells(shape, seed=0, missing=0.2):
    rng = np.random.default_rng(seed)
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


@pytest.mark.parametrize("setting", [Setting.A, Setting.D])
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


@pytest.mark.parametrize(("setting", "average"), [(Setting.B, "instance"), (Setting.C, "task")])
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

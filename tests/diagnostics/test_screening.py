"""Labels that held-out predictions contradict, against a slow and obvious twin."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge, PairRegressor, TwoStepRidge, screen
from dyadlearn._tables import Table
from dyadlearn.diagnostics.screening import screened
from dyadlearn.sides import SideNames
from problems import to_long
from sweeps import covering, over


def slow_contradiction(Y, F, i, j):
    """Count the cells of the other value that look more like this value than the cell does."""
    values = np.unique(Y[~np.isnan(Y)])
    if len(values) != 2:
        return abs(Y[i, j] - F[i, j])
    sign = 1 if Y[i, j] == values[1] else -1
    others = [
        F[a, b] for a, b in np.ndindex(Y.shape) if not np.isnan(Y[a, b]) and Y[a, b] != Y[i, j]
    ]
    return np.mean([float(sign * (f - F[i, j]) > 0) + 0.5 * (f == F[i, j]) for f in others])


def make(m, q, labels, seed=0):
    X, Y, T = problems.data(m, q, 3, 2, noise=0.5, seed=seed)
    return (
        X,
        T,
        {"real": Y, "binary": (Y > 0).astype(float), "signs": np.where(Y > 0.5, 2.0, -1.0)}[labels],
    )


@over(
    covering(
        labels=["real", "binary", "signs"],
        shape=[(9, 6), (4, 11)],
        dtype=[np.float64, np.float32],
        setting=["A", "D"],
        strength=1,
    )
)
def test_all_cells_in_their_order(labels, shape, dtype, setting):
    X, T, Y = (part.astype(dtype) for part in make(*shape, labels))
    model = TwoStepRidge(0.3, 2.0).fit(X, Y, T)
    found = screen(model, setting, n=None)
    F = np.asarray(model.holdout(setting))
    assert len(found) == Y.size
    assert len(set(zip(found.instances, found.tasks, strict=True))) == Y.size
    for place in range(Y.size):
        i = found.instances[place]
        j = found.tasks[place]
        assert found.labels[place] == Y[i, j]
        assert_allclose(found.predictions[place], F[i, j], rtol=1e-6)
        assert_allclose(
            found.contradictions[place], slow_contradiction(Y, F, i, j), rtol=1e-6, atol=1e-7
        )
    assert (np.diff(found.contradictions) <= 0).all()
    errors = np.abs(found.labels - found.predictions)
    tied = np.diff(found.contradictions) == 0
    assert (np.diff(errors)[tied] <= 0).all()
    assert (found.setting, found.method) == (setting, "exact leave-one-out")
    assert screen(model, setting, n=5).instances == found.instances[:5]


def test_ids_and_columns():
    X, T, Y = make(6, 5, "binary")
    rows = list("abcdef")
    columns = list("PQRST")
    frame = pd.DataFrame(Y, index=rows, columns=columns)
    plain, named = (screen(TwoStepRidge().fit(X, grid, T), n=7) for grid in (Y, frame))
    assert named.instances == tuple(rows[i] for i in plain.instances)
    assert named.tasks == tuple(columns[j] for j in plain.tasks)
    table = named.frame()
    assert list(table.columns) == ["instance", "task", "label", "prediction", "contradiction"]
    assert_array_equal(table["contradiction"], plain.contradictions)
    assert (
        repr(named)
        == f"Screening(7 cells in setting A, worst ({named.instances[0]!r}, {named.tasks[0]!r}))"
    )


def test_one_label_only():
    X, T, Y = make(8, 6, "binary")
    model = TwoStepRidge().fit(X, Y, T)
    found = screen(model, label=0.0, n=None)
    everything = screen(model, n=None)
    kept = [place for place in range(len(everything)) if everything.labels[place] == 0]
    assert found.instances == tuple(everything.instances[place] for place in kept)
    assert_array_equal(found.contradictions, everything.contradictions[kept])
    with pytest.raises(ValueError, match="No cell has the label 3: labels are such as 0, 1"):
        screen(model, label=3)


def test_missing_labels_are_not_screened():
    X, T, Y = make(10, 8, "real")
    Y[np.add.outer(np.arange(10), np.arange(8)) % 4 == 0] = np.nan
    found = screen(TwoStepRidge().fit(X, Y, T), "B", n=None, cv=3)
    assert len(found) == np.count_nonzero(~np.isnan(Y))
    assert not np.isnan(found.labels).any()
    assert "3 folds, refitted" in found.method


def test_a_pair_of_a_network_is_listed_once():
    X, Y, _ = problems.data(7, 7, 3)
    model = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, Y + Y.T)
    found = screen(model, n=None)
    assert len(found) == 28
    assert all(i <= j for i, j in zip(found.instances, found.tasks, strict=True))
    assert list(found.columns())[:2] == ["node", "other node"]


def listed(Y, F):
    found = screened(Table(np.array(Y)), np.array(F), "", "A", SideNames(), once=False)
    return list(zip(found.instances, found.tasks, strict=True)), found.contradictions


def test_cells_without_a_label_or_a_prediction_are_never_listed():
    cells, found = listed(
        [[1.0, np.nan], [4.0, 2.0], [3.0, 3.0]], [[3.0, 1.0], [4.5, np.nan], [3.0, 2.9]]
    )
    assert cells == [(0, 0), (1, 0), (2, 1), (2, 0)]
    assert_allclose(found, [2.0, 0.5, 0.1, 0.0])


def test_equal_ones_are_told_apart_by_their_distance():
    cells, found = listed([[1.0, 0.0, 0.0]], [[0.0, 0.7, 2.0]])
    assert cells == [(0, 2), (0, 0), (0, 1)]
    assert_allclose(found, 1.0)
    cells, found = listed([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.9, 0.8, 0.0], [0.1, 0.0, 0.2]])
    assert cells[:3] == [(1, 0), (0, 1), (1, 2)]
    assert_allclose(found, [0.5, 0.5, 0.5, 0, 0, 0])


def test_models_of_long_tables_are_looked_into():
    X, T, Y = make(6, 5, "real")
    plain = screen(TwoStepRidge().fit(X, Y, T), n=4)
    # The wrapped model knows positions only, in the order in which ids came; its user knows ids.
    pairs, values = to_long(Y[::-1], instances=list("fedcba"), tasks=list("PQRST"))
    people = pd.DataFrame(X, index=list("abcdef"))
    things = pd.DataFrame(T, index=list("PQRST"))
    named = screen(
        PairRegressor(TwoStepRidge(), instances=people, tasks=things).fit(pairs, values), n=4
    )
    assert named.instances == tuple("abcdef"[i] for i in plain.instances)
    assert named.tasks == tuple("PQRST"[j] for j in plain.tasks)


def test_what_cannot_be_screened():
    X, T, Y = make(6, 5, "real")
    with pytest.raises(
        ValueError, match="OnlineTwoStepRidge keeps statistics only, not the labels: fit TwoStep"
    ):
        screen(OnlineTwoStepRidge().fit(X, Y, T))
    with pytest.raises(
        ValueError, match="Setting C leaves out tasks, but this model knows nothing of tasks"
    ):
        screen(IndependentTaskRidge().fit(X, Y), "C")
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        screen(TwoStepRidge().fit(X, Y, T), n=0)

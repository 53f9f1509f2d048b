"""Means held out in closed form against means that are really taken again, without what the setting leaves out."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.holdout.baselines import BASELINES, baselines
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from problems import grid_baselines
from sweeps import covering, every, lines, over
from telling import taken, told


def training(setting, cell, units, shape, symmetry):
    """Return the mask of what is left when a cell is predicted, as the settings are defined."""
    m, q = shape
    kept = np.ones(shape, dtype=bool)
    rows = np.arange(m) if units.sides[0] is None else units.sides[0]
    columns = np.arange(q) if units.sides[1] is None else units.sides[1]
    if symmetry and units.sides[0] is not None:
        columns = rows
    i, j = cell
    if setting == "A":
        if units.cells is None:
            kept[i, j] = False
            if symmetry:
                kept[j, i] = False
        else:
            kept &= units.cells != units.cells[i, j]
        return kept
    for leaves, side in (
        (setting in "BD", rows == rows[i]),
        (setting in "CD", columns == columns[j]),
    ):
        if leaves and symmetry:
            kept[side], kept[:, side] = False, False
    if not symmetry and setting in "BD":
        kept[rows == rows[i]] = False
    if not symmetry and setting in "CD":
        kept[:, columns == columns[j]] = False
    return kept


def reachable(mask, start):
    """Return the columns that some chain of cells leads to from a row."""
    rows = {start}
    columns = set()
    before = None
    while before != (len(rows), len(columns)):
        before = len(rows), len(columns)
        columns |= {j for i in rows for j in np.flatnonzero(mask[i])}
        rows |= {i for j in columns for i in np.flatnonzero(mask[:, j])}
    return columns


def taken_again(Y, setting, units, weights=None, symmetry=0):
    """Return every baseline from the labels that are left, cell by cell."""
    W = np.where(np.isnan(Y), 0.0, 1.0 if weights is None else weights)
    found = {name: np.full(Y.shape, np.nan) for name in BASELINES}
    for i, j in np.ndindex(Y.shape):
        kept = training(setting, (i, j), units, Y.shape, symmetry) & ~np.isnan(Y)
        grand = np.average(Y[kept], weights=W[kept])
        row = kept[i]
        column = kept[:, j]
        instance = np.average(Y[i, row], weights=W[i, row]) if row.any() else grand
        task = np.average(Y[column, j], weights=W[column, j]) if column.any() else grand
        additive = instance + task - grand
        if j in reachable(kept, i):
            places = np.argwhere(kept)
            design = np.zeros((len(places), sum(Y.shape)))
            design[np.arange(len(places)), places[:, 0]] = 1
            design[np.arange(len(places)), Y.shape[0] + places[:, 1]] = 1
            root = np.sqrt(W[kept])
            effects = np.linalg.lstsq(design * root[:, None], Y[kept] * root, rcond=1e-12)[0]
            additive = effects[i] + effects[Y.shape[0] + j]
        for name, value in zip(BASELINES, (grand, instance, task, additive), strict=True):
            found[name][i, j] = value
    return found


def make_labels(shape, holes, symmetry=0, seed=0):
    rng = default_rng(seed)
    Y = (
        rng.normal(size=shape)
        + rng.normal(size=shape[0])[:, None]
        + 2 * rng.normal(size=shape[1])
        + 5
    )
    missing = rng.random(shape) < holes
    missing[0, 0] = missing[-1, -1] = False
    weights = rng.uniform(0.2, 3.0, size=shape)
    if symmetry:
        Y = Y + symmetry * Y.T
        missing = np.triu(missing) | np.triu(missing).T
        weights = weights + weights.T
    return np.where(missing, np.nan, Y), weights


def check(Y, setting, units, **options):
    """Compare the baselines of a grid, and of the list of its labels."""
    found = grid_baselines(Y, setting, units, **options)
    expected = taken_again(Y, setting, units, **options)
    assert list(found) == list(BASELINES)
    for name in BASELINES:
        assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-9, err_msg=name)
    if not options.get("symmetry"):
        check_list(Y, setting, units, options.get("weights"))


def check_list(Y, setting, units, weights=None, rtol=1e-9):
    """Check the baselines of a list of labels; `units` are those of the grid."""
    listed = Labels.of_grid(Y, weights).listed()
    cells = None if units.cells is None else units.cells[listed.places]
    found = baselines(listed, setting, Units(units.sides, cells))
    expected = taken_again(Y, setting, units, weights)
    for name in BASELINES:
        assert_allclose(
            found[name], expected[name][listed.places], rtol=rtol, atol=rtol, err_msg=name
        )


SHAPES = [(7, 5), (4, 6), (1, 6), (6, 1)]


@over(
    covering(
        shape=SHAPES,
        setting=list("ABCD"),
        holes=[0.0, 0.3, 0.6],
        weighted=[False, True],
        also=every(shape=[(1, 6), (6, 1)], setting=["A"], holes=[0.0], weighted=[False]),
        where=lambda shape, setting, holes, weighted: (
            {"A": 2, "B": shape[0], "C": shape[1], "D": min(shape)}[setting] > 1
            and (min(shape) > 1 or holes == 0)
        ),
    )
)
def test_one_at_a_time(shape, setting, holes, weighted):
    Y, weights = make_labels(shape, holes)
    check(Y, setting, Units(), weights=weights if weighted else None)


@over(covering(setting=list("ABCD"), holes=[0.0, 0.4], weighted=[False, True]))
def test_groups_and_folds(setting, holes, weighted):
    Y, weights = make_labels((8, 6), holes, seed=3)
    rows = np.array([3, 3, 7, 7, 7, 0, 5, 5])
    columns = np.array([1, 1, 2, 4, 2, 4])
    cells = default_rng(1).integers(3, size=Y.shape)
    units = {
        "A": Units(cells=cells),
        "B": Units((rows, None)),
        "C": Units((None, columns)),
        "D": Units((rows, columns)),
    }[setting]
    check(Y, setting, units, weights=weights if weighted else None)


@over(every(weighted=[False, True]))
def test_many_columns_are_fitted_without_an_inverse(weighted, monkeypatch):
    """Where an inverse takes longer than a fit for each label, all labels are fitted again."""
    Y, weights = make_labels((9, 7), 0.6)
    monkeypatch.setattr(
        "dyadlearn.holdout.baselines.Effects.inverse", lambda *_: pytest.fail("an inverse")
    )
    monkeypatch.setattr("dyadlearn.holdout.baselines._LEAST_FIT", 0.0)
    monkeypatch.setattr("dyadlearn.holdout.baselines._FIT_OF_LABEL", 0.0)
    check_list(Y, "A", Units(), weights if weighted else None)
    # Without one of these labels, the others leave nothing but rounding to fit.
    for seed in (120,):
        rng = default_rng(seed)
        Y = rng.integers(0, 2, rng.integers(2, 10, 2)).astype(float)
        Y[rng.random(Y.shape) < rng.choice([0.3, 0.6, 0.8])] = np.nan
        check_list(Y, "A", Units())


def test_rows_without_labels_take_no_time(monkeypatch):
    """The effects of a list are those of its rows and columns with labels, by one inverse of their order."""
    monkeypatch.setattr("dyadlearn.holdout.baselines._fit_without_folds", None)
    rng = default_rng(0)
    rows, columns = np.divmod(np.sort(rng.choice(180, 90, replace=False)), 15)
    values = rng.normal(size=90)
    few = Labels((rows, columns), values, (12, 15))
    many = Labels((rows * 2000 + 5, columns * 1000), values, (30_000, 20_000))
    found, expected = (baselines(labels, "A", Units()) for labels in (many, few))
    for name in BASELINES:
        assert_allclose(found[name], expected[name], rtol=1e-9, err_msg=name)


def test_a_sparse_list_forms_no_grid():
    """4,000 × 3,000 cells would take 96 MB as a grid."""
    rng = default_rng(0)
    cells = np.sort(rng.choice(4000 * 3000, 500, replace=False))
    listed = Labels(
        (cells // 3000, cells % 3000),
        rng.normal(size=500),
        (4000, 3000),
        rng.uniform(0.2, 3.0, 500),
    )
    for setting in "BCD":
        assert taken(partial(baselines, listed, setting)) < 2e6


@over(every(symmetry=[1, -1], setting=list("ABCD"), n=[2, 5]))
def test_networks(symmetry, setting, n):
    Y, _ = make_labels((n, n), 0.0, symmetry)
    if (setting, n) == ("D", 2):
        with pytest.raises(ValueError, match="No label remains to learn from"):
            grid_baselines(Y, setting, symmetry=symmetry)
        return
    check(Y, setting, Units(), symmetry=symmetry)


def test_light_edges_of_networks_remain_without_a_heavy_node():
    Y, _ = make_labels((6, 6), 0.0, 1)
    weights = np.ones((6, 6))
    weights[0, :] = weights[:, 0] = 1e13
    found = grid_baselines(Y, "D", weights=weights, symmetry=1)["grand_mean"]
    assert_allclose(found[0, 0], Y[1:, 1:].mean(), atol=0.05)  # large weights cancel digits
    assert_allclose(found[0, 1], Y[2:, 2:].mean(), atol=0.05)


@over(covering(symmetry=[1, -1], weighted=[False, True], seed=range(4), strength=1))
def test_networks_with_holes_leave_out_edges_both_ways(symmetry, weighted, seed):
    Y, weights = make_labels((6, 6), 0.55, symmetry, seed)
    options = {"symmetry": symmetry, "weights": weights if weighted else None}
    check(Y, "A", Units(), **options)
    cells = default_rng(seed).integers(3, size=Y.shape)
    cells = np.triu(cells) + np.triu(cells, 1).T
    check(Y, "A", Units(cells=cells), **options)


def test_cells_that_alone_connect_their_ends():
    """Where nothing but a cell tells the effects of its ends apart, their means stand in."""
    Y = np.full((4, 4), np.nan)
    Y[[0, 1, 1, 2, 2, 3], [0, 0, 1, 1, 2, 2]] = [1.0, 5.0, 2.0, 8.0, 3.0, 4.0]
    check(Y, "A", Units())
    Y[:] = np.nan
    Y[:2, :2], Y[2:, 2:] = [[1.0, 2.0], [4.0, 7.0]], [[9.0, 3.0], [5.0, 6.0]]
    check(Y, "A", Units())


def test_a_long_circle_is_no_chain():
    """Cells of a circle through 60 rows and columns leave 1 − h = 1/120, which must not be taken for rounding."""
    n = 60
    Y = np.full((n, n), np.nan)
    rng = default_rng(0)
    places = np.arange(n)
    Y[places, places], Y[places, (places + 1) % n] = rng.normal(size=n), rng.normal(size=n)
    found = grid_baselines(Y, "A")["additive"]
    # What the other cells of the circle say of one: their labels in turn, with alternating signs.
    signed = np.nansum(np.where(np.eye(n) > 0, Y, -Y))
    assert_allclose(found[3, 3], Y[3, 3] - signed, rtol=1e-8)
    assert_allclose(found[3, 4], Y[3, 4] + signed, rtol=1e-8)


@over(every(setting=list("AD"), holes=[0.0, 0.2]))
def test_weights_of_any_size(setting, holes):
    """A label that outweighs all others a million times leaves, and the others count as if it had never been."""
    Y, weights = make_labels((6, 5), holes, seed=2)
    weights[2, 3] *= 1e6
    check(Y, setting, Units(), weights=weights)
    found, scaled = (
        grid_baselines(Y, setting, weights=each) for each in (weights, 1e-200 * weights)
    )
    for name in BASELINES:
        assert_allclose(scaled[name], found[name], rtol=1e-12)


@over(every(decades=[7.5, 40.0, 300.0], seed=[0]))
def test_weights_that_are_very_unlike(decades, seed):
    """As long as there are digits to tell effects apart, they are; beyond that means stand in."""
    Y, _ = make_labels((6, 5), 0.3, seed=seed)
    weights = 10.0 ** default_rng(seed).uniform(-decades, 0, size=Y.shape)
    cells = default_rng(seed).integers(3, size=Y.shape)
    for units in (Units(), Units(cells=cells)):
        found, expected = (
            make(Y, "A", units, weights=weights) for make in (grid_baselines, taken_again)
        )
        if decades > 8:
            expected["additive"] = (
                expected["instance_means"] + expected["task_means"] - expected["grand_mean"]
            )
        for name in BASELINES:
            assert_allclose(found[name], expected[name], atol=1e-6, err_msg=name)


@over(
    lines(
        "shape setting units",
        ((1, 1), "A", Units()),
        ((1, 3), "B", Units()),
        ((3, 1), "C", Units()),
        ((1, 3), "D", Units()),
        ((3, 2), "B", Units((np.zeros(3, dtype=int), None))),
        ((3, 2), "A", Units(cells=np.zeros((3, 2), dtype=int))),
    )
)
def test_nothing_is_left(shape, setting, units):
    with pytest.raises(ValueError, match="No label remains to learn from"):
        grid_baselines(np.ones(shape), setting, units)


@over(
    covering(
        setting=list("ABCD"),
        kind=["complete", "holes", "weights", "cells"],
        where=lambda setting, kind: setting == "A" or kind != "cells",
        strength=1,
    )
)
def test_memory_is_what_is_asked_for(setting, kind):
    shape = (300, 200)
    Y, weights = make_labels(shape, 0.0 if kind == "complete" else 0.3)
    if kind == "cells":
        units = Units(cells=default_rng(0).integers(3, size=shape))
    else:
        units = None
    given = {"weights": weights} if kind == "weights" else {}
    work = partial(grid_baselines, Y, setting, units, **given)
    need = told(work)
    assert 0.4 * need < taken(work) < 1.05 * need


def test_too_large_a_grid_is_refused(monkeypatch):
    monkeypatch.setattr("dyadlearn._memory.host_memory", lambda: 1000)
    with pytest.raises(
        NotEnoughMemoryError, match="Holding out setting B of a grid of 40 × 30 by simple means"
    ):
        grid_baselines(np.zeros((40, 30)), "B")

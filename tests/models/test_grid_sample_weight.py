"""Weights of cells and of instances, against weighted normal equations and against repeated observations."""

import importlib
import importlib.util

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal

import problems
from dyadlearn import KroneckerRidge, PairRegressor, TwoStepRidge
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import IdError
from dyadlearn.labels import to_grid
from sweeps import every, over

M = 8
Q = 6
RBF = {"kernel": "rbf", "task_kernel": "rbf"}
X, Y, T = problems.data(M, Q)
RNG = np.random.default_rng(1)
HOLES = problems.with_holes(Y, 0.3)
WEIGHTS = RNG.uniform(0.1, 3.0, size=(M, Q))
OF_ROWS = WEIGHTS[:, 0]
ROWS = [f"i{i}" for i in range(M)]
TASKS = [f"t{j}" for j in range(Q)]

complete_or_not = {"labels": {"complete": Y, "holes": HOLES}}
OF_TASKS = np.array([0.5, 2.0, 1.0, 3.0, 0.1, 1.5])


@over(every(**complete_or_not))
def test_the_weight_of_an_instance_or_a_task_is_that_of_its_cells(labels):
    rows = OF_ROWS
    forms = {
        "instances": (rows, rows[:, None], rows.tolist(), pl.Series(rows)),
        "tasks": (OF_TASKS, OF_TASKS.tolist(), OF_TASKS[None, :]),
    }
    if importlib.util.find_spec("torch"):
        forms["tasks"] += (importlib.import_module("torch").asarray(OF_TASKS),)
    grids = {"instances": np.tile(rows[:, None], Q), "tasks": np.tile(OF_TASKS, (M, 1))}
    for side, given in forms.items():
        expected = TwoStepRidge(0.5, 0.2, **RBF).fit(X, labels, T, sample_weight=grids[side])
        for weights in given:
            found = TwoStepRidge(0.5, 0.2, **RBF).fit(X, labels, T, sample_weight=weights)
            assert_array_equal(found.predict(X), expected.predict(X))
            assert_array_equal(found.fitted_.labels.weights, expected.fitted_.labels.weights)


def test_a_network_takes_no_weights():
    with pytest.raises(
        ValueError,
        match=r"^A network does not support weights of edges: leave sample_weight out\.$",
    ):
        TwoStepRidge(symmetry="symmetric").fit(X, np.eye(M), sample_weight=np.ones(M))


def test_ids_tell_tasks_from_instances():
    square = pd.DataFrame(Y[:Q], index=ROWS[:Q], columns=TASKS)
    tasks = pd.DataFrame(T, index=TASKS)
    rows = pd.DataFrame(X[:Q], index=ROWS[:Q])
    shuffled = np.array([3, 1, 5, 0, 2, 4])
    grids = {
        "instances": np.tile(OF_TASKS[:, None], (1, Q)),
        "tasks": np.tile(OF_TASKS, (Q, 1)),
    }
    cases = [
        (OF_TASKS, "instances"),  # without ids, as in scikit-learn
        (pd.Series(OF_TASKS[shuffled], index=np.array(ROWS)[shuffled]), "instances"),
        (pd.Series(OF_TASKS[shuffled], index=np.array(TASKS)[shuffled]), "tasks"),
        (pd.DataFrame(OF_TASKS[None, shuffled], columns=np.array(TASKS)[shuffled]), "tasks"),
    ]
    for weights, side in cases:
        expected = KroneckerRidge(**RBF).fit(rows, square, tasks, sample_weight=grids[side])
        found = KroneckerRidge(**RBF).fit(rows, square, tasks, sample_weight=weights)
        assert_array_equal(found.predict(rows), expected.predict(rows), err_msg=side)
    unknown = pd.Series(OF_TASKS, index=list("abcdef"))
    with pytest.raises(IdError, match="sample_weight"):
        KroneckerRidge(**RBF).fit(rows, square, tasks, sample_weight=unknown)


@over(every(side=[0, 1]))
def test_weights_of_a_long_table_by_id(side):
    pairs = [(ROWS[i], TASKS[j]) for i, j in np.argwhere(~np.isnan(HOLES))]
    values = HOLES[~np.isnan(HOLES)]
    ids = (ROWS, TASKS)[side]
    by_id = dict(zip(ids, np.linspace(0.5, 3.0, len(ids)), strict=True))
    by_id["nobody"] = 7.0
    tables = {"instances": Table(X, Ids(tuple(ROWS))), "tasks": Table(T, Ids(tuple(TASKS)))}
    model = PairRegressor(KroneckerRidge(**RBF), **tables)
    expected = model.fit(pairs, values, [by_id[pair[side]] for pair in pairs]).predict(pairs)
    assert_array_equal(model.fit(pairs, values, by_id).predict(pairs), expected)
    gone = [*pairs, (None, TASKS[0]), (ROWS[0], None)]
    found = model.fit(gone, [*values, 9.0, 9.0], by_id)
    assert_array_equal(found.predict(pairs), expected)
    assert found.n_dropped_ == 2
    of_rows = [by_id[pair[side]] for pair in pairs]
    grid = to_grid(pairs, values, weights=by_id)
    assert_array_equal(grid.weights, to_grid(pairs, values, weights=of_rows).weights)
    del by_id[ids[2]]
    with pytest.raises(IdError, match=f"must have a weight for each .* lacks .*'{ids[2]}'"):
        to_grid(pairs, values, weights=by_id)

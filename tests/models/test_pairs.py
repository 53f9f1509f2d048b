"""Predictions for some pairs are those of the whole grid at these cells."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import problems
from dyadlearn import KroneckerRidge, TwoStepRidge, vectrick
from dyadlearn.exceptions import IdError
from sweeps import covering, every, lines, over

M = 9
Q = 7
A = 12
B = 10
X, Y, T = problems.data(M, Q)
RNG = default_rng(1)
X_NEW = RNG.normal(size=(A, 4))
T_NEW = RNG.normal(size=(B, 3))
ROWS = [f"i{i}" for i in range(A)]
TASKS = [f"t{j}" for j in range(B)]
TRAINING_TASKS = [f"k{j}" for j in range(Q)]

KERNELS = ["linear", "rbf", "precomputed"]
every_kernel = {"kernel": KERNELS}
PAIR_MODELS = [KroneckerRidge, TwoStepRidge]
every_pair_model = {"Model": PAIR_MODELS}
# Few pairs are gathered one by one, many are picked out of the whole grid.
FEW = 3
MANY = 50


def pairs(n, n_tasks=B, seed=1):
    """Return random pairs with repeats, the first and the last of each side among them."""
    rng = default_rng(seed)
    chosen = np.stack([rng.integers(0, A, size=n), rng.integers(0, n_tasks, size=n)], axis=1)
    chosen[0], chosen[-1] = (0, n_tasks - 1), (A - 1, 0)
    return chosen


def fitted(Model, kernel):
    """Return a model with new instances and tasks for it."""
    model = Model(alpha=0.5, kernel=kernel, task_kernel=kernel)
    if kernel == "precomputed":
        return model.fit(X @ X.T, Y, T @ T.T), X_NEW @ X.T, T_NEW @ T.T
    return model.fit(X, Y, T), X_NEW, T_NEW


@pytest.fixture
def gathers(monkeypatch):
    """Count how often pairs are gathered one by one."""
    calls = []

    def spy(*args):
        calls.append(args)
        return cached_blocks(*args)

    cached_blocks = vectrick.cached_blocks
    monkeypatch.setattr(vectrick, "cached_blocks", spy)
    return calls


# --- positions ---------------------------------------------------------------------------------


@over(covering(**every_pair_model, **every_kernel, n=[1, FEW, MANY]))
def test_pairs_are_cells_of_the_grid(Model, kernel, n, gathers):
    gathers.clear()
    model, rows, tasks = fitted(Model, kernel)
    chosen = pairs(n)
    grid = model.predict(rows, tasks)
    values = model.predict_pairs(rows, tasks, chosen)
    assert values.shape == (n,)
    assert_allclose(values, grid[chosen[:, 0], chosen[:, 1]], rtol=1e-9)
    assert bool(gathers) == (n < MANY)


@over(
    every(
        given={
            "list": [(0, 1), (3, 2)],
            "uint8": np.array([[0, 1], [3, 2]], dtype=np.uint8),
            "object": np.array([[0, 1], [3, 2]], dtype=object),
            "pandas": pd.DataFrame({"instance": [0, 3], "task": [1, 2]}, index=["u", "v"]),
            "polars": pl.DataFrame({"instance": [0, 3], "task": [1, 2]}),
        }
    )
)
def test_pairs_may_come_in_any_table(given):
    model, rows, tasks = fitted(TwoStepRidge, "rbf")
    grid = model.predict(rows, tasks)
    assert_allclose(model.predict_pairs(rows, tasks, given), grid[[0, 3], [1, 2]], rtol=1e-9)


# --- ids ---------------------------------------------------------------------------------------


def frame(kind, values, rows, columns):
    if kind == "pandas":
        return pd.DataFrame(values, rows, columns)
    return pl.DataFrame({"id": rows, **{column: values[:, j] for j, column in enumerate(columns)}})


def named(kind):
    """Return a model fitted on frames, new instances and new tasks."""
    features = list("abcd")
    task_features = list("uvw")
    training = [f"m{i}" for i in range(M)]
    model = TwoStepRidge(alpha=0.5).fit(
        frame(kind, X, training, features),
        frame(kind, Y, training, TRAINING_TASKS),
        frame(kind, T, TRAINING_TASKS, task_features),
    )
    return model, frame(kind, X_NEW, ROWS, features), frame(kind, T_NEW, TASKS, task_features)


@pytest.fixture(params=["pandas", "polars"])
def kind(request):
    return request.param


GRID = TwoStepRidge(alpha=0.5).fit(X, Y, T).predict(X_NEW, T_NEW)


@over(every(n=[FEW, MANY]))
def test_ids_name_pairs(kind, n):
    model, rows, tasks = named(kind)
    chosen = pairs(n)
    ids = [(ROWS[i], TASKS[j]) for i, j in chosen]
    expected = GRID[chosen[:, 0], chosen[:, 1]]
    for given in (ids, np.array(ids), pd.DataFrame(ids), pl.DataFrame(ids, orient="row")):
        values = model.predict_pairs(rows, tasks, given)
        assert type(values) is np.ndarray
        assert_allclose(values, expected, rtol=1e-9)


def test_a_side_without_ids_goes_by_position(kind):
    _, rows, tasks = named(kind)
    by_rows = TwoStepRidge(alpha=0.5).fit(
        frame(kind, X, [f"m{i}" for i in range(M)], list("abcd")), Y, T
    )
    given = [("i3", 6), ("i0", 9)]
    for table in (given, pd.DataFrame(given), pl.DataFrame(given, orient="row")):
        assert_allclose(by_rows.predict_pairs(rows, T_NEW, table), GRID[[3, 0], [6, 9]], rtol=1e-9)
    by_tasks = TwoStepRidge(alpha=0.5).fit(X, Y, frame(kind, T, TRAINING_TASKS, list("uvw")))
    found = by_tasks.predict_pairs(X_NEW, tasks, [(3, "t6"), (0, "t9")])
    assert_allclose(found, GRID[[3, 0], [6, 9]], rtol=1e-9)


def test_whole_numbers_may_be_ids():
    rows = pd.DataFrame(X_NEW, list(range(100, 100 + A)))
    model = TwoStepRidge(alpha=0.5).fit(X, Y, T)
    assert_allclose(
        model.predict_pairs(rows, T_NEW, [(103, 6), (100, 9)]), GRID[[3, 0], [6, 9]], rtol=1e-9
    )
    with pytest.raises(IdError, match=r"^3 not among the ids of X \(such as 100, 101, 102, …\)\.$"):
        model.predict_pairs(rows, T_NEW, [(3, 6)])


# --- bad pairs ---------------------------------------------------------------------------------


@over(
    lines(
        "pair tasks message",
        ((A, 0), T_NEW, r"^pairs points outside X: positions 0 to 12 in 12 rows\.$"),
        ((0, -2), T_NEW, r"^pairs points outside tasks: positions -2 to 0 in 10 rows\.$"),
        ((0, Q), None, r"^pairs points outside the training tasks: positions 0 to 7 in 7 rows\.$"),
    )
)
def test_positions_must_lie_inside(pair, tasks, message):
    model = TwoStepRidge().fit(X, Y, T)
    with pytest.raises(ValueError, match=message):
        model.predict_pairs(X_NEW, tasks, [(0, 0), pair])


@over(every(pair=[("i0", 0), (0.0, 0)]))
def test_positions_must_be_whole_numbers(pair):
    model = TwoStepRidge().fit(X, Y, T)
    with pytest.raises(
        TypeError, match=r"^X has no ids, so pairs must give whole row positions into it\.$"
    ):
        model.predict_pairs(X_NEW, T_NEW, [pair])
    with pytest.raises(
        TypeError, match=r"^tasks has no ids, so pairs must give whole row positions into it\.$"
    ):
        model.predict_pairs(X_NEW, T_NEW, [pair[::-1]])


@over(
    lines(
        "given error found",
        ([(0, 1, 2)], ValueError, "found rows of another form"),
        (np.zeros((2, 1), dtype=int), ValueError, r"found shape \(2, 1\)"),
        (pd.Series([0, 1]), TypeError, "found Series"),
    )
)
def test_pairs_have_two_columns(given, error, found):
    model = TwoStepRidge().fit(X, Y, T)
    with pytest.raises(
        error, match=rf"^pairs must (have two columns \(instance, task\)|be an array.*), {found}\.$"
    ):
        model.predict_pairs(X_NEW, T_NEW, given)

"""Frames in, the same kind out; what has ids is aligned by them on both sides."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.metrics import r2_score

import problems
from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge, TwoStepRidge
from dyadlearn._tables import Ids, Table
from dyadlearn.exceptions import IdError
from sweeps import every, over

M = 7
Q = 5
X, Y, T = problems.data(M, Q, 3, 2)
RNG = default_rng(1)
X_NEW = RNG.normal(size=(4, 3))
T_NEW = RNG.normal(size=(3, 2))
# The products alone would be singular; the ridge keeps every dual parameter well determined.
K = X @ X.T + np.eye(M)
G = T @ T.T + np.eye(Q)
K_NEW = X_NEW @ X.T
G_NEW = T_NEW @ T.T
ROWS = [f"i{i}" for i in range(M)]
TASKS = [f"t{j}" for j in range(Q)]
NEW_ROWS = ["n0", "n1", "n2", "n3"]
NEW_TASKS = ["u0", "u1", "u2"]
FEATURES = ["f", "g", "h"]
TASK_FEATURES = ["v", "w"]


def frame(
    kind,
    values,
    rows,
    columns,
    name="id",
):
    """Return a frame with ids; polars has them in a leading column, or none."""
    if kind == "pandas":
        index = None if rows is None else pd.Index(rows, name=name)
        return pd.DataFrame(values, index=index, columns=list(columns))
    data = {} if rows is None else {name: list(rows)}
    return pl.DataFrame(data | {column: values[:, j] for j, column in enumerate(columns)})


def columns_of(table, name="id"):
    return [
        column
        for column in table.columns
        if not (isinstance(table, pl.DataFrame) and column == name)
    ]


def values_of(table):
    return table[columns_of(table, "id")].to_numpy()


def make(Model, kernel, **params):
    """Return a model with this kernel on every side that it has."""
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = kernel
    return Model(alpha=0.3, kernel=kernel, **params)


@pytest.fixture(params=["pandas", "polars"])
def kind(request):
    return request.param


# --- alignment in fit --------------------------------------------------------------------------


def test_whole_numbers_are_ids_not_positions():
    rows = [40, 0, 3, 2, 10, 1, 5]
    tasks = [2, 1, 0, 9, 3]
    new = [1, 0, 70, 4]
    expected = make(TwoStepRidge, "precomputed").fit(K, Y, G).predict(K_NEW)
    kernel = pd.DataFrame(K, rows, rows)
    model = make(TwoStepRidge, "precomputed").fit(
        kernel.iloc[::-1][rows[2:] + rows[:2]],
        pd.DataFrame(Y, rows, tasks).iloc[[3, 0, 6, 1, 4, 2, 5], ::-1],
        pd.DataFrame(G, tasks, tasks).iloc[::-1],
    )
    predicted = model.predict(pd.DataFrame(K_NEW, new, rows).iloc[::-1, ::-1])
    assert sorted(predicted.index) == sorted(new)
    assert_allclose(predicted.loc[new, tasks], expected, rtol=1e-9)


def test_ids_are_named_also_if_their_numbers_differ(kind):
    features = frame(kind, X, ROWS, FEATURES)
    tasks = frame(kind, T, TASKS, TASK_FEATURES)
    labels = frame(kind, Y[1:, 1:], ROWS[1:], TASKS[1:])
    for Model in (TwoStepRidge, OnlineTwoStepRidge):
        with pytest.raises(
            IdError, match=r"X and the rows of Y do not match: 1 only in X \('i0'\)"
        ):
            Model().fit(features, labels, tasks)
        with pytest.raises(IdError, match=r"tasks and the columns of Y .* 1 only in tasks"):
            Model().fit(features[1:], labels, tasks)
    with pytest.raises(ValueError, match="X has 7 instances, but Y has 6 rows"):
        TwoStepRidge().fit(pd.DataFrame(X), pd.DataFrame(Y[1:]))


# --- frames without row ids --------------------------------------------------------------------


def test_columns_are_the_ids_of_a_polars_kernel_without_a_text_column():
    expected = make(TwoStepRidge, "precomputed").fit(K, Y, G).predict(K_NEW, G_NEW)
    model = make(TwoStepRidge, "precomputed").fit(
        frame("polars", K, None, ROWS),
        frame("polars", Y[::-1, ::-1], ROWS[::-1], TASKS[::-1]),
        frame("polars", G, None, TASKS),
    )
    back = list(range(M))[::-1]
    other = list(range(Q))[::-1]
    predicted = model.predict(
        frame("polars", K_NEW[:, back], None, [ROWS[i] for i in back]),
        frame("polars", G_NEW[:, other], NEW_TASKS, [TASKS[j] for j in other]),
    )
    assert predicted.columns == NEW_TASKS
    assert_allclose(predicted.to_numpy(), expected, rtol=1e-9)


def test_a_row_of_ids_that_is_missing_is_seen_in_a_polars_kernel():
    with pytest.raises(IdError, match=r"1 only in the rows of Y \('i3'\); 1 only in X \('zz'\)"):
        make(TwoStepRidge, "precomputed").fit(
            frame("polars", K, None, [*ROWS[:3], "zz", *ROWS[4:]]), frame("polars", Y, ROWS, TASKS)
        )


# --- mixtures of frames and arrays -------------------------------------------------------------


def test_the_order_of_a_kernel_s_rows_is_that_of_an_array_of_labels(kind):
    expected = make(TwoStepRidge, "precomputed").fit(K, Y).predict(K_NEW)
    permuted = frame(kind, K[:, ::-1], ROWS, ROWS[::-1])
    model = make(TwoStepRidge, "precomputed").fit(permuted, Y)
    predicted = model.predict(frame(kind, K_NEW, NEW_ROWS, ROWS))
    assert_allclose(values_of(predicted), expected, rtol=1e-9)


# --- names of axes and vectors of labels -------------------------------------------------------


def test_names_of_both_axes_are_kept_in_pandas():
    labels = pd.DataFrame(Y, pd.Index(ROWS, name="protein"), pd.Index(TASKS, name="drug"))
    kernel = pd.DataFrame(K, pd.Index(ROWS, name="protein"), ROWS)
    new = pd.DataFrame(K_NEW, pd.Index(NEW_ROWS, name="new protein"), ROWS)
    model = make(TwoStepRidge, "precomputed").fit(kernel, labels, G)
    assert model.predict(new).columns.name == "drug"
    tasks = pd.DataFrame(G_NEW, pd.Index(NEW_TASKS, name="new drug"), TASKS)
    predicted = model.predict(new, tasks)
    assert predicted.index.name == "new protein"
    assert predicted.columns.name == "new drug"


def test_a_task_named_as_the_id_column_is_not_lost():
    tasks = ["id", *TASKS[1:]]
    model = make(TwoStepRidge, "linear").fit(
        frame("polars", X, ROWS, FEATURES), frame("polars", Y, ROWS, tasks, "protein")
    )
    predicted = model.predict(frame("polars", X_NEW, NEW_ROWS, FEATURES))
    expected = make(TwoStepRidge, "linear").fit(X, Y).predict(X_NEW)
    assert predicted.shape == (4, Q + 1)
    assert predicted[:, 0].to_list() == NEW_ROWS
    assert_allclose(predicted[:, 1:].to_numpy(), expected, rtol=1e-9)


def test_series_of_pandas_are_aligned_and_come_back():
    expected = make(TwoStepRidge, "linear").fit(X, Y[:, 0]).predict(X_NEW)
    labels = pd.Series(Y[:, 0], index=ROWS, name="y").iloc[::-1]
    model = make(TwoStepRidge, "linear").fit(pd.DataFrame(X, ROWS, FEATURES), labels)
    predicted = model.predict(pd.DataFrame(X_NEW, pd.Index(NEW_ROWS, name="new"), FEATURES))
    pd.testing.assert_series_equal(
        predicted, pd.Series(expected, pd.Index(NEW_ROWS, name="new")), rtol=1e-9, check_names=False
    )
    assert predicted.index.name == "new"
    assert model.coef_.shape == (3,)


# --- ids that do not match ---------------------------------------------------------------------


@over(every(kernel=["linear", "precomputed"]))
def test_tasks_and_columns_of_labels_must_match(kind, kernel):
    other = ["x", *TASKS[1:]]
    if kernel == "precomputed":
        tasks = frame(kind, G, other, other)
    else:
        tasks = frame(kind, T, other, TASK_FEATURES)
    model = TwoStepRidge(task_kernel=kernel)
    with pytest.raises(
        IdError,
        match=r"tasks and the columns of Y do not match: 1 only in the columns of Y \('t0'\); "
        r".*'x'",
    ):
        model.fit(X, frame(kind, Y, ROWS, TASKS), tasks)


def test_rows_and_columns_of_a_kernel_must_match(kind):
    kernel = frame(kind, K, ROWS, [*ROWS[1:], "x"])
    with pytest.raises(
        IdError, match="columns of X and the rows of X do not match: 1 only in the rows of X .*'i0'"
    ):
        make(TwoStepRidge, "precomputed").fit(kernel, Y)


def test_columns_of_a_kernel_block_must_be_the_training_ids(kind):
    model = make(TwoStepRidge, "precomputed").fit(
        frame(kind, K, ROWS, ROWS), frame(kind, Y, ROWS, TASKS), frame(kind, G, TASKS, TASKS)
    )
    block = frame(kind, K_NEW, NEW_ROWS, ["x", "y", *ROWS[2:]])
    with pytest.raises(
        IdError, match=r"of X and the training data .* 2 only in the training data .*'i0', 'i1'"
    ):
        model.predict(block)
    task_block = frame(kind, G_NEW, NEW_TASKS, [*TASKS[:4], "x"])
    good = frame(kind, K_NEW, NEW_ROWS, ROWS)
    with pytest.raises(IdError, match=r"columns of tasks and the training data .*'t4'.*'x'"):
        model.predict(good, task_block)


# --- feature names -----------------------------------------------------------------------------


@over(every(given=["frame", "array"]))
def test_feature_tables_with_and_without_names_warn_as_scikit_learn_does(kind, given):
    named = frame(kind, X, ROWS, FEATURES)
    plain = X
    trained, asked = (plain, named) if given == "frame" else (named, plain)
    model = make(TwoStepRidge, "linear").fit(trained, Y)
    with pytest.warns(UserWarning, match="feature names"):
        model.predict(asked)


# --- scores ------------------------------------------------------------------------------------


def test_score_aligns_labels_on_both_sides(kind):
    kernel = frame(kind, K, ROWS, ROWS)
    tasks = frame(kind, G, TASKS, TASKS)
    model = make(TwoStepRidge, "precomputed").fit(kernel, frame(kind, Y, ROWS, TASKS), tasks)
    labels = frame(kind, Y[::-1, ::-1], ROWS[::-1], TASKS[::-1])
    other = frame(kind, G[:, ::-1], TASKS, TASKS[::-1])
    expected = r2_score(Y, values_of(model.predict(kernel)))
    assert_allclose(model.score(kernel, labels, tasks=other), expected, rtol=1e-9)


@pytest.mark.parametrize("model", [TwoStepRidge(), OnlineTwoStepRidge()], ids=["grid", "online"])
def test_a_table_of_the_library_is_read_as_a_frame_is(model):
    rng = default_rng(3)
    X = pd.DataFrame(rng.normal(size=(6, 2)), index=list("abcdef"), columns=["u", "v"])
    T = pd.DataFrame(rng.normal(size=(4, 3)), index=list("pqrs"), columns=["x", "y", "z"])
    Y = pd.DataFrame(rng.normal(size=(6, 4)), index=list("fedcba"), columns=list("sqrp"))
    X_new = pd.DataFrame(rng.normal(size=(2, 2)), index=["g", "h"], columns=["u", "v"])
    expected = clone(model).fit(X, Y, T).predict(X_new, T).to_numpy()

    def table(frame):
        return Table(frame.to_numpy(), Ids(tuple(frame.index)), Ids(tuple(frame.columns)))

    fitted = clone(model).fit(table(X), table(Y), table(T))
    # Arrays of frames lie in memory in another order, in which sums are rounded otherwise.
    np.testing.assert_allclose(fitted.predict(table(X_new), table(T)), expected, rtol=1e-12)
    named = clone(model).fit(X, Y, T)
    with pytest.raises(
        ValueError, match="feature names of X should match .* in the order of the training data"
    ):
        named.predict(table(X_new[["v", "u"]]))
    with pytest.raises(ValueError, match="feature names of tasks"):
        fitted.predict(table(X_new), table(T[["y", "x", "z"]]))

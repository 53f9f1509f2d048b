"""Bad input gets one clear sentence, and nothing is lost by it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import IndependentTaskRidge, KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge
from dyadlearn.exceptions import IdError, KernelError
from sweeps import covering, every, lines, over

M = 6
Q = 4
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 3))
T = RNG.normal(size=(Q, 2))
Y = RNG.normal(size=(M, Q))
K = X @ X.T + np.eye(M)
G = T @ T.T + np.eye(Q)
ROWS = list("abcdef")
TASKS = ["t0", "t1", "t2", "t3"]

MODELS = [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]
PAIR_MODELS = [KroneckerRidge, TwoStepRidge]
every_model = {"Model": MODELS}
every_pair_model = {"Model": PAIR_MODELS}


def precomputed(Model: Any = TwoStepRidge, **params: Any) -> Any:
    """Return a model on given kernels."""
    if Model is not IndependentTaskRidge:
        params["task_kernel"] = "precomputed"
    return Model(kernel="precomputed", **params)


def spoilt(array: np.ndarray, value: float, *where: int) -> np.ndarray:
    """Return a copy with one entry, symmetric ones in a kernel, replaced."""
    copy = array.copy()
    copy[where or (0, 1)] = value
    return copy


# --- shapes ------------------------------------------------------------------------------------


@over(every(**every_model))
def test_instances_and_rows_of_labels_must_be_as_many(Model, library):
    message = r"^X has 6 instances, but Y has 5 rows: give one row of labels per instance\.$"
    with pytest.raises(ValueError, match=message):
        Model().fit(library.asarray(X), library.asarray(Y[:5]))
    with pytest.raises(ValueError, match=message):
        precomputed(Model).fit(library.asarray(K), library.asarray(Y[:5]))


@over(every(**every_model))
def test_tasks_and_columns_of_labels_must_be_as_many(Model, library):
    with pytest.raises(
        ValueError,
        match=r"^tasks has 3 rows, but Y has 4 columns: give one row per task\. If .* "
        r"Tasks\(tasks\)\.$",
    ):
        Model().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T[:3]))


@over(every(**every_model))
def test_a_frame_of_another_length_is_told_by_size(Model):
    with pytest.raises(ValueError, match="X has 5 instances, but Y has 6 rows"):
        Model().fit(pd.DataFrame(X[:5], ROWS[:5]), pd.DataFrame(Y, ROWS, TASKS))
    with pytest.raises(ValueError, match="tasks has 3 rows, but Y has 4 columns"):
        Model().fit(X, pd.DataFrame(Y, ROWS, TASKS), tasks=pd.DataFrame(T[:3], TASKS[:3]))


@over(every(**every_model))
def test_a_precomputed_kernel_must_be_square(Model, library):
    message = r"^The precomputed instance kernel must be a square matrix, found shape \(6, 3\)\. For features, "
    with pytest.raises(KernelError, match=message):
        precomputed(Model).fit(library.asarray(X), library.asarray(Y))


@over(every(**every_pair_model))
def test_a_precomputed_task_kernel_must_be_square(Model, library):
    with pytest.raises(
        KernelError,
        match=r"^The precomputed task kernel must be a square matrix, found shape \(4, 2\)",
    ):
        precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(T))


@over(every(**every_model))
def test_instances_to_predict_must_be_as_wide_as_in_training(Model, library):
    model = Model().fit(library.asarray(X), library.asarray(Y))
    with pytest.raises(
        ValueError,
        match=rf"^X has 2 features, but {Model.__name__} is expecting 3 features as input",
    ):
        model.predict(library.asarray(X[:, :2]))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y))
    with pytest.raises(
        ValueError,
        match=rf"^X has 5 features, but {Model.__name__} is expecting 6 features as input",
    ):
        model.predict(library.asarray(K[:, :5]))


@over(every(**every_pair_model))
def test_tasks_to_predict_must_be_as_wide_as_in_training(Model, library):
    model = Model().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T))
    with pytest.raises(ValueError, match=r"^tasks has 1 columns, expected 2 features\.$"):
        model.predict(library.asarray(X), tasks=library.asarray(T[:, :1]))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(G))
    with pytest.raises(
        ValueError,
        match=r"^tasks has 3 columns, expected 4 kernel values with the training tasks\.$",
    ):
        model.predict(library.asarray(K), tasks=library.asarray(G[:, :3]))


def test_labels_to_score_must_have_the_shape_of_the_predictions():
    model = TwoStepRidge().fit(X, Y, tasks=T)
    with pytest.raises(
        ValueError,
        match=r"^Y has shape \(6, 4\), but the predictions .* \(6, 2\)\. .* Tasks\(tasks\)\.$",
    ):
        model.score(X, Y, tasks=T[:2])
    with pytest.raises(
        ValueError, match=r"Y has shape \(5, 4\), but the predictions .* have shape \(6, 4\)"
    ):
        model.score(X, Y[:5])


def test_matrices_are_matrices(library):
    with pytest.raises(
        ValueError, match="X must be a matrix, found 1 dimension|Expected 2D array, got 1D"
    ):
        TwoStepRidge().fit(library.asarray(X[:, 0]), library.asarray(Y))
    with pytest.raises(
        ValueError, match="tasks must be a matrix, found 1 dimension|Expected 2D array, got 1D"
    ):
        TwoStepRidge().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(T[:, 0]))
    with pytest.raises(
        ValueError, match=r"Y must have one or two dimensions, found 3|Found array with dim 3"
    ):
        TwoStepRidge().fit(library.asarray(X), library.asarray(Y[:, :, None]))


@over(
    lines(
        "name x y tasks",
        ("Y", X, Y[:, :0], None),
        ("Y", X, Y[:0], None),
        ("Y", X, np.empty(0), None),
        ("tasks", X, Y, T[:0]),
        ("tasks", X, Y, T[:, :0]),
    )
)
def test_empty_grids_are_refused_by_name(library, name, x, y, tasks):
    with pytest.raises(ValueError, match=f"{name} .*empty") as caught:
        TwoStepRidge().fit(
            library.asarray(x),
            library.asarray(y),
            tasks=None if tasks is None else library.asarray(tasks),
        )
    empty = y if name == "Y" else tasks
    assert str(empty.shape) in str(caught.value)


@over(every(x=[X[:0], X[:, :0]]))
def test_empty_instances_are_refused(library, x):
    with pytest.raises(ValueError, match=re.escape(str(x.shape)).replace(" ", " ?")):
        TwoStepRidge().fit(library.asarray(x), library.asarray(Y))


@over(every(**every_model))
def test_labels_are_needed(Model):
    with pytest.raises(
        ValueError, match=f"{Model.__name__} requires y to be passed, but the target y is None"
    ):
        Model().fit(X, None)


# --- ids ---------------------------------------------------------------------------------------


def test_repeated_ids_are_named_with_their_table():
    twice = ["a", *ROWS[:5]]
    labels = pd.DataFrame(Y, ROWS, TASKS)
    with pytest.raises(
        IdError,
        match=r"^The index of X has repeated ids: 'a' \(1 of \d+ ids\): aggregate or rename "
        r"them\.$",
    ):
        TwoStepRidge().fit(pd.DataFrame(X, twice), labels)
    with pytest.raises(IdError, match=r"^The index of Y has repeated ids: 'a' \("):
        TwoStepRidge().fit(X, pd.DataFrame(Y, twice, TASKS))
    with pytest.raises(
        IdError, match=r"^The index of tasks has repeated ids: 't1', 't0' \(2 of 2 ids\)"
    ):
        TwoStepRidge().fit(X, labels, tasks=pd.DataFrame(T, ["t0", "t1", "t1", "t0"]))
    with pytest.raises(IdError, match=r"^Column 'who' of X has repeated ids: 'a' \("):
        TwoStepRidge().fit(pl.DataFrame({"who": twice, "f": X[:, 0]}), Y)
    model = TwoStepRidge().fit(X, Y)
    with pytest.raises(IdError, match=r"^The index of X has repeated ids: 'a' \("):
        model.predict(pd.DataFrame(X, twice))


@over(every(side=["X", "Y", "tasks"]))
def test_repeated_columns_are_named_with_their_table(side):
    tables = {"X": pd.DataFrame(X), "Y": pd.DataFrame(Y), "tasks": pd.DataFrame(T)}
    tables[side].columns = ["u"] * tables[side].shape[1]
    with pytest.raises(IdError, match=rf"[Cc]olumns of {side} .*repeated ids: 'u'"):
        TwoStepRidge().fit(tables["X"], tables["Y"], tasks=tables["tasks"])


def test_only_a_few_of_many_ids_are_listed():
    names = [f"i{i}" for i in range(30)]
    rows = np.random.default_rng(0).normal(size=(30, 2))
    others = [f"j{i}" for i in range(30)]
    with pytest.raises(IdError) as caught:
        TwoStepRidge().fit(pd.DataFrame(rows, names), pd.DataFrame(rows, others))
    message = str(caught.value)
    assert "30 only in the rows of Y ('j0', 'j1', 'j2', 'j3', 'j4', …)" in message
    assert "30 only in X ('i0', 'i1', 'i2', 'i3', 'i4', …)" in message
    assert "i5" not in message


# --- numbers that are none ---------------------------------------------------------------------


@over(covering(bad=[np.nan, np.inf, -np.inf], **every_model, strength=1))
def test_instances_must_be_finite(Model, bad, library):
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        Model().fit(library.asarray(spoilt(X, bad)), library.asarray(Y))
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        precomputed(Model).fit(library.asarray(spoilt(K, bad)), library.asarray(Y))
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y))
    with pytest.raises(ValueError, match=r"X contains (NaN|infinity)"):
        model.predict(library.asarray(spoilt(K, bad)))


@over(covering(bad=[np.nan, np.inf, -np.inf], **every_pair_model, strength=1))
def test_tasks_must_be_finite(Model, bad, library):
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        Model().fit(library.asarray(X), library.asarray(Y), tasks=library.asarray(spoilt(T, bad)))
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        precomputed(Model).fit(
            library.asarray(K), library.asarray(Y), tasks=library.asarray(spoilt(G, bad))
        )
    model = precomputed(Model).fit(library.asarray(K), library.asarray(Y), tasks=library.asarray(G))
    with pytest.raises(ValueError, match=r"tasks contains (NaN|infinity)"):
        model.predict(library.asarray(K), tasks=library.asarray(spoilt(G, bad)))


@over(every(**every_model))
def test_a_grid_without_any_label_is_refused(Model, library):
    labels = library.asarray(np.full((M, Q), np.nan))
    message = r"^Y is NaN everywhere: no label is observed, so there is nothing to learn from\.$"
    with pytest.raises(ValueError, match=message):
        Model().fit(library.asarray(X), labels)
    with pytest.raises(ValueError, match=message):
        Model().fit(library.asarray(X), labels, tasks=library.asarray(T))
    with pytest.raises(ValueError, match=message):
        Model().fit(library.asarray(X), library.asarray(Y)).score(library.asarray(X), labels)


@over(
    every(
        labels={
            "pandas": pd.DataFrame({"a": [1.0, None, 2.0, None, 0.0, 1.0]}),
            "pandas-Int64": pd.DataFrame({"a": pd.array([1, None, 2, None, 0, 1], dtype="Int64")}),
            "polars-int": pl.DataFrame({"a": [1, None, 2, None, 0, 1]}),
            "polars-float": pl.DataFrame({"a": [1.0, None, 2.0, float("nan"), 0.0, 1.0]}),
            "polars-series": pl.Series([1.0, None, 2.0, None, 0.0, 1.0]),
            "pandas-series": pd.Series([1.0, None, 2.0, None, 0.0, 1.0]),
        }
    )
)
def test_every_way_to_write_a_missing_label_is_read(labels):
    expected = (
        IndependentTaskRidge().fit(X[[0, 2, 4, 5]], np.array([1.0, 2.0, 0.0, 1.0])).predict(X)
    )
    found = TwoStepRidge().fit(X, labels).predict(X)
    assert_allclose(np.asarray(found).reshape(-1), expected, rtol=1e-9)


@over(every(bad=[np.inf, -np.inf], **every_model))
def test_labels_must_be_finite(Model, bad, library):
    with pytest.raises(ValueError, match=r"Y contains infinity"):
        Model().fit(library.asarray(X), library.asarray(spoilt(Y, bad)))


@over(every(**every_model))
def test_infinity_is_refused_beside_missing_labels(Model, library):
    labels = library.asarray(spoilt(spoilt(Y, np.nan, 2, 2), np.inf))
    with pytest.raises(ValueError, match=r"Y contains infinity"):
        Model().fit(library.asarray(X), labels)


@over(
    lines(
        "weights message",
        (
            np.ones(5),
            r"must give a weight for each of 6 instances or 6 × 4 cells, found shape \(5,\)",
        ),
        (np.ones((4, 6)), r"found shape \(4, 6\)"),
        (np.full(6, -1.0), r"must hold finite numbers of at least 0"),
        (np.full((6, 4), np.nan), r"must hold finite numbers of at least 0"),
        (np.full(6, np.inf), r"must hold finite numbers of at least 0"),
        (np.zeros((6, 4)), r"is zero wherever Y is observed: give some cells a positive weight"),
        (["a"] * 6, r"holds text where numbers belong"),
    )
)
@over(every(**every_model))
def test_weights_that_are_none(Model, weights, message):
    model = Model().fit(X, Y)
    predicted = model.predict(X)
    with pytest.raises(ValueError, match=f"^sample_weight .*{message}"):
        model.fit(X, Y, tasks=T, sample_weight=weights)
    assert_array_equal(model.predict(X), predicted)


@over(every(**every_model))
def test_weights_of_other_ids_are_refused(Model):
    labels = pd.DataFrame(Y, ROWS, TASKS)
    with pytest.raises(IdError, match="sample_weight"):
        Model().fit(X, labels, sample_weight=pd.Series(1.5, list("ghijkl")))
    with pytest.raises(IdError, match="the columns of sample_weight"):
        Model().fit(X, labels, sample_weight=pd.DataFrame(1.5, ROWS, list("uvwx")))


def test_weights_on_holes_only_are_refused():
    labels = spoilt(Y, np.nan, 0)
    weights = np.zeros((M, Q))
    weights[0] = 1.0
    with pytest.raises(ValueError, match=r"^sample_weight is zero wherever Y is observed"):
        TwoStepRidge().fit(X, labels, sample_weight=weights)


def test_the_score_of_some_labels_takes_no_weights():
    model = TwoStepRidge().fit(X, Y)
    with pytest.raises(ValueError, match=r"^score takes sample_weight only if no label is missing"):
        model.score(X, spoilt(Y, np.nan), sample_weight=np.arange(6.0))


@over(every(**every_model))
def test_sparse_labels_that_are_all_the_same_are_refused(Model):
    with pytest.raises(
        ValueError, match=r"^All 2 labels that Y stores are 1, and cells that a sparse matrix"
    ):
        Model().fit(X, sparse.csr_array((Y.max() == Y) | (Y.min() == Y), dtype=float))


def test_a_sparse_precomputed_kernel_is_refused():
    with pytest.raises(TypeError, match=r"[Ss]parse.* X, but dense data is required"):
        precomputed().fit(sparse.csr_array(K), Y)
    with pytest.raises(TypeError, match=r"[Ss]parse.* tasks, but dense data is required"):
        precomputed().fit(K, Y, tasks=sparse.csr_array(G))


TEXT = np.array([["x"] * 4] * 6)


@over(every(text=[TEXT, TEXT.astype(object), TEXT.tolist(), pd.DataFrame(TEXT)]))
def test_text_where_numbers_belong_is_refused_by_name(text):
    with pytest.raises(ValueError, match=r"\bX\b"):
        TwoStepRidge().fit(text, Y)
    with pytest.raises(ValueError, match=r"\bY\b"):
        TwoStepRidge().fit(X, text)
    with pytest.raises(ValueError, match=r"\btasks\b"):
        TwoStepRidge().fit(X, Y, tasks=text[:4])


def test_complex_numbers_are_refused():
    with pytest.raises(ValueError, match="Complex data not supported"):
        TwoStepRidge().fit(X + 0j, Y)
    with pytest.raises(ValueError, match="Complex data not supported"):
        TwoStepRidge().fit(X, Y + 0j)


# --- the wrong way round -----------------------------------------------------------------------


@over(every(**every_model))
def test_labels_on_their_side_are_told_by_their_ids(Model):
    features = pd.DataFrame(X, index=ROWS)
    labels = pd.DataFrame(Y, index=ROWS, columns=TASKS)
    tasks = pd.DataFrame(T, index=TASKS)
    with pytest.raises(
        IdError, match=r"^Y looks transposed: its columns have the ids of X.* pass Y\.T\.$"
    ):
        Model().fit(features, labels.T)
    with pytest.raises(
        IdError, match=r"^Y looks transposed.* pass Y\.T, or exchange X and tasks\.$"
    ):
        Model().fit(features, labels.T, tasks=tasks)
    with pytest.raises(IdError, match="exchange X and tasks"):
        Model().fit(tasks, labels, tasks=features)
    # As many instances as tasks: sizes would tell nothing.
    with pytest.raises(IdError, match=r"^Y looks transposed"):
        Model().fit(features.iloc[:4], labels.iloc[:4].T, tasks=tasks)
    with pytest.raises(IdError, match=r"^Y looks transposed"):
        OnlineTwoStepRidge().fit(features, labels.T)


def test_arrays_that_fit_the_other_way_round_are_told_by_their_sizes():
    with pytest.raises(
        ValueError,
        match=r"^X has 6 instances, but Y has 4 rows: .* Y looks transposed: pass Y\.T\.$",
    ):
        TwoStepRidge().fit(X, Y.T)
    with pytest.raises(
        ValueError, match=r"Y looks transposed: pass Y\.T, or exchange X and tasks\.$"
    ):
        TwoStepRidge().fit(T, Y, tasks=X)


def test_a_block_of_a_kernel_on_its_side_is_told():
    model = precomputed().fit(
        pd.DataFrame(K, index=ROWS, columns=ROWS),
        pd.DataFrame(Y, index=ROWS, columns=TASKS),
        pd.DataFrame(G, TASKS, TASKS),
    )
    block, task_block = (
        pd.DataFrame(part[:2], index=["u", "v"], columns=ids)
        for part, ids in ((K, ROWS), (G, TASKS))
    )
    with pytest.raises(
        IdError, match=r"^X looks transposed: the training ids are in its rows.*pass X\.T\.$"
    ):
        model.predict(block.T)
    with pytest.raises(IdError, match=r"^tasks looks transposed"):
        model.predict(block, tasks=task_block.T)


def test_features_in_another_order_are_refused_with_a_remedy():
    features = pd.DataFrame(X, columns=list("abc"))
    tasks = pd.DataFrame(T, columns=list("de"))
    for model in (
        TwoStepRidge().fit(features, Y, tasks=tasks),
        OnlineTwoStepRidge().fit(features, Y, tasks=tasks),
    ):
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            model.predict(features[["b", "a", "c"]])
        with pytest.raises(
            ValueError, match=r"names of tasks .*; put the columns in the order of the training"
        ):
            model.predict(features, tasks=tasks[["e", "d"]])
        with pytest.raises(
            ValueError, match=r"names of tasks .*; pass the features of the training data\.$"
        ):
            model.predict(features, tasks=tasks.rename(columns={"e": "f"}))


@over(every(label=["", "  ", None, float("nan"), pd.NA]))
def test_an_id_that_is_missing_or_empty_is_refused(label):
    ids = [*ROWS[:-1], label]
    with pytest.raises(IdError, match=r"^The index of X has no id at position 5"):
        TwoStepRidge().fit(pd.DataFrame(X, index=pd.Index(ids, dtype=object)), Y)
    with pytest.raises(IdError, match=r"^The columns of Y has no id at position 3"):
        TwoStepRidge().fit(X, pd.DataFrame(Y, columns=pd.Index([*TASKS[:-1], label], dtype=object)))


def test_ids_that_differ_in_type_only_are_told():
    features = pd.DataFrame(X, index=range(6))
    labels = pd.DataFrame(Y, index=list("012345"))
    with pytest.raises(
        IdError, match=r"'0' and 0 differ in type or blanks only: read both alike\.$"
    ):
        TwoStepRidge().fit(features, labels)


def test_a_missing_feature_is_named():
    frame = pd.DataFrame(spoilt(X, np.nan, 3, 1), index=ROWS, columns=list("uvw"))
    for features, place in (
        (frame, "row 'd', column 'v'"),
        (frame.to_numpy(), "row 3, column 1, counted from 0"),
    ):
        with pytest.raises(
            ValueError, match=f"^Input X contains NaN in {place}: only labels may be missing"
        ):
            TwoStepRidge().fit(features, Y)
    with pytest.raises(ValueError, match="^Input tasks contains NaN in row 2, column 0"):
        TwoStepRidge().fit(X, Y, tasks=spoilt(T, np.nan, 2, 0))


def test_text_is_told_apart():
    drugs = pd.DataFrame({"smiles": ["CCO"] * M}, index=ROWS)
    with pytest.raises(
        ValueError,
        match=r"text \(such as 'CCO'\) in column 'smiles'.*kernels\.chemistry\.MorganFingerprints",
    ):
        TwoStepRidge().fit(drugs, Y)
    commas = pd.DataFrame(Y).map(lambda value: f"{value:.2f}".replace(".", ","))
    with pytest.raises(ValueError, match=r"^Y holds text .* Write decimals with a point\.$"):
        TwoStepRidge().fit(X, commas)

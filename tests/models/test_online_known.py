"""Instances that are known by their ids: an error, or exchanged for what is given, never counted twice."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import problems
from dyadlearn import OnlineTwoStepRidge
from dyadlearn._tables import Ids
from dyadlearn.exceptions import IdError, PrecisionWarning
from dyadlearn.growing.knowledge import Batch, Kept
from sweeps import lines, over

M = 20
Q = 6
USERS = [f"u{i}" for i in range(M)]
ITEMS = list("abcdef")


def make(holes=0.4):
    X, Y, T = problems.data(M, Q, missing=holes)
    return pd.DataFrame(X, USERS), pd.DataFrame(Y + 2, USERS, ITEMS), pd.DataFrame(T, ITEMS)


def one_cell(user, item, value):
    frame = pd.DataFrame(np.nan, index=[user], columns=ITEMS)
    frame.loc[user, item] = value
    return frame


def same(model, X, Y, T, **options):
    wanted = OnlineTwoStepRidge(0.3, 0.7, **options).fit(X, Y, T)
    assert_allclose(model.predict(X.to_numpy()), wanted.predict(X.to_numpy()), rtol=1e-8)
    assert model.n_seen_ == len(X)


# --- Errors ---------------------------------------------------------------------------------------


@over(lines("keep_labels holes", (True, 0.4), (False, 0.0)))
def test_known_instances_are_named(keep_labels, holes):
    X, Y, T = make(holes)
    model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=keep_labels).fit(X[:10], Y[:10], T)
    before = model._learnt
    with pytest.raises(
        IdError, match=r"2 of 5 instances are known already.*'u8', 'u9'.*known=\"replace\""
    ):
        model.partial_fit(X[8:13], Y[8:13])
    assert model._learnt is before
    model.partial_fit(X[10:], Y[10:])
    with pytest.raises(IdError, match="'u15'"):
        model.partial_fit(X[15:16], Y[15:16])
    # Who was forgotten is not known any more.
    model.forget(X[15:16], Y[15:16]).partial_fit(X[15:16], Y[15:16])
    same(model, X, Y, T)


def test_replacing_needs_what_was_learnt():
    X, Y, T = make()
    model = OnlineTwoStepRidge().fit(X, Y, T)
    with pytest.raises(
        ValueError,
        match=r"Instances 'u3', 'u4' are known.*fit it again with keep_labels=True, or",
    ):
        model.partial_fit(X[3:5], Y[3:5], known="replace")
    with pytest.raises(ValueError, match="known must be one of"):
        model.partial_fit(X[3:5], Y[3:5], known="ignore")


@over(
    lines(
        "X ids",
        (pd.DataFrame(np.ones((2, 3)), index=["a", "b"]), ("a", "b")),
        (pd.DataFrame(np.ones((2, 3)), index=pd.RangeIndex(2, name="user")), (0, 1)),
        (pl.DataFrame({"user": ["a", "b"], "x": [1.0, 2.0]}), ("a", "b")),
        # Numbers that pandas makes by itself are no ids, and arrays have none.
        (pd.DataFrame(np.ones((2, 3))), None),
        (pl.DataFrame({"x": [1.0, 2.0]}), None),
        (np.ones((2, 3)), None),
    )
)
def test_what_is_an_id(X, ids):
    model = OnlineTwoStepRidge().fit(X, np.array([1.0, 2.0]))
    found = model._learnt.kept.ids
    assert (found.labels if found else None) == ids
    if ids is None:
        assert model.partial_fit(X, np.array([1.0, 2.0])).n_seen_ == 4
    else:
        with pytest.raises(IdError, match="2 of 2 instances are known"):
            model.partial_fit(X, np.array([1.0, 2.0]))


# --- Forgetting -----------------------------------------------------------------------------------


def test_forgetting_by_ids():
    X, Y, T = make()
    for options in ({}, {"keep_labels": True}):
        model = OnlineTwoStepRidge(0.3, 0.7, **options).fit(X, Y, T)
        before = model._learnt
        with pytest.raises(IdError, match="Instances 'new' are not known"):
            model.forget(X[:1].set_axis(["new"]), Y[:1].set_axis(["new"]))
        if options.get("keep_labels"):
            for wrong in ((X[:1] + 1, Y[:1]), (X[:1], Y[:1] + 1)):
                with pytest.raises(ValueError, match="X or Y are not what the model has learned"):
                    model.forget(*wrong)
        assert model._learnt is before
        same(model.forget(X[::3], Y[::3]), X.drop(USERS[::3]), Y.drop(USERS[::3]), T)


def test_forgetting_without_ids():
    X, Y, T = make()
    model = OnlineTwoStepRidge(0.3, 0.7).fit(X, Y, T)
    with pytest.raises(IdError, match="knows 20 of its 20 instances by their ids: give"):
        model.forget(X.to_numpy()[:1], Y.to_numpy()[:1])
    # Whoever came without an id can go without.
    model.partial_fit(1 + X.to_numpy()[:1], Y.to_numpy()[:1]).forget(
        1 + X.to_numpy()[:1], Y.to_numpy()[:1]
    )
    same(model, X, Y, T)
    # An instance that is kept is found again by its features, and its id goes with it.
    model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=True).fit(X, Y, T)
    model.forget(X.to_numpy()[:2], Y.to_numpy()[:2]).partial_fit(X[:2], Y[:2])
    same(model, X, Y, T)


# --- Replacing ------------------------------------------------------------------------------------


def test_sparse_labels_are_complete():
    X, Y, T = make(0.0)
    labels = np.where(Y > 2, Y, 0.0)
    model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=True).fit(X, sparse.csr_array(labels), T)
    model.partial_fit(X[:2], one_cell("u0", "a", 7.0).reindex(["u0", "u1"]), known="replace")
    labels[0, 0] = 7.0
    same(model, X, pd.DataFrame(labels, USERS, ITEMS), T)


def test_new_and_forgotten_tasks():
    X, Y, T = make()
    model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=True).fit(X, Y[ITEMS[:3]], T[:3])
    with pytest.raises(
        ValueError,
        match="leave X out, and give the labels of new tasks for all instances in one call",
    ):
        model.partial_fit_tasks(T[3:], Y[ITEMS[3:]].to_numpy(), X=X.to_numpy())
    with pytest.raises(ValueError, match="Y has 5 rows, expected one for each of 20 instances"):
        model.partial_fit_tasks(T[3:], Y[ITEMS[3:]][:5], X=X[:5])
    with pytest.raises(ValueError, match="takes the labels of tasks in one array"):
        model.partial_fit_tasks(T[3:], chunks=[(X, Y[ITEMS[3:]])])
    # By their ids in any order, with their instances or without.
    model.partial_fit_tasks(T[3:5], Y[["d", "e"]][::-1], X=X).partial_fit_tasks(
        T[5:], Y[["f"]][::-1]
    )
    same(model, X, Y, T)
    model.partial_fit(X[4:5], one_cell("u4", "e", 9.0), known="replace").forget_tasks(["b"])
    final = Y.copy()
    final.loc["u4", "e"] = 9.0
    same(model, X, final.drop(columns="b"), T.drop("b"))


def test_rounding_that_is_left_is_told():
    X, Y, T = make()
    X.loc["u3"] *= 1e8
    model = OnlineTwoStepRidge(keep_labels=True).fit(X, Y, T)
    with pytest.warns(PrecisionWarning, match="The forgotten data were much larger"):
        model.partial_fit(X[3:4] / 1e8, Y[3:4], known="replace")


def test_kept_rows_are_joined_and_cleared():
    kept = Kept()
    for step in range(100):
        kept = kept.with_batch(
            Batch(1, Ids((step,)), np.full((1, 2), float(step)), np.array([[1.0, np.nan]])).copied()
        )
    assert len(kept) == 100
    assert len(kept.batches) <= 7
    places = kept.places([3, 50, 99, "nobody"])
    assert places[-1] is None
    rows, labels = kept.taken(places[:-1])
    assert_array_equal(rows[:, 0], [3, 50, 99])
    assert_array_equal(labels, [[1.0, np.nan]] * 3)
    left = kept.without(kept.places(range(1, 100)))
    assert left.ids.labels == (0,)
    assert sum(batch.n_rows for batch in left.batches) == 1
    assert len(kept) == 100

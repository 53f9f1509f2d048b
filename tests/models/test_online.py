"""The online model: what it refuses, what it keeps, what it can be asked."""

import os
import pickle
import sys
import weakref
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import OneHotEncoder

import dyadlearn
import problems
from dyadlearn import OnlineTwoStepRidge, TwoStepRidge
from dyadlearn.exceptions import IdError, NotEnoughMemoryError
from sweeps import every, lines, over
from telling import taken, told

# --- Tasks ----------------------------------------------------------------------------------------


def test_one_chunk_is_read_at_a_time(data, model):
    X, Y, T = data
    alive = []

    def chunks():
        for row in range(20):
            batch = X[row : row + 1].copy()
            alive.append(weakref.ref(batch))
            assert sum(ref() is not None for ref in alive) <= 3
            yield batch, Y[row : row + 1, 5:]

    model.partial_fit_tasks(T[5:], chunks=chunks())
    wanted = TwoStepRidge(0.3, 0.7).fit(X[:20], Y[:20], T)
    assert_allclose(model.coef_, wanted.coef_, rtol=1e-9)


@over(
    lines(
        "rows factor",
        ([*range(10, 19), 5], 1),  # one twice
        (range(12, 22), 1),
        (range(10, 22), 1),
        (range(10, 19), 1),
        (range(10, 20), 1 + 1e-7),
    )
)
def test_instances_that_are_not_the_learnt_ones(data, model, rows, factor):
    X, Y, T = data
    before = model._learnt
    chunks = [(X[:10], Y[:10, 5:]), (X[rows] * factor, Y[rows, 5:])]
    with pytest.raises(ValueError, match="these are not the 20 that were learned"):
        model.partial_fit_tasks(T[5:], chunks=chunks)
    assert model._learnt is before


@over(
    lines(
        "attempt message",
        (
            lambda m, X, Y, T: m.partial_fit_tasks(None, Y[:20, 5:], X=X[:20]),
            "tasks is None, but this model",
        ),
        (
            lambda m, X, Y, T: m.partial_fit_tasks(T[5:, 1:], Y[:20, 5:], X=X[:20]),
            "tasks has 2 columns, expected 3",
        ),
        (
            lambda m, X, Y, T: m.partial_fit_tasks(T[5:], Y, chunks=[(X, Y)]),
            "chunks is given together with",
        ),
        (lambda m, X, Y, T: m.partial_fit_tasks(T[5:], chunks=[]), "chunks is empty"),
        (lambda m, *_: m.forget_tasks([0, 0]), "a task more than once"),
        (lambda m, *_: m.forget_tasks(range(5)), "at least one task"),
        (lambda m, *_: m.forget_tasks([5]), "points outside the known tasks"),
        (
            lambda m, X, Y, T: m.partial_fit(X[20:], Y[20:, :5], tasks=T[1:]),
            "tasks differ from the tasks",
        ),
        (
            lambda m, X, Y, _: m.forget(100 * X[:1], Y[:1, :5]),
            "not learned as they are given",
        ),
        (lambda m, X, Y, _: m.forget(X, Y[:, :5]), "24 instances to forget, but only 20"),
    )
)
def test_bad_requests(data, model, attempt, message):
    X, Y, T = data
    before = model._learnt
    with pytest.raises(ValueError, match=message):
        attempt(model, X, Y, T)
    assert model._learnt is before


# --- A change that fails leaves the model exactly as it was ---------------------------------------


@over(
    lines(
        "X Y message",
        (np.full((2, 5), np.nan), np.ones((2, 5)), "NaN"),
        (np.ones((2, 5)), sparse.csr_array(np.full((2, 5), np.nan)), "NaN"),
        (np.ones((2, 5)), sparse.csr_array(np.eye(2, 5) * 1j), "Y holds complex numbers"),
        (np.ones((2, 6)), np.ones((2, 5)), "6 features"),
        (np.ones((2, 5)), np.ones((2, 4)), "Y has 4 columns, but 5 tasks are known"),
        (np.empty((0, 5)), np.empty((0, 5)), "empty|minimum"),
    )
)
@over(every(method=["partial_fit", "forget"]))
def test_bad_rows(model, method, X, Y, message):
    before = dict(model.__dict__)
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(X, Y)
    assert model.__dict__ == before


def test_interrupted_at_any_line(data):
    X, Y, T = data

    def fresh():
        model = OnlineTwoStepRidge(0.3, 0.7, keep_labels=True)
        return model.fit(X[:20], Y[:20, :5], T[:5])

    changes = {
        "partial_fit": lambda m: m.partial_fit(X[20:], Y[20:, :5]),
        "forget": lambda m: m.forget(X[:2], Y[:2, :5]),
        "partial_fit_tasks": lambda m: m.partial_fit_tasks(T[5:], Y[:20, 5:]),
        "forget_tasks": lambda m: m.forget_tasks([0]),
        "set_alpha": lambda m: m.set_alpha(2.0, 3.0),
        "tune": lambda m: m.tune(X[:20], Y[:20, :5], alphas=[0.1, 1.0], task_alphas=[0.1, 1.0]),
        "fit": lambda m: m.fit(X, Y, T),
    }
    interrupted = dict.fromkeys(changes, 0)
    for name, change in changes.items():
        model = fresh()
        before = dict(model.__dict__)
        for line in range(1, 2000, 31):  # every line would take too long
            with _InterruptAfter(line) as finished:
                change(model)
            # Once the one assignment that counts is done, only `return self` is left to be
            # interrupted.
            if finished() or model._learnt is not before["_learnt"]:
                break
            interrupted[name] += 1
            assert model.__dict__ == before, f"{name} left something behind after {line} lines"
        # What was interrupted so often still works, and gives what it should.
        wanted = change(fresh())
        assert set(model.__dict__) == set(wanted.__dict__)
        for name in ("coef_", "n_seen_", "n_tasks_", "alpha"):
            assert_array_equal(getattr(model, name), getattr(wanted, name))
    assert min(interrupted.values()) >= 2, interrupted


# Where the package lies, and not merely a folder of its name with an environment in it.
PACKAGE = str(Path(dyadlearn.__file__).parent) + os.sep


class _InterruptAfter:
    """Raise KeyboardInterrupt in the package after so many of its lines, and swallow it outside."""

    def __init__(self, lines):
        self.left = lines
        self.raised = False

    def trace(self, frame, event, argument):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        # Restoring what was is not to be interrupted a second time.
        if frame.f_code.co_name == "all_or_nothing":
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self.raised = True
                raise KeyboardInterrupt
        return self.trace

    def __enter__(self):
        self.before = sys.gettrace()
        sys.settrace(self.trace)
        return lambda: not self.raised

    def __exit__(self, kind, error, where):
        sys.settrace(self.before)
        return kind is KeyboardInterrupt


# --- Memory ---------------------------------------------------------------------------------------


@over(every(with_tasks=[True, False]))
def test_the_state_does_not_grow_with_instances(with_tasks):
    rng = default_rng(0)
    T = rng.normal(size=(6, 3)) if with_tasks else None
    model = OnlineTwoStepRidge()
    sizes = []
    for step in range(16):
        model.partial_fit(rng.normal(size=(3, 12)), rng.normal(size=(3, 6)), tasks=T)
        model.predict(np.ones((1, 12)))
        if step in (7, 8, 14, 15):
            sizes.append(len(pickle.dumps(model)))
    assert max(sizes) - min(sizes) < 200, sizes
    numbers = 3 * (12 * 12 + 2 * 12 * 6) + 3 * 3 * 3 + 3 * 6 * 3  # with factors
    assert sizes[-1] < 8 * numbers + 6000


def test_sparse_labels_are_not_made_dense():
    rng = default_rng(0)
    # 320 MB as a dense grid
    n = 2000
    q = 20_000
    X = rng.normal(size=(n, 10))
    T = rng.normal(size=(q, 4))
    Y = sparse.csr_array((np.ones(n), (np.arange(n), rng.integers(q, size=n))), shape=(n, q))
    model = OnlineTwoStepRidge()

    def learn():
        model.fit(X, Y, T).partial_fit(X, Y).forget(X[:500], Y[:500])
        model.landscape(X[500:550], Y[500:550], alphas=[1, 10], task_alphas=[1, 10])

    assert taken(learn) < 90e6
    of_rows = (X[:2] @ model.instance_coef_)[:, None] + model.intercept_
    expected = X[:2] @ model.coef_ @ T.T + of_rows + T @ model.task_coef_
    assert_allclose(model.predict(X[:2]), expected, rtol=1e-9, atol=1e-12)


def test_too_many_features_are_told_before_any_work():
    words = "statistics of 5000000 features .* feature_map such as Landmarks"
    with pytest.raises(NotEnoughMemoryError, match=words):
        OnlineTwoStepRidge().fit(sparse.csr_array((2, 5_000_000)), np.ones((2, 1)))


# --- Forms ----------------------------------------------------------------------------------------


def test_frames_are_matched_by_id_in_every_change(data):
    X, Y, T = data
    people = [f"p{i}" for i in range(24)]
    drugs = [f"d{j}" for j in range(6)]
    features = pd.DataFrame(X, people)
    labels = pd.DataFrame(Y, people, pd.Index(drugs, name="drug"))
    described = pd.DataFrame(T, drugs, list("abc"))
    model = OnlineTwoStepRidge(0.3, 0.7)
    model.fit(features[:20], labels.iloc[:20, :5][::-1], described.iloc[[3, 1, 2, 0, 4]])
    model.partial_fit(features[20:], labels.iloc[20:, [4, 2, 0, 1, 3]])
    chunks = ((features[rows], labels.iloc[rows, 5:]) for rows in (slice(12), slice(12, None)))
    model.partial_fit_tasks(described[5:], chunks=chunks)
    model.forget(features[:4][::-1], labels[:4]).forget_tasks(["d1", "d0"])
    wanted = TwoStepRidge(0.3, 0.7).fit(features[4:], labels.iloc[4:, 2:], described[2:])
    pd.testing.assert_frame_equal(model.predict(features), wanted.predict(features))
    for tasks, more, words in (
        (described[5:], labels.iloc[4:, 5:], "'d5' are known already"),
        (T[5:], Y[4:, 5:], "give the new ones ids too"),
    ):
        with pytest.raises(IdError, match=words):
            model.partial_fit_tasks(tasks, more, X=features[4:])
    with pytest.raises(IdError, match="not among the ids of the known tasks"):
        model.forget_tasks("d0")


@over(every(constant=[False, True]))
def test_what_lies_between_data_of_single_precision_is_in_double_precision(constant):
    """Terms that cancel leave their digits."""
    rng = default_rng(0)
    parts = rng.normal(size=(60, 3)) + 1000, rng.normal(size=(60, 5)), rng.normal(size=(5, 2)) + 100
    found = []
    for dtype in (np.float32, np.float64):
        X, Y, T = (part.astype(np.float32).astype(dtype) for part in parts)
        model = OnlineTwoStepRidge(1e-3, 1e-3, fit_intercept=constant).fit(X, Y, T)
        found.append(model.predict(X))
    assert found[0].dtype == np.float32
    assert_allclose(*found, rtol=2e-7, atol=1e-8)


# --- What is told before rows are learned is an upper bound, and no more than about twice what is taken ---


@over(lines("kind keep_labels", ("arrays", True), ("missing", False), ("frames", True)))
def test_memory_of_fit(kind, keep_labels):
    X, Y, _ = problems.data(4000, 30, 40)
    if kind == "missing":
        Y = np.where(np.arange(30) < 25, np.where(np.arange(4000) < 500, np.nan, 1.0)[:, None], Y)
    if kind == "frames":
        index = [f"row {row}" for row in range(4000)]
        X = pd.DataFrame(X, index)
        Y = pd.DataFrame(Y, index).iloc[::-1]
    model = OnlineTwoStepRidge(keep_labels=keep_labels)
    need = told(lambda: model.fit(X, Y))
    peak = taken(lambda: model.fit(X, Y))
    assert peak - 2**19 < need < 2.5 * peak  # lists of ids beside it


def test_a_feature_map_may_return_sparse_features(data):
    _, Y, T = data
    X = np.arange(48).reshape(24, 2) % 3
    encoder = OneHotEncoder().fit(X)
    model = OnlineTwoStepRidge(feature_map=encoder).fit(X, Y, T)
    features = encoder.transform(X).toarray()
    expected = OnlineTwoStepRidge().fit(features, Y, T).predict(features)
    assert_allclose(model.predict(X), expected, rtol=1e-10)

"""Statistics of rows: whole or in blocks, added, merged, removed, stored."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn._array import row_blocks
from dyadlearn.growing import statistics
from dyadlearn.growing.statistics import (
    Statistics,
    add_rows,
    add_tasks,
    collect,
    cross_product,
    merge,
    remove_rows,
    remove_tasks,
    same_gram,
)
from sweeps import covering, every, lines, over

N, D, Q, R = 11, 4, 6, 3
forms = {"per_task": {"no tasks": None, "compressed": False, "per task": True}}


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
    Y = rng.normal(size=(N, Q)) * (rng.random((N, Q)) < 0.4)
    return X, Y, rng.normal(size=(Q, R))


def collected(data: Any, per_task: bool | None, rows: slice = slice(None)) -> Statistics:
    X, Y, T = data
    return collect(X[rows], Y[rows], None if per_task is None else T, per_task=bool(per_task))


def assert_same(found: Statistics, wanted: Statistics, rtol: float = 1e-12) -> None:
    assert (found.n_rows, found.n_tasks, found.per_task) == (wanted.n_rows, wanted.n_tasks, wanted.per_task)
    for name in ("gram", "cross", "tasks", "task_gram"):
        first, second = getattr(found, name), getattr(wanted, name)
        assert (first is None) == (second is None)
        if first is not None:
            assert_allclose(first, second, rtol=rtol, atol=rtol)


@over(
    covering(
        **forms,
        wrap_X=[np.asarray, sparse.csr_array, sparse.csr_matrix],
        wrap_Y=[np.asarray, sparse.csr_array, sparse.csr_matrix],
        block=[2, 100],
    )
)
def test_what_rows_say(data, per_task, wrap_X, wrap_Y, block, monkeypatch):
    monkeypatch.setattr(statistics, "row_blocks", lambda n, size: row_blocks(n, 1, block))
    X, Y, T = data
    found = collected((wrap_X(X), wrap_Y(Y), T), per_task)
    assert_allclose(found.gram, X.T @ X, atol=1e-12)
    assert_allclose(found.cross, X.T @ Y @ T if per_task is False else X.T @ Y, atol=1e-12)
    assert_allclose(found.target, X.T @ Y if per_task is None else X.T @ Y @ T, atol=1e-12)
    assert isinstance(found.gram, np.ndarray)
    assert isinstance(found.cross, np.ndarray)
    if per_task is None:
        assert found.tasks is None
        assert found.task_gram is None
    else:
        assert_allclose(found.task_gram, T.T @ T, atol=1e-12)


def test_statistics_are_in_double_precision(data):
    single = [part.astype(np.float32) for part in data]
    found = collected(single, False)
    X, Y, T = (part.astype(np.float64) for part in single)
    assert_allclose(found.cross, X.T @ Y @ T, rtol=1e-12, atol=1e-14)


def test_other_libraries(data, library):
    X, Y, T = (library.asarray(part) for part in data)
    first = collect(X[:5, :], Y[:5, :], T)
    whole = add_rows(first, X[5:, :], Y[5:, :])
    assert_same(remove_rows(whole, X[5:, :], Y[5:, :]), first, library.rtol)
    assert type(whole.gram) is type(X)
    more = add_tasks(
        whole, T[:2, :], cross_product(statistics.double(X), statistics.double(Y[:, :2]), whole.tasks[:2, :])
    )
    less = remove_tasks(more, np.array([6, 7]), more.cross - whole.cross)
    assert_allclose(library.to_numpy(less.cross), library.to_numpy(whole.cross), rtol=library.rtol, atol=1e-6)
    assert less.n_tasks == Q


# Few tasks with few features are multiplied first, many instances are summed first: both orders are taken.
@over(lines("n d q r", (3, 4, 50, 2), (200, 2, 3, 40)))
@over(every(wrap=[np.asarray, sparse.csr_array]))
def test_both_orders_of_the_product(n, d, q, r, wrap):
    rng = np.random.default_rng(1)
    X, Y, T = rng.normal(size=(n, d)), rng.normal(size=(n, q)), rng.normal(size=(q, r))
    assert_allclose(cross_product(wrap(X), wrap(Y), T), X.T @ Y @ T, rtol=1e-10, atol=1e-10)


@over(every(**forms))
def test_rows_come_and_go(data, per_task):
    X, Y, _ = data
    whole, part = collected(data, per_task), collected(data, per_task, slice(7))
    before = {name: array.copy() for name, array in part.to_arrays().items()}
    assert_same(add_rows(part, X[7:], Y[7:]), whole)
    assert_same(remove_rows(whole, X[7:], Y[7:]), part)
    for name, array in part.to_arrays().items():
        assert_array_equal(array, before[name])


@over(every(**forms))
def test_blocks_are_merged_in_a_tree(data, per_task):
    blocks = [collected(data, per_task, slice(start, start + 3)) for start in range(0, N, 3)]
    whole = collected(data, per_task)
    assert_same(reduce(merge, blocks), whole)
    assert_same(merge(merge(blocks[3], blocks[0]), merge(blocks[2], blocks[1])), whole)


@over(every(change=["features", "count", "none", "per task", "values"]))
def test_only_statistics_of_the_same_tasks_are_merged(data, change):
    X, Y, T = data
    other = {
        "features": lambda: collect(X[:, :2], Y, T),
        "count": lambda: collect(X, Y[:, 1:], T[1:]),
        "none": lambda: collect(X, Y),
        "per task": lambda: collect(X, Y, T, per_task=True),
        "values": lambda: collect(X, Y, T + 1),
    }[change]()
    with pytest.raises(ValueError, match="Only statistics of the same tasks can be added"):
        merge(collect(X, Y, T), other)


def test_nothing_stays_of_rows_that_are_all_gone(data):
    X, Y, T = data
    empty = remove_rows(collect(X, Y, T), X[::-1], Y[::-1])
    assert empty.n_rows == 0
    assert not empty.gram.any()
    assert not empty.cross.any()
    assert_same(add_rows(empty, X, Y), collect(X, Y, T))


def test_rows_that_were_never_there_cannot_be_removed(data):
    X, Y, T = data
    seen = collect(X, Y, T)
    with pytest.raises(ValueError, match="12 instances to forget, but only 11 were learnt"):
        remove_rows(seen, np.vstack([X, X[:1]]), np.vstack([Y, Y[:1]]))
    with pytest.raises(ValueError, match="not learnt as they are given here"):
        remove_rows(seen, 5 * X[:2], Y[:2])
    with pytest.raises(ValueError, match="not learnt as they are given here"):
        remove_rows(seen, X / 2, Y)


@over(every(**forms))
def test_tasks_come_and_go(data, per_task):
    X, Y, T = data
    whole, part = collected(data, per_task), collected((X, Y[:, :4], T[:4]), per_task)
    new = T[4:] if per_task is not None else None
    cross = X.T @ Y[:, 4:] @ T[4:] if per_task is False else X.T @ Y[:, 4:]
    assert_same(add_tasks(part, new, cross), whole)
    gone = np.array([4, 1])
    less = remove_tasks(whole, gone, X.T @ Y[:, gone] @ T[gone] if per_task is False else None)
    kept = [0, 2, 3, 5]
    assert_same(less, collected((X, Y[:, kept], T[kept]), per_task))


@over(every(**forms))
def test_stored_and_read_again(data, per_task, tmp_path):
    seen = collected(data, per_task)
    np.savez(tmp_path / "seen.npz", **seen.to_arrays())
    with np.load(tmp_path / "seen.npz") as arrays:
        again = Statistics.from_arrays(arrays)
    assert_same(again, seen, 0)
    assert_same(merge(again, seen), merge(seen, seen), 0)


def test_grams_of_the_same_rows(data):
    gram = data[0].T @ data[0]
    assert same_gram(gram * (1 + 1e-12), gram)
    assert not same_gram(gram * (1 + 1e-9), gram)
    assert same_gram(np.zeros((2, 2)), np.zeros((2, 2)))


def test_rows_of_zeros_can_be_removed_but_no_others_beside_them():
    X, Y = np.zeros((3, 2)), np.arange(3.0)[:, None]
    left = remove_rows(collect(X, Y), X[:1], Y[:1])
    assert_same(left, collect(X[1:], Y[1:]))
    with pytest.raises(ValueError, match="not learnt as they are given"):
        remove_rows(collect(X, Y), X[:1] + 1e-9, Y[:1])

"""Statistics of rows: whole or in blocks, added, merged, removed, stored."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn._array import slices
from dyadlearn.growing import statistics
from dyadlearn.growing.statistics import collect, merge
from sweeps import covering, every, over

N = 11
D = 4
Q = 6
R = 3
forms = {
    "with_tasks": {"no tasks": False, "tasks": True},
    "constant": {"no constant": False, "constant": True},
}


@pytest.fixture
def data():
    rng = default_rng(0)
    X = rng.normal(size=(N, D)) * (rng.random((N, D)) < 0.6)
    Y = rng.normal(size=(N, Q)) * (rng.random((N, Q)) < 0.4)
    return X, Y, rng.normal(size=(Q, R))


def collected(data, with_tasks, constant=False, rows=slice(None)):
    X, Y, T = data
    return collect(X[rows], Y[rows], T if with_tasks else None, constant=constant)


def about_means(matrix, constant):
    return matrix - matrix.mean(axis=0) if constant else matrix


def with_ones(tasks, constant):
    if constant:
        return np.column_stack([about_means(tasks, True), np.ones(len(tasks))])
    return tasks


def add_rows(state, Phi, Y):
    return merge(state, collect(Phi, Y, constant=state.has_constant))


def remove_rows(state, Phi, Y):
    return merge(state, collect(Phi, Y, constant=state.has_constant), -1)


def same_rows(first, second):
    return first.everyone.has_rows_of(second.everyone)


def parts_of(state):
    """Return the arrays of statistics of complete labels."""
    (group,) = state.groups
    sums = state.task_sums
    return {
        **{name: getattr(group, name) for name in ("gram", "cross", "label_mean", "mean")},
        "tasks": state.tasks,
        "task_gram": None if sums is None else sums.gram,
        "task_mean": None if sums is None else sums.mean,
    }


def level_of(state):
    return state.over_tasks(state.groups[0].label_mean[None, :])[0]


def assert_same(found, wanted, rtol=1e-12):
    assert (found.n_rows, found.n_tasks) == (wanted.n_rows, wanted.n_tasks)
    assert found.is_complete
    for (name, first), second in zip(
        parts_of(found).items(), parts_of(wanted).values(), strict=True
    ):
        assert (first is None) == (second is None)
        if first is not None and name in ("mean", "task_mean"):
            first = first.sum(axis=0)
            second = second.sum(axis=0)
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
def test_what_rows_say(data, with_tasks, constant, wrap_X, wrap_Y, block, monkeypatch):
    monkeypatch.setattr(statistics, "row_blocks", lambda n, *_: slices(n, block))
    X, Y, T = data
    found = collected((wrap_X(X), wrap_Y(Y), T), with_tasks, constant)
    means = X.mean(axis=0)
    label_means = Y.mean(axis=0)
    right = with_ones(T, constant)
    X = about_means(X, constant)
    T = about_means(T, constant)
    assert_allclose(found.gram, X.T @ X, atol=1e-12)
    cross = found.groups[0].cross
    assert_allclose(cross, X.T @ Y, atol=1e-12)
    assert_allclose(found.over_tasks(cross), X.T @ Y @ right if with_tasks else X.T @ Y, atol=1e-12)
    if constant:
        assert_allclose(found.mean.sum(axis=0), means, rtol=1e-14)
        assert_allclose(
            level_of(found), label_means @ right if with_tasks else label_means, atol=1e-13
        )
    assert isinstance(found.gram, np.ndarray)
    assert isinstance(cross, np.ndarray)
    if not with_tasks:
        assert found.tasks is None
        assert found.task_sums is None
    else:
        assert_allclose(found.task_sums.gram, T.T @ T, atol=1e-12)


@over(every(constant=[False, True]))
def test_nothing_stays_of_rows_that_are_all_gone(data, constant):
    X, Y, T = data
    empty = remove_rows(collect(X, Y, T, constant=constant), X[::-1], Y[::-1])
    assert empty.n_rows == 0
    assert not empty.gram.any()
    assert not empty.groups[0].cross.any()
    assert_same(add_rows(empty, X, Y), collect(X, Y, T, constant=constant))
    if constant:
        assert_array_equal(
            add_rows(empty, X + 1e6, Y).mean, collect(X + 1e6, Y, T, constant=True).mean
        )


@over(every(constant=[False, True]))
def test_rows_that_were_never_there_cannot_be_removed(data, constant):
    X, Y, T = data
    seen = collect(X, Y, T, constant=constant)
    if constant:  # what is the same about its mean is not the same
        for shifted in (X + 1, X[:4] + 5):
            with pytest.raises(ValueError, match="not learned as they are given here"):
                remove_rows(seen, shifted, Y[: len(shifted)])
    with pytest.raises(ValueError, match="12 instances to forget, but only 11 were learned"):
        remove_rows(seen, np.vstack([X, X[:1]]), np.vstack([Y, Y[:1]]))
    with pytest.raises(ValueError, match="not learned as they are given here"):
        remove_rows(seen, 5 * X[:2], Y[:2])
    with pytest.raises(ValueError, match="not learned as they are given here"):
        remove_rows(seen, X / 2, Y)


@over(every(offset=[0.0, 2.0**20]))
def test_large_offsets_take_no_digits(offset):
    rng = default_rng(0)
    # Numbers that the offset does not round.
    near = [
        np.round(rng.normal(size=shape) * 2**12) / 2**12 for shape in ((400, D), (400, Q), (Q, R))
    ]
    X, Y, T = (part + offset for part in near)
    state = collect(X[:9], Y[:9, :4], T[:4], constant=True)
    for start in range(9, 400, 17):
        state = add_rows(state, X[start : start + 17], Y[start : start + 17, :4])
    state = state.with_tasks(collect(X, Y[:, 4:], T[4:], constant=True))
    for start in range(0, 200, 8):
        state = remove_rows(state, X[start : start + 8], Y[start : start + 8])
    wanted = collect(near[0][200:], near[1][200:], near[2], constant=True)
    for name in ("gram", "cross", "task_gram"):
        found, expected = (parts_of(each)[name] for each in (state, wanted))
        # Means of labels are as large as their offset, and rounded so.
        rounding = 1e-9 if name == "cross" and offset else 1e-12
        assert_allclose(found, expected, rtol=0, atol=rounding * np.abs(expected).max())
    for found, expected in ((state.mean, wanted.mean), (state.task_mean, wanted.task_mean)):
        assert_allclose((found[0] - offset) + found[1], expected.sum(axis=0), rtol=0, atol=1e-14)
    found = level_of(state)
    expected = level_of(wanted)
    assert_allclose(found[:-1], expected[:-1], rtol=0, atol=1e-15 * max(offset, 10))
    assert_allclose(found[-1] - Q * offset, expected[-1], rtol=0, atol=1e-15 * Q * max(offset, 10))


def test_a_sparse_feature_that_never_changes_is_not_learnt_from():
    rng = default_rng(0)
    X = np.column_stack([rng.random(300) < 0.3, np.full(300, 0.7), rng.random(300) < 0.1]).astype(
        float
    )
    Y = rng.normal(size=(300, 2)) + 5
    for labels in (Y, sparse.csr_array(Y)):
        found = collect(sparse.csr_array(X), labels, constant=True)
        assert not found.gram[1].any()
        assert not found.gram[:, 1].any()
        assert not found.groups[0].cross[1].any()
        about = X - X.mean(axis=0)
        assert_allclose(found.gram[::2, ::2], (about.T @ about)[::2, ::2], rtol=1e-12)
        assert_allclose(found.groups[0].cross[::2], (about.T @ Y)[::2], rtol=1e-9)


@over(every(constant=[False, True]))
def test_rows_are_recognised_by_small_features_beside_large_ones(constant):
    rng = default_rng(0)
    X = rng.normal(size=(10, 2)) * [1e8, 1.0]
    Y = rng.normal(size=(10, 1))
    seen = collect(X, Y, constant=constant)
    other = X.copy()
    other[3, 1] += 20.0
    with pytest.raises(
        ValueError, match="X holds instances that were not learned as they are given here"
    ):
        remove_rows(seen, other[:4], Y[:4])
    for all_but in (0, 1):
        assert remove_rows(seen, X[all_but:], Y[all_but:]).n_rows == all_but
    assert not same_rows(collect(other, Y, constant=constant), seen)
    assert same_rows(collect(X[::-1], Y, constant=constant), seen)
    if constant:
        assert not same_rows(collect(X + np.array([0.0, 1e-3]), Y, constant=True), seen)


def test_what_a_large_feature_leaves_of_a_small_one_is_told():
    X = np.array([[1e8, 1e6], [1e8, -1.0], [-1e8, 1.0], [3e8, 2.0]])
    Y = np.ones((4, 1))
    before = collect(X, Y)
    after = remove_rows(before, X[:1], Y[:1])
    assert before.digits_lost(after, 0.0) == pytest.approx(2.2e-16 * 1e12 / 6, rel=0.1)


def test_equal_rows_can_be_removed_when_all_others_have_gone(data):
    X, Y, T = data
    for number in (0.0, 1 / 3, 1e6):
        same = np.full((4, D), number)
        left = remove_rows(
            collect(np.vstack([same, X]), np.vstack([Y[:4], Y]), T, constant=True), X, Y
        )
        for count in (3, 2, 1):
            left = remove_rows(left, same[:1], Y[count : count + 1])
            assert not left.gram.any()
        assert_allclose(
            level_of(left), level_of(collect(same[:1], Y[:1], T, constant=True)), rtol=0, atol=1e-12
        )

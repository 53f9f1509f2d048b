"""Two-step ridge regression that follows its data."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import problems
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.growing.statistics import collect
from dyadlearn.growing.two_step import OnlineRidge
from sweeps import covering, every, lines, over
from two_ridges import check, labels_with_holes

constants = {"constant": {"no constant": False, "constant": True}}


@over(lines("n_batches window constant", (300, False, False), (150, True, True)))
def test_hundreds_of_batches_of_one_row(n_batches, window, constant):
    rng = np.random.default_rng(0)
    d = 8
    start = 12 if window else 30
    X = rng.normal(size=(start + n_batches, d)) * 10.0 ** rng.uniform(
        -1.5, 1.5, size=(start + n_batches, 1)
    )
    Y = rng.normal(size=(len(X), 3))
    T = rng.normal(size=(3, 2))
    model = OnlineRidge(collect(X[:start], Y[:start], T, constant=constant), 0.1, 0.5)
    for step in range(n_batches):
        new = slice(start + step, start + step + 1)
        model = model.with_rows(X[new], Y[new])
        if window:
            model = model.with_rows(X[step : step + 1], Y[step : step + 1], -1)
    rows = slice(n_batches if window else 0, None)
    check(model, X[rows], Y[rows], T, alpha=0.1, task_alpha=0.5, constant=constant)


@over(
    covering(
        with_tasks=[True, False],
        **constants,
        alphas=[(0.3, 0.7), (0.0, 0.0), (1e-5, 1e6), (1e7, 1e-5)],
        shape=[(20, 4, 7, 3), (6, 9, 5, 6)],
        wrap=[np.asarray, sparse.csr_array],
        offset=[0.0, 30.0],
    )
)
def test_every_step_equals_refitting(with_tasks, constant, alphas, shape, wrap, offset):
    X, Y, T = labels_with_holes(shape, offset=offset * constant)
    tasks = T if with_tasks else None
    options = {"alpha": alphas[0], "task_alpha": alphas[1], "constant": constant}
    few = len(X) // 3
    model = OnlineRidge(collect(wrap(X[:few]), Y[:few], tasks, constant=constant), *alphas)
    check(model, X[:few], Y[:few], tasks, **options)
    model = model.with_rows(wrap(X[few:-1]), Y[few:-1])
    check(model, X[:-1], Y[:-1], tasks, **options)
    before = model.coefficients.copy()
    full = np.where(np.isnan(Y[-1:]), offset * constant, Y[-1:])
    later = model.with_rows(wrap(X[-1:]), full)
    check(later, X, np.vstack([Y[:-1], full]), tasks, **options)
    assert_array_equal(model.coefficients, before)
    left = later.with_rows(wrap(X[1:4]), Y[1:4], -1)
    kept = np.delete(np.arange(len(X)), range(1, 4))
    check(left, X[kept], np.vstack([Y[:-1], full])[kept], tasks, **options)
    back = left.with_rows(X[-1:], full, -1)
    check(back, X[kept[:-1]], Y[kept[:-1]], tasks, **options)
    fewer = back.of(back.statistics.without_tasks(np.array([0, 3])))
    columns = np.delete(np.arange(Y.shape[1]), [0, 3])
    few = X[kept[:-1]], Y[kept[:-1]][:, columns], None if tasks is None else T[columns]
    check(fewer, *few, **options)
    other = fewer.with_alphas((2.0, 0.1))
    check(other, *few, alpha=2.0, task_alpha=0.1, constant=constant)
    assert other.with_alphas((2.0, 0.1)) is other


@over(every(**constants, with_tasks=[True, False]))
def test_complete_labels_are_one_group_until_one_is_missing(constant, with_tasks):
    X, Y, T = problems.data(20, 6)
    tasks = T if with_tasks else None
    complete = OnlineRidge(collect(X, Y, tasks, constant=constant), 0.3, 0.7)
    assert len(complete.statistics.groups) == 1
    check(complete, X, Y, tasks, alpha=0.3, task_alpha=0.7, constant=constant)
    assert complete.with_rows(X[:2], Y[:2]).statistics.is_complete
    # Tasks that the batch says nothing of cost nothing: their Gram matrix is the one that was
    # there.
    one = np.full((1, 6), np.nan)
    one[0, 2] = 1.0
    after = complete.with_rows(X[:1], one).statistics
    assert not after.is_complete
    assert len(after.groups) == 2
    assert sum(group.gram is complete.statistics.gram for group in after.groups) == 1


def unsolved(model):
    """Return the tasks whose coefficients are not known yet."""
    known = model.statistics
    return sorted(
        int(task)
        for group, own in zip(known.groups, known.members, strict=True)
        if "_solved" not in vars(group)
        for task in own
    )


def test_only_tasks_with_new_labels_are_solved_again():
    X, Y, _ = labels_with_holes()
    model = OnlineRidge(collect(X, Y, constant=True), 0.3)
    weights = model.weights
    one = np.full((1, Y.shape[1]), np.nan)
    one[0, 2] = 1.0
    later = model.with_rows(X[:1], one)
    assert unsolved(later) == [2]
    assert_array_equal(np.delete(later.weights, 2, axis=1), np.delete(weights, 2, axis=1))
    assert np.all(later.weights[:, 2] != weights[:, 2])
    assert unsolved(later) == []
    # Never asked in between, two changes are one.
    twice = later.with_rows(X[1:2], one).with_rows(X[2:3], np.roll(one, 1))
    assert unsolved(twice) == [2, 3]
    again = np.vstack([Y, one, one, np.roll(one, 1)])
    check(twice, np.vstack([X, X[:3]]), again, None, alpha=0.3, task_alpha=0.0, constant=True)


def test_what_was_not_learnt_cannot_be_forgotten():
    X, Y, _ = labels_with_holes()
    for constant in (False, True):
        model = OnlineRidge(collect(X[:6], Y[:6], constant=constant), 0.3)
        with pytest.raises(
            ValueError, match="There are 7 instances to forget, but only 6 were learned"
        ):
            model.with_rows(X[:7], Y[:7], -1)
        labels = np.full((2, Y.shape[1]), np.nan)
        labels[:, -2] = 1.5
        with pytest.raises(
            ValueError, match=r"There are 2 labels of a task to forget, but only 1 were learned"
        ):
            model.with_rows(X[2:4], labels, -1)
        with pytest.raises(
            ValueError, match="instances that were not learned as they are given here"
        ):
            model.with_rows(9 * X[:1], Y[:1], -1)


def test_few_digits_are_warned_of_once():
    X = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    for Y in (np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[1.0, 2.0], [3.0, np.nan]])):
        model = OnlineRidge(collect(X, Y), 1e-18)
        with pytest.warns(
            PrecisionWarning, match="a regularisation of 1e-18 is smaller than the rounding errors"
        ):
            model.coefficients  # noqa: B018
        assert model.with_rows(X, Y).coefficients.shape == (3, 2)  # warnings are errors
        assert model.with_alphas((1e-19, 1.0)).coefficients.shape == (3, 2)

"""Labels with holes: every task from the instances it is observed for, against ridge regressions one by one."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import Tikhonov
from dyadlearn.growing import holdout
from dyadlearn.growing.holdout import leverage_and_slack, online_holdout, online_squared_errors, side_of_rows
from dyadlearn.growing.inverse import Eigen
from dyadlearn.growing.statistics import collect, merge
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.settings import Setting
from sweeps import covering, every, over

constants = {"constant": {"no constant": False, "constant": True}}


def ridge(rows, labels, alpha, constant):
    """Return coefficients (d,) and the constant of one ridge regression, as its definition reads."""
    mean, level = (rows.mean(axis=0), labels.mean()) if constant else (np.zeros(rows.shape[1]), 0.0)
    about = np.vstack([rows - mean, alpha**0.5 * np.eye(rows.shape[1])])
    w = np.linalg.lstsq(about, np.append(labels - level, np.zeros(rows.shape[1])), rcond=1e-13)[0]
    return w, level - mean @ w


def twin(X, Y, T, new, new_tasks, alpha, task_alpha, constant):
    """Predict in two steps, one ridge regression a task and then one an instance, in the obvious way."""
    first = np.full((len(new), Y.shape[1]), np.nan)
    for j, labels in enumerate(Y.T):
        seen = ~np.isnan(labels)
        if seen.any():
            w, b = ridge(X[seen], labels[seen], alpha, constant)
            first[:, j] = new @ w + b
        elif not constant:
            first[:, j] = 0.0
    if T is None:
        return first
    labelled = ~np.isnan(Y).all(axis=0)
    if not labelled.any():
        return np.full((len(new), len(new_tasks)), np.nan if constant else 0.0)
    found = [ridge(T[labelled], row[labelled], task_alpha, constant) for row in first]
    return np.array([new_tasks @ w + b for w, b in found])


def problem(shape=(20, 4, 7, 3), holes=0.4, seed=0, offset=0.0):
    """Return instances, labels with holes and tasks; the last task but one has one label, the last none."""
    m, d, q, r = shape
    rng = np.random.default_rng(seed)
    X, Y, T = rng.normal(size=(m, d)), rng.normal(size=(m, q)), rng.normal(size=(q, r))
    Y[rng.random((m, q)) < holes] = np.nan
    Y[:, 1] = np.where(np.isnan(Y[:, 0]), np.nan, Y[:, 1])  # two that are observed together
    Y[:, 0] = np.where(np.isnan(Y[:, 1]), np.nan, Y[:, 0])
    Y[:, -2:] = np.nan
    Y[3, -2] = 1.5
    return X + offset, Y + offset, T + offset


def predicted(model, new, new_tasks):
    half = model.rows(new) @ model.coefficients
    return half if new_tasks is None else half @ model.statistics.rows_of_tasks(new_tasks).T


def check(model, X, Y, T, **options):
    rng = np.random.default_rng(5)
    new, new_tasks = (
        rng.normal(size=(3, X.shape[1])),
        None if T is None else np.vstack([T, rng.normal(size=(2, T.shape[1]))]),
    )
    found = predicted(model, new, new_tasks)
    wanted = twin(X, Y, T, new, new_tasks, *options.values())
    assert_allclose(found, wanted, rtol=1e-8, atol=1e-9)
    assert_allclose(predicted(model, sparse.csr_array(new), new_tasks), wanted, rtol=1e-8, atol=1e-9)
    interactions, instances, tasks, level = model.effects
    if T is None:
        assert_allclose(new @ interactions + (0 if level is None else level), wanted, rtol=1e-7, atol=1e-8)
    else:
        half = new @ interactions + (0 if tasks is None else tasks)
        whole = half @ new_tasks.T + (0 if instances is None else (new @ instances)[:, None] + level)
        assert_allclose(whole, wanted, rtol=1e-7, atol=1e-8)


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
    X, Y, T = problem(shape, offset=offset * constant)
    tasks, options = T if with_tasks else None, {"alpha": alphas[0], "task_alpha": alphas[1], "constant": constant}
    few = len(X) // 3
    model = OnlineRidge.start(collect(wrap(X[:few]), Y[:few], tasks, constant=constant), *alphas)
    check(model, X[:few], Y[:few], tasks, **options)
    model = model.with_rows(wrap(X[few:-1]), Y[few:-1])
    check(model, X[:-1], Y[:-1], tasks, **options)
    before = model.coefficients.copy()
    full = np.where(np.isnan(Y[-1:]), offset * constant, Y[-1:])
    later = model.with_rows(wrap(X[-1:]), full)
    check(later, X, np.vstack([Y[:-1], full]), tasks, **options)
    assert_array_equal(model.coefficients, before)
    left = later.without_rows(wrap(X[1:4]), Y[1:4])
    kept = np.delete(np.arange(len(X)), range(1, 4))
    check(left, X[kept], np.vstack([Y[:-1], full])[kept], tasks, **options)
    back = left.without_rows(X[-1:], full)
    check(back, X[kept[:-1]], Y[kept[:-1]], tasks, **options)
    fewer = back.without_tasks(np.array([0, 3]))
    columns = np.delete(np.arange(Y.shape[1]), [0, 3])
    check(fewer, X[kept[:-1]], Y[kept[:-1]][:, columns], None if tasks is None else T[columns], **options)
    other = fewer.with_alphas(2.0, 0.1)
    check(
        other,
        X[kept[:-1]],
        Y[kept[:-1]][:, columns],
        None if tasks is None else T[columns],
        alpha=2.0,
        task_alpha=0.1,
        constant=constant,
    )
    assert other.with_alphas(2.0, 0.1) is other


@over(every(**constants, with_tasks=[True, False]))
def test_complete_labels_are_one_group_until_one_is_missing(constant, with_tasks):
    rng = np.random.default_rng(0)
    X, Y, T = rng.normal(size=(20, 4)), rng.normal(size=(20, 6)), rng.normal(size=(6, 3))
    tasks = T if with_tasks else None
    complete = OnlineRidge.start(collect(X, Y, tasks, per_task=True, constant=constant), 0.3, 0.7)
    assert len(complete.statistics.groups) == 1
    check(complete, X, Y, tasks, alpha=0.3, task_alpha=0.7, constant=constant)
    assert complete.with_rows(X[:2], Y[:2]).statistics.is_complete
    holes = np.where(rng.random((2, 6)) < 0.5, np.nan, Y[:2])
    later = complete.with_rows(X[:2], holes)
    check(later, np.vstack([X, X[:2]]), np.vstack([Y, holes]), tasks, alpha=0.3, task_alpha=0.7, constant=constant)
    # Tasks that the batch says nothing of cost nothing: their Gram matrix is the one that was there.
    one = np.full((1, 6), np.nan)
    one[0, 2] = 1.0
    after = complete.with_rows(X[:1], one).statistics
    assert not after.is_complete
    assert len(after.groups) == 2
    assert sum(group.gram is complete.statistics.gram for group in after.groups) == 1


def test_mixed_tasks_cannot_have_holes():
    rng = np.random.default_rng(0)
    X, Y, T = rng.normal(size=(20, 4)), rng.normal(size=(20, 6)), rng.normal(size=(6, 3))
    model = OnlineRidge.start(collect(X, Y, T, constant=True), 0.3, 0.7)
    with pytest.raises(ValueError, match=r"mixed by their features.*keep_tasks=True"):
        model.with_rows(X[:1], np.full((1, 6), np.nan))


def test_only_tasks_with_new_labels_are_solved_again():
    X, Y, _ = problem()
    model = OnlineRidge.start(collect(X, Y, constant=True), 0.3)
    weights = model.weights
    one = np.full((1, Y.shape[1]), np.nan)
    one[0, 2] = 1.0
    later = model.with_rows(X[:1], one)
    assert_array_equal(np.isnan(later.solved[0]), np.arange(Y.shape[1]) == 2)
    assert_array_equal(np.delete(later.weights, 2, axis=1), np.delete(weights, 2, axis=1))
    assert np.all(later.weights[:, 2] != weights[:, 2])
    # Never asked in between, two changes are one.
    twice = later.with_rows(X[1:2], one).with_rows(X[2:3], np.roll(one, 1))
    assert_array_equal(np.flatnonzero(np.isnan(twice.solved[0])), [2, 3])
    again = np.vstack([Y, one, one, np.roll(one, 1)])
    check(twice, np.vstack([X, X[:3]]), again, None, alpha=0.3, task_alpha=0.0, constant=True)


@over(every(**constants, same=[True, False]))
def test_labels_are_exchanged(constant, same):
    X, Y, T = problem()
    model = OnlineRidge.start(collect(X, Y, T, constant=constant), 0.3, 0.7)
    if same:
        model.coefficients  # noqa: B018, what was solved is taken over
    old, new = (np.full((2, Y.shape[1]), np.nan) for _ in range(2))
    wanted = Y.copy()
    for row, i in enumerate((4, 7)):
        seen, hole = np.flatnonzero(~np.isnan(Y[i]))[0], np.flatnonzero(np.isnan(Y[i]))[0]
        old[row, seen], new[row, seen], new[row, hole] = Y[i, seen], 3.0, -1.0
        wanted[i, [seen, hole]] = 3.0, -1.0
    model = model.with_labels(X[[4, 7]], old, -1).with_labels(X[[4, 7]], new)
    assert model.statistics.n_rows == len(X)
    check(model, X, wanted, T, alpha=0.3, task_alpha=0.7, constant=constant)


@over(every(**constants))
def test_tasks_with_holes_join(constant):
    X, Y, T = problem()
    seen = [collect(X, Y[:, part], T[part], constant=constant) for part in (slice(0, 3), slice(3, None))]
    model = OnlineRidge.start(seen[0], 0.3, 0.7)
    model.coefficients  # noqa: B018
    model = model.with_tasks(seen[1])
    check(model, X, Y, T, alpha=0.3, task_alpha=0.7, constant=constant)
    assert_allclose(
        OnlineRidge.start(seen[0].with_tasks(seen[1]), 0.3, 0.7).coefficients, model.coefficients, rtol=1e-9, atol=1e-12
    )


def test_what_was_not_learnt_cannot_be_forgotten():
    X, Y, _ = problem()
    for constant in (False, True):
        model = OnlineRidge.start(collect(X[:6], Y[:6], constant=constant), 0.3)
        with pytest.raises(ValueError, match="There are 7 instances to forget, but only 6 were learnt"):
            model.without_rows(X[:7], Y[:7])
        labels = np.full((2, Y.shape[1]), np.nan)
        labels[:, -2] = 1.5
        with pytest.raises(ValueError, match=r"There are 2 labels of a task to forget, but only 1 were learnt"):
            model.without_rows(X[2:4], labels)
        with pytest.raises(ValueError, match="instances that were not learnt as they are given here"):
            model.without_rows(9 * X[:1], Y[:1])


def held_out(X, Y, T, alpha, task_alpha, constant, setting):
    """Return hold-out predictions by refitting for every cell."""
    found = np.full(Y.shape, np.nan)
    for i in range(len(X)):
        for j in range(Y.shape[1]):
            rows = np.delete(np.arange(len(X)), i) if setting.new_instance else np.arange(len(X))
            columns = np.delete(np.arange(len(Y.T)), j) if setting.new_task else np.arange(len(Y.T))
            labels = Y.copy()
            if setting is Setting.A or T is None:
                labels[i, j] = np.nan
            labels = labels[np.ix_(rows, columns)]
            tasks, new_task = (None, None) if T is None else (T[columns], T[[j]])
            row = twin(X[rows], labels, tasks, X[[i]], new_task, alpha, task_alpha, constant)
            found[i, j] = row[0, j] if T is None else row[0, 0]
    return found


@over(
    covering(
        **constants,
        setting=[*Setting, None],
        alphas=[(0.3, 0.7), (1e-6, 1e4), (1e5, 1e-3)],
        shape=[(9, 3, 7, 3), (9, 12, 6, 8)],
        wrap=[np.asarray, sparse.csr_array],
        level=[0.0, 100.0],
    )
)
def test_holdout_equals_refitting(constant, setting, alphas, shape, wrap, level):
    X, Y, T = problem(shape)
    Y = Y + level * constant
    Y[5, 4], Y[[*range(5), *range(6, len(X))], 4] = 2.0 + level * constant, np.nan  # a second lone label
    tasks = None if setting is None else T
    wanted = held_out(X, Y, tasks, *alphas, constant, setting or Setting.B)
    model = OnlineRidge.start(collect(X[:6], Y[:6], tasks, constant=constant), *alphas).with_rows(X[6:], Y[6:])
    some = [8, 3, 5, 0]
    setting = setting or Setting.B
    assert_allclose(online_holdout(model, wrap(X), Y, setting), wanted, rtol=1e-7, atol=1e-7)
    assert_allclose(online_holdout(model, wrap(X[some]), Y[some], setting), wanted[some], rtol=1e-7, atol=1e-7)
    if setting is Setting.A or not constant:
        return
    errors = online_squared_errors(model, wrap(X), Y, [5.0, alphas[0]], [alphas[1]], setting)
    scored = ~np.isnan(Y) & ~np.isnan(wanted)
    assert_allclose(np.ravel(errors)[1], np.mean((wanted - Y)[scored] ** 2), rtol=1e-6)


def test_holdout_of_one_row_that_has_all_lone_labels():
    X, T = np.arange(8.0).reshape(4, 2), np.array([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
    Y = np.full((4, 3), np.nan)
    Y[1] = 1.0, 2.0, 4.0
    for constant in (True, False):
        model = OnlineRidge.start(collect(X, Y, T, constant=constant), 0.3, 0.7)
        for setting in (Setting.B, Setting.D):
            wanted = held_out(X, Y, T, 0.3, 0.7, constant, setting)
            assert_allclose(online_holdout(model, X, Y, setting)[1], wanted[1], atol=1e-12)
            assert np.isnan(wanted[1]).all() == constant


def test_labels_that_are_not_those_that_were_learnt_cannot_be_left_out():
    X, Y, _ = problem()
    model = OnlineRidge.start(collect(X, Y), 0.3)
    wrong = Y.copy()
    i = int(np.flatnonzero(~np.isnan(Y[:, 0]))[0])
    wrong[i, 0] = np.nan  # of two tasks that were always observed together
    with pytest.raises(ValueError, match=f"such as those of row {i}: give them as they were learnt"):
        online_holdout(model, X, wrong, Setting.B)
    with pytest.raises(ValueError, match="labels that were not learnt"):
        online_holdout(model, X, np.zeros_like(Y), Setting.B)


def test_the_worst_of_the_groups_tells_how_many_digits_are_lost():
    X, Y, _ = problem()
    X = np.vstack([X, 1e6 * X[:1]])
    Y = np.vstack([Y, np.full((1, Y.shape[1]), np.nan)])
    Y[-1, 2] = 1e3
    model = OnlineRidge.start(collect(X, Y, constant=True), 0.3)
    left = model.without_rows(X[-1:], Y[-1:])
    assert model.digits_lost(left) > 1e-7
    assert model.digits_lost(model.without_tasks(np.array([2]))) == 0.0
    assert left.digits_lost(left.without_rows(X[:1], Y[:1])) < 1e-10


def test_statistics_with_holes_join_in_any_order():
    X, Y, T = problem()
    parts = [collect(X[rows], Y[rows], T, constant=True) for rows in (slice(0, 5), slice(5, 12), slice(12, None))]
    whole = collect(X, Y, T, constant=True)
    for order in ([0, 1, 2], [2, 0, 1]):
        first, second, third = (parts[i] for i in order)
        found = merge(merge(first, second), third)
        assert_array_equal(found.counts, whole.counts)
        for j in range(Y.shape[1]):
            own, other = (seen.groups[seen.group_of[j]] for seen in (found, whole))
            assert_allclose(own.gram, other.gram, atol=1e-12)


@over(every(setting=[Setting.A, Setting.B, Setting.D]))
def test_blocks_of_rows_do_not_matter(setting, monkeypatch):
    X, Y, T = problem()
    model = OnlineRidge.start(collect(X, Y, T, constant=True), 0.3, 0.7)
    wanted = online_holdout(model, X, Y, setting)
    errors = online_squared_errors(model, X, Y, [0.3, 2.0], [0.7, 0.1], setting)
    monkeypatch.setattr(holdout, "_BLOCK", 1)
    assert_allclose(online_holdout(model, X, Y, setting), wanted, rtol=1e-12)
    assert_allclose(online_squared_errors(model, X, Y, [0.3, 2.0], [0.7, 0.1], setting), errors, rtol=1e-12)


@over(every(**constants, alpha=[0.0, 1e-3, 1.0, 1e6], shape=[(20, 4), (5, 9)]))
def test_all_penalties_at_once_weigh_as_one_by_one(constant, alpha, shape):
    rows = np.random.default_rng(0).normal(size=shape)
    about = rows - rows.mean(axis=0) * constant
    eigen = Eigen.of(about.T @ about, len(rows))
    side = side_of_rows(about @ eigen.vectors, eigen.values, len(rows), constant)
    leverage, slack, floors = leverage_and_slack(side, [0.5, alpha])
    smoother = side.smoother(Tikhonov(), alpha)
    assert_allclose(leverage[:, 1], smoother.leverage, rtol=1e-12)
    assert_allclose(slack[:, 1], smoother.slack, rtol=1e-12, atol=1e-15)
    assert floors[1] == smoother.slack_floor


def test_rows_that_are_fitted_whatever_their_label():
    X, Y, T = problem((6, 9, 5, 6))
    model = OnlineRidge.start(collect(X, Y, T), 0.0, 0.7)
    with pytest.raises(LeverageError, match="rows"):
        online_holdout(model, X, Y, Setting.B)
    model = OnlineRidge.start(collect(X, Y, T), 0.5, 0.0)
    with pytest.raises(LeverageError, match="tasks"):
        online_holdout(model, X, Y, Setting.C)

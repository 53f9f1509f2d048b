"""Two-step ridge regression that follows its data."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn.growing.inverse import SOLVERS, Explicit
from dyadlearn.growing.statistics import collect
from dyadlearn.growing.two_step import OnlineRidge
from sweeps import every, lines, over


def side_form(X, alpha, constant):
    """Return what takes labels to coefficients, with those of features as they come and of the constant."""
    if not constant:
        return np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T)
    mean = X.mean(axis=0)
    W = np.linalg.solve((X - mean).T @ (X - mean) + alpha * np.eye(X.shape[1]), (X - mean).T)
    return np.vstack([W, 1 / len(X) - mean @ W])


def closed_form(X, Y, T, alpha, task_alpha, constant=False):
    W = side_form(X, alpha, constant) @ Y
    return W if T is None else W @ side_form(T, task_alpha, constant).T


def in_one(model):
    """Return all coefficients of a model in one matrix, as `closed_form` does."""
    interactions, instances, tasks, constants = model.effects
    if constants is None:
        return interactions
    last = constants if tasks is None else np.append(tasks, constants)
    left = interactions if instances is None else np.column_stack([interactions, instances])
    return np.vstack([left, last])


@over(every(solver=SOLVERS, per_task=[False, True], constant=[False, True]))
def test_both_directions_alternate(solver, per_task, constant):
    rng = np.random.default_rng(0)
    X, Y, T = rng.normal(size=(40, 6)), rng.normal(size=(40, 9)), rng.normal(size=(9, 4))
    X, Y, T = (part + 3 * constant for part in (X, Y, T))

    def said(rows, columns):
        return collect(X[rows], Y[rows][:, columns], T[columns], per_task=per_task, constant=constant)

    start = collect(X[:20], Y[:20, :5], T[:5], per_task=per_task, constant=constant)
    model = OnlineRidge.start(start, 0.3, 0.7, solver=solver)
    steps = [
        (lambda m: m.with_rows(X[20:21], Y[20:21, :5]), slice(0, 21), range(5)),
        (lambda m: m.with_rows(X[21:], Y[21:, :5]), slice(0, 40), range(5)),
        (lambda m: m.with_tasks(said(slice(0, 40), range(5, 9))), slice(0, 40), range(9)),
        (lambda m: m.without_rows(X[:3], Y[:3]), slice(3, 40), range(9)),
        (lambda m: m.without_rows(X[3:10], Y[3:10]), slice(10, 40), range(9)),
        (
            lambda m: m.without_tasks(np.array([0, 1]), None if per_task else said(slice(10, 40), [0, 1])),
            slice(10, 40),
            range(2, 9),
        ),
    ]
    for change, rows, columns in steps:
        before, expected_before = model, model.coefficients.copy()
        model = change(model)
        columns = list(columns)
        wanted = closed_form(X[rows], Y[rows][:, columns], T[columns], 0.3, 0.7, constant)
        assert_allclose(in_one(model), wanted, rtol=1e-9, atol=1e-12)
        new, new_tasks = rng.normal(size=(3, 6)), rng.normal(size=(2, 4))
        found = model.rows(new) @ model.coefficients @ model.statistics.rows_of_tasks(new_tasks).T
        ones = [np.column_stack([part, np.ones(len(part))]) if constant else part for part in (new, new_tasks)]
        assert_allclose(found, ones[0] @ wanted @ ones[1].T, rtol=1e-9, atol=1e-12)
        found = model.rows(sparse.csr_array(new)) @ model.coefficients
        assert_allclose(found, model.rows(new) @ model.coefficients, rtol=1e-9, atol=1e-12)
        assert_allclose(before.coefficients, expected_before, rtol=0)
    again = model.with_alphas(2.0, 0.1)
    wanted = closed_form(X[10:], Y[10:, 2:], T[2:], 2.0, 0.1, constant)
    assert_allclose(in_one(again), wanted, rtol=1e-9, atol=1e-12)
    assert again.with_alphas(2.0, 0.1) is again


@over(lines("n_batches window constant", (500, False, False), (300, True, False), (150, True, True)))
def test_thousands_of_woodbury_batches(n_batches, window, constant):
    rng = np.random.default_rng(0)
    d, start = 8, 12 if window else 30
    X = rng.normal(size=(start + n_batches, d)) * 10.0 ** rng.uniform(-1.5, 1.5, size=(start + n_batches, 1))
    Y, T = rng.normal(size=(len(X), 3)), rng.normal(size=(3, 2))
    seen = collect(X[:start], Y[:start], T, constant=constant)
    model = OnlineRidge.start(seen, 0.1, 0.5, solver="woodbury")
    worst, made_anew = 0.0, 0
    for step in range(n_batches):
        new = slice(start + step, start + step + 1)
        model = model.with_rows(X[new], Y[new])
        if window:
            model = model.without_rows(X[step : step + 1], Y[step : step + 1])
        model.coefficients  # noqa: B018, the point is that somebody asks
        assert isinstance(model.inverse.settled, Explicit)
        worst = max(worst, model.inverse.settled.drift)
        made_anew += model.inverse.settled.drift == model.inverse.settled.fresh_drift
    rows = slice(n_batches if window else 0, None)
    wanted = closed_form(X[rows], Y[rows], T, 0.1, 0.5, constant)
    assert_allclose(in_one(model), wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
    assert 0 < worst < 1e-9
    if window:  # rows that leave take digits with them: unrepaired, the coefficients would be wrong by 1e-7
        assert 1 < made_anew < n_batches  # the first one is

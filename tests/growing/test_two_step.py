"""Two-step ridge regression that follows its data."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn.growing.inverse import SOLVERS, Explicit
from dyadlearn.growing.statistics import collect
from dyadlearn.growing.two_step import OnlineRidge
from sweeps import every, lines, over


def closed_form(X, Y, T, alpha, task_alpha):
    W = np.linalg.solve(X.T @ X + alpha * np.eye(X.shape[1]), X.T @ Y)
    return W if T is None else W @ T @ np.linalg.inv(T.T @ T + task_alpha * np.eye(T.shape[1]))


@over(every(solver=SOLVERS, per_task=[False, True]))
def test_both_directions_alternate(solver, per_task):
    rng = np.random.default_rng(0)
    X, Y, T = rng.normal(size=(40, 6)), rng.normal(size=(40, 9)), rng.normal(size=(9, 4))

    def cross(rows, columns):
        return X[rows].T @ Y[rows][:, columns] @ (np.eye(len(columns)) if per_task else T[columns])

    model = OnlineRidge.start(collect(X[:20], Y[:20, :5], T[:5], per_task=per_task), 0.3, 0.7, solver=solver)
    steps = [
        (lambda m: m.with_rows(X[20:], Y[20:, :5]), slice(0, 40), range(5)),
        (lambda m: m.with_tasks(T[5:], cross(slice(0, 40), range(5, 9))), slice(0, 40), range(9)),
        (lambda m: m.without_rows(X[:10], Y[:10]), slice(10, 40), range(9)),
        (
            lambda m: m.without_tasks(np.array([0, 1]), None if per_task else cross(slice(10, 40), [0, 1])),
            slice(10, 40),
            range(2, 9),
        ),
    ]
    for change, rows, columns in steps:
        before, expected_before = model, model.coefficients.copy()
        model = change(model)
        columns = list(columns)
        assert_allclose(
            model.coefficients, closed_form(X[rows], Y[rows][:, columns], T[columns], 0.3, 0.7), rtol=1e-9, atol=1e-12
        )
        assert_allclose(before.coefficients, expected_before, rtol=0)
    again = model.with_alphas(2.0, 0.1)
    assert_allclose(again.coefficients, closed_form(X[10:], Y[10:, 2:], T[2:], 2.0, 0.1), rtol=1e-9, atol=1e-12)
    assert again.with_alphas(2.0, 0.1) is again


@over(lines("n_batches window", (2_000, False), (1_000, True)))
def test_thousands_of_woodbury_batches(n_batches, window):
    rng = np.random.default_rng(0)
    d, start = 8, 12 if window else 30
    X = rng.normal(size=(start + n_batches, d)) * 10.0 ** rng.uniform(-1.5, 1.5, size=(start + n_batches, 1))
    Y, T = rng.normal(size=(len(X), 3)), rng.normal(size=(3, 2))
    model = OnlineRidge.start(collect(X[:start], Y[:start], T), 0.1, 0.5, solver="woodbury")
    worst = 0.0
    for step in range(n_batches):
        new = slice(start + step, start + step + 1)
        model = model.with_rows(X[new], Y[new])
        if window:
            model = model.without_rows(X[step : step + 1], Y[step : step + 1])
        model.coefficients  # noqa: B018, the point is that somebody asks
        assert isinstance(model.inverse.settled, Explicit)
        worst = max(worst, model.inverse.settled.drift)
    rows = slice(n_batches if window else 0, None)
    wanted = closed_form(X[rows], Y[rows], T, 0.1, 0.5)
    assert_allclose(model.coefficients, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())
    assert 0 < worst < 1e-9
    if window:  # rows that leave take digits with them: unrepaired, the coefficients would be wrong by 1e-7
        assert model.inverse.settled.n_refreshes > 0


@over(every(with_tasks=[True, False], wrap=[np.asarray, sparse.csr_array], perfect=[True, False]))
def test_squared_error(with_tasks, wrap, perfect):
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(40, 6)), rng.normal(size=(9, 4)) if with_tasks else np.eye(9)
    # Perfect labels leave nothing but cancellation to the closed form.
    Y = (
        X @ rng.normal(size=(6, T.shape[1])) @ T.T
        if perfect
        else rng.normal(size=(40, 9)) * (rng.random((40, 9)) < 0.3)
    )
    alpha = 1e-9 if perfect else 0.3
    model = OnlineRidge.start(collect(X, Y, T if with_tasks else None), alpha, alpha)
    F = X @ model.coefficients @ T.T
    assert_allclose(model.squared_error(wrap(X), wrap(Y)), np.sum((F - Y) ** 2), rtol=1e-6 if perfect else 1e-12)

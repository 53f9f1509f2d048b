"""Hold-out predictions of fitted estimators, and the check that users run on their own data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge, landscape, verify_holdout
from dyadlearn.exceptions import IdError, LeverageError
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.models.fitted import FittedRidge
from sweeps import every, lines, over

M = 6
Q = 5


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return rng.normal(size=(M, 4)), rng.normal(size=(Q, 3)), rng.normal(size=(M, Q))


MODELS = {
    "independent": IndependentTaskRidge(alpha=0.7),
    "independent rbf": IndependentTaskRidge(alpha=0.7, kernel="rbf"),
    "two-step": TwoStepRidge(alpha=0.7, task_alpha=0.3),
    "two-step rbf": TwoStepRidge(alpha=0.7, task_alpha=0.3, kernel="rbf", task_kernel="rbf"),
    "two-step iterated": TwoStepRidge(
        alpha=0.7, task_alpha=0.3, filter=IteratedTikhonov(2), task_filter=IteratedTikhonov(3)
    ),
    "kronecker": KroneckerRidge(alpha=0.7),
    "kronecker rbf": KroneckerRidge(alpha=0.7, kernel="rbf", task_kernel="rbf"),
    "independent paper": IndependentTaskRidge(alpha=0.7, fit_intercept=False),
    "two-step paper": TwoStepRidge(alpha=0.7, task_alpha=0.3, fit_intercept=False),
    "kronecker paper": KroneckerRidge(alpha=0.7, fit_intercept=False),
    "paper symmetric": TwoStepRidge(
        alpha=0.7, task_alpha=0.7, symmetry="symmetric", fit_intercept=False
    ),
    "symmetric": TwoStepRidge(alpha=0.7, task_alpha=0.7, kernel="rbf", symmetry="symmetric"),
    "antisymmetric": TwoStepRidge(alpha=0.7, task_alpha=0.7, symmetry="antisymmetric"),
}
LEGAL = [
    (name, setting) for name in MODELS for setting in ("AB" if name.startswith("ind") else "ABCD")
]


def fitted(name, data):
    X, tasks, Y = data
    model = clone(MODELS[name])
    if name.startswith("independent"):
        return model.fit(X, Y)
    if name.endswith("symmetric"):
        square = np.hstack([Y, Y[:, : M - Q]])
        return model.fit(X, square + (-1 if name == "antisymmetric" else 1) * square.T)
    return model.fit(X, Y, tasks=tasks)


# ---- frames


@pytest.fixture(params=["pandas", "polars"])
def frames(request, data):
    """Give (X, tasks, Y) as frames with ids, Y in an order of its own."""
    library = pytest.importorskip(request.param)
    X, tasks, Y = data
    row_ids = [f"r{i}" for i in range(M)]
    task_ids = [f"t{j}" for j in range(Q)]
    order = np.random.default_rng(1).permutation(M)
    task_order = np.random.default_rng(2).permutation(Q)
    tables = (
        (X, row_ids, list("abcd")),
        (tasks, task_ids, list("xyz")),
        (
            Y[np.ix_(order, task_order)],
            [row_ids[i] for i in order],
            [task_ids[j] for j in task_order],
        ),
    )
    if request.param == "pandas":
        made = [
            library.DataFrame(values, index=index, columns=columns)
            for values, index, columns in tables
        ]
    else:
        made = [
            library.DataFrame({"id": index} | dict(zip(columns, values.T, strict=True)))
            for values, index, columns in tables
        ]
    return request.param, made, (order, task_order)


def grid_of(frame):
    """Return the ids of the rows, of the columns and the values of a frame."""
    if hasattr(frame, "index"):
        return list(frame.index), list(frame.columns), frame.to_numpy()
    return frame["id"].to_list(), frame.columns[1:], frame.drop("id").to_numpy()


def test_groups_are_matched_by_id(data, frames):
    pandas = pytest.importorskip("pandas")
    _, (X, tasks, Y), _ = frames
    model = KroneckerRidge(alpha=0.7).fit(X, Y, tasks=tasks)
    rows, columns, _ = grid_of(Y)
    groups = pandas.Series(np.arange(M) // 2, index=[f"r{i}" for i in range(M)])
    task_groups = pandas.Series(np.arange(Q) % 3, index=[f"t{j}" for j in range(Q)])
    found = grid_of(model.holdout("D", groups=groups, task_groups=task_groups))[2]
    by_position = {
        "groups": groups[rows].to_numpy(),
        "task_groups": task_groups[columns].to_numpy(),
    }
    assert_allclose(found, grid_of(model.holdout("D", **by_position))[2], rtol=1e-12)
    assert (
        verify_holdout(model, "D", groups=groups, task_groups=task_groups, random_state=0) < 1e-11
    )
    cells = pandas.DataFrame(
        np.arange(M * Q).reshape(M, Q) % 4, index=groups.index, columns=task_groups.index
    )
    found = grid_of(model.holdout("A", cells=cells))[2]
    by_position = cells.loc[rows, columns].to_numpy()
    assert_allclose(found, grid_of(model.holdout("A", cells=by_position))[2], rtol=1e-9)
    assert verify_holdout(model, "A", cells=cells, random_state=0) < 1e-10
    with pytest.raises(IdError, match="groups"):
        model.holdout("B", groups=groups.rename(index={"r0": "other"}))


# ---- the check


LABELS = {
    "A": {"cells": np.arange(M * Q).reshape(M, Q) % 5},
    "B": {"groups": np.arange(M) // 3},
    "C": {"task_groups": list("aabbc")},
    "D": {"groups": np.arange(M) // 3, "task_groups": list("aabbc")},
}


@over(every(setting="ABCD", name=["two-step", "two-step iterated", "kronecker rbf"]))
def test_verify_holdout_with_groups(data, name, setting):
    model = fitted(name, data)
    assert verify_holdout(model, setting, random_state=0, **LABELS[setting]) < 1e-10
    # Other groups are other predictions, so it can tell.
    assert np.abs(model.holdout(setting, **LABELS[setting]) - model.holdout(setting)).max() > 1e-3


@over(lines("name setting", *LEGAL[::3]))
def test_verify_holdout_sees_a_wrong_shortcut(data, name, setting, monkeypatch):
    model = fitted(name, data)
    right = model.holdout(setting)
    monkeypatch.setattr(FittedRidge, "holdout", lambda *_, **__: right + 0.5)
    assert_allclose(verify_holdout(model, setting, n=3), 0.5, rtol=1e-9)


def test_verify_holdout_tries_as_many_cells_as_it_is_told(data, monkeypatch):
    model = fitted("two-step", data)
    one_wrong = model.holdout("B")
    one_wrong[3, 3] += 1.0
    monkeypatch.setattr(FittedRidge, "holdout", lambda *_, **__: one_wrong)
    assert_allclose(verify_holdout(model, "B", n=10**6), 1.0, rtol=1e-9)
    # One cell of 63 is wrong: drawing a few usually misses it, and the draw can be repeated.
    seeds = [verify_holdout(model, "B", n=2, random_state=seed) for seed in range(20)]
    assert sum(difference > 0.5 for difference in seeds) < 10
    assert seeds == [verify_holdout(model, "B", n=2, random_state=seed) for seed in range(20)]


def test_what_stands_alone_cannot_be_left_out():
    X = np.array([[1.0, 2.0]])
    T = np.array([[1.0], [2.0], [3.0]])
    row = np.array([[1.0, 2.0, 3.0]])
    column = np.array([[1.0], [2.0], [3.0]])
    network = TwoStepRidge(symmetry="symmetric").fit(np.eye(2), np.ones((2, 2)))
    refused = [
        *(
            (model.fit(X, row, tasks=T), setting)
            for model in (KroneckerRidge(), TwoStepRidge())
            for setting in "BD"
        ),
        *(
            (model.fit(T, column, tasks=X), setting)
            for model in (KroneckerRidge(), TwoStepRidge())
            for setting in "CD"
        ),
        (IndependentTaskRidge().fit(X, row), "B"),
        (IndependentTaskRidge().fit(X, row, sample_weight=np.array([[1.0, 2.0, 3.0]])), "B"),
        (
            IndependentTaskRidge(fit_intercept=False).fit(
                X, row, sample_weight=np.array([[1.0, 2.0, 3.0]])
            ),
            "B",
        ),
        (network, "D"),
    ]
    for model, setting in refused:
        with pytest.raises(ValueError, match="^No label remains to learn from"):
            model.holdout(setting)
    # Other pairs are left, or were never there, and tell nothing of this one where tasks are
    # independent.
    independent = IndependentTaskRidge(fit_intercept=False)
    assert_allclose(independent.fit(X, row[:, :1]).holdout("A"), np.zeros((1, 1)), atol=0)
    assert_allclose(independent.fit(X, row).holdout("A"), np.zeros((1, 3)), atol=0)
    with pytest.raises(LeverageError, match="^No label remains to learn from"):
        IndependentTaskRidge().fit(X, row).holdout("A")  # a constant needs a label
    with pytest.raises(ValueError, match="there is only 1 sample with labels"):
        landscape(
            TwoStepRidge().fit(X, row, tasks=T),
            alphas=[1.0],
            task_alphas=[1.0],
            setting="D",
            scoring="neg_mean_squared_error",
        )

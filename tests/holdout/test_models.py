"""Hold-out predictions of fitted estimators, and the check that users run on their own data."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

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


def test_without_tasks_the_model_is_independent(data):
    X, _, Y = data
    expected = IndependentTaskRidge(alpha=0.7).fit(X, Y).holdout("B")
    for model in (TwoStepRidge(alpha=0.7), KroneckerRidge(alpha=0.7)):
        model.fit(X, Y)
        for setting in "AB":
            assert_allclose(model.holdout(setting), expected, rtol=1e-12)
            assert verify_holdout(model, setting, random_state=0) < 1e-12
        for setting in "CD":
            with pytest.raises(ValueError, match=f"Setting {setting} .*tasks"):
                model.holdout(setting)
            with pytest.raises(ValueError, match=f"Setting {setting} .*tasks"):
                verify_holdout(model, setting)


def test_an_unfitted_model_is_refused():
    with pytest.raises(NotFittedError):
        TwoStepRidge().holdout("B")


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


def test_array_labels_in_an_array_out(data, frames):
    _, (X, tasks, _), _ = frames
    found = TwoStepRidge(alpha=0.7, task_alpha=0.3).fit(X, data[2], tasks=tasks).holdout("D")
    assert isinstance(found, np.ndarray)
    assert_allclose(found, fitted("two-step", data).holdout("D"), rtol=1e-10)


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


@over(every(n=[0, -1, 2.5, True, "3"]))
def test_verify_holdout_needs_cells(data, n):
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        verify_holdout(fitted("two-step", data), "B", n=n)


@over(
    lines(
        "setting arguments message",
        ("E", {}, "Unknown setting 'E'"),
        ("A", {"groups": np.zeros(M)}, "setting A"),
        ("B", {"cells": np.zeros((M, Q))}, "single pairs, and setting B leaves none out"),
        ("B", {"groups": np.zeros(M + 1)}, rf"groups .*{M} rows, found shape \({M + 1},\)"),
        ("D", {"task_groups": np.zeros(M)}, rf"task_groups .*{Q} rows, found shape \({M},\)"),
    )
)
@over(every(method=["holdout", "verify"]))
def test_bad_input_is_refused(data, method, setting, arguments, message):
    model = fitted("two-step", data)
    with pytest.raises(ValueError, match=message):
        verify_holdout(model, setting, **arguments) if method == "verify" else model.holdout(
            setting, **arguments
        )


@over(every(hole=[False, True]))
def test_a_fold_that_leaves_nothing_is_refused(hole):
    """One sentence, with and without a hole, for all models: noise of 1e-15 is no prediction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4, 2))
    T = rng.normal(size=(3, 2))
    Y = rng.normal(size=(4, 3))
    if hole:
        Y[1, 1] = np.nan
    models = [
        (
            IndependentTaskRidge().fit(X, Y),
            [("B", {"groups": np.zeros(4)}), ("A", {"cells": np.zeros((4, 3))})],
        ),
        *(
            (
                model.fit(X, Y, tasks=T),
                [
                    ("A", {"cells": np.zeros((4, 3))}),
                    ("B", {"groups": np.zeros(4)}),
                    ("C", {"task_groups": np.zeros(3)}),
                    ("D", {"groups": [0, 1, 2, 3], "task_groups": np.zeros(3)}),
                ],
            )
            for model in (KroneckerRidge(), TwoStepRidge())
        ),
    ]
    for model, folds in models:
        for setting, labels in folds:
            with pytest.raises(ValueError, match="^No label remains to learn from"):
                model.holdout(setting, **labels)


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

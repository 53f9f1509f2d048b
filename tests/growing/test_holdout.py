"""Hold-out predictions for rows of a stream, against models fitted without them."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

from dyadlearn import TwoStepRidge, landscape
from dyadlearn._array import slices
from dyadlearn.exceptions import LeverageError
from dyadlearn.growing import holdout
from dyadlearn.growing.holdout import online_holdout, online_squared_errors
from dyadlearn.growing.statistics import collect
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.settings import Setting
from sweeps import covering, every, over
from two_ridges import labels_with_holes, refitted_without

# Instances × features, tasks × features: primal, as many features as tasks, fewer rows than
# features.
SHAPES = [(30, 4, 9, 3), (25, 3, 5, 5), (5, 7, 4, 6)]
shapes = {"shape": SHAPES}
every_setting = {"setting": list(Setting)}
constants = {"constant": {"no constant": False, "constant": True}}


def problem(shape):
    m, d, q, r = shape
    rng = default_rng(0)
    return (
        rng.normal(size=(m, d)),
        rng.normal(size=(m, q)) * (rng.random((m, q)) < 0.6),
        rng.normal(size=(q, r)),
    )


def streamed(X, Y, T, alpha=0.3, task_alpha=0.7, constant=True):
    """Return a model that learnt the rows in two batches."""
    cut = len(X) // 2
    model = OnlineRidge(collect(X[:cut], Y[:cut], T, constant=constant), alpha, task_alpha)
    return model.with_rows(X[cut:], Y[cut:])


@over(
    covering(
        **shapes, **every_setting, **constants, wrap=[np.asarray, sparse.csr_array], block=[2, 100]
    )
)
def test_equals_the_batch_model(shape, setting, constant, wrap, block, monkeypatch):
    monkeypatch.setattr(holdout, "row_blocks", lambda n, *_: slices(n, block))
    X, Y, T = problem(shape)
    wanted = TwoStepRidge(0.3, 0.7, fit_intercept=constant).fit(X, Y, T).holdout(setting)
    found = online_holdout(streamed(X, Y, T, constant=constant), wrap(X), wrap(Y), setting)
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    some = [4, 1]
    found = online_holdout(
        streamed(X, Y, T, constant=constant), wrap(X[some]), wrap(Y[some]), setting
    )
    assert_allclose(found, wanted[some], rtol=1e-9, atol=1e-12)


@over(covering(**shapes, **every_setting, **constants, wrap=[np.asarray, sparse.csr_array]))
def test_squared_errors(shape, setting, constant, wrap):
    X, Y, T = problem(shape)
    alphas = [1e-3, 0.1, 10]
    task_alphas = [0.01, 5]
    batch = TwoStepRidge(fit_intercept=constant).fit(X, Y, T)
    wanted = landscape(batch, alphas=alphas, task_alphas=task_alphas, setting=[setting])[
        setting.value
    ]
    model = streamed(X, Y, T, constant=constant)
    found = online_squared_errors(model, wrap(X), wrap(Y), (alphas, task_alphas), setting)
    assert_allclose(found, -wanted, rtol=1e-8)
    if constant:  # of all labels alike
        model = streamed(X, Y + 1e4, T)
        found = online_squared_errors(model, wrap(X), Y + 1e4, (alphas, task_alphas), setting)
        assert_allclose(found, -wanted, rtol=1e-8)


@over(every(alpha=[1e-8, 1e-3, 1e8], **constants))
def test_digits_at_extreme_regularisation(alpha, constant):
    X, Y, T = problem((30, 4, 9, 3))
    for setting in Setting:
        wanted = TwoStepRidge(alpha, alpha, fit_intercept=constant).fit(X, Y, T).holdout(setting)
        found = online_holdout(streamed(X, Y, T, alpha, alpha, constant=constant), X, Y, setting)
        assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


def test_rows_that_are_interpolated():
    X = np.eye(3)
    Y = np.ones((3, 2))
    T = np.eye(2)
    model = OnlineRidge(collect(X, Y, T), 0.0, 0.0)
    for setting, what in (
        (Setting.B, "3 of 3 rows"),
        (Setting.C, "2 of 2 tasks"),
        (Setting.D, "rows"),
    ):
        with pytest.raises(LeverageError, match=what):
            online_holdout(model, X, Y, setting)
    with pytest.raises(LeverageError, match="6 of 6 cells"):
        online_holdout(model, X, Y, Setting.A)
    # With more rows than features nothing is interpolated, and λ = 0 is least squares.
    X, Y, T = problem((30, 4, 9, 3))
    for constant in (False, True):
        found = online_holdout(streamed(X, Y, T, 0.0, 0.0, constant=constant), X, Y, Setting.D)
        wanted = TwoStepRidge(0.0, 0.0, fit_intercept=constant).fit(X, Y, T).holdout("D")
        assert_allclose(found, wanted, atol=1e-10)


def test_a_row_or_a_task_that_alone_determines_the_constant():
    X, Y, T = problem((6, 4, 3, 2))
    single = OnlineRidge(collect(X[:1], Y[:1], T, constant=True), 1.0, 1.0)
    for setting in (Setting.B, Setting.D):
        with pytest.raises(LeverageError, match="^No label remains to learn from"):
            online_holdout(single, X[:1], Y[:1], setting)
    single = OnlineRidge(collect(X, Y[:, :1], T[:1], constant=True), 1.0, 1.0)
    with pytest.raises(LeverageError, match="^No label remains to learn from"):
        online_holdout(single, X, Y[:, :1], Setting.C)
    both = OnlineRidge(collect(X[:1], Y[:1, :1], T[:1], constant=True), 1.0, 1.0)
    with pytest.raises(LeverageError, match="^No label remains to learn from"):
        online_holdout(both, X[:1], Y[:1, :1], Setting.A)
    # Two rows determine it without each other: what one says of the other is its label.
    two = OnlineRidge(collect(X[:2], Y[:2], constant=True), 1.0)
    assert_allclose(online_holdout(two, X[:2], Y[:2], Setting.B), Y[1::-1], rtol=1e-10, atol=1e-12)


def test_rows_that_were_not_learnt():
    X, Y, T = problem((30, 4, 9, 3))
    for constant in (False, True):
        with pytest.raises(ValueError, match="learned no instances, or forgotten all"):
            online_holdout(
                streamed(X, Y, T, constant=constant).with_rows(X, Y, -1), X[:1], Y[:1], Setting.B
            )
    for constant in (False, True):
        with pytest.raises(ValueError, match="not learned, among them row 1"):
            online_holdout(
                streamed(X, Y, T, constant=constant),
                X[:3] * np.array([[1], [50], [1]]),
                Y[:3],
                Setting.B,
            )


@over(covering(constant=[False, True], holes=[False, True], alpha=[0.0, 1e-6, 1.0, 1e4]))
def test_features_of_any_scales(constant, holes, alpha, library):
    if library.dtype == "float32":
        return  # which cannot hold the features to nine digits
    rng = default_rng(0)
    scales, Z, Y = (
        10.0 ** np.array([8, -8, 0, 4]),
        rng.normal(size=(20, 4)),
        rng.normal(size=(20, 2)),
    )
    X = Z * scales
    if holes:
        Y[5:8, 1] = np.nan

    def without(row, task):
        """Return the prediction of a ridge regression on features of one scale, with as many penalties."""
        own = np.setdiff1d(np.flatnonzero(~np.isnan(Y[:, task])), [row])
        if constant:
            mean, level = (Z[own].mean(axis=0), Y[own, task].mean())
        else:
            mean, level = (0.0, 0.0)
        about = Z[own] - mean
        weights = np.linalg.solve(
            about.T @ about + np.diag(alpha / scales**2), about.T @ (Y[own, task] - level)
        )
        return level + (Z[row] - mean) @ weights

    wanted = np.array([[without(row, task) for task in range(2)] for row in range(20)])
    given = [library.asarray(part) for part in (X, Y)]
    model = OnlineRidge(collect(*given, constant=constant), alpha)
    found = library.to_numpy(online_holdout(model, *given, Setting.B))
    assert_allclose(found, wanted, rtol=0, atol=1e-9)
    error = np.nanmean((wanted - Y) ** 2)
    assert_allclose(
        online_squared_errors(model, *given, ([alpha], [1.0]), Setting.B), [error], rtol=1e-8
    )


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
    X, Y, T = labels_with_holes(shape)
    Y = Y + level * constant
    Y[5, 4], Y[[*range(5), *range(6, len(X))], 4] = (
        2.0 + level * constant,
        np.nan,
    )  # a second lone label
    tasks = None if setting is None else T
    wanted = refitted_without(X, Y, tasks, *alphas, constant, setting or Setting.B)
    model = OnlineRidge(collect(X[:6], Y[:6], tasks, constant=constant), *alphas).with_rows(
        X[6:], Y[6:]
    )
    some = [8, 3, 5, 0]
    setting = setting or Setting.B
    assert_allclose(online_holdout(model, wrap(X), Y, setting), wanted, atol=1e-7)
    assert_allclose(online_holdout(model, wrap(X[some]), Y[some], setting), wanted[some], atol=1e-7)
    if setting is Setting.A or not constant:
        return
    errors = online_squared_errors(model, wrap(X), Y, ([5.0, alphas[0]], [alphas[1]]), setting)
    scored = ~np.isnan(Y) & ~np.isnan(wanted)
    assert_allclose(np.ravel(errors)[1], np.mean((wanted - Y)[scored] ** 2), rtol=1e-6)


def test_labels_that_are_not_those_that_were_learnt_cannot_be_left_out():
    X, Y, _ = labels_with_holes()
    model = OnlineRidge(collect(X, Y), 0.3)
    wrong = Y.copy()
    i = int(np.flatnonzero(~np.isnan(Y[:, 0]))[0])
    wrong[i, 0] = np.nan  # of two tasks that were always observed together
    with pytest.raises(
        ValueError, match=f"such as those of row {i}: give them as they were learned"
    ):
        online_holdout(model, X, wrong, Setting.B)
    with pytest.raises(ValueError, match="labels that were not learned"):
        online_holdout(model, X, np.zeros_like(Y), Setting.B)

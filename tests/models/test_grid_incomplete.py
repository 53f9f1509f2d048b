"""What models say of missing labels: tasks without labels, iterations, networks, scores and memory."""

import tracemalloc

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning

import problems
from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.exceptions import NoLabelWarning
from sweeps import covering, every, over

M = 9
Q = 7
ALPHA = 0.5
TASK_ALPHA = 0.2
MODELS = [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]
every_model = {"Model": MODELS}
PAPER = {"fit_intercept": False}
every_pair_model = {"Model": [KroneckerRidge, TwoStepRidge]}


def make_data(m=M, q=Q, n_new=3):
    """Return features of m + n_new instances and q + n_new tasks, and labels (m, q)."""
    return problems.data(m, q, n_new=n_new)


def with_holes(Y, pattern):
    Y = Y.copy()
    if pattern.endswith("%"):
        share = int(pattern[:-1]) / 100
        places = default_rng(1).permutation(Y.size)
        Y.flat[places[: max(1, round(share * Y.size))]] = np.nan
    else:
        Y[[1, len(Y) - 2]] = np.nan
        Y[:, [0, Y.shape[1] - 3]] = np.nan
    return Y


def make_model(Model, kernel="linear", **params):
    if Model is not IndependentTaskRidge:
        params = {"task_kernel": kernel, "tol": 1e-12} | params
    if Model is TwoStepRidge:
        params = {"task_alpha": TASK_ALPHA} | params
    return Model(**({"alpha": ALPHA, "kernel": kernel} | params))


def close(found, expected):
    """Compare up to rounding of the largest entry."""
    assert_allclose(
        np.asarray(found, dtype=float),
        expected,
        rtol=0,
        atol=1e-8 * (np.abs(expected).max() or 1.0),
    )


# --- the same as the dense system ----------------------------------------------------------------


def test_an_independent_task_without_labels_is_predicted_zero_or_has_no_constant():
    X, Y, _ = make_data()
    holes = with_holes(Y, "rows and columns")
    rows = np.setdiff1d(np.arange(M), [1, M - 2])
    model = make_model(IndependentTaskRidge, "rbf", **PAPER).fit(X[:M], holes)
    assert_array_equal(model.predict(X)[:, [0, Q - 3]], 0.0)
    with pytest.warns(
        NoLabelWarning,
        match=rf"^2 of {Q} tasks \(positions 0, {Q - 3}\) have no label to estimate an",
    ) as caught:
        model = make_model(IndependentTaskRidge, "rbf").fit(X[:M], holes)
    assert caught[0].filename == __file__
    assert_array_equal(np.isnan(model.predict(X)).all(axis=0), np.isin(np.arange(Q), [0, Q - 3]))
    without = make_model(IndependentTaskRidge, "rbf").fit(X[rows], Y[rows])
    close(model.predict(X)[:, 1:3], without.predict(X)[:, 1:3])


@over(every(**every_pair_model))
def test_without_tasks_columns_are_independent(Model):
    X, Y, _ = make_data()
    Y = with_holes(Y, "50%")
    model, other = (make_model(cls).fit(X[:M], Y) for cls in (Model, IndependentTaskRidge))
    assert_array_equal(model.predict(X), other.predict(X))
    assert_array_equal(model.completed_, other.completed_)
    assert (model.n_iter_, model.residual_) == (1, 0.0)


# --- solving by iterations -----------------------------------------------------------------------

LARGE = make_data(45, 31, 0)
LARGE_HOLES = with_holes(
    LARGE[1], "77%"
)  # more missing (1024) and observed (256) cells than are solved for directly


@over(every(**every_pair_model))
def test_iterations_reach_the_tolerance_and_say_so(Model):
    X, _, T = LARGE
    exact, model, rough = (
        make_model(Model, "rbf", tol=tol).fit(X, LARGE_HOLES, T) for tol in (1e-13, 1e-11, 1e-2)
    )
    close(model.predict(X), exact.predict(X))
    assert 0 < model.residual_ <= 1e-11
    assert 1e-9 < rough.residual_ <= 1e-2
    assert 1 <= rough.n_iter_ < model.n_iter_ < exact.n_iter_


@over(every(**every_pair_model))
def test_too_few_iterations_are_told(Model):
    X, _, T = LARGE
    model = make_model(Model, "rbf", tol=1e-9, max_iter=2)
    message = (
        r"^Conjugate gradients stopped after 2 iterations at a relative residual of \S+, short of "
        r"tol=1e-09: raise "
        r"max_iter, tol or the regularisation\.$"
    )
    with pytest.warns(ConvergenceWarning, match=message) as told:
        model.fit(X, LARGE_HOLES, T)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert f"residual of {model.residual_:.1e}," in str(told[0].message)
    assert model.n_iter_ == 2
    assert model.residual_ > 1e-9
    assert np.isfinite(model.predict(X)).all()
    model.set_params(max_iter=1000)
    model.fit(X, LARGE_HOLES, T)
    assert model.residual_ <= 1e-9


# --- networks ------------------------------------------------------------------------------------


def test_a_network_misses_an_edge_both_ways_or_not_at_all():
    X, Y, _ = make_data(Q, Q, 0)
    Y = Y + Y.T
    Y[1, 4] = np.nan
    with pytest.raises(
        ValueError, match=r"^Y is NaN \(not observed\) in one direction only for 1 edges"
    ):
        TwoStepRidge(symmetry="symmetric").fit(X, Y)
    Y[4, 1], Y[0, 2] = np.nan, 99.0
    with pytest.raises(
        ValueError, match=r"^Y is not symmetric: it differs from its transpose by up to \d+"
    ):
        TwoStepRidge(symmetry="symmetric").fit(X, Y)


# --- scores --------------------------------------------------------------------------------------


def test_the_score_of_some_labels():
    X, Y, T = make_data()
    model = make_model(TwoStepRidge, "rbf").fit(X[:M], Y, T[:Q])
    holes = with_holes(Y, "50%")
    holes[:, 2], holes[1:, 5] = np.nan, np.nan  # these tasks have too few labels for a score
    F = model.predict(X[:M])
    scores = []
    for j in [0, 1, 3, 4, 6]:
        o = ~np.isnan(holes[:, j])
        scores.append(
            1
            - np.sum((holes[o, j] - F[o, j]) ** 2) / np.sum((holes[o, j] - holes[o, j].mean()) ** 2)
        )
    assert_allclose(model.score(X[:M], holes), np.mean(scores))


# --- memory --------------------------------------------------------------------------------------


@over(covering(**every_model, pattern=["few missing", "half", "few observed"], strength=1))
def test_few_features_never_make_a_kernel(Model, pattern):
    """With many more rows than features nothing of m × m numbers is formed, whatever is missing."""
    rng = default_rng(0)
    m = 500
    q = 5
    X = rng.normal(size=(m, 8))
    T = rng.normal(size=(q, 3))
    Y = rng.normal(size=(m, q))
    share = {"few missing": 0.001, "half": 0.5, "few observed": 0.999}[pattern]
    Y[(rng.random((m, q)) < share) & (np.arange(m) > 1)[:, None]] = np.nan  # every task keeps two
    model = make_model(Model)
    tracemalloc.start()
    try:
        model.fit(X, Y, T)
        if Model is IndependentTaskRidge:
            model.holdout("B")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 8 * m * m / 4

"""Jackknife+ with missing and weighted labels, against models that are refitted without each row."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    PairKernelRidge,
    PairKernelRidgeCV,
    TwoStepRidge,
)
from dyadlearn.exceptions import UnboundedIntervalWarning
from dyadlearn.holdout import Problem, jackknife, plan
from dyadlearn.holdout.intervals import ranks
from dyadlearn.holdout.jackknife import jackknife_of
from dyadlearn.models import reading
from dyadlearn.pairing.base import Coupled, side_ridges
from dyadlearn.pairing.without_units import UnitsLeftOut, models_by_inverse
from dyadlearn.settings import Setting
from sweeps import covering, every, over

M = 12
Q = 9
NEW = 3
# Estimators, and the shares a, b and c of their kernels.
MODELS = {
    "Kronecker": (KroneckerRidge, {}, (1.0, 0.0, 0.0)),
    "pair kernel": (
        PairKernelRidge,
        {"product": 0.4, "per_task": 0.7, "per_instance": 0.2},
        (0.4, 0.7, 0.2),
    ),
    "identity": (KroneckerRidge, {"identity": (0.3, 0.6)}, (1.0, 0.6, 0.3)),
}
# Share of missing labels, for which each route is the cheapest.
MISSING = {"few": 0.03, "half": 0.5, "most": 0.8}


def data(seed=0, n_features=5):
    """Return features of training and new rows on both sides, and labels far from zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(M + NEW, n_features))
    T = rng.normal(size=(Q + NEW, n_features))
    Y = X[:, :2] @ rng.normal(size=(2, 2)) @ T[:, :2].T + rng.normal(size=(M + NEW, Q + NEW)) + 4.0
    return X, T, Y


def with_holes(Y, share, seed=1):
    rng = np.random.default_rng(seed)
    holes = rng.random(Y.shape) < share
    holes[0, 0] = True
    for row in range(len(Y)):  # each row and column keeps two labels
        holes[row, [row % Y.shape[1], (row + 1) % Y.shape[1]]] = False
    holes[0, 1] = True
    return np.where(holes, np.nan, Y)


def kernel(A, B, name):
    return A @ B.T if name == "linear" else rbf_kernel(A, B, gamma=1 / A.shape[1])


def refit(K, G, rows, Y, weights, alpha, shares, *, intercept):
    """Return predictions for new rows by a dense system of the observed pairs; `rows` is their kernel."""
    a, b, c = shares
    K, G, rows = (each + intercept for each in (K, G, rows))
    i, j = np.nonzero(~np.isnan(Y))
    left = K[np.ix_(i, i)]
    right = G[np.ix_(j, j)]
    P = a * left * right + b * left * (j[:, None] == j) + c * right * (i[:, None] == i)
    system = P + np.diag(alpha / weights[i, j])
    labels = Y[i, j]
    if intercept:
        one = np.ones((i.size, 1))
        system = np.block([[system, one], [one.T, np.zeros((1, 1))]])
        labels = np.append(labels, 0.0)
    solved = np.linalg.solve(system, labels)
    dual = np.zeros(Y.shape)
    dual[i, j] = solved[: i.size]
    return rows @ dual @ (a * G + b * np.eye(len(G))) + (solved[-1] if intercept else 0.0)


@dataclass(frozen=True, eq=False)
class Case:
    """Labels of the side whose rows are left out, and the fitted model."""

    fitted: object
    K: np.ndarray
    G: np.ndarray
    Y: np.ndarray
    weights: np.ndarray
    alpha: float
    shares: tuple[float, float, float]
    intercept: bool
    transposed: bool

    @property
    def m(self):
        return len(self.Y)

    def refitted(self, hidden, among=slice(None)):
        """Return the predictions for all rows by the model without the labels of some."""
        Y = self.Y.copy()
        Y[hidden] = np.nan
        m, q = Y.shape
        given = (
            self.K[:m, :m],
            self.G[:q, :q],
            self.K[among, :m],
            Y,
            self.weights,
            self.alpha,
            self.shares,
        )
        return refit(*given, intercept=self.intercept)

    @property
    def intervals(self):
        if self.transposed:
            return self.fitted.fitted_.intervals.mirrored
        return self.fitted.fitted_.intervals

    @property
    def plan(self):
        return plan(self.intervals.problem, Setting.B)


def case(
    model="Kronecker",
    missing="few",
    intercept=True,
    weights="none",
    transposed=False,
    kernel_name="rbf",
    *,
    alpha=0.3,
    n_features=5,
    empty=False,
    groups=None,
    dtype=None,
):
    """Return a fitted model with its kernels; with `groups`, a search has left out these groups."""
    X, T, Y = data(n_features=n_features)
    Y = Y[:M, :Q].copy() if empty else with_holes(Y[:M, :Q], MISSING[missing])
    if empty:
        Y[4], Y[:, [2, 7]] = np.nan, np.nan
    drawn = np.random.default_rng(2).uniform(0.3, 3.0, size=Y.shape)
    sample_weight = {"none": None, "equal": np.full(Y.shape, 2.0), "different": drawn}[weights]
    estimator, parameters, shares = MODELS[model]
    params = {"gamma": 1 / n_features} if kernel_name == "rbf" else None
    given = {
        "kernel": kernel_name,
        "task_kernel": kernel_name,
        "kernel_params": params,
        "task_kernel_params": params,
    }
    given |= {"fit_intercept": intercept, "tol": 1e-13}
    if groups is None:
        fitted = estimator(alpha, **parameters, **given)
        options = {}
    else:
        shared = {"shares": [shares]} if estimator is PairKernelRidge else {}
        search = PairKernelRidgeCV if shared else KroneckerRidgeCV
        fitted = search([alpha], setting="C" if transposed else "B", **shared, **given)
        options = {"task_groups" if transposed else "groups": groups}
    if dtype is None:
        arrays = [X[:M], Y, T[:Q]]
    else:
        arrays = [each.astype(dtype) for each in (X[:M], Y, T[:Q])]
    fitted.fit(*arrays[:2], tasks=arrays[2], sample_weight=sample_weight, **options)
    K = kernel(X, X, kernel_name)
    G = kernel(T, T, kernel_name)
    sample_weight = np.ones(Y.shape) if sample_weight is None else sample_weight
    if transposed:
        K, G, Y, sample_weight, shares = (
            G,
            K,
            Y.T,
            sample_weight.T,
            (shares[0], shares[2], shares[1]),
        )
    return Case(fitted, K, G, Y, sample_weight, alpha, shares, intercept, transposed)


def new_rows(found, n_features=5):
    X, T, _ = data(n_features=n_features)
    if found.transposed:
        return found.fitted.fitted_.columns(T[Q:])[1]
    return found.fitted.fitted_.rows(X[M:])[1]


def check(found, n_features=5):
    """Compare all models with refits, at new rows and at the rows of their unit."""
    models = found.intervals._jackknife
    predictions = models.predictions(new_rows(found, n_features))
    observed = ~np.isnan(found.Y)
    assert predictions.shape == (NEW, found.Y.shape[1], len(models.members))
    for unit, rows in enumerate(models.members):
        wanted = found.refitted(rows)
        assert_allclose(predictions[..., unit], wanted[found.m :], rtol=1e-9, atol=1e-9)
        own = observed[rows]
        assert_allclose(models.held_out[rows][own], wanted[rows][own], rtol=1e-9, atol=1e-9)
    return models, models.members


@over(
    covering(
        model=["Kronecker", "pair kernel"],
        missing=list(MISSING),
        intercept=[True, False],
        weights=["none", "equal", "different"],
        transposed=[False, True],
        kernel_name=["rbf", "linear"],
    )
)
def test_models_of_formulas_are_refits_without_each_row(
    model, missing, intercept, weights, transposed, kernel_name
):
    n_features = 3 if kernel_name == "linear" else 5
    found = case(model, missing, intercept, weights, transposed, kernel_name, n_features=n_features)
    assert found.plan.method == "exact leave-one-out"
    check(found, n_features)


@over(every(name=["features", "cells", "spectrum", "missing"], intercept=[True, False]))
def test_all_routes_have_the_same_models(name, intercept):
    found = case("Kronecker", "half", intercept, kernel_name="linear", n_features=3)
    problem = found.intervals.problem
    how = plan(problem, Setting.B)
    how = replace(how, way=replace(how.way, name=name))
    held_out = how.inverted()
    rows = new_rows(found, 3)
    units = np.arange(M)
    left = UnitsLeftOut(problem.labels, held_out.centred, held_out.held_out, held_out.shift, units)
    models = models_by_inverse(problem.pairing, held_out.inverse, left).predictions(rows)
    for row in range(M):
        assert_allclose(models[..., row], found.refitted([row])[M:], rtol=1e-9, atol=1e-9)


@over(every(name=["missing", "spectrum"], intercept=[True, False], kernel_name=["rbf", "linear"]))
def test_models_that_interpolate(name, intercept, kernel_name):
    """With a linear kernel this is ordinary least squares."""
    n_features = 2 if kernel_name == "linear" else 5
    found = case(
        "Kronecker", "few", intercept, kernel_name=kernel_name, alpha=0.0, n_features=n_features
    )
    problem = found.intervals.problem
    how = plan(problem, Setting.B)
    held_out = replace(how, way=replace(how.way, name=name)).inverted()
    left = UnitsLeftOut(
        problem.labels, held_out.centred, held_out.held_out, held_out.shift, np.arange(M)
    )
    models = models_by_inverse(problem.pairing, held_out.inverse, left)
    predictions = models.predictions(new_rows(found, n_features))
    X, T, _ = data(n_features=n_features)
    for row in range(0, M, 3):
        Y = found.Y.copy()
        Y[row] = np.nan
        other = clone(found.fitted).fit(X[:M], Y, tasks=T[:Q])
        assert_allclose(predictions[..., row], other.predict(X[M:]), rtol=1e-8, atol=1e-8)


@over(every(model=["Kronecker", "pair kernel"], transposed=[False, True]))
def test_rows_and_columns_without_labels(model, transposed):
    found = case(model, transposed=transposed, empty=True)
    assert found.plan.way == "labelled"
    check(found)
    X, T, _ = data()
    asked = (None, T[Q:]) if transposed else (X[M:], None)
    with pytest.warns(UnboundedIntervalWarning):
        _, upper = found.fitted.predict_interval(*asked, coverage=0.6)
    empty = ~np.isfinite(found.Y).any(axis=0)
    infinite = np.isinf(upper.T if transposed else upper)
    assert_array_equal(infinite, np.broadcast_to(empty, infinite.shape))


@dataclass(frozen=True, eq=False)
class Summed(Coupled):
    """A model of pairs of which only its operators are known: Kronecker ridge regression."""

    model: Coupled

    words = "a test"
    spectra = property(lambda self: self.model.spectra)
    alphas = property(lambda self: self.model.alphas)
    remainder = property(lambda self: self.model.remainder)

    def coefficients(self, Y):
        return self.model.coefficients(Y)

    def expansion(self, coefficients):
        return self.model.expansion(coefficients)


def test_models_of_pairs_without_kernels_of_both_sides():
    found = case("Kronecker", "most", intercept=False)
    model = found.intervals.problem.pairing
    summed = Summed(model)
    problem = Problem(summed, found.intervals.problem.labels)
    models = jackknife_of(problem, None)
    assert summed.shares is None
    for row in range(M):
        wanted = found.refitted([row])[M:]
        assert_allclose(models.predictions(new_rows(found))[..., row], wanted, rtol=1e-9, atol=1e-9)


@over(every(model=["Kronecker", "pair kernel"], missing=["few", "most"], transposed=[False, True]))
def test_groups_of_a_search_leave_together(model, missing, transposed):
    groups = np.arange(Q if transposed else M)[::-1] // 3
    found = case(model, missing, transposed=transposed, groups=groups)
    models, members = check(found)
    assert [np.unique(groups[rows]).size for rows in members] == [1] * (groups.max() + 1)
    held_out = found.fitted.holdout_.T if transposed else found.fitted.holdout_
    observed = ~np.isnan(found.Y)
    assert_allclose(models.held_out[observed], held_out[observed], rtol=1e-9)


def bounds_by_definition(found, ridge, coverage):
    """Return jackknife+ bounds of the new rows from refits; NaN where there are too few labels."""
    m, q = found.Y.shape
    rows = np.arange(m)
    refits = np.array([found.refitted([row]) for row in rows])
    residuals = np.abs(found.Y - refits[rows, rows])
    K = found.K + found.intercept
    near = np.array([distance(K, row, np.delete(rows, row), ridge) for row in rows])
    typical = np.median(near)
    bounds = np.full((2, NEW, q), np.nan)
    for x in range(NEW):
        far = np.array([distance(K, m + x, np.delete(rows, row), ridge) for row in rows])
        widths = ((1 + far / typical) / (1 + near / typical)) ** 0.5
        for task in range(q):
            seen = np.flatnonzero(~np.isnan(found.Y[:, task]))
            low, high = ranks(seen.size, coverage)
            reach = widths[seen] * residuals[seen, task]
            if low >= 1 and high <= seen.size:
                bounds[0, x, task] = np.sort(refits[seen, m + x, task] - reach)[low - 1]
                bounds[1, x, task] = np.sort(refits[seen, m + x, task] + reach)[high - 1]
    return bounds


def distance(K, row, others, ridge):
    """Return the variance left of a row, relative to the noise, given the other rows."""
    k = K[others, row]
    A = K[np.ix_(others, others)] + ridge * np.eye(len(others))
    return (K[row, row] + ridge - k @ np.linalg.solve(A, k)) / ridge


@over(
    covering(
        model=["Kronecker", "pair kernel"],
        missing=["few", "half"],
        intercept=[True, False],
        weights=["none", "different"],
        transposed=[False, True],
        single=[False, True],
    )
)
def test_bounds_are_those_of_the_definition(model, missing, intercept, weights, transposed, single):
    found = case(
        model, missing, intercept, weights, transposed, dtype=np.float32 if single else None
    )
    ridge = side_ridges(found.intervals.problem.pairing)[0]
    wanted = bounds_by_definition(found, ridge, 0.6)
    X, T, _ = data()
    dtype = np.float32 if single else np.float64
    asked = (None, T[Q:].astype(dtype)) if transposed else (X[M:].astype(dtype), None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnboundedIntervalWarning)
        bounds = found.fitted.predict_interval(*asked, coverage=0.6)
    for end, expected in zip(bounds, wanted, strict=True):
        assert end.dtype == dtype
        values = end.T if transposed else end
        known = ~np.isnan(expected)
        assert known.mean() > 0.8
        assert_allclose(values[known], expected[known], rtol=1e-4 if single else 1e-9)
        assert np.isinf(values[~known]).all()


@over(every(kernel_name=["rbf", "linear"], searched=[False, True], weights=["none", "different"]))
def test_lists_of_pairs_have_the_intervals_of_their_grid(kernel_name, searched, weights):
    rng = np.random.default_rng(8)
    X = rng.normal(size=(28, 3))
    T = rng.normal(size=(24, 3))
    Y = X @ T.T + rng.normal(size=(28, 24)) + 2.0
    Y = np.where(rng.random(Y.shape) < 0.5, np.nan, Y)[:25, :21]
    Y[3:, 4] = np.nan  # too few labels for a coverage of 0.8
    W = np.ones(Y.shape) if weights == "none" else rng.uniform(0.3, 3.0, size=Y.shape)
    i, j = np.nonzero(~np.isnan(Y))
    given = {"kernel": kernel_name, "task_kernel": kernel_name, "tol": 1e-13}
    if searched:
        options = {"tasks": T[:21], "task_groups": np.arange(21) // 2}
    else:
        options = {"tasks": T[:21]}
    if searched:
        model = KroneckerRidgeCV([0.3], setting="C", **given)
    else:
        model = KroneckerRidge(0.3, **given)
    on_grid = clone(model).fit(X[:25], Y, sample_weight=W, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "SMALL_GRID", 0)
        patch.setattr(reading, "fits_in_memory", lambda *_: False)
        stored = [sparse.csr_array((values[i, j], (i, j)), shape=Y.shape) for values in (Y, W)]
        listed = clone(model).fit(X[:25], stored[0], sample_weight=stored[1], **options)
    assert listed.fitted_.labels.grid is None
    for rows, tasks in ((X[25:], None), (None, T[21:]), (X[25:], T[21:]), (None, None)):
        found = listed.predict_interval(rows, tasks, coverage=0.8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnboundedIntervalWarning)
            wanted = on_grid.predict_interval(rows, tasks, coverage=0.8)
        finite = np.isfinite(wanted[0]) & np.isfinite(wanted[1])
        is_row_new = rows is not None and tasks is None
        assert finite.all() != is_row_new
        assert_allclose(
            np.array(found)[:, finite], np.array(wanted)[:, finite], rtol=1e-8, atol=1e-8
        )
        if is_row_new:  # tasks with too few labels have the quantile of all residuals
            errors = np.sort(np.abs(Y[i, j] - listed.fitted_.hold_out(Setting.B).predictions))
            reach = errors[ranks(errors.size, 0.8)[1] - 1]
            predicted = listed.predict(rows)[:, 4]
            assert_allclose(
                [end[:, 4] for end in found], [predicted - reach, predicted + reach], rtol=1e-8
            )


def test_few_refits_without_each_row():
    """Two-step ridge regression has no inverse in B: where refits are few, each row is left out."""
    X, T, Y = data()
    Y = with_holes(Y[:M, :Q], 0.3)
    fitted = TwoStepRidge(0.3, 0.5, kernel="rbf", task_kernel="rbf", tol=1e-13).fit(
        X[:M], Y, tasks=T[:Q]
    )
    problem = fitted.fitted_.intervals.problem
    assert plan(problem, Setting.B).method == "leave-one-out, refitted"
    models = fitted.fitted_.intervals._jackknife
    found = models.predictions(fitted.fitted_.rows(X[M:])[1])
    assert_allclose(
        np.where(np.isnan(Y), 0.0, models.held_out), np.where(np.isnan(Y), 0.0, fitted.holdout("B"))
    )
    for row in range(M):
        kept = np.delete(np.arange(M), row)
        other = clone(fitted).fit(X[kept], Y[kept], tasks=T[:Q])
        assert_allclose(found[..., row], other.predict(X[M:]), rtol=1e-8, atol=1e-8)


@over(every(limit=["_MOST_WORK", "memory"]))
def test_models_that_cost_too_much_are_refitted_in_folds(limit, monkeypatch):
    found = case("Kronecker", "few")
    problem = found.intervals.problem
    assert len(jackknife_of(problem, None).members) == M
    if limit == "memory":
        monkeypatch.setattr(jackknife, "fits_in_memory", lambda need, like: False)
    else:
        monkeypatch.setattr(jackknife, "is_affordable", lambda work, labels: False)
    models = jackknife_of(problem, None)
    assert len(models.members) == 5
    predictions = models.predictions(new_rows(found))
    for unit, rows in enumerate(models.members):
        assert_allclose(predictions[..., unit], found.refitted(rows)[M:], rtol=1e-7, atol=1e-7)
    groups = np.arange(M) // 4
    assert_array_equal(jackknife_of(problem, groups).members, np.arange(M).reshape(3, 4))

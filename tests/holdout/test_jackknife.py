"""Jackknife+ with missing and weighted labels, against models that are refitted without each row."""

import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    KroneckerRidgeCV,
    PairKernelRidge,
    PairKernelRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import UnboundedIntervalWarning
from dyadlearn.holdout import jackknife, plan
from dyadlearn.holdout.intervals import ranks
from dyadlearn.holdout.jackknife import jackknife_of
from dyadlearn.models import reading
from dyadlearn.pairing.base import side_ridges
from dyadlearn.pairing.without_units import UnitsLeftOut, models_by_inverse
from dyadlearn.settings import Setting
from problems import distance
from sweeps import covering, every, lines, over

M = 9
Q = 7
NEW = 2
MODELS = {
    "two-step": lambda **given: TwoStepRidge(task_alpha=0.5, **given),
    "Kronecker": KroneckerRidge,
    "pair kernel": lambda **given: PairKernelRidge(
        product=0.4, per_task=0.7, per_instance=0.2, **given
    ),
    "independent": lambda task_kernel, tol, **given: IndependentTaskRidge(**given),
}
SEARCHES = {
    "two-step": lambda **given: TwoStepRidgeCV([0.3], [0.5], **given),
    "Kronecker": lambda **given: KroneckerRidgeCV([0.3], **given),
    "pair kernel": lambda **given: PairKernelRidgeCV([0.3], shares=[(0.4, 0.7, 0.2)], **given),
}
# Share of missing labels, for which each route is the cheapest.
MISSING = {"none": 0.0, "few": 0.03, "half": 0.5, "most": 0.8}


def data(seed=0, n_features=5):
    """Return features of training and new rows on both sides, and labels far from zero."""
    rng = default_rng(seed)
    X = rng.normal(size=(M + NEW, n_features))
    T = rng.normal(size=(Q + NEW, n_features))
    Y = X[:, :2] @ rng.normal(size=(2, 2)) @ T[:, :2].T + rng.normal(size=(M + NEW, Q + NEW)) + 4.0
    return X, T, Y


def with_holes(Y, share):
    holes = default_rng(1).random(Y.shape) < share
    holes[0, 0] = share > 0
    for row in range(len(Y)):  # each row and column keeps two labels
        holes[row, [row % Y.shape[1], (row + 1) % Y.shape[1]]] = False
    holes[0, 1] = share > 0
    return np.where(holes, np.nan, Y)


@dataclass(frozen=True, eq=False)
class Case:
    """A fitted model, with the model that is fitted again without rows, or without columns if transposed."""

    fitted: object
    model: object
    X: np.ndarray
    T: np.ndarray
    labels: np.ndarray
    weights: np.ndarray | None
    transposed: bool

    @property
    def Y(self):
        """Labels of the side whose rows are left out."""
        return self.labels.T if self.transposed else self.labels

    @property
    def m(self):
        return len(self.Y)

    def refitted(self, hidden):
        """Return the predictions for all rows, known and new, by the model without some rows."""
        kept = np.setdiff1d(np.arange(self.m), hidden)
        rows, columns = (np.arange(M), kept) if self.transposed else (kept, np.arange(Q))
        within = np.ix_(rows, columns)
        weights = None if self.weights is None else self.weights[within]
        model = clone(self.model).fit(self.X[rows], self.labels[within], self.T[columns], weights)
        return model.predict(None, self.T).T if self.transposed else model.predict(self.X)

    @property
    def intervals(self):
        if self.transposed:
            return self.fitted.fitted_.intervals.mirrored
        return self.fitted.fitted_.intervals

    @property
    def units(self):
        """Rows that are left out together."""
        members = self.intervals._jackknife.members
        return [[row] for row in range(self.m)] if members is None else members

    @property
    def plan(self):
        return plan(self.intervals.problem, Setting.B)

    @property
    def new_rows(self):
        if self.transposed:
            return self.fitted.fitted_.columns(self.T[Q:])[1]
        return self.fitted.fitted_.rows(self.X[M:])[1]


def case(
    model="Kronecker",
    missing="few",
    intercept=True,
    weights="none",
    transposed=False,
    kernel="rbf",
    *,
    alpha=0.3,
    n_features=5,
    empty=False,
    groups=None,
    dtype="float64",
):
    """Return a fitted model; with `groups`, a search has left out these groups."""
    X, T, Y = (each.astype(dtype) for each in data(n_features=n_features))
    Y = Y[:M, :Q].copy() if empty else with_holes(Y[:M, :Q], MISSING[missing]).astype(dtype)
    if empty:
        Y[4], Y[:, [2, 5]] = np.nan, np.nan
    drawn = default_rng(2).uniform(0.3, 3.0, size=Y.shape)
    sample_weight = {"none": None, "equal": np.full(Y.shape, 2.0), "different": drawn}[weights]
    given = {"kernel": kernel, "task_kernel": kernel, "fit_intercept": intercept, "tol": 1e-13}
    plain = MODELS[model](alpha=alpha, **given)
    fitted = clone(plain)
    options = {}
    if groups is not None:
        fitted = SEARCHES[model](setting="C" if transposed else "B", **given)
        options = {"task_groups" if transposed else "groups": groups}
    fitted.fit(X[:M], Y, T[:Q], sample_weight, **options)
    return Case(fitted, plain, X, T, Y, sample_weight, transposed)


def check(found):
    """Compare all models with refits, at new rows and at the rows of their unit."""
    models = found.intervals._jackknife
    predictions = models.predictions(found.new_rows)
    observed = ~np.isnan(found.Y)
    assert predictions.shape == (NEW, found.Y.shape[1], len(found.units))
    for unit, rows in enumerate(found.units):
        wanted = found.refitted(rows)
        assert_allclose(predictions[..., unit], wanted[found.m :], rtol=1e-8, atol=1e-8)
        own = observed[rows]
        assert_allclose(models.held_out[rows][own], wanted[rows][own], rtol=1e-8, atol=1e-8)
    return models, found.units


@pytest.fixture
def lists(monkeypatch):
    """Give a call after which all labels that are stored sparse stay a list."""

    def switch():
        monkeypatch.setattr(reading, "SMALL_GRID", 0)
        monkeypatch.setattr(reading, "fits_in_memory", lambda *_: False)

    return switch


def may_be(model, transposed, **_):
    """Return whether a model that leaves out columns knows tasks."""
    return model != "independent" or not transposed


@over(
    covering(
        model=list(MODELS),
        missing=list(MISSING)[1:],
        intercept=[True, False],
        weights=["none", "equal", "different"],
        transposed=[False, True],
        kernel=["rbf", "linear"],
        where=may_be,
    )
)
def test_models_are_refits_without_each_row(model, missing, intercept, weights, transposed, kernel):
    n_features = 3 if kernel == "linear" else 5
    found = case(model, missing, intercept, weights, transposed, kernel, n_features=n_features)
    expected = "leave-one-out, refitted" if model == "two-step" else "exact leave-one-out"
    assert found.plan.method == expected
    check(found)


ROUTES = every(
    name=["features", "cells", "spectrum", "missing"],
    missing=["half"],
    intercept=[True, False],
    kernel=["linear"],
    alpha=[0.3],
)
#: Of a linear kernel this is ordinary least squares.
INTERPOLATING = every(
    name=["missing", "spectrum"],
    missing=["few"],
    intercept=[True, False],
    kernel=["rbf", "linear"],
    alpha=[0.0],
)


@over(ROUTES + INTERPOLATING)
def test_all_routes_have_the_same_models(name, missing, intercept, kernel, alpha):
    n_features = 2 if kernel == "linear" else 5
    found = case("Kronecker", missing, intercept, kernel=kernel, alpha=alpha, n_features=n_features)
    problem = found.intervals.problem
    held_out = replace(found.plan, way=replace(found.plan.way, name=name)).inverted()
    units = np.arange(M)
    left = UnitsLeftOut(problem.labels, held_out.centred, held_out.held_out, held_out.shift, units)
    models = models_by_inverse(problem.pairing, held_out.inverse, left).predictions(found.new_rows)
    for row in range(0, M, 3):
        assert_allclose(models[..., row], found.refitted([row])[M:], rtol=1e-8, atol=1e-8)


@over(every(model=["Kronecker", "pair kernel"], transposed=[False, True]))
def test_rows_and_columns_without_labels(model, transposed):
    found = case(model, transposed=transposed, empty=True)
    assert found.plan.way == "labelled"
    check(found)
    asked = (None, found.T[Q:]) if transposed else (found.X[M:], None)
    with pytest.warns(UnboundedIntervalWarning):
        _, upper = found.fitted.predict_interval(*asked, coverage=0.6)
    empty = ~np.isfinite(found.Y).any(axis=0)
    infinite = np.isinf(upper.T if transposed else upper)
    assert_array_equal(infinite, np.broadcast_to(empty, infinite.shape))


@over(covering(model=list(SEARCHES), missing=["none", "few", "most"], transposed=[False, True]))
def test_groups_of_a_search_leave_together(model, missing, transposed):
    groups = np.arange(Q if transposed else M)[::-1] // 3
    found = case(model, missing, transposed=transposed, groups=groups)
    models, members = check(found)
    assert [np.unique(groups[rows]).size for rows in members] == [1] * (groups.max() + 1)
    held_out = found.fitted.holdout_.T if transposed else found.fitted.holdout_
    observed = ~np.isnan(found.Y)
    assert_allclose(models.held_out[observed], held_out[observed], rtol=1e-9)


def bounds_by_definition(found, coverage):
    """Return jackknife+ bounds of the new rows from refits; NaN where there are too few labels."""
    m, q = found.Y.shape
    rows = np.arange(m)
    refits = np.empty((m, m + NEW, q))
    for members in found.units:
        refits[members] = found.refitted(members)
    residuals = np.abs(found.Y - refits[rows, rows])
    # A pair kernel has a constant feature on each side; other models have a free constant.
    is_free = found.model.fit_intercept
    K = rbf_kernel(found.T if found.transposed else found.X)
    if isinstance(found.model, KroneckerRidge | PairKernelRidge):
        K = K + is_free
        is_free = False
    ridge = side_ridges(found.intervals.problem.pairing)[0]

    rest = [np.delete(rows, row) for row in rows]
    near = np.array([distance(K, row, rest[row], ridge, is_free) for row in rows])
    typical = np.median(near)
    bounds = np.full((2, NEW, q), np.nan)
    for x in range(NEW):
        far = np.array([distance(K, m + x, others, ridge, is_free) for others in rest])
        widths = ((1 + far / typical) / (1 + near / typical)) ** 0.5
        for task in range(q):
            seen = np.flatnonzero(~np.isnan(found.Y[:, task]))
            low, high = ranks(seen.size, coverage)
            reach = widths[seen] * residuals[seen, task]
            if low >= 1 and high <= seen.size:
                bounds[0, x, task] = np.sort(refits[seen, m + x, task] - reach)[low - 1]
                bounds[1, x, task] = np.sort(refits[seen, m + x, task] + reach)[high - 1]
    return bounds


@over(
    covering(
        model=list(MODELS),
        missing=["none", "few", "half"],
        intercept=[True, False],
        weights=["none", "different"],
        transposed=[False, True],
        dtype=["float64", "float32"],
        alpha=[1e-3, 0.3, 100.0],
        where=lambda dtype, alpha, **given: may_be(**given) and (dtype == "float64" or alpha > 0.1),
    )
)
def test_bounds_are_those_of_the_definition(
    model, missing, intercept, weights, transposed, dtype, alpha
):
    found = case(model, missing, intercept, weights, transposed, dtype=dtype, alpha=alpha)
    wanted = bounds_by_definition(found, 0.6)
    asked = (None, found.T[Q:]) if transposed else (found.X[M:], None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnboundedIntervalWarning)
        bounds = found.fitted.predict_interval(*asked, coverage=0.6)
    for end, expected in zip(bounds, wanted, strict=True):
        assert end.dtype == dtype
        values = end.T if transposed else end
        known = ~np.isnan(expected)
        assert known.mean() > 0.8
        assert_allclose(values[known], expected[known], rtol=1e-8 if dtype == "float64" else 1e-4)
        assert np.isinf(values[~known]).all()


@over(lines("kernel searched", ("rbf", False), ("linear", True)))
def test_lists_of_pairs_have_the_intervals_of_their_grid(kernel, searched, lists):
    rng = default_rng(8)
    X = rng.normal(size=(28, 3))
    T = rng.normal(size=(24, 3))
    Y = np.where(rng.random((25, 21)) < 0.5, np.nan, X[:25] @ T[:21].T + rng.normal(size=(25, 21)))
    Y[3:, 4] = np.nan  # too few labels for a coverage of 0.8
    W = rng.uniform(0.3, 3.0, size=Y.shape)
    i, j = np.nonzero(~np.isnan(Y))
    given = {"kernel": kernel, "task_kernel": kernel, "tol": 1e-13}
    options = {"tasks": T[:21]}
    model = KroneckerRidge(0.3, **given)
    if searched:
        model = KroneckerRidgeCV([0.3], setting="C", **given)
        options["task_groups"] = np.arange(21) // 2
    on_grid = clone(model).fit(X[:25], Y, sample_weight=W, **options)
    lists()
    stored = [sparse.csr_array((values[i, j], (i, j)), shape=Y.shape) for values in (Y, W)]
    listed = clone(model).fit(X[:25], stored[0], sample_weight=stored[1], **options)
    assert listed.fitted_.labels.grid is None
    for rows, tasks in ((X[25:], None), (None, T[21:]), (X[25:], T[21:]), (None, None)):
        found = np.array(listed.predict_interval(rows, tasks, coverage=0.8))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnboundedIntervalWarning)
            wanted = np.array(on_grid.predict_interval(rows, tasks, coverage=0.8))
        finite = np.isfinite(wanted).all(axis=0)
        assert_allclose(found[:, finite], wanted[:, finite], rtol=1e-8, atol=1e-8)
        is_row_new = rows is not None and tasks is None
        assert finite.all() != is_row_new


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
    predictions = models.predictions(found.new_rows)
    for unit, rows in enumerate(models.members):
        assert_allclose(predictions[..., unit], found.refitted(rows)[M:], atol=1e-7)
    groups = np.arange(M) // 3
    assert_array_equal(jackknife_of(problem, groups).members, np.arange(M).reshape(3, 3))

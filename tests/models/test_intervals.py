"""Intervals of known and of new pairs, networks and ids; those of new rows are in holdout/test_jackknife.py."""

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    LearnedKernelRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.exceptions import NoLabelWarning, UnboundedIntervalWarning
from dyadlearn.filters import Landweber
from dyadlearn.holdout.intervals import ranks
from dyadlearn.kernels import gram
from dyadlearn.pairing.base import side_ridges
from dyadlearn.pairing.full import cell_slack, jackknife
from problems import distance
from sweeps import covering, every, lines, over

M = 13
Q = 11
NEW = 4
RBF = {"kernel": "rbf", "task_kernel": "rbf"}
MODELS = {
    "two-step": lambda alpha, **given: TwoStepRidge(alpha, 0.5, **given),
    "Kronecker": lambda alpha, **given: KroneckerRidge(alpha, **given),
    "pair kernel": lambda alpha, **given: PairKernelRidge(
        alpha, product=0.4, per_task=0.7, per_instance=0.2, **given
    ),
    "independent": lambda alpha, kernel, task_kernel, **given: IndependentTaskRidge(
        alpha, kernel=kernel, **given
    ),
}


def data(seed=0):
    X, Y, T = problems.data(M + NEW, Q + NEW, 3, 2, seed=seed)
    Y += 4.0
    return X, T, Y


def train(X, T, Y):
    """Return the instances, labels and tasks of training; the others are new."""
    return X[:M], Y[:M, :Q], T[:Q]


def kernel_of(X, kernel, model):
    K = X @ X.T if kernel == "linear" else rbf_kernel(X)
    # A pair kernel has a constant feature on each side.
    if model.fit_intercept and isinstance(model, KroneckerRidge | PairKernelRidge):
        return K + 1.0
    return K


SLACKS = {
    **MODELS,
    "two-step network": lambda alpha, task_kernel, **given: TwoStepRidge(
        alpha, alpha, symmetry="symmetric", **given
    ),
    "antisymmetric": lambda alpha, task_kernel, **given: TwoStepRidge(
        alpha, alpha, symmetry="antisymmetric", **given
    ),
}


@over(
    covering(model=SLACKS, kernel=["linear", "rbf"], intercept=[True, False], alpha=[1e-3, 100.0])
)
def test_cell_slack_is_what_a_fit_leaves_of_a_label(model, kernel, intercept, alpha):
    """A fit to labels that are 0 but for one is a column of the hat; an edge comes with its transpose."""
    X, T, Y = data()
    # Linear kernels have fewer directions than rows.
    X = X[:4, :2]
    T = T[:3, :2]
    Y = Y[:4, :3]
    fitted = model(alpha, kernel=kernel, task_kernel=kernel, fit_intercept=intercept)
    sign = {None: 0, "symmetric": 1, "antisymmetric": -1}[getattr(fitted, "symmetry", None)]
    Y = Y if not sign else X @ X.T if sign > 0 else X @ np.arange(8.0).reshape(2, 4)
    Y = Y - Y.T if sign < 0 else Y
    tasks = None if sign else T
    slack = cell_slack(fitted.fit(X, Y, tasks).fitted_.training_problem.pairing)
    for i, j in np.ndindex(Y.shape):
        if (i + 2 * j) % 3:
            continue
        unit = np.zeros(Y.shape)
        unit[i, j] = 1.0
        if i != j:
            unit[(j, i) if sign else (i, j)] = sign or 1.0
        elif sign < 0:
            continue  # a node has no antisymmetric edge with itself
        left = 1.0 - fitted.fit(X, unit, tasks).predict()[i, j]
        assert_allclose(np.broadcast_to(slack, Y.shape)[i, j], left, rtol=0, atol=1e-9)


def test_known_rows_count_as_known_whatever_filter_there_is():
    # A model without a row is the model itself with what the others predict in its place: no refit,
    # but the meaning.
    X, _, Y = data(2)
    fitted = IndependentTaskRidge(filter=Landweber(20), kernel="rbf").fit(X[:M], Y[:M])
    held_out = fitted.holdout("B")
    problem = fitted.fitted_.training_problem
    models = jackknife(problem.pairing, problem.Y)
    found = models.predictions(fitted.fitted_.rows(X[M:])[1])
    for i in range(M):
        labels = Y[:M].copy()
        labels[i] = held_out[i]
        expected = clone(fitted).fit(X[:M], labels).predict(X[M:])
        assert_allclose(found[..., i], expected, rtol=1e-10, atol=1e-10)


def calibrated(fitted, Y, setting, near, task_near, coverage):
    """Return how many widths hold a share of the held-out labels, cell by cell."""
    held_out = fitted.holdout_ if fitted.searches else fitted.holdout(setting)
    widths = (1 + np.add.outer(near, task_near) / 2) ** 0.5
    scores = np.sort((np.abs(Y - held_out) / widths).ravel())
    return scores[ranks(scores.size, coverage)[1] - 1]


@over(every(model=["two-step", "Kronecker", "search"], intercept=[True, False]))
def test_pairs_that_are_new_on_both_sides(model, intercept):
    """A search is calibrated by what it has held out."""
    X, T, Y = data(6)
    if model == "search":
        fitted = TwoStepRidgeCV([0.3], [0.5], setting="D", fit_intercept=intercept, **RBF)
        fitted.fit(*train(X, T, Y), groups=np.arange(M) // 3, task_groups=np.arange(Q) // 2)
    else:
        fitted = MODELS[model](0.3, fit_intercept=intercept, **RBF).fit(*train(X, T, Y))
    ridges = side_ridges(fitted.fitted_.training_problem.pairing)
    free = intercept and model != "Kronecker"
    near = []
    far = []
    for features, ridge, n in ((X, ridges[0], M), (T, ridges[1], Q)):
        K = kernel_of(features, "rbf", fitted)
        rows = np.arange(n)
        own = np.array([distance(K, i, np.delete(rows, i), ridge, free) for i in rows])
        near.append(own / np.median(own))
        new = [distance(K, x, rows, ridge, free) for x in range(n, n + NEW)]
        far.append(np.array(new) / np.median(own))
    reach = calibrated(fitted, Y[:M, :Q], "D", *near, 0.9)
    widths = (1 + np.add.outer(*far) / 2) ** 0.5
    F = fitted.predict(X[M:], T[Q:])
    found = fitted.predict_interval(X[M:], T[Q:], coverage=0.9)
    assert_allclose(found, (F - reach * widths, F + reach * widths), rtol=1e-9)


@over(every(holes=[False, True]))
def test_known_pairs_lie_around_what_was_predicted_without_them(holes):
    X, T, Y = data(7)
    Y = Y[:M, :Q]
    if holes:
        Y[2, 3] = Y[4, 5] = Y[7, 7] = np.nan
    fitted = TwoStepRidge(0.3, 0.5, **RBF).fit(X[:M], Y, T[:Q])
    leverages = []
    for features, alpha in ((X[:M], 0.3), (T[:Q], 0.5)):
        centre = np.eye(len(features)) - 1 / len(features)
        K = centre @ rbf_kernel(features) @ centre
        leverages.append(np.diag(np.linalg.solve(K + alpha * np.eye(len(K)), K)) + 1 / len(K))
    slack = 1 - np.outer(*leverages)
    width = (1 + (1 / slack) / np.median(1 / slack)) ** 0.5
    held_out = fitted.holdout("A")
    observed = ~np.isnan(Y)
    scores = np.sort((np.abs(Y - held_out) / width)[observed])
    reach = scores[ranks(scores.size, 0.9)[1] - 1]
    centre = np.where(observed, held_out, fitted.completed_)
    expected = centre - reach * width, centre + reach * width
    assert_allclose(fitted.predict_interval(), expected, rtol=1e-8)


@over(every(symmetry=["symmetric", "antisymmetric"]))
def test_networks_know_their_vertices_and_count_an_edge_once(symmetry):
    rng = default_rng(8)
    X = rng.normal(size=(M + 2, 3))
    Y = rng.normal(size=(M, M))
    sign = 1 if symmetry == "symmetric" else -1
    Y = Y + sign * Y.T
    fitted = TwoStepRidge(kernel="rbf", symmetry=symmetry).fit(X[:M], Y)
    lower, upper = fitted.predict_interval(X[M:], coverage=0.8)
    assert_allclose((lower + upper) / 2, fitted.predict(X[M:]), rtol=1e-9, atol=1e-9)
    turned = fitted.predict_interval(None, X[M:], coverage=0.8)
    assert_allclose(turned[0].T, lower if sign > 0 else -upper, rtol=1e-9, atol=1e-9)
    # From how far off the others were with the same vertex, and never with itself.
    intervals = fitted.fitted_.intervals
    scores = np.abs(Y - fitted.holdout("B")) / (1 + intervals._distances[0])[:, None] ** 0.5
    np.fill_diagonal(scores, np.nan)
    far = intervals._local(fitted.fitted_.rows(X[M:])[1])[0]
    reach = np.sort(scores, axis=0)[ranks(M - 1, 0.8)[1] - 1] * (1 + far)[:, None] ** 0.5
    assert_allclose((upper - lower) / 2, reach, rtol=1e-9)
    lower, upper = fitted.predict_interval(coverage=0.8)
    assert_allclose(upper, upper.T if sign > 0 else -lower.T, rtol=1e-9, atol=1e-9)
    widths = np.broadcast_to(intervals._cell_widths, Y.shape)
    scores = np.sort((np.abs(Y - fitted.holdout("A")) / widths)[np.triu_indices(M)])
    reach = scores[ranks(scores.size, 0.8)[1] - 1]
    assert_allclose((upper - lower) / 2, reach * widths, rtol=1e-9)


# --- what is known, and what is new --------------------------------------------------------------------------


def frames(seed=9):
    X, T, Y = data(seed)
    X = pd.DataFrame(X, index=[f"i{n}" for n in range(len(X))]).rename(columns=str)
    T = pd.DataFrame(T, index=[f"t{n}" for n in range(len(T))]).rename(columns=str)
    return X, T, pd.DataFrame(Y, index=X.index, columns=T.index)


def test_ids_tell_known_from_new():
    X, T, Y = frames()
    model = TwoStepRidge(0.3, 0.5, **RBF).fit(X[:M], Y.iloc[:M, :Q], T[:Q])
    rows = ["i14", "i3", "i15", "i0"]
    columns = ["t2", "t12", "t11", "t5", "t0"]
    found = model.predict_interval(X.loc[rows], T.loc[columns], coverage=0.8)
    new = X.loc[["i14", "i15"]]
    new_tasks = T.loc[["t12", "t11"]]
    for asked in ((None, None), (new, None), (None, new_tasks), (new, new_tasks)):
        for end, wanted in zip(found, model.predict_interval(*asked, coverage=0.8), strict=True):
            assert (list(end.index), list(end.columns)) == (rows, columns)
            of_both = wanted.index.intersection(rows), wanted.columns.intersection(columns)
            assert_allclose(end.loc[of_both], wanted.loc[of_both], rtol=1e-12)
    # A setting that is said overrules ids.
    said = model.predict_interval(X[:3], coverage=0.8, setting="B")
    renamed = model.predict_interval(X[:3].set_axis(["new", "newer", "newest"]), coverage=0.8)
    assert_allclose(said, renamed, rtol=1e-12)


def test_rows_without_ids_are_new():
    """Also those that a frame has counted by itself."""
    X, T, Y = data(10)
    frame = pd.DataFrame(X).rename(columns=str)
    for rows, labels, asked, tasks, setting in (
        (X, Y[:M, :Q], X[:2], T[:2], "D"),
        (frame, pd.DataFrame(Y[:M, :Q]), frame[M:].reset_index(drop=True), None, "B"),
    ):
        model = TwoStepRidge().fit(rows[:M], labels, T[:Q])
        by_default = model.predict_interval(asked, tasks, coverage=0.8)
        said = model.predict_interval(asked, tasks, coverage=0.8, setting=setting)
        assert_array_equal(by_default, said)


def test_the_largest_coverage_of_few_residuals_is_named(each):
    X, T, Y = data(15)
    holes = Y[:5, :Q].copy()
    holes[:2, 3], holes[4, 5] = np.nan, np.nan
    table = pd.DataFrame(Y[:5, :4], index=list("abcde"), columns=list("stuv"))
    few = KroneckerRidge().fit(X[:5], table, T[:4])
    mixed = {
        "X": pd.DataFrame(X[3:7], index=list("deyz")),
        "tasks": pd.DataFrame(T[3:6], index=list("vwx")),
    }
    complete = TwoStepRidge().fit(X[:5], Y[:5, :Q], T[:Q])
    cases = [
        (complete, {"X": X[M:]}, 0.9, "5", 0.833),
        (TwoStepRidge().fit(X[:5], holes, T[:Q]), {"X": X[M:]}, 0.82, "3 to 4", 0.75),
        (few, {}, 0.99, "20", 0.952),
        (few, mixed, 0.99, "4 to 20", 0.8),
        (TwoStepRegressor().fit(X[:5], Y[:5, :4], T[:4]), {"X": X[M:]}, 0.99, "20", 0.952),
    ]
    for model, asked, coverage, found, most in each(cases):
        remedy = f"use a coverage of at most {most:g}, or give more labels."
        message = f"because {found} held-out residuals are too few for a coverage of {coverage:g}: {remedy}$"
        with pytest.warns(UnboundedIntervalWarning, match=message) as recorded:
            bounds = model.predict_interval(**asked, coverage=coverage)
        assert len(recorded) == 1
        assert recorded[0].filename == __file__
        assert np.isinf(bounds).any()
        assert np.isfinite(model.predict_interval(**asked, coverage=most)).all()


@over(
    lines(
        "given words",
        ({"coverage": 1.0}, "coverage must be a number between 0 and 1, found 1.0"),
        ({"coverage": "0.9"}, "coverage must be a number"),
        ({"setting": "B"}, "new instances: give X"),
        ({"setting": "E"}, "Unknown setting"),
        ({"setting": "A", "X": data(17)[0][M:]}, "rows without ids count as new"),
    )
)
def test_what_makes_no_sense_is_refused(given, words):
    model = TwoStepRidge().fit(*train(*data(17)))
    with pytest.raises(ValueError, match=words):
        model.predict_interval(**given)


def test_long_tables_have_intervals_of_their_pairs():
    X, T, Y = frames(20)
    labels = Y.iloc[:M, :Q].stack()
    pairs = labels.index.to_frame(index=False)
    model = PairRegressor(TwoStepRidge(0.3, 0.5), instances=X, tasks=T).fit(pairs, labels)
    asked = [("i14", "t3"), ("i2", "t12"), ("i14", "t12"), ("i2", "t3")]
    found = model.predict_interval(pd.DataFrame(asked), coverage=0.8)
    grid = TwoStepRidge(0.3, 0.5).fit(X[:M], Y.iloc[:M, :Q], T[:Q])
    wanted = grid.predict_interval(X.loc[["i14", "i2"]], T.loc[["t3", "t12"]], coverage=0.8)
    assert_allclose(found, [end.stack()[asked] for end in wanted], rtol=1e-9)


# --- at the edges --------------------------------------------------------------------------------------------


def test_nothing_is_promised_where_no_label_is_known():
    X, T, Y = data(22)
    Y = Y[:M, :Q].copy()
    Y[:, 3] = np.nan
    model = TwoStepRidge().fit(X[:M], Y, T[:Q])
    with pytest.warns(
        UnboundedIntervalWarning, match=r"because 0 held-out residuals .*: give more labels\.$"
    ):
        lower, upper = model.predict_interval(X[M:], coverage=0.8)
    assert_array_equal(np.isinf(lower), np.isinf(upper))
    assert_array_equal(np.isneginf(lower).all(axis=0), np.arange(Q) == 3)
    with pytest.warns(NoLabelWarning):
        alone = IndependentTaskRidge().fit(X[:M], Y)
    for end in alone.predict_interval(X[M:], coverage=0.8):
        assert_array_equal(np.isnan(end), np.isnan(alone.predict(X[M:])))


@over(every(coverage=[0.01, 0.45]))
def test_ends_do_not_cross(coverage):
    X, T, Y = data(23)
    model = TwoStepRidge(1e-6, 1e-6, **RBF).fit(*train(X, T, Y))
    lower, upper = model.predict_interval(X[M:], coverage=coverage)
    assert (lower <= upper).all()


@over(lines("n coverage", (29, 0.7), (99, 0.9), (199, 0.95), (9, 0.9), (999, 0.99)))
def test_ranks_of_round_shares_are_whole_numbers(n, coverage):
    low, high = ranks(n, coverage)
    assert (low, high) == (round((1 - coverage) * (n + 1)), round(coverage * (n + 1)))


def test_new_vertices_beside_missing_edges_are_refused():
    X = default_rng(32).normal(size=(9, 2))
    Y = X @ X.T
    Y[1, 4] = Y[4, 1] = np.nan
    model = TwoStepRidge(symmetry="symmetric").fit(X, Y)
    with pytest.raises(
        ValueError, match="Setting B of a network with missing labels is not supported"
    ):
        model.predict_interval(X[:2] + 1)
    assert np.isfinite(model.predict_interval(coverage=0.8)).all()


# Kernels of new rows with themselves ---------------------------------------------------------------------

QUADRATIC = {"degree": 2, "gamma": 0.5, "coef0": 1}
_DRAWN = default_rng(5)
ROWS = _DRAWN.normal(size=(24, 2))
COLUMNS = _DRAWN.normal(size=(20, 2))
LABELS = np.sin(ROWS[:18, :1]) @ COLUMNS[:15, :1].T + 0.2 * _DRAWN.normal(size=(18, 15))
K_ALL, G_ALL = (gram(each, kernel="poly", kernel_params=QUADRATIC) for each in (ROWS, COLUMNS))
K_NEW = K_ALL[18:, :18]
K_OWN = np.diag(K_ALL)[18:]


def _learned(kernel):
    kernels = {"kernel": "precomputed", "task_kernel": "precomputed"}
    if kernel == "poly":
        kernels = dict.fromkeys(kernels, ("poly", QUADRATIC))
    return LearnedKernelRidge(setting="B", n_steps=3, normalize=False, **kernels)


def _plain(model, kernel):
    params = QUADRATIC if kernel == "poly" else None
    return model.set_params(
        kernel=kernel, task_kernel=kernel, kernel_params=params, task_kernel_params=params
    )


DIAGONAL_MODELS = {
    "two-step": lambda kernel: _plain(TwoStepRidge(0.5, 0.3), kernel),
    "Kronecker": lambda kernel: _plain(KroneckerRidge(0.5), kernel),
    "pair kernel": lambda kernel: _plain(PairKernelRidge(0.5, per_task=0.2), kernel),
    "no intercept": lambda kernel: _plain(KroneckerRidge(0.5, fit_intercept=False), kernel),
    "learned": _learned,
}


@over(covering(make=DIAGONAL_MODELS, holes=[False, True], strength=1))
def test_the_kernel_of_new_rows_with_themselves_may_be_given(make, holes):
    """Then intervals are those of the same model with features, for which it is known."""
    Y = LABELS.copy()
    if holes:
        Y[2, 3] = np.nan
    features = make("poly").fit(ROWS[:18], Y, COLUMNS[:15])
    model = make("precomputed").fit(K_ALL[:18, :18], Y, G_ALL[:15, :15])
    new = {"X": K_NEW, "diagonal": K_OWN}
    new_tasks = {"tasks": G_ALL[15:, :15], "task_diagonal": np.diag(G_ALL)[15:]}
    for given, wanted in (
        (new, (ROWS[18:], None)),
        (new_tasks, (None, COLUMNS[15:])),
        (new | new_tasks, (ROWS[18:], COLUMNS[15:])),
    ):
        expected = features.predict_interval(*wanted, coverage=0.8)
        found = model.predict_interval(**given, coverage=0.8)
        assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
        # Without them, all new rows have the same width in D, and intervals exist everywhere.
        rows = {name: given[name] for name in ("X", "tasks") if name in given}
        lower, upper = model.predict_interval(**rows, coverage=0.8)
        assert np.isfinite(lower).all()
        assert np.abs(lower - found[0]).max() > 1e-3
        if len(rows) == 2:
            assert_allclose(upper - lower, (upper - lower)[0, 0])


def test_learned_kernels_take_the_diagonals_of_their_precomputed_kernels():
    features = _learned("poly").fit(ROWS[:18], LABELS, COLUMNS[:15])
    K = K_ALL[:18, :18]
    model = _learned("precomputed").fit(K, LABELS, G_ALL[:15, :15])
    few = np.full((6, 15), np.nan)
    few[:, 2] = 1.0
    found = model.predict(K_NEW, labels=few, diagonal=K_OWN)
    assert_allclose(found, features.predict(ROWS[18:], labels=few))
    with pytest.raises(ValueError, match="with itself is not known: give diagonal=, 6 numbers"):
        model.predict(K_NEW, labels=few)
    kernels = {"a": "precomputed", "b": "precomputed", "c": "rbf"}
    two = LearnedKernelRidge(kernel=kernels, setting="B", n_steps=1, normalize=False)
    two.fit({"a": K, "b": K**2, "c": ROWS[:18]}, LABELS)
    asked = {"a": K_NEW, "b": K_NEW**2, "c": ROWS[18:]}
    some = {**asked, "b": np.full(K_NEW.shape, np.nan)}
    for given, diagonal, message in (
        (asked, K_OWN, "diagonal must be a mapping with the diagonal of each kernel, 'a', 'b'"),
        (asked, {"c": K_OWN}, "diagonal has the unknown name 'c' and lacks 'a', 'b'"),
        (some, {"a": K_OWN, "b": K_OWN}, "need all descriptions: give 'b' for each row"),
    ):
        with pytest.raises(ValueError, match=message):
            two.predict_interval(given, diagonal=diagonal)


@over(every(model=["two-step", "Kronecker"], intercept=[True, False]))
def test_sparse_features_are_as_far_as_dense_ones(model, intercept):
    X, T, Y = data(20)
    X = np.column_stack([X + 3.0, np.zeros(len(X))])
    X[M, 3] = 5.0
    fitted = MODELS[model](0.5, kernel="linear", task_kernel="linear", fit_intercept=intercept)
    wanted, found = (
        fitted.fit(*train(put(X), T, Y)).predict_interval(put(X[M:]), coverage=0.8)
        for put in (np.array, csr_array)
    )
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_one_residual_is_too_few():
    X, T, Y = data(15)
    model = KroneckerRidge().fit(X[:5], Y[:5, :1], T[:1])
    words = "because 1 held-out residual is too few for a coverage of 0.9: give more labels"
    with pytest.warns(UnboundedIntervalWarning, match=words):
        model.predict_interval(tasks=T[1:3])


def test_ends_that_cross_become_their_mean():
    X, T, Y = data()
    rows, labels, tasks = train(X, T, Y)
    model = TwoStepRidge(0.1, 0.1).fit(rows, labels, tasks)
    lower, upper = model.predict_interval(X[M:], coverage=0.01)
    wider = model.predict_interval(X[M:], coverage=0.5)
    assert (lower <= upper).all()
    assert (lower == upper).any()
    assert (wider[0] <= lower).all()
    assert (upper <= wider[1]).all()

"""Predictions for new rows with a few labels: equal to those of a model that is fitted again with the row."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRidge,
)
from dyadlearn.exceptions import IdError
from dyadlearn.filters import Landweber
from dyadlearn.kernels import gram
from dyadlearn.pairing import new_labels
from dyadlearn.pairing.cells_process import process_of
from problems import to_long
from sweeps import covering, lines, over

M = 9
Q = 7
A = 3
X, Y, T = problems.data(M + A, Q + A, seed=3)
Y += 3.0
RNG = np.random.default_rng(4)
MISSING = np.where(RNG.random((M, Q)) < 0.3, np.nan, Y[:M, :Q])
WEIGHTS = RNG.random((M, Q)) + 0.5
# Labels of three new rows: some, one, none.
KNOWN = np.zeros((A, max(M, Q)), dtype=bool)
KNOWN[0, [0, 2, 3, 6]], KNOWN[1, 5] = True, True
FEW = np.where(KNOWN[:, :Q], Y[M:, :Q], np.nan)
FEW_OF_TASKS = np.where(KNOWN[:, :M].T, Y[:M, Q:], np.nan)

SIDES = {
    "linear": "linear",
    "rbf": "rbf",
    "precomputed": "precomputed",
    "sparse": "linear",
    "wide": "linear",
}
FAMILY = {
    "Kronecker": KroneckerRidge(),
    "two-step": TwoStepRidge(),
    "product": PairKernelRidge(product=0.7),
    "per task": PairKernelRidge(product=0.6, per_task=0.4),
    "per instance": PairKernelRidge(product=0.7, per_instance=0.2),
    "all": PairKernelRidge(product=0.5, per_task=0.2, per_instance=0.3),
    "Cartesian": PairKernelRidge(product=0.0, per_task=1.0, per_instance=0.5),
    "identity": KroneckerRidge(identity=(0.7, 0.3)),
    "constants": KroneckerRidge(constants=(0.3, 4.0)),
    "two-step with identity": TwoStepRidge(identity=(0.7, 0.3)),
}


def may_be(model, fit_intercept, **_):
    """Return whether a model without intercept has no weights of main effects."""
    return fit_intercept or model is not FAMILY["constants"]


def given(side, values, rows, columns):
    """Return rows as a model takes them; a kernel with the training rows `columns`."""
    if side == "precomputed":
        return (
            gram(values, kernel="rbf")[np.ix_(rows, columns)]
            * (1.0 + np.arange(len(values)) % 2)[rows][:, None]
            * (1.0 + np.arange(len(values)) % 2)[columns]
        )
    if side == "wide":  # new rows are outside of the span of training
        values = np.hstack([values, values**2, np.sin(3 * values), np.cos(2 * values)])
    return sparse.csr_array(values[rows]) if side == "sparse" else values[rows]


def diagonal(side, values, rows, name):
    """Return the argument with the kernel of new rows with themselves."""
    if side == "precomputed":
        return {name: np.diag(given(side, values, rows, rows))}
    return {}


def compared(model, side, task_side, axis, labels=None, weights=None):
    """Return predictions with few labels, those of refits with each new row, and predictions without labels."""
    values = (X, T)[axis]
    other = (T, X)[axis]
    n, n_other = ((M, Q), (Q, M))[axis]
    own = (side, task_side)[axis]
    beside = (task_side, side)[axis]
    model = model.set_params(kernel=SIDES[side], task_kernel=SIDES[task_side])
    grid = Y[:M, :Q] if labels is None else labels
    turn = (lambda array: array.T) if axis else (lambda array: array)
    train = np.arange(n)
    known = np.arange(n_other)
    rest = given(beside, other, known, known)

    def fitted(rows, labels, weights):
        first = given(own, values, rows, rows)
        pair = (rest, first) if axis else (first, rest)
        return clone(model).fit(
            pair[0], turn(labels), pair[1], weights if weights is None else turn(weights)
        )

    before = fitted(train, turn(grid), None if weights is None else turn(weights))
    new = n + np.arange(A)
    few = np.where(KNOWN[:, :n_other], turn(Y)[new][:, :n_other], np.nan)
    asked = {"tasks" if axis else "X": given(own, values, new, train)}
    more = diagonal(own, values, new, ("diagonal", "task_diagonal")[axis])
    found = before.predict(**asked, labels=turn(few), **more)
    plain = before.predict(**asked)
    expected = turn(plain).copy()
    for place in range(2):
        rows = np.append(train, n + place)
        again = np.vstack([turn(grid), few[place]])
        if weights is None:
            heavy = None
        else:
            heavy = np.vstack([turn(weights), np.ones(n_other)])
        expected[place] = turn(fitted(rows, again, heavy).predict())[-1]
    return found, turn(expected), plain


@over(
    covering(
        own=list(SIDES),
        beside=["linear", "precomputed"],
        model={name: FAMILY[name] for name in ("Kronecker", "two-step", "all", "Cartesian")},
        axis=[0, 1],
        alpha=[1e-3, 0.5, 1e3],
        fit_intercept=[True, False],
        also=covering(
            where=may_be,
            model=FAMILY,
            axis=[0, 1],
            fit_intercept=[True, False],
            own=["rbf"],
            beside=["linear"],
            alpha=[0.5],
        ),
    )
)
def test_complete_labels_give_the_predictions_of_a_refit(
    own, beside, model, axis, alpha, fit_intercept
):
    """Of new rows of all kinds, with the other side in the primal and in the dual."""
    side, task_side = (beside, own) if axis else (own, beside)
    model = clone(model).set_params(alpha=alpha, fit_intercept=fit_intercept)
    if isinstance(model, TwoStepRidge):
        model.set_params(task_alpha=0.3)
    found, expected, plain = compared(model, side, task_side, axis)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    unlabelled = found[:, -1] if axis else found[-1]
    assert_array_equal(unlabelled, plain[:, -1] if axis else plain[-1])
    assert alpha == 1e3 or np.abs(found - plain).max() > 1e-3


@over(
    covering(
        where=may_be,
        model={name: model for name, model in FAMILY.items() if "two-step" not in name},
        axis=[0, 1],
        fit_intercept=[True, False],
        # Labels of new rows have weight one, however large the others are.
        weights={"none": None, "heavy": 10.0 * WEIGHTS},
        own=["linear", "precomputed", "wide"],
        beside=["linear", "rbf"],
        alpha=[0.1, 2.0],
        iterations=[0, 10**9],
    )
)
def test_missing_and_weighted_labels_give_the_predictions_of_a_refit(
    model, axis, fit_intercept, weights, own, beside, alpha, iterations, monkeypatch
):
    """By solving again for each new row, and by one inverse over the observed labels."""
    asked = []
    monkeypatch.setattr(new_labels, "_ITERATIONS", iterations)
    monkeypatch.setattr(
        new_labels, "process_of", lambda *given: asked.append(given) or process_of(*given)
    )
    side, task_side = (beside, own) if axis else (own, beside)
    model = clone(model).set_params(alpha=alpha, fit_intercept=fit_intercept, tol=1e-14)
    found, expected, plain = compared(model, side, task_side, axis, MISSING, weights)
    assert len(asked) == (iterations > 0)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert np.abs(found - plain).max() > 1e-3


def test_an_inverse_that_would_lose_digits_is_not_used(monkeypatch):
    """A kernel of few directions with hardly any noise is solved again."""
    monkeypatch.setattr(
        new_labels, "process_of", lambda *given: pytest.fail("the inverse was used")
    )
    found, expected, _ = compared(
        KroneckerRidge(1e-11, fit_intercept=False), "linear", "linear", 0, MISSING
    )
    assert_allclose(found, expected, rtol=1e-6)


def test_two_step_models_without_a_formula_are_solved_again():
    for how, axis, labels in (
        ({"alpha": 0.3}, 1, MISSING),
        ({"alpha": 0.3, "filter": Landweber()}, 0, None),
        ({"alpha": 0.0, "fit_intercept": False}, 0, None),
    ):
        model = TwoStepRidge(task_alpha=0.4, tol=1e-14).set_params(**how)
        found, expected, plain = compared(model, "rbf", "wide", axis, labels)
        assert_allclose(found, expected, rtol=1e-10, atol=1e-10, err_msg=str(how))
        assert np.abs(found - plain).max() > 1e-3


def test_frames_are_matched_by_ids_and_may_lack_columns():
    rows = [f"u{i}" for i in range(M + A)]
    items = [f"f{j}" for j in range(Q)]
    users = pd.DataFrame(X, rows)
    films = pd.DataFrame(T[:Q], items)
    model = KroneckerRidge().fit(users[:M], pd.DataFrame(Y[:M, :Q], rows[:M], items), films)
    rated = pd.DataFrame(
        {"f5": [np.nan, Y[M, 5]], "f2": [Y[M + 1, 2], Y[M, 2]]}, [rows[M + 1], rows[M]]
    )
    few = np.full((A, Q), np.nan)
    few[0, 5], few[0, 2], few[1, 2] = Y[M, 5], Y[M, 2], Y[M + 1, 2]
    found = model.predict(users[M:], labels=rated)
    assert list(found.index) == rows[M:]
    assert_array_equal(found, model.predict(X[M:], labels=few))
    with pytest.raises(ValueError, match="'f9' not among the ids of the tasks to predict for"):
        model.predict(users[M:], labels=rated.rename(columns={"f2": "f9"}))


@over(
    lines(
        "model given message",
        (
            IndependentTaskRidge(),
            {"X": X[M:], "labels": FEW},
            "labels of a new instance say nothing",
        ),
        (KroneckerRidge(), {"labels": FEW}, "give either X or tasks"),
        (
            KroneckerRidge(),
            {"X": X[M:], "tasks": T[Q:], "labels": FEW[:, :A]},
            "labels are those of new instances with training tasks",
        ),
        (
            KroneckerRidge(),
            {"X": X[M:], "labels": FEW[:, 1:]},
            "labels has 6 columns, expected 7: give NaN where",
        ),
        (KroneckerRidge(), {"X": X[M:], "labels": FEW[1:]}, "labels has 2 rows, expected 3"),
        (
            KroneckerRidge(),
            {"X": X[M:], "labels": FEW, "return_std": True},
            "leave return_std or labels out",
        ),
        (
            KroneckerRidge(),
            {"X": X[M:], "labels": FEW, "diagonal": np.ones(A)},
            "diagonal is only for rows of X from",
        ),
        (
            TwoStepRidge(kernel="precomputed"),
            {"X": X[M:] @ X[:M].T, "labels": FEW},
            "The kernel of every row of X with itself is not known: give diagonal=, 3 numbers",
        ),
    )
)
def test_what_is_refused(model, given, message):
    train = X[:M] @ X[:M].T if model.kernel == "precomputed" else X[:M]
    model = clone(model).fit(train, Y[:M, :Q], T[:Q])
    with pytest.raises(ValueError, match=message):
        model.predict(**given)


def test_long_tables():
    rows = [f"u{i}" for i in range(M + A)]
    items = [f"f{j}" for j in range(Q + A)]
    users = pd.DataFrame(X, rows)
    films = pd.DataFrame(T, items)
    pairs, values = to_long(MISSING, rows[:M], items[:Q])
    model = PairRegressor(KroneckerRidge(tol=1e-14), instances=users, tasks=films).fit(
        pairs, values
    )
    grid = KroneckerRidge(tol=1e-14).fit(X[:M], MISSING, T[:Q])
    for few, new, known, expected in (
        (FEW, rows[M:], items[:Q], grid.predict(X[M:], labels=FEW)),
        (FEW_OF_TASKS, rows[:M], items[Q:], grid.predict(tasks=T[Q:], labels=FEW_OF_TASKS)),
    ):
        labels = to_long(few, new, known)
        asked = [(new[i], known[j]) for i in range(few.shape[0]) for j in range(few.shape[1])]
        assert_allclose(model.predict(asked, labels=labels), expected.ravel(), rtol=1e-9)
    message = "labels= needs pairs of new instances with training tasks, or of training"
    new = (rows[M], items[0])
    for one, other in (
        (new, (rows[0], items[1])),
        (new, (rows[M], items[Q])),
        ((rows[0], items[Q]), (rows[0], items[0])),
    ):
        with pytest.raises(ValueError, match=message):
            model.predict([one, other], labels=([(rows[M], items[2])], [1.0]))
    with pytest.raises(
        TypeError, match=r"labels must be a tuple \(pairs, y\) of known pairs, found"
    ):
        model.predict([new], labels={(rows[M], items[2]): 1.0})
    with pytest.raises(IdError, match="u10"):
        model.predict([new], labels=([(rows[M + 1], items[2])], [1.0]))

"""Predictions for new rows with a few labels: equal to those of a model that is fitted again with the row."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    PairKernelRidge,
    PairKernelRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.filters import Landweber
from dyadlearn.kernels import gram
from tests.sweeps import covering, over

M, Q, A = 9, 7, 3
RNG = np.random.default_rng(3)
X, T = RNG.normal(size=(M + A, 4)), RNG.normal(size=(Q + A, 3))
Y = 3.0 + X @ RNG.normal(size=(4, 3)) @ T.T + RNG.normal(size=(M + A, Q + A))
MISSING = np.where(RNG.random((M, Q)) < 0.3, np.nan, Y[:M, :Q])
WEIGHTS = RNG.random((M, Q)) + 0.5
# Labels of three new rows: some, one, none.
KNOWN = np.zeros((A, max(M, Q)), dtype=bool)
KNOWN[0, [0, 2, 3, 6]], KNOWN[1, 5] = True, True

SIDES = {"linear": "linear", "rbf": "rbf", "precomputed": "precomputed", "sparse": "linear"}
FAMILY = {
    "Kronecker": KroneckerRidge(),
    "two-step": TwoStepRidge(),
    "product": PairKernelRidge(product=0.7),
    "per task": PairKernelRidge(product=0.6, per_task=0.4),
    "per instance": PairKernelRidge(product=0.7, per_instance=0.2),
    "all": PairKernelRidge(product=0.5, per_task=0.2, per_instance=0.3),
    "Cartesian": PairKernelRidge(product=0.0, per_task=1.0, per_instance=0.5),
}


def given(side, values, rows, columns):
    """Return rows as a model takes them; a kernel with the training rows `columns`."""
    if side == "precomputed":
        return gram(values, kernel="rbf")[np.ix_(rows, columns)] * (1.0 + np.arange(len(values)) % 2)[rows][:, None] * (
            1.0 + np.arange(len(values)) % 2
        )[columns]
    return sparse.csr_array(values[rows]) if side == "sparse" else values[rows]


def diagonal(side, values, rows, name):
    """Return the argument with the kernel of new rows with themselves."""
    return {name: np.diag(given(side, values, rows, rows))} if side == "precomputed" else {}


def compared(model, side, task_side, axis, labels=None, weights=None):
    """Return predictions with few labels, those of refits with each new row, and predictions without labels."""
    values, other = (X, T)[axis], (T, X)[axis]
    n, n_other = ((M, Q), (Q, M))[axis]
    own, beside = (side, task_side)[axis], (task_side, side)[axis]
    model = model.set_params(kernel=SIDES[side], task_kernel=SIDES[task_side])
    grid = Y[:M, :Q] if labels is None else labels
    turn = (lambda array: array.T) if axis else (lambda array: array)
    train, known = np.arange(n), np.arange(n_other)
    rest = given(beside, other, known, known)

    def fitted(rows, labels, weights):
        first = given(own, values, rows, rows)
        pair = (rest, first) if axis else (first, rest)
        return clone(model).fit(pair[0], turn(labels), pair[1], weights if weights is None else turn(weights))

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
        heavy = None if weights is None else np.vstack([turn(weights), np.ones(n_other)])
        expected[place] = turn(fitted(rows, again, heavy).predict())[-1]
    return found, turn(expected), plain


@over(
    covering(
        side=list(SIDES),
        task_side=list(SIDES),
        model=FAMILY,
        axis=[0, 1],
        alpha=[1e-3, 0.5, 1e3],
        fit_intercept=[True, False],
        also=covering(model=FAMILY, axis=[0, 1], fit_intercept=[True, False], side=["rbf"], task_side=["linear"], alpha=[0.5]),
    )
)
def test_complete_labels_give_the_predictions_of_a_refit(side, task_side, model, axis, alpha, fit_intercept):
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
        model={name: model for name, model in FAMILY.items() if name != "two-step"},
        axis=[0, 1],
        fit_intercept=[True, False],
        weighted=[True, False],
        side=["linear", "rbf", "precomputed"],
        task_side=["linear", "rbf"],
        alpha=[0.01, 2.0],
    )
)
def test_missing_and_weighted_labels_give_the_predictions_of_a_refit(
    model, axis, fit_intercept, weighted, side, task_side, alpha
):
    model = clone(model).set_params(alpha=alpha, fit_intercept=fit_intercept, tol=1e-14)
    found, expected, plain = compared(model, side, task_side, axis, MISSING, WEIGHTS if weighted else None)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-10)
    assert np.abs(found - plain).max() > 1e-3

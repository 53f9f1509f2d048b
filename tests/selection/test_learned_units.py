"""Learned kernels do not depend on units: of labels, weights and features, nor on the order and the names of sides."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import problems
from dyadlearn import LearnedKernelRidge
from dyadlearn.kernels import gram
from sweeps import lines, over

M = 9
Q = 7
RNG = np.random.default_rng(3)
X = RNG.normal(size=(M + 2, 3))
T = RNG.normal(size=(Q + 2, 2))
Y = (np.sin(X[:, :1]) @ T[:, :1].T + X[:, 1:2] + 0.3 * RNG.normal(size=(M + 2, Q + 2)))[:M, :Q]
HOLES = problems.with_holes(Y, 0.25)
WEIGHTS = {
    "none": None,
    "equal": np.ones(Y.shape),
    "rows": np.repeat(RNG.uniform(0.3, 3.0, size=(M, 1)), Q, axis=1),
    "cells": RNG.uniform(0.3, 3.0, size=Y.shape),
    "spread": 10.0 ** RNG.uniform(-8, 0, size=Y.shape),
}
# Kernels that are no multiples of each other where they are not normalised.
KERNELS = {"instances": ("poly", {"degree": 2, "gamma": 1, "coef0": 1}), "tasks": ("linear", None)}
PROBLEMS = lines(
    "setting kernel labels weights more",
    ("B", "rbf", Y, "none", {}),
    ("B", "linear", Y, "equal", {"normalize": False}),
    ("A", "precomputed", HOLES, "rows", {"normalize": False, "stages": 2}),
    ("D", "linear", Y, "cells", {}),
    ("C", "rbf", HOLES, "spread", {"stages": 1}),
)
IDENTITY = {"labels": 1.0, "shift": 0.0, "weights": 1.0, "rows": 1.0, "columns": 1.0}


def _tables(kernel, rows, factor, side):
    """Return the training rows of a side and its new rows, in some unit."""
    n = {"instances": M, "tasks": Q}[side]
    if kernel != "precomputed":
        return rows[:n] * factor, rows[n:] * factor
    name, params = KERNELS[side]
    K = gram(rows, kernel=name, kernel_params=params) * factor
    return K[:n, :n], K[n:, :n]


def _fitted(problem, **factors):
    """Return the predictions and hold-out of a model in the units of the problem, and its alpha_."""
    used = {**IDENTITY, **factors}
    setting = problem["setting"]
    kernel = problem["kernel"]
    K, K_new = _tables(kernel, X, used["rows"], "instances")
    G, G_new = _tables(kernel, T, used["columns"], "tasks")
    weights = WEIGHTS[problem["weights"]]
    if weights is None:
        used["weights"] = 1.0
    else:
        weights = weights * used["weights"]
    model = LearnedKernelRidge(
        setting=setting, kernel=kernel, task_kernel=kernel, n_steps=2, cv=2, **problem["more"]
    )
    model.fit(K, problem["labels"] * used["labels"] + used["shift"], G, weights)
    found = [model.predict(), model.holdout_]
    if model.n_stages_ == 1:
        found += [model.predict(K_new), model.predict(tasks=G_new), model.predict(K_new, G_new)]
    values = np.concatenate([np.ravel(each) for each in found])
    return (values - used["shift"]) / used["labels"], model.alpha_ / used["weights"], model


@pytest.fixture(scope="module")
def references():
    return [_fitted(problem) for problem in PROBLEMS]


@over(
    lines(
        "factors",
        {"labels": 1e12, "weights": 1e-12, "rows": 1e-12, "columns": 1e12},
        {"shift": 1e6},
        {"labels": 1e-5, "weights": 3e7, "rows": 1e5, "columns": 1e-7},
    )
)
def test_units_of_labels_weights_and_features_do_not_matter(factors, references):
    for problem, (expected, alpha, reference) in zip(PROBLEMS, references, strict=True):
        found, found_alpha, model = _fitted(problem, **factors)
        scale = np.nanmax(np.abs(expected))
        assert_allclose(found, expected, rtol=0, atol=1e-6 * scale, err_msg=str(problem))
        assert_allclose(found_alpha, alpha, rtol=1e-6)
        assert_allclose(model.shares_, reference.shares_, rtol=1e-5)
        variance = factors.get("labels", 1.0) ** 2
        assert_allclose(model.holdout_error_ / variance, reference.holdout_error_, rtol=1e-5)

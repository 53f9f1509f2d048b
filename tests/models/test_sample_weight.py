"""Weights of cells and of instances, against weighted normal equations and against repeated observations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context
from sklearn.model_selection import KFold, cross_validate

from dyadlearn import IndependentTaskRidge, KroneckerRidge, Tasks, TwoStepRidge
from sweeps import every, over

M = 8
Q = 6
ALPHA = 0.5
TASK_ALPHA = 0.2
RNG = np.random.default_rng(0)
X = RNG.normal(size=(M, 4))
T = RNG.normal(size=(Q, 3))
NEW = RNG.normal(size=(3, 4))
NEW_TASKS = RNG.normal(size=(2, 3))
Y = RNG.normal(size=(M, Q))
HOLES = np.where(RNG.random((M, Q)) < 0.3, np.nan, Y)
WEIGHTS = RNG.uniform(0.1, 3.0, size=(M, Q))
ROWS = [f"i{i}" for i in range(M)]
TASKS = [f"t{j}" for j in range(Q)]

MODELS = [IndependentTaskRidge, KroneckerRidge, TwoStepRidge]
every_model = {"Model": MODELS}
complete_or_not = {"labels": {"complete": Y, "holes": HOLES}}


def make_model(Model: Any, kernel: str = "rbf", **params: Any) -> Any:
    if Model is not IndependentTaskRidge:
        params = {"task_kernel": kernel, "tol": 1e-12} | params
    if Model is TwoStepRidge:
        params = {"task_alpha": TASK_ALPHA} | params
    return Model(**({"alpha": ALPHA, "kernel": kernel} | params))


def close(found: Any, expected: np.ndarray, rtol: float = 1e-8) -> None:
    assert_allclose(
        np.asarray(found, dtype=float), expected, rtol=0, atol=rtol * np.abs(expected).max()
    )


@over(every(Model=[IndependentTaskRidge, KroneckerRidge], **complete_or_not))
def test_weights_of_instances_are_repeated_instances(Model, labels):
    """Of the models that are ridge regressions wherever they are asked, in every setting."""
    counts = np.array([1, 3, 2, 1, 1, 4, 1, 2])
    rows = np.repeat(np.arange(M), counts)
    weighted = make_model(Model).fit(X, labels, tasks=T, sample_weight=counts)
    repeated = make_model(Model).fit(X[rows], labels[rows], tasks=T)
    close(weighted.predict(NEW), repeated.predict(NEW), 1e-7)
    if Model is KroneckerRidge:
        close(weighted.predict(NEW, tasks=NEW_TASKS), repeated.predict(NEW, tasks=NEW_TASKS), 1e-7)


@over(every(**every_model, **complete_or_not))
def test_the_weight_of_an_instance_is_that_of_its_cells(Model, labels):
    weights = WEIGHTS[:, 0]
    expected = (
        make_model(Model)
        .fit(X, labels, tasks=T, sample_weight=np.tile(weights[:, None], Q))
        .predict(NEW)
    )
    for given in (weights, weights[:, None], weights.tolist(), pl.Series(weights)):
        close(make_model(Model).fit(X, labels, tasks=T, sample_weight=given).predict(NEW), expected)


@over(every(**every_model))
def test_weights_of_frames_are_aligned_by_id(Model):
    labels = pd.DataFrame(HOLES, ROWS, TASKS)
    sides = {"X": pd.DataFrame(X, ROWS), "tasks": pd.DataFrame(T, TASKS)}
    cells = pd.DataFrame(WEIGHTS, ROWS, TASKS)
    rows = pd.Series(WEIGHTS[:, 0], ROWS)
    expected = make_model(Model).fit(X, HOLES, tasks=T, sample_weight=WEIGHTS).predict(NEW)
    turned = make_model(Model).fit(y=labels, sample_weight=cells.iloc[::-1, ::-1], **sides)
    close(turned.predict(NEW), expected)
    expected = make_model(Model).fit(X, HOLES, tasks=T, sample_weight=WEIGHTS[:, 0]).predict(NEW)
    turned = make_model(Model).fit(y=labels, sample_weight=rows.iloc[::-1], **sides)
    close(turned.predict(NEW), expected)


def test_a_network_takes_no_weights():
    with pytest.raises(
        ValueError,
        match=r"^A network does not support weights of edges: leave sample_weight out\.$",
    ):
        TwoStepRidge(symmetry="symmetric").fit(X, np.eye(M), sample_weight=np.ones(M))


@over(every(weights={"instances": WEIGHTS[:, 0], "cells": WEIGHTS}))
def test_scikit_learn_cuts_the_weights_with_the_rows(weights):
    folds = KFold(4)
    with config_context(enable_metadata_routing=True):
        model = make_model(TwoStepRidge).set_fit_request(tasks=True, sample_weight=True)
        found = cross_validate(
            model.set_score_request(tasks=False, sample_weight=False),
            X,
            HOLES,
            cv=folds,
            params={"tasks": Tasks(T), "sample_weight": weights},
            error_score="raise",
        )
    expected = []
    for train, test in folds.split(X):
        own = make_model(TwoStepRidge).fit(
            X[train], HOLES[train], tasks=T, sample_weight=weights[train]
        )
        expected.append(own.score(X[test], HOLES[test]))
    assert_allclose(found["test_score"], expected)


def test_as_many_labels_as_products_of_features_keep_their_digits():
    """Of two labels one is predicted from the other: the kernel is regular, and little is lost for a tiny ridge."""
    X = np.array([[1.0, 2.0, 3.0], [0.0, -2.0, 1.0]])
    K = np.array([[3e4]])
    alpha = 2.75e-3
    Y = np.array([[1.0], [-0.5]])
    weights = np.array([[2.0], [1.0]])
    P = X @ X.T * K
    model = KroneckerRidge(
        alpha, kernel="precomputed", task_kernel="precomputed", fit_intercept=False
    )
    found = model.fit(X @ X.T, Y, tasks=K, sample_weight=weights).holdout("B")
    expected = [
        [P[i, j] / (P[j, j] + alpha / weights[j, 0]) * Y[j, 0]] for i, j in ((0, 1), (1, 0))
    ]
    assert_allclose(found, expected, rtol=1e-12)


@over(
    every(
        model=[KroneckerRidge(0.0), TwoStepRidge(0.0, 0.0), IndependentTaskRidge(0.0)],
        **complete_or_not,
    )
)
def test_weights_do_not_matter_to_a_model_that_interpolates(model, labels):
    kernels = {"kernel": "rbf"} | (
        {} if isinstance(model, IndependentTaskRidge) else {"task_kernel": "rbf"}
    )
    model.set_params(**kernels).fit(X, labels, tasks=T)
    expected = model.predict(NEW)
    observed = ~np.isnan(labels)
    model.fit(X, labels, tasks=T, sample_weight=WEIGHTS)
    close(model.predict(X)[observed], labels[observed], 1e-6)
    close(model.predict(NEW), expected, 1e-6)

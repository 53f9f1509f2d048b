"""The error of folds and its gradient against systems that are written out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.learning.error import Tolerances
from learning_case import dense_pairs, dense_predictions, differences, fold_error, mixture, parameters
from problems import close
from sweeps import lines, over

SHAPE = (6, 5)


def _problem(constant, weighted, holes, put=np.asarray, seed=0):
    rng = np.random.default_rng(seed)
    tasks = constant != "task"
    sides = [mixture(SHAPE[0], rng, tasks, put), *([mixture(SHAPE[1], rng, True, put)] if tasks else [])]
    Y = rng.normal(size=SHAPE)
    if holes:
        Y[rng.random(SHAPE) < 0.25] = np.nan
        Y[2] = np.nan
    weights = rng.uniform(0.3, 3.0, size=SHAPE) if weighted else None
    masks = [(rng.random(SHAPE) < 0.6, None) for _ in range(2)]
    masks = [(train, ~train) for train, _ in masks]
    error = fold_error(Y, masks, sides, weights, constant, put)
    return error, parameters(sides, rng), Y, weights, masks


def _expected(error, at, Y, weights, masks):
    """Return sums of squares and of weights, and predictions, of each fold."""
    pairs = dense_pairs(error.sides, at, Y.shape[1])
    observed, found = ~np.isnan(Y), []
    for train, test in masks:
        own = np.ones(Y.shape) if weights is None else weights
        predicted = dense_predictions(pairs, at.lam, np.nan_to_num(Y), train & observed, weights, error.labels.constant)
        counted = (own * (test & observed))[observed]
        found.append((counted @ (predicted - Y)[observed] ** 2, counted.sum(), predicted))
    return found


@over(lines("constant weighted holes", (None, True, False), ("grand", True, True), ("task", False, True)))
def test_the_error_of_folds_and_its_gradient(constant, weighted, holes, library):
    tol = 1e-13 if library.dtype == "float64" else 1e-6
    error, at, Y, weights, masks = _problem(constant, weighted, holes, library.asarray)
    error = replace(error, tolerances=Tolerances(tol, tol))
    plain = _problem(constant, weighted, holes)[0]
    expected = _expected(plain, at, Y, weights, masks)
    rtol = max(library.rtol, 1e-8)
    for part, (squares, count, predicted) in enumerate(expected):
        fold = error.folds[part]
        # Tasks without a label to learn from have no constant.
        told = library.to_numpy(fold.train).any(axis=0) if constant == "task" else np.ones(SHAPE[1], dtype=bool)
        close(library.to_numpy(error.completed(at, fold, tol))[:, told], predicted[:, told], rtol)
        assert_allclose(error.loss(at, part), squares / count, rtol=rtol)
        loss, slope = error.slope(at, part)
        assert_allclose(loss, squares / count, rtol=rtol)

        def function(vector, part=part):
            (found,) = _expected(plain, at.of(vector), Y, weights, masks[part : part + 1])
            squares, count, _ = found
            return squares / count

        close(slope, differences(function, at.vector), max(library.rtol, 1e-7))
        again, same = error.slope(at, part)
        assert_allclose(again, loss, rtol=rtol)
        close(same, slope, rtol)


def test_folds_weigh_as_many_cells_as_they_have():
    error, at, Y, weights, masks = _problem("grand", True, True)
    value, predicted = error.evaluate(at)
    expected = _expected(error, at, Y, weights, masks)
    assert_allclose(value, sum(each[0] for each in expected) / sum(each[1] for each in expected), rtol=1e-3)
    for found, (_, _, wanted) in zip(predicted, expected, strict=True):
        close(found, wanted, 1e-3)


def test_what_is_left_out_says_nothing():
    """At given parameters, labels of test cells change neither predictions of their fold nor where solves end."""
    error, at, Y, _, masks = _problem("grand", False, True)
    changed = np.where(masks[0][1], 100.0 - 3 * Y, Y)
    other = fold_error(changed, masks, error.sides, None, "grand")
    assert_array_equal(other.completed(at, other.folds[0]), error.completed(at, error.folds[0]))
    assert not np.array_equal(other.completed(at, other.folds[1]), error.completed(at, error.folds[1]))


@pytest.mark.parametrize("constant", [None, "grand"])
def test_labels_that_are_all_alike(constant):
    error, at, _, _, masks = _problem(constant, False, False)
    flat = fold_error(np.zeros(SHAPE), masks, error.sides, None, constant)
    assert flat.evaluate(at)[0] == 0
    loss, slope = flat.slope(at, 0)
    assert loss == 0
    assert_array_equal(slope, 0.0)

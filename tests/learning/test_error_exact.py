"""The exact leave-one-out error against models that are really solved without each cell, row or column."""

from functools import cache

import numpy as np
from numpy.testing import assert_allclose

from dyadlearn.learning.error import ExactError, has_exact_error
from dyadlearn.settings import Setting
from learning_case import (
    dense_pairs,
    dense_predictions,
    differences,
    left_out,
    mixture,
    parameters,
    targets,
)
from problems import close
from sweeps import covering, lines, over

SHAPES = [(6, 4), (2, 3), (6, 1)]


def _problem(setting, shape, constant, tasks=True, put=np.asarray, seed=0):
    """Return the error, where it is asked for, and what the definition says of it."""
    rng = np.random.default_rng([seed, *shape])
    m, q = shape
    sides = [mixture(m, rng, tasks, put), *([mixture(q, rng, True, put)] if tasks else [])]
    Y = rng.normal(size=shape)
    labels = targets(Y, None, constant, put)
    return ExactError(labels, sides, Setting(setting)), parameters(sides, rng), Y


def _held_out(error, at, Y, setting):
    pairs = dense_pairs(error.sides, at, Y.shape[1])
    found = np.empty(Y.shape)
    for test in left_out(setting, Y.shape):
        found[test] = dense_predictions(pairs, at.lam, Y, ~test, None, error.labels.constant)[test]
    return found


@cache
def _reference(setting, shape, constant, tasks=True):
    """Return what is predicted of what is left out, and the differences of the error, whichever library computes."""
    plain, at, Y = _problem(setting, shape, constant, tasks)
    gradient = differences(lambda vector: plain.evaluate(at.of(vector))[0], at.vector)
    return _held_out(plain, at, Y, setting), gradient


CASES = covering(
    setting=["A", "B", "C"],
    shape=SHAPES,
    constant=[None, "grand"],
    where=lambda setting, shape, **_: not (setting == "C" and shape[1] == 1),
)


def test_the_error_and_its_gradient(library, each):
    for case in each(CASES if library.name == "numpy" else CASES[:3]):
        _check_the_error_and_its_gradient(library, **case)


def _check_the_error_and_its_gradient(library, setting, shape, constant):
    error, at, Y = _problem(setting, shape, constant, put=library.asarray)
    held_out, gradient = _reference(setting, shape, constant)
    expected = float(np.mean((Y - held_out) ** 2))
    value, predicted = error.evaluate(at)
    assert_allclose(value, expected, rtol=library.rtol)
    close(library.to_numpy(predicted), held_out, library.rtol)
    loss, slope = error.slope(at)
    assert_allclose(loss, expected, rtol=library.rtol)
    close(slope, gradient, max(library.rtol, 1e-7))


@over(lines("shape constant", ((7, 3), "task"), ((7, 3), None), ((5, 1), "task")))
def test_the_error_without_tasks(shape, constant, library):
    """Each task has a constant of its own; single cells leave as rows do."""
    error, at, Y = _problem("B", shape, constant, tasks=False, put=library.asarray)
    expected, gradient = _reference("B", shape, constant, tasks=False)
    value, predicted = error.evaluate(at)
    close(library.to_numpy(predicted), expected, library.rtol)
    assert_allclose(value, np.mean((Y - expected) ** 2), rtol=library.rtol)
    close(error.slope(at)[1], gradient, max(library.rtol, 1e-7))
    if library.name == "numpy":
        close(_held_out(error, at, Y, "A"), expected, library.rtol)


def test_where_the_error_is_exact():
    full = targets(np.zeros((4, 3)))
    assert all(has_exact_error(full, Setting(setting)) for setting in "ABC")
    assert not has_exact_error(full, Setting.D)
    assert not has_exact_error(targets(np.where(np.eye(4)[:, :3] > 0, np.nan, 0.0)), Setting.A)
    assert not has_exact_error(targets(np.zeros((4, 3)), np.ones((4, 3))), Setting.A)
    long = np.ones((1500, 2))
    assert not has_exact_error(targets(long), Setting.A)

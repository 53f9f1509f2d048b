"""The errors that kernels are learned by, and their gradients, against systems that are written out."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.learning.error import FINE, ROUGH, ExactError, Tolerances, has_exact_error
from dyadlearn.settings import Setting
from dyadlearn.solve import cells as cell_systems
from learning_case import (
    dense_pairs,
    dense_predictions,
    differences,
    fold_error,
    left_out,
    mixture,
    parameters,
    similarity,
    targets,
)
from problems import close
from sweeps import covering, lines, over

SHAPE = (6, 5)


def _problem(constant, weighted, holes, put=np.asarray, shape=SHAPE):
    rng = default_rng(0)
    tasks = constant != "task"
    sides = [
        mixture(shape[0], rng, tasks, put),
        *([mixture(shape[1], rng, True, put)] if tasks else []),
    ]
    Y = rng.normal(size=shape)
    if holes:
        Y[rng.random(shape) < 0.25] = np.nan
        Y[2] = np.nan
    weights = rng.uniform(0.3, 3.0, size=shape) if weighted else None
    masks = [(rng.random(shape) < 0.6, None) for _ in range(2)]
    masks = [(train, ~train) for train, _ in masks]
    error = fold_error(Y, masks, sides, weights, constant, put)
    return error, parameters(sides, rng), Y, weights, masks


def _expected(error, at, Y, weights, masks):
    """Return sums of squares and of weights, and predictions, of each fold."""
    pairs = dense_pairs(error.sides, at, Y.shape[1])
    observed = ~np.isnan(Y)
    found = []
    for train, test in masks:
        own = np.ones(Y.shape) if weights is None else weights
        predicted = dense_predictions(
            pairs, at.lam, np.nan_to_num(Y), train & observed, weights, error.labels.constant
        )
        counted = (own * (test & observed))[observed]
        found.append((counted @ (predicted - Y)[observed] ** 2, counted.sum(), predicted))
    return found


@cache
def _reference(constant, weighted, holes):
    """Return what the systems say of a problem, and the differences of its error, whichever library computes."""
    error, at, Y, weights, masks = _problem(constant, weighted, holes)

    def function(vector):
        found = _expected(error, at.of(vector), Y, weights, masks)
        return sum(each[0] for each in found) / sum(each[1] for each in found)

    return _expected(error, at, Y, weights, masks), differences(function, at.vector)


@over(
    lines(
        "constant weighted holes", (None, True, False), ("grand", True, True), ("task", False, True)
    )
)
def test_the_error_of_folds_and_its_gradient(constant, weighted, holes, library):
    tol = 1e-13 if library.dtype == "float64" else 1e-6
    error, at, Y, _, masks = _problem(constant, weighted, holes, library.asarray)
    error = replace(error, tolerances=Tolerances(tol, tol))
    _check_error(error, at, Y, masks, library, *_reference(constant, weighted, holes))


@over(lines("constant weighted", (None, False), ("grand", True), ("task", False)))
def test_the_error_of_few_cells(constant, weighted, library, monkeypatch):
    """Products with sparse grids give what products with dense ones do."""
    monkeypatch.setattr(cell_systems, "_DENSE", 2.0)
    monkeypatch.setattr(cell_systems, "_CHEAP", 0)
    monkeypatch.setattr("dyadlearn.vectrick.gather_cost", lambda like: 1)
    tol = 1e-13 if library.dtype == "float64" else 1e-6
    error, at, Y, _, masks = _problem(constant, weighted, True, library.asarray)
    assert not error.labels.cells.is_dense
    assert not error.labels.cells.is_complete
    again = replace(error, tolerances=Tolerances(tol, tol), _ends={})
    _check_error(again, at, Y, masks, library, *_reference(constant, weighted, True))


def _check_error(error, at, Y, masks, library, expected, gradient):
    rtol = max(library.rtol, 1e-8)
    squares, counts = (sum(each[number] for each in expected) for number in (0, 1))
    completed = library.to_numpy(error.completed(at))
    for number, (_, _, predicted) in enumerate(expected):
        # Tasks without a label to learn from have no constant.
        told = (masks[number][0] & ~np.isnan(Y)).any(axis=0) | (error.labels.constant != "task")
        close(completed[number][:, told], predicted[:, told], rtol)
    value, predicted = error.evaluate(at)
    assert_allclose(value, squares / counts, rtol=rtol)
    cells = error.labels.cells
    close(library.to_numpy(predicted), completed[:, cells.rows, cells.columns], rtol)
    loss, slope = error.slope(at)
    assert_allclose(loss, squares / counts, rtol=rtol)
    close(slope, gradient, max(library.rtol, 1e-7))
    # From where the last solves ended.
    again, same = error.slope(at)
    assert_allclose(again, loss, rtol=rtol)
    close(same, slope, rtol)


@over(lines("constant decades", ("grand", 8), ("task", 8), (None, 2)))
def test_weights_that_differ_much_take_no_more_iterations(constant, decades, monkeypatch):
    """The diagonal of the system is λ over the weights, and the preconditioner has it too."""
    shape = (20, 14)
    error, at, Y, weights, masks = _problem(constant, True, True, shape=shape)
    weights = 10.0 ** (-decades * default_rng(1).random(shape))
    error = replace(error, labels=targets(Y, weights, constant), tolerances=FINE)
    expected = _expected(error, at, Y, weights, masks)
    wanted = sum(each[0] for each in expected) / sum(each[1] for each in expected)
    n_iter = []
    own = cell_systems.conjugate_gradients

    def watched(*given, **options):
        solution = own(*given, **options)
        n_iter.append(solution.n_iter)
        return solution

    monkeypatch.setattr(cell_systems, "conjugate_gradients", watched)
    loss, slope = error.slope(at)
    assert_allclose([error.evaluate(at)[0], loss], wanted, rtol=1e-9)
    assert max(n_iter) < 60
    rough = replace(error, tolerances=ROUGH, _ends={}).slope(at)
    assert_allclose(rough[0], wanted, rtol=1e-4)
    close(rough[1], slope, 0.02)


@over(lines("per_fold constant", (False, None), (True, "grand")))
def test_the_preconditioner_is_the_inverse_of_main_effects(per_fold, constant):
    rng = default_rng(0)
    m, q = SHAPE
    shares = (0.6, 0.3, 0.1)
    lam = 0.2
    n_folds = 2
    shape = (n_folds,) if per_fold else ()
    K, G = (
        np.broadcast_to(similarity(n, rng), (*shape, n, n)) * (1 + rng.random((*shape, 1, 1)))
        for n in SHAPE
    )
    cells = cell_systems.CellSet.of(rng.random(SHAPE) < 0.8, K)
    train = (rng.random((n_folds, cells.rows.size)) < 0.7).astype(float)
    train[:, cells.rows == 3] = 0.0  # no cells of this row
    operator = cell_systems.CellOperator([K, G], shares, cells)
    system = cell_systems.CellSystem(
        operator, lam, rng.normal(size=cells.rows.size), train, None, constant
    )
    X = train * rng.normal(size=train.shape)
    found = system._inverse(X)
    a, b, c = shares
    for fold in range(n_folds):
        own, other = (each[fold] if per_fold else each for each in (K, G))
        ((sigma, u), (s, v)) = (cell_systems._leading(each) for each in (own, other))
        rows = (a * s + b) * own + c * s * np.eye(m)
        columns = (a * sigma + c) * other + b * sigma * np.eye(q)
        k, g, r, t = (np.diag(each).mean() for each in (own, other, rows, columns))
        rest = lam + (a * k * g + b * k + c * g) - r / q - t / m
        # The product of u and v is an effect of rows; of columns it has a mean eigenvalue.
        columns = (
            (np.eye(q) - v @ v.T) @ columns @ (np.eye(q) - v @ v.T)
            + t * v @ v.T
            + 1e-5 * t * np.eye(q)
        )
        at = train[fold] > 0
        uv = (u[cells.rows, 0], v[cells.columns, 0])
        effects = rows[np.ix_(cells.rows, cells.rows)] * np.outer(uv[1], uv[1])
        effects += columns[np.ix_(cells.columns, cells.columns)] * np.outer(uv[0], uv[0])
        expected = np.linalg.solve(effects[np.ix_(at, at)] + rest * np.eye(at.sum()), X[fold, at])
        assert_allclose(found[fold, at], expected, atol=1e-10)
        assert not found[fold, ~at].any()


def test_kernels_that_are_not_definite_are_solved_without_a_preconditioner():
    rng = default_rng(0)
    K = similarity(4, rng)
    G = np.diag([2.0, 1.0, -0.01])
    cells = cell_systems.CellSet.of(np.ones((4, 3), dtype=bool), G)
    operator = cell_systems.CellOperator([K, G], (1.0, 0.0, 0.0), cells)
    values = rng.normal(size=12)
    system = cell_systems.CellSystem(operator, 0.05, values, np.ones((1, 12)), None, None)
    assert system._inverse is None
    found = system.solve("model", values[None, :], 1e-12).values
    assert_allclose(found[0], np.linalg.solve(np.kron(K, G) + 0.05 * np.eye(12), values), rtol=1e-8)


def test_a_preconditioner_serves_parameters_nearby():
    error, at, *_ = _problem("grand", False, True)
    inverses = []
    for step in (0.0, 0.05, 0.2):
        error.slope(at.of(at.vector + step))
        inverses.append(error._ends["inverse"])
    assert inverses[0] is inverses[1] is not inverses[2]


def test_the_error_is_right_to_first_order_where_systems_are_not_solved():
    """The part that is missing of a solution changes the error by its square only."""
    error, at, Y, weights, masks = _problem("grand", False, True)
    expected = _expected(error, at, Y, weights, masks)
    exact = sum(each[0] for each in expected) / sum(each[1] for each in expected)
    for tol in (1e-1, 1e-2):
        rough = replace(error, tolerances=Tolerances(tol, tol), _ends={})
        plain = rough.evaluate(at)[0]
        corrected = replace(rough, _ends={}).slope(at)[0]
        assert abs(corrected - exact) < max(0.5 * abs(plain - exact), 1e-3 * exact)


@pytest.mark.parametrize("constant", [None, "grand"])
def test_labels_that_are_all_alike(constant):
    error, at, _, _, masks = _problem(constant, False, False)
    flat = fold_error(np.zeros(SHAPE), masks, error.sides, None, constant)
    assert flat.evaluate(at)[0] == 0
    loss, slope = flat.slope(at)
    assert loss == 0
    assert_array_equal(slope, 0.0)


# --- the exact leave-one-out error, against models that are solved without each cell, row or column

SHAPES = [(6, 4), (2, 3), (6, 1)]


def _exact_problem(setting, shape, constant, tasks=True, put=np.asarray):
    """Return the error, where it is asked for, and what the definition says of it."""
    rng = default_rng([0, *shape])
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
def _exact_reference(setting, shape, constant, tasks=True):
    """Return what is predicted of what is left out, and the differences of the error, whichever library computes."""
    plain, at, Y = _exact_problem(setting, shape, constant, tasks)
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
    error, at, Y = _exact_problem(setting, shape, constant, put=library.asarray)
    held_out, gradient = _exact_reference(setting, shape, constant)
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
    error, at, Y = _exact_problem("B", shape, constant, False, put=library.asarray)
    expected, gradient = _exact_reference("B", shape, constant, False)
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
    assert not has_exact_error(targets(np.ones((1500, 2))), Setting.A)

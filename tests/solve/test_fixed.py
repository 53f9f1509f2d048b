"""Columns beside the kernel against bordered systems and against dense algebra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse
from sweeps import every, over

N = 12
RNG = np.random.default_rng(5)
ROOT = RNG.normal(size=(N, N))
SYSTEM = ROOT @ ROOT.T + np.eye(N)
Y = RNG.normal(size=(N, 2)) + 3.0
BESIDE = RNG.normal(size=(N, 2))
PARTS = {
    "none": FixedPart.none(N, SYSTEM),
    "constant": FixedPart.constant(N, SYSTEM),
    "columns": FixedPart.constant(N, SYSTEM, BESIDE),
    "penalised": FixedPart(np.c_[np.ones(N), BESIDE], np.array([0.0, 0.5, 2.0])),
}


def bordered(part, system, labels):
    """Return the dual coefficients and those of the columns from the system with a border."""
    r = part.n_columns
    penalties = np.zeros(r) if part.penalties is None else part.penalties
    matrix = np.block([[system, part.columns], [part.columns.T, -np.diag(penalties)]])
    solved = np.linalg.solve(matrix, np.r_[labels, np.zeros((r, labels.shape[1]))])
    return solved[: len(labels)], solved[len(labels) :]


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_least_squares_are_those_of_a_bordered_system(part):
    dual, coefficients = bordered(part, SYSTEM, Y)
    fit = part.solved(lambda columns: np.linalg.solve(SYSTEM, columns))
    solved = np.linalg.solve(SYSTEM, Y)
    assert_allclose(fit.coefficients(Y), coefficients, rtol=1e-9)
    assert_allclose(fit.coefficients(Y[:, 0]), coefficients[:, 0], rtol=1e-9)
    assert_allclose(fit.projected(solved), dual, rtol=0, atol=1e-12)
    assert_allclose(fit.projected(solved[:, 0]), dual[:, 0], rtol=0, atol=1e-12)
    assert_allclose(fit.project_in_place(np.linalg.inv(SYSTEM)) @ Y, dual, rtol=0, atol=1e-12)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_pair_has_weights_and_a_variance(part):
    """The weights minimise the variance of the error among those that reproduce the unpenalised columns."""
    kernel = RNG.normal(size=N)
    columns = RNG.normal(size=part.n_columns)
    fit = part.solved(lambda given: np.linalg.solve(SYSTEM, given))
    weights = fit.label_weights(np.linalg.solve(SYSTEM, kernel), columns)
    dual, coefficients = bordered(part, SYSTEM, Y)
    assert_allclose(weights @ Y, kernel @ dual + columns @ coefficients, rtol=1e-9)
    # Variance of the error of the prediction w·y: of the function with the kernel, of the columns,
    # and of the labels.
    gap = fit.gap(np.linalg.solve(SYSTEM, kernel)[:, None], columns[:, None])
    error = (
        weights @ SYSTEM @ weights - 2 * weights @ kernel + kernel @ np.linalg.solve(SYSTEM, kernel)
    )
    if part.penalties is not None:
        rest = columns - part.columns.T @ weights
        error += np.sum(rest[1:] ** 2 / part.penalties[1:])
    assert_allclose(fit.variance(gap), [error], rtol=1e-8, atol=1e-12)


@over(every(part=["constant", "columns", "penalised"], size=[1, 3]))
def test_units_are_held_out_with_their_columns(part, size):
    part = PARTS[part]
    units = np.arange(N) // size
    inverse = CellsInverse.of(SYSTEM.copy(), np.zeros(N), part)
    held_out = inverse.leave_out(Y, units)
    kernel = SYSTEM - np.diag(np.diag(SYSTEM))  # a label is not known to its own prediction
    for unit in np.unique(units):
        out = units == unit
        dual, coefficients = bordered(
            part.take(np.flatnonzero(~out)), SYSTEM[np.ix_(~out, ~out)], Y[~out]
        )
        expected = kernel[np.ix_(out, ~out)] @ dual + part.columns[out] @ coefficients
        assert_allclose(held_out[out], expected, rtol=1e-8)


def test_restricted_likelihoods_have_the_determinant_of_the_precision():
    part = PARTS["columns"]
    fit = part.solved(lambda given: np.linalg.solve(SYSTEM, given))
    expected = np.linalg.slogdet(part.columns.T @ np.linalg.inv(SYSTEM) @ part.columns)[1]
    assert_allclose(fit.log_determinant, expected)
    assert PARTS["none"].solved(lambda given: given).log_determinant == 0.0

"""Conjugate gradients against dense solves: starts, preconditioners, and honest reports."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.solve.conjugate_gradients import conjugate_gradients
from sweeps import every, lines, over


def make_system(shape: tuple[int, ...] = (6, 5), condition: float = 100.0, seed: int = 0):
    """Return a positive definite matrix, an operator on arrays of a shape that it is, and a right-hand side."""
    rng = np.random.default_rng(seed)
    size = int(np.prod(shape))
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    A = (basis * np.geomspace(1.0, condition, size)) @ basis.T
    return A, lambda x: (A @ x.reshape(-1)).reshape(shape), rng.normal(size=shape)


def true_residual(A: np.ndarray, x: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(b.ravel() - A @ x.ravel()) / np.linalg.norm(b))


def counted(operator):
    """Return an operator that counts its products, and the list they are counted in."""
    calls: list[int] = []

    def product(x):
        calls.append(1)
        return operator(x)

    return product, calls


@over(lines("condition tol", (1.0, 1e-13), (100.0, 1e-12), (1e6, 1e-9)))
@over(every(shape=[(6, 5), (12,), (2, 3, 4), (1, 1)]))
def test_the_dense_solution(shape, condition, tol):
    A, operator, b = make_system(shape, condition)
    found = conjugate_gradients(operator, b, tol=tol)
    assert found.converged
    assert found.values.shape == shape
    expected = np.linalg.solve(A, b.ravel()).reshape(shape)
    error = found.values - expected
    assert np.linalg.norm(error) <= 1.1 * tol * np.linalg.norm(b)  # the smallest eigenvalue is 1
    assert found.residual <= tol
    assert_allclose(found.residual, true_residual(A, found.values, b), rtol=1e-4, atol=1e-14)


# --- where to start -----------------------------------------------------------------------------------


def test_the_solution_needs_no_iteration():
    A, operator, b = make_system()
    x = np.linalg.solve(A, b.ravel()).reshape(b.shape)
    found = conjugate_gradients(operator, b, start=x)
    assert found.n_iter == 0
    assert found.converged
    assert_array_equal(found.values, x)
    assert_allclose(found.residual, true_residual(A, x, b), atol=1e-15)
    assert found.values is not x


def test_a_start_nearby_saves_iterations():
    A, operator, b = make_system()
    x = np.linalg.solve(A, b.ravel()).reshape(b.shape)
    cold = conjugate_gradients(operator, b)
    warm = conjugate_gradients(
        operator, b, start=x + 1e-6 * np.random.default_rng(2).normal(size=b.shape)
    )
    far = conjugate_gradients(operator, b, start=1e3 * np.ones_like(b))
    assert 0 < warm.n_iter < cold.n_iter <= far.n_iter
    for found in (cold, warm, far):
        assert_allclose(found.values, x, rtol=0, atol=1e-8)


# --- preconditioners ------------------------------------------------------------------------------------


def test_a_preconditioner_changes_the_way_and_not_the_answer():
    scales = np.geomspace(1.0, 1e6, 30)
    B = make_system(condition=3.0)[0]
    A = scales[:, None] ** 0.5 * B * scales**0.5
    b = np.random.default_rng(3).normal(size=30)
    plain = conjugate_gradients(lambda x: A @ x, b, tol=1e-9)
    scaled = conjugate_gradients(lambda x: A @ x, b, precondition=lambda x: x / scales, tol=1e-9)
    assert scaled.converged
    assert 2 * scaled.n_iter < plain.n_iter
    assert_allclose(scaled.values, np.linalg.solve(A, b), rtol=1e-6)
    assert_allclose(scaled.residual, true_residual(A, scaled.values, b), atol=1e-12)


# --- reports ------------------------------------------------------------------------------------------------


@over(every(max_iter=[0, 1, 4]))
def test_running_out_of_iterations_is_told(max_iter):
    A, operator, b = make_system(condition=1e4)
    for start in (None, np.ones_like(b)):
        found = conjugate_gradients(operator, b, start=start, max_iter=max_iter)
        assert not found.converged
        assert found.n_iter == max_iter
        assert found.residual > 1e-10
        assert_allclose(found.residual, true_residual(A, found.values, b), rtol=1e-10)


def test_rounding_ends_what_it_does_not_allow():
    """A tolerance below what rounding allows is not reached, and the iteration does not go on for ever."""
    A, operator, b = make_system((4, 3), condition=1e10)
    product, calls = counted(operator)
    found = conjugate_gradients(product, b, tol=1e-30, max_iter=10_000)
    assert not found.converged
    assert len(calls) < 10_000
    assert_allclose(found.residual, true_residual(A, found.values, b), rtol=1e-6)


def test_a_drifting_residual_is_not_believed():
    """From very far off, what the updates claim is rounding: the iteration starts again until the truth agrees."""
    A, operator, b = make_system()
    product, calls = counted(operator)
    found = conjugate_gradients(product, b, start=np.full((6, 5), 1e8))
    assert len(calls) > found.n_iter + 2  # a product at the start and one at the end of each round
    assert found.converged
    assert true_residual(A, found.values, b) <= 1.001e-10


def test_nothing_on_the_right_is_solved_by_nothing():
    _, operator, _ = make_system()
    product, calls = counted(operator)
    for start in (None, np.ones((6, 5))):
        found = conjugate_gradients(product, np.zeros((6, 5)), start=start)
        assert_array_equal(found.values, 0.0)
        assert (found.n_iter, found.residual, found.converged) == (0, 0.0, True)
    assert not calls


@over(every(tol=[1e-2, 1e-8], right=[0.0, 1.0]))
def test_the_last_residual(tol, right):
    _, operator, b = make_system()
    rest = np.full(b.shape, np.nan)
    found = conjugate_gradients(operator, right * b, tol=tol, rest=rest)
    assert_allclose(rest, right * b - operator(found.values), rtol=0, atol=1e-12)

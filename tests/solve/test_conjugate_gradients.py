"""Conjugate gradients and their leading directions, against dense solves."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems as grids
from counting import asarray, multiplications
from dyadlearn.pairing import Kronecker
from dyadlearn.solve import conjugate_gradients as deflation_module
from dyadlearn.solve.conjugate_gradients import Deflation, choose_rank, conjugate_gradients
from dyadlearn.solve.missing import complete
from dyadlearn.spectrum import Spectrum
from problems import MODELS
from sweeps import covering, every, lines, over


def make_system(shape=(6, 5), condition=100.0):
    """Return a positive definite matrix, an operator on arrays of a shape that it is, and a right-hand side."""
    rng = np.random.default_rng(0)
    size = int(np.prod(shape))
    basis = np.linalg.qr(rng.normal(size=(size, size)))[0]
    A = (basis * np.geomspace(1.0, condition, size)) @ basis.T
    return A, lambda x: (A @ x.reshape(-1)).reshape(shape), rng.normal(size=shape)


def true_residual(A, x, b):
    return float(np.linalg.norm(b.ravel() - A @ x.ravel()) / np.linalg.norm(b))


def counted(operator):
    """Return an operator that counts its products, and the list they are counted in."""
    calls: list[int] = []

    def product(x):
        calls.append(1)
        return operator(x)

    return product, calls


@over(lines("condition tol", (1.0, 1e-13), (100.0, 1e-12), (1e6, 1e-9)))
@over(every(shape=[(6, 5), (2, 3, 4), (1, 1)]))
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


def test_systems_that_are_solved_together_may_have_nothing_on_the_right():
    A, _, _ = make_system((6, 5))
    right = np.random.default_rng(1).normal(size=(30, 3)) * [1.0, 0.0, 1e3]
    found = conjugate_gradients(
        lambda x: A @ x, right, tol=1e-12, dot=lambda a, b: np.sum(a * b, axis=0)
    )
    assert found.converged
    assert_allclose(found.values, np.linalg.solve(A, right), rtol=1e-8, atol=1e-12)
    assert_array_equal(found.values[:, 1], 0.0)


@over(every(tol=[1e-2, 1e-8], right=[0.0, 1.0]))
def test_the_last_residual(tol, right):
    _, operator, b = make_system()
    rest = np.full(b.shape, np.nan)
    found = conjugate_gradients(operator, right * b, tol=tol, rest=rest)
    assert_allclose(rest, right * b - operator(found.values), rtol=0, atol=1e-12)


def make_spectra(shape, kinds=("full", "full")):
    rng = np.random.default_rng(shape)
    return [
        grids.spectrum(kind, grids.features(kind, n, rng))
        for kind, n in zip(kinds, shape, strict=True)
    ]


def explicit(spectra, leading, diagonal, weights):
    """Return Φ S⁻¹ Φᵀ of all cells, with the eigenvectors of the pairs formed."""
    directions = np.kron(spectra[0].vectors, spectra[1].vectors)[:, leading]
    small = np.diag(diagonal) + directions.T @ (weights.ravel()[:, None] * directions)
    return directions @ np.linalg.solve(small, directions.T)


# Many directions of few rows and columns, or few of many; more rows than columns and the reverse.
# Sums go over the instances first, or over the tasks, or in the cheaper order.
@over(
    covering(
        shape=[(30, 4), (4, 30), (11, 12), (1, 9)],
        share=[0.01, 0.9],
        kinds=[("full", "full"), ("thin", "full"), ("primal", "thin"), ("sparse", "singular")],
        over_instances=[None, False, True],
    )
)
def test_the_small_system(shape, share, kinds, over_instances, monkeypatch):
    if over_instances is not None:
        monkeypatch.setattr(deflation_module, "_gram_work", lambda *_: (0.5, not over_instances))
    rng = np.random.default_rng(1)
    spectra = make_spectra(shape, kinds)
    size = spectra[0].values.size * spectra[1].values.size
    leading = rng.permutation(size)[: max(1, int(share * size))]
    diagonal = rng.uniform(0.1, 3.0, size=leading.size)
    grid = rng.normal(size=shape)
    for weights in (rng.uniform(0.0, 2.0, size=shape), (rng.random(shape) < 0.3).astype(float)):
        deflate = Deflation(spectra, leading, diagonal, weights)
        expected = explicit(spectra, leading, diagonal, weights) @ grid.ravel()
        grids.close(deflate(grid).ravel(), expected, 1e-11)


@over(every(shape=[(30, 4), (4, 30), (15, 12)], step=[2, 13]))
def test_the_small_system_takes_the_cheaper_order(shape, step, monkeypatch):
    monkeypatch.setattr(deflation_module, "_PASS_COST", 0)
    leading = np.arange(0, shape[0] * shape[1], step)
    rank = leading.size
    sides = [np.unique(each).size for each in np.divmod(leading, shape[1])]
    work = deflation_module._gram_work(shape, sides, rank)
    spectra = [grids.spectrum("full", np.eye(n), put=asarray) for n in shape]
    given = (spectra, leading, np.ones(rank), asarray(np.ones(shape)))
    found = multiplications(Deflation, *given)
    counted = []
    for order in ((0, 1), (1, 0)):
        monkeypatch.setattr(deflation_module, "_gram_work", lambda *_, order=order: order)
        counted.append(multiplications(Deflation, *given))
    assert found < 1.1 * min(counted)
    of_solver = rank**3 * 4 / 3
    assert_allclose(work, np.array(counted) - of_solver, rtol=0.4)


# --- what is left for conjugate gradients --------------------------------------------------------------------


routes = {"route": ["missing", "observed"]}


@over(
    every(
        **routes,
        kinds=[("full", "full"), ("singular", "full"), ("singular", "singular")],
        model=MODELS,
    )
)
def test_all_directions_leave_nothing_to_do(model, route, kinds):
    given = grids.holes(model, (12, 9), "50%", kinds, alpha=1e-4, task_alpha=1e-3)
    plain = complete(given.operators, given.Y, route=route, rank=0, max_direct=0).solution
    found = complete(given.operators, given.Y, route=route, rank=10**6, max_direct=0)
    assert found.solution.converged
    assert plain.n_iter > 15
    assert found.solution.n_iter <= 3
    grids.close(found.labels, given.completed(), 1e-6)
    if route == "observed":
        weights = np.random.default_rng(5).uniform(0.3, 3.0, size=(12, 9))
        weighted = complete(given.operators, given.Y, weights, rank=10**6)
        assert weighted.solution.n_iter <= 3
        grids.close(given.operators.hat(weighted.labels), given.fitted(weights), 1e-6)


# --- how many pay ------------------------------------------------------------------------------------------------


def rbf_spectrum(n, seed):
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    return Spectrum.from_gram(np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1)))


@pytest.fixture(scope="module")
def rbf():
    return rbf_spectrum(90, 0), rbf_spectrum(60, 1)


def chosen(operators, n_unknowns=2700):
    cost = operators.kernel_cost
    return choose_rank(operators.remainder, (90, 60), cost, n_unknowns, 1e-8, 900)


def test_many_directions_pay_where_little_is_regularised(rbf):
    ranks = [chosen(Kronecker(*rbf, alpha)) for alpha in (1e4, 1e-1, 1e-3)]
    assert ranks[0] == 0 < ranks[1] <= ranks[2] <= 900


def test_nothing_pays_for_few_unknowns(rbf):
    """As many iterations as unknowns solve any system."""
    assert chosen(Kronecker(*rbf, 1e-3), n_unknowns=2) == 0


@over(every(shape=[(1, 1), (3, 2)], value=[1e-9, 0.0, 1.0]))
def test_small_and_empty_spectra(shape, value):
    n = shape[0] * shape[1]
    assert 0 <= choose_rank(np.full(shape, value), shape, 100, n, 1e-12, 900) < n
    assert choose_rank(np.empty((0, 3)), (4, 3), 100, 6, 1e-8, 0) == 0


def test_what_is_chosen_saves_iterations(rbf):
    rng = np.random.default_rng(7)
    Y = np.where(rng.random((90, 60)) < 0.5, np.nan, rng.normal(size=(90, 60)))
    operators = Kronecker(*rbf, 1e-2)
    plain, found = (
        complete(operators, Y, route="observed", rank=rank, tol=1e-6).solution for rank in (0, None)
    )
    assert plain.converged
    assert found.converged
    assert 4 * found.n_iter < plain.n_iter

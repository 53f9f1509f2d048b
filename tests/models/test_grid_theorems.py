"""The equivalences of Section 4.1 of the paper, against Kronecker systems written out.

The paper: Stock, Pahikkala, Airola, De Baets, Waegeman, "Efficient Pairwise Learning Using Kernel
Ridge Regression: an Exact Two-Step Method".
"""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from problems import gram
from sweeps import every, lines, over

PRECOMPUTED = {"kernel": "precomputed", "task_kernel": "precomputed", "fit_intercept": False}
lambdas = lines("alpha task_alpha", (1e-3, 10.0), (50.0, 1e-3), (1e6, 1e6))


@dataclass(frozen=True)
class Problem:
    """Labels Y (m, q), kernels K and G among the training rows, K_new and G_new of new rows with them."""

    Y: np.ndarray
    K: np.ndarray
    G: np.ndarray
    K_new: np.ndarray
    G_new: np.ndarray


def random_problem(shape, *, singular):
    """Return random kernels with four new rows on either side."""
    m, q = shape
    rng = np.random.default_rng(100 * m + q)
    K, G = (gram(n + 4, max(1, n // 2) if singular else n + 4, rng) for n in shape)
    return Problem(rng.normal(size=shape), K[:m, :m], G[:q, :q], K[m:, :m], G[q:, :q])


SHAPES = {"tall": (9, 4), "wide": (4, 9), "one-task": (5, 1)}


@pytest.fixture
def problem(request):
    """Give the problem of a name: random kernels of a shape."""
    name = request.param
    return random_problem(SHAPES[name.split()[0]], singular=name.endswith("singular"))


every_rank = pytest.mark.parametrize(
    "problem", ["tall", "one-task", "wide singular"], indirect=True
)


def identity_like(K):
    return np.eye(len(K))


def assert_same(found, expected, tolerance=1e-9):
    """Compare up to rounding of the largest entry."""
    assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def dense_tolerance(*factors):
    """Return the relative error that a dense solve with the Kronecker product of the factors may have."""
    condition = float(np.prod([np.linalg.cond(factor) for factor in factors]))
    return max(1e-10, 10 * np.finfo(float).eps * condition)


def two_step(given, alpha, task_alpha):
    return TwoStepRidge(alpha, task_alpha, **PRECOMPUTED).fit(given.K, given.Y, given.G)


# Theorem 1 (setting B): independent-task ridge is two-step ridge with λ_t = 0 and a task kernel of
# full rank.


@every_rank
@over(every(alpha=[0.0, 1.0]))
def test_theorem_1_independent_tasks(problem, alpha):
    """With a singular task kernel the outputs are projected on its range; they do not blow up."""
    independent = IndependentTaskRidge(alpha, kernel="precomputed", fit_intercept=False)
    independent.fit(problem.K, problem.Y)
    model = two_step(problem, alpha, 0.0)
    inverse = np.linalg.pinv(problem.G, rcond=1e-10, hermitian=True)
    projector = problem.G @ inverse
    is_singular = np.linalg.matrix_rank(projector, tol=1e-6) < len(projector)
    for block in (problem.K, problem.K_new):
        alone = independent.predict(block)
        expected = alone @ projector
        is_another = np.abs(expected - alone).max() > 1e-3 * np.abs(alone).max()
        assert is_another == is_singular
        assert_same(model.predict(block), expected)
        assert_same(model.predict(block, problem.G), expected)
        assert_same(model.predict(block, problem.G_new), alone @ inverse @ problem.G_new.T)


# Theorem 2 (setting A): on the training grid two-step ridge is pairwise ridge with the kernel Ξ and
# λ = 1.


# Theorem 3 (setting D): for unseen pairs two-step ridge is ordinary Kronecker least squares with
# the kernel (k + λ_d δ)(g + λ_t δ).


@every_rank
@over(lambdas)
def test_theorem_3_ordinary_kronecker_least_squares_on_unseen_pairs(problem, alpha, task_alpha):
    model = two_step(problem, alpha, task_alpha)
    K = problem.K + alpha * identity_like(problem.K)
    G = problem.G + task_alpha * identity_like(problem.G)
    ordinary = KroneckerRidge(alpha=0.0, **PRECOMPUTED).fit(K, problem.Y, G)
    tolerance = dense_tolerance(K, G)
    new = (problem.K_new, problem.G_new)
    # New rows differ from all training rows, so that the delta kernels vanish.
    assert_same(model.predict(*new), ordinary.predict(*new), tolerance)
    assert_same(model.dual_coef_, ordinary.dual_coef_, tolerance)
    dual = np.linalg.solve(K, problem.Y) @ np.linalg.inv(G)
    assert_same(ordinary.dual_coef_, dual, tolerance)

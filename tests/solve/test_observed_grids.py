"""Grids that are completed by way of their observed pairs, against their completion as grids."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn.filters import IteratedTikhonov, SpectralCutoff
from dyadlearn.pairing.base import operators_of
from dyadlearn.solve import observed
from dyadlearn.solve.missing import complete

RNG = np.random.default_rng(0)
M = 11
Q = 8
X = RNG.normal(size=(M, 4))
T = RNG.normal(size=(Q, 3))
WHOLE = X @ RNG.normal(size=(4, 3)) @ T.T + RNG.normal(size=(M, Q)) + 5.0
UNEVEN = RNG.random((M, Q)) < np.linspace(0.2, 0.9, Q)
WEIGHTS = RNG.uniform(0.1, 3.0, size=(M, Q))

RBF = {"kernel": "rbf", "task_kernel": "rbf"}
MODELS = [
    KroneckerRidge(0.7),
    KroneckerRidge(0.7, fit_intercept=False),
    KroneckerRidge(1e-3, **RBF),
    TwoStepRidge(0.7, 0.3),
    TwoStepRidge(0.7, 0.3, fit_intercept=False, **RBF),
    TwoStepRidge(1e-3, 1e3),
    TwoStepRidge(0.7, 0.3, filter=IteratedTikhonov(2), task_filter=IteratedTikhonov(3)),
]


def holes(share=None, seed=1):
    if share is None:
        observed = UNEVEN
    else:
        observed = np.random.default_rng(seed).random((M, Q)) < share
    return np.where(observed, WHOLE, np.nan)


def operators_with(model):
    """Return the operators of a model on the complete grid."""
    fitted = model.fit(X, WHOLE, tasks=T)
    return operators_of(fitted.fitted_.training_problem.pairing)


@pytest.fixture(params=["grid", "listed"])
def products(request, monkeypatch):
    """Make products with the whole grid, or at its observed pairs, the cheaper ones."""
    costs = (0, 1) if request.param == "grid" else (1, 0)
    monkeypatch.setattr(observed, "_costs", lambda *_: costs)


@pytest.mark.usefixtures("products")
def test_completed_grids_are_those_of_the_solver_of_grids(each):
    cases = [(holes(), None), (holes(0.2), WEIGHTS)]
    for model, (Y, weights) in each(zip(MODELS, cases * len(MODELS), strict=False)):
        operators = operators_with(model)
        found = observed.complete_by_pairs(operators, Y, weights, tol=1e-12, max_iter=2000)
        assert found.route == "pairs"
        assert found.solution.converged
        expected = complete(operators, Y, weights, route="observed", tol=1e-13)
        scale = np.abs(expected.labels).max()
        assert_allclose(found.labels, expected.labels, rtol=1e-7, atol=1e-7 * scale)


def test_pairs_are_preferred_only_where_they_may_be_and_cost_less(monkeypatch):
    product, two_step, Y = operators_with(KroneckerRidge()), operators_with(TwoStepRidge()), holes()
    assert not observed.is_quicker_by_pairs(product, Y, None)  # a small grid
    monkeypatch.setattr(observed, "_LITTLE_WORK", 0)
    monkeypatch.setattr(observed, "_costs", lambda *_: (0, 0))
    for operators in (product, two_step):
        assert observed.is_quicker_by_pairs(operators, Y, None)
        assert observed.is_quicker_by_pairs(operators, WHOLE, WEIGHTS)
        assert not observed.is_quicker_by_pairs(operators, WHOLE, None)
        assert not observed.is_quicker_by_pairs(operators, np.full((M, Q), np.nan), None)
    interpolating = TwoStepRidge(0.7, 0.3, filter=SpectralCutoff())
    network = operators_of(TwoStepRidge(symmetry="symmetric").fit(X, X @ X.T).fitted_.pairing)
    assert not observed.is_quicker_by_pairs(operators_with(interpolating), Y, None)
    assert not observed.is_quicker_by_pairs(network, np.where(X @ X.T > 0, X @ X.T, np.nan), None)
    with monkeypatch.context() as patched:
        # Twice the cost of a product is worth it for a product kernel, unless few cells are
        # observed.
        patched.setattr(
            observed, "_costs", lambda *_: (min(product.kernel_cost, product.residual_cost),) * 2
        )
        few = np.full((M, Q), np.nan)
        few[0, : int(0.05 * M * Q)] = 1.0
        assert observed.is_quicker_by_pairs(product, Y, None)
        assert not observed.is_quicker_by_pairs(product, few, None)
        assert not observed.is_quicker_by_pairs(two_step, Y, None)
    monkeypatch.setattr(observed, "_costs", lambda *_: (10**12, 10**12))
    assert not observed.is_quicker_by_pairs(product, Y, None)


def test_a_large_grid_of_few_features_is_completed_by_pairs_unasked():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(300, 4))
    columns = rng.normal(size=(230, 3))
    Y = rows @ rng.normal(size=(4, 3)) @ columns.T + rng.normal(size=(300, 230))
    Y[rng.random(Y.shape) < 0.5] = np.nan
    weights = rng.uniform(0.0, 2.0, size=Y.shape) * (rng.random(Y.shape) < 0.9)
    for model in (KroneckerRidge(2.0, tol=1e-10), TwoStepRidge(2.0, 1.0, tol=1e-10)):
        model.fit(rows, Y, tasks=columns, sample_weight=weights)
        assert model.fitted_.solved.route == "pairs"
        problem = model.fitted_.training_problem
        slow = complete(operators_of(problem.pairing), problem.Y, problem.weights, tol=1e-10)
        assert_allclose(model.predict(), problem.pairing.hat(slow.labels), rtol=1e-6, atol=1e-6)

"""Models of observed pairs alone against the same models of a grid with holes."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import clone

from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.models import _observed
from sweeps import over

RNG = np.random.default_rng(16)
M, Q = 24, 17
X, T = RNG.normal(size=(M, 4)), RNG.normal(size=(Q, 3))
FULL = X @ RNG.normal(size=(4, 3)) @ T.T + RNG.normal(size=(M, Q)) + 7.0
Y = np.where(RNG.random((M, Q)) < 0.55, np.nan, FULL)
# A row and a column without labels: in two-step models they count all the same.
Y[5], Y[:, 8] = np.nan, np.nan
ROWS, COLUMNS = np.nonzero(~np.isnan(Y))
SPARSE = sparse.csr_array((Y[ROWS, COLUMNS], (ROWS, COLUMNS)), shape=(M, Q))
WEIGHTS = RNG.random((M, Q)) * 3.0
SPARSE_WEIGHTS = sparse.csr_array((WEIGHTS[ROWS, COLUMNS], (ROWS, COLUMNS)), shape=(M, Q))
GROUPS, TASK_GROUPS, CELLS = RNG.integers(0, 4, M), RNG.integers(0, 3, Q), RNG.integers(0, 4, (M, Q))

MODELS = {
    "kronecker": {"model": KroneckerRidge(0.7, tol=1e-12)},
    "kronecker, no intercept": {"model": KroneckerRidge(0.7, tol=1e-12, fit_intercept=False)},
    "kronecker, small": {"model": KroneckerRidge(1e-3, tol=1e-12)},
    "kronecker, large": {"model": KroneckerRidge(1e5, tol=1e-12)},
    "kronecker, kernel": {"model": KroneckerRidge(0.3, kernel="rbf", task_kernel="rbf", tol=1e-12)},
    "two-step": {"model": TwoStepRidge(0.7, 2.0, tol=1e-12)},
    "two-step, no intercept": {"model": TwoStepRidge(0.7, 2.0, tol=1e-12, fit_intercept=False)},
    "two-step, small": {"model": TwoStepRidge(1e-3, 1e-2, tol=1e-12)},
    "two-step, large": {"model": TwoStepRidge(1e4, 1e3, tol=1e-12)},
    "two-step, one kernel": {"model": TwoStepRidge(0.7, 2.0, kernel="rbf", tol=1e-12)},
    "two-step, filter": {"model": TwoStepRidge(0.7, 2.0, filter=IteratedTikhonov(2), tol=1e-12)},
}


@pytest.fixture
def listed(monkeypatch):
    """Take pairs alone whatever the size of the grid."""
    monkeypatch.setattr(_observed, "_SMALL_GRID", 0)
    monkeypatch.setattr(_observed, "fits_in_memory", lambda *_: False)


def both(model, weighted=False):
    """Return the model of the grid with holes and that of the pairs."""
    grid = clone(model).fit(X, Y, tasks=T, sample_weight=WEIGHTS if weighted else None)
    pairs = clone(model).fit(X, SPARSE, tasks=T, sample_weight=SPARSE_WEIGHTS if weighted else None)
    assert sparse.issparse(pairs._grid.values)
    return grid, pairs


@over(MODELS.values())
def test_predictions_are_those_of_the_grid_with_holes(listed, model):
    for weighted in (False, True):
        grid, pairs = both(model, weighted)
        assert_allclose(pairs.predict(X[:5], T[:4]), grid.predict(X[:5], T[:4]), rtol=1e-7, atol=1e-8)
        assert_allclose(pairs.predict(), grid.predict(), rtol=1e-7, atol=1e-8)
        assert pairs.residual_ <= 1e-9

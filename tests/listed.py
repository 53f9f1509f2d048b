"""Labels of some pairs of a small grid, as a grid with holes and as a list, and a way to take the list for large."""

import numpy as np
import pytest
from scipy import sparse

import problems
from dyadlearn.models import reading as training

M = 21
Q = 16
X, FULL, T = problems.data(M, Q, 3, 4, seed=61)
FULL += 5.0
RNG = np.random.default_rng(62)
Y = problems.with_holes(FULL, 0.5)
# A row and a column without labels: in two-step models they count all the same.
Y[4], Y[:, 7] = np.nan, np.nan
ROWS, COLUMNS = np.nonzero(~np.isnan(Y))
VALUES = Y[ROWS, COLUMNS]
WEIGHTS = RNG.random((M, Q)) * 3.0 + 0.1


def stored(values: np.ndarray) -> sparse.csr_array:
    """Return values (n,) of the observed pairs as a sparse matrix."""
    return sparse.csr_array((values, (ROWS, COLUMNS)), shape=(M, Q))


SPARSE = stored(VALUES)
SPARSE_WEIGHTS = stored(WEIGHTS[ROWS, COLUMNS])
BINARY = stored((FULL[ROWS, COLUMNS] > 5.0).astype(float))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take pairs alone whatever the size of the grid."""
    monkeypatch.setattr(training, "SMALL_GRID", 0)
    monkeypatch.setattr(training, "fits_in_memory", lambda *_: False)

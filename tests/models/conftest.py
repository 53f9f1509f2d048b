"""Numbers to learn from, row by row and task by task."""

import numpy as np
import pytest

from dyadlearn import OnlineTwoStepRidge


@pytest.fixture
def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Give 24 rows of 5 features, their labels of 6 tasks, and 3 features of these."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(24, 5)), rng.normal(size=(24, 6)), rng.normal(size=(6, 3))


@pytest.fixture
def model(data) -> OnlineTwoStepRidge:
    """Give a model that knows all but the last four rows and the last task."""
    X, Y, T = data
    return OnlineTwoStepRidge(0.3, 0.7).fit(X[:20], Y[:20, :5], T[:5])

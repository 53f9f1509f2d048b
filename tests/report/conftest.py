"""Small data with known shapes, and the models that are reported on."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from dyadlearn import TwoStepRidgeCV
from dyadlearn.exceptions import GridEdgeWarning


@pytest.fixture(scope="session")
def real():
    """Features of 24 instances and 16 tasks with real labels."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(24, 5)), rng.normal(size=(16, 4))
    return X, X @ rng.normal(size=(5, 4)) @ T.T + 2 * rng.normal(size=(24, 16)), T


@pytest.fixture(scope="session")
def binary(real):
    """The same with labels of two values."""
    X, Y, T = real
    return X, (Y > 1.5).astype(float), T


@pytest.fixture(scope="session")
def holes(real):
    """The same with a third of the labels missing."""
    X, Y, T = real
    return X, np.where(np.random.default_rng(1).random(Y.shape) < 0.3, np.nan, Y), T


@pytest.fixture(scope="session")
def searched(binary):
    """A model of two-valued labels that was chosen for setting D."""
    X, Y, T = binary
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GridEdgeWarning)
        return TwoStepRidgeCV([0.01, 0.1, 1, 10], [0.1, 1, 10], setting="D", scoring="roc_auc").fit(X, Y, tasks=T)

"""The fewest labels that determine an unpenalised mean."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import KroneckerRidge
from dyadlearn.exceptions import LeverageError


def test_of_two_labels_each_is_predicted_by_the_other():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(4, 3)), rng.normal(size=(3, 2))
    Y = np.full((4, 3), np.nan)
    Y[0, 1] = 5.0
    with pytest.raises(LeverageError):
        KroneckerRidge(1.0).fit(X, Y, tasks=T).holdout("A")
    Y[2, 0] = 3.0
    held_out = KroneckerRidge(1.0).fit(X, Y, tasks=T).holdout("A")
    # One label is a free mean without any other coefficient.
    assert_allclose(held_out[[0, 2], [1, 0]], [3.0, 5.0], rtol=1e-10)

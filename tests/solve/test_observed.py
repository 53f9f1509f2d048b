"""Products of the system of observed pairs."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn.solve import observed


@pytest.mark.parametrize("shape", [(9, 4), (4, 9)])
def test_diagonal_of_the_gram_matrix_of_weighted_rows(shape):
    rng = np.random.default_rng(0)
    vectors, load = rng.normal(size=shape), rng.uniform(1.0, 2.0, size=shape[0])
    expected = np.diag(vectors.T @ np.diag(load) @ vectors)
    assert_allclose(observed._diagonal(vectors, load), expected, rtol=1e-13)

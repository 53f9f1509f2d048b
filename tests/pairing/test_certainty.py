"""How far rows lie from those of training, against dense systems."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from dyadlearn.pairing.certainty import Novelty
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.spectrum import Spectrum
from problems import distance
from sweeps import lines, over


def kernel(n=9):
    return rbf_kernel(np.random.default_rng(0).normal(size=(n, 3)))


@over(lines("ridge", 1e-3, 1.0, 100.0))
def test_rows_of_training_lie_as_far_as_the_others_say(ridge):
    K = kernel()
    found = Novelty.of(Spectrum.from_gram(K), ridge)
    wanted = [distance(K, i, np.delete(np.arange(9), i), ridge) for i in range(9)]
    assert_allclose(found.left_out, wanted, rtol=1e-9)
    assert_allclose(found.typical, np.median(wanted), rtol=1e-9)


@over(lines("ridge", 1e-3, 1.0, 100.0))
def test_new_rows_lie_further_from_fewer(ridge):
    K = kernel(12)
    side = Novelty.of(Spectrum.from_gram(K[:9, :9]), ridge)
    rows = NewRows(K[9:, :9], lambda block: block, 0, lambda block: np.ones(len(block)))
    found, increase = side.of_rows(rows)
    for x in range(3):
        assert_allclose(found[x] * side.typical, distance(K, 9 + x, np.arange(9), ridge), rtol=1e-8)
        for i in range(9):
            wanted = distance(K, 9 + x, np.delete(np.arange(9), i), ridge)
            assert_allclose((found[x] + increase[x, i]) * side.typical, wanted, rtol=1e-8)


@over(lines("ridge used", (0.0, 5e-6), (1e-12, 5e-6), (1e12, 5e6), (float("inf"), 5e6)))
def test_a_ridge_that_says_nothing_is_kept_within_reach_of_the_kernel(ridge, used):
    assert_allclose(Novelty.of(Spectrum.from_gram(5.0 * kernel()), ridge).side.alpha, used)


@pytest.mark.parametrize("ridge", [0.0, float("inf")])
def test_a_kernel_of_zeros_tells_no_distances(ridge):
    found = Novelty.of(Spectrum.from_features(np.zeros((5, 2))), ridge)
    assert_allclose(found.left_out, 1.0)

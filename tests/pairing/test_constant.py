"""The constant of one side beside the kernel of the other."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_array_equal

from dyadlearn.pairing.constant import ConstantColumns, ones_of
from dyadlearn.spectrum import Spectrum


def test_columns_without_ridge_are_determined_by_kernels_of_full_rank_only():
    X = np.random.default_rng(0).normal(size=(4, 6))
    for features, is_singular in ((X, False), (X[:, :2], True)):
        spectrum = Spectrum.from_gram(features @ features.T)
        assert spectrum.is_singular is is_singular
        ridges = np.array([[0.0, 0.0, 0.5]])
        columns = ConstantColumns.of(
            spectrum, ones_of(spectrum), np.array([2.0, 0.0, 0.0]), ridges, np.zeros(3)
        )
        assert_array_equal(columns.sign, [[0.0 if is_singular else 1.0, 0.0, 1.0]])

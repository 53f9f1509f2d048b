"""Spectra, filters and effective dimensions against dense matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dyadlearn import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.kernels import gram
from dyadlearn.pairing import Kronecker
from dyadlearn.views.spectrum import spectra_of_model

PAPER = {"fit_intercept": False}


def hat(K, alpha):
    return K @ np.linalg.inv(K + alpha * np.eye(len(K)))


def centred(K):
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_both_sides_of_a_model(real, fit_intercept):
    """A constant is a direction that is kept whole, beside those of the centred kernel."""
    X, Y, T = real
    options = {"kernel": "rbf", "task_kernel": "rbf", "fit_intercept": fit_intercept}
    sides = spectra_of_model(TwoStepRidge(0.5, 0.02, **options).fit(X, Y, T))
    assert list(sides) == ["instances", "tasks"]
    for side, features, alpha in zip(sides.values(), (X, T), (0.5, 0.02), strict=True):
        kernel = gram(features, kernel="rbf")
        kernel = centred(kernel) if fit_intercept else kernel
        assert side.has_constant == fit_intercept
        values = np.linalg.eigvalsh(kernel)[::-1]
        assert_allclose(side.values, values[: len(values) - fit_intercept], rtol=1e-8)
        assert_allclose(side.shrinkage, side.values / (side.values + alpha))
        assert_allclose(side.effective_dimension, fit_intercept + np.trace(hat(kernel, alpha)))


def test_eigenvalues_of_zero_are_counted(real):
    X, Y, T = real
    sides = spectra_of_model(
        TwoStepRidge(2.0, 0.5, **PAPER).fit(X, Y, T)
    )  # linear kernels of rank 5 and 4
    assert (sides["instances"].rank, sides["tasks"].rank) == (5, 4)
    assert sides["instances"].n_rows == 24
    given = TwoStepRidge(2.0, 0.5, kernel="precomputed", **PAPER).fit(X @ X.T, Y, T)
    full = spectra_of_model(given)["instances"]
    assert_allclose(full.values[:5], sides["instances"].values)
    assert_allclose(full.effective_dimension, sides["instances"].effective_dimension)


def test_kronecker_filters_the_products(real, monkeypatch):
    X, Y, T = real
    K = gram(X, kernel="rbf")
    G = gram(T, kernel="rbf")
    model = KroneckerRidge(0.3, kernel="rbf", task_kernel="rbf", **PAPER).fit(X, Y, T)
    sides = spectra_of_model(model)
    pairs = sides["pairs"]
    assert_allclose(pairs.effective_dimension, np.trace(hat(np.kron(G, K), 0.3)))
    assert pairs.n_rows == 24 * 16
    assert (np.diff(pairs.values) <= 0).all()
    assert np.isnan(sides["tasks"].effective_dimension)
    assert [name for name, side in sides.items() if side.shrinkage is not None] == ["pairs"]
    assert pairs.kernel == "product"
    monkeypatch.setattr(Kronecker, "is_product", False)  # any other kernel between pairs
    assert spectra_of_model(model)["pairs"].kernel == "between pairs"


def test_models_with_one_side(real):
    X, Y, _ = real
    one = spectra_of_model(IndependentTaskRidge(2.0).fit(X, Y))
    assert list(one) == ["instances"]
    assert_allclose(one["instances"].effective_dimension, 1 + np.trace(hat(centred(X @ X.T), 2.0)))
    symmetric = (Y @ Y.T) / 10
    assert list(spectra_of_model(TwoStepRidge(symmetry="symmetric").fit(X, symmetric))) == ["nodes"]


def test_the_constant_of_a_kernel_is_named(real):
    X, Y, T = real
    model = KroneckerRidge(
        0.5, kernel="rbf", kernel_params={"gamma": 0.1}, constants=(0.25, 1.0)
    ).fit(X, Y, T)
    assert [side.kernel for side in spectra_of_model(model).values()] == [
        "rbf (gamma=0.1) + 0.25",
        "linear",
        "product",
    ]

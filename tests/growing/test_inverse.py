"""The regularised inverse of a Gram matrix, whichever way it is computed."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn._svd import gram_eigen
from dyadlearn.growing.inverse import Eigen, Inverse
from sweeps import every, over


def of(rows, alpha=0.5):
    return Inverse.of(rows.T @ rows, len(rows), alpha)


def wanted(rows, alpha, B):
    return np.linalg.solve(rows.T @ rows + alpha * np.eye(rows.shape[1]), B)


@over(every(n_columns=[1, 3]))
def test_a_copy_of_a_feature_costs_no_digits_of_predictions(n_columns, library):
    # The inverse has entries of 1/λ, and products with it are rounded to those.
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    rng = default_rng(0)
    feature = 2.0**14 * rng.normal(size=(30, 1))
    labels = rng.normal(size=(30, n_columns))
    rows = np.hstack([feature, feature])
    side = Inverse.of(library.asarray(rows.T @ rows), 30, 1.0)
    expected = feature @ (feature.T @ labels) / (feature.T @ feature + 0.5)
    found = library.to_numpy(side.solve(library.asarray(rows.T @ labels)))
    assert_allclose(rows @ found, expected, rtol=0, atol=1e-13)


def test_features_that_nearly_depend_on_others(library):
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    first, second = default_rng(0).normal(size=(2, 30))
    rows = np.column_stack([first, first + 6e-7 * second]) * [1e6, 1.0]
    gram = library.asarray(rows.T @ rows)
    side = Inverse.of(gram, 30, 0.0)
    assert side.doubt.startswith("Features are nearly collinear: with a regularisation of 0, ")
    assert side.eigen is None
    assert Inverse.of(gram, 30, 1.0).doubt is None


SCALES = 10.0 ** np.array([8.0, -8.0, 0.0, 4.0, -4.0, 1.0, 7.0, 0.0])


@over(every(constant=[False, True], alpha=[0.0, 1e-9, 1e-6, 1.0, 1e3]))
def test_features_of_any_scales(constant, alpha, library):
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    rng = default_rng(0)
    rows = rng.normal(size=(40, 8)) * SCALES
    labels = rng.normal(size=(40, 2))
    exact = rows.astype(np.longdouble)
    exact = exact - exact.mean(axis=0) if constant else exact
    scale = np.sqrt((exact**2).sum(axis=0) + alpha)
    inner = (exact / scale).T @ (exact / scale) + np.diag(alpha / scale**2)
    solved = np.linalg.solve(inner.astype(float), ((exact / scale).T @ labels).astype(float))
    features = exact.astype(float)
    weights = (solved / scale[:, None]).astype(float)
    gram, target = (library.asarray(features.T @ part) for part in (features, labels))
    atol = 1e-9 if alpha >= 1e-6 else 1e-8
    for form in (
        Inverse.of(gram, 40, alpha).solve(target),
        Eigen(*gram_eigen(gram, 40)).solve(target, alpha),
    ):
        assert_allclose(features @ library.to_numpy(form), features @ weights, rtol=0, atol=atol)


def test_a_regularisation_beside_rounding():
    rows = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]])
    B = rows.T @ np.array([[1.0], [3.0]])
    side = of(rows, 1e-18)
    assert (
        "a regularisation of 1e-18 is smaller than the rounding errors of their largest eigenvalue "
        "25" in side.doubt
    )
    assert_allclose(side.solve(B), np.linalg.pinv(rows.T @ rows) @ B, rtol=1e-10, atol=1e-12)
    # A feature of zeros is not dropped, and one that is small is none.
    for kept in (np.diag([1.0, 2.0, 0.0]), np.diag([1.0, 1e9, 0.0])):
        assert of(kept, 1e-18).doubt is None


@over(every(n_columns=[1, 4, 30], order="CF"))
def test_few_and_many_columns(n_columns, order):
    # Few are solved by the factor, many by the inverse that is made from it.
    rng = default_rng(0)
    rows = rng.normal(size=(30, 9)) * 10.0 ** np.arange(-4, 5)
    B = rng.normal(size=(9, n_columns)).copy(order=order)
    side = of(rows)
    assert_allclose(side.solve(B), wanted(rows, 0.5, B), rtol=1e-9)
    assert ("_explicit" in vars(side)) == (n_columns > 4)
    assert_allclose(side.solve(B[:, :1]), wanted(rows, 0.5, B[:, :1]), rtol=1e-9)


def test_no_product_with_a_large_inverse():
    rng = default_rng(0)
    rows = rng.normal(size=(400, 10)) @ rng.normal(size=(10, 80))
    labels = rng.normal(size=(400, 80))
    side = of(rows, 1e-3)
    found = rows @ side.solve(rows.T @ labels)
    assert side._explicit is None
    left, values, _ = np.linalg.svd(rows, full_matrices=False)
    shares = values**2 / (values**2 + 1e-3)
    assert_allclose(found, left @ (shares[:, None] * (left.T @ labels)), rtol=0, atol=1e-10)

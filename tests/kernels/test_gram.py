from unittest.mock import patch

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS

from dyadlearn.exceptions import KernelError
from dyadlearn.kernels import (
    Product,
    Sum,
    delta,
    gram,
    gram_diagonal,
    kernel_names,
    minmax,
    tanimoto,
)
from dyadlearn.kernels.gram import KERNELS, named
from kernels_by_hand import BY_HAND

# Of the kernels that scikit-learn names, those that are positive semi-definite.
THEIRS = sorted({*PAIRWISE_KERNEL_FUNCTIONS} - {"additive_chi2", "sigmoid"})
OURS = {"delta": delta, "minmax": minmax, "tanimoto": tanimoto}
PARAMS = [
    ("rbf", {"gamma": 0.3}),
    ("laplacian", {"gamma": 0.3}),
    ("chi2", {"gamma": 0.3}),
    ("poly", {"degree": 2, "gamma": 0.5, "coef0": 2}),
    ("polynomial", {"degree": 1.5}),
    *[(name, {}) for name in THEIRS],
]


@pytest.fixture
def features():
    rng = default_rng(0)
    return rng.random((7, 5)), rng.random((4, 5))


def test_names_are_those_of_scikit_learn_and_ours():
    assert sorted(kernel_names()) == list(kernel_names())
    assert {*THEIRS, *OURS} <= set(kernel_names())
    assert set(kernel_names()) == set(BY_HAND)


def test_a_kernel_is_found_once_it_is_declared(features):
    A, B = features
    with patch.dict(KERNELS):

        @named("triangle", "tent")
        def triangle(A, B=None, *, width=1.0):
            distances = np.abs(A[:, None, :] - (A if B is None else B)[None, :, :]).sum(axis=-1)
            return np.maximum(0, 1 - distances / width)

        assert {"triangle", "tent"} < set(kernel_names())
        for name in ("triangle", "tent"):
            assert_array_equal(
                gram(A, B, kernel=name, kernel_params={"width": 3.0}), triangle(A, B, width=3.0)
            )

        with pytest.raises(
            KernelError, match="kernel 'tent' takes no parameter 'gamma'; it takes width"
        ):
            gram(A, kernel="tent", kernel_params={"gamma": 1.0})
        with pytest.raises(KernelError, match="Did you mean 'triangle'"):
            gram(A, kernel="triangel")
    with pytest.raises(KernelError, match="Unknown kernel 'tent'"):
        gram(A, kernel="tent")


def test_a_gram_matrix_is_exactly_symmetric(each, library):
    for name in each(kernel_names()):
        A = default_rng(1).random((50, 33))
        for right in (None, "A itself"):
            features = library.asarray(A)
            K = library.to_numpy(gram(features, features if right else None, kernel=name))
            assert_array_equal(K, K.T)


def test_a_callable_gets_two_whole_matrices_and_the_parameters(features):
    A, B = features
    calls = []

    def kernel(left, right, power):
        calls.append((left, right))
        return (left @ right.T) ** power

    assert_allclose(gram(A, B, kernel=kernel, kernel_params={"power": 2}), (A @ B.T) ** 2)
    assert_allclose(gram(A, kernel=kernel, kernel_params={"power": 3}), (A @ A.T) ** 3)
    assert all(left is A for left, _ in calls)
    assert calls[0][1] is B
    assert calls[1][1] is A


def test_what_a_callable_returns_becomes_a_dense_float_array(features, each):
    ones = np.ones((7, 4))
    for returned, dtype in each(
        [
            (sparse.csr_array(ones), float),
            (ones.astype(np.float32), np.float32),
            (ones.tolist(), float),
        ]
    ):
        found = gram(*features, kernel=lambda A, B, returned=returned: returned)
        assert type(found) is np.ndarray
        assert found.dtype == dtype
        assert_array_equal(found, ones)


def test_a_callable_of_another_library_comes_back_in_that_of_the_features(features):
    torch = pytest.importorskip("torch", reason="torch is not installed: its arrays are not tested")
    A, B = features
    assert type(gram(A, B, kernel=lambda A, B: torch.as_tensor(A @ B.T))) is np.ndarray
    found = gram(
        torch.as_tensor(A), torch.as_tensor(B), kernel=lambda A, B: A.numpy() @ B.numpy().T
    )
    assert type(found) is torch.Tensor


def own_values(A, B, *, power=2):
    return (A @ B.T) ** power


DIAGONALS = [
    *PARAMS,
    *[(name, {}) for name in OURS],
    (own_values, {"power": 3}),
    (Sum(("rbf", ("poly", {"degree": 2})), weights=(0.5, 2.0)), {}),
    (Product(("linear", Sum(("delta", own_values)))), {}),
    (RBF(0.7) + 2.0 * DotProduct(), {}),
    # Between two sets of things it is zero, also where they are the same: `gram` never calls it
    # with one.
    (RBF(0.7) + WhiteKernel(3.0), {}),
]


def test_the_diagonal_is_that_of_the_whole_kernel(each, library):
    A = default_rng(3).random((40, 5))
    A[7] = 0.0
    rtol = 1e-5 if library.dtype == "float32" else 1e-12
    for kernel, params in each(DIAGONALS):
        if not isinstance(kernel, str | Sum | Product) and not library.name.startswith("numpy"):
            continue
        given = library.asarray(A)
        found = gram_diagonal(given, kernel=kernel, kernel_params=params)
        assert type(found) is type(given)
        assert found.dtype == given.dtype or callable(kernel)
        expected = np.diag(library.to_numpy(gram(given, kernel=kernel, kernel_params=params)))
        assert_allclose(library.to_numpy(found), expected, rtol=rtol, atol=rtol)


def test_a_diagonal_without_a_shortcut_takes_small_blocks():
    asked = []

    def kernel(A, B):
        asked.append((len(A), len(B)))
        return A @ B.T

    A = default_rng(6).random((100, 3))
    assert_allclose(gram_diagonal(A, kernel=kernel), (A**2).sum(axis=1), rtol=1e-12)
    assert sum(a * b for a, b in asked) < 20 * len(A)

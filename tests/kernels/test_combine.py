import copy
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel

from dyadlearn.exceptions import KernelError
from dyadlearn.kernels import Product, Sum, gram, normalize
from sweeps import every, over


@over(every(n=[1, 2, 7]))
def test_normalize_a_gram_matrix(n, library):
    A = np.random.default_rng(n).normal(size=(n, 3))
    K = A @ A.T
    found = normalize(library.asarray(K))
    assert found.dtype == library.asarray(K).dtype
    expected = [[K[i, j] / math.sqrt(K[i, i] * K[j, j]) for j in range(n)] for i in range(n)]
    rtol = 1e-5 if library.dtype == "float32" else 1e-13
    assert_allclose(library.to_numpy(found), expected, rtol=rtol, atol=rtol)
    symmetric = library.to_numpy(normalize(library.asarray((K + K.T) / 2)))
    assert_array_equal(symmetric, symmetric.T)


def test_normalize_a_block(library):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 3))
    B = rng.normal(size=(4, 3))
    A[2] = 0
    rtol = 1e-5 if library.dtype == "float32" else 1e-13
    block = A @ B.T
    of_rows = (A * A).sum(axis=1)
    of_columns = (B * B).sum(axis=1)
    found = normalize(library.asarray(block), library.asarray(of_rows), library.asarray(of_columns))
    assert_allclose(library.to_numpy(found), cosine_similarity(A, B), rtol=rtol, atol=rtol)
    assert_array_equal(library.to_numpy(found)[2], np.zeros(4))
    found = normalize(library.asarray(block), of_rows.tolist(), of_columns)
    assert_allclose(library.to_numpy(found), cosine_similarity(A, B), rtol=rtol, atol=rtol)


def test_normalize_survives_large_and_small_scales():
    for scale in (1e-200, 1e200):
        K = scale * np.array([[4.0, 3.0], [3.0, 9.0]])
        assert_allclose(normalize(K), [[1, 0.5], [0.5, 1]], rtol=1e-14)
    assert_allclose(normalize(np.diag([1.0, 1e-300, 1e300])), np.eye(3))


def test_normalize_takes_what_is_similar_to_nothing_to_zero():
    K = np.array([[0.0, 0.3], [0.3, 4.0]])
    assert_array_equal(normalize(K), [[0, 0], [0, 1]])


def test_whole_exponents_take_negative_entries():
    K = np.array([[1.0, -0.5], [-0.5, 1.0]])
    members = [lambda A, B: np.abs(K), lambda A, B: K]
    X = np.ones((2, 1))
    assert_allclose(Product(members[1:], weights=[3])(X), K**3)
    with pytest.raises(
        KernelError, match=r"kernels\[1\] has negative entries, which have no power 0.5"
    ):
        Product(members, weights=[0.5, 0.5])(X)


def test_sums_and_products_of_kernels(library):
    rng = np.random.default_rng(0)
    A, B = rng.random((5, 3)), rng.random((4, 3))
    rbf = ("rbf", {"gamma": 0.2})
    linear = A @ B.T
    total = linear + 0.3 * rbf_kernel(A, B, gamma=0.2) + 2 * (linear + 1)
    cases = [
        (Sum(("linear", rbf, lambda A, B: A @ B.T + 1), weights=(1, 0.3, 2)), total),
        (Product(["linear", rbf], weights=[2, 0.5]), linear**2 * rbf_kernel(A, B, gamma=0.1)),
    ]
    given = library.asarray(A), library.asarray(B)
    rtol = 1e-5 if library.dtype == "float32" else 1e-13
    for kernel, expected in cases:
        for found in (kernel(*given), gram(*given, kernel=kernel)):
            assert found.dtype == given[0].dtype
            assert_allclose(library.to_numpy(found), expected, rtol=rtol)


@over(every(combination=[Sum, Product]))
def test_combinations_are_values(combination):
    kernel = combination([["rbf", {"gamma": 1}], "linear"], weights=[1, 2])
    assert kernel == combination((["rbf", {"gamma": 1}], "linear"), weights=(1.0, 2.0))
    assert kernel != combination((["rbf", {"gamma": 2}], "linear"), weights=(1, 2))
    assert copy.deepcopy(kernel) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel
    assert combination(("rbf",)).weights is None
    with pytest.raises(AttributeError):
        kernel.weights = (1, 1)
    assert Sum(("rbf",)) != Product(("rbf",))

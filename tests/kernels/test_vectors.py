from functools import cache, partial
from itertools import product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn.kernels import vectors
from dyadlearn.kernels.gram import KERNELS as NAMED
from kernels_by_hand import BY_HAND, CHOICES, DENSE_ONLY
from sweeps import covering

SHAPES = [(1, 1, 1), (4, 7, 3), (6, 2, 11)]


def counts(n, d, seed):
    """Draw counts of 0 to 2, of which many are zero, with a zero row at the end."""
    values = np.minimum(default_rng(seed).poisson(0.8, size=(n, d)), 2).astype(float)
    values[-1] = 0
    return values


def loop(A, B, of_pair):
    return np.array([[of_pair(a, b) for b in B] for a in A])


KERNELS = {
    f"{name} {params or ''}": (NAMED[name], params, partial(BY_HAND[name], **params))
    for name, params in CHOICES
}


@cache
def by_loop(name, shape, seeds):
    """Return two tables, of which one row is the same, and what loops say of both and of the first alone."""
    n_a, n_b, d = shape
    # The widest rows hold fractions.
    unit = 0.02 if d > 10 else 1.0
    A, B = (unit * counts(n, d, seed=seed) for n, seed in zip((n_a, n_b), seeds, strict=True))
    B[0] = A[0]
    of_pair = KERNELS[name][2]
    return A, B, loop(A, B, of_pair), loop(A, A, of_pair)


def test_equals_a_loop_over_pairs(each, library):
    for shape, name in each(product(SHAPES, KERNELS)):
        kernel, params, _ = KERNELS[name]
        A, B, of_both, of_one = by_loop(name, shape, (1, 2))
        found = kernel(library.asarray(A), library.asarray(B), **params)
        assert type(found) is type(library.asarray(A))
        assert found.dtype == library.asarray(A).dtype
        rtol = 1e-5 if library.dtype == "float32" else 1e-12
        assert_allclose(library.to_numpy(found), of_both, rtol=rtol, atol=rtol)
        alone = kernel(library.asarray(A), **params)
        assert_allclose(library.to_numpy(alone), of_one, rtol=rtol, atol=rtol)


def test_sparse_equals_a_loop_over_pairs(each):
    containers = [sparse.csr_matrix, sparse.csr_array, sparse.coo_array]
    names = [name for name in KERNELS if not name.startswith(DENSE_ONLY)]
    for case in each(covering(dtype=["float64", "float32"], container=range(3), name=names)):
        dtype = np.dtype(case["dtype"])
        container = containers[case["container"]]
        name = case["name"]
        kernel, params, _ = KERNELS[name]
        A, B, expected, of_one = by_loop(name, (5, 4, 9), (3, 4))
        rtol = 1e-5 if dtype == np.float32 else 1e-12
        sparse_A = container(A.astype(dtype))
        sparse_B = container(B.astype(dtype))
        for left, right in [
            (sparse_A, sparse_B),
            (sparse_A, B.astype(dtype)),
            (A.astype(dtype), sparse_B),
        ]:
            found = kernel(left, right, **params)
            assert type(found) is np.ndarray
            assert found.dtype == dtype
            assert_allclose(found, expected, rtol=rtol, atol=rtol)
        assert_allclose(kernel(sparse_A, **params), of_one, rtol=rtol, atol=rtol)


def test_blocks_make_no_difference(each, library, monkeypatch):
    asked = []

    def tiny_blocks(n_rows, _):
        asked.append(n_rows)
        return (slice(start, min(start + 2, n_rows)) for start in range(0, n_rows, 2))

    A = library.asarray(counts(9, 5, seed=7))
    B = library.asarray(counts(8, 5, seed=8))
    rtol = 1e-5 if library.dtype == "float32" else 1e-12
    for name in each(KERNELS):
        kernel, params, _ = KERNELS[name]
        whole = library.to_numpy(kernel(A, B, **params))
        alone = library.to_numpy(kernel(A, **params))
        asked.clear()
        with monkeypatch.context() as patch:
            patch.setattr("dyadlearn._array.slices", tiny_blocks)
            assert_allclose(library.to_numpy(kernel(A, B, **params)), whole, rtol=rtol, atol=rtol)
            assert_allclose(library.to_numpy(kernel(A, **params)), alone, rtol=rtol, atol=rtol)
        assert asked or name not in ("tanimoto", "minmax")


def test_tanimoto_takes_negative_entries_and_is_positive_semidefinite():
    A = default_rng(0).normal(size=(60, 3))
    K = vectors.tanimoto(A)
    assert_allclose(K, loop(A, A, BY_HAND["tanimoto"]), rtol=1e-12)
    assert K.min() < -0.1
    assert np.linalg.eigvalsh(K).min() > -1e-12


def test_diagonal_is_exactly_one(each, library):
    for kernel in each([vectors.tanimoto, vectors.minmax]):
        A = default_rng(0).random((30, 17))
        A[3] = 0
        assert_array_equal(np.diag(library.to_numpy(kernel(library.asarray(A)))), np.ones(30))


def test_minmax_is_never_below_zero(library):
    # 0.1 + 0.7 and the like do not cancel exactly where nothing is shared.
    A = default_rng(0).random((20, 8)) * (np.arange(8) < 4)
    B = default_rng(1).random((20, 8)) * (np.arange(8) >= 4)
    K = library.to_numpy(vectors.minmax(library.asarray(A), library.asarray(B)))
    assert K.min() >= 0
    assert_allclose(K, 0, atol=1e-6)


def test_delta_sees_through_storage():
    A = np.array([[0.0, -0.0, 2.0], [1.0, 0.0, 0.0]])
    B = sparse.csr_array(
        (np.array([2.0, 0.0, 0.5, 0.5]), np.array([2, 0, 0, 0]), np.array([0, 2, 4])), shape=(2, 3)
    )
    expected = np.eye(2)
    assert_array_equal(vectors.delta(A, B), expected)
    assert_array_equal(vectors.delta(B, A), expected)
    assert_array_equal(vectors.delta(B), expected)
    assert_array_equal(vectors.delta(A, np.abs(A)), expected)
    assert_array_equal(vectors.delta(A, np.nextafter(A, 9)), np.zeros((2, 2)))


def test_sparse_features_may_have_long_indices(each):
    for kernel in each([vectors.minmax, vectors.laplacian, vectors.rbf, vectors.delta]):
        A = counts(6, 5, seed=9)
        long = sparse.csr_array(A)
        long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
        assert_allclose(kernel(long), kernel(A), rtol=1e-12)
        assert long.indices.dtype == np.int64


def test_rbf_far_from_the_origin_keeps_its_digits_in_single_precision():
    torch = pytest.importorskip("torch", reason="torch is not installed: its arrays are not tested")
    A = (1000 + default_rng(0).random((6, 4))).astype(np.float32)
    expected = loop(
        A.astype(float), A.astype(float), lambda a, b: np.exp(-float((a - b) @ (a - b)))
    )
    assert_allclose(vectors.rbf(torch.as_tensor(A), gamma=1).numpy(), expected, rtol=1e-5)
    assert_allclose(
        vectors.rbf(torch.as_tensor(A), torch.as_tensor(A) + 0, gamma=1).numpy(),
        expected,
        rtol=1e-5,
    )


@pytest.mark.parametrize("gamma", [1e-3, 1.0, 30.0])
def test_rbf_of_repeated_rows_is_exactly_one(gamma):
    A = 10.0 + default_rng(0).normal(size=(40, 17))
    repeated = np.arange(40) // 2
    K = vectors.rbf(A[repeated], gamma=gamma)
    assert (K[repeated[:, None] == repeated[None, :]] == 1.0).all()
    assert (np.diagonal(vectors.rbf(A, A.copy(), gamma=gamma)) == 1.0).all()
    moved = A.copy()
    moved[:, 0] += 1e-4
    assert_allclose(1.0 - np.diagonal(vectors.rbf(A, moved, gamma=gamma)), gamma * 1e-8, rtol=1e-3)

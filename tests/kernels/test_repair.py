from sys import modules

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn.exceptions import KernelError, KernelRepairWarning
from dyadlearn.kernels.repair import (
    asymmetry,
    average_transpose,
    mended,
    rank_threshold,
    repair,
    repaired_values,
    symmetrized,
    symmetry_tolerance,
)

EPS = np.finfo(float).eps


def similarity(n):
    """Draw a matrix that is neither symmetric nor positive semi-definite."""
    values = default_rng(0).normal(size=(n, n))
    values[0, 0] = -1
    return values


def tolerances(library):
    rtol = 1e-4 if library.dtype == "float32" else 1e-11
    return {"rtol": rtol, "atol": rtol}


@pytest.fixture(params=[None, 3], ids=["one block", "blocks of 3 rows"])
def blocks(request, monkeypatch):
    """Run the test also with blocks that are smaller than the matrix."""
    if request.param:
        step = request.param
        monkeypatch.setattr(
            modules["dyadlearn.kernels.repair"],
            "cached_blocks",
            lambda n, *_: (slice(i, min(i + step, n)) for i in range(0, n, step)),
        )


@pytest.mark.usefixtures("blocks")
def test_asymmetry_and_average(each, library):
    for n in each([1, 2, 3, 10]):
        K = library.asarray(similarity(n))
        plain = np.array(library.to_numpy(K))
        expected = max(abs(plain[i, j] - plain[j, i]) for i in range(n) for j in range(n))
        assert_allclose(asymmetry(K), expected, rtol=1e-6)
        assert average_transpose(K) is K
        assert_allclose(library.to_numpy(K), (plain + plain.T) / 2, rtol=1e-6)
        assert asymmetry(K) == 0


def test_what_is_symmetric_up_to_rounding_is_left_and_other_things_are_averaged(library):
    tolerance = 1e-4 if library.dtype == "float32" else 1e-8
    assert_allclose(symmetry_tolerance(library.asarray([[1.0, -4.0], [2.0, 3.0]])), 4 * tolerance)
    for option in ("mean", "error"):
        K = library.asarray([[1.0, 0.5], [0.5 + 0.5 * tolerance, 1.0]])
        symmetric, gap = symmetrized(K, option)
        assert symmetric is K
        assert 0.3 * tolerance < gap < 0.7 * tolerance
    plain = np.array([[1.0, 0.5], [0.5 + 2 * tolerance, 1.0]])
    K = library.asarray(plain.copy())
    symmetric, gap = symmetrized(K)
    assert_allclose(gap, 2 * tolerance, rtol=1e-2)
    found = library.to_numpy(symmetric)
    assert_array_equal(found, found.T)
    assert_allclose(found[0, 1], 0.5 + tolerance, rtol=1e-6)
    assert_array_equal(library.to_numpy(K), library.to_numpy(library.asarray(plain)))


def test_threshold_of_rank(library):
    values = library.asarray([-3.0, 0.5, 2.0])
    eps = 2.0**-23 if library.dtype == "float32" else 2.0**-52
    assert_allclose(rank_threshold(values, 10), 30 * eps)


def test_negative_rounding_becomes_zero_and_is_no_reason_to_repair(each):
    for psd in each(["clip", "shift", "error"]):
        values = np.array([-3.9 * EPS, -1e-20, 3.9 * EPS, 4.1 * EPS, 1.0])
        found, smallest = repaired_values(values, psd, 4)
        assert_array_equal(found, [0, 0, 3.9 * EPS, 4.1 * EPS, 1.0])
        assert smallest == -3.9 * EPS


def test_small_eigenvalues_stay_after_the_shift():
    found, _ = repaired_values(np.array([-1.0, -1.0 + 6 * EPS, -1.0 + 9 * EPS, 1.0]), "shift", 4)
    assert_array_equal(found, [0, 6 * EPS, 9 * EPS, 2])


def test_zeros_stay_zeros(each):
    for psd in each(["clip", "shift", "error"]):
        found, smallest = repaired_values(np.zeros(3), psd, 3)
        assert_array_equal(found, np.zeros(3))
        assert smallest == 0


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("psd", ["clip", "shift"])
def test_a_repair_is_that_of_the_eigenvalues(each, library, psd):
    for n in each([1, 2, 10]):
        plain = similarity(n)
        K = library.asarray(plain.copy())
        found = repair(K, psd=psd)
        assert type(found) is type(K)
        assert found.dtype == K.dtype
        values, vectors = np.linalg.eigh((plain + plain.T) / 2)
        assert values.min() < 0
        mended = np.maximum(values, 0) if psd == "clip" else values - values.min()
        found = library.to_numpy(found)
        assert_allclose(found, (vectors * mended) @ vectors.T, **tolerances(library))
        assert_array_equal(found, found.T)
        assert_array_equal(library.to_numpy(K), library.to_numpy(library.asarray(plain)))
        if psd == "shift":  # changes only the diagonal
            smallest = np.linalg.eigvalsh(found.astype(float)).min()
            assert abs(smallest) < 100 * np.finfo(library.dtype).eps * max(mended.max(), 1)


def test_a_kernel_comes_back_as_it_is(each, library):
    for psd in each(["clip", "shift", "error"]):
        A = default_rng(0).normal(size=(8, 3))
        K = library.asarray((A @ A.T + (A @ A.T).T) / 2)
        assert repair(K, symmetrize="error", psd=psd) is K


@pytest.mark.parametrize("psd", ["clip", "shift"])
def test_mending_is_a_repair_with_a_warning(psd, library):
    K = library.asarray(similarity(6))
    with pytest.warns(KernelRepairWarning, match="K is asymmetric .* and indefinite"):
        found = mended(K, psd, "K")
    assert_array_equal(library.to_numpy(found), library.to_numpy(repair(K, psd=psd)))


def test_mending_leaves_a_kernel_alone(each, library):
    A = default_rng(0).normal(size=(6, 3))
    kernels = {
        "singular": A @ A.T,
        "regular": A @ A.T + np.eye(6),
        "zero": np.zeros((6, 6)),
        "one": np.ones((1, 1)),
    }
    for name in each(kernels):
        K = library.asarray(kernels[name] + kernels[name].T)
        assert mended(K, "error", "K") is K


def test_mending_sees_what_is_barely_indefinite(each):
    vector = default_rng(0).normal(size=40)
    vector /= np.linalg.norm(vector)
    for size in each([-2e-6, -1e-4, -0.1]):
        # The largest eigenvalue is 1, but for the tiny part.
        K = np.eye(40) - (1 - size) * np.outer(vector, vector)
        K = (K + K.T) / 2
        with pytest.raises(
            KernelError, match="K is not positive semi-definite: 1 of its 40 eigenvalues"
        ):
            mended(K, "error", "K")


def test_lists_of_integers_are_similarities():
    found = repair([[2, 1], [1, 2]])
    assert_array_equal(found, [[2.0, 1.0], [1.0, 2.0]])
    assert found.dtype == np.float64

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.gaussian_process.kernels import RBF, DotProduct, WhiteKernel
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from dyadlearn import TwoStepRidge
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
    rng = np.random.default_rng(0)
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
        tasks = np.random.default_rng(1).random((3, 5))
        Y = np.random.default_rng(2).random((7, 3))
        model = TwoStepRidge(kernel="tent", kernel_params={"width": 3.0}, task_kernel="triangle")
        assert model.fit(A, Y, tasks=tasks).predict(B).shape == (4, 3)
        with pytest.raises(
            KernelError, match="kernel 'tent' takes no parameter 'gamma'; it takes width"
        ):
            gram(A, kernel="tent", kernel_params={"gamma": 1.0})
        with pytest.raises(KernelError, match="Did you mean 'triangle'"):
            gram(A, kernel="triangel")
    with pytest.raises(KernelError, match="Unknown kernel 'tent'"):
        gram(A, kernel="tent")


def test_named_kernels_are_those_of_scikit_learn(each, features, library):
    for kernel, params in each(PARAMS):
        A, B = features
        rtol = 1e-5 if library.dtype == "float32" else 1e-12
        for right in (B, None):
            found = gram(
                library.asarray(A),
                None if right is None else library.asarray(right),
                kernel=kernel,
                kernel_params=params,
            )
            assert type(found) is type(library.asarray(A))
            assert found.dtype == library.asarray(A).dtype
            expected = pairwise_kernels(A, right, metric=kernel, **params)
            assert_allclose(library.to_numpy(found), expected, rtol=rtol, atol=rtol)


def test_our_own_names(each, features):
    for name in each(OURS):
        A, B = features
        assert_array_equal(gram(A, B, kernel=name), OURS[name](A, B))


def test_the_default_is_linear(features):
    A, B = features
    assert_allclose(gram(A, B), A @ B.T, rtol=1e-14)


def test_a_gram_matrix_is_exactly_symmetric(each, library):
    for name in each(kernel_names()):
        A = np.random.default_rng(1).random((50, 33))
        for right in (None, "A itself"):
            features = library.asarray(A)
            K = library.to_numpy(gram(features, features if right else None, kernel=name))
            assert_array_equal(K, K.T)


def test_sparse_features_give_the_dense_answer(each, features):
    for name in each([name for name in kernel_names() if "chi2" not in name]):
        A, B = (np.where(values < 0.5, 0, values) for values in features)
        found = gram(sparse.csr_array(A), sparse.csr_array(B), kernel=name)
        assert type(found) is np.ndarray
        assert_allclose(found, gram(A, B, kernel=name), rtol=1e-12, atol=1e-12)


def test_a_callable_gets_two_whole_matrices_and_the_parameters(features):
    A, B = features
    calls = []

    def kernel(left, right, power):
        calls.append((left, right))
        return (left @ right.T) ** power

    assert_allclose(gram(A, B, kernel=kernel, kernel_params={"power": 2}), (A @ B.T) ** 2)
    assert_allclose(gram(A, kernel=kernel, kernel_params={"power": 3}), (A @ A.T) ** 3)
    assert calls[0][0] is A
    assert calls[0][1] is B
    assert calls[1][0] is calls[1][1] is A


def test_gaussian_process_kernels_work_as_they_are(each, features):
    for dtype in each([np.float64, np.float32]):
        A, B = (values.astype(dtype) for values in features)
        kernel = RBF(0.7) + 0.5 * DotProduct()
        rtol = 1e-5 if dtype is np.float32 else 1e-12
        squares = ((A[:, None] - B[None]) ** 2).sum(axis=2)
        expected = np.exp(-squares / (2 * 0.7**2)) + 0.5 * (1 + A @ B.T)
        assert_allclose(gram(A, B, kernel=kernel), expected, rtol=rtol)
        assert_allclose(gram(A, kernel=kernel), kernel(A), rtol=rtol)


def test_what_a_callable_returns_becomes_a_dense_float_array(features):
    A, B = features
    found = gram(A, B, kernel=lambda A, B: sparse.csr_array(np.ones((len(A), len(B)), dtype=int)))
    assert type(found) is np.ndarray
    assert found.dtype == np.float64
    assert (
        gram(A, B, kernel=lambda A, B: np.ones((len(A), len(B)), dtype=np.float32)).dtype
        == np.float32
    )
    assert_array_equal(gram([[1], [2]], kernel=lambda A, B: (A @ B.T).tolist()), [[1, 2], [2, 4]])


def test_a_callable_of_another_library_comes_back_in_that_of_the_features(features):
    torch = pytest.importorskip("torch", reason="torch is not installed: its arrays are not tested")
    A, B = features
    assert type(gram(A, B, kernel=lambda A, B: torch.as_tensor(A @ B.T))) is np.ndarray
    found = gram(
        torch.as_tensor(A), torch.as_tensor(B), kernel=lambda A, B: A.numpy() @ B.numpy().T
    )
    assert type(found) is torch.Tensor


def test_unknown_names_are_listed(features):
    with pytest.raises(
        KernelError, match=r"Unknown kernel 'tanimito'\. Did you mean 'tanimoto'\? Known are"
    ) as error:
        gram(*features, kernel="tanimito")
    assert all(name in str(error.value) for name in kernel_names())
    with pytest.raises(KernelError) as error:
        gram(*features, kernel="zzz")
    assert "Did you mean" not in str(error.value)


def test_precomputed_is_none_of_our_business(features):
    with pytest.raises(KernelError, match="'precomputed' is a Gram matrix already"):
        gram(*features, kernel="precomputed")


def test_unknown_parameters_are_listed(features):
    with pytest.raises(
        KernelError, match="'poly' takes no parameter 'gama'; it takes degree, gamma, coef0"
    ):
        gram(*features, kernel="poly", kernel_params={"gama": 1})
    with pytest.raises(KernelError, match="'linear' takes no parameter 'gamma'; it takes none"):
        gram(*features, kernel="linear", kernel_params={"gamma": 1})
    with pytest.raises(KernelError, match="params must be a mapping"):
        gram(*features, kernel="rbf", kernel_params=0.5)
    with pytest.raises(
        KernelError, match="gamma of kernel 'rbf' must be a number of at least 0, found -1"
    ):
        gram(*features, kernel="rbf", kernel_params={"gamma": -1})


def test_a_callable_that_cannot_be_called_so_is_refused(features):
    def one_sided(A):
        return A

    def with_power(A, B, power):
        return A @ B.T

    with pytest.raises(KernelError, match=r"one_sided\(A\) cannot be called as kernel\(A, B"):
        gram(*features, kernel=one_sided)
    with pytest.raises(KernelError, match=r"with_power.*missing a required argument: 'power'"):
        gram(*features, kernel=with_power)
    with pytest.raises(KernelError, match=r"RBF.*unexpected keyword argument 'gamma'"):
        gram(*features, kernel=RBF(), kernel_params={"gamma": 1})


def test_an_error_inside_a_callable_is_left_alone(features):
    def broken(A, B):
        return len(None)

    with pytest.raises(TypeError, match="NoneType"):
        gram(*features, kernel=broken)


def test_a_callable_of_the_wrong_shape_is_refused(features):
    with pytest.raises(KernelError, match=r"expected shape \(7, 4\), found \(4, 7\)"):
        gram(*features, kernel=lambda A, B: B @ A.T)
    with pytest.raises(KernelError, match=r"expected shape \(7, 7\), found \(7,\)"):
        gram(features[0], kernel=lambda A, B: (A * B).sum(axis=1))


def test_a_callable_must_return_real_numbers(features):
    with pytest.raises(KernelError, match="real numbers, found dtype complex128"):
        gram(*features, kernel=lambda A, B: 1j * (A @ B.T))


def test_kernels_are_names_or_callables(features):
    with pytest.raises(KernelError, match="or a callable, found int"):
        gram(*features, kernel=3)


def test_no_rows_are_refused(features):
    for kernel in ("linear", lambda A, B: A @ B.T):
        with pytest.raises(ValueError, match="0"):
            gram(features[0], np.ones((0, 5)), kernel=kernel)


def test_a_result_that_is_not_finite_is_refused(features, library):
    A = library.asarray(np.array([[1e15], [-1e15]]))
    with pytest.raises(ValueError, match="'poly' gave NaN or infinity"):
        gram(A, kernel="poly", kernel_params={"degree": 40, "gamma": 1})
    with pytest.raises(ValueError, match="'poly' gave NaN or infinity"):
        gram(A, kernel="poly", kernel_params={"degree": 1.5})
    with pytest.raises(ValueError, match="<lambda> gave NaN or infinity"):
        gram(A, kernel=lambda A, B: A @ B.T + float("nan"))


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
    A = np.random.default_rng(3).random((40, 5))
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


def test_the_diagonal_of_sparse_features_and_of_lists(each):
    A = np.random.default_rng(4).random((20, 6)) * (np.random.default_rng(5).random((20, 6)) < 0.4)
    for kernel in each(["linear", "rbf", "tanimoto", "poly", "cosine", Sum(("linear", "rbf"))]):
        expected = np.diag(gram(A, kernel=kernel))
        for given in (sparse.csr_array(A), sparse.coo_array(A), A.tolist()):
            assert_allclose(gram_diagonal(given, kernel=kernel), expected, rtol=1e-12, atol=1e-12)


def test_the_diagonal_refuses_what_the_kernel_refuses(each):
    A = np.ones((3, 2))
    for kernel, params, message in each(
        [
            ("rbf", {"gamma": -1.0}, "gamma of kernel 'rbf' must be a number"),
            ("rbf", {"width": 1.0}, "takes no parameter 'width'"),
            ("precomputed", {}, "cannot be computed from features"),
            (lambda A, B: np.ones((1, 1)), {}, "must return one row per row of A"),
        ]
    ):
        with pytest.raises(KernelError, match=message):
            gram_diagonal(A, kernel=kernel, kernel_params=params)
    with pytest.raises(ValueError, match="gave NaN or infinity"):
        gram_diagonal(np.full((20, 2), 1e200))


def test_a_diagonal_without_a_shortcut_takes_small_blocks():
    asked = []

    def kernel(A, B):
        asked.append((len(A), len(B)))
        return A @ B.T

    A = np.random.default_rng(6).random((100, 3))
    assert_allclose(gram_diagonal(A, kernel=kernel), (A**2).sum(axis=1), rtol=1e-12)
    assert sum(a * b for a, b in asked) < 20 * len(A)

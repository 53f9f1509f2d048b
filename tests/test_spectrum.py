"""One side's spectrum and its operators, against dense twins."""

import dataclasses

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import decomposing
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.spectrum import Spectrum
from sweeps import covering, every, over

FILTERS = [Tikhonov(), SpectralCutoff(), IteratedTikhonov(3), Landweber(), Landweber(4)]


def whole_features(n_rows, n_columns, seed=0):
    """Return features (n_rows, n_columns) of small whole numbers, so that their Gram matrix is exact."""
    return default_rng(seed).integers(-3, 4, size=(n_rows, n_columns)).astype(float)


def full_rank():
    features = whole_features(6, 9)
    return Spectrum.from_gram(features @ features.T), features @ features.T


def singular():
    features = whole_features(7, 3)
    return Spectrum.from_gram(features @ features.T), features @ features.T


def primal():
    features = whole_features(8, 3)
    return Spectrum.from_features(features), features @ features.T


def primal_low_rank():
    features = whole_features(8, 2) @ np.array([[1.0, 0.0, 1.0, 2.0], [0.0, 1.0, 1.0, -1.0]])
    return Spectrum.from_features(features), features @ features.T


def primal_sparse():
    features = whole_features(8, 3)
    return Spectrum.from_features(sparse.csr_array(features)), features @ features.T


def primal_sparse_low_rank():
    features = np.column_stack([whole_features(8, 2), np.zeros(8)])
    return Spectrum.from_features(sparse.csr_matrix(features)), features @ features.T


SPECTRA = [full_rank, singular, primal, primal_low_rank, primal_sparse, primal_sparse_low_rank]
spectra = {"make": SPECTRA}


def shrink_scalar(filter, sigma, alpha, largest):
    """Return f(σ) for one eigenvalue, from the definition."""
    if isinstance(filter, Tikhonov):
        return sigma / (sigma + alpha)
    if isinstance(filter, SpectralCutoff):
        return float(sigma >= alpha)
    if isinstance(filter, IteratedTikhonov):
        return 1 - (alpha / (sigma + alpha)) ** filter.n_iter
    steps = filter.n_iter or int(np.ceil(largest / alpha))
    return 1 - (1 - min(sigma / largest, 1.0)) ** steps


def dense_hat(K, filter, alpha):
    """Return H from all eigenvectors of K, direction by direction."""
    values, vectors = np.linalg.eigh(K)
    values[values < 1e-10] = 0.0
    return sum(
        shrink_scalar(filter, sigma, alpha, values.max()) * np.outer(direction, direction)
        for sigma, direction in zip(values, vectors.T, strict=True)
    )


@over(every(**spectra))
def test_the_kernel_is_put_together_again(make):
    spectrum, K = make()
    n, k = spectrum.vectors.shape
    rank = np.linalg.matrix_rank(K)
    assert n == spectrum.n_rows == len(K)
    assert spectrum.values.shape == (k,)
    assert (spectrum.values >= 0).all()
    assert np.count_nonzero(spectrum.values) == rank
    assert spectrum.is_singular == (rank < n)
    assert spectrum.is_truncated == (make not in (full_rank, singular))
    assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(k), atol=1e-12)
    assert_allclose((spectrum.vectors * spectrum.values) @ spectrum.vectors.T, K, atol=1e-11)


@over(every(constant=[None, "free", "feature"], size=[1e4, 1e6]))
def test_combinations_of_large_sparse_features_keep_their_digits(constant, size):
    """Four large features in turned coordinates, and three combinations of spread 1, which their Gram matrix loses."""
    rng = default_rng(0)
    turn = np.linalg.qr(rng.normal(size=(7, 7)))[0]
    features = (rng.normal(size=(30, 7)) * np.repeat([size, 1.0], [4, 3])) @ turn
    features[:9] = 0.0
    Y = rng.normal(size=(30, 2))
    alpha = 1e-2
    found = Spectrum.from_features(sparse.csr_array(features), constant=constant)
    dense = Spectrum.from_features(features, constant=constant)
    assert_allclose(np.sort(found.values), np.sort(dense.values), atol=1e-12)
    coefficients, expected = (
        each.smoother(Tikhonov(), alpha).coefficients(Y) for each in (found, dense)
    )
    if constant == "free":  # the rows of dense features are centred
        expected[-1] -= features.mean(axis=0) @ expected[:-1]
    assert_allclose(coefficients, expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert found.rounding(alpha) <= 10 * dense.rounding(alpha)


@over(every(constant=[None, "free"]))
def test_dependent_sparse_features_need_no_more_than_their_gram_matrix(constant):
    """Categories, whose columns sum to one, and columns that are equal: the features show that nothing is hidden."""
    rng = default_rng(0)
    categories = [np.eye(4)[rng.integers(0, 4, 50)] for _ in range(3)]
    features = np.hstack([*categories, categories[0][:, :2] * [1e5, 3e-4]])
    assert Spectrum.from_features(sparse.csr_array(features), constant=constant).noise == 0.0
    features[0, 0] += 1e-7
    found = Spectrum.from_features(sparse.csr_array(features), constant=constant)
    dense = Spectrum.from_features(features, constant=constant)
    assert found.noise > 0.0
    assert_allclose(np.sort(found.values)[-10:], np.sort(dense.values)[-10:], rtol=1e-6)


def test_combinations_that_a_large_gram_matrix_hides_are_reported(monkeypatch):
    """Sparse features of very many rows have their Gram matrix only."""
    features = default_rng(0).normal(size=(30, 3))
    features[:, 2] = 1e6 * features[:, 0] + 1e-3 * features[:, 2]
    features[:, 0] *= 1e6
    assert Spectrum.from_features(sparse.csr_array(features)).rounding(1e-6) < 1e-3
    monkeypatch.setattr(decomposing, "_MOST_WORK", 0.0)
    found = Spectrum.from_features(sparse.csr_array(np.vstack([features] * 9)))
    assert found.values.size == 2
    assert found.rounding(1e-6) == np.inf
    assert found.rounding(1e6) < 1e-3


def test_small_eigenvalues_of_a_kernel_are_dropped_beside_a_small_ridge_only():
    """Those that fall smoothly into the noise count beside a larger ridge; below a gap they are null space."""
    eps = np.finfo(np.float64).eps
    n = 100
    diagonal = np.ones(n)
    diagonal[:3] = [7.9 * eps, 0.5 * n * eps, 1.5 * n * eps]
    whole = Spectrum.from_gram(np.diag(diagonal))
    assert_allclose(whole.noise, n * eps, rtol=1e-9)
    assert np.count_nonzero(whole.values) == n
    above = whole.resolved(1.01 * n * eps)
    below = whole.resolved(0.99 * n * eps)
    assert above is whole
    assert np.count_nonzero(below.values) == n - 2
    assert below.resolved(1.0) is whole
    for ridge, dropped in ((0.0, 2), (0.5 * n * eps, 2), (2 * n * eps, 0)):
        side = below.smoother(Tikhonov(), ridge)
        assert np.count_nonzero(side.phi == 0) == dropped
        assert_allclose(
            side.at(1.0).phi[side.phi > 0], 1 / (1 + side.spectrum.values[side.phi > 0]), rtol=1e-14
        )
    for third, dropped in ((0.9e-8, 0), (1.1e-8, 2)):
        diagonal[2] = third
        assert np.count_nonzero(Spectrum.from_gram(np.diag(diagonal)).values) == n - dropped


def exact_roots(features):
    """Return singular values, the largest first, computed with sixty digits."""
    with mpmath.workdps(60):
        exact = mpmath.matrix(features.tolist())
        values = mpmath.eigsy(exact.T * exact, eigvals_only=True)
        return np.sort([float(mpmath.sqrt(abs(value))) for value in values])[::-1]


def centred(features):
    """Return the features without their means, in numbers of sixty digits."""
    with mpmath.workdps(60):
        exact = np.vectorize(mpmath.mpf, otypes=[object])(features)
        return exact - exact.sum(axis=0) / len(exact)


SPREADS = {
    "large first": [1e8, 1.0, 1.0],
    "large last": [1.0, 1.0, 1e8],
    "graded": [1e7, 1.0, 1e-6],
    "alike": [1.0] * 3,
}


@over(
    covering(
        spread=SPREADS, turned=[False, True], tall=[True, False], constant=[None, "free", "feature"]
    )
)
def test_singular_values_of_features_keep_their_digits(spread, turned, tall, constant):
    """Squares of small singular values are lost in a Gram matrix; references are in extended precision."""
    rng = default_rng(1)
    n, d = (60, 3) if tall else (3, 60)
    features = rng.normal(size=(n, d))
    features *= np.asarray(spread) if tall else np.asarray(spread)[:, None]
    if turned:
        turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        features = features @ turn if tall else turn @ features
    found = Spectrum.from_features(features, constant=constant)
    wide = centred(features) if constant == "free" else features.astype(object)
    wide = np.column_stack([wide, np.ones(n)]) if constant == "feature" else wide
    roots = exact_roots(wide if tall else wide.T)
    own = np.sort(found.penalised**0.5)[::-1]
    resolved = roots > 1e-13 * roots[0]
    assert len(own) >= resolved.sum()
    assert_allclose(own[: resolved.sum()], roots[resolved], rtol=1e-12, atol=4e-15 * roots[0])
    assert_allclose(found.vectors.T @ found.vectors, np.eye(found.values.size), atol=1e-11)
    again = (found.vectors * found._roots) @ found.components.T
    assert_allclose(again[:, :d], wide.astype(float)[:, :d], atol=1e-13 * abs(features).max())


def test_directions_that_no_arithmetic_resolves_are_null_space():
    """A column is known to ε of its length, and a combination of columns to as much of theirs."""
    eps = np.finfo(np.float64).eps
    n = 400
    large, other = default_rng(0).normal(size=(2, n))
    tiny = 1e-14 * other
    graded = Spectrum.from_features(np.column_stack([large, tiny]))
    assert np.count_nonzero(graded.values) == 2  # small beside nothing but another feature
    assert_allclose(
        np.sqrt(graded.values), [np.linalg.norm(large), np.linalg.norm(tiny)], rtol=1e-2
    )
    hidden = Spectrum.from_features(
        np.column_stack([large, large + tiny])
    )  # as large as what rounding does to a column
    assert np.count_nonzero(hidden.values) == 1
    assert 0 < hidden.noise < (1e4 * eps) ** 2 * hidden.size
    assert hidden.rounding(0.5 * hidden.noise) == np.inf
    assert hidden.rounding(2 * hidden.noise) < np.inf


def test_rounding_is_told_where_it_matters():
    """How wrong 1/(σ + λ) may be, in the dual and with features, which know small eigenvalues much better."""
    values = np.diag([1e6, 1.0, 0.5])
    eps = np.finfo(np.float64).eps
    assert_allclose(Spectrum.from_gram(values).rounding(0.5), eps * 1e6, rtol=1e-6)
    assert_allclose(Spectrum.from_features(values**0.5).rounding(0.5), 8 * eps * 1e3, rtol=1e-6)
    singular = Spectrum.from_gram(np.diag([1e6, 1.0, 0.0]))
    assert singular.rounding(0.5 * singular.noise) == np.inf
    assert_allclose(singular.rounding(1e-3), eps * 1e6 / 1.001, rtol=1e-6)


@over(every(**spectra, block={"whole": 1000, "in blocks": 2}))
def test_matrix_and_its_diagonal(monkeypatch, make, block):
    spectrum, K = make()
    monkeypatch.setattr("dyadlearn._array.BLOCK", block * len(spectrum.values))
    U = spectrum.vectors
    n = len(K)
    several = default_rng(3).normal(size=(len(spectrum.values), 3))
    matrices = [U @ np.diag(weights) @ U.T for weights in several.T]
    assert_allclose(spectrum.matrix(several[:, 0]), matrices[0], atol=1e-13)
    expected = np.column_stack([np.diag(matrix) for matrix in matrices])
    assert_allclose(spectrum.diagonal(several), expected, atol=1e-13)
    assert_allclose(spectrum.diagonal(several[:, 0]), expected[:, 0], atol=1e-13)
    # Laid out in memory as the transpose of an ordinary matrix, the weights give the same.
    assert_allclose(spectrum.diagonal(np.asfortranarray(several)), expected, atol=1e-13)
    assert_allclose(spectrum.outside, np.diag(np.eye(n) - U @ U.T), atol=1e-13)


@over(every(container=[np.asarray, sparse.csr_array]))
def test_features_of_zeros_have_an_empty_spectrum(container):
    spectrum = Spectrum.from_features(container(np.zeros((4, 2))))
    assert spectrum.vectors.shape == (4, 0)
    assert spectrum.is_truncated
    assert spectrum.smoother(Tikhonov(), 0.5).null_phi == 2.0
    assert_array_equal(spectrum.smoother(Tikhonov(), 0.5).residual(), np.eye(4))


@over(
    covering(
        **spectra,
        filter=FILTERS,
        alpha=[1e-3, 1.0, 30.0, 1e4],
        n_labels={"few labels": 2, "many labels": 20},
    )
)
def test_a_smoother_against_its_dense_twin(make, filter, alpha, n_labels):
    """Many columns of labels are multiplied with the matrix itself, few with its factors."""
    spectrum, K = make()
    side = spectrum.smoother(filter, alpha)
    Y = default_rng(6).normal(size=(len(K), n_labels))
    before = Y.copy()
    H = dense_hat(K, filter, alpha)
    others = H - np.diag(np.diag(H))
    assert_allclose(side.hat(), H, atol=1e-11)
    assert_allclose(side.leverage, np.diag(H), atol=1e-11)
    assert_allclose(side.residual(), np.eye(len(K)) - H, atol=1e-11)
    assert_allclose(side.slack, 1 - np.diag(H), atol=1e-11)
    assert_allclose(side.off_diagonal(), others, atol=1e-11)
    assert_allclose(side.smooth(Y), H @ Y, atol=1e-11)
    smoothed, without_own = side.smooth_others(Y)
    assert_allclose(smoothed, H @ Y, atol=1e-11)
    assert_allclose(without_own, others @ Y, atol=1e-11)
    assert_array_equal(Y, before)


def test_leave_one_out_needs_slack():
    """Rows that a model fits whatever their label are named, not divided by zero."""
    features = np.zeros((5, 2))
    features[:4, 0], features[4, 1] = [1.0, 2.0, 0.0, 1.0], 3.0  # only row 4 has the second feature
    for spectrum in (Spectrum.from_features(features), Spectrum.from_gram(features @ features.T)):
        with pytest.raises(LeverageError, match=r"1 of 5 rows have leverage 1 \(positions 4\)"):
            spectrum.smoother(Tikhonov(), 0.0).leave_one_out(np.ones((5, 1)))
        spectrum.smoother(Tikhonov(), 1e-3).leave_one_out(np.ones((5, 1)))
    with pytest.raises(LeverageError, match="6 of 6 rows have leverage 1"):
        full_rank()[0].smoother(SpectralCutoff(), 1e-10).leave_one_out(np.ones((6, 1)))


def _has_form(level, form, **_):
    """Return whether a constant feature exists: one of zero exists in the dual alone."""
    return level > 0 or form is FORMS["kernel"]


FORMS = {
    "kernel": lambda rows, level: Spectrum.from_gram(
        rows @ rows.T, constant="feature", level=level
    ),
    "features": lambda rows, level: Spectrum.from_features(rows, constant="feature", level=level),
    "sparse": lambda rows, level: Spectrum.from_features(
        sparse.csr_array(rows), constant="feature", level=level
    ),
}


@over(covering(level=[0.3, 4.0, 0.0], form=FORMS, other=[0.5, 2.0], where=_has_form))
def test_constant_features_of_any_size(level, form, other):
    """Of the whole kernel, of a part of it, and with another constant."""
    rows = whole_features(8, 3)
    new = whole_features(2, 3, seed=1)
    kernel = rows @ rows.T
    found = form(rows, level)
    assert_allclose(found.matrix(found.values), kernel + level, rtol=0, atol=1e-12)
    block = new if found.components is not None else new @ rows.T
    block = np.column_stack([block, np.full(2, found.last_entry)])
    assert_allclose(found.expand(found.project(block)), new @ rows.T + level, rtol=0, atol=1e-12)
    assert_allclose(
        block @ found.lift(found.rotate(kernel)),
        found.project(block) @ found.rotate(kernel),
        rtol=1e-10,
    )
    some = np.array([1, 4, 5])
    part = found.part(some)
    assert_allclose(
        part.matrix(part.values), kernel[np.ix_(some, some)] + level, rtol=0, atol=1e-12
    )
    assert part.level == level
    moved = found.at_level(other)
    assert_allclose(moved.matrix(moved.values), kernel + other, rtol=0, atol=1e-12)
    assert (moved.constant, moved.level) == ("feature", other)


def assert_keeps_digits(features, rtol):
    """Assert that centred features have singular values of so many digits."""
    found = Spectrum.from_features(features, constant="free")
    roots = np.sort(found.penalised**0.5)[::-1]
    assert_allclose(roots, exact_roots(centred(features)), rtol=rtol)


def test_centring_keeps_the_digits_of_small_differences():
    """A mean and a shift are subtracted one after the other: their sum would be rounded to a part of the offset."""
    rng = default_rng(5)
    first = rng.normal(size=30)
    features = np.column_stack([first, first + 1e-8 * rng.normal(size=30)]) + 3e6
    assert_keeps_digits(features, 1e-5)


@over(every(scales=[[1e-8, 1.0, 1e8], [1.0, 1e8, 1e-8]]))
def test_small_columns_keep_their_digits_wherever_they_stand(scales):
    features = default_rng(6).normal(size=(20, 3)) * scales
    assert_keeps_digits(features, 1e-12)


def test_a_kernel_of_which_centring_leaves_rounding_is_zero():
    assert not Spectrum.from_gram(np.full((7, 7), 0.1), constant="free").values.any()


def test_a_copy_keeps_its_identity():
    K = np.array([[2.0, 1.0], [1.0, 2.0]])
    shifted = Spectrum.from_gram(K).with_identity(0.5)
    assert_allclose(np.sort(shifted.values), np.linalg.eigvalsh(K + 0.5 * np.eye(2)))
    assert dataclasses.replace(shifted, noise=0.0).identity == shifted.identity == 0.5


@over(every(constant=[None, "free", "feature"], alpha=[1e-3, 1.0, 1e12]))
def test_the_rounding_of_sparse_features_is_the_variance_inflation(constant, alpha):
    X = default_rng(0).normal(size=(9, 3)) * [1e8, 1.0, 1e-3]
    X[:, 1] = 1e-8 * X[:, 0] + 1e-4 * X[:, 1]
    spectrum = Spectrum.from_features(sparse.csr_array(X), constant=constant)
    if constant == "free":
        rows = X - X.mean(axis=0)
    else:
        rows = np.column_stack([X, np.ones(9)][: 1 + bool(constant)])
    scale = np.linalg.norm(rows, axis=0)
    unit = (rows / scale).T @ (rows / scale)
    inflation = np.diagonal(np.linalg.inv(unit + np.diag(alpha / scale**2)))
    assert_allclose(spectrum.rounding(alpha), np.finfo(float).eps * inflation.max(), rtol=1e-5)


def test_rounding_of_dependent_features_counts_beside_a_small_ridge():
    """A direction that the features do not have appears as rounding of the largest one."""
    rng = default_rng(0)
    rows = 1e8 * rng.normal(size=(6, 1))
    dependent = Spectrum.from_features(np.hstack([rows + 6.5e8, rows - 4.6e8]), constant="feature")
    assert dependent.values.size == 2
    assert dependent.rounding(1e-10) > 1e-2
    assert dependent.rounding(1.0) < 1e-5
    assert Spectrum.from_features(1e9 * rng.normal(size=(6, 2))).rounding(1e-10) < 1e-13

"""The closed forms of the models, against references in extended precision."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import fifty_digits
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.pairing import Independent, Kronecker, TwoStep
from dyadlearn.spectrum import Spectrum
from references import reference
from sweeps import covering, over

# Instances × tasks: tall, wide, square, and the smallest there is.
SHAPES = [(7, 4), (3, 8), (5, 5), (1, 1)]
ALPHAS = [0.0, 1e-10, 1.0, 1e10]
TASK_ALPHAS = [0.0, 1e-10, 0.5, 1e10]
METHODS = ["independent", "two_step", "kronecker"]
RIDGE = Tikhonov()


def keeps_digits(rank, alpha, task_alpha=1.0, **_):
    """Return whether the reference has enough digits: it inverts K + λI."""
    return rank == "full" or 1e-10 not in (alpha, task_alpha)


def make_side(n_rows, rank, seed):
    """Return features of small whole numbers, so that kernels are exact in both precisions, and new rows."""
    rng = default_rng(seed)
    if rank == "full":
        # A multiple of the identity among the features bounds the condition of the kernel.
        features = np.column_stack([rng.integers(-1, 2, size=(n_rows, 4)), 2 * np.eye(n_rows)])
    else:
        size = max(1, n_rows // 2)
        others = rng.integers(-1, 2, size=(n_rows - size, size))
        features = np.vstack([np.eye(size), others])
    new = rng.integers(-2, 3, size=(3, features.shape[1]))
    return features.astype(float), new.astype(float)


def spectrum_of(features, form, dtype):
    """Return the spectrum of a kernel, or of features, which are dense or sparse."""
    if form == "gram":
        return Spectrum.from_gram((features @ features.T).astype(dtype))
    features = features.astype(dtype)
    return Spectrum.from_features(sparse.csr_array(features) if form == "sparse" else features)


def pairing_of(method, spectra, alphas, filters=(RIDGE, RIDGE)):
    if method == "kronecker":
        return Kronecker(*spectra, alphas[0])
    sides = zip(spectra, filters, alphas, strict=True)
    smoothers = [spectrum.smoother(filter, alpha) for spectrum, filter, alpha in sides]
    return Independent(smoothers[0]) if method == "independent" else TwoStep(*smoothers)


def predicted(model, Y, *rows):
    """Return predictions for kernel or feature rows of each side from the coefficients of a model."""
    found = model.coefficients(Y)
    expansion = model.expansion(found)
    parts = [part for part in (expansion.instances, expansion.tasks) if part is not None]
    for part, block in zip(parts, rows, strict=False):
        found = (part.rows(block) @ found).T
    return found if len(parts) == 2 else found.T


def dual_of(model):
    """Return the dual coefficients of a reference with complete labels."""
    if model.kind == "kronecker":
        kernel = np.kron(model.rows.K, model.columns.K)
        side = type(model.rows)(kernel, "tikhonov", model.rows.alpha)
        return (side.phi @ model.Y.ravel()).reshape(model.Y.shape)
    half = model.rows.phi @ model.Y
    return half if model.columns is None else half @ model.columns.phi


def close(found, expected):
    """Compare up to rounding of the largest entry."""
    assert found.dtype == np.float64
    atol = 1e-10 * max(1e-300, np.abs(expected).max())
    assert_allclose(found, expected.astype(float), rtol=0, atol=atol)


def check(method, shape, rank, alphas, filters=(RIDGE, RIDGE), forms=("gram", "gram"), dtype="f8"):
    """Compare predictions for known and new rows and tasks, and dual coefficients, with the reference."""
    (X, X_new), (T, T_new) = (
        make_side(n, rank, seed) for n, seed in zip(shape, (1, 2), strict=True)
    )
    Y = default_rng(shape[0]).integers(-4, 5, size=shape).astype(float)
    labels = Y.astype(dtype)
    spectra = [spectrum_of(side, form, dtype) for side, form in zip((X, T), forms, strict=True)]
    model = pairing_of(method, spectra, alphas, filters)
    exact = reference(method, (X @ X.T, T @ T.T), alphas, Y, filters=filters)
    for rows in (X, X_new):
        for task_rows in (T, T_new):
            kernels = rows @ X.T, task_rows @ T.T
            asked = [
                (kernel if form == "gram" else features).astype(dtype)
                for kernel, features, form in zip(kernels, (rows, task_rows), forms, strict=True)
            ]
            close(predicted(model, labels, *asked), exact.predict(*kernels))
    close(model.dual(labels), dual_of(exact))
    assert_array_equal(labels, Y)


@over(
    covering(
        method=METHODS,
        shape=SHAPES,
        rank=["full", "singular"],
        alpha=ALPHAS,
        task_alpha=TASK_ALPHAS,
        forms=[
            ("gram", "gram"),
            ("features", "features"),
            ("sparse", "sparse"),
            ("features", "gram"),
            ("gram", "sparse"),
        ],
        dtype=["float64", "float32"],
        where=keeps_digits,
    )
)
def test_ridge_regression(method, shape, rank, alpha, task_alpha, forms, dtype):
    check(method, shape, rank, (alpha, task_alpha), forms=forms, dtype=dtype)


@over(
    covering(
        method=METHODS,
        shape=SHAPES[:2],
        alphas=[(1e-10, 0.5), (0.5, 1e-10), (1e-10, 1e10)],
        form=["gram", "features"],
        dtype=["float64", "float32"],
    )
)
def test_a_tiny_ridge_on_singular_kernels(method, shape, alphas, form, dtype):
    """The reference would lose digits here, so that these predictions have fifty of them."""
    sides = [make_side(n, "singular", seed) for n, seed in zip(shape, (1, 2), strict=True)]
    (X, X_new), (T, T_new) = sides
    Y = default_rng(shape[0]).integers(-4, 5, size=shape).astype(float)
    model = pairing_of(method, [spectrum_of(side, form, dtype) for side in (X, T)], alphas)
    asked = [new @ own.T if form == "gram" else new for own, new in sides]
    given = X, T, Y, np.ones(shape)
    if method == "independent":
        expected = fifty_digits.independent(X, Y, np.ones(shape), alphas[0], X_new, False)
    elif method == "two_step":
        expected = fifty_digits.two_step(*given, alphas, (X_new, T_new), False)
    else:
        expected = fifty_digits.pair_kernel(*given, alphas[0], (X_new, T_new), False)
    labels = Y.astype(dtype)
    close(predicted(model, labels, *(rows.astype(dtype) for rows in asked)), expected)
    if method == "kronecker":
        fitted = fifty_digits.pair_kernel(*given, alphas[0], (X, T), False)
        dual = (Y - fitted) / alphas[0]
    else:
        dual = residuals(X, Y, alphas[0]) / alphas[0]
    if method == "two_step":
        dual = residuals(T, dual.T, alphas[1]).T / alphas[1]
    close(model.dual(labels), dual)


def residuals(X, Y, alpha):
    """Return what ridge regression leaves of labels; of a singular kernel it is not small."""
    return Y - fifty_digits.independent(X, Y, np.ones(Y.shape), alpha, X, False)


FILTERS = [Tikhonov(), SpectralCutoff(), IteratedTikhonov(3), Landweber(), Landweber(5)]


@over(
    covering(
        shape=SHAPES,
        rank=["full", "singular"],
        filter=FILTERS,
        task_filter=FILTERS,
        method=METHODS[:2],
    )
)
def test_any_mixture_of_filters(method, shape, rank, filter, task_filter):
    check(method, shape, rank, (0.9, 0.6), (filter, task_filter))


# --- estimators -------------------------------------------------------------------------------------------

"""Spectra of tall features by their Gram matrix against those by singular values, and against the kernel."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn._centre import centred, means_of, with_ones
from dyadlearn.observed import sides as module
from dyadlearn.observed.sides import tall_spectrum
from dyadlearn.spectrum import Spectrum
from problems import close
from sweeps import every, over

RNG = np.random.default_rng(0)
TALL = RNG.normal(size=(40, 5))

FEATURES = {
    "tall": TALL,
    "one column": TALL[:, :1],
    "as many rows": TALL[:5],
    "fewer rows": TALL[:3],
    "one row": TALL[:1],
    "rank 2": TALL[:, :2] @ RNG.normal(size=(2, 5)),
    "a column twice": TALL[:, [0, 1, 1]],
    "rows twice": np.repeat(TALL[:7], 6, axis=0),
    "constant": np.c_[TALL[:, :2], np.full(40, 3.0)],
    "constant, large": np.c_[TALL[:, :2], np.full(40, 1e10 / 3.0)],
    "constant, tall": np.c_[np.repeat(TALL[:, :2], 25, axis=0), np.full(1000, 1e9 / 3.0)],
    "far from zero": TALL + 1e4,
    "graded": TALL * np.array([1e2, 1.0, 1e-3, 1e-2, 10.0]),
    "nothing": np.zeros((9, 2)),
}


def kernel_of(features, constant):
    """Return the kernel that a side has, and its rank: with ones beside the features, or with these centred."""
    if constant == "free":
        features = centred(features - features[0])[0]  # a column of the same number is zero then
    features = with_ones(features) if constant == "feature" else features
    return features @ features.T, np.linalg.matrix_rank(features, rtol=1e-6) if features.any() else 0


@over(every(features=FEATURES, constant=[None, "free", "feature"], blocks=[True, False]))
def test_the_kernel_is_that_of_the_features(monkeypatch, features, constant, blocks):
    if blocks:
        monkeypatch.setattr(module, "row_blocks", lambda n, _: [slice(i, min(i + 7, n)) for i in range(0, n, 7)])
    found, (kernel, rank), n = tall_spectrum(features, constant=constant), kernel_of(features, constant), len(features)
    assert found._fits()
    assert (found.n_rows, found.constant) == (n, constant)
    close(found.matrix(found.values), kernel, 1e-9)
    # Beside a free constant, whose direction comes last with a value of zero.
    free = constant == "free"
    assert found.values.shape == (rank + free,)
    assert (found.values[: rank or None] > 0).all() or rank == 0
    if free:
        assert found.values[-1] == 0.0
        assert_allclose(found.vectors[:, -1], n**-0.5, rtol=1e-15)
    # Directions of small eigenvalues lose as many digits of a right angle as these are smaller, or as means are large.
    spread = found.values[0:rank].max() / found.values[0:rank].min() if rank else 1.0
    lost = 1e-15 * (spread + np.abs(features).max())
    close(found.vectors.T @ found.vectors, np.eye(rank + free), 1e-13 + lost)
    # Rows of features are turned into directions as they are by singular values.
    rows = with_ones(centred(features)[0] if free else features) if constant else features
    close(found.project(rows), found.vectors * found._roots**2, 1e-9)


@over(every(constant=[None, "free", "feature"]))
def test_eigenvalues_are_those_of_singular_values(constant):
    for features in (TALL, FEATURES["rank 2"]):
        found, expected = (made(features, constant=constant) for made in (tall_spectrum, Spectrum.from_features))
        assert_allclose(np.sort(found.values), np.sort(expected.values), rtol=1e-10)


def test_rounding_is_no_direction():
    # One row in a hundred columns: an eigenvalue of the Gram matrix that is rounding would be divided by.
    for seed in range(5):
        found = tall_spectrum(np.random.default_rng(seed).normal(size=(1, 100)))
        assert found.values.shape == (1,)


def test_means_of_many_rows_keep_their_digits():
    # A sum of these rows one after the other is off by more than a hundred roundings.
    rows = np.stack([np.full(20000, 1e6 / 3.0), np.linspace(0.0, 1.0, 20000)], axis=1).astype(np.float32)
    expected = rows.astype(float).mean(axis=0)
    assert_allclose(means_of(rows), expected, rtol=1e-7)
    assert np.abs(rows.mean(axis=0) / expected - 1.0).max() > 1e-6
    spectrum = tall_spectrum(rows, constant="free")
    assert spectrum.values.shape == (2,)  # the constant column is none beside a constant
    assert_allclose(spectrum.vectors.T @ spectrum.vectors, np.eye(2), atol=1e-4)


def test_sparse_features_are_kept_as_they_are():
    given = sparse.csr_array(np.where(TALL > 0, TALL, 0.0))
    for constant in (None, "free", "feature"):
        found = tall_spectrum(given, constant=constant)
        close(found.matrix(found.values), kernel_of(given.toarray(), constant)[0], 1e-10)
        assert sparse.issparse(found._features)


def test_the_precision_is_that_of_the_features(library):
    for constant in (None, "free", "feature"):
        found = tall_spectrum(library.asarray(TALL), constant=constant)
        assert type(found.vectors) is type(library.asarray(TALL))
        assert found.values.dtype == found.vectors.dtype == library.asarray(TALL).dtype
        close(library.to_numpy(found.matrix(found.values)), kernel_of(TALL, constant)[0], 10 * library.rtol)


def test_features_out_of_range_are_refused():
    for size, dtype, how in ((1e200, "float64", "large"), (1e-200, "float64", "small"), (1e25, "float32", "large")):
        with pytest.raises(ValueError, match=f"^The instance features are so {how} .* the range of {dtype}: scale"):
            tall_spectrum((TALL * size).astype(dtype), name="The instance features")


def test_features_are_not_changed():
    given = TALL.copy()
    for constant in (None, "free", "feature"):
        tall_spectrum(given, constant=constant)
    assert_array_equal(given, TALL)

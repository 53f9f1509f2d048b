"""The supervised projection, against the singular value decomposition it stands for."""

import importlib
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn._array import slices
from sweeps import covering, lines, over

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(EXPERIMENTS))
    room = importlib.import_module("canonical_projection")
CanonicalProjection = room.CanonicalProjection


def counts(q=8):
    """Return term counts that depend on a label, and one label for each row."""
    rng = default_rng(0)
    label = rng.choice(q, size=60, p=np.arange(1, q + 1) / np.sum(np.arange(1, q + 1)))
    X = rng.poisson(0.2 + 2.0 * (rng.random((q, 40)) < 0.1)[label]).astype(float)
    return X, np.eye(q)[label]


def by_definition(X, Y, k):
    """Return V (p, k) and σ (k,) of the covariance between features and standardised labels."""
    centred = Y - Y.mean(axis=0)
    scale = centred.std(axis=0)
    standard = np.divide(centred, scale, out=np.zeros_like(centred), where=scale > 0)
    U, values, _ = np.linalg.svd((X - X.mean(axis=0)).T @ standard, full_matrices=False)
    return U[:, :k], values[:k]


@over(
    covering(
        wrap_X=[np.asarray, sparse.csr_array, sparse.csr_matrix],
        wrap_Y=[np.asarray, sparse.csr_array, sparse.csr_matrix],
        sizes=[[60], [1, 20, 39], [10] * 6],
    )
)
def test_equals_its_definition(wrap_X, wrap_Y, sizes, monkeypatch):
    monkeypatch.setattr(room, "row_blocks", lambda n, *_: slices(n, 7))
    X, Y = counts()
    found = CanonicalProjection(4, random_state=0)
    for rows in np.split(np.arange(60), np.cumsum(sizes)[:-1]):
        found.partial_fit(wrap_X(X[rows]), wrap_Y(Y[rows]))
        assert found.components_.shape[1] == 40  # which are found anew after more rows
    V, values = by_definition(X, Y, 4)
    assert_allclose(found.singular_values_, values, rtol=1e-8)
    assert_allclose(abs(found.components_ @ V), np.eye(4), atol=1e-7)
    features = found.transform(wrap_X(X))
    assert_allclose(features, (X - X.mean(axis=0)) @ found.components_.T, atol=1e-9)


def test_real_labels_and_negative_features():
    rng = default_rng(0)
    X = rng.normal(size=(50, 6)) + 3
    Y = rng.normal(size=(50, 4)) * [1, 10, 100, 0] + 5
    V, values = by_definition(X, Y, 3)
    found = CanonicalProjection(10).fit(X, Y)
    assert_allclose(found.singular_values_, values)  # one label never changes: three are left
    assert_allclose(abs(found.components_ @ V), np.eye(3), atol=1e-6)


def test_a_random_start_finds_the_leading_directions():
    rng = default_rng(0)
    k = 10
    hidden = rng.normal(size=(2000, k)) * np.linspace(3, 1, k)
    X, Y = (hidden @ rng.normal(size=(k, p)) + 0.3 * rng.normal(size=(2000, p)) for p in (150, 80))
    V, values = by_definition(X, Y, k)
    found = CanonicalProjection(k, n_iter=4, random_state=0).fit(X, Y)
    assert_allclose(found.singular_values_, values, rtol=1e-6)
    assert_allclose(np.linalg.svd(found.components_ @ V)[1], np.ones(k), atol=1e-6)
    rough = CanonicalProjection(k, n_iter=0, n_oversamples=0, random_state=0).fit(X, Y)
    assert np.sum(rough.singular_values_**2) < 0.99 * np.sum(values**2)
    again = CanonicalProjection(k, n_iter=4, random_state=0).fit(X, Y)
    assert_array_equal(again.components_, found.components_)


def test_single_precision_stays():
    X, Y = counts()
    found = CanonicalProjection(3, random_state=0).fit(sparse.csr_array(X.astype(np.float32)), Y)
    assert found.components_.dtype == np.float32
    assert found.transform(X.astype(np.float32)).dtype == np.float32
    wanted = CanonicalProjection(3, random_state=0).fit(X, Y)
    assert_allclose(found.components_, wanted.components_, atol=1e-5)
    assert_allclose(found.transform(X), wanted.transform(X), atol=1e-4)


def test_no_dense_matrix_of_terms_and_labels():
    rng = default_rng(0)
    # 160 MB as a dense matrix
    n = 500
    p = 20_000
    q = 1000
    found = CanonicalProjection(3, n_oversamples=2, n_iter=1, random_state=0)
    tracemalloc.start()
    try:
        for _ in range(3):
            X = sparse.random_array((n, p), density=1e-3, rng=rng, format="csr")
            Y = sparse.csr_array(
                (np.ones(n), (np.arange(n), rng.integers(q, size=n))), shape=(n, q)
            )
            found.partial_fit(X, Y)
        assert found.transform(X).shape == (n, 3)
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


@over(
    lines(
        "attempt message",
        (
            lambda m, X, Y: m.partial_fit(X, Y[:, 1:]),
            "y has 7 columns, expected 8 labels as before",
        ),
        (lambda m, X, Y: m.partial_fit(X[:, 1:], Y), "39 features"),
        (lambda m, X, Y: m.fit(X[:, 1:], Y[1:]), "X has 60 rows, but y has 59"),
    )
)
def test_bad_requests(attempt, message):
    X, Y = counts()
    found = CanonicalProjection(3, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        attempt(found, X, Y)


def test_labels_that_say_nothing():
    X, _ = counts()
    assert CanonicalProjection(3).fit(X, np.ones(60)).transform(X).shape == (60, 0)

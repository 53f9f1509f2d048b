"""Decompositions of dense features, two ways, and of Gram matrices, against the definition and 80 digits."""

from functools import cache

import mpmath
import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn import _svd
from dyadlearn._array import cast, namespace
from dyadlearn._svd import Blocks, economy_svd, gram_eigen
from sweeps import covering, lines, over

rng = default_rng(0)
TURN = np.linalg.qr(rng.normal(size=(5, 5)))[0]
PLAIN = rng.normal(size=(200, 5))
SPREAD = PLAIN * [1e8, 1.0, 1e-3, 1e4, 1.0]
TWICE = np.column_stack([SPREAD[:, :4], 2 * SPREAD[:, 0]])
# Features, and the function that is to decompose them.
WAYS = {
    "well conditioned": (PLAIN, "the Gram matrix"),
    "columns of other sizes": (SPREAD, "Householder"),
    "sizes turned into all": (SPREAD @ TURN, "Householder"),
    "a column twice": (TWICE, "Householder"),
    "a column of zeros": (np.column_stack([PLAIN[:, :4], np.zeros(200)]), "Householder"),
    "nothing but zeros": (np.zeros((200, 5)), "Householder"),
    "a single column": (PLAIN[:, :1], "the Gram matrix"),
    "a single row": (PLAIN[:1, :1], "the Gram matrix"),
}


@pytest.fixture
def way(monkeypatch):
    """Return the names of the ways that were gone to their end."""
    gone = []

    def watch(name, label):
        own = getattr(_svd, name)

        def watched(*given):
            found = own(*given)
            if found is not None:
                gone.append(label)
            return found

        monkeypatch.setattr(_svd, name, watched)

    watch("_from_householder", "Householder")
    return gone


@over(covering(case=WAYS, block=[7, 64, 1000], library=["numpy", "array_api_strict", "torch"]))
def test_features_are_decomposed(way, monkeypatch, case, block, library):
    features, expected = case
    n, d = features.shape
    if library != "numpy" and block != 64:
        return
    xp = pytest.importorskip(library)
    given = xp.asarray(features)
    step = max(block, d)
    slices = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    monkeypatch.setattr(Blocks, "slices", property(lambda self: list(slices)))
    way.clear()
    out = xp.asarray(np.zeros((n, d)))
    found = economy_svd(Blocks((n, d), lambda rows: given[rows, :] + 0.0, out), out)
    assert found.left is out
    assert way == ([] if expected == "the Gram matrix" else [expected])
    left, roots, right = (np.asarray(each) for each in (found.left, found.roots, found.right))
    assert_allclose(left.T @ left, np.eye(d), atol=1e-11)
    assert_allclose(right.T @ right, np.eye(d), atol=1e-13)
    assert_allclose((left * roots) @ right.T, features, atol=1e-14 * max(roots[0], 1.0))
    assert_allclose(
        roots,
        np.linalg.svd(features, compute_uv=False),
        rtol=1e-11,
        atol=1e-14 * max(roots[0], 1.0),
    )


def test_blocks_are_long_and_small():
    for n, d in ((10**6, 256), (10**5, 5000), (10, 3), (0, 3), (5, 0)):
        slices = Blocks((n, d), lambda rows: None, np.empty(0)).slices
        assert sum(rows.stop - rows.start for rows in slices) == n
        lengths = [rows.stop - rows.start for rows in slices[:-1]]
        assert all(
            4 * d <= length and 8 * d * length <= max(2**26, 32 * d * d) for length in lengths
        )


# --- Gram matrices, against the features in 80 digits --------------------------------------------


@cache
def decomposed(name):
    """Return the eigenvalues (k,), ascending, of the Gram matrix without its null space, and the left singular vectors.

    With 80 digits nothing of features between 1e-8 and 1e8 is rounding, and what is null is exactly
    collinear.
    """
    with mpmath.workdps(80):
        A = mpmath.matrix(FEATURES[name].tolist())
        values, vectors = mpmath.eigsy(A.T * A)
        kept = [k for k in range(len(values)) if values[k] > 1e-40]
        U = A * vectors
        for k in kept:
            U[:, k] = U[:, k] / mpmath.sqrt(values[k])
        left = np.array(U.tolist(), dtype=np.longdouble)[:, kept]
    return np.array([values[k] for k in kept], dtype=np.longdouble), left


draws = default_rng(0)
Z = draws.normal(size=(40, 6)) + 0.5 * draws.normal(size=(40, 1))
SPREADS = 10.0 ** np.array([-8, -3, 0, 1, 4, 8])

FEATURES = {
    "equal spreads": Z,
    "mixed": Z * SPREADS[[3, 0, 5, 1, 4, 2]],
    "0 and 1 beside a position": np.column_stack([1e8 * Z[:, 0], Z[:, 1] > 0, Z[:, 2]]),
    "largest twice": np.column_stack([Z * SPREADS, 1e8 * Z[:, 5]]),
    "smallest twice": np.column_stack([Z * SPREADS, 1e-8 * Z[:, 0]]),
    "small copies of large ones": np.column_stack(
        [Z[:, :3] * 2.0**20, Z[:, :3] * 2.0**-20, Z[:, 3:]]
    ),
    "a sum of a large and a small one": np.column_stack(
        [2.0**8 * np.round(8 * Z[:, 0]), np.round(8 * Z[:, 1])]
    )
    @ np.array([[1.0, 0, 1], [0, 1, 1]]),
    "fewer rows than features": (Z * SPREADS)[:4],
    "features of zeros": np.column_stack([np.zeros(40), Z * SPREADS, np.zeros(40)]),
}


@over(lines("name", *FEATURES))
def test_equals_a_decomposition_in_80_digits(name, library):
    if library.dtype == "float32":
        return  # Gram matrices are in double precision whatever the features are
    features = FEATURES[name]
    exact, U = decomposed(name)
    gram = library.asarray(features.T @ features)
    values, vectors = gram_eigen(gram, len(features))
    assert type(values) is type(vectors) is type(gram)
    values = library.to_numpy(values)
    vectors = library.to_numpy(vectors)
    assert len(values) == len(exact), "the rank is another one"
    assert_allclose(values, exact.astype(float), rtol=1e-9)
    assert_allclose(vectors.T @ vectors, np.eye(len(exact)), rtol=0, atol=1e-9)
    # Whatever is made of them: fitted values of random labels, under any regularisation.
    labels = default_rng(1).normal(size=(len(features), 1))
    for alpha in (0.0, 1e-12, 1e-3, 1.0, 1e6):
        wanted = U @ ((exact / (exact + alpha))[:, None] * (U.T @ labels))
        found = features @ (
            vectors @ ((vectors.T @ (features.T @ labels)) / (values + alpha)[:, None])
        )
        assert_allclose(found, wanted.astype(float), rtol=0, atol=1e-9)


def test_ranks_of_exactly_dependent_features():
    for seed in range(50):
        rng = default_rng(seed)
        own = np.round(8 * rng.normal(size=(40, 3))) * 2.0 ** rng.integers(-3, 12, 3)
        features = np.hstack([own, own @ rng.integers(-3, 4, (3, 2))])[:, rng.permutation(5)]
        assert len(gram_eigen(features.T @ features, 40)[0]) == 3


def test_nothing_but_null_space(library):
    xp = namespace(library.asarray([0.0]))
    gram = cast(library.asarray(np.zeros((3, 3))), xp.float64)
    values, vectors = gram_eigen(gram, 5)
    assert values.shape == (0,)
    assert vectors.shape == (3, 0)


def test_plain_where_features_are_of_one_size(monkeypatch):
    calls = []
    monkeypatch.setattr(
        _svd, "_graded", lambda *given, graded=_svd._graded: calls.append(1) or graded(*given)
    )
    for factor, is_graded in ((9.0, False), (11.0, True)):
        calls.clear()
        features = np.array([[1.0, 0.0], [0.0, factor]])
        assert_allclose(gram_eigen(features.T @ features, 2)[0], [1.0, factor**2], rtol=1e-12)
        assert bool(calls) == is_graded

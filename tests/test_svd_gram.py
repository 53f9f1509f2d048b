"""Eigendecompositions of Gram matrices, against those of the features in 80 digits."""

from functools import cache

import mpmath
import numpy as np
from numpy.testing import assert_allclose

from dyadlearn import _svd as _gram
from dyadlearn._array import cast, namespace
from dyadlearn._svd import gram_eigen
from sweeps import lines, over


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


rng = np.random.default_rng(0)
Z = rng.normal(size=(40, 6)) + 0.5 * rng.normal(size=(40, 1))
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
    labels = np.random.default_rng(1).normal(size=(len(features), 1))
    for alpha in (0.0, 1e-12, 1e-3, 1.0, 1e6):
        wanted = U @ ((exact / (exact + alpha))[:, None] * (U.T @ labels))
        found = features @ (
            vectors @ ((vectors.T @ (features.T @ labels)) / (values + alpha)[:, None])
        )
        assert_allclose(found, wanted.astype(float), rtol=0, atol=1e-9)


def test_ranks_of_exactly_dependent_features():
    for seed in range(50):
        rng = np.random.default_rng(seed)
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
        _gram, "_graded", lambda *given, graded=_gram._graded: calls.append(1) or graded(*given)
    )
    for factor, is_graded in ((9.0, False), (11.0, True)):
        calls.clear()
        features = np.array([[1.0, 0.0], [0.0, factor]])
        assert_allclose(gram_eigen(features.T @ features, 2)[0], [1.0, factor**2], rtol=1e-12)
        assert bool(calls) == is_graded

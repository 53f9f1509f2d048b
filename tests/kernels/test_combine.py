"""Sums and products of kernels, and kernels of pairs of entities, against their formulas."""

import copy
import math
import pickle
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import cosine_similarity, rbf_kernel

from dyadlearn._tables import Ids, read_table, write_table
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels import Product, Sum, gram, normalize, pairs_of
from sweeps import every, lines, over


@over(every(n=[1, 2, 7]))
def test_normalize_a_gram_matrix(n, library):
    A = default_rng(n).normal(size=(n, 3))
    K = A @ A.T
    found = normalize(library.asarray(K))
    assert found.dtype == library.asarray(K).dtype
    expected = [[K[i, j] / math.sqrt(K[i, i] * K[j, j]) for j in range(n)] for i in range(n)]
    rtol = 1e-5 if library.dtype == "float32" else 1e-13
    assert_allclose(library.to_numpy(found), expected, rtol=rtol, atol=rtol)
    symmetric = library.to_numpy(normalize(library.asarray((K + K.T) / 2)))
    assert_array_equal(symmetric, symmetric.T)


def test_normalize_a_block(library):
    rng = default_rng(0)
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
    rng = default_rng(0)
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


# --- pairs of entities, against loops over their formulas, and as rows of models -----------------

RNG = default_rng(0)
NAMES = list("abcdefg")
X = RNG.normal(size=(7, 3))
K = gram(X, kernel="rbf")
FIRST, SECOND = map(list, zip(*list(combinations(range(6), 2))[:12], strict=True))
NEW = [0, 6, 6], [5, 1, 6]  # a new pair, a new entity, a new entity with itself


def by_formula(K, first, second, known, symmetric):
    """Return both kernels by loops over pairs."""

    def kernels(a, b, c, d):
        total = K[a, c] + K[b, d]
        product = K[a, c] * K[b, d]
        if symmetric:
            return (total + K[a, d] + K[b, c]) / 2, (product + K[a, d] * K[b, c]) / 2
        return total, product

    rows = list(zip(first, second, strict=True))
    columns = list(zip(*known, strict=True))
    values = np.array([[kernels(*row, *column) for column in columns] for row in rows])
    return {"sum": values[..., 0], "product": values[..., 1]}


def check(found, expected, rtol=1e-13):
    assert list(found) == ["sum", "product"]
    for name, block in found.items():
        assert_allclose(np.asarray(block), expected[name], rtol=rtol, atol=1e-15)


@pytest.mark.parametrize("symmetric", [True, False])
def test_kernels_are_those_of_the_formulas(symmetric, library):
    rtol = 1e-5 if library.dtype == "float32" else 1e-13
    known = FIRST, SECOND
    for pairs, given in ((known, None), (NEW, known), (([1], [0]), ([3], [2]))):
        found = pairs_of(library.asarray(K), *pairs, symmetric=symmetric, known=given)
        assert all(type(block) is type(library.asarray(K)) for block in found.values())
        expected = by_formula(K, *pairs, given or pairs, symmetric)
        check({name: library.to_numpy(block) for name, block in found.items()}, expected, rtol)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_have_the_ids_of_their_pairs(kind):
    order = RNG.permutation(7)
    turned = tuple(NAMES[place] for place in order)
    table = write_table(K[:, order], Ids(tuple(NAMES)), Ids(turned), kind)
    first, second = ([NAMES[place] for place in side] for side in (FIRST, SECOND))
    new = tuple([NAMES[place] for place in side] for side in NEW)
    for pairs, rows, known in (
        ((FIRST, SECOND), (first, second), None),
        (NEW, new, (first, second)),
    ):
        found = pairs_of(table, *rows, known=known)
        read = {name: read_table(block, name) for name, block in found.items()}
        expected = by_formula(K, *pairs, (FIRST, SECOND), True)
        check({name: each.values for name, each in read.items()}, expected)
        assert read["sum"].kind == kind
        assert read["sum"].row_ids.labels == tuple(f"{a} + {b}" for a, b in zip(*rows, strict=True))
        assert read["sum"].column_ids.labels[0] == "a + b"


def test_series_arrays_and_a_block_of_new_and_known_entities_are_taken():
    frame = pd.DataFrame(K, NAMES, NAMES)
    series = pd.Series(["g", "a"], index=[7, 8])
    known = np.array(["a", "b"]), pd.Series(["c", "c"])
    found = pairs_of(
        frame.loc[["g", "a"], ["a", "b", "c"]], series, ["a", "g"], known=known, symmetric=False
    )
    check(found, by_formula(K, [6, 0], [0, 6], ([0, 1], [2, 2]), False))


@over(lines("kernel", "rbf", "linear", "vanraden", lambda A, B: (A @ B.T) ** 2))
def test_features_by_the_name_of_a_kernel(kernel):
    features = RNG.integers(0, 3, size=(7, 5)).astype(float)
    trained = sorted({*FIRST, *SECOND})
    # The frequencies of "vanraden" are those of the members of the training pairs.
    whole = gram(features, features[trained], kernel=kernel)
    expected = np.full((7, 7), np.nan)
    expected[:, trained] = whole
    for given in (features, pd.DataFrame(features, NAMES)):
        pairs = [
            [NAMES[place] for place in side] if given is not features else side
            for side in (FIRST, SECOND, *NEW)
        ]
        found = pairs_of(given, *pairs[:2], kernel=kernel)
        check(found, by_formula(expected, FIRST, SECOND, (FIRST, SECOND), True))
        found = pairs_of(given, *pairs[2:], known=tuple(pairs[:2]), kernel=kernel)
        check(found, by_formula(expected, *NEW, (FIRST, SECOND), True))


def test_what_names_no_pair_is_refused(each):
    frame = pd.DataFrame(K, NAMES, NAMES)
    twice = (["a", "c", "b"], ["b", "a", "a"])
    three = [("a", "b"), ("a", "c"), ("b", "c")]
    cases = [
        ((frame, ["a"], ["z"]), {}, IdError, "'z' not among the ids of K"),
        ((K, [0, 7], [1, -1]), {}, IdError, "7, -1 not among the ids of K"),
        ((K, [0, 1], [1]), {}, ValueError, "the members of the same pairs, found 2 and 1"),
        ((frame, ["a"], ["d"]), {"known": three}, ValueError, "known must be .*, found 3 lists"),
        ((frame, ["a"], ["d"]), {"known": three[:1]}, ValueError, "known must be .*, found 1 lis"),
        ((K, [], []), {}, ValueError, "found 0 and 0"),
        (
            (frame, *twice),
            {},
            IdError,
            "The pair of 'a' and 'b' is listed twice: average its labels",
        ),
        ((K[:, :3], [0], [1]), {}, KernelError, "K must be square"),
        ((X, [0], [1]), {"kernel": "rfb"}, KernelError, "Unknown kernel"),
    ]
    for given, options, error, message in each(cases):
        with pytest.raises(error, match=message):
            pairs_of(*given, **options)
    assert pairs_of(frame, ["a", "b"], ["b", "a"], symmetric=False)["sum"].shape == (2, 2)

"""Kernels of pairs of entities, against loops over their formulas, and as rows of models."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from dyadlearn._tables import Ids, read_table, write_table
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels import gram, pairs_of
from sweeps import lines, over

RNG = np.random.default_rng(0)
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
    pytest.importorskip(kind)
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

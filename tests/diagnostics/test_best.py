"""The best of many numbers, against a stable sort of all of them."""

import numpy as np
from numpy.testing import assert_array_equal

from dyadlearn.diagnostics.best import best_in_rows, merged
from sweeps import covering, over

CASES = covering(
    shape=[(1, 1), (5, 7), (8, 3), (40, 30), (6, 601)],
    k=[1, 2, 7, 50, 2000],
    kind=["ties", "distinct", "constant", "holes", "bare"],
    dtype=["float64", "float32"],
)


def make(shape, kind, dtype):
    rng = np.random.default_rng(3)
    scores = {"ties": rng.integers(0, 4, shape), "constant": np.full(shape, -2)}.get(
        kind, rng.normal(size=shape)
    )
    scores = np.asarray(scores, dtype=dtype)
    if kind == "holes":
        scores = np.round(scores)
        scores[rng.random(shape) < 0.4] = np.nan
    if kind == "bare":  # rows with many numbers beside rows with few or none
        scores[:, 1:][::2] = np.nan
        scores[-1] = np.nan
    return scores


@over(CASES)
def test_best_in_rows(shape, k, kind, dtype):
    scores = make(shape, kind, dtype)
    # A stable sort puts NaN last.
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    places, values = best_in_rows(scores, k)
    assert_array_equal(places, expected)
    assert_array_equal(values, np.take_along_axis(scores, expected, axis=1))


def test_numbers_of_any_library(library):
    for kind in ("distinct", "ties", "holes", "bare"):
        scores = make((6, 601), kind, library.dtype)
        expected = np.argsort(-scores, axis=1, kind="stable")[:, :3]
        assert_array_equal(best_in_rows(library.asarray(scores), 3)[0], expected)


@over(CASES)
def test_merging_blocks_of_columns(shape, k, kind, dtype):
    scores = make(shape, kind, dtype)
    kept = None
    for first in range(0, shape[1], 4):
        kept = merged(kept, scores[:, first : first + 4], first, k)
    expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    assert_array_equal(kept[1], np.take_along_axis(scores, expected, axis=1))
    there = ~np.isnan(kept[1])  # nobody asks where those are that are not to be named
    assert_array_equal(kept[0][there], expected[there])
    assert kept[1].dtype == scores.dtype

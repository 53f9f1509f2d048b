"""Means that keep their digits, and moments about them."""

from fractions import Fraction

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import _means as means
from dyadlearn._array import slices
from dyadlearn._means import about, centred, difference, mean_of, moments, moved, value
from sweeps import every, over


def exact_mean(matrix):
    """Return the mean of each column in exact numbers."""
    return [sum(map(Fraction, column.tolist())) / len(matrix) for column in matrix.T]


def missing(mean, wanted):
    """Return how far a mean is from exact numbers."""
    return max(
        abs(float(Fraction(high) + Fraction(low) - exact))
        for high, low, exact in zip(*mean, wanted, strict=True)
    )


@over(every(offset=[0.0, 1e6, 1e12]))
def test_a_mean_is_right_to_the_rounding_of_the_spread(offset):
    matrix = default_rng(0).normal(size=(1000, 3)) + offset
    mean = mean_of(matrix)
    assert missing(mean, exact_mean(matrix)) < 1e-15
    assert_allclose(value(mean), matrix.mean(axis=0), rtol=1e-14)
    assert abs(centred(matrix, mean).mean(axis=0)).max() < 1e-15


def test_a_mean_stays_right_however_often_it_moves():
    matrix = default_rng(0).normal(size=(2000, 2)) + 1e6
    mean = mean_of(matrix[:1])
    n = 1
    for row in matrix[1:]:
        n += 1
        mean = moved(mean, difference(mean_of(row[None, :]), mean) / n)
    assert missing(mean, exact_mean(matrix)) < 1e-14


@over(every(wrap=[np.asarray, sparse.csr_array], number=[0.7, 1 / 3, -1e8 / 7]))
def test_of_features_that_never_change_nothing_is_left(wrap, number):
    mean, gram = moments(wrap(np.full((777, 2), number)))
    assert_array_equal(mean, [[number] * 2, [0.0] * 2])
    assert not gram.any()


def test_rows_are_summed_block_by_block(monkeypatch, library):
    rng = default_rng(0)
    rows = rng.normal(size=(7, 3))
    first = rng.normal(size=7)
    second = rng.normal(size=3)
    monkeypatch.setattr(means, "cached_blocks", lambda n, *_: slices(n, 2))
    matrix = library.asarray(rows.copy())  # it is overwritten
    assert_allclose(library.to_numpy(value(mean_of(matrix))), rows.mean(axis=0), rtol=library.rtol)
    means.add_outer(matrix, *map(library.asarray, (first, second)))
    assert_allclose(
        library.to_numpy(matrix),
        rows + np.outer(first, second),
        rtol=library.rtol,
        atol=library.rtol,
    )


def test_sparse_features_that_every_row_has_keep_their_digits():
    rng = default_rng(0)
    year = 2000.0 + np.round(rng.normal(size=100) * 64) / 64
    rare = rng.normal(size=100) * (rng.random(100) < 0.2)
    matrix = np.column_stack([year + 1e9, rare, np.full(100, 1 / 3)])
    twice = sparse.csr_array(
        sparse.coo_array((np.ones(4), ([0, 0, 1, 1], [0, 0, 1, 1])), shape=(2, 2))
    )
    mean, gram = moments(sparse.csr_array(matrix))
    dense_mean, dense_gram = moments(matrix)
    assert_allclose(gram, dense_gram, rtol=1e-12, atol=1e-13)
    assert_allclose(difference(mean, dense_mean), 0.0, atol=1e-14)
    rows, rest = about(sparse.csr_array(matrix), mean)
    assert sparse.issparse(rows)
    assert rows.nnz == 200 + (rare != 0).sum()
    assert_allclose(rows.toarray() - rest, centred(matrix, dense_mean), atol=1e-13)
    assert_allclose(
        moments(twice)[1], moments(twice.toarray())[1]
    )  # entries that stand there twice

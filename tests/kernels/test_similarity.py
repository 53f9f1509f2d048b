"""Similarity of rows: groups of similar rows, and the nearest row elsewhere."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn.kernels import gram, similar_groups
from dyadlearn.kernels.similarity import Similarity, threshold_of
from sweeps import every, over


def normalised(K):
    """Return the normalised kernel, entry by entry."""
    return np.array(
        [[K[i, j] / (K[i, i] * K[j, j]) ** 0.5 for j in range(len(K))] for i in range(len(K))]
    )


def slow_groups(S, threshold):
    """Join rows one pair at a time."""
    codes = list(range(len(S)))
    for i in range(len(S)):
        for j in range(len(S)):
            if S[i, j] >= threshold:
                codes = [codes[i] if code == codes[j] else code for code in codes]
    return list(map(sorted(set(codes), key=codes.index).index, codes))


def rows(kind, n=40):
    rng = np.random.default_rng(0)
    if kind == "bits":
        return (rng.random((n, 12)) < 0.4).astype(float) + np.eye(n, 12)
    return rng.normal(size=(n, 3))


KERNELS = {"linear": "numbers", "rbf": "numbers", "tanimoto": "bits"}


@pytest.fixture(params=[2**23, 90], ids=["one block", "many blocks"], autouse=True)
def _blocks(request, monkeypatch):
    monkeypatch.setattr("dyadlearn._array.BLOCK", request.param)


@over(every(kernel=list(KERNELS), threshold=[0.3, 0.7, 0.95, 1.0]))
def test_groups_are_connected_components(kernel, threshold):
    X = rows(KERNELS[kernel], 18)
    S = normalised(gram(X, kernel=kernel))
    expected = slow_groups(S, threshold - 1e-9)
    assert_array_equal(similar_groups(X, threshold, kernel=kernel), expected)
    assert_array_equal(similar_groups(3 * S, threshold, kernel="precomputed"), expected)
    assert_array_equal(similar_groups(sparse.csr_array(X), threshold, kernel=kernel), expected)


def test_a_chain_is_one_group():
    x = np.arange(6.0)[:, None] * 0.5
    chain = similar_groups(x, 0.7, kernel="rbf", kernel_params={"gamma": 1.0})
    assert_array_equal(chain, np.zeros(6))
    assert_array_equal(
        similar_groups(x, 0.8, kernel="rbf", kernel_params={"gamma": 1.0}), np.arange(6)
    )


@over(every(kernel=list(KERNELS)))
def test_nearest_rows(kernel):
    X = rows(KERNELS[kernel])
    S = normalised(gram(X, kernel=kernel))
    similarity = Similarity.of_table(X, kernel)
    folds = np.arange(40) % 3
    largest, where = similarity.nearest_outside(folds)
    for row in range(40):
        others = np.flatnonzero(folds != folds[row])
        assert_allclose(largest[row], S[row, others].max(), rtol=1e-12)
        assert_allclose(S[row, where[row]], largest[row], rtol=1e-12)
        assert folds[where[row]] != folds[row]
    asked = np.array([3, 30])
    known = np.arange(5, 25)
    largest, where = similarity.nearest(asked, known)
    assert_allclose(largest, S[np.ix_(asked, known)].max(axis=1), rtol=1e-12)
    assert_array_equal(where, known[S[np.ix_(asked, known)].argmax(axis=1)])


def test_nothing_is_near_without_other_rows():
    similarity = Similarity.of_table(rows("numbers"))
    largest, where = similarity.nearest_outside(np.zeros(40))
    assert_array_equal(largest, np.full(40, -np.inf))
    assert_array_equal(where, np.full(40, -1))
    largest, where = similarity.nearest(np.arange(3), np.array([], dtype=int))
    assert_array_equal(largest, np.full(3, -np.inf))
    assert_array_equal(where, np.full(3, -1))


def test_rows_of_zeros_are_alone():
    X = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0], [2.0, 2.0]])
    assert_array_equal(similar_groups(X, 0.5), [0, 1, 2, 1])


def test_thresholds():
    assert threshold_of("similar", "groups") == 0.6
    assert threshold_of("similar:0.25", "groups") == 0.25
    assert threshold_of("identical", "groups") is None
    assert threshold_of(np.zeros(3), "groups") is None
    for wrong in ("similar:", "similar:0", "similar:1.5", "similar:high", "similar:nan"):
        with pytest.raises(
            ValueError, match=f"groups takes a similarity above 0 .* found '{wrong}'"
        ):
            threshold_of(wrong, "groups")
    with pytest.raises(ValueError, match="threshold takes a similarity"):
        similar_groups(np.eye(2), 2.0)
    with pytest.raises(ValueError, match="square matrix, found shape"):
        similar_groups(np.ones((2, 3)), 0.5, kernel="precomputed")

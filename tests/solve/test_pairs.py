"""Observed pairs and products that touch these alone, against the grids that they stand for."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn._array import as_array_of
from dyadlearn.labels import Labels
from dyadlearn.solve import observed as module
from dyadlearn.solve.observed import PairProducts, mean_of, product_cost
from sweeps import covering, every, lines, over

# Grids with holes: of all shapes, with rows and columns that have no label, and with one label
# alone.
SHAPES = {
    "tall": (9, 4, 0.4),
    "wide": (4, 9, 0.4),
    "few": (30, 20, 0.02),
    "all": (5, 6, 1.0),
    "one row": (1, 8, 0.6),
    "one column": (8, 1, 0.6),
    "one pair": (6, 5, 0.0),
}


def labels(shape, dtype="float64", weighted=False, seed=0):
    """Return labels of some pairs and the grid of them, NaN elsewhere, with a grid of weights."""
    m, q, share = shape
    rng = np.random.default_rng([seed, m, q])
    Y = rng.normal(size=(m, q))
    weights = rng.uniform(0.5, 2.0, size=(m, q))
    Y[rng.random((m, q)) >= share] = np.nan
    Y[m // 2, q // 2] = 0.0  # a zero is a label
    if m > 2 and q > 2 and share < 1.0:
        Y[0], Y[:, 1] = np.nan, np.nan
    rows, columns = np.nonzero(~np.isnan(Y))
    own = weights[rows, columns].astype(dtype) if weighted else None
    return Labels((rows, columns), Y[rows, columns].astype(dtype), (m, q), own), Y, weights


# --- labels ------------------------------------------------------------------------------------------------------


@over(
    every(
        shape=SHAPES,
        container=[sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix],
    )
)
def test_what_a_sparse_matrix_stores_is_observed(shape, container):
    expected, Y, _ = labels(shape)
    rows, columns = np.nonzero(~np.isnan(Y))
    shuffled = np.random.default_rng(1).permutation(rows.size)
    places = (rows[shuffled], columns[shuffled])
    found = Labels.from_sparse(container(sparse.coo_array((Y[places], places), shape=Y.shape)))
    for name in ("places", "values"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert found.shape == Y.shape
    assert found.size == rows.size
    assert repr(found) == f"Labels({rows.size} of {Y.shape[0]} × {Y.shape[1]})"


def test_labels_come_in_any_order_with_their_weights():
    expected, _, _ = labels(SHAPES["tall"], weighted=True)
    order = np.random.default_rng(1).permutation(expected.size)
    cells = tuple(places[order] for places in expected.places)
    given = (cells, expected.values[order])
    found = Labels.of_pairs(*given, expected.shape, expected.weights[order])
    for name in ("places", "values", "weights"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert Labels.of_pairs(*given, expected.shape).weights is None


def test_a_pair_twice_is_refused():
    twice = sparse.coo_array(([1.0, 2.0, 3.0], ([1, 0, 1], [2, 0, 2])), shape=(2, 3))
    message = r"^Y stores 1 pair\(s\) more than once, first that of row 1 and column 2: give one value a pair\.$"
    with pytest.raises(ValueError, match=message):
        Labels.from_sparse(twice)


@over(every(shape=SHAPES, weighted=[False, True]))
def test_sparse_matrices_of_the_same_places(shape, weighted):
    found, Y, weights = labels(shape, weighted=weighted)
    observed = ~np.isnan(Y)
    made = found.to_sparse()
    assert made.shape == Y.shape
    assert made.nnz == observed.sum()
    assert_array_equal(made.toarray(), np.where(observed, Y, 0.0))
    assert_array_equal(
        found.to_sparse(2.0 * found.values).toarray(), np.where(observed, 2.0 * Y, 0.0)
    )
    heavy = np.where(observed, weights if weighted else 1.0, 0.0)
    assert_allclose(found.total, heavy.sum(), rtol=1e-14)
    assert_allclose(found.sums(0), heavy.sum(axis=0), rtol=1e-14)
    assert_allclose(found.sums(1), heavy.sum(axis=1), rtol=1e-14)
    assert found.sums(0).dtype == found.values.dtype


# --- products ----------------------------------------------------------------------------------------------------


def features(shape, ranks=(3, 2), seed=3):
    rng = np.random.default_rng(seed)
    return (
        rng.normal(size=(shape[0], ranks[0])),
        rng.normal(size=(shape[1], ranks[1])),
        rng.normal(size=ranks),
    )


@over(covering(shape=SHAPES, first=["tasks", "instances"], gathers=[True, False]))
def test_products_touch_the_observed_pairs(monkeypatch, shape, first, gathers, library):
    monkeypatch.setattr(module, "product_cost", lambda *_: (1, first == "tasks"))
    for cost in ("GATHER_COST", "_GATHER_COST_ELSEWHERE"):
        monkeypatch.setattr(f"dyadlearn.vectrick.{cost}", 0 if gathers else 10**9)
    found, Y, _ = labels(shape, library.dtype)
    left, right, function = features(Y.shape)
    products = PairProducts(library.asarray(left), library.asarray(right), found)
    values = products.values(library.asarray(function))
    grid = left @ function @ right.T
    assert_allclose(library.to_numpy(values), grid[found.places], rtol=0, atol=10 * library.rtol)
    gathered = products.gathered(as_array_of(found.values, values))
    expected = left.T @ np.nan_to_num(Y) @ right
    assert_allclose(library.to_numpy(gathered), expected, rtol=0, atol=10 * library.rtol)
    assert gathered.dtype == values.dtype == products.left.dtype


def test_other_pairs_of_the_same_features():
    found, Y, _ = labels(SHAPES["tall"])
    left, right, function = features(Y.shape)
    part = found.take(np.arange(found.size) % 2 == 0)
    values = PairProducts(left, right, part).values(function)
    assert_allclose(values, (left @ function @ right.T)[part.places], rtol=1e-12)


@over(
    lines(
        "shape n ranks tasks",
        # q·r·s + 8·n·r against m·r·s + 8·n·s
        ((1000, 10), 100, (5, 5), True),
        ((10, 1000), 100, (5, 5), False),
        ((50, 50), 10**6, (2, 9), True),
        ((50, 50), 10**6, (9, 2), False),
        ((50, 50), 100, (3, 3), True),  # a tie
        ((10, 11), 0, (1, 1), False),
        ((11, 10), 0, (1, 1), True),
    )
)
def test_the_cheaper_order_is_taken(shape, n, ranks, tasks):
    m, q = shape
    r, s = ranks
    cost = min(q * r * s + 8 * n * r, m * r * s + 8 * n * s)
    assert product_cost(shape, n, ranks, 8) == (cost, tasks)
    products = PairProducts(
        np.ones((m, 1)), np.ones((q, 1)), Labels(tuple(np.array([[0], [0]])), np.ones(1), shape)
    )
    assert products._tasks_first is product_cost(shape, 1, (1, 1), 8)[1]


def test_means_are_weighted():
    assert mean_of(np.array([1.0, 4.0]), None) == 2.5
    assert mean_of(np.array([1.0, 4.0]), np.array([2.0, 1.0])) == 2.0

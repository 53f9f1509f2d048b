"""The vec trick against the Kronecker product written out."""

import numpy as np
from numpy.random import default_rng
from numpy.testing import assert_allclose
from scipy import sparse

from counting import asarray, multiplications
from dyadlearn import vectrick
from dyadlearn.vectrick import sandwich, sandwich_at, sandwich_work
from sweeps import covering, every, over

# (a, m, q, b): left (a, m), middle (m, q), right (b, q)
SHAPES = [
    (2, 3, 4, 5),
    (7, 3, 4, 2),
    (1, 6, 2, 9),
    (9, 2, 6, 1),
    (4, 4, 4, 4),
    (1, 1, 1, 1),
    (5, 8, 1, 3),
]
shapes = {"shape": SHAPES}

CONTAINERS = {"dense": np.asarray, "csr_array": sparse.csr_array, "csr_matrix": sparse.csr_matrix}


def operands(shape):
    a, m, q, b = shape
    rng = default_rng(sum(shape))
    left = rng.normal(size=(a, m))
    right = rng.normal(size=(b, q))
    left[rng.random(left.shape) < 0.3] = 0.0
    right[rng.random(right.shape) < 0.3] = 0.0
    return left, rng.normal(size=(m, q)), right


def kronecker_twin(left, middle, right):
    """Return the matrix whose columns, stacked, are (right ⊗ left) vec(middle)."""
    stacked = np.kron(right, left) @ middle.ravel(order="F")
    return stacked.reshape((len(left), len(right)), order="F")


@over(covering(**shapes, left_container=CONTAINERS, right_container=CONTAINERS))
def test_sandwich_is_the_kronecker_product(shape, left_container, right_container):
    left, middle, right = operands(shape)
    found = sandwich(left_container(left), middle, right_container(right))
    assert type(found) is np.ndarray
    assert_allclose(found, kronecker_twin(left, middle, right), atol=1e-13)


@over(every(**shapes))
def test_a_sandwich_takes_the_cheaper_order(shape):
    left, middle, right = map(asarray, operands(shape))
    orders = lambda: (left @ middle) @ right.T, lambda: left @ (middle @ right.T)
    counted = tuple(map(multiplications, orders))
    assert sandwich_work(*left.shape[:1], *right.shape[:1], *middle.shape) == counted
    assert multiplications(sandwich, left, middle, right) == min(counted)


@over(
    covering(
        **shapes,
        gather_cost={"gathered": 0, "whole": 10**9},
        left_container=CONTAINERS,
        right_container=CONTAINERS,
    )
)
def test_sandwich_at_samples_the_product(
    monkeypatch, shape, gather_cost, left_container, right_container
):
    monkeypatch.setattr(vectrick, "GATHER_COST", gather_cost)
    left, middle, right = operands(shape)
    rng = default_rng(0)
    rows = rng.integers(len(left), size=11)
    columns = rng.integers(len(right), size=11)
    found = sandwich_at(left_container(left), middle, right_container(right), rows, columns)
    assert found.shape == (11,)
    twin = kronecker_twin(left, middle, right)
    expected = [twin[row, column] for row, column in zip(rows, columns, strict=True)]
    assert_allclose(found, expected, atol=1e-13)


def test_sandwich_at_chooses_by_cost(monkeypatch):
    """Few pairs of a large grid are gathered, many pairs are sampled from the whole product."""
    right_shapes = []
    multiply = vectrick.matmul

    def recorded(one, other):
        right_shapes.append(other.shape)
        return multiply(one, other)

    monkeypatch.setattr(vectrick, "matmul", recorded)
    left, middle, right = operands((20, 3, 4, 20))
    few = np.zeros(2, dtype=int)
    many = np.zeros(400, dtype=int)
    sandwich_at(left, middle, right, few, few)
    assert right_shapes == [(3, 4)]
    right_shapes.clear()
    sandwich_at(left, middle, right, many, many)
    assert right_shapes == [(3, 4), (4, 20)]


@over(every(dtype=[np.float32, np.float64]))
def test_pairs_of_the_same_row_share_its_product(monkeypatch, dtype):
    """Runs of pairs give what single pairs do, across the ends of blocks and with rows that come again."""
    rng = default_rng(0)
    half, right = (rng.normal(size=(n, 4)).astype(dtype) for n in (7, 6))
    rows = np.array([3, 3, 3, 3, 0, 6, 6, 3, 3, 5])
    columns = rng.integers(6, size=10)
    monkeypatch.setattr(vectrick, "GATHER_COST", 0)
    monkeypatch.setattr(
        vectrick, "cached_blocks", lambda n, *_: [slice(i, min(i + 3, n)) for i in range(0, n, 3)]
    )
    found = {}
    for run, name in ((0, "runs"), (10**9, "pairs")):
        monkeypatch.setattr(vectrick, "_RUN", run)
        with monkeypatch.context() as patched:
            if name == "runs":
                patched.setattr(np, "vecdot", None)
            found[name] = vectrick.dots_at(half, right, rows, columns)
    assert found["runs"].dtype == dtype
    assert_allclose(found["runs"], (half @ right.T)[rows, columns], rtol=100 * np.finfo(dtype).eps)
    assert_allclose(found["runs"], found["pairs"], rtol=100 * np.finfo(dtype).eps)

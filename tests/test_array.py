"""The one file that knows array libraries."""

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import _array
from dyadlearn._array import (
    Scatter,
    as_array_of,
    cholesky,
    drawn,
    float_dtype,
    is_foreign,
    is_sparse,
    namespace,
    row_blocks,
    to_numpy,
    with_diagonal,
    with_value,
)
from sweeps import every, lines, over

MATRIX = np.arange(12.0).reshape(4, 3)


def test_kinds_of_arrays(library):
    array = library.asarray(MATRIX)
    foreign = not library.name.startswith("numpy")
    assert is_foreign(array) is foreign
    assert not is_sparse(array)
    owner = {"array-api-strict": "array_api_strict", "torch": "torch"}.get(library.name, "numpy")
    assert _array.library(array) == owner


def test_namespace_refuses_a_mixture():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError):
        namespace(MATRIX, strict.asarray(MATRIX))


def test_to_numpy_and_back(library):
    array = library.asarray(MATRIX)
    assert type(to_numpy(array)) is np.ndarray
    assert_array_equal(to_numpy(array), MATRIX)
    assert to_numpy(array).dtype == library.dtype
    back = as_array_of(to_numpy(array), array)
    assert type(back) is type(array)
    assert_array_equal(library.to_numpy(back), MATRIX)


def test_float_dtype_is_single_only_where_all_floats_are(library):
    xp = namespace(library.asarray(MATRIX))
    single = xp.ones(2, dtype=xp.float32)
    double = xp.ones(2, dtype=xp.float64)
    whole = xp.ones(2, dtype=xp.int64)
    truth = xp.ones(2, dtype=xp.bool)
    for arrays, expected in (
        ([single], xp.float32),
        ([double], xp.float64),
        ([single, single, None], xp.float32),
        ([single, double], xp.float64),
        ([whole], xp.float64),
        ([single, whole, truth], xp.float32),
        ([truth, double], xp.float64),
    ):
        assert float_dtype(*arrays) == expected


@over(every(diagonal=[7.0, [1.0, 2.0, 3.0]]))
def test_with_diagonal(library, diagonal):
    square = np.arange(9.0).reshape(3, 3)
    expected = square.copy()
    for i in range(3):
        expected[i, i] = diagonal if isinstance(diagonal, float) else diagonal[i]
    given = diagonal if isinstance(diagonal, float) else library.asarray(diagonal)
    assert_array_equal(to_numpy(with_diagonal(library.asarray(square), given)), expected)
    # In a transposed array the numbers lie in another order.
    assert_array_equal(to_numpy(with_diagonal(library.asarray(square).T, given)), expected.T)


def test_positions_are_drawn_by_their_weights(library):
    weights = library.asarray([0.0, 1.0, 0.0, 3.0, 0.0])
    found = drawn(weights, np.array([0.0, 0.2499, 0.25, 0.5, 1.0 - 2.0**-53]))
    assert isinstance(found, np.ndarray)
    assert_array_equal(found, [1, 1, 3, 3, 3])  # and never one that weighs nothing


@over(
    lines(
        "n_rows width limit step",
        (10, 8, 24, 3),
        (9, 8, 24, 3),
        (2, 8, 24, 3),
        (5, 100, 24, 1),
        (5, 0, 24, 24),
        (0, 8, 24, 3),
    )
)
def test_row_blocks_cover_every_row_once(n_rows, width, limit, step, monkeypatch):
    monkeypatch.setattr(_array, "BLOCK", limit)
    blocks = list(row_blocks(n_rows, width // 4, (3, width // 4)))
    assert [i for block in blocks for i in range(n_rows)[block]] == list(range(n_rows))
    assert all(block.stop <= n_rows and block.stop - block.start <= step for block in blocks)
    assert len(blocks) == -(-n_rows // step)


@over(every(turned=[False, True], cells=[[], [0], [5, 11, 2]]))
def test_values_in_some_cells(turned, cells, library):
    values = MATRIX.T.copy() if turned else MATRIX.copy()
    given = library.asarray(values.T.copy()).T if turned else library.asarray(values)
    expected = values.ravel()
    expected[cells] = -7.0
    found = with_value(given, np.array(cells, dtype=np.intp), -7.0)
    assert_array_equal(library.to_numpy(found), expected.reshape(values.shape))


def test_a_factor_of_a_matrix_that_is_not_definite(library):
    A = default_rng(0).normal(size=(5, 5))
    factor = library.to_numpy(cholesky(library.asarray(A @ A.T + np.eye(5))))
    assert_allclose(
        factor @ factor.T, A @ A.T + np.eye(5), rtol=10 * library.rtol, atol=10 * library.rtol
    )
    assert_array_equal(np.triu(factor, 1), 0.0)
    with pytest.raises(np.linalg.LinAlgError):
        cholesky(library.asarray(-np.eye(3)))


@over(
    lines("shape share", ((6, 4), 0.4), ((4, 6), 0.4), ((1, 5), 1.0), ((5, 1), 0.5), ((7, 7), 0.0))
)
def test_products_with_a_matrix_whose_entries_change(shape, share, library):
    rng = default_rng(0)
    there = rng.random(shape) < share
    there[0, -1] = True
    rows, columns = np.nonzero(there)
    left = rng.normal(size=(shape[0], 3))
    right = rng.normal(size=(shape[1], 2))
    matrix = Scatter(rows, columns, shape, library.asarray(left))
    for _ in range(2):  # places are known the second time
        values = rng.normal(size=rows.size)
        grid = np.zeros(shape)
        grid[rows, columns] = values
        found = matrix.times(library.asarray(values), library.asarray(right))
        turned = matrix.times(library.asarray(values), library.asarray(left), transposed=True)
        assert type(found) is type(turned) is type(library.asarray(left))
        assert found.dtype == turned.dtype == library.asarray(left).dtype
        assert_allclose(library.to_numpy(found), grid @ right, rtol=0, atol=10 * library.rtol)
        assert_allclose(library.to_numpy(turned), grid.T @ left, rtol=0, atol=10 * library.rtol)


def test_products_of_sparse_matrices_on_several_threads(monkeypatch):
    """Rows without entries, and one with most of them, are computed by whichever thread."""
    monkeypatch.setattr(_array, "n_workers", lambda like, n_operations: 2)
    rng = default_rng(0)
    there = rng.random((20, 7)) < 0.4
    there[4, :], there[7, :] = True, False
    rows, columns = np.nonzero(there)
    grid = np.zeros((20, 7))
    right = rng.normal(size=(7, 3))
    left = rng.normal(size=(20, 2))
    grid[rows, columns] = values = rng.normal(size=rows.size)
    matrix = Scatter(rows, columns, (20, 7), right)
    assert_allclose(matrix.times(values, right), grid @ right, atol=1e-14)
    assert_allclose(matrix.times(values, left, transposed=True), grid.T @ left, atol=1e-14)


@pytest.mark.parametrize("n", [1, 5, 300])  # one block of rows, or several
def test_the_inverse_of_a_positive_definite_matrix(n, library):
    factor = default_rng(0).normal(size=(n, n)) / n**0.5
    matrix = np.eye(n) + factor @ factor.T
    found = library.to_numpy(_array.positive_inverse(library.asarray(matrix.copy())))
    assert_allclose(matrix @ found, np.eye(n), atol=100 * library.rtol)
    found, logarithm = _array.inverse_and_log_determinant(library.asarray(matrix.copy()))
    assert_allclose(matrix @ library.to_numpy(found), np.eye(n), atol=100 * library.rtol)
    assert_allclose(logarithm, np.linalg.slogdet(matrix)[1], rtol=100 * library.rtol)


def test_only_definite_matrices_are_inverted(library):
    with pytest.raises(np.linalg.LinAlgError):
        _array.positive_inverse(library.asarray(np.zeros((3, 3))))
    with pytest.raises(np.linalg.LinAlgError):
        _array.inverse_and_log_determinant(library.asarray(np.diag([1.0, -1.0])))
    with pytest.raises(np.linalg.LinAlgError):
        _array.positive_inverse(np.diag([1.0, -1.0]))

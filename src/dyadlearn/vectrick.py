r"""The vec trick: products with a Kronecker product that is never formed.

.. math:: (\mathbf{R} \otimes \mathbf{L})\,\mathrm{vec}(\mathbf{X}) = \mathrm{vec}(\mathbf{L X R}^\top)
"""

from __future__ import annotations

import numpy as np

from dyadlearn._array import (
    Array,
    cached_blocks,
    is_foreign,
    is_sparse,
    matmul,
    namespace,
    take_rows,
    zeros,
)
from dyadlearn._threads import for_each
from dyadlearn._work import products

__all__ = [
    "GATHER_COST",
    "dots_at",
    "entries_at",
    "few_dots",
    "gather_cost",
    "left_first",
    "sandwich",
    "sandwich_at",
    "sandwich_work",
]

# A gathered dot product reads q numbers per pair from memory; a matrix product reuses them. One
# operation of a gathered product takes about as long as this many operations of a matrix product,
# on a processor (8 to 50 on different ones) and on an accelerator.
GATHER_COST = 24
_GATHER_COST_ELSEWHERE = 64
# Numbers to gather for one row of `half` from which on a product of its own takes less time than
# copies of the row.
_RUN = 2**13


def gather_cost(like: Array) -> int:
    """Return the cost of one operation on gathered rows, in operations of a matrix product, on the device of `like`."""
    if is_foreign(like):
        return _GATHER_COST_ELSEWHERE
    return GATHER_COST


def sandwich(left: Array, middle: Array, right: Array) -> Array:
    r"""Return ``left @ middle @ right.T`` in the cheaper order.

    Parameters
    ----------
    left : array or sparse matrix of shape (a, m)
    middle : array of shape (m, q)
    right : array or sparse matrix of shape (b, q)

    Returns
    -------
    array of shape (a, b)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.vectrick import sandwich
    >>> sandwich(np.ones((1, 2)), np.eye(2), np.array([[1.0, 2.0]]))
    array([[3.]])
    """
    if left_first(left.shape[0], right.shape[0], *middle.shape):
        return matmul(matmul(left, middle), right.T)
    return matmul(left, matmul(right, middle.T).T)


def sandwich_work(a: int, b: int, m: int, q: int) -> tuple[float, float]:
    """Return the multiplications for matrices (a, m), (m, q) and (q, b), beginning with the left and the right product.

    Examples
    --------
    >>> from dyadlearn.vectrick import sandwich_work
    >>> sandwich_work(1, 9, 5, 5)
    (70.0, 270.0)
    """
    return products((a, m, q), (a, q, b)), products((m, q, b), (a, m, b))


def left_first(a: int, b: int, m: int, q: int) -> bool:
    """Return whether the left product comes first in less work, as `sandwich_work` describes."""
    left, right = sandwich_work(a, b, m, q)
    return left <= right


def few_dots(n: int, shape: tuple[int, int], like: Array) -> float:
    """Return the cost of n entries of a product (m, q): of gathered rows, or of the whole product if that is less.

    It is relative to the cost of an entry of the whole product.
    """
    return min(products((gather_cost(like), n)), products(shape))


def sandwich_at(left: Array, middle: Array, right: Array, rows: Array, columns: Array) -> Array:
    r"""Return ``(left @ middle @ right.T)[rows, columns]`` by the cheaper of two methods.

    Either the whole product is computed and sampled, or one dot product per pair is computed, in
    blocks of bounded size.

    Parameters
    ----------
    left : array or sparse matrix of shape (a, m)
    middle : array of shape (m, q)
    right : array or sparse matrix of shape (b, q)
    rows, columns : integer arrays of shape (n,)
        Positions into the rows of `left` and of `right`.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.vectrick import sandwich_at
    >>> sandwich_at(np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), np.eye(2), np.array([1]), np.array([0]))
    array([3.])
    """
    return dots_at(matmul(left, middle), right, rows, columns)


def entries_at(grid: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return the entries (n,) or (n, p) of a grid (m, q) or (m, q, p) at some rows and columns."""
    flat = namespace(grid).reshape(grid, (-1, *grid.shape[2:]))
    return take_rows(flat, rows * grid.shape[1] + columns)


def dots_at(half: Array, right: Array, rows: Array, columns: Array) -> Array:
    """Return ``(half @ right.T)[rows, columns]``, the second step of `sandwich_at`.

    Successive pairs with the same row share its product, so sorted rows take about half the time.
    """
    xp = namespace(half)
    a, q = half.shape
    b = right.shape[0]
    n = rows.shape[0]
    if few_dots(n, (a, b), half) == a * b:
        return entries_at(matmul(half, right.T), rows, columns)
    values = zeros((n,), half)
    ends = np.zeros(0, dtype=np.intp)
    if isinstance(half, np.ndarray):
        ends = np.append(np.flatnonzero(rows[1:] != rows[:-1]) + 1, n)
    in_runs = ends.size > 0 and n * q >= _RUN * len(ends) and not is_sparse(right)

    def gather(block: slice) -> None:
        chosen = take_rows(right, columns[block])
        if in_runs:
            start = block.start
            for end in (*ends[(ends > start) & (ends < block.stop)].tolist(), block.stop):
                run = slice(start - block.start, end - block.start)
                np.matmul(chosen[run], half[rows[start]], out=values[start:end])
                start = end
            return
        partner = take_rows(half, rows[block])
        if is_sparse(chosen):
            values[block] = chosen.multiply(partner).sum(axis=1).ravel()
        else:
            values[block] = xp.vecdot(partner, chosen)

    blocks = list(cached_blocks(n, half, (2, q)))
    for_each(gather, blocks, half, n_operations=2.0 * GATHER_COST * n * q)
    return values

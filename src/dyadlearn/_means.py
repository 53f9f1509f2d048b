r"""Means that keep their digits, and features taken from them.

An unpenalised constant needs features about their mean, and the mean moves with every row that comes or goes. A second
moment about zero would lose as many digits as the mean is larger than the spread; moments about the mean, which are
merged and taken apart again as

.. math:: \mathbf{C} = \mathbf{C}_1 + \mathbf{C}_2 + \frac{n_1n_2}{n_1+n_2}\,(\bar{\boldsymbol\phi}_2 -
          \bar{\boldsymbol\phi}_1)(\bar{\boldsymbol\phi}_2-\bar{\boldsymbol\phi}_1)^\top,

lose none, and need no origin that all who merge must have agreed on. A mean is two numbers for each feature, the mean
as rounded and what is missing to it: after any number of changes it is right to the rounding of the spread, not to
that of an offset, however large.

Sparse features stay sparse. Those that every row has, such as a constant or a year, are brought about their mean in
place, number by number; about theirs the others would be dense, and their moments are corrected afterwards, which costs
no digits: with zeros among them, no feature has a mean that is large beside its spread.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, is_sparse, is_transposed, matmul, namespace, zeros
from dyadlearn._centre import with_ones

__all__ = [
    "about",
    "centred",
    "difference",
    "in_rows",
    "mean_of",
    "moments",
    "moved",
    "no_mean",
    "outer",
    "value",
    "with_constants",
]


def in_rows(matrix: Array) -> Array:
    """Return a matrix row by row in memory, so that sums over its rows do not depend on how it came."""
    if is_sparse(matrix) or not is_transposed(matrix):
        return matrix
    result = zeros(matrix.shape, matrix)
    result[...] = matrix
    return result


def no_mean(width: int, like: Array) -> Array:
    """Return the mean (2, width) of no rows, which is taken for zero."""
    return zeros((2, width), like)


def mean_of(matrix: Array) -> Array:
    """Return the mean (2, d) of the rows of a matrix (n, d) in double precision.

    Of a feature that is the same in all rows it is that number, to the last bit, and about it nothing is left: what it
    differs from a rough mean by are equal multiples of the last bit, whose mean has no rounding.
    """
    if is_sparse(matrix):
        n, d = matrix.shape
        rough = np.asarray(matrix.sum(axis=0)).reshape(-1) / n
        stored, full = _full_columns(matrix)
        gaps = np.bincount(stored.indices, weights=stored.data - rough[stored.indices], minlength=d) / n
        return _exact_sum(rough, np.where(full, gaps, 0.0))
    xp = namespace(matrix)
    rough = xp.mean(matrix, axis=0)
    return _exact_sum(rough, xp.mean(matrix - rough, axis=0))


def value(mean: Array) -> Array:
    """Return a mean (2, d) as one number for each feature, shape (d,)."""
    return mean[0, :] + mean[1, :]


def difference(mean: Array, other: Array) -> Array:
    """Return a mean less another one, shape (d,)."""
    return (mean[0, :] - other[0, :]) + (mean[1, :] - other[1, :])


def moved(mean: Array, step: Array) -> Array:
    """Return a mean (2, d) moved by a step (d,)."""
    return _exact_sum(mean[0, :], mean[1, :] + step)


def centred(matrix: Array, mean: Array) -> Array:
    """Return dense features (n, d) less their mean."""
    return (matrix - mean[0, :]) - mean[1, :]


def about(matrix: Array, mean: Array) -> tuple[Array, Array | None]:
    """Return features (n, d) less their mean, as far as they stay sparse, and what is still to be subtracted (d,).

    Of dense ones nothing is: None.
    """
    if not is_sparse(matrix):
        return centred(matrix, mean), None
    stored, full = _full_columns(matrix)
    places = stored.indices
    data = np.where(full[places], (stored.data - mean[0, places]) - mean[1, places], stored.data)
    thin = sparse.csr_array((data, places, stored.indptr), shape=matrix.shape)
    return thin, np.where(full, 0.0, value(mean))


def _full_columns(matrix: Array) -> tuple[sparse.csr_array, np.ndarray]:
    """Return a sparse matrix (n, d) row by row, each entry once, and which columns have one in every row (d,)."""
    stored = sparse.csr_array(matrix)
    if not stored.has_canonical_format:
        stored = stored.copy()
        stored.sum_duplicates()
    return stored, np.bincount(stored.indices, minlength=stored.shape[1]) == stored.shape[0]


def with_constants(matrix: Array, mean: Array) -> Array:
    r"""Return rows that multiply coefficients (d + 2, p) of features about their mean.

    Below those of the features stand the values :math:`\mathbf{b}` at the mean, and :math:`-\bar{\boldsymbol\phi}^\top`
    times those of the features. Dense rows are :math:`[\boldsymbol\phi-\bar{\boldsymbol\phi}, 1, 0]`, which keeps the
    digits of large offsets, sparse ones :math:`[\boldsymbol\phi, 1, 1]`, which keeps their zeros.

    Parameters
    ----------
    matrix : array or sparse matrix of shape (n, d)
        In double precision.
    mean : array of shape (2, d)

    Returns
    -------
    array or sparse array of shape (n, d + 2)
    """
    if is_sparse(matrix):
        return with_ones(with_ones(matrix))
    rows = with_ones(centred(matrix, mean))
    return namespace(rows).concat([rows, namespace(rows).zeros_like(rows[:, :1])], axis=1)


def moments(matrix: Array) -> tuple[Array, Array]:
    """Return the mean (2, d) of rows, and the Gram matrix (d, d) about it."""
    mean = mean_of(matrix)
    rows, rest = about(matrix, mean)
    gram = matmul(rows.T, rows)
    if rest is not None:
        gram -= matrix.shape[0] * outer(rest, rest)
    return mean, gram


def outer(first: Array, second: Array) -> Array:
    """Return the products (d, p) of two vectors."""
    return first[:, None] * second[None, :]


def _exact_sum(first: Array, second: Array) -> Array:
    """Return sums as rounded and what rounding took of them, shape (2, d)."""
    total = first + second
    back = total - first
    return namespace(total).stack([total, (first - (total - back)) + (second - back)], axis=0)

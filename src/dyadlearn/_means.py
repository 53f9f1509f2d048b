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

Rows without their constant: coordinates in which :math:`\mathbf{1}` has no part.

One reflection takes :math:`\mathbf{1}/\sqrt n` to the first unit vector. The other columns of it are an orthonormal
basis :math:`\mathbf{Z}` (n × n − 1) of all that sums to zero, never formed: with :math:`\mathbf{x}_0` the first row,

.. math:: \mathbf{Z}^\top\mathbf{X} = \mathbf{X}_{1:} - \frac{\mathbf{x}_0 + \sum_i\mathbf{x}_i/\sqrt n}{\sqrt n + 1}.

What is decomposed in these coordinates comes out orthogonal to :math:`\mathbf{1}` to the last digit, also along null
directions, which a doubly centred kernel mixes with it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, double, is_sparse, matmul, namespace, row_blocks, zeros


def means_of(features: Array) -> Array:
    """Return the means (d,) of features (n, d) in double precision, to the last digit however many rows there are."""
    # A sum of many rows has the rounding of all of them; what is left of each has hardly any.
    rough = rest_of(features, zeros((features.shape[1],), features, namespace(features).float64))
    return rough + rest_of(features, rough)


def rest_of(features: Array, means: Array) -> Array:
    """Return the means (d,) of what features (n, d) differ by from others (d,); only blocks of rows are copied."""
    total = zeros(means.shape, means)
    for rows in row_blocks(features.shape[0], 8 * features.shape[1]):
        total += namespace(features).sum(double(features[rows, :]) - means, axis=0)
    return total / features.shape[0]


def to_complement(rows: Array) -> Array:
    r"""Return :math:`\mathbf{Z}^\top\mathbf{X}` of shape (n - 1, p) for rows of shape (n, p)."""
    xp, root = namespace(rows), math.sqrt(rows.shape[0])
    return rows[1:, :] - (rows[:1, :] + xp.sum(rows, axis=0, keepdims=True) / root) / (root + 1.0)


def reflected(rows: Array) -> Array:
    r"""Return rows (n, p) with a first coordinate along :math:`-\mathbf{1}/\sqrt n`; twice is as before."""
    xp, root = namespace(rows), math.sqrt(rows.shape[0])
    return xp.concat([-xp.sum(rows, axis=0, keepdims=True) / root, to_complement(rows)], axis=0)


def with_constant(vectors: Array) -> Array:
    r"""Return :math:`(\mathbf{ZV}, \mathbf{1}/\sqrt n)` of shape (n, k + 1) for vectors of shape (n - 1, k)."""
    n, k = vectors.shape
    found = zeros((n + 1, k + 1), vectors)
    found[1:, :k] = vectors
    return add_constant(found)


def add_constant(vectors: Array) -> Array:
    r"""Replace vectors (n - 1, k), below and left of a row and a column, by what `with_constant` returns of them."""
    n, k = vectors.shape[0], vectors.shape[1] - 1
    root = math.sqrt(n)
    share = namespace(vectors).sum(vectors[1:, :k], axis=0) / root
    vectors[0, :k] = -share
    for rows in row_blocks(n - 1, 8 * vectors.shape[1]):
        vectors[rows.start + 1 : rows.stop + 1, :k] -= share / (root + 1.0)
    vectors[:, k] = 1.0 / root
    return vectors


def with_ones(rows: Array) -> Any:
    """Return rows (n, d), which may be sparse, with a last column of ones."""
    if is_sparse(rows):
        ones = sparse.csr_array(np.ones((rows.shape[0], 1), dtype=rows.dtype))
        return sparse.hstack([sparse.csr_array(rows), ones], format="csr")
    xp = namespace(rows)
    return xp.concat([rows, zeros((rows.shape[0], 1), rows) + 1.0], axis=1)


def framed(components: Array, last: Array) -> Array:
    """Return components (d, k) with a last row (k,) for a column of ones, and a last column for the constant."""
    xp = namespace(components)
    corner = xp.concat([zeros((components.shape[0], 1), components), zeros((1, 1), components) + 1.0], axis=0)
    return xp.concat([xp.concat([components, last[None, :]], axis=0), corner], axis=1)


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

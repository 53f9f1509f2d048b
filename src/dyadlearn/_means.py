r"""Accurate means, centred features, and coordinates orthogonal to the constant vector.

An unpenalised constant requires centred features, and each added or removed row changes the mean. A
second moment about zero loses digits if the mean is large relative to the spread. Moments about the
mean do not. They are merged, and split again, by

.. math:: \mathbf{C} = \mathbf{C}_1 + \mathbf{C}_2 + \frac{n_1n_2}{n_1+n_2}\,(\bar{\boldsymbol\phi}_2 -
          \bar{\boldsymbol\phi}_1)(\bar{\boldsymbol\phi}_2-\bar{\boldsymbol\phi}_1)^\top .

A mean is stored as two numbers for each feature: the rounded mean and its rounding error. After any
number of updates, its error is that of rounding the spread, not the offset.

Sparse features stay sparse. Columns without zeros, such as a constant or a year, are centred entry
by entry. The other columns would become dense. Their moments are corrected afterwards, which loses
no digits: the mean of a column with zeros is not large relative to its spread.

A Householder reflection maps :math:`\mathbf{1}/\sqrt n` to the first unit vector. Its other columns
are an orthonormal basis :math:`\mathbf{Z}` (n × n − 1) of the vectors that sum to zero. The basis
is never formed: with
:math:`\mathbf{x}_0` the first row,

.. math:: \mathbf{Z}^\top\mathbf{X} = \mathbf{X}_{1:} - \frac{\mathbf{x}_0 + \sum_i\mathbf{x}_i/\sqrt n}{\sqrt n + 1}.

Eigenvectors computed in these coordinates are orthogonal to :math:`\mathbf{1}` to the last digit.
Those of a doubly centred kernel are not: its null space contains :math:`\mathbf{1}`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn._array import (
    Array,
    cached_blocks,
    double,
    is_sparse,
    matmul,
    namespace,
    row_blocks,
    zeros,
)


def means_of(features: Array) -> Array:
    """Return the means (d,) of features (n, d) in double precision, accurate for any number of rows."""
    return value(mean_of(features))


def rest_of(features: Array, means: Array) -> Array:
    """Return the means (d,) of the differences of features (n, d) from `means`; only blocks of rows are copied."""
    return _sums(features, means) / features.shape[0]


def _sums(features: Array, means: Array | None = None) -> Array:
    """Return the sums (d,) of features (n, d), or of their differences from `means`, in double precision."""
    xp = namespace(features)
    total = zeros((features.shape[1],), features, xp.float64)
    for rows in _blocks(features):
        block = double(features[rows, :])
        total += xp.sum(block if means is None else block - means, axis=0)
    return total


def _blocks(matrix: Array) -> Iterator[slice]:
    """Yield slices of the rows of a matrix (n, d)."""
    return cached_blocks(matrix.shape[0], matrix, matrix.shape[1])


def to_complement(rows: Array) -> Array:
    r"""Return :math:`\mathbf{Z}^\top\mathbf{X}` of shape (n - 1, p) for rows of shape (n, p)."""
    xp = namespace(rows)
    root = math.sqrt(rows.shape[0])
    return rows[1:, :] - (rows[:1, :] + xp.sum(rows, axis=0, keepdims=True) / root) / (root + 1.0)


def reflected(rows: Array) -> Array:
    r"""Return rows (n, p) reflected so that the first is along :math:`-\mathbf{1}/\sqrt n`; this is an involution."""
    xp = namespace(rows)
    root = math.sqrt(rows.shape[0])
    return xp.concat([-xp.sum(rows, axis=0, keepdims=True) / root, to_complement(rows)], axis=0)


def with_constant(vectors: Array) -> Array:
    r"""Return :math:`(\mathbf{ZV}, \mathbf{1}/\sqrt n)` of shape (n, k + 1) for vectors of shape (n - 1, k)."""
    n, k = vectors.shape
    padded = zeros((n + 1, k + 1), vectors)
    padded[1:, :k] = vectors
    return add_constant(padded)


def add_constant(vectors: Array) -> Array:
    r"""Return `with_constant` of the block ``vectors[1:, :-1]`` of an array (n, k + 1), which is overwritten."""
    n = vectors.shape[0]
    k = vectors.shape[1] - 1
    root = math.sqrt(n)
    share = namespace(vectors).sum(vectors[1:, :k], axis=0) / root
    vectors[0, :k] = -share
    for rows in row_blocks(n - 1, k):
        vectors[rows.start + 1 : rows.stop + 1, :k] -= share / (root + 1.0)
    vectors[:, k] = 1.0 / root
    return vectors


def with_ones(rows: Array, value: float = 1.0) -> Any:
    """Return rows (n, d), which may be sparse, with a last column of ones, or of another value."""
    if is_sparse(rows):
        last = sparse.csr_array(np.full((rows.shape[0], 1), value, dtype=rows.dtype))
        return sparse.hstack([sparse.csr_array(rows), last], format="csr")
    return namespace(rows).concat([rows, zeros((rows.shape[0], 1), rows) + value], axis=1)


def framed(components: Array, last: Array) -> Array:
    """Return components (d, k) with a last row (k,) for the feature of ones and a last column for the constant."""
    xp = namespace(components)
    corner = xp.concat(
        [zeros((components.shape[0], 1), components), zeros((1, 1), components) + 1.0], axis=0
    )
    return xp.concat([xp.concat([components, last[None, :]], axis=0), corner], axis=1)


def mean_of(matrix: Array) -> Array:
    """Return the mean (2, d) of the rows of a matrix (n, d), in double precision.

    The mean of a feature that is equal in all rows is exactly this number: its differences from a
    rough mean are equal, and their mean is not rounded.
    """
    if is_sparse(matrix):
        n, d = matrix.shape
        rough = np.asarray(matrix.sum(axis=0)).reshape(-1) / n
        stored, full = _full_columns(matrix)
        gaps = (
            np.bincount(stored.indices, weights=stored.data - rough[stored.indices], minlength=d)
            / n
        )
        return _exact_sum(rough, np.where(full, gaps, 0.0))
    # The sum of many rows accumulates rounding errors; the sum of the differences from a rough mean
    # hardly does.
    rough = _sums(matrix) / matrix.shape[0]
    return _exact_sum(rough, rest_of(matrix, rough))


def value(mean: Array) -> Array:
    """Return a mean (2, d) as one number for each feature, shape (d,)."""
    return mean[0, :] + mean[1, :]


def difference(mean: Array, other: Array) -> Array:
    """Return the difference of two means, shape (d,)."""
    return (mean[0, :] - other[0, :]) + (mean[1, :] - other[1, :])


def moved(mean: Array, step: Array) -> Array:
    """Return a mean (2, d) moved by a step (d,)."""
    return _exact_sum(mean[0, :], mean[1, :] + step)


def centred(matrix: Array, mean: Array) -> Array:
    """Return dense features (n, d) minus their mean."""
    rows = matrix - mean[0, :]
    rows -= mean[1, :]
    return rows


def about(matrix: Array, mean: Array) -> tuple[Array, Array | None]:
    """Return features (n, d) minus their mean as far as they stay sparse, and the means (d,) still to be subtracted.

    These means are None for dense features.
    """
    if not is_sparse(matrix):
        return centred(matrix, mean), None
    stored, full = _full_columns(matrix)
    places = stored.indices
    data = np.where(full[places], (stored.data - mean[0, places]) - mean[1, places], stored.data)
    centred_columns = sparse.csr_array((data, places, stored.indptr), shape=matrix.shape)
    return centred_columns, np.where(full, 0.0, value(mean))


def _full_columns(matrix: Array) -> tuple[sparse.csr_array, np.ndarray]:
    """Return a sparse matrix (n, d) in canonical format, and a mask (d,) of the columns with an entry in each row."""
    stored = sparse.csr_array(matrix)
    if not stored.has_canonical_format:
        stored = stored.copy()
        stored.sum_duplicates()
    return stored, np.bincount(stored.indices, minlength=stored.shape[1]) == stored.shape[0]


def with_constants(matrix: Array, mean: Array) -> Array:
    r"""Return the rows by which coefficients (d + 2, p) of centred features are multiplied.

    The first d rows of the coefficients belong to the features. The next row has the values
    :math:`\mathbf{b}` at the mean, and the last one is :math:`-\bar{\boldsymbol\phi}^\top` times
    the first d. Dense rows are
    :math:`[\boldsymbol\phi-\bar{\boldsymbol\phi}, 1, 0]`, which is accurate for large offsets. Sparse rows are
    :math:`[\boldsymbol\phi, 1, 1]`, which preserves zeros.

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
    return mean, gram_about(*about(matrix, mean))


def gram_about(rows: Array, rest: Array | None) -> Array:
    """Return the Gram matrix (d, d) of the result of `about`."""
    gram = matmul(rows.T, rows)
    if rest is not None:
        gram -= rows.shape[0] * outer(rest, rest)
    return gram


def add_outer(matrix: Array, first: Array, second: Array) -> None:
    """Add the outer product of two vectors to a matrix (d, p), which is overwritten."""
    for rows in _blocks(matrix):
        matrix[rows, :] += outer(first[rows], second)


def outer(first: Array, second: Array) -> Array:
    """Return the outer product (d, p) of two vectors."""
    return first[:, None] * second[None, :]


def _exact_sum(first: Array, second: Array) -> Array:
    """Return rounded sums and their rounding errors, shape (2, d)."""
    total = first + second
    back = total - first
    return namespace(total).stack([total, (first - (total - back)) + (second - back)], axis=0)

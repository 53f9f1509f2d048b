r"""Rows without their constant: coordinates in which :math:`\mathbf{1}` has no part.

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

from dyadlearn._array import Array, double, is_sparse, namespace, row_blocks, zeros

__all__ = ["add_constant", "framed", "means_of", "reflected", "rest_of", "to_complement", "with_constant", "with_ones"]


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

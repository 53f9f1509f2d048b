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

from dyadlearn._array import Array, is_sparse, itemsize, namespace, row_blocks, zeros

__all__ = ["centred", "framed", "means_of", "to_complement", "with_constant", "with_ones"]


def centred(features: Array) -> tuple[Array, Array]:
    """Return features (n, d) without their means, and these (d,)."""
    xp = namespace(features)
    means = xp.mean(features, axis=0)
    return features - means, means


def means_of(features: Array) -> Array:
    """Return the means (d,) of features (n, d), to the last digit however many rows there are, and without a copy."""
    xp, (n, d) = namespace(features), features.shape
    means = xp.mean(features, axis=0)
    # A sum of many rows has the rounding of all of them; what is left of each has hardly any.
    left = zeros((d,), features)
    for block in row_blocks(n, d * itemsize(features)):
        left += xp.sum(features[block, :] - means, axis=0)
    return means + left / n


def to_complement(rows: Array) -> Array:
    r"""Return :math:`\mathbf{Z}^\top\mathbf{X}` of shape (n - 1, p) for rows of shape (n, p)."""
    xp, root = namespace(rows), math.sqrt(rows.shape[0])
    return rows[1:, :] - (rows[:1, :] + xp.sum(rows, axis=0, keepdims=True) / root) / (root + 1.0)


def with_constant(vectors: Array) -> Array:
    r"""Return :math:`(\mathbf{ZV}, \mathbf{1}/\sqrt n)` of shape (n, k + 1) for vectors of shape (n - 1, k)."""
    n, k = vectors.shape[0] + 1, vectors.shape[1]
    root, found = math.sqrt(n), zeros((n, k + 1), vectors)
    share = namespace(vectors).sum(vectors, axis=0) / root
    found[0, :k] = -share
    found[1:, :k] = vectors
    found[1:, :k] -= share / (root + 1.0)
    found[:, k] = 1.0 / root
    return found


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

r"""Decompositions in double precision: SVD of dense features in blocks, and eigendecomposition of Gram matrices.

**Features.** The Gram matrix :math:`\boldsymbol\Phi^\top\boldsymbol\Phi` resolves singular values
above
:math:`\sqrt\varepsilon\,s_{\max}`, a singular value decomposition those above :math:`\varepsilon\,s_{\max}`. The Gram
matrix is much cheaper, and as accurate if the features are well conditioned. It is used if its
condition is at most 10²: its eigenvectors are the right singular vectors. Otherwise the features
are factorised,
:math:`\boldsymbol\Phi = \mathbf{QR}`, by the QR decomposition of each block of rows below the R of the previous
blocks, followed by a singular value decomposition of R, which has the size of the Gram matrix.

Sparse features are decomposed by their Gram matrix, unless it has few digits of some combinations
(`gram_error`). Blocks of rows are then made dense, and factorised without Q (`right_svd`).

**Gram matrices** of features with different scales. The eigenvalues of :math:`\mathbf{G} =
\boldsymbol\Phi^\top\boldsymbol\Phi` are squared singular values. A plain eigendecomposition
resolves them to
:math:`\varepsilon\,\sigma_{\max}`: next to a feature of spread 10⁸, features of spread 1 are lost in rounding. The
entries of G are accurate to :math:`\varepsilon\sqrt{G_{ii}G_{jj}}`, so that the matrix of unit
diagonal,

.. math:: \mathbf{S} = \mathbf{D}^{-1}\mathbf{G}\mathbf{D}^{-1}, \qquad \mathbf{D}^2 = \mathrm{diag}(\mathbf{G}),

is accurate to :math:`\varepsilon`. It shows which features are collinear and which are only small.
Its Cholesky factor
:math:`\mathbf{S} = \mathbf{R}^\top\mathbf{R}` gives :math:`\mathbf{G} = \mathbf{F}^\top\mathbf{F}` with
:math:`\mathbf{F} = \mathbf{RD} = \mathbf{Q}\,\mathrm{diag}(\mathbf{s})\,\mathbf{V}^\top`. With the features in
descending order of D, both rows and columns of F descend, and its singular values keep their
digits.

An entry of V is small if the scales of its feature and of its singular value are far apart. It is
multiplied by large features, and so needs a small relative error. :math:`\mathbf{V} =
\mathbf{F}^{-1}\mathbf{Q}\,\mathrm{diag}(\mathbf{s})` has it if :math:`D_j > s_k`, and the singular
value decomposition otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import linalg

from dyadlearn._array import (
    BLOCK,
    Array,
    as_array_of,
    eigh,
    epsilon,
    largest,
    namespace,
    row_major,
    slices,
    svd,
    take_block,
    take_rows,
    to_numpy,
    zeros,
)

# Largest condition of a Gram matrix whose eigenvectors are as accurate as those from the features.
_CONDITION = 1e2


@dataclass(frozen=True)
class Blocks:
    """Features that are read in blocks of rows, in double precision.

    Attributes
    ----------
    shape : (int, int)
        n and d, with n ≥ d.
    read : callable
        Returns the rows of a slice as an array in double precision, which may be overwritten.
    like : array
        Array of the library and on the device of the computation, in double precision.
    """

    shape: tuple[int, int]
    read: Callable[[slice], Array]
    like: Array

    @property
    def slices(self) -> list[slice]:
        """Slices of rows, each at least four times as long as it is wide."""
        n, d = self.shape
        return list(slices(n, max(4 * d, BLOCK // max(d, 1))))

    def gram(self) -> Array:
        """Return the Gram matrix (d, d)."""
        total = zeros((self.shape[1], self.shape[1]), self.like)
        for rows in self.slices:
            block = self.read(rows)
            total += block.T @ block
        return total

    def times(self, matrix: Array, out: Array) -> Array:
        """Write the product (n, k) with a matrix (d, k) to `out`, and return it."""
        for rows in self.slices:
            out[rows, :] = self.read(rows) @ matrix
        return out


@dataclass(frozen=True)
class Thin:
    r"""An economy decomposition :math:`\boldsymbol\Phi = \mathbf{U}\,\mathrm{diag}(\mathbf{s})\,\mathbf{W}^\top`.

    Attributes
    ----------
    left : array of shape (n, d)
        U, in the array `out` of `economy_svd`.
    roots : array of shape (d,)
        Singular values s, in descending order.
    right : array of shape (d, d)
        W.
    lengths : array of shape (d,)
        Lengths of the columns of the features.
    """

    left: Array
    roots: Array
    right: Array
    lengths: Array

    def doubt(self, offsets: Array | None = None) -> Array:
        r"""Return the rounding error of each singular value, shape (d,); smaller values may be zero.

        The error of a column is :math:`\varepsilon` times its length, and that of a combination of
        columns follows. For centred features with `offsets` (d,), it is at least
        :math:`\varepsilon` times the offset.
        """
        return _doubt_of_roots(self.right, self.lengths, max(self.left.shape), offsets)


def _doubt_of_roots(right: Array, lengths: Array, n: int, offsets: Array | None) -> Array:
    """Return the result of `Thin.doubt` for right singular vectors (d, k) of features of n rows."""
    xp = namespace(right)
    scales = 8.0 * n**0.5 * lengths
    if offsets is not None:
        scales = scales + n**0.5 * xp.abs(offsets)
    return epsilon(right) * (xp.abs(right).T @ scales)


def economy_svd(features: Blocks, out: Array) -> Thin:
    """Decompose features (n, d) with n ≥ d; U is written to `out` (n, d)."""
    xp = namespace(features.like)
    gram = features.gram()
    values, vectors = eigh(gram)
    if _is_well_conditioned(values):
        roots = xp.flip(values**0.5)
        right = xp.flip(vectors, axis=1)
        return Thin(
            features.times(right / roots, out), roots, right, xp.linalg.diagonal(gram) ** 0.5
        )
    return _from_householder(features, gram, out)


def _from_householder(features: Blocks, gram: Array, out: Array) -> Thin:
    """Return the decomposition by QR of successive blocks of rows; Q is computed from the last block to the first."""
    xp = namespace(features.like)
    d = features.shape[1]
    factor = None
    tops = []
    order, back = _by_length(xp.linalg.diagonal(gram))
    slices = features.slices
    if len(slices) > 1 and slices[-1].stop - slices[-1].start < d:
        slices[-2:] = [slice(slices[-2].start, slices[-1].stop)]
    for rows in slices:
        block = take_rows(features.read(rows).T, order).T
        above = 0
        if factor is not None:
            above = d
            block = xp.concat([factor, block], axis=0)
        block, factor = xp.linalg.qr(block)
        tops.append(block[:above, :])
        out[rows, :] = block[above:, :]
    turn, roots, right = svd(factor)
    for rows, top in zip(reversed(slices), reversed(tops), strict=True):
        out[rows, :] = out[rows, :] @ turn
        turn = top @ turn
    return Thin(out, roots, take_rows(right.T, back), xp.linalg.diagonal(gram) ** 0.5)


def right_svd(features: Blocks, offsets: Array | None = None) -> tuple[Array, Array, float]:
    """Decompose features (n, d) without their left singular vectors, which would take a matrix (n, d).

    Parameters
    ----------
    features : Blocks
    offsets : array of shape (d,), default=None
        Means that were subtracted.

    Returns
    -------
    roots : array of shape (k,)
        Singular values that exceed their rounding error.
    right : array of shape (d, k)
        Right singular vectors.
    noise : float
        The largest square of a singular value that may be hidden by rounding; positive.
    """
    xp = namespace(features.like)
    squares = 0.0
    factor = None
    for rows in features.slices:
        squares = squares + xp.sum(features.read(rows) ** 2, axis=0)
    lengths = squares**0.5
    order, back = _by_length(lengths)
    for rows in features.slices:
        block = take_rows(features.read(rows).T, order).T
        factor = np.linalg.qr(
            block if factor is None else np.concatenate([factor, block]), mode="r"
        )
    _, roots, rows_of_right = svd(factor)
    right = take_rows(rows_of_right.T, back)
    doubt = _doubt_of_roots(right, lengths, features.shape[0], offsets)
    seen = roots > doubt
    hidden = largest(xp.where(seen, 0.0, doubt)) ** 2
    kept = np.flatnonzero(to_numpy(seen))
    noise = max(hidden, float(xp.finfo(roots.dtype).smallest_normal))
    return take_rows(roots, kept), row_major(take_rows(right.T, kept).T), noise


def graded_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the economy decomposition of a matrix with rows and columns of different scales, see `_by_length`."""
    xp = namespace(matrix)
    rows, rows_back = _by_length(xp.linalg.vector_norm(matrix, axis=1))
    columns, columns_back = _by_length(xp.linalg.vector_norm(matrix, axis=0))
    left, roots, right = svd(take_block(matrix, rows, columns))
    return take_rows(left, rows_back), roots, take_rows(right.T, columns_back).T


def _by_length(lengths: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of columns from the longest to the shortest, and the order back.

    Small singular values of R are more accurate if its long columns come first.
    """
    order = np.argsort(to_numpy(-lengths), kind="stable")
    return order, np.argsort(order)


def _is_well_conditioned(values: Array) -> bool:
    """Return whether the ratio of the largest of ascending eigenvalues to the smallest is below a limit."""
    return values.shape[0] > 0 and float(values[0]) * _CONDITION > float(values[-1]) > float(
        namespace(values).finfo(values.dtype).smallest_normal
    ) / epsilon(values)


#: Largest ratio of diagonal entries for which a plain eigendecomposition is used.
_PLAIN = 100.0
#: Largest number of features for the accurate SVD driver, which is ten times slower for many
#: features.
_FINE = 256


def gram_eigen(gram: Array, n_rows: int, rounding: Array | None = None) -> tuple[Array, Array]:
    r"""Return the eigenvalues and eigenvectors of a Gram matrix, without its null space.

    Small features are as accurate as large ones: the rank is that of the matrix of unit diagonal.

    Parameters
    ----------
    gram : array of shape (d, d)
        :math:`\boldsymbol\Phi^\top\boldsymbol\Phi` in double precision.
    n_rows : int
        Number n of rows of :math:`\boldsymbol\Phi`.
    rounding : array of shape (d,), default=None
        Rounding error of the diagonal in units of the machine precision. None is :math:`\sqrt n`
        times the diagonal, the rounding error of sums; it is larger after subtractions.

    Returns
    -------
    values : array of shape (k,)
        Eigenvalues in ascending order.
    vectors : array of shape (d, k)
        Contiguous, as in a model file: products with a part of a larger array are rounded
        differently.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn._svd import gram_eigen
    >>> gram_eigen(np.diag([1e20, 0.0, 1.0]), 5)[0]
    array([1.e+00, 1.e+20])
    """
    sizes = np.diagonal(to_numpy(gram))
    some = np.flatnonzero(sizes > 0)
    if some.size == 0:
        return gram[0, :0], gram[:, :0]
    if sizes.max() < _PLAIN * sizes[some].min():
        values, vectors = eigh(gram)
        least = max(n_rows, sizes.size) * largest(values)
        if rounding is not None:
            least = max(least, 4.0 * largest(rounding))
        start = int(np.searchsorted(to_numpy(values), epsilon(values) * least, side="right"))
        return values[start:], row_major(vectors[:, start:])
    order = some[np.argsort(-sizes[some], kind="stable")]
    known = None if rounding is None else to_numpy(rounding)[order]
    values, ordered = _graded(to_numpy(gram)[np.ix_(order, order)], n_rows, known)
    vectors = np.zeros((sizes.size, values.size))
    vectors[order] = ordered
    return as_array_of(row_major(values[::-1]), gram), as_array_of(
        row_major(vectors[:, ::-1]), gram
    )


def gram_error(
    gram: np.ndarray, n_rows: int, lengths_along: Callable[[np.ndarray], np.ndarray]
) -> float:
    r"""Return the largest relative error of a combination of features in a Gram matrix.

    It is :math:`\varepsilon` times the variance inflation, and infinite if the Gram matrix does not
    see a combination at all, unless the features themselves show that it is zero.

    Parameters
    ----------
    gram : array of shape (d, d)
    n_rows : int
    lengths_along : callable
        Function that returns the lengths (p,) of the features along combinations (d, p).
    """
    squares = np.diagonal(gram)
    some = np.flatnonzero(squares > 0)
    if some.size == 0:
        return 0.0
    order = some[np.argsort(-squares[some], kind="stable")]
    ordered = squares[order]
    scale = unit_scale(ordered)
    unit = gram[np.ix_(order, order)] * scale[:, None] * scale
    root, pivots = _echelon(unit, np.sqrt(unit_noise(ordered, scale, n_rows)))
    others = np.delete(np.arange(order.size), pivots)
    right = np.hstack([np.eye(pivots.size), root[:, others]])
    solved = linalg.solve_triangular(root[:, pivots], right, check_finite=False)
    inverse = solved[:, : pivots.size]
    combined = solved[:, pivots.size :]
    error = epsilon(gram) * float(np.sum(inverse**2, axis=1).max(initial=0.0))
    if not others.size:
        return error
    null = np.zeros((squares.size, others.size))
    null[order[pivots]] = -combined * scale[pivots, None]
    null[order[others], np.arange(others.size)] = scale[others]
    rounding = 8.0 * epsilon(gram) * (1.0 + np.abs(combined).sum(axis=0))
    if (lengths_along(null) > rounding).any():
        return math.inf
    return error


def unit_scale(diagonal: Array) -> Array:
    """Return the factors of rows and columns that scale a Gram matrix with this diagonal (d,) to a diagonal of about 1.

    They are powers of two, so that scaling is exact; 1 for a feature of zeros.
    """
    xp = namespace(diagonal)
    safe = xp.where(diagonal > 0, diagonal, 1.0)
    return 2.0 ** -xp.round(xp.log2(safe) / 2)


def unit_noise(diagonal: Array, scale: Array, n_rows: int, rounding: Array | None = None) -> Array:
    """Return the rounding error of the diagonal (d,) of a scaled Gram matrix.

    Parameters
    ----------
    diagonal, scale : arrays of shape (d,)
        Diagonal before scaling, and the factors of `unit_scale`.
    n_rows, rounding : as in `gram_eigen`

    Returns
    -------
    array of shape (d,)
    """
    sums = math.sqrt(n_rows) * diagonal if rounding is None else rounding
    return 4.0 * epsilon(diagonal) * (int(diagonal.shape[0]) + scale**2 * sums)


def _graded(
    gram: np.ndarray, n_rows: int, rounding: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of `gram_eigen` in descending order, for features in descending order of their scales."""
    squares = np.diagonal(gram)
    scale = unit_scale(squares)
    root, pivots = _echelon(
        gram * scale[:, None] * scale, np.sqrt(unit_noise(squares, scale, n_rows, rounding))
    )
    if gram.shape[0] <= _FINE:
        # The other driver, gesdd, computes small singular values only up to the rounding error of
        # the largest.
        Q, s, rows = linalg.svd(
            root / scale, full_matrices=False, lapack_driver="gesvd", check_finite=False
        )
    else:
        # That of numpy uses gesdd and lets other threads run, such as one that shows the progress.
        Q, s, rows = np.linalg.svd(root / scale, full_matrices=False)
    return s**2, np.where(
        squares[:, None] > s**2, _right_inverse(root, pivots, scale, Q) * s, rows.T
    )


def _echelon(unit: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R of shape (k, d) with RᵀR a matrix of unit diagonal (d, d), and its k linearly independent columns.

    Rows of R are zero before their pivots. A column that is a combination of previous columns has
    no pivot. The error of entry (i, j) of the matrix is at most the product of entries i and j of
    `doubt` (d,).
    """
    d = len(unit)
    root, failed = linalg.lapack.dpotrf(unit, clean=1)
    if not failed:
        inverse = linalg.solve_triangular(root, np.eye(d), check_finite=False)
        if (
            np.sum((doubt[:, None] * inverse) ** 2) < 1.0
        ):  # positive definite in spite of the errors
            return root, np.arange(d)
    root = np.zeros((d, d))
    left = np.diagonal(unit).copy()
    pivots = list[int]()
    doubt = doubt.copy()
    for column in range(d):
        # The remainder of a column has the error of the combination of columns that was subtracted.
        if left[column] <= doubt[column] ** 2:
            continue
        k = len(pivots)
        pivot = math.sqrt(left[column])
        row = (unit[column] - root[:k, column] @ root[:k]) / pivot
        root[k, column:] = row[column:]
        left -= row**2
        doubt += np.abs(row) * (doubt[column] / pivot)
        pivots.append(column)
    return root[: len(pivots)], np.array(pivots)


def _right_inverse(
    root: np.ndarray, pivots: np.ndarray, scale: np.ndarray, Q: np.ndarray
) -> np.ndarray:
    r"""Return the least solution (d, k) of :math:`\mathbf{F}\mathbf{P} = \mathbf{Q}` for F = R / `scale`."""
    k, d = root.shape
    others = np.delete(np.arange(len(scale)), pivots)
    # Columns without a pivot are combinations of larger ones, with coefficients of at most about
    # one.
    right = np.hstack([Q, root[:, others] / scale[others]])
    both = scale[pivots, None] * linalg.solve_triangular(root[:, pivots], right, check_finite=False)
    first = both[:, :k]
    null = both[:, k:]
    result = np.empty((d, k))
    result[others] = np.linalg.solve(null.T @ null + np.eye(d - k), null.T @ first)
    result[pivots] = first - null @ result[others]
    return result

r"""Singular value decompositions of dense features, in double precision and block by block.

Squares of features lose half of their digits: of singular values :math:`s_j` the Gram matrix
:math:`\boldsymbol\Phi^\top\boldsymbol\Phi` resolves those above :math:`\sqrt\varepsilon\,s_{\max}`, a singular value
decomposition those above :math:`\varepsilon\,s_{\max}`. The Gram matrix is much cheaper, though, and as good where the
features are well conditioned. So three ways are tried, from the cheapest to the most expensive one:

==================  ===========================================================================  =====================
way                 factor :math:`\boldsymbol\Phi = \mathbf{QR}`                                 used where
==================  ===========================================================================  =====================
Gram matrix         none: its eigenvectors are the right singular vectors                        its condition ≤ 10²
scaled Gram matrix  its scaled columns have a well conditioned Gram matrix, which gives R; a     scaled condition
                    second pass makes Q orthogonal to the last digit                             ≤ 10¹⁰
Householder         QR of one block of rows after the other, below the R of those before         everywhere else
==================  ===========================================================================  =====================

The last two end with a singular value decomposition of R, which is as small as the Gram matrix is.

Eigendecomposition of Gram matrices whose features have any scales.

The eigenvalues of :math:`\mathbf{G} = \boldsymbol\Phi^\top\boldsymbol\Phi` are squared singular values. A plain
eigendecomposition resolves them to :math:`\varepsilon\,\sigma_{\max}`: beside a feature of spread 10⁸, all features of
spread 1 are rounding. The entries of G do not lose them. Each is exact to :math:`\varepsilon\sqrt{G_{ii}G_{jj}}`, so
that the matrix of unit diagonal,

.. math:: \mathbf{S} = \mathbf{D}^{-1}\mathbf{G}\mathbf{D}^{-1}, \qquad \mathbf{D}^2 = \mathrm{diag}(\mathbf{G}),

is exact to :math:`\varepsilon` and tells collinear features from small ones. Its Cholesky factor
:math:`\mathbf{S} = \mathbf{R}^\top\mathbf{R}` gives :math:`\mathbf{G} = \mathbf{F}^\top\mathbf{F}` with
:math:`\mathbf{F} = \mathbf{RD} = \mathbf{Q}\,\mathrm{diag}(\mathbf{s})\,\mathbf{V}^\top`. With the features in
descending order of D, both rows and columns of F descend, and its singular values keep their digits.

An entry of V is small where its feature and its singular value are far apart. Multiplied by large features, it needs
digits of its own. :math:`\mathbf{V} = \mathbf{F}^{-1}\mathbf{Q}\,\mathrm{diag}(\mathbf{s})` has them where
:math:`D_j > s_k`, the singular value decomposition elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg

from dyadlearn._array import (
    Array,
    as_array_of,
    cholesky,
    eigh,
    epsilon,
    largest,
    namespace,
    row_blocks,
    solve_lower,
    svd,
    take_block,
    take_rows,
    to_numpy,
    zeros,
)

# Where a Gram matrix is as good as the features: its largest eigenvalue over its smallest.
_CONDITION = 1e2
# Where it still gives a factor that a second pass makes exact.
_SCALED_CONDITION = 1e10


@dataclass(frozen=True)
class Blocks:
    """Features that are read in blocks of rows, in double precision.

    Attributes
    ----------
    shape : (int, int)
        n and d, with n ≥ d.
    read : callable
        Returns rows of a slice as an array in double precision, which may be overwritten.
    like : array
        Of the library and on the device to compute with, in double precision.
    """

    shape: tuple[int, int]
    read: Callable[[slice], Array]
    like: Array

    @property
    def slices(self) -> list[slice]:
        """Slices of rows, each at least four times as long as it is wide."""
        n, d = self.shape
        return list(row_blocks(n, 8 * max(d, 1), max(2**25, 32 * d * d)))

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
        U, in the array that was handed in.
    roots : array of shape (d,)
        Singular values s, in descending order.
    right : array of shape (d, d)
        W.
    lengths : array of shape (d,)
        Of the columns.
    """

    left: Array
    roots: Array
    right: Array
    lengths: Array

    def doubt(self, offsets: Array | None = None) -> Array:
        r"""Return the rounding error of each singular value, shape (d,): smaller ones cannot be told from zero.

        Each column is known to :math:`\varepsilon` of its length, and so is a combination of columns to as much of
        theirs. Features that were centred have `offsets` (d,), and are known to :math:`\varepsilon` of these at best.
        """
        xp, n = namespace(self.roots), max(self.left.shape)
        known = 8.0 * n**0.5 * self.lengths
        if offsets is not None:
            known = known + n**0.5 * xp.abs(offsets)
        return epsilon(self.roots) * (xp.abs(self.right).T @ known)


def economy_svd(features: Blocks, out: Array) -> Thin:
    """Decompose features (n, d) with n ≥ d; U is written to `out` (n, d)."""
    xp, gram = namespace(features.like), features.gram()
    values, vectors = eigh(gram)
    if _is_well_conditioned(values, _CONDITION):
        roots = xp.flip(values**0.5)
        right = xp.flip(vectors, axis=1)
        return Thin(features.times(right / roots, out), roots, right, xp.linalg.diagonal(gram) ** 0.5)
    return _from_scaled_gram(features, gram, out) or _from_householder(features, gram, out)


def _from_scaled_gram(features: Blocks, gram: Array, out: Array) -> Thin | None:
    """Return the decomposition by way of columns of unit length; None where these are close to dependent."""
    xp = namespace(gram)
    lengths = xp.linalg.diagonal(gram) ** 0.5
    if not bool(xp.all(lengths > 0)):
        return None
    order, back = _by_length(lengths)
    scaled = take_block(gram / lengths[:, None] / lengths[None, :], order, order)
    if not _is_well_conditioned(xp.linalg.eigvalsh(scaled), _SCALED_CONDITION):
        return None
    ones = xp.eye(gram.shape[0], dtype=gram.dtype, device=gram.device)
    lower, long = cholesky(scaled), take_rows(lengths, order)
    # Q = Φ D⁻¹ R⁻¹ is orthogonal to ε times the condition; its own Gram matrix, close to one, tells by how much.
    turn = take_rows(solve_lower(lower, ones).T / long[:, None], back)
    near = Blocks(features.shape, lambda rows: out[rows, :], features.times(turn, out))
    correction = cholesky(near.gram())
    left, roots, right = svd((correction.T @ lower.T) * long)
    return Thin(near.times(solve_lower(correction, ones).T @ left, out), roots, take_rows(right.T, back), lengths)


def _from_householder(features: Blocks, gram: Array, out: Array) -> Thin:
    """Return the decomposition by QR of one block of rows after the other, and from the last back to the first."""
    xp, d, factor, tops = namespace(features.like), features.shape[1], None, []
    order, back = _by_length(xp.linalg.diagonal(gram))
    slices = features.slices
    if len(slices) > 1 and slices[-1].stop - slices[-1].start < d:
        slices[-2:] = [slice(slices[-2].start, slices[-1].stop)]
    for rows in slices:
        block = take_rows(features.read(rows).T, order).T
        above = 0 if factor is None else d
        block, factor = xp.linalg.qr(block if factor is None else xp.concat([factor, block], axis=0))
        tops.append(block[:above, :])
        out[rows, :] = block[above:, :]
    turn, roots, right = svd(factor)
    for rows, top in zip(reversed(slices), reversed(tops), strict=True):
        out[rows, :] = out[rows, :] @ turn
        turn = top @ turn
    return Thin(out, roots, take_rows(right.T, back), xp.linalg.diagonal(gram) ** 0.5)


def graded_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the economy decomposition of a matrix whose rows and columns have other sizes, see `_by_length`."""
    xp = namespace(matrix)
    rows, rows_back = _by_length(xp.linalg.vector_norm(matrix, axis=1))
    columns, columns_back = _by_length(xp.linalg.vector_norm(matrix, axis=0))
    left, roots, right = svd(take_block(matrix, rows, columns))
    return take_rows(left, rows_back), roots, take_rows(right.T, columns_back).T


def _by_length(lengths: Array) -> tuple[np.ndarray, np.ndarray]:
    """Return the order of columns from the longest to the shortest, and the order back.

    Where R has its long columns first, its small singular values keep digits that they would lose otherwise.
    """
    order = np.argsort(-to_numpy(lengths), kind="stable")
    return order, np.argsort(order)


def _is_well_conditioned(values: Array, limit: float) -> bool:
    """Return whether ascending eigenvalues span less than a limit, and are numbers at all."""
    return values.shape[0] > 0 and float(values[0]) * limit > float(values[-1]) > float(
        namespace(values).finfo(values.dtype).smallest_normal
    ) / epsilon(values)


#: Diagonals that span less than this factor are decomposed as they are.
_PLAIN = 100.0
#: So many features at most have all digits of their small singular values, which takes ten times as long for many.
_FINE = 256


def gram_eigen(gram: Array, n_rows: int, rounding: Array | None = None) -> tuple[Array, Array]:
    r"""Return the eigenvalues and eigenvectors of a Gram matrix, without its null space.

    Features of any scales keep their digits: the rank is that of the matrix of unit diagonal.

    Parameters
    ----------
    gram : array of shape (d, d)
        :math:`\boldsymbol\Phi^\top\boldsymbol\Phi` in double precision.
    n_rows : int
        Number n of rows of :math:`\boldsymbol\Phi`.
    rounding : array of shape (d,), default=None
        What the diagonal may be wrong by, in units of the machine precision; None is :math:`\sqrt n` times itself, the
        rounding of sums. Of sums that others were subtracted from it is more.

    Returns
    -------
    values : array of shape (k,)
        In ascending order.
    vectors : array of shape (d, k)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn._svd import gram_eigen
    >>> gram_eigen(np.diag([1e20, 0.0, 1.0]), 5)[0]
    array([1.e+00, 1.e+20])
    """
    sizes = to_numpy(namespace(gram).linalg.diagonal(gram))
    some = np.flatnonzero(sizes > 0)
    if some.size == 0:
        return gram[0, :0], gram[:, :0]
    if sizes.max() < _PLAIN * sizes[some].min():
        values, vectors = eigh(gram)
        least = max(n_rows, sizes.size) * largest(values)
        if rounding is not None:
            least = max(least, 4.0 * largest(rounding))
        # In ascending order: what is kept stands at the end.
        start = int(np.searchsorted(to_numpy(values), epsilon(values) * least, side="right"))
        return values[start:], vectors[:, start:]
    order = some[np.argsort(-sizes[some], kind="stable")]
    known = None if rounding is None else to_numpy(rounding)[order]
    values, own = _graded(to_numpy(gram)[np.ix_(order, order)], n_rows, known)
    vectors = np.zeros((sizes.size, values.size))
    vectors[order] = own
    return as_array_of(values[::-1], gram), as_array_of(vectors[:, ::-1], gram)


def unit_scale(diagonal: Array) -> Array:
    """Return what rows and columns of a Gram matrix with this diagonal (d,) are multiplied by for one of about ones.

    They are powers of two, so that nothing is rounded; 1 for a feature that is zero.
    """
    xp = namespace(diagonal)
    safe = xp.where(diagonal > 0, diagonal, xp.ones_like(diagonal))
    return 2.0 ** -xp.round(xp.log2(safe) / 2)


def unit_noise(diagonal: Array, scale: Array, n_rows: int, rounding: Array | None = None) -> Array:
    """Return what the diagonal (d,) of a Gram matrix may be wrong by once its rows and columns are scaled.

    Parameters
    ----------
    diagonal, scale : arrays of shape (d,)
        As it is, and what it is scaled by: see `unit_scale`.
    n_rows, rounding : as in `gram_eigen`

    Returns
    -------
    array of shape (d,)
    """
    sums = math.sqrt(n_rows) * diagonal if rounding is None else rounding
    return 4.0 * epsilon(diagonal) * (int(diagonal.shape[0]) + scale**2 * sums)


def _graded(gram: np.ndarray, n_rows: int, rounding: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return what `gram_eigen` does, in descending order, for features in descending order of their scales."""
    squares = np.diagonal(gram)
    scale = unit_scale(squares)
    root, pivots = _echelon(gram * scale[:, None] * scale, np.sqrt(unit_noise(squares, scale, n_rows, rounding)))
    # The default driver, that of other libraries, knows small singular values to the rounding of the largest only.
    driver: Literal["gesvd", "gesdd"] = "gesvd" if gram.shape[0] <= _FINE else "gesdd"
    Q, s, rows = linalg.svd(root / scale, full_matrices=False, lapack_driver=driver, check_finite=False)
    return s**2, np.where(squares[:, None] > s**2, _right_inverse(root, pivots, scale, Q) * s, rows.T)


def _echelon(unit: np.ndarray, doubt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return R of shape (k, d) with RᵀR a matrix of unit diagonal (d, d), and its k linearly independent columns.

    R is zero before its pivots, and a column that is a combination of those before it has none. Entries (i, j) of the
    matrix may be wrong by the product of entries i and j of `doubt` (d,).
    """
    d = len(unit)
    root, failed = linalg.lapack.dpotrf(unit, clean=1)
    if not failed:
        inverse = linalg.solve_triangular(root, np.eye(d), check_finite=False)
        if np.sum((doubt[:, None] * inverse) ** 2) < 1.0:  # then it is definite whatever is wrong with it
            return root, np.arange(d)
    root, left, pivots = np.zeros((d, d)), np.diagonal(unit).copy(), list[int]()
    doubt = doubt.copy()
    for column in range(d):
        # What is left of a column is as uncertain as the combination of columns that was taken from it.
        if left[column] <= doubt[column] ** 2:
            continue
        k, pivot = len(pivots), math.sqrt(left[column])
        row = (unit[column] - root[:k, column] @ root[:k]) / pivot
        root[k, column:] = row[column:]
        left -= row**2
        doubt += np.abs(row) * (doubt[column] / pivot)
        pivots.append(column)
    return root[: len(pivots)], np.array(pivots)


def _right_inverse(root: np.ndarray, pivots: np.ndarray, scale: np.ndarray, Q: np.ndarray) -> np.ndarray:
    r"""Return the least solution (d, k) of :math:`\mathbf{F}\mathbf{P} = \mathbf{Q}` for F = R / `scale`."""
    (k, d), others = root.shape, np.delete(np.arange(len(scale)), pivots)
    # Columns without a pivot are combinations of larger ones, with coefficients of no more than about one.
    right = np.hstack([Q, root[:, others] / scale[others]])
    both = scale[pivots, None] * linalg.solve_triangular(root[:, pivots], right, check_finite=False)
    first, null = both[:, :k], both[:, k:]
    result = np.empty((d, k))
    result[others] = np.linalg.solve(null.T @ null + np.eye(d - k), null.T @ first)
    result[pivots] = first - null @ result[others]
    return result

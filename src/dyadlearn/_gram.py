r"""Eigendecomposition of Gram matrices whose features have any scales.

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
from typing import Literal

import numpy as np
from scipy import linalg

from dyadlearn._array import Array, as_array_of, eigh, epsilon, largest, namespace, to_numpy

__all__ = ["gram_eigen", "unit_noise", "unit_scale"]

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
    >>> from dyadlearn._gram import gram_eigen
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

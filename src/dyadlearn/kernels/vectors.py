"""Kernels between the rows of two feature matrices.

Every function takes `A` (n_a, d) and `B` (n_b, d) and returns the block (n_a, n_b); without `B` it
returns the Gram matrix of `A`. Features are numpy arrays, scipy sparse matrices (the result is
dense) or arrays of any Array API library; float32 features give a float32 result.

The kernels that have a name in scikit-learn are equal to its results up to rounding. Kernels that
are functions of inner products use the same operations in every library. For the others,
scikit-learn's functions are called on numpy arrays and sparse matrices, and an equivalent
implementation on other arrays.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.metrics import pairwise

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    cast,
    double,
    float_dtype,
    is_foreign,
    is_sparse,
    matmul,
    namespace,
    row_blocks,
    to_numpy,
    with_diagonal,
    zeros,
)
from dyadlearn._checks import check_matrix, check_same_library
from dyadlearn._codes import row_keys
from dyadlearn._memory import check_kernel_memory
from dyadlearn.exceptions import KernelError, MarkerCodingWarning, MissingCallWarning
from dyadlearn.kernels.gram import named
from dyadlearn.kernels.repair import is_finite

# Largest rounding error of an exponent of the Gaussian kernel, relative to the size of equal rows.
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)

# --- k(a, a) of every row --------------------------------------------------------------------------


def _squares(A: Array) -> Array:
    return square_norms(_prepared(A, None)[0])


def _ones(A: Array, **_: Any) -> Array:
    squares = _squares(A)
    return namespace(squares).ones_like(squares)


def _nonzero(A: Array) -> Array:
    """Return 1 for every row that is not zero, else 0."""
    squares = _squares(A)
    return namespace(squares).astype(squares > 0, squares.dtype)


def _of_both(function: Callable[[Array], Array], A: Array, B: Array) -> tuple[Array, Array]:
    """Return a function of both operands, computed once if they are the same."""
    of_A = function(A)
    return of_A, of_A if B is A else function(B)


def _entries(features: Array) -> Array:
    """Return the entries of a matrix; of a sparse one, those that are stored."""
    return features.data if is_sparse(features) else features


# --- parameters that are estimated from the training rows -------------------------------------------


def _check_counts(markers: Array) -> None:
    """Raise if markers are not counts of an allele."""
    xp = namespace(markers)
    entries = _entries(markers)
    if 0 in entries.shape:
        return
    lowest = float(xp.min(entries))
    highest = float(xp.max(entries))
    if lowest < 0 or highest > 2:
        raise KernelError(
            f"kernel 'vanraden' takes counts of an allele, 0 to 2 (add 1 to -1, 0 and 1; write NaN "
            f"for missing calls), found numbers from {lowest:g} to {highest:g}."
        )


def _warn_of_presence(markers: Array) -> None:
    """Warn if all markers are 0 or 1, which presence of an allele is coded by."""
    xp = namespace(markers)
    entries = _entries(markers)
    if bool(xp.all((entries == 0) | (entries == 1))) and bool(xp.any(entries == 1)):
        warnings.warn(
            "All markers of kernel 'vanraden' are 0 or 1, but it takes counts 0, 1 and 2 of an "
            "allele: if 1 means that "
            "a line has the allele, as inbred lines are often coded, pass 2 * M.",
            MarkerCodingWarning,
            stacklevel=2,
        )


def _calls(markers: Array) -> tuple[Array, Array | None]:
    """Return markers with zero for missing calls, and a matrix of ones for these; None if no call is missing."""
    entries = _entries(markers)
    if 0 in entries.shape or is_finite(entries):
        return markers, None
    xp = namespace(entries)
    gaps = xp.isnan(entries)
    calls = xp.where(gaps, 0.0, entries)
    missing = xp.astype(gaps, entries.dtype)
    if not is_sparse(markers):
        return calls, missing
    places = (markers.indices, markers.indptr)
    return (
        csr_array((calls, *places), shape=markers.shape),
        csr_array((missing, *places), shape=markers.shape),
    )


def _imputed(markers: Array, means: Array, *, silent: bool = False) -> Array:
    """Return markers with the mean (d,) of the marker for missing calls, after a warning with their number."""
    calls, missing = _calls(markers)
    if missing is None:
        return markers
    if not silent:
        count = int(namespace(means).sum(_entries(missing)))
        total = math.prod(markers.shape)
        warnings.warn(
            f"{count} of {total} calls of kernel 'vanraden' ({100 * count / total:.1f} %) are "
            f"missing: the mean of the marker in training is used for them.",
            MissingCallWarning,
            stacklevel=3,
        )
    if is_sparse(missing):
        return calls + missing.multiply(means).tocsr()
    return calls + missing * means


def _allele_frequencies(markers: Array, weights: Array | None = None) -> dict[str, Any]:
    """Return the frequency of the counted allele of every marker, half its mean over the rows with a call."""
    markers = _prepared(markers, None, allow_nan=True)[0]
    calls, missing = _calls(markers)
    _check_counts(calls)
    _warn_of_presence(calls)
    if weights is None:
        weights = np.ones(markers.shape[0])
    counts = as_array_of(weights, markers, markers.dtype)
    xp = namespace(counts)
    total = xp.sum(counts)
    if missing is not None:
        total = total - missing.T @ counts
        # A marker without a call is not used: its frequency is 0.
        total = xp.where(total > 0, total, 1.0)
    return {"frequencies": to_numpy((calls.T @ counts) / (2.0 * total))}


# --- the kernels -----------------------------------------------------------------------------------


@named("tanimoto", diagonal=_ones)
def tanimoto(A: Array, B: Array | None = None) -> Array:
    r"""Compute the Tanimoto similarity; for binary vectors it is the Jaccard similarity.

    .. math:: k(a, b) = \frac{\langle a, b\rangle}{\|a\|^2 + \|b\|^2 - \langle a, b\rangle}

    Two zero vectors have similarity 1. The kernel is positive semi-definite for all real vectors,
    because it equals
    :math:`\sum_{p \ge 1} \langle a, b\rangle^p / (\|a\|^2 + \|b\|^2)^p`, a sum of products of kernels.

    Parameters
    ----------
    A : array or sparse matrix of shape (n_a, d)
    B : array or sparse matrix of shape (n_b, d), optional
        Features of the columns; `A` by default.

    Returns
    -------
    array of shape (n_a, n_b)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import tanimoto
    >>> tanimoto(np.array([[1, 1, 0, 1], [0, 1, 1, 1]]))
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    A, B = _operands(A, B, n_blocks=4)
    xp = namespace(A, B)
    K = matmul(A, B.T)
    # From the products (copied, as K is overwritten), so that a Gram matrix has exactly 1 on its
    # diagonal.
    if B is A:
        a = b = xp.asarray(xp.linalg.diagonal(K), copy=True)
    else:
        a = square_norms(A)
        b = square_norms(B)
    for rows in row_blocks(*K.shape):
        union = a[rows, None] + b[None, :] - K[rows, :]
        empty = xp.astype(union == 0, K.dtype)
        K[rows, :] = (K[rows, :] + empty) / (union + empty)
    return K


@named("minmax", diagonal=_ones)
def minmax(A: Array, B: Array | None = None) -> Array:
    r"""Compute the min–max similarity (generalised Jaccard) of non-negative vectors such as counts.

    .. math:: k(a, b) = \frac{\sum_i \min(a_i, b_i)}{\sum_i \max(a_i, b_i)}
              = \frac{\|a\|_1 + \|b\|_1 - \|a - b\|_1}{\|a\|_1 + \|b\|_1 + \|a - b\|_1}

    Two zero vectors have similarity 1. The second fraction is computed, in blocks of rows.

    Parameters
    ----------
    A : array or sparse matrix of shape (n_a, d)
        Non-negative.
    B : array or sparse matrix of shape (n_b, d), optional
        Features of the columns; `A` by default.

    Returns
    -------
    array of shape (n_a, n_b)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import minmax
    >>> minmax(np.array([[2, 0, 1]]), np.array([[1, 1, 1], [2, 0, 1]]))
    array([[0.5, 1. ]])
    """
    A, B = _operands(A, B, nonnegative="minmax", n_kernels=1.5, n_blocks=6)
    xp = namespace(A, B)
    a, b = _of_both(_row_sums, A, B)
    K = _manhattan(A, B)
    for rows in row_blocks(*K.shape):
        total = a[rows, None] + b[None, :]
        twice_min = total - K[rows, :]
        twice_max = total + K[rows, :]
        # Rounding can make the difference slightly negative if nothing is shared.
        twice_min = xp.where(twice_min < 0, 0.0, twice_min)
        empty = xp.astype(twice_max == 0, K.dtype)
        K[rows, :] = (twice_min + empty) / (twice_max + empty)
    return K


@named("delta", diagonal=_ones)
def delta(A: Array, B: Array | None = None) -> Array:
    r"""Return 1 where two rows are equal in every feature, 0 elsewhere.

    .. math:: k(a, b) = [a = b]

    Parameters
    ----------
    A : array or sparse matrix of shape (n_a, d)
    B : array or sparse matrix of shape (n_b, d), optional
        Features of the columns; `A` by default.

    Returns
    -------
    array of shape (n_a, n_b)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import delta
    >>> delta(np.array([[0, 1], [2, 3]]), np.array([[2, 3], [0, 0], [0, 1]]))
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """
    A, B = _operands(A, B)
    number_of: dict[bytes, int] = {}

    def numbers(features: Array) -> Array:
        keys = row_keys(features)
        return as_array_of([number_of.setdefault(key, len(number_of)) for key in keys], features)

    a, b = _of_both(numbers, A, B)
    return namespace(A).astype(a[:, None] == b[None, :], A.dtype)


@named("vanraden", estimate=_allele_frequencies, missing=True)
def vanraden(A: Array, B: Array | None = None, *, frequencies: Any = None) -> Array:
    r"""Compute the relationship of VanRaden (2008, first method) from counts 0, 1, 2 of one allele of each marker.

    .. math:: k(a, b) = \frac{\sum_j (a_j - 2 p_j)(b_j - 2 p_j)}{2 \sum_j p_j (1 - p_j)}

    `frequencies` are p, one for each marker or one for all. By default they are half the means of
    the training rows: the rows of `A` in a Gram matrix, and of `B` otherwise. A missing call (NaN) is
    replaced by its expectation 2p; a `MissingCallWarning` tells how many calls of `A` are missing.

    Examples
    --------
    >>> import numpy as np
    >>> vanraden(np.array([[0.0, 1.0], [2.0, 1.0]]))
    array([[ 1., -1.],
           [-1.,  1.]])
    """
    A, B = _operands(A, B, allow_nan=True)
    _check_counts(_calls(A)[0])
    xp = namespace(A, B)
    d = A.shape[1]
    if frequencies is None:
        frequencies = _allele_frequencies(B)["frequencies"]
    p = as_array_of(frequencies, A, dtype=A.dtype)
    if tuple(p.shape) not in ((), (d,)) or not bool(xp.all((p >= 0) & (p <= 1))):
        raise KernelError(
            f"frequencies of kernel 'vanraden' must be 0 to 1, one for each of {d} markers, found "
            f"shape {tuple(p.shape)} and numbers from {float(xp.min(p)):.3g} to "
            f"{float(xp.max(p)):.3g}."
        )
    p = zeros((d,), A) + p
    scale = 2.0 * float(xp.sum(p * (1.0 - p)))
    if scale == 0:
        raise KernelError(
            "kernel 'vanraden' needs a marker with both alleles, but all frequencies are 0 or 1."
        )
    is_gram = B is A
    A = _imputed(A, 2.0 * p)
    B = A if is_gram else _imputed(B, 2.0 * p, silent=True)
    # The markers are not centred, so that sparse ones stay sparse.
    K = matmul(A, B.T)
    K -= 2.0 * (A @ p)[:, None]
    K -= (2.0 * (B @ p) - 4.0 * xp.sum(p * p))[None, :]
    K /= scale
    return K


@named("linear", diagonal=_squares)
def linear(A: Array, B: Array | None = None) -> Array:
    r"""Compute the inner products of rows.

    .. math:: k(a, b) = \langle a, b\rangle

    Examples
    --------
    >>> import numpy as np
    >>> linear(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """
    A, B = _operands(A, B)
    return matmul(A, B.T)


@named("poly", "polynomial")
def polynomial(
    A: Array,
    B: Array | None = None,
    *,
    degree: float = 3,
    gamma: float | None = None,
    coef0: float = 1,
) -> Array:
    r"""Compute the polynomial kernel; `gamma` is 1/d by default, d the number of features.

    .. math:: k(a, b) = (\gamma \langle a, b\rangle + c_0)^{\text{degree}}

    Examples
    --------
    >>> import numpy as np
    >>> polynomial(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]), degree=2, gamma=1, coef0=0)
    array([[121.]])
    """
    A, B = _operands(A, B)
    degree = _number("polynomial", "degree", degree, least=1)
    K = matmul(A, B.T)
    K *= _gamma("polynomial", gamma, A)
    K += _number("polynomial", "coef0", coef0)
    K **= degree
    return K


@named("cosine", diagonal=_nonzero)
def cosine(A: Array, B: Array | None = None) -> Array:
    r"""Compute the cosine of the angle between two vectors; 0 if one of them is zero.

    .. math:: k(a, b) = \frac{\langle a, b\rangle}{\|a\| \, \|b\|}

    Examples
    --------
    >>> import numpy as np
    >>> cosine(np.array([[2.0, 0.0]]), np.array([[0.0, 1.0], [3.0, 0.0], [0.0, 0.0]]))
    array([[0., 1., 0.]])
    """
    A, B = _operands(A, B)
    a, b = _of_both(_lengths, A, B)
    K = matmul(A, B.T)
    K /= a[:, None]
    K /= b[None, :]
    return K


@named("rbf", diagonal=_ones, divisible=True)
def rbf(A: Array, B: Array | None = None, *, gamma: float | None = None) -> Array:
    r"""Compute the Gaussian kernel; `gamma` is 1/d by default.

    .. math:: k(a, b) = \exp(-\gamma \|a - b\|^2)

    Examples
    --------
    >>> import numpy as np
    >>> rbf(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [3.0, 4.0]]), gamma=1).round(3)
    array([[1., 0.]])
    """
    A, B = _operands(A, B, n_blocks=3)
    gamma = _gamma("rbf", gamma, A)
    # In double precision, because the difference of the squares cancels digits.
    right = double(B) * (2.0 * gamma)
    b = square_norms(double(B)) * gamma
    xp = namespace(B)
    K = zeros((A.shape[0], B.shape[0]), b, A.dtype)
    # A sixteenth of a block stays in the cache; products of fewer rows are slow.
    for rows in row_blocks(A.shape[0], (16, A.shape[1] + B.shape[0])):
        left = double(A[rows, :])
        exponents = matmul(left, right.T)
        a = square_norms(left) * gamma
        exponents -= a[:, None]
        exponents -= b[None, :]
        # Of equal rows only rounding remains, by which they would differ: kernels of repeated rows
        # are singular.
        exponents[exponents > (-_ROUNDING * a)[:, None]] = 0.0
        K[rows, :] = cast(xp.exp(exponents), A.dtype)
    return with_diagonal(K, 1.0) if B is A else K


@named("laplacian", diagonal=_ones, divisible=True)
def laplacian(A: Array, B: Array | None = None, *, gamma: float | None = None) -> Array:
    r"""Compute the Laplacian kernel; `gamma` is 1/d by default.

    .. math:: k(a, b) = \exp(-\gamma \|a - b\|_1)

    Examples
    --------
    >>> import numpy as np
    >>> laplacian(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0], [3.0, 4.0]]), gamma=1).round(4)
    array([[1.e+00, 9.e-04]])
    """
    A, B = _operands(A, B, n_kernels=2)
    gamma = _gamma("laplacian", gamma, A)
    K = _manhattan(A, B)
    K *= -gamma
    return namespace(K).exp(K)


@named("chi2", diagonal=_ones, divisible=True)
def chi2(A: Array, B: Array | None = None, *, gamma: float = 1.0) -> Array:
    r"""Compute the exponential χ² kernel of non-negative vectors; 0/0 counts as 0.

    .. math:: k(a, b) = \exp\Bigl(-\gamma \sum_i \frac{(a_i - b_i)^2}{a_i + b_i}\Bigr)

    Examples
    --------
    >>> import numpy as np
    >>> chi2(np.array([[1.0, 0.0]]), np.array([[3.0, 0.0]])).round(3)
    array([[0.368]])
    """
    gamma = _number("chi2", "gamma", gamma, least=0)
    A, B = _operands(A, B, nonnegative="chi2")
    if is_sparse(A) or is_sparse(B):
        raise ValueError("kernel 'chi2' takes no sparse features; make them dense with .toarray().")
    if not is_foreign(A):
        # scikit-learn refuses read-only arrays, such as those of a frame.
        return pairwise.chi2_kernel(np.require(A, None, "W"), np.require(B, None, "W"), gamma=gamma)
    xp = namespace(A)

    def measure(a: Array, b: Array) -> Array:
        difference = a - b
        total = a + b
        empty = xp.astype(total == 0, total.dtype)
        return xp.sum(difference * difference / (total + empty), axis=-1)

    return xp.exp(-gamma * _blockwise(A, B, measure))


def _operands(
    A: Any,
    B: Any,
    nonnegative: str | None = None,
    *,
    n_kernels: float | None = None,
    n_blocks: int = 1,
    allow_nan: bool = False,
) -> tuple[Array, Array]:
    """Return what `_prepared` returns, after checking that there is memory for the kernel (n_a, n_b).

    Parameters
    ----------
    A, B, nonnegative, allow_nan
        As in `_prepared`.
    n_kernels : float, optional
        Number of matrices in double precision; by default the kernel in its own.
    n_blocks : int, default=1
        Number of blocks of rows that are in memory beside the kernel.
    """
    A, B = _prepared(A, B, nonnegative, allow_nan=allow_nan)
    n_blocks += 2 * (is_sparse(A) and is_sparse(B))  # of their product, sparse and dense
    check_kernel_memory(A.shape[0], B.shape[0], A, n_kernels or array_bytes(A, 1 / 8), n_blocks)
    return A, B


def _prepared(
    A: Any, B: Any, nonnegative: str | None = None, *, allow_nan: bool = False
) -> tuple[Array, Array]:
    """Return both feature matrices in one floating dtype, after checks; for a Gram matrix both are the same object.

    Parameters
    ----------
    A, B : feature matrices
        None for `B` means `A`.
    nonnegative : str, optional
        Name of a kernel that accepts no negative entries, for the message.
    allow_nan : bool, default=False
    """
    is_gram = B is None or B is A
    A = _matrix(A, "A", nonnegative, allow_nan)
    if is_gram:
        A = cast(A, float_dtype(A))
        return A, A
    B = _matrix(B, "B", nonnegative, allow_nan)
    check_same_library({"A": A, "B": B})
    if A.shape[1] != B.shape[1]:
        raise ValueError(
            f"A and B must have the same features, found {A.shape[1]} and {B.shape[1]} of them."
        )
    dtype = float_dtype(A, B)
    return cast(A, dtype), cast(B, dtype)


def _matrix(features: Any, side: str, nonnegative: str | None, allow_nan: bool) -> Array:
    """Return features as a finite matrix; raise for negative entries if a kernel `nonnegative` is named."""
    features = check_matrix(features, side, accept_sparse=True, allow_nan=allow_nan)
    has_long_indices = is_sparse(features) and features.indices.dtype == np.int64
    if has_long_indices and max(features.nnz, *features.shape) < 2**31:
        # Some functions of scikit-learn refuse 64-bit indices.
        indices = features.indices.astype(np.int32)
        ends = features.indptr.astype(np.int32)
        features = csr_array((features.data, indices, ends), shape=features.shape)
    entries = _entries(features)
    if nonnegative is None or 0 in entries.shape:
        return features
    smallest = float(namespace(entries).min(entries))
    if smallest < 0:
        raise ValueError(
            f"{side} contains negative entries, down to {smallest:.3g}; kernel {nonnegative!r} "
            f"takes none."
        )
    return features


def _number(kernel: str, parameter: str, value: Any, least: float | None = None) -> float:
    """Return the value of a parameter; raise if it is not a finite number of at least `least`."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    number: Any = value if is_number else math.nan
    if not math.isfinite(number) or (least is not None and number < least):
        bound = "" if least is None else f" of at least {least}"
        raise KernelError(
            f"{parameter} of kernel {kernel!r} must be a number{bound}, found {value!r}."
        )
    return float(number)


def _gamma(kernel: str, gamma: float | None, A: Array) -> float:
    """Return `gamma`, by default 1 / (number of features)."""
    if gamma is None:
        return 1.0 / int(A.shape[1])
    return _number(kernel, "gamma", gamma, least=0)


def square_norms(A: Array) -> Array:
    """Return the squared length of every row of an array or sparse matrix, (n,)."""
    if is_sparse(A):
        return _row_sums(A.multiply(A))
    return namespace(A).sum(A * A, axis=1)


def _row_sums(A: Array) -> Array:
    """Return the sum of every row, (n,)."""
    if is_sparse(A):
        return np.asarray(A.sum(axis=1)).ravel()
    return namespace(A).sum(A, axis=1)


def _lengths(A: Array) -> Array:
    """Return the length of every row, (n,), and 1 for rows of zeros."""
    lengths = square_norms(A) ** 0.5
    return lengths + namespace(lengths).astype(lengths == 0, lengths.dtype)


def _manhattan(A: Array, B: Array) -> Array:
    """Return the L1 distances between rows, (n_a, n_b)."""
    if is_foreign(A):
        xp = namespace(A)
        return _blockwise(A, B, lambda a, b: xp.sum(xp.abs(a - b), axis=-1))
    return pairwise.manhattan_distances(A, B).astype(A.dtype, copy=False)


def _blockwise(A: Array, B: Array, measure: Callable[[Array, Array], Array]) -> Array:
    """Return `measure` of all pairs of rows, (n_a, n_b), in blocks: no array has n_a × n_b × d entries."""
    d = A.shape[1]
    K = zeros((A.shape[0], B.shape[0]), A)
    for columns in row_blocks(B.shape[0], d):
        for rows in row_blocks(A.shape[0], (columns.stop - columns.start, d)):
            K[rows, columns] = measure(A[rows, None, :], B[None, columns, :])
    return K

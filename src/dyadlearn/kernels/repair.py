"""Repair a similarity matrix: make it symmetric and positive semi-definite.

The parts are separate functions, so that a model that decomposes its kernel can repair the
eigenvalues it already has. `repair` applies all of them to a matrix.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    array_bytes,
    cached_blocks,
    eigh,
    epsilon,
    float_dtype,
    is_definite,
    is_foreign,
    largest,
    namespace,
    refuse_mask,
)
from dyadlearn._checks import check_choice
from dyadlearn._memory import SideSize, check_memory
from dyadlearn._messages import Message
from dyadlearn._tables import Table, like_inputs, read_table
from dyadlearn.exceptions import KernelError, KernelRepairWarning


def not_square(title: str, shape: tuple[int, ...]) -> KernelError:
    """Return the error of a precomputed kernel that is not square."""
    remedy = 'For features, choose another kernel than "precomputed"'
    return KernelError(
        f"The precomputed kernel{title} must be a square matrix, found shape {shape}. {remedy}."
    )


def asymmetry(K: Array) -> float:
    r"""Return the largest gap between a matrix and its transpose.

    .. math:: \max_{ij} |K_{ij} - K_{ji}|

    Works in row blocks, so that no temporary array grows with the whole of `K`.

    Parameters
    ----------
    K : array of shape (n, n)

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> asymmetry(np.array([[1.0, 0.5], [0.25, 1.0]]))
    0.25
    """
    xp = namespace(K)
    n = _side(K, "K")
    gap = 0.0
    for rows in cached_blocks(n, K, n):
        rest = slice(rows.start, n)
        gap = max(gap, float(xp.max(xp.abs(K[rows, rest] - K[rest, rows].T))))
    return gap


def symmetry_tolerance(K: Array) -> float:
    r"""Return the largest gap between `K` and its transpose that counts as rounding.

    .. math:: 10^{-8} \max_{ij} |K_{ij}| \quad (10^{-4} \text{ in single precision})

    Parameters
    ----------
    K : array of shape (n, n)

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> symmetry_tolerance(np.array([[2.0, 1.0], [1.0, 2.0]]))
    2e-08
    """
    xp = namespace(K)
    relative = 1e-4 if K.dtype == xp.float32 else 1e-8
    return relative * max(abs(float(xp.max(K))), abs(float(xp.min(K))))


def is_finite(K: Array) -> bool:
    """Return whether all entries are finite, without a temporary array.

    Parameters
    ----------
    K : array of any shape, not empty

    Returns
    -------
    bool

    Examples
    --------
    >>> import numpy as np
    >>> is_finite(np.array([[1.0, np.nan]]))
    False
    """
    xp = namespace(K)
    # The maximum and minimum of an array with NaN are NaN.
    return math.isfinite(float(xp.max(K))) and math.isfinite(float(xp.min(K)))


def average_transpose(K: Array) -> Array:
    r"""Overwrite `K` with the mean of itself and its transpose, and return it.

    .. math:: K \leftarrow (K + K^\top) / 2

    Parameters
    ----------
    K : array of shape (n, n)
        Floating point, writable.

    Returns
    -------
    K : array of shape (n, n)
        The same object, now exactly symmetric.

    Examples
    --------
    >>> import numpy as np
    >>> average_transpose(np.array([[1.0, 0.5], [0.25, 1.0]]))
    array([[1.   , 0.375],
           [0.375, 1.   ]])
    """
    n = _side(K, "K")
    for rows in cached_blocks(n, K, n):
        rest = slice(rows.start, n)
        mean = (K[rows, rest] + K[rest, rows].T) / 2
        K[rows, rest] = mean
        K[rest, rows] = mean.T
    return K


def symmetrized(
    K: Array, symmetrize: str = "mean", name: str = "K", *, exact: bool = False
) -> tuple[Array, float]:
    r"""Return a symmetric version of `K`, and how far `K` was from it.

    .. math:: (K + K^\top) / 2

    Parameters
    ----------
    K : array of shape (n, n)
        Floating point.
    symmetrize : {"mean", "error"}, default="mean"
        What to do when the gap exceeds `symmetry_tolerance`: average, or raise.
    name : str, default="K"
        Name of the matrix in error messages.
    exact : bool, default=False
        Whether a gap within the tolerance is averaged too.

    Returns
    -------
    symmetric : array of shape (n, n)
        `K` itself, not a copy, if nothing is averaged.
    gap : float
        The `asymmetry` of `K`.

    Raises
    ------
    KernelError
        If `K` is not square or empty, or asymmetric under ``symmetrize="error"``.
    ValueError
        If `K` is not finite or the option is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> symmetrized(np.array([[1.0, 0.5], [0.25, 1.0]]))
    (array([[1.   , 0.375],
           [0.375, 1.   ]]), 0.25)
    """
    check_choice(symmetrize, "symmetrize", ("mean", "error"))
    _side(K, name)
    _check_finite(K, name)
    gap = asymmetry(K)
    tolerance = symmetry_tolerance(K)
    if gap <= (0.0 if exact else tolerance):
        return K, gap
    if symmetrize == "error" and gap > tolerance:
        raise KernelError(
            Message(
                "{name} is not symmetric: the largest gap to its transpose is {gap:.3g}, the "
                "tolerance is {tolerance:.3g}[; dyadlearn.kernels.repair averages the two|].",
                name=name,
                gap=gap,
                tolerance=tolerance,
            )
        )
    return average_transpose(namespace(K).asarray(K, copy=True)), gap


def rank_threshold(values: Array, n: int) -> float:
    r"""Return the size below which an eigenvalue of an n × n matrix is rounding.

    .. math:: n \, \varepsilon \, \max_i |\sigma_i|

    Parameters
    ----------
    values : array of shape (r,)
        Eigenvalues, in any order.
    n : int
        Number of rows of the matrix; r is smaller if the spectrum is truncated.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> rank_threshold(np.array([0.0, 1.0]), n=2)
    4.440892098500626e-16
    """
    return n * epsilon(values) * largest(namespace(values).abs(values))


def definiteness_tolerance(values: Array, n: int, beside: float = 0.0) -> float:
    r"""Return the size of a negative eigenvalue of a kernel up to which it counts as rounding.

    Entries of a kernel are seldom exact to the last digit: distances lose digits, and many matrices
    were once stored in single precision. The tolerance is therefore larger than the
    `rank_threshold`.

    .. math:: \max(n \, \varepsilon, 10^{-6}) \, \max_i |\sigma_i|

    Parameters
    ----------
    values : array of shape (r,)
        Eigenvalues, in any order; at least one.
    n : int
        Number of rows of the matrix.
    beside : float, default=0.0
        Size of a part that was subtracted from the matrix, whose rounding remains; used in place of
        the largest eigenvalue if it is larger.

    Returns
    -------
    float

    Examples
    --------
    >>> import numpy as np
    >>> definiteness_tolerance(np.array([0.0, 2.0]), n=2)
    2e-06
    """
    return max(n * epsilon(values), 1e-6) * max(largest(namespace(values).abs(values)), beside)


def repaired_values(
    values: Array, psd: str, n: int, name: str = "K", beside: float = 0.0
) -> tuple[Array, float]:
    r"""Make the eigenvalues of a symmetric matrix non-negative.

    .. math:: \sigma_i \mapsto \max(\sigma_i, 0) \text{ (clip)}, \qquad
              \sigma_i \mapsto \sigma_i + |\sigma_{\min}| \text{ (shift)}

    Negative eigenvalues within `definiteness_tolerance` are rounding: they become exactly zero and
    are never a reason to shift or to raise.

    Parameters
    ----------
    values : array of shape (r,)
        Eigenvalues, in any order.
    psd : {"clip", "shift", "error"}
        What to do with negative eigenvalues: set them to zero, add the absolute value of the
        smallest to all eigenvalues, or raise.
    n : int
        Number of rows of the matrix.
    name : str, default="K"
        Name of the matrix in error messages.
    beside : float, default=0.0
        As in `definiteness_tolerance`.

    Returns
    -------
    repaired : array of shape (r,)
        Non-negative, in the same order.
    smallest : float
        The smallest eigenvalue found, before the repair.

    Raises
    ------
    KernelError
        If an eigenvalue is negative under ``psd="error"``.
    ValueError
        If the option is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> repaired_values(np.array([-0.5, 1e-20, 2.0]), "clip", n=3)
    (array([0.e+00, 1.e-20, 2.e+00]), -0.5)
    >>> repaired_values(np.array([-0.5, 1e-20, 2.0]), "shift", n=3)
    (array([0. , 0.5, 2.5]), -0.5)
    """
    check_choice(psd, "psd", ("clip", "shift", "error"))
    xp = namespace(values)
    smallest = float(xp.min(values))
    tolerance = definiteness_tolerance(values, n, beside)
    if smallest < -tolerance:
        if psd == "error":
            negative = int(xp.sum(xp.astype(values < -tolerance, xp.int64)))
            raise KernelError(
                Message(
                    "{name} is not positive semi-definite: {negative} of its {n} eigenvalues are "
                    "negative, the smallest {smallest:.3g} (the largest is {highest:.3g})[; "
                    "dyadlearn.kernels.repair changes them|].",
                    name=name,
                    negative=negative,
                    n=n,
                    smallest=smallest,
                    highest=float(xp.max(values)),
                )
            )
        if psd == "shift":
            values = values - smallest
    return xp.where(values > 0, values, 0.0), smallest


def announced_repair(
    values: Array, psd: str, n: int, name: str, beside: float, gap: float
) -> Array:
    """Make the eigenvalues of a kernel non-negative, with one warning that describes the repair.

    Parameters
    ----------
    values, psd, n, name, beside : as in `repaired_values`
    gap : float
        Largest difference between the matrix and its transpose if it is more than rounding; else 0.

    Returns
    -------
    array of shape (r,)

    Raises
    ------
    KernelError
        If an eigenvalue is negative under ``psd="error"``, or if no eigenvalue is positive.
    """
    repaired, lowest = repaired_values(values, psd, n, name, beside)
    flaws = []
    if gap:
        flaws.append(f"asymmetric (largest gap {gap:.3g}; averaged with its transpose)")
    if lowest < -definiteness_tolerance(values, n, beside):
        if largest(repaired) == 0:
            raise KernelError(
                Message(
                    "{name} is negative: its eigenvalues go from {lowest:.3g} to {highest:.3g}: "
                    "give minus the matrix, or exp(-D) for distances D.",
                    name=name,
                    lowest=lowest,
                    highest=largest(values),
                )
            )
        verb = "clipped to zero" if psd == "clip" else "shifted up to zero"
        word = "indefinite" if largest(values) > 0 else "negative"
        flaws.append(f"{word} (eigenvalues from {lowest:.3g} to {largest(values):.3g}; {verb})")
    if flaws:
        warnings.warn(
            Message(
                "{name} is {flaws}. All rows were used for this, also those that a hold-out "
                "leaves out[: use dyadlearn.kernels.repair to do this explicitly, or "
                "repair='error' to refuse it|].",
                name=name,
                flaws=" and ".join(flaws),
            ),
            KernelRepairWarning,
            stacklevel=3,
        )
    return repaired


def repair(K: Any, *, symmetrize: str = "mean", psd: str = "clip") -> Any:
    r"""Make a similarity matrix symmetric and positive semi-definite, so that it is a kernel.

    With :math:`(K + K^\top)/2 = U \operatorname{diag}(\sigma) U^\top`, clipping gives the nearest
    kernel in the Frobenius norm. Shifting adds the smallest constant to the diagonal that gives a
    kernel:

    .. math:: U \operatorname{diag}(\max(\sigma, 0)) U^\top, \qquad (K + K^\top)/2 + |\sigma_{\min}| I

    Differences from the transpose up to `1e-8 max|K|` (1e-4 in single precision) and eigenvalues
    down to `-1e-6 max|σ|` (or `-n eps max|σ|`, if its absolute value is larger) count as rounding:
    they raise no error, and such eigenvalues do not change the matrix.

    The repair uses all rows, but no labels. Removing rows after the repair is not the same as
    repairing the matrix without them; hold-out predictions use the matrix that was repaired with
    all rows.

    Parameters
    ----------
    K : array or frame of shape (n, n)
        Similarities, of any array library. The columns of a frame are brought into the order of its
        rows.
    symmetrize : {"mean", "error"}, default="mean"
        What to do with an asymmetric matrix: average it with its transpose, or raise.
    psd : {"clip", "shift", "error"}, default="clip"
        What to do with negative eigenvalues: set them to zero, add the absolute value of the
        smallest to the diagonal, or raise.

    Returns
    -------
    array or frame of shape (n, n)
        Exactly symmetric, positive semi-definite up to rounding, in the library of `K` and with its
        ids. An array that needs no repair is returned itself, not copied.

    Raises
    ------
    IdError
        If the rows and columns of a frame have different ids.
    KernelError
        If `K` is not square or empty, or needs a repair for which the option is "error".
    ValueError
        If `K` is not finite or an option is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import repair
    >>> K = np.array([[1.0, 2.5], [1.5, 1.0]])
    >>> repair(K, psd="shift")
    array([[2., 2.],
           [2., 2.]])
    >>> bool(np.linalg.eigvalsh(repair(K)).min() > -1e-12)
    True
    """
    table = read_gram(K, "K", is_square=True)
    n = table.values.shape[0]
    need = array_bytes(None, SideSize(n, n, "gram").numbers[0])
    purpose = f"Repairing a kernel of {n} × {n} entities"
    check_memory(need, table.values, purpose, "use fewer of them")
    values = mended(table.values, psd, "K", symmetrize, announces=False)
    return like_inputs(replace(table, values=values), K)


def mended(
    K: Array, psd: str, name: str, symmetrize: str | None = None, *, announces: bool = True
) -> Array:
    """Make a similarity matrix a kernel, as `repair` does, with one warning that describes the repair.

    Parameters
    ----------
    K : array of shape (n, n)
        Floating point.
    psd : {"clip", "shift", "error"}
        What to do with negative eigenvalues.
    name : str
        Name of the matrix in messages.
    symmetrize : {"mean", "error"}, optional
        What to do with an asymmetric matrix; by default "error" if `psd` is "error", else "mean".
    announces : bool, default=True
        Whether to warn.

    Returns
    -------
    array of shape (n, n)
        Exactly symmetric, positive semi-definite up to rounding; `K` itself if no repair was
        needed.

    Raises
    ------
    KernelError
        If `K` is not square, needs a repair for which the option is "error", or has no positive
        eigenvalue.
    ValueError
        If `K` is not finite.

    Examples
    --------
    >>> import numpy as np
    >>> mended(np.array([[1.0, 0.5], [0.5, 1.0]]), "error", "The kernel")
    array([[1. , 0.5],
           [0.5, 1. ]])
    """
    check_choice(psd, "psd", ("clip", "shift", "error"))
    if symmetrize is None:
        symmetrize = "error" if psd == "error" else "mean"
    symmetric, gap = symmetrized(K, symmetrize, name, exact=True)
    xp = namespace(symmetric)
    n = symmetric.shape[0]
    if gap <= symmetry_tolerance(K):
        gap = 0.0
        # The largest diagonal entry is at most the largest eigenvalue. A Cholesky factor costs a
        # tenth of eigenvalues.
        slack = definiteness_tolerance(xp.linalg.diagonal(symmetric), n)
        identity = xp.eye(n, dtype=symmetric.dtype, device=symmetric.device)
        if is_definite(symmetric + slack * identity):
            return symmetric
    values, vectors = eigh(symmetric)
    repaired, smallest = repaired_values(values, psd, n, name)
    if announces:
        announced_repair(values, psd, n, name, 0.0, gap)
    if smallest >= -definiteness_tolerance(values, n):
        return symmetric
    if psd == "shift":
        return symmetric - smallest * xp.eye(n, dtype=symmetric.dtype, device=symmetric.device)
    return average_transpose((vectors * repaired) @ vectors.T)


def read_gram(K: Any, name: str, *, is_square: bool = False) -> Table:
    """Return a matrix of finite floats and its ids, in the array library that it came in.

    Parameters
    ----------
    K : array or frame of shape (n, p)
    name : str
        Name of the matrix in error messages.
    is_square : bool, default=False
        Whether the matrix must be square. The columns of a frame are then brought into the order of
        its rows.

    Raises
    ------
    KernelError
        If `K` is not a matrix, empty, or not square although `is_square` is true.
    ValueError
        If `K` is not finite.
    """
    table = read_table(K, name)
    if is_foreign(table.values):
        values = table.values
    else:
        values = np.asarray(refuse_mask(table.values, name))
    if is_square:
        _side(values, name)
    elif values.ndim != 2 or 0 in values.shape:
        raise KernelError(
            f"{name} must be a matrix with at least one entry, found shape {tuple(values.shape)}."
        )
    values = namespace(values).astype(values, float_dtype(values), copy=False)
    _check_finite(values, name)
    table = replace(table, values=values)
    return table.squared(name) if is_square else table


def _check_finite(K: Array, name: str) -> None:
    """Raise if an entry is NaN or infinite."""
    if not is_finite(K):
        raise ValueError(f"{name} contains NaN or infinity; a kernel matrix must be finite.")


def _side(K: Array, name: str) -> int:
    """Return n of an n × n matrix; raise if it is not square or empty."""
    if K.ndim != 2 or K.shape[0] != K.shape[1] or K.shape[0] == 0:
        raise KernelError(
            f"{name} must be square with at least one row, found shape {tuple(K.shape)}."
        )
    return int(K.shape[0])

"""From features to a Gram matrix, by the name of a kernel or with a callable."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from dyadlearn._array import Array, as_array_of, float_dtype, is_foreign, is_sparse, namespace, row_blocks, to_numpy
from dyadlearn._tables import Table, formed_as, read_table, write_table
from dyadlearn.exceptions import KernelError
from dyadlearn.kernels.repair import average_transpose, is_finite

# A name, or what computes the whole block kernel(A, B, **params).
Kernel = str | Callable[..., Any]

#: The kernels that have a name for ``kernel="…"``; each enters when it is declared.
KERNELS: dict[str, Callable[..., Array]] = {}

#: Those of them all whose powers are kernels, whatever the exponent.
DIVISIBLE: set[str] = set()

#: What values of a kernel may differ by, relative, and be one number: files hold kernels in a few digits.
SAME = 1e-6

# What gives k(a, a) of each row, for those that have a shorter way to it than a block.
_DIAGONALS: dict[str, Callable[..., Array]] = {}

# Where there is none, k(a, a) is read off blocks of this many rows, of kernels by name and of callables: few values are
# for nothing, and so are few calls.
_DIAGONAL_ROWS, _DIAGONAL_ROWS_CALLED = 256, 16

_Function = TypeVar("_Function", bound=Callable[..., Array])


def named(
    *names: str, diagonal: Callable[..., Array] | None = None, divisible: bool = False
) -> Callable[[_Function], _Function]:
    """Return a decorator that gives a kernel its names for ``kernel="…"``.

    The kernel is called as ``kernel(A, B)``, where `B` may be None, with its parameters as keywords; ``diagonal(A)``,
    with the same parameters, returns k(a, a) of every row, for those that can say it at once. A kernel is divisible if
    all its powers are kernels.
    """

    def declare(kernel: _Function) -> _Function:
        KERNELS.update(dict.fromkeys(names, kernel))
        DIVISIBLE.update(names if divisible else ())
        if diagonal is not None:
            _DIAGONALS.update(dict.fromkeys(names, diagonal))
        return kernel

    return declare


def kernel_names() -> tuple[str, ...]:
    """Return the names that `gram` and the models know, in alphabetical order.

    Examples
    --------
    >>> from dyadlearn.kernels import kernel_names
    >>> "tanimoto" in kernel_names()
    True
    """
    return tuple(sorted(KERNELS))


def gram(A: Any, B: Any = None, *, kernel: Kernel = "linear", params: Mapping[str, Any] | None = None) -> Any:
    r"""Compute the kernel between all rows of two feature matrices.

    .. math:: K_{ij} = k(a_i, b_j)

    Parameters
    ----------
    A : array, sparse matrix or frame of shape (n_a, d)
        Features; numpy, scipy sparse, or an array of any Array API library.
    B : array, sparse matrix or frame of shape (n_b, d), optional
        The columns of the answer; `A` where not given. Features that have names are brought into the order of those of
        `A`.
    kernel : str or callable, default="linear"
        A name out of `kernel_names`: those of scikit-learn that are kernels, "tanimoto", "minmax", "delta". Or a
        callable ``kernel(A, B, **params)`` that returns the whole block, such as `Sum`, `Product` or a kernel of
        ``sklearn.gaussian_process.kernels``. It gets the features as they are, a frame without its column of ids,
        and always two of them.
    params : mapping, optional
        Parameters of the kernel by name, such as ``{"gamma": 0.1}``.

    Returns
    -------
    array or frame of shape (n_a, n_b)
        Dense, in the library of `A`; of frames a frame, with the ids of the rows of `A` and `B`. With a named kernel,
        the Gram matrix of `A` alone is exactly symmetric and float32 features give float32.

    Raises
    ------
    IdError
        If the features of `A` and `B` have names that are not the same.
    KernelError
        If the kernel or a parameter of it is unknown, or a callable returns another shape.
    ValueError
        If features or result are not finite, or do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import gram
    >>> A = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    >>> gram(A, A[:2], kernel="poly", params={"degree": 2, "gamma": 1})
    array([[4., 4.],
           [4., 9.],
           [1., 9.]])
    >>> gram(A, kernel=lambda A, B: (A @ B.T) ** 2)
    array([[ 1.,  1.,  0.],
           [ 1.,  4.,  4.],
           [ 0.,  4., 16.]])
    """
    params = check_kernel(kernel, params)
    if B is A:
        B = None
    rows = read_table(A, "A", of_words=callable(kernel))
    columns = rows if B is None else read_table(B, "B", of_words=callable(kernel))
    columns = columns.columns_as(rows.column_ids, "the columns of B", "the columns of A")
    right = None if B is None else columns.values
    # Overflow and the like are told once, by the error below, not by warnings on the way.
    with np.errstate(all="ignore"):
        if isinstance(kernel, str):
            K = KERNELS[kernel](rows.values, right, **params)
            K = average_transpose(K) if B is None else K
        else:
            K = _called(kernel, rows.values, right, params)
    K = _checked(K, kernel)
    return formed_as(Table(K, rows.row_ids, columns.row_ids, rows.kind or columns.kind), A, B)


def gram_diagonal(A: Any, *, kernel: Kernel = "linear", params: Mapping[str, Any] | None = None) -> Any:
    r"""Compute the kernel of every row with itself, the diagonal of `gram`, without the rest of it.

    .. math:: k_i = k(a_i, a_i)

    It is the prior variance of a Gaussian process at the rows of `A`.

    Parameters
    ----------
    A : array, sparse matrix or frame of shape (n, d)
    kernel, params : as in `gram`
        A callable may have a method ``diagonal(A, **params)``, as `Sum` and `Product` do; for any other, small blocks
        are computed.

    Returns
    -------
    array or series of shape (n,)
        A series for a frame, with the ids if that is one of pandas.

    Raises
    ------
    KernelError, ValueError
        As `gram`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import gram_diagonal
    >>> gram_diagonal(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]))
    array([1., 2., 4.])
    """
    params = check_kernel(kernel, params)
    table = read_table(A, "A", of_words=callable(kernel))
    rows: Any = table.values if hasattr(table.values, "shape") and not table.kind else np.asarray(table.values)
    rows = rows.tocsr() if is_sparse(rows) else rows
    shortcut = _DIAGONALS.get(kernel) if isinstance(kernel, str) else getattr(kernel, "diagonal", None)
    if callable(shortcut):
        # A shortcut may have no use for a parameter that the kernel would refuse.
        gram(rows[:1, ...], kernel=kernel, params=params)
        with np.errstate(all="ignore"):
            found = _checked(shortcut(rows, **params), kernel)
    else:
        blocks = row_blocks(rows.shape[0], 1, _DIAGONAL_ROWS_CALLED if callable(kernel) else _DIAGONAL_ROWS)
        parts = [gram(rows[block, ...], kernel=kernel, params=params) for block in blocks]
        xp = namespace(parts[0])
        found = xp.concat([xp.linalg.diagonal(part) for part in parts])
    return found if table.kind is None or isinstance(A, Table) else write_table(found, table.row_ids, None, table.kind)


def common_diagonal(diagonal: Array) -> float | None:
    """Return the number that all entries of a kernel's diagonal (n,) are, as in normalised kernels; None without one.

    New entities have it too, of whom a precomputed kernel does not tell what they are to themselves.

    Examples
    --------
    >>> import numpy as np
    >>> common_diagonal(np.ones(3)), common_diagonal(np.array([1.0, 2.0]))
    (1.0, None)
    """
    xp = namespace(diagonal)
    low, high = float(xp.min(diagonal)), float(xp.max(diagonal))
    return (low + high) / 2 if high - low <= SAME * abs(high) else None


def _checked(values: Array, kernel: Kernel) -> Array:
    """Return what a kernel computed, if it is finite."""
    if not is_finite(values):
        raise ValueError(f"kernel {_title(kernel)} gave NaN or infinity: check its parameters and scale features.")
    return values


def check_kernel(kernel: Any, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the parameters of a kernel as a dict; raise if it is unknown or does not take them.

    Nothing is computed, so that a mistake shows before any work is done.

    Examples
    --------
    >>> check_kernel("rbf", {"gamma": 0.5})
    {'gamma': 0.5}
    """
    if params is not None and not isinstance(params, Mapping):
        raise KernelError(f"params must be a mapping of names to values, found {type(params).__name__}.")
    params = dict(params or {})
    if isinstance(kernel, str):
        if kernel == "precomputed":
            raise KernelError("kernel 'precomputed' is a given Gram matrix: there is nothing to compute from features.")
        if kernel not in KERNELS:
            close = difflib.get_close_matches(kernel, [*kernel_names(), "precomputed"], n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            listed = f"Known are {', '.join(kernel_names())}; models also take precomputed"
            raise KernelError(f"Unknown kernel {kernel!r}.{hint} {listed}.")
        known = inspect.signature(KERNELS[kernel]).parameters.values()
        names = [parameter.name for parameter in known if parameter.kind is parameter.KEYWORD_ONLY]
        unknown = [name for name in params if name not in names]
        if unknown:
            given, taken = ", ".join(map(repr, unknown)), ", ".join(names) or "none"
            raise KernelError(f"kernel {kernel!r} takes no parameter {given}; it takes {taken}.")
    elif callable(kernel):
        try:
            signature = inspect.signature(kernel)
        except ValueError:  # some compiled functions tell nothing
            return params
        try:
            signature.bind(None, None, **params)
        except TypeError as error:
            call = f"kernel(A, B, **params) with params {params}"
            raise KernelError(f"kernel {_title(kernel)}{signature} cannot be called as {call}: {error}.") from None
    else:
        kind = type(kernel).__name__
        raise KernelError(f"kernel must be one of {', '.join(kernel_names())}, or a callable, found {kind}.")
    return params


def _called(kernel: Callable[..., Any], A: Any, B: Any, params: Mapping[str, Any]) -> Array:
    """Call `kernel` on whole matrices; return its block, checked, in the library of `A`."""
    A = A if hasattr(A, "shape") else np.asarray(A)
    B = A if B is None else B if hasattr(B, "shape") else np.asarray(B)
    if A.shape[0] == 0 or B.shape[0] == 0:
        raise ValueError(f"A and B must have rows, found {A.shape[0]} in A and {B.shape[0]} in B.")
    K = kernel(A, B, **params)
    if is_sparse(K):
        K = K.toarray()
    elif not is_foreign(K):
        K = np.asarray(K)
    expected, found = (A.shape[0], B.shape[0]), tuple(K.shape)
    if found != expected:
        shapes = f"expected shape {expected}, found {found}"
        raise KernelError(
            f"kernel {_title(kernel)} must return one row per row of A and one column per row of B: {shapes}."
        )
    if is_foreign(A) and not is_foreign(K):
        K = as_array_of(K, A)
    elif not is_foreign(A):
        K = to_numpy(K)
    xp = namespace(K)
    if not xp.isdtype(K.dtype, ("bool", "integral", "real floating")):
        raise KernelError(f"kernel {_title(kernel)} must return real numbers, found dtype {K.dtype}.")
    return xp.astype(K, float_dtype(K), copy=False)


def _title(kernel: Any) -> str:
    """Return what messages call a kernel."""
    return repr(kernel) if isinstance(kernel, str) else getattr(kernel, "__name__", type(kernel).__name__)

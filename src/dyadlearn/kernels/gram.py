"""Compute a Gram matrix from features, by the name of a kernel or with a callable."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    float_dtype,
    is_foreign,
    is_sparse,
    namespace,
    slices,
    to_numpy,
)
from dyadlearn._checks import keywords_of
from dyadlearn._memory import check_kernel_memory
from dyadlearn._tables import Table, like_inputs, read_table, write_table
from dyadlearn.exceptions import KernelError
from dyadlearn.kernels.repair import average_transpose, is_finite

#: A name, or a callable kernel(A, B, **params) that returns the whole block.
Kernel = str | Callable[..., Any]
#: Parameters of a kernel by their names.
Params = Mapping[str, Any] | None

#: Kernels by their names for ``kernel="…"``, registered by the decorator `named`.
KERNELS: dict[str, Callable[..., Array]] = {}

#: Names of the infinitely divisible kernels: every positive power is a kernel too.
DIVISIBLE: set[str] = set()

#: Relative tolerance within which values of a kernel count as equal: files store kernels with few
#: digits.
SAME = 1e-6

#: Names of the kernels of features that may be missing (NaN).
TAKES_MISSING: set[str] = set()

# Functions that compute k(a, a) of each row; None for kernels that have no shortcut.
_DIAGONALS: dict[str, Callable[..., Array] | None] = {}

# Functions that estimate the parameters of a kernel from its training rows and their weights.
_ESTIMATES: dict[str, Callable[..., dict[str, Any]]] = {}

# Without a shortcut, k(a, a) is the diagonal of blocks of this many rows, for named kernels and for
# callables. Small blocks waste few values, large blocks need few calls.
_DIAGONAL_ROWS = 256
_DIAGONAL_ROWS_CALLED = 16

_Function = TypeVar("_Function", bound=Callable[..., Array])


def named(
    *names: str,
    diagonal: Callable[..., Array] | None = None,
    divisible: bool = False,
    estimate: Callable[..., dict[str, Any]] | None = None,
    missing: bool = False,
) -> Callable[[_Function], _Function]:
    """Return a decorator that registers a kernel under its names for ``kernel="…"``.

    The kernel is called as ``kernel(A, B)``, where `B` may be None, with its parameters as
    keywords. ``diagonal(A)`` takes the same parameters and returns k(a, a) of every row; it is an
    optional shortcut. A kernel is divisible if all its powers are kernels. ``estimate(rows,
    weights)`` returns the parameters of a kernel that depends on its training rows (n, d), with
    weights (n,) or None. `missing` means that features may be NaN.
    """

    def declare(kernel: _Function) -> _Function:
        KERNELS.update(dict.fromkeys(names, kernel))
        if divisible:
            DIVISIBLE.update(names)
        _DIAGONALS.update(dict.fromkeys(names, diagonal))
        if estimate is not None:
            _ESTIMATES.update(dict.fromkeys(names, estimate))
        if missing:
            TAKES_MISSING.update(names)
        return kernel

    return declare


def kernel_names() -> tuple[str, ...]:
    """Return the names of the kernels of `gram` and the models, in alphabetical order.

    Examples
    --------
    >>> from dyadlearn.kernels import kernel_names
    >>> "tanimoto" in kernel_names()
    True
    """
    return tuple(sorted(KERNELS))


def is_precomputed(kernel: Any) -> bool:
    """Return whether a kernel is a matrix already, and not a function of features."""
    return isinstance(kernel, str) and kernel == "precomputed"


def takes_missing(kernel: Any) -> bool:
    """Return whether a kernel is computed from features that may be NaN."""
    return isinstance(kernel, str) and kernel in TAKES_MISSING


def fitted_params(
    kernel: Kernel, params: Params, rows: Array, weights: Array | None = None
) -> Params:
    """Return the parameters of a kernel, with those that it estimates from its training rows (n, d).

    Weights (n,) count rows: a row with weight 2 counts as two rows.
    """
    if is_estimated(kernel, params):
        return _ESTIMATES[str(kernel)](rows, weights)
    return params


def is_estimated(kernel: Kernel, params: Params) -> bool:
    """Return whether a kernel estimates its parameters from its training rows, because they are not given."""
    has_params = any(value is not None for value in (params or {}).values())
    return isinstance(kernel, str) and kernel in _ESTIMATES and not has_params


def gram(
    A: Any,
    B: Any = None,
    *,
    kernel: Kernel = "linear",
    kernel_params: Params = None,
) -> Any:
    r"""Compute the kernel between all rows of two feature matrices.

    .. math:: K_{ij} = k(a_i, b_j)

    Parameters
    ----------
    A : array, sparse matrix or frame of shape (n_a, d)
        Features; numpy, scipy sparse, or an array of any Array API library.
    B : array, sparse matrix or frame of shape (n_b, d), optional
        Features of the columns of the result; `A` by default. Named features are brought into the
        order of `A`.
    kernel : str or callable, default="linear"
        A name from `kernel_names`, such as "rbf" or "tanimoto". Or a callable ``kernel(A, B,
        **params)`` that returns the whole block, such as `Sum`, `Product` or a kernel of
        ``sklearn.gaussian_process.kernels``. A callable always gets two arguments. It gets the
        features unchanged, but a frame without its column of ids.
    kernel_params : mapping, default=None
        Parameters of the kernel by name, such as ``{"gamma": 0.1}``.

    Returns
    -------
    array or frame of shape (n_a, n_b)
        Dense, in the library of `A`. If `A` is a frame, so is the result, with the ids of `A` and
        `B`. With a named kernel, the Gram matrix of `A` is exactly symmetric, and float32 features
        give float32.

    Raises
    ------
    IdError
        If the features of `A` and `B` have different names.
    KernelError
        If the kernel or one of its parameters is unknown, or a callable returns a wrong shape.
    ValueError
        If features or result are not finite, or `A` and `B` have different numbers of features.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import gram
    >>> A = np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]])
    >>> gram(A, A[:2], kernel="poly", kernel_params={"degree": 2, "gamma": 1})
    array([[4., 4.],
           [4., 9.],
           [1., 9.]])
    >>> gram(A, kernel=lambda A, B: (A @ B.T) ** 2)
    array([[ 1.,  1.,  0.],
           [ 1.,  4.,  4.],
           [ 0.,  4., 16.]])
    """
    params = check_kernel(kernel, kernel_params)
    if B is A:
        B = None
    rows = read_table(A, "A", of_words=callable(kernel))
    if B is None:
        columns = rows
    else:
        columns = read_table(B, "B", of_words=callable(kernel))
    columns = columns.columns_as(rows.column_ids, "the columns of B", "the columns of A")
    right = None if B is None else columns.values
    # Overflow is reported once by the error below, not by warnings of numpy.
    with np.errstate(all="ignore"):
        if isinstance(kernel, str):
            K = KERNELS[kernel](rows.values, right, **params)
            if B is None:
                K = average_transpose(K)
        else:
            K = _called(kernel, rows.values, right, params)
    K = _checked(K, kernel)
    return like_inputs(Table(K, rows.row_ids, columns.row_ids, rows.kind or columns.kind), A, B)


def gram_diagonal(A: Any, *, kernel: Kernel = "linear", kernel_params: Params = None) -> Any:
    r"""Compute the kernel of every row with itself: the diagonal of `gram`, without the other entries.

    .. math:: k_i = k(a_i, a_i)

    In a Gaussian process this is the prior variance at the rows of `A`.

    Parameters
    ----------
    A : array, sparse matrix or frame of shape (n, d)
    kernel, kernel_params : as in `gram`
        A callable may have a method ``diagonal(A, **params)``, as `Sum` and `Product` do; otherwise
        small blocks of the kernel are computed.

    Returns
    -------
    array or series of shape (n,)
        A series if `A` is a frame; a pandas series has the ids as its index.

    Raises
    ------
    KernelError, ValueError
        As in `gram`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import gram_diagonal
    >>> gram_diagonal(np.array([[0.0, 1.0], [1.0, 1.0], [2.0, 0.0]]))
    array([1., 2., 4.])
    """
    params = check_kernel(kernel, kernel_params)
    table = read_table(A, "A", of_words=callable(kernel))
    rows: Any = table.values
    if table.kind or not hasattr(rows, "shape"):
        rows = np.asarray(rows)
    if is_sparse(rows):
        rows = rows.tocsr()
    params = dict(fitted_params(kernel, params, rows) or {})
    if isinstance(kernel, str):
        shortcut = _DIAGONALS.get(kernel)
    else:
        shortcut = getattr(kernel, "diagonal", None)
    if callable(shortcut):
        # The kernel checks its parameters, some of which the shortcut ignores.
        gram(rows[:1, ...], kernel=kernel, kernel_params=params)
        with np.errstate(all="ignore"):
            values = _checked(shortcut(rows, **params), kernel)
    else:
        n_at_once = _DIAGONAL_ROWS_CALLED if callable(kernel) else _DIAGONAL_ROWS
        diagonals = []
        for block in slices(rows.shape[0], n_at_once):
            K = gram(rows[block, ...], kernel=kernel, kernel_params=params)
            diagonals.append(namespace(K).linalg.diagonal(K))
        values = namespace(diagonals[0]).concat(diagonals)
    is_plain = table.kind is None or isinstance(A, Table)
    if is_plain:
        return values
    return write_table(values, table.row_ids, None, table.kind)


def common_diagonal(diagonal: Array) -> float | None:
    """Return the common value of a kernel's diagonal (n,), as in normalised kernels; None if values differ.

    It is used for new entities, whose kernel with themselves is not part of a precomputed kernel.

    Examples
    --------
    >>> import numpy as np
    >>> common_diagonal(np.ones(3)), common_diagonal(np.array([1.0, 2.0]))
    (1.0, None)
    """
    xp = namespace(diagonal)
    low = float(xp.min(diagonal))
    high = float(xp.max(diagonal))
    if high - low <= SAME * abs(high):
        return (low + high) / 2
    return None


def _checked(values: Array, kernel: Kernel) -> Array:
    """Return the values of a kernel; raise if they are not finite."""
    if not is_finite(values):
        raise ValueError(
            f"kernel {_title(kernel)} gave NaN or infinity: check its parameters and scale "
            f"features."
        )
    return values


def check_kernel(kernel: Any, params: Params = None) -> dict[str, Any]:
    """Return the parameters of a kernel as a dict; raise if it is unknown or does not take them.

    Nothing is computed, so that errors are raised before any work is done.

    Examples
    --------
    >>> check_kernel("rbf", {"gamma": 0.5})
    {'gamma': 0.5}
    """
    if params is not None and not isinstance(params, Mapping):
        raise KernelError(
            f"kernel_params must be a mapping of names to values, found {type(params).__name__}."
        )
    params = dict(params or {})
    if isinstance(kernel, str):
        _check_named(kernel, params)
    elif callable(kernel):
        _check_callable(kernel, params)
    else:
        raise KernelError(
            f"kernel must be one of {', '.join(kernel_names())}, or a callable, found "
            f"{type(kernel).__name__}."
        )
    return params


def _check_named(kernel: str, params: Mapping[str, Any]) -> None:
    """Raise if a name is unknown, or the kernel does not take the parameters."""
    if kernel == "precomputed":
        raise KernelError(
            "kernel 'precomputed' is a Gram matrix already: it cannot be computed from features."
        )
    if kernel not in KERNELS:
        close = difflib.get_close_matches(kernel, [*kernel_names(), "precomputed"], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise KernelError(
            f"Unknown kernel {kernel!r}.{hint} Known are {', '.join(kernel_names())}; models also "
            f"take precomputed."
        )
    if not params:
        return
    names = list(keywords_of(KERNELS[kernel]))
    unknown = [name for name in params if name not in names]
    if unknown:
        raise KernelError(
            f"kernel {kernel!r} takes no parameter {', '.join(map(repr, unknown))}; it takes "
            f"{', '.join(names) or 'none'}."
        )


def _check_callable(kernel: Callable[..., Any], params: Mapping[str, Any]) -> None:
    """Raise if a callable cannot be called with two tables and the parameters."""
    try:
        signature = inspect.signature(kernel)
    except ValueError:  # some compiled functions have no signature
        return
    try:
        signature.bind(None, None, **params)
    except TypeError as error:
        raise KernelError(
            f"kernel {_title(kernel)}{signature} cannot be called as kernel(A, B, **params) with "
            f"params {dict(params)}: {error}."
        ) from None


def _called(kernel: Callable[..., Any], A: Any, B: Any, params: Mapping[str, Any]) -> Array:
    """Call `kernel` on whole matrices; return its block, checked, in the library of `A`."""
    if not hasattr(A, "shape"):
        A = np.asarray(A)
    if B is None:
        B = A
    elif not hasattr(B, "shape"):
        B = np.asarray(B)
    if A.shape[0] == 0 or B.shape[0] == 0:
        raise ValueError(f"A and B must have rows, found {A.shape[0]} in A and {B.shape[0]} in B.")
    check_kernel_memory(A.shape[0], B.shape[0], A)
    K = kernel(A, B, **params)
    if is_sparse(K):
        K = K.toarray()
    K = as_array_of(K, A) if is_foreign(A) else to_numpy(K)
    expected = (A.shape[0], B.shape[0])
    if tuple(K.shape) != expected:
        raise KernelError(
            f"kernel {_title(kernel)} must return one row per row of A and column per row of B: "
            f"expected shape {expected}, found {tuple(K.shape)}."
        )
    xp = namespace(K)
    if not xp.isdtype(K.dtype, ("bool", "integral", "real floating")):
        raise KernelError(
            f"kernel {_title(kernel)} must return real numbers, found dtype {K.dtype}."
        )
    return xp.astype(K, float_dtype(K), copy=False)


def _title(kernel: Any) -> str:
    """Return the name of a kernel for messages."""
    if isinstance(kernel, str):
        return repr(kernel)
    return getattr(kernel, "__name__", type(kernel).__name__)

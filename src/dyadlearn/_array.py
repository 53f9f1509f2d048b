"""Functions that depend on the array library; the only module with such code.

All other modules use the Array API standard, with arrays of numpy, torch, cupy or array-api-strict.
Sparse matrices of scipy are supported separately, as features only.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from importlib.util import find_spec
from types import ModuleType
from typing import Annotated, Any

import array_api_compat
import numpy as np
from scipy import linalg, sparse

from dyadlearn._messages import Message
from dyadlearn._threads import for_each, n_workers

# An array of any library; docstrings give the shapes. It is not plain Any, so that
# `dyadlearn._state` can recognise fields of this type at run time.
Array = Annotated[Any, "array"]

#: Shape of an array, whose lengths may be fractions; a number is the length of a vector.
Shape = float | tuple[float, ...]

#: Number of values in a block of rows: 64 MiB in double precision.
BLOCK = 2**23
#: Number of values in a block that stays in the cache of a processor.
CACHED = 2**17
# The same for an accelerator, which is faster with large blocks.
_ELSEWHERE = 2**25

# Since version 2 numpy has the functions of the standard itself; a layer above it would slow down
# small problems.
_TYPES_OF_NUMPY = frozenset([np.ndarray, np.float64, type(None)])
# Namespaces by the types of the arrays, since some libraries take long to return theirs.
_NAMESPACES: dict[frozenset[type], ModuleType] = {}


def is_sparse(array: Any) -> bool:
    """Return whether `array` is a scipy sparse matrix or array."""
    return bool(sparse.issparse(array))


def is_missing(value: Any) -> bool:
    """Return whether a single value is missing: None, NaN, or the missing value of another library."""
    if isinstance(value, str):
        return False
    try:
        # NaN and the missing date are not equal to themselves.
        return value is None or bool(value != value)
    except TypeError:
        return True  # pandas.NA has no truth value
    except ValueError:
        return False  # an array


def is_foreign(array: Any) -> bool:
    """Return whether `array` is an Array API array of a library other than numpy."""
    if type(array) is np.ndarray or is_sparse(array):
        return False
    return bool(
        array_api_compat.is_array_api_obj(array) and not array_api_compat.is_numpy_array(array)
    )


def namespace(*arrays: Any) -> ModuleType:
    """Return the Array API namespace shared by `arrays`; None and sparse matrices of scipy count as numpy."""
    # A quick answer for numpy: the function is called very often.
    if _TYPES_OF_NUMPY.issuperset(map(type, arrays)):
        return np
    dense = [a for a in arrays if a is not None and not is_sparse(a)]
    types = frozenset(map(type, dense))
    if types not in _NAMESPACES:
        if types <= _TYPES_OF_NUMPY:
            _NAMESPACES[types] = np
        else:
            _NAMESPACES[types] = array_api_compat.array_namespace(*dense)
    return _NAMESPACES[types]


def library(array: Any) -> str:
    """Return the name of the library that `array` belongs to."""
    if is_foreign(array):
        return type(array).__module__.partition(".")[0]
    return "numpy"


def detached(array: Array) -> Array:
    """Return an array that is detached from automatic differentiation."""
    if array_api_compat.is_torch_array(array):
        return array.detach()
    return array


def to_numpy(array: Any) -> np.ndarray:
    """Return an array of any library and device as a numpy array; a numpy array is not copied."""
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):
        return np.asarray(array.detach().cpu().numpy())
    if array_api_compat.is_cupy_array(array):
        return np.asarray(array.get())
    return np.asarray(np.from_dlpack(array) if is_foreign(array) else array)


def without_mask(array: Any) -> Any:
    """Return a masked array as an ordinary one, with NaN (floats) or None (other types) for masked entries.

    Other objects are returned unchanged.
    """
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if not np.ma.is_masked(array):
        return array.data
    if array.dtype.kind == "f":
        return array.filled(np.nan)
    values = array.data.astype(object)
    values[array.mask] = None
    return values


def refuse_mask(array: Any, name: str) -> Any:
    """Return a masked array without masked entries as an ordinary one; raise if there are masked entries."""
    if np.ma.is_masked(array):
        hidden = f"hides {np.sum(array.mask)} of its {array.size} values"
        raise ValueError(
            f"{name} is a masked array that {hidden}; only labels may be missing: fill them in."
        )
    return without_mask(array)


def as_array_of(values: Any, like: Array, dtype: Any = None) -> Array:
    """Put `values` (numpy or a sequence) in the library and on the device of `like`."""
    xp = namespace(like)
    if not is_foreign(like):
        return xp.asarray(values, dtype=dtype)
    if isinstance(values, np.ndarray) and not (
        values.flags.writeable and min(values.strides, default=0) >= 0
    ):
        values = values.copy()  # torch accepts neither read-only arrays nor negative strides
    return xp.asarray(values, dtype=dtype, device=array_api_compat.device(like))


def on_device(values: np.ndarray, device: str) -> Array:
    """Return a numpy array as an array of torch or, without torch, of cupy on a device.

    Raises
    ------
    ImportError
        If neither library is installed.
    ValueError
        If there is no such device.
    """
    values = np.ascontiguousarray(values)
    name = next((name for name in ("torch", "cupy") if find_spec(name) is not None), None)
    if name is None:
        raise ImportError(
            Message(
                "<device={device!r}> needs torch or cupy, neither of which is installed: pip "
                "install torch",
                device=device,
            )
        )
    try:
        if name == "torch":
            import torch

            # A copy, also on the processor: the caller's array may change or be read-only.
            return torch.tensor(values, device=device)
        import cupy

        kind, _, number = device.partition(":")
        if kind != "cuda":
            raise ValueError("cupy knows devices such as 'cuda' and 'cuda:1'")
        with cupy.cuda.Device(int(number or 0)):
            return cupy.asarray(values)
    except (
        RuntimeError,
        AssertionError,
        TypeError,
        ValueError,
    ) as error:  # torch raises any of them
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        if reason.startswith("Expected one of"):
            reason = "use 'cpu' or 'cuda'"
        raise ValueError(
            Message(
                "{name} cannot compute on <device={device!r}> here: {reason}.",
                name=name,
                device=device,
                reason=reason,
            )
        ) from error


def float_dtype(*arrays: Any) -> Any:
    """Return the dtype to compute in: float32 when every array is float32, else float64.

    Integers and booleans are ignored unless all arrays are of these types.
    """
    xp = namespace(*arrays)
    dtypes = [a.dtype for a in arrays if a is not None]
    floats = [dtype for dtype in dtypes if dtype in (xp.float32, xp.float64)]
    if floats and all(dtype == xp.float32 for dtype in floats):
        return xp.float32
    return xp.float64


def epsilon(array: Array) -> float:
    """Return the machine precision of the dtype of `array`."""
    return float(namespace(array).finfo(array.dtype).eps)


def array_bytes(like: Array | None, *shapes: Shape) -> float:
    """Return the memory of arrays of these shapes in the precision of `like`, in double precision for None."""
    dtype = np.float64 if like is None else like.dtype
    return values_in(*shapes) * int(namespace(like).finfo(dtype).bits) / 8


def largest(values: Array, default: float = 0.0) -> float:
    """Return the largest of `values`, or `default` if there are none."""
    if 0 not in values.shape:
        return float(namespace(values).max(values))
    return default


def least_positions(values: Array, count: int) -> np.ndarray:
    """Return the positions of the `count` smallest of many values (n,), in any order; 0 < `count` ≤ n."""
    if not is_foreign(values):
        return np.argpartition(values, count - 1)[:count]
    if array_api_compat.is_torch_array(values):
        return to_numpy(values.topk(count, largest=False, sorted=False).indices)
    return to_numpy(namespace(values).argsort(values)[:count])  # cupy sorts for a partition too


def zeros(shape: tuple[int, ...], like: Array, dtype: Any = None) -> Array:
    """Return zeros of the library and device of `like`, and of its dtype or another one."""
    # sparse matrices have none
    if dtype is None:
        dtype = like.dtype
    device = getattr(like, "device", None)
    return namespace(like).zeros(shape, dtype=dtype, device=device)


def with_diagonal(square: Array, diagonal: Any) -> Array:
    """Return `square` (n, n) with its diagonal replaced; the argument may be overwritten."""
    xp = namespace(square)
    flat = xp.reshape(square, (-1,))
    flat[:: square.shape[0] + 1] = diagonal
    return xp.reshape(flat, square.shape)


def cast(array: Array, dtype: Any) -> Array:
    """Return an array or sparse matrix in another precision; it is not copied if it has this precision."""
    if array.dtype == dtype:
        return array
    if is_sparse(array):
        return array.astype(dtype)
    return namespace(array).astype(array, dtype)


def double(array: Array) -> Array:
    """Return an array or sparse matrix in double precision; it is not copied if it has this precision.

    Raises
    ------
    TypeError
        If the device of the array has no double precision.
    """
    try:
        return cast(array, namespace(array).float64)
    except (TypeError, RuntimeError, ValueError) as error:  # libraries raise different types
        device = "cpu"
        if is_foreign(array):
            device = array_api_compat.device(array)
        raise TypeError(
            f"Models compute in double precision, which the device {str(device)!r} does not have: "
            f"move the arrays to "
            "the processor or to a CUDA device."
        ) from error


def copied(array: Array) -> Array:
    """Return a copy of an array or sparse matrix."""
    if is_sparse(array):
        return array.copy()
    return namespace(array).asarray(array, copy=True)


def dense(matrix: Array) -> Array:
    """Return a sparse matrix as an array; return arrays unchanged."""
    return matrix.toarray() if is_sparse(matrix) else matrix


def matmul(left: Array, right: Array) -> Array:
    """Multiply two matrices, either of which may be sparse; the product is dense."""
    if not (is_sparse(left) and is_sparse(right)):
        return dense(left @ right)
    # In blocks, because a sparse product that is nearly full takes more memory than a dense one.
    left = left.tocsr()
    right = right.tocsr()
    product = np.empty(
        (left.shape[0], right.shape[1]), dtype=np.result_type(left.dtype, right.dtype)
    )
    for rows in row_blocks(*product.shape):
        product[rows] = (left[rows] @ right).toarray()
    return product


def is_transposed(array: Array) -> bool:
    """Return whether a matrix is column-major in memory."""
    if isinstance(array, np.ndarray):
        return bool(array.flags.f_contiguous and not array.flags.c_contiguous)
    if array_api_compat.is_torch_array(array):
        return bool(array.T.is_contiguous() and not array.is_contiguous())
    return False


def row_major(array: Array) -> Array:
    """Return an array that is row-major in memory, a copy if needed; sparse matrices are returned unchanged."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array)
    if array_api_compat.is_torch_array(array):
        return array.contiguous()
    return array


def product_like(left: Array, right: Array) -> Array:
    """Return ``left @ right`` in the memory layout of `right`.

    Sums and differences of matrices of the same layout are several times faster.
    """
    if is_transposed(right):
        return (right.T @ left.T).T
    return left @ right


def eigh(symmetric: Array) -> tuple[Array, Array]:
    """Return eigenvalues (n,) in ascending order and eigenvectors (n, n) of a symmetric matrix."""
    values, vectors = namespace(symmetric).linalg.eigh(symmetric)
    return values, vectors


# Least order of many systems that are solved one by one, by their Cholesky factors.
_LEAST_FACTOR = 48


def positive_solver(matrix: Array) -> Callable[[Array], Array]:
    """Factorise a positive definite matrix (n, n) and return a function that solves systems with it.

    Only the upper triangle is read. The argument may be overwritten. Raises
    `numpy.linalg.LinAlgError` if the matrix is singular, and with numpy if it is not positive
    definite.
    """
    if not is_foreign(matrix):
        # The transpose is column-major, which LAPACK expects, so that nothing is copied.
        factor = linalg.cho_factor(matrix.T, lower=True, overwrite_a=True, check_finite=False)[0]
        potrs: Any = linalg.get_lapack_funcs("potrs", [factor])
        return partial(_solved_by_factor, factor, potrs)
    xp = namespace(matrix)
    whole = xp.triu(matrix) + xp.triu(matrix, k=1).T
    inverse = solve(whole, xp.eye(whole.shape[0], dtype=whole.dtype, device=whole.device))
    return lambda right: inverse @ right


def _solved_by_factor(
    factor: np.ndarray, potrs: Callable[..., Any], right: np.ndarray
) -> np.ndarray:
    """Return the solution of a system by its lower Cholesky factor, as `cho_solve` does with more checks."""
    if right.dtype != factor.dtype or right.size == 0:
        return linalg.cho_solve((factor, True), right, check_finite=False)
    solution: np.ndarray = potrs(factor, right, lower=True)[0]
    return solution


def positive_inverse(matrix: Array) -> Array:
    """Return the inverse of a positive definite matrix (n, n), which may be overwritten.

    Raises `numpy.linalg.LinAlgError` if the matrix is singular, and with numpy if it is not
    positive definite.
    """
    if is_foreign(matrix):
        xp = namespace(matrix)
        return solve(matrix, xp.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device))
    return _inverse_of_factor(_factor_in_place(matrix))


def inverse_and_log_determinant(matrix: Array) -> tuple[Array, float]:
    """Return the inverse of a positive definite matrix (n, n), and the logarithm of its determinant.

    The determinant is that of the Cholesky factor. The argument may be overwritten. Raises
    `numpy.linalg.LinAlgError` if the matrix is not positive definite.
    """
    if is_foreign(matrix):
        factor = cholesky(matrix)
    else:
        factor = _factor_in_place(matrix)
    xp = namespace(factor)
    logarithm = 2.0 * float(xp.sum(xp.log(xp.linalg.diagonal(factor))))
    if not is_foreign(matrix):
        return _inverse_of_factor(factor), logarithm
    if array_api_compat.is_torch_array(matrix):
        import torch

        # The inverse is symmetric, and its transpose is row-major.
        return row_major(torch.cholesky_inverse(factor).T), logarithm
    del factor
    return positive_inverse(matrix), logarithm


def _factor_in_place(matrix: np.ndarray) -> np.ndarray:
    """Return the lower Cholesky factor of a matrix of numpy, which is overwritten; its upper triangle is arbitrary."""
    # The transpose is column-major, which LAPACK expects, so that nothing is copied.
    factor: np.ndarray = linalg.cho_factor(
        matrix.T, lower=True, overwrite_a=True, check_finite=False
    )[0]
    return factor


def _inverse_of_factor(factor: np.ndarray) -> np.ndarray:
    """Return the inverse of a matrix from its column-major Cholesky factor, which is overwritten."""
    if factor.dtype == np.float32:
        potri = linalg.lapack.spotri
    else:
        potri = linalg.lapack.dpotri
    upper: np.ndarray = potri(factor, lower=True, overwrite_c=True)[
        0
    ].T  # LAPACK fills one triangle
    for rows in slices(len(upper), 256):
        upper[rows.stop :, rows] = upper[rows, rows.stop :].T
        block = upper[rows, rows]
        block[...] = np.triu(block) + np.triu(block, k=1).T
    return upper


def is_definite(matrix: Array) -> bool:
    """Return whether a symmetric matrix has a Cholesky factor."""
    xp = namespace(matrix)
    try:
        # The function of scipy takes half the time of that of numpy.
        if is_foreign(matrix):
            factor = cholesky(matrix)
        else:
            factor = linalg.cholesky(matrix.T, check_finite=False)
    except np.linalg.LinAlgError:
        return False
    return bool(xp.all(xp.isfinite(xp.linalg.diagonal(factor))))


def cholesky(matrix: Array) -> Array:
    """Return the lower Cholesky factor of a matrix; raise `numpy.linalg.LinAlgError` if it is not definite."""
    try:
        return namespace(matrix).linalg.cholesky(matrix)
    except RuntimeError as error:  # of torch
        raise np.linalg.LinAlgError(str(error)) from None


def solve(matrix: Array, right: Array) -> Array:
    """Return the solution (…, n, p) of systems (…, n, n); raise `numpy.linalg.LinAlgError` if one is singular."""
    try:
        return namespace(matrix).linalg.solve(matrix, right)
    except RuntimeError as error:  # of torch
        if type(error).__name__ not in ("LinAlgError", "_LinAlgError"):
            raise
        raise np.linalg.LinAlgError(str(error)) from None


def solve_positive(matrices: Array, right: Array) -> Array:
    """Return the solutions (b, n, p) of positive definite systems (b, n, n), which may be overwritten.

    Raises `numpy.linalg.LinAlgError` if a system is singular.
    """
    if is_foreign(matrices) or matrices.shape[-1] < _LEAST_FACTOR:
        return solve(matrices, right)
    solved = np.empty_like(right)
    posv: Any = linalg.get_lapack_funcs("posv", (matrices, right))
    for place, matrix in enumerate(matrices):
        # The transpose is column-major, which LAPACK expects, so that nothing is copied.
        _, solved[place], info = posv(matrix.T, right[place], lower=True, overwrite_a=True)
        if info:
            raise np.linalg.LinAlgError("A system is not positive definite.")
    return solved


def solve_lower(factor: Array, right: Array) -> Array:
    """Return the solution (n, p) of a system with a lower triangular matrix (n, n)."""
    if not is_foreign(factor):
        return linalg.solve_triangular(factor, right, lower=True, check_finite=False)
    if array_api_compat.is_torch_array(factor):
        import torch

        return torch.linalg.solve_triangular(factor, right, upper=False)
    return solve(factor, right)


def pivoted_qr(matrix: Array) -> tuple[Array, Array]:
    """Return orthonormal columns Q (n, r) and a matrix R (r, p) of full rank r whose product is a matrix (n, p).

    Columns are eliminated in descending order of their size, until all that is left of them is
    rounding. The rounding error of a column is relative to its own size.
    """
    values = to_numpy(matrix)
    orthogonal, triangle, order = linalg.qr(
        values, mode="economic", pivoting=True, check_finite=False
    )
    left = np.abs(np.diagonal(triangle))
    sizes = np.linalg.norm(values, axis=0)[order[: left.size]]
    least = max(values.shape) * np.finfo(values.dtype).eps * sizes
    rank = int(np.flatnonzero(left > least).max(initial=-1)) + 1
    rest = np.empty_like(triangle[:rank])
    rest[:, order] = triangle[:rank]
    return as_array_of(orthogonal[:, :rank], matrix), as_array_of(rest, matrix)


def sorted_qr(matrix: Array) -> tuple[Array, Array]:
    r"""Return orthonormal columns Q (n, p) and a matrix X (p, p) with :math:`\mathbf{AX} = \mathbf{Q}`.

    The matrix A (n, p) has full rank. Its rows and columns may differ by many orders of magnitude:
    rows are sorted by their size and columns are pivoted, so that rounding errors are relative to
    each row (Cox and Higham 1998).
    """
    values = to_numpy(matrix)
    order = np.argsort(-np.abs(values).max(axis=1, initial=0.0), kind="stable")
    ordered, triangle, columns = linalg.qr(
        values[order], mode="economic", pivoting=True, check_finite=False
    )
    orthogonal = np.empty_like(ordered)
    orthogonal[order] = ordered
    inverse = np.empty_like(triangle)
    inverse[columns] = linalg.solve_triangular(
        triangle, np.eye(len(triangle), dtype=triangle.dtype), check_finite=False
    )
    return as_array_of(orthogonal, matrix), as_array_of(inverse, matrix)


def sorted_least_squares(matrix: Array, right: Array) -> tuple[Array, float]:
    r"""Return the X (p, c) with the least :math:`\|\mathbf{AX}-\mathbf{B}\|`, and an estimate of its largest error.

    Rows of the matrix A (n, p) may differ by many orders of magnitude. They are sorted by their
    size and columns are pivoted, so that rounding errors are relative to each row (Cox and Higham
    1998). The estimate is infinite for a singular matrix.
    """
    A = to_numpy(matrix)
    B = to_numpy(right)
    sizes = np.abs(A).max(axis=1, initial=0.0)
    order = np.argsort(-sizes, kind="stable")
    orthogonal, triangle, columns = linalg.qr(
        A[order], mode="economic", pivoting=True, check_finite=False
    )
    X = np.zeros((A.shape[1], B.shape[1]), dtype=A.dtype)
    if A.shape[0] < A.shape[1] or not np.diagonal(triangle).all():
        return as_array_of(X, right), np.inf
    X[columns] = linalg.solve_triangular(triangle, orthogonal.T @ B[order], check_finite=False)
    # Perturbed rows change X by A⁺ dA X, and by the inverse of AᵀA times dAᵀ and the residuals.
    inverse = linalg.solve_triangular(
        triangle, np.eye(A.shape[1], dtype=A.dtype), check_finite=False
    )
    errors = np.finfo(A.dtype).eps * sizes[order]
    moved = (np.abs(inverse @ orthogonal.T) @ errors)[:, None] * np.abs(X).max(axis=0, initial=0.0)
    residuals = np.abs(A @ X - B)[order]
    terms = (np.abs(A) @ np.abs(X) + np.abs(B))[order]
    residuals[residuals <= 4.0 * A.shape[1] * np.finfo(A.dtype).eps * terms] = (
        0.0  # rounding of the difference itself
    )
    along_residuals = errors @ residuals
    moved += np.abs(inverse @ inverse.T).sum(axis=1)[:, None] * along_residuals
    return as_array_of(X, right), float(moved.max(initial=0.0))


def svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Return the economy singular value decomposition of a dense matrix."""
    left, values, right = namespace(matrix).linalg.svd(matrix, full_matrices=False)
    return left, values, right


def take_rows(matrix: Array, index: Array) -> Array:
    """Return `matrix[index]` for an integer `index` (numpy or the library of `matrix`)."""
    if not is_foreign(matrix):
        return matrix[to_numpy(index)]
    return namespace(matrix).take(matrix, as_array_of(index, matrix), axis=0)


def take_block(matrix: Array, rows: Array, columns: Array) -> Array:
    """Return some rows and columns of a matrix, by integer positions."""
    return take_rows(take_rows(matrix, rows).T, columns).T


def with_value(matrix: Array, cells: np.ndarray, value: float) -> Array:
    """Return `matrix` with one value in some cells, given by flat positions; the argument may be overwritten."""
    xp = namespace(matrix)
    if not cells.size:
        return matrix
    flat = xp.reshape(matrix, (-1,))
    if (
        array_api_compat.is_torch_array(matrix)
        or array_api_compat.is_cupy_array(matrix)
        or not is_foreign(matrix)
    ):
        flat[as_array_of(cells, matrix)] = value
    else:  # the standard only allows assignment by masks
        mask = np.zeros(flat.shape, dtype=bool)
        mask[cells] = True
        flat = xp.where(as_array_of(mask, matrix), value, flat)
    return xp.reshape(flat, matrix.shape)


def running_sum(values: Array) -> Array:
    """Return the sums of the first 1, 2, … values along the last axis."""
    xp = namespace(values)
    # The standard has cumulative_sum since 2023.12, older libraries only cumsum.
    if hasattr(xp, "cumsum"):
        return xp.cumsum(values, -1)
    return xp.cumulative_sum(values, axis=-1)


def drawn(weights: Array, uniform: np.ndarray) -> np.ndarray:
    """Return positions drawn with probabilities proportional to the weights (n,), one for each number of `uniform`.

    The numbers of `uniform` are in [0, 1). The positions are computed on the device of the weights.
    """
    xp = namespace(weights)
    weights = xp.astype(weights, xp.float64)
    ends = running_sum(weights)
    positions = to_numpy(xp.searchsorted(ends, as_array_of(uniform, ends) * ends[-1], side="right"))
    return np.asarray(np.minimum(positions, weights.shape[0] - 1))


def placed(
    pieces: Sequence[Array],
    places: Sequence[np.ndarray],
    n: int,
    absent: float = float("nan"),
) -> Array:
    """Return a vector (n,) with the entries of pieces at integer places, all different, and `absent` elsewhere."""
    xp = namespace(*pieces)
    at = np.concatenate(places)
    everything = xp.concat([*pieces, xp.full_like(pieces[0][:1], absent)])
    index = np.full(n, at.size)
    index[at] = np.arange(at.size)
    return take_rows(everything, index)


class Scatter:
    r"""Products with sparse matrices that have different values in the same cells.

    Parameters
    ----------
    rows, columns : integer arrays of shape (n,), of numpy
        Cells, all different, in ascending order of rows and then of columns.
    shape : (int, int)
        Shape of the matrix.
    like : array
        Array of the library and on the device of the products.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn._array import Scatter
    >>> places = Scatter(np.array([0, 1, 1]), np.array([1, 0, 1]), (2, 2), np.empty(0))
    >>> values = np.array([1.0, 2.0, 3.0])
    >>> places.times(values, np.eye(2)), places.times(values, np.eye(2), transposed=True)
    (array([[0., 1.],
           [2., 3.]]), array([[0., 2.],
           [1., 3.]]))
    """

    def __init__(
        self, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], like: Array
    ) -> None:
        self.shape = shape
        self._places = (rows, columns)
        self._like = as_array_of(np.empty(0), like)

    def times(self, values: Array, matrix: Array, *, transposed: bool = False) -> Array:
        """Return the matrix (m, q) with these values (n,), or its transpose, times another matrix."""
        if array_api_compat.is_torch_array(values):
            import torch

            cells, transposed_cells, order = self._cells
            if transposed:
                cells_and_values = (transposed_cells, values[order], self.shape[::-1])
            else:
                cells_and_values = (cells, values, self.shape)
            # The cells were checked on input; without this, torch warns that they are not checked.
            with torch.sparse.check_sparse_tensor_invariants(enable=False):
                return torch.sparse.mm(
                    torch.sparse_coo_tensor(*cells_and_values, is_coalesced=True), matrix
                )
        if array_api_compat.is_cupy_array(values):
            from cupyx.scipy import sparse as cupyx_sparse  # type: ignore[import-not-found]

            rows, columns = (as_array_of(place, values) for place in self._places)
            left = cupyx_sparse.csr_matrix((values, (rows, columns)), shape=self.shape)
            return (left.T if transposed else left) @ matrix
        left, right = self._sparse(to_numpy(values), transposed), to_numpy(matrix)
        n_operations = 2.0 * left.nnz * right.shape[1]
        workers = n_workers(right, n_operations)
        if workers == 1:
            product = left @ right
        else:
            product = np.empty((left.shape[0], right.shape[1]), dtype=right.dtype)
            ends = np.searchsorted(
                left.indptr, np.linspace(0, left.nnz, 4 * workers + 1)[1:-1]
            ).tolist()

            def multiply(rows: slice) -> None:
                product[rows] = left[rows] @ right

            blocks = [slice(*pair) for pair in itertools.pairwise([0, *ends, left.shape[0]])]
            for_each(multiply, blocks, right, n_operations=n_operations)
        if is_foreign(matrix):
            return as_array_of(product, matrix)
        return product

    def _sparse(self, values: np.ndarray, transposed: bool) -> sparse.csr_array:
        """Return the matrix with these values, or its transpose."""
        rows, columns = self._places
        shape = self.shape
        if transposed:
            rows, columns, values, shape = (
                columns[self._order],
                rows[self._order],
                values[self._order],
                shape[::-1],
            )
        return sparse.csr_array(
            (values, columns, np.searchsorted(rows, np.arange(shape[0] + 1))), shape=shape
        )

    @cached_property
    def _order(self) -> np.ndarray:
        """Order of the cells by columns and then by rows."""
        return np.lexsort(self._places)

    @cached_property
    def _cells(self) -> list[Array]:
        """Cells of the matrix and of its transpose, each row by row, and the order of the latter, on the device."""
        rows, columns = self._places
        order = self._order
        parts = (np.stack([rows, columns]), np.stack([columns[order], rows[order]]), order)
        return [as_array_of(part, self._like) for part in parts]


def order_statistic(values: Array, rank: int) -> Array:
    """Return the value of some rank, counted from 0, along the last axis; the array may be overwritten."""
    if isinstance(values, np.ndarray):
        values.partition(rank, axis=-1)
        return values[..., rank].copy()
    return namespace(values).sort(values, axis=-1)[..., rank]


def values_in(*shapes: Shape) -> float:
    """Return the number of values of arrays of these shapes together."""
    return sum(math.prod(shape) if isinstance(shape, tuple) else shape for shape in shapes)


def is_block(*shapes: Shape) -> bool:
    """Return whether arrays of these shapes fit into a block together."""
    return values_in(*shapes) <= BLOCK


def row_blocks(n_rows: int, *per_row: Shape) -> Iterator[slice]:
    """Yield slices of rows, so that the arrays that each row takes, of these shapes, fit into a block."""
    return slices(n_rows, BLOCK // max(1, values_in(*per_row)))


def cached_blocks(
    n_rows: int, like: Array, *per_row: Shape, limit: int = CACHED
) -> Iterator[slice]:
    """Yield slices of rows as `row_blocks` does, of blocks that are fast on the device of `like`.

    On a processor they have at most `limit` values.
    """
    if is_foreign(like):
        limit = _ELSEWHERE
    return slices(n_rows, limit // max(1, values_in(*per_row)))


def slices(n_rows: int, step: float) -> Iterator[slice]:
    """Yield slices of at most `step` rows each, and of at least one."""
    step = max(1, int(step))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def is_on_gpu(array: Array) -> bool:
    """Return whether an array of torch or cupy is on a GPU."""
    if array_api_compat.is_torch_array(array):
        return bool(array.device.type == "cuda")
    return array_api_compat.is_cupy_array(array)


def device_memory(like: Array) -> int | None:
    """Return the free bytes on the GPU of `like`, with those that its library keeps, or None if it is not on a GPU."""
    if not is_on_gpu(like):
        return None
    if array_api_compat.is_torch_array(like):
        import torch

        kept = torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
        free = torch.cuda.mem_get_info(like.device)[0]
        return int(free + kept)
    import cupy

    free = cupy.cuda.runtime.memGetInfo()[0]
    kept = cupy.get_default_memory_pool().free_bytes()
    return int(free + kept)

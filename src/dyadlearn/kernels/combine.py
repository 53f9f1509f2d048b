"""Combine kernels: normalisation, weighted sums and products, and kernels of pairs of entities."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dyadlearn._array import Array, as_array_of, cast, float_dtype, is_foreign, namespace
from dyadlearn._memory import check_kernel_memory
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, in_order, like_inputs, make_ids, read_table
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels.gram import (
    Kernel,
    Params,
    check_kernel,
    gram,
    gram_diagonal,
    is_estimated,
    is_precomputed,
)
from dyadlearn.kernels.repair import is_finite, read_gram


def normalize(K: Any, row_diagonal: Any = None, column_diagonal: Any = None) -> Any:
    r"""Normalise a kernel to a unit diagonal: the cosine in the feature space of the kernel.

    .. math:: \tilde K_{ij} = \frac{K_{ij}}{\sqrt{k_i k_j}}, \qquad k_i = k(x_i, x_i)

    If k_i is zero, x_i is the zero vector of the feature space. Its row and column become zero,
    including the diagonal.

    Parameters
    ----------
    K : array or frame of shape (n, n) or (n_a, n_b)
        A Gram matrix or, if both diagonals are given, any block of one. If the columns of a frame
        have the ids of its rows, they are brought into the order of the rows.
    row_diagonal : array or series of shape (n_a,), optional
        Kernel of each row entity with itself; by default the diagonal of `K`.
    column_diagonal : array or series of shape (n_b,), optional
        Kernel of each column entity with itself; by default the diagonal of `K`.

    Returns
    -------
    array or frame of shape (n, n) or (n_a, n_b)
        With the ids of `K`.

    Raises
    ------
    IdError
        If the rows and columns of a Gram matrix have different ids, or the ids of a diagonal differ
        from those of its axis.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import normalize
    >>> normalize(np.array([[4.0, 3.0, 0.0], [3.0, 9.0, 0.0], [0.0, 0.0, 0.0]]))
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 0. ]])
    >>> normalize(np.array([[3.0]]), row_diagonal=np.array([4.0]), column_diagonal=np.array([9.0]))
    array([[0.5]])
    """
    table = read_gram(K, "K")
    n_rows, n_columns = table.values.shape
    check_kernel_memory(n_rows, n_columns, table.values)
    if (row_diagonal is None) != (column_diagonal is None):
        raise ValueError("row_diagonal and column_diagonal go together: give both or neither.")
    if row_diagonal is None:
        if table.values.shape[0] != table.values.shape[1]:
            shape = tuple(table.values.shape)
            raise KernelError(
                f"K must be square unless both diagonals are given, found shape {shape}."
            )
        table = table.squared("K")
        diagonal = namespace(table.values).linalg.diagonal(table.values)
        rows = _scale(diagonal, table.values, 0, "the diagonal of K")
        columns = rows
    else:
        row_diagonal = in_order(row_diagonal, table.row_ids, None, "row_diagonal", "the rows of K")
        column_diagonal = in_order(
            column_diagonal, table.column_ids, None, "column_diagonal", "the columns of K"
        )
        rows = _scale(row_diagonal, table.values, 0, "row_diagonal")
        columns = _scale(column_diagonal, table.values, 1, "column_diagonal")
    table = replace(table, values=table.values * (rows[:, None] * columns[None, :]))
    # A diagonal without ids has the order of the columns of K, so these are reordered last.
    row_ids = table.row_ids
    column_ids = table.column_ids
    if row_ids and column_ids and set(row_ids.labels) == set(column_ids.labels):
        table = table.squared("K")
    return like_inputs(table, K)


@dataclass(frozen=True)
class _Combination(Stored, stored=False):
    """Base class of `Sum` and `Product`: kernels with weights, checked on creation."""

    kernels: Sequence[Any]
    weights: Sequence[float] | None = None

    #: True if weights are exponents of factors, False if they multiply terms of a sum.
    _are_powers: ClassVar[bool]

    def __post_init__(self) -> None:
        if isinstance(self.kernels, str) or callable(self.kernels):
            raise KernelError(
                f"kernels must be a sequence of kernels, found the single {self.kernels!r}."
            )
        object.__setattr__(self, "kernels", tuple(self.kernels))
        for kernel, params in map(_split, self.kernels):
            check_kernel(kernel, params)
            if is_estimated(kernel, params):
                with_params = f'({kernel!r}, {{"frequencies": p}})'
                raise KernelError(
                    f"kernel {kernel!r} in a sum or product needs its parameters: give "
                    f"{with_params}."
                )
        weights = check_weights(self.weights, len(self.kernels), "kernels")
        object.__setattr__(self, "weights", None if self.weights is None else weights)

    def __call__(self, A: Any, B: Any = None) -> Any:
        """Return the kernel (n_a, n_b) between the rows of `A` (n_a, d) and `B` (n_b, d); a frame for frames."""
        # One block after the other, so that only one is in memory.
        blocks = (
            gram(A, B, kernel=kernel, kernel_params=params)
            for kernel, params in map(_split, self.kernels)
        )
        return like_inputs(self._joined(blocks), A, B)

    def diagonal(self, A: Any) -> Array:
        """Return k(a, a) of every row, shape (n,)."""
        columns = []
        for kernel, params in map(_split, self.kernels):
            diagonal = gram_diagonal(A, kernel=kernel, kernel_params=params)
            if not is_foreign(diagonal):
                diagonal = np.asarray(diagonal)
            columns.append(diagonal[:, None])
        return self._joined(columns).values[:, 0]

    def _joined(self, blocks: Iterable[Any]) -> Table:
        """Return the weighted sum of blocks, or the product of their powers."""
        join: Callable[[Array, Array], Array] = operator.imul if self._are_powers else operator.iadd
        total: Table | None = None
        weights = check_weights(self.weights, len(self.kernels), "kernels")
        for position, (block, weight) in enumerate(zip(blocks, weights, strict=True)):
            table = read_gram(block, f"kernels[{position}]")
            part = self._weighed(table.values, weight, f"kernels[{position}]")
            if total is not None:
                dtype = float_dtype(total.values, part)
                part = join(cast(total.values, dtype), cast(part, dtype))
            total = replace(table, values=part)
        assert total is not None  # there is at least one weight
        return total

    def _weighed(self, K: Array, weight: float, name: str) -> Array:
        """Return a kernel times its weight, or to the power of its exponent."""
        if not self._are_powers:
            return weight * K
        if not weight.is_integer() and float(namespace(K).min(K)) < 0:
            raise KernelError(
                f"{name} has negative entries, which have no power {weight:g}; use a whole "
                f"exponent."
            )
        return K**weight


@dataclass(frozen=True)
class Sum(_Combination):
    r"""Weighted sum of kernels; a callable kernel for models and `gram`.

    .. math:: k(a, b) = \sum_p w_p k_p(a, b)

    Parameters
    ----------
    kernels : sequence
        Each a name, a pair (name or callable, parameters), or a callable such as another `Sum` or
        `Product`.
    weights : sequence of float, optional
        Non-negative weights, one for each kernel; all 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import Sum
    >>> kernel = Sum(("linear", ("poly", {"degree": 2, "gamma": 1, "coef0": 0})), weights=(1, 0.5))
    >>> kernel(np.array([[1.0], [2.0]]))
    array([[ 1.5,  4. ],
           [ 4. , 12. ]])
    """

    _are_powers = False


@dataclass(frozen=True)
class Product(_Combination):
    r"""Product of kernels with exponents; a callable kernel for models and `gram`.

    .. math:: k(a, b) = \prod_p k_p(a, b)^{w_p}

    With whole exponents the product is positive semi-definite if every kernel is (Schur's product
    theorem). A fractional exponent is safe only for an infinitely divisible kernel, such as "rbf"
    or "laplacian".

    Parameters
    ----------
    kernels : sequence
        Each a name, a pair (name or callable, parameters), or a callable such as another `Sum` or
        `Product`.
    weights : sequence of float, optional
        Non-negative exponents, one for each kernel; all 1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import Product
    >>> Product(("linear", "delta"))(np.array([[1.0], [2.0]]))
    array([[1., 0.],
           [0., 4.]])
    """

    _are_powers = True


def pairs_of(
    K: Any,
    first: Any,
    second: Any,
    *,
    symmetric: bool = True,
    known: tuple[Any, Any] | None = None,
    kernel: Kernel = "precomputed",
    kernel_params: Params = None,
) -> dict[str, Any]:
    r"""Compute kernels of pairs of entities, such as drug combinations or hybrids, from a kernel of the entities.

    .. math:: s\bigl((a, b), (c, d)\bigr) = k(a, c) + k(b, d), \qquad p\bigl((a, b), (c, d)\bigr) = k(a, c)\, k(b, d)

    With the sum, a label is an effect of the first entity plus an effect of the second. With the
    product, it is an interaction of both. ``symmetric=True`` averages each kernel over both orders
    of the second pair, so that (a, b) and (b, a) are the same pair:

    .. math:: \tfrac12 \bigl[k(a, c) + k(b, d) + k(a, d) + k(b, c)\bigr], \qquad
              \tfrac12 \bigl[k(a, c)\, k(b, d) + k(a, d)\, k(b, c)\bigr]

    All are positive semi-definite if k is. The pairs are the rows of a model with
    ``kernel="precomputed"``.

    Parameters
    ----------
    K : array or frame of shape (n, n); or features of shape (n, d), if `kernel` is given
        Kernel or features of the entities, those of training and new ones.
    first, second : sequences of length p
        Members of the pairs: ids of the rows of a frame, or positions of the rows of an array.
    symmetric : bool, default=True
        Whether the order within a pair is irrelevant.
    known : (first, second), two sequences of length p_known, default=None
        Members of the training pairs, not a list of pairs. The result has a column for each pair,
        for `predict`.
    kernel, kernel_params : as in `gram`, default="precomputed"
        Kernel of the entities, if `K` has their features. Parameters that it estimates from
        training rows, such as allele frequencies, are estimated from the members of the training
        pairs.

    Returns
    -------
    dict with the keys "sum" and "product", of arrays or frames of shape (p, p) or (p, p_known)
        Ids of pairs are those of their members with a plus sign between them, such as ``"aspirin +
        heparin"``.

    Raises
    ------
    IdError
        If `K` lacks a member of a pair, or a pair is listed twice.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import pairs_of
    >>> K = np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 1.0]])
    >>> pairs_of(K, [0, 0], [1, 2])["sum"]
    array([[1.5 , 0.85],
           [0.85, 1.  ]])
    >>> pairs_of(K, [1], [2], known=([0, 0], [1, 2]))["product"]
    array([[0.05, 0.25]])
    """
    if known is not None and len(known) != 2:
        raise ValueError(
            f"known must be (first, second) of the training pairs, found {len(known)} lists."
        )
    if isinstance(K, list | tuple):
        K = np.asarray(K)
    is_kernel = is_precomputed(kernel)
    if is_kernel:
        table = read_gram(K, "K", is_square=known is None)
    else:
        table = read_table(K, "K")
    pairs = _members(first, second, table, symmetric)
    trained = pairs
    if known is not None:
        trained = _members(*known, table.transposed if is_kernel else table, symmetric)
    if is_kernel:
        kernel_of_all = table.take(pairs.members, trained.members)
    else:
        others = None if known is None else trained.members
        kernel_of_all = _kernel_of_members(table, pairs.members, others, kernel, kernel_params)
    check_kernel_memory(len(pairs), len(trained), None, _KERNELS_OF_PAIRS)
    sums, products = _kernels_of_pairs(kernel_of_all.values, len(pairs), len(trained), symmetric)
    kind = kernel_of_all.kind
    return {
        "sum": like_inputs(Table(sums, pairs.ids, trained.ids, kind), K),
        "product": like_inputs(Table(products, pairs.ids, trained.ids, kind), K),
    }


# Number of arrays of the size of a kernel of pairs in memory; the kernel of all members is as large
# as four.
_KERNELS_OF_PAIRS = 9


class _Pairs(NamedTuple):
    """Pairs of entities.

    Attributes
    ----------
    members : integer array of shape (2 p,)
        Positions of all first and then of all second members.
    ids : Ids or None
        Ids of the pairs.
    """

    members: np.ndarray
    ids: Ids | None

    def __len__(self) -> int:
        return len(self.members) // 2


def _kernel_of_members(
    table: Table,
    rows: np.ndarray,
    columns: np.ndarray | None,
    kernel: Kernel,
    kernel_params: Params,
) -> Table:
    """Return the kernel between members from their features; without columns, those of the rows.

    Each entity is computed once, however many pairs it is a member of.
    """
    left, places = np.unique(rows, return_inverse=True)
    if columns is None:
        block: Table = gram(table.take(left), None, kernel=kernel, kernel_params=kernel_params)
        return block.take(places, places)
    right, other_places = np.unique(columns, return_inverse=True)
    block = gram(table.take(left), table.take(right), kernel=kernel, kernel_params=kernel_params)
    return block.take(places, other_places)


def _kernels_of_pairs(K: Array, n: int, m: int, symmetric: bool) -> tuple[Array, Array]:
    """Return the sum and the product kernel (n, m) of pairs from the kernel (2n, 2m) of their members."""
    ac = K[:n, :m]
    ad = K[:n, m:]
    bc = K[n:, :m]
    bd = K[n:, m:]
    sums = ac + bd
    products = ac * bd
    if symmetric:
        sums = (sums + (ad + bc)) / 2
        products = (products + ad * bc) / 2
    return sums, products


def _members(first: Any, second: Any, table: Table, symmetric: bool) -> _Pairs:
    """Return the pairs of two lists of members; raise if one is not in the table or a pair is listed twice."""
    a = np.asarray(first, dtype=object).tolist()
    b = np.asarray(second, dtype=object).tolist()
    if len(a) != len(b) or not a:
        raise ValueError(
            f"first and second must list the members of the same pairs, found {len(a)} and "
            f"{len(b)}."
        )
    ids = table.row_ids or Ids(tuple(range(table.values.shape[0])))
    places = ids.positions([*a, *b], "K").reshape(2, -1)
    unordered = np.sort(places, axis=0) if symmetric else places
    pairs = list(zip(*unordered.tolist(), strict=True))
    last = {pair: place for place, pair in enumerate(pairs)}
    for place, pair in enumerate(pairs):
        if last[pair] != place:
            raise IdError(
                f"The pair of {a[place]!r} and {b[place]!r} is listed twice: average its labels."
            )
    if table.row_ids is None:
        return _Pairs(places.ravel(), None)
    labels = [f"{left} + {right}" for left, right in zip(a, b, strict=True)]
    return _Pairs(places.ravel(), make_ids(labels, None, "The list of pairs"))


def _split(member: Any) -> tuple[Any, Any]:
    """Return the kernel and the parameters of one member of a combination."""
    if isinstance(member, tuple | list) and len(member) == 2:
        return member[0], member[1]
    if isinstance(member, str) or callable(member):
        return member, None
    raise KernelError(
        f'a member of kernels must be a name, a pair such as ("rbf", {{"gamma": 1}}) or a '
        f"callable, found {member!r}."
    )


def check_weights(weights: Any, count: int, what: str, name: str = "weights") -> tuple[float, ...]:
    """Return one non-negative weight for each of `count` kernels or ranks, after checking them."""
    if count == 0:
        raise ValueError(f"{what} must hold at least one, found none.")
    if weights is None:
        return (1.0,) * count
    weights = tuple(weights)
    if len(weights) != count:
        raise ValueError(
            f"{name} must hold one number for each of {count} {what}, found {len(weights)}."
        )
    for weight in weights:
        if not isinstance(weight, Real) or not math.isfinite(weight) or weight < 0:
            raise ValueError(f"{name} must be non-negative finite numbers, found {weight!r}.")
    return tuple(float(weight) for weight in weights)


def _scale(diagonal: Any, K: Array, axis: int, name: str) -> Array:
    """Return 1/√k, zero where k is zero, for one side of `K`."""
    xp = namespace(K)
    diagonal = as_array_of(diagonal, K, dtype=K.dtype)
    if tuple(diagonal.shape) != (K.shape[axis],):
        side = f"{K.shape[axis]} {('rows', 'columns')[axis]} of K"
        raise ValueError(
            f"{name} must hold one number for each of the {side}, found shape "
            f"{tuple(diagonal.shape)}."
        )
    smallest = float(xp.min(diagonal))
    if not is_finite(diagonal) or smallest < 0:
        raise KernelError(
            f"{name} must be finite and non-negative; the smallest found is {smallest:.3g}."
        )
    zero = xp.astype(diagonal == 0, K.dtype)
    least = float(xp.min(diagonal + zero))
    if least < float(xp.finfo(K.dtype).smallest_normal):
        raise KernelError(
            f"{name} has the tiny value {least:.3g}: multiply the kernel, or its features, by a "
            f"factor."
        )
    return (1.0 - zero) / xp.sqrt(diagonal + zero)

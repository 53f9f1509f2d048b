r"""Learned kernels: weighted sums of powers of the kernels of several descriptions.

.. math:: k(a, b) = \sum_i w_i \, k_i(a, b)^{p_i}

Each :math:`k_i` is scaled to a unit diagonal, or by the mean of its diagonal. The entities have one
wide table, in which each description has some columns. The columns of features are the features.
The columns of a precomputed kernel are the *place* of the row among the n training entities (-1 for
a new entity), and then its n kernel values with them. The kernel between any rows of the table and
training rows can be computed from these columns.

`Description` computes the scaled kernel of one description from its columns of the wide table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    cast,
    dense,
    epsilon,
    float_dtype,
    is_sparse,
    namespace,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._checks import check_choice, check_matrix, check_same_library
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import Ids, Table, is_whole, shown
from dyadlearn.exceptions import IdError, KernelError
from dyadlearn.kernels.combine import check_weights, normalize
from dyadlearn.kernels.descriptions import Descriptions, own_ids, title_of
from dyadlearn.kernels.gram import (
    DIVISIBLE,
    SAME,
    Params,
    check_kernel,
    common_diagonal,
    fitted_params,
    gram,
    gram_diagonal,
    is_estimated,
    is_precomputed,
)
from dyadlearn.kernels.repair import mended, not_square

# Size of negative entries, relative to the mean diagonal, that count as zero in a kernel with an
# exponent.
_ROUNDING = 0.01
# Variance of rows, in units of the machine precision and of their mean square, up to which they are
# equal.
_EQUAL_ROWS = 4.0
# Range of the largest feature of a description: its squares have all digits.
_RANGE = (1e-140, 1e140)
# Number of evenly spaced rows that decide whether powers of a kernel function make sense.
_LOOKED_AT = 512


@dataclass(frozen=True, eq=False)
class Description(Stored):
    """One description of a `LearnedKernel`: its kernel, its columns, and its learned weight and exponent.

    Attributes
    ----------
    name : str
    kernel : str or callable
        Kernel as in `dyadlearn.kernels.gram`, or "precomputed".
    params : mapping or None
        Parameters of the kernel by name.
    start, stop : int
        First column in the wide table, and the column after the last.
    weight, exponent : float
        Learned weight and exponent.
    has_exponent : bool
        Whether powers of the kernel make sense: it is non-negative and has more than one non-zero value.
    normalized : bool
        Whether the kernel is scaled to a unit diagonal.
    scale : float
        Divisor of a kernel that is not normalised: the mean of its diagonal in training.
    diagonal : array of shape (n,) or None
        Diagonal of a precomputed kernel in training; None for other kernels.
    new_diagonal : float or None
        Value of a precomputed kernel for a new entity with itself; None if it is unknown.
    columns : Ids or None
        Names of the features or, for a precomputed kernel, ids of the training entities.
    """

    name: str
    kernel: str | Callable[..., Any]
    params: Params
    start: int
    stop: int
    weight: float = 1.0
    exponent: float = 1.0
    has_exponent: bool = True
    normalized: bool = True
    scale: float = 1.0
    diagonal: Array | None = None
    new_diagonal: float | None = None
    columns: Ids | None = None

    @property
    def is_precomputed(self) -> bool:
        """Whether the columns hold a place and kernel values."""
        return is_precomputed(self.kernel)

    @property
    def is_divisible(self) -> bool:
        """Whether all positive powers of the kernel are kernels, as for RBF kernels."""
        return isinstance(self.kernel, str) and self.kernel in DIVISIBLE

    @property
    def n_columns(self) -> int:
        """Number of columns of its table: features, or kernel values with the training entities."""
        return self.stop - self.start - self.is_precomputed

    def block(self, a: Array, b: Array | None = None) -> Array:
        """Return the scaled kernel (n_a, n_b) between rows of its columns, without weight and exponent."""
        raw = self._raw(a, b)
        if not self.normalized:
            block = raw / self.scale
        elif b is None and not self.is_precomputed:
            block = normalize(raw)
        else:
            rows = self._raw_diagonal(a)
            block = normalize(raw, rows, rows if b is None else self._raw_diagonal(b))
        return self._not_negative(cast(block, float_dtype(a)))

    def knows_diagonal(self, a: Array) -> bool:
        """Return whether the kernel of each row with itself is known: that of a precomputed kernel need not be."""
        if not self.is_precomputed or self.new_diagonal is not None:
            return True
        places = _places(a)
        return not bool(namespace(places).any(places < 0))

    def diagonal_of(self, a: Array, raw: Array | None = None) -> Array:
        """Return the diagonal (n,) of the scaled kernel of rows of its columns, without weight and exponent.

        `raw` is the diagonal before scaling, if it is known.
        """
        if raw is None:
            raw = self._raw_diagonal(a)
        raw = cast(raw, float_dtype(a))
        if self.normalized:
            return namespace(raw).astype(raw > 0, raw.dtype)
        return self._not_negative(raw / self.scale)

    def term(self, block: Array) -> Array:
        """Return the term of a block, or of a diagonal, in the sum: with its weight and exponent."""
        if self.has_exponent and self.exponent != 1:
            block = block**self.exponent
        return self.weight * block

    def _not_negative(self, block: Array) -> Array:
        """Return a block of a kernel with an exponent without negative entries, which are rounding."""
        if not self.has_exponent:
            return block
        return namespace(block).where(block < 0, 0.0, block)

    def _raw(self, a: Array, b: Array | None) -> Array:
        """Return the kernel (n_a, n_b) between rows before scaling."""
        if not self.is_precomputed:
            return gram(a, b, kernel=self.kernel, kernel_params=self.params)
        a = dense(a)
        places = _places(a if b is None else b)
        if int(namespace(places).min(places)) >= 0:
            return _taken_columns(a[:, 1:], places)
        if b is None and a.shape[0] == 1:
            return self._raw_diagonal(a)[:, None]
        raise KernelError(
            f"The precomputed kernel {self.name!r} is not known between new entities: give those "
            f"of training as the second argument."
        )

    def _raw_diagonal(self, a: Array) -> Array:
        """Return k(x, x) of every row before scaling."""
        if not self.is_precomputed:
            return gram_diagonal(a, kernel=self.kernel, kernel_params=self.params)
        places = _places(a)
        xp = namespace(places)
        diagonal = as_array_of(self.diagonal, dense(a), dtype=a.dtype)
        is_new = places < 0
        known_places = xp.where(is_new, xp.zeros_like(places), places)
        of_training = take_rows(diagonal, known_places)
        if not bool(xp.any(is_new)):
            return of_training
        if self.new_diagonal is None:
            raise KernelError(
                f"The similarity of a new entity to itself is not known in {self.name!r}: scale it "
                f"by dyadlearn.kernels.normalize, for training and for new entities."
            )
        return xp.where(is_new, self.new_diagonal, of_training)

    def _fits(self) -> bool:
        if not 0 <= self.start <= self.stop or is_estimated(self.kernel, self.params):
            return False
        if not self.is_precomputed:
            return self.diagonal is None and check_kernel(self.kernel, self.params) is not None
        return self.diagonal is not None and tuple(self.diagonal.shape) == (self.n_columns,)


def _places(part: Array) -> Array:
    """Return the places of rows: the first of the columns of a precomputed kernel."""
    part = dense(part[:, :1])
    return namespace(part).astype(part[:, 0], namespace(part).int64)


def with_places(values: Array, places: np.ndarray) -> Array:
    """Return the columns of a precomputed kernel: the places of its rows, then its values."""
    first = as_array_of(places, values, dtype=values.dtype)[:, None]
    return namespace(values).concat([first, values], axis=1)


def _has_diagonal(member: Description, values: Array) -> bool:
    """Return whether a kernel (n, n) of rows with the training entities has the training diagonal: same entities."""
    xp = namespace(values)
    diagonal = as_array_of(member.diagonal, values, dtype=values.dtype)
    gap = xp.abs(xp.linalg.diagonal(values) - diagonal)
    return bool(xp.all(gap <= SAME * xp.abs(diagonal)))


def _scaled(
    description: Description, part: Array, title: str, weights: Array | None
) -> Description:
    """Return a description with its scale and whether it has an exponent, from its columns in training."""
    if not description.is_precomputed:
        _check_range(part, title)
    params = description.params
    if description.kernel == "rbf" and "gamma" not in (params or {}):
        params = {**(params or {}), "gamma": 1.0 / mean_squared_distance(part, weights)}
    params = fitted_params(description.kernel, params, part, weights)
    description = replace(description, params=params)
    scale = _mean_diagonal(description._raw_diagonal(part), title, weights)
    if description.normalized or scale == 0:
        scale = 1.0
    description = replace(description, has_exponent=False, scale=scale)
    n = part.shape[0]
    if description.is_precomputed or n <= _LOOKED_AT:
        block = description.block(part)
    else:
        places = np.linspace(0, n - 1, _LOOKED_AT).astype(np.intp)
        block = description.block(take_rows(part, places), part)
    return replace(description, has_exponent=_bends(block))


def _mean_diagonal(diagonal: Array, title: str, weights: Array | None) -> float:
    """Return the weighted mean of a diagonal (n,); raise if it is negative or too small to divide by."""
    xp = namespace(diagonal)
    lowest = float(xp.min(diagonal))
    if lowest < 0:
        raise KernelError(
            f"The kernel of {title} is negative on its diagonal, down to {lowest:.3g}: choose "
            f"another kernel."
        )
    if weights is None:
        mean = float(xp.mean(diagonal))
    else:
        mean = float(xp.sum(weights * diagonal) / xp.sum(weights))
    if 0 < mean < float(xp.finfo(diagonal.dtype).smallest_normal):
        raise KernelError(
            f"The kernel of {title} has a mean diagonal of only {mean:.3g}: multiply it by a "
            f"factor."
        )
    return mean


def _check_range(features: Array, title: str) -> None:
    """Raise if squares of the features overflow, or lose digits."""
    values = features.data if is_sparse(features) else features
    xp = namespace(values)
    largest = 0.0
    if math.prod(values.shape):
        largest = float(xp.max(xp.abs(values)))
    low, high = _RANGE
    if largest > 0 and not low < largest < high:
        raise KernelError(
            f"The largest feature of {title} must be between {low:g} and {high:g}, found "
            f"{largest:.3g}: multiply the features by a factor."
        )


def _bends(block: Array) -> bool:
    """Return whether powers of a kernel with a mean diagonal of 1 are more than multiples of the kernel."""
    xp = namespace(block)
    low = float(xp.min(block))
    high = float(xp.max(block))
    if low < -_ROUNDING or high <= 0:
        return False
    # A kernel with a single non-zero value, such as a constant or delta, has powers that are
    # multiples of it.
    positive = xp.where(block > SAME * high, block, high)
    return high - float(xp.min(positive)) > SAME * high


def _precomputed(
    name: str, K: Array, start: int, ids: Ids | None, normalized: bool, unrepaired: Array
) -> tuple[Description, Array]:
    """Return the description of a precomputed kernel (n, n), and its columns of the wide table.

    Parameters
    ----------
    name : str
    K : array of shape (n, n)
        Symmetric and positive semi-definite, of the entities of training.
    start : int
        Position of its first column.
    ids : Ids or None
        Ids of the training entities.
    normalized : bool
        Whether the kernel is scaled to a unit diagonal.
    unrepaired : array of shape (n, n)
        The kernel before any repair. If its diagonal is constant, new entities have the same value.
    """
    xp = namespace(K)
    n = K.shape[0]
    diagonal = namespace(unrepaired).linalg.diagonal(unrepaired)
    description = Description(
        name,
        "precomputed",
        None,
        start,
        start + n + 1,
        normalized=normalized,
        diagonal=xp.asarray(xp.linalg.diagonal(K), copy=True),
        new_diagonal=common_diagonal(diagonal),
        columns=ids,
    )
    return description, with_places(K, np.arange(n))


def mean_squared_distance(features: Array, weights: Array | None = None) -> float:
    """Return the mean squared distance between two different rows.

    If all rows are equal up to rounding, it is the mean square of the rows; 1 if they are zero. A
    row with weight 2 counts as two rows.
    """
    if is_sparse(features):
        if weights is None:
            counts = np.ones(features.shape[0])
        else:
            counts = to_numpy(weights)
        n = float(counts.sum())
        means = features.T @ counts / n
        square = float((features.multiply(features).T @ counts).sum()) / n
        spread = square - float(means @ means)
    else:
        xp = namespace(features)
        counts = xp.ones_like(features[:, 0]) if weights is None else weights
        n = float(xp.sum(counts))
        centred = features - (counts @ features / n)[None, :]
        square = float(xp.sum(counts @ (features * features))) / n
        spread = float(xp.sum(counts @ (centred * centred))) / n
    # Kernels compute distances as differences of squares.
    if spread <= _EQUAL_ROWS * epsilon(features) * square:
        return square or 1.0
    correction = n / (n - 1) if n > 1 else 1.0
    return 2.0 * spread * correction


@dataclass(frozen=True, eq=False)
class LearnedKernel(Stored):
    r"""Weighted sum of powers of the kernels of several descriptions, which `LearnedKernelRidge` creates.

    .. math:: k(a, b) = \sum_i w_i \, k_i(a, b)^{p_i}

    Its rows are those of a wide table with the columns of all descriptions.

    Parameters
    ----------
    members : tuple of Description
        One for each description, in the order of their columns.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.kernels import Descriptions
    >>> from dyadlearn.kernels.learned import describe
    >>> K = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, 0.3], [0.2, 0.3, 1.0]])
    >>> tables = Descriptions({"size": np.array([[1.0], [2.0], [4.0]]), "similarity": K})
    >>> kernel, wide = describe(tables, ["linear", "precomputed"], normalize=True, repair="clip", name="X")
    >>> kernel.names
    ('size', 'similarity')
    >>> kernel.scaled(wide.values, "X").with_parameters([0.1, 0.9], [1.0, 2.0])(wide.values).round(3)
    array([[1.   , 0.325, 0.136],
           [0.325, 1.   , 0.181],
           [0.136, 0.181, 1.   ]])
    """

    members: tuple[Description, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the descriptions."""
        return tuple(member.name for member in self.members)

    @property
    def n_columns(self) -> int:
        """Number of columns of the wide table."""
        return self.members[-1].stop

    def __call__(self, A: Array, B: Array | None = None) -> Array:
        """Return the kernel (n_a, n_b) between rows of the wide table; the rows of `B` are training rows."""
        # One block after the other, so that only one is in memory; kernels with weight 0 are not
        # computed.
        total = None
        for member, a, b in self._parts(A, B):
            if member.weight == 0:
                continue
            term = member.term(member.block(a, b))
            if total is None:
                total = term
            else:
                total += term
        if total is None:
            shape = (A.shape[0], A.shape[0] if B is None else B.shape[0])
            return zeros(shape, cast(dense(A[:1, :]), float_dtype(A)))
        return total

    def diagonal(self, A: Array, known: Mapping[str, Array] | None = None) -> Array:
        """Return k(a, a) of every row, shape (n,).

        `known` has the diagonals of descriptions before scaling, by name, where they are known.
        """
        known = known or {}
        total: Any = 0
        for member, a, _ in self._parts(A, None):
            total = total + member.term(member.diagonal_of(a, known.get(member.name)))
        return total

    def without_diagonal(self, A: Array) -> list[str]:
        """Return the names of the descriptions whose k(a, a) is not known for every row."""
        return [
            member.name for member, a, _ in self._parts(A, None) if not member.knows_diagonal(a)
        ]

    def blocks(self, A: Array, B: Array | None = None) -> list[Array]:
        """Return the block (n_a, n_b) of each description, scaled, but without weights and exponents."""
        return [member.block(a, b) for member, a, b in self._parts(A, B)]

    def with_parameters(
        self, weights: Sequence[float], exponents: Sequence[float]
    ) -> LearnedKernel:
        """Return the kernel with other weights and exponents; a description without an exponent ignores it.

        Parameters
        ----------
        weights : sequence of float
            Non-negative, one for each description.
        exponents : sequence of float
            Positive, one for each description.
        """
        weights = check_weights(weights, len(self.members), "descriptions")
        exponents = check_weights(exponents, len(self.members), "descriptions", "exponents")
        if 0 in exponents:
            raise ValueError("exponents must be positive finite numbers, found 0.0.")
        members = []
        for member, weight, exponent in zip(self.members, weights, exponents, strict=True):
            if not member.has_exponent:
                exponent = 1.0
            members.append(replace(member, weight=weight, exponent=exponent))
        return LearnedKernel(tuple(members))

    def only(self, chosen: np.ndarray) -> LearnedKernel:
        """Return the kernel with a weight of 0 for each description that is not chosen."""
        weights = np.where(chosen, [member.weight for member in self.members], 0.0).tolist()
        return self.with_parameters(weights, [member.exponent for member in self.members])

    def training_parts(self, A: Array) -> list[Array] | None:
        """Return the columns of each description of the training rows, without the places of precomputed kernels.

        A model file stores them one by one, so that it can leave out one half of each kernel. None
        if the table cannot be restored from them, as if it is sparse.
        """
        if is_sparse(A):
            return None
        parts = []
        for member in self.members:
            part = A[:, member.start : member.stop]
            if member.is_precomputed:
                places = to_numpy(_places(part))
                if not np.array_equal(places, np.arange(part.shape[0])):
                    return None
                part = part[:, 1:]
            parts.append(part)
        return parts

    def training_table(self, parts: Sequence[Array]) -> Array:
        """Return the wide table (n, n_columns) of the training rows from its parts."""
        columns = []
        for member, part in zip(self.members, parts, strict=True):
            if member.is_precomputed:
                part = with_places(part, np.arange(part.shape[0]))
            columns.append(part)
        if len(columns) == 1:
            return columns[0]
        return np.concatenate(columns, axis=1)

    def lacking(self, A: Array) -> np.ndarray:
        """Return which descriptions each row of the wide table lacks, shape (n, number of descriptions)."""
        # All values of a missing description are NaN, so the last one tells.
        last_columns = []
        for member in self.members:
            column = dense(A[:, member.stop - 1 : member.stop])
            last_columns.append(to_numpy(column))
        return np.asarray(np.isnan(np.concatenate(last_columns, axis=1)))

    def scaled(self, rows: Array, name: str, weights: Array | None = None) -> LearnedKernel:
        """Return the kernel with the scale of each description in training, and "rbf" with its gamma.

        Parameters
        ----------
        rows : array of shape (n, n_columns)
            All training rows of the wide table.
        name : str
            Name of the side in messages.
        weights : array of shape (n,), optional
            Weights of the rows in means; a row with weight 2 counts as two rows.

        Raises
        ------
        KernelError
            If a kernel is negative on its diagonal.
        """
        members = []
        for member, part, _ in self._parts(rows, None):
            members.append(_scaled(member, part, title_of(member.name, name), weights))
        return LearnedKernel(tuple(members))

    def with_ids(self, ids: Ids | None) -> LearnedKernel:
        """Return the kernel with the ids of the training entities, which precomputed kernels are matched by."""
        return LearnedKernel(
            tuple(
                replace(member, columns=ids) if member.is_precomputed else member
                for member in self.members
            )
        )

    def joined(
        self, names: Sequence[str], grams: Sequence[Array], wide: Table
    ) -> tuple[LearnedKernel, Table]:
        """Return the kernel with more descriptions, all with exponents, and their wider table.

        Parameters
        ----------
        names : sequence of str
            Names, different from those of the other descriptions.
        grams : sequence of arrays of shape (n, n)
            Kernels of the training entities with a unit diagonal, in the order of the rows of
            `wide`.
        wide : Table
            All training rows.
        """
        members = list(self.members)
        parts = [wide.values]
        normalized = self.members[0].normalized
        for name, K in zip(names, grams, strict=True):
            K = cast(K, wide.values.dtype)
            start = members[-1].stop
            description, part = _precomputed(name, K, start, wide.row_ids, normalized, K)
            members.append(description)
            parts.append(part)
        purpose = f"Joining {len(grams)} kernels"
        values = _side_by_side(parts, is_sparse(wide.values), purpose)
        return LearnedKernel(tuple(members)), replace(wide, values=values, column_ids=None)

    def _parts(
        self, A: Array, B: Array | None
    ) -> Iterator[tuple[Description, Array, Array | None]]:
        """Yield each description with its columns of `A` and `B`."""
        for name, rows in (("A", A), ("B", B)):
            if rows is not None and rows.shape[1] != self.n_columns:
                raise ValueError(
                    f"{name} has {rows.shape[1]} columns, expected the {self.n_columns} of the "
                    f"wide table."
                )
        for member in self.members:
            columns = slice(member.start, member.stop)
            b = None if B is None or B is A else B[:, columns]
            yield member, A[:, columns], b

    def _fits(self) -> bool:
        starts = [member.start for member in self.members]
        stops = [member.stop for member in self.members]
        return bool(self.members) and starts == [0, *stops[:-1]]


def describe(
    descriptions: Descriptions, kernels: Any, *, normalize: bool, repair: str, name: str
) -> tuple[LearnedKernel, Table]:
    """Return the kernel of the training entities, with all weights and exponents 1, and their wide table.

    Scale it before use (`LearnedKernel.scaled`).

    Parameters
    ----------
    descriptions : Descriptions
    kernels : str, callable or pair; mapping of names to these; or sequence of these
        The kernel of all descriptions, or of each. A pair is a kernel and its parameters. The
        default gamma of "rbf" is one over the mean squared distance between rows; it is set by
        `LearnedKernel.scaled`.
    normalize : bool
        Whether kernels are scaled to a unit diagonal, or divided by the mean of their diagonal.
    repair : {"clip", "shift", "error"}
        Treatment of precomputed kernels that are asymmetric or indefinite.
    name : str
        Name of the side in messages.

    Returns
    -------
    kernel : LearnedKernel
    wide : Table
        Sparse if all descriptions are sparse features.

    Raises
    ------
    KernelError
        If a kernel is unknown, or a precomputed kernel is not square or not valid under
        ``repair="error"``.
    ValueError
        If a description has no kernel, a kernel has no description, or values are not finite.
    NotEnoughMemoryError
        If the wide table is too large.

    Examples
    --------
    >>> import numpy as np
    >>> K = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> descriptions = Descriptions({"size": np.array([[1.0], [2.0]]), "similarity": K})
    >>> kernels = {"size": ("rbf", {"gamma": 1.0}), "similarity": "precomputed"}
    >>> kernel, wide = describe(descriptions, kernels, normalize=True, repair="clip", name="X")
    >>> wide.values
    array([[1. , 0. , 1. , 0.5],
           [2. , 1. , 0.5, 1. ]])
    >>> kernel.scaled(wide.values, "X")(wide.values).round(3)
    array([[2.   , 0.868],
           [0.868, 2.   ]])
    """
    check_choice(repair, "repair", ("clip", "shift", "error"))
    chosen = _chosen(kernels, descriptions.names, name)
    matrices = _matrices(descriptions, name)
    members: list[Description] = []
    parts: list[Array] = []
    for label, (kernel, params) in chosen.items():
        part = matrices[label]
        table = descriptions.tables[label]
        start = members[-1].stop if members else 0
        if kernel == "precomputed":
            title = title_of(label, name)
            K = _training_kernel(dense(part), table, descriptions, title)
            repaired = mended(K, repair, title)
            description, part = _precomputed(
                label, repaired, start, descriptions.row_ids, bool(normalize), K
            )
        else:
            description = Description(
                label,
                kernel,
                params,
                start,
                start + part.shape[1],
                normalized=bool(normalize),
                columns=table.column_ids,
            )
        members.append(description)
        parts.append(part)
    are_sparse = all(is_sparse(part) for part in parts)
    wide = _side_by_side(parts, are_sparse, f"The table of {len(parts)} descriptions of {name}")
    return LearnedKernel(tuple(members)), Table(wide, descriptions.row_ids, None, descriptions.kind)


def widen(
    kernel: LearnedKernel, descriptions: Descriptions, trained_places: Array | None, name: str
) -> Table:
    """Return the wide table of the rows to predict; descriptions that a row lacks are NaN.

    A row lacks a description that is not passed, or of which all its values are NaN. The columns of
    a precomputed kernel are matched by ids, if they and the training entities have ids. Otherwise
    they are the training entities or, if `descriptions` and the training rows were indexed from one
    `Descriptions`, all its entities.

    Parameters
    ----------
    kernel : LearnedKernel
    descriptions : Descriptions
        Descriptions with names and columns of training; names in any order.
    trained_places : array of shape (n,) or None
        The `places` of the training descriptions.
    name : str
        Name of the side in messages.

    Returns
    -------
    Table

    Raises
    ------
    ValueError
        If descriptions are unknown or have other columns than in training, if some values of a
        description of a row are NaN, or if a row lacks all descriptions.
    IdError
        If a training id has no column in a precomputed kernel.
    """
    # Descriptions may be missing, so only unknown ones raise an error.
    _check_names(
        [*kernel.names, *descriptions.names],
        kernel.names,
        f"The descriptions of {name}",
        "give those of training",
    )
    matrices = _matrices(descriptions, name, allow_nan=True)
    n = len(descriptions)
    labels: Sequence[Any] = range(n)
    if descriptions.row_ids is not None:
        labels = descriptions.row_ids.labels
    parts = []
    for member in kernel.members:
        if member.name not in matrices:
            like = dense(next(iter(matrices.values()))[:1, :])
            parts.append(zeros((n, member.stop - member.start), like) + math.nan)
            continue
        title = title_of(member.name, name)
        table = replace(descriptions.tables[member.name], values=matrices[member.name])
        _check_whole_rows(table.values, labels, title)
        if member.is_precomputed:
            parts.append(_new_kernel(member, table, descriptions, trained_places, title))
        else:
            parts.append(_new_features(member, table, title))
    are_sparse = all(is_sparse(part) for part in parts)
    wide = _side_by_side(parts, are_sparse, f"The table of {name}")
    lacks_all = kernel.lacking(wide).all(axis=1)
    unknown = [labels[row] for row in np.flatnonzero(lacks_all).tolist()]
    if unknown:
        raise ValueError(
            Message(
                "<{name}> has no description of row {unknown}: give one of {names}.",
                name=name,
                unknown=shown(unknown),
                names=shown(kernel.names, 12),
            )
        )
    return Table(wide, descriptions.row_ids, None, descriptions.kind)


def _check_whole_rows(values: Array, labels: Sequence[Any], title: str) -> None:
    """Raise if a row of a description is NaN in part."""
    gaps = values != values  # NaN differs from itself, in sparse tables too
    if not is_sparse(gaps):
        gaps = to_numpy(gaps)
    n_gaps = np.asarray(gaps.sum(axis=1)).reshape(-1)
    is_partial = (n_gaps > 0) & (n_gaps < values.shape[1])
    partly = [labels[row] for row in np.flatnonzero(is_partial).tolist()]
    if partly:
        raise ValueError(
            Message(
                "{title} has NaN in part of row {partly}: fill it in, or make all of it NaN.",
                title=title,
                partly=shown(partly),
            )
        )


# Checks of the input -------------------------------------------------------------------------------


def _chosen(kernels: Any, names: Sequence[str], owner: str) -> dict[str, tuple[Any, Any]]:
    """Return the kernel and the parameters of each description."""
    if is_one_kernel(kernels):
        kernels = dict.fromkeys(names, kernels)
    elif isinstance(kernels, list | tuple):
        if len(kernels) != len(names):
            raise ValueError(
                f"There must be one kernel for each of {len(names)} descriptions of {owner} "
                f"({shown(list(names))}), found {len(kernels)} kernels."
            )
        kernels = dict(zip(names, kernels, strict=True))
    if not isinstance(kernels, Mapping):
        raise KernelError(
            f"The kernels of {owner} must be a kernel, a mapping of descriptions to kernels or a "
            f"list, found {type(kernels).__name__}."
        )
    _check_names(kernels, names, f"The kernels of {owner}", "give one for each description")
    chosen = {}
    for label in names:
        kernel = kernels[label]
        params = None
        if is_pair(kernel):
            kernel, params = kernel
        if not is_precomputed(kernel):
            params = check_kernel(kernel, params)
        elif params:
            raise KernelError(
                Message(
                    "{title} has a precomputed kernel, which takes no parameters.",
                    title=title_of(label, owner),
                )
            )
        chosen[label] = (kernel, params or None)
    return chosen


def _check_names(names: Iterable[str], wanted: Sequence[str], what: str, remedy: str) -> None:
    """Raise if the names are not those `wanted`, in any order."""
    names = list(names)
    lacking = [name for name in wanted if name not in names]
    extra = [name for name in names if name not in wanted]
    problems = []
    if lacking:
        problems.append(f"lack {shown(lacking)}")
    if extra:
        problems.append(f"have the unknown name {shown(extra)}")
    if problems:
        raise ValueError(f"{what} {' and '.join(problems)}: {remedy}, {shown(list(wanted), 12)}.")


def is_one_kernel(kernels: Any) -> bool:
    """Return whether one kernel is given for all descriptions, not one for each."""
    return (
        is_pair(kernels)
        or isinstance(kernels, str)
        or (callable(kernels) and not isinstance(kernels, Mapping))
    )


def is_pair(value: Any) -> bool:
    """Return whether an object is a kernel with its parameters, not two kernels."""
    if not isinstance(value, list | tuple) or len(value) != 2:
        return False
    return value[1] is None or isinstance(value[1], Mapping)


def _matrices(
    descriptions: Descriptions, owner: str, *, allow_nan: bool = False
) -> dict[str, Array]:
    """Return the values of each description after checks, in one precision; whole numbers do not determine it."""
    checked = {}
    floats = []
    for name, table in descriptions.tables.items():
        title = title_of(name, owner)
        matrix = check_matrix(table.values, title, accept_sparse=True, allow_nan=allow_nan)
        checked[name] = matrix
        if not is_whole(table.values):
            floats.append(matrix)
    check_same_library({title_of(name, owner): matrix for name, matrix in checked.items()})
    if floats:
        dtype = float_dtype(*floats)
    else:
        dtype = namespace(*checked.values()).float64
    return {name: cast(matrix, dtype) for name, matrix in checked.items()}


def _training_kernel(values: Array, table: Table, descriptions: Descriptions, title: str) -> Array:
    """Return the precomputed kernel (n, n) of the training rows, selected from that of all entities."""
    rows = table.row_ids
    columns = own_ids(table.column_ids)
    if rows is not None and columns is not None:
        remedy = 'give its columns the ids of its rows; for features, choose another kernel than "precomputed"'
        return _columns_of(values, columns, rows, title, "of its rows", remedy)
    if values.shape[1] != descriptions.n_first:
        raise not_square(f" {title}", (descriptions.n_first, values.shape[1]))
    if descriptions.places is None:
        return values
    return _taken_columns(values, descriptions.places)


def _new_features(member: Description, table: Table, title: str) -> Array:
    """Return the features of new rows; raise if they are not those of training."""
    n_columns = table.values.shape[1]
    if n_columns != member.n_columns:
        raise ValueError(
            Message(
                "{title} has {n_columns} columns, expected the {n_features} features of training.",
                title=title,
                n_columns=n_columns,
                n_features=member.n_columns,
            )
        )
    expected = own_ids(member.columns)
    names = own_ids(table.column_ids)
    if expected is not None and names is not None and expected.labels != names.labels:
        raise ValueError(
            f"The feature names of {title} should match those that were passed during fit: "
            f"expected {list(expected.labels)[:5]}, found {list(names.labels)[:5]}."
        )
    return table.values


def _new_kernel(
    member: Description, table: Table, descriptions: Descriptions, trained: Array | None, title: str
) -> Array:
    """Return the columns of a precomputed kernel: the places of its rows in training, and their kernel values."""
    values = dense(table.values)
    columns = own_ids(table.column_ids)
    training = own_ids(member.columns)
    m, width = values.shape
    n = member.n_columns
    by_ids = columns is not None and training is not None
    # Rows that were indexed from the same table as the training rows have a column for each row of
    # that table.
    is_indexed = descriptions.places is not None and descriptions.n_first == width
    is_taken = not by_ids and (is_indexed or m == width != n)
    is_of_first = is_taken and trained is not None and width > int(trained.max())
    if columns is not None and training is not None:
        remedy = "give a row for each entity to predict for, and a column for each of training"
        values = _columns_of(values, columns, training, title, "entities of training", remedy)
    elif is_of_first and trained is not None:
        values = _taken_columns(values, trained)
    elif width != n:
        raise ValueError(
            f"The kernel {title} has {width} columns, expected one for each of {n} entities of "
            f"training, or of the descriptions they were taken from."
        )
    places = known_places(descriptions, member.columns, trained, is_of_first)
    if places is None or (places < 0).all():
        is_same = m == n and not by_ids and not is_of_first and _has_diagonal(member, values)
        places = np.arange(n) if is_same else np.full(m, -1)
    return with_places(values, places)


def known_places(
    descriptions: Descriptions, ids: Ids | None, trained: Array | None, is_of_first: bool = False
) -> np.ndarray | None:
    """Return the positions of rows among the training entities, -1 for new ones; None if they are not known.

    Parameters
    ----------
    descriptions : Descriptions
    ids : Ids or None
        Ids of the training entities.
    trained : array or None
        The `places` of the training descriptions, which are used if there are no ids.
    is_of_first : bool
        Whether rows without places are the table that the training rows were indexed from.
    """
    rows = own_ids(descriptions.row_ids)
    labels: Sequence[Any]
    if rows is not None and ids is not None:
        labels = rows.labels
        training = list(ids.labels)
    elif trained is not None and descriptions.places is not None:
        labels = descriptions.places.tolist()
        training = trained.tolist()
    elif trained is not None and is_of_first:
        labels = range(len(descriptions))
        training = trained.tolist()
    else:
        return None
    where = {label: place for place, label in enumerate(training)}
    return np.array([where.get(label, -1) for label in labels], dtype=np.intp)


# Columns of the wide table -------------------------------------------------------------------------


def _columns_of(
    values: Array, columns: Ids, wanted: Ids, title: str, whose: str, remedy: str
) -> Array:
    """Return the columns of a kernel that have the ids `wanted`, in this order; raise if one is missing."""
    lacking = columns.lacking(wanted.labels)
    if lacking:
        raise IdError(
            f"The kernel {title} has no column for {len(lacking)} {whose} ({shown(lacking)}): "
            f"{remedy}."
        )
    return _taken_columns(values, columns.positions(wanted.labels, title))


def _taken_columns(values: Array, columns: np.ndarray) -> Array:
    """Return some columns of a table, without a copy if they are all columns in their order."""
    if np.array_equal(to_numpy(columns), np.arange(values.shape[1])):
        return values
    return take_rows(values.T, columns).T


def _side_by_side(parts: Sequence[Array], as_sparse: bool, purpose: str) -> Array:
    """Return parts as one table, sparse or dense."""
    if as_sparse:
        return sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")
    whole = next(part for part in parts if not is_sparse(part))
    if len(parts) == 1:
        return whole
    shapes = [(2, *part.shape) for part in parts]
    check_memory(array_bytes(whole, *shapes), whole, purpose)
    return namespace(whole).concat([dense(part) for part in parts], axis=1)

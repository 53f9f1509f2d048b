"""One description within a learned kernel: how its columns of the wide table become a scaled kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, cast, dense, float_dtype, is_sparse, namespace, take_rows, to_numpy
from dyadlearn._state import Stored
from dyadlearn._tables import Ids
from dyadlearn.exceptions import KernelError
from dyadlearn.kernels.combine import normalize
from dyadlearn.kernels.gram import DIVISIBLE, SAME, check_kernel, common_diagonal, gram, gram_diagonal

__all__ = ["Description", "has_diagonal", "mean_squared_distance", "placed", "with_diagonal", "with_places"]

# How far below zero, of the mean diagonal, the entries of a kernel that has powers may lie and count as zero.
_ROUNDING = 0.01
# From so many rows, evenly spread, it is told whether powers of a kernel function make sense.
_LOOKED_AT = 512


@dataclass(frozen=True, eq=False)
class Description(Stored):
    """One description within a `LearnedKernel`: its kernel, its columns, and what was learnt of it.

    Attributes
    ----------
    name : str
    kernel : str or callable
        As `dyadlearn.kernels.gram` takes it, or "precomputed".
    params : mapping or None
        Parameters of the kernel by name.
    start, stop : int
        Its columns in the wide table.
    weight, exponent : float
        What was learnt.
    has_exponent : bool
        Whether powers of the kernel make sense: it is not negative, and has more than one value beside zero.
    normalized : bool
        Whether it is scaled to a unit diagonal.
    scale : float
        What it is divided by where it is not: the mean of its diagonal in training.
    diagonal : array of shape (n,) or None
        Of a precomputed kernel: that of each entity of training with itself.
    new_diagonal : float or None
        Of a precomputed kernel: that of a new entity with itself; None where nobody knows.
    columns : Ids or None
        What its features were called or, of a precomputed kernel, the ids of the entities of training.
    """

    name: str
    kernel: str | Callable[..., Any]
    params: Mapping[str, Any] | None
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
        """Whether its columns are a place and kernel values."""
        return isinstance(self.kernel, str) and self.kernel == "precomputed"

    @property
    def is_divisible(self) -> bool:
        """Whether all powers of the kernel are kernels, whatever the exponent, as of RBF kernels."""
        return isinstance(self.kernel, str) and self.kernel in DIVISIBLE

    @property
    def n_columns(self) -> int:
        """How many columns a table of it has: features, or kernel values with the entities of training."""
        return self.stop - self.start - self.is_precomputed

    def block(self, a: Array, b: Array | None = None) -> Array:
        """Return the scaled kernel (n_a, n_b) between rows of its columns, without weight and exponent."""
        raw = self._raw(a, b)
        if not self.normalized:
            block = raw / self.scale
        else:
            rows = namespace(raw).linalg.diagonal(raw) if b is None and not self.is_precomputed else self._own(a)
            block = normalize(raw, rows, rows if b is None else self._own(b))
        return self._not_negative(cast(block, float_dtype(a)))

    def own(self, a: Array) -> Array:
        """Return the diagonal (n,) of the scaled kernel of rows of its columns, without weight and exponent."""
        found = cast(self._own(a), float_dtype(a))
        if self.normalized:
            return namespace(found).astype(found > 0, found.dtype)
        return self._not_negative(found / self.scale)

    def term(self, block: Array) -> Array:
        """Return what a block, or a diagonal, adds to the whole kernel."""
        return self.weight * (block**self.exponent if self.has_exponent and self.exponent != 1 else block)

    def _not_negative(self, block: Array) -> Array:
        xp = namespace(block)
        return xp.where(block < 0, xp.zeros_like(block), block) if self.has_exponent else block

    def _raw(self, a: Array, b: Array | None) -> Array:
        if not self.is_precomputed:
            return gram(a, b, kernel=self.kernel, params=self.params)
        a = dense(a)
        places = _places(a if b is None else b)
        if int(namespace(places).min(places)) >= 0:
            return take_rows(a[:, 1:].T, places).T
        if b is None and a.shape[0] == 1:
            return self._own(a)[:, None]
        raise KernelError(
            f"The kernel of description {self.name!r} was computed beforehand, so that it is not known between new "
            "entities: give those of training as the second argument."
        )

    def _own(self, a: Array) -> Array:
        """Return k(x, x) of every row, as it is before scaling."""
        if not self.is_precomputed:
            return gram_diagonal(a, kernel=self.kernel, params=self.params)
        places = _places(a)
        xp, diagonal = namespace(places), as_array_of(self.diagonal, dense(a), dtype=a.dtype)
        is_new = places < 0
        found = take_rows(diagonal, xp.where(is_new, xp.zeros_like(places), places))
        if not bool(xp.any(is_new)):
            return found
        if self.new_diagonal is None:
            raise KernelError(
                f"The kernel of description {self.name!r} was computed beforehand and differs on its diagonal, so that "
                "the similarity of a new entity to itself is not known: scale the kernel with "
                "dyadlearn.kernels.normalize before it is given, for training and for new entities."
            )
        return xp.where(is_new, xp.full_like(found, self.new_diagonal), found)

    def _fits(self) -> bool:
        if not 0 <= self.start <= self.stop:
            return False
        if not self.is_precomputed:
            return self.diagonal is None and check_kernel(self.kernel, self.params) is not None
        return self.diagonal is not None and tuple(self.diagonal.shape) == (self.n_columns,)


def _places(part: Array) -> Array:
    """Return the places of rows, out of the first of the columns of a precomputed kernel."""
    part = dense(part[:, :1])
    return namespace(part).astype(part[:, 0], namespace(part).int64)


def with_places(values: Array, places: np.ndarray) -> Array:
    """Return the columns of a precomputed kernel: the places of its rows, then its values."""
    return namespace(values).concat([as_array_of(places, values, dtype=values.dtype)[:, None], values], axis=1)


def has_diagonal(member: Description, values: Array) -> bool:
    """Tell whether the kernel of n rows with n entities of training has their diagonal, and so is of the same."""
    xp = namespace(values)
    diagonal = as_array_of(member.diagonal, values, dtype=values.dtype)
    gap = xp.abs(xp.linalg.diagonal(values) - diagonal)
    return bool(xp.all(gap <= SAME * xp.abs(diagonal)))


def placed(found: Description, part: Array, start: int, title: str, weights: Array | None = None) -> Description:
    """Return a description at its columns, with its scale and whether it has an exponent, as training tells."""
    own = found._own(part)
    xp = namespace(own)
    if float(xp.min(own)) < 0:
        raise KernelError(
            f"The kernel of {title} is negative on its diagonal, down to {float(xp.min(own)):.3g}: no thing is less "
            "than not similar to itself, so choose another kernel."
        )
    mean = float(xp.mean(own) if weights is None else xp.sum(weights * own) / xp.sum(weights))
    found = replace(found, has_exponent=False, scale=1.0 if found.normalized or mean == 0 else mean)
    n = part.shape[0]
    if found.is_precomputed or n <= _LOOKED_AT:
        block = found.block(part)
    else:
        block = found.block(take_rows(part, np.linspace(0, n - 1, _LOOKED_AT).astype(np.intp)), part)
    return replace(found, has_exponent=_bends(block), start=start, stop=start + part.shape[1])


def _bends(block: Array) -> bool:
    """Tell whether powers of a kernel with a mean diagonal of 1 are other kernels than multiples of it."""
    xp = namespace(block)
    low, high = float(xp.min(block)), float(xp.max(block))
    if low < -_ROUNDING or high <= 0:
        return False
    # Constant kernels, delta and whatever else has one value beside zero have powers that a weight can make.
    positive = xp.where(block > SAME * high, block, xp.full_like(block, high))
    return high - float(xp.min(positive)) > SAME * high


def with_diagonal(found: Description, diagonal: Array, ids: Ids | None, given: Array | None = None) -> Description:
    """Return a precomputed description with its diagonal in training; `given` is what it was before any repair."""
    given = diagonal if given is None else given
    own = namespace(given).asarray(diagonal, copy=True)
    return replace(found, diagonal=own, new_diagonal=common_diagonal(given), columns=ids)


def mean_squared_distance(features: Array, weights: Array | None = None) -> float:
    """Return the mean squared distance between two different rows; 1 where there is none.

    A row that weighs twice as much counts as two.
    """
    if is_sparse(features):
        counts = np.ones(features.shape[0]) if weights is None else to_numpy(weights)
        n = float(counts.sum())
        means = features.T @ counts / n
        spread = float((features.multiply(features).T @ counts).sum()) / n - float(means @ means)
    else:
        xp = namespace(features)
        counts = xp.ones_like(features[:, 0]) if weights is None else weights
        n = float(xp.sum(counts))
        centred = features - (counts @ features / n)[None, :]
        spread = float(xp.sum(counts @ (centred * centred))) / n
    distance = 2.0 * spread * (n / (n - 1) if n > 1 else 1.0)
    return distance if distance > 0 and math.isfinite(distance) else 1.0

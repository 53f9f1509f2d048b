"""Labels of some pairs of a grid that is never formed, and products that touch these pairs alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from scipy import sparse

from dyadlearn._array import Array, Scatter, as_array_of, is_foreign, namespace, take_rows, to_numpy
from dyadlearn._state import Stored
from dyadlearn.vectrick import dots_at, gather_cost, sandwich

__all__ = ["GridLabels", "GridProducts", "PairLabels", "PairProducts", "mean_of", "product_cost"]


@dataclass(frozen=True, eq=False)
class PairLabels(Stored):
    """Labels of the observed pairs of a grid.

    Attributes
    ----------
    rows, columns : integer arrays of shape (n,), of numpy
        Where they stand, all different, in ascending order of rows and then of columns.
    values : array of shape (n,)
    shape : (int, int)
        Of the grid.
    weights : array of shape (n,) or None
        Of the squared loss of each pair, positive.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from dyadlearn.observed.pairs import PairLabels
    >>> PairLabels.from_sparse(sparse.csr_array(np.array([[0.0, 5.0], [3.0, 4.0]])))
    PairLabels(3 of 2 × 2)
    """

    rows: np.ndarray
    columns: np.ndarray
    values: Array
    shape: tuple[int, int]
    weights: Array | None = None

    _shapes: ClassVar[Mapping[str, str]] = {"values": "n", "weights": "n"}

    @classmethod
    def of(
        cls, rows: np.ndarray, columns: np.ndarray, values: Array, shape: tuple[int, int], weights: Array | None = None
    ) -> Self:
        """Return labels of pairs that come in any order, all different."""
        if not _in_order(rows, columns).all():
            order = np.lexsort((columns, rows))
            rows, columns, values = rows[order], columns[order], take_rows(values, order)
            weights = None if weights is None else take_rows(weights, order)
        return cls(rows, columns, values, shape, weights)

    @classmethod
    def from_sparse(cls, matrix: Any, name: str = "Y") -> Self:
        """Return the labels that a sparse matrix stores, zeros that it stores too; repeated entries are refused.

        Messages call the matrix by its `name`.
        """
        if matrix.ndim != 2:
            raise ValueError(f"{name} must be a matrix of instances × tasks, found {matrix.ndim} dimension(s).")
        found = sparse.coo_array(matrix)
        made = cls.of(found.row, found.col, found.data, found.shape)
        later = _in_order(made.rows, made.columns)
        if not later.all():
            at = int(np.argmin(later))
            raise ValueError(
                f"{name} stores {int((~later).sum())} pair(s) more than once, first that of row {made.rows[at]} and "
                f"column {made.columns[at]}: give one value a pair."
            )
        return made

    def __repr__(self) -> str:
        return f"PairLabels({self.size} of {self.shape[0]} × {self.shape[1]})"

    @property
    def size(self) -> int:
        """How many pairs are observed."""
        return len(self.rows)

    @property
    def dtype(self) -> Any:
        """That of the labels."""
        return self.values.dtype

    def _fits(self) -> bool:
        places = zip((self.rows, self.columns), self.shape, strict=True)
        if not all(
            at.dtype.kind in "iu" and at.shape == self.values.shape and (not at.size or 0 <= at.min() <= at.max() < n)
            for at, n in places
        ):
            return False
        return bool(_in_order(self.rows, self.columns).all())

    def take(self, kept: np.ndarray) -> Self:
        """Return some of the pairs, by a mask of shape (n,) or positions in ascending order; the grid stays."""
        at = np.flatnonzero(kept) if kept.dtype == bool else kept
        weights = None if self.weights is None else take_rows(self.weights, at)
        return replace(
            self, rows=self.rows[at], columns=self.columns[at], values=take_rows(self.values, at), weights=weights
        )

    def of_axes(self, rows: np.ndarray, columns: np.ndarray) -> Self:
        """Return the labels of some rows and columns, in ascending order, as a grid of their own."""
        places = []
        for kept, length in zip((rows, columns), self.shape, strict=True):
            place = np.full(length, -1)
            place[kept] = np.arange(kept.size)
            places.append(place)
        found = self.take((places[0][self.rows] >= 0) & (places[1][self.columns] >= 0))
        return replace(
            found,
            rows=places[0][found.rows],
            columns=places[1][found.columns],
            shape=(int(rows.size), int(columns.size)),
        )

    def to_sparse(self, values: Array | None = None) -> sparse.csr_array:
        """Return the labels, or other values of the same pairs, as a sparse matrix (m, q)."""
        data = to_numpy(self.values if values is None else values)
        starts = np.searchsorted(self.rows, np.arange(self.shape[0] + 1))
        return sparse.csr_array((data, self.columns, starts), shape=self.shape)

    @property
    def total(self) -> float:
        """How much all pairs weigh."""
        return float(self.size) if self.weights is None else float(namespace(self.weights).sum(self.weights))

    def products(self, left: Array, right: Array) -> PairProducts:
        """Return products of features at the pairs."""
        return PairProducts(left, right, self)

    def sums(self, axis: int) -> Array:
        """Return how much the pairs of each column (axis 0) or of each row (axis 1) weigh together."""
        at, length = (self.columns, self.shape[1]) if axis == 0 else (self.rows, self.shape[0])
        weights = None if self.weights is None else to_numpy(self.weights)
        return as_array_of(np.bincount(at, weights, minlength=length), self.values, self.values.dtype)


def _in_order(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Tell of all pairs but the first whether they come after the one before, by their rows and then their columns."""
    return np.asarray((rows[1:] > rows[:-1]) | ((rows[1:] == rows[:-1]) & (columns[1:] > columns[:-1])))


def product_cost(shape: tuple[int, int], n_pairs: int, ranks: tuple[int, int], gathering: int) -> tuple[int, bool]:
    """Return the multiplications of one product with features at the pairs, and whether it begins with the tasks.

    Parameters
    ----------
    shape : (int, int)
        Of the grid.
    n_pairs : int
    ranks : (int, int)
        How many features instances and tasks have, r and s.
    gathering : int
        What a multiplication of gathered rows costs, see `dyadlearn.vectrick.gather_cost`.

    Returns
    -------
    cost : int
        The lesser of q·r·s + n·r and m·r·s + n·s.
    tasks_first : bool
    """
    (m, q), (r, s) = shape, ranks
    tasks, instances = q * r * s + gathering * n_pairs * r, m * r * s + gathering * n_pairs * s
    return min(tasks, instances), tasks <= instances


class _Products:
    """What is made of the values of a function where labels are, and of the way back."""

    def values(self, function: Array) -> Array:
        """Return the values of a function W (r, s) where labels are."""
        raise NotImplementedError

    def gathered(self, values: Array) -> Array:
        """Return the sum of products of features, times values, of shape (r, s)."""
        raise NotImplementedError

    def normal(self, function: Array, weights: Array | None, *, free_mean: bool) -> Array:
        """Return what is gathered (r, s) of the weighted values of a function W (r, s).

        With a free mean it is that of the values less their weighted mean.
        """
        values = self.values(function)
        values = values - mean_of(values, weights) if free_mean else values
        return self.gathered(values if weights is None else values * weights)


class PairProducts(_Products):
    r"""Values of a function :math:`\mathbf{L}\mathbf{W}\mathbf{R}^\top` at the observed pairs, and the way back.

    One matrix product takes :math:`\mathbf{W}` (r × s) to one side, whichever is cheaper, and one dot product a pair
    does the rest: memory is that of the features and of the pairs.

    Parameters
    ----------
    left, right : arrays of shape (m, r) and (q, s)
        Features of both sides.
    labels : PairLabels
        Of which only the places are used.
    """

    def __init__(self, left: Array, right: Array, labels: PairLabels) -> None:
        self.left, self.right = left, right
        self._scatter = Scatter(labels.rows, labels.columns, labels.shape, left)
        ranks = (int(left.shape[1]), int(right.shape[1]))
        self._tasks_first = product_cost(labels.shape, labels.size, ranks, gather_cost(left))[1]
        self._labels = labels

    @cached_property
    def _places(self) -> tuple[Array, Array]:
        """Positions of the pairs, where the features are."""
        places = self._labels.rows, self._labels.columns
        if not is_foreign(self.left):
            return places
        rows, columns = (as_array_of(place, self.left) for place in places)
        return rows, columns

    def values(self, function: Array) -> Array:
        """Return the values (n,) at the pairs of a function W (r, s)."""
        rows, columns = self._places
        if self._tasks_first:
            return dots_at(self.right @ function.T, self.left, columns, rows)
        return dots_at(self.left @ function, self.right, rows, columns)

    def gathered(self, values: Array) -> Array:
        r"""Return :math:`\sum_p v_p\,\mathbf{l}_{i(p)}\mathbf{r}_{j(p)}^\top` of shape (r, s) for values (n,)."""
        if self._tasks_first:
            return self._scatter.transposed_times(values, self.left).T @ self.right
        return self.left.T @ self._scatter.times(values, self.right)


@dataclass(frozen=True, eq=False)
class GridLabels:
    """Labels of a grid that is there, of which so much is observed that products with all of it cost less.

    Attributes
    ----------
    values : array of shape (m, q)
        Zero where not observed.
    weights : array of shape (m, q)
        Of the squared loss; zero where not observed.
    """

    values: Array
    weights: Array

    @classmethod
    def of(cls, Y: Array, weights: Array | None = None) -> Self:
        """Return the labels of a grid with NaN where none is observed."""
        xp = namespace(Y)
        observed = ~xp.isnan(Y)
        own = xp.astype(observed, Y.dtype) if weights is None else xp.where(observed, weights, 0.0)
        return cls(xp.where(observed, Y, 0.0), own)

    @cached_property
    def total(self) -> float:
        """How much all labels weigh."""
        return float(namespace(self.weights).sum(self.weights))

    def sums(self, axis: int) -> Array:
        """Return how much the labels of each column (axis 0) or of each row (axis 1) weigh together."""
        return namespace(self.weights).sum(self.weights, axis=axis)

    def products(self, left: Array, right: Array) -> GridProducts:
        """Return products of features with the whole grid."""
        return GridProducts(left, right)


class GridProducts(_Products):
    """Values of a function on the whole grid, and the way back: what `PairProducts` is for pairs.

    Parameters
    ----------
    left, right : arrays of shape (m, r) and (q, s)
    """

    def __init__(self, left: Array, right: Array) -> None:
        self.left, self.right = left, right

    def values(self, function: Array) -> Array:
        """Return the values (m, q) of a function W (r, s)."""
        return sandwich(self.left, function, self.right)

    def gathered(self, values: Array) -> Array:
        """Return LᵀVR of shape (r, s) for values (m, q)."""
        return sandwich(self.left.T, values, self.right.T)

    @staticmethod
    def cost(shape: tuple[int, int], ranks: tuple[int, int]) -> int:
        """Return the multiplications of one product."""
        (m, q), (r, s) = shape, ranks
        return min(m * r * s + m * s * q, q * r * s + m * r * q)


def mean_of(values: Array, weights: Array | None) -> float:
    """Return the weighted mean of values."""
    xp = namespace(values)
    if weights is None:
        return float(xp.mean(values))
    return float(xp.sum(weights * values)) / float(xp.sum(weights))

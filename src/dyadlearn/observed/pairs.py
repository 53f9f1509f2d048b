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
from dyadlearn.vectrick import GATHER_COST, dots_at

__all__ = ["PairLabels", "PairProducts", "tasks_first"]


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
        order = np.lexsort((columns, rows))
        if (np.diff(order) != 1).any():
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
        made = cls.of(found.row.astype(np.intp), found.col.astype(np.intp), found.data, found.shape)
        same = (np.diff(made.rows) == 0) & (np.diff(made.columns) == 0)
        if same.any():
            at = int(np.argmax(same))
            raise ValueError(
                f"{name} stores {int(same.sum())} pair(s) more than once, first that of row {made.rows[at]} and column "
                f"{made.columns[at]}: give one value a pair."
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
        later = np.diff(self.rows) + (np.diff(self.rows) == 0) * np.sign(np.diff(self.columns))
        return bool((later > 0).all())

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

    def sums(self, axis: int) -> Array:
        """Return how much the pairs of each column (axis 0) or of each row (axis 1) weigh together."""
        at, length = (self.columns, self.shape[1]) if axis == 0 else (self.rows, self.shape[0])
        weights = None if self.weights is None else to_numpy(self.weights)
        return as_array_of(np.bincount(at, weights, minlength=length), self.values, self.values.dtype)


def tasks_first(shape: tuple[int, int], n_pairs: int, ranks: tuple[int, int]) -> bool:
    """Tell whether products begin with the tasks: q·r·s + n·r against m·r·s + n·s multiplications."""
    (m, q), (r, s) = shape, ranks
    return q * r * s + GATHER_COST * n_pairs * r <= m * r * s + GATHER_COST * n_pairs * s


class PairProducts:
    r"""Values of a function :math:`\mathbf{L}\mathbf{W}\mathbf{R}^\top` at the observed pairs, and the way back.

    One matrix product takes :math:`\mathbf{W}` (r × s) to one side, whichever is cheaper, and one dot product a pair
    does the rest: memory is that of the features and of the pairs, never that of the grid.

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
        self._tasks_first = tasks_first(labels.shape, labels.size, ranks)
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

    def among(self, labels: PairLabels) -> PairProducts:
        """Return the same features with other pairs."""
        return PairProducts(self.left, self.right, labels)


def mean_of(values: Array, weights: Array | None) -> float:
    """Return the weighted mean of values (n,)."""
    xp = namespace(values)
    if weights is None:
        return float(xp.mean(values))
    return float(xp.vecdot(weights, values)) / float(xp.sum(weights))

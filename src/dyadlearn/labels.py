"""Labels of pairs: the observed cells of a grid of instances × tasks, and conversions of tables from and to grids.

Every model is fitted on `Labels`. Grids with NaN, sparse matrices, long tables and data frames are
converted to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    double,
    is_foreign,
    is_sparse,
    largest,
    namespace,
    placed,
    take_block,
    take_rows,
    to_numpy,
    without_mask,
)
from dyadlearn._checks import (
    FLOATS,
    check_labels,
    check_not_empty,
    check_real,
    is_ready,
    reading_numbers,
)
from dyadlearn._codes import (
    Column,
    distinct,
    lacks_id,
    list_of,
    pair_numbers,
    series_column,
    table_columns,
)
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._state import Stored, is_shaped
from dyadlearn._tables import (
    Ids,
    Table,
    in_rows_of,
    library_of,
    make_ids,
    read_table,
    shown,
    text_ids,
    write_table,
)
from dyadlearn._work import products
from dyadlearn.exceptions import IdError

__all__ = [
    "Labels",
    "LongGrid",
    "LongPairs",
    "NormalScores",
    "averaged_pairs",
    "distinct_labels",
    "fisher_relabel",
    "is_binary",
    "read_labels",
    "read_numbers",
    "symmetric_labels",
    "to_grid",
]

#: Instance and task of some cells, an integer array (n,) for each.
Places = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Labels(Stored):
    """Observed labels of the pairs of m instances and q tasks: cells of a grid, with values and weights.

    Labels are stored in one of two ways. A *grid* has a value for each of the m × q cells, NaN
    where the label is missing. A *list* has only the observed cells, so that its size does not
    depend on that of the grid. Held-out predictions, folds and scores of labels have the shape of
    `values`.

    Attributes
    ----------
    cells : tuple of integer arrays of shape (n,), of numpy, or None
        Instance and task of each label of a list: all cells different, in ascending order of
        instances and then of tasks. None for a grid.
    values : array of shape (n,), or (m, q) for a grid
        Labels.
    shape : (int, int)
        Numbers m of instances and q of tasks.
    weights : array of the shape of `values`, or None
        Weight of each label in the squared loss, positive where a label is observed.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy import sparse
    >>> from dyadlearn.labels import Labels
    >>> Labels.from_sparse(sparse.csr_array(np.array([[0.0, 5.0], [3.0, 4.0]])))
    Labels(3 of 2 × 2)
    >>> Labels.of_grid(np.array([[np.nan, 5.0], [3.0, 4.0]]))
    Labels(3 of 2 × 2)
    """

    cells: Places | None
    values: Array
    shape: tuple[int, int]
    weights: Array | None = None

    def _fits(self) -> bool:
        shape: tuple[int, ...] = self.shape
        if self.cells is not None:
            shape = self.values.shape[:1]
            for at, length in zip(self.cells, self.shape, strict=True):
                if at.shape != shape or at.dtype.kind not in "iu":
                    return False
                if not ((at >= 0) & (at < length)).all():
                    return False
            if not _in_order(self.cells).all():
                return False
        return is_shaped(self.values, *shape) and is_shaped(self.weights, *shape) and self.size > 0

    @classmethod
    def of_grid(cls, Y: Array, weights: Array | None = None) -> Self:
        """Return the labels of a grid (m, q) with NaN for missing labels, without a copy."""
        return cls(None, Y, (int(Y.shape[0]), int(Y.shape[1])), weights)

    @classmethod
    def of_pairs(
        cls,
        cells: Places,
        values: Array,
        shape: tuple[int, int],
        weights: Array | None = None,
    ) -> Self:
        """Return a list of labels from cells in any order, all different."""
        labels = cls(cells, values, shape, weights)
        if _in_order(cells).all():
            return labels
        return labels.take(np.lexsort(cells[::-1]))

    @classmethod
    def from_sparse(cls, matrix: Any, name: str = "Y") -> Self:
        """Return the list of labels stored in a sparse matrix, including stored zeros.

        Raises ValueError if a cell is stored twice. `name` is the name of the matrix in messages.
        """
        if matrix.ndim != 2:
            raise ValueError(
                f"{name} must be a matrix of instances × tasks, found {matrix.ndim} dimension(s)."
            )
        stored = sparse.coo_array(matrix)
        labels = cls.of_pairs((stored.row, stored.col), stored.data, stored.shape)
        later = _in_order(labels.places)
        if not later.all():
            at = int(np.argmin(later))
            rows, columns = labels.places
            raise ValueError(
                f"{name} stores {int((~later).sum())} pair(s) more than once, first that of row "
                f"{rows[at]} and "
                f"column {columns[at]}: give one value a pair."
            )
        return labels

    def __repr__(self) -> str:
        return f"Labels({self.size} of {self.shape[0]} × {self.shape[1]})"

    # --- storage --------------------------------------------------------------------------------------

    @property
    def grid(self) -> Array | None:
        """The values (m, q) with NaN for missing labels; None for a list."""
        return self.values if self.cells is None else None

    @property
    def is_full(self) -> bool:
        """Whether no label is missing and there are no weights, so that closed forms apply."""
        return self.weights is None and self.size == math.prod(self.shape)

    def as_grid(self) -> Array:
        """Return the values (m, q), NaN for missing labels; raise ValueError for a list, unless it is complete."""
        if self.cells is None:
            return self.values
        if self.size == math.prod(
            self.shape
        ):  # the cells of a complete list are in the order of the grid
            return namespace(self.values).reshape(self.values, self.shape)
        m, q = self.shape
        raise ValueError(
            Message(
                "This method needs a grid of {m} × {q} labels, but the model was fitted on a list "
                "of {n_pairs} observed pairs: use [evaluate(), holdout(), predict_interval() or "
                "cross-validation of the pairs|dyadlearn evaluate], or fit the model on a grid "
                "with NaN for missing labels.",
                m=m,
                q=q,
                n_pairs=self.size,
            )
        )

    @cached_property
    def observed(self) -> np.ndarray:
        """Mask of the shape of `values`: True where a label is observed."""
        if self.grid is None:
            return np.ones(self.size, dtype=bool)
        return np.asarray(~np.isnan(to_numpy(self.grid)))

    @cached_property
    def size(self) -> int:
        """Number of observed labels."""
        if self.grid is None:
            return int(self.values.shape[0])
        xp = namespace(self.grid)
        return int(xp.sum(xp.astype(~xp.isnan(self.grid), xp.int64)))

    @property
    def has_missing(self) -> bool:
        """Whether an entry of `values` is a missing label."""
        return self.size < self.observed.size

    # --- values in the shape of the labels' values ----------------------------------------------------

    def of(self, grid: Array) -> Array:
        """Return the values of a grid (m, q) at the cells of `values`."""
        if self.cells is None:
            return grid
        rows, columns = self.cells
        flat = namespace(grid).reshape(grid, (-1,))
        return take_rows(flat, rows.astype(np.intp) * self.shape[1] + columns)

    def shaped(self, values: Array, absent: float = math.nan) -> Array:
        """Return values (n,) of the observed labels in the shape of `values`, with `absent` for missing labels."""
        if self.cells is not None:
            return values
        xp = namespace(values)
        flat = placed([values], [np.flatnonzero(self.observed)], self.observed.size, absent)
        return xp.reshape(flat, self.shape)

    def kept(self, values: Array, left: np.ndarray) -> Array:
        """Return values of the shape of `values` in that of the labels after `hide(left)`."""
        if self.cells is None:
            return values
        return take_rows(values, np.flatnonzero(~left))

    def turned(self, values: Array) -> Array:
        """Return values of the shape of `values` in that of the `transposed` labels."""
        if self.cells is None:
            return values.T
        rows, columns = self.cells
        return take_rows(values, np.lexsort((rows, columns)))

    def product_work(self, ranks: Sequence[int]) -> float:
        """Return the multiplications of a product with the kernel of the labels, for sides of some ranks."""
        if self.cells is not None:
            return products((self.size, min(ranks)))
        m, q = self.shape
        return products((m, q, m), (m, q, q))

    @property
    def dense_numbers(self) -> float:
        """Numbers that `dense` allocates for values and weights with room to compute them: 0 for a grid."""
        if self.cells is None:
            return 0.0
        return 8.0 * math.prod(self.shape)

    def in_double(self) -> Self:
        """Return the labels in double precision, without a copy if they are already."""
        labels = self._changed(double)
        if labels.values is self.values and labels.weights is self.weights:
            return self
        return labels

    def _changed(self, change: Callable[[Array], Array], **fields: Any) -> Self:
        """Return the labels after the same change of values and weights, with some other fields."""
        weights = None if self.weights is None else change(self.weights)
        return replace(self, values=change(self.values), weights=weights, **fields)

    @cached_property
    def places(self) -> Places:
        """Instance and task of each observed label, two integer arrays (n,)."""
        if self.cells is not None:
            return self.cells
        rows, columns = np.nonzero(self.observed)
        return rows, columns

    def at(self, side: np.ndarray, axis: int) -> np.ndarray:
        """Return, for every entry of `values`, the value of its instance (axis 0) or of its task (axis 1)."""
        if self.grid is not None:
            return np.broadcast_to(side[:, None] if axis == 0 else side, self.shape)
        return np.asarray(side[self.places[axis]])

    def labelled(self, axis: int) -> np.ndarray:
        """Return the positions of the instances (axis 0) or of the tasks (axis 1) that have a label."""
        if self.cells is not None:
            return np.unique(self.cells[axis])
        return np.flatnonzero(self.observed.any(axis=1 - axis))

    # --- subsets --------------------------------------------------------------------------------------

    def hide(self, left: np.ndarray) -> Self:
        """Return the labels without those of a mask of the shape of `values`; the shape of the grid does not change."""
        if self.grid is None:
            return self.take(~left)
        xp = namespace(self.grid)
        return replace(self, values=xp.where(as_array_of(left, self.grid), xp.nan, self.grid))

    def take(self, kept: np.ndarray) -> Self:
        """Return some labels of a list, by a mask of shape (n,) or by positions."""
        at = np.flatnonzero(kept) if kept.dtype == bool else kept
        rows, columns = self.places
        return self._changed(lambda values: take_rows(values, at), cells=(rows[at], columns[at]))

    def part(self, *positions: np.ndarray) -> Self:
        """Return the labels of the grid of some rows and columns, given by positions in ascending order."""
        rows, columns = positions
        shape = (int(rows.size), int(columns.size))
        if self.grid is not None:
            return self._changed(lambda values: take_block(values, rows, columns), shape=shape)
        new = []
        for wanted, places, length in zip(positions, self.places, self.shape, strict=True):
            position = np.full(length, -1)
            position[wanted] = np.arange(wanted.size)
            new.append(position[places])
        stays = np.logical_and.reduce([places >= 0 for places in new])
        return replace(self.take(stays), cells=(new[0][stays], new[1][stays]), shape=shape)

    @property
    def transposed(self) -> Self:
        """The labels with tasks as rows and instances as columns."""
        if self.grid is not None:
            return self._changed(lambda values: values.T, shape=self.shape[::-1])
        cells = self.places[::-1]
        return type(self).of_pairs(cells, self.values, self.shape[::-1], self.weights)

    def listed(self) -> Self:
        """Return the labels as a list."""
        if self.grid is None:
            return self
        xp = namespace(self.values)
        flat = np.flatnonzero(self.observed)
        return self._changed(
            lambda grid: take_rows(xp.reshape(grid, (-1,)), flat), cells=self.places
        )

    def spread(self, values: Array, absent: float = math.nan) -> Array:
        """Return values of the shape of `values` as a grid (m, q), with `absent` in the other cells.

        Raises NotEnoughMemoryError if the grid does not fit into memory.
        """
        if self.grid is not None:
            return values
        check_memory(
            array_bytes(None, (2, *self.shape)),
            self.values,
            f"A grid of {self.shape[0]} × {self.shape[1]}",
        )
        grid = np.full(self.shape, absent)
        grid[self.places] = to_numpy(values)
        return as_array_of(grid, values)

    def dense(self) -> Self:
        """Return the labels as a grid; raise NotEnoughMemoryError if it does not fit into memory."""
        if self.grid is not None:
            return self
        weights = None
        if self.weights is not None:
            weights = self.spread(self.weights, 0.0)
        return type(self).of_grid(self.spread(self.values), weights)

    def restored(self, values: Array, table: Table | None = None) -> Any:
        """Return values of the shape of `values` as a table like that of the input; for a list as a sparse matrix.

        Without `table`, values of a grid are returned as they are.
        """
        if self.cells is not None:
            return self.to_sparse(values)
        return values if table is None else table.restore(values)

    def permuted(self, *orders: np.ndarray) -> Self:
        """Return the labels with row i taken from row ``orders[0][i]``, and columns by ``orders[1]``."""
        if self.grid is not None:
            return self.part(*orders)
        rows, columns = (
            np.argsort(order)[places] for order, places in zip(orders, self.places, strict=True)
        )
        return type(self).of_pairs((rows, columns), self.values, self.shape, self.weights)

    def to_sparse(self, values: Array | None = None) -> sparse.csr_array:
        """Return the values of a list, or other values for the same cells, as a sparse matrix (m, q)."""
        data = to_numpy(self.values if values is None else values)
        rows, columns = self.places
        starts = np.searchsorted(rows, np.arange(self.shape[0] + 1))
        return sparse.csr_array((data, columns, starts), shape=self.shape)

    # --- sums of weights ------------------------------------------------------------------------------

    @property
    def total(self) -> float:
        """Sum of the weights of all labels; without weights, the number of labels."""
        if self.weights is None:
            return float(self.size)
        return float(namespace(self.weights).sum(self.weights))

    @property
    def loss_weights(self) -> Array:
        """Weight (n,) of each observed label in the squared loss; ones without weights."""
        listed = self.listed()
        if listed.weights is None:
            return namespace(listed.values).ones_like(listed.values)
        return listed.weights

    @property
    def largest_weight(self) -> float:
        """The largest weight of an observed label; 1 without weights."""
        if self.weights is None:
            return 1.0
        # Grids of other libraries stay on their device.
        weights = self.weights
        if self.grid is not None:
            xp = namespace(self.grid)
            weights = xp.where(xp.isnan(self.grid), 0.0, weights)
        return largest(weights)

    def reweighted(self, unit: float) -> Self:
        """Return the labels with weights divided by a unit, and without weights if all of them are one then."""
        if self.weights is None:
            return self
        weights = self.weights / unit
        has_weights = bool((to_numpy(weights)[self.observed] != 1.0).any())
        return replace(self, weights=weights if has_weights else None)

    @property
    def mean_weight(self) -> float:
        """Mean weight of the observed labels; 1 without weights."""
        if self.weights is None:
            return 1.0
        return float(np.mean(to_numpy(self.weights)[self.observed]))

    def sums(self, axis: int) -> Array:
        """Return the sum of the weights of each column (axis 0) or each row (axis 1)."""
        if self.grid is not None:
            weights = self.weights
            if weights is None:
                weights = as_array_of(self.observed, self.values, self.values.dtype)
            return namespace(weights).sum(weights, axis=axis)
        weights = None if self.weights is None else to_numpy(self.weights)
        sums = np.bincount(self.places[1 - axis], weights, minlength=self.shape[1 - axis])
        return as_array_of(sums, self.values, self.values.dtype)


def _in_order(cells: Places) -> np.ndarray:
    """Return, for each cell except the first, whether it follows the previous one, by row and then by column."""
    follows = np.zeros(max(cells[0].size - 1, 0), dtype=bool)
    # The last side decides only where the cells are equal on the sides before it.
    for at in reversed(cells):
        follows = (at[1:] > at[:-1]) | ((at[1:] == at[:-1]) & follows)
    return follows


def read_labels(Y: Any, name: str = "Y") -> Table:
    """Return the table of labels given as a grid, a frame, a vector or a series.

    NaN, None and masked entries are missing labels.
    """
    if library_of(Y) == "pandas" and Y.ndim == 2 and set(Y.dtypes) == {np.dtype(np.float64)}:
        # Reading the columns one by one takes longer than an update of an online model.
        axes = {f"The index of {name}": Y.index, f"The columns of {name}": Y.columns}
        ids = [make_ids(axis.tolist(), axis.name, owner) for owner, axis in axes.items()]
        table = Table(Y.to_numpy(), ids[0], ids[1], "pandas")
    else:
        table = read_table(without_mask(Y), name, describes=False)
        if table.kind == "pandas":  # columns of other frames have text for names
            make_ids(list(getattr(Y, "columns", ())), None, f"The columns of {name}")
    values = table.values
    if is_sparse(values):
        raise TypeError(
            f"{name} is sparse, but its zeros are labels too: give it dense, as {name}.toarray()."
        )
    check_not_empty(values, name)
    if is_foreign(values):
        values = check_real(values, name)
        if values.ndim not in (1, 2):
            raise ValueError(f"{name} must have one or two dimensions, found {values.ndim}.")
    elif not is_ready(values):
        with reading_numbers(values, name):
            values = check_array(
                values, dtype=FLOATS, ensure_2d=False, ensure_all_finite=False, input_name=name
            )
    is_vector = table.is_vector or values.ndim == 1
    if values.ndim == 1:
        values = namespace(values).reshape(values, (-1, 1))
    return replace(table, values=values, is_vector=is_vector)


def symmetric_labels(labels: Labels, table: Table, sign: int) -> tuple[Labels, Table]:
    """Return the labels of a network with columns in the order of the rows; raise if they are not symmetric.

    Parameters
    ----------
    labels : Labels
        A grid of m nodes × the same m nodes.
    table : Table
        Table with the ids of rows and columns.
    sign : int
        +1 for symmetric labels, −1 for antisymmetric ones.
    """
    m, q = labels.shape
    if m != q:
        raise ValueError(f"The labels of a network form a square grid, found {m} × {q}.")
    grid = replace(table, values=labels.values).columns_as(
        table.row_ids, "the columns of Y", "the rows of Y"
    )
    values = grid.values
    xp = namespace(grid.values)
    one_way = xp.isnan(values) & ~xp.isnan(values.T)
    if bool(xp.any(one_way)):
        raise ValueError(
            f"Y is NaN (not observed) in one direction only for "
            f"{int(xp.sum(xp.astype(one_way, xp.int64)))} edges of "
            "the network: give their labels in both directions, or NaN in both."
        )
    gap = xp.abs(values - sign * values.T)
    if bool(xp.any(gap > 0)):
        furthest = largest(xp.where(xp.isnan(gap), 0.0, gap))
        if sign > 0:
            words = ("symmetric", "its transpose", "Y + Y.T")
        else:
            words = ("antisymmetric", "minus its transpose", "Y - Y.T")
        raise ValueError(
            f"Y is not {words[0]}: it differs from {words[1]} by up to {furthest:.3g}. "
            f"Use ({words[2]}) / 2 if this is intended."
        )
    if table.column_ids is not None:
        table = replace(table, column_ids=table.row_ids)
    return Labels.of_grid(values), table


def distinct_labels(Y: Any) -> np.ndarray:
    """Return the distinct values of the observed labels, in ascending order."""
    values = to_numpy(Y)
    observed = ~np.isnan(values)
    if not observed.all():
        values = values[observed]
    if values.size:
        ends = np.unique([values.min(), values.max()])
        if ((values == ends[0]) | (values == ends[-1])).all():
            return ends.astype(values.dtype)  # binary labels need no sorting
    return np.unique(values)


def is_binary(Y: Any) -> bool:
    """Return whether the observed labels have exactly two distinct values; the larger is the positive class."""
    return distinct_labels(Y).size == 2


def fisher_relabel(Y: Any) -> Array:
    r"""Relabel a binary grid so that ridge regression becomes Fisher's discriminant.

    With :math:`N` cells, of which :math:`N^+` are positive and :math:`N^-` negative, positives
    become :math:`N/N^+` and negatives :math:`-N/N^-`, so that both classes have the same weight.

    .. math:: y \mapsto \begin{cases} N/N^+ & y \text{ positive} \\ -N/N^- & y \text{ negative}\end{cases}

    Parameters
    ----------
    Y : array of shape (m, q)
        Labels of two distinct values, the larger of which is the positive class. NaN means a
        missing label: it stays NaN and is not counted.

    Returns
    -------
    array of shape (m, q), a frame for a frame

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.labels import fisher_relabel
    >>> fisher_relabel(np.array([[1, 0], [0, 0]]))
    array([[ 4.        , -1.33333333],
           [-1.33333333, -1.33333333]])
    """
    grid = read_labels(Y)
    values = grid.values
    xp = namespace(values)
    distinct = distinct_labels(values)
    if distinct.size != 2:
        remedy = "give labels of both classes, and of no other"
        raise ValueError(
            f"Fisher's rule needs labels of exactly two values, found {distinct.size} in Y: "
            f"{remedy}."
        )
    positive = values == float(distinct[1])
    total = Labels.of_grid(values).size
    n_positive = int(xp.sum(xp.astype(positive, xp.int64)))
    classes = (
        xp.full_like(values, total / n_positive),
        xp.full_like(values, -total / (total - n_positive)),
    )
    return grid.restore(
        xp.where(xp.isnan(values), values, xp.where(positive, *classes))
    )  # NaN stays


class NormalScores(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Replace labels by the normal scores of their ranks, for models whose predictions are ranked.

    Of n observed labels, the one with rank r becomes

    .. math:: \Phi^{-1}\Bigl(\frac{r - 1/2}{n}\Bigr)

    with the distribution function :math:`\Phi` of the standard normal distribution. All observed
    labels of all tasks are ranked together, and equal labels have their mean rank. Labels between
    observed ones are interpolated. Labels outside their range have the score of the nearest one.
    NaN stays NaN.

    Attributes
    ----------
    labels_ : ndarray of shape (n_distinct,)
        Distinct observed labels in ascending order.
    scores_ : ndarray of shape (n_distinct,)
        Scores of these labels.

    See Also
    --------
    sklearn.compose.TransformedTargetRegressor : fits a model on transformed labels.

    Notes
    -----
    Squared errors of predictions that are transformed back are usually larger than those of a model
    of the labels themselves. Use the scores if only the order of the predictions matters.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.labels import NormalScores
    >>> Y = np.array([[5.0, 5.0, np.nan], [7.0, 6.0, 1000.0]])
    >>> scores = NormalScores().fit(Y)
    >>> scores.transform(Y).round(2)
    array([[-0.84, -0.84,   nan],
           [ 0.52,  0.  ,  1.28]])
    >>> scores.inverse_transform([-0.84, 0.0, 0.26]).round(1)
    array([5. , 6. , 6.5])
    """

    labels_: np.ndarray
    scores_: np.ndarray

    def fit(self, Y: Any, y: None = None) -> Self:
        """Compute the scores of all observed labels.

        Parameters
        ----------
        Y : array or frame of shape (m, q) or (m,)
            Labels; NaN means missing.
        y : None
            Ignored.
        """
        values = read_labels(Y).values
        check_labels(values)
        values = to_numpy(values)
        self.labels_, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        # The mean rank of equal labels minus 1/2 is the number of smaller labels plus half the
        # number of equal ones.
        self.scores_ = ndtri((np.cumsum(counts) - counts / 2) / counts.sum())
        return self

    def transform(self, Y: Any) -> Any:
        """Return the scores of labels, as a table like `Y`."""
        check_is_fitted(self)
        return _interpolated(Y, self.labels_, self.scores_)

    def inverse_transform(self, Y: Any) -> Any:
        """Return the labels of scores, as a table like `Y`."""
        check_is_fitted(self)
        return _interpolated(Y, self.scores_, self.labels_)


def _interpolated(Y: Any, known: np.ndarray, values: np.ndarray) -> Any:
    grid = read_labels(Y)
    points = to_numpy(grid.values)
    # With a single point, np.interp returns its value for NaN too.
    values = np.where(np.isnan(points), np.nan, np.interp(points, known, values))
    return grid.restore(as_array_of(values, grid.values, dtype=grid.values.dtype))


@dataclass(frozen=True, eq=False, repr=False)
class LongPairs:
    """Distinct pairs of a long table with averaged labels, and counts of dropped and repeated rows.

    Attributes
    ----------
    rows, columns : integer arrays of shape (n,)
        Positions of instance and task among the ids, in ascending order of rows and then of
        columns.
    values, weights : arrays of shape (n,)
        Label of each pair, averaged over repeated rows, and the sum of the weights of its rows.
    instances, tasks : tuple of shape (m,) and (q,)
        Ids of instances and tasks.
    n_rows : int
        Number of rows of the table.
    n_missing_ids, n_missing_values, n_zero_weight : int
        Numbers of rows dropped because of a missing id, a missing value or a weight of zero. A row
        is counted once, by the first of these reasons.
    n_repeated : int
        Number of pairs with more than one row, not counting dropped rows.
    n_contradicting : int
        Number of repeated pairs with different values.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    weights: Any
    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    n_rows: int
    n_missing_ids: int
    n_missing_values: int
    n_zero_weight: int
    n_repeated: int
    n_contradicting: int

    @property
    def n_observed(self) -> int:
        """Number of pairs that have a label."""
        return len(self.values)

    @property
    def n_dropped(self) -> int:
        """Number of dropped rows."""
        return self.n_missing_ids + self.n_missing_values + self.n_zero_weight

    def to_grid(self) -> LongGrid:
        """Return the grid of the pairs, as arrays."""
        m = len(self.instances)
        q = len(self.tasks)
        check_memory(array_bytes(None, (3, m, q)), self.values, f"A grid of {m} × {q}")
        grid = np.full((m, q), np.nan, dtype=self.values.dtype)
        weights = np.zeros((m, q))
        grid[self.rows, self.columns] = self.values
        weights[self.rows, self.columns] = self.weights
        return LongGrid(**{**vars(self), "weights": weights}, grid=grid)


@dataclass(frozen=True, eq=False, repr=False)
class LongGrid(LongPairs):
    """Grid of a long table, and counts of dropped and repeated rows.

    Attributes
    ----------
    grid : array or frame of shape (m, q)
        Labels, averaged over repeated rows of a pair; NaN for pairs without a row.
    weights : array or frame of shape (m, q)
        Sum of the weights of each pair's rows; without weights, their number. 0 for pairs without a
        row.
    rows, columns, values, instances, tasks, n_rows, n_missing_ids, n_missing_values, n_zero_weight,
    n_repeated, n_contradicting
        As in `LongPairs`.
    """

    grid: Any

    def __repr__(self) -> str:
        names = ("n_observed", "n_rows", "n_dropped", "n_repeated", "n_contradicting")
        counts = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"LongGrid({len(self.instances)} × {len(self.tasks)}, {counts})"


def to_grid(
    pairs: Any,
    y: Any = None,
    *,
    weights: Any = None,
    instances: Sequence[Hashable] | None = None,
    tasks: Sequence[Hashable] | None = None,
) -> LongGrid:
    r"""Convert a long table (instance, task, value) to a grid.

    The label of a pair is the weighted mean of its rows :math:`r`. Cells without a row are NaN
    (missing labels):

    .. math:: Y_{it} = \frac{\sum_{r : (i, t)} w_r\, y_r}{\sum_{r : (i, t)} w_r}

    Rows without an id or a value, or with a weight of zero, are dropped and counted. An empty text
    is a missing id.

    Parameters
    ----------
    pairs : array, list of rows or frame, of shape (n, 2) or (n, 3)
        Instance id and task id of each row and, without `y`, its value.
    y : array, list or series of shape (n,), default=None
        Value of each row; NaN where missing. A series of pandas must have the index of a frame, as
        in `PairRegressor.fit`; so must `weights`.
    weights : array, list or series of shape (n,), or mapping of ids to numbers, default=None
        Weight of each row in the mean of its pair, at least 0, or of each instance or each task by
        its id; None gives all rows the same weight.
    instances, tasks : sequence of ids, default=None
        Ids of the rows and columns of the grid, in this order; other ids in the table raise an
        error. None means the ids of the rows that are not dropped, in the order of their first
        appearance.

    Returns
    -------
    LongGrid
        The grid and the counts. The grid is a frame if `pairs` is one, else an array. A frame of
        pandas has the instance ids in the index, a frame of another library in the first column, as
        text.

    Examples
    --------
    >>> from dyadlearn.labels import to_grid
    >>> pairs = [("ann", "tea"), ("bob", "tea"), ("bob", "cake"), ("bob", "cake"), ("eve", "tea")]
    >>> table = to_grid(pairs, [5, 3, 4, 2, None])
    >>> table
    LongGrid(2 × 2, n_observed=3, n_rows=5, n_dropped=1, n_repeated=1, n_contradicting=1)
    >>> table.grid, table.instances, table.tasks
    (array([[ 5., nan],
            [ 3.,  3.]]), ('ann', 'bob'), ('tea', 'cake'))
    """
    if y is None:
        first, second, y = table_columns(pairs, "pairs", 3)
    else:
        first, second = table_columns(pairs, "pairs", 2)
    y = in_rows_of(y, pairs, "y", "pairs")
    weights = in_rows_of(weights, pairs, "weights", "pairs")
    grid = averaged_pairs(first, second, y, weights, instances, tasks).to_grid()
    if isinstance(pairs, list | tuple | np.ndarray) or is_foreign(pairs):
        return grid
    import narwhals as nw

    frame = nw.from_native(pairs, eager_only=True)
    kind = str(frame.implementation.value)
    names = [name if isinstance(name, str) else None for name in frame.columns[:2]]
    rows = Ids(grid.instances, names[0])
    columns = Ids(grid.tasks, names[1])
    if kind != "pandas":
        # Only pandas has an index; elsewhere the ids of a grid are its first column, provided that
        # it is text.
        rows = text_ids(rows, "The instances", str)
        columns = text_ids(columns, "The tasks", str)
    frames = {
        name: write_table(getattr(grid, name), rows, columns, kind) for name in ("grid", "weights")
    }
    return replace(grid, **frames)


def averaged_pairs(
    first: Column,
    second: Column,
    y: Any,
    weights: Any = None,
    instances: Sequence[Hashable] | None = None,
    tasks: Sequence[Hashable] | None = None,
    *,
    weights_name: str = "weights",
) -> LongPairs:
    """Return the distinct pairs of a long table with averaged labels; see `to_grid`.

    Parameters
    ----------
    first, second : columns of length n
        Instance ids and task ids.
    y, weights : array, list or series of shape (n,)
        Value and weight of each row; `weights` may be None, or a mapping with the weight of each
        instance or of each task by its id.
    instances, tasks : sequence of ids or None
        Ids of the rows and columns of the grid.
    weights_name : str
        Name of the weights in messages.
    """
    n_rows = len(first)
    values = values_of_rows(y, n_rows)
    if isinstance(weights, Mapping):
        weights = _weights_of_ids(weights, weights_name, (first, second))
    of_rows = weights_of_rows(weights, weights_name, n_rows)
    no_id = lacks_id(first) | lacks_id(second)
    no_value = np.isnan(values) & ~no_id
    no_weight = (of_rows == 0) & ~no_id & ~no_value
    kept = ~(no_id | no_value | no_weight)
    if not kept.any():
        raise ValueError(
            f"No observation is left: each of {n_rows} rows lacks an id, a value or a weight above "
            f"0."
        )
    if not kept.all():
        first, second = (
            list(compress(ids, kept)) if isinstance(ids, list) else ids[kept]
            for ids in (first, second)
        )
        values = values[kept]
        of_rows = of_rows[kept]
    rows, instance_ids = _numbered(first, instances, "instances")
    columns, task_ids = _numbered(second, tasks, "tasks")
    numbers, cells = np.unique(pair_numbers(rows, columns, len(task_ids)), return_inverse=True)
    averaged, total, n_contradicting = _averages(cells, values, of_rows)
    return LongPairs(
        rows=numbers // len(task_ids),
        columns=numbers % len(task_ids),
        values=averaged.astype(values.dtype, copy=False),
        weights=total,
        instances=instance_ids,
        tasks=task_ids,
        n_rows=n_rows,
        n_missing_ids=int(no_id.sum()),
        n_missing_values=int(no_value.sum()),
        n_zero_weight=int(no_weight.sum()),
        n_repeated=int((np.bincount(cells) > 1).sum()),
        n_contradicting=n_contradicting,
    )


def values_of_rows(y: Any, n_rows: int) -> np.ndarray:
    """Return the value of each row of a long table, NaN where it is missing; raise if one is infinite."""
    values = read_numbers(y, "y", n_rows)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(f"y contains infinity, first in row {row}: expected finite values.")
    return values


def weights_of_rows(weights: Any, name: str, n_rows: int) -> np.ndarray:
    """Return the weight of each row of a long table, 1 without weights; raise if one is negative or infinite."""
    if weights is None:
        return np.ones(n_rows)
    of_rows = read_numbers(weights, name, n_rows)
    is_valid = np.isfinite(of_rows) & (of_rows >= 0)
    if not is_valid.all():
        row = int(np.argmin(is_valid))
        raise ValueError(
            f"{name} must be finite and at least 0, found {of_rows[row]} in row {row}."
        )
    return of_rows


def _weights_of_ids(
    weights: Mapping[Hashable, float], name: str, columns: tuple[Column, Column]
) -> list[float]:
    """Return the weight of each row of a long table, given one for each instance or for each task.

    Rows without an id get the weight 1; they are left out.
    """
    lacking = []
    for column in columns:
        is_absent = lacks_id(column)
        ids = list_of(column)
        of_rows = []
        unknown = []
        for label, absent in zip(ids, is_absent, strict=True):
            of_rows.append(1.0 if absent else weights.get(label, 1.0))
            if not absent and label not in weights:
                unknown.append(label)
        if not unknown:
            return of_rows
        lacking.append(list(dict.fromkeys(unknown)))
    raise IdError(
        f"{name} must have a weight for each instance or for each task of the pairs: it lacks the "
        f"instances {shown(lacking[0])} and the tasks {shown(lacking[1])}."
    )


def _averages(
    cells: np.ndarray, values: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the mean value and the total weight of each pair, and the number of pairs with different values.

    Parameters
    ----------
    cells : integer array of shape (r,)
        Number of the pair of each row, from 0 without a gap.
    values, weights : arrays of shape (r,)
    """
    total = np.bincount(cells, weights)
    # The mean is one value of the pair plus the mean difference from it, so that equal values are
    # not rounded.
    one = np.empty(total.size)
    one[cells] = values
    gap = values - one[cells]
    means = one + np.bincount(cells, weights * gap) / total
    return means, total, int(np.count_nonzero(np.bincount(cells, gap != 0)))


def read_numbers(values: Any, name: str, n_rows: int) -> np.ndarray:
    """Return one number per row of a long table, NaN where it is missing."""
    if not isinstance(values, list | tuple | np.ndarray) and not is_foreign(values):
        import narwhals as nw

        series = nw.from_native(values, series_only=True, pass_through=True)
        if isinstance(series, nw.Series):
            values = series_column(series)
    values = without_mask(values)
    with reading_numbers(values, name):
        numbers = to_numpy(values)
        if numbers.dtype.kind not in "biufOU":
            raise TypeError(f"{name} must hold real numbers, found {numbers.dtype}.")
        if numbers.dtype != np.float32:
            numbers = numbers.astype(np.float64)
    if numbers.shape != (n_rows,):
        raise ValueError(
            f"{name} must have one value for each of {n_rows} pairs, found shape {numbers.shape}."
        )
    return numbers


def _numbered(
    column: Column, wanted: Sequence[Hashable] | None, name: str
) -> tuple[np.ndarray, tuple[Hashable, ...]]:
    """Return the position of each row's id, and the ids in the order of their positions."""
    codes, labels = distinct(column, "pairs")
    if wanted is None:
        return codes, tuple(labels)
    ids = make_ids(list(wanted), None, name)
    return ids.positions(labels, name)[codes], ids.labels

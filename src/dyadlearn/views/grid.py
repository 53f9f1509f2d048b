"""The grid of labels: what it holds, in which order it is looked at, and as few pixels as a picture has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.cluster.hierarchy import leaves_list, linkage

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_choice
from dyadlearn._tables import Ids, Table
from dyadlearn.diagnostics.fitted import REMEDY, is_network, labelled_model, labels_of
from dyadlearn.labels import distinct_labels
from dyadlearn.sides import SideNames, side_names

__all__ = ["GridView", "Pixels", "grid_of_labels", "grid_of_model"]

# Clustering compares all pairs of rows: beyond this it takes too long for a picture.
_MAX_CLUSTERED = 5000


@dataclass(frozen=True, eq=False)
class Pixels:
    """A grid as a picture shows it.

    Attributes
    ----------
    values : array of shape (height, width)
        Means of the observed labels of each block, of labels of two values the share of the larger one; NaN where
        none is observed.
    block : (int, int)
        How many instances and tasks make one pixel.
    ends : (float, float)
        The labels that the first and the last colour stand for. A few far-off labels must not leave one colour for
        all others: 1 % of them may lie beyond at each end.
    """

    values: np.ndarray
    block: tuple[int, int]
    ends: tuple[float, float]

    @property
    def note(self) -> str:
        """What is to be said of a pixel that stands for more than one label."""
        height, width = self.block
        return "" if height == width == 1 else f"a pixel is the mean of {height} × {width} labels"


@dataclass(frozen=True, eq=False)
class GridView:
    """Labels of instances × tasks in some order.

    The degree of an instance or task is the number of its positive labels if all labels are of two values, else the
    number of its observed ones.

    Attributes
    ----------
    values : array of shape (m, q)
        NaN where not observed.
    instance_order, task_order : arrays of shape (m,) and (q,)
        Where these rows and columns stood before.
    instance_ids, task_ids : Ids or None
        In this order.
    is_network : bool
        Whether both sides are the same nodes, so that a pair stands in the grid twice.
    names : SideNames
        What one of each side is called.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn._tables import Table
    >>> from dyadlearn.views.grid import grid_of_labels
    >>> grid = grid_of_labels(Table(np.array([[0.0, 1.0, np.nan], [1.0, 1.0, 0.0]])), "degree")
    >>> grid.values
    array([[ 1.,  1.,  0.],
           [ 1.,  0., nan]])
    >>> grid.is_binary, grid.n_observed, grid.share_positive, grid.degrees()
    (True, 5, 0.6, (array([2, 1]), array([2, 1, 0])))
    >>> grid.pixels(1).values, grid.pixels(1).block
    (array([[0.6]]), (2, 3))
    """

    values: np.ndarray
    instance_order: np.ndarray
    task_order: np.ndarray
    instance_ids: Ids | None = None
    task_ids: Ids | None = None
    is_network: bool = False
    names: SideNames = field(default_factory=SideNames)

    @cached_property
    def observed(self) -> np.ndarray:
        """Return which cells have a label, of shape (m, q)."""
        return np.asarray(~np.isnan(self.values))

    @property
    def n_observed(self) -> int:
        """Number of cells that have a label."""
        return int(self.observed.sum())

    @property
    def is_complete(self) -> bool:
        """Whether every cell has a label."""
        return self.n_observed == self.values.size

    @cached_property
    def distinct(self) -> np.ndarray:
        """The values that labels have, in ascending order."""
        return distinct_labels(self.values)

    @property
    def is_binary(self) -> bool:
        """Whether labels are of exactly two values, the larger being the positive one."""
        return self.distinct.size == 2

    @property
    def counted(self) -> str:
        """Which labels a degree counts, in a word."""
        return "positive" if self.is_binary else "observed"

    @property
    def positive(self) -> np.ndarray:
        """Return which cells have the larger label, of shape (m, q)."""
        return np.asarray(self.values == self.distinct[-1])

    @property
    def share_positive(self) -> float:
        """Share of the larger label among the observed ones."""
        return float(self.positive.sum() / self.n_observed)

    @property
    def size(self) -> str:
        """How large the grid is, in words."""
        return " × ".join(f"{n:,} {name}" for n, name in zip(self.values.shape, self.names.both, strict=True))

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the degrees of instances (m,) and tasks (q,)."""
        counted = self.positive if self.is_binary else self.observed
        return counted.sum(axis=1), counted.sum(axis=0)

    def degree_curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the distribution of the degrees of each side, by what a legend says; a network has one.

        It is degrees and shares with at least so many labels, from (0, 1) to (the highest degree, 0). A share holds up
        to its degree and drops after it.
        """
        found = {}
        for name, degrees in dict(zip(self.names.both, self.degrees(), strict=True)).items():
            levels, count = np.unique(degrees, return_counts=True)
            share = np.cumsum(count[::-1])[::-1] / degrees.size
            words = f"{degrees.size:,} {name}: median {np.median(degrees):g}, most {degrees.max():,}"
            found[words] = np.array([0, *levels, levels[-1]]), np.array([1.0, *share, 0.0])
        return found

    def histogram(self) -> tuple[np.ndarray, np.ndarray]:
        """Return how many labels (n,) lie between edges (n + 1,)."""
        values = self.values[self.observed]
        counts, edges = np.histogram(values, bins=min(40, max(5, int(values.size**0.5))))
        return counts, edges

    def pixels(self, most: int) -> Pixels:
        """Return a picture of at most so many pixels on a side."""
        values, ends = self.values, (0.0, 1.0)
        if self.is_binary:
            values = np.where(self.observed, self.positive, np.nan)
        elif self.n_observed:
            low, high = np.quantile(values[self.observed], [0.01, 0.99])
            ends = (float(low), float(high))
        height, width = (-(-length // most) for length in values.shape)
        return Pixels(_block_means(values, height, width), (height, width), ends)

    def ordered(self, order: str) -> GridView:
        """Return the grid as it comes, by degree, or with similar rows and columns beside each other."""
        check_choice(order, "order", ("given", "degree", "clustered"))
        if order == "given":
            return self
        if order == "degree":
            rows, columns = self._by_degree(0), self._by_degree(1)
        else:
            sides = zip((self.values, self.values.T), self.names.both, strict=True)
            rows, columns = (_by_cluster(values, name) for values, name in sides)
        return replace(
            self,
            values=self.values[np.ix_(rows, columns)],
            instance_order=self.instance_order[rows],
            task_order=self.task_order[columns],
            instance_ids=self.instance_ids and self.instance_ids.take(rows),
            task_ids=self.task_ids and self.task_ids.take(columns),
        )

    def _by_degree(self, axis: int) -> np.ndarray:
        """Return the order of a side by degree, highest first; equal ones by their mean label."""
        mean = _means(self.values, self.observed, 1 - axis)
        return np.lexsort((-mean, -self.degrees()[axis]))


def grid_of_labels(labels: Table, order: str = "given", *, network: bool = False, sides: Any = None) -> GridView:
    """Return the view of labels in an order that `GridView.ordered` knows; `sides` as in `side_names`."""
    names = side_names(sides, network=network)
    values = to_numpy(labels.values).astype(np.float64)
    if np.isinf(values).any():
        raise ValueError("Y contains infinity: labels are finite, or NaN where they are not observed.")
    rows, columns = (np.arange(length) for length in values.shape)
    return GridView(values, rows, columns, labels.row_ids, labels.column_ids, network, names).ordered(order)


def grid_of_model(model: Any, order: str = "given", remedy: str = REMEDY, *, sides: Any = None) -> GridView:
    """Return the view of the labels that a model was fitted on.

    `remedy` is as in `labelled_model`, and `sides` as in `side_names`.
    """
    labels = labels_of(model, remedy)
    return grid_of_labels(labels, order, network=is_network(labelled_model(model)), sides=sides)


def _means(values: np.ndarray, observed: np.ndarray, axis: int) -> np.ndarray:
    """Return means of the observed labels along an axis, 0 where there is none."""
    total = np.where(observed, values, 0.0).sum(axis=axis)
    return np.asarray(total / np.maximum(observed.sum(axis=axis), 1))


def _by_cluster(values: np.ndarray, side: str) -> np.ndarray:
    """Return the order of rows as the leaves of a tree of clusters; a missing label is the mean of its column."""
    n_rows = len(values)
    if n_rows > _MAX_CLUSTERED:
        raise ValueError(
            f'order="clustered" compares all pairs of {side}, at most {_MAX_CLUSTERED:,} of them, found {n_rows:,}: '
            'use order="degree".'
        )
    if n_rows < 3:
        return np.arange(n_rows)
    observed = ~np.isnan(values)
    return np.asarray(leaves_list(linkage(np.where(observed, values, _means(values, observed, 0)), method="ward")))


def _block_means(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the mean of the observed labels in each block, NaN where there is none."""
    if height == width == 1:
        return values
    observed = ~np.isnan(values)
    starts = [np.arange(0, length, step) for length, step in zip(values.shape, (height, width), strict=True)]

    def sums(cells: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(np.add.reduceat(cells, starts[0], axis=0), starts[1], axis=1))

    total, count = sums(np.where(observed, values, 0.0)), sums(observed.astype(np.float64))
    return np.asarray(np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0))

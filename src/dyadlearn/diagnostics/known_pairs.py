"""Reading the pairs that are known besides the training labels, and are not recommended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import is_sparse, to_numpy
from dyadlearn._codes import Column, distinct, lacks_id, table_columns
from dyadlearn._tables import Ids, near_miss
from dyadlearn.diagnostics.unobserved import unobserved, zeros_are_unobserved
from dyadlearn.exceptions import IdError
from dyadlearn.labels import read_labels, read_numbers
from dyadlearn.models.reading import among, positions
from dyadlearn.sides import SideNames


def read_known(
    known: Any,
    ids: Sequence[Ids | None],
    sizes: Sequence[int],
    names: SideNames,
    axis: int,
    zeros: bool | None = None,
) -> sparse.csr_array | None:
    """Return which pairs are known; pairs with ids that are not in `ids` are ignored.

    Parameters
    ----------
    known : sparse matrix, array, list of rows, frame or None
        Labels of a grid (a, n), or a long table of pairs (p, 2) or (p, 3): an instance, a task and
        optionally their label. NaN and cells that a sparse matrix does not store are not known.
    ids : (Ids or None, Ids or None)
        Ids of instances and tasks; without ids, positions are used. There may be more ids than a
        grid has rows or columns.
    sizes : (int, int)
        Shape of a grid; its rows and columns are the first of `ids`.
    names : SideNames
    axis : int
        Side that the rows of the result belong to: 0 for instances, 1 for tasks.
    zeros : bool or None, default=None
        Whether zeros count as not known; see `zeros_are_unobserved`.

    Returns
    -------
    sparse boolean array, or None if `known` is None
    """
    if known is None:
        return None
    rows, columns, labels = _Sides(ids, sizes, names).pairs(known)
    wanted = (rows >= 0) & (columns >= 0)
    if labels is not None:
        if zeros is None and len(labels) < math.prod(sizes):
            zeros = False  # some pairs are missing, so that zeros are labels
        wanted &= ~unobserved(labels, zeros_are_unobserved(labels, zeros))
    n_ids = [0 if side_ids is None else len(side_ids) for side_ids in ids]
    shape = (max(sizes[0], n_ids[0]), max(sizes[1], n_ids[1]))
    cells = (rows[wanted], columns[wanted])
    is_known = np.ones(len(cells[0]), dtype=bool)
    grid = sparse.csr_array((is_known, cells), shape)
    return sparse.csr_array(grid.T) if axis else grid


def _columns_of_long(known: Any, sizes: Sequence[int]) -> int | None:
    """Return the number of columns of a long table, or None for a grid."""
    if isinstance(known, list | tuple):
        n_columns = len(known[0]) if hasattr(known[0], "__len__") else 0
        is_grid = False
    else:
        m, q = sizes
        n_columns = int(known.shape[1]) if len(known.shape) == 2 else 0
        # A frame may have its ids in a column, and not in an index.
        has_id_column = hasattr(known, "columns") and n_columns == q + 1
        is_grid = known.shape[0] == m and (n_columns == q or has_id_column)
    if is_grid or n_columns not in (2, 3):
        return None
    return n_columns


#: Positions of the instances and of the tasks of pairs, -1 for other ids, and their labels or None.
_Pairs = tuple[np.ndarray, np.ndarray, np.ndarray | None]


class _Sides(NamedTuple):
    """Instances and tasks of which pairs are known; attributes as the parameters of `read_known`."""

    ids: Sequence[Ids | None]
    sizes: Sequence[int]
    names: SideNames

    def pairs(self, known: Any) -> _Pairs:
        """Return the pairs of a grid or of a long table."""
        if is_sparse(known):
            return self._of_grid(known)
        if not hasattr(known, "__len__") or isinstance(known, str):
            raise TypeError(
                f"known must be a grid of labels or a long table of pairs, found "
                f"{type(known).__name__}."
            )
        if len(known) == 0:
            nothing = np.zeros(0, dtype=np.intp)
            return nothing, nothing, None
        n_columns = _columns_of_long(known, self.sizes)
        if n_columns is None:
            return self._of_grid(known)
        instances, tasks, *values = table_columns(known, "known", n_columns)
        absent = lacks_id(instances) | lacks_id(tasks)
        if absent.any():
            raise IdError(
                f"known has no id in row {int(np.argmax(absent))}: drop the row, or fill it in."
            )
        labels = None
        if values:
            labels = read_numbers(values[0], "known", len(instances))
        return self._places(instances, 0), self._places(tasks, 1), labels

    def _of_grid(self, known: Any) -> _Pairs:
        """Return the cells of a grid that have a label."""
        grid_ids: tuple[Ids | None, Ids | None] = (None, None)
        if is_sparse(known):
            shape = known.shape
            cells = known.tocoo()
            places = [cells.row, cells.col]
            labels = np.asarray(cells.data)
        else:
            table = read_labels(known, "known")
            grid_ids = (table.row_ids, table.column_ids)
            grid = to_numpy(table.values)
            shape = grid.shape
            places = list(np.nonzero(grid == grid))
            labels = grid[*places]
        for axis, labelled in enumerate(grid_ids):
            if labelled is not None and self.ids[axis] is not None:
                of_ids = self._places(list(labelled.labels), axis)
                places[axis] = of_ids[places[axis]]
            elif shape[axis] != self.sizes[axis]:
                both = " × ".join(self.names.both)
                expected = f"a grid of {both}, or a long table of pairs"
                raise ValueError(
                    f"known has shape {tuple(shape)}, expected {tuple(self.sizes)}, {expected}."
                )
        return places[0], places[1], labels

    def _places(self, wanted: Column, axis: int) -> np.ndarray:
        """Return the positions of the ids of a column, -1 for other ids; without ids, check positions."""
        ids = self.ids[axis]
        name = self.names.both[axis]
        if ids is None:
            return positions(wanted, None, self.sizes[axis], f"the {name}", "known")
        codes, labels = distinct(wanted, "known")
        places = among(labels, ids.labels)
        # Ids of which nothing is known are no mistake, but ids that look alike are.
        alike = near_miss(labels, ids.labels) if (places < 0).all() else None
        if alike is not None:
            raise IdError(
                f"known has none of the {name}, but {alike[0]!r} in known and {alike[1]!r} in the model "
                f"differ only in type or blanks: read both tables alike."
            )
        return np.asarray(places[codes])

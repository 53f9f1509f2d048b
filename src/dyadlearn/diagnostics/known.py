"""Pairs that are known already and need not be recommended: of a sparse matrix, a grid or a long table.

Labels that their own model would not have believed: the first to check for mistakes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn._array import is_foreign, is_sparse, to_numpy
from dyadlearn._codes import Column, distinct, lacks_id, table_columns
from dyadlearn._tables import Ids, Table, near_miss
from dyadlearn.diagnostics.fitted import Tabled, asked_of, held_out, ids_at
from dyadlearn.exceptions import IdError
from dyadlearn.labels import Labels, distinct_labels, read_labels, read_numbers
from dyadlearn.models.reading import among, positions
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names


def observed_rows(labels: Labels, places: np.ndarray, axis: int) -> sparse.csr_array:
    """Return which labels are observed in some rows, or columns with axis 1; in places of -1 there are none.

    Parameters
    ----------
    labels : Labels
    places : integer array of shape (a,)
    axis : int

    Returns
    -------
    sparse boolean array of shape (a, q), or (a, m) with axis 1
    """
    held = labels.listed().to_sparse(np.ones(labels.size, dtype=bool))
    held = held.T.tocsr() if axis else held
    # One more row, where -1 stands, without anything in it.
    starts = np.append(held.indptr, held.indptr[-1])
    return sparse.csr_array((held.data, held.indices, starts), shape=(held.shape[0] + 1, held.shape[1]))[places]


def zeros_are_unobserved(values: np.ndarray, zeros: bool | None) -> bool:
    """Return whether zeros among labels count as not observed: as told, else where all are zeros, ones or missing."""
    if zeros is not None:
        return bool(zeros)
    return bool(((values == 0) | (values == 1) | (values != values)).all())


def read_known(
    known: Any, ids: Sequence[Ids | None], sizes: Sequence[int], names: SideNames, axis: int, zeros: bool | None = None
) -> sparse.csr_array | None:
    """Return which pairs are known; what is told of others is passed over, where there are ids.

    Parameters
    ----------
    known : sparse matrix, array or frame of shape (a, n), or array, list of rows or frame of shape (p, 2) or (p, 3), or
        None
        Labels of a grid, or pairs of an instance and a task with or without their labels. What a sparse matrix does not
        hold is not known, nor is what is NaN.
    ids : (Ids or None, Ids or None)
        Of instances and tasks. Without ids, positions are. There may be more than a grid has.
    sizes : (int, int)
        The shape of a grid, whose rows and columns are the first.
    names : SideNames
    axis : int
        Which side has the rows of what is returned.
    zeros : bool or None, default=None
        Whether zeros count as not known; see `zeros_are_unobserved`.

    Returns
    -------
    sparse boolean array with a row for each of that side, or None without `known`
    """
    if known is None:
        return None
    if not is_sparse(known) and (not hasattr(known, "__len__") or isinstance(known, str)):
        raise TypeError(f"known must be a grid of labels or a long table of pairs, found {type(known).__name__}.")
    rows, columns, labels = _pairs(known, list(zip(ids, sizes, names.both, strict=True)))
    wanted = (rows >= 0) & (columns >= 0)
    if labels is not None:
        wanted &= labels == labels
        if zeros_are_unobserved(labels, zeros):
            wanted &= labels != 0
    m, q = (max(size, 0 if own is None else len(own)) for own, size in zip(ids, sizes, strict=True))
    pairs = rows[wanted], columns[wanted]
    found = sparse.csr_array((np.ones(len(pairs[0]), dtype=bool), pairs), (m, q))
    return sparse.csr_array(found.T) if axis else found


# The ids of a side, how many rows or columns a grid has of it, and what it is called.
_Side = tuple[Ids | None, int, str]


def _pairs(known: Any, sides: list[_Side]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return where the instances and the tasks of pairs stand, -1 for those not sought, and their labels."""
    if is_sparse(known):
        _check_shape(known.shape, sides)
        held = known.tocoo()
        return held.row, held.col, np.asarray(held.data)
    if len(known) == 0:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), None
    n_columns = _columns_of_long(known, sides)
    if n_columns is not None:
        first, second, *values = table_columns(known, "known", n_columns)
        absent = lacks_id(first) | lacks_id(second)
        if absent.any():
            raise IdError(f"known has no id in row {int(np.argmax(absent))}: drop the row, or fill it in.")
        labels = read_numbers(values[0], "known", len(first)) if values else None
        return _places(first, *sides[0]), _places(second, *sides[1]), labels
    table = read_labels(known, "known")
    grid, places = to_numpy(table.values), []
    for own, side, length in zip((table.row_ids, table.column_ids), sides, grid.shape, strict=True):
        has_ids = own is not None and side[0] is not None
        if not has_ids and length != side[1]:
            _check_shape(grid.shape, sides)
        places.append(_places(list(own.labels), *side) if own is not None and has_ids else np.arange(length))
    own_rows, own_columns = np.nonzero(grid == grid)
    return places[0][own_rows], places[1][own_columns], grid[own_rows, own_columns]


def _places(wanted: Column, ids: Ids | None, size: int, name: str) -> np.ndarray:
    """Return where the values of a column stand; of ids, -1 where they do not."""
    if ids is None:
        return positions(wanted, None, size, f"the {name}", "known")
    codes, labels = distinct(wanted, "known")
    found = among(labels, ids.labels)
    alike = near_miss(labels, ids.labels) if (found < 0).all() else None
    if alike is not None:  # somebody of whom nothing is known is no mistake
        raise IdError(
            f"known tells of none of the {name}: {alike[0]!r} in it and {alike[1]!r} differ in type or blanks only: "
            "read both alike."
        )
    return np.asarray(found[codes])


def _columns_of_long(known: Any, sides: list[_Side]) -> int | None:
    """Return how many columns a long table has; None for a grid."""
    if isinstance(known, list | tuple):
        n_columns, is_grid = len(known[0]) if hasattr(known[0], "__len__") else 0, False
    else:
        n_columns, (m, q) = int(known.shape[1]) if len(known.shape) == 2 else 0, (size for _, size, _ in sides)
        # Of frames those with an index have their ids apart, and others in a column of their own.
        is_array = isinstance(known, np.ndarray) or is_foreign(known)
        is_grid = n_columns in ((q,) if is_array else (q, q + 1)) and known.shape[0] == m
    return None if is_grid or n_columns not in (2, 3) else n_columns


def _check_shape(shape: tuple[int, ...], sides: list[_Side]) -> None:
    (_, m, instances), (_, q, tasks) = sides
    if tuple(shape) != (m, q):
        raise ValueError(
            f"known has shape {tuple(shape)}, expected ({m}, {q}), a row for each of the {instances} and a column for "
            f"each of the {tasks}, or a long table of pairs."
        )


@dataclass(frozen=True, eq=False, repr=False)
class Screening(Tabled):
    """Observed cells in the order of how much their held-out predictions contradict them, as `screen` found them.

    Attributes
    ----------
    instances, tasks : tuple of length k
        The cells, by ids, or by positions where the labels have no ids.
    labels, predictions, contradictions : arrays of shape (k,)
        The label of each cell, its held-out prediction, and how much the two contradict each other.
    setting : str
        What was left out for each prediction.
    method : str
        How the predictions were made.
    names : SideNames
        What an instance and a task are called.
    """

    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    labels: np.ndarray
    predictions: np.ndarray
    contradictions: np.ndarray
    setting: str
    method: str
    names: SideNames

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        worst = f", worst ({self.instances[0]!r}, {self.tasks[0]!r})" if len(self) else ""
        return f"Screening({len(self)} cells in setting {self.setting}{worst})"

    def first(self, k: int | None) -> Screening:
        """Return the first k cells; None is all of them."""
        listed = ("instances", "tasks", "labels", "predictions", "contradictions")
        return replace(self, **{name: getattr(self, name)[:k] for name in listed})

    def columns(self) -> dict[str, list[Any]]:
        """Return the cells as named columns, for a data frame or a file."""
        figures = {name: getattr(self, f"{name}s").tolist() for name in ("label", "prediction", "contradiction")}
        instance, task = self.names.headings(figures)
        return {instance: list(self.instances), task: list(self.tasks), **figures}


def screen(
    model: Any,
    setting: str | Setting = "A",
    *,
    k: int | None = 20,
    label: float | None = None,
    cv: int | None = None,
    sides: Any = None,
) -> Screening:
    r"""List the labels that held-out predictions contradict most: the first to check for mistakes.

    With labels of two values, a cell is contradicted as far as cells of the other value look more like its value than
    the cell itself does. Of a positive cell with the held-out prediction :math:`f`,

    .. math:: c = \frac{1}{N^-} \sum_{y_n \text{ negative}} \bigl([f_n > f] + \tfrac12 [f_n = f]\bigr),

    and of a negative one the share of positive cells below it; the mean of :math:`1 - c` over either is the area under
    the ROC curve. With labels of more values :math:`c` is the absolute error of the prediction. A correct label that
    the features do not explain is contradicted like a wrong one: the list says where to look first, not how many
    labels are wrong.

    Parameters
    ----------
    model : fitted estimator
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        What is left out for each prediction; A, the cell alone, leaves the most to contradict it with.
    k : int or None, default=20
        How many cells to list, at most; None lists all.
    label : float, default=None
        List cells with this label only, such as 0 for positives that somebody overlooked.
    cv : int, default=None
        Number of folds where labels are missing or weighted and no shortcut exists; None is five.
    sides : (str, str), default=None
        What an instance and a task are called, in tables.

    Returns
    -------
    Screening

    See Also
    --------
    recommend : the likeliest pairs that are not observed.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, screen
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(30, 3)), rng.normal(size=(20, 2))
    >>> Y = np.where(X @ rng.normal(size=(3, 2)) @ T.T > 0, 1.0, 0.0)
    >>> Y[4, 7] = 1 - Y[4, 7]  # a slip of the pen
    >>> screen(TwoStepRidge().fit(X, Y, tasks=T), k=5)
    Screening(5 cells in setting A, worst (4, 7))
    """
    fitted, labels, chosen = asked_of(model, setting, k)
    predictions, method = held_out(fitted, chosen, cv)
    once = fitted.is_network
    found = screened(labels, predictions, method, chosen, label=label, once=once, names=side_names(sides, network=once))
    if not len(found):
        some = ", ".join(f"{value:g}" for value in distinct_labels(labels.values)[:3])
        raise ValueError(f"No cell has the label {label}: labels are such as {some}.")
    return found.first(k)


def screened(
    labels: Table,
    F: np.ndarray,
    method: str,
    setting: Setting,
    *,
    label: float | None = None,
    once: bool = False,
    names: SideNames,
) -> Screening:
    """Return all cells that have a label and a prediction, those that contradict each other most first.

    Parameters
    ----------
    labels : Table
        Of shape (m, q), as arrays of numpy; NaN where there are none.
    F : array of shape (m, q)
        Held-out predictions; NaN where there are none.
    method : str
        How they were made.
    setting : Setting
    label : float, default=None
        Cells with this label only.
    once : bool, default=False
        Whether a pair stands in the grid twice, and is wanted once.
    names : SideNames
        What the sides are called.

    Returns
    -------
    Screening
        Of cells that are contradicted alike, as by all of the other value, first those of the largest errors.
    """
    Y = labels.values
    found = contradictions(Y, F)
    wanted = ~np.isnan(found)
    if label is not None:
        wanted &= np.equal(Y, label)
    if once:
        wanted &= np.triu(np.ones(Y.shape, dtype=bool))
    rows, columns = np.nonzero(wanted)
    order = np.lexsort((-np.abs(Y - F)[rows, columns], -found[rows, columns]))
    cells = rows[order], columns[order]
    ids = (ids_at(labels.row_ids, cells[0]), ids_at(labels.column_ids, cells[1]))
    return Screening(*ids, Y[cells], F[cells], found[cells], setting.value, method, names)


def contradictions(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Return how much held-out predictions contradict each label; `screen` has the formula.

    Parameters
    ----------
    Y, F : arrays of shape (m, q)
        Labels and held-out predictions, NaN where there are none.

    Returns
    -------
    array of shape (m, q)
        From 0 to 1 for labels of two values, else the absolute error; NaN where a label or a prediction is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.known import contradictions
    >>> contradictions(np.array([[1.0, 0.0], [1.0, np.nan]]), np.array([[0.9, 0.4], [0.3, 0.2]]))
    array([[0. , 0.5],
           [1. , nan]])
    """
    known = ~(np.isnan(Y) | np.isnan(F))
    values = np.unique(Y[known])
    if len(values) != 2:
        return np.asarray(np.abs(Y - F))
    positive, negative = known & (values[1] == Y), known & (values[0] == Y)
    found = np.full(Y.shape, np.nan)
    found[positive] = 1 - _share_below(np.sort(F[negative]), F[positive])
    found[negative] = _share_below(np.sort(F[positive]), F[negative])
    return found


def _share_below(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the share of `ordered` (n,) below each of `values`, ties counting half."""
    left, right = (np.searchsorted(ordered, values, side=side) for side in ("left", "right"))
    return np.asarray((left + right) / (2 * len(ordered)))

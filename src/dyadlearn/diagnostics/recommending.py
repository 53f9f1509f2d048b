r"""Pairs that nobody has tried yet: the likeliest ones, for what is known, for what is new, and of the whole grid.

The best of many numbers, block by block: few of each block are sorted, and what is kept is merged.

Of equal numbers the first is best, as in a stable sort of all of them; NaN stands for what is not to be named.

Numbers are dealt to many more groups than are wanted. The k-th of the groups' maxima is a bound that at least k numbers
reach, and hardly more do: one pass for the maxima, one to compare, and what reaches the bound is sorted. Where equals
make it many, and where there are not k numbers at all, a partition of the whole row finds them.

The best columns for many rows to predict for, without the grid of their predictions.

Predictions are :math:`\boldsymbol\Phi_*\,\mathbf{W}\,\boldsymbol\Psi_*^\top` for a rows and n columns, far more of them
than anybody wants to see. The coefficients :math:`\mathbf{W}` (r × s) are multiplied by the side that makes this
cheaper: by the rows, which leaves a·s·n products for the predictions, or once and for all by the columns, which leaves
a·r·n. Then blocks of predictions are formed one after the other, and of each the best are kept.

What is recommended: short lists of ids with their scores, for one, for several, and of the whole grid.

Pairs that are known already and need not be recommended: of a sparse matrix, a grid or a long table.

Labels that their own model would not have believed: the first to check for mistakes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import (
    Array,
    dense,
    is_foreign,
    is_sparse,
    itemsize,
    matmul,
    namespace,
    order_statistic,
    row_blocks,
    take_rows,
    to_numpy,
    with_value,
)
from dyadlearn._checks import check_count
from dyadlearn._codes import Column, distinct, lacks_id, table_columns
from dyadlearn._tables import Ids, Table, free_name, near_miss, shown
from dyadlearn.diagnostics.fitted import Tabled, asked_of, fitted_of, held_out, ids_at
from dyadlearn.exceptions import IdError
from dyadlearn.growing.knowledge import stacked
from dyadlearn.labels import Labels, distinct_labels, read_labels, read_numbers
from dyadlearn.models.fitted import Fitted, predicting
from dyadlearn.models.pairs import FittedPairs
from dyadlearn.models.reading import among, positions
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.pair_kernel import knows_rows
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, plural, side_names
from dyadlearn.vectrick import left_first


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
    """Observed cells, sorted by how much held-out predictions contradict them; the result of `screen`.

    Attributes
    ----------
    instances, tasks : tuple of length k
        Ids of the cells, or positions if the labels have no ids.
    labels, predictions, contradictions : arrays of shape (k,)
        Label, held-out prediction and contradiction of each cell.
    setting : str
        Setting of the held-out predictions.
    method : str
        Hold-out method.
    names : SideNames
        Names of an instance and of a task.
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
    n: int | None = 20,
    label: float | None = None,
    cv: int | None = None,
    sides: Any = None,
) -> Screening:
    r"""List the labels that held-out predictions contradict most; check these first for mistakes.

    For labels of two values, the contradiction of a cell is the share of cells of the other value that are predicted
    more like the value of the cell than the cell itself. For a positive cell with the held-out prediction :math:`f` it
    is

    .. math:: c = \frac{1}{N^-} \sum_{y_n \text{ negative}} \bigl([f_n > f] + \tfrac12 [f_n = f]\bigr),

    and for a negative cell it is the share of positive cells with a lower prediction. The mean of :math:`1 - c` over
    the positive cells, or over the negative ones, is the area under the ROC curve. For labels with more values,
    :math:`c` is the absolute error of the prediction. A correct label that the features do not explain is contradicted
    like a wrong one. So the list shows which labels to check first, not how many are wrong.

    Parameters
    ----------
    model : fitted estimator
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        Setting of the held-out predictions. A leaves out only the cell and uses most information.
    n : int or None, default=20
        Maximum number of cells to list; None lists all.
    label : float, default=None
        List only cells with this label, such as 0 to find overlooked positives.
    cv : int, default=None
        Number of folds if labels are missing or weighted and hold-out has no formula; None means five.
    sides : (str, str), default=None
        Names of an instance and of a task, for tables.

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
    >>> screen(TwoStepRidge().fit(X, Y, tasks=T), n=5)
    Screening(5 cells in setting A, worst (4, 7))
    """
    fitted, labels, chosen = asked_of(model, setting, n)
    predictions, method = held_out(fitted, chosen, cv)
    once = fitted.is_network
    found = screened(labels, predictions, method, chosen, label=label, once=once, names=side_names(sides, network=once))
    if not len(found):
        some = ", ".join(f"{value:g}" for value in distinct_labels(labels.values)[:3])
        raise ValueError(f"No cell has the label {label}: labels are such as {some}.")
    return found.first(n)


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
    >>> from dyadlearn.diagnostics.recommending import contradictions
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


# Groups of columns for each number that is wanted.
_GROUPS = 8


def best_in_rows(scores: Array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where the k best of each row stand, best first, and what they are.

    Columns are dealt into groups. The k-th largest of their maxima is a bound that at least k numbers of a row reach,
    and mostly few more: only these are sorted. Where numbers are equal, the first columns come first.

    Parameters
    ----------
    scores : array of shape (a, n)
        NaN comes last; of any library.
    k : int

    Returns
    -------
    (integer array, array) of numpy of shape (a, min(k, n)) each

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.recommending import best_in_rows
    >>> best_in_rows(np.array([[1.0, 3.0, 2.0, 3.0], [np.nan, 0.0, 0.0, 0.0]]), 2)[0]
    array([[1, 3],
           [1, 2]])
    """
    xp, (a, n) = namespace(scores), scores.shape
    k = min(k, n)
    groups = min(n, _GROUPS * k)
    depth = n // groups
    keys = scores
    maxima = xp.max(xp.reshape(keys[:, : depth * groups], (a, depth, groups)), axis=1)
    if bool(xp.any(xp.isnan(maxima))):
        keys = xp.where(xp.isnan(scores), xp.full_like(scores, -float("inf")), scores)
        maxima = xp.max(xp.reshape(keys[:, : depth * groups], (a, depth, groups)), axis=1)
    bound = xp.reshape(order_statistic(maxima, groups - k), (a, 1))
    reaching = xp.nonzero(xp.reshape(keys >= bound, (-1,)))[0]
    values = to_numpy(xp.take(xp.reshape(scores, (-1,)), reaching, axis=0))
    rows, columns = np.divmod(to_numpy(reaching), n)
    order = np.lexsort((columns, -np.where(np.isnan(values), -np.inf, values), rows))
    counts = np.bincount(rows, minlength=a)
    chosen = order[(np.cumsum(counts) - counts)[:, None] + np.arange(k)]
    return columns[chosen], values[chosen]


def merged(
    kept: tuple[np.ndarray, np.ndarray] | None, scores: Array, first: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of what was kept of earlier columns and of some more.

    Parameters
    ----------
    kept : (integer array, array) of shape (a, l) each, or None
        Where the best of the columns before stand, and their scores, best first.
    scores : array of shape (a, n)
        Of the columns that follow; of any library.
    first : int
        Where the first of these stands.
    k : int

    Returns
    -------
    (integer array, array) of numpy of shape (a, min(k, l + n)) each
    """
    places, values = best_in_rows(scores, k)
    places = places + first
    if kept is None:
        return places, values
    places, values = np.concatenate([kept[0], places], axis=1), np.concatenate([kept[1], values], axis=1)
    best, values = best_in_rows(values, k)
    return np.take_along_axis(places, best, axis=1), values


# Bytes of one block of predictions, and of what the columns of many blocks come to, which is computed once.
_BLOCK, _PANEL = 2**25, 2**27
# A block has at least so many rows where the columns are many: products of fewer are slow.
_ROWS = 256


def best_columns(
    made: Expansion, rows: NewRows, others: NewRows | None, k: int, known: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return where the k best of the columns stand for each row, best first, and their predictions.

    Parameters
    ----------
    made : Expansion
    rows : NewRows
        The a rows to find the best for.
    others : NewRows or None
        The n columns; None stands for those of training.
    k : int
    known : sparse array of shape (a, n) or None
        Pairs that are not to be named.

    Returns
    -------
    (integer array, array) of shape (a, min(k, n)) each
        NaN where there are fewer that may be named, at the end of a row.
    """
    found: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for here, there, scores in _blocks(made, rows, others):
        if known is not None:  # less than anything, which costs less than to look for NaN
            held = known[here, there].tocoo()
            scores = with_value(scores, held.row * held.shape[1] + held.col, -float("inf"))
        found[here.start] = merged(found.get(here.start), scores, there.start, k)
    places, scores = (np.concatenate(each) for each in zip(*found.values(), strict=True))
    scores[scores == -np.inf] = np.nan
    return places, scores


def _blocks(made: Expansion, rows: NewRows, others: NewRows | None) -> Iterator[tuple[slice, slice, Array]]:
    """Yield predictions of some rows and columns after the other, with where both stand.

    What the columns of many blocks come to is computed once. The blocks of rows are the same for all columns.
    """
    size, n = itemsize(made.values), made.n_tasks if others is None else others.size
    everything = slice(0, n)
    if rows.places is not None or (others is not None and others.places is not None):
        # Of training, and known by more than their kernel: there is a grid of them.
        grid = made.grid(rows if rows.places is None else None, others)
        places = np.arange(rows.size) if rows.places is None else rows.places
        for here in row_blocks(rows.size, n * size, _BLOCK):
            yield here, everything, take_rows(grid, places[here])
        return
    if others is None:  # the columns of training are as many as the coefficients bear
        left, (r, s) = rows.before(made.instances), made.values.shape
        is_shared = size * r * n <= _PANEL and not left_first(rows.size, n, r, s)
        right, width = made.to_training if is_shared else None, n + max(left.width, rows.values.shape[1]) // 4
        for here in row_blocks(rows.size, width * size, _BLOCK):
            yield here, everything, made.grid(rows.take(here), None) if right is None else matmul(left.at(here), right)
        return
    made = made.shared
    left, right, middle = rows.before(made.instances), others.before(made.tasks), made.values
    by_rows = left_first(rows.size, n, *middle.shape)
    # What the columns come to, and what is there while they come to it.
    most = max(1, _PANEL // (size * (right.width + (middle.shape[1] if by_rows else max(middle.shape)))))
    step = min(most, max(1, _BLOCK // (size * _ROWS)))
    step = -(-n // -(-n // step))  # blocks of one width
    row_bytes = size * (step + max(left.width, *middle.shape) // 4)
    for panel in row_blocks(n, 1, max(step, most // step * step)):
        after = right.at(panel) if by_rows else matmul(right.at(panel), middle.T)
        for here in row_blocks(rows.size, row_bytes, _BLOCK):
            half = matmul(left.at(here), middle) if by_rows else left.at(here)
            for start in range(panel.start, panel.stop, step):
                there = slice(start, min(start + step, panel.stop))
                yield here, there, matmul(half, after[start - panel.start : there.stop - panel.start, :].T)


@dataclass(frozen=True, eq=False, repr=False)
class Ranked(Tabled):
    """Base class of lists of ids, best first, with their scores and labels."""

    scores: np.ndarray
    labels: np.ndarray | None
    setting: str
    method: str
    sides: SideNames

    def __len__(self) -> int:
        return len(self.scores)

    def columns(self) -> dict[str, list[Any]]:
        """Return all lists as named columns, one below the other, for a data frame or a file."""
        listed = ~np.isnan(self.scores)
        figures: dict[str, list[Any]] = {"score": self.scores[listed].tolist()}
        if self.labels is not None:
            figures["label"] = [None if np.isnan(label) else label for label in self.labels[listed].tolist()]
        return self._named(figures) | figures

    def _named(self, taken: Collection[str]) -> dict[str, list[Any]]:
        """Return the columns of ids, by names that are not taken."""
        raise NotImplementedError

    def _counted(self, count: int, of: str) -> str:
        one = self.sides.task if of == "tasks" else self.sides.instance
        return f"{count:,} {one if count == 1 else plural(one)}"


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(Ranked):
    """The best tasks for an instance, or the best instances for a task; the result of `recommend`.

    Attributes
    ----------
    of : str
        What is recommended: ``"tasks"`` or ``"instances"``.
    subject : id or position
        Instance or task to recommend for.
    ids : tuple of length k
        Recommended ids, best first, or positions if the labels have no ids.
    scores, labels : arrays of shape (k,)
        Held-out predictions, and labels: NaN if missing, otherwise 0.
    setting : str
        Setting of the held-out predictions.
    method : str
        Hold-out method.
    sides : SideNames
        Names of an instance and of a task.
    """

    labels: np.ndarray
    of: str
    subject: Hashable
    ids: tuple[Hashable, ...]

    def __repr__(self) -> str:
        best = ", ".join(f"{name!r} ({score:.3g})" for name, score in zip(self.ids[:3], self.scores[:3], strict=True))
        words = self._counted(len(self), self.of)
        return f"Recommendations({words} for {self.subject!r}: {best}{', …' if len(self) > 3 else ''})"

    def _named(self, taken: Collection[str]) -> dict[str, list[Any]]:
        name = self.sides.task if self.of == "tasks" else self.sides.instance
        return {free_name(name, taken): list(self.ids)}


@dataclass(frozen=True, eq=False, repr=False)
class RecommendationLists(Ranked):
    """The best tasks for each of several instances, or the best instances for each of several tasks.

    Attributes
    ----------
    of : str
        What is recommended: ``"tasks"`` or ``"instances"``.
    subjects : tuple of length a
        Ids of the instances or tasks to recommend for, or positions if there are no ids.
    ids : tuple of length a, of tuples
        Recommendations for each subject, best first: at most k ids, or positions if there are no ids.
    scores : array of shape (a, k)
        Predictions; shorter lists are padded with NaN.
    labels : array of shape (a, k) or None
        Labels: NaN if missing, otherwise 0. None if the subjects are new.
    setting : str
        What is new about the pairs, or was left out for each prediction.
    method : str
        Hold-out method.
    sides : SideNames
        Names of an instance and of a task.
    """

    of: str
    subjects: tuple[Hashable, ...]
    ids: tuple[tuple[Hashable, ...], ...]

    def __repr__(self) -> str:
        subjects = self._counted(len(self), "instances" if self.of == "tasks" else "tasks")
        words = self._counted(self.scores.shape[1], self.of)
        return f"RecommendationLists({words} each for {subjects}, setting {self.setting})"

    def _named(self, taken: Collection[str]) -> dict[str, list[Any]]:
        pairs = [(subject, other) for subject, own in zip(self.subjects, self.ids, strict=True) for other in own]
        headings = self.sides.headings(taken)
        headings = headings if self.of == "tasks" else headings[::-1]
        return {heading: [pair[place] for pair in pairs] for place, heading in enumerate(headings)}


@dataclass(frozen=True, eq=False, repr=False)
class TopPairs(Ranked):
    """The most promising unobserved pairs; the result of `top_pairs`.

    Attributes
    ----------
    instances, tasks : tuple of length k
        Ids of the pairs, best first, or positions if the labels have no ids.
    scores, labels : arrays of shape (k,)
        Predictions, and labels: NaN if missing, otherwise 0.
    setting : str
        Setting of the held-out predictions.
    method : str
        Hold-out method.
    sides : SideNames
        Names of an instance and of a task.
    """

    labels: np.ndarray
    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]

    def __repr__(self) -> str:
        best = f"({self.instances[0]!r}, {self.tasks[0]!r}), {self.scores[0]:.3g}"
        return f"TopPairs({len(self)} in setting {self.setting}, best {best})"

    def _named(self, taken: Collection[str]) -> dict[str, list[Any]]:
        first, second = self.sides.headings(taken)
        return {first: list(self.instances), second: list(self.tasks)}


# Kept labels that are looked at in one go.
_CELLS = 2**22

_FROM_ALL = "predicted from all observed labels"
_NO_CONSTANT = (
    "for want of labels of the tasks to take constants from: use fit_intercept=False, or a model that knows tasks."
)


def recommend(
    model: Any,
    *,
    instance: Any = None,
    task: Any = None,
    X: Any = None,
    tasks: Any = None,
    known: Any = None,
    n: int = 10,
    setting: str | Setting = "A",
    zeros: bool | None = None,
    cv: int | None = None,
    sides: Sequence[str] | None = None,
) -> Recommendations | RecommendationLists:
    """Recommend the best tasks for an instance, or the best instances for a task.

    For known instances and tasks, unobserved cells are ranked by held-out predictions, so that a zero label does not
    influence its prediction. New instances and tasks have no labels except those in `known`; all other pairs are ranked
    by the predictions of the model, which are computed in blocks to save memory. A node of a network is not recommended
    to itself, unless such pairs are observed.

    Parameters
    ----------
    model : fitted estimator
    instance, task : id, or position where the labels have no ids, or a list of them
        Known instance or task to recommend for; give exactly one of `instance`, `task`, or `X` and `tasks`.
        `OnlineTwoStepRidge` knows the ids of instances only with ``keep_labels=True``. A `PairRegressor` knows all ids
        in its tables, in training or not.
    X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel
        New instances to recommend tasks for, as in `predict`.
    tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q)
        New tasks. With `X`, they are the candidates to recommend, instead of the training tasks. Without `X`, training
        instances are recommended for them.
    known : sparse matrix, array or frame of labels, or long table of pairs, default=None
        Known pairs in addition to the training labels; they are not recommended. A grid has one row per instance and
        one column per task, those of `X` and `tasks` if given, else those of training; NaN and cells that a sparse
        matrix does not store are unknown. A long table is an array, list of rows or frame of shape (p, 2) or (p, 3): an
        instance, a task and optionally a label. Ids are matched, and other ids are ignored; without ids, positions are
        used. If the shape fits both forms, a list is a long table and anything else a grid.
    n : int, default=10
        Maximum number of recommendations.
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        Setting of the held-out predictions for known instances and tasks: leave out the cell alone (A), all labels of
        the instance (B), of the task (C), or of both (D).
    zeros : bool, default=None
        Whether a zero label means "not observed". None means True if all labels are zeros and ones, apart from missing
        labels. This applies to labels in `known` too.
    cv : int, default=None
        Number of folds if labels are missing or weighted and hold-out has no formula; None means five.
    sides : (str, str), default=None
        Names of an instance and of a task in messages and column names, such as ``("user", "film")``.

    Returns
    -------
    Recommendations, or RecommendationLists
        One list for a single `instance` or `task`; one list each for a list of ids, `X` or `tasks`.

    See Also
    --------
    top_pairs : the likeliest pairs of the whole grid.
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, recommend
    >>> Y = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> X = T = np.array([[1.0, 0.1], [0.8, 0.0], [0.1, 0.9], [0.0, 1.0]])
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, Y, tasks=T)
    >>> recommend(model, instance=1, n=1)
    Recommendations(1 task for 1: 1 (0.853))
    >>> found = recommend(model, X=[[1.0, 0.0], [0.0, 1.0]], n=2, sides=("user", "film"))
    >>> found
    RecommendationLists(2 films each for 2 users, setting B)
    >>> found.ids
    ((0, 1), (3, 2))
    >>> recommend(model, X=[[1.0, 0.0], [0.0, 1.0]], n=2, known=[(0, 1), (1, 3)]).ids
    ((0, 2), (2, 1))
    """
    check_count(n, "n")
    given = {"instance": instance, "task": task, "X": X, "tasks": tasks}
    found = [name for name, value in given.items() if value is not None]
    if found not in (["instance"], ["task"], ["X"], ["tasks"], ["X", "tasks"]):
        raise ValueError(
            "Say what to recommend for: give either instance= or task=, which are known, or X= or tasks=, which are "
            f"new; found {' and '.join(f'{name}=' for name in found) or 'none of them'}."
        )
    if X is None and tasks is None:
        axis, subject = (0, instance) if task is None else (1, task)
        asked = _asked_by_itself(model, subject, axis, known, zeros, sides)
        if asked is None:
            return _for_known(model, subject, axis, known, n, setting, zeros, cv, sides)
        if zeros or cv is not None or as_setting(setting) is not Setting.A:
            raise ValueError(
                "What is recommended here is ranked by the predictions of the model itself, and nothing is left "
                "out for them: give no setting=, zeros= or cv=."
            )
        return asked.best(n)
    own = Setting.C if X is None else Setting.B if tasks is None else Setting.D
    if (zeros is not None and known is None) or cv is not None or as_setting(setting) not in (Setting.A, own):
        raise ValueError(
            "What is new has no labels to leave out: leave setting=, zeros= and cv= to instance= and task=, which are "
            "known, and zeros= to known= too."
        )
    return _asked_new(model, X, tasks, known, own, zeros, sides).best(n)


def top_pairs(
    model: Any,
    *,
    n: int = 20,
    zeros: bool | None = None,
    setting: str | Setting = "A",
    cv: int | None = None,
    sides: Sequence[str] | None = None,
) -> TopPairs:
    """Return the most promising unobserved pairs of the whole grid.

    Zeros that count as not observed are ranked by held-out predictions, missing labels by the predictions of the model.
    The grid is computed in blocks of rows. Ties are resolved by the order of rows.

    In a network each pair is listed once; for antisymmetric labels, in the direction with a positive prediction. Pairs
    of a node with itself are left out, unless such a pair is observed.

    Parameters
    ----------
    model : fitted estimator
    n : int, default=20
        Maximum number of recommendations.
    zeros, setting, cv, sides
        Parameters as in `recommend`.

    Returns
    -------
    TopPairs

    See Also
    --------
    recommend : the best for one instance or task, or for new ones.
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, top_pairs
    >>> Y = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> X = T = np.array([[1.0, 0.1], [0.8, 0.0], [0.1, 0.9], [0.0, 1.0]])
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, Y, tasks=T)
    >>> top_pairs(model, n=2, sides=("user", "film")).columns()["film"]
    [2, 1]
    """
    fitted, labels, chosen = asked_of(model, setting, n)
    symmetry = fitted.symmetry
    names = side_names(sides, network=symmetry != 0)
    Y = labels.values
    zeros = zeros_are_unobserved(Y, zeros)
    F, method = _predictions(fitted, Y, chosen, cv, has_zeros=zeros and bool((Y == 0).any()))
    past = int(symmetry != 0 and not _has_selves(Y, zeros))
    wanted = _unobserved(Y, zeros)
    if symmetry:  # both directions are one pair
        wanted &= np.triu(np.ones(Y.shape, dtype=bool), past)
    ranked = np.where(wanted, np.abs(F) if symmetry < 0 else F, np.nan).ravel()
    places, values = best_in_rows(ranked[None, :], n)
    rows, columns = np.divmod(places[~np.isnan(values)], Y.shape[1])
    if not rows.size:
        if np.count_nonzero(_unobserved(Y, zeros)) > past * len(Y):
            raise ValueError(f"Nothing is predicted for any pair that is not observed, {_NO_CONSTANT}")
        raise ValueError(f"Every pair is observed, so there is none to name{_hint(zeros)}.")
    scores = F[rows, columns]
    if symmetry < 0:
        turned = scores < 0
        rows, columns, scores = np.where(turned, columns, rows), np.where(turned, rows, columns), np.abs(scores)
    ids = ids_at(labels.row_ids, rows), ids_at(labels.column_ids, columns)
    return TopPairs(scores, Y[rows, columns], chosen.value, method, names, *ids)


# What is known ------------------------------------------------------------------------------------


def _unobserved(labels: np.ndarray, zeros: bool) -> np.ndarray:
    """Return which labels are missing, or zero where zeros count as not observed."""
    missing = np.asarray(np.isnan(labels))
    return missing | (labels == 0) if zeros else missing


def _has_selves(Y: np.ndarray, zeros: bool) -> bool:
    """Return whether some pair of a node with itself is observed, in a network."""
    return not bool(_unobserved(np.diagonal(Y), zeros).all())


def _predictions(
    fitted: Fitted, Y: np.ndarray, setting: Setting, cv: int | None, *, has_zeros: bool
) -> tuple[np.ndarray, str]:
    """Return predictions (m, q) that never saw their cells, and how they were made.

    Parameters
    ----------
    fitted : Fitted
    Y : array of shape (m, q)
        Labels, NaN where missing.
    setting : Setting
    cv : int or None
    has_zeros : bool
        Whether zeros are among the cells that are not observed.
    """
    completed = to_numpy(fitted.completed)
    if setting is Setting.A and not has_zeros:
        # What is missing was never seen: the model itself predicts it, from all that is known.
        return completed, _FROM_ALL
    F, method = held_out(fitted, setting, cv)
    return np.where(np.isnan(Y), completed, F) if setting is Setting.A else F, method


@dataclass(frozen=True, eq=False)
class _Asked:
    """What something is recommended for.

    Attributes
    ----------
    subjects : tuple
        Ids of instances (axis 0) or of tasks (axis 1).
    several : bool
        Whether they came as a list.
    axis : int
    ids : Ids or None
        Of what is recommended.
    setting : Setting
    names : SideNames
    """

    subjects: tuple[Any, ...]
    several: bool
    axis: int
    ids: Ids | None
    setting: Setting
    names: SideNames

    @property
    def whom(self) -> str:
        """What messages call the subjects."""
        return f"these {self.names.both[self.axis]}" if self.several else repr(self.subjects[0])

    def listed(
        self, places: np.ndarray, scores: np.ndarray, labels: np.ndarray | None, method: str
    ) -> Recommendations | RecommendationLists:
        """Return a list for each subject, as long as it has predictions; or a single one."""
        lengths = np.count_nonzero(~np.isnan(scores), axis=1)
        longest = int(lengths.max())
        own = tuple(ids_at(self.ids, row[:length]) for row, length in zip(places, lengths, strict=True))
        scores, labels = scores[:, :longest], None if labels is None else labels[:, :longest]
        words = (self.setting.value, method, self.names, ("tasks", "instances")[self.axis])
        if self.several or labels is None:
            return RecommendationLists(scores, labels, *words, self.subjects, own)
        return Recommendations(scores[0], labels[0], *words, self.subjects[0], own[0])


class _Own(NamedTuple):
    """Subjects that are ranked for by the predictions of the model itself.

    Attributes
    ----------
    asked : _Asked
    made : Expansion
        With the side that is asked about first.
    rows : NewRows
        Those that are asked about.
    others : NewRows or None
        What is recommended; None stands for what the model was trained on.
    told : sparse array of shape (a, n) or None
        What is observed or known of them.
    has_labels : bool
        Whether the lists have a column of labels, which those of new rows have not.
    """

    asked: _Asked
    made: Expansion
    rows: NewRows
    others: NewRows | None
    told: Any
    has_labels: bool = True

    def best(self, k: int) -> Recommendations | RecommendationLists:
        """Return what is best and neither observed nor known."""
        asked, told = self.asked, self.told
        places, scores = best_columns(self.made, self.rows, self.others, k, told)
        if np.isnan(scores).all():
            if told is None or not told.nnz:
                raise ValueError(f"Nothing is predicted for any of the {asked.names.tasks}, {_NO_CONSTANT}")
            raise ValueError(f"Everything is known of {asked.whom}, so there is nothing to recommend.")
        return asked.listed(places, scores, np.full_like(scores, np.nan) if self.has_labels else None, _FROM_ALL)


def _for_known(
    model: Any, given: Any, axis: int, known: Any, k: int, setting: Any, zeros: bool | None, cv: int | None, sides: Any
) -> Recommendations | RecommendationLists:
    """Recommend for rows of a grid of labels, by predictions that never saw what is recommended."""
    fitted, labels, chosen = asked_of(model, setting, k)
    names = side_names(sides, network=fitted.is_network)
    subjects, several = _subjects(given, names.both[axis])
    ids, shape = (labels.row_ids, labels.column_ids), labels.values.shape
    places = positions(subjects, ids[axis], shape[axis], f"the {names.both[axis]}", ("instance", "task")[axis])
    asked = _Asked(ids_at(ids[axis], places), several, axis, ids[1 - axis], chosen, names)
    told = read_known(known, ids, shape, names, axis, zeros)
    Y = labels.values if axis == 0 else labels.values.T
    zeros = zeros_are_unobserved(Y, zeros)
    own, wanted = Y[places], _unobserved(Y[places], zeros)
    F, method = _predictions(fitted, labels.values, chosen, cv, has_zeros=zeros and bool((own == 0).any()))
    if told is not None:
        wanted &= ~told[places].toarray()
    if fitted.is_network and not _has_selves(Y, zeros):
        wanted[np.arange(len(places)), places] = False
    found, values = best_in_rows(np.where(wanted, (F if axis == 0 else F.T)[places], np.nan), k)
    if np.isnan(values).all():
        if wanted.any():
            raise ValueError(f"Nothing is predicted for {asked.whom}, {_NO_CONSTANT}")
        raise ValueError(f"Every label of {asked.whom} is observed, so there is nothing to recommend{_hint(zeros)}.")
    return asked.listed(found, values, np.where(np.isnan(values), np.nan, np.take_along_axis(own, found, 1)), method)


def _subjects(asked: Any, called: str) -> tuple[list[Any], bool]:
    """Return those that something is asked for, and whether they came as a list."""
    several = isinstance(asked, list) or getattr(asked, "ndim", 0) == 1
    subjects = list(asked) if several else [asked]
    if not subjects:
        raise ValueError(f"The list of {called} to recommend for is empty: give at least one.")
    return subjects, several


def _hint(zeros: bool) -> str:
    return "" if zeros else "; zeros=True takes zeros for not observed"


# What is known, to models without a grid of labels --------------------------------------------------


def _asked_by_itself(model: Any, asked: Any, axis: int, known: Any, zeros: bool | None, sides: Any) -> _Own | None:
    """Return what is asked of a model without a grid of labels, or of what is in its tables alone; else None."""
    if getattr(model, "grows", False):
        if axis or (model.keep_labels and zeros_are_unobserved(fitted_of(model).labels.values, zeros)):
            return None
        return _kept(model, asked, known, sides)
    fitted = fitted_of(model)
    names = side_names(sides, network=fitted.is_network)
    subjects, several = _subjects(asked, names.both[axis])
    ids, labels = (fitted.instance_ids, fitted.task_ids), fitted.labels
    trained = ids[axis]
    if not isinstance(fitted, FittedPairs) or trained is None:
        return None
    places = among(subjects, trained.labels)
    if labels.grid is not None and (places >= 0).any():
        # Where there is a grid, what is observed in it may need to be left out, and rows of training may know more.
        values, pairing = to_numpy(labels.grid), fitted.pairing
        if (places >= 0).all() or knows_rows(pairing) or zeros_are_unobserved(values, zeros):
            return None
    given = fitted.describe(subjects, axis)
    rows: Any = (fitted.columns if axis else fitted.rows)(given)[1]
    observed = observed_rows(labels, places, axis)
    made = fitted.expansion.transposed if axis else fitted.expansion
    # All of training with those that are asked about, and what is recommended.
    every = Ids(tuple(dict.fromkeys((*trained.labels, *subjects))))
    told = read_known(known, (ids[0], every) if axis else (every, ids[1]), labels.shape, names, axis)
    told = observed if told is None else observed + told[among(subjects, every.labels)]
    setting = Setting.A if (places >= 0).any() else (Setting.B, Setting.C)[axis]
    return _Own(_Asked(tuple(subjects), several, axis, ids[1 - axis], setting, names), made, rows, None, told)


def _kept(model: Any, instance: Any, known: Any, sides: Any) -> _Own:
    """Return what is asked of instances that a growing model has kept with their labels."""
    fitted: Any = predicting(model)
    names, learnt = side_names(sides), fitted.knowledge
    if not learnt.keeps_labels:
        raise ValueError(
            f"{type(model).__name__} keeps statistics only, not the labels: fit it with keep_labels=True, or give "
            "instances by X= and what they know by known=."
        )
    subjects, several = _subjects(instance, names.instances)
    found = learnt.kept.places(subjects)
    unknown = [label for label, place in zip(subjects, found, strict=True) if place is None]
    if unknown:
        raise IdError(f"{shown(unknown)} not among the ids of the {names.instances} that the model has kept.")
    pieces, observed = [], []
    for here in row_blocks(len(found), model.n_tasks_, _CELLS):
        rows, labels = learnt.kept.taken(found[here])
        pieces.append(rows)
        observed.append(sparse.csr_array(~np.isnan(to_numpy(dense(labels)))))
    own = () if learnt.kept.ids is None else learnt.kept.ids.labels
    every = Ids(tuple(dict.fromkeys((*own, *subjects))))
    told = read_known(known, (every, learnt.task_ids), (len(own), model.n_tasks_), names, 0)
    seen = sparse.vstack(observed, format="csr")
    told = seen if told is None else seen + told[among(subjects, every.labels)]
    rows, others = fitted.kept_rows(stacked(pieces)), fitted.columns(None)[1]
    asked = _Asked(tuple(subjects), several, 0, learnt.task_ids, Setting.A, names)
    return _Own(asked, fitted.expansion, rows, others, told)


# What is new --------------------------------------------------------------------------------------


def _asked_new(model: Any, X: Any, tasks: Any, known: Any, setting: Setting, zeros: bool | None, sides: Any) -> _Own:
    grows = bool(getattr(model, "grows", False))
    fitted = predicting(model) if grows else fitted_of(model)  # a growing model needs no labels here
    names = side_names(sides, network=isinstance(fitted, Fitted) and fitted.is_network)
    if X is None and grows:
        raise ValueError(
            f"{type(model).__name__} keeps no instances to recommend: give some by X=, beside tasks= or without, or "
            "fit TwoStepRidge on the labels."
        )
    X, tasks = fitted.given(X, 0), fitted.given(tasks, 1)
    made, trained = fitted.expansion, (fitted.instance_ids, fitted.task_ids)
    task_table, others = fitted.columns(tasks)
    instances, rows = (None, others) if X is None else fitted.rows(X)
    axis = 1 if X is None else 0
    ids = [own if table is None else table.row_ids for own, table in zip(trained, (instances, task_table), strict=True)]
    sizes = [rows.size if X is not None else made.n_instances, made.n_tasks if others is None else others.size]
    told = read_known(known, ids, sizes, names, axis, zeros)
    if axis:
        made, others = made.transposed, None
    asked = _Asked(ids_at(ids[axis], np.arange(rows.size)), True, axis, ids[1 - axis], setting, names)
    return _Own(asked, made, rows, others, told, has_labels=False)

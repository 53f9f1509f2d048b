r"""Recommendations and doubtful labels: the best unobserved pairs, and the labels that predictions contradict most.

Predictions of a rows and n columns are
:math:`\boldsymbol\Phi_*\,\mathbf{W}\,\boldsymbol\Psi_*^\top`, usually far more than are listed. The
coefficients :math:`\mathbf{W}` (r × s) are first multiplied by the side that is cheaper: by the
rows, which leaves a·s·n products, or once by the columns, which leaves a·r·n. Predictions are then
computed in blocks, and only the best of each block are stored.

The best of a row are found without sorting it. Its columns are divided into many more groups than
are wanted. The k-th largest of the maxima of the groups is a bound that at least k numbers reach,
and mostly few more; only these are sorted. Ties are resolved by the order of columns, as in a
stable sort. NaN marks cells that must not be listed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import (
    Array,
    as_array_of,
    is_sparse,
    namespace,
    order_statistic,
    row_blocks,
    to_numpy,
    with_value,
)
from dyadlearn._checks import check_whole
from dyadlearn._codes import Column, distinct, lacks_id, table_columns
from dyadlearn._tables import Ids, Table, free_name, near_miss, shown
from dyadlearn.diagnostics.fitted import Tabled, asked_of, fitted_of, held_out, ids_at
from dyadlearn.exceptions import IdError
from dyadlearn.labels import distinct_labels, read_labels, read_numbers
from dyadlearn.models.fitted import Fitted, predicting
from dyadlearn.models.reading import among, positions
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.pair_kernel import knows_rows
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, plural, side_names

__all__ = [
    "RecommendationLists",
    "Recommendations",
    "Screening",
    "TopPairs",
    "recommend",
    "screen",
    "top_pairs",
]


def zeros_are_unobserved(values: np.ndarray, zeros: bool | None) -> bool:
    """Return whether zero labels count as not observed: `zeros`, or by default whether every pair has the label 0 or 1.

    Where labels are missing (NaN), pairs that are not observed are marked already, so that zeros
    are labels.
    """
    if zeros is not None:
        return bool(zeros)
    return bool(((values == 0) | (values == 1)).all())


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
    known : sparse matrix, array or frame of shape (a, n), or array, list of rows or frame of shape
    (p, 2) or (p, 3), or
        None
        Labels of a grid, or pairs of an instance and a task with or without their labels. NaN and
        cells that a sparse matrix does not store are not known.
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
    if not is_sparse(known) and (not hasattr(known, "__len__") or isinstance(known, str)):
        raise TypeError(
            f"known must be a grid of labels or a long table of pairs, found "
            f"{type(known).__name__}."
        )
    rows, columns, labels = _pairs(known, ids, sizes, names)
    wanted = (rows >= 0) & (columns >= 0)
    if labels is not None:
        if zeros is None and len(labels) < math.prod(
            sizes
        ):  # some pairs are missing, so that zeros are labels
            zeros = False
        wanted &= ~_unobserved(labels, zeros_are_unobserved(labels, zeros))
    m, q = (
        max(size, 0 if side_ids is None else len(side_ids))
        for side_ids, size in zip(ids, sizes, strict=True)
    )
    pairs = rows[wanted], columns[wanted]
    grid = sparse.csr_array((np.ones(len(pairs[0]), dtype=bool), pairs), (m, q))
    return sparse.csr_array(grid.T) if axis else grid


def _pairs(
    known: Any, ids: Sequence[Ids | None], sizes: Sequence[int], names: SideNames
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Return the positions of the instances and of the tasks of pairs, -1 for other ids, and their labels or None."""
    grid_ids: tuple[Ids | None, Ids | None] = (None, None)
    if is_sparse(known):
        cells = known.tocoo()
        shape = known.shape
        places = [cells.row, cells.col]
        labels = np.asarray(cells.data)
    elif len(known) == 0:
        return np.zeros(0, dtype=np.intp), np.zeros(0, dtype=np.intp), None
    elif n_columns := _columns_of_long(known, sizes):
        first, second, *values = table_columns(known, "known", n_columns)
        absent = lacks_id(first) | lacks_id(second)
        if absent.any():
            raise IdError(
                f"known has no id in row {int(np.argmax(absent))}: drop the row, or fill it in."
            )
        rows, columns = map(_places, (first, second), ids, sizes, names.both)
        return rows, columns, read_numbers(values[0], "known", len(first)) if values else None
    else:
        table = read_labels(known, "known")
        grid = to_numpy(table.values)
        grid_ids = (table.row_ids, table.column_ids)
        places = list(np.nonzero(grid == grid))
        shape = grid.shape
        labels = grid[*places]
    for axis in (0, 1):
        labelled = grid_ids[axis]
        if labelled is not None and ids[axis] is not None:
            places[axis] = _places(list(labelled.labels), ids[axis], sizes[axis], names.both[axis])[
                places[axis]
            ]
        elif shape[axis] != sizes[axis]:
            form = f"a grid of {names.instances} × {names.tasks}, or a long table of pairs"
            raise ValueError(f"known has shape {tuple(shape)}, expected {tuple(sizes)}, {form}.")
    return places[0], places[1], labels


def _places(wanted: Column, ids: Ids | None, size: int, name: str) -> np.ndarray:
    """Return the positions of the ids of a column, -1 for other ids; without ids, check positions."""
    if ids is None:
        return positions(wanted, None, size, f"the {name}", "known")
    codes, labels = distinct(wanted, "known")
    places = among(labels, ids.labels)
    alike = near_miss(labels, ids.labels) if (places < 0).all() else None
    if alike is not None:  # ids of which nothing is known are no mistake
        ids_in_words = f"{alike[0]!r} in it and {alike[1]!r} differ in type or blanks only"
        raise IdError(f"known has none of the {name}: {ids_in_words}: read both alike.")
    return np.asarray(places[codes])


def _columns_of_long(known: Any, sizes: Sequence[int]) -> int | None:
    """Return the number of columns of a long table, or None for a grid."""
    if isinstance(known, list | tuple):
        n_columns = len(known[0]) if hasattr(known[0], "__len__") else 0
        is_grid = False
    else:
        n_columns = int(known.shape[1]) if len(known.shape) == 2 else 0
        m, q = sizes
        # A frame may have its ids in a column, and not in an index.
        is_grid = (
            n_columns in ((q, q + 1) if hasattr(known, "columns") else (q,)) and known.shape[0] == m
        )
    return None if is_grid or n_columns not in (2, 3) else n_columns


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
    sides : SideNames
        Names of an instance and of a task.
    """

    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    labels: np.ndarray
    predictions: np.ndarray
    contradictions: np.ndarray
    setting: str
    method: str
    sides: SideNames

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        if len(self):
            worst = f", worst ({self.instances[0]!r}, {self.tasks[0]!r})"
        else:
            worst = ""
        return f"Screening({len(self)} cells in setting {self.setting}{worst})"

    def first(self, k: int | None) -> Screening:
        """Return the first k cells; None returns all."""
        listed = ("instances", "tasks", "labels", "predictions", "contradictions")
        return replace(self, **{name: getattr(self, name)[:k] for name in listed})

    def columns(self) -> dict[str, list[Any]]:
        """Return the cells as named columns, for a data frame or a file."""
        figures = {
            name: getattr(self, f"{name}s").tolist()
            for name in ("label", "prediction", "contradiction")
        }
        instance, task = self.sides.headings(figures)
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

    For labels of two values, the contradiction of a positive cell is the fraction of negative cells
    with a higher held-out prediction. With the held-out prediction :math:`f` of the cell, where
    ties count half, it is

    .. math:: c = \frac{1}{N^-} \sum_{y_n \text{ negative}} \bigl([f_n > f] + \tfrac12 [f_n = f]\bigr),

    and for a negative cell it is the fraction of positive cells with a lower prediction. The mean
    of :math:`1 - c` over the positive cells, or over the negative ones, is the area under the ROC
    curve. For labels with more values,
    :math:`c` is the absolute error of the prediction. A correct label that the features do not explain is contradicted
    like a wrong one. So the list shows which labels to check first, not how many are wrong.

    Parameters
    ----------
    model : fitted estimator
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        One setting, that of the held-out predictions. A leaves out only the cell and uses most
        information.
    n : int or None, default=20
        Maximum number of cells to list; None lists all.
    label : float, default=None
        List only cells with this label, such as 0 to find overlooked positives.
    cv : int, default=None
        Number of folds. None means one unit at a time where a formula is affordable, else five
        folds. Complete labels of a model with a formula are left out one unit at a time in any
        case.
    sides : (str, str), default=None
        Names of an instance and of a task, for tables.

    Returns
    -------
    Screening

    See Also
    --------
    recommend : the unobserved pairs with the highest predictions.

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
    screening = screened(
        labels, predictions, method, chosen.value, side_names(sides, network=once), once, label
    )
    if not len(screening):
        some = ", ".join(f"{value:g}" for value in distinct_labels(labels.values)[:3])
        raise ValueError(f"No cell has the label {label}: labels are such as {some}.")
    return screening.first(n)


def screened(
    labels: Table,
    F: np.ndarray,
    method: str,
    setting: str,
    names: SideNames,
    once: bool,
    label: float | None = None,
) -> Screening:
    """Return all cells that have a label and a prediction, sorted by decreasing contradiction.

    Parameters
    ----------
    labels : Table
        Labels of shape (m, q) as a numpy array; NaN means missing.
    F : array of shape (m, q)
        Held-out predictions; NaN means missing.
    method : str
        Hold-out method.
    setting : str
    names : SideNames
        Names of the sides.
    once : bool
        Whether the labels are a network, whose edges are in the grid twice and are listed once.
    label : float, default=None
        Return only cells with this label.

    Returns
    -------
    Screening
        Cells with equal contradictions are sorted by decreasing absolute error.
    """
    Y = labels.values
    contradiction = contradictions(Y, F)
    wanted = ~np.isnan(contradiction)
    if label is not None:
        wanted &= np.equal(Y, label)
    if once:
        wanted = np.triu(wanted)
    rows, columns = np.nonzero(wanted)
    order = np.lexsort((-np.abs(Y - F)[rows, columns], -contradiction[rows, columns]))
    cells = rows[order], columns[order]
    ids = (ids_at(labels.row_ids, cells[0]), ids_at(labels.column_ids, cells[1]))
    return Screening(*ids, Y[cells], F[cells], contradiction[cells], setting, method, names)


# Held-out predictions that differ by this share of the largest differ by rounding, as in
# `dyadlearn.metrics`.
_ROUNDING = float(np.finfo(np.float64).eps) ** 0.75


def contradictions(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Return the contradiction of each label by its held-out prediction; `screen` has the formula.

    Parameters
    ----------
    Y, F : arrays of shape (m, q)
        Labels and held-out predictions; NaN means missing.

    Returns
    -------
    array of shape (m, q)
        From 0 to 1 for labels of two values, else the absolute error; NaN if a label or a
        prediction is missing.

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
        errors = np.abs(Y - F)
        rounding = _ROUNDING * np.abs(values).max(initial=0.0)
        return np.where(errors <= rounding, 0.0, errors)
    positive = known & (values[1] == Y)
    negative = known & (values[0] == Y)
    shares = np.full(Y.shape, np.nan)
    shares[positive] = 1 - _share_below(np.sort(F[negative]), F[positive])
    shares[negative] = _share_below(np.sort(F[positive]), F[negative])
    return shares


def _share_below(ordered: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the share of the sorted numbers `ordered` (n,) that are below each of `values`; ties count half.

    Numbers that differ by rounding tie, as they do in the area under the ROC curve.
    """
    tied = _ROUNDING * max(np.abs(ordered).max(initial=0.0), np.abs(values).max(initial=0.0))
    left = np.searchsorted(ordered, values - tied, side="left")
    right = np.searchsorted(ordered, values + tied, side="right")
    return np.asarray((left + right) / (2 * len(ordered)))


# Number of groups of columns for each wanted number.
_GROUPS = 8


def best_in_rows(scores: Array, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of the k largest numbers of each row, largest first, and these numbers.

    Parameters
    ----------
    scores : array of shape (a, n)
        Array of any library; NaN comes last. Equal numbers are sorted by column.
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
    xp = namespace(scores)
    a, n = scores.shape
    k = min(k, n)
    groups = min(n, _GROUPS * k)
    depth = n // groups
    keys = scores
    maxima = xp.max(xp.reshape(keys[:, : depth * groups], (a, depth, groups)), axis=1)
    if bool(xp.any(xp.isnan(maxima))):
        keys = xp.where(xp.isnan(scores), -float("inf"), scores)
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
    best: tuple[np.ndarray, np.ndarray] | None, scores: Array, first: int, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best of the earlier columns and of a new block of columns.

    Parameters
    ----------
    best : (integer array, array) of shape (a, l) each, or None
        Columns and scores of the best so far, best first.
    scores : array of shape (a, n)
        Scores of the new block; array of any library.
    first : int
        Position of its first column.
    k : int

    Returns
    -------
    (integer array, array) of numpy of shape (a, min(k, l + n)) each
    """
    places, values = best_in_rows(scores, k)
    places = places + first
    if best is None:
        return places, values
    places = np.concatenate([best[0], places], axis=1)
    values = np.concatenate([best[1], values], axis=1)
    order, values = best_in_rows(values, k)
    return np.take_along_axis(places, order, axis=1), values


def best_columns(
    expansion: Expansion, rows: NewRows, others: NewRows | None, k: int, known: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best columns of each row, best first, and their predictions.

    Parameters
    ----------
    expansion : Expansion
    rows : NewRows
        The a rows.
    others : NewRows or None
        The n columns; None means those of training.
    k : int
    known : sparse array of shape (a, n) or None
        Pairs that are not listed.

    Returns
    -------
    (integer array, array) of shape (a, min(k, n)) each
        Rows with fewer unknown pairs end with NaN.
    """
    best: dict[int, tuple[np.ndarray, np.ndarray]] = {}
    for here, there, scores in expansion.blocks(rows, others):
        if known is not None:  # -inf is faster than NaN, which has to be looked for
            pairs = known[here, there].tocoo()
            scores = with_value(scores, pairs.row * pairs.shape[1] + pairs.col, -float("inf"))
        best[here.start] = merged(best.get(here.start), scores, there.start, k)
    places, scores = (np.concatenate(each) for each in zip(*best.values(), strict=True))
    scores[scores == -np.inf] = np.nan
    return places, scores


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
        """Return all lists as named columns, for a data frame or a file."""
        listed = ~np.isnan(self.scores)
        figures: dict[str, list[Any]] = {"score": self.scores[listed].tolist()}
        if self.labels is not None:
            figures["label"] = [
                None if np.isnan(label) else label for label in self.labels[listed].tolist()
            ]
        return self._named(figures) | figures

    def _named(self, taken: Collection[str]) -> dict[str, list[Any]]:
        """Return the columns of ids, with names that are not in `taken`."""
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
        best = ", ".join(
            f"{name!r} ({score:.3g})"
            for name, score in zip(self.ids[:3], self.scores[:3], strict=True)
        )
        words = self._counted(len(self), self.of)
        return (
            f"Recommendations({words} for {self.subject!r}: {best}{', …' if len(self) > 3 else ''})"
        )

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
        Recommendations for each subject, best first: at most k ids, or positions if there are no
        ids.
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
        pairs = [
            (subject, other)
            for subject, ids in zip(self.subjects, self.ids, strict=True)
            for other in ids
        ]
        headings = self.sides.headings(taken)
        headings = headings if self.of == "tasks" else headings[::-1]
        return {heading: [pair[place] for pair in pairs] for place, heading in enumerate(headings)}


@dataclass(frozen=True, eq=False, repr=False)
class TopPairs(Ranked):
    """The unobserved pairs with the highest predictions; the result of `top_pairs`.

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


# Number of stored labels of an online model that are read at once.
_CELLS = 2**22

_FROM_ALL = "predicted from all observed labels"
_NO_CONSTANT = "whose tasks have no labels for an intercept: use fit_intercept=False, or a model that knows tasks."


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
    """Recommend the tasks with the highest predictions for an instance, or the instances for a task.

    For known instances and tasks, unobserved cells are ranked by held-out predictions, so that a
    zero label does not influence its prediction. New instances and tasks have no labels except
    those in `known`; all other pairs are ranked by the predictions of the model, which are computed
    in blocks to save memory. A node of a network is not recommended to itself, unless such pairs
    are observed.

    Parameters
    ----------
    model : fitted estimator
    instance, task : id, or position where the labels have no ids, or a list of them
        Known instance or task to recommend for. Pass either `instance`, or `task`, or `X` (`tasks`
        are then optional), or `tasks` alone. `OnlineTwoStepRidge` accepts them only with
        ``keep_labels=True``, and `tasks` only with `X`. A `PairRegressor` knows all ids in its
        tables, in training or not. Known and new ids need two calls if its model has individual
        effects (see `PairKernelRidge`), or if labels are 0 and 1.
    X : array, sparse matrix or frame of shape (a, d), or (a, m) for a precomputed kernel
        New instances to recommend tasks for, as in `predict`.
    tasks : array, sparse matrix, frame or Tasks of shape (b, r) or (b, q)
        New tasks. With `X`, they are the candidates to recommend, instead of the training tasks.
        Without `X`, training instances are recommended for them.
    known : sparse matrix, array or frame of labels, or long table of pairs, default=None
        Known pairs in addition to the training labels; they are not recommended. A grid has one row
        per instance and one column per task, those of `X` and `tasks` if given, else those of
        training; NaN and cells that a sparse matrix does not store are unknown. A long table is an
        array, list of rows or frame of shape (p, 2) or (p, 3): an instance, a task and optionally a
        label. Ids are matched, and other ids are ignored; without ids, positions are used. If the
        shape fits both forms, a list is a long table and anything else a grid.
    n : int, default=10
        Maximum number of recommendations in each list.
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        Setting of the held-out predictions for known instances and tasks: leave out the cell alone
        (A), all labels of the instance (B), of the task (C), or of both (D).
    zeros : bool, default=None
        Whether a zero label means "not observed". None means True if every pair has a label and all
        labels are zeros and ones. If some pairs have no label, zeros are labels of tested pairs,
        which are not recommended. This applies to labels in `known` too.
    cv : int, default=None
        Number of folds. None means one unit at a time where a formula is affordable, else five
        folds. Complete labels of a model with a formula are left out one unit at a time in any
        case.
    sides : (str, str), default=None
        Names of an instance and of a task in messages and column names, such as ``("user",
        "film")``.

    Returns
    -------
    Recommendations, or RecommendationLists
        One list for a single `instance` or `task`; one list each for a list of ids, `X` or `tasks`.

    See Also
    --------
    top_pairs : the unobserved pairs of the whole grid with the highest predictions.
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
    check_whole(n, "n")
    given = {"instance": instance, "task": task, "X": X, "tasks": tasks}
    found = [name for name, value in given.items() if value is not None]
    if found not in (["instance"], ["task"], ["X"], ["tasks"], ["X", "tasks"]):
        names = " and ".join(f"{name}=" for name in found) or "none of them"
        raise ValueError(
            f"Give either instance= or task=, which are known, or X= or tasks=, which are new; "
            f"found {names}."
        )
    if X is None and tasks is None:
        axis, subject = (0, instance) if task is None else (1, task)
        ranked = _by_model(model, subject, axis, known, zeros, sides)
        if ranked is None:
            return _for_known(model, subject, axis, known, n, setting, zeros, cv, sides)
        if zeros or cv is not None or as_setting(setting) is not Setting.A:
            ranking = (
                "These pairs are ranked by the predictions of the model, and nothing is held out"
            )
            raise ValueError(f"{ranking}: leave setting=, zeros= and cv= out.")
        return ranked(n)  # type: ignore[no-any-return]
    if X is None:
        new = Setting.C
    elif tasks is None:
        new = Setting.B
    else:
        new = Setting.D
    if (
        (zeros is not None and known is None)
        or cv is not None
        or as_setting(setting) not in (Setting.A, new)
    ):
        new_ones = "New instances and tasks have no labels to hold out"
        raise ValueError(
            f"{new_ones}: leave setting= and cv= out, and zeros= unless known= is given."
        )
    return _for_new(model, X, tasks, known, n, new, zeros, sides)


def top_pairs(
    model: Any,
    *,
    n: int = 20,
    zeros: bool | None = None,
    setting: str = "A",
    cv: int | None = None,
    sides: Any = None,
) -> TopPairs:
    """Return the unobserved pairs of the whole grid with the highest predictions.

    Zeros that count as not observed are ranked by held-out predictions, missing labels by the
    predictions of the model. The grid is computed in blocks of rows. Ties are resolved by the order
    of rows.

    In a network each pair is listed once; for antisymmetric labels, in the direction with a
    positive prediction. Pairs of a node with itself are left out, unless such a pair is observed.

    Parameters
    ----------
    model : fitted estimator
    n : int, default=20
        Maximum number of pairs.
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
    zeros = zeros_are_unobserved(_pairs_of(Y, fitted), zeros)
    F, method = _predictions(fitted, Y, chosen, cv, has_zeros=zeros and bool((Y == 0).any()))
    wanted = _unobserved(Y, zeros)
    if symmetry:  # both directions are one pair
        wanted = np.triu(wanted, 0 if _has_selves(Y, zeros) else 1)
    ranked = np.where(wanted, np.abs(F) if symmetry < 0 else F, np.nan).ravel()
    places, values = best_in_rows(ranked[None, :], n)
    rows, columns = np.divmod(places[~np.isnan(values)], Y.shape[1])
    if not rows.size:
        if wanted.any():
            raise ValueError(f"Nothing is predicted for unobserved pairs, {_NO_CONSTANT}")
        raise ValueError(f"All pairs are observed: there is none to recommend{_hint(zeros)}.")
    scores = F[rows, columns]
    if symmetry < 0:
        is_reversed = scores < 0
        scores = np.abs(scores)
        rows, columns = np.where(is_reversed, columns, rows), np.where(is_reversed, rows, columns)
    ids = ids_at(labels.row_ids, rows), ids_at(labels.column_ids, columns)
    return TopPairs(scores, Y[rows, columns], chosen.value, method, names, *ids)


# Predictions that never used their cells -----------------------------------------------------------


def _unobserved(labels: np.ndarray, zeros: bool) -> np.ndarray:
    """Return which labels are missing, or zero if zeros count as not observed."""
    missing = np.asarray(np.isnan(labels))
    return missing | (labels == 0) if zeros else missing


def _pairs_of(Y: np.ndarray, fitted: Fitted) -> np.ndarray:
    """Return the labels of a grid, without missing ones of the nodes of a network with themselves."""
    if not fitted.is_network:
        return Y
    return np.asarray(Y[~(np.eye(len(Y), dtype=bool) & np.isnan(Y))])


def _has_selves(Y: np.ndarray, zeros: bool) -> bool:
    """Return whether a pair of a node of a network with itself is observed."""
    return not bool(_unobserved(np.diagonal(Y), zeros).all())


def _predictions(
    fitted: Fitted, Y: np.ndarray, setting: Setting, cv: int | None, *, has_zeros: bool
) -> tuple[np.ndarray, str]:
    """Return predictions (m, q) that were computed without their cells, and the name of the method.

    Parameters
    ----------
    fitted : Fitted
    Y : array of shape (m, q)
        Labels; NaN means missing.
    setting : Setting
    cv : int or None
    has_zeros : bool
        Whether zeros are among the cells that are not observed.

    Raises
    ------
    ValueError
        If a list of pairs is held out, of which each has a label.
    """
    labels = fitted.labels
    if labels.grid is None and not labels.is_full and setting is not Setting.A and not has_zeros:
        m, q = labels.shape
        raise ValueError(
            f"setting={setting.value!r} predicts each pair without labels of its rows, but "
            f"hold-out of a list predicts "
            f"only its {labels.size} observed pairs, which are not recommended: use setting='A', "
            f"or fit the model on a "
            f"grid of {m} × {q} labels with NaN for missing ones."
        )
    completed = to_numpy(fitted.completed)
    if setting is Setting.A and not has_zeros:
        # Missing labels were not used in training, so the model itself can predict them.
        return completed, _FROM_ALL
    F, method = held_out(fitted, setting, cv)
    return np.where(np.isnan(Y), completed, F) if setting is Setting.A else F, method


class _Query(NamedTuple):
    """The instances or tasks to recommend for.

    Attributes
    ----------
    subjects : tuple
        Ids of instances (axis 0) or of tasks (axis 1).
    several : bool
        Whether they were given as a list.
    axis : int
    ids : Ids or None
        Ids of the candidates on the other side.
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
    def in_words(self) -> str:
        """Description of the subjects in messages."""
        if self.several:
            return f"these {self.names.both[self.axis]}"
        return repr(self.subjects[0])

    def with_known(
        self,
        observed: sparse.csr_array,
        known: Any,
        trained: Sequence[Hashable],
        sizes: tuple[int, int],
    ) -> sparse.csr_array:
        """Return which pairs of the subjects are observed or known; `trained` has the ids of their side in training."""
        every = Ids(tuple(dict.fromkeys((*trained, *self.subjects))))
        pairs = read_known(
            known,
            (self.ids, every) if self.axis else (every, self.ids),
            sizes,
            self.names,
            self.axis,
        )
        return observed if pairs is None else observed + pairs[among(self.subjects, every.labels)]

    def lists(
        self, places: np.ndarray, scores: np.ndarray, labels: np.ndarray | None, method: str
    ) -> Recommendations | RecommendationLists:
        """Return a list for each subject, without candidates that have no prediction; or a single list."""
        lengths = np.count_nonzero(~np.isnan(scores), axis=1)
        longest = int(lengths.max())
        ids = tuple(
            ids_at(self.ids, row[:length]) for row, length in zip(places, lengths, strict=True)
        )
        scores = scores[:, :longest]
        labels = None if labels is None else labels[:, :longest]
        words = (self.setting.value, method, self.names, ("tasks", "instances")[self.axis])
        if self.several or labels is None:
            return RecommendationLists(scores, labels, *words, self.subjects, ids)
        return Recommendations(scores[0], labels[0], *words, self.subjects[0], ids[0])

    def ranked(
        self,
        n: int,
        expansion: Expansion,
        rows: NewRows,
        others: NewRows | None,
        known: Any,
        has_labels: bool = True,
    ) -> Recommendations | RecommendationLists:
        """Return the candidates with the highest predictions of the model that are not known.

        Parameters
        ----------
        n : int
        expansion : Expansion
            The model, with the side of the subjects first.
        rows : NewRows
            The subjects.
        others : NewRows or None
            The candidates; None means those of training.
        known : sparse array of shape (a, n) or None
            Observed and known pairs.
        has_labels : bool, default=True
            Whether the lists have a column of labels; lists of new rows have none.
        """
        places, scores = best_columns(expansion, rows, others, n, known)
        if np.isnan(scores).all():
            if known is None or not known.nnz:
                raise ValueError(
                    f"Nothing is predicted for any of the {self.names.tasks}, {_NO_CONSTANT}"
                )
            raise ValueError(
                f"Everything is known of {self.in_words}, so there is nothing to recommend."
            )
        return self.lists(
            places, scores, np.full_like(scores, np.nan) if has_labels else None, _FROM_ALL
        )


def _for_known(
    model: Any,
    given: Any,
    axis: int,
    known: Any,
    n: int,
    setting: Any,
    zeros: bool | None,
    cv: int | None,
    sides: Any,
) -> Recommendations | RecommendationLists:
    """Recommend for rows or columns of a grid of labels, by predictions that were computed without their cells."""
    fitted, labels, chosen = asked_of(model, setting, n)
    names = side_names(sides, network=fitted.is_network)
    subjects, several = _subjects(given, names.both[axis])
    ids = (labels.row_ids, labels.column_ids)
    shape = labels.values.shape
    places = positions(
        subjects, ids[axis], shape[axis], f"the {names.both[axis]}", ("instance", "task")[axis]
    )
    query = _Query(ids_at(ids[axis], places), several, axis, ids[1 - axis], chosen, names)
    known_pairs = read_known(known, ids, shape, names, axis, zeros)
    Y = labels.values if axis == 0 else labels.values.T
    zeros = zeros_are_unobserved(_pairs_of(Y, fitted), zeros)
    rows = Y[places]
    wanted = _unobserved(Y[places], zeros)
    F, method = _predictions(
        fitted, labels.values, chosen, cv, has_zeros=zeros and bool((rows == 0).any())
    )
    if known_pairs is not None:
        wanted &= ~known_pairs[places].toarray()
    if fitted.is_network and not _has_selves(Y, zeros):
        wanted[np.arange(len(places)), places] = False
    best, scores = best_in_rows(np.where(wanted, (F if axis == 0 else F.T)[places], np.nan), n)
    if np.isnan(scores).all():
        if wanted.any():
            raise ValueError(f"Nothing is predicted for {query.in_words}, {_NO_CONSTANT}")
        raise ValueError(
            f"Every label of {query.in_words} is observed, so there is nothing to "
            f"recommend{_hint(zeros)}."
        )
    return query.lists(
        best, scores, np.where(np.isnan(scores), np.nan, np.take_along_axis(rows, best, 1)), method
    )


def _subjects(given: Any, side: str) -> tuple[list[Any], bool]:
    """Return the subjects as a list, and whether they were given as a list."""
    several = isinstance(given, list) or getattr(given, "ndim", 0) == 1
    subjects = list(given) if several else [given]
    if not subjects:
        raise ValueError(f"The list of {side} to recommend for is empty: give at least one.")
    return subjects, several


def _hint(zeros: bool) -> str:
    return "" if zeros else "; use zeros=True if a zero means 'not observed'"


# Predictions of the model itself --------------------------------------------------------------------


def _by_model(model: Any, given: Any, axis: int, known: Any, zeros: bool | None, sides: Any) -> Any:
    """Return a function of n that recommends by the predictions of the model itself, or None.

    It is used for models without a grid of labels, and for subjects that only the tables of a
    `PairRegressor` describe.
    """
    if getattr(model, "grows", False):
        batches = predicting(model).knowledge.kept.batches if model.keep_labels else ()  # type: ignore[attr-defined]
        if batches and all(_zeros_of_batch(batch, zeros) for batch in batches):
            return None
        return _for_stored(model, given, axis, known, sides)
    fitted: Any = fitted_of(model)
    names = side_names(sides, network=fitted.is_network)
    subjects, several = _subjects(given, names.both[axis])
    ids = (fitted.instance_ids, fitted.task_ids)
    labels = fitted.labels
    trained = ids[axis]
    if fitted.tables is None or trained is None:
        return None
    places = among(subjects, trained.labels)
    if labels.grid is not None and (places >= 0).any():
        # Labels of a grid may have to be held out, and the model may know more about training rows
        # than features.
        if (places >= 0).all():
            return None
        if knows_rows(fitted.pairing) or zeros_are_unobserved(
            _pairs_of(to_numpy(labels.grid), fitted), zeros
        ):
            new = shown([label for label, place in zip(subjects, places, strict=True) if place < 0])
            raise ValueError(
                f"Known and new {names.both[axis]} are ranked differently: use two calls, {new} is "
                f"new."
            )
    rows: Any = (fitted.columns if axis else fitted.rows)(fitted.describe(subjects, axis))[1]
    listed = labels.listed()
    cells = (listed.columns, listed.rows) if axis else (listed.rows, listed.columns)
    # Subjects that are not in training have the position -1, which is an empty row.
    shape = len(trained) + 1, labels.shape[1 - axis]
    observed = sparse.csr_array((np.ones(labels.size, dtype=bool), cells), shape)[places]
    setting = Setting.A if (places >= 0).any() else (Setting.B, Setting.C)[axis]
    query = _Query(tuple(subjects), several, axis, ids[1 - axis], setting, names)
    pairs = query.with_known(observed, known, trained.labels, labels.shape)
    expansion = fitted.expansion.transposed if axis else fitted.expansion
    return partial(query.ranked, expansion=expansion, rows=rows, others=None, known=pairs)


def _zeros_of_batch(batch: Any, zeros: bool | None) -> bool:
    """Return whether zero labels of a batch of an online model count as not observed."""
    labels = batch.labels
    if not is_sparse(labels):
        return zeros_are_unobserved(to_numpy(labels), zeros)
    if (
        zeros is None and batch.is_thin and labels.nnz < math.prod(labels.shape)
    ):  # some labels are missing
        return False
    # Zeros that a sparse matrix does not store cannot change the answer.
    return zeros_are_unobserved(labels.data, zeros)


def _for_stored(model: Any, given: Any, axis: int, known: Any, sides: Any) -> Any:
    """Return a function of n that recommends for, or from, the instances that an online model stores with labels."""
    fitted: Any = predicting(model)
    names = side_names(sides)
    knowledge = fitted.knowledge
    if not knowledge.keeps_labels:
        remedy = (
            "fit it with keep_labels=True, or give instances by X= and their known pairs by known="
        )
        raise ValueError(f"{type(model).__name__} keeps statistics only, not the labels: {remedy}.")
    subjects, several = _subjects(given, names.both[axis])
    stored = knowledge.kept
    q = model.n_tasks_
    ids = (stored.ids, knowledge.task_ids)
    places = range(len(stored))
    columns = np.arange(q)
    if axis:
        columns = positions(subjects, ids[1], q, f"the {names.tasks}", "task")
    else:
        places = stored.places(subjects)
        unknown = [label for label, place in zip(subjects, places, strict=True) if place is None]
        if unknown:
            raise IdError(
                f"{shown(unknown)} not among the ids of the {names.instances} that the model has "
                f"kept."
            )
    blocks = [knowledge.labels_at(places[block]) for block in row_blocks(len(places), q, _CELLS)]
    observed = sparse.vstack(
        [sparse.csr_array(~np.isnan(to_numpy(block)[:, columns])) for block in blocks]
    )
    query = _Query(tuple(subjects), several, axis, ids[1 - axis], Setting.A, names)
    trained = range((len(stored), q)[axis]) if ids[axis] is None else ids[axis].labels
    pairs = query.with_known(
        sparse.csr_array(observed.T if axis else observed), known, trained, (len(stored), q)
    )
    rows = fitted.kept_rows(places)
    others = fitted.columns(None)[1]
    expansion = fitted.expansion
    if axis:
        if others is None:
            units = as_array_of(np.eye(q)[columns], expansion.values)
        else:
            units = None
        if units is None:
            tasks = others.take(columns)
        else:
            tasks = NewRows(units, lambda part: part, 0)
        rows, others, expansion = tasks, rows, expansion.transposed
    return partial(query.ranked, expansion=expansion, rows=rows, others=others, known=pairs)


def _for_new(
    model: Any,
    X: Any,
    tasks: Any,
    known: Any,
    n: int,
    setting: Setting,
    zeros: bool | None,
    sides: Any,
) -> Recommendations | RecommendationLists:
    """Recommend for new instances or tasks, by the predictions of the model."""
    grows = bool(getattr(model, "grows", False))
    # an online model needs no labels here
    if grows:
        fitted = predicting(model)
    else:
        fitted = fitted_of(model)
    names = side_names(sides, network=isinstance(fitted, Fitted) and fitted.is_network)
    if X is None and grows:
        name = type(model).__name__
        raise ValueError(
            f"{name} lists no known instances for new tasks: pass X=, or fit TwoStepRidge on the "
            f"labels."
        )
    X = fitted.given(X, 0)
    tasks = fitted.given(tasks, 1)
    expansion = fitted.expansion
    trained = (fitted.instance_ids, fitted.task_ids)
    task_table, others = fitted.columns(tasks)
    instances, rows = (None, others) if X is None else fitted.rows(X)
    axis = 1 if X is None else 0
    tables = zip(trained, (instances, task_table), strict=True)
    ids = [train_ids if table is None else table.row_ids for train_ids, table in tables]
    n_instances = expansion.n_instances if X is None else rows.size
    n_tasks = expansion.n_tasks if others is None else others.size
    pairs = read_known(known, ids, (n_instances, n_tasks), names, axis, zeros)
    if axis:
        expansion = expansion.transposed
        others = None
    query = _Query(
        ids_at(ids[axis], np.arange(rows.size)), True, axis, ids[1 - axis], setting, names
    )
    return query.ranked(n, expansion, rows, others, pairs, has_labels=False)

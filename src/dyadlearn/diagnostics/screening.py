"""Doubtful labels: those that held-out predictions contradict most."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_whole
from dyadlearn._tables import Columns, Ids, Table
from dyadlearn.diagnostics.fitted import Tabled, fitted_of, ids_at
from dyadlearn.labels import distinct_labels
from dyadlearn.models.fitted import Fitted
from dyadlearn.settings import Setting, as_setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["Screening", "screen"]


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

    def columns(self) -> Columns:
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
    if n is not None:
        check_whole(n, "n")
    fitted = fitted_of(model)
    chosen = as_setting(setting)
    result = fitted.hold_out(chosen, cv=cv, exact=True)
    pairs = _LabelledPairs.of(fitted, result.predictions)
    once = fitted.is_network
    screening = pairs.screened(
        result.method, chosen.value, side_names(sides, network=once), once=once, label=label
    )
    if not len(screening):
        some = ", ".join(f"{value:g}" for value in distinct_labels(pairs.labels)[:3])
        raise ValueError(f"No cell has the label {label}: labels are such as {some}.")
    return screening.first(n)


def screened(
    labels: Table, F: np.ndarray, method: str, setting: str, names: SideNames, once: bool
) -> Screening:
    """Return all cells of a grid that have a label and a prediction, sorted by decreasing contradiction.

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

    Returns
    -------
    Screening
        Cells with equal contradictions are sorted by decreasing absolute error.
    """
    Y = labels.values
    places = np.nonzero(~np.isnan(Y))
    pairs = _LabelledPairs((labels.row_ids, labels.column_ids), places, Y[places], F[places])
    return pairs.screened(method, setting, names, once=once)


class _LabelledPairs(NamedTuple):
    """Pairs with a label, and their held-out predictions. No array has the shape of the grid.

    Attributes
    ----------
    ids : (Ids or None, Ids or None)
        Ids of instances and of tasks.
    places : (integer array, integer array)
        Positions of the instance and of the task of each pair.
    labels, predictions : arrays of shape (n,)
        NaN means that a pair has no prediction.
    """

    ids: tuple[Ids | None, Ids | None]
    places: tuple[np.ndarray, ...]
    labels: np.ndarray
    predictions: np.ndarray

    @classmethod
    def of(cls, fitted: Fitted, predictions: Any) -> _LabelledPairs:
        """Return the labels of a model with predictions of the form of the labels."""
        labels = fitted.labels
        ids = (fitted.form.row_ids, fitted.task_ids)
        known = [to_numpy(values)[labels.observed] for values in (labels.values, predictions)]
        return cls(ids, labels.places, *known)

    def screened(
        self,
        method: str,
        setting: str,
        names: SideNames,
        *,
        once: bool,
        label: float | None = None,
    ) -> Screening:
        """Return the pairs sorted by decreasing contradiction; only those with a given label unless it is None."""
        rows, columns = self.places
        contradiction = contradictions(self.labels, self.predictions)
        wanted = ~np.isnan(contradiction)
        if label is not None:
            wanted &= self.labels == label
        if once:
            wanted &= rows <= columns
        at = np.flatnonzero(wanted)
        errors = np.abs(self.labels - self.predictions)[at]
        at = at[np.lexsort((columns[at], rows[at], -errors, -contradiction[at]))]
        return Screening(
            ids_at(self.ids[0], rows[at]),
            ids_at(self.ids[1], columns[at]),
            self.labels[at],
            self.predictions[at],
            contradiction[at],
            setting,
            method,
            names,
        )


# Held-out predictions that differ by this share of the largest differ by rounding, as in
# `dyadlearn.metrics`.
_ROUNDING = float(np.finfo(np.float64).eps) ** 0.75


def contradictions(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Return the contradiction of each label by its held-out prediction; `screen` has the formula.

    Parameters
    ----------
    Y, F : arrays of one shape
        Labels and held-out predictions; NaN means missing.

    Returns
    -------
    array of the same shape
        From 0 to 1 for labels of two values, else the absolute error; NaN if a label or a
        prediction is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.diagnostics.screening import contradictions
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

"""Labels that their own model would not have believed: the first to check for mistakes."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dyadlearn._tables import Table
from dyadlearn.diagnostics.fitted import asked_of, held_out, ids_at, is_network
from dyadlearn.diagnostics.results import Tabled
from dyadlearn.labels import distinct_labels
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["Screening", "contradictions", "screen", "screened"]


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
        figures = {
            "label": self.labels.tolist(),
            "prediction": self.predictions.tolist(),
            "contradiction": self.contradictions.tolist(),
        }
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
    once = is_network(fitted)
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
    >>> from dyadlearn.diagnostics.screening import contradictions
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

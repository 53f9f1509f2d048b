"""Labels that their own model would not have believed: the first to check for mistakes."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from dyadlearn._printing import Tabled
from dyadlearn._tables import Table, write_rows
from dyadlearn.diagnostics.fitted import asked_of, held_out, ids_at, is_network
from dyadlearn.diagnostics.planting import contradictions, expected, plant
from dyadlearn.labels import distinct_labels
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names

__all__ = ["Screening", "screen", "screened"]

_USUAL = side_names()
# Labels of which more than this share are wrong are less likely than a model that predicts badly.
_DOUBTFUL = 0.25


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
    wrongs, recoveries : arrays of shape (k,), or None
        Of the list down to each cell: how many of its labels are expected to be wrong, and which share of planted
        errors stands in it. None where `screen` was not asked for an `fdr`.
    rate : float or None
        The estimated chance of any label to be wrong, at most.
    least_fdr : float or None
        The smallest estimated share of false alarms that any list has which was looked at; 1 where none is expected to
        hold a wrong label.
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
    wrongs: np.ndarray | None = None
    recoveries: np.ndarray | None = None
    rate: float | None = None
    least_fdr: float | None = None
    names: SideNames = _USUAL

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        worst = f", worst ({self.instances[0]!r}, {self.tasks[0]!r})" if len(self) else ""
        wrong = "" if self.wrong is None else f", about {self.wrong:.3g} wrong"
        return f"Screening({len(self)} cells in setting {self.setting}{worst}{wrong})"

    @property
    def wrong(self) -> float | None:
        """How many of these labels are expected to be wrong, at most; None where it was not asked for."""
        return None if self.wrongs is None else float(self.wrongs[-1]) if len(self) else 0.0

    @property
    def fdr(self) -> float | None:
        """The estimated share of these labels that are right after all, at least; 0 of an empty list."""
        return None if self.wrong is None else 1 - self.wrong / len(self) if len(self) else 0.0

    @property
    def recovered(self) -> float | None:
        """The share of planted errors that a list of this length finds."""
        return None if self.recoveries is None else float(self.recoveries[-1]) if len(self) else 0.0

    @property
    def in_words(self) -> str:
        """What is expected of the list, in a sentence; an empty text where it was not asked for."""
        if self.wrong is None or self.recovered is None:
            return ""
        if not len(self):
            said = "No list of these cells has so few false alarms, as far as held-out predictions can tell"
            # Rounded up, so that what is said can be asked for.
            least = 1.0 if self.least_fdr is None else math.ceil(100 * self.least_fdr) / 100
            return (
                f"{said}; the smallest share is {least:g}." if least < 1 else f"{said}, and none is expected to help."
            )
        doubt = (
            f" The chance of an error would be {100 * self.rate:.2g} %: more likely the model explains too little of "
            "the labels for a list to be believed."
            if self.rate is not None and self.rate > _DOUBTFUL
            else ""
        )
        return (
            f"About {self.wrong:.3g} of these {len(self)} labels are wrong, as far as held-out predictions can tell; a "
            f"list of this length finds {100 * self.recovered:.3g} % of planted errors.{doubt}"
        )

    def first(self, k: int | None) -> Screening:
        """Return the first k cells; None is all of them."""
        names = ("labels", "predictions", "contradictions", "wrongs", "recoveries")
        arrays = {name: getattr(self, name) for name in names}
        kept: dict[str, Any] = {name: None if array is None else array[:k] for name, array in arrays.items()}
        return replace(self, instances=self.instances[:k], tasks=self.tasks[:k], **kept)

    def columns(self) -> dict[str, list[Any]]:
        """Return the cells as named columns, for a data frame or a file.

        ``fdr``, where it was asked for, is that of the list down to the row.
        """
        figures = {
            "label": self.labels.tolist(),
            "prediction": self.predictions.tolist(),
            "contradiction": self.contradictions.tolist(),
        }
        if self.wrongs is not None:
            figures["fdr"] = (1 - self.wrongs / np.arange(1, len(self) + 1)).tolist()
        instance, task = self.names.headings(figures)
        return {instance: list(self.instances), task: list(self.tasks), **figures}

    def frame(self) -> Any:
        """Return the cells as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)


def screen(
    model: Any,
    setting: str | Setting = "A",
    *,
    k: int | None = 20,
    label: float | None = None,
    cv: int | None = None,
    fdr: float | None = None,
    random_state: Any = None,
    sides: Any = None,
) -> Screening:
    r"""List the labels that held-out predictions contradict most: the first to check for mistakes.

    With labels of two values, a cell is contradicted as far as cells of the other value look more like its value than
    the cell itself does. Of a positive cell with the held-out prediction :math:`f`,

    .. math:: c = \frac{1}{N^-} \sum_{y_n \text{ negative}} \bigl([f_n > f] + \tfrac12 [f_n = f]\bigr),

    and of a negative one the share of positive cells below it; the mean of :math:`1 - c` over either is the area under
    the ROC curve. With labels of more values :math:`c` is the absolute error of the prediction.

    With `fdr` it is estimated how many of the listed labels are wrong, by errors that are planted in every cell in
    turn; `dyadlearn.diagnostics.planting` says how, and what that cannot tell: a right label that no feature explains
    looks just like a wrong one. So this is the largest number of wrong labels that the predictions admit, and the share
    of false alarms is at least what is told.

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
    fdr : float, default=None
        The share of false alarms to put up with, between 0 and 1: the longest list is returned whose estimated share is
        no larger, of at most k cells; it may be empty. None estimates nothing.
    random_state : int, RandomState or None, default=None
        Draws the planted labels where there are more than two values; with two, a planted error is the other one.
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
    once = is_network(fitted)
    names, fdr = side_names(sides, network=once), None if fdr is None else _check_share(fdr)
    F, method = held_out(fitted, chosen, cv)
    found = replace(screened(labels, F, method, chosen, label=label, once=once), names=names)
    if not len(found):
        some = ", ".join(f"{value:g}" for value in distinct_labels(labels.values)[:3])
        raise ValueError(f"No cell has the label {label}: labels are such as {some}.")
    if fdr is None:
        return found.first(k)
    errors = plant(labels.values, F, label=label, once=once, random_state=random_state)
    budget = expected(found.contradictions, found.labels, errors)
    found = replace(found, wrongs=budget.wrongs, recoveries=budget.recoveries, rate=budget.rate).first(k)
    lengths = np.arange(1, len(found) + 1)
    found = replace(found, least_fdr=float(1 - np.max(budget.wrongs[: len(found)] / lengths)))
    few = np.flatnonzero(budget.wrongs[: len(found)] >= (1 - fdr) * lengths)
    return found.first(int(few[-1]) + 1 if few.size else 0)


def _check_share(fdr: Any) -> float:
    if isinstance(fdr, bool) or not isinstance(fdr, Real) or not 0 <= float(fdr) <= 1:
        raise ValueError(f"fdr must be a share of false alarms between 0 and 1, found {fdr!r}.")
    return float(fdr)


def screened(
    labels: Table, F: np.ndarray, method: str, setting: Setting, *, label: float | None = None, once: bool = False
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
    names = (ids_at(labels.row_ids, cells[0]), ids_at(labels.column_ids, cells[1]))
    return Screening(*names, Y[cells], F[cells], found[cells], setting.value, method)

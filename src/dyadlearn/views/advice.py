"""What to look at next: labels that their own model would not have believed, and pairs that nobody has tried yet."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_count
from dyadlearn._tables import Ids, Table, write_rows
from dyadlearn.labels import distinct_labels
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._inputs import positions
from dyadlearn.settings import Setting, as_setting
from dyadlearn.views.fitted import held_out, is_network, labelled_model, labels_of

__all__ = ["Recommendations", "Screening", "contradictions", "recommend", "screen", "screened"]


@dataclass(frozen=True, eq=False, repr=False)
class Screening:
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
    """

    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    labels: np.ndarray
    predictions: np.ndarray
    contradictions: np.ndarray
    setting: str
    method: str

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        worst = f", worst ({self.instances[0]!r}, {self.tasks[0]!r})" if len(self) else ""
        return f"Screening({len(self)} cells in setting {self.setting}{worst})"

    def first(self, k: int | None) -> Screening:
        """Return the first k cells; None is all of them."""
        arrays = (self.labels[:k], self.predictions[:k], self.contradictions[:k])
        return Screening(self.instances[:k], self.tasks[:k], *arrays, self.setting, self.method)

    def columns(self) -> dict[str, list[Any]]:
        """Return the cells as named columns, for a data frame or a file."""
        return {
            "instance": list(self.instances),
            "task": list(self.tasks),
            "label": self.labels.tolist(),
            "prediction": self.predictions.tolist(),
            "contradiction": self.contradictions.tolist(),
        }

    def frame(self) -> Any:
        """Return the cells as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)


def screen(
    model: Any, setting: str | Setting = "A", *, k: int | None = 20, label: float | None = None, cv: int | None = None
) -> Screening:
    r"""List the labels that held-out predictions contradict most: the first to check for mistakes.

    With labels of two values, a cell is contradicted as far as cells of the other value look more like its value than
    the cell itself does. Of a positive cell with the held-out prediction :math:`f`,

    .. math:: c = \frac{1}{N^-} \sum_{y_n \text{ negative}} \bigl([f_n > f] + \tfrac12 [f_n = f]\bigr),

    and of a negative one the share of positive cells below it; the mean of :math:`1 - c` over either is the area under
    the ROC curve. With labels of more values :math:`c` is the absolute error of the prediction.

    Parameters
    ----------
    model : fitted estimator
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        What is left out for each prediction; A, the cell alone, leaves the most to contradict it with.
    k : int or None, default=20
        How many cells to list; None lists all.
    label : float, default=None
        List cells with this label only, such as 0 for positives that somebody overlooked.
    cv : int, default=None
        Number of folds where labels are missing or weighted and no shortcut exists; None is five.

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
    fitted, labels, chosen = _read(model, setting, k)
    found = screened(labels, *held_out(fitted, chosen, cv), chosen, label=label, once=is_network(fitted))
    if not len(found):
        some = ", ".join(f"{value:g}" for value in distinct_labels(labels.values)[:3])
        raise ValueError(f"No cell has the label {label}: labels are such as {some}.")
    return found.first(k)


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
    names = (_ids_at(labels.row_ids, cells[0]), _ids_at(labels.column_ids, cells[1]))
    return Screening(*names, Y[cells], F[cells], found[cells], setting.value, method)


def contradictions(Y: np.ndarray, F: np.ndarray) -> np.ndarray:
    """Tell how much held-out predictions contradict each label; `screen` says what that is.

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
    >>> from dyadlearn.views.advice import contradictions
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


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations:
    """The best tasks for an instance, or the best instances for a task, as `recommend` found them.

    Attributes
    ----------
    of : str
        What is recommended: ``"tasks"`` or ``"instances"``.
    subject : id or position
        The instance or task they are recommended for.
    ids : tuple of length k
        What is recommended, best first: ids, or positions where the labels have no ids.
    scores, labels : arrays of shape (k,)
        Held-out predictions, and what the labels say: NaN where they say nothing, else 0.
    setting : str
        What was left out for each prediction.
    method : str
        How the predictions were made.
    """

    of: str
    subject: Hashable
    ids: tuple[Hashable, ...]
    scores: np.ndarray
    labels: np.ndarray
    setting: str
    method: str

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        word = self.of if len(self) > 1 else self.of.removesuffix("s")
        best = ", ".join(f"{name!r} ({score:.3g})" for name, score in zip(self.ids[:3], self.scores[:3], strict=True))
        return f"Recommendations({len(self)} {word} for {self.subject!r}: {best}{', …' if len(self) > 3 else ''})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the recommendations as named columns, for a data frame or a file."""
        return {
            self.of.removesuffix("s"): list(self.ids),
            "score": self.scores.tolist(),
            "label": [None if np.isnan(label) else label for label in self.labels.tolist()],
        }

    def frame(self) -> Any:
        """Return the recommendations as a frame of pandas or polars, whichever is installed."""
        return write_rows(self.columns(), None)


def recommend(
    model: Any,
    *,
    instance: Hashable = None,
    task: Hashable = None,
    k: int = 10,
    setting: str | Setting = "A",
    zeros: bool | None = None,
    cv: int | None = None,
) -> Recommendations:
    """Name the best tasks that are not observed for an instance, or the best instances for a task.

    Cells are ranked by predictions that never saw them, so that a zero does not speak for itself.

    Parameters
    ----------
    model : fitted estimator
    instance, task : id, or position where the labels have no ids
        What to recommend for; give one of them.
    k : int, default=10
        How many to name; fewer where there are fewer.
    setting : {"A", "B", "C", "D"} or an alias, default="A"
        What else the predictions do without: nothing (A), all labels of the instance (B), of the task (C), of both (D).
    zeros : bool, default=None
        Whether a label of zero means that nobody has looked. None says so of grids that hold nothing but zeros and
        ones, missing labels aside.
    cv : int, default=None
        Number of folds where labels are missing or weighted and no shortcut exists; None is five.

    Returns
    -------
    Recommendations

    See Also
    --------
    screen : the labels that are contradicted most.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, recommend
    >>> Y = np.array([[1.0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> X, T = np.repeat(np.eye(2), 2, axis=0), np.repeat(np.eye(2), 2, axis=0)
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, Y, tasks=T)
    >>> recommend(model, instance=1, k=1)
    Recommendations(1 task for 1: 1 (0.939))
    """
    if (instance is None) == (task is None):
        raise ValueError("Say what to recommend for: give either instance= or task=.")
    fitted, labels, chosen = _read(model, setting, k)
    Y = labels.values
    missing = np.isnan(Y)
    sides, ids = ("instances", "tasks"), (labels.row_ids, labels.column_ids)
    axis, subject = (0, instance) if task is None else (1, task)
    place = int(positions([subject], ids[axis], Y.shape[axis], f"the {sides[axis]}")[0])
    own = np.take(Y, place, axis=axis)
    if zeros is None:
        zeros = bool(np.isin(Y[~missing], (0, 1)).all())
    candidates = np.flatnonzero(np.isnan(own) | ((own == 0) & zeros))
    if not candidates.size:
        hint = "" if zeros else "; zeros=True takes zeros for not observed"
        raise ValueError(f"Every label of {subject!r} is observed, so there is nothing to recommend{hint}.")
    completed = to_numpy(fitted._closed_problem.Y)
    if chosen is Setting.A and np.isnan(own[candidates]).all():
        # What is missing was never seen: the model itself predicts it, from all that is known.
        F, method = completed, "predicted from all observed labels"
    else:
        F, method = held_out(fitted, chosen, cv)
        F = np.where(missing, completed, F) if chosen is Setting.A else F
    scores = np.take(F, place, axis=axis)
    candidates = candidates[~np.isnan(scores[candidates])]
    if not candidates.size:
        raise ValueError(
            f"Nothing is predicted for {subject!r}, for want of labels of the tasks to take constants from: use "
            "fit_intercept=False, or a model that knows tasks."
        )
    best = candidates[np.argsort(-scores[candidates], kind="stable")[:k]]
    names = _ids_at(ids[1 - axis], best)
    return Recommendations(sides[1 - axis], subject, names, scores[best], own[best], chosen.value, method)


def _read(model: Any, setting: str | Setting, k: int | None) -> tuple[PairwiseRidge, Table, Setting]:
    """Return the fitted model of a grid, its labels with their ids, and the setting; k is checked first."""
    if k is not None:
        check_count(k, "k")
    return labelled_model(model), labels_of(model), as_setting(setting)


def _ids_at(ids: Ids | None, positions: np.ndarray) -> tuple[Hashable, ...]:
    """Return the ids at some positions, or the positions themselves where there are no ids."""
    return tuple(positions.tolist()) if ids is None else ids.take(positions).labels

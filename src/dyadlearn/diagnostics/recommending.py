"""Pairs that nobody has tried yet: the likeliest ones."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._tables import write_rows
from dyadlearn.diagnostics.fitted import asked_of, held_out, ids_at
from dyadlearn.models._inputs import positions
from dyadlearn.settings import Setting

__all__ = ["Recommendations", "recommend"]


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
    fitted, labels, chosen = asked_of(model, setting, k)
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
    names = ids_at(ids[1 - axis], best)
    return Recommendations(sides[1 - axis], subject, names, scores[best], own[best], chosen.value, method)

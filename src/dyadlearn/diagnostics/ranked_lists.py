"""Lists of recommendations: ids, best first, with their scores and labels."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyadlearn._tables import Columns, free_name
from dyadlearn.diagnostics.fitted import Tabled
from dyadlearn.sides import SideNames, plural

__all__ = ["RecommendationLists", "Recommendations", "TopPairs"]


@dataclass(frozen=True, eq=False, repr=False)
class RankedList(Tabled):
    """Base class of lists of ids, best first, with their scores and labels."""

    scores: np.ndarray
    labels: np.ndarray | None
    setting: str
    method: str
    sides: SideNames
    lower: np.ndarray | None = field(default=None, kw_only=True)
    upper: np.ndarray | None = field(default=None, kw_only=True)
    probabilities: np.ndarray | None = field(default=None, kw_only=True)

    def __len__(self) -> int:
        return len(self.scores)

    def columns(self) -> Columns:
        """Return all lists as named columns, for a data frame or a file."""
        listed = ~np.isnan(self.scores)
        figures: Columns = {"score": self.scores[listed].tolist()}
        others = {"lower": self.lower, "upper": self.upper, "probability": self.probabilities}
        for name, values in others.items():
            if values is not None:
                figures[name] = values[listed].tolist()
        if self.labels is not None:
            labels = self.labels[listed].tolist()
            figures["label"] = [None if np.isnan(label) else label for label in labels]
        return self._named(figures) | figures

    def _named(self, taken: Collection[str]) -> Columns:
        """Return the columns of ids, with names that are not in `taken`."""
        raise NotImplementedError

    def _counted(self, count: int, of: str) -> str:
        """Return a number of ``"tasks"`` or ``"instances"`` in the words of the user."""
        name = self.sides.task if of == "tasks" else self.sides.instance
        if count != 1:
            name = plural(name)
        return f"{count:,} {name}"


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(RankedList):
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
        Held-out predictions, and labels: NaN if missing.
    lower, upper : arrays of the same shape, or None
        Bounds of the prediction intervals, if pairs are ranked by a bound.
    probabilities : array of the same shape, or None
        Probabilities of the positive label, if they are asked for.
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
        first = zip(self.ids[:3], self.scores[:3], strict=True)
        best = ", ".join(f"{name!r} ({score:.3g})" for name, score in first)
        if len(self) > 3:
            best += ", …"
        words = self._counted(len(self), self.of)
        return f"Recommendations({words} for {self.subject!r}: {best})"

    def _named(self, taken: Collection[str]) -> Columns:
        name = self.sides.task if self.of == "tasks" else self.sides.instance
        return {free_name(name, taken): list(self.ids)}


@dataclass(frozen=True, eq=False, repr=False)
class RecommendationLists(RankedList):
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
        Labels: NaN if missing. None if the subjects are new.
    lower, upper : arrays of the same shape, or None
        Bounds of the prediction intervals, if pairs are ranked by a bound.
    probabilities : array of the same shape, or None
        Probabilities of the positive label, if they are asked for.
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

    def _named(self, taken: Collection[str]) -> Columns:
        subjects: list[Any] = []
        others: list[Any] = []
        for subject, ids in zip(self.subjects, self.ids, strict=True):
            subjects += [subject] * len(ids)
            others += ids
        first, second = self.sides.headings(taken)
        if self.of == "tasks":
            return {first: subjects, second: others}
        return {second: subjects, first: others}


@dataclass(frozen=True, eq=False, repr=False)
class TopPairs(RankedList):
    """The unobserved pairs with the highest predictions; the result of `top_pairs`.

    Attributes
    ----------
    instances, tasks : tuple of length k
        Ids of the pairs, best first, or positions if the labels have no ids.
    scores, labels : arrays of shape (k,)
        Predictions, and labels: NaN if missing.
    lower, upper : arrays of the same shape, or None
        Bounds of the prediction intervals, if pairs are ranked by a bound.
    probabilities : array of the same shape, or None
        Probabilities of the positive label, if they are asked for.
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

    def _named(self, taken: Collection[str]) -> Columns:
        first, second = self.sides.headings(taken)
        return {first: list(self.instances), second: list(self.tasks)}

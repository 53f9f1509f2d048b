"""What is recommended: short lists of ids with their scores, for one, for several, and of the whole grid."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dyadlearn._tables import Ids, free_name
from dyadlearn.diagnostics.fitted import ids_at
from dyadlearn.diagnostics.results import Tabled
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

__all__ = ["RecommendationLists", "Recommendations", "TopPairs", "named_lists"]


@dataclass(frozen=True, eq=False, repr=False)
class Recommendations(Tabled):
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
    sides : SideNames
        What one of each side is called.
    """

    of: str
    subject: Hashable
    ids: tuple[Hashable, ...]
    scores: np.ndarray
    labels: np.ndarray
    setting: str
    method: str
    sides: SideNames = field(default_factory=SideNames)

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        best = ", ".join(f"{name!r} ({score:.3g})" for name, score in zip(self.ids[:3], self.scores[:3], strict=True))
        words = _counted(len(self), self.of, self.sides)
        return f"Recommendations({words} for {self.subject!r}: {best}{', …' if len(self) > 3 else ''})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the recommendations as named columns, for a data frame or a file."""
        name = self.sides.task if self.of == "tasks" else self.sides.instance
        return {
            free_name(name, ("score", "label")): list(self.ids),
            "score": self.scores.tolist(),
            "label": _labels(self.labels),
        }


@dataclass(frozen=True, eq=False, repr=False)
class RecommendationLists(Tabled):
    """The best tasks for each of several instances, or the best instances for each of several tasks.

    Attributes
    ----------
    of : str
        What is recommended: ``"tasks"`` or ``"instances"``.
    subjects : tuple of length a
        What it is recommended for: ids, or positions where there are none.
    ids : tuple of length a, of tuples
        The list of each, best first: at most k ids, or positions where there are none.
    scores : array of shape (a, k)
        Predictions; NaN at the end of a list that is shorter.
    labels : array of shape (a, k) or None
        What the labels say: NaN where they say nothing, else 0. None where the subjects are new and have none.
    setting : str
        What is new about the pairs, or was left out for each prediction.
    method : str
        How the predictions were made.
    sides : SideNames
        What one of each side is called.
    """

    of: str
    subjects: tuple[Hashable, ...]
    ids: tuple[tuple[Hashable, ...], ...]
    scores: np.ndarray
    labels: np.ndarray | None
    setting: str
    method: str
    sides: SideNames = field(default_factory=SideNames)

    def __len__(self) -> int:
        return len(self.subjects)

    def __repr__(self) -> str:
        subjects = _counted(len(self), "instances" if self.of == "tasks" else "tasks", self.sides)
        words = _counted(self.scores.shape[1], self.of, self.sides)
        return f"RecommendationLists({words} each for {subjects}, setting {self.setting})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the lists as named columns in long form, one list below the other, for a data frame or a file."""
        filled = np.arange(self.scores.shape[1]) < np.array([len(own) for own in self.ids])[:, None]
        pairs = [(subject, other) for subject, own in zip(self.subjects, self.ids, strict=True) for other in own]
        taken = ("score",) if self.labels is None else ("score", "label")
        headings = self.sides.headings(taken)
        headings = headings if self.of == "tasks" else headings[::-1]
        found = {heading: [pair[place] for pair in pairs] for place, heading in enumerate(headings)}
        found["score"] = self.scores[filled].tolist()
        return found if self.labels is None else found | {"label": _labels(self.labels[filled])}


@dataclass(frozen=True, eq=False, repr=False)
class TopPairs(Tabled):
    """The likeliest pairs that are not observed, as `top_pairs` found them.

    Attributes
    ----------
    instances, tasks : tuple of length k
        The pairs, best first: ids, or positions where the labels have no ids.
    scores, labels : arrays of shape (k,)
        Predictions, and what the labels say: NaN where they say nothing, else 0.
    setting : str
        What was left out for each prediction.
    method : str
        How the predictions were made.
    sides : SideNames
        What one of each side is called.
    """

    instances: tuple[Hashable, ...]
    tasks: tuple[Hashable, ...]
    scores: np.ndarray
    labels: np.ndarray
    setting: str
    method: str
    sides: SideNames = field(default_factory=SideNames)

    def __len__(self) -> int:
        return len(self.scores)

    def __repr__(self) -> str:
        best = f"({self.instances[0]!r}, {self.tasks[0]!r}), {self.scores[0]:.3g}"
        return f"TopPairs({len(self)} in setting {self.setting}, best {best})"

    def columns(self) -> dict[str, list[Any]]:
        """Return the pairs as named columns, for a data frame or a file."""
        first, second = self.sides.headings(("score", "label"))
        return {
            first: list(self.instances),
            second: list(self.tasks),
            "score": self.scores.tolist(),
            "label": _labels(self.labels),
        }


def named_lists(
    axis: int,
    subjects: tuple[Hashable, ...],
    ids: Ids | None,
    places: np.ndarray,
    scores: np.ndarray,
    labels: np.ndarray | None,
    setting: Setting,
    method: str,
    names: SideNames,
) -> RecommendationLists:
    """Return lists of tasks (axis 0) or instances (axis 1), each as long as it has predictions."""
    of = ("tasks", "instances")[axis]
    lengths = np.count_nonzero(~np.isnan(scores), axis=1)
    longest = int(lengths.max())
    own = tuple(ids_at(ids, row[:length]) for row, length in zip(places, lengths, strict=True))
    labels = None if labels is None else labels[:, :longest]
    return RecommendationLists(of, subjects, own, scores[:, :longest], labels, setting.value, method, names)


def _counted(count: int, of: str, names: SideNames) -> str:
    one, several = (names.task, names.tasks) if of == "tasks" else (names.instance, names.instances)
    return f"{count:,} {several if count != 1 else one}"


def _labels(labels: np.ndarray) -> list[float | None]:
    return [None if np.isnan(label) else label for label in labels.tolist()]

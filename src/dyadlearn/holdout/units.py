"""What a hold-out prediction is asked of: a model with its labels, and the units that are left out together.

Labels that are the only ones of their task have no prediction where tasks are independent: each task takes its constant
from its own labels, and without any the prediction is NaN. Such labels count as missing wherever predictions are scored
or drawn, with a warning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from dyadlearn._array import Array, namespace, to_numpy
from dyadlearn._codes import group_codes
from dyadlearn._state import Stored
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.labels import Labels
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.base import has_task_constants
from dyadlearn.pairing.incomplete import complete_labels
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import ObservedSolution, ObservedSystem


@dataclass(frozen=True, eq=False)
class Units(Stored):
    """Integer codes of what is left out together; None where everything is left out by itself.

    Settings, groups, folds and `cv` are ways to create them.

    Attributes
    ----------
    instances, tasks : integer arrays of shape (m,) and (q,), or None
        In the settings that leave them out.
    cells : integer array of the shape of the labels' values, or None
        In setting A.
    """

    instances: np.ndarray | None = None
    tasks: np.ndarray | None = None
    cells: np.ndarray | None = None

    @classmethod
    def of_groups(
        cls, labels: Labels, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None
    ) -> Self:
        """Return the units of group labels, of those that the setting leaves out.

        Parameters
        ----------
        labels : Labels
        setting : Setting
        groups, task_groups, cells : arrays of shape (m,), (q,) and that of the labels' values, or None
            Equal where instances, tasks or labels are left out together.
        """
        (m, q), shape = labels.shape, tuple(labels.values.shape)
        return cls(
            None if groups is None or not setting.new_instance else group_codes(groups, (m,), "groups"),
            None if task_groups is None or not setting.new_task else group_codes(task_groups, (q,), "task_groups"),
            None if cells is None or setting is not Setting.A else group_codes(cells, shape, "cells"),
        )

    def of_edges(self) -> Self:
        """Return the units of a network, in which both directions of an edge are left out with the upper one."""
        if self.cells is None:
            return self
        return replace(self, cells=np.triu(self.cells) + np.triu(self.cells, 1).T)

    @property
    def are_single(self) -> bool:
        """Whether everything is left out by itself."""
        return all(codes is None for codes in (self.instances, self.tasks, self.cells))

    @property
    def largest(self) -> int:
        """Number of instances, or tasks, in the largest unit."""
        sides = [codes for codes in (self.instances, self.tasks) if codes is not None]
        return max((int(np.bincount(codes).max()) for codes in sides), default=1)

    def of_labels(self, labels: Labels, setting: Setting) -> list[np.ndarray]:
        """Return the units that each label belongs to: one code, or in setting D that of its instance and its task.

        Returns
        -------
        list of one or two integer arrays of the shape of the labels' values

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.holdout.units import Units
        >>> from dyadlearn.labels import Labels
        >>> from dyadlearn.settings import Setting
        >>> labels = Labels(np.array([0, 1, 2]), np.array([1, 0, 1]), np.array([5.0, 3.0, 4.0]), (3, 2))
        >>> Units(np.array([7, 7, 8])).of_labels(labels, Setting.B)
        [array([7, 7, 8])]
        """
        if setting is Setting.A:
            shape = tuple(labels.values.shape)
            return [np.arange(np.prod(shape)).reshape(shape) if self.cells is None else self.cells]
        return [labels.at(codes, axis) for axis, codes in self.of_sides(labels.shape, setting)]

    def of_sides(self, shape: tuple[int, int], setting: Setting) -> list[tuple[int, np.ndarray]]:
        """Return the sides that a setting leaves out, by axis, with the unit of each of their rows."""
        sides = ((setting.new_instance, self.instances), (setting.new_task, self.tasks))
        return [
            (axis, np.arange(shape[axis]) if codes is None else codes)
            for axis, (leaves, codes) in enumerate(sides)
            if leaves
        ]

    def fit(self, labels: Labels) -> bool:
        """Return whether these are units of some labels."""
        shapes = (labels.shape[:1], labels.shape[1:], tuple(labels.values.shape))
        given = zip((self.instances, self.tasks, self.cells), shapes, strict=True)
        return all(each is None or (each.dtype.kind in "iu" and each.shape == shape) for each, shape in given)


@dataclass(frozen=True, eq=False)
class Problem:
    """A model of pairs with the labels it is fitted on.

    Attributes
    ----------
    pairing : Pairing
        The model of pairs, on its sides and under its regularisation.
    labels : Labels
        In double precision.
    tol, max_iter : float and int
        When an iterative solver stops, where labels are missing or weighted.
    """

    pairing: Pairing
    labels: Labels
    tol: float = 1e-8
    max_iter: int = 1000

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", self.labels.in_double())

    @classmethod
    def of(cls, pairing: Pairing, Y: Array, weights: Array | None = None, **stopping: Any) -> Self:
        """Return the problem of a grid of labels (m, q), NaN where not observed, with weights of the same shape."""
        return cls(pairing, Labels.of_grid(Y, weights), **stopping)

    @property
    def Y(self) -> Array:  # noqa: N802
        """The labels as a grid (m, q), NaN where not observed; a list of pairs has none."""
        if self.labels.grid is None:
            m, q = self.labels.shape
            raise ValueError(
                f"This model was fitted on {self.labels.size} observed pairs, and not on the grid of {m} × {q} that "
                "this takes: ask for evaluate(), holdout(), predict_interval() or a cross-validation of the pairs, or "
                "fit it on a grid with NaN where a label is missing."
            )
        return self.labels.grid

    @property
    def weights(self) -> Array | None:
        """Weights of the squared loss, of the shape of the labels' values, or None."""
        return self.labels.weights

    def at(self, alpha: float, task_alpha: float | None = None) -> Self:
        """Return the same problem under another regularisation."""
        return replace(self, pairing=self.pairing.at(alpha, task_alpha))

    def with_grid(self, Y: Array, weights: Array | None = None) -> Self:
        """Return the same model with other labels, a grid (m, q)."""
        return replace(self, labels=Labels.of_grid(Y, weights))

    def complete(self, start: Completion | None = None) -> Completion:
        """Complete a grid of labels, from the solution of a problem nearby."""
        return complete_labels(self.pairing, self.Y, self.weights, start, tol=self.tol, max_iter=self.max_iter)

    def system(self) -> ObservedSystem:
        """Return the equations of a list of labels; features are rotated for it, which takes as much memory again."""
        return ObservedSystem.of(self.pairing, self.labels)  # type: ignore[arg-type]

    def solve(self, start: Any = None) -> Completion | ObservedSolution | None:
        """Solve where labels are missing or weighted, from the solution of a problem nearby; None for a full grid.

        A warning says if the solver did not reach its tolerance.
        """
        if self.labels.grid is not None:
            return None if self.labels.full is not None else self.complete(start)
        found = self.system().solve(start, tol=self.tol, max_iter=self.max_iter)
        warn_unless_converged(found, self.tol, stacklevel=4)
        return found


_REMEDY = "use fit_intercept=False, or a model that knows tasks"


def scored_labels(
    labels: Labels, held_out: Array, setting: Setting, *, quiet: bool = False, stacklevel: int = 2
) -> Array:
    """Return the labels that held-out predictions are compared with: those that there is a prediction for.

    Parameters
    ----------
    labels : Labels
    held_out : array of the shape of the labels' values
    setting : Setting
        For messages.
    quiet : bool, default=False
        Whether it is said elsewhere that labels are not scored.
    stacklevel : int, default=2
        Of the warning, as seen from here.

    Returns
    -------
    array of the same shape
        NaN where not observed, or not predicted for want of another label of the task.

    Raises
    ------
    ValueError
        If no label has a prediction.
    """
    lone = _lone(labels, held_out)
    if not lone.any():
        return labels.values
    if np.array_equal(lone, labels.observed):
        raise ValueError(
            f"Setting {setting.value} leaves out all labels of every task, of which none is left to take its constant "
            f"from: give more labels of a task, {_REMEDY}."
        )
    if not quiet:
        warn_of_lone(lone, labels, setting, "they are not scored", stacklevel + 1)
    return labels.hide(lone).values


def warn_of_lone_labels(labels: Labels, held_out: Array, setting: Setting, stacklevel: int = 2) -> None:
    """Warn of labels without a held-out prediction (m, q)."""
    warn_of_lone(_lone(labels, held_out), labels, setting, "their predictions are NaN", stacklevel + 1)


def warn_of_tasks_without_labels(problem: Problem, stacklevel: int = 2) -> None:
    """Warn of tasks without a label, if the model predicts nothing for them."""
    if has_task_constants(problem.pairing):
        warn_of_unlabelled(np.all(~problem.labels.observed, axis=0), stacklevel + 1)


def warn_of_unlabelled(without: np.ndarray, stacklevel: int = 2) -> None:
    """Warn of tasks without a label, given as a mask (q,), for which nothing is predicted."""
    if without.any():
        warnings.warn(
            f"{np.count_nonzero(without)} of {without.size} tasks (positions {_shown(without)}) have no label to take "
            f"their constant from: their predictions are NaN. Leave them out, {_REMEDY}.",
            NoLabelWarning,
            stacklevel=stacklevel + 1,
        )


def _lone(labels: Labels, held_out: Array) -> np.ndarray:
    """Return a mask of the observed labels without a prediction, for want of another label of their task."""
    missing = namespace(held_out).isnan(held_out)
    if not bool(namespace(held_out).any(missing)):
        return np.zeros(tuple(labels.values.shape), dtype=bool)
    return np.asarray(to_numpy(missing) & labels.observed)


def warn_of_lone(lone: np.ndarray, labels: Labels, setting: Setting, so: str, stacklevel: int = 2) -> None:
    """Warn of labels that are the only ones of their tasks, given as a mask (m, q)."""
    if not lone.any():
        return
    warnings.warn(
        f"In setting {setting.value}, {np.count_nonzero(lone)} of {labels.size} labels leave no other label of "
        f"their task (positions {_shown(np.any(lone, axis=0))}) to take its constant from: {so}. Give more labels of "
        f"these tasks, {_REMEDY}.",
        NoLabelWarning,
        stacklevel=stacklevel + 1,
    )


def _shown(tasks: np.ndarray) -> str:
    places = np.flatnonzero(tasks)
    return ", ".join(map(str, places[:5])) + (", …" if places.size > 5 else "")

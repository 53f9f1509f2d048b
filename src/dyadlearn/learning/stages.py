"""Learning in stages: what a stage completes describes instances and tasks for the next one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.learning.descent import Descent, descend
from dyadlearn.learning.folds import Fold, FoldError, Labels
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.parameters import Parameters
from dyadlearn.learning.profiles import profile_kernels

__all__ = ["Learned", "Stage", "learn_stages"]

Watch = Callable[[int, int, float], None]


@dataclass(frozen=True, eq=False)
class Stage:
    """What was learned in one stage.

    Attributes
    ----------
    parameters : Parameters
    error : float
        The mean squared error of cells that were left out, in the units of `Labels`.
    losses : list of float
        Errors of the folds, step by step.
    profiles, task_profiles : list of arrays of shape (m, m) and (q, q)
        The profile kernels, of all labels of training.
    """

    parameters: Parameters
    error: float
    losses: list[float]
    profiles: list[Array]
    task_profiles: list[Array]


@dataclass(frozen=True, eq=False)
class Learned:
    """All stages, and which is the best.

    Attributes
    ----------
    stages : list of Stage
    best : int
    held_out : array of shape (m, q)
        What the best one predicts for cells that were left out, NaN where none was.
    """

    stages: list[Stage]
    best: int
    held_out: Array


def learn_stages(
    labels: Labels,
    mixture: Mixture,
    tasks: Mixture | None,
    folds: Sequence[tuple[np.ndarray, np.ndarray]],
    how: Descent,
    n_stages: int,
    profiled: tuple[bool, bool],
    watch: Watch = lambda stage, step, loss: None,
) -> Learned:
    """Learn kernels stage by stage, as long as the hold-out error falls.

    Parameters
    ----------
    labels : Labels
    mixture, tasks : Mixture, the latter or None
    folds : sequence of (train, test)
        Masks (m, q) of cells to learn from, where observed, and to predict.
    how : Descent
    n_stages : int
        The most that are tried.
    profiled : (bool, bool)
        Whether instances, and tasks, are described by their profiles from the second stage on.
    watch : callable
        Told the stage, the step and the error.
    """
    parts = [
        Fold(as_array_of(train, labels.values, labels.values.dtype) * labels.observed, cells, mixture, tasks)
        for train, test in folds
        if float(namespace(labels.values).sum(cells := as_array_of(test, labels.values, labels.values.dtype) * labels.observed))
    ]
    whole, stages, best, held_out = Fold(labels.observed, labels.observed, mixture, tasks), [], 0, None
    profiles: tuple[list[Array], list[Array]] = ([], [])
    for number in range(n_stages):
        error = FoldError(labels, parts)
        start = Parameters.start(whole.mixture, whole.tasks)
        found, losses = descend(error, start, how, lambda step, loss: watch(number, step, loss))
        size, predicted = error.evaluate(found)
        stages.append(Stage(found, size, losses, *profiles))
        if size < stages[best].error or number == 0:
            best, held_out = number, _assembled(labels, parts, predicted)
        elif number:
            break
        if number + 1 < n_stages:
            parts = [_profiled(fold, each, mixture, tasks, profiled)[0] for fold, each in zip(parts, predicted, strict=True)]
            whole, profiles = _profiled(whole, error.completed(found, whole), mixture, tasks, profiled)
    return Learned(stages, best, held_out)


def _profiled(
    fold: Fold, completed: Array, mixture: Mixture, tasks: Mixture | None, profiled: tuple[bool, bool]
) -> tuple[Fold, tuple[list[Array], list[Array]]]:
    """Return a fold with the profiles of what its own training cells complete."""
    rows = profile_kernels(completed) if profiled[0] else []
    columns = profile_kernels(completed.T) if profiled[1] and tasks is not None else []
    joined = None if tasks is None else tasks.joined(columns)
    return replace(fold, mixture=mixture.joined(rows), tasks=joined, ends={}), (rows, columns)


def _assembled(labels: Labels, folds: Sequence[Fold], predicted: Sequence[Array]) -> Array:
    xp = namespace(labels.values)
    found = xp.full_like(labels.values, float("nan"))
    for fold, each in zip(folds, predicted, strict=True):
        found = xp.where(fold.test > 0, each, found)
    return found

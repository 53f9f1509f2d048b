"""Learning in stages: what a stage completes describes instances and tasks for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.learning.candidates import Candidate, best_candidate
from dyadlearn.learning.descent import Descent, HoldoutError
from dyadlearn.learning.folds import ROUGH, Fold, FoldError, Labels, Tolerances
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.parameters import Parameters
from dyadlearn.learning.profiles import DIVISIBLE, profile_kernels

__all__ = ["Learned", "Stage", "Watch", "learn_at_once", "learn_in_stages", "profiled_fold"]

# Told the number of a stage and the error of each of its steps.
Watch = Callable[[int, float], None]


@dataclass(frozen=True, eq=False)
class Stage:
    """What was learned in one stage.

    Attributes
    ----------
    parameters : Parameters
    error : float
        The mean squared error of cells that were left out, in the units of `Labels`.
    losses : list of float
        Errors of the parts, step by step, of the descent that led there.
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
    interrupted : bool
        Whether somebody stopped it on the way.
    """

    stages: list[Stage]
    best: int
    held_out: Array
    interrupted: bool


def learn_at_once(
    error: HoldoutError, start: Parameters, n_kernels: tuple[int, int], how: Descent, watch: Watch
) -> Learned:
    """Learn kernels by an error that is exact, which knows of one stage.

    Parameters
    ----------
    error : HoldoutError
        Whose only part predicts all cells.
    start : Parameters
    n_kernels : (int, int)
        How many kernels each side has beside the constant.
    how : Descent
    watch : callable
    """
    found, interrupted = best_candidate(error, [start], n_kernels, how, partial(watch, 0))
    return Learned([_stage(found, ([], []))], 0, found.predicted[0], interrupted)


def learn_in_stages(
    labels: Labels,
    mixture: Mixture,
    tasks: Mixture | None,
    folds: Iterable[tuple[np.ndarray, np.ndarray]],
    how: Descent,
    n_stages: int,
    profiled: tuple[bool, bool],
    watch: Watch = lambda stage, loss: None,
    tolerances: Tolerances = ROUGH,
) -> Learned:
    """Learn kernels stage by stage, as long as the hold-out error falls.

    Parameters
    ----------
    labels : Labels
    mixture, tasks : Mixture, the latter or None
    folds : iterable of (train, test)
        Masks (m, q) of cells to learn from, where observed, and to predict.
    how : Descent
    n_stages : int
        The most that are tried.
    profiled : (bool, bool)
        Whether instances, and tasks, are described by their profiles from the second stage on.
    watch : callable
        Told the stage and the error of each step.
    tolerances : Tolerances
    """
    parts = list(_observed_folds(labels, folds, mixture, tasks))
    if not parts:
        raise ValueError("No fold has labels both to learn from and to predict: use fewer folds, or other groups.")
    error = FoldError(labels, parts, Fold(labels.observed, labels.observed, mixture, tasks), tolerances)
    # Single kernels are tried before there are profiles: a stage with these is kept only if it is better.
    n_kernels = (len(mixture.grams), 0 if tasks is None else len(tasks.grams))
    starts = [Parameters.start(mixture, tasks)]
    found, interrupted = best_candidate(error, starts, n_kernels, how, partial(watch, 0))
    stages, best, held_out = [_stage(found, ([], []))], 0, _assembled(labels, parts, found.predicted)
    try:
        while not interrupted and len(stages) < n_stages and best == len(stages) - 1:
            completed = [*found.predicted, error.completed(found.parameters, error.whole)]
            *parts, whole = (
                profiled_fold(fold, each, mixture, tasks, profiled)
                for fold, each in zip([*error.folds, error.whole], completed, strict=True)
            )
            error = FoldError(labels, parts, whole, tolerances)
            start = Parameters.start(whole.mixture, whole.tasks)
            starts, number = [start, found.parameters.joined(start)], len(stages)
            found, interrupted = best_candidate(error, starts, (0, 0), how, partial(watch, number))
            stages.append(_stage(found, _joined_kernels(whole, n_kernels)))
            if found.error < stages[best].error:
                best, held_out = number, _assembled(labels, parts, found.predicted)
    except KeyboardInterrupt:
        interrupted = True
    return Learned(stages, best, held_out, interrupted)


def _stage(found: Candidate, profiles: tuple[list[Array], list[Array]]) -> Stage:
    return Stage(found.parameters, found.error, found.losses, *profiles)


def _joined_kernels(whole: Fold, n_kernels: tuple[int, int]) -> tuple[list[Array], list[Array]]:
    """Return what stands beside the first kernels of each side: the profiles."""
    columns = [] if whole.tasks is None else whole.tasks.grams
    return list(whole.mixture.grams[n_kernels[0] :]), list(columns[n_kernels[1] :])


def _observed_folds(
    labels: Labels, folds: Iterable[tuple[np.ndarray, np.ndarray]], mixture: Mixture, tasks: Mixture | None
) -> Iterable[Fold]:
    """Yield folds of observed cells, those that have some to learn from and some to predict."""
    Y, xp = labels.values, namespace(labels.values)
    for masks in folds:
        train, test = (as_array_of(mask, Y, Y.dtype) * labels.observed for mask in masks)
        if float(xp.sum(train)) > 0 and float(xp.sum(test)) > 0:
            yield Fold(train, test, mixture, tasks)


def profiled_fold(
    fold: Fold, completed: Array, mixture: Mixture, tasks: Mixture | None, profiled: tuple[bool, bool]
) -> Fold:
    """Return a fold with the profiles of what its own training cells complete, beside kernels without any."""
    rows = profile_kernels(completed) if profiled[0] else []
    columns = profile_kernels(completed.T) if profiled[1] and tasks is not None else []
    joined = None if tasks is None else tasks.joined(columns, DIVISIBLE)
    return replace(fold, mixture=mixture.joined(rows, DIVISIBLE), tasks=joined, ends={})


def _assembled(labels: Labels, folds: Sequence[Fold], predicted: Sequence[Array]) -> Array:
    xp = namespace(labels.values)
    found = xp.full_like(labels.values, float("nan"))
    for fold, each in zip(folds, predicted, strict=True):
        found = xp.where(fold.test > 0, each, found)
    return found

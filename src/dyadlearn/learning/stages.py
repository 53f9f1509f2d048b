"""Learning in stages: what a stage completes describes instances and tasks for the next one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.learning.descent import Descent, HoldoutError, descend
from dyadlearn.learning.folds import Fold, FoldError, Labels
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.parameters import Parameters
from dyadlearn.learning.profiles import DIVISIBLE, profile_kernels

__all__ = ["Learned", "Stage", "Watch", "learn_at_once", "learn_in_stages"]

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
        Errors of the parts, step by step.
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
    found, predicted, interrupted = _best_of(error, start, n_kernels, how, lambda loss: watch(0, loss))
    return Learned([found], 0, predicted[0], interrupted)


def learn_in_stages(
    labels: Labels,
    mixture: Mixture,
    tasks: Mixture | None,
    folds: Iterable[tuple[np.ndarray, np.ndarray]],
    how: Descent,
    n_stages: int,
    profiled: tuple[bool, bool],
    watch: Watch = lambda stage, loss: None,
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
    """
    parts = list(_observed_folds(labels, folds, mixture, tasks))
    if not parts:
        raise ValueError("No fold has labels both to learn from and to predict: use fewer folds, or other groups.")
    whole = Fold(labels.observed, labels.observed, mixture, tasks)
    n_kernels = (len(mixture.grams), 0 if tasks is None else len(tasks.grams))
    stages: list[Stage] = []
    best = 0
    profiles: tuple[list[Array], list[Array]] = ([], [])
    for number in range(n_stages):
        error = FoldError(labels, parts)
        start = Parameters.start(whole.mixture, whole.tasks)
        sizes = (n_kernels[0] + len(profiles[0]), n_kernels[1] + len(profiles[1]))
        found, predicted, interrupted = _best_of(error, start, sizes, how, lambda loss: watch(number, loss))  # noqa: B023
        stages.append(replace(found, profiles=profiles[0], task_profiles=profiles[1]))
        if number and not found.error < stages[best].error:
            break
        best, held_out = number, _assembled(labels, parts, predicted)
        if interrupted or number + 1 == n_stages:
            break
        completed = error.completed(found.parameters, whole)
        parts = [
            _profiled(fold, each, mixture, tasks, profiled)[0] for fold, each in zip(parts, predicted, strict=True)
        ]
        whole, profiles = _profiled(whole, completed, mixture, tasks, profiled)
    return Learned(stages, best, held_out, interrupted)


def _best_of(
    error: HoldoutError, start: Parameters, n_kernels: tuple[int, int], how: Descent, watch: Callable[[float], None]
) -> tuple[Stage, list[Array], bool]:
    """Return what a descent finds, or one from the best single kernels if they are better than that.

    The last are looked for one side after the other, with the exponents, shares and λ that were learned.
    """
    found = descend(error, start, how, watch)
    losses, interrupted = found.losses, found.interrupted
    best = _Candidate.of(error, found.parameters)
    if not interrupted:
        constant = len(start.weights) > n_kernels[0]
        alone, task_alone = None, None
        if n_kernels[0] > 1:
            alone = _least(error, [found.parameters.singled(i, None, constant) for i in range(n_kernels[0])])
        if n_kernels[1] > 1:
            each = [found.parameters.singled(alone, j, constant) for j in range(n_kernels[1])]
            task_alone = _least(error, each)
        if alone is not None or task_alone is not None:
            single = _Candidate.of(error, found.parameters.singled(alone, task_alone, constant))
            if single.error < best.error:
                again = descend(error, single.parameters, how, watch)
                losses, interrupted = [*losses, *again.losses], again.interrupted
                better = _Candidate.of(error, again.parameters)
                best = better if better.error < single.error else single
    return Stage(best.parameters, best.error, losses, [], []), best.predicted, interrupted


@dataclass(frozen=True, eq=False)
class _Candidate:
    parameters: Parameters
    error: float
    predicted: list[Array]

    @classmethod
    def of(cls, error: HoldoutError, parameters: Parameters) -> _Candidate:
        return cls(parameters, *error.evaluate(parameters))


def _least(error: HoldoutError, candidates: Sequence[Parameters]) -> int:
    """Return which of some parameters has the least error on one part, which is enough to tell."""
    found = [error.loss(each, 0) for each in candidates]
    return int(np.nanargmin(np.where(np.isfinite(found), found, np.inf)))


def _observed_folds(
    labels: Labels, folds: Iterable[tuple[np.ndarray, np.ndarray]], mixture: Mixture, tasks: Mixture | None
) -> Iterable[Fold]:
    """Yield folds of observed cells, those that have some to learn from and some to predict."""
    Y, xp = labels.values, namespace(labels.values)
    for masks in folds:
        train, test = (as_array_of(mask, Y, Y.dtype) * labels.observed for mask in masks)
        if float(xp.sum(train)) > 0 and float(xp.sum(test)) > 0:
            yield Fold(train, test, mixture, tasks)


def _profiled(
    fold: Fold, completed: Array, mixture: Mixture, tasks: Mixture | None, profiled: tuple[bool, bool]
) -> tuple[Fold, tuple[list[Array], list[Array]]]:
    """Return a fold with the profiles of what its own training cells complete."""
    rows = profile_kernels(completed) if profiled[0] else []
    columns = profile_kernels(completed.T) if profiled[1] and tasks is not None else []
    joined = None if tasks is None else tasks.joined(columns, DIVISIBLE)
    return replace(fold, mixture=mixture.joined(rows, DIVISIBLE), tasks=joined, ends={}), (rows, columns)


def _assembled(labels: Labels, folds: Sequence[Fold], predicted: Sequence[Array]) -> Array:
    xp = namespace(labels.values)
    found = xp.full_like(labels.values, float("nan"))
    for fold, each in zip(folds, predicted, strict=True):
        found = xp.where(fold.test > 0, each, found)
    return found

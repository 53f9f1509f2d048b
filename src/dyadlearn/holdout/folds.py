"""Folds that are left out and solved again, where labels are missing or weighted and no formula is exact.

What is left out is hidden, as if it had never been observed, and the grid is completed again: the values that the
model then puts in the hidden cells are its predictions for them. A model in which rows count even where all their
labels are hidden takes them out of the grid altogether, and predicts them from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_block, to_numpy
from dyadlearn._codes import group_codes
from dyadlearn._memory import solve_numbers
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.base import MANY_CELLS
from dyadlearn.pairing.leaving import group_members, nothing_left, refuse
from dyadlearn.settings import Setting
from dyadlearn.solve.missing import Completion
from dyadlearn.spectrum import Spectrum

# The cells that are used, where observed, and those to predict: masks of shape (m, q).
Fold = tuple[np.ndarray, np.ndarray]
Axes = tuple[np.ndarray, np.ndarray]


class Folds:
    """Folds of cells, instances or tasks that are left out in turn, for one regularisation after the other.

    Each solve starts from what the same fold gave before.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    folds : iterable of (train, test)
        Masks of shape (m, q): the cells that are used, where observed, and those to predict.
    """

    def __init__(self, problem: Problem, setting: Setting, folds: Iterable[Fold]) -> None:
        problem.pairing.check_leaving()
        self.problem, self.setting = problem, setting
        self.apart = problem.pairing.takes_apart(setting)
        self._spectra: dict[tuple[int, bytes], Spectrum] = {}
        self._sides: dict[tuple[int, float, bytes], Any] = {}
        folds = _both_directions(folds) if problem.pairing.symmetry else folds
        self.parts = [self._part(train, test) for train, test in folds]
        self.starts: list[Completion | None] = [None] * len(self.parts)

    def _part(self, train: np.ndarray, test: np.ndarray) -> tuple[Problem, Axes | None, np.ndarray]:
        """Return the problem that a fold leaves, the rows and columns it is made of, and the cells to predict."""
        problem, xp = self.problem, namespace(self.problem.Y)
        Y = xp.where(as_array_of(train, problem.Y), problem.Y, xp.full_like(problem.Y, float("nan")))
        if bool(xp.all(xp.isnan(Y))):
            raise nothing_left()
        if not self.apart:
            return replace(problem, Y=Y), None, test
        rows, columns = np.flatnonzero(train.any(axis=1)), np.flatnonzero(train.any(axis=0))
        weights = None if problem.weights is None else take_block(problem.weights, rows, columns)
        return replace(problem, Y=take_block(Y, rows, columns), weights=weights), (rows, columns), test

    @property
    def units(self) -> Units:
        """What leaves together."""
        return Units.of_folds((test for _, _, test in self.parts), self.setting, self.problem.Y.shape)

    @property
    def converged(self) -> bool:
        """Whether every fold was solved to its tolerance when it was last left out."""
        return all(start is None or start.solution.converged for start in self.starts)

    @property
    def n_folds(self) -> int:
        """How many there are."""
        return len(self.parts)

    def n_tested(self, numbers: Iterable[int]) -> int:
        """Return how many labels some of the folds predict."""
        observed = ~np.isnan(to_numpy(self.problem.Y))
        return sum(int(np.count_nonzero(self.parts[number][2] & observed)) for number in numbers)

    @cached_property
    def scouts(self) -> list[int]:
        """The first fold and those after it that test none of the same instances and tasks: a few where both are cut.

        They predict every instance and every task once, each with others.
        """
        if self.setting is not Setting.D:
            return list(range(len(self.parts)))
        found: list[int] = []
        taken = [np.zeros(size, dtype=bool) for size in self.problem.Y.shape]
        for number, (_, _, test) in enumerate(self.parts):
            sides = test.any(axis=1), test.any(axis=0)
            if not any((side & used).any() for side, used in zip(sides, taken, strict=True)):
                found.append(number)
                taken = [side | used for side, used in zip(sides, taken, strict=True)]
        return found

    def held_out(
        self,
        pairing: Pairing | None = None,
        tol: float | None = None,
        *,
        max_iter: int | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Array:
        """Return predictions of shape (m, q), NaN where no fold predicts.

        Parameters
        ----------
        pairing : Pairing, default=None
            The model under another regularisation.
        tol, max_iter : float and int, default=None
            When conjugate gradients stop.
        numbers : sequence of int, default=None
            The folds to leave out; None is all of them.
        """
        grid, pairing = self.problem.Y, self.problem.pairing if pairing is None else pairing
        xp = namespace(grid)
        held_out = xp.full_like(grid, float("nan"))
        # Only where both sides are cut do other folds leave the same rows, or the same columns. What they share is kept
        # for the next regularisation, of which one of two may be the same.
        sides = self._sides if self.setting is Setting.D else None
        for key in [key for key in self._sides if key[1] not in pairing.alphas.values()]:
            del self._sides[key]
        for number in range(len(self.parts)) if numbers is None else numbers:
            part, axes, test = self.parts[number]
            inner = pairing if axes is None else pairing.part(axes, self._spectra, sides)
            given = (part.tol if tol is None else tol, part.max_iter if max_iter is None else max_iter)
            posed = replace(part, pairing=inner, tol=given[0], max_iter=given[1])
            found = self.starts[number] = posed.complete(self.starts[number])
            predicted = found.labels if axes is None else pairing.outside(axes, found.labels)
            held_out = xp.where(as_array_of(test, grid), predicted, held_out)
        return held_out


def _both_directions(folds: Iterable[Fold]) -> Iterator[Fold]:
    """Yield folds in which an edge leaves as its half above the diagonal does."""
    for _, test in folds:
        upper = np.triu(test)
        yield ~(upper | upper.T), upper | upper.T


def as_splitter(cv: Any, setting: Setting) -> SettingKFold | GivenFolds:
    """Return the folds of a setting from their number, or check those that are given."""
    if isinstance(cv, SettingKFold):
        if cv.setting != setting.value:
            raise ValueError(f"cv makes folds for setting {cv.setting}, but the setting is {setting.value}.")
        if cv.network:
            raise ValueError(
                "cv cuts instances and tasks of a grid, and hides no node on both sides: leave network out. A model of "
                "a network leaves out one edge or node at a time, without cv."
            )
        return cv
    if isinstance(cv, GivenFolds):
        return cv
    if isinstance(cv, list | tuple):
        return GivenFolds(setting, cv)
    if cv is not None and (isinstance(cv, bool) or not isinstance(cv, int | np.integer)):
        raise TypeError(f"cv must be a number of folds or a SettingKFold, found {cv!r}.")
    return SettingKFold(setting, 5 if cv is None else int(cv), random_state=0)


def folds_in_words(splitter: SettingKFold | GivenFolds, setting: Setting) -> str:
    """Return how many folds are solved again, in words so few that a table of scores fits a terminal."""
    count = f"{splitter.n_splits}×{splitter.n_splits}" if setting is Setting.D else str(splitter.n_splits)
    return f"{count} folds, solved again"


def split_folds(
    problem: Problem, setting: Setting, groups: Any, task_groups: Any, splitter: SettingKFold | GivenFolds
) -> Iterator[Fold]:
    """Return some folds of what a setting leaves out.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), or None
        What is left out together.
    splitter : SettingKFold or GivenFolds
    """
    # Folds of pairs count as those of instances.
    cut = (not setting.new_task or setting.new_instance, setting.new_task)
    n_folds = (splitter.n_splits if cut[0] else 1, splitter.n_splits if cut[1] else 1)
    _check_memory(problem, setting, n_folds, n_starts=2)  # a search keeps the best beside the last
    return splitter.split_grid(*problem.Y.shape, groups=groups, task_groups=task_groups)


def fold_groups(cv: Any, setting: Setting, shape: tuple[int, int], groups: Any, task_groups: Any) -> list[Any]:
    """Return the folds of instances and of tasks as group labels (m,) and (q,), None for a side that is not cut."""
    units = as_splitter(cv, setting).units(shape, 0, groups=groups, task_groups=task_groups)
    return [units.instances, units.tasks]


def each_fold(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> Iterator[Fold]:
    """Yield what is used and what is predicted, one group (or row, or column) after the other."""
    m, q = problem.Y.shape
    if cells is not None:
        codes = group_codes(cells, (m, q), "cells")
        count = int(codes.max()) + 1
        _check_memory(problem, setting, (count, 1), apart=False)
        for fold in range(count):
            yield codes != fold, codes == fold
        return
    rows = group_members(groups, m, "groups") or [np.array([i]) for i in range(m)]
    columns = group_members(task_groups, q, "task_groups") or [np.array([j]) for j in range(q)]
    if setting is Setting.D and len(rows) * len(columns) > MANY_CELLS:
        raise ValueError(
            f"Setting D with missing labels is solved again for each pair of a left-out instance and task, here "
            f"{len(rows) * len(columns)} times: give groups= and task_groups=, a few of each."
        )
    n_folds = (len(rows) if setting.new_instance else 1, len(columns) if setting.new_task else 1)
    _check_memory(problem, setting, n_folds)
    for row in rows if setting.new_instance else [np.arange(m)]:
        for column in columns if setting.new_task else [np.arange(q)]:
            train, test = np.ones((m, q), dtype=bool), np.zeros((m, q), dtype=bool)
            test[np.ix_(row, column)] = True
            if setting.new_instance:
                train[row] = False
            if setting.new_task:
                train[:, column] = False
            yield train, test


def _check_memory(
    problem: Problem, setting: Setting, n_folds: tuple[int, int], apart: bool | None = None, n_starts: int = 1
) -> None:
    """Refuse to leave out so many folds of instances and of tasks (or of cells) and to solve again.

    Parameters
    ----------
    problem, setting : Problem and Setting
    n_folds : (int, int)
        Of the instances and of the tasks; folds of cells count as the former.
    apart : bool, default=None
        Whether rows and columns that are left out are taken out of the grid, with their part of the kernels; None is
        what the model does.
    n_starts : int, default=1
        How many solutions of each fold are kept to start from.
    """
    pairing, (m, q), total = problem.pairing, problem.Y.shape, n_folds[0] * n_folds[1]
    ranks = pairing.ranks
    # Of each fold a mask, its labels and its solutions, from which the next solve starts.
    each = 0.125 + 1.0 + (2.0 if pairing.knows_tasks else 1.0) * n_starts
    need = total * each * m * q + solve_numbers(
        (m, q), ranks, coupled=pairing.knows_tasks, complete=False, weighted=problem.weights is not None
    )
    if pairing.takes_apart(setting) if apart is None else apart:  # each fold has its own eigenvectors and operators
        need += sum(2.0 * count * n * k for count, n, k in zip(n_folds, (m, q), ranks, strict=False) if count > 1)
    refuse(need, problem.Y, setting, f" in {total} folds")


def observed_share(problem: Problem) -> float:
    """Return the share of the cells that is observed."""
    return 1.0 - float(np.isnan(to_numpy(problem.Y)).mean())

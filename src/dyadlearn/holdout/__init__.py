"""Exact hold-out predictions, for every model and every setting: the one place that decides how they are made."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_block, take_rows, to_numpy
from dyadlearn._codes import group_codes
from dyadlearn._memory import holdout_numbers, solve_numbers
from dyadlearn.holdout.folds import (
    Folds,
    as_splitter,
    each_fold,
    fold_groups,
    folds_in_words,
    observed_share,
    split_folds,
)
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.pairing.base import MANY_CELLS
from dyadlearn.pairing.leaving import group_members, nothing_left, refuse
from dyadlearn.settings import Setting, as_setting

__all__ = ["Plan", "Problem", "Units", "check_enough_left", "holdout", "plan"]


def holdout(
    problem: Problem,
    setting: str | Setting,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
) -> Array:
    """Return the predictions a model would have made for every cell had it never seen it.

    Where labels are missing or weighted, what is left out is hidden and the grid completed again, but for the cases
    in which nothing need be solved again: independent tasks; grids that are complete but for whole rows and columns,
    where these say nothing; single cells, where few are observed or the others form a block.

    Parameters
    ----------
    problem : Problem
    setting : str or Setting
        What is left out: the pair (A), the instance (B), the task (C) or both (D).
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Labels of instances and of tasks that are left out together, in the settings that leave
        out instances or tasks.
    cells : array-like of shape (m, q), default=None
        Fold labels of cells that are left out together in setting A.

    Returns
    -------
    array of shape (m, q)

    Raises
    ------
    LeverageError
        If something is fitted exactly whatever its labels, so that nothing else predicts it.
    ValueError
        If a fold leaves no label to learn from, or the setting does not take the groups that are given.
    """
    setting, pairing, Y = as_setting(setting), problem.pairing, problem.Y
    pairing.check_request(setting, groups, task_groups, cells)
    pairing.check_leaving()
    _check_memory(problem, setting, groups, task_groups, cells)
    if problem.is_complete:
        if cells is not None:
            return _leave_cells_out(problem, cells)
        members = group_members(groups, Y.shape[0], "groups")
        task_members = group_members(task_groups, Y.shape[1], "task_groups")
        _check_something_is_left(setting, Y.shape, members, task_members)
        return pairing.holdout(Y, setting, members, task_members)
    if groups is None and task_groups is None and cells is None:
        if (part := _labelled_part(problem)) is not None:
            return part.extend(holdout(part.problem, setting), problem.complete().labels, setting)
        found = pairing.leave_one_out(Y, problem.weights, setting, lambda: problem.complete().labels)
        if found is not None:
            return found
    return Folds(problem, setting, each_fold(problem, setting, groups, task_groups, cells)).held_out()


@dataclass(frozen=True, eq=False)
class Plan:
    """How the hold-out predictions of a problem are made, as a search or a report wants them.

    Attributes
    ----------
    problem : Problem
    setting : Setting
    words : str
        So few that a table of scores fits a terminal.
    groups, task_groups : array-like of shape (m,) and (q,), or None
        What is left out together.
    splitter : SettingKFold, GivenFolds or None
        What is left out and solved again, where that cannot be helped.
    """

    problem: Problem
    setting: Setting
    words: str
    groups: Any = None
    task_groups: Any = None
    splitter: SettingKFold | GivenFolds | None = None

    @cached_property
    def folds(self) -> Folds | None:
        """What is left out and solved again; None where a formula is exact."""
        if self.splitter is None:
            return None
        given = (self.groups, self.task_groups)
        return Folds(self.problem, self.setting, split_folds(self.problem, self.setting, *given, self.splitter))

    @property
    def units(self) -> Units:
        """What leaves together: the folds that were cut, or groups."""
        if self.folds is not None:
            return self.folds.units
        m, q = self.problem.Y.shape
        return Units(
            None if self.groups is None else group_codes(self.groups, (m,), "groups"),
            None if self.task_groups is None else group_codes(self.task_groups, (q,), "task_groups"),
        )

    @property
    def swept(self) -> Problem | None:
        """A complete problem with the same scores, so that all regularisations cost a few products; None if none is."""
        if self.splitter is not None:
            return None
        if self.problem.is_complete:
            return self.problem
        part = _labelled_part(self.problem) if self.problem.pairing.knows_tasks else None
        return None if part is None else part.problem

    def held_out(self, problem: Problem | None = None, tol: float | None = None) -> Array:
        """Return the predictions, shape (m, q); NaN where no fold predicts.

        Parameters
        ----------
        problem : Problem, default=None
            The same under another regularisation.
        tol : float, default=None
            When conjugate gradients stop, instead of what the problem says.
        """
        problem = self.problem if problem is None else problem
        if self.folds is not None:
            return self.folds.held_out(problem.pairing, tol)
        return holdout(problem, self.setting, groups=self.groups, task_groups=self.task_groups)


def plan(problem: Problem, setting: Setting, groups: Any = None, task_groups: Any = None, cv: Any = None) -> Plan:
    """Decide how to hold out.

    Complete labels have exact formulas for single rows, for groups and for folds of rows. Where labels are missing or
    weighted, leave-one-out is exact where nothing need be solved again, and a few folds are left out elsewhere.

    Parameters
    ----------
    problem : Problem or PairProblem
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        What is left out together; not looked at in settings that leave none out.
    cv : int or SettingKFold, default=None
        Folds to leave out instead of one thing at a time; None is five where no formula is exact.

    Returns
    -------
    Plan or PairPlan
    """
    if problem.is_listed:
        found: Plan = cast(Any, problem).plan(setting, groups, task_groups, cv)
        return found
    given = (groups if setting.new_instance else None, task_groups if setting.new_task else None)
    alone = all(labels is None for labels in given)
    if problem.is_complete and cv is None:
        return Plan(problem, setting, "exact leave-one-out" if alone else "exact leave-group-out", *given)
    if problem.is_complete and setting is not Setting.A:
        return Plan(problem, setting, "exact leave-fold-out", *fold_groups(cv, setting, problem.Y.shape, *given))
    if cv is None and alone and _has_shortcut(problem, setting):
        return Plan(problem, setting, "exact leave-one-out")
    splitter = as_splitter(cv, setting)
    return Plan(problem, setting, folds_in_words(splitter, setting), *given, splitter)


def _has_shortcut(problem: Problem, setting: Setting) -> bool:
    """Tell whether leave-one-out needs no solving again though labels are missing."""
    return problem.pairing.has_shortcut(problem.Y, problem.weights, setting) or _labelled_part(problem) is not None


def _leave_cells_out(problem: Problem, cells: Any) -> Array:
    """Return, for each cell, what a model that saw no cell of its fold predicts."""
    Y, xp = problem.Y, namespace(problem.Y)
    codes = group_codes(cells, tuple(Y.shape), "cells")
    if not codes.any():
        raise nothing_left()
    held_out, missing = xp.zeros_like(Y), xp.full_like(Y, float("nan"))
    for fold in range(int(codes.max()) + 1):
        inside = as_array_of(codes == fold, Y)
        held_out = xp.where(inside, problem.pairing.leave_cells_out(xp.where(inside, missing, Y)), held_out)
    return held_out


@dataclass(frozen=True, eq=False)
class _LabelledPart:
    """A complete grid within one that has rows or columns without labels.

    Attributes
    ----------
    problem : Problem
        Of the complete grid.
    whole : Problem
        Of the grid around it.
    rows, columns : integer arrays
        Where it lies.
    """

    problem: Problem
    whole: Problem
    rows: np.ndarray
    columns: np.ndarray

    def extend(self, held_out: Array, fitted: Array, setting: Setting) -> Array:
        """Return held-out predictions for the whole grid.

        Parameters
        ----------
        held_out : array
            Those of the part.
        fitted : array of shape (m, q)
            What the model predicts for cells that nothing has to leave for.
        setting : Setting
        """
        places = (self.rows, self.columns)
        grid = _embedded(fitted, held_out, *places)
        beside = self.problem.pairing.beside_labelled(self.problem.Y, setting, self.whole.pairing, *places)
        for values, rows, columns in beside:
            grid = _embedded(grid, values, rows, columns)
        return grid


def _labelled_part(problem: Problem) -> _LabelledPart | None:
    """Return the problem of the rows and columns that have labels, if the others say nothing and it is complete."""
    if problem.weights is not None:
        return None
    observed = ~np.isnan(to_numpy(problem.Y))
    rows, columns = np.flatnonzero(observed.any(axis=1)), np.flatnonzero(observed.any(axis=0))
    if not observed[np.ix_(rows, columns)].all():
        return None
    pairing = problem.pairing.without_unlabelled(rows, columns)
    if pairing is None:
        return None
    part = replace(problem, pairing=pairing, Y=take_block(problem.Y, rows, columns))
    return _LabelledPart(part, problem, rows, columns)


def _embedded(grid: Array, values: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return a grid (m, q) with a block of values put where it belongs."""
    xp = namespace(grid)
    places = np.arange(math.prod(grid.shape)).reshape(grid.shape) + math.prod(values.shape)
    places[np.ix_(rows, columns)] = np.arange(math.prod(values.shape)).reshape(values.shape)
    together = xp.concat([xp.reshape(values, (-1,)), xp.reshape(grid, (-1,))])
    return xp.reshape(take_rows(together, places.reshape(-1)), grid.shape)


def _check_memory(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> None:
    """Raise if the hold-out predictions of a complete grid, or those of an incomplete one without folds, do not fit."""
    pairing, (m, q) = problem.pairing, problem.Y.shape
    if problem.is_complete and cells is None:
        largest = max((_largest(labels) for labels in (groups, task_groups) if labels is not None), default=1)
        need = holdout_numbers((m, q), pairing.ranks, pairing.holdout_grids, largest_group=largest)
    else:
        alone = groups is None and task_groups is None and cells is None
        if not problem.is_complete and (not alone or (pairing.knows_tasks and setting is not Setting.A)):
            return  # folds are counted where they are solved again
        weighted = problem.weights is not None
        need = solve_numbers((m, q), pairing.ranks, coupled=pairing.knows_tasks, complete=False, weighted=weighted)
        if alone and pairing.knows_tasks:  # one dense system of all observed cells
            need = max(need, 5.0 * min(round(observed_share(problem) * m * q), MANY_CELLS) ** 2)
    refuse(need, problem.Y, setting)


def _largest(labels: Any) -> int:
    """Return the size of the largest group; labels that cannot be told apart are refused elsewhere."""
    try:
        return int(np.unique(to_numpy(labels), return_counts=True)[1].max())
    except (TypeError, ValueError):
        return 1


def _check_something_is_left(
    setting: Setting, shape: tuple[int, int], members: Sequence[Any] | None, task_members: Sequence[Any] | None
) -> None:
    """Refuse to leave out every instance or every task of a complete grid at once."""
    n_groups, n_task_groups = (
        size if groups is None else len(groups) for size, groups in zip(shape, (members, task_members), strict=True)
    )
    if (setting.new_instance and n_groups < 2) or (setting.new_task and n_task_groups < 2):
        raise nothing_left()


def check_enough_left(
    Y: Array, setting: Setting, groups: Any, task_groups: Any, *, knows_tasks: bool, is_complete: bool
) -> None:
    """Refuse labels of which a search has nothing left to learn from where one thing, or one group, is left out.

    Parameters
    ----------
    Y : array of shape (m, q)
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), or None
        What is left out together.
    knows_tasks : bool
        Whether tasks say something of each other.
    is_complete : bool
        Whether all labels are known to be observed.
    """
    shape = tuple(Y.shape)
    # A complete grid is not looked through: a search in steps comes here often.
    observed = None if is_complete else ~np.isnan(to_numpy(Y))
    # Where tasks say nothing of each other, a pair leaves as its instance does.
    alone = setting is Setting.A and not knows_tasks
    sides = (
        ("instance", "sample", 0, setting.new_instance or alone, groups, "groups"),
        ("task", "task", 1, setting.new_task, task_groups, "task_groups"),
    )
    for left_out, counted, axis, is_cut, labels, name in sides:
        if not is_cut:
            continue
        labelled = np.ones(shape[axis], dtype=bool) if observed is None else np.asarray(observed.any(axis=1 - axis))
        members = group_members(labels, shape[axis], name)
        n_units = int(labelled.sum()) if members is None else sum(bool(labelled[each].any()) for each in members)
        if n_units < 2:
            found = f"1 {counted} with labels" if members is None else f"1 group of {left_out}s with labels"
            raise ValueError(
                f"Setting {setting.value} leaves out {'a group of' if members else 'each'} {left_out}"
                f"{'s' if members else ''} and learns from the others, but there is only {found}: give more, or take a "
                "model with a fixed alpha."
            )
    n_labels = shape[0] * shape[1] if observed is None else int(observed.sum())
    if setting is Setting.A and not alone and n_labels < 2:
        raise ValueError(
            "Setting A leaves out each pair and learns from the others, but there is only 1 sample and 1 task with a "
            "label: give more, or take a model with a fixed alpha."
        )

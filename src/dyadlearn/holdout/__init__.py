r"""Hold-out predictions: the prediction of each label by a model that was trained without the label's unit.

`plan` chooses and describes the method. A `Formula` computes the predictions from one fit: on a full grid in all
settings, and for missing labels in the cases that `holdout` lists. `SolveAgain` solves the model again for each fold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn._memory import solve_numbers
from dyadlearn._progress import Phase
from dyadlearn.exceptions import NothingLeftError
from dyadlearn.holdout.folds import Folds, as_splitter, default_splitter, folds_in_words
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.labels import Labels
from dyadlearn.pairing import full, incomplete
from dyadlearn.pairing.base import check_request
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.leaving import group_members, largest_group, refuse
from dyadlearn.solve.observed import MOST_UNKNOWNS, leave_groups_out
from dyadlearn.solve.operators import embedded
from dyadlearn.spectrum import nothing_left

__all__ = ["Formula", "Problem", "SolveAgain", "Units", "check_enough_left", "holdout", "leave_out", "plan"]


def holdout(
    problem: Problem, setting: str | Setting, *, groups: Any = None, task_groups: Any = None, cells: Any = None
) -> Array:
    """Return the hold-out prediction of every label: that of a model which was trained without it.

    On a full grid without weights, a formula gives the predictions (for two-step ridge regression, Corollaries 2 to 5
    of the paper). Where labels are missing or weighted, the held-out labels are hidden and the model is solved again,
    except in three cases that also have a formula: independent tasks; grids that only lack whole rows and columns, if
    unlabelled rows and columns do not influence the model; leave-one-out of single labels, if few are observed or the
    missing ones form a block.

    Parameters
    ----------
    problem : Problem
    setting : str or Setting
        What is left out: the pair (A), the instance (B), the task (C) or both (D).
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Groups of instances and of tasks that are left out together, in the settings that leave out instances or tasks.
    cells : array-like of the shape of the labels' values, default=None
        Fold of each label in setting A; None means leave-one-out.

    Returns
    -------
    array of the shape of the labels' values

    Raises
    ------
    LeverageError
        If a pair, instance or task has leverage 1: the model fits its labels exactly, whatever they are.
    ValueError
        If a fold leaves no label to learn from, or if the setting does not use the groups.
    """
    setting = as_setting(setting)
    check_request(problem.pairing, setting, groups, task_groups, cells)
    units = Units.of_groups(problem.labels, setting, groups, task_groups, cells)
    return leave_out(problem, setting, units)


def leave_out(problem: Problem, setting: Setting, units: Units) -> Array:
    """Return the hold-out predictions of units: by a formula where one is known, else by solving again.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    units : Units

    Returns
    -------
    array of the shape of the labels' values
    """
    pairing, labels = problem.pairing, problem.labels
    if labels.grid is None:
        return _leave_one_pair_out(problem, setting) if units.are_single else Folds(problem, setting, units).held_out()
    if (Y := labels.full) is not None and units.cells is None:
        members = group_members(units.instances, Y.shape[0], "groups")
        task_members = group_members(units.tasks, Y.shape[1], "task_groups")
        full.check_memory(pairing, Y, setting, largest_group=largest_group(members, task_members))
        if any(np.all(codes == codes[0]) for _, codes in units.of_sides(labels.shape, setting)):
            raise nothing_left()
        return full.hold_out(pairing, Y, setting, members, task_members)
    _check_memory(problem, setting, units)
    if labels.full is not None and units.cells is not None:
        return _leave_cells_out(problem, units.cells)
    predictions = None
    if units.are_single:
        predictions = _leave_out_beside_unlabelled(problem, setting)
        if predictions is None:
            given = (labels.grid, labels.weights, setting, lambda: problem.complete().labels)
            predictions = incomplete.leave_one_out(pairing, *given)
    return Folds(problem, setting, units).held_out() if predictions is None else predictions


@dataclass(frozen=True, eq=False)
class Formula:
    """Plan to compute hold-out predictions from one fit.

    Attributes
    ----------
    problem : Problem
    setting : Setting
    method : str
        Description of the method, short enough for a column of a table.
    units : Units
        Pairs, instances or tasks that are left out together.
    """

    problem: Problem
    setting: Setting
    method: str
    units: Units

    #: A formula solves the model for no fold.
    n_solves: ClassVar[int] = 0
    folds: ClassVar[None] = None

    @property
    def swept(self) -> Problem | None:
        """Problem on a full grid with the same scores, so that a search over alphas is cheap; None if there is none."""
        if self.problem.labels.full is not None:
            return self.problem
        if self.problem.labels.grid is None:
            return None
        return _labelled_part(self.problem)[0] if self.problem.pairing.knows_tasks else None

    def held_out(self, problem: Problem | None = None) -> Array:
        """Return the predictions, of the shape of the labels' values.

        Parameters
        ----------
        problem : Problem, default=None
            The same problem with another regularisation; None is the problem of the plan.
        """
        return leave_out(self.problem if problem is None else problem, self.setting, self.units)


@dataclass(frozen=True, eq=False)
class SolveAgain:
    """Plan to hide the labels of each fold and to solve the model again; labels in no fold are predicted as NaN.

    Attributes
    ----------
    problem, setting, method : as in `Formula`
    splitter : SettingKFold or GivenFolds
        Splitter that makes the folds when they are first used.
    groups : dict
        Keyword arguments `groups` and `task_groups` of `SettingKFold.units`.
    """

    problem: Problem
    setting: Setting
    method: str
    splitter: SettingKFold | GivenFolds
    groups: Mapping[str, Any]

    #: No full problem has the same scores.
    swept: ClassVar[None] = None

    @property
    def units(self) -> Units:
        """The folds as units."""
        return self.folds.units

    @cached_property
    def folds(self) -> Folds:
        """The folds; the solution of each fold is the start of its next solve."""
        return Folds(self.problem, self.setting, self.splitter.units(self.problem.labels, **self.groups))

    @property
    def n_solves(self) -> int:
        """Number of folds."""
        return self.splitter.n_splits ** (2 if self.setting is Setting.D else 1)

    def held_out(self, problem: Problem | None = None) -> Array:
        """Return the predictions, as `Formula.held_out` describes."""
        with Phase("Hold-out folds", self.n_solves, of=1) as bar:
            return self.folds.held_out(None if problem is None else problem.pairing, watch=bar.advance)


# Type of both plans, for annotations.
Plan = Formula | SolveAgain


def plan(problem: Problem, setting: Setting, groups: Any = None, task_groups: Any = None, cv: Any = None) -> Plan:
    """Choose the method of computing hold-out predictions.

    A full grid has formulas for single rows, for groups and for folds of rows. Where labels are missing or weighted,
    leave-one-out has a formula in some cases (see `holdout`); in the other cases the model is solved again for a few
    folds.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Group of each instance and of each task, left out together; ignored in settings that leave out none of them.
    cv : int, SettingKFold or list of folds, default=None
        Folds; None means one unit at a time where there is a formula, else five folds.

    Returns
    -------
    Formula or SolveAgain
    """
    labels, units = problem.labels, Units.of_groups(problem.labels, setting, groups, task_groups)
    if cv is None:
        if labels.full is not None:
            method = "exact leave-one-out" if units.are_single else "exact leave-group-out"
            return Formula(problem, setting, method, units)
        if units.are_single and labels.grid is not None:
            is_quick = incomplete.is_quick_one_by_one(problem.pairing, labels.grid, labels.weights, setting)
            if is_quick or _labelled_part(problem)[0] is not None:
                return Formula(problem, setting, "exact leave-one-out", units)
        if units.are_single and labels.grid is None and _is_short(problem, setting):
            return Formula(problem, setting, "exact leave-one-out", units)
    given = {"groups": units.instances, "task_groups": units.tasks}
    splitter = default_splitter(labels, setting, **given) if cv is None else as_splitter(cv, setting)
    words = folds_in_words(splitter, setting, units)
    if labels.grid is None and setting is Setting.A:
        words += " of pairs"  # other folds than those of a grid, whose missing pairs are in folds too
    if labels.full is not None and setting is not Setting.A:
        method = f"{words}, exact" if "groups" in words else "exact leave-fold-out"
        units = splitter.units(labels, **given)
        check_request(problem.pairing, setting, units.instances, units.tasks, None)
        return Formula(problem, setting, method, units)
    return SolveAgain(problem, setting, f"{words}, refitted", splitter, given)


def _has_one_by_one(problem: Problem, setting: Setting) -> bool:
    """Return whether each pair of a list has a formula to leave it out alone, or with its instance or its task."""
    n_unknowns = math.prod(side.values.shape[0] for side in problem.pairing.spectra)
    is_apart = setting is Setting.D or incomplete.takes_apart(problem.pairing, setting)
    return not is_apart and n_unknowns <= MOST_UNKNOWNS


def _is_short(problem: Problem, setting: Setting) -> bool:
    """Return whether the pairs of a list are few enough to leave out each of them, as on a grid."""
    return setting is Setting.A and problem.labels.size <= incomplete.FEW_CELLS and _has_one_by_one(problem, setting)


def _leave_one_pair_out(problem: Problem, setting: Setting) -> Array:
    """Return predictions (n,) of a list of labels, each left out alone, or with its instance or its task."""
    labels = problem.labels
    if not _has_one_by_one(problem, setting):
        names = {Setting.A: "cells=", Setting.B: "groups=", Setting.C: "task_groups="}
        raise ValueError(
            f"Setting {setting.value} of {labels.size} observed pairs has no formula that leaves out one at a time "
            f"here: pass folds as {names.get(setting, 'groups= and task_groups=')}, for example five."
        )
    codes = None if setting is Setting.A else labels.places[0 if setting is Setting.B else 1]
    if labels.size == 1 or (codes is not None and (codes == codes[0]).all()):
        raise nothing_left()
    return leave_groups_out(problem.system(), codes)


def _leave_cells_out(problem: Problem, codes: np.ndarray) -> Array:
    """Return the prediction of each cell of a full grid by the model trained without the cells of its fold."""
    Y, xp = problem.Y, namespace(problem.Y)
    if (codes == codes.flat[0]).all():
        raise nothing_left()
    held_out, missing = xp.zeros_like(Y), xp.full_like(Y, float("nan"))
    for fold in np.unique(codes):
        inside = as_array_of(codes == fold, Y)
        held_out = xp.where(inside, full.leave_cells_out(problem.pairing, xp.where(inside, missing, Y)), held_out)
    return held_out


def _labelled_part(problem: Problem) -> tuple[Problem | None, np.ndarray, np.ndarray]:
    """Return the problem of the rows and columns that have labels, and their positions.

    The problem is None if unlabelled rows or columns influence the model, or if labels are missing in labelled ones.
    """
    observed = problem.labels.observed
    rows, columns = np.flatnonzero(observed.any(axis=1)), np.flatnonzero(observed.any(axis=0))
    pairing = None
    if problem.weights is None and observed[np.ix_(rows, columns)].all():
        pairing = incomplete.without_unlabelled(problem.pairing, rows, columns)
    part = None if pairing is None else replace(problem, pairing=pairing, labels=problem.labels.part(rows, columns))
    return part, rows, columns


def _leave_out_beside_unlabelled(problem: Problem, setting: Setting) -> Array | None:
    """Return leave-one-out predictions of a grid that only lacks whole rows and columns; None without a formula."""
    part, *places = _labelled_part(problem)
    if part is None:
        return None
    grid = embedded(problem.complete().labels, leave_out(part, setting, Units()), *places)
    for block in incomplete.beside_labelled(part.pairing, problem.pairing, part.Y, setting, *places):
        grid = embedded(grid, *block)
    return grid


def _check_memory(problem: Problem, setting: Setting, units: Units) -> None:
    """Raise if folds of cells of a full grid, or leave-one-out of an incomplete one, need too much memory."""
    pairing, labels = problem.pairing, problem.labels
    is_pairwise = units.are_single and pairing.knows_tasks
    if labels.full is None and (not units.are_single or (is_pairwise and setting is not Setting.A)):
        return  # `Folds` checks the memory of its folds
    options = {"coupled": pairing.knows_tasks, "complete": False, "weighted": labels.weights is not None}
    need = solve_numbers(labels.shape, pairing.ranks, **options)
    if is_pairwise:  # one dense system of all observed cells
        need = max(need, 5.0 * min(labels.size, incomplete.MANY_CELLS) ** 2)
    refuse(need, problem.Y, setting)


def check_enough_left(labels: Labels, setting: Setting, groups: Any, task_groups: Any, *, knows_tasks: bool) -> None:
    """Raise if no label is left to learn from when a search leaves out one unit.

    Parameters
    ----------
    labels : Labels
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), or None
        Group of each instance and of each task, left out together; None means one at a time.
    knows_tasks : bool
        False for independent tasks.
    """
    # Where tasks are independent, leaving out a pair equals leaving out its instance.
    leaves = Setting.B if setting is Setting.A and not knows_tasks else setting
    units = Units.of_groups(labels, leaves, groups, task_groups)
    too_few = [("each pair", "1 sample and 1 task with a label")] if leaves is Setting.A and labels.size < 2 else []
    for axis, codes in units.of_sides(labels.shape, leaves):
        codes = codes if labels.full is not None else codes[labels.places[axis]]
        if (codes == codes[0]).all():
            word = ("instance", "task")[axis]
            if (units.instances, units.tasks)[axis] is None:
                too_few.append((f"each {word}", f"1 {('sample', 'task')[axis]} with labels"))
            else:
                too_few.append((f"a group of {word}s", f"1 group of {word}s with labels"))
    if too_few:
        left_out, counted = too_few[0]
        raise NothingLeftError(
            f"Setting {setting.value} leaves out {left_out} and learns from the others, but there is only {counted}: "
            "give more, or fix alpha without a search."
        )

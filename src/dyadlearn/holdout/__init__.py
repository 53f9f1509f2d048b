"""Exact hold-out predictions from the spectra, for every model and every setting."""

from __future__ import annotations

from typing import Any

from dyadlearn._array import Array
from dyadlearn.holdout.cells import cells_holdout
from dyadlearn.holdout.groups import check_something_is_left, group_members
from dyadlearn.holdout.incomplete import complete_problem, incomplete_holdout
from dyadlearn.holdout.kronecker import kronecker_holdout
from dyadlearn.holdout.kronecker_both import kronecker_new_both
from dyadlearn.holdout.labelled import labelled_part
from dyadlearn.holdout.memory import check_holdout_memory
from dyadlearn.holdout.networks import network_holdout
from dyadlearn.holdout.problem import Problem
from dyadlearn.holdout.two_step import independent_holdout, two_step_holdout
from dyadlearn.settings import Setting, as_setting

__all__ = ["Problem", "holdout"]


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
    in `dyadlearn.holdout.incomplete` that have a shortcut.

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
    setting = as_setting(setting)
    check_arguments(problem, setting, groups, task_groups, cells)
    check_holdout_memory(problem, setting, groups, task_groups, cells)
    if not problem.is_complete:
        alone = groups is None and task_groups is None and cells is None
        part = labelled_part(problem) if alone else None
        if part is None:
            return incomplete_holdout(problem, setting, groups, task_groups, cells)
        return part.extend(holdout(part.problem, setting), complete_problem(problem).labels, setting)
    members = group_members(groups, problem.Y.shape[0], "groups")
    task_members = group_members(task_groups, problem.Y.shape[1], "task_groups")
    check_something_is_left(setting, problem.Y.shape, members, task_members)
    if cells is not None:
        return cells_holdout(problem, cells)
    if problem.method == "network":
        return network_holdout(problem, setting)
    if problem.task_spectrum is None:
        return independent_holdout(problem, members)
    if problem.method == "two_step":
        return two_step_holdout(problem, setting, members, task_members)
    if setting is not Setting.D:
        return kronecker_holdout(problem, setting, members, task_members)
    sides = (problem.spectrum, problem.task_spectrum)
    return kronecker_new_both(*sides, problem.Y, [problem.alpha], members, task_members)[0, ...]


def check_arguments(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> None:
    """Refuse what a setting or a model has no meaning for."""
    if problem.task_spectrum is None and setting.new_task:
        raise ValueError(
            f"Setting {setting.value} leaves out tasks, but this model knows nothing of tasks: fit it with tasks=, or "
            "ask for setting A or B."
        )
    if groups is not None and not setting.new_instance:
        raise ValueError(f"groups are groups of left-out instances, and setting {setting.value} leaves none out.")
    if task_groups is not None and not setting.new_task:
        raise ValueError(f"task_groups are groups of left-out tasks, and setting {setting.value} leaves none out.")
    if cells is not None and setting is not Setting.A:
        raise ValueError(f"cells are folds of left-out pairs: they go with setting A, found {setting.value}.")
    if problem.method == "network" and not (groups is None and task_groups is None and cells is None):
        raise ValueError("A network leaves out one edge or vertex at a time: groups and cells are not supported.")

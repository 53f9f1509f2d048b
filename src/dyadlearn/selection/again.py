"""A search that is repeated on other labels of the same instances and tasks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from dyadlearn._array import Array
from dyadlearn._tables import Table
from dyadlearn.holdout import Units, plan
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.models._base import Sides
from dyadlearn.models._side import Side, fit_side
from dyadlearn.selection.landscape import LeftOut
from dyadlearn.settings import Setting

if TYPE_CHECKING:
    from dyadlearn.selection.search import Search

__all__ = ["search_again"]


def search_again(search: Any, setting: Setting) -> Callable[[Array, Array | None], Any]:
    """Return a function that fits a search to other labels (m, q) and weights: the whole of it, but for the sides.

    Parameters
    ----------
    search : fitted search, or a model that learned its kernels
        Which stays as it is. Its parameters are those that it was fitted with, whatever was set since; groups and folds
        stay with their instances and tasks. Kernels that it tried and did not choose are decomposed once more.
    setting : Setting
        What it will be asked for.

    Returns
    -------
    callable
        Takes labels and their weights, or None, and returns a fitted search.
    """
    if hasattr(search, "_learned_for"):
        return partial(search._learned_for, setting)
    kept = copy.copy(search)
    kept.__dict__.update(search._solved_with)
    kept.progress = False
    sides, left_out = _sides(kept), _left_out(kept)

    def fitted(Y: Array, weights: Array | None) -> Search:
        again = copy.copy(kept)
        again._grid, again._weights, again._completion = replace(kept._grid, values=Y), weights, None
        found: Search = (again._choose_each_task if again.alpha_per_task else again._choose)(sides, left_out)
        return found

    return fitted


def _sides(search: Search) -> Sides:
    """Return the sides of all kernels that a search tries."""
    rows = _tried(search._side, search.kernel_grid, "instance")
    if search.symmetry is not None:
        return [[(side, side)] for side in rows]
    tasks = search._task_side
    columns: list[Any] = [None] if tasks is None else _tried(tasks, search.task_kernel_grid, "task")
    return [[(side, task_side) for task_side in columns] for side in rows]


def _tried(side: Side, grid: Any, name: str) -> list[Side]:
    """Return a side under each of some kernel parameters; the one that was chosen is there."""
    specs = [side.spec if grid is None else replace(side.spec, params=params) for params in grid or [None]]
    table = Table(side.features, side.ids, side.names)
    # Features are kept wherever parameters make a difference.
    alone = side.features is None or side.spec.is_linear
    return [side if alone or spec.params == side.spec.params else fit_side(table, spec, name) for spec in specs]


def _left_out(search: Search) -> LeftOut:
    """Return what a search leaves out together, of which it keeps the units."""
    setting, units, problem = search._searched_setting, search._units, search._problem()
    if setting is Setting.A and not search.alpha_per_task:
        return None, None, search.cv
    if problem.is_complete or search.alpha_per_task:
        return units.instances, units.tasks, None
    if _are_alike(plan(problem, setting, None, None, search.cv).units, units):
        return None, None, search.cv
    # Folds that groups or chance had a part in: each is a group of its own.
    n_folds = max(len(np.unique(side)) for side in (units.instances, units.tasks) if side is not None)
    return units.instances, units.tasks, SettingKFold(setting.value, n_folds)


def _are_alike(first: Units, second: Units) -> bool:
    return all(
        one is other or (one is not None and other is not None and np.array_equal(one, other))
        for one, other in (
            (first.instances, second.instances),
            (first.tasks, second.tasks),
            (first.cells, second.cells),
        )
    )

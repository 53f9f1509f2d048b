"""Refusing hold-out predictions that memory cannot hold, before anything is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn._array import Array, itemsize, to_numpy
from dyadlearn._estimates import (
    SideSize,
    cells_numbers,
    completion_numbers,
    folds_numbers,
    holdout_numbers,
    new_both_numbers,
    pairs_numbers,
)
from dyadlearn._threads import n_workers
from dyadlearn._validation import check_memory
from dyadlearn.holdout.problem import Problem
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum

__all__ = ["MANY_CELLS", "check_folds_memory", "check_holdout_memory", "check_new_both_memory", "side_sizes"]

# One solve for each cell, or one dense system of all cells, up to this many.
MANY_CELLS = 4096

_FEWER = "leave out fewer and larger groups, use fewer rows or float32, or a linear kernel on fewer features than rows"


def side_sizes(problem: Problem) -> list[SideSize]:
    """Return how large the sides of a problem are."""
    return [_size(side) for side in (problem.spectrum, problem.task_spectrum) if side is not None]


def _size(spectrum: Spectrum) -> SideSize:
    n, k = spectrum.n_rows, int(spectrum.values.shape[0])
    if spectrum.components is None:
        return SideSize(n, k, n, "gram")
    return SideSize(n, k, int(spectrum.components.shape[0]), "features" if spectrum.has_vectors else "sparse")


def check_holdout_memory(
    problem: Problem, setting: Setting, groups: Any, task_groups: Any, cells: Any, beside: float = 0.0
) -> None:
    """Refuse the hold-out predictions of a complete grid, or those of an incomplete one that need no folds.

    Parameters
    ----------
    problem, setting, groups, task_groups, cells : as in `dyadlearn.holdout.holdout`
    beside : float, default=0.0
        Numbers that are wanted beside the predictions.
    """
    method, shape, sides = problem.method, problem.Y.shape, side_sizes(problem)
    if not problem.is_complete:
        alone = groups is None and task_groups is None and cells is None
        if not alone or not (len(sides) == 1 or setting is Setting.A):
            return  # folds are counted where they are made
        observed, weighted = _observed(problem), problem.weights is not None
        # What is left out of single columns costs what completing them does; of pairs, a system of those observed.
        need = completion_numbers(method, shape, sides, observed, weighted)
        if len(sides) > 1:
            need = max(need, pairs_numbers(min(round(observed * shape[0] * shape[1]), MANY_CELLS)))
    elif cells is not None:
        need = cells_numbers(method, shape, sides, 2)
    elif method == "kronecker" and setting is Setting.D:
        check_new_both_memory(problem, 1)
        return
    else:
        largest = max((_largest(labels) for labels in (groups, task_groups) if labels is not None), default=1)
        need = holdout_numbers(method, setting.value, shape, sides, largest_group=largest)
    _refuse(need + beside, problem.Y, setting)


def check_new_both_memory(problem: Problem, n_alphas: int) -> None:
    """Refuse Kronecker hold-out of instance and task together for so many regularisations."""
    m, q = problem.Y.shape
    workers = n_workers(problem.Y, 4.0 * m * q * max(m, q) * min(m, q) * n_alphas)
    _refuse(new_both_numbers((m, q), side_sizes(problem), n_alphas, workers), problem.Y, Setting.D)


def check_folds_memory(problem: Problem, setting: Setting, n_folds: tuple[int, int], *, apart: bool) -> None:
    """Refuse to leave out so many folds of instances and of tasks (or of cells) and to solve again."""
    shape, sides, weighted = problem.Y.shape, side_sizes(problem), problem.weights is not None
    need = folds_numbers(
        problem.method, shape, sides, n_folds, apart=apart, observed=_observed(problem), weighted=weighted
    )
    _refuse(need, problem.Y, setting, f" in {n_folds[0] * n_folds[1]} folds")


def _observed(problem: Problem) -> float:
    """Return the share of the cells that is observed."""
    return 1.0 - float(np.isnan(to_numpy(problem.Y)).mean())


def _largest(labels: Any) -> int:
    """Return the size of the largest group; labels that cannot be told apart are refused elsewhere."""
    try:
        return int(np.unique(to_numpy(labels), return_counts=True)[1].max())
    except (TypeError, ValueError):
        return 1


def _refuse(numbers: float, Y: Array, setting: Setting, how: str = "") -> None:
    m, q = Y.shape
    check_memory(numbers * itemsize(Y), Y, f"Holding out setting {setting.value} of a grid of {m} × {q}{how}", _FEWER)

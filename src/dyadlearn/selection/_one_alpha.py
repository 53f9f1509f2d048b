"""Scores over the regularisations of models that have but one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn.holdout import Problem, holdout
from dyadlearn.holdout.kronecker_both import kronecker_new_both
from dyadlearn.holdout.memory import check_new_both_memory
from dyadlearn.holdout.two_step import Members
from dyadlearn.metrics import PreparedScorer
from dyadlearn.selection._progress import Progress
from dyadlearn.settings import Setting

__all__ = ["one_alpha"]


def one_alpha(
    problem: Problem,
    alphas: Sequence[float],
    scorers: Mapping[Setting, PreparedScorer],
    groups: Any,
    task_groups: Any,
    members: Members,
    task_members: Members,
    per_grid: int,
    bar: Progress,
) -> dict[str, np.ndarray]:
    """Score models with one regularisation.

    Parameters
    ----------
    problem : Problem
        With complete labels.
    alphas : sequence of float
    scorers : dict of Setting to PreparedScorer
    groups, task_groups : array-like of shape (m,) and (q,), or None
    members, task_members : the same, as positions
    per_grid : int
        How many grids of predictions may be held at once.
    bar : Progress

    Returns
    -------
    dict of str to array of shape (n_alphas,)
    """
    scores = {}
    for setting, score in scorers.items():
        values = np.empty(len(alphas))
        if problem.method == "kronecker" and setting is Setting.D:
            assert problem.task_spectrum is not None
            for start in range(0, len(alphas), per_grid):
                block = alphas[start : start + per_grid]
                check_new_both_memory(problem, len(block))
                stack = kronecker_new_both(
                    problem.spectrum, problem.task_spectrum, problem.Y, block, members, task_members
                )
                values[start : start + len(block)] = to_numpy(score(stack))
                bar.advance(len(block))
        else:
            for index, alpha in enumerate(alphas):
                held_out = holdout(
                    replace(problem, alpha=alpha, task_alpha=alpha),
                    setting,
                    groups=groups if setting.new_instance else None,
                    task_groups=task_groups if setting.new_task else None,
                )
                values[index] = score(held_out)
                bar.advance()
        scores[setting.value] = values
    return scores

"""Regularisation between and beyond the values of a grid, for squared error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn.holdout import Problem
from dyadlearn.metrics.choice import as_good
from dyadlearn.selection.landscape import MAX_MEMORY, scored
from dyadlearn.settings import Setting

__all__ = ["Refined", "refined_alphas"]


@dataclass(frozen=True)
class Refined:
    """The best regularisations found, and their score."""

    alpha: float
    task_alpha: float
    score: float


def refined_alphas(
    problem: Problem, setting: Setting, free: Sequence[bool], labels: dict[str, Any], *, digits: float = 1e-3
) -> Refined:
    """Minimise the mean squared error over the logarithms of the free regularisations.

    The simplex of Nelder and Mead starts at the regularisations of `problem` and needs no derivatives. Where nothing
    better than the start is found, but for rounding, the start is returned: it is the most regularised of its equals.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    free : (bool, bool)
        Which of `alpha` and `task_alpha` may move.
    labels : dict
        `groups` and `task_groups`, or None for each.
    digits : float, default=1e-3
        Accuracy of the logarithms.

    Returns
    -------
    Refined
    """
    from scipy.optimize import minimize

    own = list(problem.pairing.alphas.values())
    two = len(own) > 1
    start = np.array([*own, 1.0][:2])
    given = (labels["groups"], labels["task_groups"], None)
    options = {"max_memory": MAX_MEMORY, "progress": False}
    moving = np.flatnonzero([free[0] and start[0] > 0, free[1] and two and start[1] > 0])

    def error(logarithms: np.ndarray) -> float:
        point = start.copy()
        point[moving] = np.exp(np.clip(logarithms, -50.0, 50.0))
        scores = scored(problem, [point[0]], [point[1]], [setting], "neg_mean_squared_error", given, options)
        return -float(scores[setting.value].squeeze())

    if moving.size == 0:
        return Refined(float(start[0]), float(start[1]), -error(np.empty(0)))
    found = minimize(error, np.log(start[moving]), method="Nelder-Mead", options={"xatol": digits, "fatol": 0.0})
    first = -error(np.log(start[moving]))
    if bool(as_good(np.asarray(first), -float(found.fun))):
        return Refined(float(start[0]), float(start[1]), first)
    best = start.copy()
    best[moving] = np.exp(np.clip(found.x, -50.0, 50.0))
    return Refined(float(best[0]), float(best[1]), -float(found.fun))

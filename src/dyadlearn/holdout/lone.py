"""Labels that are the only ones of their task: what is not predicted without them, and is not scored.

Where tasks are independent, each takes its constant from labels of its own. If all of these are left out together,
nothing is predicted for them, whatever the regularisation: NaN. This is the one place that knows what follows: such
labels count as not observed wherever predictions are scored or drawn, and that is said.
"""

from __future__ import annotations

import warnings

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, to_numpy
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.holdout.problem import Problem
from dyadlearn.settings import Setting

__all__ = [
    "scored_labels",
    "warn_of_lone",
    "warn_of_lone_labels",
    "warn_of_tasks_without_labels",
    "warn_of_unlabelled",
]

_REMEDY = "use fit_intercept=False, or a model that knows tasks"


def scored_labels(
    problem: Problem, held_out: Array, setting: Setting, *, quiet: bool = False, stacklevel: int = 2
) -> Array:
    """Return the labels that held-out predictions are compared with: those that there is a prediction for.

    Parameters
    ----------
    problem : Problem or PairProblem
    held_out : array of shape (m, q), or (n,) of observed pairs
    setting : Setting
        For messages.
    quiet : bool, default=False
        Whether it is said elsewhere that labels are not scored.
    stacklevel : int, default=2
        Of the warning, as seen from here.

    Returns
    -------
    array of the same shape
        NaN where not observed, or not predicted for want of another label of the task.

    Raises
    ------
    ValueError
        If no label has a prediction.
    """
    lone = _lone(problem, held_out)
    if not lone.any():
        return problem.targets
    if np.array_equal(lone, ~np.isnan(to_numpy(problem.Y))):
        raise ValueError(
            f"Setting {setting.value} leaves out all labels of every task, of which none is left to take its constant "
            f"from: give more labels of a task, {_REMEDY}."
        )
    if not quiet:
        warn_of_lone(lone, problem.Y, setting, "they are not scored", stacklevel + 1)
    xp = namespace(problem.Y)
    return xp.where(as_array_of(lone, problem.Y), xp.full_like(problem.Y, float("nan")), problem.Y)


def warn_of_lone_labels(problem: Problem, held_out: Array, setting: Setting, stacklevel: int = 2) -> None:
    """Say which labels have no held-out prediction (m, q), if there are any."""
    warn_of_lone(_lone(problem, held_out), problem.Y, setting, "their predictions are NaN", stacklevel + 1)


def warn_of_tasks_without_labels(problem: Problem, stacklevel: int = 2) -> None:
    """Say which tasks have no label, where nothing is predicted for them."""
    if not problem.pairing.has_task_constants:
        return
    warn_of_unlabelled(np.isnan(to_numpy(problem.Y)).all(axis=0), stacklevel + 1)


def warn_of_unlabelled(without: np.ndarray, stacklevel: int = 2) -> None:
    """Say which tasks (q,) have no label and nothing is predicted for, if there are any."""
    if without.any():
        warnings.warn(
            f"{np.count_nonzero(without)} of {without.size} tasks (positions {_shown(without)}) have no label to take "
            f"their constant from: their predictions are NaN. Leave them out, {_REMEDY}.",
            NoLabelWarning,
            stacklevel=stacklevel + 1,
        )


def _lone(problem: Problem, held_out: Array) -> np.ndarray:
    """Tell which observed labels (m, q) are not predicted for want of another label of their task."""
    if not problem.pairing.has_task_constants:
        return np.zeros(tuple(problem.targets.shape), dtype=bool)
    return np.asarray(np.isnan(to_numpy(held_out)) & ~np.isnan(to_numpy(problem.Y)))


def warn_of_lone(lone: np.ndarray, Y: Array, setting: Setting, so: str, stacklevel: int = 2) -> None:
    """Say which labels (m, q) are the only ones of their tasks and what follows, if there are any."""
    if not lone.any():
        return
    observed = np.count_nonzero(~np.isnan(to_numpy(Y)))
    warnings.warn(
        f"In setting {setting.value}, {np.count_nonzero(lone)} of {observed} labels leave no other label of their task "
        f"(positions {_shown(np.any(lone, axis=0))}) to take its constant from: {so}. Give more labels of these tasks, "
        f"{_REMEDY}.",
        NoLabelWarning,
        stacklevel=stacklevel + 1,
    )


def _shown(tasks: np.ndarray) -> str:
    places = np.flatnonzero(tasks)
    return ", ".join(map(str, places[:5])) + (", …" if places.size > 5 else "")

"""Scores over all regularisations where labels are missing or weighted.

Exact leave-one-out where a shortcut exists; elsewhere folds are left out and solved again, each from the solution for
the regularisation before.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, to_numpy
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Problem, holdout
from dyadlearn.holdout.incomplete import FEW_CELLS, Folds, is_taken_apart, missing_block
from dyadlearn.holdout.labelled import labelled_part
from dyadlearn.holdout.memory import check_folds_memory
from dyadlearn.metrics import PreparedScorer
from dyadlearn.selection._progress import Progress
from dyadlearn.selection.splitters import SettingKFold
from dyadlearn.settings import Setting

__all__ = [
    "as_splitter",
    "fold_groups",
    "folds_of",
    "has_shortcut",
    "incomplete_landscape",
    "method_in_words",
    "model_holdout",
]

# Scores need no more digits than this, and the last ones are the dearest.
_SEARCH_TOL = 1e-5


def has_shortcut(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cv: Any) -> bool:
    """Tell whether leave-one-out needs no solving again though labels are missing."""
    used = (groups if setting.new_instance else None, task_groups if setting.new_task else None)
    if cv is not None or any(labels is not None for labels in used):
        return False
    if problem.task_spectrum is None or labelled_part(problem) is not None:
        return True
    n_observed = int(np.count_nonzero(~np.isnan(to_numpy(problem.Y))))
    has_block = problem.method == "two_step" and missing_block(problem) is not None
    return setting is Setting.A and (n_observed <= FEW_CELLS or has_block)


def folds_of(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cv: Any) -> Folds:
    """Return the folds to leave out and solve again.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), or None
        What is left out together.
    cv : int, SettingKFold or None
        Number of folds, or the folds; None is five.
    """
    splitter = as_splitter(cv, setting)
    # Folds of pairs count as those of instances.
    cut = (not setting.new_task or setting.new_instance, setting.new_task)
    n_folds = (splitter.n_splits if cut[0] else 1, splitter.n_splits if cut[1] else 1)
    check_folds_memory(problem, setting, n_folds, apart=is_taken_apart(problem, setting))
    splits = splitter.split_grid(
        *problem.Y.shape,
        groups=groups if setting.new_instance else None,
        task_groups=task_groups if setting.new_task else None,
    )
    return Folds(problem, setting, splits)


def method_in_words(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cv: Any) -> str:
    """Say how hold-out predictions are made, in so few words that a table of scores fits a terminal."""
    groups = groups if setting.new_instance else None
    task_groups = task_groups if setting.new_task else None
    grouped = groups is not None or task_groups is not None
    if cv is None and problem.is_complete:
        return "exact leave-group-out" if grouped else "exact leave-one-out"
    if problem.is_complete and setting is not Setting.A:
        return "exact leave-fold-out"
    if has_shortcut(problem, setting, groups, task_groups, cv):
        return "exact leave-one-out"
    n_splits = as_splitter(cv, setting).n_splits
    count = f"{n_splits}×{n_splits}" if setting is Setting.D else str(n_splits)
    return f"{count} folds, solved again"


def model_holdout(model: Any, setting: Setting, cv: int | None = None) -> tuple[Array, str]:
    """Predict every label as if a fitted model had never seen what the setting leaves out.

    Parameters
    ----------
    model : fitted model of a grid
    setting : Setting
    cv : int, default=None
        Number of folds where labels are missing or weighted; None takes what a search has kept for its own setting,
        else a shortcut where one exists, and five folds elsewhere.

    Returns
    -------
    predictions : array of shape (m, q)
    method : str
        How they were made, in words.
    """
    # A search answers in its own setting as it was chosen: with its groups and folds, and without solving again.
    keeps = cv is None and hasattr(model, "_kept_holdout")
    kept: tuple[Array, str] | None = model._kept_holdout(setting) if keeps else None
    if kept is not None:
        return kept
    problem: Problem = model._problem()
    cv = None if problem.is_complete else cv
    method = method_in_words(problem, setting, None, None, cv)
    if problem.is_complete or has_shortcut(problem, setting, None, None, cv):
        return model._held_out(setting), method
    return folds_of(problem, setting, None, None, cv).held_out(problem.alpha, problem.task_alpha), method


def fold_groups(cv: Any, setting: Setting, shape: tuple[int, int], groups: Any, task_groups: Any) -> list[Any]:
    """Return the folds of instances and of tasks as group labels (m,) and (q,), None for a side that is not cut."""
    cut = [setting.new_instance, setting.new_task]
    labels = [np.full(size, -1) for size in shape]
    given = {"groups": groups if cut[0] else None, "task_groups": task_groups if cut[1] else None}
    m, q = shape
    for number, (_, test) in enumerate(as_splitter(cv, setting).split_grid(m, q, **given)):
        for axis in range(2):
            labels[axis][test.any(axis=1 - axis)] = number
    return [found if used else None for found, used in zip(labels, cut, strict=True)]


def as_splitter(cv: Any, setting: Setting) -> SettingKFold:
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
    if cv is not None and (isinstance(cv, bool) or not isinstance(cv, int | np.integer)):
        raise TypeError(f"cv must be a number of folds or a SettingKFold, found {cv!r}.")
    return SettingKFold(setting, 5 if cv is None else int(cv), random_state=0)


def incomplete_landscape(
    problem: Problem,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    setting: Setting,
    score: PreparedScorer,
    labels: tuple[Any, Any, Any],
    bar: Progress,
) -> np.ndarray:
    """Score every regularisation in one setting.

    Parameters
    ----------
    problem : Problem
    alphas, task_alphas : sequences of float
    setting : Setting
    score : PreparedScorer
    labels : (groups, task_groups, cv)
    bar : Progress

    Returns
    -------
    array of shape (n_alphas, n_task_alphas), or (n_alphas,) for models with one regularisation
        NaN where the model interpolates what is to be left out; if it does so everywhere, that is raised.
    """
    one = problem.method != "two_step"
    scores, refusal = np.full((len(alphas), 1 if one else len(task_alphas)), np.nan), None
    folds = None if has_shortcut(problem, setting, *labels) else folds_of(problem, setting, *labels)
    tol, n_rough = max(problem.tol, _SEARCH_TOL), 0
    # From strong to weak, there and back again: neighbours on the path are neighbours in the grid.
    path = np.zeros(1, dtype=np.intp) if one else np.argsort(task_alphas)[::-1]
    for row in np.argsort(alphas)[::-1]:
        for column in path:
            alpha, task_alpha = alphas[row], alphas[row] if one else task_alphas[column]
            bar.advance()
            try:
                if folds is None:
                    held_out = holdout(replace(problem, alpha=alpha, task_alpha=task_alpha), setting)
                else:
                    with warnings.catch_warnings():
                        # Not once for each fold and regularisation, but all together below.
                        warnings.simplefilter("ignore", ConvergenceWarning)
                        held_out = folds.held_out(alpha, task_alpha, tol)
                    n_rough += not folds.converged
            except LeverageError as error:
                refusal = error
                continue
            scores[row, column] = score(held_out)
        path = path[::-1]
    if refusal is not None and np.isnan(scores).all():
        raise refusal
    if n_rough:
        warnings.warn(
            f"For {n_rough} of {scores.size} regularisations {problem.max_iter} conjugate-gradient iterations did not "
            f"reach a relative residual of {tol:g}, so that their scores are rough: raise max_iter, or leave out the "
            "smallest regularisations.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return scores[:, 0] if one else scores

"""Scores that do not exist: of some regularisations, which are NaN then, or of none."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from dyadlearn.holdout import Problem
from dyadlearn.holdout.groups import group_members
from dyadlearn.settings import Setting

__all__ = ["check_enough_labels", "warn_of_undefined", "where_defined"]


def check_enough_labels(problem: Problem, setting: Setting, groups: Any, task_groups: Any) -> None:
    """Refuse labels of which nothing is left to learn from where one thing, or one group, is left out.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), or None
        What is left out together.
    """
    shape = tuple(problem.Y.shape)
    # A complete grid is not looked through: a search in steps comes here often.
    observed = None if problem.is_complete else ~np.isnan(to_numpy(problem.Y))
    alone = setting is Setting.A and problem.task_spectrum is None and problem.method != "network"
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


def where_defined(
    score: Callable[[Sequence[float], Sequence[float]], np.ndarray],
    alphas: Sequence[float],
    task_alphas: Sequence[float],
) -> np.ndarray:
    """Score a grid of regularisations, NaN where the model interpolates what is to be left out.

    The grid is scored at one go. Only if that is refused it is halved, until the points that are to blame stand alone.

    Parameters
    ----------
    score : callable
        Takes values of both regularisations, returns scores (n_alphas, n_task_alphas), or (n_alphas,) whatever the
        second is, or raises `LeverageError`.
    alphas, task_alphas : sequences of float
        A single `task_alphas` where there is one regularisation.

    Returns
    -------
    array of shape (n_alphas, n_task_alphas) or (n_alphas,)

    Raises
    ------
    LeverageError
        If there is no point with a score.
    """
    try:
        return score(alphas, task_alphas)
    except LeverageError:
        if len(alphas) == len(task_alphas) == 1:
            raise
    by_rows = len(alphas) >= len(task_alphas)
    values = alphas if by_rows else task_alphas
    halves = [values[: len(values) // 2], values[len(values) // 2 :]]
    parts: list[np.ndarray | None] = []
    for half in halves:
        try:
            parts.append(where_defined(score, *((half, task_alphas) if by_rows else (alphas, half))))
        except LeverageError as error:
            parts.append(None)
            refusal = error
    found = next((part for part in parts if part is not None), None)
    if found is None:
        raise refusal
    axis = 0 if by_rows else 1
    shapes = [(*found.shape[:axis], len(half), *found.shape[axis + 1 :]) for half in halves]
    return np.concatenate(
        [np.full(shape, np.nan) if part is None else part for part, shape in zip(parts, shapes, strict=True)], axis
    )


def warn_of_undefined(
    scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float] | None, setting: str, stacklevel: int
) -> None:
    """Name the regularisations without a score, if there are any.

    Parameters
    ----------
    scores : array of shape (…, n_alphas, n_task_alphas), or (…, n_alphas) without `task_alphas`
    alphas, task_alphas : sequences of float, or None
    setting : str
    stacklevel : int
        Of the warning, as seen from here.
    """
    columns = [1.0] if task_alphas is None else task_alphas
    missing = np.isnan(scores).reshape(-1, len(alphas), len(columns)).any(axis=0)
    if not missing.any():
        return
    whole_rows, whole_columns = missing.all(axis=1), missing.all(axis=0) & (task_alphas is not None)
    words = [
        f"{name} {', '.join(f'{value:g}' for value in np.asarray(values)[whole])}"
        for name, values, whole in (("alpha", alphas, whole_rows), ("task_alpha", columns, whole_columns))
        if whole.any()
    ]
    single = np.argwhere(missing & ~whole_rows[:, None] & ~whole_columns)
    words += [f"alpha {alphas[row]:g} with task_alpha {columns[column]:g}" for row, column in single[:3]]
    more = f" and {len(single) - 3} more" if len(single) > 3 else ""
    warnings.warn(
        f"In setting {setting} there is no score for {'; '.join(words)}{more}, where the model interpolates what is to "
        "be left out, or the metric is undefined: NaN stands there, and is not chosen. Leave such values out.",
        UndefinedScoreWarning,
        stacklevel=stacklevel + 1,
    )

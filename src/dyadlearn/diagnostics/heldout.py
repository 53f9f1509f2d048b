"""Held-out predictions of a fitted model, however its labels allow them to be made."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_count
from dyadlearn._tables import Ids
from dyadlearn.holdout import Problem
from dyadlearn.selection.evaluate import model_holdout
from dyadlearn.settings import Setting, as_setting

__all__ = ["check_limit", "held_out", "labelled_model", "names_of"]


def labelled_model(model: Any) -> Any:
    """Return the fitted model of a grid, out of its wrapper if it has one; those that keep no labels are refused."""
    check_is_fitted(model)
    # A model of long tables wraps one of grids.
    model = getattr(model, "model_", model)
    if not hasattr(model, "_grid"):
        raise ValueError(
            f"This {type(model).__name__} keeps statistics instead of the labels, so there is nothing to compare "
            "predictions with: fit TwoStepRidge on the labels."
        )
    return model


def held_out(model: Any, setting: str | Setting, cv: int | None = None) -> tuple[np.ndarray, str]:
    """Predict every label as if the model had never seen what the setting leaves out.

    Parameters
    ----------
    model : fitted model of a grid
    setting : str or Setting
    cv : int, default=None
        Number of folds where labels are missing or weighted and no shortcut exists; None is five.

    Returns
    -------
    predictions : array of shape (m, q)
    method : str
        How they were made, in words.
    """
    problem: Problem = model._problem()
    setting = as_setting(setting)
    if setting.new_task and not problem.pairing.knows_tasks:
        raise ValueError(f"This model knows nothing of tasks: setting {setting.value} needs them, A and B do not.")
    values, method = model_holdout(model, setting, cv)
    return to_numpy(values), method


def names_of(ids: Ids | None, positions: np.ndarray) -> tuple[Hashable, ...]:
    """Return the ids at some positions, or the positions themselves where there are no ids."""
    return tuple(positions.tolist()) if ids is None else tuple(ids.labels[place] for place in positions)


def check_limit(k: int | None) -> None:
    """Refuse a number of answers that is none."""
    if k is not None:
        check_count(k, "k")

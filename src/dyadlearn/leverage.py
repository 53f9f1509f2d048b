"""Errors about leverage 1: labels that a model fits exactly, whatever they are, cannot be held out."""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, namespace, to_numpy
from dyadlearn._tables import shown
from dyadlearn.exceptions import LeverageError, NothingLeftError

__all__ = ["check_cells", "interpolation_error", "leverage_error", "nothing_left"]


def nothing_left() -> NothingLeftError:
    """Return the error for labels that are all left out at once."""
    return NothingLeftError(
        "No label remains to learn from, because all of them are left out at once, with 1 sample, "
        "1 task, 1 group, or an instance and a task together: give labels of more instances and "
        "tasks, or use more folds or smaller groups."
    )


def leverage_error(positions: np.ndarray, total: int, what: str) -> LeverageError:
    """Return the error for rows, cells or pairs with leverage 1."""
    if total == 1:
        return nothing_left()  # no regularisation helps
    return interpolation_error(positions, total, what)


def interpolation_error(positions: np.ndarray, total: int, what: str) -> LeverageError:
    """Return the error for rows, cells or pairs with leverage 1 beside other labels."""
    return LeverageError(
        f"{len(positions)} of {total} {what} have leverage 1 (positions "
        f"{shown(positions.tolist(), 10)}): the model "
        "interpolates them, so that they cannot be predicted when they are left out. Use a larger "
        "alpha."
    )


def check_cells(slack: Array, floor: float, what: str = "cells") -> None:
    """Raise `LeverageError` if a cell, a row or a pair has leverage 1.

    Parameters
    ----------
    slack : array of shape (m, q) or (m,)
        Diagonal of the residual operator of a grid, or of a side.
    floor : float
        Lower bound of the slack.
    what : {"cells", "rows", "pairs"}
        What the entries are, for the message.
    """
    if float(namespace(slack).min(slack)) <= floor:
        tight = to_numpy(slack) <= floor
        raise leverage_error(np.flatnonzero(tight), tight.size, what)

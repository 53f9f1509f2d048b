r"""Functions of a model with missing or weighted labels: completion and hold-out.

Most are `functools.singledispatch` functions of a model. The defaults work for every `Coupled`
model by its grid operators. A model registers its formulas in its module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.pairing.base import Pairing, operators_of
from dyadlearn.pairing.expansion import Expansion
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.directions import CellsFit, suit_directions
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import complete_grid

Axes = tuple[np.ndarray, np.ndarray]


def complete_labels(
    model: Pairing,
    Y: Array,
    weights: Array | None = None,
    start: Completion | None = None,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Completion:
    """Complete labels so that the closed form on the completed labels equals the fit on the observed ones.

    Warns if conjugate gradients did not converge.

    Parameters
    ----------
    model : Pairing
    Y : array of shape (m, q)
        Labels; NaN where missing.
    weights : array of shape (m, q), default=None
        Positive weight of each observed cell in the squared loss.
    start : Completion, default=None
        Solution of a similar problem.
    tol, max_iter : float and int
        Tolerance and maximum number of conjugate gradient iterations.
    """
    completed = completion(model, Y, weights, start=start, tol=tol, max_iter=max_iter)
    warn_unless_converged(completed.solution, tol)
    if not model.symmetry:
        return completed
    # Rounding must not break the symmetry.
    return replace(completed, labels=(completed.labels + model.symmetry * completed.labels.T) / 2)


@singledispatch
def completion(model: Pairing, Y: Array, weights: Array | None, **options: Any) -> Completion:
    """Return the completion of `complete_labels` without its warning; same arguments."""
    return complete_grid(operators_of(model), Y, weights, **options)


@singledispatch
def has_formula(model: Pairing, labels: Labels, setting: Setting) -> bool:
    """Return whether `leave_one_out` has a formula for missing or weighted labels.

    The default has one in setting A for a few directions with little regularisation, for which an
    inverse over the pairs would lose digits.
    """
    if setting is not Setting.A or model.symmetry:
        return False
    return suit_directions(operators_of(model), labels.size, labels.largest_weight)


@singledispatch
def leave_one_out(
    model: Pairing, labels: Labels, setting: Setting, completed: Callable[[], Array]
) -> Array:
    """Return leave-one-out predictions, of the shape of the labels' values, where `has_formula` is True.

    Parameters
    ----------
    model : Pairing
    labels : Labels
    setting : Setting
    completed : callable
        Function that returns the completed labels, shape (m, q), which contain the predictions of
        missing labels.
    """
    operators = operators_of(model)
    check_mean_of_others(model, labels)
    y = labels.listed().values
    shift = operators.shift_of(y)
    fit = CellsFit.of(operators, labels, y - shift)
    held_out = labels.shaped(fit.leave_one_out() + shift)
    if not labels.has_missing:
        return held_out
    observed = as_array_of(labels.observed, held_out)
    return namespace(held_out).where(observed, held_out, completed())


def check_mean_of_others(model: Pairing, labels: Labels) -> None:
    """Raise if only one pair is observed and the model has an unpenalised mean, which it determines alone."""
    rows, columns = labels.places
    n_pairs = np.count_nonzero(rows <= columns) if model.symmetry else labels.size
    if operators_of(model).free_mean and n_pairs < 2:
        raise nothing_left()


@singledispatch
def rows_leave_kernels(model: Pairing, setting: Setting) -> bool:
    """Return whether held-out rows must also leave the kernels (two-step), not only lose their labels."""
    return False


@singledispatch
def part_of(model: Pairing, axes: Axes, spectra: Any, sides: Any = None) -> Pairing:
    """Return the model of some rows and columns.

    Parameters
    ----------
    model : Pairing
        Model for which `rows_leave_kernels` is True.
    axes : (integer array, integer array)
        Positions of the rows and columns to keep.
    spectra : dict
        Cache of the spectra of parts, for all λ.
    sides : dict, default=None
        Cache of the smoothers and products of a side for one λ, which parts with the same rows or
        columns share.
    """
    raise NotImplementedError(
        f"{type(model).__name__} has no part: register one, or let rows stay in the kernels."
    )


@singledispatch
def predict_outside(model: Pairing, axes: Axes, completed: Array) -> Array:
    """Return the predictions of a completed part for the rows and columns outside of it, as a grid (m, q)."""
    raise NotImplementedError(
        f"{type(model).__name__} has no part: register one, or let rows stay in the kernels."
    )


@singledispatch
def expansion_of_fold(model: Pairing, axes: Axes | None, completed: Array) -> Expansion:
    """Return the predictions for new instances by the model without the instances of a fold.

    Parameters
    ----------
    model : Pairing
    axes : (integer array, integer array) or None
        Positions of the training rows and columns, if `rows_leave_kernels` is True for the model.
    completed : array
        Completed labels of the fold.
    """
    return model.expansion(model.coefficients(completed))


@singledispatch
def without_unlabelled(model: Pairing, rows: np.ndarray, columns: np.ndarray) -> Pairing | None:
    """Return the model of the rows and columns with labels; None if unlabelled ones influence the model."""
    return None


@singledispatch
def hold_out_unlabelled(
    model: Pairing,
    whole: Pairing,
    Y: Array,
    setting: Setting,
    rows: np.ndarray,
    columns: np.ndarray,
) -> list[tuple[Array, np.ndarray, np.ndarray]]:
    """Return hold-out predictions of labelled rows in unlabelled columns, and of labelled columns in unlabelled rows.

    Parameters
    ----------
    model : Pairing
        Model of the labelled rows and columns.
    whole : Pairing
        Model of the whole grid.
    Y : array
        Labels of the labelled rows and columns.
    setting : Setting
    rows, columns : integer arrays
        Positions of the labelled rows and columns in the grid.

    Returns
    -------
    list of (values, rows, columns)
    """
    return []

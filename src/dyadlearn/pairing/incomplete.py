r"""Functions of a model with missing or weighted labels: completion, hold-out and the weights of labels.

Most are `functools.singledispatch` functions of a model. The defaults work for every `Coupled` model by its grid
operators. A model registers its formulas in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any

import numpy as np

from dyadlearn._array import Array, largest, namespace, placed, take_rows, to_numpy, zeros
from dyadlearn._rounding import solve_block
from dyadlearn.pairing.base import Pairing, working
from dyadlearn.pairing.expansion import Expansion, weights_of_observed
from dyadlearn.pairing.full import cell_units, closed_weights
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.directions import CellsFit, suit_directions
from dyadlearn.solve.leaving import inverse_with_border, leave_units_out
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import complete_grid
from dyadlearn.spectrum import leverage_error, nothing_left

#: Maximum number of observed cells for exact leave-one-out: for a single λ, and for a search over λ.
MANY_CELLS, FEW_CELLS = 4096, 1024

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
    warn_unless_converged(completed.solution, tol, stacklevel=3)
    if not model.symmetry:
        return completed
    # Rounding must not break the symmetry.
    return replace(completed, labels=(completed.labels + model.symmetry * completed.labels.T) / 2)


@singledispatch
def completion(model: Pairing, Y: Array, weights: Array | None, **options: Any) -> Completion:
    """Return the completion of `complete_labels` without its warning; same arguments."""
    return complete_grid(working(model), Y, weights, **options)


@singledispatch
def label_weights(
    model: Pairing, pairs: Any, Y: Array, weights: Array | None, tol: float = 1e-8, max_iter: int = 1000
) -> Iterator[Array]:
    """Yield the weight of each label in the prediction for each of some pairs; zero for missing labels.

    Parameters
    ----------
    model : Pairing
    pairs : sequence of (instance, task)
        Each is a position in training (int), or one new row (NewRows).
    Y, weights, tol, max_iter : as in `complete_labels`

    Yields
    ------
    array of shape (m, q)
    """
    operators = working(model)
    if operators.ridge == 0:
        weights = None  # a model that interpolates fits the labels whatever their weights
    is_complete = weights is None and not bool(namespace(Y).any(namespace(Y).isnan(Y)))
    for row, column in pairs:
        closed = closed_weights(model, row, column)
        yield closed if is_complete else weights_of_observed(operators, closed, Y, weights, tol, max_iter)


@singledispatch
def is_quick_one_by_one(model: Pairing, Y: Array, weights: Array | None, setting: Setting) -> bool:
    """Return whether `leave_one_out` has a formula that is fast enough for a search."""
    return setting is Setting.A and int(np.count_nonzero(~np.isnan(to_numpy(Y)))) <= FEW_CELLS


@singledispatch
def leave_one_out(
    model: Pairing, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
) -> Array | None:
    r"""Return leave-one-out predictions (m, q) without solving again; None if there is no formula.

    The default covers setting A, from one dense system of all observed cells. With
    :math:`\mathbf{P}` the pairwise kernel, :math:`c` the ridge and
    :math:`\mathbf{Q} = (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))^{-1}` the prediction is
    :math:`-\sum_{j\ne i}Q_{ij}y_j/Q_{ii}`, which is accurate however small it is. With an unpenalised mean,
    :math:`\mathbf{Q11}^\top\mathbf{Q}/\mathbf{1}^\top\mathbf{Q1}` is subtracted from :math:`\mathbf{Q}`.

    Parameters
    ----------
    model : Pairing
    Y, weights : as in `complete_labels`
    setting : Setting
    completed : callable
        Function that returns the completed labels, shape (m, q), which contain the predictions of missing labels.
    """
    if setting is not Setting.A:
        return None
    operators, observed = working(model), ~np.isnan(to_numpy(Y))
    check_mean_of_others(model, observed)
    if observed.sum() > MANY_CELLS:
        raise ValueError(
            f"Leaving out each of {observed.sum()} observed cells by itself takes too long where labels are "
            "missing: give cells=, a fold for each cell, so that a few folds are left out instead."
        )
    if operators.interpolates:
        raise ValueError("Leaving out single cells where labels are missing needs regularisation: use alpha > 0.")
    xp, flat = namespace(Y), np.flatnonzero(observed)
    y = take_rows(xp.reshape(Y, (-1,)), flat)
    ones = xp.ones_like(y) if weights is None else take_rows(xp.reshape(weights, (-1,)), flat)
    shift = xp.mean(y) if operators.free_mean else zeros((), y)
    if not model.symmetry and suit_directions(operators, flat.size, largest(ones)):
        rows, columns = np.nonzero(observed)
        held_out = CellsFit(operators, rows, columns, y - shift, ones**0.5).leave_one_out() + shift
        return xp.where(xp.isnan(Y), completed(), xp.reshape(placed([held_out], [flat], observed.size), Y.shape))
    system, border, penalties = operators.split_kernel(*np.nonzero(observed))
    eye = xp.eye(flat.size, dtype=system.dtype, device=system.device)
    refusal = partial(leverage_error, flat, observed.size, "cells form a set that")
    inverse = solve_block(system + operators.ridge * eye / ones, eye, 0.0, operators.is_graded, refusal)
    if operators.free_mean:
        inverse = inverse_with_border(inverse, border, penalties)
    units = cell_units(model, *np.nonzero(observed))
    held_out = leave_units_out(inverse, (y - shift)[:, None], units)[:, 0] + shift
    return xp.where(xp.isnan(Y), completed(), xp.reshape(placed([held_out], [flat], observed.size), Y.shape))


def check_mean_of_others(model: Pairing, observed: np.ndarray) -> None:
    """Raise if only one pair is observed and the model has an unpenalised mean, which it determines alone."""
    if working(model).free_mean and np.count_nonzero(np.triu(observed) if model.symmetry else observed) < 2:
        raise nothing_left()


@singledispatch
def takes_apart(model: Pairing, setting: Setting) -> bool:
    """Return whether held-out rows must also leave the kernels (two-step), not only lose their labels."""
    return False


@singledispatch
def part_of(model: Pairing, axes: Axes, spectra: Any, sides: Any = None) -> Pairing:
    """Return the model of some rows and columns.

    Parameters
    ----------
    model : Pairing
        Model for which `takes_apart` is True.
    axes : (integer array, integer array)
        Positions of the rows and columns to keep.
    spectra : dict
        Cache of the spectra of parts, for all λ.
    sides : dict, default=None
        Cache of the smoothers and products of a side for one λ, which parts with the same rows or columns share.
    """
    raise NotImplementedError(f"{type(model).__name__} has no part: register one, or let rows stay in the kernels.")


@singledispatch
def predict_outside(model: Pairing, axes: Axes, completed: Array) -> Array:
    """Return the predictions of a completed part for the rows and columns outside of it, as a grid (m, q)."""
    raise NotImplementedError(f"{type(model).__name__} has no part: register one, or let rows stay in the kernels.")


@singledispatch
def expansion_of_fold(model: Pairing, axes: Axes | None, completed: Array) -> Expansion:
    """Return the predictions for new instances by the model without the instances of a fold.

    Parameters
    ----------
    model : Pairing
    axes : (integer array, integer array) or None
        Positions of the training rows and columns, if `takes_apart` is True for the model.
    completed : array
        Completed labels of the fold.
    """
    return model.expansion(model.coefficients(completed))


@singledispatch
def without_unlabelled(model: Pairing, rows: np.ndarray, columns: np.ndarray) -> Pairing | None:
    """Return the model of the rows and columns with labels; None if unlabelled ones influence the model."""
    return None


@singledispatch
def beside_labelled(
    model: Pairing, whole: Pairing, Y: Array, setting: Setting, rows: np.ndarray, columns: np.ndarray
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

r"""Questions about a model of missing or weighted labels: completion, hold-out and the weights of labels.

Each is a `functools.singledispatch` function of a model, or a function of some. The defaults work for every `Coupled`
model by its grid operators. A model registers its formulas in its own module.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace, take_rows, to_numpy, zeros
from dyadlearn._rounding import solve_block
from dyadlearn.pairing.base import Pairing, working
from dyadlearn.pairing.expansion import Asked, Expansion, weights_of_observed
from dyadlearn.pairing.full import cell_units, closed_weights
from dyadlearn.pairing.leaving import nothing_left
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.leaving import inverse_with_border, leave_units_out
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import complete_grid
from dyadlearn.spectrum import leverage_error

#: The most observed cells that are left out one by one: for a single λ, and for one λ after the other.
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
    """Complete labels, so that the closed form on them is the model of those observed.

    A warning is given if conjugate gradients did not converge.

    Parameters
    ----------
    model : Pairing
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q), default=None
        Of the squared loss of each observed cell, positive there.
    start : Completion, default=None
        Of a problem nearby.
    tol, max_iter : float and int
        When conjugate gradients stop.
    """
    found = completion(model, Y, weights, start=start, tol=tol, max_iter=max_iter)
    warn_unless_converged(found.solution, tol, stacklevel=3)
    if not model.symmetry:
        return found
    # Rounding must not break the symmetry.
    return replace(found, labels=(found.labels + model.symmetry * found.labels.T) / 2)


@singledispatch
def completion(model: Pairing, Y: Array, weights: Array | None, **options: Any) -> Completion:
    """Return what `complete_labels` does, of the same arguments."""
    return complete_grid(working(model), Y, weights, **options)


@singledispatch
def label_weights(
    model: Pairing,
    row: Asked,
    column: Asked,
    Y: Array,
    weights: Array | None,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
) -> Array:
    """Return the weight of each label in the prediction for one pair, zero where none is observed.

    Parameters
    ----------
    model : Pairing
    row, column : int or NewRows
        The instance and the task: a position in training, or one new row.
    Y, weights, tol, max_iter : as in `complete_labels`

    Returns
    -------
    array of shape (m, q)
    """
    found = closed_weights(model, row, column)
    if weights is None and not bool(namespace(Y).any(namespace(Y).isnan(Y))):
        return found
    return weights_of_observed(working(model), found, Y, weights, tol, max_iter)


@singledispatch
def is_quick_one_by_one(model: Pairing, Y: Array, weights: Array | None, setting: Setting) -> bool:
    """Return whether `leave_one_out` has a formula and costs little."""
    return setting is Setting.A and int(np.count_nonzero(~np.isnan(to_numpy(Y)))) <= FEW_CELLS


@singledispatch
def leave_one_out(
    model: Pairing, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
) -> Array | None:
    r"""Return leave-one-out predictions (m, q) without solving again; None if there is no formula.

    By default it is setting A for each observed cell, from one dense system of all observed cells. With
    :math:`\mathbf{P}` the pairwise kernel, :math:`c` the ridge and
    :math:`\mathbf{Q} = (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))^{-1}` the prediction is
    :math:`-\sum_{j\ne i}Q_{ij}y_j/Q_{ii}`, which loses no digits however small it is. With a free mean
    :math:`\mathbf{Q}` loses :math:`\mathbf{Q11}^\top\mathbf{Q}/\mathbf{1}^\top\mathbf{Q1}`.

    Parameters
    ----------
    model : Pairing
    Y, weights : as in `complete_labels`
    setting : Setting
    completed : callable
        Returns the completed labels, shape (m, q): the predictions of cells that are not observed.
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
    if operators.ridge == 0 or operators.floor > 0:
        raise ValueError("Leaving out single cells where labels are missing needs regularisation: use alpha > 0.")
    xp, flat = namespace(Y), np.flatnonzero(observed)
    y = take_rows(xp.reshape(Y, (-1,)), flat)
    system, border, penalties = operators.split_kernel(*np.nonzero(observed))
    ones = xp.ones_like(y) if weights is None else take_rows(xp.reshape(weights, (-1,)), flat)
    eye = xp.eye(flat.size, dtype=system.dtype, device=system.device)
    refusal = partial(leverage_error, flat, observed.size, "cells form a set that")
    inverse = solve_block(system + operators.ridge * eye / ones, eye, 0.0, operators.is_graded, refusal)
    shift = zeros((), y)
    if operators.free_mean:
        inverse, shift = inverse_with_border(inverse, border, penalties), xp.mean(y)
    units = cell_units(model, *np.nonzero(observed))
    held_out = leave_units_out(inverse, (y - shift)[:, None], units)[:, 0] + shift
    everything = xp.concat([held_out, xp.reshape(completed(), (-1,))])
    places = np.arange(observed.size) + flat.size
    places[flat] = np.arange(flat.size)
    return xp.reshape(take_rows(everything, places), Y.shape)


def check_mean_of_others(model: Pairing, observed: np.ndarray) -> None:
    """Raise if a single pair is observed (m, q), which alone determines a free mean."""
    if working(model).free_mean and np.count_nonzero(np.triu(observed) if model.symmetry else observed) < 2:
        raise nothing_left()


@singledispatch
def takes_apart(model: Pairing, setting: Setting) -> bool:
    """Return whether held-out rows must also leave the kernels, because hiding their labels is not the same."""
    return False


@singledispatch
def part_of(model: Pairing, axes: Axes, spectra: Any, sides: Any = None) -> Pairing:
    """Return the model of some rows and columns.

    Parameters
    ----------
    model : Pairing
        That `takes_apart`.
    axes : (integer array, integer array)
        Those that stay.
    spectra : dict
        Caches the spectra of parts that are fitted again, which all λ share.
    sides : dict, default=None
        Caches sides under a λ and their products, where other parts may have the same rows or the same columns.
    """
    raise NotImplementedError(f"{type(model).__name__} has no part: register one, or let rows stay in the kernels.")


@singledispatch
def predict_outside(model: Pairing, axes: Axes, completed: Array) -> Array:
    """Return, as a grid (m, q), the predictions of a completed part for the rows and columns that left it."""
    raise NotImplementedError(f"{type(model).__name__} has no part: register one, or let rows stay in the kernels.")


@singledispatch
def expansion_of_fold(model: Pairing, axes: Axes | None, completed: Array) -> Expansion:
    """Return the predictions for new instances by the model of a fold that some instances have left.

    Parameters
    ----------
    model : Pairing
    axes : (integer array, integer array) or None
        The rows and columns that stayed, for a model that `takes_apart`.
    completed : array
        Labels of the fold, completed.
    """
    return model.expansion(model.coefficients(completed))


@singledispatch
def without_unlabelled(model: Pairing, rows: np.ndarray, columns: np.ndarray) -> Pairing | None:
    """Return the model of the rows and columns that have labels; None if the others matter to it."""
    return None


@singledispatch
def beside_labelled(
    model: Pairing, whole: Pairing, Y: Array, setting: Setting, rows: np.ndarray, columns: np.ndarray
) -> list[tuple[Array, np.ndarray, np.ndarray]]:
    """Return the predictions for held-out rows and columns of a labelled part where nothing is labelled.

    Parameters
    ----------
    model : Pairing
        Of the labelled part.
    whole : Pairing
        Of the grid around it.
    Y : array
        Labels of the part.
    setting : Setting
    rows, columns : integer arrays
        Where the part lies.

    Returns
    -------
    list of (values, rows, columns)
    """
    return []

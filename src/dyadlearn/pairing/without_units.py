r"""Models without each unit of instances where labels are missing or weighted, from one inverse over the labels.

The model without the labels S of a unit is the model of the labels :math:`\mathbf{y}'`, in which
the held-out predictions :math:`\hat{\mathbf{y}}_S` take the place of :math:`\mathbf{y}_S`. With the
inverse N of `dyadlearn.solve.inverse` and :math:`\mathbf{e}_S = \mathbf{y}_S - \hat{\mathbf{y}}_S`,
its dual coefficients are

.. math:: \mathbf{a}^{(S)} = \mathbf{N}\mathbf{y}' = \mathbf{a} - \mathbf{N}_{\cdot S}\,\mathbf{e}_S ,

which are zero for S. That takes :math:`n^2` multiplications for each unit. The same holds,
with other matrices, for the coefficients of the features of pairs and for the completed labels of a
grid. So each route of `dyadlearn.pairing.inverses` has models of its own form:

=====================  ==============================================================================================
route                  models
=====================  ==============================================================================================
"cells", "spectrum"    dual coefficients of the n observed pairs; the labels of each task are summed first
"features"             coefficients of the features of both sides
"missing"              coefficients of both sides, from completed labels
=====================  ==============================================================================================

For a new instance x, with the shares a and b of a pair kernel (the share c belongs to training
instances),

.. math:: f^{(S)}(x, t) = \sum_{t'} \left(a\,g_{tt'} + b\,[t=t']\right)
          \sum_{j:\,t_j = t'} k(x, i_j)\,a^{(S)}_j + \mu^{(S)} .
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, placed, take_rows
from dyadlearn._work import products
from dyadlearn.labels import Labels
from dyadlearn.pairing.base import Coupled, Pairing, operators_of
from dyadlearn.pairing.certainty import Jackknife, fold_jackknife
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.inverses import fixed_values
from dyadlearn.solve.factor_inverse import FeatureInverse
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.leaving import members_of
from dyadlearn.solve.missing_inverse import MissingInverse


@dataclass(frozen=True, eq=False)
class UnitsLeftOut:
    """Labels with their held-out predictions for units of instances.

    Attributes
    ----------
    labels : Labels
        Training labels, a grid or a list.
    centred, held_out : arrays of shape (n,)
        Observed labels, and their predictions by the model without their unit, both minus the
        shift.
    shift : float
    units : integer array of shape (m,)
        Unit of each instance, from 0 to u - 1.
    """

    labels: Labels
    centred: Array
    held_out: Array
    shift: float
    units: np.ndarray

    @property
    def n_units(self) -> int:
        """Number u of units."""
        return int(self.units.max()) + 1

    @property
    def given(self) -> tuple[Array, Array, np.ndarray, int]:
        """Labels, held-out predictions, the unit of each label, and the number of units."""
        return self.centred, self.held_out, self.units[self.labels.places[0]], self.n_units

    @property
    def changed(self) -> Array:
        """Labels (n, u) in which held-out predictions replace those of each unit."""
        labels, held_out, units, n_units = self.given
        is_own = as_array_of(units[:, None] == np.arange(n_units)[None, :], labels)
        return namespace(labels).where(is_own, held_out[:, None], labels[:, None])

    @property
    def members(self) -> list[np.ndarray]:
        """Row positions of each unit."""
        return members_of(self.units)

    @property
    def grid(self) -> Array:
        """Held-out predictions (m, q); NaN where a label is missing."""
        rows, columns = self.labels.places
        m, q = self.labels.shape
        flat = placed([self.held_out + self.shift], [rows * q + columns], m * q)
        return namespace(flat).reshape(flat, (m, q))


def models_cost(model: Pairing, labels: Labels, n_units: int, name: str) -> tuple[float, float]:
    """Return the multiplications for all models of a route, and the number of values that they take.

    Parameters
    ----------
    model : Pairing
    labels : Labels
    n_units : int
    name : {"features", "cells", "spectrum", "missing", "labelled"}
        Name of the route; "labelled" is the closed form of the rows and columns with labels.
    """
    operators = operators_of(model)
    m, q = labels.shape
    k, r = operators.n_directions
    n = labels.size
    # Unknowns of a model.
    size = {"features": k * r, "missing": m * q - n}.get(name, n)
    if name in ("features", "missing"):
        solving = products((n, size), (n_units, size, size))
    else:
        solving = products((n_units, n, n))
        if operators.shares is not None:
            return solving, products((3, n_units, n))
    expanding = products((2, n_units, k, r, max(m, q)))
    if name != "features":
        expanding += products((2, n_units, m, q, min(k, r)))
    n_coefficients = math.prod(side.n_coefficients for side in operators.grid_spectra)
    return solving + expanding, products((3, n_units, size), (n_units, n_coefficients))


def models_by_inverse(model: Pairing, inverse: Inverse, left: UnitsLeftOut) -> Jackknife:
    """Return the models without each unit.

    Parameters
    ----------
    model : Pairing
    inverse : Inverse
        Inverse of the system of the observed labels.
    left : UnitsLeftOut
    """
    operators = operators_of(model)
    if isinstance(inverse, MissingInverse):
        grids = inverse.completed_without(*left.given)
        models = [model.expansion(model.coefficients(grid + left.shift)) for grid in grids]
        return fold_jackknife(left.grid, left.members, models)
    if isinstance(inverse, FeatureInverse):
        coefficients = inverse.coefficients_without(*left.given)
        shape = tuple(operators.ranks)
        n_products = math.prod(shape)
        fixed = operators.fixed_part(1, coefficients).columns @ coefficients[n_products:, :]
        xp = namespace(coefficients)
        models = []
        for unit in range(left.n_units):
            spectral = xp.reshape(coefficients[:n_products, unit], shape)
            mean = float(fixed[0, unit]) + left.shift
            models.append(model.expansion(operators.coefficients_of(spectral, mean)))
        return fold_jackknife(left.grid, left.members, models)
    duals = inverse.duals_without(*left.given, operators.ridge)
    return models_of_duals(model, duals, left)


def models_of_duals(model: Pairing, duals: Array, left: UnitsLeftOut) -> Jackknife:
    """Return the models without each unit from their dual coefficients.

    Parameters
    ----------
    model : Pairing
    duals : array of shape (n, u)
        Dual coefficients of the observed labels.
    left : UnitsLeftOut
    """
    operators = operators_of(model)
    listed = left.labels.listed()
    xp = namespace(duals)
    means = fixed_values(operators, listed, left.changed, duals) + left.shift
    if operators.shares is not None:
        return _models_of_kernel(operators, listed, duals, means, left)
    flat = listed.places[0] * listed.shape[1] + listed.places[1]
    models = []
    for unit in range(left.n_units):
        grid = placed([duals[:, unit]], [flat], operators.n_cells, 0.0)
        spectral = operators.rotated(xp.reshape(grid, listed.shape)) * operators.kernel_values**0.5
        models.append(model.expansion(operators.coefficients_of(spectral, float(means[unit]))))
    return fold_jackknife(left.grid, left.members, models)


def _models_of_kernel(
    operators: Coupled, labels: Labels, duals: Array, means: Array, left: UnitsLeftOut
) -> Jackknife:
    """Return the models of a pair kernel by their dual coefficients.

    Parameters
    ----------
    operators : Coupled
        Model with `shares`.
    labels : Labels
        List of the n labels.
    duals : array of shape (n, u)
    means : array of shape (u,)
    left : UnitsLeftOut
    """
    assert operators.shares is not None
    product, per_task, _ = operators.shares
    rows, columns = labels.places
    spectrum, tasks = operators.grid_spectra
    distinct, place = np.unique(rows, return_inverse=True)
    labelled = np.unique(columns)
    every = np.arange(tasks.n_rows)
    of_tasks = product * tasks.block(tasks.values, every, labelled)
    of_tasks += per_task * as_array_of(every[:, None] == labelled[None, :], duals, duals.dtype)
    # The labels of each task, as rows and as dual coefficients.
    parts = [(place[at], take_rows(duals, at)) for at in members_of(columns)]

    def predict(rows: NewRows) -> Array:
        """Return the predictions (a, q, u) of all models for a new rows."""
        along = spectrum.project(rows.block(rows.values))
        xp = namespace(along)
        # Along null directions, kernel rows are only rounding.
        along = along * xp.astype(spectrum.values > 0, along.dtype)
        kernel = (along @ take_rows(spectrum.vectors, distinct).T).T
        sums = xp.stack([take_rows(kernel, at).T @ coefficients for at, coefficients in parts])
        n_labelled, a, u = sums.shape
        predictions = of_tasks @ xp.reshape(sums, (n_labelled, a * u))
        predictions = xp.reshape(predictions, (-1, a, u)) + means
        return xp.permute_dims(predictions, (1, 0, 2))

    numbers = len(parts) * int(duals.shape[1]) + 2 * spectrum.n_rows
    return Jackknife(left.grid, left.members, numbers, predict)

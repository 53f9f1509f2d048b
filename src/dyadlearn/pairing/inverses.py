r"""Inverses of the system of the observed labels that a model has, with their cost, for exact hold-out.

===========  ===================================================  ================================================
route        for                                                  cost of the inverse
===========  ===================================================  ================================================
"features"   fewer products of features than labels               :math:`n p^2` for p products
"cells"      few labels, with any weights                         :math:`n^3`
"spectrum"   the same for many regularisations, or alpha = 0      about :math:`10\,n^3`, once
"missing"    few missing labels u, without weights                :math:`u\,n\,(k + u)` for k eigenvectors; less
                                                                  for single rows and columns, see
                                                                  `dyadlearn.solve.nearly_complete`
===========  ===================================================  ================================================

Rounding of a system of cells changes predictions by the precision times :math:`\max_i P_{ii}/c`,
that of normal equations of features by the precision times the condition number of their
correlations. A warning follows where that is noticeable (`Inverse.rounding`). Where the labels that
remain do not determine the features, normal equations raise `LeverageError`.

A model whose kernels lose the rows that are left out (two-step ridge regression in settings B, C
and D) has none, and neither have independent tasks, whose columns are solved separately.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    array_bytes,
    epsilon,
    largest,
    namespace,
    take_rows,
    values_in,
    zeros,
)
from dyadlearn._codes import unit_sizes
from dyadlearn._work import DECOMPOSED, products
from dyadlearn.filters import Tikhonov
from dyadlearn.labels import Labels
from dyadlearn.leverage import leverage_error
from dyadlearn.pairing.base import Coupled, Pairing, operators_of
from dyadlearn.pairing.incomplete import rows_leave_kernels
from dyadlearn.settings import Setting
from dyadlearn.solve.directions import STIFF, suit_directions
from dyadlearn.solve.factor_inverse import FactorInverse, FeatureInverse
from dyadlearn.solve.fixed import FixedPart
from dyadlearn.solve.inverse import CellsInverse, Inverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.solve.nearly_complete import (
    leaving_work,
    lines_numbers,
    missing_work,
    powers,
)
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Spectrum

# Number of regularisations from which one eigendecomposition takes less time than an inverse for
# each.
_MANY_ALPHAS = 7
# Least regularisation, relative to the largest eigenvalue of a singular kernel, for the route by
# missing cells.
_LEAST_RIDGE = 1e-8
# Most products of features: their normal equations take 32 MiB.
_MOST_FEATURES = 2048
# Number of labels from which a free mean is computed.
_N_FOR_MEAN = 32


@dataclass(frozen=True)
class Route:
    """A way to hold out observed labels from one inverse, with its cost.

    Attributes
    ----------
    name : {"features", "cells", "spectrum", "missing"}
    words : str
        Description, such as "inverse over 4,797 observed pairs".
    work : float
        Number of multiplications for one regularisation.
    numbers : float
        Number of values in memory.
    """

    name: str
    words: str
    work: float
    numbers: float


@singledispatch
def routes(
    model: Pairing, labels: Labels, setting: Setting, units: Sequence[np.ndarray], n_alphas: int = 1
) -> list[Route]:
    """Return the inverses of a model for observed labels, with the work of a hold-out by each.

    Parameters
    ----------
    model : Pairing
    labels : Labels
    setting : Setting
    units : sequence of integer arrays of shape (n,)
        Unit of each observed label; in setting D, of its instance and of its task.
    n_alphas : int, default=1
        Number of regularisations that are held out.
    """
    if not isinstance(model, Coupled) or rows_leave_kernels(model, setting):
        return []
    operators = operators_of(model)
    if _loses_digits(operators, labels):
        return []  # refits by directions keep them
    sizes = [unit_sizes(codes) for codes in units]
    offered = [_by_features(operators, labels, sizes)]
    # One eigendecomposition serves many leave-one-outs.
    n_inverses = 1
    if setting is Setting.A and n_alphas >= _MANY_ALPHAS:
        n_inverses = n_alphas
    offered.append(_by_cells(operators, labels, sizes, n_inverses))
    offered.append(_by_missing(operators, labels, units, sizes))
    return [route for route in offered if route is not None]


def _loses_digits(operators: GridOperators, labels: Labels) -> bool:
    """Return whether an inverse over the observed labels would lose digits that a fit by directions keeps.

    The kernel between few observed pairs has smaller eigenvalues than that of the grid: their sum
    is that of its diagonal.
    """
    if not suit_directions(operators, labels.size, labels.largest_weight):
        return False
    if operators.shares is None:
        return True
    product, per_task, per_instance = operators.shares
    row, column = (
        largest(take_rows(side.diagonal(side.values), np.unique(place)))
        for side, place in zip(operators.grid_spectra, labels.places, strict=True)
    )
    diagonal = product * row * column + per_task * row + per_instance * column
    return labels.size * diagonal * labels.largest_weight > STIFF * operators.ridge


def _by_features(
    operators: GridOperators, labels: Labels, sizes: Sequence[np.ndarray]
) -> Route | None:
    """Return the route by products of features, if these are fewer than labels."""
    p = math.prod(operators.n_directions) + operators.n_fixed
    if operators.interpolates or not 0 < p < min(_MOST_FEATURES + 1, labels.size):
        return None
    n = labels.size
    n_pairs = products((n, n))
    leaving = leaving_work(sizes)
    if len(sizes) == 1:
        # Of a unit with more labels than features, a system of the features is solved. Its
        # eigenvalues are checked.
        sizes = [np.minimum(sizes[0], p)]
        n_pairs = powers(sizes[0], 2)
        leaving = DECOMPOSED * leaving_work(sizes)
    # The Gram matrix and its inverse; the factor of the hat, and its blocks.
    inverting = products((n, p, p), (p, p, p), (p, p, p))
    leaving += products((n, p, p), (n_pairs, p))
    words = f"normal equations of {p:,} products of features"
    return Route("features", words, inverting + leaving, values_in((4, p, p), (4, n)))


def _by_cells(
    operators: GridOperators, labels: Labels, sizes: Sequence[np.ndarray], n_alphas: int
) -> Route | None:
    """Return the route by the observed cells, whose eigenvectors `n_alphas` regularisations share."""
    is_kernel = operators.shares is not None
    if operators.interpolates and not is_kernel:
        return None
    n = labels.size
    work = products((n, n, n))
    if not is_kernel:
        # The kernel between cells is no product of those of the sides.
        m, q = labels.shape
        work += 2.0 * min(products((m, m, m, q)), products((q, q, q, m)))
    held = [(unit_sizes(place).size,) * 2 for place in labels.places]
    if len(sizes) == 2:
        held.append((3 * _largest(sizes), labels.size))
    numbers = values_in((n, n), *held)
    solving = leaving_work(sizes)
    is_even = labels.weights is None or operators.interpolates
    if operators.interpolates or (n_alphas > 1 and is_even and is_kernel):
        work = DECOMPOSED * work / n_alphas + solving
        return Route("spectrum", f"eigenvectors over {n:,} observed pairs", work, 3.0 * numbers)
    return Route("cells", f"inverse over {n:,} observed pairs", work + solving, numbers)


def _by_missing(
    operators: GridOperators,
    labels: Labels,
    units: Sequence[np.ndarray],
    sizes: Sequence[np.ndarray],
) -> Route | None:
    """Return the route by the missing cells of a grid without weights."""
    n = labels.size
    u = operators.n_cells - n
    # A pair kernel takes less work by the observed cells if these are fewer.
    is_fewer = operators.shares is None or operators.interpolates or n >= u
    if labels.weights is not None or not is_fewer or not _is_safe(operators):
        return None
    work, lines = missing_work(operators, labels.places, units)
    if lines is None:
        ranks = operators.n_directions
        numbers = values_in((u, n), (3, _largest(sizes), n), (2, max(ranks), n), (3, u, u))
    else:
        numbers = lines_numbers(labels.shape, u)
    return Route("missing", f"inverse over {u:,} missing pairs of the grid", work, numbers)


def _largest(sizes: Sequence[np.ndarray]) -> int:
    """Return the number of labels of the largest unit, which is factorised."""
    return max(int(of_side.max()) for of_side in sizes)


def _is_safe(operators: GridOperators) -> bool:
    """Return whether the operators of the complete grid have the digits that the observed cells need.

    Where the kernel of the complete grid is singular and the regularisation tiny, a missing cell
    changes the result by the inverse of the regularisation.
    """
    if operators.interpolates:
        return True
    remainder = operators.remainder
    top = 1.0 if operators.is_truncated else largest(remainder)
    if math.prod(remainder.shape):
        least = float(namespace(remainder).min(remainder))
    else:
        least = top
    values = operators.kernel_values
    is_singular = operators.is_truncated or not bool(namespace(values).all(values > 0))
    return not is_singular or least >= _LEAST_RIDGE * top


def inverse_of(
    model: Pairing, labels: Labels, name: str, cache: dict[str, Any] | None = None
) -> Inverse:
    """Return an inverse of the system of observed labels; its `rounding` is the error of predictions by rounding.

    Parameters
    ----------
    model : Pairing
    labels : Labels
    name : {"features", "cells", "spectrum", "missing"}
        Name of the route.
    cache : dict, default=None
        What models with other regularisations share; filled by the first of them.

    Raises
    ------
    LeverageError
        If the system is singular.
    """
    operators = operators_of(model)
    rows, columns = labels.places
    if operators.interpolates and operators.shares is not None and name != "missing":
        name = "spectrum"
    if name == "missing":
        missing = np.nonzero(~labels.dense().observed)
        return MissingInverse(operators, (rows, columns), (missing[0], missing[1]))
    if name == "features":
        return _feature_inverse(operators, labels)
    refusal = partial(leverage_error, np.arange(labels.size), labels.size, "pairs form a set that")
    if name == "spectrum":
        if cache is None:
            cache = {}
        if "spectrum" not in cache:
            kernel = operators.kernel_block(rows, columns)
            cache["spectrum"] = Spectrum.from_gram(
                kernel, constant="free" if operators.free_mean else None
            )
        return FactorInverse.of_spectrum(cache["spectrum"].smoother(Tikhonov(), operators.ridge))
    kernel, ridges, fixed = cell_system(operators, labels)
    least = float(namespace(ridges).min(ridges))
    rounding = epsilon(kernel) * largest(namespace(kernel).linalg.diagonal(kernel)) / least
    inverse = CellsInverse.of(kernel, ridges, fixed, refusal)
    return replace(inverse, rounding=rounding)


def cell_system(operators: GridOperators, labels: Labels) -> tuple[Array, Array, FixedPart]:
    """Return the system of the observed cells.

    Returns
    -------
    kernel : array of shape (n, n)
    ridges : array of shape (n,)
        Ridge of each cell.
    fixed : FixedPart
        Columns beside the kernel, such as ones for a free mean.
    """
    kernel, border, penalties = operators.split_kernel(*labels.places)
    ridges = operators.ridge / labels.loss_weights
    if border is None:
        return kernel, ridges, operators.fixed_part(labels.size, kernel)
    return kernel, ridges, FixedPart(border, penalties)


def _feature_inverse(operators: GridOperators, labels: Labels) -> FeatureInverse:
    """Return the inverse by products of features of both sides."""
    rows, columns = labels.places
    left, right = operators.vectors
    xp = namespace(left)
    scale = xp.reshape(operators.kernel_values**0.5, (1, -1))
    listed = labels.listed()
    root = None if listed.weights is None else listed.weights**0.5
    penalties = zeros((int(scale.shape[1]),), left) + operators.ridge
    penalties = xp.concat([penalties, zeros((operators.n_fixed,), left)])

    def features(at: np.ndarray) -> Array:
        """Return all products of features of some pairs and their fixed part (s, p), times the root weights."""
        products = take_rows(left, rows[at])[:, :, None] * take_rows(right, columns[at])[:, None, :]
        products = xp.reshape(products, (at.size, -1)) * scale
        products = xp.concat([products, operators.fixed_part(at.size, products).columns], axis=1)
        if root is None:
            return products
        return products * take_rows(root, at)[:, None]

    refusal = partial(leverage_error, np.arange(labels.size), labels.size, "pairs form a set that")
    return FeatureInverse.of(features, labels.size, penalties, root, refusal)


def fixed_values(operators: GridOperators, labels: Labels, values: Array, duals: Array) -> Array:
    r"""Return the fixed part of the predictions for a new pair by models with the same kernel and other labels, (b,).

    It is zero without a fixed part. Its coefficients solve :math:`\mathbf{F}\boldsymbol\beta =
    \mathbf{y} - \mathbf{P}_{oo}\mathbf{a} - \mathbf{c}\circ\mathbf{a}`. A few labels determine a
    free mean, and all labels are used where there is no regularisation.

    Parameters
    ----------
    operators : GridOperators
    labels : Labels
        List of the n labels, of which the pairs and weights are used.
    values, duals : arrays of shape (n, b)
        Labels and dual coefficients a of each model.
    """
    part = operators.fixed_part(labels.size, duals)
    if not part.n_columns:
        return zeros((int(duals.shape[1]),), duals)
    cells = labels.places
    takes_all = operators.ridge <= 0 or part.n_columns > 1
    n_used = labels.size if takes_all else min(_N_FOR_MEAN, labels.size)
    at = np.linspace(0, labels.size - 1, n_used).astype(np.intp)
    ridges = operators.ridge / take_rows(labels.loss_weights, at)
    fitted = operators.kernel_between((cells[0][at], cells[1][at]), cells) @ duals
    rest = take_rows(values, at) - fitted - ridges[:, None] * take_rows(duals, at)
    return (part.new(1).columns @ part.take(at).nearest(rest))[0, :]


def bytes_of(route: Route, labels: Labels) -> float:
    """Return the memory of a route in bytes."""
    return array_bytes(labels.values, route.numbers)

r"""Weights of labels in a prediction of a pair kernel, from one system of the observed pairs.

==========  ============================================================================================
system      weights of the observed labels
==========  ============================================================================================
features    :math:`\mathbf{WZ}(\mathbf{Z}^\top\mathbf{WZ} + \lambda\mathbf{I})^{-1}\mathbf{z}` for few
            products of features z of the asked pair, and Z of the observed ones
cells       a row of the inverse over the observed pairs, or of a factor of their system
crossed     few features and functions of single rows (`dyadlearn.solve.crossed`)
directions  a least squares fit, if the regularisation is tiny (`dyadlearn.solve.directions`)
==========  ============================================================================================

For cells, let :math:`\mathbf{c}` be the kernel between the asked pair and the observed ones. With
:math:`\mathbf{Q} = (\mathbf{P}_{oo} + \lambda\,\mathrm{diag}(1/w))^{-1}` the weights are :math:`\mathbf{Qc}`, and
with a free mean

.. math:: \mathbf{Nc} + \mathbf{Q1}/s_0, \qquad \mathbf{N} = \mathbf{Q} - \mathbf{Q11}^\top\mathbf{Q}/s_0, \quad
          s_0 = \mathbf{1}^\top\mathbf{Q1} .

A hold-out of the same problem leaves its inverse for these weights
(`dyadlearn.pairing.remembering`). A fit that has solved one system of a list of pairs leaves its
Cholesky factor. Without either, a factor takes a third of the work of the inverse. Systems of
features, cells and directions need no array of all pairs: a list of few pairs takes little time,
however large its grid is. The system with the least work is taken. A grid is solved
(`dyadlearn.pairing.weighing`) if that takes less, or if the regularisation is so small that a
system of the pairs would lose digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from dyadlearn._array import Array, array_bytes, epsilon, largest, namespace
from dyadlearn._memory import fits_in_memory, solve_numbers
from dyadlearn._rounding import ratio
from dyadlearn.labels import Labels
from dyadlearn.leverage import leverage_error
from dyadlearn.pairing.base import Pairing
from dyadlearn.pairing.expansion import Asked, rotated_row
from dyadlearn.pairing.inverses import Route, bytes_of, inverse_of, routes
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.pairing.weighing import Weigher, label_weigher
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.crossed import CrossedSystem, crossed_work
from dyadlearn.solve.directions import STIFF, CellsFit, suit_directions
from dyadlearn.solve.factor import CellsFactor
from dyadlearn.solve.missing import completion_work
from dyadlearn.solve.observed import factor_of
from dyadlearn.solve.operators import GridOperators


@label_weigher.register(PairKernel)
def _label_weigher(
    model: PairKernel,
    labels: Labels,
    n_pairs: int = 1,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
    problem: object = None,
) -> Weigher:
    """Return the weights of labels, by a system of the observed pairs where that takes less work than the grid."""
    weigher = weigher_of_observed(model, labels, n_pairs, tol, max_iter, problem)
    if weigher is not None:
        return weigher
    default = label_weigher.dispatch(Pairing)
    return default(model, labels, n_pairs, tol=tol, max_iter=max_iter, problem=problem)


def weigher_of_observed(
    model: PairKernel, labels: Labels, n_pairs: int, tol: float, max_iter: int, problem: object
) -> Weigher | None:
    """Return the weights of labels of a pair kernel by one system of the observed pairs; None if a grid is cheaper.

    Parameters
    ----------
    model : PairKernel
    labels, n_pairs, tol, max_iter, problem : as in `label_weigher`
    """
    operators = replace(model)
    if operators.interpolates or labels.is_full:
        return None
    if suit_directions(operators, labels.size, labels.largest_weight):
        return Weigher(_by_directions(operators, labels))
    if _is_stiff(operators, labels):
        return None
    known = last_inverse.known(problem, "features", "cells", "factor")
    if known is not None:
        name, inverse = known
        return Weigher(_by_inverse(operators, labels, name, lambda: inverse))
    route, work = _cheapest(operators, labels, n_pairs)
    if crossed_work(operators, labels.shape, labels.size, n_pairs) < work:
        return Weigher(_by_crossed(operators, labels, tol, max_iter), 4.0 * math.prod(labels.shape))
    if route is None:
        return None
    is_factor = route.name == "cells"
    name = "factor" if is_factor else route.name

    def compute() -> Any:
        if is_factor:
            return _factor(operators, labels)
        return inverse_of(operators, labels, route.name)

    @cache
    def computed() -> Any:
        if problem is None:
            return compute()
        return last_inverse.of(problem, name, compute, bytes_of(route, labels), labels.values)

    return Weigher(_by_inverse(operators, labels, name, computed), route.numbers)


def _factor(operators: GridOperators, labels: Labels) -> CellsFactor:
    """Return the factor of the system of the observed cells."""
    try:
        return factor_of(operators, labels.listed())
    except np.linalg.LinAlgError:
        raise leverage_error(np.arange(labels.size), labels.size, "pairs form a set that") from None


def _is_stiff(model: PairKernel, labels: Labels) -> bool:
    """Return whether a system of the observed pairs would lose more digits than iterations on the grid."""
    sides = (largest(side.diagonal(side.values)) for side in model.grid_spectra)
    return bool(model.terms.eigenvalues(*sides) * labels.largest_weight > STIFF * model.ridge)


def _cheapest(model: PairKernel, labels: Labels, n_pairs: int) -> tuple[Route | None, float]:
    """Return the cheapest route by the observed pairs, None if it takes more work than a grid, and the smaller work."""
    n = labels.size
    work = _grid_work(model, labels, n_pairs)
    cheapest = None
    for route in routes(model, labels, Setting.A, [np.arange(n)]):
        if route.name not in ("features", "cells"):
            continue
        # A few solutions need a factor instead of the inverse of the cells.
        route_work = route.work
        if route.name == "cells":
            route_work = float(n) ** 3 / 3.0 + n_pairs * float(n) ** 2
        if route_work < work and fits_in_memory(bytes_of(route, labels), labels.values):
            work = route_work
            cheapest = route
    return cheapest, work


def _grid_work(model: PairKernel, labels: Labels, n_pairs: int) -> float:
    """Return the number of multiplications of weights by the grid; infinite if it does not fit into memory."""
    size = float(math.prod(labels.shape))
    is_weighted = labels.weights is not None
    numbers = 8.0 * size + solve_numbers(
        labels.shape, model.ranks, coupled=True, complete=False, weighted=is_weighted
    )
    if not fits_in_memory(array_bytes(labels.values, numbers), labels.values):
        return math.inf
    return n_pairs * completion_work(model, labels.shape, labels.size, is_weighted)


def _by_inverse(
    model: PairKernel, labels: Labels, name: str, inverse: Callable[[], Any]
) -> Callable[[Asked, Asked], Array]:
    """Return the function of a `Weigher` from an inverse, or a factor, that is computed when it is first needed."""

    def weights(row: Asked, column: Asked) -> Array:
        if name == "features":
            label_weights = inverse().label_weights(_features(model, row, column))
        else:
            label_weights = inverse().label_weights(model.kernel_of(row, column, labels.places))
        return labels.shaped(label_weights, 0.0)

    return weights


def _features(model: PairKernel, row: Asked, column: Asked) -> Array:
    """Return all products of features of a pair, and its fixed part (p,)."""
    along = ratio(model.rotated_kernel_of(row, column), model.kernel_values**0.5)
    xp = namespace(along)
    features = xp.reshape(along, (-1,))
    return xp.concat([features, model.fixed_part(1, features).columns[0, :]])


def _by_crossed(
    model: PairKernel, labels: Labels, tol: float, max_iter: int
) -> Callable[[Asked, Asked], Array]:
    """Return the function of a `Weigher` for few features of many pairs and functions of single rows."""

    @cache
    def system() -> CrossedSystem:
        return CrossedSystem(model, labels.listed())

    # The weights are more accurate than the fit, so that they sum to its prediction.
    accuracy = max(0.01 * tol, 100 * epsilon(labels.values))

    def weights(row: Asked, column: Asked) -> Array:
        rotated = list(map(rotated_row, model.grid_spectra, (row, column)))
        label_weights, solution = system().label_weights(rotated, accuracy, max_iter)
        warn_unless_converged(solution, tol, " on the weights of labels")
        return labels.shaped(label_weights, 0.0)

    return weights


def _by_directions(model: PairKernel, labels: Labels) -> Callable[[Asked, Asked], Array]:
    """Return the function of a `Weigher` for a ridge that the kernel of the observed cells loses."""
    values = labels.listed().values
    fit = CellsFit.of(model, labels, namespace(values).zeros_like(values))

    def weights(row: Asked, column: Asked) -> Array:
        rotated = model.rotated_kernel_of(row, column)
        return labels.shaped(fit.label_weights(rotated * model.phi), 0.0)

    return weights

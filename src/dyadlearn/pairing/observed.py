"""Grids with holes that are completed by way of their observed pairs, where that takes less work."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dyadlearn._array import Array, itemsize, namespace, take_rows, to_numpy
from dyadlearn._memory import fits_in_memory
from dyadlearn.holes.complete import Completion, complete
from dyadlearn.holes.conjugate_gradients import Solution
from dyadlearn.observed.pairs import GridLabels, GridProducts, PairLabels, product_cost
from dyadlearn.observed.system import ObservedSolution, ObservedSystem
from dyadlearn.vectrick import gather_cost, sandwich

if TYPE_CHECKING:
    from dyadlearn.pairing.base import Coupled

__all__ = ["complete_by_cost", "complete_by_pairs", "is_quicker_by_pairs"]

# Smaller grids are no work by any way.
_LITTLE_WORK = 2**16
# Rotated features of a product kernel make the system of the pairs so well conditioned that it takes a third of the
# products or less, each of which may cost as many times as much; other kernels gain nothing.
_FEWER = 3


def complete_by_cost(
    pairing: Coupled, Y: Array, weights: Array | None, start: Completion | None, tol: float, max_iter: int
) -> Completion:
    """Complete a grid on the whole of it, or by way of its observed pairs; arguments as in `Pairing.complete`."""
    if is_quicker_by_pairs(pairing, Y, weights):
        return complete_by_pairs(pairing, Y, weights, start, tol, max_iter)
    return complete(pairing, Y, weights, start=start, tol=tol, max_iter=max_iter)


def is_quicker_by_pairs(pairing: Coupled, Y: Array, weights: Array | None) -> bool:
    """Tell whether a grid of labels is to be completed by way of its observed pairs."""
    m, q = Y.shape
    if not pairing.takes_pairs or m * q < _LITTLE_WORK or pairing.ridge <= 0 or pairing.floor > 0:
        return False
    rows, columns = (int(side.values.shape[0]) for side in pairing.grid_spectra)
    xp = namespace(Y)
    n_observed = m * q - int(xp.sum(xp.astype(xp.isnan(Y), xp.int64)))
    if n_observed == 0 or (weights is None and n_observed == m * q):
        return False
    cost = min(_costs(Y, n_observed, (rows, columns)))
    if 2 * cost > (_FEWER if pairing.is_product else 1) * min(pairing.kernel_cost, pairing.residual_cost):
        return False
    numbers = m * rows + q * columns + 8 * rows * columns + 3 * m * q
    return fits_in_memory(itemsize(Y) * numbers, Y)


def _costs(Y: Array, n_observed: int, ranks: tuple[int, int]) -> tuple[int, int]:
    """Return what one product costs on the whole grid, and at its observed pairs."""
    shape = (int(Y.shape[0]), int(Y.shape[1]))
    return GridProducts.cost(shape, ranks), product_cost(shape, n_observed, ranks, gather_cost(Y))[0]


def _listed(Y: Array, weights: Array | None) -> PairLabels:
    """Return the observed pairs of a grid."""
    xp, observed = namespace(Y), ~np.isnan(to_numpy(Y))
    flat = np.flatnonzero(observed)
    own = None if weights is None else take_rows(xp.reshape(weights, (-1,)), flat)
    rows, columns = np.nonzero(observed)
    shape = (int(Y.shape[0]), int(Y.shape[1]))
    return PairLabels(rows, columns, take_rows(xp.reshape(Y, (-1,)), flat), shape, own)


def complete_by_pairs(
    pairing: Coupled, Y: Array, weights: Array | None, start: Completion | None, tol: float, max_iter: int
) -> Completion:
    """Complete a grid as `dyadlearn.holes.complete` does, by solving for the observed pairs.

    Parameters
    ----------
    pairing : Coupled
        One that takes pairs.
    Y, weights, start, tol, max_iter : as in `Pairing.complete`
    """
    xp = namespace(Y)
    n_observed = int(xp.sum(xp.astype(~xp.isnan(Y), xp.int64)))
    ranks = [int(side.values.shape[0]) for side in pairing.grid_spectra]
    whole, listed = _costs(Y, n_observed, (ranks[0], ranks[1]))
    system = ObservedSystem.of(pairing, GridLabels.of(Y, weights) if whole <= listed else _listed(Y, weights))
    known = None
    if start is not None and start.form == "pairs":
        known = ObservedSolution(start.solution.values, 0.0, 0, 0.0, True)
    found = system.solve(known, tol=tol, max_iter=max_iter)
    sides = [side.vectors for side in pairing.grid_spectra]
    fitted = sandwich(sides[0], pairing.kernel_values**0.5 * found.spectral, sides[1]) + found.mean
    if weights is None:
        completed = xp.where(xp.isnan(Y), fitted, Y)
    else:
        # What a closed form without weights makes the same of: the fit, and what is left over as far as it weighs.
        rest = xp.where(xp.isnan(Y), xp.zeros_like(Y), weights * (Y - fitted))
        completed = fitted + rest
    return Completion(completed, "pairs", Solution(found.spectral, found.n_iter, found.residual, found.converged))

"""Weights of labels in a prediction: the change of the prediction if one label grows by one.

The weights of complete labels are the closed form of a model. Weights of missing or weighted labels
follow from those of the complete grid: by the residual operator between missing cells, or by
conjugate gradients (`dyadlearn.pairing.expansion.weights_of_observed`). If a hold-out of the same
problem has left an inverse over the missing cells (`dyadlearn.pairing.remembering`), it is used.
Pair kernels have other systems (`dyadlearn.pairing.pair_weights`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, singledispatch

from dyadlearn._array import Array
from dyadlearn._memory import solve_numbers
from dyadlearn.labels import Labels
from dyadlearn.pairing.base import Pairing, operators_of
from dyadlearn.pairing.expansion import Asked, weights_of_observed
from dyadlearn.pairing.full import closed_weights
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.vectrick import entries_at


@dataclass(frozen=True, eq=False)
class Weigher:
    """Function of an asked pair that returns the weights of the labels in its prediction.

    Attributes
    ----------
    weights : callable
        Function of an instance and of a task, each a position in training (int) or one new row
        (NewRows), that returns an array of the shape of the labels' values, zero for missing
        labels.
    numbers : float
        Number of values in memory, besides a few arrays of the shape of the labels' values.
    """

    weights: Callable[[Asked, Asked], Array]
    numbers: float = 0.0


@singledispatch
def label_weigher(
    model: Pairing,
    labels: Labels,
    n_pairs: int = 1,
    *,
    tol: float = 1e-8,
    max_iter: int = 1000,
    problem: object = None,
) -> Weigher:
    """Return the weights of labels as a function of pairs.

    Nothing is computed before the first pair. The default forms the grid.

    Parameters
    ----------
    model : Pairing
    labels : Labels
    n_pairs : int, default=1
        Number of pairs that will be asked for.
    tol, max_iter : float and int
        Tolerance above which conjugate gradients warn, and maximum number of their iterations.
    problem : object, default=None
        Owner of inverses that are remembered; see `dyadlearn.pairing.remembering`.
    """
    operators = operators_of(model)
    known = None
    if not operators.interpolates:
        known = last_inverse.known(problem, "missing")
    if known is not None:
        return Weigher(partial(_of_missing, model, labels, known[1]))
    # A model that interpolates fits the labels whatever their weights.
    is_weighted = labels.weights is not None and operators.ridge > 0
    is_complete = not is_weighted and labels.size == math.prod(labels.shape)

    @cache
    def grid() -> Labels:
        return labels.dense()

    def weights(row: Asked, column: Asked) -> Array:
        pair_weights = closed_weights(model, row, column)
        if not is_complete:
            dense = grid()
            scales = dense.weights if is_weighted else None
            pair_weights = weights_of_observed(
                operators, pair_weights, dense.values, scales, tol, max_iter
            )
        return labels.of(pair_weights)

    numbers = labels.dense_numbers
    if not is_complete:
        numbers += solve_numbers(
            labels.shape, model.ranks, coupled=True, complete=False, weighted=is_weighted
        )
    return Weigher(weights, numbers)


def _of_missing(
    model: Pairing, labels: Labels, inverse: MissingInverse, row: Asked, column: Asked
) -> Array:
    """Return the weights of labels by an inverse over the missing cells."""
    grid = closed_weights(model, row, column)
    observed = entries_at(grid, *inverse.observed)
    missing = entries_at(grid, *inverse.missing)
    return labels.shaped(inverse.label_weights(observed, missing), 0.0)

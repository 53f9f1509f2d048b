r"""Fold-in: predictions for a new row from a few of its labels, as if the model were fitted again with them.

Without these labels, the model gives the labels of a new row a mean :math:`\mathbf{f}` and a covariance
:math:`\mathbf{C}` between the training tasks, in units in which the noise of a label has the variance c, the ridge of
the model. With labels :math:`\mathbf{y}_k` of the tasks k, the predictions of all tasks are

.. math:: \hat{\mathbf{y}} = \mathbf{f} + \mathbf{C}_{\cdot k}\,(\mathbf{C}_{kk} + c\,\mathbf{I})^{-1}
          (\mathbf{y}_k - \mathbf{f}_k) .

They equal those of a model that is fitted again with the row and its labels, with the same kernels and regularisation.
For a pair kernel, f are the predictions and C is the posterior covariance (`dyadlearn.pairing.process`).

In two-step ridge regression the fitted row is :math:`(1-h)\,\mathbf{f} + h\,\mathbf{H}_g\mathbf{y}`, where h is the
leverage of the new row among all instances, f its prediction without labels, and y its completed labels. A row without
any label is completed by :math:`(1-h)(\mathbf{I} - h\mathbf{H}_g)^{-1}\mathbf{f}`, and the residual operator of the row
is :math:`\mathbf{I} - h\mathbf{H}_g`. In the directions of the tasks, with :math:`\kappa = 1/(1-h)` (the novelty of the
row) and the residual filter :math:`\rho` of the tasks,

.. math:: f_j \to \frac{f_j}{1 + (\kappa-1)\rho_j}, \qquad
          p_j = \frac{(\kappa-1)(1-\rho_j)}{1 + (\kappa-1)\rho_j}, \qquad c = 1 .

New tasks are the rows of the transposed model. Each new row is folded in by itself: its labels do not change the
predictions for other new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import singledispatch
from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace, solve, take_rows, to_numpy
from dyadlearn.labels import Labels
from dyadlearn.pairing.base import Pairing, working
from dyadlearn.pairing.certainty import Novelty
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.network import Network
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.pairing.process import Process
from dyadlearn.pairing.two_step import TwoStep

#: Function that returns the mean (q,) of the labels of one new row, and their covariance (q, n) with those of n tasks,
#: from the row, its kernel with itself (1,) or None, its predictions (q,) and the positions of the tasks.
Posterior = Callable[[NewRows, Array | None, Array, np.ndarray], tuple[Array, Array]]


def fold_in(
    model: Pairing,
    labels: Labels,
    rows: NewRows,
    diagonal: Array | None,
    predictions: Array,
    few: Array,
    axis: int = 0,
    **options: Any,
) -> Array:
    """Return the predictions for new rows after adding some of their labels.

    Parameters
    ----------
    model : Pairing
    labels : Labels
        Training labels.
    rows : NewRows
        The a new instances, or the b new tasks.
    diagonal : array of shape (a,) or (b,), or None
        Kernel of each row with itself; not needed for features.
    predictions : array of shape (a, q), or (m, b) for new tasks
        Predictions without the labels.
    few : array of the same shape
        Labels of the new rows; NaN where not known. A row without labels is not changed.
    axis : int, default=0
        0 for new instances, 1 for new tasks.
    **options
        `tol` and `max_iter` of the solver, for missing or weighted training labels.

    Returns
    -------
    array of the same shape

    Raises
    ------
    ValueError
        If the model learns nothing from labels of other tasks, or must be fitted again to learn from them.
    """
    if axis and not model.symmetry:
        turned = (model.transposed, labels.dense().transposed)
        return fold_in(*turned, rows, diagonal, predictions.T, few.T, **options).T
    posterior, xp, ridge = row_posterior(model, labels, **options), namespace(predictions), working(model).ridge
    result = xp.asarray(predictions, copy=True)
    for place, is_known in enumerate(~np.isnan(to_numpy(few))):
        known, one = np.flatnonzero(is_known), slice(place, place + 1)
        if known.size:
            own = None if diagonal is None else diagonal[one]
            mean, columns = posterior(rows.take(one), own, predictions[place, :], known)
            system = take_rows(columns, known) + ridge * xp.eye(known.size, dtype=mean.dtype, device=mean.device)
            gap = take_rows(few[place, :] - mean, known)
            result[place, :] = mean + columns @ solve(system, gap[:, None])[:, 0]
    return result


@singledispatch
def row_posterior(model: Pairing, labels: Labels, **options: Any) -> Posterior:
    """Return the function that gives the mean and the covariance of the labels of a new row; see `fold_in`."""
    raise ValueError(
        "The tasks are independent here, so that labels of a new instance in some tasks say nothing about its other "
        "tasks: leave labels out, or fit a model that knows tasks (any but IndependentTaskRidge) with tasks=."
    )


@row_posterior.register(PairKernel)
def _of_pair_kernel(model: PairKernel, labels: Labels, **options: Any) -> Posterior:
    _check_ridge(model.alpha)
    process = Process(replace(model))
    if labels.full is not None:
        return lambda row, diagonal, mean, known: (mean, process.covariance(row, diagonal, known))
    grid = labels.dense()

    def solved(row: NewRows, diagonal: Array | None, mean: Array, known: np.ndarray) -> tuple[Array, Array]:
        given = (row, diagonal, known, grid.values, grid.weights)
        return mean, process.covariance_of_observed(*given, **options)

    return solved


@row_posterior.register(TwoStep)
def _of_two_step(model: TwoStep, labels: Labels, **options: Any) -> Posterior:
    _check_ridge(model.rows.alpha)
    if labels.full is None:
        raise ValueError(
            "Two-step ridge regression completes missing labels with the features of all rows, so that a new row "
            "changes all of them: fit the model again with the new row, or use KroneckerRidge or PairKernelRidge."
        )
    if not model.rows.filter.refits:
        raise ValueError(
            f"A new row changes all eigenvalues that {type(model.rows.filter).__name__} filters: fit the model again "
            "with the new row, or use Tikhonov()."
        )
    novelty, side = Novelty(model.rows), model.columns
    vectors = side.spectrum.vectors

    def by_leverage(row: NewRows, diagonal: Array | None, mean: Array, known: np.ndarray) -> tuple[Array, Array]:
        found, _ = novelty.raw(row if diagonal is None else replace(row, prior=lambda _: diagonal))
        assert found is not None
        growth = found[0] - 1.0
        scale = 1.0 + growth * side.remainder
        columns = (vectors * (growth * side.shrinkage / scale)) @ take_rows(vectors, known).T
        return vectors @ ((vectors.T @ mean) / scale), columns

    return by_leverage


@row_posterior.register(Network)
def _of_network(model: Network, labels: Labels, **options: Any) -> Posterior:
    raise ValueError(
        "A label of a new node of a network is in its row and in its column, so that it is no label of a new row: fit "
        "the network again with the node."
    )


def _check_ridge(alpha: float) -> None:
    if alpha == 0:
        raise ValueError(
            "With alpha = 0, labels of a new row are either fitted exactly or not used at all: use alpha > 0, or leave "
            "labels out."
        )

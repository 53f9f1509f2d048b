r"""Labels of new rows: predictions for a new row from a few of its labels, as if the model were fitted again with them.

Without these labels, the model gives the labels of a new row a mean :math:`\mathbf{f}` and a
covariance
:math:`\mathbf{C}` between the training tasks, in units in which the noise of a label has the variance c, the ridge of
the model. With labels :math:`\mathbf{y}_k` of the tasks k, the predictions of all tasks are

.. math:: \hat{\mathbf{y}} = \mathbf{f} + \mathbf{C}_{\cdot k}\,(\mathbf{C}_{kk} + c\,\mathbf{I})^{-1}
          (\mathbf{y}_k - \mathbf{f}_k) .

They equal those of a model that is fitted again with the row and its labels, with the same kernels
and regularisation. For a pair kernel, f are the predictions and C is the posterior covariance
(`dyadlearn.pairing.process`).

In two-step ridge regression the fitted row is :math:`(1-h)\,\mathbf{f} +
h\,\mathbf{H}_g\mathbf{y}`, where h is the leverage of the new row among all instances, f its
prediction without labels, and y its completed labels. A row without any label is completed by
:math:`(1-h)(\mathbf{I} - h\mathbf{H}_g)^{-1}\mathbf{f}`, and the residual operator of the row is
:math:`\mathbf{I} - h\mathbf{H}_g`. In the directions of the tasks, with :math:`\kappa = 1/(1-h)`
(the novelty of the row) and the residual filter :math:`\rho` of the tasks,

.. math:: f_j \to \frac{f_j}{1 + (\kappa-1)\rho_j}, \qquad
          p_j = \frac{(\kappa-1)(1-\rho_j)}{1 + (\kappa-1)\rho_j}, \qquad c = 1 .

If there is no ridge, or if training labels of two-step ridge regression are missing or weighted,
the row is added to the spectrum of the instances, and the grid is solved once for each new row. The
same holds for a pair kernel if that is cheaper, or more accurate, than one inverse over all
observed labels (`dyadlearn.pairing.cells_process`).

New tasks are the rows of the transposed model. Each new row is added by itself: its labels do
not change the predictions for other new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np

from dyadlearn._array import Array, largest, namespace, solve, take_rows, to_numpy, zeros
from dyadlearn._memory import fits_in_memory
from dyadlearn._messages import Message
from dyadlearn._rounding import ratio
from dyadlearn.labels import Labels
from dyadlearn.pairing.base import Coupled, Pairing, operators_of
from dyadlearn.pairing.cells_process import inverse_bytes, process_of
from dyadlearn.pairing.certainty import Novelty, outside_span
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.incomplete import complete_labels
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.pairing.two_step import TwoStep
from dyadlearn.solve.blocks import identity
from dyadlearn.solve.directions import STIFF
from dyadlearn.spectrum import Spectrum

# Function of one new row, its kernel with itself (1,) or None, its predictions (q,) and the
# positions of n tasks. It returns the mean (q,) of the labels of the row, and their covariance (q,
# n) with those of the n tasks.
_Posterior = Callable[[NewRows, Array | None, Array, np.ndarray], tuple[Array, Array]]

# Products with the kernel that the solver usually takes for one new row.
_ITERATIONS = 50


def check_takes_labels(model: Pairing) -> None:
    """Raise if labels of a new row cannot be added to a model, because tasks are independent or it is a network."""
    if not model.knows_tasks:
        raise ValueError(
            Message(
                "The tasks are independent, so labels of a new instance say nothing about its "
                "other tasks: leave <labels> out, or fit another model than IndependentTaskRidge "
                "with <tasks=>."
            )
        )
    if model.symmetry:
        raise ValueError("A network takes no labels of new nodes: fit it again with the nodes.")


def predict_with_labels(
    model: Pairing,
    labels: Labels,
    rows: NewRows,
    diagonal: Array | None,
    predictions: Array,
    few: Array,
    axis: int = 0,
    weight: float = 1.0,
    **options: Any,
) -> Array:
    """Return the predictions for new rows after adding some of their labels.

    Parameters
    ----------
    model : Pairing
        Model that `check_takes_labels` accepts.
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
    weight : float, default=1.0
        Weight of the labels of the new rows, in the unit of the weights of the training labels.
    **options
        `tol` and `max_iter` of the solver.

    Returns
    -------
    array of the same shape
    """
    if axis:
        turned = (model.transposed, labels.transposed)
        return predict_with_labels(
            *turned, rows, diagonal, predictions.T, few.T, weight=weight, **options
        ).T
    known_labels = ~np.isnan(to_numpy(few))
    posterior = _posterior(model, labels, int(known_labels.any(axis=1).sum()))
    ridge = operators_of(model).ridge / weight
    result = namespace(predictions).asarray(predictions, copy=True)
    for place, is_known in enumerate(known_labels):
        if is_known.any():
            row = rows.take(slice(place, place + 1))
            prior = None if diagonal is None else diagonal[place : place + 1]
            if posterior is None:
                result[place, :] = _solved_again(
                    operators_of(model),
                    labels.dense(),
                    row,
                    prior,
                    few[place, :],
                    weight,
                    **options,
                )
            else:
                known = np.flatnonzero(is_known)
                mean, columns = posterior(row, prior, predictions[place, :], known)
                result[place, :] = _updated(mean, columns, few[place, :], known, ridge)
    return result


def _updated(mean: Array, columns: Array, labels: Array, known: np.ndarray, ridge: float) -> Array:
    """Return the predictions (q,) of a row from its mean (q,), its covariance (q, n) with n labels, and the labels."""
    system = take_rows(columns, known)
    system += ridge * identity(system)
    return mean + columns @ solve(system, take_rows(labels - mean, known)[:, None])[:, 0]


def _posterior(model: Pairing, labels: Labels, n_rows: int) -> _Posterior | None:
    """Return the mean and the covariance of the labels of each of n new rows as a function; None without a formula."""
    if isinstance(model, PairKernel) and _has_process(model, labels, n_rows):
        process, _ = process_of(model, labels)
        return lambda row, prior, predicted, known: (
            predicted,
            process.covariance(row, prior, known),
        )
    has_formula = isinstance(model, TwoStep) and model.rows.alpha > 0 and model.rows.filter.refits
    if not has_formula or not labels.is_full:
        return None
    assert isinstance(model, TwoStep)
    novelty = Novelty(model.rows)
    side = model.columns
    vectors = model.columns.spectrum.vectors

    def by_leverage(
        row: NewRows, prior: Array | None, predicted: Array, known: np.ndarray
    ) -> tuple[Array, Array]:
        increase, _ = novelty.raw(replace(row, prior=lambda _: prior))
        assert increase is not None
        growth = increase[0] - 1.0
        scale = 1.0 + growth * side.remainder
        columns = (vectors * (growth * side.shrinkage / scale)) @ take_rows(vectors, known).T
        return vectors @ ((vectors.T @ predicted) / scale), columns

    return by_leverage


def _has_process(model: PairKernel, labels: Labels, n_rows: int) -> bool:
    """Return whether the covariance of a Gaussian process is the way to add some new rows.

    If labels are missing or weighted, the inverse over all of them must be cheaper than to solve
    the grid for each new row, fit into memory and lose few digits.
    """
    if model.alpha == 0 or labels.is_full:
        return model.alpha > 0
    size = model.terms.eigenvalues(
        largest(model.spectrum.values), largest(model.task_spectrum.values)
    )
    is_stiff = size * labels.largest_weight > STIFF * model.alpha
    is_cheaper = float(labels.size) ** 3 <= float(n_rows) * _ITERATIONS * model.kernel_cost
    return is_cheaper and not is_stiff and fits_in_memory(inverse_bytes(labels), labels.values)


def _solved_again(
    model: Coupled,
    labels: Labels,
    row: NewRows,
    prior: Array | None,
    few: Array,
    weight: float,
    **options: Any,
) -> Array:
    """Solve the grid with one new row; return the fitted labels (q,) of the row."""
    spectrum = _with_row(model.grid_spectra[0], row.at(slice(0, 1)), prior)
    xp = namespace(few)
    if isinstance(model, TwoStep):
        model = TwoStep(spectrum.smoother(model.rows.filter, model.rows.alpha), model.columns)
    else:
        model = replace(cast(PairKernel, model), spectrum=spectrum)
    weights = labels.weights
    if weights is None and weight != 1.0:
        weights = xp.ones_like(labels.values)
    if weights is not None:
        weights = xp.concat([weights, xp.full_like(few, weight)[None, :]])
    completed = complete_labels(
        model, xp.concat([labels.values, few[None, :]]), weights, **options
    ).labels
    return operators_of(model).hat(completed)[-1, :]


def _with_row(spectrum: Spectrum, block: Array, prior: Array | None) -> Spectrum:
    """Return the spectrum of a kernel with one more row, given as the block (1, n or d) that multiplies coefficients.

    `prior` is the kernel of the row with itself, shape (1,); None in the primal.
    """
    xp = namespace(spectrum.values)
    along = spectrum.project(block)
    values = spectrum.values
    vectors = spectrum.vectors
    constant = "free" if spectrum.has_free_constant else None
    if constant:
        along = along[:, :-1]
        values = values[:-1]
        vectors = vectors[:, :-1]
    if spectrum.components is None:
        assert prior is not None
        cross = along @ vectors.T
        gram = xp.concat([(vectors * values) @ vectors.T, cross])
        gram = xp.concat(
            [gram, xp.concat([cross[0, :], prior + spectrum.identity])[:, None]], axis=1
        )
        bordered = Spectrum.from_gram(gram, constant=constant)
    else:
        # Coordinates of the rows in the span of the training rows, and the distance from it.
        inside = ratio(along, values**0.5)
        outside = outside_span(spectrum, block, xp.sum(inside**2, axis=1)) ** 0.5
        inside = xp.concat([vectors * values**0.5, inside])
        distances = xp.concat([zeros((spectrum.n_rows,), values), outside])
        bordered = Spectrum.from_features(
            xp.concat([inside, distances[:, None]], axis=1), constant=constant
        )
    return replace(bordered, constant=spectrum.constant, level=spectrum.level)

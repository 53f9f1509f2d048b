r"""How much every training label weighs in one prediction.

Predictions are linear in the labels: :math:`f = \sum_{ij} w_{ij}Y_{ij}`, where :math:`w_{ij}` is by how much the
prediction grows when label :math:`(i, j)` grows by one and the model is fitted again. On complete labels each model
has its weights :math:`\tilde{\mathbf{w}}` in closed form. A side under a filter weighs its rows by

==========  ==========================================================================================
known row   its row of the hat matrix :math:`\mathbf{H}`
new row     :math:`\mathbf{U}\,\varphi(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{k}`
==========  ==========================================================================================

and a pair kernel, with :math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}` and :math:`\mathbf{p}` the kernel between
the asked pair and all others, weighs the labels by :math:`\mathbf{C}^{-1}\mathbf{p}`, with a free mean by

.. math:: \mathbf{C}^{-1}\mathbf{p} + \mathbf{C}^{-1}\mathbf{1}\,
          \frac{1 - \mathbf{1}^\top\mathbf{C}^{-1}\mathbf{p}}{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}} .

Where labels are missing in cells u, the closed form works on completed ones, :math:`\mathbf{R}_{uu}\mathbf{y}_u =
-\mathbf{R}_{uo}\mathbf{y}_o`. So a label that is observed weighs for itself and for what it puts elsewhere:

.. math:: \mathbf{w} = \tilde{\mathbf{w}} - \mathbf{R}\mathbf{z}, \qquad \mathbf{z}_o = \mathbf{0}, \quad
          \mathbf{R}_{uu}\mathbf{z}_u = \tilde{\mathbf{w}}_u ,

which is zero in u. Where labels have weights d in the loss,

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/d))\,\mathbf{w}_o
          = (\mathbf{P}\tilde{\mathbf{w}} + c\tilde{\mathbf{w}})_o ,

and a free mean is a border of it, :math:`\mathbf{1}^\top\mathbf{w}_o = 1`.
"""

from __future__ import annotations

from dyadlearn._array import Array, epsilon, namespace, zeros
from dyadlearn.holes.complete import complete, solve_missing
from dyadlearn.holes.conjugate_gradients import warn_unless_converged
from dyadlearn.holes.operators import GridOperators
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.spectrum import Smoother, Spectrum

__all__ = ["Asked", "hat_row", "rotated_row", "weights_of_observed"]

#: What is asked about: a row of training by its position, or one new row.
Asked = int | NewRows


def hat_row(side: Smoother, asked: Asked) -> Array:
    """Return how much each of n rows of a side weighs in the prediction for one, shape (n,)."""
    if isinstance(asked, NewRows):
        return side.spectrum.expand(side.spectrum.project(asked.at(slice(0, 1))) * side.phi)[0, :]
    return side.smooth(_unit(side.spectrum, asked))[:, 0]


def rotated_row(spectrum: Spectrum, asked: Asked) -> tuple[Array, Array]:
    """Return the kernel row of what is asked about and, if it is of training, its unit vector, rotated: (k,) each."""
    if not isinstance(asked, NewRows):
        own = spectrum.rotate(_unit(spectrum, asked))[:, 0]
        return spectrum.values * own, own
    along = spectrum.project(asked.at(slice(0, 1)))[0, :]
    # Kernel rows have nothing along null directions but rounding.
    along = along * namespace(along).astype(spectrum.values > 0, along.dtype)
    return along, namespace(along).zeros_like(along)


def _unit(spectrum: Spectrum, position: int) -> Array:
    column = zeros((spectrum.n_rows, 1), spectrum.values)
    column[position, 0] = 1.0
    return column


def weights_of_observed(
    operators: GridOperators, found: Array, Y: Array, weights: Array | None, tol: float, max_iter: int
) -> Array:
    """Return how much the observed labels weigh, from the weights of completed ones.

    Parameters
    ----------
    operators : GridOperators
    found : array of shape (m, q)
        The weights on completed labels.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q) or None
        Of the squared loss of each observed cell.
    tol, max_iter : float and int
        When conjugate gradients must have converged; they go on as far as the precision allows.

    Returns
    -------
    array of shape (m, q)
        Zero where nothing is observed.
    """
    xp, observed = namespace(Y), ~namespace(Y).isnan(Y)
    none, tight = xp.zeros_like(found), 100 * epsilon(Y)
    # As λ vanishes at full rank the model interpolates, and weights of the loss no longer matter.
    if weights is None or operators.vanishing:
        right = xp.where(observed, none, found)
        solution = solve_missing(operators, right, observed, tol=tight, max_iter=max_iter)
        warn_unless_converged(solution, tol, " on the weights of labels", stacklevel=3)
        return xp.where(observed, found - operators.residual(solution.values), none)
    known = xp.astype(observed, found.dtype)
    begin = known / xp.sum(known) if operators.free_mean else none
    weights = xp.where(observed, weights, xp.ones_like(weights))
    labels = operators.kernel(found - begin) + operators.ridge * (found - begin / weights)
    labels = xp.where(observed, labels, xp.full_like(labels, float("nan")))
    solution = complete(operators, labels, weights, tol=tight, max_iter=max_iter).solution
    warn_unless_converged(solution, tol, " on the weights of labels", stacklevel=3)
    return begin + xp.where(observed, solution.values * weights**0.5, none)

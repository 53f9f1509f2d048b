r"""Closed forms of the three models on a complete grid of labels.

With :math:`\mathbf{K} = \mathbf{U}\boldsymbol\Sigma\mathbf{U}^\top` and
:math:`\mathbf{G} = \mathbf{V}\mathbf{S}\mathbf{V}^\top`, each model weighs the rotated labels
:math:`\mathbf{U}^\top\mathbf{Y}\mathbf{V}` entry by entry:

=================  ============================================
independent-task   :math:`\varphi_d(\sigma_i)`, no rotation of the tasks
two-step           :math:`\varphi_d(\sigma_i)\,\varphi_t(s_j)`
Kronecker          :math:`1/(\sigma_i s_j + \lambda)`
=================  ============================================

The ``*_coefficients`` functions return what predictions are made of: a prediction is the
instance block (kernel or feature rows) times the coefficients times the transposed task
block. Of two-step ridge regression one side may be left out of them, to be in its block instead
(`dyadlearn.solvers.folding` says why). They leave out the null directions of a kernel, on which
every kernel row is zero: there :math:`\varphi(0) = 1/\lambda` would only amplify rounding. The ``*_dual``
functions return the dual parameters :math:`\mathbf{A}` that solve the paper's linear systems, null
directions included.
"""

from __future__ import annotations

from dyadlearn._array import Array, namespace
from dyadlearn.filters import SpectralFilter
from dyadlearn.solvers.folding import range_phi
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich

__all__ = [
    "independent_coefficients",
    "independent_dual",
    "kronecker_coefficients",
    "kronecker_dual",
    "two_step_coefficients",
    "two_step_dual",
]


def independent_coefficients(spectrum: Spectrum, Y: Array, filter: SpectralFilter, alpha: float) -> Array:
    r"""Return the coefficients of independent-task ridge regression.

    .. math:: \mathbf{B}_k\,\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}

    Parameters
    ----------
    spectrum : Spectrum
        Of the m instances.
    Y : array of shape (m, q)
    filter : SpectralFilter
    alpha : float
        :math:`\lambda_d`.

    Returns
    -------
    array of shape (m, q), in the primal (d, q)
    """
    return spectrum.basis @ (range_phi(spectrum, filter, alpha)[:, None] * spectrum.rotate(Y))


def independent_dual(spectrum: Spectrum, Y: Array, filter: SpectralFilter, alpha: float) -> Array:
    r"""Return the dual parameters :math:`(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}`, shape (m, q)."""
    weights = filter.phi(spectrum.values, alpha)
    return spectrum.apply(weights, spectrum.null_phi(filter, alpha), Y)


def two_step_coefficients(
    spectrum: Spectrum,
    task_spectrum: Spectrum,
    Y: Array,
    filter: SpectralFilter,
    alpha: float,
    task_filter: SpectralFilter,
    task_alpha: float,
    folded: tuple[bool, bool] = (True, True),
) -> Array:
    r"""Return the coefficients of two-step ridge regression.

    .. math:: \mathbf{B}_k\,\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}\mathbf{V}\,
              \varphi_t(\mathbf{S})\,\mathbf{B}_g^\top

    with the factors of a side only where they are to be folded in.

    Parameters
    ----------
    spectrum, task_spectrum : Spectrum
        Of the m instances and of the q tasks.
    Y : array of shape (m, q)
    filter, task_filter : SpectralFilter
    alpha, task_alpha : float
        :math:`\lambda_d` and :math:`\lambda_t`.
    folded : (bool, bool), default=(True, True)
        Whether instances and tasks are; not both should be where one is in the dual.

    Returns
    -------
    array of shape (m or d, q or r)
        For a side that is not folded as many as it has eigenvalues.
    """
    rotated = _rotate_both(spectrum, task_spectrum, Y)
    if folded[0]:
        rotated *= range_phi(spectrum, filter, alpha)[:, None]
        rotated = spectrum.basis @ rotated
    if folded[1]:
        rotated *= range_phi(task_spectrum, task_filter, task_alpha)[None, :]
        rotated = rotated @ task_spectrum.basis.T
    return rotated


def two_step_dual(
    spectrum: Spectrum,
    task_spectrum: Spectrum,
    Y: Array,
    filter: SpectralFilter,
    alpha: float,
    task_filter: SpectralFilter,
    task_alpha: float,
) -> Array:
    r"""Return :math:`(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}(\mathbf{G}+\lambda_t\mathbf{I})^{-1}`, (m, q)."""
    half = independent_dual(spectrum, Y, filter, alpha)
    return independent_dual(task_spectrum, half.T, task_filter, task_alpha).T


def kronecker_coefficients(spectrum: Spectrum, task_spectrum: Spectrum, Y: Array, alpha: float) -> Array:
    r"""Return the coefficients of Kronecker ridge regression; ``alpha=0`` is ordinary least squares.

    .. math:: \mathbf{B}_k\left[\frac{\mathbf{U}^\top\mathbf{Y}\mathbf{V}}
              {\boldsymbol\sigma\mathbf{s}^\top+\lambda}\right]\mathbf{B}_g^\top

    Parameters
    ----------
    spectrum, task_spectrum : Spectrum
        Of the m instances and of the q tasks.
    Y : array of shape (m, q)
    alpha : float
        :math:`\lambda`.

    Returns
    -------
    array of shape (m or d, q or r)
    """
    rotated = _rotate_both(spectrum, task_spectrum, Y)
    rotated *= _pair_phi(spectrum, task_spectrum, alpha)
    if spectrum.is_singular or task_spectrum.is_singular:
        xp = namespace(rotated)
        rotated *= xp.astype(spectrum.values > 0, rotated.dtype)[:, None]
        rotated *= xp.astype(task_spectrum.values > 0, rotated.dtype)[None, :]
    return sandwich(spectrum.basis, rotated, task_spectrum.basis)


def kronecker_dual(spectrum: Spectrum, task_spectrum: Spectrum, Y: Array, alpha: float) -> Array:
    r"""Return :math:`\mathbf{A}` with :math:`\mathbf{K A G}+\lambda\mathbf{A}=\mathbf{Y}`, shape (m, q)."""
    rotated = _rotate_both(spectrum, task_spectrum, Y)
    dual = sandwich(spectrum.vectors, _pair_phi(spectrum, task_spectrum, alpha) * rotated, task_spectrum.vectors)
    if alpha > 0 and (spectrum.is_truncated or task_spectrum.is_truncated):
        dual += (Y - sandwich(spectrum.vectors, rotated, task_spectrum.vectors)) / alpha
    return dual


def _rotate_both(spectrum: Spectrum, task_spectrum: Spectrum, Y: Array) -> Array:
    """Return UᵀYV of shape (k, l)."""
    return task_spectrum.rotate(spectrum.rotate(Y).T).T


def _pair_phi(spectrum: Spectrum, task_spectrum: Spectrum, alpha: float) -> Array:
    """Return 1/(σsᵀ+λ) of shape (k, l); at λ = 0 the pseudo-inverse."""
    products = spectrum.values[:, None] * task_spectrum.values[None, :]
    if alpha > 0:
        return 1.0 / (products + alpha)
    xp = namespace(products)
    inverse = 1.0 / xp.where(products > 0, products, xp.ones_like(products))
    return xp.where(products > 0, inverse, xp.zeros_like(products))

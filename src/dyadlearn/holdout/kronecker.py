r"""Hold-out predictions of Kronecker ridge regression for new pairs, instances or tasks.

With :math:`\rho_{ij} = \lambda/(\sigma_i s_j + \lambda)`, the residual operator is diagonal in the
rotated labels, which gives A. For B the tasks are rotated, :math:`\tilde{\mathbf{Y}} = \mathbf{YV}`:
column j is then an independent ridge problem with kernel :math:`s_j\mathbf{K}`, whose leave-one-out is a
division,

.. math:: F_B = \left[\tilde{\mathbf{Y}} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\tilde{\mathbf{Y}})}
                {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right]\mathbf{V}^\top.

C is its mirror image.

Columns that are mostly kept are computed from :math:`\rho`, columns that are mostly shrunk from
:math:`f = \sigma s/(\sigma s + \lambda)`, so that neither end of the regularisation loses digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from dyadlearn._array import Array, as_array_of, largest, namespace, take_rows, to_numpy, zeros
from dyadlearn._rounding import is_graded, rounding_level, settle, settled_difference, solve_block
from dyadlearn.holdout.groups import GROUP, scatter_rows
from dyadlearn.holdout.problem import Problem
from dyadlearn.holdout.two_step import Members, check_cells
from dyadlearn.settings import Setting
from dyadlearn.solvers.pairs import interpolation_floor, vanishing_residual
from dyadlearn.spectrum import Spectrum, leverage_error
from dyadlearn.vectrick import sandwich

__all__ = ["column_weights", "is_zero", "kronecker_holdout", "leave_out_columns"]

# Regularisations are worked on together while an array of one grid each stays this small: it
# keeps the loop out of Python for small grids and costs nothing for large ones.
_BLOCK_NUMBERS = 2**17


def kronecker_holdout(
    problem: Problem, setting: Setting, members: Members = None, task_members: Members = None
) -> Array:
    """Return held-out predictions of Kronecker ridge regression in setting A, B or C.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks, for B, C and D.

    Returns
    -------
    array of shape (m, q)
    """
    assert problem.task_spectrum is not None
    sides = (problem.spectrum, problem.task_spectrum)
    if is_zero(*sides):
        return zeros(tuple(problem.Y.shape), problem.Y)
    if setting is Setting.A:
        return _new_pairs(*sides, problem.Y, problem.alpha)
    if setting is Setting.B:
        return _new_rows(*sides, problem.Y, problem.alpha, members)
    return _new_rows(*sides[::-1], problem.Y.T, problem.alpha, task_members).T


def is_zero(*spectra: Spectrum) -> bool:
    """Tell whether a side is all zeros and has no direction to learn in, so that everything is predicted to be zero."""
    return any(spectrum.values.shape[0] == 0 for spectrum in spectra)


def _new_pairs(spectrum: Spectrum, task_spectrum: Spectrum, Y: Array, alpha: float) -> Array:
    xp = namespace(Y)
    products = spectrum.values[:, None] * task_spectrum.values[None, :]
    truncated = spectrum.is_truncated or task_spectrum.is_truncated
    floor = interpolation_floor(alpha, spectrum, task_spectrum)
    rotated = task_spectrum.rotate(spectrum.rotate(Y).T).T
    if not truncated and 2 * _count_above(spectrum.values, task_spectrum.values, alpha) > Y.shape[0] * Y.shape[1]:
        residual = alpha / (products + alpha) if alpha > 0 else vanishing_residual(products)
        slack = _pair_diagonal(spectrum, task_spectrum, residual)
        check_cells(slack, floor)
        rotated *= residual
        product = sandwich(spectrum.vectors, rotated, task_spectrum.vectors)
        return settled_difference(Y, slack, product, _pair_level(Y, residual), slack)
    shrinkage = products / (products + alpha) if alpha > 0 else xp.astype(products > 0, Y.dtype)
    leverage = _pair_diagonal(spectrum, task_spectrum, shrinkage)
    if truncated or largest(leverage) <= 0.9:  # the difference keeps all digits but one
        slack = 1.0 - leverage
    else:
        residual = alpha / (products + alpha) if alpha > 0 else 1.0 - shrinkage
        slack = _pair_diagonal(spectrum, task_spectrum, residual)
    check_cells(slack, floor)
    rotated *= shrinkage
    product = sandwich(spectrum.vectors, rotated, task_spectrum.vectors)
    return settled_difference(Y, leverage, product, _pair_level(Y, shrinkage), slack, sign=-1)


def _pair_level(Y: Array, weights: Array) -> Array:
    """Return what rounding may leave of U (w ∘ UᵀYV) Vᵀ where it cancels, one number for the whole grid."""
    return rounding_level(namespace(Y).reshape(Y, (-1, 1)), largest(weights), n_terms=sum(Y.shape))


def _count_above(values: Array, task_values: Array, alpha: float) -> int:
    """Return how many products σs exceed λ, without forming them."""
    s = np.sort(to_numpy(task_values))
    positive = to_numpy(values)
    positive = positive[positive > 0]
    return int(np.sum(s.size - np.searchsorted(s, alpha / positive, side="right")))


def _pair_diagonal(spectrum: Spectrum, task_spectrum: Spectrum, weights: Array) -> Array:
    """Return (U∘U) w (V∘V)ᵀ of shape (m, q)."""
    return task_spectrum.diagonal(spectrum.diagonal(weights).T).T


def _new_rows(spectrum: Spectrum, task_spectrum: Spectrum, Y: Array, alpha: float, members: Members) -> Array:
    columns = task_spectrum.rotate(Y.T).T
    weights, direct = column_weights(spectrum, task_spectrum.values, [alpha])
    floor = interpolation_floor(alpha, spectrum)
    held_out = leave_out_columns(spectrum, weights, direct, columns, spectrum.rotate(columns), members, floor)
    return held_out @ task_spectrum.vectors.T


def column_weights(spectrum: Spectrum, values: Array, alphas: Sequence[float]) -> tuple[Array, Array]:
    r"""Return each rotated column's filter, and which columns take it as shrinkage.

    Parameters
    ----------
    spectrum : Spectrum
        With k eigenvalues.
    values : array of shape (c,)
        Eigenvalues s of the other side.
    alphas : sequence of n floats
        Positive, or a single zero.

    Returns
    -------
    weights : array of shape (k, n c)
        :math:`\sigma s/(\sigma s+\lambda)` for direct columns, :math:`\lambda/(\sigma s+\lambda)` for the others, up
        to a scale per column.
    direct : array of shape (n c,)
        1.0 for columns where nothing is kept by more than half (or the spectrum is truncated), else 0.0.
    """
    xp = namespace(values)
    count = int(values.shape[0])
    if alphas[0] == 0:
        return _interpolating_weights(spectrum, values)
    scaled = xp.reshape(
        values[None, :] / as_array_of(list(alphas), values, values.dtype)[:, None], (len(alphas) * count,)
    )
    weights = spectrum.values[:, None] * scaled[None, :]
    direct = scaled * largest(spectrum.values) <= 1
    if spectrum.is_truncated:
        direct = xp.ones_like(direct)
    denominator = weights + 1.0
    if not bool(xp.any(direct)):
        weights = 1.0 / denominator
    elif bool(xp.all(direct)):
        weights /= denominator
    else:
        weights = xp.where(direct[None, :], weights, xp.ones_like(weights[:1, :]))
        weights /= denominator
    return weights, xp.astype(direct, values.dtype)


def _interpolating_weights(spectrum: Spectrum, values: Array) -> tuple[Array, Array]:
    xp = namespace(values)
    seen = xp.astype(values > 0, values.dtype)
    if spectrum.is_truncated:
        return xp.astype(spectrum.values > 0, values.dtype)[:, None] * seen[None, :], xp.ones_like(seen)
    # Columns of the null space are never seen: direct, with nothing kept, they predict zero.
    if spectrum.is_singular:
        residual = xp.astype(spectrum.values == 0, values.dtype)
    else:
        residual = 1.0 / spectrum.values
    return residual[:, None] * seen[None, :], 1.0 - seen


def leave_out_columns(
    spectrum: Spectrum,
    weights: Array,
    direct: Array,
    columns: Array,
    rotated: Array,
    members: Members,
    floor: float,
    squares: Array | None = None,
) -> Array:
    r"""Leave rows out of independent ridge problems, one filter per column.

    With :math:`\mathbf{B} = \mathbf{U}w\mathbf{U}^\top` (hat for direct columns, residual for the others) both
    forms of leave-one-out are :math:`(\mathbf{b}\circ\mathbf{z} - \mathbf{Bz})/(\mathbf{b} - \delta)`, where
    :math:`\mathbf{b}` is the diagonal and :math:`\delta` tells direct columns.

    Parameters
    ----------
    spectrum : Spectrum
        Of m rows, with k eigenvalues.
    weights : array of shape (k, n c)
    direct : array of shape (n c,)
    columns : array of shape (m, c)
        Labels z, repeated for each of n regularisations.
    rotated : array of shape (k, c)
        :math:`\mathbf{U}^\top\mathbf{z}`.
    members : list of integer arrays, or None
    floor : float
        What slacks must exceed; 0 where they cannot vanish.
    squares : array of shape (m, k), default=None
        :math:`\mathbf{U}\circ\mathbf{U}`, where it is known already.

    Returns
    -------
    array of shape (m, n c)
    """
    xp = namespace(columns)
    (m, c), (k, width) = columns.shape, weights.shape
    n = width // c if c else 0
    shape = (m, n, c)
    spread = xp.reshape(weights, (k, n, c)) * rotated[:, None, :] if n > 1 else weights * rotated
    product = spectrum.vectors @ xp.reshape(spread, (k, width))
    if members is not None:
        grid = xp.reshape(xp.broadcast_to(columns[:, None, :], shape), (m, width))
        return _leave_groups_out_columns(spectrum, weights, direct, grid, product, members, floor)
    diagonal = spectrum.diagonal(weights) if squares is None else squares @ weights
    if n > 1:
        held_out = xp.reshape(xp.reshape(diagonal, shape) * columns[:, None, :], (m, width))
    else:
        held_out = diagonal * columns
    held_out -= product
    top = xp.reshape(_tops(weights), (n, c))
    settle(held_out, xp.reshape(rounding_level(columns, top), (width,)))
    if bool(xp.any(direct > 0)):
        diagonal -= direct[None, :]
    if floor:
        tight = to_numpy(xp.min(xp.abs(diagonal), axis=1)) <= floor
        if tight.any():
            raise leverage_error(tight.nonzero()[0], m, "rows")
    held_out /= diagonal
    return held_out


def _tops(weights: Array) -> Array:
    """Return the largest weight of each column, shape (n c,); zeros where a kernel of zeros has no directions."""
    xp = namespace(weights)
    return xp.max(weights, axis=0) if weights.shape[0] else xp.sum(weights, axis=0)


def _leave_groups_out_columns(
    spectrum: Spectrum,
    weights: Array,
    direct: Array,
    columns: Array,
    product: Array,
    members: list[np.ndarray],
    floor: float,
) -> Array:
    """Leave groups out: the division of a single row becomes one small solve per group and column."""
    xp = namespace(columns)
    graded = is_graded(xp.abs(weights - direct[None, :]), spectrum.n_rows, spectrum.is_truncated)
    level = rounding_level(columns, _tops(weights))
    pieces = []
    for rows in members:
        vectors = take_rows(spectrum.vectors, rows)
        own, part = take_rows(columns, rows), take_rows(product, rows)
        eye = xp.eye(rows.size, dtype=own.dtype, device=own.device)
        step = max(1, 4 * _BLOCK_NUMBERS // (rows.size * vectors.shape[1]))
        solved = []
        for start in range(0, columns.shape[1], step):
            here = slice(start, min(start + step, columns.shape[1]))
            inner = (vectors[None, :, :] * weights[:, here].T[:, None, :]) @ vectors.T
            right = (inner @ own[:, here].T[:, :, None])[:, :, 0] - part[:, here].T
            matrix = inner - direct[here][:, None, None] * eye
            right = settle(right, level[here][:, None])[:, :, None]
            refusal = partial(leverage_error, rows, spectrum.n_rows, GROUP)
            solved.append(solve_block(matrix, right, floor, graded, refusal)[:, :, 0].T)
        pieces.append(xp.concat(solved, axis=1))
    return scatter_rows(pieces, members)

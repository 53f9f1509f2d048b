r"""Closed form of two-step ridge regression where the missing labels form a block.

The labels of rows M are missing for columns T, as where a task is new but for a few instances (almost zero-shot). O are
the rows that have all labels, :math:`\mathbf{H}_k` and :math:`\mathbf{H}_g` the hat matrices of the sides,
:math:`\mathbf{Y}_0` the labels with zeros where they are missing, and
:math:`\mathbf{S} = \mathbf{Y}_0[\mathbf{H}_g]_{:T}` is what the step over the tasks makes of them. The model fills the
block with the one :math:`\mathbf{F}` that it returns when it is fitted to it,

.. math:: [\mathbf{R}_k]_{MM}\mathbf{F} + [\mathbf{H}_k]_{MM}\mathbf{F}[\mathbf{R}_g]_{TT}
          = [\mathbf{H}_k]_{MO}\mathbf{S}_O + [\mathbf{H}_k]_{MM}\mathbf{S}_M .

Since :math:`[\mathbf{H}_k]_{MM} = \mathbf{I} - [\mathbf{R}_k]_{MM}`, both have the same eigenvectors
:math:`\mathbf{W}`, with eigenvalues :math:`\mathbf{h}` and :math:`\mathbf{p} = 1 - \mathbf{h}`. With
:math:`[\mathbf{R}_g]_{TT} = \mathbf{Z}\,\mathrm{diag}(\mathbf{e})\mathbf{Z}^\top` there is nothing left to solve:

.. math:: \mathbf{F} = \mathbf{W}\left[\frac{\mathbf{W}^\top[\mathbf{H}_k]_{MO}\mathbf{S}_O\mathbf{Z}
          + \mathbf{h}\circ\mathbf{W}^\top\mathbf{S}_M\mathbf{Z}}
          {\mathbf{p}\mathbf{1}^\top + \mathbf{h}\mathbf{e}^\top}\right]\mathbf{Z}^\top ,

for a block of one cell the leave-one-out formula of setting A. Neither :math:`\mathbf{p}` nor :math:`\mathbf{h}` is
had from the other, and what lies off the diagonal blocks comes from the smaller of :math:`\mathbf{H}` and
:math:`\mathbf{R}`, so that neither end of the regularisation loses digits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    eigh,
    epsilon,
    namespace,
    take_block,
    take_rows,
    with_diagonal,
    zeros,
)
from dyadlearn._rounding import digits_left
from dyadlearn.holes.operators import GridOperators, common_floor
from dyadlearn.holes.reduced import without
from dyadlearn.spectrum import Smoother, check_cells, leverage_error

__all__ = ["complete_block", "leave_one_out_beside_block", "step_over_instances"]


def complete_block(rows: Smoother, columns: Smoother, Y: Array, missing_rows: Any, missing_columns: Any) -> Array:
    r"""Fill a block of missing labels with what two-step ridge regression puts there.

    It costs an eigendecomposition for each side of the block and some matrix products. The block may
    cover whole rows or columns, which are then predicted from the kernel of their side alone.

    Parameters
    ----------
    rows, columns : Smoother
        Of the m instances and of the q tasks.
    Y : array of shape (m, q)
        Whatever stands in the block, NaN too, is not looked at.
    missing_rows, missing_columns : integer arrays of shape (a,) and (b,)
        Positions of the block.

    Returns
    -------
    array of shape (m, q)
        A copy of the labels with the block filled.

    Raises
    ------
    LeverageError
        If the model would fit any labels in the block exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.holes.block import complete_block
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> Y = np.array([[1.0, 2.0], [3.0, np.nan]])
    >>> full = complete_block(side, side, Y, [1], [1])
    >>> full.round(4)
    array([[1.    , 2.    ],
           [3.    , 0.6667]])

    A model fitted to the completed grid returns what was filled in:

    >>> round(float((side.hat() @ full @ side.hat())[1, 1]), 4)
    0.6667
    """
    rows, columns = _in_the_limit(rows, columns)
    inside, own, xp = np.asarray(missing_rows), np.asarray(missing_columns), namespace(Y)
    if not inside.size or not own.size:
        return xp.asarray(Y, copy=True)
    others = without(own, Y.shape[1])
    basis, slack, _, cross = _decompose(columns, own, others)
    vectors = columns.spectrum.vectors
    hat = (vectors * columns.shrinkage) @ take_rows(vectors, own).T
    S_observed = take_rows(Y, without(inside, Y.shape[0])) @ hat
    S_missing = take_block(Y, inside, others) @ cross.T
    floor = common_floor(rows, columns)
    filled = step_over_instances(rows, inside, S_observed @ basis, S_missing @ basis, slack, floor=floor) @ basis.T
    # Other cells of the grid are given some cell of the block, which is then not taken.
    place, task_place = np.zeros(Y.shape[0], dtype=np.intp), np.zeros(Y.shape[1], dtype=np.intp)
    place[inside], task_place[own] = np.arange(inside.size), np.arange(own.size)
    is_missing = np.zeros(tuple(Y.shape), dtype=bool)
    is_missing[np.ix_(inside, own)] = True
    return xp.where(as_array_of(is_missing, Y), take_block(filled, place, task_place), Y)


def step_over_instances(
    rows: Smoother, missing_rows: np.ndarray, S_observed: Array, S_missing: Array, slack: Array, *, floor: float = 0.0
) -> Array:
    r"""Take the step over the instances for columns whose step over the tasks was taken.

    .. math:: \mathbf{F} = \mathbf{W}\left[\frac{\mathbf{W}^\top[\mathbf{H}_k]_{MO}\mathbf{S}_O
              + \mathbf{h}\circ\mathbf{W}^\top\mathbf{S}_M}
              {\mathbf{p}\mathbf{1}^\top + \mathbf{h}\mathbf{e}^\top}\right]

    Parameters
    ----------
    rows : Smoother
        Of the m instances.
    missing_rows : integer array of shape (a,)
        Instances M whose labels are missing; the others O are in ascending order.
    S_observed : array of shape (m - a, c)
        :math:`\mathbf{S}_O`.
    S_missing : array of shape (a, c)
        :math:`\mathbf{S}_M`, to which the missing labels themselves contribute nothing.
    slack : array of shape (c,)
        :math:`\mathbf{e}`, the part of each column that the step over the tasks takes from the others.
    floor : float, default=0.0
        What the denominator must exceed.

    Returns
    -------
    array of shape (a, c)

    Examples
    --------
    Without tasks, nothing is taken from them: missing rows are predicted by ridge regression on the others.

    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.holes.block import step_over_instances
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> step_over_instances(side, np.array([1]), np.array([[3.0]]), np.zeros((1, 1)), np.zeros(1))
    array([[1.]])
    """
    n_rows = rows.spectrum.n_rows
    if not missing_rows.size:
        return zeros((0, S_observed.shape[1]), S_observed)
    basis, own_slack, leverage, cross = _decompose(rows, missing_rows, without(missing_rows, n_rows))
    denominator = own_slack[:, None] + leverage[:, None] * slack[None, :]
    if float(namespace(denominator).min(denominator)) <= floor:
        raise leverage_error(missing_rows, n_rows, "rows with missing labels")
    numerator = (basis.T @ cross) @ S_observed
    numerator += leverage[:, None] * (basis.T @ S_missing)
    return basis @ (numerator / denominator)


def _decompose(side: Smoother, inside: np.ndarray, outside: np.ndarray) -> tuple[Array, Array, Array, Array]:
    """Return the eigenvectors (a, a) of the block of a side, its slack and leverage (a,), and the hat beside it.

    The last, of shape (a, n - a), is the hat matrix between the rows of the block and the others.
    """
    xp, spectrum = namespace(side.shrinkage), side.spectrum
    vectors = take_rows(spectrum.vectors, inside)
    weights = side.remainder if side.prefers_residual else side.shrinkage
    _, basis = eigh((vectors * weights) @ vectors.T)
    squares = (vectors.T @ basis) ** 2
    leverage, slack = side.shrinkage @ squares, side.remainder @ squares
    if spectrum.is_truncated:
        slack = slack + xp.clip(1.0 - xp.sum(squares, axis=0), 0.0, 1.0)
    sign = -1.0 if side.prefers_residual else 1.0
    return basis, slack, leverage, (vectors * (sign * weights)) @ take_rows(spectrum.vectors, outside).T


def _in_the_limit(rows: Smoother, columns: Smoother) -> tuple[Smoother, Smoother]:
    """Return both sides with residuals that do not vanish where both are unregularised and of full rank."""
    if rows.contrast is None or columns.contrast is None:
        return rows, columns
    return rows.scaled(), columns.scaled()


def leave_one_out_beside_block(
    operators: GridOperators,
    rows: Smoother,
    columns: Smoother,
    completed: Array,
    missing_rows: np.ndarray,
    missing_columns: np.ndarray,
) -> Array:
    r"""Return what the model predicts for each observed cell once it is missing too.

    Let the rows M and columns T of the block have the residual operators
    :math:`[\mathbf{R}_k]_{MM} = \mathbf{W}\,\mathrm{diag}(p)\,\mathbf{W}^\top` and
    :math:`[\mathbf{R}_g]_{TT} = \mathbf{Z}\,\mathrm{diag}(e)\,\mathbf{Z}^\top`, so that of the block itself is diagonal
    with entries :math:`d_{uv} = p_u + (1-p_u)e_v`. An observed cell c that leaves together with the block has

    .. math:: f_c = y_c - \frac{(\mathbf{R}[\mathbf{C}])_c}
              {R_{cc} - \mathbf{R}_{cm}\mathbf{R}_{mm}^{-1}\mathbf{R}_{mc}},

    with :math:`\mathbf{C}` the completed grid. Between different cells :math:`\mathbf{R}` is
    :math:`-\mathbf{H}_k\otimes\mathbf{H}_g`, so that the term that is subtracted is, for all cells at once, one product

    .. math:: (\mathbf{A}\circ\mathbf{A})\tfrac1d(\mathbf{B}\circ\mathbf{B})^\top, \qquad
              \mathbf{A} = [\mathbf{H}_k]_{\cdot M}\mathbf{W}, \quad \mathbf{B} = [\mathbf{H}_g]_{\cdot T}\mathbf{Z} .

    As both regularisations vanish, :math:`\mathbf{R}` becomes :math:`\mathbf{R}_k\otimes\mathbf{I} +
    \mathbf{I}\otimes\mathbf{R}_g`, of which one part at most links a cell to the block.

    Parameters
    ----------
    operators : GridOperators
        Of the model.
    rows, columns : Smoother
        Of the m instances and of the q tasks, with residuals that do not vanish.
    completed : array of shape (m, q)
        Labels, with what the model puts in the block.
    missing_rows, missing_columns : integer arrays
        The block.

    Returns
    -------
    array of shape (m, q)
        In the block the completed labels themselves: these were never seen.
    """
    xp = namespace(completed)
    residual, task_residual = _residual(rows), _residual(columns)
    p, W = eigh(take_block(residual, missing_rows, missing_rows))
    e, Z = eigh(take_block(task_residual, missing_columns, missing_columns))
    kept = xp.ones_like(p) if operators.vanishing else 1.0 - p
    weights = 1.0 / (p[:, None] + kept[:, None] * e[None, :])
    if operators.vanishing:
        # Of rows and columns outside the block the identity has no part.
        A, B = _columns(_identity(residual), missing_rows) @ W, _columns(_identity(task_residual), missing_columns) @ Z
        A_residual, B_residual = _columns(residual, missing_rows) @ W, _columns(task_residual, missing_columns) @ Z
        shared = A_residual**2 @ weights @ (B**2).T + A**2 @ weights @ (B_residual**2).T
        own = rows.slack[:, None] + columns.slack[None, :]
    else:
        A, B = _columns(_hat(rows), missing_rows) @ W, _columns(_hat(columns), missing_columns) @ Z
        shared = A**2 @ weights @ (B**2).T
        own = rows.slack[:, None] + rows.leverage[:, None] * columns.slack[None, :]
    slack = own - shared
    inside = np.zeros(tuple(completed.shape), dtype=bool)
    inside[np.ix_(missing_rows, missing_columns)] = True
    block = as_array_of(inside, completed)
    slack = xp.where(block, xp.ones_like(slack), slack)
    floor = common_floor(rows, columns)
    check_cells(slack, floor)
    if floor:
        # A difference is known up to rounding of what it is made of, less well than a sum of squares: digits must be
        # left beside that, as in `dyadlearn._rounding.solve_block`.
        check_cells(slack - digits_left(completed) * sum(completed.shape) * epsilon(completed) * own, 0.0)
    if operators.prefers_residual or operators.vanishing:
        held_out = completed - operators.residual(completed) / slack
    else:  # where little is kept, 1 − slack carries the digits
        leverage = rows.leverage[:, None] * columns.leverage[None, :]
        held_out = (operators.hat(completed) - (leverage + shared) * completed) / slack
    return xp.where(block, completed, held_out)


def _residual(side: Smoother) -> Array:
    """Return the residual operator, off its diagonal from the smaller of hat and residual: squares enter below."""
    return with_diagonal(-side.off_diagonal(), side.slack)


def _hat(side: Smoother) -> Array:
    """Return the hat matrix, off its diagonal likewise."""
    return with_diagonal(side.off_diagonal(), side.leverage)


def _identity(like: Array) -> Array:
    return namespace(like).eye(like.shape[0], dtype=like.dtype, device=like.device)


def _columns(matrix: Array, index: np.ndarray) -> Array:
    return take_rows(matrix.T, index).T

r"""Leave-one-out of single pairs where the missing labels form a block (almost zero-shot), for two-step.

Let the rows M and columns T of the block have the residual operators
:math:`[\mathbf{R}_k]_{MM} = \mathbf{W}\,\mathrm{diag}(p)\,\mathbf{W}^\top` and
:math:`[\mathbf{R}_g]_{TT} = \mathbf{Z}\,\mathrm{diag}(e)\,\mathbf{Z}^\top`, so that of the block itself is diagonal
with entries :math:`d_{uv} = p_u + (1-p_u)e_v`. An observed cell c that leaves together with the block has

.. math:: f_c = y_c - \frac{(\mathbf{R}[\mathbf{C}])_c}{R_{cc} - \mathbf{R}_{cm}\mathbf{R}_{mm}^{-1}\mathbf{R}_{mc}},

with :math:`\mathbf{C}` the completed grid. Between different cells :math:`\mathbf{R}` is
:math:`-\mathbf{H}_k\otimes\mathbf{H}_g`, so that the term that is subtracted is, for all cells at once, one product

.. math:: (\mathbf{A}\circ\mathbf{A})\tfrac1d(\mathbf{B}\circ\mathbf{B})^\top, \qquad
          \mathbf{A} = [\mathbf{H}_k]_{\cdot M}\mathbf{W}, \quad \mathbf{B} = [\mathbf{H}_g]_{\cdot T}\mathbf{Z} .

As both regularisations vanish, :math:`\mathbf{R}` becomes :math:`\mathbf{R}_k\otimes\mathbf{I} +
\mathbf{I}\otimes\mathbf{R}_g`, of which one part at most links a cell to the block.
"""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, as_array_of, eigh, epsilon, namespace, take_rows, with_diagonal
from dyadlearn.holdout.two_step import check_cells
from dyadlearn.solvers.pairs import TwoStepPairs, common_floor
from dyadlearn.spectrum import Smoother

__all__ = ["leave_one_out_beside_block"]


def leave_one_out_beside_block(
    rows: Smoother, columns: Smoother, completed: Array, missing_rows: np.ndarray, missing_columns: np.ndarray
) -> Array:
    """Return what the model predicts for each observed cell once it is missing too.

    Parameters
    ----------
    rows, columns : Smoother
        Of the m instances and of the q tasks.
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
    operators = TwoStepPairs(rows, columns)
    rows, columns = operators.rows, operators.columns
    residual, task_residual = _residual(rows), _residual(columns)
    p, W = eigh(_columns(take_rows(residual, missing_rows), missing_rows))
    e, Z = eigh(_columns(take_rows(task_residual, missing_columns), missing_columns))
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
        # A difference is known up to rounding of what it is made of, less well than a sum of squares: six digits must
        # be left beside that, as in `dyadlearn._rounding.solve_block`.
        check_cells(slack - 1e7 * sum(completed.shape) * epsilon(completed) * own, 0.0)
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

r"""Hold-out predictions of two-step and of independent-task ridge regression.

Everything is (instance operator) Y (task operator). With :math:`\mathbf{H}` the hat matrix and
:math:`\mathbf{L}` the leave-one-out operator of a side,

==========  ==================================================
B           :math:`\mathbf{L}_k\mathbf{Y}\mathbf{H}_g`
C           :math:`\mathbf{H}_k\mathbf{Y}\mathbf{L}_g^\top`
D           :math:`\mathbf{L}_k\mathbf{Y}\mathbf{L}_g^\top`
==========  ==================================================

and A is the one case where the sides are coupled:

.. math:: F_A = \frac{\mathbf{H}_k^\circ\mathbf{Y}\mathbf{H}_g
                           + \mathrm{diag}(\mathbf{h}_k)\mathbf{Y}\mathbf{H}_g^\circ}
                     {\mathbf{e}_k\mathbf{1}^\top + \mathbf{h}_k\mathbf{e}_g^\top}.

With a filter that refits (Tikhonov), B, C and D equal refitting without the rows and columns. With any other the
penalty built from all of the kernel stays as it is: the left-out labels are those the model
itself would put there (the transductive reading). A always has that meaning, since two-step is
defined on full grids: the left-out cell holds the one value that the model, fitted with it, returns.
"""

from __future__ import annotations

import numpy as np

from dyadlearn._array import Array, namespace, to_numpy
from dyadlearn._rounding import settle
from dyadlearn.holdout.groups import leave_out
from dyadlearn.holdout.problem import Problem
from dyadlearn.settings import Setting
from dyadlearn.solvers.pairs import common_floor
from dyadlearn.spectrum import Smoother, leverage_error

__all__ = ["check_cells", "independent_holdout", "smoothers", "two_step_holdout", "vanishing_pairs"]

Members = list[np.ndarray] | None


def independent_holdout(problem: Problem, members: Members = None) -> Array:
    """Return held-out predictions of independent tasks, the same for a new pair and a new instance.

    Parameters
    ----------
    problem : Problem
    members : list of integer arrays, or None
        Row positions of each group of instances.

    Returns
    -------
    array of shape (m, q)
    """
    return leave_out(problem.spectrum.smoother(problem.filter, problem.alpha), problem.Y, members)


def two_step_holdout(
    problem: Problem, setting: Setting, members: Members = None, task_members: Members = None
) -> Array:
    """Return held-out predictions of two-step ridge regression.

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
    rows, columns = smoothers(problem)
    if setting is Setting.A:
        return _new_pairs(rows, columns, problem.Y)
    if setting.new_task:
        half = leave_out(columns, problem.Y.T, task_members).T
    else:
        half = columns.smooth(problem.Y.T).T
    return leave_out(rows, half, members) if setting.new_instance else rows.smooth(half)


def smoothers(problem: Problem) -> tuple[Smoother, Smoother]:
    """Return the operators of the instances and of the tasks."""
    assert problem.task_spectrum is not None
    return (
        problem.spectrum.smoother(problem.filter, problem.alpha),
        problem.task_spectrum.smoother(problem.task_filter, problem.task_alpha),
    )


def vanishing_pairs(rows: Smoother, columns: Smoother, Y: Array) -> Array:
    """Return setting A as both regularisations vanish together, at full rank: the hats become identities."""
    rows, columns = rows.scaled(), columns.scaled()
    residual = rows.product(Y) + columns.product(Y.T).T
    slack = rows.slack[:, None] + columns.slack[None, :]
    held_out = settle(slack * Y - residual, rows.level(Y)[None, :] + columns.level(Y.T)[:, None])
    held_out /= slack
    return held_out


def _new_pairs(rows: Smoother, columns: Smoother, Y: Array) -> Array:
    if rows.contrast is not None and columns.contrast is not None:
        return vanishing_pairs(rows, columns, Y)
    smoothed, others = (grid.T for grid in columns.smooth_others(Y.T))
    held_out = rows.smooth_others(smoothed)[1]
    held_out += rows.leverage[:, None] * others
    slack = rows.slack[:, None] + rows.leverage[:, None] * columns.slack[None, :]
    check_cells(slack, common_floor(rows, columns))
    held_out /= slack
    return held_out


def check_cells(slack: Array, floor: float) -> None:
    """Raise `LeverageError` if a cell is fitted exactly whatever its label.

    Parameters
    ----------
    slack : array of shape (m, q)
        Diagonal of the residual operator, as a grid.
    floor : float
        What it must exceed.
    """
    if float(namespace(slack).min(slack)) <= floor:
        tight = to_numpy(slack) <= floor
        raise leverage_error(np.flatnonzero(tight), tight.size, "cells")

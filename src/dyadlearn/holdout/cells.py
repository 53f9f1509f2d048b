r"""Leave-cells-out in setting A, for any set of cells.

With :math:`\mathbf{H}` the hat matrix of the pairs and :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, the cells S of a
fold solve

.. math:: \mathbf{R}_{SS}\,\mathbf{f}_S = (\mathbf{H}\mathbf{y}_{\setminus S})_S
          = -(\mathbf{R}\mathbf{y}_{\setminus S})_S,

where the labels outside the fold stand in a grid that is zero inside it. A small fold is solved
directly, a large one by conjugate gradients whose products are a few matrix products of the
size of the grid.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, epsilon, namespace
from dyadlearn._pairs import group_codes
from dyadlearn.holdout.groups import nothing_left
from dyadlearn.holdout.problem import Problem
from dyadlearn.solvers.columns import complete_columns
from dyadlearn.solvers.incomplete import complete
from dyadlearn.solvers.pairs import KroneckerPairs, PairOperators, TwoStepPairs

__all__ = ["cells_holdout", "pair_operators"]

# A dense system of this many cells takes 128 MiB and about the time of a hundred iterations.
_DIRECT_CELLS = 4096


def cells_holdout(problem: Problem, cells: Any) -> Array:
    """Return, for each cell, what a model that saw no cell of its fold predicts.

    Parameters
    ----------
    problem : Problem
    cells : array-like of shape (m, q)
        Fold labels.

    Returns
    -------
    array of shape (m, q)
    """
    codes = group_codes(cells, tuple(problem.Y.shape), "cells")
    if problem.task_spectrum is None:
        leave_out = partial(complete_columns, problem.spectrum.smoother(problem.filter, problem.alpha))
    else:
        leave_out = partial(_complete_pairs, pair_operators(problem))
    xp = namespace(problem.Y)
    held_out, missing = xp.zeros_like(problem.Y), xp.full_like(problem.Y, float("nan"))
    if not codes.any():
        raise nothing_left()
    for fold in range(int(codes.max()) + 1):
        inside = as_array_of(codes == fold, problem.Y)
        held_out = xp.where(inside, leave_out(xp.where(inside, missing, problem.Y)), held_out)
    return held_out


def _complete_pairs(operators: PairOperators, Y: Array) -> Array:
    found = complete(operators, Y, form="missing", max_direct=_DIRECT_CELLS, tol=100 * epsilon(Y))
    if not found.solution.converged:
        warnings.warn(
            f"Leaving out a fold of cells: conjugate gradients stopped after {found.solution.n_iter} iterations at a "
            f"relative residual of {found.solution.residual:.1e}. Use smaller folds or a larger alpha.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return found.labels


def pair_operators(problem: Problem) -> PairOperators:
    """Return the operators of a model with tasks on grids of pairs."""
    assert problem.task_spectrum is not None
    if problem.method == "kronecker":
        return KroneckerPairs(problem.spectrum, problem.task_spectrum, problem.alpha)
    rows = problem.spectrum.smoother(problem.filter, problem.alpha)
    return TwoStepPairs(rows, problem.task_spectrum.smoother(problem.task_filter, problem.task_alpha))

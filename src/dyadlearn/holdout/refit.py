r"""Reference implementation of every hold-out formula: hide the labels, fit again, predict.

No shortcut is used: `dyadlearn.pairing.dense` fits each model on some rows and columns, or on some
cells, with dense kernels. Everything is computed in numpy at double precision, from the kernels of
the fit. These include a repair if the kernels were not positive semi-definite.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import Array, to_numpy
from dyadlearn._checks import check_whole
from dyadlearn._tables import read_table
from dyadlearn.holdout.folds import folds_of
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.pairing.base import check_request
from dyadlearn.pairing.dense import dense_sides, refit_block, refit_cells
from dyadlearn.settings import Setting, as_setting


def refit(
    problem: Problem,
    setting: str | Setting,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
    where: Any = None,
    fixed_penalty: bool = False,
) -> np.ndarray:
    r"""Return the prediction of every cell by a model that is fitted again without it.

    The hidden labels for cell (i, j), where :math:`I` is instance i or its group and :math:`J` task
    j or its group, are:

    =======  =====================================================================
    setting  hidden
    =======  =====================================================================
    A        the cell, or every cell of its fold
    B        the rows :math:`I`
    C        the columns :math:`J`
    D        the rows :math:`I` and the columns :math:`J`
    =======  =====================================================================

    In a network an edge is hidden in both directions, and a node from both sides: B hides :math:`I`
    and predicts its edges to the nodes that stay and, as between two new nodes, those among
    :math:`I` itself; C is its mirror image; D hides :math:`I \cup J`.

    Two-step ridge needs a full grid. In setting A it therefore solves the paper's transductive
    objective over the observed cells o: pairwise ridge regression with the kernel
    :math:`\boldsymbol\Xi`,

    .. math:: (\boldsymbol\Xi_{oo} + \mathbf{I})\,\mathbf{a} = \mathbf{y}_o, \qquad
              \boldsymbol\Xi = (\mathbf{G}\otimes\mathbf{K})
              (\lambda_d\lambda_t\mathbf{I} + \lambda_t\mathbf{I}\otimes\mathbf{K}
              + \lambda_d\mathbf{G}\otimes\mathbf{I})^{-1}.

    Filters other than `Tikhonov` are applied to the spectrum of the remaining kernel, and the
    result differs from the hold-out formulas. The formulas keep the penalty of the complete kernel,
    as does ``fixed_penalty=True``: the filter does not change, and hidden labels are imputed so
    that the fit reproduces them. For hidden rows :math:`I` of one side, and likewise for hidden
    cells with :math:`\mathbf{H} = \mathbf{H}_g\otimes\mathbf{H}_k`,

    .. math:: (\mathbf{I} - \mathbf{H}_{II})\,\mathbf{f}_I = \mathbf{H}_{Io}\,\mathbf{y}_o .

    With `Tikhonov`, and in setting A with all filters, both results are equal. If no label remains,
    the prediction is 0.

    Parameters
    ----------
    problem : Problem
    setting : str or Setting
    groups : array of shape (m,), default=None
        Group of each instance, for settings B and D; None means one at a time.
    task_groups : array of shape (q,), default=None
        Group of each task, for settings C and D.
    cells : array of shape (m, q), default=None
        Fold of each cell, for setting A.
    where : boolean array of shape (m, q), default=None
        Mask of the cells to predict; the others are NaN. None means all cells.
    fixed_penalty : bool, default=False
        Whether to keep the penalty of the complete kernel.

    Returns
    -------
    array of shape (m, q)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import IteratedTikhonov
    >>> from dyadlearn.holdout.units import Problem
    >>> from dyadlearn.holdout.refit import refit
    >>> from dyadlearn.pairing import Independent
    >>> from dyadlearn.spectrum import Spectrum
    >>> K = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> problem = Problem.of(Independent(K.smoother(IteratedTikhonov(2), 1.0)), np.array([[3.0], [6.0]]))
    >>> refit(problem, "B").round(3).tolist(), refit(problem, "B", fixed_penalty=True).round(3).tolist()
    ([[2.667], [1.333]], [[3.6], [1.8]])
    """
    setting = as_setting(setting)
    pairing = problem.pairing
    labels = problem.labels
    check_request(pairing, setting, (groups, task_groups), cells)
    Y = to_numpy(problem.Y).astype(np.float64)
    units = Units.of_groups(labels, setting, (groups, task_groups), cells)
    if pairing.symmetry:
        units = units.of_edges(labels, setting)
    if where is None:
        wanted = np.ones(Y.shape, dtype=bool)
    else:
        wanted = _as_numpy(where, "where").astype(bool)
    if wanted.shape != Y.shape:
        raise ValueError(
            f"where must have one entry per cell, shape {Y.shape}, found shape {wanted.shape}."
        )
    sides = dense_sides(pairing, fixed_penalty)
    result = np.full(Y.shape, np.nan)
    of_cells = None
    if setting is Setting.A:
        of_cells = refit_cells(pairing, sides, Y)
    for fold in folds_of(labels, setting, units):
        if not wanted.flat[fold.test].any():
            continue
        if of_cells is not None:
            result[fold.left] = of_cells(fold.left)
        else:
            kept = _masks(Y.shape, fold.staying)
            asked = _masks(Y.shape, fold.leaving)
            result.flat[fold.test] = refit_block(pairing, sides, Y, kept, asked).reshape(-1)
    return np.where(wanted, result, np.nan)


def _masks(shape: tuple[int, ...], axes: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return a mask of each axis that is True at some positions."""
    return [np.isin(np.arange(size), at) for size, at in zip(shape, axes, strict=True)]


def verify_holdout(
    model: Any,
    setting: str | Setting,
    *,
    n: int = 20,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
    random_state: Any = 0,
) -> float:
    """Return the largest difference between hold-out predictions in one setting and those of refits.

    Hold-out by a filter other than `Tikhonov` keeps the penalty of the complete kernel, and so do
    the fits that it is compared with. All fits use the kernels of the model, including any repair
    of kernels that were not positive semi-definite. The effect of a separate repair in each fold is
    not measured.

    Parameters
    ----------
    model : fitted TwoStepRidge, or any other model of a grid, or its `fitted_`
        Model, fitted on complete labels without weights.
    setting : str or Setting
        One setting.
    n : int, default=20
        Maximum number of cells to compare, drawn at random.
    groups, task_groups, cells : array-like of shape (m,), (q,) and (m, q), default=None
        Instances, tasks and pairs that are left out together, as in `TwoStepRidge.holdout`.
    random_state : int, RandomState or None, default=0
        Seed of the draw.

    Returns
    -------
    float
        Largest absolute difference.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.holdout.refit import verify_holdout
    >>> rng = np.random.default_rng(0)
    >>> X, tasks, Y = rng.normal(size=(9, 3)), rng.normal(size=(7, 2)), rng.normal(size=(9, 7))
    >>> verify_holdout(TwoStepRidge().fit(X, Y, tasks=tasks), "D", random_state=0) < 1e-12
    True
    """
    check_whole(n, "n")
    fitted = getattr(model, "fitted_", model)
    problem: Problem = fitted.problem
    if not problem.labels.is_full:
        raise ValueError(
            "verify_holdout compares the formulas for complete labels with refitting, but labels "
            "are missing or "
            "weighted here: fit the model on complete labels without weights."
        )
    groups, task_groups = fitted.in_groups(groups, task_groups)
    held_out = fitted.holdout(setting, groups=groups, task_groups=task_groups, cells=cells)
    shortcut = _as_numpy(held_out, "the hold-out").reshape(problem.Y.shape)
    labels = {"groups": groups, "task_groups": task_groups, "cells": fitted.in_folds(cells)}
    where = np.zeros(shortcut.shape, dtype=bool)
    drawn = check_random_state(random_state).choice(where.size, min(n, where.size), replace=False)
    where.flat[drawn] = True
    again = refit(problem, setting, where=where, fixed_penalty=not problem.pairing.refits, **labels)
    return float(np.max(np.abs(again - shortcut)[where]))


def _as_numpy(values: Any, name: str) -> Array:
    return to_numpy(read_table(values, name).values)

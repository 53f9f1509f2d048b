r"""The slow, obvious twin of every hold-out formula: hide the labels, fit again, predict.

Nothing here knows a shortcut. A side that loses the rows :math:`I` and keeps the rows :math:`o` predicts by

.. math:: \mathbf{P} = \mathbf{K}_{\cdot o}\,(\mathbf{K}_{oo} + \lambda\mathbf{I})^{-1},

a matrix that takes the labels of the kept rows to predictions for any rows; two-step ridge is one such
matrix from the left and one from the right. Where single cells are hidden, the grid has holes and the
remaining cells are fitted as pairs. Everything runs in numpy at double precision, from the kernels that
the model was fitted on, repaired if they had to be.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import Array, to_numpy
from dyadlearn._frames import in_order, read_table
from dyadlearn._pairs import group_codes
from dyadlearn.filters import SpectralFilter
from dyadlearn.holdout.problem import Problem
from dyadlearn.settings import Setting, as_setting
from dyadlearn.spectrum import Spectrum

__all__ = ["refit", "transductive", "verify_holdout"]

# Up to this many cells the pairwise kernel is written out; above, it is known by its products.
_DENSE_CELLS = 400
_MAX_STEPS = 500

# From the kept rows and columns and those to predict for, all masks, to predictions.
Predict = Callable[[Array, Array, Array, Array], Array]


def refit(
    problem: Problem,
    setting: str | Setting,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
    where: Any = None,
) -> np.ndarray:
    r"""Predict every cell by a model that is fitted again without it.

    What is hidden for cell (i, j), where :math:`I` is instance i or its group and :math:`J` task j or
    its group:

    =======  =====================================================================
    setting  hidden
    =======  =====================================================================
    A        the cell, or every cell of its fold
    B        the rows :math:`I`
    C        the columns :math:`J`
    D        the rows :math:`I` and the columns :math:`J`
    =======  =====================================================================

    In a network an edge is hidden in both directions, and a vertex from both sides: B hides :math:`I`
    and predicts its edges to the vertices that stay and, as between two new vertices, those among
    :math:`I` itself; C is its mirror image; D hides :math:`I \cup J`.

    Two-step ridge needs a full grid, so that in setting A it means the paper's transductive objective
    over the observed cells o: pairwise ridge regression with the kernel :math:`\boldsymbol\Xi`,

    .. math:: (\boldsymbol\Xi_{oo} + \mathbf{I})\,\mathbf{a} = \mathbf{y}_o, \qquad
              \boldsymbol\Xi = (\mathbf{G}\otimes\mathbf{K})
              (\lambda_d\lambda_t\mathbf{I} + \lambda_t\mathbf{I}\otimes\mathbf{K}
              + \lambda_d\mathbf{G}\otimes\mathbf{I})^{-1}.

    Filters other than `Tikhonov` are applied to the spectrum of the remaining kernel, which is not what
    the hold-out formulas give; see `transductive`. In setting A the two are the same for such filters.
    Where nothing remains to be fitted, the prediction is 0.

    Parameters
    ----------
    problem : Problem
    setting : str or Setting
    groups : array of shape (m,), default=None
        Group of each instance, for settings B and D; None hides one at a time.
    task_groups : array of shape (q,), default=None
        Group of each task, for settings C and D. The vertices of a network have one grouping, by either name.
    cells : array of shape (m, q), default=None
        Fold of each cell, for setting A; in a network the same for both directions of an edge.
    where : boolean array of shape (m, q), default=None
        The cells that are wanted; the others are not computed and come back as NaN.

    Returns
    -------
    array of shape (m, q)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout.problem import Problem
    >>> from dyadlearn.holdout.refit import refit
    >>> from dyadlearn.spectrum import Spectrum
    >>> K = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> refit(Problem("independent", np.array([[3.0], [6.0]]), K, alpha=1.0), "B")
    array([[2.],
           [1.]])
    """
    return _hold_out(problem, setting, groups, task_groups, cells, where, fixed_penalty=False)


def transductive(
    problem: Problem,
    setting: str | Setting,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
    where: Any = None,
) -> np.ndarray:
    r"""Predict every cell with the penalty of the complete kernel and without its label.

    The filter stays as it was built, from all of the kernel, and what is hidden is imputed so that the
    fit reproduces it. For hidden rows :math:`I` of one side, and likewise for hidden cells with
    :math:`\mathbf{H} = \mathbf{H}_g\otimes\mathbf{H}_k`,

    .. math:: (\mathbf{I} - \mathbf{H}_{II})\,\mathbf{f}_I = \mathbf{H}_{Io}\,\mathbf{y}_o .

    With `Tikhonov` this equals `refit`; with other filters it is what the hold-out formulas give. Kronecker
    ridge has no other filters.

    Parameters
    ----------
    problem, setting, groups, task_groups, cells, where : as in `refit`

    Returns
    -------
    array of shape (m, q)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import IteratedTikhonov
    >>> from dyadlearn.holdout.problem import Problem
    >>> from dyadlearn.holdout.refit import refit, transductive
    >>> from dyadlearn.spectrum import Spectrum
    >>> K = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]]))
    >>> problem = Problem("independent", np.array([[3.0], [6.0]]), K, alpha=1.0, filter=IteratedTikhonov(2))
    >>> transductive(problem, "B").round(3).tolist(), refit(problem, "B").round(3).tolist()
    ([[3.6], [1.8]], [[2.667], [1.333]])
    """
    return _hold_out(problem, setting, groups, task_groups, cells, where, fixed_penalty=True)


def verify_holdout(
    model: Any,
    setting: str | Setting,
    *,
    n_cells: int = 20,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
    random_state: Any = None,
) -> float:
    """Compare a model's hold-out predictions with those of models that are really fitted again.

    Filters that do not refit are compared with `transductive`, which is what they promise. The kernels are those of
    the fit, repaired if they had to be: how far a repair within each fold would lead, this does not see.

    Parameters
    ----------
    model : fitted IndependentTaskRidge, KroneckerRidge or TwoStepRidge
    setting : str or Setting
    n_cells : int, default=20
        How many cells to try, drawn at random; all of them if there are fewer.
    groups, task_groups, cells : as in `refit`
    random_state : int, RandomState or None, default=None
        Which cells are drawn.

    Returns
    -------
    float
        The largest absolute difference.

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
    if isinstance(n_cells, bool) or not isinstance(n_cells, int | np.integer) or n_cells < 1:
        raise ValueError(f"n_cells must be a whole number of at least 1, found {n_cells!r}.")
    problem: Problem = model._problem()
    if not problem.is_complete:
        raise ValueError(
            "verify_holdout compares the shortcuts of complete labels with refitting, but labels are missing or "
            "weighted here, and hold-out predictions are made by solving again anyway."
        )
    held_out = model.holdout(setting, groups=groups, task_groups=task_groups, cells=cells)
    shortcut = _as_numpy(held_out, "the hold-out").reshape(problem.Y.shape)
    rows, columns = model._grid.instance_ids, model._grid.task_ids
    labels = {
        "groups": in_order(groups, rows, None, "groups"),
        "task_groups": in_order(task_groups, columns, None, "task_groups"),
        "cells": in_order(cells, rows, columns, "cells"),
    }
    where = np.zeros(shortcut.shape, dtype=bool)
    drawn = check_random_state(random_state).choice(where.size, min(n_cells, where.size), replace=False)
    where.flat[drawn] = True
    twin = refit if problem.filter.refits and problem.task_filter.refits else transductive
    return float(np.max(np.abs(twin(problem, setting, where=where, **labels) - shortcut)[where]))


def _hold_out(
    problem: Problem,
    setting: str | Setting,
    groups: Any,
    task_groups: Any,
    cells: Any,
    where: Any,
    *,
    fixed_penalty: bool,
) -> np.ndarray:
    """Hide, fit and predict, one set of hidden labels after the other."""
    setting, method = as_setting(setting), problem.method
    if problem.task_spectrum is None and method != "network":
        method = "independent"
    if method == "independent" and setting.new_task:
        raise ValueError(f"Setting {setting} predicts for new tasks, but this model knows nothing of tasks.")
    if method == "network":
        groups, task_groups = _vertex_groups(groups, task_groups, setting)
    Y = to_numpy(problem.Y).astype(np.float64)
    rows = _codes(groups, "groups", Y.shape[:1], setting, setting.new_instance)
    columns = _codes(task_groups, "task_groups", Y.shape[1:], setting, setting.new_task)
    folds = _codes(cells, "cells", Y.shape, setting, setting is Setting.A)
    wanted = np.ones(Y.shape, dtype=bool) if where is None else _as_numpy(where, "where").astype(bool)
    if wanted.shape != Y.shape:
        raise ValueError(f"where must have one entry per cell, shape {Y.shape}, found shape {wanted.shape}.")

    side = task_side = _Side(_kernel(problem.spectrum), problem.filter, problem.alpha, fixed_penalty)
    if problem.task_spectrum is not None and method != "network":
        task_kernel = _kernel(problem.task_spectrum)
        task_side = _Side(task_kernel, problem.task_filter, problem.task_alpha, fixed_penalty)
    if setting is Setting.A:
        folds = _edge_folds(folds, cells is not None) if method == "network" else folds
        return _each_fold(_pair_refit(method, side, task_side, Y), folds, wanted)

    def independent(kept: Array, _: Array, i: Array, __: Array) -> Array:
        return side.predictor(kept, i) @ Y[kept]

    def two_step(kept: Array, task_kept: Array, i: Array, j: Array) -> Array:
        return side.predictor(kept, i) @ Y[np.ix_(kept, task_kept)] @ task_side.predictor(task_kept, j).T

    def network(kept: Array, task_kept: Array, i: Array, j: Array) -> Array:
        return two_step(kept & task_kept, kept & task_kept, i, j)

    def kronecker(kept: Array, task_kept: Array, i: Array, j: Array) -> Array:
        K, G = side.kernel, task_side.kernel
        labels = Y[np.ix_(kept, task_kept)]
        dual = _pair_ridge(K[np.ix_(kept, kept)], G[np.ix_(task_kept, task_kept)], labels, side.alpha)
        return K[np.ix_(i, kept)] @ dual @ G[np.ix_(task_kept, j)]

    predict = {"independent": independent, "two_step": two_step, "network": network, "kronecker": kronecker}
    return _each_block(predict[method], rows, columns, wanted)


@dataclass(frozen=True, eq=False)
class _Side:
    """One side: its kernel (n, n), and how it is regularised once some of its rows are hidden."""

    kernel: Array
    filter: SpectralFilter
    alpha: float
    fixed_penalty: bool

    @property
    def is_ridge(self) -> bool:
        """Whether hiding rows is fitting again without them."""
        return self.filter.refits and not self.fixed_penalty

    @cached_property
    def ridge(self) -> float:
        """The λ of a filter that refits, which is φ = 1/(σ + λ) whatever it calls its parameter."""
        return self.filter.ridge(self.alpha)

    @cached_property
    def hat(self) -> Array:
        """Hat matrix (n, n) of the complete side."""
        return _spectral(self.kernel, lambda values: self.filter.shrinkage(values, self.alpha))

    def predictor(self, kept: Array, rows: Array) -> Array:
        """Return the matrix that takes the labels of the `kept` rows to predictions for `rows`."""
        if self.fixed_penalty:
            H, hidden = self.hat, ~kept
            gap = np.eye(hidden.sum()) - H[np.ix_(hidden, hidden)]
            imputed = np.linalg.solve(gap, H[np.ix_(hidden, kept)])
            return H[np.ix_(rows, kept)] + H[np.ix_(rows, hidden)] @ imputed
        K, K_rows = self.kernel[np.ix_(kept, kept)], self.kernel[np.ix_(rows, kept)]
        if self.is_ridge and self.ridge > 0:
            return np.linalg.solve(K + self.ridge * np.eye(len(K)), K_rows.T).T
        return K_rows @ _spectral(K, lambda values: self.filter.phi(values, self.alpha))


def _each_block(predict: Predict, rows: Array, columns: Array, wanted: Array) -> np.ndarray:
    """Hide each group of rows (m,) with each group of columns (q,); the group -1 stays known."""
    result = np.full(wanted.shape, np.nan)
    wanted_rows, wanted_columns = np.nonzero(wanted)
    for group, task_group in set(zip(rows[wanted_rows], columns[wanted_columns], strict=True)):
        i, j = rows == group, columns == task_group
        kept = ~i if group >= 0 else i
        task_kept = ~j if task_group >= 0 else j
        result[np.ix_(i, j)] = predict(kept, task_kept, i, j)
    return np.where(wanted, result, np.nan)


def _each_fold(predict: Callable[[Array], Array], folds: Array, wanted: Array) -> np.ndarray:
    """Hide the cells of each fold; `predict` takes their mask (m, q) to their values."""
    result = np.full(folds.shape, np.nan)
    for fold in np.unique(folds[wanted]):
        hidden = folds == fold
        result[hidden] = predict(hidden)
    return np.where(wanted, result, np.nan)


def _pair_refit(method: str, side: _Side, task_side: _Side, Y: Array) -> Callable[[Array], Array]:
    """Return the function that takes a mask of hidden cells to what the other cells predict for them."""

    def impute(hidden: Array) -> Array:
        i, j = np.nonzero(hidden)
        H, task_H = side.hat, task_side.hat
        without = (H @ np.where(hidden, 0.0, Y) @ task_H)[hidden]
        return np.linalg.solve(np.eye(len(i)) - H[np.ix_(i, i)] * task_H[np.ix_(j, j)], without)

    def each_task(hidden: Array) -> Array:
        result = np.zeros(Y.shape)
        for j in np.flatnonzero(hidden.any(axis=0)):
            i = hidden[:, j]
            result[i, j] = side.predictor(~i, i) @ Y[~i, j]
        return result[hidden]

    if method == "independent":
        return each_task
    if method != "kronecker" and not (side.is_ridge and task_side.is_ridge):
        return impute
    pairs = _PairKernel(method, side, task_side)
    if Y.size > _DENSE_CELLS:
        return lambda hidden: pairs.refit(Y, hidden)
    kernel = pairs.dense()

    def observed_dual(hidden: Array) -> Array:
        hidden = hidden.ravel()
        dual = _ridge(kernel[np.ix_(~hidden, ~hidden)], Y.ravel()[~hidden], pairs.ridge)
        return kernel[np.ix_(hidden, ~hidden)] @ dual

    return observed_dual


class _PairKernel:
    """The kernel between cells, G ⊗ K or Ξ, and the ridge that goes with it.

    Both have the eigenvectors of the Kronecker product, so that the eigenvalues (m, q) say which it is.
    Those of Ξ are σs/(λ_dλ_t + λ_tσ + λ_d s), with ridge 1. At λ_d = λ_t = 0 they are infinite; let both
    vanish together: λΞ has ridge λ, and tends to σs/(σ + s) with ridge 0.
    """

    def __init__(self, method: str, side: _Side, task_side: _Side) -> None:
        values, self.U = _eigh(side.kernel)
        task_values, self.V = _eigh(task_side.kernel)
        self.values, self.ridge = np.outer(values, task_values), side.ridge
        if method != "kronecker":
            alpha, task_alpha, self.ridge = side.ridge, task_side.ridge, 1.0
            if alpha == 0 and task_alpha == 0:
                alpha, task_alpha, self.ridge = 1.0, 1.0, 0.0
            total = np.add.outer(task_alpha * values, alpha * task_values) + self.ridge * alpha * task_alpha
            self.values = self.values * _pseudo_inverse(total)

    def dense(self) -> Array:
        """Return the kernel (mq, mq), its cells in the order of the rows of the grid."""
        basis = np.kron(self.U, self.V)
        return (basis * self.values.ravel()) @ basis.T

    def multiply(self, values: Array, grid: Array) -> Array:
        """Return U (values ∘ Uᵀ grid V) Vᵀ."""
        return self.U @ (values * (self.U.T @ grid @ self.V)) @ self.V.T

    def refit(self, Y: Array, hidden: Array) -> Array:
        """Solve the system of the observed cells by conjugate gradients; predict the hidden ones.

        The inverse for the complete grid is the preconditioner: n hidden cells take about n steps, or fewer.
        """
        from scipy.sparse.linalg import LinearOperator, cg

        observed = ~hidden
        inverse = _pseudo_inverse(self.values + self.ridge)

        def spread(dual: Array) -> Array:
            grid = np.zeros(Y.shape)
            grid[observed] = dual
            return grid

        def product(dual: Array) -> Array:
            return self.multiply(self.values, spread(dual))[observed] + self.ridge * dual

        def approximate(labels: Array) -> Array:
            return self.multiply(inverse, spread(labels))[observed]

        shape = (int(observed.sum()),) * 2
        system, preconditioner = (LinearOperator(shape, f, dtype=float) for f in (product, approximate))
        dual, steps = cg(system, Y[observed], rtol=1e-12, maxiter=_MAX_STEPS, M=preconditioner)
        if steps:
            rest = np.linalg.norm(product(dual) - Y[observed]) / np.linalg.norm(Y[observed])
            warnings.warn(
                f"Refitting without {hidden.sum()} cell(s) stopped after {steps} steps at a relative "
                f"residual of {rest:.1e}: the comparison is no better than that.",
                RuntimeWarning,
                stacklevel=2,
            )
        return self.multiply(self.values, spread(dual))[hidden]


def _pair_ridge(K: Array, G: Array, Y: Array, alpha: float) -> Array:
    """Return A (m, q) with K A G + alpha A = Y, of least norm where that leaves a choice."""
    if Y.size <= _DENSE_CELLS:
        return _ridge(np.kron(K, G), Y.ravel(), alpha).reshape(Y.shape)
    (values, U), (task_values, V) = _eigh(K), _eigh(G)
    return U @ (_pseudo_inverse(np.outer(values, task_values) + alpha) * (U.T @ Y @ V)) @ V.T


def _ridge(kernel: Array, labels: Array, alpha: float) -> Array:
    """Return the dual parameters (kernel + alpha I)⁻¹ labels; at alpha = 0 those of least norm."""
    if alpha > 0:
        return np.linalg.solve(kernel + alpha * np.eye(len(kernel)), labels)
    return np.linalg.pinv(kernel, rcond=_cut(len(kernel)), hermitian=True) @ labels


def _kernel(spectrum: Spectrum) -> Array:
    """Return the kernel (n, n) that a side was fitted on, in double precision."""
    values, vectors = (to_numpy(part).astype(np.float64) for part in (spectrum.values, spectrum.vectors))
    return (vectors * values) @ vectors.T


def _cut(n: int) -> float:
    """Return the relative size under which an eigenvalue of n is rounding."""
    return n * float(np.finfo(np.float64).eps)


def _eigh(kernel: Array) -> tuple[Array, Array]:
    """Return eigenvalues (n,), with what is only rounding set to zero, and eigenvectors (n, n)."""
    values, vectors = np.linalg.eigh(kernel)
    return np.where(values > _cut(len(values)) * values.max(initial=0.0), values, 0.0), vectors


def _spectral(kernel: Array, function: Callable[[Array], Array]) -> Array:
    """Return a function of a symmetric matrix (n, n), by its eigenvalues."""
    values, vectors = _eigh(kernel)
    return (vectors * function(values)) @ vectors.T


def _pseudo_inverse(values: Array) -> Array:
    """Return 1/values, zero where a value is zero."""
    return np.where(values > 0, 1.0 / np.where(values > 0, values, 1.0), 0.0)


def _as_numpy(values: Any, name: str) -> Array:
    return to_numpy(read_table(values, name).values)


def _codes(labels: Any, name: str, shape: tuple[int, ...], setting: Setting, hides: bool) -> Array:
    """Return labels as whole numbers, one for each distinct label; where nothing is hidden, -1 throughout."""
    if labels is None:
        return np.arange(np.prod(shape)).reshape(shape) if hides else np.full(shape, -1)
    if not hides:
        raise ValueError(f"{name} does not go with setting {setting}, which hides nothing by it.")
    return group_codes(read_table(labels, name).values, shape, name)


def _vertex_groups(groups: Any, task_groups: Any, setting: Setting) -> tuple[Any, Any]:
    """Return the one grouping of the vertices of a network, for each side that hides some."""
    if setting is Setting.A:
        return groups, task_groups
    if groups is not None and task_groups is not None and not np.array_equal(groups, task_groups):
        raise ValueError("The vertices of a network have one grouping, but groups and task_groups differ.")
    vertices = task_groups if groups is None else groups
    return vertices if setting.new_instance else None, vertices if setting.new_task else None


def _edge_folds(folds: Array, given: bool) -> Array:
    """Return folds (n, n) in which both directions of an edge are in one fold."""
    if given and not np.array_equal(folds, folds.T):
        raise ValueError("cells must be symmetric in a network: both directions of an edge are one fold.")
    return np.minimum(folds, folds.T)

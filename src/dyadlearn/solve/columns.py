r"""Closed form of two-step ridge regression where the missing labels form a block.

The labels of rows M are missing for columns T, for example if a task has labels of a few instances
only (almost zero-shot). O are the rows that have all labels. :math:`\mathbf{H}_k` and
:math:`\mathbf{H}_g` are the hat matrices of the sides, :math:`\mathbf{Y}_0` the labels with zeros
where they are missing, and
:math:`\mathbf{S} = \mathbf{Y}_0[\mathbf{H}_g]_{:T}` the result of the step over the tasks. The model fills the block
with predictions :math:`\mathbf{F}` that it reproduces when it is fitted to them,

.. math:: [\mathbf{R}_k]_{MM}\mathbf{F} + [\mathbf{H}_k]_{MM}\mathbf{F}[\mathbf{R}_g]_{TT}
          = [\mathbf{H}_k]_{MO}\mathbf{S}_O + [\mathbf{H}_k]_{MM}\mathbf{S}_M .

Since :math:`[\mathbf{H}_k]_{MM} = \mathbf{I} - [\mathbf{R}_k]_{MM}`, both have the same
eigenvectors
:math:`\mathbf{W}`, with eigenvalues :math:`\mathbf{h}` and :math:`\mathbf{p} = 1 - \mathbf{h}`. With
:math:`[\mathbf{R}_g]_{TT} = \mathbf{Z}\,\mathrm{diag}(\mathbf{e})\mathbf{Z}^\top` the solution is

.. math:: \mathbf{F} = \mathbf{W}\left[\frac{\mathbf{W}^\top[\mathbf{H}_k]_{MO}\mathbf{S}_O\mathbf{Z}
          + \mathbf{h}\circ\mathbf{W}^\top\mathbf{S}_M\mathbf{Z}}
          {\mathbf{p}\mathbf{1}^\top + \mathbf{h}\mathbf{e}^\top}\right]\mathbf{Z}^\top ,

for a block of one cell the leave-one-out formula of setting A. Neither :math:`\mathbf{p}` nor
:math:`\mathbf{h}` is computed from the other, and entries off the diagonal blocks come from the
smaller of :math:`\mathbf{H}` and
:math:`\mathbf{R}`. The result is accurate for small and for large regularisation.

Independent tasks with missing labels are solved column by column, from the observed rows of each
column.

With :math:`f` the shrinkage of the instances and :math:`\boldsymbol\Xi =
\mathbf{U}\frac{f}{1-f}\mathbf{U}^\top`, a column with observed rows o and weights w has the model
:math:`\mathbf{f} = \mathbf{U}\mathbf{c}` in three equivalent forms. The smallest system is solved:

==============  ==========================================================================================
observed rows   :math:`(\boldsymbol\Xi_{oo} + \mathrm{diag}(1/w))\,\mathbf{a} = \mathbf{y}_o`, with
                :math:`\mathbf{f} = \boldsymbol\Xi_{\cdot o}\mathbf{a}`
missing rows    :math:`\mathbf{R}_{mm}\mathbf{f}_m = -\mathbf{R}_{mo}\mathbf{y}_o`, without weights
directions      :math:`(\mathrm{diag}(\tfrac{1-f}{f}) + \mathbf{U}_o^\top\mathrm{diag}(w)\mathbf{U}_o)\,\mathbf{c}
                = \mathbf{U}_o^\top\mathrm{diag}(w)\,\mathbf{y}_o`
==============  ==========================================================================================

For Tikhonov's filter this is ridge regression on the observed rows. Columns with the same observed
rows are solved together.

A free constant has no value in :math:`\boldsymbol\Xi`. It is a border of the first system, which
makes the dual coefficients sum to zero, and a direction without penalty in the other two. A column
without any label has no constant, and its predictions are NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    array_bytes,
    eigh,
    epsilon,
    largest,
    namespace,
    positive_solver,
    take_block,
    take_rows,
    to_numpy,
    with_diagonal,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn._rounding import (
    digits_left,
    ratio,
    rounding_level,
    settle,
    solve_block,
    warn_of_rounding,
)
from dyadlearn.leverage import check_cells, interpolation_error, leverage_error
from dyadlearn.solve.blocks import identity
from dyadlearn.solve.directions import LeastSquares
from dyadlearn.solve.fixed import FixedFit, FixedPart
from dyadlearn.solve.inverse import CellsInverse
from dyadlearn.solve.leaving import in_order, members_of
from dyadlearn.solve.operators import (
    GridOperators,
    check_hidden,
    common_floor,
    embedded,
    reduced,
    without,
)
from dyadlearn.spectrum import Smoother


def complete_block(
    rows: Smoother, columns: Smoother, Y: Array, missing_rows: Any, missing_columns: Any
) -> Array:
    r"""Fill a block of missing labels with the predictions of two-step ridge regression.

    This takes an eigendecomposition for each side of the block and some matrix products. The block
    may cover whole rows or columns, which are then predicted from the kernel of their side alone.

    Parameters
    ----------
    rows, columns : Smoother
        Smoothers of the m instances and of the q tasks.
    Y : array of shape (m, q)
        Labels; entries of the block are ignored.
    missing_rows, missing_columns : integer arrays of shape (a,) and (b,)
        Positions of the block.

    Returns
    -------
    array of shape (m, q)
        A copy of the labels with the block filled.

    Raises
    ------
    LeverageError
        If the block has leverage 1: the model would fit any labels in it exactly.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.solve.columns import complete_block
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> Y = np.array([[1.0, 2.0], [3.0, np.nan]])
    >>> full = complete_block(side, side, Y, [1], [1])
    >>> full.round(4)
    array([[1.    , 2.    ],
           [3.    , 0.6667]])

    A model fitted to the completed grid reproduces the filled-in labels:

    >>> round(float((side.hat() @ full @ side.hat())[1, 1]), 4)
    0.6667
    """
    if (
        rows.remainder_limit is not None and columns.remainder_limit is not None
    ):  # residuals that do not vanish
        rows = rows.scaled()
        columns = columns.scaled()
    M = np.asarray(missing_rows)
    T = np.asarray(missing_columns)
    if not M.size or not T.size:
        return namespace(Y).asarray(Y, copy=True)
    others = without(T, Y.shape[1])
    basis, slack, _, cross = _decompose(columns, T, others)
    vectors = columns.spectrum.vectors
    hat = (vectors * columns.shrinkage) @ take_rows(vectors, T).T
    S_observed = take_rows(Y, without(M, Y.shape[0])) @ hat
    S_missing = take_block(Y, M, others) @ cross.T
    floor = common_floor(rows, columns)
    filled = (
        step_over_instances(rows, M, S_observed @ basis, S_missing @ basis, slack, floor=floor)
        @ basis.T
    )
    return embedded(Y, filled, M, T)


def loses_digits(
    rows: Smoother, columns: Smoother, missing_rows: np.ndarray, missing_columns: np.ndarray
) -> bool:
    """Return whether slacks of a block differ so much that `complete_block` loses more than seven digits."""
    if not missing_rows.size or not missing_columns.size:
        return False
    slacks = []
    for side, inside in ((rows, missing_rows), (columns, missing_columns)):
        slack = _decompose(side, inside, without(inside, side.spectrum.n_rows))[1]
        slacks.append(to_numpy(slack))
    row_slacks, task_slacks = slacks
    smallest = _slack_of_pair(float(row_slacks.min()), float(task_slacks.min()))
    greatest = _slack_of_pair(float(row_slacks.max()), float(task_slacks.max()))
    return smallest < _LEAST_SLACK * greatest


def _slack_of_pair(row_slack: float, task_slack: float) -> float:
    return row_slack + (1.0 - row_slack) * task_slack


def step_over_instances(
    rows: Smoother,
    missing_rows: np.ndarray,
    S_observed: Array,
    S_missing: Array,
    slack: Array,
    *,
    floor: float = 0.0,
) -> Array:
    r"""Return the result of the step over the instances, given that of the step over the tasks.

    .. math:: \mathbf{F} = \mathbf{W}\left[\frac{\mathbf{W}^\top[\mathbf{H}_k]_{MO}\mathbf{S}_O
              + \mathbf{h}\circ\mathbf{W}^\top\mathbf{S}_M}
              {\mathbf{p}\mathbf{1}^\top + \mathbf{h}\mathbf{e}^\top}\right]

    Parameters
    ----------
    rows : Smoother
        Smoother of the m instances.
    missing_rows : integer array of shape (a,)
        Instances M whose labels are missing; the others O are in ascending order.
    S_observed : array of shape (m - a, c)
        :math:`\mathbf{S}_O`.
    S_missing : array of shape (a, c)
        :math:`\mathbf{S}_M`, without contributions of the missing labels.
    slack : array of shape (c,)
        :math:`\mathbf{e}`, eigenvalues of the residual operator of the tasks in the block.
    floor : float, default=0.0
        Lower bound of the denominator.

    Returns
    -------
    array of shape (a, c)

    Examples
    --------
    Without tasks, missing rows are predicted by ridge regression on the others:

    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.solve.columns import step_over_instances
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> step_over_instances(side, np.array([1]), np.array([[3.0]]), np.zeros((1, 1)), np.zeros(1))
    array([[1.]])
    """
    n_rows = rows.spectrum.n_rows
    if not missing_rows.size:
        return zeros((0, S_observed.shape[1]), S_observed)
    basis, row_slack, leverage, cross = _decompose(
        rows, missing_rows, without(missing_rows, n_rows)
    )
    denominator = row_slack[:, None] + leverage[:, None] * slack[None, :]
    if slack.shape[0]:
        least = float(namespace(denominator).min(denominator))
    else:
        least = math.inf
    if least <= floor:
        raise interpolation_error(missing_rows, n_rows, "rows with missing labels")
    # Directions of the block are exact up to the rounding error of the largest slack.
    warn_of_rounding(epsilon(row_slack) * largest(denominator) / least)
    numerator = (basis.T @ cross) @ S_observed
    numerator += leverage[:, None] * (basis.T @ S_missing)
    return basis @ (numerator / denominator)


def _decompose(
    side: Smoother, inside: np.ndarray, outside: np.ndarray
) -> tuple[Array, Array, Array, Array]:
    """Return the eigenvectors (a, a) of the block of a side, its slack and leverage (a,), and a part of the hat matrix.

    The last, of shape (a, n - a), is the hat matrix between the rows of the block and the others.
    """
    xp = namespace(side.shrinkage)
    spectrum = side.spectrum
    vectors = take_rows(spectrum.vectors, inside)
    _, basis = eigh((vectors * side.smaller) @ vectors.T)
    squares = (vectors.T @ basis) ** 2
    leverage = side.shrinkage @ squares
    slack = side.remainder @ squares
    if spectrum.is_truncated:
        slack = slack + xp.clip(1.0 - xp.sum(squares, axis=0), 0.0, 1.0)
    others = take_rows(spectrum.vectors, outside)
    return basis, slack, leverage, (vectors * side.off_diagonal_weights) @ others.T


def leave_one_out_beside_block(
    operators: GridOperators,
    rows: Smoother,
    columns: Smoother,
    completed: Array,
    block: tuple[np.ndarray, np.ndarray],
) -> Array:
    r"""Return leave-one-out predictions of the observed cells, if the missing labels form a block.

    Let the rows M and columns T of the block have the residual operators
    :math:`[\mathbf{R}_k]_{MM} = \mathbf{W}\,\mathrm{diag}(p)\,\mathbf{W}^\top` and
    :math:`[\mathbf{R}_g]_{TT} = \mathbf{Z}\,\mathrm{diag}(e)\,\mathbf{Z}^\top`. In these eigenvectors, the residual
    operator of the block is diagonal with entries :math:`d_{uv} = p_u + (1-p_u)e_v`. The prediction
    for an observed cell c that is left out together with the block is

    .. math:: f_c = y_c - \frac{(\mathbf{R}[\mathbf{C}])_c}
              {R_{cc} - \mathbf{R}_{cm}\mathbf{R}_{mm}^{-1}\mathbf{R}_{mc}},

    with :math:`\mathbf{C}` the completed grid. Between different cells :math:`\mathbf{R}` is
    :math:`-\mathbf{H}_k\otimes\mathbf{H}_g`. The subtracted term of all cells is one product,

    .. math:: (\mathbf{A}\circ\mathbf{A})\tfrac1d(\mathbf{B}\circ\mathbf{B})^\top, \qquad
              \mathbf{A} = [\mathbf{H}_k]_{\cdot M}\mathbf{W}, \quad \mathbf{B} =
              [\mathbf{H}_g]_{\cdot T}\mathbf{Z} .

    If both regularisations vanish, :math:`\mathbf{R}` becomes :math:`\mathbf{R}_k\otimes\mathbf{I}
    + \mathbf{I}\otimes\mathbf{R}_g`. At most one of its terms is nonzero between a cell and the
    block.

    Parameters
    ----------
    operators : GridOperators
        Operators of the model.
    rows, columns : Smoother
        Smoothers of the m instances and of the q tasks, with residuals that do not vanish.
    completed : array of shape (m, q)
        Labels, with the predictions of the model in the block.
    block : (integer array, integer array)
        Rows and columns of the block.

    Returns
    -------
    array of shape (m, q)
        Leave-one-out predictions of observed labels, and the completed labels in the block.
    """
    xp = namespace(completed)
    missing_rows, missing_columns = block
    residual = _residual(rows)
    task_residual = _residual(columns)
    p, W = eigh(take_block(residual, missing_rows, missing_rows))
    e, Z = eigh(take_block(task_residual, missing_columns, missing_columns))
    leverages = xp.ones_like(p) if operators.hat_is_identity else 1.0 - p
    weights = 1.0 / (p[:, None] + leverages[:, None] * e[None, :])
    # Identity and residual operators between all rows and those of the block, in the eigenvectors
    # of the block.
    A = _columns(identity(residual), missing_rows) @ W
    B = _columns(identity(task_residual), missing_columns) @ Z
    A_residual = _columns(residual, missing_rows) @ W
    B_residual = _columns(task_residual, missing_columns) @ Z
    if operators.hat_is_identity:
        shared = A_residual**2 @ weights @ (B**2).T + A**2 @ weights @ (B_residual**2).T
        total = rows.slack[:, None] + columns.slack[None, :]
    else:
        shared = (A - A_residual) ** 2 @ weights @ ((B - B_residual) ** 2).T
        total = rows.slack[:, None] + rows.leverage[:, None] * columns.slack[None, :]
    slack = embedded(total - shared, xp.ones_like(weights), *block)
    floor = common_floor(rows, columns)
    check_cells(slack, floor)
    if floor:
        # The rounding error of a difference is relative to its terms: the difference must exceed
        # this error by as much as in `dyadlearn._rounding.solve_block`.
        check_cells(
            slack - digits_left(completed) * sum(completed.shape) * epsilon(completed) * total, 0.0
        )
    level = rounding_level(
        xp.reshape(completed, (-1, 1)), largest(operators.shrinkage), n_terms=sum(completed.shape)
    )
    if operators.prefers_residual or operators.hat_is_identity:
        held_out = settle(slack * completed - operators.residual(completed), level) / slack
    else:  # for strong shrinkage, the hat matrix is more accurate
        leverage = rows.leverage[:, None] * columns.leverage[None, :]
        held_out = operators.hat(completed) - (leverage + shared) * completed
        held_out = settle(held_out, level) / slack
    return embedded(held_out, take_block(completed, *block), *block)


def _residual(side: Smoother) -> Array:
    """Return the residual operator (n, n), with off-diagonal entries from the smaller of hat and residual."""
    return with_diagonal(-side.off_diagonal(), side.slack)


def _columns(matrix: Array, index: np.ndarray) -> Array:
    return take_rows(matrix.T, index).T


# Ratio of two slacks of a block below which its closed form loses digits.
_LEAST_SLACK = 1e-9
# Ratio of two weights of a column above which normal equations lose digits.
_LARGE_SPREAD = 1e4
# Up to this leverage h, the difference 1 − h loses at most one digit.
_FAR_FROM_ONE = 0.9


def complete_columns(side: Smoother, Y: Array, weights: Array | None = None) -> Array:
    r"""Return the completed grid of independent tasks, on which the closed form equals the fit on observed labels.

    Parameters
    ----------
    side : Smoother
        Smoother of the m instances.
    Y : array of shape (m, q)
        Labels; NaN where missing.
    weights : array of shape (m, q), default=None
        Positive weight of each observed label in the squared loss.

    Returns
    -------
    array of shape (m, q)
        Completed labels; without weights, the observed labels, and predictions of the missing ones.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.solve.columns import complete_columns
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> complete_columns(side, np.array([[3.0], [np.nan]])).round(6)
    array([[3.],
           [1.]])
    """
    matrices = _Matrices.of(side)
    side = matrices.side
    if not matrices.ridge:
        weights = None

    def solve(column: _Column) -> Array:
        if _loses_digits(matrices, column):
            return _complete_accurately(side, column)
        # If there are as many, the system of the directions is regular for any kernel.
        sizes = {"directions": int(side.spectrum.values.shape[0]), "observed": column.rows.size}
        if not matrices.ridge:
            del sizes["directions"]
        if side.slack_floor > 0:
            # An unpenalised direction has no finite value in the kernel.
            del sizes["observed"]
        if weights is None:
            sizes["missing"] = column.missing.size
        route = min(sizes, key=lambda name: sizes[name])
        if route == "missing":
            return column.join(column.labels, _missing_rows(side, matrices, column))
        directions = None
        if route == "directions":
            directions = _directions(side, column)
        if directions is not None:
            fitted = side.spectrum.vectors @ directions[0]
            dual = column.scale * (column.labels - take_rows(fitted, column.rows))
        else:
            dual, mean = _solved(matrices, column)
            fitted = matrices.fitted(column.rows, dual) + mean
        # The closed form returns F for the labels F + a, where a is zero for missing labels.
        unlabelled = zeros((column.missing.size, dual.shape[1]), dual)
        return fitted + matrices.ridge * column.join(dual, unlabelled)

    return _each_pattern(Y, weights, solve, matrices.without_labels)


def leave_one_out_columns(side: Smoother, Y: Array, weights: Array | None = None) -> Array:
    r"""Return leave-one-out predictions of observed labels, and predictions of missing ones.

    With :math:`\mathbf{P} = (\boldsymbol\Xi_{oo} + \mathrm{diag}(1/w))^{-1}` the prediction for row
    i is
    :math:`y_i - a_i/P_{ii} = -\sum_{j\ne i}P_{ij}y_j/P_{ii}`. The sum is accurate however small it is. In the form of
    directions the prediction is :math:`(f_i - h_iy_i)/(1-h_i)` with the leverage :math:`h` of the
    weighted model. For leverages near 1, the observed rows are decomposed as a separate side.

    Parameters
    ----------
    side, Y, weights : as in `complete_columns`

    Returns
    -------
    array of shape (m, q)
    """
    matrices = _Matrices.of(side)

    def solve(column: _Column) -> Array:
        held_out, missing = _left_out_of_column(matrices, column)
        return column.join(held_out, missing)

    return _each_pattern(Y, weights, solve, matrices.without_labels)


def _left_out_of_column(matrices: _Matrices, column: _Column) -> tuple[Array, Array]:
    """Return leave-one-out predictions (n, p) of the observed rows, and predictions of the missing ones (m − n, p)."""
    side = matrices.side
    xp = namespace(column.labels)
    if matrices.has_constant and column.rows.size == 1:
        # No label is left to estimate the constant from.
        fitted = column.labels * xp.ones_like(side.spectrum.vectors[:, :1])
        held_out = xp.full_like(column.labels, float("nan"))
    elif _loses_digits(matrices, column):
        held_out, fitted = _left_out_by_least_squares(side, column)
    else:
        is_smaller = side.slack_floor > 0 or side.spectrum.values.shape[0] < column.rows.size
        directions = _directions(side, column) if is_smaller else None
        if directions is None:
            held_out, fitted = _left_out_by_inverse(matrices, column)
        else:
            held_out, fitted = _left_out_by_directions(side, column, *directions)
    return held_out, take_rows(fitted, column.missing)


def _left_out_by_least_squares(side: Smoother, column: _Column) -> tuple[Array, Array]:
    """Return leave-one-out predictions (n, p) and fitted values (m, p) from orthogonal factorisations."""
    system = _least_squares(side, column)
    return system.leave_one_out(column.labels), _fitted(side, system, column)


def _left_out_by_inverse(matrices: _Matrices, column: _Column) -> tuple[Array, Array]:
    """Return the same from the inverse of the kernel of the observed rows."""
    xp = namespace(column.labels)
    inverse = xp.linalg.inv(_system(matrices, column))
    mean = 0.0
    if matrices.has_constant:
        constant = FixedPart.constant(inverse.shape[0], inverse)
        fit = constant.solved(partial(xp.matmul, inverse))
        mean = fit.coefficients(column.labels)
        inverse = fit.project_in_place(inverse)
        least_slack = -largest(-xp.linalg.diagonal(inverse)[:, None] / column.scale)
        if matrices.ridge and least_slack < 1.0 - _FAR_FROM_ONE:
            # The border is subtracted from the inverse, which loses digits here.
            return _left_out_by_least_squares(matrices.side, column)
    fitted = matrices.fitted(column.rows, inverse @ column.labels) + mean
    return CellsInverse(inverse).leave_out(column.labels), fitted


def _left_out_by_directions(
    side: Smoother, column: _Column, coefficients: Array, solver: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """Return the same from the coefficients of the directions and a solver of their system."""
    fitted = side.spectrum.vectors @ coefficients
    vectors = take_rows(side.spectrum.vectors, column.rows)
    products = vectors * solver(vectors.T).T
    leverage = column.scale * namespace(fitted).sum(products, axis=1)[:, None]
    if largest(leverage) > _FAR_FROM_ONE:
        return _leave_one_out_apart(side, column), fitted
    of_others = take_rows(fitted, column.rows) - leverage * column.labels
    return of_others / (1.0 - leverage), fitted


def weigh_column(side: Smoother, asked: Array, y: Array, weights: Array | None = None) -> Array:
    r"""Return the weight of each observed label of a column, from the weights of the completed labels.

    This is the adjoint of `complete_columns`. In the form of directions, a prediction is
    :math:`\mathbf{v}^\top \mathbf{c}` with the coefficients :math:`\mathbf{c} =
    f\mathbf{U}^\top\mathbf{y}` of completed labels, which takes one system. In the other forms,
    unit labels are completed.

    Parameters
    ----------
    side : Smoother
        Smoother of the m instances.
    asked : array of shape (m,)
        Weights of the completed labels.
    y : array of shape (m,)
        Labels; NaN where missing.
    weights : array of shape (m,), default=None
        Positive weight of each observed label in the squared loss.

    Returns
    -------
    array of shape (m,)
        Weights; zero for missing labels.
    """
    xp = namespace(y)
    observed = ~np.isnan(to_numpy(y))
    if weights is None and observed.all():
        return asked
    rows = np.flatnonzero(observed)
    missing = np.flatnonzero(~observed)
    if not rows.size:
        return xp.zeros_like(asked)
    scale = None
    if weights is not None:
        scale = take_rows(weights, rows)[:, None]
    column = _Column(take_rows(xp.zeros_like(asked), rows)[:, None], scale, rows, missing)
    directions = None
    if side.spectrum.is_truncated:
        directions = _directions(side, column)
    if directions is not None:
        is_used = side.shrinkage > 0
        along = side.spectrum.rotate(asked[:, None])[:, 0] / xp.where(is_used, side.shrinkage, 1.0)
        along = directions[1](xp.where(is_used, along, 0.0)[:, None])
        observed_weights = column.scale * (take_rows(side.spectrum.vectors, rows) @ along)
    else:
        check_memory(
            array_bytes(y, (4, y.shape[0], rows.size)),
            y,
            f"The weights of {rows.size} labels of a column",
        )
        eye = xp.eye(rows.size, dtype=y.dtype, device=y.device)
        units = column.join(eye, zeros((missing.size, rows.size), y) + float("nan"))
        if weights is not None:
            weights = xp.broadcast_to(weights[:, None], units.shape)
        observed_weights = complete_columns(side, units, weights).T @ asked[:, None]
    return column.join(observed_weights, take_rows(xp.zeros_like(asked), missing)[:, None])[:, 0]


@dataclass(frozen=True, eq=False)
class _Column:
    """Columns that are observed in the same rows with the same weights.

    Attributes
    ----------
    labels : array of shape (n, p)
    weights : array of shape (n, 1) or None
    rows, missing : integer arrays of shape (n,) and (m − n,)
    """

    labels: Array
    weights: Array | None
    rows: np.ndarray
    missing: np.ndarray

    @property
    def scale(self) -> Array | float:
        """The weights; 1 without weights."""
        return 1.0 if self.weights is None else self.weights

    def join(self, observed: Array, missing: Array) -> Array:
        """Return values of observed and of missing rows in the order of all rows, shape (m, p)."""
        return in_order([observed, missing], [self.rows, self.missing])


def _each_pattern(
    Y: Array, weights: Array | None, solve: Callable[[_Column], Array], without_labels: float
) -> Array:
    """Return the results (m, q) of `solve`, applied to the columns of each pattern of observed rows and weights.

    `without_labels` is the prediction for columns without labels.
    """
    observed = ~np.isnan(to_numpy(Y))
    if weights is None:
        keys = observed
    else:
        keys = np.where(observed, to_numpy(weights), 0.0)
    _, codes = np.unique(keys, axis=1, return_inverse=True)
    patterns = members_of(codes.reshape(-1))
    pieces = []
    for tasks in patterns:
        rows = np.flatnonzero(observed[:, tasks[0]])
        missing = np.flatnonzero(~observed[:, tasks[0]])
        labels = take_rows(take_rows(Y.T, tasks).T, rows)
        if weights is None:
            scale = None
        else:
            scale = take_rows(weights, rows)[:, int(tasks[0])][:, None]
        if rows.size:
            pieces.append(solve(_Column(labels, scale, rows, missing)).T)
        else:
            pieces.append(zeros((tasks.size, Y.shape[0]), Y) + without_labels)
    return in_order(pieces, patterns).T


class _Matrices:
    """Blocks of the kernel and of the hat matrix of one side.

    The matrix of all rows is formed once, unless the spectrum is truncated.

    Parameters
    ----------
    side : Smoother
    ridge : float
        The ridge of the kernel: 1, or 0 for λ = 0 at full rank, where the model interpolates and
        weights have no effect.
    """

    def __init__(self, side: Smoother, ridge: float) -> None:
        self.side = side
        self.ridge = ridge

    @classmethod
    def of(cls, side: Smoother) -> _Matrices:
        """Return the blocks of a side, with a scaled residual for λ = 0 at full rank."""
        return cls(side.scaled(), 1.0 if side.remainder_limit is None else 0.0)

    @property
    def has_constant(self) -> bool:
        """Whether each column has a separate unpenalised constant."""
        return self.side.spectrum.has_free_constant

    @property
    def without_labels(self) -> float:
        """Prediction for columns without labels: NaN if they need a constant."""
        return float("nan") if self.has_constant else 0.0

    @cached_property
    def _weights(self) -> Array:
        """Eigenvalues of the kernel, shape (k,)."""
        shrinkage = self.side.shrinkage
        remainder = self.side.remainder
        if not self.has_constant:
            return shrinkage / remainder
        xp = namespace(shrinkage)
        weights = shrinkage[:-1] / remainder[:-1]
        # Dual coefficients sum to zero, so that any value gives the same result. The smallest value
        # leaves the condition of the system unchanged.
        value = 0.0
        if not self.side.spectrum.is_truncated:
            value = -largest(-weights, -1.0)
        return xp.concat([weights, xp.zeros_like(shrinkage[:1]) + value])

    @cached_property
    def _kernel(self) -> Array:
        return self.side.spectrum.matrix(self._weights)

    @cached_property
    def _hat(self) -> Array:
        return self.side.off_diagonal()

    def kernel(self, rows: np.ndarray) -> Array:
        """Return the kernel between some rows."""
        spectrum = self.side.spectrum
        if spectrum.is_truncated:
            return spectrum.block(self._weights, rows)
        return take_block(self._kernel, rows, rows)

    def fitted(self, rows: np.ndarray, dual: Array) -> Array:
        """Return the kernel between all rows and some rows, times dual coefficients of these."""
        spectrum = self.side.spectrum
        if not spectrum.is_truncated:
            return take_rows(self._kernel.T, rows).T @ dual
        return spectrum.vectors @ (
            self._weights[:, None] * (take_rows(spectrum.vectors, rows).T @ dual)
        )

    def hat(self, rows: np.ndarray, others: np.ndarray) -> Array:
        """Return the hat matrix between some rows and others; between equal rows its entries are not meaningful."""
        if self.side.spectrum.is_truncated:
            return self.side.spectrum.block(self.side.shrinkage, rows, others)
        return take_block(self._hat, rows, others)


def _system(matrices: _Matrices, column: _Column) -> Array:
    """Return the kernel of the observed rows with its ridge, shape (n, n)."""
    block = matrices.kernel(column.rows)
    return block + matrices.ridge * identity(block) / column.scale


def _solved(matrices: _Matrices, column: _Column) -> tuple[Array, Array | float]:
    """Return the dual coefficients (n, p) of columns, and their constants (p,), or 0 without constants."""
    system = _system(matrices, column)
    labels = column.labels
    xp = namespace(labels)
    if not matrices.has_constant:
        return xp.linalg.solve(system, labels), 0.0
    constant = FixedPart.constant(labels.shape[0], labels)
    solutions = xp.linalg.solve(system, xp.concat([labels, constant.columns], axis=1))
    fit = FixedFit(constant, solutions[:, -1:])
    return fit.projected(solutions[:, :-1]), fit.coefficients(labels)[0, :]


def _directions(side: Smoother, column: _Column) -> tuple[Array, Callable[[Array], Array]] | None:
    """Return the coefficients (k, p) of the eigenvectors and a solver of their system; None if it is singular."""
    check_hidden(side, column.missing)
    vectors = take_rows(side.spectrum.vectors, column.rows)
    weighted = column.scale * vectors
    xp = namespace(vectors)
    # A direction that the filter removes has an infinite penalty, which is replaced by a very large
    # one.
    is_used = side.shrinkage > 0
    penalty = side.remainder / xp.where(is_used, side.shrinkage, 1.0)
    penalty = xp.where(is_used, penalty, 1.0 / epsilon(penalty) ** 2)
    system = weighted.T @ vectors
    system = with_diagonal(system, xp.linalg.diagonal(system) + penalty)
    try:
        solver = positive_solver(system)
    except np.linalg.LinAlgError:
        if side.slack_floor == 0:
            return None
        raise leverage_error(column.rows, side.spectrum.n_rows, "rows") from None
    return solver(weighted.T @ column.labels), solver


def _leave_one_out_apart(side: Smoother, column: _Column) -> Array:
    """Return leave-one-out predictions from a decomposition of the observed rows, in which 1 − h is no difference."""
    observed = reduced(side, column.rows, column.weights)
    root = column.scale**0.5
    tight = to_numpy(observed.slack) <= observed.slack_floor
    if tight.any():
        raise leverage_error(column.rows[tight], side.spectrum.n_rows, "rows")
    return observed.leave_one_out(root * column.labels) / root


def _loses_digits(matrices: _Matrices, column: _Column) -> bool:
    """Return whether the ridge, or a weight, is lost in the systems of a column that are formed otherwise."""
    side = matrices.side
    if not matrices.ridge or side.slack_floor > 0:
        return False
    weights = column.weights
    has_large_spread = weights is not None and largest(weights) > _LARGE_SPREAD * -largest(-weights)
    return side.is_graded or has_large_spread


def _least_squares(side: Smoother, column: _Column) -> LeastSquares:
    r"""Return the regression of a column on its directions, with the features :math:`\mathbf{U}_o\sqrt{f/(1-f)}`."""
    xp = namespace(side.shrinkage)
    features = take_rows(side.spectrum.vectors, column.rows) * _roots(side)
    root = xp.ones_like(features[:, 0])
    if column.weights is not None:
        root = column.weights[:, 0] ** 0.5
    return LeastSquares(features, root, 1.0, side.spectrum.has_free_constant)


def _roots(side: Smoother) -> Array:
    """Return the roots of the eigenvalues f/(1 − f) of the kernel, shape (k,); zero for a free constant."""
    return ratio(side.shrinkage, side.remainder) ** 0.5


def _fitted(side: Smoother, system: LeastSquares, column: _Column) -> Array:
    """Return the fitted values of all rows, shape (m, p)."""
    coefficients, means = system.solve(column.labels)
    return side.spectrum.vectors @ (_roots(side)[:, None] * coefficients) + means


def _complete_accurately(side: Smoother, column: _Column) -> Array:
    """Return completed columns by least squares."""
    fitted = _fitted(side, _least_squares(side, column), column)
    observed = take_rows(fitted, column.rows)
    completed = observed + column.scale * (column.labels - observed)
    return column.join(completed, take_rows(fitted, column.missing))


def _missing_rows(side: Smoother, matrices: _Matrices, column: _Column) -> Array:
    """Return the predictions of the missing rows from the labels of the observed ones."""
    if not column.missing.size:
        return column.labels[:0, :]
    system = with_diagonal(
        -matrices.hat(column.missing, column.missing), take_rows(side.slack, column.missing)
    )
    check_hidden(side, column.missing)
    right = matrices.hat(column.missing, column.rows) @ column.labels
    refusal = partial(leverage_error, column.missing, side.spectrum.n_rows, "rows are missing and")
    return solve_block(system, right, 0.0, side.is_graded, refusal)

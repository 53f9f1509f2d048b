r"""Independent tasks with missing labels: every column is solved on its own observed rows.

With :math:`f` the shrinkage of the instances and :math:`\boldsymbol\Xi = \mathbf{U}\frac{f}{1-f}\mathbf{U}^\top`, a
column with observed rows o and weights w has the model :math:`\mathbf{f} = \mathbf{U}\mathbf{c}` in three equal forms,
of which the smallest system is solved:

==============  ==========================================================================================
observed rows   :math:`(\boldsymbol\Xi_{oo} + \mathrm{diag}(1/w))\,\mathbf{a} = \mathbf{y}_o`, with
                :math:`\mathbf{f} = \boldsymbol\Xi_{\cdot o}\mathbf{a}`
missing rows    :math:`\mathbf{R}_{mm}\mathbf{f}_m = -\mathbf{R}_{mo}\mathbf{y}_o`, without weights
directions      :math:`(\mathrm{diag}(\tfrac{1-f}{f}) + \mathbf{U}_o^\top\mathrm{diag}(w)\mathbf{U}_o)\,\mathbf{c}
                = \mathbf{U}_o^\top\mathrm{diag}(w)\,\mathbf{y}_o`
==============  ==========================================================================================

For Tikhonov's filter this is ridge regression on the observed rows. Columns with the same rows share the work.

A free constant has no value in :math:`\boldsymbol\Xi`. It is a border of the first system, which makes the dual
parameters sum to zero, and a direction without penalty in the other two. A column without any label has no constant,
and NaN for predictions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from dyadlearn._array import (
    Array,
    epsilon,
    itemsize,
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
from dyadlearn._rounding import solve_block
from dyadlearn.holes.operators import inverse_with_border
from dyadlearn.holes.reduced import check_hidden, reduced
from dyadlearn.spectrum import Smoother, leverage_error

__all__ = ["complete_columns", "leave_one_out_columns", "weigh_column"]

# Up to this leverage h the difference 1 − h keeps all digits but one.
_FAR_FROM_ONE = 0.9


def complete_columns(side: Smoother, Y: Array, weights: Array | None = None) -> Array:
    r"""Return a complete grid whose closed form is the model of the observed labels.

    Parameters
    ----------
    side : Smoother
        Of the m instances.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q), default=None
        Of the squared loss, positive where a label is observed.

    Returns
    -------
    array of shape (m, q)
        Without weights the labels where they are observed and the predictions elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> from dyadlearn.holes.columns import complete_columns
    >>> from dyadlearn.spectrum import Spectrum
    >>> side = Spectrum.from_gram(np.array([[2.0, 1.0], [1.0, 2.0]])).smoother(Tikhonov(), 1.0)
    >>> complete_columns(side, np.array([[3.0], [np.nan]])).round(6)
    array([[3.],
           [1.]])
    """
    # As λ vanishes at full rank the model interpolates: weights no longer matter, nor does the ridge.
    vanishing, side = side.contrast is not None, side.scaled()
    weights = None if vanishing else weights
    matrices = _Matrices(side, 0.0 if vanishing else 1.0)

    def solve(column: _Column) -> Array:
        sizes = {"observed": column.rows.size, "directions": int(side.spectrum.values.shape[0])}
        if vanishing:
            del sizes["directions"]
        if side.slack_floor > 0:
            # A direction that is kept whole has no penalty, and the kernel no value for it.
            del sizes["observed"]
        if weights is None:
            sizes["missing"] = column.missing.size
        form = min(sizes, key=lambda name: sizes[name])
        if form == "missing":
            return column.join(column.labels, _missing_rows(side, matrices, column))
        found = _directions(side, column) if form == "directions" else None
        if found is not None:
            fitted = side.spectrum.vectors @ found[0]
            dual = column.labels - take_rows(fitted, column.rows)
            dual = dual if column.weights is None else column.weights * dual
        elif side.is_graded and not vanishing:
            return _complete_apart(side, matrices, column)
        else:
            dual, mean = _solved(matrices, column)
            fitted = matrices.fitted(column.rows, dual) + mean
        # The closed form returns F for the labels F + a, and a is zero where nothing is observed.
        return fitted + matrices.ridge * column.join(dual, zeros((column.missing.size, dual.shape[1]), dual))

    return _each_pattern(Y, weights, solve, float("nan") if matrices.has_constant else 0.0)


def leave_one_out_columns(side: Smoother, Y: Array, weights: Array | None = None) -> Array:
    r"""Return, for each observed label, what a model that never saw it predicts; predictions elsewhere.

    With :math:`\mathbf{P} = (\boldsymbol\Xi_{oo} + \mathrm{diag}(1/w))^{-1}` the prediction for row i is
    :math:`y_i - a_i/P_{ii} = -\sum_{j\ne i}P_{ij}y_j/P_{ii}`, where the sum keeps its digits however small it is. In
    the form of directions it is :math:`(f_i - h_iy_i)/(1-h_i)` with the leverage :math:`h` of the weighted model, or,
    where that comes near to 1, the leave-one-out of the observed rows as a side of their own.

    Parameters
    ----------
    side, Y, weights : as in `complete_columns`

    Returns
    -------
    array of shape (m, q)
    """
    vanishing, side = side.contrast is not None, side.scaled()
    matrices = _Matrices(side, 0.0 if vanishing else 1.0)

    def solve(column: _Column) -> Array:
        xp = namespace(Y)
        found = None
        if matrices.has_constant and column.rows.size == 1:  # without it the column has no label
            fitted = column.labels * xp.ones_like(side.spectrum.vectors[:, :1])
            return column.join(xp.full_like(column.labels, float("nan")), take_rows(fitted, column.missing))
        if side.slack_floor > 0 or side.spectrum.values.shape[0] < column.rows.size:
            found = _directions(side, column)
        if found is None and side.is_graded and not vanishing:
            fitted = _complete_apart(side, matrices, column)
            held_out = _leave_one_out_apart(side, column)
        elif found is None:
            inverse, mean = xp.linalg.inv(_system(matrices, column)), 0.0
            if matrices.has_constant:
                inverse, mean = inverse_with_border(inverse), _constants(inverse, column.labels)
            own = xp.asarray(xp.linalg.diagonal(inverse), copy=True)[:, None]
            slack = own if column.weights is None else own / column.weights
            if matrices.has_constant and not vanishing and -largest(-slack) < 1.0 - _FAR_FROM_ONE:
                # What a border leaves of an inverse is a difference.
                fitted, held_out = _complete_apart(side, matrices, column), _leave_one_out_apart(side, column)
            else:
                fitted = matrices.fitted(column.rows, inverse @ column.labels) + mean
                held_out = -(with_diagonal(inverse, 0.0) @ column.labels) / own
        else:
            coefficients, solver = found
            fitted = side.spectrum.vectors @ coefficients
            own = take_rows(side.spectrum.vectors, column.rows)
            leverage = xp.sum(own * solver(own.T).T, axis=1)[:, None]
            leverage = leverage if column.weights is None else column.weights * leverage
            if largest(leverage) > _FAR_FROM_ONE:
                held_out = _leave_one_out_apart(side, column)
            else:
                held_out = (take_rows(fitted, column.rows) - leverage * column.labels) / (1.0 - leverage)
        return column.join(held_out, take_rows(fitted, column.missing))

    return _each_pattern(Y, weights, solve, float("nan") if matrices.has_constant else 0.0)


def weigh_column(side: Smoother, asked: Array, y: Array, weights: Array | None = None) -> Array:
    r"""Return how much each label of one column weighs, given what each weighs once the column is completed.

    It is the adjoint of `complete_columns`. In the form of directions a prediction is :math:`\mathbf{v}^\top
    \mathbf{c}` with the coefficients :math:`\mathbf{c} = f\mathbf{U}^\top\mathbf{y}` of completed labels, which takes
    no more than one system of them; else unit labels are completed.

    Parameters
    ----------
    side : Smoother
        Of the m instances.
    asked : array of shape (m,)
        The weights on completed labels.
    y : array of shape (m,)
        NaN where not observed.
    weights : array of shape (m,), default=None
        Of the squared loss, positive where a label is observed.

    Returns
    -------
    array of shape (m,)
        Zero where nothing is observed.
    """
    xp, observed = namespace(y), ~np.isnan(to_numpy(y))
    if weights is None and observed.all():
        return asked
    rows, missing = np.flatnonzero(observed), np.flatnonzero(~observed)
    scale, found = None if weights is None else take_rows(weights, rows)[:, None], None
    column = _Column(take_rows(xp.zeros_like(asked), rows)[:, None], scale, rows, missing)
    if side.spectrum.is_truncated and rows.size:
        found = _directions(side, column)
    if found is not None:
        kept = side.shrinkage > 0
        along = side.spectrum.rotate(asked[:, None])[:, 0] / xp.where(kept, side.shrinkage, 1.0)
        along = found[1](xp.where(kept, along, 0.0)[:, None])
        own = take_rows(side.spectrum.vectors, rows) @ along
        own = own if scale is None else scale * own
    else:
        check_memory(4.0 * y.shape[0] * rows.size * itemsize(y), y, f"Weighing {rows.size} labels of a column")
        eye = xp.eye(rows.size, dtype=y.dtype, device=y.device)
        units = column.join(eye, zeros((missing.size, rows.size), y) + float("nan"))
        given = None if weights is None else xp.broadcast_to(weights[:, None], units.shape)
        own = complete_columns(side, units, given).T @ asked[:, None]
    return column.join(own, take_rows(xp.zeros_like(asked), missing)[:, None])[:, 0]


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

    def join(self, observed: Array, missing: Array) -> Array:
        """Put values of observed and of missing rows in their places, shape (m, p)."""
        together = namespace(observed).concat([observed, missing], axis=0)
        return take_rows(together, np.argsort(np.concatenate([self.rows, self.missing])))


def _each_pattern(Y: Array, weights: Array | None, solve: Callable[[_Column], Array], without_labels: float) -> Array:
    """Apply `solve` to the columns of each pattern and put the results (m, p) back in order.

    `without_labels` is predicted where a column has none.
    """
    observed = ~np.isnan(to_numpy(Y))
    keys = observed if weights is None else np.where(observed, to_numpy(weights), 0.0)
    _, codes = np.unique(keys, axis=1, return_inverse=True)
    codes = codes.reshape(-1)
    order = np.argsort(codes, kind="stable")
    pieces = []
    for tasks in np.split(order, np.cumsum(np.bincount(codes))[:-1]):
        rows, missing = np.flatnonzero(observed[:, tasks[0]]), np.flatnonzero(~observed[:, tasks[0]])
        labels = take_rows(take_rows(Y.T, tasks).T, rows)
        scale = None if weights is None else take_rows(weights, rows)[:, int(tasks[0])][:, None]
        if rows.size:
            pieces.append(solve(_Column(labels, scale, rows, missing)).T)
        else:
            # Nothing is known of such a task: ridge regression predicts zero, but a constant it has not.
            pieces.append(zeros((tasks.size, Y.shape[0]), Y) + without_labels)
    return take_rows(namespace(Y).concat(pieces, axis=0), np.argsort(order)).T


class _Matrices:
    """Blocks of the kernel, with its ridge, of the hat and of the residual of one side.

    A matrix of all rows is formed, once, only where the eigenvectors are as large.
    """

    def __init__(self, side: Smoother, ridge: float) -> None:
        self._side, self.ridge = side, ridge

    @property
    def has_constant(self) -> bool:
        """Whether each column has a constant of its own."""
        return self._side.spectrum.has_free_constant

    @cached_property
    def _weights(self) -> Array:
        shrinkage, remainder = self._side.shrinkage, self._side.remainder  # f = 1 where λ vanishes
        if not self.has_constant:
            return shrinkage / remainder
        xp, weights = namespace(shrinkage), shrinkage[:-1] / remainder[:-1]
        # Any value will do, for dual parameters sum to zero. That of the least direction leaves the system as regular
        # as it is without a constant.
        own = 0.0 if self._side.spectrum.is_truncated else -largest(-weights, -1.0)
        return xp.concat([weights, xp.zeros_like(shrinkage[:1]) + own])

    @cached_property
    def _kernel(self) -> Array:
        return self._side.spectrum.matrix(self._weights)

    @cached_property
    def _residual(self) -> Array:
        return self._side.residual()

    @cached_property
    def _hat(self) -> Array:
        return self._side.hat()

    def kernel(self, rows: np.ndarray) -> Array:
        """Return the kernel between some rows."""
        spectrum = self._side.spectrum
        return spectrum.block(self._weights, rows) if spectrum.is_truncated else take_block(self._kernel, rows, rows)

    def fitted(self, rows: np.ndarray, dual: Array) -> Array:
        """Return the kernel of all rows with some, times their dual parameters."""
        spectrum = self._side.spectrum
        if not spectrum.is_truncated:
            return take_rows(self._kernel.T, rows).T @ dual
        return spectrum.vectors @ (self._weights[:, None] * (take_rows(spectrum.vectors, rows).T @ dual))

    def residual(self, rows: np.ndarray) -> Array:
        """Return the residual operator between some rows."""
        if self._side.spectrum.is_truncated:
            return self._side.residual_block(rows)
        return take_block(self._residual, rows, rows)

    def from_others(self, rows: np.ndarray, others: np.ndarray, labels: Array) -> Array:
        """Return what the hat puts in some rows from the labels of others."""
        if self._side.spectrum.is_truncated:
            return self._side.spectrum.block(self._side.shrinkage, rows, others) @ labels
        if self._side.prefers_residual:
            return -take_block(self._residual, rows, others) @ labels
        return take_block(self._hat, rows, others) @ labels


def _system(matrices: _Matrices, column: _Column) -> Array:
    block = matrices.kernel(column.rows)
    xp = namespace(block)
    eye = xp.eye(column.rows.size, dtype=block.dtype, device=block.device)
    return block + matrices.ridge * (eye if column.weights is None else eye / column.weights)


def _solved(matrices: _Matrices, column: _Column) -> tuple[Array, Array | float]:
    """Return the dual parameters (n, p) of columns, and their constants (p,), or 0 where there are none."""
    system, labels = _system(matrices, column), column.labels
    xp = namespace(labels)
    if not matrices.has_constant:
        return xp.linalg.solve(system, labels), 0.0
    found = xp.linalg.solve(system, xp.concat([labels, xp.ones_like(labels[:, :1])], axis=1))
    dual, ones = found[:, :-1], found[:, -1:]
    means = xp.sum(dual, axis=0) / xp.sum(ones)
    return dual - ones * means, means


def _constants(inverse: Array, labels: Array) -> Array:
    """Return the constants (p,) of columns, given the inverse (n, n) of their system without a border."""
    ones = namespace(inverse).sum(inverse, axis=1)
    return (ones @ labels) / namespace(inverse).sum(ones)


def _directions(side: Smoother, column: _Column) -> tuple[Array, Callable[[Array], Array]] | None:
    """Return the coefficients (k, p) of the eigenvectors and a solver of their system.

    None where it is too near to singular to be solved.
    """
    check_hidden(side, column.missing)
    own = take_rows(side.spectrum.vectors, column.rows)
    weighted = own if column.weights is None else column.weights * own
    xp = namespace(own)
    # A direction that the filter drops has no finite penalty: it is left out by one that nothing can pay.
    kept = side.shrinkage > 0
    penalty = side.remainder / xp.where(kept, side.shrinkage, xp.ones_like(side.shrinkage))
    penalty = xp.where(kept, penalty, xp.full_like(penalty, 1.0 / epsilon(penalty) ** 2))
    system = weighted.T @ own
    system = with_diagonal(system, xp.linalg.diagonal(system) + penalty)
    try:
        solver = positive_solver(system)
    except np.linalg.LinAlgError:
        if side.slack_floor == 0:
            return None
        raise leverage_error(column.rows, side.spectrum.n_rows, "rows") from None
    return solver(weighted.T @ column.labels), solver


def _leave_one_out_apart(side: Smoother, column: _Column) -> Array:
    """Leave rows out of the observed ones as a side of their own: 1 − h is no difference there."""
    own, root = _apart(side, column)
    tight = to_numpy(own.slack) <= own.slack_floor
    if tight.any():
        raise leverage_error(column.rows[tight], side.spectrum.n_rows, "rows")
    return own.leave_one_out(root * column.labels) / root


def _complete_apart(side: Smoother, matrices: _Matrices, column: _Column) -> Array:
    """Complete columns from the observed rows as a side of their own, where the ridge is lost beside their kernel."""
    own, root = _apart(side, column)
    labels = root * column.labels
    fitted, dual = own.smooth(labels) / root, root * own.spectrum.apply(own.remainder, 1.0, labels)
    completed = fitted + dual
    if side.slack_floor > 0 or column.missing.size <= column.rows.size:
        return column.join(completed, _missing_rows(side, matrices, replace(column, labels=completed)))
    # Few rows predict many: no system of the many is formed.
    image = matrices.fitted(column.rows, dual)
    means = namespace(image).mean(fitted - take_rows(image, column.rows), axis=0) if matrices.has_constant else 0.0
    return column.join(completed, take_rows(image, column.missing) + means)


def _apart(side: Smoother, column: _Column) -> tuple[Smoother, Array | float]:
    """Return the observed rows as a side of their own, and the roots of their weights, of shape (n, 1) or 1."""
    root = 1.0 if column.weights is None else column.weights**0.5
    return reduced(side, column.rows, column.weights), root


def _missing_rows(side: Smoother, matrices: _Matrices, column: _Column) -> Array:
    if not column.missing.size:
        return column.labels[:0, :]
    system = matrices.residual(column.missing)
    check_hidden(side, column.missing)
    right = matrices.from_others(column.missing, column.rows, column.labels)
    refusal = partial(leverage_error, column.missing, side.spectrum.n_rows, "rows are missing and")
    return solve_block(system, right, 0.0, side.is_graded, refusal)

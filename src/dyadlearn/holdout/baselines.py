r"""Baselines: predictions from means of labels, held out as the model is, with which scores are compared.

Four baselines use no features. Each is computed from the training labels, those that the setting does not leave out:

==================  ================================================================================
``grand_mean``      the mean of all training labels
``instance_means``  the mean of the training labels of the instance
``task_means``      the mean of the training labels of the task
``additive``        an effect of the instance plus one of the task, by least squares on all training labels
==================  ================================================================================

An instance or a task without training labels gets the grand mean: the instance in B, the task in C, both in D. Means
have the weights of the model's loss.

Least squares determine the sum of both effects if a chain of labels leads from the instance to the task: a label of the
instance, another label of that label's task, another label of that instance, and so on. Otherwise, and where weights
differ by more than a factor of :math:`10^8`, the additive prediction is the instance mean plus the task mean minus the
grand mean, which is the least squares solution on a complete grid. With m × q labels and the residuals
:math:`\mathbf{R}` of the additive fit, leaving out a single cell of a complete grid is a division,

.. math:: F_{ij} = Y_{ij} - \frac{R_{ij}}{(1 - 1/m)(1 - 1/q)} .

On an incomplete grid the divisor is :math:`1 - h_{ij}`, with :math:`h_{ij}` the leverage of the cell. With the cells as
edges of a graph between instances and tasks, :math:`h_{ij}` is the resistance between both ends of an edge times its
weight. It is 1 for a cell that is the only connection of its ends.

A list of labels has the same baselines. The effects solve the same equations, there by conjugate
gradients: with the weights :math:`\mathbf{W}` of the pairs as a sparse matrix, one product with
:math:`\mathbf{D}' - \mathbf{W}^\top\mathbf{D}^{-1}\mathbf{W}` takes two passes over the pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from dyadlearn._array import Array, as_array_of, positive_solver, to_numpy
from dyadlearn.holdout.folds import folds_of
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.conjugate_gradients import conjugate_gradients
from dyadlearn.solve.leaving import refuse
from dyadlearn.spectrum import nothing_left

#: The names of the baselines.
BASELINES = ("grand_mean", "instance_means", "task_means", "additive")

#: Largest ratio of two weights for which least squares determine the effects; beyond it rounding dominates.
WIDEST = 1e8

# Largest number of grids in memory for means, for least squares of incomplete labels, and for folds of cells.
_MEAN_GRIDS, _FIT_GRIDS, _FOLD_GRIDS = 9.0, 20.0, 23.0

_Means = dict[str, np.ndarray]


def baselines(
    labels: Labels, setting: str | Setting, units: Units | None = None, *, symmetry: int = 0
) -> dict[str, Array]:
    """Return the baseline predictions of every label from the training labels of a setting.

    Parameters
    ----------
    labels : Labels
    setting : str or Setting
        What is left out: the pair (A), the instance (B), the task (C) or both (D).
    units : Units, default=None
        Pairs, instances or tasks that are left out together; None is one pair, instance or task at a time.
    symmetry : {0, 1, -1}, default=0
        1 or −1 for a network, whose labels equal plus or minus their transpose: an edge is left out in both directions,
        a node on both sides.

    Returns
    -------
    dict of str to array of the shape of the labels' values
        One entry for each name of `BASELINES`. Do not write to the arrays: baselines that are equal by definition share
        one array.

    Raises
    ------
    ValueError
        If a unit leaves no training labels.
    NotEnoughMemoryError
        If the grids of the computation do not fit into memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout.baselines import baselines
    >>> from dyadlearn.labels import Labels
    >>> predictions = baselines(Labels.of_grid(np.array([[1.0, 2.0], [3.0, 6.0]])), "B")
    >>> predictions["task_means"]
    array([[3., 6.],
           [1., 2.]])
    >>> predictions["grand_mean"]
    array([[4.5, 4.5],
           [1.5, 1.5]])
    """
    setting, units = as_setting(setting), Units() if units is None else units
    Y = labels.grid
    if Y is None:
        return _by_folds(labels, setting, units)
    is_fitted = setting is Setting.A and labels.full is None
    n_grids = _FOLD_GRIDS if units.cells is not None else _FIT_GRIDS if is_fitted else _MEAN_GRIDS
    refuse(n_grids * math.prod(labels.shape), Y, setting, " by simple means")
    if units.cells is not None:
        return _by_folds(labels, setting, units)
    # Sums are computed with numpy in double precision, as in metrics: the masks of the units are numpy arrays.
    values = np.asarray(to_numpy(Y), dtype=np.float64)
    grid = _Grid(np.where(labels.observed, values, 0.0), _relative_weights(labels), labels, symmetry)
    means = _without_each_cell(grid) if setting is Setting.A else _without_rows(grid, setting, units)
    shared = {id(each): as_array_of(each, Y, Y.dtype) for each in means.values()}
    return {name: shared[id(means[name])] for name in BASELINES}


@dataclass(frozen=True, eq=False)
class _Grid:
    """Labels Y (m, q), 0 where not observed, and their weights W, 0 there; `symmetry` as above."""

    Y: np.ndarray
    W: np.ndarray
    labels: Labels
    symmetry: int

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted labels and weights; a mean is the quotient of their sums."""
        return (self.Y if self.labels.weights is None else self.Y * self.W), self.W

    def others(self, values: np.ndarray, axis: int) -> np.ndarray:
        """Return for each entry the sum of all others along an axis."""
        if self.labels.weights is None:
            return np.asarray(values.sum(axis=axis, keepdims=True) - values)
        # The others are added up: subtracting a very large weight from the total would cancel their digits.
        entries = np.moveaxis(values, axis, 0)
        sums = np.zeros_like(entries)
        sums[1:] += np.cumsum(entries, axis=0)[:-1]
        sums[:-1] += np.cumsum(entries[::-1], axis=0)[::-1][1:]
        return np.moveaxis(sums, 0, axis)

    def without_each(self, values: np.ndarray) -> np.ndarray:
        """Return for each cell the sum of all others; in a network both directions of an edge are one."""
        if not self.symmetry:
            return self.others(values.reshape(-1), 0).reshape(values.shape)
        edges = np.triu(values + values.T, 1) + np.diag(np.diag(values))
        sums = np.triu(self.others(edges.reshape(-1), 0).reshape(values.shape))
        return np.asarray(sums + np.triu(sums, 1).T)


def _mean(total: np.ndarray, weight: np.ndarray, otherwise: np.ndarray | float | None = None) -> np.ndarray:
    """Return weighted means, or the values of `otherwise` where the total weight is 0; raise if it is None."""
    known = weight > 0
    if known.all():
        return np.asarray(total / weight)
    if otherwise is None:
        raise nothing_left()
    return np.where(known, total / np.where(known, weight, 1.0), otherwise)


# --- instances or tasks are left out -------------------------------------------------------------


def _without_rows(grid: _Grid, setting: Setting, units: Units) -> _Means:
    """Return the baselines of settings B, C and D."""
    m, q = grid.Y.shape
    rows, columns = _codes(units.instances, m), _codes(units.tasks, q)
    if grid.symmetry:  # nodes have one grouping
        rows = columns = columns if units.instances is None else rows
    if setting is Setting.D:
        blocks = [_summed(_summed(each, rows).T, columns).T for each in grid.sums]
        if grid.symmetry:
            rest = [_without_two(each) for each in blocks]
        else:
            rest = [grid.others(grid.others(each, 0), 1) for each in blocks]
        grand = _mean(rest[0], rest[1])[np.ix_(rows, columns)]
        return dict.fromkeys(BASELINES, grand)
    sums, codes, known, new = grid.sums, rows, "task_means", "instance_means"
    if setting is Setting.C:
        sums, codes, known, new = (sums[0].T, sums[1].T), columns, new, known
    parts = [_summed(each, codes) for each in sums]
    if grid.symmetry:
        both = [_summed(each.T, codes) for each in parts]
        totals = [np.diag(grid.others(grid.others(each, 0), 1)) for each in both]
    else:
        totals = [grid.others(each.sum(axis=1), 0) for each in parts]
    grand = _mean(totals[0], totals[1])[:, None]
    means = _mean(grid.others(parts[0], 0), grid.others(parts[1], 0), grand)
    if grid.symmetry:  # a node is left out of the columns too
        means = np.where(np.arange(len(grand))[:, None] == codes, grand, means)
    grand, means = np.broadcast_to(grand[codes], sums[0].shape), means[codes]
    if setting is Setting.C:
        grand, means = grand.T, means.T
    return {"grand_mean": grand, new: grand, known: means, "additive": means}


def _codes(given: np.ndarray | None, size: int) -> np.ndarray:
    """Return the number of the unit of each row, counted from 0 without a gap."""
    return np.arange(size) if given is None else np.unique(given, return_inverse=True)[1].reshape(size)


def _summed(values: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the sum of the rows (m, q) of each unit."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return values[order] if starts.size == codes.size else np.add.reduceat(values[order], starts, axis=0)


def _without_two(values: np.ndarray) -> np.ndarray:
    """Return the sum of a square grid (n, n) without rows and columns i and j, for each i and j."""
    diagonal, ends = np.diag(values), values.sum(axis=0) + values.sum(axis=1)
    sums = values.sum() - np.add.outer(ends - diagonal, ends - diagonal) + values + values.T
    np.fill_diagonal(sums, values.sum() - ends + diagonal)
    return np.asarray(sums)


# --- cells are left out --------------------------------------------------------------------------


def _without_each_cell(grid: _Grid) -> _Means:
    """Return the baselines of setting A: each cell from all others, in a network without its other direction."""
    total, weight = grid.sums
    grand = _mean(grid.without_each(total), grid.without_each(weight))
    rows, columns = (_mean(grid.others(total, axis), grid.others(weight, axis), grand) for axis in (1, 0))
    means = {"grand_mean": grand, "instance_means": rows, "task_means": columns}
    if not _tells_effects(grid.W):
        return {**means, "additive": rows + columns - grand}
    if grid.labels.full is not None:
        fitted, slack = _complete_fit(grid)
        determined: np.ndarray = slack > 0
    else:
        fitted, connects, alone, reverse = _fit(grid.Y, grid.W, is_network=bool(grid.symmetry))
        slack = alone - grid.symmetry * reverse
        determined = connects & (slack > 0)
        # Whether a cell is the only connection of its ends depends on the graph, not on the weights.
        if grid.labels.weights is not None:
            _, _, alone, reverse = _fit(grid.Y, np.sign(weight), is_network=bool(grid.symmetry))
        # The smallest 1 − h of a connected cell is that of a cycle through all instances and tasks, 1/(m + q).
        determined &= alone - np.abs(reverse) > 0.25 / sum(grid.Y.shape)
    additive = grid.Y - (grid.Y - fitted) / np.where(determined, slack, 1.0)
    if not determined.all():
        additive = np.where(determined, additive, rows + columns - grand)
    return {**means, "additive": additive}


def _complete_fit(grid: _Grid) -> tuple[np.ndarray, np.ndarray]:
    """Return the additive fit of complete labels and 1 − h, the divisor of its residuals to leave out a cell."""
    Y, (m, q) = grid.Y, grid.Y.shape
    fitted = Y.mean(axis=1, keepdims=True) + Y.mean(axis=0) - Y.mean()
    slack = np.asarray((1 - 1 / m) * (1 - 1 / q))
    if grid.symmetry:  # (i, j) and (j, i) are left out together
        reverse = (1 - 1 / m) ** 2 + grid.symmetry / m**2
        slack = np.where(np.eye(m, dtype=bool), slack, reverse)
    return fitted, slack


def _fit(Y: np.ndarray, W: np.ndarray, *, is_network: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    r"""Fit effects of rows and columns by weighted least squares on the cells that have a weight.

    With the weights :math:`\mathbf{W}`, diagonal matrices :math:`\mathbf{D}` and :math:`\mathbf{D}'` of their sums over
    rows and columns, :math:`\mathbf{s}` and :math:`\mathbf{s}'` those of the weighted labels, and :math:`\mathbf{P} =
    \mathbf{D}^{-1}\mathbf{W}`, the effects of columns and rows are

    .. math::
       (\mathbf{D}' - \mathbf{W}^\top\mathbf{P})\,\mathbf{b} = \mathbf{s}' - \mathbf{P}^\top\mathbf{s}, \qquad
       \mathbf{a} = \mathbf{D}^{-1}(\mathbf{s} - \mathbf{W}\mathbf{b}) .

    In each connected part of the graph, a constant can be added to the rows and subtracted from the columns. A term of
    rank one makes the solution unique without changing the sums of both effects.

    Parameters
    ----------
    Y, W : arrays of shape (m, q)
        Labels and weights; cells of weight 0 are ignored.
    is_network : bool

    Returns
    -------
    fitted : array of shape (m, q)
        The sum of both effects.
    connects : boolean array of shape (m, q)
        Whether a chain of cells leads from the row to the column.
    alone : array of shape (m, q)
        1 − h of each cell.
    reverse : array of shape (m, q) or ()
        In a network, the entry of the hat matrix between a cell and its other direction; else 0.
    """
    if Y.shape[0] < Y.shape[1]:  # the system has the size of the smaller side
        fitted, connects, alone, reverse = (each.T for each in _fit(Y.T, W.T, is_network=is_network))
        return fitted, connects, alone, reverse
    at, across = np.nonzero(W)
    row_part, part = _connected(at, across, (W.shape[0], W.shape[1]))
    rows, columns = W.sum(axis=1), W.sum(axis=0)
    weights = np.where(rows > 0, rows, 1.0)[:, None]
    P = W / weights
    centre = float((Y * W).sum() / W.sum())
    residual = np.where(W > 0, Y - centre, 0.0) * W
    own = np.where(columns > 0, columns, 1.0)
    each = np.bincount(part, own)[part]
    system = np.diag(columns) - W.T @ P
    system += np.where(part[:, None] == part, np.outer(own, own / each), 0.0)
    solve = positive_solver(system)
    effects = solve(residual.sum(axis=0) - P.T @ residual.sum(axis=1))
    fitted = centre + (residual.sum(axis=1) - W @ effects)[:, None] / weights + effects
    G = solve(np.eye(len(effects)))
    between = P @ G
    alone = 1.0 - W * ((between * P).sum(axis=1)[:, None] + 1.0 / weights - 2.0 * between + np.diag(G))
    reverse = np.zeros(())
    if is_network:
        middle = np.diag(between)
        reverse = W * (between @ P.T - middle[:, None] - middle + G)
        np.fill_diagonal(reverse, 0.0)
    return fitted, row_part[:, None] == part, alone, reverse


def _connected(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of the connected component of each row (m,) and of each column (q,) of some cells."""
    m, size = shape[0], sum(shape)
    edges = sparse.coo_array((np.ones(rows.size, dtype=np.int8), (rows, columns + m)), shape=(size, size))
    part = connected_components(edges, directed=False)[1]
    return part[:m], part[m:]


# Tolerance of the effects; labels have fewer digits.
_TOL = 1e-11


def _by_folds(labels: Labels, setting: Setting, units: Units) -> dict[str, Array]:
    """Return the baselines of each fold from the labels of the other folds."""
    values, observed = np.asarray(to_numpy(labels.values), dtype=np.float64).reshape(-1), labels.observed.reshape(-1)
    weights = _relative_weights(labels).reshape(-1)
    # Effects are fitted where instance and task are known, unless the weights differ too much.
    has_effects = setting is Setting.A and _tells_effects(weights)
    places = [np.asarray(labels.at(np.arange(length), axis)).reshape(-1) for axis, length in enumerate(labels.shape)]
    predictions = np.full((len(BASELINES), values.size), np.nan)
    for fold in folds_of(labels, setting, units):
        train, test = np.flatnonzero(observed & ~fold.left.reshape(-1)), fold.test
        if not train.size:
            raise nothing_left()
        y, w = values[train], weights[train]
        known, asked = ([place[which] for place in places] for which in (train, test))
        found = _label_means(known, y, w, labels.shape)
        means, grand = [each[to] for each, to in zip(found, asked, strict=True)], found[0][-1]
        additive = means[0] + means[1] - grand
        if has_effects:
            effects, parts = _effects(known[0], known[1], y, w, labels.shape)
            connects = parts[0][asked[0]] == parts[1][asked[1]]
            additive = np.where(connects, effects[0][asked[0]] + effects[1][asked[1]], additive)
        for row, each in zip(predictions, (grand, *means, additive), strict=True):
            row[test] = each
    like, shape = labels.values, labels.values.shape
    return {
        name: as_array_of(row.reshape(shape), like, like.dtype)
        for name, row in zip(BASELINES, predictions, strict=True)
    }


def _label_means(places: list[np.ndarray], y: np.ndarray, w: np.ndarray, shape: tuple[int, int]) -> list[np.ndarray]:
    """Return the mean labels of the instances, shape (m + 1,), and of the tasks, shape (q + 1,).

    The last entry, and that of an instance or task without labels, is the mean of all labels. `places` are the
    positions of the instance and of the task of each label, y its value and w its weight.
    """
    grand = float(w @ y / w.sum())
    return [
        _mean(np.bincount(at, w * y, minlength=length + 1), np.bincount(at, w, minlength=length + 1), grand)
        for at, length in zip(places, shape, strict=True)
    ]


def means_for_unknown(labels: Labels, places: Sequence[np.ndarray]) -> np.ndarray:
    """Return the mean label of the known side of pairs, and the mean of all labels where neither side is known.

    Parameters
    ----------
    labels : Labels
        Training labels.
    places : (integer array of shape (n,), integer array of shape (n,))
        Training positions of the instance and of the task of each pair, -1 if unknown.

    Returns
    -------
    array of shape (n,)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout.baselines import means_for_unknown
    >>> from dyadlearn.labels import Labels
    >>> labels = Labels.of_grid(np.array([[1.0, 2.0], [3.0, 6.0]]))
    >>> means_for_unknown(labels, (np.array([1, -1, -1]), np.array([-1, 0, -1])))
    array([4.5, 2. , 3. ])
    """
    listed = labels.listed()
    values = np.asarray(to_numpy(listed.values), dtype=np.float64)
    by_instance, by_task = _label_means(list(listed.places), values, _relative_weights(listed), labels.shape)
    return np.asarray(np.where(places[0] >= 0, by_instance[places[0]], by_task[places[1]]))


def _relative_weights(labels: Labels) -> np.ndarray:
    """Return weights of the shape of the labels' values, at most 1; 0 where no label is observed."""
    if labels.weights is None:
        return labels.observed.astype(np.float64)
    weights = np.where(labels.observed, np.asarray(to_numpy(labels.weights), dtype=np.float64), 0.0)
    return np.asarray(weights / weights.max())


def _tells_effects(weights: np.ndarray) -> bool:
    """Return whether weights are similar enough for least squares to determine effects, see `WIDEST`."""
    return float(weights.max()) <= WIDEST * float(np.min(weights, where=weights > 0, initial=np.inf))


def _effects(
    rows: np.ndarray, columns: np.ndarray, y: np.ndarray, w: np.ndarray, shape: tuple[int, int]
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Return least squares effects of rows (m,) and of columns (q,), and the connected component of each."""
    m, q = shape
    if m < q:  # the system has the size of the smaller side
        effects, parts = _effects(columns, rows, y, w, (q, m))
        return effects[::-1], parts[::-1]
    W = sparse.csr_array((w, (rows, columns)), shape=shape)
    sums = (np.asarray(W.sum(axis=axis)).reshape(-1) for axis in (1, 0))
    row_sums, column_sums = (np.where(each > 0, each, 1.0) for each in sums)
    centre = float(w @ y / w.sum())
    residual = w * (y - centre)
    left, right = np.bincount(rows, residual, minlength=m), np.bincount(columns, residual, minlength=q)
    has_label = np.bincount(columns, minlength=q) > 0
    transposed = sparse.csr_array(W.T)

    def product(effects: np.ndarray) -> np.ndarray:
        return np.asarray(np.where(has_label, column_sums * effects, 0.0) - transposed @ ((W @ effects) / row_sums))

    target = right - transposed @ (left / row_sums)
    solved = conjugate_gradients(
        product, target, precondition=lambda rest: rest / column_sums, tol=_TOL, max_iter=10 * q
    )
    return (centre + (left - W @ solved.values) / row_sums, solved.values), _connected(rows, columns, shape)

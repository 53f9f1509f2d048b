r"""Baselines: predictions from means of labels, held out as the model is, with which scores are compared.

Four baselines use no features. Each is computed from the training labels, those that the setting
does not leave out:

==================  ================================================================================
``grand_mean``      the mean of all training labels
``instance_means``  the mean of the training labels of the instance
``task_means``      the mean of the training labels of the task
``additive``        an effect of the instance plus one of the task, by least squares on all training labels
==================  ================================================================================

An instance or a task without training labels gets the grand mean: the instance in B, the task in C,
both in D. Means have the weights of the model's loss.

Least squares determine the sum of both effects if a chain of labels leads from the instance to the
task: a label of the instance, another label of that label's task, another label of that instance,
and so on. Otherwise, and where weights differ by more than a factor of :math:`10^8`, the additive
prediction is the instance mean plus the task mean minus the grand mean, which is the least squares
solution on a complete grid. With m × q labels and the residuals
:math:`\mathbf{R}` of the additive fit, leaving out a single cell of a complete grid is a division,

.. math:: F_{ij} = Y_{ij} - \frac{R_{ij}}{(1 - 1/m)(1 - 1/q)} .

Elsewhere the divisor is :math:`1 - h_{ij}`, with :math:`h_{ij}` the leverage of the cell. With the
cells as edges of a graph between instances and tasks, :math:`h_{ij}` is the resistance between both
ends of an edge times its weight. It is 1 for a cell that is the only connection of its ends.

Grids with missing or weighted labels and lists of labels have the same formulas, in which only
observed cells take part. The system of the effects has the order of the smaller side, see
`dyadlearn.holdout.additive`. For folds of cells it is solved for each fold by conjugate gradients,
and so it is for each label where an inverse of this order would take longer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, array_bytes, as_array_of, namespace, to_numpy
from dyadlearn._codes import pair_numbers
from dyadlearn._memory import fits_in_memory
from dyadlearn._work import products
from dyadlearn.holdout.additive import Effects
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.settings import Setting, as_setting
from dyadlearn.solve.leaving import members_of, members_of_one_size, refuse

#: The names of the baselines.
BASELINES = ("grand_mean", "instance_means", "task_means", "additive")

#: Largest ratio of two weights for which least squares determine the effects; beyond it rounding
#: dominates.
WIDEST = 1e8

# Largest number of arrays of all cells in memory for means, and for least squares.
_MEAN_GRIDS = 16.0
_FIT_GRIDS = 24.0
# Multiplications that take as long as one fit by conjugate gradients, at least and for each label.
_LEAST_FIT = 1e8
_FIT_OF_LABEL = 400.0

# Names of the means of each side.
_SIDE_MEANS = ("instance_means", "task_means")

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
        Pairs, instances or tasks that are left out together; None is one pair, instance or task at
        a time.
    symmetry : {0, 1, -1}, default=0
        1 or −1 for a network, whose labels equal plus or minus their transpose: an edge is left out
        in both directions, a node on both sides.

    Returns
    -------
    dict of str to array of the shape of the labels' values
        One entry for each name of `BASELINES`. Do not write to the arrays: baselines that are equal
        by definition share one array.

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
    setting = as_setting(setting)
    if units is None:
        units = Units()
    like = labels.values
    if labels.observed.size == math.prod(labels.shape):
        is_fitted = setting is Setting.A and not _is_complete_fit(labels, units)
        matrix = namespace(like).reshape(like, labels.shape)
        n_grids = _FIT_GRIDS if is_fitted else _MEAN_GRIDS
        refuse(n_grids * math.prod(labels.shape), matrix, setting, " by simple means")
    # Sums are computed with numpy in double precision, as in metrics: the masks of the units are
    # numpy arrays.
    values = np.asarray(to_numpy(like), dtype=np.float64)
    y = np.where(labels.observed, values, 0.0).reshape(-1)
    cells = _Cells(_places(labels), y, _relative_weights(labels).reshape(-1), labels, symmetry)
    if setting is Setting.A:
        means = _without_cells(cells, units)
    elif symmetry:
        means = _without_nodes(cells, setting, units)
    else:
        means = _without_units(cells, setting, units)
    shared = {
        id(mean): as_array_of(mean.reshape(values.shape), like, like.dtype)
        for mean in means.values()
    }
    return {name: shared[id(means[name])] for name in BASELINES}


def _places(labels: Labels) -> tuple[np.ndarray, np.ndarray]:
    """Return the row and the column of each entry of the values."""
    rows, columns = (np.arange(length, dtype=np.int32) for length in labels.shape)
    return labels.at(rows, 0).reshape(-1), labels.at(columns, 1).reshape(-1)


def _mean(
    total: np.ndarray, weight: np.ndarray, otherwise: np.ndarray | float | None = None
) -> np.ndarray:
    """Return weighted means, or the values of `otherwise` where the total weight is 0; raise if it is None."""
    known = weight > 0
    if known.all():
        return np.asarray(total / weight)
    if otherwise is None:
        raise nothing_left()
    return np.where(known, total / np.where(known, weight, 1.0), otherwise)


def _of_one_side(axis: int, grand: np.ndarray, means: np.ndarray) -> _Means:
    """Return the baselines of pairs with one new side, from the grand mean and the means of the known side."""
    known = _SIDE_MEANS[1 - axis]
    return {"grand_mean": grand, _SIDE_MEANS[axis]: grand, known: means, "additive": means}


def _codes(units: np.ndarray | None, size: int) -> np.ndarray:
    """Return the number of the unit of each row, counted from 0 without a gap."""
    if units is None:
        return np.arange(size)
    return np.unique(units, return_inverse=True)[1].reshape(size)


def _without_two(values: np.ndarray) -> np.ndarray:
    """Return the sum of a square grid (n, n) without rows and columns i and j, for each i and j."""
    diagonal = np.diag(values)
    ends = values.sum(axis=0) + values.sum(axis=1)
    sums = values.sum() - np.add.outer(ends - diagonal, ends - diagonal) + values + values.T
    np.fill_diagonal(sums, values.sum() - ends + diagonal)
    return np.asarray(sums)


def _is_complete_fit(labels: Labels, units: Units) -> bool:
    """Return whether the additive fits without each label have a closed form."""
    return labels.is_full and units.cells is None


def _complete_fit(cells: _Cells) -> tuple[np.ndarray, np.ndarray]:
    """Return additive predictions of each cell of a complete grid without it, and whether the others determine them."""
    m, q = cells.labels.shape
    Y = cells.y.reshape(m, q)
    fitted = Y.mean(axis=1, keepdims=True) + Y.mean(axis=0) - Y.mean()
    slack = np.full((m, q), (1 - 1 / m) * (1 - 1 / q))
    if cells.symmetry:  # (i, j) and (j, i) are left out together
        reverse = (1 - 1 / m) ** 2 + cells.symmetry / m**2
        slack = np.where(np.eye(m, dtype=bool), slack, reverse)
    determined = slack > 0
    additive = Y - (Y - fitted) / np.where(determined, slack, 1.0)
    return additive.reshape(-1), determined.reshape(-1)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells with their labels y, 0 where not observed, and weights w, 0 there; `symmetry` as above.

    A list of labels has its observed cells, a grid all of its cells.
    """

    places: tuple[np.ndarray, np.ndarray]
    y: np.ndarray
    w: np.ndarray
    labels: Labels
    symmetry: int

    @property
    def rows(self) -> np.ndarray:
        """Row of each cell."""
        return self.places[0]

    @property
    def columns(self) -> np.ndarray:
        """Column of each cell."""
        return self.places[1]

    @cached_property
    def numbered(self) -> tuple[list[np.ndarray], tuple[int, ...]]:
        """Row and column of each cell among those of the cells, and their numbers; in a grid, among all."""
        has_all_cells = self.y.size == math.prod(self.labels.shape)
        if has_all_cells or self.symmetry:
            return list(self.places), self.labels.shape
        distinct = [np.unique(places, return_inverse=True) for places in self.places]
        return [codes for _, codes in distinct], tuple(labels.size for labels, _ in distinct)

    def effects(self, used: np.ndarray) -> Effects:
        """Return the least squares problem of effects for the cells in a mask."""
        (rows, columns), shape = self.numbered
        return Effects(rows[used], columns[used], self.w[used], (shape[0], shape[1]))

    @cached_property
    def sums(self) -> tuple[np.ndarray, np.ndarray]:
        """Weighted labels and weights; a mean is the quotient of their sums."""
        return (self.y if self.labels.weights is None else self.y * self.w), self.w

    def mean_of_others(
        self, places: np.ndarray, units: np.ndarray | None, otherwise: np.ndarray | None = None
    ) -> np.ndarray:
        """Return for each cell the mean over the cells of the same place in other units, which are cells if None."""
        divided = None if units is None else _blocks(places, units)
        if divided is None or divided[0].size == places.size:  # no two cells are left out together
            del divided
            rest = [_of_others(total, places, self.subtracts) for total in self.sums]
            return _mean(rest[0], rest[1], otherwise)
        starts, blocks = divided
        rest = []
        for total in self.sums:
            of_blocks = np.bincount(blocks, total)
            rest.append(_of_others(of_blocks, places[starts], self.subtracts)[blocks])
        return _mean(rest[0], rest[1], otherwise)

    @property
    def together(self) -> np.ndarray:
        """One place for all cells."""
        return np.zeros(self.y.size, dtype=np.int8)

    def mean_without_both(
        self, units: Sequence[np.ndarray], otherwise: float | None = None
    ) -> np.ndarray:
        """Return for each cell the mean over the cells of other units of instances and other units of tasks."""
        starts, blocks = _blocks(units[0], units[1])
        shape = [int(codes.max()) + 1 for codes in units]
        if starts.size == math.prod(shape):  # each two units have cells, as in a grid
            del starts
            rest = []
            for total in self.sums:
                sums = np.bincount(blocks, total).reshape(shape)
                rest.append(_without_lines(sums, self.subtracts).reshape(-1)[blocks])
            return _mean(rest[0], rest[1], otherwise)
        first, second = (_codes(codes_of_side[starts], starts.size) for codes_of_side in units)
        rest = []
        for total in self.sums:
            sums = np.bincount(blocks, total)
            columns = np.bincount(second, sums)
            outside = _outside(columns, first, second, self.subtracts)
            # The sum over the columns of a row's own blocks, each without the row.
            inside = _of_others(_of_others(sums, second, self.subtracts), first, self.subtracts)
            rest.append((outside[first] + inside)[blocks])
        return _mean(rest[0], rest[1], otherwise)

    @property
    def subtracts(self) -> bool:
        """Whether a sum over others is a difference: subtracting a very large weight would cancel the other digits."""
        return self.labels.weights is None


def _blocks(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the first cell of each pair of codes, in their order, and the number of the pair of each cell."""
    n_second = int(second.max()) + 1
    codes = pair_numbers(first, second, n_second)
    n_codes = (int(first.max()) + 1) * n_second
    if n_codes > 2 * codes.size:
        _, starts, blocks = np.unique(codes, return_index=True, return_inverse=True)
        return starts, blocks
    # Most pairs of codes have a cell, as in a grid: no code needs to be sorted.
    cell_of = np.full(n_codes, -1)
    cell_of[codes[::-1]] = np.arange(codes.size)[::-1]
    is_used = cell_of >= 0
    if is_used.all():
        return cell_of, codes
    return cell_of[is_used], (np.cumsum(is_used) - 1)[codes]


def _of_others(values: np.ndarray, places: np.ndarray, subtracts: bool) -> np.ndarray:
    """Return for each entry the sum of all other entries of its place, by a difference or by adding them up."""
    if subtracts:
        return np.asarray(np.bincount(places, values)[places] - values)
    sums = np.zeros_like(values)
    for members in members_of_one_size(places):
        sums[members] = _exclusive(values[members].T).T
    return sums


def _exclusive(values: np.ndarray) -> np.ndarray:
    """Return for each entry the sum of all others along the first axis, without a subtraction."""
    sums = np.zeros_like(values)
    sums[1:] += np.cumsum(values, axis=0)[:-1]
    sums[:-1] += np.cumsum(values[::-1], axis=0)[::-1][1:]
    return sums


def _without_lines(values: np.ndarray, subtracts: bool) -> np.ndarray:
    """Return for each cell of a grid (m, q) the sum without its row and its column."""
    for _ in range(2):
        if subtracts:
            others = values.sum(axis=0) - values
        else:
            others = _exclusive(values)
        values = others.T
    return values


def _outside(
    totals: np.ndarray, first: np.ndarray, second: np.ndarray, subtracts: bool
) -> np.ndarray:
    """Return for each row the sum of totals (q,) of the columns in which it has no block; blocks are in order."""
    if subtracts:
        return np.asarray(totals.sum() - np.bincount(first, totals[second]))
    # Between the blocks of a row are runs of other columns, one before each block and one after the
    # last.
    n_rows = int(first.max()) + 1
    ends = np.append(np.flatnonzero(np.diff(first)) + 1, first.size)
    to = np.insert(second, ends, totals.size)
    row = np.insert(first, ends, np.arange(n_rows))
    begin = np.where(np.diff(row, prepend=-1) > 0, 0, np.append(0, to[:-1] + 1))
    runs = np.add.reduceat(np.append(totals, 0.0), np.stack([begin, to], axis=1).reshape(-1))[::2]
    return np.asarray(np.bincount(row, np.where(begin < to, runs, 0.0)))


def _without_units(cells: _Cells, setting: Setting, units: Units) -> _Means:
    """Return the baselines of settings B, C and D."""
    codes = [of_side.reshape(-1) for of_side in units.of_labels(cells.labels, setting)]
    if setting is Setting.D:
        return dict.fromkeys(BASELINES, cells.mean_without_both(codes))
    (axis,) = setting.new
    grand = cells.mean_of_others(cells.together, codes[0])
    means = cells.mean_of_others(cells.places[1 - axis], codes[0], grand)
    return _of_one_side(axis, grand, means)


def _without_nodes(cells: _Cells, setting: Setting, units: Units) -> _Means:
    """Return the baselines of settings B, C and D of a network, whose nodes are left out on both sides."""
    n = cells.labels.shape[0]
    given = [codes for codes in units.sides if codes is not None]  # nodes have one grouping
    unit_of = _codes(given[0] if given else None, n)
    both = [unit_of[places] for places in cells.places]
    if setting is Setting.D:
        n_units = int(unit_of.max()) + 1
        numbers = pair_numbers(both[0], both[1], n_units)
        total, weight, count = (
            _without_two(np.bincount(numbers, sums, n_units**2).reshape(n_units, n_units))
            for sums in (*cells.sums, cells.w > 0)
        )
        # A difference of weights that is only rounding is zero; one of counts is exact.
        weight = np.where(count > 0, weight, 0.0)
        return dict.fromkeys(BASELINES, _mean(total, weight)[both[0], both[1]])
    (axis,) = setting.new
    without_node = cells.mean_without_both(both, np.nan)[:: n + 1]
    if np.isnan(without_node).any():
        raise nothing_left()
    grand = without_node[cells.places[axis]]
    means = cells.mean_of_others(cells.places[1 - axis], both[axis], grand)
    # A node is left out of the known side too.
    means = np.where(both[0] == both[1], grand, means)
    return _of_one_side(axis, grand, means)


def _without_cells(cells: _Cells, units: Units) -> _Means:
    """Return the baselines of setting A: each cell from those of other units, in a network without its other direction.

    A unit is a cell, an edge of a network, or a fold.
    """
    codes = None
    is_single = units.cells is None
    if units.cells is not None:
        codes = np.unique(units.cells.reshape(-1), return_inverse=True)[1]
        is_single = not cells.symmetry and int(codes.max()) + 1 == codes.size
        if is_single:
            codes = None
    elif cells.symmetry:
        low = np.minimum(cells.rows, cells.columns)
        high = np.maximum(cells.rows, cells.columns)
        codes = pair_numbers(low, high, cells.labels.shape[1])
    grand = cells.mean_of_others(cells.together, codes)
    rows, columns = (cells.mean_of_others(places, codes, grand) for places in cells.places)
    additive = rows + columns - grand
    if _is_complete_fit(cells.labels, units):
        fitted, determined = _complete_fit(cells)
        additive = np.where(determined, fitted, additive)
    elif _tells_effects(cells.w):
        if is_single and _is_affordable(cells):
            fitted, determined = _fit_without_each(cells)
        else:
            fitted, determined = _fit_without_folds(
                cells, np.arange(cells.y.size) if codes is None else codes
            )
        additive = np.where(determined, fitted, additive)
    return {
        "grand_mean": grand,
        "instance_means": rows,
        "task_means": columns,
        "additive": additive,
    }


def _is_affordable(cells: _Cells) -> bool:
    """Return whether an inverse of the order of the smaller side takes less time than one fit for each label."""
    order = min(cells.numbered[1])
    n = int(np.count_nonzero(cells.w))
    fits = max(products((n, _LEAST_FIT)), products((n, _FIT_OF_LABEL, n)))
    is_quicker = products((order, order, order)) <= fits
    return is_quicker and fits_in_memory(array_bytes(None, (4, order, order)), cells.labels.values)


def _fit_without_each(cells: _Cells) -> tuple[np.ndarray, np.ndarray]:
    """Return additive predictions of each cell without it, and whether the other cells determine them."""
    observed = cells.w > 0
    effects = cells.effects(observed)
    inverse = effects.inverse()
    fit = effects.fit(cells.y[observed], effects.solver(inverse))
    alone, reverse = effects.slack(inverse, is_network=bool(cells.symmetry))
    slack = alone - cells.symmetry * reverse
    # Whether a cell is the only connection of its ends depends on the graph, not on the weights.
    if cells.labels.weights is not None:
        del inverse
        effects = replace(effects, w=np.ones_like(effects.w))
        alone, reverse = effects.slack(effects.inverse(), is_network=bool(cells.symmetry))
    # The smallest 1 − h of a connected cell is that of a cycle through all instances and tasks,
    # 1/(m + q).
    is_tied = (slack > 0) & (alone - np.abs(reverse) > 0.25 / sum(effects.shape))
    del effects, alone, reverse
    fitted, determined = fit.at(*cells.numbered[0])
    determined[observed] &= is_tied
    y = cells.y[observed]
    fitted[observed] = y - (y - fitted[observed]) / np.where(is_tied, slack, 1.0)
    return fitted, determined


def _fit_without_folds(cells: _Cells, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return additive predictions of each cell without its fold, and whether the other cells determine them."""
    fitted = np.zeros_like(cells.y)
    determined = np.zeros(cells.y.size, dtype=bool)
    observed = cells.w > 0
    rows, columns = cells.numbered[0]
    for test in members_of(codes):
        train = observed.copy()
        train[test] = False
        effects = cells.effects(train)
        fit = effects.fit(cells.y[train], effects.iterate)
        fitted[test], determined[test] = fit.at(rows[test], columns[test])
    return fitted, determined


# --- means ----------------------------------------------------------------------------------------


def _label_means(
    places: list[np.ndarray], y: np.ndarray, w: np.ndarray, shape: tuple[int, int]
) -> list[np.ndarray]:
    """Return the mean labels of the instances, shape (m + 1,), and of the tasks, shape (q + 1,).

    The last entry, and that of an instance or task without labels, is the mean of all labels.
    `places` are the positions of the instance and of the task of each label, y its value and w its
    weight.
    """
    grand = float(w @ y / w.sum())
    return [
        _mean(
            np.bincount(at, w * y, minlength=length + 1),
            np.bincount(at, w, minlength=length + 1),
            grand,
        )
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
    by_instance, by_task = _label_means(
        list(listed.places), values, _relative_weights(listed), labels.shape
    )
    return np.asarray(np.where(places[0] >= 0, by_instance[places[0]], by_task[places[1]]))


def _relative_weights(labels: Labels) -> np.ndarray:
    """Return weights of the shape of the labels' values, at most 1; 0 where no label is observed."""
    if labels.weights is None:
        return labels.observed.astype(np.float64)
    weights = np.where(labels.observed, np.asarray(to_numpy(labels.weights), dtype=np.float64), 0.0)
    return np.asarray(weights / weights.max())


def _tells_effects(weights: np.ndarray) -> bool:
    """Return whether weights are similar enough for least squares to determine effects, see `WIDEST`."""
    return float(weights.max()) <= WIDEST * float(
        np.min(weights, where=weights > 0, initial=np.inf)
    )

r"""Hold-out in setting D for pair kernels that the eigenvectors of both sides diagonalise.

For each task j the tasks without j are decomposed, :math:`\mathbf{G}_{-j} =
\mathbf{W}\,\mathrm{diag}(\mathbf{t}) \mathbf{W}^\top`, and the labels rotated, :math:`\mathbf{Z} =
\mathbf{Y}_{-j}\mathbf{W}`. With the pairwise kernel
:math:`a\,\mathbf{K}\otimes\mathbf{G} + b\,\mathbf{K}\otimes\mathbf{I} + c\,\mathbf{I}\otimes\mathbf{G}` every column is
then an independent ridge problem with the kernel :math:`(at_c+b)\mathbf{K}` and the ridge
:math:`ct_c+\lambda`, whose leave-one-out is a division. The prediction for task j, to which only
the first term contributes, is the last factor:

.. math:: F_D[:, j] = \left[\left(\mathbf{Z} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\mathbf{Z})}
          {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right)\mathrm{diag}\frac{a}{a\mathbf{t}+b}\right]
          \mathbf{W}^\top\mathbf{G}_{-j,j}, \qquad \rho_{ic} = \frac{ct_c+\lambda}{(at_c+b)\sigma_i
          + ct_c + \lambda}.

The loop is over the side with fewer rows (or groups), in parallel threads. On a processor, the
kernel without task j is decomposed for each j. On an accelerator that is slow, and
`dyadlearn.pairing.without_one.without_each` updates the spectrum of all tasks, for many single tasks
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from dyadlearn._array import (
    Array,
    eigh,
    epsilon,
    is_foreign,
    largest,
    namespace,
    product_like,
    svd,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._rounding import rounding_level, settle
from dyadlearn._threads import for_each
from dyadlearn._work import products
from dyadlearn.pairing.base import knows_new_pairs
from dyadlearn.pairing.constant import (
    ConstantColumns,
    MeanOfOthers,
    ones_of,
    rounding_of_centred,
    settled_ones,
)
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.pairing.without_one import without_each
from dyadlearn.solve.leaving import (
    Members,
    column_weights,
    gather_groups,
    in_order,
    leave_out_columns,
)
from dyadlearn.solve.operators import interpolation_floor
from dyadlearn.spectrum import Spectrum

# Approximate number of values of the arrays for several columns and regularisations: small enough
# for the cache, large enough to avoid a loop in Python.
_BLOCK_NUMBERS = 2**16
# The same for an accelerator.
_FOREIGN_BLOCK_NUMBERS = 2**24


def new_both(
    model: PairKernel,
    stack: Array,
    alphas: Sequence[float],
    members: Members = None,
    task_members: Members = None,
) -> Array:
    r"""Return the predictions for pairs whose instance and task are both left out (setting D).

    All regularisations share everything except :math:`\boldsymbol\rho`, and the labels of all grids
    are rotated together. In addition to the result, a grid needs about seven arrays of its size,
    for any number of regularisations.

    Parameters
    ----------
    model : PairKernel
        Model of both sides; its regularisation is not used.
    stack : array of shape (p, m, q)
        Labels of p grids.
    alphas : sequence of n floats
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks.

    Returns
    -------
    array of shape (p, n, m, q)
    """
    parts = []
    for _, some in groupby(alphas, lambda alpha: model.at(alpha).floors):
        part = list(some)
        parts.append(_with_common_floors(model.at(part[0]), stack, part, members, task_members))
    if len(parts) == 1:
        held_out = parts[0]
    else:
        held_out = namespace(stack).concat(parts, axis=1)
    if model.free_mean:
        for place in range(stack.shape[0]):
            level = rounding_of_centred(stack[place, ...])
            for index in range(len(alphas)):
                settle(held_out[place, index, ...], level)
    return held_out


def _with_common_floors(
    model: PairKernel,
    stack: Array,
    alphas: Sequence[float],
    members: Members,
    task_members: Members,
) -> Array:
    """Return the predictions of `new_both` for regularisations under which the floors of the sides are the same."""
    xp = namespace(stack)
    groups = gather_groups(members, model.spectrum.n_rows)
    task_groups = gather_groups(task_members, model.task_spectrum.n_rows)
    p, m, q = stack.shape
    n = len(alphas)
    if not knows_new_pairs(model):
        return zeros((p, n, m, q), stack)
    if len(groups) < len(task_groups):
        turned = xp.permute_dims(stack, (0, 2, 1))
        held_out = _with_common_floors(model.transposed, turned, alphas, task_members, members)
        return xp.permute_dims(held_out, (0, 1, 3, 2))
    if model.free_mean:
        ones_of(model.task_spectrum)  # raises if ones are not in the span of the tasks
    labels = _Labels.of(model, stack)
    system = _WithoutTasks(model, labels, alphas, members, task_members)
    held_out = zeros((q, p, n, m), stack)

    def leave_out(group: np.ndarray) -> None:
        if group.size == q:
            return
        for grid, predictions in enumerate(system.predictions(group)):
            for place, task in enumerate(group):
                held_out[int(task), grid, ...] = predictions[..., place]

    work = products((len(task_groups), n, p, m, m, q))
    for_each(leave_out, task_groups, labels.stack, n_operations=work)
    return xp.permute_dims(held_out, (1, 2, 3, 0))


@dataclass(frozen=True, eq=False)
class _Labels:
    """Labels of p grids, less an offset of each, and the same with rotated instances.

    Attributes
    ----------
    stack : array of shape (p, m, q)
    offsets : array of shape (p, 1, 1)
        Average of each grid if the model has an unpenalised mean, else 0.
    below : array of shape (p m, q)
        The grids one below the other.
    rotated_below : array of shape (p k, q)
    """

    stack: Array
    offsets: Array
    below: Array
    rotated_below: Array

    @classmethod
    def of(cls, model: PairKernel, stack: Array) -> _Labels:
        """Return the labels for a model."""
        xp = namespace(stack)
        p, m, q = stack.shape
        offsets = zeros((p, 1, 1), stack)
        if model.free_mean:
            offsets = xp.mean(stack, axis=(1, 2), keepdims=True)
            stack = stack - offsets
        rotated = [model.spectrum.rotate(stack[grid, ...]) for grid in range(p)]
        return cls(stack, offsets, xp.reshape(stack, (p * m, q)), xp.concat(rotated, axis=0))

    def along(self, vectors: Array) -> tuple[Array, Array]:
        """Return the labels (p, m, c) of columns that combine tasks (q, c), and the same rotated (p, k, c)."""
        xp = namespace(self.stack)
        p, m, _ = self.stack.shape
        k = self.rotated_below.shape[0] // p
        columns = xp.reshape(self.below @ vectors, (p, m, -1))
        return columns, xp.reshape(self.rotated_below @ vectors, (p, k, -1))


class _Columns(NamedTuple):
    """Some of the rotated tasks, without those that are left out.

    Attributes
    ----------
    values : array of shape (c,)
        Eigenvalues t of the tasks.
    scales : array of shape (c,)
        Factors at + b of the kernel of the instances.
    ending : array of shape (c, g)
        Factors that turn predictions for the columns into those for the g left-out tasks.
    share : array of shape (c,) or None
        Projection of ones on the columns; None without an unpenalised mean.
    labels, rotated : arrays of shape (p, m, c) and (p, k, c)
        Labels of each grid, and the same with rotated instances.
    rounding : list of arrays of shape (c,)
        Rounding error of the labels of each grid.
    """

    values: Array
    scales: Array
    ending: Array
    share: Array | None
    labels: Array
    rotated: Array
    rounding: list[Array]

    def ended(self, part: Array) -> Array:
        """Return predictions for the left-out tasks (n, m, g) from those for the columns (m, n c)."""
        xp = namespace(part)
        m = part.shape[0]
        c, g = self.ending.shape
        predictions = xp.reshape(part, (-1, c)) @ self.ending
        return xp.permute_dims(xp.reshape(predictions, (m, -1, g)), (1, 0, 2))


class _Filters(NamedTuple):
    """Ridge problems of c columns under b consecutive regularisations.

    Attributes
    ----------
    here : slice
        Positions of the regularisations.
    weights, direct : arrays of shape (k, b c) and (b c,)
        See `column_weights`.
    floor : float
        Lower bound of the slack.
    constant : ConstantColumns or None
        Solutions for ones; None without an unpenalised mean.
    diagonal : array of shape (m, b c) or None
        Diagonal of the operators; None if groups are left out.
    """

    here: slice
    weights: Array
    direct: Array
    floor: float
    constant: ConstantColumns | None
    diagonal: Array | None


@dataclass(frozen=True, eq=False)
class _Sums:
    """Predictions of one grid for g left-out tasks, summed over the columns of the other tasks.

    Attributes
    ----------
    predictions : array of shape (n, m, g)
        Predictions without the mean.
    mean : MeanOfOthers
        Unpenalised mean of the other labels.
    of_ones : array of shape (n, m, g) or None
        Predictions where all labels are ones; None without an unpenalised mean.
    """

    predictions: Array
    mean: MeanOfOthers
    of_ones: Array | None

    @classmethod
    def start(cls, n: int, n_tasks: int, Y: Array, members: Members, *, free_mean: bool) -> _Sums:
        """Return sums of zero for n regularisations of labels (m, q)."""
        shape = (n, int(Y.shape[0]), n_tasks)
        of_ones = zeros(shape, Y) if free_mean else None
        return cls(zeros(shape, Y), MeanOfOthers.start(n, Y, members), of_ones)

    def total(self, Y: Array, offset: Array) -> Array:
        """Return the predictions with the mean of the other labels, which are Y plus an offset."""
        if self.of_ones is None:
            return self.predictions
        mean = self.mean.value(Y, "pairs")[:, :, None]
        return self.predictions + (mean * (1.0 - self.of_ones) + offset)


class _WithoutTasks:
    """Predict left-out tasks, each instance by the model that lacks it too.

    Parameters
    ----------
    model : PairKernel
    labels : _Labels
    alphas : sequence of n floats
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks.
    """

    def __init__(
        self,
        model: PairKernel,
        labels: _Labels,
        alphas: Sequence[float],
        members: Members,
        task_members: Members,
    ) -> None:
        self.model = model
        self.labels = labels
        self.alphas = alphas
        self.members = members
        self._others_of = _others_of(model, one_by_one=task_members is None)
        self._ones = ones_of(model.spectrum) if model.free_mean else None
        self._squares = model.spectrum.vectors**2 if members is None else None
        _, m, q = labels.stack.shape
        numbers = _FOREIGN_BLOCK_NUMBERS if is_foreign(labels.stack) else _BLOCK_NUMBERS
        self._blocks = _alpha_blocks(alphas, max(1, numbers // (m * q)))
        self._width = max(192, numbers // m)

    def predictions(self, group: np.ndarray) -> list[Array]:
        """Return the predictions (n, m, g) of each grid for the g tasks of a group by the models without them."""
        stack = self.labels.stack
        grids = range(stack.shape[0])
        sums = [
            _Sums.start(
                len(self.alphas),
                group.size,
                stack[grid, ...],
                self.members,
                free_mean=self.model.free_mean,
            )
            for grid in grids
        ]
        for columns in self._columns(group):
            for here in self._blocks:
                filters = self._filters(columns, here)
                for grid in grids:
                    self._add(sums[grid], columns, filters, grid)
        return [
            sums[grid].total(stack[grid, ...], self.labels.offsets[grid, ...]) for grid in grids
        ]

    def _columns(self, group: np.ndarray) -> Iterator[_Columns]:
        """Yield the rotated tasks without a group, some at a time."""
        xp = namespace(self.labels.stack)
        product, per_task, _ = self.model.shares
        kept = np.delete(np.arange(self.model.task_spectrum.n_rows), group)
        # The eigenvectors have rows of zeros for the left-out tasks, so that the labels need not be
        # copied.
        others = self._others_of(group, kept)
        shares = None
        if self.model.free_mean:
            shares = settled_ones(xp.sum(others.vectors, axis=0), kept.size)
        n_columns = others.values.shape[0]
        for start in range(0, n_columns, self._width):
            here = slice(start, min(start + self._width, n_columns))
            values = others.values[here]
            ending = 0.0 * others.cross[here, :]
            if self.model.shares_product:
                divisor = values[:, None] + per_task / product
                ending = others.cross[here, :] / xp.where(divisor > 0, divisor, 1.0)
            share = None if shares is None else shares[here]
            labels, rotated = self.labels.along(others.vectors[:, here])
            scales = product * values + per_task
            rounding = [rounding_level(labels[grid, ...], 1.0) for grid in range(labels.shape[0])]
            yield _Columns(values, scales, ending, share, labels, rotated, rounding)

    def _filters(self, columns: _Columns, here: slice) -> _Filters:
        """Return the ridge problems of some columns under some regularisations."""
        spectrum = self.model.spectrum
        alphas = self.alphas[here]
        per_instance = self.model.terms.per_instance
        ridges = namespace(columns.values).stack(
            [per_instance * columns.values + alpha for alpha in alphas]
        )
        weights, direct = column_weights(spectrum, columns.scales, ridges)
        floor = column_floor(spectrum, alphas[0], columns.scales, ridges)
        constant = None
        if self._ones is not None:
            constant = ConstantColumns.of(spectrum, self._ones, columns.scales, ridges, direct)
        diagonal = None
        if self.members is None:
            diagonal = product_like(self._squares, weights)
        return _Filters(here, weights, direct, floor, constant, diagonal)

    def _add(self, sums: _Sums, columns: _Columns, filters: _Filters, grid: int) -> None:
        """Add the predictions of some columns to the sums of a grid."""
        here = filters.here
        constant = filters.constant
        labels = columns.labels[grid, ...]
        part, left = leave_out_columns(
            self.model.spectrum,
            filters.weights,
            filters.direct,
            labels,
            columns.rotated[grid, ...],
            self.members,
            filters.floor,
            residuals=None if constant is None else constant.residuals,
            diagonal=filters.diagonal,
            rounding=columns.rounding[grid],
        )
        if constant is not None and columns.share is not None and sums.of_ones is not None:
            left = sums.mean.add(here, constant, columns.share, labels, part, left)
            sums.of_ones[here, ...] += columns.share @ columns.ending - columns.ended(left)
        sums.predictions[here, ...] += columns.ended(part)


def column_floor(spectrum: Spectrum, alpha: float, scales: Array, ridges: Array) -> float:
    """Return the lower bound of the slack 1 − h: 0 unless some column has a kernel and no ridge."""
    if alpha > 0 or not bool(namespace(scales).any((ridges == 0) & (scales[None, :] > 0))):
        return 0.0
    return interpolation_floor(alpha, spectrum)


def _alpha_blocks(alphas: Sequence[float], size: int) -> list[slice]:
    """Return consecutive blocks of regularisations; one of 0 is a block, because its formulas differ."""
    blocks: list[slice] = []
    for index, alpha in enumerate(alphas):
        last = blocks[-1] if blocks else slice(0, 0)
        has_room = 0 < last.stop - last.start < size
        if has_room and alpha != 0 and alphas[last.start] != 0:
            blocks[-1] = slice(last.start, index + 1)
        else:
            blocks.append(slice(index, index + 1))
    return blocks


class _Others(NamedTuple):
    """Decomposition of a side of q rows without some of them.

    Attributes
    ----------
    values : array of shape (c,)
        Eigenvalues.
    vectors : array of shape (q, c)
        Eigenvectors, with rows of zeros for left-out rows.
    cross : array of shape (c, left out)
        The product WᵀG with the kernel of the left-out rows.
    """

    values: Array
    vectors: Array
    cross: Array


#: Returns the decomposition of a side for left-out and kept positions.
_OthersOf = Callable[[np.ndarray, np.ndarray], _Others]


def _others_of(model: PairKernel, *, one_by_one: bool) -> _OthersOf:
    """Return a function that decomposes the tasks of a model without some of them.

    Null directions do not contribute to predictions of tasks, but their labels contribute to the
    mean: without a mean, they are removed, or their eigenvectors are zeros.
    """
    spectrum = model.task_spectrum
    least = model.floors[1]
    if is_foreign(spectrum.values) and one_by_one and not spectrum.is_truncated:
        return _Updated(spectrum, model.free_mean, least)
    return _Decomposed(spectrum, model.free_mean, least)


class _Decomposed:
    """Decompose a side without some rows.

    Parameters
    ----------
    spectrum : Spectrum
    keeps_null : bool
        Whether null directions are kept.
    least : float
        Eigenvalues up to this size are set to zero.
    """

    def __init__(self, spectrum: Spectrum, keeps_null: bool, least: float) -> None:
        self.spectrum = spectrum
        self.keeps_null = keeps_null
        self.least = least
        if spectrum.is_truncated:
            self._root = spectrum.vectors * spectrum.values**0.5
        else:
            self._gram = spectrum.matrix(spectrum.values)

    def __call__(self, left_out: np.ndarray, kept: np.ndarray) -> _Others:
        """Return the decomposition of the kept rows."""
        if self.spectrum.is_truncated:
            others, least = self._of_root(left_out, kept)
        else:
            others, least = self._of_gram(left_out, kept), self.least
        seen = namespace(others.values).astype(others.values > least, others.values.dtype)
        if self.keeps_null:
            values = others.values * seen
            vectors = others.vectors
            cross = others.cross * seen[:, None]
        else:
            positive = np.flatnonzero(to_numpy(seen))
            values = take_rows(others.values, positive)
            vectors = take_rows(others.vectors.T, positive).T
            cross = take_rows(others.cross, positive)
        outside = zeros((left_out.size, values.shape[0]), vectors)
        return _Others(values, in_order([vectors, outside], [kept, left_out]), cross)

    def _of_gram(self, left_out: np.ndarray, kept: np.ndarray) -> _Others:
        """Return the eigendecomposition of the kernel of the kept rows; the vectors have these rows only."""
        rows = take_rows(self._gram, kept)
        values, vectors = eigh(take_rows(rows.T, kept))
        return _Others(values, vectors, vectors.T @ take_rows(rows.T, left_out).T)

    def _of_root(self, left_out: np.ndarray, kept: np.ndarray) -> tuple[_Others, float]:
        """Return the same from a root of the kernel, and the size of eigenvalues that are rounding."""
        vectors, roots, right = svd(take_rows(self._root, kept))
        least = (self.spectrum.n_rows * epsilon(roots) * largest(roots)) ** 2
        cross = (roots[:, None] * right) @ take_rows(self._root, left_out).T
        return _Others(roots**2, vectors, cross), least


class _Updated:
    """Decompose a side without one row by an update of its spectrum, for many rows at a time.

    Parameters are those of `_Decomposed`. Rows must be requested in their order.
    """

    def __init__(self, spectrum: Spectrum, keeps_null: bool, least: float) -> None:
        self.spectrum = spectrum
        self.keeps_null = keeps_null
        self.least = least
        self._rows = slice(0, 0)
        self._decompositions: _Others | None = None

    def __call__(self, left_out: np.ndarray, kept: np.ndarray) -> _Others:
        """Return the decomposition without the left-out row."""
        row = int(left_out[0])
        if self._decompositions is None or not self._rows.start <= row < self._rows.stop:
            self._decompositions = None  # large
            self._decompositions = self._from(row)
        values, vectors, cross = self._decompositions
        place = row - self._rows.start
        return _Others(values[place, ...], vectors[place, ...], cross[place, ...][:, None])

    def _from(self, row: int) -> _Others:
        """Return the decompositions without each of the next rows, one below the other."""
        q = self.spectrum.n_rows
        step = max(1, 2 * _FOREIGN_BLOCK_NUMBERS // q**2)
        self._rows = slice(row, min(row + step, q))
        values, vectors, cross = without_each(
            self.spectrum.values, self.spectrum.vectors, self._rows
        )
        seen = namespace(values).astype(values > self.least, values.dtype)
        if not self.keeps_null:
            vectors = vectors * seen[:, None, :]
        return _Others(values * seen, vectors, cross * seen)

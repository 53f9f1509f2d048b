r"""Predictions for new rows from coefficients, in blocks, and the weights of training labels in a prediction.

A prediction is the instance block times the coefficients times the transposed task block. A block
consists of kernel or feature rows, or of these rows times the spectral weights of a side that is
not folded into the coefficients. The kernel between many new rows and the training rows can be far
larger than the features and the predictions: only one block of it is in memory at a time.

Two-step predictions are

.. math:: \mathbf{K}_*\,\mathbf{U}\varphi_d(\boldsymbol\Sigma)\,(\mathbf{U}^\top\mathbf{Y}\mathbf{V})\,
          \varphi_t(\mathbf{S})\mathbf{V}^\top\,\mathbf{G}_*^\top .

Everything between the new rows could be multiplied out in advance, but in the dual this is
inaccurate. Along directions of small eigenvalues :math:`\varphi` grows to :math:`1/\lambda`, which
the small kernel rows compensate. The product has entries of up to :math:`1/(\lambda_d\lambda_t)`
and a relative rounding error of :math:`\varepsilon` in *every* direction, also where kernel rows
are large: an error of
:math:`\varepsilon\|\mathbf{K}\|\|\mathbf{G}\|/(\lambda_d\lambda_t)`. With one side absorbed and the other left out,

==============  ===========================================================================================
coefficients    :math:`\mathbf{P} = \mathbf{U}\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}\mathbf{V}`
new tasks       :math:`(\mathbf{K}_*\mathbf{P})\,(\mathbf{G}_*\mathbf{V}\varphi_t(\mathbf{S}))^\top`
training tasks  :math:`(\mathbf{K}_*\mathbf{P})\,f_t(\mathbf{S})\,\mathbf{V}^\top`, where :math:`f(s) = s\,\varphi(s)`
==============  ===========================================================================================

(or its mirror image), both factors have the size of predictions. Their errors are
:math:`\varepsilon\|\mathbf{K}\|/\lambda_d` and :math:`\varepsilon\|\mathbf{G}\|/\lambda_t`, and they add instead of
multiplying. In the primal, absorbed weights are :math:`\sqrt\sigma\,\varphi(\sigma) \le
1/(2\sqrt\lambda)`, and the errors are :math:`\varepsilon\sqrt{\|\mathbf{K}\|/\lambda_d}` and
:math:`\varepsilon\sqrt{\|\mathbf{G}\|/\lambda_t}`. With both sides absorbed, they multiply. Both are
absorbed only where their product is small. Kronecker coefficients are at most :math:`1/\lambda`, and
are always absorbed.

Predictions are linear in the labels: :math:`f = \sum_{ij} w_{ij}Y_{ij}`. The weight :math:`w_{ij}`
is the change of the prediction if label :math:`(i, j)` grows by one and the model is fitted again.
For complete labels each model has its weights :math:`\tilde{\mathbf{w}}` in closed form. The
weights of the rows of a side with a filter are

==========  ==========================================================================================
known row   its row of the hat matrix :math:`\mathbf{H}`
new row     :math:`\mathbf{U}\,\varphi(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{k}`
==========  ==========================================================================================

and a pair kernel, with :math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}` and :math:`\mathbf{p}`
the kernel between the asked pair and all others, weighs the labels by
:math:`\mathbf{C}^{-1}\mathbf{p}`, with a free mean by

.. math:: \mathbf{C}^{-1}\mathbf{p} + \mathbf{C}^{-1}\mathbf{1}\,
          \frac{1 -
          \mathbf{1}^\top\mathbf{C}^{-1}\mathbf{p}}{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}} .

Where labels are missing in cells u, the closed form is applied to completed labels,
:math:`\mathbf{R}_{uu}\mathbf{y}_u = -\mathbf{R}_{uo}\mathbf{y}_o`. An observed label thus contributes directly and
through the completed labels:

.. math:: \mathbf{w} = \tilde{\mathbf{w}} - \mathbf{R}\mathbf{z}, \qquad \mathbf{z}_o = \mathbf{0}, \quad
          \mathbf{R}_{uu}\mathbf{z}_u = \tilde{\mathbf{w}}_u ,

and w is zero in u. Where labels have weights d in the loss,

.. math:: (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/d))\,\mathbf{w}_o
          = (\mathbf{P}\tilde{\mathbf{w}} + c\tilde{\mathbf{w}})_o ,

and an unpenalised mean adds the constraint :math:`\mathbf{1}^\top\mathbf{w}_o = 1` as a border.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn._array import (
    Array,
    Shape,
    array_bytes,
    epsilon,
    is_block,
    matmul,
    namespace,
    row_blocks,
    take_rows,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn.labels import Labels
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.directions import CellsFit, suit_directions
from dyadlearn.solve.leaving import in_order
from dyadlearn.solve.missing import complete, solve_missing
from dyadlearn.solve.operators import GridOperators
from dyadlearn.spectrum import Smoother, Spectrum
from dyadlearn.vectrick import dots_at, entries_at, left_first, sandwich

# Minimum number of rows of a block of many columns: products of fewer rows are slow.
_LEAST_ROWS = 256
#: Number of cells up to which a whole grid is computed to predict some of its pairs.
SMALL_GRID = 2**20


@dataclass(frozen=True, eq=False)
class Part:
    """One side of the coefficients.

    Attributes
    ----------
    spectrum : Spectrum
    side : Smoother or None
        None if the side is absorbed: the coefficients contain its spectral weights. Otherwise rows
        are multiplied by the spectral weights of this smoother.
    """

    spectrum: Spectrum
    side: Smoother | None = None

    @property
    def size(self) -> int:
        """Number of rows (or columns) of the coefficients that belong to this side."""
        if self.side is None:
            return self.spectrum.n_coefficients
        return int(self.spectrum.values.shape[0])

    @property
    def width(self) -> int:
        """Number of values computed from each row; 0 for a absorbed side."""
        return 0 if self.side is None else self.size

    @property
    def is_dual(self) -> bool:
        """Whether the coefficients are dual with respect to this side."""
        spectrum = self.spectrum
        is_kernel = spectrum.components is None and spectrum.constant is None
        return self.side is None and is_kernel and not spectrum.is_singular

    def rows(self, block: Array) -> Array:
        r"""Return the factor of the coefficients for kernel or feature rows.

        It is :math:`\mathbf{K}_*\mathbf{U}\varphi(\boldsymbol\Sigma)` of shape (a, k), or the rows
        of a absorbed side.
        """
        if self.side is None:
            return block
        rows = self.spectrum.project(block)
        rows *= self.side.phi
        return rows

    def absorbed(self, coefficients: Array) -> Array:
        """Return coefficients (size, p) multiplied by the spectral weights."""
        if self.side is None:
            return coefficients
        return self.spectrum.lift(self.side.phi[:, None] * coefficients)

    def training(self, product: Array) -> Array:
        """Return `product` (a, size) times the transposed block of the training rows, shape (a, n)."""
        if self.side is None:
            return self.spectrum.training_rows(product)
        return self.spectrum.expand(product * self.side.shrinkage)


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows of one side to predict for.

    Attributes
    ----------
    values : array or sparse matrix of shape (n, d)
        Features or kernel values.
    block : callable
        Function that maps rows to the factor of the coefficients.
    width : int
        Number of values that `block` computes from each row; 0 if it returns the rows.
    prior : callable or None
        Function that returns the kernel of each row with itself; None if it is not known.
    places : integer array of shape (n,) or None
        Positions of the rows in training, if they are training rows of a model in which rows have
        functions of their own.
    diagonal : array of shape (n,) or None
        Kernel of each row with itself, if the user passed it.
    """

    values: Array
    block: Callable[[Array], Array]
    width: int
    prior: Callable[[Array], Array] | None = None
    places: np.ndarray | None = None
    diagonal: Array | None = None

    @property
    def size(self) -> int:
        """Number of rows."""
        return int(self.values.shape[0])

    @property
    def self_kernel(self) -> Array | None:
        """Kernel of each row with itself; None if it is not known."""
        if self.diagonal is not None:
            return self.diagonal
        if self.prior is None:
            return None
        return self.prior(self.values)

    def cut(self, *beside: Shape) -> list[slice]:
        """Return slices of rows that fit into a block, with arrays of these shapes beside the `width` of each row."""
        return list(row_blocks(self.size, self.width, *beside))

    def at(self, here: slice) -> Array:
        """Return the block of some rows."""
        is_whole = here.stop - here.start == self.size
        return self.block(self.values if is_whole else self.values[here, :])

    def take(self, index: np.ndarray | slice) -> NewRows:
        """Return some of the rows."""
        is_slice = isinstance(index, slice)
        values = self.values[index, :] if is_slice else take_rows(self.values, index)
        diagonal = self.diagonal
        if diagonal is not None:
            diagonal = diagonal[index] if is_slice else take_rows(diagonal, index)
        places = None if self.places is None else self.places[index]
        return replace(self, values=values, places=places, diagonal=diagonal)

    def before(self, part: Part | None) -> NewRows:
        """Return the rows with the spectral weights of a part applied to their block."""
        if part is None:
            return self
        return replace(
            self, block=lambda rows: part.rows(self.block(rows)), width=self.width + part.width
        )


@dataclass(frozen=True, eq=False)
class Expansion:
    """Coefficients of a fitted model, and predictions from them.

    Attributes
    ----------
    values : array
        Coefficients.
    instances, tasks : Part or None
        Sides of the coefficients. None means that rows multiply the coefficients directly;
        ``tasks=None`` means that the columns of the coefficients are the training tasks.
    """

    values: Array
    instances: Part | None = None
    tasks: Part | None = None

    @property
    def transposed(self) -> Expansion:
        """Expansion of the transposed predictions, in which tasks are the instances."""
        return Expansion(self.values.T, self.tasks, self.instances)

    def along(self, axis: int) -> Expansion:
        """Return the expansion with the instances as rows (axis 0), or with the tasks."""
        return self.transposed if axis else self

    @property
    def to_training(self) -> Array | None:
        """Matrix that maps rows to predictions for the training tasks; None if a mean is added or a grid is needed."""
        return self._finished(self.values)

    @property
    def n_instances(self) -> int:
        """Number of training instances."""
        return self.transposed.n_tasks

    @property
    def n_tasks(self) -> int:
        """Number of training tasks."""
        if self.tasks is None:
            return int(self.values.shape[1])
        return self.tasks.spectrum.n_rows

    @property
    def dual(self) -> Array | None:
        """Coefficients if they are the dual coefficients, else None."""
        if all(part.is_dual for part in (self.instances, self.tasks) if part is not None):
            return self.values
        return None

    @property
    def absorbed(self) -> Array:
        """Coefficients with the spectral weights of both sides, to be multiplied by kernel or feature rows."""
        if self.instances is None:
            values = self.values
        else:
            values = self.instances.absorbed(self.values)
        if self.tasks is None:
            return values
        return self.tasks.absorbed(values.T).T

    def grid(self, rows: NewRows | None, tasks: NewRows | None) -> Array:
        """Return predictions for every new row with every task.

        Parameters
        ----------
        rows : NewRows or None
            The a instances; None means the training instances.
        tasks : NewRows or None
            The b tasks; None means the training tasks.

        Returns
        -------
        array of shape (a, b)

        Raises
        ------
        NotEnoughMemoryError
            If the result and a block do not fit into memory.
        """
        if rows is None:
            if tasks is None:
                return self.fitted()
            return self.transposed.grid(tasks, None).T
        middle = self.values
        a = rows.size
        rows = rows.before(self.instances)
        if tasks is None:
            b = self.n_tasks
            # Each block is multiplied by the part of the tasks separately.
            finishing = 0 if self.tasks is None else 2 * b
            blocks = rows.cut(finishing)
            _check_predictions((a, b), 0, [(rows, blocks)], middle, finishing)
            if len(blocks) == 1:
                return self._finished(matmul(rows.at(blocks[0]), middle))
            return _fill(zeros((a, b), middle), rows, blocks, middle, self._finished)
        tasks = tasks.before(self.tasks)
        b = tasks.size
        blocks = rows.cut()
        task_blocks = tasks.cut()
        first = left_first(a, b, *middle.shape)
        halfway = (a, middle.shape[1]) if first else (b, middle.shape[0])
        sides = [(rows, blocks), (tasks, task_blocks)]
        _check_predictions((a, b), halfway, sides, middle)
        if len(blocks) == len(task_blocks) == 1:
            return sandwich(rows.at(blocks[0]), middle, tasks.at(task_blocks[0]))
        # One side after the other, so that the block of each row is computed once.
        result = zeros((a, b), middle)
        half = zeros(halfway, middle)
        if first:
            _fill(result.T, tasks, task_blocks, _fill(half, rows, blocks, middle).T)
        else:
            _fill(result, rows, blocks, _fill(half, tasks, task_blocks, middle.T).T)
        return result

    def blocks(self, rows: NewRows, tasks: NewRows | None) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the predictions of `grid` in blocks, with the positions of their rows and columns.

        Products of columns and coefficients are computed once for many blocks of rows. All columns
        have the same blocks of rows. A block may be overwritten.
        """
        are_known = rows.places is not None or (tasks is not None and tasks.places is not None)
        if are_known:
            # The model knows more about training rows than their kernel values, so their grid is
            # computed.
            grid = self.grid(rows, tasks)
            n = grid.shape[1]
            for here in row_blocks(*grid.shape):
                yield here, slice(0, n), grid[here, :]
        elif tasks is None:
            yield from self._blocks_of_training_tasks(rows)
        else:
            yield from self._blocks_of_new(rows, tasks)

    def _blocks_of_training_tasks(self, rows: NewRows) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the predictions of new rows for all training tasks, in blocks of rows."""
        n = self.n_tasks
        left = rows.before(self.instances)
        r, s = self.values.shape
        is_shared = is_block((r, n)) and not left_first(rows.size, n, r, s)
        right = self.to_training if is_shared else None
        for here in row_blocks(rows.size, n, left.width):
            if right is None:
                scores = self.grid(rows.take(here), None)
            else:
                scores = matmul(left.at(here), right)
            yield here, slice(0, n), scores

    def _blocks_of_new(self, rows: NewRows, tasks: NewRows) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the predictions of new rows for new tasks in blocks."""
        n = tasks.size
        left = rows.before(self.instances)
        right = tasks.before(self.tasks)
        middle = self.values
        by_rows = left_first(rows.size, n, *middle.shape)
        panels = list(row_blocks(n, right.width, *middle.shape, _LEAST_ROWS))
        width = panels[0].stop if panels else 0
        for there in panels:
            if by_rows:
                after = right.at(there)
            else:
                after = matmul(right.at(there), middle.T)
            for here in row_blocks(rows.size, width, left.width, *middle.shape):
                if by_rows:
                    half = matmul(left.at(here), middle)
                else:
                    half = left.at(here)
                yield here, there, matmul(half, after.T)

    def by_training_rows(self) -> tuple[Expansion, NewRows]:
        """Return the training instances as rows, and the expansion that predicts for them in `blocks`.

        Training rows must have no functions of their own.
        """
        return replace(self, instances=None), _known(self.instances, self.values)

    def fitted(self) -> Array:
        """Return predictions for the instances and tasks of training, shape (m, q)."""
        shape = (self.n_instances, self.n_tasks)
        halfway = (2, self.values.shape[0], self.n_tasks)
        _check_predictions(shape, halfway, [], self.values)
        half = self._finished(self.values)
        if self.instances is None:
            return half
        return self.instances.training(half.T).T

    def at(
        self, rows: NewRows | None, tasks: NewRows | None, pairs: tuple[np.ndarray, np.ndarray]
    ) -> Array:
        """Return predictions for n pairs.

        Parameters
        ----------
        rows, tasks : as in `grid`
        pairs : (integer array of shape (n,), integer array of shape (n,))
            Positions of instances and of tasks.

        Returns
        -------
        array of shape (n,)
        """
        if rows is None and tasks is None:
            return self._at_training(pairs)
        if rows is None:
            return self.transposed.at(tasks, None, pairs[::-1])
        if tasks is not None:
            return self._at_new(rows, tasks, pairs)
        if self._spares_grid and rows.size * self.n_tasks > SMALL_GRID:
            known = _known(self.tasks, self.values)
            return replace(self, tasks=None).at(rows, known, pairs)
        return self._at_training_tasks(rows, pairs)

    def _at_training(self, pairs: tuple[np.ndarray, np.ndarray]) -> Array:
        """Return predictions for pairs of training."""
        if self._spares_grid:
            instances = _known(self.instances, self.values)
            tasks = _known(self.tasks, self.values)
            return replace(self, instances=None, tasks=None).at(instances, tasks, pairs)
        return entries_at(self.fitted(), *pairs)

    def _at_training_tasks(self, rows: NewRows, pairs: tuple[np.ndarray, np.ndarray]) -> Array:
        """Return predictions for pairs of new instances and tasks of training."""
        middle = self.values
        first, second = pairs
        rows = rows.before(self.instances)
        finishing = 0 if self.tasks is None else 2 * self.n_tasks
        blocks = rows.cut(middle.shape[1], finishing)
        _check_predictions((1, first.size), 0, [(rows, blocks)], middle)
        pieces = [zeros((0,), middle)]
        places = [first[:0]]
        for here in blocks:
            chosen = np.flatnonzero((here.start <= first) & (first < here.stop))
            grid = self._finished(matmul(rows.at(here), middle))
            pieces.append(entries_at(grid, first[chosen] - here.start, second[chosen]))
            places.append(chosen)
        return in_order(pieces, places)

    def _at_new(self, rows: NewRows, tasks: NewRows, pairs: tuple[np.ndarray, np.ndarray]) -> Array:
        """Return predictions for pairs of new instances and new tasks."""
        middle = self.values
        first, second = pairs
        rows = rows.before(self.instances)
        tasks = tasks.before(self.tasks)
        blocks = rows.cut(middle.shape[1])
        task_blocks = tasks.cut()
        _check_predictions((1, first.size), 0, [(rows, blocks), (tasks, task_blocks)], middle)
        once = tasks.at(task_blocks[0]) if len(task_blocks) == 1 else None
        pieces = [zeros((0,), middle)]
        places = [first[:0]]
        for here in blocks:
            inside = np.flatnonzero((here.start <= first) & (first < here.stop))
            half = matmul(rows.at(here), middle)
            for there in task_blocks:
                chosen = inside[(there.start <= second[inside]) & (second[inside] < there.stop)]
                others = tasks.at(there) if once is None else once
                row_places = first[chosen] - here.start
                pieces.append(dots_at(half, others, row_places, second[chosen] - there.start))
                places.append(chosen)
        return in_order(pieces, places)

    @property
    def _spares_grid(self) -> bool:
        """Whether training pairs are predicted from features of both sides, because the grid is much larger."""
        m = self.n_instances
        q = self.n_tasks
        sides = [part for part in (self.instances, self.tasks) if part is not None]
        return (
            m * q > max(SMALL_GRID, sum(part.size * part.spectrum.n_rows for part in sides))
            and len(sides) == 2
        )

    def _finished(self, product: Array) -> Array:
        """Return predictions for training tasks from products (a, size) of rows with the coefficients."""
        if self.tasks is None:
            return product
        return self.tasks.training(product)


@dataclass(frozen=True, eq=False)
class PairExpansion(Expansion):
    """Predictions of a pair kernel: a shared function, plus functions of each training task and training instance.

    Attributes
    ----------
    is_shared : bool
        Whether there is a shared function. Without one, the last entry of the coefficients belongs
        to the mean, if there is one.
    per_task, per_instance : float
        Factors of the coefficients for the function of the instances of each training task, and for
        the function of the tasks of each training instance.
    has_mean : bool
        Whether there is an unpenalised mean.
    """

    is_shared: bool = True
    per_task: float = 0.0
    per_instance: float = 0.0
    has_mean: bool = False

    @property
    def transposed(self) -> PairExpansion:
        """Expansion of the transposed predictions, in which tasks are the instances."""
        shares = (self.is_shared, self.per_instance, self.per_task, self.has_mean)
        return PairExpansion(self.values.T, self.tasks, self.instances, *shares)

    @property
    def to_training(self) -> Array | None:
        """Matrix for the shared function; None without one, because a mean is added."""
        return super().to_training if self.is_shared else None

    @property
    def _spares_grid(self) -> bool:
        """Return False: training rows of a pair kernel have functions of their own, so the grid is computed."""
        return False

    @property
    def _mean(self) -> float:
        if not self.has_mean:
            return 0.0
        assert self.instances is not None
        assert self.tasks is not None
        return (
            float(self.values[-1, -1])
            * self.instances.spectrum.last_entry
            * self.tasks.spectrum.last_entry
        )

    @property
    def absorbed(self) -> Array:
        """Coefficients of the shared function."""
        if self.is_shared:
            return self.values
        values = namespace(self.values).zeros_like(self.values)
        if self.has_mean:
            values[-1, -1] = self.values[-1, -1]
        return values

    @property
    def dual(self) -> Array | None:
        """Return None: the coefficients are a multiple or a part of the dual coefficients."""
        return None

    def _finished(self, product: Array) -> Array:
        """Return predictions for training tasks, including the function of each task."""
        assert self.tasks is not None
        a = product.shape[0]
        n = self.tasks.spectrum.n_rows
        if self.is_shared:
            shared = self.tasks.training(product)
        else:
            shared = zeros((a, n), product) + self._mean
        if self.per_task:
            return shared + self.per_task * product[:, :n]
        return shared

    def fitted(self) -> Array:
        """Return predictions for the instances and tasks of training, shape (m, q)."""
        assert self.instances is not None
        assert self.tasks is not None
        shape = (self.n_instances, self.n_tasks)
        _check_predictions(shape, (2, *shape), [], self.values)
        predictions = self._finished(self.instances.training(self.values.T).T)
        if self.per_instance:
            known = self.per_instance * self.values[: self.instances.spectrum.n_rows, :]
            predictions = predictions + self.tasks.training(known)
        return predictions

    def grid(self, rows: NewRows | None, tasks: NewRows | None) -> Array:
        """Return predictions as in `Expansion.grid`; pairs of two new rows only have the shared function."""
        if rows is not None and rows.places is not None:
            return take_rows(self.grid(None, tasks), rows.places)
        if tasks is not None and tasks.places is not None:
            return take_rows(self.grid(rows, None).T, tasks.places).T
        if self.is_shared or rows is None or tasks is None:
            return super().grid(rows, tasks)
        _check_predictions((rows.size, tasks.size), 0, [], self.values)
        return zeros((rows.size, tasks.size), self.values) + self._mean

    def blocks(self, rows: NewRows, tasks: NewRows | None) -> Iterator[tuple[slice, slice, Array]]:
        """Yield the predictions of `grid` in blocks, as `Expansion` does."""
        if tasks is None or rows.places is not None or tasks.places is not None:
            return super().blocks(rows, tasks)
        return Expansion(self.absorbed, self.instances, self.tasks).blocks(rows, tasks)

    def at(
        self, rows: NewRows | None, tasks: NewRows | None, pairs: tuple[np.ndarray, np.ndarray]
    ) -> Array:
        """Return predictions for some pairs only, as `Expansion` does."""
        if rows is not None and rows.places is not None:
            return self.at(None, tasks, (rows.places[pairs[0]], pairs[1]))
        if tasks is not None and tasks.places is not None:
            return self.at(rows, None, (pairs[0], tasks.places[pairs[1]]))
        if self.is_shared or rows is None or tasks is None:
            return super().at(rows, tasks, pairs)
        return zeros((pairs[0].size,), self.values) + self._mean


def _known(part: Part | None, like: Array) -> NewRows:
    """Return the training rows as factors of the coefficients, shape (n, size)."""
    assert part is not None
    units = namespace(like).eye(part.size, dtype=like.dtype, device=like.device)
    return NewRows(part.training(units).T, lambda rows: rows, 0)


def _fill(
    result: Array,
    rows: NewRows,
    blocks: list[slice],
    right: Array,
    finish: Callable[[Array], Array] | None = None,
) -> Array:
    """Write the product of each block with `right` in its rows of `result`, and return this."""
    for here in blocks:
        product = matmul(rows.at(here), right)
        result[here, :] = finish(product) if finish else product
    return result


def _check_predictions(
    shape: tuple[int, int],
    halfway: Shape,
    sides: list[tuple[NewRows, list[slice]]],
    like: Array,
    finishing: int = 0,
) -> None:
    """Raise if predictions (a, b), intermediate values of shape `halfway` and a block do not fit into memory.

    `finishing` is the number of values per row in the last product of a block.
    """
    # Computing a block of a kernel takes another one.
    block = max(
        (2 * blocks[0].stop * (rows.width + finishing) for rows, blocks in sides), default=0
    )
    check_memory(
        array_bytes(like, shape, halfway, block),
        like,
        f"Predicting {shape[0]} × {shape[1]} labels",
        "predict for fewer rows at a time, or for some pairs only (predict_pairs)",
    )


#: Row to predict for: the position of a training row, or one new row.
Asked = int | NewRows


def hat_row(side: Smoother, asked: Asked) -> Array:
    """Return the weight of each of n training rows of a side in the prediction for one row, shape (n,)."""
    if isinstance(asked, NewRows):
        return side.spectrum.expand(side.spectrum.project(asked.at(slice(0, 1))) * side.phi)[0, :]
    return side.smooth(_unit(side.spectrum, asked))[:, 0]


def rotated_row(spectrum: Spectrum, asked: Asked) -> tuple[Array, Array]:
    """Return the rotated kernel row of a row, and its rotated unit vector (zeros for a new row): (k,) each."""
    if not isinstance(asked, NewRows):
        unit = spectrum.rotate(_unit(spectrum, asked))[:, 0]
        return spectrum.values * unit, unit
    along = spectrum.project(asked.at(slice(0, 1)))[0, :]
    # Along null directions, kernel rows are only rounding.
    along = along * namespace(along).astype(spectrum.values > 0, along.dtype)
    return along, namespace(along).zeros_like(along)


def _unit(spectrum: Spectrum, position: int) -> Array:
    column = zeros((spectrum.n_rows, 1), spectrum.values)
    column[position, 0] = 1.0
    return column


def weights_of_observed(
    operators: GridOperators,
    completed_weights: Array,
    Y: Array,
    weights: Array | None,
    tol: float,
    max_iter: int,
) -> Array:
    """Return the weights of the observed labels in a prediction, from the weights of completed labels.

    Parameters
    ----------
    operators : GridOperators
    found : array of shape (m, q)
        Weights of the completed labels.
    Y : array of shape (m, q)
        Labels; NaN where missing.
    weights : array of shape (m, q) or None
        Weight of each observed cell in the squared loss.
    tol, max_iter : float and int
        Tolerance above which a warning is given, and maximum number of conjugate gradient
        iterations, which continue to the precision.

    Returns
    -------
    array of shape (m, q)
        Weights; zero for missing labels.
    """
    xp = namespace(Y)
    labels = Labels.of_grid(Y, weights)
    if suit_directions(operators, labels.size, labels.largest_weight):
        fit = CellsFit.of(operators, labels, zeros((labels.size,), Y))
        return labels.shaped(fit.label_weights(operators.rotated(completed_weights)), 0.0)
    observed = ~xp.isnan(Y)
    none = xp.zeros_like(completed_weights)
    tight = 100 * epsilon(Y)
    # For λ = 0 at full rank the model interpolates, and weights of the loss have no effect.
    if weights is None or operators.hat_is_identity:
        right = xp.where(observed, none, completed_weights)
        solution = solve_missing(operators, right, observed, tol=tight, max_iter=max_iter)
        warn_unless_converged(solution, tol, " on the weights of labels")
        return xp.where(observed, completed_weights - operators.residual(solution.values), none)
    known = xp.astype(observed, completed_weights.dtype)
    begin = known / xp.sum(known) if operators.free_mean else none
    weights = xp.where(observed, weights, 1.0)
    right = operators.kernel(completed_weights - begin) + operators.ridge * (
        completed_weights - begin / weights
    )
    right = xp.where(observed, right, float("nan"))
    solution = complete(operators, right, weights, tol=tight, max_iter=max_iter).solution
    warn_unless_converged(solution, tol, " on the weights of labels")
    return begin + xp.where(observed, solution.values * weights**0.5, none)

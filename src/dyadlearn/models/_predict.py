"""Predictions from coefficients, in blocks of rows.

A prediction is the instance block times the coefficients times the transposed task block. A block is kernel or feature
rows, or what a side that is not folded into the coefficients makes of them. The kernel between many new rows and those
of training can be far larger than what it is made of and what comes of it: no more of it than a block is ever there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn._array import Array, as_array_of, itemsize, matmul, namespace, row_blocks, take_rows, zeros
from dyadlearn._estimates import predict_numbers
from dyadlearn._validation import check_memory
from dyadlearn.solvers.folding import Part
from dyadlearn.vectrick import dots_at, left_first, sandwich

__all__ = ["Expansion", "NewRows", "predict_grid", "predict_pairs"]

# Up to this many bytes, everything is computed at once.
_BLOCK_BYTES = 2**27

Finish = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class NewRows:
    """Rows of one side to predict for.

    Attributes
    ----------
    values : array or sparse matrix of shape (n, d)
        Features or kernel values.
    block : callable
        Turns rows into what multiplies the coefficients.
    width : int
        How many numbers it makes of each row; 0 if it takes them as they are.
    """

    values: Array
    block: Callable[[Array], Array]
    width: int

    @property
    def size(self) -> int:
        """How many rows there are."""
        return int(self.values.shape[0])

    def cut(self, numbers: int, like: Array) -> list[slice]:
        """Return slices of rows that take no more than a block, where each row comes to so many more numbers."""
        return list(row_blocks(self.size, (self.width + numbers) * itemsize(like), _BLOCK_BYTES))

    def at(self, here: slice) -> Array:
        """Return the block of some rows."""
        return self.block(self.values if here.stop - here.start == self.size else self.values[here, :])

    def before(self, part: Part | None) -> NewRows:
        """Return the same rows for coefficients into which their side is folded or not."""
        if part is None:
            return self
        return replace(self, block=lambda rows: part.rows(self.block(rows)), width=self.width + part.width)


@dataclass(frozen=True, eq=False)
class Expansion:
    """What predictions are made of.

    Attributes
    ----------
    values : array
        Coefficients.
    instances, tasks : Part or None
        How rows of a side multiply them; None is as they are. Without a part of the tasks those of training are the
        columns.
    """

    values: Array
    instances: Part | None = None
    tasks: Part | None = None

    @property
    def transposed(self) -> Expansion:
        """The same with tasks for instances, and instances for tasks."""
        return Expansion(self.values.T, self.tasks, self.instances)

    @property
    def n_tasks(self) -> int:
        """How many tasks there are in training."""
        return int(self.values.shape[1]) if self.tasks is None else self.tasks.spectrum.n_rows

    @property
    def dual(self) -> Array | None:
        """Coefficients where they are the dual parameters, else None."""
        return self.values if all(part.is_dual for part in (self.instances, self.tasks) if part is not None) else None


def predict_grid(rows: NewRows, model: Expansion, tasks: NewRows | None) -> Array:
    """Return predictions for every new row with every task.

    Parameters
    ----------
    rows : NewRows
        The a instances.
    model : Expansion
    tasks : NewRows or None
        The b tasks; None stands for those of training.

    Returns
    -------
    array of shape (a, b)

    Raises
    ------
    NotEnoughMemoryError
        If there is no room for the result and a block.
    """
    middle, a = model.values, rows.size
    rows, tasks, finish = _begun(rows, model, tasks)
    if tasks is None:
        b = model.n_tasks
        # What comes before the end is finished block by block.
        blocks = rows.cut(2 * b if finish else 0, middle)
        _check_predictions(a, b, 0, [(rows, blocks)], middle, 2 * b if finish else 0)
        if len(blocks) == 1:
            product = matmul(rows.at(blocks[0]), middle)
            return finish(product) if finish else product
        return _fill(zeros((a, b), middle), rows, blocks, middle, finish)
    b = tasks.size
    blocks, task_blocks = rows.cut(0, middle), tasks.cut(0, middle)
    first = left_first(a, b, *middle.shape)
    halfway = (a, middle.shape[1]) if first else (b, middle.shape[0])
    _check_predictions(a, b, halfway[0] * halfway[1], [(rows, blocks), (tasks, task_blocks)], middle)
    if len(blocks) == len(task_blocks) == 1:
        return sandwich(rows.at(blocks[0]), middle, tasks.at(task_blocks[0]))
    # One side after the other, so that the block of each row is computed once.
    result, half = zeros((a, b), middle), zeros(halfway, middle)
    if first:
        _fill(result.T, tasks, task_blocks, _fill(half, rows, blocks, middle).T)
    else:
        _fill(result, rows, blocks, _fill(half, tasks, task_blocks, middle.T).T)
    return result


def predict_pairs(
    rows: NewRows,
    model: Expansion,
    tasks: NewRows | None,
    pairs: tuple[np.ndarray, np.ndarray],
) -> Array:
    """Return predictions for some pairs of n only.

    Parameters
    ----------
    rows, model, tasks : as in `predict_grid`
    pairs : (integer array of shape (n,), integer array of shape (n,))
        Positions of instances and of tasks.

    Returns
    -------
    array of shape (n,)
    """
    middle, (first, second) = model.values, pairs
    rows, tasks, finish = _begun(rows, model, tasks)
    xp = namespace(middle)
    blocks = rows.cut(middle.shape[1] + (2 * model.n_tasks if finish else 0), middle)
    task_blocks = [slice(0, model.n_tasks)] if tasks is None else tasks.cut(0, middle)
    sides = [(rows, blocks)] if tasks is None else [(rows, blocks), (tasks, task_blocks)]
    _check_predictions(1, first.size, 0, sides, middle)
    once = tasks.at(task_blocks[0]) if tasks is not None and len(task_blocks) == 1 else None
    pieces, places = [zeros((0,), middle)], [first[:0]]
    for here in blocks:
        inside = np.flatnonzero((here.start <= first) & (first < here.stop))
        half = matmul(rows.at(here), middle)
        for there in task_blocks:
            chosen = inside[(there.start <= second[inside]) & (second[inside] < there.stop)]
            own, other = first[chosen] - here.start, second[chosen] - there.start
            if tasks is None:
                grid = finish(half) if finish else half
                flat = as_array_of(own * grid.shape[1] + other, grid)
                pieces.append(xp.take(xp.reshape(grid, (-1,)), flat, axis=0))
            else:
                pieces.append(dots_at(half, tasks.at(there) if once is None else once, own, other))
            places.append(chosen)
    return take_rows(xp.concat(pieces), np.argsort(np.concatenate(places)))


def _begun(rows: NewRows, model: Expansion, tasks: NewRows | None) -> tuple[NewRows, NewRows | None, Finish | None]:
    """Return rows as the coefficients want them, and what takes products to predictions for tasks of training."""
    finish = None if model.tasks is None else model.tasks.training
    return rows.before(model.instances), None if tasks is None else tasks.before(model.tasks), finish


def _fill(result: Array, rows: NewRows, blocks: list[slice], right: Array, finish: Finish | None = None) -> Array:
    """Write the product of each block with `right` in its rows of `result`, and return this."""
    for here in blocks:
        product = matmul(rows.at(here), right)
        result[here, :] = finish(product) if finish else product
    return result


def _check_predictions(
    a: int, b: int, halfway: int, sides: list[tuple[NewRows, list[slice]]], like: Array, finishing: int = 0
) -> None:
    """Refuse predictions (a, b) that do not fit in memory beside what is there halfway and the largest block.

    `finishing` is how many numbers each row of a block comes to at its end.
    """
    in_blocks = max(blocks[0].stop * max(rows.width, finishing) for rows, blocks in sides)
    check_memory(
        predict_numbers(a, b, halfway, in_blocks) * itemsize(like),
        like,
        f"Predicting {a} × {b} labels",
        "predict for fewer rows at a time, or for some pairs only (predict_pairs)",
    )

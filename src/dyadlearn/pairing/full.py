r"""Functions of a model on complete labels: hold-out and its cost, jackknife and the weights of labels.

Each is a `functools.singledispatch` function of a model. The defaults work for every `Coupled`
model, from one dense system of all cells. A model registers its formulas in its module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from itertools import product
from typing import Any

import numpy as np

from dyadlearn._array import Array, epsilon, namespace, zeros
from dyadlearn._memory import holdout_numbers
from dyadlearn.pairing.base import Pairing, operators_of
from dyadlearn.pairing.certainty import Jackknife
from dyadlearn.pairing.expansion import Asked
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.inverse import CellsInverse
from dyadlearn.solve.leaving import Members, largest_group, refuse, unit_codes
from dyadlearn.solve.missing import complete

# A dense system of this many cells takes 128 MiB and about the time of a hundred iterations.
_DIRECT_CELLS = 4096


@singledispatch
def holdout_grids(model: Pairing) -> tuple[float, float]:
    """Return the memory of `hold_out`: the largest numbers of grids (m, q), and of grids rotated by one side."""
    return 4.0 * operators_of(model).n_cells, 0.0


def check_memory(
    model: Pairing, Y: Array, setting: Setting, how: str = "", beside: float = 0.0, **sizes: int
) -> None:
    """Raise if the hold-out predictions of labels (m, q) do not fit in memory.

    `how` ends the message, `beside` is the number of further grids in memory, and `sizes` are as in
    `holdout_numbers`.
    """
    grids, rotated = holdout_grids(model)
    refuse(
        holdout_numbers(Y.shape, model.ranks, (grids + beside, rotated), **sizes), Y, setting, how
    )


@singledispatch
def hold_out_stack(model: Pairing, stack: Array, setting: Setting, *groups: Members) -> Array:
    """Return the hold-out prediction of each cell of several grids (Corollaries 2 to 5 of the paper for two-step).

    All grids share the computations that depend only on the sides.

    Parameters
    ----------
    model : Pairing
    stack : array of shape (n, m, q)
        Labels of n grids.
    setting : Setting
    groups : nothing, or two lists of integer arrays or None
        Row positions of each group of instances and of tasks, in the settings that leave them out;
        None means one at a time.

    Returns
    -------
    array of shape (n, m, q)

    Raises
    ------
    LeverageError
        If a cell, row or column has leverage 1: the model fits its labels exactly, whatever they
        are.
    """
    operators = operators_of(model)
    n, m, q = stack.shape
    members, task_members = groups or (None, None)
    rows, columns = np.divmod(np.arange(m * q), q)
    row_units = unit_codes(members, m)[rows]
    column_units = unit_codes(task_members, q)[columns]
    xp = namespace(stack)
    matrix = operators.residual_block(rows, columns)
    inverse = CellsInverse(matrix, floor=operators.floor, is_graded=operators.is_graded)
    if operators.free_mean:
        shift = xp.mean(stack, axis=(1, 2), keepdims=True)
    else:
        shift = zeros((1, 1, 1), stack)
    labels = xp.reshape(stack - shift, (n, m * q)).T
    if setting is Setting.D:
        held_out = inverse.leave_crossed_out(labels, row_units, column_units)
    else:
        units = {
            Setting.A: cell_units(model, rows, columns),
            Setting.B: row_units,
            Setting.C: column_units,
        }[setting]
        held_out = inverse.leave_out(labels, units)
    return xp.reshape(held_out.T, stack.shape) + shift


def hold_out(model: Pairing, Y: Array, setting: Setting, *groups: Members) -> Array:
    """Return the hold-out predictions (m, q) of one grid, as `hold_out_stack` does for many."""
    return hold_out_stack(model, Y[None, ...], setting, *groups)[0, ...]


def each_grid(held_out: Callable[[Array], Array], stack: Array) -> Array:
    """Return the results of a function for each grid of a stack (n, m, q)."""
    return namespace(stack).stack([held_out(stack[place, ...]) for place in range(stack.shape[0])])


def cell_units(model: Pairing, rows: np.ndarray, columns: np.ndarray) -> np.ndarray | None:
    """Return the unit (n,) of each cell, with both directions of an edge in one; None means leave-one-out."""
    if not model.symmetry:
        return None
    return np.asarray(
        np.minimum(rows, columns) * model.spectra[0].n_rows + np.maximum(rows, columns)
    )


@singledispatch
def leave_cells_out(model: Pairing, Y: Array) -> Array:
    r"""Return a grid in which missing cells S contain their predictions from the other cells, to full precision.

    .. math:: \mathbf{R}_{SS}\,\mathbf{f}_S = (\mathbf{H}\mathbf{y}_{\setminus S})_S
              = -(\mathbf{R}\mathbf{y}_{\setminus S})_S

    The system of a small set is solved directly, that of a large one by conjugate gradients. An
    iteration takes a few matrix products of the size of the grid.
    """
    tol = 100 * epsilon(Y)
    completion = complete(
        operators_of(model), Y, route="missing", max_direct=_DIRECT_CELLS, tol=tol
    )
    warn_unless_converged(completion.solution, tol, " in a fold of cells")
    return completion.labels


@singledispatch
def jackknife(model: Pairing, Y: Array, members: Members = None) -> Jackknife | None:
    """Return the jackknife models of complete labels (m, q) without units of instances; None without a formula."""
    return None


@singledispatch
def cell_slack(model: Pairing) -> Array:
    """Return the diagonal of the residual operator, shape (m, q), or (m, 1) if it is the same for all tasks."""
    operators = operators_of(model)
    diagonal = operators.part_diagonal(hat=operators.is_truncated)
    return 1.0 - diagonal if operators.is_truncated else diagonal


@singledispatch
def closed_weights(model: Pairing, row: Asked, column: Asked) -> Array:
    """Return the weight of each label of a complete grid in the prediction for one pair, shape (m, q).

    Predictions are linear in the labels: the weight of a label is the prediction where it is one
    and all others are zero.
    """
    operators = operators_of(model)
    sides = (row, column)
    weights = zeros(operators.shape, operators.remainder)
    if isinstance(row, int) and isinstance(column, int):
        weights[row, column] = 1.0
        return operators.hat(weights)  # a row of the hat matrix, which is symmetric
    asked: list[Any] = []
    at = []
    for side in sides:
        is_known = isinstance(side, int)
        asked.append(None if is_known else side)
        at.append(side if is_known else 0)
    for i, j in np.ndindex(*weights.shape):
        unit = namespace(weights).zeros_like(weights)
        unit[i, j] = 1.0
        weights[i, j] = model.expansion(model.coefficients(unit)).grid(*asked)[at[0], at[1]]
    return weights


#: Positions among the regularisations of instances and of tasks, the setting, and predictions of
#: shape (n, m, q).
Stack = tuple[slice | int, slice | int, Setting, Array]


@dataclass(frozen=True, eq=False)
class Sweep:
    """Hold-out predictions of a model on complete labels, for each of several regularisations.

    Attributes
    ----------
    model : Pairing
    Y : array of shape (m, q)
    alphas, task_alphas : sequences of float
        Regularisations. For a model with one regularisation, `task_alphas` has one value, which is
        ignored.
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks, used by the settings that leave them
        out.
    """

    model: Pairing
    Y: Array
    alphas: Sequence[float]
    task_alphas: Sequence[float]
    members: Members = None
    task_members: Members = None

    def _groups(self, setting: Setting) -> tuple[Members, ...]:
        """Return the groups that a setting leaves out."""
        return setting.of_new_sides((self.members, self.task_members))

    def check_memory(self, settings: Sequence[Setting], per_stack: int, *, squared: bool) -> None:
        """Raise if the predictions to score do not fit into memory; `squared` if squared errors are requested."""
        beside = 1.0 + 3 * len(settings)  # each setting has labels prepared for its scores
        for setting in settings:
            largest = largest_group(*self._groups(setting))
            check_memory(self.model, self.Y, setting, beside=beside, largest_group=largest)

    def squared_errors(
        self, settings: Sequence[Setting], per_stack: int
    ) -> dict[Setting, np.ndarray]:
        """Return mean squared errors (n, n_tasks) of the settings that have a formula without predictions."""
        return {}

    def walk(self, settings: Sequence[Setting], per_stack: int) -> Iterator[Stack]:
        """Yield predictions for all regularisations, several at a time.

        Parameters
        ----------
        settings : sequence of Setting
        per_stack : int
            Maximum number of grids in memory.

        Yields
        ------
        rows, columns : slice or int
            Positions of the regularisations.
        setting : Setting
        predictions : array of shape (n, m, q)
            Predictions; the next iteration may overwrite them.
        """
        for setting in settings:
            for (row, alpha), (column, task_alpha) in product(
                enumerate(self.alphas), enumerate(self.task_alphas)
            ):
                held_out = hold_out(
                    self.model.at(alpha, task_alpha), self.Y, setting, *self._groups(setting)
                )
                yield slice(row, row + 1), column, setting, held_out[None, ...]


@singledispatch
def sweep(model: Pairing, *arguments: Any) -> Sweep:
    """Return the `Sweep` of a model; arguments are those of `Sweep`."""
    return Sweep(model, *arguments)

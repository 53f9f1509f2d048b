r"""Grids that are complete but for rows and columns without any label.

Such rows and columns take no part in ridge regression on pairs or columns, and the rest has the shortcuts of a complete
grid. What is left out must be gone for *every* cell, though, those without a label too: in a column t that has none, a
new instance is predicted by the model of the other instances. For Kronecker ridge regression the labelled tasks are
rotated, as in `dyadlearn.holdout.kronecker`, and what is left of column c after the leave-one-out goes on to t instead
of back to the labelled tasks,

.. math:: F_B[:, t] = \left[\tilde{\mathbf{Y}} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top
          \tilde{\mathbf{Y}})}{(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right]\mathrm{diag}(1/\mathbf{s})\,
          \mathbf{V}^\top\mathbf{g}_t .
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from dyadlearn._array import Array, namespace, take_rows, to_numpy
from dyadlearn.holdout.kronecker import column_weights, leave_out_columns
from dyadlearn.holdout.problem import Problem
from dyadlearn.settings import Setting
from dyadlearn.solvers.pairs import interpolation_floor
from dyadlearn.solvers.reduced import without
from dyadlearn.spectrum import Spectrum

__all__ = ["LabelledPart", "labelled_part", "part_of"]


@dataclass(frozen=True, eq=False)
class LabelledPart:
    """A complete grid within one that has rows or columns without labels.

    Attributes
    ----------
    problem : Problem
        Of the complete grid.
    whole : Problem
        Of the grid around it.
    rows, columns : integer arrays
        Where it lies.
    """

    problem: Problem
    whole: Problem
    rows: np.ndarray
    columns: np.ndarray

    def extend(self, held_out: Array, fitted: Array, setting: Setting) -> Array:
        """Return held-out predictions for the whole grid.

        Parameters
        ----------
        held_out : array
            Those of the part.
        fitted : array of shape (m, q)
            What the model predicts for cells that nothing has to leave for.
        setting : Setting

        Returns
        -------
        array of shape (m, q)
        """
        grid = _embedded(fitted, held_out, self.rows, self.columns)
        tasks, all_tasks = self.problem.task_spectrum, self.whole.task_spectrum
        if tasks is None or all_tasks is None:
            return grid
        Y, alpha = self.problem.Y, self.problem.alpha
        row_side, column_side = (self.whole.spectrum, self.rows), (all_tasks, self.columns)
        others = without(self.columns, int(fitted.shape[1]))
        if setting.new_instance and others.size:
            beside = _new_rows_elsewhere(self.problem.spectrum, tasks, *column_side, Y, alpha)
            grid = _embedded(grid, beside, self.rows, others)
        others = without(self.rows, int(fitted.shape[0]))
        if setting.new_task and others.size:
            below = _new_rows_elsewhere(tasks, self.problem.spectrum, *row_side, Y.T, alpha).T
            grid = _embedded(grid, below, others, self.columns)
        return grid


def labelled_part(problem: Problem) -> LabelledPart | None:
    """Return the problem of the rows and columns that have labels, if the shortcuts of a complete grid apply to it.

    Two-step is a model of the whole grid, in which rows and columns without labels count too; and so they do under a
    filter whose penalty is built from all rows.
    """
    refits = problem.filter.refits and problem.task_filter.refits
    if problem.weights is not None or not refits or problem.method in ("two_step", "network"):
        return None
    observed = ~np.isnan(to_numpy(problem.Y))
    rows, columns = np.flatnonzero(observed.any(axis=1)), np.flatnonzero(observed.any(axis=0))
    if not observed[np.ix_(rows, columns)].all():
        return None
    tasks = problem.task_spectrum
    part = replace(
        problem,
        Y=take_rows(take_rows(problem.Y, rows).T, columns).T,
        spectrum=part_of(problem.spectrum, rows),
        task_spectrum=None if tasks is None else part_of(tasks, columns),
    )
    return LabelledPart(part, problem, rows, columns)


def part_of(spectrum: Spectrum, rows: np.ndarray) -> Spectrum:
    """Return the spectrum of some rows of a side, which is decomposed again without the others."""
    if rows.size == spectrum.n_rows:
        return spectrum
    own = take_rows(spectrum.vectors, rows)
    if spectrum.components is not None:
        return Spectrum.from_features(own * spectrum.values**0.5)
    return Spectrum.from_gram((own * spectrum.values) @ own.T)


def _new_rows_elsewhere(
    spectrum: Spectrum, tasks: Spectrum, all_tasks: Spectrum, columns: np.ndarray, Y: Array, alpha: float
) -> Array:
    """Return what a model without a row predicts for it in columns that have no label, for each row in turn."""
    xp = namespace(Y)
    others = without(columns, all_tasks.n_rows)
    cross = tasks.vectors.T @ all_tasks.block(all_tasks.values, columns, others)
    # Null directions are dropped: the kernel of any task with them is zero.
    kept = np.flatnonzero(to_numpy(tasks.values) > 0)
    values, ending = take_rows(tasks.values, kept), take_rows(cross, kept)
    rotated = take_rows(tasks.rotate(Y.T), kept).T
    weights, direct = column_weights(spectrum, values, [alpha])
    floor = interpolation_floor(alpha, spectrum)
    held_out = leave_out_columns(spectrum, weights, direct, rotated, spectrum.rotate(rotated), None, floor)
    return held_out @ (ending / xp.reshape(values, (-1, 1)))


def _embedded(grid: Array, values: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return a grid (m, q) with a block of values put where it belongs."""
    xp = namespace(grid)
    places = np.arange(math.prod(grid.shape)).reshape(grid.shape) + math.prod(values.shape)
    places[np.ix_(rows, columns)] = np.arange(math.prod(values.shape)).reshape(values.shape)
    together = xp.concat([xp.reshape(values, (-1,)), xp.reshape(grid, (-1,))])
    return xp.reshape(take_rows(together, places.reshape(-1)), grid.shape)

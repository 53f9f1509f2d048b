r"""Hold-out predictions where labels are missing or weighted.

What is left out is hidden, as if it had never been observed, and the grid is completed again: the values that the
model then puts in the hidden cells are its predictions for them. Two-step ridge regression is a model of the whole
grid, in which the features of an instance count even where all its labels are hidden; so for a new instance or task
its row or column is taken out of the grid altogether, with its part of the kernel, and predicted from outside. Where
the filter of a side does not refit, its penalty stays that of all rows, as on a complete grid: see
`dyadlearn.solvers.reduced`. In four cases nothing is solved again:

- independent tasks, where leaving a row out is a division within every column;
- Kronecker ridge regression on a grid that is complete but for whole rows and columns: these say nothing, and the
  rest has the shortcuts of a complete grid, see `dyadlearn.holdout.labelled`;
- single cells of a grid whose missing labels form a block, for two-step: see `dyadlearn.holdout.block`;
- single cells of a grid with few observed ones, with :math:`\mathbf{P}` the pairwise kernel and :math:`c` the ridge
  of the model: with :math:`\mathbf{Q} = (\mathbf{P}_{oo} + c\,\mathrm{diag}(1/w))^{-1}` the prediction is
  :math:`-\sum_{j\ne i}Q_{ij}y_j/Q_{ii}`, which loses no digits however small it is.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, namespace, take_rows, to_numpy, with_diagonal
from dyadlearn._pairs import group_codes
from dyadlearn._rounding import solve_block
from dyadlearn.holdout.block import leave_one_out_beside_block
from dyadlearn.holdout.cells import pair_operators
from dyadlearn.holdout.groups import group_members, nothing_left
from dyadlearn.holdout.labelled import part_of
from dyadlearn.holdout.memory import MANY_CELLS, check_folds_memory
from dyadlearn.holdout.problem import Problem
from dyadlearn.holdout.two_step import smoothers
from dyadlearn.settings import Setting
from dyadlearn.solvers.block import complete_block
from dyadlearn.solvers.columns import complete_columns, leave_one_out_columns
from dyadlearn.solvers.incomplete import Completion, complete
from dyadlearn.solvers.iterative import Solution
from dyadlearn.solvers.pairs import TwoStepPairs
from dyadlearn.solvers.reduced import predict_others, reduced, without
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error

__all__ = ["FEW_CELLS", "Folds", "complete_problem", "incomplete_holdout", "is_taken_apart", "missing_block"]

# So few cells are left out one by one, for one λ after the other; for a single λ, MANY_CELLS.
FEW_CELLS = 1024

Fold = tuple[np.ndarray, np.ndarray]
Axes = tuple[np.ndarray, np.ndarray]
Key = tuple[bool, bytes]


def complete_problem(problem: Problem, start: Completion | None = None) -> Completion:
    """Complete the labels of a problem; a warning says where the solver stopped short.

    Parameters
    ----------
    problem : Problem
    start : Completion, default=None
        Of a problem nearby.

    Returns
    -------
    Completion
    """
    if problem.task_spectrum is None:
        side = problem.spectrum.smoother(problem.filter, problem.alpha)
        labels = complete_columns(side, problem.Y, problem.weights)
        return Completion(labels, "columns", Solution(labels, 0, 0.0, True))
    return _completed(problem, None if problem.method == "kronecker" else smoothers(problem), start)


def _completed(problem: Problem, sides: tuple[Smoother, Smoother] | None, start: Completion | None) -> Completion:
    """Complete labels under the given sides, those of Kronecker ridge regression if there are none."""
    block = missing_block(problem)
    if sides is not None and block is not None:
        labels = complete_block(*sides, problem.Y, *block)
        found = Completion(labels, "block", Solution(labels, 0, 0.0, True))
    else:
        operators = pair_operators(problem) if sides is None else TwoStepPairs(*sides)
        Y, weights, tol = problem.Y, problem.weights, problem.tol
        found = complete(operators, Y, weights, start=start, tol=tol, max_iter=problem.max_iter)
    if not found.solution.converged:
        warnings.warn(
            f"Conjugate gradients stopped after {found.solution.n_iter} iterations at a relative residual of "
            f"{found.solution.residual:.1e}, short of tol={problem.tol:g}: raise max_iter, tol or the regularisation.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if problem.method == "network":
        # Rounding must not break the symmetry of a network.
        return replace(found, labels=(found.labels + problem.sign * found.labels.T) / 2)
    return found


def missing_block(problem: Problem) -> Axes | None:
    """Return the rows and columns of the missing cells, if these form a block and two-step has a closed form."""
    if problem.method == "kronecker" or problem.weights is not None:
        return None
    missing = np.isnan(to_numpy(problem.Y))
    rows, columns = np.flatnonzero(missing.any(axis=1)), np.flatnonzero(missing.any(axis=0))
    return (rows, columns) if missing[np.ix_(rows, columns)].all() else None


def incomplete_holdout(
    problem: Problem, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None
) -> Array:
    """Return what the model predicts for each cell once what the setting leaves out is hidden.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    groups, task_groups, cells : as in `dyadlearn.holdout.holdout`

    Returns
    -------
    array of shape (m, q)
        Cells that are not observed get a prediction too.
    """
    alone = groups is None and task_groups is None and cells is None
    if problem.task_spectrum is None and alone:
        side = problem.spectrum.smoother(problem.filter, problem.alpha)
        return leave_one_out_columns(side, problem.Y, problem.weights)
    if setting is Setting.A and alone:
        block = missing_block(problem)
        if block is None or problem.method == "network":
            return leave_one_out_pairs(problem)
        return leave_one_out_beside_block(*smoothers(problem), complete_problem(problem).labels, *block)
    folds = Folds(problem, setting, _folds(problem, setting, groups, task_groups, cells))
    return folds.held_out(problem.alpha, problem.task_alpha)


class Folds:
    """Folds of cells, instances or tasks that are left out in turn, for one regularisation after the other.

    Each solve starts from what the same fold gave before.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    folds : iterable of (train, test)
        Masks of shape (m, q): the cells that are used, where observed, and those to predict.
    """

    def __init__(self, problem: Problem, setting: Setting, folds: Iterable[Fold]) -> None:
        if problem.method == "network":
            if setting is not Setting.A:
                raise ValueError(
                    f"Setting {setting.value} of a network with missing labels is not supported: leave out edges "
                    "(setting A), or complete the labels first."
                )
            folds = _both_directions(folds)
        self.problem, self.setting = problem, setting
        self.apart = is_taken_apart(problem, setting)
        self._spectra: dict[Key, Spectrum] = {}
        self.parts = [self._part(train, test) for train, test in folds]
        self.starts: list[Completion | None] = [None] * len(self.parts)

    def _part(self, train: np.ndarray, test: np.ndarray) -> tuple[Problem, Axes | None, np.ndarray]:
        """Return the problem that a fold leaves, the rows and columns it is made of, and the cells to predict."""
        problem, xp = self.problem, namespace(self.problem.Y)
        Y = xp.where(as_array_of(train, problem.Y), problem.Y, xp.full_like(problem.Y, float("nan")))
        if bool(xp.all(xp.isnan(Y))):
            raise nothing_left()
        if not self.apart:
            return replace(problem, Y=Y), None, test
        rows, columns = np.flatnonzero(train.any(axis=1)), np.flatnonzero(train.any(axis=0))
        weights = None if problem.weights is None else _block(problem.weights, rows, columns)
        return replace(problem, Y=_block(Y, rows, columns), weights=weights), (rows, columns), test

    @property
    def converged(self) -> bool:
        """Whether every fold was solved to its tolerance when it was last left out."""
        return all(start is None or start.solution.converged for start in self.starts)

    def held_out(self, alpha: float, task_alpha: float, tol: float | None = None) -> Array:
        """Return predictions of shape (m, q), NaN where no fold predicts."""
        grid, problem = self.problem.Y, replace(self.problem, alpha=alpha, task_alpha=task_alpha)
        xp = namespace(grid)
        held_out = xp.full_like(grid, float("nan"))
        sides = smoothers(problem) if self.apart else None
        known: dict[Key, Smoother] = {}
        for number, (part, axes, test) in enumerate(self.parts):
            posed = replace(part, alpha=alpha, task_alpha=task_alpha, tol=part.tol if tol is None else tol)
            if sides is None or axes is None:
                found = complete_problem(posed, self.starts[number])
                predicted = found.labels
            else:
                rows = self._reduced(problem, sides[0], axes[0], False, known)
                columns = self._reduced(problem, sides[1], axes[1], True, known)
                found = _completed(posed, (rows, columns), self.starts[number])
                predicted = _outside(sides, axes, found.labels)
            self.starts[number] = found
            held_out = xp.where(as_array_of(test, grid), predicted, held_out)
        return held_out

    def _reduced(
        self, problem: Problem, side: Smoother, rows: np.ndarray, of_tasks: bool, known: dict[Key, Smoother]
    ) -> Smoother:
        """Return a side of some rows; where leaving the others out is fitting again, all λ share its spectrum."""
        key = (of_tasks, rows.tobytes())
        if key in known:
            return known[key]
        filter, alpha = (problem.task_filter, problem.task_alpha) if of_tasks else (problem.filter, problem.alpha)
        if filter.refits:
            if key not in self._spectra:
                self._spectra[key] = part_of(side.spectrum, rows)
            found = self._spectra[key].smoother(filter, alpha)
        else:
            found = reduced(side, rows)
        # Only where both sides are cut do other folds leave the same rows, or the same columns.
        if self.setting is Setting.D:
            known[key] = found
        return found


def _outside(sides: tuple[Smoother, Smoother], axes: Axes, completed: Array) -> Array:
    """Return, as a grid (m, q), what a completed part says of the rows and columns that left it."""
    values, places = completed.T, []
    for side, kept in zip(sides[::-1], axes[::-1], strict=True):
        n_rows = side.spectrum.n_rows
        left = without(kept, n_rows)
        # Where nothing left, all rows are known and asked for.
        values = (predict_others(side, kept, values) if left.size else side.smooth(values)).T
        place = np.zeros(n_rows, dtype=np.intp)
        place[left if left.size else kept] = np.arange(left.size or n_rows)
        places.append(place)
    return take_rows(take_rows(values.T, places[1]).T, places[0]).T


def is_taken_apart(problem: Problem, setting: Setting) -> bool:
    """Tell whether rows are taken out of the grid, which equals hiding them for all models but this one."""
    return problem.method == "two_step" and setting is not Setting.A


def _both_directions(folds: Iterable[Fold]) -> Iterator[Fold]:
    """Yield folds in which an edge leaves as its half above the diagonal does."""
    for _, test in folds:
        upper = np.triu(test)
        yield ~(upper | upper.T), upper | upper.T


def _block(matrix: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    return take_rows(take_rows(matrix, rows).T, columns).T


def _folds(problem: Problem, setting: Setting, groups: Any, task_groups: Any, cells: Any) -> Iterator[Fold]:
    """Yield what is used and what is predicted, one group (or row, or column) after the other."""
    m, q = problem.Y.shape
    if cells is not None:
        codes = group_codes(cells, (m, q), "cells")
        count = int(codes.max()) + 1
        check_folds_memory(problem, setting, (count, 1), apart=False)
        for fold in range(count):
            yield codes != fold, codes == fold
        return
    rows = group_members(groups, m, "groups") or [np.array([i]) for i in range(m)]
    columns = group_members(task_groups, q, "task_groups") or [np.array([j]) for j in range(q)]
    if setting is Setting.D and len(rows) * len(columns) > MANY_CELLS:
        raise ValueError(
            f"Setting D with missing labels is solved again for each pair of a left-out instance and task, here "
            f"{len(rows) * len(columns)} times: give groups= and task_groups=, a few of each."
        )
    n_folds = (len(rows) if setting.new_instance else 1, len(columns) if setting.new_task else 1)
    check_folds_memory(problem, setting, n_folds, apart=is_taken_apart(problem, setting))
    for row in rows if setting.new_instance else [np.arange(m)]:
        for column in columns if setting.new_task else [np.arange(q)]:
            train, test = np.ones((m, q), dtype=bool), np.zeros((m, q), dtype=bool)
            test[np.ix_(row, column)] = True
            if setting.new_instance:
                train[row] = False
            if setting.new_task:
                train[:, column] = False
            yield train, test


def leave_one_out_pairs(problem: Problem) -> Array:
    """Return setting A for each observed cell, from one dense system of all observed cells.

    Parameters
    ----------
    problem : Problem
        With at most 4096 observed cells.

    Returns
    -------
    array of shape (m, q)
    """
    observed = ~np.isnan(to_numpy(problem.Y))
    if observed.sum() > MANY_CELLS:
        raise ValueError(
            f"Leaving out each of {observed.sum()} observed cells by itself takes too long where labels are missing: "
            "give cells=, a fold for each cell, so that a few folds are left out instead."
        )
    operators = pair_operators(problem)
    if operators.ridge == 0 or operators.floor > 0:
        raise ValueError("Leaving out single cells where labels are missing needs regularisation: use alpha > 0.")
    xp = namespace(problem.Y)
    flat = np.flatnonzero(observed)
    y = take_rows(xp.reshape(problem.Y, (-1,)), flat)
    system = operators.kernel_block(*np.nonzero(observed))
    weights = xp.ones_like(y) if problem.weights is None else take_rows(xp.reshape(problem.weights, (-1,)), flat)
    eye = xp.eye(flat.size, dtype=system.dtype, device=system.device)
    refusal = partial(leverage_error, flat, observed.size, "cells form a set that")
    inverse = solve_block(system + operators.ridge * eye / weights, eye, 0.0, operators.is_graded, refusal)
    own = xp.asarray(xp.linalg.diagonal(inverse), copy=True)
    if problem.method == "network":
        left_out = _both_ways(inverse, own, y, observed)
    else:
        left_out = -(with_diagonal(inverse, 0.0) @ y) / own
    everything = xp.concat([left_out, xp.reshape(complete_problem(problem).labels, (-1,))])
    places = np.arange(observed.size) + flat.size
    places[flat] = np.arange(flat.size)
    return xp.reshape(take_rows(everything, places), problem.Y.shape)


def _both_ways(inverse: Array, own: Array, y: Array, observed: np.ndarray) -> Array:
    """Leave out each edge with its transpose, −P_BB⁻¹ P_B· y of the others: Cramer's rule for two cells B."""
    xp = namespace(y)
    number = np.full(observed.shape, -1)
    number[observed] = np.arange(int(observed.sum()))
    partner = number.T[observed]
    places = np.arange(partner.size)
    alone = as_array_of(partner == places, y)
    between = take_rows(xp.reshape(inverse, (-1,)), places * partner.size + partner)
    together = np.eye(partner.size, dtype=bool)
    together[places, partner] = True
    others = xp.where(as_array_of(together, y), xp.zeros_like(inverse), inverse)
    dual, other = others @ y, take_rows(own, partner)
    top = xp.where(alone, dual, other * dual - between * take_rows(dual, partner))
    return -top / xp.where(alone, own, own * other - between**2)

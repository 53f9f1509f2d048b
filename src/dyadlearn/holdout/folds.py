"""Hold-out predictions by solving the model again for each fold, where there is no formula.

The labels of a fold become missing labels and the model is solved again. In a model that unlabelled
rows influence (two-step), the rows and columns of a fold are also removed from the kernels and
predicted as new ones.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, array_bytes, namespace, placed, take_rows, values_in
from dyadlearn._checks import check_whole
from dyadlearn._codes import pair_numbers
from dyadlearn._means import with_ones
from dyadlearn._memory import check_memory, solve_numbers
from dyadlearn._messages import Message
from dyadlearn._parallel import map_here, spread
from dyadlearn.exceptions import MergedGroupsWarning
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.pairing import Coupled, Pairing
from dyadlearn.pairing.incomplete import part_of, predict_outside, rows_leave_kernels
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import Solution, warn_unless_converged
from dyadlearn.solve.leaving import refuse
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import (
    ObservedSolution,
    ObservedSystem,
    PairProducts,
    solve_by_directions,
)
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich_at

# Most solves of one hold-out.
_MOST_FOLDS = 4096

Axes = tuple[np.ndarray, np.ndarray]
Solved = Completion | ObservedSolution
# Solution of a fold, and its predictions of the test labels.
Predicted = tuple[Solved, Array]


class Fold(NamedTuple):
    """Labels that are left out together.

    Attributes
    ----------
    left : boolean array of the shape of the labels' values
        Mask of the hidden labels; in setting D there are more hidden labels than predicted ones.
    test : integer array
        Positions of the predicted labels among the flattened values.
    staying : (integer array, integer array)
        Positions of the rows and columns that are not left out, with labels or without.
    leaving : (integer array, integer array)
        Positions of the rows and columns of the predicted labels; all positions of a side that is
        not left out.
    """

    left: np.ndarray
    test: np.ndarray
    staying: Axes
    leaving: Axes

    @property
    def masks(self) -> tuple[np.ndarray, np.ndarray]:
        """Masks of the labels to learn from, and of those to predict."""
        test = np.zeros_like(self.left)
        test.flat[self.test] = True
        return ~self.left, test


class Folds:
    """Folds of labels, instances or tasks, to be left out in turn under several regularisations.

    Each solve starts from the previous solution of the same fold.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    units : Units
        Units; each is a fold, or in setting D each pair of an instance unit and a task unit.
    """

    def __init__(self, problem: Problem, setting: Setting, units: Units) -> None:
        if problem.pairing.symmetry:
            units = units.of_edges(problem.labels, setting)
        self.problem = problem
        self.setting = setting
        self.units = units
        labels = problem.labels
        n_units = [np.unique(codes).size for codes in units.of_labels(labels, setting)]
        _check_number(labels, setting, math.prod(n_units))
        solver = _GridSolver if labels.grid is not None else _PairSolver
        self._solver = solver(problem, setting)
        self._solver.check_memory(n_units)
        self.folds: list[Fold] = []
        for fold in folds_of(labels, setting, units):
            if (labels.observed & ~fold.left).any():
                self.folds.append(fold)
            elif labels.observed.reshape(-1)[fold.test].any():
                raise nothing_left()
        self.starts: list[Solved | None] = [None] * len(self.folds)

    @property
    def rows_leave(self) -> bool:
        """Whether the rows and columns of a fold leave the kernels too."""
        return self._solver.rows_leave

    @property
    def converged(self) -> bool:
        """Whether the last solve of every fold converged."""
        return not self._unconverged

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.folds)

    def n_tested(self, numbers: Iterable[int]) -> int:
        """Return the number of observed labels that the numbered folds predict."""
        observed = self.problem.labels.observed.reshape(-1)
        return sum(int(np.count_nonzero(observed[self.folds[number].test])) for number in numbers)

    @cached_property
    def diagonal(self) -> list[int]:
        """Numbers of folds of which no two share a unit in setting D; all folds in other settings."""
        if self.setting is not Setting.D:
            return list(range(self.n_folds))
        sides = [
            codes.reshape(-1) for codes in self.units.of_labels(self.problem.labels, self.setting)
        ]
        chosen = []
        used = set[tuple[int, int]]()
        for number, fold in enumerate(self.folds):
            units = {(axis, int(codes[fold.test[0]])) for axis, codes in enumerate(sides)}
            if used.isdisjoint(units):
                chosen.append(number)
                used |= units
        return chosen

    def held_out(
        self,
        pairing: Pairing | None = None,
        tol: float | None = None,
        *,
        max_iter: int | None = None,
        numbers: Sequence[int] | None = None,
        watch: Callable[[], None] = lambda: None,
    ) -> Array:
        """Return predictions of the shape of the labels' values, NaN where no fold predicts.

        Warns with the number of folds in which conjugate gradients did not converge.

        Parameters
        ----------
        pairing : Pairing, default=None
            The model with another regularisation; None is the model of the problem.
        tol, max_iter : float and int, default=None
            Tolerance and maximum number of conjugate gradient iterations; None are those of the
            problem.
        numbers : sequence of int, default=None
            Numbers of the folds to leave out; None is all of them.
        watch : callable
            Callback that is called after each fold.
        """
        problem = self.problem
        labels = self.problem.labels
        if pairing is None:
            pairing = problem.pairing
        if tol is None:
            tol = problem.tol
        stopping = {"tol": tol, "max_iter": problem.max_iter if max_iter is None else max_iter}
        if numbers is None:
            numbers = range(self.n_folds)
        solve = partial(_solved, self._solver, pairing, stopping)
        asked = ((self.folds[number], self.starts[number]) for number in numbers)
        predictions: dict[int, Array] = {}
        # Decompositions of the rows that stay are shared by folds and by regularisations.
        results = map_here(solve, asked) if self.rows_leave else spread(solve, asked)
        with closing(results):
            for place, (solution, values) in results:
                self.starts[numbers[place]] = solution
                predictions[place] = values
                watch()
        if unconverged := self._unconverged:
            worst = max(unconverged, key=lambda solution: solution.residual)
            warn_unless_converged(worst, tol, f" in {len(unconverged)} of {self.n_folds} folds")
        tests = [self.folds[number].test for number in numbers]
        flat = placed(
            [predictions[place] for place in range(len(tests))], tests, labels.observed.size
        )
        return namespace(flat).reshape(flat, labels.values.shape)

    @property
    def _unconverged(self) -> list[Solution | ObservedSolution]:
        """Solutions that did not converge."""
        solutions = [
            start.solution if isinstance(start, Completion) else start for start in self.starts
        ]
        return [
            solution for solution in solutions if solution is not None and not solution.converged
        ]


def _solved(
    solver: _GridSolver | _PairSolver,
    pairing: Pairing,
    stopping: Mapping[str, Any],
    asked: tuple[Fold, Solved | None],
) -> Predicted:
    """Return the solution without a fold, from a start, and the predictions of its test labels."""
    fold, start = asked
    return solver.solve(pairing, fold, start, stopping)


class _GridSolver:
    """Completes a grid of labels without a fold.

    Attributes
    ----------
    problem : Problem
    setting : Setting
    rows_leave : bool
        Whether the rows and columns of a fold leave the kernels too.
    """

    def __init__(self, problem: Problem, setting: Setting) -> None:
        self.problem = problem
        self.setting = setting
        self.rows_leave = rows_leave_kernels(problem.pairing, setting)
        self._spectra: dict[tuple[int, bytes], Spectrum] = {}
        self._sides: dict[tuple[int, float, bytes], Any] = {}

    def check_memory(self, n_units: Sequence[int]) -> None:
        """Raise if the folds of so many units of each side do not fit into memory."""
        labels = self.problem.labels
        pairing = self.problem.pairing
        ranks = pairing.ranks
        total = math.prod(n_units)
        # A mask for each fold, and its solution, from which the next solve starts.
        of_fold = 0.125 + 1.0 + pairing.knows_tasks
        solving = solve_numbers(
            labels.shape,
            ranks,
            coupled=pairing.knows_tasks,
            complete=False,
            weighted=labels.weights is not None,
        )
        of_sides = []
        if self.rows_leave:  # each fold has its own eigenvectors and operators
            for axis, n in zip(self.setting.new, n_units, strict=True):
                of_sides.append((2, n, labels.shape[axis], ranks[axis]))
        need = values_in((of_fold, total, *labels.shape), solving, *of_sides)
        refuse(need, labels.values, self.setting, f" in {total} folds")

    def solve(
        self, pairing: Pairing, fold: Fold, start: Any, stopping: Mapping[str, Any]
    ) -> Predicted:
        """Return the solution without a fold, and the predictions of its test labels."""
        labels = self.problem.labels.hide(fold.left)
        part = pairing
        if self.rows_leave:
            labels = labels.part(*fold.staying)
            part = self._part(pairing, fold)
        problem = replace(self.problem, pairing=part, labels=labels, **stopping)
        # One warning for all folds follows.
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            completion = problem.complete(start)
        predictions = completion.labels
        if self.rows_leave:
            predictions = predict_outside(pairing, fold.staying, completion.labels)
        flat = namespace(predictions).reshape(predictions, (-1,))
        return completion, take_rows(flat, fold.test)

    def _part(self, pairing: Pairing, fold: Fold) -> Pairing:
        """Return the model of the rows and columns that a fold does not leave out."""
        if self.setting is not Setting.D:
            return part_of(pairing, fold.staying, self._spectra)
        # Folds share left-out rows or columns. Operators of a side are cached for all folds, and
        # for the next regularisation if one of its two values is the same.
        alphas = list(pairing.alphas.values())
        self._sides = {key: side for key, side in self._sides.items() if key[1] in alphas}
        return part_of(pairing, fold.staying, self._spectra, self._sides)


class _PairSolver:
    """Solves for a list of labels without a fold.

    Attributes
    ----------
    problem, rows_leave : as in `_GridSolver`
    """

    def __init__(self, problem: Problem, setting: Setting) -> None:
        self.problem = problem
        self.rows_leave = rows_leave_kernels(problem.pairing, setting)
        self._spectra: dict[tuple[int, bytes], Spectrum] = {}

    def check_memory(self, n_units: Sequence[int]) -> None:
        """Raise if the folds of so many units of each side do not fit into memory."""
        labels = self.problem.labels
        total = math.prod(n_units)
        # A mask of the pairs for each fold, and its solution.
        of_folds = ((0.125, total, labels.size), (total, *self.problem.pairing.ranks))
        purpose = f"Leaving out {total} folds of {labels.size} observed pairs"
        remedy = Message(
            "[pass groups that are left out together|give --cv, a number of folds], for example "
            "five"
        )
        need = array_bytes(labels.values, *of_folds, labels.size)
        check_memory(need, labels.values, purpose, remedy)

    def solve(
        self, pairing: Pairing, fold: Fold, start: Any, stopping: Mapping[str, Any]
    ) -> Predicted:
        """Return the solution without a fold, and the predictions of its test labels."""
        if self.rows_leave:
            return self._solved_for_part(pairing, fold, start, stopping)
        labels = self.problem.labels
        training = labels.hide(fold.left)
        system = self._system.at(cast(Coupled, pairing)).among(training)
        solution = solve_by_directions(system.operators, training)
        if solution is None:
            solution = system.solve(start, **stopping)
        test = PairProducts(system.basis.left, system.basis.right, labels.take(fold.test))
        return solution, system.fitted(solution, test)

    @cached_property
    def _system(self) -> ObservedSystem:
        """Equations of the labels, with features rotated once for all folds."""
        return self.problem.system()

    @cached_property
    def _features(self) -> list[Array]:
        return [side.vectors * side.values**0.5 for side in self.problem.pairing.spectra]

    def _solved_for_part(
        self, pairing: Pairing, fold: Fold, start: Any, stopping: Mapping[str, Any]
    ) -> Predicted:
        """Solve without the rows of a fold in the kernels, and predict these rows as new ones."""
        if not pairing.refits:
            raise ValueError(
                Message(
                    "Settings B, C and D of observed pairs fit the model again for each fold, "
                    "which is only defined for Tikhonov's filter: use setting A[, or "
                    "filter=None|]."
                )
            )
        labels = self.problem.labels
        left, right = (self._features_beside(axis, pairing, fold) for axis in (0, 1))
        part = cast(Coupled, part_of(pairing, fold.staying, self._spectra))
        training = labels.hide(fold.left).part(*fold.staying)
        solution = solve_by_directions(part, training)
        if solution is None:
            solution = ObservedSystem.of(part, training).solve(start, **stopping)
        coefficients = part.coefficients_of(solution.spectral, solution.mean)
        absorbed = part.expansion(coefficients).absorbed
        return solution, sandwich_at(left, absorbed, right, *labels.take(fold.test).places)

    def _features_beside(self, axis: int, pairing: Pairing, fold: Fold) -> Array:
        """Return the features of all rows of a side, centred on the rows that stay; store the spectrum of those."""
        spectrum = pairing.spectra[axis]
        staying = fold.staying[axis]
        rows = self._features[axis]
        if spectrum.has_free_constant:
            rows = rows[:, :-1]
        known = take_rows(rows, staying)
        key = (axis, staying.tobytes())
        if key not in self._spectra:
            self._spectra[key] = Spectrum.from_features(known, constant=spectrum.constant)
        if not spectrum.has_free_constant:
            return rows
        return with_ones(rows - namespace(rows).mean(known, axis=0))


def folds_of(labels: Labels, setting: Setting, units: Units) -> list[Fold]:
    """Return one fold for each unit, or in setting D for each pair of an instance unit and a task unit."""
    unit_of = [codes.reshape(-1) for codes in units.of_labels(labels, setting)]
    if len(unit_of) == 1:
        fold_of = unit_of[0]
    else:
        fold_of = pair_numbers(unit_of[0], unit_of[1], int(unit_of[1].max()) + 1)
    order = np.argsort(fold_of, kind="stable")
    sides = units.of_sides(labels.shape, setting)
    folds = []
    for test in np.split(order, np.flatnonzero(np.diff(fold_of[order])) + 1):
        numbers = [int(codes[test[0]]) for codes in unit_of]
        hidden = [codes == number for codes, number in zip(unit_of, numbers, strict=True)]
        left = np.logical_or.reduce(hidden).reshape(labels.observed.shape)
        staying = [np.arange(length) for length in labels.shape]
        leaving = [np.arange(length) for length in labels.shape]
        for (axis, codes), number in zip(sides, numbers, strict=False):
            staying[axis] = np.flatnonzero(codes != number)
            leaving[axis] = np.flatnonzero(codes == number)
        folds.append(Fold(left, test, (staying[0], staying[1]), (leaving[0], leaving[1])))
    return folds


def _check_number(labels: Labels, setting: Setting, n_folds: int) -> None:
    """Raise if there are too many folds to solve again for each."""
    if n_folds > _MOST_FOLDS:
        names = {Setting.A: "cells=", Setting.B: "groups=", Setting.C: "task_groups="}
        name = names.get(setting, "groups= and task_groups=")
        raise ValueError(
            Message(
                "Setting {setting} of {n_labels} labels, some of them missing or weighted, would "
                "be solved again {n_folds} times: [pass folds as {name}|give --cv, a number of "
                "folds], for example five.",
                setting=setting.value,
                n_labels=labels.size,
                n_folds=n_folds,
                name=name,
            )
        )


def folds_in_words(splitter: SettingKFold | GivenFolds, setting: Setting, groups: Units) -> str:
    """Return the number of folds, and of groups if several of them share a fold.

    Parameters
    ----------
    splitter : SettingKFold or GivenFolds
    setting : Setting
    groups : Units
        Groups of instances and of tasks that are left out together.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holdout.folds import folds_in_words
    >>> from dyadlearn.holdout.units import Units
    >>> from dyadlearn.selection import SettingKFold
    >>> from dyadlearn.settings import Setting
    >>> folds_in_words(SettingKFold("B", 5), Setting.B, Units((np.arange(10), None)))
    '10 groups in 5 folds'
    >>> folds_in_words(SettingKFold("D", 5), Setting.D, Units((np.arange(5), None)))
    '5×5 folds'
    """
    n = splitter.n_splits
    counts = [_n_units(codes) for codes in groups.sides if codes is not None]
    if max(counts, default=0) > n:
        merged = f"{'×'.join(map(str, counts))} groups in "
    else:
        merged = ""
    if setting is Setting.D:
        return f"{merged}{n}×{n} folds"
    return f"{merged}{n} folds"


def warn_of_merged_groups(
    groups: Units, folds: Units, setting: Setting, stacklevel: int = 2
) -> None:
    """Warn if several groups share a fold, except where most groups are single rows, as copies among others are.

    Parameters
    ----------
    groups, folds : Units
        Groups of instances and of tasks to leave out together, and what is left out together
        instead.
    setting : Setting
        Setting, for messages.
    stacklevel : int, default=2
        Stack level of the warning, relative to this function.
    """
    sides = zip(groups.sides, folds.sides, ("instances", "tasks"), strict=True)
    for wanted, used, words in sides:
        if wanted is None or used is None or _n_units(used) >= _n_units(wanted):
            continue
        if np.median(np.bincount(wanted)) <= 1:
            continue
        n_groups = _n_units(wanted)
        n_folds = _n_units(used)
        fewest = n_groups // n_folds
        most = -(-n_groups // n_folds)
        together = f"{fewest} or {most}" if fewest < most else f"{most}"
        message = Message(
            "In setting {setting}, {n_groups} groups of {words} are in {n_folds} folds: a model "
            "is fitted without {together} groups at a time.",
            setting=setting.value,
            n_groups=n_groups,
            words=words,
            n_folds=n_folds,
            together=together,
        )
        # In setting D, cv is the number of folds of both sides.
        if setting is not Setting.D:
            message = Message(
                "{message} With <cv={n_groups}> it is fitted without one group at a time.",
                message=message,
                n_groups=n_groups,
            )
        warnings.warn(
            message,
            MergedGroupsWarning,
            stacklevel=stacklevel + 1,
        )


def _n_units(codes: np.ndarray) -> int:
    return int(np.unique(codes).size)


# Number of folds where none is given.
_N_FOLDS = 5


def default_splitter(
    labels: Labels, setting: Setting, together: Units | None = None
) -> SettingKFold:
    """Return the splitter for folds that nobody chose: five, or one for each unit if there are fewer units.

    Parameters
    ----------
    labels : Labels
    setting : Setting
    together : Units, default=None
        Groups that are left out together; None means one instance and one task at a time.
    """
    if together is None:
        together = Units()
    counts = [np.unique(codes).size for _, codes in together.of_sides(labels.shape, setting)]
    if counts:
        n_units = min(counts)
    else:
        n_units = math.prod(labels.values.shape)
    if n_units < 2:
        raise nothing_left()
    return SettingKFold(setting, min(_N_FOLDS, n_units), random_state=0)


def as_splitter(cv: Any, setting: Setting) -> SettingKFold | GivenFolds:
    """Return the splitter of a setting: make one from a number or a list of folds, or check an existing one."""
    if isinstance(cv, SettingKFold):
        if cv.setting != setting.value:
            raise ValueError(
                Message(
                    "<cv> makes folds for setting {folds_setting}, but the setting is {setting}.",
                    folds_setting=cv.setting,
                    setting=setting.value,
                )
            )
        if cv.network:
            raise ValueError(
                "cv has network=True, which is only meant for long tables of edges: use "
                "network=False for instances "
                "and tasks of a grid. A network model leaves out one edge or node at a time, "
                "without cv."
            )
        return cv
    if isinstance(cv, GivenFolds):
        return cv
    if isinstance(cv, list | tuple):
        return GivenFolds(setting, cv)
    if cv is not None and (isinstance(cv, bool) or not isinstance(cv, int | np.integer)):
        raise TypeError(
            Message("<cv> must be a number of folds or a SettingKFold, found {cv!r}.", cv=cv)
        )
    return SettingKFold(
        setting, _N_FOLDS if cv is None else check_whole(cv, "cv", 2), random_state=0
    )

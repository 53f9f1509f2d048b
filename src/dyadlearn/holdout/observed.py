"""Observed pairs that are held out: folds that are solved again, each from what it gave before.

What is left out of a model of pairs is hidden, as if it had never been observed. A model in which rows count even where
all their labels are hidden takes them out of their side, which is decomposed again without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, NoReturn, cast

import numpy as np

from dyadlearn._array import Array, namespace, take_rows
from dyadlearn._codes import group_codes, pair_numbers
from dyadlearn._means import with_ones
from dyadlearn._memory import check_memory
from dyadlearn.holdout.folds import as_splitter, folds_in_words
from dyadlearn.holdout.intervals import upper_scores
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import Units
from dyadlearn.pairing.base import Coupled
from dyadlearn.pairing.leaving import nothing_left
from dyadlearn.settings import Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.observed import MOST_UNKNOWNS, ObservedSolution, ObservedSystem, PairLabels, leave_groups_out
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich_at


class PairFold(NamedTuple):
    """Pairs that are left out together.

    Attributes
    ----------
    train, test : integer arrays
        Positions, among the pairs, of those that are used and of those that are predicted.
    staying : (integer array, integer array)
        The rows and columns of the grid that do not leave, with labels or without.
    """

    train: np.ndarray
    test: np.ndarray
    staying: tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class PairProblem:
    """A model of observed pairs as the hold-out formulas see it; what a `Problem` is for a grid.

    Attributes
    ----------
    pairing : Coupled
        The model of pairs, on its sides and under its regularisation.
    labels : PairLabels
    tol, max_iter : float and int
        When the solver stops.
    """

    pairing: Coupled
    labels: PairLabels
    tol: float = 1e-8
    max_iter: int = 1000

    #: Labels are those of some pairs, and no closed form of a grid applies.
    is_listed: ClassVar[bool] = True
    is_complete: ClassVar[bool] = False

    @property
    def weights(self) -> Array | None:
        """Of the squared loss of each pair (n,), or None."""
        return self.labels.weights

    @property
    def targets(self) -> Array:
        """What held-out predictions are compared with: the labels (n,) of the pairs."""
        return self.labels.values

    @property
    def Y(self) -> NoReturn:  # noqa: N802
        """There is no grid of labels, and what asks for one cannot be had."""
        m, q = self.labels.shape
        raise ValueError(
            f"This model was fitted on {self.labels.size} observed pairs, and not on the grid of {m} × {q} that this "
            "takes: ask for evaluate(), holdout(), predict_interval() or a cross-validation of the pairs, or fit it on "
            "a grid with NaN where a label is missing."
        )

    def at(self, alpha: float, task_alpha: float | None = None) -> PairProblem:
        """Return the same problem under another regularisation."""
        return replace(self, pairing=self.pairing.at(alpha, task_alpha))

    def system(self) -> ObservedSystem:
        """Return the equations of the pairs; features are rotated for it, which takes as much memory again."""
        return ObservedSystem.of(self.pairing, self.labels)

    def holdout(self, setting: Setting, **groups: Any) -> Array:
        """Return predictions (n,) of the pairs, each by a model that never saw what the setting leaves out.

        Parameters
        ----------
        setting : Setting
        groups, task_groups, cells : arrays of shape (m,), (q,) and (n,), or None
            What leaves together. Without any, pairs, instances or tasks leave one at a time, by a formula of the
            factorised equations, where these are small enough.
        """
        self.pairing.check_request(setting, *(groups.get(name) for name in ("groups", "task_groups", "cells")))
        if any(given is not None for given in groups.values()):
            return PairFolds(self, setting, pair_units(self.labels, setting, **groups)).held_out_or_warned()
        n_unknowns = int(np.prod([side.values.shape[0] for side in self.pairing.spectra]))
        if setting is Setting.D or self.pairing.takes_apart(setting) or n_unknowns > MOST_UNKNOWNS:
            names = {Setting.A: "cells=", Setting.B: "groups=", Setting.C: "task_groups="}
            raise ValueError(
                f"Setting {setting.value} of {self.labels.size} observed pairs has no formula that leaves out one at a "
                f"time here: give folds by {names.get(setting, 'groups= and task_groups=')}, say of five."
            )
        own = {Setting.B: self.labels.rows, Setting.C: self.labels.columns}.get(setting)
        if self.labels.size == 1 or (own is not None and (own == own[0]).all()):
            raise nothing_left()
        return leave_groups_out(self.system(), own)

    def plan(self, setting: Setting, groups: Any = None, task_groups: Any = None, cv: Any = None) -> PairPlan:
        """Decide how to hold out, with arguments as `dyadlearn.holdout.plan` has them: always by folds."""
        used = groups if setting.new_instance else None, task_groups if setting.new_task else None
        splitter = as_splitter(cv, setting)
        return PairPlan(self, setting, folds_in_words(splitter, setting), *used, splitter)


@dataclass(frozen=True, eq=False)
class PairPlan:
    """How the hold-out predictions of observed pairs are made; what a `Plan` is for a grid.

    Attributes
    ----------
    problem : PairProblem
    setting : Setting
    words : str
    groups, task_groups : array-like of shape (m,) and (q,), or None
        What is left out together.
    splitter : SettingKFold or GivenFolds
    """

    problem: PairProblem
    setting: Setting
    words: str
    groups: Any
    task_groups: Any
    splitter: SettingKFold | GivenFolds

    #: No complete problem has the same scores.
    swept: ClassVar[None] = None

    @cached_property
    def folds(self) -> PairFolds:
        """What is left out and solved again."""
        return PairFolds.cut(self.problem, self.setting, self.splitter, self.groups, self.task_groups)

    @property
    def units(self) -> Units:
        """What leaves together; of pairs, in setting A, a number for each of them."""
        return self.folds.units

    def held_out(self, problem: PairProblem | None = None, tol: float | None = None) -> Array:
        """Return the predictions (n,) of the pairs, arguments as in `Plan.held_out`."""
        return self.folds.held_out_or_warned(None if problem is None else problem.pairing, tol)


class PairIntervals:
    """How far labels may be off, by how far they were off in folds of the setting; no pair is wider than another.

    Parameters
    ----------
    problem : PairProblem
    kept : callable, default=None
        Returns what a search keeps of a setting: predictions (n,), or None.
    """

    #: Whether pairs have widths of their own.
    is_local = False

    def __init__(self, problem: PairProblem, kept: Callable[[Setting], Array | None] | None = None) -> None:
        self.problem, self._kept = problem, kept
        self._scores: dict[Setting, Array] = {}

    def reach(self, setting: Setting, coverage: float) -> float:
        """Return what so many of the residuals in the folds of a search, else in five, do not exceed."""
        if setting not in self._scores:
            held_out = None if self._kept is None else self._kept(setting)
            held_out = PairFolds.cut(self.problem, setting).held_out_or_warned() if held_out is None else held_out
            self._scores[setting] = namespace(held_out).abs(self.problem.labels.values - held_out)
        scores = namespace(self._scores[setting]).reshape(self._scores[setting], (1, -1))
        return float(upper_scores(scores, coverage)[0])


class PairFolds:
    """Folds of observed pairs that are left out in turn, for one regularisation after the other.

    Features are rotated once for all folds of a model in which hiding labels is all there is to leaving out. Each
    solve starts from what the same fold gave before.

    Parameters
    ----------
    problem : PairProblem
    setting : Setting
    units : Units
        What leaves together, of all that the setting leaves out.
    """

    def __init__(self, problem: PairProblem, setting: Setting, units: Units) -> None:
        problem.pairing.check_leaving()
        self.problem, self.setting, self.units = problem, setting, units
        self.folds = unit_folds(problem.labels, units)
        if any(fold.train.size == 0 for fold in self.folds):
            raise nothing_left()
        #: Whether sides are cut, and decomposed again.
        self.apart = problem.pairing.takes_apart(setting)
        if self.apart and not problem.pairing.refits:
            raise ValueError(
                "Observed pairs are held out by fitting again, which filters other than Tikhonov's do not mean: use "
                "setting A, or filter=None."
            )
        kind: type[_Hidden] = _Apart if self.apart else _Hidden
        self._left_out = kind(problem, setting)
        self.starts: list[ObservedSolution | None] = [None] * len(self.folds)

    @classmethod
    def cut(
        cls, problem: PairProblem, setting: Setting, cv: Any = None, groups: Any = None, task_groups: Any = None
    ) -> PairFolds:
        """Return some folds of what a setting leaves out, those of instances and tasks as they are cut on a grid.

        Parameters
        ----------
        problem : PairProblem
        setting : Setting
        cv : int, SettingKFold, GivenFolds or list of folds, default=None
            None stands for five, always the same ones.
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            What is left out together.
        """
        labels, given = problem.labels, {"groups": groups, "task_groups": task_groups}
        return cls(problem, setting, as_splitter(cv, setting).units(labels.shape, labels.size, **given))

    @property
    def converged(self) -> bool:
        """Whether every fold was solved to its tolerance when it was last left out."""
        return all(start is None or start.converged for start in self.starts)

    @property
    def n_folds(self) -> int:
        """How many there are."""
        return len(self.folds)

    def n_tested(self, numbers: Iterable[int]) -> int:
        """Return how many pairs some of the folds predict."""
        return sum(self.folds[number].test.size for number in numbers)

    @cached_property
    def scouts(self) -> list[int]:
        """The first fold and those after it that test none of the same instances and tasks, as of folds of a grid."""
        instances, tasks, labels = self.units.instances, self.units.tasks, self.problem.labels
        if instances is None or tasks is None:
            return list(range(self.n_folds))
        found, used = [], (set[int](), set[int]())
        for number, fold in enumerate(self.folds):
            one = int(fold.test[0])
            own = int(instances[labels.rows[one]]), int(tasks[labels.columns[one]])
            if own[0] not in used[0] and own[1] not in used[1]:
                found.append(number)
                used[0].add(own[0])
                used[1].add(own[1])
        return found

    def held_out(
        self,
        pairing: Coupled | None = None,
        tol: float | None = None,
        *,
        max_iter: int | None = None,
        numbers: Sequence[int] | None = None,
    ) -> Array:
        """Return predictions (n,), NaN where no fold predicts; parameters as in `dyadlearn.holdout.folds.Folds`."""
        problem, found, tested = self.problem, [], []
        pairing = problem.pairing if pairing is None else pairing
        stopping = {
            "tol": problem.tol if tol is None else tol,
            "max_iter": problem.max_iter if max_iter is None else max_iter,
        }
        for number in range(self.n_folds) if numbers is None else numbers:
            fold = self.folds[number]
            solution, values = self._left_out.fold(pairing, fold, self.starts[number], stopping)
            self.starts[number] = solution
            found.append(values)
            tested.append(fold.test)
        untested = np.ones(problem.labels.size, dtype=bool)
        untested[np.concatenate(tested)] = False
        rest = np.flatnonzero(untested)
        found.append(namespace(found[0]).full_like(take_rows(problem.labels.values, rest), float("nan")))
        return take_rows(namespace(found[0]).concat(found), np.argsort(np.concatenate([*tested, rest])))

    def held_out_or_warned(self, pairing: Coupled | None = None, tol: float | None = None) -> Array:
        """Return predictions (n,) of all folds, and warn where the solver stopped short."""
        found = self.held_out(pairing, tol)
        short = [start for start in self.starts if start is not None and not start.converged]
        if short:
            worst = max(short, key=lambda start: start.residual)
            where = f" in {len(short)} of {len(self.folds)} folds of observed pairs"
            warn_unless_converged(worst, self.problem.tol if tol is None else tol, where, stacklevel=4)
        return found


class _Hidden:
    """Folds whose labels are hidden while the sides stay as they are."""

    def __init__(self, problem: PairProblem, setting: Setting) -> None:
        self.problem, self.setting = problem, setting
        self._system = self._made()

    def _made(self) -> ObservedSystem | None:
        return self.problem.system()

    def fold(
        self, pairing: Coupled, fold: PairFold, start: ObservedSolution | None, stopping: Mapping[str, Any]
    ) -> tuple[ObservedSolution, Array]:
        """Return the model of a fold, and its predictions of the pairs that were left out."""
        assert self._system is not None
        labels, train, test = self.problem.labels, fold.train, fold.test
        system = self._system.at(pairing).among(labels.take(train))
        solution = system.solve(start, **stopping)
        return solution, system.fitted(solution, labels.take(test).products(system.basis.left, system.basis.right))


class _Apart(_Hidden):
    """Folds whose rows leave their side: the model is one of the rows that stay, and predicts others as new ones."""

    def _made(self) -> None:
        self._spectra: dict[tuple[int, bytes], Spectrum] = {}
        self._features = [side.vectors * side.values**0.5 for side in self.problem.pairing.spectra]

    def fold(
        self, pairing: Coupled, fold: PairFold, start: ObservedSolution | None, stopping: Mapping[str, Any]
    ) -> tuple[ObservedSolution, Array]:
        """Return the model of a fold, and its predictions of the pairs that were left out."""
        labels, axes, features = self.problem.labels, fold.staying, []
        for axis, (spectrum, kept) in enumerate(zip(pairing.spectra, axes, strict=True)):
            own = self._features[axis]
            own = own[:, :-1] if spectrum.has_free_constant else own
            key = (axis, kept.tobytes())
            if key not in self._spectra:
                self._spectra[key] = Spectrum.from_features(take_rows(own, kept), constant=spectrum.constant)
            if spectrum.has_free_constant:
                own = with_ones(own - namespace(own).mean(take_rows(own, kept), axis=0))
            features.append(own)
        part = cast(Coupled, pairing.part(axes, self._spectra))
        system = ObservedSystem.of(part, labels.take(fold.train).of_axes(*axes))
        solution = system.solve(start, **stopping)
        coefficients = part.expansion(part.coefficients_of(solution.spectral, solution.mean)).folded
        asked = labels.take(fold.test)
        return solution, sandwich_at(features[0], coefficients, features[1], asked.rows, asked.columns)


def pair_units(
    labels: PairLabels, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None
) -> Units:
    """Return what leaves together; in the settings that leave something out and where there is none given, each alone.

    Parameters
    ----------
    labels : PairLabels
    setting : Setting
    groups, task_groups, cells : arrays of shape (m,), (q,) and (n,), or None
        Labels that are equal where instances, tasks or pairs leave together.
    """
    leaves = (
        (setting.new_instance, groups, "groups"),
        (setting.new_task, task_groups, "task_groups"),
        (setting is Setting.A, cells, "cells"),
    )
    return Units(
        *(
            _codes(given, size, name) if left else None
            for (left, given, name), size in zip(leaves, (*labels.shape, labels.size), strict=True)
        )
    )


def unit_folds(labels: PairLabels, units: Units) -> list[PairFold]:
    """Return folds of pairs from the units that leave together.

    Parameters
    ----------
    labels : PairLabels
    units : Units
        Of all that a setting leaves out.

    Returns
    -------
    list of PairFold
    """
    sides = units.instances, units.tasks
    places = (labels.rows, labels.columns)
    own = [code[at] for code, at in zip(sides, places, strict=True) if code is not None]
    own = own if units.cells is None else [units.cells]
    together = own[0] if len(own) == 1 else pair_numbers(own[0], own[1], int(own[1].max()) + 1)
    order, folds = np.argsort(together, kind="stable"), []
    parts = np.split(order, np.flatnonzero(np.diff(together[order])) + 1)
    purpose = f"Leaving out {len(parts)} folds of {labels.size} observed pairs"
    check_memory(8 * len(parts) * labels.size, labels.values, purpose, "give groups that leave together, say five")
    for test in parts:
        left, one = np.zeros(labels.size, dtype=bool), int(test[0])
        for unit in own:
            left |= unit == unit[one]
        staying = [
            np.arange(length) if code is None else np.flatnonzero(code != code[at[one]])
            for code, at, length in zip(sides, places, labels.shape, strict=True)
        ]
        folds.append(PairFold(np.flatnonzero(~left), test, (staying[0], staying[1])))
    return folds


def _codes(given: Any, size: int, name: str) -> np.ndarray:
    """Return a number for each of `size` that are equal where labels are; each its own where there are none."""
    return np.arange(size) if given is None else group_codes(given, (size,), name)

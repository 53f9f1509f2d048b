"""Observed pairs that are held out: folds that are solved again, each from what it gave before.

What is left out of a model of pairs is hidden, as if it had never been observed. A model in which rows count even where
all their labels are hidden takes them out of their side, which is decomposed again without them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, cast

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, namespace, placed, take_rows
from dyadlearn._centre import with_ones
from dyadlearn._checks import check_memory
from dyadlearn._codes import group_codes
from dyadlearn.holdout.intervals import upper_scores
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.observed.direct import MOST_UNKNOWNS, leave_groups_out
from dyadlearn.observed.pairs import PairLabels
from dyadlearn.observed.sides import tall_spectrum
from dyadlearn.observed.system import ObservedSolution, ObservedSystem
from dyadlearn.pairing.base import Coupled
from dyadlearn.pairing.leaving import nothing_left
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from dyadlearn.vectrick import sandwich_at

__all__ = ["PairFold", "PairFolds", "PairIntervals", "PairProblem", "pair_folds"]


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

    #: No closed form of a grid applies.
    is_complete = False

    @property
    def weights(self) -> Array | None:
        """Of the squared loss of each pair (n,), or None."""
        return self.labels.weights

    @property
    def Y(self) -> NoReturn:  # noqa: N802
        """There is no grid of labels, and what asks for one cannot be had."""
        m, q = self.labels.shape
        raise ValueError(
            f"This model was fitted on {self.labels.size} observed pairs, and not on the grid of {m} × {q} that this "
            "takes: ask for holdout(), predict_interval() or a cross-validation of the pairs, or fit it on a grid with "
            "NaN where a label is missing."
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
            return PairFolds(self, setting, pair_folds(self.labels, setting, **groups)).held_out_or_warned()
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


class PairIntervals:
    """How far labels may be off, by how far they were off in folds of the setting; no pair is wider than another.

    Parameters
    ----------
    problem : PairProblem
    """

    #: Whether pairs have widths of their own.
    is_local = False

    def __init__(self, problem: PairProblem) -> None:
        self.problem = problem
        self._scores: dict[Setting, Array] = {}

    def reach(self, setting: Setting, coverage: float) -> float:
        """Return what so many of the residuals in five folds of a setting do not exceed."""
        if setting not in self._scores:
            held_out = PairFolds.cut(self.problem, setting).held_out_or_warned()
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
    folds : iterable of PairFold
    """

    def __init__(self, problem: PairProblem, setting: Setting, folds: Iterable[PairFold]) -> None:
        problem.pairing.check_leaving()
        self.problem, self.setting = problem, setting
        self.folds = list(folds)
        if any(fold.train.size == 0 for fold in self.folds):
            raise nothing_left()
        apart = problem.pairing.takes_apart(setting)
        if apart and not problem.pairing.refits:
            raise ValueError(
                "Observed pairs are held out by fitting again, which filters other than Tikhonov's do not mean: use "
                "setting A, or filter=None."
            )
        kind: type[_Hidden] = _Apart if apart else _Hidden
        self._left_out = kind(problem, setting)
        self.starts: list[ObservedSolution | None] = [None] * len(self.folds)

    @classmethod
    def cut(cls, problem: PairProblem, setting: Setting, cv: Any = None) -> PairFolds:
        """Return folds that a splitter of tables of pairs makes; None stands for five, always the same ones."""
        splitter = SettingKFold(setting, 5, random_state=0) if cv is None else cv
        if isinstance(splitter, int):
            splitter = SettingKFold(setting, splitter, random_state=0)
        labels = problem.labels
        parts = [map(np.sort, part) for part in splitter.split(np.stack([labels.rows, labels.columns], axis=1))]
        return cls(problem, setting, [PairFold(train, test, _staying(labels, setting, train)) for train, test in parts])

    @property
    def converged(self) -> bool:
        """Whether every fold was solved to its tolerance when it was last left out."""
        return all(start is None or start.converged for start in self.starts)

    def held_out(self, pairing: Coupled | None = None, tol: float | None = None) -> Array:
        """Return predictions (n,) under the regularisation of the problem or of another pairing; NaN where untested."""
        problem, found = self.problem, []
        pairing, tol = problem.pairing if pairing is None else pairing, problem.tol if tol is None else tol
        for number, fold in enumerate(self.folds):
            self.starts[number], values = self._left_out.fold(pairing, fold, self.starts[number], tol)
            found.append(values)
        return placed(found, [fold.test for fold in self.folds], problem.labels.size)

    def held_out_or_warned(self) -> Array:
        """Return predictions (n,) under the regularisation of the problem, and warn where the solver stopped short."""
        found = self.held_out()
        short = [start for start in self.starts if start is not None and not start.converged]
        if short:
            worst = max(short, key=lambda start: start.residual)
            warnings.warn(
                f"Leaving out {len(short)} of {len(self.folds)} folds of observed pairs: conjugate gradients stopped "
                f"after {worst.n_iter} iterations at a relative residual of {worst.residual:.1e}, short of "
                f"tol={self.problem.tol:g}: raise max_iter, tol or the regularisation.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return found


class _Hidden:
    """Folds whose labels are hidden while the sides stay as they are."""

    def __init__(self, problem: PairProblem, setting: Setting) -> None:
        self.problem, self.setting = problem, setting
        self._system = self._made()

    def _made(self) -> ObservedSystem | None:
        return self.problem.system()

    def fold(
        self, pairing: Coupled, fold: PairFold, start: ObservedSolution | None, tol: float
    ) -> tuple[ObservedSolution, Array]:
        """Return the model of a fold, and its predictions of the pairs that were left out."""
        assert self._system is not None
        labels, train, test = self.problem.labels, fold.train, fold.test
        system = self._system.at(pairing).among(labels.take(train))
        solution = system.solve(start, tol=tol, max_iter=self.problem.max_iter)
        return solution, system.fitted(solution, labels.take(test).products(system.basis.left, system.basis.right))


class _Apart(_Hidden):
    """Folds whose rows leave their side: the model is one of the rows that stay, and predicts others as new ones."""

    def _made(self) -> None:
        self._spectra: dict[tuple[int, bytes], Spectrum] = {}
        self._features = [side.vectors * side.values**0.5 for side in self.problem.pairing.spectra]

    def fold(
        self, pairing: Coupled, fold: PairFold, start: ObservedSolution | None, tol: float
    ) -> tuple[ObservedSolution, Array]:
        """Return the model of a fold, and its predictions of the pairs that were left out."""
        labels, axes, features = self.problem.labels, fold.staying, []
        for axis, (spectrum, kept) in enumerate(zip(pairing.spectra, axes, strict=True)):
            own = self._features[axis]
            own = own[:, :-1] if spectrum.has_free_constant else own
            key = (axis, kept.tobytes())
            if key not in self._spectra:
                self._spectra[key] = tall_spectrum(take_rows(own, kept), constant=spectrum.constant)
            if spectrum.has_free_constant:
                own = with_ones(own - namespace(own).mean(take_rows(own, kept), axis=0))
            features.append(own)
        part = cast(Coupled, pairing.part(axes, self._spectra))
        system = ObservedSystem.of(part, labels.take(fold.train).of_axes(*axes))
        solution = system.solve(start, tol=tol, max_iter=self.problem.max_iter)
        coefficients = part.expansion(part.coefficients_of(solution.spectral, solution.mean)).folded
        asked = labels.take(fold.test)
        return solution, sandwich_at(features[0], coefficients, features[1], asked.rows, asked.columns)


def _staying(labels: PairLabels, setting: Setting, train: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows and columns that stay: all but those of which the setting leaves out every label there is."""
    kept = []
    leaves = setting.new_instance, setting.new_task
    for left, at, length in zip(leaves, (labels.rows, labels.columns), labels.shape, strict=True):
        used, labelled = np.zeros(length, dtype=bool), np.zeros(length, dtype=bool)
        used[at[train]], labelled[at] = True, True
        kept.append(np.flatnonzero(used | ~labelled) if left else np.arange(length))
    return kept[0], kept[1]


def pair_folds(
    labels: PairLabels, setting: Setting, groups: Any = None, task_groups: Any = None, cells: Any = None
) -> list[PairFold]:
    """Return folds of pairs from what leaves together.

    Parameters
    ----------
    labels : PairLabels
    setting : Setting
    groups, task_groups, cells : arrays of shape (m,), (q,) and (n,), or None
        Labels that are equal where instances, tasks or pairs leave together; in the settings that leave them out and
        where they are None each leaves by itself.

    Returns
    -------
    list of PairFold
    """
    leaves = (
        (setting.new_instance, groups, "groups"),
        (setting.new_task, task_groups, "task_groups"),
        (setting is Setting.A, cells, "cells"),
    )
    codes = [
        _codes(given, size, name) if left else None
        for (left, given, name), size in zip(leaves, (*labels.shape, labels.size), strict=True)
    ]
    rows, columns, own = codes
    units = [
        unit
        for unit in (
            None if rows is None else rows[labels.rows],
            None if columns is None else columns[labels.columns],
            own,
        )
        if unit is not None
    ]
    together = units[0] if len(units) == 1 else np.unique(np.stack(units, axis=1), axis=0, return_inverse=True)[1]
    order, folds = np.argsort(together, kind="stable"), []
    parts = np.split(order, np.flatnonzero(np.diff(together[order])) + 1)
    purpose = f"Leaving out {len(parts)} folds of {labels.size} observed pairs"
    check_memory(8 * len(parts) * labels.size, labels.values, purpose, "give groups that leave together, say five")
    for test in parts:
        left, one = np.zeros(labels.size, dtype=bool), int(test[0])
        for unit in units:
            left |= unit == unit[one]
        at = labels.rows[one], labels.columns[one]
        staying = [
            np.arange(length) if code is None else np.flatnonzero(code != code[place])
            for code, place, length in zip((rows, columns), at, labels.shape, strict=True)
        ]
        folds.append(PairFold(np.flatnonzero(~left), test, (staying[0], staying[1])))
    return folds


def _codes(given: Any, size: int, name: str) -> np.ndarray:
    """Return a number for each of `size` that are equal where labels are; each its own where there are none."""
    return np.arange(size) if given is None else group_codes(given, (size,), name)

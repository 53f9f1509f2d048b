"""What leaves together when predictions are held out.

What a hold-out prediction is asked of: a model of pairs, its labels, and when a solver stops.

Labels that are the only ones of their task: what is not predicted without them, and is not scored.

Where tasks are independent, each takes its constant from labels of its own. If all of these are left out together,
nothing is predicted for them, whatever the regularisation: NaN. This is the one place that knows what follows: such
labels count as not observed wherever predictions are scored or drawn, and that is said.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, double, namespace, to_numpy
from dyadlearn._state import Stored
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.pairing import Pairing
from dyadlearn.settings import Setting
from dyadlearn.solve.missing import Completion


@dataclass(frozen=True, eq=False)
class Units(Stored):
    """Numbers that are equal where something leaves together; None where everything leaves by itself.

    Attributes
    ----------
    instances, tasks : integer arrays of shape (m,) and (q,), or None
        In the settings that leave them out.
    cells : integer array of shape (m, q), of observed pairs (n,), or None
        In setting A.
    """

    instances: np.ndarray | None = None
    tasks: np.ndarray | None = None
    cells: np.ndarray | None = None

    @classmethod
    def of_folds(cls, tests: Iterable[np.ndarray], setting: Setting, shape: tuple[int, int]) -> Self:
        """Return the units of folds that predict every cell once, given masks (m, q) of what each of them predicts.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.holdout.units import Units
        >>> from dyadlearn.settings import Setting
        >>> first = np.array([[True, True], [False, False], [True, True]])
        >>> Units.of_folds([first, ~first], Setting.B, (3, 2)).instances
        array([0, 1, 0])
        """
        rows, columns, cells = (np.full(size, -1) for size in (*shape, shape))
        for number, test in enumerate(tests):
            if setting is Setting.A:
                cells[test] = number
            else:
                # A block of both sides: the last one of a row of blocks gives all of them its number.
                rows[test.any(axis=1)], columns[test.any(axis=0)] = number, number
        if setting is Setting.A:
            return cls(cells=cells)
        return cls(rows if setting.new_instance else None, columns if setting.new_task else None)

    def fit(self, shape: tuple[int, ...], cells: tuple[int, ...] | None = None) -> bool:
        """Tell whether these are units of a grid (m, q), with cells of the same shape or of another."""
        wanted = ((self.instances, shape[:1]), (self.tasks, shape[1:]), (self.cells, shape if cells is None else cells))
        return all(each is None or (each.dtype.kind in "iu" and each.shape == size) for each, size in wanted)


@dataclass(frozen=True, eq=False)
class Problem:
    """A fitted model as the hold-out formulas see it.

    Attributes
    ----------
    pairing : Pairing
        The model of pairs, on its sides and under its regularisation.
    Y : array of shape (m, q)
        NaN where not observed.
    weights : array of shape (m, q) or None
        Of the squared loss of each observed cell, positive there.
    tol, max_iter : float and int
        When an iterative solver stops, where labels are missing or weighted.
    """

    pairing: Pairing
    Y: Array
    weights: Array | None = None
    tol: float = 1e-8
    max_iter: int = 1000

    #: Whether labels are those of some pairs, and there is no grid: see `dyadlearn.holdout.observed.PairProblem`.
    is_listed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("Y", "weights"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, double(getattr(self, name)))

    @cached_property
    def is_complete(self) -> bool:
        """Whether every cell is observed and weighs the same, so that the closed forms apply."""
        xp = namespace(self.Y)
        return self.weights is None and not bool(xp.any(xp.isnan(self.Y)))

    @property
    def targets(self) -> Array:
        """What held-out predictions are compared with: the labels (m, q), NaN where not observed."""
        return self.Y

    def at(self, alpha: float, task_alpha: float | None = None) -> Problem:
        """Return the same problem under another regularisation."""
        posed = replace(self, pairing=self.pairing.at(alpha, task_alpha))
        if "is_complete" in self.__dict__:  # a grid is looked through once
            posed.__dict__["is_complete"] = self.is_complete
        return posed

    def complete(self, start: Completion | None = None) -> Completion:
        """Complete the labels, from the solution of a problem nearby."""
        return self.pairing.complete(self.Y, self.weights, start, tol=self.tol, max_iter=self.max_iter)


_REMEDY = "use fit_intercept=False, or a model that knows tasks"


def scored_labels(
    problem: Problem, held_out: Array, setting: Setting, *, quiet: bool = False, stacklevel: int = 2
) -> Array:
    """Return the labels that held-out predictions are compared with: those that there is a prediction for.

    Parameters
    ----------
    problem : Problem or PairProblem
    held_out : array of shape (m, q), or (n,) of observed pairs
    setting : Setting
        For messages.
    quiet : bool, default=False
        Whether it is said elsewhere that labels are not scored.
    stacklevel : int, default=2
        Of the warning, as seen from here.

    Returns
    -------
    array of the same shape
        NaN where not observed, or not predicted for want of another label of the task.

    Raises
    ------
    ValueError
        If no label has a prediction.
    """
    lone = _lone(problem, held_out)
    if not lone.any():
        return problem.targets
    if np.array_equal(lone, ~np.isnan(to_numpy(problem.Y))):
        raise ValueError(
            f"Setting {setting.value} leaves out all labels of every task, of which none is left to take its constant "
            f"from: give more labels of a task, {_REMEDY}."
        )
    if not quiet:
        warn_of_lone(lone, problem.Y, setting, "they are not scored", stacklevel + 1)
    xp = namespace(problem.Y)
    return xp.where(as_array_of(lone, problem.Y), xp.full_like(problem.Y, float("nan")), problem.Y)


def warn_of_lone_labels(problem: Problem, held_out: Array, setting: Setting, stacklevel: int = 2) -> None:
    """Say which labels have no held-out prediction (m, q), if there are any."""
    warn_of_lone(_lone(problem, held_out), problem.Y, setting, "their predictions are NaN", stacklevel + 1)


def warn_of_tasks_without_labels(problem: Problem, stacklevel: int = 2) -> None:
    """Say which tasks have no label, where nothing is predicted for them."""
    if not problem.pairing.has_task_constants:
        return
    warn_of_unlabelled(np.isnan(to_numpy(problem.Y)).all(axis=0), stacklevel + 1)


def warn_of_unlabelled(without: np.ndarray, stacklevel: int = 2) -> None:
    """Say which tasks (q,) have no label and nothing is predicted for, if there are any."""
    if without.any():
        warnings.warn(
            f"{np.count_nonzero(without)} of {without.size} tasks (positions {_shown(without)}) have no label to take "
            f"their constant from: their predictions are NaN. Leave them out, {_REMEDY}.",
            NoLabelWarning,
            stacklevel=stacklevel + 1,
        )


def _lone(problem: Problem, held_out: Array) -> np.ndarray:
    """Tell which observed labels (m, q) are not predicted for want of another label of their task."""
    if not problem.pairing.has_task_constants:
        return np.zeros(tuple(problem.targets.shape), dtype=bool)
    return np.asarray(np.isnan(to_numpy(held_out)) & ~np.isnan(to_numpy(problem.Y)))


def warn_of_lone(lone: np.ndarray, Y: Array, setting: Setting, so: str, stacklevel: int = 2) -> None:
    """Say which labels (m, q) are the only ones of their tasks and what follows, if there are any."""
    if not lone.any():
        return
    observed = np.count_nonzero(~np.isnan(to_numpy(Y)))
    warnings.warn(
        f"In setting {setting.value}, {np.count_nonzero(lone)} of {observed} labels leave no other label of their task "
        f"(positions {_shown(np.any(lone, axis=0))}) to take its constant from: {so}. Give more labels of these tasks, "
        f"{_REMEDY}.",
        NoLabelWarning,
        stacklevel=stacklevel + 1,
    )


def _shown(tasks: np.ndarray) -> str:
    places = np.flatnonzero(tasks)
    return ", ".join(map(str, places[:5])) + (", …" if places.size > 5 else "")

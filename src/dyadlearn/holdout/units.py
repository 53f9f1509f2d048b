"""Problem (a model with its labels) and units (pairs, instances or tasks that are left out together).

Where tasks are independent and have intercepts, the only label of a task has no hold-out
prediction: the intercept of a task is estimated from its labels, and the prediction of a task
without labels is NaN. Such a label counts as missing in scores and plots, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np

from dyadlearn._array import Array, array_bytes, as_array_of, namespace, to_numpy
from dyadlearn._codes import group_codes
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._tables import shown
from dyadlearn.exceptions import NoLabelWarning
from dyadlearn.labels import Labels
from dyadlearn.pairing import Pairing
from dyadlearn.pairing.base import divided, operators_of
from dyadlearn.pairing.incomplete import complete_labels
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.settings import GROUP_NAMES, Groups, Setting
from dyadlearn.solve.conjugate_gradients import warn_unless_converged
from dyadlearn.solve.factor import CellsFactor
from dyadlearn.solve.missing import Completion
from dyadlearn.solve.observed import (
    ObservedSolution,
    ObservedSystem,
    factor_of,
    solve_by_directions,
    solve_crossed,
    solve_pairs,
)
from dyadlearn.solve.operators import GridOperators


@dataclass(frozen=True, eq=False)
class Units(Stored):
    """Fold of each instance, task or label, as integer codes; None means leave-one-out.

    Units are created from groups, from folds or from `cv`.

    Attributes
    ----------
    sides : tuple of integer arrays of shape (m,) and (q,), or None
        Code of each instance and of each task; None also in settings that do not leave them out.
    cells : integer array of the shape of the labels' values, or None
        Code of each label, in setting A; -1 for labels that are never tested.
    strict : bool
        Whether only pairs are scored whose setting is that of the hold-out, see
        `dyadlearn.holdout.actual`.
    """

    sides: tuple[np.ndarray | None, ...] = (None, None)
    cells: np.ndarray | None = None
    strict: bool = False

    @classmethod
    def of_groups(
        cls,
        labels: Labels,
        setting: Setting,
        groups: Groups = (None, None),
        cells: Any = None,
    ) -> Self:
        """Return the units of groups; groups that the setting does not leave out are ignored.

        Parameters
        ----------
        labels : Labels
        setting : Setting
        groups : tuple of arrays of shape (m,) and (q,), or None
            Group of each instance and of each task; a group is left out together.
        cells : array of the shape of the labels' values, default=None
            Group of each label.
        """
        sides: list[np.ndarray | None] = [None] * len(labels.shape)
        for axis in setting.new:
            if groups[axis] is not None:
                shape = (labels.shape[axis],)
                sides[axis] = group_codes(groups[axis], shape, GROUP_NAMES[axis])
        codes = None
        if cells is not None and setting is Setting.A:
            codes = group_codes(cells, tuple(labels.values.shape), "cells")
        return cls(tuple(sides), codes)

    def of_edges(self, labels: Labels, setting: Setting) -> Self:
        """Return the units of a network: in setting A, both directions of an edge have one code."""
        if setting is not Setting.A:
            return self
        [codes] = self.of_labels(labels, setting)
        return replace(self, cells=np.triu(codes) + np.triu(codes, 1).T)

    @property
    def are_single(self) -> bool:
        """Whether each pair, instance or task is a unit (leave-one-out)."""
        return all(codes is None for codes in (*self.sides, self.cells))

    def of_labels(self, labels: Labels, setting: Setting) -> list[np.ndarray]:
        """Return the unit of each label: one code, or in setting D the codes of its instance and of its task.

        Returns
        -------
        list of one or two integer arrays of the shape of the labels' values

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.holdout.units import Units
        >>> from dyadlearn.labels import Labels
        >>> from dyadlearn.settings import Setting
        >>> cells = (np.array([0, 1, 2]), np.array([1, 0, 1]))
        >>> labels = Labels(cells, np.array([5.0, 3.0, 4.0]), (3, 2))
        >>> Units((np.array([7, 7, 8]), None)).of_labels(labels, Setting.B)
        [array([7, 7, 8])]
        """
        if setting is Setting.A:
            shape = tuple(labels.values.shape)
            return [np.arange(np.prod(shape)).reshape(shape) if self.cells is None else self.cells]
        return [labels.at(codes, axis) for axis, codes in self.of_sides(labels.shape, setting)]

    def of_sides(self, shape: tuple[int, ...], setting: Setting) -> list[tuple[int, np.ndarray]]:
        """Return the axis of each side that a setting leaves out, with the unit of each row or column."""
        sides = []
        for axis in setting.new:
            codes = self.sides[axis]
            sides.append((axis, np.arange(shape[axis]) if codes is None else codes))
        return sides

    def match(self, labels: Labels) -> bool:
        """Return whether the units are integers with the shape of some labels."""
        shapes = (labels.shape[:1], labels.shape[1:], tuple(labels.values.shape))
        if len(self.sides) != len(labels.shape):
            return False
        return all(
            codes is None or (codes.dtype.kind in "iu" and codes.shape == shape)
            for codes, shape in zip((*self.sides, self.cells), shapes, strict=True)
        )


@dataclass(frozen=True, eq=False)
class Problem:
    """A model of pairs with the labels it is fitted on.

    Attributes
    ----------
    pairing : Pairing
        The model of pairs, with its spectra and its regularisation.
    labels : Labels
        Labels in double precision.
    tol, max_iter : float and int
        Tolerance and maximum number of iterations of the solver for missing or weighted labels.
    unit : float
        Number by which `scaled` has divided the weights and the regularisation.
    """

    pairing: Pairing
    labels: Labels
    tol: float = 1e-8
    max_iter: int = 1000
    unit: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", self.labels.in_double())

    @classmethod
    def of(cls, pairing: Pairing, Y: Array, weights: Array | None = None, **stopping: Any) -> Self:
        """Return the problem of a grid of labels (m, q), NaN where not observed, with weights of the same shape."""
        return cls(pairing, Labels.of_grid(Y, weights), **stopping)

    @classmethod
    def scaled(cls, pairing: Pairing, labels: Labels, **stopping: Any) -> Self:
        """Return the problem with weights of at most one, in a unit that also divides the regularisation.

        A common factor of all weights divides the regularisation, see
        `dyadlearn.pairing.base.divided`. So weights of any size are solved as accurately as weights
        near one, and equal weights have the formulas of labels without weights. Models that cannot
        take up a common factor keep their weights.
        """
        labels = labels.in_double()
        unit = labels.largest_weight
        scaled = None if unit == 1.0 else divided(pairing, unit)
        if labels.weights is None or (unit != 1.0 and scaled is None):
            return cls(pairing, labels, **stopping)
        return cls(
            pairing if scaled is None else scaled, labels.reweighted(unit), unit=unit, **stopping
        )

    @property
    def Y(self) -> Array:  # noqa: N802
        """The labels as a grid (m, q), NaN where not observed; a list with missing pairs has none."""
        return self.labels.as_grid()

    @property
    def weights(self) -> Array | None:
        """Weights of the squared loss, of the shape of the labels' values, or None."""
        return self.labels.weights

    @property
    def alphas(self) -> dict[str, Any]:
        """Regularisations of the model by their names, for the weights that `scaled` was given."""
        return {name: alpha * self.unit for name, alpha in self.pairing.alphas.items()}

    def in_unit(self, alphas: Sequence[float]) -> list[float]:
        """Return regularisations in the unit of the weights."""
        return [alpha / self.unit for alpha in alphas]

    def at(self, *alphas: Any) -> Self:
        """Return the same problem with other regularisations, for the weights that `scaled` was given."""
        return replace(self, pairing=self.pairing.at(*(alpha / self.unit for alpha in alphas)))

    def with_labels(self, labels: Labels) -> Self:
        """Return the same model with other labels of the same grid, weighted as those that `scaled` was given."""
        return replace(self, labels=labels.in_double().reweighted(self.unit))

    def with_grid(self, Y: Array) -> Self:
        """Return the same model with other labels, a grid (m, q)."""
        return replace(self, labels=Labels.of_grid(Y))

    def complete(self, start: Completion | None = None) -> Completion:
        """Complete a grid of labels; `start` is the solution of a similar problem."""
        return complete_labels(
            self.pairing, self.Y, self.weights, start, tol=self.tol, max_iter=self.max_iter
        )

    def system(self) -> ObservedSystem:
        """Return the equations of a list of labels; they hold a rotated copy of the features."""
        return ObservedSystem.of(self.pairing, self.labels)  # type: ignore[arg-type]

    def solve(self, start: Any = None) -> Completion | ObservedSolution | None:
        """Solve for missing or weighted labels, from the solution of a similar problem; return None for a full grid.

        Warns if the solver did not converge.
        """
        if self.labels.grid is not None:
            return None if self.labels.is_full else self.complete(start)
        operators = operators_of(self.pairing)
        solution = solve_by_directions(operators, self.labels)
        if solution is None:
            solution = solve_pairs(operators, self.labels, partial(self._factor, operators))
        if solution is not None:
            return solution
        stopping: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        solution = solve_crossed(operators, self.labels, **stopping)
        if solution is None:
            solution = self.system().solve(start, **stopping)
        if not solution.converged:
            factor = partial(self._factor, operators)
            dense = solve_pairs(operators, self.labels, factor, n_tried=solution.n_iter)
            if dense is not None:
                return dense
        warn_unless_converged(solution, self.tol)
        return solution

    def _factor(self, operators: GridOperators) -> CellsFactor:
        """Return the factor of the system of a list of pairs, which is remembered for explanations."""
        values = self.labels.values
        n_bytes = array_bytes(values, (self.labels.size, self.labels.size))
        compute = partial(factor_of, operators, self.labels)
        factor: CellsFactor = last_inverse.of(self, "factor", compute, n_bytes, values)
        return factor


_LACK = "have no label to estimate an intercept from"
_REMEDY = Message("use <fit_intercept=False>, or a model with task features")


def scored_labels(
    labels: Labels, held_out: Array, setting: Setting, *, quiet: bool = False, stacklevel: int = 2
) -> Array:
    """Return the labels to score: those that have a held-out prediction.

    Parameters
    ----------
    labels : Labels
    held_out : array of the shape of the labels' values
    setting : Setting
        Setting, for messages.
    quiet : bool, default=False
        Whether to suppress the warning about labels that are not scored.
    stacklevel : int, default=2
        Stack level of the warning, relative to this function.

    Returns
    -------
    array of the same shape
        Labels; NaN where a label is missing, or has no prediction, such as the only label of a
        task.

    Raises
    ------
    ValueError
        If no label has a prediction.
    """
    unpredicted = _unpredicted(labels, held_out)
    if not unpredicted.any():
        return labels.values
    if np.array_equal(unpredicted, labels.observed):
        raise ValueError(
            Message(
                "Setting {setting} leaves out the only label of every task, so that no task has a "
                "label left to estimate its intercept from: give more labels of a task, {remedy}.",
                setting=setting.value,
                remedy=_REMEDY,
            )
        )
    if not quiet:
        warn_of_only_labels(unpredicted, labels, setting, "they are not scored", stacklevel + 1)
    return namespace(labels.values).where(
        as_array_of(unpredicted, labels.values), float("nan"), labels.values
    )


def warn_of_unpredicted(labels: Labels, held_out: Array, setting: Setting) -> None:
    """Warn about labels without a held-out prediction."""
    warn_of_only_labels(
        _unpredicted(labels, held_out), labels, setting, "their predictions are NaN", 3
    )


def warn_of_unlabelled(
    without: np.ndarray, stacklevel: int = 2, lack: str = _LACK, remedy: str = _REMEDY
) -> None:
    """Warn about tasks without labels, given as a mask (q,), for which the prediction is NaN."""
    if without.any():
        tasks = np.flatnonzero(without).tolist()
        warnings.warn(
            Message(
                "{n_tasks} of {n_all} tasks (positions {tasks}) {lack}: their predictions are "
                "NaN. Leave them out, {remedy}.",
                n_tasks=len(tasks),
                n_all=without.size,
                tasks=shown(tasks),
                lack=lack,
                remedy=remedy,
            ),
            NoLabelWarning,
            stacklevel=stacklevel + 1,
        )


def _unpredicted(labels: Labels, held_out: Array) -> np.ndarray:
    """Return a mask of the observed labels without a prediction: each is the only one of its task."""
    missing = namespace(held_out).isnan(held_out)
    if not bool(namespace(held_out).any(missing)):
        return np.zeros(tuple(labels.values.shape), dtype=bool)
    return np.asarray(to_numpy(missing) & labels.observed)


def warn_of_only_labels(
    mask: np.ndarray, labels: Labels, setting: Setting, so: str, stacklevel: int = 2
) -> None:
    """Warn about labels that are the only ones of their tasks, given as a mask."""
    if not mask.any():
        return
    tasks = np.flatnonzero(np.any(mask, axis=0)).tolist()
    warnings.warn(
        Message(
            "In setting {setting}, {n_only} of {n_labels} labels are the only ones of their task "
            "(positions {tasks}), so that none is left to estimate its intercept from: {so}. Give "
            "more labels of these tasks, {remedy}.",
            setting=setting.value,
            n_only=np.count_nonzero(mask),
            n_labels=labels.size,
            tasks=shown(tasks),
            so=so,
            remedy=_REMEDY,
        ),
        NoLabelWarning,
        stacklevel=stacklevel + 1,
    )

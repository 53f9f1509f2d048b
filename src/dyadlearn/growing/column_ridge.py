r"""Two-step ridge regression that follows data whose labels have holes.

The first step learns every task from the instances that it is observed for, :math:`o_j`, and from nothing else:

.. math:: \mathbf{w}_j = (\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j},

with a constant about the means over :math:`o_j`, of the features and of the labels, so that a task has a constant of
its own, :math:`\bar y_{o_j}` at :math:`\bar{\boldsymbol\phi}_{o_j}`. The second step goes over the tasks that have a
label, with what the first one says of an instance for each of them, observed or not:

.. math:: \mathbf{W} = [\mathbf{w}_1, \ldots, \mathbf{w}_q]\,\boldsymbol\Psi\,
          (\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1} .

No label is made up. With complete labels all :math:`o_j` are the same and this is the model of
`dyadlearn.growing.two_step`. With holes it is not the one that the paper completes its labels for, in which tasks lend
each other labels through the second step before the first; it is two ridge regressions in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_rows, zeros
from dyadlearn.growing.columns import Columns, as_columns, check_told_apart, gather, join, join_tasks
from dyadlearn.growing.inverse import RidgeInverse
from dyadlearn.growing.statistics import Statistics, has_holes
from dyadlearn.growing.two_step import OnlineRidge, TwoSteps

__all__ = ["ColumnRidge", "by_columns", "in_places", "started", "with_rows", "with_tasks"]


@dataclass(frozen=True, eq=False)
class ColumnRidge(TwoSteps):
    r"""Statistics of each task, what the first step found in them, and the inverse of the tasks.

    Attributes
    ----------
    statistics : Columns
    alpha : float
        :math:`\lambda_d`.
    solver : {"auto", "woodbury", "cholesky"}
        For the tasks; every task is solved by a factorisation of its own.
    task_inverse : RidgeInverse or None
        Of the tasks that have a label; None where they have no features.
    solved : array of shape (d, q) or None
        What the first step found before the last changes.
    stale : truth values of shape (q,) or None
        The tasks that have changed since.
    is_told : bool
        Whether the user has been warned that the regularisation of the first step is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.column_ridge import ColumnRidge
    >>> from dyadlearn.growing.columns import gather
    >>> X, Y = np.array([[1.0], [2.0]]), np.array([[2.0, np.nan], [4.0, 5.0]])
    >>> ColumnRidge.start(gather(X, Y), alpha=0.0).coefficients
    array([[2. , 2.5]])
    """

    statistics: Columns
    alpha: float
    solver: str = "auto"
    task_inverse: RidgeInverse | None = None
    solved: Array | None = None
    stale: np.ndarray | None = None
    is_told: bool = False

    takes_holes: ClassVar[bool] = True
    _kept: ClassVar[tuple[str, ...]] = ("weights", "coefficients")
    _shapes: ClassVar[Mapping[str, str]] = {
        "statistics.gram": "d d",
        "solved": "d q",
        "weights": "d q",
        "task_inverse.gram": "r r",
        "statistics.task_gram": "r r",
        "coefficients": "n_coefficients statistics.width",
    }

    def _fits(self) -> bool:
        q, known = self.statistics.n_tasks, self.statistics
        wide = all(found is None or found.shape[1] == q for found in (self.solved, vars(self).get("weights")))
        return (
            wide
            and (self.task_inverse is None) == (known.tasks is None)
            and (self.solved is None) == (self.stale is None)
            and (self.stale is None or (self.stale.dtype == bool and self.stale.shape == (q,)))
        )

    @classmethod
    def start(cls, statistics: Columns, alpha: float, task_alpha: float = 1.0, *, solver: str = "auto") -> ColumnRidge:
        r"""Return the model of given statistics; arguments as in `OnlineRidge.start`."""
        return cls(statistics, alpha, solver, _task_inverse(statistics, task_alpha, solver))

    @cached_property
    def weights(self) -> Array:
        """What the first step finds for each task, shape (d, q); zero for a task without a label."""
        known, pieces, told = self.statistics, [], self.is_told
        changed = np.full(known.n_tasks, True) if self.stale is None else self.stale
        for group, own in zip(known.groups, known.members, strict=True):
            if changed[own[0]]:
                inverse = RidgeInverse(group.gram, group.n_rows, self.alpha, "cholesky")
                inverse = replace(inverse, rounding=group.rounding, is_told=told)
                pieces.append((own, inverse.solve(group.cross).T))
                told = inverse.has_told
        vars(self)["_has_told"] = told
        return in_places(pieces, None if self.solved is None else self.solved.T).T

    @property
    def levels(self) -> Array | None:
        """What the first step says of each task at the mean of all instances (q,); NaN without a label.

        None without a constant.
        """
        known = self.statistics
        if known.mean is None:
            return None
        xp = namespace(known.gram)
        means = in_places([(own, group.label_mean) for group, own in zip(known.groups, known.members, strict=True)])
        centres = xp.stack([group.mean for group in known.groups])
        steps = (known.mean[0, :] - centres[:, 0, :]) + (known.mean[1, :] - centres[:, 1, :])
        levels = means + xp.sum(take_rows(steps, known.group_of) * self.weights.T, axis=1)
        return xp.where(as_array_of(known.counts > 0, levels), levels, xp.full_like(levels, float("nan")))

    @cached_property
    def coefficients(self) -> Array:
        """W, as `TwoSteps` says; NaN where there is no label to take a constant from."""
        known, levels, half = self.statistics, self.levels, self.weights
        if known.tasks is None:
            return self._finished(half, levels, known.n_tasks)
        half, rows = take_rows(half.T, known.labelled).T, take_rows(known.task_rows, known.labelled)
        if levels is not None:
            levels = take_rows(levels, known.labelled) @ rows
            if not known.labelled.size:
                levels = levels + float("nan")
        return self._finished(half @ rows, levels, max(int(known.labelled.size), 1))

    @property
    def unpredicted(self) -> np.ndarray:
        """Which tasks (q,) nothing is predicted for: those that would take their own constant from a label."""
        known = self.statistics
        return known.counts == 0 if known.tasks is None and known.has_constant else super().unpredicted

    def digits_lost(self, after: Any) -> float:
        """Return how much of this model, once it has forgotten, is rounding."""
        return self.statistics.digits_lost(after.statistics, self.alpha)

    def with_rows(self, Phi: Array, Y: Array) -> ColumnRidge:
        """Return the model with instances (l, d) and their labels (l, q) learnt."""
        return self._joined(self._seen(Phi, Y), 1)

    def without_rows(self, Phi: Array, Y: Array) -> ColumnRidge:
        """Return the model with instances (l, d) and their labels (l, q) forgotten."""
        return self._joined(self._seen(Phi, Y), -1)

    def with_labels(self, Phi: Array, Y: Array, sign: int = 1) -> ColumnRidge:
        """Return the model with labels (l, q) of known instances (l, d) learnt, or with the sign −1 forgotten."""
        return self._joined(self._seen(Phi, Y), sign, instances=False)

    def with_tasks(self, found: Columns) -> ColumnRidge:
        """Return the model with tasks learnt, by their statistics."""
        known = join_tasks(self.statistics, found)
        old, new = self._so_far, np.full(found.n_tasks, True)
        if old is not None:
            more = zeros((int(known.gram.shape[0]), found.n_tasks), known.gram)
            old = (namespace(more).concat([old[0], more], axis=1), np.concatenate([old[1], new]))
        return self._changed(known, old)

    def without_tasks(self, positions: np.ndarray) -> ColumnRidge:
        """Return the model with tasks forgotten."""
        kept, old = np.delete(np.arange(self.statistics.n_tasks), positions), self._so_far
        if old is not None:
            old = (take_rows(old[0].T, kept).T, old[1][kept])
        return self._changed(self.statistics.without_tasks(positions), old)

    def with_alphas(self, alpha: float, task_alpha: float) -> ColumnRidge:
        """Return the model under other regularisations."""
        inverse = self.task_inverse
        if inverse is not None and task_alpha != inverse.alpha:
            inverse = inverse.with_alpha(task_alpha)
        if alpha != self.alpha:
            return ColumnRidge(self.statistics, alpha, self.solver, inverse)
        if inverse is self.task_inverse:
            return self  # with whatever it has computed
        return self._changed(self.statistics, self._so_far, inverse)

    def _seen(self, Phi: Array, Y: Array) -> Columns:
        return gather(Phi, Y, constant=self.statistics.has_constant)

    def _joined(self, seen: Columns, sign: int, *, instances: bool = True) -> ColumnRidge:
        old = self._so_far
        if old is not None:
            old = (old[0], old[1] | (seen.counts > 0))
        return self._changed(join(self.statistics, seen, sign, instances=instances), old)

    @property
    def _so_far(self) -> tuple[Array, np.ndarray] | None:
        """What the first step has found, and for which tasks it does not hold any more."""
        if "weights" in vars(self):
            return self.weights, np.full(self.statistics.n_tasks, False)
        return None if self.solved is None or self.stale is None else (self.solved, self.stale)

    def _changed(
        self, known: Columns, old: tuple[Array, np.ndarray] | None, inverse: RidgeInverse | None = None
    ) -> ColumnRidge:
        before, inverse = self.statistics, inverse or self.task_inverse
        same = known.tasks is before.tasks and np.array_equal(known.labelled, before.labelled)
        if inverse is not None and not same:
            inverse = _task_inverse(known, inverse.alpha, self.solver, inverse.has_told)
        told, (solved, stale) = vars(self).get("_has_told", self.is_told), old or (None, None)
        return ColumnRidge(known, self.alpha, self.solver, inverse, solved, stale, told)


def _task_inverse(known: Columns, task_alpha: float, solver: str, told: bool = False) -> RidgeInverse | None:
    """Return the inverse of the tasks that have a label."""
    if known.tasks is None:
        return None
    count = int(known.labelled.size)
    return RidgeInverse(known.task_gram, count, task_alpha, solver, n_new=count, is_told=told)


def in_places(pieces: Sequence[tuple[np.ndarray, Array]], old: Array | None = None) -> Array:
    """Return rows put in their places; those that no piece has are as they were in `old`, None if there are none."""
    if not pieces:
        assert old is not None
        return old
    places, parts = np.concatenate([own for own, _ in pieces]), [part for _, part in pieces]
    start = 0 if old is None else int(old.shape[0])
    order = np.arange(max(start, places.size))
    order[places] = start + np.arange(places.size)
    return take_rows(namespace(parts[0]).concat(parts if old is None else [old, *parts], axis=0), order)


def by_columns(model: Any) -> ColumnRidge:
    """Return a model that takes labels with holes; refuse where what is known of the tasks is mixed."""
    if model.takes_holes:
        taking: ColumnRidge = model
        return taking
    check_told_apart(model.statistics)
    task_alpha = 1.0 if model.task_inverse is None else model.task_inverse.alpha
    return ColumnRidge.start(as_columns(model.statistics), model.inverse.alpha, task_alpha, solver=model.inverse.solver)


def started(seen: Statistics | Columns, alpha: float, task_alpha: float, solver: str) -> OnlineRidge | ColumnRidge:
    """Return the model of given statistics, complete or with holes."""
    if isinstance(seen, Statistics):
        return OnlineRidge.start(seen, alpha, task_alpha, solver=solver)
    return ColumnRidge.start(seen, alpha, task_alpha, solver=solver)


def with_rows(model: OnlineRidge | ColumnRidge, Phi: Array, Y: Array) -> OnlineRidge | ColumnRidge:
    """Return a model with instances (l, d) and their labels (l, q) learnt, which from the first hole on takes holes."""
    return (by_columns(model) if has_holes(Y) else model).with_rows(Phi, Y)


def with_tasks(model: Any, found: Statistics | Columns) -> OnlineRidge | ColumnRidge:
    """Return a model with tasks learnt by their statistics, which from the first hole on takes holes."""
    if not model.takes_holes and isinstance(found, Statistics):
        complete: OnlineRidge = model.with_tasks(found.tasks, found.cross, found.label_mean)
        return complete
    return by_columns(model).with_tasks(as_columns(found))

r"""Two-step ridge regression that follows its data.

.. math:: \mathbf{W} = (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}

The statistics in the middle are those of `dyadlearn.growing.statistics`, the inverses those of
`dyadlearn.growing.inverse`. A change of instances touches the left inverse, a change of tasks the right one, and the
coefficients are computed when they are asked for.

With an unpenalised constant on each side both are about their means, and the constants beside them are the means of the
labels: of the features :math:`[\boldsymbol\phi-\bar{\boldsymbol\phi}, 1]` and :math:`[\boldsymbol\psi -
\bar{\boldsymbol\psi}, 1]` the coefficients are

.. math:: \begin{bmatrix}(\boldsymbol\Phi_c^\top\boldsymbol\Phi_c+\lambda_d\mathbf{I})^{-1}\boldsymbol\Phi_c^\top\\
          \mathbf{1}^\top/m\end{bmatrix} \mathbf{Y}
          \begin{bmatrix}\boldsymbol\Psi_c(\boldsymbol\Psi_c^\top\boldsymbol\Psi_c+\lambda_t\mathbf{I})^{-1} &
          \mathbf{1}/q\end{bmatrix} .

Where labels are missing, the first step learns every task from the instances :math:`o_j` that it is observed for,

.. math:: \mathbf{w}_j = (\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j},

with a constant about the means over :math:`o_j`, so that a task has a constant of its own, :math:`\bar y_{o_j}` at
:math:`\bar{\boldsymbol\phi}_{o_j}`. The second step goes over the tasks that have a label, with what the first one says
of an instance for each of them, observed or not:

.. math:: \mathbf{W} = [\mathbf{w}_1, \ldots, \mathbf{w}_q]\,\boldsymbol\Psi\,
          (\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1} .

No label is made up. With complete labels all :math:`o_j` are the same and this is the model above. With missing labels
it is not the one that the paper completes its labels for, in which tasks lend each other labels through the second step
before the first; it is two ridge regressions in a row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from dyadlearn._array import Array, as_array_of, double, namespace, take_rows, to_numpy, zeros
from dyadlearn._means import value, with_constants
from dyadlearn._state import Stored
from dyadlearn.growing.inverse import RidgeInverse
from dyadlearn.growing.statistics import Statistics, merge


@dataclass(frozen=True, eq=False)
class OnlineRidge(Stored):
    r"""Statistics and the inverses of both sides; every change is a new object.

    Attributes
    ----------
    statistics : Statistics
    inverse : RidgeInverse
        Of all instances. It solves the first step while labels are complete; where some are missing, every group is
        solved by a factorisation of its own, with the same regularisation.
    task_inverse : RidgeInverse or None
        Of the tasks that have a label; None where tasks have no features.
    solved : array of shape (d, q) or None
        What the first step found for each task where labels are missing; NaN for tasks that have changed since.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.two_step import OnlineRidge
    >>> from dyadlearn.growing.statistics import collect
    >>> X, Y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[2.0], [5.0]])
    >>> model = OnlineRidge.start(collect(X[:1], Y[:1]), alpha=1.0)
    >>> model.with_rows(X[1:], Y[1:]).coefficients
    array([[1.],
           [2.]])
    >>> X, Y = np.array([[1.0], [2.0]]), np.array([[2.0, np.nan], [4.0, 5.0]])
    >>> OnlineRidge.start(collect(X, Y), alpha=0.0).coefficients
    array([[2. , 2.5]])
    """

    statistics: Statistics
    inverse: RidgeInverse
    task_inverse: RidgeInverse | None = None
    solved: Array | None = None

    _kept: ClassVar[tuple[str, ...]] = ("weights", "coefficients")
    _shapes: ClassVar[Mapping[str, str]] = {
        "statistics.gram": "d d",
        "inverse.gram": "d d",
        "statistics.task_sums.gram": "r r",
        "task_inverse.gram": "r r",
        "solved": "d statistics.n_tasks",
        "weights": "d statistics.n_tasks",
        "coefficients": "n_coefficients statistics.width",
    }

    def _fits(self) -> bool:
        return (self.task_inverse is None) == (self.statistics.tasks is None)

    @classmethod
    def start(
        cls, statistics: Statistics, alpha: float, task_alpha: float = 1.0, *, solver: str = "auto"
    ) -> OnlineRidge:
        r"""Return the model of given statistics.

        Parameters
        ----------
        statistics : Statistics
        alpha, task_alpha : float
            :math:`\lambda_d` and :math:`\lambda_t`.
        solver : {"auto", "woodbury", "cholesky"}

        Returns
        -------
        OnlineRidge
        """
        n, rounding = statistics.n_rows, statistics.everyone.rounding
        inverse = RidgeInverse(statistics.gram, n, alpha, solver, n_new=n, rounding=rounding)
        sums = statistics.task_sums
        if sums is None:
            return cls(statistics, inverse)
        return cls(statistics, inverse, RidgeInverse(sums.gram, sums.n_rows, task_alpha, solver, n_new=sums.n_rows))

    # Coefficients ------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> Array:
        """What the first step finds for each task where labels are missing (d, q); zero for a task without a label."""
        known, pieces = self.statistics, []
        stale = np.full(known.n_tasks, True) if self.solved is None else np.isnan(to_numpy(self.solved[0, :]))
        for group, own in zip(known.groups, known.members, strict=True):
            if stale[own[0]]:
                inverse = replace(self.inverse.of(group.gram, group.n_rows, group.rounding), solver="cholesky")
                pieces.append((own, inverse.solve(group.cross).T))
                self.inverse.note_told(inverse.has_told)
        return in_places(pieces, None if self.solved is None else self.solved.T).T

    @property
    def levels(self) -> Array | None:
        """What the first step says of each task at the mean of all instances (q,) where labels are missing.

        NaN for a task without a label; None without a constant.
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
        """W of shape (d, r), without features of the tasks (d, q).

        With a constant they are those of `rows` and of the `task_rows` of the statistics, shape (d + 2, r + 1) or
        (d + 2, q): `dyadlearn._means.with_constants` says what the last two rows are. They are NaN where there is no
        label to take a constant from.
        """
        known, tasks = self.statistics, self.task_inverse
        if known.is_complete:
            half, level = self.inverse.solve(known.over_tasks(known.groups[0].cross)), known.groups[0].label_mean
        else:
            half, level = known.over_tasks(self.weights), self.levels
        if level is None:
            return half if tasks is None else tasks.solve(half.T).T
        xp, n_tasks = namespace(half), int(known.labelled.size)
        level = known.over_tasks(level[None, :])
        half = xp.concat([half, level if n_tasks else level + float("nan")], axis=0)
        if tasks is not None:
            half = xp.concat([tasks.solve(half[:, :-1].T).T, half[:, -1:] / max(n_tasks, 1)], axis=1)
        return xp.concat([half, -value(known.mean)[None, :] @ half[:-1, :]], axis=0)

    @property
    def n_coefficients(self) -> int:
        """Number of rows of `coefficients`: d, with a constant d + 2."""
        return int(self.statistics.gram.shape[0]) + 2 * int(self.statistics.has_constant)

    @property
    def effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        r"""Coefficients of features as they come: of interactions, of instances and of tasks alone, and constants.

        Without features of the tasks there are interactions (d, q) and constants (q,), else they have shapes (d, r),
        (d,), (r,) and (1,). Without a constant there are interactions alone.
        """
        found, known = self.coefficients, self.statistics
        if known.mean is None:
            return found, None, None, None
        last = found[-2, :] + found[-1, :]
        if known.task_mean is None:
            return found[:-2, :], None, None, last
        interactions, means = found[:-2, :-1], value(known.task_mean)
        instances = found[:-2, -1] - interactions @ means
        return interactions, instances, last[:-1], last[-1:] - last[:-1] @ means

    def rows(self, Phi: Array) -> Array:
        """Return what multiplies the coefficients of instances: they themselves (l, d), with a constant (l, d + 2)."""
        mean = self.statistics.mean
        return double(Phi) if mean is None else with_constants(double(Phi), mean)

    @property
    def unpredicted(self) -> np.ndarray:
        """Which tasks (q,) nothing is predicted for: those that would take their own constant from a label."""
        known = self.statistics
        if known.is_complete or known.tasks is not None or not known.has_constant:
            return np.zeros(known.n_tasks, dtype=bool)
        without: np.ndarray = known.counts == 0
        return without

    def digits_lost(self, after: OnlineRidge) -> float:
        """Return how much of this model, once it has forgotten, is rounding."""
        return self.statistics.digits_lost(after.statistics, self.inverse.alpha)

    # Changes -----------------------------------------------------------------------------------------

    def with_rows(self, Phi: Array, Y: Array, sign: int = 1, *, instances: bool = True) -> OnlineRidge:
        """Return the model with rows learnt, or with the sign −1 forgotten.

        Parameters
        ----------
        Phi : array or sparse matrix of shape (l, d)
        Y : array or sparse matrix of shape (l, q)
            NaN where missing.
        sign : int, default=1
        instances : bool, default=True
            Whether the instances come and go too. Otherwise they are known, and labels of them come or go in a model
            whose labels are not complete.
        """
        before, seen = self.statistics, self.statistics.of_rows(Phi, Y)
        known = merge(before, seen, sign, instances=instances)
        if not known.is_complete:
            return self._changed(known, self._solved_but(seen))
        inverse = self.inverse.with_rows(known.gram, Phi, sign, before.mean, known.groups[0].rounding)
        return replace(self, statistics=known, inverse=inverse)

    def without_rows(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return the model with instances (l, d) and their labels (l, q) forgotten."""
        return self.with_rows(Phi, Y, -1)

    def with_tasks(self, found: Statistics) -> OnlineRidge:
        """Return the model with tasks learnt, by their statistics."""
        known, solved = self.statistics.with_tasks(found), self._so_far
        if known.is_complete:
            return self._tasks_changed(known, found.tasks, 1)
        if solved is not None:
            new = zeros((int(solved.shape[0]), found.n_tasks), solved) + float("nan")
            solved = namespace(solved).concat([solved, new], axis=1)
        return self._changed(known, solved)

    def without_tasks(self, positions: np.ndarray, gone: Statistics | None = None) -> OnlineRidge:
        """Return the model with tasks forgotten, whose statistics are needed where tasks are not told apart."""
        before, solved = self.statistics, self._so_far
        known = before.without_tasks(positions, gone)
        if known.is_complete:
            return self._tasks_changed(known, None if before.tasks is None else take_rows(before.tasks, positions), -1)
        if solved is not None:
            solved = take_rows(solved.T, np.delete(np.arange(before.n_tasks), positions)).T
        return self._changed(known, solved)

    def with_alphas(self, alpha: float, task_alpha: float) -> OnlineRidge:
        """Return the model under other regularisations, by eigendecompositions where they are known."""
        inverse, task_inverse, solved = self.inverse, self.task_inverse, self._so_far
        if alpha != inverse.alpha:
            inverse, solved = inverse.with_alpha(alpha), None
        if task_inverse is not None and task_alpha != task_inverse.alpha:
            task_inverse = task_inverse.with_alpha(task_alpha)
        if inverse is self.inverse and task_inverse is self.task_inverse:
            return self  # with whatever it has computed
        return OnlineRidge(self.statistics, inverse, task_inverse, solved)

    @property
    def _so_far(self) -> Array | None:
        """What the first step has found for the tasks of groups (d, q), NaN where it does not hold any more."""
        return self.weights if "weights" in vars(self) else self.solved

    def _solved_but(self, seen: Statistics) -> Array | None:
        """Return what the first step has found, NaN for tasks that other statistics have a label of."""
        solved = self._so_far
        if solved is None:
            return None
        xp = namespace(solved)
        return xp.where(as_array_of(seen.counts > 0, solved), xp.full_like(solved, float("nan")), solved)

    def _changed(self, known: Statistics, solved: Array | None) -> OnlineRidge:
        """Return the model of other statistics whose labels are not complete."""
        before, inverse, task_inverse = self.statistics, self.inverse, self.task_inverse
        sums = known.task_sums
        if task_inverse is not None and sums is not None and sums is not before.task_sums:
            task_inverse = task_inverse.of(sums.gram, sums.n_rows)
        inverse = inverse.of(known.gram, known.n_rows, known.everyone.rounding)
        return OnlineRidge(known, inverse, task_inverse, solved)

    def _tasks_changed(self, known: Statistics, tasks: Array | None, sign: int) -> OnlineRidge:
        """Return the model of complete labels with some tasks, by their features, learnt or forgotten."""
        inverse = self.task_inverse
        if inverse is not None and known.task_sums is not None:
            inverse = inverse.with_rows(known.task_sums.gram, tasks, sign, self.statistics.task_mean)
        return replace(self, statistics=known, task_inverse=inverse)


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

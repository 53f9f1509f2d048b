r"""Two-step ridge regression with updates, from sufficient statistics.

.. math:: \mathbf{W} = (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}

The statistics are those of `dyadlearn.growing.statistics`, the inverses those of `dyadlearn.growing.inverse`. The
coefficients are computed when they are asked for, so any number of changes between two questions costs one solution.

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

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from dyadlearn._array import Array, as_array_of, double, namespace, take_rows
from dyadlearn._means import value, with_constants
from dyadlearn._state import Stored
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.growing.statistics import Group, Statistics, collect, merge


@dataclass(frozen=True, eq=False)
class OnlineRidge(Stored):
    r"""Statistics and the regularisation of both sides; every change is a new object.

    Attributes
    ----------
    statistics : Statistics
    alpha, task_alpha : float
        :math:`\lambda_d` and :math:`\lambda_t`.
    is_warned : bool
        Whether the user has been warned that few digits are left.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.two_step import OnlineRidge
    >>> from dyadlearn.growing.statistics import collect
    >>> X, Y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[2.0], [5.0]])
    >>> model = OnlineRidge(collect(X[:1], Y[:1]), alpha=1.0)
    >>> model.with_rows(X[1:], Y[1:]).coefficients
    array([[1.],
           [2.]])
    >>> X, Y = np.array([[1.0], [2.0]]), np.array([[2.0, np.nan], [4.0, 5.0]])
    >>> OnlineRidge(collect(X, Y), alpha=0.0).coefficients
    array([[2. , 2.5]])
    """

    statistics: Statistics
    alpha: float
    task_alpha: float = 1.0
    is_warned: bool = False

    _kept: ClassVar[tuple[str, ...]] = ("coefficients",)
    _shapes: ClassVar[Mapping[str, str]] = {"coefficients": "n_coefficients statistics.width"}

    # Coefficients ------------------------------------------------------------------------------------

    @cached_property
    def weights(self) -> Array:
        """What the first step finds for each task where labels are missing (d, q); zero for a task without a label."""
        known, pieces = self.statistics, []
        for group, own in zip(known.groups, known.members, strict=True):
            solved, doubt = group.solved(self.alpha)
            self._warn(doubt)
            pieces.append((own, solved.T))
        return in_places(pieces).T

    def _solve(self, group: Group, alpha: float, B: Array) -> Array:
        """Return the regularised inverse of the Gram matrix of a group times B (d, p)."""
        inverse = group.inverse(alpha)
        self._warn(inverse.doubt)
        return inverse.solve(B)

    def _warn(self, doubt: str | None) -> None:
        """Warn the user of few digits, unless that was done before."""
        if doubt is not None and not self.is_warned:
            warnings.warn(doubt, PrecisionWarning, stacklevel=4)
            vars(self)["is_warned"] = True

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
        known, tasks, first = self.statistics, self.statistics.task_sums, self.statistics.groups[0]
        if known.is_complete:
            half, level = self._solve(first, self.alpha, known.over_tasks(first.cross)), first.label_mean
        else:
            half, level = known.over_tasks(self.weights), self.levels
        if level is None:
            return half if tasks is None else self._solve(tasks, self.task_alpha, half.T).T
        xp, n_tasks = namespace(half), int(known.labelled.size)
        level = known.over_tasks(level[None, :])
        half = xp.concat([half, level if n_tasks else level + float("nan")], axis=0)
        if tasks is not None:
            solved = self._solve(tasks, self.task_alpha, half[:, :-1].T).T
            half = xp.concat([solved, half[:, -1:] / max(n_tasks, 1)], axis=1)
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
        """Mask of the tasks (q,) without predictions: they have a separate intercept and no label."""
        return np.asarray((self.statistics.counts == 0) & self.statistics.has_own_constants)

    def digits_lost(self, after: OnlineRidge) -> float:
        """Return the relative rounding error of a model after forgetting."""
        return self.statistics.digits_lost(after.statistics, self.alpha)

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
            Whether to learn or forget the instances too; False only adds or removes labels of known instances, in a
            model with missing labels.
        """
        seen = collect(Phi, Y, constant=self.statistics.has_constant)
        return self.of(merge(self.statistics, seen, sign, instances=instances))

    def of(self, statistics: Statistics) -> OnlineRidge:
        """Return the model of other statistics."""
        return replace(self, statistics=statistics)

    def with_alphas(self, alpha: float, task_alpha: float) -> OnlineRidge:
        """Return the model with other regularisations."""
        if (alpha, task_alpha) == (self.alpha, self.task_alpha):
            return self  # with whatever it has computed
        return replace(self, alpha=alpha, task_alpha=task_alpha)


def in_places(pieces: Sequence[tuple[np.ndarray, Array]], old: Array | None = None) -> Array:
    """Return rows put in their places; those that no piece has are as they were in `old`, None if there are none."""
    places, parts = np.concatenate([own for own, _ in pieces]), [part for _, part in pieces]
    start = 0 if old is None else int(old.shape[0])
    order = np.arange(max(start, places.size))
    order[places] = start + np.arange(places.size)
    return take_rows(namespace(parts[0]).concat(parts if old is None else [old, *parts], axis=0), order)

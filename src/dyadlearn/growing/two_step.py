r"""Two-step ridge regression with updates, from sufficient statistics.

.. math:: \mathbf{W} = (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}

The statistics are those of `dyadlearn.growing.statistics`, the inverses those of
`dyadlearn.growing.inverse`. The coefficients are computed when they are needed, so that several
updates before a prediction cost one solve.

With an unpenalised constant on each side, features are centred. The coefficients of the features
:math:`[\boldsymbol\phi-\bar{\boldsymbol\phi}, 1]` and :math:`[\boldsymbol\psi - \bar{\boldsymbol\psi}, 1]` are

.. math:: \begin{bmatrix}(\boldsymbol\Phi_c^\top\boldsymbol\Phi_c+\lambda_d\mathbf{I})^{-1}\boldsymbol\Phi_c^\top\\
          \mathbf{1}^\top/m\end{bmatrix} \mathbf{Y}
          \begin{bmatrix}\boldsymbol\Psi_c(\boldsymbol\Psi_c^\top\boldsymbol\Psi_c+\lambda_t\mathbf{I})^{-1}
          & \mathbf{1}/q\end{bmatrix} .

Where labels are missing, the first step fits each task j on the instances :math:`o_j` for which it
is observed,

.. math:: \mathbf{w}_j = (\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j},

with a constant relative to the means over :math:`o_j`, so that each task has a separate constant,
:math:`\bar y_{o_j}` at :math:`\bar{\boldsymbol\phi}_{o_j}`. The second step is a regression over
the tasks that have labels. Its targets are the first-step predictions of an instance for all of
these tasks, observed or not:

.. math:: \mathbf{W} = [\mathbf{w}_1, \ldots, \mathbf{w}_q]\,\boldsymbol\Psi\,
          (\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1} .

No label is imputed. With complete labels, all :math:`o_j` are equal and this is the model above.
With missing labels, the model consists of two successive ridge regressions. It differs from the
transductive model of the paper, which completes the labels through both steps.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from dyadlearn._array import Array, as_array_of, double, namespace, take_rows, zeros
from dyadlearn._means import difference, value, with_constants
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
        """First-step coefficients (d, q) of each task, if labels are missing; zero for a task without labels."""
        pieces = []
        for group in self.statistics.groups:
            coefficients, doubt = group.solved(self.alpha)
            self.warn(doubt)
            pieces.append(coefficients.T)
        return in_places(self.statistics.members, pieces).T

    def _solve(self, group: Group, alpha: float, B: Array) -> Array:
        """Return the regularised inverse of the Gram matrix of a group times B (d, p)."""
        inverse = group.inverse(alpha)
        self.warn(inverse.doubt)
        return inverse.solve(B)

    def warn(self, doubt: str | None) -> None:
        """Warn about inaccurate results, once for each model."""
        if doubt is not None and not self.is_warned:
            warnings.warn(doubt, PrecisionWarning, stacklevel=4)
            vars(self)["is_warned"] = True

    @property
    def levels(self) -> Array | None:
        """First-step prediction (q,) of each task at the mean of all instances, if labels are missing.

        NaN for a task without labels; None without a constant.
        """
        known = self.statistics
        if known.mean is None:
            return None
        xp = namespace(known.gram)
        means = in_places(known.members, [group.label_mean for group in known.groups])
        steps = xp.stack([difference(known.mean, group.mean) for group in known.groups])
        levels = means + xp.sum(take_rows(steps, known.group_of) * self.weights.T, axis=1)
        return xp.where(as_array_of(known.counts > 0, levels), levels, float("nan"))

    @cached_property
    def coefficients(self) -> Array:
        """W of shape (d, r); without features of the tasks (d, q).

        With a constant, the shape is (d + 2, r + 1) or (d + 2, q). Predictions are `rows` times
        these coefficients times the `task_rows` of the statistics;
        `dyadlearn._means.with_constants` describes the last two rows. They are NaN if there is no
        label to estimate a constant from.
        """
        known = self.statistics
        tasks = self.statistics.task_sums
        first = self.statistics.groups[0]
        if known.is_complete:
            half = self._solve(first, self.alpha, known.over_tasks(first.cross))
            level = first.label_mean
        else:
            half = known.over_tasks(self.weights)
            level = self.levels
        if level is None:
            if tasks is None:
                return half
            return self._solve(tasks, self.task_alpha, half.T).T
        xp = namespace(half)
        n_tasks = int(known.labelled.size)
        level = known.over_tasks(level[None, :])
        half = xp.concat([half, level if n_tasks else level + float("nan")], axis=0)
        W = zeros((self.n_coefficients, known.width), half)
        if tasks is None:
            W[:-1, :] = half
        else:
            W[:-1, :-1] = self._solve(tasks, self.task_alpha, half[:, :-1].T).T
            W[:-1, -1] = half[:, -1] / max(n_tasks, 1)
        W[-1, :] = -value(known.mean) @ W[:-2, :]
        return W

    @property
    def n_coefficients(self) -> int:
        """Number of rows of `coefficients`: d, with a constant d + 2."""
        return int(self.statistics.gram.shape[0]) + 2 * int(self.statistics.has_constant)

    @property
    def effects(self) -> tuple[Array, Array | None, Array | None, Array | None]:
        r"""Coefficients of uncentred features: interactions, effects of instances, effects of tasks, and constants.

        Their shapes are (d, r), (d,), (r,) and (1,). Without features of the tasks there are only
        interactions (d, q) and constants (q,), without a constant only interactions.
        """
        W = self.coefficients
        known = self.statistics
        if known.mean is None:
            return W, None, None, None
        last = W[-2, :] + W[-1, :]
        if known.task_mean is None:
            return W[:-2, :], None, None, last
        interactions = W[:-2, :-1]
        means = value(known.task_mean)
        instances = W[:-2, -1] - interactions @ means
        return interactions, instances, last[:-1], last[-1:] - last[:-1] @ means

    def rows(self, Phi: Array) -> Array:
        """Return the rows of instances by which coefficients are multiplied: (l, d), with a constant (l, d + 2)."""
        mean = self.statistics.mean
        if mean is None:
            return double(Phi)
        return with_constants(double(Phi), mean)

    @property
    def unpredicted(self) -> np.ndarray:
        """Mask of the tasks (q,) without predictions: they have a separate intercept and no label."""
        return np.asarray((self.statistics.counts == 0) & self.statistics.has_own_constants)

    def digits_lost(self, after: OnlineRidge) -> float:
        """Return the relative rounding error of a model after forgetting."""
        return self.statistics.digits_lost(after.statistics, self.alpha)

    # Changes -----------------------------------------------------------------------------------------

    def with_rows(
        self, Phi: Array, Y: Array, sign: int = 1, *, instances: bool = True
    ) -> OnlineRidge:
        """Return the model with rows learnt, or with the sign −1 forgotten.

        Parameters
        ----------
        Phi : array or sparse matrix of shape (l, d)
        Y : array or sparse matrix of shape (l, q)
            NaN where missing.
        sign : int, default=1
        instances : bool, default=True
            Whether to learn or forget the instances too; False only adds or removes labels of known
            instances, in a model with missing labels.
        """
        seen = collect(Phi, Y, constant=self.statistics.has_constant)
        return self.of(merge(self.statistics, seen, sign, instances=instances))

    def of(self, statistics: Statistics) -> OnlineRidge:
        """Return the model of other statistics."""
        return replace(self, statistics=statistics)

    def with_alphas(self, alphas: tuple[float, float]) -> OnlineRidge:
        """Return the model with other regularisations, of the instances and of the tasks."""
        if alphas == (self.alpha, self.task_alpha):
            return self  # keeps its cached coefficients
        alpha, task_alpha = alphas
        return replace(self, alpha=alpha, task_alpha=task_alpha)


def in_places(
    places: Sequence[np.ndarray], parts: Sequence[Array], old: Array | None = None
) -> Array:
    """Return an array whose rows at `places[i]` are `parts[i]`; the other rows are those of `old`, if there are any."""
    at = np.concatenate(places)
    n_old = 0
    if old is not None:
        n_old = int(old.shape[0])
        parts = [old, *parts]
    order = np.arange(max(n_old, at.size))
    order[at] = n_old + np.arange(at.size)
    return take_rows(namespace(parts[0]).concat([*parts], axis=0), order)

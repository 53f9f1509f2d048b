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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import Array, double, namespace, take_rows
from dyadlearn._means import value, with_constants
from dyadlearn._state import Stored
from dyadlearn.growing.inverse import RidgeInverse
from dyadlearn.growing.statistics import Statistics, add_rows, add_tasks, alike, digits_lost, remove_rows, remove_tasks


class TwoSteps(Stored, stored=False):
    """What is common to models whose labels are complete and to those whose labels have holes.

    Attributes
    ----------
    statistics : Statistics or Columns
    task_inverse : RidgeInverse or None
        Of the tasks; None where they have no features.
    """

    statistics: Any
    task_inverse: RidgeInverse | None

    #: W of shape (d, r), without features of the tasks (d, q). With a constant they are those of `rows` and of the
    #: `task_rows` of the statistics, shape (d + 2, r + 1) or (d + 2, q): `dyadlearn._means.with_constants` says what
    #: the last two rows are.
    coefficients: Any

    #: Whether labels may have holes.
    takes_holes: ClassVar[bool]

    @property
    def n_coefficients(self) -> int:
        """Number of rows of `coefficients`: d, with a constant d + 2."""
        return int(self.statistics.gram.shape[0]) + 2 * int(self.statistics.has_constant)

    def _finished(self, half: Array, level: Array | None, n_tasks: int) -> Array:
        """Return the coefficients, out of what the first step says of features of the tasks, or of tasks without any.

        Parameters
        ----------
        half : array of shape (d, r), with a constant (d, r + 1), or (d, q)
        level : array of as many columns, or None
            What the first step says at the mean of the instances; None without a constant.
        n_tasks : int
            How many tasks the second step goes over.
        """
        tasks = self.task_inverse
        if level is None:
            return half if tasks is None else tasks.solve(half.T).T
        xp = namespace(half)
        half = xp.concat([half, level[None, :]], axis=0)
        if tasks is not None:
            half = xp.concat([tasks.solve(half[:, :-1].T).T, half[:, -1:] / n_tasks], axis=1)
        return xp.concat([half, -value(self.statistics.mean)[None, :] @ half[:-1, :]], axis=0)

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
        """Return what multiplies the coefficients of instances (l, d), see `instance_rows`."""
        return instance_rows(Phi, self.statistics.mean)

    @property
    def unpredicted(self) -> np.ndarray:
        """Which tasks (q,) nothing is predicted for."""
        return np.zeros(self.statistics.n_tasks, dtype=bool)


@dataclass(frozen=True, eq=False)
class OnlineRidge(TwoSteps):
    r"""Statistics and the inverses of both sides; every change is a new object.

    Attributes
    ----------
    statistics : Statistics
    inverse : RidgeInverse
        Of the instances.
    task_inverse : RidgeInverse or None
        Of the tasks; None where they have no features.

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
    """

    statistics: Statistics
    inverse: RidgeInverse
    task_inverse: RidgeInverse | None = None

    takes_holes: ClassVar[bool] = False
    _kept: ClassVar[tuple[str, ...]] = ("coefficients",)
    _shapes: ClassVar[Mapping[str, str]] = {
        "statistics.gram": "d d",
        "inverse.gram": "d d",
        "statistics.task_gram": "r r",
        "task_inverse.gram": "r r",
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
        n, q = statistics.n_rows, statistics.n_tasks
        inverse = RidgeInverse(statistics.gram, n, alpha, solver, n_new=n, rounding=statistics.rounding)
        if statistics.tasks is None:
            return cls(statistics, inverse)
        return cls(statistics, inverse, RidgeInverse(statistics.task_gram, q, task_alpha, solver, n_new=q))

    @cached_property
    def coefficients(self) -> Array:
        """W, as `TwoSteps` says."""
        known = self.statistics
        level = known.level if known.has_constant else None
        return self._finished(self.inverse.solve(known.target), level, known.n_tasks)

    def digits_lost(self, after: Any) -> float:
        """Return how much of this model, once it has forgotten, is rounding: `dyadlearn.growing.statistics`."""
        return digits_lost(self.statistics, after.statistics, self.inverse.alpha)

    def with_rows(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return the model with instances (l, d) and their labels (l, q) learnt."""
        return self._rows_changed(add_rows(self.statistics, Phi, Y), Phi, 1)

    def without_rows(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return the model with instances (l, d) and their labels (l, q) forgotten."""
        return self._rows_changed(remove_rows(self.statistics, Phi, Y), Phi, -1)

    def _rows_changed(self, statistics: Statistics, Phi: Array, sign: int) -> OnlineRidge:
        inverse = self.inverse.with_rows(statistics.gram, Phi, sign, self.statistics.mean, statistics.rounding)
        return replace(self, statistics=statistics, inverse=inverse)

    def with_tasks(self, tasks: Array | None, cross: Array, label_mean: Array | None = None) -> OnlineRidge:
        """Return the model with tasks learnt: see `dyadlearn.growing.statistics.add_tasks`."""
        return self._tasks_changed(add_tasks(self.statistics, tasks, cross, label_mean), tasks, 1)

    def without_tasks(
        self, positions: np.ndarray, cross: Array | None = None, label_mean: Array | None = None
    ) -> OnlineRidge:
        """Return the model with tasks forgotten: see `dyadlearn.growing.statistics.remove_tasks`."""
        tasks = self.statistics.tasks
        gone = None if tasks is None else take_rows(tasks, positions)
        return self._tasks_changed(remove_tasks(self.statistics, positions, cross, label_mean), gone, -1)

    def _tasks_changed(self, statistics: Statistics, tasks: Array | None, sign: int) -> OnlineRidge:
        inverse = self.task_inverse
        if inverse is not None:
            inverse = inverse.with_rows(statistics.task_gram, tasks, sign, self.statistics.task_mean)
        return replace(self, statistics=statistics, task_inverse=inverse)

    def of_rows(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return the model of rows (l, d) and labels (l, q) alone, which tells its tasks apart."""
        task_alpha = 1.0 if self.task_inverse is None else self.task_inverse.alpha
        alone = alike(replace(self.statistics, per_task=True), Phi, Y)
        return OnlineRidge.start(alone, self.inverse.alpha, task_alpha)

    def with_alphas(self, alpha: float, task_alpha: float) -> OnlineRidge:
        """Return the model under other regularisations, from the eigendecompositions of the Gram matrices."""
        inverse, task_inverse = self.inverse, self.task_inverse
        if alpha != inverse.alpha:
            inverse = inverse.with_alpha(alpha)
        if task_inverse is not None and task_alpha != task_inverse.alpha:
            task_inverse = task_inverse.with_alpha(task_alpha)
        if inverse is self.inverse and task_inverse is self.task_inverse:
            return self  # with whatever it has computed
        return replace(self, inverse=inverse, task_inverse=task_inverse)


def instance_rows(Phi: Array, mean: Array | None) -> Array:
    """Return what multiplies the coefficients of instances: they themselves (l, d), with a constant (l, d + 2).

    Parameters
    ----------
    Phi : array or sparse matrix of shape (l, d)
    mean : array of shape (2, d) or None
        That of the statistics.

    Returns
    -------
    array or sparse matrix of shape (l, d) or (l, d + 2), in double precision
    """
    return double(Phi) if mean is None else with_constants(double(Phi), mean)

r"""Two-step ridge regression that follows its data.

.. math:: \mathbf{W} = (\boldsymbol\Phi^\top\boldsymbol\Phi+\lambda_d\mathbf{I})^{-1}\,
          \boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi\,(\boldsymbol\Psi^\top\boldsymbol\Psi+\lambda_t\mathbf{I})^{-1}

The statistics in the middle are those of `dyadlearn.growing.statistics`, the inverses those of
`dyadlearn.growing.inverse`. A change of instances touches the left inverse, a change of tasks the right one, and the
coefficients are computed when they are asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from dyadlearn._array import Array, dense, is_sparse, matmul, namespace, row_blocks, take_rows
from dyadlearn._state import Stored
from dyadlearn.growing.inverse import RidgeInverse
from dyadlearn.growing.statistics import Statistics, add_rows, add_tasks, collect, double, remove_rows, remove_tasks

__all__ = ["OnlineRidge"]


@dataclass(frozen=True, eq=False)
class OnlineRidge(Stored):
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

    _kept: ClassVar[tuple[str, ...]] = ("coefficients",)
    _shapes: ClassVar[Mapping[str, str]] = {
        "statistics.gram": "d d",
        "inverse.gram": "d d",
        "statistics.task_gram": "r r",
        "task_inverse.gram": "r r",
        "coefficients": "d statistics.width",
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
        inverse = RidgeInverse(statistics.gram, n, alpha, solver, n_new=n)
        if statistics.tasks is None:
            return cls(statistics, inverse)
        return cls(statistics, inverse, RidgeInverse(statistics.task_gram, q, task_alpha, solver, n_new=q))

    @cached_property
    def coefficients(self) -> Array:
        """W of shape (d, r), without features of the tasks (d, q)."""
        half = self.inverse.solve(self.statistics.target)
        return half if self.task_inverse is None else self.task_inverse.solve(half.T).T

    def squared_error(self, Phi: Array, Y: Array) -> float:
        r"""Return the squared error of predictions, summed over instances and tasks, without forming them all.

        With :math:`\mathbf{A} = \boldsymbol\Phi\mathbf{W}`,

        .. math:: \|\mathbf{A}\boldsymbol\Psi^\top - \mathbf{Y}\|^2 = \langle\mathbf{A}^\top\mathbf{A},
                  \boldsymbol\Psi^\top\boldsymbol\Psi\rangle - 2\langle\mathbf{A}, \mathbf{Y}\boldsymbol\Psi\rangle
                  + \|\mathbf{Y}\|^2 .

        Parameters
        ----------
        Phi : array or sparse matrix of shape (l, d)
        Y : array or sparse matrix of shape (l, q)

        Returns
        -------
        float
        """
        tasks = self.statistics.tasks
        A = matmul(double(Phi), self.coefficients)
        xp = namespace(A)
        if tasks is not None:
            stored = double(Y.data if is_sparse(Y) else Y)
            total = float(xp.sum(stored**2))
            own = float(xp.sum((A.T @ A) * self.statistics.task_gram))
            error = own - 2.0 * float(xp.sum(A * matmul(double(Y), tasks))) + total
            if error > 1e-9 * (own + total):  # else little but cancellation is left
                return error
        error = 0.0
        for rows in row_blocks(Y.shape[0], 16 * Y.shape[1]):
            found = A[rows, :] if tasks is None else A[rows, :] @ tasks.T
            error += float(xp.sum((found - dense(double(Y[rows, :]))) ** 2))
        return error

    def with_rows(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return the model with instances (l, d) and their labels (l, q) learnt."""
        return self._rows_changed(add_rows(self.statistics, Phi, Y), Phi, 1)

    def without_rows(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return the model with instances (l, d) and their labels (l, q) forgotten."""
        return self._rows_changed(remove_rows(self.statistics, Phi, Y), Phi, -1)

    def _rows_changed(self, statistics: Statistics, Phi: Array, sign: int) -> OnlineRidge:
        return replace(self, statistics=statistics, inverse=self.inverse.with_rows(statistics.gram, Phi, sign))

    def with_tasks(self, tasks: Array | None, cross: Array) -> OnlineRidge:
        """Return the model with tasks learnt: see `dyadlearn.growing.statistics.add_tasks`."""
        return self._tasks_changed(add_tasks(self.statistics, tasks, cross), tasks, 1)

    def without_tasks(self, positions: np.ndarray, cross: Array | None = None) -> OnlineRidge:
        """Return the model with tasks forgotten: see `dyadlearn.growing.statistics.remove_tasks`."""
        tasks = self.statistics.tasks
        gone = None if tasks is None else take_rows(tasks, positions)
        return self._tasks_changed(remove_tasks(self.statistics, positions, cross), gone, -1)

    def _tasks_changed(self, statistics: Statistics, tasks: Array | None, sign: int) -> OnlineRidge:
        inverse = None if self.task_inverse is None else self.task_inverse.with_rows(statistics.task_gram, tasks, sign)
        return replace(self, statistics=statistics, task_inverse=inverse)

    def telling_apart(self, Phi: Array, Y: Array) -> OnlineRidge:
        """Return a model that tells its tasks apart: this one, else that of rows (l, d) and labels (l, q) alone."""
        known, tasks = self.statistics, self.task_inverse
        if known.per_task or tasks is None:
            return self
        alone = collect(Phi, Y, known.tasks, task_gram=known.task_gram, per_task=True)
        return OnlineRidge.start(alone, self.inverse.alpha, tasks.alpha)

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

r"""Hold-out predictions for some of the rows that an online model has learnt.

The model keeps no rows, but its Gram matrix :math:`\boldsymbol\Phi^\top\boldsymbol\Phi =
\mathbf{V}\,\mathrm{diag}(\boldsymbol\sigma)\,\mathbf{V}^\top` knows what each of them weighs. A row
:math:`\boldsymbol\phi` that is given again has leverage and slack

.. math:: h = \sum_k \frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k+\lambda}, \qquad
          e = 1 - h = \sum_k \frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k}\frac{\lambda}{\sigma_k+\lambda}
              + \Bigl(1 - \sum_k\frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k}\Bigr),

and with them the formulas of `dyadlearn.holdout.two_step` give the predictions of the model that never saw it,
exactly, whatever else was learnt. To leave tasks out (C and D) the statistics must tell the tasks apart.

The squared error of setting B needs no predictions: in the eigenbasis of the tasks' Gram matrix with eigenvalues s, and
with :math:`\mathbf{D}` (l × r) the left-out predictions before the task step and :math:`\mathbf{T} =
\mathbf{Y}\boldsymbol\Psi`,

.. math:: \sum_j \frac{s_j\,\|\mathbf{d}_j\|^2}{(s_j+\lambda_t)^2} - 2\sum_j
          \frac{\mathbf{d}_j^\top\mathbf{t}_j}{s_j+\lambda_t} + \|\mathbf{Y}\|^2 .
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, epsilon, is_sparse, matmul, namespace, row_blocks, to_numpy, zeros
from dyadlearn.growing.statistics import double
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.settings import Setting
from dyadlearn.spectrum import leverage_error

__all__ = ["online_holdout", "online_squared_errors"]


def online_holdout(model: OnlineRidge, Phi: Array, Y: Array, setting: Setting) -> Array:
    """Predict the labels of learnt rows as if they had not been learnt.

    Parameters
    ----------
    model : OnlineRidge
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Rows that are among those the model has learnt, and their labels.
    setting : Setting
        What is left out for a cell; C and D need statistics per task, and features of the tasks.

    Returns
    -------
    array of shape (l, q)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.holdout import online_holdout
    >>> from dyadlearn.settings import Setting
    >>> from dyadlearn.growing.two_step import OnlineRidge
    >>> from dyadlearn.growing.statistics import collect
    >>> X, Y = np.array([[1.0], [2.0], [1.0]]), np.array([[1.0], [2.0], [4.0]])
    >>> model = OnlineRidge.start(collect(X, Y), alpha=1.0)
    >>> online_holdout(model, X[2:], Y[2:], Setting.B)  # (1·1 + 2·2) / (1 + 4 + λ)
    array([[0.83333333]])
    """
    left_out = _LeftOut(model, Phi, Y)
    task_alpha = 0.0 if model.task_inverse is None else model.task_inverse.alpha
    result = zeros((Y.shape[0], Y.shape[1]), model.statistics.gram)
    for rows, _, held_out in left_out.walk(setting, model.inverse.alpha, task_alpha):
        result[rows, :] = held_out
    return result


def online_squared_errors(
    model: OnlineRidge, Phi: Array, Y: Array, alphas: Sequence[float], task_alphas: Sequence[float], setting: Setting
) -> np.ndarray:
    """Return the mean squared error of hold-out predictions over all regularisations.

    Parameters
    ----------
    model, Phi, Y, setting : as in `online_holdout`
        The regularisation of `model` has no say.
    alphas, task_alphas : sequences of float

    Returns
    -------
    array of shape (n_alphas, n_task_alphas), without features of the tasks (n_alphas,)
    """
    left_out = _LeftOut(model, Phi, Y)
    with_tasks = model.task_inverse is not None
    errors = np.empty((len(alphas), len(task_alphas) if with_tasks else 1))
    for row, alpha in enumerate(alphas):
        if with_tasks and setting is Setting.B:
            errors[row], terms = left_out.new_instances(alpha, task_alphas)
            doubtful = errors[row] < 1e-9 * terms  # little but cancellation is left of the closed form
        else:
            doubtful = np.ones(errors.shape[1], dtype=bool)
        for column in np.flatnonzero(doubtful):
            task_alpha = task_alphas[int(column)] if with_tasks else 0.0
            errors[row, column] = sum(
                float(namespace(found).sum((found - labels) ** 2))
                for _, labels, found in left_out.walk(setting, alpha, task_alpha)
            )
    errors /= Y.shape[0] * Y.shape[1]
    return errors if with_tasks else errors[:, 0]


@dataclass(frozen=True, eq=False)
class _Weights:
    """Rows of one side in the eigenbasis of its Gram matrix: where leverage and slack come from.

    `projected` (l, k) holds the inner products of the rows with the eigenvectors; `n_rows` counts all rows of the side.
    """

    projected: Array
    values: Array
    n_rows: int

    @cached_property
    def squares(self) -> Array:
        return self.projected**2

    @cached_property
    def outside(self) -> Array:
        """Share of each row that its side leaves unexplained whatever the regularisation."""
        xp = namespace(self.values)
        if self.values.shape[0] >= self.n_rows:  # as many directions as rows explain everything
            return xp.zeros_like(self.squares[:, 0])
        return xp.clip(1.0 - self.squares @ (1.0 / self.values), 0.0, 1.0)

    def leverage(self, alpha: float) -> Array:
        return self.squares @ (1.0 / (self.values + alpha))

    def slack(self, alpha: float) -> Array:
        return self.squares @ (alpha / (self.values * (self.values + alpha))) + self.outside

    def check_learnt(self) -> None:
        """Refuse rows that weigh more than learnt ones can."""
        if self.values.shape[0] == 0:
            return
        xp = namespace(self.values)
        # Small eigenvalues are too rough to judge by.
        solid = self.values > 1e-6 * float(self.values[-1])
        weight = to_numpy(self.squares @ xp.where(solid, 1.0 / self.values, xp.zeros_like(self.values)))
        if weight.max() > 1 + 1e-6:
            raise ValueError(
                f"X holds instances that the model has not learnt, among them row {weight.argmax()}: only what was "
                "learnt can be left out."
            )

    def checked_slack(self, alpha: float, what: str) -> Array:
        """Return the slack (l,), refusing rows that are fitted whatever their label."""
        slack = self.slack(alpha)
        # Regularisation leaves slack to every row; without it what is left comes by subtraction from 1.
        floor = min(1e6 * self.n_rows * epsilon(slack), 1e-6) if alpha == 0 else 0.0
        tight = to_numpy(slack) <= floor
        if tight.any():
            raise leverage_error(np.flatnonzero(tight), len(tight), what)
        return slack


class _LeftOut:
    """Knowledge rows, their labels, and both sides of the model in their eigenbases."""

    def __init__(self, model: OnlineRidge, Phi: Array, Y: Array) -> None:
        self.statistics = model.statistics
        self.Y = Y
        self.eigen = model.inverse.eigen
        self.rows = _Weights(matmul(double(Phi), self.eigen.vectors), self.eigen.values, self.statistics.n_rows)
        self.rows.check_learnt()
        self.task_eigen = None if model.task_inverse is None else model.task_inverse.eigen

    @cached_property
    def tasks(self) -> _Weights:
        assert self.task_eigen is not None
        projected = self.statistics.tasks @ self.task_eigen.vectors
        return _Weights(projected, self.task_eigen.values, self.statistics.n_tasks)

    @cached_property
    def rotated(self) -> Array:
        """The right-hand side in the eigenbases, (k, r') with tasks, else (k, q)."""
        rotated = self.eigen.vectors.T @ self.statistics.target
        return rotated if self.task_eigen is None else rotated @ self.task_eigen.vectors

    @cached_property
    def separate(self) -> Array:
        """The right-hand side for each task, (k, q)."""
        return self.eigen.vectors.T @ self.statistics.cross

    @cached_property
    def compressed(self) -> Array:
        """The labels times the projected tasks, (l, r')."""
        return matmul(double(self.Y), self.tasks.projected)

    def new_instances(self, alpha: float, task_alphas: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared errors (n_task_alphas,) of setting B, and the sizes of the terms they are summed from."""
        labels = double(self.Y.data if is_sparse(self.Y) else self.Y)
        total = float(namespace(labels).sum(labels**2))
        balance = self.rows.leverage(alpha), self.rows.checked_slack(alpha, "rows")
        D = self._instance_step(slice(None), self.rotated, self.compressed, alpha, balance)
        xp = namespace(D)
        squares, crosses = (to_numpy(xp.sum(D * other, axis=0)) for other in (D, self.compressed))
        s = to_numpy(self.tasks.values)
        own = np.array([np.sum(squares * s / (s + task_alpha) ** 2) for task_alpha in task_alphas])
        cross = np.array([np.sum(crosses / (s + task_alpha)) for task_alpha in task_alphas])
        return own - 2.0 * cross + total, own + 2.0 * np.abs(cross) + total

    def walk(self, setting: Setting, alpha: float, task_alpha: float) -> Iterator[tuple[slice, Array, Array]]:
        """Yield blocks of rows: their slice, their labels, their predictions, both of shape (b, q)."""
        balance = None
        if setting.new_instance or self.task_eigen is None:  # of independent tasks a pair is as good as its row
            balance = self.rows.leverage(alpha), self.rows.checked_slack(alpha, "rows")
        for rows in row_blocks(self.Y.shape[0], 8 * 4 * self.Y.shape[1]):
            labels = double(self.Y[rows, :])
            labels = labels.toarray() if is_sparse(labels) else labels
            if self.task_eigen is None:
                found = self._instance_step(rows, self.rotated, labels, alpha, balance)
            elif setting is Setting.B:
                half = self._instance_step(rows, self.rotated, self.compressed[rows, :], alpha, balance)
                found = (half / (self.tasks.values + task_alpha)) @ self.tasks.projected.T
            elif setting is Setting.A:
                found = self._new_pairs(rows, labels, alpha, task_alpha)
            else:
                half = self._instance_step(rows, self.separate, labels, alpha, balance)
                found = self._task_step(half, task_alpha)
            yield rows, labels, found

    def _instance_step(
        self, rows: slice, target: Array, labels: Array, alpha: float, balance: tuple[Array, Array] | None
    ) -> Array:
        """Return predictions of the first step, (b, p) for labels (b, p): fitted, or left out by leverage and slack."""
        fitted = (self.rows.projected[rows, :] / (self.rows.values + alpha)) @ target
        if balance is None:
            return fitted
        leverage, slack = (weights[rows][:, None] for weights in balance)
        return (fitted - leverage * labels) / slack

    def _task_step(self, half: Array, task_alpha: float) -> Array:
        """Return left-out predictions of the second step for those of the first, (b, q)."""
        tasks = self.tasks
        smoothed = ((half @ tasks.projected) / (tasks.values + task_alpha)) @ tasks.projected.T
        return (smoothed - half * tasks.leverage(task_alpha)) / tasks.checked_slack(task_alpha, "tasks")

    def _new_pairs(self, rows: slice, labels: Array, alpha: float, task_alpha: float) -> Array:
        fitted = self._instance_step(rows, self.rotated, labels, alpha, None)
        fitted = (fitted / (self.tasks.values + task_alpha)) @ self.tasks.projected.T
        leverage, task_leverage = self.rows.leverage(alpha)[rows][:, None], self.tasks.leverage(task_alpha)
        slack = self.rows.slack(alpha)[rows][:, None] + leverage * self.tasks.slack(task_alpha)
        tight = to_numpy(slack) <= 0
        if tight.any():
            raise leverage_error(np.flatnonzero(tight), tight.size, "cells")
        return (fitted - leverage * task_leverage * labels) / slack

r"""Hold-out predictions for some of the rows that an online model has learnt.

The model keeps no rows, but its Gram matrix :math:`\boldsymbol\Phi^\top\boldsymbol\Phi =
\mathbf{V}\,\mathrm{diag}(\boldsymbol\sigma)\,\mathbf{V}^\top` knows what each of them weighs. A row
:math:`\boldsymbol\phi` that is given again has leverage and slack

.. math:: h = \sum_k \frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k+\lambda}, \qquad
          e = 1 - h = \sum_k \frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k}\frac{\lambda}{\sigma_k+\lambda}
              + \Bigl(1 - \sum_k\frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k}\Bigr),

and with them the formulas of `dyadlearn.pairing.two_step` give the predictions of the model that never saw it,
exactly, whatever else was learnt. To leave tasks out (C and D) the statistics must tell the tasks apart.

With an unpenalised constant the Gram matrix is about the mean, and so is the row; one row of n weighs 1/n more and has
as much less slack. A hat that keeps constants lets the means of the labels be taken away before, and given back after,
each step: what is left out is what is left of the labels without them.

The squared error of setting B needs no predictions: in the eigenbasis of the tasks' Gram matrix with eigenvalues s, and
with :math:`\mathbf{D}` (l × r) the left-out predictions before the task step and :math:`\mathbf{T} =
\mathbf{Y}\boldsymbol\Psi`,

.. math:: \sum_j \frac{s_j\,\|\mathbf{d}_j\|^2}{(s_j+\lambda_t)^2} - 2\sum_j
          \frac{\mathbf{d}_j^\top\mathbf{t}_j}{s_j+\lambda_t} + \|\mathbf{Y}\|^2 .

The constant of the tasks is one more such column, with q for s and no penalty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import Array, dense, double, is_sparse, matmul, namespace, row_blocks, to_numpy, zeros
from dyadlearn.filters import Tikhonov
from dyadlearn.growing.column_holdout import column_holdout, column_squared_errors
from dyadlearn.growing.leaving import NOTHING_LEARNT, check_learnt, check_slack, projected, rotated, side_of_rows
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum, check_cells

__all__ = ["check_knows_tasks", "online_holdout", "online_squared_errors"]


def check_knows_tasks(known: Any, setting: Setting) -> None:
    """Raise if a setting is about new tasks and the statistics know no features of tasks."""
    if setting.new_task and known.tasks is None:
        raise ValueError(
            f"Setting {setting.value} is about new tasks, and a model without features of the tasks cannot speak of "
            "them: fit with tasks=, or ask for A or B."
        )


def online_holdout(model: Any, Phi: Array, Y: Array, setting: Setting) -> Array:
    """Predict the labels of learnt rows as if they had not been learnt.

    Parameters
    ----------
    model : OnlineRidge or ColumnRidge
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Rows that are among those the model has learnt, and their labels; NaN where they were learnt without one.
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
    if model.takes_holes:
        return column_holdout(model, Phi, Y, setting)
    left_out = _LeftOut(model, Phi, Y)
    task_alpha = 0.0 if model.task_inverse is None else model.task_inverse.alpha
    result = zeros((Y.shape[0], Y.shape[1]), model.statistics.gram)
    for rows, _, held_out in left_out.walk(setting, model.inverse.alpha, task_alpha):
        result[rows, :] = held_out + left_out.grand_mean if left_out.grand_mean else held_out
    return result


def online_squared_errors(
    model: Any,
    Phi: Array,
    Y: Array,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    setting: Setting,
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
    if model.takes_holes:
        return column_squared_errors(model, Phi, Y, alphas, task_alphas, setting)
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


class _LeftOut:
    """Learnt rows, their labels, and both sides of the model in their eigenbases."""

    def __init__(self, model: OnlineRidge, Phi: Array, Y: Array) -> None:
        self.statistics = known = model.statistics
        if known.n_rows == 0:
            raise ValueError(NOTHING_LEARNT)
        self.Y = Y
        self.eigen = model.inverse.eigen
        self.projected = projected(double(Phi), known.mean, self.eigen.vectors)
        self.rows = side_of_rows(self.projected, self.eigen.values, known.n_rows, known.has_constant)
        check_learnt(self.rows)
        self.task_eigen = None if model.task_inverse is None else model.task_inverse.eigen

    @cached_property
    def projected_tasks(self) -> Array:
        """The tasks in the eigenbasis of their Gram matrix, (q, r'), with a constant and a column of ones."""
        assert self.task_eigen is not None
        return self._rotated(self.statistics.task_rows)

    @cached_property
    def tasks(self) -> Spectrum:
        assert self.task_eigen is not None
        values, known = self.task_eigen.values, self.statistics
        return side_of_rows(self.projected_tasks[:, : values.shape[0]], values, known.n_tasks, known.has_constant)

    def _rotated(self, columns: Array) -> Array:
        """Return columns (c, r), with that of the constant, in the eigenbasis of the tasks."""
        assert self.task_eigen is not None
        return rotated(columns, self.task_eigen.vectors, self.statistics.has_constant)

    @cached_property
    def rotated(self) -> Array:
        """The right-hand side in the eigenbases, (k, r') with tasks, else (k, q)."""
        rotated = self.eigen.vectors.T @ self.statistics.target
        return rotated if self.task_eigen is None else self._rotated(rotated)

    @cached_property
    def separate(self) -> Array:
        """The right-hand side for each task, (k, q)."""
        return self.eigen.vectors.T @ self.statistics.cross

    @cached_property
    def grand_mean(self) -> float:
        """Of all labels that were learnt; 0 without a constant, and where each task has its own."""
        known = self.statistics
        if not known.has_constant or self.task_eigen is None:
            return 0.0
        return float(known.level[-1]) / known.n_tasks

    @cached_property
    def means(self) -> Array | None:
        """Means (q,) of the labels of each task that is told apart, less the grand mean; None without a constant."""
        means = self.statistics.label_mean
        return None if means is None else means - self.grand_mean

    @cached_property
    def rotated_means(self) -> Array | None:
        """The same in the eigenbasis of the tasks, (r'), told apart or not."""
        if not self.statistics.has_constant:
            return None
        means = self._rotated(self.statistics.level[None, :])[0, :]
        means[-1] = 0.0  # they add up to nothing
        return means

    def labels(self, rows: slice) -> Array:
        """Return labels of some rows (b, q), dense, less the grand mean."""
        labels = dense(double(self.Y[rows, :]))
        return labels - self.grand_mean if self.grand_mean else labels

    @cached_property
    def compressed(self) -> Array:
        """The labels less the grand mean times the projected tasks, (l, r')."""
        labels = double(self.Y)
        if not self.grand_mean:
            return matmul(labels, self.projected_tasks)
        if not is_sparse(labels):
            return (labels - self.grand_mean) @ self.projected_tasks
        product = matmul(labels, self.projected_tasks)
        product[:, -1] -= self.grand_mean * self.statistics.n_tasks
        return product

    def new_instances(self, alpha: float, task_alphas: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared errors (n_task_alphas,) of setting B, and the sizes of the terms they are summed from."""
        side = self.rows.smoother(Tikhonov(), alpha)
        check_slack(side, "rows")
        D = self._leave_out(slice(None), self.rotated, self.compressed, side, self.rotated_means)
        xp = namespace(D)
        squares, crosses = (to_numpy(xp.sum(D * other, axis=0)) for other in (D, self.compressed))
        norms = to_numpy(self.tasks.penalised)
        if self.statistics.has_constant:
            norms = np.append(norms, float(self.statistics.n_tasks))
        phis = [to_numpy(self.tasks.smoother(Tikhonov(), task_alpha).phi) for task_alpha in task_alphas]
        own = np.array([np.sum(squares * norms * phi**2) for phi in phis])
        cross = np.array([np.sum(crosses * phi) for phi in phis])
        return own - 2.0 * cross + self.total, own + 2.0 * np.abs(cross) + self.total

    @cached_property
    def total(self) -> float:
        """Sum of the squared labels, less the grand mean."""
        labels = double(self.Y.data if is_sparse(self.Y) else self.Y)
        xp, mean = namespace(labels), self.grand_mean
        if not mean or not is_sparse(self.Y):
            return float(xp.sum((labels - mean) ** 2 if mean else labels**2))
        return float(xp.sum(labels * (labels - 2.0 * mean))) + mean**2 * float(self.Y.shape[0] * self.Y.shape[1])

    def walk(self, setting: Setting, alpha: float, task_alpha: float) -> Iterator[tuple[slice, Array, Array]]:
        """Yield blocks of rows: their slice, their labels, their predictions, both of shape (b, q).

        Both are less the grand mean.
        """
        side, tasks = self.rows.smoother(Tikhonov(), alpha), None
        if self.task_eigen is not None:
            tasks = self.tasks.smoother(Tikhonov(), task_alpha)
        if setting.new_instance or tasks is None:
            check_slack(side, "rows")
        if setting.new_task and tasks is not None:
            check_slack(tasks, "tasks")
        for rows in row_blocks(self.Y.shape[0], 8 * 4 * self.Y.shape[1]):
            labels = self.labels(rows)
            if tasks is None:  # of independent tasks a pair is as good as its row
                found = self._leave_out(rows, self.rotated, labels, side, self.means)
            elif setting is Setting.B:
                half = self._leave_out(rows, self.rotated, self.compressed[rows, :], side, self.rotated_means)
                found = self._over_tasks(half, tasks)
            elif setting is Setting.A:
                leverage = side.leverage[rows][:, None]
                slack = side.slack[rows][:, None] + leverage * tasks.slack
                check_cells(slack, 0.0)
                fitted = self._over_tasks(self._fitted(rows, self.rotated, side, self.rotated_means), tasks)
                found = (fitted - leverage * tasks.leverage * labels) / slack
            else:
                half = (
                    self._leave_out(rows, self.separate, labels, side, self.means)
                    if setting.new_instance
                    else self._fitted(rows, self.separate, side, self.means)
                )
                smoothed = self._over_tasks(half @ self.projected_tasks, tasks)
                found = (smoothed - half * tasks.leverage) / tasks.slack
            yield rows, labels, found

    def _fitted(self, rows: slice, target: Array, side: Smoother, means: Array | None) -> Array:
        """Return predictions of the first step, (b, p) for a right-hand side (k, p) and means of labels (p,)."""
        fitted = (self.projected[rows, :] * side.phi[: target.shape[0]]) @ target
        return fitted if means is None else fitted + means

    def _leave_out(self, rows: slice, target: Array, labels: Array, side: Smoother, means: Array | None) -> Array:
        """Return predictions of the first step without the rows' own labels (b, p)."""
        leverage, slack = side.leverage[rows][:, None], side.slack[rows][:, None]
        own = labels if means is None else labels - means
        left_out = (self._fitted(rows, target, side, None) - leverage * own) / slack
        return left_out if means is None else left_out + means

    def _over_tasks(self, half: Array, tasks: Smoother) -> Array:
        """Return predictions (b, q) of the second step for those of the first, (b, r') in the eigenbasis."""
        return (half * tasks.phi) @ self.projected_tasks.T

r"""Terms of single rows: ridge regressions of the residuals of each row on the features of the tasks.

Two-step ridge regression predicts the same for rows with equal features. The term of row i uses its
labels
:math:`\mathbf{y}_o` for the tasks o and their two-step predictions :math:`\mathbf{f}_o`,

.. math:: \mathbf{b}_i = (\mathbf{P}_o^\top\mathbf{P}_o+\mu\mathbf{I})^{-1}\,\mathbf{P}_o^\top
          (\mathbf{y}_o-\mathbf{f}_o), \qquad \hat{\mathbf{y}}_i = \mathbf{f} +
          \mathbf{P}\,\mathbf{b}_i .

:math:`\mathbf{P}` are the features :math:`\boldsymbol\Psi/s` of the tasks; with a constant
:math:`[(\boldsymbol\Psi-\bar{\boldsymbol\psi})/s, \mathbf{1}]`, which is regularised as the features are. The mean and
the root mean square s of the lengths are over all known tasks, labelled or not. So the features and
the constant have the same weight on average, and a good :math:`\mu` does not depend on the scale of
the features. With the task kernel
:math:`\mathbf{G} = \mathbf{PP}^\top`, the term is
:math:`\mathbf{G}_{\cdot o}(\mathbf{G}_{oo}+\mu\mathbf{I})^{-1}(\mathbf{y}_o-\mathbf{f}_o)`, which is computed instead
if there are fewer labels than features.

A term is a function of the coefficients of the model and of the labels of its row. It is computed
when the row is predicted, and nothing of it is stored.

If one label of the row or one task with its labels is left out, the first step of one task j
changes for this row, or is removed. Either changes the predictions of the row by :math:`\delta_j`
times column j of the hat matrix H of the second step, so that :math:`\delta_j = (f_j^- -
f_j)/H_{jj}` for the prediction :math:`f_j^-` without the label. The leave-one-out operator
:math:`\mathbf{L}` of the term, which does not use entry j in row j, then gives

.. math:: \hat y_j^- = f_j^- + \bigl(\mathbf{L}\,(\mathbf{y}-\mathbf{f}-\delta_j\mathbf{H}_{\cdot j})\bigr)_j .

A task that is left out also changes the mean and the scale of P. In setting C the terms are thus
computed again without each task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    dense,
    double,
    matmul,
    namespace,
    take_block,
    take_rows,
    to_numpy,
)
from dyadlearn._codes import pattern_codes
from dyadlearn.filters import Tikhonov
from dyadlearn.growing.holdout import LeftOut, Values, online_holdout
from dyadlearn.growing.statistics import Group
from dyadlearn.growing.two_step import OnlineRidge, in_places
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import members_of
from dyadlearn.spectrum import Spectrum


@dataclass(frozen=True, eq=False)
class RowTerms:
    r"""Terms of rows in a model with features of the tasks.

    Attributes
    ----------
    model : OnlineRidge
    alpha : float
        Regularisation :math:`\mu > 0` of the terms.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.row_terms import RowTerms
    >>> from dyadlearn.growing.statistics import collect
    >>> from dyadlearn.growing.two_step import OnlineRidge
    >>> X, T, Y = np.ones((2, 1)), np.ones((2, 1)), np.array([[1.0, 1.0], [3.0, np.nan]])
    >>> model = OnlineRidge(collect(X, Y, T), alpha=0.0, task_alpha=0.0)  # predicts (2 + 1) / 2 for all pairs
    >>> RowTerms(model, 1.0).coefficients(X, Y)  # s = 1: 1.5 - (0.5 + 0.5) / (2 + μ) and 1.5 + 1.5 / (1 + μ)
    array([[1.16666667],
           [2.25      ]])
    """

    model: OnlineRidge
    alpha: float

    def coefficients(self, Phi: Array, Y: Array) -> Array:
        """Return the coefficients (l, width) of the rows of tasks, for instances (l, d) with labels (l, q) or NaN."""
        half = matmul(self.model.rows(Phi), self.model.coefficients)
        patterns = self._patterns(half, Y)
        parts = [
            (rows, take_rows(half, rows) + self._solved(tasks, gaps).T)
            for rows, _, tasks, gaps in patterns
        ]
        if parts:
            return in_places([rows for rows, _ in parts], [part for _, part in parts], half)
        return half

    def _patterns(
        self, half: Array, Y: Array
    ) -> Iterator[tuple[np.ndarray, np.ndarray, Array, Array]]:
        """Yield rows with labels for the same n tasks, these tasks, their features P, and the residuals (n, l)."""
        labels = double(dense(Y))
        known = self.model.statistics
        step, length = self._scale
        observed = ~np.isnan(to_numpy(labels))
        r = step.shape[0]
        for rows in members_of(pattern_codes(observed.T)):
            columns = np.flatnonzero(observed[rows[0]])
            if not columns.size:
                continue
            tasks = known.rows_of_tasks(take_rows(known.tasks, columns))
            gaps = take_block(labels, rows, columns).T - tasks @ take_rows(half, rows).T
            tasks[:, :r] = (tasks[:, :r] + step) / length
            yield rows, columns, tasks, gaps

    def _solved(self, tasks: Array, gaps: Array) -> Array:
        """Return the term (width, l) of rows from residuals (n, l), as coefficients of the rows of tasks."""
        n, width = tasks.shape
        step, length = self._scale
        if n < width:
            dual, doubt = Group(width, tasks @ tasks.T, gaps).solved(self.alpha)
            term = tasks.T @ dual
        else:
            term, doubt = Group(n, tasks.T @ tasks, tasks.T @ gaps).solved(self.alpha)
        self.model.warn(doubt)
        term[: step.shape[0], :] /= length
        term[-1, :] += step @ term[: step.shape[0], :]
        return term

    @cached_property
    def _scale(self) -> tuple[Array, float]:
        """Mean of the labelled tasks minus that of all (r,), 0 without a constant; root mean square of the lengths."""
        known: Any = self.model.statistics
        r = int(known.tasks.shape[1])
        others = np.delete(np.arange(known.n_tasks), known.labelled)
        rows = known.rows_of_tasks(take_rows(known.tasks, others))[:, :r]
        xp = namespace(rows)
        step = -namespace(rows).sum(rows, axis=0) * (known.has_constant / known.n_tasks)
        squares = (
            xp.linalg.trace(known.task_sums.gram)
            + xp.sum(rows**2)
            - known.n_tasks * xp.sum(step**2)
        )
        return step, max(float(squares) / known.n_tasks, 0.0) ** 0.5 or 1.0

    def holdout(self, Phi: Array, Y: Array, setting: Setting) -> Array:
        """Return hold-out predictions (l, q) of training rows; parameters as in `online_holdout`.

        A row that is left out (B, D) has no labels, and so no term; neither has a row without its
        only task.
        """
        model = self.model
        left_out = online_holdout(self.model, Phi, Y, setting)
        if 0 in setting.new or model.statistics.n_tasks == 1:
            return left_out
        if setting is Setting.C:
            return namespace(left_out).concat(
                [self._without_task(j, Phi, Y) for j in range(Y.shape[1])], axis=1
            )
        sides = LeftOut(model, Phi, Y, setting)
        half = matmul(model.rows(Phi), model.coefficients)
        task_rows = sides.statistics.rows_of_tasks(sides.statistics.tasks)
        rotated = to_numpy(sides.projected_tasks)
        phi = to_numpy(sides.tasks.smoother(Tikhonov(), model.task_alpha).phi)
        predictions = np.array(to_numpy(self.coefficients(Phi, Y) @ task_rows.T))
        without = to_numpy(left_out)
        change = to_numpy(left_out - half @ task_rows.T)
        for rows, columns, tasks, gaps in self._patterns(half, Y):
            hat = (rotated[columns] * phi) @ rotated[columns].T
            cells = np.ix_(rows, columns)
            term = Spectrum.from_features(to_numpy(tasks)).smoother(Tikhonov(), self.alpha)
            alone, of_hat = np.split(
                term.leave_one_out(np.hstack([to_numpy(gaps), hat])), [rows.size], axis=1
            )
            steps = change[cells] / np.maximum(np.diagonal(hat), np.finfo(float).tiny)
            predictions[cells] = without[cells] + alone.T - steps * np.diagonal(of_hat)
        return as_array_of(predictions, left_out)

    def squared_errors(
        self, Phi: Array, Y: Array, alphas: Sequence[Values], setting: Setting
    ) -> np.ndarray:
        """Return the mean squared errors (n_alphas, n_task_alphas) of hold-out predictions of observed labels."""
        errors = np.zeros([len(values) for values in alphas])
        labels = to_numpy(dense(Y))
        for row, column in np.ndindex(errors.shape):
            model = self.model.with_alphas((alphas[0][row], alphas[1][column]))
            held_out = replace(self, model=model).holdout(Phi, Y, setting)
            errors[row, column] = np.nanmean((to_numpy(held_out) - labels) ** 2)
        return errors

    def _without_task(self, task: int, Phi: Array, Y: Array) -> Array:
        """Return predictions (l, 1) for a task by the model without it."""
        known: Any = self.model.statistics
        rest = RowTerms(self.model.of(known.without_tasks(np.array([task]))), self.alpha)
        others = take_rows(dense(Y).T, np.delete(np.arange(known.n_tasks), task)).T
        task_rows = rest.model.statistics.rows_of_tasks(take_rows(known.tasks, np.array([task])))
        return rest.coefficients(Phi, others) @ task_rows.T

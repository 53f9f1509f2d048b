r"""Hold-out predictions of an online model for training rows that are passed again.

The model does not store rows, but its Gram matrix :math:`\boldsymbol\Phi^\top\boldsymbol\Phi =
\mathbf{V}\,\mathrm{diag}(\boldsymbol\sigma)\,\mathbf{V}^\top` determines their leverage. A training
row
:math:`\boldsymbol\phi` has leverage and slack

.. math:: h = \sum_k \frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k+\lambda}, \qquad
          e = 1 - h = \sum_k
          \frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k}\frac{\lambda}{\sigma_k+\lambda}
              + \Bigl(1 - \sum_k\frac{(\boldsymbol\phi^\top\mathbf{v}_k)^2}{\sigma_k}\Bigr),

and with them the formulas of `dyadlearn.pairing.two_step` give the exact predictions of the model
trained without it.

With an unpenalised constant, the Gram matrix and the row are centred. The leverage of each of n
rows is larger by 1/n, and its slack smaller by 1/n. Label means are subtracted before each step and
added after it, for accuracy.

The squared error of setting B needs no predictions: in the eigenbasis of the tasks' Gram matrix
with eigenvalues s, and with :math:`\mathbf{D}` (l × r) the left-out predictions before the task
step and :math:`\mathbf{T} = \mathbf{Y}\boldsymbol\Psi`,

.. math:: \sum_j \frac{s_j\,\|\mathbf{d}_j\|^2}{(s_j+\lambda_t)^2} - 2\sum_j
          \frac{\mathbf{d}_j^\top\mathbf{t}_j}{s_j+\lambda_t} + \|\mathbf{Y}\|^2 .

The constant of the tasks is one more such column, with q for s and no penalty.

Where labels are missing, a row only influences the groups of tasks for which it has a label. For
the other tasks the first step does not change when the row is left out. The first step of a row,
with all of its labels left out (B, D) or none (C), thus gives a row z of predictions, one for each
task.

The second step is linear in z, with a hat matrix H over the tasks that have a label. Leaving out a
task is a division again, :math:`(f_j - H_{jj}z_j)/(1 - H_{jj})`. A task whose *only* label is in
the left-out row has no label left, and is removed from the second step of this row. With S the set
of these tasks,

.. math:: \mathbf{x} = (\mathbf{I}-\mathbf{H}_{SS})^{-1}(\mathbf{f}_S - \mathbf{H}_{SS}\mathbf{z}_S), \qquad
          \tilde{\mathbf{H}} = \mathbf{H} + \mathbf{H}_{\cdot
          S}(\mathbf{I}-\mathbf{H}_{SS})^{-1}\mathbf{H}_{S\cdot}

are the predictions for S without S, which replace :math:`\mathbf{z}_S` in the second step, and the
hat matrix without S.

In setting A with missing labels, the label of a pair is only removed from its task: one entry of z
changes. With complete labels, the pair is completed by both steps, as in `TwoStepRidge`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
    row_blocks,
    solve,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._means import about
from dyadlearn._messages import Message
from dyadlearn.filters import SpectralCutoff, Tikhonov
from dyadlearn.growing.inverse import plus_diagonal
from dyadlearn.growing.statistics import Statistics
from dyadlearn.growing.two_step import OnlineRidge, in_places
from dyadlearn.leverage import check_cells, leverage_error, nothing_left
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum

Values = Sequence[float]
# Predictions of the first step with and without some rows, and the smoother of the rows.
FirstStep = tuple[Array, Array, Smoother | None]

NOTHING_LEARNT = (
    "The model has learned no instances, or forgotten all: only learned instances can be left out."
)


def side_of_rows(projected: Array, values: Array, n_rows: int, constant: bool) -> Spectrum:
    """Return the spectrum of some rows of a side, given as (l, k) in the eigenbasis of its Gram matrix.

    `n_rows` is the number of all rows of the side; with as many directions, there is no null space.
    """
    vectors = projected / values**0.5
    if not constant:
        return Spectrum(values, n_rows, None, vectors)
    xp = namespace(values)
    share = zeros((vectors.shape[0], 1), vectors) + 1.0 / math.sqrt(n_rows)
    values = xp.concat([values, zeros((1,), values)])
    vectors = xp.concat([vectors, share], axis=1)
    return Spectrum(values, n_rows, None, vectors, constant="free")


def _projected(Phi: Array, mean: Array | None, vectors: Array) -> Array:
    """Return features (l, d), minus the mean if there is one, in an eigenbasis (d, k)."""
    if mean is None:
        return matmul(Phi, vectors)
    rows, rest = about(Phi, mean)
    product = matmul(rows, vectors)
    return product if rest is None else product - rest @ vectors


def check_learnt(side: Spectrum, rows: np.ndarray) -> None:
    """Raise if the leverage of rows is too large for training rows; `rows` are their positions for the message."""
    if side.penalised.shape[0] == 0:
        return
    # Small eigenvalues are too inaccurate for this check.
    leverage = to_numpy(side.smoother(SpectralCutoff(), 1e-6 * float(side.penalised[-1])).leverage)
    if leverage.max() > 1 + 1e-6:
        raise ValueError(
            f"X holds instances that the model has not learned, among them row "
            f"{rows[leverage.argmax()]}: only learned "
            "instances can be left out."
        )


def check_knows_tasks(known: Statistics, setting: Setting) -> None:
    """Raise if a setting has new tasks and the statistics have no features of the tasks."""
    if 1 in setting.new and known.tasks is None:
        raise ValueError(
            Message(
                "Setting {setting} has new tasks, which a model without features of the tasks "
                "cannot predict: fit with <tasks=>, or use setting A or B.",
                setting=setting.value,
            )
        )


def online_holdout(model: OnlineRidge, Phi: Array, Y: Array, setting: Setting) -> Array:
    """Return hold-out predictions of training rows.

    Parameters
    ----------
    model : OnlineRidge
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Features and labels of training rows; NaN where the label was missing in training.
    setting : Setting
        Setting of the hold-out; C and D need features of the tasks.

    Returns
    -------
    array of shape (l, q)
        Predictions of all cells, including missing labels. NaN where each task has a separate
        intercept and no label is left to estimate it from.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.holdout import online_holdout
    >>> from dyadlearn.settings import Setting
    >>> from dyadlearn.growing.two_step import OnlineRidge
    >>> from dyadlearn.growing.statistics import collect
    >>> X, Y = np.array([[1.0], [2.0], [1.0]]), np.array([[1.0], [2.0], [4.0]])
    >>> model = OnlineRidge(collect(X, Y), alpha=1.0)
    >>> online_holdout(model, X[2:], Y[2:], Setting.B)  # (1·1 + 2·2) / (1 + 4 + λ)
    array([[0.83333333]])
    """
    left_out = LeftOut(model, Phi, Y, setting)
    alphas = ([model.alpha], [model.task_alpha])
    blocks = [predictions for _, _, predictions in left_out.walk(alphas)]
    return namespace(blocks[0]).concat(blocks, axis=0) + left_out.level


def online_squared_errors(
    model: OnlineRidge, Phi: Array, Y: Array, alphas: Sequence[Values], setting: Setting
) -> np.ndarray:
    """Return the mean squared error of hold-out predictions for all regularisations.

    Parameters
    ----------
    model, Phi, Y, setting : as in `online_holdout`
        The regularisation of `model` is ignored.
    alphas : (sequence of float, sequence of float)
        Values of both regularisations.

    Returns
    -------
    array of shape (n_alphas, n_task_alphas), without features of the tasks (n_alphas,)
        Mean over the observed labels that have a prediction.
    """
    left_out = LeftOut(model, Phi, Y, setting)
    if model.statistics.tasks is None:
        return left_out.squared_errors((alphas[0], [0.0]))[:, 0]
    if setting is not Setting.B or not model.statistics.is_complete:
        return left_out.squared_errors(alphas)
    errors, terms = left_out.new_instances(alphas)
    # Cancellation leaves too few digits of the closed form there.
    for row, column in np.argwhere(errors < 1e-9 * terms):
        point = ([alphas[0][row]], [alphas[1][column]])
        errors[row, column] = left_out.squared_errors(point)[0, 0]
    return errors


class LeftOut:
    """Training rows and their labels, to be left out of a model in one setting."""

    def __init__(self, model: OnlineRidge, Phi: Array, Y: Array, setting: Setting) -> None:
        self.statistics = known = model.statistics
        if known.n_rows == 0:
            raise ValueError(NOTHING_LEARNT)
        self.Phi = double(Phi)
        self.Y = Y
        self.setting = setting
        self.task_sums: Any = known.task_sums
        if not known.is_complete:
            self._check_labels(~np.isnan(to_numpy(dense(Y))))
        # The mean over the tasks of their label means is subtracted from labels, for accuracy.
        means = [group.label_mean for group in known.groups if known.has_constant and group.n_rows]
        if means:
            self.level = float(namespace(means[0]).mean(namespace(means[0]).concat(means)))
        else:
            self.level = 0.0
        # The right-hand sides of the groups in the eigenbases of their Gram matrices.
        self.targets = [group.eigen.vectors.T @ group.cross for group in known.groups]

    def _check_labels(self, observed: np.ndarray) -> None:
        """Raise if the missing labels differ from those in training, as far as the groups show."""
        known = self.statistics
        first = np.array([tasks[0] for tasks in known.members])
        same = (observed == observed[:, first[known.group_of]]).all(axis=1)
        many = (observed.sum(axis=0) > known.counts).any()
        if many or not same.all():
            row = ""
            if not same.all():
                row = f", such as those of row {int(np.argmin(same))}"
            raise ValueError(
                f"Y has labels that were not learned, or lacks some that were{row}: give them as "
                f"they were learned, "
                "NaN where there was none."
            )

    def squared_errors(self, alphas: Sequence[Values]) -> np.ndarray:
        """Return the mean squared errors (n_alphas, n_task_alphas) of predictions."""
        errors = np.zeros([len(values) for values in alphas])
        counts = np.zeros(errors.shape, dtype=np.int64)
        for place, labels, predictions in self.walk(alphas):
            xp = namespace(predictions)
            gaps = predictions - labels
            scored = ~xp.isnan(gaps)
            errors[place] += float(xp.sum(xp.where(scored, gaps, 0.0) ** 2))
            counts[place] += int(xp.sum(xp.astype(scored, xp.int64)))
        if not counts.all():
            raise ValueError(
                f"In setting {self.setting.value} there is no label to score: each is the only one "
                f"of its task, or not "
                "observed."
            )
        return errors / counts

    def new_instances(self, alphas: Sequence[Values]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean squared errors of complete labels in setting B, and the sizes of the terms of the sum."""
        shape = (len(alphas[0]), int(self.projected_tasks.shape[1]))
        squares = np.zeros(shape)
        crosses = np.zeros(shape)
        total = 0.0
        for rows, labels, projected in self._blocks():
            xp = namespace(labels)
            target = labels @ self.projected_tasks
            total += float(xp.sum(labels**2))
            for place, alpha in enumerate(alphas[0]):
                D = self._first_step(rows, labels, projected, alpha)[1] @ self.projected_tasks
                squares[place] += to_numpy(xp.sum(D * D, axis=0))
                crosses[place] += to_numpy(xp.sum(D * target, axis=0))
        norms = to_numpy(self.tasks.penalised)
        if self.statistics.has_constant:
            norms = np.append(norms, float(self.statistics.n_tasks))
        phi = np.stack(
            [to_numpy(self.tasks.smoother(Tikhonov(), alpha).phi) for alpha in alphas[1]], axis=1
        )
        square = (squares * norms) @ phi**2
        cross = crosses @ phi
        count = self.Y.shape[0] * self.Y.shape[1]
        errors = (square - 2.0 * cross + total) / count
        return errors, (square + 2.0 * np.abs(cross) + total) / count

    def _blocks(self) -> Iterator[tuple[slice, Array, list[Array]]]:
        """Yield slices of rows, their labels (b, q) minus `level`, and the rows in the eigenbases of all groups."""
        groups = self.statistics.groups
        n, n_tasks = self.Y.shape
        widths = [target.shape[0] for target in self.targets]
        for rows in row_blocks(n, (8, n_tasks), *widths):
            labels = dense(double(self.Y[rows, :])) - self.level
            Phi = self.Phi[rows, :]
            projected = [_projected(Phi, group.mean, group.eigen.vectors) for group in groups]
            yield rows, labels, projected

    def walk(self, alphas: Sequence[Values]) -> Iterator[tuple[tuple[int, int], Array, Array]]:
        """Yield positions of regularisations, and labels and predictions (b, q) of a block of rows, minus `level`."""
        knows_tasks = self.statistics.tasks is not None
        tasks = [
            self.tasks.smoother(Tikhonov(), alpha) if knows_tasks else None for alpha in alphas[1]
        ]
        for rows, labels, projected in self._blocks():
            for row, alpha in enumerate(alphas[0]):
                first = self._first_step(rows, labels, projected, alpha)
                for column, side in enumerate(tasks):
                    # With independent tasks, leaving out a pair equals leaving out its row.
                    yield (
                        (row, column),
                        labels,
                        first[1] if side is None else self._second_step(labels, *first, side),
                    )

    # The first step -----------------------------------------------------------------------------------

    def _first_step(
        self, rows: slice, labels: Array, projected: Sequence[Array], alpha: float
    ) -> FirstStep:
        """Return predictions (b, q) of the first step with and without the rows, and the smoother of the rows.

        The smoother is that of the first group, which is used if labels are complete. If the only
        label of a task is left out, its prediction is NaN with a constant and 0 without.
        """
        members = self.statistics.members
        fitted = []
        left_out = []
        smoothers = []
        for number, tasks in enumerate(members):
            labels_of_group = take_rows(labels.T, tasks).T
            parts = self._of_group(number, rows, labels_of_group, projected[number], alpha)
            fitted.append(parts[0].T)
            left_out.append(parts[1].T)
            smoothers.append(parts[2])
        return in_places(members, fitted).T, in_places(members, left_out).T, smoothers[0]

    def _of_group(
        self, number: int, rows: slice, labels: Array, projected: Array, alpha: float
    ) -> FirstStep:
        """Return predictions (b, c) of a group with and without the rows, and the smoother of its labelled rows."""
        group = self.statistics.groups[number]
        is_complete = self.statistics.is_complete
        if group.n_rows == 0:
            nothing = zeros(labels.shape, labels) + (0.0 if group.mean is None else float("nan"))
            return nothing, nothing, None
        means = 0.0
        if group.label_mean is not None:
            means = group.label_mean - self.level
        about_means = projected @ (self.targets[number] / (group.eigen.values + alpha)[:, None])
        fitted = about_means + means
        inside = np.flatnonzero(~np.isnan(to_numpy(labels[:, 0])))
        if not inside.size:
            return fitted, fitted, None
        about_means, labels, projected = (
            take_rows(part, inside) for part in (about_means, labels, projected)
        )
        side = side_of_rows(projected, group.eigen.values, group.n_rows, group.mean is not None)
        check_learnt(side, inside + rows.start)
        smoother = side.smoother(Tikhonov(), alpha)
        is_pair = self.setting is Setting.A and is_complete
        if self.statistics.tasks is not None and (self.setting is Setting.C or is_pair):
            return fitted, fitted, smoother  # the second step needs the first step with the rows
        if group.n_rows == 1 and group.mean is not None and not is_complete:
            return fitted, in_places([inside], [about_means + float("nan")], fitted), smoother
        tight = to_numpy(smoother.slack) <= smoother.slack_floor
        if tight.any():
            n_rows = int(self.Y.shape[0])
            # One given row is not all rows, unless it is the only one that was learned.
            raise leverage_error(
                inside[tight] + rows.start, n_rows if n_rows > 1 else group.n_rows, "rows"
            )
        gone = (about_means - smoother.leverage[:, None] * (labels - means)) / smoother.slack[
            :, None
        ] + means
        return fitted, in_places([inside], [gone], fitted), smoother

    # The second step ----------------------------------------------------------------------------------

    @cached_property
    def projected_tasks(self) -> Array:
        """Features of all tasks in the eigenbasis, with a last column of ones for a constant, (q, r')."""
        rows: Any = self.statistics.task_rows
        vectors = self.task_sums.eigen.vectors
        if not self.statistics.has_constant:
            return rows @ vectors
        return namespace(rows).concat([rows[:, :-1] @ vectors, rows[:, -1:]], axis=1)

    @cached_property
    def tasks(self) -> Spectrum:
        """Spectrum of the tasks, relative to those that have labels."""
        known = self.statistics
        values = self.task_sums.eigen.values
        rows = self.projected_tasks[:, : values.shape[0]]
        return side_of_rows(rows, values, int(known.labelled.size), known.has_constant)

    @cached_property
    def is_labelled(self) -> Array:
        """Which tasks (q,) have a label, as an array of the library of the labels."""
        return as_array_of(
            np.isin(np.arange(self.statistics.n_tasks), self.statistics.labelled),
            self.projected_tasks,
        )

    def _over_tasks(self, half: Array, side: Smoother) -> Array:
        """Return the second step (b, q) for the first."""
        half = namespace(half).where(self.is_labelled, half, zeros((), half)) @ self.projected_tasks
        return (half * side.phi) @ self.projected_tasks.T

    def _second_step(
        self, labels: Array, fitted: Array, left_out: Array, rows: Smoother | None, side: Smoother
    ) -> Array:
        """Return predictions (b, q) of the second step for those of the first with and without the rows."""
        known = self.statistics
        setting = self.setting
        if (
            setting is Setting.A and known.is_complete and rows is not None
        ):  # completed by both steps
            leverage = rows.leverage[:, None]
            slack = rows.slack[:, None]
            slack = slack + leverage * side.slack
            check_cells(slack, 0.0)
            return (self._over_tasks(fitted, side) - leverage * side.leverage * labels) / slack
        xp = namespace(fitted)
        observed = ~np.isnan(to_numpy(labels))
        is_only = observed & (known.counts == 1) & (not known.is_complete)
        half = fitted
        if 0 in setting.new:
            # The entry of a task without other labels is replaced below.
            half = xp.where(as_array_of(is_only, fitted), fitted, left_out)
        predictions = self._over_tasks(half, side)
        terms = (side.leverage, side.slack, side.slack_floor)
        if setting is Setting.A:
            # Only the label of the pair is removed from its task; a task without other labels is
            # removed too.
            gaps = xp.where(
                as_array_of(observed & ~is_only, fitted), fitted - left_out, zeros((), fitted)
            )
            changed = predictions - side.leverage * gaps
            if not is_only.any():
                return changed
            alone = self._without_tasks(predictions, half, *terms, is_only.any(axis=0))
            return xp.where(as_array_of(is_only, fitted), alone, changed)
        if 1 in setting.new:
            alone = self._without_tasks(predictions, half, *terms)
        else:
            alone = predictions
        if 0 not in setting.new or not is_only.any():
            return alone
        some = np.flatnonzero(is_only.any(axis=1))
        again = [
            self._without_only(is_only[i], predictions[int(i), :], half[int(i), :], side)
            for i in some
        ]
        return in_places([some], [xp.stack(again)], alone)

    def _without_tasks(
        self,
        predictions: Array,
        half: Array,
        leverage: Array,
        slack: Array,
        floor: float,
        among: Any = True,
    ) -> Array:
        """Return the second step of each task without the first-step prediction of this task.

        Raises LeverageError if a task with a label, among those of a mask (q,), has a slack of at
        most `floor`.
        """
        xp = namespace(predictions)
        tight = (to_numpy(slack) <= floor) & to_numpy(self.is_labelled) & among
        if tight.any():
            n_labelled = int(self.statistics.labelled.size)
            raise leverage_error(np.flatnonzero(tight), n_labelled, "tasks")
        slack = xp.where(self.is_labelled, slack, 1.0)
        return xp.where(self.is_labelled, (predictions - leverage * half) / slack, predictions)

    def _without_only(
        self, is_only: np.ndarray, predictions: Array, half: Array, side: Smoother
    ) -> Array:
        """Return the second step (q,) of a row without the tasks (q,) that have no other label."""
        xp = namespace(predictions)
        gone = np.flatnonzero(is_only)
        if gone.size == self.statistics.labelled.size and self.statistics.has_constant:
            raise nothing_left()
        across = (take_rows(self.projected_tasks, gone) * side.phi) @ self.projected_tasks.T
        inner = take_rows(across.T, gone).T
        of_gone = take_rows(half, gone)
        right = xp.concat(
            [(take_rows(predictions, gone) - inner @ of_gone)[:, None], across], axis=1
        )
        try:
            solved = solve(plus_diagonal(-inner, 1.0), right)
        except np.linalg.LinAlgError:
            raise leverage_error(gone, self.statistics.n_tasks, "tasks") from None
        exchanged = solved[:, 0]
        inverse = solved[:, 1:]
        without = predictions + (exchanged - of_gone) @ across
        if 1 in self.setting.new:
            hat = side.leverage + xp.sum(across * inverse, axis=0)
            without = self._without_tasks(without, half, hat, 1.0 - hat, side.slack_floor, ~is_only)
        return in_places([gone], [exchanged], without)

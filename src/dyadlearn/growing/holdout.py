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

What leaving rows out asks of the Gram matrix of their side: what each weighs, and whether it was learnt at all.

Hold-out predictions for rows that a model of labels with holes has learnt.

For a row whose label of task j was observed, the first step without it is a division, by what the row weighs among the
instances that j was observed for (`dyadlearn.growing.holdout`). For a row without that label it is what it is. So the
first step of a row, all of it left out (B, D) or none (C), is an ordinary row z of predictions, one for each task.

The second step is linear in z, with a hat matrix H over the tasks that have a label. Leaving a task out of it is
a division again, :math:`(f_j - H_{jj}z_j)/(1 - H_{jj})`. A task whose *only* label is in the row that leaves has none
left, and goes from the second step of this row. With S all tasks of the row that do,

.. math:: \mathbf{x} = (\mathbf{I}-\mathbf{H}_{SS})^{-1}(\mathbf{f}_S - \mathbf{H}_{SS}\mathbf{z}_S), \qquad
          \tilde{\mathbf{H}} = \mathbf{H} + \mathbf{H}_{\cdot S}(\mathbf{I}-\mathbf{H}_{SS})^{-1}\mathbf{H}_{S\cdot}

are what is predicted for them without them, with which in place of :math:`\mathbf{z}_S` the second step is that
without S, and the hat matrix of what is left.

In setting A the label of a pair leaves its task and nothing else: of z the one entry changes.
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
    is_sparse,
    matmul,
    namespace,
    row_blocks,
    solve,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._means import about
from dyadlearn.filters import Tikhonov
from dyadlearn.growing.columns import ColumnRidge, in_places
from dyadlearn.growing.inverse import Eigen
from dyadlearn.growing.statistics import Statistics, plus_diagonal
from dyadlearn.growing.two_step import OnlineRidge
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum, check_cells, leverage_error

NOTHING_LEARNT = "The model has learnt no instances, or forgotten all: only what was learnt can be left out."


def projected(Phi: Array, mean: Array | None, vectors: Array) -> Array:
    """Return features (l, d), where there is a mean less it, in an eigenbasis (d, k)."""
    if mean is None:
        return matmul(Phi, vectors)
    rows, rest = about(Phi, mean)
    product = matmul(rows, vectors)
    return product if rest is None else product - rest @ vectors


def rotated(columns: Array, vectors: Array, constant: bool) -> Array:
    """Return columns (c, r), with a constant (c, r + 1), in an eigenbasis (r, k) of the tasks."""
    if not constant:
        return columns @ vectors
    return namespace(columns).concat([columns[:, :-1] @ vectors, columns[:, -1:]], axis=1)


def side_of_rows(projected: Array, values: Array, n_rows: int, constant: bool) -> Spectrum:
    """Return rows of one side, (l, k) in the eigenbasis of its Gram matrix, as a spectrum that knows what each weighs.

    `n_rows` counts all rows of the side: where there are as many directions, they explain everything.
    """
    vectors = projected / values**0.5
    if not constant:
        return Spectrum(values, n_rows, None, vectors)
    xp = namespace(values)
    share = zeros((vectors.shape[0], 1), vectors) + 1.0 / math.sqrt(n_rows)
    values, vectors = xp.concat([values, zeros((1,), values)]), xp.concat([vectors, share], axis=1)
    return Spectrum(values, n_rows, None, vectors, constant="free")


def check_learnt(side: Spectrum) -> None:
    """Refuse rows that weigh more than learnt ones can."""
    values = side.penalised
    if values.shape[0] == 0:
        return
    # Small eigenvalues are too rough to judge by.
    solid = namespace(values).astype(values > 1e-6 * values[-1], values.dtype)
    if side.has_free_constant:
        solid = namespace(values).concat([solid, zeros((1,), values) + 1.0])
    weight = to_numpy(side.diagonal(solid))
    if weight.max() > 1 + 1e-6:
        raise ValueError(
            f"X holds instances that the model has not learnt, among them row {weight.argmax()}: only what was "
            "learnt can be left out."
        )


def check_slack(side: Smoother, what: str) -> None:
    """Refuse rows that are fitted whatever their label."""
    tight = to_numpy(side.slack) <= side.slack_floor
    if tight.any():
        raise leverage_error(np.flatnonzero(tight), len(tight), what)


def leverage_and_slack(side: Spectrum, alphas: Sequence[float]) -> tuple[Array, Array, np.ndarray]:
    """Return leverages and slacks (l, p) of rows under p ridge penalties, and what each slack has to exceed (p,).

    They are those of `Smoother`, of all penalties in one pass over the rows.
    """
    values = side.penalised[:, None]
    xp, penalties = namespace(values), as_array_of(np.array(alphas, dtype=np.float64), values, values.dtype)
    kept, rest = values / (values + penalties), penalties / (values + penalties)
    floors = np.array(
        [
            0.0 if alpha > 0 and bool(xp.all(rest[:, place] > 0)) else side.smoother(Tikhonov(), alpha).slack_floor
            for place, alpha in enumerate(alphas)
        ]
    )
    if side.has_free_constant:
        row = zeros((1, len(alphas)), values)
        kept, rest = xp.concat([kept, row + 1.0], axis=0), xp.concat([rest, row], axis=0)
    both = side.diagonal(xp.concat([kept, rest], axis=1))
    leverage, slack = both[:, : len(alphas)], both[:, len(alphas) :]
    return leverage, slack + side.outside[:, None] if side.is_truncated else slack, floors


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


class _TaskStep:
    """The second step of what is left out of a model that has learnt something."""

    def __init__(self, model: OnlineRidge | ColumnRidge) -> None:
        self.statistics: Any = model.statistics
        if self.statistics.n_rows == 0:
            raise ValueError(NOTHING_LEARNT)
        self.task_eigen = None if model.task_inverse is None else model.task_inverse.eigen

    def _rotated(self, columns: Array) -> Array:
        """Return columns of products with features of the tasks as those with their eigenvectors."""
        assert self.task_eigen is not None
        return rotated(columns, self.task_eigen.vectors, self.statistics.has_constant)

    @cached_property
    def projected_tasks(self) -> Array:
        """Features of all tasks in the eigenvectors, (q, r)."""
        return self._rotated(self.statistics.task_rows)

    @property
    def labelled_tasks(self) -> Array:
        """Those of the tasks that have labels."""
        return self.projected_tasks

    @cached_property
    def tasks(self) -> Spectrum:
        """The side of the tasks that have labels."""
        assert self.task_eigen is not None
        values, rows = self.task_eigen.values, self.labelled_tasks
        return side_of_rows(rows[:, : values.shape[0]], values, int(rows.shape[0]), self.statistics.has_constant)


class _LeftOut(_TaskStep):
    """Learnt rows, their labels, and both sides of the model in their eigenbases."""

    def __init__(self, model: OnlineRidge, Phi: Array, Y: Array) -> None:
        super().__init__(model)
        known = self.statistics
        self.Y = Y
        self.eigen = model.inverse.eigen
        self.projected = projected(double(Phi), known.mean, self.eigen.vectors)
        self.rows = side_of_rows(self.projected, self.eigen.values, known.n_rows, known.has_constant)
        check_learnt(self.rows)

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
        return float(known.level[-1]) / int(known.n_tasks)

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


#: Bytes that the predictions of a block of rows may take under all regularisations.
_BLOCK = 2**28


def column_holdout(model: ColumnRidge, Phi: Array, Y: Array, setting: Setting) -> Array:
    """Predict the labels (l, q) of learnt rows as if they had not been learnt; arguments as in `online_holdout`.

    A label that was not observed is predicted too. NaN where tasks without features have a constant each, and nothing
    is left to take it from.
    """
    left_out = _ColumnsLeftOut(model, Phi, Y)
    task_alpha = 0.0 if model.task_inverse is None else model.task_inverse.alpha
    blocks = [found for _, _, found in left_out.walk(setting, [model.alpha], [task_alpha])]
    return namespace(blocks[0]).concat(blocks, axis=0) + left_out.level


def column_squared_errors(
    model: ColumnRidge, Phi: Array, Y: Array, alphas: Sequence[float], task_alphas: Sequence[float], setting: Setting
) -> np.ndarray:
    """Return the mean squared error over labels that are observed and predicted; see `online_squared_errors`."""
    left_out = _ColumnsLeftOut(model, Phi, Y)
    with_tasks = model.task_inverse is not None
    columns = task_alphas if with_tasks else [0.0]
    errors = np.zeros((len(alphas), len(columns)))
    counts = np.zeros(errors.shape, dtype=np.int64)
    for place, labels, found in left_out.walk(setting, alphas, columns):
        xp, gaps = namespace(found), found - labels
        scored = ~xp.isnan(gaps)
        errors[place] += float(xp.sum(xp.where(scored, gaps, xp.zeros_like(gaps)) ** 2))
        counts[place] += int(xp.sum(xp.astype(scored, xp.int64)))
    if not counts.all():
        raise ValueError(
            f"In setting {setting.value} there is no label to score: each is the only one of its task, or not observed."
        )
    return errors / counts if with_tasks else (errors / counts)[:, 0]


def lone_labels(model: ColumnRidge, Y: Array) -> np.ndarray:
    """Tell which labels (l, q) of learnt rows are not predicted without them: lone ones, with a constant each."""
    known = model.statistics
    if known.tasks is not None or not known.has_constant:
        return np.zeros(tuple(Y.shape), dtype=bool)
    return np.asarray(~np.isnan(to_numpy(dense(Y))) & (known.counts == 1))


class _ColumnsLeftOut(_TaskStep):
    """Learnt rows, their labels, and the side of each group of tasks in its eigenbasis."""

    def __init__(self, model: ColumnRidge, Phi: Array, Y: Array) -> None:
        super().__init__(model)
        self.Phi, self.Y = double(Phi), dense(double(Y))
        self.observed = ~np.isnan(to_numpy(self.Y))
        self._check_labels()
        # Once for all blocks of rows and all regularisations.
        self.eigen = [Eigen.of(group.gram, group.n_rows, group.rounding) for group in self.statistics.groups]

    def _check_labels(self) -> None:
        """Refuse labels that cannot be those that were learnt, as far as the groups tell."""
        known = self.statistics
        first = np.array([own[0] for own in known.members])
        same = (self.observed == self.observed[:, first[known.group_of]]).all(axis=1)
        many = (self.observed.sum(axis=0) > known.counts).any()
        if many or not same.all():
            row = "" if same.all() else f", such as those of row {int(np.argmin(same))}"
            raise ValueError(
                f"Y has labels that were not learnt, or lacks some that were{row}: give them as they were learnt, NaN "
                "where there was none."
            )

    @cached_property
    def level(self) -> float:
        """What is taken from labels, for the digits of what cancels: the mean of those of the tasks; 0 without one."""
        if not self.statistics.has_constant:
            return 0.0
        means = [group.label_mean for group in self.statistics.groups if group.n_rows]
        xp = namespace(self.Y)
        return float(xp.mean(xp.concat(means))) if means else 0.0

    def walk(
        self, setting: Setting, alphas: Sequence[float], task_alphas: Sequence[float]
    ) -> Iterator[tuple[tuple[int, int], Array, Array]]:
        """Yield blocks of rows: where their regularisations stand, their labels, their predictions, both (b, q).

        Both are less `level`.
        """
        tasks = [None if self.task_eigen is None else self.tasks.smoother(Tikhonov(), each) for each in task_alphas]
        for side in tasks:
            if setting.new_task and side is not None:
                check_slack(side, "tasks")
        # Every block goes over all groups, so that it had better be large.
        for rows in row_blocks(int(self.Y.shape[0]), 8 * 2 * (len(alphas) + 3) * int(self.Y.shape[1]), _BLOCK):
            labels = self.Y[rows, :] - self.level
            for row, (fitted, left_out) in enumerate(self._first_step(rows, labels, alphas, setting)):
                for column, side in enumerate(tasks):
                    if side is None:
                        yield (row, column), labels, left_out
                    else:
                        yield (row, column), labels, self._second_step(rows, fitted, left_out, side, setting)

    # The first step -----------------------------------------------------------------------------------

    def _first_step(
        self, rows: slice, labels: Array, alphas: Sequence[float], setting: Setting
    ) -> list[tuple[Array, Array]]:
        """Return predictions (b, q) of the first step with and without the rows, for each regularisation.

        For a task whose only label leaves, nothing is said without it: NaN, unless there is no constant.
        """
        known, pieces = self.statistics, []
        for group, own, eigen in zip(known.groups, known.members, self.eigen, strict=True):
            mine = take_rows(labels.T, own).T
            pieces.append((own, *self._of_group(group, int(own[0]), eigen, rows, mine, alphas, setting)))
        swapped = namespace(self.Y).permute_dims
        fitted, left_out = (
            in_places([(piece[0], swapped(piece[which], (2, 1, 0))) for piece in pieces]) for which in (1, 2)
        )
        return [(fitted[:, place, :].T, left_out[:, place, :].T) for place in range(len(alphas))]

    def _of_group(
        self,
        group: Statistics,
        task: int,
        eigen: Eigen,
        rows: slice,
        labels: Array,
        alphas: Sequence[float],
        setting: Setting,
    ) -> tuple[Array, Array]:
        """Return what `_first_step` does for the c tasks of a group and all regularisations, shapes (b, p, c)."""
        shape = (int(labels.shape[0]), len(alphas), int(labels.shape[1]))
        if group.n_rows == 0:
            nothing = zeros(shape, labels) + (float("nan") if group.has_constant else 0.0)
            return nothing, nothing
        xp, (_, count, width) = namespace(labels), shape
        phi = 1.0 / (eigen.values[:, None] + as_array_of(np.array(alphas), labels, labels.dtype))
        target = phi[:, :, None] * (eigen.vectors.T @ group.cross)[:, None, :]
        projected_rows = projected(self.Phi[rows, :], group.mean, eigen.vectors)
        about_means = xp.reshape(projected_rows @ xp.reshape(target, (-1, count * width)), shape)
        means = 0.0 if group.label_mean is None else group.label_mean - self.level
        fitted, inside = about_means + means, np.flatnonzero(self.observed[rows, task])
        if not inside.size:
            return fitted, fitted
        side = side_of_rows(take_rows(projected_rows, inside), eigen.values, group.n_rows, group.has_constant)
        check_learnt(side)
        if group.n_rows == 1 and group.has_constant:
            gone = take_rows(fitted, inside) + float("nan")
        else:
            leverage, slack, floors = leverage_and_slack(side, alphas)
            if self.task_eigen is None or setting.new_instance or setting is Setting.A:
                tight = (to_numpy(slack) <= floors).any(axis=1)
                if tight.any():
                    raise leverage_error(inside[tight] + (rows.start or 0), int(self.Y.shape[0]), "rows")
            mine = (take_rows(labels, inside) - means)[:, None, :]
            gone = (take_rows(about_means, inside) - leverage[:, :, None] * mine) / slack[:, :, None] + means
        return fitted, in_places([(inside, gone)], fitted)

    # The second step ----------------------------------------------------------------------------------

    @cached_property
    def labelled_tasks(self) -> Array:
        """Features of the tasks that have labels, in the eigenvectors."""
        return take_rows(self.projected_tasks, self.statistics.labelled)

    @cached_property
    def place(self) -> np.ndarray:
        """Where each task (q,) stands among those that have a label; −1 for one that has none."""
        place = np.full(self.statistics.n_tasks, -1)
        place[self.statistics.labelled] = np.arange(self.statistics.labelled.size)
        return place

    def _second_step(self, rows: slice, fitted: Array, left_out: Array, side: Smoother, setting: Setting) -> Array:
        """Return predictions (b, q) of the second step for those of the first with and without the rows."""
        known = self.statistics
        lone = self.observed[rows, :] & (known.counts == 1)
        if setting is Setting.A:
            return self._without_pairs(lone, self.observed[rows, :], fitted, left_out, side)
        half = fitted
        if setting.new_instance:
            # A lone entry has no say: any number will do before it is exchanged.
            half = namespace(fitted).where(as_array_of(lone, fitted), fitted, left_out)
        found = self._over_tasks(half, side)
        leverage = self._spread(side.leverage, 0.0)
        alone = self._without_tasks(found, half, leverage, self._spread(side.slack, 1.0)) if setting.new_task else found
        if not setting.new_instance or not lone.any():
            return alone
        some = np.flatnonzero(lone.any(axis=1))
        again = [self._without_lone(lone[i], found[int(i), :], half[int(i), :], leverage, side, setting) for i in some]
        return in_places([(some, namespace(alone).stack(again))], alone)

    def _over_tasks(self, half: Array, side: Smoother) -> Array:
        """Return the second step (b, q) for the first (b, q)."""
        return (
            (take_rows(half.T, self.statistics.labelled).T @ self.labelled_tasks) * side.phi
        ) @ self.projected_tasks.T

    def _spread(self, values: Array, otherwise: float) -> Array:
        """Return what tasks that have a label have (q_l,) for all (q,), another value for those that have none."""
        more = namespace(values).concat([values, zeros((1,), values) + otherwise])
        return take_rows(more, self.place)

    def _without_tasks(self, found: Array, half: Array, leverage: Array, slack: Array) -> Array:
        """Return the second step of each task without what the first says of it."""
        xp = namespace(found)
        has_none = as_array_of(self.place < 0, found)
        return xp.where(has_none, found, (found - leverage * half) / slack)

    def _without_pairs(
        self, lone: np.ndarray, observed: np.ndarray, fitted: Array, left_out: Array, side: Smoother
    ) -> Array:
        """Return predictions in setting A: the label of a pair leaves its task, and nothing else does."""
        xp = namespace(fitted)
        found = self._over_tasks(fitted, side)
        leverage, slack = self._spread(side.leverage, 0.0), self._spread(side.slack, 1.0)
        changed = found - leverage * xp.where(as_array_of(observed, fitted), fitted - left_out, xp.zeros_like(fitted))
        if not lone.any():
            return changed
        tight = to_numpy(slack) <= side.slack_floor
        if (lone & tight).any():
            raise leverage_error(np.flatnonzero((lone & tight).any(axis=0)), int(slack.shape[0]), "tasks")
        return xp.where(as_array_of(lone, fitted), self._without_tasks(found, fitted, leverage, slack), changed)

    def _without_lone(
        self, lone: np.ndarray, found: Array, half: Array, leverage: Array, side: Smoother, setting: Setting
    ) -> Array:
        """Return the second step (q,) of a row without the tasks (q,) that have no other label."""
        xp, gone = namespace(found), np.flatnonzero(lone)
        if gone.size == self.statistics.labelled.size and self.statistics.has_constant:
            return found + float("nan")
        across = (take_rows(self.projected_tasks, gone) * side.phi) @ self.projected_tasks.T
        inner = take_rows(across.T, gone).T
        rest = plus_diagonal(-inner, 1.0)
        own = take_rows(half, gone)
        right = xp.concat([(take_rows(found, gone) - inner @ own)[:, None], across], axis=1)
        try:
            solved = solve(rest, right)
        except np.linalg.LinAlgError:
            raise leverage_error(gone, self.statistics.n_tasks, "tasks") from None
        exchanged, inverse = solved[:, 0], solved[:, 1:]
        without = found + (exchanged - own) @ across
        if setting.new_task:
            hat = leverage + xp.sum(across * inverse, axis=0)
            tight = (to_numpy(1.0 - hat) <= side.slack_floor) & ~lone & (self.place >= 0)
            if tight.any():
                raise leverage_error(np.flatnonzero(tight), self.statistics.n_tasks, "tasks")
            without = self._without_tasks(without, half, hat, 1.0 - hat)
        return in_places([(gone, exchanged)], without)

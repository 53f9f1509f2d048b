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

Where labels are missing, a row weighs something only in the groups of tasks that it has a label of. For a task without
its label the first step stays as it is. So the first step of a row, all of it left out (B, D) or none (C), is an
ordinary row z of predictions, one for each task.

The second step is linear in z, with a hat matrix H over the tasks that have a label. Leaving a task out of it is
a division again, :math:`(f_j - H_{jj}z_j)/(1 - H_{jj})`. A task whose *only* label is in the row that leaves has none
left, and goes from the second step of this row. With S all tasks of the row that do,

.. math:: \mathbf{x} = (\mathbf{I}-\mathbf{H}_{SS})^{-1}(\mathbf{f}_S - \mathbf{H}_{SS}\mathbf{z}_S), \qquad
          \tilde{\mathbf{H}} = \mathbf{H} + \mathbf{H}_{\cdot S}(\mathbf{I}-\mathbf{H}_{SS})^{-1}\mathbf{H}_{S\cdot}

are what is predicted for them without them, with which in place of :math:`\mathbf{z}_S` the second step is that
without S, and the hat matrix of what is left.

In setting A the label of a pair leaves its task and nothing else: of z the one entry changes. A pair of complete labels
is instead completed by both steps, as in `TwoStepRidge`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property

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
from dyadlearn.growing.inverse import Eigen
from dyadlearn.growing.statistics import Group, Statistics, plus_diagonal
from dyadlearn.growing.two_step import OnlineRidge, in_places
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum, check_cells, leverage_error

NOTHING_LEARNT = "The model has learnt no instances, or forgotten all: only what was learnt can be left out."

#: Bytes that the predictions of a block of rows may take under all regularisations. Every block goes over all groups,
#: so that it had better be large.
_BLOCK = 2**28


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


def _projected(Phi: Array, mean: Array | None, vectors: Array) -> Array:
    """Return features (l, d), where there is a mean less it, in an eigenbasis (d, k)."""
    if mean is None:
        return matmul(Phi, vectors)
    rows, rest = about(Phi, mean)
    product = matmul(rows, vectors)
    return product if rest is None else product - rest @ vectors


def check_learnt(side: Spectrum, rows: np.ndarray) -> None:
    """Raise if rows, which have these numbers, weigh more than learnt ones can."""
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
            f"X holds instances that the model has not learnt, among them row {rows[weight.argmax()]}: only what was "
            "learnt can be left out."
        )


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


def check_knows_tasks(known: Statistics, setting: Setting) -> None:
    """Raise if a setting is about new tasks and the statistics know no features of tasks."""
    if setting.new_task and known.tasks is None:
        raise ValueError(
            f"Setting {setting.value} is about new tasks, and a model without features of the tasks cannot speak of "
            "them: fit with tasks=, or ask for A or B."
        )


def online_holdout(model: OnlineRidge, Phi: Array, Y: Array, setting: Setting) -> Array:
    """Predict the labels of learnt rows as if they had not been learnt.

    Parameters
    ----------
    model : OnlineRidge
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Rows that are among those the model has learnt, and their labels; NaN where they were learnt without one.
    setting : Setting
        What is left out for a cell; C and D need statistics per task, and features of the tasks.

    Returns
    -------
    array of shape (l, q)
        A missing label is predicted too. NaN where tasks without features have a constant each, and nothing is left to
        take it from.

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
    left_out = _LeftOut(model, Phi, Y, setting)
    task_alpha = 0.0 if model.task_inverse is None else model.task_inverse.alpha
    blocks = [found for _, _, found in left_out.walk([model.inverse.alpha], [task_alpha])]
    return namespace(blocks[0]).concat(blocks, axis=0) + left_out.level


def online_squared_errors(
    model: OnlineRidge,
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
        Over labels that are observed and predicted.
    """
    left_out = _LeftOut(model, Phi, Y, setting)
    if model.task_inverse is None:
        return left_out.squared_errors(alphas, [0.0])[:, 0]
    if setting is not Setting.B or not model.statistics.is_complete:
        return left_out.squared_errors(alphas, task_alphas)
    errors, terms = left_out.new_instances(alphas, task_alphas)
    for row, column in np.argwhere(errors < 1e-9 * terms):  # little but cancellation is left of the closed form
        errors[row, column] = left_out.squared_errors([alphas[row]], [task_alphas[column]])[0, 0]
    return errors


def lone_labels(model: OnlineRidge, Y: Array) -> np.ndarray:
    """Return which labels (l, q) of learnt rows are not predicted without them: lone ones, with a constant each."""
    known = model.statistics
    if known.is_complete or known.tasks is not None or not known.has_constant:
        return np.zeros(tuple(Y.shape), dtype=bool)
    return np.asarray(~np.isnan(to_numpy(dense(Y))) & (known.counts == 1))


class _LeftOut:
    """Learnt rows and their labels, to be left out of a model in one setting.

    In settings A and B complete labels are compressed: the columns of the first step are products with the features of
    the tasks in their eigenbasis, instead of tasks.
    """

    def __init__(self, model: OnlineRidge, Phi: Array, Y: Array, setting: Setting) -> None:
        self.statistics = known = model.statistics
        if known.n_rows == 0:
            raise ValueError(NOTHING_LEARNT)
        self.Phi, self.Y, self.setting = double(Phi), Y, setting
        self.task_eigen = None if model.task_inverse is None else model.task_inverse.eigen
        is_pair = setting is Setting.A and known.is_complete
        self.compresses = known.is_complete and self.task_eigen is not None and not setting.new_task
        # Whether the first step is wanted without the rows.
        self.leaves_rows = self.task_eigen is None or not (setting is Setting.C or is_pair)
        # What is taken from labels, for the digits of what cancels: the mean over the tasks of their means.
        self.level = self._level()
        # Groups with the columns of the first step, the places of these, and eigendecompositions of the Gram matrices.
        self.parts: list[tuple[Group, np.ndarray, Eigen]] = []
        if known.is_complete:
            group = self._compressed_group() if self.compresses else known.groups[0]
            self.parts.append((group, np.arange(int(group.cross.shape[1])), model.inverse.eigen))
            return
        self._check_labels(~np.isnan(to_numpy(dense(Y))))
        for group, own in zip(known.groups, known.members, strict=True):
            self.parts.append((group, own, Eigen.of(group.gram, group.n_rows, group.rounding)))

    def _level(self) -> float:
        known, first = self.statistics, self.statistics.groups[0]
        if first.label_mean is None:
            return 0.0
        if not known.per_task:
            return float(first.label_mean[-1]) / known.n_tasks
        means = [group.label_mean for group in known.groups if group.n_rows]
        xp = namespace(first.label_mean)
        return float(xp.mean(xp.concat(means))) if means else 0.0

    def _compressed_group(self) -> Group:
        """Return the only group with columns that are products with the tasks in their eigenbasis."""
        known, group = self.statistics, self.statistics.groups[0]
        cross, label_mean = self._rotated(known.over_tasks(group.cross)), group.label_mean
        if label_mean is not None:
            label_mean = self._rotated(known.over_tasks(label_mean[None, :]))[0, :]
            label_mean[-1] = 0.0  # less the level they add up to nothing
        return replace(group, cross=cross, label_mean=label_mean)

    def _check_labels(self, observed: np.ndarray) -> None:
        """Raise if the labels cannot be those that were learnt, as far as the groups tell."""
        known = self.statistics
        first = np.array([own[0] for own in known.members])
        same = (observed == observed[:, first[known.group_of]]).all(axis=1)
        many = (observed.sum(axis=0) > known.counts).any()
        if many or not same.all():
            row = "" if same.all() else f", such as those of row {int(np.argmin(same))}"
            raise ValueError(
                f"Y has labels that were not learnt, or lacks some that were{row}: give them as they were learnt, NaN "
                "where there was none."
            )

    def squared_errors(self, alphas: Sequence[float], task_alphas: Sequence[float]) -> np.ndarray:
        """Return the mean squared errors (n_alphas, n_task_alphas) of predictions."""
        errors = np.zeros((len(alphas), len(task_alphas)))
        counts = np.zeros(errors.shape, dtype=np.int64)
        for place, labels, found in self.walk(alphas, task_alphas):
            xp, gaps = namespace(found), found - labels
            scored = ~xp.isnan(gaps)
            errors[place] += float(xp.sum(xp.where(scored, gaps, xp.zeros_like(gaps)) ** 2))
            counts[place] += int(xp.sum(xp.astype(scored, xp.int64)))
        if not counts.all():
            raise ValueError(
                f"In setting {self.setting.value} there is no label to score: each is the only one of its task, or not "
                "observed."
            )
        return errors / counts

    def new_instances(self, alphas: Sequence[float], task_alphas: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean squared errors of complete labels in setting B, and the sizes of the terms of the sum."""
        shape = (len(alphas), int(self.projected_tasks.shape[1]))
        squares, crosses, total = np.zeros(shape), np.zeros(shape), 0.0
        for rows in self._blocks(len(alphas)):
            labels, size = self._compressed(rows)
            total += size
            for place, (_, D, _, _) in enumerate(self._first_step(rows, labels, alphas)):
                xp = namespace(D)
                squares[place] += to_numpy(xp.sum(D * D, axis=0))
                crosses[place] += to_numpy(xp.sum(D * labels, axis=0))
        norms = to_numpy(self.tasks.penalised)
        if self.statistics.has_constant:
            norms = np.append(norms, float(self.statistics.n_tasks))
        phi = np.stack([to_numpy(self.tasks.smoother(Tikhonov(), alpha).phi) for alpha in task_alphas], axis=1)
        own, cross, count = (squares * norms) @ phi**2, crosses @ phi, self.Y.shape[0] * self.Y.shape[1]
        return (own - 2.0 * cross + total) / count, (own + 2.0 * np.abs(cross) + total) / count

    def _compressed(self, rows: slice) -> tuple[Array, float]:
        """Return labels less `level` times the projected tasks (b, r'), and the sum of their squares."""
        labels, level = double(self.Y[rows, :]), self.level
        if not is_sparse(labels):
            labels = labels - level
            return labels @ self.projected_tasks, float(namespace(labels).sum(labels**2))
        product, stored = matmul(labels, self.projected_tasks), labels.data
        if level:
            product[:, -1] -= level * self.statistics.n_tasks
        return product, float(np.sum(stored * (stored - 2.0 * level))) + level**2 * labels.shape[0] * labels.shape[1]

    def _blocks(self, n_alphas: int) -> Iterator[slice]:
        """Yield blocks of rows whose predictions under so many regularisations fit in memory."""
        size = 8 * 2 * (n_alphas + 3) * int(self.Y.shape[1])
        return row_blocks(int(self.Y.shape[0]), size, _BLOCK)

    def walk(
        self, alphas: Sequence[float], task_alphas: Sequence[float]
    ) -> Iterator[tuple[tuple[int, int], Array, Array]]:
        """Yield blocks of rows: where their regularisations stand, their labels, their predictions, both (b, q).

        Both are less `level`.
        """
        tasks = [None if self.task_eigen is None else self.tasks.smoother(Tikhonov(), each) for each in task_alphas]
        for rows in self._blocks(len(alphas)):
            labels = dense(double(self.Y[rows, :])) - self.level
            first = self._first_step(rows, labels @ self.projected_tasks if self.compresses else labels, alphas)
            for side in tasks:
                tight = side is not None and self.setting.new_task and self._tight_tasks(side.slack, side)
                if np.any(tight):
                    raise leverage_error(np.flatnonzero(tight), self.statistics.n_tasks, "tasks")
            for row, (fitted, left_out, leverage, slack) in enumerate(first):
                for column, side in enumerate(tasks):
                    if side is None:  # of independent tasks a pair is as good as its row
                        found = left_out
                    elif self.compresses and self.setting is Setting.A:
                        found = self._completed_pairs(labels, fitted, leverage, slack, side)
                    else:
                        found = self._second_step(labels, fitted, left_out, side)
                    yield (row, column), labels, found

    # The first step -----------------------------------------------------------------------------------

    def _first_step(
        self, rows: slice, labels: Array, alphas: Sequence[float]
    ) -> list[tuple[Array, Array, Array, Array]]:
        """Return predictions (b, p) of the first step with and without the rows, for each regularisation.

        Beside them are the leverages and slacks (b, 1) of the rows, where there is a single part. For a task whose only
        label leaves, nothing is said without it: NaN, unless there is no constant.
        """
        is_single = len(self.parts) == 1
        found = [
            self._of_group(group, eigen, rows, labels if is_single else take_rows(labels.T, columns).T, alphas)
            for group, columns, eigen in self.parts
        ]
        fitted, left_out, leverage, slack = found[0]
        if not is_single:
            fitted, left_out = (self._in_columns([each[which] for each in found]) for which in (0, 1))
        return [
            (fitted[:, place, :], left_out[:, place, :], leverage[:, place, None], slack[:, place, None])
            for place in range(len(alphas))
        ]

    def _in_columns(self, pieces: Sequence[Array]) -> Array:
        """Return what the parts predict (b, p, c) put together, each column in its place."""
        swapped = namespace(pieces[0]).permute_dims
        placed = [(part[1], swapped(piece, (2, 1, 0))) for part, piece in zip(self.parts, pieces, strict=True)]
        return swapped(in_places(placed), (2, 1, 0))

    def _of_group(
        self, group: Group, eigen: Eigen, rows: slice, labels: Array, alphas: Sequence[float]
    ) -> tuple[Array, Array, Array, Array]:
        """Return predictions (b, p, c) of a group with and without the rows, their leverages and slacks (b, p)."""
        xp, shape = namespace(labels), (int(labels.shape[0]), len(alphas), int(labels.shape[1]))
        none = zeros(shape[:2], labels)
        if group.n_rows == 0:
            nothing = zeros(shape, labels) + (0.0 if group.mean is None else float("nan"))
            return nothing, nothing, none, none
        means = 0.0 if group.label_mean is None else group.label_mean - (0.0 if self.compresses else self.level)
        phi = 1.0 / (eigen.values[:, None] + as_array_of(np.array(alphas), labels, labels.dtype))
        target = phi[:, :, None] * (eigen.vectors.T @ group.cross)[:, None, :]
        projected = _projected(self.Phi[rows, :], group.mean, eigen.vectors)
        about_means = xp.reshape(projected @ xp.reshape(target, (-1, shape[1] * shape[2])), shape)
        fitted = about_means + means
        inside = np.arange(shape[0])
        if not self.statistics.is_complete:
            inside = np.flatnonzero(~np.isnan(to_numpy(labels[:, 0])))
            if not inside.size:
                return fitted, fitted, none, none
            about_means, labels, projected = (take_rows(each, inside) for each in (about_means, labels, projected))
        side = side_of_rows(projected, eigen.values, group.n_rows, group.mean is not None)
        check_learnt(side, inside + rows.start)
        leverage, slack, floors = leverage_and_slack(side, alphas)
        if not self.leaves_rows:
            return fitted, fitted, leverage, slack
        if group.n_rows == 1 and group.mean is not None and not self.statistics.is_complete:
            gone = about_means + float("nan")
        else:
            tight = (to_numpy(slack) <= floors).any(axis=1)
            if tight.any():
                raise leverage_error(inside[tight] + rows.start, int(self.Y.shape[0]), "rows")
            gone = about_means - leverage[:, :, None] * (labels - means)[:, None, :]
            gone /= slack[:, :, None]
            gone += means
        return fitted, gone if inside.size == shape[0] else in_places([(inside, gone)], fitted), leverage, slack

    # The second step ----------------------------------------------------------------------------------

    def _rotated(self, columns: Array) -> Array:
        """Return columns (c, r), with a constant (c, r + 1), in the eigenbasis of the tasks."""
        assert self.task_eigen is not None
        vectors = self.task_eigen.vectors
        if not self.statistics.has_constant:
            return columns @ vectors
        return namespace(columns).concat([columns[:, :-1] @ vectors, columns[:, -1:]], axis=1)

    @cached_property
    def projected_tasks(self) -> Array:
        """Features of all tasks in the eigenbasis, (q, r')."""
        return self._rotated(self.statistics.task_rows)

    @cached_property
    def tasks(self) -> Spectrum:
        """The side of the tasks: what each weighs beside those that have labels."""
        assert self.task_eigen is not None
        values, rows = self.task_eigen.values, self.projected_tasks
        count = int(self.statistics.labelled.size)
        return side_of_rows(rows[:, : values.shape[0]], values, count, self.statistics.has_constant)

    @cached_property
    def is_labelled(self) -> Array:
        """Which tasks (q,) have a label, as an array of the library of the labels."""
        return as_array_of(np.isin(np.arange(self.statistics.n_tasks), self.statistics.labelled), self.projected_tasks)

    def _over_tasks(self, half: Array, side: Smoother) -> Array:
        """Return the second step (b, q) for the first, compressed (b, r') or not (b, q)."""
        if not self.compresses:
            half = namespace(half).where(self.is_labelled, half, zeros((), half)) @ self.projected_tasks
        return (half * side.phi) @ self.projected_tasks.T

    def _tight_tasks(self, slack: Array, side: Smoother) -> np.ndarray:
        """Return which tasks (q,) that have a label are fitted whatever it is."""
        return np.asarray((to_numpy(slack) <= side.slack_floor) & to_numpy(self.is_labelled))

    def _completed_pairs(self, labels: Array, fitted: Array, leverage: Array, slack: Array, side: Smoother) -> Array:
        """Return predictions (b, q) of pairs that are completed by both steps."""
        slack = slack + leverage * side.slack
        check_cells(slack, 0.0)
        return (self._over_tasks(fitted, side) - leverage * side.leverage * labels) / slack

    def _second_step(self, labels: Array, fitted: Array, left_out: Array, side: Smoother) -> Array:
        """Return predictions (b, q) of the second step for those of the first with and without the rows."""
        known, setting = self.statistics, self.setting
        if self.compresses:
            return self._over_tasks(left_out, side)
        xp, observed = namespace(fitted), ~np.isnan(to_numpy(labels))
        lone = observed & (known.counts == 1) & (not known.is_complete)
        half = fitted
        if setting.new_instance:
            # A lone entry has no say: any number will do before it is exchanged.
            half = xp.where(as_array_of(lone, fitted), fitted, left_out)
        found = self._over_tasks(half, side)
        if setting is Setting.A:
            # The label of a pair leaves its task, and nothing else does; a lone one takes its task with it.
            gaps = xp.where(as_array_of(observed & ~lone, fitted), fitted - left_out, zeros((), fitted))
            changed = found - side.leverage * gaps
            if not lone.any():
                return changed
            tight = lone.any(axis=0) & self._tight_tasks(side.slack, side)
            if tight.any():
                raise leverage_error(np.flatnonzero(tight), known.n_tasks, "tasks")
            alone = self._without_tasks(found, half, side.leverage, side.slack)
            return xp.where(as_array_of(lone, fitted), alone, changed)
        alone = self._without_tasks(found, half, side.leverage, side.slack) if setting.new_task else found
        if not setting.new_instance or not lone.any():
            return alone
        some = np.flatnonzero(lone.any(axis=1))
        again = [self._without_lone(lone[i], found[int(i), :], half[int(i), :], side) for i in some]
        return in_places([(some, xp.stack(again))], alone)

    def _without_tasks(self, found: Array, half: Array, leverage: Array, slack: Array) -> Array:
        """Return the second step of each task without what the first says of it."""
        xp = namespace(found)
        slack = xp.where(self.is_labelled, slack, xp.ones_like(slack))
        return xp.where(self.is_labelled, (found - leverage * half) / slack, found)

    def _without_lone(self, lone: np.ndarray, found: Array, half: Array, side: Smoother) -> Array:
        """Return the second step (q,) of a row without the tasks (q,) that have no other label."""
        xp, gone = namespace(found), np.flatnonzero(lone)
        if gone.size == self.statistics.labelled.size and self.statistics.has_constant:
            return found + float("nan")
        across = (take_rows(self.projected_tasks, gone) * side.phi) @ self.projected_tasks.T
        inner = take_rows(across.T, gone).T
        own = take_rows(half, gone)
        right = xp.concat([(take_rows(found, gone) - inner @ own)[:, None], across], axis=1)
        try:
            solved = solve(plus_diagonal(-inner, 1.0), right)
        except np.linalg.LinAlgError:
            raise leverage_error(gone, self.statistics.n_tasks, "tasks") from None
        exchanged, inverse = solved[:, 0], solved[:, 1:]
        without = found + (exchanged - own) @ across
        if self.setting.new_task:
            hat = side.leverage + xp.sum(across * inverse, axis=0)
            tight = self._tight_tasks(1.0 - hat, side) & ~lone
            if tight.any():
                raise leverage_error(np.flatnonzero(tight), self.statistics.n_tasks, "tasks")
            without = self._without_tasks(without, half, hat, 1.0 - hat)
        return in_places([(gone, exchanged)], without)

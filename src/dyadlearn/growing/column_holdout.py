r"""Hold-out predictions for rows that a model of labels with holes has learnt.

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

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, as_array_of, dense, double, namespace, row_blocks, solve, take_rows, to_numpy, zeros
from dyadlearn.filters import Tikhonov
from dyadlearn.growing.column_ridge import ColumnRidge, in_places
from dyadlearn.growing.inverse import Eigen
from dyadlearn.growing.leaving import (
    NOTHING_LEARNT,
    check_learnt,
    check_slack,
    leverage_and_slack,
    projected,
    rotated,
    side_of_rows,
)
from dyadlearn.growing.statistics import Statistics, plus_diagonal
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error

__all__ = ["column_holdout", "column_squared_errors", "lone_labels"]

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


class _ColumnsLeftOut:
    """Learnt rows, their labels, and the side of each group of tasks in its eigenbasis."""

    def __init__(self, model: ColumnRidge, Phi: Array, Y: Array) -> None:
        self.statistics = known = model.statistics
        if known.n_rows == 0:
            raise ValueError(NOTHING_LEARNT)
        self.Phi, self.Y = double(Phi), dense(double(Y))
        self.observed = ~np.isnan(to_numpy(self.Y))
        self.task_eigen = None if model.task_inverse is None else model.task_inverse.eigen
        self._check_labels()
        # Once for all blocks of rows and all regularisations.
        self.eigen = [Eigen.of(group.gram, group.n_rows, group.rounding) for group in known.groups]

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
    def projected_tasks(self) -> Array:
        """All tasks in the eigenbasis of those that have a label, (q, r'), with a constant and a column of ones."""
        assert self.task_eigen is not None
        return rotated(self.statistics.task_rows, self.task_eigen.vectors, self.statistics.has_constant)

    @cached_property
    def labelled_tasks(self) -> Array:
        """The rows of `projected_tasks` of the tasks that have a label."""
        return take_rows(self.projected_tasks, self.statistics.labelled)

    @cached_property
    def tasks(self) -> Spectrum:
        assert self.task_eigen is not None
        values, known = self.task_eigen.values, self.statistics
        return side_of_rows(
            self.labelled_tasks[:, : values.shape[0]], values, int(known.labelled.size), known.has_constant
        )

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

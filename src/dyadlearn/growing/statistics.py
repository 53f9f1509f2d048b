r"""Statistics of two-step ridge regression that grow and shrink with the data.

With features :math:`\boldsymbol\Phi` (m × d) of the instances and :math:`\boldsymbol\Psi` (q × r)
of the tasks, the model depends on the data only through

.. math:: \boldsymbol\Phi^\top\boldsymbol\Phi, \qquad \boldsymbol\Phi^\top\mathbf{Y}, \qquad
          \boldsymbol\Psi^\top\boldsymbol\Psi, \qquad \boldsymbol\Psi,

whose sizes do not depend on m. New instances are added to the first two, new tasks to the last
three, and both can be subtracted again.

With a constant on each side, the products are those of the centred features
:math:`\boldsymbol\Phi_c` and
:math:`\boldsymbol\Psi_c`,

.. math:: \boldsymbol\Phi_c^\top\boldsymbol\Phi_c, \qquad \boldsymbol\Phi_c^\top\mathbf{Y}, \qquad
          \tfrac1m\mathbf{1}^\top\mathbf{Y}, \qquad \boldsymbol\Psi_c^\top\boldsymbol\Psi_c,

and both means. They are merged and split again as `dyadlearn._means` describes; labels are treated
as features.

Where labels are missing, a task j has the statistics of the instances :math:`o_j` whose label is
observed,
:math:`\boldsymbol\Phi_{o_j}^\top\boldsymbol\Phi_{o_j}` and :math:`\boldsymbol\Phi_{o_j}^\top\mathbf{y}_{o_j}`, with a
constant relative to the means over :math:`o_j`. Tasks that were observed for the same instances
share a Gram matrix and form a `Group`. Complete labels are one group. Groups are never joined: two
tasks are in one group of merged statistics if they are in one group of both. Tasks without a label
in a batch are not updated.

All functions are pure: they return new statistics and do not change their arguments. Statistics are
in double precision for data of any precision, because they may be sums over millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    BLOCK,
    Array,
    Shape,
    array_bytes,
    as_array_of,
    double,
    epsilon,
    is_definite,
    is_sparse,
    is_transposed,
    largest,
    matmul,
    namespace,
    row_blocks,
    row_major,
    take_rows,
    to_numpy,
    values_in,
    zeros,
)
from dyadlearn._codes import pattern_codes
from dyadlearn._means import (
    about,
    add_outer,
    centred,
    difference,
    gram_about,
    mean_of,
    moved,
    outer,
    value,
    with_ones,
)
from dyadlearn._memory import check_memory
from dyadlearn._messages import Message
from dyadlearn._state import Stored
from dyadlearn._svd import gram_eigen, unit_scale
from dyadlearn.growing.inverse import Eigen, Inverse, plus_diagonal
from dyadlearn.solve.leaving import members_of

#: Gram matrices that differ by less than this share of their diagonals belong to the same rows.
SAME_GRAM = 1e-10

_REMEDY = "compress the features with a feature_map such as Landmarks"


@dataclass(frozen=True, eq=False)
class Group(Stored):
    r"""Sums over the rows with observed labels, for tasks that were observed for the same rows.

    Attributes
    ----------
    n_rows : int
    gram : array of shape (d, d)
        :math:`\boldsymbol\Phi^\top\boldsymbol\Phi`, with a constant :math:`\boldsymbol\Phi_c^\top\boldsymbol\Phi_c`.
    cross : array of shape (d, c)
        :math:`\boldsymbol\Phi^\top\mathbf{Y}`, with a constant :math:`\boldsymbol\Phi_c^\top\mathbf{Y}`.
    mean : array of shape (2, d) or None
        Mean of the features, in two parts (`dyadlearn._means`); None without a constant.
    label_mean : array of shape (c,) or None
        :math:`\mathbf{1}^\top\mathbf{Y}/n`; None without a constant.
    rounding : array of shape (d,) or None
        Rounding error of the diagonal of `gram` after subtracting rows, in units of the machine
        precision. None is
        :math:`\sqrt n` times the diagonal, the rounding error of sums.
    """

    n_rows: int
    gram: Array
    cross: Array
    mean: Array | None = None
    label_mean: Array | None = None
    rounding: Array | None = None

    _shapes: ClassVar[Mapping[str, str]] = {
        "gram": "d d",
        "cross": "d c",
        "mean": "t d",
        "label_mean": "c",
        "rounding": "d",
    }

    def _fits(self) -> bool:
        has_means = self.mean is not None
        return has_means == (self.label_mean is not None) and (
            self.mean is None or self.mean.shape[0] == 2
        )

    @classmethod
    def of(cls, Phi: Array, Y: Array, *, constant: bool) -> Group:
        """Return the sums over rows (l, d) with complete labels (l, c).

        Rows are added block by block: only a block is ever copied to double precision.
        """
        widths = [part.shape[1] for part in (Phi, Y) if not is_sparse(part)]
        blocks = list(row_blocks(Phi.shape[0], *widths)) or [slice(0, 0)]
        sums = _sums_about_mean if constant else _sums
        with np.errstate(over="ignore", invalid="ignore"):
            total = reduce(
                cls.plus, (sums(double(Phi[rows, :]), double(Y[rows, :])) for rows in blocks)
            )
            xp = namespace(total.gram)
            size = float(xp.linalg.trace(total.gram)) + float(xp.sum(total.cross))
            size += float(xp.sum(total.label_mean)) if constant else 0.0
        if not math.isfinite(size):
            raise ValueError(
                Message(
                    "Sums of products of the features and labels overflow: scale <X>, <Y> or "
                    "<tasks> down."
                )
            )
        return total

    @cached_property
    def eigen(self) -> Eigen:
        """The eigendecomposition of the Gram matrix."""
        return Eigen(*gram_eigen(self.gram, self.n_rows, self.rounding))

    def inverse(self, alpha: float) -> Inverse:
        """Return the regularised inverse of the Gram matrix; the last one is cached."""
        inverse: Inverse | None = vars(self).get("_inverse")
        if inverse is None or inverse.alpha != alpha:
            inverse = vars(self)["_inverse"] = Inverse.of(
                self.gram, self.n_rows, alpha, self.rounding
            )
        return inverse

    def solved(self, alpha: float) -> tuple[Array, str | None]:
        """Return the coefficients (d, c) of ridge regression and the text of a warning or None; the last are cached."""
        if alpha not in (solutions := vars(self).get("_solved", {})):
            inverse = Inverse.of(self.gram, self.n_rows, alpha, self.rounding)
            solutions = vars(self)["_solved"] = {alpha: (inverse.solve(self.cross), inverse.doubt)}
        coefficients, doubt = solutions[alpha]
        return coefficients, doubt

    def columns(self, places: np.ndarray) -> Group:
        """Return the sums of some columns; the Gram matrix is the same one."""
        if self.label_mean is None:
            label_mean = None
        else:
            label_mean = take_rows(self.label_mean, places)
        return replace(self, cross=take_rows(self.cross.T, places).T, label_mean=label_mean)

    def beside(self, other: Group) -> Group:
        """Return the sums of the columns of both, which are over the same rows."""
        xp = namespace(self.cross)
        if self.label_mean is None:
            label_mean = None
        else:
            label_mean = xp.concat([self.label_mean, other.label_mean])
        return replace(
            self, cross=xp.concat([self.cross, other.cross], axis=1), label_mean=label_mean
        )

    def plus(self, other: Group, sign: int = 1) -> Group:
        """Return the sums over the rows of both, or with sign −1 the sums minus those over the rows of `other`."""
        n_rows = self.n_rows + sign * other.n_rows
        parts = (self.gram, other.gram), (self.cross, other.cross)
        gram, cross = (mine + theirs if sign > 0 else mine - theirs for mine, theirs in parts)
        total = replace(self, n_rows=n_rows, gram=gram, cross=cross)
        if sign < 0 or self.rounding is not None or other.rounding is not None:
            total = replace(total, rounding=(self.noise**2 + other.noise**2) ** 0.5)
        if self.mean is None:
            return total
        if n_rows == 0:
            return _without_means(total)
        if self.n_rows == 0:
            return replace(total, mean=other.mean, label_mean=other.label_mean)
        label_means: Any = self.label_mean, other.label_mean
        step = difference(other.mean, self.mean)
        label_step = label_means[1] - label_means[0]
        share = sign * other.n_rows / n_rows
        weight = math.sqrt(
            self.n_rows * other.n_rows / n_rows
        )  # on both sides, so that the sums stay symmetric
        add_outer(gram, sign * weight * step, weight * step)
        add_outer(cross, sign * weight * step, weight * label_step)
        return replace(
            total,
            mean=moved(self.mean, share * step),
            label_mean=label_means[0] + share * label_step,
        )

    def minus(self, gone: Group, what: str) -> Group:
        """Return the sums without those over some of the rows; `what` is the name of the rows in messages.

        Raises
        ------
        ValueError
            If these rows cannot have been added: they are too many, or the difference would not be
            a Gram matrix.
        """
        if gone.n_rows > self.n_rows:
            raise ValueError(
                f"There are {gone.n_rows} {what} to forget, but only {self.n_rows} were learned."
            )
        left = self.n_rows - gone.n_rows
        rest = self.plus(gone, -1)
        has_constant = self.mean is not None
        xp = namespace(self.gram)
        sizes = xp.linalg.diagonal(self.gram)
        offsets = self.offsets
        if left <= has_constant:
            # Only rounding errors remain (a single row equals its mean), and they are set to zero.
            gaps = xp.abs(xp.linalg.diagonal(rest.gram))
            if has_constant and left == 0:
                gaps = gaps + self.n_rows * difference(gone.mean, self.mean) ** 2
            fits = bool(xp.all(gaps <= 1e-8 * (sizes + offsets) + 1e-14 * self.noise))
            rounding = None if left == 0 else rest.rounding
            rest = replace(
                rest,
                gram=xp.zeros_like(rest.gram),
                cross=xp.zeros_like(rest.cross),
                rounding=rounding,
            )
        else:
            # The smallest normal number allows to forget rows of zeros. The offsets allow for
            # rounding of the mean.
            smallest = float(xp.finfo(self.gram.dtype).smallest_normal)
            slack = 1e-9 * sizes + 1e-20 * offsets + 1e-14 * self.noise + smallest
            fits = is_definite(plus_diagonal(rest.gram, slack))
        if not fits:
            raise ValueError(
                Message(
                    "<X> holds instances that were not learned as they are given here: the Gram "
                    "matrix of the others would not be positive semi-definite. Give the rows "
                    "exactly as they were learned. Nothing was changed."
                )
            )
        return self._cleared(rest) if has_constant else rest

    def _cleared(self, rest: Group) -> Group:
        """Return the remaining sums, with zeros for features that are equal in all remaining rows up to rounding."""
        xp = namespace(self.gram)
        old, new = (xp.linalg.diagonal(group.gram) for group in (self, rest))
        level = 8.0 * self.n_rows * epsilon(old) * old
        same = new <= level
        if not bool(xp.any(same)):
            return rest
        zero = zeros((), self.gram)
        gram = xp.where(same[:, None] | same[None, :], zero, rest.gram)
        cross = xp.where(same[:, None], zero, rest.cross)
        mean = xp.where(same & (value(rest.mean) ** 2 <= level * epsilon(old)), zero, rest.mean)
        return replace(rest, gram=gram, cross=cross, mean=mean)

    @property
    def noise(self) -> Array:
        """Rounding error of the diagonal (d,) of the Gram matrix, in units of the machine precision."""
        if self.rounding is not None:
            return self.rounding
        return math.sqrt(self.n_rows) * namespace(self.gram).linalg.diagonal(self.gram)

    @property
    def offsets(self) -> Array:
        """Difference (d,) of the diagonals of the Gram matrices about zero and about the mean."""
        if self.mean is None:
            return zeros((int(self.gram.shape[0]),), self.gram)
        return self.n_rows * value(self.mean) ** 2

    @property
    def label_size(self) -> float:
        """Scale of the products of features and labels."""
        xp = namespace(self.cross)
        size = float(xp.max(xp.abs(self.cross)))
        if self.label_mean is None:
            return size
        spread = float(xp.max(xp.linalg.diagonal(self.gram)))
        return size + math.sqrt(max(spread, 0.0) * self.n_rows) * float(
            xp.max(xp.abs(self.label_mean))
        )

    def digits_lost(self, after: Group, alpha: float) -> float:
        r"""Return the relative rounding error of the sums `after` rows were subtracted from these sums.

        A difference has the rounding error of its terms. It is compared with the remaining sum of
        squares plus
        :math:`\lambda` of each feature, and with the largest remaining product of features and labels.
        """
        if after.n_rows == 0:
            return 0.0
        xp = namespace(after.gram)
        eps = float(np.finfo(np.float64).eps)
        old, new = (xp.linalg.diagonal(group.gram) for group in (self, after))
        noise = 8.0 * eps * after.noise
        left = (
            xp.where(new > noise, new, eps * old) + alpha
        )  # a sum below the noise may be as large as the rounding
        # A feature whose sum is only rounding is ignored if larger features remain.
        gone = (new <= noise) & (
            left <= 1e3 * max(after.n_rows, int(new.shape[0])) * eps * xp.max(left)
        )
        lost = largest(xp.where(gone, 0.0, eps * old / xp.where(gone, 1.0, left)))
        sizes = self.label_size, after.label_size
        return max(lost, eps * sizes[0] / sizes[1] if sizes[1] > 0 else 0.0)

    def has_rows_of(self, other: Group) -> bool:
        """Return whether both are sums over the same rows, up to rounding, for any columns."""
        # The mean has the rounding error of its offset, and of the rows that were forgotten.
        offsets = other.offsets
        noise = other.noise
        xp = namespace(self.gram)
        if self.n_rows != other.n_rows or not same_gram(
            self.gram, other.gram, 1e-14 * offsets + 1e-4 * noise
        ):
            return False
        if self.mean is None:
            return True
        spreads = xp.linalg.diagonal(other.gram) ** 0.5
        steps = math.sqrt(max(other.n_rows, 1)) * xp.abs(difference(self.mean, other.mean))
        return bool(xp.all(steps <= SAME_GRAM * spreads + 1e-14 * (offsets + noise) ** 0.5))


def _sums(Phi: Array, Y: Array) -> Group:
    """Return the sums over rows."""
    return Group(int(Phi.shape[0]), matmul(Phi.T, Phi), matmul(Phi.T, Y))


def _sums_about_mean(Phi: Array, Y: Array) -> Group:
    """Return the sums over rows about their mean."""
    Phi, Y, n = row_major(Phi), row_major(Y), int(Phi.shape[0])
    if n == 0:
        return _without_means(_sums(Phi, Y))
    mean = mean_of(Phi)
    label_mean = mean_of(Y)
    rows, rest = about(Phi, mean)
    labels, label_rest = about(Y, label_mean)
    gram = gram_about(rows, rest)
    cross = matmul(rows.T, labels)
    if (
        rest is not None and label_rest is not None
    ):  # if one factor is centred, the other need not be
        cross -= n * outer(rest, label_rest)
    return Group(n, gram, cross, mean, value(label_mean))


def _without_means(none: Group) -> Group:
    """Return sums over no rows, with means of zero."""
    d, c = none.cross.shape
    return replace(none, mean=zeros((2, d), none.gram), label_mean=zeros((c,), none.gram))


@dataclass(frozen=True, eq=False)
class Statistics(Stored):
    r"""Sufficient statistics of two-step ridge regression.

    Attributes
    ----------
    groups : tuple of Group
        Groups of tasks that were observed for the same instances, with the tasks in order. Complete
        labels are one group.
    group_of : integer array of shape (q,)
        Number of the group of each task.
    instances : Group or None
        Sums over all instances, without tasks. None if labels are complete: the only group then has
        all instances.
    tasks : array of shape (q, r) or None
        :math:`\boldsymbol\Psi`; None for tasks without features.
    task_sums : Group or None
        :math:`\boldsymbol\Psi^\top\boldsymbol\Psi` of the tasks that have a label, with a constant about their mean,
        without columns; None for tasks without features.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.statistics import collect, merge
    >>> seen = collect(np.array([[1.0, 2.0]]), np.array([[3.0]]))
    >>> merge(seen, collect(np.array([[0.0, 1.0]]), np.array([[1.0]]))).gram
    array([[1., 2.],
           [2., 5.]])
    >>> X, Y = np.array([[1.0], [2.0], [3.0]]), np.array([[1.0, 5.0, 1.0], [2.0, np.nan, 0.0], [3.0, 6.0, 1.0]])
    >>> seen = collect(X, Y)
    >>> seen.counts, [group.gram.tolist() for group in seen.groups]
    (array([3, 2, 3]), [[[14.0]], [[10.0]]])
    """

    groups: tuple[Group, ...]
    group_of: np.ndarray
    instances: Group | None = None
    tasks: Array | None = None
    task_sums: Group | None = None

    _shapes: ClassVar[Mapping[str, str]] = {"tasks": "n_tasks r", "task_sums.gram": "r r"}

    def _fits(self) -> bool:
        if self.group_of.dtype.kind != "i" or not np.array_equal(
            np.unique(self.group_of), np.arange(len(self.groups))
        ):
            return False
        whole = self.groups[0] if self.instances is None else self.instances
        sums = self.task_sums
        plain = [group for group in (self.instances, sums) if group is not None]
        return (
            (len(self.groups) == 1 or self.instances is not None)
            and [int(group.cross.shape[1]) for group in self.groups]
            == [tasks.size for tasks in self.members]
            and all(group.gram.shape == whole.gram.shape for group in self.groups)
            and all(
                (group.mean is None) == (whole.mean is None) for group in (*self.groups, *plain)
            )
            and all(group.cross.shape[1] == 0 for group in plain)
            and all(0 <= group.n_rows <= whole.n_rows for group in self.groups)
            and (self.tasks is None) == (sums is None)
            and (sums is None or sums.n_rows == self.labelled.size)
        )

    # All instances and all tasks --------------------------------------------------------------------

    @property
    def is_complete(self) -> bool:
        """Whether no label is missing."""
        return self.instances is None

    @property
    def everyone(self) -> Group:
        """Sums over all instances, without columns."""
        if self.instances is None:
            return self.groups[0].columns(np.arange(0))
        return self.instances

    @property
    def n_rows(self) -> int:
        """Number m of instances."""
        return (self.instances or self.groups[0]).n_rows

    @property
    def n_tasks(self) -> int:
        """Number q of tasks."""
        return int(self.group_of.size)

    @property
    def gram(self) -> Array:
        """Gram matrix (d, d) of all instances."""
        return (self.instances or self.groups[0]).gram

    @property
    def mean(self) -> Array | None:
        """Mean (2, d) of all instances, which predictions are about; None without a constant."""
        return (self.instances or self.groups[0]).mean

    @property
    def task_mean(self) -> Array | None:
        """Mean (2, r) of the features of the tasks that have a label; None without a constant or features."""
        if self.task_sums is None:
            return None
        return self.task_sums.mean

    @property
    def has_constant(self) -> bool:
        """Whether both sides have an unpenalised constant; without task features, each task has one."""
        return self.mean is not None

    @property
    def has_own_constants(self) -> bool:
        """Whether each task has a separate intercept and labels may be missing."""
        return self.has_constant and self.tasks is None and not self.is_complete

    @property
    def width(self) -> int:
        """Number of columns of coefficients: r features of the tasks and the constant, or q tasks without any."""
        return int(self.n_tasks if self.tasks is None else self.tasks.shape[1] + self.has_constant)

    def rows_of_tasks(self, tasks: Array) -> Array:
        """Return features of tasks (c, r), known or not, as they multiply coefficients: with a constant (c, r + 1)."""
        if self.task_mean is None:
            return tasks
        return with_ones(centred(tasks, self.task_mean))

    @cached_property
    def task_rows(self) -> Array | None:
        r""":math:`\boldsymbol\Psi`, with a constant :math:`[\boldsymbol\Psi_c, \mathbf{1}]`; None without features."""
        if self.tasks is None:
            return None
        return self.rows_of_tasks(self.tasks)

    def with_task_rows_of(self, other: Statistics) -> Statistics:
        """Return these statistics with the cached `task_rows` of others, of the same tasks about the same mean."""
        vars(self).update(
            {name: value for name, value in vars(other).items() if name == "task_rows"}
        )
        return self

    # Tasks and groups -------------------------------------------------------------------------------

    @cached_property
    def members(self) -> tuple[np.ndarray, ...]:
        """The tasks of each group, ascending."""
        return tuple(members_of(self.group_of))

    @cached_property
    def counts(self) -> np.ndarray:
        """Number of observed labels of each task, shape (q,)."""
        return np.asarray(np.array([group.n_rows for group in self.groups])[self.group_of])

    @cached_property
    def labelled(self) -> np.ndarray:
        """The tasks that the second step goes over, ascending: those that have a label, all of complete labels."""
        if self.is_complete:
            return np.arange(self.n_tasks)
        return np.flatnonzero(self.counts)

    def part(self, group: int, tasks: np.ndarray) -> Group:
        """Return the sums of some tasks of a group."""
        known = self.members[group]
        if len(known) == len(tasks):
            return self.groups[group]
        return self.groups[group].columns(np.searchsorted(known, tasks))

    def over_tasks(self, columns: Array) -> Array:
        """Return columns (a, q) times the features of the tasks that have a label, shape (a, width).

        Without features of the tasks they stay as they are.
        """
        if self.tasks is None:
            return columns
        if (
            self.labelled.size < self.n_tasks
        ):  # zeros are faster than a copy of the other rows of tasks
            columns = namespace(columns).where(
                as_array_of(self.counts > 0, columns), columns, zeros((), columns)
            )
        return columns @ self.task_rows

    # Updates -----------------------------------------------------------------------------------------

    def described(self, tasks: Array | None) -> Statistics:
        """Return the statistics with features of the tasks (q, r)."""
        if tasks is None:
            return self
        if self.labelled.size == self.n_tasks:
            rows = tasks
        else:
            rows = take_rows(tasks, self.labelled)
        return replace(
            self, tasks=tasks, task_sums=Group.of(rows, rows[:, :0], constant=self.has_constant)
        )

    def with_tasks(self, other: Statistics) -> Statistics:
        """Return the statistics with more tasks, of the same instances."""
        if self.tasks is None:
            tasks = None
        else:
            tasks = namespace(self.tasks).concat([self.tasks, other.tasks], axis=0)
        if self.is_complete and other.is_complete:
            group_of = np.concatenate([self.group_of, other.group_of])
            both = replace(
                self, groups=(self.groups[0].beside(other.groups[0]),), group_of=group_of
            )
        else:
            group_of = np.concatenate([self.group_of, len(self.groups) + other.group_of])
            both = replace(
                self,
                groups=(*self.groups, *other.groups),
                group_of=group_of,
                instances=self.everyone,
            )
        return both.described(tasks)

    def without_tasks(self, positions: np.ndarray) -> Statistics:
        """Return the statistics without some tasks."""
        kept = np.delete(np.arange(self.n_tasks), positions)
        numbers, group_of = np.unique(self.group_of[kept], return_inverse=True)
        places = zip(numbers, members_of(group_of), strict=True)
        groups = tuple(self.part(int(number), kept[inside]) for number, inside in places)
        left = replace(self, groups=groups, group_of=group_of)
        return left.described(None if self.tasks is None else take_rows(self.tasks, kept))

    def digits_lost(self, after: Statistics, alpha: float) -> float:
        """Return the relative rounding error after forgetting rows: the largest of all groups."""
        known = [self.part(int(self.group_of[tasks[0]]), tasks) for tasks in after.members]
        changed = [
            pair
            for pair in zip(known, after.groups, strict=True)
            if pair[0].gram is not pair[1].gram
        ]
        return max((before.digits_lost(left, alpha) for before, left in changed), default=0.0)


def collect(
    Phi: Array, Y: Array, tasks: Array | None = None, *, constant: bool = False
) -> Statistics:
    r"""Return the statistics of a block of rows.

    Parameters
    ----------
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Labels, NaN where missing; the zeros that a sparse matrix does not store are labels too.
    tasks : array of shape (q, r), default=None
        Features :math:`\boldsymbol\Psi`; None for tasks without any. They are kept, not copied.
    constant : bool, default=False
        Whether there is an unpenalised constant.

    Returns
    -------
    Statistics
    """
    tasks = None if tasks is None else double(tasks)
    check_room(Phi, Y, constant=constant)
    if not has_holes(Y):
        group = Group.of(Phi, Y, constant=constant)
        return Statistics((group,), np.zeros(int(Y.shape[1]), dtype=np.intp)).described(tasks)
    observed = ~np.isnan(to_numpy(Y))
    group_of = pattern_codes(observed)
    _check_groups(int(group_of.max()) + 1, int(Phi.shape[1]), Y)
    # The Gram matrix of all instances; tasks with all labels share it.
    whole = Group.of(Phi, Y[:, :0], constant=constant)
    groups = []
    columns = row_major(Y.T)
    seen = np.ascontiguousarray(observed.T)
    for tasks_ in members_of(group_of):
        rows = np.flatnonzero(seen[tasks_[0]])
        is_whole = rows.size == len(observed)
        part = Phi if is_whole else take_rows(Phi, rows)
        group = Group.of(part, take_rows(take_rows(columns, tasks_).T, rows), constant=constant)
        if is_whole:
            group = replace(group, gram=whole.gram, mean=whole.mean)
        groups.append(group)
    return Statistics(tuple(groups), group_of, whole).described(tasks)


def merge(
    first: Statistics, second: Statistics, sign: int = 1, *, instances: bool = True
) -> Statistics:
    """Return the statistics of the rows of both, or with sign −1 those of the first without the rows of the second.

    Parameters
    ----------
    first, second : Statistics
        Statistics of the same tasks. The result has the task features of the first.
    sign : int, default=1
    instances : bool, default=True
        Whether to add or subtract the instances of the second; False only adds or subtracts their
        labels.

    Returns
    -------
    Statistics

    Raises
    ------
    ValueError
        If rows to subtract are not among the rows of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.statistics import collect, merge
    >>> X, Y = np.arange(8.0).reshape(4, 2), np.ones((4, 3))
    >>> both = merge(collect(X[:3], Y[:3]), collect(X[3:], Y[3:]))
    >>> both.n_rows, np.array_equal(both.gram, X.T @ X)
    (4, True)
    """

    def changed(known: Group, other: Group, what: str) -> Group:
        if sign > 0:
            return known.plus(other)
        return known.minus(other, what)

    if first.is_complete and second.is_complete:
        both = replace(first, groups=(changed(first.groups[0], second.groups[0], "instances"),))
        return both.with_task_rows_of(first)
    if instances:
        whole = changed(first.everyone, second.everyone, "instances")
    else:
        whole = first.everyone
    groups = list(first.groups)
    group_of = first.group_of.copy()
    touched = second.counts > 0
    _check_groups(len(np.unique(second.group_of[touched])), int(first.gram.shape[0]), first.gram)
    # Groups of which no task is touched stay as they are.
    for number in np.unique(first.group_of[touched]):
        members = first.members[number]
        codes = second.group_of[members]
        parts = [members[codes == other] for other in np.unique(codes)]
        for place, tasks in enumerate(parts):
            known, other = first.part(int(number), tasks), int(second.group_of[tasks[0]])
            if second.groups[other].n_rows:
                known = changed(known, second.part(other, tasks), "labels of a task")
            if place == 0:
                groups[number] = known
            else:
                group_of[tasks] = len(groups)
                groups.append(known)
    both = replace(first, groups=tuple(groups), group_of=group_of, instances=whole)
    if np.array_equal(both.labelled, first.labelled):
        return both.with_task_rows_of(first)
    return both.described(first.tasks)


def check_room(Phi: Array, Y: Array, *, constant: bool, n_copies: int = 0) -> None:
    """Raise if there is no memory to add features (l, d) and labels (l, q) to statistics.

    Parameters
    ----------
    Phi, Y, constant
        As in `collect`.
    n_copies : int, default=0
        Number of copies of the features and labels that are made beside the statistics.
    """
    d = Phi.shape[1]
    width = Y.shape[1]
    # Statistics before and after an update, those it adds, their corrections, an inverse and the
    # workspace of a solve.
    held: list[Shape] = [(6, d, d), (5, d, width)]
    parts = [part for part in (Phi, Y) if not is_sparse(part)]
    rows = values_in(*(part.shape for part in parts))
    is_converted = any(array_bytes(part, 1) < 8 or is_transposed(part) for part in parts)
    # All values are checked. Blocks are converted and centred. Tasks with missing labels are added
    # from a copy of the rows that they have.
    held += [(n_copies + 0.13, rows), (constant + is_converted, min(rows, BLOCK))]
    if has_holes(Y):
        held += [rows, (1.25, *Y.shape)]
    purpose = f"Adding {Phi.shape[0]} rows to the statistics of {d} features"
    check_memory(array_bytes(None, *held), Y, purpose, _REMEDY)


def _check_groups(n_groups: int, d: int, like: Array) -> None:
    """Raise if Gram matrices do not fit in memory: before and after an update, and those it adds."""
    purpose = f"Keeping the statistics of {d} features for {n_groups} tasks that are observed for different instances"
    check_memory(array_bytes(None, (3, n_groups, d, d)), like, purpose, _REMEDY)


def equal_features(first: Array | None, second: Array | None) -> bool:
    """Return whether two matrices of features are equal; None only equals None."""
    if first is None or second is None or first is second:
        return first is second
    return first.shape == second.shape and bool(namespace(first, second).all(first == second))


def same_gram(first: Array, second: Array, beside: Array | float = 0.0) -> bool:
    """Return whether two Gram matrices (d, d) belong to the same rows, up to rounding.

    Each feature is compared relative to its scale: the sum of both diagonals and of `beside` (d,).
    """
    xp = namespace(first)
    scale = unit_scale(xp.linalg.diagonal(first) + xp.linalg.diagonal(second) + beside)
    gap = xp.linalg.matrix_norm((first - second) * scale * scale[:, None])
    return bool(gap <= SAME_GRAM * math.sqrt(first.shape[0]))


def has_holes(Y: Array) -> bool:
    """Return whether a label is missing (NaN); False for a sparse matrix."""
    return not is_sparse(Y) and bool(namespace(Y).any(namespace(Y).isnan(Y)))

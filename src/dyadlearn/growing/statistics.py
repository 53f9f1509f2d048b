r"""Statistics of two-step ridge regression that grow and shrink with the data.

With features :math:`\boldsymbol\Phi` (m × d) of the instances and :math:`\boldsymbol\Psi` (q × r) of the tasks,
everything the data say about the model is in

.. math:: \boldsymbol\Phi^\top\boldsymbol\Phi, \qquad \boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi, \qquad
          \boldsymbol\Psi^\top\boldsymbol\Psi, \qquad \boldsymbol\Psi,

none of which has a side of m. New instances add to the first two, new tasks to the last three, and whatever was added
can be subtracted again. Without features of the tasks, :math:`\boldsymbol\Psi = \mathbf{I}` is never formed.

With a constant on each side the same products are taken of :math:`\boldsymbol\Phi_c` and :math:`\boldsymbol\Psi_c`,
features less their mean, and of a column of ones beside :math:`\boldsymbol\Psi_c`:

.. math:: \boldsymbol\Phi_c^\top\boldsymbol\Phi_c, \qquad
          \boldsymbol\Phi_c^\top\mathbf{Y}[\boldsymbol\Psi_c, \mathbf{1}], \qquad
          \tfrac1m\mathbf{1}^\top\mathbf{Y}[\boldsymbol\Psi_c, \mathbf{1}], \qquad
          \boldsymbol\Psi_c^\top\boldsymbol\Psi_c,

and both means. They are merged and taken apart as `dyadlearn._means` says, labels as features.

All functions are pure: they return new statistics and leave their arguments as they are. Statistics are in double
precision whatever the data come in, since they add up what may be millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    double,
    epsilon,
    is_definite,
    is_sparse,
    largest,
    matmul,
    namespace,
    row_blocks,
    with_diagonal,
    zeros,
)
from dyadlearn._means import (
    about,
    centred,
    difference,
    in_rows,
    mean_of,
    moments,
    moved,
    no_mean,
    outer,
    value,
    with_ones,
)
from dyadlearn._memory import check_memory
from dyadlearn._state import Stored
from dyadlearn._svd import unit_scale

#: Gram matrices that differ by less than this share of their diagonals are of the same rows.
SAME_GRAM = 1e-10


class OfTasks(Stored, stored=False):
    """What statistics of complete labels and of labels with holes say of the tasks."""

    tasks: Array | None
    mean: Any
    task_mean: Any
    n_tasks: Any

    @property
    def has_constant(self) -> bool:
        """Whether both sides have an unpenalised constant, without features of the tasks each task one."""
        return self.mean is not None

    @property
    def width(self) -> int:
        """Number of columns of coefficients: r features of the tasks and the constant, or q tasks without any."""
        return int(self.n_tasks if self.tasks is None else self.tasks.shape[1] + self.has_constant)

    @property
    def task_rows(self) -> Array | None:
        r""":math:`\boldsymbol\Psi`, with a constant :math:`[\boldsymbol\Psi_c, \mathbf{1}]`; None without features."""
        return None if self.tasks is None else self.rows_of_tasks(self.tasks)

    def rows_of_tasks(self, tasks: Array) -> Array:
        """Return features of tasks (c, r), known or not, as they multiply coefficients: with a constant (c, r + 1)."""
        return tasks if self.task_mean is None else bordered(tasks, self.task_mean)


@dataclass(frozen=True, eq=False)
class Statistics(OfTasks):
    r"""What two-step ridge regression knows of its data.

    Attributes
    ----------
    n_rows : int
        Number m of instances.
    gram : array of shape (d, d)
        :math:`\boldsymbol\Phi^\top\boldsymbol\Phi`, with a constant :math:`\boldsymbol\Phi_c^\top\boldsymbol\Phi_c`.
    cross : array of shape (d, r), with a constant (d, r + 1), or (d, q) if `per_task`
        :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi`, or :math:`\boldsymbol\Phi^\top\mathbf{Y}`; with a
        constant :math:`\boldsymbol\Phi_c^\top\mathbf{Y}[\boldsymbol\Psi_c, \mathbf{1}]`, or
        :math:`\boldsymbol\Phi_c^\top\mathbf{Y}`.
    tasks : array of shape (q, r) or None
        :math:`\boldsymbol\Psi`; None for tasks without features.
    task_gram : array of shape (r, r) or None
        :math:`\boldsymbol\Psi^\top\boldsymbol\Psi`, with a constant :math:`\boldsymbol\Psi_c^\top\boldsymbol\Psi_c`.
    per_task : bool
        Whether `cross` tells the tasks apart. Without features of the tasks it always does.
    mean, task_mean : arrays of shape (2, d) and (2, r), or None
        Of the features of both sides, in two parts (`dyadlearn._means`); None without a constant.
    label_mean : array of as many columns as `cross`, or None
        :math:`\mathbf{1}^\top\mathbf{Y}[\boldsymbol\Psi_c, \mathbf{1}]/m`, or :math:`\mathbf{1}^\top\mathbf{Y}/m`.
    rounding : array of shape (d,) or None
        What the diagonal of `gram` may be wrong by, in units of the machine precision, once rows were subtracted from
        it. None is :math:`\sqrt m` times itself, the rounding of sums.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.statistics import add_rows, collect
    >>> seen = collect(np.array([[1.0, 2.0]]), np.array([[3.0]]))
    >>> add_rows(seen, np.array([[0.0, 1.0]]), np.array([[1.0]])).gram
    array([[1., 2.],
           [2., 5.]])
    """

    n_rows: int
    gram: Array
    cross: Array
    tasks: Array | None = None
    task_gram: Array | None = None
    per_task: bool = True
    mean: Array | None = None
    task_mean: Array | None = None
    label_mean: Array | None = None
    rounding: Array | None = None

    _shapes: ClassVar[Mapping[str, str]] = {
        "gram": "d d",
        "cross": "d c",
        "tasks": "q r",
        "task_gram": "r r",
        "mean": "t d",
        "task_mean": "t r",
        "label_mean": "c",
        "rounding": "d",
    }

    def _fits(self) -> bool:
        has_features = self.tasks is not None
        return (
            self.cross.shape[1] == (self.n_tasks if self.per_task else self.width)
            and has_features == (self.task_gram is not None)
            and (self.per_task or has_features)
            and self.has_constant == (self.label_mean is not None)
            and (self.has_constant and has_features) == (self.task_mean is not None)
            and (self.mean is None or self.mean.shape[0] == 2)
        )

    @property
    def n_tasks(self) -> int:
        """Number q of tasks."""
        return int(self.cross.shape[1] if self.tasks is None else self.tasks.shape[0])

    @property
    def target(self) -> Array:
        r"""Right-hand side :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi` of shape (d, r), or (d, q).

        With a constant it is :math:`\boldsymbol\Phi_c^\top\mathbf{Y}[\boldsymbol\Psi_c, \mathbf{1}]` (d, r + 1).
        """
        return self.cross @ self.task_rows if self.per_task and self.tasks is not None else self.cross

    @property
    def level(self) -> Array:
        r""":math:`\mathbf{1}^\top\mathbf{Y}[\boldsymbol\Psi_c, \mathbf{1}]/m` of shape (r + 1,), or the means (q,)."""
        found: Any = self.label_mean
        return found @ self.task_rows if self.per_task and self.tasks is not None else found


def collect(
    Phi: Array,
    Y: Array,
    tasks: Array | None = None,
    *,
    task_gram: Array | None = None,
    task_mean: Array | None = None,
    per_task: bool = False,
    constant: bool = False,
) -> Statistics:
    r"""Return the statistics of a block of rows.

    Parameters
    ----------
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Labels; the zeros that a sparse matrix does not store are labels too.
    tasks : array of shape (q, r), default=None
        Features :math:`\boldsymbol\Psi`; None for tasks without any. They are kept, not copied.
    task_gram, task_mean : arrays of shape (r, r) and (2, r), default=None
        Gram matrix and, with a constant, mean of the tasks, where they are known already.
    per_task : bool, default=False
        Whether to keep :math:`\boldsymbol\Phi^\top\mathbf{Y}` rather than its product with the features of the tasks.
    constant : bool, default=False
        Whether there is an unpenalised constant.

    Returns
    -------
    Statistics
    """
    per_task = per_task or tasks is None
    tasks = None if tasks is None else double(tasks)
    with np.errstate(over="ignore", invalid="ignore"):
        if tasks is not None and task_gram is None:
            if constant:
                tasks = in_rows(tasks)
                task_mean, task_gram = moments(tasks)
            else:
                task_gram = matmul(tasks.T, tasks)
        right = tasks if tasks is None or not constant else bordered(tasks, task_mean)
        found = _collected(Phi, Y, None if per_task else right, constant)
        xp = namespace(found.gram)
        total = float(xp.linalg.trace(found.gram)) + float(xp.sum(found.cross))
        total += float(xp.sum(found.label_mean)) if constant else 0.0
    if not math.isfinite(total):
        raise ValueError("Sums of products of the features and labels overflow: scale X, Y or tasks down.")
    return replace(found, tasks=tasks, task_gram=task_gram, per_task=per_task, task_mean=task_mean)


def nothing(n_features: int, n_tasks: int, like: Array, constant: bool) -> Statistics:
    """Return the statistics of no instances, for tasks without features, in the library of `like`."""
    gram, cross = (zeros((n_features, width), like) for width in (n_features, n_tasks))
    if not constant:
        return Statistics(0, gram, cross)
    return Statistics(0, gram, cross, mean=no_mean(n_features, like), label_mean=zeros((n_tasks,), like))


def check_room(Phi: Array, Y: Array, tasks: Array | None) -> None:
    """Refuse statistics that cannot fit in memory: of features (l, d), labels (l, q) and tasks (q, r) or None."""
    d, width = Phi.shape[1], (Y if tasks is None else tasks).shape[1]
    # Statistics before and after an update, what it adds and what corrects that, an inverse and what is solved with.
    mend = "compress the features with a feature_map such as Landmarks"
    check_memory(8 * (6 * d**2 + 5 * d * width), Y, f"Keeping the statistics of {d} features", mend)


def merge(first: Statistics, second: Statistics) -> Statistics:
    """Return the statistics of the rows of both, which must have the same tasks.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.growing.statistics import collect, merge
    >>> X, Y = np.arange(8.0).reshape(4, 2), np.ones((4, 3))
    >>> both = merge(collect(X[:3], Y[:3]), collect(X[3:], Y[3:]))
    >>> both.n_rows, np.array_equal(both.gram, X.T @ X)
    (4, True)
    """
    alike = _shape(first) == _shape(second) and first.per_task == second.per_task
    if not alike or first.has_constant != second.has_constant or not equal_features(first.tasks, second.tasks):
        raise ValueError(
            "Only statistics of the same tasks can be added: "
            f"found {_shape(first)} and {_shape(second)}, or features that differ."
        )
    return combined(first, second, 1)


def add_rows(state: Statistics, Phi: Array, Y: Array) -> Statistics:
    r"""Return the statistics with l more instances, labelled for all tasks.

    Parameters
    ----------
    state : Statistics
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)

    Returns
    -------
    Statistics
    """
    return combined(state, alike(state, Phi, Y), 1)


def alike(state: Statistics, Phi: Array, Y: Array) -> Statistics:
    """Return the statistics of rows labelled for the tasks of `state`."""
    return collect(
        Phi,
        Y,
        state.tasks,
        task_gram=state.task_gram,
        task_mean=state.task_mean,
        per_task=state.per_task,
        constant=state.has_constant,
    )


def remove_rows(state: Statistics, Phi: Array, Y: Array) -> Statistics:
    r"""Return the statistics without l of their instances.

    Parameters
    ----------
    state : Statistics
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        The rows as they were when they were added.

    Returns
    -------
    Statistics

    Raises
    ------
    ValueError
        If they cannot have been added: too many, or the Gram matrix of the rest would not be one.
    """
    if Phi.shape[0] > state.n_rows:
        raise ValueError(f"X has {Phi.shape[0]} instances to forget, but only {state.n_rows} were learnt.")
    return taken_away(state, alike(state, Phi, Y))


def taken_away(state: Statistics, gone: Statistics) -> Statistics:
    """Return the statistics without those of some of their instances, of the same tasks; errors as in `remove_rows`."""
    left = state.n_rows - gone.n_rows
    rest = combined(state, gone, -1)
    xp = namespace(state.gram)
    sizes, offsets = xp.linalg.diagonal(state.gram), _offsets(state)
    if left <= state.has_constant:
        # Nothing is left but rounding, about the mean of a single row either, and that must not stay.
        gaps = xp.abs(xp.linalg.diagonal(rest.gram))
        if state.has_constant and left == 0:
            gaps = gaps + state.n_rows * difference(gone.mean, state.mean) ** 2
        fits = bool(xp.all(gaps <= 1e-8 * (sizes + offsets) + 1e-14 * _rounding(state)))
        rest = replace(rest, gram=xp.zeros_like(rest.gram), cross=xp.zeros_like(rest.cross))
        if left == 0:
            rest = replace(rest, rounding=None)
    else:
        # Rows of zeros leave no size to compare with, but can be forgotten as any others. Equal rows need not be quite
        # zero about their mean.
        slack = 1e-9 * sizes + 1e-20 * offsets + 1e-14 * _rounding(state)
        slack = slack + float(xp.finfo(state.gram.dtype).smallest_normal)
        fits = is_definite(plus_diagonal(rest.gram, slack))
    if not fits:
        raise ValueError(
            "X holds instances that were not learnt as they are given here: without them the Gram matrix would not be "
            "one. Give the rows to forget exactly as they were learnt; nothing was changed."
        )
    return _cleared(state, rest) if state.has_constant else rest


def _cleared(before: Statistics, after: Statistics) -> Statistics:
    """Return what is left of rows, without the rounding that features leave which are the same in all that are left."""
    xp = namespace(before.gram)
    old, new = (xp.linalg.diagonal(state.gram) for state in (before, after))
    level = 8.0 * before.n_rows * epsilon(old) * old
    same = new <= level
    if not bool(xp.any(same)):
        return after
    zero = zeros((), before.gram)
    gram = xp.where(same[:, None] | same[None, :], zero, after.gram)
    cross = xp.where(same[:, None], zero, after.cross)
    mean = xp.where(same & (value(after.mean) ** 2 <= level * epsilon(old)), zero, after.mean)
    return replace(after, gram=gram, cross=cross, mean=mean)


def digits_lost(before: Statistics, after: Statistics, alpha: float) -> float:
    r"""Return how much of some statistics may be rounding left over from what was subtracted, relative to them.

    A difference keeps the rounding of what it was made from: for each feature that of the sum of squares, beside what
    is left of it and :math:`\lambda`, and for the labels that of the largest sum of products.

    Parameters
    ----------
    before, after : Statistics
        Before and after instances or tasks were forgotten.
    alpha : float
        :math:`\lambda_d`.

    Returns
    -------
    float
    """
    if after.n_rows == 0:
        return 0.0
    xp, eps = namespace(after.gram), float(np.finfo(np.float64).eps)
    old, new = (xp.linalg.diagonal(state.gram) for state in (before, after))
    noise = 8.0 * eps * _rounding(after)
    left = xp.where(new > noise, new, eps * old) + alpha  # what seems to be nothing may be as much as was rounded
    # A feature of nothing but rounding counts as gone where larger ones are left.
    gone = (new <= noise) & (left <= 1e3 * max(after.n_rows, int(new.shape[0])) * eps * xp.max(left))
    lost = largest(xp.where(gone, xp.zeros_like(old), eps * old / xp.where(gone, xp.ones_like(left), left)))
    labels = [_label_size(state) for state in (before, after)]
    return max(lost, eps * labels[0] / labels[1] if labels[1] > 0 else 0.0)


def add_tasks(state: Statistics, tasks: Array | None, cross: Array, label_mean: Array | None = None) -> Statistics:
    r"""Return the statistics with more tasks, labelled for all instances.

    Parameters
    ----------
    state : Statistics
    tasks : array of shape (l, r) or None
        Their features; None for tasks without any.
    cross : array of shape (d, r), with a constant (d, r + 1), or (d, l) where `state.per_task`
    label_mean : array of as many columns, or None
        What the statistics of the new tasks alone have under these names.

    Returns
    -------
    Statistics
    """
    xp = namespace(state.gram)
    tasks = None if tasks is None else double(tasks)
    if state.per_task:
        cross = xp.concat([state.cross, cross], axis=1)
        if label_mean is not None:
            label_mean = xp.concat([state.label_mean, label_mean])
    else:
        cross, label_mean = _over_tasks(state, tasks, cross, label_mean, 1)
    more = replace(state, cross=cross, label_mean=label_mean)
    if tasks is None:
        return more
    assert state.task_gram is not None
    everything = xp.concat([state.tasks, tasks], axis=0)
    if state.task_mean is None:
        return replace(more, tasks=everything, task_gram=state.task_gram + matmul(tasks.T, tasks))
    mean, gram = moments(tasks)
    step, share = difference(mean, state.task_mean), tasks.shape[0] / everything.shape[0]
    gram = state.task_gram + gram + state.n_tasks * share * outer(step, step)
    return replace(more, tasks=everything, task_gram=gram, task_mean=moved(state.task_mean, share * step))


def remove_tasks(
    state: Statistics, positions: np.ndarray, cross: Array | None = None, label_mean: Array | None = None
) -> Statistics:
    r"""Return the statistics without some of their tasks.

    Parameters
    ----------
    state : Statistics
    positions : integer array of shape (l,)
    cross, label_mean : as in `add_tasks`, default=None
        Not needed where `state.per_task`.

    Returns
    -------
    Statistics
    """
    xp = namespace(state.gram)
    kept = as_array_of(np.delete(np.arange(state.n_tasks), positions), state.gram)
    if state.per_task:
        cross = xp.take(state.cross, kept, axis=1)
        label_mean = None if state.label_mean is None else xp.take(state.label_mean, kept, axis=0)
    else:
        gone = xp.take(state.tasks, as_array_of(positions, state.gram), axis=0)
        cross, label_mean = _over_tasks(state, gone, cross, label_mean, -1)
    less = replace(state, cross=cross, label_mean=label_mean)
    if state.tasks is None:
        return less
    tasks = xp.take(state.tasks, kept, axis=0)
    # The features are all there, so nothing of the forgotten ones need stay by rounding.
    if state.task_mean is None:
        return replace(less, tasks=tasks, task_gram=matmul(tasks.T, tasks))
    mean, gram = moments(tasks)
    return replace(less, tasks=tasks, task_gram=gram, task_mean=mean)


def _over_tasks(
    state: Statistics, tasks: Array, cross: Array, label_mean: Array | None, sign: int
) -> tuple[Array, Array | None]:
    r"""Return `cross` and `label_mean` of features of the tasks, with those of some tasks added or taken away.

    With a constant each is about the mean of its own tasks: what its last column, the sum over the tasks, says of the
    step between the two means has to move too.
    """
    if state.task_mean is None:
        return state.cross + sign * cross, None
    xp, (q, count) = namespace(cross), (state.n_tasks, int(tasks.shape[0]))
    step = difference(mean_of(tasks), state.task_mean)
    weight = sign * q * count / (q + sign * count)

    def joined(known: Array, other: Array) -> Array:
        between = weight * outer(other[:, -1] / count - known[:, -1] / q, step)
        total = known + sign * other
        return xp.concat([total[:, :-1] + between, total[:, -1:]], axis=1)

    means: list[Any] = [state.label_mean, label_mean]
    return joined(state.cross, cross), joined(*(mean[None, :] for mean in means))[0, :]


def equal_features(first: Array | None, second: Array | None) -> bool:
    """Tell whether two matrices of features, either of which may be None, are the same."""
    if first is None or second is None or first is second:
        return first is second
    return first.shape == second.shape and bool(namespace(first, second).all(first == second))


def same_gram(first: Array, second: Array, beside: Array | float = 0.0) -> bool:
    """Tell whether two Gram matrices (d, d) are of the same rows, up to rounding.

    Every feature is compared on its own scale, which is at least that of `beside` (d,).
    """
    xp = namespace(first)
    scale = unit_scale(xp.linalg.diagonal(first) + xp.linalg.diagonal(second) + beside)
    gap = xp.linalg.matrix_norm((first - second) * scale * scale[:, None])
    return bool(gap <= SAME_GRAM * math.sqrt(first.shape[0]))


def same_rows(first: Statistics, second: Statistics) -> bool:
    """Tell whether two statistics are of the same rows, up to rounding, whatever their tasks are."""
    # Equal rows need not be quite zero about their mean, which is known to the rounding of an offset and of what it was
    # of rows that are forgotten.
    offsets, rounding, xp = _offsets(second), _rounding(second), namespace(first.gram)
    if not same_gram(first.gram, second.gram, 1e-14 * offsets + 1e-4 * rounding):
        return False
    if first.mean is None:
        return True
    spreads = xp.linalg.diagonal(second.gram) ** 0.5
    steps = math.sqrt(max(second.n_rows, 1)) * xp.abs(difference(first.mean, second.mean))
    return bool(xp.all(steps <= SAME_GRAM * spreads + 1e-14 * (offsets + rounding) ** 0.5))


def plus_diagonal(matrix: Array, weights: Any) -> Array:
    """Return a square matrix (d, d) with a number, or an array (d,), added to its diagonal."""
    xp = namespace(matrix)
    return with_diagonal(xp.asarray(matrix, copy=True), xp.linalg.diagonal(matrix) + weights)


def has_holes(Y: Array) -> bool:
    """Tell whether labels are not observed somewhere, which is NaN; those of a sparse matrix all are."""
    return not is_sparse(Y) and bool(namespace(Y).any(namespace(Y).isnan(Y)))


def combined(first: Statistics, second: Statistics, sign: int) -> Statistics:
    """Return the statistics of the rows of both, or with the sign −1 of the first without those of the second."""
    n_rows = first.n_rows + sign * second.n_rows
    total = replace(first, n_rows=n_rows, gram=first.gram + sign * second.gram, cross=first.cross + sign * second.cross)
    if sign < 0 or first.rounding is not None or second.rounding is not None:
        total = replace(total, rounding=(_rounding(first) ** 2 + _rounding(second) ** 2) ** 0.5)
    if first.mean is None:
        return total
    if n_rows == 0:
        width = int(first.gram.shape[0])
        empty = namespace(first.cross).zeros_like(first.label_mean)
        return replace(total, mean=no_mean(width, first.gram), label_mean=empty)
    if first.n_rows == 0:
        return replace(total, mean=second.mean, label_mean=second.label_mean)
    means: list[Any] = [second.label_mean, first.label_mean]
    step, label_step = difference(second.mean, first.mean), means[0] - means[1]
    share = sign * second.n_rows / n_rows
    return replace(
        total,
        gram=total.gram + first.n_rows * share * outer(step, step),
        cross=total.cross + first.n_rows * share * outer(step, label_step),
        mean=moved(first.mean, share * step),
        label_mean=means[1] + share * label_step,
    )


def _rounding(state: Statistics) -> Array:
    """Return what the diagonal (d,) of the Gram matrix may be wrong by, in units of the machine precision."""
    if state.rounding is not None:
        return state.rounding
    return math.sqrt(state.n_rows) * namespace(state.gram).linalg.diagonal(state.gram)


def _offsets(state: Statistics) -> Array:
    """Return how much larger the diagonal (d,) of the Gram matrix would be about zero than about the mean."""
    if state.mean is None:
        return zeros((int(state.gram.shape[0]),), state.gram)
    return state.n_rows * value(state.mean) ** 2


def _label_size(state: Statistics) -> float:
    """Return the size of products of features and labels."""
    xp = namespace(state.cross)
    size = float(xp.max(xp.abs(state.cross)))
    if state.label_mean is None:
        return size
    spread = float(xp.max(xp.linalg.diagonal(state.gram)))
    return size + math.sqrt(max(spread, 0.0) * state.n_rows) * float(xp.max(xp.abs(state.label_mean)))


def bordered(tasks: Array, mean: Array) -> Array:
    """Return features of tasks (q, r) less their mean, with a column of ones."""
    return with_ones(centred(tasks, mean))


def _shape(state: Statistics) -> str:
    features = "no features" if state.tasks is None else f"{state.tasks.shape[1]} features"
    return f"{state.gram.shape[0]} features of instances and {state.n_tasks} tasks with {features}"


def _collected(Phi: Array, Y: Array, right: Array | None, constant: bool) -> Statistics:
    """Return statistics without tasks, block by block: only a block is ever copied to double precision."""
    width = sum(0 if is_sparse(part) else part.shape[1] for part in (Phi, Y)) + (0 if right is None else right.shape[1])
    make = _block_about_mean if constant else _block
    blocks = (
        make(double(Phi[rows, :]), double(Y[rows, :]), right) for rows in row_blocks(int(Phi.shape[0]), 8 * width)
    )
    return reduce(lambda total, block: combined(total, block, 1), blocks)


def _block(Phi: Array, Y: Array, right: Array | None) -> Statistics:
    """Return the statistics of rows: ΦᵀΦ and ΦᵀYΨ (or ΦᵀY)."""
    return Statistics(int(Phi.shape[0]), matmul(Phi.T, Phi), cross_product(Phi, Y, right))


def _block_about_mean(Phi: Array, Y: Array, right: Array | None) -> Statistics:
    """Return the statistics of rows about their mean; `right` are the features of the tasks with a constant."""
    Phi, Y = in_rows(Phi), in_rows(Y)
    n, (mean, gram), label_mean = int(Phi.shape[0]), moments(Phi), mean_of(Y)
    (rows, rest), (labels, label_rest) = about(Phi, mean), about(Y, label_mean)
    cross = cross_product(rows, labels, right)
    if rest is not None and label_rest is not None:  # where one factor is about its mean, the other need not be
        cross -= n * outer(rest, label_rest if right is None else label_rest @ right)
    level = value(label_mean) if right is None else value(label_mean) @ right
    return Statistics(n, gram, cross, mean=mean, label_mean=level)


def cross_product(Phi: Array, Y: Array, tasks: Array | None) -> Array:
    r"""Return :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi` in the cheaper order.

    Parameters
    ----------
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
    tasks : array of shape (q, r) or None

    Returns
    -------
    array of shape (d, r), without tasks (d, q)
    """
    if tasks is None:
        return matmul(Phi.T, Y)
    (n, d), (q, r) = Phi.shape, tasks.shape
    n_features, n_labels = _stored(Phi), _stored(Y)
    if r * (n_labels + n_features) <= n_labels * n_features / n + d * q * r:
        return matmul(Phi.T, matmul(Y, tasks))
    return matmul(Phi.T, Y) @ tasks


def _stored(matrix: Array) -> float:
    """Return how many numbers of a matrix take part in a product."""
    return float(matrix.nnz) if is_sparse(matrix) else float(matrix.shape[0] * matrix.shape[1])

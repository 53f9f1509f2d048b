r"""Statistics of two-step ridge regression that grow and shrink with the data.

With features :math:`\boldsymbol\Phi` (m × d) of the instances and :math:`\boldsymbol\Psi` (q × r) of the tasks,
everything the data say about the model is in

.. math:: \boldsymbol\Phi^\top\boldsymbol\Phi, \qquad \boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi, \qquad
          \boldsymbol\Psi^\top\boldsymbol\Psi, \qquad \boldsymbol\Psi,

none of which has a side of m. New instances add to the first two, new tasks to the last three, and whatever was added
can be subtracted again. Without features of the tasks, :math:`\boldsymbol\Psi = \mathbf{I}` is never formed.

All functions are pure: they return new statistics and leave their arguments as they are. Statistics are in double
precision whatever the data come in, since they add up what may be millions of rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    cast,
    is_sparse,
    largest,
    matmul,
    namespace,
    row_blocks,
    to_numpy,
    with_diagonal,
)
from dyadlearn._checks import check_memory
from dyadlearn._state import Stored

__all__ = [
    "Statistics",
    "add_rows",
    "add_tasks",
    "check_room",
    "collect",
    "cross_product",
    "digits_lost",
    "double",
    "equal_features",
    "merge",
    "plus_diagonal",
    "remove_rows",
    "remove_tasks",
    "same_gram",
]

#: Grams that differ by less than this share of their norm are of the same rows.
SAME_GRAM = 1e-10


@dataclass(frozen=True, eq=False)
class Statistics(Stored):
    r"""What two-step ridge regression knows of its data.

    Attributes
    ----------
    n_rows : int
        Number m of instances.
    gram : array of shape (d, d)
        :math:`\boldsymbol\Phi^\top\boldsymbol\Phi`.
    cross : array of shape (d, r), or (d, q) if `per_task`
        :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi`, or :math:`\boldsymbol\Phi^\top\mathbf{Y}`.
    tasks : array of shape (q, r) or None
        :math:`\boldsymbol\Psi`; None for tasks without features.
    task_gram : array of shape (r, r) or None
        :math:`\boldsymbol\Psi^\top\boldsymbol\Psi`.
    per_task : bool
        Whether `cross` tells the tasks apart. Without features of the tasks it always does.

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

    _shapes: ClassVar[Mapping[str, str]] = {"gram": "d d", "cross": "d c", "tasks": "q r", "task_gram": "r r"}

    def _fits(self) -> bool:
        has_features = self.tasks is not None
        return (
            self.cross.shape[1] == (self.n_tasks if self.per_task else self.width)
            and has_features == (self.task_gram is not None)
            and (self.per_task or has_features)
        )

    @property
    def n_tasks(self) -> int:
        """Number q of tasks."""
        return int(self.cross.shape[1] if self.tasks is None else self.tasks.shape[0])

    @property
    def width(self) -> int:
        """Number of columns of `target`: r features of the tasks, or q tasks without any."""
        return int(self.n_tasks if self.tasks is None else self.tasks.shape[1])

    @property
    def target(self) -> Array:
        r"""Right-hand side :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi` of shape (d, r), or (d, q)."""
        return self.cross @ self.tasks if self.per_task and self.tasks is not None else self.cross

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return everything as named numpy arrays, for a file or the wire."""
        return {name: to_numpy(value) for name, value in self.state().items() if value is not None}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Statistics:
        """Return the statistics that `to_arrays` took apart."""
        parts = {name: np.asarray(arrays[name]) for name in ("gram", "cross", "tasks", "task_gram") if name in arrays}
        return cls(int(arrays["n_rows"]), per_task=bool(arrays["per_task"]), **parts)


def collect(
    Phi: Array, Y: Array, tasks: Array | None = None, *, task_gram: Array | None = None, per_task: bool = False
) -> Statistics:
    r"""Return the statistics of a block of rows.

    Parameters
    ----------
    Phi : array or sparse matrix of shape (l, d)
    Y : array or sparse matrix of shape (l, q)
        Labels; the zeros that a sparse matrix does not store are labels too.
    tasks : array of shape (q, r), default=None
        Features :math:`\boldsymbol\Psi`; None for tasks without any. They are kept, not copied.
    task_gram : array of shape (r, r), default=None
        :math:`\boldsymbol\Psi^\top\boldsymbol\Psi`, where it is known already.
    per_task : bool, default=False
        Whether to keep :math:`\boldsymbol\Phi^\top\mathbf{Y}` rather than its product with the features of the tasks.

    Returns
    -------
    Statistics
    """
    per_task = per_task or tasks is None
    tasks = None if tasks is None else double(tasks)
    if tasks is not None and task_gram is None:
        task_gram = matmul(tasks.T, tasks)
    with np.errstate(over="ignore", invalid="ignore"):
        gram, cross = _products(Phi, Y, None if per_task else tasks)
        total = float(namespace(gram).linalg.trace(gram)) + float(namespace(gram).sum(cross))
    if not math.isfinite(total):
        raise ValueError("Sums of products of the features and labels overflow: scale X, Y or tasks down.")
    return Statistics(int(Phi.shape[0]), gram, cross, tasks, task_gram, per_task)


def check_room(Phi: Array, Y: Array, tasks: Array | None) -> None:
    """Refuse statistics that cannot fit in memory: of features (l, d), labels (l, q) and tasks (q, r) or None."""
    d, width = Phi.shape[1], (Y if tasks is None else tasks).shape[1]
    # Statistics before and after an update, what it adds, an inverse and what is solved with.
    mend = "compress the features with a feature_map such as CanonicalProjection"
    check_memory(8 * (5 * d**2 + 4 * d * width), Y, f"Keeping the statistics of {d} features", mend)


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
    if not alike or not equal_features(first.tasks, second.tasks):
        raise ValueError(
            "Only statistics of the same tasks can be added: "
            f"found {_shape(first)} and {_shape(second)}, or features that differ."
        )
    return _combined(first, second, 1)


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
    return _combined(state, _alike(state, Phi, Y), 1)


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
    left = state.n_rows - int(Phi.shape[0])
    if left < 0:
        raise ValueError(f"X has {Phi.shape[0]} instances to forget, but only {state.n_rows} were learnt.")
    rest = _combined(state, _alike(state, Phi, Y), -1)
    xp = namespace(state.gram)
    size = float(xp.linalg.trace(state.gram))
    if left == 0:
        # Nothing is left but rounding, and that must not stay.
        fits = float(xp.linalg.trace(rest.gram)) <= 1e-8 * size
        rest = replace(rest, gram=xp.zeros_like(rest.gram), cross=xp.zeros_like(rest.cross))
    else:
        # Rows of zeros leave no size to compare with, but can be forgotten as any others.
        fits = _is_gram(rest.gram, max(1e-9 * size, float(xp.finfo(state.gram.dtype).smallest_normal)))
    if not fits:
        raise ValueError(
            "X holds instances that were not learnt as they are given here: without them the Gram matrix would not be "
            "one. Give the rows to forget exactly as they were learnt; nothing was changed."
        )
    return rest


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
    # What is nothing but rounding counts as gone, as it does where equations are solved.
    left = new + alpha
    gone = left <= 1e3 * max(after.n_rows, int(new.shape[0])) * eps * xp.max(left)
    lost = largest(xp.where(gone, xp.zeros_like(old), eps * old / xp.where(gone, xp.ones_like(left), left)))
    labels = [float(xp.max(xp.abs(state.cross))) for state in (before, after)]
    return max(lost, eps * labels[0] / labels[1] if labels[1] > 0 else 0.0)


def add_tasks(state: Statistics, tasks: Array | None, cross: Array) -> Statistics:
    r"""Return the statistics with more tasks, labelled for all instances.

    Parameters
    ----------
    state : Statistics
    tasks : array of shape (l, r) or None
        Their features; None for tasks without any.
    cross : array of shape (d, r), or (d, l) where `state.per_task`
        Their :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi`, or :math:`\boldsymbol\Phi^\top\mathbf{Y}`.

    Returns
    -------
    Statistics
    """
    xp = namespace(state.gram)
    cross = xp.concat([state.cross, cross], axis=1) if state.per_task else state.cross + cross
    if tasks is None:
        return replace(state, cross=cross)
    tasks = double(tasks)
    assert state.task_gram is not None
    return replace(
        state,
        cross=cross,
        tasks=xp.concat([state.tasks, tasks], axis=0),
        task_gram=state.task_gram + matmul(tasks.T, tasks),
    )


def remove_tasks(state: Statistics, positions: np.ndarray, cross: Array | None = None) -> Statistics:
    r"""Return the statistics without some of their tasks.

    Parameters
    ----------
    state : Statistics
    positions : integer array of shape (l,)
    cross : array of shape (d, r), default=None
        Their :math:`\boldsymbol\Phi^\top\mathbf{Y}\boldsymbol\Psi`; not needed where `state.per_task`.

    Returns
    -------
    Statistics
    """
    xp = namespace(state.gram)
    kept = as_array_of(np.delete(np.arange(state.n_tasks), positions), state.gram)
    if state.per_task:
        less = replace(state, cross=xp.take(state.cross, kept, axis=1))
    else:
        less = replace(state, cross=state.cross - cross)
    if state.tasks is None:
        return less
    tasks = xp.take(state.tasks, kept, axis=0)
    # The features are all there, so nothing of the forgotten ones need stay by rounding.
    return replace(less, tasks=tasks, task_gram=matmul(tasks.T, tasks))


def equal_features(first: Array | None, second: Array | None) -> bool:
    """Tell whether two matrices of features, either of which may be None, are the same."""
    if first is None or second is None or first is second:
        return first is second
    return first.shape == second.shape and bool(namespace(first, second).all(first == second))


def same_gram(first: Array, second: Array) -> bool:
    """Tell whether two Gram matrices (d, d) are of the same rows, up to rounding."""
    norm = namespace(first).linalg.matrix_norm
    return bool(norm(first - second) <= SAME_GRAM * norm(second))


def plus_diagonal(matrix: Array, weights: Any) -> Array:
    """Return a square matrix (d, d) with a number, or an array (d,), added to its diagonal."""
    xp = namespace(matrix)
    return with_diagonal(xp.asarray(matrix, copy=True), xp.linalg.diagonal(matrix) + weights)


def double(array: Array) -> Array:
    """Return an array in double precision; one that is so already is not copied."""
    return cast(array, namespace(array).float64)


def _is_gram(matrix: Array, slack: float) -> bool:
    """Tell whether a symmetric matrix (d, d) has no eigenvalue below minus `slack`."""
    try:
        namespace(matrix).linalg.cholesky(plus_diagonal(matrix, slack))
    except (np.linalg.LinAlgError, RuntimeError):  # torch raises the latter
        return False
    return True


def _alike(state: Statistics, Phi: Array, Y: Array) -> Statistics:
    """Return the statistics of rows labelled for the tasks of `state`."""
    return collect(Phi, Y, state.tasks, task_gram=state.task_gram, per_task=state.per_task)


def _combined(first: Statistics, second: Statistics, sign: int) -> Statistics:
    """Return the statistics of the rows of both, or with the sign −1 of the first without those of the second."""
    return replace(
        first,
        n_rows=first.n_rows + sign * second.n_rows,
        gram=first.gram + sign * second.gram,
        cross=first.cross + sign * second.cross,
    )


def _shape(state: Statistics) -> str:
    features = "no features" if state.tasks is None else f"{state.tasks.shape[1]} features"
    return f"{state.gram.shape[0]} features of instances and {state.n_tasks} tasks with {features}"


def _products(Phi: Array, Y: Array, tasks: Array | None) -> tuple[Array, Array]:
    """Return ΦᵀΦ and ΦᵀYΨ (or ΦᵀY), block by block: only a block is ever copied to double precision."""
    width = sum(0 if is_sparse(part) else part.shape[1] for part in (Phi, Y)) + (0 if tasks is None else tasks.shape[1])
    total: tuple[Array, Array] | None = None
    for rows in row_blocks(int(Phi.shape[0]), 8 * width):
        features, labels = double(Phi[rows, :]), double(Y[rows, :])
        gram, cross = matmul(features.T, features), cross_product(features, labels, tasks)
        total = (gram, cross) if total is None else (total[0] + gram, total[1] + cross)
    assert total is not None
    return total


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

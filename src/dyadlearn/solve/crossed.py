r"""Pair kernels of few features on both sides at observed pairs: solutions for any right-hand side.

With features :math:`\boldsymbol\phi_i` of the instances and :math:`\boldsymbol\psi_j` of the tasks, the pair kernel
:math:`a\,\mathbf{K}\otimes\mathbf{G} + b\,\mathbf{K}\otimes\mathbf{I} + c\,\mathbf{I}\otimes\mathbf{G}` is that of the
functions

.. math:: f_{ij} = \boldsymbol\phi_i^\top(\sqrt a\,\mathbf{W}\boldsymbol\psi_j + \sqrt b\,\mathbf{u}_j)
          + \sqrt c\,\mathbf{v}_i^\top\boldsymbol\psi_j + \mu .

The normal equations of one task contain only its own :math:`\mathbf{u}_j`, so that these unknowns are eliminated by a
small inverse for each task. Conjugate gradients solve for :math:`\mathbf{W}`, :math:`\mu` and :math:`\mathbf{v}`.
Their preconditioner is exact for :math:`\mathbf{W}` and :math:`\mu`. It has one small block for each instance, in which
the labels of a task count as much as the elimination leaves of them on average. Without :math:`\mathbf{v}` it is exact.
"""

from __future__ import annotations

from typing import NamedTuple

from dyadlearn._array import Array, Scatter, as_array_of, namespace, positive_solver, take_rows, zeros
from dyadlearn._means import with_ones
from dyadlearn.labels import Labels
from dyadlearn.solve.conjugate_gradients import Solution, conjugate_gradients
from dyadlearn.vectrick import dots_at

# The inverse for W has at most this many rows (32 MiB).
_MOST_SHARED = 2048
# A product of two features takes this many times as long if they are gathered for each pair.
_WHOLE = 32


class CrossedSolution(NamedTuple):
    """A function of pairs, as products of features, and the outcome of conjugate gradients.

    Attributes
    ----------
    instances : array of shape (m, s + 1)
        Coefficients of the features of the tasks, and of a constant, for each instance.
    tasks : array of shape (q, r + 1)
        Coefficients of the features of the instances, and of a constant, for each task.
    solution : Solution
    """

    instances: Array
    tasks: Array
    solution: Solution


class CrossedSystem:
    r"""The normal equations of a pair kernel at observed pairs, with the functions of single tasks eliminated.

    Parameters
    ----------
    left, right : arrays of shape (m, r) and (q, s)
        Features of both sides.
    shares : (float, float, float)
        Factors a, b and c of the pair kernel.
    ridge : float
        Positive ridge.
    free_mean : bool
        Whether the unpenalised mean :math:`\mu` is an unknown.
    labels : Labels
        A list, of which the positions and weights are used.
    """

    def __init__(
        self, left: Array, right: Array, shares: tuple[float, ...], ridge: float, free_mean: bool, labels: Labels
    ) -> None:
        xp, (m, q) = namespace(left), labels.shape
        self.left, self.right = with_ones(left), with_ones(right)
        (r, s), roots = (int(self.left.shape[1]), int(self.right.shape[1])), [share**0.5 for share in shares]
        # The last feature of each side is the constant, which only the mean uses.
        inside, task_inside = (xp.ones_like(side[0, :]) for side in (self.left, self.right))
        inside[-1], task_inside[-1] = 0.0, 0.0
        self.task_scale, self.instance_scale = roots[1] * inside, roots[2] * task_inside
        self.shared_scale = roots[0] * inside[:, None] * task_inside[None, :]
        self.shared_scale[-1, -1] = float(free_mean)
        # Unknowns are v above W, one array (m + r, s); the mean is the last entry.
        self._penalty = ridge + zeros((m + r, s), left)
        self._penalty[-1, -1] = 0.0 if free_mean else ridge
        self.weights = xp.ones_like(labels.values) if labels.weights is None else labels.weights
        self._scatter = Scatter(*labels.places, labels.shape, left)
        self._rows, self._columns = (as_array_of(place, left) for place in labels.places)
        self._flat = self._rows * q + self._columns

        eye, task_eye = (ridge * xp.eye(n, dtype=left.dtype, device=left.device) for n in (r, s))
        gram = xp.reshape(self._scatter.transposed_times(self.weights, _squares(self.left)), (q, r, r))
        own = gram * self.task_scale
        self._task_inverse = xp.linalg.inv(self.task_scale[:, None] * own + eye)
        rest = xp.reshape(gram - own @ self._task_inverse @ xp.matrix_transpose(own), (q, r * r))
        shared = xp.reshape(rest.T @ _squares(self.right), (r, r, s, s))
        scale = xp.reshape(self.shared_scale, (-1,))
        shared = xp.reshape(xp.permute_dims(shared, (0, 2, 1, 3)), (r * s, r * s)) * scale[:, None] * scale[None, :]
        xp.reshape(shared, (-1,))[:: r * s + 1] += xp.reshape(self._penalty[m:, :], (-1,))
        self._shared_solver = positive_solver(shared)
        # Share of the labels of each task that its own function does not fit, on average.
        counts = self._scatter.transposed_times(xp.ones_like(self.weights), xp.ones_like(left[:, :1]))[:, 0]
        trace = xp.sum(xp.linalg.diagonal(self._task_inverse), axis=1)
        left_over = 1.0 - (r - ridge * trace) / xp.clip(counts, 1.0, None)
        weights = self.weights * take_rows(left_over, self._columns)
        gram = xp.reshape(self._scatter.times(weights, _squares(self.right)), (m, s, s))
        scales = self.instance_scale[:, None] * self.instance_scale[None, :]
        self._instance_inverse = xp.linalg.inv(gram * scales + task_eye)

    @staticmethod
    def suits(shape: tuple[int, int], ranks: tuple[int, int]) -> bool:
        """Return whether the features are few enough for small systems of each row, and of all pairs of features."""
        (m, q), (r, s) = shape, ranks
        return r * r <= m and s * s <= q and (r + 1) * (s + 1) <= _MOST_SHARED

    def values(self, instances: Array, tasks: Array) -> Array:
        """Return a function at the pairs (n,), see `CrossedSolution`."""
        values = self._at_pairs(instances, self.right)
        return values + self._at_pairs(self.left, tasks)

    def pair(
        self, feature: Array, task_feature: Array, place: int | None, task_place: int | None
    ) -> tuple[Array, Array]:
        """Return the unknowns of the functions of tasks, and all others, that a prediction uses, with their factors.

        Parameters
        ----------
        feature, task_feature : arrays of shape (r,) and (s,)
            Features of the predicted instance and task.
        place, task_place : int or None
            Their positions in training; None for new rows, which have no function of their own.
        """
        row, column = (with_ones(each[None, :])[0, :] for each in (feature, task_feature))
        tasks, others = zeros((self.right.shape[0], row.shape[0]), row), zeros(self._penalty.shape, row)
        if task_place is not None:
            tasks[task_place, :] = self.task_scale * row
        if place is not None:
            others[place, :] = self.instance_scale * column
        others[self.left.shape[0] :, :] = self.shared_scale * row[:, None] * column[None, :]
        return tasks, others

    def solve(self, tasks: Array, others: Array, *, tol: float = 1e-8, max_iter: int = 1000) -> CrossedSolution:
        """Return the function whose unknowns solve the normal equations for right-hand sides as `pair` returns."""
        first = self._of_tasks(tasks)
        right = others - self._gathered(self._at_pairs(self.left, first))
        solution = conjugate_gradients(
            self._product, right, precondition=self._precondition, tol=tol, max_iter=max_iter
        )
        instances = self._instances(solution.values)
        values = self._at_pairs(instances, self.right)
        return CrossedSolution(instances, first - self._of_tasks(self._gathered_tasks(values)), solution)

    def _at_pairs(self, left: Array, right: Array) -> Array:
        """Return the products of features (m, k) and (q, k) at the pairs; those of the whole grid if it is small."""
        if left.shape[0] * right.shape[0] > _WHOLE * self._rows.shape[0]:
            return dots_at(left, right, self._rows, self._columns)
        return take_rows(namespace(left).reshape(left @ right.T, (-1,)), self._flat)

    def _instances(self, unknowns: Array) -> Array:
        m = self.left.shape[0]
        return self.instance_scale * unknowns[:m, :] + self.left @ (self.shared_scale * unknowns[m:, :])

    def _gathered(self, values: Array) -> Array:
        sums = self._scatter.times(self.weights * values, self.right)
        shared = self.shared_scale * (self.left.T @ sums)
        return namespace(values).concat([self.instance_scale * sums, shared])

    def _gathered_tasks(self, values: Array) -> Array:
        return self.task_scale * self._scatter.transposed_times(self.weights * values, self.left)

    def _of_tasks(self, right: Array) -> Array:
        """Return the coefficients of the functions of tasks for given right-hand sides (q, r + 1)."""
        return self.task_scale * (self._task_inverse @ right[:, :, None])[:, :, 0]

    def _product(self, unknowns: Array) -> Array:
        values = self._at_pairs(self._instances(unknowns), self.right)
        tasks = self._of_tasks(self._gathered_tasks(values))
        values -= self._at_pairs(self.left, tasks)
        return self._gathered(values) + self._penalty * unknowns

    def _precondition(self, rest: Array) -> Array:
        xp, m = namespace(rest), self.left.shape[0]
        shared = self._shared_solver(xp.reshape(rest[m:, :], (-1,)))
        own = (self._instance_inverse @ rest[:m, :, None])[:, :, 0]
        return xp.concat([own, xp.reshape(shared, (-1, rest.shape[1]))])


def _squares(features: Array) -> Array:
    """Return all products of two features of each row, shape (n, k²)."""
    xp = namespace(features)
    return xp.reshape(features[:, :, None] * features[:, None, :], (features.shape[0], -1))

r"""Independent tasks: a separate ridge regression over the instances for each task.

A prediction is :math:`\mathbf{k}^\top\varphi_d(\mathbf{K})\mathbf{Y}`. Labels of one task do not
influence another, so that leaving out a pair equals leaving out its instance. Each task may have a
separate regularisation. Tasks with the same regularisation are solved together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_rows
from dyadlearn._memory import solve_numbers
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.labels import Labels
from dyadlearn.pairing import full, incomplete, weighing
from dyadlearn.pairing.base import Pairing, absorbs_weights
from dyadlearn.pairing.certainty import Jackknife, side_jackknife
from dyadlearn.pairing.dense import DenseSide, OfHidden, Sides, dense_sides, refit_cells
from dyadlearn.pairing.expansion import Asked, NewRows, hat_row
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_columns, leave_one_out_columns, weigh_column
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.leaving import Members, in_order, leave_out
from dyadlearn.solve.missing import Completion
from dyadlearn.spectrum import Smoother, Spectrum


@dataclass(frozen=True, eq=False)
class Independent(Pairing):
    """Model of independent tasks, with a smoother of the instances only.

    Attributes
    ----------
    rows : Smoother
        Smoother of the instances; its alpha is NaN if each task has a separate one.
    each : array of shape (q,) or None
        Regularisation of each task; None means that all tasks have the alpha of `rows`.
    """

    words: ClassVar[str] = "independent-task ridge regression"
    side_names: ClassVar[tuple[str, ...]] = ("instances",)
    knows_tasks: ClassVar[bool] = False

    rows: Smoother
    each: np.ndarray | None = None

    @classmethod
    def of(cls, spectrum: Spectrum, filter: SpectralFilter, alpha: Any) -> Self:
        """Return the model with one regularisation for all tasks, or an array (q,) with that of each."""
        if np.ndim(alpha) == 0:
            return cls(spectrum.smoother(filter, alpha))
        return cls(spectrum.smoother(filter, float("nan")), np.asarray(alpha))

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Smoother of the instances."""
        return (self.rows,)

    @property
    def alphas(self) -> dict[str, Any]:
        """The one regularisation, or an array (q,) with that of each task."""
        return {"alpha": self.rows.alpha if self.each is None else self.each}

    def at(self, *alphas: Any) -> Self:
        """Return the same model with another regularisation, or an array (q,) with one for each task."""
        return self.of(self.rows.spectrum, self.rows.filter, alphas[0])

    def of_task(self, task: int) -> Smoother:
        """Return the smoother of the instances with the regularisation of a task."""
        if self.each is None:
            return self.rows
        return self.rows.at(float(self.each[task]))

    def groups(self) -> list[tuple[np.ndarray, Self]]:
        """Return the tasks of each regularisation, and the model that they share."""
        alphas = self.alphas["alpha"]
        return [
            (np.flatnonzero(alphas == alpha), self.at(float(alpha))) for alpha in np.unique(alphas)
        ]

    def by_task(self, solve: Callable[..., Array], *grids: Array | None) -> Array:
        """Return the result of `solve` for a smoother and grids (m, q), one call for each regularisation."""
        if self.each is None:
            return solve(self.rows, *grids)
        groups = self.groups()
        pieces = []
        for tasks, model in groups:
            parts = [None if values is None else take_rows(values.T, tasks).T for values in grids]
            pieces.append(solve(model.rows, *parts).T)
        return in_order(pieces, [tasks for tasks, _ in groups]).T

    def coefficients(self, Y: Array) -> Array:
        r"""Return :math:`\mathbf{B}_k\,\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}`, (m, q) or (d, q)."""
        return self.by_task(Smoother.coefficients, Y)

    def dual(self, Y: Array) -> Array:
        r"""Return :math:`(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}`, shape (m, q)."""
        return self.by_task(Smoother.dual, Y)


@absorbs_weights.register(Independent)
def _absorbs_weights(model: Independent) -> bool:
    return isinstance(model.rows.filter, Tikhonov)


@full.holdout_grids.register(Independent)
def _holdout_grids(model: Independent) -> tuple[float, float]:
    return 2.5, 0.0


@full.hold_out_stack.register(Independent)
def _hold_out_stack(model: Independent, stack: Array, setting: Setting, *groups: Members) -> Array:
    """Return hold-out predictions, which are equal in settings A and B; the grids are concatenated as tasks."""
    n, m, q = stack.shape
    xp = namespace(stack)
    beside = xp.reshape(xp.permute_dims(stack, (1, 0, 2)), (m, n * q))
    if model.each is None:
        stacked = model
    else:
        stacked = replace(model, each=np.tile(model.each, n))
    members = groups[0] if groups else None
    held_out = stacked.by_task(lambda rows, labels: leave_out(rows, labels, members), beside)
    return xp.permute_dims(xp.reshape(held_out, (m, n, q)), (1, 0, 2))


@full.jackknife.register(Independent)
def _jackknife(model: Independent, Y: Array, members: Members = None) -> Jackknife:
    """Return the jackknife models of complete labels."""
    if model.each is None:
        return side_jackknife(model.rows, Y, members)
    parts = [
        (tasks, side_jackknife(shared.rows, take_rows(Y.T, tasks).T, members))
        for tasks, shared in model.groups()
    ]
    held_out = in_order([part.held_out.T for _, part in parts], [tasks for tasks, _ in parts]).T
    order = np.argsort(np.concatenate([tasks for tasks, _ in parts]))

    def predict(rows: NewRows) -> Array:
        """Return the predictions of all tasks in their order."""
        predictions = [part.predictions(rows) for _, part in parts]
        xp = namespace(predictions[0])
        return xp.take(xp.concat(predictions, axis=1), as_array_of(order, predictions[0]), axis=1)

    return Jackknife(held_out, members, sum(part.numbers for _, part in parts), predict)


@full.cell_slack.register(Independent)
def _cell_slack(model: Independent) -> Array:
    """Return the slack of each instance, shape (m, 1), or (m, q) if it differs between tasks."""
    alphas = np.atleast_2d(model.alphas["alpha"])
    zeros = as_array_of(np.zeros_like(alphas, dtype=np.float64), model.rows.spectrum.values)
    return model.by_task(lambda rows, zeros: rows.scaled().slack[:, None] + zeros, zeros)


@full.leave_cells_out.register(Independent)
def _leave_cells_out(model: Independent, Y: Array) -> Array:
    return model.by_task(complete_columns, Y)


@incomplete.completion.register(Independent)
def _completion(model: Independent, Y: Array, weights: Array | None, **options: Any) -> Completion:
    labels = model.by_task(complete_columns, Y, weights)
    return Completion(labels, "columns", Solution(labels, 0, 0.0, True))


@weighing.label_weigher.register(Independent)
def _label_weigher(
    model: Independent, labels: Labels, n_pairs: int = 1, **options: Any
) -> weighing.Weigher:
    """Return the weights of labels, which are zero for labels of other tasks."""
    grid = labels.dense()

    def weights(row: Asked, column: Asked) -> Array:
        if not isinstance(column, int):
            raise ValueError(
                "Independent tasks have no predictions for new tasks: use the id of a training "
                "task."
            )
        rows = model.of_task(column)
        result = namespace(grid.values).zeros_like(grid.values)
        scale = None if grid.weights is None else grid.weights[:, column]
        result[:, column] = weigh_column(rows, hat_row(rows, row), grid.values[:, column], scale)
        return labels.of(result)

    is_weighted = labels.weights is not None
    numbers = solve_numbers(
        labels.shape, model.ranks, coupled=False, complete=labels.is_full, weighted=is_weighted
    )
    return weighing.Weigher(weights, 0.0 if labels.is_full else numbers)


@incomplete.has_formula.register(Independent)
def _has_formula(model: Independent, labels: Labels, setting: Setting) -> bool:
    return True


@incomplete.leave_one_out.register(Independent)
def _leave_one_out(
    model: Independent, labels: Labels, setting: Setting, completed: Callable[[], Array]
) -> Array:
    """Return leave-one-out predictions of each column from its observed rows, by a division."""
    return model.by_task(leave_one_out_columns, labels.values, labels.weights)


@incomplete.without_unlabelled.register(Independent)
def _without_unlabelled(
    model: Independent, rows: np.ndarray, columns: np.ndarray
) -> Independent | None:
    """Return the model of labelled rows; None if unlabelled rows contribute to the penalty."""
    if not model.refits:
        return None
    part = replace(model.rows, spectrum=model.rows.spectrum.part(rows))
    return replace(model, rows=part, each=None if model.each is None else model.each[columns])


@dense_sides.register(Independent)
def _dense_sides(model: Independent, fixed_penalty: bool) -> list[DenseSide]:
    """Return one side for all tasks, or one for each."""
    if model.each is None:
        smoothers = [model.rows]
    else:
        smoothers = [model.of_task(task) for task in range(len(model.each))]
    return [
        DenseSide.of(rows.spectrum, rows.filter, rows.alpha, fixed_penalty) for rows in smoothers
    ]


@refit_cells.register(Independent)
def _refit_cells(model: Independent, sides: Sides, Y: np.ndarray) -> OfHidden:
    def each_task(hidden: np.ndarray) -> np.ndarray:
        result = np.zeros(Y.shape)
        for j in np.flatnonzero(hidden.any(axis=0)):
            i = hidden[:, j]
            result[i, j] = sides[int(j) % len(sides)].predictor(~i, i) @ Y[~i, j]
        return np.asarray(result[hidden])

    return each_task

r"""Independent tasks: ridge regression over the instances, for every task on its own.

A prediction is :math:`\mathbf{k}^\top\varphi_d(\mathbf{K})\mathbf{Y}`. Labels of one task say nothing of another, so
that leaving out a pair and leaving out its instance are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.pairing import full, incomplete
from dyadlearn.pairing.base import Pairing
from dyadlearn.pairing.certainty import Jackknife, side_jackknife
from dyadlearn.pairing.dense import Masks, OfHidden, Sides, refit_block, refit_cells
from dyadlearn.pairing.expansion import Asked, hat_row
from dyadlearn.pairing.leaving import Members, leave_out
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_columns, leave_one_out_columns, weigh_column
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.missing import Completion
from dyadlearn.spectrum import Smoother


@dataclass(frozen=True, eq=False)
class Independent(Pairing):
    """One side, of the instances."""

    words: ClassVar[str] = "independent-task ridge regression"
    side_names: ClassVar[tuple[str, ...]] = ("instances",)
    knows_tasks: ClassVar[bool] = False

    rows: Smoother

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Operators of the instances."""
        return (self.rows,)

    def at(self, alpha: float, task_alpha: float | None = None) -> Self:
        """Return the same model under another regularisation."""
        return replace(self, rows=self.rows.at(alpha))

    def coefficients(self, Y: Array) -> Array:
        r"""Return :math:`\mathbf{B}_k\,\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}`, (m, q) or (d, q)."""
        spectrum = self.rows.spectrum
        return spectrum.lift(self.rows.phi[:, None] * spectrum.rotate(Y))

    def dual(self, Y: Array) -> Array:
        r"""Return :math:`(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}`, shape (m, q)."""
        return self.rows.dual(Y)


@full.holdout_grids.register(Independent)
def _holdout_grids(model: Independent) -> tuple[float, float]:
    return 2.5, 0.0


@full.hold_out_stack.register(Independent)
def _hold_out_stack(model: Independent, stack: Array, setting: Setting, *groups: Members) -> Array:
    """Return held-out predictions, the same for a new pair and a new instance; grids stand side by side as tasks."""
    (n, m, q), xp = stack.shape, namespace(stack)
    beside = xp.reshape(xp.permute_dims(stack, (1, 0, 2)), (m, n * q))
    held_out = leave_out(model.rows, beside, groups[0] if groups else None)
    return xp.permute_dims(xp.reshape(held_out, (m, n, q)), (1, 0, 2))


@full.jackknife.register(Independent)
def _jackknife(model: Independent, Y: Array, members: Members = None) -> Jackknife:
    return side_jackknife(leave_out(model.rows, Y, members), members, model.rows, Y)


@full.cell_slack.register(Independent)
def _cell_slack(model: Independent) -> Array:
    return model.rows.scaled().slack[:, None]


@full.leave_cells_out.register(Independent)
def _leave_cells_out(model: Independent, Y: Array) -> Array:
    return complete_columns(model.rows, Y)


@incomplete.completion.register(Independent)
def _completion(model: Independent, Y: Array, weights: Array | None, **options: Any) -> Completion:
    labels = complete_columns(model.rows, Y, weights)
    return Completion(labels, "columns", Solution(labels, 0, 0.0, True))


@incomplete.label_weights.register(Independent)
def _label_weights(
    model: Independent, row: Asked, column: Asked, Y: Array, weights: Array | None, **options: Any
) -> Array:
    """Return the weight of each label; those of other tasks have none."""
    if not isinstance(column, int):
        raise ValueError("Independent tasks say nothing of new ones: ask about a task of training.")
    found, own = namespace(Y).zeros_like(Y), hat_row(model.rows, row)
    scale = None if weights is None else weights[:, column]
    found[:, column] = weigh_column(model.rows, own, Y[:, column], scale)
    return found


@incomplete.is_quick_one_by_one.register(Independent)
def _is_quick_one_by_one(model: Independent, Y: Array, weights: Array | None, setting: Setting) -> bool:
    return True


@incomplete.leave_one_out.register(Independent)
def _leave_one_out(
    model: Independent, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
) -> Array:
    """Return leave-one-out of every column on its own observed rows, a division."""
    return leave_one_out_columns(model.rows, Y, weights)


@incomplete.without_unlabelled.register(Independent)
def _without_unlabelled(model: Independent, rows: np.ndarray, columns: np.ndarray) -> Independent | None:
    """Return the model of labelled rows, unless the penalty is built from all rows."""
    if not model.refits:
        return None
    return replace(model, rows=replace(model.rows, spectrum=model.rows.spectrum.part(rows)))


@refit_block.register(Independent)
def _refit_block(model: Independent, sides: Sides, Y: np.ndarray, kept: Masks, asked: Masks) -> np.ndarray:
    return np.asarray(sides[0].predictor(kept[0], asked[0]) @ Y[np.ix_(kept[0], asked[1])])


@refit_cells.register(Independent)
def _refit_cells(model: Independent, sides: Sides, Y: np.ndarray) -> OfHidden:
    def each_task(hidden: np.ndarray) -> np.ndarray:
        result = np.zeros(Y.shape)
        for j in np.flatnonzero(hidden.any(axis=0)):
            i = hidden[:, j]
            result[i, j] = sides[0].predictor(~i, i) @ Y[~i, j]
        return np.asarray(result[hidden])

    return each_task

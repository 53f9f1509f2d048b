r"""Independent tasks: ridge regression over the instances, for every task on its own.

A prediction is :math:`\mathbf{k}^\top\varphi_d(\mathbf{K})\mathbf{Y}`. Labels of one task say nothing of another, so
that leaving out a pair and leaving out its instance are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.pairing.base import Pairing
from dyadlearn.pairing.certainty import Jackknife, SideJackknife
from dyadlearn.pairing.dense import DenseSide
from dyadlearn.pairing.expansion import Asked, hat_row
from dyadlearn.pairing.leaving import Members, leave_out
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_columns, leave_one_out_columns, weigh_column
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.missing import Completion
from dyadlearn.spectrum import Smoother, Spectrum


@dataclass(frozen=True, eq=False)
class Independent(Pairing):
    """One side, of the instances."""

    words: ClassVar[str] = "independent-task ridge regression"
    side_names: ClassVar[tuple[str, ...]] = ("instances",)
    knows_tasks: ClassVar[bool] = False

    rows: Smoother

    @property
    def holdout_grids(self) -> tuple[float, float]:
        """Grids that leaving out holds at once."""
        return 2.5, 0.0

    @property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Spectrum of the instances."""
        return (self.rows.spectrum,)

    @property
    def smoothers(self) -> tuple[Smoother, ...]:
        """Operators of the instances."""
        return (self.rows,)

    @property
    def alphas(self) -> dict[str, float]:
        """The one regularisation."""
        return {"alpha": self.rows.alpha}

    @property
    def has_task_constants(self) -> bool:
        """Whether there is a constant: each task has its own."""
        return self.rows.spectrum.has_free_constant

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

    def holdout(self, Y: Array, setting: Setting, members: Members = None, task_members: Members = None) -> Array:
        """Return held-out predictions, the same for a new pair and a new instance."""
        return leave_out(self.rows, Y, members)

    def jackknife(self, Y: Array, members: Members = None) -> Jackknife:
        """Return the models of complete labels that each did without some instances."""
        return SideJackknife(leave_out(self.rows, Y, members), members, self.rows, Y)

    def cell_slack(self) -> Array:
        """Return the slack of each instance, shape (m, 1)."""
        return self.rows.scaled().slack[:, None]

    def holdout_stack(
        self, stack: Array, setting: Setting, members: Members = None, task_members: Members = None
    ) -> Array:
        """Return the same for a stack of grids (n, m, q), which stand side by side as more tasks."""
        (n, m, q), xp = stack.shape, namespace(stack)
        beside = xp.reshape(xp.permute_dims(stack, (1, 0, 2)), (m, n * q))
        held_out = leave_out(self.rows, beside, members)
        return xp.permute_dims(xp.reshape(held_out, (m, n, q)), (1, 0, 2))

    def leave_cells_out(self, Y: Array) -> Array:
        """Return a complete grid, column by column."""
        return complete_columns(self.rows, Y)

    def _completed(
        self, Y: Array, weights: Array | None, start: Completion | None, tol: float, max_iter: int
    ) -> Completion:
        labels = complete_columns(self.rows, Y, weights)
        return Completion(labels, "columns", Solution(labels, 0, 0.0, True))

    def label_weights(
        self, row: Asked, column: Asked, Y: Array, weights: Array | None, *, tol: float = 1e-8, max_iter: int = 1000
    ) -> Array:
        """Return how much each label weighs, those of other tasks nothing, shape (m, q)."""
        if not isinstance(column, int):
            raise ValueError("Independent tasks say nothing of new ones: ask about a task of training.")
        found, own = namespace(Y).zeros_like(Y), hat_row(self.rows, row)
        scale = None if weights is None else weights[:, column]
        found[:, column] = weigh_column(self.rows, own, Y[:, column], scale)
        return found

    def has_shortcut(self, Y: Array, weights: Array | None, setting: Setting) -> bool:
        """Tell that leaving a row out is a division within every column."""
        return True

    def leave_one_out(
        self, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
    ) -> Array | None:
        """Return leave-one-out of every column on its own observed rows."""
        return leave_one_out_columns(self.rows, Y, weights)

    def without_unlabelled(self, rows: np.ndarray, columns: np.ndarray) -> Self | None:
        """Return the model of labelled rows, unless the penalty is built from all rows."""
        if not self.refits:
            return None
        return replace(self, rows=replace(self.rows, spectrum=self.rows.spectrum.part(rows)))

    def refit_block(
        self, sides: Sequence[DenseSide], Y: np.ndarray, kept: Sequence[np.ndarray], asked: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the slow twin's predictions for a block."""
        return np.asarray(sides[0].predictor(kept[0], asked[0]) @ Y[np.ix_(kept[0], asked[1])])

    def refit_cells(self, sides: Sequence[DenseSide], Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the slow twin's predictions for hidden cells."""

        def each_task(hidden: np.ndarray) -> np.ndarray:
            result = np.zeros(Y.shape)
            for j in np.flatnonzero(hidden.any(axis=0)):
                i = hidden[:, j]
                result[i, j] = sides[0].predictor(~i, i) @ Y[~i, j]
            return np.asarray(result[hidden])

        return each_task

r"""Independent tasks: ridge regression over the instances, for every task on its own.

A prediction is :math:`\mathbf{k}^\top\varphi_d(\mathbf{K})\mathbf{Y}`. Labels of one task say nothing of another, so
that leaving out a pair and leaving out its instance are the same. Each task may have a regularisation of its own: tasks
that share one are solved together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_rows
from dyadlearn.filters import SpectralFilter
from dyadlearn.pairing.base import Pairing
from dyadlearn.pairing.certainty import Jackknife, SideJackknife
from dyadlearn.pairing.dense import DenseSide
from dyadlearn.pairing.expansion import Asked, NewRows, hat_row
from dyadlearn.pairing.leaving import Members, leave_out, scatter_rows
from dyadlearn.settings import Setting
from dyadlearn.solve.columns import complete_columns, leave_one_out_columns, weigh_column
from dyadlearn.solve.conjugate_gradients import Solution
from dyadlearn.solve.missing import Completion
from dyadlearn.spectrum import Smoother, Spectrum


@dataclass(frozen=True, eq=False)
class Independent(Pairing):
    """One side, of the instances.

    Attributes
    ----------
    rows : Smoother
        Of the instances; under alpha NaN where each task has its own.
    each : array of shape (q,) or None
        The regularisation of each task; None is that of `rows` for all.
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

    def _groups(self) -> list[tuple[np.ndarray, Self]]:
        """Return the tasks of each regularisation, and the model that they share."""
        each = self.alphas["alpha"]
        return [(np.flatnonzero(each == alpha), self.at(float(alpha))) for alpha in np.unique(each)]

    def _by_task(self, solve: Callable[..., Array], *grids: Array | None) -> Array:
        """Return what `solve` gives for a smoother and grids (m, q), tasks of the same regularisation together."""
        if self.each is None:
            return solve(self.rows, *grids)
        groups = self._groups()
        pieces = [
            solve(model.rows, *(None if grid is None else take_rows(grid.T, tasks).T for grid in grids)).T
            for tasks, model in groups
        ]
        return scatter_rows(pieces, [tasks for tasks, _ in groups]).T

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
    def alphas(self) -> dict[str, Any]:
        """The one regularisation, or an array (q,) with that of each task."""
        return {"alpha": self.rows.alpha if self.each is None else self.each}

    @property
    def side_ridges(self) -> tuple[float, ...]:
        """The ridge beside the kernel, which says how far apart rows are; the median of those of tasks."""
        return (float(np.median(self.alphas["alpha"])),)

    def _regularised(self) -> Iterator[tuple[str, str, float, float, Spectrum]]:
        for alpha in np.unique(self.alphas["alpha"]):
            yield "instance", "alpha", float(alpha), 1.0, self.rows.spectrum

    @property
    def has_task_constants(self) -> bool:
        """Whether there is a constant: each task has its own."""
        return self.rows.spectrum.has_free_constant

    def at(self, alpha: Any, task_alpha: float | None = None) -> Self:
        """Return the same model under another regularisation, or an array (q,) with one for each task."""
        return self.of(self.rows.spectrum, self.rows.filter, alpha)

    def coefficients(self, Y: Array) -> Array:
        r"""Return :math:`\mathbf{B}_k\,\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}`, (m, q) or (d, q)."""

        def lifted(rows: Smoother, labels: Array) -> Array:
            return rows.spectrum.lift(rows.phi[:, None] * rows.spectrum.rotate(labels))

        return self._by_task(lifted, Y)

    def dual(self, Y: Array) -> Array:
        r"""Return :math:`(\mathbf{K}+\lambda_d\mathbf{I})^{-1}\mathbf{Y}`, shape (m, q)."""
        return self._by_task(Smoother.dual, Y)

    def holdout(self, Y: Array, setting: Setting, members: Members = None, task_members: Members = None) -> Array:
        """Return held-out predictions, the same for a new pair and a new instance."""
        return self._by_task(lambda rows, labels: leave_out(rows, labels, members), Y)

    def jackknife(self, Y: Array, members: Members = None) -> Jackknife:
        """Return the models of complete labels that each did without some instances."""
        held_out = self.holdout(Y, Setting.B, members)
        if self.each is None:
            return SideJackknife(held_out, members, self.rows, Y)
        parts = [
            (tasks, SideJackknife(take_rows(held_out.T, tasks).T, members, model.rows, take_rows(Y.T, tasks).T))
            for tasks, model in self._groups()
        ]
        return TaskJackknife(held_out, members, parts)

    def cell_slack(self) -> Array:
        """Return the slack of each instance, shape (m, 1), or (m, q) where it differs between tasks."""
        if self.each is None:
            return self.rows.scaled().slack[:, None]
        like = as_array_of(self.each[None, :], self.rows.spectrum.values)
        return self._by_task(lambda rows, tasks: rows.scaled().slack[:, None] + 0.0 * tasks, like)

    def holdout_stack(
        self, stack: Array, setting: Setting, members: Members = None, task_members: Members = None
    ) -> Array:
        """Return the same for a stack of grids (n, m, q), which stand side by side as more tasks."""
        (n, m, q), xp = stack.shape, namespace(stack)
        beside = xp.reshape(xp.permute_dims(stack, (1, 0, 2)), (m, n * q))
        each = None if self.each is None else np.tile(self.each, n)
        held_out = replace(self, each=each).holdout(beside, setting, members)
        return xp.permute_dims(xp.reshape(held_out, (m, n, q)), (1, 0, 2))

    def leave_cells_out(self, Y: Array) -> Array:
        """Return a complete grid, column by column."""
        return self._by_task(complete_columns, Y)

    def _completed(
        self, Y: Array, weights: Array | None, start: Completion | None, tol: float, max_iter: int
    ) -> Completion:
        labels = self._by_task(complete_columns, Y, weights)
        return Completion(labels, "columns", Solution(labels, 0, 0.0, True))

    def label_weights(
        self, row: Asked, column: Asked, Y: Array, weights: Array | None, *, tol: float = 1e-8, max_iter: int = 1000
    ) -> Array:
        """Return how much each label weighs, those of other tasks nothing, shape (m, q)."""
        if not isinstance(column, int):
            raise ValueError("Independent tasks say nothing of new ones: ask about a task of training.")
        rows = self.rows if self.each is None else self.rows.at(float(self.each[column]))
        found, own = namespace(Y).zeros_like(Y), hat_row(rows, row)
        scale = None if weights is None else weights[:, column]
        found[:, column] = weigh_column(rows, own, Y[:, column], scale)
        return found

    def has_shortcut(self, Y: Array, weights: Array | None, setting: Setting) -> bool:
        """Return True: leaving a row out is a division within every column."""
        return True

    def leave_one_out(
        self, Y: Array, weights: Array | None, setting: Setting, completed: Callable[[], Array]
    ) -> Array | None:
        """Return leave-one-out of every column on its own observed rows."""
        return self._by_task(leave_one_out_columns, Y, weights)

    def without_unlabelled(self, rows: np.ndarray, columns: np.ndarray) -> Self | None:
        """Return the model of labelled rows, unless the penalty is built from all rows."""
        if not self.refits:
            return None
        part = replace(self.rows, spectrum=self.rows.spectrum.part(rows))
        return replace(self, rows=part, each=None if self.each is None else self.each[columns])

    def dense_sides(self, fixed_penalty: bool) -> list[DenseSide]:
        """Return the side of the slow reference for each task, or one for all."""
        if self.each is None:
            return super().dense_sides(fixed_penalty)
        known = {alpha: self.at(alpha).dense_sides(fixed_penalty)[0] for alpha in set(self.each.tolist())}
        return [known[alpha] for alpha in self.each.tolist()]

    def refit_block(
        self, sides: Sequence[DenseSide], Y: np.ndarray, kept: Sequence[np.ndarray], asked: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return the slow reference's predictions for a block."""
        tasks = np.flatnonzero(asked[1])
        columns = [sides[int(j) % len(sides)].predictor(kept[0], asked[0]) @ Y[kept[0], j] for j in tasks]
        return np.stack(columns, axis=1)

    def refit_cells(self, sides: Sequence[DenseSide], Y: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the slow reference's predictions for hidden cells."""

        def each_task(hidden: np.ndarray) -> np.ndarray:
            result = np.zeros(Y.shape)
            for j in np.flatnonzero(hidden.any(axis=0)):
                i = hidden[:, j]
                result[i, j] = sides[int(j) % len(sides)].predictor(~i, i) @ Y[~i, j]
            return np.asarray(result[hidden])

        return each_task


@dataclass(frozen=True, eq=False)
class TaskJackknife(Jackknife):
    """Models of tasks that have regularisations of their own.

    Attributes
    ----------
    parts : list of (integer array, SideJackknife)
        Tasks that share a regularisation, and their models.
    """

    parts: list[tuple[np.ndarray, SideJackknife]]

    @property
    def numbers(self) -> int:
        """Numbers of all parts."""
        return sum(part.numbers for _, part in self.parts)

    def predictions(self, rows: NewRows) -> Array:
        """Return what each model predicts, shape (a, q, u)."""
        found = [part.predictions(rows) for _, part in self.parts]
        order = np.argsort(np.concatenate([tasks for tasks, _ in self.parts]))
        xp = namespace(found[0])
        return xp.take(xp.concat(found, axis=1), as_array_of(order, found[0]), axis=1)

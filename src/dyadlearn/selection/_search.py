"""What the searching estimators share: fit the sides once, score every regularisation, keep the best."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, to_numpy
from dyadlearn._checks import check_alpha, check_alphas, check_choice
from dyadlearn._state import is_shaped
from dyadlearn._tables import Ids, in_order, read_table
from dyadlearn.exceptions import GridEdgeWarning, LeverageError
from dyadlearn.holdout import plan
from dyadlearn.holdout.folds import as_splitter
from dyadlearn.metrics import scorer
from dyadlearn.metrics.choice import as_good, best_point
from dyadlearn.metrics.undefined import warn_of_undefined
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.models._side import KernelSpec, Side, fit_side
from dyadlearn.selection.landscape import MAX_MEMORY, scored
from dyadlearn.selection.refine import refined_alphas
from dyadlearn.settings import Setting, as_setting

__all__ = ["RidgeSearch", "best_kernel", "edges_of", "grid_of"]


class RidgeSearch(PairwiseRidge, stored=False):
    """Base of the searching estimators: fit the sides once, score every regularisation, keep the best."""

    alphas: Any
    setting: str
    scoring: Any
    kernel_grid: Sequence[dict[str, Any]] | None
    cv: Any
    progress: bool | None
    alpha_per_task: bool = False

    alpha_: Any
    task_alpha_: Any
    best_score_: float
    landscape_: np.ndarray
    holdout_: Any
    holdout_method_: str
    holdout_setting_: str

    _shapes: ClassVar[Mapping[str, str]] = {**PairwiseRidge._shapes, "holdout_": "m q"}

    _sides_tried: list[Side]
    _task_sides_tried: list[Side | None]

    def fit(  # no sample_weight: a search weighs all cells alike
        self, X: Any, y: Any, tasks: Any = None, groups: Any = None, task_groups: Any = None
    ) -> Self:
        """Fit the model and choose its regularisation.

        Parameters
        ----------
        X, y, tasks : as in the model without search
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            Instances and tasks that are left out together.

        Returns
        -------
        self
        """
        self._group_labels = (groups, task_groups)
        try:
            return super().fit(X, y, tasks)
        finally:
            del self._group_labels

    def _fit_instance_side(self, rows: Array, ids: Ids | None, names: Ids | None) -> Side:
        self._sides_tried = _sides(rows, self._spec(), self.kernel_grid, ids, names, "instance")
        return self._sides_tried[0]

    def _fit_task_side(self, rows: Array | None, ids: Ids | None, names: Ids | None) -> Side | None:
        grid = getattr(self, "task_kernel_grid", None)
        if rows is None:
            self._task_sides_tried = [None]
        else:
            self._task_sides_tried = list(_sides(rows, self._task_spec(), grid, ids, names, "task"))
        return self._task_sides_tried[0]

    def _check_params(self) -> None:
        as_setting(self.setting)
        scorer(self.scoring)
        check_choice(self.repair, "repair", ("clip", "shift", "error"))
        self._check_stopping()
        self._grids()
        if self.cv is not None:
            as_splitter(self.cv, as_setting(self.setting))
        if any(self._is_free()) and self.scoring != "neg_mean_squared_error":
            raise ValueError('alphas="auto" searches a smooth objective: it needs scoring="neg_mean_squared_error".')

    def _is_free(self) -> list[bool]:
        """Tell which of the two regularisations may move between and beyond the values of the grid."""
        return [isinstance(grid, str) for grid in (self.alphas, getattr(self, "task_alphas", None))]

    def _grids(self) -> tuple[list[float], list[float] | None]:
        """Return the values of one or two regularisations."""
        return grid_of(self.alphas, "alphas"), None

    def _solve(self) -> Self:
        if self.alpha_per_task:
            return self._solve_each_task()
        setting = as_setting(self.setting)
        groups, task_groups = self._group_labels
        labels = {
            "groups": in_order(groups, self._grid.row_ids, None, "groups"),
            "task_groups": in_order(task_groups, self._grid.column_ids, None, "task_groups"),
        }
        alphas, task_alphas = self._grids()
        self.alpha_, self.task_alpha_ = alphas[0], None if task_alphas is None else task_alphas[0]
        if any(self._is_free()) and (self.cv is not None or not self._posed().is_complete):
            raise ValueError('alphas="auto" needs complete labels without weights or cv: give alphas as numbers.')
        stack = self._scored_kernels(alphas, task_alphas, setting, labels)
        task_alphas = None if stack.ndim == 2 else task_alphas  # without tasks there is nothing to regularise
        warn_of_undefined(stack, alphas, task_alphas, setting.value, 5)
        place = best_point(stack, alphas, task_alphas)
        first, second = divmod(int(place[0]), len(self._task_sides_tried))
        self._side, self._task_side = self._sides_tried[first], self._task_sides_tried[second]
        shape = (len(self._sides_tried), len(self._task_sides_tried), *stack.shape[1:])
        searched = len(self._sides_tried) * len(self._task_sides_tried) > 1
        self.landscape_ = stack.reshape(shape) if searched else stack[0]
        self.best_score_ = float(stack[place])
        self.alpha_ = alphas[place[1]]
        self.task_alpha_ = None if task_alphas is None else task_alphas[place[2]]
        for name, best, low, high in edges_of(self):
            warnings.warn(
                f"The best {name}, {best:g}, is on the edge of the grid ({low:g} … {high:g}): widen it, or take it "
                "that this side wants no (or full) regularisation.",
                GridEdgeWarning,
                stacklevel=5,
            )
        self._refine(labels)
        del self._sides_tried, self._task_sides_tried
        return self._finish(setting, labels)

    def _scored_kernels(
        self, alphas: list[float], task_alphas: list[float] | None, setting: Setting, labels: dict[str, Any]
    ) -> np.ndarray:
        """Return the landscapes of all kernel parameters, stacked; NaN for those that always interpolate."""
        options = {"max_memory": MAX_MEMORY, "progress": self.progress}
        found: list[np.ndarray | None] = []
        for side in self._sides_tried:
            for task_side in self._task_sides_tried:
                self._side, self._task_side = side, task_side
                given = (labels["groups"], labels["task_groups"], self.cv)
                try:
                    scores = scored(
                        self._posed(), alphas, task_alphas or [1.0], [setting], self.scoring, given, options
                    )
                    found.append(scores[setting.value])
                except LeverageError as error:
                    found.append(None)
                    refusal = error
        shape = next((scores.shape for scores in found if scores is not None), None)
        if shape is None:
            raise refusal
        return np.stack([np.full(shape, np.nan) if scores is None else scores for scores in found])

    def _solve_each_task(self) -> Self:
        raise NotImplementedError

    def _refine(self, labels: dict[str, Any]) -> None:
        """Search between the values of the grid where that was asked for."""
        if not any(self._is_free()):
            return
        problem = self._posed()
        best = refined_alphas(problem, as_setting(self.setting), self._is_free(), labels)
        self.alpha_, self.best_score_ = best.alpha, best.score
        if len(problem.pairing.alphas) > 1:
            self.task_alpha_ = best.task_alpha

    def _finish(self, setting: Setting, labels: dict[str, Any]) -> Self:
        self._solved()
        problem = self._problem()
        how = plan(problem, setting, labels["groups"], labels["task_groups"], self.cv)
        self.holdout_method_, held_out = how.words, how.held_out()
        self.holdout_, self.holdout_setting_ = self._grid.restore(held_out), setting.value
        return self

    def state(self) -> dict[str, Any]:
        """Return the parameters and what was learnt; held-out predictions as an array, whatever the labels came in."""
        found, kept = super().state(), self._kept_holdout(self._searched_setting)
        return found if kept is None else {**found, "holdout_": kept[0]}

    def _fits(self) -> bool:
        alpha, task_alpha = self.alpha_, getattr(self, "task_alpha_", None)
        each_task = isinstance(alpha, np.ndarray)
        for value in (1.0 if each_task else alpha, 1.0 if task_alpha is None else task_alpha):
            check_alpha(value, "What was chosen")
        return (
            super()._fits()
            and self.landscape_.dtype.kind == "f"
            and (not each_task or is_shaped(alpha, *self._grid.values.shape[1:]))
        )

    def _pose_again(self, changed: Mapping[str, Any]) -> None:
        super()._pose_again(changed)
        self.holdout_ = self._grid.restore(self.holdout_)

    @property
    def _searched_setting(self) -> Setting:
        """The setting that the regularisation was chosen for, whatever `setting` was set to since."""
        return as_setting(getattr(self, "holdout_setting_", self.setting))

    def _kept_holdout(self, setting: Setting) -> tuple[Array, str] | None:
        """Return the held-out predictions (m, q) by which the search has chosen, and how they were made.

        None for another setting than that of the search, and for a model that was read from a file that kept less.
        """
        if setting is not self._searched_setting or not hasattr(self, "holdout_"):
            return None
        Y = self._grid.values
        kept = to_numpy(read_table(self.holdout_, "holdout_").values).reshape(Y.shape[0], -1)
        # Ids of rows may stand in a first column.
        return as_array_of(kept[:, -Y.shape[1] :], Y, Y.dtype), self.holdout_method_


def _sides(
    rows: Array,
    spec: KernelSpec,
    grid: Sequence[dict[str, Any]] | None,
    ids: Ids | None,
    names: Ids | None,
    name: str,
) -> list[Side]:
    """Decompose a side once for each set of kernel parameters."""
    if grid is None:
        return [fit_side(rows, spec, ids, names, name)]
    if not grid:
        raise ValueError(f"The grid of {name} kernel parameters is empty: give at least one dict.")
    return [fit_side(rows, replace(spec, params=params), ids, names, name) for params in grid]


def grid_of(alphas: Any, name: str) -> list[float]:
    """Return the values that a search tries, from its parameter."""
    if isinstance(alphas, str):
        if alphas != "auto":
            raise ValueError(f'{name} must be a sequence of numbers or "auto", found {alphas!r}.')
        alphas = None
    if isinstance(alphas, Iterator):
        raise TypeError(
            f"{name} is an iterator, which can be read but once, and a search is cloned and stored with its values: "
            f"give a sequence, as list({name})."
        )
    return check_alphas(alphas, name)


def best_kernel(search: RidgeSearch) -> np.ndarray:
    """Return the landscape (n_alphas, …) of the kernel parameters that a search has chosen."""
    task_alphas = search._grids()[1] if search.landscape_.ndim == 4 else None
    place = best_point(search.landscape_, search._grids()[0], task_alphas)
    return np.asarray(search.landscape_[place[:2]])


def edges_of(search: RidgeSearch) -> list[tuple[str, float, float, float]]:
    """Tell which best values are at an end of a grid that was given, no value inside it being as good.

    Parameters
    ----------
    search : RidgeSearch
        With one regularisation for all tasks.

    Returns
    -------
    list of (name, best value, least value, greatest value)
    """
    grids = search._grids()
    scores = search.landscape_.reshape(-1, len(grids[0]), 1 if search.task_alpha_ is None else len(grids[1] or [0.0]))
    equal = as_good(scores, float(np.nanmax(scores)))
    found = []
    for name, values, axes in (("alpha", grids[0], (0, 2)), ("task_alpha", grids[1], (0, 1))):
        best, given = getattr(search, f"{name}_"), getattr(search, f"{name}s", None)
        if best is None or values is None or given is None or isinstance(given, str):
            continue
        low, high = min(values), max(values)
        if low < high and not any(low < value < high for value in np.asarray(values)[np.asarray(equal.any(axis=axes))]):
            found.append((name, float(best), low, high))
    return found

"""Independent tasks that choose their regularisation, one for all of them or each its own."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_rows
from dyadlearn._codes import group_codes
from dyadlearn._tables import shown
from dyadlearn.exceptions import UndefinedScoreWarning
from dyadlearn.filters import SpectralFilter
from dyadlearn.holdout import Problem, Units, check_enough_left, holdout, plan
from dyadlearn.holdout.folds import fold_groups
from dyadlearn.holdout.lone import scored_labels, warn_of_tasks_without_labels
from dyadlearn.holes.complete import Completion
from dyadlearn.holes.conjugate_gradients import Solution
from dyadlearn.metrics import scorer
from dyadlearn.metrics.choice import best_point, warn_of_undefined, where_defined
from dyadlearn.metrics.scorers import each_column
from dyadlearn.models import IndependentTaskRidge
from dyadlearn.models._base import Sides
from dyadlearn.models._side import Side
from dyadlearn.pairing import Independent
from dyadlearn.selection.landscape import LeftOut
from dyadlearn.selection.search import Search, grid_of
from dyadlearn.settings import Setting, as_setting

__all__ = ["IndependentTaskRidgeCV"]


@dataclass(eq=False, repr=False)
class IndependentTaskRidgeCV(Search, IndependentTaskRidge):
    r"""Independent-task ridge regression that chooses its regularisation itself.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas : sequence of float or float, default=None
        Values of :math:`\lambda_d`; None is 10⁻⁷ … 10⁶.
    setting : {"A", "B"} or an alias, default="B"
        The predictions are the same in both; rank metrics are averaged differently.
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    alpha_per_task : bool, default=False
        Whether every task has a regularisation of its own, chosen by the score of its own column. A task without such
        a score, having no label or only one value, takes the one that is best for all others together; a warning names
        it.
    kernel, kernel_params, filter, fit_intercept, repair
        As in `IndependentTaskRidge`.
    kernel_grid : list of dict, default=None
        Kernel parameters to search as well; each costs one decomposition.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out, and with `groups` and missing labels five folds of them.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.
    exhaustive : bool, default=False
        Whether to evaluate every regularisation where folds are solved again. By default a grid with seven or more
        values on an axis is searched from coarse to fine then.
    progress : bool, default=None
        Whether to show a progress line; None shows one on a terminal, and in a log after some seconds.
    device : str, default=None
        Where arrays of numpy are computed, as in the model without search.

    Attributes
    ----------
    alpha_ : float, or array of shape (q,) with ``alpha_per_task=True``
        The best value, or that of each task; of equals the largest.
    kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        The score of `holdout_`.
        With ``alpha_per_task=True`` the mean over tasks of their best scores.
    landscape_ : array of shape (n_alphas,), or (n_alphas, q) with ``alpha_per_task=True``
        Scores, NaN where there is none; with a kernel grid preceded by two axes, the second of length 1. A search from
        coarse to fine, as with `cv` and missing labels, leaves NaN where it evaluated nothing.
    n_evaluated_ : int
        Number of points of `landscape_` that were evaluated.
    holdout_ : array or frame of shape (m, q)
        Held-out predictions at the best values.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    baselines_ : dict of str to float
        What simple means reach, held out alike, on the scale of `best_score_`: ``grand_mean``, ``instance_means``,
        ``task_means`` and ``additive``.
    completed_
        As in `IndependentTaskRidge`.
    dual_coef_, coef_, intercept_
        As in `IndependentTaskRidge`.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import IndependentTaskRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(20, 3))
    >>> Y = X @ rng.normal(size=(3, 4)) + rng.normal(size=(20, 4))
    >>> IndependentTaskRidgeCV(alphas=[0.01, 1, 10, 100, 1000]).fit(X, Y).landscape_.shape
    (5,)
    """

    _tasks_remedy = "use TwoStepRidgeCV or KroneckerRidgeCV."

    alphas: Any = None
    alpha_per_task: bool = field(default=False, kw_only=True)
    filter: SpectralFilter | None = field(default=None, kw_only=True)

    def _pairing(self, side: Side, task_side: Side | None, alpha: Any) -> Independent:
        # Where there are many, each is put in its place with its tasks: see `_by_task`.
        return super()._pairing(side, task_side, float("nan") if np.ndim(alpha) else alpha)

    def _choose_each_task(self, sides: Sides, left_out: LeftOut) -> Self:
        """Score every regularisation on every task, and solve at the best of each."""
        groups, _, cv = left_out
        if self.kernel_grid is not None:
            raise ValueError("alpha_per_task=True searches alphas only: leave kernel_grid out.")
        setting = as_setting(self.setting)
        if setting.new_task:
            raise ValueError(f"Independent tasks are chosen for in setting A or B, found {self.setting!r}.")
        alphas, Y = grid_of(self.alphas, "alphas"), self._grid.values
        self._side, self._task_side = sides[0][0]
        problem = self._pose(self._side, None, {"alpha": alphas})
        self.holdout_method_ = plan(problem, Setting.B, groups, None, cv).words
        if cv is not None:
            groups = fold_groups(cv, Setting.B, Y.shape, groups, None)[0]
        told = {"knows_tasks": False, "is_complete": problem.is_complete}
        check_enough_left(problem.Y, Setting.B, groups, None, **told)
        score = each_column(self.scoring, Y)

        def scored_task(alpha: float) -> np.ndarray:
            found = holdout(problem.at(alpha), Setting.B, groups=groups)
            labels = scored_labels(problem, found, Setting.B, quiet=True)
            return (score if labels is problem.Y else each_column(self.scoring, labels))(found)

        def scored_tasks(values: Sequence[float], _: Sequence[float]) -> np.ndarray:
            return np.stack([scored_task(alpha) for alpha in values])

        scores = where_defined(scored_tasks, alphas, [1.0])
        undefined = np.isnan(scores).all(axis=0)
        known = scores[:, ~undefined]
        if not known.size:
            raise ValueError(f"{scorer(self.scoring).name} is undefined for every task: no alpha is the best.")
        warn_of_undefined(known.T, alphas, None, setting.value, 3)
        best = np.zeros(Y.shape[1], dtype=np.intp)
        best[~undefined] = [best_point(column, alphas)[0] for column in known.T]
        if undefined.any():  # what says nothing of itself is treated as is best for all others together
            best[undefined] = best_point(known.mean(axis=1), alphas)[0]
            self._warn_of_tasks(undefined, alphas[int(best[undefined][0])])
        self.landscape_, self.alpha_, self.task_alpha_ = scores, np.asarray(alphas)[best], None
        self.n_evaluated_ = scores.size
        self.best_score_ = float(scores[best, np.arange(Y.shape[1])][~undefined].mean())
        if not problem.is_complete:
            completed = self._by_task(lambda part: part.complete().labels, problem)
            self._completion = Completion(completed, "columns", Solution(completed, 0, 0.0, True))
        warn_of_tasks_without_labels(problem, 3)
        self._keep(problem)
        self._coefficients = self._by_task(lambda part: part.pairing.coefficients(part.Y), self._closed_problem)
        self.holdout_, self.holdout_setting_ = self.holdout("B", groups=groups), setting.value
        self._units = Units(None if groups is None else group_codes(groups, Y.shape[:1], "groups"))
        return self

    def _warn_of_tasks(self, undefined: np.ndarray, alpha: float) -> None:
        """Name the tasks that have no score of their own, and what they got."""
        places, ids = np.flatnonzero(undefined), self._grid.column_ids
        names = shown(places.tolist() if ids is None else ids.take(places).labels)
        warnings.warn(
            f"{scorer(self.scoring).name} is undefined for {len(places)} of {undefined.size} tasks "
            f"({names}), which have too few labels or only one value: "
            f"they take alpha {alpha:g}, the best for all others together, and count in no score.",
            UndefinedScoreWarning,
            stacklevel=4,
        )

    def _score(self, setting: Setting) -> Callable[[Any], Any]:
        if not self._is_per_task():
            return super()._score(setting)
        score = each_column(self.scoring, self._grid.values)
        return lambda F: np.nanmean(score(F))

    def _is_per_task(self) -> bool:
        return isinstance(getattr(self, "alpha_", None), np.ndarray)

    def _task_parts(self, problem: Problem) -> list[tuple[np.ndarray | None, Problem]]:
        if not self._is_per_task():
            return super()._task_parts(problem)
        weights = problem.weights
        found: list[tuple[np.ndarray | None, Problem]] = []
        for alpha in np.unique(self.alpha_):
            tasks = np.flatnonzero(self.alpha_ == alpha)
            given = (take_rows(problem.Y.T, tasks).T, None if weights is None else take_rows(weights.T, tasks).T)
            found.append((tasks, replace(problem.at(float(alpha)), Y=given[0], weights=given[1])))
        return found

    def _by_task(self, solve: Any, problem: Problem) -> Array:
        """Apply `solve` to the tasks of each regularisation and put the columns back in order."""
        members, parts = zip(*self._task_parts(problem), strict=True)
        together = namespace(problem.Y).concat([solve(part).T for part in parts], axis=0)
        return take_rows(together, as_array_of(np.argsort(np.concatenate(members)), together)).T

    def _held_out(self, setting: Setting, **labels: Any) -> Array:
        if not self._is_per_task():
            return super()._held_out(setting, **labels)
        if labels.get("cells") is not None or labels.get("task_groups") is not None:
            raise ValueError(
                "With alpha_per_task=True instances are left out: cells and task_groups are not supported."
            )
        return self._by_task(lambda part: holdout(part, setting, **labels), self._problem())

    @property
    def dual_coef_(self) -> Array:
        """Dual parameters A of shape (m, q), or (m,) after one-dimensional labels."""
        if not self._is_per_task():
            return super().dual_coef_
        return self._in_form(self._by_task(lambda part: part.pairing.dual(part.Y), self._closed_problem))

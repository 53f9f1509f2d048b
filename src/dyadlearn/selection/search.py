"""Estimators that choose their own regularisation by exact hold-out predictions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace, take_rows
from dyadlearn._tables import Ids, in_order
from dyadlearn.exceptions import UndefinedScoreWarning
from dyadlearn.filters import SpectralFilter, Tikhonov
from dyadlearn.holdout import Problem, check_enough_left, holdout, plan
from dyadlearn.holes.complete import Completion
from dyadlearn.holes.conjugate_gradients import Solution
from dyadlearn.metrics import scorer
from dyadlearn.metrics.choice import best_point
from dyadlearn.metrics.scorers import each_column
from dyadlearn.metrics.undefined import warn_of_undefined, where_defined
from dyadlearn.models._inputs import checked_filter
from dyadlearn.models._side import KernelSpec, Side
from dyadlearn.pairing import Independent, Kronecker, Pairing, TwoStep
from dyadlearn.selection._search import RidgeSearch, grid_of
from dyadlearn.settings import Setting, as_setting

__all__ = ["IndependentTaskRidgeCV", "KroneckerRidgeCV", "TwoStepRidgeCV"]


class TwoStepRidgeCV(RidgeSearch):
    r"""Two-step ridge regression that chooses both regularisations itself.

    Every pair :math:`(\lambda_d, \lambda_t)` of the grid is scored by exact hold-out predictions, which takes two
    decompositions in all. `best_score_` is the best of many and therefore optimistic: see `nested_score`.

    Parameters
    ----------
    alphas, task_alphas : sequence of float, float or "auto", default=None
        Values of :math:`\lambda_d` and :math:`\lambda_t`; None is 10⁻⁷ … 10⁶. With ``"auto"`` the best value of that
        grid is refined between and beyond its values, for squared error.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model is meant to predict: new pairs (A), instances (B), tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel, task_kernel, kernel_params, task_kernel_params, filter, task_filter, repair
        As in `TwoStepRidge`.
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to search as well, such as ``[{"gamma": 0.1}, {"gamma": 1.0}]``; each costs one
        decomposition.
    cv : int or SettingKFold, default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, and of single pairs where few
        are observed or the missing ones form a block; elsewhere it is five folds.
    tol, max_iter : float and int, default=1e-8 and 1000
        As in `TwoStepRidge`; while searching 1e-5 will do.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Attributes
    ----------
    alpha_, task_alpha_ : float
        The best values; of equals those with the largest product, and of these the largest `alpha_`.
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
    landscape_ : array of shape (n_alphas, n_task_alphas)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values.
    holdout_ : array or frame of shape (m, q)
        Held-out predictions at the best values.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    completed_, n_iter_, residual_
        As in `TwoStepRidge`.
    dual_coef_, coef_
        As in `TwoStepRidge`.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> search = TwoStepRidgeCV(alphas=[0.1, 1, 10, 100], task_alphas=[0.01, 0.1, 1, 10, 100], setting="D")
    >>> search.fit(X, Y, tasks=T).landscape_.shape
    (4, 5)
    """

    def __init__(
        self,
        alphas: Any = None,
        task_alphas: Any = None,
        *,
        setting: str = "B",
        scoring: Any = "neg_mean_squared_error",
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        task_kernel: Any = "linear",
        task_kernel_params: dict[str, Any] | None = None,
        kernel_grid: Sequence[dict[str, Any]] | None = None,
        task_kernel_grid: Sequence[dict[str, Any]] | None = None,
        filter: SpectralFilter | None = None,
        task_filter: SpectralFilter | None = None,
        repair: str = "clip",
        cv: Any = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        progress: bool | None = None,
    ) -> None:
        self.alphas = alphas
        self.task_alphas = task_alphas
        self.setting = setting
        self.scoring = scoring
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.task_kernel = task_kernel
        self.task_kernel_params = task_kernel_params
        self.kernel_grid = kernel_grid
        self.task_kernel_grid = task_kernel_grid
        self.filter = filter
        self.task_filter = task_filter
        self.repair = repair
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.progress = progress

    @property
    def kernel_params_(self) -> Any:
        """Kernel parameters of the instances that were chosen."""
        return self._side.spec.params

    @property
    def task_kernel_params_(self) -> Any:
        """Kernel parameters of the tasks that were chosen."""
        return None if self._task_side is None else self._task_side.spec.params

    def _grids(self) -> tuple[list[float], list[float] | None]:
        return grid_of(self.alphas, "alphas"), grid_of(self.task_alphas, "task_alphas")

    def _task_spec(self) -> KernelSpec:
        return KernelSpec(self.task_kernel, self.task_kernel_params, self.repair)

    def _pairing(self) -> Pairing:
        rows = self._side.spectrum.smoother(checked_filter(self.filter, "filter"), self.alpha_)
        if self._task_side is None:
            return Independent(rows)
        task_filter = checked_filter(self.task_filter, "task_filter")
        return TwoStep(rows, self._task_side.spectrum.smoother(task_filter, self.task_alpha_))


class KroneckerRidgeCV(RidgeSearch):
    r"""Kronecker ridge regression that chooses its regularisation itself, in any of the four settings.

    Parameters
    ----------
    alphas : sequence of float, float or "auto", default=None
        Values of :math:`\lambda`; None is 10⁻⁷ … 10⁶. With ``"auto"`` the best value of that grid is refined between
        and beyond its values, for squared error.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model is meant to predict: new pairs (A), instances (B), tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel, task_kernel, kernel_params, task_kernel_params, repair
        As in `KroneckerRidge`.
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to search as well; each costs one decomposition.
    cv : int or SettingKFold, default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, or complete but for whole rows
        and columns, and of single pairs where few are observed; elsewhere it is five folds.
    tol, max_iter : float and int, default=1e-8 and 1000
        As in `KroneckerRidge`; while searching 1e-5 will do.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Attributes
    ----------
    alpha_ : float
        The best value; of equals the largest.
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
    landscape_ : array of shape (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values.
    holdout_ : array or frame of shape (m, q)
        Held-out predictions at the best value.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    completed_, n_iter_, residual_
        As in `KroneckerRidge`.
    dual_coef_, coef_
        As in `KroneckerRidge`.
    n_features_in_ : int
        Number of features, or of training instances for a precomputed kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import KroneckerRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(12, 3)), rng.normal(size=(9, 2))
    >>> Y = X @ rng.normal(size=(3, 2)) @ T.T + rng.normal(size=(12, 9))
    >>> KroneckerRidgeCV(alphas=[0.1, 1, 10, 100, 1000], setting="D").fit(X, Y, tasks=T).landscape_.shape
    (5,)
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
        setting: str = "B",
        scoring: Any = "neg_mean_squared_error",
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        task_kernel: Any = "linear",
        task_kernel_params: dict[str, Any] | None = None,
        kernel_grid: Sequence[dict[str, Any]] | None = None,
        task_kernel_grid: Sequence[dict[str, Any]] | None = None,
        repair: str = "clip",
        cv: Any = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        progress: bool | None = None,
    ) -> None:
        self.alphas = alphas
        self.setting = setting
        self.scoring = scoring
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.task_kernel = task_kernel
        self.task_kernel_params = task_kernel_params
        self.kernel_grid = kernel_grid
        self.task_kernel_grid = task_kernel_grid
        self.repair = repair
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.progress = progress

    kernel_params_ = TwoStepRidgeCV.kernel_params_
    task_kernel_params_ = TwoStepRidgeCV.task_kernel_params_

    def _task_spec(self) -> KernelSpec:
        return KernelSpec(self.task_kernel, self.task_kernel_params, self.repair)

    _coupled = Kronecker

    def _pairing(self) -> Pairing:
        if self._task_side is None:
            return Independent(self._side.spectrum.smoother(Tikhonov(), self.alpha_))
        return Kronecker(self._side.spectrum, self._task_side.spectrum, self.alpha_)


class IndependentTaskRidgeCV(RidgeSearch):
    r"""Independent-task ridge regression that chooses its regularisation itself.

    Parameters
    ----------
    alphas : sequence of float, float or "auto", default=None
        Values of :math:`\lambda_d`; None is 10⁻⁷ … 10⁶. With ``"auto"`` the best value of that grid is refined between
        and beyond its values, for squared error.
    setting : {"A", "B"} or an alias, default="B"
        The predictions are the same in both; rank metrics are averaged differently.
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    alpha_per_task : bool, default=False
        Whether every task has a regularisation of its own, chosen by the score of its own column. A task without such
        a score, having no label or only one value, takes the one that is best for all others together; a warning names
        it.
    kernel, kernel_params, filter, repair
        As in `IndependentTaskRidge`.
    kernel_grid : list of dict, default=None
        Kernel parameters to search as well; each costs one decomposition.
    cv : int or SettingKFold, default=None
        Folds to leave out. None is exact leave-one-out, and with `groups` and missing labels five folds of them.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.

    Attributes
    ----------
    alpha_ : float, or array of shape (q,) with ``alpha_per_task=True``
        The best value, or that of each task; of equals the largest.
    kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        With ``alpha_per_task=True`` the mean over tasks of their best scores.
    landscape_ : array of shape (n_alphas,), or (n_alphas, q) with ``alpha_per_task=True``
        Scores, NaN where there is none; with a kernel grid preceded by two axes, the second of length 1.
    holdout_ : array or frame of shape (m, q)
        Held-out predictions at the best values.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    completed_
        As in `IndependentTaskRidge`.
    dual_coef_, coef_
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
    >>> IndependentTaskRidgeCV(alphas=[0.1, 1, 10, 100, 1000]).fit(X, Y).landscape_.shape
    (5,)
    """

    _learns_from_tasks = False

    def __init__(
        self,
        alphas: Any = None,
        *,
        setting: str = "B",
        scoring: Any = "neg_mean_squared_error",
        alpha_per_task: bool = False,
        kernel: Any = "linear",
        kernel_params: dict[str, Any] | None = None,
        kernel_grid: Sequence[dict[str, Any]] | None = None,
        filter: SpectralFilter | None = None,
        repair: str = "clip",
        cv: Any = None,
        progress: bool | None = None,
    ) -> None:
        self.alphas = alphas
        self.setting = setting
        self.scoring = scoring
        self.alpha_per_task = alpha_per_task
        self.kernel = kernel
        self.kernel_params = kernel_params
        self.kernel_grid = kernel_grid
        self.filter = filter
        self.repair = repair
        self.cv = cv
        self.progress = progress

    kernel_params_ = TwoStepRidgeCV.kernel_params_

    def _task_spec(self) -> KernelSpec:
        return KernelSpec("linear", None, self.repair)

    def _fit_task_side(self, rows: Array | None, ids: Ids | None, names: Ids | None) -> Side | None:
        # Tasks may be handed in, so that all models are called alike; nothing is learnt from them.
        return super()._fit_task_side(None, ids, names)

    def _how_to_get_tasks(self) -> str:
        return "use TwoStepRidgeCV or KroneckerRidgeCV."

    def _pairing(self) -> Independent:
        alpha = float("nan") if self._is_per_task() else float(self.alpha_)
        return Independent(self._side.spectrum.smoother(checked_filter(self.filter, "filter"), alpha))

    def _solve_each_task(self) -> Self:
        if self.kernel_grid is not None or isinstance(self.alphas, str):
            raise ValueError(
                "alpha_per_task=True searches alphas only: leave kernel_grid out and give alphas as numbers."
            )
        groups, _ = self._group_labels
        groups = in_order(groups, self._grid.row_ids, None, "groups")
        if as_setting(self.setting).new_task:
            raise ValueError(f"Independent tasks are chosen for in setting A or B, found {self.setting!r}.")
        alphas, Y = grid_of(self.alphas, "alphas"), self._grid.values
        self.alpha_ = alphas[0]
        problem = self._posed()
        if self.cv is not None:
            raise ValueError("alpha_per_task=True leaves out one instance or group at a time: leave cv out.")
        check_enough_left(problem, Setting.B, groups, None)
        score = each_column(self.scoring, Y)

        def scored_tasks(values: Sequence[float], _: Sequence[float]) -> np.ndarray:
            return np.stack([score(holdout(problem.at(each), Setting.B, groups=groups)) for each in values])

        scores = where_defined(scored_tasks, alphas, [1.0])
        undefined = np.isnan(scores).all(axis=0)
        known = scores[:, ~undefined]
        if not known.size:
            raise ValueError(f"{scorer(self.scoring).name} is undefined for every task: no alpha is the best.")
        warn_of_undefined(known.T, alphas, None, as_setting(self.setting).value, 6)
        best = np.zeros(Y.shape[1], dtype=np.intp)
        best[~undefined] = [best_point(column, alphas)[0] for column in known.T]
        if undefined.any():  # what says nothing of itself is treated as is best for all others together
            best[undefined] = best_point(known.mean(axis=1), alphas)[0]
            self._warn_of_tasks(undefined, alphas[int(best[undefined][0])])
        self.landscape_ = scores
        self.alpha_ = np.asarray(alphas)[best]
        self.best_score_ = float(scores[best, np.arange(Y.shape[1])][~undefined].mean())
        del self._sides_tried, self._task_sides_tried
        problem = self._posed()
        self._completion = None
        if not problem.is_complete:
            completed = self._by_task(lambda part: part.complete().labels, problem)
            self._completion = Completion(completed, "columns", Solution(completed, 0, 0.0, True))
        self._keep(problem)
        self._coefficients = self._by_task(lambda part: part.pairing.coefficients(part.Y), self._closed_problem)
        self.holdout_method_ = plan(self._fitted_problem, Setting.B, groups).words
        self.holdout_ = self.holdout("B", groups=groups)
        self.holdout_setting_ = as_setting(self.setting).value
        return self

    def _warn_of_tasks(self, undefined: np.ndarray, alpha: float) -> None:
        """Name the tasks that have no score of their own, and what they got."""
        places, ids = np.flatnonzero(undefined), self._grid.column_ids
        names = [repr(place if ids is None else ids.labels[place]) for place in places[:5].tolist()]
        warnings.warn(
            f"{scorer(self.scoring).name} is undefined for {len(places)} of {undefined.size} tasks "
            f"({', '.join(names)}{', …' if len(places) > 5 else ''}), which have too few labels or only one value: "
            f"they take alpha {alpha:g}, the best for all others together, and count in no score.",
            UndefinedScoreWarning,
            stacklevel=7,
        )

    def _is_per_task(self) -> bool:
        return isinstance(getattr(self, "alpha_", None), np.ndarray)

    def _by_task(self, solve: Any, problem: Problem | None = None) -> Array:
        """Apply `solve` to the tasks of each regularisation and put the columns back in order."""
        problem = self._fitted_problem if problem is None else problem
        weights = problem.weights
        pieces, members = [], []
        for alpha in np.unique(self.alpha_):
            tasks = np.flatnonzero(self.alpha_ == alpha)
            part = replace(
                problem,
                pairing=problem.pairing.at(float(alpha)),
                Y=take_rows(problem.Y.T, tasks).T,
                weights=None if weights is None else take_rows(weights.T, tasks).T,
            )
            pieces.append(solve(part).T)
            members.append(tasks)
        together = namespace(pieces[0]).concat(pieces, axis=0)
        return take_rows(together, as_array_of(np.argsort(np.concatenate(members)), together)).T

    def _held_out(self, setting: Setting, **labels: Any) -> Array:
        if not self._is_per_task():
            return super()._held_out(setting, **labels)
        if labels.get("cells") is not None or labels.get("task_groups") is not None:
            raise ValueError(
                "With alpha_per_task=True instances are left out: cells and task_groups are not supported."
            )
        return self._by_task(lambda part: holdout(part, setting, **labels))

    @property
    def dual_coef_(self) -> Array:
        """Dual parameters A of shape (m, q), or (m,) after one-dimensional labels."""
        if not self._is_per_task():
            return super().dual_coef_
        dual = self._by_task(lambda part: part.pairing.dual(part.Y), self._closed_problem)
        return namespace(dual).reshape(dual, (-1,)) if self._grid.is_vector else dual

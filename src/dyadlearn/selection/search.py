"""Estimators that choose their own regularisation by exact hold-out predictions.

`Search` goes before a model in the list of bases. What the model is stays the model's business: the search lets it pose
its problem on the sides of every kernel, scores that for every regularisation, and keeps the best.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self

import numpy as np

from dyadlearn._checks import check_alpha, check_alphas, check_flag
from dyadlearn._state import is_shaped
from dyadlearn.exceptions import GridEdgeWarning, LeverageError, SearchStoppedWarning
from dyadlearn.filters import SpectralFilter
from dyadlearn.holdout import Plan, Problem, plan
from dyadlearn.holdout.folds import as_splitter
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import scorer
from dyadlearn.metrics.choice import as_good, best_point, warn_of_undefined
from dyadlearn.models import KroneckerRidge, TwoStepRidge
from dyadlearn.models._base import Sides
from dyadlearn.models._inputs import groups_in_order
from dyadlearn.models._model import all_or_nothing
from dyadlearn.models._side import KernelSpec
from dyadlearn.selection.coarse import Evaluated
from dyadlearn.selection.kept import KeptHoldout
from dyadlearn.selection.landscape import LeftOut, planned, score_plan
from dyadlearn.selection.observed import prepared_score
from dyadlearn.settings import Setting, as_setting

__all__ = [
    "KroneckerRidgeCV",
    "Search",
    "SearchParameters",
    "TaskSearchParameters",
    "TwoStepRidgeCV",
    "best_kernel",
    "edges_of",
    "grid_of",
]


@dataclass(eq=False, repr=False, kw_only=True)
class SearchParameters:
    """Parameters of every search; the searches document them."""

    setting: str = "B"
    scoring: Any = "neg_mean_squared_error"
    kernel: Any = "linear"
    kernel_params: dict[str, Any] | None = None
    kernel_grid: Sequence[dict[str, Any]] | None = None
    fit_intercept: bool = True
    repair: str = "clip"
    cv: Any = None
    exhaustive: bool = False
    progress: bool | None = None
    device: str | None = None


class Search(SearchParameters, KeptHoldout, stored=False):
    """A mix-in that lets a model choose its regularisation: sides are fitted once, every value is scored."""

    searches = True

    alphas: Any
    task_alphas: Any = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None
    alpha_per_task: bool = False

    alpha_: Any
    task_alpha_: Any
    best_score_: float
    landscape_: np.ndarray
    n_evaluated_: int

    def fit(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        task_groups: Any = None,
    ) -> Self:
        """Fit the model and choose its regularisation.

        Parameters
        ----------
        X, y, tasks, sample_weight : as in the model without search
        groups, task_groups : array-like of shape (m,) and (q,), default=None
            Instances and tasks that are left out together.

        Returns
        -------
        self
        """
        with all_or_nothing(self):
            sides, left_out = self._posed_sides(X, y, tasks, sample_weight, groups, task_groups)
            choose = self._choose_each_task if self.alpha_per_task else self._choose
            return choose(sides, left_out)

    def _posed_sides(
        self, X: Any, y: Any, tasks: Any, sample_weight: Any, groups: Any, task_groups: Any
    ) -> tuple[Sides, LeftOut]:
        """Read what `fit` is given; return the sides of all kernels to try, and what leaves together."""
        data = self._read(X, y, tasks, sample_weight)
        self._keep_labels(data)
        specs = _specs(self._spec(), self.kernel_grid, "instance")
        sides = self._decomposed(data, specs, _specs(self._task_spec(), self.task_kernel_grid, "task"))
        return sides, (*groups_in_order(data.grid, groups, task_groups), self.cv)

    def set_alpha(self, alpha: float | None = None, task_alpha: float | None = None) -> NoReturn:
        """Refuse another regularisation than the one that was chosen."""
        raise TypeError(
            f"{type(self).__name__} has chosen its regularisation: for another one fit the model without search."
        )

    @property
    def kernel_params_(self) -> Any:
        """Kernel parameters of the instances that were chosen."""
        return self._side.spec.params

    @property
    def _alphas(self) -> dict[str, Any]:
        return _named(self.alpha_, self.task_alpha_)

    def _check_params(self) -> None:
        as_setting(self.setting)
        scorer(self.scoring)
        super()._check_params()
        for name in ("task_alphas", "task_kernel_grid"):
            if self.symmetry is not None and getattr(self, name) is not None:
                raise ValueError(f"A network has one kernel and one regularisation for both sides: leave {name} out.")
        if self.cv is not None:
            as_splitter(self.cv, as_setting(self.setting))
        check_flag(self.exhaustive, "exhaustive")

    def _check_alphas(self) -> None:
        self._grids()

    def _grids(self) -> tuple[list[float], list[float] | None]:
        """Return the values of one or two regularisations."""
        return grid_of(self.alphas, "alphas"), None

    def _problems(self, sides: Sides) -> list[Problem]:
        """Return what is posed on each of the sides, in every form that is to be tried."""
        alphas, task_alphas = self._grids()
        start = _named(alphas[0], None if task_alphas is None else task_alphas[0])
        return [each for row in sides for both in row for each in self._variants(self._pose(*both, start))]

    def _choose(self, sides: Sides, left_out: LeftOut) -> Self:
        """Score regularisations on all sides to try, and solve at the best."""
        setting, (alphas, task_alphas), problems = as_setting(self.setting), self._grids(), self._problems(sides)
        stack, is_rough, best_plan = self._scored(problems, setting, left_out)
        task_alphas = None if stack.ndim == 2 else task_alphas  # without tasks there is nothing to regularise
        if self.n_evaluated_ == stack.size:
            warn_of_undefined(stack, alphas, task_alphas, setting.value, 3)
        place = best_point(stack, alphas, task_alphas)
        shape = (len(sides), len(sides[0]), len(stack) // (len(sides) * len(sides[0])))
        first, second, variant = (int(position) for position in np.unravel_index(place[0], shape))
        self._side, self._task_side = sides[first][second]
        # No axis where there is nothing to choose.
        leading = (shape[:2] if shape[0] * shape[1] > 1 else ()) + self._choose_variant(variant, shape[2])
        self.landscape_ = stack.reshape(*leading, *stack.shape[1:])
        self.best_score_ = float(stack[place])
        self.alpha_ = alphas[place[1]]
        self.task_alpha_ = None if task_alphas is None else task_alphas[place[2]]
        for name, best, low, high in edges_of(self):
            warnings.warn(
                f"The best {name}, {best:g}, is on the edge of the grid ({low:g} … {high:g}): widen it, or take it "
                "that this side wants no (or full) regularisation.",
                GridEdgeWarning,
                stacklevel=3,
            )
        self._solve()
        # Folds that were solved in the search start from there, at the tolerance of the fit.
        how = best_plan[1] if best_plan[0] == place[0] else plan(self._problem(), setting, *left_out)
        held_out = how.held_out(self._problem())
        labels = scored_labels(how.problem, held_out, setting, stacklevel=3)  # warns of labels without a prediction
        if is_rough:
            self.best_score_ = float(prepared_score(how.problem, self.scoring, setting, labels)(held_out))
        self.holdout_, self.holdout_method_ = self._in_kept_form(held_out), how.words
        self.holdout_setting_, self._units = setting.value, how.units
        return self

    def _variants(self, problem: Problem) -> list[Problem]:
        """Return a problem in every form that is to be tried without another decomposition."""
        return [problem]

    def _choose_variant(self, variant: int, n_variants: int) -> tuple[int, ...]:
        """Keep the form that is best, and return the axis that it has in the landscape, if any."""
        return ()

    def _scored(
        self, problems: Sequence[Problem], setting: Setting, left_out: LeftOut
    ) -> tuple[np.ndarray, bool, tuple[int, Plan]]:
        """Score regularisations of some problems, and keep how many were evaluated.

        Returns
        -------
        stack : array of shape (n_problems, n_alphas, …)
            NaN for problems that always interpolate, and where nothing was evaluated.
        is_rough : bool
            Whether the scores are those of rough solutions.
        best : (int, Plan)
            The problem that has the best score, and how it was held out.
        """
        alphas, task_alphas = self._grids()
        found: dict[int, Evaluated] = {}
        top, refusal = -np.inf, None
        for place, problem in enumerate(problems):
            how = planned(problem, setting, left_out)
            options = {"search": True, "exhaustive": self.exhaustive, "quiet": True}
            try:
                each = score_plan(how, self.scoring, alphas, task_alphas or [1.0], progress=self.progress, **options)
            except LeverageError as error:
                refusal = error
                continue
            found[place] = each
            score = float(np.nanmax(each.scores, initial=-np.inf))
            if score > top or len(found) == 1:
                top, best = score, (place, how)
            if each.was_interrupted:
                break
        if not found:
            assert refusal is not None
            raise refusal
        self.n_evaluated_ = sum(each.n_points for each in found.values())
        stack = np.full((len(problems), *each.scores.shape), np.nan)
        for place, one in found.items():
            stack[place] = one.scores
        if each.was_interrupted:
            warnings.warn(
                f"The search was interrupted: {self.n_evaluated_} of {stack.size} regularisations were evaluated, and "
                "the best of these is chosen.",
                SearchStoppedWarning,
                stacklevel=4,
            )
        return stack, each.is_rough, best

    def _choose_each_task(self, sides: Sides, left_out: LeftOut) -> Self:
        raise NotImplementedError

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


@dataclass(eq=False, repr=False, kw_only=True)
class TaskSearchParameters(SearchParameters):
    """Parameters of every search for models that know tasks."""

    task_kernel: Any = "linear"
    task_kernel_params: dict[str, Any] | None = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None
    tol: float = 1e-8
    max_iter: int = 1000

    @property
    def task_kernel_params_(self: Any) -> Any:
        """Kernel parameters of the tasks that were chosen."""
        return None if self._task_side is None else self._task_side.spec.params


@dataclass(eq=False, repr=False)
class TwoStepRidgeCV(Search, TaskSearchParameters, TwoStepRidge):
    r"""Two-step ridge regression that chooses both regularisations itself.

    Every pair :math:`(\lambda_d, \lambda_t)` of the grid is scored by exact hold-out predictions, which takes two
    decompositions in all. `best_score_` is the best of many and therefore optimistic: see `nested_score`.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas, task_alphas : sequence of float or float, default=None
        Values of :math:`\lambda_d` and :math:`\lambda_t`; None is 10⁻⁷ … 10⁶. A network has one regularisation,
        `alphas`.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model is meant to predict: new pairs (A), instances (B), tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel, task_kernel, kernel_params, task_kernel_params, filter, task_filter, fit_intercept, repair
        As in `TwoStepRidge`.
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to search as well, such as ``[{"gamma": 0.1}, {"gamma": 1.0}]``; each costs one
        decomposition.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, and of single pairs where few
        are observed or the missing ones form a block; elsewhere it is five folds.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.
    tol, max_iter : float and int, default=1e-8 and 1000
        As in `TwoStepRidge`; while searching 1e-5 will do.
    exhaustive : bool, default=False
        Whether to evaluate every regularisation where folds are solved again. By default a grid with seven or more
        values on an axis is searched from coarse to fine then.
    progress : bool, default=None
        Whether to show a progress line; None shows one on a terminal, and in a log after some seconds.
    symmetry : {"symmetric", "antisymmetric"}, default=None
        For a network, as in `TwoStepRidge`: edges and vertices are left out of both sides, one at a time.
    device : str, default=None
        Where arrays of numpy are computed, as in the model without search.

    Attributes
    ----------
    alpha_, task_alpha_ : float
        The best values; of equals those with the largest product, and of these the largest `alpha_`. `task_alpha_` is
        None without tasks, and for a network, where `alpha_` is that of both sides.
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        The score of `holdout_`.
    landscape_ : array of shape (n_alphas, n_task_alphas), without tasks and for a network (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A coarse-to-fine
        search leaves NaN where it evaluated nothing, and its scores are rough: see `dyadlearn.selection.coarse`.
    n_evaluated_ : int
        Number of points of `landscape_` that were evaluated.
    holdout_ : array or frame of shape (m, q), or sparse matrix of observed pairs alone
        Held-out predictions at the best values.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    baselines_ : dict of str to float
        What simple means reach, held out alike, on the scale of `best_score_`: ``grand_mean``, ``instance_means``,
        ``task_means`` and ``additive``.
    completed_, n_iter_, residual_
        As in `TwoStepRidge`.
    dual_coef_, coef_, intercept_, instance_coef_, task_coef_
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

    alphas: Any = None
    task_alphas: Any = None
    filter: SpectralFilter | None = field(default=None, kw_only=True)
    task_filter: SpectralFilter | None = field(default=None, kw_only=True)
    symmetry: str | None = field(default=None, kw_only=True)

    def _grids(self) -> tuple[list[float], list[float] | None]:
        task_alphas = None if self.symmetry is not None else grid_of(self.task_alphas, "task_alphas")
        return grid_of(self.alphas, "alphas"), task_alphas


@dataclass(eq=False, repr=False)
class KroneckerRidgeCV(Search, TaskSearchParameters, KroneckerRidge):
    r"""Kronecker ridge regression that chooses its regularisation itself, in any of the four settings.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas : sequence of float or float, default=None
        Values of :math:`\lambda`; None is 10⁻⁷ … 10⁶.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model is meant to predict: new pairs (A), instances (B), tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel, task_kernel, kernel_params, task_kernel_params, fit_intercept, repair
        As in `KroneckerRidge`.
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to search as well; each costs one decomposition.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, or complete but for whole rows
        and columns, and of single pairs where few are observed; elsewhere it is five folds.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.
    tol, max_iter : float and int, default=1e-8 and 1000
        As in `KroneckerRidge`; while searching 1e-5 will do.
    exhaustive : bool, default=False
        Whether to evaluate every regularisation where folds are solved again. By default a grid with seven or more
        values on an axis is searched from coarse to fine then.
    progress : bool, default=None
        Whether to show a progress line; None shows one on a terminal, and in a log after some seconds.
    device : str, default=None
        Where arrays of numpy are computed, as in the model without search.

    Attributes
    ----------
    alpha_ : float
        The best value; of equals the largest.
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        The score of `holdout_`.
    landscape_ : array of shape (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A coarse-to-fine
        search leaves NaN where it evaluated nothing, and its scores are rough: see `dyadlearn.selection.coarse`.
    n_evaluated_ : int
        Number of points of `landscape_` that were evaluated.
    holdout_ : array or frame of shape (m, q), or sparse matrix of observed pairs alone
        Held-out predictions at the best value.
    holdout_method_ : str
        How they were made: exactly, or by folds that were solved again.
    holdout_setting_ : {"A", "B", "C", "D"}
        What was left out for them.
    baselines_ : dict of str to float
        What simple means reach, held out alike, on the scale of `best_score_`: ``grand_mean``, ``instance_means``,
        ``task_means`` and ``additive``.
    completed_, n_iter_, residual_
        As in `KroneckerRidge`.
    dual_coef_, coef_, intercept_, instance_coef_, task_coef_
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

    alphas: Any = None


def _named(alpha: Any, task_alpha: Any) -> dict[str, Any]:
    """Return one or two regularisations by their names."""
    return {"alpha": alpha} if task_alpha is None else {"alpha": alpha, "task_alpha": task_alpha}


def _specs(spec: KernelSpec, grid: Sequence[dict[str, Any]] | None, name: str) -> list[KernelSpec]:
    """Return the kernel of a side for each set of parameters to try."""
    if grid is None:
        return [spec]
    if not grid:
        raise ValueError(f"The grid of {name} kernel parameters is empty: give at least one dict.")
    return [replace(spec, params=params) for params in grid]


def grid_of(alphas: Any, name: str) -> list[float]:
    """Return the values that a search tries, from its parameter."""
    if isinstance(alphas, Iterator):
        raise TypeError(
            f"{name} is an iterator, which can be read but once, and a search is cloned and stored with its values: "
            f"give a sequence, as list({name})."
        )
    return check_alphas(alphas, name)


def best_kernel(search: Search) -> np.ndarray:
    """Return the landscape (n_alphas, …) of the kernel parameters, and of whatever else a search has chosen."""
    if isinstance(search.alpha_, np.ndarray):  # each task has one of its own
        return search.landscape_
    alphas, task_alphas = search._grids()
    if search.task_alpha_ is None:
        task_alphas = None
    last = (len(alphas),) if task_alphas is None else (len(alphas), len(task_alphas))
    if search.landscape_.shape == last:
        return search.landscape_
    scores = search.landscape_.reshape(-1, *last)
    return np.asarray(scores[best_point(scores, alphas, task_alphas)[0]])


def edges_of(search: Search) -> list[tuple[str, float, float, float]]:
    """Return the best values that are at an end of a given grid, where no value inside it is as good.

    Parameters
    ----------
    search : Search
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
        if best is None or values is None or given is None:
            continue
        low, high = min(values), max(values)
        if low < high and not any(low < value < high for value in np.asarray(values)[np.asarray(equal.any(axis=axes))]):
            found.append((name, float(best), low, high))
    return found

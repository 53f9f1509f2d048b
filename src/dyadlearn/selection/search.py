"""Estimators that choose their own regularisation by exact hold-out predictions.

`Search` goes before a model in the list of bases. What the model is stays the model's business: the search lets it pose
its problem on the sides of every kernel, scores that for every regularisation, and keeps the best.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
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
from dyadlearn.metrics.choice import best_point, warn_of_undefined
from dyadlearn.models import KroneckerRidge, TwoStepRidge
from dyadlearn.models._base import Sides
from dyadlearn.models._inputs import groups_in_order
from dyadlearn.models._model import all_or_nothing
from dyadlearn.models._side import KernelSpec
from dyadlearn.selection.coarse import Clock, Looking, middle
from dyadlearn.selection.duration import SearchTime, expected_time
from dyadlearn.selection.found import edges_of
from dyadlearn.selection.kept import KeptHoldout
from dyadlearn.selection.landscape import LeftOut, refined_alphas, scored
from dyadlearn.settings import Setting, as_setting

__all__ = [
    "KroneckerRidgeCV",
    "Search",
    "TwoStepRidgeCV",
    "grid_of",
]


class Search(KeptHoldout, stored=False):
    """A mix-in that lets a model choose its regularisation: sides are fitted once, every value is scored."""

    searches = True

    alphas: Any
    task_alphas: Any = None
    setting: str
    scoring: Any
    kernel_grid: Sequence[dict[str, Any]] | None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None
    cv: Any
    exhaustive: bool
    budget: float | None
    progress: bool | None
    alpha_per_task: bool = False

    alpha_: Any
    task_alpha_: Any
    best_score_: float
    landscape_: np.ndarray
    looked_at_: np.ndarray
    stopped_: str | None

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

    def expected_time(
        self,
        X: Any,
        y: Any,
        tasks: Any = None,
        sample_weight: Any = None,
        groups: Any = None,
        task_groups: Any = None,
    ) -> SearchTime:
        """Tell how long `fit` will search, about, without fitting.

        Where labels are missing or weighted, regularisations are solved for one by one in every fold: sides are
        decomposed, one fold is solved roughly, and its time is counted as often as folds will be solved. Half or twice
        of it is no surprise. Elsewhere closed forms need no folds, and nothing is measured.

        Parameters
        ----------
        X, y, tasks, sample_weight, groups, task_groups : as in `fit`

        Returns
        -------
        SearchTime
            With `seconds`, 0.0 where no fold is solved again; `n_points` of `n_grid` regularisations that it expects
            to look at, `n_folds`, `n_solves`, and `in_words`.
        """
        again = copy.copy(self)
        sides, left_out = again._posed_sides(X, y, tasks, sample_weight, groups, task_groups)
        if again.alpha_per_task:
            return SearchTime()
        setting, (alphas, task_alphas), problems = as_setting(again.setting), again._grids(), again._problems(sides)
        shape = (len(alphas), 1 if len(problems[0].pairing.alphas) == 1 else len(task_alphas or [1.0]))
        how = plan(problems[0], setting, *left_out)
        if how.folds is None:
            return SearchTime()
        posed = problems[0].at(middle(alphas), middle(task_alphas or [1.0]))
        coarse = Looking(exhaustive=again.exhaustive).is_coarse(how, shape)
        return expected_time(how, posed, shape, coarse).times(len(problems))

    def _fit_announced(self, announce: Callable[[SearchTime], None], *given: Any) -> Self:
        """Do what `fit` does, and tell somebody how long it takes where folds are solved again."""
        with all_or_nothing(self):
            return self._choose(*self._posed_sides(*given), announce)

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
        judge = scorer(self.scoring)
        super()._check_params()
        for name in ("task_alphas", "task_kernel_grid"):
            if self.symmetry is not None and getattr(self, name) is not None:
                raise ValueError(f"A network has one kernel and one regularisation for both sides: leave {name} out.")
        if self.cv is not None:
            as_splitter(self.cv, as_setting(self.setting))
        if any(self._is_free()):
            judge.check_continuous()
        check_flag(self.exhaustive, "exhaustive")
        if self.budget is not None:
            check_alpha(self.budget, "budget")

    def _check_alphas(self) -> None:
        self._grids()

    def _is_free(self) -> list[bool]:
        """Tell which of the two regularisations may move between and beyond the values of the grid."""
        return [isinstance(grid, str) for grid in (self.alphas, self.task_alphas)]

    def _grids(self) -> tuple[list[float], list[float] | None]:
        """Return the values of one or two regularisations."""
        return grid_of(self.alphas, "alphas"), None

    def _problems(self, sides: Sides) -> list[Problem]:
        """Return what is posed on each of the sides, in every form that is to be tried."""
        alphas, task_alphas = self._grids()
        start = _named(alphas[0], None if task_alphas is None else task_alphas[0])
        return [each for row in sides for both in row for each in self._variants(self._pose(*both, start))]

    def _choose(self, sides: Sides, left_out: LeftOut, announce: Callable[[SearchTime], None] | None = None) -> Self:
        """Score regularisations on all sides to try, and solve at the best."""
        setting, (alphas, task_alphas), problems = as_setting(self.setting), self._grids(), self._problems(sides)
        if any(self._is_free()) and (self.cv is not None or not problems[0].is_complete):
            raise ValueError('alphas="auto" needs complete labels without weights or cv: give alphas as numbers.')
        stack, looked, (planned, how) = self._scored(problems, setting, left_out, announce)
        task_alphas = None if stack.ndim == 2 else task_alphas  # without tasks there is nothing to regularise
        warn_of_undefined(np.where(looked, stack, 0.0), alphas, task_alphas, setting.value, 3)
        place = best_point(stack, alphas, task_alphas)
        shape = (len(sides), len(sides[0]), len(stack) // (len(sides) * len(sides[0])))
        first, second, variant = (int(position) for position in np.unravel_index(place[0], shape))
        self._side, self._task_side = sides[first][second]
        # No axis where there is nothing to choose.
        leading = (shape[:2] if shape[0] * shape[1] > 1 else ()) + self._choose_variant(variant, shape[2])
        self.landscape_ = stack.reshape(*leading, *stack.shape[1:])
        self.looked_at_ = looked.reshape(self.landscape_.shape)
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
        if self.stopped_ is not None:
            self._warn_of_stop()
        if any(self._is_free()):
            free = self._is_free()
            chosen, self.best_score_ = refined_alphas(self._posed(), setting, self.scoring, free, left_out)
            self.alpha_, self.task_alpha_ = chosen["alpha"], chosen.get("task_alpha")
        self._solve()
        # Folds that were solved in the search start from there, at the tolerance of the fit.
        how = plan(self._problem(), setting, *left_out) if how is None or planned != place[0] else how
        held_out = how.held_out(self._problem())
        scored_labels(how.problem, held_out, setting, stacklevel=3)  # which says what is not among them
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
        self,
        problems: Sequence[Problem],
        setting: Setting,
        left_out: LeftOut,
        announce: Callable[[SearchTime], None] | None,
    ) -> tuple[np.ndarray, np.ndarray, tuple[int, Plan | None]]:
        """Return the landscapes of some problems, stacked, where they were looked at, and how the best was held out.

        NaN stands for problems that always interpolate, and where nobody has looked.
        """
        alphas, task_alphas = self._grids()
        given = (alphas, task_alphas or [1.0], [setting], self.scoring, left_out)
        found: dict[int, np.ndarray] = {}
        looked: dict[int, np.ndarray] = {}
        best: tuple[float, tuple[int, Plan | None]] = -np.inf, (0, None)
        looking = Looking(Clock(self.budget), self.exhaustive)
        if announce is not None:
            looking.announce = lambda *work: announce(expected_time(*work).times(len(problems)))
        for place, problem in enumerate(problems):
            if found and looking.clock.stopped is not None:
                looked[place] = np.zeros_like(next(iter(found.values())), dtype=bool)
                continue
            looking.latest = None
            try:
                scores = scored(problem, *given, progress=self.progress, quiet=True, looking=looking)[setting.value]
            except LeverageError as error:
                refusal = error
                continue
            finally:
                looking.announce = None  # once, for all of them
            found[place] = scores
            if looking.latest is not None:
                looked[place] = looking.latest.at.reshape(scores.shape)
                if np.isfinite(scores).any() and np.nanmax(scores) > best[0]:
                    best = float(np.nanmax(scores)), (place, looking.latest.how)
        if not found:
            raise refusal
        self.stopped_ = looking.clock.stopped
        undefined = np.full_like(next(iter(found.values())), np.nan)
        every, places = np.ones(undefined.shape, dtype=bool), range(len(problems))
        stack = np.stack([found.get(place, undefined) for place in places])
        return stack, np.stack([looked.get(place, every) for place in places]), best[1]

    def _warn_of_stop(self) -> None:
        """Say why a search has not come to its end, and what it has looked at."""
        why = "was interrupted" if self.stopped_ == "interrupt" else f"has used up its budget of {self.budget:g} s"
        warnings.warn(
            f"The search {why}: {np.count_nonzero(self.looked_at_)} of {self.looked_at_.size} regularisations were "
            "looked at in all folds, and the best of these is chosen. A longer budget may find a better one.",
            SearchStoppedWarning,
            stacklevel=4,
        )

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


class TwoStepRidgeCV(Search, TwoStepRidge):
    r"""Two-step ridge regression that chooses both regularisations itself.

    Every pair :math:`(\lambda_d, \lambda_t)` of the grid is scored by exact hold-out predictions, which takes two
    decompositions in all. `best_score_` is the best of many and therefore optimistic: see `nested_score`.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas, task_alphas : sequence of float, float or "auto", default=None
        Values of :math:`\lambda_d` and :math:`\lambda_t`; None is 10⁻⁷ … 10⁶. With ``"auto"`` the best value of that
        grid is refined between and beyond its values, for a score that changes smoothly: errors, R² or Pearson's
        correlation. A network has one regularisation, `alphas`.
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
        Whether to look at every regularisation where folds are solved again. By default such a search goes from coarse
        to fine: see `landscape_`.
    budget : float, default=None
        Seconds that looking at regularisations one by one may take, where folds are solved again; None is no limit.
        What was best by then is chosen, with a `SearchStoppedWarning`, as it is after an interrupt from the keyboard.
        The fit with it, and its held-out predictions, come after that.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.
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
    landscape_ : array of shape (n_alphas, n_task_alphas), without tasks and for a network (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A search from coarse
        to fine leaves NaN where it did not look in all folds, and its scores are rough but for the best.
    looked_at_ : boolean array of the shape of `landscape_`
        Where it looked.
    stopped_ : {"budget", "interrupt"} or None
        What ended the search before its end.
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
        fit_intercept: bool = True,
        repair: str = "clip",
        cv: Any = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        exhaustive: bool = False,
        budget: float | None = None,
        progress: bool | None = None,
        symmetry: str | None = None,
        device: str | None = None,
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
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.exhaustive = exhaustive
        self.budget = budget
        self.progress = progress
        self.symmetry = symmetry
        self.device = device

    @property
    def task_kernel_params_(self) -> Any:
        """Kernel parameters of the tasks that were chosen."""
        return None if self._task_side is None else self._task_side.spec.params

    def _grids(self) -> tuple[list[float], list[float] | None]:
        task_alphas = None if self.symmetry is not None else grid_of(self.task_alphas, "task_alphas")
        return grid_of(self.alphas, "alphas"), task_alphas


class KroneckerRidgeCV(Search, KroneckerRidge):
    r"""Kronecker ridge regression that chooses its regularisation itself, in any of the four settings.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas : sequence of float, float or "auto", default=None
        Values of :math:`\lambda`; None is 10⁻⁷ … 10⁶. With ``"auto"`` the best value of that grid is refined between
        and beyond its values, for a score that changes smoothly: errors, R² or Pearson's correlation.
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
        Whether to look at every regularisation where folds are solved again. By default such a search goes from coarse
        to fine: see `landscape_`.
    budget : float, default=None
        Seconds that looking at regularisations one by one may take, where folds are solved again; None is no limit.
        What was best by then is chosen, with a `SearchStoppedWarning`, as it is after an interrupt from the keyboard.
        The fit with it, and its held-out predictions, come after that.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.
    device : str, default=None
        Where arrays of numpy are computed, as in the model without search.

    Attributes
    ----------
    alpha_ : float
        The best value; of equals the largest.
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
    landscape_ : array of shape (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A search from coarse
        to fine leaves NaN where it did not look in all folds, and its scores are rough but for the best.
    looked_at_ : boolean array of the shape of `landscape_`
        Where it looked.
    stopped_ : {"budget", "interrupt"} or None
        What ended the search before its end.
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
        fit_intercept: bool = True,
        repair: str = "clip",
        cv: Any = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
        exhaustive: bool = False,
        budget: float | None = None,
        progress: bool | None = None,
        device: str | None = None,
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
        self.fit_intercept = fit_intercept
        self.repair = repair
        self.cv = cv
        self.tol = tol
        self.max_iter = max_iter
        self.exhaustive = exhaustive
        self.budget = budget
        self.progress = progress
        self.device = device

    task_kernel_params_ = TwoStepRidgeCV.task_kernel_params_


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

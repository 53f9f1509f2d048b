"""Estimators that choose their own regularisation by exact hold-out predictions.

`Search` goes before a model in the list of bases. What the model is stays the model's business: the search lets it pose
its problem on the sides of every kernel, scores that for every regularisation, and keeps the best.

Ridge regression on pairs that chooses its regularisation and the shares of its kernel.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, Self, cast

import numpy as np

from dyadlearn._array import namespace
from dyadlearn._checks import check_alpha, check_alphas, check_flag
from dyadlearn._state import all_or_nothing
from dyadlearn._tables import Table
from dyadlearn.exceptions import GridEdgeWarning, LeverageError, SearchStoppedWarning
from dyadlearn.holdout import Plan, Problem, plan
from dyadlearn.holdout.folds import as_splitter
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import scorer
from dyadlearn.metrics.cells import as_good, best_point, warn_of_undefined
from dyadlearn.models import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.models._base import Sides
from dyadlearn.models._documenting import documented
from dyadlearn.models._inputs import Training, groups_in_order
from dyadlearn.models._side import KernelSpec, Side, fit_side
from dyadlearn.models.grid import PairKernelRidge, check_shares
from dyadlearn.pairing import PairKernel
from dyadlearn.selection.evaluate import prepared_score
from dyadlearn.selection.landscape import Evaluated, LeftOut, planned, score_plan
from dyadlearn.selection.refitting import KeptHoldout
from dyadlearn.settings import Setting, as_setting
from dyadlearn.spectrum import Spectrum


@dataclass(eq=False, repr=False, kw_only=True)
class SearchParameters:
    r"""Parameters of every search.

    Parameters
    ----------
    alphas : sequence of float or float, default=None
        Values of :math:`\lambda`; None is 10⁻⁷ … 10⁶.
    setting : {"A", "B", "C", "D"} or an alias, default="B"
        What the model is meant to predict: new pairs (A), instances (B), tasks (C) or both (D).
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`; greater is better.
    kernel_grid : list of dict, default=None
        Kernel parameters to search as well, such as ``[{"gamma": 0.1}, {"gamma": 1.0}]``; each costs one
        decomposition.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, and of single pairs where few
        are observed; elsewhere it is five folds. A sequence, as scikit-learn's splitters make one, cuts the instances
        in setting B.
    exhaustive : bool, default=False
        Whether to evaluate every regularisation where folds are solved again. By default a grid with seven or more
        values on an axis is searched from coarse to fine then.
    progress : bool, default=None
        Whether to show a progress line; None shows one on a terminal, and in a log after some seconds.

    Attributes
    ----------
    alpha_ : float
        The best value; of equals the largest.
    kernel_params_ : dict or None
        The best kernel parameters.
    best_score_ : float
        The score of `holdout_`.
    landscape_ : array of shape (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A coarse-to-fine
        search leaves NaN where it evaluated nothing, and its scores are rough: see `dyadlearn.selection.landscape`.
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
    """

    setting: str = "B"
    scoring: Any = "neg_mean_squared_error"
    kernel_grid: Sequence[dict[str, Any]] | None = None
    cv: Any = None
    exhaustive: bool = False
    progress: bool | None = None
    # A search chooses it.
    alpha: Any = field(default=None, init=False)


class Search(SearchParameters, KeptHoldout, stored=False):
    """A mix-in that lets a model choose its regularisation: sides are fitted once, every value is scored."""

    searches = True

    alphas: Any
    task_alphas: Any = None
    task_kernel_grid: Sequence[dict[str, Any]] | None = None

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
            data = self._read(X, y, tasks, sample_weight)
            return self._fit_on(data, *groups_in_order(data.form, groups, task_groups))

    def _fit_on(self, data: Training, groups: Any = None, task_groups: Any = None) -> Self:
        """Decompose the sides of all kernels to try, and choose."""
        self._keep_labels(data)
        self._keep_groups(groups, task_groups)
        specs = _specs(self._spec(), self.kernel_grid, "instance")
        return self._search(self._decomposed(data, specs, _specs(self._task_spec(), self.task_kernel_grid, "task")))

    def _search(self, sides: Sides) -> Self:
        """Choose the regularisation on sides that are decomposed."""
        return self._choose(sides, (self._groups, self._task_groups, self.cv))

    def _refitter(self, setting: Setting) -> Callable[[Labels], Self]:
        """Return a function that repeats the search, as it was, on other labels of the same instances and tasks."""
        kept, sides = self._snapshot(), self._tried_sides()
        kept.__dict__.update(self._solved_with)
        kept.progress = False

        def search(labels: Labels) -> Any:
            again = kept._snapshot()
            again._labels, again._completion, again._observed = labels, None, None
            return again._search(sides)

        return search

    def _tried_sides(self) -> Sides:
        """Return the sides of all kernels that were tried; those that were not chosen are decomposed again."""
        given = self._solved_with
        rows = _tried(self._side, given["kernel_grid"], "instance")
        if self.symmetry is not None:
            return [[(side, side)] for side in rows]
        columns: list[Any] = [None]
        if self._task_side is not None:
            columns = _tried(self._task_side, given.get("task_kernel_grid"), "task")
        return [[(side, task_side) for task_side in columns] for side in rows]

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
            warn_of_undefined(stack, alphas, task_alphas, setting.value, 5)
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
                stacklevel=5,
            )
        self._solve()
        # Folds that were solved in the search start from there, at the tolerance of the fit.
        how = best_plan[1] if best_plan[0] == place[0] else plan(self.fitted_.problem, setting, *left_out)
        held_out = how.held_out(self.fitted_.problem)
        labels = scored_labels(self._labels, held_out, setting, stacklevel=5)  # warns of labels without a prediction
        if is_rough:
            self.best_score_ = float(prepared_score(self._labels, self.scoring, setting, labels)(held_out))
        self._predictions, self.holdout_method_ = held_out, how.words
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
            options: dict[str, Any] = {"search": True, "exhaustive": self.exhaustive, "progress": self.progress}
            try:
                each = score_plan(how, self.scoring, alphas, task_alphas or [1.0], **options)
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
                stacklevel=6,
            )
        return stack, each.is_rough, best

    def _fits(self) -> bool:
        for value in self._alphas.values():
            check_alpha(value, "What was chosen")
        return super()._fits() and self.landscape_.dtype.kind == "f"


def _tried(side: Side, grid: Any, name: str) -> list[Side]:
    """Return a side under each of some kernel parameters; the one that was chosen is there."""
    specs = [side.spec if grid is None else replace(side.spec, params=params) for params in grid or [None]]
    table = Table(side.features, side.ids, side.names)
    # Features are kept wherever parameters make a difference.
    alone = side.features is None or side.spec.is_linear
    return [side if alone or spec.params == side.spec.params else fit_side(table, spec, name) for spec in specs]


@dataclass(eq=False, repr=False, kw_only=True)
class TaskSearchParameters(SearchParameters):
    """Parameters of every search for models that know tasks.

    Parameters
    ----------
    kernel_grid, task_kernel_grid : list of dict, default=None
        Kernel parameters to search as well, such as ``[{"gamma": 0.1}, {"gamma": 1.0}]``; each costs one
        decomposition.

    Attributes
    ----------
    kernel_params_, task_kernel_params_ : dict or None
        The best kernel parameters.
    """

    task_kernel_grid: Sequence[dict[str, Any]] | None = None

    @property
    def task_kernel_params_(self: Any) -> Any:
        """Kernel parameters of the tasks that were chosen."""
        return None if self._task_side is None else self._task_side.spec.params


@documented
@dataclass(eq=False, repr=False)
class TwoStepRidgeCV(Search, TaskSearchParameters, TwoStepRidge):
    r"""Two-step ridge regression that chooses both regularisations itself.

    Every pair :math:`(\lambda_d, \lambda_t)` of the grid is scored by exact hold-out predictions, which takes two
    decompositions in all. `best_score_` is the best of many and therefore optimistic: see `nested_score`.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    alphas, task_alphas : sequences of float or float, default=None
        Values of :math:`\lambda_d` and :math:`\lambda_t`; None is 10⁻⁷ … 10⁶. A network has one regularisation,
        `alphas`.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, and of single pairs where few
        are observed or the missing ones form a block; elsewhere it is five folds.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.
    symmetry : {"symmetric", "antisymmetric"}, default=None
        For a network, as in `TwoStepRidge`: edges and vertices are left out of both sides, one at a time.

    Attributes
    ----------
    alpha_, task_alpha_ : float
        The best values; of equals those with the largest product, and of these the largest `alpha_`. `task_alpha_` is
        None without tasks, and for a network, where `alpha_` is that of both sides.
    landscape_ : array of shape (n_alphas, n_task_alphas), without tasks and for a network (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A coarse-to-fine
        search leaves NaN where it evaluated nothing, and its scores are rough: see `dyadlearn.selection.landscape`.

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
    task_alpha: Any = field(default=None, init=False)

    def _grids(self) -> tuple[list[float], list[float] | None]:
        task_alphas = None if self.symmetry is not None else grid_of(self.task_alphas, "task_alphas")
        return grid_of(self.alphas, "alphas"), task_alphas


@documented
@dataclass(eq=False, repr=False)
class KroneckerRidgeCV(Search, TaskSearchParameters, KroneckerRidge):
    r"""Kronecker ridge regression that chooses its regularisation itself, in any of the four settings.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, or complete but for whole rows
        and columns, and of single pairs where few are observed; elsewhere it is five folds.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.

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


# Quarters of the kernel between pairs, of which the product of both kernels has at least one.
_QUARTERS = [(a, b, 4 - a - b) for a in range(4, 0, -1) for b in range(4 - a, -1, -1)]


@documented
@dataclass(eq=False, repr=False)
class PairKernelRidgeCV(Search, TaskSearchParameters, PairKernelRidge):
    r"""Pair kernel ridge regression that chooses its regularisation and the shares of its kernel itself.

    Everything is scored by exact hold-out predictions in the setting that the model is meant for. Neither another
    regularisation nor other shares take another decomposition of a side; setting D, which decomposes the smaller side
    without each of its rows, does so once for each of the shares.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    shares : sequence of (product, per_task, per_instance), default=None
        The shares to try, see `PairKernelRidge`. None is ten of them, all in quarters in which the product of both
        kernels has one or more, where a whole stands for the average of the kernel between a pair and itself: each
        kernel alone is brought to that scale. Both sides are solved in the dual where any of the shares wants it.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out where the labels are complete, or complete but for whole rows
        and columns, and of single pairs where few are observed; elsewhere it is five folds.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.

    Attributes
    ----------
    shares_ : (float, float, float) or None
        The best shares, of equals the first: product, per_task and per_instance. None without tasks.
    landscape_ : array of shape (n_shares, n_alphas), without tasks (n_alphas,)
        Scores, NaN where there is none; with kernel grids preceded by two axes for their values. A coarse-to-fine
        search leaves NaN where it evaluated nothing, and its scores are rough: see `dyadlearn.selection.landscape`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import PairKernelRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> own = X @ rng.normal(size=(8, 15))  # each task has a function of its own, which no feature tells
    >>> Y = own + 6 * rng.normal(size=(20, 15))
    >>> search = PairKernelRidgeCV(alphas=[1, 10, 100, 1000], shares=[(1, 0, 0), (0.5, 0.5, 0), (0, 1, 0)])
    >>> search.fit(X, Y, tasks=T).landscape_.shape
    (3, 4)
    >>> search.shares_
    (0.5, 0.5, 0.0)
    """

    alphas: Any = None
    shares: Sequence[tuple[float, float, float]] | None = None
    shares_: tuple[float, float, float] | None = field(init=False)
    product: Any = field(default=None, init=False)
    per_task: Any = field(default=None, init=False)
    per_instance: Any = field(default=None, init=False)

    def _shares(self) -> tuple[float, float, float]:
        return self._all_shares()[0] if self.shares_ is None else self.shares_

    def _all_shares(self) -> list[tuple[float, float, float]]:
        if self.shares is None:
            return [(a / 4.0, b / 4.0, c / 4.0) for a, b, c in _QUARTERS]
        if not len(self.shares):
            raise ValueError("shares is empty: give at least one (product, per_task, per_instance).")
        for triple in self.shares:
            if np.shape(triple) != (3,):
                raise ValueError(f"shares must be triples (product, per_task, per_instance), found {triple!r}.")
            check_shares(triple)
        return [(float(a), float(b), float(c)) for a, b, c in self.shares]

    def _problems(self, sides: Sides) -> list[Problem]:
        self.shares_ = None  # those of another fit may want other sides
        return super()._problems(sides)

    def _variants(self, problem: Problem) -> list[Problem]:
        if not problem.pairing.knows_tasks:
            return [problem]
        pairing = cast(PairKernel, problem.pairing)
        return [replace(problem, pairing=replace(pairing, shares=shares)) for shares in self._scaled(*pairing.spectra)]

    def _choose_variant(self, variant: int, n_variants: int) -> tuple[int, ...]:
        if self._task_side is None:
            return ()
        self.shares_ = self._scaled(self._side.spectrum, self._task_side.spectrum)[variant]
        return (n_variants,)

    def _scaled(self, spectrum: Spectrum, task_spectrum: Spectrum) -> list[tuple[float, float, float]]:
        """Return the shares to try on two sides."""
        if self.shares is not None:
            return self._all_shares()
        rows, columns = (
            float(namespace(side.values).sum(side.values)) / side.n_rows or 1.0 for side in (spectrum, task_spectrum)
        )
        return [(a, b * columns, c * rows) for a, b, c in self._all_shares()]


@documented
@dataclass(eq=False, repr=False)
class IndependentTaskRidgeCV(Search, IndependentTaskRidge):
    r"""Independent-task ridge regression that chooses its regularisation itself.

    Weights are those of the squared loss that is minimised, in the search as in the fit: every observed cell of a
    positive weight counts alike in the scores, but for a `scoring` of your own that weighs them otherwise.

    Parameters
    ----------
    setting : {"A", "B"} or an alias, default="B"
        The predictions are the same in both; rank metrics are averaged differently.
    cv : int, SettingKFold or sequence of (training rows, test rows), default=None
        Folds to leave out. None is exact leave-one-out, and with `groups` and missing labels five folds of them.
        A sequence, as scikit-learn's splitters make one, cuts the instances in setting B.

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

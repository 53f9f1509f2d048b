"""A search for the regularisation, the kernels, their constants and their shares, by held-out predictions.

`SearchSpec` holds the validated parameters of a search, `PosedSearch` the search for decomposed
sides and labels, `Choice` what was chosen, and `FittedSearch` the fitted model with its choice. All
are frozen. The sides are decomposed once for each kernel, and every regularisation is scored.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dyadlearn._array import namespace, to_numpy
from dyadlearn._checks import DEFAULT_ALPHAS, caller_level, check_alphas, check_flag
from dyadlearn._interrupts import Interrupted, current
from dyadlearn._parallel import is_spread, spread
from dyadlearn._progress import Phase, Progress
from dyadlearn._state import Stored, is_shaped
from dyadlearn._tables import Table, shown
from dyadlearn.exceptions import LeverageError, UndefinedScoreWarning
from dyadlearn.holdout import Problem, SolveAgain, Units
from dyadlearn.holdout.actual import tested_labels
from dyadlearn.holdout.folds import as_splitter, warn_of_merged_groups
from dyadlearn.holdout.one_fit import folds_to_compare
from dyadlearn.holdout.planning import Plan, check_method
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.cells import best_point, warn_of_undefined, where_defined
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models.decomposing import Kernels, combined, decomposed
from dyadlearn.models.fitted import Fitted, FittedRidge, Groups, Validation
from dyadlearn.models.reading import Training
from dyadlearn.models.side import KernelSpec, Side, fit_side, with_level
from dyadlearn.models.spec import Constants, ModelSpec, PairKernelSpec, Shares
from dyadlearn.pairing import PairKernel
from dyadlearn.pairing.base import absorbs_weights
from dyadlearn.selection.evaluate import baseline_scores, baselines_beside
from dyadlearn.selection.landscape import (
    Evaluated,
    Expected,
    LeftOut,
    expected_points,
    grids_of,
    planned_for,
    score_plan,
)
from dyadlearn.settings import Setting

#: Values of one or two regularisations to try.
Grids = tuple[list[float], list[float] | None]

# Measured time of the final fit and of its hold-out predictions, in points of the search. The
# points of a coarse search are solved roughly.
_FIT = 1.0
_HOLDOUT = 1.0
_HOLDOUT_OF_ROUGH = 5.0

_SIDE_NAMES = ("instance", "task")


# Parameters and results ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchSpec(Stored):
    """Validated parameters of a search.

    Attributes
    ----------
    model : ModelSpec
        Parameters of the model. Its shares and constants are the first ones to try.
    setting : Setting
    scoring : str, callable or Scorer
    alphas, task_alphas : tuple of float, or None
        Values to try; None means the default grid.
    kernel_grids : (tuple of dict or None, tuple of dict or None)
        Kernel parameters to try for the instances and for the tasks.
    constants : tuple of Constants or None
        Constants to try; None if the model has no constants.
    shares : tuple of Shares or None
        Shares to try; None if shares are not searched.
    has_default_shares : bool
        Whether the shares are those of scaled kernels.
    searches_constants : bool
        Whether the landscape has an axis for the constants.
    cv, method, exhaustive, progress, alpha_per_task
        As the parameters of the estimators.
    """

    model: ModelSpec
    setting: Setting
    scoring: Any
    alphas: tuple[float, ...] | None
    task_alphas: tuple[float, ...] | None
    kernel_grids: tuple[Any, Any]
    constants: tuple[Constants, ...] | None
    shares: tuple[Shares, ...] | None
    has_default_shares: bool
    searches_constants: bool
    cv: Any
    method: str | None
    exhaustive: bool
    progress: bool | None
    alpha_per_task: bool

    def check(self) -> None:
        """Raise if a parameter has a wrong value."""
        as_splitter(self.cv, self.setting)
        check_method(self.method)
        scorer(self.scoring)
        grids = {"task_alphas": self.task_alphas, "task_kernel_grid": self.kernel_grids[1]}
        for name, value in grids.items():
            if self.model.sign and value is not None:
                raise ValueError(
                    f"A network has one kernel and one regularisation for both sides: leave {name} "
                    f"out."
                )
        check_flag(self.exhaustive, "exhaustive")
        if check_flag(self.alpha_per_task, "alpha_per_task") and self.kernel_grids[0] is not None:
            raise ValueError("alpha_per_task=True searches alphas only: leave kernel_grid out.")

    def _fits(self) -> bool:
        self.check()
        for values in (self.alphas, self.task_alphas):
            if values is not None:
                check_alphas(values, "alphas")
        return True

    @property
    def kernels(self) -> Kernels:
        """Kernels and constants to decompose."""
        sides = zip(self.model.kernels, self.kernel_grids, _SIDE_NAMES, strict=True)
        first, second = (tried_kernels(*side) for side in sides)
        return Kernels((first, second), self.constants or [self.model.constants])

    def left_out(self, groups: Groups) -> LeftOut:
        """Return what hold-out leaves out, and by which method."""
        return LeftOut(*groups, self.cv, self.method)

    @property
    def judge(self) -> Scorer:
        """The score, with the average of each task where each has a regularisation."""
        judge = scorer(self.scoring)
        if not self.alpha_per_task or judge.is_function:
            return judge
        return judge.averaged("task")

    def has_default(self, name: str) -> bool:
        """Return whether the grid of a regularisation was not given."""
        return {"alpha": self.alphas, "task_alpha": self.task_alphas}[name] is None


def tried_kernels(spec: KernelSpec, grid: Any, name: str) -> list[KernelSpec]:
    """Return the kernels of a side to try, one per set of parameters."""
    if grid is None:
        return [spec]
    if not grid:
        raise ValueError(f"The grid of {name} kernel parameters is empty: give at least one dict.")
    return [replace(spec, params=params) for params in grid]


@dataclass(frozen=True, eq=False, kw_only=True)
class Choice(Stored):
    """What a search has chosen, and the scores by which it has.

    Attributes
    ----------
    alphas : array
        Values that were tried for the chosen kernel.
    task_alphas : array or None
    landscape : array
        Scores.
    best_score : float
    n_evaluated : int
        Number of scores that were computed.
    shares : Shares or None
    constants : Constants or None
    """

    alphas: np.ndarray
    task_alphas: np.ndarray | None
    landscape: np.ndarray
    best_score: float
    n_evaluated: int
    shares: tuple[float, float, float] | None = None
    constants: tuple[float, float] | None = None

    def fits(self, *, per_task: bool) -> bool:
        """Return whether the landscape has an axis for each grid; it is the first if each task has a regularisation."""
        grids = [values for values in (self.alphas, self.task_alphas) if values is not None]
        if per_task:
            axes = self.landscape.shape[:1]
        else:
            axes = self.landscape.shape[-len(grids) :]
        return self.landscape.dtype.kind == "f" and all(
            is_shaped(values, n_values) for values, n_values in zip(grids, axes, strict=True)
        )


class FittedChoice(FittedRidge, stored=False):
    """A fitted model whose parameters were chosen or learned by held-out predictions."""

    searches: ClassVar[bool] = True

    validation: Validation

    @property
    @abstractmethod
    def reached(self) -> str:
        """What the model has reached if its fit was interrupted."""

    @property
    def held_out(self) -> Any:
        """One held-out prediction per label, at the chosen parameters."""
        return self.validation.predictions

    @property
    def holdout_method(self) -> str:
        """Method of hold-out."""
        return self.validation.method

    @property
    @abstractmethod
    def baselines(self) -> dict[str, float]:
        """Scores of the baselines in the setting of the search, held out in the same way as the model."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedSearch(FittedChoice):
    """A fitted model whose parameters a search has chosen.

    Attributes
    ----------
    search : SearchSpec
        Validated parameters of the search.
    choice : Choice
    validation : Validation
        Held-out predictions at the chosen parameters.

    See Also
    --------
    FittedRidge : the other attributes.
    """

    search: SearchSpec
    choice: Choice = field()
    validation: Validation

    @property
    def tasks_remedy(self) -> str:  # type: ignore[override]
        """How to fix a model without a task side; the end of error messages."""
        return self.spec.search_remedy

    @property
    def scoring(self) -> Any:
        """Score by which the parameters were chosen."""
        return self.search.scoring

    @property
    def reached(self) -> str:
        """What an interrupted search has reached."""
        choice = self.choice
        tried = f"{choice.n_evaluated} of {choice.landscape.size} points were tried"
        return f"The search was interrupted: {tried}; the best is chosen."

    @property
    def baselines(self) -> dict[str, float]:
        """Scores of the baselines in the setting of the search, held out in the same way as the model."""
        stored = self.validation
        beside = (stored.setting, stored.units)
        judge = self.search.judge
        if not self.search.alpha_per_task:
            return baselines_beside(self, judge, *beside)
        folds = folds_to_compare(self.labels, judge, *beside, self.pairing)
        score = judge.prepare_each_task(self.labels.values, folds)
        return baseline_scores(self.labels, *beside, lambda F: np.nanmean(score(F)))

    @property
    def only_label(self) -> float | None:
        """Value of all labels if they are equal, so that no regularisation is better than another; else None."""
        observed = to_numpy(self.labels.values)[self.labels.observed]
        low = float(observed.min())
        return low if low == float(observed.max()) else None

    def refitter(self, setting: Setting) -> Callable[[Labels], Fitted]:
        """Return a function that repeats the search on other labels of the same instances and tasks."""
        search = replace(self.search, progress=False)
        posed = PosedSearch(search, self, self.validation.groups, self._tried_sides())
        return lambda labels: posed.with_labels(labels).run()

    def _tried_sides(self) -> list[tuple[Side, ...]]:
        """Return the sides for all kernels that were tried; kernels that were not chosen are decomposed again."""
        kernels = self.search.kernels
        pairs = kernels.used_constants(self.sides[0].spec.constant)
        by_kernel = []
        sides = self.sides[:1] if self.spec.sign else self.sides
        for axis, side in enumerate(sides):
            name = _SIDE_NAMES[axis]
            levels = dict.fromkeys(pair[axis] for pair in pairs)
            tried = _decomposed_again(side, self.search.kernel_grids[axis], name)
            by_kernel.append(
                [{level: with_level(one, level, name) for level in levels} for one in tried]
            )
        return combined(self.spec, by_kernel, pairs)

    def _fits(self) -> bool:
        alpha = self.alphas["alpha"]
        if not (super()._fits() and self.choice.fits(per_task=np.ndim(alpha) > 0)):
            return False
        return type(self.spec) is type(self.search.model)


def _decomposed_again(side: Side, grid: Any, name: str) -> list[Side]:
    """Return a side for each set of kernel parameters; the chosen one is already decomposed."""
    table = Table(side.features, side.ids, side.names)
    # Features are stored for all kernels that have parameters.
    alone = side.features is None or side.spec.is_linear
    sides = []
    for spec in tried_kernels(side.spec, grid, name):
        is_known = alone or spec.params == side.spec.params
        sides.append(side if is_known else fit_side(table, spec, name))
    return sides


# The search ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PosedSearch:
    """A search for decomposed sides and labels.

    Attributes
    ----------
    spec : SearchSpec
    data : Training or FittedRidge
        Labels with their ids, and the precision and names of the data.
    groups : Groups
        Groups of instances and of tasks, as integers.
    sides : list of tuples of Side
        Decomposed sides for all kernels to try, in the order of `decomposing.combined`.
    """

    spec: SearchSpec
    data: Any
    groups: Groups
    sides: list[tuple[Side, ...]]

    @classmethod
    def of(cls, spec: SearchSpec, data: Training, groups: Groups) -> PosedSearch:
        """Return the search for checked data, after decomposing the sides for all kernels to try."""
        coded = code_groups(data.labels, groups)
        posed = cls(spec, data, coded, decomposed(spec.model, data, spec.kernels))
        return posed._with_scaled_weights()

    def with_labels(self, labels: Labels) -> PosedSearch:
        """Return the same search for other labels."""
        return replace(self, data=replace(self.data, labels=labels))

    def _with_scaled_weights(self) -> PosedSearch:
        """Return the search with weights of mean one if the regularisation cannot take up their mean.

        So default grids suit any weights.
        """
        labels = self.data.labels
        if labels.weights is None:
            return self
        pairing = self.problems[0].pairing
        has_default = any(self.spec.has_default(name) for name in pairing.alphas)
        if not has_default or absorbs_weights(pairing):
            return self
        return self.with_labels(replace(labels, weights=labels.weights / labels.mean_weight))

    @property
    def left_out(self) -> LeftOut:
        """What hold-out leaves out, and by which method."""
        return self.spec.left_out(self.groups)

    @cached_property
    def problems(self) -> list[Problem]:
        """Problems to try, at any regularisation: one or more for each pair of decomposed sides."""
        start = dict.fromkeys(self.spec.model.alpha_names, 1.0)
        model = self.spec.model
        problems = [model.problem(sides, self.data.labels, start) for sides in self.sides]
        if self.spec.shares is None:
            return problems
        with_shares = []
        for problem in problems:
            kernel = problem.pairing
            if isinstance(kernel, PairKernel):
                for shares in self._scaled_shares(kernel):
                    pairing = replace(kernel, shares=shares)
                    with_shares.append(replace(problems[0], pairing=pairing))
        return with_shares or problems

    @property
    def n_forms(self) -> int:
        """Number of problems for each pair of decomposed sides."""
        return len(self.problems) // len(self.sides)

    def _scaled_shares(self, kernel: PairKernel) -> list[Shares]:
        """Return the shares to try for a pair kernel."""
        shares = list(self.spec.shares or ())
        if not self.spec.has_default_shares:
            return shares
        scales = []
        for spectrum in kernel.spectra:
            total = float(namespace(spectrum.values).sum(spectrum.values))
            scales.append(total / spectrum.n_rows or 1.0)
        rows, columns = scales
        return [(a, b * columns, c * rows) for a, b, c in shares]

    @cached_property
    def grids(self) -> list[Grids]:
        """Values of one or two regularisations to try for each problem."""
        spec = self.spec
        return [grids_of(problem, spec.alphas, spec.task_alphas) for problem in self.problems]

    def plan_of(self, number: int) -> Plan:
        """Return the hold-out plan of a problem for all its regularisations."""
        problem = self.problems[number]
        return planned_for(
            problem, self.spec.setting, self.left_out, self.spec.judge, *self.grids[number]
        )

    @cached_property
    def expected(self) -> Expected:
        """What the search will do, and its cost."""
        how = self.plan_of(0)
        n_points = expected_points(how, *self.grids[0], exhaustive=self.spec.exhaustive)
        return Expected(how, len(self.problems), n_points)

    def run(self, of: float = 0.0) -> FittedSearch:
        """Return the model with the best parameters; `of` is as in `Progress`."""
        if self.spec.alpha_per_task:
            return _run_each_task(self, of)
        return _run(self, of)


def code_groups(labels: Labels, groups: Groups) -> Groups:
    """Return the groups of instances and of tasks as integers."""
    rows, columns = Units.of_groups(labels, Setting.D, groups).sides
    return rows, columns


def _run(posed: PosedSearch, of: float) -> FittedSearch:
    """Score all regularisations for all sides to try, and solve for the best."""
    spec = posed.spec
    expected = posed.expected
    if isinstance(expected.how, SolveAgain) and not spec.exhaustive:
        n_holdout = _HOLDOUT_OF_ROUGH
    else:
        n_holdout = _HOLDOUT
    total = expected.n_points + _FIT + n_holdout
    with Progress(total, f"Search {spec.setting.value}", spec.progress, of) as bar:
        expected.announce()
        scored = _scored(posed, bar)
        place, number = _best_place(posed, scored.stack, scored.n_evaluated)
        with Phase("Final fit", of=_FIT):
            fitted = _solved(posed, place)
        with Phase("Hold-out", 1, of=n_holdout):
            # Folds that were solved in the search are warm starts, now at the tolerance of the
            # fit.
            if scored.best == number:
                how = scored.plan
            else:
                n_alphas = math.prod(scored.stack.shape[1:])
                how = posed.left_out.plan(fitted.problem, spec.setting, spec.judge, n_alphas)
            validation, labels = _validated(posed, fitted, how)
    choice = _choice(posed, scored, place)
    if scored.is_rough:
        scored_in = (fitted.labels, spec.judge, spec.setting)
        folds = folds_to_compare(*scored_in, how.units, fitted.pairing)
        score = prepared_score(*scored_in, labels, folds=folds)
        choice = replace(choice, best_score=float(score(validation.predictions)))
    return fitted.extended(FittedSearch, search=spec, choice=choice, validation=validation)


@dataclass(frozen=True, eq=False)
class _Scored:
    """Scores of all problems of a search.

    Attributes
    ----------
    stack : array of shape (n_problems, n_alphas, …)
        Scores; NaN for problems that always interpolate, and for points that were not evaluated.
    n_evaluated : int
        Number of scores that were computed.
    is_rough : bool
        Whether the scores are those of approximate solutions.
    best : int
        Number of the problem with the best score.
    plan : Plan
        Hold-out plan of this problem.
    """

    stack: np.ndarray
    n_evaluated: int
    is_rough: bool
    best: int
    plan: Plan


def _scored(posed: PosedSearch, bar: Progress) -> _Scored:
    """Score all regularisations of all problems."""
    evaluated: dict[int, Evaluated] = {}
    best: _Tried | None = None
    refusal = LeverageError()
    interrupts = current()
    for tried in _tried(posed, bar):
        if isinstance(tried.outcome, LeverageError):
            refusal = tried.outcome
            continue
        evaluated[tried.number] = tried.outcome
        if best is None or tried.rank > best.rank:
            best = tried
        if interrupts.heard is not None:
            break
    if best is None:
        raise refusal
    if interrupts.heard is not None and best.top == -np.inf:
        raise Interrupted(interrupts.heard)  # what is kept is the result of another search
    scores = evaluated[best.number]
    n_evaluated = sum(scored.n_points for scored in evaluated.values())
    stack = np.full((len(posed.problems), *scores.scores.shape), np.nan)
    for number, one in evaluated.items():
        stack[number] = one.scores
    return _Scored(stack, n_evaluated, scores.is_rough, best.number, best.how)


class _Tried(NamedTuple):
    """One problem of a search, with its scores.

    Attributes
    ----------
    number : int
    how : Plan
        Hold-out plan of the problem, with what it remembers of the scored regularisations.
    outcome : Evaluated or LeverageError
    """

    number: int
    how: Plan
    outcome: Evaluated | LeverageError

    @property
    def top(self) -> float:
        """The best score; minus infinity if there is none."""
        if isinstance(self.outcome, LeverageError):
            return -np.inf
        return float(np.nanmax(self.outcome.scores, initial=-np.inf))

    @property
    def rank(self) -> tuple[float, int]:
        """What the best problem has most of: of equal scores, the first counts."""
        return self.top, -self.number


def _tried(posed: PosedSearch, bar: Progress) -> Iterator[_Tried]:
    """Yield each problem of a search with its scores; an interrupt ends this if there are scores to keep."""
    interrupts = current()
    work = partial(_scores_of, posed.spec, posed.expected.n_alphas)
    numbers = range(len(posed.problems))
    hows = (posed.plan_of(number) if number else posed.expected.how for number in numbers)
    items: Iterable[Any] = zip(numbers, hows, posed.grids, strict=True)
    if is_spread():
        items = list(items)
    has_scores = False
    with closing(spread(work, items, may_end=True)) as results:
        while True:
            try:
                one = next(results, None)
            except KeyboardInterrupt as error:
                if not has_scores:
                    raise
                interrupts.heed(error)
                return
            if one is None:
                return
            tried = one[1]
            has_scores = has_scores or isinstance(tried.outcome, Evaluated)
            if is_spread():  # scores of this process count and keep themselves
                bar.advance(posed.expected.n_alphas)
                if tried.top > -np.inf:
                    interrupts.keep()
            yield tried


def _scores_of(spec: SearchSpec, n_alphas: float, item: tuple[int, Plan, Grids]) -> _Tried:
    """Score all regularisations of one problem."""
    number, how, grids = item
    options: dict[str, Any] = {
        "search": True,
        "exhaustive": spec.exhaustive,
        "method": spec.method,
        "progress": spec.progress,
        "of": n_alphas,
    }
    try:
        return _Tried(number, how, score_plan(how, spec.judge, *grids, **options))
    except LeverageError as error:
        return _Tried(number, how, error)


def _best_place(
    posed: PosedSearch, stack: np.ndarray, n_evaluated: int
) -> tuple[tuple[int, ...], int]:
    """Return the place of the best score, and the number of its problem; warn of undefined scores."""
    if n_evaluated == stack.size:
        _warn_of_undefined(posed, stack)
    # Grids of different kernels are in the same order.
    grids = [values for values in posed.grids[0] if values is not None]
    place = best_point(stack, *grids)
    return place, int(place[0])


def _solved(posed: PosedSearch, place: tuple[int, ...]) -> FittedRidge:
    """Return the model with the parameters of a place in the scores."""
    sides = posed.sides[place[0] // posed.n_forms]
    model = posed.spec.model
    shares = _chosen_shares(posed, place)
    if shares is not None and isinstance(model, PairKernelSpec):
        model = replace(model, shares=shares)
    constants = _chosen_constants(sides)
    if constants is not None:
        model = replace(model, constants=constants)
    alphas, task_alphas = posed.grids[place[0]]
    chosen = {"alpha": alphas[place[1]]}
    if task_alphas is not None:
        chosen["task_alpha"] = task_alphas[place[2]]
    return FittedRidge.solve(model, posed.data, sides, chosen)


def _chosen_constants(sides: tuple[Side, ...]) -> Constants | None:
    """Return the constants of both kernels; None without tasks, or if constants are no features."""
    if len(sides) == 1 or sides[0].spec.constant != "feature":
        return None
    return sides[0].spec.level, sides[1].spec.level


def _chosen_shares(posed: PosedSearch, place: tuple[int, ...]) -> Shares | None:
    """Return the shares of a place in the scores; None if shares are not searched, or without tasks."""
    if posed.spec.shares is None:
        return None
    return getattr(posed.problems[place[0]].pairing, "shares", None)


def _choice(posed: PosedSearch, scored: _Scored, place: tuple[int, ...]) -> Choice:
    """Return what is chosen by the best score."""
    spec = posed.spec
    alphas, task_alphas = posed.grids[place[0]]
    sides = posed.sides[place[0] // posed.n_forms]
    n_constants = len(spec.kernels.used_constants(sides[0].spec.constant))
    n_first = len(spec.kernels.sides[0])
    n_kernels = (n_first, len(posed.sides) // (n_first * n_constants))
    # Drop the axes of kernel grids that are not searched.
    leading = [*n_kernels] if max(n_kernels) > 1 else []
    constants = None if spec.constants is None else _chosen_constants(sides)
    if constants is not None and spec.searches_constants:
        leading.append(n_constants)
    shares = _chosen_shares(posed, place)
    if shares is not None:
        leading.append(posed.n_forms)
    return Choice(
        alphas=np.asarray(alphas),
        task_alphas=None if task_alphas is None else np.asarray(task_alphas),
        landscape=scored.stack.reshape(*leading, *scored.stack.shape[1:]),
        best_score=float(scored.stack[place]),
        n_evaluated=scored.n_evaluated,
        shares=shares,
        constants=constants,
    )


def _validated(posed: PosedSearch, fitted: FittedRidge, how: Plan) -> tuple[Validation, Any]:
    """Return the held-out predictions at the chosen parameters, and the labels that have a prediction."""
    setting = how.setting
    predictions = how.held_out(fitted.problem, everywhere=True)
    if posed.spec.cv is None and not how.is_asked:
        used = Units.of_groups(fitted.labels, setting, posed.groups)
        warn_of_merged_groups(used, how.units, setting, stacklevel=caller_level())
    # Warns about labels without a prediction.
    labels = scored_labels(fitted.labels, predictions, setting, stacklevel=caller_level())
    labels = tested_labels(labels, fitted.labels, setting, how.units)
    validation = Validation(
        setting, predictions, how.method, how.units, how.explanation, posed.groups
    )
    return validation, labels


def _warn_of_undefined(posed: PosedSearch, stack: np.ndarray) -> None:
    """Warn of the regularisations without a score, by their multiples if kernels have different grids."""
    grids = list(posed.grids[0])
    names = ["alpha", "task_alpha"]
    for axis, name in enumerate(names):
        if len(posed.grids) > 1 and grids[axis] is not None and posed.spec.has_default(name):
            grids[axis] = list(DEFAULT_ALPHAS)
            names[axis] = f"relative {name}"
    warn_of_undefined(stack, grids, posed.spec.setting.value, caller_level(), names=names)


# One regularisation for each task --------------------------------------------------------------------------


def _run_each_task(posed: PosedSearch, of: float) -> FittedSearch:
    """Score all regularisations for each task separately, and solve with the best value of each task."""
    spec = posed.spec
    [problem] = posed.problems
    alphas, _ = posed.grids[0]
    [sides] = posed.sides
    how = planned_for(problem, spec.setting, posed.left_out, spec.judge, alphas, None)
    interrupts = current()
    title = f"Search {spec.setting.value}"
    with Progress(len(alphas) + _FIT + _HOLDOUT, title, spec.progress, of) as bar:
        Expected(how, 1, len(alphas)).announce()
        scores = where_defined(_TaskScores(how, spec, bar), alphas, [1.0])
    best = _best_of_tasks(posed, scores, alphas)
    tried = np.asarray(alphas)
    fitted = FittedRidge.solve(spec.model, posed.data, sides, {"alpha": tried[best]})
    validation, _ = _validated(posed, fitted, how)
    n_rows = len(alphas)
    if interrupts.heard is not None:
        n_rows = int(np.count_nonzero(np.isfinite(scores).any(axis=1)))
    choice = Choice(
        alphas=tried,
        task_alphas=None,
        landscape=scores,
        best_score=float(np.nanmean(scores[best, np.arange(len(best))])),
        n_evaluated=n_rows * scores.shape[1],
    )
    return fitted.extended(FittedSearch, search=spec, choice=choice, validation=validation)


@dataclass(eq=False)
class _TaskScores:
    """Scores of each task for some regularisations, as a function.

    Parameters
    ----------
    how : Plan
    spec : SearchSpec
    bar : Progress
    """

    how: Plan
    spec: SearchSpec
    bar: Progress
    _score: Any = field(default=None, init=False)

    def __call__(self, values: Sequence[float], _: Sequence[float]) -> np.ndarray:
        """Return the scores (n, q) of n regularisations; NaN where there is none."""
        problem = self.how.problem
        interrupts = current()
        rows: list[np.ndarray] = []
        for alpha in values:
            held_out = interrupts.attempt(partial(self.how.held_out, problem.at(alpha)))
            if held_out is None:
                rows.append(np.full(problem.labels.shape[1], np.nan))
                continue
            rows.append(self._prepared(held_out)(held_out))
            if np.isfinite(rows[-1]).any():
                interrupts.keep()
            self.bar.advance()
        return np.stack(rows)

    def _prepared(self, held_out: Any) -> Any:
        """Return the score of the labels that have a prediction, the same for all regularisations."""
        if self._score is None:
            how = self.how
            judge = self.spec.judge
            whole = how.problem.labels
            labels = scored_labels(whole, held_out, self.spec.setting, quiet=True)
            labels = tested_labels(labels, whole, how.setting, how.units)
            folds = folds_to_compare(whole, judge, how.setting, how.units, how.problem.pairing)
            self._score = judge.prepare_each_task(labels, folds)
        return self._score


def _best_of_tasks(posed: PosedSearch, scores: np.ndarray, alphas: Sequence[float]) -> list[int]:
    """Return the position of the best regularisation of each task, from scores (n_alphas, q)."""
    judge = scorer(posed.spec.scoring)
    undefined = np.isnan(scores).all(axis=0)
    if undefined.all():
        raise ValueError(f"{judge.name} is undefined for every task, so no alpha can be chosen.")
    if current().heard is None:
        letter = posed.spec.setting.value
        warn_of_undefined(scores[:, ~undefined].T, (alphas, None), letter, caller_level())
    # A task without a score gets the value that is best for the other tasks together.
    filled = np.where(undefined, scores[:, ~undefined].mean(axis=1, keepdims=True), scores)
    best = [int(best_point(task_scores, alphas)[0]) for task_scores in filled.T]
    if undefined.any():
        ids = posed.data.form.column_ids
        places = np.flatnonzero(undefined)
        names = shown(places.tolist() if ids is None else ids.take(places).labels)
        warnings.warn(
            f"{judge.name} is undefined for {len(places)} of {undefined.size} tasks ({names}): "
            f"they get alpha "
            f"{alphas[best[places[0]]]:g}, the best for all others together, and are excluded "
            f"from the score.",
            UndefinedScoreWarning,
            stacklevel=caller_level(),
        )
    return best

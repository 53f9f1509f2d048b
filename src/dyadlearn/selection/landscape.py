r"""Hold-out scores for all regularisations of a grid.

`dyadlearn.holdout.plan` chooses the hold-out method. For complete labels, the predictions for many
regularisations are computed together by matrix products (see `dyadlearn.pairing.full`), and squared
errors often without predictions. Otherwise regularisations are evaluated one after the other, and
each solve starts from the previous solution.

Where labels are missing or weighted, every regularisation is solved for again in every fold. The
coarse-to-fine search evaluates every fourth value of each axis, the middle of the grid first. Then
it evaluates the neighbours of the best point, two values away and then one, until all neighbours of
the best point have a score. Each solve starts from the solution of the point before.

The search compares points by rough solutions: conjugate gradients stop at a relative residual of
:math:`10^{-2}` or after 60 iterations. In setting D, whose folds cut both sides, it uses the folds
on the diagonal alone if they have enough labels; then it goes on from the best point in all folds,
to neighbours along the axes. The directions that a few iterations do not resolve have little
weight: they change the score in its third digit.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import array_bytes, to_numpy
from dyadlearn._checks import DEFAULT_ALPHAS, caller_level, check_alphas
from dyadlearn._interrupts import current
from dyadlearn._messages import Message
from dyadlearn._parallel import map_here, spread
from dyadlearn._progress import Progress, announce
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Problem, SolveAgain, Units, check_enough_left, plan
from dyadlearn.holdout.actual import tested_labels
from dyadlearn.holdout.folds import Folds
from dyadlearn.holdout.one_fit import folds_to_compare, larger_folds, needs_one_fit
from dyadlearn.holdout.pairs_out import PairsOut
from dyadlearn.holdout.planning import Cost, Plan, is_affordable
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels
from dyadlearn.metrics import PreparedScorer, Scorer, scorer
from dyadlearn.metrics.cells import Values, best_point, warn_of_undefined, where_defined
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models.fitted import as_fitted
from dyadlearn.pairing.base import absorbs_weights, check_request, mean_eigenvalues, settings_of
from dyadlearn.pairing.full import Stack, Sweep, sweep
from dyadlearn.pairing.two_step import TwoStep
from dyadlearn.settings import Groups, Setting, as_settings
from dyadlearn.solve.leaving import group_members
from dyadlearn.spectrum import Smoother

Point = tuple[int, int]


class LeftOut(NamedTuple):
    """What hold-out leaves out.

    Attributes
    ----------
    groups, task_groups, cv, method : as in `dyadlearn.holdout.plan`
    """

    groups: Any = None
    task_groups: Any = None
    cv: Any = None
    method: str | None = None

    def plan(self, problem: Problem, setting: Setting, judge: Scorer, n_alphas: int = 1) -> Plan:
        """Return the hold-out plan of a problem, whose predictions a score may compare."""
        options: dict[str, Any] = {"method": self.method, "n_alphas": n_alphas}
        how = plan(problem, setting, *self[:3], **options)
        if self.cv is not None or pairs_of(how, judge, n_alphas, self.method) is not None:
            return how
        together = Units.of_groups(problem.labels, setting, (self.groups, self.task_groups))
        pairing = problem.pairing
        splitter = larger_folds(problem.labels, how.units, together, judge, setting, pairing)
        if splitter is None:
            return how
        larger = plan(problem, setting, *self[:2], splitter, **options)
        work = larger.cost.times(n_alphas).work / n_alphas
        is_cheap = n_alphas == 1 or is_affordable(work, problem.labels, n_alphas)
        if is_cheap or larger.cost.work <= how.cost.work:
            return larger
        return how


def pairs_of(
    how: Plan, judge: Scorer, n_alphas: int = 1, method: str | None = None
) -> PairsOut | None:
    """Return the plan to leave out pairs of labels, where single labels would be left out otherwise; else None."""
    if how.setting is not Setting.A or not how.units.are_single or method == "folds":
        return None
    if judge.average_in(how.setting) == "fold":
        return None
    if not needs_one_fit(judge, how.setting, how.problem.pairing):
        return None
    return PairsOut.of(how.problem, judge, n_alphas)


class Expected(NamedTuple):
    """What a search will do, with its cost.

    Attributes
    ----------
    how : Plan
        Hold-out of the first problem.
    n_problems : int
        Number of problems: kernels, constants and shares to try.
    n_alphas : int
        Expected number of regularisations to score for each problem.
    """

    how: Plan
    n_problems: int
    n_alphas: int

    @property
    def n_points(self) -> int:
        """Number of points to score."""
        return self.n_problems * self.n_alphas

    @property
    def cost(self) -> Cost:
        """Estimated cost of all points."""
        cost = self.how.cost.times(self.n_alphas)
        return replace(cost, work=self.n_problems * cost.work)

    @property
    def words(self) -> str:
        """Method, reason and cost in one line."""
        return f"{self.how.explanation}; {self.n_points:,} points take {self.cost}"

    def announce(self) -> None:
        """Say what the search will do where progress is shown, if it takes long."""
        announce(f"Search {self.how.setting.value}: {self.words}", self.cost.seconds)


#: Default memory in bytes for stacks of predictions.
MAX_MEMORY = 2**30

# Least and greatest scale of a default grid, so that no value of the grid overflows or vanishes.
_SCALES = (1e-300, 1e300)
# Tolerance of conjugate gradients where all points are evaluated: scores need no more digits.
_TOL = 1e-5
# Tolerance and number of iterations of the rough solutions of a search.
_ROUGH = {"tol": 1e-2, "max_iter": 60}
# Minimum number of labels in the folds on the diagonal for a search on these folds alone.
_ENOUGH_LABELS = 2000
# Number of values on an axis from which the search is coarse to fine.
_LONG = 7
# Distance between the first points on an axis, and from the best point to its neighbours.
_COARSE = 4
_STEPS = (2, 1)
# Most bytes of the hat matrices of tasks that the points of a landscape share.
_KEPT_BYTES = 2**28


class Evaluated(NamedTuple):
    """Scores of a grid of regularisations.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        NaN where a point has no score or was not evaluated.
    n_points : int
        Number of points that were evaluated.
    is_rough : bool
        Whether the scores are those of rough solutions.
    """

    scores: np.ndarray
    n_points: int
    is_rough: bool


def default_alphas(model: Any) -> dict[str, list[float]]:
    r"""Return the regularisations that are tried by default: 14 multiples of the scale of the kernel.

    .. math:: 10^{-7} s,\; 10^{-6} s,\; \dots,\; 10^{6} s

    Two-step ridge regression has a grid for each side, whose scale s is the mean eigenvalue of the
    kernel of the side. A model with one regularisation has one grid, whose scale is the mean
    eigenvalue of the kernel between pairs times the mean weight of the labels. Where the model has
    an intercept, kernels are centred before. So a model that is chosen from this grid does not
    depend on the units of features, kernels and weights.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    dict of str to list of float
        Values of ``"alphas"`` and, if the model has a regularisation of the tasks, of
        ``"task_alphas"``: arguments of `landscape` and of
        `dyadlearn.plots.LandscapeDisplay.from_landscape`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.selection import default_alphas
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge().fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> grids = default_alphas(model)
    >>> round(grids["alphas"][7], 2), round(float(X.var(axis=0).sum()), 2)
    (2.16, 2.16)
    """
    if isinstance(model, Problem):
        problem = model
    else:
        problem = as_fitted(model).problem
    pairing = problem.pairing
    # The weights of the problem are in its unit.
    if absorbs_weights(pairing):
        weight = problem.unit * problem.labels.mean_weight
    else:
        weight = 1.0
    grids = {}
    for name, mean in mean_eigenvalues(pairing).items():
        scale = 1.0
        if mean > 0:
            scale = min(max(mean * weight, _SCALES[0]), _SCALES[1])
        grids[f"{name}s"] = [multiple * scale for multiple in DEFAULT_ALPHAS]
    return grids


def grids_of(
    problem: Problem, alphas: Any, task_alphas: Any
) -> tuple[list[float], list[float] | None]:
    """Return the values of one or two regularisations of a problem: those that are given, or else the default.

    Parameters
    ----------
    problem : Problem
    alphas, task_alphas : iterables of float, float or None
        None means `default_alphas`. `task_alphas` is ignored by a model with one regularisation.
    """
    asked = {"alphas": alphas, "task_alphas": task_alphas}
    checked = {
        name: check_alphas(values, name) for name, values in asked.items() if values is not None
    }
    grids = {name: checked.get(name, values) for name, values in default_alphas(problem).items()}
    return grids["alphas"], grids.get("task_alphas")


def coarse_to_fine(
    scores: np.ndarray, *alphas: Values, start: Point | None = None
) -> Iterator[Point]:
    """Yield the points that a coarse-to-fine search evaluates.

    Parameters
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        The caller writes the score of each point here before it asks for the next one.
    *alphas : sequences of float
        Values of both regularisations, in any order.
    start : (row, column), default=None
        Where to start instead of every fourth value; neighbours are then those along the axes, one
        value away.

    Yields
    ------
    (row, column)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.selection.landscape import coarse_to_fine
    >>> scores = np.full((14, 1), np.nan)
    >>> for point in coarse_to_fine(scores, np.arange(14.0), [1.0]):
    ...     scores[point] = -abs(point[0] - 4)
    >>> np.flatnonzero(np.isfinite(scores)).tolist()
    [1, 3, 4, 5, 6, 7, 11]
    """
    orders = [np.argsort(values, kind="stable") for values in alphas]
    ranks = [np.argsort(order) for order in orders]
    evaluated: set[Point] = set()

    def new(points: Iterable[tuple[int, ...]]) -> Iterator[Point]:
        for first, second in points:
            inside = 0 <= first < len(orders[0]) and 0 <= second < len(orders[1])
            if inside and (first, second) not in evaluated:
                evaluated.add((first, second))
                yield int(orders[0][first]), int(orders[1][second])

    if start is not None:
        yield from new([(int(ranks[0][start[0]]), int(ranks[1][start[1]]))])
    else:
        yield from new(product(*(_every_fourth(len(order)) for order in orders)))
    if np.isnan(scores).all():  # the model interpolates at these points, but perhaps not at others
        yield from new(product(*(range(len(order)) for order in orders)))
    if np.isnan(scores).all():
        return
    for step in _STEPS if start is None else (1,):
        n_before = -1
        while len(evaluated) > n_before:
            n_before = len(evaluated)
            best = best_point(scores, *alphas)
            row, column = (int(rank[at]) for rank, at in zip(ranks, best, strict=True))
            moves = product((0, step, -step), repeat=2)
            yield from new(
                (row + down, column + right)
                for down, right in moves
                if start is None or not down * right
            )


def _every_fourth(n_values: int) -> list[int]:
    """Return every fourth position of an axis, from the middle outwards."""
    middle = n_values // 2
    return sorted(
        range(middle % _COARSE, n_values, _COARSE), key=lambda position: abs(position - middle)
    )


def _all_points(*alphas: Values) -> Iterator[Point]:
    """Return all points from strong to weak; most successive points are neighbours, which helps warm starts."""
    rows, columns = (np.argsort(values)[::-1].tolist() for values in alphas)
    return product(rows, columns)


def _sufficient_diagonal(folds: Folds) -> list[int] | None:
    """Return the numbers of the folds on the diagonal; None if there are no others, or too few labels in them."""
    has_others = len(folds.diagonal) < folds.n_folds
    if has_others and folds.n_tested(folds.diagonal) >= _ENOUGH_LABELS:
        return folds.diagonal
    return None


class _PointScore:
    """Score of held-out predictions, for one regularisation at a time.

    Parameters
    ----------
    how : Plan
    judge : Scorer
    quiet : bool
        As in `dyadlearn.holdout.units.scored_labels`.
    is_rough : bool
        Whether folds are solved roughly, and in setting D those on the diagonal alone.
    pairs : PairsOut or None
        The plan to leave out pairs of labels instead.
    """

    def __init__(
        self, how: Plan, judge: Scorer, quiet: bool, is_rough: bool, pairs: PairsOut | None
    ) -> None:
        labels = how.problem.labels
        self._folds = None
        if pairs is None:
            pairing = how.problem.pairing
            self._folds = folds_to_compare(labels, judge, how.setting, how.units, pairing)
        # This raises before folds are solved if the score is undefined.
        prepared_score(labels, judge, how.setting, folds=self._folds)
        self.how = how
        self._pairs = pairs
        self._judge = judge
        self._quiet = quiet
        self.is_rough = is_rough
        self.tol = max(how.problem.tol, _TOL)
        self.n_unconverged = 0
        self.refusal = LeverageError()
        self._options: dict[str, Any] = dict(_ROUGH) if is_rough else {"tol": self.tol}
        self.diagonal: list[int] | None = None
        if is_rough and how.folds is not None:
            self.diagonal = _sufficient_diagonal(how.folds)
        self._prepared: PreparedScorer | None = None

    @property
    def are_independent(self) -> bool:
        """Whether points share none of the work and no solution to start from."""
        return self._pairs is not None or self.how.shares_nothing

    def use_all_folds(self) -> None:
        """Hold out all folds from now on."""
        self.diagonal = self._prepared = None

    def __call__(self, alpha: float, task_alpha: float) -> float:
        """Return a score, NaN if the model interpolates the labels that are left out."""
        how = self.how
        problem = self.how.problem.at(alpha, task_alpha)
        try:
            if self._pairs is not None:
                return self._pairs.score(problem=problem).score
            if how.folds is None:
                held_out = how.held_out(problem)
            else:
                # One warning for all points follows in the end.
                with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
                    held_out = how.folds.held_out(
                        problem.pairing, numbers=self.diagonal, **self._options
                    )
                self.n_unconverged += not how.folds.converged
        except LeverageError as error:
            self.refusal = error
            return float("nan")
        # The labels that have a prediction are the same for all regularisations.
        if self._prepared is None:
            quiet = self._quiet or self.diagonal is not None
            labels = scored_labels(
                how.problem.labels, held_out, how.setting, quiet=quiet, stacklevel=caller_level()
            )
            labels = tested_labels(labels, how.problem.labels, how.setting, how.units)
            self._prepared = prepared_score(
                how.problem.labels, self._judge, how.setting, labels, folds=self._folds
            )
        return float(self._prepared(held_out))


def score_plan(
    how: Plan,
    scoring: Any,
    alphas: Values,
    task_alphas: Values | None,
    *,
    search: bool = False,
    exhaustive: bool = True,
    method: str | None = None,
    max_memory: int = MAX_MEMORY,
    progress: bool | None = None,
    of: float = 0.0,
) -> Evaluated:
    """Score every regularisation, or run a coarse-to-fine search; no warning is raised for NaN scores.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    alphas, task_alphas : sequences of float
        A model with one regularisation ignores `task_alphas`.
    search : bool, default=False
        Whether the scores are for a search: then an interrupt returns the scores computed so far,
        if `keeping_best` is active, and labels without a prediction raise no warning here.
    exhaustive : bool, default=True
        Whether all points are evaluated, instead of a coarse-to-fine search of long grids whose
        folds are refitted.
    method, max_memory, progress : as in `landscape`
    of : float, default=0
        Number of steps of the enclosing progress line that this work takes.

    Returns
    -------
    Evaluated
        Scores of shape (n_alphas, n_task_alphas), or (n_alphas,) for models that have one
        regularisation.

    Raises
    ------
    LeverageError
        If the model interpolates the labels that are left out at every point.
    """
    judge = scorer(scoring)
    grids = (alphas, _second_values(how.problem, task_alphas))
    bar = Progress(None, f"{'Search' if search else 'Landscape'} {how.setting.value}", progress, of)
    pairs = pairs_of(how, judge, math.prod(map(len, grids)), method)
    if how.swept is not None and (pairs is None or pairs.n_sampled):
        units = {how.setting: how.units}
        sweeping = _GridSweep.of(how.swept, units, judge, how.units.sides, max_memory, bar, pairs)
        scores = sweeping.scores(*grids)[how.setting]
        n_points = scores.size
        if current().heard is not None:
            n_points = int(np.isfinite(scores).sum())
        return Evaluated(scores, n_points, is_rough=False)
    # Labels are missing or weighted: score one regularisation after the other.
    is_coarse = _is_coarse(how, grids, exhaustive)
    score = _PointScore(how, judge, search, is_coarse, pairs)
    bar.total = expected_points(how, *grids, exhaustive=exhaustive)
    if score.diagonal is not None:  # the best point and its neighbours follow in all folds
        bar.total += 1 + 2 * _n_axes(grids)
    last = _scored_point_by_point(score, grids, bar)
    if np.isnan(last.scores).all() and score.refusal.args:
        raise score.refusal
    if score.n_unconverged and not is_coarse:
        _warn_of_unconverged(score, last.n_points)
    has_two = len(how.problem.pairing.alphas) > 1
    return Evaluated(last.scores if has_two else last.scores[:, 0], last.n_points, is_coarse)


def _second_values(problem: Problem, task_alphas: Values | None) -> Values:
    """Return the values of the second regularisation; one without effect if there is none."""
    if task_alphas is None or len(problem.pairing.alphas) == 1:
        return [1.0]
    return task_alphas


class _Pass:
    """Scores of one pass over a grid of regularisations.

    Parameters
    ----------
    score : _PointScore
    grids : (sequence of float, sequence of float)
        Values of both regularisations.
    bar : Progress

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        NaN where a point has no score or was not evaluated.
    n_points : int
        Number of points that were evaluated.
    """

    def __init__(self, score: _PointScore, grids: tuple[Values, Values], bar: Progress) -> None:
        self.scores = np.full((len(grids[0]), len(grids[1])), np.nan)
        self.n_points = 0
        self._score = score
        self._grids = grids
        self._bar = bar

    def run(self, points: Iterable[Point]) -> None:
        """Score some points, until an interrupt."""
        interrupts = current()
        work = partial(_scored_point, self._score, self._grids)
        if self._score.are_independent:
            results = spread(work, points, may_end=True)
        else:
            results = map_here(work, points)
        with closing(results):
            while (one := interrupts.attempt(partial(next, results, None))) is not None:
                row, column, value, refusal = one[1]
                if refusal.args:
                    self._score.refusal = refusal
                self.scores[row, column] = value
                self.n_points += 1
                if np.isfinite(value):
                    interrupts.keep()
                self._bar.advance()


def _scored_point(
    score: _PointScore, grids: tuple[Values, Values], point: Point
) -> tuple[int, int, float, LeverageError]:
    """Return a point, its score, and the last refusal of a score, without arguments if there is none."""
    row, column = point
    value = score(grids[0][row], grids[1][column])
    return row, column, value, score.refusal


def _scored_point_by_point(
    score: _PointScore, grids: tuple[Values, Values], bar: Progress
) -> _Pass:
    """Return the last pass with a score: over all folds, or over those on the diagonal before."""
    first = _Pass(score, grids, bar)
    with bar:
        if score.is_rough:
            first.run(coarse_to_fine(first.scores, *grids))
        else:
            first.run(_all_points(*grids))
        is_last = score.diagonal is None or not np.isfinite(first.scores).any()
        if is_last or current().heard is not None:
            return first
        score.use_all_folds()
        row, column = best_point(first.scores, *grids)
        second = _Pass(score, grids, bar)
        second.run(coarse_to_fine(second.scores, *grids, start=(row, column)))
    # The second pass has no score after an interrupt, or if the model interpolates everywhere.
    return first if np.isnan(second.scores).all() else second


def _warn_of_unconverged(score: _PointScore, n_points: int) -> None:
    """Warn that solutions of some points have not converged."""
    warnings.warn(
        Message(
            "For {n_unconverged} of {count} regularisations {max_iter} conjugate-gradient "
            "iterations did not reach a relative residual of {tol:g}: their scores are "
            "approximate. [Raise max_iter, or leave|Leave] out the smallest regularisations.",
            n_unconverged=score.n_unconverged,
            count=n_points,
            max_iter=score.how.problem.max_iter,
            tol=score.tol,
        ),
        ConvergenceWarning,
        stacklevel=4,
    )


def _is_coarse(how: Plan, grids: tuple[Values, Values], exhaustive: bool) -> bool:
    """Return whether the search is coarse to fine."""
    is_long = max(map(len, grids)) >= _LONG
    return not exhaustive and isinstance(how, SolveAgain) and is_long


def _n_axes(grids: tuple[Values, Values]) -> int:
    """Return the number of regularisations with several values."""
    return sum(len(values) > 1 for values in grids)


def expected_points(
    how: Plan, alphas: Values, task_alphas: Values | None, *, exhaustive: bool
) -> int:
    """Return about how many regularisations a search evaluates."""
    grids = (alphas, _second_values(how.problem, task_alphas))
    n_points = math.prod(map(len, grids))
    if not _is_coarse(how, grids, exhaustive):
        return n_points
    n_first = math.prod(len(_every_fourth(len(values))) for values in grids)
    # Every fourth value, and the neighbours of the best in each step.
    return min(n_first + len(_STEPS) * int(3 ** _n_axes(grids) - 1), n_points)


def landscape(
    model: Any,
    setting: Iterable[str | Setting] = "ABCD",
    *,
    alphas: Iterable[float] | float | None = None,
    task_alphas: Iterable[float] | float | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    average: str | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    method: str | None = None,
    max_memory: int = MAX_MEMORY,
    progress: bool | None = None,
) -> dict[str, np.ndarray]:
    """Score the held-out predictions of a model for every regularisation.

    Hold-out is exact leave-one-out for complete labels and for independent tasks. With missing or
    weighted labels it is also exact, by one inverse for each regularisation, for Kronecker and
    pair-kernel ridge and for single pairs of two-step ridge, unless that costs too much. In all
    other cases the model is refitted without each unit or fold.

    Parameters
    ----------
    model : fitted estimator
        Its spectra and labels are used; its current regularisation is ignored.
    setting : one or several settings, default="ABCD"
        Letters or aliases. For a model without tasks, C and D are skipped.
    alphas, task_alphas : iterables of float, or float, default=None
        Values of the two regularisations; None means those of `dyadlearn.selection.default_alphas`,
        10⁻⁷ to 10⁶ times the mean eigenvalue of the kernel.
    scoring : str or callable, default=None
        Name of a metric (see `dyadlearn.metrics.scorer`), or a function of labels and predictions,
        both of shape (m, q); greater is better. None means the `scoring` of a search, and
        ``"neg_mean_squared_error"`` for other models.
    average : {"pooled", "instance", "task", "fold"}, default=None
        As in `dyadlearn.evaluate`.
    groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
        Groups of instances and of tasks; a group is left out together. None means no groups, also
        for a search that was fitted with groups.
    cv : int, SettingKFold or list of (training rows, test rows), default=None
        Folds to leave out. None means leave-one-out, by a formula or by a few refits, and five
        folds if both cost too much. A `SettingKFold` is for one setting, and a list is for setting
        B.
    method : {"exact", "folds"}, default=None
        "exact" takes a formula whatever it costs, and raises an error if there is none; "folds"
        refits folds.
    max_memory : int, default=2**30
        Approximate memory in bytes for stacks of predictions.
    progress : bool, default=None
        Whether to show a progress line. None shows it on a terminal, and in a log after a few
        seconds.

    Returns
    -------
    dict of str to array
        Scores by setting letter, of shape (n_alphas, n_task_alphas), or (n_alphas,) for models with
        one regularisation. A score is NaN, with a warning that names the values, if a label has
        leverage 1, so that the other labels do not determine its prediction. If this holds for all
        values in a setting, `LeverageError` is raised.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, landscape
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge().fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> scores = landscape(model, "BD", alphas=[0.1, 1], task_alphas=[1])
    >>> {letter: grid.shape for letter, grid in scores.items()}
    {'B': (2, 1), 'D': (2, 1)}
    """
    if isinstance(model, Problem):
        problem = model
        searched = None
    else:
        fitted = as_fitted(model)
        problem = fitted.problem
        searched = fitted.scoring
        groups, task_groups = fitted.in_groups(groups, task_groups)
    if scoring is None:
        scoring = searched or "neg_mean_squared_error"
    wanted = as_settings(setting)
    wanted = [setting for setting in wanted if setting in settings_of(problem.pairing)] or wanted
    rows, columns = grids_of(problem, alphas, task_alphas)
    left_out = LeftOut(groups, task_groups, cv, method)
    judge = scorer(scoring).averaged(average)
    plans = [planned_for(problem, setting, left_out, judge, rows, columns) for setting in wanted]
    if cv is None and _share_products(plans, judge, (groups, task_groups)):
        bar = Progress(None, "Landscape", progress, of=1)
        units = {how.setting: how.units for how in plans}
        sweeping = _GridSweep.of(problem, units, judge, (groups, task_groups), max_memory, bar)
        by_setting = sweeping.scores(rows, _second_values(problem, columns))
        scores = {setting.value: by_setting[setting] for setting in wanted}
    else:
        scores = {}
        options: dict[str, Any] = {"method": method, "max_memory": max_memory}
        with Progress(len(plans), "Landscape", progress, of=1):
            for how in plans:
                evaluated = score_plan(
                    how, judge, rows, columns, progress=progress, of=1, **options
                )
                scores[how.setting.value] = evaluated.scores
    for letter, grid in scores.items():
        warn_of_undefined(grid, (rows, columns), letter, 2)
    return scores


def _share_products(plans: Sequence[Plan], judge: Scorer, groups: Groups) -> bool:
    """Return whether all settings are those of one complete grid, with the groups that were asked for."""
    for how in plans:
        asked = Units.of_groups(how.problem.labels, how.setting, groups)
        if not how.is_of_grid or pairs_of(how, judge) is not None:
            return False
        for wanted, used in zip(asked.sides, how.units.sides, strict=True):
            if not np.array_equal(wanted, used):  # type: ignore[arg-type]
                return False
    return True


def planned(
    problem: Problem, setting: Setting, left_out: LeftOut, judge: Scorer, n_alphas: int = 1
) -> Plan:
    """Return the hold-out plan for all regularisations; raise if the model does not support the setting.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    left_out : LeftOut
    judge : Scorer
    n_alphas : int, default=1
        Number of regularisations.
    """
    pairing = problem.pairing
    used = setting.of_new_sides((left_out.groups, left_out.task_groups))
    check_request(pairing, setting, used)
    if left_out.cv is None:
        check_enough_left(problem.labels, setting, used, knows_tasks=pairing.knows_tasks)
    for filter in (side.filter for side in pairing.smoothers):
        if not filter.uses_alpha():
            raise ValueError(
                f"{filter} does not depend on alpha, so it has no landscape: use another filter."
            )
    return left_out.plan(problem, setting, judge, n_alphas)


def planned_for(
    problem: Problem,
    setting: Setting,
    left_out: LeftOut,
    judge: Scorer,
    alphas: Values,
    task_alphas: Values | None,
) -> Plan:
    """Return the hold-out plan for a grid of regularisations, chosen for the middle of the grid."""
    grids = [sorted(alphas)]
    if task_alphas is not None:
        grids.append(sorted(task_alphas))
    middle = [values[len(values) // 2] for values in grids]
    return planned(problem.at(*middle), setting, left_out, judge, math.prod(map(len, grids)))


@dataclass(frozen=True, eq=False)
class _GridSweep:
    """Scores of many regularisations of a complete grid together, in one or several settings.

    Attributes
    ----------
    problem : Problem
    scorers : dict of Setting to PreparedScorer
    members : (list of integer array or None, list of integer array or None)
        Positions of the members of each group of instances and of tasks.
    per_stack : int
        Number of grids of predictions that are computed together.
    bar : Progress
    pairs : PairsOut or None
        The plan by which a sample of pairs of labels is left out, in setting A.
    """

    problem: Problem
    scorers: Mapping[Setting, PreparedScorer]
    members: tuple[Any, Any]
    per_stack: int
    bar: Progress
    pairs: PairsOut | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        units: Mapping[Setting, Units],
        judge: Scorer,
        groups: Groups,
        max_memory: int,
        bar: Progress,
        pairs: PairsOut | None = None,
    ) -> _GridSweep:
        """Prepare the scores in the settings of some units; this raises where a score is undefined."""
        m, q = problem.Y.shape
        labels = Labels.of_grid(problem.Y)
        scorers = {}
        for setting, left_out in units.items():
            folds = None
            if pairs is None:
                folds = folds_to_compare(labels, judge, setting, left_out, problem.pairing)
            scorers[setting] = prepared_score(labels, judge, setting, folds=folds)
        members = (
            group_members(groups[0], m, "groups"),
            group_members(groups[1], q, "task_groups"),
        )
        per_stack = max(1, int(max_memory // max(1, array_bytes(problem.Y, (4, m, q)))))
        return cls(problem, scorers, members, per_stack, bar, pairs)

    @cached_property
    def of_errors(self) -> dict[Setting, Callable[[np.ndarray], np.ndarray]]:
        """Scores that depend on squared errors only, and may need no predictions."""
        functions = {}
        for setting, score in self.scorers.items():
            if score.of_squared_errors is not None:
                functions[setting] = score.of_squared_errors
        return functions

    def scores(self, alphas: Values, task_alphas: Values) -> dict[Setting, np.ndarray]:
        """Return the scores in each setting, NaN where the model interpolates or after an interrupt."""
        settings = list(self.scorers)
        whole = self._sweep(alphas, task_alphas)
        by_predictions = [setting for setting in settings if setting not in self.of_errors]
        if self.of_errors:
            whole.check_memory(list(self.of_errors), self.per_stack, squared=True)
        if by_predictions:
            whole.check_memory(by_predictions, self.per_stack, squared=False)
        self.bar.total = len(alphas) * len(task_alphas) * len(settings)
        with self.bar:
            try:
                scores = self._scored(settings, alphas, task_alphas)
            except LeverageError:  # perhaps in one setting and for some values only
                scores = {
                    setting: where_defined(partial(self._scored_in, setting), alphas, task_alphas)
                    for setting in settings
                }
        if len(self.problem.pairing.alphas) > 1:
            return scores
        return {setting: grid[:, 0] for setting, grid in scores.items()}

    def _sweep(self, alphas: Values, task_alphas: Values) -> Sweep:
        problem = self.problem
        in_unit = problem.in_unit(alphas)
        return sweep(problem.pairing, problem.Y, in_unit, task_alphas, *self.members)

    def _scored_in(self, setting: Setting, alphas: Values, task_alphas: Values) -> np.ndarray:
        """Return the scores in one setting."""
        return self._scored([setting], alphas, task_alphas)[setting]

    def _scored(
        self, settings: Sequence[Setting], alphas: Values, task_alphas: Values
    ) -> dict[Setting, np.ndarray]:
        """Return the scores in some settings: by squared errors alone where these suffice and are quick."""
        interrupts = current()
        swept = self._sweep(alphas, task_alphas)
        asked = [setting for setting in settings if setting in self.of_errors]
        errors = interrupts.attempt(partial(swept.squared_errors, asked, self.per_stack)) or {}
        scores = {setting: self.of_errors[setting](squares) for setting, squares in errors.items()}
        _keep_if_scored(scores)
        shape = (len(alphas), len(task_alphas))
        self.bar.advance(math.prod(shape) * len(scores))
        left = [setting for setting in settings if setting not in scores]
        scores |= {setting: np.full(shape, np.nan) for setting in left}
        stacks = swept.walk(left, self.per_stack)
        models = None
        if self.pairs is not None:
            models = _Models(self.problem, alphas, task_alphas)
        while interrupts.attempt(partial(self._score_next, stacks, scores, models)):
            _keep_if_scored(scores)
        return scores

    def _score_next(
        self, stacks: Iterator[Stack], scores: Mapping[Setting, np.ndarray], models: _Models | None
    ) -> bool:
        """Score the next stack of predictions; return False if there is none."""
        entry = next(stacks, None)
        if entry is None:
            return False
        rows, columns, setting, stack = entry
        of_stack = to_numpy(self.scorers[setting](stack))
        if self.pairs is not None and models is not None:
            gains = []
            for place, problem in enumerate(models.of(rows, columns)):
                gains.append(self.pairs.gain(stack[place, ...], problem))
            of_stack = np.clip(of_stack + gains, 0.0, 1.0)
        scores[setting][rows, columns] = of_stack
        self.bar.advance(stack.shape[0])
        return True


class _Models:
    """Problems of a grid of regularisations, which share the smoothers of their sides.

    Those of the tasks are kept for all rows of the grid if their hat matrices take little memory.
    """

    def __init__(self, problem: Problem, alphas: Values, task_alphas: Values) -> None:
        self._last = [problem] * len(alphas)
        self._alphas = alphas
        self._task_alphas = task_alphas
        q = problem.labels.shape[1]
        n_bytes = array_bytes(problem.Y, (len(task_alphas), q, q))
        self._keeps_columns = isinstance(problem.pairing, TwoStep) and n_bytes <= _KEPT_BYTES
        self._columns: dict[int, Smoother] = {}

    def of(self, rows: slice | int, columns: slice | int) -> list[Problem]:
        """Return the problems of some regularisations of one stack."""
        problems = []
        for row in np.atleast_1d(np.arange(len(self._alphas))[rows]):
            for column in np.atleast_1d(np.arange(len(self._task_alphas))[columns]):
                self._last[row] = self._at(int(row), int(column))
                problems.append(self._last[row])
        return problems

    def _at(self, row: int, column: int) -> Problem:
        """Return the problem of one regularisation, with the smoother of the instances of the last one of its row."""
        problem = self._last[row].at(self._alphas[row], self._task_alphas[column])
        if not self._keeps_columns:
            return problem
        assert isinstance(problem.pairing, TwoStep)
        kept = self._columns.setdefault(column, problem.pairing.columns)
        return replace(problem, pairing=replace(problem.pairing, columns=kept))


def _keep_if_scored(scores: Mapping[Setting, np.ndarray]) -> None:
    """Keep the result of a search from now on, if a point has a score."""
    if any(np.isfinite(grid).any() for grid in scores.values()):
        current().keep()

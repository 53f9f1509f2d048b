r"""The one place that decides how to hold out: `plan` for problems, and `plan_fits` for estimators to fit again.

=============  ===================================================================================
outcome        when
=============  ===================================================================================
`Formula`      one fit gives all held-out predictions: of complete labels, where whole rows and
               columns are missing, for independent tasks, and from an inverse over the observed or
               the missing pairs, if that is affordable
`SolveAgain`   the labels of each fold are hidden, and the model is solved again
`FitAgain`     kernels or features depend on the labels, and the estimator is fitted again for each
               fold
=============  ===================================================================================

A plan describes its method, its reason and its cost in time and memory before anything is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dyadlearn._array import Array, as_array_of, is_on_gpu, namespace, placed
from dyadlearn._checks import check_choice
from dyadlearn._memory import check_memory, fits_in_memory, in_bytes
from dyadlearn._messages import Message
from dyadlearn._parallel import collected
from dyadlearn._progress import Phase, Progress
from dyadlearn._rounding import warn_of_rounding
from dyadlearn._text import in_time
from dyadlearn._threads import seconds_of
from dyadlearn._work import DECOMPOSED, products
from dyadlearn.exceptions import NothingLeftError
from dyadlearn.holdout.folds import (
    Fold,
    Folds,
    as_splitter,
    default_splitter,
    folds_in_words,
    folds_of,
)
from dyadlearn.holdout.splitters import GivenFolds, SettingKFold
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.holdout.unlabelled import Unlabelled
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.pairing import full, incomplete
from dyadlearn.pairing.base import Pairing, check_request, knows_new_pairs, operators_of
from dyadlearn.pairing.inverses import Route, bytes_of, inverse_of, routes
from dyadlearn.pairing.remembering import last_inverse
from dyadlearn.settings import Groups, Setting, as_setting
from dyadlearn.solve.crossing import crosses_all
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.leaving import group_members, largest_group
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.solve.operators import embedded

#: Methods of hold-out that can be asked for.
METHODS = ("exact", "folds")
# Most multiplications of an exact hold-out: for one regularisation, about a minute of two cores,
# and for a search.
_MOST_WORK = 2e12
_MOST_WORK_OF_SEARCH = 1e13
# The same on an accelerator, relative to two cores.
_FASTER = 50.0
# Multiplications that take as long as the smallest solve of a fold, for estimates of time. In the
# choice of leave-one-out by refits, a refit counts as more, and all may take so much.
_SMALL_SOLVE = 1e8
_LEAST_SOLVE = 1e9
_MOST_REFITS = 5e10
# Iterations of a solve, for estimates of time.
_ITERATIONS = 50
# Time of many small products and decompositions, relative to one product of large matrices with as
# much work.
_OF_MANY = 3.0


def holdout(
    problem: Problem,
    setting: str | Setting,
    *,
    groups: Any = None,
    task_groups: Any = None,
    cells: Any = None,
) -> Array:
    """Return the hold-out prediction of every label: that of a model which was trained without it.

    Parameters
    ----------
    problem : Problem
    setting : str or Setting
        What is left out: the pair (A), the instance (B), the task (C) or both (D).
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Groups of instances and of tasks that are left out together, in the settings that leave out
        instances or tasks.
    cells : array-like of the shape of the labels' values, default=None
        Fold of each label in setting A; None means leave-one-out.

    Returns
    -------
    array of the shape of the labels' values

    Raises
    ------
    LeverageError
        If a pair, instance or task has leverage 1: the model fits its labels exactly, whatever they
        are.
    ValueError
        If a fold leaves no label to learn from, or if the setting does not use the groups.
    """
    setting = as_setting(setting)
    check_request(problem.pairing, setting, (groups, task_groups), cells)
    units = Units.of_groups(problem.labels, setting, (groups, task_groups), cells)
    return leave_out(problem, setting, units)


def leave_out(problem: Problem, setting: Setting, units: Units) -> Array:
    """Return the hold-out predictions of units: by a formula where one is known, else by solving again.

    Pairs of a grid without a label are predicted by the model without their unit too, as far as
    that is affordable.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    units : Units

    Returns
    -------
    array of the shape of the labels' values
    """
    how = plan_units(problem, setting, units)
    return how.held_out(everywhere=True)


@dataclass(frozen=True)
class Cost:
    """Estimated cost of a hold-out.

    Attributes
    ----------
    work : float
        Number of multiplications.
    memory : float
        Number of bytes.
    once : float, default=0
        Part of the work that all regularisations share.
    """

    work: float
    memory: float
    once: float = 0.0

    def times(self, n_alphas: int) -> Cost:
        """Return the cost for several regularisations."""
        return replace(self, work=self.once + n_alphas * (self.work - self.once))

    @property
    def seconds(self) -> float:
        """Estimated time of this machine."""
        return seconds_of(self.work)

    def __str__(self) -> str:
        return f"about {in_time(self.seconds)} and {in_bytes(self.memory)}"


@dataclass(frozen=True, eq=False)
class Formula:
    """Plan to compute hold-out predictions from one fit.

    Attributes
    ----------
    problem : Problem
    setting : Setting
    method : str
        Description of the method, short enough for a column of a table.
    units : Units
        Pairs, instances or tasks that are left out together.
    way : str or Route
        Formula: "grid", "labelled", "model", "folds of cells", "zero", or an inverse over observed
        or missing pairs.
    """

    problem: Problem
    setting: Setting
    method: str
    units: Units
    way: str | Route
    # What hold-outs of other regularisations share.
    cache: dict[str, Any] = field(default_factory=dict, repr=False)

    #: A formula solves the model for no fold.
    n_solves: ClassVar[int] = 0
    folds: ClassVar[None] = None
    #: A formula leaves out what was asked for.
    is_asked: ClassVar[bool] = True

    @property
    def reason(self) -> str:
        """Why the method was chosen."""
        if isinstance(self.way, Route):
            return self.way.words
        return {
            "grid": "closed form of a complete grid",
            "labelled": "closed form of the rows and columns with labels",
            "model": "closed form of the model",
            "folds of cells": "completion of each fold from the other cells",
            "zero": "new pairs of a model without a product, which are zero",
        }[self.way]

    @property
    def cost(self) -> Cost:
        """Estimated cost for one regularisation."""
        labels = self.problem.labels
        if isinstance(self.way, Route):
            return Cost(self.way.work, bytes_of(self.way, labels))
        m, q = labels.shape
        if self.way == "zero":
            return Cost(float(labels.observed.size), 8.0 * labels.observed.size)
        memory = products((32, m, q))
        work = products((4, m, q, m), (4, m, q, q))
        if self.way == "folds of cells":
            assert self.units.cells is not None
            return Cost(work * _ITERATIONS * np.unique(self.units.cells).size, memory)
        if self.setting is not Setting.D or self.problem.pairing.smoothers:
            return Cost(work, memory)
        # The kernel of one side is decomposed without each of its units, and the labels are solved
        # for.
        counts = [
            np.unique(codes).size for _, codes in self.units.of_sides(labels.shape, self.setting)
        ]
        size, other = (m, q) if counts[0] <= counts[1] else (q, m)
        times = _OF_MANY * min(counts)
        once = products((times, DECOMPOSED, size, size, size), (times, size, other, size))
        return Cost(once + products((2, times, other, other, size)), memory, once)

    @property
    def explanation(self) -> str:
        """Method and reason in one line."""
        return f"{self.method} by {self.reason}"

    @property
    def words(self) -> str:
        """Method, reason and cost in one line."""
        return f"{self.explanation} ({self.cost})"

    @property
    def is_of_grid(self) -> bool:
        """Whether one decomposition of a complete grid serves all regularisations and all labels."""
        return self.way == "grid"

    @property
    def shares_nothing(self) -> bool:
        """Whether hold-outs of several regularisations share no work."""
        return isinstance(self.way, Route) and self.way.name != "spectrum"

    @property
    def swept(self) -> Problem | None:
        """Problem on a full grid with the same scores, so that a search over alphas is cheap; None if there is none."""
        if self.is_of_grid:
            return self.problem
        if self.way == "labelled" and self.problem.pairing.knows_tasks:
            return labelled_part(self.problem)[0]
        return None

    def inverted(self) -> Inverted:
        """Return the hold-out of the observed labels, where the formula is an inverse."""
        assert isinstance(self.way, Route)
        return _inverted(self.problem, self.setting, self.units, self.way, self.cache)

    def held_out(self, problem: Problem | None = None, *, everywhere: bool = False) -> Array:
        """Return the predictions, of the shape of the labels' values.

        Parameters
        ----------
        problem : Problem, default=None
            The same problem with another regularisation; None is the problem of the plan.
        everywhere : bool, default=False
            Whether pairs of a grid without a label are predicted too; otherwise they are NaN, or
            any number.
        """
        if problem is None:
            problem = self.problem
        if isinstance(self.way, Route):
            return _by_inverse(problem, self.setting, self.units, self.way, self.cache, everywhere)
        if self.way == "grid":
            return _on_full_grid(problem, self.setting, self.units)
        if self.way == "labelled":
            return _beside_unlabelled(problem, self.setting)
        if self.way == "folds of cells":
            assert self.units.cells is not None
            return _leave_cells_out(problem, self.units.cells)
        if self.setting is not Setting.A and _leaves_nothing(
            _codes_of_labels(problem, self.setting, self.units)
        ):
            raise nothing_left()
        if self.way == "zero":
            return namespace(problem.labels.values).zeros_like(problem.labels.values)
        return incomplete.leave_one_out(
            problem.pairing, problem.labels, self.setting, lambda: problem.complete().labels
        )


@dataclass(frozen=True, eq=False)
class SolveAgain:
    """Plan to hide the labels of each fold and to solve the model again; labels in no fold are predicted as NaN.

    Attributes
    ----------
    problem, setting, method, units : as in `Formula`
    reason : str
        Why there is no formula.
    is_asked : bool, default=True
        Whether the units are what was asked for, and not five folds instead of them.
    """

    problem: Problem
    setting: Setting
    method: str
    units: Units
    reason: str = "no affordable formula"
    is_asked: bool = True

    #: No full problem has the same scores.
    swept: ClassVar[None] = None
    is_of_grid: ClassVar[bool] = False
    #: Each solution is the start of the next one.
    shares_nothing: ClassVar[bool] = False

    @cached_property
    def folds(self) -> Folds:
        """The folds; the solution of each fold is the start of its next solve."""
        return Folds(self.problem, self.setting, self.units)

    @cached_property
    def n_solves(self) -> int:
        """Number of folds."""
        return math.prod(
            np.unique(codes).size
            for codes in self.units.of_labels(self.problem.labels, self.setting)
        )

    @property
    def cost(self) -> Cost:
        """Estimated cost for one regularisation."""
        return _refit_cost(self.problem, self.n_solves, least=_SMALL_SOLVE)

    @property
    def explanation(self) -> str:
        """Method and reason in one line."""
        return f"{self.method}: {self.reason}"

    @property
    def words(self) -> str:
        """Method, reason and cost in one line."""
        return f"{self.explanation} ({self.cost})"

    def held_out(self, problem: Problem | None = None, *, everywhere: bool = True) -> Array:
        """Return the predictions, as `Formula.held_out` describes."""
        with Phase("Hold-out folds", self.n_solves, of=1) as bar:
            return self.folds.held_out(
                None if problem is None else problem.pairing, watch=bar.advance
            )


def _line(n_folds: int) -> Progress:
    """Return the line of progress of some folds, inside that of a command or an evaluation."""
    return Phase("Hold-out folds", n_folds, of=1)


@dataclass(frozen=True, eq=False)
class FitAgain:
    """Plan to fit an estimator again without each fold, where its kernels or features depend on the labels.

    Attributes
    ----------
    labels : Labels
    setting, method, units : as in `Formula`
    folds : list of Fold
    predict : callable
        Function that fits without a fold, and returns the predictions of its test labels, or for
        `results` anything. It is called in other processes if joblib has a backend.
    line : callable
        Function of the number of folds that returns the line of progress.
    reason : str
        Why the estimator is fitted again.
    """

    labels: Labels
    setting: Setting
    method: str
    units: Units
    folds: list[Fold]
    predict: Callable[[Fold], Any]
    line: Callable[[int], Progress] = _line
    reason: str = "the model has no closed form, or its kernels depend on the labels"

    #: No full problem has the same scores.
    swept: ClassVar[None] = None

    @property
    def n_solves(self) -> int:
        """Number of fits."""
        return len(self.folds)

    @property
    def explanation(self) -> str:
        """Method and reason in one line."""
        return f"{self.method}: {self.reason}"

    @property
    def words(self) -> str:
        """Method, reason and cost in one line; the time of a fit is not known."""
        return f"{self.explanation} (the time of {self.n_solves} fits)"

    def held_out(self) -> Array:
        """Return the predictions, of the shape of the labels' values; NaN for labels in no fold."""
        return self.placed(self.results())

    def results(self) -> list[Any]:
        """Return what `predict` returns for each fold."""
        with self.line(len(self.folds)) as bar:
            return collected(self.predict, self.folds, bar.advance)

    def placed(self, predictions: list[Array]) -> Array:
        """Return the predictions of all folds, of the shape of the labels' values; NaN for labels in no fold."""
        flat = placed(predictions, [fold.test for fold in self.folds], self.labels.observed.size)
        return namespace(flat).reshape(flat, tuple(self.labels.values.shape))


# Type of the plans of a problem, for annotations.
Plan = Formula | SolveAgain


def plan(
    problem: Problem,
    setting: Setting,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    *,
    method: str | None = None,
    n_alphas: int = 1,
    exact: bool = False,
) -> Plan:
    """Choose the method of computing hold-out predictions.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Group of each instance and of each task, left out together; ignored in settings that leave
        out none of them.
    cv : int, SettingKFold or list of folds, default=None
        Folds; None means one unit at a time where there is an affordable formula or few refits,
        else five folds.
    method : {"exact", "folds"}, default=None
        Method to use whatever it costs: a formula, or folds that are solved again.
    n_alphas : int, default=1
        Number of regularisations that will be held out.
    exact : bool, default=False
        Whether complete labels are left out one unit at a time, and `cv` is for missing and
        weighted labels only.

    Returns
    -------
    Formula or SolveAgain
    """
    check_method(method)
    labels = problem.labels
    if exact and labels.is_full:
        cv = None
    together = Units.of_groups(labels, setting, (groups, task_groups))
    units = together
    splitter = None
    words = "leave-one-out" if together.are_single else "leave-group-out"
    if cv is not None:
        splitter = as_splitter(cv, setting)
        units = _folds(problem, setting, splitter, together)
        check_request(problem.pairing, setting, units.sides)
        merged = folds_in_words(splitter, setting, together)
        words = f"{merged}, exact" if "groups" in merged else "exact leave-fold-out"
    if method == "folds":
        way = None
    else:
        way = _way(problem, setting, units, n_alphas, is_forced=method == "exact")
    if way is not None:
        return Formula(problem, setting, words if cv is not None else f"exact {words}", units, way)
    if method == "exact":
        raise _no_formula(problem, setting)
    if cv is None and _are_few_refits(problem, setting, units, n_alphas) and method is None:
        refits = _together(problem, setting, units)
        return SolveAgain(problem, setting, f"{words}, refitted", refits, _reason(problem, setting))
    if splitter is None:
        splitter = default_splitter(labels, setting, together)
        units = _folds(problem, setting, splitter, together)
    words = folds_in_words(splitter, setting, together)
    if units.cells is not None and units.cells.size < math.prod(labels.shape):
        # These are other folds than those of a grid, whose missing pairs are in folds too.
        words += " of pairs"
    reason = "folds were asked for" if method == "folds" else _reason(problem, setting)
    return SolveAgain(
        problem, setting, f"{words}, refitted", units, reason, is_asked=cv is not None
    )


def check_method(method: Any) -> None:
    """Raise if a method of hold-out is not None, "exact" or "folds"."""
    if method is not None:
        check_choice(method, "method", METHODS)


def plan_fits(
    labels: Labels,
    setting: Setting,
    together: Units,
    cv: Any = None,
    *,
    predict: Callable[[Fold], Any],
    method: str = "{n} folds, fitted again",
    line: Callable[[int], Progress] = _line,
) -> FitAgain:
    """Choose the folds of an estimator that has no formula, and must be fitted again without each of them.

    Parameters
    ----------
    labels : Labels
    setting : Setting
    together : Units
        What is left out together.
    cv : int, SettingKFold or list of folds, default=None
        Folds. None means one fold for each unit of `together`, and five folds of each side without
        units.
    predict, line : callable
        As in `FitAgain`.
    method : str, default="{n} folds, fitted again"
        Description, in which ``{n}`` stands for the number of folds.

    Returns
    -------
    FitAgain
    """
    units = together
    if cv is not None:
        units = as_splitter(cv, setting).units(
            labels, groups=together.sides[0], task_groups=together.sides[1]
        )
    elif together.are_single:
        units = default_splitter(labels, setting).units(labels)
    else:
        sides = list(together.sides)
        for axis in setting.new:
            if sides[axis] is None:
                splitter = default_splitter(labels, Setting.of([axis]))
                sides[axis] = splitter.units(labels).sides[axis]
        units = replace(together, sides=tuple(sides))
    folds = folds_of(labels, setting, units)
    return FitAgain(labels, setting, method.format(n=len(folds)), units, folds, predict, line)


def _folds(
    problem: Problem, setting: Setting, splitter: SettingKFold | GivenFolds, together: Units
) -> Units:
    """Return the folds of a splitter; in a network, both directions of an edge are in one fold."""
    groups, task_groups = together.sides
    units = splitter.units(problem.labels, groups=groups, task_groups=task_groups)
    return _together(problem, setting, units)


def plan_units(problem: Problem, setting: Setting, units: Units) -> Plan:
    """Return the plan that leaves out exactly these units: a formula if there is one, else a refit for each unit."""
    way = _way(problem, setting, units, 1)
    if way is not None:
        return Formula(problem, setting, "exact", units, way)
    refits = _together(problem, setting, units)
    return SolveAgain(problem, setting, "refitted", refits, _reason(problem, setting))


def _together(problem: Problem, setting: Setting, units: Units) -> Units:
    """Return what is left out together: in a network, both directions of an edge are one unit."""
    if problem.pairing.symmetry:
        return units.of_edges(problem.labels, setting)
    return units


def _way(
    problem: Problem, setting: Setting, units: Units, n_alphas: int, *, is_forced: bool = False
) -> str | Route | None:
    """Return the formula for some units; None without one that is affordable."""
    pairing = problem.pairing
    labels = problem.labels
    if labels.is_full and units.cells is None:
        return "grid"
    if units.are_single and labelled_part(problem)[0] is not None:
        return "labelled"
    if units.are_single and incomplete.has_formula(pairing, labels, setting):
        return "model"
    if setting is Setting.D and not knows_new_pairs(pairing):
        return "zero"
    codes = _codes_of_labels(problem, setting, units)
    offered = []
    for route in routes(pairing, labels, setting, codes, n_alphas):
        is_cheap = is_forced or is_affordable(route.work, labels, n_alphas)
        if is_cheap and fits_in_memory(bytes_of(route, labels), labels.values):
            offered.append(route)
    if offered:
        return min(offered, key=lambda route: route.work)
    return "folds of cells" if labels.is_full else None


def most_work(labels: Labels) -> float:
    """Return the most multiplications of an exact hold-out for one regularisation: about a minute of computing."""
    return _factor(labels) * _MOST_WORK


def _factor(labels: Labels) -> float:
    """Return the speed of the device of the labels, relative to two cores."""
    return _FASTER if is_on_gpu(labels.values) else 1.0


def is_affordable(
    work: float, labels: Labels, n_alphas: int = 1, *, on_processor: float = 0.0
) -> bool:
    """Return whether an exact hold-out takes few enough multiplications for each of n regularisations.

    Those `on_processor` are done there, wherever the labels are.
    """
    equivalent = work / _factor(labels) + on_processor
    return equivalent <= _MOST_WORK and equivalent * n_alphas <= _MOST_WORK_OF_SEARCH


def _codes_of_labels(problem: Problem, setting: Setting, units: Units) -> list[np.ndarray]:
    """Return the unit of each observed label; in setting D, of its instance and of its task."""
    labels = problem.labels
    used = _together(problem, setting, units)
    return [codes[labels.observed] for codes in used.of_labels(labels, setting)]


def _are_few_refits(problem: Problem, setting: Setting, units: Units, n_alphas: int) -> bool:
    """Return whether each unit can be left out by a refit in a few seconds."""
    n_units = math.prod(
        np.unique(codes).size for codes in _codes_of_labels(problem, setting, units)
    )
    return n_alphas * _refit_cost(problem, n_units, least=_LEAST_SOLVE).work <= _MOST_REFITS


def _refit_cost(problem: Problem, n_solves: int, *, least: float) -> Cost:
    """Return the estimated cost of solving the model so often; `least` is the work of the smallest solve."""
    labels = problem.labels
    m, q = labels.shape
    iterations = _ITERATIONS * labels.product_work(problem.pairing.ranks)
    of_one = max(least, iterations + products((m, m, m), (q, q, q)))
    return Cost(n_solves * of_one, 16.0 * (n_solves + 5) * labels.observed.size)


def _reason(problem: Problem, setting: Setting) -> str:
    """Return why labels are solved for again."""
    labels = problem.labels
    lack = "weighted" if labels.size == math.prod(labels.shape) else "missing"
    if problem.pairing.knows_tasks and incomplete.rows_leave_kernels(problem.pairing, setting):
        return f"{problem.pairing.words} has no formula for setting {setting.value} where labels are {lack}"
    return f"a formula for {labels.size:,} labels, some of them {lack}, would cost too much"


def _no_formula(problem: Problem, setting: Setting) -> ValueError:
    return ValueError(
        Message(
            'Setting {setting} has no exact hold-out here: {reason}. Use <method="folds">, or no '
            "method.",
            setting=setting.value,
            reason=_reason(problem, setting),
        )
    )


# Formulas ------------------------------------------------------------------------------------------------


def _on_full_grid(problem: Problem, setting: Setting, units: Units) -> Array:
    """Return hold-out predictions of a complete grid."""
    Y = problem.Y
    members = group_members(units.sides[0], Y.shape[0], "groups")
    task_members = group_members(units.sides[1], Y.shape[1], "task_groups")
    full.check_memory(
        problem.pairing, Y, setting, largest_group=largest_group(members, task_members)
    )
    if any(np.all(codes == codes[0]) for _, codes in units.of_sides(problem.labels.shape, setting)):
        raise nothing_left()
    held_out = full.hold_out(problem.pairing, Y, setting, members, task_members)
    if units.are_single:
        _warn_of_leverage(problem.pairing, setting)
    return problem.labels.of(held_out)


def _warn_of_leverage(pairing: Pairing, setting: Setting) -> None:
    """Warn if rows that are left out one by one are so close to leverage 1 that rounding changes their predictions."""
    settings = ("BD", "CD") if pairing.knows_tasks else ("AB",)
    sides = zip(pairing.smoothers, settings, strict=False)
    # With a regularisation for each task, the smoother has none.
    errors = [
        side.rounding_of_left_out()
        for side, letters in sides
        if setting.value in letters and not math.isnan(side.alpha)
    ]
    warn_of_rounding(max(errors, default=0.0))


def _leave_cells_out(problem: Problem, codes: np.ndarray) -> Array:
    """Return the prediction of each cell of a full grid by the model trained without the cells of its fold."""
    Y = problem.Y
    xp = namespace(Y)
    if (codes == codes.flat[0]).all():
        raise nothing_left()
    codes = codes.reshape(Y.shape)
    held_out = xp.zeros_like(Y)
    missing = xp.full_like(Y, float("nan"))
    for fold in np.unique(codes):
        inside = as_array_of(codes == fold, Y)
        held_out = xp.where(
            inside, full.leave_cells_out(problem.pairing, xp.where(inside, missing, Y)), held_out
        )
    return problem.labels.of(held_out)


def labelled_part(problem: Problem) -> tuple[Problem | None, np.ndarray, np.ndarray]:
    """Return the problem of the rows and columns that have labels, and their positions.

    The problem is None if unlabelled rows or columns influence the model, or if labels are missing
    in labelled ones.
    """
    labels = problem.labels
    rows, columns = (labels.labelled(axis) for axis in (0, 1))
    pairing = None
    if labels.weights is None and labels.size == rows.size * columns.size:
        pairing = incomplete.without_unlabelled(problem.pairing, rows, columns)
    if pairing is None:
        return None, rows, columns
    part = replace(problem, pairing=pairing, labels=labels.part(rows, columns))
    return part, rows, columns


def _beside_unlabelled(problem: Problem, setting: Setting) -> Array:
    """Return leave-one-out predictions of labels that only lack whole rows and columns."""
    part, *places = labelled_part(problem)
    assert part is not None
    held_out = leave_out(part, setting, Units())
    if not problem.labels.has_missing:
        return held_out
    grid = embedded(problem.complete().labels, held_out, *places)
    for block in incomplete.hold_out_unlabelled(
        part.pairing, problem.pairing, part.Y, setting, *places
    ):
        grid = embedded(grid, *block)
    return grid


class Inverted(NamedTuple):
    """Hold-out of observed labels from one inverse.

    Attributes
    ----------
    inverse : Inverse
    centred : array of shape (n,)
        Observed labels minus the shift.
    held_out : array of shape (n,)
        Their held-out predictions, minus the shift.
    shift : float
        Mean of the labels if the model has a free mean, else 0.
    everywhere : array of shape (m, q) or None
        The predictions of all cells, those without a label too, if they are known.
    """

    inverse: Inverse
    centred: Array
    held_out: Array
    shift: float
    everywhere: Array | None = None


def _inverted(
    problem: Problem, setting: Setting, units: Units, route: Route, cache: dict[str, Any]
) -> Inverted:
    """Return the hold-out of the observed labels from one inverse over observed or missing pairs."""
    labels = problem.labels
    listed = labels.listed()
    check_memory(
        bytes_of(route, labels),
        labels.values,
        f"Holding out setting {setting.value} by the {route.words}",
    )
    codes = _codes_of_labels(problem, setting, units)
    has_mean = operators_of(problem.pairing).free_mean
    # Without a mean, a model without labels predicts zero for a single pair.
    is_single = setting is Setting.A and labels.size == 1 and not has_mean
    if not is_single and _leaves_nothing(codes):
        raise nothing_left()
    if has_mean and len(codes) == 2 and crosses_all(*codes):
        raise nothing_left()
    need = bytes_of(route, labels)
    compute = partial(inverse_of, problem.pairing, labels, route.name, cache)
    inverse = last_inverse.of(problem, route.name, compute, need, labels.values)
    warn_of_rounding(inverse.rounding)
    # With a free mean, predictions shift with the labels. Centring avoids rounding of labels far
    # from zero.
    shift = operators_of(problem.pairing).shift_of(listed.values)
    y = listed.values - shift
    everywhere = None
    if isinstance(inverse, MissingInverse):
        everywhere = inverse.grid_left_out(y[:, None], *codes)
    if everywhere is None:
        if len(codes) == 2:
            leave = inverse.leave_crossed_out
        else:
            leave = inverse.leave_out
        return Inverted(inverse, y, leave(y[:, None], *codes)[:, 0], shift)
    return Inverted(inverse, y, inverse.at_labels(everywhere)[:, 0], shift, everywhere[:, :, 0])


def _leaves_nothing(codes: list[np.ndarray]) -> bool:
    """Return whether all labels are in one unit of a side, given the unit of each label."""
    return any((of_side == of_side[0]).all() for of_side in codes)


def _by_inverse(
    problem: Problem,
    setting: Setting,
    units: Units,
    route: Route,
    cache: dict[str, Any],
    everywhere: bool,
) -> Array:
    """Return hold-out predictions from one inverse, of the shape of the labels' values."""
    labels = problem.labels
    inverted = _inverted(problem, setting, units, route, cache)
    # Pairs without a label may be in larger units than the labels: a group may have a row without
    # labels.
    if inverted.everywhere is not None and units.are_single:
        return labels.of(inverted.everywhere) + inverted.shift
    predictions = labels.shaped(inverted.held_out) + inverted.shift
    if not everywhere or not labels.has_missing:
        return predictions
    unlabelled = Unlabelled(
        operators_of(problem.pairing), labels, inverted.inverse, inverted.centred
    )
    if setting is Setting.A and units.cells is None:
        fitted = unlabelled.fitted()
        if fitted is None:
            elsewhere = problem.complete().labels
        else:
            elsewhere = fitted + inverted.shift
    else:
        codes = _together(problem, setting, units).of_labels(labels, setting)
        elsewhere = unlabelled.predict(inverted.held_out, codes) + inverted.shift
    observed = as_array_of(labels.observed, predictions)
    return namespace(predictions).where(observed, predictions, elsewhere)


def check_enough_left(
    labels: Labels, setting: Setting, groups: Groups, *, knows_tasks: bool
) -> None:
    """Raise if no label is left to learn from when a search leaves out one unit.

    Parameters
    ----------
    labels : Labels
    setting : Setting
    groups : tuple of array-likes of shape (m,) and (q,), or None
        Group of each instance and of each task, left out together; None means one at a time.
    knows_tasks : bool
        False for independent tasks.
    """
    # Where tasks are independent, leaving out a pair equals leaving out its instance.
    leaves = setting
    if setting is Setting.A and not knows_tasks:
        leaves = Setting.B
    units = Units.of_groups(labels, leaves, groups)
    if leaves is Setting.A and labels.size < 2:
        too_few = [("each pair", "1 sample and 1 task with a label")]
    else:
        too_few = []
    for axis, codes in units.of_sides(labels.shape, leaves):
        if not labels.is_full:
            codes = codes[labels.places[axis]]
        if (codes == codes[0]).all():
            word = ("instance", "task")[axis]
            if units.sides[axis] is None:
                too_few.append((f"each {word}", f"1 {('sample', 'task')[axis]} with labels"))
            else:
                too_few.append((f"a group of {word}s", f"1 group of {word}s with labels"))
    if too_few:
        left_out, counted = too_few[0]
        raise NothingLeftError(
            f"Setting {setting.value} leaves out {left_out} and learns from the others, but there "
            f"is only {counted}: "
            "give more, or fix alpha without a search."
        )

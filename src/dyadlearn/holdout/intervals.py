r"""Prediction intervals from hold-out residuals of the same setting as the pair to predict.

New instances (B) and new tasks (C) have jackknife+ intervals (Barber, Candès, Ramdas and
Tibshirani, 2021): with
:math:`f_{-i}` the model without row i and :math:`r_i` its residual there, a bound is an order statistic of

.. math:: f_{-i}(x) \pm \frac{|r_i|}{w_{-i}(x_i)}\,w_{-i}(x),

over the training rows i, for each task separately. The local width :math:`w_{-i}` is a function of
the features of the rows other than i, see `dyadlearn.pairing.certainty`; only the median by which
it is scaled is that of all training rows. If rows are exchangeable and the regularisation was not
chosen on them, the intervals contain labels of new rows with a probability of at least :math:`1 -
2\alpha`, and in practice of about :math:`1 - \alpha`. Where labels are missing, the probability is
that of labels which would have been observed. Where they are missing or weighted and the models
without each row would cost too much, each model is trained without a fold (CV+), see
`dyadlearn.holdout.jackknife`.

New pairs of known instances and tasks (A), pairs that are new on both sides (D) and pairs in a
network have calibrated intervals :math:`f \pm Q\,w`, with Q an order statistic of all :math:`|r|/w`
of that setting, without those of pairs whose instance or task has no other label: these are new
when they are held out. They need pairs that are missing completely at random (A), exchangeable
instances and exchangeable tasks (D), or exchangeable nodes. Since f was fitted to all labels and
each r belongs to a model without some of them, the coverage is approximate, not guaranteed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from scipy import sparse

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    copied,
    namespace,
    order_statistic,
    row_major,
    take_rows,
    to_numpy,
    with_diagonal,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn.exceptions import NothingLeftError
from dyadlearn.holdout import plan
from dyadlearn.holdout.actual import of_setting
from dyadlearn.holdout.jackknife import has_formula, jackknife_of
from dyadlearn.holdout.units import Problem, Units
from dyadlearn.labels import Labels
from dyadlearn.leverage import nothing_left
from dyadlearn.pairing.base import side_ridges
from dyadlearn.pairing.certainty import Jackknife, Novelty
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.full import cell_slack, jackknife
from dyadlearn.settings import Setting
from dyadlearn.solve.leaving import group_members, unit_codes

# Most cells of the grid of a list whose intervals are those of the grid.
_MOST_CELLS = 2**23
# Number of labels that a task of a list usually has if its intervals are those of the grid: enough
# for 90 %.
_ENOUGH = 9

#: Lower and upper ends.
Bounds = tuple[Array, Array]

# Function of a setting that returns the held-out predictions and units which a search has stored,
# or None.
Kept = Callable[[Setting], tuple[Array, Units] | None]


def ranks(n: int, coverage: float) -> tuple[int, int]:
    """Return the ranks, counted from 1, of the lower and the upper bound among n values in ascending order.

    Ranks 0 and n + 1 mean minus and plus infinity: there are too few values for this coverage.

    Examples
    --------
    >>> from dyadlearn.holdout.intervals import ranks
    >>> ranks(99, 0.9), ranks(19, 0.9), ranks(9, 0.9), ranks(8, 0.9)
    ((10, 90), (2, 18), (1, 9), (0, 9))
    """
    # A coverage such as 0.1 is not a binary fraction; the margin keeps rounding from changing the
    # rank.
    return math.floor((1.0 - coverage) * (n + 1) + 1e-9), math.ceil(coverage * (n + 1) - 1e-9)


def largest_coverage(n: int) -> float:
    """Return the largest coverage, to three digits, for which n held-out residuals give finite intervals.

    Examples
    --------
    >>> from dyadlearn.holdout.intervals import largest_coverage
    >>> largest_coverage(5), largest_coverage(9), largest_coverage(0)
    (0.833, 0.9, 0.0)
    """
    return math.floor(1000 * n / (n + 1)) / 1000


@dataclass(frozen=True, eq=False)
class Intervals:
    """Prediction intervals of a fitted model from its held-out residuals.

    The residuals of a setting are computed once.

    Attributes
    ----------
    problem : Problem
        Model and labels, complete or with missing labels.
    kept : callable
        Function of a setting that returns the held-out predictions and units which a search has
        stored, or None.
    by_formula : bool
        Whether the predictions of the models without each row are available (jackknife+).
    bounds_all : bool
        Whether tasks with too few labels have intervals of one width, from the residuals of all
        labels, instead of infinite ones.
    """

    problem: Problem
    kept: Kept
    by_formula: bool = field(default=True, kw_only=True)
    bounds_all: bool = field(default=False, kw_only=True)

    @cached_property
    def mirrored(self) -> Intervals:
        """The intervals of the transposed problem, in which tasks are the instances."""
        problem = self.problem
        transposed = replace(
            problem, pairing=problem.pairing.transposed, labels=problem.labels.transposed
        )

        def kept(setting: Setting) -> tuple[Array, Units] | None:
            stored = self.kept(setting.transposed)
            if stored is None:
                return None
            values, units = stored
            return problem.labels.turned(values), Units(units.sides[::-1])

        return replace(self, problem=transposed, kept=kept)

    @cached_property
    def _labels(self) -> Array:
        """Labels (m, q); NaN where they are missing."""
        return self.problem.labels.dense().values

    def _tested(self, setting: Setting) -> Array:
        """Return the labels (m, q) whose residuals are those of a setting, NaN elsewhere.

        Pairs whose instance or task has no other label are new in more than the setting says.
        """
        return self.problem.labels.spread(tested_in(self.problem, self.kept, setting))

    # --- new instances, new tasks -------------------------------------------------------------------

    def new_rows(self, rows: NewRows, predicted: Array, coverage: float) -> Bounds:
        """Return bounds for new instances with every training task.

        Parameters
        ----------
        rows : NewRows
            The a new instances.
        predicted : array of shape (a, q)
        coverage : float

        Returns
        -------
        lower, upper : arrays of shape (a, q)
        """
        models = self._jackknife
        if models is None:
            return self._beside_known(rows, predicted, coverage)
        m, q = self.problem.labels.shape
        size = tuple(predicted.shape)
        lower = zeros(size, predicted)
        upper = zeros(size, predicted)
        scores = self._of_rows(models.held_out)
        unit = unit_codes(models.members, m)
        of_row = (models.n_values, (4, m, q))
        need = array_bytes(predicted, *of_row, rows.width)
        check_memory(need, predicted, "An interval for a new row")
        for here in rows.cut(*of_row):
            block = rows.take(here)
            low, high = jackknife_plus(
                models.predictions(block), scores, self._local(block), unit, coverage
            )
            lower[here, :] = low
            upper[here, :] = high
        if self.bounds_all:
            reach = self._reach_of_all(models.held_out, coverage)
            lower, upper = self._filled(lower, upper, predicted, reach)
        # Bounds are NaN where the prediction is NaN.
        xp = namespace(predicted)
        missing = namespace(predicted).isnan(predicted)
        return xp.where(missing, predicted, lower), xp.where(missing, predicted, upper)

    @property
    def codes(self) -> np.ndarray | None:
        """Unit of each instance that a search has left out together; None means leave-one-out."""
        kept = self.kept(Setting.B)
        return None if kept is None else kept[1].sides[0]

    def _reach_of_all(self, held_out: Array, coverage: float) -> float:
        """Return the quantile of the absolute residuals of all labels."""
        xp = namespace(held_out)
        errors = xp.abs(self._tested(Setting.B) - held_out)
        return float(upper_scores(xp.reshape(errors, (1, -1)), coverage)[0])

    @staticmethod
    def _filled(lower: Array, upper: Array, predicted: Array, reach: float) -> Bounds:
        """Return bounds in which those of tasks with too few labels have one width."""
        xp = namespace(lower)
        few = xp.isinf(lower) | xp.isinf(upper)
        return xp.where(few, predicted - reach, lower), xp.where(few, predicted + reach, upper)

    @cached_property
    def _jackknife(self) -> Jackknife | None:
        """Models without each row or unit of rows; None if their predictions are not available."""
        problem = self.problem
        codes = self.codes
        if not self.by_formula:
            return None
        if problem.labels.is_full:
            if problem.labels.shape[0] == 1 or (codes is not None and (codes == codes[0]).all()):
                raise nothing_left()
            members = group_members(codes, problem.labels.shape[0], "groups")
            return jackknife(problem.pairing, problem.Y, members)
        return jackknife_of(problem, codes)

    def _of_rows(self, held_out: Array) -> Array:
        """Return absolute residuals (m, q) of held-out rows divided by their widths; NaN for missing labels."""
        widths = (1.0 + self._distances[0])[:, None] ** 0.5
        return namespace(held_out).abs(self._tested(Setting.B) - held_out) / widths

    def _beside_known(self, rows: NewRows, predicted: Array, coverage: float) -> Bounds:
        """Return bounds for new rows from the held-out residuals of each task or vertex."""
        scores = self._of_rows(self.held_out(Setting.B))
        if self.problem.pairing.symmetry:  # a new vertex has no edge to itself
            scores = with_diagonal(scores, float("nan"))
        novelty, _ = self._local(rows)
        reach = upper_scores(scores.T, coverage)[None, :] * (1.0 + novelty)[:, None] ** 0.5
        return predicted - reach, predicted + reach

    # --- known pairs, and pairs that are new on both sides ------------------------------------------

    def known(self, completed: Array, coverage: float) -> Bounds:
        """Return bounds for all pairs of training, as if their labels were not known.

        Parameters
        ----------
        completed : array of shape (m, q)
            Predictions of missing labels.
        coverage : float

        Returns
        -------
        lower, upper : arrays of shape (m, q)
            Bounds around held-out predictions where labels are observed, else around `completed`.
        """
        Y = self._labels
        xp = namespace(self._labels)
        held_out = self.held_out(Setting.A)
        widths = self._cell_widths
        reach = self._reach(Setting.A, widths, coverage) * widths
        centre = xp.where(xp.isnan(Y), completed, held_out)
        return centre - reach, centre + reach

    def new_both(
        self, rows: NewRows, columns: NewRows, predicted: Array, coverage: float
    ) -> Bounds:
        """Return bounds for new instances with new tasks; arguments as in `new_rows`."""
        of_rows, of_columns = self._distances
        widths = (1.0 + (of_rows[:, None] + of_columns[None, :]) / 2) ** 0.5
        novelty, _ = self._local(rows)
        task_novelty, _ = self._local(columns, 1)
        reach = self._reach(Setting.D, widths, coverage)
        reach = reach * (1.0 + (novelty[:, None] + task_novelty[None, :]) / 2) ** 0.5
        return predicted - reach, predicted + reach

    def _reach(self, setting: Setting, widths: Array, coverage: float) -> float:
        """Return the factor of the widths whose intervals contain the requested share of the labels."""
        Y = self._tested(setting)
        xp = namespace(Y)
        scores = xp.abs(Y - self.held_out(setting)) / widths
        if self.problem.pairing.symmetry:  # the grid contains each edge twice
            upper = as_array_of(np.triu(np.ones(Y.shape, dtype=bool)), Y)
            scores = xp.where(upper, scores, float("nan"))
        return float(upper_scores(xp.reshape(scores, (1, -1)), coverage)[0])

    def held_out(self, setting: Setting) -> Array:
        """Return held-out predictions (m, q) of a setting; NaN for pairs that are not in a list."""
        return self.problem.labels.spread(_held_out(self.problem, self.kept, setting))

    # --- widths -------------------------------------------------------------------------------------

    @cached_property
    def _novelty(self) -> list[Novelty]:
        pairing = self.problem.pairing
        spectra_and_ridges = zip(pairing.spectra, side_ridges(pairing), strict=True)
        sides = [Novelty.of(spectrum, ridge) for spectrum, ridge in spectra_and_ridges]
        return sides * 2 if pairing.symmetry else sides

    @cached_property
    def _distances(self) -> list[Array]:
        """Novelty of each row, and of each column, relative to the median of its side."""
        return [side.left_out / side.typical for side in self._novelty]

    def _local(self, rows: NewRows, side: int = 0) -> tuple[Array, Array | None]:
        """Return the relative novelty (a,) of new rows, and its increase (a, n) if a training row is left out."""
        novelty, increase = self._novelty[side].of_rows(rows)
        if novelty is not None:
            return novelty, increase
        # Rows of which the kernel with themselves is not known have the median novelty.
        return zeros((rows.size,), self._distances[side]) + 1.0, None

    @cached_property
    def _cell_widths(self) -> Array:
        slack = cell_slack(self.problem.pairing)
        xp = namespace(slack)
        # The slack is clipped relative to its maximum: all values tend to 0 with the
        # regularisation.
        top = float(xp.max(slack)) or 1.0
        far = 1.0 / xp.clip(slack, 1e-6 * top, top)
        return (1.0 + far / float(np.median(to_numpy(far)))) ** 0.5


@dataclass(frozen=True, eq=False)
class FlatIntervals:
    """Prediction intervals of one width for all pairs of a setting, from held-out residuals only.

    They are used for lists of few labels, and for models without a closed form.

    Attributes
    ----------
    labels : Labels
    held_out : callable
        Returns the held-out predictions of a setting, of the shape of the labels' values.
    tested : callable, default=None
        Returns the labels whose residuals are those of a setting, NaN elsewhere; None means all
        labels.
    """

    #: Whether tasks with few labels have intervals too, as in `Intervals`.
    bounds_all: ClassVar[bool] = True

    labels: Labels
    held_out: Callable[[Setting], Array]
    tested: Callable[[Setting], Array] | None = None
    _predictions: dict[Setting, Array] = field(default_factory=dict, init=False, repr=False)

    def _held_out(self, setting: Setting) -> Array:
        if setting not in self._predictions:
            self._predictions[setting] = self.held_out(setting)
        return self._predictions[setting]

    def reach(self, setting: Setting, coverage: float) -> float:
        """Return the half width of the intervals: the quantile of the absolute residuals of a setting.

        It is infinite if there is no residual, because no label remains to learn from when one is
        left out.
        """
        try:
            if self.tested is None:
                tested = self.labels.values
            else:
                tested = self.tested(setting)
            errors = tested - self._held_out(setting)
        except NothingLeftError:
            return math.inf
        xp = namespace(errors)
        return float(upper_scores(xp.reshape(xp.abs(errors), (1, -1)), coverage)[0])

    def known(
        self, rows: np.ndarray, columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the held-out predictions of the observed pairs of some training rows and columns.

        Parameters
        ----------
        rows, columns : integer arrays of shape (a,) and (b,)
            Training positions.

        Returns
        -------
        places, task_places : integer arrays of shape (n,)
            Positions of the pairs in `rows` and in `columns`.
        predictions : array of shape (n,)
        """
        labels = self.labels
        numbers = np.arange(1, labels.size + 1)
        stored = sparse.csr_array((numbers, labels.places), shape=labels.shape)
        asked = stored[rows][:, columns].tocoo()
        predictions = to_numpy(self._held_out(Setting.A))[labels.observed]
        return asked.row, asked.col, predictions[asked.data - 1]


def jackknife_plus(
    models: Array,
    scores: Array,
    local: tuple[Array, Array | None],
    unit: np.ndarray,
    coverage: float,
) -> Bounds:
    """Return jackknife+ bounds.

    Parameters
    ----------
    models : array of shape (a, q, u)
        Predictions of the models, each of which was trained without a unit of rows.
    scores : array of shape (m, q)
        Absolute residuals of the training rows divided by their widths; NaN for missing labels.
    local : (array of shape (a,), array of shape (a, m) or None)
        Novelty of the new rows, and its increase where each training row is left out.
    unit : integer array of shape (m,)
        Number of the model that was trained without each row.
    coverage : float
    """
    xp = namespace(models)
    novelty, increase = local
    if increase is None:
        far = novelty[:, None]
    else:
        far = novelty[:, None] + increase
    widths = (1.0 + far) ** 0.5
    reach = widths[:, None, :] * row_major(scores.T)[None, :, :]
    if unit.size != models.shape[2] or not np.array_equal(unit, np.arange(unit.size)):
        models = xp.take(models, as_array_of(unit, models), axis=2)
    ends = models - reach
    reach += models
    lower = _bound(ends, coverage, 0)
    upper = _bound(reach, coverage, 1)
    # For a coverage below 0.5, the lower bound may exceed the upper one: both become their mean.
    crossed = lower > upper
    middle = lower / 2 + xp.where(crossed, upper, lower) / 2
    return xp.where(crossed, middle, lower), xp.where(crossed, middle, upper)


def _bound(values: Array, coverage: float, end: int) -> Array:
    """Return a lower (0) or upper (1) bound of each row of values (a, q, m), which are overwritten.

    NaN are ignored.
    """
    xp = namespace(values)
    a, q, m = values.shape
    missing = xp.isnan(values)
    if not bool(xp.any(missing)):
        rank = ranks(m, coverage)[end]
        if 1 <= rank <= m:
            return order_statistic(values, rank - 1)
    counts = m - to_numpy(xp.sum(xp.astype(missing, xp.int64), axis=2)).reshape(-1)
    ordered = xp.sort(xp.where(missing, math.inf, values), axis=2)
    # Ranks below 1 and above the number of values mean infinite bounds.
    distinct, number_of = np.unique(counts, return_inverse=True)
    places = np.array([ranks(int(n), coverage)[end] for n in distinct])[number_of]
    at = np.arange(a * q) * m + np.clip(places - 1, 0, m - 1)
    flat = take_rows(xp.reshape(ordered, (-1,)), at)
    none = np.where(places < 1, -np.inf, np.where(places > counts, np.inf, 0.0))
    infinite = as_array_of(none, flat, flat.dtype)
    return xp.reshape(xp.where(as_array_of(none == 0, flat), flat, infinite), (a, q))


def upper_scores(scores: Array, coverage: float) -> Array:
    """Return the quantile (n,) of each row of scores (n, p) for a coverage; NaN are ignored."""
    return _bound(copied(scores)[None, :, :], coverage, 1)[0, :]


def intervals_of(
    problem: Problem, kept: Kept, *, by_formula: bool = True
) -> Intervals | FlatIntervals:
    """Return the intervals of a problem: of local width, or of one width per setting for a list of labels.

    The intervals of a list are those of its grid, if this is small, most rows and columns have
    enough labels, and there is a formula in settings B and C.

    Parameters
    ----------
    problem : Problem
    kept, by_formula : callable and bool
        As in `Intervals`.
    """
    intervals = Intervals(problem, kept, by_formula=by_formula)
    if problem.labels.grid is not None:
        return intervals
    intervals = replace(intervals, bounds_all=True)
    if by_formula and _suits_rows(problem.labels) and _have_formula(intervals):
        return intervals
    held_out = partial(_held_out, problem, kept)
    return FlatIntervals(problem.labels, held_out, partial(tested_in, problem, kept))


def _suits_rows(labels: Labels) -> bool:
    """Return whether most instances and most tasks of a list have intervals from their own labels, on a small grid."""
    usual = min(
        float(np.median(np.unique(place, return_counts=True)[1])) for place in labels.places
    )
    return math.prod(labels.shape) <= _MOST_CELLS and usual >= _ENOUGH


def _have_formula(intervals: Intervals) -> bool:
    """Return whether intervals for new instances and for new tasks have a formula."""
    return all(has_formula(side.problem, side.codes) for side in (intervals, intervals.mirrored))


def tested_in(problem: Problem, kept: Kept, setting: Setting) -> Array:
    """Return the labels whose held-out pair is really in a setting, NaN elsewhere; all labels if there are none.

    Parameters
    ----------
    problem : Problem
    kept : callable
        As in `Intervals`.
    setting : Setting

    Returns
    -------
    array of the shape of the labels' values
    """
    labels = problem.labels
    if labels.size == math.prod(labels.shape) or problem.pairing.symmetry:
        return labels.values
    stored = kept(setting)
    units = plan(problem, setting).units if stored is None else stored[1]
    tested = of_setting(labels.values, labels, setting, units, setting)
    xp = namespace(tested)
    if bool(xp.all(xp.isnan(tested))):
        return labels.values
    return tested


def _held_out(problem: Problem, kept: Kept, setting: Setting) -> Array:
    """Return held-out predictions of a setting, of the shape of the labels' values."""
    stored = kept(setting)
    if stored is None:
        return plan(problem, setting).held_out()
    return stored[0]

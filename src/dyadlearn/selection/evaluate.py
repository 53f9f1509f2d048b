r"""Scores of a fitted model in each setting, with baselines, permuted labels and bootstrap intervals.

Permuting labels does not change the kernels or their spectra: for a permutation P of the instances,
only
:math:`\mathbf{U}^\top\mathbf{PY}` changes. The predictions are permuted back, so that the parts of a score that depend
on the labels alone are computed once.

The bootstrap draws instances and tasks, never single cells. Cells of a row share their instance and
cells of a column share their task, so cells are not independent.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from itertools import islice
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from dyadlearn._array import (
    Array,
    array_bytes,
    as_array_of,
    is_foreign,
    namespace,
    take_block,
    to_numpy,
)
from dyadlearn._checks import check_choice, check_flag, check_share, check_whole
from dyadlearn._messages import Message, message_of
from dyadlearn._progress import Phase
from dyadlearn._tables import Columns, write_rows
from dyadlearn._text import as_text, html_table, make_table, number
from dyadlearn.exceptions import LeverageError, NotEnoughMemoryError, NothingLeftError
from dyadlearn.holdout import Problem, Units
from dyadlearn.holdout.actual import in_one_line
from dyadlearn.holdout.baselines import BASELINES, baselines
from dyadlearn.holdout.one_fit import folds_to_compare, larger_folds
from dyadlearn.holdout.pairs_out import PairsOut
from dyadlearn.holdout.planning import plan_units
from dyadlearn.labels import Labels, read_labels
from dyadlearn.leverage import nothing_left
from dyadlearn.metrics import PreparedScorer, Scorer, scorer
from dyadlearn.metrics.cells import Metric, read_stack
from dyadlearn.metrics.scorers import prepared_score, usual_scoring
from dyadlearn.models.fitted import Fitted, as_fitted
from dyadlearn.models.fitted_multiway import FittedMultiway
from dyadlearn.pairing.full import check_memory, hold_out_stack
from dyadlearn.selection.hold_outs import HoldOuts, Judged, pairing_of
from dyadlearn.settings import NewSides, Setting, as_settings
from dyadlearn.sides import SideNames, side_names
from dyadlearn.solve.leaving import group_members, largest_group


@dataclass(frozen=True)
class Interval:
    """Bootstrap interval of a score.

    Attributes
    ----------
    score : float
        Score of the original grid.
    low, high : float
        Bounds of the interval.
    coverage : float
        Fraction of the resamples in the interval.
    n_resamples : int
        Number of resamples with a score.
    n_undefined : int
        Number of resamples for which the metric is undefined; they are excluded.
    """

    score: float
    low: float
    high: float
    coverage: float
    n_resamples: int
    n_undefined: int

    def __str__(self) -> str:
        return f"{self.score:.4g} ({100 * self.coverage:g} % interval {self.low:.4g} … {self.high:.4g})"


def bootstrap_interval(
    Y: Any,
    F: Any,
    scoring: Any = "neg_mean_squared_error",
    *,
    setting: str | Setting | None = None,
    average: str | None = None,
    over: str = "both",
    n_resamples: int = 1000,
    coverage: float = 0.95,
    random_state: Any = None,
) -> Interval:
    """Return a bootstrap interval of a score, by resampling instances and tasks.

    Instances, tasks or both are drawn with replacement, each as many times as there are rows or
    columns. The score is computed on the grid of each draw. The interval contains the central
    fraction `coverage` of these scores. Cells are never drawn one by one: cells of a row share
    their instance and cells of a column their task, so such an interval would be too narrow.

    The interval ignores how the predictions were chosen. Pass those of `nested_score`, or those of
    a regularisation that was fixed beforehand.

    Parameters
    ----------
    Y : array or frame of shape (m, q)
        Labels; NaN means "not observed".
    F : array or frame of shape (m, q)
        Held-out predictions.
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`.
    setting : str or Setting, default=None
        Setting that determines the average: pooled in A and D, per instance in B, per task in C. A
        scorer with its own average keeps it.
    average : {"pooled", "instance", "task"}, default=None
        Average to use, instead of `setting`.
    over : {"instances", "tasks", "both"}, default="both"
        What is drawn: the sides that would be different in a repetition of the study.
    n_resamples : int, default=1000
        Number of draws.
    coverage : float, default=0.95
        Fraction of the resampled scores that the interval contains.
    random_state : int, RandomState or None, default=None
        Seed of the draws.

    Returns
    -------
    Interval
        The interval. Draws with an undefined score are excluded and counted.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(30, 20))
    >>> print(bootstrap_interval(Y, Y + rng.normal(size=(30, 20)), "r2", over="instances", random_state=0))
    0.07397 (95 % interval ...)
    """
    judge = scorer(scoring)
    resampling = _Resampling(over, n_resamples, coverage, random_state)
    return _interval(Y, F, judge, judge.average_in(setting, average), resampling)


@dataclass(frozen=True)
class _Resampling:
    """What a bootstrap draws, and the part of its scores that an interval contains.

    Attributes
    ----------
    over, n_resamples, coverage, random_state : as in `bootstrap_interval`
    """

    over: str = "both"
    n_resamples: int = 1000
    coverage: float = 0.95
    random_state: Any = None

    def check(self, shape: tuple[int, int]) -> None:
        """Raise if a parameter is wrong, or if a side to draw from has one member."""
        check_choice(self.over, "over", ("instances", "tasks", "both"))
        check_whole(self.n_resamples, "n_resamples")
        check_share(self.coverage, "coverage")
        m, q = shape
        for count, name, spared in ((m, "instances", "tasks"), (q, "tasks", "instances")):
            if self.over != spared and count < 2:
                remedy = f"give labels of two or more, or draw the others with over={spared!r}"
                raise ValueError(f"Y has only {count} of the {name} to resample: {remedy}.")

    def interval(self, score: float, scores: np.ndarray) -> Interval:
        """Return the central part of resampled scores, of which some are not NaN."""
        defined = scores[~np.isnan(scores)]
        ends = [(1 - self.coverage) / 2, (1 + self.coverage) / 2]
        low, high = np.quantile(defined, ends)
        n_undefined = self.n_resamples - defined.size
        return Interval(
            score, float(low), float(high), float(self.coverage), defined.size, n_undefined
        )


def _interval(
    Y: Any,
    F: Any,
    judge: Scorer,
    average: str,
    resampling: _Resampling,
    folds: np.ndarray | None = None,
) -> Interval:
    """Return the interval of `bootstrap_interval`, of scores within folds (m, q) if there are any."""
    grid = read_labels(Y)
    stack, shape = read_stack(F, grid)
    if shape:
        raise ValueError(
            f"F must be one grid of predictions, found a stack of shape {shape} of them."
        )
    labels = grid.values
    resampling.check(labels.shape)
    if folds is not None:
        folds = folds[None, ...]
    score = float(scores_in_folds(labels, stack, judge, average, folds)[0])
    scores = resampled_scores(
        labels,
        stack,
        judge,
        average=average,
        folds=folds,
        over=resampling.over,
        n_resamples=resampling.n_resamples,
        random_state=resampling.random_state,
    )[:, 0]
    if np.isnan(scores).all():
        raise ValueError(
            f"{judge.name} is undefined in all {len(scores)} resamples: there are too few labels "
            f"for it."
        )
    return resampling.interval(score, scores)


def _interval_of_pairs(
    pairs: PairsOut, labels: np.ndarray, score: float, resampling: _Resampling
) -> Interval | None:
    """Return an interval of a score by leave-pair-out; None if it takes too much memory or is undefined."""
    m, q = labels.shape
    if min(m, q) < 2:
        return None
    random = check_random_state(resampling.random_state)
    endless = drawn(resampling.over, (m, q), lambda size: random.randint(size, size=size))
    scores = pairs.resampled(labels, islice(endless, resampling.n_resamples))
    if scores is None or np.isnan(scores).all():
        return None
    return resampling.interval(score, scores)


def scores_in_folds(
    labels: Array, stack: Array, judge: Scorer, average: str, folds: np.ndarray | None
) -> np.ndarray:
    """Return the scores (s,) of predictions (s, m, q), each within its folds (s, m, q) if there are any."""
    if folds is None:
        scores = judge(labels, stack, average=average, tie_tolerance=None)
        return np.asarray(to_numpy(scores), dtype=np.float64)
    grid = Labels.of_grid(labels)
    averaged = judge.averaged(average)
    scores = []
    for place, within in enumerate(folds):
        prepared = prepared_score(grid, averaged, Setting.A, folds=within)
        scores.append(float(prepared(stack[place, ...])))
    return np.asarray(scores)


def resampled_scores(
    labels: Array,
    stack: Array,
    judge: Scorer,
    *,
    average: str,
    folds: np.ndarray | None,
    over: str,
    n_resamples: int,
    random_state: Any,
) -> np.ndarray:
    """Return bootstrap scores of predictions, on grids of instances and tasks that are drawn with replacement.

    Parameters
    ----------
    labels : array of shape (m, q)
        Labels; NaN means "not observed".
    stack : array of shape (s, m, q)
        Predictions of s models; all are scored on the same draws.
    judge : Scorer
    average : {"pooled", "instance", "task", "fold"}
    folds : integer array of shape (s, m, q) or None
        Folds within which the predictions of each model are scored; None means all together.
    over : {"instances", "tasks", "both", "nodes"}
        What is drawn, each as many times as there are members. Nodes are those of a network, the
        same on both sides; a node that is drawn twice forms no pair with itself.
    n_resamples : int
    random_state : int, RandomState or None

    Returns
    -------
    array of shape (n_resamples, s)
        Scores; NaN where a score is undefined.
    """
    m, q = labels.shape
    by_row = None
    if folds is None:
        prepared = judge.prepare(labels, average=average, tie_tolerance=None)
        is_by_row = (average, over) in (("instance", "instances"), ("task", "tasks"))
        if is_by_row and isinstance(prepared, Metric) and prepared.is_of_rows:
            # Where the score of a row does not depend on the other rows, it is computed once.
            by_row = prepared
            scores_of_rows = np.full((stack.shape[0], m if over == "instances" else q), np.nan)
            scores_of_rows[:, by_row.rows] = to_numpy(by_row.each(stack))
    random = check_random_state(random_state)
    scores = np.full((n_resamples, stack.shape[0]), np.nan)
    draws = drawn(over, (m, q), lambda size: random.randint(size, size=size))
    listed = None
    if by_row is None and over != "nodes":
        listed = _Listed.of(labels, stack, judge, average, folds)
    for resample, (rows, columns) in zip(range(n_resamples), draws, strict=False):
        if listed is not None:
            scores[resample] = listed.score(rows, columns)
        elif by_row is None:
            sample = take_block(labels, rows, columns)
            if over == "nodes":
                sample = _without_repeats(sample, rows)
            grids = [
                take_block(stack[place, ...], rows, columns) for place in range(stack.shape[0])
            ]
            with suppress(ValueError):  # the score stays NaN if it is undefined
                F = namespace(stack).stack(grids)
                scores[resample] = to_numpy(judge(sample, F, average=average, tie_tolerance=None))
        else:
            row_scores = scores_of_rows[:, rows if over == "instances" else columns]
            defined = row_scores[:, ~np.isnan(row_scores[0])]
            scores[resample] = by_row.combined(defined) if defined.size else np.nan
    return scores


@dataclass(frozen=True, eq=False)
class _Listed:
    """The observed cells of a sparse grid, whose draws are scored without a grid.

    Attributes
    ----------
    places : sparse array of shape (m, q)
        Number of each observed cell, counted from one.
    values : array of shape (n,)
        Labels of the observed cells.
    predictions : array of shape (s, n)
    judge : Scorer
        Score with its average.
    folds : integer array of shape (s, n), or None
        Folds within which cells are scored.
    """

    places: sparse.csr_array
    values: np.ndarray
    predictions: np.ndarray
    judge: Scorer
    folds: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        labels: Array,
        stack: Array,
        judge: Scorer,
        average: str,
        folds: np.ndarray | None = None,
    ) -> Self | None:
        """Return the cells; None if most are observed, or if the score depends on more than the cells of each row.

        With folds, the cells are always returned.
        """
        if folds is None and (
            is_foreign(labels)
            or is_foreign(stack)
            or not getattr(judge.metric, "is_of_rows", False)
        ):
            return None
        labels = to_numpy(labels)
        stack = to_numpy(stack)
        rows, columns = np.nonzero(~np.isnan(labels))
        if folds is None and rows.size > _SPARSE * labels.size:
            return None
        places = sparse.csr_array(
            (np.arange(1, rows.size + 1), (rows, columns)), shape=labels.shape
        )
        values = labels[rows, columns]
        within = None
        if folds is not None:
            within = np.asarray(folds)[:, rows, columns]
        return cls(places, values, stack[:, rows, columns], judge.averaged(average), within)

    def score(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return the score of each model (s,) on drawn rows and columns; NaN if it is undefined."""
        scores = np.full(len(self.predictions), np.nan)
        sample = self.places[rows][:, columns]
        sample.sort_indices()
        cells = sample.tocoo()
        if not cells.nnz:
            return scores
        at = cells.data - 1
        labels = Labels((cells.row, cells.col), self.values[at], cells.shape)
        with suppress(ValueError):  # the score is undefined
            if self.folds is None:
                prepared = prepared_score(labels, self.judge, Setting.A)
                scores[:] = [float(prepared(F[at])) for F in self.predictions]
            else:
                for model, (F, folds) in enumerate(zip(self.predictions, self.folds, strict=True)):
                    prepared = prepared_score(labels, self.judge, Setting.A, folds=folds[at])
                    scores[model] = float(prepared(F[at]))
        return scores


def _without_repeats(drawn: Array, nodes: np.ndarray) -> Array:
    """Return labels (n, n) of drawn nodes, NaN for pairs of two draws of the same node."""
    repeats = np.equal.outer(nodes, nodes)
    np.fill_diagonal(repeats, False)
    xp = namespace(drawn)
    return xp.where(as_array_of(repeats, drawn), float("nan"), drawn)


_SIDES = SideNames()
# Largest share of observed cells of a grid whose draws are lists of cells.
_SPARSE = 0.1
# Maximum length of a baseline's name in the table.
_LONGEST = 16


#: Names of the other columns. A scoring function with one of these names gets the column ``score``.
_OTHERS = ("setting", "average", "undefined", "new", "method", "null", *BASELINES)


@dataclass(frozen=True, eq=False)
class SettingScore:
    """Score of a model in one setting, with baselines, held-out predictions and labels.

    Attributes
    ----------
    setting : Setting or NewSides
        The new sides of a `MultiwayRidge`.
    judge : Scorer
        The metric.
    score : float
    n_undefined : int
        Number of instances or tasks for which the metric is undefined; they are excluded.
    method : str
        Description of the hold-out method.
    reason : str
        The method and why it was chosen; empty if there was nothing to choose.
    average : {"pooled", "instance", "task", "fold"}
        What the score is averaged over.
    n_parts : int
        Number of instances, tasks or folds that the score would be a mean of if all were defined.
    folds : integer array of the shape of the labels, or None
        Folds within which predictions were compared; None if all were scored together.
    pairs : PairsOut or None
        The plan by which pairs of labels were left out; the predictions are those of leave-one-out.
    actual : Setting or None
        Actual setting of the scored pairs, with ``by="setting"``; None means all held-out pairs.
    actual_counts : dict of str to int
        Number of held-out pairs of each actual setting; empty if all are in that of the hold-out.
    null : float
        Mean score of permuted labels; NaN if it was not computed.
    baselines : dict of str to float
        Scores of the baselines, held out in the same way, by name.
    predictions : array of shape (m, q), or (n,) of observed pairs, or None
        Held-out predictions; None if there are none.
    labels : array of the same shape, or None
        Labels of the predictions; NaN where a label is not scored. Both are read-only numpy arrays.
    trouble : str or None
        Reason why there is no score; None if there is one.
    is_network : bool
        Whether both sides are the same nodes.
    n_identical : (int, int)
        Number of held-out instances, and of tasks, that have an identical one in training: same
        features, or kernel.
    """

    setting: Any
    judge: Scorer
    score: float
    n_undefined: int = 0
    method: str = "none"
    null: float = math.nan
    baselines: dict[str, float] = field(default_factory=dict)
    predictions: np.ndarray | None = None
    labels: np.ndarray | None = None
    trouble: str | None = None
    is_network: bool = False
    n_identical: tuple[int, int] = (0, 0)
    reason: str = ""
    average: str = "pooled"
    n_parts: int = 1
    folds: np.ndarray | None = None
    pairs: PairsOut | None = None
    actual: Setting | None = None
    actual_counts: dict[str, int] = field(default_factory=dict)

    def interval(self, n_resamples: int = 1000, random_state: Any = 0) -> Interval | None:
        """Return a 95 % bootstrap interval of the score, by resampling instances and tasks.

        Parameters
        ----------
        n_resamples : int, default=1000
        random_state : int, RandomState or None, default=0

        Returns
        -------
        Interval or None
            Interval of `dyadlearn.bootstrap_interval`, within the same folds. None for networks,
            for a list of observed pairs, for a side with one member, and if the metric is undefined
            in every draw. For leave-pair-out, pairs of drawn labels are counted; None if there are
            too many.
        """
        if (
            self.trouble is not None
            or self.labels is None
            or self.labels.ndim < 2
            or self.is_network
        ):
            return None
        resampling = _Resampling(n_resamples=n_resamples, random_state=random_state)
        if self.pairs is not None:
            return _interval_of_pairs(self.pairs, self.labels, self.score, resampling)
        average = self.judge.average_in(self.setting)
        try:
            return _interval(
                self.labels, self.predictions, self.judge, average, resampling, self.folds
            )
        except ValueError:
            return None

    def notes(self, sides: SideNames = _SIDES) -> list[str]:
        """Return notes on a missing or partly undefined score, and on a score that is not better than the baselines."""
        if self.trouble is not None:
            return [
                Message(
                    "Setting {setting} has no score. {trouble}",
                    setting=self.setting.value,
                    trouble=self.trouble,
                )
            ]
        said = nothing_learnt(self.judge.name, self.setting, self.score, self.baselines, sides)
        notes = [] if said is None else [said]
        average = self.average
        if self.judge.name == "r2" and average in ("instance", "task"):
            side = sides.instance if average == "instance" else sides.task
            mean = f"In setting {self.setting.value}, r2 is the mean of the r2 of each {side}"
            notes.append(f"{mean}, which is often far below the r2 of all labels together.")
        for count, side, name in zip(
            self.n_identical, sides.both, ("groups", "task_groups"), strict=True
        ):
            if count:
                notes.append(
                    Message(
                        "In setting {setting}, {count:,} held-out {side} have an identical one in "
                        'training: if these are copies, <{name}="identical"> keeps them together.',
                        setting=self.setting.value,
                        count=count,
                        side=side,
                        name=name,
                    )
                )
        if self.n_undefined:
            notes.append(self._note_on_undefined(sides))
        return notes

    def _note_on_undefined(self, sides: SideNames) -> str:
        """Return the line that counts the parts without a score."""
        whole = {"instance": sides.instances, "task": sides.tasks}.get(self.average, "folds")
        if self.folds is not None and self.average in ("instance", "task"):
            whole = f"parts of {whole} in one fold"
        return (
            f"In setting {self.setting.value}, {self.judge.name} is undefined for "
            f"{self.n_undefined:,} of {self.n_parts:,} {whole}, "
            "whose labels are all alike or missing: they are excluded."
        )


class Scores(Columns):
    """Table of scores: a dict of named columns, each a list with one entry per setting.

    Any data frame library accepts this dict. It prints as a text table of at most 80 characters,
    and in a notebook as HTML. The printed table has only the best baseline, and notes below it.

    Parameters
    ----------
    results : list of SettingScore
    scoring : str or None
        Name of the column with the scores. None adds a column ``scoring`` with the name of each
        score.
    sides : SideNames
    kind : str or None
        Library of the data frame that `frame` returns.

    Attributes
    ----------
    results : list of SettingScore
        Scores with held-out predictions, labels and intervals, one entry per row of the table.
    scoring : str
        Name of the column with the scores.
    sides : SideNames
        Names of an instance and of a task.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> scores = evaluate(model, "BD", n_permutations=10, sides=("host", "parasite"))
    >>> scores
                                               neg_mean_
     new     method               average  squared_error    null  best baseline
     ──────────────────────────────────────────────────────────────────────────
     B host  exact leave-one-out  host          -0.01695  -2.227  -0.9447 grand
     D both  exact leave-one-out  pooled         -0.0567  -2.474  -0.9065 grand
    >>> scores["setting"], scores.scoring
    (['B', 'D'], 'neg_mean_squared_error')
    >>> print(scores.results[0].interval(n_resamples=200))
    -0.01695 (95 % interval ...)
    """

    def __init__(
        self,
        results: list[SettingScore],
        scoring: str | None,
        sides: SideNames = _SIDES,
        kind: str | None = None,
    ) -> None:
        self.results = results
        self.scoring = scoring or "score"
        self.sides = sides
        self._kind = kind
        scored = dict.fromkeys(name for result in results for name in result.baselines)
        baselines = tuple(scored) or BASELINES
        names = ["setting", *([] if scoring else ["scoring"]), self.scoring]
        names += [*_OTHERS[1 : -len(BASELINES)], *baselines]
        self.has_actual = any(result.actual is not None for result in results)
        if self.has_actual:
            names.insert(1, "actual")
        rows: list[dict[str, Any]] = []
        for result in results:
            words = {
                "setting": result.setting.value,
                "actual": (result.actual or result.setting).value,
                "scoring": result.judge.name,
                "average": result.average,
                "new": sides.new_in(result.setting),
            }
            figures = {
                "undefined": result.n_undefined,
                "method": result.method,
                "null": result.null,
            }
            means = {**dict.fromkeys(baselines, math.nan), **result.baselines}
            rows.append({**words, self.scoring: result.score, **figures, **means})
        super().__init__({name: [row[name] for row in rows] for name in names})

    def frame(self, kind: str | None = None) -> Any:
        """Return the columns as a data frame.

        Parameters
        ----------
        kind : {"pandas", "polars"} or None, default=None
            Name of a data frame library that narwhals supports. None means the library of the
            labels, or else the first of pandas and polars that is installed.

        Returns
        -------
        frame with a row for each setting
        """
        return write_rows(self, kind or self._kind)

    @property
    def notes(self) -> list[str]:
        """Notes on the scores, one sentence each."""
        said = None
        if not self.has_actual:
            counts = {result.setting.value: result.actual_counts for result in self.results}
            said = in_one_line(counts)
        notes = []
        if said is not None:
            notes = [Message('{said} <by="setting"> scores them apart.', said=said)]
        return notes + list(
            dict.fromkeys(note for result in self.results for note in result.notes(self.sides))
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table: one dict per setting."""
        return [dict(zip(self, row, strict=True)) for row in zip(*self.values(), strict=True)]

    def table(self) -> tuple[list[str], list[list[str]], int]:
        """Return the headings and lines of the printed table, and the number of text columns."""
        headings = ["new", "really", "method", "scoring", "average", self.scoring, "null"]
        if not self.has_actual:
            headings.remove("really")
        if "scoring" not in self:
            headings.remove("scoring")
        if all(math.isnan(null) for null in self["null"]):  # not requested, or too expensive
            headings.remove("null")
        headings.append("best baseline")
        averages = {"instance": self.sides.instance, "task": self.sides.task}
        lines = []
        for row, result in zip(self.rows(), self.results, strict=True):
            cells = {
                **row,
                "new": f"{row['setting']} {row['new']}".strip(),
                "really": row.get("actual"),
                "average": averages.get(row["average"], row["average"]),
                self.scoring: number(row[self.scoring]),
                "null": number(row["null"]),
                "best baseline": best_in_words(result.baselines, self.sides, short=True),
            }
            lines.append([cells[heading] for heading in headings])
        return headings, lines, headings.index("average") + 1

    def __repr__(self) -> str:
        return as_text(make_table(*self.table()), *self.notes)

    def _repr_html_(self) -> str:
        return html_table(*self.table()) + "".join(f"<p>{escape(note)}</p>" for note in self.notes)


def baseline_scores(
    labels: Labels,
    setting: Setting,
    units: Units,
    score: Callable[[Any], Any],
    *,
    symmetry: int = 0,
) -> dict[str, float]:
    """Score the baselines, held out in the same way as the model.

    Parameters
    ----------
    labels : Labels
    setting : Setting
    units : Units
        Folds of instances, tasks or pairs.
    score : callable
        Function of one prediction per label that returns the score; greater is better.
    symmetry : {0, 1, -1}, default=0
        Sign of a network's labels, as in `dyadlearn.holdout.baselines.baselines`; 0 if it is no
        network.

    Returns
    -------
    dict of str to float
        Scores by the names of `dyadlearn.holdout.baselines.BASELINES`; NaN if the score is
        undefined, as it may be for a constant, if memory does not suffice, or if no label remains.
    """
    try:
        predictions = baselines(labels, setting, units, symmetry=symmetry)
    except (
        NotEnoughMemoryError,
        NothingLeftError,
    ):  # the score of the model does not need the baselines
        return dict.fromkeys(BASELINES, float("nan"))
    if getattr(score, "can_tie", False):
        # A constant ranks nothing; its held-out values differ only because each of them leaves out
        # other labels.
        constant = namespace(predictions["grand_mean"]).zeros_like(predictions["grand_mean"])
        predictions |= dict.fromkeys(
            _constant_in(setting, getattr(score, "average", "pooled")), constant
        )
    # Baselines with equal predictions are scored once.
    distinct = {id(F): F for F in predictions.values()}
    scores = {key: _score(score, F) for key, F in distinct.items()}
    return {name: scores[id(F)] for name, F in predictions.items()}


def baselines_beside(
    fitted: Fitted, judge: Scorer, setting: Setting, units: Units, targets: Array | None = None
) -> dict[str, float]:
    """Score the baselines beside a fitted model, held out in the same way.

    Where the model leaves out pairs of labels, baselines are compared in folds.

    Parameters
    ----------
    fitted : Fitted
    judge : Scorer
    setting : Setting
    units : Units
        Units that are held out.
    targets : array of the shape of the labels' values, default=None
        Labels to score; None means all.
    """
    labels = fitted.labels
    pairing = pairing_of(fitted)
    larger = larger_folds(labels, units, units, judge, setting, pairing)
    if larger is not None and units.are_single:
        units = larger.units(labels)
    folds = folds_to_compare(labels, judge, setting, units, pairing)
    score = prepared_score(labels, judge, setting, targets, folds=folds)
    return baseline_scores(labels, setting, units, score, symmetry=fitted.symmetry)


def _constant_in(setting: Setting, average: str) -> tuple[str, ...]:
    """Return the baselines that differ only by what is left out among the pairs that are ranked together."""
    alone = {("task", Setting.B), ("instance", Setting.C)}
    if setting is Setting.D or (average, setting) in alone:  # each new row has the same prediction
        return BASELINES
    means = {"task": ("task_means",), "instance": ("instance_means",)}
    return ("grand_mean", *means.get(average, ()))


def _score(score: Callable[[Any], Any], F: Any) -> float:
    # Warnings about constant predictions do not concern the model.
    with warnings.catch_warnings(action="ignore"):
        try:
            return float(score(F))
        except (ValueError, ArithmeticError):
            return float("nan")


def best_baseline(scores: Mapping[str, float]) -> tuple[str, float] | None:
    """Return the name and score of the best baseline, of equally good ones the simplest; None without scores.

    Examples
    --------
    >>> from dyadlearn.selection.evaluate import best_baseline
    >>> best_baseline({"grand_mean": 0.5, "instance_means": 0.5, "task_means": 0.7, "additive": 0.7})
    ('task_means', 0.7)
    """
    defined = {name: score for name, score in scores.items() if not math.isnan(score)}
    return max(defined.items(), key=lambda entry: entry[1], default=None)


def in_words(name: str, sides: SideNames = _SIDES) -> str:
    """Return the name of a baseline for a table, with the names of the sides.

    Examples
    --------
    >>> from dyadlearn.sides import SideNames
    >>> from dyadlearn.selection.evaluate import in_words
    >>> in_words("task_means"), in_words("task_means", SideNames("host", "parasite"))
    ('task means', 'parasite means')
    """
    names = {"instance_means": f"{sides.instance} means", "task_means": f"{sides.task} means"}
    return names.get(name, name.replace("_", " "))


def best_in_words(
    scores: Mapping[str, float], sides: SideNames = _SIDES, *, short: bool = False
) -> str:
    """Return the best baseline as text, with a name of one word if `short`; a dash without scores.

    Examples
    --------
    >>> from dyadlearn.selection.evaluate import best_in_words
    >>> means = {"grand_mean": 0.5, "task_means": 0.71234}
    >>> best_in_words(means), best_in_words(means, short=True)
    ('0.7123, task means', '0.7123 task')
    """
    best = best_baseline(scores)
    if best is None:
        return "–"
    name = in_words(best[0], sides)
    if not short:
        return f"{number(best[1])}, {name}"
    word = name.removesuffix("s").removesuffix(" mean")
    if len(word) > _LONGEST:
        word = f"{word[: _LONGEST - 1]}…"
    return f"{number(best[1])} {word}"


def nothing_learnt(
    scoring: str,
    setting: Setting | NewSides,
    score: float,
    scores: Mapping[str, float],
    sides: SideNames = _SIDES,
) -> str | None:
    """Return a note on a model that is not better than the baselines; None if it is better.

    Examples
    --------
    >>> from dyadlearn.settings import Setting
    >>> from dyadlearn.selection.evaluate import nothing_learnt
    >>> nothing_learnt("roc_auc", Setting.B, 0.9, {"task_means": 0.7})
    >>> nothing_learnt("roc_auc", Setting.B, 0.6, {"task_means": 0.7})
    'In setting B the model reaches roc_auc 0.6, worse than the best baseline, which uses no features: 0.7, task means.'
    """
    best = best_baseline(scores)
    if best is None or score > best[1]:
        return None
    reached = f"In setting {setting.value} the model reaches {scoring} {number(score)}"
    relation = "no better than" if number(score) == number(best[1]) else "worse than"
    return f"{reached}, {relation} the best baseline, which uses no features: {best_in_words(scores, sides)}."


#: Sides that can be permuted; nodes are both sides of a network.
SIDES = ("instances", "tasks", "both", "nodes")

# Approximate memory in bytes for a stack of permuted grids and its predictions.
_STACK_BYTES = 2**27
# Number of grids in memory per permutation of a stack.
_GRIDS = 8


class Permutation(NamedTuple):
    """Permutation, or sample with replacement, of the rows and columns of a grid.

    Attributes
    ----------
    rows, columns : integer arrays of shape (m,) and (q,)
        Instance i gets the labels of instance ``rows[i]``, and task j those of ``columns[j]``.
    """

    rows: np.ndarray
    columns: np.ndarray

    def of(self, grid: Array) -> Array:
        """Return a grid (m, q) permuted."""
        return take_block(grid, self.rows, self.columns)

    def back(self, grid: Array) -> Array:
        """Return a grid with this permutation undone."""
        return take_block(grid, np.argsort(self.rows), np.argsort(self.columns))


def what_is_new(fitted: Fitted, setting: Setting) -> str:
    """Return the sides that are permuted by default: those that are new in the setting and have more than one member.

    Permuting another side would test another hypothesis: a model can still predict a new instance
    if the labels of all instances were moved to other tasks in the same way.
    """
    if fitted.is_network:
        return "nodes"
    if Setting.C not in fitted.settings or setting is Setting.B:
        return "instances"
    if setting is Setting.C:
        return "tasks"
    m, q = fitted.labels.shape
    if min(m, q) > 1:
        return "both"
    if m > 1:
        return "instances"
    return "tasks"


def drawn(
    sides: str, shape: tuple[int, int], draw: Callable[[int], np.ndarray]
) -> Iterator[Permutation]:
    """Yield an endless sequence of random positions of one of `SIDES`, where `draw(n)` returns n random positions."""
    while True:
        if sides == "tasks":
            rows = np.arange(shape[0])
        else:
            rows = draw(shape[0])
        if sides == "nodes":
            columns = rows
        elif sides == "instances":
            columns = np.arange(shape[1])
        else:
            columns = draw(shape[1])
        yield Permutation(rows, columns)


def permuted_scores(
    problem: Problem,
    setting: Setting,
    draws: Iterator[Permutation],
    score: PreparedScorer,
    units: Units,
) -> Iterator[np.ndarray]:
    """Yield scores of held-out predictions of a complete grid with permuted labels, many permutations at a time.

    Parameters
    ----------
    problem : Problem
        Problem with complete labels; its regularisation is not chosen again.
    setting : Setting
    draws : iterator of Permutation
        The permutations to use.
    score : PreparedScorer
        Score with the original labels.
    units : Units
        Folds of instances, tasks or pairs. They are not permuted; only the labels are.

    Yields
    ------
    array of shape (n,)
    """
    Y = problem.Y
    xp = namespace(problem.Y)
    pairing = problem.pairing
    m, q = Y.shape
    size = int(max(1, _STACK_BYTES // max(1, array_bytes(Y, (_GRIDS, *Y.shape)))))
    groups = (
        group_members(units.sides[0], m, "groups"),
        group_members(units.sides[1], q, "task_groups"),
    )
    while some := list(islice(draws, size)):
        sizes = {"largest_group": largest_group(*groups), "n_stacked": len(some)}
        check_memory(pairing, Y, setting, ", permuted", **sizes)
        stack = xp.stack([permutation.of(Y) for permutation in some])
        held_out = hold_out_stack(pairing, stack, setting, *groups)
        for place, permutation in enumerate(some):
            stack[place, ...] = permutation.back(held_out[place, ...])
        yield np.asarray(to_numpy(score(stack)), dtype=np.float64)


def null_mean(
    fitted: Fitted, setting: Setting, units: Units, score: PreparedScorer, n_permutations: int
) -> float:
    """Return the mean score of a few permutations of the labels with the same regularisation: the score without signal.

    This is not a test: there are too few permutations, and a search has chosen its regularisation
    by the true labels. For a test see `dyadlearn.permutation_test`. The permutations are the same
    in every call.

    Parameters
    ----------
    fitted : Fitted
    setting : Setting
    units : Units
        Folds of instances, tasks or pairs.
    score : PreparedScorer
        Score of predictions (m, q).
    n_permutations : int

    Returns
    -------
    float
        Mean score. It is NaN without permutations, if labels are missing or weighted (each
        permutation would need a new solve), if a side would be decomposed repeatedly, if the score
        is undefined, or if memory does not suffice.
    """
    if fitted.describes_by_labels:
        return math.nan
    problem = fitted.problem
    how = plan_units(problem, setting, units)
    if not how.is_of_grid or how.cost.once:
        return math.nan
    draws = _null_draws(fitted, setting, n_permutations)
    if draws is None:
        return math.nan
    with warnings.catch_warnings(action="ignore"):  # they were raised for the original labels
        try:
            scores = [*permuted_scores(problem, setting, draws, score, units)]
        except (ValueError, ArithmeticError, NotEnoughMemoryError):
            return math.nan
    return float(np.concatenate(scores).mean())


def _null_draws(
    fitted: Fitted, setting: Setting, n_permutations: int
) -> Iterator[Permutation] | None:
    """Return the permutations of `null_mean`, the same in every call; None if a side has one member only."""
    permuted = what_is_new(fitted, setting)
    axes = {"instances": (0,), "tasks": (1,)}.get(permuted, (0, 1))
    shape = fitted.labels.shape
    if any(shape[axis] < 2 for axis in axes):
        return None
    return islice(drawn(permuted, shape, np.random.RandomState(0).permutation), n_permutations)


def _null_of_pairs(fitted: Fitted, pairs: PairsOut, n_permutations: int) -> float:
    """Return the mean score of permuted complete labels by leave-pair-out; NaN as in `null_mean`."""
    draws = _null_draws(fitted, Setting.A, n_permutations)
    if draws is None or fitted.describes_by_labels or not fitted.labels.is_full:
        return math.nan
    problem = pairs.problem
    scores = []
    for permutation in draws:
        permuted = problem.with_labels(fitted.labels.permuted(*permutation))
        scores.append(pairs.score(problem=permuted).score)
    return float(np.mean(scores))


def evaluate(
    model: Any,
    setting: Iterable[str | Setting] = "ABCD",
    *,
    new: Sequence[Any] | None = None,
    scoring: str | Callable[[Any, Any], float] | Sequence[Any] | None = None,
    average: str | None = None,
    by: str | None = None,
    cv: Any = None,
    method: str | None = None,
    groups: Any = None,
    task_groups: Any = None,
    n_permutations: int = 0,
    sides: Any = None,
    nested: bool = True,
    error_score: str | float = "raise",
) -> Scores:
    """Score the held-out predictions of a fitted model and of the baselines in one or several settings.

    The baselines are means of labels; they use no features and are held out in the same way. A
    model that has learned from the features is better than all of them. The available means depend
    on the setting: task means (such as the popularity of each item) for a new instance, instance
    means for a new task, and only the grand mean if both are new. The grand mean replaces a mean
    that is not available. See `dyadlearn.holdout.baselines`.

    Rankings and correlations compare predictions with each other. Held-out predictions that were
    trained on each other's labels are not compared: such scores leave out pairs of labels, or
    compare labels of one fold (see `dyadlearn.holdout.one_fit`). The column ``method`` says so.

    `LearnedKernelRidge` learns its kernels from the labels. So it is fitted again without each
    fold, for the setting of the model, and scored in each given setting. The predictions are cached
    on the model, but not in its file.

    Parameters
    ----------
    model : fitted estimator
    setting : one or several settings, default="ABCD"
        Letters or aliases. For a model without tasks, C and D are skipped.
    new : list of names or of sequences of names, default=None
        Settings of a `MultiwayRidge`, instead of `setting`: the sides that are new in each, ``()``
        for a new cell. None means a new cell, each side, and all sides. Its `groups` are a dict, as
        in `MultiwayRidge.holdout`, its hold-out is exact, and scores are of all labels together.
    scoring : str, callable or list of these, default=None
        Name of a metric (see `dyadlearn.metrics.scorer`), or a function of the labels and the
        held-out predictions, both of shape (m, q); greater is better. None means the `scoring` of a
        search; for other models it means
        ``"roc_auc"`` if the labels have two values and ``"neg_mean_squared_error"`` otherwise. A list computes
        several scores: the table has one row per score, with the columns ``scoring`` (its name) and
        ``score``.
    average : {"pooled", "instance", "task", "fold"}, default=None
        Score of all labels together, or mean of the scores of each instance, task or fold. None
        means that of a scorer with its own, and otherwise pooled in A and D, per instance in B, per
        task in C, for grids and lists.
    by : "setting" or None, default=None
        ``"setting"`` scores the held-out pairs of each actual setting in a row of its own: in sparse
        tables, hiding the only label of an entity makes it new.
    cv : int, SettingKFold or list of (training rows, test rows), default=None
        Folds to leave out, as in `dyadlearn.landscape`. None means leave-one-out, by a formula or
        by a few refits, and five folds if both cost too much. In the setting of a search, None
        means the stored predictions by which it was chosen, with the groups and folds of its fit.
        These scores are slightly optimistic; see `nested_score`.
    method : {"exact", "folds"}, default=None
        "exact" takes a formula whatever it costs, and raises an error if there is none; "folds"
        refits folds.
    groups, task_groups : array-like of shape (m,) and (q,), "identical" or "similar:0.6", default=None
        Groups of instances and of tasks. A group is left out together, in the settings that leave
        out its side. None means the groups of the fit for a search or `LearnedKernelRidge`, unless
        `cv` is a list. "identical" leaves out rows with equal descriptions together; otherwise
        `Scores.notes` counts those that are in training too.
    n_permutations : int, default=0
        Number of permutations of the labels for the column ``null``; 0 means that the column is
        empty.
    sides : (str, str), default=None
        Names of an instance and of a task, for the column ``new``.
    nested : bool, default=True
        Whether `LearnedKernelRidge` learns its kernels again without the scored labels. False uses
        the stored predictions in the setting of the model, and unchanged kernels in other settings;
        this is fast but optimistic. Other models ignore this parameter.
    error_score : "raise" or float, default="raise"
        Score of a setting in which a label has leverage 1 (see `TwoStepRidge.holdout`), or in which
        the metric is undefined. "raise" raises the error. With a number, `Scores.notes` and
        `SettingScore.trouble` give the reason.

    Returns
    -------
    Scores
        A dict of columns, each a list with one entry per setting, that prints as a table.
        `Scores.frame` returns a data frame, and `Scores.results` has the held-out predictions. The
        columns are ``setting``, with `by` also ``actual``; the score, in a column with the name of
        the metric, such as ``roc_auc``; ``average``, what it is averaged over; ``undefined``, the
        number of instances, tasks or folds that are excluded because the metric is undefined for
        them; ``new``, what was held out; ``method``, the hold-out method;
        ``null``; and the scores of the baselines ``grand_mean``, ``instance_means``, ``task_means`` and ``additive``
        (an effect of the instance plus an effect of the task). A mean that is not available in the
        setting is replaced by the grand mean. Baselines are NaN in a setting without a score.

        ``null`` is the mean score of permuted labels with the regularisation of the model, that is, the score without
        signal. It is the same in every call, but it is not a test (see `permutation_test`). It is
        NaN without permutations, and if permutations would be expensive: for missing or weighted
        labels, for hold-out that decomposes a side repeatedly, such as setting D of Kronecker
        ridge, and for learned kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, evaluate
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(8, 3)), rng.normal(size=(6, 2))
    >>> model = TwoStepRidge(alpha=0.1, task_alpha=0.1).fit(X, X @ rng.normal(size=(3, 2)) @ T.T, tasks=T)
    >>> scores = evaluate(model)
    >>> scores
                                                    neg_mean_
     new         method               average   squared_error  best baseline
     ───────────────────────────────────────────────────────────────────────
     A pair      exact leave-one-out  pooled         -0.01956  -0.9583 grand
     B instance  exact leave-one-out  instance       -0.01695  -0.9447 grand
     C task      exact leave-one-out  task           -0.04312  -0.9266 grand
     D both      exact leave-one-out  pooled          -0.0567  -0.9065 grand
    >>> list(scores)[1:3], list(scores)[6:]
    (['neg_mean_squared_error', 'average'], ['null', 'grand_mean', 'instance_means', 'task_means', 'additive'])
    """
    check_whole(n_permutations, "n_permutations", 0)
    check_flag(nested, "nested")
    if by is not None:
        check_choice(by, "by", ("setting",))
    metrics: Sequence[Any]
    if isinstance(scoring, list | tuple):
        metrics = scoring
    else:
        metrics = [scoring]
    if error_score != "raise":
        error_score = float(error_score)
    fitted: Any = as_fitted(model)
    if isinstance(fitted, FittedMultiway):
        unused = {"cv": cv, "method": method, "task_groups": task_groups, "sides": sides}
        check_exact(unused | {"average": average, "by": by}, n_permutations)
        judges = [scorer(metric or usual_scoring(fitted.values)) for metric in metrics]
        results = cell_scores(fitted, new, judges, groups, error_score)
        return Scores(results, _column(metrics, scoring, judges), _SIDES, None)
    if new is not None:
        raise ValueError(
            Message(
                "new= names sides of a MultiwayRidge, found {model}: use <setting=>.",
                model=fitted.name,
            )
        )
    judges = [scorer(scoring_of(fitted, metric)).averaged(average) for metric in metrics]
    groups, task_groups = fitted.in_groups(groups, task_groups)
    how: dict[str, Any] = {"cv": cv, "method": method, "nested": nested}
    how |= {"groups": groups, "task_groups": task_groups}
    wanted = _Wanted(judges, n_permutations, error_score, by is not None)
    names = side_names(sides, network=fitted.is_network)
    results = wanted.scores(fitted, _supported(fitted, setting), how)
    return Scores(results, _column(metrics, scoring, judges), names, fitted.form.kind)


def _supported(fitted: Fitted, setting: Iterable[str | Setting]) -> list[Setting]:
    """Return the settings that a model has among those that are asked for; raise if there is none."""
    asked = as_settings(setting)
    supported = [one for one in asked if one in fitted.settings]
    if not supported:
        fitted.hold_out(asked[0])  # raises an error with the reason
    return supported


def _column(metrics: Any, scoring: Any, judges: Sequence[Scorer]) -> str | None:
    """Return the name of the column with the scores; None for several metrics."""
    if metrics is scoring:
        return None
    if judges[0].name in _OTHERS:
        return "score"
    return judges[0].name


def check_exact(unused: Mapping[str, Any], n_permutations: int) -> None:
    """Raise if arguments are given that the exact hold-out of cells does not use."""
    named = [name for name, value in unused.items() if value is not None]
    if n_permutations:
        named.append("n_permutations")
    if named:
        raise ValueError(
            f"{named[0]} is not available for a MultiwayRidge, whose hold-out is exact in all "
            f"settings: leave it out, and choose settings by new=."
        )


def cell_scores(
    fitted: FittedMultiway,
    new: Sequence[Any] | None,
    judges: Sequence[Scorer],
    groups: Any,
    error_score: Any,
) -> list[SettingScore]:
    """Return scores of the held-out predictions of cells; arguments as in `evaluate`."""
    names = fitted.side_names
    if new is None:
        new = list(dict.fromkeys([(), *((name,) for name in names), names]))
    labels = fitted.values[:, None].copy()
    labels.flags.writeable = False
    weights = np.ones(len(labels)) if fitted.weights is None else fitted.weights
    sides = list(zip(names, fitted.places, strict=True))
    results = []
    for setting in map(fitted.setting, new):
        held_groups = groups
        if isinstance(groups, Mapping):
            held_groups = {name: groups[name] for name in setting.names if name in groups}
        try:
            units = fitted.units(setting, held_groups)
            held_out = fitted.held_out(units)
            held_out.flags.writeable = False
        except LeverageError as error:
            if error_score == "raise":
                raise
            trouble = message_of(error)
            results += [
                SettingScore(setting, judge, float(error_score), trouble=trouble)
                for judge in judges
            ]
            continue
        has_groups = held_groups is not None and len(held_groups) > 0
        method = "exact leave-group-out" if has_groups else "exact leave-one-out"
        means = units.baselines(fitted.values, weights, sides, setting.names)
        for judge in judges:
            prepared = judge.prepare(labels, average="pooled", tie_tolerance=None)
            scores = {name: _score(prepared, mean[:, None]) for name, mean in means.items()}
            results.append(
                SettingScore(
                    setting,
                    judge,
                    float(prepared(held_out[:, None])),
                    method=method,
                    baselines=scores,
                    predictions=held_out,
                    labels=labels[:, 0],
                )
            )
    return results


def _duration(setting: Setting) -> float:
    """Return about how long a setting takes beside the others: D has five times as many folds."""
    return 5.0 if setting is Setting.D else 1.0


@dataclass(frozen=True)
class _Wanted:
    """What is computed from the held-out predictions of each setting; attributes as in `evaluate`.

    Attributes
    ----------
    judges : sequence of Scorer
    n_permutations : int
    error_score : "raise" or float
    by_setting : bool
        Whether each actual setting is scored separately.
    """

    judges: Sequence[Scorer]
    n_permutations: int
    error_score: str | float
    by_setting: bool

    def scores(
        self, fitted: Fitted, settings: Sequence[Setting], how: dict[str, Any]
    ) -> list[SettingScore]:
        """Return the scores in some settings; `how` are the arguments of the hold-out."""
        results = []
        with Phase("Hold-out", sum(map(_duration, settings)), of=1):
            for setting in settings:
                with Phase(f"Setting {setting.value}", 1, of=_duration(setting)):
                    results += self._scores_of(HoldOuts(fitted, setting, how))
        return results

    def _scores_of(self, hold_outs: HoldOuts) -> list[SettingScore]:
        """Return the scores of all metrics in one setting, or of each actual setting."""
        shape = hold_outs.fitted.labels.shape
        is_alone = any(shape[axis] < 2 for axis in hold_outs.setting.new)
        results = []
        for judge in self.judges:
            held: Judged | None = None
            try:
                if is_alone:
                    raise nothing_left()
                held = hold_outs.of(judge)
            except ValueError as error:
                if not isinstance(error, LeverageError):  # the arguments are wrong
                    raise
                results.append(self._without_score(hold_outs, judge, error))
                continue
            for actual in held.actual_settings() if self.by_setting else [None]:
                try:
                    results.append(_score_of(held, actual, self.n_permutations))
                except ValueError as error:
                    results.append(self._without_score(hold_outs, judge, error, held, actual))
        return results

    def _without_score(
        self,
        hold_outs: HoldOuts,
        judge: Scorer,
        error: ValueError,
        held: Judged | None = None,
        actual: Setting | None = None,
    ) -> SettingScore:
        """Return a result with the error score and what is known, or raise the error."""
        if self.error_score == "raise":
            raise error
        return SettingScore(
            hold_outs.setting,
            judge,
            float(self.error_score),
            trouble=message_of(error),
            is_network=hold_outs.fitted.is_network,
            average=judge.average_in(hold_outs.setting),
            actual=actual,
            **({} if held is None else _facts(held, held.targets_of(actual))),
        )


def _facts(held: Judged, targets: Array) -> dict[str, Any]:
    """Return what is known of a hold-out and of the labels to score, whatever the score is."""
    fitted = held.fitted
    units = held.held_out.units
    facts: dict[str, Any] = {
        "method": held.method,
        "reason": held.reason,
        "n_identical": _n_identical(fitted, held.setting, units),
        "actual_counts": held.actual_counts,
    }
    for name, values in (("predictions", held.held_out.predictions), ("labels", targets)):
        facts[name] = to_numpy(values).view()
        facts[name].flags.writeable = False  # they may be arrays of the model
    return facts


def _score_of(held: Judged, actual: Setting | None, n_permutations: int) -> SettingScore:
    """Return one score of held-out predictions, or of those of an actual setting."""
    fitted = held.fitted
    setting = held.setting
    judge = held.judge
    targets = held.targets_of(actual)
    facts = _facts(held, targets)
    scored = held.score(targets)
    null = math.nan  # a model that was fitted again has no common spectra for permuted labels
    if n_permutations and held.held_out.is_fixed and actual is None:
        if held.pairs is not None:
            null = _null_of_pairs(fitted, held.pairs, n_permutations)
        else:
            prepared = held.prepared(targets)
            null = null_mean(fitted, setting, held.held_out.units, prepared, n_permutations)
    return SettingScore(
        setting,
        judge,
        scored.score,
        scored.n_undefined,
        null=null,
        baselines=baselines_beside(fitted, judge, setting, held.held_out.units, targets),
        is_network=fitted.is_network,
        average=judge.average_in(setting),
        n_parts=scored.n_parts,
        folds=held.folds,
        pairs=held.pairs,
        actual=actual,
        **facts,
    )


def _n_identical(fitted: Fitted, setting: Setting, units: Units) -> tuple[int, int]:
    """Return the number of held-out instances and of tasks that have an identical one outside of their fold."""
    counts = [0, 0]
    for axis, folds in units.of_sides(fitted.labels.shape, setting):
        codes = fitted.identical(axis)
        if codes is not None:
            n_folds = np.bincount(np.unique(np.stack([codes, folds]), axis=1)[0])
            counts[axis] = int(np.count_nonzero(n_folds[codes] > 1))
    return counts[0], counts[1]


def scoring_of(fitted: Fitted, scoring: Any = None) -> Any:
    """Return the metric of a fitted model: the given one, that of its search, or the default for its labels."""
    metric = fitted.scoring if scoring is None else scoring
    if metric is None:
        return usual_scoring(fitted.labels.values)
    return metric

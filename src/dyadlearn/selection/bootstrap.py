"""Scores of a grid whose instances and tasks are drawn again with replacement: how far a score may be off.

Cells are never drawn one by one: those of a row share their instance and those of a column their task, so there is
less to learn from them than their number says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import Array, as_array_of, namespace, take_block, to_numpy
from dyadlearn._checks import check_choice, check_share, check_whole
from dyadlearn.labels import read_labels
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.metrics.cells import Metric, as_average, read_stack
from dyadlearn.settings import Setting


@dataclass(frozen=True)
class Interval:
    """A score and how far it may be off.

    Attributes
    ----------
    score : float
        Of the grid itself.
    low, high : float
        Ends of the interval.
    level : float
        The share of resamples in it.
    n_resamples : int
        Resamples that have a score.
    n_undefined : int
        Resamples where the metric is undefined, left out.
    """

    score: float
    low: float
    high: float
    level: float
    n_resamples: int
    n_undefined: int

    def __str__(self) -> str:
        return f"{self.score:.4g} ({100 * self.level:g} % interval {self.low:.4g} … {self.high:.4g})"


def bootstrap_interval(
    Y: Any,
    F: Any,
    scoring: Any = "neg_mean_squared_error",
    *,
    setting: str | Setting | None = None,
    average: str | None = None,
    over: str = "both",
    n_resamples: int = 1000,
    level: float = 0.95,
    random_state: Any = None,
) -> Interval:
    """Tell how far a score may be off because other instances or tasks could have been drawn.

    Instances, tasks or both are drawn with replacement as often as there are any, the score is computed on the
    grid of those drawn, and the interval holds the middle share `level` of the scores. Cells are never drawn
    one by one: those of a row share their instance and those of a column their task, so there is less to
    learn from them than their number says, and the interval would be too narrow.

    The interval knows nothing of how the predictions were chosen: give it those of `nested_score`, or of a
    regularisation that was fixed beforehand.

    Parameters
    ----------
    Y : array or frame of shape (m, q)
        Labels; NaN where not observed.
    F : array or frame of shape (m, q)
        Predictions that were made without their labels.
    scoring : str or callable, default="neg_mean_squared_error"
        See `dyadlearn.metrics.scorer`.
    setting : str or Setting, default=None
        Chooses the average: micro in A and D, per instance in B, per task in C.
    average : {"micro", "instance", "task"}, default=None
        The average itself, instead of `setting`.
    over : {"instances", "tasks", "both"}, default="both"
        What is drawn: whatever would be another in a repetition of the study.
    n_resamples : int, default=1000
    level : float, default=0.95
    random_state : int, RandomState or None, default=None

    Returns
    -------
    Interval
        Draws where the score is undefined are left out, and counted.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import bootstrap_interval
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.normal(size=(30, 20))
    >>> print(bootstrap_interval(Y, Y + rng.normal(size=(30, 20)), "r2", over="instances", random_state=0))
    0.07397 (95 % interval ...)
    """
    check_choice(over, "over", ("instances", "tasks", "both"))
    n_resamples, level = check_whole(n_resamples, "n_resamples"), check_share(level, "level")
    grid, where = read_labels(Y), as_average(average, setting)
    stack, shape = read_stack(F, grid)
    if shape:
        raise ValueError(f"F must be one grid of predictions, found a stack of shape {shape} of them.")
    labels, predicted, (m, q) = grid.values, stack[0, ...], grid.values.shape
    for count, name, spared in ((m, "instances", "tasks"), (q, "tasks", "instances")):
        if over != spared and count < 2:
            raise ValueError(f"Y has only {count} of the {name} that are to be drawn: at least two are needed.")
    judge = scorer(scoring)
    score = float(judge(labels, predicted, average=where, tie_tolerance=None))
    options: dict[str, Any] = {"average": where, "over": over, "n_resamples": n_resamples, "random_state": random_state}
    scores = resampled_scores(labels, stack, judge, **options)[:, 0]
    scores = scores[~np.isnan(scores)]
    if not scores.size:
        raise ValueError(f"{judge.name} is undefined in all {n_resamples} resamples: there are too few labels for it.")
    low, high = np.quantile(scores, [(1 - level) / 2, (1 + level) / 2])
    return Interval(score, float(low), float(high), level, scores.size, n_resamples - scores.size)


def resampled_scores(
    labels: Array,
    stack: Array,
    judge: Scorer,
    *,
    average: str,
    over: str = "both",
    n_resamples: int,
    random_state: Any = None,
) -> np.ndarray:
    """Return the scores of some predictions on grids of instances and tasks that are drawn with replacement.

    Parameters
    ----------
    labels : array of shape (m, q)
        NaN where not observed.
    stack : array of shape (s, m, q)
        Predictions of s models; all are scored on the same draws.
    judge : Scorer
    average : {"micro", "instance", "task"}
    over : {"instances", "tasks", "both", "nodes"}, default="both"
        What is drawn, as often as there are any. Nodes are those of a network, the same on both sides; a node that is
        drawn twice makes no pair with itself.
    n_resamples : int
    random_state : int, RandomState or None, default=None

    Returns
    -------
    array of shape (n_resamples, s)
        NaN where a score is undefined.
    """
    (m, q), prepared, by_row = labels.shape, judge.prepare(labels, average=average, tie_tolerance=None), None
    if (average, over) in (("instance", "instances"), ("task", "tasks")):
        # Where the score of a row does not depend on the other rows, it is computed once.
        by_row = prepared if isinstance(prepared, Metric) and prepared.is_of_rows else None
    each = np.full((stack.shape[0], m if over == "instances" else q), np.nan)
    if by_row is not None:
        each[:, by_row.rows] = to_numpy(by_row.each(stack))
    random, scores = check_random_state(random_state), np.full((n_resamples, stack.shape[0]), np.nan)
    for resample in range(n_resamples):
        rows = np.arange(m) if over == "tasks" else random.randint(m, size=m)
        columns = rows if over == "nodes" else np.arange(q) if over == "instances" else random.randint(q, size=q)
        if by_row is None:
            drawn = take_block(labels, rows, columns)
            drawn = _without_twins(drawn, rows) if over == "nodes" else drawn
            scores[resample] = score_or_nan(judge, drawn, _blocks(stack, rows, columns), average=average)
        else:
            own = each[:, rows if over == "instances" else columns]
            defined = own[:, ~np.isnan(own[0])]
            scores[resample] = by_row.combined(defined) if defined.size else np.nan
    return scores


def score_or_nan(judge: Scorer, Y: Array, F: Array, **average: Any) -> Any:
    """Return the score of a part of a grid, NaN where it is undefined; the whole grid is known to have one."""
    try:
        return to_numpy(judge(Y, F, tie_tolerance=None, **average))
    except ValueError:
        return float("nan")


def _blocks(stack: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Return the same rows and columns of every grid of a stack (s, m, q)."""
    return namespace(stack).stack([take_block(stack[place, ...], rows, columns) for place in range(stack.shape[0])])


def _without_twins(drawn: Array, nodes: np.ndarray) -> Array:
    """Return labels (n, n) of drawn nodes, NaN where a node meets another draw of itself."""
    twins = np.equal.outer(nodes, nodes)
    np.fill_diagonal(twins, False)
    xp = namespace(drawn)
    return xp.where(as_array_of(twins, drawn), xp.full_like(drawn, float("nan")), drawn)

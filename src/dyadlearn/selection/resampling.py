"""Scores of a grid whose instances and tasks are drawn again: how far they may be off.

Cells are never drawn one by one: those of a row share their instance and those of a column their task, so there is
less to learn from them than their number says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import Array, as_array_of, namespace, take_block, to_numpy
from dyadlearn.metrics import Scorer
from dyadlearn.metrics.cells import Metric

__all__ = ["resampled_scores", "score_or_nan"]


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

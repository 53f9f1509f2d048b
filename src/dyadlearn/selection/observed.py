"""Scores of predictions for observed pairs: all pairs together, in one vector."""

from __future__ import annotations

from typing import Any

from dyadlearn._array import Array
from dyadlearn.metrics import PreparedScorer, scorer
from dyadlearn.settings import Setting

__all__ = ["pair_score", "prepared_score"]


def pair_score(scoring: Any, values: Array) -> PreparedScorer:
    """Return a score of predictions (n,) for the labels of observed pairs, whatever instances and tasks they have.

    Parameters
    ----------
    scoring : str, callable or Scorer
        A metric that a row of a grid has by itself: here all pairs are one row.
    values : array of shape (n,)

    Raises
    ------
    ValueError
        If the score is one of grids.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.selection.observed import pair_score
    >>> pair_score("roc_auc", np.array([1.0, 0.0, 1.0]))(np.array([0.9, 0.5, 0.2]))
    0.5
    """
    judge = scorer(scoring)
    if not getattr(judge.metric, "is_of_rows", False):
        raise ValueError(
            f"{judge.name} is a score of grids, and this model is one of observed pairs alone: take one that two "
            "vectors have, such as 'neg_mean_squared_error', 'r2', 'pearson' or 'roc_auc', or what make_scorer of "
            "scikit-learn makes of your function."
        )
    return judge.prepare(values, average="micro", tie_tolerance=None)


def prepared_score(problem: Any, scoring: Any, setting: Setting, targets: Array | None = None) -> PreparedScorer:
    """Return a score of held-out predictions, averaged as the setting wants; of observed pairs over all of them.

    Parameters
    ----------
    problem : Problem or PairProblem
    scoring : str, callable or Scorer
    setting : Setting
    targets : array, default=None
        What predictions are compared with, as `dyadlearn.holdout.lone.scored_labels` returns it; None is all labels.
    """
    targets = problem.targets if targets is None else targets
    if problem.is_listed:
        return pair_score(scoring, targets)
    return scorer(scoring).prepare(targets, setting=setting, tie_tolerance=None)

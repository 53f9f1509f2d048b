"""Metrics of predictions for a grid or a stack of grids, with the average of each setting."""

from dyadlearn.metrics import errors, ranks, top
from dyadlearn.metrics.errors import *  # noqa: F403
from dyadlearn.metrics.ranks import *  # noqa: F403
from dyadlearn.metrics.scorers import PreparedScorer, Scorer, scorer, scorer_names
from dyadlearn.metrics.top import *  # noqa: F403

__all__ = ["PreparedScorer", "Scorer", "scorer", "scorer_names"]
__all__ += errors.__all__
__all__ += ranks.__all__
__all__ += top.__all__

"""How good predictions are: exact, for a grid or a stack of grids, in the average that suits each setting."""

from dyadlearn.metrics.errors import mean_absolute_error, mean_squared_error, r2, root_mean_squared_error
from dyadlearn.metrics.ranks import average_precision, concordance_index, pearson, roc_auc, spearman
from dyadlearn.metrics.scorers import PreparedScorer, Scorer, scorer, scorer_names
from dyadlearn.metrics.top import enrichment_factor, ic_index, ndcg_at_k, precision_at_k, recall_at_k

__all__ = [
    "PreparedScorer",
    "Scorer",
    "average_precision",
    "concordance_index",
    "enrichment_factor",
    "ic_index",
    "mean_absolute_error",
    "mean_squared_error",
    "ndcg_at_k",
    "pearson",
    "precision_at_k",
    "r2",
    "recall_at_k",
    "roc_auc",
    "root_mean_squared_error",
    "scorer",
    "scorer_names",
    "spearman",
]

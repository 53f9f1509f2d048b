"""The estimators: thin shells over pure functions."""

from dyadlearn.models._tasks import Tasks
from dyadlearn.models.independent import IndependentTaskRidge
from dyadlearn.models.kronecker import KroneckerRidge
from dyadlearn.models.online import OnlineTwoStepRidge
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.projection import CanonicalProjection
from dyadlearn.models.two_step import TwoStepRidge

__all__ = [
    "CanonicalProjection",
    "IndependentTaskRidge",
    "KroneckerRidge",
    "OnlineTwoStepRidge",
    "PairRegressor",
    "Tasks",
    "TwoStepRidge",
]

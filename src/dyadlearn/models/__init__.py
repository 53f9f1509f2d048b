"""The estimators: thin shells over the solvers."""

from dyadlearn.models._tasks import Tasks
from dyadlearn.models.independent import IndependentTaskRidge
from dyadlearn.models.kronecker import KroneckerRidge
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.two_step import TwoStepRidge

__all__ = [
    "IndependentTaskRidge",
    "KroneckerRidge",
    "PairRegressor",
    "Tasks",
    "TwoStepRidge",
]

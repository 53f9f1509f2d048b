"""Estimators: kernel ridge models of labelled pairs, in the conventions of scikit-learn."""

from dyadlearn.models.grid import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRidge,
)
from dyadlearn.models.multiway import MultiwayRidge
from dyadlearn.models.online import OnlineTwoStepRidge
from dyadlearn.models.pairs import PairRegressor
from dyadlearn.models.reading import Tasks
from dyadlearn.models.two_step_regressor import TwoStepRegressor

__all__ = [
    "IndependentTaskRidge",
    "KroneckerRidge",
    "MultiwayRidge",
    "OnlineTwoStepRidge",
    "PairKernelRidge",
    "PairRegressor",
    "Tasks",
    "TwoStepRegressor",
    "TwoStepRidge",
]

"""Learning from labelled pairs: an instance, a task, and a label for the two together."""

from dyadlearn.holdout.refit import verify_holdout
from dyadlearn.models import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairRegressor,
    Tasks,
    TwoStepRidge,
)
from dyadlearn.selection import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    SettingKFold,
    TwoStepRidgeCV,
    audit,
    bootstrap_interval,
    evaluate,
    landscape,
    nested_score,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "IndependentTaskRidge",
    "IndependentTaskRidgeCV",
    "KroneckerRidge",
    "KroneckerRidgeCV",
    "PairRegressor",
    "SettingKFold",
    "Tasks",
    "TwoStepRidge",
    "TwoStepRidgeCV",
    "audit",
    "bootstrap_interval",
    "evaluate",
    "landscape",
    "nested_score",
    "verify_holdout",
]

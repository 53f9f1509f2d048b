"""Learning from labelled pairs: an instance, a task, and a label for the two together."""

import sys

if sys.argv[:1] == ["-m"]:  # python -m dyadlearn: Ctrl-C is quiet while the rest is loaded
    import _dyadlearn_main  # noqa: F401

from dyadlearn.diagnostics import calibrate, compare, explain, permutation_test, recommend, screen, top_pairs
from dyadlearn.features import read_features
from dyadlearn.holdout.refit import verify_holdout
from dyadlearn.kernels import Descriptions, Landmarks
from dyadlearn.models import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    Tasks,
    TwoStepRegressor,
    TwoStepRidge,
)
from dyadlearn.selection import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    LearnedKernelRidge,
    PairKernelRidgeCV,
    SettingKFold,
    TwoStepRidgeCV,
    audit,
    bootstrap_interval,
    evaluate,
    landscape,
    nested_score,
)
from dyadlearn.store import load, save

__version__ = "0.1.0.dev0"


__all__ = [
    "Descriptions",
    "IndependentTaskRidge",
    "IndependentTaskRidgeCV",
    "KroneckerRidge",
    "KroneckerRidgeCV",
    "Landmarks",
    "LearnedKernelRidge",
    "OnlineTwoStepRidge",
    "PairKernelRidge",
    "PairKernelRidgeCV",
    "PairRegressor",
    "SettingKFold",
    "Tasks",
    "TwoStepRegressor",
    "TwoStepRidge",
    "TwoStepRidgeCV",
    "audit",
    "bootstrap_interval",
    "calibrate",
    "compare",
    "evaluate",
    "explain",
    "landscape",
    "load",
    "nested_score",
    "permutation_test",
    "read_features",
    "recommend",
    "save",
    "screen",
    "top_pairs",
    "verify_holdout",
]

"""Judging and choosing models."""

from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.selection.audit import Audit, audit
from dyadlearn.selection.evaluate import Scores, evaluate
from dyadlearn.selection.landscape import landscape
from dyadlearn.selection.learned import LearnedKernelRidge
from dyadlearn.selection.nested import Interval, NestedScore, bootstrap_interval, nested_score
from dyadlearn.selection.search import IndependentTaskRidgeCV, KroneckerRidgeCV, PairKernelRidgeCV, TwoStepRidgeCV

__all__ = [
    "Audit",
    "IndependentTaskRidgeCV",
    "Interval",
    "KroneckerRidgeCV",
    "LearnedKernelRidge",
    "NestedScore",
    "PairKernelRidgeCV",
    "Scores",
    "SettingKFold",
    "TwoStepRidgeCV",
    "audit",
    "bootstrap_interval",
    "evaluate",
    "landscape",
    "nested_score",
]

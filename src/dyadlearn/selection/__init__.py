"""Judging and choosing models."""

from dyadlearn.selection.audit import Audit, audit
from dyadlearn.selection.evaluate import evaluate
from dyadlearn.selection.landscape import landscape
from dyadlearn.selection.search import IndependentTaskRidgeCV, KroneckerRidgeCV, TwoStepRidgeCV
from dyadlearn.selection.splitters import SettingKFold

__all__ = [
    "Audit",
    "IndependentTaskRidgeCV",
    "KroneckerRidgeCV",
    "SettingKFold",
    "TwoStepRidgeCV",
    "audit",
    "evaluate",
    "landscape",
]

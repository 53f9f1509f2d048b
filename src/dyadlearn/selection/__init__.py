"""Model selection: searches, scores, landscapes, learned kernels and audits of splits."""

from importlib import import_module

from dyadlearn._registry import MODELS
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.holdout.time import TimeSplit
from dyadlearn.selection.audit import Audit, CellAudit, audit
from dyadlearn.selection.choosing import Better, better_of
from dyadlearn.selection.evaluate import (
    Interval,
    Scores,
    SettingScore,
    bootstrap_interval,
    evaluate,
)
from dyadlearn.selection.landscape import default_alphas, landscape
from dyadlearn.selection.learned import LearnedKernelRidge
from dyadlearn.selection.nearness import Nearness
from dyadlearn.selection.nested import NestedScore, nested_score
from dyadlearn.selection.search import (
    IndependentTaskRidgeCV,
    KroneckerRidgeCV,
    PairKernelRidgeCV,
    TwoStepRidgeCV,
)

__all__ = [
    "Audit",
    "Better",
    "CellAudit",
    "IndependentTaskRidgeCV",
    "Interval",
    "KroneckerRidgeCV",
    "LearnedKernelRidge",
    "Nearness",
    "NestedScore",
    "PairKernelRidgeCV",
    "Scores",
    "SettingKFold",
    "SettingScore",
    "TimeSplit",
    "TwoStepRidgeCV",
    "audit",
    "better_of",
    "bootstrap_interval",
    "default_alphas",
    "evaluate",
    "landscape",
    "nested_score",
]

# Modules with models, imported so that stored models can be loaded.
for _each in MODELS.values():
    if _each.module:
        import_module(f"dyadlearn.{_each.module}")

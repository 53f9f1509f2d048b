"""Diagnostics of fitted models: suspicious labels, recommendations, explanations, calibration and tests."""

from __future__ import annotations

from dyadlearn.diagnostics.calibration import Calibration, Reliability, SettingCalibration, calibrate
from dyadlearn.diagnostics.comparing import Comparison, Difference, compare
from dyadlearn.diagnostics.explaining import Contribution, Contributions, Explanation, explain
from dyadlearn.diagnostics.permutation import PermutationTest, permutation_test
from dyadlearn.diagnostics.recommending import (
    RecommendationLists,
    Recommendations,
    Screening,
    TopPairs,
    recommend,
    screen,
    top_pairs,
)

__all__ = [
    "Calibration",
    "Comparison",
    "Contribution",
    "Contributions",
    "Difference",
    "Explanation",
    "PermutationTest",
    "RecommendationLists",
    "Recommendations",
    "Reliability",
    "Screening",
    "SettingCalibration",
    "TopPairs",
    "calibrate",
    "compare",
    "explain",
    "permutation_test",
    "recommend",
    "screen",
    "top_pairs",
]

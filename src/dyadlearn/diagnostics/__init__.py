"""What is asked of a model before it is believed: which labels are wrong, which pairs to try, how sure it all is."""

from __future__ import annotations

from dyadlearn.diagnostics.calibration import Calibration, SettingCalibration, calibrate
from dyadlearn.diagnostics.explaining import Contribution, Contributions, Explanation, explain
from dyadlearn.diagnostics.permutation import PermutationTest, permutation_test
from dyadlearn.diagnostics.recommending import Recommendations, recommend
from dyadlearn.diagnostics.reliability import Reliability
from dyadlearn.diagnostics.screening import Screening, screen

__all__ = [
    "Calibration",
    "Contribution",
    "Contributions",
    "Explanation",
    "Recommendations",
    "Reliability",
    "Screening",
    "SettingCalibration",
    "calibrate",
    "explain",
    "recommend",
    "screen",
]
__all__ = ["PermutationTest", "Recommendations", "Screening", "permutation_test", "recommend", "screen"]
from dyadlearn.diagnostics.recommending import RecommendationLists, TopPairs, top_pairs

__all__ = ["RecommendationLists", "Recommendations", "Screening", "TopPairs", "recommend", "screen", "top_pairs"]

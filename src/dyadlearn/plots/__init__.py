"""Pictures in the manner of scikit-learn: a Display holds the numbers of a view and draws them on matplotlib axes."""

from __future__ import annotations

from dyadlearn.plots.comparison import ComparisonDisplay
from dyadlearn.plots.explanation import ExplanationDisplay
from dyadlearn.plots.grid import GridDisplay
from dyadlearn.plots.holdout import HoldoutDisplay
from dyadlearn.plots.landscape import LandscapeDisplay
from dyadlearn.plots.learning import LearningCurveDisplay
from dyadlearn.plots.permutation import PermutationDisplay
from dyadlearn.plots.reliability import ReliabilityDisplay
from dyadlearn.plots.spectrum import SpectrumDisplay
from dyadlearn.plots.weights import WeightsDisplay

__all__ = [
    "ComparisonDisplay",
    "ExplanationDisplay",
    "GridDisplay",
    "HoldoutDisplay",
    "LandscapeDisplay",
    "LearningCurveDisplay",
    "PermutationDisplay",
    "ReliabilityDisplay",
    "SpectrumDisplay",
    "WeightsDisplay",
]

"""Pictures in the manner of scikit-learn: a Display holds the data and draws them on any matplotlib axes."""

from __future__ import annotations

from dyadlearn.plots.grid import GridDisplay
from dyadlearn.plots.holdout import HoldoutDisplay
from dyadlearn.plots.landscape import LandscapeDisplay
from dyadlearn.plots.learning import LearningCurveDisplay
from dyadlearn.plots.spectrum import SideSpectrum, SpectrumDisplay

__all__ = [
    "GridDisplay",
    "HoldoutDisplay",
    "LandscapeDisplay",
    "LearningCurveDisplay",
    "SideSpectrum",
    "SpectrumDisplay",
]

"""Pictures in the manner of scikit-learn: a Display holds the numbers of a view and draws them on matplotlib axes."""

from __future__ import annotations

from dyadlearn.plots.grid import GridDisplay
from dyadlearn.plots.holdout import HoldoutDisplay
from dyadlearn.plots.landscape import LandscapeDisplay
from dyadlearn.plots.spectrum import SpectrumDisplay

__all__ = ["GridDisplay", "HoldoutDisplay", "LandscapeDisplay", "SpectrumDisplay"]

"""Pictures in the manner of scikit-learn: a Display holds the numbers of a view and draws them on matplotlib axes."""

from __future__ import annotations

from dyadlearn.plots.displays import HoldoutDisplay, LandscapeDisplay

__all__ = ["HoldoutDisplay", "LandscapeDisplay"]

"""Plots with the Display API of scikit-learn: a Display has the numbers of a plot and draws it with matplotlib."""

from dyadlearn.plots.displays import HoldoutDisplay, LandscapeDisplay

__all__ = ["HoldoutDisplay", "LandscapeDisplay"]

"""What all Displays share: matplotlib where it is there, axes, colours, words."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dyadlearn._array import to_numpy
from dyadlearn._tables import Ids
from dyadlearn.models import OnlineTwoStepRidge, PairRegressor
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.selection.evaluate import model_holdout
from dyadlearn.settings import Setting

__all__ = [
    "COLOURS",
    "FAINT",
    "MARKERS",
    "STYLES",
    "axes_of",
    "fitted_model",
    "held_out",
    "matplotlib",
    "new_axes",
    "power_ticks",
    "setting_words",
    "side_words",
    "tidy",
]

# The colours of Okabe and Ito, which most colour-blind people can tell apart; line styles and markers tell the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":")
MARKERS = "osD^vPX"
# Of what is there to compare with: an identity line, chance.
FAINT = "0.6"


def matplotlib(module: str = "pyplot") -> Any:
    """Return a module of matplotlib, which is loaded here and nowhere else."""
    try:
        return import_module(f"matplotlib.{module}")
    except ModuleNotFoundError as error:
        raise ImportError("Drawing needs matplotlib, which is not installed: pip install 'dyadlearn[plots]'") from error


def new_axes(ax: Any, size: tuple[float, float] = (6.0, 4.5)) -> Any:
    """Return the axes to draw on: those given, else those of a new figure."""
    if ax is None:
        return matplotlib().subplots(figsize=size, layout="constrained")[1]
    if not isinstance(ax, matplotlib("axes").Axes):
        raise TypeError(f"ax must be the axes of a matplotlib figure, found {type(ax).__name__}.")
    return ax


def axes_of(ax: Any, n_panels: int) -> list[Any]:
    """Return axes for some panels beside each other: those given, else those of a new figure."""
    if ax is None:
        size = (3.1 * n_panels, 3.6) if n_panels > 1 else (4.6, 4.6)
        grid = matplotlib().subplots(
            1, n_panels, figsize=size, layout="compressed", squeeze=False, sharex=True, sharey=True
        )[1]
        return list(grid[0])
    given = list(ax.ravel() if isinstance(ax, np.ndarray) else ax) if isinstance(ax, Sequence | np.ndarray) else [ax]
    if len(given) != n_panels:
        raise ValueError(f"ax must be {n_panels} axes, one for each panel, found {len(given)}.")
    return [new_axes(each) for each in given]


def tidy(ax: Any, *, grid: bool = True) -> None:
    """Take away what tells nothing."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(alpha=0.3, linewidth=0.6)


def power_ticks(axis: Any) -> None:
    """Label an axis that holds powers of ten by the numbers they stand for."""
    ticker = matplotlib("ticker")
    axis.set_major_locator(ticker.MaxNLocator(nbins=7, integer=True))
    axis.set_major_formatter(ticker.FuncFormatter(lambda power, _: f"$10^{{{power:g}}}$"))


def setting_words(setting: Setting) -> str:
    """Return a setting as titles and legends call it."""
    return f"{setting.value}: {'both new' if setting is Setting.D else f'new {setting.description}'}"


def side_words(side: str, ids: Ids | None) -> str:
    """Return what one side is called, with the name that its ids have in a frame."""
    return side if ids is None or ids.name is None else f"{side} ({ids.name})"


def fitted_model(model: Any, remedy: str) -> PairwiseRidge:
    """Return the model to look at, refusing one that has not kept its labels; `remedy` says what to do instead."""
    if isinstance(model, OnlineTwoStepRidge):
        raise TypeError(f"OnlineTwoStepRidge keeps statistics only, not the labels: {remedy}.")
    if not isinstance(model, PairwiseRidge | PairRegressor):
        raise TypeError(
            "model must be a TwoStepRidge, KroneckerRidge or IndependentTaskRidge, or one that chooses its "
            f"regularisation, found {type(model).__name__}: {remedy}."
        )
    check_is_fitted(model)
    return model.model_ if isinstance(model, PairRegressor) else model


def held_out(model: PairwiseRidge, setting: Setting, cv: int | None = None) -> tuple[np.ndarray, str]:
    """Return the hold-out predictions (m, q) that `dyadlearn.evaluate` scores, and how they were made."""
    values, method = model_holdout(model, setting, cv)
    return to_numpy(values), method

"""What all Displays share: matplotlib where it is there, axes, colours, words."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from dyadlearn.diagnostics.fitted import is_network, labelled_model
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names

__all__ = [
    "COLOURS",
    "FAINT",
    "STYLES",
    "Display",
    "axes_of",
    "matplotlib",
    "names_of",
    "new_axes",
    "tidy",
]

# The colours of Okabe and Ito, which most colour-blind people can tell apart; line styles tell the same.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":")
# Of what is there to compare with: an identity line, chance.
FAINT = "0.6"


class Display:
    """A picture of a view, whose numbers are its own: ``display.scores`` are those of ``display.view``.

    `names` say what the sides are called, where somebody has said so.
    """

    ax_: Any
    figure_: Any

    def __init__(self, view: Any, names: SideNames | None = None) -> None:
        self.view, self.names = view, names

    def __getattr__(self, name: str) -> Any:
        # Only what the picture itself does not have is looked for here.
        if name in ("view", "names") or name.endswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name}: it comes with plot().")
        return getattr(self.view, name)

    def _setting(self, setting: Setting) -> str:
        """Return a setting as titles and legends call it."""
        return setting.in_words if self.names is None else self.names.in_words(setting)

    def _open(self, ax: Any) -> None:
        """Draw on the axes given, else on those of a new figure."""
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure


def names_of(sides: Any, model: Any = None) -> SideNames | None:
    """Return what the sides are called, None where nobody has said so; those of a network may have one name."""
    if sides is None:
        return None
    network = model is not None and is_network(labelled_model(model))
    return side_names(sides, network=network)


def matplotlib(module: str = "pyplot") -> Any:
    """Return a module of matplotlib, which is loaded here and nowhere else."""
    try:
        return import_module(f"matplotlib.{module}")
    except ModuleNotFoundError as error:
        raise ImportError("Drawing needs matplotlib, which is not installed: pip install 'dyadlearn[plots]'") from error


def new_axes(ax: Any) -> Any:
    """Return the axes to draw on: those given, else those of a new figure."""
    if ax is None:
        return matplotlib().subplots(figsize=(6.0, 4.5), layout="constrained")[1]
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
    given = np.ravel(np.array(ax, dtype=object)).tolist()
    if len(given) != n_panels:
        raise ValueError(f"ax must be {n_panels} axes, one for each panel, found {len(given)}.")
    return [new_axes(each) for each in given]


def tidy(ax: Any) -> None:
    """Take away what tells nothing, and draw faint lines to read values by."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.3, linewidth=0.6)

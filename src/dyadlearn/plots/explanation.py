"""Where a prediction comes from: bars of what training labels bring to it."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from dyadlearn.diagnostics.explaining import Contributions, Explanation, explain
from dyadlearn.plots._canvas import COLOURS, FAINT, Display, axes_of, matplotlib, tidy

__all__ = ["ExplanationDisplay"]

# Longer names would leave no room for the bars.
_LONGEST = 24


class ExplanationDisplay(Display):
    """What training pairs, instances and tasks bring to one prediction, as bars that sum to it.

    The largest contributions of either sign stand above, all others together in grey at the bottom. Nodes of a network
    have one panel. Make a Display with `from_estimator` or `from_result`.

    Attributes
    ----------
    prediction, instances, tasks, pairs, … :
        As in `dyadlearn.diagnostics.Explanation`, which is `view`.
    ax_ : array of matplotlib axes
        After `plot`, as are those below: one for pairs, one for instances and one for tasks.
    figure_ : matplotlib figure
    bars_ : list of BarContainer
        The bars of each panel, from the bottom.

    Examples
    --------
    >>> import numpy as np
    >>> from matplotlib.figure import Figure
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.plots import ExplanationDisplay
    >>> X, T = np.eye(3), np.eye(2)
    >>> model = TwoStepRidge().fit(X, np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), tasks=T)
    >>> display = ExplanationDisplay.from_estimator(model, 0, 1, top=2, ax=Figure().subplots(1, 3))
    >>> [len(bars) for bars in display.bars_]
    [3, 3, 2]
    """

    view: Explanation
    bars_: list[Any]

    @classmethod
    def from_estimator(
        cls, model: Any, instance: Any, task: Any, *, top: int = 10, sides: Any = None, ax: Any = None
    ) -> Self:
        """Explain a prediction and draw it.

        Parameters
        ----------
        model, instance, task, top, sides
            As in `dyadlearn.explain`.
        ax : three matplotlib axes, default=None
            Where to draw; None makes a new figure. Two for a network.

        Returns
        -------
        ExplanationDisplay
        """
        matplotlib()  # before the work
        return cls(explain(model, instance, task, top=top, sides=sides)).plot(ax)

    @classmethod
    def from_result(cls, result: Explanation, *, ax: Any = None) -> Self:
        """Draw what `dyadlearn.explain` has found.

        Parameters
        ----------
        result : Explanation
        ax
            As in `from_estimator`.

        Returns
        -------
        ExplanationDisplay
        """
        return cls(result).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the bars.

        Parameters
        ----------
        ax : three matplotlib axes, default=None
            Where to draw; None makes a new figure. Two for a network.

        Returns
        -------
        self
        """
        view, names = self.view, self.view.names
        kinds = {"pair": view.pairs, names.instance: view.instances, names.task: view.tasks}
        if ax is None:
            tallest = max(map(len, kinds.values())) + 2
            size = (4.2 * len(kinds), 1.4 + 0.27 * tallest)
            ax = matplotlib().subplots(1, len(kinds), figsize=size, layout="constrained")[1]
        panels = axes_of(ax, len(kinds))
        self.bars_ = [_bars(panel, word, found) for panel, (word, found) in zip(panels, kinds.items(), strict=True)]
        title = f"{view.prediction:.4g} for {_plain(view.subject, 3 * _LONGEST)}"
        panels[0].set_title(f"{title}\nby pair", loc="left", fontsize="medium", parse_math=False)
        self.ax_, self.figure_ = np.array(panels, dtype=object), panels[0].figure
        return self


def _bars(panel: Any, word: str, found: Contributions) -> Any:
    """Draw contributions, the largest above and the rest at the bottom."""
    values = [found.rest, *found.contributions[::-1].tolist()] if found.n_rest else found.contributions[::-1].tolist()
    labels = [_named(label) for label in found.ids[::-1]]
    colours = [COLOURS[0] if value >= 0 else COLOURS[1] for value in values]
    if found.n_rest:
        labels, colours[0] = [f"{found.n_rest:,} others", *labels], FAINT
    bars = panel.barh(range(len(values)), values, color=colours, height=0.7)
    panel.axvline(0.0, color="black", linewidth=0.8)
    panel.set_yticks(range(len(values)), labels, fontsize="small", parse_math=False)
    panel.locator_params(axis="x", nbins=5)
    panel.set_xlabel("Contribution to the prediction")
    panel.set_title(f"by {word}", loc="left", fontsize="medium", parse_math=False)
    tidy(panel)
    panel.grid(visible=False, axis="y")
    return bars


def _named(label: Any) -> str:
    """Return how an id, or both of a pair, stand beside a bar."""
    if isinstance(label, tuple):
        return ", ".join(_plain(str(part), _LONGEST // 2) for part in label)
    return _plain(str(label), _LONGEST)


def _plain(text: str, limit: int) -> str:
    """Return text as one short line."""
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"

"""Models beside each other: how far each is behind the best one, and how far that may be off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from dyadlearn.diagnostics.comparing import Comparison, compare
from dyadlearn.plots._canvas import COLOURS, FAINT, Display, matplotlib, tidy
from dyadlearn.settings import Setting

__all__ = ["ComparisonDisplay"]


class ComparisonDisplay(Display):
    """How far models are behind the best of them: a dot for each with the interval of its difference, a line at zero.

    An interval that reaches the line leaves open which of the two is better. Make a Display with `from_estimators`, or
    with `from_result` of what `dyadlearn.compare` found.

    Attributes
    ----------
    scores, differences, best_shares, verdict, …
        As in `dyadlearn.diagnostics.Comparison`, which is the `view`.
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    dots_ : dict of str to line
        Of each model, the best one at zero.
    intervals_ : dict of str to line
        Of all others.

    Examples
    --------
    >>> from matplotlib.figure import Figure
    >>> from dyadlearn import KroneckerRidge, TwoStepRidge
    >>> from dyadlearn.datasets import make_dyads
    >>> from dyadlearn.plots import ComparisonDisplay
    >>> data = make_dyads(20, 15, random_state=0)
    >>> models = {"two-step": TwoStepRidge(), "Kronecker": KroneckerRidge()}
    >>> models = {name: model.fit(data.X, data.Y, tasks=data.tasks) for name, model in models.items()}
    >>> ax = Figure().subplots()
    >>> display = ComparisonDisplay.from_estimators(models, "B", n_resamples=50, random_state=0, ax=ax)
    >>> sorted(display.dots_)
    ['Kronecker', 'two-step']
    """

    view: Comparison
    dots_: dict[str, Any]
    intervals_: dict[str, Any]

    @classmethod
    def from_estimators(
        cls, models: Mapping[str, Any], setting: str | Setting, *, ax: Any = None, **options: Any
    ) -> Self:
        """Compare fitted models and draw what is found.

        Parameters
        ----------
        models, setting
            As in `dyadlearn.compare`.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        **options
            Of `dyadlearn.compare`: ``scoring``, ``n_resamples``, ``level``, ``random_state``, ``sides``.

        Returns
        -------
        ComparisonDisplay
        """
        matplotlib()  # before the resamples, which take their time
        return cls(compare(models, setting, **options)).plot(ax)

    @classmethod
    def from_result(cls, result: Comparison, *, ax: Any = None) -> Self:
        """Draw what `dyadlearn.compare` found.

        Parameters
        ----------
        result : Comparison
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        ComparisonDisplay
        """
        if not isinstance(result, Comparison):
            raise TypeError(f"result must be what dyadlearn.compare returns, found {type(result).__name__}.")
        return cls(result).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw dots, intervals and the line of no difference.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
        """
        self._open(ax)
        view, names = self.view, list(self.view.scores)
        self.dots_, self.intervals_ = {}, {}
        self.ax_.axvline(0, color=FAINT, linewidth=1, zorder=1)
        behind = {line.other: line for line in view.to_best}
        for place, name in enumerate(names):
            line = behind.get(name)
            # What cannot be told from the best is drawn hollow, for those who see no colours.
            is_told = line is None or line.is_told
            colour = COLOURS[0] if line is None else COLOURS[1] if is_told else FAINT
            if line is not None:
                ends = [-line.high, -line.low]
                (self.intervals_[name],) = self.ax_.plot(ends, [place, place], color=colour, linewidth=1.8)
            look = {"color": colour, "marker": "o", "markersize": 7, "markerfacecolor": colour if is_told else "white"}
            at = 0.0 if line is None else -line.difference
            (self.dots_[name],) = self.ax_.plot([at], [place], linestyle="none", **look)
        labels = [f"{name}\n{score:.4g}" for name, score in view.scores.items()]
        # As they are written, whatever they hold: a dollar begins no formula.
        self.ax_.set_yticks(np.arange(len(names)), labels, parse_math=False)
        self.ax_.set_ylim(len(names) - 0.5, -0.5)
        self.ax_.set_xlabel(f"{view.scoring} behind the best")
        title = f"Setting {view.setting}, {100 * view.level:g} % intervals over {view.drawn}"
        self.ax_.set_title(title, fontsize="medium")
        tidy(self.ax_)
        return self

"""What a model has learned of its kernels: how much each description of a side weighs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from dyadlearn.diagnostics.fitted import labelled_model
from dyadlearn.plots._canvas import COLOURS, Display, matplotlib, names_of, tidy
from dyadlearn.sides import SideNames
from dyadlearn.views.weights import SideWeights, Weights, weights_of_model

__all__ = ["WeightsDisplay"]


class WeightsDisplay(Display):
    """Bars of the weights that a model with learned kernels has given to the descriptions of each side.

    The weights of a side, that of the constant among them, sum to 100 %. Beside each bar stands its weight and, where
    it is not one, the exponent that the kernel was raised to: above one it tells close entities from those less close,
    below one it levels them. Make a Display with `from_estimator`.

    Attributes
    ----------
    sides : dict of str to SideWeights
        ``"instances"`` and, where anything is known of them, ``"tasks"``: their ``weights`` and ``exponents``.
    shares : dict of str to float or None
        What the kernel between pairs is made of.
    stage_errors : list of float
        The held-out mean squared error of each stage, of which the model has the first `n_stages`.
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    bars_ : dict of str to BarContainer
        Of each side.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import LearnedKernelRidge
    >>> from dyadlearn.plots import WeightsDisplay
    >>> from matplotlib.figure import Figure
    >>> rng = np.random.default_rng(0)
    >>> X, noise, T = rng.normal(size=(30, 2)), rng.normal(size=(30, 5)), rng.normal(size=(20, 2))
    >>> Y = np.sin(2 * X) @ np.cos(T).T
    >>> model = LearnedKernelRidge(setting="B", n_steps=20).fit({"noise": noise, "signal": X}, Y, tasks=T)
    >>> display = WeightsDisplay.from_estimator(model, ax=Figure().subplots())
    >>> list(display.sides["instances"].weights)
    ['signal', 'noise', 'constant']
    """

    view: Weights
    bars_: dict[str, Any]

    @classmethod
    def from_estimator(cls, model: Any, *, sides: Sequence[str] | None = None, ax: Any = None) -> Self:
        """Draw the weights of a fitted `LearnedKernelRidge`.

        Parameters
        ----------
        model : fitted estimator
            A `LearnedKernelRidge`, or a `PairRegressor` of one.
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        WeightsDisplay

        Raises
        ------
        TypeError
            If the model has not learned its kernels.
        """
        view = weights_of_model(labelled_model(model))
        if view is None:
            raise TypeError(
                f"model must have learned its kernels, as LearnedKernelRidge does, found {type(model).__name__}."
            )
        return cls(view, names_of(sides, model)).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw a bar for each description, those of the instances above those of the tasks.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
        """
        self._open(ax)
        names = SideNames() if self.names is None else self.names
        self.bars_, ticks, foot = {}, [], 0.0
        for index, (name, (word, side)) in enumerate(zip(self.view.sides, self.view.named(names).items(), strict=True)):
            places = foot + np.arange(len(side.weights))
            self.bars_[name] = self._draw(side, places, COLOURS[index], word)
            ticks += list(zip(places.tolist(), side.weights, strict=True))
            foot = float(places[-1]) + 1.6
        # As they are written, whatever they hold: a dollar begins no formula.
        self.ax_.set_yticks([place for place, _ in ticks], [name for _, name in ticks], parse_math=False)
        self.ax_.set_ylim(foot - 1.0, -0.7)
        # Words stand beside the bars.
        self.ax_.set_xlim(0, 1.45 * max(max(side.weights.values()) for side in self.view.sides.values()))
        self.ax_.xaxis.set_major_formatter(matplotlib("ticker").PercentFormatter(1.0, decimals=0))
        self.ax_.set_xlabel("Weight")
        tidy(self.ax_)
        self.ax_.grid(visible=False, axis="y")
        # Above the axes, for on them no corner is surely free.
        self.ax_.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False, fontsize="small")
        return self

    def _draw(self, side: SideWeights, places: np.ndarray, colour: str, label: str) -> Any:
        bars = self.ax_.barh(places, list(side.weights.values()), height=0.72, color=colour, label=label)
        for bar, (name, _, words) in zip(bars, side.lines, strict=True):
            if name not in side.exponents:  # a constant describes nobody
                bar.set_alpha(0.45)
            self.ax_.annotate(
                words,
                (bar.get_width(), bar.get_y() + bar.get_height() / 2),
                (4, 0),
                textcoords="offset points",
                va="center",
                fontsize="small",
                color="0.25",
            )
        return bars

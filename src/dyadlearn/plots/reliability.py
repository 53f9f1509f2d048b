"""Probabilities against what happened."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from dyadlearn.diagnostics.calibration import Calibration, calibrate
from dyadlearn.plots._canvas import COLOURS, FAINT, MARKERS, Display, matplotlib, new_axes, tidy
from dyadlearn.settings import Setting, as_setting

__all__ = ["ReliabilityDisplay"]

# A setting keeps its colour and its mark, whichever others are beside it.
_LOOKS = {setting: index for index, setting in enumerate(Setting)}


class ReliabilityDisplay(Display):
    """What probabilities of a model said beside what happened, and how many labels had which.

    Each point is a bin of held-out labels: where it lies across says what was predicted for them, in the mean, and how
    high it lies which share of them was positive, with an interval at 95 % that knows that labels of one instance, or
    of one task, are alike. On the diagonal probabilities are what they say; below it they promise too much. A number
    beside a point counts its labels, and so do the steps below. Make a Display with `from_estimator` or
    `from_result`.

    Attributes
    ----------
    reliability : dict of str to dyadlearn.diagnostics.Reliability
        The bins of each setting.
    brier, calibration_error : dict of str to float
        Of each setting.
    ax_ : matplotlib axes
        Of the points, after `plot`, as are those below.
    histogram_ax_ : matplotlib axes
        Of the counts, below the points.
    figure_ : matplotlib figure
    points_ : list of ErrorbarContainer
        Of each setting.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge
    >>> from dyadlearn.plots import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(30, 3)), rng.normal(size=(20, 2))
    >>> Y = np.where(X[:, :2] @ T.T + rng.normal(size=(30, 20)) > 0, 1.0, 0.0)
    >>> from matplotlib.figure import Figure
    >>> display = ReliabilityDisplay.from_estimator(TwoStepRidge().fit(X, Y, tasks=T), "B", ax=Figure().subplots())
    >>> int(display.reliability["B"].count.sum())
    600
    """

    view: Calibration
    histogram_ax_: Any
    points_: list[Any]

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        setting: str | Setting | Iterable[str | Setting] | None = None,
        *,
        method: str = "sigmoid",
        cv: int | None = None,
        ax: Any = None,
    ) -> Self:
        """Calibrate a fitted model, and draw what its probabilities are worth.

        Parameters
        ----------
        model : fitted estimator
        setting, method, cv
            As in `dyadlearn.calibrate`.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure. The counts take a part of it.

        Returns
        -------
        ReliabilityDisplay
        """
        matplotlib()  # before the hold-out, which may take its time
        return cls(calibrate(model, setting, method=method, cv=cv)).plot(ax)

    @classmethod
    def from_result(cls, calibration: Calibration, *, ax: Any = None) -> Self:
        """Draw what `dyadlearn.calibrate` has returned.

        Parameters
        ----------
        calibration : Calibration
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure. The counts take a part of it.

        Returns
        -------
        ReliabilityDisplay
        """
        return cls(calibration).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the points, and the counts below.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure. The counts take a part of it.

        Returns
        -------
        self
        """
        self.ax_ = matplotlib().subplots(figsize=(5.2, 6.4), layout="constrained")[1] if ax is None else new_axes(ax)
        self.figure_, self.points_ = self.ax_.figure, []
        below = self.histogram_ax_ = _part_below(self.ax_)
        self.ax_.plot([0, 1], [0, 1], color=FAINT, linewidth=1, zorder=1)
        alone = len(self.view.settings) == 1
        for found in self.view.settings.values():
            bins, look = found.reliability, _LOOKS[as_setting(found.setting)]
            colour = COLOURS[look % len(COLOURS)]
            # Rounding may put the share itself a hair outside.
            ends = np.maximum([bins.share - bins.lower, bins.upper - bins.share], 0.0)
            label = f"{as_setting(found.setting).in_words}, Brier {found.brier:.3f} ({found.baseline_brier:.3f})"
            points = self.ax_.errorbar(
                bins.probability, bins.share, ends, color=colour, marker=MARKERS[look], markersize=5, linewidth=1.2,
                elinewidth=0.8, label=label, clip_on=False,
            )  # fmt: skip
            self.points_.append(points)
            if alone:
                for count, *place in zip(bins.count, bins.probability, bins.share, strict=True):
                    self.ax_.annotate(f"{count:,}", place, (5, -9), textcoords="offset points", fontsize="x-small")
            counts = np.histogram(found.probabilities[~np.isnan(found.probabilities)], bins.edges)[0]
            below.stairs(counts, bins.edges, color=colour, linewidth=1.4)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), ylabel=f"Share of labels {self.view.positive:g}")
        self.ax_.set_title(f"Held-out probabilities, {self.view.method}", fontsize="medium")
        self.ax_.legend(loc="upper left", fontsize="small", title="Brier score (of the base rate)",
                        title_fontsize="small")  # fmt: skip
        below.set(yscale="log", xlabel="Predicted probability", ylabel="Labels")
        below.set_ylim(bottom=0.8)
        self.ax_.tick_params(labelbottom=False)
        tidy(self.ax_)
        tidy(below)
        return self


def _part_below(ax: Any) -> Any:
    """Return new axes in the lower part of given ones, which keep the upper; what is beside them stays as it is."""
    given = ax.get_subplotspec()
    if given is not None:
        upper, lower = given.subgridspec(2, 1, height_ratios=[3, 1])
        ax.set_subplotspec(upper)
        return ax.figure.add_subplot(lower, sharex=ax)
    left, bottom, width, height = ax.get_position().bounds
    ax.set_position([left, bottom + 0.35 * height, width, 0.65 * height])
    return ax.figure.add_axes([left, bottom, width, 0.25 * height], sharex=ax)

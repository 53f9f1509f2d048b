"""The landscape of a regularisation: scores over one or two λ, with the point that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from dyadlearn.plots._canvas import COLOURS, FAINT, Display, matplotlib, names_of, tidy
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.views.landscape import (
    DrawnLandscape,
    LandscapeView,
    landscape_of_scores,
    landscape_of_search,
    loss_levels,
    power_of,
)

__all__ = ["LandscapeDisplay"]


class LandscapeDisplay(Display):
    r"""Scores at every regularisation, with the best one marked.

    Two regularisations make a map of what is lost against the best score :math:`s(\hat\lambda_d, \hat\lambda_t)`,

    .. math:: s(\hat\lambda_d, \hat\lambda_t) - s(\lambda_d, \lambda_t),

    in steps that grow: near the best a few thousandths matter, far from it nothing does. One regularisation makes a
    line of scores, regularisations of each task make a line for each. Make a Display with `from_estimator` or
    `from_landscape`.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
        Greater is better. With a regularisation for each task of shape (n_alphas, q).
    alphas : array of shape (n_alphas,)
    task_alphas : array of shape (n_task_alphas,) or None
    alpha : float, or array of shape (q,)
        The best value, or that of each task.
    task_alpha : float or None
    best_score : float
    setting : Setting or None
    scoring : str
        Name of the score.
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    map_ : QuadMesh or None
        The map, a cell for each point.
    lines_ : list of lines
        Of one regularisation.
    best_ : line
        The marker of the best point, in powers of ten.
    colorbar_ : Colorbar or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, landscape
    >>> from dyadlearn.plots import LandscapeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> scores = landscape(TwoStepRidge().fit(X, Y, tasks=T), settings="D")["D"]
    >>> from matplotlib.figure import Figure
    >>> display = LandscapeDisplay.from_landscape(scores, setting="D", ax=Figure().subplots())
    >>> display.alpha, display.task_alpha
    (1.0, 1.0)
    """

    view: LandscapeView
    map_: Any
    lines_: list[Any]
    best_: Any
    colorbar_: Any

    @classmethod
    def from_estimator(cls, model: Any, *, sides: Sequence[str] | None = None, ax: Any = None) -> Self:
        """Draw the landscape that a model has searched.

        Parameters
        ----------
        model : fitted TwoStepRidgeCV, KroneckerRidgeCV or IndependentTaskRidgeCV
            If it searched kernel parameters too, the landscape is that of the best ones.
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LandscapeDisplay
        """
        view = landscape_of_search(model)
        return cls(view, names_of(sides, model)).plot(ax)

    @classmethod
    def from_landscape(
        cls,
        scores: Any,
        alphas: Iterable[float] | None = None,
        task_alphas: Iterable[float] | None = None,
        *,
        setting: str | Setting | None = None,
        scoring: str | Callable[[Any, Any], float] | None = None,
        sides: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw scores, such as those of one setting that `dyadlearn.landscape` gives.

        Parameters
        ----------
        scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
            NaN where there is none.
        alphas, task_alphas : iterables of float, default=None
            What was searched; None is 10⁻⁷ … 10⁶, as it is there.
        setting : str or Setting, default=None
            For the title.
        scoring : str or callable, default=None
            The same.
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LandscapeDisplay
        """
        view = landscape_of_scores(scores, alphas, task_alphas, setting=setting, scoring=scoring)
        return cls(view, names_of(sides)).plot(ax)

    def plot(self, ax: Any = None, *, levels: Iterable[float] | None = None, cmap: str = "viridis_r") -> Self:
        """Draw the landscape.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.
        levels : iterable of float, default=None
            Steps of the map, in terms of what is lost against the best; None chooses them.
        cmap : str, default="viridis_r"
            Colours of the map, from nothing to all that is lost.

        Returns
        -------
        self
        """
        # Zero has no logarithm: what stands there is left out, and the title says so.
        drawn = self.view.drawn
        if drawn is None:
            raise ValueError("A landscape needs at least two regularisations above 0 to be drawn: search more values.")
        self._open(ax)
        self.map_ = self.colorbar_ = None
        self.lines_ = []
        if len(drawn.names) == 2:
            self._draw_map(drawn, levels, cmap)
        else:
            self._draw_lines(drawn)
        _power_ticks(self.ax_.xaxis)
        self.ax_.set_title(self._title(), fontsize="medium")
        return self

    def _draw_map(self, drawn: DrawnLandscape, levels: Iterable[float] | None, cmap: str) -> None:
        loss = np.ma.masked_invalid(drawn.loss)
        steps = loss_levels(drawn.loss) if levels is None else sorted(levels)
        norm = matplotlib("colors").BoundaryNorm(steps, 256)
        up, across = drawn.edges
        self.map_ = self.ax_.pcolormesh(across, up, loss, cmap=cmap, norm=norm)
        self.best_ = self._star(power_of(self.view.task_alpha), power_of(self.view.alpha), "white")
        self.ax_.set(xlabel="task_alpha", ylabel="alpha")
        _power_ticks(self.ax_.yaxis)
        self.colorbar_ = self.figure_.colorbar(
            self.map_, ax=self.ax_, label="lost against the best", ticks=steps, format="%g"
        )
        self.colorbar_.ax.invert_yaxis()

    def _draw_lines(self, drawn: DrawnLandscape) -> None:
        ((name,), (powers,), scores) = drawn.names, drawn.powers, drawn.scores
        best = power_of(getattr(self.view, name))
        tidy(self.ax_)
        self.ax_.set(xlabel=name, ylabel=self.view.scoring)
        if scores.ndim == 1:
            known = ~np.isnan(scores)
            self.lines_ = self.ax_.plot(powers[known], scores[known], color=COLOURS[0], marker="o", markersize=3.5)
            self.best_ = self._star(best, self.view.best_score, COLOURS[1])
            return
        names = self.names or SideNames()
        opacity = min(1.0, max(0.25, 10 / scores.shape[1]))
        self.lines_ = self.ax_.plot(powers, scores, color=FAINT, linewidth=0.8, alpha=opacity)
        self.lines_ += self.ax_.plot(
            powers, scores.mean(axis=1), color=COLOURS[0], linewidth=2, label=f"mean of {names.tasks}"
        )
        dots = {
            "linestyle": "",
            "marker": "o",
            "markersize": 4,
            "color": COLOURS[1],
            "label": f"best of each {names.task}",
        }
        (self.best_,) = self.ax_.plot(best, self.view.scores.max(axis=0), **dots)
        self.ax_.legend(frameon=False)

    def _star(self, x: Any, y: Any, colour: str) -> Any:
        # The best point lies on the edge of the map often enough, so that it is not clipped there.
        look = {"linestyle": "", "marker": "*", "markersize": 15, "color": colour, "markeredgecolor": "black"}
        return self.ax_.plot([x], [y], clip_on=False, zorder=5, **look)[0]

    def _title(self) -> str:
        view = self.view
        first = "" if view.setting is None else f"{self._setting(view.setting)}, "
        if np.ndim(view.alpha) == 1:
            return f"{first}{view.scoring} {view.best_score:.4g}\nan alpha for each {(self.names or SideNames()).task}"
        at = f"alpha {view.alpha:.3g}" + ("" if view.task_alpha is None else f", task_alpha {view.task_alpha:.3g}")
        note = f" ({' and '.join(view.zeros)} 0 not drawn)" if view.zeros else ""
        note += f"\n{view.evaluated}" if view.evaluated else ""
        return f"{first}best {view.scoring} {view.best_score:.4g}\nat {at}{note}"


def _power_ticks(axis: Any) -> None:
    """Label an axis that holds powers of ten by the numbers they stand for."""
    ticker = matplotlib("ticker")
    axis.set_major_locator(ticker.MaxNLocator(nbins=7, integer=True))
    axis.set_major_formatter(ticker.FuncFormatter(lambda power, _: f"$10^{{{power:g}}}$"))

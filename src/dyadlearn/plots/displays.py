"""Plots of held-out predictions (curves or points) and of scores over a grid of regularisations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import numpy as np

from dyadlearn._files.packed import imported
from dyadlearn.diagnostics.fitted import fitted_of
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames, side_names
from dyadlearn.views.grid import HoldoutView, holdout_of_model, holdout_of_predictions, some_of
from dyadlearn.views.landscape import (
    LandscapeView,
    landscape_of_scores,
    landscape_of_search,
    loss_levels,
)

# The colours of Okabe and Ito, which most colour-blind people can distinguish; line styles differ
# too.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
STYLES = ("-", "--", "-.", ":")
# Colour of reference lines: the identity line, and chance.
FAINT = "0.6"


class Display:
    """Base class of displays; attributes of the view are attributes of the display, such as ``display.scores``.

    Parameters
    ----------
    view : object
        Numbers to plot; `from_estimator` and the other class methods create it.
    names : SideNames, default=None
        Names of an instance and of a task; None means "instance" and "task".
    """

    ax_: Any
    figure_: Any

    def __init__(self, view: Any, names: SideNames | None = None) -> None:
        self.view = view
        self.names = names

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that the display itself does not have.
        if name in ("view", "names") or name.endswith("_"):
            raise AttributeError(f"{type(self).__name__} has no {name}: call plot() first.")
        return getattr(self.view, name)

    def _setting(self, setting: Setting) -> str:
        """Return the name of a setting in titles and legends."""
        return (self.names or SideNames()).in_words(setting)


def names_of(sides: Any, model: Any = None) -> SideNames | None:
    """Return the names of the sides, or None if `sides` is None; both sides of a network may have the same name."""
    if sides is None:
        return None
    return side_names(sides, network=model is not None and fitted_of(model).is_network)


def matplotlib(module: str = "pyplot") -> Any:
    """Import and return a module of matplotlib; nothing else imports it."""
    return imported(f"matplotlib.{module}", "Drawing", "matplotlib", extra="plots")


def axes_of(
    ax: Any, n_panels: int, size: tuple[float, float], layout: str = "compressed"
) -> list[Any]:
    """Return axes for panels side by side: `ax`, or those of a new figure of this size."""
    if ax is None:
        _, panels = matplotlib().subplots(
            ncols=n_panels, squeeze=False, sharex=True, sharey=True, figsize=size, layout=layout
        )
        return list(panels[0])
    axes = np.ravel(np.array(ax, dtype=object)).tolist()
    if len(axes) != n_panels:
        raise ValueError(f"ax must be {n_panels} axes, one for each panel, found {len(axes)}.")
    for panel in axes:
        if not isinstance(panel, matplotlib("axes").Axes):
            raise TypeError(
                f"ax must be the axes of a matplotlib figure, found {type(panel).__name__}."
            )
    return axes


def tidy(ax: Any) -> None:
    """Remove the top and right borders, and draw a faint grid."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.3, linewidth=0.6)


# Each setting always has the same colour.
_LOOKS = {setting.in_words: index for index, setting in enumerate(Setting)}


class HoldoutDisplay(Display):
    r"""Plot held-out predictions against the labels.

    For binary labels, the plot has a ROC curve or a precision–recall curve for each setting. For
    other labels, it is a scatter plot of predictions against labels, with the identity line. Curves
    are averaged as the metrics are: over all cells together in settings A and D, over the instances
    in B and over the tasks in C,

    .. math:: \mathrm{TPR}_B(x) = \frac{1}{m} \sum_{i=1}^m \mathrm{TPR}_i(x),

    so that the area in the legend is the score of `dyadlearn.evaluate`. The grey line is the result
    of a constant prediction: the diagonal, or a precision equal to the proportion of positive
    labels. Cells that are not observed are not drawn. Create a display with `from_estimator` or
    `from_predictions`.

    Attributes
    ----------
    kind : {"roc", "precision_recall", "scatter"}
    points : dict of str to (x, y)
        Arrays of shape (n,) for each setting or each named prediction: false and true positive
        rates, recalls and precisions, or labels and predictions.
    scores : dict of str to float
        Area under each ROC curve, average precision of each precision–recall curve, or R² of each
        scatter plot.
    averages : dict of str to str
        Average of each curve: over all cells (``"pooled"``), ``"instance"`` or ``"task"``.
    positive_share : float
        Proportion of positive labels; NaN for scatter plots.
    note : str
        Note about the predictions, shown in the title.
    ax_ : matplotlib axes, or array of them
        One for curves, one for each scatter plot. Set by `plot`, like the attributes below.
    figure_ : matplotlib figure
    lines_ : list of lines
        The curves.
    scatters_ : list of PathCollection
        The points.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.plots import HoldoutDisplay
    >>> Y, F = np.array([[1, 0], [1, 0]]), np.array([[0.9, 0.1], [0.2, 0.4]])
    >>> from matplotlib.figure import Figure
    >>> display = HoldoutDisplay.from_predictions(Y, {"first": F, "second": F.T}, ax=Figure().subplots())
    >>> display.scores
    {'first': 0.75, 'second': 0.5}
    """

    view: HoldoutView
    lines_: list[Any]
    scatters_: list[Any]

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        setting: Iterable[str | Setting] = "ABCD",
        *,
        kind: str = "auto",
        cv: int | None = None,
        max_points: int = 5000,
        sides: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw the hold-out predictions of a fitted model.

        Parameters
        ----------
        model : fitted estimator
        setting : one or several settings, default="ABCD"
            Letters or aliases. A model without tasks is drawn in A and B only.
        kind : {"auto", "roc", "precision_recall", "scatter"}, default="auto"
            ``"auto"`` is ``"scatter"`` for labels that are not binary. For binary labels it is ``"precision_recall"``
            if the model was chosen by ``"average_precision"``, otherwise ``"roc"``.
        cv : int, default=None
            Number of folds if labels are missing or weighted; None uses the closed form if there is
            one, else five folds.
        max_points : int, default=5000
            Maximum number of points in a scatter plot. If there are more, a random sample is drawn,
            and the title says so.
        sides : (str, str), default=None
            Names of an instance and a task, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Axes to draw on; None creates a new figure. Scatter plots need one for each setting.

        Returns
        -------
        HoldoutDisplay
        """
        matplotlib()  # raises before the hold-out, which may take long
        names = names_of(sides, model)
        view = holdout_of_model(
            model, setting, kind=kind, cv=cv, remedy="use HoldoutDisplay.from_predictions"
        )
        return cls(view, names).plot(ax, max_points=max_points)

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        F: Any,
        *,
        setting: str | Setting | None = None,
        kind: str = "auto",
        max_points: int = 5000,
        sides: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Draw predictions of any model.

        Parameters
        ----------
        Y : array or frame of shape (m, q)
            Labels; NaN means not observed.
        F : array or frame of shape (m, q), or dict of str to these
            Predictions, or several predictions by name. Frames are aligned with the ids of `Y`.
        setting : str or Setting, default=None
            Setting that determines the average of curves: over the instances in B, over the tasks
            in C, else over all cells together.
        kind, max_points, sides, ax
            As in `from_estimator`.

        Returns
        -------
        HoldoutDisplay
        """
        view = holdout_of_predictions(Y, F, setting=setting, kind=kind)
        return cls(view, names_of(sides)).plot(ax, max_points=max_points)

    def plot(self, ax: Any = None, *, max_points: int = 5000, random_state: int = 0) -> Self:
        """Draw the curves or the points.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on; None creates a new figure. Scatter plots need one for each setting.
        max_points : int, default=5000
            Maximum number of points in a scatter plot; a random sample is drawn if there are more.
        random_state : int, default=0
            Seed of the random sample.

        Returns
        -------
        self
        """
        view = self.view
        n_panels = len(view.curves) if view.kind == "scatter" else 1
        size = (3.1 * n_panels, 3.6) if n_panels > 1 else (4.6, 4.6)
        panels = axes_of(ax, n_panels, size)
        self.lines_ = []
        self.scatters_ = []
        if view.kind == "scatter":
            self._draw_points(panels, max_points, random_state)
        else:
            self._draw_curves(panels[0])
        if len(panels) == 1:
            self.ax_ = panels[0]
        else:
            self.ax_ = np.array(panels, dtype=object)
        self.figure_ = panels[0].figure
        return self

    def _draw_curves(self, ax: Any) -> None:
        """Draw the curves of all settings, and the line of a constant prediction."""
        is_roc = self.view.kind == "roc"
        # The space above a precision–recall curve is free, and so is the space below a ROC curve.
        if is_roc:
            short, title, drawn, corner = ("AUC", "ROC", "default", "lower right")
        else:
            short, title, drawn, corner = ("AP", "precision–recall", "steps-pre", "upper right")
        sides = self.names or SideNames()
        means = {
            "pooled": "",
            "instance": f", mean per {sides.instance}",
            "task": f", mean per {sides.task}",
        }
        for index, (name, curve) in enumerate(self.view.curves.items()):
            place = _LOOKS.get(name, index)
            look = {
                "color": COLOURS[place % len(COLOURS)],
                "linestyle": STYLES[place % len(STYLES)],
                "linewidth": 1.8,
                "drawstyle": drawn,
                "clip_on": False,
            }
            words = f"{self._words(name)}, {short} {curve.score:.3f}{means[curve.average]}"
            self.lines_ += ax.plot(curve.x, curve.y, label=words, **look)
        if is_roc:
            ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, zorder=1)
            ax.set(xlabel="False positive rate", ylabel="True positive rate")
        else:
            ax.axhline(self.view.positive_share, color=FAINT, linewidth=1, zorder=1)
            ax.set(xlabel="Recall", ylabel="Precision")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        lines = [f"Hold-out {title} curves", self.view.note]
        ax.set_title("\n".join(filter(None, lines)), fontsize="medium")
        tidy(ax)
        ax.legend(loc=corner, fontsize="small")

    def _words(self, name: str) -> str:
        """Return the name of a curve in the legend; a setting is written with the names of the sides."""
        for setting in Setting:
            if setting.in_words == name:
                return self._setting(setting)
        return name

    def _draw_points(self, panels: list[Any], max_points: int, seed: int) -> None:
        """Draw the predictions of each setting against the labels, in a panel of its own."""
        clouds = self.view.curves
        everything = np.concatenate([np.append(cloud.x, cloud.y) for cloud in clouds.values()])
        low = float(everything.min())
        high = float(everything.max())
        margin = 0.04 * (high - low) or 0.5
        ends = (low - margin, high + margin)
        n_cells = next(iter(clouds.values())).x.size
        drawn = some_of(n_cells, max_points, seed)
        note = ""
        if self.view.note:
            note += f"\n{self.view.note}"
        if n_cells > max_points:
            note += f"\n{max_points:,} of {n_cells:,} labels drawn"
        # More points are drawn with less opacity, so that their density is visible.
        opacity = float(np.clip(600 / len(drawn), 0.25, 0.9))
        for index, (panel, (name, cloud)) in enumerate(zip(panels, clouds.items(), strict=True)):
            colour = COLOURS[_LOOKS.get(name, index) % len(COLOURS)]
            look = {"s": 12, "color": colour, "alpha": opacity, "linewidths": 0, "rasterized": True}
            panel.plot(ends, ends, color=FAINT, linewidth=1, zorder=1)
            self.scatters_.append(panel.scatter(cloud.x[drawn], cloud.y[drawn], **look))
            panel.set(xlim=ends, ylim=ends, aspect="equal", xlabel="Observed label")
            panel.set_title(f"{self._words(name)}, R² {cloud.score:.3f}{note}", fontsize="medium")
            tidy(panel)
        panels[0].set_ylabel("Held-out prediction")


class LandscapeDisplay(Display):
    r"""Plot the scores of a grid of regularisations, with the best one marked.

    With two regularisations, the plot is a map of the difference to the best score
    :math:`s(\hat\lambda_d, \hat\lambda_t)`,

    .. math:: s(\hat\lambda_d, \hat\lambda_t) - s(\lambda_d, \lambda_t),

    in levels that are finer near the best score. With one regularisation, the plot is a line of
    scores; if each task has a regularisation, the scores are means over all tasks. Create a display
    with `from_estimator` or `from_landscape`.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
        Scores; greater is better.
    alphas : array of shape (n_alphas,)
    task_alphas : array of shape (n_task_alphas,) or None
    alpha : float
        The chosen regularisation.
    task_alpha : float or None
    best_score : float
    setting : Setting or None
    scoring : str
        Name of the score.
    ax_, figure_ : matplotlib axes and figure
        Set by `plot`, like the attributes below.
    map_ : QuadMesh or None
        The map, with a cell for each pair of regularisations.
    lines_ : list of lines
        The lines, if there is one regularisation.
    best_ : line
        Marker of the best point; its coordinates are logarithms to base 10.
    colorbar_ : Colorbar or None

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidge, landscape
    >>> from dyadlearn.plots import LandscapeDisplay
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> alphas = [0.1, 1.0, 10.0]
    >>> model = TwoStepRidge().fit(X, Y, tasks=T)
    >>> scores = landscape(model, setting="D", alphas=alphas, task_alphas=alphas)["D"]
    >>> from matplotlib.figure import Figure
    >>> display = LandscapeDisplay.from_landscape(scores, alphas, alphas, setting="D", ax=Figure().subplots())
    >>> display.alpha, display.task_alpha
    (1.0, 1.0)
    """

    view: LandscapeView
    map_: Any
    lines_: list[Any]
    best_: Any
    colorbar_: Any

    @classmethod
    def from_estimator(
        cls, model: Any, *, sides: Sequence[str] | None = None, ax: Any = None
    ) -> Self:
        """Draw the scores of a fitted search.

        Parameters
        ----------
        model : fitted TwoStepRidgeCV, or any other search
            If kernel parameters were searched too, the scores are those for the best kernel
            parameters.
        sides : (str, str), default=None
            Names of an instance and a task, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Axes to draw on; None creates a new figure.

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
        """Draw scores, such as those that `dyadlearn.landscape` returns for one setting.

        Parameters
        ----------
        scores : array of shape (n_alphas, n_task_alphas) or (n_alphas,)
            Scores; NaN means undefined.
        alphas, task_alphas : iterables of float, default=None
            Regularisations of the scores, such as those of `dyadlearn.selection.default_alphas`.
            None means 10⁻⁷ … 10⁶, which are the default values relative to the scale of the kernel.
        setting : str or Setting, default=None
            Setting to show in the title.
        scoring : str or callable, default=None
            Name of the score to show in the title.
        sides : (str, str), default=None
            Names of an instance and a task, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Axes to draw on; None creates a new figure.

        Returns
        -------
        LandscapeDisplay
        """
        view = landscape_of_scores(scores, alphas, task_alphas, setting=setting, scoring=scoring)
        return cls(view, names_of(sides)).plot(ax)

    def plot(
        self, ax: Any = None, *, levels: Iterable[float] | None = None, cmap: str = "viridis_r"
    ) -> Self:
        """Draw the landscape.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Axes to draw on; None creates a new figure.
        levels : iterable of float, default=None
            Levels of the map, as differences to the best score; None chooses them.
        cmap : str, default="viridis_r"
            Colour map, from no difference to the largest difference.

        Returns
        -------
        self
        """
        # Zero has no logarithm: scores at 0 are left out, and the title says so.
        drawn = self.view.drawn
        if drawn is None:
            raise ValueError(
                "A landscape needs at least two regularisations above 0 to be drawn: search more "
                "values."
            )
        (self.ax_,) = axes_of(ax, 1, (6.0, 4.5), "constrained")
        self.figure_ = self.ax_.figure
        self.map_ = None
        self.colorbar_ = None
        self.lines_ = []
        if len(drawn.names) == 2:
            self._draw_map(drawn.edges, drawn.loss, levels, cmap)
        else:
            self._draw_line(drawn.names[0], drawn.powers[0], drawn.scores)
        _power_ticks(self.ax_.xaxis)
        self.ax_.set_title(self._title(), fontsize="medium")
        return self

    def _draw_map(
        self, edges: list[np.ndarray], loss: np.ndarray, levels: Iterable[float] | None, cmap: str
    ) -> None:
        """Draw the loss between edges as a map, with the best point and a colour bar."""
        up, across = edges
        if levels is None:
            steps = loss_levels(loss)
        else:
            steps = sorted(levels)
        norm = matplotlib("colors").BoundaryNorm(steps, 256)
        self.map_ = self.ax_.pcolormesh(
            across, up, np.ma.masked_invalid(loss), cmap=cmap, norm=norm
        )
        self.best_ = self._star(self.view.power("task_alpha"), self.view.power("alpha"), "white")
        self.ax_.set(xlabel="task_alpha", ylabel="alpha")
        _power_ticks(self.ax_.yaxis)
        self.colorbar_ = self.figure_.colorbar(
            self.map_, ax=self.ax_, label="lost against the best", ticks=steps, format="%g"
        )
        self.colorbar_.ax.invert_yaxis()

    def _draw_line(self, name: str, powers: np.ndarray, scores: np.ndarray) -> None:
        """Draw scores over one regularisation, with the best point."""
        tidy(self.ax_)
        self.ax_.set(xlabel=name, ylabel=self.view.scoring)
        known = ~np.isnan(scores)
        self.lines_ = self.ax_.plot(
            powers[known], scores[known], color=COLOURS[0], marker="o", markersize=3.5
        )
        self.best_ = self._star(self.view.power(name), self.view.best_score, COLOURS[1])

    def _star(self, x: Any, y: Any, colour: str) -> Any:
        # The best point is often on the edge of the map, so it is not clipped.
        look = {
            "linestyle": "",
            "marker": "*",
            "markersize": 15,
            "color": colour,
            "markeredgecolor": "black",
        }
        return self.ax_.plot([x], [y], clip_on=False, zorder=5, **look)[0]

    def _title(self) -> str:
        """Return the setting, the best score and its regularisation, and what is not drawn."""
        view = self.view
        title = f"best {view.scoring} {view.best_score:.4g}\nat alpha {view.alpha:.3g}"
        if view.setting is not None:
            title = f"{self._setting(view.setting)}, {title}"
        if view.task_alpha is not None:
            title += f", task_alpha {view.task_alpha:.3g}"
        if view.zeros:
            title += f" ({' and '.join(view.zeros)} 0 not drawn)"
        if view.evaluated:
            title += f"\n{view.evaluated}"
        return title


def _power_ticks(axis: Any) -> None:
    """Label an axis of logarithms to base 10 with the numbers themselves."""
    ticker = matplotlib("ticker")
    axis.set_major_locator(ticker.MaxNLocator(nbins=7, integer=True))
    axis.set_major_formatter(ticker.FuncFormatter(lambda power, _: f"$10^{{{power:g}}}$"))

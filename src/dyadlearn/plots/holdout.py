"""Held-out predictions against the labels: ROC and precision–recall curves, or a cloud of points."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Self

import numpy as np

from dyadlearn.plots._canvas import COLOURS, FAINT, STYLES, Display, axes_of, matplotlib, names_of, tidy
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames
from dyadlearn.views.curves import HoldoutView, holdout_of_model, holdout_of_predictions, some_of

__all__ = ["HoldoutDisplay"]

# A setting keeps its colour, whichever others are beside it.
_LOOKS = {setting.in_words: index for index, setting in enumerate(Setting)}


class HoldoutDisplay(Display):
    r"""Predictions of labels that a model has not seen, beside the labels themselves.

    Labels of two values make a ROC curve or a precision–recall curve for each setting, all others points around the
    line on which prediction and label are equal. Curves are averaged as the metrics are: over all cells together in
    settings A and D, over the instances in B and over the tasks in C,

    .. math:: \mathrm{TPR}_B(x) = \frac{1}{m} \sum_{i=1}^m \mathrm{TPR}_i(x),

    so that the area in the legend is the one that `dyadlearn.evaluate` tells. Grey is what a constant prediction would
    give: the diagonal, or a precision as large as the share of positive labels. Cells that are not observed are not
    drawn. Make a Display with `from_estimator` or `from_predictions`.

    Attributes
    ----------
    kind : {"roc", "precision_recall", "scatter"}
    points : dict of str to (x, y)
        For each setting, or whatever is compared, arrays of shape (n,): false and true positive rates, recalls and
        precisions, or labels and predictions.
    scores : dict of str to float
        The area under each curve, its average precision, or R² over all points.
    averages : dict of str to str
        What was averaged over: ``"micro"``, ``"instance"`` or ``"task"``.
    positive_share : float
        Share of positive labels; NaN for points.
    note : str
        What is to be said about the predictions, in the title.
    ax_ : matplotlib axes, or array of them
        After `plot`, as are those below. One for curves, one for each cloud of points.
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
        settings: Iterable[str | Setting] = "ABCD",
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
        settings : iterable of settings, default="ABCD"
            Letters or aliases. For a model without tasks, those of A and B that are asked for.
        kind : {"auto", "roc", "precision_recall", "scatter"}, default="auto"
            ``"auto"`` is ``"roc"`` for labels of two values, ``"precision_recall"`` if the model was chosen by
            ``"average_precision"``, and ``"scatter"`` for all others.
        cv : int, default=None
            Number of folds to leave out where labels are missing or weighted; None takes a shortcut where one exists,
            and five folds elsewhere.
        max_points : int, default=5000
            Of more points than this a random part is drawn, and the title says so.
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure. For points in several settings, as many axes.

        Returns
        -------
        HoldoutDisplay
        """
        matplotlib()  # before the hold-out, which may take its time
        remedy = "use HoldoutDisplay.from_predictions"
        names = names_of(sides, model)
        view = holdout_of_model(model, settings, kind=kind, cv=cv, remedy=remedy)
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
            Labels; NaN where not observed.
        F : array or frame of shape (m, q), or dict of str to such
            Predictions, or several with their names. Frames are aligned with the ids of `Y`.
        setting : str or Setting, default=None
            How curves are averaged: over the instances in B, over the tasks in C, else over all cells together.
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
            Where to draw; None makes a new figure. For several clouds of points, as many axes.
        max_points : int, default=5000
            Of more points than this a random part is drawn, and the title says so.
        random_state : int, default=0
            Seed of that part.

        Returns
        -------
        self
        """
        view = self.view
        panels = axes_of(ax, len(view.curves) if view.kind == "scatter" else 1)
        self.lines_, self.scatters_ = [], []
        if view.kind == "scatter":
            self._draw_points(panels, max_points, random_state)
        else:
            self._draw_curves(panels[0])
        self.ax_ = panels[0] if len(panels) == 1 else np.array(panels, dtype=object)
        self.figure_ = panels[0].figure
        return self

    def _draw_curves(self, ax: Any) -> None:
        is_roc = self.view.kind == "roc"
        short, sides = "AUC" if is_roc else "AP", self.names or SideNames()
        means = {"micro": "", "instance": f", mean per {sides.instance}", "task": f", mean per {sides.task}"}
        for index, (name, curve) in enumerate(self.view.curves.items()):
            look = _LOOKS.get(name, index)
            self.lines_ += ax.plot(
                curve.x,
                curve.y,
                color=COLOURS[look % len(COLOURS)],
                linestyle=STYLES[look % len(STYLES)],
                linewidth=1.8,
                drawstyle="default" if is_roc else "steps-pre",
                label=f"{self._words(name)}, {short} {curve.score:.3f}{means[curve.average]}",
                clip_on=False,
            )
        if is_roc:
            ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, zorder=1)
            ax.set(xlabel="False positive rate", ylabel="True positive rate")
        else:
            ax.axhline(self.view.positive_share, color=FAINT, linewidth=1, zorder=1)
            ax.set(xlabel="Recall", ylabel="Precision")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        title = f"Hold-out {'ROC' if is_roc else 'precision–recall'} curves"
        ax.set_title("\n".join(filter(None, [title, self.view.note])), fontsize="medium")
        tidy(ax)
        # A precision–recall curve leaves room above itself, a ROC curve below.
        ax.legend(loc="lower right" if is_roc else "upper right", fontsize="small")

    def _words(self, name: str) -> str:
        """Return what is compared as a legend calls it: a setting with the names of the sides."""
        return next((self._setting(setting) for setting in Setting if setting.in_words == name), name)

    def _draw_points(self, panels: list[Any], max_points: int, seed: int) -> None:
        clouds = self.view.curves
        everything = np.concatenate([np.append(cloud.x, cloud.y) for cloud in clouds.values()])
        low, high = float(everything.min()), float(everything.max())
        margin = 0.04 * (high - low) or 0.5
        ends = (low - margin, high + margin)
        n_cells = next(iter(clouds.values())).x.size
        drawn = some_of(n_cells, max_points, seed)
        notes = [self.view.note, f"{max_points:,} of {n_cells:,} labels drawn" if n_cells > max_points else ""]
        note = "".join(f"\n{text}" for text in notes if text)
        # Many points on top of each other should still show where most of them lie.
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

"""Learning curves: scores against the amount of data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Self

from dyadlearn.plots._canvas import COLOURS, MARKERS, Display, matplotlib, names_of, tidy
from dyadlearn.settings import Setting, as_setting
from dyadlearn.views.learning import LearningCurve, curve_of_model, curve_of_scores

__all__ = ["LearningCurveDisplay"]


class LearningCurveDisplay(Display):
    r"""Scores of one or several methods as the data grow, with their mean and spread over repeats.

    The band around the mean of n repeats is one standard deviation to both sides,

    .. math:: \bar s \pm \sqrt{\frac{1}{n} \sum_{r=1}^n (s_r - \bar s)^2} .

    Make a Display with `from_scores`, for what experiments and online models have recorded, or with `from_estimator`.

    Attributes
    ----------
    sizes : array of shape (n_sizes,)
        Amounts of data.
    scores : dict of str to array of shape (n_repeats, n_sizes)
        For each method; NaN where there is none.
    size_name, score_name : str
        What the axes are called.
    title : str
    ax_, figure_ : matplotlib axes and figure
        After `plot`, as are those below.
    lines_ : dict of str to line
        The means.
    bands_ : dict of str to PolyCollection
        The spreads, where there are repeats.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.plots import LearningCurveDisplay
    >>> scores = {"two-step": [[0.6, 0.8], [0.7, 0.8]], "independent": [0.5, 0.7]}
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> display = LearningCurveDisplay.from_scores([100, 200], scores, score_name="roc_auc", ax=ax)
    >>> display.lines_["two-step"].get_ydata()
    array([0.65, 0.8 ])
    """

    view: LearningCurve
    lines_: dict[str, Any]
    bands_: dict[str, Any]

    @classmethod
    def from_scores(
        cls,
        sizes: Any,
        scores: Any,
        *,
        size_name: str = "instances",
        score_name: str = "score",
        title: str = "",
        ax: Any = None,
    ) -> Self:
        """Draw scores that have been recorded.

        Parameters
        ----------
        sizes : array of shape (n_sizes,)
            Amounts of data, the same for all methods.
        scores : dict of str to array of shape (n_repeats, n_sizes) or (n_sizes,)
            For each method; NaN where there is none. One array without a name will do.
        size_name, score_name, title : str
            What the axes and the picture are called.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LearningCurveDisplay
        """
        curve = curve_of_scores(sizes, scores, size_name=size_name, score_name=score_name, title=title)
        return cls(curve).plot(ax)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        setting: str | Setting = "B",
        *,
        sizes: Iterable[float] = (0.1, 0.2, 0.4, 0.6, 0.8, 1.0),
        scoring: str | Callable[[Any, Any], float] | None = None,
        n_repeats: int = 10,
        random_state: Any = None,
        name: str | None = None,
        sides: Sequence[str] | None = None,
        ax: Any = None,
    ) -> Self:
        """Score a model on random parts of the grid it was fitted on.

        A model with the same regularisation is fitted on each part, and scored by its exact hold-out predictions there:
        at the full size this is the score of the model itself. Which part is drawn depends on the setting: some of
        the instances with all tasks in B, some of the tasks with all instances in C, some of both in A and D.

        Parameters
        ----------
        model : fitted estimator
            Of one that has chosen its regularisation, the choice is kept: it was made with all data.
        setting : str or Setting, default="B"
        sizes : iterable of float, default=(0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
            Shares of the labels, above 0 and at most 1. A part has at least five instances and five tasks.
        scoring : str or callable, default=None
            See `dyadlearn.metrics.scorer`; greater is better. None is what `dyadlearn.evaluate` scores by. Parts
            where it is undefined do not count.
        n_repeats : int, default=10
            Random parts of each size. There is only one of the full size.
        random_state : int, RandomState or None, default=None
            Seed of the parts.
        name : str, default=None
            What the legend calls the model; None is the name of its class.
        sides : (str, str), default=None
            What an instance and a task are called, such as ``("host", "parasite")``.
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LearningCurveDisplay
        """
        matplotlib()  # before the fits, which take their time
        names = names_of(sides, model)
        curve = curve_of_model(
            model,
            setting,
            sizes=sizes,
            scoring=scoring,
            n_repeats=n_repeats,
            random_state=random_state,
            name=name,
            remedy="record its scores and use LearningCurveDisplay.from_scores",
        )
        if names is not None:
            chosen = as_setting(setting)
            size_name = {Setting.B: names.instances, Setting.C: names.tasks}.get(chosen, curve.size_name)
            curve = replace(curve, size_name=size_name, title=names.in_words(chosen))
        return cls(curve, names).plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw mean and spread of every method.

        Parameters
        ----------
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        self
        """
        self._open(ax)
        self.lines_, self.bands_ = {}, {}
        for index, (name, scores) in enumerate(self.view.scores.items()):
            sizes, mean, spread = self.view.mean_and_spread(name)
            colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
            look = {"color": colour, "marker": marker, "markersize": 4.5, "linewidth": 1.8}
            (self.lines_[name],) = self.ax_.plot(sizes, mean, label=name, **look)
            if len(scores) > 1:
                self.bands_[name] = self.ax_.fill_between(
                    sizes, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0
                )
        self.ax_.set(xlabel=f"Number of {self.view.size_name}", ylabel=self.view.score_name)
        self.ax_.set_title(self.view.title, fontsize="medium")
        self.ax_.xaxis.set_major_formatter("{x:,g}")
        tidy(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small")
        return self

"""Learning curves: scores against the amount of data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state

from dyadlearn._array import to_numpy
from dyadlearn.holdout import Problem
from dyadlearn.metrics import Scorer, scorer
from dyadlearn.models import IndependentTaskRidge, KroneckerRidge, TwoStepRidge
from dyadlearn.models._base import PairwiseRidge
from dyadlearn.plots._canvas import COLOURS, MARKERS, fitted_model, held_out, matplotlib, new_axes, setting_words, tidy
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting, as_setting
from dyadlearn.spectrum import Spectrum

__all__ = ["LearningCurveDisplay"]


@dataclass(eq=False, repr=False)
class LearningCurveDisplay:
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

    sizes: np.ndarray
    scores: dict[str, np.ndarray]
    size_name: str = "instances"
    score_name: str = "score"
    title: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    lines_: dict[str, Any] = field(init=False)
    bands_: dict[str, Any] = field(init=False)

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
        amounts = np.asarray(sizes, dtype=np.float64)
        if amounts.ndim != 1 or amounts.size == 0 or not np.isfinite(amounts).all():
            raise ValueError(f"sizes must be a list of finite numbers, found shape {amounts.shape}.")
        named = scores if isinstance(scores, Mapping) else {score_name: scores}
        if not named:
            raise ValueError("scores is an empty dict: give the scores of at least one method.")
        read = {}
        for name, given in named.items():
            values = np.atleast_2d(np.asarray(given, dtype=np.float64))
            if values.ndim != 2 or values.shape[1] != amounts.size or values.shape[0] == 0:
                raise ValueError(
                    f"The scores of {name!r} must have shape (n_repeats, {amounts.size}), a column for each of the "
                    f"sizes, found {np.shape(given)}."
                )
            read[str(name)] = values
        return cls(amounts, read, size_name, score_name, title).plot(ax)

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
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure.

        Returns
        -------
        LearningCurveDisplay
        """
        matplotlib()  # before the fits, which take their time
        model = fitted_model(model, "record its scores and use LearningCurveDisplay.from_scores")
        chosen, judge = as_setting(setting), scorer(scoring_of(model, scoring))
        shares = sorted(set(map(float, sizes)))
        if not shares or not 0 < shares[0] <= shares[-1] <= 1:
            raise ValueError(f"sizes are shares of the labels, above 0 and at most 1, found {shares}.")
        if n_repeats < 1:
            raise ValueError(f"n_repeats must be at least 1, found {n_repeats}.")
        parts, random = _Parts(model, chosen, judge), check_random_state(random_state)
        scores = np.full((n_repeats, len(shares)), np.nan)
        amounts = np.array([parts.amount(share) for share in shares], dtype=np.float64)
        for column, share in enumerate(shares):
            for repeat in range(n_repeats if share < 1 else 1):
                scores[repeat, column] = parts.score(share, random)
        display = cls(
            amounts,
            {name or type(model).__name__: scores},
            {Setting.B: "instances", Setting.C: "tasks"}.get(chosen, "labels"),
            judge.name,
            setting_words(chosen),
        )
        return display.plot(ax)

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
        self.ax_ = new_axes(ax)
        self.figure_ = self.ax_.figure
        self.lines_, self.bands_ = {}, {}
        order = np.argsort(self.sizes, kind="stable")
        for index, (name, scores) in enumerate(self.scores.items()):
            there = order[~np.isnan(scores).all(axis=0)[order]]
            sizes, found = self.sizes[there], scores[:, there]
            mean, spread = np.nanmean(found, axis=0), np.nanstd(found, axis=0)
            colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
            (self.lines_[name],) = self.ax_.plot(
                sizes,
                mean,
                color=colour,
                marker=marker,
                markersize=4.5,
                linewidth=1.8,
                label=name,
            )
            if len(scores) > 1:
                self.bands_[name] = self.ax_.fill_between(
                    sizes, mean - spread, mean + spread, color=colour, alpha=0.18, linewidth=0
                )
        self.ax_.set(xlabel=f"Number of {self.size_name}", ylabel=self.score_name)
        self.ax_.set_title(self.title, fontsize="medium")
        self.ax_.xaxis.set_major_formatter(matplotlib("ticker").FuncFormatter(lambda size, _: f"{size:,g}"))
        tidy(self.ax_)
        self.ax_.legend(frameon=False, fontsize="small")
        return self


class _Parts:
    """Random parts of the grid that a model was fitted on."""

    def __init__(self, model: PairwiseRidge, setting: Setting, judge: Scorer) -> None:
        problem = model._problem()
        if math.isnan(problem.alpha):
            raise ValueError("A model with a regularisation for each task has no learning curve: use one for all.")
        if setting.new_task and problem.task_spectrum is None:
            raise ValueError(
                f"Setting {setting.value} leaves out tasks, but this model knows nothing of tasks: fit it with tasks=, "
                "or ask for setting A or B."
            )
        self.problem, self.setting, self.judge = problem, setting, judge
        self.Y = to_numpy(model._grid.values)
        self.rows = _features(problem.spectrum)
        self.tasks = None if problem.task_spectrum is None else _features(problem.task_spectrum)
        # Complain about a score that is not even defined on the whole grid.
        judge.prepare(self.Y, setting=setting)

    def shape(self, share: float) -> tuple[int, int]:
        """Return the number of instances and tasks of a part with this share of the labels."""
        both = self.problem.method == "network" or (self.setting in (Setting.A, Setting.D) and self.tasks is not None)
        cut = (both or self.setting is not Setting.C, both or self.setting is Setting.C)
        left = math.sqrt(share) if both else share
        m, q = (max(min(5, n), round(left * n)) if is_cut else n for n, is_cut in zip(self.Y.shape, cut, strict=True))
        return m, q

    def amount(self, share: float) -> int:
        """Return the number that the curve is drawn over."""
        n_rows, n_tasks = self.shape(share)
        n_labels = round(n_rows * n_tasks * float(np.mean(~np.isnan(self.Y))))
        return {Setting.B: n_rows, Setting.C: n_tasks}.get(self.setting, n_labels)

    def score(self, share: float, random: np.random.RandomState) -> float:
        """Return the hold-out score of a model of a random part, NaN where it is undefined."""
        (m, q), (n_rows, n_tasks) = self.Y.shape, self.shape(share)
        rows = np.sort(random.choice(m, n_rows, replace=False))
        is_network = self.problem.method == "network"
        columns = rows if is_network else np.sort(random.choice(q, n_tasks, replace=False))
        Y = self.Y[np.ix_(rows, columns)]
        tasks = None if self.tasks is None or is_network else self.tasks[columns]
        if np.isnan(Y).all():
            return math.nan
        weights = None if self.problem.weights is None else to_numpy(self.problem.weights)[np.ix_(rows, columns)]
        model = _model(self.problem).fit(self.rows[rows], Y, tasks=tasks, sample_weight=weights)
        F, _ = held_out(model, self.setting)
        try:
            return float(self.judge(Y, F, setting=self.setting, tie_tolerance=None))
        except ValueError:  # the whole grid has a score, so that this part has too few labels for one
            return math.nan


def _features(spectrum: Spectrum) -> np.ndarray:
    r"""Return features :math:`\mathbf{U}\sqrt{\boldsymbol\sigma}` (n, k) whose linear kernel is that of the side."""
    return np.asarray(to_numpy(spectrum.vectors) * np.sqrt(to_numpy(spectrum.values)))


def _model(problem: Problem) -> PairwiseRidge:
    """Return a model with linear kernels and the regularisation of a problem."""
    if problem.method == "kronecker":
        return KroneckerRidge(problem.alpha)
    if problem.task_spectrum is None:
        return IndependentTaskRidge(problem.alpha, filter=problem.filter)
    if problem.method == "network":
        symmetry = "symmetric" if problem.sign > 0 else "antisymmetric"
        return TwoStepRidge(problem.alpha, problem.alpha, filter=problem.filter, symmetry=symmetry)
    return TwoStepRidge(problem.alpha, problem.task_alpha, filter=problem.filter, task_filter=problem.task_filter)

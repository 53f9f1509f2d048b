"""Held-out predictions against the labels: ROC and precision–recall curves, or a cloud of points."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_choice
from dyadlearn._tables import Table
from dyadlearn.labels import read_labels
from dyadlearn.metrics import r2, scorer
from dyadlearn.metrics.cells import Metric, read_stack
from dyadlearn.metrics.ranks import AveragePrecision, RocAuc
from dyadlearn.plots._canvas import (
    COLOURS,
    FAINT,
    STYLES,
    axes_of,
    fitted_model,
    held_out,
    matplotlib,
    setting_words,
    tidy,
)
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting, as_setting

__all__ = ["HoldoutDisplay"]

_KINDS = ("auto", "roc", "precision_recall", "scatter")
_RANKS: dict[str, tuple[type[Metric], str]] = {"roc": (RocAuc, "AUC"), "precision_recall": (AveragePrecision, "AP")}
# Where the curves of many rows are averaged.
_STATIONS = np.linspace(0.0, 1.0, 201)


@dataclass(eq=False, repr=False)
class HoldoutDisplay:
    r"""Predictions of labels that a model has not seen, beside the labels themselves.

    Labels of two values make a ROC curve or a precision–recall curve for each setting, all others points around the
    line on which prediction and label are equal. Curves are averaged as the metrics are: over all cells together in
    settings A and D, over the instances in B and over the tasks in C,

    .. math:: \mathrm{TPR}_B(x) = \frac{1}{m} \sum_{i=1}^m \mathrm{TPR}_i(x),

    so that the area in the legend is the one that `dyadlearn.evaluate` tells. Grey is what guessing would give: the
    diagonal, or a precision as large as the share of positive labels. Cells that are not observed are not drawn. Make a
    Display with `from_estimator` or `from_predictions`.

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

    kind: str
    points: dict[str, tuple[np.ndarray, np.ndarray]]
    scores: dict[str, float]
    averages: dict[str, str]
    positive_share: float = float("nan")
    note: str = ""
    ax_: Any = field(init=False)
    figure_: Any = field(init=False)
    lines_: list[Any] = field(init=False)
    scatters_: list[Any] = field(init=False)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        settings: Iterable[str | Setting] = "ABCD",
        *,
        kind: str = "auto",
        cv: int | None = None,
        max_points: int = 5000,
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
        ax : matplotlib axes, default=None
            Where to draw; None makes a new figure. For points in several settings, as many axes.

        Returns
        -------
        HoldoutDisplay
        """
        matplotlib()  # before the hold-out, which may take its time
        model = fitted_model(model, "use HoldoutDisplay.from_predictions")
        wanted = list(dict.fromkeys(as_setting(setting) for setting in settings))
        if model._problem().task_spectrum is None:
            wanted = [setting for setting in wanted if not setting.new_task] or wanted
        if kind == "auto":
            own = scorer(scoring_of(model)).metric
            kind = next((name for name, (metric, _) in _RANKS.items() if metric is own), kind)
        grid = Table(to_numpy(model._grid.values))
        found = [(setting, *held_out(model, setting, cv)) for setting in wanted]
        display = cls._made(grid, [(setting_words(setting), F, setting) for setting, F, _ in found], kind)
        methods: dict[str, list[str]] = {}
        for setting, _, method in found:
            methods.setdefault(method, []).append(setting.value)
        methods.pop("exact leave-one-out", None)  # as the reader expects
        display.note = "\n".join(f"{method} in {', '.join(letters)}" for method, letters in methods.items())
        return display.plot(ax, max_points=max_points)

    @classmethod
    def from_predictions(
        cls,
        Y: Any,
        F: Any,
        *,
        setting: str | Setting | None = None,
        kind: str = "auto",
        max_points: int = 5000,
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
        kind, max_points, ax
            As in `from_estimator`.

        Returns
        -------
        HoldoutDisplay
        """
        grid = read_labels(Y)
        chosen = None if setting is None else as_setting(setting)
        one = "predictions" if chosen is None else setting_words(chosen)
        named = F if isinstance(F, Mapping) else {one: F}
        if not named:
            raise ValueError("F is an empty dict: give at least one grid of predictions.")
        predictions = []
        for name, given in named.items():
            stack, shape = read_stack(given, grid)
            if shape:
                raise ValueError(f"F must be one grid of predictions, or a dict of them, found a stack {shape}.")
            predictions.append((str(name), to_numpy(stack)[0], chosen))
        return cls._made(Table(to_numpy(grid.values)), predictions, kind).plot(ax, max_points=max_points)

    @classmethod
    def _made(cls, grid: Table, predictions: Sequence[tuple[str, np.ndarray, Setting | None]], kind: str) -> Self:
        """Compute what is drawn of named predictions (m, q)."""
        check_choice(kind, "kind", _KINDS)
        Y = np.asarray(grid.values, dtype=np.float64)
        observed = ~np.isnan(Y)
        distinct = np.unique(Y[observed])
        if distinct.size == 0:
            raise ValueError("Y has no observed label: there is nothing to draw.")
        if kind == "auto":
            kind = "roc" if distinct.size == 2 else "scatter"
        positive = distinct[-1] == Y
        share = float("nan") if kind == "scatter" else float(np.mean(positive[observed]))
        display = cls(kind, {}, {}, {}, share)
        for name, F, setting in predictions:
            if np.isnan(F[observed]).any():
                raise ValueError(f"F ({name}) has NaN where Y is observed: every observed cell needs a prediction.")
            if kind == "scatter":
                display.points[name] = (Y[observed], np.asarray(F[observed], dtype=np.float64))
                display.scores[name] = float(r2(Y, F)) if distinct.size > 1 else float("nan")
                display.averages[name] = "micro"
                continue
            metric = _RANKS[kind][0](Y, setting=setting, tie_tolerance=None)
            display.points[name] = _curve(kind, positive, observed, F, setting, metric.rows)
            display.scores[name] = float(metric(F))
            display.averages[name] = metric._cells.average
        return display

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
        panels = axes_of(ax, len(self.points) if self.kind == "scatter" else 1)
        self.lines_, self.scatters_ = [], []
        if self.kind == "scatter":
            self._draw_points(panels, max_points, np.random.default_rng(random_state))
        else:
            self._draw_curves(panels[0])
        self.ax_ = panels[0] if len(panels) == 1 else np.array(panels, dtype=object)
        self.figure_ = panels[0].figure
        return self

    def _draw_curves(self, ax: Any) -> None:
        is_roc = self.kind == "roc"
        short = _RANKS[self.kind][1]
        for index, (name, (x, y)) in enumerate(self.points.items()):
            look = _LOOKS.get(name, index)
            self.lines_ += ax.plot(
                x,
                y,
                color=COLOURS[look % len(COLOURS)],
                linestyle=STYLES[look % len(STYLES)],
                linewidth=1.8,
                drawstyle="default" if is_roc else "steps-pre",
                label=f"{name}, {short} {self.scores[name]:.3f}",
                clip_on=False,
            )
        if is_roc:
            ax.plot([0, 1], [0, 1], color=FAINT, linewidth=1, zorder=1)
            ax.set(xlabel="False positive rate", ylabel="True positive rate")
        else:
            ax.axhline(self.positive_share, color=FAINT, linewidth=1, zorder=1)
            ax.set(xlabel="Recall", ylabel="Precision")
        ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
        title = f"Hold-out {'ROC' if is_roc else 'precision–recall'} curves"
        ax.set_title("\n".join([title, *self._means(), *filter(None, [self.note])]), fontsize="medium")
        tidy(ax)
        # A precision–recall curve leaves room above itself, a ROC curve below.
        ax.legend(loc="lower right" if is_roc else "upper right", fontsize="small")

    def _means(self) -> list[str]:
        """Say which curves are means, in a line if there are any."""
        means = {name: f"over {average}s" for name, average in self.averages.items() if average != "micro"}
        if len(means) == len(self.averages) and len(set(means.values())) == 1:
            return [f"mean {next(iter(means.values()))}"]
        parts = [f"{over} in {name.partition(':')[0]}" for name, over in means.items()]
        return [f"mean {', '.join(parts)}"] if parts else []

    def _draw_points(self, panels: list[Any], max_points: int, rng: np.random.Generator) -> None:
        everything = np.concatenate([np.ravel(pair) for pair in self.points.values()])
        low, high = float(everything.min()), float(everything.max())
        margin = 0.04 * (high - low) or 0.5
        ends = (low - margin, high + margin)
        n_cells = len(next(iter(self.points.values()))[0])
        drawn = np.arange(n_cells)
        if n_cells > max_points:
            drawn = np.sort(rng.choice(n_cells, size=max_points, replace=False))
        notes = [self.note, f"{max_points:,} of {n_cells:,} labels drawn" if n_cells > max_points else ""]
        note = "".join(f"\n{text}" for text in notes if text)
        # Many points on top of each other should still show where most of them lie.
        opacity = float(np.clip(600 / len(drawn), 0.25, 0.9))
        for index, (panel, (name, (observed, predicted))) in enumerate(zip(panels, self.points.items(), strict=True)):
            panel.plot(ends, ends, color=FAINT, linewidth=1, zorder=1)
            self.scatters_.append(
                panel.scatter(
                    observed[drawn],
                    predicted[drawn],
                    s=12,
                    color=COLOURS[_LOOKS.get(name, index) % len(COLOURS)],
                    alpha=opacity,
                    linewidths=0,
                    rasterized=True,
                )
            )
            panel.set(xlim=ends, ylim=ends, aspect="equal", xlabel="Observed label")
            panel.set_title(f"{name}, R² {self.scores[name]:.3f}{note}", fontsize="medium")
            tidy(panel)
        panels[0].set_ylabel("Held-out prediction")


# A setting keeps its colour, whichever others are beside it.
_LOOKS = {setting_words(setting): index for index, setting in enumerate(Setting)}


def _curve(
    kind: str, positive: np.ndarray, observed: np.ndarray, F: np.ndarray, setting: Setting | None, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve of predictions (m, q), in B and C the mean of those of some rows or columns."""
    if setting is Setting.C:
        positive, observed, F = positive.T, observed.T, F.T
    elif setting is not Setting.B:
        return _single(kind, positive[observed], F[observed])
    total = np.zeros_like(_STATIONS)
    for row in rows:
        x, y = _single(kind, positive[row, observed[row]], F[row, observed[row]])
        if kind == "roc":
            total += np.interp(_STATIONS, x, y)
        else:
            # The precision up to a recall is that of the first threshold which reaches it.
            total += y[np.searchsorted(x, _STATIONS)]
    mean = total / len(rows)
    if kind == "roc":
        return np.concatenate([[0.0], _STATIONS]), np.concatenate([[0.0], mean])
    return _STATIONS, mean


def _single(kind: str, positive: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve of some cells (n,), from left to right."""
    if kind == "roc":
        x, y, _ = roc_curve(positive, predicted)
        return x, y
    y, x, _ = precision_recall_curve(positive, predicted)
    # Only the first threshold that reaches a recall counts; what sklearn adds at a recall of 0 does not.
    recall, first = np.unique(x[::-1], return_index=True)
    precision = y[::-1][first]
    precision[0] = precision[1]
    return recall, precision

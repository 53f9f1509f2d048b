r"""Held-out predictions beside the labels: curves for labels of two values, points for all others.

Curves are averaged as the metrics are: over all cells together in settings A and D, over the instances in B and over
the tasks in C,

.. math:: \mathrm{TPR}_B(x) = \frac{1}{m} \sum_{i=1}^m \mathrm{TPR}_i(x),

so that the area under them is the score that `dyadlearn.evaluate` tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.metrics import precision_recall_curve, roc_curve

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_choice
from dyadlearn.diagnostics.fitted import REMEDY, held_out, known_settings, labelled_model
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.labels import distinct_labels, read_labels
from dyadlearn.metrics import r2, scorer
from dyadlearn.metrics.cells import Metric, read_stack
from dyadlearn.metrics.ranks import AveragePrecision, RocAuc
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting, as_setting

__all__ = ["HoldoutView", "Points", "holdout_of_model", "holdout_of_predictions", "points_of", "some_of"]

_KINDS = ("auto", "roc", "precision_recall", "scatter")
_RANKS: dict[str, type[Metric]] = {"roc": RocAuc, "precision_recall": AveragePrecision}
# Where the curves of many rows are averaged.
_STATIONS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class Points:
    """A curve from left to right, or a cloud.

    Attributes
    ----------
    x, y : arrays of shape (n,)
        False and true positive rates; recalls and precisions, of which each holds up to its recall; or labels and
        predictions.
    score : float
        The area under the curve, the average precision, or R² over all points.
    average : {"micro", "instance", "task"}
        What the curve is the mean of.
    """

    x: np.ndarray
    y: np.ndarray
    score: float
    average: str

    def thinned(self, most: int = 201) -> tuple[np.ndarray, np.ndarray]:
        """Return about so many points of a curve, evenly along it: a good one is nearly upright at its start."""
        if self.x.size <= most:
            return self.x, self.y
        along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(self.x), np.diff(self.y)))])
        kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], most)).clip(max=self.x.size - 1))
        return self.x[kept], self.y[kept]


@dataclass(frozen=True, eq=False)
class HoldoutView:
    """Predictions of labels that a model has not seen, beside the labels themselves.

    Attributes
    ----------
    kind : {"roc", "precision_recall", "scatter"}
    curves : dict of str to Points
        For each setting, or whatever is compared.
    positive_share : float
        Share of positive labels; NaN for points.
    note : str
        What is to be said about how the predictions were made.
    """

    kind: str
    curves: dict[str, Points]
    positive_share: float = float("nan")
    note: str = ""

    @property
    def points(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """The coordinates of each curve or cloud."""
        return {name: (each.x, each.y) for name, each in self.curves.items()}

    @property
    def scores(self) -> dict[str, float]:
        """The area under each curve, its average precision, or R² over all points."""
        return {name: each.score for name, each in self.curves.items()}

    @property
    def averages(self) -> dict[str, str]:
        """What was averaged over."""
        return {name: each.average for name, each in self.curves.items()}


def points_of(kind: str, Y: np.ndarray, F: np.ndarray, setting: Setting | None = None) -> Points:
    """Return the curve or the cloud of predictions.

    Parameters
    ----------
    kind : {"roc", "precision_recall", "scatter"}
    Y, F : arrays of shape (m, q)
        Labels, NaN where not observed, and predictions.
    setting : Setting, default=None
        How a curve is averaged.

    Raises
    ------
    ValueError
        If there is no such curve, as where no row has labels of both values.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.curves import points_of
    >>> Y, F = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.9, 0.1], [0.2, 0.4]])
    >>> found = points_of("roc", Y, F)
    >>> found.score, found.x, found.y
    (0.75, array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]))
    """
    observed = ~np.isnan(Y)
    if kind == "scatter":
        varies = distinct_labels(Y).size > 1
        predicted = np.asarray(F[observed], dtype=np.float64)
        return Points(Y[observed], predicted, float(r2(Y, F)) if varies else float("nan"), "micro")
    metric = _RANKS[kind](Y, setting=setting, tie_tolerance=None)
    average, score = metric._cells.average, float(metric(F))
    positive = np.nanmax(Y) == Y
    if average == "micro":
        return Points(*_curve(kind, positive[observed], F[observed]), score, average)
    if average == "task":
        positive, observed, F = positive.T, observed.T, F.T
    rows = (_at_stations(kind, positive[row, observed[row]], F[row, observed[row]]) for row in metric.rows)
    mean = sum(rows, np.zeros_like(_STATIONS)) / len(metric.rows)
    if kind == "roc":  # it rises straight at 0
        return Points(np.append(0.0, _STATIONS), np.append(0.0, mean), score, average)
    return Points(_STATIONS, mean, score, average)


def _curve(kind: str, positive: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
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


def _at_stations(kind: str, positive: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the same curve at `_STATIONS`."""
    x, y = _curve(kind, positive, predicted)
    if kind == "roc":
        return np.asarray(np.interp(_STATIONS, x, y))
    # The precision up to a recall is that of the first threshold which reaches it.
    return np.asarray(y[np.searchsorted(x, _STATIONS)])


def holdout_of_model(
    model: Any,
    settings: Iterable[str | Setting],
    *,
    kind: str = "auto",
    cv: int | None = None,
    remedy: str = REMEDY,
) -> HoldoutView:
    """Return hold-out predictions of a fitted model; the parameters are those of `HoldoutDisplay.from_estimator`."""
    fitted, asked = labelled_model(model, remedy), [as_setting(setting) for setting in settings]
    wanted = known_settings(fitted, asked) or asked  # of which the model says why not
    if kind == "auto":
        own = scorer(scoring_of(fitted)).metric
        kind = next((name for name, metric in _RANKS.items() if metric is own), kind)
    found = [(setting, *held_out(fitted, setting, cv)) for setting in wanted]
    methods: dict[str, list[str]] = {}
    for setting, _, method in found:
        methods.setdefault(method, []).append(setting.value)
    methods.pop("exact leave-one-out", None)  # as the reader expects
    note = "\n".join(f"{method} in {', '.join(letters)}" for method, letters in methods.items())
    problem = fitted._problem()
    named = [(setting.in_words, scored_labels(problem, F, setting), F, setting) for setting, F, _ in found]
    if problem.is_listed:  # one column of all pairs, with one curve
        columns = [(words, labels[:, None], F[:, None], None) for words, labels, F, _ in named]
        return _compared(problem.targets[:, None], columns, kind, note)
    return _compared(problem.Y, named, kind, note)


def holdout_of_predictions(Y: Any, F: Any, *, setting: str | Setting | None = None, kind: str = "auto") -> HoldoutView:
    """Return predictions of any model; the parameters are those of `HoldoutDisplay.from_predictions`."""
    grid = read_labels(Y)
    chosen = None if setting is None else as_setting(setting)
    named = F if isinstance(F, Mapping) else {"predictions" if chosen is None else chosen.in_words: F}
    if not named:
        raise ValueError("F is an empty dict: give at least one grid of predictions.")
    predictions = []
    for name, given in named.items():
        stack, shape = read_stack(given, grid)
        if shape:
            raise ValueError(f"F must be one grid of predictions, or a dict of them, found a stack {shape}.")
        predictions.append((str(name), grid.values, to_numpy(stack)[0], chosen))
    return _compared(grid.values, predictions, kind)


def _compared(
    labels: Any, predictions: Sequence[tuple[str, Any, np.ndarray, Setting | None]], kind: str, note: str = ""
) -> HoldoutView:
    """Return the view of named predictions (m, q), each beside the labels that it is compared with."""
    check_choice(kind, "kind", _KINDS)
    Y = np.asarray(to_numpy(labels), dtype=np.float64)
    observed = ~np.isnan(Y)
    distinct = distinct_labels(Y)
    if distinct.size == 0:
        raise ValueError("Y has no observed label: there is nothing to draw.")
    if kind == "auto":
        kind = "roc" if distinct.size == 2 else "scatter"
    curves = {}
    for name, given, F, setting in predictions:
        own = np.asarray(to_numpy(given), dtype=np.float64)
        if np.isnan(F[~np.isnan(own)]).any():
            raise ValueError(f"F ({name}) has NaN where Y is observed: every observed cell needs a prediction.")
        curves[name] = points_of(kind, own, F, setting)
    share = float("nan") if kind == "scatter" else float(np.mean(Y[observed] == distinct[-1]))
    return HoldoutView(kind, curves, share, note)


def some_of(n_points: int, most: int, seed: int = 0) -> np.ndarray:
    """Return the positions of at most so many of some points, chosen at random but always the same.

    Examples
    --------
    >>> from dyadlearn.views.curves import some_of
    >>> some_of(3, 5), some_of(1000, 2).size
    (array([0, 1, 2]), 2)
    """
    if n_points <= most:
        return np.arange(n_points)
    return np.sort(np.random.default_rng(seed).choice(n_points, size=most, replace=False))

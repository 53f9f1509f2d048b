r"""The grid of labels and its image; curves or scatter plots of held-out predictions.

Curves are averaged as the metrics are: over all cells together in settings A and D, over the
instances in B and over the tasks in C,

.. math:: \mathrm{TPR}_B(x) = \frac{1}{m} \sum_{i=1}^m \mathrm{TPR}_i(x),

so that the area under a curve is the score of `dyadlearn.evaluate`. Where ranks would compare
predictions of different fits, curves are means over folds, beside the score of `evaluate`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn._checks import check_choice
from dyadlearn.diagnostics.fitted import REMEDY, fitted_of, held_out, known_settings
from dyadlearn.holdout.units import scored_labels
from dyadlearn.labels import Labels, distinct_labels, is_binary, read_labels
from dyadlearn.metrics import r2, scorer
from dyadlearn.metrics.cells import Metric, as_average, read_stack
from dyadlearn.metrics.ranks import AveragePrecision, RocAuc
from dyadlearn.metrics.scorers import prepared_score
from dyadlearn.models.fitted import Fitted
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.selection.hold_outs import HoldOuts
from dyadlearn.settings import Setting, as_setting, as_settings
from dyadlearn.sides import SideNames, side_names


@dataclass(frozen=True, eq=False)
class Pixels:
    """Image of a grid of labels.

    Attributes
    ----------
    values : array of shape (height, width)
        Mean of the observed labels of each block, or the share of the larger label if there are
        two; NaN if none is observed.
    block : (int, int)
        Number of instances and of tasks in one pixel.
    ends : (float, float)
        Labels of the first and the last colour: the 1 % and 99 % quantiles, so that outliers do not
        determine the colours.
    """

    values: np.ndarray
    block: tuple[int, int]
    ends: tuple[float, float]

    @property
    def note(self) -> str:
        """Note about pixels that show the mean of several labels."""
        height, width = self.block
        if height == width == 1:
            return ""
        return f"a pixel is the mean of {height} × {width} labels"


@dataclass(frozen=True, eq=False)
class GridView:
    """Labels of instances × tasks.

    The degree of an instance or task is the number of its positive labels if the labels have two
    values, else the number of its observed labels.

    Attributes
    ----------
    values : array of shape (m, q)
        Labels; NaN means missing.
    is_network : bool
        Whether both sides are the same nodes, so that each pair is in the grid twice.
    names : SideNames
        Names of the sides.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.grid import grid_of_labels
    >>> grid = grid_of_labels(np.array([[0.0, 1.0, np.nan], [1.0, 1.0, 0.0]])).by_degree
    >>> grid.values
    array([[ 1.,  1.,  0.],
           [ 1.,  0., nan]])
    >>> grid.is_binary, grid.n_observed, grid.share_positive, grid.degrees()
    (True, 5, 0.6, (array([2, 1]), array([2, 1, 0])))
    >>> grid.pixels(1).values, grid.pixels(1).block
    (array([[0.6]]), (2, 3))
    """

    values: np.ndarray
    is_network: bool = False
    names: SideNames = field(default_factory=SideNames)

    @cached_property
    def observed(self) -> np.ndarray:
        """Which cells have a label, of shape (m, q)."""
        return np.asarray(~np.isnan(self.values))

    @property
    def n_observed(self) -> int:
        """Number of cells that have a label."""
        return int(self.observed.sum())

    @property
    def n_missing(self) -> int:
        """Number of cells without a label."""
        return int(self.values.size) - self.n_observed

    @cached_property
    def distinct(self) -> np.ndarray:
        """The values that labels have, in ascending order."""
        return distinct_labels(self.values)

    @property
    def is_binary(self) -> bool:
        """Whether labels have exactly two values; the larger one is positive."""
        return self.distinct.size == 2

    @property
    def counted(self) -> str:
        """Description of the labels that a degree counts."""
        return "positive" if self.is_binary else "observed"

    @property
    def positive(self) -> np.ndarray:
        """Which cells have the larger label, of shape (m, q)."""
        return np.asarray(self.values == self.distinct[-1])

    @property
    def share_positive(self) -> float:
        """Proportion of the larger label among the observed labels."""
        return float(self.positive.sum() / self.n_observed)

    @property
    def size(self) -> str:
        """Size of the grid, in words."""
        m, q = self.values.shape
        return f"{m:,} {self.names.instances} × {q:,} {self.names.tasks}"

    def degrees(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the degrees of instances (m,) and tasks (q,)."""
        counted = self.positive if self.is_binary else self.observed
        return counted.sum(axis=1), counted.sum(axis=0)

    def degree_curves(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Return the distribution of the degrees of each side, by its text in a legend; a network has one.

        A distribution has degrees, and the share of the side with at least this degree.
        """
        # Both sides of a network have one name, and so one curve.
        degrees_by_name = dict(zip(self.names.both, self.degrees(), strict=True))
        curves = {}
        for name, degrees in degrees_by_name.items():
            levels, count = np.unique(degrees, return_counts=True)
            share = np.cumsum(count[::-1])[::-1] / degrees.size
            words = (
                f"{degrees.size:,} {name}: median {np.median(degrees):g}, most {degrees.max():,}"
            )
            curves[words] = np.array([0, *levels, levels[-1]]), np.array([1.0, *share, 0.0])
        return curves

    def histogram(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of labels (n,) between edges (n + 1,)."""
        values = self.values[self.observed]
        return np.histogram(values, bins=min(40, max(5, int(values.size**0.5))))

    def pixels(self, most: int) -> Pixels:
        """Return an image with at most a given number of pixels on each axis."""
        values = self.values
        ends = (0.0, 1.0)
        if self.is_binary:
            values = np.where(self.observed, self.positive, np.nan)
        elif self.n_observed:
            low, high = np.quantile(values[self.observed], [0.01, 0.99])
            ends = (float(low), float(high))
        m, q = values.shape
        height = -(-m // most)
        width = -(-q // most)
        # The grid is padded to whole blocks.
        padding = [(0, -m % height), (0, -q % width)]
        whole = np.ma.masked_invalid(np.pad(values, padding, constant_values=np.nan))
        blocks = whole.reshape(whole.shape[0] // height, height, -1, width)
        means = blocks.mean(axis=(1, 3)).filled(np.nan)
        return Pixels(np.asarray(means), (height, width), ends)

    @property
    def by_degree(self) -> GridView:
        """The grid sorted by decreasing degree, and by decreasing mean label for equal degrees."""
        known = np.ma.masked_invalid(self.values)
        orders = []
        for axis, degrees in enumerate(self.degrees()):
            means = known.mean(axis=1 - axis).filled(0.0)
            orders.append(np.lexsort((-means, -degrees)))
        return replace(self, values=self.values[np.ix_(*orders)])


def grid_of_labels(values: Any, *, network: bool = False, sides: Any = None) -> GridView:
    """Return the view of labels (m, q), in which NaN means missing; `sides` is as in `side_names`."""
    return GridView(
        to_numpy(values).astype(np.float64), network, side_names(sides, network=network)
    )


_KINDS = ("auto", "roc", "precision_recall", "scatter")
_RANKS: dict[str, type[Metric]] = {"roc": RocAuc, "precision_recall": AveragePrecision}
# Positions at which the curves of many rows are averaged.
_STATIONS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class Points:
    """Curve from left to right, or points of a scatter plot.

    Attributes
    ----------
    x, y : arrays of shape (n,)
        False and true positive rates; recalls and precisions, each of which is valid up to its
        recall; or labels and predictions.
    score : float
        Area under the curve, average precision, or R² of all points.
    average : {"pooled", "instance", "task"}
        What the curve is averaged over.
    """

    x: np.ndarray
    y: np.ndarray
    score: float
    average: str

    def thinned(self, most: int = 201) -> tuple[np.ndarray, np.ndarray]:
        """Return at most about `most` points of a curve, evenly spaced along it, since good curves rise steeply."""
        if self.x.size <= most:
            return self.x, self.y
        steps = np.hypot(np.diff(self.x), np.diff(self.y))
        lengths = np.concatenate([[0.0], np.cumsum(steps)])
        stations = np.linspace(0.0, lengths[-1], most)
        chosen = np.unique(np.searchsorted(lengths, stations).clip(max=self.x.size - 1))
        return self.x[chosen], self.y[chosen]


@dataclass(frozen=True, eq=False)
class HoldoutView:
    """Held-out predictions and their labels.

    Attributes
    ----------
    kind : {"roc", "precision_recall", "scatter"}
    curves : dict of str to Points
        Curve or points of each setting or each named prediction.
    positive_share : float
        Share of positive labels; NaN for scatter plots.
    note : str
        Note about the hold-out methods.
    """

    kind: str
    curves: dict[str, Points]
    positive_share: float = float("nan")
    note: str = ""

    @property
    def points(self) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """Coordinates of each curve or scatter plot."""
        return {name: (curve.x, curve.y) for name, curve in self.curves.items()}

    @property
    def scores(self) -> dict[str, float]:
        """Area under each ROC curve, average precision of each precision–recall curve, or R² of each scatter plot."""
        return {name: curve.score for name, curve in self.curves.items()}

    @property
    def averages(self) -> dict[str, str]:
        """Average of each curve: over all cells, instances or tasks."""
        return {name: curve.average for name, curve in self.curves.items()}


def points_of(
    kind: str,
    Y: np.ndarray,
    F: np.ndarray,
    setting: Setting | None = None,
    folds: np.ndarray | None = None,
    score: float | None = None,
) -> Points:
    """Return the curve or the scatter plot of predictions.

    Parameters
    ----------
    kind : {"roc", "precision_recall", "scatter"}
    Y, F : arrays of shape (m, q)
        Labels, NaN if missing, and predictions.
    setting : Setting, default=None
        Setting that determines the average of a curve.
    folds : integer array of shape (m, q), default=None
        Folds within which predictions are ranked; the curve is the mean over them.
    score : float, default=None
        Score of a curve, if it is known.

    Raises
    ------
    ValueError
        If the curve is undefined, for example because no row has labels of both values.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.grid import points_of
    >>> Y, F = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.9, 0.1], [0.2, 0.4]])
    >>> curve = points_of("roc", Y, F)
    >>> curve.score, curve.x, curve.y
    (0.75, array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]))
    """
    observed = ~np.isnan(Y)
    if kind == "scatter":
        explained = float("nan")
        if distinct_labels(Y).size > 1:
            explained = float(r2(Y, F))
        predicted = np.asarray(F[observed], dtype=np.float64)
        return Points(Y[observed], predicted, explained, "pooled")
    average = as_average(None, setting)
    judge = scorer(_RANKS[kind].scoring)
    where = Setting.A if setting is None else setting
    if score is None:
        score = float(prepared_score(Labels.of_grid(Y), judge, where, folds=folds)(F))
    positive = np.nanmax(Y) == Y
    if average == "pooled" and folds is None:
        [counts] = _counts(positive[observed], F[observed])
        curve = _roc(*counts) if kind == "roc" else _precision(*counts)
        return Points(*curve, score, average)
    places = np.nonzero(observed)
    parts = [] if folds is None else [folds[places]]
    if average != "pooled":
        parts.append(places[{"instance": 0, "task": 1}[average]])
    mean = np.zeros_like(_STATIONS)
    n_curves = 0
    for hits, misses in _counts(positive[places], F[places], *parts):
        if not hits[-1] or not misses[-1]:
            continue
        n_curves += 1
        if kind == "roc":
            mean += np.interp(_STATIONS, misses / misses[-1], hits / hits[-1])
        else:  # a precision is valid up to its recall
            x, y = _precision(hits, misses)
            mean += y[np.searchsorted(x, _STATIONS)]
    mean /= n_curves
    if kind == "roc":  # the curve rises vertically at 0
        return Points(np.append(0.0, _STATIONS), np.append(0.0, mean), score, average)
    return Points(_STATIONS, mean, score, average)


def _roc(hits: np.ndarray, misses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ROC curve of some counts, without points on a straight line between others."""
    is_corner = (np.diff(hits[1:], 2) != 0) | (np.diff(misses[1:], 2) != 0)
    corners = np.ones(hits.size, dtype=bool)
    corners[2:-1] = is_corner
    return misses[corners] / misses[-1], hits[corners] / hits[-1]


def _precision(hits: np.ndarray, misses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the recalls of some counts, and the precision of the first threshold that reaches each."""
    is_first = np.ones(hits.size - 1, dtype=bool)
    is_first[1:] = hits[2:] != hits[1:-1]
    recall = hits[1:][is_first] / hits[-1]
    precision = hits[1:][is_first] / (hits + misses)[1:][is_first]
    if recall[0] == 0:
        precision[0] = precision[min(1, precision.size - 1)]
        return recall, precision
    return np.append(0.0, recall), np.append(precision[0], precision)


def _counts(
    positive: np.ndarray, predicted: np.ndarray, *codes: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the numbers of positive and of other cells above each threshold, from 0 on, of each part.

    Parameters
    ----------
    positive, predicted : arrays of shape (n,)
    *codes : integer arrays of shape (n,)
        Parts of the cells, which are those of equal codes; all cells are one part without any.
    """
    order = np.lexsort((-predicted, *codes))
    is_start = np.zeros(order.size, dtype=bool)
    is_start[0] = True
    for code in codes:
        is_start[1:] |= np.diff(code[order]) != 0
    is_new = is_start.copy()
    is_new[1:] |= np.diff(predicted[order]) != 0
    # Thresholds, each before the first cell that is below it, and the end of all parts.
    before = np.append(np.flatnonzero(is_new), order.size)
    hits = np.append(0, np.cumsum(positive[order]))[before]
    starts = np.append(np.flatnonzero(is_start), order.size)
    bounds = np.searchsorted(before, starts)
    for first, last in itertools.pairwise(bounds):
        here = slice(first, last + 1)
        above = hits[here] - hits[first]
        yield above, before[here] - before[first] - above


def holdout_of_model(
    model: Any,
    settings: Iterable[str | Setting],
    *,
    kind: str = "auto",
    cv: int | None = None,
    remedy: str = REMEDY,
) -> HoldoutView:
    """Return hold-out predictions of a fitted model; the parameters are those of `HoldoutDisplay.from_estimator`."""
    fitted = fitted_of(model, remedy)
    chosen = as_settings(settings)
    # If the model knows none of the settings, it raises an error that explains why.
    wanted = known_settings(fitted, chosen) or chosen
    if kind == "auto":
        searched = scorer(scoring_of(fitted)).metric
        for name, metric in _RANKS.items():
            if metric is searched:
                kind = name
    whole = fitted.labels.dense()
    predictions = []
    methods: dict[str, list[str]] = {}
    for setting in wanted:
        shown = _shown(fitted, setting, kind, cv)
        predictions.append(shown)
        method = shown.method
        if method != "exact leave-one-out":  # readers expect this one
            methods.setdefault(method, []).append(setting.value)
    note = "\n".join(f"{method} in {', '.join(letters)}" for method, letters in methods.items())
    return _compared(whole.values, predictions, kind, note)


class _Shown(NamedTuple):
    """Held-out predictions of a curve or a scatter plot.

    Attributes
    ----------
    name : str
        Name in legends.
    labels, predictions : arrays of shape (m, q)
    setting : Setting or None
    method : str
        Hold-out method; empty for given predictions.
    folds : integer array of shape (m, q), or None
        Folds within which predictions are ranked.
    score : float or None
        Score by leave-pair-out; None means that of the predictions.
    """

    name: str
    labels: Any
    predictions: np.ndarray
    setting: Setting | None
    method: str = ""
    folds: np.ndarray | None = None
    score: float | None = None


def _shown(fitted: Fitted, setting: Setting, kind: str, cv: int | None) -> _Shown:
    """Return the held-out predictions of a setting, those of larger folds where ranks compare them."""
    whole = fitted.labels.dense()
    name = setting.in_words
    metric = _RANKS.get(kind)
    if metric is None and kind == "auto" and is_binary(whole.values):
        metric = RocAuc
    if metric is None:
        F, method = held_out(fitted, setting, cv)
        return _Shown(name, scored_labels(whole, F, setting), F, setting, method)
    how = {"cv": cv, "method": None, "groups": None, "task_groups": None, "exact": True}
    judge = scorer(metric.scoring)
    hold_outs = HoldOuts(fitted, setting, how)
    held = hold_outs.of(judge)
    drawn = held
    score = None
    if held.pairs is not None:
        score = held.score(held.targets).score
        drawn = hold_outs.of(judge, pairs=False)
    folds = None
    if drawn.folds is not None:
        folds = to_numpy(fitted.labels.spread(drawn.folds.astype(np.float64), -1.0))
    F = to_numpy(fitted.labels.spread(drawn.held_out.predictions))
    labels = to_numpy(fitted.labels.spread(drawn.targets))
    return _Shown(name, labels, F, setting, held.method, folds, score)


def holdout_of_predictions(
    Y: Any, F: Any, *, setting: str | Setting | None = None, kind: str = "auto"
) -> HoldoutView:
    """Return predictions of any model; the parameters are those of `HoldoutDisplay.from_predictions`."""
    grid = read_labels(Y)
    chosen = None if setting is None else as_setting(setting)
    if isinstance(F, Mapping):
        named = F
    else:
        named = {"predictions" if chosen is None else chosen.in_words: F}
    if not named:
        raise ValueError("F is an empty dict: give at least one grid of predictions.")
    predictions = []
    for name, values in named.items():
        stack, shape = read_stack(values, grid)
        if shape:
            raise ValueError(
                f"F must be one grid of predictions, or a dict of them, found a stack {shape}."
            )
        predictions.append(_Shown(str(name), grid.values, to_numpy(stack)[0], chosen))
    return _compared(grid.values, predictions, kind)


def _compared(
    labels: Any,
    predictions: Sequence[_Shown],
    kind: str,
    note: str = "",
) -> HoldoutView:
    """Return the view of named predictions (m, q), each with its labels."""
    check_choice(kind, "kind", _KINDS)
    Y = np.asarray(to_numpy(labels), dtype=np.float64)
    distinct = distinct_labels(Y)
    if distinct.size == 0:
        raise ValueError("Y has no observed label: there is nothing to draw.")
    if kind == "auto":
        kind = "roc" if distinct.size == 2 else "scatter"
    curves = {}
    for shown in predictions:
        scored = np.asarray(to_numpy(shown.labels), dtype=np.float64)
        F = shown.predictions
        if np.isnan(F[~np.isnan(scored)]).any():
            raise ValueError(
                f"F ({shown.name}) has NaN where Y is observed: every observed cell needs a "
                f"prediction."
            )
        curves[shown.name] = points_of(kind, scored, F, shown.setting, shown.folds, shown.score)
    if kind == "scatter":
        share = float("nan")
    else:
        share = float(np.mean(Y[~np.isnan(Y)] == distinct[-1]))
    return HoldoutView(kind, curves, share, note)


def some_of(n_points: int, most: int, seed: int = 0) -> np.ndarray:
    """Return the positions of a random sample of at most `most` points; the same seed gives the same sample.

    Examples
    --------
    >>> from dyadlearn.views.grid import some_of
    >>> some_of(3, 5), some_of(1000, 2).size
    (array([0, 1, 2]), 2)
    """
    if n_points <= most:
        return np.arange(n_points)
    return np.sort(np.random.default_rng(seed).choice(n_points, size=most, replace=False))

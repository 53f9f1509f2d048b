r"""Held-out predictions beside the labels: curves for two values, points for all others.

Curves are averaged as the scores are: over all cells together in settings A and D, over the instances in B and over
the tasks in C,

.. math:: \mathrm{TPR}_B(x) = \frac{1}{m} \sum_{i=1}^m \mathrm{TPR}_i(x).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dyadlearn.metrics.cells import Metric
from dyadlearn.metrics.ranks import AveragePrecision, RocAuc
from dyadlearn.settings import Setting

__all__ = ["Curve", "curve", "thinned"]

_METRICS: dict[str, type[Metric]] = {"roc": RocAuc, "precision_recall": AveragePrecision}
# Where the curves of many rows are averaged, and what all curves are thinned out to.
_STATIONS = np.linspace(0.0, 1.0, 201)


@dataclass(frozen=True, eq=False)
class Curve:
    """A curve from left to right.

    Attributes
    ----------
    x, y : arrays of shape (n,)
    area : float
        The area under a ROC curve, or the average precision.
    average : {"micro", "instance", "task"}
        What it is the mean of.
    """

    x: np.ndarray
    y: np.ndarray
    area: float
    average: str


def curve(kind: str, Y: np.ndarray, F: np.ndarray, setting: Setting) -> Curve | None:
    """Return the curve of held-out predictions in one setting.

    Parameters
    ----------
    kind : {"roc", "precision_recall"}
    Y : array of shape (m, q)
        Labels of two values; NaN where not observed.
    F : array of shape (m, q)
    setting : Setting

    Returns
    -------
    Curve, or None where no row or column has labels of both values

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.curves import curve
    >>> from dyadlearn.settings import Setting
    >>> Y, F = np.array([[1, 0], [1, 0]]), np.array([[0.9, 0.1], [0.2, 0.4]])
    >>> found = curve("roc", Y, F, Setting.A)
    >>> found.area, found.x, found.y
    (0.75, array([0. , 0. , 0.5, 0.5, 1. ]), array([0. , 0.5, 0.5, 1. , 1. ]))
    """
    try:
        metric = _METRICS[kind](Y, setting=setting, tie_tolerance=None)
    except ValueError:
        return None
    average, area = metric._cells.average, float(metric(F))
    observed = ~np.isnan(Y)
    positive = np.nanmax(Y) == Y
    if average == "micro":
        x, y = _single(kind, positive[observed], F[observed])
        return Curve(*_thinned_curve(kind, x, y), area, average)
    if average == "task":
        positive, observed, F = positive.T, observed.T, F.T
    total = np.zeros_like(_STATIONS)
    for row in metric.rows:
        total += _at_stations(kind, *_single(kind, positive[row, observed[row]], F[row, observed[row]]))
    mean = total / len(metric.rows)
    if kind == "roc":  # it rises straight at 0
        return Curve(np.concatenate([[0.0], _STATIONS]), np.concatenate([[0.0], mean]), area, average)
    return Curve(_STATIONS, mean, area, average)


def _single(kind: str, positive: np.ndarray, predicted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve of some cells (n,), from left to right."""
    order = np.argsort(-predicted)
    # A threshold lies after the last of equal predictions.
    last = np.append(np.flatnonzero(np.diff(predicted[order])), order.size - 1)
    found = np.cumsum(positive[order])[last]
    if kind == "roc":
        wrong = last + 1 - found
        return np.append(0.0, wrong / wrong[-1]), np.append(0.0, found / found[-1])
    # Only the first threshold that reaches a recall counts.
    recall, first = np.unique(found[found > 0] / found[-1], return_index=True)
    precision = (found / (last + 1))[found > 0][first]
    return np.append(0.0, recall), np.append(precision[0], precision)


def _at_stations(kind: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if kind == "roc":
        return np.asarray(np.interp(_STATIONS, x, y))
    # The precision up to a recall is that of the first threshold which reaches it.
    return np.asarray(y[np.searchsorted(x, _STATIONS)])


def _thinned_curve(kind: str, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if x.size <= _STATIONS.size:
        return x, y
    if kind == "precision_recall":
        return _STATIONS, _at_stations(kind, x, y)
    # Evenly along the curve, for a good one is nearly upright at its start.
    along = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(y)))])
    kept = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], _STATIONS.size)).clip(max=x.size - 1))
    return x[kept], y[kept]


def thinned(n_points: int, most: int) -> np.ndarray:
    """Return the positions of at most so many of some points, chosen at random but always the same.

    Examples
    --------
    >>> from dyadlearn.report.curves import thinned
    >>> thinned(3, 5), thinned(1000, 2).size
    (array([0, 1, 2]), 2)
    """
    if n_points <= most:
        return np.arange(n_points)
    return np.sort(np.random.default_rng(0).choice(n_points, size=most, replace=False))

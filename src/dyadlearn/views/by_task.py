r"""Correlation of labels and held-out predictions within each task.

A model that was fitted without a label is pulled away from it, so that predictions of different fits
that were trained on each other's labels correlate negatively with the labels (see Airola and others,
*Computational Statistics & Data Analysis* 55, 2011). Labels of one task are therefore compared within
folds that were left out together; where tasks are new (C and D), no prediction of a task was trained
on labels of this task, and all of them are compared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dyadlearn._array import to_numpy
from dyadlearn.holdout import Units
from dyadlearn.holdout.splitters import SettingKFold
from dyadlearn.labels import Labels
from dyadlearn.models.fitted import Fitted
from dyadlearn.settings import Setting

#: Least number of labels of a task in a fold that are compared with each other.
LEAST_LABELS = 10
# Mean number of labels of a task in a fold.
_PER_FOLD = 20
_MOST_FOLDS = 10


@dataclass(frozen=True, eq=False)
class TaskCorrelations:
    """Correlation of labels and held-out predictions within each task.

    Attributes
    ----------
    setting : Setting
    values : array of shape (q,)
        Pearson correlations: means over the folds with at least ten labels of the task, weighted by
        their numbers of labels. NaN for tasks without such a fold, or without different labels.
    counts : integer array of shape (q,)
        Number of labels of each task that were compared.
    method : str
        Hold-out method.
    """

    setting: Setting
    values: np.ndarray
    counts: np.ndarray
    method: str

    @property
    def is_empty(self) -> bool:
        """Whether no task has a correlation."""
        return bool(np.isnan(self.values).all())

    @property
    def order(self) -> np.ndarray:
        """Positions of the tasks that have a correlation, the largest first."""
        order = np.argsort(-self.values, kind="stable")
        return np.asarray(order[~np.isnan(self.values[order])])


def folds_by_task(labels: Labels, setting: Setting) -> SettingKFold | None:
    """Return folds with enough labels of each task to compare; None if predictions need no folds."""
    if 1 in setting.new:
        return None
    n_labels = labels.size / max(labels.shape[1], 1)
    n_folds = min(max(math.floor(n_labels / _PER_FOLD), 2), _MOST_FOLDS, labels.shape[0])
    return SettingKFold(setting, n_folds, random_state=0)


def correlations_by_task(fitted: Fitted, setting: Setting, **how: Any) -> TaskCorrelations:
    """Return the correlations of a fitted model.

    Parameters
    ----------
    fitted : Fitted
    setting : Setting
    **how
        Arguments of `Fitted.hold_out`. Without ``cv``, the folds are those of `folds_by_task`, and
        those of a model that learns its kernels again.
    """
    labels = fitted.labels
    relearns = fitted.learns_kernels and how.get("nested")
    if how.get("cv") is None and not relearns:
        how = {**how, "cv": folds_by_task(labels, setting)}
    held_out = fitted.hold_out(setting, **how)
    observed = labels.observed
    predictions = to_numpy(held_out.predictions)[observed].astype(np.float64)
    values = to_numpy(labels.values)[observed].astype(np.float64)
    folds = _folds(labels, setting, held_out.units)
    correlations, counts = within_parts(labels.places[1], folds, values, predictions)
    q = labels.shape[1]
    of_tasks = np.full(q, math.nan)
    of_tasks[: len(correlations)] = correlations
    n_labels = np.zeros(q, dtype=np.intp)
    n_labels[: len(counts)] = counts
    return TaskCorrelations(setting, of_tasks, n_labels, held_out.method)


def _folds(labels: Labels, setting: Setting, units: Units) -> np.ndarray:
    """Return the fold of each observed label within which predictions are compared."""
    if 1 in setting.new:
        return np.zeros(labels.size, dtype=np.intp)
    (codes,) = units.of_labels(labels, setting)
    codes = np.asarray(codes)
    return np.asarray(codes[labels.observed])


def within_parts(
    tasks: np.ndarray, folds: np.ndarray, values: np.ndarray, predictions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean correlation within the folds of each task, and the number of labels that were compared.

    Parameters
    ----------
    tasks, folds : integer arrays of shape (n,)
        Task and fold of each label.
    values, predictions : arrays of shape (n,)
        NaN predictions are ignored.

    Returns
    -------
    (array, integer array) of shape (q,)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.views.by_task import within_parts
    >>> labels = np.arange(20.0)
    >>> folds = np.repeat([0, 1], 10)
    >>> within_parts(np.zeros(20, dtype=int), folds, labels, labels - 30 * folds)
    (array([1.]), array([20]))
    """
    is_used = ~(np.isnan(values) | np.isnan(predictions))
    tasks, folds, values, predictions = (
        part[is_used] for part in (tasks, folds, values, predictions)
    )
    n_tasks = int(tasks.max(initial=-1)) + 1
    pairs, parts = np.unique(np.stack([tasks, folds]), axis=1, return_inverse=True)
    parts = parts.reshape(-1)
    counts = np.bincount(parts)
    deviations = []
    for numbers in (values, predictions):
        means = np.bincount(parts, numbers) / np.maximum(counts, 1)
        deviations.append(numbers - means[parts])
    squares = [np.bincount(parts, deviation**2) for deviation in deviations]
    products = np.bincount(parts, deviations[0] * deviations[1])
    size = np.sqrt(squares[0] * squares[1])
    is_compared = (counts >= LEAST_LABELS) & (squares[0] > 0)
    # Equal predictions rank nothing: their correlation counts as zero.
    correlations = np.where(size > 0, products / np.where(size > 0, size, 1.0), 0.0)
    weights = np.where(is_compared, counts, 0)
    totals = np.bincount(pairs[0], weights, n_tasks)
    sums = np.bincount(pairs[0], weights * correlations, n_tasks)
    means = np.full(n_tasks, math.nan)
    np.divide(sums, totals, out=means, where=totals > 0)
    return means, totals.astype(np.intp)

"""Held-out predictions of stages that were learned: each fold goes through all of them with its own labels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from dyadlearn._array import Array, as_array_of, namespace
from dyadlearn.learning.folds import Fold, FoldError, Labels
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.parameters import Parameters
from dyadlearn.learning.stages import profiled_fold

__all__ = ["cascaded"]

# The relative residual: each fold is solved once in a stage, so that it need not be as rough as while learning.
_TOL = 1e-5


def cascaded(
    labels: Labels,
    mixture: Mixture,
    tasks: Mixture | None,
    folds: Iterable[tuple[np.ndarray, np.ndarray]],
    path: Sequence[Sequence[float]],
    profiled: tuple[bool, bool],
) -> Array:
    """Return what the parameters of some stages predict for folds that had no part in any profile.

    Parameters
    ----------
    labels : Labels
    mixture, tasks : Mixture, the latter or None
        Of the descriptions as they came, without profiles.
    folds : iterable of (train, test)
        Masks (m, q) of cells to learn from, where observed, and to predict.
    path : sequence of vectors
        The parameters of each stage, as `Parameters.vector` has them.
    profiled : (bool, bool)
        Whether instances, and tasks, are described by their profiles from the second stage on.

    Returns
    -------
    array of shape (m, q)
        NaN where no fold predicts.

    Raises
    ------
    ValueError
        If a fold leaves no label.
    """
    Y, xp = labels.values, namespace(labels.values)
    found = xp.full_like(Y, float("nan"))
    for train, test in folds:
        cells = as_array_of(train, Y, Y.dtype) * labels.observed
        if not float(xp.sum(cells)) > 0:
            raise ValueError("A fold leaves no label to learn from: use more folds, or other groups.")
        fold = Fold(cells, cells, mixture, tasks)
        completed = _completed(labels, fold, path[0])
        for vector in path[1:]:
            completed = _completed(labels, profiled_fold(fold, completed, mixture, tasks, profiled), vector)
        found = xp.where(as_array_of(test, Y), completed, found)
    return found


def _completed(labels: Labels, fold: Fold, vector: Sequence[float]) -> Array:
    """Return what the model of a fold predicts, for all cells."""
    parameters = Parameters.start(fold.mixture, fold.tasks).of(np.asarray(vector))
    return FoldError(labels, [fold], fold).completed(parameters, fold, _TOL)

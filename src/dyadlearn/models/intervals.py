"""Prediction intervals of a fitted model: find out which rows are new, and compute the bounds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from dyadlearn._array import as_array_of, namespace, take_block, take_rows, to_numpy
from dyadlearn._checks import caller_level, check_share
from dyadlearn._tables import Table, shown
from dyadlearn.exceptions import IdError, NothingLeftError, UnboundedIntervalWarning
from dyadlearn.holdout.intervals import Bounds, FlatIntervals, Intervals, largest_coverage
from dyadlearn.kernels.descriptions import own_ids
from dyadlearn.labels import Places
from dyadlearn.models.fitted import Asked, Fitted, size_of
from dyadlearn.settings import Setting, as_setting


def interval_grids(
    fitted: Fitted,
    asked: Sequence[Asked],
    coverage: float,
    setting: str | Setting | None = None,
    pairs: tuple[np.ndarray, np.ndarray] | None = None,
) -> Bounds:
    """Return lower and upper bounds as arrays (a, b), with a warning if some are infinite.

    Parameters
    ----------
    fitted : Fitted
    asked : (Asked, Asked)
        Instances and tasks to predict for.
    coverage : float
    setting : str, Setting or None
        As in `GridModel.predict_interval`.
    pairs : (integer array, integer array) or None
        Positions of the pairs that are asked for; None means all pairs.
    """
    intervals = fitted.intervals
    coverage = check_share(coverage, "coverage")
    is_new_side: tuple[bool | None, bool | None] = (None, None)
    if setting is not None:
        chosen = as_setting(setting)
        fitted.check(chosen)
        is_new_side = (0 in chosen.new, 1 in chosen.new)
    sides = zip(
        asked,
        fitted.labels.shape,
        is_new_side,
        (("X", "instances"), ("tasks", "tasks")),
        strict=True,
    )
    where, others = (_checked_places(*side) for side in sides)
    rows = [side.rows for side in asked]
    bounds_of = _flat_bounds if isinstance(intervals, FlatIntervals) else _local_bounds
    bounds = bounds_of(fitted, intervals, rows, (where, others), coverage)
    infinite = np.isinf(to_numpy(bounds[0])) | np.isinf(to_numpy(bounds[1]))
    if pairs is not None:
        is_asked = np.zeros_like(infinite)
        is_asked[pairs] = True
        infinite &= is_asked
    if infinite.any():
        _warn_of_infinite(fitted, intervals, infinite, (where, others), coverage)
    return bounds


def _flat_bounds(
    fitted: Fitted, intervals: FlatIntervals, rows: Sequence[Any], places: Places, coverage: float
) -> Bounds:
    """Return bounds of one width per setting, around the held-out predictions of observed pairs.

    Parameters
    ----------
    fitted : Fitted
    intervals : FlatIntervals
    rows : (rows, rows)
        Instances and tasks as read; None means the training rows.
    places : (integer array of shape (a,), integer array of shape (b,))
        Training positions of the instances and of the tasks, -1 for new ones.
    coverage : float
    """
    predicted = fitted.predict(*rows)
    centre = to_numpy(predicted).copy()
    reach = np.empty(predicted.shape)
    for setting in Setting:
        block = np.ix_(*_inside(setting, places))
        if reach[block].size:
            reach[block] = intervals.reach(setting, coverage)
    old, old_tasks = (np.flatnonzero(inside) for inside in _inside(Setting.A, places))
    if np.isfinite(reach[np.ix_(old, old_tasks)]).any():
        at, task_at, held_out = intervals.known(places[0][old], places[1][old_tasks])
        centre[old[at], old_tasks[task_at]] = held_out
    lower, upper = (
        as_array_of(end, predicted, predicted.dtype) for end in (centre - reach, centre + reach)
    )
    return lower, upper


def _inside(setting: Setting, places: Places) -> list[np.ndarray]:
    """Return masks of the rows and of the columns of a setting, given their training positions, -1 for new ones."""
    return [(known < 0) == (axis in setting.new) for axis, known in enumerate(places)]


def _warn_of_infinite(
    fitted: Fitted, intervals: Any, infinite: np.ndarray, places: Places, coverage: float
) -> None:
    """Warn of infinite intervals (a, b), for which there are too few held-out residuals; `places` as in `_flat_bounds`.

    A new instance is compared with the labels of each known task, a new task with those of each
    known instance, and all other pairs with all labels.
    """
    observed = fitted.labels.observed
    counts = list[int]()
    if fitted.is_network:  # the grid contains each edge twice
        observed = np.triu(observed)
    for setting in Setting:
        inside = _inside(setting, places)
        block = infinite[np.ix_(*inside)]
        if not block.any():
            continue
        if intervals.bounds_all or setting in (Setting.A, Setting.D):
            counts.append(int(observed.sum()))
            continue
        axis = 0 if setting is Setting.B else 1
        beside = places[1 - axis][inside[1 - axis]][block.any(axis=axis)]
        edges = np.triu(observed, 1)
        per_row = (edges | edges.T if fitted.is_network else observed).sum(axis=axis)
        counts += per_row[beside].tolist()
    if min(counts) < max(counts):
        number = f"{min(counts)} to {max(counts)}"
    else:
        number = f"{counts[0]}"
    are_too_few = "residual is too few" if max(counts) == 1 else "residuals are too few"
    # One label has no residual: none remains to predict it from.
    most = largest_coverage(min(counts)) if min(counts) > 1 else 0.0
    if most:
        remedy = f"use a coverage of at most {most:g}, or give more labels"
    else:
        remedy = "give more labels"
    warnings.warn(
        f"Some intervals are infinite, because {number} held-out {are_too_few} for a "
        f"coverage of {coverage:g}: {remedy}.",
        UnboundedIntervalWarning,
        stacklevel=caller_level(),
    )


def _local_bounds(
    fitted: Fitted, intervals: Intervals, rows: Sequence[Any], places: Places, coverage: float
) -> Bounds:
    """Return bounds of local width; arguments as in `_flat_bounds`."""
    where, others = places
    blocks: list[list[Bounds]] = []
    for here, is_new in _kinds(where):
        new_rows = rows[0].take(here) if is_new else None
        blocks.append([])
        for there, is_new_task in _kinds(others):
            new = (new_rows, rows[1].take(there) if is_new_task else None)
            known = (where[here], others[there])
            blocks[-1].append(_block(fitted, intervals, new, known, coverage))
    xp = namespace(blocks[0][0][0])
    back = [
        np.argsort(np.concatenate([kind for kind, _ in _kinds(places)]))
        for places in (where, others)
    ]
    lower, upper = (
        take_block(
            xp.concat([xp.concat([block[end] for block in row], axis=1) for row in blocks]), *back
        )
        for end in (0, 1)
    )
    return lower, upper


def _checked_places(
    asked: Asked, size: int, new: bool | None, words: tuple[str, str]
) -> np.ndarray:
    """Return the training position of each row, -1 for new rows; `new` forces all rows to be new (True) or known."""
    rows, ids, places = asked
    name, what = words
    if rows is None or places is None:
        if new:
            raise ValueError(
                f"The setting predicts new {what}: give {name}, or choose a setting with known "
                f"{what}."
            )
        return np.arange(size)
    if new is False and (places < 0).any():
        known = own_ids(ids)
        if known is None:
            raise ValueError(
                f"The setting predicts known {what}, but {name} has no ids, and rows without ids "
                f"count as new: leave "
                f"{name} out, or give ids to {name} and to the labels."
            )
        unknown = [known.labels[place] for place in np.flatnonzero(places < 0)]
        raise IdError(
            f"The setting predicts known {what}, but {shown(unknown)} are new: leave them out."
        )
    return np.full(size_of(rows), -1) if new else places


def _kinds(places: np.ndarray) -> list[tuple[np.ndarray, bool]]:
    """Return the positions of known rows and of new rows, each with whether they are new."""
    kinds = [(np.flatnonzero(places >= 0), False), (np.flatnonzero(places < 0), True)]
    return [kind for kind in kinds if kind[0].size] or kinds[1:]


def _block(
    fitted: Fitted,
    intervals: Intervals,
    new: tuple[Any, Any],
    known: tuple[np.ndarray, np.ndarray],
    coverage: float,
) -> Bounds:
    """Return bounds of pairs of one setting: of new rows, or of the known training positions if they are None."""
    try:
        bounds = _beside_training(fitted, intervals, new, coverage)
    except NothingLeftError:
        # Bounds are infinite where no residual is known, and NaN where the prediction is NaN.
        predicted = fitted.predict(*new)
        bounds = (predicted - math.inf, predicted + math.inf)
    ends = []
    for end in bounds:
        if new[0] is None:
            end = take_rows(end, known[0])
        if new[1] is None:
            end = take_rows(end.T, known[1]).T
        ends.append(end)
    return ends[0], ends[1]


def _beside_training(
    fitted: Fitted, intervals: Intervals, new: tuple[Any, Any], coverage: float
) -> Bounds:
    """Return bounds of pairs of new rows, or of all training rows if they are None."""
    rows, columns = new
    if rows is not None and columns is not None:
        return intervals.new_both(rows, columns, fitted.predict(rows, columns), coverage)
    if rows is not None:
        return intervals.new_rows(rows, fitted.predict(rows, None), coverage)
    if columns is None:
        return intervals.known(fitted.completed, coverage)
    whole = fitted.predict(None, columns).T
    sign = fitted.symmetry
    if not sign:
        lower, upper = intervals.mirrored.new_rows(columns, whole, coverage)
        return lower.T, upper.T
    # A new node has the same edges as instance and as task, with opposite signs if antisymmetric.
    lower, upper = intervals.new_rows(columns, sign * whole, coverage)
    if sign < 0:
        return -upper.T, -lower.T
    return lower.T, upper.T


def predicted_intervals(
    fitted: Fitted,
    read: tuple[Table, Sequence[Any]],
    coverage: float,
    setting: str | Setting | None,
) -> tuple[Any, Any]:
    """Return lower and upper bounds for the instances and tasks that `Predicting.read` returns."""
    form, rows = read
    bounds = interval_grids(fitted, fitted.asked(form, rows), coverage, setting)
    lower, upper = (form.restore(fitted.home(bound)) for bound in bounds)
    return lower, upper

"""Intervals of predictions: which pairs are new, and how, and what held-out residuals say of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import as_array_of, namespace, take_block, take_rows
from dyadlearn._checks import check_share
from dyadlearn._tables import Ids, shown
from dyadlearn.exceptions import IdError
from dyadlearn.holdout.intervals import Bounds, FlatIntervals, Intervals
from dyadlearn.kernels.descriptions import own_ids
from dyadlearn.models._inputs import among
from dyadlearn.models.fitted import Fitted
from dyadlearn.settings import Setting, as_setting


class _Asked(NamedTuple):
    """Rows of one side that intervals are asked for.

    Attributes
    ----------
    places : integer array of shape (n,)
        Where each stands in training; -1 for a new one.
    rows : rows or None
        All of them; None where all are those of training.
    """

    places: np.ndarray
    rows: Any


def training_places(rows: Any, ids: Ids | None, training: Ids | None) -> np.ndarray:
    """Return where each of n rows stands in training, -1 for new ones; rows without ids are new.

    Parameters
    ----------
    rows : NewRows, or array of shape (n, d)
        As they are read; those that are decomposed may know their places.
    ids, training : Ids or None
        Those of the rows and of training.
    """
    places: np.ndarray | None = getattr(rows, "places", None)
    if places is not None:
        return places
    known = own_ids(ids)
    if known is None or training is None:
        return np.full(_size(rows), -1)
    return among(known.labels, training.labels)


def interval_grids(
    fitted: Fitted,
    intervals: Any,
    rows: tuple[Any, Any],
    ids: tuple[Ids | None, Ids | None],
    places: tuple[np.ndarray | None, np.ndarray | None],
    coverage: Any,
    setting: Any,
) -> Bounds:
    """Return lower and upper bounds as arrays (a, b).

    Parameters
    ----------
    fitted : Fitted
    intervals : Intervals or FlatIntervals
        Of the same model.
    rows : (rows or None, rows or None)
        Instances and tasks that are asked for; None stands for those of training.
    ids : (Ids or None, Ids or None)
        Of these.
    places : (integer array or None, integer array or None)
        Where they stand in training, -1 for new ones.
    coverage, setting : as in `PairwiseRidge.predict_interval`
    """
    coverage = check_share(coverage, "coverage")
    new: tuple[bool | None, bool | None] = (None, None)
    if setting is not None:
        chosen = as_setting(setting)
        fitted.check(chosen)
        new = (chosen.new_instance, chosen.new_task)
    m, q = fitted.labels.shape
    asked = _asked(rows[0], ids[0], places[0], m, new[0], "X", "instances")
    tasks = _asked(rows[1], ids[1], places[1], q, new[1], "tasks", "tasks")
    return _bounds(fitted, intervals, asked, tasks, coverage)


def _asked(
    rows: Any, ids: Ids | None, places: np.ndarray | None, size: int, new: bool | None, name: str, what: str
) -> _Asked:
    """Tell known rows of a side from new ones; `new` says that all are one or the other."""
    if rows is None or places is None:
        if new:
            raise ValueError(f"The setting is one of new {what}: give {name}, or a setting in which these are known.")
        return _Asked(np.arange(size), None)
    if new:
        return _Asked(np.full(_size(rows), -1), rows)
    if new is False and (places < 0).any():
        known = own_ids(ids)
        if known is None:
            raise ValueError(
                f"The setting is one of known {what}, but {name} has no ids, and rows without ids count as new: leave "
                f"{name} out, or give ids to it and to the labels."
            )
        unknown = [known.labels[place] for place in np.flatnonzero(places < 0)]
        raise IdError(
            f"The setting is one of known {what}, but {shown(unknown)} were not in training: leave them out, or ask "
            "for another setting."
        )
    return _Asked(places, rows)


def _bounds(fitted: Fitted, intervals: Any, asked: _Asked, tasks: _Asked, coverage: float) -> Bounds:
    """Return bounds of all pairs, of which each side may have known and new ones."""
    if isinstance(intervals, FlatIntervals):
        centre = fitted.predict(asked.rows, tasks.rows)
        new, new_tasks = (each.places < 0 for each in (asked, tasks))
        reach = np.empty((new.size, new_tasks.size))
        for setting in Setting:
            here = np.ix_(new == setting.new_instance, new_tasks == setting.new_task)
            if reach[here].size:
                reach[here] = intervals.reach(setting, coverage)
        width = as_array_of(reach, centre, centre.dtype)
        return centre - width, centre + width
    blocks = [
        [_block(fitted, intervals, (asked, own), (tasks, other), coverage) for other in _kinds(tasks)]
        for own in _kinds(asked)
    ]
    xp = namespace(blocks[0][0][0])
    back = [np.argsort(np.concatenate([kind for kind, _ in _kinds(each)])) for each in (asked, tasks)]
    lower, upper = (
        take_block(xp.concat([xp.concat([block[end] for block in row], axis=1) for row in blocks]), *back)
        for end in (0, 1)
    )
    return lower, upper


def _kinds(asked: _Asked) -> list[tuple[np.ndarray, bool]]:
    """Return where known rows stand, and where new ones do, with whether they are new."""
    kinds = [(np.flatnonzero(asked.places >= 0), False), (np.flatnonzero(asked.places < 0), True)]
    return [kind for kind in kinds if kind[0].size] or kinds[1:]


def _block(
    fitted: Any,
    intervals: Intervals,
    rows: tuple[_Asked, tuple[np.ndarray, bool]],
    columns: tuple[_Asked, tuple[np.ndarray, bool]],
    coverage: float,
) -> Bounds:
    """Return bounds of pairs that are all of one setting."""
    (asked, (here, is_new)), (tasks, (there, is_new_task)) = rows, columns
    sign = fitted.symmetry
    new_rows = asked.rows.take(here) if is_new and asked.rows is not None else None
    new_columns = tasks.rows.take(there) if is_new_task and tasks.rows is not None else None
    places, task_places = asked.places[here], tasks.places[there]
    if new_rows is not None and new_columns is not None:
        return intervals.new_both(new_rows, new_columns, fitted.predict(new_rows, new_columns), coverage)
    if new_rows is not None:
        lower, upper = intervals.new_rows(new_rows, fitted.predict(new_rows, None), coverage)
        return take_rows(lower.T, task_places).T, take_rows(upper.T, task_places).T
    if new_columns is not None:
        whole = fitted.predict(None, new_columns).T
        if sign:
            # A new vertex has the same neighbours whichever side it stands on, of the other sign in one kind.
            lower, upper = intervals.new_rows(new_columns, sign * whole, coverage)
            lower, upper = (lower, upper) if sign > 0 else (-upper, -lower)
        else:
            lower, upper = intervals.mirrored.new_rows(new_columns, whole, coverage)
        return take_rows(lower.T, places), take_rows(upper.T, places)
    lower, upper = intervals.known(fitted.completed, coverage)
    return take_block(lower, places, task_places), take_block(upper, places, task_places)


def predicted_intervals(
    fitted: Fitted, intervals: Any, X: Any, tasks: Any, coverage: float, setting: str | Setting | None
) -> tuple[Bounds, Any]:
    """Return lower and upper bounds (a, b), and a table with the ids of their rows and columns.

    Parameters
    ----------
    fitted : Fitted
    intervals : Intervals or FlatIntervals
    X, tasks, coverage, setting : as in `PairwiseRidge.predict_interval`
    """
    predicted, (instances, rows) = fitted.predicted(X, tasks), fitted.rows(X)
    task_table, task_rows = fitted.columns(tasks)
    ids = (instances.row_ids, None if task_table is None else task_table.row_ids)
    places = [
        None if asked is None else training_places(asked, own, known)
        for asked, own, known in zip((rows, task_rows), ids, (fitted.instance_ids, fitted.task_ids), strict=True)
    ]
    given = ((rows, task_rows), ids, (places[0], places[1]))
    return interval_grids(fitted, intervals, *given, coverage, setting), predicted


def _size(rows: Any) -> int:
    """Return the number of rows, decomposed or as they came."""
    return int(rows.shape[0]) if hasattr(rows, "shape") else int(rows.size)

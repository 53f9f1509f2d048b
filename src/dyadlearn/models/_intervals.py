"""Intervals that a fitted model gives: which pairs are new, and how, and what held-out residuals say of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dyadlearn._array import as_array_of, namespace, take_block, take_rows
from dyadlearn._checks import check_share
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.exceptions import IdError
from dyadlearn.holdout.intervals import Bounds
from dyadlearn.models._inputs import among
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.settings import Setting, as_setting

if TYPE_CHECKING:
    from dyadlearn.models._base import PairwiseRidge

__all__ = ["interval_grids", "interval_tables", "training_places"]


class _Asked(NamedTuple):
    """Rows of one side that intervals are asked for.

    Attributes
    ----------
    places : integer array of shape (n,)
        Where each stands in training; -1 for a new one.
    rows : NewRows or None
        All of them; None where all are those of training.
    """

    places: np.ndarray
    rows: NewRows | None


def training_places(ids: Ids | None, training: Ids | None, n_rows: int) -> np.ndarray:
    """Return where each of n rows stands in training, -1 for new ones; rows without ids are new.

    Parameters
    ----------
    ids, training : Ids or None
        Of the rows, and of those of training.
    n_rows : int
    """
    if ids is None or training is None or _counts(ids):
        return np.full(n_rows, -1)
    return among(ids.labels, training.labels)


def _counts(ids: Ids) -> bool:
    """Tell whether a frame without ids has counted its rows by itself, from 0: these numbers are nobody's."""
    return ids.labels == tuple(range(len(ids)))


def interval_tables(model: PairwiseRidge, X: Any, tasks: Any, coverage: Any, setting: Any) -> tuple[Table, Table]:
    """Return lower and upper bounds; arguments as in `PairwiseRidge.predict_interval`."""
    predicted = model._predicted(X, tasks)
    instances, rows = model._instance_rows(X)
    task_table, task_rows = model._task_rows(tasks)
    ids = (instances.row_ids, None if task_table is None else task_table.row_ids)
    training = (model._ids[0], model._ids[1] or _node_ids(model))
    places = [
        None if asked is None else training_places(own, known, asked.size) if asked.places is None else asked.places
        for asked, own, known in zip((rows, task_rows), ids, training, strict=True)
    ]
    lower, upper = interval_grids(model, (rows, task_rows), ids, (places[0], places[1]), coverage, setting)
    ends = []
    for end in (lower, upper):
        end = model._in_form(end) if tasks is None else end
        ends.append(Table(end, predicted.row_ids, predicted.column_ids, predicted.kind))
    return ends[0], ends[1]


def interval_grids(
    model: PairwiseRidge,
    rows: tuple[NewRows | None, NewRows | None],
    ids: tuple[Ids | None, Ids | None],
    places: tuple[np.ndarray | None, np.ndarray | None],
    coverage: Any,
    setting: Any,
) -> Bounds:
    """Return lower and upper bounds as arrays (a, b).

    Parameters
    ----------
    model : PairwiseRidge
    rows : (NewRows or None, NewRows or None)
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
        model._problem().pairing.check_request(chosen, None, None, None)
        new = (chosen.new_instance, chosen.new_task)
    m, q = model._grid.values.shape
    asked = _asked(rows[0], ids[0], places[0], m, new[0], "X", "instances")
    tasks = _asked(rows[1], ids[1], places[1], q, new[1], "tasks", "tasks")
    return _bounds(model, asked, tasks, coverage)


def _node_ids(model: PairwiseRidge) -> Ids | None:
    """Return the ids that both sides of a network have."""
    return model._ids[0] if model._problem().pairing.symmetry else None


def _asked(
    rows: NewRows | None, ids: Ids | None, places: np.ndarray | None, size: int, new: bool | None, name: str, what: str
) -> _Asked:
    """Tell known rows of a side from new ones; `new` says that all are one or the other."""
    if rows is None or places is None:
        if new:
            raise ValueError(f"The setting is one of new {what}: give {name}, or a setting in which these are known.")
        return _Asked(np.arange(size), None)
    if new:
        return _Asked(np.full(rows.size, -1), rows)
    if new is False and (places < 0).any():
        if ids is None or _counts(ids):
            raise ValueError(
                f"The setting is one of known {what}, but {name} has no ids, and rows without ids count as new: leave "
                f"{name} out, or give ids to it and to the labels."
            )
        unknown = [ids.labels[place] for place in np.flatnonzero(places < 0)]
        raise IdError(
            f"The setting is one of known {what}, but {shown(unknown)} were not in training: leave them out, or ask "
            "for another setting."
        )
    return _Asked(places, rows)


def _bounds(model: PairwiseRidge, asked: _Asked, tasks: _Asked, coverage: float) -> Bounds:
    """Return bounds of all pairs, of which each side may have known and new ones."""
    found = model._intervals()
    if not found.is_local:
        centre = model._expansion().grid(asked.rows, tasks.rows)
        new, new_tasks = (each.places < 0 for each in (asked, tasks))
        reach = np.empty((new.size, new_tasks.size))
        for setting in Setting:
            here = np.ix_(new == setting.new_instance, new_tasks == setting.new_task)
            if reach[here].size:
                reach[here] = found.reach(setting, coverage)
        width = as_array_of(reach, centre, centre.dtype)
        return centre - width, centre + width
    blocks = [
        [_block(model, (asked, own), (tasks, other), coverage) for other in _kinds(tasks)] for own in _kinds(asked)
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
    model: PairwiseRidge,
    rows: tuple[_Asked, tuple[np.ndarray, bool]],
    columns: tuple[_Asked, tuple[np.ndarray, bool]],
    coverage: float,
) -> Bounds:
    """Return bounds of pairs that are all of one setting."""
    (asked, (here, is_new)), (tasks, (there, is_new_task)) = rows, columns
    found, sign = model._intervals(), model._problem().pairing.symmetry
    new_rows = asked.rows.take(here) if is_new and asked.rows is not None else None
    new_columns = tasks.rows.take(there) if is_new_task and tasks.rows is not None else None
    places, task_places = asked.places[here], tasks.places[there]
    if new_rows is not None and new_columns is not None:
        centre = model._expansion().grid(new_rows, new_columns)
        bounds: Bounds = found.new_both(new_rows, new_columns, centre, coverage)
        return bounds
    if new_rows is not None:
        lower, upper = found.new_rows(new_rows, model._expansion().grid(new_rows, None), coverage)
        return take_rows(lower.T, task_places).T, take_rows(upper.T, task_places).T
    if new_columns is not None:
        whole = model._expansion().grid(None, new_columns).T
        if sign:
            # A new vertex has the same neighbours whichever side it stands on, of the other sign in one kind.
            lower, upper = found.new_rows(new_columns, sign * whole, coverage)
            lower, upper = (lower, upper) if sign > 0 else (-upper, -lower)
        else:
            lower, upper = found.mirrored.new_rows(new_columns, whole, coverage)
        return take_rows(lower.T, places), take_rows(upper.T, places)
    lower, upper = found.known(model._closed_problem.Y, coverage)
    return take_block(lower, places, task_places), take_block(upper, places, task_places)

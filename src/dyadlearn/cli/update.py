"""``dyadlearn update``: what an online model learns from new instances and new tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn._frames import Ids
from dyadlearn.cli import dyads
from dyadlearn.cli.files import Force, check_target
from dyadlearn.cli.modelfile import Loaded, ModelArgument, load_model, save_model
from dyadlearn.cli.sides import Entities, new_side
from dyadlearn.cli.tables import Sheet, shown
from dyadlearn.cli.talk import Json, Quiet, Talk
from dyadlearn.exceptions import IdError

__all__ = ["update"]


def update(
    model: ModelArgument,
    labels: Annotated[Path, typer.Option("--labels", help="Labels of what is new: a grid or a long table.")],
    instances: Annotated[
        Path | None, typer.Option("--instances", help="New instances; with --tasks the known ones, as they were.")
    ] = None,
    tasks: Annotated[Path | None, typer.Option("--tasks", help="New tasks, labelled for all known instances.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model here and leave the old one as it is.")
    ] = None,
    format: dyads.Format = None,
    columns: dyads.Columns = None,
    fill: dyads.Fill = None,
    transpose: dyads.Transpose = False,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Let an online model learn more; without --output its file is replaced when all went well.

    Make such a model by: dyadlearn tune … --model online

    For example:

        dyadlearn update model.dyad --instances new_users.csv --labels new_ratings.csv

        dyadlearn update model.dyad --tasks new_items.csv --instances all_users.csv --labels their_ratings.csv
    """
    with Talk(json, quiet) as talk:
        target = model if output is None else output
        check_target(target, force or output is None)
        found = load_model(model)
        online = found.model
        if not online.grows:
            raise ValueError(f"{model} holds a {type(online).__name__}: only models of tune --model online learn more.")
        if instances is None and tasks is None:
            raise ValueError("There is nothing new: give --instances, or --tasks.")
        if tasks is not None and found.tasks is None:
            raise ValueError("The model was made without --tasks: leave them out, new tasks are columns of the labels.")
        options = dyads.Options(format=format, columns=columns, fill=fill, transpose=transpose)
        grid = dyads.read_labels(labels, options, talk)
        X = None if instances is None else new_side(instances, found.instances, None, talk)
        rows = None if X is None else _in_order(X, grid.rows, grid.path, "rows", instances)
        if _are_new_tasks(grid, found, tasks):
            T = None
            if tasks is not None and found.tasks is not None:
                T = _in_order(new_side(tasks, found.tasks, None, talk), grid.columns, grid.path, "columns", tasks)
            _learn_tasks(online, T, grid.columns, grid.values, rows)
        else:
            online.partial_fit(rows, _known_columns(grid, found.ids[1]))
        save_model(found, target)
        figures = {
            "instances": online.n_seen_,
            "tasks": online.n_tasks_,
            "pending_tasks": online.n_pending_tasks_,
            "output": str(target),
        }
        if online.n_pending_tasks_:
            talk.note(
                f"{online.n_pending_tasks_} tasks are pending until their labels for all {online.n_seen_} instances "
                "have come; until then the model does not know them."
            )
        talk.result(figures)
        talk.say(f"{target} knows {online.n_seen_} instances and {online.n_tasks_} tasks now.")


def _are_new_tasks(grid: Sheet, found: Loaded, tasks: Path | None) -> bool:
    """Tell whether the labels are those of new tasks: described by a file or, without features, all unknown by name."""
    known = found.ids[1]
    if tasks is not None or found.tasks is not None or known is None or grid.columns is None:
        return tasks is not None
    return not set(grid.columns.labels) & set(known.labels)


def _in_order(side: Entities, wanted: Ids | None, labels: Path, axis: str, path: Path | None) -> Any:
    """Return the rows of a side in the order of the labels."""
    if wanted is None or side.ids is None:
        return side.values
    own = set(side.ids.labels)
    lacking = [label for label in wanted.labels if label not in own]
    if lacking:
        raise IdError(f"{len(lacking)} of the {len(wanted)} {axis} of {labels} are not in {path}: {shown(lacking)}.")
    if len(own) > len(wanted):
        raise IdError(
            f"{path} has {len(own)} ids, but {labels} has {axis} for {len(wanted)} of them only: an online model needs "
            "the labels of all."
        )
    return side.values[side.ids.positions(wanted.labels, str(path))]


def _known_columns(grid: Sheet, known: Ids | None) -> np.ndarray:
    """Return labels with their columns in the order of the known tasks."""
    if grid.columns is None or known is None:
        return np.asarray(grid.values)
    order = grid.columns.order_as(known, f"the columns of {grid.path}", "the tasks of the model")
    return np.asarray(grid.values if order is None else grid.values[:, order])


def _learn_tasks(online: Any, T: Any, new: Ids | None, labels: np.ndarray, X: Any) -> None:
    """Let a model learn tasks, and keep what they are called."""
    known = online._learnt.task_ids
    repeated = [label for label in new.labels if label in set(known.labels)] if known and new else []
    if repeated:
        raise IdError(f"Tasks {shown(repeated)} are known already: give new tasks ids of their own.")
    # Arrays have no ids, and a model that has some wants them of all.
    online._learnt = replace(online._learnt, task_ids=None)
    online.partial_fit_tasks(T, labels, X=X)
    learnt = online._learnt
    if learnt.pending is not None:
        online._learnt = replace(learnt, task_ids=known, pending=replace(learnt.pending, ids=new))
    elif known is not None and new is not None:
        online._learnt = replace(learnt, task_ids=Ids((*known.labels, *new.labels), known.name))

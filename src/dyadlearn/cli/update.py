"""``dyadlearn update``: what an online model learns from new instances and new tasks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from dyadlearn._checks import check_choice
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.cli import dyads, options
from dyadlearn.cli.entities import Recipes, new_entities, open_new
from dyadlearn.cli.models import Loaded, load_model, save_model
from dyadlearn.cli.options import Force, ModelArgument, check_target
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import IdError
from dyadlearn.growing.knowledge import KNOWN


def update(
    model: ModelArgument,
    labels: Annotated[Path, typer.Option("--labels", help="Labels of what is new: a grid or a long table.")],
    *,
    instances: Annotated[
        Path | None, typer.Option("--instances", help="New instances; with --tasks the known ones, as they were.")
    ] = None,
    tasks: Annotated[Path | None, typer.Option("--tasks", help="New tasks, labelled for all known instances.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the model here and leave the old one as it is.")
    ] = None,
    known: Annotated[
        str, typer.Option(help="What becomes of instances that the model knows: error, or replace their labels.")
    ] = "error",
    how: options.LabelOptions,
    force: Force = False,
    terminal: Terminal,
) -> None:
    """Let an online model learn more; without --output its file is replaced when all went well.

    Make such a model by: dyadlearn tune … --model online

    For example:

        dyadlearn update model.dyad --instances new_users.csv --labels new_ratings.csv

        dyadlearn update model.dyad --tasks new_items.csv --instances all_users.csv --labels their_ratings.csv

        dyadlearn update model.dyad --instances all_users.csv --labels ratings_of_today.csv --known replace
    """
    check_choice(known, "--known", KNOWN)
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
    grid = dyads.read_labels(labels, how, terminal)
    others = known == "replace"  # the labels of instances that stay as they are need not come again
    X = _new_side(instances, found.instances, grid.row_ids, "rows", labels, terminal, others=others)
    if _are_new_tasks(grid, found, tasks):
        T = _new_side(tasks, found.tasks, grid.column_ids, "columns", labels, terminal)
        _check_new(grid.column_ids, found.ids[1])
        online.partial_fit_tasks(T, grid, X=X)
    else:
        if online.statistics_.per_task:
            grid = _with_missing(grid, found.ids[1], labels, terminal)
        grid = grid.columns_as(found.ids[1], f"the columns of {labels}", "the tasks of the model")
        # The ids of a model need not be texts; now that the columns are in their order, they need none.
        online.partial_fit(X, replace(grid, column_ids=None), known=known)
    save_model(found, target)
    terminal.result({"instances": online.n_seen_, "tasks": online.n_tasks_, "output": str(target)})
    terminal.say(f"{target} knows {online.n_seen_} instances and {online.n_tasks_} tasks now.")


def _are_new_tasks(grid: Table, found: Loaded, tasks: Path | None) -> bool:
    """Tell whether the labels are those of new tasks: described by a file or, without features, all unknown by name."""
    known = found.ids[1]
    if tasks is not None or found.tasks is not None or known is None or grid.column_ids is None:
        return tasks is not None
    return not set(grid.column_ids.labels) & set(known.labels)


def _with_missing(grid: Table, known: Ids | None, labels: Path, terminal: Terminal) -> Table:
    """Return labels with a column for every known task, NaN for those that nothing was said of."""
    if grid.column_ids is None or known is None or known.lacking(grid.column_ids.labels):
        return grid
    lacking = grid.column_ids.lacking(known.labels)
    if not lacking:
        return grid
    terminal.note(f"{labels} says nothing of {len(lacking)} of {len(known)} tasks: none of their labels is observed.")
    missing = np.full((grid.values.shape[0], len(lacking)), np.nan)
    ids = Ids((*grid.column_ids.labels, *lacking), grid.column_ids.name)
    return replace(grid, values=np.hstack([grid.values, missing]), column_ids=ids)


def _new_side(
    path: Path | None,
    recipes: Recipes | None,
    wanted: Ids | None,
    axis: str,
    labels: Path,
    terminal: Terminal,
    *,
    others: bool = False,
) -> Table | None:
    """Read new instances or tasks, in the order that they have in the labels; None without a file.

    Others that have no labels are refused, unless `others` says that they may be there.
    """
    if path is None or recipes is None:
        return None
    how = recipes[""]  # an online model has one file a side
    source = open_new(path, how)
    # Files that can be read in part may hold many that nothing is said of today.
    asked = None if wanted is None or source.file.is_whole else wanted.labels
    side = new_entities(source, how, None, terminal, asked=asked)
    if wanted is None or side.row_ids is None:
        return side
    lacking = side.row_ids.lacking(wanted.labels)
    if lacking:
        raise IdError(f"{len(lacking)} of the {len(wanted)} {axis} of {labels} are not in {path}: {shown(lacking)}.")
    if len(side.row_ids) > len(wanted) and not others:
        raise IdError(
            f"{path} has {len(side.row_ids)} ids, but {labels} has {axis} for {len(wanted)} of them only: an online "
            "model needs the labels of all."
        )
    return side.take(side.row_ids.positions(wanted.labels, str(path)))


def _check_new(new: Ids | None, known: Ids | None) -> None:
    """Refuse tasks that the model knows."""
    taken = set() if known is None else set(known.labels)
    repeated = [] if new is None else [label for label in new.labels if label in taken]
    if repeated:
        raise IdError(f"Tasks {shown(repeated)} are known already: give new tasks ids of their own.")

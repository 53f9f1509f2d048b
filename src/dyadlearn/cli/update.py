"""``dyadlearn update``: add instances, tasks or labels to an online model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dyadlearn._checks import check_choice
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.cli import entities
from dyadlearn.cli.commands import Update
from dyadlearn.cli.dyads import Axis, places_in, read_labels
from dyadlearn.cli.models import Loaded, load, save_model
from dyadlearn.cli.options import check_target
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import IdError
from dyadlearn.growing.knowledge import KNOWN


def update(options: Update, terminal: Terminal) -> None:
    """Add instances, tasks or labels to an online model, and write its file."""
    check_choice(options.known, "known", KNOWN)
    target = options.source if options.output is None else options.output
    check_target(target, force=True)
    loaded = load(options)
    _check_possible(options, loaded)
    grid = read_labels(options.labels, options, terminal)
    files = (options.instances, options.tasks)
    sides = []
    for axis, path in enumerate(files):
        sides.append(_side(loaded, axis, path, grid, options.labels, terminal))
    if _are_new_tasks(loaded, grid, options.tasks):
        _add_tasks(loaded, grid, *sides)
    else:
        grid = _for_known_tasks(loaded, grid, options.labels, terminal)
        loaded.model.partial_fit(sides[0], grid, known=options.known)
    save_model(loaded, target)
    model = loaded.model
    names = loaded.names
    figures = {"instances": model.n_seen_, "tasks": model.n_tasks_, "output": str(target)}
    terminal.result(figures)
    counts = f"{model.n_seen_} {names.instances} and {model.n_tasks_} {names.tasks}"
    terminal.say(f"{target} knows {counts} now.")


def _check_possible(options: Update, loaded: Loaded) -> None:
    """Raise if the model does not learn more, or not from these files."""
    if not loaded.model.grows:
        raise ValueError(
            f"{options.source} is no online model: only models of tune --model online can be "
            f"updated."
        )
    if options.instances is None and options.tasks is None:
        raise ValueError("Give --instances or --tasks: the file of the new instances or tasks.")
    if options.tasks is not None and loaded.recipes[1] is None:
        raise ValueError(
            "The model was tuned without --tasks: leave it out, new tasks are columns of the "
            "labels."
        )


def _side(
    loaded: Loaded,
    axis: int,
    path: Path | None,
    grid: Table,
    labels: Path,
    terminal: Terminal,
) -> Table | None:
    """Return the instances (axis 0) or tasks (axis 1) in the order of the labels; None without a file."""
    recipes = loaded.recipes[axis]
    if path is None or recipes is None:
        return None
    recipe = recipes[""]  # an online model has one file a side
    source = entities.open_new(path, recipe)
    ids = (grid.row_ids, grid.column_ids)
    labelled = Axis(loaded.names.both[axis], ("rows", "columns")[axis], ids[axis])
    places = places_in(source.file, grid.values.shape[axis], labelled, labels, terminal)
    table = entities.new_entities(source, recipe, None, terminal, places)
    return loaded.with_names(table, axis)


def _are_new_tasks(loaded: Loaded, grid: Table, tasks: Path | None) -> bool:
    """Return whether the labels are those of new tasks: --tasks is given or, without features of tasks, all are new."""
    known = loaded.ids[1]
    columns = grid.column_ids
    if loaded.recipes[1] is not None or known is None or columns is None:
        return tasks is not None
    return not set(columns.labels) & set(known.labels)


def _add_tasks(loaded: Loaded, grid: Table, instances: Table | None, tasks: Table | None) -> None:
    """Add new tasks to the model."""
    known = loaded.ids[1]
    columns = grid.column_ids
    if known is not None and columns is not None:
        repeated = set(known.labels) & set(columns.labels)
        if repeated:
            name = loaded.names.tasks.capitalize()
            raise IdError(f"{name} {shown(sorted(repeated))} are known already: rename new ones.")
    loaded.model.partial_fit_tasks(tasks, grid, X=instances)


def _for_known_tasks(loaded: Loaded, grid: Table, labels: Path, terminal: Terminal) -> Table:
    """Return labels with a column for each task of the model, in its order."""
    tasks = loaded.ids[1]
    grid = _with_missing(grid, tasks, labels, terminal)
    of_model = f"the {loaded.names.tasks} of the model"
    grid = grid.columns_as(tasks, f"the columns of {labels}", of_model)
    # The ids of a model may be whole numbers; the columns are in its order now, so their ids can be
    # dropped.
    return replace(grid, column_ids=None)


def _with_missing(grid: Table, known: Ids | None, labels: Path, terminal: Terminal) -> Table:
    """Return labels with a column for every known task, NaN for those that are not in the file."""
    if grid.column_ids is None or known is None or known.lacking(grid.column_ids.labels):
        return grid
    lacking = grid.column_ids.lacking(known.labels)
    if not lacking:
        return grid
    terminal.note(
        f"{labels} has no labels for {len(lacking)} of {len(known)} tasks: these labels are "
        f"missing."
    )
    missing = np.full((grid.values.shape[0], len(lacking)), np.nan)
    ids = Ids((*grid.column_ids.labels, *lacking), grid.column_ids.name)
    return replace(grid, values=np.hstack([grid.values, missing]), column_ids=ids)

"""``dyadlearn predict``: what a model says about new instances and tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn._array import row_blocks, to_numpy
from dyadlearn._frames import Ids
from dyadlearn.cli import dyads
from dyadlearn.cli.files import Force, check_table, is_text, write_blocks, write_columns, write_grid
from dyadlearn.cli.modelfile import Loaded, ModelArgument, load_model
from dyadlearn.cli.sides import Entities, new_side
from dyadlearn.cli.tables import read_cells, shown
from dyadlearn.cli.talk import Json, Quiet, Talk
from dyadlearn.exceptions import DataFileError

__all__ = ["predict"]


def predict(
    model: ModelArgument,
    instances: dyads.MaybeInstances = None,
    tasks: dyads.Tasks = None,
    pairs: Annotated[Path | None, typer.Option(help="Only these pairs: a table of instance, task.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npz; else csv is printed.")
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="Write rows of instance, task, prediction.")] = False,
    instances_smiles: dyads.InstancesSmiles = None,
    tasks_smiles: dyads.TasksSmiles = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict for new instances, new tasks, or both; a side that is left out stands for the one of training.

    Features have the columns they had in training. New rows of a kernel have the ids of training as columns.

    For example:

        dyadlearn predict model.dyad --instances new_targets.csv -o predictions.csv

        dyadlearn predict model.dyad --instances new_targets.csv --tasks new_drugs.csv --long -o predictions.csv

        dyadlearn predict model.dyad --tasks new_drugs.csv --pairs wanted.csv
    """
    with Talk(json, quiet) as talk:
        check_table(output, force)
        found = load_model(model)
        if instances is None and tasks is None:
            raise ValueError("There is nothing new to predict for: give --instances, --tasks or both.")
        X = _side(found, instances, 0, instances_smiles, talk)
        T = _side(found, tasks, 1, tasks_smiles, talk)
        in_full = output is None and talk.as_json
        if X is not None and pairs is None and not long and is_text(output) and not in_full:
            sizes = _write_in_blocks(found, X, T, output)
            if output is not None:
                talk.result({**sizes, "output": str(output)})
                talk.say(f"Wrote {sizes['instances']} × {sizes['tasks']} predictions to {output}.")
            return
        values = _predictions(found.model, None if X is None else X.values, T)
        rows, columns = (_names(found, side, place, values.shape[place]) for place, side in enumerate((X, T)))
        sizes = {"instances": len(rows), "tasks": len(columns)}
        if pairs is None and not long:
            done = f"{len(rows)} × {len(columns)} predictions"
            if not talk.as_json or output is not None:
                write_grid(output, values, rows, columns, "instance")
            figures = {**sizes, "rows": list(rows.labels), "columns": list(columns.labels), "predictions": values}
        else:
            table = _listed(values, rows, columns, pairs)
            done = f"{len(table['prediction'])} predictions"
            if not talk.as_json or output is not None:
                write_columns(output, table)
            figures = {**sizes, "predictions": table}
        if output is None:
            talk.result(figures)
        else:
            talk.result({**sizes, "output": str(output)})
            talk.say(f"Wrote {done} to {output}.")


def _side(found: Loaded, path: Path | None, side: int, smiles: str | None, talk: Talk) -> Entities | None:
    """Read one side of what is to be predicted; None stands for the side of training."""
    if path is None:
        return None
    recipe = (found.instances, found.tasks)[side]
    if recipe is None:
        raise ValueError("The model knows nothing of tasks and cannot predict for new ones: leave --tasks out.")
    return new_side(path, recipe, found.ids[side], talk, smiles=smiles)


def _write_in_blocks(found: Loaded, X: Entities, T: Entities | None, output: Path | None) -> dict[str, int]:
    """Predict and write one block of instances after the other; return how many instances and tasks there were."""
    # One instance tells how many tasks there are, and what is wrong with the others before anything is written.
    n_tasks = _predictions(found.model, X.values[:1], T).shape[1]
    n_rows = X.values.shape[0]
    rows, columns = _names(found, X, 0, n_rows), _names(found, T, 1, n_tasks)
    blocks = (_predictions(found.model, X.values[here], T) for here in row_blocks(n_rows, 8 * n_tasks))
    write_blocks(output, blocks, rows, columns, "instance")
    return {"instances": n_rows, "tasks": n_tasks}


def _predictions(model: Any, X: Any, T: Entities | None) -> np.ndarray:
    """Return predictions (a, b) for the rows of X; a side that is None is that of training."""
    if X is not None:
        values = to_numpy(model.predict(X, tasks=None if T is None else T.values))
        return values.reshape(X.shape[0], -1)
    if model.grows:
        raise ValueError("An online model keeps no instances: give them by --instances.")
    # The spectrum knows the instances of training, whether the model keeps their features or not.
    assert T is not None
    _, rows = model._task_rows(T.values)
    return to_numpy(model._expansion().transposed.grid(rows, None).T)


def _names(found: Loaded, side: Entities | None, place: int, count: int) -> Ids:
    ids = found.ids[place] if side is None else side.ids
    return Ids(tuple(map(str, range(count)))) if ids is None else ids


def _listed(values: np.ndarray, rows: Ids, columns: Ids, pairs: Path | None) -> dict[str, list[Any]]:
    """Return predictions as a long table, of all pairs or of those in a file."""
    if pairs is None:
        first, second = (place.ravel() for place in np.indices(values.shape))
    else:
        cells = read_cells(pairs)
        if len(cells.headings) < 2:
            found = shown(cells.headings)
            raise DataFileError(f"{pairs} must have two columns, an instance and a task, found {found}.")
        wanted = [cells.labels(place) for place in (0, 1)]
        first = rows.positions(wanted[0], "the instances")
        second = columns.positions(wanted[1], "the tasks")
    return {
        "instance": [rows.labels[place] for place in first],
        "task": [columns.labels[place] for place in second],
        "prediction": values[first, second].tolist(),
    }

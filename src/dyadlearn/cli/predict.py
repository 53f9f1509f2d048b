"""``dyadlearn predict``: what a model says about new instances and tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from dyadlearn import calibrate
from dyadlearn._array import row_blocks, to_numpy
from dyadlearn._files.tables import read_cells, write_columns, write_grid
from dyadlearn._tables import Ids, Table, shown
from dyadlearn.cli import options
from dyadlearn.cli.entities import n_entities, new_side, take_rows, with_row_ids
from dyadlearn.cli.files import Files
from dyadlearn.cli.models import Loaded, load_model
from dyadlearn.cli.options import Force, Json, ModelArgument, Quiet, Sides, check_beside, check_table
from dyadlearn.cli.terminal import Terminal
from dyadlearn.diagnostics.calibration import Calibration, settings_of
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.models._observed import is_large
from dyadlearn.settings import Setting

__all__ = ["predict"]

# What makes predictions (a, b) for some instances and tasks, those of training where there are none.
_Side = Table | Descriptions | None
_Made = Callable[[Any, _Side, _Side], np.ndarray]


def predict(
    model: ModelArgument,
    instances: options.MaybeSeveralInstances = None,
    tasks: options.SeveralTasks = None,
    pairs: Annotated[Path | None, typer.Option(help="Only these pairs: a table of instance, task.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A .csv, .tsv, .parquet or .npz; else csv is printed.")
    ] = None,
    long: Annotated[bool, typer.Option("--long", help="Write rows of instance, task, prediction.")] = False,
    probability: Annotated[
        bool, typer.Option("--probability", help="Probabilities of the larger of two labels instead of scores.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", help="Rows of instance, task, prediction, lower, upper: bounds for 0.9, say, of labels."
        ),
    ] = None,
    instances_smiles: options.SeveralInstancesSmiles = None,
    tasks_smiles: options.SeveralTasksSmiles = None,
    sides: Sides = None,
    force: Force = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict for new instances, new tasks, or both; a side that is left out stands for the one of training.

    Features have the columns they had in training. New rows of a kernel have the ids of training as columns.
    A model of several descriptions wants all of them, by their names.

    For example:

        dyadlearn predict model.dyad --instances new_targets.csv -o predictions.csv

        dyadlearn predict model.dyad --instances new_targets.csv --tasks new_drugs.csv --long -o predictions.csv

        dyadlearn predict model.dyad --tasks new_drugs.csv --pairs wanted.csv

        dyadlearn predict model.dyad --instances new_targets.csv --probability -o probabilities.csv

        dyadlearn predict model.dyad --instances new_targets.csv --interval 0.9 -o bounds.csv

        dyadlearn predict model.dyad --instances ecfp=new_drugs.csv --instances sim=new_rows.csv -o predictions.csv
    """
    with Terminal(json, quiet) as terminal:
        check_table(output, force)
        check_beside(bool(instances), "--instances", "instances_smiles")
        check_beside(bool(tasks), "--tasks", "tasks_smiles")
        found = load_model(model).named(sides)
        if not instances and not tasks:
            raise ValueError(
                "There is nothing new to predict for: give --instances, --tasks or both (those of training, where "
                "intervals or probabilities of known pairs are wanted: ids tell)."
            )
        if interval is not None and not 0 < interval < 1:
            raise ValueError(f"--interval must be a share between 0 and 1, such as 0.9, found {interval:g}.")
        if interval is not None and probability:
            raise ValueError("--interval bounds labels, and a probability is none: leave out one of the two.")
        asked = (None, None) if pairs is None else _labels_of(pairs)
        X = _side(found, instances, 0, instances_smiles, asked[0], terminal)
        T = _side(found, tasks, 1, tasks_smiles, asked[1], terminal)
        sizes: dict[str, Any] = {}
        made: _Made = _predictions
        word = "prediction"
        if probability:
            calibration = _calibrated(found, X, T, terminal)
            sizes, word = {"calibration": calibration.columns()}, "probability"

            def made(model: Any, X: _Side, T: _Side) -> np.ndarray:
                return _grid(calibration.predict(X, T))

        words = "probabilities" if probability else "predictions"
        rows, columns, blocks = _in_blocks(found, X, T, made)
        sizes = {"instances": len(rows), "tasks": len(columns), **sizes}
        in_full = output is None and terminal.as_json
        figures: dict[str, Any] = sizes
        if pairs is None and not long and interval is None:
            done = f"{len(rows)} × {len(columns)} {words}"
            if in_full:
                values = np.concatenate(list(blocks))
                figures = {**sizes, "rows": list(rows.labels), "columns": list(columns.labels), words: values}
            else:
                write_grid(output, blocks, rows, columns, "instance" if found.sides is None else found.names.instance)
        else:
            plain = interval is None and not probability
            if pairs is not None and plain and is_large((len(rows), len(columns))):  # the others are not predicted
                table = _asked(found, X, T, rows, columns, pairs)
            else:
                grids = _columns(found, X, T, {word: np.concatenate(list(blocks))}, interval, terminal)
                table = _listed(grids, rows, columns, pairs)
            done = f"{len(table[word])} {words}"
            table = table if found.sides is None else found.headed(table)
            if in_full:
                figures = {**sizes, words: table}
            else:
                write_columns(output, table)
        if output is None:
            terminal.result(figures)
        else:
            terminal.result({**sizes, "output": str(output)})
            terminal.say(f"Wrote {done} to {output}.")


def _side(
    found: Loaded,
    given: list[str] | None,
    side: int,
    smiles: list[str] | None,
    asked: list[str] | None,
    terminal: Terminal,
) -> _Side:
    """Read one side of what is to be predicted, of those `asked` for; None stands for the side of training."""
    if not given:
        return None
    recipe = (found.instances, found.tasks)[side]
    if recipe is None:
        raise ValueError("The model knows nothing of tasks and cannot predict for new ones: leave --tasks out.")
    option = ("--instances", "--tasks")[side]
    files = Files.of(given, option)
    ids, of_smiles = found.ids[side], f"{option}-smiles"
    return new_side(files, recipe, ids, terminal, smiles=smiles, smiles_option=of_smiles, asked=asked)


def _in_blocks(found: Loaded, X: _Side, T: _Side, made: _Made) -> tuple[Ids, Ids, Iterable[np.ndarray]]:
    """Return the ids of instances and tasks, and the predictions in blocks of rows, made one after the other."""
    blocks: Iterable[np.ndarray]
    own, others = _by_own_ids(found, X, T)
    if own is None:
        values = made(found.model, None, others)
        n_rows, n_tasks, blocks = *values.shape, [values]
    else:
        # One instance tells how many tasks there are, and what is wrong with the others before anything is written.
        n_rows, n_tasks = n_entities(own), made(found.model, take_rows(own, np.arange(1)), others).shape[1]
        blocks = (
            made(found.model, take_rows(own, np.arange(n_rows)[here]), others)
            for here in row_blocks(n_rows, 8 * n_tasks)
        )
    return _names(found, X, 0, n_rows), _names(found, T, 1, n_tasks), blocks


def _grid(values: Any) -> np.ndarray:
    found = to_numpy(values)
    return found.reshape(found.shape[0], -1)


def _by_own_ids(found: Loaded, *sides: _Side) -> list[_Side]:
    """Return both sides with the ids that the model has for entities of training, which may be no texts."""
    named = list(sides)
    for place, (side, own, known) in enumerate(zip(sides, found.own_ids, found.ids, strict=True)):
        if side is not None and side.row_ids is not None and own is not None and known is not None:
            names = dict(zip(known.labels, own.labels, strict=True))
            named[place] = with_row_ids(side, Ids(tuple(names.get(each, each) for each in side.row_ids.labels)))
    return named


def _calibrated(found: Loaded, X: _Side, T: _Side, terminal: Terminal) -> Calibration:
    """Calibrate a model in the settings of what is to be predicted, and tell what its probabilities are worth."""
    settings = settings_of(found.model, *_by_own_ids(found, X, T))
    with terminal.working("Calibration"):
        made = calibrate(found.model, settings)
    for each in made.settings.values():
        terminal.note(
            f"probabilities in setting {each.setting} have a held-out Brier score of {each.brier:.4f}, the base rate "
            f"one of {each.baseline_brier:.4f}."
        )
    return made


def _predictions(model: Any, X: _Side, T: _Side) -> np.ndarray:
    """Return predictions (a, b) for the rows of X; a side that is None is that of training."""
    if X is not None:
        return _grid(model.predict(X, tasks=T))
    if model.grows:
        raise ValueError("An online model keeps no instances: give them by --instances.")
    # The spectrum knows the instances of training, whether the model keeps their features or not.
    assert T is not None
    _, rows = model._task_rows(T)
    return to_numpy(model._expansion().transposed.grid(rows, None).T)


def _names(found: Loaded, side: _Side, place: int, count: int) -> Ids:
    ids = found.ids[place] if side is None else side.row_ids
    return Ids(tuple(map(str, range(count)))) if ids is None else ids


def _columns(
    found: Loaded,
    X: _Side,
    T: _Side,
    grids: dict[str, np.ndarray],
    interval: float | None,
    terminal: Terminal,
) -> dict[str, np.ndarray]:
    """Return grids by the names of their columns, bounds among them where an interval is asked for."""
    if interval is None:
        return grids
    own = _by_own_ids(found, X, T)
    lower, upper = found.model.predict_interval(*own, coverage=interval)
    if Setting.A in settings_of(found.model, *own) and not found.model._problem().is_listed:
        terminal.note("bounds of pairs with a known label are around what is predicted without it, not the prediction.")
    return {**grids, "lower": _grid(lower), "upper": _grid(upper)}


def _places(rows: Ids, columns: Ids, pairs: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return where instances and tasks of the pairs in a file stand."""
    first, second = _labels_of(pairs)
    return rows.positions(first, "the instances"), columns.positions(second, "the tasks")


def _labels_of(pairs: Path) -> tuple[list[str], list[str]]:
    """Return the instances and the tasks of the pairs in a file."""
    cells = read_cells(pairs)
    if len(cells.headings) < 2:
        found = shown(cells.headings)
        raise DataFileError(f"{pairs} must have two columns, an instance and a task, found {found}.")
    return cells.labels(0), cells.labels(1)


def _asked(found: Loaded, X: _Side, T: _Side, rows: Ids, columns: Ids, pairs: Path) -> dict[str, list[Any]]:
    """Return predictions of the pairs in a file, and of no others, as a long table."""
    places, own = _places(rows, columns, pairs), _by_own_ids(found, X, T)
    wanted = []
    for place, side, known in zip(places, own, found.own_ids, strict=True):
        ids = known if side is None else side.row_ids
        wanted.append(place.tolist() if ids is None else [ids.labels[at] for at in place])
    values = found.model.predict_pairs(*own, list(zip(*wanted, strict=True)))
    return {
        "instance": [rows.labels[place] for place in places[0]],
        "task": [columns.labels[place] for place in places[1]],
        "prediction": to_numpy(values).tolist(),
    }


def _listed(grids: dict[str, np.ndarray], rows: Ids, columns: Ids, pairs: Path | None) -> dict[str, list[Any]]:
    """Return predictions, and what goes with them, as a long table, of all pairs or of those in a file."""
    if pairs is None:
        first, second = (place.ravel() for place in np.indices((len(rows), len(columns))))
    else:
        first, second = _places(rows, columns, pairs)
    return {
        "instance": [rows.labels[place] for place in first],
        "task": [columns.labels[place] for place in second],
        **{word: values[first, second].tolist() for word, values in grids.items()},
    }

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
from dyadlearn.cli.entities import n_entities, take_rows, with_row_ids
from dyadlearn.cli.models import Loaded, ModelFile
from dyadlearn.cli.options import check_beside
from dyadlearn.cli.terminal import Terminal
from dyadlearn.diagnostics.calibration import Calibration, settings_of
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.models.training import is_large
from dyadlearn.settings import Setting

_Side = Table | Descriptions | None


def predict(
    source: ModelFile,
    *,
    instances: options.MaybeInstances = None,
    tasks: options.Tasks = None,
    pairs: Annotated[Path | None, typer.Option(help="Only these pairs: a table of instance, task.")] = None,
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
    instances_smiles: options.SmilesOfInstances = None,
    tasks_smiles: options.SmilesOfTasks = None,
    target: options.TableOutput,
    terminal: Terminal,
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
    check_beside(instances, "--instances", "instances_smiles")
    check_beside(tasks, "--tasks", "tasks_smiles")
    loaded = source.load()
    if not instances and not tasks:
        raise ValueError(
            "There is nothing new to predict for: give --instances, --tasks or both (those of training, where "
            "intervals or probabilities of known pairs are wanted: ids tell)."
        )
    if interval is not None and not 0 < interval < 1:
        raise ValueError(f"--interval must be a share between 0 and 1, such as 0.9, found {interval:g}.")
    if interval is not None and probability:
        raise ValueError("--interval bounds labels, and a probability is none: leave out one of the two.")
    asked: tuple[Any, Any] = (None, None) if pairs is None else _labels_of(pairs)
    given = zip(("--instances", "--tasks"), (instances, tasks), (instances_smiles, tasks_smiles), asked, strict=True)
    sides: list[_Side] = [
        loaded.new(files, place, option, terminal, smiles=smiles, smiles_option=f"{option}-smiles", asked=those)
        if files
        else None
        for place, (option, files, smiles, those) in enumerate(given)
    ]
    new = _Asked(loaded, sides)
    word, words = ("probability", "probabilities") if probability else ("prediction", "predictions")
    sizes: dict[str, Any] = {}
    if probability:
        calibration = _calibrated(loaded, new, terminal)
        sizes["calibration"] = calibration.columns()
        new.predict = lambda X, T: _grid(calibration.predict(X, T))
    rows, columns, blocks = new.in_blocks()
    sizes = {"instances": len(rows), "tasks": len(columns), **sizes}
    output, figures = target.output, sizes
    if pairs is None and not long and interval is None:
        done = f"{len(rows)} × {len(columns)} {words}"
        if output is None and terminal.json:
            values = np.concatenate(list(blocks))
            figures = {**sizes, "rows": list(rows.labels), "columns": list(columns.labels), words: values}
        else:
            write_grid(output, blocks, rows, columns, "instance" if loaded.sides is None else loaded.names.instance)
    else:
        if pairs is None:
            first, second = (place.ravel() for place in np.indices((len(rows), len(columns))))
        else:
            first, second = rows.positions(asked[0], "the instances"), columns.positions(asked[1], "the tasks")
        table: dict[str, Any] = {"instance": rows.take(first).labels, "task": columns.take(second).labels}
        if pairs is not None and interval is None and not probability and is_large((len(rows), len(columns))):
            table[word] = new.of_pairs(first, second)  # the others are not predicted
        else:
            grids = {word: np.concatenate(list(blocks)), **_bounds(loaded, new, interval, terminal)}
            table |= {name: values[first, second].tolist() for name, values in grids.items()}
        done = f"{len(first)} {words}"
        table = table if loaded.sides is None else loaded.headed(table)
        if output is None and terminal.json:
            figures = {**sizes, words: table}
        else:
            write_columns(output, table)
    if output is None:
        terminal.result(figures)
    else:
        terminal.result({**sizes, "output": str(output)})
        terminal.say(f"Wrote {done} to {output}.")


class _Asked:
    """The instances and tasks to predict for; a side that is None is that of training.

    Attributes
    ----------
    sides : list of Table, Descriptions or None
        With the ids that the model has for entities of training, which may be no texts.
    predict : callable
        Returns predictions (a, b) for some instances and tasks.
    """

    def __init__(self, loaded: Loaded, sides: list[_Side]) -> None:
        self._loaded, self._as_text = loaded, sides
        self.predict: Callable[[Any, Any], np.ndarray] = self._predictions
        self.sides = list(sides)
        for place, (side, own, known) in enumerate(zip(sides, loaded.own_ids, loaded.ids, strict=True)):
            if side is not None and side.row_ids is not None and own is not None and known is not None:
                names = dict(zip(known.labels, own.labels, strict=True))
                labels = tuple(names.get(each, each) for each in side.row_ids.labels)
                self.sides[place] = with_row_ids(side, Ids(labels))

    def in_blocks(self) -> tuple[Ids, Ids, Iterable[np.ndarray]]:
        """Return the ids of instances and tasks as text, and the predictions in blocks of rows, one after the other."""
        blocks: Iterable[np.ndarray]
        X, T = self.sides
        if X is None:
            values = self.predict(None, T)
            n_rows, n_tasks, blocks = *values.shape, [values]
        else:
            # One instance tells how many tasks there are, and what is wrong with the others before anything is written.
            n_rows, n_tasks = n_entities(X), self.predict(take_rows(X, np.arange(1)), T).shape[1]
            parts = row_blocks(n_rows, 8 * n_tasks)
            blocks = (self.predict(take_rows(X, np.arange(n_rows)[part]), T) for part in parts)
        return self._ids(0, n_rows), self._ids(1, n_tasks), blocks

    def of_pairs(self, rows: np.ndarray, columns: np.ndarray) -> list[float]:
        """Return the predictions for some pairs, by their positions."""
        wanted = []
        for place, side, known in zip((rows, columns), self.sides, self._loaded.own_ids, strict=True):
            ids = known if side is None else side.row_ids
            wanted.append(place.tolist() if ids is None else ids.take(place).labels)
        values = self._loaded.model.predict_pairs(*self.sides, list(zip(*wanted, strict=True)))
        return to_numpy(values).tolist()  # type: ignore[no-any-return]

    def _ids(self, place: int, count: int) -> Ids:
        side = self._as_text[place]
        ids = self._loaded.ids[place] if side is None else side.row_ids
        return Ids(tuple(map(str, range(count)))) if ids is None else ids

    def _predictions(self, X: _Side, T: _Side) -> np.ndarray:
        model = self._loaded.model
        if X is not None:
            return _grid(model.predict(X, tasks=T))
        if model.grows:
            raise ValueError("An online model keeps no instances: give them by --instances.")
        # The spectrum knows the instances of training, whether the model keeps their features or not.
        _, rows = model._task_rows(T)
        return to_numpy(model._expansion().transposed.grid(rows, None).T)


def _grid(values: Any) -> np.ndarray:
    found = to_numpy(values)
    return found.reshape(found.shape[0], -1)


def _calibrated(loaded: Loaded, new: _Asked, terminal: Terminal) -> Calibration:
    """Calibrate a model in the settings of what is to be predicted, and tell what its probabilities are worth."""
    with terminal.working("Calibration"):
        made = calibrate(loaded.model, settings_of(loaded.model, *new.sides))
    for each in made.settings.values():
        terminal.note(
            f"probabilities in setting {each.setting} have a held-out Brier score of {each.brier:.4f}, the base rate "
            f"one of {each.baseline_brier:.4f}."
        )
    return made


def _bounds(loaded: Loaded, new: _Asked, interval: float | None, terminal: Terminal) -> dict[str, np.ndarray]:
    """Return grids of lower and upper bounds; nothing where no interval is asked for."""
    if interval is None:
        return {}
    lower, upper = loaded.model.predict_interval(*new.sides, coverage=interval)
    if Setting.A in settings_of(loaded.model, *new.sides) and loaded.model.fitted_.labels.grid is not None:
        terminal.note("bounds of pairs with a known label are around what is predicted without it, not the prediction.")
    return {"lower": _grid(lower), "upper": _grid(upper)}


def _labels_of(pairs: Path) -> tuple[list[str], list[str]]:
    """Return the instances and the tasks of the pairs in a file."""
    cells = read_cells(pairs)
    if len(cells.headings) < 2:
        found = shown(cells.headings)
        raise DataFileError(f"{pairs} must have two columns, an instance and a task, found {found}.")
    return cells.labels(0), cells.labels(1)

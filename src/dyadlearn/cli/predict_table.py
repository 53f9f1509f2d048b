"""``dyadlearn predict --table``: predictions for the rows of one table of known and new structures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.tables import FileTable, read_cells, write_blocks
from dyadlearn._tables import free_name, make_ids, shown
from dyadlearn._text import joined
from dyadlearn.cli.commands import Predict
from dyadlearn.cli.entities import Entities, naming, new_entities, of_texts
from dyadlearn.cli.models import Loaded
from dyadlearn.cli.one_table import Structures, read_structures
from dyadlearn.cli.terminal import Terminal, as_rows
from dyadlearn.diagnostics.mixed import MixedPredictions, predict_mixed
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.models.reading import among


def predict_table(options: Predict, path: Path, loaded: Loaded, terminal: Terminal) -> None:
    """Write the rows of a table with the setting, the prediction and the certainty of each."""
    cells = read_cells(path)
    sides = []
    for kind, name in _columns(loaded):
        with naming(path):
            sides.append(read_structures(cells, kind, name, "drop"))
    rows = zip(sides[0].labels, sides[1].labels, strict=True)
    kept = np.array([None not in pair for pair in rows], dtype=bool)
    if not kept.all():
        terminal.note(
            f"{(~kept).sum()} of {len(kept)} rows of {path} lack a valid structure: no prediction."
        )
    places = []
    new = []
    for axis, side in enumerate(sides):
        at, entities = _places(loaded, side, kept, axis, path, terminal)
        places.append(at)
        new.append(entities)
    coverage = 0.9 if options.interval is None else options.interval
    with terminal.working("Predictions"):
        result = predict_mixed(
            loaded.model, places, new, coverage=coverage, prevalence=options.prevalence
        )
    _note(result, loaded, terminal)
    columns = beside(cells, result.columns(), kept)
    counts = {letter: int((result.settings == letter).sum()) for letter in "ABCD"}
    figures = {"settings": counts, "coverage": result.coverage}
    write_beside(options, figures, columns, terminal)


def _columns(loaded: Loaded) -> list[tuple[str, str]]:
    """Return the kind and the name of both columns of structures, with which the model was tuned."""
    columns: Any = loaded.origin.get("columns")
    is_list = isinstance(columns, list) and len(columns) == 2
    if not is_list or not all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair)
        for pair in columns
    ):
        raise ValueError(
            "--table is for a model that was tuned on one table, by --smiles, --sequence and "
            "--label: use --instances and --tasks."
        )
    return [(kind, name) for kind, name in columns]


def _places(
    loaded: Loaded, side: Structures, kept: np.ndarray, axis: int, path: Path, terminal: Terminal
) -> tuple[np.ndarray, Entities | None]:
    """Return the training position of each kept row, or -1 - k for row k of the new entities, and these."""
    labels = [str(label) for label, is_kept in zip(side.labels, kept, strict=True) if is_kept]
    ids = loaded.ids[axis]
    assert ids is not None  # models of one table have ids
    known = among(labels, ids.labels)
    fresh = list(dict.fromkeys(label for label, at in zip(labels, known, strict=True) if at < 0))
    if not fresh:
        return known, None
    if side.kind == "ids":
        name = loaded.names[axis]
        raise IdError(
            f"{path}: {len(fresh)} of the {name} ids in column {side.name!r} are not in the model, "
            f"which knows nothing else of {loaded.names.both[axis]}: {shown(fresh)}."
        )
    number = {label: -1 - k for k, label in enumerate(fresh)}
    at = np.array([number.get(label, place) for label, place in zip(labels, known, strict=True)])
    return at, _new_entities(loaded, side, fresh, axis, path, terminal)


def _new_entities(
    loaded: Loaded, side: Structures, fresh: list[str], axis: int, path: Path, terminal: Terminal
) -> Entities:
    """Return new structures in the form that the model takes."""
    recipes = loaded.recipes[axis] or {}
    ids = make_ids(fresh, None, str(path))
    texts = [side.texts[label] for label in fresh]
    tables = {}
    for name, recipe in recipes.items():
        source = of_texts(side.kind, path, texts, ids)
        tables[name] = new_entities(source, recipe, loaded.ids[axis], terminal, None, name)
    if "" in tables:
        return loaded.with_names(tables[""], axis)
    return Descriptions(tables)


def _note(result: MixedPredictions, loaded: Loaded, terminal: Terminal) -> None:
    """Say how many rows belong to each setting, and what is special about pairs of training."""
    names = loaded.names
    counts = []
    for letter, words in (
        ("A", "A (both known)"),
        ("B", f"B (new {names.instance})"),
        ("C", f"C (new {names.task})"),
        ("D", "D (both new)"),
    ):
        count = int((result.settings == letter).sum())
        if count:
            counts.append(f"{count:,} in setting {words}")
    terminal.note(f"{len(result.settings):,} rows: {joined(counts)}.")
    searched = loaded.origin.get("setting")
    if searched and not (result.settings == searched).any():
        terminal.note(
            f"The model was tuned for setting {searched}, to which none of the rows belongs."
        )
    if result.n_known:
        what = "probability" if result.lower is None else "interval"
        terminal.note(
            f"{result.n_known:,} rows are pairs of training: see training_label. Their {what} is "
            f"that of the prediction without this label."
        )


def beside(
    cells: FileTable, predicted: Mapping[str, Sequence[Any]], kept: np.ndarray
) -> dict[str, Sequence[Any]]:
    """Return the columns of the table, then those of the predictions, empty for rows without one."""
    columns: dict[str, Sequence[Any]] = {}
    for place, heading in enumerate(cells.headings):
        name = free_name(heading or f"column_{place + 1}", columns)
        columns[name] = [line[place] for line in cells.lines]
    rows = np.flatnonzero(kept)
    for name, values in predicted.items():
        column: list[Any] = [None] * len(kept)
        for row, value in zip(rows, values, strict=True):
            column[row] = value
        columns[free_name(name, columns)] = column
    return columns


def write_beside(
    options: Predict,
    figures: dict[str, Any],
    columns: dict[str, Sequence[Any]],
    terminal: Terminal,
) -> None:
    """Write the table of predictions to a file or print it; `figures` are further ones for JSON."""
    if options.output is not None:
        write_blocks(options.output, [columns])
        terminal.result({**figures, "output": str(options.output)})
        terminal.say(f"Wrote {len(next(iter(columns.values())))} rows to {options.output}.")
    elif options.json:
        terminal.result({**figures, "predictions": as_rows(columns)})
    else:
        with terminal.printing(None):
            write_blocks(None, [columns])

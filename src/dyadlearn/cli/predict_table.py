"""``dyadlearn predict --table``: predictions for the rows of one table of known and new structures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.tables import FileTable, is_blank, read_cells, write_blocks
from dyadlearn._tables import free_name, make_ids
from dyadlearn._text import joined, shortened
from dyadlearn.cli.commands import Predict
from dyadlearn.cli.entities import Entities, new_entities, of_texts
from dyadlearn.cli.models import Loaded
from dyadlearn.cli.one_table import Structures, read_structures
from dyadlearn.cli.terminal import Figures, Terminal, as_rows
from dyadlearn.diagnostics.asked_rows import AskedRows, AskedSide, columns_of_rows, is_predicted
from dyadlearn.diagnostics.fitted import fitted_of
from dyadlearn.diagnostics.mixed import MixedPredictions, predict_mixed
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.models.reading import among


def predict_table(options: Predict, path: Path, loaded: Loaded, terminal: Terminal) -> None:
    """Write the rows of a table with the setting, the prediction and the certainty of each."""
    cells = read_cells(path)
    columns = [read_structures(cells, *column, "skip") for column in _columns(loaded)]
    asked = _asked_rows(loaded, cells, columns)
    asked.check(str(path))
    for sentence in asked.sentences:
        terminal.note(f"{path}: {sentence} They have no prediction.")

    def describe(fresh: list[Any], axis: int) -> Entities:
        return _new_entities(loaded, columns[axis], fresh, axis, path, terminal)

    places, new = asked.located(describe)
    coverage = 0.9 if options.interval is None else options.interval
    with terminal.working("Predictions"):
        result = predict_mixed(
            loaded.model, places, new, coverage=coverage, prevalence=options.prevalence
        )
    _note(result, loaded, terminal)
    counts = {letter: int((result.settings == letter).sum()) for letter in "ABCD"}
    figures = {"settings": counts, "coverage": result.coverage}
    write_beside(options, cells, result.columns(), asked.reasons, figures, terminal)


def _columns(loaded: Loaded) -> list[tuple[str, str]]:
    """Return the kind and the name of both columns of structures, with which the model was tuned."""
    match loaded.origin.get("columns"):
        case [[str(kind), str(name)], [str(other_kind), str(other_name)]]:
            return [(kind, name), (other_kind, other_name)]
    raise ValueError(
        "--table is for a model that was tuned on one table, by --smiles, --sequence and --label: "
        "use --instances and --tasks."
    )


def _asked_rows(loaded: Loaded, cells: FileTable, columns: Sequence[Structures]) -> AskedRows:
    """Return which rows of a table can be predicted."""
    sides = []
    for column, ids, name in zip(columns, loaded.ids, loaded.names, strict=True):
        assert ids is not None  # models of one table have ids
        is_described = np.full(len(column.labels), column.kind != "ids")
        known = among(column.labels, ids.labels)
        sides.append(AskedSide(name, column.labels, known, is_described, column.name))

    def line(row: int) -> str:
        invalid = next(column for column in columns if column.labels[row] is None)
        cell = cells.column(invalid.name)[row]
        text = "empty" if is_blank(cell) else shortened(repr(cell), 42)
        return f"line {cells.numbers[row]} ({text})"

    return AskedRows((sides[0], sides[1]), fitted_of(loaded.model).settings, line)


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


def write_beside(
    options: Predict,
    cells: FileTable,
    predicted: Mapping[str, Sequence[Any]],
    reasons: np.ndarray,
    figures: Figures,
    terminal: Terminal,
) -> None:
    """Write or print the columns of a table, then those of the predictions, and why rows have none.

    Parameters
    ----------
    options : Predict
    cells : FileTable
    predicted : mapping of str to sequence
        Columns of the rows with a prediction.
    reasons : array of Reason of shape (n,)
        Why each row has no prediction; None for rows with one.
    figures : dict
        Further figures for JSON.
    terminal : Terminal
    """
    columns: dict[str, Sequence[Any]] = {}
    for place, heading in enumerate(cells.headings):
        name = free_name(heading or f"column_{place + 1}", columns)
        columns[name] = [line[place] for line in cells.lines]
    for name, values in columns_of_rows(predicted, reasons).items():
        columns[free_name(name, columns)] = values
    if not is_predicted(reasons).all():
        texts = [str(reason) for reason in reasons if reason is not None]
        figures = {**figures, "no_prediction": dict(Counter(texts))}
    if options.output is None and not options.json:
        with terminal.printing(None):
            write_blocks(None, [columns])
        return
    figures_of_rows = {} if options.output else {"predictions": as_rows(columns)}
    terminal.table({**figures, **figures_of_rows}, (), columns, options.output)

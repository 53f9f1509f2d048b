"""``dyadlearn predict --table``: predictions for the rows of one table of known and new structures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._files.tables import FileTable, read_cells, write_blocks
from dyadlearn._tables import free_name, make_ids, shown
from dyadlearn._text import joined
from dyadlearn.cli.commands import Predict
from dyadlearn.cli.entities import Entities, new_entities, of_texts
from dyadlearn.cli.models import Loaded
from dyadlearn.cli.one_table import Structures, read_structures
from dyadlearn.cli.terminal import Figures, Terminal, as_rows
from dyadlearn.diagnostics.fitted import fitted_of
from dyadlearn.diagnostics.mixed import MixedPredictions, predict_mixed
from dyadlearn.exceptions import IdError
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.models.reading import among
from dyadlearn.settings import Setting


@dataclass(frozen=True)
class Reason:
    """Why a row of a table has no prediction: a kind, such as "unknown", and the side or setting it is about."""

    kind: str
    of: str

    def __str__(self) -> str:
        return f"{self.kind} {self.of}"


def predict_table(options: Predict, path: Path, loaded: Loaded, terminal: Terminal) -> None:
    """Write the rows of a table with the setting, the prediction and the certainty of each."""
    cells = read_cells(path)
    sides = [read_structures(cells, *column, "drop") for column in _columns(loaded)]
    known = []
    for side, ids in zip(sides, loaded.ids, strict=True):
        assert ids is not None  # models of one table have ids
        known.append(among(side.labels, ids.labels))
    reasons = _reasons(loaded, sides, known)
    kept = is_predicted(reasons)
    _note_reasons(_sentences(loaded, sides, known, reasons), kept, path, terminal)
    places = []
    new: list[Entities | None] = []
    for axis, side in enumerate(sides):
        at, fresh = _places(side, known[axis], kept)
        places.append(at)
        entities = None
        if fresh:
            entities = _new_entities(loaded, side, fresh, axis, path, terminal)
        new.append(entities)
    coverage = 0.9 if options.interval is None else options.interval
    with terminal.working("Predictions"):
        result = predict_mixed(
            loaded.model, places, new, coverage=coverage, prevalence=options.prevalence
        )
    _note(result, loaded, terminal)
    counts = {letter: int((result.settings == letter).sum()) for letter in "ABCD"}
    figures = {"settings": counts, "coverage": result.coverage}
    write_beside(options, cells, result.columns(), reasons, figures, terminal)


def _columns(loaded: Loaded) -> list[tuple[str, str]]:
    """Return the kind and the name of both columns of structures, with which the model was tuned."""
    match loaded.origin.get("columns"):
        case [[str(kind), str(name)], [str(other_kind), str(other_name)]]:
            return [(kind, name), (other_kind, other_name)]
    raise ValueError(
        "--table is for a model that was tuned on one table, by --smiles, --sequence and --label: "
        "use --instances and --tasks."
    )


def _reasons(
    loaded: Loaded, sides: Sequence[Structures], known: Sequence[np.ndarray]
) -> np.ndarray:
    """Return why each row has no prediction; None for rows with one."""
    is_new = [at < 0 for at in known]
    letters = np.array([setting.value for setting in Setting])[is_new[0] + 2 * is_new[1]]
    reasons = np.full(len(letters), None, dtype=object)
    for setting in set(Setting).difference(fitted_of(loaded.model).settings):
        reasons[letters == setting.value] = Reason("setting", setting.value)
    for side, name, is_unknown in zip(sides, loaded.names, is_new, strict=True):
        if side.kind == "ids":
            reasons[is_unknown] = Reason("unknown", name)
    for side, name in zip(sides, loaded.names, strict=True):
        lacks = np.array([label is None for label in side.labels], dtype=bool)
        reasons[lacks] = Reason("no valid", name)
    return reasons


def _sentences(
    loaded: Loaded, sides: Sequence[Structures], known: Sequence[np.ndarray], reasons: np.ndarray
) -> list[str]:
    """Return a sentence for each kind of reason: how many rows it concerns."""
    sentences = []
    n_rows = len(reasons)
    if n_invalid := _count(reasons, "no valid"):
        sentences.append(f"{n_invalid:,} of {n_rows:,} rows lack a valid structure.")
    for axis, side in enumerate(sides):
        name = loaded.names[axis]
        unknown = Reason("unknown", name)
        is_unknown = np.array([reason == unknown for reason in reasons])
        if is_unknown.any():
            fresh = list(dict.fromkeys(np.array(side.labels, dtype=object)[is_unknown]))
            sentences.append(
                f"{len(fresh):,} of the {name} ids in column {side.name!r} are not in the model, "
                f"which knows nothing else of {loaded.names.both[axis]}: {shown(fresh)} "
                f"({is_unknown.sum():,} of {n_rows:,} rows)."
            )
    if n_refused := _count(reasons, "setting"):
        settings = [setting.value for setting in fitted_of(loaded.model).settings]
        given = reasons[~is_predicted(reasons)]
        refused = sorted({reason.of for reason in given if reason.kind == "setting"})
        sentences.append(
            f"{n_refused:,} of {n_rows:,} rows are in setting {joined(refused)}, and the model "
            f"predicts {joined(settings)} only."
        )
    return sentences


def is_predicted(reasons: np.ndarray) -> np.ndarray:
    """Return which rows have a prediction, because they have no reason for none."""
    return np.array([reason is None for reason in reasons], dtype=bool)


def _count(reasons: np.ndarray, kind: str) -> int:
    """Return the number of rows with a kind of reason."""
    return sum(reason is not None and reason.kind == kind for reason in reasons)


def _note_reasons(
    sentences: Sequence[str], kept: np.ndarray, path: Path, terminal: Terminal
) -> None:
    """Say which rows have no prediction; raise if none has one."""
    if not kept.any():
        raise IdError(f"{path}: no row can be predicted. {' '.join(sentences)}")
    for sentence in sentences:
        terminal.note(f"{path}: {sentence} They have no prediction.")


def _places(side: Structures, known: np.ndarray, kept: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """Return the training position of each kept row, or -1 - k for row k of the new entities, and their ids."""
    rows = np.flatnonzero(kept)
    labels = [str(side.labels[row]) for row in rows]
    is_new = known[rows] < 0
    fresh = list(dict.fromkeys(np.array(labels, dtype=object)[is_new].tolist()))
    number = {label: -1 - k for k, label in enumerate(fresh)}
    at = np.array([number.get(label, -1) for label in labels])
    return np.where(is_new, at, known[rows]), fresh


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
    rows = np.flatnonzero(is_predicted(reasons))
    for name, values in predicted.items():
        column: list[Any] = [None] * len(reasons)
        for row, value in zip(rows, values, strict=True):
            column[row] = value
        columns[free_name(name, columns)] = column
    if len(rows) < len(reasons):
        texts = [None if reason is None else str(reason) for reason in reasons]
        columns[free_name("no_prediction", columns)] = texts
        figures = {**figures, "no_prediction": dict(Counter(filter(None, texts)))}
    if options.output is None and not options.json:
        with terminal.printing(None):
            write_blocks(None, [columns])
        return
    figures_of_rows = {} if options.output else {"predictions": as_rows(columns)}
    terminal.table({**figures, **figures_of_rows}, (), columns, options.output)

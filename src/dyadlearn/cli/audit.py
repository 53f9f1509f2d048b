"""``dyadlearn audit``: what a split, or the hold-out of a model, tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

import dyadlearn
from dyadlearn._files.tables import FileTable, as_number, is_blank, read_cells, suffix_of
from dyadlearn._tables import Ids, Table, id_text, make_ids, shown
from dyadlearn._text import joined
from dyadlearn.cli.commands import Audit
from dyadlearn.cli.dyads import Axis, names_of, opened_sides, sides_of_columns
from dyadlearn.cli.models import load_model, settings_of
from dyadlearn.cli.one_table import Structures, names_of_columns, read_structures
from dyadlearn.cli.terminal import Arguments, Figures, Terminal, as_rows, column_table, stacked
from dyadlearn.diagnostics.fitted import fitted_of, known_settings
from dyadlearn.exceptions import DataFileError
from dyadlearn.kernels.gram import gram
from dyadlearn.selection.nearness import holdout_bands
from dyadlearn.settings import Setting
from dyadlearn.sides import SideNames

# Words for training among the names of parts, and for what is used before a test.
_FIRST = ("train", "training", "fit")
_SECOND = ("valid", "validation", "val", "dev", "tune")


@dataclass(frozen=True)
class Part:
    """A part of a split.

    Attributes
    ----------
    name : str
    ids : (list, list)
        Instance and task of each pair.
    times, labels, predictions : list, array and array, or None
    """

    name: str
    ids: tuple[list[str], list[str]]
    times: list[Any] | None = None
    labels: np.ndarray | None = None
    predictions: np.ndarray | None = None


def audit(options: Audit, terminal: Terminal) -> None:
    """Print what the parts of a split test, or what the hold-out of a model tests."""
    if options.is_of_model:
        _audit_model(options, terminal)
        return
    if options.structures and options.sides is None:
        options = replace(options, sides=names_of_columns(options.structures))
    names = names_of(options.sides)
    with terminal.working("Reading"):
        parts, columns = _parts(options, terminal)
        described = _descriptions(options, parts, columns, names, terminal)
    figures: list[Figures] = []
    rows: list[Figures] = []
    things: list[Any] = []
    for train, test in combinations(parts, 2):
        with terminal.working("Comparing"):
            result = _compared(train, test, described, options)
        title = f"Training: {train.name}. Test: {test.name}."
        bands = result.bands(test.labels, test.predictions, options.scoring)
        figures.append(_figures(train, test, result, bands))
        rows.append(_rows(train, test, result, names))
        things += _things(title, result, bands, names)
    terminal.table({"audits": figures}, (), stacked(rows), options.output, things)


# Parts of a split -----------------------------------------------------------------------------------


def _parts(options: Audit, terminal: Terminal) -> tuple[list[Part], list[Structures]]:
    """Return the parts of a split in the order of their use, and the structures of both sides, if there are any."""
    names = [path.name.partition(".")[0] for path in options.sources]
    if options.split is not None:
        tables = _divided(read_cells(options.sources[0]), options.split)
    else:
        if len(set(names)) < len(names):
            names = list(map(str, options.sources))
        [(name, count)] = Counter(names).most_common(1)
        if count > 1:
            raise ValueError(f"{name} is given twice: give each part of the split once.")
        read = dict(zip(names, map(read_cells, options.sources), strict=True))
        tables = {name: _with_first_pair(cells, read, options) for name, cells in read.items()}
    parts: list[Part] = []
    union: list[Structures] = []
    for name, cells in tables.items():
        sides = _sides(cells, options)
        kept = [row for row in range(len(cells.lines)) if all(side.labels[row] for side in sides)]
        if len(kept) < len(cells.lines):
            left = len(cells.lines) - len(kept)
            terminal.note(f"{left} of {len(cells.lines)} rows of {name} lack an id: left out.")
        if not kept:
            raise DataFileError(f"{name} has no pair.")
        ids = tuple([str(side.labels[row]) for row in kept] for side in sides)
        cells = cells.only(kept)
        times = None if options.time is None else cells.column(options.time)
        # Labels and predictions of training are not used, and may be missing.
        figures = [
            _numbers(cells, column) for column in (options.label, options.prediction) if parts
        ]
        parts.append(Part(name, (ids[0], ids[1]), times, *figures))
        if not union:
            union = sides
        else:
            both = zip(union, sides, strict=True)
            union = [replace(old, texts=old.texts | new.texts) for old, new in both]
    return parts, union


def _with_first_pair(
    cells: FileTable, tables: Mapping[str, FileTable], options: Audit
) -> FileTable:
    """Return a table with its first line among its rows, if that is a pair; raise if it may be one.

    It is a pair if there is a number beside the pair, as in the labels of other commands.
    """
    named = (options.split, options.label, options.prediction, options.time)
    if options.structures or any(name is not None for name in named):
        return cells
    headings = cells.headings
    pair = _pair_columns(cells, options)
    are_named = False
    if options.columns:
        are_named = all(name.strip() in headings for name in options.columns.split(","))
    is_numbered = headings == list(map(str, range(len(headings))))  # by pandas, without names
    if are_named or is_numbered or suffix_of(cells.path) == ".parquet":
        return cells
    others = [name for name in headings if name not in pair and name]
    if any(as_number(name) is not None for name in others):
        return replace(cells, lines=[headings, *cells.lines], numbers=[1, *cells.numbers])
    for place, name in enumerate(headings):
        if name not in pair:
            continue
        is_id = any(
            name == id_text(line[place])
            for table in tables.values()
            if place < len(table.headings)
            for line in table.lines
        )
        if is_id or as_number(name) is not None:
            raise DataFileError(
                f"{cells.path}, first line: {shown(pair)} look like a pair. Add a line of headings "
                f"above it, or name the headings by --columns."
            )
    return cells


def _divided(cells: FileTable, column: str) -> dict[str, FileTable]:
    """Return the rows of each part by its name; training comes first, then what is used before a test."""
    names = [id_text(cell) for cell in cells.column(column)]
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        if not is_blank(name):
            rows.setdefault(name, []).append(row)
    if len(rows) < 2:
        raise DataFileError(
            f"{cells.path} has {len(rows)} parts in column {column!r} ({shown(list(rows))}): a split "
            f"has two or more."
        )
    return {name: cells.only(rows[name]) for name in sorted(rows, key=_use)}


def _use(name: str) -> int:
    """Return the place of a part in the order of use."""
    word = name.lower()
    if word in _FIRST:
        return 0
    return 1 if word in _SECOND else 2


def _sides(cells: FileTable, options: Audit) -> list[Structures]:
    """Return the columns of both sides."""
    structures = options.structures
    if not structures:
        structures = [("ids", name) for name in _pair_columns(cells, options)]
    return [read_structures(cells, *structure, "raise") for structure in structures]


def _pair_columns(cells: FileTable, options: Audit) -> list[str]:
    """Return the names of the columns of the pairs."""
    headings = cells.headings
    if options.columns is None:
        if len(headings) < 2:
            raise DataFileError(f"{cells.path} needs two columns, an instance and a task.")
        return headings[:2]
    names = [name.strip() for name in options.columns.split(",")]
    if len(names) != 2:
        raise ValueError(
            f"--columns must name two columns (instance, task), found {options.columns!r}."
        )
    by_number = {str(place + 1): heading for place, heading in enumerate(headings)}
    return [name if name in headings else by_number.get(name, name) for name in names]


def _numbers(cells: FileTable, column: str | None) -> np.ndarray | None:
    """Return a column of numbers, NaN where it is empty; None without its name."""
    if column is None:
        return None
    return cells.as_numbers([cells.place(column)])[:, 0]


# Descriptions ---------------------------------------------------------------------------------------


def _descriptions(
    options: Audit,
    parts: Sequence[Part],
    columns: Sequence[Structures],
    names: SideNames,
    terminal: Terminal,
) -> list[tuple[Table, Any] | None]:
    """Return the table and the kernel of each side; None for a side that is not described."""
    # All tables, for messages.
    path = Path(joined([str(source) for source in options.sources]))
    if options.structures:
        sides = sides_of_columns(path, columns, options)
    else:
        sides = opened_sides(options)
    described: list[tuple[Table, Any] | None] = []
    for axis, side in enumerate(sides):
        if not side.sources:
            described.append(None)
            continue
        labels = dict.fromkeys(label for part in parts for label in part.ids[axis])
        ids = make_ids(list(labels), None, str(path))
        entities, kernel = _described(side, ids, (names.both[axis], path), options, terminal)
        described.append((entities, kernel))
    return described


def _described(
    side: Any, ids: Ids, words: tuple[str, Path], options: Audit, terminal: Terminal
) -> tuple[Table, Any]:
    """Return the table of the entities with the given ids, and the function of their kernel."""
    axis = Axis(words[0], "rows", ids)
    entities, recipes, kept = side.training(axis, len(ids), words[1], options, terminal)
    assert isinstance(entities, Table)  # a side has one file
    (recipe,) = recipes.values()
    kernel, params = recipe.of_model
    table = replace(entities, row_ids=ids.take(kept), column_ids=None)
    if not params:
        return table, kernel
    return table, partial(_gram, kernel=kernel, params=params)


def _gram(A: Any, B: Any, *, kernel: Any, params: Any) -> Any:
    return gram(A, B, kernel=kernel, kernel_params=params)


# Comparisons ----------------------------------------------------------------------------------------


def _compared(
    train: Part, test: Part, described: Sequence[tuple[Table, Any] | None], options: Audit
) -> Any:
    """Return the audit of one part against an earlier one."""
    params: Arguments = {}
    names = (("instances", "kernel"), ("tasks", "task_kernel"))
    for side, (table, kernel) in zip(described, names, strict=True):
        if side is not None:
            params |= {table: side[0], kernel: side[1]}
    if train.times is not None:
        params["time"] = (train.times, test.times)
    first, second = (list(zip(*part.ids, strict=True)) for part in (train, test))
    return dyadlearn.audit(first, second, options.setting, **params)


def _figures(train: Part, test: Part, result: Any, bands: dict[str, list[Any]]) -> Figures:
    """Return the result of one comparison as figures for JSON."""
    figures = {"train": train.name, "test": test.name, "message": result.message}
    for name in ("n_train", "n_test", "claimed", "setting", "counts"):
        figures[name] = getattr(result, name)
    for name in ("n_repeated", "n_leaks", "n_harder", "n_older"):
        figures[name.removeprefix("n_")] = getattr(result, name)
    sides = zip(("instances", "tasks"), result.nearness, strict=True)
    figures["copies"] = {name: side.copies for name, side in sides if side is not None}
    return figures | {"similarity": as_rows(bands)}


def _rows(train: Part, test: Part, result: Any, names: SideNames) -> dict[str, Any]:
    """Return the test pairs with their settings and similarities, as columns."""
    columns: dict[str, Any] = {
        "train": [train.name] * result.n_test,
        "test": [test.name] * result.n_test,
    }
    taken = ("setting", "in_training", "leak", "train", "test")
    headings = names.headings(taken)
    columns |= dict(zip(headings, test.ids, strict=True))
    columns["setting"] = result.settings.tolist()
    columns["in_training"] = result.is_repeated.tolist()
    columns["leak"] = result.is_leak.tolist()
    for heading, side in zip(headings, result.nearness, strict=True):
        if side is not None:
            columns[f"{heading}_similarity"] = side.similarity[side.entity].tolist()
            columns[f"nearest_{heading}"] = [side.nearest[place] for place in side.entity]
    return columns


def _things(
    title: str, result: Any, bands: dict[str, list[Any]], names: SideNames
) -> Iterator[Any]:
    """Yield what is printed for people."""
    yield title
    yield result.described(names)
    if bands.get("entities"):
        yield _bands_table(bands, names)
    yield ""


def _bands_table(bands: dict[str, list[Any]], names: SideNames) -> Any:
    words = {"instance": names.instances, "task": names.tasks}
    columns = bands | {"side": [words.get(side, side) for side in bands["side"]]}
    headings = ["side", "largest similarity to training", "entities", "pairs", *list(columns)[4:]]
    return column_table(columns, 2, headings)


# The hold-out of a model ----------------------------------------------------------------------------


def _audit_model(options: Audit, terminal: Terminal) -> None:
    """Print how similar held-out entities are to training in the hold-outs of a model, and the scores."""
    loaded = load_model(options.sources[0]).named(options.sides)
    fitted = fitted_of(loaded.model)
    if options.setting is not None:
        settings = settings_of(options.setting)
    else:
        settings = [fitted.searched_setting or Setting.B]
    figures = []
    columns: list[dict[str, Any]] = []
    things: list[Any] = []
    for setting in known_settings(fitted, settings):
        with terminal.working("Hold-out"):
            method, bands = holdout_bands(fitted, setting, options.scoring)
        figures.append({"setting": setting.value, "method": method, "similarity": as_rows(bands)})
        columns.append({"setting": [setting.value] * len(bands["side"]), **bands})
        things.append(f"Setting {loaded.names.in_words(setting)}, {method}:")
        if not bands["side"]:
            things.append("No entity is held out, only pairs.")
            continue
        things += [_bands_table(bands, loaded.names), ""]
    terminal.table({"settings": figures}, (), stacked(columns), options.output, things)

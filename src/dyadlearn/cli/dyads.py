"""Read labels and both sides, match them by their ids, and check them against each other.

A table of labels is a grid or a long table. Its form is detected from its content; an error is
raised if a typing error could have turned one form into the other.
"""

from __future__ import annotations

import math
import re
import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dyadlearn._array import is_sparse
from dyadlearn._files.embeddings import FeatureFile, open_features
from dyadlearn._files.tables import (
    FileTable,
    TextColumnError,
    as_number,
    is_blank,
    read_cells,
    suffix_of,
)
from dyadlearn._tables import Ids, Table, id_text, looks_transposed, make_ids, not_found, shown
from dyadlearn._text import quoted
from dyadlearn.cli.commands import Tune
from dyadlearn.cli.entities import (
    Entities,
    Files,
    Recipes,
    Source,
    open_source,
    read_mapping,
    training_side,
)
from dyadlearn.cli.options import LabelFile
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.labels import Labels, averaged_pairs
from dyadlearn.models.reading import is_large
from dyadlearn.sides import SideNames, side_names

# Numbers that people write and float() does not read, such as <5, 1,5, 1'000 and 3 %, or dashes:
# these are not ids.
_NEARLY_A_NUMBER = re.compile(
    r"[<>=~≤≥≈±]*\s*[-+−]?\s*\d+(?:[ .,'_]\d{3})*(?:[.,]\d+)?\s*%?|[-–—.*/#]+"
)
_WHOLE = re.compile(r"[0-9]+")
#: Name of a side in the plural, "rows" or "columns", and the ids of that axis of the labels.
Axis = tuple[str, str, Ids | None]


@dataclass(frozen=True)
class Dyads:
    """Labels (m, q) with their ids, and both sides in the same order, with their recipes and the names of their files.

    Missing labels are NaN; a sparse matrix does not store them.
    """

    labels: Table
    instances: Entities
    tasks: Entities | None
    recipes: tuple[Recipes, Recipes | None]
    files: tuple[str, str | None]
    smiles: list[dict[Any, str]]

    @property
    def observed(self) -> np.ndarray:
        """The observed labels (n,)."""
        values = self.labels.values
        return np.asarray(values.data if is_sparse(values) else values[~np.isnan(values)])


def names_of(words: str | None, *, network: bool = False) -> SideNames:
    """Return the names of the sides that --sides gives."""
    return side_names(tuple(words.split(",")) if words and "," in words else words, network=network)


def read_dyads(path: Path, given: Tune, terminal: Terminal) -> Dyads:
    """Read labels and both sides, and bring them into one order by their ids.

    Parameters
    ----------
    path : Path
        File of the labels.
    given : Tune
        Options for the files of both sides.
    terminal : Terminal
        Prints notes about rows that were left out, dropped or averaged.
    """
    several = given.model == "learned"
    files = Files.of(given.instances, "--instances", several=several)
    task_files = Files.of(given.tasks or (), "--tasks", several=several)
    sides = (
        _opened(files, given.kernel, "--kernel", given.instances_smiles),
        _opened(task_files, given.task_kernel, "--task-kernel", given.tasks_smiles),
    )
    ids = [
        next((source.file.ids for source in side.values() if source.file.ids is not None), None)
        for side in sides
    ]
    known = ids[0] if given.transpose else ids[1]
    grid = read_labels(path, given, terminal, known=known, may_list=given.model != "online")
    if looks_transposed(grid.row_ids, grid.column_ids, *ids):
        first = next(iter(files.paths.values()))
        if given.columns:
            remedy = "exchange the first two names of --columns"
        else:
            remedy = "add --transpose"
        remedy = "leave --transpose out" if given.transpose else remedy
        raise IdError(
            f"{path} looks transposed: its tasks are ids of {first}, the file of --instances: "
            f"{remedy}."
        )
    names = names_of(given.sides)
    found = []
    axes = (names.instances, "rows", grid.row_ids), (names.tasks, "columns", grid.column_ids)
    for sources, n, axis in zip(sides, grid.values.shape, axes, strict=True):
        places = {
            name: places_in(source.file, n, axis, path, terminal)
            for name, source in sources.items()
        }
        side: Any = (
            training_side(sources, places, given, terminal)
            if sources
            else (None, None, np.arange(n))
        )
        found.append(side)
    (X, recipes, rows), (T, task_recipes, columns) = found
    is_cut = (len(rows), len(columns)) != grid.values.shape
    grid = grid.take(rows, columns) if is_cut else grid
    row_ids = grid.row_ids or X.row_ids
    column_ids = grid.column_ids or (None if T is None else T.row_ids)
    labels = replace(grid, row_ids=row_ids, column_ids=column_ids)
    words = (files.words, task_files.words or None)
    smiles = [_smiles(sources) for sources in sides]
    return Dyads(labels, X, T, (recipes, task_recipes), words, smiles)


def _smiles(sources: dict[str, Source]) -> dict[Any, str]:
    """Return the SMILES of one side by id; an empty dict if no file has any."""
    tables = [source.file.take() for source in sources.values() if source.kind == "smiles"]
    if tables and tables[0].row_ids:
        return dict(zip(tables[0].row_ids.labels, tables[0].values, strict=True))
    return {}


def _opened(
    files: Files, kernels: list[str] | None, kernel_option: str, smiles: list[str] | None
) -> dict[str, Source]:
    """Open the files of one side; return an empty dict if it has no files."""
    sources: dict[str, Source] = {}
    option = f"{files.option}-smiles"
    of_kernel = files.of_each(kernels, kernel_option, common=True)
    columns = files.of_each(smiles, option)
    for name, path in files.paths.items():
        try:
            sources[name] = open_source(path, columns.get(name), of_kernel.get(name), option)
        except TextColumnError as error:
            column = shlex.quote(f"{name}={error.column}" if name else error.column)
            text = str(error).removesuffix(".")
            raise DataFileError(
                f"{text}: add {option} {column} if it holds SMILES, or remove the column."
            ) from None
    return sources


def read_labels(
    path: Path,
    options: LabelFile,
    terminal: Terminal,
    *,
    known: Ids | None = None,
    may_list: bool = False,
) -> Table:
    """Read labels as a grid, with notes about rows of a long table that were dropped or averaged.

    Parameters
    ----------
    path : Path
    options : LabelFile
    terminal : Terminal
    known : Ids, default=None
        Ids of the tasks (with --transpose, of the instances), if their file has been opened. With
        these ids, a table that is read in the wrong form raises an error later.
    may_list : bool, default=False
        Whether a long table may be returned as a sparse matrix, if its grid would be large.
    """
    if options.format not in (None, "grid", "long"):
        raise ValueError(f"--format is grid or long, found {options.format!r}.")
    if options.format == "grid" and options.columns is not None:
        raise ValueError(
            "--columns names the columns of a long table: leave out --columns or --format grid."
        )
    is_long = False
    if suffix_of(path) in (".npy", ".npz"):
        grid = open_features(path).take()
        if is_sparse(grid.values):
            raise DataFileError(
                f"{path} is sparse, but zeros are labels too: store labels as a dense array."
            )
        if np.isinf(grid.values).any():
            raise DataFileError(
                f"{path} holds infinity: labels must be finite, or NaN where they are missing."
            )
        grid = replace(grid, values=grid.values.astype(np.float64))
    else:
        cells = read_cells(path)
        is_long = (
            options.columns is not None or (options.format or shape_of(cells, known)) == "long"
        )
        if not is_long and options.format is None and known is None and _could_be_long(cells):
            tasks = shown(cells.headings[1:])
            terminal.note(
                f"{path} is read as a grid of the tasks {tasks}; if it lists pairs, add --format "
                f"long."
            )
        if is_long:
            grid = _from_long(cells, options, terminal, may_list)
        else:
            grid = cells.table()
    if options.fill is not None and not is_long:
        raise ValueError(
            f"--fill is for pairs that a long table lacks, but {path} is a grid: leave --fill out."
        )
    if not is_sparse(grid.values) and np.isnan(grid.values).all():
        raise DataFileError(f"{path} holds no label: all its cells are missing.")
    return grid.transposed if options.transpose else grid


def _from_long(cells: FileTable, options: LabelFile, terminal: Terminal, may_list: bool) -> Table:
    cells, places = _long_columns(cells, options.columns)
    first, second = (cells.labels(place) for place in places[:2])
    labels = cells.as_numbers(places[2:])[:, 0]
    if np.isnan(labels).all():
        raise DataFileError(f"{cells.path} holds no label: all its values are missing.")
    pairs = averaged_pairs(first, second, labels)
    if pairs.n_dropped:
        terminal.note(
            f"{pairs.n_dropped} of {pairs.n_rows} rows of {cells.path} lack a value and were "
            f"dropped."
        )
    if pairs.n_repeated:
        differing = f"{pairs.n_contradicting} of them with different values"
        terminal.note(
            f"Averaged the repeated pairs of {cells.path}: {pairs.n_repeated}, {differing}."
        )
    shape = (len(pairs.instances), len(pairs.tasks))
    values: Any
    if (
        may_list
        and options.fill is None
        and is_large(shape)
        and len(pairs.values) < math.prod(shape)
    ):
        of_pairs = (pairs.rows, pairs.columns)
        values = Labels(of_pairs, pairs.values, shape).to_sparse()
    else:
        grid = pairs.to_grid().grid
        if options.fill is None:
            values = grid
        else:
            values = np.where(np.isnan(grid), options.fill, grid)
    rows, columns = (
        make_ids(labels, None, str(cells.path)) for labels in (pairs.instances, pairs.tasks)
    )
    return Table(values, rows, columns)


def _long_columns(cells: FileTable, columns: str | None) -> tuple[FileTable, list[int]]:
    """Return a long table and the positions of its columns of instance, task and value.

    `columns` has their names, or their numbers from 1. If the value in the first line is a number,
    that line is not a line of headings; it becomes a row of the table.
    """
    path = cells.path
    headings = cells.headings
    count = len(cells.headings)
    if columns is None:
        names = ["1", "2", "3"]
    else:
        names = [name.strip() for name in columns.split(",")]
    if columns is None and count != 3:
        found = f"{count} columns ({shown(headings)})"
        raise ValueError(
            f"{path} has {found}: name those of instance, task and value, such as by --columns "
            f"1,2,3."
        )
    if len(set(names)) != 3 or len(names) != 3:
        raise ValueError(
            f"--columns must name three columns (instance, task, value), found {columns!r}."
        )
    named = columns is not None and not (
        set(names) - set(headings) and all(map(_WHOLE.fullmatch, names))
    )
    for name in () if named else names:
        if not 0 < int(name) <= count:
            raise DataFileError(
                f"{path} has no column {quoted(name)}: it has {count} columns, {shown(headings)}."
            )
    places = [cells.place(name) if named else int(name) - 1 for name in names]
    first, second, value = (headings[place] for place in places)
    if suffix_of(path) == ".parquet":
        return cells, places
    if value and _is_number(value):
        # pandas numbers the columns of a frame that has no names.
        if named or headings == list(map(str, range(count))):
            words = f"{path}, first line: {shown(headings)} may be headings or a pair"
            raise DataFileError(f"{words}. Add a first line of headings that are words.")
        return replace(cells, lines=[headings, *cells.lines], numbers=[1, *cells.numbers]), places
    if not named and any(
        headings[place] in {id_text(line[place]) for line in cells.lines} for place in places[:2]
    ):
        pair = f"{quoted(first)} and {quoted(second)} look like a pair, but {quoted(value)} is not a number"
        raise DataFileError(
            f"{path}, first line: {pair}. Correct it, or name the headings by --columns."
        )
    return cells, places


def places_in(
    file: FeatureFile, n: int, axis: Axis, labels: Path, terminal: Terminal
) -> np.ndarray | None:
    """Return the positions of the labelled entities in a file; None if ids are absent and the order is used."""
    side, lines, wanted = axis
    if wanted is None or file.ids is None:
        if file.n != n:
            found = f"{file.path} has {file.n} rows, but {labels} has {n} {lines}"
            raise ValueError(
                f"{found}: without ids in both files, these must be as many and in the same order."
            )
        if wanted is not None or file.ids is not None:
            terminal.note(
                f"Only one of {file.path} and {labels} has ids: the {side} are matched by their "
                f"order."
            )
        return None
    for path, corner, ids in ((labels, wanted.name, file.ids), (file.path, file.ids.name, wanted)):
        if corner is not None and corner in ids.labels:
            raise DataFileError(
                f"{path}, first line: {quoted(corner)} is an id. Add a line of headings above it."
            )
    lacking = list(map(str, file.ids.lacking(wanted.labels)))
    if lacking:
        known = list(
            map(str, wanted.lacking(file.ids.labels))
        )  # ids that are labelled already are not suggested
        raise not_found(lacking, len(wanted), f"{side} of {labels}", str(file.path), known)
    if len(file.ids) > len(wanted):
        left_out = len(file.ids) - len(wanted)
        terminal.note(
            f"{left_out} of {len(file.ids)} {side} in {file.path} have no labels and are left out."
        )
    return file.ids.positions(wanted.labels, str(file.path))


def read_groups(path: Path | None, wanted: Ids | None, side: str, smiles: dict[Any, str]) -> Any:
    """Read a table of ids and groups, and return the group of each id in `wanted`; return None without a file.

    The word "identical" is returned as it is; "scaffold" stands for the scaffolds of `smiles`.
    """
    if path is None or str(path) == "identical":
        return None if path is None else "identical"
    if str(path) == "scaffold":
        if wanted is None or not smiles:
            raise ValueError(
                f"Scaffolds need SMILES of the {side}: name their column, or give a table of "
                f"groups."
            )
        from dyadlearn.kernels.chemistry import scaffolds

        return np.array(scaffolds([smiles[label] for label in wanted.labels]))
    groups = read_mapping(path, "group")
    if wanted is None:
        raise ValueError(f"{path} names groups of {side} by ids, but the labels have no ids.")
    lacking = [label for label in wanted.labels if label not in groups]
    if lacking:
        raise IdError(
            f"{path} has no group for {len(lacking)} of {len(wanted)} {side}, add them: "
            f"{shown(lacking)}."
        )
    return np.array([groups[label] for label in wanted.labels])


# A grid or a long table? -----------------------------------------------------------------------------


def _is_number(cell: Any) -> bool:
    """Return whether a cell is a number or empty, as in a grid."""
    return as_number(cell) is not None


def shape_of(cells: FileTable, known: Ids | None = None) -> str:
    """Return whether a table is a "grid" or "long"; raise if a single typing error could change the answer.

    A grid has a column of ids, which are all different, and numbers in all other columns. A long
    table has ids in its first two columns and numbers in its third. These rules are tried in order:

    1. A table that meets the definition of a grid is a grid.
    2. A table of three columns is long if its second column holds only texts, none of which looks
       like a number, and if these texts differ, ids of the first column are repeated, or all texts
       are `known` ids of tasks.
    3. A table of three columns is long if each id of its first column occurs twice on average, its
       second column holds whole numbers or texts, and no pair is repeated.

    Any other table may be a grid with a typing error, or a long table. The error names the first
    cell that a grid could not have, and the options that resolve the doubt.
    """
    fault = _fault_of_grid(cells)
    if fault is None or len(cells.headings) < 3:
        return "grid"
    if len(cells.headings) == 3:
        if _is_surely_long(cells, known):
            return "long"
        form = f"a grid of the tasks {shown(cells.headings[1:])} or a long table of instance, task and value"
        remedy = "correct that for a grid, or add --format long for a long table"
        raise DataFileError(f"{cells.path} may be {form}. {fault}: {remedy}.")
    # The first column of numbers after the ids is suggested as the value of a long table.
    numeric = [
        place
        for place in range(2, len(cells.headings))
        if all(_is_number(line[place]) for line in cells.lines)
    ]
    places = 0, 1, numeric[0] if numeric else 2
    has_names = not any(_is_number(cells.headings[place]) for place in places)
    names = [cells.headings[place] if has_names else str(place + 1) for place in places]
    form = f"if {cells.path} has an instance, a task and a value in each line"
    raise DataFileError(
        f"{fault}. Correct that; or, {form}, name them by --columns {','.join(names)}."
    )


def _could_be_long(cells: FileTable) -> bool:
    """Return whether a valid grid could also be a long table with each instance once and numbers as tasks."""
    if len(cells.headings) == 3:
        second = [id_text(line[1]) for line in cells.lines]
    else:
        second = []
    return len(set(second)) > 2 and all(map(_WHOLE.fullmatch, second))


def _fault_of_grid(cells: FileTable) -> str | None:
    """Return a description of the first error of a table that is read as a grid; None if it is a valid grid."""
    # Ids are in the first column or, as pandas writes them, in the last; texts in between are those
    # of a long table.
    place = cells.id_place if cells.id_place == len(cells.headings) - 1 else 0
    lines: dict[str, int] = {}
    for number, line in zip(cells.numbers, cells.lines, strict=True):
        label = id_text(line[place])
        if label in lines:
            return f"{cells.path}: the id {quoted(label)} is repeated, in lines {lines[label]} and {number}"
        lines[label] = number
    columns = [column for column in range(len(cells.headings)) if column != place]
    faults = (cells.fault(row, column) for row in range(len(cells.lines)) for column in columns)
    return next(filter(None, faults), None)


def _is_surely_long(cells: FileTable, known: Ids | None) -> bool:
    """Return whether a table of three columns is long and cannot be a grid with a few typing errors."""
    if any(is_blank(line[1]) for line in cells.lines):
        return False
    first, second = ([id_text(line[place]) for line in cells.lines] for place in (0, 1))
    n = len(first)
    n_ids = len(set(first))
    if not any(_is_number(label) or _NEARLY_A_NUMBER.fullmatch(label) for label in second):
        are_known = known is not None and set(second) <= set(map(id_text, known.labels))
        return are_known or (n > 1 and (len(set(second)) > 1 or n_ids < n))
    are_ids = all(_WHOLE.fullmatch(label) or not _is_number(label) for label in second)
    return are_ids and n > 3 and n >= 2 * n_ids and len(set(zip(first, second, strict=True))) == n

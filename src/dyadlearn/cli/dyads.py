"""Read labels and both sides, match them by their ids, and check them against each other.

A table of labels is a grid or a long table. Its form is detected from its content; an error is
raised if a typing error could have turned one form into the other.
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

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
from dyadlearn.cli.commands import Audit, Tune
from dyadlearn.cli.entities import (
    Entities,
    Files,
    Recipes,
    Source,
    of_texts,
    open_source,
    read_mapping,
    training_side,
)
from dyadlearn.cli.one_table import Structures, long_table, read_structures
from dyadlearn.cli.options import LabelFile
from dyadlearn.cli.terminal import Terminal
from dyadlearn.exceptions import DataFileError, IdError
from dyadlearn.kernels.similarity import threshold_of
from dyadlearn.labels import Labels, averaged_pairs
from dyadlearn.models.reading import is_large
from dyadlearn.sides import SideNames, side_names

# Numbers that people write and float() does not read, such as <5, 1,5, 1'000 and 3 %, or dashes:
# these are not ids.
_NEARLY_A_NUMBER = re.compile(
    r"[<>=~≤≥≈±]*\s*[-+−]?\s*\d+(?:[ .,'_]\d{3})*(?:[.,]\d+)?\s*%?|[-–—.*/#]+"
)
_WHOLE = re.compile(r"[0-9]+")


class Axis(NamedTuple):
    """An axis of the labels.

    Attributes
    ----------
    name : str
        Name of its side in the plural.
    lines : str
        "rows" or "columns".
    ids : Ids or None
    """

    name: str
    lines: str
    ids: Ids | None


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
    if words and "," in words:
        return side_names(tuple(words.split(",")), network=network)
    return side_names(words, network=network)


@dataclass(frozen=True)
class _Side:
    """The opened files of one side, by their names; none if the side has no files."""

    files: Files
    sources: dict[str, Source]

    @property
    def ids(self) -> Ids | None:
        """The ids of the first file that has some."""
        for source in self.sources.values():
            if source.file.ids is not None:
                return source.file.ids
        return None

    @property
    def smiles(self) -> dict[Any, str]:
        """The SMILES by id; an empty dict if no file has any."""
        for source in self.sources.values():
            if source.kind == "smiles":
                table = source.file.take()
                if table.row_ids is None:
                    return {}
                return dict(zip(table.row_ids.labels, table.values, strict=True))
        return {}

    def training(
        self, axis: Axis, n: int, labels: Path, options: Tune | Audit, terminal: Terminal
    ) -> tuple[Any, Any, np.ndarray]:
        """Return the entities, their recipes and their positions on the axis of n labels of a file."""
        if not self.sources:
            return None, None, np.arange(n)
        places = {}
        for name, source in self.sources.items():
            places[name] = places_in(source.file, n, axis, labels, terminal)
        return training_side(self.sources, places, options, terminal)


def read_dyads(path: Path, options: Tune, terminal: Terminal) -> Dyads:
    """Read labels and both sides, and bring them into one order by their ids.

    Parameters
    ----------
    path : Path
        File of the labels.
    options : Tune
        Options for the files of both sides.
    terminal : Terminal
        Prints notes about rows that were left out, dropped or averaged.
    """
    if options.structures:
        grid, sides = _read_one_table(path, options, terminal)
    else:
        grid, sides = _read_files(path, options, terminal)
    names = names_of(options.sides)
    row_axis = Axis(names.instances, "rows", grid.row_ids)
    column_axis = Axis(names.tasks, "columns", grid.column_ids)
    n_rows, n_columns = grid.values.shape
    how = (path, options, terminal)
    instances, recipes, rows = sides[0].training(row_axis, n_rows, *how)
    tasks, task_recipes, columns = sides[1].training(column_axis, n_columns, *how)
    if (len(rows), len(columns)) != grid.values.shape:
        grid = grid.take(rows, columns)
    row_ids = grid.row_ids or instances.row_ids
    column_ids = grid.column_ids or (None if tasks is None else tasks.row_ids)
    labels = replace(grid, row_ids=row_ids, column_ids=column_ids)
    words = (sides[0].files.words, sides[1].files.words or None)
    smiles = [side.smiles for side in sides]
    return Dyads(labels, instances, tasks, (recipes, task_recipes), words, smiles)


def _read_files(path: Path, options: Tune, terminal: Terminal) -> tuple[Table, tuple[_Side, _Side]]:
    """Return the labels and both opened sides, each from its own files."""
    sides = opened_sides(options)
    known = sides[0].ids if options.transpose else sides[1].ids
    grid = read_labels(path, options, terminal, known=known, may_list=options.model != "online")
    _check_not_transposed(path, grid, sides, options)
    return grid, sides


def opened_sides(options: Tune | Audit) -> tuple[_Side, _Side]:
    """Open the files of both sides."""
    several = options.model == "learned"
    files = Files.of(options.instances or (), "--instances", several=several)
    task_files = Files.of(options.tasks or (), "--tasks", several=several)
    fingerprints = _of_sides((files, task_files), options.fingerprint)
    return (
        _opened(files, options.kernel, "--kernel", options.instances_smiles, fingerprints[0]),
        _opened(
            task_files, options.task_kernel, "--task-kernel", options.tasks_smiles, fingerprints[1]
        ),
    )


def _of_sides(files: tuple[Files, Files], texts: list[str] | None) -> list[list[str]]:
    """Return the texts of --fingerprint for each side: those that name none of the other side's files."""
    kept = []
    for others in reversed(files):
        names = set(others.paths) - {""}
        mine = [text for text in texts or () if text.partition("=")[0].strip() not in names]
        kept.append(mine)
    return kept


def _read_one_table(
    path: Path, options: Tune, terminal: Terminal
) -> tuple[Table, tuple[_Side, _Side]]:
    """Return the labels and both sides of one table, whose columns hold structures."""
    cells = read_cells(path)
    on_error = "drop" if options.drop_invalid else "raise"
    columns = [read_structures(cells, *structure, on_error) for structure in options.structures]
    table = long_table(cells, columns, str(options.label))
    if len(table.lines) < len(cells.lines):
        n_left = len(cells.lines) - len(table.lines)
        terminal.note(
            f"{n_left} of {len(cells.lines)} rows of {path} lack a valid structure and were dropped."
        )
    grid = _from_long(table, options, terminal, options.model != "online")
    sides = sides_of_columns(path, columns, options)
    names = names_of(options.sides)
    m, q = grid.values.shape
    terminal.note(
        f"{len(table.lines):,} rows of {path} have {m:,} different {names.instances} and {q:,} "
        f"different {names.tasks}; equal structures are one."
    )
    return grid, sides


def sides_of_columns(
    path: Path, columns: Sequence[Structures], options: Tune | Audit
) -> tuple[_Side, _Side]:
    """Return the sides that two columns of one table describe."""
    first, second = columns
    return (
        _side_of_column(path, first, options.kernel, options),
        _side_of_column(path, second, options.task_kernel, options),
    )


def _side_of_column(
    path: Path, column: Structures, kernels: list[str] | None, options: Tune | Audit
) -> _Side:
    """Return the side that a column of one table describes, with a description for each kind of fingerprints."""
    option = "--smiles" if column.kind == "smiles" else "--sequence"
    if column.kind == "ids":
        return _Side(Files({}, "--id"), {})
    fingerprints = []
    if column.kind == "smiles":
        fingerprints = options.fingerprint or []
    if len(fingerprints) > 1 and options.model != "learned":
        raise ValueError(
            f"--fingerprint is given {len(fingerprints)} times: only --model learned combines "
            f"several."
        )
    by_name = {"": next(iter(fingerprints), None)}
    if len(fingerprints) > 1:
        by_name = {text.partition(":")[0]: text for text in fingerprints}
    files = Files(dict.fromkeys(by_name, path), option)
    of_kernel = files.of_each(kernels, "--kernel", common=True)
    ids = make_ids(list(column.texts), None, str(path))
    texts = list(column.texts.values())
    sources = {}
    for name, fingerprint in by_name.items():
        more = (of_kernel.get(name), column.name, fingerprint)
        sources[name] = of_texts(column.kind, path, texts, ids, *more)
    return _Side(files, sources)


def _check_not_transposed(
    path: Path, grid: Table, sides: tuple[_Side, _Side], options: Tune
) -> None:
    """Raise if the rows of the labels are tasks and their columns are instances."""
    if not looks_transposed(grid.row_ids, grid.column_ids, sides[0].ids, sides[1].ids):
        return
    if options.transpose:
        remedy = "leave --transpose out"
    elif options.columns:
        remedy = "exchange the first two names of --columns"
    else:
        remedy = "add --transpose"
    first = next(iter(sides[0].files.paths.values()))
    raise IdError(
        f"{path} looks transposed: its tasks are ids of {first}, the file of --instances: {remedy}."
    )


def _opened(
    files: Files,
    kernels: list[str] | None,
    kernel_option: str,
    smiles: list[str] | None,
    fingerprints: list[str],
) -> _Side:
    """Open the files of one side."""
    sources: dict[str, Source] = {}
    option = f"{files.option}-smiles"
    of_kernel = files.of_each(kernels, kernel_option, common=True)
    columns = files.of_each(smiles, option)
    of_column = Files(dict.fromkeys(columns, Path()), option)
    fingerprint = of_column.of_each(fingerprints if columns else (), "--fingerprint", common=True)
    for name, path in files.paths.items():
        of_file = (columns.get(name), of_kernel.get(name), option, fingerprint.get(name))
        try:
            sources[name] = open_source(path, *of_file)
        except TextColumnError as error:
            column = shlex.quote(f"{name}={error.column}" if name else error.column)
            raise DataFileError(
                f"{error.fault}: add {option} {column} if it holds SMILES, or remove the column."
            ) from None
    return _Side(files, sources)


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
    cells = None
    if suffix_of(path) not in (".npy", ".npz"):
        cells = read_cells(path)
    is_long = options.columns is not None
    if cells is not None and not is_long:
        is_long = (options.format or shape_of(cells, known)) == "long"
    if cells is None:
        is_long = False
        grid = _grid_of_arrays(path)
    elif is_long:
        grid = _from_long(cells, options, terminal, may_list)
    else:
        if options.format is None and known is None and _could_be_long(cells):
            tasks = shown(cells.headings[1:])
            terminal.note(
                f"{path} is read as a grid of the tasks {tasks}; if it lists pairs, add --format "
                f"long."
            )
        grid = cells.table()
    if options.fill is not None and not is_long:
        raise ValueError(
            f"--fill is for pairs that a long table lacks, but {path} is a grid: leave --fill out."
        )
    if not is_sparse(grid.values) and np.isnan(grid.values).all():
        raise DataFileError(f"{path} holds no label: all its cells are missing.")
    return grid.transposed if options.transpose else grid


def _grid_of_arrays(path: Path) -> Table:
    """Read labels from a file of numpy."""
    grid = open_features(path).take()
    if is_sparse(grid.values):
        raise DataFileError(
            f"{path} is sparse, but zeros are labels too: store labels as a dense array."
        )
    if np.isinf(grid.values).any():
        raise DataFileError(
            f"{path} holds infinity: labels must be finite, or NaN where they are missing."
        )
    return replace(grid, values=grid.values.astype(np.float64))


def _from_long(cells: FileTable, options: LabelFile, terminal: Terminal, may_list: bool) -> Table:
    """Return the labels of a long table as a grid or, if its grid would be large, as a sparse matrix."""
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
    has_gaps = options.fill is None and len(pairs.values) < math.prod(shape)
    values: Any
    if may_list and has_gaps and is_large(shape):
        values = Labels((pairs.rows, pairs.columns), pairs.values, shape).to_sparse()
    else:
        values = pairs.to_grid().grid
        if options.fill is not None:
            values = np.where(np.isnan(values), options.fill, values)
    rows = make_ids(pairs.instances, None, str(cells.path))
    columns = make_ids(pairs.tasks, None, str(cells.path))
    return Table(values, rows, columns)


def _long_columns(cells: FileTable, columns: str | None) -> tuple[FileTable, list[int]]:
    """Return a long table and the positions of its columns of instance, task and value.

    `columns` has their names, or their numbers from 1. If the value in the first line is a number,
    that line is not a line of headings; it becomes a row of the table.
    """
    path = cells.path
    headings = cells.headings
    names = _names_of_columns(cells, columns)
    # Names that are no headings may be the numbers of columns.
    has_others = bool(set(names) - set(headings))
    is_named = columns is not None and not (has_others and all(map(_WHOLE.fullmatch, names)))
    if is_named:
        places = [cells.place(name) for name in names]
    else:
        places = [_numbered_place(cells, name) for name in names]
    if suffix_of(path) == ".parquet":
        return cells, places
    first, second, value = (headings[place] for place in places)
    if value and _is_number(value):
        # pandas numbers the columns of a frame that has no names.
        if is_named or headings == list(map(str, range(len(headings)))):
            words = f"{path}, first line: {shown(headings)} may be headings or a pair"
            raise DataFileError(f"{words}. Add a first line of headings that are words.")
        return replace(cells, lines=[headings, *cells.lines], numbers=[1, *cells.numbers]), places
    if not is_named and any(_has_id(cells, place, headings[place]) for place in places[:2]):
        pair = f"{quoted(first)} and {quoted(second)} look like a pair, but {quoted(value)} is not a number"
        raise DataFileError(
            f"{path}, first line: {pair}. Correct it, or name the headings by --columns."
        )
    return cells, places


def _names_of_columns(cells: FileTable, columns: str | None) -> list[str]:
    """Return the names or numbers of the columns of instance, task and value."""
    headings = cells.headings
    if columns is None:
        if len(headings) != 3:
            raise ValueError(
                f"{cells.path} has {len(headings)} columns ({shown(headings)}): name those of "
                f"instance, task and value, such as by --columns 1,2,3."
            )
        return ["1", "2", "3"]
    names = [name.strip() for name in columns.split(",")]
    if len(set(names)) != 3 or len(names) != 3:
        raise ValueError(
            f"--columns must name three columns (instance, task, value), found {columns!r}."
        )
    return names


def _numbered_place(cells: FileTable, number: str) -> int:
    """Return the position of a column that is given by its number from 1."""
    count = len(cells.headings)
    if not 0 < int(number) <= count:
        raise DataFileError(
            f"{cells.path} has no column {quoted(number)}: it has {count} columns, "
            f"{shown(cells.headings)}."
        )
    return int(number) - 1


def _has_id(cells: FileTable, place: int, heading: str) -> bool:
    """Return whether the heading of a column is also an id in it."""
    return heading in {id_text(line[place]) for line in cells.lines}


def places_in(
    file: FeatureFile, n: int, axis: Axis, labels: Path, terminal: Terminal
) -> np.ndarray | None:
    """Return the positions of the labelled entities in a file; None if ids are absent and the order is used."""
    side = axis.name
    wanted = axis.ids
    if wanted is None or file.ids is None:
        if file.n != n:
            fault = f"{file.path} has {file.n} rows, but {labels} has {n} {axis.lines}"
            raise ValueError(
                f"{fault}: without ids in both files, these must be as many and in the same order."
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
        # Ids that are labelled already are not suggested.
        known = list(map(str, wanted.lacking(file.ids.labels)))
        raise not_found(lacking, len(wanted), f"{side} of {labels}", str(file.path), known)
    if len(file.ids) > len(wanted):
        left_out = len(file.ids) - len(wanted)
        terminal.note(
            f"{left_out} of {len(file.ids)} {side} in {file.path} have no labels and are left out."
        )
    return file.ids.positions(wanted.labels, str(file.path))


def read_groups(
    path: Path | None, wanted: Ids | None, side: str, smiles: dict[Any, str], name: str = "groups"
) -> Any:
    """Read a table of ids and groups, and return the group of each id in `wanted`; return None without a file.

    The words "identical" and "similar:0.6" are returned as they are; "scaffold" stands for the
    scaffolds of `smiles`.
    """
    if path is None:
        return None
    if str(path) == "identical" or threshold_of(str(path), name) is not None:
        return str(path)
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


def _is_word_for_none(cell: Any) -> bool:
    """Return whether a cell is a word for a missing value, such as "null"."""
    return is_blank(cell) and id_text(cell) != ""


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
        rows = [row for row, line in enumerate(cells.lines) if _is_word_for_none(line[1])]
        if rows:
            word = quoted(cells.lines[rows[0]][1])
            fault += f"; {word} in line {cells.numbers[rows[0]]} may be a missing number or an id"
        form = f"a grid of the tasks {shown(cells.headings[1:])} or a long table of instance, task and value"
        remedy = "correct that for a grid, or add --format long for a long table"
        raise DataFileError(f"{cells.path} may be {form}. {fault}: {remedy}.")
    # The first column of numbers after the ids is suggested as the value of a long table.
    numeric = [place for place in range(2, len(cells.headings)) if _is_numeric(cells, place)]
    places = (0, 1, numeric[0] if numeric else 2)
    names = [cells.headings[place] for place in places]
    if any(map(_is_number, names)):
        names = [str(place + 1) for place in places]
    form = f"if {cells.path} has an instance, a task and a value in each line"
    raise DataFileError(
        f"{fault}. Correct that; or, {form}, name them by --columns {','.join(names)}."
    )


def _is_numeric(cells: FileTable, place: int) -> bool:
    """Return whether a column holds numbers only."""
    return all(_is_number(line[place]) for line in cells.lines)


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
    has_ids_last = cells.id_place == len(cells.headings) - 1
    place = cells.id_place if has_ids_last else 0
    lines: dict[str, int] = {}
    for number, line in zip(cells.numbers, cells.lines, strict=True):
        label = id_text(line[place])
        if label in lines:
            both = f"{lines[label]} and {number}"
            return f"{cells.path}: the id {quoted(label)} is repeated, in lines {both}"
        lines[label] = number
    for row in range(len(cells.lines)):
        for column in range(len(cells.headings)):
            fault = None if column == place else cells.fault(row, column)
            if fault is not None:
                return fault
    return None


def _is_surely_long(cells: FileTable, known: Ids | None) -> bool:
    """Return whether a table of three columns is long and cannot be a grid with a few typing errors."""
    if any(is_blank(line[1]) for line in cells.lines):
        return False
    first = [id_text(line[0]) for line in cells.lines]
    second = [id_text(line[1]) for line in cells.lines]
    n = len(first)
    n_ids = len(set(first))
    if not any(_is_number(label) or _NEARLY_A_NUMBER.fullmatch(label) for label in second):
        are_known = known is not None and set(second) <= set(map(id_text, known.labels))
        return are_known or (n > 1 and (len(set(second)) > 1 or n_ids < n))
    are_ids = all(_WHOLE.fullmatch(label) or not _is_number(label) for label in second)
    return are_ids and n > 3 and n >= 2 * n_ids and len(set(zip(first, second, strict=True))) == n

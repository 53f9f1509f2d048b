"""Read and write tables: csv and tsv (plain or gzipped) and parquet.

A text table has ids in its first line and column. Files are written atomically; a table can also be
printed as csv. The memory for a parquet file is computed from its metadata before it is read.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any, TextIO, cast

import numpy as np

from dyadlearn._array import is_sparse
from dyadlearn._files import packed
from dyadlearn._files.atomic import TEXTS, replacing
from dyadlearn._memory import check_memory
from dyadlearn._tables import Ids, Table, free_name, id_text, make_ids, shown, text_ids
from dyadlearn._text import printable, quoted
from dyadlearn.exceptions import DataFileError, IdError

#: Named columns of a table, all of the same length.
Columns = Mapping[str, Sequence[Any]]
# Bytes of a value of each physical type. A text is stored as an index into a dictionary.
_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "FLOAT": 4,
    "BYTE_ARRAY": 4,
    "INT64": 8,
    "DOUBLE": 8,
    "INT96": 12,
}
# Bytes of a value as a Python object, in a list of columns and in a list of lines.
_OBJECT = 100
#: Name of the column in which pandas writes an index without a name.
PANDAS = "__index_level_0__"
# Types of text in arrow.
_TEXT_TYPES = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
_NEEDED = "pyarrow", ", or write the table as csv"


@contextmanager
def open_parquet(path: Path) -> Iterator[Parquet]:
    """Open a parquet file; nothing but its metadata is read."""
    packed.check_file(path)
    pq = packed.imported("pyarrow.parquet", "Reading parquet", *_NEEDED)
    with packed.reading(path, "parquet file"):
        about = pq.read_metadata(path)
        columns = [about.schema.column(place) for place in range(about.num_columns)]
        # Repeated texts are stored once, also in memory.
        texts = [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]
        with pq.ParquetFile(path, metadata=about, read_dictionary=texts) as file:
            yield Parquet(path, file)


class Parquet:
    """An open parquet file.

    Parameters
    ----------
    path : Path
    file : pyarrow.parquet.ParquetFile

    Attributes
    ----------
    n : int
        Number of rows.
    starts : integer array
        First row of each row group.
    kinds : dict of str to str
        Kind of each column: "whole", "number", "vectors", "text" or "other".
    index : list of str
        Columns in which pandas stored its index.
    """

    def __init__(self, path: Path, file: Any) -> None:
        self._path = path
        self._file = file
        metadata = file.metadata
        self._groups = [metadata.row_group(place) for place in range(metadata.num_row_groups)]
        ends = np.cumsum([0, *(group.num_rows for group in self._groups)])
        self.n = int(ends[-1])
        self.starts = ends[:-1]
        self.kinds: dict[str, str] = {field.name: _kind(field.type) for field in file.schema_arrow}
        about = json.loads((file.schema_arrow.metadata or {}).get(b"pandas", "{}"))
        # A RangeIndex is not stored as a column.
        self.index: list[str] = [
            name for name in about.get("index_columns", []) if isinstance(name, str)
        ]
        if len(self.kinds) < len(file.schema_arrow):
            raise ValueError("two of its columns have the same name")

    @property
    def id_column(self) -> str | None:
        """Name of the column of ids; None if there is none.

        It is the index of pandas, else the first column of text, else the first column if it holds
        whole numbers. An unnamed index of numbers is ignored if a column holds text: it has only
        the row numbers of a larger table.
        """
        index = self.index
        if len(index) > 1:
            raise DataFileError(
                f"{self._path} has an index of {len(index)} levels, {shown(index)}: ids need one "
                f"level, use set_index in pandas."
            )
        texts = [name for name, kind in self.kinds.items() if kind == "text"]
        if index:
            is_unnamed = index[0].startswith("__index_level_")
            has_other_texts = bool(texts) and index[0] not in texts
            if not (is_unnamed and has_other_texts):
                return index[0]
        if texts:
            return texts[0]
        if self.kinds.get(PANDAS) == "whole":
            return PANDAS
        first = next(iter(self.kinds), None)
        if first is not None and self.kinds[first] == "whole":
            return first
        return None

    def sizes(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Return the number of values of some columns in each row group, and their bytes in memory."""
        wanted = set(names)
        sizes = []
        for group in self._groups:
            count = 0
            size = 0
            for place in range(group.num_columns):
                column = group.column(place)
                if column.path_in_schema.split(".")[0] not in wanted:
                    continue
                length = self._file.metadata.schema.column(place).length
                count += column.num_values
                size += column.num_values * _WIDTHS.get(column.physical_type, length)
                if column.physical_type == "BYTE_ARRAY":
                    size += column.total_uncompressed_size
            sizes.append((count, size))
        return sizes

    def lists(self, names: Sequence[str]) -> dict[str, list[Any]]:
        """Return columns as Python lists."""
        need = sum(_OBJECT * count + size for count, size in self.sizes(names))
        packed.check_decoded(self._path, need, f"Reading {len(names)} columns of {self._path}")
        table = self._file.read(list(names))
        lists: dict[str, list[Any]] = {}
        for name in names:
            lists[name] = []
            for chunk in table[name].chunks:
                lists[name] += _values(chunk)
        return lists

    def rows(self, names: list[str], first: int, end: int) -> np.ndarray:
        """Return some rows of one row group, from columns of numbers or from one column of vectors."""
        import pyarrow as pa
        import pyarrow.compute as pc

        group = int(np.searchsorted(self.starts, first, side="right")) - 1
        table = self._file.read_row_group(group, columns=names)
        table = table.slice(first - self.starts[group], end - first)
        if self.kinds[names[0]] != "vectors":
            arrays = []
            for column in table.columns:
                # Other types than floats would become an array of objects if a value is missing.
                if not pa.types.is_floating(column.type):
                    column = column.cast(pa.float64())
                arrays.append(column.to_numpy())
            return np.column_stack(arrays)
        column = table[names[0]].combine_chunks()
        lengths = pc.list_value_length(column).to_numpy(zero_copy_only=False)
        if not (lengths == lengths[0]).all() or not lengths[0] > 0:
            raise ValueError(
                f"its vectors must have the same length, found {shown(np.unique(lengths).tolist())}"
            )
        values: np.ndarray = column.flatten().to_numpy(zero_copy_only=False)
        return values.reshape(len(lengths), int(lengths[0]))


def _values(chunk: Any) -> list[Any]:
    """Return the values of an arrow array as a list; repeated texts share one object."""
    if not hasattr(chunk, "dictionary"):
        values: list[Any] = chunk.to_pylist()
        return values
    texts = chunk.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in chunk.indices.to_pylist()]


def _kind(kind: Any) -> str:
    """Return "whole", "number", "vectors", "text" or "other" for a type of arrow."""
    import pyarrow as pa

    of = pa.types
    if of.is_dictionary(kind):
        kind = kind.value_type
    if of.is_integer(kind):
        return "whole"
    if of.is_floating(kind) or of.is_boolean(kind) or of.is_decimal(kind):
        return "number"
    if of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind):
        if _kind(kind.value_type) in ("whole", "number"):
            return "vectors"
        return "other"
    return "text" if str(kind) in _TEXT_TYPES else "other"


#: Spellings of a missing value, in lower case.
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})

#: Characters that may separate the cells of a table.
DELIMITERS = ",\t;"

# Bytes of a cell of text as a Python object beside its characters, which are fewer for ASCII alone,
# of its place in a list, and of a line as a list with its number. Texts of one character are
# shared.
_ASCII_CELL = 57
_CELL = 82
_PLACE = 10
_LINE = 160


class TextColumnError(DataFileError):
    """Error for a column that must hold numbers but holds only texts.

    Attributes
    ----------
    fault : str
        What is wrong with the first text, without a full stop.
    column : str
        Heading of the column.
    """

    def __init__(self, fault: str, column: str) -> None:
        super().__init__(f"{fault}.")
        self.fault = fault
        self.column = column

    def __reduce__(self) -> tuple[Any, ...]:
        return TextColumnError, (self.fault, self.column)


@dataclass(frozen=True)
class FileTable:
    """Table as in a file: a line of headings and lines of cells, which are texts or other values.

    Attributes
    ----------
    path : Path
    headings : list of str
    lines : list of sequences
        Lines of cells, each as long as the headings.
    numbers : list of int
        Line number of each line in the file, for messages.
    id_place : int
        Position of the column of ids, if the table is a grid.
    """

    path: Path
    headings: list[str]
    lines: list[Sequence[Any]]
    numbers: list[int]
    id_place: int = 0

    def place(self, name: str) -> int:
        """Return the position of the column with a heading."""
        if name not in self.headings:
            raise DataFileError(
                f"{self.path} has no column {quoted(name)}: its columns are {shown(self.headings)}."
            )
        if self.headings.count(name) > 1:
            count = self.headings.count(name)
            raise DataFileError(
                f"{self.path} has {count} columns {quoted(name)}: rename all but one."
            )
        return self.headings.index(name)

    def only(self, rows: Sequence[int]) -> FileTable:
        """Return the table limited to some of its lines."""
        lines = [self.lines[row] for row in rows]
        return replace(self, lines=lines, numbers=[self.numbers[row] for row in rows])

    def column(self, name: str) -> list[Any]:
        """Return the cells under a heading."""
        place = self.place(name)
        return [line[place] for line in self.lines]

    def labels(self, place: int) -> list[str]:
        """Return the ids in a column, which may be repeated; raise if one is empty."""
        labels = [id_text(line[place]) for line in self.lines]
        if "" in labels:
            where = self.where(labels.index(""), place)
            raise IdError(f"{where}: the id is empty. Give it one, or remove the line.")
        return labels

    def ids(self) -> Ids:
        """Return the ids of the rows."""
        heading = self.headings[self.id_place] or None
        return make_ids(self.labels(self.id_place), heading, str(self.path))

    def table(self) -> Table:
        """Return the cells as numbers, with the ids of their rows and columns."""
        places = [place for place in range(len(self.headings)) if place != self.id_place]
        if not places:
            raise DataFileError(
                f"{self.path} holds no table: it has only ids, or its delimiter is not , ; or a "
                f"tab."
            )
        empty = [place + 1 for place in places if not self.headings[place]]
        if empty:
            raise IdError(
                f"The first line of {self.path} has an empty id, in column {empty[0]}: give it one."
            )
        headings = [self.headings[place] for place in places]
        columns = make_ids(headings, None, f"The first line of {self.path}")
        return Table(self.as_numbers(places), self.ids(), columns)

    def as_numbers(self, places: Sequence[int]) -> np.ndarray:
        """Return some columns as numbers, NaN for missing cells; raise if a cell is not a number."""
        values = np.empty((len(self.lines), len(places)))
        for row, line in enumerate(self.lines):
            numbers = [as_number(line[place]) for place in places]
            if None in numbers:
                raise self._refusal(row, places[numbers.index(None)])
            values[row] = numbers
        if np.isinf(values).any():
            row, column = np.argwhere(np.isinf(values))[0]
            raise DataFileError(
                f"{self.where(row, places[column])}: infinity is not a valid value."
            )
        return values

    def _refusal(self, row: int, place: int) -> DataFileError:
        """Return the error for a cell that is not a number."""
        fault = str(self.fault(row, place))
        cells = [line[place] for line in self.lines if not is_blank(line[place])]
        if all(as_number(cell) is None and not _remedy(cell) for cell in cells):
            return TextColumnError(fault, self.headings[place])
        return DataFileError(f"{fault}.")

    def fault(self, row: int, place: int) -> str | None:
        """Return a message about a cell that is neither a number nor missing, without a full stop; None if it is."""
        cell = self.lines[row][place]
        if as_number(cell) is not None:
            return None
        return f"{self.where(row, place)}: {quoted(cell)} is not a number{_remedy(cell)}"

    def where(self, row: int, place: int) -> str:
        """Return the file, line and column of a cell, for messages."""
        return f"{self.path}, line {self.numbers[row]}, column {quoted(self.headings[place])}"


def _remedy(cell: Any) -> str:
    """Return a hint for a misspelled number; an empty text for other cells."""
    if re.fullmatch(r"[-+]?\d*,\d+(e[-+]?\d+)?", str(cell).strip(), re.IGNORECASE):
        return ", write decimals with a point"
    if "_" in str(cell):
        return ", write it without underscores"
    return ""


def suffix_of(path: Path) -> str:
    """Return the ending of a file name in lower case, without .gz."""
    return Path(path.name.lower().removesuffix(".gz")).suffix


def is_blank(cell: Any) -> bool:
    """Return whether a cell has no value."""
    return cell is None or (isinstance(cell, str) and cell.strip().lower() in MISSING)


def as_number(cell: Any) -> float | None:
    """Return a cell as a number, NaN for a blank cell; None if it is not a number."""
    try:
        if isinstance(cell, str):
            return packed.parse_number(cell)
        return float(cell)
    except (ValueError, TypeError, OverflowError):
        return float("nan") if is_blank(cell) else None


def check_whole(table: Table, path: Path, rule: str = "only labels may be: fill it in") -> None:
    """Raise if a value is missing or infinite; the message names the first, and the `rule` about missing values."""
    if is_sparse(table.values) or np.isfinite(table.values).all():
        return
    row, column = np.argwhere(~np.isfinite(table.values))[0]
    where = f"{_called('row', table.row_ids, row)}, {_called('column', table.column_ids, column)}"
    if np.isnan(table.values[row, column]):
        fault = f"the value is missing; {rule}"
    else:
        fault = "infinity is not valid"
    raise DataFileError(f"{path}, {where}: {fault}.")


def _called(word: str, ids: Ids | None, place: int) -> str:
    """Return the name of a row or column for messages: its id, or its number from 1 on."""
    if ids is None:
        return f"{word} {place + 1}"
    return f"{word} {quoted(ids.labels[place])}"


def read_cells(path: Path) -> FileTable:
    """Read the cells of a text table or a parquet file."""
    if suffix_of(path) == ".parquet":
        return _read_parquet(path)
    text = packed.read_text(path, "table")
    delimiter = _delimiter(text)
    check_memory(
        _cells_memory(text, delimiter),
        np.empty(0),
        f"Reading the cells of {path}",
        "write them as npz or parquet, or fewer of them",
    )
    lines, numbers = _read_lines(path, text, delimiter)
    headings = [cell.strip() for cell in lines.pop(0)]
    del numbers[0]
    if len(lines[0]) == len(headings) + 1:
        if all(not line[-1].strip() for line in lines):
            raise DataFileError(
                f"{path} has an empty cell at the end of its lines: remove the delimiter before "
                f"it, or put a heading over the ids."
            )
        # R writes no heading above the ids.
        headings = ["", *headings]
    for line, number in zip(lines, numbers, strict=True):
        if len(line) != len(headings):
            hint = ""
            if delimiter == "," and len(line) > len(headings):
                hint = ". If numbers have a decimal comma, write decimals with a point"
            raise DataFileError(
                f"{path}, line {number}: expected {len(headings)} cells, as in the first line, "
                f"found {len(line)}{hint}."
            )
    # Spreadsheets may write columns that have neither a heading nor a value.
    while len(headings) > 1 and not headings[-1] and all(not line[-1].strip() for line in lines):
        headings = headings[:-1]
        lines = [line[:-1] for line in lines]
    return FileTable(path, headings, list(lines), numbers)


def _delimiter(text: str) -> str:
    """Return the delimiter of a table: the most frequent one in its first line, outside of quotes."""
    bare = re.sub(r'"[^"]*"', '""', text[: 2**20])
    for line in io.StringIO(bare, newline=None):
        if line.strip():
            return max(DELIMITERS, key=line.count)
    return DELIMITERS[0]


def _read_lines(path: Path, text: str, delimiter: str) -> tuple[list[list[str]], list[int]]:
    """Return the lines of a table that are not blank, and their numbers; raise if there are fewer than two."""
    lines = []
    numbers = []
    with packed.reading(path, "table"):
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        for line in reader:
            if any(cell.strip() for cell in line):
                lines.append(line)
                numbers.append(reader.line_num)
    if len(lines) < 2:
        in_words = "only headings" if lines else "no line"
        raise DataFileError(
            f"{path} holds no table: expected a line of headings and lines of values below it, "
            f"found {in_words}."
        )
    return lines, numbers


def _cells_memory(text: str, delimiter: str) -> float:
    """Return the bytes that a text, its cells and its copy for the reader take, an upper bound."""
    n_lines = text.count("\n") + text.count("\r") + 1
    n_cells = text.count(delimiter) + n_lines
    n_longer = min(n_cells, max(0, len(text) - n_cells) // 2)
    of_text = _ASCII_CELL if text.isascii() else _CELL
    of_cells = n_longer * of_text + n_cells * _PLACE + n_lines * _LINE
    # The copy for the reader has four bytes for each character.
    return 1.05 * (4 * len(text) + 2 * sys.getsizeof(text) + of_cells)


def _read_parquet(path: Path) -> FileTable:
    """Read all columns of a parquet file."""
    with open_parquet(path) as file:
        columns = file.lists([*file.kinds])
        if not columns or not file.n:
            raise DataFileError(f"{path} holds no table.")
        id_column = file.id_column or next(iter(columns))
        # An index of row numbers that is not used for ids is no column of values.
        headings = [name for name in columns if name == id_column or name not in file.index]
    lines: list[Sequence[Any]] = list(zip(*(columns[name] for name in headings), strict=True))
    numbers = list(range(1, len(lines) + 1))
    return FileTable(path, headings, lines, numbers, headings.index(id_column))


# Writing -------------------------------------------------------------------------------------------

# Characters that need quotes: delimiters, quotes, and characters that some programs read as the end
# of a line.
_SPECIAL = re.compile(f'[{DELIMITERS}"\\r\\n\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]')


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Add the name of the file to errors of the operating system, such as a full disk."""
    try:
        yield
    except OSError as error:
        raise OSError(
            error.errno, f"could not be written ({error.strerror or error})", str(path)
        ) from error


def write_grid(
    path: Path | None, blocks: Iterable[np.ndarray], rows: Ids, columns: Ids, corner: str
) -> None:
    """Write a grid (n, p) with the ids of rows and columns; None prints it as csv.

    Parameters
    ----------
    path : Path or None
    blocks : iterable of arrays of shape (b, p)
        Values, in blocks of consecutive rows.
    rows, columns : Ids
    corner : str
        Heading of the column of ids.
    """
    rows = text_ids(rows, "The rows of the table")
    columns = text_ids(columns, "Its columns")
    headings = [str(label) for label in columns.labels]
    labels = iter(rows.labels)
    corner = free_name(corner, headings)

    def tables() -> Iterator[Columns]:
        for block in blocks:
            ids = [next(labels) for _ in block]
            yield {corner: ids, **dict(zip(headings, block.T.tolist(), strict=True))}

    write_blocks(path, tables())


def write_blocks(path: Path | None, blocks: Iterable[Columns]) -> None:
    """Write a table from blocks of rows, each with the same named columns; a path of None prints it as csv.

    Numbers are written with all digits, None and NaN as empty cells. Only one block at a time is in
    memory. The file is written atomically.
    """
    rest = iter(blocks)
    first = next(rest)  # raises an error of the computation before anything is printed
    blocks = chain([first], rest)
    if path is None:
        _write_lines(sys.stdout, first, blocks, ",")
        return
    is_text = suffix_of(path) in TEXTS
    if not is_text:
        packed.imported("pyarrow.parquet", "Writing parquet", *_NEEDED)
    with writing(path), replacing(path) as file:
        if is_text:
            _write_text(path, file, first, blocks)
        else:
            _write_parquet(file, first, blocks)


def _write_text(path: Path, file: IO[bytes], headings: Columns, blocks: Iterable[Columns]) -> None:
    """Write blocks as csv, or as tsv if the path has another ending; with .gz, packed."""
    with ExitStack() as stack:
        target = file
        if path.suffix == ".gz":
            packed_file = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
            target = cast(IO[bytes], stack.enter_context(packed_file))
        text = io.TextIOWrapper(target, encoding="utf-8", newline="")
        _write_lines(text, headings, blocks, "," if suffix_of(path) == ".csv" else "\t")
        text.detach()  # flushes the text and leaves the file open


def _write_parquet(file: IO[bytes], first: Columns, blocks: Iterable[Columns]) -> None:
    """Write blocks as parquet; `first` is the first of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # A parquet column has one type: ids of mixed types become text.
    texts = set()
    for name, cells in first.items():
        if any(isinstance(cell, str) for cell in cells):
            texts.add(name)
    writer = None
    with ExitStack() as stack:
        for block in blocks:
            columns = {}
            for name, cells in block.items():
                if name in texts:
                    columns[name] = [str(cell) for cell in cells]
                else:
                    columns[name] = list(cells)
            table = pa.table(columns, schema=None if writer is None else writer.schema)
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(file, table.schema))
            writer.write_table(table)


def _write_lines(
    text: TextIO, headings: Iterable[str], blocks: Iterable[Columns], delimiter: str
) -> None:
    """Write the headings and all lines of blocks; text for a terminal is made printable."""
    clean = printable if text.isatty() else str

    def lines() -> Iterator[str]:
        yield clean(delimiter.join(map(_cell, headings)) + "\n")
        for block in blocks:
            for line in zip(*block.values(), strict=True):
                yield clean(delimiter.join(map(_cell, line)) + "\n")

    text.writelines(lines())


def _cell(value: Any) -> str:
    """Return a cell, in quotes if a character in it could end a cell or a line.

    The csv writer of the standard library does not quote a bare carriage return, which ends a line
    for every reader.
    """
    if value is None or value != value:
        return ""
    text = str(value)
    if not _SPECIAL.search(text):
        return text
    doubled = text.replace('"', '""')
    return f'"{doubled}"'

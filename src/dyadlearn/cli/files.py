"""Files that commands write: whole or not at all, and never over another one unasked."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Annotated, Any, TextIO, cast

import numpy as np
import typer

from dyadlearn._tables import Ids
from dyadlearn.cli.tables import DELIMITERS, suffix_of, text_ids
from dyadlearn.cli.words import printable
from dyadlearn.store.atomic import check_place, replacing

__all__ = [
    "Force",
    "check_table",
    "check_target",
    "is_text",
    "write_blocks",
    "write_columns",
    "write_file",
    "write_grid",
    "writing",
]

Force = Annotated[bool, typer.Option("--force", "-f", help="Replace the output file if it exists.")]

# What a table can be written as.
_TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npz")

# What must stand in quotes: separators, quotes, and whatever some program takes for the end of a line.
_SPECIAL = re.compile(f'[{DELIMITERS}"\\r\\n\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]')


def check_target(path: Path, force: bool, endings: Sequence[str] = ()) -> None:
    """Refuse a place that cannot be written to, before any work is done for it.

    Parameters
    ----------
    path : Path
    force : bool
        Whether a file there may be replaced.
    endings : sequence of str
        What its name may end in; empty for anything.
    """
    if endings and suffix_of(path) not in endings:
        raise ValueError(f"{path} must end in one of {', '.join(endings)}, so that its format is known.")
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "this is a folder, name a file to write", str(path))
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such folder, make it or write elsewhere", str(path.parent))
    check_place(path)
    if not os.access(path.parent, os.W_OK):
        raise PermissionError(errno.EACCES, "this folder cannot be written to", str(path.parent))
    if path.exists() and not force:
        raise FileExistsError(errno.EEXIST, "it exists already, choose another name or add --force", str(path))


def check_table(path: Path | None, force: bool) -> None:
    """Refuse a place for a table that cannot be written to; None stands for standard output."""
    if path is not None:
        check_target(path, force, _TABLES)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let errors of a full disk and the like name the file that was asked for."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"could not be written ({error.strerror or error})", str(path)) from error


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole, or leave everything as it was."""
    with writing(path), replacing(path) as file:
        file.write(content)


def write_columns(path: Path | None, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table of named columns, all of the same length; None prints it as csv.

    Numbers are written with all their digits, None and NaN as nothing.
    """
    if path is None:
        _write_lines(sys.stdout, columns, zip(*columns.values(), strict=True), ",")
    elif suffix_of(path) == ".npz":
        _write_arrays(path, {name: np.asarray(cells) for name, cells in columns.items()})
    elif suffix_of(path) == ".parquet":
        # A column of one kind: texts where ids are of several.
        kinds = {name: {type(cell) for cell in cells} for name, cells in columns.items()}
        write_file(path, _parquet({n: list(map(str, c)) if str in kinds[n] else c for n, c in columns.items()}))
    else:
        content = _text(columns, "," if suffix_of(path) == ".csv" else "\t").encode()
        write_file(path, gzip.compress(content) if path.suffix == ".gz" else content)


def write_grid(path: Path | None, values: np.ndarray, rows: Ids, columns: Ids, corner: str) -> None:
    """Write a grid (n, p) with the ids of rows and columns; None prints it as csv.

    Parameters
    ----------
    path : Path or None
    values : array of shape (n, p)
    rows, columns : Ids
    corner : str
        The heading of the ids.
    """
    rows, columns = text_ids(rows, "The rows of the table"), text_ids(columns, "Its columns")
    if path is not None and suffix_of(path) == ".npz":
        _write_arrays(path, {"values": values, "rows": np.array(rows.labels), "columns": np.array(columns.labels)})
    else:
        taken = {str(label): values[:, place].tolist() for place, label in enumerate(columns.labels)}
        while corner in taken:
            corner += "_"
        write_columns(path, {corner: list(rows.labels), **taken})


def is_text(path: Path | None) -> bool:
    """Tell whether a table is written line by line; None stands for standard output."""
    return path is None or suffix_of(path) in (".csv", ".tsv", ".txt")


def write_blocks(path: Path | None, blocks: Iterable[np.ndarray], rows: Ids, columns: Ids, corner: str) -> None:
    """Write a grid as text, as `write_grid` does, from blocks of its rows: no more than one need be there at a time."""
    rows, columns = text_ids(rows, "The rows of the table"), text_ids(columns, "Its columns")
    headings = [str(label) for label in columns.labels]
    while corner in headings:
        corner += "_"
    labels = iter(rows.labels)
    lines = ([next(labels), *line] for block in blocks for line in block.tolist())
    if path is None:
        _write_lines(sys.stdout, [corner, *headings], lines, ",")
        return
    with writing(path), replacing(path) as file, ExitStack() as stack:
        packed = stack.enter_context(gzip.GzipFile(fileobj=file, mode="wb")) if path.suffix == ".gz" else file
        text = io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="")
        _write_lines(text, [corner, *headings], lines, "," if suffix_of(path) == ".csv" else "\t")
        text.detach()  # flushed, and left open for its owner to close


def _write_lines(text: TextIO, headings: Iterable[Any], lines: Iterable[Iterable[Any]], delimiter: str) -> None:
    shown = printable if text.isatty() else str
    text.writelines(shown(delimiter.join(map(_cell, line)) + "\n") for line in chain([headings], lines))


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_file(path, buffer.getvalue())


def _text(columns: Mapping[str, Sequence[Any]], delimiter: str) -> str:
    text = io.StringIO(newline="")
    _write_lines(text, columns, zip(*columns.values(), strict=True), delimiter)
    return text.getvalue()


def _cell(value: Any) -> str:
    """Return a cell, in quotes where anything in it could be taken for the end of a cell, of a line or of the ids.

    The writer of the standard library leaves a bare carriage return as it is, which ends a line for every reader.
    """
    text = "" if value is None or value != value else str(value)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _parquet(columns: Mapping[str, Sequence[Any]]) -> bytes:
    import narwhals as nw

    backends: tuple[Any, ...] = ("pyarrow", "polars", "pandas")
    for backend in backends:
        buffer = io.BytesIO()
        try:
            nw.from_dict(dict(columns), backend=backend).write_parquet(buffer)
        except ImportError:
            continue
        return buffer.getvalue()
    raise ImportError("Writing parquet needs polars or pyarrow: install one of them, or write the table as csv.")

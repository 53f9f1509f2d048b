"""Tables to files, whole or not at all: csv and tsv (plain or gzipped), parquet and npz; or to a terminal, as csv."""

from __future__ import annotations

import gzip
import io
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any, TextIO, cast

import numpy as np

from dyadlearn._files.atomic import replacing
from dyadlearn._files.tables import DELIMITERS, suffix_of, text_ids
from dyadlearn._tables import Ids, free_name

__all__ = ["TABLES", "is_text", "printable", "write_columns", "write_grid", "writing"]

_TEXTS = (".csv", ".tsv", ".txt")

#: Endings of what a table can be written as.
TABLES = (*_TEXTS, ".parquet", ".npz")

# What must stand in quotes: separators, quotes, and whatever some program takes for the end of a line.
_SPECIAL = re.compile(f'[{DELIMITERS}"\\r\\n\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029]')

# Controls of C0 (but for ends of lines and tabs), C1 and Unicode: they move the cursor, hide text or turn it around.
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    r"""Return a text with the codes that a terminal obeys written out, such as the escape as ``\x1b``."""
    return _CODES.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Let errors of a full disk and the like name the file that was asked for."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, f"could not be written ({error.strerror or error})", str(path)) from error


def is_text(path: Path | None) -> bool:
    """Tell whether a table is written line by line; None stands for standard output."""
    return path is None or suffix_of(path) in _TEXTS


def write_columns(path: Path | None, columns: Mapping[str, Sequence[Any]]) -> None:
    """Write a table of named columns, all of the same length; None prints it as csv.

    Numbers are written with all their digits, None and NaN as nothing.
    """
    if path is None or suffix_of(path) in _TEXTS:
        _write_text(path, columns, zip(*columns.values(), strict=True))
    elif suffix_of(path) == ".npz":
        _write_arrays(path, {name: np.asarray(cells) for name, cells in columns.items()})
    else:
        # A column of one kind: texts where ids are of several.
        kinds = {name: {type(cell) for cell in cells} for name, cells in columns.items()}
        _write_bytes(path, _parquet({n: list(map(str, c)) if str in kinds[n] else c for n, c in columns.items()}))


def write_grid(path: Path | None, blocks: Iterable[np.ndarray], rows: Ids, columns: Ids, corner: str) -> None:
    """Write a grid (n, p) with the ids of rows and columns; None prints it as csv.

    Parameters
    ----------
    path : Path or None
    blocks : iterable of arrays of shape (…, p)
        The rows of the grid, one block after the other; of a text no more than one need be there at a time.
    rows, columns : Ids
    corner : str
        The heading of the ids.
    """
    rows, columns = text_ids(rows, "The rows of the table"), text_ids(columns, "Its columns")
    headings = [str(label) for label in columns.labels]
    corner = free_name(corner, headings)
    if path is None or suffix_of(path) in _TEXTS:
        labels = iter(rows.labels)
        _write_text(path, [corner, *headings], ([next(labels), *line] for block in blocks for line in block.tolist()))
    elif suffix_of(path) == ".npz":
        names = {"rows": np.array(rows.labels), "columns": np.array(columns.labels)}
        _write_arrays(path, {"values": np.concatenate(list(blocks)), **names})
    else:
        cells = np.concatenate(list(blocks)).T.tolist()
        write_columns(path, {corner: list(rows.labels), **dict(zip(headings, cells, strict=True))})


def _write_text(path: Path | None, headings: Iterable[Any], lines: Iterable[Iterable[Any]]) -> None:
    if path is None:
        _write_lines(sys.stdout, chain([headings], lines), ",")
        return
    with writing(path), replacing(path) as file, ExitStack() as stack:
        packed = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file)) if path.suffix == ".gz" else file
        text = io.TextIOWrapper(cast(IO[bytes], packed), encoding="utf-8", newline="")
        _write_lines(text, chain([headings], lines), "," if suffix_of(path) == ".csv" else "\t")
        text.detach()  # flushed, and left open for its owner to close


def _write_lines(text: TextIO, lines: Iterable[Iterable[Any]], delimiter: str) -> None:
    shown = printable if text.isatty() else str
    text.writelines(shown(delimiter.join(map(_cell, line)) + "\n") for line in lines)


def _cell(value: Any) -> str:
    """Return a cell, in quotes where anything in it could be taken for the end of a cell, of a line or of the ids.

    The writer of the standard library leaves a bare carriage return as it is, which ends a line for every reader.
    """
    text = "" if value is None or value != value else str(value)
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text


def _write_bytes(path: Path, content: bytes) -> None:
    with writing(path), replacing(path) as file:
        file.write(content)


def _write_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    _write_bytes(path, buffer.getvalue())


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

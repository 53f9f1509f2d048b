"""Files of data sets, in tables with ids and in other shapes, and grids of drugs and targets made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._array import Array
from dyadlearn._files.packed import parse_number, read_arrays, reading
from dyadlearn._tables import Ids, make_ids, write_table
from dyadlearn.datasets._home import VARIABLE, download_file, find_file, read_lines
from dyadlearn.exceptions import DataFileError

__all__ = [
    "NAMES",
    "NUMBERS",
    "WHOLE",
    "Matrix",
    "check_arrays",
    "drug_target_bunch",
    "find_all",
    "load_npz",
    "obtain",
    "read_ids",
    "read_matrix",
    "read_numbers",
    "read_texts",
]

# Kinds of arrays, as numpy calls them.
NUMBERS, WHOLE, NAMES = "biuf", "iu", "iuU"
_WORDS = {NUMBERS: "numbers", WHOLE: "whole numbers", NAMES: "names"}


def obtain(
    files: Sequence[tuple[str, ...]], *, home: Path, folder: str, address: str, title: str, download: bool
) -> list[Path]:
    """Return where `files` lie, after downloading those that are not there.

    Parameters
    ----------
    files : sequence of tuple of str
        The names of each file; the first is the one at `address`.
    home, folder : Path, str
        Where to look: in `folder` of `home` and in `home` itself.
    address : str
        The publisher's, with a slash at the end.
    title : str
        How messages call the data set.
    download : bool
        Whether to download at all.
    """
    found = {names[0]: _first(home, folder, names) for names in files}
    missing = [name for name, path in found.items() if path is None]
    advice = (
        f"Get {', '.join(missing)} from {address} by other means and put them, plain or gzipped, in {home / folder}; "
        f"or name the folder that holds them by data_home= or by the environment variable {VARIABLE}."
    )
    if missing and not download:
        raise FileNotFoundError(f"The data set {title} is not in {home}, and download=False. {advice}")
    for name in missing:
        path = home / folder / name
        try:
            download_file(address + name, path)
        except ConnectionError as error:
            raise ConnectionError(f"{error} {advice}") from error
        if path.read_bytes().lstrip().startswith(b"<"):
            path.unlink()
            raise ConnectionError(f"{address}{name} is a page now, not the file. {advice}")
        found[name] = path
    return [path for path in found.values() if path is not None]


def _first(home: Path, folder: str, names: Sequence[str]) -> Path | None:
    return next((path for name in names if (path := find_file(home, folder, name))), None)


def find_all(names: Sequence[str], *, home: Path, folder: str, title: str, source: str) -> list[Path]:
    """Return where the files `names` lie; those that are not there are named, with their `source`."""
    found = {name: find_file(home, folder, name) for name in names}
    missing = [name for name, path in found.items() if path is None]
    if missing:
        raise FileNotFoundError(
            f"The data set {title} is not in {home}: put {', '.join(missing)} ({source}) in {home / folder}, or name "
            f"the folder that holds them by data_home= or by the environment variable {VARIABLE}."
        )
    return [path for path in found.values() if path is not None]


def load_npz(path: Path, wanted: Mapping[str, tuple[int, str]]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz archive, plain or gzipped, after `check_arrays`."""
    stored = read_arrays(path, "npz archive")
    check_arrays(stored, wanted, path)
    return stored


def check_arrays(stored: Mapping[str, np.ndarray], wanted: Mapping[str, tuple[int, str]], path: Path) -> None:
    """Check that an archive holds the arrays `wanted`, each with its number of dimensions and kind of cells.

    Kinds are `NUMBERS`, `WHOLE` or `NAMES`.
    """
    missing = [key for key in wanted if key not in stored]
    if missing:
        raise DataFileError(f"{path} lacks the arrays {', '.join(missing)}: found {', '.join(stored) or 'none'}.")
    for key, (ndim, kinds) in wanted.items():
        if stored[key].ndim != ndim or stored[key].dtype.kind not in kinds:
            raise DataFileError(
                f"{path}: {key} must be {'a list' if ndim == 1 else 'a table'} of {_WORDS[kinds]}, found "
                f"{stored[key].dtype} {stored[key].shape}."
            )


def read_numbers(path: Path, *, holes: bool = False) -> np.ndarray:
    """Read a table (rows, columns) of numbers without ids, separated by spaces or tabs.

    With `holes`, ``nan`` is a number too.
    """
    rows: list[np.ndarray] = []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split()
        if not cells:
            continue
        if rows and len(cells) != len(rows[0]):
            raise DataFileError(
                f"{path}, line {number}: expected {len(rows[0])} numbers, as in the first line, found {len(cells)}."
            )
        try:
            values = _plain_numbers(cells)
        except ValueError:
            values = np.array([np.inf])
        if not (np.isfinite(values) | (holes & np.isnan(values))).all():
            wrong = next(cell for cell in cells if not _is_number(cell, holes))
            raise DataFileError(f"{path}, line {number}: {wrong!r} is not a number.")
        rows.append(values)
    if not rows:
        raise DataFileError(f"{path} holds no table: expected numbers, separated by spaces or tabs.")
    return np.array(rows)


def _plain_numbers(cells: list[str]) -> np.ndarray:
    """Return cells as numbers, as numpy reads them; those that only Python takes for numbers are refused."""
    if any("_" in cell or not cell.isascii() for cell in cells):
        raise ValueError
    return np.array(cells, dtype=np.float64)


def _is_number(cell: str, holes: bool) -> bool:
    try:
        value = parse_number(cell)
    except ValueError:
        return False
    return bool(np.isfinite(value)) or (holes and bool(np.isnan(value)))


def read_ids(path: Path) -> Ids:
    """Read the ids of one side: the names of a JSON object, else one in each line."""
    lines = read_lines(path)
    labels = list(_read_object(path, lines)) if _is_object(lines) else [line.strip() for line in lines if line.strip()]
    return make_ids(labels, None, str(path))


def read_texts(path: Path | None) -> dict[str, str]:
    """Read ids and their texts, such as sequences: a JSON object, or lines of tabs whose last cell is the text.

    Empty without a file. A first line ``drug`` and ``smiles`` is a header.
    """
    if path is None:
        return {}
    lines = read_lines(path)
    if _is_object(lines):
        return _read_object(path, lines)
    texts = {}
    for number, line in enumerate(lines, 1):
        cells = line.split("\t")
        if len(cells) < 2:
            raise DataFileError(f"{path}, line {number}: expected an id, a tab and a text, found {line[:50]!r}.")
        if (number, *cells) != (1, "drug", "smiles"):
            texts[cells[0]] = cells[-1]
    return texts


def _is_object(lines: list[str]) -> bool:
    return lines[0].lstrip().startswith("{")


def _read_object(path: Path, lines: list[str]) -> dict[str, str]:
    with reading(path, "JSON"):
        return {str(name): str(text) for name, text in json.loads("\n".join(lines)).items()}


def drug_target_bunch(
    Y: np.ndarray,
    drugs: tuple[Ids, np.ndarray],
    targets: tuple[Ids, np.ndarray],
    *,
    instances: str,
    as_frame: bool,
    owner: str,
    **rest: Any,
) -> Bunch:
    """Put a grid `Y` (drugs, targets) and the ids and similarities of both sides together, either side as rows.

    `owner` is the function that messages name, `rest` goes into the result.
    """
    sides = (drugs, targets) if instances == "drugs" else (targets, drugs)
    (instance_ids, K), (task_ids, G) = sides
    labels = Y if instances == "drugs" else np.ascontiguousarray(Y.T)

    def table(values: np.ndarray, rows: Ids, columns: Ids) -> Array:
        return write_table(values, rows, columns, "pandas") if as_frame else values

    try:
        return Bunch(
            Y=table(labels, instance_ids, task_ids),
            K=table(K, instance_ids, instance_ids),
            G=table(G, task_ids, task_ids),
            instance_names=np.array(instance_ids.labels),
            task_names=np.array(task_ids.labels),
            **rest,
        )
    except ImportError as error:
        raise ImportError(f"{owner}(as_frame=True) needs pandas: install it, or use as_frame=False.") from error


@dataclass(frozen=True)
class Matrix:
    """A table of numbers (rows, columns) with the ids of both, and the file it was read from."""

    values: np.ndarray
    rows: Ids
    columns: Ids
    path: Path

    def ordered(self, ids: Ids) -> np.ndarray:
        """Return the values of a square table with rows and columns in the order of `ids`."""
        values = self.values
        for axis, own, word in ((0, self.rows, "rows"), (1, self.columns, "columns")):
            order = own.order_as(ids, f"the {word} of {self.path.name}", "the adjacency matrix")
            values = values if order is None else np.take(values, order, axis=axis)
        return values


def read_matrix(path: Path) -> Matrix:
    """Read a tab-separated table of numbers with ids in its first row and column."""
    header, *lines = read_lines(path)
    columns = make_ids(header.split("\t")[1:], None, f"The first line of {path}")
    if not lines or not columns.labels:
        raise DataFileError(f"{path} holds no table: expected ids in the first line and column, separated by tabs.")
    rows = []
    values = np.empty((len(lines), len(columns)))
    for number, line in enumerate(lines):
        name, *cells = line.split("\t")
        if len(cells) != len(columns):
            raise DataFileError(
                f"{path}, line {number + 2}: expected {len(columns)} numbers after the id, as in the first line, "
                f"found {len(cells)}."
            )
        rows.append(name)
        values[number] = _numbers(cells, path, number + 2, columns)
    return Matrix(values, make_ids(rows, None, f"The first column of {path}"), columns, path)


def _numbers(cells: list[str], path: Path, line: int, columns: Ids) -> np.ndarray:
    """Return the cells of a line as numbers; the first that is none is named."""
    try:
        values = _plain_numbers(cells)
    except ValueError:
        values = np.array([_number(cell) for cell in cells])
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise DataFileError(f"{path}, line {line}, column {columns.labels[bad[0]]}: {cells[bad[0]]!r} is not a number.")
    return values


def _number(cell: str) -> float:
    try:
        return parse_number(cell)
    except ValueError:
        return float("nan")

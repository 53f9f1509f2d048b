"""What the files of data sets hold: tables, ids, texts and arrays; and bunches made of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from dyadlearn._array import Array
from dyadlearn._files.packed import parse_row, read_arrays, reading
from dyadlearn._files.tables import check_whole, load_table
from dyadlearn._tables import Ids, Table, make_ids, write_table
from dyadlearn.datasets._home import read_lines
from dyadlearn.exceptions import DataFileError

__all__ = [
    "NAMES",
    "NUMBERS",
    "WHOLE",
    "as_given",
    "both_ids",
    "check_arrays",
    "describe",
    "drug_target_bunch",
    "load_npz",
    "read_grid",
    "read_ids",
    "read_numbers",
    "read_similarities",
    "read_texts",
]

# Kinds of arrays, as numpy calls them.
NUMBERS, WHOLE, NAMES = "biuf", "iu", "iuU"
_WORDS = {NUMBERS: "numbers", WHOLE: "whole numbers", NAMES: "names"}


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

    def are_good(values: np.ndarray | None) -> bool:
        return values is not None and bool((np.isfinite(values) | (holes & np.isnan(values))).all())

    rows: list[np.ndarray] = []
    for number, line in enumerate(read_lines(path), 1):
        cells = line.split()
        if not cells:
            continue
        if rows and len(cells) != len(rows[0]):
            raise DataFileError(
                f"{path}, line {number}: expected {len(rows[0])} numbers, as in the first line, found {len(cells)}."
            )
        values = parse_row(cells)
        if values is None or not are_good(values):
            wrong = next(cell for cell in cells if not are_good(parse_row([cell])))
            raise DataFileError(f"{path}, line {number}: {wrong!r} is not a number.")
        rows.append(values)
    if not rows:
        raise DataFileError(f"{path} holds no table: expected numbers, separated by spaces or tabs.")
    return np.array(rows)


def read_grid(path: Path) -> Table:
    """Read a table of numbers with ids in its first row and column, all of them there."""
    table = load_table(path)
    check_whole(table, path, "every cell has one")
    return table


def both_ids(table: Table) -> tuple[Ids, Ids]:
    """Return the ids of the rows and of the columns of a table that has both."""
    assert table.row_ids is not None
    assert table.column_ids is not None
    return table.row_ids, table.column_ids


def read_similarities(path: Path, ids: Ids | None) -> np.ndarray:
    """Read a square table of the same kind, with rows and columns in the order of `ids`."""
    table = read_grid(path).rows_as(ids, f"the rows of {path.name}", "the adjacency matrix")
    return np.asarray(table.columns_as(ids, f"the columns of {path.name}", "the adjacency matrix").values)


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


def describe(name: str, **facts: Any) -> str:
    """Return the description of a data set, with the facts that are found in its files."""
    text = files("dyadlearn.datasets").joinpath("data", f"{name}.rst").read_text("utf-8").format(**facts)
    title, _, rest = text.partition("\n")
    return f"{title}\n{'=' * len(title)}\n{rest}"


def as_given(table: Table, as_frame: bool, owner: str) -> Array:
    """Return the values of a table, or a pandas frame; `owner` is the function that messages name."""
    if not as_frame:
        return table.values
    try:
        return write_table(table.values, table.row_ids, table.column_ids, "pandas")
    except ImportError as error:
        raise ImportError(f"{owner}(as_frame=True) needs pandas: install it, or use as_frame=False.") from error


def drug_target_bunch(
    labels: Table,
    drug_scores: np.ndarray,
    target_scores: np.ndarray,
    *,
    instances: str,
    as_frame: bool,
    owner: str,
    **rest: Any,
) -> Bunch:
    """Put labels (drugs, targets) and the similarities of both sides together, either side as rows.

    `owner` is the function that messages name, `rest` goes into the result.
    """
    K, G = drug_scores, target_scores
    if instances != "drugs":
        labels, K, G = labels.transposed, target_scores, drug_scores
    rows, columns = both_ids(labels)
    tables = {
        "Y": Table(np.ascontiguousarray(labels.values), rows, columns),
        "K": Table(K, rows, rows),
        "G": Table(G, columns, columns),
    }
    return Bunch(
        **{name: as_given(table, as_frame, owner) for name, table in tables.items()},
        instance_names=np.array(rows.labels),
        task_names=np.array(columns.labels),
        **rest,
    )

"""One table whose columns hold the structures of both sides: ids of its distinct structures.

The id of a molecule is its canonical SMILES. The id of a sequence is the sequence itself or, if it
is long, its beginning, its length and a hash of its letters. So equal structures have equal ids in
all tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from typing import Any

from dyadlearn._files.tables import FileTable, is_blank
from dyadlearn._tables import id_text
from dyadlearn.cli.entities import naming
from dyadlearn.exceptions import DataFileError
from dyadlearn.sides import SideNames

# Longest sequence that is its own id, and number of letters of a longer one in its id.
_LONGEST_ID = 30
_BEGINNING = 12
# What the names of columns of structures end in, and what such structures are called.
_ENDINGS = re.compile(
    r"([\s_.-]*(iso|isomeric|canonical))?[\s_.-]*(smiles|structure|sequences?|seq|fasta|ids?|names?)$",
    re.IGNORECASE,
)
_READERS = {
    "smiles": ("chemistry", "canonical_smiles"),
    "sequences": ("sequences", "clean_sequences"),
}
_WORDS = {"smiles": "molecule", "sequences": "sequence", "ids": "task"}


@dataclass(frozen=True)
class Structures:
    """A column of one table that describes a side.

    Attributes
    ----------
    kind : str
        "smiles", "sequences" or "ids".
    name : str
        Name of the column.
    labels : list of str or None
        The id of each row; None if its structure is missing or invalid.
    texts : dict of str to str
        The structure of each id.
    """

    kind: str
    name: str
    labels: list[str | None]
    texts: dict[str, str]


def read_structures(cells: FileTable, kind: str, name: str, on_error: str) -> Structures:
    """Read a column of structures; `on_error` is "raise" or "drop"."""
    column = cells.column(name)
    first_row: dict[str, int] = {}
    for row, cell in enumerate(column):
        if not is_blank(cell):
            first_row.setdefault(id_text(cell), row)
    if not first_row:
        raise DataFileError(f"{cells.path} has no value in column {name!r}.")
    where = [f"line {cells.numbers[row]}" for row in first_row.values()]
    texts = list(first_row)
    if kind == "ids":
        cleaned = dict(zip(texts, texts, strict=True))
    else:
        read = _reader(kind)
        with naming(cells.path):
            clean, kept = read(texts, where, on_error=on_error)
        # Several lines may share a number in a parquet file, so positions are matched.
        text_at = dict(zip(where, texts, strict=True))
        cleaned = {text_at[line]: text for line, text in zip(kept, clean, strict=True)}
    make_id = sequence_id if kind == "sequences" else str
    id_of = {text: make_id(clean) for text, clean in cleaned.items()}
    labels = [None if is_blank(cell) else id_of.get(id_text(cell)) for cell in column]
    return Structures(kind, name, labels, {id_of[text]: cleaned[text] for text in cleaned})


def _reader(kind: str) -> Callable[..., tuple[list[str], list[str]]]:
    """Return the function that reads structures of a kind."""
    module, function = _READERS[kind]
    read: Callable[..., tuple[list[str], list[str]]]
    read = getattr(import_module(f"dyadlearn.kernels.{module}"), function)
    return read


def sequence_id(sequence: str) -> str:
    """Return the id of a sequence.

    Examples
    --------
    >>> from dyadlearn.cli.one_table import sequence_id
    >>> sequence_id("MKVLA"), sequence_id("MKVLAAGG" * 10)
    ('MKVLA', 'MKVLAAGGMKVL_80_8ffa93fc')
    """
    if len(sequence) <= _LONGEST_ID:
        return sequence
    digest = sha256(sequence.encode()).hexdigest()[:8]
    return f"{sequence[:_BEGINNING]}_{len(sequence)}_{digest}"


def structure_id(kind: str, text: str) -> str | None:
    """Return the id of a structure; None if it is not valid, or cannot be read here."""
    try:
        (clean,), _ = _reader(kind)([text], ["1"], on_error="raise")
    except (ImportError, ValueError):
        return None
    if kind == "sequences":
        return sequence_id(clean)
    return str(clean)


def long_table(cells: FileTable, sides: Sequence[Structures], label: str) -> FileTable:
    """Return the rows with both structures as a long table of id, id and label."""
    rows = zip(sides[0].labels, sides[1].labels, cells.column(label), strict=True)
    lines: list[Sequence[Any]] = list(rows)
    kept = [row for row, line in enumerate(lines) if None not in line[:2]]
    headings = [sides[0].name, sides[1].name, label]
    return replace(cells, headings=headings, lines=lines, id_place=0).only(kept)


def names_of_columns(columns: Sequence[tuple[str, str]]) -> str:
    """Return the words for an instance and a task, as --sides takes them, from kinds and names of columns.

    Examples
    --------
    >>> from dyadlearn.cli.one_table import names_of_columns
    >>> names_of_columns([("smiles", "drug_smiles"), ("sequences", "sequence")])
    'drug,sequence'
    >>> names_of_columns([("smiles", "compound_iso_smiles"), ("sequences", "target_sequence")])
    'compound,target'
    """
    words = []
    for kind, name in columns:
        word = re.sub(r"[^\w ()-]", "", _ENDINGS.sub("", name)).replace("_", " ").strip()
        words.append(word.lower() if word.istitle() else word or _WORDS[kind])
    if words[0] == words[1]:
        return ",".join(SideNames())
    return ",".join(words)

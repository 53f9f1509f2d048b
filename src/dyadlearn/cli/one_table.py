"""One table whose columns hold the structures of both sides: ids of its distinct structures.

The id of a molecule is its canonical SMILES. The id of a sequence is the sequence itself or, if it
is long, its beginning, its length and a hash of its letters. So equal structures have equal ids in
all tables.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from dyadlearn._files.tables import FileTable, is_blank
from dyadlearn._tables import id_text
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
        # Several lines may share a number in a parquet file, so positions are matched.
        read, kept = _READERS[kind](texts, where, on_error)
        text_at = dict(zip(where, texts, strict=True))
        cleaned = {text_at[line]: text for line, text in zip(kept, read, strict=True)}
    make_id = sequence_id if kind == "sequences" else str
    id_of = {text: make_id(clean) for text, clean in cleaned.items()}
    labels = [None if is_blank(cell) else id_of.get(id_text(cell)) for cell in column]
    return Structures(kind, name, labels, {id_of[text]: cleaned[text] for text in cleaned})


def _molecules(texts: list[str], where: list[str], on_error: str) -> Any:
    from dyadlearn.kernels.chemistry import canonical_smiles

    return canonical_smiles(texts, where, on_error=on_error)


def _sequences(texts: list[str], where: list[str], on_error: str) -> Any:
    from dyadlearn.kernels.sequences import clean_sequences

    return clean_sequences(texts, where, on_error=on_error)


_READERS = {"smiles": _molecules, "sequences": _sequences}


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
        (clean,), _ = _READERS[kind]([text], ["1"], "raise")
    except (ImportError, ValueError):
        return None
    return sequence_id(clean) if kind == "sequences" else str(clean)


def long_table(cells: FileTable, sides: Sequence[Structures], label: str) -> FileTable:
    """Return the rows with both structures as a long table of id, id and label."""
    values = cells.column(label)
    rows = zip(sides[0].labels, sides[1].labels, values, cells.numbers, strict=True)
    lines: list[Any] = []
    numbers = []
    for first, second, value, number in rows:
        if first is not None and second is not None:
            lines.append([first, second, value])
            numbers.append(number)
    headings = [sides[0].name, sides[1].name, label]
    return replace(cells, headings=headings, lines=lines, numbers=numbers, id_place=0)


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

"""How far a stream was learnt, as a checkpoint holds it, and by what the stream is known again."""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from dyadlearn._array import is_sparse
from dyadlearn._tables import Table, read_table
from dyadlearn.exceptions import ModelFileError

__all__ = ["Position", "marks", "read_position"]


@dataclass(frozen=True)
class Position:
    """How far a stream was learnt, and by what it is known again.

    Attributes
    ----------
    n_batches, n_rows : int
    digests : tuple of str
        Of everything in the first 1, 2, 4, 8, … batches and in all of them: few however long the stream is, and
        enough to tell where it changed.
    """

    n_batches: int = 0
    n_rows: int = 0
    digests: tuple[str, ...] = ()

    def after(self, X: Any, y: Any, *, is_kept: bool) -> Position:
        """Return the position after another batch (l, p) with labels (l, q); one that is not kept needs no digests."""
        tables = read_table(X, "X"), read_table(y, "y")
        rows, digests = tables[0].values, self.digests
        n_rows = rows.shape[0] if hasattr(rows, "shape") else len(rows)
        if is_kept:
            # The last one is gone on with, and is itself kept after a power of two.
            kept = digests if _is_mark(self.n_batches) else digests[:-1]
            digests = (*kept, _digest(digests[-1] if digests else "", tables))
        return Position(self.n_batches + 1, self.n_rows + int(n_rows), digests)


def _is_mark(n_batches: int) -> bool:
    """Tell whether the digest after so many batches is kept."""
    return n_batches & (n_batches - 1) == 0


def marks(n_batches: int) -> list[int]:
    """Return the numbers of batches that the digests of a position belong to."""
    powers = [1 << exponent for exponent in range(n_batches.bit_length())]
    return powers if _is_mark(n_batches) else [*powers, n_batches]


def _digest(before: str, tables: Iterable[Table]) -> str:
    """Return a digest of all that came before and of another batch: of ids, shapes and numbers, however they lie."""
    digest = hashlib.blake2b(before.encode(), digest_size=16)
    for table in tables:
        for ids in (table.row_ids, table.column_ids):
            labels = () if ids is None else ids.labels
            plain = [label.item() if isinstance(label, np.generic) else label for label in labels]
            digest.update(repr(plain).encode(errors="backslashreplace"))
        shape, places, numbers = _nonzeros(table.values)
        digest.update(repr((shape, len(numbers))).encode())
        if len(numbers) < math.prod(shape):
            digest.update(places.astype("<i8").data)
        digest.update(numbers.astype("<f8").data)
    return digest.hexdigest()


def _nonzeros(values: Any) -> tuple[tuple[int, ...], np.ndarray, np.ndarray]:
    """Return a shape, and places (row by row) and values of what is not zero: the same for dense and sparse."""
    if is_sparse(values):
        matrix = sparse.csr_array(values, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        return tuple(map(int, matrix.shape)), rows * matrix.shape[1] + matrix.indices, matrix.data
    dense = np.asarray(values)
    flat = dense.ravel()
    places = np.flatnonzero(flat)
    return dense.shape, places, flat[places]


def read_position(plain: Any, path: Path) -> Position:
    """Return the position that a header describes, or refuse what is none."""
    try:
        found = Position(plain["n_batches"], plain["n_rows"], tuple(plain["digests"]))
        counts = (found.n_batches, found.n_rows)
        if any(type(count) is not int or not 0 < count <= sys.maxsize for count in counts) or len(plain) != 3:
            raise ValueError("no counts")
        if len(found.digests) != len(marks(found.n_batches)) or {type(part) for part in found.digests} != {str}:
            raise ValueError("no digests")
    except (LookupError, TypeError, ValueError) as error:
        raise ModelFileError(
            f"{path} does not say how far its stream was learnt, so that it cannot be gone on with: begin anew with "
            "resume=False."
        ) from error
    return found

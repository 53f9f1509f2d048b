r"""The container of a model file: named arrays and a header in the safetensors format, checked down to the last byte.

A file is the length of its head (8 bytes, little-endian), the head, and the bytes of the arrays one after the other.
The head is JSON: for each array its dtype, shape and place, and before them the metadata

.. code-block:: text

    {"__metadata__":{"format":"dyadlearn","version":"4","checksum":"<SHA-256>","header":"<JSON in a string>"}, …}

in this order and without spaces, so that a file is recognised by its first bytes. The checksum is that of the whole
file with zeros in its own place. Any reader of safetensors can open the arrays. Reading and writing is done here, in
one pass and without a second copy of the arrays, so that what is checked is what is used.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dyadlearn._files.atomic import replacing
from dyadlearn._files.packed import check_file
from dyadlearn._memory import check_memory
from dyadlearn.exceptions import ModelFileError

__all__ = ["OLDEST", "VERSION", "check_container", "read_checksum", "read_container", "write_container"]

#: The format that is written.
VERSION = 4
#: The oldest format that is read. For each from here on, ``tests/store/data`` holds a file.
OLDEST = 4

_START = b'{"__metadata__":{"format":"dyadlearn","version":"'
_HEAD = re.compile(re.escape(_START) + rb'(\d{1,9})"(?:,"checksum":"([0-9a-f]{64})","header":")?')
_NO_CHECKSUM = "0" * 64
# Readers of safetensors refuse a longer head.
_LONGEST_HEAD = 100_000_000
_CHUNK = 2**24

_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
    "BOOL": "|b1",
}
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


def write_container(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    over: str | None = None,
    check: Callable[[Path], Any] | None = None,
) -> None:
    """Write a file in one go, or nothing.

    Parameters
    ----------
    path : Path
    header : mapping
        What JSON can hold.
    arrays : mapping of str to array
        Of any shape; floats, whole numbers or truth values.
    over : str or None
        The checksum of the file that alone may be replaced; None replaces any.
    check : callable or None
        Takes the path of the finished file before it takes the place of another, and raises where it is no good.
    """
    # The largest items first: then all are aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    places, end = {}, 0
    for name, array in ordered:
        places[name] = {
            "dtype": _NAMES[array.dtype.newbyteorder("<")],
            "shape": list(array.shape),
            "data_offsets": [end, end + array.nbytes],
        }
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    metadata = {"format": "dyadlearn", "version": str(VERSION), "checksum": _NO_CHECKSUM, "header": text}
    head = json.dumps({"__metadata__": metadata, **places}, separators=(",", ":")).encode("ascii")
    head += b" " * (-len(head) % 8)
    if len(head) > _LONGEST_HEAD:
        raise ModelFileError(
            f"The ids and parameters of this model take {len(head):,} bytes, and a model file has room for "
            f"{_LONGEST_HEAD:,}: use shorter ids."
        )
    digest = hashlib.sha256()
    unchanged = None if over is None else lambda: read_checksum(path) == over
    with replacing(path, unchanged) as file:
        start = len(head).to_bytes(8, "little") + head
        digest.update(start)
        file.write(start)
        for _, array in ordered:
            content = _bytes(array)
            digest.update(content)
            file.write(content)
        file.seek(8 + head.index(_NO_CHECKSUM.encode()))
        file.write(digest.hexdigest().encode())
        file.flush()
        if check is not None:
            check(Path(file.name))


def _bytes(array: np.ndarray) -> memoryview:
    """Return the bytes of an array as a file has them, without a copy where they lie so in memory."""
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1).view(np.uint8).data


def read_checksum(path: Path) -> str | None:
    """Return the checksum that a model file has of itself, without reading on; None where there is none to be found."""
    try:
        check_file(path, ModelFileError)
        with open(path, "rb") as file:
            found = _HEAD.match(file.read(8 + len(_START) + 200)[8:])
    except FileNotFoundError:
        return None
    return None if found is None or found[2] is None else found[2].decode()


def read_container(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the header and the arrays of a file, or say what is wrong with it.

    Parameters
    ----------
    path : Path

    Returns
    -------
    header : what JSON holds
    arrays : dict of str to array
        Contiguous, row by row.

    Raises
    ------
    ModelFileError
        If the file is empty, foreign, of a newer format, cut short or changed.
    NotEnoughMemoryError
        If it is larger than the memory that is free.
    """
    size = check_file(path, ModelFileError)
    with open(path, "rb") as file:
        head, span, header, forms = _read_tables(file, size, path)
        # A file with holes may be larger than any disk.
        check_memory(1.5 * size, np.empty(0), f"Loading {path}", "free some, or load it on a larger machine")
        digest = hashlib.sha256(len(head).to_bytes(8, "little"))
        digest.update(head[: span[0]] + _NO_CHECKSUM.encode() + head[span[1] :])
        arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in forms.items()}
        for array in arrays.values():
            content = _bytes(array)
            for first in range(0, len(content), _CHUNK):
                part = content[first : first + _CHUNK]
                if file.readinto(part) != len(part):
                    raise _cut_short(path, file.tell(), size)
                digest.update(part)
        if digest.hexdigest().encode() != head[slice(*span)]:
            raise _damaged(path, "its checksum does not match")
    return header, arrays


def check_container(path: Path, arrays: Mapping[str, np.ndarray]) -> Any:
    """Return the header of a file after comparing its arrays, piece by piece, with those that it was made of."""
    size = check_file(path, ModelFileError)
    with open(path, "rb") as file:
        _, _, header, forms = _read_tables(file, size, path)
        for name in forms:
            content = np.frombuffer(_bytes(arrays[name]), np.uint8)
            for first in range(0, len(content), _CHUNK):
                part = content[first : first + _CHUNK]
                if not np.array_equal(np.frombuffer(file.read(len(part)), np.uint8), part):
                    raise _damaged(path, f"its {name} is not what was written")
    return header


def _read_tables(
    file: BinaryIO, size: int, path: Path
) -> tuple[bytes, tuple[int, int], Any, dict[str, tuple[tuple[int, ...], np.dtype[Any]]]]:
    """Return the head, where its checksum stands, the header, and the shapes and dtypes of the arrays in order."""
    head = _read_head(file, size, path)
    found = _HEAD.match(head)
    version = int(found[1]) if found else 0
    if version > VERSION:
        raise ModelFileError(
            f"{path} is in format {version} of a newer dyadlearn, and this one reads formats up to {VERSION}: "
            "upgrade dyadlearn."
        )
    if 0 < version < OLDEST:
        raise ModelFileError(
            f"{path} is in format {version} of an older dyadlearn, and this one reads formats from {OLDEST} on: fit "
            "the model again and save it."
        )
    if found is None or found[2] is None:
        raise _damaged(path, "its head does not begin as one does")
    try:
        tables = json.loads(head)
        header = json.loads(tables.pop("__metadata__")["header"])
        forms = _forms(tables)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise _damaged(path, "its head cannot be read") from error
    expected = 8 + len(head) + sum(math.prod(shape) * dtype.itemsize for shape, dtype in forms.values())
    if size < expected:
        raise _cut_short(path, size, expected)
    # An axis of zero lets the others be of any length without taking room in the file.
    lengths = (math.prod(max(axis, 1) for axis in shape) * dtype.itemsize for shape, dtype in forms.values())
    if size > expected or max(lengths, default=0) > size:
        raise _damaged(path, "its arrays and its size do not fit together")
    return head, found.span(2), header, forms


def _read_head(file: BinaryIO, size: int, path: Path) -> bytes:
    """Return the head of a file that begins as ours do."""
    first = file.read(8 + len(_START))
    if not size:
        raise ModelFileError(f"{path} is empty: no model was saved in it.")
    # A head that is cut off within its first words is still ours.
    if len(first) <= 8 or not _START.startswith(first[8:]):
        raise ModelFileError(f"{path} is not a model file of dyadlearn.")
    length = int.from_bytes(first[:8], "little")
    if 8 + length > size:
        raise _cut_short(path, size, 8 + length)
    if length > _LONGEST_HEAD:
        raise _damaged(path, "its head is longer than any")
    file.seek(8)
    return file.read(length)


def _forms(tables: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return the shapes and dtypes of the arrays in their order; raise ValueError if they do not lie in a row."""
    forms, end = {}, 0
    for name, table in sorted(tables.items(), key=lambda item: item[1]["data_offsets"]):
        shape, dtype = tuple(table["shape"]), np.dtype(_DTYPES[table["dtype"]])
        if any(type(length) is not int or not 0 <= length < 2**48 for length in shape) or len(shape) > 8:
            raise ValueError("not a shape")
        start, end = end, end + math.prod(shape) * dtype.itemsize
        if table["data_offsets"] != [start, end]:
            raise ValueError("a hole, an overlap or another size")
        forms[name] = (shape, dtype)
    return forms


def _cut_short(path: Path, size: int, expected: int) -> ModelFileError:
    return ModelFileError(f"{path} was cut short, or its beginning is damaged: it has {size} of {expected} bytes.")


def _damaged(path: Path, why: str) -> ModelFileError:
    return ModelFileError(f"{path} is damaged or was changed after it was saved: {why}.")

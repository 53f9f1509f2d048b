r"""Container of a model file: named arrays and a header in the safetensors format, with every byte checked.

A file contains the length of its head (8 bytes, little-endian), the head, and the bytes of the
arrays one after the other. The head is JSON with the dtype, shape and position of each array, and
before them the metadata

.. code-block:: text

    {"__metadata__":{"format":"dyadlearn","version":"11","checksum":"<SHA-256>","header":"<JSON in a
    string>"}, …}

in this order and without spaces, so that a file is recognised by its first bytes. The checksum is
that of the whole file with zeros in place of the checksum. Any reader of safetensors can open the
arrays. Files are read and written in one pass and without a second copy of the arrays, so that the
checked bytes are those that are used. Arrays that fit into fewer bytes exactly are stored so
(`dyadlearn.store.compact`).

The values of a model are written as plain JSON and arrays, without executable content.

``null``, booleans, whole and finite numbers, text, lists and dicts with text keys are written as such. Any other value
is an object with a single key: ``"$"`` and the name of a codec or of a class with a state
(`dyadlearn._state`). Arrays are named by their paths, such as ``side.spectrum.vectors``. A second
occurrence of a value is ``{"$again": path}``. Frames are written and loaded as `Table`.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from dyadlearn._array import is_foreign, is_sparse, to_numpy
from dyadlearn._files.atomic import replacing
from dyadlearn._files.packed import check_file, compressed_matrix
from dyadlearn._memory import check_memory
from dyadlearn._state import Stored, StoredEstimator, name_in_file, stored_class
from dyadlearn._tables import Table, library_of, read_table
from dyadlearn.exceptions import ModelFileError
from dyadlearn.store.compact import compact, expanded

#: Version of the format that is written.
VERSION = 11
#: Oldest version that is read. ``tests/store/data`` holds a file of each version from here on.
OLDEST = 10

_START = b'{"__metadata__":{"format":"dyadlearn","version":"'
_HEAD = re.compile(re.escape(_START) + rb'(\d{1,9})"(?:,"checksum":"([0-9a-f]{64})","header":")?')
_NO_CHECKSUM = "0" * 64
# Readers of safetensors refuse a longer head.
_LONGEST_HEAD = 100_000_000

# Shapes and types of arrays by name.
Layouts = dict[str, tuple[tuple[int, ...], np.dtype[Any]]]
# Names of types in safetensors: F64, I8, BOOL and so on.
_SIZES = {"f": (2, 4, 8), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8)}
_DTYPES = {"BOOL": "|b1"}
for _kind, _sizes in _SIZES.items():
    for _size in _sizes:
        _DTYPES[f"{_kind.upper()}{8 * _size}"] = f"<{_kind}{_size}"
_NAMES = {np.dtype(code): name for name, code in _DTYPES.items()}


def write_container(
    path: Path,
    header: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
    *,
    over: str | None = None,
) -> None:
    """Write a model file atomically.

    Parameters
    ----------
    path : Path
    header : mapping
        Values that JSON can hold.
    arrays : mapping of str to array
        Arrays of any shape: floats, whole numbers or booleans.
    over : str or None
        Checksum of the only file that may be replaced; None replaces any file.
    """
    # Arrays with the largest items come first, so that all are aligned.
    ordered = sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize)
    places = {}
    end = 0
    for name, array in ordered:
        start = end
        end = end + array.nbytes
        kind = _NAMES[array.dtype.newbyteorder("<")]
        places[name] = {"dtype": kind, "shape": list(array.shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), allow_nan=False)
    metadata = {
        "format": "dyadlearn",
        "version": str(VERSION),
        "checksum": _NO_CHECKSUM,
        "header": text,
    }
    head = json.dumps({"__metadata__": metadata, **places}, separators=(",", ":")).encode("ascii")
    head += b" " * (-len(head) % 8)
    if len(head) > _LONGEST_HEAD:
        raise ModelFileError(
            f"The ids and parameters of this model take {len(head):,} bytes, but at most "
            f"{_LONGEST_HEAD:,} can be stored: use shorter ids."
        )
    digest = hashlib.sha256()
    unchanged = None if over is None else lambda: read_checksum(path) == over
    with replacing(path, unchanged) as file:
        first = memoryview(len(head).to_bytes(8, "little") + head)
        for content in chain([first], (_bytes(array) for _, array in ordered)):
            digest.update(content)
            file.write(content)
        file.seek(8 + head.index(_NO_CHECKSUM.encode()))
        file.write(digest.hexdigest().encode())


def _bytes(array: np.ndarray) -> memoryview:
    """Return the bytes of an array in the order of the file, without a copy if possible."""
    contiguous = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return contiguous.reshape(-1).view(np.uint8).data


def read_checksum(path: Path) -> str | None:
    """Return the checksum in the head of a model file; None if there is no file or no checksum."""
    try:
        check_file(path, ModelFileError)
        with open(path, "rb") as file:
            start = file.read(8 + len(_START) + 200)
    except FileNotFoundError:
        return None
    head = _HEAD.match(start[8:])
    if head is None or head[2] is None:
        return None
    return head[2].decode()


def read_container(path: Path) -> tuple[Any, dict[str, np.ndarray]]:
    """Return the header and the arrays of a file after checking every byte.

    Parameters
    ----------
    path : Path

    Returns
    -------
    header : JSON value
    arrays : mapping of str to array
        Contiguous arrays in C order.

    Raises
    ------
    ModelFileError
        If the file is empty, no model file, of another format, truncated or changed.
    NotEnoughMemoryError
        If the file is larger than the free memory.
    """
    size = check_file(path, ModelFileError)
    with open(path, "rb") as file:
        head, span, header, layouts = _read_tables(file, size, path)
        # A sparse file may be larger than the disk.
        remedy = "free some, or load it on a larger machine"
        check_memory(1.5 * size, np.empty(0), f"Loading {path}", remedy)
        arrays = {name: np.empty(shape, dtype) for name, (shape, dtype) in layouts.items()}
        digest = hashlib.sha256(len(head).to_bytes(8, "little"))
        digest.update(head[: span[0]] + _NO_CHECKSUM.encode() + head[span[1] :])
        for array in arrays.values():
            content = _bytes(array)
            if file.readinto(content) != array.nbytes:
                raise _cut_short(path, file.tell(), size)
            digest.update(content)
        if digest.hexdigest().encode() != head[slice(*span)]:
            raise _damaged(path, "its checksum does not match")
    return header, arrays


def _read_tables(
    file: BinaryIO, size: int, path: Path
) -> tuple[bytes, tuple[int, int], Any, Layouts]:
    """Return the head, the position of its checksum, the header, and the shapes and dtypes of the arrays in order."""
    head = _read_head(file, size, path)
    start = _HEAD.match(head)
    _check_version(int(start[1]) if start else 0, path)
    if start is None or start[2] is None:
        raise _damaged(path, "its head does not begin like that of a model file")
    try:
        tables = json.loads(head)
        header = json.loads(tables.pop("__metadata__")["header"])
        layouts = _layouts(tables)
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise _damaged(path, "its head cannot be read") from error
    expected = 8 + len(head)
    longest = 0
    for shape, dtype in layouts.values():
        expected += math.prod(shape) * dtype.itemsize
        # With an axis of length 0, other axes could have any length without bytes in the file.
        without_zeros = math.prod(max(axis, 1) for axis in shape) * dtype.itemsize
        longest = max(longest, without_zeros)
    if size < expected:
        raise _cut_short(path, size, expected)
    if size > expected or longest > size:
        raise _damaged(path, "its arrays and its size do not fit together")
    return head, start.span(2), header, layouts


def _check_version(version: int, path: Path) -> None:
    """Raise if a file is in a format that this version does not read; 0 if it names none."""
    if version > VERSION:
        raise ModelFileError(
            f"{path} is in format {version} of a newer dyadlearn, and this one reads formats up to "
            f"{VERSION}: upgrade dyadlearn."
        )
    if 0 < version < OLDEST:
        raise ModelFileError(
            f"{path} is in format {version} of an older dyadlearn, and this one reads formats from "
            f"{OLDEST} on: fit the model again."
        )


def _read_head(file: BinaryIO, size: int, path: Path) -> bytes:
    """Return the head of a file; raise if it is not a model file."""
    first = file.read(8 + len(_START))
    if not size:
        raise ModelFileError(f"{path} is empty: no model was saved in it.")
    # A file that is truncated within these words counts as a model file.
    if len(first) <= 8 or not _START.startswith(first[8:]):
        raise ModelFileError(f"{path} is not a model file of dyadlearn.")
    length = int.from_bytes(first[:8], "little")
    if 8 + length > size:
        raise _cut_short(path, size, 8 + length)
    if length > _LONGEST_HEAD:
        raise _damaged(path, "its head is longer than that of any model")
    file.seek(8)
    return file.read(length)


def _layouts(tables: Mapping[str, Any]) -> Layouts:
    """Return the shapes and dtypes of the arrays in order; raise ValueError if they are not contiguous."""
    layouts = {}
    end = 0
    for name, table in sorted(tables.items(), key=lambda item: item[1]["data_offsets"]):
        shape = tuple(table["shape"])
        dtype = np.dtype(_DTYPES[table["dtype"]])
        if len(shape) > 8:
            raise ValueError("not a shape")
        for length in shape:
            if type(length) is not int or not 0 <= length < 2**48:
                raise ValueError("not a shape")
        start = end
        end = end + math.prod(shape) * dtype.itemsize
        if table["data_offsets"] != [start, end]:
            raise ValueError("a hole, an overlap or another size")
        layouts[name] = (shape, dtype)
    return layouts


def _cut_short(path: Path, size: int, expected: int) -> ModelFileError:
    """Return the error for a file with too few bytes."""
    return ModelFileError(
        f"{path} was cut short, or its beginning is damaged: it has {size} of {expected} bytes."
    )


def _damaged(path: Path, why: str) -> ModelFileError:
    """Return the error for a file that is not as it was saved."""
    return ModelFileError(f"{path} is damaged or was changed after it was saved: {why}.")


_PLAIN = {type(None), bool, int, str}

#: Remedies for values that cannot be stored, by the name of a part of a model or of a parameter
#: without ``task_``.
_REMEDIES = {
    "kernel": 'use a kernel by its name, such as "rbf", or "precomputed"',
    "filter": "use one of dyadlearn.filters",
    "feature_map": "use Landmarks or an array, or transform the features before the model gets "
    "them",
    "instances": "use an array, a sparse matrix, or a frame that holds numbers",
    "tasks": "use an array, a sparse matrix, or a frame that holds numbers",
    "scoring": 'use a metric by its name, such as "roc_auc"',
    "random_state": "use a whole number",
    "cv": "use a number of folds, or SettingKFold",
}


class Writer:
    """Writes values as JSON, and collects their arrays in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        # The values are kept, so that none is freed and its id reused.
        self._seen: dict[int, tuple[str, Any]] = {}

    def write(self, value: Any, path: str) -> Any:
        """Return a value as JSON; `path` is its location. Scalars of numpy become numbers and text of Python."""
        if isinstance(value, np.generic) and value.dtype.kind in "biufU":
            value = value.item()
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            if math.isfinite(value):
                return value
            return {"$float": str(value)}
        if kind is list:
            return self.items(value, path)
        if kind is dict and all(type(name) is str and not name.startswith("$") for name in value):
            return self.fields(value, path)
        if id(value) in self._seen:
            return {"$again": self._seen[id(value)][0]}
        tag = _tag_of(value)
        if tag is None:
            raise _refusal(value, path)
        if tag not in _REPEATED:
            self._seen[id(value)] = (path, value)
        if tag in _CODECS:
            write, _ = _CODECS[tag]
            return {f"${tag}": write(self, value, path)}
        if isinstance(value, Stored | StoredEstimator):
            state = value.state()
        else:
            state = _frame(value, path).state()
        return {f"${tag}": self.fields(state, path)}

    def items(self, values: Iterable[Any], path: str) -> list[Any]:
        """Return a sequence as a list of JSON."""
        values = list(values)
        if set(map(type, values)) <= _PLAIN:  # a fast path for ids, which may be millions
            return values
        return [self.write(value, _joined(path, position)) for position, value in enumerate(values)]

    def fields(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return named values as a JSON object."""
        return {name: self.write(value, _joined(path, name)) for name, value in values.items()}


class Reader:
    """Reads values from JSON and arrays.

    Parameters
    ----------
    arrays : mapping of str to array
    copies : bool, default=True
        Whether arrays that were in Fortran order in memory are copied to Fortran order.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, copies: bool = True) -> None:
        self.arrays = arrays
        self.copies = copies
        self._seen: dict[str, Any] = {}

    def read(self, plain: Any, path: str) -> Any:
        """Return the value of a JSON entry; `path` is its location."""
        if type(plain) is list:
            return self.items(plain, path)
        if type(plain) is not dict:
            return plain
        tag = next(iter(plain), "")
        if not tag.startswith("$"):
            return self.fields(plain, path)
        if len(plain) > 1:
            raise ModelFileError(f"its header has something beside {tag} at {path}")
        if tag == "$again":
            return self._seen[plain[tag]]
        name = tag[1:]
        cls = stored_class(name)
        if name in _CODECS:
            _, read = _CODECS[name]
            value = read(self, plain[tag], path)
        elif cls is not None:
            value = cls.from_state(self.fields(plain[tag], path), path)
        else:
            raise ModelFileError(f"its header has the unknown {tag} at {path}")
        if name not in _REPEATED:
            self._seen[path] = value
        return value

    def items(self, plain: list[Any], path: str) -> list[Any]:
        """Return the values of a list."""
        if set(map(type, plain)) <= _PLAIN | {float}:
            return plain
        return [self.read(value, _joined(path, position)) for position, value in enumerate(plain)]

    def fields(self, plain: dict[str, Any], path: str) -> dict[str, Any]:
        """Return the named values of an object."""
        return {name: self.read(value, _joined(path, name)) for name, value in plain.items()}


def _joined(path: str, name: str | int) -> str:
    """Return the path of a part, which is unique."""
    name = str(name).replace("~", "~0").replace(".", "~1")
    return f"{path}.{name}" if path else name


def _refusal(value: Any, path: str) -> ModelFileError:
    """Return the error for a value that cannot be stored, with a remedy if one is known."""
    parts = path.removeprefix("parameters.").split(".")
    known = [part for part in parts if part.removeprefix("task_") in _REMEDIES]
    name = known[-1] if known else parts[-1]
    remedy = _REMEDIES.get(name.removeprefix("task_"), "")
    if isinstance(value, np.ndarray):
        what = f"an array of {value.dtype}"
    elif callable(value) and hasattr(value, "__name__"):
        what = f"a Python function ({value.__name__})"
    else:
        text = repr(value)
        if len(text) >= 60:
            text = f"{text[:57]}…"
        what = f"of type {type(value).__name__} ({text})"
    message = f"{name} is {what}, which a model file cannot hold"
    if remedy:
        message += f": {remedy}"
    return ModelFileError(f"{message}.")


def _tag_of(value: Any) -> str | None:
    """Return the name of the codec or class of a value in a file; None if it cannot be stored."""
    if isinstance(value, Stored | StoredEstimator):
        return name_in_file(value)
    if isinstance(value, type | np.generic):  # the class of a number looks like an array
        return None
    if is_sparse(value):
        return "sparse"
    if isinstance(value, np.ndarray) and value.dtype == object:
        return "objects"
    if isinstance(value, np.ndarray) or is_foreign(value):
        return "array"
    if library_of(value) is not None:
        return "Table"
    return "tuple" if type(value) is tuple else None


def _frame(frame: Any, path: str) -> Table:
    """Return a frame of numbers as a `Table` of an array."""
    table = read_table(frame, path)
    values = np.asarray(table.values)
    if table.kind is None or values.ndim != 2 or values.dtype.kind not in "biuf":
        raise _refusal(frame, path)
    return Table(values, table.row_ids, table.column_ids, table.kind)


def _write_array(writer: Writer, value: Any, path: str) -> str | dict[str, Any]:
    """Add an array to those of the file, and return its memory layout, "C" or "F", and how it was compacted."""
    array = to_numpy(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise _refusal(array, path)
    writer.arrays[path], how = compact(array)
    # The memory layout is stored, because it determines the rounding of sums.
    steps = [abs(step) for step in array.strides]
    layout = "C"
    if array.ndim == 2 and not array.flags.c_contiguous and steps[0] < steps[1]:
        layout = "F"
    return {"layout": layout, **how} if how else layout


def _read_array(reader: Reader, plain: Any, path: str) -> np.ndarray:
    """Return an array of the file in its memory layout."""
    how = dict(plain) if isinstance(plain, dict) else {}
    layout = how.pop("layout", None) if how else plain
    if layout not in ("C", "F"):
        raise ModelFileError(f"its array {path} has the unknown layout {layout!r}")
    array = reader.arrays[path]
    if how:
        array = expanded(array, how)
    if layout == "F" and reader.copies:
        array = np.asfortranarray(array)
    return array


def _write_objects(writer: Writer, array: np.ndarray, path: str) -> list[str]:
    """Return the names of features, which scikit-learn stores in an array of objects."""
    if array.ndim != 1 or not all(type(name) is str for name in array):
        raise _refusal(array, path)
    return list(array)


_SPARSE = {
    cls.__name__: cls
    for cls in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix)
}


def _write_sparse(writer: Writer, matrix: Any, path: str) -> dict[str, Any]:
    """Return the class, the shape and the arrays of a sparse matrix."""
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
    kind = type(matrix).__name__
    if kind not in _SPARSE:
        raise _refusal(matrix, path)
    parts = {
        "class": kind,
        "shape": list(matrix.shape),
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
    }
    return writer.fields(parts, path)


def _read_sparse(reader: Reader, plain: Any, path: str) -> Any:
    """Return a sparse matrix after checking its indices."""
    parts = reader.fields(plain, path)
    return compressed_matrix(_SPARSE[parts["class"]], parts, tuple(parts["shape"]))


#: How kinds of values are written and read: ``write(writer, value, path)`` returns JSON, and
#: ``read(reader, plain, path)`` the value.
_CODECS: dict[str, tuple[Any, Any]] = {
    "array": (_write_array, _read_array),
    "objects": (_write_objects, lambda reader, plain, path: np.array(plain, dtype=object)),
    "sparse": (_write_sparse, _read_sparse),
    "tuple": (Writer.items, lambda reader, plain, path: tuple(reader.items(plain, path))),
    "float": (None, lambda reader, plain, path: float(plain)),
}
#: Kinds of values that are written again if they occur a second time, instead of a reference to the
#: first.
_REPEATED = {"objects", "tuple", "float"}

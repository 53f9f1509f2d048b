"""Values as plain JSON and arrays: everything a model is made of, and nothing that could be executed.

``null``, truth values, whole and finite numbers, text, lists and dicts with text keys stand for themselves. Anything
else is an object with a single key, ``"$"`` and the name of a codec or of a class with a state (`dyadlearn._state`). An
array is found under the path that leads to it, such as ``side.spectrum.vectors``; what occurs a second time is written
as ``{"$again": path}``. Frames are written as `Table`, and come back as such.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import is_foreign, is_sparse, to_numpy
from dyadlearn._files.packed import check_places
from dyadlearn._state import Stored, stored_class
from dyadlearn._tables import Table, library_of, read_table
from dyadlearn.exceptions import ModelFileError

__all__ = ["Reader", "Writer"]

_PLAIN = {type(None), bool, int, str}

_KERNEL = 'use a kernel by its name, such as "rbf", or "precomputed"'
_FILTER = "use one of dyadlearn.filters"
_MAP = "use Landmarks or an array, or transform the features before the model gets them"
_TABLE = "use an array, a sparse matrix, or a frame that holds numbers"
#: How to correct what cannot be stored, by the name of a parameter or of a part of a model.
_REMEDIES = {
    **dict.fromkeys(("kernel", "task_kernel"), _KERNEL),
    **dict.fromkeys(("filter", "task_filter"), _FILTER),
    **dict.fromkeys(("feature_map", "task_feature_map"), _MAP),
    **dict.fromkeys(("instances", "tasks"), _TABLE),
    "scoring": 'use a metric by its name, such as "roc_auc"',
    "random_state": "use a whole number",
    "cv": "use a number of folds, or SettingKFold",
}


class Codec(NamedTuple):
    """How one kind of value is written and read.

    Attributes
    ----------
    write, read : callable
        ``write(writer, value, path)`` returns JSON, ``read(reader, plain, path)`` the value.
    shared : bool
        Whether a second occurrence of the same object is the same object again.
    """

    write: Callable[[Writer, Any, str], Any]
    read: Callable[[Reader, Any, str], Any]
    shared: bool = False


class Writer:
    """Writes values as JSON, and collects their arrays in `arrays`."""

    def __init__(self) -> None:
        self.arrays: dict[str, np.ndarray] = {}
        # With the values themselves, so that none is freed and its id given to another.
        self._seen: dict[int, tuple[str, Any]] = {}

    def write(self, value: Any, path: str) -> Any:
        """Return a value as JSON; `path` leads to it."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if kind is list:
            return self.items(value, path)
        if kind is dict and all(type(name) is str and not name.startswith("$") for name in value):
            return self.fields(value, path)
        if id(value) in self._seen:
            return {"$again": self._seen[id(value)][0]}
        tag = _tag_of(value)
        if tag is None:
            raise _refusal(value, path)
        codec = _CODECS.get(tag)
        if codec is None or codec.shared:
            self._seen[id(value)] = (path, value)
        if codec is not None:
            return {f"${tag}": codec.write(self, value, path)}
        state = value.state() if isinstance(value, Stored) else _frame(value, path).state()
        return {f"${tag}": self.fields(state, path)}

    def items(self, values: Iterable[Any], path: str) -> list[Any]:
        """Return a sequence as a list of JSON."""
        values = list(values)
        if set(map(type, values)) <= _PLAIN:  # as ids are, of which there may be millions
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
        Whether arrays that were stored column by column in memory are copied to be so again.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray], *, copies: bool = True) -> None:
        self.arrays, self.copies = arrays, copies
        self._seen: dict[str, Any] = {}

    def read(self, plain: Any, path: str) -> Any:
        """Return the value that JSON stands for; `path` leads to it."""
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
        codec, cls = _CODECS.get(tag[1:]), stored_class(tag[1:])
        value: Any
        if tag == "$frame":
            value = _read_frame(self.fields(plain[tag], path), path)
        elif codec is not None:
            value = codec.read(self, plain[tag], path)
        elif cls is not None:
            value = cls.from_state(self.fields(plain[tag], path), path)
        else:
            raise ModelFileError(f"its header has the unknown {tag} at {path}")
        if codec is None or codec.shared:
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
    """Return the path to a part; no two parts have the same."""
    name = str(name).replace("~", "~0").replace(".", "~1")
    return f"{path}.{name}" if path else name


def _refusal(value: Any, path: str) -> ModelFileError:
    """Return the error for a value that cannot be stored, with what to do about it where that is known."""
    parts = path.removeprefix("parameters.").split(".")
    known = next((part for part in reversed(parts) if part in _REMEDIES), None)
    remedy = _REMEDIES.get(known or "", "")
    if isinstance(value, np.ndarray):
        what = f"an array of {value.dtype}"
    elif callable(value) and hasattr(value, "__name__"):
        what = f"a Python function ({value.__name__})"
    else:
        text = repr(value)
        what = f"of type {type(value).__name__} ({text if len(text) < 60 else text[:57] + '…'})"
    return ModelFileError(f"{known or parts[-1]} is {what}, which a model file cannot hold{remedy and ': ' + remedy}.")


def _tag_of(value: Any) -> str | None:
    """Return the name of a value's codec or class in a file; None for what none can hold."""
    if isinstance(value, Stored):
        return value._file_name
    if isinstance(value, type):  # the class of a number looks like an array
        return None
    if isinstance(value, np.generic):
        return "numpy"
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


def _read_frame(found: Mapping[str, Any], path: str) -> Table:
    """Return the table of a frame as earlier versions wrote it."""
    state = {"values": found["values"], "row_ids": found["ids"], "column_ids": found["columns"], "kind": found["kind"]}
    return Table.from_state({**state, "is_vector": False}, path)


def _write_array(writer: Writer, value: Any, path: str) -> str:
    array = to_numpy(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise _refusal(array, path)
    writer.arrays[path] = array
    # Sums are rounded in an order that depends on how an array lies in memory: row by row, or column by column.
    steps = [abs(step) for step in array.strides]
    return "F" if array.ndim == 2 and not array.flags.c_contiguous and steps[0] < steps[1] else "C"


def _read_array(reader: Reader, layout: str, path: str) -> np.ndarray:
    if layout not in ("C", "F", "C2", "F2"):  # earlier versions wrote 2 for gaps between numbers
        raise ModelFileError(f"its array {path} has the unknown layout {layout!r}")
    array = reader.arrays[path]
    return np.asfortranarray(array) if layout[0] == "F" and reader.copies else array


def _write_objects(writer: Writer, array: np.ndarray, path: str) -> list[str]:
    """Return the names of features, which scikit-learn keeps in an array of objects."""
    if array.ndim != 1 or not all(type(name) is str for name in array):
        raise _refusal(array, path)
    return list(array)


_SPARSE = {cls.__name__: cls for cls in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix)}


def _write_sparse(writer: Writer, matrix: Any, path: str) -> dict[str, Any]:
    matrix = matrix if matrix.format in ("csr", "csc") else matrix.tocsr()
    if type(matrix).__name__ not in _SPARSE:
        raise _refusal(matrix, path)
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr")}
    return writer.fields({"class": type(matrix).__name__, "shape": list(matrix.shape), **parts}, path)


def _read_sparse(reader: Reader, plain: Any, path: str) -> Any:
    found = reader.fields(plain, path)
    kinds = {"data": "biuf", "indices": "i", "indptr": "i"}
    parts = tuple(found[name] for name in kinds)
    if any(found[name].ndim != 1 or found[name].dtype.kind not in kind for name, kind in kinds.items()):
        raise ModelFileError(f"its sparse matrix {path} is not one")
    matrix = _SPARSE[found["class"]](parts, shape=tuple(found["shape"]))
    # Compiled code follows the indices without looking.
    check_places(matrix)
    return matrix


# The dtypes of single numbers and texts.
_NUMPY = re.compile(r"[<>|=]?([biu][1248]|b1|f[248]|U\d{1,9})")


def _write_numpy(writer: Writer, value: np.generic, path: str) -> list[Any]:
    if not _NUMPY.fullmatch(value.dtype.str):
        raise _refusal(value, path)
    return [value.dtype.str, writer.write(value.item(), path)]


def _read_numpy(reader: Reader, plain: Any, path: str) -> Any:
    if not _NUMPY.fullmatch(plain[0]):
        raise ModelFileError(f"its header has a number of dtype {plain[0]!r} at {path}")
    return np.dtype(plain[0]).type(reader.read(plain[1], path))


_CODECS = {
    "array": Codec(_write_array, _read_array, shared=True),
    "objects": Codec(_write_objects, lambda reader, plain, path: np.array(plain, dtype=object)),
    "sparse": Codec(_write_sparse, _read_sparse, shared=True),
    "tuple": Codec(Writer.items, lambda reader, plain, path: tuple(reader.items(plain, path))),
    "float": Codec(lambda writer, value, path: str(value), lambda reader, plain, path: float(plain)),
    "numpy": Codec(_write_numpy, _read_numpy),
}

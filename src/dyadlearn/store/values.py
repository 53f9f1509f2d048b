"""Values as plain JSON and arrays: everything a model is made of, and nothing that could be executed.

``null``, truth values, whole and finite numbers, text, lists and dicts with text keys stand for themselves. Anything
else is an object with a single key, ``"$"`` and the name of a codec or of a class with a state (`dyadlearn._state`). An
array is found under the path that leads to it, such as ``side.spectrum.vectors``; what occurs a second time is written
as ``{"$again": path}``.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dyadlearn._array import is_foreign, is_sparse, to_numpy
from dyadlearn._files.packed import check_places
from dyadlearn._state import Stored, stored_class
from dyadlearn._tables import read_table, write_table
from dyadlearn.exceptions import ModelFileError

__all__ = ["Reader", "Writer"]

#: Libraries whose frames come back as what they were.
_FRAMES = ("pandas", "polars")

_PLAIN = {type(None), bool, int, str}

_KERNEL = 'use a kernel by its name, such as "rbf", or "precomputed"'
_FILTER = "use one of dyadlearn.filters"
_MAP = "use Landmarks or CanonicalProjection, or transform the features before the model gets them"
_IDS = "use text, numbers, dates or tuples of them"
_TABLE = "use an array, a sparse matrix, or a frame of pandas or polars that holds numbers"
#: How to mend what cannot be stored, by the name of a parameter or of a part of a model.
_REMEDIES = {
    **dict.fromkeys(("kernel", "task_kernel"), _KERNEL),
    **dict.fromkeys(("filter", "task_filter"), _FILTER),
    **dict.fromkeys(("feature_map", "task_feature_map"), _MAP),
    **dict.fromkeys(("ids", "labels", "instance_ids_", "task_ids_"), _IDS),
    **dict.fromkeys(("instances", "tasks"), _TABLE),
    "scoring": 'use a metric by its name, such as "roc_auc"',
    "random_state": "use a whole number",
    "cv": "use a number of folds, or SettingKFold",
}


class Codec(NamedTuple):
    """How one kind of value is taken apart and put together again.

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
    """Takes values apart, and gathers their arrays in `arrays`."""

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
        if kind is dict:
            return self._dict(value, path)
        if id(value) in self._seen:
            return {"$again": self._seen[id(value)][0]}
        tag = _tag_of(value)
        if tag is None:
            raise _refusal(value, path)
        codec = _CODECS.get(tag)
        if codec is None or codec.shared:
            self._seen[id(value)] = (path, value)
        return {f"${tag}": self.fields(value.state(), path) if codec is None else codec.write(self, value, path)}

    def items(self, values: Iterable[Any], path: str) -> list[Any]:
        """Return a sequence as a list of JSON."""
        values = list(values)
        if set(map(type, values)) <= _PLAIN:  # as ids are, of which there may be millions
            return values
        return [self.write(value, _joined(path, position)) for position, value in enumerate(values)]

    def fields(self, values: Mapping[str, Any], path: str) -> dict[str, Any]:
        """Return named values as a JSON object."""
        return {name: self.write(value, _joined(path, name)) for name, value in values.items()}

    def _dict(self, values: dict[Any, Any], path: str) -> Any:
        if all(type(name) is str and not name.startswith("$") for name in values):
            return self.fields(values, path)
        return {"$dict": self.items([list(item) for item in values.items()], path)}


class Reader:
    """Puts values together again out of JSON and arrays.

    Parameters
    ----------
    arrays : mapping of str to array
    copies : bool, default=True
        Whether arrays that lay otherwise in memory, such as column by column, are copied to lie so again.
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
        if codec is not None:
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
    subject = "An id" if remedy == _IDS else known or parts[-1]
    return ModelFileError(f"{subject} is {what}, which a model file cannot hold{remedy and ': ' + remedy}.")


def _tag_of(value: Any) -> str | None:
    """Return what a value is called in a file; None for what none can hold."""
    if isinstance(value, Stored):
        return value._file_name
    if isinstance(value, type):  # the class of a number looks like an array
        return None
    if isinstance(value, np.generic):
        return "numpy"
    if is_sparse(value):
        return "sparse"
    if isinstance(value, np.ndarray) or is_foreign(value):
        is_objects = isinstance(value, np.ndarray) and value.dtype.kind == "O" and value.ndim == 1
        return "objects" if is_objects else "array"
    if type(value).__module__.partition(".")[0] in _FRAMES:
        return "timestamp" if isinstance(value, datetime.datetime) else "frame"
    names = {tuple: "tuple", bytes: "bytes", datetime.date: "date", datetime.datetime: "datetime"}
    return names.get(type(value))


# Arrays ------------------------------------------------------------------------------------------


def _write_array(writer: Writer, value: Any, path: str) -> str:
    array = to_numpy(value)
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise _refusal(array, path)
    writer.arrays[path] = array
    return _layout(array)


_LAYOUTS = ("F", "C2", "F2")


def _read_array(reader: Reader, layout: str, path: str) -> np.ndarray:
    array = reader.arrays[path]
    if layout == "C" or (layout in _LAYOUTS and not reader.copies):
        return array
    across = array.T if layout[0] == "F" else array
    if layout in _LAYOUTS[1:]:
        wide = np.empty((*across.shape[:-1], 2 * across.shape[-1]), array.dtype)
        copy = wide[..., ::2]
        copy[...] = across
    elif layout == "F":
        copy = across.copy()
    else:
        raise ModelFileError(f"its array {path} has the unknown layout {layout!r}")
    return copy.T if layout[0] == "F" else copy


def _layout(array: np.ndarray) -> str:
    """Return how an array lies in memory: row by row (C), column by column (F), or with gaps between numbers (C2, F2).

    Sums are rounded in an order that depends on it.
    """
    if array.flags.c_contiguous or array.ndim not in (1, 2):
        return "C"
    steps = [abs(step) for step in array.strides]
    order = "F" if steps[0] < steps[-1] else "C"
    return order if min(steps) == array.itemsize else f"{order}2"


def _read_objects(reader: Reader, plain: Any, path: str) -> np.ndarray:
    items = reader.items(plain, path)
    array = np.empty(len(items), dtype=object)
    array[:] = items
    return array


_SPARSE = {cls.__name__: cls for cls in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix)}


def _write_sparse(writer: Writer, matrix: Any, path: str) -> dict[str, Any]:
    if matrix.format not in ("csr", "csc"):
        matrix = matrix.tocsr()
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


def _write_frame(writer: Writer, frame: Any, path: str) -> dict[str, Any]:
    table = read_table(frame, path)
    values = None if table.kind not in _FRAMES else np.asarray(table.values)
    if values is None or values.ndim != 2 or values.dtype.kind not in "biuf":
        raise _refusal(frame, path)
    return writer.fields(
        {"kind": table.kind, "ids": table.row_ids, "columns": table.column_ids, "values": values}, path
    )


def _read_frame(reader: Reader, plain: Any, path: str) -> Any:
    found = reader.fields(plain, path)
    values, ids, columns = found["values"], found["ids"], found["columns"]
    if found["kind"] not in _FRAMES or values.ndim != 2:
        raise ModelFileError(f"its table {path} is not one")
    if find_spec(found["kind"]) is None:
        raise ModelFileError(f"its table {path} is a frame of {found['kind']}, which is not installed: install it")
    return write_table(values, ids, columns, found["kind"])


# Scalars -----------------------------------------------------------------------------------------

# The dtypes of single numbers, texts and times.
_NUMPY = re.compile(r"[<>|=]?([biu][1248]|b1|f[248]|U\d{1,9}|M8(\[\w{1,9}\])?)")


def _write_numpy(writer: Writer, value: np.generic, path: str) -> list[Any]:
    if value.dtype.kind == "M":
        return [value.dtype.str, int(value.astype(np.int64))]
    if value.dtype.kind not in "biufU" or (value.dtype.itemsize > 8 and value.dtype.kind != "U"):
        raise _refusal(value, path)
    # numpy's own way to a text of Python drops NUL characters at its end.
    plain = "".join(value) if isinstance(value, np.str_) else value.item()
    return [value.dtype.str, writer.write(plain, path)]


def _read_numpy(reader: Reader, plain: Any, path: str) -> Any:
    if not _NUMPY.fullmatch(plain[0]):
        raise ModelFileError(f"its header has a number of dtype {plain[0]!r} at {path}")
    dtype, value = np.dtype(plain[0]), reader.read(plain[1], path)
    return np.int64(value).view(dtype) if dtype.kind == "M" else dtype.type(value)


def _write_timestamp(writer: Writer, value: Any, path: str) -> list[Any]:
    zone = None if value.tz is None else str(value.tz)
    try:
        plain = [value.tz_localize(None).isoformat(), value.unit, zone]
        same = _timestamp(*plain)
    except (AttributeError, TypeError, ValueError):  # no time at all, or no single one
        raise _refusal(value, path) from None
    if same != value or str(same.tz) != str(value.tz):
        raise _refusal(value, path)
    return plain


def _timestamp(text: str, unit: str, zone: str | None) -> Any:
    if find_spec("pandas") is None:
        raise ModelFileError("its ids are timestamps of pandas, which is not installed: install it")
    import pandas as pd

    if zone is not None and zone.startswith("dateutil"):  # that would name a file to read
        raise ModelFileError(f"its ids are timestamps of the unknown time zone {zone!r}")
    # What becomes of an hour that a change of clocks repeats or skips depends on the library of time zones.
    found = pd.Timestamp(text).as_unit(unit).tz_localize(zone, ambiguous="NaT", nonexistent="NaT")
    if found is pd.NaT:
        raise ModelFileError(f"its ids have a time {text!r} that is no single time in {zone}")
    return found


def _write_datetime(writer: Writer, value: datetime.datetime, path: str) -> list[Any]:
    if value.tzinfo is not None and type(value.tzinfo) is not datetime.timezone:
        raise _refusal(value, path)
    return [value.isoformat(), value.fold]


def _itself(writer: Writer | Reader, value: Any, path: str) -> Any:
    return value


_CODECS = {
    "array": Codec(_write_array, _read_array, shared=True),
    "objects": Codec(lambda writer, array, path: writer.items(array.tolist(), path), _read_objects, shared=True),
    "sparse": Codec(_write_sparse, _read_sparse, shared=True),
    "frame": Codec(_write_frame, _read_frame, shared=True),
    "tuple": Codec(Writer.items, lambda reader, plain, path: tuple(reader.items(plain, path))),
    "dict": Codec(_itself, lambda reader, plain, path: dict(reader.items(plain, path))),
    "float": Codec(_itself, lambda reader, plain, path: float(plain)),
    "numpy": Codec(_write_numpy, _read_numpy),
    "bytes": Codec(lambda writer, value, path: value.hex(), lambda reader, plain, path: bytes.fromhex(plain)),
    "date": Codec(
        lambda writer, value, path: value.isoformat(),
        lambda reader, plain, path: datetime.date.fromisoformat(plain),
    ),
    "datetime": Codec(
        _write_datetime,
        lambda reader, plain, path: datetime.datetime.fromisoformat(plain[0]).replace(fold=plain[1]),
    ),
    "timestamp": Codec(_write_timestamp, lambda reader, plain, path: _timestamp(*plain)),
}

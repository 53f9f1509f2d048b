"""Arrays in fewer bytes, from which the same arrays come back bit for bit.

Three forms are tried: numbers in a smaller type that holds all of them exactly, zeros and ones in
single bits, and one triangle of a symmetric matrix. An array is stored as it is if none of them is
smaller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dyadlearn._memory import check_memory
from dyadlearn.exceptions import ModelFileError

# Smaller arrays are stored as they are, in bytes.
_SMALL = 4096
# Number of elements that are tried before the whole array.
_TRIED = 1000
# Types of arrays that are stored in fewer bytes, by their names in a file, with the smaller types.
_FLOATS = ("u1", "i1", "u2", "i2", "f4")
_NARROWER = {
    "f8": _FLOATS,
    "f4": ("u1", "i1", "u2", "i2"),
    "i8": ("u1", "i1", "u2", "i2", "u4", "i4"),
    "i4": ("u1", "i1", "u2", "i2"),
}


def compact(array: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """Return an array in fewer bytes, and how it was made; an empty dict if it is the array itself.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.store.compact import compact, expanded
    >>> kernel = np.eye(100)
    >>> small, how = compact(kernel)
    >>> kernel.nbytes, small.nbytes, how
    (80000, 632, {'dtype': 'f8', 'triangle': 100, 'bits': 5050})
    >>> np.array_equal(expanded(small, how), kernel)
    True
    """
    name = array.dtype.newbyteorder("=").str[1:]
    if array.nbytes < _SMALL or name not in _NARROWER:
        return array, {}
    how: dict[str, Any] = {"dtype": name}
    values = array
    if _is_symmetric(array):
        how["triangle"] = len(array)
        values = np.concatenate([row[place:] for place, row in enumerate(array)])
    narrow = _narrowed(values, _NARROWER[name])
    if narrow is not None:
        values = narrow
    if values.dtype == np.uint8 and int(values.max()) <= 1:
        how["bits"] = list(values.shape) if values.ndim > 1 else values.size
        values = np.packbits(values, axis=None)
    return (array, {}) if values is array else (values, how)


def expanded(array: np.ndarray, how: Mapping[str, Any]) -> np.ndarray:
    """Return the array that `compact` made smaller; raise if the description does not fit to the array."""
    unknown = how.keys() - {"dtype", "triangle", "bits"}
    if unknown or how.get("dtype") not in _NARROWER:
        raise ModelFileError("an array is compacted in an unknown way")
    dtype = np.dtype(how["dtype"])
    values = array
    if "bits" in how:
        values = _of_bits(array, how["bits"])
    n = how.get("triangle")
    numbers = math.prod(values.shape) if n is None else _size_of(n) ** 2
    check_memory(1.0 * numbers * dtype.itemsize, np.empty(0), "Loading an array")
    if n is None:
        return values.astype(dtype)
    if values.shape != (n * (n + 1) // 2,):
        raise ModelFileError("a triangle of a symmetric array has another length")
    whole = np.empty((n, n), dtype=dtype)
    start = 0
    for place in range(n):
        stop = start + n - place
        whole[place, place:] = values[start:stop]
        whole[place:, place] = values[start:stop]
        start = stop
    return whole


def _size_of(value: Any) -> int:
    """Return a length in a file, after checking it."""
    if type(value) is not int or not 0 <= value < 2**32:
        raise ModelFileError("an array is compacted in an unknown way")
    return value


def _of_bits(array: np.ndarray, shape: Any) -> np.ndarray:
    """Return zeros and ones (uint8) of a shape from single bits."""
    lengths = tuple(map(_size_of, shape if isinstance(shape, list) else [shape]))
    size = math.prod(lengths)
    if array.dtype != np.uint8 or array.shape != (-(-size // 8),):
        raise ModelFileError("the bits of an array have another length")
    check_memory(1.0 * size, np.empty(0), "Loading an array")
    return np.unpackbits(array, count=size).reshape(lengths)


def _narrowed(values: np.ndarray, names: tuple[str, ...]) -> np.ndarray | None:
    """Return values in the first type that holds all of them exactly; None if there is none."""
    few = values.reshape(-1)[:: max(1, values.size // _TRIED)]
    for name in names:
        if _as_exactly(few, name) is None:
            continue
        narrow = _as_exactly(values, name)
        if narrow is not None:
            return narrow
    return None


def _as_exactly(values: np.ndarray, name: str) -> np.ndarray | None:
    """Return values in another type; None if they would not come back bit for bit."""
    with np.errstate(all="ignore"):
        narrow = values.astype(name)
        back = narrow.astype(values.dtype)
    return narrow if _are_same_bits(values, back) else None


def _are_same_bits(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two arrays of one type have the same bits, so that -0 is not 0."""
    bits = np.dtype(f"u{first.dtype.itemsize}")
    return np.array_equal(first.view(bits), second.view(bits))


def _is_symmetric(array: np.ndarray) -> bool:
    """Return whether a matrix has the same bits as its transpose."""
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        return False
    if not np.array_equal(array[0], array[:, 0]):  # a quick look; NaN is never equal
        return False
    return _are_same_bits(array, array.T)

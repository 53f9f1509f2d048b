"""Checks of user input; each error is one sentence that names the argument and its size or value."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from dyadlearn._array import Array, detached, is_foreign, is_sparse, library, namespace, refuse_mask
from dyadlearn._messages import Message
from dyadlearn.exceptions import RenamedWarning

#: Default regularisations, as multiples of the scale of a kernel: 10⁻⁷ … 10⁶, the grid of the
#: paper.
DEFAULT_ALPHAS: tuple[float, ...] = tuple(10.0**power for power in range(-7, 7))

#: Types that numbers are checked and computed in.
FLOATS = [np.float64, np.float32]


# Files whose frames are between functions of the package: the dispatch of functions and of context
# managers.
_BETWEEN = (functools.__file__, contextlib.__file__)


def warn_renamed(old: str, new: str, removed: str = "0.4.0") -> None:
    """Warn that a stable name is deprecated.

    Parameters
    ----------
    old, new : str
        The name, and what to write instead.
    removed : str
        The release that removes the old name: the second minor release after the new one.
    """
    message = f"{old} is deprecated and will be removed in {removed}: use {new}."
    warnings.warn(message, RenamedWarning, stacklevel=caller_level())


@functools.cache
def keywords_of(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the defaults of the parameters of a function that are given by name only."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def caller_level() -> int:
    """Return the `stacklevel` of a warning that points to the first line outside of the package.

    It is for a warning by the function that calls this one.
    """
    package = os.path.dirname(__file__) + os.sep
    frame: Any = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith((package, *_BETWEEN)):
        frame = frame.f_back
        level += 1
    return level


def check_alpha(value: Any, name: str) -> float:
    """Return a regularisation parameter as a float; raise if it is negative or not a number."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(Message.about(name, f"must be a number of at least 0, found {value!r}."))
    number = float(value)
    if not (number >= 0 and math.isfinite(number)):
        raise ValueError(
            Message.about(name, f"must be a finite number of at least 0, found {number}.")
        )
    if 0 < number < sys.float_info.min:
        raise ValueError(
            Message.about(
                name, f"is too small to be computed with: use 0 or at least 1e-300, found {number}."
            )
        )
    return number


def check_alphas(values: Any, name: str) -> list[float]:
    """Return regularisations to try as a list of floats: any iterable, one number, or None for `DEFAULT_ALPHAS`."""
    if values is None:
        values = DEFAULT_ALPHAS
    elif getattr(values, "ndim", None) == 0:
        values = [values.item()]
    elif isinstance(values, Real):
        values = [values]
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(
            Message.about(name, f"must be a number or a sequence of numbers, found {values!r}.")
        )
    alphas = [check_alpha(value, name) for value in values]
    if not alphas:
        raise ValueError(Message.about(name, "is empty: give at least one value."))
    return alphas


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return `value` if it is one of `choices`."""
    if value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(Message.about(name, f"must be one of {listed}, found {value!r}."))
    return str(value)


def check_whole(value: Any, name: str, least: int = 1, most: float = math.inf) -> int:
    """Return a whole number of at least `least` and at most `most`; raise ValueError for any other value."""
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral)
        or not least <= int(value) <= most
    ):
        bound = "" if most == math.inf else f" and at most {most}"
        raise ValueError(
            Message.about(
                name, f"must be a whole number of at least {least}{bound}, found {value!r}."
            )
        )
    return int(value)


def check_flag(value: Any, name: str) -> bool:
    """Return a bool; raise if the value is not True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(Message.about(name, f"must be True or False, found {value!r}."))
    return bool(value)


def check_share(value: Any, name: str) -> float:
    """Return a number between 0 and 1, both excluded."""
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < 1:
        raise ValueError(Message.about(name, f"must be a number between 0 and 1, found {value!r}."))
    return float(value)


def is_ready(values: Any) -> bool:
    """Return whether values are a matrix of floats of numpy, which scikit-learn would convert slowly to the same."""
    return type(values) is np.ndarray and values.ndim == 2 and values.dtype in FLOATS


def _is_clean(values: Any) -> bool:
    """Return whether values are ready, finite and not empty."""
    # Both the largest and the smallest entry are NaN if one entry is.
    return (
        is_ready(values)
        and values.size > 0
        and math.isfinite(values.max())
        and math.isfinite(values.min())
    )


def check_matrix(
    array: Any, name: str, *, accept_sparse: bool = False, allow_nan: bool = False
) -> Array:
    """Return a non-empty finite real matrix of floats, in the library it came in."""
    check_not_empty(array, name)
    if _is_clean(array):
        return array
    if not is_foreign(array):
        array = refuse_mask(array, name)
        with reading_numbers(array, name):
            return check_array(array, input_name=name, **_how(accept_sparse, allow_nan))
    xp = namespace(array)
    if array.ndim != 2:
        raise ValueError(f"{name} must be a matrix, found {array.ndim} dimension(s).")
    array = check_real(array, name)
    if not bool(xp.all(xp.isfinite(array) | (xp.isnan(array) & allow_nan))):
        raise ValueError(f"{name} contains NaN or infinity.")
    return array


def check_feature_names(expected: Sequence[Any], actual: Sequence[Any], owner: str) -> None:
    """Raise if feature names or their order differ from the training data, as scikit-learn does."""
    if list(expected) == list(actual):
        return
    remedy = "pass the features of the training data"
    if set(expected) == set(actual):
        remedy = "put the columns in the order of the training data"
    raise ValueError(
        f"The feature names of {owner} should match those that were passed during fit, in the same "
        f"order: expected "
        f"{list(expected)[:5]}, found {list(actual)[:5]}; {remedy}."
    )


def _check_n_features(owner: str, rows: Array, expected: int) -> None:
    """Raise if a matrix has not the number of features of the training data, as scikit-learn does."""
    count = rows.shape[1]
    if count == expected:
        return
    raise ValueError(
        Message.about(
            "X", f"has {count} features, but {owner} is expecting {expected} features as input."
        )
    )


@functools.cache
def _validated(owner: str) -> type[BaseEstimator]:
    """Return an estimator class that scikit-learn's checks take, with the name for their messages."""
    return type(owner, (BaseEstimator,), {})


def check_instances(
    table: Any,
    owner: str,
    *,
    is_kernel: bool,
    allow_nan: bool = False,
    n_features: int | None = None,
    feature_names: np.ndarray | None = None,
) -> tuple[Array, np.ndarray | None]:
    """Return the rows of a Table of instances, and their feature names; compare both with those of training.

    Parameters
    ----------
    table : Table
    owner : str
        Class of the model, for messages.
    is_kernel, allow_nan : bool
    n_features : int or None
        Number of training features; None in training.
    feature_names : array of str or None
        Names of the training features, all of them text.
    """
    names = table.column_ids
    is_frame = hasattr(table.values, "columns")
    is_new = n_features is not None
    if is_new and not (is_kernel or is_frame) and names is not None and feature_names is not None:
        check_feature_names(feature_names.tolist(), names.labels, "X")
        # scikit-learn would not find the names of a table that is not a frame, and say so.
        feature_names = None
    known: Any = _validated(owner)()
    if n_features is not None:
        known.n_features_in_ = n_features
    if feature_names is not None:
        known.feature_names_in_ = feature_names
    if is_foreign(table.values) or _is_clean(table.values):
        rows = check_matrix(table.values, "X", allow_nan=allow_nan)
        if n_features is not None:
            _check_n_features(owner, rows, n_features)
        validate_data(known, rows, reset=not is_new, skip_check_array=True)
    else:
        # Columns of a kernel are ids and were aligned as such; they are no feature names.
        if is_kernel and table.kind:
            values = np.asarray(table.values)
        else:
            values = table.values
        with reading_numbers(values, "X"):
            rows = validate_data(known, values, reset=not is_new, **_how(not is_kernel, allow_nan))
    return rows, getattr(known, "feature_names_in_", None)


def _how(accept_sparse: bool, allow_nan: bool) -> dict[str, Any]:
    """Return keyword arguments of scikit-learn's checks of a matrix."""
    finite = "allow-nan" if allow_nan else True
    return {
        "accept_sparse": "csr" if accept_sparse else False,
        "ensure_all_finite": finite,
        "dtype": FLOATS,
    }


def check_not_empty(array: Any, name: str) -> None:
    """Raise if an array or frame has an empty axis."""
    shape = tuple(getattr(array, "shape", ()))
    if 0 in shape:
        raise ValueError(f"{name} is empty: found shape {shape}.")


@contextmanager
def reading_numbers(values: Any, name: str) -> Iterator[None]:
    """Raise errors of numpy about text or other objects in `values` with the name of the argument; raise for dates."""
    dtype = getattr(values, "dtype", None)
    if getattr(dtype, "kind", "") in ("m", "M") or getattr(dtype, "is_temporal", bool)():
        raise ValueError(
            f"{name} holds dates or durations ({dtype}): make numbers of them first, such as days."
        )
    try:
        yield
    except ValueError as error:
        if "contains NaN" in str(error) and not is_sparse(values):
            remedy = "only labels may be missing. Fill in the value, or remove its row or column"
            raise ValueError(
                f"Input {name} contains NaN in {_first_missing(values)}: {remedy}."
            ) from error
        if str(error).startswith("Complex data not supported"):
            raise ValueError(
                f"Complex data not supported: {name} holds complex numbers, expected real ones."
            ) from error
        if "could not convert string" not in str(error):
            raise
        raise ValueError(f"{name} holds text where numbers belong: {error}.") from error
    except TypeError as error:
        if "must be a string or a real number" not in str(error):
            raise
        raise TypeError(
            f"{name} holds something that is no number: {error}. Convert it to floats."
        ) from error


def _first_missing(values: Any) -> str:
    """Return the row and column of the first missing value in words: names of a pandas frame, else positions."""
    is_pandas = hasattr(values, "iloc")
    if is_pandas:
        missing = values.isna().to_numpy()
    else:
        missing = np.isnan(np.asarray(values, dtype=np.float64))
    row, column = np.argwhere(missing)[0]
    if is_pandas:
        return f"row {values.index[row]!r}, column {values.columns[column]!r}"
    return f"row {row}, column {column}, counted from 0"


def check_real(array: Array, name: str) -> Array:
    """Return an array as floats; raise for complex numbers."""
    xp = namespace(array)
    if xp.isdtype(array.dtype, "complex floating"):
        raise ValueError(f"Complex data not supported: {name} has dtype {array.dtype}.")
    array = detached(array)
    if array.dtype in (xp.float32, xp.float64):
        return array
    return xp.astype(array, xp.float64)


def check_no_infinity(Y: Array, name: str = "Y") -> None:
    """Raise if a label is infinite; NaN means missing."""
    if bool(namespace(Y).any(namespace(Y).isinf(Y))):
        raise ValueError(
            f"Input {name} contains infinity or a value too large for "
            f"{str(Y.dtype).split('.')[-1]}."
        )


def check_labels(Y: Array, name: str = "Y") -> None:
    """Raise if a label is infinite, or all are missing (NaN)."""
    check_no_infinity(Y, name)
    xp = namespace(Y)
    if bool(xp.all(xp.isnan(Y))):
        raise ValueError(
            f"{name} is NaN everywhere: no label is observed, so there is nothing to learn from."
        )


def check_range(size: float, computed: float, like: Array, name: str) -> None:
    """Raise if a kernel of features or eigenvalues of some size leaves the range of the dtype."""
    xp = namespace(like)
    if size != 0 and not float(xp.finfo(like.dtype).smallest_normal) <= computed < float("inf"):
        raise ValueError(
            f"{name} are so {'small' if size < 1 else 'large'} ({size:.3g}) that the kernel leaves "
            f"the range of "
            f"{str(like.dtype).rpartition('.')[2]}: scale them."
        )


def check_same_library(arrays: dict[str, Any]) -> None:
    """Raise if arrays belong to different libraries, with the library of each."""
    libraries = {name: library(array) for name, array in arrays.items() if array is not None}
    if len(set(libraries.values())) > 1:
        listed = ", ".join(f"{name} of {owner}" for name, owner in libraries.items())
        raise TypeError(
            f"All inputs must be arrays of one library, found {listed}: convert them first."
        )

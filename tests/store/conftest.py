"""What the tests of the model file share: a way to the file and back, and what it means to be the same."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from dyadlearn import SettingKFold, Tasks, load, save
from dyadlearn._tables import Table
from dyadlearn.store.container import read_container, write_container


@pytest.fixture
def round_trip(tmp_path) -> Callable[[Any], Any]:
    """Give a function that saves a model and loads it again."""

    def saved_and_loaded(model):
        save(model, tmp_path / "model.dyad")
        return load(tmp_path / "model.dyad")

    return saved_and_loaded


@pytest.fixture
def apart(tmp_path) -> Callable[[Any], Any]:
    """Give a function that saves a model, and returns the header and the arrays of its file."""

    def taken_apart(model):
        save(model, tmp_path / "model.dyad")
        return read_container(tmp_path / "model.dyad")

    return taken_apart


@pytest.fixture
def forge(tmp_path) -> Callable[[Any, Any], Any]:
    """Give a function that writes a header and arrays with a checksum that matches, and loads them."""

    def loaded(header, arrays):
        write_container(tmp_path / "forged.dyad", header, arrays)
        return load(tmp_path / "forged.dyad")

    return loaded


@pytest.fixture(scope="session")
def assert_same() -> Callable[..., None]:
    """Give a function that compares all there is of two objects, down to the bit."""
    return _assert_same


def _assert_same(found: Any, expected: Any, where: str = "model") -> None:
    if hasattr(expected, "equals") and isinstance(found, Table):  # frames come back as tables
        found = found.to_frame()
    if isinstance(expected, np.generic):  # scalars of numpy come back as plain numbers
        expected = expected.item()
    assert type(found) is type(expected), where
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), where
        assert (
            found.tolist() == expected.tolist()
            if found.dtype == object
            else _bits(found) == _bits(expected)
        ), where
        # A file keeps no gaps and no reversed order between entries, and sums over them are rounded
        # otherwise.
        assert found.flags.f_contiguous == expected.flags.f_contiguous, where
        assert found.flags.c_contiguous == expected.flags.c_contiguous, where
    elif sparse.issparse(expected):
        assert found.shape == expected.shape, where
        for name in ("data", "indices", "indptr"):
            _assert_same(getattr(found, name), getattr(expected, name), f"{where}.{name}")
    elif isinstance(expected, dict):
        assert list(found) == list(expected), where
        for name in expected:
            _assert_same(found[name], expected[name], f"{where}[{name!r}]")
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected), where
        for position, (own, other) in enumerate(zip(found, expected, strict=True)):
            _assert_same(own, other, f"{where}[{position}]")
    elif isinstance(expected, float):
        assert found.hex() == expected.hex(), where
    elif hasattr(expected, "equals"):  # a frame or series
        assert found.equals(expected), where
    elif isinstance(expected, BaseEstimator | SettingKFold | Tasks):
        assert vars(found).keys() == vars(expected).keys(), where
        for name in vars(expected):
            _assert_same(getattr(found, name), getattr(expected, name), f"{where}.{name}")
    elif is_dataclass(expected):
        # What was computed on first use matters only where it changes the way that is taken later.
        computed = vars(expected).keys() & {"coefficients", "directions", "vectors"}
        for name in [*(field.name for field in fields(expected) if field.init), *computed]:
            _assert_same(vars(found)[name], vars(expected)[name], f"{where}.{name}")
    else:
        assert found == expected, where


def _bits(array: np.ndarray) -> bytes:
    return np.ascontiguousarray(array).tobytes()

"""Refusing hold-out predictions that memory cannot hold, before anything is computed."""

from __future__ import annotations

from dyadlearn._array import Array, itemsize
from dyadlearn._checks import check_memory
from dyadlearn.settings import Setting

__all__ = ["refuse"]

_FEWER = "leave out fewer and larger groups, use fewer rows or float32, or a linear kernel on fewer features than rows"


def refuse(numbers: float, Y: Array, setting: Setting, how: str = "") -> None:
    """Raise `NotEnoughMemoryError` if there is no room for so many numbers beside the labels (m, q)."""
    m, q = Y.shape
    check_memory(numbers * itemsize(Y), Y, f"Holding out setting {setting.value} of a grid of {m} × {q}{how}", _FEWER)

"""The model file: a fitted model as arrays and a header of plain JSON, without anything that could be executed."""

from dyadlearn.store.files import load, save

__all__ = ["load", "save"]

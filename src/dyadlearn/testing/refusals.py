"""Wrong arguments of `fit`, and the errors that they must raise."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Arguments = dict[str, Any]


class Wrong(NamedTuple):
    """Wrong arguments of a method.

    Attributes
    ----------
    what : str
        What is wrong, for messages.
    arguments : dict
    errors : tuple of exception types
        The error is one of them.
    sentence : str
        Pattern of a part of its message.
    """

    what: str
    arguments: Arguments
    errors: tuple[type[Exception], ...]
    sentence: str


def refused(method: Callable[..., Any], wrong: Wrong) -> None:
    """Raise AssertionError if a method accepts wrong arguments, or refuses them by another error."""
    try:
        method(**wrong.arguments)
    except wrong.errors as raised:
        message = str(raised)
    except Exception as raised:
        name = type(raised).__name__
        raise AssertionError(f"{wrong.what}: {name} is raised: {raised}") from raised
    else:
        raise AssertionError(f"{wrong.what}: nothing is raised")
    assert re.search(wrong.sentence, message), f"{wrong.what}: the error says {message!r}"


def wrong_arguments(arguments: Arguments) -> list[Wrong]:
    """Return wrong arguments of `fit`, made from right ones."""
    X = arguments["X"]
    y = arguments["y"]
    value = (ValueError,)
    either = (ValueError, TypeError)
    cases: list[tuple[str, str, Any, tuple[type[Exception], ...], str]] = [
        ("too few instances", "X", X[:-1], value, "rows|instances|X "),
        ("NaN in X", "X", _with(X, np.nan), value, "NaN"),
        ("infinite features", "X", _with(X, np.inf), value, "infin"),
        ("complex features", "X", X + 1j, either, "[Cc]omplex"),
        ("features of three axes", "X", _deep(X), value, "dim|shape|axes"),
        ("infinite labels", "y", _with(y, np.inf), value, "infin"),
        ("complex labels", "y", y + 1j, either, "[Cc]omplex"),
        ("labels of three axes", "y", _deep(y), value, "dim|shape|axes"),
        ("texts as labels", "y", np.full(y.shape, "text"), either, "text|number|dtype"),
        ("no labels", "y", None, either, "y"),
        ("no observed label", "y", np.full(y.shape, np.nan), value, "label|observed"),
    ]
    if "tasks" in arguments:
        tasks = arguments["tasks"]
        cases.append(("too few tasks", "tasks", tasks[:-1], value, "columns|tasks|labels"))
    weights = arguments.get("sample_weight")
    if weights is not None:
        others = {
            "negative weights": -weights,
            "infinite weights": _with(weights, np.inf),
            "weights of another shape": weights[:-1],
        }
        for what, values in others.items():
            cases.append((what, "sample_weight", values, value, "sample_weight|weights"))
    wrong = []
    for what, name, values, errors, sentence in cases:
        wrong.append(Wrong(what, arguments | {name: values}, errors, sentence))
    return wrong


def _with(values: np.ndarray, value: float) -> np.ndarray:
    """Return a copy with another value in one cell."""
    changed = np.array(values)
    changed[1, 1] = value
    return changed


def _deep(values: np.ndarray) -> np.ndarray:
    """Return an array with a third axis."""
    return values[:, :, None] * np.ones(2)

"""What every case of the comparison of old and new shares: the names of a version, a case, and its answers as data.

Both versions run these files, each in a process of its own (`answering.py`). Only public names are
used, all of them through `Library`, which knows those that were renamed. What is deleted must not
be drawn.
"""

from __future__ import annotations

import importlib
import warnings
import zlib
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

__all__ = [
    "DIRECT",
    "KINDS",
    "LEARNED",
    "SINGLE",
    "TOL",
    "Answer",
    "Drawing",
    "Library",
    "Refusal",
    "answer",
    "kind",
]

# Allowed differences, as a share of the labels' spread or of the largest value, whichever is
# larger: of what is solved directly, of what is learned by descent, and of single precision.
DIRECT = 1e-9
LEARNED = 1e-6
SINGLE = 1e-3
# Where conjugate gradients stop.
TOL = 1e-13


@dataclass(frozen=True)
class Refusal:
    """An exception, by the name of its type."""

    error: str
    message: str


@dataclass(frozen=True)
class Answer:
    """One quantity of a case.

    Attributes
    ----------
    value : object
        Numbers, arrays, text, or lists and dicts of these; a `Refusal` where the library raised.
    share : float
        The allowed difference, as a share of `scale` or of the largest value, whichever is larger.
    scale : float
    common : bool
        Whether numbers that are NaN in one version only are passed over: points of a search that
        only one looked at.
    given : str or None
        Another quantity. This one is compared only where the same entries of that one are NaN in
        both versions.
    """

    value: Any
    share: float = DIRECT
    scale: float = 0.0
    common: bool = False
    given: str | None = None


class Library:
    """The public names of one version.

    Parameters
    ----------
    renamed : mapping
        See `changes.RENAMED`; empty for the old version.
    """

    def __init__(self, renamed: Mapping[str, str | None]) -> None:
        self.renamed = renamed

    def find(self, name: str) -> Any:
        """Return a public class or function by its path below the package."""
        module, _, leaf = ("dyadlearn." + str(self.renamed.get(name, name))).rpartition(".")
        return getattr(importlib.import_module(module), leaf)

    def call(self, name: str, /, **arguments: Any) -> Any:
        """Call a public class or function."""
        return self.find(name)(**self._passed(name, arguments))

    def do(self, thing: Any, name: str, /, **arguments: Any) -> Any:
        """Call a method."""
        return self.get(thing, name)(**self._passed(name, arguments))

    def get(self, thing: Any, name: str) -> Any:
        """Return an attribute."""
        return getattr(thing, str(self.renamed.get("." + name, name)))

    def fields(self, thing: Any, names: str) -> dict[str, Any]:
        """Return some attributes by their names."""
        return {name: self.get(thing, name) for name in names.split()}

    def _passed(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        keys = {
            key: self.renamed.get(f"{name}({key})", self.renamed.get(f"({key})", key))
            for key in arguments
        }
        return {new: arguments[key] for key, new in keys.items() if new is not None}


@dataclass
class Drawing:
    """A case that is drawn and answered: all randomness comes from its kind and its seed.

    Attributes
    ----------
    kind : str
    seed : int
    lib : Library
    what : list of str
        What was drawn, in words.
    answers : dict of str to Answer
    share, scale : float
        Allowed difference of the next quantities, and the spread of the labels.
    """

    kind: str
    seed: int
    lib: Library
    what: list[str] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    share: float = DIRECT
    scale: float = 0.0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng([zlib.crc32(self.kind.encode()), self.seed])

    def chance(self, probability: float) -> bool:
        """Return True with some probability."""
        return bool(self.rng.random() < probability)

    def pick(self, *things: Any) -> Any:
        """Return one of some things."""
        return things[int(self.rng.integers(len(things)))]

    def some(self, number: int, *things: Any) -> list[Any]:
        """Return some of some things, in their order."""
        places = self.rng.choice(len(things), min(number, len(things)), replace=False)
        return [things[place] for place in sorted(places)]

    def note(
        self, quantity: str, compute: Callable[[], Any], how: Mapping[str, Any] | None = None
    ) -> Any:
        """Compute a quantity and keep it, or the refusal; return what was computed, or None.

        `how` has attributes of the `Answer`.
        """
        options = {"share": self.share, "scale": self.scale, **(how or {})}
        try:
            value = compute()
            kept = _plain(value)
        except Exception as error:
            self.answers[quantity] = Answer(Refusal(type(error).__name__, str(error)), **options)
            return None
        self.answers[quantity] = Answer(kept, **options)
        return value

    def make(self, quantity: str, compute: Callable[[], Any]) -> Any:
        """Return what is no number, such as a fitted model, and note whether that worked; None where it did not."""
        made: list[Any] = []
        self.note(quantity, lambda: made.append(compute()))
        return made[0] if made else None

    def ask(
        self, quantity: str, thing: Any, method: str, /, how: Any = None, **arguments: Any
    ) -> Any:
        """Note what a method returns."""
        return self.note(quantity, lambda: self.lib.do(thing, method, **arguments), how)

    def look(self, thing: Any, names: str, how: Any = None) -> None:
        """Note attributes, each by itself."""
        for name in names.split():
            self.note(name, lambda name=name: self.lib.get(thing, name), how)

    def call(
        self, quantity: str, function: str, take: str = "", /, how: Any = None, **arguments: Any
    ) -> Any:
        """Note what a function returns, or attributes of that."""

        def called() -> Any:
            result = self.lib.call(function, **arguments)
            return self.lib.fields(result, take) if take else result

        return self.note(quantity, called, how)


def _plain(value: Any) -> Any:
    """Return numbers, text and containers of these, with the ids of frames beside their values."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, pd.DataFrame):
        return {
            "values": _plain(value.to_numpy()),
            "index": list(value.index),
            "columns": list(value.columns),
        }
    if isinstance(value, pd.Series):
        return {"values": _plain(value.to_numpy()), "index": list(value.index)}
    if scipy.sparse.issparse(value):
        listed = scipy.sparse.coo_array(value)
        order = np.lexsort((listed.coords[1], listed.coords[0]))
        return {"at": np.stack(listed.coords)[:, order], "values": listed.data[order]}
    if isinstance(value, np.ndarray):
        return value if value.dtype.kind in "fiub" else value.tolist()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    raise TypeError(f"{type(value).__name__} cannot be compared: note some numbers of it.")


KINDS: dict[str, Callable[[Drawing], None]] = {}


def kind(function: Callable[[Drawing], None]) -> Callable[[Drawing], None]:
    """Register a kind of case."""
    KINDS[function.__name__] = function
    return function


def answer(name: str, seed: int, lib: Library) -> tuple[str, dict[str, Answer]]:
    """Return what was drawn, in words, and all quantities of one case."""
    drawing = Drawing(name, seed, lib)
    with warnings.catch_warnings(), redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        warnings.simplefilter("ignore")
        drawing.note("case", lambda: KINDS[name](drawing))
    return " ".join(drawing.what), drawing.answers

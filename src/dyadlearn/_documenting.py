"""Compose the docstrings of estimators and metrics: a class inherits the entries of parameters from its bases."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

T = TypeVar("T", bound=type)
_SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
# One or several names, their type, and the indented lines of their description.
_ENTRY = re.compile(r"^(\S.*?)( : .*)?\n((?:(?: .*)?\n)*)", re.MULTILINE)


def documented(*sources: type) -> Callable[[T], T]:
    """Return a decorator that completes the sections Parameters and Attributes of a class.

    Parameters are those of the signature, in its order, each as the class itself, the first of the
    sources or the first of its bases documents it. Attributes are those that the class documents,
    and then those of its sources and bases.

    Parameters
    ----------
    *sources : classes
        Classes whose docstrings describe parameters or attributes of the class.

    Examples
    --------
    >>> from dyadlearn import KroneckerRidgeCV
    >>> from dyadlearn._documenting import parameter_docs
    >>> print(parameter_docs(KroneckerRidgeCV)["repair"])
    repair : {"clip", "shift", "error"}, default="clip"
        Treatment of an asymmetric or indefinite kernel: see `dyadlearn.kernels.repair`.
    """

    def complete(cls: T) -> T:
        documents: tuple[type, ...] = (cls, *sources, *cls.__mro__[1:])
        parameters = _entries(documents, "Parameters", inspect.signature(cls).parameters)
        wanted = [
            parameters[name] for name in inspect.signature(cls).parameters if name in parameters
        ]
        attributes = _entries(documents, "Attributes").values()
        cls.__doc__ = _composed(cls, {"Parameters": wanted, "Attributes": attributes})
        return cls

    return complete


def function_doc(cls: type, parameters: Iterable[str]) -> str | None:
    """Return the docstring of a function with some parameters, which a class and its bases document."""
    doc = _composed(cls, {"Parameters": parameter_docs(cls, parameters).values()})
    return doc and f"Return {doc[0].lower()}{doc[1:]}"


def parameter_docs(cls: type, parameters: Iterable[str] | None = None) -> dict[str, str]:
    """Return the docstring entry of each parameter of a class; parameters documented together share one entry."""
    wanted = list(inspect.signature(cls).parameters if parameters is None else parameters)
    known = _entries(cls.__mro__, "Parameters", wanted)
    return {name: known[name] for name in wanted if name in known}


def _composed(cls: type, composed: Mapping[str, Iterable[str]]) -> str | None:
    """Return the docstring of a class with the given entries in some of its sections; None with python -OO."""
    if cls.__doc__ is None:
        return None
    head, *parts = _SECTION.split(inspect.cleandoc(cls.__doc__) + "\n")
    new = {name: "\n".join(dict.fromkeys(entries)) + "\n\n" for name, entries in composed.items()}
    # The new sections come first, and replace those of the same name.
    sections = {**new, **dict(zip(parts[::2], parts[1::2], strict=True)), **new}
    return f"{head.rstrip()}\n\n" + "".join(
        f"{name}\n{'-' * len(name)}\n{body}" for name, body in sections.items()
    )


def _entries(
    documents: Iterable[type], section: str, wanted: Iterable[str] | None = None
) -> dict[str, str]:
    """Return the entries of a section by name, each from the first class that documents it."""
    entries: dict[str, str] = {}
    for document in documents:
        doc = inspect.cleandoc(vars(document).get("__doc__") or "") + "\n"
        _, *parts = _SECTION.split(doc)
        body_of = dict(zip(parts[::2], parts[1::2], strict=True))
        for names, kind, body in _ENTRY.findall(body_of.get(section, "")):
            new = []
            for name in names.split(", "):
                if name not in entries and (wanted is None or name in wanted):
                    new.append(name)
            entries.update(dict.fromkeys(new, f"{', '.join(new)}{kind}\n{body}".rstrip()))
    return entries

"""Find parameters of Python in the output of commands, whose users know options only."""

import inspect
import re
from contextlib import suppress
from functools import partial

import dyadlearn


def parameters() -> set[str]:
    """Return the names of all parameters of the public functions, classes and their methods."""
    names = {"X"}
    for public in map(partial(getattr, dyadlearn), dyadlearn.__all__):
        members = vars(public).values() if isinstance(public, type) else ()
        for function in filter(callable, (public, *members)):
            with suppress(ValueError):  # some built-in functions have no signature
                names |= set(inspect.signature(function).parameters)
    return names


# A parameter as in Python, such as tasks= or X; in a path, an id or the value of an option it is a
# name of the user.
PARAMETER = re.compile(rf"(?<![\w/:.'\"=-])(({'|'.join(parameters())})=|X\b(?![./]))")


def in_python(text: str) -> list[str]:
    """Return the parameters of the library that a text of a command names as in Python."""
    return [match.group() for match in PARAMETER.finditer(text)]

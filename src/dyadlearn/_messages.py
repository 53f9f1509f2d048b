"""Messages that name parameters, for Python and for the command line.

A sentence with parameters is written once, as a `Message`. Its text is for Python, and the command
line writes the same parts with the names of its options.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Parameter:
    """A parameter in a message, such as ``X``."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Argument(Parameter):
    """A parameter with a value in a message, such as ``setting="A"``; without a value, such as ``tasks=``.

    A text is written between the marks of `quote`.
    """

    value: Any = None
    quote: str = '"'

    def __str__(self) -> str:
        if self.value is None:
            value = ""
        elif isinstance(self.value, str):
            value = f"{self.quote}{self.value}{self.quote}"
        else:
            value = repr(self.value)
        return f"{self.name}={value}"


@dataclass(frozen=True)
class InPython:
    """Words of a message for Python, and the words that stand there in other places."""

    words: str
    elsewhere: str = ""

    def __str__(self) -> str:
        return self.words


class Message(str):
    """A text for people that remembers its parts.

    Parameters
    ----------
    *parts : str, Message, Parameter or InPython

    Examples
    --------
    >>> from dyadlearn._messages import Argument, Message
    >>> message = Message("Setting C predicts new tasks: give ", Argument("tasks"), ".")
    >>> message
    'Setting C predicts new tasks: give tasks=.'
    >>> message.written(lambda parameter: f"--{parameter.name}")
    'Setting C predicts new tasks: give --tasks.'
    """

    parts: tuple[str | Parameter | InPython, ...]

    def __new__(cls, *parts: str | Parameter | InPython) -> Message:
        self = super().__new__(cls, "".join(map(str, parts)))
        self.parts = tuple(_flat(parts))
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Message, self.parts

    def written(self, name: Callable[[Parameter], str]) -> str:
        """Return the message for another place than Python; `name` returns the words for a parameter."""
        texts = []
        for part in self.parts:
            if isinstance(part, Parameter):
                texts.append(name(part))
            elif isinstance(part, InPython):
                texts.append(part.elsewhere)
            else:
                texts.append(part)
        return "".join(texts)


def _flat(parts: tuple[Any, ...]) -> Iterator[str | Parameter | InPython]:
    """Yield parts, with those of a message in its place."""
    for part in parts:
        if isinstance(part, Message):
            yield from part.parts
        else:
            yield part


def message_of(error: BaseException) -> str:
    """Return the message of an error or a warning; a `Message` keeps its parts."""
    if error.args and isinstance(error.args[0], Message):
        return error.args[0]
    return str(error)

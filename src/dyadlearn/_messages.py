"""Messages that name parameters, for Python and for the command line.

A sentence with parameters is written once, as the template of a `Message`. Its text is for Python,
and the command line writes its options in place of the parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Parameter:
    """A parameter in a message.

    Attributes
    ----------
    name : str
        Such as ``setting``.
    rest : str
        What is written behind the name in Python: nothing, ``=``, or ``=`` and a value.
    """

    name: str
    rest: str = ""

    def __str__(self) -> str:
        return self.name + self.rest

    @property
    def value(self) -> str:
        """The value without its quotes; empty if there is none."""
        return self.rest.removeprefix("=").strip("'\"")


@dataclass(frozen=True)
class InPython:
    """Words of a message for Python, and the words that stand there in other places."""

    words: str
    elsewhere: str

    def __str__(self) -> str:
        return self.words


Part: TypeAlias = str | Parameter | InPython

# <parameter>, <parameter=> or <parameter=value>; [words for Python|words elsewhere], in which the
# words for Python may have brackets; {value}.
_MARK = re.compile(
    r"<(?P<name>\w+|{\w+})(?P<rest>=[^<>]*)?>"
    r"|\[(?P<words>(?:[^][|]|\[[^][|]*\])*)\|(?P<elsewhere>[^][|]*)\]"
    r"|(?P<field>{[^{}]*})"
)


class Message(str):
    """A text for people that remembers where it names parameters.

    Parameters
    ----------
    template : str
        The text. ``<name>``, ``<name=>`` and ``<name="value">`` are parameters, as they are written
        in Python. ``[words|other words]`` are words for Python, and words for other places.
        ``{value}`` is a value, as in `str.format`; it may stand within the other marks.
    **values : object
        The values. A `Message` keeps its parts. Other values are never read as a template.

    Examples
    --------
    >>> from dyadlearn._messages import Message
    >>> message = Message("Setting {setting} predicts new tasks: give <tasks=>.", setting="C")
    >>> message
    'Setting C predicts new tasks: give tasks=.'
    >>> message.written(lambda parameter: f"--{parameter.name}")
    'Setting C predicts new tasks: give --tasks.'
    """

    parts: tuple[Part, ...]

    def __new__(cls, template: str, /, **values: Any) -> Message:
        return cls._of_parts(_parts(template, values))

    @classmethod
    def about(cls, name: str, text: str) -> Message:
        """Return a message that begins with the name of a parameter, which no other is named in."""
        return cls._of_parts((Parameter(name), f" {text}"))

    @classmethod
    def _of_parts(cls, parts: Iterable[Part]) -> Message:
        parts = tuple(parts)
        self = str.__new__(cls, "".join(map(str, parts)))
        self.parts = parts
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Message._of_parts, (self.parts,)

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


def _parts(template: str, values: dict[str, Any]) -> list[Part]:
    """Return the parts of a template, with the values in it; raise KeyError if one is missing."""
    parts: list[Part] = []
    end = 0
    for mark in _MARK.finditer(template):
        parts.append(template[end : mark.start()])
        end = mark.end()
        name, rest, words, elsewhere, field = mark.groups("")
        if name:
            parts.append(Parameter(name.format(**values), rest.format(**values)))
        elif not field:
            parts.append(InPython(words.format(**values), elsewhere.format(**values)))
        elif isinstance(value := values.get(field[1:-1]), Message):
            parts += value.parts
        else:
            parts.append(field.format(**values))
    parts.append(template[end:])
    return parts


def message_of(error: BaseException) -> str:
    """Return the message of an error or a warning; a `Message` keeps its parts."""
    if error.args and isinstance(error.args[0], Message):
        return error.args[0]
    return str(error)

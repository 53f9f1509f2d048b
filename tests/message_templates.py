"""Find the messages in the source of the library."""

import ast
from collections.abc import Iterator
from pathlib import Path
from string import Formatter

import dyadlearn
from dyadlearn._messages import Message


class Unknown:
    """A value that is known only when a message is written."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"({self.name})"

    def __format__(self, spec: str) -> str:
        return repr(self)


def messages() -> Iterator[tuple[str, Message]]:
    """Yield the place of each message in the source, and the message with the names of its values.

    Raises
    ------
    AssertionError
        If the values of a message are not those that its template names.
    """
    for path in sorted(Path(dyadlearn.__file__).parent.rglob("*.py")):
        source = path.read_bytes()
        if b"Message(" not in source:
            continue
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) != "Message":
                continue
            place = f"{path.name}:{node.lineno}"
            [template] = node.args
            assert isinstance(template, ast.Constant), place
            fields = {field for _, field, _, _ in Formatter().parse(template.value)} - {None}
            values = {keyword.arg for keyword in node.keywords}
            assert fields == values, place
            yield place, Message(template.value, **{name: Unknown(name) for name in values})

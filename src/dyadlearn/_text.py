"""Text output: numbers, lists of names, and small tables for terminals, text files and notebooks."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from html import escape
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def power(value: float) -> str:
    """Return a regularisation as text, with a power of ten if it is very small or large.

    Examples
    --------
    >>> from dyadlearn._text import power
    >>> power(1e-7), power(0.01), power(2.5e5)
    ('10⁻⁷', '0.01', '2.5·10⁵')
    """
    if value > 0 and not 1e-3 <= value <= 1e4:
        exponent = math.floor(math.log10(value) + 1e-12)
        mantissa = f"{value / 10.0**exponent:.3g}"
        if mantissa == "1":
            return f"10{superscript(exponent)}"
        return f"{mantissa}·10{superscript(exponent)}"
    return f"{value:.3g}" if value < 1000 else f"{value:.5g}"


def superscript(exponent: int) -> str:
    """Return an integer in superscript digits.

    Examples
    --------
    >>> from dyadlearn._text import superscript
    >>> superscript(-12)
    '⁻¹²'
    """
    return str(exponent).translate(_RAISED)


def joined(names: Sequence[str]) -> str:
    """Return names as a list in words.

    Examples
    --------
    >>> from dyadlearn._text import joined
    >>> joined(["A", "C", "D"])
    'A, C and D'
    """
    if len(names) == 1:
        return names[0]
    return f"{', '.join(names[:-1])} and {names[-1]}"


#: Options of rich: ids with colons and brackets are not read as emoji or colours.
PLAIN: Any = {"emoji": False, "markup": False, "highlight": False}
# Control characters of C0 (except line breaks and tabs), C1 and Unicode, which move the cursor or
# hide text.
_CODES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
# Largest lengths of a heading of numbers and of a word in it; longer ones are broken.
_LONGEST = 18
_LONGEST_WORD = 24
# Maximum numbers of characters of a message of another library, and of an id or a cell in a
# message.
_LONGEST_LINE = 200
_LONGEST_QUOTE = 100


def one_line(error: BaseException) -> str:
    """Return the message of an error of another library as one line of limited length, without its full stop.

    Such a message may quote the content of a file.
    """
    return shortened(" ".join(str(error).split()).removesuffix("."), _LONGEST_LINE)


def quoted(value: Any) -> str:
    """Return an id, a name or a cell as it is written in Python, shortened if it is very long.

    Examples
    --------
    >>> from dyadlearn._text import quoted
    >>> quoted("P12345"), quoted(7)
    ("'P12345'", '7')
    """
    return shortened(repr(value), _LONGEST_QUOTE)


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` characters; the end of a longer one is replaced by an ellipsis."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 1]}…"


def printable(text: str) -> str:
    r"""Return a text with control characters written out, such as the escape character as ``\x1b``."""
    return _CODES.sub(lambda match: match.group().encode("unicode_escape").decode(), text)


def number(value: Any, digits: int = 4) -> str:
    """Return a number in a few digits, a dash for NaN and None, and any other value as text.

    Examples
    --------
    >>> from dyadlearn._text import number
    >>> number(-0.123456), number(float("nan")), number(None), number(7), number("D")
    ('-0.1235', '–', '–', '7', 'D')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, str | bool):
        return str(value)
    if isinstance(value, Real) and not isinstance(value, Integral):
        return f"{value:.{digits}g}"
    return str(value)


def in_time(seconds: float) -> str:
    """Return a time in words, to one digit."""
    if seconds < 1.0:
        return "a second"
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    if seconds < 6000.0:
        return f"{seconds / 60.0:.0f} min"
    return f"{seconds / 3600.0:,.0f} h"


def make_table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> Table:
    """Return a table in which long ids are wrapped and numbers are not.

    Parameters
    ----------
    headings : sequence of str
    rows : iterable of sequences of str
    left : int, default=1
        Number of first columns that contain text; the others contain numbers.

    Returns
    -------
    rich.table.Table
    """
    # rich is imported only if a table is shown.
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for place, heading in enumerate(headings):
        is_text = place < left
        lines = [heading] if is_text else _short_lines(heading)
        table.add_column(
            "\n".join(map(_cell, lines)),
            justify="left" if is_text else "right",
            overflow="fold",
            no_wrap=not is_text,
        )
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _short_lines(heading: str) -> list[str]:
    """Return the lines of a heading; a long heading is broken after an underscore near the middle."""
    breaks = [place + 1 for place, sign in enumerate(heading[:-1]) if sign == "_"]
    if len(heading) <= (_LONGEST if breaks else _LONGEST_WORD):
        return [heading]
    breaks = breaks or [(len(heading) + 1) // 2]
    middle = min(breaks, key=lambda place: abs(2 * place - len(heading)))
    return [*_short_lines(heading[:middle]), *_short_lines(heading[middle:])]


def make_list(rows: Iterable[tuple[str, str]]) -> Table:
    """Return a table of two columns: names and values."""
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for row in rows:
        table.add_row(*map(_cell, row))
    return table


def _cell(text: str) -> str:
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def as_text(*things: Table | str, width: int = 80) -> str:
    """Return tables and sentences as text, with lines of at most `width` characters and no trailing blanks.

    Examples
    --------
    >>> from dyadlearn._text import as_text, make_table
    >>> print(as_text(make_table(["drug", "score"], [["aspirin", "0.91"]]), "One of one."))
     drug     score
     ──────────────
     aspirin   0.91
    One of one.
    """
    from rich.console import Console

    # The text is the same for terminals, notebooks and files.
    buffer = io.StringIO()
    anywhere: Any = dict.fromkeys(("force_terminal", "force_jupyter", "legacy_windows"), False)
    console = Console(file=buffer, width=width, color_system=None, **anywhere, **PLAIN)
    for thing in things:
        console.print(printable(thing) if isinstance(thing, str) else thing)
    lines = [line.rstrip() for line in buffer.getvalue().splitlines()]
    return "\n".join(line for line in lines if line)


def html_table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """Return the table of `make_table` as HTML, with all text escaped.

    Colours and lines are those of the page.
    """
    sides = ["left" if place < left else "right" for place in range(len(headings))]
    lines = [_html_row("td", row, sides) for row in rows]
    return f"<table><thead>{_html_row('th', headings, sides)}</thead><tbody>{''.join(lines)}</tbody></table>"


def _html_row(tag: str, texts: Sequence[str], sides: Sequence[str]) -> str:
    cells = zip(texts, sides, strict=True)
    row = (
        f'<{tag} style="text-align:{side}">{escape(_cell(text))}</{tag}>' for text, side in cells
    )
    return f"<tr>{''.join(row)}</tr>"

"""Markdown and its front matter, in which any text stands as it is: nothing that an id holds is obeyed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from dyadlearn._printing import printable

__all__ = ["bullets", "code", "front_matter", "plain", "table"]

# What Markdown, or one of those who read it, takes for more than a sign.
_SIGNS = re.compile(r"([\\`*_\[\]|~$])")
# What it takes for the beginning of a heading, a list, a quotation or a rule.
_BEGINNINGS = re.compile(r"^(\d*)([#+\-=:]|(?<=\d)[.)](?=\s|$))")

# A text that YAML reads as the same text without quotation marks.
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_KEYWORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
# What may not stand in a file of YAML, not even between quotation marks.
_UNPRINTABLE = re.compile("[\x7f-\x9f\ufeff\ufffe\uffff\u2028\u2029]")
_HALF = re.compile("[\ud800-\udfff]")


def plain(text: str) -> str:
    r"""Return any text as one line of Markdown that shows it.

    Examples
    --------
    >>> from dyadlearn.report.markdown import plain
    >>> print(plain("a|b *c*\n<d> & `e`"))
    a\|b \*c\* &lt;d&gt; &amp; \`e\`
    """
    line = " ".join(printable(_HALF.sub("\ufffd", text)).split())
    line = line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _BEGINNINGS.sub(r"\1\\\2", _SIGNS.sub(r"\\\1", line))


def bullets(texts: Sequence[str]) -> str:
    """Return texts as a list."""
    return "\n".join(f"- {plain(text)}" for text in texts)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return texts as a table whose first columns, `left` of them, stand on the left, and all others on the right."""
    ends = ["---" if place < left else "--:" for place in range(len(head))]
    lines = [list(map(plain, head)), ends, *(list(map(plain, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(language: str, lines: Sequence[str]) -> str:
    """Return lines as they are, each by itself whatever it holds."""
    own = [printable(_HALF.sub("\ufffd", line)).replace("\n", " ") for line in lines]
    longest = max((len(run) for line in own for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([f"{fence}{language}", *own, fence])


def front_matter(values: Mapping[str, Any]) -> str:
    """Return names and values, lists and mappings among them, between two lines of dashes, as YAML.

    Examples
    --------
    >>> from dyadlearn.report.markdown import front_matter
    >>> print(front_matter({"tags": ["a", "b: c"], "score": {"value": 1e-05}}))
    ---
    tags:
    - a
    - "b: c"
    score:
      value: 1.0e-05
    ---
    """
    return "\n".join(["---", *_lines(values), "---"])


def _lines(value: Any) -> list[str]:
    """Return the lines of a mapping or a list."""
    found = []
    if isinstance(value, Mapping):
        for name, each in value.items():
            if not isinstance(each, Mapping | list):
                found.append(f"{_scalar(name)}: {_scalar(each)}")
                continue
            indent = "  " if isinstance(each, Mapping) else ""
            found += [f"{_scalar(name)}:", *(indent + line for line in _lines(each))]
        return found
    for each in value:
        first, *rest = _lines(each) if isinstance(each, Mapping) else [_scalar(each)]
        found += [f"- {first}", *(f"  {line}" for line in rest)]
    return found


def _scalar(value: Any) -> str:
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"A front matter holds finite numbers, found {value!r}.")
        # Without a point, an exponent makes a text of it.
        return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value))
    text = _HALF.sub("\ufffd", str(value))
    if _WORD.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    return _UNPRINTABLE.sub(lambda sign: f"\\u{ord(sign.group()):04x}", json.dumps(text, ensure_ascii=False))

"""Formulas as MathML, which browsers draw themselves: the pages ask nothing of the network."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html import escape, unescape
from typing import Any
from unicodedata import lookup

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_log = logging.getLogger(__name__)
_SPACE = "http://www.w3.org/1998/Math/MathML"
ET.register_namespace("", _SPACE)
# What the converter knows under another name.
_OTHERS = {r"\\dots(?![a-zA-Z])": r"\\ldots", r"\\Big(?![a-zA-Z])": r"\\Bigl"}
# Fractions without braces, as in \frac12: the converter would read twelve.
_FRACTION = re.compile(r"\\([td]?frac) *([0-9])([0-9])")
# Bold Greek: the converter would open a group that ends with the one around it, in a style that no
# browser draws.
_BOLD = re.compile(r"\\boldsymbol *\\([a-zA-Z]+)")
# Signs that stand over a letter: what is below it then is an index, which the converter puts below
# as well.
_ACCENTS = frozenset("~ˉˆ_˜¯^")


def _bold(found: re.Match[str]) -> str:
    """Return a bold Greek letter, slanted if it is a small one."""
    name = found[1]
    if name == "phi":  # the one with a stroke; the other is \\varphi
        return lookup("MATHEMATICAL BOLD ITALIC PHI SYMBOL")
    style = "CAPITAL" if name[0].isupper() else "ITALIC SMALL"
    return lookup(f"MATHEMATICAL BOLD {style} {name.removeprefix('var').upper()}")


def mathml(code: str, *, block: bool) -> str:
    """Return a formula in LaTeX as an element of a page."""
    for pattern, known in _OTHERS.items():
        code = re.sub(pattern, known, code)
    code = _FRACTION.sub(r"\\\1{\2}{\3}", code)
    code = _BOLD.sub(_bold, code)
    text = str(tex2mathml(code, as_block=block))
    # Characters that only a page knows by their names.
    text = re.sub(r"&(?!lt;|gt;|amp;|quot;|#)\w+;", lambda found: unescape(found[0]), text)
    tree = ET.fromstring(text)
    for node in list(tree.iter(f"{{{_SPACE}}}munderover")):
        base, below, above = node
        if (above.text or "").strip() in _ACCENTS:
            node.tag = f"{{{_SPACE}}}msub"
            for child in (base, below, above):
                node.remove(child)
            over = ET.SubElement(node, f"{{{_SPACE}}}mover", accent="true")
            over.extend([base, above])
            node.append(below)
    return ET.tostring(tree, encoding="unicode")


def _converted(node: nodes.Element, *, block: bool) -> str:
    """Return a formula as an element of a page, or as it was written where there is no other way."""
    code = node.astext().strip()
    try:
        return mathml(code, block=block)
    except (MathError, SyntaxError) as error:
        _log.warning("No MathML for %r: %s", code, error, location=node)
        return f"<code>{escape(code)}</code>"


def _inline(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<span class="math">{_converted(node, block=False)}</span>')
    raise nodes.SkipNode


def _display(writer: Any, node: nodes.Element) -> None:
    writer.body.append(f'<div class="math">{_converted(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer to `html_math_renderer`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Formulas as MathML, which browsers draw themselves: the pages ask nothing of the network."""

from __future__ import annotations

from html import escape
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

_log = logging.getLogger(__name__)


def _converted(node: nodes.Element, *, block: bool) -> str:
    """Return a formula as an element of a page, or as it was written where there is no other way."""
    code = node.astext().strip()
    try:
        return str(tex2mathml(code, as_block=block))
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

"""What a notebook shows of a fitted model: no script, nothing of the network, in the colours of the notebook."""

from __future__ import annotations

from html import escape
from typing import Any

from dyadlearn._printing import html_table, printable
from dyadlearn.views.glance import Glance, glance_of

__all__ = ["html_of_glance", "html_of_model"]

# Nothing has a colour of its own, so that it reads on a dark page as on a light one.
_STYLE = (
    ".dyadlearn{font-size:.9em;line-height:1.45;max-width:62em}"
    ".dyadlearn table{border-collapse:collapse;margin:.3em 0;font-size:1em}"
    ".dyadlearn td,.dyadlearn th{padding:.15em .8em .15em 0;border-bottom:1px solid rgba(128,128,128,.35);"
    "vertical-align:top;overflow-wrap:anywhere;max-width:28em}"
    ".dyadlearn p{margin:.25em 0}"
    ".dyadlearn .note{opacity:.8}"
    ".dyadlearn summary{cursor:pointer}"
)


def html_of_model(model: Any, diagram: str) -> str:
    """Return a fitted estimator as markup.

    Parameters
    ----------
    model : fitted estimator
    diagram : str
        Its parameters, as markup; they are folded away.
    """
    return (
        f"{html_of_glance(glance_of(model))[: -len('</div>')]}"
        f"<details><summary>Parameters</summary>{diagram}</details></div>"
    )


def html_of_glance(glance: Glance) -> str:
    """Return what there is to say of a model as markup, in which every text is text."""
    parts = [f"<p><b>{_text(glance.title)}</b></p>"]
    if glance.sides:
        rows = [[side.name, f"{side.size:,}", side.ids, side.described] for side in glance.sides]
        parts.append(html_table(["side", "number", "ids", "described by"], rows, left=4))
    if glance.facts:
        parts.append("".join(f"<p><b>{_text(name)}</b> {_text(words)}</p>" for name, words in glance.facts))
    if glance.scores is not None:
        parts.append(glance.scores._repr_html_())
    parts += [f'<p class="note">{_text(note)}</p>' for note in glance.notes]
    return f'<div class="dyadlearn"><style>{_STYLE}</style>{"".join(parts)}</div>'


def _text(words: str) -> str:
    return escape(printable(words))

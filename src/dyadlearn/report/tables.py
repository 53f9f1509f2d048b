"""The tables of a page: scores of the settings, and lists of pairs to sort and to search."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from html import escape
from typing import Any

from dyadlearn._printing import number
from dyadlearn.report.scores import comparison, introduction, said, score_rows
from dyadlearn.settings import Setting
from dyadlearn.views.summary import Summary

__all__ = ["contradicting", "identity", "likeliest", "settings"]

# A word of more letters has to be broken somewhere.
_LONGEST_WORD = 24


def identity(name: Hashable) -> str:
    """Return an id as markup: text whatever it is, in its own direction, that breaks between its words.

    Examples
    --------
    >>> from dyadlearn.report.tables import identity
    >>> identity("MAP_kinase<2>")
    '<bdi>MAP_<wbr>kinase&lt;2&gt;</bdi>'
    """
    text = str(name)
    longest = max(map(len, re.split(r"\s+|(?<=[_\-/.:;,|+])", text)))
    kind = ' class="long"' if longest > _LONGEST_WORD else ""
    return f"<bdi{kind}>{_breaking(text)}</bdi>"


def _breaking(text: str) -> str:
    """Return any text as safe markup that may break after its dashes and underscores."""
    return "<wbr>".join(map(escape, re.split(r"(?<=[_\-/.:;,|+])(?=[^\W\d])", text)))


def settings(summary: Summary) -> str:
    """Return how the model does in each setting, beside what it is to be compared with."""
    found, names = summary.results, summary.apart
    own = ' <span class="own">chosen here</span>'
    head = "".join(
        f"<th scope='col'>{escape(names.in_words(each.setting))}{own if each.setting is summary.own else ''}</th>"
        for each in found
    )
    body = "".join(
        f"<tr class='{row.kind}'><th scope='row'>{_breaking(row.name)}</th>"
        f"{''.join(f'<td>{escape(text)}</td>' for text in row.texts)}</tr>"
        for row in score_rows(summary)
    )
    new = "".join(f"<li><b>{each.setting.value}</b> {escape(said(each.setting, summary.names))}</li>" for each in found)
    return (
        f"<p>{escape(introduction(summary))}</p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Scores of the settings'>"
        f"<table class='plain scores'><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<ul class='said'>{new}</ul><p>{escape(comparison(summary))}</p>"
    )


def contradicting(summary: Summary) -> str:
    """Return the labels that the model would not have believed."""
    found, grid = summary.contradicting, summary.grid
    if found is None or not len(found):
        return ""
    if grid.is_binary:
        meaning = (
            "The contradiction of a positive label is the share of negative ones that are predicted higher, that of a "
            "negative label the share of positive ones that are predicted lower."
        )
    else:
        meaning = "The contradiction is the distance between label and prediction."
    words = (
        f"The {len(found):,} of {grid.n_observed:,} labels that contradict most what the model predicts for them "
        f"without them: the first places to look for wrong labels. The predictions are those of setting "
        f"{escape(summary.apart.in_words(Setting(found.setting)))}, the best ones over all cells. {meaning}"
    )
    rows = zip(found.instances, found.tasks, found.labels, found.predictions, found.contradictions, strict=True)
    heads = {"label": 3, "held out": 3, "contradiction": 4}
    return f"<p>{words}</p>" + _listing("cell-table", "Contradicting labels", summary, heads, rows)


def likeliest(summary: Summary) -> str:
    """Return the pairs that nobody has looked at and that are predicted highest."""
    found = summary.likeliest
    if found is None or not len(found):
        return ""
    zeros = (
        " A label of 0 counts as not observed, and is predicted without itself." if (found.labels == 0).any() else ""
    )
    words = (
        f"The {len(found):,} pairs that are not observed with the highest predictions ({escape(found.method)}): the "
        f"first ones to try.{zeros}"
    )
    rows = zip(found.instances, found.tasks, found.scores, strict=True)
    return f"<p>{words}</p>" + _listing("pair-table", "Likeliest unobserved pairs", summary, {"predicted": 4}, rows)


def _listing(name: str, title: str, summary: Summary, heads: dict[str, int], rows: Iterable[Sequence[Any]]) -> str:
    """Return pairs with numbers as a table to sort and to search, which comes in the order of its last column.

    Parameters
    ----------
    name : str
        An id that nothing else on the page has.
    title : str
        What a reader who does not see it is told.
    summary : Summary
    heads : dict of str to int
        Headings of the numbers, and in how many digits they are written.
    rows : iterable of (instance, task, number, …)
    """
    *others, last = heads
    kinds = [
        *((word, "data-kind='text'") for word in summary.apart),
        *((word, "data-kind='number'") for word in others),
    ]
    kinds.append((last, "data-kind='number' aria-sort='descending'"))
    head = "".join(f"<th scope='col' {kind}><button type='button'>{escape(word)}</button></th>" for word, kind in kinds)
    lines = [
        f"<tr><td>{identity(instance)}</td><td>{identity(task)}</td>"
        + "".join(_number(value, digits) for value, digits in zip(values, heads.values(), strict=True))
        + "</tr>"
        for instance, task, *values in rows
    ]
    shown = f"{len(lines):,}"
    return (
        '<div class="listing"><div class="search"><label>Search ids <input type="search" autocomplete="off" '
        f'spellcheck="false"></label><output aria-live="polite">{shown} of {shown}</output></div>'
        f'<div class="scroll tall" tabindex="0" role="region" aria-label="{escape(title)}"><table id="{name}">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table></div>"
        '<p class="printed">Of a long table only the first forty rows are printed.</p></div>'
    )


def _number(value: float, digits: int) -> str:
    return f'<td data-value="{float(value)!r}">{number(value, digits)}</td>'

"""The tables of a page: scores of the settings, lists of pairs to sort and to search, and tables with bars."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from html import escape
from typing import Any

from dyadlearn._printing import number
from dyadlearn.diagnostics.explaining import Contributions, Explanation
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.report.figures import figure
from dyadlearn.selection.baselines import in_words
from dyadlearn.selection.nested import Interval
from dyadlearn.settings import Setting
from dyadlearn.views.summary import Summary
from dyadlearn.views.weights import percent

__all__ = ["contradicting", "explanations", "identity", "in_between", "learned_kernels", "likeliest", "settings"]

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


# Scores -----------------------------------------------------------------------------------------------


def in_between(interval: Interval | None) -> str:
    """Return the two ends of an interval, a dash where there is none.

    Examples
    --------
    >>> from dyadlearn.report.tables import in_between
    >>> in_between(None)
    '–'
    """
    return "–" if interval is None else f"{number(interval.low, 3)} … {number(interval.high, 3)}"


def settings(summary: Summary) -> str:
    """Return how the model does in each setting, beside what it is to be compared with."""
    found, names = summary.results, summary.apart
    own = ' <span class="own">chosen here</span>'
    head = "".join(
        f"<th scope='col'>{escape(names.in_words(each.setting))}{own if each.setting is summary.own else ''}</th>"
        for each in found
    )
    body = "".join(
        f"<tr class='{kind}'><th scope='row'>{_breaking(name)}</th>"
        f"{''.join(f'<td>{escape(text)}</td>' for text in texts)}</tr>"
        for kind, name, texts in _score_rows(summary)
    )
    first, second = names
    every, other = summary.names.both
    new = {
        Setting.A: f"A pair that is missing; its {first} and its {second} are both known.",
        Setting.B: f"A new {first}, with the known {other}.",
        Setting.C: f"A new {second}, with the known {every}.",
        Setting.D: f"A new {first} with a new {second}: zero-shot.",
    }
    said = "".join(f"<li><b>{each.setting.value}</b> {escape(new[each.setting])}</li>" for each in found)
    introduction = (
        "Every label was predicted as if the model had never seen what the setting calls new. Greater scores are "
        f"better; those that rank are averaged over all cells in A and D, per {first} in B and per {second} in C."
    )
    return (
        f"<p>{escape(introduction)}</p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Scores of the settings'>"
        f"<table class='plain scores'><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<ul class='said'>{said}</ul><p>{escape(_comparison(summary))}</p>"
    )


def _score_rows(summary: Summary) -> list[tuple[str, str, list[str]]]:
    """Return the class, the name and the texts of each row that has any, with a text for each setting."""
    found, nan = summary.results, float("nan")
    rows = [
        ("main", summary.scoring, [number(each.score) for each in found]),
        ("", "95 % interval", [in_between(each.interval) for each in found]),
        ("", "permuted labels", [number(each.null) for each in found]),
    ]
    for name in BASELINES:
        rows.append(("", in_words(name, summary.apart), [number(each.baselines.get(name, nan)) for each in found]))
    for name in dict.fromkeys(name for each in found for name in each.others):
        rows.append(("", name, [number(each.others.get(name, nan)) for each in found]))
    rows += [
        ("", "90 % of labels within ±", [number(each.within, 3) for each in found]),
        ("words", "held out by", [each.method for each in found]),
    ]
    return [row for row in rows if row[0] == "main" or any(text != "–" for text in row[2])]


def _comparison(summary: Summary) -> str:
    """Return what it is that scores are to be compared with."""
    names = summary.apart
    said = (
        f"Simple means know no features and are held out alike: of all labels, of the {names.instance}, of "
        f"the {names.task}, and an effect of each (additive). Where a side is new, nothing is left of its own mean. "
    )
    if not all(math.isnan(each.null) for each in summary.results):
        said += (
            "Permuted labels are ten draws in which labels were dealt out anew among what is new, under the same "
            "regularisation: their mean is what the model reaches where there is nothing to learn, and no test "
            "(dyadlearn.permutation_test is one). "
        )
    intervals = [each.interval for each in summary.results if each.interval is not None]
    if intervals:
        said += (
            f"The interval holds 95 % of the scores of {intervals[0].n_resamples:,} grids whose "
            f"{summary.names.instances} and {summary.names.tasks} were drawn from these with replacement: "
            "how far the score may be off because others could have been studied."
        )
    return said


# Lists of pairs ---------------------------------------------------------------------------------------


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


# Tables with bars -------------------------------------------------------------------------------------


def explanations(summary: Summary) -> str:
    """Return the first of the likeliest pairs, each with the training labels that its prediction comes from."""
    if not summary.explanations:
        return ""
    said = "".join(_explanation(each, summary, is_first=place == 0) for place, each in enumerate(summary.explanations))
    return (
        "<h3>Where these predictions come from</h3><p>A prediction is a sum over the training labels, each times its "
        "weight: by how much the prediction would grow if that label were one larger. The same sum is shown by "
        f"{escape(summary.names.instance)}, by {escape(summary.names.task)} and by pair; it is what the model itself "
        f"predicts, which has seen all labels.</p>{said}"
    )


def _explanation(found: Explanation, summary: Summary, *, is_first: bool) -> str:
    first, second = summary.apart
    lists = [([first], found.instances), ([second], found.tasks), ([first, second], found.pairs)]
    if found.is_network:  # both sides have the same list
        lists[:2] = [([summary.names.instance], found.instances)]
    body = "".join(_contributions(heads, each, found.prediction) for heads, each in lists)
    return (
        f"<details{' open' if is_first else ''}><summary>{identity(found.instance)} <span>with</span> "
        f"{identity(found.task)}<strong>{number(found.prediction)}</strong></summary><div class='panels'>{body}</div>"
        "</details>"
    )


def _contributions(heads: list[str], found: Contributions, prediction: float) -> str:
    """Return the largest contributions, all others in one row, and their sum."""
    blank = [""] * len(heads)
    rows = []
    for each in found:
        ids = each.id if len(heads) > 1 else (each.id,)
        rows.append(([*map(identity, ids), number(each.label, 3)], each.contribution, number(each.contribution, 3)))
    if found.n_rest:
        rows.append(([f"{found.n_rest:,} others together", *blank], found.rest, number(found.rest, 3)))
    rows.append((["prediction", *blank], 0.0, number(prediction)))
    title, label = ("By pair", "label") if len(heads) > 1 else (f"By {heads[0]}", "mean label")
    return _bars(title, [*heads, label, "brings"], rows)


def learned_kernels(summary: Summary) -> str:
    """Return weights as bars and the errors of all stages; nothing for a model whose kernels are as they were given."""
    weights = summary.weights
    if weights is None:
        return ""
    panels = []
    for word, side in weights.named(summary.apart).items():
        exponents = [number(side.exponents.get(name, float("nan")), 3) for name in side.weights]
        rows = [
            ([identity(name), exponent], weight, percent(weight))
            for (name, weight), exponent in zip(side.weights.items(), exponents, strict=True)
        ]
        panels.append(_bars(f"Weights of the {word}", ["description", "exponent", "weighs"], rows))
    stages = [
        ([str(stage), "this model" if stage == weights.n_stages else ""], error, number(error))
        for stage, error in enumerate(weights.stage_errors, 1)
    ]
    note = "Held-out mean squared error, which was minimised and so is optimistic."
    panels.append(_bars("Stages", ["stage", "", "error"], stages, note))
    said = "" if weights.shares is None else f"The kernel between pairs is {weights.shares_in_words(summary.apart)}."
    return f'<p>{escape(said)}</p><div class="panels">{"".join(panels)}</div>'


def _bars(title: str, heads: Sequence[str], rows: Sequence[tuple[list[str], float, str]], note: str = "") -> str:
    """Return a table whose last column has a bar for each number.

    Parameters
    ----------
    title : str
    heads : sequence of str
    rows : sequence of (list of str, float, str)
        Cells as markup, the length of the bar, and what stands beside it.
    note : str, default=""
    """
    most = max(abs(value) for _, value, _ in rows) or 1.0
    columns = "".join(f"<th scope='col'>{escape(head)}</th>" if head else "<td></td>" for head in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}"
        f'<td><span class="brings {"minus" if value < 0 else "plus"}" style="--share: {abs(value) / most:.3f}"></span>'
        f"{text}</td></tr>"
        for cells, value, text in rows
    )
    table = f"<table class='plain bars'><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"
    return figure(f"<div class='scroll'>{table}</div>", escape(title), note=note)

"""The page: one file of text, styles, pictures and a short script, that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from datetime import date
from html import escape
from importlib.resources import files

from dyadlearn import __version__
from dyadlearn.report.data import Report, Result
from dyadlearn.report.figures import (
    curves_figure,
    degrees_figure,
    landscape_figure,
    levels_legend,
    levels_of,
    points_figures,
    points_note,
    spectrum_figure,
    values_figure,
)
from dyadlearn.report.picture import draw_grid
from dyadlearn.report.words import marked_up, number, power, setting_words

__all__ = ["render"]

_NEW = {"A": "the pair", "B": "the instance", "C": "the task", "D": "both"}
_SAID = {
    "A": "A pair that is missing, of an instance and a task that are both known.",
    "B": "A new instance, with the known tasks.",
    "C": "A new task, with the known instances.",
    "D": "A new instance with a new task: zero-shot.",
}


def render(report: Report) -> str:
    """Return the report as one page that needs nothing else.

    Parameters
    ----------
    report : Report

    Returns
    -------
    str
    """
    script = files("dyadlearn.report").joinpath("page.js").read_text(encoding="utf-8")
    style = files("dyadlearn.report").joinpath("page.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # Only our own script runs, and nothing is loaded, whatever an id contains.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    sections = [
        ("data", "Data", _data(report)),
        ("settings", "Settings", _settings(report)),
        ("landscape", "Landscape", _landscapes(report)),
        ("held-out", "Held-out predictions", _held_out(report)),
        ("cells", "Contradicting labels", _cells(report)),
        ("notes", "Notes", _list(report.notes)),
    ]
    shown = [(name, title, body) for name, title, body in sections if body]
    contents = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in shown)
    body = "".join(f'<section id="{name}"><h2>{title}</h2>{text}</section>' for name, title, text in shown)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="generator" content="dyadlearn {escape(__version__)}">
<title>{escape(report.title)}</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<header>
<p class="kicker">dyadlearn report</p>
<h1>{escape(report.title)}</h1>
{_facts(report.facts)}
{_tiles(report)}
</header>
<nav aria-label="Sections"><ul>{contents}</ul></nav>
<main>
{_warnings(report.warnings)}
{body}
</main>
<footer><p>Made with dyadlearn {escape(__version__)} on {date.today().isoformat()}. This page is one file and loads
nothing from elsewhere.</p></footer>
<script>{script}</script>
</body>
</html>
"""


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{marked_up(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{rows}</dl>'


def _tiles(report: Report) -> str:
    tiles = "".join(
        f'<li class="{"own" if each.is_own else ""}"><span class="letter">{each.setting.value}</span>'
        f'<span class="value">{number(each.score)}</span>'
        f'<span class="new">{escape(setting_words(each.setting)[3:])}</span></li>'
        for each in report.results
    )
    words = f"{escape(report.scoring)} of held-out predictions, in each setting"
    return f'<p class="key" id="tiles">{words}</p><ul class="tiles" aria-labelledby="tiles">{tiles}</ul>'


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return '<aside class="warnings none"><p>There is nothing to warn of.</p></aside>'
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    word = "Warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return f'<aside class="warnings" aria-label="Warnings"><h2>{word}</h2><ul>{items}</ul></aside>'


def _list(texts: Sequence[str]) -> str:
    return f"<ul class='notes'>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def _data(report: Report) -> str:
    labels = report.labels
    panels = [_grid(report)]
    if labels.is_binary or not labels.is_complete:
        panels.append(degrees_figure(labels))
    if not labels.is_binary:
        panels.append(values_figure(labels))
    panels.append(spectrum_figure(report.sides))
    panels.append(_kernels(report))
    return f'<div class="panels">{"".join(panels)}</div>'


def _kernels(report: Report) -> str:
    rows = {
        "size": [f"{side.n_rows:,}" for side in report.sides],
        "rank": [f"{side.rank:,}" for side in report.sides],
        "λ": ["–" if side.alpha is None else power(side.alpha) for side in report.sides],
        "effective dimension": [
            "–" if side.effective_dimension is None else f"{side.effective_dimension:,.1f}" for side in report.sides
        ],
        "kernel": [escape(side.kernel) for side in report.sides],
    }
    head = "".join(f"<th scope='col'>{side.name}</th>" for side in report.sides)
    body = "".join(
        f"<tr><th scope='row'>{name}</th>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"
        for name, texts in rows.items()
    )
    note = "The effective dimension counts the directions that are used, each as far as λ lets it through."
    table = f"<table class='plain'><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
    caption = f'<figcaption>Kernels<span class="note">{note}</span></figcaption>'
    return f'<figure>{caption}<div class="scroll">{table}</div></figure>'


def _grid(report: Report) -> str:
    labels, picture = report.labels, draw_grid(report.labels)
    m, q = labels.values.shape
    # Very long grids are stretched rather than drawn as a thread.
    ratio = min(max(q / m, 0.6), 2.2)
    sharp = " sharp" if max(picture.shape) <= 300 else ""
    words = f"{m:,} {labels.instance_word}s (down) × {q:,} {labels.task_word}s (across)"
    notes = []
    if labels.is_binary or not labels.is_complete:
        notes.append(f"those with the most {'positive' if labels.is_binary else 'observed'} labels first")
    if picture.block != (1, 1):
        notes.append(f"a pixel is the mean of {picture.block[0]} × {picture.block[1]} labels")
    if labels.is_binary:
        low, high = (number(value) for value in labels.distinct)
        share = " (stronger: more of them)" if picture.block != (1, 1) else ""
        keys = [("ink", f"label {high}{share}"), ("blank", f"label {low}")]
        if not labels.is_complete:
            keys.append(("missing", "not observed"))
    else:
        keys = [("ramp", f"{number(picture.ends[0])} to {number(picture.ends[1])}, 1 % at each end beyond")]
        if not labels.is_complete:
            keys.append(("blank", "not observed"))
    legend = "".join(f'<li><span class="swatch {kind}"></span>{escape(text)}</li>' for kind, text in keys)
    note = f'<span class="note">{escape("; ".join(notes))}</span>' if notes else ""
    return (
        f'<figure class="grid-picture"><figcaption>Grid{note}</figcaption>'
        f'<img class="pixels{sharp}" style="aspect-ratio: {ratio:.3f}" src="{picture.source}" alt="The grid of labels: '
        f'{escape(words)}"><p class="key">{escape(words)}</p><ul class="legend">{legend}</ul></figure>'
    )


def _settings(report: Report) -> str:
    names = list(dict.fromkeys(name for each in report.results for name in each.others))
    head = "".join(
        f'<th scope="col">{escape(word)}</th>'
        for word in ("setting", "new", report.scoring, *names, "undefined", "how it was held out")
    )
    rows = "".join(_setting_row(each, names) for each in report.results)
    said = "".join(f"<li><b>{each.setting.value}</b> {_SAID[each.setting.value]}</li>" for each in report.results)
    return (
        "<p>Every label was predicted as if the model had never seen what the setting calls new. Greater scores are "
        "better; those that rank are averaged over all cells in A and D, per instance in B and per task in C.</p>"
        "<div class='scroll' tabindex='0' role='region' aria-label='Scores of the settings'>"
        f"<table class='plain'><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        f"<ul class='said'>{said}</ul>"
    )


def _setting_row(each: Result, names: Sequence[str]) -> str:
    own = ' <span class="own">chosen here</span>' if each.is_own else ""
    others = "".join(f"<td>{number(each.others.get(name, float('nan')))}</td>" for name in names)
    return (
        f"<tr><th scope='row'>{each.setting.value}{own}</th><td>{_NEW[each.setting.value]}</td>"
        f"<td class='main'>{number(each.score)}</td>{others}<td>{each.n_undefined:,}</td>"
        f"<td>{escape(each.method)}</td></tr>"
    )


def _landscapes(report: Report) -> str:
    two = [each for each in report.landscapes if each.scores.ndim == 2]
    levels = levels_of(two)
    figures = "".join(landscape_figure(each, report.scoring, levels) for each in report.landscapes)
    if not figures:
        return ""
    key = levels_legend(levels) if two else ""
    marks = "The star is the regularisation of this model" + (
        ", the ring the best point of each map; between the points of the grid the colours are interpolated."
        if two
        else "."
    )
    if len(report.landscapes[0].chosen) > 1:
        marks = "The line has one regularisation for all tasks, the stars are those of single tasks."
    return (
        f"<p>{escape(report.scoring)} at every regularisation, by held-out predictions. {marks} Point at a figure, or "
        f'move over it with the arrow keys, to read its points.</p>{key}<div class="panels">{figures}</div>'
    )


def _held_out(report: Report) -> str:
    if all(each.held_out is None for each in report.results):
        return ""
    if report.labels.is_binary:
        figures = curves_figure("roc", report) + curves_figure("precision_recall", report)
        note = "Curves are averaged as the scores are, and thinned out to about two hundred points."
    else:
        figures, note = points_figures(report), points_note(report.labels.n_observed)
    return (f"<p>{note}</p>" if note else "") + f'<div class="panels">{figures}</div>'


def _cells(report: Report) -> str:
    result = report.result(report.cell_setting)
    if result is None or result.held_out is None or not report.cells:
        return ""
    labels = report.labels
    if labels.is_binary:
        meaning = (
            "The contradiction of a positive label is the share of negative ones that are predicted higher, that of a "
            "negative label the share of positive ones that are predicted lower."
        )
    else:
        meaning = "The contradiction is the distance between label and prediction."
    words = ("first node", "second node") if labels.is_network else (labels.instance_word, labels.task_word)
    # The rows come in the order of the last column.
    heads = [(word, "data-kind='text'") for word in words]
    heads += [("label", "data-kind='number'"), ("held out", "data-kind='number'")]
    heads += [("contradiction", "data-kind='number' aria-sort='descending'")]
    head = "".join(f"<th scope='col' {kind}><button type='button'>{name}</button></th>" for name, kind in heads)
    rows = "".join(
        f"<tr><td><bdi>{escape(labels.instances[i])}</bdi></td><td><bdi>{escape(labels.tasks[j])}</bdi></td>"
        f"{_number(labels.values[i, j], 3)}{_number(result.held_out[i, j], 3)}{_number(worst, 4)}</tr>"
        for i, j, worst in report.cells
    )
    n_shown = len(report.cells)
    return (
        f"<p>The {n_shown:,} of {labels.n_observed:,} labels that contradict most what the model predicts for them "
        f"without them: the first places to look for wrong labels. The predictions are those of setting "
        f"{escape(setting_words(result.setting))}, the best ones over all cells. {meaning}</p>"
        '<div class="search"><label for="find">Search ids</label><input id="find" type="search" autocomplete="off" '
        f'spellcheck="false"><output id="count" aria-live="polite">{n_shown:,} of {n_shown:,}</output></div>'
        '<div class="scroll tall" tabindex="0" role="region" aria-label="Contradicting labels"><table id="cell-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
        '<p class="printed">Of a long table only the first forty rows are printed.</p>'
    )


def _number(value: float, digits: int) -> str:
    return f'<td data-value="{float(value)!r}">{number(value, digits)}</td>'

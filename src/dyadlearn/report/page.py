"""The report: one HTML page with styles, figures, tables and a short script, which needs no network."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from dyadlearn import __version__
from dyadlearn._text import number
from dyadlearn.diagnostics.explaining import Contributions, Explanation
from dyadlearn.diagnostics.fitted import ids_at
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.report import figures
from dyadlearn.report.figures import CHOSEN_HERE, figure, marked_up, table
from dyadlearn.selection.evaluate import Interval, SettingScore, best_in_words, in_words
from dyadlearn.settings import Setting
from dyadlearn.views.by_task import LEAST_LABELS
from dyadlearn.views.cautions import Caution
from dyadlearn.views.spectrum import called
from dyadlearn.views.summary import Summary
from dyadlearn.views.weights import percent

# Longer words are broken anywhere.
_LONGEST_WORD = 24


@cache
def _fragments() -> dict[str, Template]:
    """Return the templates of parts of a page, by their names."""
    pattern = r"<!-- (\w+) -->\n(.*?)\n(?=<!-- |$)"
    parts = re.findall(pattern, _read("fragments.html"), re.DOTALL)
    return {name: Template(text.replace("\n", " ")) for name, text in parts}


def fill(part: str, /, **gaps: str) -> str:
    """Return a template with its placeholders replaced by markup; callers must escape text."""
    return _fragments()[part].substitute(gaps)


def _read(name: str) -> str:
    return files("dyadlearn.report").joinpath(name).read_text(encoding="utf-8")


def identity(name: Hashable, names: Mapping[str, str] | None = None) -> str:
    """Return an id as safe markup, with its direction of writing, that breaks between its words.

    If `names` has a name for the id, the name follows it.

    Examples
    --------
    >>> from dyadlearn.report.page import identity
    >>> identity("MAP_kinase<2>")
    '<bdi>MAP_<wbr>kinase&lt;2&gt;</bdi>'
    """
    text = str(name)
    if names and text in names:
        text += f" ({names[text]})"
    words = re.split(r"\s+|(?<=[_\-/.:;,|+])", text)
    longest = max(len(word) for word in words)
    kind = ' class="long"' if longest > _LONGEST_WORD else ""
    return f"<bdi{kind}>{_breaking(text)}</bdi>"


def _breaking(text: str) -> str:
    """Return a text as safe markup that may break after dashes and underscores."""
    parts = re.split(r"(?<=[_\-/.:;,|+])(?=[^\W\d])", text)
    return "<wbr>".join(escape(part) for part in parts)


# Scores -----------------------------------------------------------------------------------------------


def in_between(interval: Interval | None) -> str:
    """Return the two ends of an interval, or a dash if there is none.

    Examples
    --------
    >>> from dyadlearn.report.page import in_between
    >>> in_between(None)
    '–'
    """
    if interval is None:
        return "–"
    return f"{number(interval.low, 3)} … {number(interval.high, 3)}"


def settings(summary: Summary) -> str:
    """Return the table of scores in each setting, with baselines and intervals."""
    names = summary.apart
    heads = []
    items = []
    words = {key: escape(word) for key, word in _words(summary).items()}
    for result in summary.results:
        head = escape(names.in_words(result.setting))
        if result.setting is summary.searched:
            head += CHOSEN_HERE
        heads.append(head)
        items.append(fill(f"new_{result.setting.value}", **words))
    rows = []
    for kind, name, texts in _score_rows(summary):
        rows.append((kind, _breaking(name), [escape(text) for text in texts]))
    return fill(
        "settings",
        **words,
        table=table(heads, rows, "plain scores"),
        said="".join(items),
        comparison=escape(_comparison(summary)),
    )


def _words(summary: Summary) -> dict[str, str]:
    """Return the names of both sides for templates, in the singular and the plural."""
    first, second = summary.apart
    instances, tasks = summary.names.both
    return {"first": first, "second": second, "instances": instances, "tasks": tasks}


def _score_rows(summary: Summary) -> list[tuple[str, str, list[str]]]:
    """Return the class, the name and the texts of each row that has any, with a text for each setting."""
    results = summary.results
    scores = [number(result.score) for result in results]
    intervals = [in_between(summary.intervals.get(result.setting)) for result in results]
    nulls = [number(result.null) for result in results]
    rows = [
        ("main", summary.scoring, scores),
        ("", "95 % interval", intervals),
        ("", "permuted labels", nulls),
    ]
    for name in BASELINES:
        baselines = [number(result.baselines.get(name)) for result in results]
        rows.append(("", in_words(name, summary.apart), baselines))
    further: dict[str, list[str]] = {}
    for result in summary.others:
        further.setdefault(result.judge.name, []).append(number(result.score))
    for name, texts in further.items():
        rows.append(("", name, texts))
    within = summary.within()
    widths = [number(within[result.setting], 3) for result in results]
    methods = [result.reason or result.method for result in results]
    rows.append(("", "90 % of labels within ±", widths))
    rows.append(("words", "held out by", methods))
    for actual in Setting:
        counts = []
        for result in results:
            count = result.actual_counts.get(actual.value, 0)
            counts.append(f"{count:,}" if result.actual_counts else "–")
        rows.append(("", f"labels really in {actual.value}", counts))
    shown = []
    for kind, name, texts in rows:
        is_empty = all(text == "–" for text in texts)
        if kind == "main" or not is_empty:
            shown.append((kind, name, texts))
    return shown


def _comparison(summary: Summary) -> str:
    """Return an explanation of the baselines, permuted labels and intervals."""
    words = _words(summary)
    sentences = [fill("means", **words)]
    if not all(math.isnan(result.null) for result in summary.results):
        sentences.append(fill("permuted"))
    if summary.intervals:
        interval = next(iter(summary.intervals.values()))
        sentences.append(fill("intervals", count=f"{interval.n_resamples:,}", **words))
    return " ".join(sentences)


# Lists of pairs and tasks -----------------------------------------------------------------------------


def by_task(summary: Summary) -> str:
    """Return the correlation of labels and held-out predictions within each task."""
    scores = summary.by_task
    if scores is None:
        return ""
    order = scores.order
    ids = ids_at(summary.task_ids, order)
    rows = zip(ids, scores.counts[order].tolist(), scores.values[order].tolist(), strict=True)
    heads = {"labels": 9, "correlation": 3}
    words = _words(summary)
    within = "all_together" if 1 in scores.setting.new else "within_folds"
    title = f"By {words['second']}"
    listed = listing("task-table", title, [words["second"]], heads, rows, summary.id_names)
    values = scores.values[order]
    n_others = len(scores.values) - len(values)
    others = ""
    if n_others:
        others = fill("other_tasks", count=f"{n_others:,}", tasks=escape(words["tasks"]))
    return fill(
        "by_task",
        task=escape(words["second"]),
        tasks=escape(words["tasks"]),
        setting=escape(summary.apart.in_words(scores.setting)),
        method=escape(scores.method),
        median=number(float(np.median(values)), 3),
        positive=f"{int(np.count_nonzero(values > 0)):,}",
        count=f"{len(values):,}",
        others=others,
        within=fill(within, task=escape(words["second"]), least=str(LEAST_LABELS)),
        listing=listed,
    )


def by_similarity(summary: Summary) -> str:
    """Return the scores by the similarity of what was held out to what remained in training."""
    if not summary.by_similarity:
        return ""
    words = dict(zip(("instance", "task"), summary.names.both, strict=True))
    tables = []
    for result in summary.by_similarity:
        title = escape(summary.apart.in_words(result.setting))
        rows = []
        for side, band, *figures_of_band in zip(*result.columns.values(), strict=True):
            cells = [escape(number(figure_of_band)) for figure_of_band in figures_of_band]
            rows.append(("", f"{escape(words[side])}, {escape(band)}", cells))
        heads = ["held out", "labels", _breaking(result.scoring)]
        tables.append(f"<h3>{title}</h3>{table(heads, rows, 'plain scores')}")
    return fill("by_similarity", tables="".join(tables))


def contradicting(summary: Summary) -> str:
    """Return the labels that held-out predictions contradict most."""
    screening = summary.contradicting
    grid = summary.grid
    if not screening:
        return ""
    rows = zip(
        screening.instances,
        screening.tasks,
        screening.labels,
        screening.predictions,
        screening.contradictions,
        strict=True,
    )
    heads = {"label": 3, "held out": 3, "contradiction": 4}
    title = "Contradicting labels"
    listed = listing("cell-table", title, summary.apart, heads, rows, summary.id_names)
    return fill(
        "contradicting",
        count=f"{len(screening):,}",
        all=f"{grid.n_observed:,}",
        setting=escape(summary.apart.in_words(Setting(screening.setting))),
        meaning=fill("binary" if grid.is_binary else "distance"),
        listing=listed,
    )


def likeliest(summary: Summary) -> str:
    """Return the unobserved pairs with the highest predictions."""
    pairs = summary.likeliest
    if not pairs:
        return ""
    zeros = ""
    if (pairs.labels == 0).any():
        zeros = " A label of 0 counts as not observed, and is predicted without itself."
    rows = zip(pairs.instances, pairs.tasks, pairs.scores, strict=True)
    title = "Likeliest unobserved pairs"
    heads = {"predicted": 4}
    listed = listing("pair-table", title, summary.apart, heads, rows, summary.id_names)
    return fill(
        "likeliest",
        count=f"{len(pairs):,}",
        method=escape(pairs.method),
        zeros=zeros,
        meaning=fill("rank_of_binary" if summary.grid.is_binary else "rank_of_real"),
        listing=listed,
    )


def listing(
    name: str,
    title: str,
    ids: Sequence[str],
    heads: Mapping[str, int],
    rows: Iterable[Sequence[Any]],
    names: Mapping[str, str] | None = None,
) -> str:
    """Return rows of ids and numbers as a table to sort and to search, sorted by its last column.

    Parameters
    ----------
    name : str
        Unique id of the table.
    title : str
        Description for screen readers.
    ids : sequence of str
        Headings of the ids.
    heads : mapping of str to int
        Headings of the numbers, and their numbers of digits.
    rows : iterable of (id, …, number, …)
    names : mapping of str to str, default=None
        Names to show after ids.
    """
    kinds = ["data-kind='text'"] * len(ids) + ["data-kind='number'"] * len(heads)
    kinds[-1] += " aria-sort='descending'"
    head = "".join(
        f"<th scope='col' {kind}><button type='button'>{escape(word)}</button></th>"
        for word, kind in zip([*ids, *heads], kinds, strict=True)
    )
    lines = []
    for row in rows:
        labels, values = row[: len(ids)], row[len(ids) :]
        cells = [f"<td>{identity(label, names)}</td>" for label in labels]
        for value, digits in zip(values, heads.values(), strict=True):
            cells.append(f'<td data-value="{float(value)!r}">{number(value, digits)}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return fill(
        "listing",
        name=name,
        title=escape(title),
        head=head,
        body="".join(lines),
        count=f"{len(lines):,}",
    )


# Tables with bars -------------------------------------------------------------------------------------


def explanations(summary: Summary) -> str:
    """Return the explanations of the first of the likeliest pairs."""
    if not summary.explanations:
        return ""
    items = []
    for place, explanation in enumerate(summary.explanations):
        items.append(_explanation(explanation, summary, is_first=place == 0))
    names = summary.names
    return fill(
        "explanations",
        instance=escape(names.instance),
        task=escape(names.task),
        said="".join(items),
    )


def _explanation(explanation: Explanation, summary: Summary, *, is_first: bool) -> str:
    """Return the contributions to one prediction as tables, which are open for the first pair."""
    first, second = summary.apart
    names = summary.id_names
    if explanation.is_network:  # both sides have the same list
        lists = [([summary.names.instance], explanation.instances)]
    else:
        lists = [([first], explanation.instances), ([second], explanation.tasks)]
    lists.append(([first, second], explanation.pairs))
    panels = []
    for heads, contributions in lists:
        panels.append(_contributions(heads, contributions, explanation.prediction, names))
    return fill(
        "explanation",
        instance=identity(explanation.instance, names),
        task=identity(explanation.task, names),
        open=" open" if is_first else "",
        prediction=number(explanation.prediction),
        panels="".join(panels),
    )


def _contributions(
    heads: list[str], contributions: Contributions, prediction: float, names: Mapping[str, str]
) -> str:
    """Return the largest contributions, all others in one row, and their sum."""
    are_pairs = len(heads) > 1
    blank = [""] * len(heads)
    rows = []
    for item in contributions:
        ids = item.id if are_pairs else (item.id,)
        cells = [*(identity(label, names) for label in ids), number(item.label, 3)]
        rows.append((cells, item.contribution, number(item.contribution, 3)))
    if contributions.n_rest:
        cells = [f"{contributions.n_rest:,} others together", *blank]
        rows.append((cells, contributions.rest, number(contributions.rest, 3)))
    rows.append((["prediction", *blank], 0.0, number(prediction)))
    title = "By pair" if are_pairs else f"By {heads[0]}"
    label = "label" if are_pairs else "mean label"
    return bars(title, [*heads, label, "brings"], rows)


def learned_kernels(summary: Summary) -> str:
    """Return the weights of learned kernels as bars and the errors of all stages; empty without learned kernels."""
    weights = summary.weights
    if weights is None:
        return ""
    panels = []
    for side, values in weights.weights.items():
        exponents = weights.exponents[side]
        rows = []
        for name, weight in values.items():
            cells = [identity(name), number(exponents.get(name), 3)]
            rows.append((cells, weight, percent(weight)))
        title = f"Weights of the {called(side, summary.apart)}"
        panels.append(bars(title, ["description", "exponent", "weighs"], rows))
    stages = []
    for stage, error in enumerate(weights.stage_errors, 1):
        cells = [str(stage), "this model" if stage == weights.n_stages else ""]
        stages.append((cells, error, number(error)))
    note = "Held-out mean squared error, which was minimised and so is optimistic."
    panels.append(bars("Stages", ["stage", "", "error"], stages, note))
    shares = ""
    if weights.shares is not None:
        shares = f"The kernel between pairs is {weights.shares_in_words(summary.apart)}."
    return f'<p>{escape(shares)}</p><div class="panels">{"".join(panels)}</div>'


def bars(
    title: str, heads: Sequence[str], rows: Sequence[tuple[list[str], float, str]], note: str = ""
) -> str:
    """Return a table whose last column has a bar for each number.

    Parameters
    ----------
    title : str
    heads : sequence of str
    rows : sequence of (list of str, float, str)
        Cells as markup, the length of the bar, and the text beside it.
    note : str, default=""
    """
    most = max(abs(value) for _, value, _ in rows) or 1.0
    columns = ""
    for head in heads:
        columns += f"<th scope='col'>{escape(head)}</th>" if head else "<td></td>"
    body = ""
    for cells, value, text in rows:
        sign = "minus" if value < 0 else "plus"
        marked = "".join(f"<td>{cell}</td>" for cell in cells)
        body += fill("bar", cells=marked, sign=sign, share=f"{abs(value) / most:.3f}", text=text)
    body = (
        f"<table class='plain bars'><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"
    )
    return figure(f"<div class='scroll'>{body}</div>", escape(title), note=note)


def render(summary: Summary, write: Callable[[str], str] = str) -> str:
    """Return the report as a self-contained HTML page.

    Parameters
    ----------
    summary : Summary
    write : callable, default=str
        Function that writes notes and warnings for a place other than Python.
    """
    notes = list(map(write, summary.notes))
    cautions = [caution.written(write) for caution in summary.cautions]
    sections = [
        ("data", "Data", _data(summary)),
        ("kernels", "Learned kernels", learned_kernels(summary)),
        ("settings", "Settings", settings(summary)),
        ("landscape", "Landscape", _landscapes(summary)),
        ("held-out", "Held-out predictions", _held_out(summary)),
        ("by-task", f"By {summary.apart.task}", by_task(summary)),
        ("similarity", "Similarity to training", by_similarity(summary)),
        ("cells", "Contradicting labels", contradicting(summary)),
        ("pairs", "Likeliest unobserved pairs", likeliest(summary) + explanations(summary)),
        ("notes", "Notes", _list(notes)),
    ]
    return page_of(summary.title, summary.facts, _tiles(summary), cautions, sections)


def page_of(
    title: str,
    facts: Sequence[tuple[str, str]],
    tiles: str,
    cautions: Sequence[Caution],
    sections: Iterable[tuple[str, str, str]],
) -> str:
    """Return a page of sections (anchor, heading, markup); those without markup are left out."""
    template, style, script = (_read(f"page.{kind}") for kind in ("html", "css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # The policy allows only our script and loads nothing, whatever an id contains.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    contents = ""
    body = ""
    for name, words, text in sections:
        if text:
            heading = escape(words)
            contents += f'<li><a href="#{name}">{heading}</a></li>'
            body += f'<section id="{name}"><h2>{heading}</h2>{text}</section>'
    return Template(template).substitute(
        policy=escape(policy),
        version=escape(__version__),
        title=escape(title),
        style=style,
        facts=_facts(facts),
        tiles=tiles,
        contents=contents,
        warnings=_warnings(cautions),
        body=body,
        date=date.today().isoformat(),
        script=script,
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = ""
    for name, value in facts:
        rows += f"<div><dt>{escape(name)}</dt><dd>{marked_up(value)}</dd></div>"
    return f'<dl class="facts">{rows}</dl>'


def _tiles(summary: Summary) -> str:
    """Return a tile for each setting: its score and what stands beside it."""
    tiles = ""
    for result in summary.results:
        tiles += fill(
            "tile",
            letter=result.setting.value,
            score=number(result.score),
            words=escape(summary.apart.in_words(result.setting)[3:]),
            kind="own" if result.setting is summary.searched else "",
            beside=_beside(result, summary),
        )
    return tiles_of(summary.scoring, "with its interval and baselines", tiles)


def tiles_of(scoring: str, beside: str, tiles: str) -> str:
    """Return the list of tiles, the score of each setting, below the words for them."""
    words = escape(f"{scoring} of held-out predictions in each setting, {beside}")
    return f'<p class="key" id="tiles">{words}</p><ul class="tiles" aria-labelledby="tiles">{tiles}</ul>'


def _beside(result: SettingScore, summary: Summary) -> str:
    """Return the interval, the best baseline and the score of permuted labels beside a score."""
    lines = []
    interval = summary.intervals.get(result.setting)
    if interval is not None:
        lines.append(("interval", f"{100 * interval.coverage:g} %", in_between(interval)))
    if result.baselines:
        lines.append(("means", "means", best_in_words(result.baselines, summary.apart)))
    if not math.isnan(result.null):
        lines.append(("null", "permuted", number(result.null)))
    return "".join(
        fill("beside", name=name, kind=kind, text=escape(text)) for kind, name, text in lines
    )


def _warnings(cautions: Sequence[Caution]) -> str:
    """Return the warnings; further forms of a warning can be opened."""
    if not cautions:
        return '<aside class="warnings none"><p>There are no warnings.</p></aside>'
    items = "".join(_warning(caution) for caution in cautions)
    if len(cautions) == 1:
        word = "Warning"
    else:
        word = f"{len(cautions)} warnings"
    return f'<aside class="warnings" aria-label="Warnings"><h2>{word}</h2><ul>{items}</ul></aside>'


def _warning(caution: Caution) -> str:
    """Return a warning with its number as an item."""
    text = escape(caution.texts[0])
    if caution.count > 1:
        text += f" <span class='times'>({caution.count} times)</span>"
    others = "".join(f"<li>{escape(other)}</li>" for other in caution.texts[1:])
    if others:
        n_others = len(caution.texts) - 1
        text += f"<details class='more'><summary>{n_others} more like it</summary><ul>{others}</ul></details>"
    return f"<li>{text}</li>"


def _list(texts: Sequence[str]) -> str:
    if not texts:
        return ""
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    return f"<ul class='notes'>{items}</ul>"


def _data(summary: Summary) -> str:
    """Return figures of the labels and of the kernels."""
    grid = summary.grid
    panels = [figures.grid(grid)]
    if grid.is_binary or grid.n_missing:
        panels.append(figures.degrees(grid))
    if not grid.is_binary:
        panels.append(figures.values(grid))
    panels += [
        figures.spectrum(summary.sides, summary.names),
        figures.kernels(summary.sides, summary.names),
    ]
    return f'<div class="panels">{"".join(panels)}</div>'


def _landscapes(summary: Summary) -> str:
    """Return the landscapes of all settings with their legend; empty without any."""
    levels = summary.levels()
    baselines: dict[Setting | None, dict[str, float]] = {}
    for result in summary.results:
        baselines[result.setting] = result.baselines
    panels = ""
    for view in summary.landscapes:
        is_chosen = view.setting is summary.searched
        panels += figures.landscape(
            view, levels, baselines[view.setting], summary.apart, is_chosen=is_chosen
        )
    if not panels:
        return ""
    legend = figures.levels_legend(levels) if levels else ""
    return fill("landscapes", scoring=escape(summary.scoring), legend=legend, panels=panels)


def _held_out(summary: Summary) -> str:
    """Return the curves or points of held-out predictions; empty without any."""
    if all(result.predictions is None for result in summary.results):
        return ""
    if summary.grid.is_binary:
        panels = figures.curves("roc", summary) + figures.curves("precision_recall", summary)
        note = "Curves are averaged as the scores are, and thinned out to about two hundred points."
    else:
        panels = figures.points(summary)
        n_labels = summary.grid.n_observed
        most = figures.MOST_POINTS
        note = ""
        if n_labels > most:
            note = f"{most:,} of {n_labels:,} labels are drawn, chosen at random."
    return f'<p>{note}</p><div class="panels">{panels}</div>'

"""The report: one HTML page with styles, figures, tables and a short script, which needs no network."""

from __future__ import annotations

import base64
import hashlib
import math
import os
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from dyadlearn import __version__
from dyadlearn._checks import check_whole
from dyadlearn._files.atomic import check_place, replacing
from dyadlearn._text import number
from dyadlearn.diagnostics.explaining import Contributions, Explanation
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.report import figures
from dyadlearn.report.figures import figure, marked_up, table
from dyadlearn.selection.evaluate import Interval, SettingScore, best_in_words, in_words
from dyadlearn.settings import Setting
from dyadlearn.views.summary import Summary, called, percent, summary_of

# Longer words are broken anywhere.
_LONGEST_WORD = 24


@cache
def _fragments() -> dict[str, Template]:
    """Return the templates of parts of a page, by their names."""
    found = re.findall(r"<!-- (\w+) -->\n(.*?)\n(?=<!-- |$)", _read("fragments.html"), re.DOTALL)
    return {name: Template(text.replace("\n", " ")) for name, text in found}


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
    text += f" ({names[text]})" if names and text in names else ""
    longest = max(map(len, re.split(r"\s+|(?<=[_\-/.:;,|+])", text)))
    kind = ' class="long"' if longest > _LONGEST_WORD else ""
    return f"<bdi{kind}>{_breaking(text)}</bdi>"


def _breaking(text: str) -> str:
    """Return a text as safe markup that may break after dashes and underscores."""
    return "<wbr>".join(map(escape, re.split(r"(?<=[_\-/.:;,|+])(?=[^\W\d])", text)))


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
    found = summary.results
    names = summary.apart
    own = ' <span class="own">chosen here</span>'
    heads = [
        f"{escape(names.in_words(each.setting))}{own if each.setting is summary.own else ''}"
        for each in found
    ]
    rows = [
        (kind, _breaking(name), map(escape, texts)) for kind, name, texts in _score_rows(summary)
    ]
    words = {key: escape(word) for key, word in _words(summary).items()}
    items = "".join(fill(f"new_{each.setting.value}", **words) for each in found)
    scores = table(heads, rows, "plain scores")
    return fill(
        "settings", **words, table=scores, said=items, comparison=escape(_comparison(summary))
    )


def _words(summary: Summary) -> dict[str, str]:
    """Return the names of both sides for templates, in the singular and the plural."""
    return dict(
        zip(
            ("first", "second", "instances", "tasks"),
            (*summary.apart, *summary.names.both),
            strict=True,
        )
    )


def _score_rows(summary: Summary) -> list[tuple[str, str, list[str]]]:
    """Return the class, the name and the texts of each row that has any, with a text for each setting."""
    found = summary.results
    within = summary.within()
    rows = [
        ("main", summary.scoring, [number(each.score) for each in found]),
        ("", "95 % interval", [in_between(summary.intervals.get(each.setting)) for each in found]),
        ("", "permuted labels", [number(each.null) for each in found]),
    ]
    for name in BASELINES:
        rows.append(
            (
                "",
                in_words(name, summary.apart),
                [number(each.baselines.get(name)) for each in found],
            )
        )
    for name in dict.fromkeys(each.judge.name for each in summary.others):
        rows.append(
            ("", name, [number(each.score) for each in summary.others if each.judge.name == name])
        )
    rows += [
        ("", "90 % of labels within ±", [number(within[each.setting], 3) for each in found]),
        ("words", "held out by", [each.reason or each.method for each in found]),
    ]
    return [row for row in rows if row[0] == "main" or any(text != "–" for text in row[2])]


def _comparison(summary: Summary) -> str:
    """Return an explanation of the baselines, permuted labels and intervals."""
    words = _words(summary)
    sentences = [fill("means", **words)]
    if not all(math.isnan(each.null) for each in summary.results):
        sentences.append(fill("permuted"))
    if summary.intervals:
        sentences.append(
            fill(
                "intervals",
                count=f"{next(iter(summary.intervals.values())).n_resamples:,}",
                **words,
            )
        )
    return " ".join(sentences)


# Lists of pairs ---------------------------------------------------------------------------------------


def contradicting(summary: Summary) -> str:
    """Return the labels that held-out predictions contradict most."""
    found = summary.contradicting
    grid = summary.grid
    if not found:
        return ""
    rows = zip(
        found.instances,
        found.tasks,
        found.labels,
        found.predictions,
        found.contradictions,
        strict=True,
    )
    heads = {"label": 3, "held out": 3, "contradiction": 4}
    return fill(
        "contradicting",
        count=f"{len(found):,}",
        all=f"{grid.n_observed:,}",
        setting=escape(summary.apart.in_words(Setting(found.setting))),
        meaning=fill("binary" if grid.is_binary else "distance"),
        listing=_listing("cell-table", "Contradicting labels", summary, heads, rows),
    )


def likeliest(summary: Summary) -> str:
    """Return the unobserved pairs with the highest predictions."""
    found = summary.likeliest
    if not found:
        return ""
    zeros = " A label of 0 counts as not observed, and is predicted without itself." * bool(
        (found.labels == 0).any()
    )
    rows = zip(found.instances, found.tasks, found.scores, strict=True)
    listing = _listing("pair-table", "Likeliest unobserved pairs", summary, {"predicted": 4}, rows)
    meaning = fill("rank_of_binary" if summary.grid.is_binary else "rank_of_real")
    words = {
        "count": f"{len(found):,}",
        "method": escape(found.method),
        "zeros": zeros,
        "meaning": meaning,
    }
    return fill("likeliest", **words, listing=listing)


def _listing(
    name: str, title: str, summary: Summary, heads: dict[str, int], rows: Iterable[Sequence[Any]]
) -> str:
    """Return pairs with numbers as a table to sort and to search, sorted by its last column.

    Parameters
    ----------
    name : str
        Unique id of the table.
    title : str
        Description for screen readers.
    summary : Summary
    heads : dict of str to int
        Headings of the numbers, and their numbers of digits.
    rows : iterable of (instance, task, number, …)
    """
    kinds = ["data-kind='text'"] * 2 + ["data-kind='number'"] * len(heads)
    kinds[-1] += " aria-sort='descending'"
    head = "".join(
        f"<th scope='col' {kind}><button type='button'>{escape(word)}</button></th>"
        for word, kind in zip([*summary.apart, *heads], kinds, strict=True)
    )
    lines = []
    for instance, task, *values in rows:
        cells = [f"<td>{identity(each, summary.id_names)}</td>" for each in (instance, task)]
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
    items = "".join(
        _explanation(each, summary, is_first=place == 0)
        for place, each in enumerate(summary.explanations)
    )
    names = summary.names
    return fill(
        "explanations", instance=escape(names.instance), task=escape(names.task), said=items
    )


def _explanation(found: Explanation, summary: Summary, *, is_first: bool) -> str:
    first, second = summary.apart
    lists = [([first], found.instances), ([second], found.tasks), ([first, second], found.pairs)]
    if found.is_network:  # both sides have the same list
        lists[:2] = [([summary.names.instance], found.instances)]
    names = summary.id_names
    body = "".join(_contributions(heads, each, found.prediction, names) for heads, each in lists)
    pair = {"instance": identity(found.instance, names), "task": identity(found.task, names)}
    opened = " open" if is_first else ""
    return fill(
        "explanation", **pair, open=opened, prediction=number(found.prediction), panels=body
    )


def _contributions(
    heads: list[str], found: Contributions, prediction: float, names: Mapping[str, str]
) -> str:
    """Return the largest contributions, all others in one row, and their sum."""
    blank = [""] * len(heads)
    rows = []
    for each in found:
        ids = each.id if len(heads) > 1 else (each.id,)
        cells = [*(identity(label, names) for label in ids), number(each.label, 3)]
        rows.append((cells, each.contribution, number(each.contribution, 3)))
    if found.n_rest:
        rows.append(
            ([f"{found.n_rest:,} others together", *blank], found.rest, number(found.rest, 3))
        )
    rows.append((["prediction", *blank], 0.0, number(prediction)))
    if len(heads) > 1:
        title, label = ("By pair", "label")
    else:
        title, label = (f"By {heads[0]}", "mean label")
    return _bars(title, [*heads, label, "brings"], rows)


def learned_kernels(summary: Summary) -> str:
    """Return the weights of learned kernels as bars and the errors of all stages; empty without learned kernels."""
    weights = summary.weights
    if weights is None:
        return ""
    panels = []
    for side, values in weights.weights.items():
        exponents = weights.exponents[side]
        rows = [
            ([identity(name), number(exponents.get(name), 3)], weight, percent(weight))
            for name, weight in values.items()
        ]
        title = f"Weights of the {called(side, summary.apart)}"
        panels.append(_bars(title, ["description", "exponent", "weighs"], rows))
    stages = [
        ([str(stage), "this model" if stage == weights.n_stages else ""], error, number(error))
        for stage, error in enumerate(weights.stage_errors, 1)
    ]
    note = "Held-out mean squared error, which was minimised and so is optimistic."
    panels.append(_bars("Stages", ["stage", "", "error"], stages, note))
    if weights.shares is None:
        shares = ""
    else:
        shares = f"The kernel between pairs is {weights.shares_in_words(summary.apart)}."
    return f'<p>{escape(shares)}</p><div class="panels">{"".join(panels)}</div>'


def _bars(
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
    columns = "".join(
        f"<th scope='col'>{escape(head)}</th>" if head else "<td></td>" for head in heads
    )
    body = ""
    for cells, value, text in rows:
        sign = "minus" if value < 0 else "plus"
        marked = "".join(f"<td>{cell}</td>" for cell in cells)
        body += fill("bar", cells=marked, sign=sign, share=f"{abs(value) / most:.3f}", text=text)
    body = (
        f"<table class='plain bars'><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>"
    )
    return figure(f"<div class='scroll'>{body}</div>", escape(title), note=note)


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    setting: Iterable[str | Setting] | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    n_permutations: int = 0,
    n: int = 200,
    notes: Iterable[str] = (),
    sides: tuple[str, str] | None = None,
    names: Mapping[Any, str] | None = None,
    progress: bool | None = None,
) -> Path:
    """Write an HTML report about a fitted model: its data, scores, regularisation and doubtful labels.

    The report is a single file that opens in any browser, without a network. It shows:

    - the grid of labels, the number of labels of instances and tasks, and the spectra of both kernels;
    - the weights of learned kernels;
    - the score in each setting, with an interval, baselines and, with `n_permutations`, the score of permuted labels;
    - the score at every regularisation;
    - ROC and precision–recall curves, or predictions against labels;
    - the labels that contradict their held-out predictions most;
    - the likeliest pairs that are not observed, and the training labels behind the first of these predictions;
    - warnings.

    Parameters
    ----------
    model : fitted estimator
        A model of pairs, a search such as `TwoStepRidgeCV`, or a `PairRegressor`.
    path : path
        File to write, such as ``"report.html"``; an existing file is replaced once the report is
        complete.
    title : str, default=None
        Heading; None uses the name of the model and the size of the grid.
    setting : iterable of settings, default=None
        Letters or aliases; None means all settings that the model supports, with two exceptions. If
        labels are missing, settings without a closed form are refitted for every fold; they are
        left out if that takes more than about half a minute, except the setting of the search
        (without a search B, for a network A). A model with learned kernels is shown in its setting
        only; its kernels are learned again in each fold, as in `dyadlearn.evaluate`.
    scoring : str or callable, default=None
        A name (see `dyadlearn.metrics.scorer`) or a function of the labels and the held-out
        predictions, both of shape (m, q); greater is better. None means the score of the search or,
        without a search, ``"roc_auc"`` for binary labels and ``"neg_mean_squared_error"`` for
        others.
    alphas, task_alphas : iterables of float, default=None
        Regularisations to score; None means those of the search or, without a search, the default
        grid of `dyadlearn.selection.default_alphas`.
    groups, task_groups : array-like of shape (m,) and (q,), or "identical", default=None
        Groups of instances and tasks that are left out together. None means the groups of the fit
        for the scores of a search, and no groups for its landscapes in other settings than its own.
    cv : int, SettingKFold or list of (training rows, test rows), default=None
        Folds, as in `dyadlearn.evaluate`.
    n_permutations : int, default=0
        Number of permutations of the labels to score beside the model, as in `dyadlearn.evaluate`.
    n : int, default=200
        Number of contradicted labels to list.
    notes : iterable of str, default=()
        Further warnings to show, such as those raised by `fit`.
    sides : (str, str), default=None
        Names of an instance and a task, such as ``("host", "parasite")``; the report uses them
        throughout.
    names : mapping of id to str, default=None
        Names of instances and tasks, which are shown after their ids.
    progress : bool, default=None
        Whether to show progress bars; None shows them on a terminal.

    Returns
    -------
    Path
        The file that was written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> from dyadlearn import TwoStepRidgeCV
    >>> from dyadlearn.report import write_report
    >>> rng = np.random.default_rng(0)
    >>> X, T = rng.normal(size=(20, 8)), rng.normal(size=(15, 6))
    >>> Y = X @ rng.normal(size=(8, 6)) @ T.T + 6 * rng.normal(size=(20, 15))
    >>> model = TwoStepRidgeCV(setting="D").fit(X, Y, tasks=T)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(model, pathlib.Path(folder) / "report.html").name
    'report.html'
    """
    target = Path(path)
    check_place(target)  # before anything is computed
    check_whole(n, "n")
    asked: dict[str, Any] = {
        "wanted": setting,
        "scoring": scoring,
        "alphas": alphas,
        "task_alphas": task_alphas,
    }
    asked |= {"groups": groups, "task_groups": task_groups, "cv": cv}
    asked |= {"n_permutations": n_permutations, "progress": progress}
    summary = summary_of(model, title=title, n_cells=n, notes=notes, sides=sides, **asked)
    summary = replace(
        summary, id_names={str(label): str(name) for label, name in (names or {}).items()}
    )
    # An id may contain a surrogate, which UTF-8 cannot encode.
    page = render(summary).encode("utf-8", errors="backslashreplace")
    with replacing(target) as file:
        file.write(page)
    return target


def render(summary: Summary) -> str:
    """Return the report as a self-contained HTML page."""
    template, style, script = (_read(f"page.{kind}") for kind in ("html", "css", "js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # The policy allows only our script and loads nothing, whatever an id contains.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    sections = [
        ("data", "Data", _data(summary)),
        ("kernels", "Learned kernels", learned_kernels(summary)),
        ("settings", "Settings", settings(summary)),
        ("landscape", "Landscape", _landscapes(summary)),
        ("held-out", "Held-out predictions", _held_out(summary)),
        ("cells", "Contradicting labels", contradicting(summary)),
        ("pairs", "Likeliest unobserved pairs", likeliest(summary) + explanations(summary)),
        ("notes", "Notes", _list(summary.notes)),
    ]
    shown = [(name, title, body) for name, title, body in sections if body]
    return Template(template).substitute(
        policy=escape(policy),
        version=escape(__version__),
        title=escape(summary.title),
        style=style,
        facts=_facts(summary.facts),
        tiles=_tiles(summary),
        contents="".join(f'<li><a href="#{name}">{title}</a></li>' for name, title, _ in shown),
        warnings=_warnings(summary.warnings),
        body="".join(
            f'<section id="{name}"><h2>{title}</h2>{text}</section>' for name, title, text in shown
        ),
        date=date.today().isoformat(),
        script=script,
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{marked_up(value)}</dd></div>" for name, value in facts
    )
    return f'<dl class="facts">{rows}</dl>'


def _tiles(summary: Summary) -> str:
    tiles = ""
    for each in summary.results:
        letter = each.setting.value
        words = escape(summary.apart.in_words(each.setting)[3:])
        look = {
            "kind": "own" if each.setting is summary.own else "",
            "beside": _beside(each, summary),
        }
        tiles += fill("tile", letter=letter, score=number(each.score), words=words, **look)
    words = f"{escape(summary.scoring)} of held-out predictions in each setting, with its interval and baselines"
    return f'<p class="key" id="tiles">{words}</p><ul class="tiles" aria-labelledby="tiles">{tiles}</ul>'


def _beside(each: SettingScore, summary: Summary) -> str:
    """Return the interval, the best baseline and the score of permuted labels beside a score."""
    lines = []
    interval = summary.intervals.get(each.setting)
    if interval is not None:
        lines.append(("interval", f"{100 * interval.coverage:g} %", in_between(interval)))
    if each.baselines:
        lines.append(("means", "means", best_in_words(each.baselines, summary.apart)))
    if not math.isnan(each.null):
        lines.append(("null", "permuted", number(each.null)))
    return "".join(
        fill("beside", name=name, kind=kind, text=escape(text)) for kind, name, text in lines
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return '<aside class="warnings none"><p>There are no warnings.</p></aside>'
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    word = "Warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return f'<aside class="warnings" aria-label="Warnings"><h2>{word}</h2><ul>{items}</ul></aside>'


def _list(texts: Sequence[str]) -> str:
    if texts:
        return f"<ul class='notes'>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>"
    return ""


def _data(summary: Summary) -> str:
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
    levels = summary.levels()
    means: dict[Setting | None, dict[str, float]] = {
        each.setting: each.baselines for each in summary.results
    }
    panels = "".join(
        figures.landscape(
            each, levels, means[each.setting], summary.apart, is_own=each.setting is summary.own
        )
        for each in summary.landscapes
    )
    if not panels:
        return ""
    legend = figures.levels_legend(levels) if levels else ""
    return fill("landscapes", scoring=escape(summary.scoring), legend=legend, panels=panels)


def _held_out(summary: Summary) -> str:
    if all(each.predictions is None for each in summary.results):
        return ""
    if summary.grid.is_binary:
        panels = figures.curves("roc", summary) + figures.curves("precision_recall", summary)
        note = "Curves are averaged as the scores are, and thinned out to about two hundred points."
    else:
        panels = figures.points(summary)
        n_labels = summary.grid.n_observed
        most = figures.MOST_POINTS
        if n_labels > most:
            note = f"{most:,} of {n_labels:,} labels are drawn, chosen at random."
        else:
            note = ""
    return f'<p>{note}</p><div class="panels">{panels}</div>'

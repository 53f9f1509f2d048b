"""The page: one file of text, styles, pictures and a short script, that asks the network for nothing."""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from dyadlearn import __version__
from dyadlearn._checks import check_count
from dyadlearn._files.atomic import check_place, replacing
from dyadlearn._printing import number
from dyadlearn.report import figures, tables
from dyadlearn.report.drawing import marked_up
from dyadlearn.selection.baselines import best_in_words
from dyadlearn.settings import Setting
from dyadlearn.views.evaluation import Result
from dyadlearn.views.summary import Summary, summary_of

__all__ = ["render", "write_report"]


def write_report(
    model: Any,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    settings: Iterable[str | Setting] | None = None,
    scoring: str | Callable[[Any, Any], float] | None = None,
    alphas: Iterable[float] | None = None,
    task_alphas: Iterable[float] | None = None,
    groups: Any = None,
    task_groups: Any = None,
    cv: Any = None,
    n_cells: int = 200,
    notes: Iterable[str] = (),
    sides: tuple[str, str] | None = None,
    progress: bool | None = None,
) -> Path:
    """Write one page about a fitted model: its data, its settings compared, its landscapes, its doubtful labels.

    The page is a single file that opens in any browser, offline. It shows the grid, the degrees and the spectra of
    both kernels, and what was learned of these, if anything was; the score in each setting, how far it may be off, and
    what simple means and permuted labels reach there; the score at every regularisation, to point at; ROC and
    precision–recall curves, or predictions against labels; the labels that contradict their held-out prediction most;
    the likeliest pairs that are not observed, and where the first of these predictions come from; and warnings.

    Parameters
    ----------
    model : fitted estimator
        A model of pairs, one that chooses its regularisation, or a `PairRegressor` of one.
    path : path
        Where to write, as ``"report.html"``; an existing file is replaced, and only by a whole one.
    title : str, default=None
        None makes one of the model and the size of the grid.
    settings : iterable of settings, default=None
        Letters or aliases. None is all that the model can be shown in. Where labels are missing, settings without a
        shortcut are solved again for every fold: they are left out where that takes more than about half a minute,
        but for the model's own (without search B, for a network A).
    scoring : str or callable, default=None
        A name (see `dyadlearn.metrics.scorer`) or a function of the labels and the held-out predictions, both of
        shape (m, q); greater is better. None is the score the model was chosen by, else ``"roc_auc"`` for labels of
        two values and ``"neg_mean_squared_error"`` for all others.
    alphas, task_alphas : iterables of float, default=None
        Regularisations of the landscapes. None is what the model has searched, else 10⁻⁷ … 10⁶.
    groups, task_groups : array-like of shape (m,) and (q,), default=None
        Instances and tasks that are left out together. A model that was chosen with groups has kept what it found,
        but not the groups: give them, that the other settings leave out the same.
    cv : int or SettingKFold, default=None
        Folds to leave out, as in `dyadlearn.landscape`.
    n_cells : int, default=200
        How many contradicting labels to list.
    notes : iterable of str, default=()
        Warnings to show beside those that are found, such as those that fitting gave.
    sides : (str, str), default=None
        What one instance and one task are called, as ``("host", "parasite")``; the page uses these words throughout.
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
    check_count(n_cells, "n_cells")
    asked: dict[str, Any] = {"wanted": settings, "scoring": scoring, "alphas": alphas, "task_alphas": task_alphas}
    asked |= {"groups": groups, "task_groups": task_groups, "cv": cv, "progress": progress}
    summary = summary_of(model, title=title, n_cells=n_cells, notes=notes, sides=sides, **asked)
    # An id may hold half a character, which no file can.
    page = render(summary).encode("utf-8", errors="backslashreplace")
    with replacing(target) as file:
        file.write(page)
    return target


def render(summary: Summary) -> str:
    """Return a page that needs nothing else."""
    template, style, script = (
        files("dyadlearn.report").joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css", "js")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    # Only our own script runs, and nothing is loaded, whatever an id contains.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    sections = [
        ("data", "Data", _data(summary)),
        ("kernels", "Learned kernels", tables.learned_kernels(summary)),
        ("settings", "Settings", tables.settings(summary)),
        ("landscape", "Landscape", _landscapes(summary)),
        ("held-out", "Held-out predictions", _held_out(summary)),
        ("cells", "Contradicting labels", tables.contradicting(summary)),
        ("pairs", "Likeliest unobserved pairs", tables.likeliest(summary) + tables.explanations(summary)),
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
        body="".join(f'<section id="{name}"><h2>{title}</h2>{text}</section>' for name, title, text in shown),
        date=date.today().isoformat(),
        script=script,
    )


def _facts(facts: Sequence[tuple[str, str]]) -> str:
    rows = "".join(f"<div><dt>{escape(name)}</dt><dd>{marked_up(value)}</dd></div>" for name, value in facts)
    return f'<dl class="facts">{rows}</dl>'


def _tiles(summary: Summary) -> str:
    tiles = "".join(
        f'<li class="{"own" if each.setting is summary.own else ""}"><span class="letter">{each.setting.value}</span>'
        f'<span class="value">{number(each.score)}</span>'
        f'<span class="new">{escape(summary.apart.in_words(each.setting)[3:])}</span>{_beside(each, summary)}</li>'
        for each in summary.results
    )
    words = f"{escape(summary.scoring)} of held-out predictions, in each setting, and what it is to be compared with"
    return f'<p class="key" id="tiles">{words}</p><ul class="tiles" aria-labelledby="tiles">{tiles}</ul>'


def _beside(each: Result, summary: Summary) -> str:
    """Return what a score is to be compared with."""
    lines = []
    if each.interval is not None:
        lines.append(("interval", f"{100 * each.interval.level:g} %", tables.in_between(each.interval)))
    if each.baselines:
        lines.append(("means", "means", best_in_words(each.baselines, summary.apart)))
    if not math.isnan(each.null):
        lines.append(("null", "permuted", number(each.null)))
    return "".join(
        f'<span class="beside"><small>{name}</small> <span class="{kind}">{escape(text)}</span></span>'
        for kind, name, text in lines
    )


def _warnings(warnings: Sequence[str]) -> str:
    if not warnings:
        return '<aside class="warnings none"><p>There is nothing to warn of.</p></aside>'
    items = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    word = "Warning" if len(warnings) == 1 else f"{len(warnings)} warnings"
    return f'<aside class="warnings" aria-label="Warnings"><h2>{word}</h2><ul>{items}</ul></aside>'


def _list(texts: Sequence[str]) -> str:
    return f"<ul class='notes'>{''.join(f'<li>{escape(text)}</li>' for text in texts)}</ul>" if texts else ""


def _data(summary: Summary) -> str:
    grid = summary.grid
    panels = [figures.grid(grid)]
    if grid.is_binary or not grid.is_complete:
        panels.append(figures.degrees(grid))
    if not grid.is_binary:
        panels.append(figures.values(grid))
    panels += [figures.spectrum(summary.sides, summary.names), figures.kernels(summary.sides, summary.names)]
    return f'<div class="panels">{"".join(panels)}</div>'


def _landscapes(summary: Summary) -> str:
    levels = summary.levels()
    means = {each.setting: each.baselines for each in summary.results}
    panels = "".join(
        figures.landscape(each, levels, means[setting], summary.apart, is_own=setting is summary.own)
        for each in summary.landscapes
        if (setting := each.setting) is not None
    )
    if not panels:
        return ""
    marks = "The star is the regularisation of this model."
    if np.unique(summary.landscapes[0].alpha).size > 1:
        tasks = escape(summary.names.tasks)
        marks = f"The line has one regularisation for all {tasks}, the stars are those of single {tasks}."
    return (
        f"<p>{escape(summary.scoring)} at each regularisation, by held-out predictions. {marks} Point at a figure, or "
        f"move over it with the arrow keys, to read its points.</p>{figures.levels_legend(levels) if levels else ''}"
        f'<div class="panels">{panels}</div>'
    )


def _held_out(summary: Summary) -> str:
    if not summary.predictions():
        return ""
    if summary.grid.is_binary:
        panels = figures.curves("roc", summary) + figures.curves("precision_recall", summary)
        note = "Curves are averaged as the scores are, and thinned out to about two hundred points."
    else:
        panels, n_labels = figures.points(summary), summary.grid.n_observed
        note = f"At most {figures.MOST_POINTS:,} of {n_labels:,} labels are drawn, chosen at random."
    return f'<p>{note}</p><div class="panels">{panels}</div>'

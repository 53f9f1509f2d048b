"""The report about a model of cells of any number of sides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from itertools import chain

from dyadlearn._text import number
from dyadlearn.report.figures import scatters, table
from dyadlearn.report.page import bars, fill, identity, listing, page_of, tiles_of
from dyadlearn.selection.evaluate import SettingScore, best_in_words, in_words
from dyadlearn.views.cells import CellSummary
from dyadlearn.views.weights import percent


def render_cells(summary: CellSummary, write: Callable[[str], str] = str) -> str:
    """Return the report as a self-contained HTML page; `write` is that of `render`."""
    notes = "".join(f"<li>{escape(text)}</li>" for text in summary.notes)
    panels = scatters(summary.clouds())
    sections = [
        ("variances", "Variances", _variances(summary)),
        ("fixed", "Fixed effects", _fixed(summary)),
        ("settings", "Settings", _settings(summary)),
        ("held-out", "Held-out predictions", panels and f'<div class="panels">{panels}</div>'),
        *_effects(summary),
        ("notes", "Notes", f"<ul class='notes'>{notes}</ul>"),
    ]
    cautions = [caution.written(write) for caution in summary.cautions]
    return page_of(summary.title, summary.facts, _tiles(summary), cautions, sections)


def _tiles(summary: CellSummary) -> str:
    """Return a tile for each setting: its score and the best baseline."""
    tiles = ""
    for result in summary.results:
        beside = ""
        if result.baselines:
            best = escape(best_in_words(result.baselines))
            beside = fill("beside", name="means", kind="means", text=best)
        tiles += fill(
            "tile",
            letter="",
            score=number(result.score),
            words=escape(result.setting.in_words),
            kind="",
            beside=beside,
        )
    return tiles_of(summary.scoring, "with the best baseline", tiles)


def _variances(summary: CellSummary) -> str:
    """Return the variances with their standard errors and their shares as bars."""
    rows = []
    for name, variance, error, share in zip(*summary.variances.values(), strict=True):
        cells = [identity(name), number(variance), number(error, 3)]
        rows.append((cells, share, percent(share)))
    heads = ["term", "variance", "standard error", "share"]
    panel = bars("Variances", heads, rows)
    return f'{fill("variances")}<div class="panels">{panel}</div>'


def _fixed(summary: CellSummary) -> str:
    """Return the coefficients of the fixed columns."""
    rows = [([identity(name)], value, number(value)) for name, value in summary.fixed.items()]
    if not rows:
        return ""
    panel = bars("Coefficients", ["column", "coefficient"], rows)
    return f'{fill("fixed_effects")}<div class="panels">{panel}</div>'


def _settings(summary: CellSummary) -> str:
    """Return the table of scores in each setting, with baselines."""
    heads = [escape(result.setting.in_words) for result in summary.results]
    rows = [("main", escape(summary.scoring), _texts(summary.results))]
    for name in dict.fromkeys(chain(*(result.baselines for result in summary.results))):
        texts = [number(result.baselines.get(name)) for result in summary.results]
        rows.append(("", escape(in_words(name)), texts))
    for name in dict.fromkeys(result.judge.name for result in summary.others):
        same = [result for result in summary.others if result.judge.name == name]
        rows.append(("", escape(name), _texts(same)))
    methods = [escape(result.method) for result in summary.results]
    rows.append(("words", "held out by", methods))
    return fill("cell_settings", table=table(heads, rows, "plain scores"))


def _texts(results: Sequence[SettingScore]) -> list[str]:
    return [number(result.score) for result in results]


def _effects(summary: CellSummary) -> list[tuple[str, str, str]]:
    """Return a section for each term of one side: its effects to sort and to search."""
    sections = []
    heads = {"reliability": 3, "std": 3, "effect": 4}
    for place, (term, columns) in enumerate(summary.effects.items()):
        rows = zip(columns[term], *(columns[name] for name in heads), strict=True)
        title = f"Effects of {term}"
        listed = listing(f"effects-{place}", title, [term], heads, rows, summary.id_names)
        more = ""
        if summary.n_left_out[term]:
            more = f" The other {summary.n_left_out[term]:,} are left out."
        text = fill("effects", term=escape(term), more=more, listing=listed)
        sections.append((f"effects-of-{place}", title, text))
    return sections

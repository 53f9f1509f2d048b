"""Every figure of a report, from its numbers to an element of the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from dyadlearn.report.contours import loss_levels, refined, rings
from dyadlearn.report.curves import curve, thinned
from dyadlearn.report.data import Labels, Landscape, Report, Side
from dyadlearn.report.drawing import Chart, linear_axis, power_axis
from dyadlearn.report.words import marked_up, number, power, setting_words

__all__ = [
    "curves_figure",
    "degrees_figure",
    "landscape_figure",
    "levels_legend",
    "levels_of",
    "points_figures",
    "points_note",
    "spectrum_figure",
    "values_figure",
]

_MOST_POINTS = 3000
# Bands of a map are coloured by the page, from the best (0) to the worst.
_BANDS = 10


def figure(body: str, caption: str, *, kind: str = "", note: str = "") -> str:
    """Return a figure with its caption."""
    said = f'<span class="note">{marked_up(note)}</span>' if note else ""
    return f'<figure class="{kind}"><figcaption>{caption}{said}</figcaption>{body}</figure>'


def legend(entries: Sequence[tuple[str, str]]) -> str:
    """Return what lines mean: (kind, words) each."""
    items = "".join(
        f'<li><svg viewBox="0 0 26 8" aria-hidden="true"><path class="line {kind}" d="M1 4H25"/></svg>'
        f"{escape(words)}</li>"
        for kind, words in entries
    )
    return f'<ul class="legend">{items}</ul>'


def degrees_figure(labels: Labels) -> str:
    """Draw how many instances and tasks have at least so many labels."""
    counted = "positive" if labels.is_binary else "observed"
    sides = labels.degrees()[: 1 if labels.is_network else 2]
    most = max(int(side.counts.max()) for side in sides)
    chart = Chart(
        linear_axis(0, max(most, 1), f"{counted} labels, k"),
        linear_axis(0, 1, "share with k or more"),
        f"Share of each side that has at least k {counted} labels",
    )
    entries = []
    for index, (word, side) in enumerate(zip((labels.instance_word, labels.task_word), sides, strict=False)):
        levels, share = side.at_least()
        # A share holds up to its degree and drops after it.
        chart.line(*_steps(np.array([0, *levels, levels[-1]]), np.array([1.0, *share, 0.0])), f"side-{index}")
        words = f"{side.counts.size:,} {word}s: median {np.median(side.counts):g}, most {side.counts.max():,}"
        entries.append((f"side-{index}", words))
    return figure(chart.render("degrees") + legend(entries), "Degrees")


def _steps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a line of stairs, in which each value holds up to its place."""
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def values_figure(labels: Labels) -> str:
    """Draw how often labels of each size occur."""
    values = labels.values[labels.observed]
    counts, edges = np.histogram(values, bins=min(40, max(5, int(values.size**0.5))))
    chart = Chart(
        linear_axis(float(edges[0]), float(edges[-1]), "label"),
        linear_axis(0, float(counts.max()), "number of labels"),
        "How often labels of each size occur",
    )
    chart.bars(edges, counts.astype(np.float64), "bar")
    return figure(chart.render("values"), "Labels")


def spectrum_figure(sides: Sequence[Side]) -> str:
    """Draw the eigenvalues of both sides, and the regularisation they are compared with."""
    drawn = [(side, side.values[: side.rank]) for side in sides if side.values is not None and side.rank]
    if not drawn:
        return ""
    highest = float(max(values[0] for _, values in drawn))
    lowest = max(float(min(values[-1] for _, values in drawn)), 1e-10 * highest)
    longest = max(side.rank for side, _ in drawn)
    chart = Chart(
        power_axis(0, max(np.log10(longest), 0.3), "rank of the eigenvalue", [1, longest]),
        power_axis(np.log10(lowest) - 0.1, np.log10(highest) + 0.1, "eigenvalue σ", [lowest, highest]),
        "Eigenvalues of the kernels in descending order",
    )
    entries = []
    for index, (side, values) in enumerate(drawn):
        ranks = np.unique(np.rint(np.geomspace(1, side.rank, 200)).astype(int))
        chart.line(np.log10(ranks), np.log10(values[ranks - 1]), f"side-{index}")
        entries.append((f"side-{index}", side.name))
        if side.alpha is not None and lowest <= side.alpha <= highest:
            level = np.log10(side.alpha)
            chart.line([0, chart.x.high], [level, level], f"side-{index} level")
            chart.mark(chart.x.high, level, "λ" if len(drawn) == 1 else ("λ_d", "λ_t")[index], f"side-{index}")
    kept = any(side.alpha is not None for side, _ in drawn)
    note = "Directions above their λ are kept, those below it fade." if kept else ""
    return figure(chart.render("spectrum") + legend(entries), "Kernel spectra", note=note)


def curves_figure(kind: str, report: Report) -> str:
    """Draw the ROC or precision–recall curves of all settings."""
    is_roc = kind == "roc"
    labels = ("false positive rate", "true positive rate") if is_roc else ("recall", "precision")
    name, short = ("ROC curves", "area") if is_roc else ("Precision–recall curves", "average precision")
    chart = Chart(linear_axis(0, 1, labels[0]), linear_axis(0, 1, labels[1]), f"{name} of the settings", height=356)
    share = report.labels.share_positive
    chart.line([0, 1], [0, 1] if is_roc else [share, share], "chance")
    entries = []
    for result in report.results:
        found = None
        if result.held_out is not None:
            found = curve(kind, report.labels.values, result.held_out, result.setting)
        if found is None:
            continue
        # A precision holds up to its recall.
        x, y = (found.x, found.y) if is_roc else _steps(found.x, found.y)
        chart.line(x, y, f"setting-{result.setting.value}")
        mean = "" if found.average == "micro" else f", mean per {found.average}"
        words = f"{setting_words(result.setting)}, {short} {found.area:.3f}{mean}"
        entries.append((f"setting-{result.setting.value}", words))
    entries.append(("chance", "chance" if is_roc else f"share of positive labels, {share:.3g}"))
    return figure(chart.render(kind) + legend(entries), name)


def points_figures(report: Report) -> str:
    """Draw held-out predictions against observed labels, a figure for each setting."""
    Y, observed = report.labels.values, report.labels.observed
    drawn = [result for result in report.results if result.held_out is not None]
    everything = np.concatenate([Y[observed], *(result.held_out[observed] for result in drawn)])  # type: ignore[index]
    # Single wild predictions must not squeeze all others.
    low, high = np.nanquantile(everything, [0.001, 0.999])
    ends = (float(min(low, np.nanmin(Y))), float(max(high, np.nanmax(Y))))
    margin = 0.03 * (ends[1] - ends[0])
    kept = thinned(int(observed.sum()), _MOST_POINTS)
    panels = []
    for result in drawn:
        assert result.held_out is not None
        title = setting_words(result.setting)
        chart = Chart(
            linear_axis(ends[0] - margin, ends[1] + margin, "observed label"),
            linear_axis(ends[0] - margin, ends[1] + margin, "held-out prediction"),
            f"Held-out predictions against observed labels, setting {title}",
            height=356,
        )
        chart.line(ends, ends, "chance")
        chart.dots(Y[observed][kept], result.held_out[observed][kept], f"setting-{result.setting.value}")
        scores = {report.scoring: result.score, **result.others}
        words = f"R² {number(scores['r2'], 3)}" if "r2" in scores else f"{report.scoring} {number(result.score, 3)}"
        panels.append(figure(chart.render(f"points-{result.setting.value}"), escape(title), note=words))
    return "".join(panels)


def points_note(n_observed: int) -> str:
    """Say how many points are drawn."""
    if n_observed <= _MOST_POINTS:
        return ""
    return f"{_MOST_POINTS:,} of {n_observed:,} labels are drawn, chosen at random."


def levels_of(landscapes: Sequence[Landscape]) -> list[float]:
    """Return the steps that all maps share, of what is lost against the best of each."""
    if not landscapes:
        return []
    return loss_levels(np.concatenate([np.ravel(np.nanmax(each.scores) - each.scores) for each in landscapes]))


def landscape_figure(landscape: Landscape, scoring: str, levels: Sequence[float]) -> str:
    """Draw the scores of one setting, as a map over two regularisations or a line over one.

    What the script needs to answer a pointer or a key stands beside it: the place of every point of the grid, and
    the words for it.
    """
    rows = _order(landscape.alphas)
    title = setting_words(landscape.setting)
    best = landscape.best
    at = f"λ {power(best[1])}" if best[2] is None else f"λ_d {power(best[1])}, λ_t {power(best[2])}"
    note = f"best {number(best[0])} at {at}"
    if min(landscape.alphas) == 0 or (landscape.task_alphas is not None and min(landscape.task_alphas) == 0):
        note += "; λ = 0 is not drawn"
    if landscape.task_alphas is None:
        chart, points = _line(landscape, rows, scoring, title)
    else:
        columns = _order(landscape.task_alphas)
        chart, points = _map(landscape, rows, columns, scoring, title, levels)
    if chart is None:
        return ""
    data = json.dumps(points, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    own = ' <span class="own">chosen here</span>' if landscape.is_own else ""
    body = (
        f'<div class="stage">{chart}<div class="tip" role="status" hidden></div></div>'
        f'<script type="application/json">{data}</script>'
    )
    return figure(body, escape(title) + own, kind="landscape", note=note)


def _map(
    landscape: Landscape, rows: list[int], columns: list[int], scoring: str, title: str, levels: Sequence[float]
) -> tuple[str | None, dict[str, Any]]:
    assert landscape.task_alphas is not None
    if min(len(rows), len(columns)) < 2:
        return _narrow(landscape, rows, columns, scoring, title)
    alphas, task_alphas = landscape.alphas[rows], landscape.task_alphas[columns]
    scores = landscape.scores[np.ix_(rows, columns)]
    x, y = np.log10(task_alphas), np.log10(alphas)
    # A little room around the outermost points, for the best one is there often enough.
    wide, tall = (np.pad(axis, 1, mode="reflect", reflect_type="odd") for axis in (x, y))
    wide, tall = (axis + 0.6 * (np.pad(axis[1:-1], 1, mode="edge") - axis) for axis in (wide, tall))
    chart = Chart(
        power_axis(wide[0], wide[-1], "λ_t, of the tasks", task_alphas),
        power_axis(tall[0], tall[-1], "λ_d, of the instances", alphas),
        f"Map of {scoring} in setting {title}. Arrow keys move over its points.",
        height=356,
    )
    chart.ground(_band(len(levels), len(levels)))
    finer = refined(np.pad(scores, 1, mode="edge"), wide, tall, 5)
    for index in reversed(range(len(levels))):
        chart.region(rings(*finer, float(np.nanmax(scores)) - levels[index]), _band(index, len(levels)))
    _mark(chart, landscape, landscape.best)
    places = [
        [
            round(left, 1),
            round(top, 1),
            number(float(scores[i, j])),
            power(float(alphas[i])),
            power(float(task_alphas[j])),
        ]
        for i, top in enumerate(chart.up(y).tolist())
        for j, left in enumerate(chart.across(x).tolist())
    ]
    names = [scoring, "λ_d", "λ_t"]
    return chart.render(f"map-{landscape.setting.value}", interactive=True, grid=False), {
        "names": names,
        "points": places,
    }


def _narrow(
    landscape: Landscape, rows: list[int], columns: list[int], scoring: str, title: str
) -> tuple[str | None, dict[str, Any]]:
    """Draw a map of one row or column as a line."""
    assert landscape.task_alphas is not None
    if len(rows) >= 2:
        scores, alphas, chosen, name = landscape.scores[rows, columns[0]], landscape.alphas, landscape.chosen, "λ_d"
    elif len(columns) >= 2:
        assert landscape.chosen_task is not None
        scores, alphas, rows = landscape.scores[rows[0], columns], landscape.task_alphas, columns
        chosen, name = (landscape.chosen_task,), "λ_t"
    else:
        return None, {}
    line = Landscape(landscape.setting, landscape.is_own, scores, alphas[rows], None, chosen, None)
    return _line(line, list(range(len(rows))), scoring, title, name)


def _line(
    landscape: Landscape, rows: list[int], scoring: str, title: str, name: str = "λ"
) -> tuple[str | None, dict[str, Any]]:
    if len(rows) < 2:
        return None, {}
    alphas, scores = landscape.alphas[rows], landscape.scores[rows]
    x, highest = np.log10(alphas), float(np.nanmax(scores))
    # Far from the best a score may fall without end: what matters is near it.
    lowest = max(float(np.nanmin(scores)), highest - 3 * (highest - float(np.nanmedian(scores))))
    margin = 0.06 * (highest - lowest)
    chart = Chart(
        power_axis(x[0], x[-1], name, alphas),
        linear_axis(lowest - margin, highest + margin, ""),
        f"{scoring} over {name} in setting {title}. Arrow keys move over its points.",
    )
    known = ~np.isnan(scores)
    chart.line(x[known], scores[known], f"setting-{landscape.setting.value}")
    for chosen in landscape.chosen:
        if chosen > 0:
            chart.star(float(np.log10(chosen)), float(np.interp(np.log10(chosen), x[known], scores[known])))
    places = [
        [round(left, 1), round(min(max(top, 10.0), 256.0), 1), number(float(score)), power(float(alpha))]
        for left, top, score, alpha in zip(chart.across(x), chart.up(scores), scores, alphas, strict=True)
        if not np.isnan(score)
    ]
    return chart.render(f"line-{landscape.setting.value}", interactive=True), {
        "names": [scoring, name],
        "points": places,
    }


def _mark(chart: Chart, landscape: Landscape, best: tuple[float, float, float | None]) -> None:
    """Mark the best point of a map with a ring and the chosen one with a star, where they have a logarithm."""
    if best[1] > 0 and best[2]:
        chart.ring(float(np.log10(best[2])), float(np.log10(best[1])))
    if landscape.chosen[0] > 0 and landscape.chosen_task:
        chart.star(float(np.log10(landscape.chosen_task)), float(np.log10(landscape.chosen[0])))


def _band(index: int, n_levels: int) -> str:
    """Return the colour of a band, so that few bands still reach from one end to the other."""
    return f"band-{round(index * (_BANDS - 1) / max(n_levels, 1))}"


def levels_legend(levels: Sequence[float]) -> str:
    """Return what the colours of the maps mean."""
    steps = [f"≤ {number(level)}" for level in levels] + ["more"]
    items = "".join(
        f'<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="{_band(index, len(levels))}" width="22" '
        f'height="12"/></svg>{words}</li>'
        for index, words in enumerate(steps)
    )
    return f'<p class="key">Lost against the best of each setting:</p><ul class="legend levels">{items}</ul>'


def _order(alphas: np.ndarray) -> list[int]:
    """Return where the distinct values above 0 stand, in ascending order; 0 has no logarithm and is not drawn."""
    values, first = np.unique(alphas, return_index=True)
    return [int(place) for value, place in zip(values, first, strict=True) if value > 0]

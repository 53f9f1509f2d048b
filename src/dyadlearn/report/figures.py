"""Every figure of a page, from the numbers of a view to an element."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from dyadlearn._printing import number
from dyadlearn._words import power
from dyadlearn.report.drawing import Chart, linear_axis, marked_up, png, power_axis
from dyadlearn.selection.baselines import best_baseline, in_words
from dyadlearn.sides import SideNames
from dyadlearn.views.curves import some_of
from dyadlearn.views.grid import GridView
from dyadlearn.views.landscape import DrawnLandscape, LandscapeView, power_of
from dyadlearn.views.spectra import SideSpectrum
from dyadlearn.views.summary import Summary

__all__ = [
    "MOST_POINTS",
    "curves",
    "degrees",
    "figure",
    "grid",
    "kernels",
    "landscape",
    "levels_legend",
    "points",
    "spectrum",
    "values",
]

#: Points of a cloud that are drawn.
MOST_POINTS = 3000
_MOST_PIXELS = 480
# Cells of a map are coloured by the page, from the best (0) to the worst.
_BANDS = 10
# The mid blue is seen on a bright page and on a dark one; what is 0 shows the page.
_INK = (47, 118, 184)
_MISSING = (128, 128, 128, 70)
_STOPS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]])
_STEPS = 64


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


def grid(labels: GridView) -> str:
    """Draw the labels as a picture, large grids in blocks; where some are more telling, those with the most first."""
    by_degree = labels.is_binary or not labels.is_complete
    pixels = labels.ordered("degree" if by_degree else "given").pixels(_MOST_PIXELS)
    low, high = pixels.ends
    scale, missing = (pixels.values - low) / ((high - low) or 1.0), np.isnan(pixels.values)
    places = np.where(missing, _STEPS, np.rint(np.clip(np.where(missing, 0, scale), 0, 1) * (_STEPS - 1)))
    source = png(places.astype(np.uint8), _palette(labels.is_binary))
    m, q = labels.values.shape
    order = f"those with the most {labels.counted} labels first" if by_degree else ""
    if labels.is_binary:
        share = " (stronger: more of them)" if pixels.note else ""
        keys = [("ink", f"label {number(labels.distinct[1])}{share}"), ("blank", f"label {number(labels.distinct[0])}")]
    else:
        keys = [("ramp", f"{number(low)} to {number(high)}, 1 % at each end beyond")]
    if not labels.is_complete:
        keys.append(("missing" if labels.is_binary else "blank", "not observed"))
    swatches = "".join(f'<li><span class="swatch {kind}"></span>{escape(text)}</li>' for kind, text in keys)
    words = f"{m:,} {labels.names.instances} (down) × {q:,} {labels.names.tasks} (across)"
    # Very long grids are stretched rather than drawn as a thread.
    look = f'class="pixels{" sharp" if max(places.shape) <= 300 else ""}" style="aspect-ratio: '
    look += f'{min(max(q / m, 0.6), 2.2):.3f}"'
    body = (
        f'<img {look} src="{source}" alt="The grid of labels: {escape(words)}"><p class="key">{escape(words)}</p>'
        f'<ul class="legend">{swatches}</ul>'
    )
    return figure(body, "Grid", kind="grid-picture", note="; ".join(filter(None, [order, pixels.note])))


def _palette(is_binary: bool) -> list[tuple[int, int, int, int]]:
    share = np.linspace(0.0, 1.0, _STEPS)
    if is_binary:
        # The root lets single labels of a large block be seen.
        return [*((*_INK, int(255 * value**0.5)) for value in share), _MISSING]
    colours = [np.interp(share, np.linspace(0, 1, len(_STOPS)), _STOPS[:, part]) for part in range(3)]
    ramp = [(int(red), int(green), int(blue), 255) for red, green, blue in zip(*colours, strict=True)]
    return [*ramp, (0, 0, 0, 0)]


def degrees(labels: GridView) -> str:
    """Draw how many instances and tasks have at least so many labels."""
    curves = labels.degree_curves()
    most = max(int(x[-1]) for x, _ in curves.values())
    chart = Chart(
        linear_axis(0, max(most, 1), f"{labels.counted} labels, k"),
        linear_axis(0, 1, "share with k or more"),
        f"Share of each side that has at least k {labels.counted} labels",
    )
    for index, curve in enumerate(curves.values()):
        chart.line(*_steps(*curve), f"side-{index}")
    entries = [(f"side-{index}", words) for index, words in enumerate(curves)]
    return figure(chart.render("degrees") + legend(entries), "Degrees")


def _steps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a line of stairs, in which each value holds up to its place."""
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def values(labels: GridView) -> str:
    """Draw how often labels of each size occur."""
    counts, edges = labels.histogram()
    chart = Chart(
        linear_axis(float(edges[0]), float(edges[-1]), "label"),
        linear_axis(0, float(counts.max()), "number of labels"),
        "How often labels of each size occur",
    )
    chart.bars(edges, counts.astype(np.float64), "bar")
    return figure(chart.render("values"), "Labels")


def spectrum(sides: Mapping[str, SideSpectrum], names: SideNames) -> str:
    """Draw the eigenvalues of both sides, and the regularisation they are compared with."""
    drawn = [(name, side, side.values[: side.rank]) for name, side in sides.items() if name != "pairs" and side.rank]
    if not drawn:
        return ""
    highest = float(max(values[0] for *_, values in drawn))
    lowest = max(float(min(values[-1] for *_, values in drawn)), 1e-10 * highest)
    longest = max(side.rank for _, side, _ in drawn)
    chart = Chart(
        power_axis(0, max(np.log10(longest), 0.3), "rank of the eigenvalue", [1, longest]),
        power_axis(np.log10(lowest) - 0.1, np.log10(highest) + 0.1, "eigenvalue σ", [lowest, highest]),
        "Eigenvalues of the kernels in descending order",
    )
    for index, (_, side, values) in enumerate(drawn):
        ranks = np.unique(np.rint(np.geomspace(1, side.rank, 200)).astype(int))
        chart.line(np.log10(ranks), np.log10(values[ranks - 1]), f"side-{index}")
        if side.alpha is not None and lowest <= side.alpha <= highest:
            level = np.log10(side.alpha)
            chart.line([0, chart.x.high], [level, level], f"side-{index} level")
    entries = [(f"side-{index}", _side(name, names)) for index, (name, *_) in enumerate(drawn)]
    kept = any(side.alpha is not None for _, side, _ in drawn)
    note = "Directions above their λ (dashed) are kept, those below it fade." if kept else ""
    return figure(chart.render("spectrum") + legend(entries), "Kernel spectra", note=note)


def _side(name: str, names: SideNames) -> str:
    """Return what a side is called whose spectrum a model knows by a name of its own."""
    return {"instances": names.instances, "tasks": names.tasks, "nodes": names.instances}.get(name, name)


def kernels(sides: Mapping[str, SideSpectrum], names: SideNames) -> str:
    """Return a table of both kernels, and of the pairs that a model filters together."""
    dimensions = [side.effective_dimension for side in sides.values()]
    rows = {
        "size": [f"{side.n_rows:,}" for side in sides.values()],
        "rank": [f"{side.rank:,}" for side in sides.values()],
        "λ": ["–" if side.alpha is None else power(side.alpha) for side in sides.values()],
        "effective dimension": ["–" if math.isnan(kept) else f"{kept:,.1f}" for kept in dimensions],
        "kernel": [escape(side.kernel) for side in sides.values()],
    }
    head = "".join(f"<th scope='col'>{escape(_side(name, names))}</th>" for name in sides)
    body = "".join(
        f"<tr><th scope='row'>{name}</th>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"
        for name, texts in rows.items()
    )
    note = "The effective dimension counts the directions that are used, each as far as λ lets it through."
    if any(side.has_constant for side in sides.values()):
        note += " Kernels are centred; the constant beside them counts as one."
    table = f"<table class='plain'><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"
    return figure(f'<div class="scroll">{table}</div>', "Kernels", note=note)


def curves(kind: str, summary: Summary) -> str:
    """Draw the ROC or precision–recall curves of all settings."""
    is_roc = kind == "roc"
    labels = ("false positive rate", "true positive rate") if is_roc else ("recall", "precision")
    name, short = ("ROC curves", "area") if is_roc else ("Precision–recall curves", "average precision")
    chart = Chart(linear_axis(0, 1, labels[0]), linear_axis(0, 1, labels[1]), f"{name} of the settings", height=356)
    share = summary.grid.share_positive
    chart.line([0, 1], [0, 1] if is_roc else [share, share], "beside")
    # What means reach is known by the score of the page alone.
    is_judged = summary.scoring == ("roc_auc" if is_roc else "average_precision")
    means = {each.setting: each.baselines for each in summary.results if is_judged}
    entries = []
    for setting, curve in summary.points(kind).items():
        x, y = curve.thinned()
        chart.line(*((x, y) if is_roc else _steps(x, y)), f"setting-{setting.value}")
        words = f"{summary.apart.in_words(setting)}, {short} {curve.score:.3f}"
        if curve.average != "micro":
            words += f", mean per {getattr(summary.apart, curve.average)}"
        if (reached := best_baseline(means.get(setting, {}))) is not None:
            words += f"; {in_words(reached[0], summary.apart)} {reached[1]:.3f}"
        entries.append((f"setting-{setting.value}", words))
    entries.append(("beside", "any order at random" if is_roc else f"share of positive labels, {share:.3g}"))
    return figure(chart.render(kind) + legend(entries), name)


def points(summary: Summary) -> str:
    """Draw held-out predictions against observed labels, a figure for each setting."""
    clouds = summary.points("scatter")
    if not clouds:
        return ""
    labels = next(iter(clouds.values())).x
    # Single wild predictions must not squeeze all others.
    low, high = np.quantile(np.concatenate([labels, *(cloud.y for cloud in clouds.values())]), [0.001, 0.999])
    ends = (float(min(low, labels.min())), float(max(high, labels.max())))
    margin = 0.03 * (ends[1] - ends[0])
    kept = some_of(labels.size, MOST_POINTS)
    within = {each.setting: each.within for each in summary.results}
    panels = []
    for setting, cloud in clouds.items():
        chart = Chart(
            linear_axis(ends[0] - margin, ends[1] + margin, "observed label"),
            linear_axis(ends[0] - margin, ends[1] + margin, "held-out prediction"),
            f"Held-out predictions against observed labels, setting {summary.apart.in_words(setting)}",
            height=356,
        )
        chart.line(ends, ends, "beside")
        chart.dots(cloud.x[kept], cloud.y[kept], f"setting-{setting.value}")
        note = f"R² of all labels {number(cloud.score, 3)}; 90 % of them lie within ± {number(within[setting], 3)}"
        panels.append(
            figure(chart.render(f"points-{setting.value}"), escape(summary.apart.in_words(setting)), note=note)
        )
    return "".join(panels)


def landscape(
    view: LandscapeView,
    levels: Sequence[float],
    means: Mapping[str, float] | None = None,
    names: SideNames | None = None,
    *,
    is_own: bool = False,
) -> str:
    """Draw the scores of one setting, as a map over two regularisations or a line over one.

    What simple means reach there is said, and drawn across a line.
    What the script needs to answer a pointer or a key stands beside it: the place of every point of the grid, and
    the words for it.
    """
    drawn, setting = view.drawn, view.setting
    if drawn is None or setting is None:
        return ""
    names = SideNames() if names is None else names
    letters = {"alpha": "λ"} if view.task_alphas is None else {"alpha": "λ_d", "task_alpha": "λ_t"}
    score, *best = view.best
    at = ", ".join(f"{letter} {power(value)}" for letter, value in zip(letters.values(), best, strict=True))
    note = f"best {number(score)} at {at}" + ("; λ = 0 is not drawn" if view.zeros else "")
    note += f"; {view.evaluated}" if view.evaluated else ""
    reached = best_baseline(means or {})
    if reached is not None:
        note += f"; {in_words(reached[0], names)} reach {number(reached[1])}"
    shown = [letters[name] for name in drawn.names]
    title = names.in_words(setting)
    if len(shown) == 2:
        chart, places = _map(view, drawn, title, levels, names)
    else:
        chart, places = _line(view, drawn, title, shown[0], None if reached is None else reached[1])
    data = {"names": [view.scoring, *shown], "points": places}
    script = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    own = ' <span class="own">chosen here</span>' if is_own else ""
    body = (
        f'<div class="stage">{chart}<div class="tip" role="status" hidden></div></div>'
        f'<script type="application/json">{script}</script>'
    )
    return figure(body, escape(title) + own, kind="landscape", note=note)


def _map(
    view: LandscapeView, drawn: DrawnLandscape, title: str, levels: Sequence[float], names: SideNames
) -> tuple[str, list[list[Any]]]:
    (alphas, task_alphas), (y, x), (up, across) = drawn.values, drawn.powers, drawn.edges
    chart = Chart(
        power_axis(across[0], across[-1], f"λ_t ({names.tasks})", task_alphas),
        power_axis(up[0], up[-1], f"λ_d ({names.instances})", alphas),
        f"Map of {view.scoring} in setting {title}. Arrow keys move over its points.",
        height=356,
    )
    steps = np.asarray(levels[1:])
    chart.cells(across, up, [[_band(loss, steps) for loss in row] for row in drawn.loss.tolist()])
    if view.alpha and view.task_alpha:
        chart.star(float(power_of(view.task_alpha)), float(power_of(view.alpha)))
    places = [
        [round(left, 1), round(top, 1), number(drawn.scores[i, j]), power(alphas[i]), power(task_alphas[j])]
        for i, top in enumerate(chart.up(y).tolist())
        for j, left in enumerate(chart.across(x).tolist())
    ]
    return chart.render(f"map-{title[0]}", interactive=True, grid=False), places


def _line(
    view: LandscapeView, drawn: DrawnLandscape, title: str, name: str, reached: float | None
) -> tuple[str, list[list[Any]]]:
    (alphas,), (x,), scores = drawn.values, drawn.powers, drawn.scores
    highest = float(np.nanmax(scores))
    # Far from the best a score may fall without end: what matters is near it.
    lowest = max(float(np.nanmin(scores)), highest - 3 * (highest - float(np.nanmedian(scores))))
    margin = 0.06 * (highest - lowest)
    chart = Chart(
        power_axis(x[0], x[-1], name, alphas),
        linear_axis(lowest - margin, highest + margin, ""),
        f"{view.scoring} over {name} in setting {title}. Arrow keys move over its points.",
    )
    if reached is not None and chart.y.low < reached < chart.y.high:
        chart.line([chart.x.low, chart.x.high], [reached] * 2, "beside")
    known = ~np.isnan(scores)
    chart.line(x[known], scores[known], f"setting-{title[0]}")
    for chosen in power_of(np.unique(getattr(view, drawn.names[0]))):
        if not np.isnan(chosen):
            chart.star(float(chosen), float(np.interp(chosen, x[known], scores[known])))
    places = [
        [round(left, 1), round(min(max(top, 10.0), 256.0), 1), number(float(score)), power(float(alpha))]
        for left, top, score, alpha in zip(chart.across(x), chart.up(scores), scores, alphas, strict=True)
        if not np.isnan(score)
    ]
    return chart.render(f"line-{title[0]}", interactive=True), places


def _band(loss: float, steps: np.ndarray) -> str | None:
    """Return the colour of a cell, so that few steps still reach from one end to the other; None without a score."""
    if math.isnan(loss):
        return None
    return f"band-{round(int(np.searchsorted(steps, loss)) * (_BANDS - 1) / max(steps.size - 1, 1))}"


def levels_legend(levels: Sequence[float]) -> str:
    """Return what the colours of the maps mean."""
    words = [*(f"≤ {number(level)}" for level in levels[1:-1]), "more"]
    items = "".join(
        f'<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="{_band(level, np.asarray(levels[1:]))}" '
        f'width="22" height="12"/></svg>{text}</li>'
        for level, text in zip(levels[1:], words, strict=True)
    )
    return f'<p class="key">Lost against the best of each setting:</p><ul class="legend levels">{items}</ul>'

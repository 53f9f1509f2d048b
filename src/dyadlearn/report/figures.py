"""Figures of the report: charts as SVG, which take their colours from the page, and images as PNG."""

from __future__ import annotations

import base64
import json
import math
import re
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby, pairwise
from typing import Any
from unicodedata import east_asian_width

import numpy as np

from dyadlearn._text import number, power, superscript
from dyadlearn.selection.evaluate import best_baseline, in_words
from dyadlearn.sides import SideNames
from dyadlearn.views.grid import GridView, some_of
from dyadlearn.views.landscape import DrawnLandscape, LandscapeView
from dyadlearn.views.summary import SideSpectrum, Summary, called

_WIDTH = 400.0
_LEFT = 52.0
_RIGHT = 12.0
_TOP = 10.0
_BOTTOM = 44.0
_TICK = 12.0  # size of the letters
_WIDE = frozenset("mwMW@%—…−")
_SMALL = frozenset("⁻⁰¹²³⁴⁵⁶⁷⁸⁹.,·| ")
# A subscript; the empty letter returns to the baseline.
_LOWERED = r'<tspan dy="3" font-size="9">\1</tspan><tspan dy="-3">&#8203;</tspan>'


def marked_up(text: str, lowered: str = r"<sub>\1</sub>") -> str:
    """Return a text as safe markup, with the index of λ as a subscript.

    Examples
    --------
    >>> from dyadlearn.report.figures import marked_up
    >>> marked_up("λ_d < 1")
    'λ<sub>d</sub> &lt; 1'
    """
    return re.sub(r"(?<=λ)_([dt])", lowered, escape(text))


def text_width(text: str) -> float:
    """Return an upper estimate of the width of a text; the font is not known.

    Examples
    --------
    >>> from dyadlearn.report.figures import text_width
    >>> text_width("10⁻⁶"), text_width("1000")
    (26.4, 31.2)
    """
    wide = sum(letter in _WIDE or east_asian_width(letter) in "WF" for letter in text)
    small = sum(letter in _SMALL for letter in text)
    return round(_TICK * (0.65 * len(text) + 0.35 * wide - 0.2 * small), 6)


def shortened(text: str, width: float) -> str:
    """Return a text that fits into a width, shortened with an ellipsis if needed.

    Examples
    --------
    >>> from dyadlearn.report.figures import shortened
    >>> shortened("parasites", 100.0), shortened("parasites", 50.0)
    ('parasites', 'para…')
    """
    if text_width(text) <= width:
        return text
    n_letters = next((n for n in range(len(text), 0, -1) if text_width(text[:n] + "…") <= width), 0)
    return text[:n_letters].rstrip() + "…"


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Attributes
    ----------
    low, high : float
    label : str
    ticks : list of (float, str)
    """

    low: float
    high: float
    label: str
    ticks: list[tuple[float, str]]

    def share(self, values: np.ndarray) -> np.ndarray:
        """Return the positions of values along the axis, from 0 to 1."""
        return np.asarray((values - self.low) / (self.high - self.low))


def linear_axis(low: float, high: float, label: str) -> Axis:
    """Return an axis with ticks at round numbers.

    Examples
    --------
    >>> from dyadlearn.report.figures import linear_axis
    >>> linear_axis(0.0, 1.0, "share").ticks
    [(0.0, '0'), (0.2, '0.2'), (0.4, '0.4'), (0.6, '0.6'), (0.8, '0.8'), (1.0, '1')]
    """
    if high <= low:
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * min((1, 2, 5, 10), key=lambda digit: abs(digit - rough / size))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # Enough digits that all ticks differ.
    places = 1 - math.floor(math.log10(step))
    values = [round(k * step, places) + 0.0 for k in range(first, last + 1)]
    digits = max(4, places + math.floor(math.log10(max(map(abs, values), default=0.0) or 1.0)))
    return Axis(low, high, label, [(value, number(value, digits)) for value in values])


def power_axis(low: float, high: float, label: str, values: Iterable[float] = ()) -> Axis:
    """Return a logarithmic axis, in powers of ten.

    Parameters
    ----------
    low, high : float
        Powers of ten.
    label : str
    values : iterable of float
        Ticks to use if there are fewer than two round numbers on the axis.

    Examples
    --------
    >>> from dyadlearn.report.figures import power_axis
    >>> power_axis(-7, 6, "λ").ticks
    [(-6, '10⁻⁶'), (-4, '10⁻⁴'), (-2, '10⁻²'), (0, '1'), (2, '10²'), (4, '10⁴'), (6, '10⁶')]
    >>> [text for _, text in power_axis(0, 1.5, "rank").ticks]
    ['1', '2', '5', '10', '20']
    """
    if high <= low:
        low, high = low - 0.5, low + 0.5
    inside = list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))
    if len(inside) > 3:
        every = -(-len(inside) // 7)
        plain = inside[0] >= 0 and inside[-1] <= 5
        shown = [k for k in inside if k % every == 0]
        return Axis(
            low,
            high,
            label,
            [(k, f"{10**k:,}" if plain or k == 0 else f"10{superscript(k)}") for k in shown],
        )
    steps = [
        digit * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for digit in (1, 2, 5)
    ]
    steps = [step for step in steps if low - 1e-9 <= math.log10(step) <= high + 1e-9]
    chosen = steps if len(steps) > 1 else list(values)[:7]
    return Axis(low, high, label, [(math.log10(value), power(value)) for value in chosen])


def path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """Return straight lines between points as the data of a path.

    Examples
    --------
    >>> from dyadlearn.report.figures import path
    >>> path([(0, 0), (1.26, 2), (1.26, 2)], closed=True)
    'M0 0L1.3 2Z'
    """
    texts = (text for text, _ in groupby(f"{round(x, 1):g} {round(y, 1):g}" for x, y in points))
    return "M" + "L".join(texts) + ("Z" if closed else "")


@dataclass(eq=False)
class Chart:
    """A chart, to which methods add lines and other elements.

    Attributes
    ----------
    x, y : Axis
    label : str
        Description for screen readers.
    height : float, default=300
        Height; the width is 400.
    """

    x: Axis
    y: Axis
    label: str
    height: float = 300.0
    _inside: list[str] = field(default_factory=list)
    _over: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Left edge of the frame, which leaves space for the numbers and the label of the axis."""
        widest = max((text_width(text) for _, text in self.y.ticks), default=0.0)
        return max(_LEFT, widest + 7 + (1.8 * _TICK if self.y.label else 4))

    def across(self, values: Iterable[float] | np.ndarray) -> np.ndarray:
        """Return the horizontal positions of values."""
        return self.left + self.x.share(np.asarray(values, dtype=np.float64)) * (
            _WIDTH - self.left - _RIGHT
        )

    def up(self, values: Iterable[float] | np.ndarray) -> np.ndarray:
        """Return the vertical positions of values, counted from the top."""
        room = self.height - _TOP - _BOTTOM
        return _TOP + (1.0 - self.y.share(np.asarray(values, dtype=np.float64))) * room

    def points(
        self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray
    ) -> list[tuple[float, float]]:
        """Return pairs of positions."""
        return list(zip(self.across(x).tolist(), self.up(y).tolist(), strict=True))

    def line(
        self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, kind: str
    ) -> None:
        """Draw a line with the style of its class."""
        self._inside.append(f'<path class="line {kind}" d="{path(self.points(x, y))}"/>')

    def cells(
        self, x_edges: np.ndarray, y_edges: np.ndarray, kinds: Sequence[Sequence[str | None]]
    ) -> None:
        """Fill cells between edges (q + 1,) across and (m + 1,) up, in the colours of their kinds; None is empty."""
        across = self.across(x_edges).tolist()
        up = self.up(y_edges).tolist()
        paths: dict[str, list[str]] = {}
        for i, row in enumerate(kinds):
            for j, kind in enumerate(row):
                if kind is not None:
                    corners = [
                        (across[j + right], up[i + top])
                        for right, top in ((0, 0), (1, 0), (1, 1), (0, 1))
                    ]
                    paths.setdefault(kind, []).append(path(corners, closed=True))
        self._inside += [
            f'<path class="cell {kind}" d="{"".join(parts)}"/>' for kind, parts in paths.items()
        ]

    def bars(self, edges: np.ndarray, heights: np.ndarray, kind: str) -> None:
        """Draw bars between edges (n + 1,) up to heights (n,)."""
        left = self.across(edges[:-1])
        right = self.across(edges[1:])
        foot = float(self.up([self.y.low])[0])
        tops = self.up(heights)
        for start, end, top in zip(left.tolist(), right.tolist(), tops.tolist(), strict=True):
            if top < foot:
                place = (
                    f'x="{start + 0.5:.1f}" y="{top:.1f}" width="{max(end - start - 1, 0.5):.1f}"'
                )
                self._inside.append(f'<rect class="{kind}" {place} height="{foot - top:.1f}"/>')

    def dots(self, x: np.ndarray, y: np.ndarray, kind: str) -> None:
        """Draw many small dots, in groups so that dense regions are darker."""
        places = self.points(x, y)
        for start in range(0, len(places), 100):
            data = "".join(f"M{left:.1f} {top:.1f}h0" for left, top in places[start : start + 100])
            self._inside.append(f'<path class="dots {kind}" d="{data}"/>')

    def star(self, x: float, y: float) -> None:
        """Mark a point with a star, on the edge of the chart if it lies beyond."""
        ((left, top),) = self.points([x], [y])
        left, top = np.clip(
            (left, top), (self.left, _TOP), (_WIDTH - _RIGHT, self.height - _BOTTOM)
        )
        turns = np.pi * (np.arange(10) / 5 - 0.5)
        sizes = np.tile([8.5, 3.8], 5)
        corners = zip(left + sizes * np.cos(turns), top + sizes * np.sin(turns), strict=True)
        self._over.append(f'<path class="star" d="{path(corners, closed=True)}"/>')

    def render(self, name: str, *, interactive: bool = False, grid: bool = True) -> str:
        """Return the chart as an element of a page.

        Parameters
        ----------
        name : str
            Unique id of the chart.
        interactive : bool, default=False
            Whether it can be focused and has a marker that a script moves.
        grid : bool, default=True
            Whether it has grid lines.
        """
        left = self.left
        foot = self.height - _BOTTOM
        right = _WIDTH - _RIGHT
        lines = []
        texts = []
        ticks = self._far_apart()
        for place, (_, text) in zip(self.across([at for at, _ in ticks]), ticks, strict=True):
            # Numbers at the ends must stay within the picture.
            half = text_width(text) / 2
            at = min(max(float(place), half), _WIDTH - half)
            lines.append(f"M{place:.1f} {_TOP:g}V{foot:g}")
            texts.append(
                f'<text x="{at:.1f}" y="{foot + 16:g}" text-anchor="middle">{escape(text)}</text>'
            )
        for place, (_, text) in zip(
            self.up([at for at, _ in self.y.ticks]), self.y.ticks, strict=True
        ):
            lines.append(f"M{left:g} {place:.1f}H{right:g}")
            texts.append(
                f'<text x="{left - 7:g}" y="{place + 4:.1f}" '
                f'text-anchor="end">{escape(text)}</text>'
            )
        middle = (left + right) / 2
        centre = (_TOP + foot) / 2
        across = marked_up(shortened(self.x.label, 2 * (_WIDTH - middle)), _LOWERED)
        up = marked_up(shortened(self.y.label, 2 * centre), _LOWERED)
        texts.append(
            f'<text x="{middle:g}" y="{self.height - 6:g}" text-anchor="middle">{across}</text>'
        )
        texts.append(
            f'<text transform="translate(13 {centre:g}) rotate(-90)" '
            f'text-anchor="middle">{up}</text>'
        )
        behind = f'<path class="grid" d="{"".join(lines)}"/>' if grid else ""
        box = f'x="{left:g}" y="{_TOP:g}" width="{right - left:g}" height="{foot - _TOP:g}"'
        role = 'role="application" tabindex="0"' if interactive else 'role="img"'
        marker = '<circle class="here" r="5" hidden=""/>' if interactive else ""
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {self.height:g}" {role} '
            f'aria-label="{escape(self.label)}">'
            f'<clipPath id="{name}"><rect {box}/></clipPath>{behind}'
            f'<g clip-path="url(#{name})">{"".join(self._inside)}</g>'
            f'<path class="frame" d="M{left:g} {_TOP:g}V{foot:g}H{right:g}"/>'
            f"<g class='ticks'>{''.join(texts)}</g>{''.join(self._over)}{marker}</svg>"
        )

    def _far_apart(self) -> list[tuple[float, str]]:
        """Return the ticks below the frame that fit: all, every second, every third and so on."""
        every = 1
        ticks = self.x.ticks
        while len(ticks) > 2:
            places = self.across([at for at, _ in ticks]).tolist()
            ends = [
                (place, text_width(text) / 2)
                for place, (_, text) in zip(places, ticks, strict=True)
            ]
            if all(a + half + 6 <= b - other for (a, half), (b, other) in pairwise(ends)):
                break
            every += 1
            # A tick at zero is always shown.
            first = next((k for k, (_, text) in enumerate(self.x.ticks) if text == "0"), 0) % every
            ticks = self.x.ticks[first::every]
        return ticks


def png(indices: np.ndarray, palette: list[tuple[int, int, int, int]]) -> str:
    """Return an image of palette colours as a data URL.

    Parameters
    ----------
    indices : array of uint8 of shape (height, width)
        Index of the colour of each pixel.
    palette : list of (red, green, blue, opacity)
        Values from 0 to 255.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.figures import png
    >>> png(np.zeros((1, 1), dtype=np.uint8), [(255, 0, 0, 255)])[:30]
    'data:image/png;base64,iVBORw0K'
    """
    height, width = indices.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    # Each line begins with the number of its filter: 0 is none.
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), indices]).tobytes()
    colours = b"".join(bytes(colour[:3]) for colour in palette)
    opacity = bytes(colour[3] for colour in palette)
    chunks = {
        b"IHDR": header,
        b"PLTE": colours,
        b"tRNS": opacity,
        b"IDAT": zlib.compress(lines, 9),
        b"IEND": b"",
    }
    body = b"\x89PNG\r\n\x1a\n"
    for kind, data in chunks.items():
        body += (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )
    return "data:image/png;base64," + base64.b64encode(body).decode("ascii")


#: Maximum number of points in a scatter plot.
MOST_POINTS = 3000
_MOST_PIXELS = 480
# Number of colours of a map, from the best (0) to the worst; the page has the colours.
_BANDS = 10
# A blue that is visible on light and dark pages; a label of 0 is transparent.
_INK = (47, 118, 184)
_MISSING = (128, 128, 128, 70)
_STOPS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]])
_STEPS = 64


def figure(body: str, caption: str, *, kind: str = "", note: str = "") -> str:
    """Return a figure with its caption."""
    text = f'<span class="note">{marked_up(note)}</span>' if note else ""
    return f'<figure class="{kind}"><figcaption>{caption}{text}</figcaption>{body}</figure>'


def legend(entries: Iterable[tuple[str, str]], kind: str = "legend") -> str:
    """Return a legend of pairs (markup, words)."""
    items = "".join(f"<li>{mark}{escape(words)}</li>" for mark, words in entries)
    return f'<ul class="{kind}">{items}</ul>'


def stroke(kind: str) -> str:
    """Return a short line of a kind, for a legend."""
    return (
        f'<svg viewBox="0 0 26 8" aria-hidden="true"><path class="line {kind}" d="M1 4H25"/></svg>'
    )


def table(
    heads: Iterable[str], rows: Iterable[tuple[str, str, Iterable[str]]], kind: str = "plain"
) -> str:
    """Return a table of markup with a heading for each column; rows are (class, heading, cells)."""
    head = "".join(f"<th scope='col'>{text}</th>" for text in heads)
    body = ""
    for look, name, texts in rows:
        body += f"<tr class='{look}'><th scope='row'>{name}</th>{''.join(f'<td>{text}</td>' for text in texts)}</tr>"
    return f"<table class='{kind}'><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"


def grid(labels: GridView) -> str:
    """Draw the labels as an image; binary and missing labels are sorted by degree."""
    by_degree = labels.is_binary or labels.n_missing > 0
    pixels = (labels.by_degree if by_degree else labels).pixels(_MOST_PIXELS)
    low, high = pixels.ends
    scale = (pixels.values - low) / ((high - low) or 1.0)
    missing = np.isnan(pixels.values)
    places = np.where(
        missing, _STEPS, np.rint(np.clip(np.where(missing, 0, scale), 0, 1) * (_STEPS - 1))
    )
    source = png(places.astype(np.uint8), _palette(labels.is_binary))
    m, q = labels.values.shape
    order = f"those with the most {labels.counted} labels first" if by_degree else ""
    if labels.is_binary:
        share = " (stronger: more of them)" if pixels.note else ""
        keys = [
            ("ink", f"label {number(labels.distinct[1])}{share}"),
            ("blank", f"label {number(labels.distinct[0])}"),
        ]
    else:
        keys = [("ramp", f"{number(low)} to {number(high)}, 1 % at each end beyond")]
    if labels.n_missing:
        keys.append(("missing" if labels.is_binary else "blank", "not observed"))
    swatches = legend((f'<span class="swatch {kind}"></span>', text) for kind, text in keys)
    words = f"{m:,} {labels.names.instances} (down) × {q:,} {labels.names.tasks} (across)"
    # Long grids are stretched.
    look = f'style="aspect-ratio: {min(max(q / m, 0.6), 2.2):.3f}"'
    kind = "pixels sharp" if max(places.shape) <= 300 else "pixels"
    picture = (
        f'<img class="{kind}" {look} src="{source}" alt="The grid of labels: {escape(words)}">'
    )
    body = f'{picture}<p class="key">{escape(words)}</p>{swatches}'
    return figure(
        body, "Grid", kind="grid-picture", note="; ".join(filter(None, [order, pixels.note]))
    )


def _palette(is_binary: bool) -> list[tuple[int, int, int, int]]:
    share = np.linspace(0.0, 1.0, _STEPS)
    if is_binary:
        # The square root makes single labels of a large block visible.
        return [*((*_INK, int(255 * value**0.5)) for value in share), _MISSING]
    colours = [
        np.interp(share, np.linspace(0, 1, len(_STOPS)), _STOPS[:, part]) for part in range(3)
    ]
    ramp = [
        (int(red), int(green), int(blue), 255) for red, green, blue in zip(*colours, strict=True)
    ]
    return [*ramp, (0, 0, 0, 0)]


def degrees(labels: GridView) -> str:
    """Draw the number of instances and tasks that have at least a given number of labels."""
    curves = labels.degree_curves()
    most = max(int(x[-1]) for x, _ in curves.values())
    x = linear_axis(0, max(most, 1), f"{labels.counted} labels, k")
    y = linear_axis(0, 1, "share with k or more")
    chart = Chart(x, y, f"Share of each side that has at least k {labels.counted} labels")
    for index, curve in enumerate(curves.values()):
        chart.line(*_steps(*curve), f"side-{index}")
    entries = [(stroke(f"side-{index}"), words) for index, words in enumerate(curves)]
    return figure(chart.render("degrees") + legend(entries), "Degrees")


def _steps(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return a step line, in which each value extends up to its position."""
    return np.repeat(x, 2)[:-1], np.repeat(y, 2)[1:]


def values(labels: GridView) -> str:
    """Draw a histogram of the labels."""
    counts, edges = labels.histogram()
    x = linear_axis(edges[0], edges[-1], "label")
    y = linear_axis(0, float(counts.max()), "number of labels")
    chart = Chart(x, y, "How often labels of each size occur")
    chart.bars(edges, counts.astype(np.float64), "bar")
    return figure(chart.render("values"), "Labels")


def spectrum(sides: Mapping[str, SideSpectrum], names: SideNames) -> str:
    """Draw the eigenvalues of both sides, and the regularisation they are compared with."""
    drawn = [
        (name, side, side.values[: side.rank])
        for name, side in sides.items()
        if name != "pairs" and side.rank
    ]
    if not drawn:
        return ""
    highest = float(max(values[0] for *_, values in drawn))
    lowest = max(float(min(values[-1] for *_, values in drawn)), 1e-10 * highest)
    longest = max(side.rank for _, side, _ in drawn)
    x = power_axis(0, max(np.log10(longest), 0.3), "rank of the eigenvalue", [1, longest])
    y = power_axis(
        np.log10(lowest) - 0.1, np.log10(highest) + 0.1, "eigenvalue σ", [lowest, highest]
    )
    chart = Chart(x, y, "Eigenvalues of the kernels in descending order")
    for index, (_, side, values) in enumerate(drawn):
        ranks = np.unique(np.rint(np.geomspace(1, side.rank, 200)).astype(int))
        chart.line(np.log10(ranks), np.log10(values[ranks - 1]), f"side-{index}")
        if side.alpha is not None and lowest <= side.alpha <= highest:
            level = np.log10(side.alpha)
            chart.line([0, chart.x.high], [level, level], f"side-{index} level")
    entries = [
        (stroke(f"side-{index}"), called(name, names)) for index, (name, *_) in enumerate(drawn)
    ]
    has_alpha = any(side.alpha is not None for _, side, _ in drawn)
    if has_alpha:
        note = "Directions above their λ (dashed) are kept, those below it fade."
    else:
        note = ""
    return figure(chart.render("spectrum") + legend(entries), "Kernel spectra", note=note)


def kernels(sides: Mapping[str, SideSpectrum], names: SideNames) -> str:
    """Return a table of both kernels, and of the pairs that a model filters together."""
    dimensions = [side.effective_dimension for side in sides.values()]
    rows = {
        "size": [f"{side.n_rows:,}" for side in sides.values()],
        "rank": [f"{side.rank:,}" for side in sides.values()],
        "λ": ["–" if side.alpha is None else power(side.alpha) for side in sides.values()],
        "effective dimension": ["–" if math.isnan(each) else f"{each:,.1f}" for each in dimensions],
        "kernel": [escape(side.kernel) for side in sides.values()],
    }
    heads = [escape(called(name, names)) for name in sides]
    note = "The effective dimension counts the directions that are used, each weighted by its filter value."
    if any(side.has_constant for side in sides.values()):
        note += " Kernels are centred; the constant beside them counts as one."
    texts = table(heads, [("", name, texts) for name, texts in rows.items()])
    return figure(f'<div class="scroll">{texts}</div>', "Kernels", note=note)


def curves(kind: str, summary: Summary) -> str:
    """Draw the ROC or precision–recall curves of all settings."""
    is_roc = kind == "roc"
    if is_roc:
        labels = ("false positive rate", "true positive rate")
    else:
        labels = ("recall", "precision")
    if is_roc:
        name, short = ("ROC curves", "area")
    else:
        name, short = ("Precision–recall curves", "average precision")
    chart = Chart(
        linear_axis(0, 1, labels[0]),
        linear_axis(0, 1, labels[1]),
        f"{name} of the settings",
        height=356,
    )
    share = summary.grid.share_positive
    chart.line([0, 1], [0, 1] if is_roc else [share, share], "beside")
    # Baselines are known only for the score of the page.
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
        entries.append((stroke(f"setting-{setting.value}"), words))
    entries.append(
        (
            stroke("beside"),
            "any order at random" if is_roc else f"share of positive labels, {share:.3g}",
        )
    )
    return figure(chart.render(kind) + legend(entries), name)


def points(summary: Summary) -> str:
    """Draw held-out predictions against observed labels, a figure for each setting."""
    clouds = summary.points("scatter")
    if not clouds:
        return ""
    labels = next(iter(clouds.values())).x
    # A few extreme predictions must not determine the axes.
    low, high = np.quantile(
        np.concatenate([labels, *(cloud.y for cloud in clouds.values())]), [0.001, 0.999]
    )
    ends = (float(min(low, labels.min())), float(max(high, labels.max())))
    margin = 0.03 * (ends[1] - ends[0])
    sample = some_of(labels.size, MOST_POINTS)
    within = summary.within()
    low = ends[0] - margin
    high = ends[1] + margin
    axes = linear_axis(low, high, "observed label"), linear_axis(low, high, "held-out prediction")
    panels = []
    for setting, cloud in clouds.items():
        words = summary.apart.in_words(setting)
        chart = Chart(*axes, f"Held-out predictions against observed labels, setting {words}", 356)
        chart.line(ends, ends, "beside")
        chart.dots(cloud.x[sample], cloud.y[sample], f"setting-{setting.value}")
        note = f"R² of all labels {number(cloud.score, 3)}; 90 % of them lie within ± {number(within[setting], 3)}"
        panels.append(figure(chart.render(f"points-{setting.value}"), escape(words), note=note))
    return "".join(panels)


def landscape(
    view: LandscapeView,
    levels: Sequence[float],
    means: Mapping[str, float],
    names: SideNames,
    *,
    is_own: bool = False,
) -> str:
    """Draw the scores of one setting, as a map over two regularisations or a line over one, and the best baseline.

    The script of the page reads the position and the texts of each point from JSON.
    """
    drawn = view.drawn
    setting = view.setting
    if drawn is None or setting is None:
        return ""
    if view.task_alphas is None:
        letters = {"alpha": "λ"}
    else:
        letters = {"alpha": "λ_d", "task_alpha": "λ_t"}
    score, *best = view.best
    at = ", ".join(
        f"{letter} {power(value)}" for letter, value in zip(letters.values(), best, strict=True)
    )
    zeros = "λ = 0 is not drawn" if view.zeros else ""
    reached = best_baseline(means)
    if reached is None:
        baseline = ""
    else:
        baseline = f"{in_words(reached[0], names)}: {number(reached[1])}"
    note = "; ".join(
        filter(None, [f"best {number(score)} at {at}", zeros, view.evaluated, baseline])
    )
    shown = [letters[name] for name in drawn.names]
    title = names.in_words(setting)
    if len(shown) == 2:
        chart, places = _map(view, drawn, title, levels, names)
    else:
        chart, places = _line(view, drawn, title, shown[0], None if reached is None else reached[1])
    data = {"names": [view.scoring, *shown], "points": places}
    script = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    own = ' <span class="own">chosen here</span>' if is_own else ""
    stage = f'<div class="stage">{chart}<div class="tip" role="status" hidden></div></div>'
    body = f'{stage}<script type="application/json">{script}</script>'
    return figure(body, escape(title) + own, kind="landscape", note=note)


def _map(
    view: LandscapeView,
    drawn: DrawnLandscape,
    title: str,
    levels: Sequence[float],
    names: SideNames,
) -> tuple[str, list[list[Any]]]:
    alphas, task_alphas = drawn.values
    y, x = drawn.powers
    up, across = drawn.edges
    right = power_axis(across[0], across[-1], f"λ_t ({names.tasks})", task_alphas)
    left = power_axis(up[0], up[-1], f"λ_d ({names.instances})", alphas)
    chart = Chart(
        right,
        left,
        f"Map of {view.scoring} in setting {title}. Arrow keys move over its points.",
        356,
    )
    steps = np.asarray(levels[1:])
    chart.cells(across, up, [[_band(loss, steps) for loss in row] for row in drawn.loss.tolist()])
    if view.alpha and view.task_alpha:
        chart.star(view.power("task_alpha"), view.power("alpha"))
    places = [
        [
            round(left, 1),
            round(top, 1),
            number(drawn.scores[i, j]),
            power(alphas[i]),
            power(task_alphas[j]),
        ]
        for i, top in enumerate(chart.up(y).tolist())
        for j, left in enumerate(chart.across(x).tolist())
    ]
    return chart.render(f"map-{title[0]}", interactive=True, grid=False), places


def _line(
    view: LandscapeView, drawn: DrawnLandscape, title: str, name: str, reached: float | None
) -> tuple[str, list[list[Any]]]:
    (alphas,) = drawn.values
    (x,) = drawn.powers
    scores = drawn.scores
    highest = float(np.nanmax(scores))
    # Far from the best, scores may be arbitrarily low: only the range near the best is drawn.
    lowest = max(float(np.nanmin(scores)), highest - 3 * (highest - float(np.nanmedian(scores))))
    margin = 0.06 * (highest - lowest)
    axes = power_axis(x[0], x[-1], name, alphas), linear_axis(lowest - margin, highest + margin, "")
    chart = Chart(
        *axes, f"{view.scoring} over {name} in setting {title}. Arrow keys move over its points."
    )
    if reached is not None and chart.y.low < reached < chart.y.high:
        chart.line([chart.x.low, chart.x.high], [reached] * 2, "beside")
    known = ~np.isnan(scores)
    chart.line(x[known], scores[known], f"setting-{title[0]}")
    chosen = view.power(drawn.names[0])
    if not math.isnan(chosen):
        chart.star(chosen, float(np.interp(chosen, x[known], scores[known])))
    places = [
        [
            round(left, 1),
            round(min(max(top, 10.0), 256.0), 1),
            number(float(score)),
            power(float(alpha)),
        ]
        for left, top, score, alpha in zip(
            chart.across(x), chart.up(scores), scores, alphas, strict=True
        )
        if not np.isnan(score)
    ]
    return chart.render(f"line-{title[0]}", interactive=True), places


def _band(loss: float, steps: np.ndarray) -> str | None:
    """Return the colour of a cell, None without a score; few steps also use the full range of colours."""
    if math.isnan(loss):
        return None
    return (
        f"band-{round(int(np.searchsorted(steps, loss)) * (_BANDS - 1) / max(steps.size - 1, 1))}"
    )


def levels_legend(levels: Sequence[float]) -> str:
    """Return the legend of the colours of the maps."""
    words = [*(f"≤ {number(level)}" for level in levels[1:-1]), "more"]
    bands = (_band(level, np.asarray(levels[1:])) for level in levels[1:])
    look = 'width="22" height="12"/></svg>'
    marks = (
        f'<svg viewBox="0 0 22 12" aria-hidden="true"><rect class="{band}" {look}' for band in bands
    )
    entries = legend(zip(marks, words, strict=True), "legend levels")
    return f'<p class="key">Lost against the best of each setting:</p>{entries}'

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
from dyadlearn.views.grid import GridView, Pixels, Points, some_of
from dyadlearn.views.landscape import DrawnLandscape, LandscapeView
from dyadlearn.views.spectrum import SideSpectrum, called
from dyadlearn.views.summary import Summary

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
    for n_letters in range(len(text), 0, -1):
        if text_width(text[:n_letters] + "…") <= width:
            return text[:n_letters].rstrip() + "…"
    return "…"


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
        middle = low
        low = middle - 0.5
        high = middle + 0.5
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * min((1, 2, 5, 10), key=lambda digit: abs(digit - rough / size))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # Enough digits that all ticks differ.
    places = 1 - math.floor(math.log10(step))
    values = [round(k * step, places) + 0.0 for k in range(first, last + 1)]
    largest = max(map(abs, values), default=0.0) or 1.0
    digits = max(4, places + math.floor(math.log10(largest)))
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
        middle = low
        low = middle - 0.5
        high = middle + 0.5
    inside = list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))
    if len(inside) > 3:
        return Axis(low, high, label, _whole_powers(inside))
    steps = []
    for exponent in range(math.floor(low), math.ceil(high) + 1):
        for digit in (1, 2, 5):
            step = digit * 10.0**exponent
            if low - 1e-9 <= math.log10(step) <= high + 1e-9:
                steps.append(step)
    chosen = steps if len(steps) > 1 else list(values)[:7]
    return Axis(low, high, label, [(math.log10(value), power(value)) for value in chosen])


def _whole_powers(exponents: list[int]) -> list[tuple[float, str]]:
    """Return at most about seven of consecutive powers of ten as ticks."""
    step = -(-len(exponents) // 7)
    is_plain = exponents[0] >= 0 and exponents[-1] <= 5
    ticks: list[tuple[float, str]] = []
    for exponent in exponents:
        if exponent % step == 0:
            is_number = is_plain or exponent == 0
            if is_number:
                text = f"{10**exponent:,}"
            else:
                text = f"10{superscript(exponent)}"
            ticks.append((exponent, text))
    return ticks


def path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """Return straight lines between points as the data of a path.

    Examples
    --------
    >>> from dyadlearn.report.figures import path
    >>> path([(0, 0), (1.26, 2), (1.26, 2)], closed=True)
    'M0 0L1.3 2Z'
    """
    corners = (f"{round(x, 1):g} {round(y, 1):g}" for x, y in points)
    distinct = (text for text, _ in groupby(corners))
    return "M" + "L".join(distinct) + ("Z" if closed else "")


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
        label = 1.8 * _TICK if self.y.label else 4
        return max(_LEFT, widest + 7 + label)

    def across(self, values: Iterable[float] | np.ndarray) -> np.ndarray:
        """Return the horizontal positions of values."""
        width = _WIDTH - self.left - _RIGHT
        return self.left + self.x.share(np.asarray(values, dtype=np.float64)) * width

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
                if kind is None:
                    continue
                left, right = across[j : j + 2]
                bottom, top = up[i : i + 2]
                corners = [(left, bottom), (right, bottom), (right, top), (left, top)]
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
                width = max(end - start - 1, 0.5)
                place = f'x="{start + 0.5:.1f}" y="{top:.1f}"'
                size = f'width="{width:.1f}" height="{foot - top:.1f}"'
                self._inside.append(f'<rect class="{kind}" {place} {size}/>')

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
        lines, texts = self._ticks()
        texts += self._labels()
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

    def _ticks(self) -> tuple[list[str], list[str]]:
        """Return the grid lines, as data of a path, and the numbers of both axes."""
        foot = self.height - _BOTTOM
        right = _WIDTH - _RIGHT
        left = self.left
        lines = []
        texts = []
        ticks = self._far_apart()
        places = self.across([value for value, _ in ticks])
        for place, (_, text) in zip(places, ticks, strict=True):
            # Numbers at the ends must stay within the picture.
            half = text_width(text) / 2
            centre = min(max(float(place), half), _WIDTH - half)
            lines.append(f"M{place:.1f} {_TOP:g}V{foot:g}")
            position = f'x="{centre:.1f}" y="{foot + 16:g}"'
            texts.append(f'<text {position} text-anchor="middle">{escape(text)}</text>')
        ticks = self.y.ticks
        places = self.up([value for value, _ in ticks])
        for place, (_, text) in zip(places, ticks, strict=True):
            lines.append(f"M{left:g} {place:.1f}H{right:g}")
            position = f'x="{left - 7:g}" y="{place + 4:.1f}"'
            texts.append(f'<text {position} text-anchor="end">{escape(text)}</text>')
        return lines, texts

    def _labels(self) -> list[str]:
        """Return the labels of both axes, shortened to their space."""
        middle = (self.left + _WIDTH - _RIGHT) / 2
        centre = (_TOP + self.height - _BOTTOM) / 2
        across = marked_up(shortened(self.x.label, 2 * (_WIDTH - middle)), _LOWERED)
        up = marked_up(shortened(self.y.label, 2 * centre), _LOWERED)
        below = f'x="{middle:g}" y="{self.height - 6:g}"'
        beside = f'transform="translate(13 {centre:g}) rotate(-90)"'
        return [
            f'<text {below} text-anchor="middle">{across}</text>',
            f'<text {beside} text-anchor="middle">{up}</text>',
        ]

    def _far_apart(self) -> list[tuple[float, str]]:
        """Return the ticks below the frame that fit: all, every second, every third and so on."""
        step = 1
        ticks = self.x.ticks
        while len(ticks) > 2 and not self._fit(ticks):
            step += 1
            # A tick at zero is always shown.
            zeros = [place for place, (_, text) in enumerate(self.x.ticks) if text == "0"]
            first = zeros[0] % step if zeros else 0
            ticks = self.x.ticks[first::step]
        return ticks

    def _fit(self, ticks: list[tuple[float, str]]) -> bool:
        """Return whether the numbers of ticks below the frame do not touch each other."""
        places = self.across([value for value, _ in ticks]).tolist()
        halves = [text_width(text) / 2 for _, text in ticks]
        for (left, half), (right, other) in pairwise(zip(places, halves, strict=True)):
            if left + half + 6 > right - other:
                return False
        return True


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
        length = struct.pack(">I", len(data))
        checksum = struct.pack(">I", zlib.crc32(kind + data))
        body += length + kind + data + checksum
    return "data:image/png;base64," + base64.b64encode(body).decode("ascii")


#: What follows the name of the setting of a search.
CHOSEN_HERE = ' <span class="own">chosen here</span>'
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
        cells = "".join(f"<td>{text}</td>" for text in texts)
        body += f"<tr class='{look}'><th scope='row'>{name}</th>{cells}</tr>"
    return f"<table class='{kind}'><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>"


def grid(labels: GridView) -> str:
    """Draw the labels as an image; binary and missing labels are sorted by degree."""
    is_sorted = labels.is_binary or labels.n_missing > 0
    pixels = (labels.by_degree if is_sorted else labels).pixels(_MOST_PIXELS)
    indices = _colour_indices(pixels)
    source = png(indices, _palette(labels.is_binary))
    m, q = labels.values.shape
    words = f"{m:,} {labels.names.instances} (down) × {q:,} {labels.names.tasks} (across)"
    # Long grids are stretched.
    look = f'style="aspect-ratio: {min(max(q / m, 0.6), 2.2):.3f}"'
    kind = "pixels sharp" if max(indices.shape) <= 300 else "pixels"
    picture = (
        f'<img class="{kind}" {look} src="{source}" alt="The grid of labels: {escape(words)}">'
    )
    body = f'{picture}<p class="key">{escape(words)}</p>{_grid_legend(labels, pixels)}'
    notes = []
    if is_sorted:
        notes.append(f"those with the most {labels.counted} labels first")
    if pixels.note:
        notes.append(pixels.note)
    return figure(body, "Grid", kind="grid-picture", note="; ".join(notes))


def _colour_indices(pixels: Pixels) -> np.ndarray:
    """Return the index of the colour of each pixel in the palette."""
    low, high = pixels.ends
    missing = np.isnan(pixels.values)
    share = (pixels.values - low) / ((high - low) or 1.0)
    share = np.clip(np.where(missing, 0, share), 0, 1)
    indices = np.where(missing, _STEPS, np.rint(share * (_STEPS - 1)))
    return indices.astype(np.uint8)


def _grid_legend(labels: GridView, pixels: Pixels) -> str:
    """Return the legend of the image of a grid."""
    if labels.is_binary:
        low, high = (number(value) for value in labels.distinct)
        share = " (stronger: more of them)" if pixels.note else ""
        keys = [("ink", f"label {high}{share}"), ("blank", f"label {low}")]
    else:
        low, high = (number(value) for value in pixels.ends)
        keys = [("ramp", f"{low} to {high}, 1 % at each end beyond")]
    if labels.n_missing:
        keys.append(("missing" if labels.is_binary else "blank", "not observed"))
    return legend((f'<span class="swatch {kind}"></span>', text) for kind, text in keys)


def _palette(is_binary: bool) -> list[tuple[int, int, int, int]]:
    """Return the colours of the labels in ascending order, and that of missing ones."""
    shares = np.linspace(0.0, 1.0, _STEPS)
    if is_binary:
        # The square root makes single labels of a large block visible.
        inks = [(*_INK, int(255 * share**0.5)) for share in shares]
        return [*inks, _MISSING]
    stops = np.linspace(0, 1, len(_STOPS))
    reds, greens, blues = (np.interp(shares, stops, colour) for colour in _STOPS.T)
    ramp = []
    for red, green, blue in zip(reds, greens, blues, strict=True):
        ramp.append((int(red), int(green), int(blue), 255))
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
    drawn = {name: side for name, side in sides.items() if name != "pairs" and side.rank}
    if not drawn:
        return ""
    highest = max(float(side.values[0]) for side in drawn.values())
    lowest = min(float(side.values[side.rank - 1]) for side in drawn.values())
    lowest = max(lowest, 1e-10 * highest)
    longest = max(side.rank for side in drawn.values())
    x = power_axis(0, max(np.log10(longest), 0.3), "rank of the eigenvalue", [1, longest])
    bottom = np.log10(lowest) - 0.1
    top = np.log10(highest) + 0.1
    y = power_axis(bottom, top, "eigenvalue σ", [lowest, highest])
    chart = Chart(x, y, "Eigenvalues of the kernels in descending order")
    entries = []
    for index, (name, side) in enumerate(drawn.items()):
        kind = f"side-{index}"
        ranks = np.unique(np.rint(np.geomspace(1, side.rank, 200)).astype(int))
        chart.line(np.log10(ranks), np.log10(side.values[ranks - 1]), kind)
        if side.alpha is not None and lowest <= side.alpha <= highest:
            level = np.log10(side.alpha)
            chart.line([0, chart.x.high], [level, level], f"{kind} level")
        entries.append((stroke(kind), called(name, names)))
    note = ""
    if any(side.alpha is not None for side in drawn.values()):
        note = "Directions above their λ (dashed) are kept, those below it fade."
    return figure(chart.render("spectrum") + legend(entries), "Kernel spectra", note=note)


def kernels(sides: Mapping[str, SideSpectrum], names: SideNames) -> str:
    """Return a table of both kernels, and of the pairs that a model filters together."""
    rows: dict[str, list[str]] = {
        name: [] for name in ("size", "rank", "λ", "effective dimension", "kernel")
    }
    for side in sides.values():
        dimension = side.effective_dimension
        rows["size"].append(f"{side.n_rows:,}")
        rows["rank"].append(f"{side.rank:,}")
        rows["λ"].append("–" if side.alpha is None else power(side.alpha))
        rows["effective dimension"].append("–" if math.isnan(dimension) else f"{dimension:,.1f}")
        rows["kernel"].append(escape(side.kernel))
    heads = [escape(called(name, names)) for name in sides]
    note = "The effective dimension counts the directions that are used, each weighted by its filter value."
    if any(side.has_constant for side in sides.values()):
        note += " Kernels are centred; the constant beside them counts as one."
    texts = table(heads, [("", name, texts) for name, texts in rows.items()])
    return figure(f'<div class="scroll">{texts}</div>', "Kernels", note=note)


def curves(kind: str, summary: Summary) -> str:
    """Draw the ROC or precision–recall curves of all settings."""
    share = summary.grid.share_positive
    if kind == "roc":
        name = "ROC curves"
        scoring = "roc_auc"
        short = "area"
        x = linear_axis(0, 1, "false positive rate")
        y = linear_axis(0, 1, "true positive rate")
        by_chance = [0.0, 1.0]
        chance = "any order at random"
    else:
        name = "Precision–recall curves"
        scoring = "average_precision"
        short = "average precision"
        x = linear_axis(0, 1, "recall")
        y = linear_axis(0, 1, "precision")
        by_chance = [share, share]
        chance = f"share of positive labels, {share:.3g}"
    chart = Chart(x, y, f"{name} of the settings", height=356)
    chart.line([0, 1], by_chance, "beside")
    # Baselines are known only for the score of the page.
    baselines = {}
    if summary.scoring == scoring:
        baselines = {result.setting: result.baselines for result in summary.results}
    entries = []
    for setting, curve in summary.points(kind).items():
        line = curve.thinned()
        chart.line(*(line if kind == "roc" else _steps(*line)), f"setting-{setting.value}")
        words = f"{summary.apart.in_words(setting)}, {short} {curve.score:.3f}"
        if curve.average != "pooled":
            words += f", mean per {getattr(summary.apart, curve.average)}"
        reached = best_baseline(baselines.get(setting, {}))
        if reached is not None:
            words += f"; {in_words(reached[0], summary.apart)} {reached[1]:.3f}"
        entries.append((stroke(f"setting-{setting.value}"), words))
    entries.append((stroke("beside"), chance))
    return figure(chart.render(kind) + legend(entries), name)


def points(summary: Summary) -> str:
    """Draw held-out predictions against observed labels, a figure for each setting."""
    clouds = []
    within = summary.within()
    for setting, cloud in summary.points("scatter").items():
        words = summary.apart.in_words(setting)
        clouds.append((setting.value, words, cloud, within[setting]))
    return scatters(clouds)


def scatters(clouds: Sequence[tuple[str, str, Points, float]]) -> str:
    """Draw labels and held-out predictions, a figure for each setting.

    Parameters
    ----------
    clouds : sequence of (str, str, Points, float)
        Letter and words of each setting, its points, and the distance within which 90 % of its
        labels are.
    """
    if not clouds:
        return ""
    labels = clouds[0][2].x
    # A few extreme predictions must not determine the axes.
    drawn = np.concatenate([labels, *(cloud.y for _, _, cloud, _ in clouds)])
    low, high = np.quantile(drawn, [0.001, 0.999])
    ends = (float(min(low, labels.min())), float(max(high, labels.max())))
    margin = 0.03 * (ends[1] - ends[0])
    sample = some_of(labels.size, MOST_POINTS)
    low = ends[0] - margin
    high = ends[1] + margin
    axes = linear_axis(low, high, "observed label"), linear_axis(low, high, "held-out prediction")
    panels = []
    for letter, words, cloud, within in clouds:
        chart = Chart(*axes, f"Held-out predictions against observed labels, setting {words}", 356)
        chart.line(ends, ends, "beside")
        chart.dots(cloud.x[sample], cloud.y[sample], f"setting-{letter}")
        note = (
            f"R² of all labels {number(cloud.score, 3)}; 90 % of them lie within ± "
            f"{number(within, 3)}"
        )
        panels.append(figure(chart.render(f"points-{letter}"), escape(words), note=note))
    return "".join(panels)


def landscape(
    view: LandscapeView,
    levels: Sequence[float],
    baselines: Mapping[str, float],
    names: SideNames,
    *,
    is_chosen: bool = False,
) -> str:
    """Draw the scores of one setting, as a map over two regularisations or a line over one, and the best baseline.

    The script of the page reads the position and the texts of each point from JSON.

    Parameters
    ----------
    view : LandscapeView
    levels : sequence of float
        Levels of the loss that all maps share.
    baselines : mapping of str to float
        Scores of the baselines by their names.
    names : SideNames
    is_chosen : bool, default=False
        Whether the regularisation was chosen in this setting.
    """
    drawn = view.drawn
    setting = view.setting
    if drawn is None or setting is None:
        return ""
    letters = {"alpha": "λ"}
    if view.task_alphas is not None:
        letters = {"alpha": "λ_d", "task_alpha": "λ_t"}
    reached = best_baseline(baselines)
    shown = [letters[name] for name in drawn.names]
    title = names.in_words(setting)
    if len(shown) == 2:
        chart, places = _map(view, drawn, title, levels, names)
    else:
        baseline = None if reached is None else reached[1]
        chart, places = _line(view, drawn, title, shown[0], baseline)
    data = {"names": [view.scoring, *shown], "points": places}
    script = json.dumps(data, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
    stage = f'<div class="stage">{chart}<div class="tip" role="status" hidden></div></div>'
    body = f'{stage}<script type="application/json">{script}</script>'
    caption = escape(title)
    if is_chosen:
        caption += CHOSEN_HERE
    note = _landscape_note(view, letters, reached, names)
    return figure(body, caption, kind="landscape", note=note)


def _landscape_note(
    view: LandscapeView,
    letters: Mapping[str, str],
    reached: tuple[str, float] | None,
    names: SideNames,
) -> str:
    """Return the best score, its regularisation and the best baseline in words."""
    score, *best = view.best
    regularisation = []
    for letter, value in zip(letters.values(), best, strict=True):
        regularisation.append(f"{letter} {power(value)}")
    parts = [f"best {number(score)} at {', '.join(regularisation)}"]
    if view.zeros:
        parts.append("λ = 0 is not drawn")
    if view.evaluated:
        parts.append(view.evaluated)
    if reached is not None:
        parts.append(f"{in_words(reached[0], names)}: {number(reached[1])}")
    return "; ".join(parts)


def _map(
    view: LandscapeView,
    drawn: DrawnLandscape,
    title: str,
    levels: Sequence[float],
    names: SideNames,
) -> tuple[str, list[list[Any]]]:
    """Return the map of a landscape, and the position and the texts of each of its points."""
    alphas, task_alphas = drawn.values
    y, x = drawn.powers
    up, across = drawn.edges
    chart = Chart(
        power_axis(across[0], across[-1], f"λ_t ({names.tasks})", task_alphas),
        power_axis(up[0], up[-1], f"λ_d ({names.instances})", alphas),
        f"Map of {view.scoring} in setting {title}. Arrow keys move over its points.",
        356,
    )
    steps = np.asarray(levels[1:])
    bands = []
    for row in drawn.loss.tolist():
        bands.append([_band(loss, steps) for loss in row])
    chart.cells(across, up, bands)
    if view.alpha and view.task_alpha:
        chart.star(view.power("task_alpha"), view.power("alpha"))
    places = []
    for i, top in enumerate(chart.up(y).tolist()):
        for j, left in enumerate(chart.across(x).tolist()):
            texts = [number(drawn.scores[i, j]), power(alphas[i]), power(task_alphas[j])]
            places.append([round(left, 1), round(top, 1), *texts])
    return chart.render(f"map-{title[0]}", interactive=True, grid=False), places


def _line(
    view: LandscapeView, drawn: DrawnLandscape, title: str, name: str, baseline: float | None
) -> tuple[str, list[list[Any]]]:
    """Return the line of a landscape, and the position and the texts of each of its points."""
    (alphas,) = drawn.values
    (x,) = drawn.powers
    scores = drawn.scores
    highest = float(np.nanmax(scores))
    # Far from the best, scores may be arbitrarily low: only the range near the best is drawn.
    lowest = max(float(np.nanmin(scores)), highest - 3 * (highest - float(np.nanmedian(scores))))
    margin = 0.06 * (highest - lowest)
    chart = Chart(
        power_axis(x[0], x[-1], name, alphas),
        linear_axis(lowest - margin, highest + margin, ""),
        f"{view.scoring} over {name} in setting {title}. Arrow keys move over its points.",
    )
    if baseline is not None and chart.y.low < baseline < chart.y.high:
        chart.line([chart.x.low, chart.x.high], [baseline] * 2, "beside")
    known = ~np.isnan(scores)
    chart.line(x[known], scores[known], f"setting-{title[0]}")
    chosen = view.power(drawn.names[0])
    if not math.isnan(chosen):
        chart.star(chosen, float(np.interp(chosen, x[known], scores[known])))
    places = []
    points = zip(chart.across(x), chart.up(scores), scores, alphas, strict=True)
    for left, top, score, alpha in points:
        if not np.isnan(score):
            height = round(min(max(top, 10.0), 256.0), 1)
            texts = [number(float(score)), power(float(alpha))]
            places.append([round(left, 1), height, *texts])
    return chart.render(f"line-{title[0]}", interactive=True), places


def _band(loss: float, steps: np.ndarray) -> str | None:
    """Return the colour of a cell, None without a score; few steps also use the full range of colours."""
    if math.isnan(loss):
        return None
    step = int(np.searchsorted(steps, loss))
    return f"band-{round(step * (_BANDS - 1) / max(steps.size - 1, 1))}"


def levels_legend(levels: Sequence[float]) -> str:
    """Return the legend of the colours of the maps."""
    words = [*(f"≤ {number(level)}" for level in levels[1:-1]), "more"]
    marks = []
    for level in levels[1:]:
        box = f'<rect class="{_band(level, np.asarray(levels[1:]))}" width="22" height="12"/>'
        marks.append(f'<svg viewBox="0 0 22 12" aria-hidden="true">{box}</svg>')
    entries = legend(zip(marks, words, strict=True), "legend levels")
    return f'<p class="key">Lost against the best of each setting:</p>{entries}'

"""Charts as scalable graphics that take their colours from the page, and pictures of pixels."""

from __future__ import annotations

import base64
import math
import re
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from unicodedata import east_asian_width

import numpy as np

from dyadlearn._printing import number
from dyadlearn._words import power, superscript

__all__ = ["Axis", "Chart", "linear_axis", "marked_up", "path", "png", "power_axis", "shortened", "text_width"]

_WIDTH = 400.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 12.0, 10.0, 44.0
_TICK = 12.0  # size of the letters
_WIDE = frozenset("mwMW@%—…−")
_SMALL = frozenset("⁻⁰¹²³⁴⁵⁶⁷⁸⁹.,·| ")
# An index is lowered, and an empty letter lifts what follows again.
_LOWERED = r'<tspan dy="3" font-size="9">\1</tspan><tspan dy="-3">&#8203;</tspan>'


def marked_up(text: str, lowered: str = r"<sub>\1</sub>") -> str:
    """Return any text as safe markup, in which λ has its index lowered.

    Examples
    --------
    >>> from dyadlearn.report.drawing import marked_up
    >>> marked_up("λ_d < 1")
    'λ<sub>d</sub> &lt; 1'
    """
    return re.sub(r"(?<=λ)_([dt])", lowered, escape(text))


def text_width(text: str, size: float = _TICK) -> float:
    """Return about how wide a text is drawn, rather too wide than too narrow: nobody here knows the letters.

    Examples
    --------
    >>> from dyadlearn.report.drawing import text_width
    >>> text_width("10⁻⁶"), text_width("1000", size=10.0)
    (26.4, 26.0)
    """
    widths = (
        1.0 if letter in _WIDE or east_asian_width(letter) in "WF" else 0.45 if letter in _SMALL else 0.65
        for letter in text
    )
    return round(size * sum(widths), 6)


def shortened(text: str, room: float, size: float = _TICK) -> str:
    """Return a text that is drawn no wider than there is room, with an ellipsis where it was cut.

    Examples
    --------
    >>> from dyadlearn.report.drawing import shortened
    >>> shortened("parasites", 100.0), shortened("parasites", 50.0)
    ('parasites', 'para…')
    """
    if text_width(text, size) <= room:
        return text
    kept = next((k for k in range(len(text), 0, -1) if text_width(text[:k] + "…", size) <= room), 0)
    return text[:kept].rstrip() + "…"


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
        """Return how far along the axis values lie, from 0 to 1."""
        return np.asarray((values - self.low) / (self.high - self.low))


def linear_axis(low: float, high: float, label: str) -> Axis:
    """Return an axis with ticks at round numbers.

    Examples
    --------
    >>> from dyadlearn.report.drawing import linear_axis
    >>> linear_axis(0.0, 1.0, "share").ticks
    [(0.0, '0'), (0.2, '0.2'), (0.4, '0.4'), (0.6, '0.6'), (0.8, '0.8'), (1.0, '1')]
    """
    if high <= low:
        low, high = low - 0.5, low + 0.5
    rough = (high - low) / 5
    size = 10.0 ** math.floor(math.log10(rough))
    step = size * min((1, 2, 5, 10), key=lambda digit: abs(digit - rough / size))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # As many digits as tell one tick from the next, however small they are or far from zero.
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
        What to write at the ticks where no two round numbers are in reach.

    Examples
    --------
    >>> from dyadlearn.report.drawing import power_axis
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
        return Axis(low, high, label, [(k, f"{10**k:,}" if plain or k == 0 else f"10{superscript(k)}") for k in shown])
    steps = [digit * 10.0**k for k in range(math.floor(low), math.ceil(high) + 1) for digit in (1, 2, 5)]
    steps = [step for step in steps if low - 1e-9 <= math.log10(step) <= high + 1e-9]
    chosen = steps if len(steps) > 1 else list(values)[:7]
    return Axis(low, high, label, [(math.log10(value), power(value)) for value in chosen])


def path(points: Iterable[tuple[float, float]], *, closed: bool = False) -> str:
    """Return straight lines between points as the data of a path.

    Examples
    --------
    >>> from dyadlearn.report.drawing import path
    >>> path([(0, 0), (1.26, 2), (1.26, 2)], closed=True)
    'M0 0L1.3 2Z'
    """
    texts = [f"{round(x, 1):g} {round(y, 1):g}" for x, y in points]
    kept = [text for place, text in enumerate(texts) if place == 0 or text != texts[place - 1]]
    return "M" + "L".join(kept) + ("Z" if closed else "")


@dataclass(eq=False)
class Chart:
    """A chart that is filled in piece by piece.

    Attributes
    ----------
    x, y : Axis
    label : str
        What a reader who does not see it is told.
    height : float, default=300
        Of a width of 400.
    """

    x: Axis
    y: Axis
    label: str
    height: float = 300.0
    _inside: list[str] = field(default_factory=list)
    _over: list[str] = field(default_factory=list)

    @property
    def left(self) -> float:
        """Where the frame begins: the numbers beside it need room, and so does what is written beside these."""
        widest = max((text_width(text) for _, text in self.y.ticks), default=0.0)
        return max(_LEFT, widest + 7 + (1.8 * _TICK if self.y.label else 4))

    def across(self, values: Iterable[float] | np.ndarray) -> np.ndarray:
        """Return where values lie from left to right."""
        return self.left + self.x.share(np.asarray(values, dtype=np.float64)) * (_WIDTH - self.left - _RIGHT)

    def up(self, values: Iterable[float] | np.ndarray) -> np.ndarray:
        """Return where values lie from top to bottom, which counts downwards."""
        room = self.height - _TOP - _BOTTOM
        return _TOP + (1.0 - self.y.share(np.asarray(values, dtype=np.float64))) * room

    def points(self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray) -> list[tuple[float, float]]:
        """Return pairs of places."""
        return list(zip(self.across(x).tolist(), self.up(y).tolist(), strict=True))

    def line(self, x: Sequence[float] | np.ndarray, y: Sequence[float] | np.ndarray, kind: str) -> None:
        """Draw a line in the look that the page gives to its kind."""
        self._inside.append(f'<path class="line {kind}" d="{path(self.points(x, y))}"/>')

    def cells(self, x_edges: np.ndarray, y_edges: np.ndarray, kinds: Sequence[Sequence[str | None]]) -> None:
        """Fill cells between edges (q + 1,) across and (m + 1,) up, those of one kind at once; None stays free."""
        across, up = self.across(x_edges).tolist(), self.up(y_edges).tolist()
        paths: dict[str, list[str]] = {}
        for i, row in enumerate(kinds):
            for j, kind in enumerate(row):
                if kind is not None:
                    corners = [(across[j + right], up[i + top]) for right, top in ((0, 0), (1, 0), (1, 1), (0, 1))]
                    paths.setdefault(kind, []).append(path(corners, closed=True))
        self._inside += [f'<path class="cell {kind}" d="{"".join(parts)}"/>' for kind, parts in paths.items()]

    def bars(self, edges: np.ndarray, heights: np.ndarray, kind: str) -> None:
        """Draw bars between edges (n + 1,) up to heights (n,)."""
        left, right = self.across(edges[:-1]), self.across(edges[1:])
        foot, tops = float(self.up([self.y.low])[0]), self.up(heights)
        for start, end, top in zip(left.tolist(), right.tolist(), tops.tolist(), strict=True):
            if top < foot:
                place = f'x="{start + 0.5:.1f}" y="{top:.1f}" width="{max(end - start - 1, 0.5):.1f}"'
                self._inside.append(f'<rect class="{kind}" {place} height="{foot - top:.1f}"/>')

    def dots(self, x: np.ndarray, y: np.ndarray, kind: str) -> None:
        """Draw many small dots, in heaps so that they darken where they lie close."""
        places = self.points(x, y)
        for start in range(0, len(places), 100):
            data = "".join(f"M{left:.1f} {top:.1f}h0" for left, top in places[start : start + 100])
            self._inside.append(f'<path class="dots {kind}" d="{data}"/>')

    def star(self, x: float, y: float) -> None:
        """Mark a point with a star, on the edge of the chart if it lies beyond."""
        ((left, top),) = self.points([x], [y])
        left, top = np.clip((left, top), (self.left, _TOP), (_WIDTH - _RIGHT, self.height - _BOTTOM))
        turns = [-math.pi / 2 + k * math.pi / 5 for k in range(10)]
        sizes = [8.5 if k % 2 == 0 else 3.8 for k in range(10)]
        corners = [
            (left + size * math.cos(turn), top + size * math.sin(turn)) for turn, size in zip(turns, sizes, strict=True)
        ]
        self._over.append(f'<path class="star" d="{path(corners, closed=True)}"/>')

    def render(self, name: str, *, interactive: bool = False, grid: bool = True) -> str:
        """Return the chart as an element of a page.

        Parameters
        ----------
        name : str
            An id that no other chart of the page has.
        interactive : bool, default=False
            Whether it can be focused and has a marker that a script moves.
        grid : bool, default=True
            Whether faint lines go through it.
        """
        left, foot, right = self.left, self.height - _BOTTOM, _WIDTH - _RIGHT
        lines, texts = [], []
        ticks = self._far_apart()
        for place, (_, text) in zip(self.across([at for at, _ in ticks]), ticks, strict=True):
            # At the ends numbers must not leave the picture.
            half = text_width(text) / 2
            at = min(max(float(place), half), _WIDTH - half)
            lines.append(f"M{place:.1f} {_TOP:g}V{foot:g}")
            texts.append(f'<text x="{at:.1f}" y="{foot + 16:g}" text-anchor="middle">{escape(text)}</text>')
        for place, (_, text) in zip(self.up([at for at, _ in self.y.ticks]), self.y.ticks, strict=True):
            lines.append(f"M{left:g} {place:.1f}H{right:g}")
            texts.append(f'<text x="{left - 7:g}" y="{place + 4:.1f}" text-anchor="end">{escape(text)}</text>')
        middle, centre = (left + right) / 2, (_TOP + foot) / 2
        across, up = (
            marked_up(shortened(axis.label, room), _LOWERED)
            for axis, room in ((self.x, 2 * (_WIDTH - middle)), (self.y, 2 * centre))
        )
        texts.append(f'<text x="{middle:g}" y="{self.height - 6:g}" text-anchor="middle">{across}</text>')
        texts.append(f'<text transform="translate(13 {centre:g}) rotate(-90)" text-anchor="middle">{up}</text>')
        behind = f'<path class="grid" d="{"".join(lines)}"/>' if grid else ""
        box = f'x="{left:g}" y="{_TOP:g}" width="{right - left:g}" height="{foot - _TOP:g}"'
        role = 'role="application" tabindex="0"' if interactive else 'role="img"'
        marker = '<circle class="here" r="5" hidden=""/>' if interactive else ""
        return (
            f'<svg viewBox="0 0 {_WIDTH:g} {self.height:g}" {role} aria-label="{escape(self.label)}">'
            f'<clipPath id="{name}"><rect {box}/></clipPath>{behind}'
            f'<g clip-path="url(#{name})">{"".join(self._inside)}</g>'
            f'<path class="frame" d="M{left:g} {_TOP:g}V{foot:g}H{right:g}"/>'
            f"<g class='ticks'>{''.join(texts)}</g>{''.join(self._over)}{marker}</svg>"
        )

    def _far_apart(self) -> list[tuple[float, str]]:
        """Return as many of the numbers below the frame as there is room for, every second, every third and so on."""
        every, ticks = 1, self.x.ticks
        while len(ticks) > 2:
            places = self.across([at for at, _ in ticks]).tolist()
            ends = [(place, text_width(text) / 2) for place, (_, text) in zip(places, ticks, strict=True)]
            if all(a + half + 6 <= b - other for (a, half), (b, other) in pairwise(ends)):
                break
            every += 1
            # A zero stays where there is one.
            first = next((k for k, (_, text) in enumerate(self.x.ticks) if text == "0"), 0) % every
            ticks = self.x.ticks[first::every]
        return ticks


def png(indices: np.ndarray, palette: list[tuple[int, int, int, int]]) -> str:
    """Return a picture of palette colours as a data address.

    Parameters
    ----------
    indices : array of uint8 of shape (height, width)
        Which colour each pixel has.
    palette : list of (red, green, blue, opacity)
        From 0 to 255 each.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.report.drawing import png
    >>> png(np.zeros((1, 1), dtype=np.uint8), [(255, 0, 0, 255)])[:30]
    'data:image/png;base64,iVBORw0K'
    """
    height, width = indices.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    # Each line begins with how it is filtered: not at all.
    lines = np.hstack([np.zeros((height, 1), dtype=np.uint8), indices]).tobytes()
    colours = b"".join(bytes(colour[:3]) for colour in palette)
    opacity = bytes(colour[3] for colour in palette)
    chunks = [
        (b"IHDR", header),
        (b"PLTE", colours),
        (b"tRNS", opacity),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return "data:image/png;base64," + base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode("ascii")

"""The grid of labels as a small picture."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import dataclass

import numpy as np

from dyadlearn.report.data import Labels

__all__ = ["Picture", "draw_grid", "png"]

# The mid blue is seen on a bright page and on a dark one; what is 0 shows the page.
_INK = (47, 118, 184)
_MISSING = (128, 128, 128, 70)
_STOPS = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]])
_STEPS = 64
_MOST_PIXELS = 480


@dataclass(frozen=True, eq=False)
class Picture:
    """A picture and what its colours mean.

    Attributes
    ----------
    source : str
        A data address.
    shape : (int, int)
        Height and width in pixels.
    block : (int, int)
        How many instances and tasks make one pixel.
    ends : (float, float)
        The labels that the first and the last colour stand for.
    """

    source: str
    shape: tuple[int, int]
    block: tuple[int, int]
    ends: tuple[float, float]


def draw_grid(labels: Labels, most_pixels: int = _MOST_PIXELS) -> Picture:
    """Draw the labels, those with the most first on both sides; large grids in blocks of their mean.

    Parameters
    ----------
    labels : Labels
    most_pixels : int, default=480
        On one side.

    Returns
    -------
    Picture
    """
    values, (rows, columns) = labels.values, labels.degrees()
    if labels.is_binary:
        values = np.where(labels.observed, labels.positive, np.nan).astype(np.float64)
    if labels.is_binary or not labels.is_complete:
        order = np.argsort(-rows.counts, kind="stable"), np.argsort(-columns.counts, kind="stable")
        values = values[np.ix_(*order)]
    block = (-(-values.shape[0] // most_pixels), -(-values.shape[1] // most_pixels))
    if block != (1, 1):
        values = block_means(values, *block)
    if labels.is_binary:
        ends = (0.0, 1.0)
    else:  # a few far-off labels must not leave one colour for all others
        low, high = np.nanquantile(labels.values, [0.01, 0.99])
        ends = (float(low), float(high))
    scale = (values - ends[0]) / ((ends[1] - ends[0]) or 1.0)
    missing = np.isnan(values)
    indices = np.where(missing, _STEPS, np.rint(np.clip(np.where(missing, 0, scale), 0, 1) * (_STEPS - 1)))
    return Picture(png(indices.astype(np.uint8), _palette(labels.is_binary)), values.shape, block, ends)


def _palette(is_binary: bool) -> list[tuple[int, int, int, int]]:
    share = np.linspace(0.0, 1.0, _STEPS)
    if is_binary:
        # The root lets single labels of a large block be seen.
        return [*((*_INK, int(255 * value**0.5)) for value in share), _MISSING]
    colours = [np.interp(share, np.linspace(0, 1, len(_STOPS)), _STOPS[:, part]) for part in range(3)]
    ramp = [(int(red), int(green), int(blue), 255) for red, green, blue in zip(*colours, strict=True)]
    return [*ramp, (0, 0, 0, 0)]


def block_means(values: np.ndarray, height: int, width: int) -> np.ndarray:
    """Return the mean of the observed labels in each block, NaN where there is none."""
    observed = ~np.isnan(values)
    starts = [np.arange(0, length, step) for length, step in zip(values.shape, (height, width), strict=True)]

    def sums(cells: np.ndarray) -> np.ndarray:
        return np.asarray(np.add.reduceat(np.add.reduceat(cells, starts[0], axis=0), starts[1], axis=1))

    total, count = sums(np.where(observed, values, 0.0)), sums(observed.astype(np.float64))
    return np.asarray(np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0))


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
    >>> from dyadlearn.report.picture import png
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

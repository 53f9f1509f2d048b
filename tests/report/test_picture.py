"""The picture of the grid, decoded by hand."""

from __future__ import annotations

import base64
import re
import struct
import zlib

import numpy as np
from numpy.testing import assert_array_equal

from dyadlearn._text import number
from dyadlearn.report import figures
from dyadlearn.report.figures import png
from dyadlearn.views.grid import grid_of_labels


def decode(source):
    """Return colours (height, width, 4) of a picture with a palette and no filters."""
    head, _, body = source.partition(",")
    assert head == "data:image/png;base64"
    data = base64.b64decode(body)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    chunks = {}
    place = 8
    while place < len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        kind = data[place + 4 : place + 8]
        content = data[place + 8 : place + 8 + length]
        (check,) = struct.unpack(">I", data[place + 8 + length : place + 12 + length])
        assert check == zlib.crc32(kind + content)
        chunks[kind] = content
        place += 12 + length
    width, height = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), dtype=np.uint8).reshape(
        height, width + 1
    )
    assert (lines[:, 0] == 0).all()
    colours = np.frombuffer(chunks[b"PLTE"], dtype=np.uint8).reshape(-1, 3)
    opacity = np.frombuffer(chunks[b"tRNS"], dtype=np.uint8)
    return np.hstack([colours, opacity[:, None]])[lines[:, 1:]]


def drawn(values):
    """Return the figure of a grid, and the colours of its picture."""
    text = figures.grid(grid_of_labels(values))
    return text, decode(re.search(r'src="([^"]*)"', text)[1])


def test_a_picture_has_the_colours_of_its_palette():
    palette = [(255, 0, 0, 255), (0, 9, 255, 7)]
    indices = np.array([[0, 1, 1], [1, 0, 0]], dtype=np.uint8)
    assert_array_equal(decode(png(indices, palette)), np.array(palette)[indices])


def test_zeros_show_the_page_and_ones_are_inked():
    values = np.array([[0.0, 1.0, 1.0], [1.0, 0.0, np.nan], [0.0, 0.0, 0.0]])
    _, colours = drawn(values)
    opacity = colours[:, :, 3]
    # Rows and columns of the most labels come first: both have one in common, then the missing one.
    assert_array_equal(np.sort(opacity.ravel()), [0] * 5 + [70] + [255] * 3)
    assert opacity[2].tolist() == [0, 0, 0]


def test_large_grids_are_drawn_in_blocks():
    values = np.random.default_rng(0).normal(size=(1000, 30))
    text, colours = drawn(values)
    assert "a pixel is the mean of 3 × 1 labels" in text
    assert colours.shape == (334, 30, 4)
    assert " to ".join(number(value) for value in np.quantile(values, [0.01, 0.99])) in text


def test_missing_among_colours_shows_the_page():
    values = np.array([[1.0, 2.0], [np.nan, 3.0]])
    opacity = drawn(values)[1][:, :, 3]
    assert sorted(opacity.ravel()) == [0, 255, 255, 255]


def test_equal_labels_make_one_colour():
    assert len(np.unique(drawn(np.ones((4, 5)))[1].reshape(-1, 4), axis=0)) == 1

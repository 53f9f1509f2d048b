"""The picture of the grid, read by another library."""

import base64
import io
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn._text import number
from dyadlearn.report import figures
from dyadlearn.report.figures import png
from dyadlearn.views.grid import grid_of_labels


def decode(source):
    """Return colours (height, width, 4) of a picture."""
    image = pytest.importorskip(
        "PIL.Image", reason="pillow is not installed: pictures are not read"
    )
    head, _, body = source.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(image.open(io.BytesIO(base64.b64decode(body))).convert("RGBA"))


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

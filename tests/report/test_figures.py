"""Charts: axes with round numbers, places within the frame, text that stays text; and pictures of grids."""

import base64
import io
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._text import number, power
from dyadlearn.report import figures
from dyadlearn.report.figures import Chart, linear_axis, path, png, power_axis
from dyadlearn.views.grid import grid_of_labels
from sweeps import lines, over


@over(
    lines(
        "low high",
        (0, 1),
        (-3.7, 12.2),
        (-5e8, 2e9),
        (0.99, 1.0),
        (2, 2),
        (-3e-14, 5e-14),
        (100.001, 100.003),
    )
)
def test_linear_ticks_lie_on_the_axis(low, high):
    axis = linear_axis(low, high, "x")
    places = [place for place, _ in axis.ticks]
    assert 3 <= len(places) <= 11
    assert min(places) >= axis.low - 1e-9 * abs(axis.low)
    assert max(places) <= axis.high + 1e-9 * abs(axis.high)
    assert len({text for _, text in axis.ticks}) == len(set(places)) == len(places)


@over(lines("low high", (-7, 6), (-0.4, 1.4), (0, 2.8), (-20, 3), (0, 3.7), (2, 2)))
def test_logarithmic_ticks_lie_on_the_axis(low, high):
    axis = power_axis(low, high, "x", [100.0])
    places = [place for place, _ in axis.ticks]
    assert 1 <= len(places) <= 9
    assert min(places) >= axis.low - 1e-6
    assert max(places) <= axis.high + 1e-6


def test_values_are_written_where_no_round_number_is():
    axis = power_axis(np.log10(3), np.log10(4), "x", [3.0, 4.0])
    assert [text for _, text in axis.ticks] == ["3", "4"]


def chart():
    return Chart(
        linear_axis(0, 10, "across"), linear_axis(0, 1, "λ_d & <up>"), 'a "chart"', height=300
    )


def test_places_span_the_frame():
    drawn = chart()
    assert_allclose(drawn.across([0, 5, 10]), [52, 220, 388])
    assert_allclose(drawn.up([0, 1]), [256, 10])


def test_a_chart_is_well_formed_and_its_text_is_text():
    drawn = chart()
    drawn.line([0, 10], [0, 1], "chance")
    drawn.dots(np.arange(250.0) / 25, np.linspace(0, 1, 250), "setting-A")
    drawn.bars(np.array([0.0, 5.0, 10.0]), np.array([0.5, 0.0]), "bar")
    drawn.cells(
        np.array([0, 5, 10]), np.array([0, 0.5, 1]), [["band-0", None], ["band-1", "band-0"]]
    )
    found = ET.fromstring(drawn.render("name", interactive=True))
    texts = "".join(found.itertext())
    assert "& <up>" in texts
    assert found.get("aria-label") == 'a "chart"'
    assert found.get("tabindex") == "0"
    assert len(found.findall(".//rect[@class='bar']")) == 1  # a bar of no height is not drawn
    assert len(found.findall(".//path[@class='dots setting-A']")) == 3
    (cells,) = found.findall(".//path[@class='cell band-0']")
    assert cells.get("d") == "M52 256L220 256L220 133L52 133ZM220 133L388 133L388 10L220 10Z"


def test_a_star_stays_within_the_frame():
    drawn = chart()
    drawn.star(99, -3)
    (star,) = ET.fromstring(drawn.render("name")).findall(".//path[@class='star']")
    first = star.get("d")[1:].split("L")[0].split()
    assert_allclose([float(part) for part in first], [388, 256 - 8.5])


def test_points_that_fall_together_are_written_once():
    assert path([(0, 0), (0.01, 0), (1, 1), (1, 1.02)]) == "M0 0L1 1"


@over(
    lines(
        "value text",
        (1e-7, "10⁻⁷"),
        (1e6, "10⁶"),
        (1.0, "1"),
        (0.0, "0"),
        (0.001, "0.001"),
        (10000.0, "10000"),
        (3e-5, "3·10⁻⁵"),
    )
)
def test_regularisations_in_words(value, text):
    assert power(value) == text


# --- the picture of the grid, read by another library --------------------------------------------


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
    assert sorted(drawn(values)[1][:, :, 3].ravel()) == [0, 255, 255, 255]

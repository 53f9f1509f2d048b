"""The picture of probabilities shows the bins of `calibrate`, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import TwoStepRidge, calibrate
from dyadlearn.plots import ReliabilityDisplay


@pytest.fixture(scope="module")
def found():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(25, 3)), rng.normal(size=(15, 2))
    Y = np.where(X[:, :2] @ T.T + rng.normal(size=(25, 15)) > 0.5, 4.0, -1.0)
    return calibrate(TwoStepRidge().fit(X, Y, tasks=T))


def test_points_and_counts(found, ax):
    display = ReliabilityDisplay.from_result(found, ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert display.brier == found.brier
    assert len(display.points_) == 4
    steps = [patch for patch in display.histogram_ax_.patches if hasattr(patch, "get_data")]
    for points, one, counts in zip(display.points_, found.settings.values(), steps, strict=True):
        bins = one.reliability
        assert_allclose(points[0].get_xydata(), np.column_stack([bins.probability, bins.share]))
        ends = np.array([line[:, 1] for line in points[2][0].get_segments()])
        assert_allclose(ends, np.column_stack([bins.lower, bins.upper]), atol=1e-12)
        assert counts.get_data().values.sum() == bins.count.sum() == 375
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words[1].startswith("B: new instance, Brier ")
    assert ax.get_ylabel() == "Share of labels 4"


def test_one_setting_counts_its_points(found, ax):
    display = ReliabilityDisplay.from_estimator(found.model, "D", method="isotonic", ax=ax)
    assert display.method == "isotonic"
    assert [text.get_text() for text in ax.texts] == [f"{n:,}" for n in display.reliability["D"].count]
    assert_array_equal(display.ax_.get_xlim(), (0, 1))


def test_axes_without_a_place_in_a_grid(found):
    from matplotlib.figure import Figure

    ax = Figure().add_axes((0.1, 0.1, 0.8, 0.8))
    display = ReliabilityDisplay.from_result(found, ax=ax)
    above, below = (each.get_position() for each in (ax, display.histogram_ax_))
    assert_allclose([below.y0, above.y1], [0.1, 0.9])
    assert below.y1 < above.y0


def test_a_figure_of_its_own(found, tmp_path):
    display = ReliabilityDisplay(found).plot()
    display.figure_.savefig(tmp_path / "picture.png")
    with pytest.raises(TypeError, match="ax must be the axes"):
        ReliabilityDisplay.from_result(found, ax="here")

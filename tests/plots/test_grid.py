"""The picture of the grid holds its labels, in the order and the blocks that are asked for."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgba
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import PairRegressor, TwoStepRidge
from dyadlearn.plots import GridDisplay

NAN = np.nan


def test_the_image_holds_the_labels(real, ax):
    X, Y, T = real
    display = GridDisplay.from_estimator(TwoStepRidge().fit(X, Y, tasks=T), ax=ax)
    assert_array_equal(display.image_.get_array(), Y)
    assert display.block_ is None
    assert "24 instances × 16 tasks" in ax.get_title()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("tasks", "instances")
    assert_array_equal(ax.get_ylim(), [23.5, -0.5])


def test_both_sides_of_a_network_are_its_nodes(real, ax):
    X, Y, _ = real
    GridDisplay.from_estimator(TwoStepRidge(symmetry="symmetric").fit(X, Y @ Y.T), ax=ax)
    assert ax.get_title() == "24 nodes × 24 nodes"
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("nodes", "nodes")


def pixel(display, row, column):
    """Return the colour in which a cell is drawn."""
    image = display.image_
    return tuple(image.cmap(image.norm(image.get_array()))[row, column])


def test_what_is_not_observed_has_another_colour(ax):
    display = GridDisplay.from_labels([[1.0, 0.0, NAN], [NAN, 1.0, 0.0]], ax=ax)
    assert pixel(display, 0, 2) == pixel(display, 1, 0) == to_rgba("#E69F00")
    assert len({pixel(display, 0, column) for column in range(3)}) == 3
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts == ["label 0", "label 1", "not observed (33.3 %)"]
    many = GridDisplay.from_labels([[1.0, 0.5, NAN], [0.0, 1.0, 0.0]], ax=ax)
    colours = [pixel(many, 0, column) for column in range(3)] + [pixel(many, 1, 0)]
    assert len(set(colours)) == 4
    assert len(set(colours[2][:3])) == 1  # grey
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["not observed (16.7 %)"]


def test_labels_of_one_value_or_none(ax):
    assert_array_equal(GridDisplay.from_labels(np.ones((3, 2)), ax=ax).image_.get_array(), np.ones((3, 2)))
    assert GridDisplay.from_labels(np.full((3, 2), NAN), ax=ax).image_.get_array().mask.all()
    ax.figure.canvas.draw()


def test_order_by_degree(ax):
    Y = np.array([[0, 0, 1], [1, 1, 1], [0, NAN, 0], [0, 1, 1.0]])
    display = GridDisplay.from_labels(Y, order="degree", ax=ax)
    assert_array_equal(display.instance_order, [1, 3, 0, 2])
    assert_array_equal(display.task_order, [2, 1, 0])
    assert_array_equal(display.values, Y[[1, 3, 0, 2]][:, [2, 1, 0]])
    assert [values.tolist() for values in display.degrees()] == [[3, 2, 1, 0], [3, 2, 1]]


def test_the_degree_of_other_labels_is_the_number_of_observed_ones(ax):
    display = GridDisplay.from_labels([[1.0, NAN, NAN], [2.0, 3.0, NAN], [5.0, NAN, NAN]], order="degree", ax=ax)
    assert [values.tolist() for values in display.degrees()] == [[2, 1, 1], [3, 1, 0]]
    assert_array_equal(display.instance_order, [1, 2, 0])  # of equal ones the larger labels first


@pytest.mark.parametrize("shape", [(7, 5), (9, 4), (2, 11)])
def test_blocks_are_means_of_what_is_observed(ax, shape):
    rng = np.random.default_rng(1)
    Y = rng.normal(size=shape)
    Y[rng.random(shape) < 0.3] = NAN
    Y[:2, :2] = NAN
    display = GridDisplay.from_labels(Y, max_pixels=4, ax=ax)
    height, width = display.block_
    assert (height, width) == tuple(-(-size // 4) for size in shape)
    pixels = display.image_.get_array().filled(NAN)
    for row, column in np.ndindex(pixels.shape):
        block = Y[row * height : (row + 1) * height, column * width : (column + 1) * width]
        expected = block[~np.isnan(block)].mean() if not np.isnan(block).all() else NAN
        assert_allclose(pixels[row, column], expected)
    assert f"a pixel is the mean of {height} × {width} labels" in ax.get_title()
    assert_array_equal(ax.get_xlim(), [-0.5, shape[1] - 0.5])
    left, right, *_ = display.image_.get_extent()
    assert right - left == pixels.shape[1] * width


def test_blocks_of_two_labels_are_shares(ax):
    Y = np.array([[-1.0, 4.0], [4.0, 4.0], [NAN, -1.0], [-1.0, -1.0]])
    display = GridDisplay.from_labels(Y, max_pixels=2, ax=ax)
    assert_allclose(display.image_.get_array(), [[0.5, 1.0], [0.0, 0.0]])
    assert ax.figure.axes[-1].get_ylabel() == "share of label 4"


def test_ids_are_written_where_they_can_be_read(real, ax):
    pd = pytest.importorskip("pandas")
    X, Y, T = real
    rows, columns = pd.Index([f"p{i}" for i in range(24)], name="protein"), pd.Index([f"d{j}" for j in range(16)])
    X, T = pd.DataFrame(X, rows), pd.DataFrame(T, columns)
    model = TwoStepRidge().fit(X, pd.DataFrame(Y, rows, columns), tasks=T)
    display = GridDisplay.from_estimator(model, order="degree", ax=ax)
    written = [label.get_text() for label in ax.get_yticklabels()]
    assert written == [rows[place] for place in display.instance_order]
    assert display.task_ids.labels == tuple(columns[display.task_order])
    assert ax.get_ylabel() == "instances (protein)"
    assert ax.get_xlabel() == "tasks"
    GridDisplay.from_labels(pd.DataFrame(np.ones((41, 2))).rename("i{}".format), ax=ax)
    assert len(ax.get_yticks()) < 12
    pairs = [(i, t) for i in rows for t in columns]
    regressor = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(pairs, Y.ravel())
    assert_array_equal(GridDisplay.from_estimator(regressor, ax=ax).values, Y)


def test_incomplete_models_and_other_libraries(real, ax):
    X, Y, T = real
    Y = Y.copy()
    Y[2:5, 3] = NAN
    assert_array_equal(GridDisplay.from_estimator(TwoStepRidge().fit(X, Y, tasks=T), ax=ax).values, Y)
    torch = pytest.importorskip("torch")
    assert_array_equal(GridDisplay.from_labels(torch.as_tensor(Y), ax=ax).values, Y)


def test_bad_input_is_said_in_a_sentence(ax):
    with pytest.raises(ValueError, match="order must be one of 'given', 'degree', found 'best'"):
        GridDisplay.from_labels([[1.0]], order="best", ax=ax)
    with pytest.raises(ValueError, match="max_pixels must be at least 1, found 0"):
        GridDisplay.from_labels([[1.0]], max_pixels=0, ax=ax)
    with pytest.raises(ValueError, match="Y contains infinity"):
        GridDisplay.from_labels([[np.inf]], ax=ax)

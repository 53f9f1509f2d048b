"""The grid of labels: what comes in, with or without ids, and how it goes out again."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from scipy import sparse
from scipy.stats import norm, rankdata
from sklearn.exceptions import NotFittedError

from dyadlearn.labels import Labels, NormalScores, fisher_relabel, read_labels
from sweeps import every, lines, over

GRID = np.array([[1.0, np.nan, 0.0], [0.5, 2.0, -1.0]])


@over(
    lines(
        "given kind rows columns is_vector",
        (GRID, None, None, None, False),
        (
            pd.DataFrame(GRID, pd.Index(["p1", "p2"], name="protein"), ["d1", "d2", "d3"]),
            "pandas",
            ("p1", "p2"),
            ("d1", "d2", "d3"),
            False,
        ),
        (pd.Series([1.0, 2.0], index=["p1", "p2"]), "pandas", ("p1", "p2"), None, True),
        (
            pl.DataFrame({"protein": ["p1", "p2"], "d1": [1.0, 0.5]}),
            "polars",
            ("p1", "p2"),
            ("d1",),
            False,
        ),
        (pl.Series([1.0, 2.0]), "polars", None, None, True),
    )
)
def test_labels_bring_their_ids_and_go_back_to_their_form(given, kind, rows, columns, is_vector):
    grid = read_labels(given)
    assert (grid.kind, grid.is_vector) == (kind, is_vector)
    assert (rows is None) == (grid.row_ids is None)
    assert rows is None or grid.row_ids.labels == rows
    assert columns is None or grid.column_ids.labels == columns
    restored = grid.restore(grid.values)
    assert type(restored) is (np.ndarray if kind is None else type(given))
    if kind is None:
        assert_array_equal(restored, given)
    else:
        assert restored.equals(given)


@over(every(container=[sparse.csr_array, sparse.csr_matrix, sparse.coo_array]))
def test_sparse_labels_are_refused_because_their_zeros_are_labels(container):
    with pytest.raises(
        TypeError, match=r"Y is sparse, but its zeros are labels too: .* Y\.toarray\(\)"
    ):
        read_labels(container(np.eye(2)))


@over(
    lines(
        "values sentence",
        (np.zeros((2, 2, 2)), "dim"),
        (np.zeros((0, 3)), r"Y is empty: found shape \(0, 3\)"),
        (np.zeros((3, 0)), r"Y is empty: found shape \(3, 0\)"),
        (np.array([[1j]]), "Complex"),
        (np.array([["a", "b"]]), "Y holds text where numbers belong"),
    )
)
def test_what_is_no_grid_of_numbers_is_refused(values, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_labels(values)


def slow_fisher(Y):
    """Relabel cell by cell, the larger of the two values being positive."""
    cells = [value for value in Y.ravel() if not np.isnan(value)]
    positive = max(cells)
    n_positive = sum(value == positive for value in cells)
    relabelled = np.empty_like(Y, dtype=float)
    for position, value in np.ndenumerate(Y):
        if np.isnan(value):
            relabelled[position] = np.nan
        elif value == positive:
            relabelled[position] = len(cells) / n_positive
        else:
            relabelled[position] = -len(cells) / (len(cells) - n_positive)
    return relabelled


BINARY = [
    np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]),
    np.array([[1.0, np.nan, -1.0], [1.0, 1.0, 1.0]]),
    np.array([[3.0, 7.0], [7.0, 3.0], [np.nan, np.nan]]),
]


@over(every(Y=list(BINARY)))
def test_fisher_relabelling_cell_by_cell(Y):
    before = Y.copy()
    relabelled = fisher_relabel(Y)
    assert_allclose(relabelled, slow_fisher(Y), rtol=1e-15)
    assert_array_equal(Y, before)
    # Both classes weigh the same.
    assert_allclose(np.nansum(relabelled), 0.0, atol=1e-12)


def test_labels_of_every_library(library):
    """They are read, relabelled and given back as arrays of the library and precision."""
    given = library.asarray(GRID)
    binary = library.asarray(BINARY[1])
    scores = NormalScores().fit(given)
    read = read_labels(given[:, 0])
    for found, expected in (
        (read_labels(given).values, GRID),
        (read.restore(read.values), GRID[:, 0]),
        (fisher_relabel(binary), slow_fisher(BINARY[1])),
        (scores.transform(given), slow_scores(GRID)),
        (scores.inverse_transform(scores.transform(given)), GRID),
    ):
        assert type(found) is type(given)
        assert found.dtype == given.dtype
        assert_allclose(library.to_numpy(found), expected, rtol=1e-6, atol=1e-6)


def test_labels_keep_their_form():
    frame = pd.DataFrame(BINARY[1], index=["p1", "p2"], columns=["d1", "d2", "d3"])
    for relabel, slow in (
        (fisher_relabel, slow_fisher),
        (NormalScores().fit_transform, slow_scores),
    ):
        expected = pd.DataFrame(slow(BINARY[1]), frame.index, frame.columns)
        assert_frame_equal(relabel(frame), expected)
    assert_allclose(fisher_relabel([0, 1, 0, 0]), [-4 / 3, 4.0, -4 / 3, -4 / 3], rtol=1e-15)
    assert_allclose(fisher_relabel(np.array([True, False])), [2.0, -2.0], rtol=1e-15)


@over(lines("Y count", ([[1.0, 1.0]], 1), ([[0.0, 1.0, 2.0]], 3), ([[np.nan]], 0)))
def test_fisher_needs_two_classes(Y, count):
    with pytest.raises(ValueError, match=f"exactly two values, found {count} in Y"):
        fisher_relabel(Y)


# --- labels as a grid and as a list ----------------------------------------------------------------


def both_forms(weighted):
    """Return the same labels as a grid and as a list."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(7, 5))
    weights = rng.uniform(0.5, 2.0, (7, 5))
    Y[rng.random(Y.shape) < 0.4] = np.nan
    grid = Labels.of_grid(Y, weights if weighted else None)
    return grid, grid.listed()


def assert_same(grid, listed):
    """Assert that a grid and a list have the same labels."""
    assert grid.grid is not None
    assert listed.grid is None
    assert grid.shape == listed.shape
    assert grid.size == listed.size
    assert_array_equal(grid.values[grid.observed], listed.values)
    for axis in (0, 1):
        assert_array_equal(grid.places[axis], listed.places[axis])
    if grid.weights is not None:
        assert_array_equal(grid.weights[grid.observed], listed.weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_grid_and_a_list_have_the_same_parts(weighted):
    grid, listed = both_forms(weighted)
    assert_same(grid, listed)
    left = np.random.default_rng(1).random(grid.shape) < 0.5
    assert_same(grid.hide(left), listed.hide(left[grid.observed]))
    assert_same(
        grid.part(np.array([0, 2, 6]), np.array([1, 4])),
        listed.part(np.array([0, 2, 6]), np.array([1, 4])),
    )
    assert_same(grid.transposed, listed.transposed)
    assert not np.isnan(grid.values[grid.observed & left]).any()  # nothing is written to
    for axis, length in enumerate(grid.shape):
        side = np.arange(length) * 10
        assert_array_equal(grid.at(side, axis)[grid.observed], listed.at(side, axis))


def slow_scores(Y):
    """Return the normal score of each observed label from its mean rank."""
    scores = np.full(Y.shape, np.nan)
    observed = ~np.isnan(Y)
    scores[observed] = norm.ppf((rankdata(Y[observed]) - 0.5) / observed.sum())
    return scores


@over(
    every(Y=[GRID, *BINARY, np.exp(np.random.default_rng(0).normal(size=(7, 4))), np.zeros((2, 3))])
)
def test_normal_scores_are_those_of_the_ranks_and_can_be_inverted(Y):
    before = Y.copy()
    transformer = NormalScores()
    scores = transformer.fit_transform(Y)
    assert_allclose(scores, slow_scores(Y), rtol=1e-12, atol=1e-12)
    assert_allclose(transformer.inverse_transform(scores), Y, rtol=1e-12, atol=1e-12)
    assert_array_equal(Y, before)
    # Ranks do not depend on the scale of the labels.
    assert_allclose(NormalScores().fit_transform(np.exp(Y)), scores, rtol=1e-12, atol=1e-12)


def test_normal_scores_between_and_beyond_the_labels():
    transformer = NormalScores().fit([1.0, 2.0, 4.0])
    low, high = norm.ppf([1 / 6, 5 / 6])
    assert_allclose(transformer.transform([0.0, 3.0, 9.0]), [low, high / 2, high], rtol=1e-12)
    assert_allclose(
        transformer.inverse_transform([-9.0, high / 2, 9.0]), [1.0, 3.0, 4.0], rtol=1e-12
    )


def test_normal_scores_name_what_is_wrong():
    with pytest.raises(NotFittedError):
        NormalScores().transform(GRID)
    with pytest.raises(ValueError, match="no label"):
        NormalScores().fit([[np.nan, np.nan]])
    with pytest.raises(ValueError, match="infinity"):
        NormalScores().fit([[np.inf, 1.0]])

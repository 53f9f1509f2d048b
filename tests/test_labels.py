"""The grid of labels: what comes in, with or without ids, and how it goes out again; and long tables."""

import math
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pandas.testing import assert_frame_equal
from polars.testing import assert_frame_equal as assert_polars_equal
from scipy import sparse
from scipy.stats import norm, rankdata
from sklearn.exceptions import NotFittedError

from dyadlearn.exceptions import IdError, NotEnoughMemoryError
from dyadlearn.labels import Labels, NormalScores, fisher_relabel, read_labels, to_grid
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
        (np.array([[1j]]), "^Complex data not supported: Y holds complex numbers, expected real"),
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


@over(every(Y=BINARY))
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


def test_the_largest_weight_is_that_of_a_label(library, monkeypatch):
    """It is found where the labels are, as on a GPU."""
    monkeypatch.setattr("dyadlearn.labels.to_numpy", None)
    Y = np.array([[1.0, np.nan], [2.0, 3.0]])
    weights = library.asarray(np.array([[1.0, 9.0], [2.0, 4.0]]))
    assert Labels.of_grid(library.asarray(Y), weights).largest_weight == 4.0
    assert Labels.of_grid(library.asarray(Y * np.nan), weights).largest_weight == 0.0
    assert Labels.of_grid(library.asarray(Y)).largest_weight == 1.0


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
    rng = default_rng(0)
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
    left = default_rng(1).random(grid.shape) < 0.5
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


@over(every(Y=[GRID, *BINARY, np.exp(default_rng(0).normal(size=(7, 4))), np.zeros((2, 3))]))
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


# --- long tables into grids and back: nothing is lost, nothing is dropped in silence -------------

NAN = float("nan")
# An id is missing, a value is missing, a pair is repeated with the same value and another with
# different ones.
PAIRS = [
    ("p1", "d1"),
    ("p2", "d1"),
    ("p1", "d2"),
    ("p2", "d1"),
    (None, "d1"),
    ("p3", "d1"),
    ("p1", "d1"),
    ("p1", "d1"),
]
VALUES = [1.0, 2.0, 3.0, 2.0, 7.0, NAN, 4.0, 4.0]


def slow_grid(rows, weights=None):
    """Collect the values of each pair in lists, and average these."""
    kept: dict[Any, list[tuple[float, float]]] = {}
    instances = []
    tasks = []
    counts = {"ids": 0, "values": 0, "weightless": 0}
    for (instance, task, value), weight in zip(rows, weights or [1.0] * len(rows), strict=True):
        if instance is None or task is None or instance != instance or task != task:
            counts["ids"] += 1
        elif value is None or math.isnan(value):
            counts["values"] += 1
        elif weight == 0:
            counts["weightless"] += 1
        else:
            kept.setdefault((instance, task), []).append((value, weight))
            instances += [instance] if instance not in instances else []
            tasks += [task] if task not in tasks else []
    grid = np.full((len(instances), len(tasks)), NAN)
    total = np.zeros((len(instances), len(tasks)))
    for (instance, task), found in kept.items():
        cell = instances.index(instance), tasks.index(task)
        total[cell] = sum(weight for _, weight in found)
        grid[cell] = sum(value * weight for value, weight in found) / total[cell]
    counts["repeated"] = sum(len(found) > 1 for found in kept.values())
    counts["contradicting"] = sum(len({value for value, _ in found}) > 1 for found in kept.values())
    counts["observed"] = len(kept)
    return grid, total, tuple(instances), tuple(tasks), counts


def assert_is_twin(found, rows, weights=None):
    grid, total, instances, tasks, counts = slow_grid(rows, weights)
    assert (found.instances, found.tasks) == (instances, tasks)
    assert_allclose(found.grid, grid, rtol=1e-13)
    assert_allclose(found.weights, total, rtol=1e-13)
    assert found.n_rows == len(rows)
    assert counts == {
        "ids": found.n_missing_ids,
        "values": found.n_missing_values,
        "weightless": found.n_zero_weight,
        "repeated": found.n_repeated,
        "contradicting": found.n_contradicting,
        "observed": found.n_observed,
    }
    assert found.n_dropped == counts["ids"] + counts["values"] + counts["weightless"]


# --- averages and counts -----------------------------------------------------------------------


@over(every(ids=["integers", "floats", "text", "mixed"], weighted=[False, True], n=[1, 40, 400]))
def test_tables_row_by_row(ids, weighted, n):
    rng = default_rng(n)
    first = rng.integers(5, 25, size=n)
    second = rng.integers(0, 9, size=n)
    # Few distinct values, so that some repeats agree.
    values = rng.choice([0.1, 0.7, -3.3, NAN] if n > 1 else [0.1], size=n)
    if weighted and n > 1:
        weights = rng.choice([0.0, 0.3, 2.5], size=n)
    else:
        weights = np.full(n, 0.3)
    given = {
        "integers": lambda i: int(i),
        "floats": lambda i: NAN if i == 7 and n > 1 else i / 4,
        "text": lambda i: None if i == 7 and n > 1 else f"e{i}",
        "mixed": lambda i: int(i) if i % 2 else f"{i}",
    }[ids]
    rows = [(given(i), given(j), value) for i, j, value in zip(first, second, values, strict=True)]
    pairs: Any = [row[:2] for row in rows]
    if ids in ("integers", "floats"):
        pairs = np.array(pairs)
    found = to_grid(pairs, values, weights=weights if weighted else None)
    assert_is_twin(found, rows, weights.tolist() if weighted else None)
    assert_is_twin(
        to_grid(rows, weights=weights if weighted else None),
        rows,
        weights.tolist() if weighted else None,
    )


def test_equal_repeats_keep_all_their_digits():
    rng = default_rng(0)
    values = rng.normal(size=200)
    pairs = [(row, 0) for row in range(200)]
    found = to_grid(pairs, values, weights=rng.random(200))
    assert_array_equal(found.grid[:, 0], values)
    found = to_grid(pairs * 3, np.tile(values, 3), weights=rng.random(600))
    assert_array_equal(found.grid[:, 0], values)
    assert (found.n_repeated, found.n_contradicting) == (200, 0)


def test_rows_and_columns_as_asked_for():
    found = to_grid(PAIRS, VALUES, instances=["p9", "p2", "p1"], tasks=("d2", "d1"))
    assert_array_equal(found.grid, [[NAN, NAN], [NAN, 2.0], [3.0, 3.0]])
    assert (found.instances, found.tasks) == (("p9", "p2", "p1"), ("d2", "d1"))


# --- frames ------------------------------------------------------------------------------------


def test_frames_of_polars():
    frame = pl.DataFrame({"protein": ["p1", "p2", None], "drug": ["d1"] * 3, "kd": [3.0, 2.0, 1.0]})
    expected = pl.DataFrame({"protein": ["p1", "p2"], "d1": [3.0, 2.0]})
    for found in (to_grid(frame), to_grid(frame[["protein", "drug"]], frame["kd"])):
        assert_polars_equal(found.grid, expected)


def test_pandas_in_pandas_out():
    frame = pd.DataFrame(
        {"protein": [p for p, _ in PAIRS], "drug": [d for _, d in PAIRS], "kd": VALUES}
    )
    index = pd.Index(["p1", "p2"], name="protein")
    columns = pd.Index(["d1", "d2"], name="drug")
    for found in (to_grid(frame), to_grid(frame[["protein", "drug"]], frame["kd"])):
        assert_frame_equal(found.grid, pd.DataFrame([[3.0, 3.0], [2.0, NAN]], index, columns))
        assert_frame_equal(found.weights, pd.DataFrame([[3.0, 1.0], [2.0, 0.0]], index, columns))
        assert (found.n_missing_ids, found.n_missing_values) == (1, 1)


@over(
    every(
        values=[
            pd.Series([1, None, 0], dtype="Int64"),
            pl.Series([1.0, NAN, 0.0]),
            pl.Series([True, None, False]),
            [True, None, False],
            np.array([1, None, 0], dtype=object),
        ]
    )
)
def test_missing_values_of_every_kind(values):
    found = to_grid([("a", 1), ("a", 2), ("a", 3)], values)
    assert_array_equal(found.grid, [[1.0, 0.0]])
    assert found.n_missing_values == 1


@over(
    every(
        pairs=[
            pd.DataFrame({"i": [1.0, NAN, 2.0], "t": pd.Categorical(["a", "a", None])}),
            pl.DataFrame({"i": [1, None, 2], "t": ["a", "a", None]}),
            pl.DataFrame(
                {"i": [1.0, NAN, 2.0], "t": pl.Series(["a", "a", None], dtype=pl.Categorical)}
            ),
        ]
    )
)
def test_missing_ids_of_every_kind(pairs):
    found = to_grid(pairs, [5.0, 6.0, 7.0])
    assert (found.instances, found.tasks) == ((1,), ("a",))
    assert (found.n_missing_ids, found.n_observed) == (2, 1)


# --- bad tables --------------------------------------------------------------------------------


@over(
    lines(
        "pairs y options error message",
        (
            [(1, 2)],
            None,
            {},
            ValueError,
            r"^pairs must have three columns \(instance, task, value\), or two with y",
        ),
        (
            [(1, 2, 3)],
            [1.0],
            {},
            ValueError,
            r"^pairs must have two columns \(instance, task\), found rows of an",
        ),
        ([], [], {}, ValueError, r"^pairs is empty\.$"),
        (
            7,
            [1.0],
            {},
            TypeError,
            r"^pairs must be an array, a list of rows or a data frame, found int\.$",
        ),
        (
            [(1, 2)],
            [1.0, 2.0],
            {},
            ValueError,
            r"^y must have one value for each of 1 pairs, found shape \(2,\)\.$",
        ),
        ([(1, 2)], ["high"], {}, ValueError, r"^y holds text where numbers belong"),
        ([(1, 2)], [1j], {}, TypeError, r"^y must hold real numbers, found complex128\.$"),
        (
            [(1, 2), (1, 3)],
            [1.0, -np.inf],
            {},
            ValueError,
            r"^y contains infinity, first in row 1: expected finite",
        ),
        (
            [(1, 2), (1, 3)],
            [NAN, None],
            {},
            ValueError,
            r"^No observation is left: each of 2 rows lacks an id, a v",
        ),
        (
            [(1, 2)],
            [1.0],
            {"weights": [-1]},
            ValueError,
            r"^weights must be finite and at least 0, found -1.0 in row",
        ),
        (
            [(1, 2)],
            [1.0],
            {"weights": 3.0},
            ValueError,
            r"^weights must have one value for each of 1 pairs, found sh",
        ),
        (
            [(1, 2)],
            [1.0],
            {"instances": [2]},
            IdError,
            r"^1 not among the ids of instances \(such as 2\)\.$",
        ),
        ([([], 2)], [1.0], {}, TypeError, r"^pairs holds a value that cannot be an id or label"),
    )
)
def test_tables_that_are_none(pairs, y, options, error, message):
    with pytest.raises(error, match=message):
        to_grid(pairs, y, **options)


def test_a_grid_too_large_for_memory_is_not_begun():
    ids = np.arange(400_000)
    with pytest.raises(NotEnoughMemoryError, match=r"^A grid of 400000 × 400000 needs about"):
        to_grid(np.stack([ids, ids], axis=1), np.ones(len(ids)))


# --- numbering ---------------------------------------------------------------------------------

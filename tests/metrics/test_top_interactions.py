"""The IC-index against loops over all pairs of rows and of columns, and against the package of its authors."""

import itertools

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

from dyadlearn import bootstrap_interval
from dyadlearn.metrics import ic_index, scorer
from dyadlearn.metrics import top as interactions
from sweeps import covering, every, over

SHAPES = [(2, 9), (6, 5), (5, 7)]


def slow_ic_index(Y, F, tolerance=1e-9):
    """Return the index as its definition reads; labels and predictions are of moderate size."""
    won = count = 0.0
    for i, k in itertools.combinations(range(Y.shape[0]), 2):
        for j, l in itertools.combinations(range(Y.shape[1]), 2):  # noqa: E741
            of_labels = Y[i, j] + Y[k, l] - Y[i, l] - Y[k, j]
            of_predictions = F[i, j] + F[k, l] - F[i, l] - F[k, j]
            if np.isnan(of_labels) or abs(of_labels) < tolerance:
                continue
            count += 1
            won += (
                0.5
                if abs(of_predictions) < tolerance
                else float((of_labels > 0) == (of_predictions > 0))
            )
    return won / count


def make_grids(shape, labels, predictions, missing):
    rng = default_rng(0)
    Y = {
        "real": rng.normal(size=shape),
        "eighths": np.round(8 * rng.normal(size=shape)) / 8,
        "tenths": np.round(10 * rng.normal(size=shape)) / 10,
        "binary": (rng.random(shape) < 0.4) * 1.0,
    }[labels]
    # Four cells that interact, whatever the seed.
    Y[:2, :2] = [[1.0, 0.0], [0.0, 1.0]]
    if missing:
        Y[2:][rng.random(Y[2:].shape) < 0.3] = np.nan
    F = rng.normal(size=shape) + np.nan_to_num(Y) / 2
    if predictions == "tied":
        F = np.round(2 * F) / 2
    elif predictions == "additive":
        F = rng.normal(size=(shape[0], 1)) + rng.normal(size=shape[1])
    return Y, F


CASES = covering(
    shape=SHAPES,
    labels=["real", "eighths", "tenths", "binary"],
    predictions=["distinct", "tied", "additive"],
    missing=[False, True],
    block=[1, 2**24],
)


@over(CASES)
def test_equals_the_loop(shape, labels, predictions, missing, block, monkeypatch):
    monkeypatch.setattr("dyadlearn._array.BLOCK", block)
    Y, F = make_grids(shape, labels, predictions, missing)
    expected = slow_ic_index(Y, F)
    for kept in (0, 2**26):
        monkeypatch.setattr(interactions, "_KEPT_BYTES", kept)
        assert_allclose(ic_index(Y, F), expected, rtol=1e-14)
        assert_allclose(ic_index(Y.T, F.T), expected, rtol=1e-14)
        assert_allclose(ic_index(Y, np.stack([F, -F])), [expected, 1 - expected], rtol=1e-13)
    if predictions == "additive":
        assert ic_index(Y, F) == 0.5


def test_equals_the_package_of_its_authors(each):
    package = pytest.importorskip(
        "ic_index", reason="ic-index is not installed: the index is compared with loops only"
    )
    for case in each(CASES):
        # Of tenths it sees interactions that are nothing but rounding.
        if case["labels"] == "tenths":
            continue
        Y, F = make_grids(case["shape"], case["labels"], case["predictions"], case["missing"])
        rows, columns = np.nonzero(~np.isnan(Y))
        theirs = package.ic_index(rows, columns, Y[rows, columns], F[rows, columns])
        assert_allclose(ic_index(Y, F), theirs, rtol=1e-12)


def test_every_average_is_the_same():
    Y, F = make_grids((7, 5), "real", "distinct", True)
    expected = ic_index(Y, F)
    for options in ({"average": "instance"}, {"setting": "B"}, {"setting": "D"}):
        assert ic_index(Y, F, **options, return_undefined=True) == (expected, 0)
    # What lies where nothing was observed does not count.
    assert ic_index(Y, np.where(np.isnan(Y), np.inf, F)) == expected
    assert scorer("ic_index").prepare(Y, setting="C").each(F).tolist() == [expected]
    with pytest.raises(ValueError, match="average must be one of"):
        ic_index(Y, F, average="macro")


@over(every(scale=[1e-12, 1.0, 1e12]))
def test_additive_predictions_know_no_interaction(scale):
    """Whatever their size, and however large the effects of the rows are beside those of the columns."""
    rng = default_rng(0)
    Y = rng.normal(size=(8, 9))
    F = scale * (1e3 * rng.normal(size=(8, 1)) + rng.normal(size=9))
    assert ic_index(Y, F) == 0.5
    assert ic_index(Y, F.astype(np.float32)) == 0.5
    assert ic_index(Y.astype(np.float32), F.astype(np.float32)) == 0.5
    # Labels that are additive but for rounding have none either.
    with pytest.raises(
        ValueError, match="IC-index is undefined here: it needs two rows and two columns whose four"
    ):
        ic_index(F, Y)


def test_tolerance():
    Y = np.array([[1.0, 0.0], [0.0, 1.0]])
    F = 3.0 + 1e-13 * Y
    assert ic_index(Y, F) == 1.0
    assert ic_index(Y, F, tie_tolerance=None) == 0.5
    assert ic_index(Y, 3.0 + 1e-3 * Y, tie_tolerance=1e-2) == 0.5


def test_main_effects_count_for_nothing():
    Y, F = make_grids((7, 5), "real", "distinct", True)
    rng = default_rng(1)
    shifted = F + rng.integers(-9, 9, size=(7, 1)) + rng.integers(-9, 9, size=5)
    assert ic_index(Y, shifted) == ic_index(Y, F)
    assert ic_index(3 * Y + shifted - F, F) == ic_index(Y, F)
    assert ic_index(Y, Y) == 1.0
    assert ic_index(Y, -Y) == 0.0


def test_other_libraries(library):
    for missing in (False, True):
        Y, F = make_grids((6, 7), "eighths", "tied", missing)
        labels, stack = map(library.asarray, (Y, np.stack([F, 2 * F, F[::-1]])))
        scores = ic_index(labels, stack)
        assert type(scores) is type(stack)
        expected = [slow_ic_index(Y, each) for each in (F, F, F[::-1])]
        assert_allclose(library.to_numpy(scores), expected, rtol=1e-12)
        assert isinstance(ic_index(labels, stack[0, ...]), float)


def test_too_many_pairs_are_refused_at_once():
    Y = np.zeros((10, 20))
    with pytest.raises(
        ValueError,
        match=r"10 × 20 labels needs 9.0e\+02 differences between pairs of rows, more than",
    ):
        ic_index(Y, Y, max_comparisons=899)
    with pytest.raises(
        ValueError,
        match=r"20 × 10 .* pairs of columns.* scorer\(\"ic_index\", max_comparisons=1e12\)",
    ):
        scorer("ic_index", max_comparisons=899).prepare(Y.T)
    Y[:2, :2] = np.eye(2)
    assert ic_index(Y, Y, max_comparisons=900) == ic_index(Y, Y, max_comparisons=None) == 1.0


def test_refusals():
    Y, F = make_grids((4, 5), "real", "distinct", False)
    for bad, message in (
        (np.nan, "F contains NaN where Y is observed"),
        (np.inf, "F contains infinity"),
        (1e308, "nea"),
    ):
        with pytest.raises(ValueError, match=message):
            ic_index(Y, np.where(F[1, 1] == F, bad, F))
    for undefined in (Y[:1], Y[:, :1], np.ones((3, 3)), np.full((3, 3), np.nan)):
        with pytest.raises(ValueError, match="The IC-index is undefined here"):
            ic_index(undefined, undefined)


def test_an_interval_draws_whole_grids():
    """No row has a score of its own that could be drawn."""
    Y, F = make_grids((7, 5), "real", "distinct", False)
    found = bootstrap_interval(
        Y, F, "ic_index", setting="B", over="instances", n_resamples=15, random_state=0
    )
    random = np.random.RandomState(0)
    scores = []
    for _ in range(15):
        rows = random.randint(7, size=7)
        scores.append(slow_ic_index(Y[rows], F[rows]))
    assert_allclose([found.low, found.high], np.quantile(scores, [0.025, 0.975]))
    assert found.score == ic_index(Y, F)

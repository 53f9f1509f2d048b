"""What is missing in an array or frame is never taken for a number, wherever it is handed in."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import IndependentTaskRidge, OnlineTwoStepRidge, PairRegressor, TwoStepRidge
from dyadlearn.kernels import repair, tanimoto
from dyadlearn.labels import read_labels, to_grid
from dyadlearn.metrics import mean_squared_error
from sweeps import every, lines, over

X, Y, T = problems.data(6, 4, 3, 2)
HIDDEN = np.zeros((6, 4), dtype=bool)
HIDDEN[[0, 2, 5], [1, 3, 0]] = True
HOLES = np.where(HIDDEN, np.nan, Y)
MASKED = np.ma.masked_array(Y, HIDDEN)
PAIRS = np.argwhere(np.ones((6, 4), dtype=bool))


def masked(array):
    """Hide the first value."""
    mask = np.zeros(array.shape, dtype=bool)
    mask.flat[0] = True
    return np.ma.masked_array(array, mask)


def test_masked_labels_are_not_observed():
    model = TwoStepRidge().fit(X, MASKED, T)
    twin = TwoStepRidge().fit(X, HOLES, T)
    assert_allclose(model.predict(X), twin.predict(X), rtol=1e-12)
    assert_allclose(model.score(X, MASKED), twin.score(X, HOLES), rtol=1e-12)
    long = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(PAIRS, MASKED.ravel())
    assert_allclose(long.predict(PAIRS), twin.predict(X).ravel(), rtol=1e-9)
    assert long.n_dropped_ == 3
    found = to_grid(PAIRS, MASKED.ravel(), instances=range(6), tasks=range(4))
    assert_array_equal(found.grid, HOLES)
    online, twin = (OnlineTwoStepRidge().fit(X, labels) for labels in (MASKED, HOLES))
    assert_array_equal(online.predict(X), twin.predict(X))


def test_masked_ids_are_missing():
    pairs = np.ma.masked_array([[0, 7], [1, 1], [1, 0]], [[0, 1], [0, 0], [0, 0]])
    found = to_grid(pairs, [1.0, 2.0, 3.0])
    assert (found.n_missing_ids, found.instances, found.tasks) == (1, (1,), (1, 0))


@over(
    lines(
        "call name",
        (lambda: IndependentTaskRidge().fit(masked(X), Y), "X"),
        (lambda: TwoStepRidge().fit(X, Y, masked(T)), "tasks"),
        (lambda: TwoStepRidge().fit(X, Y).predict(masked(X)), "X"),
        (lambda: TwoStepRidge().fit(X, Y, sample_weight=masked(np.ones(6))), "sample_weight"),
        (
            lambda: TwoStepRidge().fit(X, Y).score(X, Y, sample_weight=masked(np.ones(6))),
            "sample_weight",
        ),
        (lambda: TwoStepRidge().fit(X, Y).holdout("B", groups=masked(np.arange(6))), "groups"),
        (lambda: OnlineTwoStepRidge().fit(X, Y).partial_fit(masked(X), Y), "X"),
        (
            lambda: PairRegressor(TwoStepRidge(), instances=masked(X)).fit(PAIRS, Y.ravel()),
            "instances",
        ),
        (lambda: mean_squared_error(Y, masked(Y)), "F"),
        (lambda: repair(masked(np.eye(2))), "K"),
        (lambda: tanimoto(masked(np.eye(2))), "A"),
    )
)
def test_elsewhere_a_mask_is_refused_and_named(call, name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ValueError, match=rf"^{name} is a masked array that hides 1 of its \d+ values"
    ):
        call()
    assert not list(tmp_path.iterdir())


@over(
    every(
        frame=[
            pd.DataFrame(
                {"a": pd.array([1, None], dtype="Int64"), "b": pd.array([0, 1], dtype="Int8")}
            ),
            pd.DataFrame({"a": [1, None], "b": [0, 1]}, dtype=object),
            pl.DataFrame({"a": [1, None], "b": [0, 1]}),
            pl.DataFrame({"a": [True, None], "b": [0, 1]}),
            [[1, 0], [None, 1]],
        ]
    )
)
def test_what_frames_have_for_missing_labels_is_not_observed(frame):
    assert_array_equal(read_labels(frame).values, [[1.0, 0.0], [np.nan, 1.0]])


DAYS = [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]


@over(
    lines(
        "given words",
        (np.array(DAYS, dtype="M8[D]").reshape(-1, 1), "dates or durations"),
        (
            pd.DataFrame({"day": pd.to_datetime(DAYS), "b": [1.0, 2.0]}),
            "Datetime.*in column 'day': expected numbers",
        ),
        (pl.DataFrame({"day": DAYS, "b": [1.0, 2.0]}), "Date in column 'day': expected numbers"),
        (pl.DataFrame({"day": [[1], [2]]}), "List.*in column 'day': expected numbers"),
        (np.array(DAYS, dtype=object).reshape(-1, 1), "no number.*date"),
    )
)
def test_dates_are_refused_in_a_sentence(given, words):
    for name, call in (
        ("X", lambda: IndependentTaskRidge().fit(given, [1.0, 2.0])),
        ("Y", lambda: IndependentTaskRidge().fit(X[:2], given)),
        ("tasks", lambda: TwoStepRidge().fit(X, Y[:, :2], given)),
    ):
        with pytest.raises((ValueError, TypeError), match=rf"^{name} holds .*{words}"):
            call()


def test_weights_of_a_score_are_matched_by_id():
    frame = pd.DataFrame(X, index=list("abcdef"))
    labels = pd.DataFrame(Y, index=list("abcdef"))
    model = TwoStepRidge().fit(frame, labels)
    weights = pd.Series(np.arange(1.0, 7.0), index=list("abcdef"))
    expected = model.score(frame, labels, sample_weight=weights.to_numpy())
    assert_allclose(model.score(frame, labels, sample_weight=weights[::-1]), expected, rtol=1e-12)

"""Splits by time, and warnings of splits that train on the future."""

import datetime

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.random import default_rng
from numpy.testing import assert_array_equal
from sklearn import config_context
from sklearn.model_selection import cross_validate

from dyadlearn import PairRegressor, TwoStepRidge
from dyadlearn.exceptions import IdError
from dyadlearn.holdout.time import read_times, time_in_words
from dyadlearn.selection import SettingKFold, TimeSplit
from sweeps import lines, over


def table(n=30):
    rng = default_rng(0)
    return [
        (int(i), f"t{j}") for i, j in zip(rng.integers(0, 8, n), rng.integers(0, 6, n), strict=True)
    ]


@settings(max_examples=25, deadline=None)
@given(
    times=st.lists(st.integers(0, 12), min_size=2, max_size=40),
    n_splits=st.integers(1, 6),
)
def test_training_is_always_earlier(times, n_splits):
    pairs = table(len(times))
    if len(set(times)) < n_splits + 1:
        with pytest.raises(ValueError, match="different times, found"):
            list(TimeSplit(n_splits).split(pairs, time=times))
        return
    times = np.array(times)
    splits = list(TimeSplit(n_splits).split(pairs, time=times))
    assert len(splits) == n_splits == TimeSplit(n_splits).get_n_splits(pairs, time=times)
    for train, test in splits:
        assert times[train].max() < times[test].min()
        # All rows that are earlier than the test rows are trained on.
        assert_array_equal(train, np.flatnonzero(times < times[test].min()))
    tested = np.sort(np.concatenate([test for _, test in splits]))
    assert_array_equal(tested, np.setdiff1d(np.arange(len(times)), splits[0][0]))


def test_times_have_the_index_of_their_frame():
    rows = [f"row {place}" for place in range(30)]
    frame = pd.DataFrame(table(), rows)
    times = pd.Series(np.arange(30), rows)
    assert len(list(TimeSplit(4).split(frame, time=times))) == 4
    with pytest.raises(IdError, match="in another order"):
        list(TimeSplit(4).split(frame, time=times.iloc[::-1]))


def test_settings_are_those_of_a_loop():
    pairs = table(40)
    times = np.arange(40)
    for setting, is_new in (("A", (0, 0)), ("B", (1, 0)), ("C", (0, 1)), ("D", (1, 1))):
        for train, test in TimeSplit(4, setting).split(pairs, time=times):
            instances = {pairs[row][0] for row in train}
            tasks = {pairs[row][1] for row in train}
            for row in range(train[-1] + 1, train[-1] + 9):
                new = (pairs[row][0] not in instances, pairs[row][1] not in tasks)
                assert (row in test) == (new == is_new)


DAYS = [datetime.date(2020, 1, 1), datetime.date(2019, 5, 2), datetime.date(2021, 3, 3)]


@over(
    lines(
        "times",
        DAYS,
        [f"{day} " for day in DAYS],
        pd.to_datetime(pd.Series(DAYS)),
        np.array(DAYS, dtype="datetime64[D]"),
        [2.0, 1, 3],
    )
)
def test_forms_of_times(times):
    read = read_times(times, "time", 3)
    assert_array_equal(np.argsort(read), [1, 0, 2])
    assert time_in_words(read[0]) in ("2020-01-01", "2")


@over(
    lines(
        "times message",
        (["soon", "later"], "numbers, dates or text such as 2021-07-01, found 'soon'"),
        ([1.0, np.nan], "missing value in row 1"),
        (["2020-01-01", None], "missing value in row 1"),
        ([np.datetime64("2020-01-01"), np.datetime64("NaT")], "missing value in row 1"),
        ([1.0], "a time for each of 2 rows, found 1"),
    )
)
def test_wrong_times(times, message):
    with pytest.raises(ValueError, match=message):
        list(TimeSplit(1).split([(0, 0), (1, 1)], time=np.array(times)))
    with pytest.raises(ValueError, match="pass time="):
        list(TimeSplit(1).split([(0, 0), (1, 1)]))
    known = [(0, 0), (0, 0), (0, 0)]
    with pytest.raises(ValueError, match="None of 2 splits has a test pair of setting B: leave"):
        list(TimeSplit(2, "B").split(known, time=np.arange(3)))


def test_folds_warn_of_later_training_labels():
    pairs = table()
    times = np.arange(30)
    with pytest.warns(UserWarning, match="In 5 of 5 splits, training labels are later than"):
        list(SettingKFold("A", random_state=0).split(pairs, time=times))
    list(SettingKFold("A", random_state=0).split(pairs, time=np.zeros(30)))


def test_scikit_learn_passes_times():
    pairs = table(60)
    X = default_rng(0).normal(size=(8, 2))
    y = default_rng(1).normal(size=60)
    model = PairRegressor(TwoStepRidge(), instances=X)
    times = np.arange(60)
    with config_context(enable_metadata_routing=True):
        scores = cross_validate(
            model, pairs, y, cv=TimeSplit(3, "A"), params={"time": times}, error_score="raise"
        )
    assert scores["test_score"].shape == (3,)

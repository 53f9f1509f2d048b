"""Splits and audits of cells of any number of sides."""

from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_predict

from dyadlearn import MultiwayRidge, SettingKFold, audit
from dyadlearn.exceptions import IdError
from sweeps import covering, over

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "mother": RNG.integers(0, 9, 200),
        "father": RNG.integers(0, 8, 200).astype(str),
        "trial": RNG.choice(list("abcd"), 200),
    }
)
SETTINGS = list(chain.from_iterable(combinations(TABLE, k) for k in range(4)))


@over(covering(new=SETTINGS, shuffle=[True, False], strength=1))
def test_every_row_is_tested_once_and_new_sides_are_not_in_training(new, shuffle):
    folds = SettingKFold(new, 3, shuffle=shuffle, random_state=1 if shuffle else None)
    n_tested = np.zeros(200)
    splits = list(folds.split(TABLE))
    for train, test in splits:
        n_tested[test] += 1
        for name in new:
            assert not set(TABLE[name].iloc[train]) & set(TABLE[name].iloc[test])
        cells = [set(map(tuple, TABLE.iloc[rows].to_numpy())) for rows in (train, test)]
        assert not cells[0] & cells[1]
        found = audit(TABLE.iloc[train], TABLE.iloc[test], new)
        assert not found.is_leak.any()
        assert set(found.claimed) == set(new)
    assert_array_equal(n_tested, 1.0)
    assert folds.get_n_splits(TABLE) == len(splits)
    assert folds.get_n_splits() >= len(splits)


def test_refits_in_these_folds_are_the_hold_out_of_groups():
    y = RNG.normal(size=200)
    model = MultiwayRidge("mother + father", variances={"mother": 1.0, "father": 0.5})
    folds = SettingKFold(["mother"], 3, random_state=0)
    refitted = cross_val_predict(model, TABLE, y, cv=folds)
    fold_of = np.zeros(200, dtype=int)
    for number, (_, test) in enumerate(folds.split(TABLE)):
        fold_of[test] = number
    held_out = clone(model).fit(TABLE, y).holdout("mother", groups={"mother": fold_of})
    assert_allclose(refitted, held_out)


def test_groups_of_a_side_stay_together():
    family = TABLE["mother"].to_numpy() // 3
    folds = SettingKFold(("mother", "trial"), 2, random_state=0)
    for train, test in folds.split(TABLE, groups={"mother": family}):
        assert not set(family[train]) & set(family[test])


def test_audits_count_what_is_new():
    train = {"a": [1, 1, 2], "b": ["x", "y", "x"], "c": [0, 0, 0]}
    test = {"a": [2, 3, 2, 1], "b": ["y", "z", "x", "x"], "c": [0, 1, 0, 0]}
    found = audit(train, test, ["a", "b"])
    assert found.settings.tolist() == ["cell", "a + b + c", "cell", "cell"]
    assert found.counts == {"a + b + c": 1, "cell": 3}
    assert found.is_leak.tolist() == [True, False, True, True]
    assert found.is_harder.tolist() == [False, True, False, False]
    assert str(found).startswith("A new a + b does not hold for 4 of 4 test rows")
    cells = audit(train, test, ())
    assert cells.is_leak.tolist() == [False, False, True, True]
    assert audit(train, {"a": [2], "b": ["y"], "c": [0]}, ()).message == (
        "A new cell holds for 1 test row."
    )


def test_wrong_names_and_ids_are_refused():
    with pytest.raises(ValueError, match="no column 'd'"):
        list(SettingKFold(["d"]).split(TABLE))
    with pytest.raises(ValueError, match="which setting names"):
        audit(TABLE, TABLE, ["d"])
    with pytest.raises(IdError, match="'a' of train and test"):
        audit({"a": [1, 2]}, {"a": ["1"]}, ["a"])
    with pytest.raises(ValueError, match="A network has pairs of nodes"):
        SettingKFold(["a"], network=True)
    with pytest.raises(ValueError, match="levels of 'trial'.*found 4"):
        list(SettingKFold(["trial"], 5).split(TABLE))

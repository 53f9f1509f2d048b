"""Labels of groups: equal ones are together, others apart, and none is missing."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import problems
from dyadlearn import TwoStepRidge, TwoStepRidgeCV
from dyadlearn._codes import group_codes
from dyadlearn.selection import SettingKFold, nested_score
from sweeps import every, over

X, Y, T = problems.data(6, 4, 3, 2)
MODEL = TwoStepRidge(0.1, 0.1).fit(X, Y, T)
HOLES = Y.copy()
HOLES[1, 2] = np.nan
MIXED = [1, "1", 2, 2, "b", "b"]
APART = [0, 1, 2, 2, 3, 3]


@over(every(labels=[MIXED, pd.Series(MIXED, dtype=object), [(0, 1), (0, "1"), 2, 2, "b", "b"]]))
def test_a_number_and_its_text_are_two_groups(labels):
    assert_array_equal(group_codes(labels, (6,), "groups"), APART)
    assert_array_equal(MODEL.holdout("B", groups=labels), MODEL.holdout("B", groups=APART))


@over(
    every(
        labels=[
            ["a", "b", np.nan, "b", "c", "c"],
            np.array(["a", "b", None, "b", "c", "c"], dtype=object),
            np.array(["2020", "2021", "NaT", "2022", "2023", "2023"], dtype="M8[Y]"),
            pd.Series([0, 1, None, 1, 2, 2], dtype="Int64"),
            pd.Series(["a", "b", pd.NA, "b", "c", "c"], dtype=object),
            [0.0, 1.0, np.nan, 1.0, 2.0, 2.0],
        ]
    )
)
def test_a_group_that_is_missing_is_refused(labels):
    rows = [(row, 0) for row in range(6)]
    words = (
        r"has a missing value in row 2 \(None or NaN; 1 in all\): give each of the rows a label\.$"
    )
    for call in (
        lambda: MODEL.holdout("B", groups=labels),
        lambda: TwoStepRidge().fit(X, HOLES, T).holdout("B", groups=labels),
        lambda: next(SettingKFold("B", 2).split(rows, groups=labels)),
        lambda: next(SettingKFold("B", 2).split_grid(6, 4, groups=labels)),
        lambda: nested_score(TwoStepRidgeCV(setting="B"), X, Y, groups=labels),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_a_cell_without_a_fold_is_refused_also_where_labels_are_missing():
    cells = np.arange(24.0).reshape(6, 4)
    cells[1, 3] = np.nan
    for y in (Y, HOLES):
        with pytest.raises(
            ValueError, match=r"^cells has a missing value in row 1, column 3 .*each of the cells"
        ):
            TwoStepRidge().fit(X, y, T).holdout("A", cells=cells)


def test_labels_that_cannot_be_compared_are_refused():
    with pytest.raises(TypeError, match="groups holds a value that cannot be an id or label"):
        group_codes([[1], [2]], (2,), "groups")

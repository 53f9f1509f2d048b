"""More groups than folds: the method says so, and a warning where groups were to be left out one at a time.

Two-step ridge regression with missing labels has no formula for new instances and tasks, and is
fitted again for each group only if there are few.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import problems
from dyadlearn import KroneckerRidge, TwoStepRidge, TwoStepRidgeCV, evaluate
from dyadlearn.exceptions import MergedGroupsWarning
from dyadlearn.holdout import planning
from dyadlearn.holdout.folds import warn_of_merged_groups
from dyadlearn.holdout.units import Units
from dyadlearn.settings import Setting

X, Y, T = problems.data(20, 14)
HOLES = np.where(np.random.default_rng(0).random(Y.shape) < 0.1, np.nan, Y)
GROUPS = np.arange(20) // 2
TASK_GROUPS = np.arange(14) // 2
GIVEN = {"B": {"groups": GROUPS}, "C": {"task_groups": TASK_GROUPS}}
GIVEN["D"] = GIVEN["B"] | GIVEN["C"]
WORDS = {
    "B": (
        "10 groups in 5 folds",
        "10 groups of instances are in 5 folds: a model is fitted without 2 groups",
    ),
    "C": (
        "7 groups in 5 folds",
        "7 groups of tasks are in 5 folds: a model is fitted without 1 or 2 groups",
    ),
    "D": ("10×7 groups in 5×5 folds", "10 groups of instances are in 5 folds"),
}


ALPHAS = [0.1, 1.0, 10.0, 100.0]


@pytest.fixture
def many_refits(monkeypatch):
    """Let seven refits be too many for leaving out one group at a time."""
    monkeypatch.setattr(planning, "_MOST_REFITS", 6e9)


def method_of(how, setting):
    """Return the method that is told for labels with holes."""
    if how == "evaluate":
        return evaluate(TwoStepRidge(1.0).fit(X, HOLES, tasks=T), setting, **GIVEN[setting])[
            "method"
        ][0]
    search = TwoStepRidgeCV(ALPHAS, setting=setting)
    return search.fit(X, HOLES, tasks=T, **GIVEN[setting]).holdout_method_


@pytest.mark.usefixtures("many_refits")
@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_evaluate_and_searches_say_how_many_groups_are_left_out_together(each):
    for setting, how in each(product("BCD", ("evaluate", "search"))):
        method, sentence = WORDS[setting]
        with pytest.warns(MergedGroupsWarning) as recorded:
            found = method_of(how, setting)
        assert found == f"{method}, refitted"
        recorded = [warning for warning in recorded if warning.category is MergedGroupsWarning]
        texts = [str(warning.message) for warning in recorded]
        assert len(texts) == (2 if setting == "D" else 1)
        assert texts[0].startswith(f"In setting {setting}, {sentence}")
        assert ("With cv=" in texts[0]) == (setting != "D")
        assert {warning.filename for warning in recorded} == {__file__}


def test_more_groups_than_refits_are_few_share_folds():
    rows, labels, tasks = problems.data(104, 5)
    labels[0, 0] = np.nan
    model = TwoStepRidge(1.0).fit(rows, labels, tasks=tasks)
    with pytest.warns(
        MergedGroupsWarning, match="^In setting B, 52 groups of instances are in 5 folds"
    ):
        found = evaluate(model, "B", groups=np.arange(104) // 2)
    assert found["method"] == ["52 groups in 5 folds, refitted"]
    few = evaluate(model, "B", groups=np.arange(104) // 26)
    assert few["method"] == ["leave-group-out, refitted"]


@pytest.mark.usefixtures("many_refits")
@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_the_fit_alone_warns_of_the_groups_of_the_fit():
    search = TwoStepRidgeCV(ALPHAS, setting="B")
    with pytest.warns(MergedGroupsWarning):
        search.fit(X, HOLES, tasks=T, groups=GROUPS)
    assert evaluate(search, "B")["method"] == ["10 groups in 5 folds, refitted"]


@pytest.mark.usefixtures("many_refits")
def test_no_warning_where_nothing_is_merged_or_folds_are_given(each):
    model = TwoStepRidge(1.0).fit(X, HOLES, tasks=T)
    exact = KroneckerRidge(1.0).fit(X, HOLES, tasks=T)
    complete = KroneckerRidge(1.0).fit(X, Y, tasks=T)
    five = {"groups": np.arange(20) % 5}
    cases = [
        (model, {"groups": GROUPS, "cv": 5}, "10 groups in 5 folds, refitted"),
        (model, {"groups": GROUPS, "cv": 10}, "10 folds, refitted"),
        (model, five, "leave-group-out, refitted"),
        (
            model,
            {"groups": np.maximum(np.arange(20), 2)},
            "18 groups in 5 folds, refitted",
        ),  # a few copies
        (exact, {"groups": GROUPS}, "exact leave-group-out"),
        (exact, {"groups": GROUPS, "cv": 5}, "10 groups in 5 folds, exact"),
        (exact, {"groups": GROUPS, "cv": 10}, "exact leave-fold-out"),
        (exact, five, "exact leave-group-out"),
        (complete, {"groups": GROUPS}, "exact leave-group-out"),
        (complete, {"groups": GROUPS, "cv": 4}, "10 groups in 4 folds, exact"),
        (complete, {"groups": GROUPS, "cv": 10}, "exact leave-fold-out"),
    ]
    for fitted, how, method in each(cases):
        assert evaluate(fitted, "B", **how)["method"] == [method]


@pytest.mark.usefixtures("many_refits")
def test_the_remedy_leaves_out_one_group_at_a_time():
    model = TwoStepRidge(1.0).fit(X, HOLES, tasks=T)
    with pytest.warns(
        MergedGroupsWarning, match=r"With cv=10 it is fitted without one group at a time\.$"
    ):
        evaluate(model, "B", groups=GROUPS)
    units = model.fitted_.hold_out(Setting.B, groups=GROUPS, cv=10).units
    pairs = np.unique(np.stack([GROUPS, units.sides[0]]), axis=1)
    assert pairs.shape == (2, 10)
    with pytest.warns(MergedGroupsWarning, match="without 2 groups at a time"):
        warn_of_merged_groups(Units((GROUPS, None)), Units((GROUPS // 2, None)), Setting.B)

"""What a plan says before it computes, and the folds of estimators that are fitted again."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dyadlearn import TwoStepRidge
from dyadlearn.holdout import FitAgain, Formula, SolveAgain, Units, plan, plan_fits
from dyadlearn.labels import Labels
from dyadlearn.selection import SettingKFold
from dyadlearn.settings import Setting


def mean_of_the_rest(labels):
    """Return the prediction of a fold by the mean of the labels that stay, for `plan_fits`."""

    def predict(fold):
        return np.full(fold.test.size, labels.values[~fold.left].mean())

    return predict


def planned(labels, setting, together=None, cv=None, **options):
    together = Units() if together is None else together
    return plan_fits(
        labels, Setting(setting), together, cv, predict=mean_of_the_rest(labels), **options
    )


def test_a_plan_has_three_outcomes():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    tasks = rng.normal(size=(6, 2))
    Y = rng.normal(size=(8, 6))
    problem = TwoStepRidge().fit(X, Y, tasks=tasks).fitted_.problem
    exact = plan(problem, Setting.B)
    assert type(exact) is Formula
    assert exact.words.startswith("exact leave-one-out by closed form of a complete grid (about ")
    folds = plan(problem, Setting.A, cv=3)
    assert type(folds) is Formula
    assert folds.cost.work > 0
    Y[2, 3] = np.nan
    again = plan(TwoStepRidge().fit(X, Y, tasks=tasks).fitted_.problem, Setting.B, method="folds")
    assert type(again) is SolveAgain
    assert again.words.startswith("5 folds, refitted: folds were asked for (about ")
    fits = planned(problem.labels, "D")
    assert type(fits) is FitAgain
    assert fits.n_solves == 25
    assert fits.words.startswith("25 folds, fitted again: ")
    assert fits.words.endswith("(the time of 25 fits)")


def test_a_plan_says_whether_a_decomposition_serves_all_labels():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    tasks = rng.normal(size=(6, 2))
    Y = rng.normal(size=(8, 6))
    problem = TwoStepRidge().fit(X, Y, tasks=tasks).fitted_.problem
    assert plan(problem, Setting.B).is_of_grid
    assert plan(problem, Setting.B, cv=2).is_of_grid
    assert not plan(problem, Setting.A, cv=2).is_of_grid  # each fold of pairs is completed
    assert not plan(problem, Setting.B, method="folds").is_of_grid
    Y[2] = np.nan
    assert not plan(TwoStepRidge().fit(X, Y, tasks=tasks).fitted_.problem, Setting.B).is_of_grid


def test_folds_are_for_missing_labels_where_exact_ones_are_wanted():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 3))
    tasks = rng.normal(size=(6, 2))
    Y = rng.normal(size=(8, 6))
    for holes, method in ((False, "exact leave-one-out"), (True, "exact leave-fold-out")):
        if holes:
            Y[2, 3] = np.nan
        problem = TwoStepRidge().fit(X, Y, tasks=tasks).fitted_.problem
        assert plan(problem, Setting.A, cv=3, exact=True).method == method
        assert plan(problem, Setting.A, cv=3).method == "exact leave-fold-out"


@pytest.mark.parametrize(
    ("setting", "together", "cv", "n_folds"),
    [
        ("A", Units(), None, 5),
        ("B", Units(), None, 5),
        ("C", Units(), None, 4),  # there are four tasks
        ("D", Units(), 2, 4),
        ("B", Units(), [(np.arange(1, 9), [0]), ([0], np.arange(1, 9))], 2),
        ("B", Units((np.arange(9) // 3, None)), None, 3),  # a fold is a group
        ("B", Units((np.arange(9) // 3, None)), 2, 2),  # groups share folds
        (
            "D",
            Units((np.arange(9) // 3, None)),
            None,
            12,
        ),  # three groups, and folds of the other side
        ("D", Units((None, np.arange(4) // 2)), None, 10),
        ("A", Units(cells=np.arange(36).reshape(9, 4) % 7), None, 7),
    ],
)
def test_folds_of_fits(setting, together, cv, n_folds):
    labels = Labels.of_grid(np.random.default_rng(1).normal(size=(9, 4)))
    how = planned(labels, setting, together, cv)
    assert how.method == f"{n_folds} folds, fitted again"
    assert how.n_solves == len(how.folds) == n_folds
    for axis, codes in together.of_sides(labels.shape, Setting(setting)):
        if together.sides[axis] is not None:
            used = how.units.sides[axis]
            # No group is torn.
            assert np.unique(np.stack([codes, used]), axis=1).shape[1] == np.unique(codes).size
    found = how.held_out()
    expected = np.empty((9, 4))
    for fold in how.folds:
        expected.flat[fold.test] = labels.values[~fold.left].mean()
    assert_array_equal(found, expected)


def test_folds_of_fits_are_those_of_a_splitter():
    labels = Labels.of_grid(np.random.default_rng(1).normal(size=(9, 4)))
    splitter = SettingKFold("B", 3, random_state=4)
    how = planned(labels, "B", cv=splitter, method="three times, {n} folds")
    assert how.method == "three times, 3 folds"
    assert_array_equal(how.units.sides[0], splitter.units(labels).sides[0])
    with pytest.raises(ValueError, match="cv makes folds for setting B, but the setting is C"):
        planned(labels, "C", cv=splitter)


def test_every_fold_of_fits_is_a_step_of_progress():
    steps = []

    class Line:
        def __init__(self, n_folds):
            steps.append(n_folds)

        def __enter__(self):
            return self

        def __exit__(self, *error):
            steps.append("end")

        def advance(self):
            steps.append("fold")

    labels = Labels.of_grid(np.random.default_rng(1).normal(size=(9, 4)))
    planned(labels, "B", cv=3, line=Line).held_out()
    assert steps == [3, "fold", "fold", "fold", "end"]

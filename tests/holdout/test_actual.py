"""The setting of a held-out pair is what it is for the model that was fitted without it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import problems
from dyadlearn import KroneckerRidge, evaluate
from dyadlearn.holdout import Units, intervals
from dyadlearn.holdout.actual import actual_settings
from dyadlearn.holdout.folds import folds_of
from dyadlearn.labels import Labels
from dyadlearn.selection import SettingKFold
from dyadlearn.settings import Setting


def sparse_table():
    return problems.data(25, 18, missing=0.88)


def by_hand(Y, setting, units):
    """Return the setting of each observed label, by loops over the folds."""
    labels = Labels.of_grid(Y)
    letters = np.full(Y.shape, "")
    for fold in folds_of(labels, Setting(setting), units):
        training = ~np.isnan(Y) & ~fold.left
        for at in fold.test:
            i, j = divmod(int(at), Y.shape[1])
            new = [not training[i].any(), not training[:, j].any()]
            letters[i, j] = Setting.of([axis for axis in (0, 1) if new[axis]]).value
    return letters[~np.isnan(Y)]


@pytest.mark.parametrize(("setting", "n_folds"), [("A", 4), ("B", None), ("C", 4), ("D", None)])
def test_settings_are_those_of_the_training_labels(setting, n_folds):
    _, Y, _ = sparse_table()
    labels = Labels.of_grid(Y)
    units = Units()
    if n_folds is not None:
        units = SettingKFold(setting, n_folds, random_state=0).units(labels)
    found = actual_settings(labels, Setting(setting), units)
    assert_array_equal(found, by_hand(Y, setting, units))
    rows, columns = labels.places
    listed = Labels((rows, columns), Y[rows, columns], Y.shape)
    assert_array_equal(
        actual_settings(listed, Setting(setting), Units()), by_hand(Y, setting, Units())
    )


@pytest.mark.parametrize("setting", list("AD"))
def test_strict_folds_have_their_setting(setting):
    _, Y, _ = sparse_table()
    pairs = np.argwhere(~np.isnan(Y))
    new = [axis in Setting(setting).new for axis in (0, 1)]
    tested = []
    for train, test in SettingKFold(setting, 4, random_state=0, strict=True).split(pairs):
        assert not set(train) & set(test)
        tested += test.tolist()
        for axis in (0, 1):
            is_known = np.isin(pairs[test, axis], pairs[train, axis])
            assert (is_known != new[axis]).all()
    assert len(tested) == len(set(tested))
    alone = actual_settings(Labels.of_grid(Y), Setting(setting), Units())
    assert len(tested) <= np.count_nonzero(alone == setting)
    with pytest.raises(ValueError, match="strict=True is for instances and tasks"):
        SettingKFold(setting, network=True, strict=True)


def test_scores_of_each_actual_setting():
    X, Y, T = sparse_table()
    model = KroneckerRidge(0.5).fit(X, Y, T)
    error = "neg_mean_squared_error"
    scores = evaluate(model, "A", scoring=error, by="setting")
    letters = np.full(Y.shape, "")
    letters[~np.isnan(Y)] = by_hand(Y, "A", Units())
    F = model.holdout("A")
    assert set(scores["actual"]) == set(letters[letters != ""])
    for actual, score in zip(scores["actual"], scores[error], strict=True):
        assert_allclose(score, -np.mean((Y - F)[letters == actual] ** 2), rtol=1e-8)
    whole = evaluate(model, "AD", scoring=error)
    lines = [note for note in whole.notes if note.startswith("Held-out pairs of A are ")]
    assert len(lines) == 1
    assert f"{np.count_nonzero(letters == 'A')} A" in lines[0]


def test_intervals_take_the_residuals_of_their_setting():
    X, Y, T = sparse_table()
    problem = KroneckerRidge(0.5).fit(X, Y, T).fitted_.training_problem
    for setting in "ABCD":
        tested = intervals.tested_in(problem, lambda _: None, Setting(setting))
        letters = by_hand(Y, setting, Units())
        assert_array_equal(~np.isnan(tested[~np.isnan(Y)]), letters == setting)

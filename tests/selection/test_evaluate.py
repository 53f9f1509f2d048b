"""Tables of scores against hold-out predictions that are scored by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

import problems
from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    SettingKFold,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
    load,
    save,
)
from dyadlearn.exceptions import LeverageError
from dyadlearn.filters import SpectralCutoff
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.holdout.units import Units
from dyadlearn.labels import Labels
from dyadlearn.metrics import scorer
from problems import grid_baselines
from sweeps import covering, every, lines, over


def make_data():
    X, Y, T = problems.data(9, 7)
    Y = np.where(Y > 1, 1.0, 0.0)
    Y[2], Y[:, 3] = 0, 0
    return X, Y, T


def worst(Y, F):
    return -float(abs(Y - F).sum(axis=0).max())


@over(
    covering(
        scoring=[
            "neg_mean_squared_error",
            "r2",
            "roc_auc",
            "average_precision",
            "concordance_index",
            "precision_at_3",
            worst,
        ],
        # With an intercept, rankings in A and D compare other predictions (holdout/test_one_fit.py).
        model=[
            TwoStepRidge(0.5, 2.0, fit_intercept=False),
            KroneckerRidge(0.7, fit_intercept=False),
        ],
        strength=1,
    )
)
def test_every_setting_has_its_own_average(model, scoring):
    X, Y, T = make_data()
    model.fit(X, Y, T)
    table = evaluate(model, scoring=scoring)
    assert list(table) == [
        "setting",
        scorer(scoring).name,
        "average",
        "undefined",
        "new",
        "method",
        "null",
        *BASELINES,
    ]
    assert list(table["method"]) == ["exact leave-one-out"] * 4
    assert list(table["setting"]) == list("ABCD")
    assert list(table["new"]) == ["pair", "instance", "task", "both"]
    for row in table.rows():
        prepared = scorer(scoring).prepare(Y, setting=row["setting"], tie_tolerance=None)
        assert_allclose(row[scorer(scoring).name], prepared(model.holdout(row["setting"])))
        assert_allclose(
            [row[name] for name in BASELINES], scores_of_means(Y, row["setting"], scoring)
        )
        assert row["undefined"] == prepared.n_undefined


def test_settings_that_are_asked_for():
    X, Y, T = make_data()
    model = TwoStepRidge().fit(X, Y, T)
    assert list(evaluate(model, ["both", "leave_x1_out"])["setting"]) == ["D", "B"]
    alone = IndependentTaskRidge().fit(X, Y, T)
    assert list(evaluate(alone)["setting"]) == ["A", "B"]
    with pytest.raises(ValueError, match="knows nothing of tasks: .* setting A or B"):
        evaluate(alone, "CD")


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_search_is_judged_by_what_it_was_chosen_by():
    X, Y, T = make_data()
    for scoring, name in ((scorer("precision_at_k", k=3), "precision_at_3"), (worst, "worst")):
        params = {"setting": "D", "scoring": scoring, "fit_intercept": False}
        search = TwoStepRidgeCV([0.1, 1.0, 10.0], [0.1, 1.0, 10.0], **params).fit(X, Y, T)
        table = evaluate(search, "BD")
        judge = scorer(scoring)
        expected = [judge(Y, search.holdout(letter), setting=letter) for letter in "BD"]
        assert_allclose(table[name], expected)
        assert_allclose(table[name][1], search.best_score_)
        told = evaluate(search, "D", scoring="r2")
        assert_allclose(told["r2"], [scorer("r2")(Y, search.holdout_, setting="D")])


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_other_settings_use_the_groups_of_the_search():
    X, Y, T = make_data()
    groups = np.arange(9) // 3
    search = TwoStepRidgeCV([0.1, 1.0], [0.1, 1.0], setting="B").fit(X, Y, T, groups=groups)
    model = TwoStepRidge(search.alpha_, search.task_alpha_).fit(X, Y, T)
    for letters, options in (("ACD", {}), ("D", {"cv": SettingKFold("D", 3, random_state=0)})):
        table = evaluate(search, letters, scoring="r2", **options)
        expected = evaluate(model, letters, scoring="r2", groups=groups, **options)
        assert_allclose(table["r2"], expected["r2"], rtol=1e-9)
        assert table["method"] == expected["method"]


def test_a_model_without_search_is_judged_by_what_suits_its_labels():
    X, Y, T = make_data()
    assert "roc_auc" in evaluate(TwoStepRidge().fit(X, Y, T), "D")
    assert "neg_mean_squared_error" in evaluate(TwoStepRidge().fit(X, Y + np.arange(7), T), "D")


def test_a_score_does_not_take_the_place_of_another_column():
    def method(Y, F):
        return 0.5

    X, Y, T = make_data()
    table = evaluate(TwoStepRidge().fit(X, Y, T), "D", scoring=method)
    assert list(table["score"]) == [0.5]
    assert list(table["method"]) == ["exact leave-one-out"]


# --- labels with holes ---------------------------------------------------------------------------


def make_holes():
    return problems.data(12, 9, missing=0.2)


def test_a_setting_without_a_score_has_a_reason():
    X, Y, T = problems.data(9, 7)
    model = TwoStepRidge(1e-9, kernel="rbf", filter=SpectralCutoff()).fit(X, Y, T)
    with pytest.raises(LeverageError, match="leverage 1"):
        evaluate(model, "BC")
    table = evaluate(model, "BC", error_score=np.nan)
    first = table.results[0]
    assert "leverage 1" in first.trouble
    assert first.predictions is None
    assert table.notes[0] == f"Setting B has no score. {first.trouble}"
    expected = evaluate(model, "C")["neg_mean_squared_error"]
    assert_allclose(table["neg_mean_squared_error"], [np.nan, *expected])
    # A score that is undefined leaves the predictions.
    alike = TwoStepRidge().fit(X, Y, T)
    table = evaluate(alike, "D", scoring=[worst, worst_of_none], error_score=-1.0)
    assert table["score"][1] == -1.0
    assert table.results[1].trouble == "roc_auc of nothing"
    assert_allclose(table.results[1].predictions, alike.holdout("D"))
    # Wrong arguments are raised in any case.
    with pytest.raises(ValueError, match="groups"):
        evaluate(alike, "B", groups=[1, 2], error_score=np.nan)


def worst_of_none(Y, F):
    raise ValueError("roc_auc of nothing")


def test_what_a_search_has_kept_is_of_the_setting_it_was_fitted_for():
    X, Y, T = make_data()
    search = TwoStepRidgeCV([0.5], [2.0], setting="B").fit(X, Y, T)
    model = TwoStepRidge(search.alpha_, search.task_alpha_).fit(X, Y, T)
    expected = evaluate(model, scoring="neg_mean_squared_error")["neg_mean_squared_error"]
    search.set_params(setting="D")
    assert_allclose(evaluate(search)["neg_mean_squared_error"], expected)
    assert search.holdout_setting_ == "B"


# --- what simple means reach ---------------------------------------------------------------------


def scores_of_means(Y, setting, scoring, **left_out):
    judge = scorer(scoring).prepare(Y, setting=setting, tie_tolerance=None)
    means = grid_baselines(Y, setting, **left_out)
    if getattr(judge, "can_tie", False):  # a constant ranks nothing
        means |= dict.fromkeys(means if setting == "D" else ["grand_mean"], np.ones(Y.shape))
    return [judge(F) for F in means.values()]


def row_of(table):
    return [table[name][0] for name in BASELINES]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@over(
    lines(
        "search options given units",
        (TwoStepRidgeCV, {"setting": "B"}, {}, Units()),
        (TwoStepRidgeCV, {"setting": "D", "cv": 2}, {}, "folds"),
        (TwoStepRidgeCV, {"setting": "A", "cv": SettingKFold("A", 3)}, {}, "kept"),
        (
            IndependentTaskRidgeCV,
            {"setting": "B"},
            {"groups": np.arange(9) // 2},
            Units((np.arange(9) // 2, None)),
        ),
    )
)
def test_a_search_knows_what_means_reach(search, options, given, units, tmp_path):
    X, Y, T = make_data()
    tasks = None if search is IndependentTaskRidgeCV else T
    params = {"scoring": "r2", "fit_intercept": False, **options}
    model = search([0.1, 1.0, 10.0], **params).fit(X, Y, tasks, **given)
    setting = options["setting"]
    if units == "kept":  # folds that nobody could cut again
        units = model.fitted_.validation.units
    elif units == "folds":
        units = SettingKFold(setting, options["cv"], random_state=0).units(Labels.of_grid(Y))
    expected = scores_of_means(Y, setting, "r2", units=units)
    save(model, tmp_path / "search.dyad")
    for found in (model, load(tmp_path / "search.dyad")):
        assert_allclose(list(found.baselines_.values()), expected)
        assert_allclose(row_of(evaluate(found, setting)), expected)
        other = scores_of_means(Y, setting, "roc_auc", units=units)
        assert_allclose(row_of(evaluate(found, setting, scoring="roc_auc")), other)


def test_weights_are_those_of_the_means():
    X, Y, _ = make_holes()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, size=Y.shape)
    model = IndependentTaskRidge(0.5).fit(X, Y, sample_weight=weights)
    for setting in "AB":
        expected = scores_of_means(Y, setting, "neg_mean_squared_error", weights=weights)
        assert_allclose(row_of(evaluate(model, setting)), expected)
        assert abs(expected[2] - scores_of_means(Y, setting, "neg_mean_squared_error")[2]) > 1e-6


@over(covering(symmetry=[1, -1], setting="ABCD", strength=1))
def test_means_of_a_network(symmetry, setting):
    X, Y, _ = problems.data(8, 8)
    Y = Y + symmetry * Y.T
    network = TwoStepRidge(0.5, 0.5, symmetry={1: "symmetric", -1: "antisymmetric"}[symmetry]).fit(
        X, Y
    )
    expected = scores_of_means(Y, setting, "neg_mean_squared_error", symmetry=symmetry)
    assert_allclose(row_of(evaluate(network, setting)), expected)


# ---- permuted labels


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@over(lines("setting scoring", ("B", "concordance_index"), ("C", "r2"), ("D", "r2")))
def test_the_null_is_the_mean_of_refits_on_permuted_labels(setting, scoring):
    X, Y, T = problems.data(9, 7)
    groups = np.arange(9) // 3 if setting in "BD" else None
    params = {"setting": setting, "fit_intercept": False}
    search = TwoStepRidgeCV([0.1, 1.0], [0.1, 1.0], **params).fit(X, Y, T, groups=groups)
    # Groups stay with their instances, and so does the regularisation that was chosen.
    again = TwoStepRidge(search.alpha_, search.task_alpha_, fit_intercept=False)
    random = np.random.RandomState(0)
    expected = []
    for _ in range(4):
        rows = np.arange(9) if setting == "C" else random.permutation(9)
        columns = np.arange(7) if setting == "B" else random.permutation(7)
        labels = Y[np.ix_(rows, columns)]
        held_out = again.fit(X, labels, T).holdout(setting, groups=groups)
        expected.append(scorer(scoring)(labels, held_out, setting=setting))
    table = evaluate(search, setting, scoring=scoring, n_permutations=4)
    assert_allclose(table["null"], [np.mean(expected)], rtol=1e-10)


def test_there_is_no_null_where_it_takes_long():
    X, Y, T = make_data()

    def lacks(model, settings="ABCD", **options):
        return np.isnan(evaluate(model, settings, n_permutations=2, **options)["null"]).tolist()

    assert lacks(KroneckerRidge().fit(X, Y, T)) == [False, False, False, True]
    X, Y, T = make_holes()
    assert lacks(TwoStepRidge().fit(X, Y, T), cv=3) == [True] * 4
    alone = IndependentTaskRidge().fit(X, X[:, 0])
    assert lacks(alone, "A", scoring="neg_mean_squared_error") == [False]
    with pytest.raises(ValueError, match="n_permutations must be a whole number of at least 0"):
        evaluate(alone, n_permutations=-1)


def test_what_is_new_is_called_as_the_sides_are():
    X, Y, T = make_data()
    model = TwoStepRidge().fit(X, Y, T)
    table = evaluate(model, sides=("host", "parasite"))
    assert list(table["new"]) == ["pair", "host", "parasite", "both"]
    with pytest.raises(ValueError, match="sides must be two"):
        evaluate(model, sides=("host", "host"))
    network = TwoStepRidge(symmetry="symmetric").fit(X, X @ X.T)
    assert list(evaluate(network, "AB")["new"]) == ["pair", "node"]


@over(every(sign=[1, -1]))
def test_folds_of_a_network_with_missing_labels_leave_out_edges_both_ways(sign):
    X, Y, _ = problems.data(11, 11)
    Y = Y + sign * Y.T
    Y[0, 5] = Y[5, 0] = np.nan
    symmetry = "symmetric" if sign > 0 else "antisymmetric"
    network = TwoStepRidge(kernel="rbf", symmetry=symmetry).fit(X, Y)
    table = evaluate(network, "A", cv=3)
    assert table["method"] == ["exact leave-fold-out"]
    F = np.full(Y.shape, np.nan)
    for _, test in SettingKFold("A", 3, random_state=0).split_grid(11, 11):
        test = np.triu(test) | np.triu(test).T
        F[test] = clone(network).fit(X, np.where(test, np.nan, Y)).predict(X)[test]
    assert_allclose(table["neg_mean_squared_error"], [-np.nanmean((F - Y) ** 2)], rtol=1e-6)

"""Scores and landscapes of a report are those of the library."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    LearnedKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    bootstrap_interval,
    evaluate,
    landscape,
)
from dyadlearn._text import number
from dyadlearn.exceptions import UndefinedScoreWarning
from dyadlearn.filters import Landweber, SpectralCutoff
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.metrics import scorer
from dyadlearn.report.page import render
from dyadlearn.selection import default_alphas
from dyadlearn.selection.evaluate import scoring_of
from dyadlearn.settings import Setting
from dyadlearn.views.landscape import landscapes_of_model
from dyadlearn.views.summary import SummaryOptions, summary_of

# Small grids end on their edge often enough; what is said of that is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def letters(settings):
    return "".join(setting.value for setting in settings)


def few(model, **asked):
    """Return a summary with a small landscape."""
    return summary_of(model, SummaryOptions(**{"alphas": [1.0], "task_alphas": [1.0], **asked}))


def landscapes(model, settings="ABCD", scoring=None, **asked):
    judge = scorer(scoring_of(model.fitted_, scoring))
    return landscapes_of_model(
        model.fitted_, [Setting(letter) for letter in settings], judge, **asked
    )


def agrees(model, report):
    """Check that every score is the one that `evaluate` gives."""
    results = report.results
    scoring = report.scoring
    table = evaluate(model, [each.setting for each in results], scoring=scoring)
    assert_allclose([each.score for each in results], table[scoring])
    assert [each.n_undefined for each in results] == list(table["undefined"])
    assert [each.method for each in results] == list(table["method"])
    for name in BASELINES:
        assert_allclose([each.baselines[name] for each in results], table[name])


@pytest.mark.parametrize(
    ("make", "scoring"),
    [
        (KroneckerRidge, "neg_mean_squared_error"),
        (TwoStepRidge, "precision_at_3"),
    ],
)
def test_scores_are_those_of_evaluate(make, scoring, binary):
    X, Y, T = binary
    model = make(0.5).fit(X, Y, T)
    report = few(model, scoring=scoring)
    assert letters(each.setting for each in report.results) == "ABCD"
    assert report.scoring == scoring
    agrees(model, report)


def test_a_learned_model_has_the_nested_score_of_evaluate(real):
    X, Y, T = real
    model = LearnedKernelRidge(setting="B", n_steps=2, cv=2)
    model.fit({"some": X[:, :3], "rest": X[:, 3:]}, Y, T)
    report = summary_of(model)
    (result,) = report.results
    nested, quick = (evaluate(model, "B", nested=nested).results[0] for nested in (True, False))
    assert (result.setting, result.score) == (Setting.B, nested.score)
    assert result.method == nested.method == "5 folds, kernels learned again"
    assert_array_equal(result.predictions, nested.predictions)
    page = render(report)
    assert number(result.score) in page
    assert number(quick.score) not in page
    said = 'Setting A, C and D would take kernels learned again for every fold: setting="ABCD"'
    assert any(said in note for note in report.notes)
    assert report.landscapes == []


def test_permuted_labels_are_scored_if_asked_for(binary_ridge):
    assert np.isnan([each.null for each in few(binary_ridge).results]).all()
    found = [each.null for each in few(binary_ridge, n_permutations=3).results]
    assert_allclose(found, evaluate(binary_ridge, n_permutations=3)["null"])
    assert not np.isnan(found).any()


@pytest.mark.parametrize("make", [TwoStepRidge, IndependentTaskRidge])
def test_a_model_without_tasks_is_shown_in_A_and_B(make, real):
    X, Y, _ = real
    model = make(0.5).fit(X, Y)
    report = few(model)
    assert letters(each.setting for each in report.results) == "AB"
    assert not any("Setting" in note for note in report.notes)
    agrees(model, report)
    found, said = landscapes(model, "AB")
    assert said == []
    assert_allclose(found[1].scores, landscape(model, setting="B")["B"])
    assert found[1].task_alphas is None


def test_a_searched_model_is_judged_by_what_chose_it(searched):
    report = few(searched)
    assert report.scoring == "roc_auc"
    assert report.searched is Setting.D
    assert report.results[3].score == pytest.approx(searched.best_score_)
    assert_allclose(report.results[3].predictions, searched.holdout_)
    assert [each.judge.name for each in report.others] == ["average_precision"] * 4
    assert_allclose(
        [each.score for each in report.others],
        evaluate(searched, scoring="average_precision")["average_precision"],
    )


def test_landscapes_are_those_of_the_library(searched):
    found, said = landscapes(searched)
    assert said == []
    again = landscape(
        searched, alphas=[0.01, 0.1, 1, 10], task_alphas=[0.1, 1, 10], scoring="roc_auc"
    )
    for each in found:
        assert_allclose(each.scores, again[each.setting.value])
        assert (each.alpha, each.task_alpha) == (searched.alpha_, searched.task_alpha_)
    assert np.shares_memory(found[3].scores, searched.landscape_)


def test_searched_kernels_show_the_landscape_of_the_best(real):
    X, Y, T = real
    grid = [{"gamma": 5.0}, {"gamma": 0.05}]
    model = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], kernel="rbf", kernel_grid=grid, setting="D")
    model.fit(X, Y, T)
    (found,), _ = landscapes(model, "D")
    assert found.scores.shape == (3, 3)
    assert found.best == (model.best_score_, model.alpha_, model.task_alpha_)
    assert model.kernel_params_ == grid[1]


def test_groups_are_left_out_together(binary_ridge):
    groups = np.arange(24) // 4
    task_groups = np.arange(16) // 4
    results = few(binary_ridge, groups=groups, task_groups=task_groups).results
    assert_allclose(results[1].predictions, binary_ridge.holdout("B", groups=groups))
    assert [each.method for each in results[::2]] == [
        "exact leave-pair-out",
        "exact leave-group-out",
    ]
    assert_allclose(
        results[3].predictions, binary_ridge.holdout("D", groups=groups, task_groups=task_groups)
    )


def test_missing_labels_show_what_is_affordable(holes, monkeypatch):
    X = holes[0][:10]
    Y = holes[1][:10, :8]
    T = holes[2][:8]
    model = TwoStepRidgeCV([0.5, 1], [0.5, 1], setting="C")
    model.fit(X, Y, T)
    report = summary_of(model)
    assert [each.method for each in report.results] == [
        "exact leave-one-out",  # A has a formula
        "leave-one-out, refitted",
        "leave-one-out, refitted",
        "5×5 folds, refitted",
    ]
    assert_allclose(report.results[2].predictions, model.holdout_)
    agrees(model, report)
    assert letters(each.setting for each in report.landscapes) == "C"
    assert any(
        "The landscape of setting A, B and D is slow and left out" in text for text in report.notes
    )
    # What each is allowed to cost decides, and the model's own is there in any case.
    steps = (10 + model.fitted_.solution.n_iter) * 10 * 8 * 18
    for most, shown, left in (
        (25 * steps, "ABCD", None),
        (25 * steps - 1, "ABC", "Setting D would be refitted"),
        (10 * steps, "ABC", "Setting D would be refitted"),  # each of 10 instances
        (10 * steps - 1, "AC", "Setting B and D would be refitted"),
    ):
        monkeypatch.setattr("dyadlearn.views.summary._MOST_WORK", most)
        report = summary_of(model)
        assert letters(each.setting for each in report.results) == shown
        assert [
            left in note for note in report.notes if "would be refitted for every fold" in note
        ] == ([True] if left else [])
    assert (
        letters(each.setting for each in summary_of(model, SummaryOptions(setting="BD")).results)
        == "BD"
    )


def test_a_score_that_is_undefined_is_said_to_be(binary):
    X, Y, _ = binary
    first, second = few(IndependentTaskRidge().fit(X, Y[:, 0])).results
    assert first.trouble is None
    assert np.isnan(second.score)
    assert "undefined" in second.trouble
    assert second.predictions is not None


def test_a_model_that_interpolates_has_no_score(real):
    X = real[0][:12]
    Y = real[1][:12, :8]
    model = TwoStepRidge(1e-9, kernel="rbf", filter=SpectralCutoff()).fit(X, Y, real[2][:8])
    results = {each.setting: each for each in few(model).results}
    assert "leverage 1" in results[Setting.B].trouble
    assert results[Setting.B].predictions is None
    assert results[Setting.C].trouble is None
    found, said = landscapes(model, alphas=[1e-9, 1e-8])
    assert letters(each.setting for each in found) == "AC"
    assert said[1].startswith("There is no landscape of setting D.")
    # Where some values have a score, the others are left out of the landscape.
    least = default_alphas(model)["alphas"][0]
    with pytest.warns(
        UndefinedScoreWarning, match=f"In setting . there is no score for alpha {least:g}, "
    ):
        found, said = landscapes(model)
    assert letters(each.setting for each in found) == "ABCD"
    assert said == []
    assert np.isnan(found[1].scores[0]).all()
    assert np.isfinite(found[1].scores[-1]).all()
    notes = summary_of(model.set_alpha(1.0)).warnings
    assert any(f"there is no score for alpha {least:g}" in text for text in notes)


def test_a_filter_without_regularisation_has_no_landscape(real):
    X, Y, T = real
    found, said = landscapes(TwoStepRidge(filter=Landweber(n_iter=5)).fit(X, Y, T))
    assert found == []
    assert "does not depend" in said[0]


def test_a_model_that_means_outdo_is_warned_of():
    """Features that say nothing, and labels that the tasks explain: nothing can be learnt but means."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    T = rng.normal(size=(12, 3))
    Y = 5 * rng.normal(size=12) + rng.normal(size=(20, 12))
    found = few(TwoStepRidge(1e6).fit(X, Y, T), setting="B").warnings
    (said,) = [text for text in found if "the best baseline" in text]
    assert said.startswith("In setting B the model reaches neg_mean_squared_error ")
    assert said.endswith("task means.")
    learnt = TwoStepRidge(0.01, 0.01).fit(X, X @ rng.normal(size=(3, 3)) @ T.T, T)
    assert not [text for text in few(learnt).warnings if "the best baseline" in text]


def test_how_far_a_score_may_be_off(binary, real, monkeypatch):
    monkeypatch.setattr("dyadlearn.views.summary._DRAWS", 100)
    X, Y, T = binary
    model = TwoStepRidge().fit(X, Y, T)
    report = few(model, setting="AC")
    for each in report.results:
        interval = report.intervals[each.setting]
        assert interval == each.interval(100)
        assert interval.low < each.score < interval.high
    given = {"setting": Setting.C, "n_resamples": 100, "random_state": 0}
    assert interval == bootstrap_interval(Y, report.results[1].predictions, "roc_auc", **given)
    network = TwoStepRidge(symmetry="symmetric").fit(real[0][:16], real[1][:16] + real[1][:16].T)
    assert few(network, setting="A").intervals == {}
    assert few(model, setting="A", scoring=lambda Y, F: -abs(Y - F).max()).intervals == {}
    assert few(IndependentTaskRidge().fit(X, Y[:, 0]), setting="A").intervals == {}


def test_large_grids_have_no_interval(monkeypatch, real, ridge):
    Y = real[1]
    monkeypatch.setattr("dyadlearn.views.summary._DRAWS", 200)
    for most, n_draws in ((100 * Y.size, [100]), (100 * Y.size - 1, [])):
        monkeypatch.setattr("dyadlearn.views.summary._MOST_DRAWN", most)
        assert [each.n_resamples for each in few(ridge, setting="A").intervals.values()] == n_draws


def test_how_far_from_their_predictions_labels_lie(holes, binary):
    X, Y, T = holes
    report = few(TwoStepRidge().fit(X, Y, T), setting="AB")
    for each in report.results:
        apart = np.sort(np.abs(Y - each.predictions)[~np.isnan(Y)])
        assert report.within()[each.setting] == apart[int(np.ceil(0.9 * apart.size)) - 1]
    X, Y, T = binary
    assert np.isnan(few(TwoStepRidge().fit(X, Y, T), setting="A").within()[Setting.A])

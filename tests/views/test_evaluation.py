"""Scores and landscapes of all settings are those of the library."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    TwoStepRidge,
    TwoStepRidgeCV,
    bootstrap_interval,
    evaluate,
    landscape,
)
from dyadlearn.exceptions import UndefinedScoreWarning
from dyadlearn.filters import Landweber, SpectralCutoff
from dyadlearn.holdout.baselines import BASELINES
from dyadlearn.holdout.units import Units
from dyadlearn.settings import Setting
from dyadlearn.views.evaluation import Evaluation
from dyadlearn.views.summary import summary_of
from problems import grid_baselines

# Small grids end on their edge often enough; what is said of that is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def letters(settings):
    return "".join(setting.value for setting in settings)


def agrees(model, evaluation, scoring):
    """Tell whether every score is the one that `evaluate` gives."""
    table = evaluate(model, evaluation.settings, scoring)
    results = evaluation.results()
    assert [each.setting.value for each in results] == list(table["setting"])
    assert_allclose([each.score for each in results], table[scoring])
    assert [each.n_undefined for each in results] == list(table["undefined"])
    assert [each.method for each in results] == list(table["method"])
    assert_allclose([each.null for each in results], table["null"])
    for name in BASELINES:
        assert_allclose([each.baselines[name] for each in results], table[name])


@pytest.mark.parametrize("make", [TwoStepRidge, KroneckerRidge])
@pytest.mark.parametrize("scoring", ["roc_auc", "neg_mean_squared_error", "precision_at_3"])
def test_scores_are_those_of_evaluate(make, scoring, binary):
    X, Y, T = binary
    model = make(0.5).fit(X, Y, tasks=T)
    evaluation = Evaluation(model, scoring=scoring)
    assert letters(evaluation.settings) == "ABCD"
    agrees(model, evaluation, scoring)


@pytest.mark.parametrize("make", [TwoStepRidge, KroneckerRidge, IndependentTaskRidge])
def test_a_model_without_tasks_is_shown_in_A_and_B(make, real):
    X, Y, _ = real
    evaluation = Evaluation(make(0.5).fit(X, Y))
    assert letters(evaluation.settings) == "AB"
    assert evaluation.not_shown == []
    agrees(evaluation.model, evaluation, "neg_mean_squared_error")
    found, said = evaluation.landscapes(evaluation.settings)
    assert said == []
    assert_allclose(found[1].scores, landscape(evaluation.model, settings="B")["B"])
    assert found[1].task_alphas is None


def test_a_network_is_shown_in_all_settings(real):
    X, Y, _ = real
    Y = Y[:16] + Y[:16].T
    evaluation = Evaluation(TwoStepRidge(symmetry="symmetric").fit(X[:16], Y))
    agrees(evaluation.model, evaluation, "neg_mean_squared_error")
    assert [each.scores.shape for each in evaluation.landscapes(evaluation.settings)[0]] == [(14,)] * 4


def test_the_default_score_suits_the_labels(real, binary):
    for (X, Y, T), name in ((real, "neg_mean_squared_error"), (binary, "roc_auc")):
        assert Evaluation(TwoStepRidge().fit(X, Y, tasks=T)).judge.name == name


def test_a_searched_model_is_judged_by_what_chose_it(searched):
    evaluation = Evaluation(searched)
    assert evaluation.judge.name == "roc_auc"
    results = evaluation.results()
    assert evaluation.own is Setting.D
    assert results[3].score == pytest.approx(searched.best_score_)
    assert_allclose(results[3].held_out, searched.holdout_)
    assert list(results[0].others) == ["average_precision"]


def test_landscapes_are_those_of_the_library(searched):
    found, said = Evaluation(searched).landscapes(list(Setting))
    assert said == []
    again = landscape(searched, [0.01, 0.1, 1, 10], [0.1, 1, 10], scoring="roc_auc")
    for each in found:
        assert_allclose(each.scores, again[each.setting.value])
        assert (each.alpha, each.task_alpha) == (searched.alpha_, searched.task_alpha_)
    assert found[3].scores is searched.landscape_


def test_a_landscape_over_given_values(searched, real):
    (found, *_), _ = Evaluation(searched, alphas=iter([1.0, 5.0]), task_alphas=[2.0]).landscapes([Setting.D])
    assert found.scores.shape == (2, 1)
    X, Y, T = real
    (found,), _ = Evaluation(KroneckerRidge().fit(X, Y, tasks=T), alphas=[1.0, 5.0]).landscapes([Setting.C])
    assert_allclose(found.scores, landscape(KroneckerRidge().fit(X, Y, tasks=T), [1.0, 5.0], settings="C")["C"])


def test_another_score_makes_another_landscape(searched):
    found, _ = Evaluation(searched, scoring="average_precision").landscapes([Setting.D])
    again = landscape(searched, [0.01, 0.1, 1, 10], [0.1, 1, 10], "D", "average_precision")["D"]
    assert_allclose(found[0].scores, again)


def test_searched_kernels_show_the_landscape_of_the_best(real):
    X, Y, T = real
    grid = [{"gamma": 5.0}, {"gamma": 0.05}]
    model = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], kernel="rbf", kernel_grid=grid, setting="D")
    model.fit(X, Y, tasks=T)
    (found,), _ = Evaluation(model).landscapes([Setting.D])
    assert found.scores.shape == (3, 3)
    assert found.best == (model.best_score_, model.alpha_, model.task_alpha_)
    assert model.kernel_params_ == grid[1]


def test_groups_are_left_out_together(binary):
    X, Y, T = binary
    groups, task_groups = np.arange(24) // 4, np.arange(16) // 4
    model = TwoStepRidge().fit(X, Y, tasks=T)
    results = Evaluation(model, groups=groups, task_groups=task_groups).results()
    assert_allclose(results[1].held_out, model.holdout("B", groups=groups))
    assert_allclose(results[3].held_out, model.holdout("D", groups=groups, task_groups=task_groups))
    assert [each.method for each in results[::2]] == ["exact leave-one-out", "exact leave-group-out"]


def test_folds_are_left_out_together(binary):
    X, Y, T = binary
    model = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], setting="B", scoring="roc_auc", cv=3).fit(X, Y, tasks=T)
    again = Evaluation(model, cv=3).results()
    assert_allclose(again[1].held_out, model.holdout_)
    assert again[1].method == model.holdout_method_ == "exact leave-fold-out"


def test_missing_labels_show_what_is_affordable(holes, monkeypatch):
    X, Y, T = holes
    model = TwoStepRidgeCV([0.5, 1], [0.5, 1], setting="C")
    model.fit(X, Y, tasks=T)
    evaluation = Evaluation(model)
    assert letters(evaluation.settings) == "ABCD"
    assert evaluation.not_shown == []
    results = evaluation.results()
    assert [each.method for each in results] == [
        "exact leave-one-out",  # few cells: A has a shortcut
        "5 folds, solved again",
        "5 folds, solved again",
        "5×5 folds, solved again",
    ]
    assert_allclose(results[2].held_out, model.holdout_)
    agrees(model, evaluation, "neg_mean_squared_error")
    found, said = evaluation.landscapes(evaluation.settings)
    assert letters(each.setting for each in found) == "C"
    assert "no landscape of setting A, B and D" in said[0]
    # What each is allowed to cost decides, and the model's own is there in any case.
    steps = (10 + model._completion.solution.n_iter) * 24 * 16 * 40
    for most, shown in ((25 * steps, "ABCD"), (25 * steps - 1, "ABC"), (5 * steps, "ABC"), (5 * steps - 1, "AC")):
        monkeypatch.setattr("dyadlearn.views.evaluation._MOST_WORK", most)
        evaluation = Evaluation(model)
        assert letters(evaluation.settings) == shown
        assert letters(evaluation.not_shown) == "".join(sorted(set("ABCD") - set(shown)))
    assert letters(Evaluation(model, wanted="BD").settings) == "BD"


def test_missing_labels_in_a_setting_that_is_asked_for(holes):
    X, Y, T = holes
    model = KroneckerRidge().fit(X, Y, tasks=T)
    evaluation = Evaluation(model, wanted="B", cv=4)
    assert_allclose(evaluation.results()[0].score, evaluate(model, "B", cv=4)["neg_mean_squared_error"][0])
    evaluation = Evaluation(model, wanted="B", alphas=[1.0, 10.0])
    assert_allclose(evaluation.landscapes([Setting.B])[0][0].scores, landscape(model, [1, 10], settings="B")["B"])


def test_missing_labels_of_independent_tasks_have_a_shortcut(holes):
    X, Y, _ = holes
    model = IndependentTaskRidgeCV().fit(X, Y)
    evaluation = Evaluation(model)
    agrees(model, evaluation, "neg_mean_squared_error")
    assert letters(each.setting for each in evaluation.landscapes(evaluation.settings)[0]) == "AB"


def test_a_regularisation_for_each_task(real):
    X, Y, _ = real
    model = IndependentTaskRidgeCV(alpha_per_task=True).fit(X, Y)
    evaluation = Evaluation(model)
    assert_allclose(evaluation.results()[1].held_out, model.holdout_)
    (found, _), _ = evaluation.landscapes(evaluation.settings)
    assert_array_equal(found.alpha, model.alpha_)
    with pytest.raises(ValueError, match="for each task"):
        Evaluation(model, cv=3).results()


def test_kept_results_may_be_lost(binary):
    """A model that was read from a file may have kept less."""
    X, Y, T = binary
    model = KroneckerRidgeCV([0.1, 1, 10], setting="D", scoring="roc_auc").fit(X, Y, tasks=T)
    before = Evaluation(model).results()[3].score, Evaluation(model).landscapes([Setting.D])[0][0].scores
    del model.holdout_, model.landscape_
    assert_allclose(Evaluation(model).results()[3].score, before[0])
    assert_allclose(Evaluation(model).landscapes([Setting.D])[0][0].scores, before[1])


def test_a_score_that_is_undefined_is_said_to_be(binary):
    X, Y, _ = binary
    first, second = Evaluation(IndependentTaskRidge().fit(X, Y[:, 0])).results()
    assert first.trouble is None
    assert np.isnan(second.score)
    assert "undefined" in second.trouble
    assert second.held_out is not None


def test_a_model_that_interpolates_has_no_score(real):
    X, Y, T = real
    model = TwoStepRidge(1e-9, kernel="rbf", filter=SpectralCutoff()).fit(X, Y, tasks=T)
    results = {each.setting: each for each in Evaluation(model).results()}
    assert "leverage 1" in results[Setting.B].trouble
    assert results[Setting.B].held_out is None
    assert results[Setting.C].trouble is None
    found, said = Evaluation(model, alphas=[1e-9, 1e-8]).landscapes(list(Setting))
    assert letters(each.setting for each in found) == "AC"
    assert [text[:35] for text in said] == [f"There is no landscape of setting {letter}." for letter in "BD"]
    # Where some values have a score, the others are left out of the landscape.
    with pytest.warns(UndefinedScoreWarning, match="In setting . there is no score for alpha 1e-07, "):
        found, said = Evaluation(model).landscapes(list(Setting))
    assert letters(each.setting for each in found) == "ABCD"
    assert said == []
    assert np.isnan(found[1].scores[0]).all()
    assert np.isfinite(found[1].scores[-1]).all()
    assert any("there is no score for alpha 1e-07" in text for text in summary_of(model.set_alpha(1.0)).warnings)


def test_a_filter_without_regularisation_has_no_landscape(real):
    X, Y, T = real
    found, said = Evaluation(TwoStepRidge(filter=Landweber(n_iter=5)).fit(X, Y, tasks=T)).landscapes(list(Setting))
    assert found == []
    assert "does not depend" in said[0]


def test_settings_that_a_model_does_not_know_are_refused(real):
    X, Y, _ = real
    with pytest.raises(ValueError, match="settings names none"):
        Evaluation(TwoStepRidge().fit(X, Y), wanted="CD").results()
    with pytest.raises(ValueError, match="Unknown setting"):
        Evaluation(TwoStepRidge().fit(X, Y), wanted=["E"]).results()
    with pytest.raises(ValueError, match="Unknown scoring"):
        Evaluation(TwoStepRidge().fit(X, Y), scoring="correctness").results()
    with pytest.raises(ValueError, match="'accuracy' of scikit-learn judges the classes"):
        Evaluation(TwoStepRidge().fit(X, Y), scoring="accuracy").results()


def test_progress_is_for_those_who_ask(real, capfd):
    X, Y, T = real
    model = TwoStepRidge().fit(X, Y, tasks=T)
    for progress in (False, True):
        evaluation = Evaluation(model, progress=progress, alphas=[1.0], task_alphas=[1.0])
        evaluation.results()
        evaluation.landscapes(evaluation.settings)
        said = capfd.readouterr().err
        assert ("Hold-out" in said) == ("Landscape" in said) == progress


def test_means_leave_out_the_same_groups(real):
    X, Y, T = real
    groups = np.arange(len(Y)) // 3
    model = TwoStepRidge(0.5).fit(X, Y, tasks=T)
    found = Evaluation(model, wanted="B", groups=groups, scoring="neg_mean_squared_error").results()[0].baselines
    expected = [-np.mean((Y - F) ** 2) for F in grid_baselines(Y, "B", Units(groups)).values()]
    assert_allclose(list(found.values()), expected)


def test_a_model_that_means_outdo_is_warned_of():
    """Features that say nothing, and labels that the tasks explain: nothing can be learnt but means."""
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(20, 3)), rng.normal(size=(12, 3))
    Y = 5 * rng.normal(size=12) + rng.normal(size=(20, 12))
    said = [text for text in summary_of(TwoStepRidge(1e6).fit(X, Y, tasks=T)).warnings if "no more than" in text]
    assert said[1].startswith("In setting B the model reaches neg_mean_squared_error ")
    assert said[1].endswith("task means.")
    learnt = summary_of(TwoStepRidge(0.01, 0.01).fit(X, X @ rng.normal(size=(3, 3)) @ T.T, tasks=T))
    assert not [text for text in learnt.warnings if "no more than" in text]


def test_how_far_a_score_may_be_off(binary, real, monkeypatch):
    monkeypatch.setattr("dyadlearn.views.evaluation._DRAWS", 100)
    X, Y, T = binary
    model = TwoStepRidge().fit(X, Y, tasks=T)
    for each in Evaluation(model, wanted="AC").results():
        again = bootstrap_interval(Y, each.held_out, "roc_auc", setting=each.setting, n_resamples=100, random_state=0)
        assert each.interval == again
        assert again.low < each.score < again.high
    network = TwoStepRidge(symmetry="symmetric").fit(real[0][:16], real[1][:16] + real[1][:16].T)
    assert Evaluation(network, wanted="A").results()[0].interval is None
    assert Evaluation(model, wanted="A", scoring=lambda Y, F: -abs(Y - F).max()).results()[0].interval is None
    assert Evaluation(IndependentTaskRidge().fit(X, Y[:, 0]), wanted="A").results()[0].interval is None


def test_large_grids_have_no_interval(monkeypatch, real):
    X, Y, T = real
    model = TwoStepRidge().fit(X, Y, tasks=T)
    monkeypatch.setattr("dyadlearn.views.evaluation._DRAWS", 200)
    for most, n_draws in ((100 * Y.size, 100), (100 * Y.size - 1, None)):
        monkeypatch.setattr("dyadlearn.views.evaluation._MOST_DRAWN", most)
        found = Evaluation(model, wanted="A").results()[0].interval
        assert (found and found.n_resamples) == n_draws


def test_how_far_from_their_predictions_labels_lie(holes, binary):
    X, Y, T = holes
    for each in Evaluation(TwoStepRidge().fit(X, Y, tasks=T), wanted="AB").results():
        apart = np.sort(np.abs(Y - each.held_out)[~np.isnan(Y)])
        assert each.within == apart[int(np.ceil(0.9 * apart.size)) - 1]
    X, Y, T = binary
    assert np.isnan(Evaluation(TwoStepRidge().fit(X, Y, tasks=T), wanted="A").results()[0].within)

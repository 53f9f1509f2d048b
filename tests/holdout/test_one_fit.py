"""Rankings and correlations compare no two predictions that were trained on each other's labels.

Without signal, the area under the ROC curve is 0.5 and a correlation 0, whatever the model. That is
exact if all orders of the labels are averaged, so no test here depends on chance but the last ones.
"""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import problems
from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    PairKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
    landscape,
)
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import planning
from dyadlearn.holdout.pairs_out import PairsOut
from dyadlearn.metrics import pearson, roc_auc, scorer
from fair import fold_numbers, held_out_in_folds, pairs_in_order, score_in_folds
from listed import listed
from sweeps import lines, over

__all__ = ["listed"]

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

RBF = {"kernel": "rbf", "task_kernel": "rbf"}


def model_of(name, alpha, fit_intercept):
    params = {**RBF, "fit_intercept": fit_intercept}
    if name == "two-step":
        return TwoStepRidge(alpha, alpha, **params)
    return KroneckerRidge(alpha, **params)


# --- labels without signal ---------------------------------------------------------------------


def all_orders(shape, n_positive):
    """Yield all binary grids with some positives."""
    size = shape[0] * shape[1]
    for chosen in combinations(range(size), n_positive):
        Y = np.zeros(size)
        Y[list(chosen)] = 1.0
        yield Y.reshape(shape)


def mean_excess(model, X, T, setting, scoring, average):
    """Return the mean difference from chance over all orders of the labels that have a score."""
    level = 0.5 if scoring == "roc_auc" else 0.0
    found = []
    for Y in all_orders((len(X), len(T)), 2):
        model.fit(X, Y, T)
        given = {"scoring": [scoring], "average": average, "error_score": np.nan}
        found += evaluate(model, setting, **given)["score"]
    assert np.isfinite(found).sum() > 20
    return np.nanmean(found) - level


@over(
    lines(
        "setting scoring average fit_intercept",
        # Pooled rankings without an intercept are left as they are.
        ("A", "roc_auc", "pooled", True),
        ("B", "roc_auc", "task", True),
        ("C", "pearson", "instance", False),
        ("D", "pearson", "pooled", True),
    )
)
def test_no_signal_has_no_score(setting, scoring, average, fit_intercept):
    rng = default_rng(0)
    X, T = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    model = model_of("two-step" if setting in "AB" else "kronecker", 10.0, fit_intercept)
    assert_allclose(mean_excess(model, X, T, setting, scoring, average), 0.0, atol=1e-9)


# --- leave-pair-out ------------------------------------------------------------------------------


def small(shape=(4, 3), missing=0.0, binary=True):
    X, Y, T = problems.data(*shape, missing=missing)
    return X, np.where(np.isnan(Y), np.nan, Y > 0) if binary else Y, T


@over(
    lines(
        "model missing",
        (TwoStepRidge(0.5, 0.5, **RBF), 0.0),
        (TwoStepRidge(1e4, 1e4, **RBF, fit_intercept=False), 0.2),
        (KroneckerRidge(1e-6, **RBF), 0.2),
        (KroneckerRidge(1e4, **RBF), 0.0),
        (PairKernelRidge(0.1, **RBF), 0.2),
    )
)
def test_pairs_are_those_of_models_fitted_again(model, missing):
    X, Y, T = small(missing=missing)
    model.set_params(tol=1e-13).fit(X, Y, T)
    for average, expected in pairs_in_order(model, Y).items():
        plan = PairsOut.of(model.fitted_.training_problem, scorer("roc_auc", average=average))
        assert_allclose(plan.score().score, expected, rtol=1e-12)


def test_pairs_of_real_labels():
    X, Y, T = small(binary=False)
    Y = np.round(Y, 1)
    model = TwoStepRidge(0.5, 0.5, **RBF).fit(X, Y, T)
    found = evaluate(model, "A", scoring="concordance_index")
    assert found["method"] == ["exact leave-pair-out"]
    assert_allclose(found["concordance_index"], [pairs_in_order(model, Y)["pooled"]], rtol=1e-12)


@pytest.mark.usefixtures("listed")
def test_weighted_labels_and_lists_leave_pairs_out():
    X, Y, T = small(missing=0.2)
    observed = ~np.isnan(Y)
    grid = KroneckerRidge(0.5, **RBF).fit(X, Y, T)
    pairs = KroneckerRidge(0.5, **RBF).fit(X, problems.stored(Y), T)
    assert pairs.fitted_.labels.grid is None
    areas = [evaluate(each, "A", scoring="roc_auc")["roc_auc"] for each in (grid, pairs)]
    assert_allclose(*areas)
    weights = np.where(observed, default_rng(0).uniform(0.5, 2, Y.shape), 1.0)
    weighted = KroneckerRidge(0.5, **RBF, tol=1e-12).fit(X, Y, T, weights)
    plan = PairsOut.of(weighted.fitted_.training_problem, scorer("roc_auc"))
    expected = pairs_in_order(weighted, Y, weights)["pooled"]
    assert_allclose(plan.score().score, expected, rtol=1e-12)


def test_equal_predictions_tie():
    X, Y, T = small()
    model = TwoStepRidge(1e12, 1e12, **RBF).fit(X, Y, T)  # the mean of the other labels
    assert_allclose(evaluate(model, "A", scoring="roc_auc")["roc_auc"], [0.5])
    assert roc_auc(Y, model.holdout("A"), tie_tolerance=None) < 0.1


def test_equal_rows_determine_each_other():
    X, Y, T = small((5, 4))
    X = X[[0, 0, 1, 2, 3]]
    model = KroneckerRidge(1e-7, **RBF, fit_intercept=False, tol=1e-14).fit(X, Y, T)
    plan = PairsOut.of(model.fitted_.training_problem, scorer("roc_auc"))
    assert_allclose(plan.score().score, pairs_in_order(model, Y)["pooled"], atol=0.02)


def test_labels_that_are_fitted_exactly():
    _, Y, _ = small()
    model = KroneckerRidge(0.0, fit_intercept=False)
    model.fit(np.eye(4)[:, :3], Y, np.eye(3))
    with pytest.raises(LeverageError):
        evaluate(model, "A", scoring=scorer("roc_auc", average="task"))


@pytest.mark.parametrize("shape", [(9, 6), (6, 9)])
@pytest.mark.parametrize("Model", [TwoStepRidge, KroneckerRidge, PairKernelRidge])
def test_a_landscape_of_a_sample_has_the_scores_of_single_models(Model, shape, monkeypatch):
    def sampled(*arguments):
        return replace(of(*arguments), n_sampled=12)

    of = PairsOut.of
    monkeypatch.setattr(PairsOut, "of", sampled)
    X, Y, T = small(shape)
    grids = {"alphas": [0.1, 2.0]}
    if Model is TwoStepRidge:
        grids = {"alphas": [0.0, 0.1, 2.0], "task_alphas": [0.0, 1.0, 5.0]}
    model = Model(**RBF).fit(X, Y, T)
    scores = landscape(model, "A", scoring="roc_auc", **grids)["A"]
    differs_from_all_pairs = False
    for place in np.ndindex(scores.shape):
        alphas = [values[at] for values, at in zip(grids.values(), place, strict=True)]
        problem = model.fitted_.training_problem.at(*alphas)
        judge = scorer("roc_auc")
        assert_allclose(scores[place], sampled(problem, judge).score().score, rtol=1e-12)
        differs_from_all_pairs |= abs(scores[place] - of(problem, judge).score().score) > 1e-6
    assert differs_from_all_pairs


# --- within folds --------------------------------------------------------------------------------


@over(
    lines(
        "model setting average n_folds",
        (TwoStepRidge(0.5, 0.5, **RBF), "A", "pooled", 10),
        (KroneckerRidge(0.5, **RBF), "B", "task", 2),
        (TwoStepRidge(0.5, 0.5, **RBF), "B", "pooled", 10),
        (KroneckerRidge(0.5, **RBF), "C", "instance", 2),
        (KroneckerRidge(0.5, **RBF), "D", "pooled", 4),
    )
)
def test_correlations_are_those_within_exact_folds(model, setting, average, n_folds):
    X, Y, T = problems.data(20, 20 if setting == "C" else 10, seed=1)
    model.fit(X, Y, T)
    result = evaluate(model, setting, scoring="pearson", average=average).results[0]
    F = held_out_in_folds(model, setting, n_folds)
    numbers = fold_numbers(setting, n_folds, Y.shape)
    expected, _ = score_in_folds(Y, F, numbers, "pearson", average)
    assert result.method == "exact leave-fold-out"
    assert_allclose(result.predictions, F)
    assert_allclose(result.score, expected, rtol=1e-10)


def test_folds_without_both_classes_are_counted():
    X, Y, T = problems.data(20, 10, seed=1)
    Y = (np.quantile(Y, 0.95) < Y).astype(float)
    model = TwoStepRidge(0.5, 0.5, **RBF).fit(X, Y, T)
    scores = evaluate(model, "D", scoring="average_precision")
    given = held_out_in_folds(model, "D", 4), fold_numbers("D", 4, Y.shape)
    found, n_undefined = score_in_folds(Y, *given, "average_precision", "pooled")
    assert n_undefined > 0
    assert scores["undefined"] == [n_undefined]
    assert_allclose(scores["average_precision"], [found])
    assert f"undefined for {n_undefined} of 16 folds" in scores.notes[-1]


def test_given_folds_and_groups_are_kept():
    X, Y, T = problems.data(24, 6, seed=2)
    model = TwoStepRidge(0.5, 0.5, **RBF).fit(X, Y, T)
    given = {"scoring": "spearman", "average": "task"}
    result = evaluate(model, "B", cv=3, **given).results[0]
    F = held_out_in_folds(model, "B", 3)
    numbers = fold_numbers("B", 3, Y.shape)
    assert_allclose(result.score, score_in_folds(Y, F, numbers, "spearman", "task")[0])
    groups = np.arange(24) // 3
    grouped = evaluate(model, "B", groups=groups, **given).results[0]
    assert grouped.method == "8 groups in 2 folds, exact"
    assert all(np.unique(grouped.folds[groups == group]).size == 1 for group in range(8))


def test_scores_of_one_fit_stay_as_they_are():
    X, Y, T = problems.data(12, 9, seed=3)
    model = TwoStepRidge(0.5, 2.0).fit(X, Y, T)
    for setting, average in (("B", "instance"), ("C", "task"), ("D", "instance")):
        table = evaluate(model, setting, scoring="pearson", average=average)
        assert table["method"] == ["exact leave-one-out"]
        expected = pearson(Y, model.holdout(setting), average=average, tie_tolerance=None)
        assert_allclose(table["pearson"], [expected])
    network = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X[:9], Y[:9] + Y[:9].T)
    assert evaluate(network, "AD", scoring="pearson")["method"] == ["exact leave-one-out"] * 2


def test_a_sample_or_folds_where_pairs_cost_too_much(monkeypatch):
    X, Y, T = problems.data(20, 10, seed=1)
    model = KroneckerRidge(0.5, **RBF).fit(X, (Y > 0).astype(float), T)
    assert evaluate(model, "A")["method"] == ["exact leave-pair-out"]
    assert evaluate(model, "A", cv=4)["method"] == ["exact leave-fold-out"]
    assert evaluate(model, "A", method="folds")["method"] == ["5 folds, refitted"]
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    assert evaluate(model, "A")["method"] == ["leave-pair-out, sampled"]
    assert evaluate(model, "A", average="task")["method"] == ["exact leave-fold-out"]


# --- searches ------------------------------------------------------------------------------------


@over(
    lines(
        "Search setting scoring average",
        (TwoStepRidgeCV, "A", "roc_auc", None),
        (KroneckerRidgeCV, "A", "concordance_index", "task"),
        (TwoStepRidgeCV, "B", "pearson", "task"),
        (KroneckerRidgeCV, "D", "roc_auc", None),
        (IndependentTaskRidgeCV, "B", "pearson", "fold"),
    )
)
def test_searches_choose_by_the_same_scores(Search, setting, scoring, average):
    X, Y, T = problems.data(14, 8, seed=4)
    Y = (Y > 0).astype(float)
    params = {"setting": setting, "scoring": scoring, "average": average}
    grids = {"task_alphas": [0.1, 10.0]} if Search is TwoStepRidgeCV else {}
    search = Search([0.01, 1.0, 100.0], **grids, **params).fit(X, Y, T)
    assert_allclose(evaluate(search, setting).results[0].score, search.best_score_, rtol=1e-10)
    assert_allclose(search.best_score_, search.landscape_.max())
    given = {"alphas": search.alphas_, "scoring": scoring, "average": average}
    if Search is TwoStepRidgeCV:
        given["task_alphas"] = search.task_alphas_
    assert_allclose(landscape(search, setting, **given)[setting], search.landscape_, rtol=1e-9)


# --- averages ------------------------------------------------------------------------------------


@over(
    lines(
        "setting scoring",
        ("A", "pearson"),
        ("B", "neg_mean_squared_error"),
        ("C", "roc_auc"),
        ("D", "r2"),
    )
)
def test_the_mean_over_folds(setting, scoring):
    X, Y, T = problems.data(18, 12, seed=5)
    Y = (Y > 0).astype(float)
    model = TwoStepRidge(0.5, 0.5, **RBF).fit(X, Y, T)
    table = evaluate(model, setting, scoring=scoring, average="fold", cv=3)
    F = held_out_in_folds(model, setting, 3)
    numbers = fold_numbers(setting, 3, Y.shape)
    expected, _ = score_in_folds(Y, F, numbers, scoring, "pooled")
    assert table["average"] == ["fold"]
    assert_allclose(table[scoring], [expected])


def test_wrong_averages():
    X, Y, T = problems.data(8, 6, seed=3)
    model = TwoStepRidge().fit(X, Y, T)
    with pytest.raises(ValueError, match="average must be one of 'pooled', .* found 'macro'"):
        evaluate(model, average="macro")

    def judge(Y, F):
        return 0.0

    with pytest.raises(TypeError, match="the function judge computes its own average"):
        evaluate(model, scoring=judge, average="task")
    with pytest.raises(ValueError, match="average='fold' is the mean over the folds"):
        scorer("r2", average="fold")(Y, Y)

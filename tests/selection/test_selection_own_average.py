"""A scorer with an average of its own is used with it in every setting, wherever a scorer is accepted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import problems
from dyadlearn import (
    LearnedKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    better_of,
    bootstrap_interval,
    compare,
    evaluate,
    load,
    nested_score,
    save,
)
from dyadlearn.metrics import scorer
from fair import fold_numbers, held_out_in_folds, score_in_folds

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

X, Y, T = problems.data(12, 9, seed=3)
PER_TASK = scorer("pearson", average="task")


# In A and B, the labels of a task are compared in two folds, of about ten labels or less.
N_FOLDS = 2


def per_task(labels, predictions, setting="C"):
    """Return the mean of the correlations within each task, in A and B within folds."""
    if setting in "AB":
        numbers = fold_numbers(setting, N_FOLDS, labels.shape)
        return score_in_folds(labels, predictions, numbers, "pearson", "task")[0]
    masks = [~np.isnan(column) for column in labels.T]
    columns = zip(labels.T, predictions.T, masks, strict=True)
    return np.mean([stats.pearsonr(y[mask], f[mask]).statistic for y, f, mask in columns])


def held_out_of(model, setting):
    """Return the held-out predictions that are compared."""
    if setting in "AB":
        return held_out_in_folds(model, setting, N_FOLDS)
    return model.holdout(setting)


@pytest.fixture(scope="module")
def model():
    return TwoStepRidge(0.5, 2.0).fit(X, Y, T)


def test_a_baseline_that_is_constant_within_what_is_ranked_has_no_score_of_its_own(model):
    """A held-out task mean is lower where the label is higher, which would count as a correlation of -1."""
    own = {
        setting: evaluate(model, setting, scoring=PER_TASK).results[0].baselines for setting in "AB"
    }
    assert_allclose(list(own["B"].values()), 0.0, atol=1e-12)
    assert_allclose(own["A"]["task_means"], 0.0, atol=1e-12)
    per_instance = scorer("roc_auc", average="instance")
    binary = TwoStepRidge(0.5, 2.0).fit(X, (Y > 0).astype(float), T)
    assert_allclose(
        list(evaluate(binary, "C", scoring=per_instance).results[0].baselines.values()), 0.5
    )


def test_notes_and_table_name_the_average(model):
    scores = evaluate(
        model, "B", scoring=[scorer("r2", average="task"), scorer("r2", average="pooled"), "r2"]
    )
    assert scores["scoring"] == ["r2"] * 3
    assert scores["average"] == ["task", "pooled", "instance"]
    means = [note for note in scores.notes if "is the mean of the r2" in note]
    assert [note.split(" of each ")[1].split(",")[0] for note in means] == ["task", "instance"]


def test_a_search_and_its_file_keep_the_average(tmp_path):
    alphas = [0.01, 1.0, 100.0]
    search = TwoStepRidgeCV(alphas, alphas, setting="B", scoring=PER_TASK).fit(X, Y, T)
    assert_allclose(search.best_score_, per_task(Y, search.holdout_, "B"), rtol=1e-10)
    save(search, tmp_path / "search.dyad")
    again = load(tmp_path / "search.dyad")
    assert again.scoring == PER_TASK
    assert_allclose(evaluate(again, "B").results[0].score, search.best_score_, rtol=1e-10)


def test_learned_kernels():
    learned = LearnedKernelRidge(setting="B", scoring=PER_TASK, n_steps=1)
    learned.fit({"a": X}, Y, {"b": T})
    assert_allclose(learned.holdout_score_, per_task(Y, learned.holdout_), rtol=1e-9)


def test_an_average_equals_a_scorer_with_it(each):
    """Also in the stages of setting A, in evaluation by refits, and in nested scores."""
    given = {"n_steps": 1, "cv": 2}
    for setting in each("A"):
        own = LearnedKernelRidge(setting=setting, scoring=PER_TASK, **given)
        other = LearnedKernelRidge(setting=setting, scoring="pearson", average="task", **given)
        for model in (own, other):
            model.fit({"a": X}, Y, {"b": T})
        assert other.stage_errors_ == own.stage_errors_
        assert other.holdout_score_ == own.holdout_score_
        assert other.n_stages_ == own.n_stages_
        scored = evaluate(other, setting, cv=2).results[0]
        assert scored.score == evaluate(own, setting, cv=2).results[0].score
        assert scored.average == "task"


def test_an_average_needs_a_score_and_a_known_name():
    with pytest.raises(ValueError, match="average='task' is that of a score"):
        LearnedKernelRidge(average="task").fit(X, Y, T)
    with pytest.raises(ValueError, match="average must be one of"):
        LearnedKernelRidge(scoring="r2", average="macro").fit(X, Y, T)


def test_searches_with_other_averages_are_not_compared():
    searches = {
        average: TwoStepRidgeCV(setting="B", scoring="pearson", average=average)
        for average in ("task", "instance")
    }
    with pytest.raises(ValueError, match="pearson, mean per task and pearson, mean per instance"):
        better_of(searches, X, Y, T)


def test_nested_scores(each):
    for setting in each("ABD"):
        search = TwoStepRidgeCV([0.1, 10.0], [0.1, 10.0], setting=setting, scoring=PER_TASK)
        nested = nested_score(search, X, Y, T, cv=3, random_state=0)
        expected = per_task(Y, nested.predictions)
        if setting in "AB":
            numbers = fold_numbers(setting, 3, Y.shape)
            expected = score_in_folds(Y, nested.predictions, numbers, "pearson", "task")[0]
        assert_allclose(nested.score, expected, rtol=1e-10)


def test_comparison_and_bootstrap(each, model):
    other = TwoStepRidge(50.0, 50.0).fit(X, Y, T)
    for setting in each("AC"):
        found = compare(
            {"weak": model, "strong": other},
            setting,
            scoring=PER_TASK,
            n_resamples=20,
        )
        held_out = {"weak": model.holdout(setting), "strong": other.holdout(setting)}
        for name, fitted in (("weak", model), ("strong", other)):
            expected = per_task(Y, held_out_of(fitted, setting), setting)
            assert_allclose(found.scores[name], expected, rtol=1e-10)
        drawn = {"n_resamples": 20, "random_state": 0}
        interval = bootstrap_interval(Y, held_out["weak"], PER_TASK, setting=setting, **drawn)
        expected = bootstrap_interval(Y, held_out["weak"], "pearson", average="task", **drawn)
        assert interval == expected

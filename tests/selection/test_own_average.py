"""A scorer with an average of its own is used with it in every setting, wherever a scorer is accepted."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

import problems
from dyadlearn import (
    KroneckerRidge,
    LearnedKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    bootstrap_interval,
    compare,
    evaluate,
    landscape,
    load,
    nested_score,
    permutation_test,
    save,
)
from dyadlearn.metrics import scorer
from listed import listed

__all__ = ["listed"]

pytestmark = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")

X, Y, T = problems.data(12, 9, seed=3)
HOLES = np.where(np.random.default_rng(0).random(Y.shape) < 0.2, np.nan, Y)
PER_TASK = scorer("pearson", average="task")


def per_task(labels, predictions):
    """Return the mean of the correlations within each task."""
    masks = [~np.isnan(column) for column in labels.T]
    columns = zip(labels.T, predictions.T, masks, strict=True)
    return np.mean([stats.pearsonr(y[mask], f[mask]).statistic for y, f, mask in columns])


@pytest.fixture(scope="module")
def model():
    return TwoStepRidge(0.5, 2.0).fit(X, Y, tasks=T)


@pytest.mark.usefixtures("listed")
def test_evaluate(each, model):
    observed = ~np.isnan(HOLES)
    stored = sparse.coo_array((HOLES[observed], np.nonzero(observed)), shape=Y.shape)
    forms = {
        "full": (Y, model),
        "holes": (HOLES, KroneckerRidge(0.5).fit(X, HOLES, tasks=T)),
        "pairs": (HOLES, KroneckerRidge(0.5).fit(X, stored, tasks=T)),
    }
    assert forms["pairs"][1].fitted_.labels.grid is None
    for form, setting in each(product(forms, "ABCD")):
        labels, fitted = forms[form]
        result = evaluate(fitted, setting, scoring=PER_TASK).results[0]
        held_out = np.full(labels.shape, np.nan)
        held_out[~np.isnan(labels)] = result.predictions[~np.isnan(result.labels)]
        assert_allclose(result.score, per_task(labels, held_out), rtol=1e-10)


def test_a_baseline_that_is_constant_within_what_is_ranked_has_no_score_of_its_own(model):
    """A held-out task mean is lower where the label is higher, which would count as a correlation of -1."""
    own = {
        setting: evaluate(model, setting, scoring=PER_TASK).results[0].baselines for setting in "AB"
    }
    assert_allclose(list(own["B"].values()), 0.0, atol=1e-12)
    assert_allclose(own["A"]["task_means"], 0.0, atol=1e-12)
    per_instance = scorer("roc_auc", average="instance")
    binary = TwoStepRidge(0.5, 2.0).fit(X, (Y > 0).astype(float), tasks=T)
    assert_allclose(
        list(evaluate(binary, "C", scoring=per_instance).results[0].baselines.values()), 0.5
    )


def test_notes_and_table_name_the_average(model):
    scores = evaluate(
        model, "B", scoring=[scorer("r2", average="task"), scorer("r2", average="micro"), "r2"]
    )
    assert scores["scoring"] == ["r2, mean per task", "r2, all together", "r2"]
    means = [note for note in scores.notes if "is the mean of the r2" in note]
    assert [note.split(" of each ")[1].split(",")[0] for note in means] == ["task", "instance"]


def test_searches_and_landscapes(each, tmp_path):
    alphas = [0.01, 1.0, 100.0]
    for setting in each("ABCD"):
        search = TwoStepRidgeCV(alphas, alphas, setting=setting, scoring=PER_TASK).fit(
            X, Y, tasks=T
        )
        assert_allclose(search.best_score_, per_task(Y, search.holdout_), rtol=1e-10)
        expected = np.empty((3, 3))
        for i, j in product(range(3), range(3)):
            at = TwoStepRidge(alphas[i], alphas[j]).fit(X, Y, tasks=T)
            expected[i, j] = per_task(Y, at.holdout(setting))
        assert_allclose(search.landscape_, expected, rtol=1e-9)
        found = landscape(
            search, alphas=alphas, task_alphas=alphas, setting=setting, scoring=PER_TASK
        )
        assert_allclose(found[setting], expected, rtol=1e-9)
    save(search, tmp_path / "search.dyad")
    again = load(tmp_path / "search.dyad")
    assert again.scoring == PER_TASK
    assert_allclose(
        evaluate(again, "B").results[0].score, per_task(Y, again.holdout("B")), rtol=1e-10
    )


def test_learned_kernels():
    learned = LearnedKernelRidge(setting="B", scoring=PER_TASK).fit({"a": X}, Y, tasks={"b": T})
    assert_allclose(learned.holdout_score_, per_task(Y, learned.holdout_), rtol=1e-9)


def test_nested_scores(each):
    for setting in each("ABCD"):
        search = TwoStepRidgeCV([0.1, 10.0], [0.1, 10.0], setting=setting, scoring=PER_TASK)
        nested = nested_score(search, X, Y, tasks=T, cv=3, random_state=0)
        assert_allclose(nested.score, per_task(Y, nested.predictions), rtol=1e-10)


def test_permutations(each, model):
    for setting in each("ABCD"):
        test = permutation_test(model, setting, scoring=PER_TASK, n_permutations=9, random_state=0)
        assert_allclose(test.score, per_task(Y, model.holdout(setting)), rtol=1e-10)


def test_comparison_and_bootstrap(each, model):
    other = TwoStepRidge(50.0, 50.0).fit(X, Y, tasks=T)
    for setting in each("ABCD"):
        found = compare(
            {"weak": model, "strong": other},
            setting,
            scoring=PER_TASK,
            n_resamples=20,
            random_state=0,
        )
        held_out = {"weak": model.holdout(setting), "strong": other.holdout(setting)}
        for name, score in found.scores.items():
            assert_allclose(score, per_task(Y, held_out[name]), rtol=1e-10)
        drawn = {"n_resamples": 20, "random_state": 0}
        interval = bootstrap_interval(Y, held_out["weak"], PER_TASK, setting=setting, **drawn)
        expected = bootstrap_interval(Y, held_out["weak"], "pearson", average="task", **drawn)
        assert interval == expected

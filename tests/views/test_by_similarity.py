"""Scores by similarity in the report, against the audit of the same hold-out."""

import numpy as np
from numpy.testing import assert_allclose

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    LearnedKernelRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
)
from dyadlearn.kernels import gram
from dyadlearn.report.page import by_similarity, render
from dyadlearn.selection.nearness import BANDS, bands_of
from dyadlearn.settings import Setting
from dyadlearn.views.summary import SummaryOptions, summary_of
from sweeps import every, over


def data():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.normal(size=(8, 3)), 2, axis=0)
    X[1::2] += 0.3 * rng.normal(size=(8, 3))
    T = rng.normal(size=(6, 2))
    return X, X @ rng.normal(size=(3, 2)) @ T.T + 0.3 * rng.normal(size=(16, 6)), T


def largest(X, folds):
    S = gram(X)
    S = S / np.sqrt(np.outer(np.diag(S), np.diag(S)))
    S[np.equal.outer(folds, folds)] = -np.inf
    return S.max(axis=1)


def check(table, error, X, folds, name="instance"):
    bands = np.array(BANDS)[bands_of(largest(X, folds))]
    rows = zip(*table.columns.values(), strict=True)
    shown = [row[1:] for row in rows if row[0] == name]
    assert [row[0] for row in shown] == [band for band in BANDS if (bands == band).any()]
    for band, members, labels, score in shown:
        here = bands == band
        assert members == here.sum()
        assert labels == error[here].size
        assert_allclose(score, -np.mean(error[here] ** 2))


def test_scores_of_leave_one_out():
    X, Y, T = data()
    model = TwoStepRidge(0.1, 0.1).fit(X, Y, T)
    tables = summary_of(model, SummaryOptions(setting="ABCD")).by_similarity
    assert [table.setting for table in tables] == [Setting.B, Setting.C, Setting.D]
    alone = np.arange(16)
    check(tables[0], Y - model.holdout("B"), X, alone)
    check(tables[1], (Y - model.holdout("C")).T, T, np.arange(6), "task")
    check(tables[2], Y - model.holdout("D"), X, alone)
    check(tables[2], (Y - model.holdout("D")).T, T, np.arange(6), "task")


def test_scores_of_groups_and_of_searches():
    X, Y, T = data()
    twins = np.repeat(np.arange(8), 2)
    model = KroneckerRidge(0.1).fit(X, Y, T)
    (table,) = summary_of(model, SummaryOptions(setting="B", groups=twins)).by_similarity
    check(table, Y - model.holdout("B", groups=twins), X, twins)
    search = TwoStepRidgeCV([0.1], setting="B").fit(X, Y, T, groups=twins)
    (table,) = summary_of(search, SummaryOptions(setting="B")).by_similarity
    check(table, Y - search.holdout("B", groups=twins), X, twins)


def test_pages_and_models_without_such_scores():
    X, Y, T = data()
    model = TwoStepRidge(0.1, 0.1).fit(X, Y, T)
    summary = summary_of(model, SummaryOptions(setting="BD", sides=("drug", "protein")))
    page = by_similarity(summary)
    assert "<h3>B: new drug</h3>" in page
    assert "drugs, 0.9–1" in page
    assert 'id="similarity"' in render(summary)
    learned = LearnedKernelRidge(n_steps=1, setting="B", random_state=0).fit(X, Y, T)
    for other, setting in ((model, "A"), (learned, "B")):
        summary = summary_of(other, SummaryOptions(setting=setting))
        assert summary.by_similarity == []
        assert by_similarity(summary) == ""
        assert 'id="similarity"' not in render(summary)


@over(
    every(Model=[IndependentTaskRidge, KroneckerRidge, TwoStepRidge], fit_intercept=[True, False])
)
def test_precomputed_kernels_have_the_similarities_of_their_features(Model, fit_intercept):
    X, Y, T = data()
    model = Model(0.1, kernel="precomputed", fit_intercept=fit_intercept)
    tasks = None
    if Model is not IndependentTaskRidge:
        model.set_params(task_kernel="precomputed")
        tasks = T @ T.T
    model.fit(X @ X.T, Y, tasks)
    (table,) = summary_of(model, SummaryOptions(setting="B")).by_similarity
    check(table, Y - model.holdout("B"), X, np.arange(16))

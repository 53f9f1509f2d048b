"""Correlations within tasks: those of refitted models, within one fit, without bias on noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import KroneckerRidge, LearnedKernelRidge, TwoStepRidge, TwoStepRidgeCV, evaluate
from dyadlearn.report.page import render
from dyadlearn.settings import Setting
from dyadlearn.views.by_task import correlations_by_task, folds_by_task, within_parts
from dyadlearn.views.summary import SummaryOptions, summary_of
from problems import data, stored
from sweeps import covering, every, over


def slow(tasks, folds, values, predictions, q):
    """Correlate each fold of each task by numpy."""
    expected = np.full(q, np.nan)
    for task in range(q):
        found = []
        for fold in np.unique(folds):
            here = (tasks == task) & (folds == fold) & ~np.isnan(predictions)
            if here.sum() < 10 or np.ptp(values[here]) == 0:
                continue
            flat = np.ptp(predictions[here]) == 0
            r = 0.0 if flat else np.corrcoef(values[here], predictions[here])[0, 1]
            found.append((here.sum(), r))
        if found:
            counts, correlations = zip(*found, strict=True)
            expected[task] = np.average(correlations, weights=counts)
    return expected


@over(every(n_folds=[1, 3]))
def test_correlations_within_folds(n_folds):
    rng = np.random.default_rng(n_folds)
    n = 200
    tasks = rng.integers(0, 6, size=n)
    folds = rng.integers(0, n_folds, size=n)
    values = rng.normal(size=n)
    predictions = values + rng.normal(size=n)
    values[tasks == 2] = 3.0  # a task of equal labels
    predictions[tasks == 4] = 1.0  # one of equal predictions
    predictions[rng.random(n) < 0.1] = np.nan
    found, counts = within_parts(tasks, folds, values, predictions)
    assert_allclose(found, slow(tasks, folds, values, predictions, 6), atol=1e-12)
    assert np.isnan(found[2])
    assert (counts[2], found[4]) == (0, 0.0)


@over(covering(setting=["A", "B", "C", "D"], form=["full", "missing", "list"], strength=1))
def test_correlations_are_those_of_held_out_predictions(setting, form):
    """In A and B within folds, which are each predicted by one fit; in C and D over all instances."""
    X, Y, T = data(45, 4, missing=0.0 if form == "full" else 0.2)
    labels = Y
    if form == "list":
        labels = stored(Y)
    fitted = KroneckerRidge(2.0).fit(X, labels, T).fitted_
    setting = Setting(setting)
    cv = folds_by_task(fitted.labels, setting)
    assert (cv is None) == (setting in "CD")
    held_out = fitted.hold_out(setting, cv=cv)
    F = np.asarray(fitted.labels.spread(held_out.predictions))
    folds = np.zeros(Y.shape)
    if cv is not None:
        codes = held_out.units.of_labels(fitted.labels, setting)[0]
        folds = np.asarray(fitted.labels.spread(codes.astype(float)))
        assert len(np.unique(folds[~np.isnan(folds)])) > 1
    here = np.nonzero(~np.isnan(Y))
    expected = slow(here[1], folds[here], Y[here], F[here], 4)
    assert not np.isnan(expected).any()
    found = correlations_by_task(fitted, setting)
    assert_allclose(found.values, expected, rtol=1e-9)
    assert_array_equal(found.order, np.argsort(-expected))


def test_a_report_has_a_row_for_each_task():
    X, Y, T = data(60, 5)
    Y[8:, 3] = np.nan  # too few labels
    model = KroneckerRidge(2.0).fit(X, Y, T)
    summary = summary_of(model, SummaryOptions(sides=("line", "environment")))
    found = summary.by_task
    assert (found.setting, found.order.size) == (Setting.B, 4)
    text = render(summary)
    assert "<h2>By environment</h2>" in text
    assert "of 4 environments is" in text
    assert "The other 1 environments have too few labels" in text
    searched = TwoStepRidgeCV(np.geomspace(1e-6, 1e6, 7), setting="D")
    searched = searched.fit(X, data(60, 5)[1], T)
    assert summary_of(searched).by_task.setting is Setting.D


def test_reports_without_correlations(monkeypatch):
    X, Y, T = data(30, 6)
    binary = TwoStepRidge().fit(X, (Y > 0).astype(float), T)
    in_b = SummaryOptions(setting="B")
    assert summary_of(binary, in_b).by_task is None
    assert summary_of(TwoStepRidge(symmetry="symmetric").fit(X, X @ X.T), in_b).by_task is None
    summary = summary_of(TwoStepRidge().fit(X[:8], Y[:8], T), in_b)
    assert summary.by_task is None
    assert "task-table" not in render(summary)
    Y[0, 0] = np.nan
    slow_model = TwoStepRidge().fit(X, Y, T)
    monkeypatch.setattr("dyadlearn.views.summary._MOST_WORK", 0)
    summary = summary_of(slow_model)
    assert summary.by_task is None
    assert any("Correlations of single tasks" in note for note in summary.notes)


@pytest.mark.parametrize("nested", [True, False])
def test_learned_kernels(nested):
    """Without nesting, all settings are shown, with the kernels of the model."""
    X, Y, T = data(60, 4)
    model = LearnedKernelRidge(setting="B", n_steps=1).fit(X, Y, T)
    summary = summary_of(model, SummaryOptions(nested=nested))
    settings = [result.setting.value for result in summary.results]
    assert settings == (["B"] if nested else ["A", "B", "C", "D"])
    scores = evaluate(model, settings, nested=nested)
    assert_allclose([result.score for result in summary.results], scores[scores.scoring])
    assert any(("learned again" if nested else "optimistic") in note for note in summary.notes)
    expected = correlations_by_task(model.fitted_, Setting.B, nested=nested)
    assert_allclose(summary.by_task.values, expected.values)

"""What metrics take, and what they say to what they do not take."""

import inspect
from itertools import product

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from dyadlearn import metrics
from dyadlearn.exceptions import IdError
from dyadlearn.metrics import concordance_index, roc_auc
from sweeps import lines, over

Y = np.array([[1, 0, 0], [0, 1, 1]])
F = np.array([[0.9, 0.1, 0.5], [0.2, 0.4, 0.3]])
BINARY = ["roc_auc", "average_precision", "enrichment_factor"]


def test_lists_integers_and_vectors_will_do():
    expected = roc_auc(Y, F)
    assert roc_auc(Y.tolist(), F.tolist()) == expected
    assert roc_auc(Y.ravel(), F.ravel()) == expected
    assert roc_auc(Y.astype(bool), (10 * F).astype(int)) == expected
    stack = np.stack([F.reshape(-1, 1), -F.reshape(-1, 1)])
    assert roc_auc(Y.ravel(), stack).tolist() == [expected, 1 - expected]


def test_signatures_name_the_options():
    options = ["average", "setting", "tie_tolerance", "return_undefined"]
    assert list(inspect.signature(metrics.precision_at_k).parameters) == ["Y", "F", "k", *options]
    assert list(inspect.signature(metrics.r2).parameters) == ["Y", "F", *options[:2], options[3]]
    with pytest.raises(
        TypeError,
        match=r"mean_squared_error\(\) got an unexpected keyword argument 'tie_tolerance'",
    ):
        metrics.mean_squared_error(Y, F, tie_tolerance=0.1)


def test_frames_are_aligned_by_their_ids():
    labels = pd.DataFrame(Y, index=["a", "b"], columns=["x", "y", "z"])
    predictions = pd.DataFrame(F, index=["a", "b"], columns=["x", "y", "z"])
    expected = roc_auc(Y, F, setting="B")
    assert roc_auc(labels, predictions, setting="B") == expected
    assert roc_auc(labels, predictions.loc[["b", "a"], ["z", "x", "y"]], setting="B") == expected
    assert roc_auc(labels, F, setting="B") == expected
    moved = pl.DataFrame({"id": ["b", "a"], "z": F[::-1, 2], "x": F[::-1, 0], "y": F[::-1, 1]})
    assert roc_auc(labels, moved, setting="B") == expected
    with pytest.raises(IdError, match="the columns of F and the columns of Y do not match"):
        roc_auc(labels, predictions.rename(columns={"x": "w"}))


def test_predictions_are_left_as_they_are():
    given = F.copy()
    for average in ("pooled", "instance", "task"):
        roc_auc(Y, given, average=average)
        concordance_index(Y + F, given, average=average)
    assert (given == F).all()


def test_labels_must_be_two(each):
    wrong = (
        (np.arange(6).reshape(2, 3), "found 6 in Y. For real labels use the concordance index"),
        (np.ones((2, 3)), "found 1 in Y. Give labels of both values"),
    )
    for (labels, advice), name in each(product(wrong, BINARY)):
        with pytest.raises(ValueError, match=f"needs labels of exactly two values, {advice}"):
            getattr(metrics, name)(labels, F)


# Each row has labels that are all alike, that are missing, or that are no gains.
ALIKE = np.array([[1, 1, 1], [0, 0, 0]])
EMPTY = np.full((2, 3), np.nan)
UNDEFINED = {
    "roc_auc": (ALIKE, "ROC curve is"),
    "concordance_index": (ALIKE, "concordance index is"),
    "r2": (ALIKE, "R² is"),
    "pearson": (ALIKE, "Pearson correlation is"),
    "spearman": (ALIKE, "Spearman correlation is"),
    "mean_absolute_error": (EMPTY, "mean absolute error is"),
    "mean_squared_error": (EMPTY, "mean squared error is"),
    "ndcg_at_k": (np.zeros((2, 3)), "NDCG is undefined here.*a label above 0"),
}


def test_undefined_everywhere(each):
    for name in each(UNDEFINED):
        labels, words = UNDEFINED[name]
        metric = getattr(metrics, name)
        with pytest.raises(ValueError, match=f"{words}.*no row of Y has"):
            metric(labels, F, average="instance")
        with pytest.raises(ValueError, match=f"{words}.*no column of Y has"):
            metric(labels.T, F.T, average="task")


def test_undefined_for_equal_labels_altogether(each):
    cases = product(["concordance_index", "r2", "pearson", "spearman"], [np.ones((2, 3)), EMPTY])
    for name, labels in each(cases):
        with pytest.raises(
            ValueError, match="two observed labels that differ, and Y does not have that"
        ):
            getattr(metrics, name)(labels, F)


def test_nan_among_the_predictions(each, library):
    cases = [*BINARY, "concordance_index", "mean_squared_error", "r2", "mean_absolute_error"]
    cases += ["root_mean_squared_error", "pearson", "spearman"]
    for name, average in each(product(cases, ["pooled", "task"])):
        real = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, np.nan], [7.0, 8.0, 9.0]])
        if name in BINARY:
            labels = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, np.nan], [1.0, 0.0, 0.0]])
        else:
            labels = real
        for cell in [(0, 2), (1, 1)]:
            holed = np.concatenate([F, F[:1]])
            holed[cell] = np.nan
            with pytest.raises(ValueError, match="F contains NaN where Y is observed"):
                getattr(metrics, name)(
                    library.asarray(labels), library.asarray(holed), average=average
                )


WHOLE = "k must be a whole number of at least 1"
TOP = [metrics.precision_at_k, metrics.recall_at_k, metrics.ndcg_at_k]
REFUSED = lines(
    "metric arguments options error message",
    (roc_auc, (Y, F.T), {}, ValueError, r"each of the 2 × 3 labels.*\(…, 2, 3\), found \(3, 2\)"),
    (roc_auc, (Y, sparse.csr_array(F)), {}, TypeError, "F is sparse"),
    (roc_auc, (Y, F + 1j), {}, ValueError, "Complex data not supported"),
    (concordance_index, ([[1.0, np.inf]], F[:1, :2]), {}, ValueError, "Y contains infinity"),
    (
        roc_auc,
        (Y, F),
        {"average": "macro"},
        ValueError,
        "one of 'pooled', 'instance', 'task', 'fold', found 'macro'",
    ),
    (
        roc_auc,
        (Y, F),
        {"average": "pooled", "setting": "B"},
        ValueError,
        "Give average or setting, not both: .*setting='B' and average='pooled'",
    ),
    (roc_auc, (Y, F), {"setting": "E"}, ValueError, "Unknown setting 'E'"),
    *((metric, (Y, F, 0), {}, ValueError, f"{WHOLE}, found 0") for metric in TOP),
    *((metric, (Y, F, k), {}, ValueError, WHOLE) for metric in TOP for k in (2.0, True, "2")),
    *(
        (metrics.enrichment_factor, (Y, F, fraction), {}, ValueError, r"must be in \(0, 1\]")
        for fraction in (0.0, 1.5)
    ),
    (metrics.enrichment_factor, (Y, F, np.nan), {}, ValueError, "must be a finite number"),
    (metrics.ndcg_at_k, (2 * Y - 1, F), {}, ValueError, "labels of at least 0, found -1.0"),
)


@over(REFUSED)
def test_what_is_refused(metric, arguments, options, error, message):
    with pytest.raises(error, match=message):
        metric(*arguments, **options)


def test_both_must_be_of_one_library():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match="Y of numpy, F of array_api_strict"):
        roc_auc(Y, strict.asarray(F))

"""What metrics take, and what they say to what they do not take."""

from __future__ import annotations

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


def test_undefined_everywhere(each):
    cases = [
        ("roc_auc", [[1, 1, 1], [0, 0, 0]], "ROC curve is undefined here.*no row of Y has"),
        (
            "concordance_index",
            [[1, 1, 1], [0, 0, 0]],
            "concordance index is undefined here.*no row of Y has",
        ),
        ("r2", [[1, 1, 1], [0, 0, 0]], "R² is undefined here.*no row of Y has"),
        (
            "mean_absolute_error",
            np.full((2, 3), np.nan),
            "mean absolute error is undefined here.*no row of Y has",
        ),
        (
            "pearson",
            [[1, 1, 1], [0, 0, 0]],
            "Pearson correlation is undefined here.*no row of Y has",
        ),
        (
            "spearman",
            [[1, 1, 1], [0, 0, 0]],
            "Spearman correlation is undefined here.*no row of Y has",
        ),
        (
            "mean_squared_error",
            np.full((2, 3), np.nan),
            "mean squared error is undefined here.*no row of Y has",
        ),
        ("ndcg_at_k", np.zeros((2, 3)), "NDCG is undefined here.*a label above 0.*no row of Y has"),
    ]
    for name, labels, message in each(cases):
        with pytest.raises(ValueError, match=message):
            getattr(metrics, name)(labels, F, average="instance")
        transposed = np.transpose(labels)
        with pytest.raises(ValueError, match=message.replace("no row", "no column")):
            getattr(metrics, name)(transposed, F.T, average="task")


def test_undefined_for_equal_labels_altogether(each):
    for name in each(["concordance_index", "r2", "pearson", "spearman"]):
        with pytest.raises(
            ValueError, match="two observed labels that differ, and Y does not have that"
        ):
            getattr(metrics, name)(np.ones((2, 3)), F)
        with pytest.raises(
            ValueError, match="two observed labels that differ, and Y does not have that"
        ):
            getattr(metrics, name)(np.full((2, 3), np.nan), F)


def test_nan_among_the_predictions(each, library):
    cases = [
        "roc_auc",
        "average_precision",
        "concordance_index",
        "mean_squared_error",
        "r2",
        "enrichment_factor",
    ]
    cases += ["mean_absolute_error", "root_mean_squared_error", "pearson", "spearman"]
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


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"each of the 2 × 3 labels.*\(…, 2, 3\), found \(3, 2\)"):
        roc_auc(Y, F.T)
    with pytest.raises(ValueError, match=r"found \(3,\)"):
        roc_auc(Y, F[0])


def test_sparse_infinite_or_complex():
    with pytest.raises(TypeError, match="F is sparse"):
        roc_auc(Y, sparse.csr_array(F))
    with pytest.raises(ValueError, match="Y contains infinity"):
        concordance_index(np.array([[1.0, np.inf]]), F[:1, :2])
    with pytest.raises(ValueError, match="Complex data not supported"):
        roc_auc(Y, F + 1j)


def test_both_must_be_of_one_library():
    strict = pytest.importorskip("array_api_strict")
    with pytest.raises(TypeError, match="Y of numpy, F of array_api_strict"):
        roc_auc(Y, strict.asarray(F))


def test_average_and_setting():
    with pytest.raises(
        ValueError,
        match="average must be one of 'pooled', 'instance', 'task', 'fold', found 'macro'",
    ):
        roc_auc(Y, F, average="macro")
    with pytest.raises(
        ValueError, match="Give average or setting, not both: .*setting='B' and average='pooled'"
    ):
        roc_auc(Y, F, average="pooled", setting="B")
    with pytest.raises(ValueError, match="Unknown setting 'E'"):
        roc_auc(Y, F, setting="E")


def test_k_is_a_number_of_places(each):
    for name in each(["precision_at_k", "recall_at_k", "ndcg_at_k"]):
        metric = getattr(metrics, name)
        with pytest.raises(ValueError, match="k must be a whole number of at least 1, found 0"):
            metric(Y, F, 0)
        for k in (2.0, True, "2"):
            with pytest.raises(ValueError, match="k must be a whole number of at least 1"):
                metric(Y, F, k)


def test_fraction():
    for fraction in (0.0, 1.5):
        with pytest.raises(ValueError, match=r"fraction must be in \(0, 1\]"):
            metrics.enrichment_factor(Y, F, fraction)
    with pytest.raises(ValueError, match="fraction must be a finite number"):
        metrics.enrichment_factor(Y, F, float("nan"))
    with pytest.raises(TypeError, match="fraction must be a number"):
        metrics.enrichment_factor(Y, F, "0.1")


def test_gains_are_not_negative():
    with pytest.raises(ValueError, match="NDCG needs labels of at least 0, found -1.0"):
        metrics.ndcg_at_k(2 * Y - 1, F)

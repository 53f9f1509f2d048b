"""Metrics by name: what model selection asks for."""

import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import make_scorer
from sklearn.model_selection import KFold, cross_val_score

from dyadlearn import IndependentTaskRidge, IndependentTaskRidgeCV, metrics
from dyadlearn.metrics import scorer, scorer_names
from dyadlearn.metrics.cells import METRICS, Metric
from sweeps import lines, over

RNG = np.random.default_rng(0)
Y = (RNG.random((6, 5)) < 0.4).astype(float)
Y[:, 0], Y[:2] = 1, 0
STACK = RNG.normal(size=(2, 3, 6, 5))


def negative(metric):
    return lambda Y, F, **options: -metric(Y, F, **options)


def best(metric, k):
    return lambda Y, F, **options: metric(Y, F, k, **options)


@over(
    lines(
        "name function",
        ("roc_auc", metrics.roc_auc),
        ("average_precision", metrics.average_precision),
        ("concordance_index", metrics.concordance_index),
        ("neg_mean_squared_error", negative(metrics.mean_squared_error)),
        ("neg_mean_absolute_error", negative(metrics.mean_absolute_error)),
        ("neg_root_mean_squared_error", negative(metrics.root_mean_squared_error)),
        ("r2", metrics.r2),
        ("ic_index", metrics.ic_index),
        ("pearson", metrics.pearson),
        ("spearman", metrics.spearman),
        ("precision_at_2", best(metrics.precision_at_k, 2)),
        ("recall_at_12", best(metrics.recall_at_k, 12)),
        ("ndcg_at_2", best(metrics.ndcg_at_k, 2)),
        ("ndcg_at_k", metrics.ndcg_at_k),
        ("enrichment_factor", metrics.enrichment_factor),
    )
)
def test_names(name, function):
    score = scorer(name)
    assert score.name == name
    for options in ({}, {"average": "task"}, {"setting": "B"}):
        expected = function(Y, STACK, **options)
        assert_array_equal(score(Y, STACK, **options), expected)
        prepared = score.prepare(Y, **options)
        assert_array_equal(prepared(STACK), expected)
        assert prepared(STACK[1, 2]) == expected[1, 2]


def test_every_name_is_in_the_pages_and_in_the_help():
    pytest.importorskip("typer")
    from dyadlearn.cli.options import SCORES

    table = (Path(__file__).resolve().parents[2] / "docs" / "selection.md").read_text(
        encoding="utf-8"
    )
    own = SCORES.split(", or ")[0].split(", ")
    assert own == sorted(name.replace("_at_k", "_at_10") for name in scorer_names())
    for name in scorer_names():
        numbered = name.replace("_at_k", "_at_10")
        assert (
            f'| `"{numbered}"` | {{func}}`~dyadlearn.metrics.{name.removeprefix("neg_")}`' in table
        )
        assert name.removeprefix("neg_") in metrics.__all__


def test_a_metric_is_found_once_its_class_is_declared():
    with patch.dict(METRICS):

        class Share(Metric):
            title = "The share of cells above a threshold"
            scoring = "share_above_at_k"

            def __init__(self, Y, *, k, **options):
                self._k = k
                super().__init__(Y, **options)

            def _defined(self, cells):
                return cells.counts > 0

            def _prepare(self):
                pass

            def _score(self, F):
                return (self._cells.arrange(F) > self._k).mean(axis=-1)

        grid = IndependentTaskRidgeCV(scoring="share_above_at_0").fit(np.eye(6), Y)
        assert_allclose(
            scorer("share_above_at_1")(Y, STACK, setting="B"),
            (STACK > 1).mean(axis=(-1, -2)),
            rtol=1e-14,
        )
        assert_allclose(grid.best_score_, (grid.holdout("B") > 0).mean())
        with pytest.raises(ValueError, match="share_above_at_k needs k.*'share_above_at_10'"):
            scorer("share_above_at_k")
        with pytest.raises(ValueError, match="Did you mean 'share_above_at_10'"):
            scorer("share_above_10")
    with pytest.raises(ValueError, match="Unknown scoring 'share_above_at_1'"):
        scorer("share_above_at_1")


def test_words_of_a_scorer_tell_its_own_average():
    assert str(scorer("pearson")) == "pearson"
    assert str(scorer("precision_at_2", average="task")) == "precision_at_2, mean per task"


def test_rows_left_out_are_counted():
    assert scorer("roc_auc").prepare(Y, setting="B").n_undefined == 2
    assert scorer("roc_auc").prepare(Y, setting="A").n_undefined == 0
    assert scorer("neg_mean_squared_error").prepare(Y, setting="B").n_undefined == 0
    assert scorer(lambda labels, predictions: 1.0).prepare(Y, setting="B").n_undefined == 0


def largest_gap(Y, F):
    assert Y.shape == F.shape == (6, 5)
    return -np.abs(Y - F).max()


def test_any_function_of_two_grids():
    score = scorer(largest_gap)
    assert score.name == "largest_gap"
    expected = [[largest_gap(Y, F) for F in row] for row in STACK]
    assert_array_equal(score(Y, STACK, setting="B"), expected)
    assert score(Y, STACK[0, 0]) == expected[0][0]
    assert score.prepare(Y).n_undefined == 0
    with pytest.raises(ValueError, match="not both"):
        score(Y, STACK, setting="B", average="pooled")


def test_a_function_is_given_the_arrays_of_the_library(library):
    score = scorer(lambda Y, F: float((Y * F)[0, 1]))
    labels = library.asarray(Y + 1)
    predictions = library.asarray(STACK)
    scores = score(labels, predictions)
    assert type(scores) is type(predictions)
    assert_allclose(library.to_numpy(scores), (Y + 1)[0, 1] * STACK[..., 0, 1], rtol=library.rtol)
    assert isinstance(score(labels, predictions[0, 0, ...]), float)


def test_a_scorer_can_be_sent_elsewhere():
    for scoring in ("precision_at_2", largest_gap):
        assert_array_equal(
            pickle.loads(pickle.dumps(scorer(scoring)))(Y, STACK), scorer(scoring)(Y, STACK)
        )
    prepared = scorer("roc_auc").prepare(Y, setting="C")
    assert_array_equal(pickle.loads(pickle.dumps(prepared))(STACK), prepared(STACK))


def test_threads_share_a_prepared_scorer():
    prepared = scorer("average_precision").prepare(Y, setting="B")
    grids = list(RNG.normal(size=(64, 6, 5)))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(prepared, grids)) == [prepared(F) for F in grids]


UNKNOWN = "Unknown scoring {!r}: expected one of average_precision, .*Did you mean '{}"
NO_FUNCTION = "^scoring must be a name, such as 'r2', a scorer of scikit-learn, or a fu"


@over(
    lines(
        "scoring options error message",
        ("roc-auc", {}, ValueError, UNKNOWN.format("roc-auc", "roc_auc'?")),
        (
            "mean_squared_error",
            {},
            ValueError,
            UNKNOWN.format("mean_squared_error", "neg_mean_squared_error'?"),
        ),
        (
            "zzz",
            {},
            ValueError,
            r"a name or scorer of scikit-learn for regression, or a function\.$",
        ),
        (None, {}, TypeError, r"a name or a function of \(Y, F\), found None"),
        ("precision_at_k", {}, ValueError, "precision_at_k needs k.*'precision_at_10'"),
        ("pearson", {"average": "columns"}, ValueError, "average must be one of.*'columns'"),
        (
            "pearson",
            {"k": 3},
            TypeError,
            "pearson has no such option: expected average, tie_tolerance, found k",
        ),
        (largest_gap, {"k": 3}, TypeError, "Only a named metric takes options, found k"),
        (lambda F: 0.0, {}, TypeError, NO_FUNCTION),
        (lambda estimator, X, y: 0.0, {}, TypeError, NO_FUNCTION),
    )
)
def test_what_is_no_scoring(scoring, options, error, message):
    with pytest.raises(error, match=message):
        scorer(scoring, **options)


def test_functions_of_two_with_options_or_of_any_number_are_taken():
    assert scorer(lambda Y, F, worst=True: 0.0)(Y, STACK).tolist() == [[0.0] * 3] * 2
    assert scorer(lambda *grids: 1.0)(Y, STACK[0, 0]) == 1.0


def test_the_metrics_are_scorers_of_scikit_learn():
    """Their own name "roc_auc" wants a classifier; the metric itself takes grids."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 4))
    labels = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(20, 5)) > 0).astype(float)
    model = IndependentTaskRidge()
    judge = make_scorer(metrics.roc_auc, setting="C")
    expected = []
    for train, test in KFold(2).split(X):
        predicted = model.fit(X[train], labels[train]).predict(X[test])
        expected.append(scorer("roc_auc")(labels[test], predicted, setting="C"))
    assert_allclose(cross_val_score(model, X, labels, scoring=judge, cv=KFold(2)), expected)

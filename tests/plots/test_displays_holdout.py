"""Curves are those of scikit-learn, their areas those that `evaluate` tells."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import (
    roc_auc_score,
    roc_curve,
)

from dyadlearn import (
    KroneckerRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn.metrics import r2
from dyadlearn.plots import HoldoutDisplay

NAMES = {"A": "A: new pair", "B": "B: new instance", "C": "C: new task", "D": "D: both new"}


def with_holes(Y, seed=1, share=0.2):
    Y = np.array(Y, dtype=float)
    Y[np.random.default_rng(seed).random(Y.shape) < share] = np.nan
    return Y


@pytest.mark.parametrize("letter", "AD")
def test_roc_points_are_those_of_all_cells(binary, ax, letter):
    X, Y, T = binary
    model = TwoStepRidge(fit_intercept=False).fit(X, Y, tasks=T)
    display = HoldoutDisplay.from_estimator(model, letter, ax=ax)
    x, y, _ = roc_curve(Y.ravel(), model.holdout(letter).ravel())
    assert_allclose(display.points[NAMES[letter]], (x, y))
    (line,) = display.lines_
    assert_allclose(line.get_xydata(), np.column_stack([x, y]))
    assert display.kind == "roc"
    assert_allclose(
        display.scores[NAMES[letter]], roc_auc_score(Y.ravel(), model.holdout(letter).ravel())
    )


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize(
    ("scoring", "kind"),
    [("average_precision", "precision_recall"), ("roc_auc", "roc"), ("r2", "roc")],
)
def test_a_search_is_drawn_by_what_it_was_chosen_by(binary, ax, scoring, kind):
    X, Y, T = binary
    search = TwoStepRidgeCV([0.1, 1.0, 10.0], [0.1, 1.0, 10.0], setting="D", scoring=scoring).fit(
        X, Y, tasks=T
    )
    display = HoldoutDisplay.from_estimator(search, "D", ax=ax)
    assert display.kind == kind
    if scoring != "r2":
        assert_allclose(list(display.scores.values()), [search.best_score_])


@pytest.mark.parametrize(
    ("kind", "scoring"), [("roc", "roc_auc"), ("precision_recall", "average_precision")]
)
def test_scores_are_those_of_evaluate(binary, ax, kind, scoring):
    X, Y, T = binary
    model = KroneckerRidge().fit(X, Y, tasks=T)
    display = HoldoutDisplay.from_estimator(model, kind=kind, ax=ax)
    assert list(display.scores) == list(NAMES.values())
    assert_allclose(list(display.scores.values()), list(evaluate(model, scoring=scoring)[scoring]))
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert all(
        f" {score:.3f}" in text for score, text in zip(display.scores.values(), texts, strict=False)
    )
    assert kind == "roc" or display.positive_share == pytest.approx(Y.mean())
    ends = [text.get_text().rsplit(" ", 3)[1:] for text in ax.get_legend().get_texts()[1:3]]
    assert ends == [["mean", "per", "instance"], ["mean", "per", "task"]]


def test_real_labels_are_points_around_the_identity(real, ridge):
    Y = real[1]
    display = HoldoutDisplay.from_estimator(ridge)
    assert display.kind == "scatter"
    assert display.ax_.shape == (4,)
    for letter, panel, cloud in zip("ABCD", display.ax_, display.scatters_, strict=True):
        F = ridge.holdout(letter)
        assert_allclose(cloud.get_offsets(), np.column_stack([Y.ravel(), F.ravel()]))
        assert_allclose(display.scores[NAMES[letter]], r2(Y, F))
        assert panel.get_title() == f"{NAMES[letter]}, R² {r2(Y, F):.3f}"
        low, high = panel.get_xlim()
        assert (low, high) == panel.get_ylim()
        assert low < min(Y.min(), F.min())
        assert_array_equal(panel.lines[0].get_xydata(), [[low, low], [high, high]])


def test_of_many_points_some_are_drawn_and_it_is_said(ridge, ax):
    display = HoldoutDisplay.from_estimator(ridge, "B", max_points=100, ax=ax)
    drawn = display.scatters_[0].get_offsets()
    everything = np.column_stack(display.points["B: new instance"])
    assert drawn.shape == (100, 2)
    assert everything.shape == (384, 2)
    assert {tuple(point) for point in drawn} < {tuple(point) for point in everything}
    assert "100 of 384 labels drawn" in ax.get_title()
    again = display.plot(ax, max_points=100).scatters_[0].get_offsets()
    assert_array_equal(drawn, again)
    assert "drawn" not in display.plot(ax, max_points=384).ax_.get_title()


@pytest.mark.parametrize(
    ("model", "method"),
    [
        (TwoStepRidge, "exact leave-pair-out in A\nleave-one-out, refitted in B"),
        (KroneckerRidge, "exact leave-pair-out in A"),
    ],
)
def test_incomplete_models_are_drawn_as_they_are_evaluated(binary, ax, model, method):
    X, Y, T = binary
    Y = with_holes(Y)
    fitted = model().fit(X, Y, tasks=T)
    display = HoldoutDisplay.from_estimator(fitted, "AB", ax=ax)
    assert_allclose(
        list(display.scores.values()), list(evaluate(fitted, "AB", scoring="roc_auc")["roc_auc"])
    )
    assert ax.get_title() == "Hold-out ROC curves" + ("\n" + method if method else "")
    HoldoutDisplay.from_estimator(fitted, "AB", cv=3, ax=ax)
    assert ("3 folds, refitted in B" in ax.get_title()) == (model is TwoStepRidge)
    scatter = HoldoutDisplay.from_estimator(fitted, "B", kind="scatter", ax=ax)
    assert scatter.scatters_[0].get_offsets().shape == (np.count_nonzero(~np.isnan(Y)), 2)


def test_bad_input_is_said_in_a_sentence(ax, each):
    Y = np.array([[1.0, 0.0], [1.0, np.nan]])
    F = np.ones((2, 2))
    words = "kind must be one of 'auto', 'roc', 'precision_recall', 'scatter', found 'pr'"
    cases = [
        (Y, F, {"kind": "pr"}, words),
        (Y, np.ones((2, 3)), {}, "F must hold a prediction for each of the 2 × 2 labels"),
        (Y, {"first": F, "second": F * np.nan}, {}, r"F \(second\) has NaN where Y is observed"),
        (Y, {}, {}, "empty dict"),
        (Y * np.nan, F, {}, "no observed label"),
    ]
    for labels, predictions, options, message in each(cases):
        with pytest.raises(ValueError, match=message):
            HoldoutDisplay.from_predictions(labels, predictions, **options, ax=ax)

"""What all Displays have in common, curves and points of held-out predictions, and maps of landscapes."""

import copy
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.metrics import roc_auc_score, roc_curve

import problems
from dyadlearn import (
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
    landscape,
)
from dyadlearn.metrics import r2
from dyadlearn.plots import HoldoutDisplay, LandscapeDisplay
from dyadlearn.views.landscape import landscape_of_scores
from sweeps import lines, over

DRAW = {
    "roc": lambda **at: HoldoutDisplay.from_predictions(
        [[1, 0], [1, 0]], [[0.9, 0.1], [0.2, 0.4]], **at
    ),
    "scatter": lambda **at: HoldoutDisplay.from_predictions(
        [[1, 2], [3, 4]], [[0.9, 0.1], [0.2, 0.4]], **at
    ),
    "map": lambda **at: LandscapeDisplay.from_landscape([[1, 2], [3, 5]], [0.1, 1], [0.1, 1], **at),
    "line": lambda **at: LandscapeDisplay.from_landscape([1, 2, 0], [0.1, 1, 10], **at),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_they_draw_on_given_axes_or_open_one_figure_and_can_be_drawn_again(draw, ax):
    display = draw(ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert plt.get_fignums() == []
    ax.figure.canvas.draw()
    display = draw()
    assert len(plt.get_fignums()) == 1
    assert display.figure_ is plt.gcf()
    display.figure_.canvas.draw()
    assert display.ax_ is not ax
    assert display.plot(ax) is display
    assert display.ax_ is ax


@over(lines("draw", *DRAW.values()))
def test_what_is_no_axes_is_refused(draw):
    with pytest.raises(TypeError, match="ax must be the axes of a matplotlib figure, found dict"):
        draw(ax={})
    assert plt.get_fignums() == []


@over(lines("draw", *DRAW.values()))
def test_without_matplotlib_it_is_said_how_to_get_it(draw, monkeypatch):
    for module in ("matplotlib", "matplotlib.pyplot", "matplotlib.axes", "matplotlib.ticker"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r"pip install 'dyadlearn\[plots\]'"):
        draw()


def test_the_numbers_of_a_view_are_those_of_its_display(ax):
    display = LandscapeDisplay(landscape_of_scores([0.5, 0.7, 0.6], [0.1, 1, 10]))
    with pytest.raises(AttributeError, match=r"LandscapeDisplay has no ax_: call plot\(\) first"):
        display.ax_  # noqa: B018
    for one in (display, copy.deepcopy(display)):
        assert one.best_score == 0.7
        assert one.plot(ax).scores is one.view.scores
        with pytest.raises(AttributeError, match="nonesuch"):
            one.nonesuch  # noqa: B018


def test_what_cannot_be_looked_at_is_refused(real, each):
    X, Y, T = real
    online = OnlineTwoStepRidge().fit(X, Y, T)
    words = "OnlineTwoStepRidge keeps statistics only, not the labels: .*from_predictions"
    cases = [
        (HoldoutDisplay, "a model", TypeError, "model must be a .* found str.*from_predictions"),
        (LandscapeDisplay, "a model", TypeError, "model must be a .* found str.*from_landscape"),
        (HoldoutDisplay, online, ValueError, words),
        (HoldoutDisplay, TwoStepRidge(), NotFittedError, "not fitted"),
        (LandscapeDisplay, TwoStepRidgeCV(), NotFittedError, "not fitted"),
    ]
    for Display, model, error, message in each(cases):
        with pytest.raises(error, match=message):
            Display.from_estimator(model)
        assert plt.get_fignums() == []


# --- held-out predictions: curves of scikit-learn, areas that `evaluate` tells -------------------

NAMES = {"A": "A: new pair", "B": "B: new instance", "C": "C: new task", "D": "D: both new"}


def with_holes(Y):
    return problems.with_holes(Y, 0.2)


@pytest.mark.parametrize("letter", "AD")
def test_roc_points_are_those_of_all_cells(binary, ax, letter):
    X, Y, T = binary
    model = TwoStepRidge(fit_intercept=False).fit(X, Y, T)
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
        X, Y, T
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
    model = KroneckerRidge().fit(X, Y, T)
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
    fitted = model().fit(X, Y, T)
    display = HoldoutDisplay.from_estimator(fitted, "AB", ax=ax)
    assert_allclose(
        list(display.scores.values()), list(evaluate(fitted, "AB", scoring="roc_auc")["roc_auc"])
    )
    assert ax.get_title() == "Hold-out ROC curves" + ("\n" + method if method else "")
    HoldoutDisplay.from_estimator(fitted, "AB", cv=3, ax=ax)
    assert ("3 folds, refitted in B" in ax.get_title()) == (model is TwoStepRidge)
    scatter = HoldoutDisplay.from_estimator(fitted, "B", kind="scatter", ax=ax)
    assert scatter.scatters_[0].get_offsets().shape == (np.count_nonzero(~np.isnan(Y)), 2)


def test_bad_input_of_curves_is_said_in_a_sentence(ax, each):
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


# --- landscapes: a map holds their scores, and its star stands where the model does --------------

GRID = [0.01, 1.0, 100.0]
TASK_GRID = [0.1, 10.0, 1.0, 1000.0]
at_an_edge = pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")


def star(display):
    return [10.0 ** float(np.ravel(values)[0]) for values in display.best_.get_data()]


@at_an_edge
@pytest.mark.parametrize("letter", "ABCD")
def test_the_star_is_the_model(real, ax, letter):
    X, Y, T = real
    search = TwoStepRidgeCV(GRID, TASK_GRID, setting=letter).fit(X, Y, T)
    display = LandscapeDisplay.from_estimator(search, ax=ax)
    assert_allclose(star(display), [search.task_alpha_, search.alpha_])
    assert_array_equal(display.scores, search.landscape_)
    assert display.best_score == search.best_score_
    assert f"{letter}: " in ax.get_title()
    assert "neg_mean_squared_error" in ax.get_title()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("task_alpha", "alpha")


def test_the_map_is_of_the_loss_over_powers_of_ten_in_ascending_order(ax):
    scores = np.array([[0.5, 0.7, 0.6], [0.9, 0.8, np.nan]])
    display = LandscapeDisplay.from_landscape(scores, [10, 1], [0.1, 100, 1], ax=ax)
    corners = display.map_.get_coordinates()
    assert_allclose(corners[0, :, 0], [-1.5, -0.5, 1, 3])
    assert_allclose(corners[:, 0, 1], [-0.5, 0.5, 1.5])
    assert_allclose(display.map_.get_array().filled(-1), [[0, -1, 0.1], [0.4, 0.3, 0.2]])
    levels = display.map_.norm.boundaries
    assert levels[0] == 0
    assert levels[-1] >= 0.4
    assert_allclose(star(display), [0.1, 1.0])
    assert (display.alpha, display.task_alpha, display.best_score) == (1.0, 0.1, 0.9)


@at_an_edge
@pytest.mark.parametrize("model", [KroneckerRidgeCV, IndependentTaskRidgeCV])
def test_one_regularisation_is_a_line(real, ax, model):
    X, Y, T = real
    search = model([100.0, 0.01, 1.0], setting="B").fit(X, Y, T)
    display = LandscapeDisplay.from_estimator(search, ax=ax)
    (line,) = display.lines_
    assert display.map_ is None
    assert display.colorbar_ is None
    assert_allclose(line.get_xdata(), [-2, 0, 2])
    assert_array_equal(line.get_ydata(), search.landscape_[[1, 2, 0]])
    assert_allclose(star(display)[0], search.alpha_)
    assert_array_equal(display.best_.get_ydata(), [search.best_score_])
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("alpha", "neg_mean_squared_error")


def test_zero_is_left_out_and_said(ridge, ax):
    scores = landscape(
        ridge,
        alphas=[0, 1, 10],
        task_alphas=[0.1, 1],
        setting="D",
        progress=False,
    )["D"]
    display = LandscapeDisplay.from_landscape(scores, [0, 1, 10], [0.1, 1], ax=ax)
    assert "(alpha 0 not drawn)" in ax.get_title()
    assert_allclose(ax.get_ylim(), [-0.5, 1.5])
    assert_array_equal(display.scores, scores)


def test_bad_input_of_maps_is_said_in_a_sentence(ax, each):
    shapes = r"shape \(2, 3\) for these alphas and task_alphas, found shape \(3, 2\)"
    cases = [
        (({"A": [1], "D": [2]},), TypeError, "one setting, found a dict: take one of its .*, A, D"),
        ((np.ones((3, 2)), [1, 2], [1, 2, 3]), ValueError, shapes),
        (([np.nan, np.nan], [1, 2]), ValueError, "all NaN"),
        (([1.0, 2.0], [0, 1]), ValueError, "at least two regularisations above 0"),
    ]
    for given, error, message in each(cases):
        names = ("scores", "alphas", "task_alphas", "setting")
        with pytest.raises(error, match=message):
            LandscapeDisplay.from_landscape(**dict(zip(names, given, strict=False)), ax=ax)


# --- what pictures call the sides ----------------------------------------------------------------

SIDES = ("host", "parasite")


def text_of(display):
    """Return every word of a picture."""
    display.figure_.canvas.draw()
    found = []
    for ax in display.figure_.axes:
        legend = ax.get_legend()
        found += [ax.get_title(), ax.get_xlabel(), ax.get_ylabel()]
        found += [] if legend is None else [each.get_text() for each in legend.get_texts()]
    return "\n".join(found)


PICTURES = {
    "holdout": lambda two, real, more: HoldoutDisplay.from_estimator(
        fit(TwoStepRidge(), two), **more
    ),
    "points": lambda two, real, more: HoldoutDisplay.from_estimator(
        fit(TwoStepRidge(), real), "C", **more
    ),
    "predictions": lambda two, real, more: HoldoutDisplay.from_predictions(
        np.eye(3), np.eye(3) + 0.5, setting="B", **more
    ),
    "search": lambda two, real, more: LandscapeDisplay.from_estimator(
        fit(TwoStepRidgeCV([0.1, 1, 10, 100, 1000]), two), **more
    ),
    "scores": lambda two, real, more: LandscapeDisplay.from_landscape(
        [0.5, 0.6, 0.4], [1, 10, 100], setting="C", **more
    ),
}


def fit(model, data):
    X, Y, T = data
    return model.fit(X, Y, T)


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
@pytest.mark.parametrize("what", PICTURES)
def test_sides_are_called_what_they_are(what, binary, real):
    def words_of(**more):
        return text_of(PICTURES[what](binary, real, {"ax": Figure().subplots(), **more}))

    words = words_of(sides=SIDES)
    assert "host" in words or "parasite" in words
    # The names of parameters stay.
    assert not {"instance", "instances", "task", "tasks"} & set(
        words.replace(":", " ").replace(",", " ").split()
    )
    plain = words_of()
    assert words != plain
    assert words.replace("host", "instance").replace("parasite", "task") == plain


def test_a_network_and_bad_names():
    X = np.random.default_rng(0).normal(size=(10, 3))
    model = TwoStepRidge(symmetry="symmetric").fit(X, (X @ X.T > 0).astype(float))
    assert "mean per gene" in text_of(
        HoldoutDisplay.from_estimator(model, "B", sides=("gene", "gene"), ax=Figure().subplots())
    )
    with pytest.raises(ValueError, match="plain letters"):
        HoldoutDisplay.from_estimator(model, sides=("$x$", "b"))
    with pytest.raises(ValueError, match="different"):
        LandscapeDisplay.from_landscape([0.5, 0.6], [1, 10], sides=("a", "a"))

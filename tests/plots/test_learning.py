"""Learning curves: means and spreads of what was recorded, and of refits on parts of the grid."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    IndependentTaskRidge,
    IndependentTaskRidgeCV,
    KroneckerRidge,
    KroneckerRidgeCV,
    OnlineTwoStepRidge,
    TwoStepRidge,
    TwoStepRidgeCV,
    evaluate,
)
from dyadlearn.filters import IteratedTikhonov
from dyadlearn.metrics import scorer
from dyadlearn.plots import LearningCurveDisplay

FULL = {"sizes": [1.0], "n_repeats": 2}


def test_means_and_spreads(ax):
    scores = {"first": np.array([[1.0, 2.0, 4.0], [3.0, np.nan, 8.0]]), "second": [0.5, 0.6, 0.7]}
    display = LearningCurveDisplay.from_scores(
        [10, 30, 20], scores, size_name="documents", score_name="roc_auc", title="B", ax=ax
    )
    assert_allclose(display.lines_["first"].get_xydata(), [[10, 2], [20, 6], [30, 2]])
    assert_allclose(display.lines_["second"].get_ydata(), [0.5, 0.7, 0.6])
    band = display.bands_["first"].get_paths()[0].vertices
    assert {tuple(point) for point in band} >= {(10, 1), (10, 3), (20, 4), (20, 8), (30, 2)}
    assert list(display.bands_) == ["first"]
    assert (ax.get_xlabel(), ax.get_ylabel(), ax.get_title()) == ("Number of documents", "roc_auc", "B")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "second"]


def test_sizes_without_any_score_are_left_out(ax):
    display = LearningCurveDisplay.from_scores([1, 2, 3], [[np.nan, 2.0, 3.0], [np.nan, 4.0, np.nan]], ax=ax)
    assert_allclose(display.lines_["score"].get_xydata(), [[2, 3], [3, 3]])


def test_what_an_online_model_has_recorded(real, ax):
    X, Y, T = real
    model, sizes, scores = OnlineTwoStepRidge(), [], []
    model.fit(X[:6], Y[:6], tasks=T)
    for start in range(6, 24, 6):
        rows = slice(start, start + 6)
        scores.append(model.score(X[rows], Y[rows]))
        sizes.append(model.partial_fit(X[rows], Y[rows]).n_seen_)
    display = LearningCurveDisplay.from_scores(sizes, {"online": scores}, ax=ax)
    assert_array_equal(display.lines_["online"].get_xdata(), [12, 18, 24])


@pytest.mark.parametrize("letter", "ABCD")
@pytest.mark.parametrize(
    "model",
    [
        TwoStepRidge(0.5, 2.0),
        TwoStepRidge(0.5, 0.1, kernel="rbf", task_kernel="rbf", task_filter=IteratedTikhonov(2)),
        KroneckerRidge(3.0),
        KroneckerRidge(0.1, kernel="rbf", task_kernel="rbf"),
    ],
    ids=["two-step", "two-step rbf", "kronecker", "kronecker rbf"],
)
def test_at_the_full_size_it_is_the_score_of_the_model(real, ax, model, letter):
    X, Y, T = real
    model.fit(X, Y, tasks=T)
    display = LearningCurveDisplay.from_estimator(model, letter, **FULL, ax=ax)
    (scores,) = display.scores.values()
    assert_allclose(scores[0, 0], evaluate(model, letter)["neg_mean_squared_error"][0])
    assert np.isnan(scores[1, 0])  # there is but one part of the full size
    assert_array_equal(display.sizes, {"B": [24], "C": [16]}.get(letter, [24 * 16]))
    assert display.size_name == {"B": "instances", "C": "tasks"}.get(letter, "labels")


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_a_search_is_judged_by_what_it_was_chosen_by(real, ax):
    X, Y, T = real
    search = KroneckerRidgeCV([0.1, 1.0, 10.0], setting="D", scoring="concordance_index").fit(X, Y, tasks=T)
    display = LearningCurveDisplay.from_estimator(search, "D", **FULL, ax=ax)
    assert display.score_name == "concordance_index"
    assert_allclose(display.scores["KroneckerRidgeCV"][0, 0], search.best_score_)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("letter", "ABD")
def test_networks_and_independent_tasks(real, ax, sign, letter):
    X, Y, _ = real
    square = Y @ np.random.default_rng(0).normal(size=(16, 24))
    network = TwoStepRidge(symmetry="symmetric" if sign > 0 else "antisymmetric").fit(X, square + sign * square.T)
    display = LearningCurveDisplay.from_estimator(network, letter, sizes=[0.5, 1.0], n_repeats=2, ax=ax)
    assert_allclose(display.scores["TwoStepRidge"][0, -1], evaluate(network, letter)["neg_mean_squared_error"][0])
    assert np.isfinite(display.scores["TwoStepRidge"][:, 0]).all()
    if letter != "D":
        one = IndependentTaskRidge(2.0).fit(X, Y)
        display = LearningCurveDisplay.from_estimator(one, letter, **FULL, ax=ax)
        assert_allclose(
            display.scores["IndependentTaskRidge"][0, 0], evaluate(one, letter)["neg_mean_squared_error"][0]
        )


@pytest.mark.parametrize(("letter", "shape"), [("B", (12, 16)), ("C", (24, 8)), ("A", (17, 11)), ("D", (17, 11))])
def test_half_of_the_labels(real, ax, letter, shape):
    X, Y, T = real
    seen = []

    def note(part, _):
        seen.append(part.shape)
        return float(part.sum())

    model = TwoStepRidge().fit(X, Y, tasks=T)
    display = LearningCurveDisplay.from_estimator(
        model, letter, sizes=[0.5], scoring=note, n_repeats=3, random_state=0, name="mine", ax=ax
    )
    assert seen == [shape] * 3
    assert len(np.unique(display.scores["mine"])) == 3  # different parts
    assert display.sizes[0] == {"B": 12, "C": 8}.get(letter, 17 * 11)
    again = LearningCurveDisplay.from_estimator(
        model, letter, sizes=[0.5], scoring=note, n_repeats=3, random_state=0, ax=ax
    )
    assert_array_equal(again.scores["TwoStepRidge"], display.scores["mine"])


def test_a_part_is_scored_like_a_model_of_it(real, ax):
    X, Y, T = real
    parts = []

    def note(part, F):
        parts.append((part, F))
        return 0.0

    model = TwoStepRidge(0.3, 0.7, kernel="rbf", kernel_params={"gamma": 0.2}).fit(X, Y, tasks=T)
    LearningCurveDisplay.from_estimator(model, "B", sizes=[0.4], scoring=note, n_repeats=1, ax=ax)
    ((part, F),) = parts
    rows = [int(np.flatnonzero((labels == Y).all(axis=1))[0]) for labels in part]
    expected = TwoStepRidge(0.3, 0.7, kernel="rbf", kernel_params={"gamma": 0.2}).fit(X[rows], part, tasks=T)
    assert_allclose(F, expected.holdout("B"))


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_searching_models_keep_their_choice(real, ax):
    X, Y, T = real
    search = TwoStepRidgeCV([0.1, 1, 10], [0.1, 1, 10], setting="D", scoring="r2").fit(X, Y, tasks=T)
    display = LearningCurveDisplay.from_estimator(search, "D", scoring="r2", **FULL, ax=ax)
    assert_allclose(display.scores["TwoStepRidgeCV"][0, 0], search.best_score_)
    each = IndependentTaskRidgeCV([0.1, 1, 10], alpha_per_task=True).fit(X, Y)
    with pytest.raises(ValueError, match="a regularisation for each task has no learning curve"):
        LearningCurveDisplay.from_estimator(each, ax=ax)


@pytest.mark.parametrize("letter", "ABD")
def test_incomplete_and_weighted_labels(real, ax, letter):
    pd = pytest.importorskip("pandas")
    X, Y, T = real
    rng = np.random.default_rng(0)
    Y = np.where(rng.random(Y.shape) < 0.2, np.nan, Y)
    weights = rng.uniform(0.5, 2, size=Y.shape)
    X, T = pd.DataFrame(X).rename("i{}".format), pd.DataFrame(T).rename("t{}".format)
    model = TwoStepRidge(kernel="rbf", task_kernel="rbf")
    model.fit(X, pd.DataFrame(Y, X.index, T.index), tasks=T, sample_weight=weights)
    display = LearningCurveDisplay.from_estimator(model, letter, sizes=[0.5, 1.0], n_repeats=1, ax=ax)
    assert_allclose(
        display.scores["TwoStepRidge"][0, 1], evaluate(model, letter)["neg_mean_squared_error"][0], rtol=1e-6
    )
    if letter != "B":
        assert display.sizes[1] == np.count_nonzero(~np.isnan(Y))


def test_parts_without_a_score_do_not_count(ax):
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), np.zeros((40, 2))
    Y[:3, 0] = 1
    model = IndependentTaskRidge().fit(X, Y)
    display = LearningCurveDisplay.from_estimator(
        model, "A", sizes=[0.15, 1.0], scoring="roc_auc", n_repeats=20, random_state=0, ax=ax
    )
    scores = display.scores["IndependentTaskRidge"]
    assert 0 < np.isnan(scores[:, 0]).sum() < 20
    assert_allclose(scores[0, 1], scorer("roc_auc")(Y, model.holdout("A")))
    assert np.isfinite(display.lines_["IndependentTaskRidge"].get_ydata()).all()


def test_bad_input_is_said_in_a_sentence(real, ax):
    X, Y, T = real
    model = TwoStepRidge().fit(X, Y, tasks=T)
    with pytest.raises(ValueError, match=r"sizes are shares of the labels, above 0 and at most 1, found \[0.5, 20.0\]"):
        LearningCurveDisplay.from_estimator(model, sizes=[0.5, 20], ax=ax)
    with pytest.raises(ValueError, match="n_repeats must be at least 1, found 0"):
        LearningCurveDisplay.from_estimator(model, n_repeats=0, ax=ax)
    with pytest.raises(ValueError, match="needs labels of exactly two values"):
        LearningCurveDisplay.from_estimator(model, scoring="roc_auc", ax=ax)
    with pytest.raises(ValueError, match="Setting C leaves out tasks"):
        LearningCurveDisplay.from_estimator(TwoStepRidge().fit(X, Y), "C", ax=ax)
    with pytest.raises(ValueError, match=r"scores of 'a' must have shape \(n_repeats, 2\).*found \(3,\)"):
        LearningCurveDisplay.from_scores([1, 2], {"a": [1, 2, 3]}, ax=ax)
    with pytest.raises(ValueError, match="empty dict"):
        LearningCurveDisplay.from_scores([1, 2], {}, ax=ax)
    with pytest.raises(ValueError, match="sizes must be a list of finite numbers"):
        LearningCurveDisplay.from_scores([[1, 2]], {"a": [1, 2]}, ax=ax)

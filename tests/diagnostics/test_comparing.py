"""Which model is better: against loops over resamples with the metrics of scikit-learn."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError

import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    compare,
    nested_score,
)
from dyadlearn.exceptions import IdError
from problems import to_long
from sweeps import covering, lines, over


def make(m=14, q=10, labels="real", seed=0):
    X, Y, T = problems.data(m, q, seed=seed)
    return X, (Y > 0).astype(float) if labels == "binary" else Y, T


def three(X, Y, T, **params):
    return {
        "two-step": TwoStepRidge(0.5, 0.5, **params).fit(X, Y, T),
        # Without an intercept, more regularisation ranks as the stiff model does.
        "Kronecker": KroneckerRidge(
            20.0 if params.get("fit_intercept", True) else 0.2, **params
        ).fit(X, Y, T),
        "stiff": TwoStepRidge(500.0, 500.0, **params).fit(X, Y, T),
    }


def slow_score(Y, F, metric, average):
    """Score a grid as its average is defined; None where it is undefined."""
    parts = {
        "pooled": [(Y, F)],
        "instance": zip(Y, F, strict=True),
        "task": zip(Y.T, F.T, strict=True),
    }[average]
    scores = []
    for labels, predictions in parts:
        observed = ~np.isnan(labels)
        labels = labels[observed]
        predictions = predictions[observed]
        if metric == "roc_auc":
            if len(set(labels)) == 2:
                apart = np.subtract.outer(
                    predictions[labels == labels.max()], predictions[labels == labels.min()]
                )
                scores.append(np.mean(apart > 0) + 0.5 * np.mean(apart == 0))
        elif labels.size:
            scores.append(-np.mean((labels - predictions) ** 2))
    return np.mean(scores) if scores else None


def slow_comparison(Y, predictions, metric, average, n_resamples, level, seed, network=False):
    """Draw, score and compare one pair after the other."""
    random = np.random.RandomState(seed)
    draws = []
    for _ in range(n_resamples):
        rows = random.randint(len(Y), size=len(Y))
        columns = rows if network else random.randint(Y.shape[1], size=Y.shape[1])
        drawn = Y[rows][:, columns].copy()
        if network:
            for a, b in np.ndindex(drawn.shape):
                if a != b and rows[a] == columns[b]:
                    drawn[a, b] = np.nan
        scores = {
            name: slow_score(drawn, F[rows][:, columns], metric, average)
            for name, F in predictions.items()
        }
        if None not in scores.values():
            draws.append(scores)
    own = {name: slow_score(Y, F, metric, average) for name, F in predictions.items()}
    ranked = sorted(own, key=own.get, reverse=True)
    pairs = list(combinations(ranked, 2))
    differences = {(a, b): own[a] - own[b] for a, b in pairs}
    spread = {(a, b): np.std([draw[a] - draw[b] for draw in draws], ddof=1) for a, b in pairs}
    largest = [
        max(abs(draw[a] - draw[b] - differences[a, b]) / spread[a, b] for a, b in pairs)
        for draw in draws
    ]
    width = np.quantile(largest, level)
    found = {}
    for pair in pairs:
        d = differences[pair]
        s = spread[pair]
        p = (1 + sum(each >= d / s for each in largest)) / (1 + len(draws))
        found[pair] = (d, d - width * s, d + width * s, p)
    winners = [[name for name in ranked if draw[name] == max(draw.values())] for draw in draws]
    shares = {name: np.mean([(name in best) / len(best) for best in winners]) for name in ranked}
    return own, ranked, found, shares, len(draws)


@over(
    covering(
        setting=["A", "B", "C", "D"],
        labels=["real", "binary"],
        shape={"tall": (12, 7), "wide": (6, 10)},
        level=[0.95, 0.6],
        strength=1,
    )
)
def test_differences_equal_a_loop(setting, labels, shape, level):
    X, Y, T = make(*shape, labels=labels)
    # With an intercept, rankings in A and D are compared within folds.
    models = three(X, Y, T, fit_intercept=labels == "real")
    found = compare(models, setting, n_resamples=10, coverage=level, random_state=5)
    metric = "roc_auc" if labels == "binary" else "neg_mean_squared_error"
    average = {"B": "instance", "C": "task"}.get(setting, "pooled")
    predictions = {name: model.holdout(setting) for name, model in models.items()}
    own, ranked, pairs, shares, n_draws = slow_comparison(
        Y, predictions, metric, average, 10, level, 5
    )
    assert (found.setting, found.scoring, found.coverage, found.best) == (
        setting,
        metric,
        level,
        ranked[0],
    )
    assert list(found.scores) == ranked == list(found.best_fractions)
    assert_allclose(list(found.scores.values()), [own[name] for name in ranked], rtol=1e-10)
    assert [(each.better, each.other) for each in found.differences] == list(pairs)
    lines = [(each.difference, each.low, each.high, each.p_value) for each in found.differences]
    assert_allclose(lines, list(pairs.values()), rtol=1e-8, atol=1e-12)
    assert_allclose(
        list(found.best_fractions.values()), [shares[name] for name in ranked], atol=1e-12
    )
    assert (found.n_resamples, found.n_undefined, found.n_cells) == (n_draws, 10 - n_draws, Y.size)
    assert found.to_best == found.differences[:2]


@over(lines("setting missing", ("D", False), ("A", True)))
def test_nodes_of_a_network_are_drawn_once_for_both_sides(setting, missing):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(9, 3))
    Y = X @ X.T + rng.normal(size=(9, 9))
    Y = Y + Y.T
    if missing:
        np.fill_diagonal(Y, np.nan)
    models = {
        name: TwoStepRidge(alpha, alpha, symmetry="symmetric").fit(X, Y)
        for name, alpha in (("a", 0.5), ("b", 5.0))
    }
    found = compare(models, setting, n_resamples=15)
    predictions = {name: model.holdout(setting) for name, model in models.items()}
    _, _, pairs, _, _ = slow_comparison(
        Y, predictions, "neg_mean_squared_error", "pooled", 15, 0.95, 0, network=True
    )
    [line] = found.differences
    assert_allclose(
        (line.difference, line.low, line.high, line.p_value), next(iter(pairs.values())), rtol=1e-8
    )
    assert found.resampled == "nodes"


def test_the_same_predictions_are_not_told_apart():
    X, Y, T = make()
    model = TwoStepRidge().fit(X, Y, T)
    found = compare(
        {"a": model, "b": model, "worse": TwoStepRidge(1e4, 1e4).fit(X, Y, T)},
        "B",
        n_resamples=99,
    )
    same = found.differences[0]
    assert (same.better, same.other, same.difference, same.low, same.high, same.p_value) == (
        "a",
        "b",
        0,
        0,
        0,
        1,
    )
    assert not same.is_significant
    assert found.best_fractions["a"] == found.best_fractions["b"]
    assert (
        "No significant difference between a and b: neg_mean_squared_error +0, 95 % interval 0 to "
        "0." in str(found)
    )
    assert found.differences[1].is_significant
    assert "a is better than worse: neg_mean_squared_error +" in found.verdict


def test_labels_are_matched_by_their_ids():
    X, Y, T = make(7, 5)
    rows = list("abcdefg")
    columns = list("PQRST")
    frames = [
        pd.DataFrame(X, index=rows),
        pd.DataFrame(Y, index=rows, columns=columns),
        pd.DataFrame(T, index=columns),
    ]
    plain = compare(three(X, Y, T), "B", n_resamples=20)
    models = three(*frames)
    turned = frames[1].iloc[::-1, [3, 1, 4, 0, 2]]
    models["Kronecker"] = KroneckerRidge(20.0).fit(frames[0].iloc[::-1], turned, frames[2])
    pairs, values = to_long(Y[::-1], instances=rows[::-1], tasks=columns)
    models["stiff"] = PairRegressor(
        TwoStepRidge(500.0, 500.0), instances=frames[0], tasks=frames[2]
    ).fit(pairs, values)
    found = compare(models, "B", n_resamples=20)
    assert_allclose(list(found.scores.values()), list(plain.scores.values()), rtol=1e-9)
    assert_allclose(
        [each.low for each in found.differences],
        [each.low for each in plain.differences],
    )


def test_what_is_left_out_together_is_told():
    X, Y, T = make()
    holes = np.where(np.add.outer(np.arange(14), np.arange(10)) % 5 == 0, np.nan, Y)
    own = IndependentTaskRidge().fit(X, holes)
    found = compare({"own": own, "both": TwoStepRidge().fit(X, holes, T)}, "B", n_resamples=10)
    assert found.n_cells == np.count_nonzero(~np.isnan(holes))
    # A formula and refits leave out the same labels.
    assert found.methods == {"own": "exact leave-one-out", "both": "leave-one-out, refitted"}
    assert found.notes == ()
    search = TwoStepRidgeCV([1.0], [1.0], setting="B", cv=5).fit(X, holes, T)
    found = compare({"own": own, "both": search}, "B", n_resamples=10)
    said = "in different ways (own by exact leave-one-out; both by 5 folds, refitted)"
    assert said in found.notes[0]
    groups = np.arange(14) // 3
    searches = {name: TwoStepRidgeCV([1.0], [1.0], setting="B") for name in "ab"}
    searches["a"].fit(X, Y, T)
    searches["b"].fit(X, Y, T, groups=groups)
    found = compare(searches, "B", n_resamples=10)
    assert "held out in different" in found.notes[0]
    assert "a, b chose the regularisation with the labels that are scored here" in found.notes[1]


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.NoLabelWarning")
def test_only_what_all_predict_is_scored():
    X, Y, T = make()
    Y[1:, 3] = np.nan
    models = {"own": IndependentTaskRidge().fit(X, Y), "both": TwoStepRidge().fit(X, Y, T)}
    found = compare(models, "B", n_resamples=10)
    assert found.n_cells == 9 * 14
    assert any(
        "1 of 127 labels are not predicted by all models, and not scored." in note
        for note in found.notes
    )


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_nested_scores_stand_for_their_search():
    X, Y, T = make()
    search = TwoStepRidgeCV([0.1, 1.0, 10.0], [0.1, 1.0, 10.0], setting="B")
    nested = nested_score(search, X, Y, T, cv=3, random_state=0)
    model = KroneckerRidge(20.0).fit(X, Y, T)
    found = compare({"nested": nested, "fixed": model}, "B", n_resamples=10)
    assert_allclose(found.scores["nested"], nested.score)
    tuned = compare({"search": search.fit(X, Y, T), "fixed": model}, "B", n_resamples=10)
    assert any(note.endswith("compare the nested_score instead.") for note in tuned.notes)
    assert found.methods["nested"] == "nested folds"
    with pytest.raises(ValueError, match="'nested' has nested scores of setting B, not of D"):
        compare({"nested": nested, "fixed": model}, "D")
    with pytest.raises(ValueError, match="keep no labels"):
        compare({"nested": nested, "again": nested}, "B")


def test_how_it_reads():
    X, Y, T = make()
    found = compare(three(X, Y, T), "B", n_resamples=20, sides=("host", "parasite"))
    assert found.resampled == "hosts and parasites"
    assert repr(found).startswith(
        f"Comparison(neg_mean_squared_error in setting B: {found.best!r} -"
    )
    columns = found.columns()
    assert list(columns) == [
        "model",
        "neg_mean_squared_error",
        "difference",
        "low",
        "high",
        "p_value",
        "best_fraction",
    ]
    assert columns["difference"] == [None, *(each.difference for each in found.to_best)]


def test_scoring_is_that_of_all_or_what_suits():
    X, Y, T = make(labels="binary")
    searches = {
        name: TwoStepRidgeCV([alpha], [1.0], setting="B", scoring="average_precision").fit(X, Y, T)
        for name, alpha in (("a", 1.0), ("b", 10.0))
    }
    assert compare(searches, "B", n_resamples=10).scoring == "average_precision"
    searches["b"] = TwoStepRidge().fit(X, Y, T)
    assert compare(searches, "B", n_resamples=10).scoring == "roc_auc"
    assert compare(searches, "B", n_resamples=10, scoring="r2").scoring == "r2"


def refused():
    X, Y, T = make(6, 5)
    model = TwoStepRidge().fit(X, Y, T)
    other = Y.copy()
    hidden = Y.copy()
    other[2, 3] = 9.0
    hidden[2, 3] = np.nan
    network = TwoStepRidge(symmetry="symmetric").fit(X, X @ X.T)
    grid = TwoStepRidge().fit(X, X @ X.T, X)
    yield {"a": model}, {}, ValueError, "at least two to be compared, found only 'a'"
    yield (
        [model, model],
        {},
        TypeError,
        "models must be a dict of names to fitted models, found list",
    )
    yield {1: model, 2: model}, {}, TypeError, "names that are text, found 1"
    yield (
        {"a": model, "b": model},
        {"coverage": 1.5},
        ValueError,
        "coverage must be a number between 0 and 1",
    )
    yield (
        {"a": model, "b": model},
        {"n_resamples": 3},
        ValueError,
        "n_resamples must be a whole number of at least 10",
    )
    online = OnlineTwoStepRidge().fit(X, Y, T)
    yield (
        {"a": model, "b": online},
        {},
        ValueError,
        "'b' cannot be compared: OnlineTwoStepRidge keeps statistics only",
    )
    yield {"a": model, "b": TwoStepRidge()}, {}, NotFittedError, "'b' cannot be compared"
    alone = IndependentTaskRidge().fit(X, Y)
    yield (
        {"a": model, "b": alone},
        {"setting": "D"},
        ValueError,
        "'b' cannot be compared: Setting D leaves out tasks",
    )
    fewer = TwoStepRidge().fit(X[:5], Y[:5], T)
    yield {"a": model, "b": fewer}, {}, ValueError, "'a' was fitted on 6 instances and 'b' on 5"
    said = "'a' and 'b' were fitted on different labels: 1 of 30 differ, such as host 2, parasite 3 \\(.* and 9\\)"
    sides = {"sides": ("host", "parasite")}
    yield {"a": model, "b": TwoStepRidge().fit(X, other, T)}, sides, ValueError, said
    yield {"a": model, "b": TwoStepRidge().fit(X, hidden, T)}, {}, ValueError, "and none\\)"
    yield (
        {"a": network, "b": grid},
        {},
        ValueError,
        "'a' leaves out an edge in both directions and 'b' does not",
    )


def test_what_cannot_be_compared():
    for models, options, error, said in refused():
        with pytest.raises(error, match=said):
            compare(models, **{"setting": "B", **options})


def test_other_ids_are_named():
    X, Y, T = make(4, 3)
    frames = [pd.DataFrame(Y, index=list(rows), columns=list("PQR")) for rows in ("abcd", "abcx")]
    models = {
        name: TwoStepRidge().fit(X, frame, T) for name, frame in zip("mn", frames, strict=True)
    }
    with pytest.raises(
        IdError, match="the instances of 'n' and those of 'm' do not match: .*'d'.*'x'"
    ):
        compare(models, "B")

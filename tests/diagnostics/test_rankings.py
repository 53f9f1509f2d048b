"""Recommendations with limits, bounds and probabilities, and of observed pairs, against slow and obvious twins."""

from functools import cache

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRidge,
    calibrate,
    recommend,
    top_pairs,
)
from dyadlearn.settings import Setting
from problems import data
from sweeps import covering, lines, over


def binary(m=14, q=9, seed=0, missing=0.0):
    X, Y, T = data(m, q, seed=seed)
    Y = (Y > 0.3).astype(float)
    rng = default_rng(seed)
    Y[rng.random(Y.shape) < missing] = np.nan
    return X, Y, T


@cache
def long_table(m, q, n_rows, n_columns, two_values):
    """Return a regressor of pairs, its frames, its pairs and their grid; other rows of the frames are new."""
    X, Y, T = binary(m, q) if two_values else data(m, q)
    X = pd.DataFrame(X, index=[f"x{i}" for i in range(m)])
    T = pd.DataFrame(T, index=[f"t{j}" for j in range(q)])
    cells = [(i, j) for i in range(n_rows) for j in range(n_columns) if (i + j) % 3]
    pairs = [(X.index[i], T.index[j]) for i, j in cells]
    model = PairRegressor(KroneckerRidge(0.7), instances=X, tasks=T)
    return model.fit(pairs, [Y[cell] for cell in cells]), X, T, pairs, Y


def slow_choice(ranks, n, ends, most):
    """Go through all candidates of all rows, best first."""
    cells = [(i, j) for i, j in np.ndindex(ranks.shape) if not np.isnan(ranks[i, j])]
    cells.sort(key=lambda cell: (-ranks[cell], cell))
    counts = dict.fromkeys(range(len(most)), 0)
    lists = [[] for _ in ranks]
    for i, j in cells:
        if len(lists[i]) == n:
            continue
        nodes = set(ends(i, j))
        if any(counts[node] == most[node] for node in nodes):
            continue
        for node in nodes:
            counts[node] += 1
        lists[i].append(j)
    return lists


# --- limits --------------------------------------------------------------------------------------


MODELS = {
    "two-step": TwoStepRidge(0.3, 2.0),
    "kronecker": KroneckerRidge(0.7),
    "pairs": PairKernelRidge(0.7, per_task=0.3, per_instance=0.3),
}


@over(
    covering(
        model=MODELS,
        limits=[(1, None), (None, 1), (2, 3), (1, 1)],
        n=[3, 20, 500],
        missing=[0.0, 0.4],
        by=["score", "upper"],
        strength=1,
    )
)
def test_top_pairs_of_few_entities(model, limits, n, missing, by):
    X, Y, T = binary(missing=missing)
    model = model.fit(X, Y, T)
    per_instance, per_task = limits
    options = {"per_instance": per_instance, "per_task": per_task, "zeros": True, "by": by}
    found = top_pairs(model, n=n, **options)
    everything = top_pairs(model, n=Y.size, zeros=True, by=by)
    ranks = np.full(Y.shape, np.nan)
    cells = everything.instances, everything.tasks
    ranks[cells] = everything.scores if by == "score" else everything.upper
    m, q = Y.shape
    most = [per_instance or Y.size] * m + [per_task or Y.size] * q
    [expected] = slow_choice(
        ranks.reshape(1, -1), n, lambda _, cell: (cell // q, m + cell % q), most
    )
    assert list(zip(found.instances, found.tasks, strict=True)) == [
        divmod(cell, q) for cell in expected
    ]
    assert np.bincount(found.tasks).max() <= (per_task or m)
    assert np.bincount(found.instances).max() <= (per_instance or q)


@over(
    lines(
        "symmetry most by",
        ("symmetric", 1, "score"),
        ("symmetric", 2, "lower"),
        ("antisymmetric", 1, "upper"),
        ("antisymmetric", 2, "score"),
    )
)
def test_nodes_of_a_network_have_one_limit(symmetry, most, by):
    X, Y, _ = data(11, 11)
    sign = 1 if symmetry == "symmetric" else -1
    Y = Y + sign * Y.T
    hidden = np.triu(default_rng(3).random(Y.shape) < 0.5, 1)
    Y[hidden | hidden.T] = np.nan
    model = TwoStepRidge(0.5, 0.5, symmetry=symmetry).fit(X, Y)
    options = {"zeros": False, "by": by, "coverage": 0.8}
    everything = top_pairs(model, n=Y.size, **options)
    found = top_pairs(model, n=9, per_instance=most, **options)
    counts = np.zeros(11, dtype=int)
    expected = []
    for i, j in zip(everything.instances, everything.tasks, strict=True):
        if len(expected) < 9 and counts[i] < most and counts[j] < most:
            expected.append((i, j))
            counts[[i, j]] += 1
    assert list(zip(found.instances, found.tasks, strict=True)) == expected
    if by != "score":
        lower, upper = model.predict_interval(coverage=0.8)
        assert_allclose(found.upper, [upper[pair] for pair in expected])
        assert_allclose(found.lower, [lower[pair] for pair in expected])


@pytest.fixture
def small_blocks(monkeypatch):
    """Let a handful of cells be a block."""
    monkeypatch.setattr("dyadlearn._array.BLOCK", 12)


@over(
    covering(
        model=MODELS, new=["X", "tasks", "both", "known"], n=[1, 3, 30], most=[1, 2], strength=1
    )
)
def test_lists_share_candidates(model, new, n, most, small_blocks):
    X, Y, T = binary(missing=0.4)
    rng = default_rng(5)
    X_new = rng.normal(size=(6, X.shape[1]))
    T_new = rng.normal(size=(5, T.shape[1]))
    model = model.fit(X, Y, T)
    given = {
        "X": {"X": X_new},
        "tasks": {"tasks": T_new},
        "both": {"X": X_new, "tasks": T_new},
        "known": {"instance": list(range(14))},
    }[new]
    limit = "per_instance" if new == "tasks" else "per_task"
    found = recommend(model, **given, n=n, **{limit: most})
    if new == "known":
        F = np.where(np.isnan(Y), model.predict(), np.nan)
    else:
        F = model.predict(given.get("X"), given.get("tasks"))
        F = F.T if new == "tasks" else F
    expected = slow_choice(F, n, lambda i, j: (j, j), [most] * F.shape[1])
    assert found.ids == tuple(map(tuple, expected))
    for row, ids in enumerate(expected):
        assert_allclose(found.scores[row, : len(ids)], F[row, ids])
    # The other limit is one of the length of a list.
    other = "per_task" if new == "tasks" else "per_instance"
    short = recommend(model, **given, n=n, **{other: 2})
    assert max(map(len, short.ids)) == min(n, 2)


# --- bounds --------------------------------------------------------------------------------------


@over(
    covering(model=MODELS, new=["X", "tasks", "both"], by=["lower", "upper"], n=[1, 4], strength=1)
)
def test_new_ones_by_a_bound(model, new, by, n, small_blocks):
    X, Y, T = data(24, 16)
    model = model.fit(X[:20], Y[:20, :12], T[:12])
    given = {
        "X": None if new == "tasks" else X[20:],
        "tasks": None if new == "X" else T[12:],
    }
    bounds = model.predict_interval(given["X"], given["tasks"], coverage=0.8)
    F = model.predict(given["X"], given["tasks"])
    lower, upper, F = (grid.T if new == "tasks" else grid for grid in (*bounds, F))
    ranks = {"lower": lower, "upper": upper}[by].copy()
    known = [(3, 2) if new == "tasks" else (2, 3)]
    ranks[2, 3] = np.nan
    found = recommend(model, **given, n=n, by=by, coverage=0.8, known=known)
    for row, places in enumerate(np.argsort(-np.nan_to_num(ranks, nan=-np.inf), axis=1)[:, :n]):
        assert found.ids[row] == tuple(places)
        for name, grid in (("scores", F), ("lower", lower), ("upper", upper)):
            assert_allclose(getattr(found, name)[row], grid[row, places], err_msg=name)
    assert list(found.columns())[2:] == ["score", "lower", "upper"]


@over(
    covering(
        missing=[0.0, 0.4],
        by=["lower", "upper"],
        observed=[False, True],
        several=[False, True],
        strength=1,
        also=lines("missing by observed several", (0.4, "upper", False, True)),
    )
)
def test_known_ones_by_a_bound(missing, by, observed, several):
    X, Y, T = binary(20, 12, missing=missing)
    model = KroneckerRidge(0.7).fit(X, Y, T)
    lower, upper = model.predict_interval(coverage=0.7)
    ranks = {"lower": lower, "upper": upper}[by]
    wanted = np.ones(Y.shape, bool) if observed else (Y == 0 if missing == 0 else np.isnan(Y))
    ranks = np.where(wanted, ranks, np.nan)
    asked = [3, 0] if several else 3
    found = recommend(model, instance=asked, n=4, by=by, coverage=0.7, observed=observed)
    for row, instance in enumerate([3, 0] if several else [3]):
        order = np.argsort(-np.nan_to_num(ranks[instance], nan=-np.inf), kind="stable")
        expected = [j for j in order if wanted[instance, j]][:4]
        ids = found.ids[row] if several else found.ids
        assert list(ids) == expected
        listed = found.lower[row] if several else found.lower
        assert_allclose(listed[: len(expected)], lower[instance, expected])


def test_long_tables_by_a_bound():
    """Ids of the tables that are not in training have the intervals of new instances."""
    model, _, T, pairs, _ = long_table(24, 10, 20, 10, two_values=False)
    for subject in ("x3", "x22"):
        asked = [(subject, task) for task in T.index if (subject, task) not in pairs]
        _, upper = model.predict_interval(asked, coverage=0.8)
        found = recommend(model, instance=subject, n=3, by="upper", coverage=0.8)
        order = np.argsort(-upper, kind="stable")[:3]
        assert list(found.ids) == [asked[place][1] for place in order]
        assert_allclose(found.upper, upper[order])


# --- probabilities -------------------------------------------------------------------------------


@cache
def calibrated(setting):
    """Return a model with its calibrations, one of them for another base rate."""
    X, Y, T = binary(12, 8)
    model = KroneckerRidge(0.7).fit(X, Y, T)
    return model, calibrate(model, setting), calibrate(model, setting, prevalence=0.1)


@over(
    lines(
        "asked setting",
        ({"instance": 2}, "A"),
        ({"instance": [2, 5], "setting": "B"}, "B"),
        ({"X": np.ones((3, 4))}, "B"),
        ({"tasks": np.ones((2, 3))}, "C"),
        ({}, "C"),
    )
)
def test_probabilities_are_those_of_the_setting(asked, setting):
    model, *calibrations = calibrated(setting)
    for probability, expected in zip((True, calibrations[1]), calibrations, strict=True):
        if asked:
            found = recommend(model, **asked, n=3, probability=probability)
        else:
            found = top_pairs(model, n=6, probability=probability, setting=setting)
        assert found.setting == setting
        assert_array_equal(found.probabilities, expected[setting].mapping(found.scores))
        assert "probability" in found.columns()
    plain = top_pairs(model, n=6)
    assert plain.probabilities is None
    assert "probability" not in plain.columns()


def test_probabilities_of_known_and_new_ids_in_one_call():
    model, *_ = long_table(24, 10, 20, 10, two_values=True)
    calibration = calibrate(model, "AB")
    ids = ["x3", "x22", "x4"]
    found = recommend(model, instance=ids, n=4, probability=calibration)
    for row, subject in enumerate(ids):
        mapping = calibration["B" if subject == "x22" else "A"].mapping
        k = len(found.ids[row])
        assert_array_equal(found.probabilities[row, :k], mapping(found.scores[row, :k]))


# --- observed pairs ------------------------------------------------------------------------------


@over(covering(setting="ABCD", missing=[0.0, 0.4], side=["instance", "task"], strength=1))
def test_observed_pairs_are_ranked_without_their_labels(setting, missing, side):
    X, Y, T = binary(missing=missing)
    model = KroneckerRidge(0.7).fit(X, Y, T)
    F = np.asarray(model.holdout(setting))
    if setting == "A":
        F = np.where(np.isnan(Y), model.predict(), F)
    axis = int(side == "task")
    scores = F[:, 4] if axis else F[4]
    labels = Y[:, 4] if axis else Y[4]
    found = recommend(model, **{side: 4}, n=20, observed=True, setting=setting)
    expected = np.argsort(-scores, kind="stable")
    assert list(found.ids) == expected.tolist()
    assert_allclose(found.scores, scores[expected], rtol=1e-9)
    assert_array_equal(found.labels, labels[expected])
    top = top_pairs(model, n=Y.size, observed=True, setting=setting)
    assert len(top) == Y.size
    assert_allclose(top.scores, np.sort(F.ravel())[::-1], rtol=1e-9)
    assert_array_equal(top.labels, [Y[pair] for pair in zip(top.instances, top.tasks, strict=True)])


def test_observed_pairs_of_a_list():
    model, _, T, pairs, Y = long_table(12, 8, 10, 8, two_values=False)
    F = model.fitted_.labels.spread(model.fitted_.hold_out(Setting.A).predictions)
    row = F[model.instance_ids_.index("x4")]
    found = recommend(model, instance="x4", n=8, observed=True)
    assert len(found) == 8
    for task, score, label in zip(found.ids, found.scores, found.labels, strict=True):
        pair = ("x4", task)
        if pair in pairs:
            expected = [row[model.task_ids_.index(task)], Y[4, T.index.get_loc(task)]]
        else:
            expected = [model.predict([pair])[0], np.nan]
        assert_allclose([score, label], expected)
    with pytest.raises(ValueError, match="Known and new instances are ranked differently"):
        recommend(model, instance=["x4", "x11"], observed=True)


# --- what is refused -----------------------------------------------------------------------------


def test_what_cannot_be_ranked():
    X, Y, T = binary()
    model = KroneckerRidge().fit(X, Y, T)
    pairs = [(0, 1)]
    for asked, words in (
        ({"instance": 1, "observed": True, "zeros": True}, "leave zeros out"),
        ({"instance": 1, "observed": True, "known": pairs}, "leave known out"),
        ({"X": X, "observed": True}, "have no labels to hold out"),
        ({"instance": 1, "by": "bound"}, "by must be one of 'score', 'lower', 'upper'"),
        ({"instance": 1, "by": "upper", "setting": "B"}, "leave setting and cv out"),
        ({"instance": 1, "per_task": 0}, "per_task must be a whole number"),
        ({"X": X, "by": "upper", "coverage": 0.999}, "too few for a coverage of 0.999"),
    ):
        with pytest.raises(ValueError, match=words):
            recommend(model, **asked)
    with pytest.raises(ValueError, match="leave setting and cv out"):
        top_pairs(model, by="lower", setting="C")
    with pytest.raises(ValueError, match="Setting B: .* is not calibrated, only A"):
        recommend(model, X=X, probability=calibrate(model, "A"))
    online = OnlineTwoStepRidge().fit(X, Y, T)
    with pytest.raises(ValueError, match="no prediction intervals: use by='score'"):
        recommend(online, X=X, by="upper")
    numbers = IndependentTaskRidge().fit(X, X)
    with pytest.raises(ValueError, match="Probabilities need labels of two values"):
        recommend(numbers, X=X, probability=True)

"""Where a prediction comes from: contributions in three lists, each of which sums to it."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRidge,
    TwoStepRidgeCV,
    explain,
)
from dyadlearn.diagnostics import explaining
from dyadlearn.exceptions import IdError, NoLabelWarning, NotEnoughMemoryError
from problems import data, stored
from sweeps import covering, lines, over


def slow_list(contributions, k):
    """Sort everything, and sum up what comes after the k-th."""
    order = sorted(contributions, key=lambda name: -abs(contributions[name]))
    return order[:k], sum(contributions[name] for name in order[k:])


@over(lines("missing top dtype", (0.0, 4, "float32"), (0.3, 1000, "float64"), (0.3, 1, "float64")))
def test_three_lists_that_sum_to_the_prediction(missing, top, dtype):
    X, Y, T = (part.astype(dtype) for part in data(9, 6, missing=missing, n_new=1))
    model = TwoStepRidge(0.5, 2.0).fit(X[:9], Y, T[:6])
    digits = 1e-10 if dtype == "float64" else 1e-4
    close = {"rtol": 0, "atol": 10 * digits}
    for asked in product((3, X[9:]), (2, T[6:])):
        found = explain(model, *asked, n=top)
        new = [None if isinstance(each, int) else each for each in asked]
        F = model.predict(*new)[tuple(each if isinstance(each, int) else 0 for each in asked)]
        assert_allclose(found.prediction, F, rtol=digits, atol=digits)
        parts = np.nan_to_num(Y * found.weights).astype(float)
        kinds = {
            "pair": {cell: parts[cell] for cell in zip(*np.nonzero(~np.isnan(Y)), strict=True)},
            "instance": dict(enumerate(parts.sum(axis=1))),
            "task": dict(enumerate(parts.sum(axis=0))),
        }
        for by, contributions in kinds.items():
            listed = found.by(by)
            names, rest = slow_list(contributions, top)
            assert list(listed.ids) == names
            expected = [contributions[name] for name in names]
            assert_allclose(listed.contributions, expected, rtol=digits, atol=digits)
            sums = [listed.rest, listed.contributions.sum() + listed.rest]
            assert_allclose(sums, [rest, F], **close)
            assert len(listed) + listed.n_rest == len(contributions)
            assert_allclose(listed.weights.sum() + listed.rest_weight, found.weights.sum(), **close)
        pair = found.pairs[0]
        assert_allclose(pair.contribution, pair.weight * Y[pair.id], rtol=digits)
        assert pair.label == Y[pair.id]
        means = np.nanmean(Y, axis=1)[list(found.instances.ids)]
        assert_allclose(found.instances.labels, means, rtol=1e-5)


@over(
    covering(
        model=[
            KroneckerRidge(0.5),
            KroneckerRidge(0.5, identity=(0.3, 0.2)),
            PairKernelRidge(0.5, per_task=0.4),
        ],
        dtype=["float64", "float32"],
        weighted=[False, True],
        strength=1,
    )
)
def test_models_of_few_observed_pairs(model, dtype, weighted):
    """Ten pairs in one call, known and new, sum to the predictions and weigh labels as refits do."""
    X, Y, T = (part.astype(dtype) for part in data(9, 7, missing=0.6, n_new=1))
    given = {"sample_weight": np.linspace(0.5, 2.0, 9)} if weighted else {}
    model.fit(X[:9], Y, T[:7], **given)
    F = model.predict()
    digits = 1e-9 if dtype == "float64" else 1e-4
    instances = [0, 1, 2, 3, 4, 5, 6, 7, 8, 0]
    tasks = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2]
    several = explain(model, instances, tasks)
    assert_allclose(
        [each.prediction for each in several], F[instances, tasks], rtol=digits, atol=digits
    )
    new = explain(model, X[9:], 2)
    assert_allclose(new.prediction, model.predict(X[9:])[0, 2], rtol=digits, atol=digits)
    assert_allclose(several[2].weights, explain(model, 2, 2).weights, rtol=digits, atol=digits)
    if dtype == "float64":
        cell = tuple(np.argwhere(~np.isnan(Y))[4])
        moved = Y.copy()
        moved[cell] += 1.0
        again = model.fit(X[:9], moved, T[:7], **given)
        found = [each.weights[cell] for each in several] + [new.weights[cell]]
        grown = [
            *(again.predict() - F)[instances, tasks],
            again.predict(X[9:])[0, 2] - new.prediction,
        ]
        assert_allclose(found, grown, atol=1e-8)


@over(
    lines(
        "instance task setting words",
        (3, 2, "A", "instance 3 and task 2"),
        ([[0.1, 0.2, 0.3, 0.4]], 2, "B", "a new instance and task 2"),
        (3, np.ones((1, 3)), "C", "instance 3 and a new task"),
        (np.ones((1, 4)), [[1.0, 2.0, 3.0]], "D", "a new instance and a new task"),
    )
)
def test_what_is_new(instance, task, setting, words):
    X, Y, T = data(9, 6)
    found = explain(TwoStepRidge().fit(X, Y, T), instance, task)
    assert (found.setting, found.subject) == (setting, words)
    assert_array_equal(found.label, Y[3, 2] if setting == "A" else np.nan)
    assert (found.instance, found.task) == (
        3 if setting in "AC" else None,
        2 if setting in "AB" else None,
    )
    assert repr(found).startswith(
        f"Explanation({found.prediction:.4g} for {words}, largest contribution: pair ("
    )


@over(lines("kind top", ("full", 3), ("missing", 1), ("list", 1000), ("network", 3)))
def test_largest_weights_whatever_their_labels(kind, top):
    """Zeros contribute nothing; sorted by weight, they are listed where they count most."""
    X, Y, T = data(9, 9 if kind == "network" else 6, missing=0.3 * (kind in ("missing", "list")))
    Y = np.where(np.isnan(Y), np.nan, Y > 0.5)
    labels = Y
    model = KroneckerRidge(0.5)
    if kind == "network":
        labels = Y = np.maximum(Y, Y.T)
        T = None
        model = TwoStepRidge(0.5, 0.5, symmetry="symmetric")
    elif kind == "list":
        labels = stored(Y)
    model.fit(X, labels, T)
    found = explain(model, 2, 3, n=top, sort="weight")
    usual = explain(model, 2, 3, n=top)
    whole = found.weights.toarray() if sparse.issparse(found.weights) else found.weights
    weights = {cell: whole[cell] for cell in zip(*np.nonzero(~np.isnan(Y)), strict=True)}
    if kind == "network":
        weights = {(i, j): whole[i, j] * (1 + (i != j)) for i, j in weights if i <= j}
    expected = sorted(np.abs(list(weights.values())))[::-1][:top]
    assert_allclose(np.abs(found.pairs.weights), expected, rtol=1e-9)
    assert_allclose([weights[cell] for cell in found.pairs.ids], found.pairs.weights)
    sums = np.abs(whole.sum(axis=1))
    assert_allclose(np.abs(found.instances.weights), np.sort(sums)[::-1][:top], rtol=1e-8)
    for listed in (found.pairs, found.instances, found.tasks):
        assert_allclose(listed.contributions.sum() + listed.rest, usual.prediction)
    if kind == "full":
        assert 0.0 in found.pairs.labels
        assert 0.0 not in usual.pairs.labels
    assert "largest weight: pair" in repr(found)


@over(lines("fit_intercept missing", (True, 0.3), (False, 0.0)))
def test_the_share_of_the_mean(fit_intercept, missing):
    """It is the prediction of the model refitted on labels that are all equal to their mean."""
    X, Y, T = data(9, 6, missing=missing)
    Y = Y + 3.0
    model = KroneckerRidge(0.5, fit_intercept=fit_intercept).fit(X, Y, T)
    found = explain(model, 2, 3)
    mean = np.nanmean(Y)
    flat = model.fit(X, np.where(np.isnan(Y), np.nan, mean), T).predict()[2, 3]
    assert_allclose([found.mean, found.share_of_mean], [mean, flat])
    assert_allclose(found.share_of_mean + found.share_of_deviations, found.prediction)
    assert_allclose(found.share_of_deviations, np.nansum(found.weights * (Y - mean)))
    if fit_intercept:
        assert_allclose(found.share_of_mean, mean)


def test_ids_sides_and_columns():
    X, Y, T = data(6, 5, n_new=1)
    X = pd.DataFrame(X, index=list("abcdefg"))
    T = pd.DataFrame(T, index=list("PQRSTU"))
    grid = pd.DataFrame(Y, index=X.index[:6], columns=T.index[:5])
    model = TwoStepRidge().fit(X[:6], grid, T[:5])
    found = explain(model, "b", T[5:], n=3, sides=("host", "parasite"))
    assert found.subject == "host 'b' and a new parasite 'U'"
    assert found.prediction == pytest.approx(model.predict(X[:6], T[5:]).loc["b", "U"])
    assert list(found.columns()) == ["host", "parasite", "weight", "label", "contribution"]
    assert list(found.columns("task")) == ["parasite", "weight", "mean_label", "contribution"]
    hosts = found.columns("instance")["host"]
    assert hosts == list(found.instances.ids)
    assert set(hosts) < set(X.index)
    assert found.pairs.labels[0] == grid.loc[found.pairs.ids[0]]
    with pytest.raises(ValueError, match="by must be"):
        found.columns("host")
    # Sides may be called as the figures are.
    found = explain(model, "b", "P", n=3, sides=("weight", "label"))
    assert list(found.columns()) == ["weight_", "label_", "weight", "label", "contribution"]


@over(lines("sign missing", (1, True), (-1, False)))
def test_an_edge_is_listed_once(sign, missing):
    X, Y, _ = data(7, 7)
    Y = Y + sign * Y.T
    if missing:
        Y[0, 4] = Y[4, 0] = np.nan
    word = "symmetric" if sign > 0 else "antisymmetric"
    fitted = TwoStepRidge(symmetry=word).fit(X, Y)
    found = explain(fitted, 1, 5, n=50)
    assert_allclose(found.prediction, fitted.predict()[1, 5], rtol=0, atol=1e-9)
    assert all(i <= j for i, j in found.pairs.ids)
    assert len(found.pairs) == 28 - missing
    for listed in (found.pairs, found.instances):
        assert_allclose(listed.contributions.sum(), found.prediction)
    assert_allclose(found.instances.contributions, found.tasks.contributions)
    assert list(found.columns())[:2] == ["node", "other node"]
    # Both directions of the edge change together.
    label, weight = next((pair.id, pair.weight) for pair in found.pairs if pair.id == (1, 5))
    moved = Y.copy()
    moved[label] += 1.0
    moved[label[::-1]] += sign
    again = TwoStepRidge(symmetry=word).fit(X, moved).predict()
    assert_allclose(again[1, 5] - found.prediction, weight, rtol=0, atol=1e-9)


@over(lines("missing", 0.0, 0.3))
def test_weights_have_no_effect_where_labels_are_interpolated(missing):
    X, Y, T = data(7, 6, missing=missing)
    rbf = {"kernel": "rbf", "task_kernel": "rbf"}
    weighted = KroneckerRidge(0.0, **rbf).fit(X, Y, T, np.linspace(0.5, 2.0, 7))
    plain = KroneckerRidge(0.0, **rbf).fit(X, Y, T)
    for asked in ((1, 2), (X[:1] + 0.1, 2)):
        assert_allclose(
            explain(weighted, *asked).prediction, explain(plain, *asked).prediction, rtol=1e-6
        )


@pytest.mark.filterwarnings("ignore::dyadlearn.exceptions.GridEdgeWarning")
def test_one_dimension_and_a_search():
    X, Y, T = data(12, 5)
    found = explain(TwoStepRidge(0.3).fit(X, Y[:, 0]), 4, 0)
    assert_allclose(found.prediction, TwoStepRidge(0.3).fit(X, Y[:, 0]).predict()[4])
    assert (len(found.tasks), found.notes) == (1, ())
    search = TwoStepRidgeCV([0.1, 3.0], [0.1, 3.0]).fit(X, Y, T)
    chosen = TwoStepRidge(search.alpha_, search.task_alpha_).fit(X, Y, T)
    found = explain(search, 4, 1)
    assert_allclose(found.weights, explain(chosen, 4, 1).weights, rtol=0, atol=1e-12)
    assert "the search might choose another one" in found.notes[0]


def test_long_tables():
    X, Y, T = data(7, 6)
    X = pd.DataFrame(X, index=list("abcdefg"))
    T = pd.DataFrame(T, index=list("PQRSTU"))
    cells = [(i, j) for i in range(6) for j in range(5) if (i + j) % 3]
    pairs = [(X.index[i], T.index[j]) for i, j in cells]
    y = [Y[cell] for cell in cells]
    model = PairRegressor(PairKernelRidge(per_task=0.5, per_instance=0.5), instances=X, tasks=T)
    model.fit(pairs, y)
    for (instance, task), setting in (("bR", "A"), ("gR", "B"), ("bU", "C"), ("gU", "D")):
        found = explain(model, instance, task)
        assert_allclose(found.prediction, model.predict([(instance, task)])[0], rtol=0, atol=1e-7)
        assert found.setting == setting
        assert found.pairs.ids[0] in pairs
    with pytest.raises(IdError, match="'nobody'"):
        explain(model, "nobody", "R")
    alone = PairRegressor(IndependentTaskRidge(), instances=X, tasks=T).fit(pairs, y)
    assert_allclose(explain(alone, "g", "R").prediction, alone.predict([("g", "R")])[0])
    with pytest.raises(IdError, match="predicts training tasks only"):
        explain(alone, "g", "U")


def _models():
    X, Y, T = data(6, 5)
    gone = Y.copy()
    gone[:, 2] = np.nan
    with pytest.warns(NoLabelWarning):
        lost = IndependentTaskRidge().fit(X, gone)
    return {
        "two-step": TwoStepRidge().fit(X, Y, T),
        "independent": IndependentTaskRidge().fit(X, Y),
        "lost": lost,
        "online": OnlineTwoStepRidge().fit(X, Y, T),
    }


def test_hostile_input():
    models = _models()
    t = np.ones((1, 3))
    for name, instance, task, error, words in [
        (
            "two-step",
            6,
            0,
            ValueError,
            "instance must be a position from 0 to 5, or a row of numbers, found 6",
        ),
        (
            "two-step",
            0,
            "x",
            TypeError,
            "no ids for tasks: task must be a position or a row of numbers, found 'x'",
        ),
        ("two-step", True, 0, TypeError, "found True"),
        ("two-step", 0, np.ones((2, 3)), ValueError, "task must be one row, found 2"),
        ("two-step", np.ones((1, 5)), 0, ValueError, "X has 5 features"),
        ("two-step", 0, t * np.inf, ValueError, "infinity"),
        ("independent", 0, t, ValueError, "knows nothing of tasks"),
        ("lost", 0, 2, ValueError, "Nothing is predicted for the task 2"),
        ("online", 0, 0, ValueError, "OnlineTwoStepRidge keeps statistics only, not the labels"),
    ]:
        with pytest.raises(error, match=words):
            explain(models[name], instance, task)
    with pytest.raises(ValueError, match="n must be a whole number of at least 1"):
        explain(models["two-step"], 0, 0, n=0)
    with pytest.raises(ValueError, match="sort must be"):
        explain(models["two-step"], 0, 0, sort="label")
    with pytest.raises(ValueError, match="sides must be two words"):
        explain(models["two-step"], 0, 0, sides="host")


def test_unknown_ids():
    X, Y, T = data(4, 3)
    grid = pd.DataFrame(Y, index=["1", "2", "3", "4"], columns=list("PQR"))
    model = TwoStepRidge().fit(X, grid, T)
    with pytest.raises(IdError, match="1 and '1' differ in type or blanks only"):
        explain(model, 1, "P")
    with pytest.raises(IdError, match="'p' not among the ids of the tasks"):
        explain(model, "1", "p")
    with pytest.raises(TypeError, match="instance must be an id or a row of numbers, found dict"):
        explain(model, {}, "P")


def test_no_memory(monkeypatch):
    X, Y, T = data(6, 5)
    model = TwoStepRidge().fit(X, Y, T)
    monkeypatch.setattr(explaining, "_ARRAYS", 1e15)
    with pytest.raises(NotEnoughMemoryError, match="Weighing 30 of 6 × 5 labels"):
        explain(model, 0, 0)

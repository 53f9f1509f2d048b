"""Labels that held-out predictions contradict, against a slow and obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from dyadlearn import IndependentTaskRidge, KroneckerRidge, OnlineTwoStepRidge, PairRegressor, TwoStepRidge, screen
from dyadlearn._tables import Table
from dyadlearn.diagnostics.fitted import held_out
from dyadlearn.diagnostics.planting import Errors, contradictions, expected, plant
from dyadlearn.diagnostics.screening import screened
from dyadlearn.labels import to_long
from dyadlearn.settings import Setting
from sweeps import covering, every, over


def slow_contradiction(Y, F, i, j):
    """Count the cells of the other value that look more like this value than the cell does."""
    values = np.unique(Y[~np.isnan(Y)])
    if len(values) != 2:
        return abs(Y[i, j] - F[i, j])
    sign = 1 if Y[i, j] == values[1] else -1
    others = [F[a, b] for a, b in np.ndindex(Y.shape) if not np.isnan(Y[a, b]) and Y[a, b] != Y[i, j]]
    return np.mean([float(sign * (f - F[i, j]) > 0) + 0.5 * (f == F[i, j]) for f in others])


def make(m, q, labels, seed=0):
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(m, 3)), rng.normal(size=(q, 2))
    Y = X @ rng.normal(size=(3, 2)) @ T.T + 0.5 * rng.normal(size=(m, q))
    return X, T, {"real": Y, "binary": (Y > 0).astype(float), "signs": np.where(Y > 0.5, 2.0, -1.0)}[labels]


@over(
    every(
        labels=["real", "binary", "signs"], shape=[(9, 6), (4, 11)], dtype=[np.float64, np.float32], setting=["A", "D"]
    )
)
def test_all_cells_in_their_order(labels, shape, dtype, setting):
    X, T, Y = (part.astype(dtype) for part in make(*shape, labels))
    model = TwoStepRidge(0.3, 2.0).fit(X, Y, tasks=T)
    found = screen(model, setting, k=None)
    F = np.asarray(model.holdout(setting))
    assert len(found) == Y.size
    assert len(set(zip(found.instances, found.tasks, strict=True))) == Y.size
    for place in range(Y.size):
        i, j = found.instances[place], found.tasks[place]
        assert found.labels[place] == Y[i, j]
        assert_allclose(found.predictions[place], F[i, j], rtol=1e-6)
        assert_allclose(found.contradictions[place], slow_contradiction(Y, F, i, j), rtol=1e-6, atol=1e-7)
    assert (np.diff(found.contradictions) <= 0).all()
    errors = np.abs(found.labels - found.predictions)
    tied = np.diff(found.contradictions) == 0
    assert (np.diff(errors)[tied] <= 0).all()
    assert (found.setting, found.method) == (setting, "exact leave-one-out")
    first = screen(model, setting, k=5)
    assert first.instances == found.instances[:5]


def test_the_mean_is_one_minus_the_auc():
    X, T, Y = make(12, 9, "binary")
    model = TwoStepRidge(5.0, 5.0).fit(X, Y, tasks=T)
    found = contradictions(Y, model.holdout("D"))
    auc = roc_auc_score(Y.ravel(), model.holdout("D").ravel())
    assert_allclose(found[Y == 1].mean(), 1 - auc)
    assert_allclose(found[Y == 0].mean(), 1 - auc)


@over(every(model=[TwoStepRidge(), KroneckerRidge(), IndependentTaskRidge()]))
def test_a_slip_of_the_pen_is_found(model):
    X, T, Y = make(40, 25, "real")
    Y = (X[:, :2] @ T.T > 0).astype(float)
    Y[7, 3] = 1 - Y[7, 3]
    assert np.abs(X[7, :2] @ T[3]) > 0.5
    found = screen(model.fit(X, Y, tasks=T), k=20)
    assert (7, 3) in set(zip(found.instances, found.tasks, strict=True))


def test_ids_and_columns():
    pd = pytest.importorskip("pandas")
    X, T, Y = make(6, 5, "binary")
    rows, columns = list("abcdef"), list("PQRST")
    frame = pd.DataFrame(Y, index=rows, columns=columns)
    plain, named = (screen(TwoStepRidge().fit(X, grid, tasks=T), k=7) for grid in (Y, frame))
    assert named.instances == tuple(rows[i] for i in plain.instances)
    assert named.tasks == tuple(columns[j] for j in plain.tasks)
    table = named.frame()
    assert list(table.columns) == ["instance", "task", "label", "prediction", "contradiction"]
    assert_array_equal(table["contradiction"], plain.contradictions)
    assert repr(named) == f"Screening(7 cells in setting A, worst ({named.instances[0]!r}, {named.tasks[0]!r}))"


def test_one_label_only():
    X, T, Y = make(8, 6, "binary")
    model = TwoStepRidge().fit(X, Y, tasks=T)
    found, everything = screen(model, label=0.0, k=None), screen(model, k=None)
    kept = [place for place in range(len(everything)) if everything.labels[place] == 0]
    assert found.instances == tuple(everything.instances[place] for place in kept)
    assert_array_equal(found.contradictions, everything.contradictions[kept])
    with pytest.raises(ValueError, match="No cell has the label 3: labels are such as 0, 1"):
        screen(model, label=3)


def test_missing_labels_are_not_screened():
    X, T, Y = make(10, 8, "real")
    Y[np.add.outer(np.arange(10), np.arange(8)) % 4 == 0] = np.nan
    found = screen(TwoStepRidge().fit(X, Y, tasks=T), "B", k=None, cv=3)
    assert len(found) == np.count_nonzero(~np.isnan(Y))
    assert not np.isnan(found.labels).any()
    assert "3 folds, solved again" in found.method


def test_a_pair_of_a_network_is_listed_once():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(7, 3)), rng.normal(size=(7, 7))
    model = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, Y + Y.T)
    found = screen(model, k=None)
    assert len(found) == 28
    assert all(i <= j for i, j in zip(found.instances, found.tasks, strict=True))


def listed(Y, F):
    found = screened(Table(np.array(Y)), np.array(F), "", Setting.A)
    return list(zip(found.instances, found.tasks, strict=True)), found.contradictions


def test_cells_without_a_label_or_a_prediction_are_never_listed():
    cells, found = listed([[1.0, np.nan], [4.0, 2.0], [3.0, 3.0]], [[3.0, 1.0], [4.5, np.nan], [3.0, 2.9]])
    assert cells == [(0, 0), (1, 0), (2, 1), (2, 0)]
    assert_allclose(found, [2.0, 0.5, 0.1, 0.0])


def test_equal_ones_are_told_apart_by_their_distance():
    cells, found = listed([[1.0, 0.0, 0.0]], [[0.0, 0.7, 2.0]])
    assert cells == [(0, 2), (0, 0), (0, 1)]
    assert_allclose(found, 1.0)
    cells, found = listed([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[0.9, 0.8, 0.0], [0.1, 0.0, 0.2]])
    assert cells[:3] == [(1, 0), (0, 1), (1, 2)]
    assert_allclose(found, [0.5, 0.5, 0.5, 0, 0, 0])


def test_models_of_long_tables_are_looked_into():
    X, T, Y = make(6, 5, "real")
    wrapped = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(*to_long(Y))
    plain = screen(TwoStepRidge().fit(X, Y, tasks=T), k=4)
    assert_allclose(screen(wrapped, k=4).contradictions, plain.contradictions)
    # The wrapped model knows positions only, in the order in which ids came; its user knows ids.
    pairs, values = to_long(Y[::-1], instances=list("fedcba"), tasks=list("PQRST"))
    pd = pytest.importorskip("pandas")
    people, things = pd.DataFrame(X, index=list("abcdef")), pd.DataFrame(T, index=list("PQRST"))
    named = screen(PairRegressor(TwoStepRidge(), instances=people, tasks=things).fit(pairs, values), k=4)
    assert named.instances == tuple("abcdef"[i] for i in plain.instances)
    assert named.tasks == tuple("PQRST"[j] for j in plain.tasks)


def test_what_cannot_be_screened():
    X, T, Y = make(6, 5, "real")
    with pytest.raises(ValueError, match="OnlineTwoStepRidge keeps statistics only, not the labels: fit TwoStep"):
        screen(OnlineTwoStepRidge().fit(X, Y, tasks=T))
    with pytest.raises(ValueError, match="Setting C leaves out tasks, but this model knows nothing of tasks"):
        screen(IndependentTaskRidge().fit(X, Y), "C")
    model = TwoStepRidge().fit(X, Y, tasks=T)
    with pytest.raises(ValueError, match="k must be at least 1"):
        screen(model, k=0)
    with pytest.raises(ValueError, match="Unknown setting"):
        screen(model, "E")


# How many of them are wrong ---------------------------------------------------------------------------


def flipped(Y, share, seed=0):
    """Return labels of two values with some of them exchanged, and which."""
    rng = np.random.default_rng(seed)
    wrong = np.zeros(Y.size, dtype=bool)
    wrong[rng.permutation(Y.size)[: round(share * Y.size)]] = True
    wrong = wrong.reshape(Y.shape)
    return np.where(wrong, Y.min() + Y.max() - Y, Y), wrong


@over(
    covering(
        setting=["A", "B", "C", "D"],
        labels=["binary", "signs"],
        model=[TwoStepRidge(0.3, 2.0), KroneckerRidge(3.0)],
        missing={"complete": False, "holes": True},
    )
)
def test_planted_errors_are_those_of_a_refit(setting, labels, model, missing):
    """Every label is changed in turn, the model fitted again and its predictions held out again."""
    X, T, Y = make(5, 5, labels)
    if missing:
        Y[1, 2] = Y[4, 0] = np.nan
    values = np.unique(Y[~np.isnan(Y)])
    F, _ = held_out(clone(model).fit(X, Y, tasks=T), Setting(setting))
    found = plant(Y, F)
    assert [errors.label for errors in found] == values.tolist()
    for errors in found:
        slow = []
        for i, j in np.argwhere(~np.isnan(Y) & (errors.label != Y)):
            wrong = Y.copy()
            wrong[i, j] = errors.label
            again, _ = held_out(clone(model).fit(X, wrong, tasks=T), Setting(setting))
            # The prediction of the cell itself does not know of it; those of others do, and stay what they were.
            assert_allclose(again[i, j], F[i, j], atol=1e-6)
            slow.append(slow_contradiction(wrong, F, i, j))
        assert_allclose(errors.contradictions, np.sort(slow), atol=1e-12)
        assert errors.weight == 1


def test_planted_labels_of_many_values():
    _, _, Y = make(30, 20, "real")
    Y[3, 4] = np.nan
    F = Y + np.random.default_rng(1).normal(size=Y.shape)
    [errors] = plant(Y, F, random_state=0)
    known = ~np.isnan(Y)
    assert_allclose(errors.weight * len(errors.contradictions), known.sum())
    # All labels of all other cells, as often as each other.
    pairs = np.abs(np.subtract.outer(Y[known], F[known]))[~np.eye(known.sum(), dtype=bool)]
    for threshold in np.quantile(pairs, [0.1, 0.5, 0.9]):
        share = errors.reaching(np.array([threshold]))[0] / known.sum()
        assert_allclose(share, np.mean(pairs >= threshold), atol=0.02)
    [zeros] = plant(np.round(Y), F, label=0.0)
    expected_zeros = np.sort(np.abs(F[known & (np.round(Y) != 0)]))
    assert_allclose(zeros.contradictions, expected_zeros)


def slow_budget(found, labels, errors):
    """Estimate as the definition reads, cell by cell; ties must not occur."""
    rates = [1.0]
    for planted in errors:
        own = [c for c, y in zip(found, labels, strict=True) if planted.label in (None, y)]
        for t in [*own, max(own) + 1e-12]:
            reached = sum(c >= t for c in own)
            if (planted.contradictions >= t).any():
                n_planted = planted.weight * np.sum(planted.contradictions >= t)
                rates.append((reached + reached**0.5 + 2) / n_planted)
    counts = [sum(e.weight * np.sum(e.contradictions >= t) for e in errors) for t in found]
    total = sum(e.weight * len(e.contradictions) for e in errors)
    wrongs = [max(0, min(min(rates) * count - 2 * len(errors), place + 1)) for place, count in enumerate(counts)]
    return wrongs, [count / total for count in counts], min(rates)


@over(every(labels=["real", "binary"], shape=[(12, 9), (5, 30)]))
def test_what_is_expected_of_a_list(labels, shape):
    X, T, Y = make(*shape, labels)
    model = TwoStepRidge(0.5, 0.5).fit(X, Y, tasks=T)
    found = screen(model, k=None)
    order = np.random.default_rng(0).random(len(found)) * 1e-9  # no ties
    values = np.sort(found.contradictions + order)[::-1]
    errors = plant(Y, model.holdout("A"), random_state=0)
    budget = expected(values, found.labels, errors)
    wrongs, recoveries, rate = slow_budget(values, found.labels, errors)
    assert_allclose(budget.rate, rate)
    assert_allclose(budget.wrongs, wrongs, rtol=1e-10)
    assert_allclose(budget.recoveries, recoveries, rtol=1e-10)
    assert_allclose(budget.recoveries[-1], 1, atol=0.2)


def test_ties_share_what_is_expected_of_them():
    errors = [Errors(None, np.array([0.5, 1.0, 1.0, 1.0]), 2.0)]
    budget = expected(np.array([1.0, 1.0, 0.2, 0.2]), np.zeros(4), errors)
    # Two reach 1, where six planted ones are; below stand two more planted ones, and all of them above the last cells.
    rate = (2 + 2**0.5 + 2) / 6
    assert_allclose(budget.rate, rate)
    assert_allclose(budget.recoveries, [3 / 8, 6 / 8, 1, 1])
    assert_allclose(budget.wrongs, [rate * 3 - 2, 2, 3, 4])


def test_the_share_of_false_alarms_is_about_right():
    """Where features explain the right labels, what is estimated is what is the case, in the mean."""
    false, found_share = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X, T = rng.normal(size=(60, 4)), rng.normal(size=(50, 4))
        Y, wrong = flipped((X @ T.T > 1).astype(float), 0.04, seed)
        model = TwoStepRidge(1.0, 1.0).fit(X, Y, tasks=T)
        for setting in "ABCD":
            found = screen(model, setting, k=None, fdr=0.5)
            hits = sum(wrong[i, j] for i, j in zip(found.instances, found.tasks, strict=True))
            assert 60 < len(found) < 300
            false.append(found.fdr - (1 - hits / len(found)))
            found_share.append(found.recovered - hits / wrong.sum())
    assert abs(np.mean(false)) < 0.1
    assert np.std(false) < 0.12
    assert abs(np.mean(found_share)) < 0.05


@over(every(setting=["A", "D"], labels=["binary", "real"]))
def test_the_longest_list_within_the_budget(setting, labels):
    X, T, Y = make(40, 30, labels)
    Y, _ = flipped(Y, 0.05) if labels == "binary" else (Y, None)
    if labels == "real":
        Y[::7, ::5] += 30.0
    model = TwoStepRidge(1.0, 1.0).fit(X, Y, tasks=T)
    everything = screen(model, setting, k=None, fdr=1.0, random_state=0)
    assert len(everything) == Y.size
    fdrs = np.array(everything.columns()["fdr"])
    found = screen(model, setting, k=None, fdr=0.6, random_state=0)
    assert found.fdr <= 0.6
    assert_allclose(found.fdr, 1 - found.wrong / len(found))
    assert_allclose(fdrs[: len(found)], found.columns()["fdr"])
    assert 0 < len(found) < Y.size
    assert (fdrs[len(found) :] > 0.6).all()
    few = screen(model, setting, k=7, fdr=0.9, random_state=0)
    assert len(few) <= 7
    assert few.instances == everything.instances[: len(few)]


def test_an_empty_list_is_an_answer():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(30, 3)), rng.normal(size=(25, 3))
    Y = (X @ T.T > 0).astype(float)
    found = screen(TwoStepRidge(1.0, 1.0).fit(X, Y, tasks=T), k=None, fdr=0.5)
    assert (len(found), found.wrong, found.fdr, found.recovered) == (0, 0.0, 0.0, 0.0)
    assert found.in_words.startswith("No list of these cells has so few false alarms")
    assert found.columns()["fdr"] == []
    # What it says can be asked for.
    least = float(found.in_words.rsplit(" ", 1)[1].rstrip("."))
    assert found.least_fdr <= least < found.least_fdr + 0.01
    assert len(screen(TwoStepRidge(1.0, 1.0).fit(X, Y, tasks=T), k=None, fdr=least)) > 0
    assert len(screen(TwoStepRidge(1.0, 1.0).fit(X, Y, tasks=T), k=None, fdr=found.least_fdr - 1e-6)) == 0
    assert repr(found) == "Screening(0 cells in setting A, about 0 wrong)"


def test_what_was_not_asked_for_is_not_told():
    X, T, Y = make(8, 6, "binary")
    found = screen(TwoStepRidge().fit(X, Y, tasks=T))
    assert (found.wrong, found.fdr, found.recovered, found.in_words) == (None, None, None, "")
    asked = screen(TwoStepRidge().fit(X, Y, tasks=T), fdr=0.99)
    assert asked.in_words.startswith(
        f"About {asked.wrong:.3g} of these {len(asked)} labels are wrong, as far as held-out"
    )


def test_more_errors_than_can_be_believed_are_doubted():
    rng = np.random.default_rng(0)
    X, T = rng.normal(size=(20, 3)), rng.normal(size=(15, 3))
    noise = screen(TwoStepRidge().fit(X, rng.normal(size=(20, 15)), tasks=T), k=None, fdr=0.9, random_state=0)
    assert noise.rate > 0.25
    assert noise.in_words.endswith("the model explains too little of the labels for a list to be believed.")
    good = screen(TwoStepRidge(0.01, 0.01).fit(X, X @ T.T, tasks=T), k=None, fdr=1.0, random_state=0)
    assert good.rate < 0.25
    assert good.in_words.endswith("of planted errors.")


def test_edges_of_a_network_are_changed_once():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 3))
    Y = (X @ X.T > 0).astype(float)
    model = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, Y)
    F = model.holdout("A")
    upper = np.triu(np.ones((12, 12), dtype=bool))
    for errors in plant(Y, F, once=True):
        assert len(errors.contradictions) == np.count_nonzero(upper & (errors.label != Y))
    # An edge that is changed in both directions has the prediction that it had.
    wrong = Y.copy()
    wrong[2, 5] = wrong[5, 2] = 1 - Y[2, 5]
    again = TwoStepRidge(0.5, 0.5, symmetry="symmetric").fit(X, wrong).holdout("A")
    assert_allclose(again[2, 5], F[2, 5])
    found = screen(model, k=None, fdr=1.0)
    assert len(found) == 78
    assert list(found.columns())[:2] == ["node", "other node"]


def test_one_label_has_a_chance_of_its_own():
    X, T, Y = make(40, 30, "binary")
    model = TwoStepRidge().fit(X, Y, tasks=T)
    found = screen(model, label=1.0, k=None, fdr=1.0)
    [errors] = plant(Y, model.holdout("A"), label=1.0)
    assert_allclose(found.wrongs, expected(found.contradictions, found.labels, [errors]).wrongs)
    assert set(found.labels) == {1.0}


def test_sides_have_their_names_in_the_table():
    X, T, Y = make(6, 5, "binary")
    found = screen(TwoStepRidge().fit(X, Y, tasks=T), k=2, fdr=1.0, sides=("host", "label"))
    assert list(found.columns()) == ["host", "label_", "label", "prediction", "contradiction", "fdr"]


def test_what_is_no_budget():
    X, T, Y = make(6, 5, "binary")
    model = TwoStepRidge().fit(X, Y, tasks=T)
    for fdr in (-0.1, 1.5, np.nan, "half", True):
        with pytest.raises(ValueError, match="fdr must be a share of false alarms between 0 and 1"):
            screen(model, fdr=fdr)
    with pytest.raises(ValueError, match="No error can be planted"):
        screen(TwoStepRidge().fit(X, np.ones((6, 5)), tasks=T), fdr=0.5)


def test_planted_errors_are_contradicted_as_flipped_labels_are_ties_or_not():
    rng = np.random.default_rng(31)
    Y = (rng.random((6, 5)) < 0.4).astype(float)
    F = rng.integers(0, 3, size=Y.shape) ** 2 + Y  # many ties, and none of it symmetric
    for errors in plant(Y, F):
        found = []
        for cell in zip(*np.nonzero(errors.label != Y), strict=True):
            flipped = Y.copy()
            flipped[cell] = errors.label
            found.append(contradictions(flipped, F)[cell])
        assert_allclose(errors.contradictions, np.sort(found), rtol=1e-12, atol=1e-12)

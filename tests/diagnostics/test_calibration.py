"""Probabilities of labels of two values: known ones come back, and no label judges a map that has seen it."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import brier_score_loss, log_loss

import dyadlearn.diagnostics.calibration as room
import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    OnlineTwoStepRidge,
    PairKernelRidge,
    PairRegressor,
    TwoStepRidge,
    calibrate,
)
from dyadlearn.diagnostics.mixed import predict_mixed
from dyadlearn.diagnostics.monotone import MAPS, sigmoid
from dyadlearn.exceptions import NoLabelWarning
from problems import grid_baselines
from sweeps import covering, every, lines, over


def made(m=20, q=12, *, seed=0, low=0.0, high=1.0, shift=0.0):
    """Labels drawn with known chances, which are returned too."""
    rng = default_rng(seed)
    X = rng.normal(size=(m, 3))
    T = rng.normal(size=(q, 2))
    chances = 1 / (1 + np.exp(-(X @ rng.normal(size=(3, 2)) @ T.T - shift)))
    return X, T, np.where(rng.random((m, q)) < chances, high, low), chances


def with_holes(Y):
    return problems.with_holes(Y, 0.2, seed=5)


# --- figures -------------------------------------------------------------------------------------


@over(
    covering(
        model=[TwoStepRidge(), KroneckerRidge(), IndependentTaskRidge()],
        method=["sigmoid", "isotonic"],
        values=[(0.0, 1.0), (-3.0, 2.0)],
        setting=["A", "B"],
        dtype=[np.float64, np.float32],
        holes=[False, True],
        strength=1,
    )
)
def test_figures_are_those_of_the_cross_fitted_probabilities(
    model, method, values, setting, dtype, holes
):
    X, T, Y, _ = made(low=values[0], high=values[1])
    Y = with_holes(Y) if holes else Y
    fitted = model.fit(X.astype(dtype), Y.astype(dtype), T.astype(dtype))
    found = calibrate(fitted, setting, method=method)
    one = found[setting]
    observed = ~np.isnan(Y)
    assert_array_equal(~np.isnan(one.probabilities), observed)
    p = one.probabilities[observed]
    y = Y[observed] == values[1]
    assert_allclose(one.brier, brier_score_loss(y, p))
    assert_allclose(one.log_loss, log_loss(y, p))
    assert (one.n_cells, one.n_positive) == (observed.sum(), y.sum())
    assert one.reliability.count.sum() == y.size
    assert found.positive == values[1]
    # The map itself is that of all held-out scores together.
    expected = MAPS[method](one.scores[observed], y)
    assert_allclose(one.mapping(one.scores), expected(one.scores))
    if setting == "A":
        assert_allclose(found.predict(), expected(one.scores), rtol=2e-6, atol=1e-7)
    assert one.brier < one.baseline_brier


@over(covering(setting="ABCD", symmetry=[None, "symmetric"], strength=1))
def test_base_rates_are_held_out(setting, symmetry):
    X, T, Y, _ = made(9, 9)
    model = TwoStepRidge(symmetry=symmetry)
    Y = Y if symmetry is None else np.maximum(Y, Y.T)
    model.fit(X, Y, T if symmetry is None else None)
    one = calibrate(model, setting)[setting]
    if symmetry and setting in "AD":
        counted = np.triu(np.ones_like(Y, dtype=bool))
    else:
        counted = np.ones_like(Y, dtype=bool)
    for name, means in grid_baselines(Y, setting, symmetry=int(symmetry is not None)).items():
        expected = brier_score_loss(Y[counted], np.clip(means, 0, 1)[counted])
        assert_allclose(one.baselines[name], expected, err_msg=name)
    assert one.baseline_brier == one.baselines["grand_mean"]


def test_labels_are_not_weighted():
    X, T, Y, _ = made()
    weights = np.where(Y > 0, 9.0, 1.0)
    one = calibrate(TwoStepRidge().fit(X, Y, T, weights), "B")["B"]
    assert_allclose(np.nanmean(one.probabilities), Y.mean(), atol=0.02)


# --- cross-fitting -------------------------------------------------------------------------------


@over(
    lines(
        "setting symmetry",
        ("A", None),
        ("B", None),
        ("C", None),
        ("D", None),
        ("A", "symmetric"),
        ("B", "symmetric"),
        ("C", "antisymmetric"),
        ("D", "antisymmetric"),
    )
)
def test_no_map_has_seen_what_it_is_judged_by(monkeypatch, setting, symmetry):
    """Every map is fitted without the rows (B), columns (C), both (D) or cells (A) that it is asked about."""
    X, T, Y, _ = made(8, 8, seed=2)
    if symmetry == "symmetric":
        Y = np.maximum(Y, Y.T)
    elif symmetry == "antisymmetric":
        Y = np.triu(2 * Y - 1, 1) - np.triu(2 * Y - 1, 1).T
    model = TwoStepRidge(symmetry=symmetry).fit(X, Y, T if symmetry is None else None)
    places = {}  # a score tells which cell it is of
    F = np.asarray(model.holdout(setting))
    for i, j in np.ndindex(Y.shape):
        places.setdefault(F[i, j], set()).add((i, j))
    seen = []

    def spy(scores, positive):
        learnt = set().union(*(places[score] for score in scores))
        fitted = sigmoid(scores, positive)

        def judge(asked):
            seen.append((learnt, set().union(*(places[score] for score in asked))))
            return fitted(asked)

        return judge

    monkeypatch.setattr(room, "MAPS", {"sigmoid": spy})
    found = calibrate(model, setting)[setting]
    used = ~np.isnan(found.probabilities)
    assert used.sum() == found.n_cells
    judged = [cell for _, asked in seen for cell in asked]
    assert {cell for cell in judged if used[cell]} == set(
        zip(*map(tuple, np.nonzero(used)), strict=True)
    )
    for learnt, asked in seen:
        rows, columns = ({cell[side] for cell in asked} for side in (0, 1))
        rows_learnt, columns_learnt = ({cell[side] for cell in learnt} for side in (0, 1))
        assert not learnt & asked
        if symmetry is not None and setting == "A":
            assert not learnt & {(j, i) for i, j in asked}
        if symmetry is not None and setting != "A":
            left = {"B": rows, "C": columns, "D": rows | columns}[setting]
            assert not left & (rows_learnt | columns_learnt)
        if symmetry is None and setting in "BD":
            assert not rows & rows_learnt
        if symmetry is None and setting in "CD":
            assert not columns & columns_learnt


def test_a_model_of_nothing_is_worth_no_more_than_the_base_rate():
    """Held-out means run against the labels: a map that may fall would predict them all."""
    rng = default_rng(0)
    Y = (rng.random((60, 8)) < 0.3).astype(float)
    model = TwoStepRidge(1e9, 1e9).fit(rng.normal(size=(60, 3)), Y, rng.normal(size=(8, 2)))
    for method in MAPS:
        found = calibrate(model, "BD", method=method)
        for setting, one in found.settings.items():
            assert one.brier > 0.99 * one.baseline_brier, (method, setting)
        assert_allclose(found.predict(rng.normal(size=(5, 3))), 0.3, atol=0.08)


# --- probabilities -------------------------------------------------------------------------------


@over(every(method=["sigmoid", "isotonic"]))
def test_known_chances_come_back(method):
    X, T, Y, chances = made(130, 70, shift=1.0)
    model = KroneckerRidge(1.0).fit(X[:110], Y[:110, :50], T[:50])
    found = calibrate(model, method=method)
    known = slice(110)
    new = slice(110, None)
    known_tasks = slice(50)
    new_tasks = slice(50, None)
    asked = {
        "A": (found.predict(), chances[known, known_tasks]),
        "B": (found.predict(X[new]), chances[new, known_tasks]),
        "C": (found.predict(tasks=T[new_tasks]), chances[known, new_tasks]),
        "D": (found.predict(X[new], T[new_tasks]), chances[new, new_tasks]),
    }
    for setting, (p, truth) in asked.items():
        assert p.shape == truth.shape
        assert np.abs(p - truth).mean() < 0.05, setting
        assert abs(p.mean() - truth.mean()) < 0.02, setting
        assert found[setting].calibration_error < 0.03


# --- another base rate ---------------------------------------------------------------------------


@over(lines("method setting prevalence", ("sigmoid", "A", 0.02), ("isotonic", "D", 0.9)))
def test_quality_at_another_base_rate(method, setting, prevalence):
    """Scores of scikit-learn with importance weights, and Bayes' rule for the probabilities."""
    X, T, Y, _ = made(12, 9)
    model = TwoStepRidge().fit(X, Y, T)
    usual = calibrate(model, setting, method=method)[setting]
    one = calibrate(model, setting, method=method, prevalence=prevalence)[setting]
    rate = Y.mean()
    assert_allclose([usual.prevalence, one.prevalence], [rate, prevalence])
    odds = prevalence / (1 - prevalence) * (1 - rate) / rate

    def moved(p):
        return p * odds / (1 - p + p * odds)

    assert_allclose(one.probabilities, moved(usual.probabilities), atol=1e-14)
    scores = np.linspace(-1, 2, 7)
    assert_allclose(one.mapping(scores), moved(usual.mapping(scores)))
    y = Y.ravel()
    p = one.probabilities.ravel()
    weights = np.where(y == 1, prevalence / rate, (1 - prevalence) / (1 - rate))
    assert_allclose(one.brier, brier_score_loss(y, p, sample_weight=weights))
    assert_allclose(one.log_loss, log_loss(y, p, sample_weight=weights))
    bins = np.clip(np.ceil(p * 10).astype(int), 1, 10)
    gaps = [abs(np.sum((weights * (p - y))[bins == number])) for number in range(1, 11)]
    assert_allclose(one.calibration_error, np.sum(gaps) / weights.sum())
    ends = one.reliability.low, one.reliability.fraction, one.reliability.high
    assert (np.diff(ends, axis=0) >= -1e-12).all()


def test_one_table_at_another_base_rate():
    X, T, Y, _ = made(12, 9)
    model = TwoStepRidge().fit(X[:10], Y[:10], T)
    places = ([3, -1, -2], [2, 4, 5])
    found = predict_mixed(model, places, (X[10:], None), prevalence=0.05)
    calibration = calibrate(model, "AB", prevalence=0.05)
    expected = [calibration.predict()[3, 2], *calibration.predict(X[10:])[[0, 1], [4, 5]]]
    assert_allclose(found.probabilities, expected)
    real = TwoStepRidge().fit(X, X @ np.ones((3, 2)) @ T.T, T)
    with pytest.raises(ValueError, match="prevalence is for labels of two values"):
        predict_mixed(real, places, (X[10:], None), prevalence=0.05)


def test_what_is_known_by_its_id():
    X, T, Y, _ = made(12, 9)
    X = pd.DataFrame(X, index=[f"x{place}" for place in range(12)])
    T = pd.DataFrame(T, index=[f"t{place}" for place in range(9)])
    Y = pd.DataFrame(with_holes(Y)[:10, :7], index=X.index[:10], columns=T.index[:7])
    model = PairKernelRidge(product=0.4, per_task=0.3, per_instance=0.3).fit(X[:10], Y, T[:7])
    found = calibrate(model, cv=2)
    p = found.predict(X[8:], T[5:])
    assert list(p.index) == list(X.index[8:])
    assert list(p.columns) == list(T.index[5:])
    p = p.to_numpy()
    new, new_tasks = X[10:].to_numpy(), T[7:].to_numpy()
    assert_allclose(p[:2, :2], found.predict().to_numpy()[8:10, 5:7])
    assert_allclose(p[2:, :2], found.predict(new)[:, 5:7])
    assert_allclose(p[:2, 2:], found.predict(None, new_tasks).to_numpy()[8:10])
    assert_allclose(p[2:, 2:], found.predict(new, new_tasks))
    assert room.settings_of(model, X[8:], T[5:]) == list(room.Setting)
    assert room.settings_of(model, X[10:], T[:5]) == [room.Setting.B]
    # An observed pair is told without its label, another by the model itself.
    scores = found["A"].scores
    hidden = np.isnan(Y.to_numpy())
    assert_allclose(scores[hidden], np.asarray(model.predict())[hidden])
    assert_allclose(found.predict().to_numpy(), found["A"].mapping(scores))
    # Only what was asked for is there.
    only = calibrate(model, "D", cv=2)
    assert_allclose(only.predict(X[10:], T[7:]), found.predict(X[10:], T[7:]))
    with pytest.raises(ValueError, match="Setting A: new pair is not calibrated, only D: "):
        only.predict()


def test_long_tables():
    X, T, Y, _ = made(12, 9)
    rows, columns = (place.ravel() for place in np.indices((10, 7)))
    keep = default_rng(0).random(70) < 0.8
    pairs = np.column_stack([rows, columns])[keep]
    y = Y[:10, :7].ravel()[keep]
    model = PairRegressor(TwoStepRidge(), instances=X, tasks=T).fit(pairs, y)
    found = calibrate(model, cv=2)
    assert list(found.settings) == list("ABCD")
    asked = [(3, 4), (11, 4), (3, 8), (11, 8)]
    p = found.predict(asked)
    assert p.shape == (4,)
    at = (model.instance_ids_.index(3), model.task_ids_.index(4))
    assert_allclose(p[0], found["A"].mapping(found["A"].scores[at]))
    for place, setting in enumerate("BCD", start=1):
        assert_allclose(p[place], found[setting].mapping(model.predict([asked[place]])[0]))
    assert found.predict().shape == (len(model.instance_ids_), len(model.task_ids_))
    with pytest.raises(ValueError, match="leave tasks out"):
        found.predict(asked, T)


def test_networks():
    rng = default_rng(0)
    n = 7
    X = rng.normal(size=(n, 3))
    Z = X @ rng.normal(size=(3, 3)) @ X.T
    found = calibrate(TwoStepRidge(symmetry="symmetric").fit(X, (Z + Z.T > 0).astype(float)))
    assert found["A"].n_cells == found["D"].n_cells == n * (n + 1) // 2
    assert found["B"].n_cells == n * n
    assert_allclose(found.predict(), found.predict().T)
    new = found.predict(rng.normal(size=(2, 3)), rng.normal(size=(3, 3)))
    assert new.shape == (2, 3)
    # Of holes in a network no more can be had than A.
    for diagonal, settings in ((0.0, "ABCD"), (np.nan, "A")):
        Y = np.sign(Z - Z.T)
        np.fill_diagonal(Y, diagonal)
        found = calibrate(TwoStepRidge(symmetry="antisymmetric").fit(X, Y))
        assert "".join(found.settings) == settings
        assert found["A"].n_cells == n * (n - 1)
        # One of two directions wins.
        assert_allclose(found.predict() + found.predict().T, 1, atol=1e-6)


def test_tasks_that_have_nothing_to_say():
    X, _, Y, _ = made(15, 6)
    Y[:, 2] = np.nan
    Y[3, 2] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLabelWarning)
        found = calibrate(IndependentTaskRidge().fit(X, Y))
        assert list(found.settings) == ["A", "B"]
        p = found.predict()
    assert np.isnan(p[3, 2])
    assert not np.isnan(np.delete(p, 2, axis=1)).any()
    with pytest.warns(NoLabelWarning, match="not scored") as caught:
        calibrate(IndependentTaskRidge().fit(X, Y), "B")
    assert caught[-1].filename == __file__


# --- what is refused -----------------------------------------------------------------------------


@over(
    lines(
        "labels, options, match".replace(",", ""),
        (
            lambda Y, P: P,
            {},
            r"need labels of two values, found 240 values \(.*, …\): ask for intervals",
        ),
        (lambda Y, P: np.ones_like(Y), {}, r"found only 1: give some labels of another value"),
        (
            lambda Y, P: Y,
            {"method": "platt"},
            r"method must be one of 'sigmoid', 'isotonic', found 'platt'",
        ),
        (lambda Y, P: Y, {"prevalence": 1.0}, r"prevalence must be a number between 0 and 1"),
        (lambda Y, P: Y, {"setting": []}, r"names no setting"),
    )
)
def test_refused(labels, options, match):
    X, T, Y, chances = made()
    model = TwoStepRidge().fit(X, labels(Y, chances), T)
    with pytest.raises(ValueError, match=match):
        calibrate(model, **options)


def test_models_that_are_refused():
    X, T, Y, _ = made()
    with pytest.raises(ValueError, match="keeps statistics only, not the labels"):
        calibrate(OnlineTwoStepRidge().fit(X, Y, T))
    signs = np.triu(2 * Y[:9, :9] - 1, 1)
    winners = TwoStepRidge(symmetry="antisymmetric").fit(X[:9], signs - signs.T)
    with pytest.raises(ValueError, match="base rate is one half: leave prevalence out"):
        calibrate(winners, "A", prevalence=0.3)
    lone = np.full((15, 2), np.nan)
    lone[:, 0] = 0.0
    lone[4, 1] = 1.0
    with (
        pytest.warns(NoLabelWarning),
        pytest.raises(ValueError, match="that have a held-out prediction are 0"),
    ):
        calibrate(IndependentTaskRidge().fit(X[:15], lone), "B")


def test_words_and_columns():
    X, T, Y, _ = made()
    found = calibrate(TwoStepRidge().fit(X, Y, T), ["B", "A"])
    assert repr(found).startswith("Calibration(sigmoid, Brier score and that of the base rate: ")
    assert list(found.settings) == ["B", "A"]
    assert "Brier" in repr(found["row"])
    columns = found.columns()
    assert columns["holdout_method"] == ["exact leave-one-out"] * len(found.settings)
    assert len({len(column) for column in columns.values()}) == 1

"""The best pairs that are not observed, against a slow and obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import KroneckerRidge, OnlineTwoStepRidge, TwoStepRidge, recommend
from dyadlearn.exceptions import IdError
from sweeps import every, over


def make(m=9, q=7, seed=0):
    rng = np.random.default_rng(seed)
    X, T = rng.normal(size=(m, 3)), rng.normal(size=(q, 2))
    return X, T, (X @ rng.normal(size=(3, 2)) @ T.T + 0.3 * rng.normal(size=(m, q)) > 0.4).astype(float)


@over(
    every(model=[TwoStepRidge(0.3, 2.0), KroneckerRidge(0.7)], setting=["A", "B", "C", "D"], side=["instance", "task"])
)
def test_zeros_by_their_held_out_predictions(model, setting, side):
    X, T, Y = make()
    model.fit(X, Y, tasks=T)
    F = model.holdout(setting)
    for place in range(Y.shape[0] if side == "instance" else Y.shape[1]):
        labels, scores = (Y[place], F[place]) if side == "instance" else (Y[:, place], F[:, place])
        expected = sorted((other for other in range(len(labels)) if labels[other] == 0), key=lambda o: -scores[o])
        found = recommend(model, **{side: place}, k=3, setting=setting)
        assert found.ids == tuple(expected[:3])
        assert_array_equal(found.scores, scores[expected[:3]])
        assert_array_equal(found.labels, 0)
        assert (found.subject, found.setting) == (place, setting)
        assert found.of == {"instance": "tasks", "task": "instances"}[side]


def test_missing_labels_are_predicted_by_the_model_itself():
    X, T, Y = make()
    Y[2, 1:4] = np.nan
    Y[5, 3] = np.nan
    model = TwoStepRidge(0.3, 2.0).fit(X, Y, tasks=T)
    completed = np.asarray(model.completed_)
    found = recommend(model, instance=2, zeros=False)
    assert set(found.ids) == {1, 2, 3}
    assert_allclose(found.scores, completed[2, list(found.ids)])
    assert np.isnan(found.labels).all()
    assert found.method == "predicted from all observed labels"
    # Among zeros, which are held out, the missing ones keep what the model says.
    mixed = recommend(model, instance=2, k=7)
    scores = dict(zip(mixed.ids, mixed.scores, strict=True))
    assert_allclose([scores[j] for j in (1, 2, 3)], completed[2, 1:4])
    zeros = [j for j in range(7) if Y[2, j] == 0]
    assert zeros
    assert set(mixed.ids) == {1, 2, 3, *zeros}
    held_out = model.holdout("A")
    assert_allclose([scores[j] for j in zeros], held_out[2, zeros])
    # Folds hide other labels too: good for zeros, but no reason to forget anything about what is missing.
    folded = recommend(model, instance=2, k=7, cv=2)
    scores = dict(zip(folded.ids, folded.scores, strict=True))
    assert folded.method.startswith("2 folds")
    assert_allclose([scores[j] for j in (1, 2, 3)], completed[2, 1:4])


def test_when_zeros_count_as_unobserved():
    X, T, Y = make()
    graded = np.where(Y == 1, 3.0, 0.0)
    model = TwoStepRidge().fit(X, graded, tasks=T)
    with pytest.raises(ValueError, match=r"Every label of 1 is observed.*zeros=True"):
        recommend(model, instance=1)
    assert set(recommend(model, instance=1, zeros=True).ids) == set(np.flatnonzero(graded[1] == 0))
    with pytest.raises(ValueError, match="Every label of 1 is observed"):
        recommend(TwoStepRidge().fit(X, Y, tasks=T), instance=1, zeros=False)


def test_ids_frames_and_words():
    pd = pytest.importorskip("pandas")
    X, T, Y = make()
    rows, columns = list("abcdefghi"), list("PQRSTUV")
    model = TwoStepRidge().fit(X, pd.DataFrame(Y, index=rows, columns=columns), tasks=T)
    plain = recommend(TwoStepRidge().fit(X, Y, tasks=T), instance=3, k=4)
    found = recommend(model, instance="d", k=4)
    assert found.ids == tuple(columns[j] for j in plain.ids)
    assert list(found.frame().columns) == ["task", "score", "label"]
    assert repr(found).startswith(f"Recommendations({len(found)} tasks for 'd': '{found.ids[0]}' (")
    assert list(recommend(model, task="P", k=1).columns()) == ["instance", "score", "label"]
    with pytest.raises(IdError, match="'z' not among the ids of the instances"):
        recommend(model, instance="z")


def test_what_cannot_be_recommended():
    X, T, Y = make()
    model = TwoStepRidge().fit(X, Y, tasks=T)
    for both in ({}, {"instance": 0, "task": 0}):
        with pytest.raises(ValueError, match="give either instance= or task="):
            recommend(model, **both)
    with pytest.raises(TypeError, match="k must be a whole number"):
        recommend(model, instance=0, k=1.5)
    with pytest.raises(ValueError, match="outside the instances: positions 9 to 9 in 9 rows"):
        recommend(model, instance=9)
    with pytest.raises(ValueError, match="keeps statistics"):
        recommend(OnlineTwoStepRidge().fit(X, Y, tasks=T), instance=0)

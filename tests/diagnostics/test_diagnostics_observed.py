"""Answers of models that were fitted on a list of labels, against those of a grid with holes."""

import functools
import pickle
import tracemalloc

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import dyadlearn
from dyadlearn import (
    KroneckerRidge,
    KroneckerRidgeCV,
    PairRegressor,
    TwoStepRidgeCV,
    plots,
    top_pairs,
)
from dyadlearn.holdout import planning
from dyadlearn.labels import Labels
from dyadlearn.pairing.remembering import last_inverse
from listed import COLUMNS, ROWS, SPARSE, VALUES, T, X, Y, listed

__all__ = ["listed"]

BINARY = np.where(np.isnan(Y), np.nan, (Y > 5.0) * 1.0)


@functools.cache
def stored_models():
    pairs = np.stack([ROWS, COLUMNS], axis=1)
    models = [
        KroneckerRidge().fit(X, SPARSE, T),
        TwoStepRidgeCV([0.5], [2.0], setting="D", cv=2).fit(X, SPARSE, T),
        PairRegressor(KroneckerRidge(), instances=X, tasks=T).fit(pairs, VALUES),
    ]
    return pickle.dumps(models)


@pytest.fixture
def models(listed):
    """Return a model, one that searched, and one of a long table: fitted once, and each test has its own."""
    return pickle.loads(stored_models())


@functools.cache
def stored_forms(binary):
    labels = BINARY if binary else Y
    listed = sparse.csr_array((labels[ROWS, COLUMNS], (ROWS, COLUMNS)), shape=Y.shape)
    return pickle.dumps(
        [KroneckerRidge(0.5, tol=1e-12).fit(X, given, T) for given in (listed, labels)]
    )


def both_forms():
    """Return the same model fitted on a list and on a grid with holes, solved alike; it takes the fixture `listed`."""
    models = pickle.loads(stored_forms(False))
    assert models[0].fitted_.labels.grid is None
    assert models[1].fitted_.labels.grid is not None
    return models


def test_few_pairs_are_screened_one_at_a_time_as_on_a_grid(listed, monkeypatch):
    found, expected = (dyadlearn.screen(model, n=None) for model in both_forms())
    assert (found.method, expected.method) == ("exact leave-one-out", "exact leave-one-out")
    assert_array_equal(found.instances, expected.instances)
    assert_array_equal(found.tasks, expected.tasks)
    assert_allclose(found.predictions, expected.predictions, rtol=1e-9)
    assert_allclose(found.contradictions, expected.contradictions, rtol=1e-9)
    # Without an affordable formula, and with too many pairs for a refit of each, folds are left
    # out.
    monkeypatch.setattr(planning, "_MOST_WORK", 0.0)
    monkeypatch.setattr(planning, "_MOST_REFITS", 0.0)
    methods = [dyadlearn.screen(model, n=None).method for model in both_forms()]
    assert methods == ["5 folds of pairs, refitted", "5 folds, refitted"]


def test_unobserved_pairs_of_a_list_are_not_held_out(listed):
    model = KroneckerRidge(0.5, kernel="rbf", task_kernel="rbf").fit(X, SPARSE, T)
    for setting in "BCD":
        message = f"^setting='{setting}' predicts .* only its {VALUES.size} observed pairs, .* use setting='A', or fit"
        for ask in (
            lambda s: dyadlearn.recommend(model, instance=2, setting=s),
            lambda s: top_pairs(model, setting=s),
        ):
            with pytest.raises(ValueError, match=message):
                ask(setting)


def test_the_same_pairs_are_named_and_recommended(listed):
    found, expected = (dyadlearn.top_pairs(model, n=9) for model in both_forms())
    assert (found.instances, found.tasks) == (expected.instances, expected.tasks)
    assert_allclose(found.scores, expected.scores)
    for asked in ({"instance": 3}, {"task": [2, 5]}, {"instance": [4]}):
        found, expected = (dyadlearn.recommend(model, **asked, n=3) for model in both_forms())
        assert found.ids == expected.ids
        assert_allclose(found.scores, expected.scores)


def test_an_explanation_forms_no_grid_of_a_list(listed, monkeypatch):
    model, _ = both_forms()
    expected = dyadlearn.explain(model, 4, 7)
    last_inverse.forget()

    def no_grid(*_):
        raise AssertionError("a grid was formed")

    monkeypatch.setattr(Labels, "dense", no_grid)
    monkeypatch.setattr(Labels, "spread", no_grid)
    found = dyadlearn.explain(model, 4, 7)
    assert_allclose(found.weights.data, expected.weights.data, rtol=1e-10)


def test_held_out_pairs_are_drawn(models):
    for model, settings in zip(models, ("A", "AD", "A"), strict=True):
        display = plots.HoldoutDisplay.from_estimator(model, settings)
        table = dyadlearn.evaluate(model, settings, scoring="r2")
        assert len(display.view.curves) == len(settings)
        assert_allclose(list(display.scores.values()), table["r2"])
        plt.close("all")


def test_a_score_counts_what_is_stored(models):
    for model in models[:2]:
        assert_allclose(model.score(X, SPARSE, T), model.score(X, Y, T))
    with pytest.raises(ValueError, match="leave it out"):
        models[0].score(X, SPARSE, T, sample_weight=np.ones(len(X)))


def test_no_grid_of_a_list_is_formed():
    """The grid of 30,000 × 25,000 pairs, of which few have a label, would take 6 GB."""
    rng = np.random.default_rng(0)
    shape = (30_000, 25_000)
    sides = [rng.normal(size=(n, 2)) for n in shape]
    rows = rng.integers(0, 9, 60) * 300
    columns = rng.integers(0, 8, 60) * 250
    rows, columns = np.unique(np.stack([rows, columns]), axis=1)
    values = rng.normal(size=rows.size)
    labels = sparse.coo_array((values, (rows, columns)), shape=shape)
    model = KroneckerRidge(0.5).fit(sides[0], labels, sides[1])
    tracemalloc.start()
    for setting in "AD":
        assert model.holdout(setting).nnz == values.size
        # The eigenvalues of the kernel of all pairs are above 10⁹, those of the labels are not.
        assert dyadlearn.evaluate(model, setting)["method"] == ["exact leave-one-out"]
    assert len(dyadlearn.screen(model, n=5)) == 5
    dyadlearn.explain(model, int(rows[0]), int(columns[0]))
    dyadlearn.permutation_test(model, "B", n_permutations=2, random_state=0)
    KroneckerRidgeCV(0.5, setting="D", cv=2).fit(sides[0], labels, sides[1])
    found = dyadlearn.recommend(model, instance=int(rows[0]), n=3)
    assert not set(found.ids) & set(columns[rows == rows[0]])
    predicted = model.predict(sides[0][rows[:1]])[0]
    predicted[columns[rows == rows[0]]] = -np.inf
    assert_array_equal(found.ids, np.argsort(-predicted)[:3])
    assert len(dyadlearn.recommend(model, task=int(columns[0]), n=3).ids) == 3
    largest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest < 5e7

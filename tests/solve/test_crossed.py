"""Few features on both sides: weights of labels, and explanations, are those of one dense system."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

from dyadlearn import KroneckerRidge, PairKernelRidge, explain
from dyadlearn.pairing import pair_weights
from dyadlearn.solve import crossed
from dyadlearn.solve.crossed import CrossedSystem


def ratings(m=40, q=30):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(m, 4))
    T = rng.normal(size=(q, 3))
    Y = X @ rng.normal(size=(4, 3)) @ T.T + rng.normal(size=(m, 1)) + rng.normal(size=(m, q))
    return X, np.where(rng.random((m, q)) < 0.2, Y, np.nan), T


MODELS = {
    "both": PairKernelRidge(2.0, per_task=0.3, per_instance=0.2),
    "task": PairKernelRidge(2.0, per_task=0.3, fit_intercept=False),
    "instance": PairKernelRidge(2.0, per_instance=0.3),
    "product": KroneckerRidge(2.0),
}


@pytest.mark.parametrize("name", MODELS)
def test_explanations_of_sparse_grids(name, monkeypatch):
    X, Y, T = ratings()
    weighted = list(MODELS).index(name) % 2 == 0
    given = {"sample_weight": np.linspace(0.5, 2.0, len(Y))} if weighted else {}
    model = MODELS[name].fit(X, Y, tasks=T, **given)
    monkeypatch.setattr(crossed, "_LEAST_CELLS", 0)
    asked = list(product((3, np.full((1, 4), 0.3)), (7, np.full((1, 3), -0.2))))
    used = []
    monkeypatch.setattr(pair_weights, "CrossedSystem", _counted(used))
    quick = [explain(model, *pair) for pair in asked]
    # The quick way was taken; a product has normal equations of its features.
    assert len(used) == (0 if name == "product" else len(asked))
    monkeypatch.setattr(pair_weights, "weigher_of_observed", lambda *_: None)
    for pair, found in zip(asked, quick, strict=True):
        slow = explain(model, *pair)
        assert_allclose(found.weights, slow.weights, rtol=0, atol=1e-8 * np.abs(slow.weights).max())
        new = [None if isinstance(each, int) else each for each in pair]
        at = tuple(each if isinstance(each, int) else 0 for each in pair)
        assert_allclose(found.prediction, model.predict(*new)[at], rtol=1e-6)


def _counted(used):
    class Counted(CrossedSystem):
        def __init__(self, *given):
            used.append(1)
            super().__init__(*given)

    return Counted


def test_several_pairs_share_one_system(monkeypatch):
    X, Y, T = ratings()
    model = MODELS["both"].fit(X, Y, tasks=T)
    used = []
    monkeypatch.setattr(crossed, "_LEAST_CELLS", 0)
    monkeypatch.setattr(pair_weights, "CrossedSystem", _counted(used))
    several = explain(model, [3, 4], [7, 9], n=2) + explain(model, [5], np.ones((1, 3)))
    assert len(used) == 2
    assert [(each.instance, each.task) for each in several] == [(3, 7), (4, 9), (5, None)]
    assert_allclose(several[0].weights, explain(model, 3, 7).weights, rtol=0)
    assert len(several[1].pairs) == 2
    with pytest.raises(ValueError, match="lists of one length, found 2 and 3 ids"):
        explain(model, [1, 2], [1, 2, 3])


def test_too_few_iterations_are_reported(monkeypatch):
    X, Y, T = ratings()
    monkeypatch.setattr(crossed, "_LEAST_CELLS", 0)
    model = PairKernelRidge(2.0, per_task=0.3, per_instance=0.2, max_iter=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, Y, tasks=T)
    with pytest.warns(
        ConvergenceWarning, match="^Conjugate gradients stopped on the weights of labels after 2"
    ):
        explain(model, 3, 7)


def test_a_tiny_ridge_is_left_to_the_other_solver(monkeypatch):
    monkeypatch.setattr(crossed, "_LEAST_CELLS", 0)
    monkeypatch.setattr(pair_weights, "CrossedSystem", _counted(used := []))
    X, Y, T = ratings()
    for alpha, count in ((1e-6, 0), (2.0, 1)):
        explain(PairKernelRidge(alpha, per_task=0.3).fit(X, Y, tasks=T), 3, 7)
        assert len(used) == count

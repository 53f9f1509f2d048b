"""Few features on both sides: fits, weights of labels, and explanations are those of one dense system."""

import warnings
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from dyadlearn import KroneckerRidge, PairKernelRidge, explain
from dyadlearn.models import reading
from dyadlearn.pairing import pair_weights
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.solve import crossed, observed
from dyadlearn.solve.crossed import CrossedSystem
from dyadlearn.spectrum import Spectrum
from problems import close
from references import refits
from sweeps import covering, over


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


@over(
    covering(
        shares=[(0.3, 0.2), (0.3, 0.0), (0.0, 0.3)],
        constant=[False, True],
        weighted=[False, True],
        as_list=[False, True],
        alpha=[1e-5, 2.0, 1e7],
    )
)
def test_fits_are_those_of_the_dense_system(
    shares, constant, weighted, as_list, alpha, monkeypatch
):
    X, Y, T = ratings(11, 9)
    weights = np.random.default_rng(2).uniform(0.2, 3.0, Y.shape) if weighted else None
    monkeypatch.setattr(observed, "suits_direct", lambda *_: False)
    monkeypatch.setattr(observed, "crossed_work", lambda *_: 0.0)
    monkeypatch.setattr(observed, "CrossedSystem", _counted(used := []))
    labels = Y
    if as_list:
        monkeypatch.setattr(reading, "SMALL_GRID", 0)
        monkeypatch.setattr(reading, "fits_in_memory", lambda *_: False)
        monkeypatch.setattr("dyadlearn.holdout.units.solve_pairs", lambda *_: None)
        places = np.nonzero(~np.isnan(Y))
        labels = sparse.csr_array((Y[places], places), shape=Y.shape)
    kinds = dict(zip(("per_task", "per_instance"), shares, strict=True))
    model = PairKernelRidge(50.0, fit_intercept=constant, tol=1e-10, **kinds)
    model.fit(X, labels, tasks=T, sample_weight=weights)
    model.set_alpha(alpha)  # starts from the other solution
    assert len(used) == 2
    K, G = (rows @ rows.T + constant for rows in (X, T))
    kernel = np.kron(K, G) + shares[0] * np.kron(K, np.eye(9)) + shares[1] * np.kron(np.eye(11), G)
    at = np.flatnonzero(~np.isnan(Y))
    of_labels = np.ones(at.size) if weights is None else weights.ravel()[at]
    given = (kernel[np.ix_(at, at)], alpha, Y.ravel()[at], of_labels, constant)
    dual, mean = refits._ridge(*given)
    expected = (kernel[:, at] @ dual + mean).astype(float)
    close(model.predict().ravel(), expected, 1e-8)


@pytest.mark.parametrize("as_list", [False, True])
def test_iterations_that_do_not_converge_are_followed_by_a_dense_system(as_list, monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 7))
    T = rng.normal(size=(250, 6))
    Y = np.where(rng.random((300, 250)) < 0.02, rng.normal(size=(300, 250)), np.nan)
    at = np.nonzero(~np.isnan(Y))
    monkeypatch.setattr(observed, "_DENSE", 1e5)
    if as_list:
        monkeypatch.setattr(reading, "SMALL_GRID", 0)
        monkeypatch.setattr(reading, "prefers_pairs", lambda *_: True)
    labels = sparse.csr_array((Y[at], at), shape=Y.shape) if as_list else Y
    model = PairKernelRidge(1e-4, per_task=1.0, fit_intercept=False, max_iter=20)
    fitted = model.fit(X, labels, tasks=T).predict()[at]  # raises if it does not converge
    same_task = np.equal.outer(at[1], at[1])
    K, G = (side[places] @ side[places].T for side, places in ((X, at[0]), (T, at[1])))
    kernel = K * (G + same_task)
    dual = np.linalg.solve(kernel + 1e-4 * np.eye(len(K)), Y[at])
    close(fitted, kernel @ dual, 1e-7)


def test_the_way_with_the_least_work_is_taken(monkeypatch):
    X, Y, T = ratings(120, 90)
    spectra = [Spectrum.from_gram(rows @ rows.T) for rows in (X, T)]
    both, product = (PairKernel(*spectra, 2.0, (1.0, *shares)) for shares in ((1, 1), (0, 0)))
    tiny = both.at(1e-7)
    ways = []
    for least in (2**16, 0):
        monkeypatch.setattr(crossed, "_LEAST_CELLS", least)
        ways += [observed.quickest(model, Y, None) for model in (both, product, tiny)]
    assert ways == ["cells"] * 3 + ["crossed", "cells", "cells"]
    # Few missing labels are solved for directly.
    few = np.where(np.arange(Y.size).reshape(Y.shape) < 100, np.nan, 0.0)
    assert [observed.quickest(both, few, given) for given in (None, few + 1.0)] == [
        "cells",
        "crossed",
    ]
    monkeypatch.setattr(crossed, "fits_in_memory", lambda *_: False)
    assert observed.quickest(both, Y, None) == "cells"

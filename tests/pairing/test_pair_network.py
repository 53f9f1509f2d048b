"""Kronecker ridge regression on a network: edges and vertices leave both sides, as in a model fitted without them."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn import KroneckerRidge, KroneckerRidgeCV, evaluate, load, save
from dyadlearn.holdout import Problem, holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.pairing import PairNetwork
from dyadlearn.spectrum import Spectrum
from sweeps import covering, every, over

N = 7
SIGNS = {"symmetric": 1, "antisymmetric": -1}


def labels(n: int, sign: int, seed: int = 0) -> np.ndarray:
    Y = np.random.default_rng(seed).normal(size=(n, n))
    return Y + sign * Y.T + (5.0 if sign > 0 else 0.0)


def nodes(kind: str, n: int, constant: bool) -> Spectrum:
    features = np.random.default_rng(1).normal(size=(n, n if kind == "full" else 3))
    if kind == "primal":
        return Spectrum.from_features(features, constant="feature" if constant else None)
    return Spectrum.from_gram(features @ features.T, constant="feature" if constant else None)


@over(
    covering(
        n=[2, 3, N],
        kind=["full", "singular", "primal"],
        sign=[1, -1],
        constant=[False, True],
        alpha=[1e-3, 1.0, 1e4, 0.0],
        setting="ABC",
    )
)
def test_what_leaves_is_predicted_as_by_a_model_without_it(n, kind, sign, constant, alpha, setting):
    if kind == "primal" and n <= 4:
        n = N
    Y = labels(n, sign)
    problem = Problem(PairNetwork.of(nodes(kind, n, constant), alpha, sign, free_mean=constant), Y)
    expected = refit(problem, setting)
    assert_allclose(holdout(problem, setting), expected, rtol=0, atol=1e-9 * np.abs(Y).max())


@over(every(kind=["full", "primal"], alpha=[1e-2, 10.0]))
def test_the_mean_of_the_others_leaves_without_both_directions(kind, alpha):
    Y = labels(N, 1)
    problem = Problem(PairNetwork.of(nodes(kind, N, True), alpha, 1, free_mean=True), Y)
    assert_allclose(holdout(problem, "A"), refit(problem, "A"), rtol=0, atol=1e-10 * np.abs(Y).max())


@over(every(symmetry=list(SIGNS), fit_intercept=[False, True]))
def test_predictions_solve_the_bordered_system_of_edges(symmetry, fit_intercept):
    """With each edge once, the diagonal at half its weight: what the grid counts twice counts once."""
    rng, sign = np.random.default_rng(2), SIGNS[symmetry]
    X, Y = rng.normal(size=(N, 4)), labels(N, sign)
    model = KroneckerRidge(0.3, kernel="rbf", symmetry=symmetry, fit_intercept=fit_intercept).fit(X, Y)
    K = np.exp(-((X[:, None] - X[None]) ** 2).sum(-1) / 4) + fit_intercept
    i, j = np.triu_indices(N, 0 if sign > 0 else 1)
    # The symmetric kernel between edges, and a ridge of λ/2 for those that stand on both sides of the diagonal.
    P = (K[np.ix_(i, i)] * K[np.ix_(j, j)] + sign * K[np.ix_(i, j)] * K[np.ix_(j, i)]) / 2
    ridge = 0.3 * np.where(i == j, 1.0, 0.5)
    free = np.ones((len(i), 1)) if fit_intercept and sign > 0 else np.zeros((len(i), 0))
    system = np.block([[P + np.diag(ridge), free], [free.T, np.zeros((free.shape[1],) * 2)]])
    found = np.linalg.solve(system, np.append(Y[i, j], np.zeros(free.shape[1])))
    mean = found[len(i) :].sum()
    expected = P @ found[: len(i)] + mean
    assert_allclose(model.predict(X)[i, j], expected, atol=1e-10)
    assert_allclose(model.predict(X), sign * model.predict(X).T, atol=1e-12)
    assert_allclose(model.predict(X, tasks=X[:3]), model.predict(X)[:, :3], atol=1e-10)


@over(every(symmetry=list(SIGNS)))
def test_single_edges_leave_in_both_directions_where_some_are_missing(symmetry):
    sign = SIGNS[symmetry]
    X, Y = np.random.default_rng(3).normal(size=(N, 4)), labels(N, sign)
    Y[1, 2] = Y[2, 1] = Y[0, 5] = Y[5, 0] = np.nan
    options = {"kernel": "rbf", "symmetry": symmetry, "tol": 1e-13}
    found = KroneckerRidge(0.3, **options).fit(X, Y).holdout("A")
    for i, j in ((0, 3), (4, 2), (6, 6 if sign > 0 else 1)):
        hidden = Y.copy()
        hidden[i, j] = hidden[j, i] = np.nan
        assert_allclose(found[i, j], KroneckerRidge(0.3, **options).fit(X, hidden).predict(X)[i, j], atol=1e-9)


def test_what_has_no_closed_form_is_refused_with_a_way_out():
    X, Y = np.random.default_rng(4).normal(size=(N, 4)), labels(N, 1)
    model = KroneckerRidge(symmetry="symmetric").fit(X, Y)
    with pytest.raises(ValueError, match=r"Setting D of Kronecker .* TwoStepRidge\(symmetry"):
        model.holdout("D")
    with pytest.raises(ValueError, match="one edge or vertex at a time"):
        model.holdout("B", groups=np.arange(N) // 2)
    with pytest.raises(ValueError, match="leave tasks out"):
        KroneckerRidge(symmetry="symmetric").fit(X, Y, tasks=X)
    with pytest.raises(ValueError, match="leave sample_weight out"):
        KroneckerRidge(symmetry="symmetric").fit(X, Y, sample_weight=np.ones(N))
    with pytest.raises(ValueError, match="leave task_kernel_grid out"):
        KroneckerRidgeCV(symmetry="symmetric", task_kernel_grid=[{}]).fit(X, Y)
    with pytest.raises(AttributeError):
        _ = model.scale_
    assert list(evaluate(model)["setting"]) == ["A", "B", "C"]


def test_a_search_and_a_file_know_the_network(tmp_path):
    X, alphas = np.random.default_rng(5).normal(size=(12, 4)), [0.01, 1.0, 100.0, 1e4, 1e6]
    Y = np.subtract.outer(X[:, 0], X[:, 0]) + 0.3 * labels(12, -1)
    search = KroneckerRidgeCV(alphas, setting="A", symmetry="antisymmetric").fit(X, Y)
    scores = [
        -np.mean((KroneckerRidge(alpha, symmetry="antisymmetric").fit(X, Y).holdout("A") - Y) ** 2) for alpha in alphas
    ]
    assert_allclose(search.landscape_, scores, rtol=1e-10)
    save(search, tmp_path / "network.dyad")
    assert_array_equal(load(tmp_path / "network.dyad").predict(X), search.predict(X))

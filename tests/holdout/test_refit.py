"""The refits of the library are those of references in extended precision; and `verify_holdout`."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import dyadlearn.pairing.dense as dense_module
import problems
from dyadlearn import (
    IndependentTaskRidge,
    KroneckerRidge,
    PairKernelRidge,
    TwoStepRidge,
    verify_holdout,
)
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff, Tikhonov
from dyadlearn.holdout.refit import refit
from dyadlearn.models.fitted import FittedRidge
from references import left_out
from sweeps import covering, every, lines, over

RIDGE = (Tikhonov(), Tikhonov())
transductive = partial(refit, fixed_penalty=True)

LEGAL = [
    *(("independent", s) for s in "AB"),
    *((method, s) for method in ("two_step", "kronecker", "network") for s in "ABCD"),
]


def labels_for(setting, shape, method="two_step"):
    """Return unequal groups of what a setting hides; a network has none."""
    if method == "network":
        return {}
    if setting == "A":
        return {"cells": default_rng(3).integers(0, 4, size=shape)}
    groups = {}
    if setting in "BD":
        groups["groups"] = np.arange(shape[0]) // 2 % 3
    if setting in "CD":
        groups["task_groups"] = np.arange(shape[1]) % 2
    return groups


def made(method, kinds=("full", "full"), filters=RIDGE, alphas=(0.5, 0.2)):
    """Return a problem with complete labels and its reference."""
    rng = default_rng(0)
    m, q = (6, 6) if method == "network" else (7, 5)
    sides = tuple(problems.features(kind, n, rng) for kind, n in zip(kinds, (m, q), strict=True))
    Y = rng.normal(size=(m, q))
    if method == "network":
        Y, sides, alphas, filters = Y + Y.T, sides[:1] * 2, alphas[:1] * 2, filters[:1] * 2
    return problems.twins(method, sides, alphas, Y, kinds=kinds, filters=filters)


@over(
    covering(
        legal=LEGAL,
        kinds=[("full", "full"), ("singular", "primal")],
        grouped=[False, True],
        strength=1,
        where=lambda legal, kinds, **_: legal[0] != "network" or kinds == ("full", "full"),
    )
)
def test_refits_are_those_of_the_reference(legal, kinds, grouped):
    method, setting = legal
    problem, model = made(method, kinds)
    groups = labels_for(setting, problem.Y.shape, method) if grouped else {}
    expected = left_out(model, setting, **groups)
    for again in (refit, transductive):
        assert_allclose(again(problem, setting, **groups), expected, rtol=1e-9, atol=1e-11)


@over(
    covering(
        legal=[(method, s) for method, s in LEGAL if method != "kronecker"],
        filters=[(IteratedTikhonov(3), IteratedTikhonov(2)), (SpectralCutoff(), Landweber())],
        grouped=[False, True],
        strength=1,
    )
)
def test_filters_with_a_fixed_penalty_are_those_of_the_reference(legal, filters, grouped):
    method, setting = legal
    problem, model = made(method, filters=filters, alphas=(2.0, 0.9))
    groups = labels_for(setting, problem.Y.shape, method) if grouped else {}
    expected = left_out(model, setting, **groups)
    assert_allclose(transductive(problem, setting, **groups), expected, rtol=1e-9, atol=1e-11)


@over(every(setting="BCD"))
def test_filters_are_applied_to_what_remains(setting):
    """Iterated Tikhonov is ridge on its own residuals, cut-off is principal component regression."""
    filters = IteratedTikhonov(2), SpectralCutoff()
    problem, model = made("two_step", filters=filters, alphas=(0.5, 1.0))
    K, G = (side.K.astype(float) for side in (model.rows, model.columns))

    def iterated(kernel):
        inverse = np.linalg.inv(kernel + 0.5 * np.eye(len(kernel)))
        return inverse + inverse @ (np.eye(len(kernel)) - kernel @ inverse)

    def cut(kernel):
        values, vectors = np.linalg.eigh(kernel)
        leading = vectors[:, values >= 1.0]
        return leading @ np.linalg.inv(leading.T @ kernel @ leading) @ leading.T

    i = 2
    j = 3
    o = np.delete(np.arange(7), i) if setting in "BD" else np.arange(7)
    p = np.delete(np.arange(5), j) if setting in "CD" else np.arange(5)
    dual = iterated(K[np.ix_(o, o)]) @ problem.Y[np.ix_(o, p)] @ cut(G[np.ix_(p, p)])
    assert_allclose(refit(problem, setting)[i, j], K[i, o] @ dual @ G[p, j], rtol=1e-10)


@over(lines("method setting", *LEGAL))
def test_large_grids_are_fitted_as_small_ones(method, setting, monkeypatch):
    problem = problems.problem(method, (4, 3), alpha=1e-6, task_alpha=1e-6)
    labels = labels_for(setting, problem.Y.shape, method)
    small = refit(problem, setting, **labels)
    monkeypatch.setattr(dense_module, "_DENSE_CELLS", 0)
    assert_allclose(refit(problem, setting, **labels), small, rtol=1e-8, atol=1e-9)


def test_large_grids_of_all_kernels_of_pairs_are_fitted_as_small_ones(monkeypatch):
    model = PairKernelRidge(0.5, per_task=0.3, per_instance=0.2).fit(*problems.data(5, 4))
    posed = model.fitted_.training_problem
    small = refit(posed, "B")
    monkeypatch.setattr(dense_module, "_DENSE_CELLS", 0)
    assert_allclose(refit(posed, "B"), small, rtol=1e-9)


def test_a_refit_that_does_not_converge_says_so(monkeypatch):
    monkeypatch.setattr(dense_module, "_DENSE_CELLS", 0)
    monkeypatch.setattr(dense_module, "_MAX_STEPS", 2)
    cells = default_rng(0).integers(0, 2, size=(7, 5))
    with pytest.warns(RuntimeWarning, match=r"stopped after 2 steps at a relative residual of"):
        refit(problems.problem("kronecker"), "A", cells=cells)


@over(lines("method setting", *LEGAL[::3]))
def test_where_computes_only_what_is_wanted(method, setting):
    problem = problems.problem(method, (4, 3))
    where = default_rng(0).random(problem.Y.shape) < 0.3
    for twin in (refit, transductive):
        complete = twin(problem, setting)
        some = twin(problem, setting, where=where)
        assert_allclose(some[where], complete[where], rtol=1e-13)
        assert np.isnan(some[~where]).all()


# --- verify_holdout, which users run on their own data -------------------------------------------

M = 6
Q = 5


@pytest.fixture(scope="module")
def data():
    rng = default_rng(0)
    return rng.normal(size=(M, 4)), rng.normal(size=(Q, 3)), rng.normal(size=(M, Q))


MODELS = {
    "independent": IndependentTaskRidge(alpha=0.7),
    "two-step": TwoStepRidge(alpha=0.7, task_alpha=0.3),
    "two-step iterated": TwoStepRidge(
        alpha=0.7, task_alpha=0.3, filter=IteratedTikhonov(2), task_filter=IteratedTikhonov(3)
    ),
    "kronecker rbf": KroneckerRidge(alpha=0.7, kernel="rbf", task_kernel="rbf"),
    "symmetric": TwoStepRidge(alpha=0.7, task_alpha=0.7, kernel="rbf", symmetry="symmetric"),
}
ASKED = [
    (name, setting) for name in MODELS for setting in ("AB" if name.startswith("ind") else "ABCD")
]


def fitted(name, data):
    X, tasks, Y = data
    model = clone(MODELS[name])
    if name == "independent":
        return model.fit(X, Y)
    if name == "symmetric":
        square = np.hstack([Y, Y[:, : M - Q]])
        return model.fit(X, square + square.T)
    return model.fit(X, Y, tasks)


# ---- frames


# ---- the check


LABELS = {
    "A": {"cells": np.arange(M * Q).reshape(M, Q) % 5},
    "B": {"groups": np.arange(M) // 3},
    "C": {"task_groups": list("aabbc")},
    "D": {"groups": np.arange(M) // 3, "task_groups": list("aabbc")},
}


@over(every(setting="ABCD", name=["two-step", "two-step iterated", "kronecker rbf"]))
def test_verify_holdout_with_groups(data, name, setting):
    model = fitted(name, data)
    assert verify_holdout(model, setting, **LABELS[setting]) < 1e-10
    # Other groups are other predictions, so it can tell.
    assert np.abs(model.holdout(setting, **LABELS[setting]) - model.holdout(setting)).max() > 1e-3


@over(lines("name setting", *ASKED[::2]))
def test_verify_holdout_sees_a_wrong_shortcut(data, name, setting, monkeypatch):
    model = fitted(name, data)
    right = model.holdout(setting)
    monkeypatch.setattr(FittedRidge, "holdout", lambda *_, **__: right + 0.5)
    assert_allclose(verify_holdout(model, setting, n=3), 0.5, rtol=1e-9)


def test_verification_compares_as_many_pairs_as_asked_for_or_all(data, monkeypatch):
    masks = []

    def watched(*arguments, where, **options):
        masks.append(where)
        return refit(*arguments, where=where, **options)

    monkeypatch.setattr("dyadlearn.holdout.refit.refit", watched)
    model = fitted("two-step", data)
    for n, compared in ((7, 7), (7, 7), (M * Q, M * Q), (50, M * Q)):
        assert verify_holdout(model, "D", n=n) < 1e-12
        assert np.count_nonzero(masks[-1]) == compared
    assert_array_equal(masks[0], masks[1])
    verify_holdout(model, "D", n=7, random_state=1)
    assert (masks[-1] != masks[0]).any()

"""The slow twin is what its words say: compared with loops over cells and with the paper's objective."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import dyadlearn.pairing.dense as dense_module
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.holdout.refit import refit
from sweeps import every, lines, over

transductive = partial(refit, fixed_penalty=True)

LEGAL = [
    *(("independent", s) for s in "AB"),
    *((method, s) for method in ("two_step", "kronecker", "network") for s in "ABCD"),
]


def kernels(problem):
    sides = (problem.pairing.spectra * 2)[:2]
    return [(side.vectors * side.values) @ side.vectors.T for side in sides]


def kept(n, *hidden):
    return [i for i in range(n) if i not in hidden]


def test_independent_hides_one_row(cases):
    problem = cases.problem("independent")
    K, _ = kernels(problem)
    expected = np.empty((7, 5))
    for i in range(7):
        o = kept(7, i)
        expected[i] = K[i, o] @ np.linalg.inv(K[np.ix_(o, o)] + 0.5 * np.eye(6)) @ problem.Y[o]
    assert_allclose(refit(problem, "B"), expected, rtol=1e-12)
    assert_allclose(refit(problem, "A"), expected, rtol=1e-12)


@over(every(setting="BCD", method=["two_step", "kronecker"]))
def test_rows_and_columns_are_hidden(cases, method, setting):
    problem = cases.problem(method, alpha=0.5, task_alpha=0.2)
    K, G = kernels(problem)
    expected = np.empty((7, 5))
    for i in range(7):
        for j in range(5):
            o = kept(7, i) if setting in "BD" else kept(7)
            p = kept(5, j) if setting in "CD" else kept(5)
            labels = problem.Y[np.ix_(o, p)]
            if method == "two_step":
                left = np.linalg.inv(K[np.ix_(o, o)] + 0.5 * np.eye(len(o)))
                right = np.linalg.inv(G[np.ix_(p, p)] + 0.2 * np.eye(len(p)))
                dual = left @ labels @ right
            else:
                pairs = [(a, b) for a in o for b in p]
                gamma = np.array([[K[a, c] * G[b, d] for c, d in pairs] for a, b in pairs])
                flat = np.array([problem.Y[pair] for pair in pairs])
                dual = np.linalg.inv(gamma + 0.5 * np.eye(len(pairs))) @ flat
                dual = dual.reshape(labels.shape)
            expected[i, j] = K[i, o] @ dual @ G[p, j]
    assert_allclose(refit(problem, setting), expected, rtol=1e-10)


def test_kronecker_hides_one_cell(cases):
    problem = cases.problem("kronecker")
    K, G = kernels(problem)
    gamma = np.kron(K, G)
    expected = np.empty(35)
    for s in range(35):
        o = kept(35, s)
        expected[s] = (
            gamma[s, o]
            @ np.linalg.inv(gamma[np.ix_(o, o)] + 0.5 * np.eye(34))
            @ problem.Y.ravel()[o]
        )
    assert_allclose(refit(problem, "A"), expected.reshape(7, 5), rtol=1e-10)


@over(every(sign=[1, -1]))
def test_hidden_cells_of_two_step_minimise_the_objective_of_the_paper(cases, sign):
    """J(F) counts the squared errors of the observed cells alone; its minimum is the prediction."""
    for method, hidden in (("two_step", [(1, 2), (4, 0)]), ("network", [(1, 2), (2, 1)])):
        problem = cases.problem(method, (5, 4), sign=sign, alpha=0.5, task_alpha=0.5)
        K, G = kernels(problem)
        inverse_K, inverse_G = np.linalg.inv(K), np.linalg.inv(G)
        observed = np.ones(problem.Y.shape)
        cells = np.arange(problem.Y.size).reshape(problem.Y.shape) + 10
        for cell in hidden:
            observed[cell] = 0.0
            cells[cell] = 0

        def objective(flat, Y=problem.Y, observed=observed, sides=(inverse_K, inverse_G)):
            F = flat.reshape(Y.shape)
            left = sides[0] @ F
            right = F @ sides[1]
            error = observed * (F - Y)
            penalty = 0.25 * np.sum(left * right) + 0.5 * np.sum(F * left) + 0.5 * np.sum(F * right)
            slope = error + 0.25 * sides[0] @ F @ sides[1] + 0.5 * left + 0.5 * right
            return np.sum(error**2) + penalty, 2 * slope.ravel()

        found = minimize(
            objective,
            np.zeros(problem.Y.size),
            jac=True,
            method="BFGS",
            options={"gtol": 1e-9, "maxiter": 2000},
        )
        expected = found.x.reshape(problem.Y.shape)
        # An edge of a network leaves in both directions unasked.
        predicted = refit(problem, "A", **({} if method == "network" else {"cells": cells}))
        for cell in hidden:
            assert_allclose(predicted[cell], expected[cell], rtol=1e-6, atol=1e-7)
            assert abs(predicted[cell] - problem.Y[cell]) > 1e-3


@over(every(sign=[1, -1]))
def test_network_hides_vertices_from_both_sides(cases, sign):
    problem = cases.problem("network", (6, 6), sign=sign)
    K, _ = kernels(problem)

    def predict(i, j, *hidden):
        o = kept(6, *hidden)
        inverse = np.linalg.inv(K[np.ix_(o, o)] + 0.5 * np.eye(len(o)))
        return K[i, o] @ inverse @ problem.Y[np.ix_(o, o)] @ inverse @ K[o, j]

    grid = [(i, j) for i in range(6) for j in range(6)]
    for setting, hide in (
        ("B", lambda i, j: (i,)),
        ("C", lambda i, j: (j,)),
        ("D", lambda i, j: (i, j)),
    ):
        expected = np.reshape([predict(i, j, *hide(i, j)) for i, j in grid], (6, 6))
        assert_allclose(refit(problem, setting), expected, rtol=1e-10, atol=1e-13)


@over(lines("method setting", *LEGAL))
def test_ridge_is_its_own_transductive_twin(cases, method, setting):
    for kinds in (("full", "full"), ("primal", "singular")):
        problem = cases.problem(method, (4, 3), kinds)
        assert_allclose(
            transductive(problem, setting), refit(problem, setting), rtol=1e-9, atol=1e-12
        )


def labels_for(setting, shape, rng, method="two_step"):
    """Return unequal groups of what a setting hides; a network has none."""
    if method == "network":
        return {}
    if setting == "A":
        return {"cells": rng.integers(0, 4, size=shape)}
    groups = {}
    if setting in "BD":
        groups["groups"] = np.arange(shape[0]) // 2 % 3
    if setting in "CD":
        groups["task_groups"] = np.arange(shape[1]) % 2
    return groups


@over(lines("method setting", *LEGAL))
def test_large_grids_are_fitted_as_small_ones(cases, method, setting, monkeypatch):
    for alpha in (0.0, 1e-6):
        problem = cases.problem(method, (4, 3), alpha=alpha, task_alpha=alpha)
        labels = labels_for(setting, problem.Y.shape, np.random.default_rng(3), method)
        chosen = labels if alpha else {}
        small = refit(problem, setting, **chosen)
        with monkeypatch.context() as patch:
            patch.setattr(dense_module, "_DENSE_CELLS", 0)
            assert_allclose(refit(problem, setting, **chosen), small, rtol=1e-8, atol=1e-9)


def test_a_refit_that_does_not_converge_says_so(cases, monkeypatch):
    monkeypatch.setattr(dense_module, "_DENSE_CELLS", 0)
    monkeypatch.setattr(dense_module, "_MAX_STEPS", 2)
    cells = np.random.default_rng(0).integers(0, 2, size=(7, 5))
    with pytest.warns(RuntimeWarning, match=r"stopped after 2 steps at a relative residual of"):
        refit(cases.problem("kronecker"), "A", cells=cells)


@over(lines("method setting", *LEGAL))
def test_where_computes_only_what_is_wanted(cases, method, setting):
    problem = cases.problem(method, (4, 3))
    where = np.random.default_rng(0).random(problem.Y.shape) < 0.3
    for twin in (refit, transductive):
        complete = twin(problem, setting)
        some = twin(problem, setting, where=where)
        assert_allclose(some[where], complete[where], rtol=1e-13)
        assert np.isnan(some[~where]).all()


@over(lines("method setting", *(case for case in LEGAL if case[0] != "network")))
def test_nothing_to_learn_from_predicts_zero(cases, method, setting):
    problem = cases.problem(method)
    m, q = problem.Y.shape
    labels = {
        "A": {"cells": np.zeros((m, q))},
        "B": {"groups": np.zeros(m)},
        "C": {"task_groups": np.zeros(q)},
        "D": {"groups": np.zeros(m)},
    }[setting]
    for twin in (refit, transductive):
        assert_allclose(twin(problem, setting, **labels), np.zeros((m, q)), atol=1e-14)


@over(every(setting="BCD"))
def test_filters_are_applied_to_what_remains(cases, setting):
    """Iterated Tikhonov is ridge on its own residuals, cut-off is principal component regression."""
    problem = cases.problem(
        "two_step", filter=IteratedTikhonov(2), task_filter=SpectralCutoff(), task_alpha=1.0
    )
    K, G = kernels(problem)

    def iterated(kernel):
        inverse = np.linalg.inv(kernel + 0.5 * np.eye(len(kernel)))
        return inverse + inverse @ (np.eye(len(kernel)) - kernel @ inverse)

    def cut(kernel):
        values, vectors = np.linalg.eigh(kernel)
        leading = vectors[:, values >= 1.0]
        return leading @ np.linalg.inv(leading.T @ kernel @ leading) @ leading.T

    i = 2
    j = 3
    o = kept(7, i) if setting in "BD" else kept(7)
    p = kept(5, j) if setting in "CD" else kept(5)
    dual = iterated(K[np.ix_(o, o)]) @ problem.Y[np.ix_(o, p)] @ cut(G[np.ix_(p, p)])
    assert_allclose(refit(problem, setting)[i, j], K[i, o] @ dual @ G[p, j], rtol=1e-10)


@over(
    every(
        filter=[IteratedTikhonov(3), SpectralCutoff(), Landweber()],
        method=["independent", "two_step", "network"],
    )
)
def test_transductive_values_are_fixed_points(cases, method, filter):
    """Put the held-out values in the place of what was hidden, and the complete fit gives them back."""
    problem = cases.problem(
        method, (6, 6), alpha=0.8, task_alpha=0.9, filter=filter, task_filter=filter
    )

    def hat(kernel, alpha):
        values, vectors = np.linalg.eigh(kernel)
        return (vectors * filter.shrinkage(values, alpha)) @ vectors.T

    H = hat(kernels(problem)[0], 0.8)
    H_g = {"independent": np.eye(6), "network": H}.get(method)
    if H_g is None:
        H_g = hat(kernels(problem)[1], 0.9)
    found = transductive(problem, "A")
    for i, j in [(0, 0), (2, 4)]:
        labels = problem.Y.copy()
        labels[i, j] = found[i, j]
        if method == "network":
            labels[j, i] = found[j, i]
        assert_allclose((H @ labels @ H_g)[i, j], found[i, j], rtol=1e-9)
    if method != "network":
        found = transductive(problem, "B", groups=[0, 0, 1, 1, 1, 2])
        labels = problem.Y @ H_g
        labels[[2, 3, 4]] = found[[2, 3, 4]]
        assert_allclose((H @ labels)[[2, 3, 4]], found[[2, 3, 4]], rtol=1e-9)


def test_labels_may_be_of_any_kind(cases):
    problem = cases.problem("two_step")
    numbers = refit(problem, "D", groups=[0, 0, 1, 1, 1, 2, 2], task_groups=[5, 5, 5, 7, 7])
    words = refit(problem, "D", groups=list("bbaaacc"), task_groups=np.array(list("xxxyy")))
    assert_allclose(words, numbers, rtol=0)


@over(
    lines(
        "method setting arguments message",
        ("two_step", "E", {}, "Unknown setting 'E'"),
        ("independent", "C", {}, "Setting C leaves out tasks"),
        ("independent", "D", {}, "Setting D leaves out tasks"),
        (
            "two_step",
            "A",
            {"groups": np.zeros(7)},
            "^groups are groups of left-out instances, and setting A leaves none out",
        ),
        (
            "two_step",
            "C",
            {"groups": np.zeros(7)},
            "^groups are groups of left-out instances, and setting C leaves none out",
        ),
        (
            "two_step",
            "B",
            {"task_groups": np.zeros(5)},
            "^task_groups are groups of left-out tasks, and setting B leaves none out",
        ),
        (
            "two_step",
            "B",
            {"cells": np.zeros((7, 5))},
            "^cells are groups of left-out single pairs, and setting B leaves none out",
        ),
        (
            "two_step",
            "B",
            {"groups": np.zeros(5)},
            r"groups must have one value for each of 7 rows.*found shape \(5,\)",
        ),
        (
            "two_step",
            "A",
            {"cells": np.zeros((5, 7))},
            "cells must have one value for each of 7 × 5 cells",
        ),
        (
            "two_step",
            "A",
            {"where": np.ones((5, 7))},
            r"where must have .* shape \(7, 5\), found shape \(5, 7\)",
        ),
        (
            "network",
            "A",
            {"groups": np.zeros(7)},
            "^groups are groups of left-out instances, and setting A leaves none out",
        ),
        ("network", "A", {"cells": np.arange(49).reshape(7, 7)}, "one edge or vertex at a time"),
        (
            "network",
            "D",
            {"groups": np.zeros(7), "task_groups": np.ones(7)},
            "one edge or vertex at a time",
        ),
    )
)
def test_bad_input_is_refused(cases, method, setting, arguments, message):
    for twin in (refit, transductive):
        with pytest.raises(ValueError, match=message):
            twin(cases.problem(method), setting, **arguments)

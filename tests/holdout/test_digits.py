"""How many digits are right: a reference in 50-digit arithmetic, which really fits again."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import PairKernel
from dyadlearn.spectrum import Spectrum
from problems import posed
from sweeps import covering, every, lines, over

ALPHAS = [1e-10, 1e-5, 1e-3, 1.0, 1e3, 1e6, 1e10, 1e12]
M = 4
Q = 3
# Refitting pairs costs a system of the size of the grid for every cell: a few cells are enough.
SOME_CELLS = [(0, 0), (3, 2)]


pytestmark = pytest.mark.usefixtures("fifty_digits")


@pytest.fixture(scope="module")
def data(cases):
    """Give two well-conditioned kernels, eigenvalues from 0.3 to 3, and labels."""
    rng = np.random.default_rng(11)
    K = cases.gram(M, M, rng)
    G = cases.gram(Q, Q, rng)
    return K, G, rng.normal(size=(M, Q))


def exact(array):
    return mpmath.matrix(array.tolist())


def sub(matrix, rows, columns):
    return mpmath.matrix([[matrix[i, j] for j in columns] for i in rows])


def kept(n, *hidden):
    return [i for i in range(n) if i not in hidden]


def predictor(kernel, row, o, alpha):
    """Return the weights that a side fitted on the rows o gives their labels, to predict `row`."""
    inverse = mpmath.inverse(sub(kernel, o, o) + mpmath.mpf(alpha) * mpmath.eye(len(o)))
    return sub(kernel, [row], o) * inverse


def refit_two_step(data, setting, alpha, task_alpha):
    K, G, Y = map(exact, data)
    left = [predictor(K, i, kept(M, i) if setting in "BD" else kept(M), alpha) for i in range(M)]
    right = [
        predictor(G, j, kept(Q, j) if setting in "CD" else kept(Q), task_alpha) for j in range(Q)
    ]
    result = {}
    for i in range(M):
        for j in range(Q):
            if setting == "A":
                # The cell is its own fixed point; the fit is affine in what stands in it.
                at_zero, at_one = (fitted_with(Y, i, j, value, left, right) for value in (0, 1))
                result[i, j] = at_zero / (1 - (at_one - at_zero))
            else:
                o = kept(M, i) if setting in "BD" else kept(M)
                p = kept(Q, j) if setting in "CD" else kept(Q)
                result[i, j] = (left[i] * sub(Y, o, p) * right[j].T)[0]
    return result


def fitted_with(Y, i, j, value, left, right):
    labels = Y.copy()
    labels[i, j] = value
    return (left[i] * labels * right[j].T)[0]


def refit_kronecker(data, setting, alpha, shares=(1.0, 0.0, 0.0), free_mean=False):
    K, G, Y = map(exact, data)
    product, per_task, per_instance = map(mpmath.mpf, shares)

    def kernel(a, b, c, d):
        value = product * K[a, c] * G[b, d]
        value += per_task * K[a, c] if b == d else 0
        return value + per_instance * G[b, d] if a == c else value

    result = {}
    for i, j in SOME_CELLS:
        seen = {
            "A": lambda a, b, i=i, j=j: (a, b) != (i, j),
            "B": lambda a, b, i=i: a != i,
            "C": lambda a, b, j=j: b != j,
            "D": lambda a, b, i=i, j=j: a != i and b != j,
        }[setting]
        pairs = [(a, b) for a in range(M) for b in range(Q) if seen(a, b)]
        gamma = mpmath.matrix([[kernel(a, b, c, d) for c, d in pairs] for a, b in pairs])
        for s in range(len(pairs)):
            gamma[s, s] += mpmath.mpf(alpha)
        dual = mpmath.cholesky_solve(gamma, mpmath.matrix([Y[pair] for pair in pairs]))
        mean = mpmath.mpf(0)
        if free_mean:
            own = mpmath.cholesky_solve(gamma, mpmath.matrix([1] * len(pairs)))
            mean = mpmath.fsum(dual) / mpmath.fsum(own)
            dual -= mean * own
        result[i, j] = mean + mpmath.fsum(
            kernel(i, j, a, b) * dual[s] for s, (a, b) in enumerate(pairs)
        )
    return result


def worst_error(found, expected):
    """Return the largest error over the largest exact value."""
    largest = max(abs(value) for value in expected.values())
    return float(
        max(abs(mpmath.mpf(float(found[cell])) - value) for cell, value in expected.items())
        / largest
    )


def problem_of(method, data, alpha, task_alpha=0.0):
    K, G, Y = data
    return posed(method, Y, Spectrum.from_gram(K), alpha, Spectrum.from_gram(G), task_alpha)


@over(every(alpha=ALPHAS))
def test_independent_tasks(data, alpha):
    K = exact(data[0])
    Y = exact(data[2])
    expected = {}
    for i in range(M):
        row = predictor(K, i, kept(M, i), alpha) * sub(Y, kept(M, i), range(Q))
        expected.update({(i, j): row[j] for j in range(Q)})
    problem = posed("independent", data[2], Spectrum.from_gram(data[0]), alpha)
    for setting in "AB":
        assert worst_error(holdout(problem, setting), expected) < 1e-12


@over(
    lines(
        "alpha task_alpha",
        (1e-10, 1e-10),
        (1e-3, 1e-3),
        (1e12, 1e12),
        (1e-10, 1e10),
        (1e10, 1e-10),
    )
)
@over(every(setting="ABCD"))
def test_two_step(data, setting, alpha, task_alpha):
    expected = refit_two_step(data, setting, alpha, task_alpha)
    assert (
        worst_error(holdout(problem_of("two_step", data, alpha, task_alpha), setting), expected)
        < 1e-12
    )


@over(covering(alpha=[1e-10, 1.0, 1e10], setting="ABCD"))
def test_kronecker(data, setting, alpha):
    expected = refit_kronecker(data, setting, alpha)
    assert worst_error(holdout(problem_of("kronecker", data, alpha), setting), expected) < 1e-12


@over(
    covering(
        alpha=[1e-10, 1.0, 1e10],
        setting="ABCD",
        shares=[(1.0, 0.0, 0.0), (0.6, 0.3, 0.2), (1.0, 0.4, 0.0)],
        free=[True, False],
    )
)
def test_pair_kernels(data, setting, alpha, shares, free):
    K = data[0] + 1.0
    G = data[1] + 1.0
    Y = data[2]
    expected = refit_kronecker((K, G, Y), setting, alpha, shares, free)
    pairing = PairKernel(Spectrum.from_gram(K), Spectrum.from_gram(G), alpha, shares, free)
    # The constant makes these kernels ten times worse conditioned.
    assert worst_error(holdout(Problem.of(pairing, Y), setting), expected) < 1e-12


@over(covering(setting="ABCD", alpha=[1e-10, 1e-4], strength=1))
def test_a_free_mean_costs_a_digit_at_most(setting, alpha):
    """On smooth kernels, whose eigenvalues fall below any regularisation."""
    rng = np.random.default_rng(7)
    points = [rng.normal(size=(n, 2)) for n in (M, Q)]
    K, G = (np.exp(-0.05 * ((x[:, None] - x[None]) ** 2).sum(-1)) + 1.0 for x in points)
    Y = rng.normal(size=(M, Q))
    lost = [
        worst_error(
            holdout(
                Problem.of(PairKernel(*map(Spectrum.from_gram, (K, G)), alpha, free_mean=free), Y),
                setting,
            ),
            refit_kronecker((K, G, Y), setting, alpha, free_mean=free),
        )
        for free in (False, True)
    ]
    assert lost[1] < max(10.0 * lost[0], 1e-12), lost


@over(covering(sign=[1, -1], alpha=[1e-10, 1.0, 1e10], strength=1))
def test_network(data, alpha, sign):
    rng = np.random.default_rng(3)
    upper = rng.normal(size=(M, M))
    labels = upper + sign * upper.T
    spectrum = Spectrum.from_gram(data[0])
    problem = posed("network", labels, spectrum, alpha, spectrum, alpha, sign=sign)
    K, Y = exact(data[0]), exact(labels)

    def without(i, j, *hidden):
        o = kept(M, *hidden)
        return (predictor(K, i, o, alpha) * sub(Y, o, o) * predictor(K, j, o, alpha).T)[0]

    grid = [(0, 0), (0, 1), (1, 0), (2, 3)]
    for setting, hidden in (
        ("B", lambda i, j: (i,)),
        ("C", lambda i, j: (j,)),
        ("D", lambda i, j: (i, j)),
    ):
        expected = {(i, j): without(i, j, *hidden(i, j)) for i, j in grid}
        assert worst_error(holdout(problem, setting), expected) < 1e-12, setting

    hats = [predictor(K, i, kept(M), alpha) for i in range(M)]
    edges = {}
    for i, j in grid:
        cells = sorted({(i, j), (j, i)}, key=lambda cell, i=i, j=j: cell != (i, j))
        hidden = Y.copy()
        hidden[i, j] = hidden[j, i] = 0
        products = [[hats[a][c] * hats[b][d] for c, d in cells] for a, b in cells]
        fitted = [(hats[a] * hidden * hats[b].T)[0] for a, b in cells]
        system = mpmath.eye(len(cells)) - mpmath.matrix(products)
        edges[i, j] = mpmath.lu_solve(system, mpmath.matrix(fitted))[0]
    assert worst_error(holdout(problem, "A"), edges) < 1e-12


def test_the_textbook_forms_lose_digits_at_one_end_each(data):
    """Were the reference too coarse to see this, the tests above would show nothing."""
    K, _, Y = data
    spectrum = Spectrum.from_gram(K)
    problem = posed("independent", Y, spectrum, 1.0)
    lost = {}
    for alpha in (1e-10, 1e10):
        expected = {}
        for i in range(M):
            row = predictor(exact(K), i, kept(M, i), alpha) * sub(exact(Y), kept(M, i), range(Q))
            expected.update({(i, j): row[j] for j in range(Q)})
        shrinkage = spectrum.values / (spectrum.values + alpha)
        residual = alpha / (spectrum.values + alpha)
        H = (spectrum.vectors * shrinkage) @ spectrum.vectors.T
        R = (spectrum.vectors * residual) @ spectrum.vectors.T
        by_hat = (H @ Y - np.diag(H)[:, None] * Y) / (1 - np.diag(H))[:, None]
        by_residual = Y - (R @ Y) / np.diag(R)[:, None]
        lost[alpha] = worst_error(by_hat, expected), worst_error(by_residual, expected)
        assert worst_error(holdout(problem.at(alpha), "B"), expected) < 1e-12
    # The forms by 1 − diag(H), by I − R: some six digits are left where each is used in the wrong
    # place.
    assert 1e-8 < lost[1e-10][0] < 1e-4
    assert lost[1e-10][1] < 1e-12
    assert lost[1e10][0] < 1e-12
    assert 1e-8 < lost[1e10][1] < 1e-4

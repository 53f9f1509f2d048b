"""How many digits of held-out predictions are right, by references in extended precision."""

import numpy as np
import pytest

import problems
from dyadlearn.holdout import Problem, holdout
from dyadlearn.pairing import PairKernel
from dyadlearn.spectrum import Spectrum
from references import left_out, reference
from sweeps import covering, every, over

M = 4
Q = 3


@pytest.fixture(scope="module")
def data():
    """Give two well-conditioned kernels, eigenvalues from 0.3 to 3, labels and weights."""
    rng = np.random.default_rng(11)
    K, G = (problems.gram(n, n, rng) for n in (M, Q))
    return K, G, rng.normal(size=(M, Q)), rng.uniform(0.3, 3.0, size=(M, Q))


def made(method, data, alphas, Y=None, weights=None, sign=1):
    """Return a problem and its reference."""
    K, G = data[:2]
    Y = data[2] if Y is None else Y
    sides = Spectrum.from_gram(K), Spectrum.from_gram(G)
    if method == "network":
        alphas = (alphas[0], alphas[0])
    problem = problems.posed(
        method, Y, sides[0], alphas[0], sides[1], alphas[1], sign=sign, weights=weights
    )
    return problem, reference(method, (K, G), alphas, Y, weights, sign=sign)


def largest_error(found, expected, where=None):
    """Return the largest error over the largest value."""
    where = np.ones(expected.shape, dtype=bool) if where is None else where
    return np.abs(found - expected)[where].max() / np.abs(expected)[where].max()


ALPHAS = [(1e-10, 1e-10), (1.0, 1.0), (1e12, 1e12), (1e-10, 1e10)]


@over(every(method=["independent", "two_step", "kronecker"], alphas=ALPHAS))
def test_complete_labels(data, method, alphas):
    problem, model = made(method, data, alphas)
    for setting in "AB" if method == "independent" else "ABCD":
        assert largest_error(holdout(problem, setting), left_out(model, setting)) < 1e-12, setting


@over(every(sign=[1, -1], alpha=[1e-10, 1.0, 1e10]))
def test_networks(data, alpha, sign):
    upper = np.random.default_rng(3).normal(size=(M, M))
    problem, model = made("network", data, (alpha, alpha), upper + sign * upper.T, sign=sign)
    for setting in "ABCD":
        assert largest_error(holdout(problem, setting), left_out(model, setting)) < 1e-12, setting


HOLES = {"a block": [(0, 0)], "scattered": [(0, 0), (1, 2), (3, 0)]}


@over(
    covering(
        method=["independent", "two_step", "kronecker"],
        alphas=ALPHAS,
        holes=HOLES,
        weighted=[False, True],
        # Two-step models with weights iterate, or solve for a dense kernel of the pairs.
        where=lambda method, weighted, **_: not weighted or method != "two_step",
    )
)
def test_missing_and_weighted_labels(data, method, alphas, holes, weighted):
    Y = data[2].copy()
    Y[tuple(zip(*holes, strict=True))] = np.nan
    problem, model = made(method, data, alphas, Y, data[3] if weighted else None)
    observed = ~np.isnan(Y)
    expected = left_out(model, "A", where=observed)
    assert largest_error(holdout(problem, "A"), expected, observed) < 1e-12


# (aK + cI) ⊗ (G + bI/a) has the terms aK ⊗ G, bK ⊗ I and cI ⊗ G, and bc/a of the ridge.
@over(
    covering(
        alpha=[1e-10, 1.0, 1e10],
        setting="ABCD",
        shares=[(1.0, 0.0, 0.0), (0.5, 0.0, 0.2), (1.0, 0.4, 0.0), (0.6, 0.3, 0.2)],
        free=[True, False],
        where=lambda alpha, shares, **_: alpha > shares[1] * shares[2] / shares[0],
    )
)
def test_pair_kernels(data, setting, alpha, shares, free):
    K, G, Y, _ = data
    a, b, c = shares
    # The constant makes these kernels ten times worse conditioned.
    spectra = [Spectrum.from_gram(kernel + 1.0) for kernel in (K, G)]
    problem = Problem.of(PairKernel(*spectra, alpha, shares, free), Y)
    kernels = a * (K + 1.0) + c * np.eye(M), G + 1.0 + b / a * np.eye(Q)
    if free:  # the reference adds ones to both kernels
        kernels = tuple(kernel - 1.0 for kernel in kernels)
    model = reference("kronecker", kernels, (alpha - b * c / a, 0.0), Y, constant=free)
    assert largest_error(holdout(problem, setting), left_out(model, setting)) < 1e-12

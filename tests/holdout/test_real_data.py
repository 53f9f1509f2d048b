"""Drug–target networks: proteins × drugs, similarities that are no kernels before they are repaired."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from dyadlearn import KroneckerRidge, TwoStepRidge
from dyadlearn.holdout.refit import refit
from dyadlearn.kernels import repair
from dyadlearn.labels import fisher_relabel
from sweeps import every, over

ALPHAS = [1e-7, 1e-2, 1.0, 1e6]


def read(path):
    with gzip.open(path, "rt") as lines:
        next(lines)
        return np.array([line.rstrip("\n").split("\t")[1:] for line in lines], dtype=float)


@pytest.fixture(scope="module", params=["nr", pytest.param("gpcr", marks=pytest.mark.slow)])
def network(request, shared_data):
    """Give the kernels of some proteins and some drugs, and the relabelled interactions."""
    name = request.param
    folder = shared_data / "yamanishi2008"
    Y = read(folder / f"{name}_admat_dgc.txt.gz")
    K, G = (repair(read(folder / f"{name}_simmat_{side}.txt.gz")) for side in ("dg", "dc"))
    assert Y.shape == {"nr": (26, 54), "gpcr": (95, 223)}[name]
    m, q = {"nr": (26, 32), "gpcr": (48, 96)}[name]
    return K[:m, :m], G[:q, :q], fisher_relabel(Y)[:m, :q]


def largest_difference(model, setting, n_cells=3, **labels):
    """Return what `verify_holdout` does, relative to the largest prediction."""
    found = model.holdout(setting, **labels)
    where = np.zeros(found.size, dtype=bool)
    where[np.random.default_rng(0).choice(found.size, n_cells, replace=False)] = True
    where = where.reshape(found.shape)
    expected = refit(model.fitted_.training_problem, setting, where=where, **labels)
    return np.abs(found - expected)[where].max() / np.abs(found).max()


@pytest.fixture
def precomputed():
    return {"kernel": "precomputed", "task_kernel": "precomputed"}


@over(every(setting="ABCD"))
def test_two_step(network, precomputed, setting):
    K, G, Y = network
    model = TwoStepRidge(**precomputed).fit(K, Y, tasks=G)
    for alpha, task_alpha in [(1e-7, 1e-7), (1e-7, 1e6), (1e6, 1e-7)]:
        assert largest_difference(model.set_alpha(alpha, task_alpha), setting) < 1e-8, (
            alpha,
            task_alpha,
        )


@over(every(setting="ABCD"))
def test_kronecker(network, precomputed, setting):
    K, G, Y = network
    fit_intercept = setting in "AD"
    model = KroneckerRidge(**precomputed, fit_intercept=fit_intercept).fit(K, Y, tasks=G)
    norms = [np.linalg.norm(side + float(fit_intercept), 2) for side in (K, G)]
    for alpha in ALPHAS[::2]:
        allowed = 1e-9 + np.finfo(float).eps * norms[0] * norms[1] / alpha  # see docs/holdout.md
        assert largest_difference(model.set_alpha(alpha), setting) < allowed, alpha

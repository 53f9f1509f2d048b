"""Consistency: the error of two-step ridge on unseen pairs vanishes as the grid grows."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from dyadlearn import TwoStepRidge
from dyadlearn.datasets import make_dyads

QUALIFICATION = 0.5
SIZES = [8, 16, 32, 64]
SEEDS = range(2)
UNIVERSAL = {
    "kernel": "rbf",
    "task_kernel": "rbf",
    "kernel_params": {"gamma": 2.0},
    "task_kernel_params": {"gamma": 2.0},
}

Rule = Callable[[int], float]
RULES: dict[str, Rule] = {
    "as printed": lambda n: n ** -(2 * QUALIFICATION + 1),
    "reciprocal exponent": lambda n: n ** (-1 / (2 * QUALIFICATION + 1)),
}


@functools.cache
def error_on_unseen_pairs(m: int, q: int, rule: Rule) -> float:
    """Return the mean squared distance from the regression function on fresh rows of both sides.

    The theorem's λ belongs to kernel matrices whose eigenvalues stay bounded as the sample grows:
    K/m and G/q. The two-step filter splits it as λ = λ_d λ_t with both factors of the order √λ, so
    that on the kernels themselves ``alpha`` is m√λ and ``task_alpha`` is q√λ. The size that counts
    is ℓ = min(m, q).
    """
    root = rule(min(m, q)) ** 0.5
    errors = []
    for seed in SEEDS:
        data = make_dyads(
            m, q, n_features=1, n_task_features=1, rank=2, noise=0.5, random_state=seed, **UNIVERSAL
        )
        model = TwoStepRidge(alpha=m * root, task_alpha=q * root, **UNIVERSAL)
        model.fit(data.X, data.Y, tasks=data.tasks)
        fresh = np.random.default_rng(1000 + seed)
        X = fresh.uniform(-1, 1, size=(80, 1))
        tasks = fresh.uniform(-1, 1, size=(80, 1))
        errors.append(np.mean((model.predict(X, tasks=tasks) - data.function(X, tasks)) ** 2))
    return float(np.mean(errors))


def test_the_error_vanishes_faster_than_the_promised_rate():
    first, last = (error_on_unseen_pairs(n, n, RULES["as printed"]) for n in (SIZES[0], SIZES[-1]))
    rate = QUALIFICATION / (2 * QUALIFICATION + 1)
    assert last / first < (SIZES[-1] / SIZES[0]) ** -rate
    # Truth and noise have variance 1 and ¼: hardly anything of either is left.
    assert last < 0.02


def test_many_tasks_do_not_make_up_for_few_instances():
    """The smaller side sets the pace: eight instances with 64 tasks do no better than 16 with 16."""
    rule = RULES["as printed"]
    assert error_on_unseen_pairs(8, 64, rule) > error_on_unseen_pairs(16, 16, rule)
    assert error_on_unseen_pairs(64, 8, rule) > error_on_unseen_pairs(16, 16, rule)

"""Estimates of costs grow with the table, at most as fast as the work that they count."""

from functools import cache

import numpy as np

import problems
from dyadlearn import KroneckerRidge, PairKernelRidge, TwoStepRidge
from dyadlearn.holdout import plan
from dyadlearn.holdout.pairs_out import PairsOut
from dyadlearn.metrics import scorer
from dyadlearn.pairing.inverses import routes
from dyadlearn.pairing.without_units import models_cost
from dyadlearn.settings import Setting
from sweeps import every, over

RBF = {"kernel": "rbf", "task_kernel": "rbf", "fit_intercept": False}
# Models with full kernels, few features, and functions of each side.
MODELS = {
    "kronecker": lambda: KroneckerRidge(0.5, **RBF),
    "features": lambda: KroneckerRidge(0.5, fit_intercept=False),
    "pair kernel": lambda: PairKernelRidge(0.5, per_task=0.3, **RBF),
    "two-step": lambda: TwoStepRidge(0.5, 0.5, **RBF),
}
# The inverse of all pairs grows by the third power of both sides; counts of few labels grow in steps.
MOST = 2.0**7
MOST_MEMORY = 2.0**27


@cache
def fitted(name, m, q, missing):
    """Return a fitted problem in which the same share of labels is missing, whatever its size."""
    X, Y, tasks = problems.data(m, q)
    places = np.arange(m)[:, None] + np.arange(q)
    Y[places % 10 < round(10 * missing)] = np.nan
    return MODELS[name]().fit(X, Y, tasks=tasks).fitted_.problem


@cache
def pairs_of(problem):
    return PairsOut.of(problem, scorer("roc_auc"))


def units_of(labels, setting):
    rows, columns = labels.places
    units = {
        "A": [np.arange(labels.size)],
        "B": [rows],
        "C": [columns],
        "D": [rows, columns],
    }
    return units[setting.name]


def costs(name, m, q, missing, setting):
    """Return all estimates of work and of memory of a problem by name, of whatever route."""
    problem = fitted(name, m, q, missing)
    setting = Setting(setting)
    found = {}
    if problem.labels.is_full:
        chosen = plan(problem, setting).cost
        found["work of the plan"] = chosen.work
        found["memory of the plan"] = chosen.memory
    else:
        units = units_of(problem.labels, setting)
        for route in routes(problem.pairing, problem.labels, setting, units):
            found[f"work by {route.name}"] = route.work
            found[f"memory by {route.name}"] = route.numbers
            names = ("work", "memory")
            figures = models_cost(problem.pairing, problem.labels, m, route.name)
            for which, figure in zip(names, figures, strict=True):
                found[f"{which} of the models by {route.name}"] = figure
    pairs_out = pairs_of(problem)
    if pairs_out is not None:
        found["work of pairs"] = pairs_out.cost.work
        found["memory of pairs"] = pairs_out.cost.memory
    return found


@over(every(name=list(MODELS), missing=[0.0, 0.1, 0.7], setting=["A", "B", "C", "D"]))
def test_larger_tables_cost_more(name, missing, setting):
    small = costs(name, 10, 10, missing, setting)
    for m, q, least in ((20, 20, 2.0), (20, 10, 1.0), (10, 20, 1.0)):
        large = costs(name, m, q, missing, setting)
        for what in small.keys() & large.keys():
            ratio = large[what] / small[what]
            # A route may change to a method that takes less memory.
            fewest = 0.0 if what.startswith("memory") else least
            assert small[what] > 0
            assert fewest <= ratio <= MOST, (what, ratio)
            assert what.startswith("work") or large[what] < MOST_MEMORY, what

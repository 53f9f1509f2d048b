"""Filters other than Tikhonov keep the penalty of the whole kernel: the transductive reading."""

from __future__ import annotations

from functools import partial

import numpy as np

from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.holdout import holdout
from dyadlearn.holdout.refit import refit
from problems import COMPLETE
from sweeps import covering, over

transductive = partial(refit, fixed_penalty=True)

FILTERS = [IteratedTikhonov(3), SpectralCutoff(), Landweber(), Landweber(n_iter=7)]
LEGAL = [("independent", "A"), ("independent", "B"), *(("two_step", setting) for setting in "ABCD")]
KINDS = [("full", "full"), ("singular", "singular"), ("primal", "primal"), ("full", "primal")]


def labels_of(setting, shape):
    rng = np.random.default_rng(2)
    if setting == "A":
        return {"cells": rng.integers(0, 12, size=shape)}
    labels = {"groups": np.arange(shape[0]) // 2} if setting in "BD" else {}
    return labels | ({"task_groups": np.arange(shape[1]) // 2} if setting in "CD" else {})


@over(
    covering(
        legal=LEGAL,
        filter=FILTERS,
        shape=COMPLETE,
        kinds=KINDS,
        alpha=[1.2, 2.0],
        grouped=[False, True],
    )
)
def test_equals_the_transductive_solve(cases, legal, filter, shape, kinds, alpha, grouped):
    method, setting = legal
    problem = cases.problem(method, shape, kinds, alpha, alpha, filter=filter, task_filter=filter)
    labels = labels_of(setting, shape) if grouped else {}
    found = holdout(problem, setting, **labels)
    assert cases.error(found, transductive(problem, setting, **labels)) <= 1e-8


@over(covering(filter=FILTERS[:3], setting="BCD"))
def test_is_not_refitting(cases, setting, filter):
    """The difference is what the documentation warns of; were it gone, the warning would be wrong."""
    problem = cases.problem(
        "two_step", alpha=1.2, task_alpha=1.2, filter=filter, task_filter=filter
    )
    assert cases.error(holdout(problem, setting), refit(problem, setting)) > 1e-3

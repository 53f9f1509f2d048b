"""The closed forms of hold-out equal refitting: every model, setting, shape, rank, regularisation and grouping."""

from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dyadlearn.pairing.full as full_module
import dyadlearn.pairing.new_both as new_both_module
import problems
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.holdout import holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.spectrum import Spectrum
from problems import COMPLETE, posed
from sweeps import covering, lines, over

LEGAL = [
    *(("independent", s) for s in "AB"),
    *((method, s) for method in ("two_step", "kronecker") for s in "ABCD"),
]
KINDS = [
    ("full", "full"),
    ("singular", "singular"),
    ("primal", "primal"),
    ("full", "primal"),
    ("primal", "singular"),
    ("singular", "full"),
]
# Two-step also with its sides at opposite ends.
ALPHA_PAIRS = [(1e-10, 1e-10), (1e10, 1e10), (1e-10, 1e10)]
GROUPINGS = ["none", "unequal", "all but one"]


def labels_of(grouping, setting, shape):
    """Return the groups or folds of a setting as keyword arguments."""
    if grouping == "none":
        return {}

    def split(size, start):
        if grouping == "all but one":
            return np.where(np.arange(size) == start % size, "one", "rest")
        # Groups of 1, 2, 3, … members, scattered over the rows.
        sizes = np.repeat(np.arange(size), np.arange(1, size + 1))[:size]
        return sizes[np.random.default_rng(start).permutation(size)]

    m, q = shape
    if setting == "A":
        return {"cells": split(m * q, 3).reshape(shape)}
    labels = {"groups": split(m, 1)} if setting in "BD" else {}
    return labels | ({"task_groups": split(q, 2)} if setting in "CD" else {})


def some_cells(shape):
    """Return a third of the cells, in every row and every column."""
    return np.add.outer(np.arange(shape[0]), np.arange(shape[1])) % 3 == 0


@over(
    covering(
        where=lambda legal, alphas, **others: legal[0] == "two_step" or alphas[0] == alphas[1],
        legal=LEGAL,
        grouping=GROUPINGS,
        kinds=KINDS[:2] + KINDS[3:4],
        shape=COMPLETE,
        alphas=ALPHA_PAIRS,
    )
)
def test_equals_refitting(legal, grouping, shape, kinds, alphas):
    # The next test takes every grouping of every model to sides of either kind.
    method, setting = legal
    problem = problems.problem(method, shape, kinds, *alphas)
    # Well-conditioned kernels leave no excuse.
    allowed = 1e-8 if kinds == ("full", "full") else problems.tolerance(problem)
    labels = labels_of(grouping, setting, shape)
    some = some_cells(shape)
    expected = refit(problem, setting, **labels, where=some)
    assert problems.error(holdout(problem, setting, **labels)[some], expected[some]) <= allowed


@over(lines("method setting", *LEGAL))
def test_one_group_of_everything_is_refused(method, setting):
    problem = problems.problem(method)
    m, q = problem.Y.shape
    everything = {
        "A": {"cells": np.zeros((m, q))},
        "B": {"groups": np.zeros(m)},
        "C": {"task_groups": np.zeros(q)},
        "D": {"groups": np.zeros(m), "task_groups": np.zeros(q)},
    }[setting]
    with pytest.raises(ValueError, match="^No label remains to learn from"):
        holdout(problem, setting, **everything)


def test_one_row_and_one_column():
    rng = np.random.default_rng(0)
    for shape in ((1, 4), (4, 1), (1, 1)):
        sides = [Spectrum.from_gram(problems.gram(n, n, rng)) for n in shape]
        Y = rng.normal(size=shape)
        for method in ("two_step", "kronecker"):
            problem = posed(method, Y, sides[0], 0.5, sides[1], 0.2)
            for setting in "ABCD":
                if (setting in "BD" and shape[0] == 1) or (setting in "CD" and shape[1] == 1):
                    with pytest.raises(ValueError, match="^No label remains to learn from"):
                        holdout(problem, setting)
                else:
                    assert_allclose(
                        holdout(problem, setting), refit(problem, setting), rtol=1e-10, atol=1e-13
                    )


# ---- both sides of every choice by cost


@over(
    covering(
        block=[1, 60, 10**6],
        kinds=[("full", "full"), ("full", "primal"), ("full", "singular")],
        shape=COMPLETE,
        strength=1,
    )
)
def test_kronecker_d_of_many_alphas(kinds, block, shape, monkeypatch):
    monkeypatch.setattr(new_both_module, "_BLOCK_NUMBERS", block)
    alphas = [1e-3, 0.0, 1.0, 0.0, 1e4]
    problem = problems.problem("kronecker", shape, kinds)
    found = new_both_module.new_both(problem.pairing, problem.Y[None, ...], alphas)[0, ...]
    assert found.shape == (len(alphas), *shape)
    for alpha, grid in zip(alphas, found, strict=True):
        some = some_cells(shape)
        assert_allclose(
            grid[some], refit(problem.at(alpha), "D", where=some)[some], rtol=1e-8, atol=1e-9
        )


@over(covering(kinds=KINDS[:4], method=["independent", "two_step", "kronecker"], strength=1))
def test_large_folds_of_cells_are_solved_by_iteration(method, kinds, monkeypatch):
    for alpha in (1e-3, 1e6):
        problem = problems.problem(method, (5, 4), kinds, alpha, alpha)
        for grouping in GROUPINGS[1:]:
            labels = labels_of(grouping, "A", (5, 4))
            expected = refit(problem, "A", **labels)
            with monkeypatch.context() as patch:
                patch.setattr(full_module, "_DIRECT_CELLS", 0)
                assert problems.error(holdout(problem, "A", **labels), expected) <= 1e-8, (
                    alpha,
                    grouping,
                )


# ---- filters other than Tikhonov's keep the penalty of the whole kernel

transductive = partial(refit, fixed_penalty=True)


def labels_in_pairs(setting, shape):
    """Return groups of two rows and columns, or of three cells."""
    if setting == "A":
        return {"cells": np.random.default_rng(2).integers(0, 12, size=shape)}
    labels = {"groups": np.arange(shape[0]) // 2} if setting in "BD" else {}
    return labels | ({"task_groups": np.arange(shape[1]) // 2} if setting in "CD" else {})


FILTERS = [IteratedTikhonov(3), SpectralCutoff(), Landweber()]


@over(
    covering(
        legal=[legal for legal in LEGAL if legal[0] != "kronecker"],
        filter=FILTERS,
        shape=COMPLETE,
        kinds=KINDS[:4],
        alpha=[1.2, 2.0],
        grouped=[False, True],
    )
)
def test_equals_the_transductive_solve(legal, filter, shape, kinds, alpha, grouped):
    method, setting = legal
    problem = problems.problem(
        method, shape, kinds, alpha, alpha, filter=filter, task_filter=filter
    )
    labels = labels_in_pairs(setting, shape) if grouped else {}
    found = holdout(problem, setting, **labels)
    assert problems.error(found, transductive(problem, setting, **labels)) <= 1e-8

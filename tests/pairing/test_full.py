"""The closed forms of hold-out equal refitting: every model, setting, shape, rank, grouping, one grid or many."""

from functools import partial

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose

import dyadlearn.pairing.full as full_module
import dyadlearn.pairing.new_both as new_both_module
import problems
from dyadlearn._memory import holdout_numbers
from dyadlearn.filters import IteratedTikhonov, Landweber, SpectralCutoff
from dyadlearn.holdout import holdout
from dyadlearn.holdout.refit import refit
from dyadlearn.pairing import Independent, Kronecker, Network, PairKernel, TwoStep
from dyadlearn.pairing.full import hold_out, hold_out_stack, holdout_grids
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Spectrum
from problems import COMPLETE, posed, some_cells
from sweeps import covering, every, lines, over
from telling import taken

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
        return sizes[default_rng(start).permutation(size)]

    m, q = shape
    if setting == "A":
        return {"cells": split(m * q, 3).reshape(shape)}
    labels = {"groups": split(m, 1)} if setting in "BD" else {}
    return labels | ({"task_groups": split(q, 2)} if setting in "CD" else {})


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
    rng = default_rng(0)
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
        return {"cells": default_rng(2).integers(0, 12, size=shape)}
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


# --- many grids of labels held out together: each as by itself -----------------------------------

RIDGE = problems.RIDGE


def independent(rows, _, alpha, constant):
    return Independent(rows.smoother(RIDGE, alpha))


def two_step(rows, columns, alpha, constant):
    return TwoStep(rows.smoother(RIDGE, alpha), columns.smoother(RIDGE, alpha / 2))


def kronecker(rows, columns, alpha, constant):
    return Kronecker(rows, columns, alpha, free_mean=constant)


def shared(rows, columns, alpha, constant):
    return PairKernel(rows, columns, alpha, (1.0, 0.5, 0.2), free_mean=constant)


MODELS = {
    "independent": independent,
    "two-step": two_step,
    "kronecker": kronecker,
    "pair kernel": shared,
}


def made(model, shape, kind, alpha, constant, put=np.asarray):
    """Return a model of pairs on random sides."""
    rng = default_rng([*shape, constant])
    if constant:
        word = {kronecker: "feature", shared: "feature"}.get(model, "free")
    else:
        word = None
    sides = [
        problems.spectrum(
            kind, problems.features(kind, n, rng), dtype="float64", put=put, constant=word
        )
        for n in shape
    ]
    return model(*sides, alpha, constant)


def stack_of(shape, n=4):
    return default_rng(0).normal(size=(n, *shape)) + 2.0


def one_by_one(pairing, stack, setting, *members):
    return np.stack([np.asarray(hold_out(pairing, grid, setting, *members)) for grid in stack])


@over(
    covering(
        model=MODELS,
        shape=problems.COMPLETE,
        kind=["full", "singular", "primal"],
        alpha=[0.0, 1e-8, 1e7],
        constant=[False, True],
        setting="ABCD",
        where=lambda model, kind, alpha, **_: (
            (model is not shared or kind in ("full", "singular"))
            and (alpha > 0 or (kind == "full" and model in (two_step, kronecker)))
        ),
    )
)
def test_a_stack_is_its_grids(model, shape, kind, alpha, constant, setting):
    pairing = made(model, shape, kind, alpha, constant)
    stack = stack_of(shape)
    if not pairing.knows_tasks and setting in "CD":
        return
    found = hold_out_stack(pairing, stack, Setting(setting))
    assert found.shape == stack.shape
    problems.close(found, one_by_one(pairing, stack, Setting(setting)), 1e-9)


@over(covering(model=MODELS, setting="BCD", constant=[False, True]))
def test_groups_leave_together(model, setting, constant):
    shape = (7, 6)
    pairing = made(model, shape, "full", 0.3, constant)
    stack = stack_of(shape)
    if not pairing.knows_tasks and setting in "CD":
        return
    groups = [np.arange(3), np.arange(3, 7)] if setting in "BD" else None
    if setting in "CD":
        task_groups = [np.array([0, 5]), np.array([1, 2]), np.array([3, 4])]
    else:
        task_groups = None
    found = hold_out_stack(pairing, stack, Setting(setting), groups, task_groups)
    expected = one_by_one(pairing, stack, Setting(setting), groups, task_groups)
    problems.close(found, expected, 1e-11)
    assert np.abs(found - one_by_one(pairing, stack, Setting(setting))).max() > 1e-3


@over(every(sign=[1, -1], setting="ABCD", constant=[False, True]))
def test_networks(sign, setting, constant):
    n = 4
    rng = default_rng(0)
    nodes = problems.spectrum(
        "full", problems.features("full", n, rng), constant="free" if constant else None
    )
    pairing = Network.of(nodes.smoother(RIDGE, 0.4), sign)
    stack = stack_of((n, n))
    stack = stack + sign * np.swapaxes(stack, 1, 2)
    found = hold_out_stack(pairing, stack, Setting(setting))
    assert_allclose(found, one_by_one(pairing, stack, Setting(setting)), rtol=1e-12)


def test_a_side_is_decomposed_once_for_all_grids(monkeypatch):
    import dyadlearn.pairing.new_both as module

    calls = []
    real = module.eigh
    monkeypatch.setattr(module, "eigh", lambda matrix: calls.append(1) or real(matrix))
    hold_out_stack(made(kronecker, (7, 5), "full", 0.5, True), stack_of((7, 5), 9), Setting.D)
    assert len(calls) == 5


@over(covering(model=MODELS, setting="ABD", strength=1))
def test_memory_is_foreseen(model, setting):
    shape = (28, 20)
    n = 6
    pairing = made(model, shape, "full", 0.5, True)
    stack = stack_of(shape, n)
    if not pairing.knows_tasks and setting == "D":
        return
    peak = taken(lambda: hold_out_stack(pairing, stack, Setting(setting))) / 8
    assert peak <= holdout_numbers(shape, pairing.ranks, holdout_grids(pairing), n_stacked=n)


@over(every(setting=list(Setting), constant=[False, True]))
def test_the_formula_of_any_model_takes_many_grids(setting, constant):
    model = made(kronecker, (5, 4), "full", 0.5, constant)
    stack = default_rng(0).normal(size=(3, 5, 4)) + 7
    general = hold_out_stack.dispatch(object)
    assert_allclose(
        general(model, stack, setting), hold_out_stack(model, stack, setting), rtol=1e-9
    )

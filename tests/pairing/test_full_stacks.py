"""Many grids of labels held out together: each as by itself."""

from functools import partial

import numpy as np
from numpy.testing import assert_allclose

import problems
from dyadlearn._memory import holdout_numbers
from dyadlearn.pairing import Independent, Kronecker, Network, PairKernel, TwoStep
from dyadlearn.pairing.full import hold_out, hold_out_stack, holdout_grids
from dyadlearn.settings import Setting
from sweeps import covering, every, over

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


def made(model, shape, kind, alpha, constant, put=np.asarray, dtype="float64"):
    """Return a model of pairs on random sides."""
    rng = np.random.default_rng([*shape, constant])
    if constant:
        word = {kronecker: "feature", shared: "feature"}.get(model, "free")
    else:
        word = None
    sides = [
        problems.spectrum(
            kind, problems.features(kind, n, rng), dtype=dtype, put=put, constant=word
        )
        for n in shape
    ]
    return model(*sides, alpha, constant)


def stack_of(shape, n=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, *shape)) + 2.0


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
    rng = np.random.default_rng(0)
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
    import tracemalloc

    shape = (28, 20)
    n = 6
    pairing = made(model, shape, "full", 0.5, True)
    stack = stack_of(shape, n)
    if not pairing.knows_tasks and setting == "D":
        return
    work = partial(hold_out_stack, pairing, stack, Setting(setting))
    tracemalloc.start()
    try:
        work()
        peak = tracemalloc.get_traced_memory()[1] / 8
    finally:
        tracemalloc.stop()
    assert peak <= holdout_numbers(shape, pairing.ranks, holdout_grids(pairing), n_stacked=n)


@over(every(setting=list(Setting), constant=[False, True]))
def test_the_formula_of_any_model_takes_many_grids(setting, constant):
    model = made(kronecker, (5, 4), "full", 0.5, constant)
    stack = np.random.default_rng(0).normal(size=(3, 5, 4)) + 7
    general = hold_out_stack.dispatch(object)
    assert_allclose(
        general(model, stack, setting), hold_out_stack(model, stack, setting), rtol=1e-9
    )

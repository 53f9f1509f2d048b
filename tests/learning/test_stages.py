"""Stages: as many as lower the error, never worse than the best single kernel, nothing lost by an interrupt."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._interrupts import keeping_best
from dyadlearn.learning import error as errors
from dyadlearn.learning import stages as candidates
from dyadlearn.learning.error import ExactError, FoldError
from dyadlearn.learning.mixture import Mixture, Parameters
from dyadlearn.learning.stages import Descent, learn
from dyadlearn.settings import Setting
from dyadlearn.solve import cells
from learning_case import distance_kernel, similarity, targets
from sweeps import lines, over

HOW = Descent(15, 0.1)
BOTH = (True, True)


def _problem(seed=0, shape=(14, 9), rank=2, noise=0.3, missing=0.2, kernels=(2, 1)):
    """Return labels of low rank, of which the first kernel of the instances tells something, the others nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(shape[0], rank))
    Y = np.tanh(X) @ rng.normal(size=(rank, shape[1])) + noise * rng.normal(size=shape)
    squares = ((X[:, None] - X) ** 2).sum(axis=2)
    grams = [
        np.exp(-squares / squares.mean()),
        *(similarity(shape[0], rng) for _ in range(kernels[0] - 1)),
    ]
    rows = Mixture(grams, [True] * kernels[0], True)
    columns = Mixture(
        [distance_kernel(shape[1], rng) for _ in range(kernels[1])], [True] * kernels[1], True
    )
    observed = (rng.random(shape) >= missing).astype(float)
    Y = (Y - Y[observed > 0].mean()) / Y[observed > 0].std()
    code = rng.permutation(Y.size).reshape(shape) % 3
    masks = [(code != fold, code == fold) for fold in range(3)]
    return targets(np.where(observed > 0, Y, np.nan), None, "grand"), rows, columns, masks


def _learned(labels, sides, masks, how, n_stages, profiled, *watch):
    return learn(FoldError.of(labels, sides, masks), how, n_stages, profiled, *watch)


@cache
def _chosen(seed, rank, noise, missing, n_stages):
    """Return what is learnt in some stages, for tests that ask the same and change nothing of it."""
    labels, rows, columns, masks = _problem(seed, rank=rank, noise=noise, missing=missing)
    return _learned(labels, [rows, columns], masks, HOW, n_stages, BOTH)


def _single(mixture, place):
    return Mixture([mixture.grams[place]], [mixture.has_exponent[place]], mixture.constant)


@over(lines("seed rank noise missing", (0, 1, 0.1, 0.2), (2, 2, 3.0, 0.5)))
def test_the_number_of_stages_is_chosen_by_the_error(seed, rank, noise, missing):
    labels, *_ = _problem(seed, rank=rank, noise=noise, missing=missing)
    found = _chosen(seed, rank, noise, missing, 3)
    errors = [stage.error for stage in found.stages]
    assert found.best == int(np.argmin(errors))
    # One that is worse is the last that is tried.
    assert len(errors) in (3, found.best + 2)
    assert all(later < earlier for earlier, later in pairwise(errors[: found.best + 1]))
    left_out = ~np.isnan(found.held_out)
    assert left_out.sum() == labels.observed.sum()
    assert_allclose(
        np.mean((found.held_out - labels.grid)[left_out] ** 2), errors[found.best], rtol=1e-9
    )
    assert [len(stage.profiles[0]) for stage in found.stages] == [0, 2, 2][: len(errors)]
    once = _chosen(seed, rank, noise, missing, 1)
    assert_allclose(once.stages[0].error, errors[0], rtol=1e-12)


def test_a_judge_chooses_another_stage():
    labels, rows, columns, masks = _problem(2, rank=2, noise=3.0, missing=0.5)
    seen = []

    def judge(loss, held_out):
        seen.append((loss, held_out))
        return -loss

    found = learn(FoldError.of(labels, [rows, columns], masks), HOW, 2, BOTH, judge=judge)
    assert [stage.judged for stage in found.stages] == [-stage.error for stage in found.stages]
    assert found.best == int(np.argmax([stage.error for stage in found.stages]))
    # The first stage has one start, the second has two, of which the worse one is kept.
    assert len(seen) == 3
    assert found.stages[1].error == max(loss for loss, _ in seen[1:])
    assert_array_equal(seen[0][1], _chosen(2, 2, 3.0, 0.5, 1).held_out)


@over(
    lines(
        "profiled kinds", ((True, False), (2, 0)), ((False, True), (0, 2)), ((False, False), (0, 0))
    )
)
def test_only_known_sides_have_profiles(profiled, kinds):
    labels, rows, columns, masks = _problem()
    stage = _learned(labels, [rows, columns], masks, Descent(1, 0.1), 2, profiled).stages[1]
    assert tuple(map(len, stage.profiles)) == kinds
    assert len(stage.parameters.weights[0]) == rows.n_weights + kinds[0]
    assert len(stage.parameters.weights[1]) == columns.n_weights + kinds[1]


@over(lines("seed kernels exact", (0, (2, 2), True), (2, (2, 1), False)))
def test_no_single_kernel_is_better_than_all(seed, kernels, exact):
    labels, rows, columns, masks = _problem(seed, missing=0.0, kernels=kernels)
    fine = errors.Tolerances(1e-5, 1e-5)

    def error(*sides):
        if exact:
            own = ExactError(labels, sides, Setting.B)
        else:
            own = FoldError.of(labels, sides, masks, fine)
        return learn(own, Descent(40, 0.0)).stages[0].error

    # Beside each single one and all kernels of the other side, where it has more than one.
    others = [columns] if kernels[1] > 1 else []
    others += [_single(columns, j) for j in range(kernels[1])]
    singles = [error(_single(rows, i), other) for i in range(kernels[0]) for other in others]
    assert error(rows, columns) <= 1.003 * min(singles)


def test_large_problems_learn_from_the_first_folds(monkeypatch):
    labels, rows, columns, masks = _problem(0, kernels=(3, 2))
    used = []
    descend = candidates.descend
    monkeypatch.setattr(
        candidates, "descend", lambda error, *given: used.append(error) or descend(error, *given)
    )
    few_steps = Descent(3, 0.1)
    _learned(labels, [rows, columns], masks, few_steps, 2, BOTH)
    assert {each.train.shape[0] for each in used} == {3}
    used.clear()
    monkeypatch.setattr(candidates, "_SMALL", 0)
    monkeypatch.setattr(candidates, "ENOUGH", 40)
    found = _learned(labels, [rows, columns], masks, few_steps, 2, BOTH)
    assert [each.train.shape[0] for each in used] == [2, 2]
    # Profiles of the second stage are those of the same folds.
    assert used[1].sides[0].grams[-1].shape == (2, 14, 14)
    assert len(found.stages) == 2
    assert np.isfinite(found.held_out[labels.grid != 0]).all()


def test_a_stage_on_a_large_grid_must_be_better_in_the_first_folds(monkeypatch):
    """Profiles of noise do not help, and a stage that is judged by another score is compared in all folds."""
    labels, rows, columns, masks = _problem(2, noise=3.0, missing=0.5)
    monkeypatch.setattr(candidates, "_SMALL", 0)
    given = (FoldError.of(labels, [rows, columns], masks), HOW, 2, BOTH)
    found = learn(*given)
    assert (len(found.stages), found.best) == (1, 0)
    judged = learn(*given, judge=lambda loss, held_out: -loss)
    assert (len(judged.stages), judged.best) == (2, 1)


def test_what_chance_gives_on_a_sparse_grid_is_not_worth_an_evaluation(monkeypatch):
    labels, rows, columns, masks = _problem()
    error = FoldError.of(labels, [rows, columns], masks)
    start = Parameters.start([rows, columns])
    assert candidates._worthwhile(error, start) == 1e-5
    n_dense = len(candidates.descend(error, start, HOW).losses)
    monkeypatch.setattr(cells, "_CHEAP", 0)
    monkeypatch.setattr(cells, "gather_cost", lambda like: 0)
    error = FoldError.of(replace(labels, cells=replace(labels.cells)), [rows, columns], masks)
    assert_allclose(candidates._worthwhile(error, start), len(start.vector) / error.test.sum())
    assert len(candidates.descend(error, start, HOW).losses) < n_dense


# Folds that cannot be learnt from ----------------------------------------------------------------------------------


def test_folds_without_labels_are_left_out():
    labels, rows, columns, masks = _problem()
    nobody = np.zeros(labels.cells.shape, dtype=bool)
    found = _learned(
        labels, [rows, columns], [*masks, (nobody, ~nobody), (~nobody, nobody)], HOW, 1, BOTH
    )
    plain = _learned(labels, [rows, columns], masks, HOW, 1, BOTH)
    assert_array_equal(found.held_out, plain.held_out)
    with pytest.raises(
        ValueError, match="No fold has labels both to learn from and to predict: use fewer folds"
    ):
        _learned(labels, [rows, columns], [(nobody, ~nobody)], HOW, 1, BOTH)


# Interrupts --------------------------------------------------------------------------------------------------------


class Stop:
    """Interrupts the n-th step of a stage."""

    def __init__(self, stage, step):
        self.stage = stage
        self.step = step
        self.steps = 0

    def __call__(self, stage, loss):
        self.steps += stage == self.stage
        if stage == self.stage and self.steps == self.step:
            raise KeyboardInterrupt


@pytest.fixture(scope="module")
def uninterrupted():
    found = _chosen(0, 1, 0.1, 0.2, 3)
    assert not found.interrupted
    assert len(found.stages) == 3
    return found


@over(lines("stage step", (0, 1), (1, 3)))
def test_an_interrupt_keeps_the_best_so_far(stage, step, uninterrupted):
    labels, rows, columns, masks = _problem(0, rank=1, noise=0.1)
    with keeping_best():
        found = _learned(labels, [rows, columns], masks, HOW, 3, BOTH, Stop(stage, step))
    assert found.interrupted
    assert len(found.stages) == stage + 1
    assert found.best == int(np.argmin([each.error for each in found.stages]))
    assert np.isfinite(found.held_out[labels.grid != 0]).all()
    assert [each.error for each in found.stages[:stage]] == [
        each.error for each in uninterrupted.stages[:stage]
    ]


@over(lines("call n_stages", (1, 1), (2, 2)))
def test_an_interrupt_between_descents_keeps_the_best_so_far(call, n_stages, monkeypatch):
    """While candidates are evaluated, or profiles are made."""
    labels, rows, columns, masks = _problem()
    few_steps = Descent(3, 0.1)
    evaluate = FoldError.evaluate
    calls = []

    def interrupted(self, parameters):
        calls.append(parameters)
        if len(calls) == call:
            raise KeyboardInterrupt
        return evaluate(self, parameters)

    monkeypatch.setattr(FoldError, "evaluate", interrupted)
    with keeping_best():
        found = _learned(labels, [rows, columns], masks, few_steps, 2, BOTH)
    assert found.interrupted
    assert len(found.stages) == n_stages
    monkeypatch.undo()
    monkeypatch.setattr(
        errors, "profile_kernels", lambda F: (_ for _ in ()).throw(KeyboardInterrupt())
    )
    with keeping_best():
        found = _learned(labels, [rows, columns], masks, few_steps, 2, BOTH)
    assert found.interrupted
    assert len(found.stages) == 1

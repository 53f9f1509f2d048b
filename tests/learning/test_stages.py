"""Stages: as many as lower the error, never worse than the best single kernel; and the descent in each of them."""

import math
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._interrupts import keeping_best
from dyadlearn.learning import error as errors
from dyadlearn.learning import stages
from dyadlearn.learning import stages as candidates
from dyadlearn.learning.error import ExactError, FoldError, weight_unit
from dyadlearn.learning.mixture import Mixture, Parameters
from dyadlearn.learning.stages import Descent, descend, learn
from dyadlearn.settings import Setting
from dyadlearn.solve import cells
from learning_case import distance_kernel, mixture, similarity, targets
from sweeps import lines, over

HOW = Descent(15, 0.1)
BOTH = (True, True)


def _problem(seed=0, shape=(14, 9), rank=2, noise=0.3, missing=0.2, kernels=(2, 1)):
    """Return labels of low rank, of which the first kernel of the instances tells something, the others nothing."""
    rng = default_rng(seed)
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
    labels, rows, columns, masks = _problem(2, noise=3.0, missing=0.5)
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
    monkeypatch.setattr("dyadlearn.vectrick.gather_cost", lambda like: 0)
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


# --- descent: what holds parameters back, what stays, and what remains after an interrupt --------

RNG = default_rng(0)
SIDES = [mixture(8, RNG), mixture(4, RNG)]
START = Parameters.start(SIDES)
LABELS = targets(np.zeros((8, 4)))
GOAL = START.vector + np.linspace(-0.8, 0.8, len(START.vector))


@dataclass
class Bowl:
    """exp of a squared distance, so that its logarithm is that, with troubles on request."""

    unit: float = 1.0
    troubles: dict = field(default_factory=dict)
    limits: tuple = Parameters.limits(SIDES, 1e-6)
    labels: object = LABELS
    calls: int = 0

    steepness: float = 1.0

    def loss(self, parameters):
        return self.unit * math.exp(self.steepness * float(np.sum((parameters.vector - GOAL) ** 2)))

    def slope(self, parameters):
        self.calls += 1
        trouble = self.troubles.get(self.calls)
        if isinstance(trouble, type):
            raise trouble
        loss = self.loss(parameters) if trouble is None else trouble
        return loss, 2 * self.steepness * (parameters.vector - GOAL) * (
            loss if math.isfinite(loss) else 1.0
        )


def _free(found):
    """Return the numbers that no limit holds: not the exponents."""
    return np.concatenate([*found.weights, found.shares, found.alpha])


def test_it_finds_the_least_error():
    found = descend(Bowl(), START, Descent(200, 0.0))
    assert_allclose(_free(found.parameters), _free(START.of(GOAL)), atol=0.02)
    assert len(found.losses) < 30
    assert not found.interrupted
    # Powers below one are not to be had of the first kernel.
    assert found.parameters.exponents[0][0] == 0


def test_the_error_is_that_of_the_parameters():
    # The second parameters have a smaller error and too large a penalty.
    found = descend(Bowl(), START, Descent(2, 8.0))
    assert_allclose(found.loss, Bowl().loss(found.parameters))
    assert min(found.losses) < found.loss


def test_the_units_of_the_labels_say_nothing():
    small, large = (
        descend(Bowl(unit=unit), START, Descent(30, 0.1)).parameters for unit in (1e-8, 1e8)
    )
    assert_allclose(small.vector, large.vector, rtol=1e-9)


@over(lines("few", 30.0, 300.0))
def test_shrinkage_holds_weights_and_exponents_back_but_not_the_rest(few):
    """The least of (x - g)² + s (x - x₀)² is at x₀ + (g - x₀) / (1 + s); s decreases with entities and labels."""
    found = descend(Bowl(), START, Descent(400, 8.0, few=few)).parameters
    goal = START.of(GOAL)
    for side, share in enumerate((1 + 8 * (1 / 8 + few / 32), 1 + 8 * (1 / 4 + few / 32))):
        wanted = (goal.weights[side] - START.weights[side]) / share
        assert_allclose(found.weights[side] - START.weights[side], wanted, atol=0.01)
    assert_allclose(
        np.append(found.shares, found.alpha), np.append(goal.shares, goal.alpha), atol=0.01
    )
    stiff = descend(Bowl(), START, Descent(100, 1e9)).parameters
    assert_allclose(np.append(*stiff.weights), 0.0, atol=1e-6)
    assert_allclose(
        np.append(stiff.shares, stiff.alpha), np.append(goal.shares, goal.alpha), atol=0.01
    )


def test_a_weight_counts_as_repeated_rows():
    """Where most labels have weight one; a common factor of the weights does not change the numbers of entities."""
    Y = np.arange(24.0).reshape(6, 4)
    repeats = np.array([1, 1, 1, 1, 3, 1])
    weights = np.repeat(repeats[:, None], 4, axis=1).astype(float)
    weighted = targets(Y, weights, "grand")
    repeated = targets(np.repeat(Y, repeats, axis=0), None, "grand")
    assert_allclose(weighted.sizes, repeated.sizes)
    assert_allclose(weighted.sizes, (8, 4, 32))
    assert_allclose(targets(Y.T, weights.T, "grand").sizes, (4, 8, 32))
    assert_allclose(targets(Y, 1e-9 * weights, "grand").sizes, (8, 4, 32e-9))


@over(
    lines(
        "weights unit",
        ([5.0], 5.0),
        ([1.0, 1.0, 1.0, 3.0], 1.0),
        ([1.0, 1.0, 1.0, 4.0], 4.0),
        ([1e8, 1.0, 1.0], 1e8),
        ([1e-3, 2.0, 2.0, 1e-3, 2.0], 2.0),
    )
)
def test_the_unit_of_weights_is_their_weighted_median(weights, unit):
    for factor in (1.0, 0.1, 1e-12, 3e150):
        found = weight_unit(factor * np.array(weights))
        assert_allclose(found, factor * unit)
        assert found == weight_unit(factor * np.array(weights[::-1]))


@pytest.mark.parametrize("trouble", [math.nan, math.inf])
def test_a_step_that_leads_nowhere_is_not_made(trouble):
    found = descend(Bowl(troubles=dict.fromkeys((3, 4), trouble)), START, Descent(200, 0.0))
    assert np.isfinite(found.parameters.vector).all()
    assert_allclose(_free(found.parameters), _free(START.of(GOAL)), atol=0.02)
    everywhere = descend(Bowl(troubles=dict.fromkeys(range(100), trouble)), START, Descent(20, 0.0))
    assert_array_equal(everywhere.parameters.vector, START.vector)


def test_an_interrupt_keeps_what_was_reached():
    with keeping_best():
        found = descend(Bowl(troubles={3: KeyboardInterrupt}), START, Descent(60, 0.0))
    assert found.interrupted
    assert len(found.losses) == 2
    assert Bowl().loss(found.parameters) == min(found.losses)
    with keeping_best():
        at_once = descend(Bowl(troubles={1: KeyboardInterrupt}), START, Descent(60, 0.0))
    assert at_once.interrupted
    assert_array_equal(at_once.parameters.vector, START.vector)
    with pytest.raises(KeyboardInterrupt):  # nothing is kept
        descend(Bowl(troubles={3: KeyboardInterrupt}), START, Descent(60, 0.0))


def test_it_starts_within_the_limits():
    wild = START.of(START.vector - 20.0)
    with keeping_best():
        found = descend(Bowl(troubles={1: KeyboardInterrupt}), wild, Descent(5, 0.0)).parameters
    assert_allclose(np.exp(found.alpha), 1e-6)
    assert_allclose(np.exp(found.exponents[0]), [1.0, 0.05])


def test_it_stops_when_the_error_stays():
    """An error that noise keeps from falling ends the descent long before its last step."""
    flat = Bowl(troubles={number: 1.0 + 1e-4 * (number % 3) for number in range(1, 400)})
    assert len(descend(flat, START, Descent(300, 0.0)).losses) < 10


def test_a_stage_that_stays_above_the_one_before_is_given_up(monkeypatch):
    monkeypatch.setattr(stages, "_TRIAL", 2)
    before = descend(Bowl(), START, Descent(300, 0.0)).losses
    assert len(before) > 2
    assert (
        descend(Bowl(), START, Descent(300, 0.0), least_before=0.5 * min(before)).losses
        == before[:2]
    )
    assert descend(Bowl(), START, Descent(300, 0.0), least_before=min(before[:2])).losses == before

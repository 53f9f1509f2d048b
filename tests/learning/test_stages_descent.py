"""Descent: what holds parameters back, what stays, and what remains after an interrupt."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dyadlearn._interrupts import keeping_best
from dyadlearn.learning import stages
from dyadlearn.learning.error import weight_unit
from dyadlearn.learning.mixture import Parameters
from dyadlearn.learning.stages import Descent, descend
from learning_case import mixture, targets
from sweeps import lines, over

RNG = np.random.default_rng(0)
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
    bowl = Bowl()
    assert bowl.loss(found.parameters) == min(found.losses)
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

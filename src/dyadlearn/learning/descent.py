"""Descent on a hold-out error: Adam, on its logarithm, with what regularises the parameters themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dyadlearn.learning.exact import ExactError
from dyadlearn.learning.folds import FoldError
from dyadlearn.learning.parameters import Parameters

__all__ = ["Descended", "Descent", "HoldoutError", "descend"]

# Of Adam: the first step, how much of it the last one still is, and how moments fade.
_STEP, _LAST, _FADING = 0.1, 0.1, (0.9, 0.999)
# The longest gradient that counts.
_LONGEST = 1.0


#: An error that can be descended on, as a mean of parts.
HoldoutError = FoldError | ExactError


@dataclass(frozen=True)
class Descent:
    """How parameters are learned.

    Attributes
    ----------
    n_steps : int
    shrinkage : float
        How much the logarithm of the error grows with the squared distance of the weights and exponents of a side from
        where they started, times the number of entities of that side.
    """

    n_steps: int
    shrinkage: float

    def penalties(self, parameters: Parameters, sizes: tuple[float, float]) -> np.ndarray:
        """Return how much each parameter is held back: the less, the more entities tell of it."""
        side, tasks = (self.shrinkage / size for size in sizes)
        return np.concatenate(
            [
                np.full(len(parameters.weights) + len(parameters.exponents), side),
                np.full(len(parameters.task_weights) + len(parameters.task_exponents), tasks),
                np.zeros(len(parameters.shares) + len(parameters.alpha)),
            ]
        )


@dataclass(frozen=True, eq=False)
class Descended:
    """Where a descent has come to.

    Attributes
    ----------
    parameters : Parameters
    losses : list of float
        Errors of the parts, step by step.
    interrupted : bool
        Whether somebody stopped it on the way.
    """

    parameters: Parameters
    losses: list[float]
    interrupted: bool


def descend(
    error: HoldoutError,
    start: Parameters,
    how: Descent,
    watch: Callable[[float], None] = lambda loss: None,
    held: np.ndarray | None = None,
) -> Descended:
    """Return parameters with a lower error, and the errors on the way.

    Each step takes one part of the error in turn. The minimised function is the logarithm of the error and the penalty,
    so that the units of the labels say nothing. A step that leads nowhere (no finite error or gradient) is not made.
    An error of one part ends at its least value on the way. Whoever interrupts the descent gets what was reached.

    Parameters
    ----------
    error : HoldoutError
    start : Parameters
    how : Descent
    watch : callable
        Told the error of each step.
    held : array of bool, optional
        Which numbers of the vector of parameters stay as they are.
    """
    origin, losses = start.within(error.limits).vector, []
    penalties = how.penalties(start, error.sizes)
    vector, first, second, taken = origin.copy(), np.zeros_like(origin), np.zeros_like(origin), 0
    kept, least, interrupted = origin, math.inf, False

    def value(loss: float) -> float:
        return math.log(loss) + float(penalties @ (vector - origin) ** 2)

    try:
        for step in range(how.n_steps):
            loss, slope = error.slope(start.of(vector), step % error.n_parts)
            losses.append(loss)
            watch(loss)
            if not (math.isfinite(loss) and loss > 0 and np.isfinite(slope).all()):
                continue
            if error.n_parts == 1 and value(loss) < least:
                kept, least = vector, value(loss)
            slope = slope / loss + 2.0 * penalties * (vector - origin)
            if held is not None:
                slope = np.where(held, 0.0, slope)
            slope *= min(1.0, _LONGEST / max(float(np.linalg.norm(slope)), 1e-300))
            taken += 1
            first = _FADING[0] * first + (1 - _FADING[0]) * slope
            second = _FADING[1] * second + (1 - _FADING[1]) * slope**2
            mean, square = first / (1 - _FADING[0] ** taken), second / (1 - _FADING[1] ** taken)
            rate = _STEP * (_LAST + (1 - _LAST) * 0.5 * (1 + math.cos(math.pi * step / how.n_steps)))
            vector = start.of(vector - rate * mean / (np.sqrt(square) + 1e-8)).within(error.limits).vector
        if error.n_parts == 1:
            loss = error.loss(start.of(vector), 0)
            vector = vector if 0 < loss < math.inf and value(loss) < least else kept
    except KeyboardInterrupt:
        vector, interrupted = kept if error.n_parts == 1 else vector, True
    return Descended(start.of(vector), losses, interrupted)

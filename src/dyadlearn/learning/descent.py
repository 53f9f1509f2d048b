"""Descent on a hold-out error: Adam, on its logarithm, with what regularises the parameters themselves."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dyadlearn._array import Array
from dyadlearn.learning.parameters import Limits, Parameters

__all__ = ["Descent", "HoldoutError", "descend"]

# Of Adam: the first step, how much of it the last one still is, and how moments fade.
_STEP, _LAST, _FADING = 0.1, 0.1, (0.9, 0.999)
# The longest gradient that counts.
_LONGEST = 1.0


class HoldoutError(Protocol):
    """An error that can be descended on, as a mean of parts."""

    @property
    def n_parts(self) -> int:
        """Of how many parts it is the mean."""

    def slope(self, parameters: Parameters, part: int) -> tuple[float, np.ndarray]:
        """Return one part and its derivatives."""

    def evaluate(self, parameters: Parameters) -> tuple[float, list[Array]]:
        """Return the error, and what is predicted of each part."""


@dataclass(frozen=True)
class Descent:
    """How parameters are learned.

    Attributes
    ----------
    n_steps : int
    penalty : float
        Of the squared distance of the parameters from their start, in the logarithm of the error.
    limits : Limits
    """

    n_steps: int
    penalty: float
    limits: Limits = Limits()


def descend(
    error: HoldoutError,
    start: Parameters,
    how: Descent,
    watch: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Parameters, list[float]]:
    """Return parameters with a lower error, and the errors on the way.

    Each step takes one part of the error in turn. The minimised function is the logarithm of the error and the penalty,
    so that the units of the labels say nothing. A step that leads nowhere (no finite error or gradient) is not made.

    Parameters
    ----------
    error : HoldoutError
    start : Parameters
    how : Descent
    watch : callable
        Told each step and the error of its part.
    """
    origin = start.within(how.limits).vector
    vector, first, second = origin.copy(), np.zeros_like(origin), np.zeros_like(origin)
    losses, taken = [], 0
    for step in range(how.n_steps):
        loss, slope = error.slope(start.of(vector), step % error.n_parts)
        losses.append(loss)
        watch(step, loss)
        if not (math.isfinite(loss) and loss > 0 and np.isfinite(slope).all()):
            continue
        slope = slope / loss + 2.0 * how.penalty * (vector - origin)
        slope *= min(1.0, _LONGEST / max(float(np.linalg.norm(slope)), 1e-300))
        taken += 1
        first = _FADING[0] * first + (1 - _FADING[0]) * slope
        second = _FADING[1] * second + (1 - _FADING[1]) * slope**2
        mean, square = first / (1 - _FADING[0] ** taken), second / (1 - _FADING[1] ** taken)
        rate = _STEP * (_LAST + (1 - _LAST) * 0.5 * (1 + math.cos(math.pi * step / how.n_steps)))
        vector = start.of(vector - rate * mean / (np.sqrt(square) + 1e-8)).within(how.limits).vector
    return start.of(vector), losses

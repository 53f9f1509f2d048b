"""All that is learned, as one vector and by its parts."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dyadlearn.learning.mixture import Mixture, softmax

__all__ = ["Limits", "Parameters"]

# The kernels of instances, and of tasks where something is known of them.
Sides = tuple[Mixture, Mixture | None]

# Where λ starts: kernels have a unit diagonal, so that it is the noise in units of the signal.
_START_ALPHA = 0.05
_MOST_ALPHA = 1e4
# Logarithms of the shares at the start, up to a constant: the product of both kernels, one function for each task, one
# for each instance.
_START_SHARES = (0.0, -2.0, -2.0)
# What the vector of parameters is made of, in its order.
_NUMBERS = ("weights", "exponents", "task_weights", "task_exponents", "shares", "alpha")
# The logit of a kernel beside one that is alone, and from which it may come back.
_ALONE, _OPENED = -12.0, -3.0


@dataclass(frozen=True, eq=False)
class Limits:
    """What values parameters may have, as logarithms.

    Attributes
    ----------
    exponents, task_exponents : (array, array)
        The least and the most of each.
    alpha : (float, float)
    """

    exponents: tuple[np.ndarray, np.ndarray]
    task_exponents: tuple[np.ndarray, np.ndarray]
    alpha: tuple[float, float]

    @classmethod
    def of(cls, mixture: Mixture, tasks: Mixture | None, least_alpha: float) -> Limits:
        """Return what the kernels of both sides and whatever solves the systems allow."""
        none = (np.zeros(0), np.zeros(0))
        own, others = mixture.exponent_limits, none if tasks is None else tasks.exponent_limits
        return cls(own, others, (np.log(least_alpha), np.log(_MOST_ALPHA)))


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is learned: logits of weights and shares, logarithms of exponents and of λ.

    Attributes
    ----------
    weights, task_weights : arrays of shape (n_weights,)
        Logits, the constant's last; empty for tasks where nothing is known of them.
    exponents, task_exponents : arrays of shape (n_exponents,)
        Logarithms.
    shares : array of shape (3,)
        Logits of the product, of one function for each task and of one for each instance.
    alpha : array of shape (1,)
        Its logarithm.
    constant : bool
        Whether the last weight of each side is that of a constant.
    """

    weights: np.ndarray
    exponents: np.ndarray
    task_weights: np.ndarray
    task_exponents: np.ndarray
    shares: np.ndarray
    alpha: np.ndarray
    constant: bool

    @classmethod
    def start(cls, mixture: Mixture, tasks: Mixture | None) -> Parameters:
        """Return where learning starts: all weights alike, kernels as they are."""
        none = np.zeros(0)
        return cls(
            np.zeros(mixture.n_weights),
            np.zeros(mixture.n_exponents),
            none if tasks is None else np.zeros(tasks.n_weights),
            none if tasks is None else np.zeros(tasks.n_exponents),
            none if tasks is None else np.array(_START_SHARES),
            np.array([np.log(_START_ALPHA)]),
            mixture.constant,
        )

    def beside(self, member: int | None, task_member: int | None) -> np.ndarray:
        """Tell of each number in `vector` whether it is the weight of another kernel than those, or the constant.

        Parameters
        ----------
        member, task_member : int or None
            A single kernel of each side; None for all of them.
        """
        others = self.of(np.zeros(len(self.vector), dtype=bool))
        for logits, place in ((others.weights, member), (others.task_weights, task_member)):
            if place is not None:
                logits[: len(logits) - self.constant] = True
                logits[place] = False
        return others.vector

    def singled(self, member: int | None, task_member: int | None) -> Parameters:
        """Return these with the weight of one kernel of a side alone, beside the constant's; None leaves a side."""
        alone = self.of(np.where(self.beside(member, task_member), _ALONE, self.vector))
        weights, task_weights = alone.weights.copy(), alone.task_weights.copy()
        for logits, place in ((weights, member), (task_weights, task_member)):
            if place is not None:
                logits[place] = 0.0
                logits[len(logits) - self.constant :] = 0.0
        return replace(alone, weights=weights, task_weights=task_weights)

    def opened(self) -> Parameters:
        """Return these with weights, where some had vanished, from which a descent leads back."""
        return replace(
            self, weights=np.maximum(self.weights, _OPENED), task_weights=np.maximum(self.task_weights, _OPENED)
        )

    def joined(self, start: Parameters) -> Parameters:
        """Return these with whatever `start` has more kernels, all of which have exponents, as it has them.

        A kernel that joins has the largest weight of its side.
        """

        def weights(own: np.ndarray, others: np.ndarray) -> np.ndarray:
            last = len(own) - self.constant
            most = np.full(len(others) - len(own), max(own, default=0.0))
            return np.concatenate([own[:last], most, own[last:]])

        def exponents(own: np.ndarray, others: np.ndarray) -> np.ndarray:
            return np.concatenate([own, others[len(own) :]])

        return replace(
            self,
            weights=weights(self.weights, start.weights),
            exponents=exponents(self.exponents, start.exponents),
            task_weights=weights(self.task_weights, start.task_weights),
            task_exponents=exponents(self.task_exponents, start.task_exponents),
        )

    @property
    def vector(self) -> np.ndarray:
        """All of them in a row."""
        return np.concatenate([getattr(self, name) for name in _NUMBERS])

    def of(self, vector: np.ndarray) -> Parameters:
        """Return parameters of the same sizes from a vector."""
        parts: dict[str, Any] = {}
        at = 0
        for name in _NUMBERS:
            size = len(getattr(self, name))
            parts[name], at = vector[at : at + size], at + size
        return replace(self, **parts)

    def within(self, limits: Limits) -> Parameters:
        """Return the nearest parameters that are allowed."""
        return replace(
            self,
            exponents=np.clip(self.exponents, *limits.exponents),
            task_exponents=np.clip(self.task_exponents, *limits.task_exponents),
            alpha=np.clip(self.alpha, *limits.alpha),
        )

    def accepted(self, sides: Sides, known: Sides | None = None) -> Parameters:
        """Return these with exponents with which all powers are kernels.

        Parameters
        ----------
        sides : (Mixture, Mixture or None)
            Of instances and of tasks.
        known : the same, optional
            Whose kernels need not be looked at.
        """
        found = []
        for exponents, side, seen in zip(
            (self.exponents, self.task_exponents), sides, known or (None, None), strict=True
        ):
            found.append(exponents if side is None else side.accepted(exponents, () if seen is None else seen.grams))
        return replace(self, exponents=found[0], task_exponents=found[1])

    @property
    def lam(self) -> float:
        """The regularisation λ."""
        return float(np.exp(self.alpha[0]))

    @cached_property
    def pair_shares(self) -> tuple[float, float, float]:
        """The shares of the pair kernel, which sum to one; one function for each task where there is no other side."""
        if not len(self.shares):
            return 0.0, 1.0, 0.0
        a, b, c = softmax(self.shares)
        return float(a), float(b), float(c)

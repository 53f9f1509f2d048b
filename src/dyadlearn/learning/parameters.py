"""All that is learned, as one vector and by its parts."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from dyadlearn.learning.mixture import Mixture, softmax

__all__ = ["Limits", "Parameters"]

# Where λ starts: kernels have a unit diagonal, so that it is the noise in units of the signal.
_START_ALPHA = 0.05
_MOST_ALPHA = 1e4
# Logarithms of the shares at the start, up to a constant: the product of both kernels, one function for each task, one
# for each instance.
_START_SHARES = (0.0, -2.0, -2.0)
# The logit of a kernel beside one that is to be alone.
_ALONE = -8.0


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
    """

    weights: np.ndarray
    exponents: np.ndarray
    task_weights: np.ndarray
    task_exponents: np.ndarray
    shares: np.ndarray
    alpha: np.ndarray

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
        )

    def singled(self, member: int | None, task_member: int | None, constant: bool) -> Parameters:
        """Return these with the weight of one kernel a side alone, beside the constant's; None leaves a side as it is.

        Parameters
        ----------
        member, task_member : int or None
        constant : bool
            Whether the last weight of each side is that of a constant.
        """

        def alone(logits: np.ndarray, place: int | None) -> np.ndarray:
            if place is None:
                return logits
            found = np.full_like(logits, _ALONE)
            found[place] = 0.0
            if constant:
                found[-1] = 0.0
            return found

        return replace(self, weights=alone(self.weights, member), task_weights=alone(self.task_weights, task_member))

    @property
    def vector(self) -> np.ndarray:
        """All of them in a row."""
        return np.concatenate([getattr(self, field.name) for field in fields(self)])

    def of(self, vector: np.ndarray) -> Parameters:
        """Return parameters of the same sizes from a vector."""
        parts, at = {}, 0
        for field in fields(self):
            size = len(getattr(self, field.name))
            parts[field.name], at = vector[at : at + size], at + size
        return Parameters(**parts)

    def within(self, limits: Limits) -> Parameters:
        """Return the nearest parameters that are allowed."""
        return replace(
            self,
            exponents=np.clip(self.exponents, *limits.exponents),
            task_exponents=np.clip(self.task_exponents, *limits.task_exponents),
            alpha=np.clip(self.alpha, *limits.alpha),
        )

    @property
    def lam(self) -> float:
        """The regularisation λ."""
        return float(np.exp(self.alpha[0]))

    @property
    def pair_shares(self) -> tuple[float, float, float]:
        """The shares of the pair kernel, which sum to one; one function for each task where there is no other side."""
        if not len(self.shares):
            return 0.0, 1.0, 0.0
        a, b, c = softmax(self.shares)
        return float(a), float(b), float(c)

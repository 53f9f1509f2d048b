r"""The kernel of one side as a weighted sum of powers, and its derivatives.

.. math:: \mathbf{K}(\theta) = \sum_i w_i \mathbf{K}_i^{\circ p_i} + w_0\mathbf{11}^\top, \qquad
          w = (1 - n\epsilon)\,\mathrm{softmax}(a) + \epsilon, \qquad p_i = e^{b_i}

The weights sum to one and none vanishes altogether, so that the constant can be the unit of all others. A power of an
RBF kernel is one of another bandwidth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, epsilon, is_definite, namespace

__all__ = ["Mixed", "Mixture", "softmax"]

# No weight is less than this.
_LEAST_WEIGHT = 1e-4
# The logarithm that zeros have: their powers are zeros, and so are these times it.
_LOG_ZERO = -1e4
# What exponents may be: of kernels all whose powers are kernels, and of others.
_DIVISIBLE, _POWERS = (0.05, 50.0), (1.0, 9.0)
# How many roundings of its trace an eigenvalue of a kernel may lie below zero.
_SLACK = 10.0
# Powers of anything smaller are those of this: a logarithm that grows without bound would rule the exponent.
_LEAST_ENTRY = 1e-6


def softmax(logits: np.ndarray) -> np.ndarray:
    """Return positive numbers that sum to one."""
    found = np.exp(logits - np.max(logits))
    return np.asarray(found / found.sum())


@dataclass(frozen=True, eq=False)
class Mixed:
    """The kernel of a side at some parameters.

    Attributes
    ----------
    kernel : array of shape (n, n)
    powers : list of arrays of shape (n, n)
    """

    kernel: Array
    powers: list[Array]


@dataclass(frozen=True, eq=False)
class Mixture:
    """Gram matrices of one side that are to be mixed.

    Parameters
    ----------
    grams : sequence of arrays of shape (n, n)
        On a common scale, such as that of a unit diagonal.
    has_exponent : sequence of bool
        Which of them are raised to a power; they have no negative entries.
    constant : bool
        Whether a kernel of ones is among them, as the last.
    divisible : sequence of bool
        Of which of them all powers are kernels, as of RBF kernels; none where not given. A power below one of any other
        positive definite matrix need not be one.
    """

    grams: Sequence[Array]
    has_exponent: Sequence[bool]
    constant: bool
    divisible: Sequence[bool] = ()

    @property
    def n_weights(self) -> int:
        """How many weights there are."""
        return len(self.grams) + self.constant

    @property
    def n_exponents(self) -> int:
        """How many exponents there are."""
        return sum(self.has_exponent)

    @property
    def exponent_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """The logarithms of the least and the most that each exponent may be."""
        allowed = [
            _DIVISIBLE if free else _POWERS for free, power in zip(self._free, self.has_exponent, strict=True) if power
        ]
        low, high = np.log(np.array(allowed).reshape(-1, 2)).T
        return low, high

    @property
    def _free(self) -> list[bool]:
        """Of which all powers are kernels."""
        return [*self.divisible, *(False for _ in self.grams[len(self.divisible) :])]

    @cached_property
    def _logs(self) -> list[Array | None]:
        return [_log(gram) if power else None for gram, power in zip(self.grams, self.has_exponent, strict=True)]

    def joined(self, grams: Sequence[Array], divisible: Sequence[bool]) -> Mixture:
        """Return the mixture with more Gram matrices, all of which have exponents."""
        powers = [*self.has_exponent, *(True for _ in grams)]
        more = Mixture([*self.grams, *grams], powers, self.constant, [*self._free, *divisible[: len(grams)]])
        # Logarithms of the old ones are not taken again.
        more.__dict__["_logs"] = [*self._logs, *map(_log, grams)]
        return more

    def weights(self, logits: np.ndarray) -> np.ndarray:
        """Return the weights, the constant's last."""
        return np.asarray((1 - len(logits) * _LEAST_WEIGHT) * softmax(logits) + _LEAST_WEIGHT)

    def accepted(self, log_exponents: np.ndarray, known: Sequence[Array] = ()) -> np.ndarray:
        """Return exponents with which all powers are kernels: the next whole number where one is none.

        A whole power of a kernel is one, whatever the kernel; another, even above one, need not be.

        Parameters
        ----------
        log_exponents : array of shape (n_exponents,)
        known : sequence of arrays of shape (n, n)
            Those of `grams` that need not be looked at.
        """
        found, number = np.array(log_exponents), 0
        for gram, log, free in zip(self.grams, self._logs, self._free, strict=True):
            if log is None:
                continue
            exponent, is_known = float(np.exp(found[number])), free or any(gram is each for each in known)
            if not is_known and exponent < math.ceil(exponent) and not _is_kernel(namespace(log).exp(exponent * log)):
                found[number] = np.log(math.ceil(exponent))
            number += 1
        return found

    def mixed(self, logits: np.ndarray, log_exponents: np.ndarray) -> Mixed:
        """Return the kernel at some parameters."""
        weights, exponents = self.weights(logits), iter(np.exp(log_exponents))
        powers: list[Array] = []
        kernel: Array = None
        for gram, log, weight in zip(self.grams, self._logs, weights[: len(self.grams)], strict=True):
            power = gram if log is None else namespace(log).exp(float(next(exponents)) * log)
            powers.append(power)
            kernel = float(weight) * power if kernel is None else _added(kernel, float(weight), power)
        if self.constant:
            kernel = kernel + float(weights[-1])
        return Mixed(kernel, powers)

    def gradient(
        self, slope: Array, logits: np.ndarray, log_exponents: np.ndarray, mixed: Mixed
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return derivatives of a function of the kernel with respect to the parameters.

        Parameters
        ----------
        slope : array of shape (n, n)
            Derivatives with respect to the entries of the kernel.
        logits, log_exponents : arrays of shape (n_weights,) and (n_exponents,)
        mixed : Mixed
            What they give.
        """
        weights, exponents = self.weights(logits), iter(np.exp(log_exponents))
        by_weight, by_exponent = np.zeros(self.n_weights), []
        for number, (power, log) in enumerate(zip(mixed.powers, self._logs, strict=True)):
            product = slope * power
            by_weight[number] = _sum(product)
            if log is not None:
                by_exponent.append(weights[number] * next(exponents) * _sum(product * log))
        if self.constant:
            by_weight[-1] = _sum(slope)
        shares = softmax(logits)
        by_logit = (1 - len(logits) * _LEAST_WEIGHT) * shares * (by_weight - float(shares @ by_weight))
        return by_logit, np.array(by_exponent)


def _added(total: Array, weight: float, power: Array) -> Array:
    total += weight * power
    return total


def _is_kernel(power: Array) -> bool:
    """Tell whether a matrix with a unit diagonal has no negative eigenvalue beyond rounding."""
    n = power.shape[0]
    slack = _SLACK * n * epsilon(power)
    return is_definite(power + slack * namespace(power).eye(n, dtype=power.dtype, device=power.device))


def _sum(array: Array) -> float:
    return float(namespace(array).sum(array))


def _log(gram: Array) -> Array:
    """Return the logarithms of entries, of zeros a number so low that their powers are zeros."""
    xp = namespace(gram)
    safe = xp.where(gram > _LEAST_ENTRY, gram, xp.full_like(gram, _LEAST_ENTRY))
    return xp.where(gram > 0, xp.log(safe), xp.full_like(gram, _LOG_ZERO))

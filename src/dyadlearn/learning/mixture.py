r"""The kernel of one side as a weighted sum of powers, and its derivatives.

.. math:: \mathbf{K}(\theta) = \sum_i w_i \mathbf{K}_i^{\circ p_i} + w_0\mathbf{11}^\top, \qquad
          w = (1 - n\epsilon)\,\mathrm{softmax}(a) + \epsilon, \qquad p_i = e^{b_i}

The weights sum to one and none vanishes altogether, so that the constant can be the unit of all others. A power of an
RBF kernel is one of another bandwidth.

All that is learned, as one vector and by its parts.

Profile kernels: entities are alike whose rows of a completed grid are.

Of a grid **F** that is completed from labels of training alone, with rows :math:`f_i` less their mean,

.. math:: \exp\bigl(-\|f_i - f_j\|^2 / \overline{\|f_i - f_j\|^2}\bigr), \qquad
          \tfrac12\bigl(1 + \cos(f_i, f_j)\bigr).

The kernel between pairs as an operator on grids, with derivatives.

.. math:: P(\mathbf{X}) = a\,\mathbf{KXG} + b\,\mathbf{KX} + c\,\mathbf{XG}
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dyadlearn._array import Array, epsilon, is_definite, namespace
from dyadlearn.solve.conjugate_gradients import inner

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
    def logs(self) -> list[Array | None]:
        """Logarithms of the Gram matrices that are raised to a power."""
        return [_log(gram) if power else None for gram, power in zip(self.grams, self.has_exponent, strict=True)]

    def joined(self, grams: Sequence[Array], divisible: Sequence[bool]) -> Mixture:
        """Return the mixture with more Gram matrices, all of which have exponents."""
        powers = [*self.has_exponent, *(True for _ in grams)]
        more = Mixture([*self.grams, *grams], powers, self.constant, [*self._free, *divisible[: len(grams)]])
        # Logarithms of the old ones are not taken again.
        more.__dict__["logs"] = [*self.logs, *map(_log, grams)]
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
        for gram, log, free in zip(self.grams, self.logs, self._free, strict=True):
            if log is None:
                continue
            exponent, is_known = float(np.exp(found[number])), free or any(gram is each for each in known)
            if not is_known and exponent < math.ceil(exponent) and not _is_kernel(namespace(log).exp(exponent * log)):
                found[number] = np.log(math.ceil(exponent))
            number += 1
        return found

    def mixed(self, logits: np.ndarray, log_exponents: np.ndarray) -> Mixed:
        """Return the kernel at some parameters."""
        exponents = iter(np.exp(log_exponents))
        powers = [
            gram if log is None else namespace(log).exp(float(next(exponents)) * log)
            for gram, log in zip(self.grams, self.logs, strict=True)
        ]
        weights = self.weights(logits)
        kernel = float(weights[0]) * powers[0]
        for weight, power in zip(weights[1:], powers[1:], strict=False):
            kernel += float(weight) * power
        if self.constant:
            kernel = kernel + float(weights[-1])
        return Mixed(self, logits, log_exponents, kernel, powers)


@dataclass(frozen=True, eq=False)
class Mixed:
    """The kernel of a side at some parameters.

    Attributes
    ----------
    mixture : Mixture
    logits, log_exponents : arrays of shape (n_weights,) and (n_exponents,)
    kernel : array of shape (n, n)
    powers : list of arrays of shape (n, n)
    """

    mixture: Mixture
    logits: np.ndarray
    log_exponents: np.ndarray
    kernel: Array
    powers: list[Array]

    def gradient(self, slope: Array) -> list[np.ndarray]:
        """Return derivatives with respect to logits and logarithms of exponents.

        Parameters
        ----------
        slope : array of shape (n, n)
            Derivatives with respect to the entries of the kernel.
        """
        shares, exponents = softmax(self.logits), iter(np.exp(self.log_exponents))
        weights, by_weight, by_exponent = self.mixture.weights(self.logits), np.zeros(len(self.logits)), []
        for number, (power, log) in enumerate(zip(self.powers, self.mixture.logs, strict=True)):
            product = slope * power
            by_weight[number] = _sum(product)
            if log is not None:
                by_exponent.append(weights[number] * next(exponents) * _sum(product * log))
        if self.mixture.constant:
            by_weight[-1] = _sum(slope)
        by_logit = (1 - len(shares) * _LEAST_WEIGHT) * shares * (by_weight - float(shares @ by_weight))
        return [by_logit, np.array(by_exponent)]


def _is_kernel(power: Array) -> bool:
    """Return whether a matrix with a unit diagonal has no negative eigenvalue beyond rounding."""
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


#: The kernels of instances and, where something is known of them, of tasks.
Sides = Sequence[Mixture]

# Where λ starts: kernels have a unit diagonal, so that it is the noise in units of the signal.
_START_ALPHA = 0.05
_MOST_ALPHA = 1e4
# Logarithms of the shares at the start, up to a constant: the product of both kernels, one function for each task, one
# for each instance.
_START_SHARES = (0.0, -2.0, -2.0)
# A single kernel of each side; None for all of them.
Single = tuple[int | None, int | None]

# The logit of a kernel beside one that is alone, and from which it may come back.
_ALONE, _OPENED = -12.0, -3.0


@dataclass(frozen=True, eq=False)
class Parameters:
    """What is learned: logits of weights and shares, logarithms of exponents and of λ.

    Attributes
    ----------
    weights : sequence of arrays of shape (n_weights,)
        Logits of each side, the constant's last.
    exponents : sequence of arrays of shape (n_exponents,)
        Logarithms, of each side.
    shares : array of shape (3,)
        Logits of the product, of one function for each task and of one for each instance; empty for one side.
    alpha : array of shape (1,)
        Its logarithm.
    constant : bool
        Whether the last weight of each side is that of a constant.
    """

    weights: Sequence[np.ndarray]
    exponents: Sequence[np.ndarray]
    shares: np.ndarray
    alpha: np.ndarray
    constant: bool

    @classmethod
    def start(cls, sides: Sides) -> Parameters:
        """Return where learning starts: all weights alike, kernels as they are."""
        weights, exponents = zip(
            *((np.zeros(side.n_weights), np.zeros(side.n_exponents)) for side in sides), strict=True
        )
        shares = np.array(_START_SHARES if len(sides) > 1 else ())
        return cls(weights, exponents, shares, np.log([_START_ALPHA]), sides[0].constant)

    @classmethod
    def limits(cls, sides: Sides, least_alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the least and the most that each number in `vector` may be, for kernels and for what solves with λ."""
        start = cls.start(sides)
        ends = []
        for end, (free, alpha) in enumerate(((-np.inf, least_alpha), (np.inf, _MOST_ALPHA))):
            found = start.of(np.full(len(start.vector), free))
            exponents = [side.exponent_limits[end] for side in sides]
            ends.append(replace(found, exponents=exponents, alpha=np.log([alpha])).vector)
        return ends[0], ends[1]

    def beside(self, single: Single) -> np.ndarray:
        """Return which numbers of `vector` are weights of kernels beside a single one, or of the constant."""
        others = self.of(np.zeros(len(self.vector), dtype=bool))
        for logits, place in zip(others.weights, single, strict=False):
            if place is not None:
                logits[: len(logits) - self.constant] = True
                logits[place] = False
        return others.vector

    def singled(self, single: Single) -> Parameters:
        """Return these with the weight of one kernel of a side alone, beside the constant's."""
        alone = self.of(np.where(self.beside(single), _ALONE, self.vector))
        for logits, place in zip(alone.weights, single, strict=False):
            if place is not None:
                logits[place] = 0.0
                logits[len(logits) - self.constant :] = 0.0
        return alone

    def opened(self) -> Parameters:
        """Return these with weights, where some had vanished, from which a descent leads back."""
        return replace(self, weights=[np.maximum(logits, _OPENED) for logits in self.weights])

    def joined(self, start: Parameters) -> Parameters:
        """Return these with whatever `start` has more kernels, all of which have exponents, as it has them.

        A kernel that joins has the largest weight of its side.
        """
        weights = [
            np.insert(own, len(own) - self.constant, np.full(len(others) - len(own), max(own)))
            for own, others in zip(self.weights, start.weights, strict=True)
        ]
        exponents = [
            np.concatenate([own, others[len(own) :]])
            for own, others in zip(self.exponents, start.exponents, strict=True)
        ]
        return replace(self, weights=weights, exponents=exponents)

    @property
    def _parts(self) -> list[np.ndarray]:
        sides = zip(self.weights, self.exponents, strict=True)
        return [*(part for side in sides for part in side), self.shares, self.alpha]

    @property
    def vector(self) -> np.ndarray:
        """All of them in a row: weights and exponents of each side, shares and λ."""
        return np.concatenate(self._parts)

    def of(self, vector: np.ndarray) -> Parameters:
        """Return parameters of the same sizes from a vector."""
        ends = np.cumsum([len(part) for part in self._parts])
        *sides, shares, alpha = np.split(vector, ends[:-1])
        return replace(self, weights=sides[::2], exponents=sides[1::2], shares=shares, alpha=alpha)

    def accepted(self, sides: Sides, known: Sides | None = None) -> Parameters:
        """Return these with exponents with which all powers are kernels.

        Parameters
        ----------
        sides : sequence of Mixture
        known : the same, optional
            Whose kernels need not be looked at.
        """
        seen: list[Sequence[Array]] = [()] * len(sides) if known is None else [side.grams for side in known]
        given = zip(sides, self.exponents, seen, strict=True)
        return replace(self, exponents=[side.accepted(own, grams) for side, own, grams in given])

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


#: What profile kernels are called, in the order of `profile_kernels`.
PROFILES = ("profile distance", "profile angle")
#: Of which of them all powers are kernels.
DIVISIBLE = (True, False)


def profile_kernels(completed: Array) -> list[Array]:
    """Return the profile kernels (n, n) of the rows of a completed grid (n, q).

    Examples
    --------
    >>> import numpy as np
    >>> distance, angle = profile_kernels(np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 2.0]]))
    >>> distance.round(2)
    array([[1.  , 1.  , 0.11],
           [1.  , 1.  , 0.11],
           [0.11, 0.11, 1.  ]])
    >>> angle
    array([[1., 1., 0.],
           [1., 1., 0.],
           [0., 0., 1.]])
    """
    xp, dtype = namespace(completed), completed.dtype
    # Distances are differences of squares: in single precision their kernel would not be one.
    completed = xp.astype(completed, xp.float64)
    rows = completed - xp.mean(completed, axis=0)
    products = rows @ rows.T
    squares = xp.linalg.diagonal(products)
    distances = squares[:, None] + squares[None, :] - 2.0 * products
    distances = xp.where(distances > 0, distances, xp.zeros_like(distances))
    mean = float(xp.mean(distances))
    distance = xp.exp(distances * (-1.0 / mean if mean > 0 else 0.0))
    # A row without any deviation of its own points nowhere: half-way from all others, but for itself.
    lengths = xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares)))
    angle = products / lengths[:, None] / lengths[None, :]
    angle = xp.clip(0.5 + 0.5 * (angle + angle.T) / 2, 0.0, 1.0)
    here = xp.eye(completed.shape[0], dtype=completed.dtype, device=completed.device)
    return [xp.astype((part + part.T) / 2 * (1 - here) + here, dtype) for part in (distance, angle)]


class Slopes(NamedTuple):
    """Derivatives of an error: with respect to the kernel of each side, the shares and λ.

    Attributes
    ----------
    kernels : list of arrays of shape (m, m) and (q, q)
    shares : array of shape (3,)
    lam : float
    """

    kernels: list[Array]
    shares: np.ndarray
    lam: float


@dataclass(frozen=True, eq=False)
class PairOperator:
    """The kernel between pairs at some parameters.

    Parameters
    ----------
    parameters : Parameters
    sides : list of Mixed
        The kernels that they give.
    """

    parameters: Parameters
    sides: list[Mixed]

    @classmethod
    def at(cls, sides: Sides, parameters: Parameters) -> PairOperator:
        """Return the operator that parameters give."""
        given = zip(sides, parameters.weights, parameters.exponents, strict=True)
        return cls(parameters, [side.mixed(*own) for side, *own in given])

    def __call__(self, X: Array) -> Array:
        """Apply the kernel to a grid (m, q), by two products."""
        K, *tasks = (side.kernel for side in self.sides)
        if not tasks:
            return K @ X
        a, b, c = self.parameters.pair_shares
        beside = X @ tasks[0]
        found = K @ (a * beside + b * X)
        beside *= c
        found += beside
        return found

    def slopes(self, left: Array, right: Array, lam: float) -> Slopes:
        """Return what ⟨left, dP right⟩ is for each of the kernels and shares, beside that of λ."""
        K, *tasks = (side.kernel for side in self.sides)
        if not tasks:
            return Slopes([left @ right.T], np.zeros(0), lam)
        a, b, c = self.parameters.pair_shares
        beside, above = right @ tasks[0], K @ right
        shares = np.array([inner(K @ left, beside), inner(left, above), inner(left, beside)])
        return Slopes([left @ (a * beside + b * right).T, (a * above + c * right).T @ left], shares, lam)

    def gradient(self, slopes: Slopes) -> np.ndarray:
        """Return derivatives with respect to all parameters as a vector."""
        parts = [part for side, slope in zip(self.sides, slopes.kernels, strict=True) for part in side.gradient(slope)]
        if len(self.sides) > 1:
            shares = np.array(self.parameters.pair_shares)
            parts.append(shares * (slopes.shares - float(shares @ slopes.shares)))
        return np.concatenate([*parts, [self.parameters.lam * slopes.lam]])

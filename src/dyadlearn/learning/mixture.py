r"""Parameters of learned kernels, and the kernels between rows and between pairs that they give, with derivatives.

`Mixture` is the kernel of one side, a weighted sum of powers of Gram matrices:

.. math:: \mathbf{K}(\theta) = \sum_i w_i \mathbf{K}_i^{\circ p_i} + w_0\mathbf{11}^\top, \qquad
          w = (1 - n\epsilon)\,\mathrm{softmax}(a) + \epsilon, \qquad p_i = e^{b_i}

The weights sum to one and are positive, so that all weights can be divided by that of the constant.
A power of an RBF kernel is an RBF kernel with another bandwidth.

`profile_kernels` compares the rows :math:`f_i` of a completed grid **F**, centred by their mean:

.. math:: \exp\bigl(-\|f_i - f_j\|^2 / \overline{\|f_i - f_j\|^2}\bigr), \qquad
          \tfrac12\bigl(1 + \cos(f_i, f_j)\bigr).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import softmax

from dyadlearn._array import (
    Array,
    cached_blocks,
    cast,
    epsilon,
    is_definite,
    is_foreign,
    namespace,
    with_diagonal,
)
from dyadlearn._threads import for_each
from dyadlearn.solve.conjugate_gradients import inner

# Minimum weight.
_LEAST_WEIGHT = 1e-4
# Logarithm of zero: every power of zero underflows to zero.
_LOG_ZERO = -1e4
# Bounds of the exponents: of kernels all of whose powers are kernels, and of other kernels.
_DIVISIBLE = (0.05, 50.0)
_POWERS = (1.0, 9.0)
# Tolerance for negative eigenvalues of a kernel, in units of n times the machine precision.
_SLACK = 10.0
# Smaller positive entries are replaced by this value: an unbounded logarithm would dominate the
# exponent.
_LEAST_ENTRY = 1e-6


@dataclass(frozen=True, eq=False)
class Mixture:
    """Gram matrices of one side, whose weighted sum is the kernel of the side.

    Parameters
    ----------
    grams : sequence of arrays of shape (n, n) or (f, n, n)
        Gram matrices on a common scale, such as that of a unit diagonal: one for all folds, or one
        per fold.
    has_exponent : sequence of bool
        Whether each matrix is raised to a power; then it has no negative entries.
    constant : bool
        Whether a kernel of ones is added, as the last one.
    divisible : sequence of bool
        Whether all powers of each matrix are kernels, as for RBF kernels; False for matrices
        without an entry. A power of any other kernel need not be a kernel.
    """

    grams: Sequence[Array]
    has_exponent: Sequence[bool]
    constant: bool
    divisible: Sequence[bool] = ()

    @property
    def n_weights(self) -> int:
        """Number of weights."""
        return len(self.grams) + self.constant

    @property
    def n_exponents(self) -> int:
        """Number of exponents."""
        return sum(self.has_exponent)

    @property
    def exponent_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Logarithms of the lower and upper bound of each exponent."""
        allowed = [
            _DIVISIBLE if free else _POWERS
            for free, power in zip(self._free, self.has_exponent, strict=True)
            if power
        ]
        low, high = np.log(np.array(allowed).reshape(-1, 2)).T
        return low, high

    @property
    def _free(self) -> list[bool]:
        """Whether all powers of each matrix are kernels."""
        return [*self.divisible, *(False for _ in self.grams[len(self.divisible) :])]

    @cached_property
    def logs(self) -> list[Array | None]:
        """Logarithms of the Gram matrices that are raised to a power."""
        return [
            _log(gram) if power else None
            for gram, power in zip(self.grams, self.has_exponent, strict=True)
        ]

    def joined(self, grams: Sequence[Array], divisible: Sequence[bool]) -> Mixture:
        """Return the mixture with more Gram matrices, all of which have exponents."""
        powers = [*self.has_exponent, *(True for _ in grams)]
        more = Mixture(
            [*self.grams, *grams], powers, self.constant, [*self._free, *divisible[: len(grams)]]
        )
        # Reuse the logarithms that are already computed.
        more.__dict__["logs"] = [*self.logs, *map(_log, grams)]
        return more

    def converted(self, convert: Callable[[Array], Array]) -> Mixture:
        """Return the mixture with other arrays, in single precision or on another device."""
        return replace(self, grams=[convert(gram) for gram in self.grams])

    def of_folds(self, folds: slice | int) -> Mixture:
        """Return the mixture of some folds, or of one of them."""

        def part(array: Array | None) -> Array | None:
            if array is None or array.ndim == 2:
                return array
            return array[folds, ...]

        fewer = replace(self, grams=[part(gram) for gram in self.grams])
        fewer.__dict__["logs"] = [part(log) for log in self.logs]
        return fewer

    @staticmethod
    def weights(logits: np.ndarray) -> np.ndarray:
        """Return the weights; that of the constant is the last."""
        return np.asarray((1 - len(logits) * _LEAST_WEIGHT) * softmax(logits) + _LEAST_WEIGHT)

    def accepted(self, log_exponents: np.ndarray, known: Sequence[Array] = ()) -> np.ndarray:
        """Return exponents for which all powers are kernels: an invalid exponent is rounded up to a whole number.

        A whole power of a kernel is always a kernel; any other power need not be.

        Parameters
        ----------
        log_exponents : array of shape (n_exponents,)
        known : sequence of arrays of shape (n, n)
            Matrices of `grams` that are not checked.
        """
        accepted = np.array(log_exponents)
        number = 0
        for gram, log, free in zip(self.grams, self.logs, self._free, strict=True):
            if log is None:
                continue
            exponent = float(np.exp(accepted[number]))
            is_known = free or any(gram is other for other in known)
            if (
                not is_known
                and exponent < math.ceil(exponent)
                and not _is_kernel(namespace(log).exp(exponent * log))
            ):
                accepted[number] = np.log(math.ceil(exponent))
            number += 1
        return accepted

    def mixed(self, logits: np.ndarray, log_exponents: np.ndarray) -> Mixed:
        """Return the kernel for given parameters."""
        xp, weights, exponents = (
            namespace(*self.grams),
            self.weights(logits),
            iter(np.exp(log_exponents)),
        )
        factors = [None if log is None else float(next(exponents)) for log in self.logs]
        powers = [
            gram if log is None else xp.empty_like(log)
            for gram, log in zip(self.grams, self.logs, strict=True)
        ]
        kernel = xp.empty_like(max(powers, key=lambda power: power.ndim))

        def mix(rows: slice) -> None:
            """Compute some rows while they are in the cache."""
            total = float(weights[-1]) if self.constant else 0.0
            for weight, factor, power, log in zip(
                weights, factors, powers, self.logs, strict=False
            ):
                if log is not None:
                    power[..., rows, :] = xp.exp(factor * log[..., rows, :])
                total = total + float(weight) * power[..., rows, :]
            kernel[..., rows, :] = total

        *per_row, n = kernel.shape
        blocks = list(cached_blocks(n, kernel, tuple(per_row)))
        size = math.prod(kernel.shape)
        for_each(mix, blocks, kernel, n_operations=20.0 * len(powers) * size)
        return Mixed(self, logits, log_exponents, kernel, powers)


@dataclass(frozen=True, eq=False)
class Mixed:
    """Kernel of a side for given parameters.

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
        """Return the derivatives of an error with respect to the logits and the logarithms of the exponents.

        Parameters
        ----------
        slope : array of shape (n, n) or (f, n, n)
            Derivatives of the error with respect to the entries of the kernel, summed over folds or
            of each fold.
        """
        shares = softmax(self.logits)
        weights = self.mixture.weights(self.logits)
        logs = self.mixture.logs
        by_weight, by_power = np.zeros(len(self.logits)), np.zeros(len(logs))
        total = slope
        if slope.ndim == 3:
            total = namespace(slope).sum(slope, axis=0)

        def multiply(number: int) -> None:
            power = self.powers[number]
            log = logs[number]
            product = (total if power.ndim == 2 else slope) * power
            by_weight[number] = _sum(product)
            if log is not None:
                by_power[number] = weights[number] * inner(product, log)

        for_each(
            multiply,
            range(len(logs)),
            slope,
            n_operations=20.0 * len(logs) * math.prod(slope.shape),
        )
        by_exponent = np.exp(self.log_exponents) * by_power[[log is not None for log in logs]]
        if self.mixture.constant:
            by_weight[-1] = _sum(total)
        by_logit = (
            (1 - len(shares) * _LEAST_WEIGHT) * shares * (by_weight - float(shares @ by_weight))
        )
        return [by_logit, by_exponent]


def single(array: Array) -> Array:
    """Return an array in single precision."""
    return cast(array, namespace(array).float32)


def _is_kernel(power: Array) -> bool:
    """Return whether a matrix with a unit diagonal has no negative eigenvalue beyond rounding."""
    if power.ndim == 3:
        return all(_is_kernel(power[i, ...]) for i in range(power.shape[0]))
    n = power.shape[0]
    slack = _SLACK * n * epsilon(power)
    return is_definite(
        power + slack * namespace(power).eye(n, dtype=power.dtype, device=power.device)
    )


def _sum(array: Array) -> float:
    return float(namespace(array).sum(array))


def _log(gram: Array) -> Array:
    """Return the logarithms of the entries; that of zero is a number whose exponential underflows to zero."""
    xp = namespace(gram)
    safe = xp.where(gram > _LEAST_ENTRY, gram, _LEAST_ENTRY)
    return xp.where(gram > 0, xp.log(safe), _LOG_ZERO)


#: Kernels of the instances and, if the model has a task side, of the tasks.
Sides = Sequence[Mixture]

# Start value and maximum of λ. Kernels have a unit diagonal, so λ is the ratio of noise to signal.
_START_ALPHA = 0.3
_MOST_ALPHA = 1e4
# Start values of the logits of the shares: of the product kernel, of the kernel per task and of
# that per instance.
_START_SHARES = (0.0, -1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Parameters:
    """Learned parameters: logits of weights and shares, logarithms of exponents and of λ.

    Attributes
    ----------
    weights : sequence of arrays of shape (n_weights,)
        Logits of the weights of each side; that of the constant is the last.
    exponents : sequence of arrays of shape (n_exponents,)
        Logarithms of the exponents of each side.
    shares : array of shape (3,)
        Logits of the shares of the product kernel, of the kernel per task and of that per instance;
        empty without a task side.
    alpha : array of shape (1,)
        Logarithm of λ.
    constant : bool
        Whether the last weight of each side is that of a constant.
    """

    weights: Sequence[np.ndarray]
    exponents: Sequence[np.ndarray]
    shares: np.ndarray
    alpha: np.ndarray
    constant: bool

    @classmethod
    def start(cls, sides: Sides, constant: float | None = None) -> Parameters:
        """Return the start values: equal weights and exponents of one.

        `constant` is the weight of the constant of a side relative to the sum of the weights of its
        kernels; None means that it equals the weight of each kernel.
        """
        weights = [np.zeros(side.n_weights) for side in sides]
        if constant is not None and sides[0].constant:
            for side, logits in zip(sides, weights, strict=True):
                logits[-1] = math.log(constant * len(side.grams))
        exponents = [np.zeros(side.n_exponents) for side in sides]
        shares = np.array(_START_SHARES if len(sides) > 1 else ())
        return cls(weights, exponents, shares, np.log([_START_ALPHA]), sides[0].constant)

    @classmethod
    def limits(cls, sides: Sides, least_alpha: float) -> tuple[np.ndarray, np.ndarray]:
        """Return the lower and upper bounds of `vector`; `least_alpha` is the lower bound of λ."""
        start = cls.start(sides)

        def bound(free: float, end: int, alpha: float) -> np.ndarray:
            exponents = [side.exponent_limits[end] for side in sides]
            return replace(
                start.of(start.vector + free), exponents=exponents, alpha=np.log([alpha])
            ).vector

        return bound(-np.inf, 0, least_alpha), bound(np.inf, 1, _MOST_ALPHA)

    def joined(self, start: Parameters) -> Parameters:
        """Return the parameters with the additional kernels of `start`, all of which have exponents.

        An additional kernel gets a fifth of the largest weight of its side. The error then starts
        near that of these parameters, and a stage that cannot lower it ends early.
        """
        weights = [
            np.insert(
                old, len(old) - self.constant, np.full(len(more) - len(old), max(old) + np.log(0.2))
            )
            for old, more in zip(self.weights, start.weights, strict=True)
        ]
        exponents = [
            np.concatenate([old, more[len(old) :]])
            for old, more in zip(self.exponents, start.exponents, strict=True)
        ]
        return replace(self, weights=weights, exponents=exponents)

    @property
    def _parts(self) -> list[np.ndarray]:
        sides = zip(self.weights, self.exponents, strict=True)
        return [*(part for side in sides for part in side), self.shares, self.alpha]

    @property
    def vector(self) -> np.ndarray:
        """All parameters as one vector: weights and exponents of each side, shares and λ."""
        return np.concatenate(self._parts)

    def of(self, vector: np.ndarray) -> Parameters:
        """Return the parameters of a vector, with the sizes of these."""
        ends = np.cumsum([len(part) for part in self._parts])
        *sides, shares, alpha = np.split(vector, ends[:-1])
        return replace(self, weights=sides[::2], exponents=sides[1::2], shares=shares, alpha=alpha)

    def accepted(self, sides: Sides, known: Sides | None = None) -> Parameters:
        """Return the parameters with exponents for which all powers are kernels.

        Parameters
        ----------
        sides : sequence of Mixture
        known : sequence of Mixture, optional
            Sides whose kernels are not checked.
        """
        checked: list[Sequence[Array]]
        if known is None:
            checked = [()] * len(sides)
        else:
            checked = [side.grams for side in known]
        accepted = [
            side.accepted(exponents, grams)
            for side, exponents, grams in zip(sides, self.exponents, checked, strict=True)
        ]
        return replace(self, exponents=accepted)

    @property
    def lam(self) -> float:
        """The regularisation λ."""
        return float(np.exp(self.alpha[0]))

    @cached_property
    def pair_shares(self) -> tuple[float, float, float]:
        """Shares of the pair kernel, which sum to one; without a task side only the kernel per task."""
        if not len(self.shares):
            return 0.0, 1.0, 0.0
        a, b, c = softmax(self.shares)
        return float(a), float(b), float(c)


#: Names of the profile kernels, in the order of `profile_kernels`.
PROFILES = ("profile distance", "profile angle")
#: Whether all powers of each profile kernel are kernels.
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
    xp = namespace(completed)
    dtype = completed.dtype
    # Distances are differences of squares: in single precision the result need not be positive
    # semi-definite.
    completed = xp.astype(completed, xp.float64)
    rows = completed - xp.mean(completed, axis=0)
    products = rows @ rows.T
    if is_foreign(products):  # numpy returns a symmetric matrix
        products = (products + products.T) / 2
    squares = xp.linalg.diagonal(products)
    distance = squares[:, None] + squares[None, :]
    distance -= 2.0 * products
    distance = xp.where(distance > 0, distance, 0.0)
    mean = float(xp.mean(distance))
    distance *= -1.0 / mean if mean > 0 else 0.0
    distance = xp.exp(distance)
    # A row without deviations has no direction: its kernel value with every other row is one half.
    halves = xp.sqrt(0.5 / xp.where(squares > 0, squares, 1.0))
    products *= halves[:, None] * halves[None, :]
    products += 0.5
    angle = xp.clip(products, 0.0, 1.0)
    return [with_diagonal(xp.astype(part, dtype), 1.0) for part in (distance, angle)]

"""Every named kernel by its definition, for one pair of vectors at a time."""

import math
from collections.abc import Callable

import numpy as np


def dot(a: np.ndarray, b: np.ndarray) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def chi_squared(a: np.ndarray, b: np.ndarray) -> float:
    return math.fsum((x - y) ** 2 / (x + y) for x, y in zip(a, b, strict=True) if x + y > 0)


def manhattan(a: np.ndarray, b: np.ndarray) -> float:
    return math.fsum(abs(x - y) for x, y in zip(a, b, strict=True))


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    lengths = math.sqrt(dot(a, a)) * math.sqrt(dot(b, b))
    return dot(a, b) / lengths if lengths else 0.0


def tanimoto(a: np.ndarray, b: np.ndarray) -> float:
    union = dot(a, a) + dot(b, b) - dot(a, b)
    return dot(a, b) / union if union else 1.0


def minmax(a: np.ndarray, b: np.ndarray) -> float:
    largest = math.fsum(map(max, a, b))
    return math.fsum(map(min, a, b)) / largest if largest else 1.0


def polynomial(
    a: np.ndarray, b: np.ndarray, degree: float = 3, gamma: float | None = None, coef0: float = 1
) -> float:
    return ((gamma or 1 / len(a)) * dot(a, b) + coef0) ** degree


def vanraden(a: np.ndarray, b: np.ndarray, frequencies: float) -> float:
    return dot(a - 2 * frequencies, b - 2 * frequencies) / (
        2 * len(a) * frequencies * (1 - frequencies)
    )


def by_exponent(
    distance: Callable[..., float], default: float | None = None
) -> Callable[..., float]:
    """Return exp(−γ distance)."""
    return lambda a, b, gamma=default: math.exp(-(gamma or 1 / len(a)) * distance(a, b))


# A test compares the names with those of the library: a new kernel needs an entry here.
BY_HAND: dict[str, Callable[..., float]] = {
    "chi2": by_exponent(chi_squared, 1.0),
    "cosine": cosine,
    "delta": lambda a, b: float(all(a == b)),
    "laplacian": by_exponent(manhattan),
    "linear": dot,
    "minmax": minmax,
    "poly": polynomial,
    "polynomial": polynomial,
    "rbf": by_exponent(lambda a, b: dot(a - b, a - b)),
    "tanimoto": tanimoto,
    "vanraden": vanraden,
}
PARAMS: dict[str, dict[str, float]] = {
    "chi2": {"gamma": 0.3},
    "laplacian": {"gamma": 0.2},
    "poly": {"degree": 2, "gamma": 0.5, "coef0": 2},
    "polynomial": {"degree": 2, "gamma": 0.5, "coef0": 2},
    "rbf": {"gamma": 0.1},
    "vanraden": {"frequencies": 0.3},
}
# These depend on the training rows unless their parameters are given.
ESTIMATED = ("vanraden",)
# A name with its default parameters, and with other ones.
CHOICES = [(name, {}) for name in BY_HAND if name not in ESTIMATED] + list(PARAMS.items())
# These do not take sparse rows.
DENSE_ONLY = ("chi2",)

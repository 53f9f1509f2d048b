"""Small problems for the hold-out tests, and how close two predictions must be."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import mpmath
import numpy as np
import pytest

from dyadlearn.holdout.problem import Problem
from dyadlearn.spectrum import Spectrum

SHAPES = {"tall": (7, 5), "wide": (5, 7), "square": (6, 6)}


def make_gram(n: int, rank: int, rng: np.random.Generator) -> np.ndarray:
    """Return a kernel (n, n) whose positive eigenvalues lie between 0.3 and 3, in a random basis."""
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank]
    return (basis * np.geomspace(0.3, 3.0, rank)) @ basis.T


def make_spectrum(kind: str, n: int, rng: np.random.Generator) -> Spectrum:
    """Return a full-rank, a singular (all eigenvectors kept) or a primal (truncated) spectrum of n rows."""
    if kind == "primal":
        return Spectrum.from_features(rng.normal(size=(n, n - 2)) / np.sqrt(n))
    return Spectrum.from_gram(make_gram(n, n if kind == "full" else n - 2, rng))


def make_problem(
    method: str,
    shape: tuple[int, int] = (7, 5),
    kinds: tuple[str, str] = ("full", "full"),
    alpha: float = 0.5,
    task_alpha: float = 0.2,
    sign: int = 1,
    seed: int = 0,
    **others: Any,
) -> Problem:
    """Return a problem with random spectra and labels; a network has its first side on both sides."""
    rng = np.random.default_rng(seed)
    m, q = (shape[0], shape[0]) if method == "network" else shape
    spectrum, task_spectrum = make_spectrum(kinds[0], m, rng), make_spectrum(kinds[1], q, rng)
    Y = rng.normal(size=(m, q))
    if method == "independent":
        return Problem(method, Y, spectrum, alpha, **others)
    if method == "network":
        return Problem(method, Y + sign * Y.T, spectrum, alpha, spectrum, alpha, sign=sign, **others)
    return Problem(method, Y, spectrum, alpha, task_spectrum, task_alpha, **others)


def relative_error(found: Any, expected: np.ndarray) -> float:
    """Return the largest difference over the largest expected value (over 1 where zeros are expected)."""
    assert np.isfinite(found).all()
    return float(np.max(np.abs(found - expected)) / (np.max(np.abs(expected)) or 1.0))


def tolerance(problem: Problem) -> float:
    """Return the relative error that rounding may cause, whoever makes it, in double precision."""
    sides = [float(np.max(problem.spectrum.values)) / problem.alpha]
    if problem.method == "kronecker":
        sides[0] *= float(np.max(problem.task_spectrum.values))
    elif problem.task_spectrum is not None:
        sides.append(float(np.max(problem.task_spectrum.values)) / problem.task_alpha)
    return max(1e-8, 1e3 * np.finfo(np.float64).eps * max(sides))


@pytest.fixture(scope="session")
def cases() -> SimpleNamespace:
    """Give what the hold-out tests build their problems from."""
    tools: dict[str, Callable[..., Any]] = {
        "gram": make_gram,
        "spectrum": make_spectrum,
        "problem": make_problem,
        "error": relative_error,
        "tolerance": tolerance,
    }
    return SimpleNamespace(shapes=SHAPES, **tools)


@pytest.fixture
def fifty_digits():
    """Let mpmath compute in 50 digits."""
    with mpmath.workdps(50):
        yield

"""From a problem to its coefficients: which closed form solves which method."""

from __future__ import annotations

from dyadlearn._array import Array
from dyadlearn.holdout.problem import Problem
from dyadlearn.solvers import (
    independent_coefficients,
    independent_dual,
    kronecker_coefficients,
    kronecker_dual,
    two_step_coefficients,
    two_step_dual,
)

__all__ = ["coefficients", "dual_coefficients"]


def coefficients(problem: Problem) -> Array:
    """Return what predictions are made of, shape (m or d, q or r)."""
    instances = (problem.spectrum, problem.Y, problem.filter, problem.alpha)
    if problem.task_spectrum is None:
        return independent_coefficients(*instances)
    if problem.method == "kronecker":
        return kronecker_coefficients(problem.spectrum, problem.task_spectrum, problem.Y, problem.alpha)
    found = two_step_coefficients(
        problem.spectrum,
        problem.task_spectrum,
        problem.Y,
        problem.filter,
        problem.alpha,
        problem.task_filter,
        problem.task_alpha,
    )
    # Rounding must not break the symmetry of a network.
    return (found + problem.sign * found.T) / 2 if problem.method == "network" else found


def dual_coefficients(problem: Problem) -> Array:
    """Return the dual parameters of the paper's linear systems, shape (m, q)."""
    if problem.task_spectrum is None:
        return independent_dual(problem.spectrum, problem.Y, problem.filter, problem.alpha)
    if problem.method == "kronecker":
        return kronecker_dual(problem.spectrum, problem.task_spectrum, problem.Y, problem.alpha)
    return two_step_dual(
        problem.spectrum,
        problem.task_spectrum,
        problem.Y,
        problem.filter,
        problem.alpha,
        problem.task_filter,
        problem.task_alpha,
    )

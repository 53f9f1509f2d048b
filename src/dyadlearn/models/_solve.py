"""From a problem to its coefficients: which closed form solves which method."""

from __future__ import annotations

import warnings

from dyadlearn._array import Array, largest, namespace
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.holdout.problem import Problem
from dyadlearn.models._predict import Expansion
from dyadlearn.solvers import (
    independent_coefficients,
    independent_dual,
    kronecker_coefficients,
    kronecker_dual,
    two_step_coefficients,
    two_step_dual,
)
from dyadlearn.solvers.folding import Folded, Unfolded

__all__ = ["check_regularisation", "coefficients", "dual_coefficients", "expansion", "folding"]

#: Where alpha is 0: how much of the smallest eigenvalue may be rounding.
_UNSURE = 1e-4


def check_regularisation(problem: Problem) -> None:
    """Refuse a regularisation that vanishes beside the kernels, and warn where none makes a poor solution.

    Raises
    ------
    ValueError
        If alpha is above 0, but too small for the precision of the kernels to divide by.

    Warns
    -----
    PrecisionWarning
        If alpha is 0, and the smallest eigenvalue that is not taken for zero is mostly rounding.
    """
    sides = [(problem.spectrum, problem.alpha, "alpha", "instance")]
    if problem.task_spectrum is not None and problem.method != "network":
        sides.append((problem.task_spectrum, problem.task_alpha, "task_alpha", "task"))
    for spectrum, alpha, name, word in sides:
        size = largest(spectrum.values)
        if problem.method == "kronecker" and problem.task_spectrum is not None:
            size, name = largest(problem.spectrum.values) * largest(problem.task_spectrum.values), "alpha"
        finfo = namespace(spectrum.values).finfo(spectrum.values.dtype)
        least = size * float(finfo.smallest_normal) / float(finfo.eps)
        if 0 < alpha < least:
            raise ValueError(
                f"{name} = {alpha:g} vanishes beside eigenvalues of up to {size:.3g}: use 0, or at least {least:.1g}."
            )
        if alpha == 0 and spectrum.uncertainty > _UNSURE:
            warnings.warn(
                f"The {word} kernel is close to singular: rounding may change its smallest eigenvalue by "
                f"{spectrum.uncertainty:.0e} of it, and with {name} = 0 answers as much. Use a larger {name}.",
                PrecisionWarning,
                stacklevel=2,
            )


def coefficients(problem: Problem) -> Array:
    """Return what predictions are made of, with the sides folded in that `folding` says."""
    folded, instances = folding(problem), (problem.spectrum, problem.Y, problem.filter, problem.alpha)
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
        folded,
    )
    # Rounding must not break the symmetry of a network; where a side is left out there is none to break.
    return (found + problem.sign * found.T) / 2 if problem.method == "network" and all(folded) else found


def folding(problem: Problem) -> tuple[bool, bool]:
    """Tell whether the spectral weights of instances and of tasks are in the coefficients.

    In two-step ridge regression those of the smaller side are not, where a side is in the dual: its rows take one more
    product to predict for, and no other rows are shorter.
    """
    if problem.task_spectrum is None or problem.method == "kronecker":
        return True, True
    spectra = (problem.spectrum, problem.task_spectrum)
    if all(spectrum.components is not None for spectrum in spectra):
        return True, True
    first, second = (Folded(spectrum).size for spectrum in spectra)
    return second <= first, first < second


def expansion(problem: Problem, values: Array, folded: tuple[bool, bool]) -> Expansion:
    """Return the coefficients of a problem, with the sides folded in or not, and how rows of each multiply them."""
    sides = [(problem.spectrum, problem.filter, problem.alpha)]
    if problem.task_spectrum is not None:
        sides.append((problem.task_spectrum, problem.task_filter, problem.task_alpha))
    parts = [Folded(side[0]) if whole else Unfolded(*side) for side, whole in zip(sides, folded, strict=False)]
    return Expansion(values, *parts)


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

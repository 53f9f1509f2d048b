"""Pure functions that solve the models."""

from dyadlearn.solvers.closed_form import (
    independent_coefficients,
    independent_dual,
    kronecker_coefficients,
    kronecker_dual,
    two_step_coefficients,
    two_step_dual,
)

__all__ = [
    "independent_coefficients",
    "independent_dual",
    "kronecker_coefficients",
    "kronecker_dual",
    "two_step_coefficients",
    "two_step_dual",
]

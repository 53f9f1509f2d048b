"""Conjugate gradients on grids of labels."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, epsilon, namespace
from dyadlearn._state import Stored

__all__ = ["Solution", "conjugate_gradients", "inner", "inner_there", "warn_unless_converged"]

Operator = Callable[[Array], Array]


@dataclass(frozen=True, eq=False)
class Solution(Stored):
    """What an iterative solver found.

    Attributes
    ----------
    values : array
        The solution, of the shape of the right-hand side.
    n_iter : int
    residual : float
        Norm of the residual over that of the right-hand side, computed anew from the solution.
    converged : bool
    """

    values: Array
    n_iter: int
    residual: float
    converged: bool

    _shapes: ClassVar[Mapping[str, str]] = {"values": "m q"}


def conjugate_gradients(
    operator: Operator,
    right: Array,
    *,
    precondition: Operator | None = None,
    start: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 1000,
    norm: float = 0.0,
    square: Operator | None = None,
) -> Solution:
    r"""Solve :math:`\mathbf{Ax} = \mathbf{b}` for a positive definite operator on arrays of any shape.

    Each iteration takes one product with the operator. The residual is updated on the way, which drifts
    from the true one by rounding: where it claims convergence, the true one is computed, and if that
    disagrees the iteration starts again from where it is.

    Parameters
    ----------
    operator : callable
        Applies :math:`\mathbf{A}` to an array of the shape of `right`.
    right : array
        The right-hand side :math:`\mathbf{b}`.
    precondition : callable, default=None
        Applies a positive definite approximation of :math:`\mathbf{A}^{-1}`.
    start : array, default=None
        Where to start; None is zero.
    tol : float, default=1e-10
        Stop when the residual norm falls below this share of :math:`\|\mathbf{b}\|`.
    max_iter : int, default=1000
    norm : float, default=0.0
        Of the operator, where it is known. A residual as small as the rounding of one product,
        :math:`\varepsilon\|\mathbf{A}\|\|\mathbf{x}\|`, at which nothing more is gained counts as converged then.
    square : callable, default=None
        The square of what is measured of residuals and of :math:`\mathbf{b}`, as an array of shape (); None is that of
        the Euclidean norm.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.holes.conjugate_gradients import conjugate_gradients
    >>> conjugate_gradients(lambda x: 2.0 * x, np.array([[2.0, 4.0]])).values
    array([[1., 2.]])
    """
    xp, square = namespace(right), square or _square
    scale = _root(square, right)
    if scale == 0:
        return Solution(xp.zeros_like(right), 0, 0.0, True)
    goal = tol * scale
    values = xp.zeros_like(right) if start is None else xp.asarray(start, copy=True)
    residual = xp.asarray(right, copy=True) if start is None else right - operator(values)
    found, n_iter = _root(square, residual), 0
    while found > goal and n_iter < max_iter:
        before = found
        n_iter += _iterate(operator, precondition, values, residual, square, goal, max_iter - n_iter)
        residual = right - operator(values)
        found = _root(square, residual)
        # Rounding allows no more once a whole round of iterations gained less than half.
        if found > 0.5 * before:
            if n_iter < max_iter:
                goal = max(goal, 2.0 * epsilon(right) * norm * _root(_square, values))
            break
    return Solution(values, n_iter, found / scale, bool(found <= goal))  # tol may be a number of numpy


def warn_unless_converged(solution: Any, tol: float, where: str = "", *, stacklevel: int = 2) -> None:
    """Warn if conjugate gradients stopped before they reached a tolerance.

    Parameters
    ----------
    solution : Solution or what has its attributes
    tol : float
    where : str, default=""
        What was solved, for the message, with a blank before it.
    stacklevel : int, default=2
        As in `warnings.warn`, for the caller.
    """
    if not solution.converged and solution.residual > tol:
        warnings.warn(
            f"Conjugate gradients stopped{where} after {solution.n_iter} iterations at a relative residual of "
            f"{solution.residual:.1e}, short of tol={tol:g}: raise max_iter, tol or the regularisation.",
            ConvergenceWarning,
            stacklevel=stacklevel + 1,
        )


def _iterate(
    operator: Operator,
    precondition: Operator | None,
    values: Array,
    residual: Array,
    square: Operator,
    goal: float,
    max_iter: int,
) -> int:
    """Improve `values` in place until the updated `residual` falls below `goal`; return the iterations taken."""
    xp = namespace(residual)
    improved = residual if precondition is None else precondition(residual)
    direction = xp.asarray(improved, copy=True)
    product = inner_there(residual, improved)
    del improved  # arrays as large as the grid are let go as soon as they may
    for n_iter in range(1, max_iter + 1):
        image = operator(direction)
        curvature = inner_there(direction, image)
        # Negative only by rounding: nothing more can be gained in this direction.
        gains = curvature > 0
        step = xp.where(gains, product / xp.where(gains, curvature, xp.ones_like(curvature)), xp.zeros_like(product))
        image *= step
        residual -= image
        del image
        values += step * direction
        # An accelerator is asked once in an iteration.
        if float(xp.where(gains, square(residual), -xp.ones_like(product))) <= goal**2:
            return n_iter
        improved = residual if precondition is None else precondition(residual)
        previous, product = product, inner_there(residual, improved)
        direction *= product / previous
        direction += improved
        del improved
    return max_iter


def inner(left: Array, right: Array) -> float:
    """Return the sum of products of the entries of two arrays."""
    return float(inner_there(left, right))


def inner_there(left: Array, right: Array) -> Array:
    """Return the same where the arrays live, of shape ()."""
    xp = namespace(left)
    return xp.asarray(xp.vecdot(xp.reshape(left, (-1,)), xp.reshape(right, (-1,))))


def _square(array: Array) -> Array:
    return inner_there(array, array)


def _root(square: Operator, array: Array) -> float:
    return math.sqrt(float(square(array)))

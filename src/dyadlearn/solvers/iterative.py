"""Conjugate gradients on grids of labels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dyadlearn._array import Array, namespace

__all__ = ["Solution", "conjugate_gradients"]


@dataclass(frozen=True, eq=False)
class Solution:
    """What an iterative solver found.

    Attributes
    ----------
    values : array
        The solution, of the shape of the right-hand side.
    n_iter : int
    residual : float
        Norm of the residual over that of the right-hand side.
    converged : bool
    """

    values: Array
    n_iter: int
    residual: float
    converged: bool


def conjugate_gradients(
    operator: Callable[[Array], Array], right: Array, *, tol: float = 1e-10, max_iter: int = 1000
) -> Solution:
    r"""Solve :math:`\mathbf{Ax} = \mathbf{b}` for a positive definite operator on arrays of any shape.

    Parameters
    ----------
    operator : callable
        Applies :math:`\mathbf{A}` to an array of the shape of `right`.
    right : array
        The right-hand side :math:`\mathbf{b}`.
    tol : float, default=1e-10
        Stop when the residual norm falls below this share of :math:`\|\mathbf{b}\|`.
    max_iter : int, default=1000

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.solvers.iterative import conjugate_gradients
    >>> conjugate_gradients(lambda x: 2.0 * x, np.array([[2.0, 4.0]])).values
    array([[1., 2.]])
    """
    xp = namespace(right)
    values = xp.zeros_like(right)
    residual = xp.asarray(right, copy=True)
    direction = xp.asarray(right, copy=True)
    squared = start = float(xp.sum(residual * residual))
    n_iter = 0
    while squared > tol**2 * start and n_iter < max_iter:
        image = operator(direction)
        step = squared / float(xp.sum(direction * image))
        values += step * direction
        residual -= step * image
        previous, squared = squared, float(xp.sum(residual * residual))
        direction *= squared / previous
        direction += residual
        n_iter += 1
    share = (squared / start) ** 0.5 if start else 0.0
    return Solution(values, n_iter, share, share <= tol)

r"""Profile kernels: entities are alike whose rows of a completed grid are.

Of a grid **F** that is completed from labels of training alone, with rows :math:`f_i` less their mean,

.. math:: \exp\bigl(-\|f_i - f_j\|^2 / \overline{\|f_i - f_j\|^2}\bigr), \qquad
          \tfrac12\bigl(1 + \cos(f_i, f_j)\bigr).
"""

from __future__ import annotations

from dyadlearn._array import Array, namespace

__all__ = ["DIVISIBLE", "PROFILES", "profile_kernels"]

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

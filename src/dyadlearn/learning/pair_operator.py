r"""The kernel between pairs as an operator on grids, with derivatives.

.. math:: P(\mathbf{X}) = a\,\mathbf{KXG} + b\,\mathbf{KX} + c\,\mathbf{XG}
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array
from dyadlearn.holes.conjugate_gradients import inner
from dyadlearn.learning.mixture import Mixed, Mixture
from dyadlearn.learning.parameters import Parameters

__all__ = ["PairOperator", "Slopes"]


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of an error: with respect to both kernels, the shares and λ.

    Attributes
    ----------
    kernel, task_kernel : arrays of shape (m, m) and (q, q), the latter or None
    shares : array of shape (3,)
    lam : float
    """

    kernel: Array
    task_kernel: Array | None
    shares: np.ndarray
    lam: float


@dataclass(frozen=True, eq=False)
class PairOperator:
    """The kernel between pairs at some parameters.

    Parameters
    ----------
    mixtures : (Mixture, Mixture or None)
        Of the instances, and of the tasks where something is known of them.
    parameters : Parameters
    sides : (Mixed, Mixed or None)
        The kernels that they give.
    """

    mixtures: tuple[Mixture, Mixture | None]
    parameters: Parameters
    sides: tuple[Mixed, Mixed | None]

    @classmethod
    def at(cls, mixture: Mixture, tasks: Mixture | None, parameters: Parameters) -> PairOperator:
        """Return the operator that parameters give."""
        rows = mixture.mixed(parameters.weights, parameters.exponents)
        columns = None if tasks is None else tasks.mixed(parameters.task_weights, parameters.task_exponents)
        return cls((mixture, tasks), parameters, (rows, columns))

    def __call__(self, X: Array) -> Array:
        """Apply the kernel to a grid (m, q), by two products."""
        K, tasks = self.sides[0].kernel, self.sides[1]
        if tasks is None:
            return K @ X
        a, b, c = self.parameters.pair_shares
        beside = X @ tasks.kernel
        found = K @ (a * beside + b * X)
        beside *= c
        found += beside
        return found

    def slopes(self, left: Array, right: Array, lam: float) -> Slopes:
        """Return what ⟨left, dP right⟩ is for each of the kernels and shares, beside that of λ."""
        K, tasks = self.sides[0].kernel, self.sides[1]
        if tasks is None:
            return Slopes(left @ right.T, None, np.zeros(0), lam)
        a, b, c = self.parameters.pair_shares
        beside, above = right @ tasks.kernel, K @ right
        by_share = [inner(K @ left, beside), inner(left, above), inner(left, beside)]
        return Slopes(left @ (a * beside + b * right).T, (a * above + c * right).T @ left, np.array(by_share), lam)

    def gradient(self, slopes: Slopes) -> np.ndarray:
        """Return derivatives with respect to all parameters as a vector."""
        (rows, columns), own, (mixed, task_mixed) = self.mixtures, self.parameters, self.sides
        by_weight, by_exponent = rows.gradient(slopes.kernel, own.weights, own.exponents, mixed)
        parts = [by_weight, by_exponent]
        if columns is not None and task_mixed is not None:
            assert slopes.task_kernel is not None
            parts += columns.gradient(slopes.task_kernel, own.task_weights, own.task_exponents, task_mixed)
            shares = np.array(own.pair_shares)
            parts.append(shares * (slopes.shares - float(shares @ slopes.shares)))
        return np.concatenate([*parts, [own.lam * slopes.lam]])

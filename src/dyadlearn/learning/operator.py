"""The kernel between pairs at the observed cells of a grid, with derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from dyadlearn._array import Array, namespace
from dyadlearn.learning.mixture import Mixed, Parameters, Sides
from dyadlearn.solve.cells import CellOperator, CellSet, plus_identity, row_major_transpose
from dyadlearn.solve.conjugate_gradients import inner


class Slopes(NamedTuple):
    """Derivatives of an error with respect to the kernel of each side, the shares and λ.

    Attributes
    ----------
    kernels : list of arrays of shape (m, m) and (q, q), or stacks of them
    shares : array of shape (3,)
    lam : float
    """

    kernels: list[Array]
    shares: np.ndarray
    lam: float


@dataclass(frozen=True, eq=False)
class PairOperator(CellOperator):
    """Kernel between pairs for given parameters.

    Parameters
    ----------
    kernels, shares, cells : as in `CellOperator`
    parameters : Parameters
    sides : list of Mixed
        Kernel of each side, the same for all folds or one per fold.
    """

    parameters: Parameters
    sides: list[Mixed]

    @classmethod
    def of(cls, sides: Sides, parameters: Parameters, cells: CellSet) -> PairOperator:
        """Return the operator of some parameters."""
        mixed = [
            side.mixed(weights, exponents)
            for side, weights, exponents in zip(
                sides, parameters.weights, parameters.exponents, strict=True
            )
        ]
        return cls(
            [side.kernel for side in mixed], parameters.pair_shares, cells, parameters, mixed
        )

    def slopes(self, left: Array, right: Array, lam: float) -> Slopes:
        """Return the derivatives of ⟨left, P right⟩ with respect to kernels and shares, and the given one of λ."""
        K, *tasks = self.kernels
        cells = self.cells
        if not tasks:
            return Slopes(
                [cells.times(left, namespace(right).matrix_transpose(cells.grid(right)))],
                np.zeros(0),
                lam,
            )
        a, b, c = self.shares
        XH = cells.times(right, self.task_kernel)
        KX = row_major_transpose(cells.transposed_times(right, plus_identity(K, c / a)))
        per_task = inner(left, cells.take(KX) - (c / a) * right)
        per_instance = inner(left, cells.take(XH) - (b / a) * right)
        kernels = [
            cells.times(a * left, row_major_transpose(XH)),
            cells.transposed_times(a * left, KX),
        ]
        # ⟨left, a·KXG + b·KX⟩ is the inner product of K with its own derivative.
        if K.ndim == 3:
            of_K = kernels[0]
        else:
            of_K = namespace(K).sum(kernels[0], axis=0)
        product = (inner(of_K, K) - b * per_task) / a
        return Slopes(kernels, np.array([product, per_task, per_instance]), lam)

    def gradient(self, slopes: Slopes) -> np.ndarray:
        """Return the derivatives with respect to all parameters, as a vector."""
        parts = [
            part
            for side, slope in zip(self.sides, slopes.kernels, strict=True)
            for part in side.gradient(slope)
        ]
        if len(self.sides) > 1:
            shares = np.array(self.shares)
            parts.append(shares * (slopes.shares - float(shares @ slopes.shares)))
        return np.concatenate([*parts, [self.parameters.lam * slopes.lam]])

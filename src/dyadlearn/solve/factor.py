"""Cholesky factor of the system of the observed cells, for a few solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from dyadlearn._array import Array, namespace, positive_solver, row_major, with_diagonal
from dyadlearn.solve.fixed import FixedFit
from dyadlearn.solve.operators import GridOperators


@dataclass(frozen=True, eq=False)
class CellsFactor:
    r"""Factor of the system of the observed cells, which takes a third of the work of its inverse.

    With the roots :math:`\mathbf{r}` of the weights, the factor is that of the system

    .. math:: \mathrm{diag}(\mathbf{r})\,\mathbf{P}_{oo}\,\mathrm{diag}(\mathbf{r}) + c\,\mathbf{I} ,

    scaled to a unit diagonal.

    Attributes
    ----------
    solver : callable
        Function that solves the scaled system.
    scale : array of shape (n,)
        Factor of each cell in the scaled system.
    fixed : FixedFit
        Generalised least squares of the fixed part.
    """

    solver: Callable[[Array], Array]
    scale: Array
    fixed: FixedFit

    @classmethod
    def of(
        cls, operators: GridOperators, cells: tuple[np.ndarray, np.ndarray], root: Array
    ) -> Self:
        """Return the factor of a model.

        Parameters
        ----------
        operators : GridOperators
        cells : (integer array, integer array)
            Rows and columns of the n cells.
        root : array of shape (n,)
            Roots of the weights.

        Raises
        ------
        numpy.linalg.LinAlgError
            If the system is singular.

        Examples
        --------
        >>> import numpy as np
        >>> from dyadlearn.pairing import Kronecker
        >>> from dyadlearn.solve.factor import CellsFactor
        >>> from dyadlearn.spectrum import Spectrum
        >>> model = Kronecker(*[Spectrum.from_gram(np.eye(2))] * 2, 1.0)  # a kernel of 1, a ridge of 1
        >>> CellsFactor.of(model, (np.arange(2), np.arange(2)), np.ones(2)).dual(np.array([3.0, 4.0]))
        array([1.5, 2. ])
        """
        system = operators.kernel_block(*cells)
        xp = namespace(system)
        diagonal = xp.linalg.diagonal(system) * root**2 + operators.ridge
        scale = root * diagonal**-0.5
        system *= scale[:, None]
        system *= scale[None, :]
        solver = positive_solver(with_diagonal(system, 1.0))
        fixed = operators.fixed_part(int(root.shape[0]), system)
        return cls(
            solver,
            scale,
            fixed.solved(lambda columns: scale[:, None] * solver(scale[:, None] * columns)),
        )

    def dual(self, labels: Array) -> Array:
        """Return the dual coefficients (n,) of labels (n,), which are orthogonal to the columns of the fixed part."""
        return self.fixed.projected(self._solved(labels))

    def label_weights(self, kernel: Array) -> Array:
        """Return the weight (n,) of each label in the prediction for a pair with this kernel (n,) to the labels."""
        return self.fixed.label_weights(self._solved(kernel))

    def _solved(self, right: Array) -> Array:
        """Return the solution (n,) without a fixed part."""
        return row_major(self.scale * self.solver(self.scale * right))

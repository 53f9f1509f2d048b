"""Cholesky factor of the system of the observed cells, for a few solutions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from dyadlearn._array import Array, namespace, positive_solver, row_major, with_diagonal
from dyadlearn.solve.conjugate_gradients import inner
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
    mean : array of shape (n,) or None
        Weight of each label in a free mean; None without one.
    """

    solver: Callable[[Array], Array]
    scale: Array
    mean: Array | None

    @classmethod
    def of(cls, operators: GridOperators, cells: tuple[np.ndarray, np.ndarray], root: Array) -> Self:
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
        if not operators.free_mean:
            return cls(solver, scale, None)
        along = scale * solver(scale)
        return cls(solver, scale, along / inner(along, xp.ones_like(along)))

    def dual(self, labels: Array) -> Array:
        """Return the dual coefficients (n,) of labels (n,); with a free mean, they sum to zero."""
        dual = row_major(self.scale * self.solver(self.scale * labels))
        if self.mean is None:
            return dual
        return dual - self.mean * namespace(dual).sum(dual)

    def label_weights(self, kernel: Array) -> Array:
        """Return the weight (n,) of each label in the prediction for a pair with this kernel (n,) to the labels."""
        weights = self.dual(kernel)
        return weights if self.mean is None else weights + self.mean

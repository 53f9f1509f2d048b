r"""A grand mean that no penalty holds, beside a pairwise kernel.

Let :math:`\mathbf{C}` be the kernel between the cells of a grid with its ridge on the diagonal. The model
:math:`f + \mu` with a free :math:`\mu` solves the bordered system

.. math:: \begin{pmatrix}\mathbf{C} & \mathbf{1}\\ \mathbf{1}^\top & 0\end{pmatrix}
          \begin{pmatrix}\mathbf{a}\\ \mu\end{pmatrix} = \begin{pmatrix}\mathbf{y}\\ 0\end{pmatrix},
          \qquad \mu = \frac{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y}}{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}},
          \quad \mathbf{a} = \mathbf{C}^{-1}(\mathbf{y} - \mu\mathbf{1}) .

When the cells I are left out, the mean of the others is free again. Let :math:`\mathbf{p}` and :math:`1 - \mathbf{e}`
be what a model *without* the mean, fitted to the others, predicts for I from their labels and from ones there. Then

.. math:: \mathbf{f}_I = \mathbf{p} + \mu_{\setminus I}\,\mathbf{e}, \qquad
          \mu_{\setminus I} =
          \frac{\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y} - \mathbf{E}_I^\top(\mathbf{y}_I-\mathbf{p})}
          {\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1} - \mathbf{E}_I^\top\mathbf{e}}, \qquad
          \mathbf{E} = \mathbf{C}^{-1}\mathbf{1} ,

so that whatever holds out without a mean holds out with one, for one more product. It keeps the digits of
:math:`\mathbf{p}` at both ends of the regularisation. Where rotated tasks are problems of their own, with systems
:math:`\mathbf{M}_c = \kappa_c\mathbf{K} + \nu_c\mathbf{I}`, the sums run over their columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dyadlearn._array import Array, epsilon, largest, namespace, to_numpy, zeros
from dyadlearn.spectrum import Spectrum, leverage_error

__all__ = ["ConstantColumns", "Ones", "mean_of_others", "ones_of"]


@dataclass(frozen=True, eq=False)
class Ones:
    """A column of ones in the directions of a side.

    Attributes
    ----------
    inside : array of shape (k,)
        Along each eigenvector.
    outside : array of shape (n,) or None
        What lies in the null space that a truncated spectrum leaves out; None where nothing does but rounding.
    """

    inside: Array
    outside: Array | None

    @cached_property
    def outside_square(self) -> float:
        """Squared norm of what lies outside."""
        return 0.0 if self.outside is None else float(self.outside @ self.outside)


def ones_of(spectrum: Spectrum) -> Ones:
    """Return how ones lie to the directions of a side."""
    ones = zeros((spectrum.n_rows, 1), spectrum.values) + 1.0
    inside = spectrum.rotate(ones)
    if not spectrum.is_truncated:
        return Ones(inside[:, 0], None)
    return Ones(inside[:, 0], settled_outside(ones[:, 0], spectrum.vectors, inside[:, 0]))


def settled_outside(ones: Array, vectors: Array, inside: Array) -> Array | None:
    """Return ones (n,) less their projection on eigenvectors (n, k), None where that is no more than rounding."""
    outside = ones - vectors @ inside
    level = 8.0 * epsilon(ones) * ones.shape[0] ** 0.5
    return outside if largest(namespace(ones).abs(outside)) > level else None


@dataclass(frozen=True, eq=False)
class ConstantColumns:
    r"""What ones come to under the systems :math:`\mathbf{M}_c = \kappa_c\mathbf{K} + \nu_c\mathbf{I}` of columns.

    Attributes
    ----------
    inverse : array of shape (m, n c)
        :math:`\mathbf{M}_c^{-1}\mathbf{1}`, for each of n regularisations.
    unit : array of shape (n c,)
        What takes that to :math:`\mathbf{R1}`, with the residual operator as `dyadlearn.pairing.leaving` scales it.
    weights : array of shape (k, n c)
        :math:`\mathbf{U}^\top\mathbf{M}_c^{-1}\mathbf{1}`.
    ones : Ones
        Of the side.
    ridges : array of shape (n, c)
    """

    inverse: Array
    unit: Array
    weights: Array
    ones: Ones
    ridges: Array

    @classmethod
    def of(cls, spectrum: Spectrum, ones: Ones, values: Array, ridges: Array) -> ConstantColumns:
        r"""Return it for columns with kernels :math:`\kappa\mathbf{K}`, (c,), and ridges :math:`\nu`, (n, c).

        Where a ridge is zero the inverse is the pseudo-inverse: ones must have no part in its null space.
        """
        xp = namespace(values)
        n, c = ridges.shape
        weights = spectrum.values[:, None, None] * values[None, None, :] + ridges[None, :, :]
        unit = ridges
        if bool(xp.any(ridges == 0)):
            positive = weights > 0
            weights = xp.where(positive, weights, xp.ones_like(weights))
            weights = xp.where(positive, ones.inside[:, None, None] / weights, xp.zeros_like(weights))
            scale = xp.zeros_like(values) if spectrum.is_singular else values
            unit = xp.where(ridges == 0, scale[None, :], ridges)
        else:
            weights = ones.inside[:, None, None] / weights
        weights = xp.reshape(weights, (-1, n * c))
        inverse = spectrum.vectors @ weights
        if ones.outside is not None:
            inverse += ones.outside[:, None] / xp.reshape(ridges, (1, -1))
        return cls(inverse, xp.reshape(unit, (-1,)), weights, ones, ridges)

    @property
    def residuals(self) -> Array:
        r"""What the residual operator of each column makes of ones, shape (m, n c)."""
        return self.inverse * self.unit

    def whole(self, share: Array, columns: Array, rotated: Array) -> tuple[Array, Array]:
        r"""Return :math:`\mathbf{1}^\top\mathbf{C}^{-1}\mathbf{y}`, and the same of ones for labels.

        Parameters
        ----------
        share : array of shape (c,)
            What ones of the other side have of each column.
        columns : array of shape (m, c)
        rotated : array of shape (k, c)
            Labels, and those turned on this side too.

        Returns
        -------
        two arrays of shape (n,)
        """
        xp = namespace(share)
        n, c = self.ridges.shape
        weights = xp.reshape(self.weights, (-1, n, c))
        labels = xp.sum(weights * (rotated * share)[:, None, :], axis=(0, 2))
        ones = xp.reshape(self.ones.inside @ self.weights, (n, c)) @ share**2
        if self.ones.outside is not None:
            labels = labels + (1.0 / self.ridges) @ (share * (self.ones.outside @ columns))
            ones = ones + self.ones.outside_square * ((1.0 / self.ridges) @ share**2)
        return labels, ones

    def own(self, share: Array, columns: Array, held_out: Array, left: Array) -> tuple[Array, Array]:
        r"""Return the part of each row in both, :math:`\mathbf{E}_i^\top(\mathbf{y}_i-\mathbf{p}_i)` and of ones.

        Parameters
        ----------
        share, columns : as in `whole`
        held_out, left : arrays of shape (m, n c)
            What is predicted of labels, and what is left over of ones.

        Returns
        -------
        two arrays of shape (m, n)
        """
        xp = namespace(share)
        shape = (columns.shape[0], *self.ridges.shape)
        residuals = columns[:, None, :] - xp.reshape(held_out, shape)
        residuals *= xp.reshape(self.inverse, shape)
        return residuals @ share, xp.reshape(self.inverse * left, shape) @ share**2


def mean_of_others(labels: Array, ones: Array, least: Array, what: str) -> Array:
    """Return the mean that the labels left in determine, where they do.

    Parameters
    ----------
    labels, ones : arrays of one shape
        What is left of both sums.
    least : array that broadcasts with them
        What the latter must exceed.
    what : {"rows", "cells", "pairs"}
        What is left out, for the message.

    Raises
    ------
    LeverageError
        If nothing left in tells the mean from what is left out.
    """
    tight = to_numpy(ones <= least)
    if tight.any():
        raise leverage_error(np.flatnonzero(tight), tight.size, what)
    return labels / ones

r"""How far a row lies from the rows of training, in the kernel of its side.

It is the variance, beside that of the noise, that a Gaussian process with this kernel has left for a label of the row
once those of training are known:

.. math:: \kappa(x) = 1 + \frac{k(x,x) - \mathbf{k}^\top(\mathbf{K}+\rho\mathbf{I})^{-1}\mathbf{k}}{\rho},
          \qquad \kappa_{-i}(x_i) = \frac{1}{e_i}, \qquad
          \kappa_{-i}(x) = \kappa(x) + \frac{h_i(x)^2}{e_i},

with :math:`\mathbf{e}` the diagonal of the residual operator and :math:`\mathbf{h}` the weights of the rows at x; the
index says which row was left out. A free constant adds 1/n.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from dyadlearn._array import Array, is_sparse, largest, matmul, namespace, to_numpy
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.spectrum import Smoother, Spectrum

__all__ = ["Novelty"]

# A ridge far below the kernel would call every row that has no twin infinitely far; one far above calls all alike.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class Novelty:
    """One side under a ridge that says which distances count.

    Attributes
    ----------
    side : Smoother
    """

    side: Smoother

    @classmethod
    def of(cls, spectrum: Spectrum, ridge: float) -> Self:
        """Return the novelty of rows beside those of a spectrum."""
        total = float(namespace(spectrum.values).sum(spectrum.values)) / max(spectrum.n_rows, 1)
        if total > 0:
            ridge = min(max(ridge, _LEAST * total), total / _LEAST)
        return cls(Smoother(spectrum, Tikhonov(), ridge if 0 < ridge < math.inf else 1.0))

    @cached_property
    def left_out(self) -> Array:
        """Novelty of each row of training beside the others, shape (n,)."""
        slack = self.side.slack
        return 1.0 / namespace(slack).clip(slack, _LEAST, 1.0)

    @cached_property
    def typical(self) -> float:
        """The median of that."""
        return float(np.median(to_numpy(self.left_out)))

    def weights(self, along: Array) -> Array:
        """Return what each row of training counts, shape (a, n), for rows (a, k) in the directions of the spectrum."""
        return self.side.spectrum.expand(along * self.side.phi)

    def of_rows(self, rows: NewRows) -> tuple[Array | None, Array | None]:
        """Tell how far new rows lie, each in units of what is typical.

        Parameters
        ----------
        rows : NewRows
            Of a.

        Returns
        -------
        novelty : array of shape (a,) or None
            Beside all rows of training; None where the kernel of a row with itself is not known.
        increase : array of shape (a, n) or None
            What is added to it where one of them is left out.
        """
        spectrum, ridge = self.side.spectrum, self.side.alpha
        block, prior = rows.block(rows.values), rows.prior
        along = spectrum.project(block)
        xp, values = namespace(along), spectrum.penalised
        own = along[:, :-1] if spectrum.has_free_constant else along
        found = xp.full_like(along[:, 0], 1.0 + (1.0 / spectrum.n_rows if spectrum.has_free_constant else 0.0))
        if spectrum.components is not None:
            # Features tell what is inside of the directions of training, and what is outside of them.
            safe = xp.where(values > 0, values, xp.ones_like(values))
            inside = xp.where(values > 0, own**2 / safe, xp.zeros_like(own))
            found = found + xp.sum(inside / (values + ridge), axis=1)
            squares, size = _squared_lengths(spectrum, block)
            outside = squares - xp.sum(inside, axis=1)
            found = found + xp.where(outside > 1e-9 * size, outside, xp.zeros_like(outside)) / ridge
        elif prior is None:
            return None, None
        else:
            left = prior(rows.values) - xp.sum(own**2 / (values + ridge), axis=1)
            found = found + xp.clip(left, 0.0, largest(xp.abs(left))) / ridge
        increase = self.weights(along) ** 2 * self.left_out[None, :]
        return found / self.typical, increase / self.typical


def _squared_lengths(spectrum: Spectrum, rows: Array) -> tuple[Array, Array]:
    """Return those of feature rows (a, d) as they are projected, a free constant apart, and what rounding is beside."""
    own = rows[:, :-1] if spectrum.has_free_constant else rows
    if is_sparse(own):
        size = np.asarray(own.multiply(own).sum(axis=1)).reshape(-1)
    else:
        size = namespace(own).sum(own**2, axis=1)
    means = spectrum.means
    if means is None:
        return size, size
    beside = means @ means
    return size - 2.0 * matmul(own, means[:, None])[:, 0] + beside, size + beside

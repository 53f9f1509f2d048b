r"""How the rows of a side multiply coefficients: with its spectral weights folded into them, or left out.

Two-step predictions are

.. math:: \mathbf{K}_*\,\mathbf{U}\varphi_d(\boldsymbol\Sigma)\,(\mathbf{U}^\top\mathbf{Y}\mathbf{V})\,
          \varphi_t(\mathbf{S})\mathbf{V}^\top\,\mathbf{G}_*^\top .

Everything between the new rows can be multiplied out, but in the dual it should not be. Along directions of small
eigenvalues :math:`\varphi` grows to :math:`1/\lambda`, and kernel rows, which are small there, take that back. The
product has entries of up to :math:`1/(\lambda_d\lambda_t)` and is rounded to :math:`\varepsilon` of them in *every*
direction, those included in which kernel rows are large: an error of
:math:`\varepsilon\|\mathbf{K}\|\|\mathbf{G}\|/(\lambda_d\lambda_t)`. With one side folded and the other left out,

==============  ===========================================================================================
coefficients    :math:`\mathbf{P} = \mathbf{U}\varphi_d(\boldsymbol\Sigma)\,\mathbf{U}^\top\mathbf{Y}\mathbf{V}`
new tasks       :math:`(\mathbf{K}_*\mathbf{P})\,(\mathbf{G}_*\mathbf{V}\varphi_t(\mathbf{S}))^\top`
training tasks  :math:`(\mathbf{K}_*\mathbf{P})\,f_t(\mathbf{S})\,\mathbf{V}^\top`, where :math:`f(s) = s\,\varphi(s)`
==============  ===========================================================================================

(or its mirror image), both factors have the size of predictions, one known to
:math:`\varepsilon\|\mathbf{K}\|/\lambda_d` and the other to :math:`\varepsilon\|\mathbf{G}\|/\lambda_t`: the errors add
where they multiplied. In the primal folded weights are :math:`\sqrt\sigma\,\varphi(\sigma) \le 1/(2\sqrt\lambda)`; with
both sides folded the error is :math:`\varepsilon\sqrt{\|\mathbf{K}\|\|\mathbf{G}\|/(\lambda_d\lambda_t)}`, which is no
more than the larger of the two. Kronecker coefficients are at most :math:`1/\lambda`, and are folded always.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from dyadlearn._array import Array, matmul, namespace
from dyadlearn.filters import SpectralFilter
from dyadlearn.spectrum import Spectrum

__all__ = ["Folded", "Part", "Unfolded", "range_phi"]


@dataclass(frozen=True, eq=False)
class Folded:
    """A side whose spectral weights are in the coefficients: rows multiply them as they are.

    Attributes
    ----------
    spectrum : Spectrum
    """

    spectrum: Spectrum

    @property
    def size(self) -> int:
        """How many rows (or columns) of the coefficients are this side's."""
        components = self.spectrum.components
        return self.spectrum.n_rows if components is None else int(components.shape[0])

    @property
    def width(self) -> int:
        """How many numbers are made of each row."""
        return 0

    @property
    def is_dual(self) -> bool:
        """Whether coefficients are dual parameters, as far as this side goes."""
        return self.spectrum.components is None and not self.spectrum.is_singular

    def rows(self, block: Array) -> Array:
        """Return what kernel or feature rows come to before they multiply the coefficients."""
        return block

    def training(self, product: Array) -> Array:
        """Return `product` (a, size) times the transposed block of the rows of training, shape (a, n)."""
        return self.spectrum.training_rows(product)


@dataclass(frozen=True, eq=False)
class Unfolded:
    """A side that stays in its spectral form: its weights multiply rows, not coefficients.

    Attributes
    ----------
    spectrum : Spectrum
    filter : SpectralFilter
    alpha : float
    """

    spectrum: Spectrum
    filter: SpectralFilter
    alpha: float

    @property
    def size(self) -> int:
        """How many rows (or columns) of the coefficients are this side's."""
        return int(self.spectrum.values.shape[0])

    @property
    def width(self) -> int:
        """How many numbers are made of each row."""
        return self.size

    @property
    def is_dual(self) -> bool:
        """Whether coefficients are dual parameters, as far as this side goes."""
        return False

    @cached_property
    def _phi(self) -> Array:
        return range_phi(self.spectrum, self.filter, self.alpha)

    def rows(self, block: Array) -> Array:
        r"""Return :math:`\mathbf{K}_*\mathbf{U}\varphi(\boldsymbol\Sigma)` of shape (a, k), or as much of features."""
        found = matmul(block, self.spectrum.basis)
        found *= self._phi
        return found

    def training(self, product: Array) -> Array:
        r"""Return `product` (a, k) times :math:`f(\boldsymbol\Sigma)\mathbf{U}^\top`, shape (a, n)."""
        return self.spectrum.expand(product * self.filter.shrinkage(self.spectrum.values, self.alpha))


Part = Folded | Unfolded


def range_phi(spectrum: Spectrum, filter: SpectralFilter, alpha: float) -> Array:
    """Return φ(σ), zero on null directions."""
    xp = namespace(spectrum.values)
    phi = filter.phi(spectrum.values, alpha)
    return xp.where(spectrum.values > 0, phi, xp.zeros_like(phi))

r"""Spectral filters: regularised inverses of one side's eigenvalues.

A filter is a function :math:`\varphi_\lambda(\sigma)` that approximates :math:`1/\sigma`
for large eigenvalues and stays bounded for small ones. Coefficients need
:math:`\varphi`, predictions need the shrinkage :math:`f(\sigma) = \sigma\varphi(\sigma)`, and
hold-out predictions need the remainder :math:`1 - f(\sigma)`. Each of the three has a separate
formula, because
``1 - f`` loses all digits for small :math:`\lambda`, and ``1 - remainder`` for large :math:`\lambda`. The residual
operator of a side is :math:`\mathbf{R} = \mathbf{I} - \mathbf{H}`, with the remainders as
eigenvalues; its diagonal is the slack.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dyadlearn._array import Array, largest, namespace
from dyadlearn._checks import check_whole, warn_renamed
from dyadlearn._rounding import ratio
from dyadlearn._state import Stored

__all__ = [
    "IteratedTikhonov",
    "Landweber",
    "SpectralCutoff",
    "SpectralFilter",
    "Tabulated",
    "Tikhonov",
]


class SpectralFilter(Stored, ABC, stored=False):
    r"""Base class of spectral filters.

    At :math:`\lambda = 0` every filter is the pseudo-inverse: :math:`1/\sigma` on the range of
    the kernel, zero on its null space.
    """

    @property
    @abstractmethod
    def qualification(self) -> float:
        r"""Largest :math:`\nu` for which :math:`\sup_\sigma (\sigma/\lambda)^\nu |1 - f|` is bounded in λ.

        A filter with a larger qualification converges faster to smooth functions.
        """

    #: Whether refitting without some rows equals holding them out with the penalty of all rows.
    #: This is only true for ridge regression, φ = 1/(σ + c), if c does not depend on the spectrum.
    refits: ClassVar[bool] = False

    def ridge(self, alpha: float) -> float:
        """Return the ridge c of a filter with ``refits=True``."""
        at_zero = float(self.phi(np.zeros(1), alpha)[0])
        if at_zero == 0:
            return 0.0
        return alpha if at_zero == 1.0 / alpha else 1.0 / at_zero

    def phi(self, values: Array, alpha: float) -> Array:
        r"""Return the regularised inverse :math:`\varphi_\lambda(\sigma)`.

        Parameters
        ----------
        values : array of shape (k,)
            All eigenvalues of one side, none negative; they may be repeated.
        alpha : float
            The regularisation :math:`\lambda \ge 0`.

        Returns
        -------
        array of shape (k,)
        """
        if self._interpolates(alpha):
            return ratio(1.0, values)
        return self._phi(values, alpha)

    def shrinkage(self, values: Array, alpha: float) -> Array:
        r"""Return :math:`f(\sigma) = \sigma\varphi_\lambda(\sigma)`, shape (k,) as `values`."""
        if self._interpolates(alpha):
            return _where(values > 0, values)
        return self._shrinkage(values, alpha)

    def remainder(self, values: Array, alpha: float) -> Array:
        r"""Return the remainder :math:`1 - f(\sigma)`, shape (k,) as `values`."""
        if self._interpolates(alpha):
            return _where(~(values > 0), values)
        return self._remainder(values, alpha)

    def remainder_limit(self, values: Array) -> Array | None:
        r"""Return the limit of :math:`1 - f` up to a factor as :math:`\lambda \to 0`, for a full-rank spectrum.

        Hold-out predictions do not change when the remainder is scaled, so that this limit gives
        them for
        :math:`\lambda = 0`. Return None if the limit depends on more than the spectrum.
        """
        old = getattr(type(self), "vanishing_remainder", None)
        if old is None or old is SpectralFilter.vanishing_remainder:
            return None
        warn_renamed("The method vanishing_remainder of a filter", "the name remainder_limit")
        limit: Array | None = old(self, values)
        return limit

    def vanishing_remainder(self, values: Array) -> Array | None:
        """Return `remainder_limit`, of which this is the deprecated name."""
        warn_renamed("SpectralFilter.vanishing_remainder", "remainder_limit")
        return self.remainder_limit(values)

    def uses_alpha(self) -> bool:
        """Return whether `alpha` changes the filter."""
        return True

    def _interpolates(self, alpha: float) -> bool:
        return alpha == 0 and self.uses_alpha()

    def _phi(self, values: Array, alpha: float) -> Array:
        """Return f/σ, with its limit at σ = 0."""
        xp = namespace(values)
        limit = xp.full_like(values, self._phi_at_zero(values, alpha))
        return xp.where(values > 0, ratio(self._shrinkage(values, alpha), values), limit)

    def _phi_at_zero(self, values: Array, alpha: float) -> float:
        return 0.0

    @abstractmethod
    def _shrinkage(self, values: Array, alpha: float) -> Array: ...

    @abstractmethod
    def _remainder(self, values: Array, alpha: float) -> Array: ...


@dataclass(frozen=True)
class Tikhonov(SpectralFilter):
    r"""Ridge regression, the filter of the paper.

    .. math:: \varphi_\lambda(\sigma) = \frac{1}{\sigma + \lambda}, \qquad
              1 - f(\sigma) = \frac{\lambda}{\sigma + \lambda}

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Tikhonov
    >>> Tikhonov().remainder(np.array([0.0, 1.0, 3.0]), alpha=1.0)
    array([1.  , 0.5 , 0.25])
    """

    refits: ClassVar[bool] = True

    #: Ridge regression does not converge faster to smoother functions.
    qualification = 1.0

    def remainder_limit(self, values: Array) -> Array | None:
        r"""Return :math:`1/\sigma`, the limit of :math:`(1 - f)/\lambda`."""
        return 1.0 / values

    def _phi(self, values: Array, alpha: float) -> Array:
        return 1.0 / (values + alpha)

    def _shrinkage(self, values: Array, alpha: float) -> Array:
        return values / (values + alpha)

    def _remainder(self, values: Array, alpha: float) -> Array:
        return alpha / (values + alpha)


@dataclass(frozen=True)
class SpectralCutoff(SpectralFilter):
    r"""Principal component regression: keep the directions with :math:`\sigma \ge \lambda`.

    .. math:: \varphi_\lambda(\sigma) = \frac{1}{\sigma}[\sigma \ge \lambda], \qquad
              1 - f(\sigma) = [\sigma < \lambda]

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import SpectralCutoff
    >>> SpectralCutoff().phi(np.array([0.5, 1.0, 4.0]), alpha=1.0)
    array([0.  , 1.  , 0.25])
    """

    #: Unbounded.
    qualification = math.inf

    def _shrinkage(self, values: Array, alpha: float) -> Array:
        return _where(values >= alpha, values)

    def _remainder(self, values: Array, alpha: float) -> Array:
        return _where(~(values >= alpha), values)


@dataclass(frozen=True)
class IteratedTikhonov(SpectralFilter):
    r"""Ridge regression repeated on the residuals of the previous repetition.

    .. math:: 1 - f(\sigma) = \left(\frac{\lambda}{\sigma + \lambda}\right)^{n}

    Parameters
    ----------
    n_iter : int, default=2
        Number of repetitions n; 1 is `Tikhonov`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import IteratedTikhonov
    >>> IteratedTikhonov(2).remainder(np.array([0.0, 1.0, 3.0]), alpha=1.0)
    array([1.    , 0.25  , 0.0625])
    """

    n_iter: int = 2

    def __post_init__(self) -> None:
        check_whole(self.n_iter, "n_iter")

    @property
    def qualification(self) -> float:
        """The number of repetitions."""
        return float(self.n_iter)

    def remainder_limit(self, values: Array) -> Array | None:
        r"""Return :math:`\sigma^{-n}`, the limit of :math:`(1 - f)/\lambda^n`."""
        return values ** -int(self.n_iter)

    def _phi_at_zero(self, values: Array, alpha: float) -> float:
        return self.n_iter / alpha

    def _shrinkage(self, values: Array, alpha: float) -> Array:
        xp = namespace(values)
        return -xp.expm1(-self.n_iter * xp.log1p(values / alpha))

    def _remainder(self, values: Array, alpha: float) -> Array:
        return (alpha / (values + alpha)) ** int(self.n_iter)


@dataclass(frozen=True)
class Landweber(SpectralFilter):
    r"""Gradient descent with early stopping, also known as L2-boosting.

    .. math:: 1 - f(\sigma) = \left(1 - \frac{\sigma}{\sigma_{\max}}\right)^{t}, \qquad
              t = \lceil \sigma_{\max} / \lambda \rceil

    Parameters
    ----------
    n_iter : int or None, default=None
        Fixed number of steps t, with which `alpha` has no effect; None is
        :math:`\lceil\sigma_{\max}/\lambda\rceil`.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.filters import Landweber
    >>> Landweber().remainder(np.array([0.0, 1.0, 2.0]), alpha=1.0)
    array([1.  , 0.25, 0.  ])
    """

    n_iter: int | None = None

    def __post_init__(self) -> None:
        if self.n_iter is not None:
            check_whole(self.n_iter, "n_iter")

    #: Unbounded.
    qualification = math.inf

    def uses_alpha(self) -> bool:
        """Return whether `alpha` sets the number of steps."""
        return self.n_iter is None

    def _phi_at_zero(self, values: Array, alpha: float) -> float:
        top = largest(values)
        return self._steps(top, alpha) / top if top > 0 else 0.0

    def _shrinkage(self, values: Array, alpha: float) -> Array:
        return -namespace(values).expm1(self._log_remainder(values, alpha))

    def _remainder(self, values: Array, alpha: float) -> Array:
        return namespace(values).exp(self._log_remainder(values, alpha))

    def _log_remainder(self, values: Array, alpha: float) -> Array:
        xp = namespace(values)
        top = largest(values)
        if top == 0:
            return xp.zeros_like(values)
        share = values / top
        below = share < 1
        logarithm = xp.log1p(-xp.where(below, share, 0.0))
        return xp.where(below, self._steps(top, alpha) * logarithm, -math.inf)

    def _steps(self, top: float, alpha: float) -> float:
        return float(self.n_iter if self.n_iter is not None else math.ceil(top / alpha))


@dataclass(frozen=True, eq=False)
class Tabulated(SpectralFilter):
    """Filter defined by its values on one spectrum, such as that of a side without some of its rows.

    Attributes
    ----------
    shrinkages : array of shape (k,)
        Shrinkage f of each eigenvalue.
    remainders : array of shape (k,)
        Remainder 1 − f of each eigenvalue.
    remainder_limits : array of shape (k,) or None
        Limit of the remainder up to a factor, see `SpectralFilter.remainder_limit`.
    """

    shrinkages: Array
    remainders: Array
    remainder_limits: Array | None = None

    #: Unknown.
    qualification = math.nan

    def remainder_limit(self, values: Array) -> Array | None:
        """Return the attribute `remainder_limits`."""
        return self.remainder_limits

    def uses_alpha(self) -> bool:
        """Return False: `alpha` changes nothing."""
        return False

    def _shrinkage(self, values: Array, alpha: float) -> Array:
        return self.shrinkages

    def _remainder(self, values: Array, alpha: float) -> Array:
        return self.remainders


def _where(condition: Array, values: Array) -> Array:
    """Return 1 where a condition is true and 0 elsewhere, in the precision of the eigenvalues."""
    return namespace(values).astype(condition, values.dtype)

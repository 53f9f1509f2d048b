r"""Gaussian process of a pair kernel: posterior variance and marginal likelihood.

Ridge regression on pairs gives the posterior mean of a process

.. math:: \mathrm{vec}(\mathbf{Y}) \sim \mathcal{N}\bigl(\mu\mathbf{1},\; \tau^2(\mathbf{P} + \lambda\mathbf{I})\bigr),

with :math:`\mathbf{P}` the kernel between pairs. The mean :math:`\mu` is zero, or free. The pair
kernel has the eigenvalues

.. math:: \mathbf{S} = a\,\boldsymbol\sigma\mathbf{s}^\top + b\,\boldsymbol\sigma\mathbf{1}^\top
          + c\,\mathbf{1}\mathbf{s}^\top, \qquad \mathbf{L} = \mathbf{S} + \lambda,

for a product of both kernels, a separate function for each task, and one for each instance. With
:math:`\mathbf{P}_* = \mathbf{K}_*\mathbf{U}` and :math:`\mathbf{R}_* = \mathbf{G}_*\mathbf{V}` for new rows of
kernels, :math:`k` and :math:`g` for k(x, x) and g(t, t), and squares entry by entry, the variance
of the latent function, in units of :math:`\tau^2`, is

=====================  =======================================================================================
known instance, task   :math:`\lambda\,\mathbf{U}^{\circ 2}(\mathbf{S}\oslash\mathbf{L})(\mathbf{V}^{\circ 2})^\top`
new instance           :math:`k\,(a\,G_{jj} + b) + c\,G_{jj} -
                       \mathbf{P}_*^{\circ 2}\bigl((as+b)^2\oslash\mathbf{L}\bigr)(\mathbf{V}^{\circ 2})^\top`
both new               :math:`k\,(a\,g + b) + c\,g -
                       \mathbf{P}_*^{\circ 2}(a^2\oslash\mathbf{L})(\mathbf{R}_*^{\circ 2})^\top`
=====================  =======================================================================================

and for new tasks the mirror image of the second line. The separate function of a new task is
independent of those of training tasks: b adds to the prior variance, and training labels do not
reduce it. The same holds for c and a new instance.

The last two lines are differences. Their error is :math:`\varepsilon(1 +
\sqrt{\|\mathbf{S}\|/\lambda})` times the prior variance. If λ is not small beside the kernel, a
variance of :math:`10^{-p}` times the prior variance has 16 − p digits (7 − p in single precision).
Negative results are set to zero. In the primal there is no subtraction: with features
:math:`\boldsymbol\varphi = \mathbf{W}\mathbf{W}^\top\boldsymbol\varphi + \boldsymbol\varphi_\perp` the prior variance
is :math:`k = \sum_i P_i^2/\sigma_i + \rho`, :math:`\rho = \|\boldsymbol\varphi_\perp\|^2`; with
:math:`\eta` for the same of tasks

=====================  =======================================================================================
new instance           :math:`\rho\,(a\,G_{jj} + b) + c\,G_{jj} +
                       \mathbf{P}_*^{\circ 2}\bigl((as+b)(cs+\lambda)\oslash\sigma\mathbf{L}\bigr)
                       (\mathbf{V}^{\circ 2})^\top`
both new               :math:`\rho\,(a\,g + b) + (k-\rho)(a\,\eta + b) + c\,g + \mathbf{P}_*^{\circ 2}
                       \bigl(a(b\sigma+cs+\lambda)\oslash\sigma s\mathbf{L}\bigr)(\mathbf{R}_*^{\circ 2})^\top`
=====================  =======================================================================================

are sums of nonnegative terms, and are accurate however small they are.

A free mean has a flat prior. The spectra are then those of :math:`\mathbf{K} + \mathbf{11}^\top`
and
:math:`\mathbf{G} + \mathbf{11}^\top`, whose ranges contain constants. With
:math:`\mathbf{C} = \mathbf{P} + \lambda\mathbf{I}`, :math:`s_0 = \mathbf{1}^\top\mathbf{C}^{-1}\mathbf{1}` and
:math:`\mathbf{c}_*` the kernel between a pair and those of training, each variance grows by
:math:`(1 - \mathbf{c}_*^\top\mathbf{C}^{-1}\mathbf{1})^2/s_0`; on known pairs that is
:math:`\lambda^2(\mathbf{C}^{-1}\mathbf{1})^{\circ 2}/s_0`.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dyadlearn._array import (
    BLOCK,
    Array,
    Shape,
    array_bytes,
    dense,
    epsilon,
    largest,
    namespace,
    take_rows,
    values_in,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn._rounding import ratio
from dyadlearn.exceptions import PrecisionWarning
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.spectrum import Spectrum


class Misfit(NamedTuple):
    """Labels minus their most likely mean, and their sum of squares Q.

    Attributes
    ----------
    labels : array
        Labels minus their mean in units of the largest: rotated (k, l), or multiplied by the
        inverse of C (n,).
    total : float
        Q of the labels in these units.
    size : float
        The largest label.
    outside : float
        Sum of squares outside of truncated spectra.
    """

    labels: Array
    total: float
    size: float
    outside: float = 0.0


class GaussianProcess(ABC):
    """Gaussian process of training labels whose posterior mean is the prediction of a pair kernel.

    `Process` has closed forms for complete labels without weights, and
    `dyadlearn.pairing.cells_process.CellsProcess` a matrix over the observed labels.
    """

    model: PairKernel

    @property
    @abstractmethod
    def n_labels(self) -> int:
        """Number of training labels."""

    @abstractmethod
    def variance(
        self,
        rows: NewRows | None = None,
        tasks: NewRows | None = None,
        diagonal: Array | None = None,
        task_diagonal: Array | None = None,
    ) -> Array:
        """Return the posterior variance of the latent function, in units of the squared `scale`.

        Parameters
        ----------
        rows, tasks : NewRows or None
            The a instances and b tasks, as kernel or feature rows; None means those of training.
        diagonal, task_diagonal : array of shape (a,) and (b,), or None
            Kernel of each row with itself; not needed for features.

        Returns
        -------
        array of shape (a, b)

        Warns
        -----
        PrecisionWarning
            If variances are negative by more than rounding: a kernel is not positive semi-definite,
            or the diagonals belong to other rows.
        """

    @abstractmethod
    def covariance(self, row: NewRows, diagonal: Array | None, known: np.ndarray) -> Array:
        """Return the posterior covariance of one new instance between all training tasks and n of them.

        Parameters
        ----------
        row, diagonal : as in `variance`, for one row
        known : integer array of shape (n,)
            Positions of the n tasks.

        Returns
        -------
        array of shape (q, n)
        """

    @abstractmethod
    def _misfit(self, Y: Array) -> Misfit:
        """Return the labels minus the most likely mean, in units of the largest, and the sum Q of squares."""

    @abstractmethod
    def _log_determinant(self) -> float:
        """Return log |C|."""

    @abstractmethod
    def _fixed_log_determinant(self) -> float:
        """Return the logarithm of the determinant of the precision of the fixed part: of s₀ for a free mean."""

    @abstractmethod
    def _slopes(self, misfit: Misfit, share: float, integrated: bool) -> dict[str, float]:
        r"""Return the derivatives of the terms in C of the bracket of `log_likelihood`.

        They are :math:`\mathrm{tr}(\mathbf{ED})`, where D is the derivative of C with respect to
        the logarithm of a parameter and

        .. math:: \mathbf{E} = \mathbf{C}^{-1} - \omega\,\mathbf{rr}^\top - \mathbf{ee}^\top/s_0, \qquad
                  \mathbf{r} = \mathbf{C}^{-1}(\mathbf{y}-\hat\mu\mathbf{1}), \quad
                  \mathbf{e} = \mathbf{C}^{-1}\mathbf{1} .

        Parameters
        ----------
        misfit : Misfit
        share : float
            The factor ω of the squares, in units of the largest label.
        integrated : bool
            Whether a free mean is integrated out; else the last term of E is absent.
        """

    def scale(self, Y: Array) -> float:
        r"""Return the noise scale :math:`\hat\tau`, in the units of labels.

        .. math:: \hat\tau^2 = \frac{(\mathbf{y}-\hat\mu\mathbf{1})^\top\mathbf{C}^{-1}(\mathbf{y}-\hat\mu\mathbf{1})}
                  {n}

        With a free mean the divisor is n − 1, because :math:`\hat\mu` is estimated.

        Raises
        ------
        ValueError
            If alpha is 0 and the kernel is singular, or if there is one label and an unpenalised
            mean.
        """
        misfit = self._misfit(Y)
        return misfit.size * math.sqrt(misfit.total / self._degrees(True))

    def log_likelihood(
        self, Y: Array, *, restricted: bool = True, scale: float | None = None
    ) -> tuple[float, dict[str, float]]:
        r"""Return the log marginal likelihood of labels, and its gradient.

        .. math:: -\frac12\left[\frac{Q}{\tau^2} + \nu\log 2\pi\tau^2 + \log|\mathbf{C}| + \log s_0\right], \qquad
                  Q =
                  (\mathbf{y}-\hat\mu\mathbf{1})^\top\mathbf{C}^{-1}(\mathbf{y}-\hat\mu\mathbf{1})

        Restricted, a free mean is integrated out: :math:`\nu = n - 1`. Otherwise it is set to its
        most likely value:
        :math:`\nu = n`, and there is no :math:`\log s_0`. Without a free mean both are the same, with :math:`\nu = n`
        and no :math:`s_0`. If no scale is given, it is the most likely one, :math:`\hat\tau^2 =
        Q/\nu`. (The density of contrasts, by which restricted likelihoods are often defined, is
        larger by the constant
        :math:`\frac12\log n`.)

        Parameters
        ----------
        Y : array
            Labels: a complete grid (m, q) for `Process`, the observed values (n,) for
            `CellsProcess`.
        restricted : bool, default=True
        scale : float, default=None
            The noise scale τ, in the units of the labels.

        Returns
        -------
        value : float
        gradient : dict
            With respect to the logarithms of ``alpha`` (λ), ``product`` (a), ``per_task`` (b) and
            ``per_instance`` (c), and of ``scale`` if it is given. The entry of a share of zero is
            zero. The derivative with respect to a common factor of all kernels is the sum of the
            entries of the shares.

        Raises
        ------
        ValueError
            As `scale`, or if no scale is given and the labels are constant.
        """
        misfit = self._misfit(Y)
        degrees = self._degrees(restricted)
        if scale is None and misfit.total == 0:
            raise ValueError(
                "The labels are all zero or, with an unpenalised mean, constant, so that the most "
                "likely scale is 0: "
                "pass scale=, in the units of the labels."
            )
        if scale is None:
            noise = misfit.size * math.sqrt(misfit.total / degrees)
        else:
            noise = scale
        fit = degrees if scale is None else misfit.total * (misfit.size / noise) ** 2
        value = (
            fit
            + degrees * math.log(2 * math.pi)
            + 2 * degrees * math.log(noise)
            + self._log_determinant()
        )
        integrated = self.model.free_mean and restricted
        if integrated:
            value += self._fixed_log_determinant()
        bracket = self._slopes(misfit, fit / misfit.total if misfit.total else 0.0, integrated)
        if scale is not None:
            bracket["scale"] = 2 * (degrees - fit)
        return -0.5 * value, {name: -0.5 * slope for name, slope in bracket.items()}

    def _degrees(self, restricted: bool) -> int:
        """Return the degrees of freedom."""
        degrees = self.n_labels - int(self.model.free_mean and restricted)
        if degrees == 0:
            raise ValueError(
                "One label and an unpenalised mean do not determine a scale: give more labels."
            )
        return degrees


def singular_process() -> ValueError:
    """Return the error for a process without noise whose kernel is singular."""
    return ValueError(
        "With alpha = 0 and a singular kernel, the likelihood and the noise scale of the labels "
        "are not defined: use "
        "alpha > 0."
    )


def clipped_variance(variance: Array, prior: Array) -> tuple[Array, int]:
    """Return variances without negative values, and the number that is negative by more than rounding.

    Quotients by eigenvalues of the size of rounding have half the digits.
    """
    xp = namespace(variance)
    n_negative = int(xp.sum(xp.astype(variance < -10 * epsilon(prior) ** 0.5 * prior, xp.int64)))
    return xp.where(variance < 0, 0.0, variance), n_negative


def warn_of_negative(n_negative: int, total: int, stacklevel: int) -> None:
    """Warn if variances were negative by more than rounding."""
    if n_negative:
        warnings.warn(
            f"The variance of {n_negative} of {total} pairs is negative by more than rounding, and "
            f"is "
            "set to zero: the kernel is not positive semi-definite, alpha is too small for the "
            "precision, or "
            "the values k(x, x) belong to other rows than the kernel.",
            PrecisionWarning,
            stacklevel=stacklevel + 1,
        )


@dataclass(frozen=True, eq=False)
class Process(GaussianProcess):
    """Gaussian process of complete labels without weights, from the spectra of both sides.

    Attributes
    ----------
    model : PairKernel
        Pair kernel; its alpha is the noise variance λ in units of the kernel. Both sides need a
        constant feature if the mean is unpenalised.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.pairing import Kronecker
    >>> from dyadlearn.pairing.process import Process
    >>> from dyadlearn.spectrum import Spectrum
    >>> sides = (Spectrum.from_gram(K) for K in (np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)))
    >>> process = Process(Kronecker(*sides, alpha=1.0))
    >>> process.variance()
    array([[0.625, 0.625],
           [0.625, 0.625]])
    >>> round(process.scale(np.array([[1.0, 0.0], [0.0, 1.0]])), 4)
    0.433
    """

    model: PairKernel

    @property
    def n_labels(self) -> int:
        """Number of training labels: that of all cells."""
        return self.model.n_cells

    @property
    def _values(self) -> tuple[Array, Array]:
        rows, columns = self.model.grid_spectra
        return rows.values[:, None], columns.values[None, :]

    @cached_property
    def _inverse(self) -> Array:
        """1/L of shape (k, l); for λ = 0, zero along null directions."""
        return self.model.phi

    # --- variances ----------------------------------------------------------------------------------

    def variance(
        self,
        rows: NewRows | None = None,
        tasks: NewRows | None = None,
        diagonal: Array | None = None,
        task_diagonal: Array | None = None,
    ) -> Array:
        """Return the posterior variance (a, b) of the latent function, see `GaussianProcess`."""
        if rows is None and tasks is None:
            return self._of_known()
        if rows is None:
            return Process(self.model.transposed).variance(tasks, None, task_diagonal).T
        asked = AskedSide(self.model.spectrum, rows, diagonal)
        if tasks is None:
            return self._of_new_rows(asked, None)
        asked_tasks = AskedSide(self.model.task_spectrum, tasks, task_diagonal)
        if (
            asked.size < asked_tasks.size
        ):  # all rows of the second side are in memory together: it is the smaller one
            return Process(self.model.transposed)._of_new_rows(asked_tasks, asked).T
        return self._of_new_rows(asked, asked_tasks)

    def _of_known(self) -> Array:
        rows = self.model.spectrum
        columns = self.model.task_spectrum
        squares = values_in(rows.vectors.shape, columns.vectors.shape)
        self._check_room("Deviations of the labels of training", min(squares, BLOCK))
        variance = self.model.weighted_diagonal(
            self.model.alpha * self.model.kernel_values * self._inverse
        )
        if self.model.free_mean:
            mean = self.model.mean
            of_ones = self.model.on_grid(self.model.alpha * mean.rotated)
            variance += of_ones**2 / mean.total
        return variance

    def _of_new_rows(self, asked: AskedSide, asked_tasks: AskedSide | None) -> Array:
        """Return the variances (a, b) of new instances with new tasks, or with those of training."""
        a, b, c = self.model.shares
        values, task_values = self._values
        inverse = self._inverse
        is_sum = asked.is_sum and (asked_tasks is None or asked_tasks.is_sum)
        if asked_tasks is None:
            tasks = self.model.task_spectrum
            right = tasks.vectors
            task_prior = tasks.diagonal(tasks.values)
            task_rest = None
            gain = a * task_values + b
            sums = None
            if is_sum:
                sums = (c * task_values + self.model.alpha) / values
        else:
            right, task_prior, task_rest = asked_tasks.whole()
            noise = b * values + c * task_values + self.model.alpha
            gain = a + 0.0 * task_values
            sums = noise / (values * task_values) if is_sum else None
        weights = gain * (gain if sums is None else sums) * inverse
        squares = right**2
        n_columns = int(task_prior.shape[0])
        slices, in_block = asked.cut((5, n_columns))
        shape = (asked.rows.size, n_columns)
        like = asked.spectrum.values
        need = array_bytes(like, shape, (2, *right.shape), in_block)
        check_memory(
            need, like, f"Deviations of {shape[0]} × {shape[1]} labels", "ask for fewer at a time"
        )
        result = zeros(shape, like)
        n_negative = 0
        for here in slices:
            projected, prior, rest = asked.project(here)
            part = projected**2 @ weights @ squares.T
            prior_variance = (rest if is_sum else prior)[:, None] * (a * task_prior + b)[
                None, :
            ] + (c * task_prior)[None, :]
            if is_sum:
                part += prior_variance
                if task_rest is not None:
                    part += (prior - rest)[:, None] * (a * task_rest + b)[None, :]
            else:
                part, n_here = clipped_variance(prior_variance - part, prior_variance)
                n_negative += n_here
            if self.model.free_mean:
                mean = self.model.mean
                part += (1.0 - projected @ (gain * mean.rotated) @ right.T) ** 2 / mean.total
            result[here, :] = part
        warn_of_negative(n_negative, math.prod(shape), stacklevel=3)
        return result

    def covariance(self, row: NewRows, diagonal: Array | None, known: np.ndarray) -> Array:
        r"""Return the posterior covariance of one new instance between all training tasks and n of them.

        .. math:: \mathbf{V}\,\mathrm{diag}(\mathbf{p})\,\mathbf{V}_k^\top, \qquad
                  p_j = (as_j + b)\,k + cs_j - \sum_i P_i^2(as_j + b)^2/L_{ij}

        As for the variance, a free mean adds :math:`(1 -
        \mathbf{c}_*^\top\mathbf{C}^{-1}\mathbf{1})` of both pairs, multiplied and divided by
        :math:`s_0`, and in the primal :math:`\mathbf{p}` is a sum of nonnegative terms. Arguments
        are those of `GaussianProcess`.
        """
        a, b, c = self.model.shares
        tasks = self.model.task_spectrum
        asked = AskedSide(self.model.spectrum, row, diagonal)
        gain = a * tasks.values + b
        projected, prior, rest = asked.project(slice(0, 1))
        if asked.is_sum:
            along = projected**2 / self.model.spectrum.values @ self._inverse
            spread = (
                rest * gain
                + c * tasks.values
                + along * gain * (c * tasks.values + self.model.alpha)
            )
        else:
            spread = prior * gain + c * tasks.values - projected**2 @ self._inverse * gain**2
        columns = (tasks.vectors * spread) @ take_rows(tasks.vectors, known).T
        if self.model.free_mean:
            mean = self.model.mean
            left = 1.0 - tasks.vectors @ (projected @ mean.rotated * gain)[0, :]
            columns += left[:, None] * take_rows(left, known)[None, :] / mean.total
        return columns

    def _check_room(self, purpose: str, beside: float = 0.0) -> None:
        """Raise if there is no memory for arrays of all pairs of eigenvectors, and of all cells."""
        like = self.model.spectrum.values
        need = array_bytes(like, (4, *self.model.ranks), (3, self.model.n_cells), beside)
        check_memory(need, like, purpose)

    # --- labels ---------------------------------------------------------------------------------------

    @property
    def _n_outside(self) -> int:
        """Number of directions that truncated spectra leave out."""
        return self.model.n_cells - int(math.prod(self._inverse.shape))

    def _log_determinant(self) -> float:
        xp = namespace(self._inverse)
        if self._n_outside:
            outside = self._n_outside * math.log(self.model.alpha)
        else:
            outside = 0.0
        return outside - float(xp.sum(xp.log(self._inverse)))

    def _fixed_log_determinant(self) -> float:
        return math.log(self.model.mean.total)

    def _slopes(self, misfit: Misfit, share: float, integrated: bool) -> dict[str, float]:
        """Return derivatives from those of the bracket with respect to each eigenvalue of C."""
        xp = namespace(self._inverse)
        growth = self._inverse - share * (misfit.labels * self._inverse) ** 2
        if integrated:
            growth -= self.model.mean.rotated**2 / self.model.mean.total
        by_row, by_task, everywhere = (
            float(xp.sum(growth * side)) for side in (*self._values, 1.0)
        )
        by_both = float(xp.sum(self._values[0] * growth * self._values[1]))
        a, b, c = self.model.shares
        if self._n_outside:
            outside = self._n_outside - share * misfit.outside / self.model.alpha
        else:
            outside = 0.0
        return {
            "alpha": self.model.alpha * everywhere + outside,
            "product": a * by_both,
            "per_task": b * by_row,
            "per_instance": c * by_task,
        }

    def _misfit(self, Y: Array) -> Misfit:
        """Return the rotated labels minus the most likely mean, in units of the largest, and the sum Q of squares."""
        self._check_room("The likelihood of the labels of training")
        xp = namespace(Y)
        inverse = self._inverse
        is_truncated = self._n_outside > 0
        if self.model.alpha == 0 and (is_truncated or not bool(xp.all(inverse > 0))):
            raise singular_process()
        Y = Y - self.model.shift_of(Y)
        size = max(largest(Y), -float(xp.min(Y)))
        if size == 0:
            return Misfit(zeros(tuple(inverse.shape), Y), 0.0, 1.0)
        Y = Y / size
        rotated, mean = self.model.centred(Y)
        outside = 0.0
        if is_truncated:
            outside = float(xp.sum((Y - mean - self.model.on_grid(rotated)) ** 2))
        total = float(xp.sum(rotated**2 * inverse)) + (
            outside / self.model.alpha if outside else 0.0
        )
        return Misfit(rotated, total, size, outside)


@dataclass(frozen=True, eq=False)
class AskedSide:
    """New rows of one side and their prior variance."""

    spectrum: Spectrum
    rows: NewRows
    diagonal: Array | None

    @property
    def is_sum(self) -> bool:
        """Whether variances are sums of nonnegative terms."""
        return self.spectrum.components is not None

    @property
    def size(self) -> int:
        """Number of values of all projected rows."""
        return self.rows.size * int(self.spectrum.values.shape[0])

    def cut(self, *beside: Shape) -> tuple[list[slice], float]:
        """Return slices of rows, and the number of values of a slice, with arrays of these shapes beside each row."""
        per_row = (*beside, (3, self.spectrum.values.shape[0]))
        slices = self.rows.cut(*per_row)
        return slices, slices[0].stop * values_in(*per_row, self.rows.width)

    def whole(self) -> tuple[Array, Array, Array]:
        """Return the results of `project` for all rows."""
        parts = zip(*(self.project(here) for here in self.cut()[0]), strict=True)
        projected, prior, rest = (namespace(part[0]).concat(list(part)) for part in parts)
        return projected, prior, rest

    def project(self, here: slice) -> tuple[Array, Array, Array]:
        """Return K*U (a, k), prior variances (a,), and their parts outside of the span of the training rows (a,).

        The last is computed in the primal only, and zero in the dual.
        """
        xp = namespace(self.spectrum.values)
        values = self.spectrum.values
        block = self.rows.at(here)
        projected = self.spectrum.project(block)
        # Along null directions, kernel rows are only rounding.
        projected *= xp.astype(values > 0, projected.dtype)
        components = self.spectrum.components
        if components is None:
            if self.diagonal is None:
                raise ValueError(
                    "The prior variance of new rows is missing: give their kernel with themselves."
                )
            prior = self.diagonal[here]
            return projected, prior, xp.zeros_like(prior)
        prior = xp.sum(ratio(projected**2, values), axis=1)
        rest = xp.zeros_like(prior)
        if components.shape[1] < components.shape[0]:
            rest = xp.sum(
                (dense(block) - ratio(projected, values**0.5) @ components.T) ** 2, axis=1
            )
        return projected, prior + rest, rest

r"""Gaussian process of a pair kernel whose labels are missing or weighted, from one inverse over the observed labels.

The n observed labels o have the noise :math:`\lambda/w_o`, so that

.. math:: \mathbf{y}_o \sim \mathcal{N}\bigl(\mu\mathbf{1},\; \tau^2\mathbf{C}\bigr), \qquad
          \mathbf{C} = \mathbf{P}_{oo} + \boldsymbol\Lambda, \qquad \boldsymbol\Lambda =
          \lambda\,\mathrm{diag}(1/w) .

With :math:`\mathbf{Q} = \mathbf{C}^{-1}` (`dyadlearn.solve.inverse.CellsInverse`) the variance of
any pair, in units of
:math:`\tau^2`, is that of `dyadlearn.pairing.process`,

.. math:: v = p_* - \mathbf{c}_*^\top\mathbf{Q}\,\mathbf{c}_*
          + (1 - \mathbf{c}_*^\top\mathbf{Q1})^2/s_0 , \qquad s_0 = \mathbf{1}^\top\mathbf{Q1} ,

with the prior variance :math:`p_*` and the kernel :math:`\mathbf{c}_*` between the pair and the
observed ones. The last term is that of a free mean.

**All pairs of one instance.** The kernel between the pairs of instance i and the label of (i', t')
has the form

.. math:: (a\,k_{ii'} + c\,[i=i'])\,g_{tt'} + b\,k_{ii'}\,[t=t'] ,

where c counts only for an instance of training and b only for a task of training. The factors of an
instance multiply the rows and columns of **Q**, which is then summed over the labels of each task:
for all tasks together that takes
:math:`n^2` multiplications, and each task as many as there are pairs of labelled tasks. Tasks take the place of
instances if that is cheaper.

**Observed pairs.** Since :math:`\mathbf{P} - \mathbf{PQP} = \boldsymbol\Lambda -
\boldsymbol\Lambda\mathbf{Q} \boldsymbol\Lambda = \boldsymbol\Lambda\mathbf{QP}`, the variances of
observed pairs are

.. math:: \Lambda_i(1 - \Lambda_i Q_{ii}) \quad\text{or}\quad \Lambda_i\sum_j Q_{ij}P_{ij} .

The first is accurate where the noise is smaller than the prior variance, the second where it is
larger.

The relative error of Q is about :math:`\varepsilon\max_i C_{ii}Q_{ii}`, whatever the weights are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dyadlearn._array import (
    Array,
    Scatter,
    Shape,
    array_bytes,
    as_array_of,
    epsilon,
    is_foreign,
    largest,
    namespace,
    row_blocks,
    take_rows,
    zeros,
)
from dyadlearn._memory import check_memory
from dyadlearn._rounding import warn_of_rounding
from dyadlearn._work import products
from dyadlearn.labels import Labels
from dyadlearn.pairing.expansion import NewRows
from dyadlearn.pairing.pair_kernel import PairKernel
from dyadlearn.pairing.process import (
    AskedSide,
    GaussianProcess,
    Misfit,
    Process,
    clipped_variance,
    singular_process,
    warn_of_negative,
)
from dyadlearn.solve.fixed import FixedFit
from dyadlearn.solve.inverse import CellsInverse
from dyadlearn.spectrum import Spectrum


def process_of(model: PairKernel, labels: Labels) -> tuple[GaussianProcess, Array]:
    """Return the Gaussian process of a pair kernel with its training labels, and the labels as the process takes them.

    Complete labels without weights have closed forms, also if they are a list.
    """
    if labels.is_full:
        return Process(replace(model)), labels.dense().values
    listed = labels.listed()
    return CellsProcess(replace(model), listed), listed.values


def inverse_bytes(labels: Labels) -> float:
    """Return the memory that the inverse over all observed labels takes, in bytes."""
    n = labels.size
    # With numpy, the kernel is inverted in place.
    n_matrices = 4 if is_foreign(labels.values) else 1
    return array_bytes(labels.values, (n_matrices, n, n))


@dataclass(frozen=True, eq=False)
class CellsProcess(GaussianProcess):
    """Gaussian process of missing or weighted labels, from one inverse over the observed labels.

    Attributes
    ----------
    model : PairKernel
        Pair kernel; its alpha is the noise variance λ of a label of weight one, in units of the
        kernel.
    labels : Labels
        List of the observed labels. Only their pairs and weights are used.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.labels import Labels
    >>> from dyadlearn.pairing import Kronecker
    >>> from dyadlearn.pairing.cells_process import CellsProcess
    >>> from dyadlearn.spectrum import Spectrum
    >>> sides = (Spectrum.from_gram(K) for K in (np.array([[2.0, 1.0], [1.0, 2.0]]), np.eye(2)))
    >>> labels = Labels.of_grid(np.array([[1.0, 0.0], [np.nan, 1.0]])).listed()
    >>> process = CellsProcess(Kronecker(*sides, alpha=1.0), labels)
    >>> process.variance().round(3)
    array([[0.667, 0.625],
           [1.667, 0.625]])
    >>> round(process.scale(labels.values), 4)
    0.4859
    """

    model: PairKernel
    labels: Labels

    @property
    def n_labels(self) -> int:
        """Number of training labels."""
        return self.labels.size

    # --- the inverse ----------------------------------------------------------------------------------

    @cached_property
    def _ridges(self) -> Array:
        """Noise variance (n,) of each label, in units of the kernel."""
        return self.model.alpha / self.labels.loss_weights

    @cached_property
    def _inverse(self) -> CellsInverse:
        """The inverse Q of C."""
        n = self.n_labels
        like = self.model.spectrum.values
        check_memory(
            inverse_bytes(self.labels),
            like,
            f"The matrix of {n} × {n} observed labels, from which deviations and likelihoods are "
            f"computed,",
            "fit the model on fewer labels; complete labels without weights need no such matrix",
        )
        kernel = self.model.kernel_block(*self.labels.places)
        diagonal = namespace(kernel).linalg.diagonal(kernel) + self._ridges
        inverse = CellsInverse.of(kernel, self._ridges, refusal=self._refusal)
        error = epsilon(diagonal) * largest(
            diagonal * namespace(diagonal).linalg.diagonal(inverse.matrix)
        )
        if self.model.alpha == 0 and 10 * n * error >= 1:
            raise singular_process()
        warn_of_rounding(error, "deviations and likelihoods")
        return replace(inverse, rounding=error)

    def check_precision(self) -> None:
        """Warn again if rounding changes deviations and likelihoods noticeably, for a process that is used again."""
        warn_of_rounding(self._inverse.rounding, "deviations and likelihoods")

    def _refusal(self) -> Exception:
        """Return the error for a kernel that is singular beside its noise."""
        if self.model.alpha == 0:
            return singular_process()
        return ValueError(
            f"alpha = {self.model.alpha:g} is lost in the rounding of the kernel between "
            f"{self.n_labels} observed "
            "pairs, so that they have no deviations and no likelihood: use a larger alpha."
        )

    @cached_property
    def _fixed(self) -> FixedFit:
        """Generalised least squares of the fixed part, the free mean."""
        return self.model.fixed_part(self.n_labels, self._ridges).solved(self._inverse.times)

    # --- variances ------------------------------------------------------------------------------------

    def variance(
        self,
        rows: NewRows | None = None,
        tasks: NewRows | None = None,
        diagonal: Array | None = None,
        task_diagonal: Array | None = None,
    ) -> Array:
        """Return the posterior variance (a, b) of the latent function, see `GaussianProcess`."""
        instances, others = self._sides(rows, tasks, diagonal, task_diagonal)
        if self._cost(others, instances) < self._cost(instances, others):
            variance = self._of_rows(others, instances).T
        else:
            variance = self._of_rows(instances, others)
        if rows is not None or tasks is not None:
            return variance
        observed = self.labels.spread(self._of_observed())
        xp = namespace(observed)
        return xp.where(xp.isnan(observed), variance, observed)

    def _sides(
        self,
        rows: NewRows | None,
        tasks: NewRows | None,
        diagonal: Array | None,
        task_diagonal: Array | None,
    ) -> tuple[_CellsSide, _CellsSide]:
        """Return the instances and tasks that are asked for; arguments as in `variance`."""
        _, per_task, per_instance = self.model.shares
        at, task_at = self.labels.places
        instances = _CellsSide(self.model.spectrum, rows, diagonal, at, per_instance)
        return instances, _CellsSide(
            self.model.task_spectrum, tasks, task_diagonal, task_at, per_task
        )

    def _cost(self, first: _CellsSide, second: _CellsSide) -> float:
        """Return the number of multiplications of `_of_rows`."""
        n = self.n_labels
        of_inverse = products((2, first.size, n, n))
        return of_inverse + products((first.size, second.size, second.width, second.width))

    def _of_rows(self, first: _CellsSide, second: _CellsSide) -> Array:
        """Return the variances (a, b) of the rows of one side with those of the other, one row after the other."""
        shape = (first.size, second.size)
        like = self.model.spectrum.values
        parts = second.cut()
        n_beside = parts[0].stop
        slices = first.cut((4, n_beside))
        n_here = slices[0].stop
        in_blocks = ((4, n_beside, second.width), (4, n_here, n_beside), (3, n_here, first.width))
        halves = ((2, second.width, self.n_labels), (2, second.width, second.width))
        check_memory(
            array_bytes(like, shape, *in_blocks, *halves),
            like,
            f"Computing deviations of {math.prod(shape)} pairs",
            "ask for fewer at a time",
        )
        crossing = self._crossing(first, second)
        result = zeros(shape, like)
        n_negative = 0
        for there in parts:
            others = second.described(there)
            for here in slices:
                variance, n_here = self._of_block(crossing, first.described(here), others)
                result[here, there] = variance
                n_negative += n_here
        warn_of_negative(n_negative, math.prod(shape), stacklevel=3)
        return result

    def _of_block(
        self, crossing: _Crossing, rows: _Described, others: _Described
    ) -> tuple[Array, int]:
        """Return the variances (a, b) of some rows of both sides, and how many are negative by more than rounding."""
        factor = others.factor
        prior = crossing.prior(rows, others)
        explained = namespace(prior).zeros_like(prior)
        of_fixed = namespace(prior).zeros_like(prior)
        for place, (square, total) in enumerate(crossing.sums(rows)):
            explained[place, :] = namespace(factor).sum(factor @ square * factor, axis=1)
            of_fixed[place, :] = self._fixed.variance(self._gap(factor, total))
        variance, n_negative = clipped_variance(prior - explained, prior)
        return variance + of_fixed, n_negative

    def _gap(self, factor: Array, total: Array) -> Array:
        """Return the columns of the fixed part (r, b) of pairs that their kernel to the labels does not fit."""
        columns = self._fixed.part.new(int(factor.shape[0])).columns
        return (columns - factor @ total).T

    def _crossing(self, first: _CellsSide, second: _CellsSide) -> _Crossing:
        return _Crossing(self.model.shares[0], first, second, self._inverse, self._fixed.along)

    def _of_observed(self) -> Array:
        """Return the variances (n,) of the observed pairs."""
        xp = namespace(self._ridges)
        inverse = self._inverse.matrix
        prior = zeros((self.n_labels,), inverse)
        along = zeros((self.n_labels,), inverse)
        for here, terms in self.model.term_blocks(*self.labels.places):
            for share, term in zip(self.model.shares, terms, strict=True):
                if term is not None:
                    prior[here] += share * xp.linalg.diagonal(term, offset=here.start)
                    along[here] += share * xp.sum(term * inverse[here, :], axis=1)
        remainder = 1.0 - self._ridges * xp.linalg.diagonal(inverse)
        variance = self._ridges * xp.where(self._ridges < prior, remainder, along)
        variance = xp.where(variance < 0, 0.0, variance)
        # For an observed pair, the columns minus their fit are the ridge times the row of QF.
        return variance + self._fixed.variance(self._ridges * self._fixed.along.T)

    def covariance(self, row: NewRows, diagonal: Array | None, known: np.ndarray) -> Array:
        r"""Return the posterior covariance of one new instance between all training tasks and n of them.

        .. math:: k\,(a\,\mathbf{G} + b\,\mathbf{I}) + c\,\mathbf{G} - \mathbf{C}_*\mathbf{Q}\,\mathbf{C}_*^\top
                  + \mathbf{LS}^{-1}\mathbf{L}^\top , \qquad \mathbf{L} = \mathbf{1} - \mathbf{C}_*\mathbf{Q1}

        Each row of :math:`\mathbf{C}_*` belongs to a task. Arguments are those of
        `GaussianProcess`.
        """
        first, second = self._sides(row, None, diagonal, None)
        rows = first.described(slice(0, 1))
        square, total = next(self._crossing(first, second).sums(rows))
        factor = second.described(slice(0, second.size)).factor
        tasks = self.model.task_spectrum
        every = np.arange(tasks.n_rows)
        prior = float(rows.prior[0])
        columns = (prior * self.model.shares[0] + first.share) * tasks.block(
            tasks.values, every, known
        )
        columns += (
            prior * second.share * as_array_of(every[:, None] == known, columns, columns.dtype)
        )
        columns -= factor @ (square @ take_rows(factor, known).T)
        gap = self._gap(factor, total)
        columns += gap.T @ self._fixed.covariance(take_rows(gap.T, known).T)
        return columns

    # --- labels ---------------------------------------------------------------------------------------

    def _misfit(self, Y: Array) -> Misfit:
        """Return Q times the labels minus the most likely mean, in units of the largest, and the sum of squares."""
        xp = namespace(Y)
        Y = Y - self.model.shift_of(Y)
        size = largest(xp.abs(Y))
        if size == 0:
            return Misfit(xp.zeros_like(Y), 0.0, 1.0)
        Y = Y / size
        solved = self._fixed.projected(self._inverse.times(Y[:, None])[:, 0])
        Y = Y - self._fixed.part.columns @ self._fixed.coefficients(Y)
        return Misfit(solved, max(0.0, float(xp.sum(Y * solved))), size)

    def _log_determinant(self) -> float:
        return self._inverse.log_determinant

    def _fixed_log_determinant(self) -> float:
        return self._fixed.log_determinant

    def _slopes(self, misfit: Misfit, share: float, integrated: bool) -> dict[str, float]:
        xp = namespace(self._ridges)
        inverse = self._inverse.matrix
        solved = misfit.labels
        # What the restricted likelihood subtracts from Q is the product of these.
        if integrated:
            along = self._fixed.along
        else:
            along = zeros((self.n_labels, 0), inverse)
        of_labels = self._fixed.of_labels if integrated else along.T
        diagonal = (
            xp.linalg.diagonal(inverse) - share * solved**2 - xp.sum(along * of_labels.T, axis=1)
        )
        sums = [0.0, 0.0, 0.0]
        for here, terms in self.model.term_blocks(*self.labels.places):
            growth = (
                inverse[here, :] - share * solved[here, None] * solved - along[here, :] @ of_labels
            )
            for place, term in enumerate(terms):
                if term is not None:
                    sums[place] += float(xp.sum(growth * term))
        slopes = {"alpha": float(xp.sum(self._ridges * diagonal))}
        for name, factor, total in zip(
            ("product", "per_task", "per_instance"), self.model.shares, sums, strict=True
        ):
            slopes[name] = factor * total
        return slopes


class _Described(NamedTuple):
    """Some rows of a side, beside the d distinct rows with labels.

    Attributes
    ----------
    prior : array of shape (a,)
        Kernel of each row with itself.
    kernel : array of shape (a, d)
        Kernel between the rows and those with labels.
    same : array of shape (a, d) or None
        One where both are the same row, else zero; None if the model has no functions of single
        rows of this side, or if the rows are new.
    """

    prior: Array
    kernel: Array
    same: Array | None

    @property
    def factor(self) -> Array:
        """Factor (a, w) of the kernel of pairs, see `_Crossing`."""
        if self.same is None:
            return self.kernel
        return namespace(self.kernel).concat([self.kernel, self.same], axis=1)


@dataclass(frozen=True, eq=False)
class _CellsSide:
    """One side of the pairs that are asked for, and its rows with labels.

    Attributes
    ----------
    spectrum : Spectrum
    rows : NewRows or None
        The rows; None means those of training.
    diagonal : array or None
        Kernel of each new row with itself; not needed for features.
    at : integer array of shape (n,)
        Row of each label.
    share : float
        Share of the functions of single rows of this side: c for instances, b for tasks.
    """

    spectrum: Spectrum
    rows: NewRows | None
    diagonal: Array | None
    at: np.ndarray
    share: float

    @property
    def size(self) -> int:
        """Number of rows that are asked for."""
        if self.rows is None:
            return self.spectrum.n_rows
        return self.rows.size

    @property
    def has_own(self) -> bool:
        """Whether the rows have functions of their own that labels tell about."""
        return self.rows is None and self.share > 0

    @cached_property
    def labelled(self) -> tuple[np.ndarray, np.ndarray]:
        """Distinct rows (d,) with labels, and the position (n,) of the row of each label among them."""
        distinct, places = np.unique(self.at, return_inverse=True)
        return distinct, places

    @property
    def width(self) -> int:
        """Number of factors of each row: d, and as many if rows have functions of their own."""
        return int(self.labelled[0].size) * (1 + self.has_own)

    @cached_property
    def _prior(self) -> Array:
        """Kernel of each training row with itself."""
        return self.spectrum.diagonal(self.spectrum.values)

    def cut(self, *beside: Shape) -> list[slice]:
        """Return slices of rows, with arrays of these shapes for each row beside those of `described`."""
        per_row = (*beside, (3, self.width))
        if self.rows is None:
            return list(row_blocks(self.size, *per_row))
        return AskedSide(self.spectrum, self.rows, self.diagonal).cut(*per_row)[0]

    def described(self, here: slice) -> _Described:
        """Return some of the rows."""
        distinct = self.labelled[0]
        if self.rows is not None:
            projected, prior, _ = AskedSide(self.spectrum, self.rows, self.diagonal).project(here)
            return _Described(prior, projected @ take_rows(self.spectrum.vectors, distinct).T, None)
        rows = np.arange(here.start, here.stop)
        kernel = self.spectrum.block(self.spectrum.values, rows, distinct)
        if self.has_own:
            same = as_array_of(rows[:, None] == distinct, kernel, kernel.dtype)
        else:
            same = None
        return _Described(self._prior[here], kernel, same)


class _Crossing:
    r"""Kernel between all pairs of the rows of two sides and the n labels, one row of the first side after the other.

    For a row i of the first side, the kernel between its pairs with the rows of the second side and
    the labels is
    :math:`\mathbf{FB}_i^\top`. F is the `factor` of the second side, with w columns, and each label has one or two
    nonzero entries in its row of :math:`\mathbf{B}_i` (n, w).

    Parameters
    ----------
    product : float
        The share a.
    first, second : _CellsSide
    inverse : CellsInverse
        The inverse Q.
    along : array of shape (n, r)
        The columns of the fixed part multiplied by the inverse, QF.
    """

    def __init__(
        self,
        product: float,
        first: _CellsSide,
        second: _CellsSide,
        inverse: CellsInverse,
        along: Array,
    ) -> None:
        self.product = product
        self.first = first
        self.second = second
        self.inverse = inverse
        self.along = along
        labels = np.arange(inverse.n_labels)
        distinct, places = second.labelled
        if second.has_own:
            labels = np.repeat(labels, 2)
            places = np.stack([places, places + distinct.size], axis=1).reshape(-1)
        self._scatter = Scatter(labels, places, (inverse.n_labels, second.width), along)

    def prior(self, rows: _Described, others: _Described) -> Array:
        """Return the prior variances (a, b) of some rows of both sides."""
        shared = self.product * others.prior + self.second.share
        return rows.prior[:, None] * shared[None, :] + (self.first.share * others.prior)[None, :]

    def sums(self, rows: _Described) -> Iterator[tuple[Array, Array]]:
        r"""Yield two sums for each row i.

        Yields
        ------
        square : array of shape (w, w)
            The matrix :math:`\mathbf{B}_i^\top\mathbf{QB}_i`.
        total : array of shape (w, r)
            The matrix :math:`\mathbf{B}_i^\top\mathbf{QF}`.
        """
        n_columns = int(self.along.shape[1])
        for place in range(rows.kernel.shape[0]):
            values = self._values(rows, place)
            half = self._scatter.times(values, self.inverse.matrix, transposed=True)
            total = zeros((self.second.width, n_columns), self.along)
            if n_columns:
                total = self._scatter.times(values, self.along, transposed=True)
            yield self._scatter.times(values, half.T, transposed=True), total

    def _values(self, rows: _Described, place: int) -> Array:
        """Return the nonzero entries of B for one row, in the order of labels."""
        shared = self.product * rows.kernel[place, :]
        if rows.same is not None:
            shared += self.first.share * rows.same[place, :]
        at = self.first.labelled[1]
        values = take_rows(shared, at)
        if not self.second.has_own:
            return values
        xp = namespace(values)
        separate = take_rows(self.second.share * rows.kernel[place, :], at)
        return xp.reshape(xp.stack([values, separate], axis=1), (-1,))

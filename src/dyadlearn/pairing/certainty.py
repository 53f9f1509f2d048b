r"""Jackknife models and novelty of rows, for prediction intervals.

The jackknife models, each of which lacks a training row, follow from one fit. A row whose labels
equal its hold-out predictions does not change the model. So the model without row i is the model
itself, fitted with the hold-out predictions :math:`\hat{\mathbf{y}}_i` in place of the labels of
row i. Predictions are linear in the labels, and the one for a new row x is

.. math:: f_{-i}(x) = f(x) - \text{the prediction for } x \text{ from } \mathbf{e}_i\mathbf{r}_i^\top,
          \qquad \mathbf{r}_i = \mathbf{y}_i - \hat{\mathbf{y}}_i .

If the side of the rows has a smoother of its own, the second term is :math:`h_i(x)\,\mathbf{r}_i`,
with the weight
:math:`h_i(x)` of row i at x and the residual :math:`\mathbf{r}_i` of the targets of this side. In two-step ridge
regression the targets are labels smoothed over the tasks. With a pair kernel the weights differ
between rotated tasks, and the sums are rotated back.

Rows that are left out together, in groups or folds, are one unit: their changes are summed.

The novelty of a row measures its distance from the training rows in the kernel of its side. It is
the posterior variance of a label of the row in a Gaussian process with this kernel, divided by the
noise variance:

.. math:: \kappa(x) = 1 + \frac{k(x,x) - \mathbf{k}^\top(\mathbf{K}+\rho\mathbf{I})^{-1}\mathbf{k}}{\rho},
          \qquad \kappa_{-i}(x_i) = \frac{1}{e_i}, \qquad
          \kappa_{-i}(x) = \kappa(x) + \frac{h_i(x)^2}{e_i},

with :math:`\mathbf{e}` the diagonal of the residual operator and :math:`\mathbf{h}` the weights of
the rows at x; the index :math:`-i` means that row i is left out. An unpenalised constant adds 1/n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from dyadlearn._array import Array, largest, matmul, namespace, row_major, take_rows, to_numpy
from dyadlearn._rounding import ratio
from dyadlearn.filters import Tikhonov
from dyadlearn.kernels.vectors import square_norms
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.solve.leaving import Members, leave_out
from dyadlearn.spectrum import Smoother, Spectrum


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Jackknife models, each trained without a unit of rows.

    Attributes
    ----------
    held_out : array of shape (m, q)
        Hold-out prediction of each row, by the model without its unit; NaN, or any number, where a
        label is missing.
    members : list of integer arrays, or None
        Row positions of each unit; None means that each row is a unit.
    numbers : int
        Number of intermediate values for each new row, not counting the predictions.
    predictions : callable
        Returns the predictions of the u models for a new rows, shape (a, q, u).
    """

    held_out: Array
    members: Members
    numbers: int
    predictions: Callable[[NewRows], Array]

    @property
    def n_values(self) -> int:
        """Number of values that are computed for each new row."""
        m, q = (int(length) for length in self.held_out.shape)
        return self.numbers + 2 * q * (m if self.members is None else len(self.members))


def side_jackknife(side: Smoother, targets: Array, members: Members) -> Jackknife:
    """Return the jackknife models if the side of the rows has a smoother of its own.

    Parameters
    ----------
    side : Smoother
    targets : array of shape (m, q)
        Targets of the regression on this side.
    members : list of integer arrays, or None
    """
    held_out = leave_out(side, targets, members)

    def predict(rows: NewRows) -> Array:
        """Return the predictions f minus the contribution of each unit."""
        spectrum = side.spectrum
        weights = spectrum.expand(spectrum.project(rows.block(rows.values)) * side.phi)
        left = targets - held_out
        if members is None:
            changes = weights[:, None, :] * -row_major(left.T)[None, :, :]
        else:
            pieces = [-(take_rows(weights.T, at).T @ take_rows(left, at)) for at in members]
            changes = namespace(left).stack(pieces, axis=2)
        changes += (weights @ targets)[:, :, None]
        return changes

    return Jackknife(held_out, members, int(held_out.shape[0]), predict)


def fold_jackknife(held_out: Array, members: Members, models: Sequence[Expansion]) -> Jackknife:
    """Return the jackknife models from the coefficients of each; arguments are as in `Jackknife`."""

    def predict(rows: NewRows) -> Array:
        predictions = [model.grid(rows, None) for model in models]
        return namespace(predictions[0]).stack(predictions, axis=2)

    return Jackknife(held_out, members, 0, predict)


# Bounds of the ridge relative to the kernel: a smaller ridge makes all novelties very large, a
# larger one equal.
_LEAST = 1e-6


@dataclass(frozen=True, eq=False)
class Novelty:
    """Novelty of rows of one side.

    Attributes
    ----------
    side : Smoother
        Tikhonov smoother of the side; its ridge is the scale of the novelty.
    """

    side: Smoother

    @classmethod
    def of(cls, spectrum: Spectrum, ridge: float) -> Self:
        """Return the novelty for a spectrum and a ridge, which is clipped relative to the kernel."""
        total = float(namespace(spectrum.values).sum(spectrum.values)) / max(spectrum.n_rows, 1)
        if total > 0:
            ridge = min(max(ridge, _LEAST * total), total / _LEAST)
        return cls(Smoother(spectrum, Tikhonov(), ridge if 0 < ridge < math.inf else 1.0))

    @cached_property
    def left_out(self) -> Array:
        """Novelty of each training row relative to the others, shape (n,)."""
        slack = self.side.slack
        return 1.0 / namespace(slack).clip(slack, _LEAST, 1.0)

    @cached_property
    def typical(self) -> float:
        """Median of `left_out`."""
        return float(np.median(to_numpy(self.left_out)))

    def of_rows(self, rows: NewRows) -> tuple[Array | None, Array | None]:
        """Return the novelty of new rows, divided by the `typical` novelty.

        Parameters
        ----------
        rows : NewRows
            The a new rows.

        Returns
        -------
        novelty : array of shape (a,) or None
            Novelty relative to all training rows; None if the kernel of a row with itself is not
            known.
        increase : array of shape (a, n) or None
            Increase of the novelty if a training row is left out.
        """
        novelty, along = self.raw(rows)
        if novelty is None:
            return None, None
        increase = self.side.spectrum.expand(along * self.side.phi) ** 2 * self.left_out[None, :]
        return novelty / self.typical, increase / self.typical

    def raw(self, rows: NewRows) -> tuple[Array | None, Array]:
        """Return the novelty (a,) before the division, 1/(1 − h) for a leverage h, and projected rows (a, k)."""
        spectrum = self.side.spectrum
        ridge = self.side.alpha
        block = rows.block(rows.values)
        along = spectrum.project(block)
        xp = namespace(along)
        values = spectrum.penalised
        penalised = along[:, :-1] if spectrum.has_free_constant else along
        novelty = xp.full_like(
            along[:, 0], 1.0 + (1.0 / spectrum.n_rows if spectrum.has_free_constant else 0.0)
        )
        if spectrum.components is not None:
            # Features split into a part within the span of the training rows and a part outside of
            # it.
            inside = ratio(penalised**2, values)
            novelty = novelty + xp.sum(inside / (values + ridge), axis=1)
            novelty = novelty + outside_span(spectrum, block, xp.sum(inside, axis=1)) / ridge
        else:
            prior = rows.self_kernel
            if prior is None:
                return None, along
            left = prior + spectrum.identity - xp.sum(penalised**2 / (values + ridge), axis=1)
            novelty = novelty + xp.clip(left, 0.0, largest(xp.abs(left))) / ridge
        return novelty, along


def outside_span(spectrum: Spectrum, rows: Array, inside: Array) -> Array:
    """Return squared distances (a,) of feature rows from the span of training, from squared lengths (a,) within it."""
    features = rows[:, :-1] if spectrum.has_free_constant else rows
    means = spectrum.means
    squares = size = square_norms(features)
    if (
        means is not None
    ):  # the lengths are those of centred rows, but rounding is that of all terms
        beside = means @ means
        squares = size - 2.0 * matmul(features, means[:, None])[:, 0] + beside
        size = size + beside
    outside = squares - inside
    return namespace(outside).where(outside > 1e-9 * size, outside, 0.0 * outside)

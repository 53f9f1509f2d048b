r"""Predictions for new rows by models that never saw one of the rows of training, without fitting any.

Fitted with the labels that the others predict for it, a row changes nothing: that is what held out means. So a model
without row i is the model itself with the labels :math:`\hat{\mathbf{y}}_i` in its place, and as predictions are
linear in the labels, that for a new row x is

.. math:: f_{-i}(x) = f(x) - \text{the prediction for } x \text{ from } \mathbf{e}_i\mathbf{r}_i^\top,
          \qquad \mathbf{r}_i = \mathbf{y}_i - \hat{\mathbf{y}}_i .

Where a side is smoothed by itself, that is :math:`h_i(x)\,\mathbf{r}_i`, with the weight :math:`h_i(x)` of row i at x
and the residual of *what the side regresses on*: labels that the tasks have smoothed already, in two-step ridge
regression. With a pair kernel the weights differ from one rotated task to the next, and rows are turned back.

Rows that left together, in groups or folds, are one unit: their changes are summed.

How far a row lies from the rows of training, in the kernel of its side.

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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from dyadlearn._array import Array, as_array_of, is_sparse, largest, matmul, namespace, row_major, take_rows, to_numpy
from dyadlearn._rounding import ratio
from dyadlearn.filters import Tikhonov
from dyadlearn.pairing.expansion import Expansion, NewRows
from dyadlearn.pairing.leaving import Members, unit_codes
from dyadlearn.spectrum import Smoother, Spectrum


@dataclass(frozen=True, eq=False)
class Jackknife:
    """Models that each did without some rows of training.

    Attributes
    ----------
    held_out : array of shape (m, q)
        Their predictions for the rows that they did without.
    members : list of integer arrays, or None
        Rows that left together; None is each by itself.
    numbers : int
        Number of values that are computed on the way for each new row, beside the predictions.
    predictions : callable
        Returns the predictions of the u models for a new rows, shape (a, q, u).
    """

    held_out: Array
    members: Members
    numbers: int
    predictions: Callable[[NewRows], Array]

    def unit_of_rows(self) -> np.ndarray:
        """Return which model did without each row, shape (m,)."""
        return unit_codes(self.members, int(self.held_out.shape[0]))

    @property
    def n_values(self) -> int:
        """Number of values that are computed for each new row."""
        m, q = (int(length) for length in self.held_out.shape)
        return self.numbers + 2 * q * (m if self.members is None else len(self.members))


def side_jackknife(held_out: Array, members: Members, side: Smoother, targets: Array) -> Jackknife:
    """Return the models where the side of the rows is smoothed by itself.

    Parameters
    ----------
    held_out, targets : arrays of shape (m, q)
        What the side regresses on, and predictions of it.
    members : list of integer arrays, or None
    side : Smoother
    """

    def predict(rows: NewRows) -> Array:
        """Return f less what each unit adds to it."""
        spectrum = side.spectrum
        weights = spectrum.expand(spectrum.project(rows.block(rows.values)) * side.phi)
        left = targets - held_out
        whole = weights @ targets
        if members is None:
            changes = weights[:, None, :] * -row_major(left.T)[None, :, :]
        else:
            pieces = [-(take_rows(weights.T, each).T @ take_rows(left, each)) for each in members]
            changes = namespace(left).stack(pieces, axis=2)
        changes += whole[:, :, None]
        return changes

    return Jackknife(held_out, members, int(held_out.shape[0]), predict)


def pair_jackknife(
    held_out: Array,
    members: Members,
    model: Expansion,
    spectra: tuple[Spectrum, Spectrum],
    weights: Array,
    residuals: Array,
    mean_parts: tuple[Array, Array] | None,
) -> Jackknife:
    r"""Return the models where tasks are rotated, and each is a problem of its own.

    Parameters
    ----------
    held_out : array of shape (m, q)
    members : list of integer arrays, or None
    model : Expansion
        Predictions of the model that saw all rows.
    spectra : (Spectrum, Spectrum)
        Of instances and tasks.
    weights : array of shape (k, l)
        The weight of a rotated label for a new row, :math:`(as_l+b)/(S_{kl}+\lambda)`.
    residuals : array of shape (m, l)
        Of the labels, with the tasks rotated.
    mean_parts : (array of shape (m,), array of shape (k, l)) or None
        Where a mean is free: the residuals of each row as parts of it, and a grid of ones, weighed and rotated, which
        is how much of the mean is in the kernel already.
    """
    (m, turned), k = residuals.shape, weights.shape[0]

    def predict(rows: NewRows) -> Array:
        """Return f less what each unit adds to it, turned back."""
        spectrum, tasks = spectra
        xp, V = namespace(weights), tasks.vectors
        along = spectrum.project(rows.block(rows.values))
        a = along.shape[0]
        products = xp.reshape(along[:, None, :] * spectrum.vectors[None, :, :], (a * m, k)) @ weights
        products = xp.reshape(products, (a, m, turned)) * residuals[None, :, :]
        if members is not None:
            pieces = [xp.sum(xp.take(products, as_array_of(each, V), axis=1), axis=1) for each in members]
            products = xp.stack(pieces, axis=1)
        # Tasks before units: of each task by itself the bounds are order statistics over units.
        changes = -V @ xp.permute_dims(products, (0, 2, 1))
        if mean_parts is not None:
            means, ones = mean_parts
            if members is not None:
                means = xp.stack([xp.sum(take_rows(means, each)) for each in members])
            rest = 1.0 - along @ ones @ V.T
            changes -= means[None, None, :] * rest[:, :, None]
        changes += model.grid(rows, None)[:, :, None]
        return changes

    return Jackknife(held_out, members, int(m * (k + 2 * turned)), predict)


def fold_jackknife(held_out: Array, members: Members, models: Sequence[Expansion]) -> Jackknife:
    """Return the models of folds that were solved for again, because labels are missing."""

    def predict(rows: NewRows) -> Array:
        predictions = [model.grid(rows, None) for model in models]
        return namespace(predictions[0]).stack(predictions, axis=2)

    return Jackknife(held_out, members, 0, predict)


# A ridge far below the kernel would make every row without an equal infinitely far; one far above makes all alike.
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
        """Return how far new rows lie, each in units of what is typical.

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
            inside = ratio(own**2, values)
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

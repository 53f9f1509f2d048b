r"""Predictions of pairs without a label by the models without their units.

The model without the labels S is the model of the labels :math:`\mathbf{y}'`, in which the held-out
predictions
:math:`\hat{\mathbf{y}}_S` take the place of :math:`\mathbf{y}_S`: a label that equals its held-out prediction does not
change the model. Its predictions of other pairs u are

.. math:: \mathbf{P}_{uo}\,\mathbf{N}\mathbf{y}' + \mu', \qquad
          \mu' = y'_r - (\mathbf{P}_{oo}\,\mathbf{N}\mathbf{y}')_r - c_r\,(\mathbf{N}\mathbf{y}')_r
          \text{ for any observed } r .

An inverse over the missing pairs u knows them as
:math:`-\mathbf{R}_{uu}^{-1}\mathbf{R}_{uo}\mathbf{y}'`, with the residual operator R of the
complete grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array, namespace, placed, row_blocks, take_rows, zeros
from dyadlearn._rounding import settle
from dyadlearn._work import products
from dyadlearn.labels import Labels, Places
from dyadlearn.pairing.inverses import fixed_values
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.missing_inverse import MissingInverse
from dyadlearn.solve.operators import GridOperators

# Most multiplications for pairs without a label; above, they have no held-out prediction.
_MOST_WORK = 2e10
# Cost of an entry of the kernel, relative to a multiplication.
_ENTRY = 10.0


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Pairs of a grid without a label.

    Attributes
    ----------
    operators : GridOperators
        Operators of the model.
    labels : Labels
        Labels of a grid.
    inverse : Inverse
    centred : array of shape (n,)
        Observed labels, minus their mean if the model has a free mean.
    """

    operators: GridOperators
    labels: Labels
    inverse: Inverse
    centred: Array

    def predict(self, held_out: Array, codes: Sequence[np.ndarray]) -> Array:
        """Return a grid (m, q) with predictions of the missing labels; NaN elsewhere, and where there are none.

        There is none without a label that remains, and all are NaN where they cost too much.

        Parameters
        ----------
        held_out : array of shape (n,)
            Held-out predictions of the observed labels, centred too.
        codes : sequence of integer arrays of shape (m, q)
            Unit of each pair; in setting D, of its instance and of its task.
        """
        observed = self.labels.observed
        missing = np.flatnonzero(~observed)
        grid = zeros((observed.size,), self.centred) + float("nan")
        if products((self.labels.size, missing.size)) > _MOST_WORK:
            return namespace(grid).reshape(grid, self.labels.shape)
        known = [of_side[observed] for of_side in codes]
        asked = np.stack([of_side.reshape(-1)[missing] for of_side in codes])
        wanted, unit_of = np.unique(asked, axis=1, return_inverse=True)
        unit_of = unit_of.reshape(-1)
        n = self.labels.size
        n_units = wanted.shape[1]
        if self._work(missing.size, n_units) > _MOST_WORK:
            return namespace(grid).reshape(grid, self.labels.shape)
        order = np.argsort(unit_of, kind="stable")
        ends = np.cumsum(np.bincount(unit_of, minlength=n_units))
        asked_by_unit = np.split(order, ends[:-1])
        pieces: list[Array] = []
        places: list[np.ndarray] = []
        for here in row_blocks(n_units, (4, n)):
            changed = [self._changed(units, known, held_out) for units in wanted.T[here]]
            labels = namespace(grid).stack(changed, axis=1)
            asked_of = asked_by_unit[here]
            pieces.extend(self._predictions(labels, missing, asked_of))
            places.extend(missing[at] for at in asked_of)
        grid = placed(pieces, places, observed.size)
        return namespace(grid).reshape(grid, self.labels.shape)

    def fitted(self) -> Array | None:
        """Return a grid (m, q) with predictions of the missing labels by the model of all labels; NaN elsewhere.

        Returns None if the inverse does not know them.
        """
        labels = self.centred[:, None]
        filled = self.inverse.filled(labels)
        if filled is None:
            return None
        # Predictions that are only rounding are exactly zero, so that they tie.
        filled = settle(filled, self.inverse.prediction_level(labels))
        observed = self.labels.observed
        grid = placed([filled[:, 0]], [np.flatnonzero(~observed)], observed.size)
        return namespace(grid).reshape(grid, self.labels.shape)

    @property
    def _cells(self) -> Places:
        return self.labels.places

    def _work(self, n_missing: int, n_units: int) -> float:
        """Return the number of multiplications for some missing pairs by the models without some units."""
        n = self.labels.size
        if isinstance(self.inverse, MissingInverse):
            return products((n, n_missing, n_units))
        by_entries = products((_ENTRY, n, n_missing))
        by_grids = products((n_units, self.operators.kernel_cost))
        return min(by_entries, by_grids) + products((n, n, n_units))

    def _predictions(
        self, labels: Array, missing: np.ndarray, asked: list[np.ndarray]
    ) -> list[Array]:
        """Return the predictions of some missing pairs for each column of labels (n, b).

        Parameters
        ----------
        labels : array of shape (n, b)
        missing : integer array of shape (u,)
            Positions of the missing pairs in the grid.
        asked : list of b integer arrays
            The missing pairs that are asked for, as positions in `missing`.
        """
        # Predictions that are only rounding are exactly zero, so that they tie.
        level = self.inverse.prediction_level(self.centred[:, None])
        filled = self.inverse.filled(labels)
        if filled is not None:
            filled = settle(filled, level)
            return [take_rows(filled[:, place], at) for place, at in enumerate(asked)]
        duals = self._duals(labels)
        means = fixed_values(self.operators, self.labels.listed(), labels, duals)
        predictions = []
        for place, at in enumerate(asked):
            of_kernel = self._predicted(duals[:, place], missing[at])
            predictions.append(settle(of_kernel + means[place], level))
        return predictions

    def _predicted(self, duals: Array, at: np.ndarray) -> Array:
        """Return the predictions (s,) of the pairs at some positions from dual coefficients (n,), without the mean."""
        n = self.labels.size
        shape = self.labels.shape
        if products((_ENTRY, at.size, n)) > self.operators.kernel_cost:
            image = self.operators.kernel(self.labels.shaped(duals, 0.0))
            return take_rows(namespace(image).reshape(image, (-1,)), at)
        rows, columns = np.divmod(at, shape[1])
        parts = []
        for here in row_blocks(at.size, n):
            kernel = self.operators.kernel_between((rows[here], columns[here]), self._cells)
            parts.append(kernel @ duals)
        return namespace(duals).concat(parts)

    def _changed(self, units: np.ndarray, known: Sequence[np.ndarray], held_out: Array) -> Array:
        """Return labels (n,) with held-out predictions in place of those of one unit, or of a unit of each side."""
        left = np.logical_or.reduce(
            [codes == unit for codes, unit in zip(known, units, strict=True)]
        )
        at = np.flatnonzero(left)
        if not at.size:
            return self.centred
        if len(known) == 1:
            predictions = take_rows(held_out, at)
        elif at.size == self.labels.size:  # no label remains to predict from
            return self.centred * (float("nan") if self.operators.free_mean else 0.0)
        else:
            predictions = self.inverse.leave_set_out(self.centred[:, None], at)[:, 0]
        kept = np.flatnonzero(~left)
        return placed([predictions, take_rows(self.centred, kept)], [at, kept], self.labels.size)

    def _duals(self, labels: Array) -> Array:
        """Return the dual coefficients (n, b) of columns of labels."""
        return self.inverse.solved(labels, self.operators.ridge)

r"""Predictions of pairs without a label by the models without their units.

The model without the labels S is the model of the labels :math:`\mathbf{y}'`, in which the held-out predictions
:math:`\hat{\mathbf{y}}_S` take the place of :math:`\mathbf{y}_S`: a label that equals its held-out prediction does not
change the model. Its predictions of other pairs u are

.. math:: \mathbf{P}_{uo}\,\mathbf{N}\mathbf{y}' + \mu', \qquad
          \mu' = y'_r - (\mathbf{P}_{oo}\,\mathbf{N}\mathbf{y}')_r - c_r\,(\mathbf{N}\mathbf{y}')_r
          \text{ for any observed } r .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array, itemsize, namespace, placed, row_blocks, take_rows, zeros
from dyadlearn.labels import Labels
from dyadlearn.pairing.inverses import free_means
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.operators import Cells, GridOperators

# Most multiplications for pairs without a label; above, they have no held-out prediction.
_MOST_WORK = 2e10


@dataclass(frozen=True, eq=False)
class Unlabelled:
    """Pairs of a grid without a label.

    Attributes
    ----------
    operators : GridOperators
        Operators of the model, with a positive ridge.
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
        """Return a grid (m, q) with predictions of the missing labels; NaN elsewhere, and where they cost too much.

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
        known = [each[observed] for each in codes]
        asked = np.stack([each.reshape(-1)[missing] for each in codes])
        wanted, unit_of = np.unique(asked, axis=1, return_inverse=True)
        unit_of = unit_of.reshape(-1)
        n = self.labels.size
        if float(n) * missing.size + float(n) * n * wanted.shape[1] > _MOST_WORK or self.operators.ridge <= 0:
            return namespace(grid).reshape(grid, self.labels.shape)
        listed = self.labels.listed()
        pieces = []
        places = []
        for here in row_blocks(wanted.shape[1], 4 * n * itemsize(grid), 2**24):
            changed = [self._changed(units, known, held_out) for units in wanted.T[here]]
            duals = self._duals(namespace(grid).stack(changed, axis=1))
            means = free_means(self.operators, listed, namespace(grid).stack(changed, axis=1), duals)
            for place, number in enumerate(range(here.start, here.start + len(changed))):
                at = missing[unit_of == number]
                rows, columns = np.divmod(at, self.labels.shape[1])
                kernel = self.operators.kernel_between((rows, columns), self._cells)
                pieces.append(kernel @ duals[:, place] + means[place])
                places.append(at)
        grid = placed(pieces, places, observed.size)
        return namespace(grid).reshape(grid, self.labels.shape)

    @property
    def _cells(self) -> Cells:
        return self.labels.places

    def _changed(self, units: np.ndarray, known: Sequence[np.ndarray], held_out: Array) -> Array:
        """Return labels (n,) with held-out predictions in place of those of one unit, or of a unit of each side."""
        left = np.logical_or.reduce([codes == unit for codes, unit in zip(known, units, strict=True)])
        at = np.flatnonzero(left)
        if not at.size:
            return self.centred
        if len(known) == 1:
            predictions = take_rows(held_out, at)
        else:
            predictions = self.inverse.leave_set_out(self.centred[:, None], at)[:, 0]
        kept = np.flatnonzero(~left)
        return placed([predictions, take_rows(self.centred, kept)], [at, kept], self.labels.size)

    def _duals(self, labels: Array) -> Array:
        """Return the dual coefficients (n, b) of columns of labels."""
        return self.inverse.solved(labels, self.operators.ridge)

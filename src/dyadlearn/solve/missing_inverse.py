r"""Inverse of the system of observed labels from the complete grid, where few labels are missing.

With the residual operator **R** of the complete grid, the observed cells o and the missing ones u,

.. math:: \mathbf{N} = \mathbf{R}_{oo} - \mathbf{R}_{ou}\mathbf{R}_{uu}^{-1}\mathbf{R}_{uo} .

Single rows, columns or both have a closed form in `dyadlearn.solve.nearly_complete`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from dyadlearn._array import (
    Array,
    cholesky,
    largest,
    namespace,
    placed,
    solve,
    solve_lower,
    take_rows,
    zeros,
)
from dyadlearn._rounding import rounding_level, settle, solve_block
from dyadlearn.leverage import leverage_error
from dyadlearn.solve.blocks import (
    LARGEST_ERROR,
    error_of_difference,
    gathered,
    identity,
)
from dyadlearn.solve.inverse import Inverse
from dyadlearn.solve.leaving import in_order, members_of
from dyadlearn.solve.nearly_complete import (
    NearlyComplete,
    leave_crosses_out,
    missing_work,
)
from dyadlearn.solve.operators import GridOperators
from dyadlearn.vectrick import entries_at


@dataclass(frozen=True, eq=False)
class MissingInverse(Inverse):
    """The inverse from the operators of the complete grid, where few labels are missing.

    Attributes
    ----------
    operators : GridOperators
        Operators of the model on the complete grid.
    observed, missing : (integer array, integer array)
        Rows and columns of the observed cells (n,), and of the missing ones (u,).
    """

    operators: GridOperators
    observed: tuple[np.ndarray, np.ndarray]
    missing: tuple[np.ndarray, np.ndarray]

    @property
    def is_hat(self) -> bool:  # type: ignore[override]
        """Whether the hat is smaller than the residual operator."""
        return self.operators.prefers_hat

    @property
    def floor(self) -> float:  # type: ignore[override]
        """Lower bound of the slack."""
        return self.operators.floor

    @property
    def is_graded(self) -> bool:  # type: ignore[override]
        """Whether a block may be singular."""
        return self.operators.is_graded

    @cached_property
    def error(self) -> float:  # type: ignore[override]
        """Absolute error of the eigenvalues of a block of N, if some directions are unpenalised.

        The blocks are differences, and missing cells that are nearly undetermined magnify their
        rounding.
        """
        if not self.floor:
            return 0.0
        error = error_of_difference(self.operators.remainder, self.n_labels)
        if self.missing[0].size:
            least = largest(-namespace(self.factor).linalg.diagonal(self.factor)) ** 2
            error = min(error * (1.0 + 1.0 / least), LARGEST_ERROR)
        return error

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.observed[0].size)

    def grid_left_out(self, labels: Array, *units: np.ndarray) -> Array | None:
        """Return predictions of all cells (m, q, p) by the models without their row, column or both.

        Returns None for other units, where blocks of the labels are cheaper, or where they must be
        checked one by one. Arguments are those of `leave_out` and `leave_crossed_out`.
        """
        operators = self.operators
        axes = missing_work(operators, self.observed, units)[1]
        if axes is None or (len(axes) == 2 and self._leaves_nothing):
            return None
        grid = self._grid(labels)
        if len(axes) == 2:
            left_out = leave_crosses_out(operators, self.missing, grid)
            # Predictions that are only rounding are exactly zero, so that they tie.
            return settle(left_out, self.prediction_level(labels))
        complete = NearlyComplete.of(operators, self.missing, axes[0])
        if axes == (0,):
            return complete.leave_rows_out(grid)[0]
        xp = namespace(grid)
        return xp.permute_dims(
            complete.leave_rows_out(xp.permute_dims(grid, (1, 0, 2)))[0], (1, 0, 2)
        )

    @property
    def _leaves_nothing(self) -> bool:
        """Whether all labels are in the row or the column of one cell."""
        m, q = self.operators.shape
        row_counts = np.bincount(self.observed[0], minlength=m)
        column_counts = np.bincount(self.observed[1], minlength=q)
        crossed = row_counts[:, None] + column_counts
        np.subtract.at(crossed, self.observed, 1)
        return bool((crossed == self.n_labels).any())

    def leave_out(self, labels: Array, units: np.ndarray | None = None) -> Array:
        """Return the prediction of each label by the model without its unit, as `Inverse.leave_out` does."""
        grid = None if units is None else self.grid_left_out(labels, units)
        if grid is None:
            return super().leave_out(labels, units)
        return self.at_labels(grid)

    def leave_crossed_out(self, labels: Array, *units: np.ndarray) -> Array:
        """Return the prediction of each label by the model without both of its units, as `Inverse` does."""
        grid = self.grid_left_out(labels, *units)
        if grid is None:
            return super().leave_crossed_out(labels, *units)
        return self.at_labels(grid)

    def _grid(self, labels: Array) -> Array:
        """Return labels (n, p) as a grid (m, q, p) with zeros for the missing ones."""
        shape = self.operators.shape
        flat = self.observed[0] * shape[1] + self.observed[1]
        missing = self.missing[0] * shape[1] + self.missing[1]
        empty = zeros((missing.size, int(labels.shape[1])), labels)
        return namespace(labels).reshape(in_order([labels, empty], [flat, missing]), (*shape, -1))

    def at_labels(self, grid: Array) -> Array:
        """Return the values (n, p) of a grid (m, q, p) at the labels."""
        return entries_at(grid, *self.observed)

    @cached_property
    def factor(self) -> Array:
        """The Cholesky factor L (u, u) of the residual operator between missing cells."""
        operators = self.operators
        block = operators.residual_block(*self.missing)
        size = block.shape[0]
        refusal = partial(
            leverage_error, np.arange(size), operators.n_cells, "missing cells form a set that"
        )
        if self.is_graded:  # the result is not used: only the check is
            solve_block(block, block[:, :1], self.floor, True, refusal)
        try:
            return cholesky(block)
        except np.linalg.LinAlgError:
            raise refusal() from None

    @cached_property
    def half(self) -> Array:
        r"""The matrix :math:`\mathbf{L}^{-1}\mathbf{R}_{uo}` (u, n), or that of the hat."""
        if not self.missing[0].size:
            return zeros((0, self.n_labels), self.operators.remainder)
        factor = self.factor
        return solve_lower(
            factor, self.operators.between(self.missing, self.observed, hat=self.is_hat)
        )

    def filled(self, labels: Array) -> Array:
        r"""Return the predictions of the missing cells (u, p).

        .. math:: -\mathbf{R}_{uu}^{-1}\,\mathbf{R}_{uo}\,\mathbf{y}
        """
        half = self.half @ labels
        # The hat between missing and observed cells is minus the residual operator.
        return self._sign * solve(self.factor.T, half)

    def label_weights(self, completed: Array, missing: Array) -> Array:
        r"""Return the weight (n,) of each label in a prediction, from those of the complete grid.

        .. math:: \tilde{\mathbf{w}}_o - \mathbf{R}_{ou}\mathbf{R}_{uu}^{-1}\tilde{\mathbf{w}}_u

        Parameters
        ----------
        completed, missing : arrays of shape (n,) and (u,)
            Weights of the observed and of the missing cells of a complete grid.
        """
        if not self.missing[0].size:
            return completed
        along = solve_lower(self.factor, missing[:, None])
        return completed + self._sign * (self.half.T @ along)[:, 0]

    def completed_without(
        self, labels: Array, held_out: Array, units: np.ndarray, n_units: int
    ) -> Iterator[Array]:
        r"""Yield the completed grid (m, q) of the model without each unit.

        The missing cells contain :math:`-\mathbf{R}_{uu}^{-1}\mathbf{R}_{uo}\,\mathbf{y}'`, with
        the labels
        :math:`\mathbf{y}'` in which held-out predictions replace those of the unit. Arguments are those of
        `duals_without`.
        """
        xp = namespace(labels)
        residuals = labels - held_out
        shape = self.operators.shape
        members = {int(units[at[0]]): at for at in members_of(units)}
        observed, missing = (
            rows * shape[1] + columns for rows, columns in (self.observed, self.missing)
        )
        images = [self.half @ labels] * n_units
        for unit, at in members.items():
            images[unit] = images[unit] - take_rows(self.half.T, at).T @ take_rows(residuals, at)
        filled = xp.stack(images, axis=1)
        if missing.size:
            lower = solve_lower(self.factor, identity(self.factor))
            filled = self._sign * (lower.T @ filled)
        for unit in range(n_units):
            left_out = members.get(unit, observed[:0])
            kept = np.delete(np.arange(observed.size), left_out)
            pieces = [take_rows(held_out, left_out), take_rows(labels, kept), filled[:, unit]]
            places = [observed[left_out], observed[kept], missing]
            yield xp.reshape(placed(pieces, places, math.prod(shape)), shape)

    def parts(self, members: np.ndarray) -> Array:
        """Return the blocks (number, size, size) of the residual operator, or of the hat."""
        xp = namespace(self.half)
        if members.shape[1] == 1:
            return self.diagonal(members[:, 0])[:, None, None]
        blocks = []
        for at in members:
            rows, columns = (side[at] for side in self.observed)
            blocks.append(self.operators.between((rows, columns), (rows, columns), hat=self.is_hat))
        along = xp.matrix_transpose(gathered(self.half.T, members))
        return xp.stack(blocks) + self._sign * (xp.matrix_transpose(along) @ along)

    @property
    def _sign(self) -> float:
        """Sign of the contribution of the missing cells: they enlarge the hat and reduce the residual operator."""
        return 1.0 if self.is_hat else -1.0

    @cached_property
    def _diagonal(self) -> Array:
        """Diagonal (n,) of the residual operator, or of the hat."""
        rows, columns = self.observed
        grid = self.operators.part_diagonal(hat=self.is_hat)
        whole = entries_at(grid, rows, columns)
        return whole + self._sign * namespace(grid).sum(self.half**2, axis=0)

    def diagonal(self, at: np.ndarray) -> Array:
        """Return the diagonal at some labels (s,)."""
        return take_rows(self._diagonal, at)

    def part_rows(self, at: np.ndarray) -> Array:
        """Return rows (s, n) of the residual operator, or of the hat."""
        asked = tuple(side[at] for side in self.observed)
        whole = self.operators.between(asked, self.observed, hat=self.is_hat)
        return whole + self._sign * (take_rows(self.half.T, at) @ self.half)

    def between(self, at: np.ndarray, others: np.ndarray) -> Array:
        """Return the block (s, r) of N between some labels and others, of which none is among the former."""
        asked, beside = (tuple(side[some] for side in self.observed) for some in (at, others))
        block = self.operators.between(asked, beside, hat=self.is_hat)
        if self.half.shape[0]:
            first, second = (take_rows(self.half.T, some) for some in (at, others))
            block = block + self._sign * (first @ second.T)
        return -block if self.is_hat else block

    def times(self, labels: Array) -> Array:
        """Return the residual operator, or the hat, times labels (n, p)."""
        xp = namespace(labels)
        shape = self.operators.shape
        flat = self.observed[0] * shape[1] + self.observed[1]
        product = self.operators.hat if self.is_hat else self.operators.residual
        columns = []
        for column in range(labels.shape[1]):
            grid = placed([labels[:, column]], [flat], self.operators.n_cells, 0.0)
            image = product(xp.reshape(grid, shape))
            columns.append(entries_at(image, *self.observed))
        return xp.stack(columns, axis=1) + self._sign * (self.half.T @ (self.half @ labels))

    def level(self, labels: Array) -> Array:
        """Return the rounding error of `times` for each column of labels, shape (p,)."""
        operators = self.operators
        return rounding_level(
            labels, largest(operators.shrinkage if self.is_hat else operators.remainder)
        )

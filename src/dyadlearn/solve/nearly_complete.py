r"""Leave whole rows out of a grid of which few labels are missing, or a row and a column for each pair.

Let :math:`\mathbf{R} = (\mathbf{U}\otimes\mathbf{V})\,\mathrm{diag}(\rho)\,(\mathbf{U}\otimes\mathbf{V})^\top` be the
residual operator of the complete grid. The cells T that have no label, because they are missing or left out, have the
predictions :math:`-\mathbf{x}` with

.. math:: \mathbf{R}_{TT}\,\mathbf{x} = \mathbf{b}, \qquad \mathbf{b} = (\mathbf{R}\tilde{\mathbf{y}})_T ,

where the labels :math:`\tilde{\mathbf{y}}` are zero in T. A free mean is one more unknown: with the grid E and the
factor c of its part :math:`c\,\mathbf{EE}^\top`, the system has a border :math:`\mathbf{E}_T` with the corner
:math:`1/c`.

**A row** i is one of the blocks of T, and is diagonal in the eigenvectors of the columns,

.. math:: \mathbf{R}_{ii} = \mathbf{V}\,\mathrm{diag}(\mathbf{d}_i)\,\mathbf{V}^\top, \qquad
          d_{il} = \sum_k U_{ik}^2\,\rho_{kl}, \qquad
          \mathbf{R}_{i,(s,j)} = \mathbf{V}\left(\mathbf{w}_{is}\circ\mathbf{v}_j\right), \qquad
          w_{isl} = \sum_k U_{ik}U_{sk}\,\rho_{kl} ,

so that its elimination takes a division. The missing cells a and b of other rows have the Schur complement

.. math:: \mathbf{R}_{ab} - \sum_l \frac{w_{is_al}\,V_{j_al}\;w_{is_bl}\,V_{j_bl}}{d_{il}} ,

one matrix of order u for each row: :math:`m(u^2q + u^3)` multiplications in all, where a block for each row would take
:math:`m q^3`.

**A row and a column** j: after the row and the missing cells, the other cells C of the column have the Schur complement

.. math:: \mathbf{R}_{CC} - \mathbf{W}_i\,\mathrm{diag}(\mathbf{v}_j^2/\mathbf{d}_i)\,\mathbf{W}_i^\top
          - \mathbf{P}_j^\top\mathbf{P}_j

of order m, where :math:`\mathbf{P}_j` is :math:`\mathbf{L}_i^{-1}` times the block of the missing cells and of C, and
:math:`\mathbf{L}_i` the Cholesky factor of the Schur complement of the missing cells. The factor and all products with
:math:`\mathbf{V}` serve all columns.

Where the hat is smaller than the residual operator, all blocks but those of the diagonal are minus those of the hat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    cholesky,
    itemsize,
    largest,
    namespace,
    row_blocks,
    row_major,
    solve_lower,
    take_rows,
    zeros,
)
from dyadlearn._rounding import rounding_level, settle, solve_block
from dyadlearn.solve.operators import Cells, GridOperators
from dyadlearn.spectrum import leverage_error

# Most bytes of a block of columns.
_BLOCK = 2**25


def rows_work(shape: Sequence[int], ranks: Sequence[int], n_missing: float) -> float:
    """Return the multiplications to leave out each row of a grid (m, q) of which some labels are missing."""
    (m, q), (k, r) = shape, ranks
    u = n_missing + 1.0  # a free mean is one more unknown
    return m * (u * u * (r + u) + min(float(m), u) * k * r) + 2.0 * m * q * (k + r)


def crosses_work(shape: Sequence[int], ranks: Sequence[int], n_missing: float) -> float:
    """Return the multiplications to leave out the row and the column of each pair of such a grid.

    Both sequences begin with the side of the Schur complements, which should be the shorter one.
    """
    m, r = float(shape[0]), float(ranks[1])
    u = n_missing + 1.0
    return math.prod(shape) * m * (u * (r + u + m) + m * (r + m)) + rows_work(shape, ranks, n_missing)


def crosses_numbers(shape: Sequence[int], n_missing: float) -> float:
    """Return the number of values in memory while rows and columns are left out, beside blocks of bounded size."""
    return math.prod(shape) * (n_missing + 1.0 + shape[0])


@dataclass(frozen=True, eq=False)
class NearlyComplete:
    """The residual operator of a complete grid (m, q), of which the cells u have no label.

    Attributes
    ----------
    left, right : arrays of shape (m, k) and (q, r)
        Eigenvectors of both sides.
    weights : array of shape (k, r)
        The operator in the rotated labels: residual operator or hat.
    slack : array of shape (m, r)
        The residual operator between the cells of one row, for each direction of the columns.
    sign : float
        1 if the weights are those of the residual operator, -1 for the hat.
    missing : (integer array, integer array)
        Rows and columns of the missing cells (u,).
    block : array of shape (u, u) or (u + 1, u + 1)
        The residual operator between missing cells without a free mean, and its border.
    constant : array of shape (m, q) or None
        Border E of a free mean.
    """

    left: Array
    right: Array
    weights: Array
    slack: Array
    sign: float
    missing: Cells
    block: Array
    constant: Array | None

    @classmethod
    def of(cls, operators: GridOperators, missing: Cells, *, is_hat: bool, axis: int = 0) -> NearlyComplete:
        """Return it for the operators of a model on the complete grid; axis 1 exchanges rows and columns."""
        weights = operators.shrinkage if is_hat else operators.remainder
        xp = namespace(weights)
        block = operators.block(weights, *missing) if missing[0].size else zeros((0, 0), weights)
        if is_hat:
            block = xp.eye(block.shape[0], dtype=block.dtype, device=block.device) - block
        constant = None
        if operators.mean_part is not None:
            constant, factor = operators.mean_part
            edge = take_rows(xp.reshape(constant, (-1,)), missing[0] * constant.shape[1] + missing[1])
            corner = zeros((1, 1), block) + 1.0 / factor
            upper = xp.concat([block, edge[:, None]], axis=1)
            block = xp.concat([upper, xp.concat([edge[None, :], corner], axis=1)], axis=0)
        left, right = (side.vectors for side in operators.grid_spectra)
        remainder = operators.remainder
        if axis:
            left, right, missing = right, left, missing[::-1]
            weights, remainder = weights.T, remainder.T
            constant = None if constant is None else constant.T
        squares = left * left
        # Directions that a truncated spectrum omits have a residual of one.
        slack = 1.0 - squares @ weights if operators.is_truncated else squares @ remainder
        return cls(left, right, weights, slack, -1.0 if is_hat else 1.0, missing, block, constant)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers m and q of rows and columns."""
        return int(self.left.shape[0]), int(self.right.shape[0])

    def leave_rows_out(self, labels: Array) -> Array:
        """Return the predictions of each row by the model without the labels of this row.

        Parameters
        ----------
        labels : array of shape (m, q, p)
            Labels, which are zero where they are missing.

        Returns
        -------
        array of shape (m, q, p)
        """
        xp = namespace(labels)
        given = _Given.of(self, labels)
        m, q = self.shape
        u, r = self.block.shape[0], self.right.shape[1]
        distinct = np.unique(self.missing[0]).size
        row_bytes = itemsize(labels) * (4 * u * (r + u) + distinct * (self.left.shape[1] + r))
        pieces = []
        for here in row_blocks(m, row_bytes):
            rows = np.arange(m)[here]
            border, system = self.without_rows(rows)
            along = border / self.slack[here, None, :]
            own, of_missing = given.of_rows(here, border)
            solved = zeros(of_missing.shape, labels)
            if u:
                refusal = partial(_refusal, rows, q)
                solved = solve_block(system, of_missing - along @ own, 0.0, False, refusal)
            rest = own - xp.matrix_transpose(border) @ solved
            rest = settle(rest, given.level) / -self.slack[here, :, None]
            pieces.append(self.right @ rest)
        return xp.concat(pieces, axis=0)

    def without_rows(self, rows: np.ndarray) -> tuple[Array, Array]:
        """Return the operator between rows and missing cells (b, u, r), and the Schur complements (b, u, u) of these.

        The missing cells of the row itself are left out with it: they are uncoupled.
        """
        at, columns = self.missing
        xp = namespace(self.weights)
        left = take_rows(self.left, rows)
        distinct, place = np.unique(at, return_inverse=True)
        b, k, r = rows.size, self.left.shape[1], self.right.shape[1]
        products = left[:, None, :] * take_rows(self.left, distinct)[None, :, :]
        coupling = xp.reshape(xp.reshape(products, (b * distinct.size, k)) @ self.weights, (b, distinct.size, r))
        is_other = np.concatenate([rows[:, None] != at[None, :], np.ones((b, self.block.shape[0] - at.size), bool)], 1)
        border = xp.take(coupling, as_array_of(place, coupling), axis=1) * (self.sign * take_rows(self.right, columns))
        if self.constant is not None:
            border = xp.concat([border, (take_rows(self.constant, rows) @ self.right)[:, None, :]], axis=1)
        border = border * as_array_of(is_other, border, border.dtype)[:, :, None]
        both = as_array_of(is_other[:, :, None] & is_other[:, None, :], border)
        eye = xp.eye(self.block.shape[0], dtype=border.dtype, device=border.device)
        whole = xp.where(both, self.block, eye)
        scaled = border / take_rows(self.slack, rows)[:, None, :]
        return border, whole - scaled @ xp.matrix_transpose(border)

    def leave_crosses_out(self, labels: Array, is_known: np.ndarray) -> Array:
        """Return the prediction of each pair by the model without the labels of its row and of its column.

        Parameters
        ----------
        labels : array of shape (m, q, p)
            Labels, which are zero where they are missing.
        is_known : boolean array of shape (m, q)
            Mask of the labels that are not missing.

        Returns
        -------
        array of shape (m, q, p)
        """
        xp = namespace(labels)
        given = _Given.of(self, labels)
        columns = _Columns.of(self, given, labels, is_known)
        pieces = []
        for row in range(self.shape[0]):
            pieces.append(_RowOut(self, given, columns, row).predictions()[None, ...])
        return xp.concat(pieces, axis=0)


@dataclass(frozen=True, eq=False)
class _Given:
    """Products of the labels of a grid with the operator.

    Attributes
    ----------
    labels : array of shape (m, r, p)
        Labels in the directions of the columns.
    image : array of shape (m, r, p)
        The operator times the labels, in the directions of the columns.
    at_missing : array of shape (u, p)
        The same at the missing cells, and the border of a free mean times the labels.
    own : array of shape (m, r)
        The operator between the cells of one row, for each direction of the columns.
    sign : float
    level : array of shape (p,)
        Rounding error of a product that is zero.
    border_level : array of shape (u, p)
        The same for `at_missing`.
    """

    labels: Array
    image: Array
    at_missing: Array
    own: Array
    sign: float
    level: Array
    border_level: Array

    @classmethod
    def of(cls, grid: NearlyComplete, labels: Array) -> _Given:
        """Return the products for labels (m, q, p), which are zero where they are missing."""
        xp = namespace(labels)
        p = labels.shape[2]
        rotated = xp.matrix_transpose(grid.right) @ labels
        along = [grid.left @ (grid.weights * (grid.left.T @ rotated[:, :, column])) for column in range(p)]
        image = grid.sign * xp.stack(along, axis=2)
        rows, columns = grid.missing
        at_missing = xp.sum(take_rows(image, rows) * take_rows(grid.right, columns)[:, :, None], axis=1)
        flat = xp.reshape(labels, (-1, p))
        level = rounding_level(flat, largest(xp.abs(grid.weights)))
        levels = level[None, :] + zeros(at_missing.shape, labels)
        if grid.constant is not None:
            constant = xp.reshape(grid.constant, (1, -1))
            at_missing = xp.concat([at_missing, constant @ flat], axis=0)
            border_level = rounding_level(flat, largest(xp.abs(constant)))
            levels = xp.concat([levels, border_level[None, :]], axis=0)
        own = grid.sign * ((grid.left * grid.left) @ grid.weights)
        return cls(rotated, image, at_missing, own, grid.sign, level, levels)

    def of_rows(self, here: slice, border: Array) -> tuple[Array, Array]:
        """Return right-hand sides of some rows (b, r, p) and of missing cells (b, u, p), without the rows' labels."""
        labels = self.labels[here, ...]
        own = settle(self.image[here, ...] - self.own[here, :, None] * labels, self.level)
        return own, settle(self.at_missing[None, ...] - border @ labels, self.border_level)


@dataclass(frozen=True, eq=False)
class _Columns:
    """What all rows share in `NearlyComplete.leave_crosses_out`.

    Attributes
    ----------
    labels : array of shape (q, m, p)
        Labels of each column.
    image : array of shape (q, m, p)
        The residual operator without a free mean, or minus the hat, times the labels.
    blocks : array of shape (q, m, m)
        The same operator between the cells of each column.
    missing : array of shape (q, u, m)
        The same between missing cells and the cells of each column, and the border of a free mean.
    is_known : boolean array of shape (q, m)
    """

    labels: Array
    image: Array
    blocks: Array
    missing: Array
    is_known: np.ndarray

    @classmethod
    def of(cls, grid: NearlyComplete, given: _Given, labels: Array, is_known: np.ndarray) -> _Columns:
        """Return it for labels (m, q, p), of which those in a mask (m, q) are known."""
        xp = namespace(labels)
        own = grid.sign * ((grid.right * grid.right) @ grid.weights.T)
        blocks = (grid.left * own[:, None, :]) @ grid.left.T
        rows, columns = grid.missing
        # The operator between a missing cell and a row, in the directions of the columns.
        couplings = [grid.sign * ((grid.left * grid.left[int(row), :]) @ grid.weights) for row in np.unique(rows)]
        pieces = []
        for row, column in zip(np.unique(rows, return_inverse=True)[1], columns, strict=True):
            pieces.append(couplings[row] @ (grid.right * grid.right[int(column), :]).T)
        if grid.constant is not None:
            pieces.append(grid.constant)
        m, q = grid.shape
        missing = xp.stack(pieces) if pieces else zeros((0, m, q), labels)
        image = grid.right @ given.image
        missing = row_major(xp.permute_dims(missing, (2, 0, 1)))
        return cls(xp.permute_dims(labels, (1, 0, 2)), xp.permute_dims(image, (1, 0, 2)), blocks, missing, is_known.T)


class _RowOut:
    """One row of a grid left out, with all of its columns one by one.

    Parameters
    ----------
    grid : NearlyComplete
    given : _Given
    columns : _Columns
    row : int
    """

    def __init__(self, grid: NearlyComplete, given: _Given, columns: _Columns, row: int) -> None:
        xp = namespace(grid.weights)
        self.grid = grid
        self.given = given
        self.columns = columns
        self.row = row
        self.slack = grid.slack[row, :]
        # The operator between this row and others, in the directions of the columns; the row itself is left out.
        is_other = as_array_of(np.arange(grid.shape[0]) != row, self.slack, self.slack.dtype)
        self.coupling = is_other[:, None] * (grid.sign * ((grid.left * grid.left[row, :]) @ grid.weights))
        border, system = grid.without_rows(np.array([row]))
        self.scaled = border[0, ...] / self.slack
        own, at_missing = given.of_rows(slice(row, row + 1), border)
        self.own = own[0, ...]
        self.at_missing = at_missing[0, ...] - self.scaled @ self.own
        n_others = border.shape[1] - grid.missing[0].size
        is_other_cell = np.append(grid.missing[0] != row, np.ones(n_others, dtype=bool))
        self.is_other = as_array_of(is_other_cell, border, border.dtype)
        try:
            factor = cholesky(system[0, ...])
        except np.linalg.LinAlgError:
            raise _refusal(np.array([row]), grid.shape[1]) from None
        eye = xp.eye(factor.shape[0], dtype=factor.dtype, device=factor.device)
        self.lower = solve_lower(factor, eye) if factor.shape[0] else factor
        # The right-hand sides at the cells of other rows (m, q, p), without the labels of this row.
        taken = given.labels[row, ...] + self.own / self.slack[:, None]
        self.taken = grid.right @ (self.coupling[:, :, None] * taken[None, :, :])

    def predictions(self) -> Array:
        """Return the predictions of the row (q, p)."""
        m, q = self.grid.shape
        u, r = self.lower.shape[0], self.slack.shape[0]
        row_bytes = itemsize(self.slack) * (u * (r + 3 * m) + m * (r + 5 * m))
        pieces = [self._predictions(here) for here in row_blocks(q, row_bytes, _BLOCK)]
        return namespace(self.slack).concat(pieces, axis=0)

    def _predictions(self, here: slice) -> Array:
        """Return the predictions of the row in some columns (b, p)."""
        xp = namespace(self.slack)
        grid, given, columns = self.grid, self.given, self.columns
        is_known = columns.is_known[here] & (np.arange(grid.shape[0]) != self.row)
        known = as_array_of(is_known, self.slack, self.slack.dtype)
        labels = columns.labels[here, ...] * known[:, :, None]
        right = grid.right[here, :]
        # Missing cells: what is left after the row, without the labels of each column.
        border = (right[:, None, :] * -self.scaled) @ self.coupling.T
        border += columns.missing[here, ...]
        border *= known[:, None, :]
        border *= self.is_other[:, None]
        of_missing = settle(self.at_missing - border @ labels, given.border_level)
        along = self.lower @ border
        of_missing = self.lower @ of_missing
        # The cells of each column: what is left after the row and the missing cells.
        halved = right * right / self.slack
        blocks = (halved[:, None, :] * -self.coupling) @ self.coupling.T
        blocks += columns.blocks[here, ...]
        blocks -= xp.matrix_transpose(along) @ along
        rest = columns.image[here, ...] - xp.permute_dims(self.taken[:, here, :], (1, 0, 2))
        rest = rest - xp.matrix_transpose(along) @ (self.lower @ self.at_missing) - blocks @ labels
        rest = settle(rest * known[:, :, None], given.level)
        solved = self._solved(blocks, rest, is_known)
        # The pair itself.
        own = self.own - right[:, :, None] * (xp.matrix_transpose(self.coupling) @ labels)
        own = settle(own, given.level)
        pair = ((right / self.slack)[:, None, :] @ own)[:, 0, :]
        pair = pair - ((halved @ self.coupling.T)[:, None, :] @ solved)[:, 0, :]
        towards = (self.lower @ (self.scaled @ right.T)).T
        return (towards[:, None, :] @ (of_missing - along @ solved))[:, 0, :] - pair

    def _solved(self, blocks: Array, rest: Array, is_known: np.ndarray) -> Array:
        """Return the solutions (b, m, p) of the systems of the known cells; zeros for the others."""
        xp = namespace(blocks)
        eye = xp.eye(blocks.shape[-1], dtype=blocks.dtype, device=blocks.device)
        if self.grid.sign < 0:
            blocks = blocks + eye
        both = as_array_of(is_known[:, :, None] & is_known[:, None, :], blocks)
        refusal = partial(_refusal, np.array([self.row]), self.grid.shape[1])
        return solve_block(xp.where(both, blocks, eye), rest, 0.0, False, refusal)


def _refusal(rows: np.ndarray, n_columns: int) -> Exception:
    """Return the error where rows of a grid cannot be left out."""
    return leverage_error(rows, n_columns, "rows form a set that")

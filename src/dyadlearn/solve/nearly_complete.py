r"""Leave whole rows out of a grid of which few labels are missing, or a row and a column for each pair.

Let :math:`\mathbf{R} =
(\mathbf{U}\otimes\mathbf{V})\,\mathrm{diag}(\rho)\,(\mathbf{U}\otimes\mathbf{V})^\top` be the
residual operator of the complete grid. The cells T that have no label, because they are missing or
left out, have the predictions :math:`-\mathbf{x}` with

.. math:: \mathbf{R}_{TT}\,\mathbf{x} = \mathbf{b}, \qquad \mathbf{b} = (\mathbf{R}\tilde{\mathbf{y}})_T ,

where the labels :math:`\tilde{\mathbf{y}}` are zero in T. A free mean is one more unknown: with the
grid E and the factor c of its part :math:`c\,\mathbf{EE}^\top`, the system has a border
:math:`\mathbf{E}_T` with the corner
:math:`1/c`.

**A row** i is one of the blocks of T, and is diagonal in the eigenvectors of the columns,

.. math:: \mathbf{R}_{ii} = \mathbf{V}\,\mathrm{diag}(\mathbf{d}_i)\,\mathbf{V}^\top, \qquad
          d_{il} = \sum_k U_{ik}^2\,\rho_{kl}, \qquad
          \mathbf{R}_{i,(s,j)} = \mathbf{V}\left(\mathbf{w}_{is}\circ\mathbf{v}_j\right), \qquad
          w_{isl} = \sum_k U_{ik}U_{sk}\,\rho_{kl} ,

so that its elimination takes a division. The missing cells a and b of other rows have the Schur
complement

.. math:: \mathbf{R}_{ab} - \sum_l \frac{w_{is_al}\,V_{j_al}\;w_{is_bl}\,V_{j_bl}}{d_{il}} ,

one matrix of order u for each row: :math:`m(u^2q + u^3)` multiplications in all, where a block for
each row would take
:math:`m q^3`.

**A row and a column**: the other rows are a grid with its own operators, from the eigenvectors of
their kernel. Its columns are left out as above, which completes the grid for each of them. The
prediction of the row from a completed grid is a product.

Where the hat is smaller than the residual operator, all blocks but those of the diagonal are minus
those of the hat.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import (
    Array,
    as_array_of,
    largest,
    namespace,
    row_blocks,
    solve_positive,
    take_rows,
    values_in,
    zeros,
)
from dyadlearn._codes import is_same_partition, unit_sizes
from dyadlearn._rounding import rounding_level, settle
from dyadlearn._threads import for_each
from dyadlearn._work import DECOMPOSED, FACTORED, SYMMETRIC, products
from dyadlearn.labels import Places
from dyadlearn.leverage import leverage_error
from dyadlearn.solve.blocks import identity
from dyadlearn.solve.operators import GridOperators
from dyadlearn.vectrick import entries_at


def missing_work(
    operators: GridOperators, observed: Places, units: Sequence[np.ndarray]
) -> tuple[float, tuple[int, ...] | None]:
    """Return the multiplications to leave units of labels out by the missing cells, and the lines with a closed form.

    The lines are those of `lines_left_out`. They are None where blocks of the labels of a unit take
    less work.

    Parameters
    ----------
    operators, observed, units : as in `lines_left_out`
    """
    n_missing = operators.n_cells - observed[0].size
    given = (operators.shape, operators.n_directions, n_missing)
    by_blocks = blocks_work(*given, [unit_sizes(codes) for codes in units])
    axes = lines_left_out(operators, observed, units)
    if axes is None:
        return by_blocks, None
    by_lines = lines_work(*given, axes)
    if by_blocks < by_lines:
        return by_blocks, None
    return by_lines, axes


def lines_work(
    shape: Sequence[int], ranks: Sequence[int], n_missing: int, axes: Sequence[int]
) -> float:
    """Return the multiplications to leave out rows, columns or both of a grid of which some labels are missing.

    Parameters
    ----------
    shape, ranks : sequences of int
        Numbers of rows and columns, and of their eigenvectors.
    n_missing : int
        Number of missing cells.
    axes : sequence of int
        0 for rows, 1 for columns, both for the row and the column of each pair.
    """
    m, q = shape
    k, r = ranks
    u = n_missing
    turned = ((q, m), (r, k), n_missing)
    if len(axes) == 2:
        if m > q:
            return lines_work(*turned, axes)
        own = products((m, DECOMPOSED, m, m, m), (m, q, r, u), (m, q, r, m))
        return own + m * lines_work(shape, ranks, n_missing, (1,))
    if axes[0]:
        return lines_work(*turned, (0,))
    # The labels and their image are rotated; a system of the missing cells is formed and solved for
    # each row.
    rotating = products((m, q, r), (m, k, r), (m, k, r), (m, q, r))
    coupling = products((m, min(m, u), k, r), (m, SYMMETRIC, u, u, r))
    return rotating + coupling + products((m, FACTORED, u, u, u))


def lines_numbers(shape: Sequence[int], n_missing: int) -> float:
    """Return the number of values in memory for `lines_work`."""
    u = n_missing
    return values_in((8, *shape), (2, u, u), (2, u, max(shape)))


def blocks_work(
    shape: Sequence[int], ranks: Sequence[int], n_missing: int, sizes: Sequence[np.ndarray]
) -> float:
    """Return the multiplications to leave units of labels out by the blocks of all labels of a unit.

    Parameters
    ----------
    shape, ranks, n_missing : as in `lines_work`
    sizes : sequence of arrays
        Numbers of labels of the units; in setting D, of the units of both sides.
    """
    m, q = shape
    k, r = ranks
    u = n_missing
    n = sizes[0].sum()
    n_pairs = n * n if len(sizes) == 2 else powers(sizes[0], 2)
    rotating = products((m, q, k), (k, q, r), (m, k, r), (m, q, r))
    inverting = products((u, n, min(k, r)), (u, n, u))
    return rotating + inverting + products((n_pairs, max(k, r)), (n_pairs, u)) + leaving_work(sizes)


def leaving_work(sizes: Sequence[np.ndarray]) -> float:
    """Return the multiplications to leave units of labels out, given the inverse; `sizes` as in `blocks_work`."""
    if len(sizes) == 1:
        return powers(sizes[0], 3)
    first, second = sorted(sizes, key=lambda of_side: powers(of_side, 2))
    # One factor for each unit of one side, and a Schur complement for each pair of units.
    n = first.sum()
    along = products((n, powers(first, 2)), (n, powers(second, 2)))
    return along + products((second.size, powers(first, 3)))


def powers(sizes: np.ndarray, exponent: int) -> float:
    """Return the sum of powers of the numbers of labels of units."""
    return float(np.sum(sizes.astype(float) ** exponent))


def lines_left_out(
    operators: GridOperators, observed: Places, units: Sequence[np.ndarray]
) -> tuple[int, ...] | None:
    """Return which lines of a grid units leave out one by one, if they have a closed form.

    Parameters
    ----------
    operators : GridOperators
        Operators of the model on the complete grid.
    observed : (integer array, integer array)
        Rows and columns of the labels (n,).
    units : sequence of integer arrays of shape (n,)
        Unit of each label; in setting D, of its instance and of its task.

    Returns
    -------
    tuple of int or None
        0 for rows, 1 for columns, both for the row and the column of each pair. None for other
        units, and where blocks of the labels must be checked one by one because they may be
        singular.
    """
    if (
        operators.interpolates
        or operators.is_graded
        or any((codes == codes[0]).all() for codes in units)
    ):
        return None
    axes: tuple[int, ...] = (0, 1)
    if len(units) == 1:
        axes = tuple(axis for axis in axes if is_same_partition(units[0], observed[axis]))
    if len(units) == 1:
        return axes[:1] or None
    if operators.shares is None or not all(map(is_same_partition, units, observed)):
        return None
    return axes


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
    missing: Places
    block: Array
    constant: Array | None

    @classmethod
    def of(cls, operators: GridOperators, missing: Places, axis: int = 0) -> NearlyComplete:
        """Return it for the operators of a model on the complete grid; axis 1 exchanges rows and columns."""
        is_hat = operators.prefers_hat
        weights, sign = operators.weights_of(hat=is_hat)
        xp = namespace(weights)
        if missing[0].size:
            block = operators.block(weights, *missing)
        else:
            block = zeros((0, 0), weights)
        if is_hat:
            block = identity(block) - block
        constant = None
        if operators.mean_part is not None:
            constant, factor = operators.mean_part
            edge = entries_at(constant, *missing)
            corner = zeros((1, 1), block) + 1.0 / factor
            upper = xp.concat([block, edge[:, None]], axis=1)
            block = xp.concat([upper, xp.concat([edge[None, :], corner], axis=1)], axis=0)
        left, right = operators.vectors
        remainder = operators.remainder
        if axis:
            left, right, missing = right, left, missing[::-1]
            weights = weights.T
            remainder = remainder.T
            constant = None if constant is None else constant.T
        squares = left * left
        # Directions that a truncated spectrum omits have a residual of one.
        if operators.is_truncated:
            slack = 1.0 - squares @ weights
        else:
            slack = squares @ remainder
        return cls(left, right, weights, slack, -sign, missing, block, constant)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers m and q of rows and columns."""
        return int(self.left.shape[0]), int(self.right.shape[0])

    def leave_rows_out(self, labels: Array) -> tuple[Array, Array]:
        """Return the predictions of each row by the model without the labels of this row.

        Parameters
        ----------
        labels : array of shape (m, q, p)
            Labels, which are zero where they are missing.

        Returns
        -------
        of_row : array of shape (m, q, p)
            The predictions of the row.
        of_missing : array of shape (m, u, p)
            The predictions of the missing cells of other rows by the same model; zeros for those of
            the row itself.
        """
        xp = namespace(labels)
        right_sides = _right_sides(self, labels)
        level = self.level(labels)
        m = self.shape[0]
        u = self.block.shape[0]
        r = self.right.shape[1]
        distinct = np.unique(self.missing[0]).size
        per_row = ((3, u, r), (3, u, u), (distinct, r), (distinct, self.left.shape[1]))
        pieces = []
        missing = []
        for here in row_blocks(m, *per_row):
            rows = np.arange(m)[here]
            border, system = self._without_rows(rows)
            of_labels, of_missing = right_sides(here, border)
            slack = self.slack[here, :, None]
            right = of_missing - border @ (of_labels / slack)
            solved = right
            if u:
                try:
                    solved = solve_positive(system, right)
                except np.linalg.LinAlgError:
                    raise leverage_error(
                        rows, m, "rows are left out with missing cells and"
                    ) from None
            rest = of_labels - xp.matrix_transpose(border) @ solved
            rest = settle(rest, level) / -slack
            pieces.append(_times(self.right, rest))
            is_other = as_array_of(rows[:, None] != self.missing[0], solved, solved.dtype)
            missing.append(-solved[:, : self.missing[0].size, :] * is_other[:, :, None])
        return xp.concat(pieces, axis=0), xp.concat(missing, axis=0)

    def _without_rows(self, rows: np.ndarray) -> tuple[Array, Array]:
        """Return the operator between rows and missing cells (b, u, r), and the Schur complements (b, u, u) of these.

        The missing cells of the row itself are left out with it: they are uncoupled.
        """
        at, columns = self.missing
        xp = namespace(self.weights)
        left = take_rows(self.left, rows)
        distinct, place = np.unique(at, return_inverse=True)
        b = rows.size
        k = self.left.shape[1]
        r = self.right.shape[1]
        products = left[:, None, :] * take_rows(self.left, distinct)[None, :, :]
        coupling = xp.reshape(
            xp.reshape(products, (b * distinct.size, k)) @ self.weights, (b, distinct.size, r)
        )
        border = xp.take(coupling, as_array_of(place, coupling), axis=1)
        border *= self.sign * take_rows(self.right, columns)
        if self.constant is not None:
            border = xp.concat(
                [border, (take_rows(self.constant, rows) @ self.right)[:, None, :]], axis=1
            )
        left_out = np.argwhere(rows[:, None] == at[None, :]).tolist()
        for line, cell in left_out:
            border[line, cell, :] = 0.0
        # Without interpolation, every slack is positive. The product with its own transpose is
        # computed once.
        half = border / take_rows(self.slack, rows)[:, None, :] ** 0.5
        system = half @ xp.matrix_transpose(half)
        system *= -1.0
        system += self.block
        for line, cell in left_out:
            system[line, cell, :] = 0.0
            system[line, :, cell] = 0.0
            system[line, cell, cell] = 1.0
        return border, system

    def predict_row(
        self, row: int, labels: Array, change: Array, cells: Places, filled: Array
    ) -> Array:
        r"""Return the prediction (q, p) for each column of a row from completed labels of the other rows.

        The completed labels differ from column to column. Those of column j are the labels, with a
        change in column j, and with other values in some missing cells.

        .. math:: -\mathbf{v}_j^\top\mathrm{diag}(1/\mathbf{d}_i)\sum_{s\ne i}\mathbf{w}_{is}\circ\hat{\mathbf{z}}_s

        Parameters
        ----------
        row : int
        labels : array of shape (m - 1, q, p)
            Labels of the other rows.
        change : array of shape (q, m - 1, p)
            Change of each column.
        cells : (integer array, integer array)
            Rows and columns of u missing cells, not of this row.
        filled : array of shape (q, u, p)
            Values of these cells for each column.
        """
        xp = namespace(labels)
        others = np.delete(np.arange(self.shape[0]), row)
        slack = self.slack[row, :]
        coupling = self.sign * ((self.left * self.left[row, :]) @ self.weights)
        of_cells = take_rows(coupling, cells[0]) * take_rows(self.right, cells[1])
        coupling = take_rows(coupling, others)
        right = self.right
        rotated = _times(right.T, labels)
        # In the directions of the columns, for each column: shape (q, r, p).
        sums = xp.sum(coupling[:, :, None] * rotated, axis=0) + right[:, :, None] * _times(
            coupling.T, change
        )
        sums = settle(sums + _times(of_cells.T, filled), self.level(labels))
        if self.constant is not None:
            of_row = self.constant[row, :] @ right
            constant = take_rows(self.constant, others)
            at_cells = entries_at(self.constant, *cells)
            total = xp.sum(constant[:, :, None] * labels, axis=(0, 1))
            total = total + xp.sum(constant.T[:, :, None] * change, axis=1) + (at_cells @ filled)
            precision = self.block[-1, -1] - of_row @ (of_row / slack)
            mean = (total - (of_row / slack) @ sums) / precision
            sums = sums - of_row[:, None] * mean[:, None, :]
        return -xp.sum(right[:, :, None] * sums / slack[:, None], axis=1)

    def level(self, labels: Array) -> Array:
        """Return the rounding error of a product with labels (m, q, p) that is zero, shape (p,)."""
        return rounding_level(
            namespace(labels).reshape(labels, (-1, labels.shape[2])),
            largest(namespace(labels).abs(self.weights)),
        )


def _right_sides(
    grid: NearlyComplete, labels: Array
) -> Callable[[slice, Array], tuple[Array, Array]]:
    """Return the right-hand sides for labels (m, q, p), which are zero where they are missing, as a function.

    For some rows, and the operator (b, u, r) between these and the missing cells, the function
    returns the right-hand sides of the rows (b, r, p), in the directions of the columns, and of the
    missing cells (b, u, p), without the rows' labels.
    """
    xp = namespace(labels)
    p = labels.shape[2]
    rotated = _times(grid.right.T, labels)
    along = [
        grid.left @ (grid.weights * (grid.left.T @ rotated[:, :, column])) for column in range(p)
    ]
    image = grid.sign * xp.stack(along, axis=2)
    rows, columns = grid.missing
    at_missing = xp.sum(take_rows(image, rows) * take_rows(grid.right, columns)[:, :, None], axis=1)
    level = grid.level(labels)
    levels = level[None, :] + zeros(at_missing.shape, labels)
    if grid.constant is not None:
        flat = xp.reshape(labels, (-1, p))
        constant = xp.reshape(grid.constant, (1, -1))
        at_missing = xp.concat([at_missing, constant @ flat], axis=0)
        border_level = rounding_level(flat, largest(xp.abs(constant)))
        levels = xp.concat([levels, border_level[None, :]], axis=0)
    # The operator between the cells of one row, for each direction of the columns.
    diagonal = grid.slack
    if grid.sign < 0:
        diagonal = -((grid.left * grid.left) @ grid.weights)

    def of_rows(here: slice, border: Array) -> tuple[Array, Array]:
        own = rotated[here, ...]
        of_labels = settle(image[here, ...] - diagonal[here, :, None] * own, level)
        return of_labels, settle(at_missing[None, ...] - border @ own, levels)

    return of_rows


def leave_crosses_out(operators: GridOperators, missing: Places, labels: Array) -> Array:
    """Return the prediction of each pair by the model without the labels of its row and of its column.

    Parameters
    ----------
    operators : GridOperators
        Operators of the model on the complete grid, which have parts.
    missing : (integer array, integer array)
        Rows and columns of the missing cells.
    labels : array of shape (m, q, p)
        Labels, which are zero where they are missing.

    Returns
    -------
    array of shape (m, q, p)
    """
    xp = namespace(labels)
    axis = int(labels.shape[0] > labels.shape[1])  # fewer and smaller decompositions
    if axis:
        labels = xp.permute_dims(labels, (1, 0, 2))
    whole = NearlyComplete.of(operators, missing, axis=axis)
    m = labels.shape[0]
    pieces: list[Array | None] = [None] * m

    def leave_out(row: int) -> None:
        kept = np.delete(np.arange(m), row)
        part = operators.part(kept, axis)
        rows, columns = (side[whole.missing[0] != row] for side in whole.missing)
        inside = (rows - (rows > row), columns)
        reduced = NearlyComplete.of(part, inside[::-1] if axis else inside, axis=1 - axis)
        others = take_rows(labels, kept)
        held_out, filled = reduced.leave_rows_out(xp.permute_dims(others, (1, 0, 2)))
        change = held_out - xp.permute_dims(others, (1, 0, 2))
        pieces[row] = whole.predict_row(row, others, change, (rows, columns), filled)

    work = lines_work(operators.shape, operators.n_directions, missing[0].size, (0, 1))
    for_each(leave_out, range(m), labels, n_operations=work)
    predictions = xp.stack(pieces, axis=0)
    if axis:
        return xp.permute_dims(predictions, (1, 0, 2))
    return predictions


def _times(matrix: Array, grids: Array) -> Array:
    """Return a matrix (a, r) times each of some grids (b, r, p), shape (b, a, p), by one product."""
    xp = namespace(grids)
    b, r, p = grids.shape
    flat = xp.reshape(xp.permute_dims(grids, (0, 2, 1)), (b * p, r))
    return xp.permute_dims(xp.reshape(flat @ matrix.T, (b, p, matrix.shape[0])), (0, 2, 1))

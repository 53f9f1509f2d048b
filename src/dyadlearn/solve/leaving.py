r"""Hold-out: predictions for labels by the model trained without them.

Let :math:`\mathbf{N}` be the inverse of the system of the observed labels, with its unpenalised
part projected out (`dyadlearn.solve.fixed`). The predictions for the labels S by the model trained
without them are

.. math:: \hat{\mathbf{y}}_S = \mathbf{y}_S - \mathbf{N}_{SS}^{-1}(\mathbf{N}\mathbf{y})_S
          = -\mathbf{N}_{SS}^{-1}\mathbf{N}_{S\bar S}\,\mathbf{y}_{\bar S} .

The scale of :math:`\mathbf{N}` does not matter, and a residual operator :math:`\mathbf{R} =
\mathbf{I} - \mathbf{H}` is one such :math:`\mathbf{N}`. With :math:`\mathbf{B}` the smaller of
:math:`\mathbf{R}` (:math:`\delta = 0`) and
:math:`\mathbf{H}` (:math:`\delta = 1`), which has the smaller rounding error, both forms are

.. math:: \hat{\mathbf{y}}_S = (\mathbf{B}_{SS} - \delta\mathbf{I})^{-1}
          \left[\mathbf{B}_{SS}\mathbf{y}_S - (\mathbf{B}\mathbf{y})_S\right] .

`leave_out` takes the spectrum of one side, and leaves out rows one by one or in groups. In
`leave_out_columns`, columns are independent ridge problems, as rotated tasks are: column j has the
kernel :math:`s_j\mathbf{K}` and a ridge λ. All columns share the eigenvectors: hold-out takes one
product and a division, or a small solve for each group. `dyadlearn.solve.inverse` leaves out any
sets of labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dyadlearn._array import Array, array_bytes, largest, namespace, take_rows, zeros
from dyadlearn._codes import group_codes
from dyadlearn._memory import check_memory
from dyadlearn._rounding import is_graded, rounding_level, settled_difference, solve_block
from dyadlearn.leverage import check_cells, leverage_error
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum

# Advice of the error about too little memory.
_FEWER = "leave out fewer and larger groups, use fewer rows, or a linear kernel on fewer features than rows"

#: Row positions of each group; None leaves out one row at a time.
Members = list[np.ndarray] | None

#: Name of rows that are left out together, in messages.
_GROUP = "rows form a group that"


def group_members(groups: Any, n_rows: int, name: str) -> list[np.ndarray] | None:
    """Return the row positions of each group; None means that each row is a group.

    Parameters
    ----------
    groups : array-like of shape (n,) or None
        Group of each row.
    n_rows : int
    name : str
        "groups" or "task_groups", for messages.
    """
    if groups is None:
        return None
    members = members_of(group_codes(groups, (n_rows,), name))
    return None if len(members) == n_rows else members


def members_of(codes: np.ndarray) -> list[np.ndarray]:
    """Return the positions of each code, in ascending order of the codes (n,)."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)


def refuse(numbers: float, Y: Array, setting: Setting, how: str = "") -> None:
    """Raise `NotEnoughMemoryError` if a hold-out of labels (m, q) with so many values does not fit into memory."""
    purpose = f"Holding out setting {setting.value} of a grid of {Y.shape[0]} × {Y.shape[1]}{how}"
    check_memory(array_bytes(Y, numbers), Y, purpose, _FEWER)


def gather_groups(members: list[np.ndarray] | None, n_rows: int) -> list[np.ndarray]:
    """Return the row positions of each group, with a group for each row if `members` is None."""
    if members is None:
        return [np.array([row]) for row in range(n_rows)]
    return members


def largest_group(*groups: Members) -> int:
    """Return the number of rows in the largest of some groups of instances and of tasks."""
    return max((rows.size for members in groups for rows in members or ()), default=1)


def unit_codes(members: Members, n_rows: int) -> np.ndarray:
    """Return the number of the group that each row belongs to, shape (n,)."""
    groups = gather_groups(members, n_rows)
    return np.asarray(
        in_order([np.repeat(np.arange(len(groups)), [rows.size for rows in groups])], groups)
    )


def summed(values: Array, members: Members) -> Array:
    """Return, for each row of values (n, p), the sum over its group."""
    if members is None:
        return values
    xp = namespace(values)
    sums = xp.stack([xp.sum(take_rows(values, rows), axis=0) for rows in members])
    return take_rows(sums, unit_codes(members, values.shape[0]))


def leave_out(
    smoother: Smoother, labels: Array, members: Members = None, rotated: Array | None = None
) -> Array:
    r"""Return the hold-out predictions of each row, by the model trained without its group.

    Parameters
    ----------
    smoother : Smoother
        Smoother of the n rows.
    labels : array of shape (n, p)
    members : list of integer arrays, or None
        Row positions of each group; None leaves out one row at a time.
    rotated : array of shape (k, p), default=None
        :math:`\mathbf{U}^\top\mathbf{Y}`, if already computed; ignored for groups.

    Returns
    -------
    array of shape (n, p)
    """
    if members is None:
        return smoother.leave_one_out(labels, rotated)
    side = smoother.scaled()
    weights = side.smaller
    is_hat = 0.0 if side.prefers_residual else 1.0
    filters = _Filters(
        side.spectrum,
        weights[:, None],
        zeros((1,), weights) + is_hat,
        None if side.spectrum.is_truncated else side.remainder[:, None],
        side.slack_floor,
        side.is_graded,
    )
    held_out = filters.leave_groups_out(
        labels[:, None, :], side.product(labels)[:, None, :], members, side.level(labels)[None, :]
    )
    return held_out[:, 0, :]


# Maximum number of values of an array for several regularisations: small grids are computed
# together, which avoids a loop in Python.
_BLOCK_NUMBERS = 2**17


def column_weights(spectrum: Spectrum, values: Array, ridges: Array) -> tuple[Array, Array]:
    r"""Return the filters of columns with kernels :math:`s\mathbf{K}` for each of several regularisations.

    Parameters
    ----------
    spectrum : Spectrum
        Spectrum with k eigenvalues.
    values : array of shape (c,)
        Factor s of the kernel of each column.
    ridges : array of shape (n, c) or (n, 1)
        Ridge of each column, or of all. Ridges are positive, or n is 1 and some are zero. The
        predictions of a column with neither kernel nor ridge are zero.

    Returns
    -------
    weights : array of shape (k, n c)
        With the scales :math:`c = s/\lambda`, the hat filter :math:`c\sigma/(c\sigma+1)` for direct
        columns, and the residual filter :math:`1/(c\sigma+1)` for the others.
    direct : array of shape (n c,)
        1.0 for columns whose hat filter is at most 1/2, and for truncated spectra; else 0.0.
    """
    xp = namespace(values)
    ridges = xp.broadcast_to(ridges, (ridges.shape[0], values.shape[0]))
    is_zero = ridges == 0
    scales = xp.reshape(values[None, :] / xp.where(is_zero, 1.0, ridges), (-1,))
    is_direct = (scales * largest(spectrum.values) <= 1) | spectrum.is_truncated
    divisors = spectrum.values[:, None] * scales[None, :]
    weights = xp.where(is_direct[None, :], divisors, 1.0)
    divisors += 1.0
    weights /= divisors
    direct = xp.astype(is_direct, scales.dtype)
    if not bool(xp.any(is_zero)):
        return weights, direct
    interpolating, is_unseen = _interpolating_weights(spectrum, values)
    return xp.where(is_zero, interpolating, weights), xp.where(is_zero[0, :], is_unseen, direct)


def _interpolating_weights(spectrum: Spectrum, values: Array) -> tuple[Array, Array]:
    xp = namespace(values)
    seen = xp.astype(values > 0, values.dtype)
    if spectrum.is_truncated:
        return xp.astype(spectrum.values > 0, values.dtype)[:, None] * seen[None, :], xp.ones_like(
            seen
        )
    # Columns without a kernel are direct with weights of zero, so that they predict zero.
    if spectrum.is_singular:
        residual = xp.astype(spectrum.values == 0, values.dtype)
    else:
        residual = 1.0 / spectrum.values
    return residual[:, None] * seen[None, :], 1.0 - seen


def leave_out_columns(
    spectrum: Spectrum,
    weights: Array,
    direct: Array,
    columns: Array,
    rotated: Array,
    members: Members,
    floor: float,
    residuals: Array | None = None,
    diagonal: Array | None = None,
    rounding: Array | None = None,
) -> tuple[Array, Array]:
    r"""Return the hold-out predictions of independent ridge problems, with one filter per column.

    With :math:`\mathbf{B} = \mathbf{U}w\mathbf{U}^\top` (hat for direct columns, residual for the
    others) both forms of leave-one-out are :math:`(\mathbf{b}\circ\mathbf{z} -
    \mathbf{Bz})/(\mathbf{b} - \delta)`, where
    :math:`\mathbf{b}` is the diagonal, and :math:`\delta` is 1 for direct columns and 0 for the others.

    Parameters
    ----------
    spectrum : Spectrum
        Spectrum of m rows, with k eigenvalues.
    weights : array of shape (k, n c)
    direct : array of shape (n c,)
    columns : array of shape (m, c)
        Labels z, repeated for each of n regularisations.
    rotated : array of shape (k, c)
        :math:`\mathbf{U}^\top\mathbf{z}`.
    members : list of integer arrays, or None
    floor : float
        Lower bound of the slack 1 − h, below which the leverage counts as 1; 0 where the slack
        cannot vanish.
    residuals : array of shape (m, n c), default=None
        Residual operator of each column times other labels, :math:`\mathbf{Rx}`.
    diagonal : array of shape (m, n c), default=None
        :math:`(\mathbf{U}\circ\mathbf{U})w`, if already computed; ignored for groups.
    rounding : array of shape (c,), default=None
        `rounding_level` of the columns and weights of one, if already computed.

    Returns
    -------
    held_out : array of shape (m, n c)
    left : array of shape (m, n c)
        Hold-out residuals of the other labels, :math:`\mathbf{R}_{II}^{-1}(\mathbf{Rx})_I`, with
        opposite sign in direct columns; None without `residuals`.
    """
    xp = namespace(columns)
    m, c = columns.shape
    k, width = weights.shape
    n = width // c if c else 0
    if n > 1:
        labels = xp.reshape(xp.broadcast_to(columns[:, None, :], (m, n, c)), (m, width))
        spread = xp.reshape(weights, (k, n, c)) * rotated[:, None, :]
    else:
        labels = columns
        spread = weights * rotated
    product = spectrum.vectors @ xp.reshape(spread, (k, width))
    # a kernel of zeros has no direction
    if k:
        tops = xp.max(weights, axis=0)
    else:
        tops = xp.zeros_like(direct)
    if rounding is None:
        rounding = rounding_level(columns, 1.0)
    level = xp.reshape(rounding * xp.reshape(tops, (n, c)), (width,))
    if members is not None:
        remainders = xp.abs(weights - direct[None, :])
        graded = is_graded(remainders, spectrum.n_rows, spectrum.is_truncated)
        filters = _Filters(spectrum, weights, direct, None, floor, graded)
        of_columns = (labels[:, :, None], product[:, :, None], members, level[:, None])
        if residuals is None:
            return filters.leave_groups_out(*of_columns, None)[:, :, 0], None
        solutions = filters.leave_groups_out(*of_columns, residuals[:, :, None])
        return solutions[:, :, 0], solutions[:, :, 1]
    if diagonal is None:
        diagonal = spectrum.diagonal(weights)
    slack = diagonal - direct[None, :]
    if floor:
        check_cells(xp.min(xp.abs(slack), axis=1), floor, "rows")
    held_out = settled_difference(labels, diagonal, product, level, slack)
    return held_out, None if residuals is None else residuals / slack


class _Filters(NamedTuple):
    """Operators B of f columns, of which groups of rows are left out.

    Attributes
    ----------
    spectrum : Spectrum
        Spectrum of m rows, with k eigenvalues.
    weights : array of shape (k, f)
        Weights of the operators.
    direct : array of shape (f,)
        1.0 for hat matrices, 0.0 for residual operators.
    remainders : array of shape (k, f) or None
        Residual filters, if their blocks do not follow from those of B.
    floor : float
        Lower bound of the slack 1 − h, below which the leverage counts as 1.
    graded : bool
        Whether a block may be singular, see `dyadlearn._rounding.is_graded`.
    """

    spectrum: Spectrum
    weights: Array
    direct: Array
    remainders: Array | None
    floor: float
    graded: bool

    def leave_groups_out(
        self,
        labels: Array,
        product: Array,
        members: list[np.ndarray],
        level: Array,
        others: Array | None = None,
    ) -> Array:
        """Return the hold-out predictions of groups by one small solve for each group and filter.

        Parameters
        ----------
        labels, product : arrays of shape (m, f, r)
            Labels under each filter, and B times these.
        members : list of integer arrays
        level : array of shape (f, r)
            Rounding error of a difference that is zero.
        others : array of shape (m, f, s), default=None
            Further right-hand sides.

        Returns
        -------
        array of shape (m, f, r + s)
        """
        xp = namespace(labels)
        pieces = []
        for rows in members:
            group_labels = xp.permute_dims(take_rows(labels, rows), (1, 0, 2))
            group_product = xp.permute_dims(take_rows(product, rows), (1, 0, 2))
            right = None
            if others is not None:
                right = xp.permute_dims(take_rows(others, rows), (1, 0, 2))
            solved = self._solve_group(rows, group_labels, group_product, level, right)
            pieces.append(xp.permute_dims(solved, (1, 0, 2)))
        return in_order(pieces, members)

    def _solve_group(
        self, rows: np.ndarray, labels: Array, product: Array, level: Array, others: Array | None
    ) -> Array:
        """Return the solutions (f, n, r + s) of one group; arguments are those of the group, with filters first."""
        xp = namespace(labels)
        vectors = take_rows(self.spectrum.vectors, rows)
        n_filters = self.weights.shape[1]
        eye = xp.eye(rows.size, dtype=labels.dtype, device=labels.device)
        refusal = partial(leverage_error, rows, self.spectrum.n_rows, _GROUP)
        step = max(1, 4 * _BLOCK_NUMBERS // (rows.size * max(1, vectors.shape[1])))
        solved = []
        for start in range(0, max(1, n_filters), step):  # a task side may have no direction at all
            here = slice(start, min(start + step, n_filters))
            block = _blocks(vectors, self.weights[:, here])
            is_hat = self.direct[here][:, None, None]
            right = block @ labels[here, ...] - product[here, ...]
            right = xp.where(xp.abs(right) <= level[here, None, :], 0.0, right)
            if self.remainders is None:
                block = block - is_hat * eye
            else:
                block = (1.0 - 2.0 * is_hat) * _blocks(vectors, self.remainders[:, here])
            if others is not None:
                right = xp.concat([right, others[here, ...]], axis=2)
            solved.append(solve_block(block, right, self.floor, self.graded, refusal))
        return xp.concat(solved, axis=0)


def _blocks(vectors: Array, weights: Array) -> Array:
    """Return the block (f, n, n) of each operator with weights (k, f) between rows of eigenvectors (n, k)."""
    return (vectors[None, :, :] * weights.T[:, None, :]) @ vectors.T


def in_order(pieces: Sequence[Array], places: Sequence[np.ndarray]) -> Array:
    """Return the concatenated rows of pieces, in ascending order of their places, which are all different."""
    return take_rows(
        namespace(pieces[0]).concat(list(pieces), axis=0), np.argsort(np.concatenate(list(places)))
    )


def members_of_one_size(units: np.ndarray) -> list[np.ndarray]:
    """Return positions of the members of all units, as one array (number, size) for each unit size."""
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.diff(units[order], prepend=units[order[0]] - 1))
    sizes = np.diff(np.append(starts, units.size))
    return [
        order[starts[sizes == size][:, None] + np.arange(size)[None, :]]
        for size in np.unique(sizes).tolist()
    ]

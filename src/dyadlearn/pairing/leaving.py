r"""Hold-out of rows of one side, one by one or in groups, with one filter or with a filter for each column.

For a group of rows I, the predictions of the model trained without them are

.. math:: \mathbf{R}_{II}^{-1}\left[\mathbf{R}_{II}\mathbf{Y}_I - (\mathbf{RY})_I\right]
          = \mathbf{R}_{II}^{-1}\left[(\mathbf{HY})_I - \mathbf{H}_{II}\mathbf{Y}_I\right],

The first form is used where the residual operator is small, the second where the hat matrix is. Groups of one
row are leave-one-out.

Columns may be independent ridge problems, as rotated tasks are: column j has the kernel :math:`s_j\mathbf{K}` and a
ridge λ. All columns share the eigenvectors: hold-out takes one product and a division, or a small solve for each group.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dyadlearn._array import Array, as_array_of, is_foreign, itemsize, largest, namespace, take_rows, to_numpy, zeros
from dyadlearn._codes import group_codes
from dyadlearn._memory import check_memory
from dyadlearn._rounding import is_graded, rounding_level, settled_difference, solve_block
from dyadlearn.settings import Setting
from dyadlearn.spectrum import Smoother, Spectrum, leverage_error

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
    codes = group_codes(groups, (n_rows,), name)
    order = np.argsort(codes, kind="stable")
    members = np.split(order, np.flatnonzero(np.diff(codes[order])) + 1)
    return None if len(members) == n_rows else members


def nothing_left() -> ValueError:
    """Return the error for a fold of all observed labels."""
    return ValueError(
        "A fold leaves no observed label to learn from: use more folds, or smaller groups (1 sample alone cannot be "
        "left out)."
    )


def refuse(numbers: float, Y: Array, setting: Setting, how: str = "") -> None:
    """Raise `NotEnoughMemoryError` if a hold-out of labels (m, q) with so many values does not fit into memory."""
    m, q = Y.shape
    purpose = f"Holding out setting {setting.value} of a grid of {m} × {q}{how}"
    check_memory(numbers * itemsize(Y), Y, purpose, _FEWER)


def gather_groups(members: list[np.ndarray] | None, n_rows: int) -> list[np.ndarray]:
    """Return the row positions of each group, with a group for each row if `members` is None."""
    return [np.array([row]) for row in range(n_rows)] if members is None else members


def largest_group(*groups: Members) -> int:
    """Return the number of rows in the largest of some groups of instances and of tasks."""
    return max((rows.size for members in groups for rows in members or ()), default=1)


def unit_codes(members: Members, n_rows: int) -> np.ndarray:
    """Return the number of the group that each row belongs to, shape (n,)."""
    codes = np.empty(n_rows, dtype=np.intp)
    for number, rows in enumerate(gather_groups(members, n_rows)):
        codes[rows] = number
    return codes


def scatter_rows(pieces: Sequence[Array], members: Sequence[np.ndarray]) -> Array:
    """Return the concatenated rows of all groups, in the order of their positions."""
    together = namespace(pieces[0]).concat(list(pieces), axis=0)
    return take_rows(together, np.argsort(np.concatenate(list(members))))


def summed(values: Array, members: Members) -> Array:
    """Return, for each row of values (n, p), the sum over its group."""
    if members is None:
        return values
    xp = namespace(values)
    totals = [xp.sum(take_rows(values, rows), axis=0)[None, :] for rows in members]
    pieces = [xp.broadcast_to(total, (rows.size, values.shape[1])) for total, rows in zip(totals, members, strict=True)]
    return scatter_rows(pieces, members)


def leave_out(smoother: Smoother, labels: Array, members: list[np.ndarray] | None = None) -> Array:
    """Return the hold-out predictions of each row, by the model trained without its group.

    Parameters
    ----------
    smoother : Smoother
        Smoother of the n rows.
    labels : array of shape (n, p)
    members : list of integer arrays, or None
        Row positions of each group; None leaves out one row at a time.

    Returns
    -------
    array of shape (n, p)
    """
    if members is None:
        return smoother.leave_one_out(labels)
    side = smoother.scaled()
    weights, is_hat = (side.remainder, 0.0) if side.prefers_residual else (side.shrinkage, 1.0)
    return _leave_groups_out(
        side.spectrum,
        (weights[:, None], zeros((1,), weights) + is_hat),
        labels[:, None, :],
        side.product(labels)[:, None, :],
        members,
        side.level(labels)[None, :],
        side.slack_floor,
        graded=side.is_graded,
        remainders=None if side.spectrum.is_truncated else side.remainder[:, None],
    )[:, 0, :]


# Maximum number of values of an array for several regularisations: small grids are computed together, which avoids a
# loop in Python.
_BLOCK_NUMBERS = 2**17


def column_weights(spectrum: Spectrum, values: Array, ridges: Sequence[float] | Array) -> tuple[Array, Array]:
    r"""Return the filters of columns with kernels :math:`s\mathbf{K}` for each of several regularisations.

    Parameters
    ----------
    spectrum : Spectrum
        Spectrum with k eigenvalues.
    values : array of shape (c,)
        Factor s of the kernel of each column.
    ridges : sequence of n floats, or array of shape (n, c)
        Ridge of all columns, or of each. Ridges are positive, or n is 1 and some are zero. The predictions of a column
        with neither kernel nor ridge are zero.

    Returns
    -------
    weights : array of shape (k, n c)
    direct : array of shape (n c,)
        As in `scaled_weights`, for the scales :math:`s/\lambda`.
    """
    xp = namespace(values)
    if not hasattr(ridges, "shape"):
        ridges = as_array_of(list(ridges), values, values.dtype)[:, None]
    if not bool(xp.any(ridges == 0)):
        return scaled_weights(spectrum, xp.reshape(values[None, :] / ridges, (-1,)))
    interpolating = _interpolating_weights(spectrum, values)
    if bool(xp.all(ridges == 0)):
        return interpolating
    own = xp.broadcast_to(ridges, (1, values.shape[0]))[0, :]
    weights, direct = scaled_weights(spectrum, values / xp.where(own == 0, xp.ones_like(own), own))
    mixed = zip(interpolating, (weights, direct), (own[None, :], own), strict=True)
    weights, direct = (xp.where(ridge == 0, without, with_ridge) for without, with_ridge, ridge in mixed)
    return weights, direct


def scaled_weights(spectrum: Spectrum, scales: Array) -> tuple[Array, Array]:
    r"""Return the filter of each column, and whether it is that of the hat or of the residual operator.

    Parameters
    ----------
    spectrum : Spectrum
        Spectrum with k eigenvalues.
    scales : array of shape (c,)
        Factor of the kernel of each column, for a ridge of one.

    Returns
    -------
    weights : array of shape (k, c)
        Hat filter :math:`c\sigma/(c\sigma+1)` for direct columns, residual filter :math:`1/(c\sigma+1)` for the others.
    direct : array of shape (c,)
        1.0 for columns whose hat filter is at most 1/2, and for truncated spectra; else 0.0.
    """
    xp = namespace(scales)
    weights = spectrum.values[:, None] * scales[None, :]
    direct = scales * largest(spectrum.values) <= 1
    if spectrum.is_truncated:
        direct = xp.ones_like(direct)
    denominator = weights + 1.0
    # To ask an accelerator costs more than to do what need not be done.
    asks = not is_foreign(weights)
    if asks and not bool(xp.any(direct)):
        weights = 1.0 / denominator
    elif asks and bool(xp.all(direct)):
        weights /= denominator
    else:
        weights = xp.where(direct[None, :], weights, xp.ones_like(weights[:1, :]))
        weights /= denominator
    return weights, xp.astype(direct, scales.dtype)


def _interpolating_weights(spectrum: Spectrum, values: Array) -> tuple[Array, Array]:
    xp = namespace(values)
    seen = xp.astype(values > 0, values.dtype)
    if spectrum.is_truncated:
        return xp.astype(spectrum.values > 0, values.dtype)[:, None] * seen[None, :], xp.ones_like(seen)
    # Columns of the null space are never seen: direct, with nothing kept, they predict zero.
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
) -> tuple[Array, Array]:
    r"""Return the hold-out predictions of independent ridge problems, with one filter per column.

    With :math:`\mathbf{B} = \mathbf{U}w\mathbf{U}^\top` (hat for direct columns, residual for the others) both
    forms of leave-one-out are :math:`(\mathbf{b}\circ\mathbf{z} - \mathbf{Bz})/(\mathbf{b} - \delta)`, where
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
        Lower bound of the slack 1 − h, below which the leverage counts as 1; 0 where the slack cannot vanish.
    residuals : array of shape (m, n c), default=None
        Residual operator of each column times other labels, :math:`\mathbf{Rx}`.
    diagonal : array of shape (m, n c), default=None
        :math:`(\mathbf{U}\circ\mathbf{U})w`, if already computed; ignored for groups.

    Returns
    -------
    held_out : array of shape (m, n c)
    left : array of shape (m, n c)
        Hold-out residuals of the other labels, :math:`\mathbf{R}_{II}^{-1}(\mathbf{Rx})_I`, with opposite sign in
        direct columns; None without `residuals`.
    """
    xp = namespace(columns)
    (m, c), (k, width) = columns.shape, weights.shape
    n = width // c if c else 0
    labels = xp.reshape(xp.broadcast_to(columns[:, None, :], (m, n, c)), (m, width)) if n > 1 else columns
    spread = xp.reshape(weights, (k, n, c)) * rotated[:, None, :] if n > 1 else weights * rotated
    product = spectrum.vectors @ xp.reshape(spread, (k, width))
    level = xp.reshape(rounding_level(columns, xp.reshape(_tops(weights), (n, c))), (width,))
    if members is not None:
        graded = is_graded(xp.abs(weights - direct[None, :]), spectrum.n_rows, spectrum.is_truncated)
        given = (labels[:, :, None], product[:, :, None], members, level[:, None], floor)
        beside = None if residuals is None else residuals[:, :, None]
        found = _leave_groups_out(spectrum, (weights, direct), *given, graded=graded, beside=beside)
        return found[:, :, 0], None if residuals is None else found[:, :, 1]
    diagonal = spectrum.diagonal(weights) if diagonal is None else diagonal
    # To ask an accelerator costs more than to do what need not be done.
    slack = diagonal - direct[None, :] if is_foreign(direct) or bool(xp.any(direct > 0)) else diagonal
    if floor:
        tight = to_numpy(xp.min(xp.abs(slack), axis=1)) <= floor
        if tight.any():
            raise leverage_error(tight.nonzero()[0], m, "rows")
    held_out = settled_difference(labels, diagonal, product, level, slack)
    return held_out, None if residuals is None else residuals / slack


def _tops(weights: Array) -> Array:
    """Return the largest weight of each column, shape (n c,); zeros for a kernel of zeros."""
    xp = namespace(weights)
    return xp.max(weights, axis=0) if weights.shape[0] else xp.sum(weights, axis=0)


def _leave_groups_out(
    spectrum: Spectrum,
    filters: tuple[Array, Array],
    labels: Array,
    product: Array,
    members: list[np.ndarray],
    level: Array,
    floor: float,
    *,
    graded: bool,
    remainders: Array | None = None,
    beside: Array | None = None,
) -> Array:
    """Return the hold-out predictions of groups by one small solve for each group and filter.

    Parameters
    ----------
    spectrum : Spectrum
        Spectrum of m rows, with k eigenvalues.
    filters : (array of shape (k, f), array of shape (f,))
        Weights of f operators B, and 1.0 for hat matrices.
    labels, product : arrays of shape (m, f, r)
        Labels under each filter, and B times these.
    members : list of integer arrays
    level : array of shape (f, r)
        Rounding error of a difference that is zero.
    floor : float
        Lower bound of the slack 1 − h, below which the leverage counts as 1.
    graded : bool
        Whether a block may be singular, see `dyadlearn._rounding.is_graded`.
    remainders : array of shape (k, f), default=None
        Residual filters, if their blocks do not follow from those of B.
    beside : array of shape (m, f, s), default=None
        Further right-hand sides.

    Returns
    -------
    array of shape (m, f, r + s)
    """
    xp, (weights, direct), n_filters = namespace(labels), filters, filters[0].shape[1]
    pieces = []

    def inner(vectors: Array, weights: Array) -> Array:
        """Return the block of each operator between some rows, shape (f, n, n)."""
        return (vectors[None, :, :] * weights.T[:, None, :]) @ vectors.T

    for rows in members:
        vectors = take_rows(spectrum.vectors, rows)
        own, part = (xp.permute_dims(take_rows(grid, rows), (1, 0, 2)) for grid in (labels, product))
        other = None if beside is None else xp.permute_dims(take_rows(beside, rows), (1, 0, 2))
        eye = xp.eye(rows.size, dtype=labels.dtype, device=labels.device)
        refusal = partial(leverage_error, rows, spectrum.n_rows, _GROUP)
        step = max(1, 4 * _BLOCK_NUMBERS // (rows.size * max(1, vectors.shape[1])))
        solved = []
        for start in range(0, max(1, n_filters), step):  # a task side may have no direction at all
            here = slice(start, min(start + step, n_filters))
            block, is_hat = inner(vectors, weights[:, here]), direct[here][:, None, None]
            right = block @ own[here, ...] - part[here, ...]
            right = xp.where(xp.abs(right) <= level[here, None, :], xp.zeros_like(right), right)
            if remainders is None:
                block = block - is_hat * eye
            else:
                block = (1.0 - 2.0 * is_hat) * inner(vectors, remainders[:, here])
            if other is not None:
                right = xp.concat([right, other[here, ...]], axis=2)
            solved.append(solve_block(block, right, floor, graded, refusal))
        pieces.append(xp.permute_dims(xp.concat(solved, axis=0), (1, 0, 2)))
    return scatter_rows(pieces, members)

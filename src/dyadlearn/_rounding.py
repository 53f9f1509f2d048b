"""What rounding leaves of a difference and of a small system: zeros that are meant, and blocks that are singular."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dyadlearn._array import Array, epsilon, is_foreign, itemsize, namespace, row_blocks, solve

__all__ = ["is_graded", "rounding_level", "settle", "solve_block"]

# A sum of n products comes out wrong by about ε√n/2 times the largest of them; eight times that is never reached.
_MARGIN = 4.0
# Blocks that stay in the cache of a processor cost one pass over memory, however many operations they go through.
_CACHED_BYTES = 2**18


def rounding_level(labels: Array, top: Array | float, n_terms: int | None = None) -> Array:
    r"""Return what rounding may leave of a difference that is zero, for each column of labels.

    The operator :math:`\mathbf{U}\,\mathrm{diag}(w)\,\mathbf{U}^\top` has no entry above :math:`\max|w|`, so that its
    product with a column y, and what is subtracted from it, are wrong by a few
    :math:`\varepsilon\sqrt n\,\max|w|\,\max|y|`.

    Parameters
    ----------
    labels : array of shape (n, p)
    top : float or array of shape (p,)
        The largest weight.
    n_terms : int, default=None
        How many terms the sums have; None is n.

    Returns
    -------
    array of shape (p,)
    """
    xp = namespace(labels)
    if labels.shape[0] == 0:
        return xp.zeros_like(xp.sum(labels, axis=0))
    highest, lowest = xp.max(labels, axis=0), -xp.min(labels, axis=0)
    size = xp.where(highest > lowest, highest, lowest)  # no copy of all labels, nor squares that could overflow
    return (_MARGIN * epsilon(labels) * math.sqrt(n_terms or labels.shape[0])) * size * top


def settle(difference: Array, level: Array) -> Array:
    """Set to exactly zero, in place, what is no more than rounding of a difference, and return it.

    Predictions that are zero when a model is fitted again are then zero, and tie; what is above the level, however
    small, keeps its digits.

    Parameters
    ----------
    difference : array of shape (n, p)
    level : array that broadcasts with it
    """
    across = level[None, :] if level.ndim == 1 else level
    # Along memory: a grid that was computed from its transpose lies on its side.
    if not is_foreign(difference) and difference.flags.f_contiguous:
        _settle_rows(difference.T, across.T)
    else:
        _settle_rows(difference, across)
    return difference


def _settle_rows(difference: Array, level: Array) -> None:
    xp = namespace(difference)
    n, p = difference.shape
    limit = 2**28 if is_foreign(difference) else _CACHED_BYTES
    for rows in row_blocks(n, p * itemsize(difference), limit):
        part = difference[rows, :]
        none = xp.abs(part) <= (level[rows, :] if level.shape[0] == n else level)
        if bool(xp.any(none)):
            part[none] = 0.0
            difference[rows, :] = part


def is_graded(remainders: Array, n_rows: int, truncated: bool) -> bool:
    r"""Tell whether residual filters (k, p) span more than the precision resolves.

    The smallest value is then lost beside the largest, 1 in the null space that a truncated spectrum leaves out, in
    the entries of a block :math:`\mathbf{U}_I\,\mathrm{diag}(1-f)\,\mathbf{U}_I^\top`, which may be singular.
    """
    xp = namespace(remainders)
    if 0 in remainders.shape:
        return False
    top = xp.ones_like(remainders[0, :]) if truncated else xp.max(remainders, axis=0)
    return bool(xp.any(xp.min(remainders, axis=0) <= n_rows * epsilon(remainders) * top))


def solve_block(block: Array, right: Array, floor: float, graded: bool, refusal: Callable[[], Exception]) -> Array:
    r"""Solve systems of blocks of a residual operator, refusing those that cannot be told from singular ones.

    The entries of a block are rounded, so that its eigenvalues are known up to :math:`\varepsilon` times the largest.
    Where directions are kept whole, six digits must be left beside that and the `floor` of slacks; elsewhere one.

    Parameters
    ----------
    block : array of shape (…, n, n)
        Positive or, all of them, negative semidefinite.
    right : array of shape (…, n, p)
    floor : float
        What slacks must exceed; 0 if no direction is kept whole.
    graded : bool
        Whether a block may be singular at all, see `is_graded`: nothing is checked otherwise.
    refusal : callable
        Makes the error to raise if a block is singular.

    Returns
    -------
    array of shape (…, n, p)
    """
    xp = namespace(block)
    if graded:
        values = xp.abs(xp.linalg.eigvalsh(block))
        digits = 1e7 if floor else 1e1
        rounding = digits * block.shape[-1] * epsilon(block) * xp.max(values, axis=-1)
        least = xp.min(values, axis=-1)
        if bool(xp.any((least <= floor) | (least <= rounding))):
            raise refusal()
    try:
        return solve(block, right)
    except np.linalg.LinAlgError:
        raise refusal() from None

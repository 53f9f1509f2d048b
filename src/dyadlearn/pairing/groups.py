r"""Leave-group-out on one side.

For a group of rows I the predictions of a model that saw none of them are

.. math:: \mathbf{R}_{II}^{-1}\left[\mathbf{R}_{II}\mathbf{Y}_I - (\mathbf{RY})_I\right]
          = \mathbf{R}_{II}^{-1}\left[(\mathbf{HY})_I - \mathbf{H}_{II}\mathbf{Y}_I\right],

the first form where the residual operator is small, the second where the hat is. Groups of one
row are leave-one-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace, take_rows
from dyadlearn._codes import group_codes
from dyadlearn._rounding import settle, solve_block
from dyadlearn.spectrum import Smoother, leverage_error

__all__ = [
    "GROUP",
    "Members",
    "gather_groups",
    "group_members",
    "leave_out",
    "nothing_left",
    "scatter_rows",
]

#: Row positions of each group; None leaves out one row at a time.
Members = list[np.ndarray] | None

#: What messages call rows that are left out together.
GROUP = "rows form a group that"


def group_members(groups: Any, n_rows: int, name: str) -> list[np.ndarray] | None:
    """Return the row positions of each group, or None where every row is a group of its own.

    Parameters
    ----------
    groups : array-like of shape (n,) or None
        One label per row.
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


def gather_groups(members: list[np.ndarray] | None, n_rows: int) -> list[np.ndarray]:
    """Return the groups, spelling out single rows."""
    return [np.array([row]) for row in range(n_rows)] if members is None else members


def scatter_rows(pieces: Sequence[Array], members: Sequence[np.ndarray]) -> Array:
    """Put the rows of each group back where they belong."""
    together = namespace(pieces[0]).concat(list(pieces), axis=0)
    return take_rows(together, np.argsort(np.concatenate(list(members))))


def leave_out(smoother: Smoother, labels: Array, members: list[np.ndarray] | None = None) -> Array:
    """Return, for each row, what a model that saw none of its group predicts.

    Parameters
    ----------
    smoother : Smoother
        Of the n rows.
    labels : array of shape (n, p)
    members : list of integer arrays, or None
        Row positions of each group; None leaves out one row at a time.

    Returns
    -------
    array of shape (n, p)
    """
    if members is None:
        return smoother.leave_one_out(labels)
    spectrum = smoother.spectrum
    smoother = smoother.scaled()
    product, level = smoother.product(labels), smoother.level(labels)
    pieces = []
    for rows in members:
        vectors, own = take_rows(spectrum.vectors, rows), take_rows(labels, rows)
        hat = (vectors * smoother.shrinkage) @ vectors.T
        truncated = spectrum.is_truncated
        residual = _identity(hat) - hat if truncated else (vectors * smoother.remainder) @ vectors.T
        part = take_rows(product, rows)
        right = residual @ own - part if smoother.prefers_residual else part - hat @ own
        refusal = partial(leverage_error, rows, spectrum.n_rows, GROUP)
        pieces.append(solve_block(residual, settle(right, level), smoother.slack_floor, smoother.is_graded, refusal))
    return scatter_rows(pieces, members)


def _identity(like: Array) -> Array:
    xp = namespace(like)
    return xp.eye(like.shape[0], dtype=like.dtype, device=like.device)

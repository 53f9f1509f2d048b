r"""Leave-group-out on one side.

For a group of rows I the predictions of a model that saw none of them are

.. math:: \mathbf{Y}_I - \mathbf{R}_{II}^{-1}(\mathbf{RY})_I
          = \mathbf{R}_{II}^{-1}\left[(\mathbf{HY})_I - \mathbf{H}_{II}\mathbf{Y}_I\right],

the first form where the residual operator is small, the second where the hat is. Groups of one
row are leave-one-out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dyadlearn._array import Array, namespace, take_rows
from dyadlearn._pairs import group_codes
from dyadlearn.spectrum import Smoother, leverage_error

__all__ = ["check_group", "gather_groups", "group_members", "leave_out", "scatter_rows"]


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
    product = smoother.product(labels)
    pieces = []
    for rows in members:
        vectors, own = take_rows(spectrum.vectors, rows), take_rows(labels, rows)
        hat = (vectors * smoother.shrinkage) @ vectors.T
        truncated = spectrum.is_truncated
        residual = _identity(hat) - hat if truncated else (vectors * smoother.remainder) @ vectors.T
        check_group(residual, rows, smoother.slack_floor, spectrum.n_rows)
        part = take_rows(product, rows)
        solve = namespace(part).linalg.solve
        pieces.append(own - solve(residual, part) if smoother.prefers_residual else solve(residual, part - hat @ own))
    return scatter_rows(pieces, members)


def _identity(like: Array) -> Array:
    xp = namespace(like)
    return xp.eye(like.shape[0], dtype=like.dtype, device=like.device)


def check_group(residual: Array, rows: np.ndarray, floor: float, total: int) -> None:
    """Raise if a group is fitted exactly whatever its labels.

    Parameters
    ----------
    residual : array of shape (…, n, n)
        Residual operator of the n rows among themselves, up to its sign.
    rows : integer array of shape (n,)
    floor : float
        What its eigenvalues must exceed; nothing is checked against 0.
    total : int
        How many rows there are in all.
    """
    xp = namespace(residual)
    if floor and float(xp.min(xp.abs(xp.linalg.eigvalsh(residual)))) <= floor:
        raise leverage_error(rows, total, "rows form a group that")

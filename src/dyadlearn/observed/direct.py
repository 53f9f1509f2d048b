r"""Pairs that leave one at a time, or all those of an instance or a task, by a formula.

The normal equations of `dyadlearn.observed.system` are factorised where they are few. With rows :math:`\mathbf{z}_p` of
all products of features of a pair, with a one beside them for a free mean, and the pairs g that leave together,

.. math:: f_{-g} = y_g - (\mathbf{I} - \mathbf{H}_{gg})^{-1}(y_g - f_g), \qquad \mathbf{H}_{gg} =
          \mathbf{Z}_g\,(\mathbf{Z}^\top\mathbf{WZ} + c\mathbf{I})^{-1}\,\mathbf{Z}_g^\top\mathbf{W}_g .

Where the model nearly interpolates, :math:`\mathbf{I} - \mathbf{H}_{gg}` is small and a difference: as many digits are
lost as it has zeros behind the point.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from dyadlearn._array import Array, epsilon, itemsize, namespace, put, row_blocks, solve, take_rows, zeros
from dyadlearn.exceptions import LeverageError
from dyadlearn.observed.pairs import PairLabels
from dyadlearn.observed.system import ObservedSystem

__all__ = ["MOST_UNKNOWNS", "leave_groups_out"]

#: A dense system of so many unknowns takes 32 MiB.
MOST_UNKNOWNS = 2048


def leave_groups_out(system: ObservedSystem, groups: np.ndarray | None = None) -> Array:
    """Return predictions (n,) of pairs by models that saw none of their group.

    Parameters
    ----------
    system : ObservedSystem
        Of listed pairs, with at most `MOST_UNKNOWNS` unknowns.
    groups : integer array of shape (n,), default=None
        Pairs with the same number leave together; None is each by itself.

    Raises
    ------
    LeverageError
        If pairs are fitted exactly whatever their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.observed.direct import leave_groups_out
    >>> from dyadlearn.observed.pairs import PairLabels
    >>> from dyadlearn.observed.system import ObservedSystem
    >>> from dyadlearn.pairing import Kronecker
    >>> from dyadlearn.spectrum import Spectrum
    >>> sides = [Spectrum.from_features(np.array([[1.0], [2.0]])), Spectrum.from_features(np.array([[1.0], [0.0]]))]
    >>> pairs = PairLabels(np.array([0, 1]), np.array([0, 0]), np.array([3.0, 5.0]), (2, 2))
    >>> leave_groups_out(ObservedSystem.of(Kronecker(*sides, 1.0), pairs))  # kernels of 1, 2 and 4, a ridge of 1
    array([2., 3.])
    """
    labels = cast(PairLabels, system.labels)
    xp, y = namespace(labels.values), labels.values
    root = xp.ones_like(y) if labels.weights is None else labels.weights**0.5
    rows = _rows(system, labels) * root[:, None]
    n_unknowns = int(rows.shape[1])
    gram = zeros((n_unknowns, n_unknowns), rows)
    for block in row_blocks(labels.size, n_unknowns * itemsize(rows)):
        gram += rows[block, :].T @ rows[block, :]
    penalties = zeros((n_unknowns,), rows) + system.operators.ridge
    if system.operators.free_mean:
        penalties[-1] = 0.0
    factor = xp.linalg.cholesky(gram + penalties * xp.eye(n_unknowns, dtype=rows.dtype, device=rows.device))
    # Its rows are those of the pairs, times the inverse of the factor.
    whitened = solve(factor, rows.T).T
    rest = root * y - whitened @ (whitened.T @ (root * y))
    left_out = zeros((labels.size,), y)
    for members in _of_one_size(labels.size, groups):
        at = members.reshape(-1)
        own = xp.reshape(take_rows(whitened, at), (*members.shape, n_unknowns))
        slack = -(own @ xp.matrix_transpose(own))
        diagonal = xp.eye(members.shape[1], dtype=slack.dtype, device=slack.device)
        slack += diagonal
        _check(slack, epsilon(y) * labels.size)
        errors = xp.reshape(solve(slack, xp.reshape(take_rows(rest, at), (*members.shape, 1))), (-1,))
        put(left_out, at, take_rows(y, at) - errors / take_rows(root, at))
    return left_out


def _rows(system: ObservedSystem, labels: PairLabels) -> Array:
    """Return all products of features of each pair (n, k·l), and a one where the mean is free."""
    basis = system.basis
    left, right = take_rows(basis.left, labels.rows), take_rows(basis.right, labels.columns)
    xp = namespace(left)
    rows = xp.reshape(left[:, :, None] * right[:, None, :], (labels.size, -1))
    if system.scale is not None:
        rows *= xp.reshape(system.scale, (1, -1))
    return xp.concat([rows, xp.ones_like(rows[:, :1])], axis=1) if system.operators.free_mean else rows


def _of_one_size(n_pairs: int, groups: np.ndarray | None) -> list[np.ndarray]:
    """Return positions of the members of all groups, an array (number, size) for each size that groups have."""
    if groups is None:
        return [block[:, None] for block in np.array_split(np.arange(n_pairs), max(1, n_pairs // 65536))]
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=groups[order[0]] - 1))
    sizes = np.diff(np.append(starts, n_pairs))
    return [order[starts[sizes == size][:, None] + np.arange(size)[None, :]] for size in np.unique(sizes).tolist()]


def _check(slack: Array, floor: float) -> None:
    """Refuse to leave out what is fitted exactly."""
    xp = namespace(slack)
    least = float(xp.min(xp.linalg.eigvalsh(slack)))
    if least <= floor:
        raise LeverageError(
            "Some pairs are fitted exactly whatever their labels, so that the others say nothing of them: use a larger "
            "alpha."
        )

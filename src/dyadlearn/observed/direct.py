r"""Pairs that leave one at a time, or all those of an instance or a task, by a formula.

The normal equations of `dyadlearn.observed.system` are factorised where they are few. With rows :math:`\mathbf{z}_p` of
all products of features of a pair, with a one beside them for a free mean, and the pairs g that leave together,

.. math:: f_{-g} = (\mathbf{I} - \mathbf{H}_{gg})^{-1}(f_g - \mathbf{H}_{gg}\,y_g), \qquad \mathbf{H}_{gg} =
          \mathbf{Z}_g\,(\mathbf{Z}^\top\mathbf{WZ} + c\mathbf{I})^{-1}\,\mathbf{Z}_g^\top\mathbf{W}_g .

A group of more pairs than there are unknowns is taken out of the normal equations themselves.
Where the model nearly interpolates, :math:`\mathbf{I} - \mathbf{H}_{gg}` is small and a difference: as many digits are
lost as it has zeros behind the point.
"""

from __future__ import annotations

from typing import cast

import numpy as np

from dyadlearn._array import Array, cholesky, epsilon, itemsize, namespace, placed, row_blocks, solve, take_rows, zeros
from dyadlearn.exceptions import LeverageError
from dyadlearn.observed.pairs import PairLabels, mean_of
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
    free_mean, n_unknowns = system.operators.free_mean, _n_unknowns(system)
    # Predictions move with labels where the mean is free; far from zero these would leave their rounding.
    shift = mean_of(labels.values, labels.weights) if free_mean else 0.0
    y = labels.values - shift
    xp = namespace(y)
    root = xp.ones_like(y) if labels.weights is None else labels.weights**0.5
    gram, right = zeros((n_unknowns, n_unknowns), y), zeros((n_unknowns,), y)
    row_bytes, everybody = n_unknowns * itemsize(y), np.arange(labels.size)
    for block in row_blocks(labels.size, row_bytes):
        rows = _rows(system, everybody[block]) * root[block][:, None]
        gram += rows.T @ rows
        right += rows.T @ (root[block] * y[block])
    penalties = zeros((n_unknowns,), y) + system.operators.ridge
    if free_mean:
        penalties[-1] = 0.0
    identity = xp.eye(n_unknowns, dtype=y.dtype, device=y.device)
    try:
        factor = cholesky(gram + penalties * identity)
    except np.linalg.LinAlgError:
        raise _interpolation() from None
    inverse = solve(factor, identity)
    found = inverse @ right

    def whitened(at: np.ndarray) -> tuple[Array, Array, Array]:
        """Return rows of some pairs in directions in which the normal equations are an identity, labels, and roots.

        Rows and labels are multiplied by these, the roots of the weights.
        """
        roots = take_rows(root, at)
        return (_rows(system, at) * roots[:, None]) @ inverse.T, roots * take_rows(y, at), roots

    left_out, places = [], []
    for members in _of_one_size(labels.size, groups):
        size = members.shape[1]
        per_group = row_bytes * size + itemsize(y) * size**2
        for block in row_blocks(members.shape[0], per_group) if size <= n_unknowns else ():
            here = members[block]
            places.append(here.reshape(-1))
            own, given, roots = whitened(places[-1])
            own, given = xp.reshape(own, (*here.shape, n_unknowns)), xp.reshape(given, (*here.shape, 1))
            hat = own @ xp.matrix_transpose(own)
            slack = xp.eye(size, dtype=y.dtype, device=y.device) - hat
            _check(slack, epsilon(y) * labels.size)
            predicted = solve(slack, own @ found[:, None] - hat @ given)
            left_out.append(xp.reshape(predicted, (-1,)) / roots)
        for here in members if size > n_unknowns else ():
            slack, rest = xp.asarray(identity, copy=True), xp.asarray(found, copy=True)
            blocks = [here[block] for block in row_blocks(size, row_bytes)]
            for at in blocks:
                own, given, _ = whitened(at)
                slack -= own.T @ own
                rest -= own.T @ given
            _check(slack, epsilon(y) * labels.size)
            rest = solve(slack, rest[:, None])[:, 0]
            for at in blocks:
                own, _, roots = whitened(at)
                places.append(at)
                left_out.append(own @ rest / roots)
    return placed(left_out, places, labels.size) + shift


def _n_unknowns(system: ObservedSystem) -> int:
    return int(system.basis.left.shape[1] * system.basis.right.shape[1]) + system.operators.free_mean


def _rows(system: ObservedSystem, at: np.ndarray) -> Array:
    """Return all products of features of some pairs (p, k·l), and a one where the mean is free."""
    labels, basis = cast(PairLabels, system.labels), system.basis
    left, right = take_rows(basis.left, labels.rows[at]), take_rows(basis.right, labels.columns[at])
    xp = namespace(left)
    rows = xp.reshape(left[:, :, None] * right[:, None, :], (at.size, -1))
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
    if not least > floor:
        raise _interpolation()


def _interpolation() -> LeverageError:
    return LeverageError(
        "Some pairs are fitted exactly whatever their labels, so that the others say nothing of them: use a larger "
        "alpha."
    )

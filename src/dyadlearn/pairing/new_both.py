r"""Hold-out predictions of Kronecker ridge regression where instance and task are both new.

For each task j the tasks without j are decomposed, :math:`\mathbf{G}_{-j} = \mathbf{W}\,\mathrm{diag}(\mathbf{t})
\mathbf{W}^\top`, and the labels rotated, :math:`\mathbf{Z} = \mathbf{Y}_{-j}\mathbf{W}`. As for a new instance, every
column is then an independent ridge problem whose leave-one-out is a division, and a prediction for j comes last:

.. math:: F_D[:, j] = \left[\left(\mathbf{Z} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\mathbf{Z})}
          {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right)\mathrm{diag}(1/\mathbf{t})\right]
          \mathbf{W}^\top\mathbf{G}_{-j,j}, \qquad \rho_{ic} = \frac{\lambda}{\sigma_i t_c + \lambda}.

The loop is over whichever side has fewer rows (or groups), one thread to a task.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dyadlearn._array import Array, eigh, namespace, svd, take_rows, to_numpy, zeros
from dyadlearn._estimates import SideSize
from dyadlearn._threads import for_each, n_workers
from dyadlearn.holes.operators import interpolation_floor
from dyadlearn.kernels.repair import rank_threshold
from dyadlearn.pairing.columns import column_weights, leave_out_columns
from dyadlearn.pairing.groups import Members, gather_groups
from dyadlearn.spectrum import Spectrum

__all__ = ["new_both", "new_both_numbers"]

# Columns and regularisations are worked on in arrays of about this many numbers: small enough to stay in the
# cache and to bound memory, large enough to keep the loop out of Python.
_BLOCK_NUMBERS = 2**16


def new_both(
    spectrum: Spectrum,
    task_spectrum: Spectrum,
    Y: Array,
    alphas: Sequence[float],
    members: Members = None,
    task_members: Members = None,
) -> Array:
    r"""Return the predictions for pairs whose instance and task were both left out.

    Everything but :math:`\boldsymbol\rho` is shared by all regularisations. Beside the result the
    work takes about seven arrays of the size of `Y`, however many regularisations there are.

    Parameters
    ----------
    spectrum, task_spectrum : Spectrum
    Y : array of shape (m, q)
    alphas : sequence of n floats
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks.

    Returns
    -------
    array of shape (n, m, q)
    """
    groups = gather_groups(members, spectrum.n_rows)
    task_groups = gather_groups(task_members, task_spectrum.n_rows)
    xp = namespace(Y)
    if not (spectrum.values.shape[0] and task_spectrum.values.shape[0]):  # nothing to learn in
        return zeros((len(alphas), *Y.shape), Y)
    if len(groups) < len(task_groups):
        swapped = new_both(task_spectrum, spectrum, Y.T, alphas, task_members, members)
        return xp.permute_dims(swapped, (0, 2, 1))
    (m, q), n = Y.shape, len(alphas)
    gram = None if task_spectrum.is_truncated else task_spectrum.matrix(task_spectrum.values)
    rotated = spectrum.rotate(Y)
    held_out = zeros((q, n, m), Y)
    blocks = _alpha_blocks(alphas, max(1, _BLOCK_NUMBERS // (m * q)))
    floors = [interpolation_floor(alphas[block[0]], spectrum) for block in blocks]
    width = max(192, _BLOCK_NUMBERS // m)
    squares = spectrum.vectors**2

    def leave_out(group: np.ndarray) -> None:
        kept = np.delete(np.arange(q), group)
        if not kept.size:
            return
        values, vectors, cross = _without(task_spectrum, gram, group, kept)
        # With rows of zeros for the tasks that are out, the labels need not be copied without them.
        where = np.full(q, kept.size)
        where[kept] = np.arange(kept.size)
        vectors = take_rows(xp.concat([vectors, zeros((1, vectors.shape[1]), vectors)], axis=0), where)
        predicted = zeros((n, m, group.size), Y)
        for start in range(0, values.shape[0], width):
            chunk = slice(start, min(start + width, values.shape[0]))
            columns, turned = Y @ vectors[:, chunk], rotated @ vectors[:, chunk]
            ending = cross[chunk, :] / values[chunk, None]
            for block, floor in zip(blocks, floors, strict=True):
                weights, direct = column_weights(spectrum, values[chunk], [alphas[index] for index in block])
                part = leave_out_columns(spectrum, weights, direct, columns, turned, members, floor, squares)
                part = xp.reshape(xp.reshape(part, (m * len(block), columns.shape[1])) @ ending, (m, len(block), -1))
                predicted[block[0] : block[-1] + 1, ...] += xp.permute_dims(part, (1, 0, 2))
        for place, task in enumerate(group):
            held_out[int(task), ...] = predicted[:, :, place]

    for_each(leave_out, task_groups, Y, n_operations=4.0 * m * m * q * len(task_groups) * n)
    return xp.permute_dims(held_out, (1, 2, 0))


def _alpha_blocks(alphas: Sequence[float], size: int) -> list[list[int]]:
    """Cut positions of alphas into consecutive blocks; a zero stands alone, having a rule of its own."""
    blocks: list[list[int]] = []
    for index, alpha in enumerate(alphas):
        if blocks and len(blocks[-1]) < size and alpha != 0 and alphas[blocks[-1][0]] != 0:
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


def _without(
    spectrum: Spectrum, gram: Array | None, left_out: np.ndarray, kept: np.ndarray
) -> tuple[Array, Array, Array]:
    """Decompose a side without some rows: eigenvalues (c,), eigenvectors (kept, c), WᵀG (c, left out).

    Null directions are dropped: the kernel of any row with them is zero.
    """
    if gram is None:
        factor = spectrum.vectors * spectrum.values**0.5
        vectors, roots, right = svd(take_rows(factor, kept))
        values = roots**2
        cross = (roots[:, None] * right) @ take_rows(factor, left_out).T
    else:
        rows = take_rows(gram, kept)
        values, vectors = eigh(take_rows(rows.T, kept))
        cross = vectors.T @ take_rows(rows.T, left_out).T
    positive = np.flatnonzero(to_numpy(values > rank_threshold(values, spectrum.n_rows)))
    if positive.size == values.shape[0]:
        return values, vectors, cross
    return take_rows(values, positive), take_rows(vectors.T, positive).T, take_rows(cross, positive)


def new_both_numbers(Y: Array, sides: Sequence[SideSize], n_alphas: int) -> float:
    """Return the peak of `new_both` for some regularisations."""
    (m, q), (few, many) = Y.shape, sorted(sides, key=lambda side: side.n_rows)
    n_threads = n_workers(Y, 4.0 * m * q * max(m, q) * min(m, q) * n_alphas)
    # In each thread the smaller side without one of its rows is decomposed, and some columns are worked on.
    thread = 7 * few.n_rows**2 + 8 * many.n_rows * max(192, 2**16 // many.n_rows)
    return float(m * q * (n_alphas + 1) + many.n_rows * many.rank + few.n_rows**2 + n_threads * thread)

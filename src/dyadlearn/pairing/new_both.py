r"""Hold-out in setting D for pair kernels that the eigenvectors of both sides diagonalise.

For each task j the tasks without j are decomposed, :math:`\mathbf{G}_{-j} =
\mathbf{W}\,\mathrm{diag}(\mathbf{t}) \mathbf{W}^\top`, and the labels rotated, :math:`\mathbf{Z} =
\mathbf{Y}_{-j}\mathbf{W}`. With the pairwise kernel
:math:`a\,\mathbf{K}\otimes\mathbf{G} + b\,\mathbf{K}\otimes\mathbf{I} + c\,\mathbf{I}\otimes\mathbf{G}` every column is
then an independent ridge problem with the kernel :math:`(at_c+b)\mathbf{K}` and the ridge
:math:`ct_c+\lambda`, whose leave-one-out is a division. The prediction for task j, to which only
the first term contributes, is the last factor:

.. math:: F_D[:, j] = \left[\left(\mathbf{Z} - \frac{\mathbf{U}(\boldsymbol\rho\circ\mathbf{U}^\top\mathbf{Z})}
          {(\mathbf{U}\circ\mathbf{U})\boldsymbol\rho}\right)\mathrm{diag}\frac{a}{a\mathbf{t}+b}\right]
          \mathbf{W}^\top\mathbf{G}_{-j,j}, \qquad \rho_{ic} = \frac{ct_c+\lambda}{(at_c+b)\sigma_i
          + ct_c + \lambda}.

The loop is over the side with fewer rows (or groups), in parallel threads. On a processor, the
kernel without task j is decomposed for each j. On an accelerator that is slow, and
`dyadlearn.pairing.constant.without_each` updates the spectrum of all tasks, for many single tasks
at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from dyadlearn._array import (
    Array,
    eigh,
    epsilon,
    is_foreign,
    largest,
    namespace,
    svd,
    take_rows,
    to_numpy,
    zeros,
)
from dyadlearn._threads import for_each
from dyadlearn.pairing.constant import (
    ConstantColumns,
    MeanOfOthers,
    ones_of,
    settled_ones,
    without_each,
)
from dyadlearn.solve.leaving import (
    Members,
    column_weights,
    gather_groups,
    in_order,
    leave_out_columns,
)
from dyadlearn.solve.operators import interpolation_floor
from dyadlearn.spectrum import Spectrum

# Approximate number of values of the arrays for several columns and regularisations: small enough
# for the cache, large enough to avoid a loop in Python.
_BLOCK_NUMBERS = 2**16
# The same for an accelerator.
_FOREIGN_BLOCK_NUMBERS = 2**24

#: Decomposes the tasks without some, see `_decomposed`.
_Without = Callable[[np.ndarray, np.ndarray], tuple[Array, Array, Array]]


def new_both(
    spectrum: Spectrum,
    task_spectrum: Spectrum,
    stack: Array,
    alphas: Sequence[float],
    members: Members = None,
    task_members: Members = None,
    *,
    shares: tuple[float, float, float] = (1.0, 0.0, 0.0),
    free_mean: bool = False,
    floors: tuple[float, ...] = (0.0, 0.0),
) -> Array:
    r"""Return the predictions for pairs whose instance and task are both left out (setting D).

    All regularisations share everything except :math:`\boldsymbol\rho`, and the labels of all grids
    are rotated together. In addition to the result, a grid needs about seven arrays of its size,
    for any number of regularisations.

    Parameters
    ----------
    spectrum, task_spectrum : Spectrum
    stack : array of shape (p, m, q)
        Labels of p grids.
    alphas : sequence of n floats
    members, task_members : lists of integer arrays, or None
        Row positions of each group of instances and of tasks.
    shares : (float, float, float)
        The terms a, b and c of the pairwise kernel.
    free_mean : bool
        Whether there is an unpenalised grand mean.
    floors : (float, float)
        Eigenvalues of each side up to this size count as zero, see `Spectrum.floor`.

    Returns
    -------
    array of shape (p, n, m, q)
    """
    groups = gather_groups(members, spectrum.n_rows)
    task_groups = gather_groups(task_members, task_spectrum.n_rows)
    xp = namespace(stack)
    product, per_task, per_instance = shares
    known = product > 0 and spectrum.values.shape[0] and task_spectrum.values.shape[0]
    (p, m, q), n = stack.shape, len(alphas)
    if not (known or free_mean):  # no direction to learn in
        return zeros((p, n, m, q), stack)
    if len(groups) < len(task_groups):
        given = (
            task_spectrum,
            spectrum,
            xp.permute_dims(stack, (0, 2, 1)),
            alphas,
            task_members,
            members,
        )
        swapped = (product, per_instance, per_task)
        held_out = new_both(*given, shares=swapped, free_mean=free_mean, floors=floors[::-1])
        return xp.permute_dims(held_out, (0, 1, 3, 2))
    if free_mean:
        offsets = xp.mean(stack, axis=(1, 2), keepdims=True)
    else:
        offsets = zeros((p, 1, 1), stack)
    stack = stack - offsets if free_mean else stack
    Y = stack[0, ...]
    # The grids one below the other, and the same with rotated instances.
    below, grids, k = xp.reshape(stack, (p * m, q)), range(p), spectrum.values.shape[0]
    rotated_below = xp.concat([spectrum.rotate(stack[grid, ...]) for grid in grids], axis=0)
    ones = ones_of(spectrum) if free_mean else None
    held_out = zeros((q, p, n, m), stack)
    numbers = _FOREIGN_BLOCK_NUMBERS if is_foreign(stack) else _BLOCK_NUMBERS
    blocks = _alpha_blocks(alphas, max(1, numbers // (m * q)))
    width = max(192, numbers // m)
    if free_mean:
        ones_of(task_spectrum)  # raises if ones are not in the span of the tasks
    # Null directions do not contribute to predictions of tasks, but their labels contribute to the
    # mean.
    without = _decomposed(task_spectrum, task_members is None, free_mean, floors[1])

    def ended(part: Array, ending: Array) -> Array:
        """Return predictions for the left-out tasks (n, m, left out) from rotated columns (m, n c)."""
        predictions = xp.reshape(part, (-1, ending.shape[0])) @ ending
        return xp.permute_dims(xp.reshape(predictions, (m, -1, ending.shape[1])), (1, 0, 2))

    def leave_out(group: np.ndarray) -> None:
        kept = np.delete(np.arange(q), group)
        if not kept.size:
            return
        # The eigenvectors have rows of zeros for the left-out tasks, so that the labels need not be
        # copied.
        values, vectors, cross = without(group, kept)
        predicted = zeros((p, n, m, group.size), Y)
        means = [MeanOfOthers.start(n, Y, members) for _ in grids]
        if ones is None:
            share = None
        else:
            share = settled_ones(xp.sum(vectors, axis=0), kept.size)
        of_ones = [zeros((n, m, group.size), Y) for _ in grids if ones is not None]
        for start in range(0, values.shape[0], width):
            chunk = slice(start, min(start + width, values.shape[0]))
            columns = xp.reshape(below @ vectors[:, chunk], (p, m, -1))
            turned = xp.reshape(rotated_below @ vectors[:, chunk], (p, k, -1))
            scales = product * values[chunk] + per_task
            ending = 0.0 * cross[chunk, :]
            if known:
                divisor = values[chunk, None] + per_task / product
                ending = cross[chunk, :] / xp.where(divisor > 0, divisor, 1.0)
            for block in blocks:
                ridges = xp.stack([per_instance * values[chunk] + alphas[index] for index in block])
                weights, direct = column_weights(spectrum, scales, ridges)
                floor = column_floor(spectrum, alphas[block[0]], scales, ridges)
                if ones is None:
                    constant = None
                else:
                    constant = ConstantColumns.of(spectrum, ones, scales, ridges, direct)
                beside = None if constant is None else constant.residuals
                diagonal = spectrum.diagonal(weights) if members is None else None
                for grid in grids:
                    labels = (columns[grid, ...], turned[grid, ...])
                    part, left = leave_out_columns(
                        spectrum,
                        weights,
                        direct,
                        *labels,
                        members,
                        floor,
                        residuals=beside,
                        diagonal=diagonal,
                    )
                    here = slice(block[0], block[-1] + 1)
                    if share is not None and constant is not None:
                        left = means[grid].add(here, constant, share[chunk], labels[0], part, left)
                        of_ones[grid][here, ...] += share[chunk] @ ending - ended(left, ending)
                    predicted[grid, here, ...] += ended(part, ending)
        for grid, known_ones in enumerate(of_ones):
            mean = means[grid].value(stack[grid, ...], "pairs")[:, :, None]
            predicted[grid, ...] += mean * (1.0 - known_ones) + offsets[grid, ...]
        for place, task in enumerate(group):
            held_out[int(task), ...] = predicted[..., place]

    for_each(leave_out, task_groups, Y, n_operations=4.0 * m * m * q * len(task_groups) * n * p)
    return xp.permute_dims(held_out, (1, 2, 3, 0))


def column_floor(spectrum: Spectrum, alpha: float, scales: Array, ridges: Array) -> float:
    """Return the lower bound of the slack 1 − h: 0 unless some column has a kernel and no ridge."""
    if alpha > 0 or not bool(namespace(scales).any((ridges == 0) & (scales[None, :] > 0))):
        return 0.0
    return interpolation_floor(alpha, spectrum)


def _alpha_blocks(alphas: Sequence[float], size: int) -> list[list[int]]:
    """Return consecutive blocks of positions of alphas; an alpha of 0 is a block, because its formulas differ."""
    blocks: list[list[int]] = []
    for index, alpha in enumerate(alphas):
        if blocks and len(blocks[-1]) < size and alpha != 0 and alphas[blocks[-1][0]] != 0:
            blocks[-1].append(index)
        else:
            blocks.append([index])
    return blocks


def _decomposed(spectrum: Spectrum, one_by_one: bool, keeps_null: bool, least: float) -> _Without:
    """Return a function that decomposes a side of q rows without some of them, given left-out and kept positions.

    The function returns eigenvalues (c,), eigenvectors (q, c) with rows of zeros for left-out rows,
    and WᵀG (c, left out). Eigenvalues up to `least` are set to zero. Unless `keeps_null`, null
    directions are removed, or their eigenvectors are zeros.
    """
    if is_foreign(spectrum.values) and one_by_one and not spectrum.is_truncated:
        return _downdated(spectrum, keeps_null, least)
    gram = None if spectrum.is_truncated else spectrum.matrix(spectrum.values)
    factor = spectrum.vectors * spectrum.values**0.5 if spectrum.is_truncated else None

    def without(left_out: np.ndarray, kept: np.ndarray) -> tuple[Array, Array, Array]:
        if gram is None:
            vectors, roots, right = svd(take_rows(factor, kept))
            values = roots**2
            threshold = (spectrum.n_rows * epsilon(roots) * largest(roots)) ** 2
            cross = (roots[:, None] * right) @ take_rows(factor, left_out).T
        else:
            rows = take_rows(gram, kept)
            threshold = least
            values, vectors = eigh(take_rows(rows.T, kept))
            cross = vectors.T @ take_rows(rows.T, left_out).T
        seen = namespace(values).astype(values > threshold, values.dtype)
        if keeps_null:
            values = values * seen
            cross = cross * seen[:, None]
        else:
            positive = np.flatnonzero(to_numpy(seen))
            values = take_rows(values, positive)
            cross = take_rows(cross, positive)
            vectors = take_rows(vectors.T, positive).T
        return (
            values,
            in_order([vectors, zeros((left_out.size, values.shape[0]), vectors)], [kept, left_out]),
            cross,
        )

    return without


def _downdated(spectrum: Spectrum, keeps_null: bool, least: float) -> _Without:
    """Return a function that decomposes a side without one row, computed for many rows at a time."""
    q, xp = spectrum.n_rows, namespace(spectrum.values)
    rows, decompositions = slice(0, 0), list[Array]()

    def without(left_out: np.ndarray, kept: np.ndarray) -> tuple[Array, Array, Array]:
        """Return the decomposition without a row; rows must be requested in their order."""
        nonlocal rows
        row = int(left_out[0])
        if not rows.start <= row < rows.stop:
            decompositions.clear()  # large
            rows = slice(row, min(row + max(1, 2 * _FOREIGN_BLOCK_NUMBERS // q**2), q))
            values, vectors, cross = without_each(spectrum.values, spectrum.vectors, rows)
            seen = xp.astype(values > least, values.dtype)
            decompositions.extend(
                (values * seen, vectors if keeps_null else vectors * seen[:, None, :], cross * seen)
            )
        values, vectors, cross = (each[row - rows.start, ...] for each in decompositions)
        return values, vectors, cross[:, None]

    return without

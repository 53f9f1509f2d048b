"""Between tables and what is learned of them: labels and kernels to learn from, and the kernel that comes of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dyadlearn._array import Array, cast, double, epsilon, namespace
from dyadlearn._memory import check_memory
from dyadlearn._tables import Table
from dyadlearn.kernels.descriptions import Descriptions
from dyadlearn.kernels.learned import LearnedKernel
from dyadlearn.learning.folds import Labels
from dyadlearn.learning.mixture import Mixture
from dyadlearn.learning.profiles import PROFILES
from dyadlearn.models._base import Training

__all__ = [
    "check_learning_memory",
    "final_kernel",
    "for_new_entities",
    "mixture_of",
    "order_as",
    "row_weights",
    "standardised",
    "with_ids",
]


def check_learning_memory(
    Y: Array,
    kernels: tuple[LearnedKernel | None, LearnedKernel | None],
    n_folds: int,
    profiled: tuple[bool, bool],
) -> None:
    """Raise if kernels to learn from do not fit in memory with what folds make of them."""
    m, q = Y.shape
    count, task_count = (0 if kernel is None else len(kernel.members) for kernel in kernels)
    # Grids of folds; of each side its kernels, their logarithms and powers, and the profiles of folds.
    numbers = (4.0 * n_folds + 16.0) * m * q
    for n, n_kernels, has_profiles in zip((m, q), (count, task_count), profiled, strict=True):
        if n_kernels:
            numbers += (3.0 * n_kernels + 5.0 + (4.0 * n_folds + 12.0) * has_profiles) * n * n
    check_memory(
        8 * numbers,
        Y,
        f"Learning {count + task_count} kernels of a grid of {m} × {q}",
        f"use fewer rows or fewer descriptions{', or stages=1' if any(profiled) else ''}",
    )


def order_as(given: Descriptions, side: Table, name: str) -> np.ndarray | None:
    """Return the positions that bring descriptions into the order of a side that was read; None if they are in it."""
    if given.row_ids is None or side.row_ids is None:
        return None
    return given.row_ids.order_as(side.row_ids, name, "the rows of Y")


def for_new_entities(kernel: LearnedKernel) -> LearnedKernel:
    """Return the kernel of a single table, divided by its mean diagonal where nobody knows that of new entities."""
    [member] = kernel.members
    if not (member.is_precomputed and member.normalized) or member.new_diagonal is not None:
        return kernel
    mean = float(namespace(member.diagonal).mean(member.diagonal))
    return LearnedKernel((replace(member, normalized=False, scale=mean or 1.0),))


def row_weights(weights: Array | None) -> Array | None:
    """Return what each instance weighs (m,), the mean of its cells; None where all weigh the same."""
    return None if weights is None else namespace(weights).mean(weights, axis=1)


def standardised(data: Training, constant: str | None) -> tuple[Labels, float, float]:
    """Return labels that deviate by one from their centre, zero where not observed, with the centre and by how much.

    The centre is zero where no constant would make up for another.
    """
    Y, xp = data.grid.values, namespace(data.grid.values)
    observed = ~xp.isnan(Y)
    present = Y[observed]
    share = xp.ones_like(present) if data.weights is None else data.weights[observed]
    share = share / xp.sum(share)
    centre = 0.0 if constant is None else float(xp.sum(share * present))
    size = float(xp.sum(share * (present - centre) ** 2)) ** 0.5
    # Labels that are all alike deviate by rounding alone.
    if size <= 1e3 * epsilon(Y) * abs(centre):
        size = 1.0
    values = xp.where(observed, (Y - centre) / size, xp.zeros_like(Y))
    return Labels(values, xp.astype(observed, Y.dtype), data.weights, constant), centre, size


def mixture_of(kernel: LearnedKernel, table: Table, constant: bool) -> Mixture:
    """Return the kernels of a side to learn from, of the rows of its wide table."""
    grams = list(kernel.blocks(double(table.values)))
    powers, free = zip(*((member.has_exponent, member.is_divisible) for member in kernel.members), strict=True)
    return Mixture(grams, powers, constant, free)


def final_kernel(
    kernel: LearnedKernel,
    table: Table,
    logits: np.ndarray,
    log_exponents: np.ndarray,
    profiles: Sequence[Array],
    constant: bool,
) -> tuple[LearnedKernel, Table, float]:
    """Return the kernel with what was learned, the table that it wants, and the weight that its constant had.

    All weights are over that of the constant, which is the unit then; without one they are as they are.
    """
    if profiles:
        n_given = len(kernel.members)
        kernel, table = kernel.joined(PROFILES, [cast(each, table.values.dtype) for each in profiles], table)
        # Exponents were learned of all profiles, of those that are the same everywhere too.
        members = [replace(each, has_exponent=True) for each in kernel.members[n_given:]]
        kernel = LearnedKernel((*kernel.members[:n_given], *members))
    mixture = Mixture([], [member.has_exponent for member in kernel.members], constant)
    weights = mixture.weights(logits)
    unit = float(weights[-1]) if constant else 1.0
    powers = iter(np.exp(log_exponents))
    exponents = [float(next(powers)) if member.has_exponent else 1.0 for member in kernel.members]
    return kernel.with_parameters(list(weights[: len(kernel.members)] / unit), exponents), table, unit


def with_ids(kernel: LearnedKernel | None, given: Descriptions | None, side: Table | None) -> LearnedKernel | None:
    """Return the kernel of descriptions that came without ids with those that the labels gave to their side."""
    if kernel is None or given is None or side is None or given.row_ids is not None:
        return kernel
    return LearnedKernel(
        tuple(replace(each, columns=side.row_ids) if each.is_precomputed else each for each in kernel.members)
    )

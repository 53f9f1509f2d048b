"""Decompose the sides of a model, for one or several kernels and constants, and fit a ridge model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from dyadlearn._parallel import collected
from dyadlearn._progress import Phase
from dyadlearn._tables import Table
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.models.reading import Training
from dyadlearn.models.side import KernelSpec, Side, computed_kernel, fit_side
from dyadlearn.models.spec import NO_CONSTANTS, Constants, ModelSpec

#: Decompositions of one kernel of a side, by the constant that is added to it.
LevelSides = dict[float, Side]

_NAMES = ("instance", "task")


@dataclass(frozen=True, eq=False)
class Kernels:
    """Kernels and constants to decompose.

    Attributes
    ----------
    sides : (sequence of KernelSpec, sequence of KernelSpec)
        Kernels of the instances and of the tasks.
    constants : sequence of Constants
        Pairs of constants, which are used if constants are features.
    """

    sides: tuple[Sequence[KernelSpec], Sequence[KernelSpec]]
    constants: Sequence[Constants]

    @classmethod
    def of(cls, spec: ModelSpec) -> Kernels:
        """Return the kernels of a model without a search."""
        return cls(([spec.kernels[0]], [spec.kernels[1]]), [spec.constants])

    def used_constants(self, kind: str | None) -> Sequence[Constants]:
        """Return the pairs of constants for a kind of constant."""
        if kind == "feature":
            return self.constants
        return [NO_CONSTANTS]


def decomposed(spec: ModelSpec, data: Training, kernels: Kernels) -> list[tuple[Side, ...]]:
    """Return the decomposed sides in the order of `combined`, one decomposition per kernel and constant of a side."""
    tables = data.sides if spec.uses_tasks else data.sides[:1]
    constant = spec.constant(len(tables) > 1)
    pairs = kernels.used_constants(constant)
    by_kernel = []
    for axis, table in enumerate(tables):
        specs = [replace(kernel, constant=constant) for kernel in kernels.sides[axis]]
        levels = dict.fromkeys(pair[axis] for pair in pairs)
        by_kernel.append(collected(partial(_at_levels, table, _NAMES[axis], levels), specs))
    return combined(spec, by_kernel, pairs)


def _at_levels(
    table: Table, name: str, levels: Collection[float], kernel: KernelSpec
) -> LevelSides:
    """Return the decompositions of one side with a kernel, one for each constant."""
    # Constants share the kernel, which may take long to compute.
    gram = computed_kernel(table, kernel) if len(levels) > 1 else None
    sides = {}
    for level in levels:
        with Phase(f"Decomposing {table.values.shape[0]:,} {name}s"):
            sides[level] = fit_side(table, replace(kernel, level=level), name, gram)
    return sides


def combined(
    spec: ModelSpec, by_kernel: Sequence[list[LevelSides]], constants: Sequence[Constants]
) -> list[tuple[Side, ...]]:
    """Return all combinations of an instance kernel, a task kernel and a pair of constants, in this order.

    A network has the same nodes on both sides; without tasks there is one side.
    """
    combinations = []
    chosen: Any = product(*by_kernel, constants)
    for *kernels, levels in chosen:
        sides = [by_level[level] for by_level, level in zip(kernels, levels, strict=False)]
        if spec.sign:
            sides *= 2
        combinations.append(tuple(sides))
    return combinations


def fit_ridge(spec: ModelSpec, data: Training, alphas: Mapping[str, Any]) -> FittedRidge:
    """Return the model that is fitted on checked data."""
    [sides] = decomposed(spec, data, Kernels.of(spec))
    return FittedRidge.solve(spec, data, sides, alphas)

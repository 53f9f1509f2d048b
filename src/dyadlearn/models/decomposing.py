"""Decompose the sides of a model, for one or several kernels and constants, and fit a ridge model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from dyadlearn._array import Array
from dyadlearn._parallel import collected
from dyadlearn._progress import Phase
from dyadlearn._tables import Table
from dyadlearn.models.fitted import FittedRidge
from dyadlearn.models.reading import Training
from dyadlearn.models.side import KernelSpec, Side, computed_kernel, fit_side
from dyadlearn.models.spec import NO_CONSTANTS, Constants, ModelSpec

#: Decomposed kernels of one side, by the constant that is added to them.
LevelSides = dict[float, list[Side]]
#: Decomposed sides: one row per instance kernel, with one entry per task kernel and pair of
#: constants.
SideGrid = list[list[tuple[Side, ...]]]

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


def decomposed(spec: ModelSpec, data: Training, kernels: Kernels) -> SideGrid:
    """Return the decomposed sides, one decomposition per kernel and constant of a side."""
    tables = data.sides if spec.uses_tasks else data.sides[:1]
    constant = spec.constant(len(tables) > 1)
    pairs = kernels.used_constants(constant)
    by_level: list[LevelSides] = []
    for axis, table in enumerate(tables):
        specs = [replace(kernel, constant=constant) for kernel in kernels.sides[axis]]
        levels = dict.fromkeys(pair[axis] for pair in pairs)
        by_level.append(_decomposed_side(table, specs, _NAMES[axis], levels))
    return in_pairs(spec, by_level, pairs)


def _decomposed_side(
    table: Table, kernels: Sequence[KernelSpec], name: str, levels: Iterable[float]
) -> LevelSides:
    """Return the decompositions of one side for each kernel and constant."""
    levels = list(levels)
    work = partial(_at_levels, table, name, levels)
    by_level = [list(sides) for sides in zip(*collected(work, kernels), strict=True)]
    return dict(zip(levels, by_level, strict=True))


def _at_levels(table: Table, name: str, levels: Sequence[float], kernel: KernelSpec) -> list[Side]:
    """Return the decomposition of one side with a kernel for each constant."""
    # Constants share the kernel, which may take long to compute.
    gram = computed_kernel(table, kernel) if len(levels) > 1 else None
    return [_decompose(table, replace(kernel, level=level), name, gram) for level in levels]


def _decompose(table: Table, spec: KernelSpec, name: str, kernel: Array | None) -> Side:
    """Return a decomposed side, as `fit_side` does; it takes long if there are many rows."""
    with Phase(f"Decomposing {table.values.shape[0]:,} {name}s"):
        return fit_side(table, spec, name, kernel)


def in_pairs(
    spec: ModelSpec, by_level: Sequence[LevelSides], constants: Sequence[Constants]
) -> SideGrid:
    """Return all combinations of the decomposed sides.

    Each pair of kernels is followed by the same pair with the other constants. A network has the
    same nodes on both sides.
    """
    grid: SideGrid = []
    n_kernels = len(by_level[0][constants[0][0]])
    for number in range(n_kernels):
        row: list[tuple[Side, ...]] = []
        columns = [_columns(by_level, pair) for pair in constants]
        for others in zip(*columns, strict=True):
            for pair, other in zip(constants, others, strict=True):
                side = by_level[0][pair[0]][number]
                if spec.sign:
                    row.append((side, side))
                else:
                    row.append((side, *other))
        grid.append(row)
    return grid


def _columns(by_level: Sequence[LevelSides], constants: Constants) -> list[tuple[Side, ...]]:
    """Return the task sides with a constant, each as a tuple; one empty tuple without tasks."""
    if len(by_level) == 1:
        return [()]
    return [(side,) for side in by_level[1][constants[1]]]


def fit_ridge(spec: ModelSpec, data: Training, alphas: Mapping[str, Any]) -> FittedRidge:
    """Return the model that is fitted on checked data."""
    [[sides]] = decomposed(spec, data, Kernels.of(spec))
    return FittedRidge.solve(spec, data, sides, alphas)

r"""What memory each piece of work takes at its peak, beyond what is there before it begins.

Everything is counted in numbers: a grid of m × q labels, a kernel of n × n, features of n × d. The counts follow the
arrays that the code holds at once, and what LAPACK takes on the way; where a solver chooses by cost among several ways,
they lie between the least and the most. ``python benchmarks/memory.py`` compares them with what is really taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "SideSize",
    "cells_numbers",
    "completion_numbers",
    "fit_numbers",
    "folds_numbers",
    "holdout_numbers",
    "landscape_numbers",
    "new_both_numbers",
    "pairs_numbers",
    "predict_numbers",
    "scoring_numbers",
]


@dataclass(frozen=True)
class SideSize:
    """How large a side is.

    Attributes
    ----------
    n_rows : int
    rank : int
        Columns of its eigenvectors: n in the dual, in the primal no more than d.
    n_columns : int
        Columns of what was given: d features, or n kernel values.
    form : {"gram", "kernel", "features", "sparse"}
        A given kernel, a kernel function of features, or the primal on dense or sparse features.
    """

    n_rows: int
    rank: int
    n_columns: int
    form: str

    @property
    def decomposing(self) -> int:
        """While the side is decomposed."""
        n, d = self.n_rows, self.n_columns
        if self.form == "gram":  # a copy, the eigenvectors, and two more as workspace
            return 4 * n * n
        if self.form == "kernel":  # the kernel itself, and the features are kept
            return 5 * n * n + n * d
        if self.form == "sparse":  # features times features, decomposed as a kernel is
            return 5 * d * d
        return 3 * n * d + 5 * d * d  # a copy, singular vectors inside LAPACK and out of it, workspace

    @property
    def kept(self) -> int:
        """Once it is decomposed."""
        n, d = self.n_rows, self.n_columns
        return {"gram": n * n, "kernel": n * n + n * d, "features": n * d + d * d, "sparse": d * d}[self.form]

    def part(self, share: float) -> SideSize:
        """Return the size of a side that keeps a share of its rows, as it is decomposed anew."""
        n = round(share * self.n_rows)
        return SideSize(n, min(n, self.rank), min(n, self.rank), "features" if self.is_primal else "gram")

    @property
    def coefficients(self) -> int:
        """Rows of the coefficients: of the side, or in the primal features."""
        return self.n_columns if self.is_primal else self.n_rows

    @property
    def is_primal(self) -> bool:
        """Whether coefficients are those of features."""
        return self.form in ("features", "sparse")

    @property
    def basis(self) -> int:
        """What is made to go from spectral to model coefficients."""
        return self.n_columns * self.rank if self.is_primal else 0

    @property
    def vectors(self) -> int:
        """Eigenvectors that are not there before they are asked for."""
        return self.n_rows * self.rank if self.form == "sparse" else 0

    @property
    def operator(self) -> int:
        """The side as one matrix, which is formed where that saves work."""
        return self.n_rows**2 if 2 * self.rank >= self.n_rows else 0


def fit_numbers(
    method: str, shape: tuple[int, int], sides: Sequence[SideSize], *, observed: float = 1.0, weighted: bool = False
) -> dict[str, float]:
    """Return the peak of each step of a fit: decomposing the instances, the tasks, and solving for the grid.

    Parameters
    ----------
    method : {"independent", "two_step", "kronecker", "network"}
    shape : (int, int)
        Of the grid.
    sides : one or two of SideSize
        What is decomposed: instances, and tasks where there are any.
    observed : float, default=1.0
        Share of the cells that are.
    weighted : bool, default=False
    """
    grid = shape[0] * shape[1]
    # The labels are copied, and so are weights; what is checked of them leaves masks of one byte for a number.
    labels = (2.0 if weighted else 1.0) * grid
    steps, kept = {}, labels
    for name, side in zip(("instance", "task"), sides, strict=False):
        steps[name] = kept + side.decomposing
        kept += side.kept
    pair = [*sides, sides[0]][:2] if method == "network" else list(sides)
    solving = _closed(method, shape, pair)
    if weighted or observed < 1:
        # The completed grid and the unknowns of the solver are kept.
        solving = max(completion_numbers(method, shape, pair, observed, weighted), 2 * grid + solving)
    steps["grid"] = max(kept + solving, labels + (1.4 if weighted else 0.2) * grid)
    return steps


def _closed(method: str, shape: tuple[int, int], sides: Sequence[SideSize]) -> float:
    """Return the peak of a closed form: labels are rotated, weighed, and turned into coefficients."""
    q, side = shape[1], sides[0]
    if len(sides) == 1:
        return side.basis + q * (side.rank + max(side.rank, side.coefficients))
    tasks = sides[1]
    rotated, rows, columns = side.rank * tasks.rank, side.coefficients, tasks.coefficients
    half = max(rows * tasks.rank, side.rank * columns)
    weighing = 4 * rotated if method == "kronecker" else 0  # 1/(σs + λ) and what it is made of
    # Two-step ridge regression turns one side only, unless both are in the primal; then a network is made symmetric.
    both = method == "kronecker" or (side.is_primal and tasks.is_primal)
    turning = rotated + half + (rows * columns if both else 0)
    step = max(side.rank * q + rotated, weighing, turning)
    return side.basis + tasks.basis + step + (rows * columns if both and method == "network" else 0)


def completion_numbers(
    method: str, shape: tuple[int, int], sides: Sequence[SideSize], observed: float, weighted: bool
) -> float:
    """Return the peak of completing a grid with missing or weighted labels."""
    grid, vectors = shape[0] * shape[1], sum(side.vectors for side in sides)
    if len(sides) == 1:
        return vectors + _columns(sides[0], grid, observed, weighted)
    rotated, operators = sides[0].rank * sides[1].rank, sum(side.operator for side in sides)
    eigenvectors = sum(side.n_rows * side.rank for side in sides)
    # A deflation is there where it pays: its small system, its share of the eigenvectors, the lists it works on.
    # Where few features stand for the grid it seldom does.
    share = 0.5 * rotated / grid
    if method == "kronecker":
        deflation = _small_system(4.0, grid, rotated) + 0.5 * eigenvectors + observed * grid
        return vectors + operators + (1.2 + 6.3 * observed) * grid + 4.5 * rotated + share * deflation
    if weighted:
        deflation = _small_system(4.0, grid, rotated) + 1.5 * grid
        return vectors + 11.7 * grid + 2.5 * rotated + share * deflation
    return vectors + operators + 7.5 * grid + rotated + share * _small_system(1.5, grid, rotated)


def _columns(side: SideSize, grid: int, observed: float, weighted: bool) -> float:
    """Return the peak of completing every column on its own: matrices of the side, a system, patterns, results."""
    if side.rank < side.n_rows:
        square = 2.0 * side.n_rows * side.rank + 3.0 * side.rank**2
    elif weighted:
        square = 3.0 * side.n_rows**2
    else:  # the smaller of two systems is solved, and that of the missing rows takes a matrix more
        square = ((2.2 if observed > 0.5 else 1.2) + 3.0 * min(observed, 1.0 - observed) ** 2) * side.n_rows**2
    return square + (5.9 if weighted else 3.3) * grid


def _small_system(grids: float, grid: int, rotated: int) -> int:
    """Return how large the small system of a deflation may be: as some grids, but no less than a few MiB."""
    return min(max(900, math.isqrt(int(grids * grid))), rotated) ** 2


def holdout_numbers(
    method: str, setting: str, shape: tuple[int, int], sides: Sequence[SideSize], *, largest_group: int = 1
) -> float:
    """Return the peak of hold-out predictions on a complete grid, where both sides of a pair are not left out together.

    Parameters
    ----------
    method, shape, sides : as in `fit_numbers`
    setting : {"A", "B", "C", "D"}
    largest_group : int, default=1
        Of instances or tasks that are left out together.
    """
    grid, vectors = shape[0] * shape[1], sum(side.vectors for side in sides)
    squares = max(min(side.n_rows * side.rank, 2**23) for side in sides)  # squared eigenvectors come in blocks
    # Groups are predicted one by one and put in order at the end.
    gathered = 0.0
    if largest_group > 1:
        gathered = 2.2 * grid + max(largest_group * (side.rank + 1.5 * largest_group) for side in sides)
        if method == "kronecker":  # one small system for each column, some of them at a time
            gathered += 2**19
    if method == "network":
        return vectors + {"A": 8.0, "D": 15.0}.get(setting, 6.0) * grid
    if len(sides) == 1:
        return vectors + max(2.0 * grid, _product(sides[0], shape[1]), squares) + gathered
    side, tasks = sides
    if method == "kronecker":
        rotated = side.rank * tasks.rank
        mixed = max(side.rank * shape[1], tasks.rank * shape[0])
        return vectors + max(2.0 * grid + 2.0 * rotated + 3.0 * mixed, grid + mixed + squares) + gathered
    product = max(_product(side, shape[1]), _product(tasks, shape[0]))
    # Groups of tasks leave first, with no grid halfway yet.
    halfway = 0 if setting == "C" and largest_group > 1 else grid
    formed = max((4.0 if setting == "A" else 2.0) * grid, product) + halfway + gathered
    left_out = {"B": [side], "C": [tasks]}.get(setting, [side, tasks])  # sides whose leverages are wanted
    squares = max(min(each.n_rows * each.rank, 2**23) for each in left_out)
    return vectors + max(formed, squares + (grid if setting == "A" else 0))


def _product(side: SideSize, width: int) -> float:
    """Return what a product with an operator of a side takes: through its eigenvectors, or as one matrix."""
    n, k = side.n_rows, side.rank
    return float(k * width + n * width if 2 * k * width <= n * (k + width) else 2 * n * n)


def new_both_numbers(shape: tuple[int, int], sides: Sequence[SideSize], n_alphas: int, n_threads: int) -> float:
    """Return the peak of Kronecker hold-out where instance and task are both new, for some regularisations."""
    few, many = sorted(sides, key=lambda side: side.n_rows)
    # In each thread the smaller side without one of its rows is decomposed, and some columns are worked on.
    thread = 7 * few.n_rows**2 + 8 * many.n_rows * max(192, 2**16 // many.n_rows)
    grid = shape[0] * shape[1]
    return grid * (n_alphas + 1) + many.n_rows * many.rank + few.n_rows**2 + n_threads * thread


def folds_numbers(
    method: str,
    shape: tuple[int, int],
    sides: Sequence[SideSize],
    n_folds: tuple[int, int],
    *,
    apart: bool,
    observed: float,
    weighted: bool,
) -> float:
    """Return the peak of leaving out folds and solving again.

    Parameters
    ----------
    method, shape, sides, observed, weighted : as in `fit_numbers`
    n_folds : (int, int)
        Of the instances and of the tasks; folds of cells count as the former.
    apart : bool
        Whether rows and columns that are left out are taken out of the grid, with their part of the kernels.
    """
    grid, total = shape[0] * shape[1], n_folds[0] * n_folds[1]
    mask, solved = total * grid / 8, 1.0 if len(sides) == 1 else 2.0
    if not apart:
        # Of each fold its labels and what was found for it, from which the next solve starts.
        return mask + total * (1 + solved) * grid + completion_numbers(method, shape, sides, observed, weighted) + grid
    left = [1.0 if count == 1 else 1.0 - 1.0 / count for count in n_folds]
    parts = [side.part(share) for side, share in zip(sides, left, strict=True)]
    spectra = sum(count * part.n_rows * part.rank for count, part in zip(n_folds, parts, strict=True) if count > 1)
    inside = (parts[0].n_rows, parts[1].n_rows)
    cells = inside[0] * inside[1]
    running = completion_numbers(method, inside, parts, observed, weighted) + 2 * grid
    return mask + total * (1 + solved) * cells + spectra + running


def cells_numbers(method: str, shape: tuple[int, int], sides: Sequence[SideSize], n_folds: int) -> float:
    """Return the peak of leaving out folds of cells of a complete grid."""
    observed = 1.0 - 1.0 / n_folds
    if method == "kronecker":  # its system of the missing cells is the one that is solved
        method = "two_step"
    return completion_numbers(method, shape, sides, observed, False) + 4.5 * shape[0] * shape[1]


def pairs_numbers(n_cells: int) -> float:
    """Return the peak of leaving out single cells by one dense system of all that are observed."""
    return 5.0 * n_cells**2


def scoring_numbers(shape: tuple[int, int], n_settings: int) -> float:
    """Return what labels prepared for the scores of each setting take, and the scores of one grid after the other."""
    # Between what errors take and what ranks do.
    return (0.8 + 4.9 * n_settings) * shape[0] * shape[1]


def landscape_numbers(
    shape: tuple[int, int], n_alphas: tuple[int, int], stacked: int, closed: tuple[int, int], settings: str
) -> float:
    """Return the peak of a landscape of two-step ridge regression.

    Parameters
    ----------
    shape : (int, int)
    n_alphas : (int, int)
        Regularisations of the instances and of the tasks.
    stacked : int
        How many grids are worked on together.
    closed : (int, int)
        How many operators of the instances and of the tasks the closed form of squared error takes; 0 without it.
    settings : str
        Letters of those whose predictions are formed.
    """
    (m, q), (n, n_tasks) = shape, n_alphas
    if m < q:
        (m, q), (n, n_tasks), closed = (q, m), (n_tasks, n), closed[::-1]
    # Operators of the tasks and their squares; for the instances Gram matrices and cross products.
    found = (2 * closed[1] * n_tasks + 2 * closed[0] * n) * q * q + 7 * m * q if any(closed) else 0
    # Left products, predictions and what scores take of them, of one setting or derived for several.
    stacks = (8 if len(settings) > 1 else 4) * min(n, stacked) if settings else 0
    return max(found, (stacks + 4) * m * q)


def predict_numbers(a: int, b: int, halfway: int, in_blocks: int) -> int:
    """Return the peak of predicting a × b labels.

    Parameters
    ----------
    a, b : int
    halfway : int
        What stands between the steps over one side and the other.
    in_blocks : int
        The block of kernel rows that is there at a time.
    """
    return a * b + halfway + in_blocks

r"""What memory each piece of work takes at its peak, beyond what is there before it begins.

Everything is counted in numbers: a grid of m × q labels, a kernel of n × n, features of n × d. The counts follow the
arrays that the code holds at once, and what LAPACK takes on the way; where a solver chooses by cost among several ways,
they lie between the least and the most. What a model takes beside, it says itself (see `dyadlearn.pairing`).
``python benchmarks/memory.py`` compares all of it with what is really taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "SideSize",
    "columns_numbers",
    "gathered_numbers",
    "landscape_numbers",
    "learning_numbers",
    "pairs_numbers",
    "predict_numbers",
    "product_numbers",
    "scoring_numbers",
    "small_system",
    "squares_numbers",
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
    form : {"gram", "kernel", "features", "wide", "sparse"}
        A given kernel, a kernel function of features, or a linear kernel of dense features, fewer than rows or not, or
        of sparse ones.
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
        if self.form == "wide":  # singular vectors of both sides, a block of features and its decomposition
            return 7 * n * n + 3 * n * d
        return 3 * n * d + 5 * d * d  # a block, singular vectors inside LAPACK and out of it, workspace

    @property
    def kept(self) -> int:
        """Once it is decomposed."""
        n, d = self.n_rows, self.n_columns
        kept = {"gram": n * n, "kernel": n * n + n * d, "features": n * d + d * d, "wide": 3 * n * n + n * d}
        return kept.get(self.form, d * d)

    def part(self, share: float) -> SideSize:
        """Return the size of a side that keeps a share of its rows, as it is decomposed anew."""
        n = round(share * self.n_rows)
        return SideSize(n, min(n, self.rank), min(n, self.rank), "features" if self.is_primal else "gram")

    @property
    def coefficients(self) -> int:
        """Rows of the coefficients: of the side, or in the primal features."""
        return self.n_columns if self.form in ("features", "sparse") else self.n_rows

    @property
    def is_primal(self) -> bool:
        """Whether coefficients are those of features."""
        return self.form in ("features", "sparse", "wide")

    @property
    def basis(self) -> int:
        """What is made to go from spectral to model coefficients."""
        return self.coefficients * self.rank if self.is_primal else 0

    @property
    def vectors(self) -> int:
        """Eigenvectors that are not there before they are asked for."""
        return self.n_rows * self.rank if self.form == "sparse" else 0

    @property
    def operator(self) -> int:
        """The side as one matrix, which is formed where that saves work."""
        return self.n_rows**2 if 2 * self.rank >= self.n_rows else 0


def columns_numbers(side: SideSize, grid: int, observed: float, weighted: bool) -> float:
    """Return the peak of completing every column on its own: matrices of the side, a system, patterns, results."""
    if side.rank < side.n_rows:
        square = 2.0 * side.n_rows * side.rank + 3.0 * side.rank**2
    elif weighted:
        square = 3.0 * side.n_rows**2
    else:  # the smaller of two systems is solved, and that of the missing rows takes a matrix more
        square = ((2.2 if observed > 0.5 else 1.2) + 3.0 * min(observed, 1.0 - observed) ** 2) * side.n_rows**2
    return square + (5.9 if weighted else 3.3) * grid


def learning_numbers(
    shape: tuple[int, int], n_kernels: tuple[int, int], *, n_folds: int, profiled: tuple[bool, bool]
) -> float:
    """Return the peak of learning kernels: all of them, their logarithms and powers, the profiles and grids of folds.

    Parameters
    ----------
    shape : (int, int)
        How many instances and tasks there are.
    n_kernels : (int, int)
        How many kernels each side has; 0 for tasks of which nothing is known.
    n_folds : int
    profiled : (bool, bool)
        Whether each side is described by two profiles as well, of each fold and of all labels.
    """
    numbers = (4.0 * n_folds + 16.0) * math.prod(shape)
    for n, count, has_profiles in zip(shape, n_kernels, profiled, strict=True):
        if count:  # profiles of one fold are made in double precision, while those of all are kept
            numbers += (3.0 * count + 5.0 + (4.0 * (n_folds + 1) + 8.0) * has_profiles) * n * n
    return numbers


def small_system(grids: float, grid: int, rotated: int) -> int:
    """Return how large the small system of a deflation may be: as some grids, but no less than a few MiB."""
    return min(max(900, math.isqrt(int(grids * grid))), rotated) ** 2


def gathered_numbers(grid: int, sides: Sequence[SideSize], largest_group: int) -> float:
    """Return what groups take that are predicted one by one and put in order at the end."""
    if largest_group == 1:
        return 0.0
    return 2.2 * grid + max(largest_group * (side.rank + 1.5 * largest_group) for side in sides)


def squares_numbers(sides: Sequence[SideSize]) -> int:
    """Return what squared eigenvectors take, which come in blocks."""
    return max(min(side.n_rows * side.rank, 2**23) for side in sides)


def product_numbers(side: SideSize, width: int) -> float:
    """Return what a product with an operator of a side takes: through its eigenvectors, or as one matrix."""
    n, k = side.n_rows, side.rank
    return float(k * width + n * width if 2 * k * width <= n * (k + width) else 2 * n * n)


def pairs_numbers(n_cells: int) -> float:
    """Return the peak of leaving out single cells by one dense system of all that are observed."""
    return 5.0 * n_cells**2


def scoring_numbers(shape: tuple[int, int], n_settings: int) -> float:
    """Return what labels prepared for the scores of each setting take, and the scores of one grid after the other."""
    # Between what errors take and what ranks do.
    return (0.8 + 2.9 * n_settings) * shape[0] * shape[1]


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

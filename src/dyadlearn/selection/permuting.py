r"""Labels that are permuted against their instances and tasks, and what a model makes of them.

Permuting leaves the kernels, and so both spectra, as they are: with a permutation P of the instances only
:math:`\mathbf{U}^\top\mathbf{PY}` is new. The predictions are put back to where the labels came from, so that what a
score computes of the labels alone is computed once.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from dyadlearn._array import Array, itemsize, namespace, take_block, to_numpy
from dyadlearn._memory import holdout_numbers
from dyadlearn.exceptions import NotEnoughMemoryError
from dyadlearn.holdout import Problem, Units
from dyadlearn.metrics import PreparedScorer
from dyadlearn.pairing.leaving import group_members, refuse
from dyadlearn.settings import Setting

__all__ = ["SIDES", "Permutation", "drawn", "null_mean", "per_stack", "permuted_scores", "stacks", "what_is_new"]

#: What can be permuted: one side, both, or the nodes of a network, which are both.
SIDES = ("instances", "tasks", "both", "vertices")

# About how many bytes a stack of permuted grids and what is made of it take.
_STACK_BYTES = 2**27
# Grids that are held at once for each one of a stack.
_GRIDS = 8


@dataclass(frozen=True, eq=False)
class Permutation:
    """Where the labels of a grid are taken to.

    Attributes
    ----------
    rows, columns : integer arrays of shape (m,) and (q,)
        Instance i gets the labels of instance ``rows[i]``, and task j those of ``columns[j]``.
    """

    rows: np.ndarray
    columns: np.ndarray

    def of(self, grid: Array) -> Array:
        """Return a grid (m, q) permuted."""
        return take_block(grid, self.rows, self.columns)

    def back(self, grid: Array) -> Array:
        """Return what stands where `of` takes it."""
        return take_block(grid, np.argsort(self.rows), np.argsort(self.columns))


def what_is_new(problem: Problem, setting: Setting) -> str:
    """Return what is permuted if nothing is said: what is new in a setting, as far as there is more than one of it.

    Permuting anything else would ask another question: a model may well predict a new instance whose labels moved to
    other tasks together with all others.
    """
    if problem.pairing.symmetry:
        return "vertices"
    if not problem.pairing.knows_tasks or setting is Setting.B:
        return "instances"
    if setting is Setting.C:
        return "tasks"
    m, q = problem.Y.shape
    return "both" if min(m, q) > 1 else "instances" if m > 1 else "tasks"


def drawn(permuted: str, shape: tuple[int, int], random: np.random.RandomState) -> Iterator[Permutation]:
    """Yield random permutations of one of `SIDES`, without an end."""
    still = [np.arange(size) for size in shape]
    while True:
        rows = still[0] if permuted == "tasks" else random.permutation(shape[0])
        if permuted == "vertices":
            yield Permutation(rows, rows)
        else:
            yield Permutation(rows, still[1] if permuted == "instances" else random.permutation(shape[1]))


def per_stack(Y: Array) -> int:
    """Return how many permuted grids are worked on together."""
    m, q = Y.shape
    return int(max(1, _STACK_BYTES // (_GRIDS * itemsize(Y) * max(1, m * q))))


def permuted_scores(
    problem: Problem, setting: Setting, permutations: Sequence[Permutation], score: PreparedScorer, units: Units
) -> np.ndarray:
    """Score hold-out predictions of a complete grid whose labels were permuted, under the same regularisation.

    Parameters
    ----------
    problem : Problem
        Whose labels are complete.
    setting : Setting
    permutations : sequence of n Permutation
        No more than `per_stack`.
    score : PreparedScorer
        Of the labels as they are.
    units : Units
        What leaves together. It stays with its instances and tasks, and the labels move.

    Returns
    -------
    array of shape (n,)
    """
    problem.pairing.check_leaving()
    Y, xp = problem.Y, namespace(problem.Y)
    members = group_members(units.instances, Y.shape[0], "groups")
    groups = (members, group_members(units.tasks, Y.shape[1], "task_groups"))
    largest = max((rows.size for each in groups for rows in each or ()), default=1)
    n_grids, ranks = problem.pairing.holdout_grids, problem.pairing.ranks
    need = holdout_numbers(Y.shape, ranks, n_grids, largest_group=largest, n_stacked=len(permutations))
    refuse(need, Y, setting, ", permuted")
    stack = xp.stack([permutation.of(Y) for permutation in permutations])
    held_out = problem.pairing.holdout_stack(stack, setting, *groups)
    for place, permutation in enumerate(permutations):
        stack[place, ...] = permutation.back(held_out[place, ...])
    return np.asarray(to_numpy(score(stack)), dtype=np.float64)


def null_mean(problem: Problem, setting: Setting, units: Units, score: PreparedScorer, n_permutations: int) -> float:
    """Return the mean score of a few permuted labels under the same regularisation: what no signal at all looks like.

    It is no test, for which there are too few of them, and of a model that chose its regularisation by the true labels
    it is no null distribution either: see `dyadlearn.permutation_test`. The permutations are the same each time.

    Parameters
    ----------
    problem : Problem
    setting : Setting
    units : Units
        What leaves together.
    score : PreparedScorer
        Of predictions (m, q).
    n_permutations : int

    Returns
    -------
    float
        NaN without permutations, where labels are missing or weighted so that each permutation would be solved for
        anew, where a side would be decomposed again and again, and where the score is undefined or memory short.
    """
    is_closed = problem.is_complete and units.cells is None and not math.isnan(problem.pairing.alphas["alpha"])
    is_closed = is_closed and not problem.pairing.uses_labels
    if not n_permutations or not is_closed or problem.pairing.decomposes(setting):
        return math.nan
    permuted = what_is_new(problem, setting)
    axes = {"instances": (0,), "tasks": (1,)}.get(permuted, (0, 1))
    if any(problem.Y.shape[axis] < 2 for axis in axes):
        return math.nan
    draws = drawn(permuted, tuple(problem.Y.shape), np.random.RandomState(0))
    scores: list[np.ndarray] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whatever is to be said was said of the labels as they are
        try:
            for some in stacks(draws, n_permutations, per_stack(problem.Y)):
                scores.append(permuted_scores(problem, setting, some, score, units))
        except (ValueError, ArithmeticError, NotEnoughMemoryError):
            return math.nan
    return float(np.concatenate(scores).mean())


def stacks(draws: Iterator[Permutation], n_permutations: int, size: int) -> Iterator[list[Permutation]]:
    """Yield so many permutations, some together."""
    for start in range(0, n_permutations, size):
        yield [next(draws) for _ in range(start, min(start + size, n_permutations))]

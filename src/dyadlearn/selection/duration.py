"""How long a search takes that solves folds again, before it does.

One fold is solved roughly, at the middle of the grid, and that time is counted as often as the search will solve one;
decompositions of what folds leave are counted as often as there are parts to decompose. Small regularisations take more
iterations and large ones fewer, so that half or twice of what is told is no surprise.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass

from sklearn.exceptions import ConvergenceWarning

from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Plan, Problem
from dyadlearn.holdout.folds import Folds
from dyadlearn.selection.coarse import ROUGH_ITER, ROUGH_TOL, n_expected

__all__ = ["SearchTime", "expected_time"]

# A solution to all digits costs about as much as so many rough ones: iterations, and the set-up of a deflation.
_FULL_COST = 2.5


@dataclass(frozen=True)
class SearchTime:
    """What a search is going to do, and how long that takes, about.

    Attributes
    ----------
    seconds : float
        0.0 where nothing is solved again.
    n_solves : int
        Folds that are solved, all regularisations together.
    n_points : int
        Regularisations that are looked at, most of them roughly.
    n_grid : int
        All that were given.
    n_folds : int
        0 where nothing is solved again.
    """

    seconds: float = 0.0
    n_solves: int = 0
    n_points: int = 0
    n_grid: int = 0
    n_folds: int = 0

    def times(self, count: int) -> SearchTime:
        """Return the work of so many searches like this one."""
        return SearchTime(
            count * self.seconds, count * self.n_solves, count * self.n_points, count * self.n_grid, self.n_folds
        )

    @property
    def in_words(self) -> str:
        """One sentence.

        Examples
        --------
        >>> from dyadlearn.selection.duration import SearchTime
        >>> SearchTime(52.0, 400, 39, 196, 25).in_words
        'Looking at about 39 of 196 regularisations, in 25 folds that are solved again: about 1 minute.'
        >>> SearchTime().in_words
        'Nothing is solved again: a few matrix products.'
        """
        if not self.n_folds:
            return "Nothing is solved again: a few matrix products."
        many = f"all {self.n_grid}" if self.n_points == self.n_grid else f"about {self.n_points} of {self.n_grid}"
        return (
            f"Looking at {many} regularisations, in {self.n_folds} folds that are solved again: "
            f"about {_in_words(self.seconds)}."
        )


def expected_time(how: Plan, middle: Problem, shape: tuple[int, int], coarse: bool) -> SearchTime:
    """Return how long it takes to look at a grid of regularisations.

    Parameters
    ----------
    how : Plan
        Its folds keep the decompositions that are made here.
    middle : Problem
        The same under a regularisation in the middle of the grid.
    shape : (int, int)
        Of the grid.
    coarse : bool
        Whether the search goes from coarse to fine.

    Returns
    -------
    SearchTime
    """
    n_grid = shape[0] * shape[1]
    if how.folds is None:
        return SearchTime(n_points=n_grid, n_grid=n_grid)
    folds = how.folds
    n_folds = folds.n_folds
    first, solve = _seconds(folds, middle), _seconds(folds, middle)
    # Sides that are cut are decomposed once for each part, of which the first solve has seen one of each.
    n_parts = len(folds.scouts) - 1 if folds.apart else 0
    scouted, climbed = n_expected(shape)
    if coarse:
        solves = scouted * len(folds.scouts) + climbed * n_folds
        full = 3 * n_folds  # the last ones, and what is kept
        points = min(scouted + climbed, n_grid)
    else:
        solves, full, points = 0, (n_grid + 1) * n_folds, n_grid
    seconds = first + n_parts * max(first - solve, 0.0) + (solves + _FULL_COST * full) * solve
    return SearchTime(seconds, solves + full, points, n_grid, n_folds)


def _seconds(folds: Folds, middle: Problem) -> float:
    """Return how long one rough fold takes from nothing; what it finds is not kept."""
    begun = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            folds.held_out(middle.pairing, ROUGH_TOL, max_iter=ROUGH_ITER, numbers=[0])
    except LeverageError:  # which says so when it is looked at
        pass
    taken = time.perf_counter() - begun
    folds.starts[0] = None
    return taken


def _in_words(seconds: float) -> str:
    """Return a time as somebody would say it."""
    for unit, size in (("hour", 3600.0), ("minute", 60.0), ("second", 1.0)):
        if seconds >= 0.75 * size or unit == "second":
            count = max(1, round(seconds / size))
            return f"{count} {unit}{'s' if count > 1 else ''}"
    raise AssertionError

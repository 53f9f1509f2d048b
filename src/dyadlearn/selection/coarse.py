r"""Regularisations that are solved for one by one: all of them, or from coarse to fine, and for as long as one likes.

Where labels are missing or weighted, every regularisation is solved for again in every fold. A search from coarse to
fine looks at few of them, and at most of these roughly:

1. *Scouting.* Every fourth value of a long grid, from strong to weak. Then, with steps of two values and of one, all
   neighbours of each peak: a point that is no worse than those around it, and within a hundredth of the best one. Of
   the folds of setting D, which cut both sides, those on the diagonal will do for this, as long as they have labels
   enough; and conjugate gradients stop at a residual of :math:`10^{-2}`, or after 60 iterations.
2. *Climbing.* The best point so far and its nearest neighbours are solved for in all folds, as roughly, until none of
   the neighbours is better.
3. *Finishing.* The best rough score is solved for again at the tolerance of a full search, until the best score of all
   is such a one. So no score that is chosen is rough, and one that was not looked at more closely was no better.

Each solve starts from the nearer of two: the regularisation before, and the best one. Points that were not looked at in
all folds have no score: NaN. Why rough scores will do: what a few iterations do not find are directions of little
weight, which change the score in its third digit; where they change more, for regularisations that are far too small,
the score is bad already and is only too good by what is not found.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, namespace, to_numpy
from dyadlearn._progress import Progress
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Plan, Problem
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics import PreparedScorer
from dyadlearn.metrics.choice import as_good, best_point
from dyadlearn.selection.observed import prepared_score

__all__ = [
    "ROUGH_ITER",
    "ROUGH_TOL",
    "Clock",
    "Looked",
    "Looking",
    "Scores",
    "look_coarsely",
    "look_everywhere",
    "middle",
    "n_expected",
    "steps_of",
]

Point = tuple[int, int]

# Scores need no more digits than this, and the last ones are the dearest.
SEARCH_TOL = 1e-5
# When a rough solution stops.
ROUGH_TOL, ROUGH_ITER = 1e-2, 60
# Peaks this share below the best one are looked around as well.
_NEAR = 0.01
# So many labels in the folds on the diagonal tell good from bad.
_ENOUGH_LABELS = 2000
# From so many values on an axis, every second one, or every fourth, is looked at first.
_TWOS, _FOURS = 7, 13


class OutOfTimeError(Exception):
    """The time of a search is up."""


@dataclass
class Clock:
    """How long a search may take, from when it is made.

    Attributes
    ----------
    budget : float or None
        Seconds; None is no limit.
    stopped : {"budget", "interrupt"} or None
        What ended the search before its end.
    """

    budget: float | None = None
    stopped: str | None = None
    _began: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise where the time is up."""
        if self.budget is not None and time.monotonic() - self._began > self.budget:
            raise OutOfTimeError


@dataclass(frozen=True, eq=False)
class Looked:
    """What was found of the regularisations of one problem.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        NaN where there is none, or nobody looked.
    at : boolean array of the same shape
        Where somebody looked.
    how : Plan or None
        Whose folds start from what is nearest to the best point.
    """

    scores: np.ndarray
    at: np.ndarray
    how: Plan | None = None


@dataclass
class Looking:
    """How a search looks at regularisations that are solved for one by one, and what it has found last.

    Attributes
    ----------
    clock : Clock
    exhaustive : bool
        Whether every value is looked at.
    announce : callable or None
        Is told how much work there is before it is done: see `dyadlearn.selection.duration`.
    latest : Looked or None
        Of the last problem; None where its scores were had without solving again.
    """

    clock: Clock = field(default_factory=Clock)
    exhaustive: bool = False
    announce: Callable[[Plan, Problem, tuple[int, int], bool], None] | None = None
    latest: Looked | None = None

    def look(
        self,
        score: Scores,
        alphas: Sequence[float],
        task_alphas: Sequence[float],
        progress: bool | None = None,
    ) -> np.ndarray:
        """Return scores of shape (n_alphas, n_task_alphas); parameters as in `look_everywhere`."""
        how, shape = score.how, (len(alphas), len(task_alphas))
        coarse = self.is_coarse(how, shape)
        if self.announce is not None:
            self.announce(how, how.problem.at(middle(alphas), middle(task_alphas)), shape, coarse)
        look = look_coarsely if coarse else look_everywhere
        self.latest = look(score, alphas, task_alphas, progress, self.clock)
        return self.latest.scores

    def is_coarse(self, how: Plan, shape: tuple[int, int]) -> bool:
        """Tell whether a grid is looked at from coarse to fine."""
        return how.folds is not None and not self.exhaustive and max(len(steps_of(size)) for size in shape) > 1


def middle(values: Sequence[float]) -> float:
    """Return the value in the middle of a grid, of two the larger."""
    return float(np.sort(values)[len(values) // 2])


def steps_of(n_values: int) -> list[int]:
    """Return the steps from coarse to fine of an axis with so many values.

    Examples
    --------
    >>> from dyadlearn.selection.coarse import steps_of
    >>> steps_of(5), steps_of(9), steps_of(14)
    ([1], [2, 1], [4, 2, 1])
    """
    return [4, 2, 1] if n_values >= _FOURS else [2, 1] if n_values >= _TWOS else [1]


def n_expected(shape: tuple[int, int]) -> tuple[int, int]:
    """Return how many points of a grid a search from coarse to fine looks at, about: to scout, and in all folds."""
    steps = [steps_of(size) for size in shape]
    lattice = int(np.prod([len(_lattice(size, own[0])) for size, own in zip(shape, steps, strict=True)]))
    n_axes = sum(size > 1 for size in shape)
    around = (3**n_axes - 1) * (max(map(len, steps)) - 1)
    return min(lattice + around, shape[0] * shape[1]), min(1 + 3 * n_axes, shape[0] * shape[1])


def _lattice(n_values: int, step: int) -> list[int]:
    """Return every so many-th of the places on an axis, as far from one end as from the other."""
    return list(range((n_values - 1) % step // 2, n_values, step))


class Scores:
    """Scores of the hold-out predictions that a plan makes, one regularisation after the other.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    quiet : bool
        As in `dyadlearn.holdout.lone.scored_labels`.
    """

    def __init__(self, how: Plan, scoring: Any, quiet: bool) -> None:
        self.how, self.scoring, self.quiet = how, scoring, quiet
        self.refusal: LeverageError | None = None
        # Labels that have no score are refused before anything is left out.
        self._of_all = prepared_score(how.problem, scoring, how.setting)
        self._prepared: dict[bool, PreparedScorer] = {}

    def at(self, alpha: float, task_alpha: float, tol: float, check: Callable[[], None], **folds: Any) -> float:
        """Return the score of one regularisation, NaN where the model interpolates what is to be left out.

        Parameters
        ----------
        alpha, task_alpha : float
        tol : float
            When conjugate gradients stop.
        check : callable
            As in `dyadlearn.holdout.folds.Folds.held_out`, as are others.
        """
        how, some = self.how, folds.get("numbers") is not None
        problem = how.problem.at(alpha, task_alpha)
        check()
        try:
            with warnings.catch_warnings():
                # Not once for each fold and regularisation, but all together in the end.
                if how.folds is None:
                    held_out = how.held_out(problem, tol)
                else:
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    held_out = how.folds.held_out(problem.pairing, tol, check=check, **folds)
        except LeverageError as error:
            self.refusal = error
            return float("nan")
        if some not in self._prepared:  # labels that are predicted are the same for all regularisations
            if some:
                labels = _where_predicted(how.problem.targets, held_out)
            else:
                labels = scored_labels(how.problem, held_out, how.setting, quiet=self.quiet, stacklevel=6)
            prepared = self._of_all
            if labels is not how.problem.targets:
                prepared = prepared_score(how.problem, self.scoring, how.setting, labels)
            self._prepared[some] = prepared
        return float(self._prepared[some](held_out))

    @property
    def is_rough(self) -> bool:
        """Whether a fold was not solved to its tolerance when it was last left out."""
        return self.how.folds is not None and not self.how.folds.converged


def _where_predicted(labels: Array, held_out: Array) -> Array:
    """Return labels, NaN where nothing is predicted."""
    xp = namespace(labels)
    missing = as_array_of(np.isnan(to_numpy(held_out)), labels)
    return xp.where(missing, xp.full_like(labels, float("nan")), labels)


def look_everywhere(
    score: Scores,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    progress: bool | None = None,
    clock: Clock | None = None,
) -> Looked:
    """Score one regularisation after the other, where labels are missing or weighted, in one setting.

    Parameters
    ----------
    score : Scores
    alphas, task_alphas : sequences of float
        A single `task_alphas` where there is one regularisation.
    progress : bool, default=None
        Whether to show a progress bar; None shows one on a terminal.
    clock : Clock, default=None
        Ends the work; None leaves that, and an interrupt, to the caller.

    Returns
    -------
    Looked
        If the model interpolates what is to be left out everywhere, that is raised.
    """
    how, shape, n_rough = score.how, (len(alphas), len(task_alphas)), 0
    tol, scores, looked = max(how.problem.tol, SEARCH_TOL), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    check = _never if clock is None else clock.check

    def walk() -> None:
        nonlocal n_rough
        # From strong to weak, there and back again: neighbours on the path are neighbours in the grid.
        path = np.argsort(task_alphas)[::-1]
        for row in np.argsort(alphas)[::-1]:
            for column in path:
                # A result at any time wants a first one.
                given = check if looked.any() else _never
                scores[row, column] = score.at(alphas[row], task_alphas[column], tol, given)
                looked[row, column] = True
                n_rough += score.is_rough and not np.isnan(scores[row, column])
                bar.advance()
            path = path[::-1]

    with Progress(scores.size, f"Landscape {how.setting.value}", progress) as bar:
        _timed(walk, clock, lambda: bool(np.isfinite(scores).any()))
    if score.refusal is not None and np.isnan(scores).all():
        raise score.refusal
    _warn_of_rough(n_rough, int(looked.sum()), how, tol)
    return Looked(scores, looked, how)


def _never() -> None:
    """Leave the time to others."""


def _timed(work: Callable[[], None], clock: Clock | None, has_result: Callable[[], bool]) -> None:
    """Do some work until the clock, or somebody at the keyboard, ends it; without a result an interrupt goes on."""
    try:
        work()
    except OutOfTimeError:
        assert clock is not None
        clock.stopped = "budget"
    except KeyboardInterrupt:
        if clock is None or not has_result():
            raise
        clock.stopped = "interrupt"


def _warn_of_rough(n_rough: int, n_points: int, how: Plan, tol: float) -> None:
    if n_rough:
        warnings.warn(
            f"For {n_rough} of {n_points} regularisations {how.problem.max_iter} conjugate-gradient iterations did not "
            f"reach a relative residual of {tol:g}, so that their scores are rough: raise max_iter, or leave out the "
            "smallest regularisations.",
            ConvergenceWarning,
            stacklevel=5,
        )


def look_coarsely(
    score: Scores,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    progress: bool | None,
    clock: Clock,
) -> Looked:
    """Look for the best regularisation from coarse to fine, where folds are solved again.

    Parameters and returns are those of `look_everywhere`.
    """
    how, walk = score.how, _Walk(score, (alphas, task_alphas), clock)
    n_scouted, n_climbed = n_expected(walk.shape)
    with Progress(n_scouted + n_climbed + 2, f"Search {how.setting.value}", progress) as walk.bar:
        _timed(walk.go, clock, lambda: bool(np.isfinite(walk.scouted).any()))
        if clock.stopped is not None and not np.isfinite(walk.known).any():
            walk.look_once()
    if np.isnan(walk.known).all():
        if score.refusal is not None:
            raise score.refusal
    else:
        walk.start_at(walk.best(walk.known))
    _warn_of_rough(walk.n_rough, int(walk.looked.sum()), how, walk.tol)
    return Looked(walk.on_grid(walk.known, np.nan), walk.on_grid(walk.looked, False), how)


class _Walk:
    """A search from coarse to fine, over places in axes that run from strong to weak."""

    bar: Progress

    def __init__(self, score: Scores, grids: Sequence[Sequence[float]], clock: Clock) -> None:
        how = score.how
        assert how.folds is not None
        self.score, self.check, self.folds = score, clock.check, how.folds
        self.order = [np.argsort(values, kind="stable")[::-1] for values in grids]
        self.values = [
            np.asarray(values, dtype=np.float64)[order] for values, order in zip(grids, self.order, strict=True)
        ]
        self.shape = (len(self.values[0]), len(self.values[1]))
        self.tol = max(how.problem.tol, SEARCH_TOL)
        # Scores of the folds on the diagonal, and of all of them; which of the latter are no longer rough.
        self.known, self.looked = np.full(self.shape, np.nan), np.zeros(self.shape, dtype=bool)
        self.fine, self.n_rough = np.zeros(self.shape, dtype=bool), 0
        scouts = self.folds.scouts
        is_enough = len(scouts) < self.folds.n_folds and self.folds.n_tested(scouts) >= _ENOUGH_LABELS
        self.scouts = scouts if is_enough else None
        self.scouted = self.known if self.scouts is None else np.full(self.shape, np.nan)
        self.was_scouted = self.looked if self.scouts is None else np.zeros(self.shape, dtype=bool)
        # Where the last solutions stand, and the best ones, from which the next one may start.
        self.last: Point | None = None
        self.kept: tuple[Point, list[Any]] | None = None

    def go(self) -> None:
        """Scout, climb and finish."""
        steps = [steps_of(size) for size in self.shape]
        self._scout(_snake(*(_lattice(size, own[0]) for size, own in zip(self.shape, steps, strict=True))))
        if not np.isfinite(self.scouted).any():  # nothing but what interpolates: maybe elsewhere it does not
            self._scout(_snake(*(list(range(size)) for size in self.shape)))
        if not np.isfinite(self.scouted).any():
            self.known[:], self.looked[:] = np.nan, True
            return
        for level in range(max(map(len, steps))):
            reach = (steps[0][min(level, len(steps[0]) - 1)], steps[1][min(level, len(steps[1]) - 1)])
            while new := [place for peak in self._peaks(reach) for place in self._around(peak, reach)]:
                self._scout(sorted(dict.fromkeys(new)))
        self._climb()
        self._finish()

    def look_once(self) -> None:
        """Look at the best point so far in all folds, though the time is up; at the strongest where there is none."""
        self.check = _never
        best = self.best(self.scouted) if np.isfinite(self.scouted).any() else (0, 0)
        self._look(best, fine=False)

    def best(self, scores: np.ndarray) -> Point:
        """Return the best place, of equals the most regularised."""
        row, column = best_point(scores, self.values[0], self.values[1])
        return row, column

    def _scout(self, places: Iterable[Point]) -> None:
        for place in places:
            if self.was_scouted[place]:
                continue
            if self.scouts is None:
                self._look(place, fine=False)
                continue
            self.scouted[place] = self._scored(place, ROUGH_TOL, numbers=self.scouts, max_iter=ROUGH_ITER)
            self.was_scouted[place] = True

    def _peaks(self, reach: Point) -> list[Point]:
        """Return the places near the best score that no other is better than within twice the reach."""
        scores = np.where(np.isnan(self.scouted), -np.inf, self.scouted)
        best = self.best(self.scouted)
        near = scores >= scores[best] - _NEAR * abs(scores[best])
        near[best] = True
        places: list[Point] = [(int(row), int(column)) for row, column in np.argwhere(near)]
        return [
            place
            for place in places
            if not any(
                self._beats(scores, other, place)
                for other in places
                if other != place and all(abs(a - b) <= 2 * far for a, b, far in zip(other, place, reach, strict=True))
            )
        ]

    def _beats(self, scores: np.ndarray, other: Point, place: Point) -> bool:
        """Tell whether another place is better, or as good and more regularised."""
        if as_good(scores[other], scores[place]) and as_good(scores[place], scores[other]):
            return sum(other) < sum(place)
        return bool(scores[other] > scores[place])

    def _neighbours(self, place: Point, reach: Point) -> list[Point]:
        """Return the places so many steps away, along the axes and across."""
        found = []
        for down in (-reach[0], 0, reach[0]):
            for right in (-reach[1], 0, reach[1]):
                other = (place[0] + down, place[1] + right)
                if (down or right) and 0 <= other[0] < self.shape[0] and 0 <= other[1] < self.shape[1]:
                    found.append(other)
        return found

    def _around(self, place: Point, reach: Point) -> list[Point]:
        """Return the neighbours that nobody has scouted."""
        return [other for other in self._neighbours(place, reach) if not self.was_scouted[other]]

    def _climb(self) -> None:
        """Look in all folds at the best place and its nearest neighbours, until none of these is better."""
        self._look(self.best(self.scouted), fine=False)
        if not np.isfinite(self.known).any():  # the folds on the diagonal had a score, others have none
            for row, column in np.argwhere(np.isfinite(self.scouted)).tolist():
                self._look((row, column), fine=False)
            if not np.isfinite(self.known).any():
                return
        while True:
            row, column = self.best(self.known)
            steps = ((-1, 0), (0, -1), (0, 1), (1, 0))
            beside = [(row + down, column + right) for down, right in steps]
            new = [each for each in beside if each in self and not self.looked[each]]
            if not new:
                return
            for place in new:
                self._look(place, fine=False)

    def __contains__(self, place: Point) -> bool:
        return 0 <= place[0] < self.shape[0] and 0 <= place[1] < self.shape[1]

    def _finish(self) -> None:
        """Solve for the best place at the tolerance of a full search, until the best one is such."""
        while np.isfinite(self.known).any() and not self.fine[best := self.best(self.known)]:
            self._look(best, fine=True)

    def _look(self, place: Point, *, fine: bool) -> None:
        """Score a place in all folds."""
        if self.looked[place] and not fine:
            return
        rough = {} if fine else {"max_iter": ROUGH_ITER}
        found = self._scored(place, self.tol if fine else ROUGH_TOL, **rough)
        self.n_rough += fine and self.score.is_rough
        self.known[place], self.looked[place], self.fine[place] = found, True, fine
        if np.isfinite(found) and self.best(self.known) == place:
            self.kept = place, list(self.folds.starts)

    def _scored(self, place: Point, tol: float, **folds: Any) -> float:
        self.start_at(place)
        self.last = None  # an error leaves folds halfway
        alpha, task_alpha = (float(values[at]) for values, at in zip(self.values, place, strict=True))
        found = self.score.at(alpha, task_alpha, tol, self.check, **folds)
        self.last = place if np.isfinite(found) else None
        self.bar.advance()
        return found

    def start_at(self, place: Point) -> None:
        """Let folds start from the nearer of the last solutions and the best ones."""
        if self.kept is None:
            return
        if self.last is None or _distance(place, self.kept[0]) <= _distance(place, self.last):
            self.folds.starts[:] = self.kept[1]

    def on_grid(self, found: np.ndarray, empty: Any) -> np.ndarray:
        """Return what was found in the order of the values as they were given."""
        given = np.full_like(found, empty)
        given[np.ix_(*self.order)] = found
        return given


def _snake(rows: Sequence[int], columns: Sequence[int]) -> list[Point]:
    """Return places row by row, there and back again."""
    found: list[Point] = []
    for row in rows:
        found += [(row, column) for column in columns]
        columns = columns[::-1]
    return found


def _distance(first: Point, second: Point) -> int:
    return abs(first[0] - second[0]) + abs(first[1] - second[1])

r"""Scores of regularisations that are solved for one by one: all of them, or a coarse-to-fine search.

Where labels are missing or weighted, every regularisation is solved for again in every fold. The coarse-to-fine search
evaluates every fourth value of each axis, the middle of the grid first. Then it evaluates the neighbours of the best
point, two values away and then one, until all neighbours of the best point have a score. Each solve starts from the
solution of the point before.

The search compares points by rough solutions: conjugate gradients stop at a relative residual of :math:`10^{-2}` or
after 60 iterations. In setting D, whose folds cut both sides, it uses the folds on the diagonal alone if they have
enough labels. The directions that a few iterations do not resolve have little weight: they change the score in its
third digit.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from dyadlearn._array import Array, as_array_of, namespace, to_numpy
from dyadlearn._progress import Progress
from dyadlearn.exceptions import LeverageError
from dyadlearn.holdout import Plan
from dyadlearn.holdout.lone import scored_labels
from dyadlearn.metrics.choice import best_point
from dyadlearn.selection.observed import prepared_score

__all__ = ["Evaluated", "coarse_to_fine", "score_points"]

Point = tuple[int, int]

# Tolerance of conjugate gradients where all points are evaluated: scores need no more digits.
_TOL = 1e-5
# Tolerance and number of iterations of the rough solutions of a search.
_ROUGH = {"tol": 1e-2, "max_iter": 60}
# Number of labels in the folds on the diagonal from which these suffice for a search.
_ENOUGH_LABELS = 2000
# Number of values on an axis from which the search is coarse to fine.
_LONG = 7
# Distance between the first points on an axis, and from the best point to its neighbours.
_COARSE, _STEPS = 4, (2, 1)


class Evaluated(NamedTuple):
    """Scores of a grid of regularisations.

    Attributes
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        NaN where a point has no score or was not evaluated.
    n_points : int
        Number of points that were evaluated.
    is_rough : bool
        Whether the scores are those of rough solutions.
    was_interrupted : bool
        Whether an interrupt from the keyboard ended the search.
    """

    scores: np.ndarray
    n_points: int
    is_rough: bool
    was_interrupted: bool


def coarse_to_fine(
    scores: np.ndarray, alphas: Sequence[float], task_alphas: Sequence[float], steps: Sequence[int] = _STEPS
) -> Iterator[Point]:
    """Yield the points that a coarse-to-fine search evaluates.

    Parameters
    ----------
    scores : array of shape (n_alphas, n_task_alphas)
        The caller writes the score of each point here before it asks for the next one.
    alphas, task_alphas : sequences of float
        In any order.
    steps : sequence of int
        Distances from the best point to its neighbours, in turn.

    Yields
    ------
    (row, column)

    Examples
    --------
    >>> import numpy as np
    >>> from dyadlearn.selection.coarse import coarse_to_fine
    >>> scores = np.full((14, 1), np.nan)
    >>> for point in coarse_to_fine(scores, np.arange(14.0), [1.0]):
    ...     scores[point] = -abs(point[0] - 4)
    >>> np.flatnonzero(np.isfinite(scores)).tolist()
    [1, 3, 4, 5, 6, 7, 11]
    """
    orders = [np.argsort(values, kind="stable") for values in (alphas, task_alphas)]
    ranks = [np.argsort(order) for order in orders]
    evaluated: set[Point] = set()

    def new(points: Iterator[Point]) -> Iterator[Point]:
        for first, second in points:
            inside = 0 <= first < len(orders[0]) and 0 <= second < len(orders[1])
            if inside and (first, second) not in evaluated:
                evaluated.add((first, second))
                yield int(orders[0][first]), int(orders[1][second])

    yield from new(product(*(_every_fourth(len(order)) for order in orders)))
    if np.isnan(scores).all():  # the model interpolates there, and perhaps not elsewhere
        yield from new(product(*(range(len(order)) for order in orders)))
    if np.isnan(scores).all():
        return
    for step in steps:
        n_before = -1
        while len(evaluated) > n_before:
            n_before = len(evaluated)
            best = best_point(scores, alphas, task_alphas)
            around = [[own[at] + move for move in (0, step, -step)] for own, at in zip(ranks, best, strict=True)]
            yield from new(product(*around))


def _every_fourth(n_values: int) -> list[int]:
    """Return every fourth position of an axis, from the middle outwards."""
    middle = n_values // 2
    return sorted(range(middle % _COARSE, n_values, _COARSE), key=lambda position: abs(position - middle))


def _n_expected(shape: Point) -> int:
    """Return about how many points a coarse-to-fine search evaluates."""
    n_axes = sum(size > 1 for size in shape)
    n_first = len(_every_fourth(shape[0])) * len(_every_fourth(shape[1]))
    return min(n_first + len(_STEPS) * (3**n_axes - 1), shape[0] * shape[1])


def _all_points(alphas: Sequence[float], task_alphas: Sequence[float]) -> Iterator[Point]:
    """Yield all points from strong to weak; successive points are neighbours, which helps warm starts."""
    path = np.argsort(task_alphas)[::-1]
    for row in np.argsort(alphas)[::-1]:
        for column in path:
            yield int(row), int(column)
        path = path[::-1]


class _PointScore:
    """Score of the hold-out predictions of one regularisation after the other.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    quiet : bool
        As in `dyadlearn.holdout.lone.scored_labels`.
    is_rough : bool
        Whether folds are solved roughly, and in setting D those on the diagonal alone.
    """

    def __init__(self, how: Plan, scoring: Any, quiet: bool, is_rough: bool) -> None:
        self.how, self._scoring, self._quiet = how, scoring, quiet
        # Raises an error before any solve if the score of the labels is undefined.
        self._prepared = prepared_score(how.problem, scoring, how.setting)
        self._is_first = True
        self.tol = max(how.problem.tol, _TOL)
        self._options: dict[str, Any] = dict(_ROUGH) if is_rough else {"tol": self.tol}
        self._on_diagonal = False
        if is_rough and how.folds is not None:
            diagonal = how.folds.scouts
            self._on_diagonal = len(diagonal) < how.folds.n_folds and how.folds.n_tested(diagonal) >= _ENOUGH_LABELS
            if self._on_diagonal:
                self._options["numbers"] = diagonal

    def __call__(self, alpha: float, task_alpha: float) -> float:
        how = self.how
        problem = how.problem.at(alpha, task_alpha)
        if how.folds is None:
            held_out = how.held_out(problem, self.tol)
        else:
            with warnings.catch_warnings():
                # One warning for all points follows in the end.
                warnings.simplefilter("ignore", ConvergenceWarning)
                held_out = how.folds.held_out(problem.pairing, **self._options)
        if self._is_first:  # the labels that have a prediction are the same for all regularisations
            if self._on_diagonal:
                labels = _where_predicted(how.problem.targets, held_out)
            else:
                labels = scored_labels(how.problem, held_out, how.setting, quiet=self._quiet, stacklevel=5)
            if labels is not how.problem.targets:
                self._prepared = prepared_score(how.problem, self._scoring, how.setting, labels)
            self._is_first = False
        return float(self._prepared(held_out))


def _where_predicted(labels: Array, held_out: Array) -> Array:
    """Return labels, NaN where nothing is predicted."""
    xp = namespace(labels)
    missing = as_array_of(np.isnan(to_numpy(held_out)), labels)
    return xp.where(missing, xp.full_like(labels, float("nan")), labels)


def score_points(
    how: Plan,
    scoring: Any,
    alphas: Sequence[float],
    task_alphas: Sequence[float],
    *,
    search: bool = False,
    exhaustive: bool = True,
    quiet: bool = False,
    progress: bool | None = None,
) -> Evaluated:
    """Score regularisations one after the other, where labels are missing or weighted.

    Parameters
    ----------
    how : Plan
    scoring : str, callable or Scorer
    alphas, task_alphas : sequences of float
        A single `task_alphas` where there is one regularisation.
    search : bool, default=False
        Whether an interrupt from the keyboard keeps the scores so far, if there are any.
    exhaustive : bool, default=True
        Whether all points are evaluated, instead of a coarse-to-fine search of long grids whose folds are solved again.
    quiet : bool, default=False
        As in `dyadlearn.holdout.lone.scored_labels`.
    progress : bool, default=None
        As in `dyadlearn._progress.Progress`.

    Returns
    -------
    Evaluated

    Raises
    ------
    LeverageError
        If the model interpolates what is to be left out at every point.
    """
    shape = len(alphas), len(task_alphas)
    is_coarse = not exhaustive and how.folds is not None and max(shape) >= _LONG
    score = _PointScore(how, scoring, quiet, is_coarse)
    scores, n_points, n_unconverged, refusal, was_interrupted = np.full(shape, np.nan), 0, 0, None, False
    points = coarse_to_fine(scores, alphas, task_alphas) if is_coarse else _all_points(alphas, task_alphas)
    n_expected = _n_expected(shape) if is_coarse else scores.size
    with Progress(n_expected, f"{'Search' if search else 'Landscape'} {how.setting.value}", progress) as bar:
        try:
            for row, column in points:
                try:
                    scores[row, column] = score(alphas[row], task_alphas[column])
                    n_unconverged += how.folds is not None and not how.folds.converged
                except LeverageError as error:
                    refusal = error
                n_points += 1
                bar.advance()
        except KeyboardInterrupt:
            if not search or np.isnan(scores).all():
                raise
            was_interrupted = True
    if refusal is not None and np.isnan(scores).all():
        raise refusal
    if n_unconverged and not is_coarse:
        warnings.warn(
            f"For {n_unconverged} of {n_points} regularisations {how.problem.max_iter} conjugate-gradient iterations "
            f"did not reach a relative residual of {score.tol:g}, so that their scores are rough: raise max_iter, or "
            "leave out the smallest regularisations.",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Evaluated(scores, n_points, is_coarse, was_interrupted)
